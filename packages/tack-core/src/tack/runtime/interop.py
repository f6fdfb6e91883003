"""NumPy arrays and DLPack exporters as Tack arrays on the same memory, without a copy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tack.lang.array import MISALIGNED, Array
from tack.lang.types import BY_NAME, DType, dtype_of_numpy
from tack.runtime.device import Device

if TYPE_CHECKING:
    from typing import Protocol

    from tack.lang.host_cast import HostArray
    from tack.runtime.dlpack import StreamOrder

    class Lender(Protocol):
        """A backend whose calls are handed over to others who use the same memory."""

        def hand_back(self, stream: int | None) -> None:
            """What another stream gets from now on comes after what is enqueued now."""


# What to write instead of an array of a dtype that Tack does not have, by NumPy's kind of dtype.
_INSTEAD = {
    "b": ".astype(np.uint8)",
    "c": "its .real and .imag parts",
    "f": ".astype(np.float32)",
    "m": ".view(np.int64)",
    "M": ".view(np.int64)",
}
_ANY = ".astype() to one of these"


class Lent:
    """The owner of memory that is in the order of another library's stream, which must wait for ours after a call; the
    host itself waits for memory that is its own (`Backend.import_pages`)."""

    __slots__ = ("_backend", "_exporter", "_stream")

    def __init__(self, exporter: Any, stream: int, backend: Lender) -> None:
        self._exporter, self._stream, self._backend = exporter, stream, backend

    def give_back(self) -> None:
        """What that stream gets from now on comes after what is enqueued here now."""
        self._backend.hand_back(self._stream)


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
    """A Tack array on the memory of a NumPy array, for a device whose memory is host memory, or can become its own.

    The array may start at any byte. Where it is not aligned to its elements, the result's key says so, since atomics
    cannot work on it. If it is not writeable, neither is the result.

    Raises
    ------
    TypeError
        If Tack has no such dtype, or the array is a masked one.
    ValueError
        If the array is strided or of foreign byte order, or the device has memory of its own.
    """
    if not (device.supports("host_memory") or device.supports("page_import")):
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
    owner = values if device.supports("host_memory") else device.backend.import_pages(values)
    if owner is None:
        raise ValueError(
            f"arrays on device {device.name}, or writable ones of whole pages: copy it there with "
            f"tack.asarray(a, device={device.name!r})"
        )
    array = Array(dtype, values.shape, device, address, owner, readonly=not flags.writeable)
    if address % dtype.itemsize:  # not flags.aligned: that asks for less on some machines
        array._key |= MISALIGNED
    return array


def wrap_cuda(exporter: Any, device: Device) -> Array:
    """A Tack array on the memory of an object with a CUDA array interface, such as a tensor of PyTorch or CuPy.

    What the exporter enqueued on the stream that its interface names, or PyTorch on its current one, comes before what
    Tack enqueues; the array's owner is `Lent` if that stream must wait for Tack's after a call. The memory must be of
    this device, which is checked where the exporter says of which it is.

    Raises
    ------
    TypeError
        If Tack has no such dtype, or the array has a mask.
    ValueError
        If the array is strided, misaligned or of foreign byte order.
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
    dtype, backend = element_type(numpy_dtype), cast("StreamOrder", device.backend)
    check_aligned(address, dtype)
    where = exporter.__dlpack_device__() if hasattr(exporter, "__dlpack_device__") else backend.dlpack_device
    if tuple(map(int, where)) != backend.dlpack_device:
        raise ValueError(f"memory of device {device.name}, not of number {where[1]}")
    stream = _stream_of(exporter, interface)
    owner = exporter
    if stream not in (None, 0, 1):  # the legacy default stream is in order with ours
        backend.wait_for_stream(stream)
        owner = Lent(exporter, stream, backend)
    return Array(dtype, shape, device, address, owner, readonly=readonly)


def check_aligned(address: int, dtype: DType) -> None:
    """Refuse memory that a GPU cannot read: on a misaligned access it ends every use of the device in this process.

    Raises
    ------
    ValueError
        If an address is no multiple of the element's size.
    """
    if address % dtype.itemsize:
        raise ValueError(f"arrays that are aligned to their {dtype.itemsize}-byte elements: pass a copy")


def _stream_of(exporter: Any, interface: dict[str, Any]) -> Any:
    """The stream that an exporter's memory is in the order of.

    PyTorch 2.x has version 2 of the interface, which names none: its users mean the current one. With a version that
    does, `test_cuda_arrays.py` shows that this can go.
    """
    torch = sys.modules.get("torch")
    if "stream" not in interface and torch is not None and isinstance(exporter, torch.Tensor):
        return torch.cuda.current_stream(exporter.device).cuda_stream
    return interface.get("stream")


def c_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of a C-contiguous array."""
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides)) if shape else ()


def wrap_dlpack(exporter: Any, device: Device) -> Array:
    """A Tack array on the memory of a DLPack exporter; read-only if the exporter says so.

    Where the device has streams, the exporter makes ours wait for its own.

    Raises
    ------
    TypeError
        If Tack has no such dtype.
    ValueError
        If its memory is not the device's, or is strided.
    """
    visible = device.supports("host_memory") or device.supports("host_visible")
    if not visible and device.backend.dlpack_device is not None:
        from tack.runtime.dlpack import take

        return take(exporter, device, cast("StreamOrder", device.backend))
    try:
        values = np.from_dlpack(exporter)
    except (BufferError, RuntimeError, ValueError) as error:
        kind = type(exporter).__name__
        raise ValueError(f"DLPack exporters in host memory, which this {kind} does not hand over ({error})") from None
    return wrap_numpy(values, device)
