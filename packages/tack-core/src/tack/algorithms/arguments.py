"""What the algorithms take: one-dimensional arrays of numbers, and where their result goes."""

from __future__ import annotations

from typing import Any

from tack.lang.array import Array, new_array
from tack.lang.types import DType, VecType
from tack.runtime.creation import asarray


def checked(name: str, values: Any, out: Any) -> tuple[Array, Array]:
    """The values as an array, and the array for the result: `out`, or a new one like the values.

    Raises
    ------
    TypeError
        If the elements are vectors, or `out` is no Tack array or has another dtype.
    ValueError
        If the values are not one-dimensional, or `out` has another length or is on another device.
    """
    source = asarray(values)
    if source.ndim != 1:
        raise ValueError(f"{name} takes a 1-d array, not a {source.ndim}-d one; write a.reshape(-1)")
    if isinstance(source.dtype, VecType):
        raise TypeError(f"{name} takes an array of numbers, not of {source.dtype!r}")
    if out is None:
        return source, new_array(source.shape, source.dtype, source.device)
    if not isinstance(out, Array) or out.dtype != source.dtype:
        given = repr(out.dtype) if isinstance(out, Array) else type(out).__name__
        raise TypeError(f"{name}: out is a tack.Array of {source.dtype!r}, as the values are, not {given}")
    if out.shape != source.shape or out.device != source.device:
        raise ValueError(
            f"{name}: out has shape {out.shape} on {out.device.name}, "
            f"and the values {source.shape} on {source.device.name}"
        )
    out._check_writeable()
    if out._data != source._data and overlap(source, out):
        source = source.copy()  # else parts of it are written before they are read
    return source, out


def viewed_as(array: Array, dtype: DType) -> Array:
    """The same memory, its bits read as another type of the same width."""
    return Array(dtype, array.shape, array.device, array._data, array)


def overlap(a: Array, b: Array) -> bool:
    """Whether two arrays of one device share memory."""
    return a._data < b._data + b.nbytes and b._data < a._data + a.nbytes
