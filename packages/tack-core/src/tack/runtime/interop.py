"""NumPy arrays and DLPack exporters as Tack arrays, without a copy where that is safe.

A NumPy array that is not aligned to its element (one that starts one byte into a buffer) cannot be used in place, since
native code may rely on the alignment. `wrap_numpy` gives it a copy; `write_back` puts the elements back afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tack.lang.array import READ_ONLY, Array, new_array
from tack.lang.host_cast import HostArray
from tack.lang.types import BY_NAME, DType, dtype_of_numpy
from tack.runtime.device import Device

_INSTEAD = {
    "b": ".astype(np.uint8)",
    "c": "its .real and .imag parts",
    "O": ".astype(np.float64), or the dtype of its elements",
    "M": ".view(np.int64)",
    "m": ".view(np.int64)",
    "f": ".astype(np.float32)",
}


class _AlignedCopy:
    """The owner of an aligned copy's memory, and the array that the elements belong to."""

    __slots__ = ("memory", "original")

    def __init__(self, memory: Any, original: HostArray) -> None:
        self.memory, self.original = memory, original


def element_type(dtype: np.dtype[Any], what: str = "the NumPy array") -> DType:
    """The Tack dtype of a NumPy dtype, whatever its byte order.

    Raises
    ------
    TypeError
        If there is none; the message says what to write.
    """
    found = dtype_of_numpy(dtype.newbyteorder("="))
    if found is None:
        instead = _INSTEAD.get(dtype.kind, "an array of numbers")
        raise TypeError(
            f"{what} has dtype {dtype}, which Tack does not have (it has {', '.join(BY_NAME)}); use {instead}"
        )
    return found


def wrap_numpy(values: HostArray, device: Device, name: str = "a") -> Array:
    """A Tack array on the memory of a NumPy array, for a device whose memory is host memory.

    Parameters
    ----------
    values
        A C-contiguous array of native byte order. If it is not writeable, neither is the result.
    name
        What messages call the array.

    Raises
    ------
    TypeError
        If Tack has no such dtype.
    ValueError
        If the array is strided or of foreign byte order.
    """
    dtype = dtype_of_numpy(values.dtype)
    if dtype is None:
        element_type(values.dtype, f"{name}: the NumPy array")
        raise ValueError(
            f"{name}: the NumPy array has foreign byte order ({values.dtype.str}); "
            f"pass {name}.astype({name}.dtype.newbyteorder('='))"
        )
    flags = values.flags
    if not flags.c_contiguous:
        raise ValueError(
            f"{name}: the NumPy array of shape {values.shape} is not C-contiguous (its strides are {values.strides} "
            f"bytes); pass np.ascontiguousarray({name})"
        )
    if not flags.aligned:
        return _aligned_copy(values, dtype, device)
    address = values.__array_interface__["data"][0]
    return Array(dtype, values.shape, device, address, values, readonly=not flags.writeable)


def _aligned_copy(values: HostArray, dtype: DType, device: Device) -> Array:
    copy = new_array(values.shape, dtype, device)
    copy._store(values)
    copy._owner = _AlignedCopy(copy._owner, values)
    if not values.flags.writeable:
        copy._key |= READ_ONLY
    return copy


def aligned_copies(arrays: Sequence[Array]) -> list[Array]:
    """Those of a call's arrays that stand in for misaligned NumPy arrays; `write_back` takes them after the launch.

    Raises
    ------
    ValueError
        If a misaligned array overlaps another array of the call: the copies would not see each other's stores.
    """
    copies = [array for array in arrays if isinstance(array._owner, _AlignedCopy)]
    for copy in copies:
        begin, end = _extent(copy)
        for other in arrays:
            low, high = _extent(other)
            if other is not copy and low < end and begin < high:
                raise ValueError(
                    "a NumPy array that is not aligned to its elements overlaps another argument of the call; "
                    "pass an aligned copy, such as a.copy()"
                )
    return copies


def _extent(array: Array) -> tuple[int, int]:
    """Where the elements of an argument belong: those of an aligned copy, in the array it was made from."""
    owner = array._owner
    begin = owner.original.__array_interface__["data"][0] if isinstance(owner, _AlignedCopy) else array._data
    return begin, begin + array._nbytes


def write_back(copies: Sequence[Array]) -> None:
    """Store the elements of aligned copies into the arrays that they were made from, unless those are read-only."""
    for copy in copies:
        if not copy._key & READ_ONLY:
            copy._owner.original[...] = copy.numpy()


def wrap_dlpack(exporter: Any, device: Device) -> Array:
    """A Tack array on the memory of a DLPack exporter, without a copy.

    Raises
    ------
    TypeError
        If `exporter` does not offer DLPack, or Tack has no such dtype.
    ValueError
        If its memory is not host memory, or is strided.
    """
    if not hasattr(exporter, "__dlpack__"):
        raise TypeError(f"{type(exporter).__name__} does not offer __dlpack__; use tack.asarray")
    try:
        values = np.from_dlpack(exporter)
    except (BufferError, RuntimeError) as error:
        raise ValueError(
            f"the {type(exporter).__name__} cannot be shared with device {device.name!r} through DLPack: {error}"
        ) from None
    return wrap_numpy(values, device)
