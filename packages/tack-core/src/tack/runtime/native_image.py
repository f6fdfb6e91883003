"""Machine code as a flat image: mapped into this process, given the addresses that it imports, and made executable."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from typing import Any

from tack.lang.records import record

PAGE = mmap.PAGESIZE


@record(frozen=True)
class NativeLibrary:
    """Code in this process. `addresses` are good for as long as `tracker` lives."""

    addresses: dict[str, int]
    tracker: Any


@record(frozen=True)
class Image:
    """Linked code without an address of its own.

    `ends` are where code, constants and data end, each at a page; what `content` leaves out there is zero. An import is
    (name, place of the word, addend), a relative word (place, offset from the start of the image).
    """

    content: bytes
    ends: tuple[int, int, int]
    exports: dict[str, int]
    imports: tuple[tuple[str, int, int], ...]
    relative: tuple[tuple[int, int], ...]

    def describe(self) -> dict[str, Any]:
        """All but the content, in literals."""
        return {
            "ends": self.ends,
            "exports": self.exports,
            "imports": self.imports,
            "relative": self.relative,
            "page": PAGE,
        }

    @staticmethod
    def described(description: dict[str, Any], content: bytes) -> Image:
        """What `describe` was made from.

        Raises
        ------
        ValueError, TypeError, KeyError
            If it does not describe an image that this process can map.
        """
        code, constants, data = (int(e) for e in description["ends"])
        image = Image(
            content,
            (code, constants, data),
            {str(name): int(at) for name, at in description["exports"].items()},
            tuple((str(name), int(at), int(addend)) for name, at, addend in description["imports"]),
            tuple((int(at), int(offset)) for at, offset in description["relative"]),
        )
        image.check(int(description["page"]))
        return image

    def check(self, page: int) -> None:
        code, constants, data = self.ends
        sizes = 0 < code <= constants <= data and len(self.content) <= data and page == PAGE
        words = [at for _, at, _ in self.imports] + [at for at, _ in self.relative]
        if not sizes or any(e % PAGE for e in self.ends) or any(not code <= at <= data - 8 for at in words):
            raise ValueError("not an image for this process")
        if any(not 0 <= at < code for at in self.exports.values()):
            raise ValueError("an export outside the code")


class _Mapping:
    """Pages of this process that hold an image; they go when this object goes."""

    __slots__ = ("__weakref__", "_pages", "_view", "address")

    def __init__(self, size: int) -> None:
        self._pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
        self._view = ctypes.c_char.from_buffer(self._pages)
        self.address = ctypes.addressof(self._view)

    def protect(self, start: int, end: int, protection: int) -> None:
        if end > start and _mprotect()(self.address + start, end - start, protection) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"this system does not let memory hold code: {os.strerror(error)}")


@functools.cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function


def load(image: Image, imports: dict[str, int]) -> NativeLibrary:
    """Put an image into this process; `imports` are symbols beside those of the C library.

    Raises
    ------
    LookupError
        If a symbol is nowhere to be found.
    OSError
        If the system refuses the memory.
    """
    mapping = _Mapping(image.ends[2])
    base = mapping.address
    ctypes.memmove(base, image.content, len(image.content))
    for name, at, addend in image.imports:
        address = imports.get(name) or symbol_address(name)
        ctypes.c_int64.from_address(base + at).value = address + addend
    for at, offset in image.relative:
        ctypes.c_int64.from_address(base + at).value = base + offset
    code, constants, _ = image.ends
    mapping.protect(0, code, mmap.PROT_READ | mmap.PROT_EXEC)
    mapping.protect(code, constants, mmap.PROT_READ)
    return NativeLibrary({name: base + at for name, at in image.exports.items()}, mapping)


@functools.cache
def symbol_address(name: str) -> int:
    """The address of a function of the C library or its mathematics.

    Raises
    ------
    LookupError
        If there is none of this name.
    """
    for library in _libraries():
        if hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    raise LookupError(name)


@functools.cache
def _libraries() -> tuple[Any, ...]:
    """The mathematics first: a program may carry functions of the same names."""
    found = []
    if sys.platform == "linux":
        for name in ("libm.so.6", "libmvec.so.1"):
            try:
                found.append(ctypes.CDLL(name))
            except OSError:  # another C library, which has its mathematics in itself
                continue
    return (*found, ctypes.CDLL(None))
