"""Memory of a GPU: allocations, page-locked host memory, and the copies between them, in the order of one stream."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from ctypes import byref, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tack.runtime.gpu_stream import Stream

HostArray = np.ndarray[Any, Any]

_PORTABLE_AND_MAPPED: Final = 3  # flags of page-locked memory: for all contexts, with an address that kernels can use
_EVENT_WITHOUT_TIMING: Final = 2
_CELLS: Final = 256
CELL_BYTES: Final = 16
STAGED_FROM: Final = 16 << 20  # bytes: below this the driver's own way is as fast
STAGE_BYTES: Final = 4 << 20
LANES: Final = min(8, (os.cpu_count() or 1) // 2)
_SEED_BYTES: Final = 1 << 16


class DeviceMemory:
    """One allocation, given back to the device's pool, in the stream's order, when nothing refers to it any more."""

    __slots__ = ("_stream", "address")

    def __init__(self, stream: Stream, nbytes: int) -> None:
        self._stream, self.address, pointer = stream, 0, c_uint64()
        stream.begin()
        stream.driver.allocate(byref(pointer), max(1, nbytes), stream.handle)
        self.address = pointer.value

    def __del__(self) -> None:
        if self.address and self._stream.is_usable():
            if self._stream.images is not None:
                self._stream.images.forget(self.address)
            self._stream.begin()
            self._stream.driver.free(self.address, self._stream.handle)


class PinnedMemory:
    """Page-locked host memory, which the device reads and writes at the same address."""

    __slots__ = ("_stream", "address")

    def __init__(self, stream: Stream, nbytes: int) -> None:
        self._stream, self.address, pointer = stream, 0, c_void_p()
        stream.begin()
        stream.driver.host_allocate(byref(pointer), nbytes, _PORTABLE_AND_MAPPED)
        self.address = pointer.value or 0

    def __del__(self) -> None:
        if self.address and self._stream.is_usable():
            self._stream.begin()
            self._stream.driver.host_free(self.address)


class Cells:
    """Small places for results in page-locked memory: kernels store there, so that no copy brings a result home."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.free: deque[int] = deque()  # its methods are atomic
        self.dropped: deque[int] = deque()  # a kernel may still be going to store there
        self._pages: list[PinnedMemory] = []

    def take(self) -> Cell:
        """A cell, used by nobody else while the object lives."""
        try:
            return Cell(self, self.free.popleft())
        except IndexError:
            return Cell(self, self._more())

    def _more(self) -> int:
        """The address of a cell when none is free."""
        dropped = [self.dropped.popleft() for _ in range(len(self.dropped))]
        if dropped:
            self._stream.wait()
            first, *rest = dropped
        else:
            page = PinnedMemory(self._stream, _CELLS * CELL_BYTES)
            self._pages.append(page)
            first, *rest = range(page.address, page.address + _CELLS * CELL_BYTES, CELL_BYTES)
        self.free.extend(rest)
        return first


class Cell:
    """A place of `CELL_BYTES` bytes."""

    __slots__ = ("_cells", "address")

    def __init__(self, cells: Cells, address: int) -> None:
        self._cells, self.address = cells, address

    def give_back(self) -> None:
        """Let others have it; for who has got the result."""
        address, self.address = self.address, 0
        self._cells.free.append(address)

    def __del__(self) -> None:
        if self.address:
            self._cells.dropped.append(self.address)


class Event:
    """A point in a stream; destroyed with the object."""

    __slots__ = ("_stream", "handle")

    def __init__(self, stream: Stream, timing: bool) -> None:
        self._stream, self.handle = stream, c_void_p()
        stream.begin()
        stream.driver.event_create(byref(self.handle), 0 if timing else _EVENT_WITHOUT_TIMING)

    def record(self, stream: int | c_void_p) -> None:
        """Set the point after everything that is in a stream now."""
        self._stream.driver.event_record(self.handle, stream)

    def wait(self) -> None:
        """Wait until the device has come here; at once if the event was never recorded."""
        self._stream.driver.event_wait(self.handle)

    def __del__(self) -> None:
        if self.handle.value and self._stream.is_usable():
            self._stream.begin()
            self._stream.driver.event_destroy(self.handle)


