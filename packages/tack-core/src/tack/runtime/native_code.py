"""Compiled code apart from any process: a flat image where `elf_image` can link, else the object file for LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from tack.lang.records import record
from tack.runtime import code_store, native_image
from tack.runtime.native_image import Image, NativeLibrary


@record(frozen=True)
class NativeCode:
    """`image` if this code could be linked here, else `data` is an object file with these exports."""

    data: bytes
    exports: tuple[str, ...]
    image: Image | None

    @staticmethod
    def compiled(
        emit: Callable[[bool], bytes], exports: tuple[str, ...], late: frozenset[str] = frozenset()
    ) -> NativeCode:
        """Freshly compiled code; `emit(far)` makes an object, `far` for LLVM's linker; `late` as for `link`."""
        from tack.runtime.elf_image import link

        data = emit(False)
        image = link(data, exports, late)
        return NativeCode(emit(True) if image is None else data, exports, image)

    def describe(self) -> tuple[dict[str, Any], bytes]:
        """The code as literals, and bytes."""
        if self.image is None:
            return {"exports": self.exports}, self.data
        return {"exports": self.exports, "image": self.image.describe()}, self.image.content

    @staticmethod
    def described(notes: dict[str, Any], payload: bytes) -> NativeCode:
        """What `describe` was made from; raises ValueError, TypeError or KeyError if it is not."""
        exports = tuple(str(name) for name in notes["exports"])
        image = notes.get("image")
        return NativeCode(payload, exports, None if image is None else Image.described(image, payload))

    def load(self, imports: dict[str, int]) -> NativeLibrary:
        """Put the code into this process.

        Raises
        ------
        LookupError, OSError
            If it imports what is not to be found, or the system refuses memory for code.
        """
        if self.image is not None:
            return native_image.load(self.image, imports)
        from tack.runtime.llvm_jit import compiler

        return compiler().load(self.data, self.exports, imports)


def keep_forever(library: NativeLibrary) -> None:
    """Let the code stay even when the interpreter ends: threads may be running it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library.tracker))


def kept(digest: str | None, make: Callable[[], NativeCode]) -> NativeCode:
    """Code from the disk cache, else made, and kept there."""
    found = code_store.fetch(digest, NativeCode.described)
    if found is None:
        found = make()
        code_store.keep(digest, *found.describe())
    return found
