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


class DeviceMemory:
    """One buffer; its life is the memory's life. OpenCL frees it when the commands that use it have finished."""

    __slots__ = ("__weakref__", "address", "buffer", "nbytes")

    def __init__(self, address: int, buffer: cl.Buffer, nbytes: int) -> None:
        self.address, self.buffer, self.nbytes = address, buffer, nbytes


class BufferTable:
    """The buffers of one device by address. Thread-safe; nothing keeps a buffer alive but its owner."""

    def __init__(self, context: cl.Context, queue: cl.CommandQueue) -> None:
        self._context, self._queue = context, queue
        self._limit = queue.device.max_mem_alloc_size
        self._next_region = 1
        self._lock = threading.Lock()
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

    def download(self, address: int, target: HostArray) -> None:
        """Copy into a C-contiguous host array, in the queue's order; returns when it is there."""
        if target.nbytes:
            buffer, offset = self.find(address)
            cl.enqueue_copy(self._queue, target, buffer, src_offset=offset, is_blocking=True)

    def __len__(self) -> int:
        """How many regions are in use."""
        return len(self._regions)
