"""NumPy arrays and DLPack exporters as Tack arrays on the same memory, without a copy."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from tack.lang.array import MISALIGNED, Array
from tack.lang.host_cast import HostArray
from tack.lang.types import BY_NAME, DType, dtype_of_numpy
from tack.runtime.device import Device

# What to write instead of an array of a dtype that Tack does not have, by NumPy's kind of dtype.
_INSTEAD = {
    "b": ".astype(np.uint8)",
    "c": "its .real and .imag parts",
    "f": ".astype(np.float32)",
    "m": ".view(np.int64)",
    "M": ".view(np.int64)",
}
_ANY = ".astype() to one of these"


@runtime_checkable
class ForeignStreams(Protocol):
    """A backend that can wait for a stream of another library."""

    def wait_for_stream(self, stream: int | None) -> None: ...


def element_type(dtype: np.dtype[Any]) -> DType:
    """The Tack dtype of a NumPy dtype, whatever its byte order.

    Raises
    ------
    TypeError
        If there is none; the message says what to write.
    """
    found = dtype_of_numpy(dtype.newbyteorder("="))
    if found is None:
        instead = ".astype(np.float64)" if dtype.kind == "f" and dtype.itemsize > 8 else _INSTEAD.get(dtype.kind, _ANY)
        raise TypeError(f"arrays of {', '.join(BY_NAME)}, not of NumPy dtype {dtype}: use {instead}")
    return found


def refuse_mask(values: object) -> None:
    """Refuse a masked array, whose values would be read as if none were masked.

    Raises
    ------
    TypeError
        If `values` is one.
    """
    if type(values) is not np.ndarray and isinstance(values, np.ma.MaskedArray):
        raise TypeError("arrays without a mask: pass a.filled(value), or a.data to ignore the mask")


def wrap_argument(value: Any, device: Device) -> Array | None:
    """An argument that is not a Tack array as one, on the same memory; None if it is no array at all.

    Raises
    ------
    TypeError, ValueError
        If it is one that `device` cannot use in place; the message says what to write.
    """
    if isinstance(value, np.ndarray):
        return wrap_numpy(value, device)
    if hasattr(value, "__cuda_array_interface__") and device.supports("cuda_array_interface"):
        return wrap_cuda(value, device)
    return wrap_dlpack(value, device) if hasattr(value, "__dlpack__") else None


def wrap_numpy(values: HostArray, device: Device) -> Array:
    """A Tack array on the memory of a NumPy array, for a device whose memory is host memory.

    The array may start at any byte. Where it is not aligned to its elements, the result's key says so, since atomics
    cannot work on it. If it is not writeable, neither is the result.

    Raises
    ------
    TypeError
        If Tack has no such dtype, or the array is a masked one.
    ValueError
        If the array is strided or of foreign byte order, or the device has memory of its own.
    """
    if not device.supports("host_memory"):
        raise ValueError(f"arrays on device {device.name}: copy it there with tack.asarray(a, device={device.name!r})")
    dtype = element_type(values.dtype)
    if not values.dtype.isnative:
        raise ValueError(
            f"arrays of native byte order, not {values.dtype.str!r}: pass a.astype(a.dtype.newbyteorder('='))"
        )
    refuse_mask(values)
    flags = values.flags
    if not flags.c_contiguous:
        raise ValueError(
            f"C-contiguous arrays, not one of shape {values.shape} with strides {values.strides} bytes: "
            "pass np.ascontiguousarray(a)"
        )
    address = values.__array_interface__["data"][0]
    array = Array(dtype, values.shape, device, address, values, readonly=not flags.writeable)
    if address % dtype.itemsize:  # not flags.aligned: that asks for less on some machines
        array._key |= MISALIGNED
    return array


def wrap_cuda(exporter: Any, device: Device) -> Array:
    """A Tack array on the memory of an object with a CUDA array interface, such as a tensor of PyTorch or CuPy.

    What the exporter enqueued on the legacy default stream, or on the stream that its interface names, comes before
    what Tack enqueues. Its memory must be of this device, which is not checked.

    Raises
    ------
    TypeError
        If Tack has no such dtype, or the array has a mask.
    ValueError
        If the array is strided or of foreign byte order.
    """
    interface = exporter.__cuda_array_interface__
    numpy_dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    if interface.get("mask") is not None:
        raise TypeError("arrays without a mask")
    if not numpy_dtype.isnative:
        raise ValueError(f"arrays of native byte order, not {numpy_dtype.str!r}")
    strides = interface.get("strides")
    if strides is not None and 0 not in shape and tuple(strides) != c_strides(shape, numpy_dtype.itemsize):
        raise ValueError(f"C-contiguous arrays, not one of shape {shape} with strides {strides} bytes: pass a copy")
    address, readonly = interface["data"]
    backend = device.backend
    assert isinstance(backend, ForeignStreams)
    backend.wait_for_stream(interface.get("stream"))
    return Array(element_type(numpy_dtype), shape, device, address, exporter, readonly=readonly)


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of a C-contiguous array."""
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides)) if shape else ()


def wrap_dlpack(exporter: Any, device: Device) -> Array:
    """A Tack array on the memory of a DLPack exporter; read-only if the exporter says so.

    Raises
    ------
    TypeError
        If Tack has no such dtype.
    ValueError
        If its memory is not the device's, or is strided.
    """
    try:
        values = np.from_dlpack(exporter)
    except (BufferError, RuntimeError, ValueError) as error:
        kind = type(exporter).__name__
        raise ValueError(f"DLPack exporters in host memory, which this {kind} does not hand over ({error})") from None
    return wrap_numpy(values, device)
