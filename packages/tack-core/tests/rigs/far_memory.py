"""A device whose memory is not host memory: its addresses are numbers that only its own copies understand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tack
from tack.lang.ir import IRKernel
from tack.runtime import device as device_module
from tack.runtime.backend import Backend, Executable, VariantOptions

FIRST_ADDRESS = 64


class FarBackend(Backend):
    """One flat memory; an address that is used as a host address would crash the process."""

    name = "far"
    capabilities = frozenset({"f64"})

    def __init__(self) -> None:
        self.memory = bytearray(FIRST_ADDRESS)
        self.waits = 0

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        address = len(self.memory)
        self.memory += bytes(nbytes)
        return address, None

    def upload(self, address: int, source: np.ndarray[Any, Any]) -> None:
        self.memory[address : address + source.nbytes] = source.tobytes()

    def download(self, address: int, target: np.ndarray[Any, Any]) -> None:
        part = np.frombuffer(bytes(self.memory[address : address + target.nbytes]), target.dtype)
        target[...] = part.reshape(target.shape)

    def compile(self, kernel: IRKernel, options: VariantOptions) -> Executable:
        raise NotImplementedError("this device has memory only")

    def synchronize(self) -> None:
        self.waits += 1


def register(monkeypatch: pytest.MonkeyPatch, name: str, backend: type[Backend]) -> None:
    """Make a backend class a device of Tack while the test runs."""
    monkeypatch.setitem(device_module._REGISTRY, name, device_module._Row(lambda: backend))
    monkeypatch.setitem(device_module._NUMBERS, name, 0xFF)


@contextmanager
def far_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[tack.Device]:
    """The device "far", known to Tack and current while the block runs."""
    register(monkeypatch, "far", FarBackend)
    monkeypatch.setitem(device_module._backends, "far", FarBackend())
    with tack.device("far") as device:
        yield device
