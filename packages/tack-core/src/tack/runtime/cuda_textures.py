"""Images of textures on NVIDIA GPUs, which the hardware filters (see codegen/c_textures.py): CUDA's texture objects."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any, Final

import numpy as np

from tack.runtime.gpu_driver import GpuDriver, GpuError
from tack.runtime.gpu_memory import DeviceMemory
from tack.runtime.gpu_stream import Stream

_FORMAT_FLOAT, _CLAMP, _LINEAR, _OF_AN_ARRAY = 0x20, 1, 1, 0
_DEVICE_MEMORY, _ARRAY_MEMORY = 2, 3
_TEXEL: Final = 4  # bytes
_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "cuArray3DCreate_v2": (c_void_p, c_void_p),
    "cuArrayDestroy": (c_void_p,),
    "cuMemcpy3DAsync_v2": (c_void_p, c_void_p),
    "cuTexObjectCreate": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuTexObjectDestroy": (c_uint64,),
}


class _ArrayDescription(ctypes.Structure):
    _fields_ = (
        *((name, c_size_t) for name in ("width", "height", "depth")),
        *(("format", c_int), ("channels", c_uint), ("flags", c_uint)),
    )


def _place(prefix: str) -> tuple[tuple[str, Any], ...]:
    return (
        *((prefix + name, c_size_t) for name in ("x", "y", "z", "level")),
        (prefix + "kind", c_int),
        *((prefix + name, c_void_p) for name in ("host", "device", "array", "reserved")),
        *((prefix + name, c_size_t) for name in ("pitch", "height")),
    )


class _Copy(ctypes.Structure):
    _fields_ = (*_place("from_"), *_place("to_"), *((name, c_size_t) for name in ("width", "height", "depth")))


class _Resource(ctypes.Structure):
    _fields_ = (("kind", c_int), ("array", c_void_p), ("rest", c_void_p * 15), ("flags", c_uint))


class _Sampler(ctypes.Structure):
    _fields_ = (
        *(("address_modes", c_int * 3), ("filter", c_int), ("flags", c_uint), ("anisotropy", c_uint)),
        *(("mip_filter", c_int), ("mip_bias", c_float), ("mip_clamps", c_float * 2)),
        *(("border", c_float * 4), ("reserved", c_int * 12)),
    )


def has_textures(driver: GpuDriver) -> bool:
    """Whether the driver's library has what this file needs; stand-ins for it may not."""
    return all(driver.has(name) for name in _FUNCTIONS)


class TextureImages:
    """The images of one device, by the address of the texels.

    Only the host stores to a texture's texels, through `Stream.upload`; before the next launch the image is made anew.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._functions = {name: stream.driver.bind(name, types) for name, types in _FUNCTIONS.items()}
        self._images: dict[int, _Image] = {}
        self._nan: tuple[DeviceMemory, _Image] | None = None

    def find(self, address: int, shape: tuple[int, ...]) -> int:
        """The texture object of the texels at an address, of the shape (D, H, W); the caller holds the stream's lock.

        Where the device makes none, for one is too large for it, this is an image of one NaN (see c_textures).
        """
        image = self._images.get(address)
        if image is None:
            try:
                image = self._images[address] = _Image(self._stream, self._functions, shape)
            except (GpuError, MemoryError):
                return self._of_nan()
        if image.is_stale:
            image.copy(address)
        return image.handle

    def changed(self, address: int) -> None:
        """The host has stored to the texels at an address."""
        image = self._images.get(address)
        if image is not None:
            image.is_stale = True

    def forget(self, address: int) -> None:
        """The texels are gone."""
        self._images.pop(address, None)

    def _of_nan(self) -> int:
        if self._nan is None:
            memory, image = DeviceMemory(self._stream, _TEXEL), _Image(self._stream, self._functions, (1, 1, 1))
            self._stream.upload(memory.address, np.array([np.nan], np.float32))
            image.copy(memory.address)
            self._nan = memory, image
        return self._nan[1].handle


class _Image:
    """One array of the driver's, and its texture object; both go with this object."""

    def __init__(self, stream: Stream, functions: dict[str, Any], shape: tuple[int, ...]) -> None:
        self._stream, self._functions, self._shape = stream, functions, shape
        self._array, self._object, self.is_stale = c_void_p(), c_uint64(), True
        depth, height, width = shape
        description = _ArrayDescription(width, height, depth, _FORMAT_FLOAT, 1, 0)
        functions["cuArray3DCreate_v2"](byref(self._array), byref(description))
        resource = _Resource(kind=_OF_AN_ARRAY, array=self._array)
        sampler = _Sampler(address_modes=(_CLAMP, _CLAMP, _CLAMP), filter=_LINEAR)
        functions["cuTexObjectCreate"](byref(self._object), byref(resource), byref(sampler), None)

    @property
    def handle(self) -> int:
        """What a kernel takes."""
        return self._object.value

    def copy(self, address: int) -> None:
        """Enqueue a copy of the texels at an address."""
        depth, height, width = self._shape
        what = _Copy(from_kind=_DEVICE_MEMORY, from_device=address, from_pitch=_TEXEL * width, from_height=height)
        what.to_kind, what.to_array = _ARRAY_MEMORY, self._array
        what.width, what.height, what.depth = _TEXEL * width, height, depth
        self.is_stale = False  # before: what the host stores meanwhile is copied once more
        self._functions["cuMemcpy3DAsync_v2"](byref(what), self._stream.handle)

    def __del__(self) -> None:
        if not self._array.value or not self._stream.is_usable():
            return
        self._stream.wait()  # neither is freed in the stream's order
        if self._object.value:
            self._functions["cuTexObjectDestroy"](self._object)
        self._functions["cuArrayDestroy"](self._array)
