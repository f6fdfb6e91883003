"""DLPack for memory that NumPy cannot look at: capsules through ctypes, handed over in the order of streams."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from tack.lang.array import READ_ONLY, Array
from tack.lang.types import DTYPES, DType
from tack.runtime.device import Device
from tack.runtime.interop import check_aligned

CPU: Final = 1
CUDA: Final = 2
ROCM: Final = 10
_KINDS: Final = {"i": 0, "u": 1, "f": 2}
_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED: Final = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}  # names must outlive capsules
_VERSION: Final = (1, 0)
_FLAG_READ_ONLY, _FLAG_COPIED = 1, 2
_NO_ORDER: Final = -1

_Deleter = ctypes.CFUNCTYPE(None, c_void_p)


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", ctypes.POINTER(c_int64)),
        ("strides", ctypes.POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Plain(ctypes.Structure):
    _fields_ = (("tensor", _DLTensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _DLTensor),
    )


class StreamOrder(Protocol):
    """A backend whose memory DLPack hands over."""

    dlpack_device: tuple[int, int]

    @property
    def dlpack_stream(self) -> int:
        """The number of the stream that our launches are in."""

    def wait_for_stream(self, stream: int | None) -> None:
        """What is enqueued from now on comes after what is in another library's stream now."""

    def hand_back(self, stream: int | None) -> None:
        """What another library's stream gets from now on comes after what is enqueued now."""


def _api(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.pythonapi, name)
    return ctypes.PYFUNCTYPE(result, *arguments)(ctypes.cast(function, c_void_p).value or 0)


_is_valid = _api("PyCapsule_IsValid", c_int, py_object, c_char_p)
_pointer = _api("PyCapsule_GetPointer", c_void_p, py_object, c_char_p)
_rename = _api("PyCapsule_SetName", c_int, py_object, c_char_p)


class _Lent:
    """An array's memory as NumPy is told about it, which writes the structure but never looks at the elements."""

    def __init__(self, array: Array) -> None:
        self.array = array  # NumPy's deleter drops this object
        self.__array_interface__ = {
            "version": 3,
            "shape": array._shape + array._parts,
            "typestr": array._dtype.numpy.str,
            "data": (array._data, bool(array._key & READ_ONLY)),
        }


def export(
    array: Array,
    backend: StreamOrder,
    *,
    stream: int | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule of an array's memory, in the order of the consumer's stream.

    Parameters
    ----------
    array
        Of `backend`.
    backend
        Its device's.
    stream, max_version, dl_device, copy
        As the array API standard has them for ``__dlpack__``.

    Raises
    ------
    BufferError
        If the consumer's wishes cannot be met; the message says which.
    """
    if dl_device is not None and tuple(dl_device) != backend.dlpack_device:
        if tuple(dl_device) != (CPU, 0) or copy is False:
            raise BufferError(f"the memory is on {array.device.name}; it goes to host memory as a copy only")
        return array.numpy().__dlpack__(max_version=max_version)
    versioned = max_version is not None and max_version[0] >= _VERSION[0]
    if array._key & READ_ONLY and not versioned and not copy:
        raise BufferError("the array is read-only, which this old DLPack protocol cannot say; hand over a.copy()")
    if copy:
        array = array.copy()
    if stream == 0 and backend.dlpack_device[0] == CUDA:
        raise BufferError("stream 0 is ambiguous: DLPack wants 1 (legacy default), 2 (per thread) or a handle")
    if stream != _NO_ORDER:
        backend.hand_back(stream)
    # NumPy's deleter and destructor: in Python they would lose the exception of a consumer that refuses the memory.
    values = np.asarray(_Lent(array))
    capsule = values.__dlpack__(max_version=_VERSION) if versioned else values.__dlpack__()
    name, structure = (_VERSIONED, _Versioned) if versioned else (_PLAIN, _Plain)
    made: Any = structure.from_address(_pointer(capsule, name))
    made.tensor.device_type, made.tensor.device_id = backend.dlpack_device
    if versioned and copy:
        made.flags |= _FLAG_COPIED
    return capsule


class _Imported:
    """The owner of memory that another library gave; given back when nothing here uses it any more."""

    __slots__ = ("_address", "_deleter", "_finish")

    def __init__(self, address: int, deleter: int | None, finish: Callable[[], None]) -> None:
        self._address, self._deleter, self._finish = address, deleter, finish

    def __del__(self) -> None:
        if self._deleter:
            self._finish()  # its library may use the memory again at once, in a stream of its own
            _Deleter(self._deleter)(self._address)


def take(exporter: Any, device: Device, backend: StreamOrder) -> Array:
    """A Tack array on the memory of a DLPack exporter, which hands it over in the order of our stream.

    Raises
    ------
    TypeError
        If Tack has no such dtype.
    ValueError
        If its memory is not this device's, or is strided or misaligned, or the exporter does not hand it over.
    """
    try:
        where = tuple(int(x) for x in exporter.__dlpack_device__())
        if where != backend.dlpack_device:
            raise ValueError(f"memory of device {device.name}, not of DLPack's device {where}: use tack.asarray")
        capsule = _capsule_of(exporter, backend.dlpack_stream)
        name = next(name for name in (_VERSIONED, _PLAIN) if _is_valid(capsule, name))
    except (BufferError, RuntimeError, AttributeError, StopIteration) as error:
        _refuse(exporter, device, error)
    address = _pointer(capsule, name)
    made = (_Versioned if name is _VERSIONED else _Plain).from_address(address)
    if name is _VERSIONED and made.major != _VERSION[0]:
        raise ValueError(f"DLPack of version {_VERSION[0]}, not {made.major}")
    tensor = made.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    dtype = _dtype_of(tensor)
    if tensor.strides and not _is_contiguous(shape, tensor.strides[: tensor.ndim]):
        raise ValueError(f"C-contiguous arrays, not one of shape {shape} with strides: pass a copy")
    start = (tensor.data or 0) + tensor.byte_offset
    check_aligned(start, dtype)
    _rename(capsule, _USED[name])
    owner = _Imported(address, made.deleter, device.backend.synchronize)
    readonly = name is _VERSIONED and bool(made.flags & _FLAG_READ_ONLY)
    return Array(dtype, shape, device, start, owner, readonly=readonly)


def _capsule_of(exporter: Any, stream: int) -> Any:
    try:
        return exporter.__dlpack__(stream=stream, max_version=_VERSION)
    except TypeError:  # an exporter from before versions
        return exporter.__dlpack__(stream=stream)


def _refuse(exporter: Any, device: Device, error: Exception) -> NoReturn:
    kind = type(exporter).__name__
    raise ValueError(f"DLPack exporters on {device.name}, which this {kind} does not hand over ({error})") from None


def _dtype_of(tensor: _DLTensor) -> DType:
    for dtype in DTYPES:
        if (_KINDS[dtype.kind], dtype.bits, 1) == (tensor.code, tensor.bits, tensor.lanes):
            return dtype
    raise TypeError(f"no dtype of DLPack's code {tensor.code} with {tensor.bits} bits and {tensor.lanes} lanes")


def _is_contiguous(shape: tuple[int, ...], strides: list[int]) -> bool:
    """Whether strides, in elements, are those of rows one after the other; an extent of 1 has none that matters."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return 0 in shape
        step *= extent
    return True