class Staging:
    """Large copies through page-locked buffers, by several threads at once.

    The driver copies pageable memory with one thread, at 9 to 16 GB/s on an H200's host whose link carries 50; a single
    thread of ours is no faster. One copy at a time: what comes meanwhile takes the driver's own way.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream, self._lock = stream, threading.Lock()
        self._lanes: list[_Lane] = []
        self._threads: Any = None

    def upload(self, address: int, source: int, nbytes: int) -> bool:
        """Copy to the device; whether it was done. The source has been read when this returns."""
        return self._share(nbytes, lambda lane, places: lane.upload(address, source, nbytes, places))

    def download(self, target: int, address: int, nbytes: int) -> bool:
        """Copy from the device; whether it was done."""
        return self._share(nbytes, lambda lane, places: lane.download(target, address, nbytes, places))

    def _share(self, nbytes: int, work: Callable[[_Lane, range], None]) -> bool:
        """Give each lane its part of the pieces that start at the places of a range."""
        if nbytes < STAGED_FROM or LANES < 2 or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._threads is None:
                from concurrent.futures import ThreadPoolExecutor

                self._lanes = [_Lane(self._stream) for _ in range(LANES)]
                self._threads = ThreadPoolExecutor(LANES, "tack-copies")
            step = LANES * STAGE_BYTES
            parts = [range(number * STAGE_BYTES, nbytes, step) for number in range(LANES)]
            list(self._threads.map(work, self._lanes, parts))
        finally:
            self._lock.release()
        return True


class _Lane:
    """One thread's two page-locked buffers: the device copies one while the thread fills or empties the other."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._buffers = [(PinnedMemory(stream, STAGE_BYTES), Event(stream, timing=False)) for _ in range(2)]

    def upload(self, address: int, source: int, nbytes: int, places: range) -> None:
        stream = self._stream
        stream.begin()
        for number, first in enumerate(places):
            buffer, event = self._buffers[number % 2]
            size = min(STAGE_BYTES, nbytes - first)
            event.wait()
            ctypes.memmove(buffer.address, source + first, size)
            stream.driver.upload(address + first, buffer.address, size, stream.handle)
            event.record(stream.handle)

    def download(self, target: int, address: int, nbytes: int, places: range) -> None:
        stream, pending = self._stream, None
        stream.begin()
        for number, first in enumerate(places):
            buffer, event = self._buffers[number % 2]
            size = min(STAGE_BYTES, nbytes - first)
            stream.driver.download(buffer.address, address + first, size, stream.handle)
            event.record(stream.handle)
            if pending is not None:
                self._empty(*pending)
            pending = (buffer, event, target + first, size)
        if pending is not None:
            self._empty(*pending)

    @staticmethod
    def _empty(buffer: PinnedMemory, event: Event, target: int, size: int) -> None:
        event.wait()
        ctypes.memmove(target, buffer.address, size)


def fill(stream: Stream, address: int, cell: bytes, count: int) -> None:
    """Enqueue `count` times the bytes of `cell`, from an address on."""
    driver, handle, nbytes = stream.driver, stream.handle, len(cell) * count
    for width, function in ((1, driver.fill8), (2, driver.fill16), (4, driver.fill32)):
        word = cell[:width]
        if len(cell) % width == 0 and cell == word * (len(cell) // width) and address % width == 0:
            function(address, int.from_bytes(word, "little"), nbytes // width, handle)
            return
    seed = np.frombuffer(cell * min(count, max(1, _SEED_BYTES // len(cell))), np.uint8)
    driver.upload(address, seed.ctypes.data, seed.nbytes, handle)
    driver.stream_wait(handle)  # the seed goes with this call
    done = seed.nbytes
    while done < nbytes:
        size = min(done, nbytes - done)
        driver.copy(address + done, address, size, handle)
        done += size


def copy(stream: Stream, target: int, source: int, nbytes: int) -> None:
    """Enqueue a copy inside the device's memory; the two ranges may overlap."""
    if 0 < abs(target - source) < nbytes:
        between = DeviceMemory(stream, nbytes)
        stream.driver.copy(between.address, source, nbytes, stream.handle)
        source = between.address  # freed in the stream's order
        stream.driver.copy(target, source, nbytes, stream.handle)
    elif target != source:
        stream.driver.copy(target, source, nbytes, stream.handle)
