"""Memory of the devices whose memory is host memory: zero-filled, aligned, and staggered."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import Any, ClassVar

import numpy as np

HostArray = np.ndarray[Any, Any]

ALIGNMENT = 64  # a cache line, and the widest vector
LARGE = 1 << 16  # from here on an array has pages of its own
_SPAN = 1 << 21  # a huge page: no two large arrays should start at the same place of one
_HUGE = 1 << 22  # from here on huge pages are asked for
_KEPT_MOST = 1 << 28  # the pages of an array of up to so many bytes are kept for the next one
# An odd number near _SPAN / ALIGNMENT times the golden ratio: its multiples run through all lines of a huge page, and
# through all lines of a 4 KiB page, before one comes again, and those of neighbours lie far apart.
_STRIDE = 20253
_turn = itertools.count(1)

# Shared mappings, the default, would let a forked child write into the parent's arrays.
_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
# Advice that pages may be taken, but need not be; None where it is not to be had.
_MAY_TAKE: int | None = getattr(mmap, "MADV_FREE", None)


class HostMemory:
    """The memory part of `Backend`, for devices that compute in host memory and finish before a launch returns."""

    dlpack_device: tuple[int, int] | None = (1, 0)  # kDLCPU

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        """Zero-filled memory: its address, and the object whose life is the memory's life."""
        if nbytes < LARGE:
            raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
            return -(-_address(raw) // ALIGNMENT) * ALIGNMENT, raw
        kept = _take(nbytes + _SPAN)
        pages = _map(nbytes + _SPAN) if kept is None else kept
        base = _address(np.frombuffer(pages, np.uint8))
        # Arrays at equal offsets in their huge pages fight for the same cache sets: a stencil then takes twice as long.
        line = next(_turn) * _STRIDE * ALIGNMENT
        address = base + (line - base) % _SPAN
        if kept is not None:
            ctypes.memset(address, 0, nbytes)
        return address, _Owner(pages) if _HUGE <= nbytes <= _KEPT_MOST else np.frombuffer(pages, np.uint8)

    def upload(self, address: int, source: HostArray) -> None:
        """Copy a C-contiguous host array to `address`."""
        ctypes.memmove(address, _address(source), source.nbytes)

    def download(self, address: int, target: HostArray) -> None:
        """Copy from `address` into a C-contiguous host array."""
        ctypes.memmove(_address(target), address, target.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy from `source` to `target`, which may overlap."""
        ctypes.memmove(target, source, nbytes)

    def synchronize(self) -> None:
        """Return at once: launches finish before they return."""


def _address(values: HostArray) -> int:
    return int(values.__array_interface__["data"][0])


class _Owner:
    """Holds a mapping, and leaves it to the next array of about its size.

    Fresh pages cost five times as much as clearing old ones. One mapping is kept, the last that was freed, and the
    system may take its memory whenever it needs some.
    """

    __slots__ = ("_pages",)
    kept: ClassVar[list[mmap.mmap]] = []

    def __init__(self, pages: mmap.mmap) -> None:
        self._pages = pages

    def __del__(self) -> None:
        if _MAY_TAKE is None:
            return
        try:
            self._pages.madvise(_MAY_TAKE)
        except OSError:  # a system that does not have it after all: the pages go
            return
        self.kept[:] = [self._pages]


def _take(nbytes: int) -> mmap.mmap | None:
    """The kept mapping if it has so many bytes, and not many more."""
    try:
        pages = _Owner.kept.pop()
    except IndexError:
        return None
    if nbytes <= len(pages) <= nbytes + nbytes // 4:
        return pages
    _Owner.kept[:] = [pages]
    return None


def _map(nbytes: int) -> mmap.mmap:
    """Fresh pages; untouched ones cost nothing."""
    try:
        pages = mmap.mmap(-1, nbytes, **_PRIVATE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"cannot allocate an array of {nbytes - _SPAN} bytes: {error}") from None
    if nbytes >= _HUGE + _SPAN and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without huge pages: they are a matter of speed only
            pass
    return pages
