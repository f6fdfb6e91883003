"""Memory of the devices whose memory is host memory: zero-filled, aligned, and staggered."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from typing import Any

import numpy as np

HostArray = np.ndarray[Any, Any]

ALIGNMENT = 64  # a cache line, and the widest vector
LARGE = 1 << 16  # from here on an array has pages of its own
_SPAN = 1 << 21  # a huge page: no two large arrays should start at the same place of one
_HUGE = 1 << 22  # from here on huge pages are asked for
# An odd number near _SPAN / ALIGNMENT times the golden ratio: its multiples run through all lines of a huge page, and
# through all lines of a 4 KiB page, before one comes again, and those of neighbours lie far apart.
_STRIDE = 20253
_turn = itertools.count(1)

# Shared mappings, the default, would let a forked child write into the parent's arrays.
_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


class HostMemory:
    """The memory part of `Backend`, for devices that compute in host memory and finish before a launch returns."""

    dlpack_device: tuple[int, int] | None = (1, 0)  # kDLCPU

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        """Zero-filled memory: its address, and the object whose life is the memory's life."""
        if nbytes < LARGE:
            raw = np.zeros(nbytes + ALIGNMENT, np.uint8)
            return -(-_address(raw) // ALIGNMENT) * ALIGNMENT, raw
        pages = _map(nbytes + _SPAN)
        base = _address(pages)
        # Arrays at equal offsets in their huge pages fight for the same cache sets: a stencil then takes twice as long.
        line = next(_turn) * _STRIDE * ALIGNMENT
        return base + (line - base) % _SPAN, pages

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


def _map(nbytes: int) -> HostArray:
    """Fresh pages, as bytes; untouched ones cost nothing."""
    try:
        pages = mmap.mmap(-1, nbytes, **_PRIVATE)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"cannot allocate an array of {nbytes - _SPAN} bytes: {error}") from None
    if nbytes >= _HUGE + _SPAN and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # a kernel without huge pages: they are a matter of speed only
            pass
    return np.frombuffer(pages, np.uint8)
