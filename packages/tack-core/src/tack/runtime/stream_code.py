"""A kernel's second code, for loops that touch more than the caches hold: compiled when the first such launch comes.

Most kernels never see such arrays, and their first call should not wait for code that they do not run. So the text is
kept, and a word holds the address of a function that compiles it and writes the code's own address there. That launch,
and every one if the code cannot be had, goes through the kernel's plain code, which computes the same.
"""

from __future__ import annotations

import _thread
import ctypes
from typing import Final

from tack.runtime.code_store import digest_of
from tack.runtime.host_identity import code_target
from tack.runtime.native_code import NativeCode, kept
from tack.runtime.native_image import NativeLibrary
from tack.runtime.pool_slot import starting

NOT_RUN: Final = -1  # what native code takes for "use the plain code"
_Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_absent = _Launch(lambda block: NOT_RUN)


def absent() -> int:
    """The address of a function that stands for code that is never made."""
    return ctypes.cast(_absent, ctypes.c_void_p).value or 0


class StreamCode:
    """Holds the code, and what it takes to make it.

    Parameters
    ----------
    text : str
        The module, in LLVM's language.
    all_lanes : bool
        Whether all its loops are lanes.
    exports, late
        As for `NativeCode.compiled`; the first export launches.
    imports : dict
        Addresses of what it calls.
    """

    __slots__ = ("_first", "_libraries", "_word")

    def __init__(
        self, text: str, all_lanes: bool, exports: tuple[str, ...], late: frozenset[str], imports: dict[str, int]
    ) -> None:
        word, libraries, tried = ctypes.c_int64(0), list[NativeLibrary](), list[int]()

        def code() -> NativeCode:
            from tack.runtime.llvm_jit import compiler

            emit = compiler().compile_lanes if all_lanes else compiler().compile_object
            return NativeCode.compiled(lambda far: emit(text, far), exports, late)

        def first(block: int) -> int:
            # Runs in the middle of a launch, so no exception can leave it.
            try:
                if not tried:
                    tried.append(block)
                    with starting():
                        target = code_target()
                        digest = None if target is None else digest_of("streams", target, text)
                        libraries.append(kept(digest, code).load(imports))
                        word.value = libraries[0].addresses[exports[0]]
            except KeyboardInterrupt:
                _thread.interrupt_main()
            except Exception:
                pass  # a matter of speed only
            return NOT_RUN

        self._word, self._libraries, self._first = word, libraries, _Launch(first)
        word.value = ctypes.cast(self._first, ctypes.c_void_p).value or 0

    @property
    def word(self) -> int:
        """The address of the word."""
        return ctypes.addressof(self._word)

    @property
    def is_made(self) -> bool:
        """Whether launches find the code."""
        return bool(self._libraries)
