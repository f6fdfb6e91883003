"""Buffers of an OpenCL device behind integers: OpenCL 1.2 has no addresses that the host could know.

Each buffer gets a range of made-up addresses that no other ever gets, so that arrays are as on any device: a view has
an address inside its owner's range, and two arrays overlap if their ranges do. The ranges start at whole regions; a
table finds the buffer of an address by its region.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Final

import numpy as np
import pyopencl as cl

HostArray = np.ndarray[Any, Any]

_REGION_BITS: Final = 28  # 2**35 buffers of up to 256 MiB in a process, and few table entries for a large one
_ZERO: Final = np.zeros(1, np.uint8)
_TEXEL: Final = cl.ImageFormat(cl.channel_order.R, cl.channel_type.FLOAT)


class DeviceMemory:
    """One buffer; its life is the memory's life. OpenCL frees it when the commands that use it have finished.

    `image` has the same elements where a kernel sampled them as a texture since the host last stored to them.
    """

    __slots__ = ("__weakref__", "address", "buffer", "image", "nbytes")

    def __init__(self, address: int, buffer: cl.Buffer, nbytes: int) -> None:
        self.address, self.buffer, self.nbytes = address, buffer, nbytes
        self.image: cl.Image | None = None


class BufferTable:
    """The buffers of one device by address. Thread-safe; nothing keeps a buffer alive but its owner."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue) -> None:
        self._context, self._queue = context, queue
        self._limit = queue.device.max_mem_alloc_size
        self._next_region = 1
        self._lock = threading.RLock()  # a finalizer may use arrays, too
        self._no_image: cl.Image | None = None
        # Entries go away by themselves, also when the collector runs in the middle of a method of this class.
        self._regions: weakref.WeakValueDictionary[int, DeviceMemory] = weakref.WeakValueDictionary()

    def allocate(self, nbytes: int) -> DeviceMemory:
        """A zero-filled buffer.

        Raises
        ------
        MemoryError
            If the device has no room, or no buffer may be so large.
        """
        if nbytes > self._limit:
            raise MemoryError(f"an array of {nbytes} bytes: {self._queue.device.name} allows {self._limit} an array")
        size = max(1, nbytes)  # there are no empty buffers
        try:
            buffer = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
            cl.enqueue_fill_buffer(self._queue, buffer, _ZERO, 0, size)
        except (cl.MemoryError, cl.RuntimeError) as error:
            raise MemoryError(f"an array of {nbytes} bytes on {self._queue.device.name}: {error}") from None
        count = (size - 1 >> _REGION_BITS) + 1
        with self._lock:
            first = self._next_region
            self._next_region += count
        memory = DeviceMemory(first << _REGION_BITS, buffer, nbytes)
        for region in range(first, first + count):
            self._regions[region] = memory
        return memory

    def find(self, address: int) -> tuple[cl.Buffer, int]:
        """The buffer that an address lies in, and the offset in bytes."""
        memory = self._regions[address >> _REGION_BITS]
        return memory.buffer, address - memory.address

    def upload(self, address: int, source: HostArray) -> None:
        """Copy a C-contiguous host array to the device, in the queue's order; returns when it has been read."""
        if source.nbytes:
            buffer, offset = self.find(address)
            cl.enqueue_copy(self._queue, buffer, source, dst_offset=offset, is_blocking=True)
            with self._lock:  # after the copy: what is made of the buffer from now on is up to date
                self._regions[address >> _REGION_BITS].image = None

    def image(self, address: int, shape: tuple[int, ...]) -> cl.Image:
        """An image of the texels of a texture, an array of the shape (D, H, W) that only the host stores to.

        Where the device makes none, for one is too large for it, this is an image of one NaN (see c_textures).
        """
        memory = self._regions[address >> _REGION_BITS]
        with self._lock:
            if memory.image is None:
                memory.image = self._make_image(memory.buffer, shape[::-1]) or self._nan_image()
            return memory.image

    def _make_image(self, texels: cl.Buffer, extents: tuple[int, ...]) -> cl.Image | None:
        try:
            image = cl.create_image(self._context, cl.mem_flags.READ_ONLY, _TEXEL, shape=extents)
            cl.enqueue_copy(self._queue, image, texels, offset=0, origin=(0, 0, 0), region=extents)  # type: ignore[call-overload]  # pyopencl annotates no such pair
        except cl.Error:
            return None
        return image

    def _nan_image(self) -> cl.Image:
        if self._no_image is None:
            nan = np.full((1, 1, 1), np.nan, np.float32)
            flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
            self._no_image = cl.create_image(self._context, flags, _TEXEL, shape=(1, 1, 1), hostbuf=nan)
        return self._no_image

    def download(self, address: int, target: HostArray) -> None:
        """Copy into a C-contiguous host array, in the queue's order; returns when it is there."""
        if target.nbytes:
            buffer, offset = self.find(address)
            cl.enqueue_copy(self._queue, target, buffer, src_offset=offset, is_blocking=True)

    def filters_images(self) -> bool:
        """Whether the device has samplers for volumes of f32.

        A processor emulates them: on PoCL 3.1 a sample by its sampler takes 4.7 times as long as the software's, and
        is no better.
        """
        device = self._queue.device
        if device.type & cl.device_type.CPU or not device.image_support:
            return False
        formats = cl.get_supported_image_formats(self._context, cl.mem_flags.READ_ONLY, cl.mem_object_type.IMAGE3D)
        return _TEXEL in formats

    def __len__(self) -> int:
        """How many regions are in use."""
        return len(self._regions)
