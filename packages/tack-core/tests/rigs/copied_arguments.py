"""NumPy arguments on devices whose memory is not host memory: copied to the device for a call, and back after it.

Tack refuses such calls, since a hidden copy would cost more than the kernel. Tests of what a kernel computes need not
know: on such a device they run on copies, and see what the kernel left in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tack
from tack.lang.array import READ_ONLY
from tack.lang.types import dtype_of_numpy
from tack.runtime import dispatch


class Copies:
    """The device copies of the arrays of one call; one array given twice is one copy."""

    def __init__(self, device: tack.Device) -> None:
        self.device = device
        self.made: list[tuple[np.ndarray[Any, Any], tack.Array]] = []

    def of(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or not is_usable(value):
            return value  # a number, or what Tack must refuse by itself
        for known, copy in self.made:
            if known is value or same_memory(known, value):
                return copy.reshape(value.shape)
            if np.may_share_memory(known, value):
                pytest.skip(f"device {self.device.name} has no host memory, for arrays that overlap in part")
        if value.dtype == np.float64 and not self.device.supports("f64"):
            pytest.skip(f"device {self.device.name} lacks f64")
        copy = tack.asarray(value, device=self.device)
        copy._key |= 0 if value.flags.writeable else READ_ONLY
        self.made.append((value, copy))
        return copy

    def take_back(self) -> None:
        for value, copy in self.made:
            if value.flags.writeable:
                value[...] = copy.numpy()


def is_usable(value: np.ndarray[Any, Any]) -> bool:
    """Whether a host device would take the array as it is."""
    return value.flags.c_contiguous and value.dtype.isnative and dtype_of_numpy(value.dtype) is not None


def same_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes and a.dtype == b.dtype


def copy_arguments(monkeypatch: pytest.MonkeyPatch, device: tack.Device) -> None:
    """Let kernels take NumPy arrays on `device` until the test is over."""
    call: Callable[..., Any] = dispatch.KernelState.call

    def with_copies(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if tack.current_device() != device:
            return call(self, args, kwargs)
        copies = Copies(device)
        there = [copies.of(value) for value in args], {name: copies.of(value) for name, value in kwargs.items()}
        try:
            return call(self, tuple(there[0]), there[1])
        finally:
            copies.take_back()

    monkeypatch.setattr(dispatch.KernelState, "call", with_copies)
