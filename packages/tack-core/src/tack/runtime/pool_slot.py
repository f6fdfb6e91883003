"""Where kernels find the thread pool: a word with the address of ``tack_parallel_for``, read at each shared loop.

Most programs start with loops too small to share, so the pool is made by the first loop that is: until then the word
holds a function that makes it, and writes the pool's own address there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import warnings
from _thread import allocate_lock  # all that is needed of `threading`, which is slow to load
from collections.abc import Iterator
from typing import Any

_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_ParallelFor = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)

_word = ctypes.c_int64(0)
_lock = allocate_lock()
_starting = 0


def parallel_for_word() -> int:
    """The address of the word.

    Raises
    ------
    ValueError
        If ``TACK_CPU_THREADS`` is not a number of threads: better said now than in the middle of a loop.
    """
    if not _word.value:
        if "TACK_CPU_THREADS" in os.environ:
            from tack.runtime.cpu_pool import cpu_count

            cpu_count()
        with _lock:
            if not _word.value:
                _word.value = ctypes.cast(_first, ctypes.c_void_p).value or 0
    return ctypes.addressof(_word)


def is_starting() -> bool:
    """Whether a loop is waiting for the pool to be made: it may hold the GIL's place, and its code must stay."""
    return _starting > 0


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Python that a launch runs in its middle."""
    global _starting
    with _lock:
        _starting += 1
    try:
        yield
    finally:
        with _lock:
            _starting -= 1


def _start_and_run(body: int, context: int, count: int, grain: int, limit: int, unit: int) -> None:
    """The first shared loop. No exception can leave it, so a loop that gets no pool runs here, which gives the same."""
    failure: Exception | None = None
    with starting():
        try:
            from tack.runtime.cpu_pool import pool

            address = pool().address
            _word.value = address
            run: Any = _ParallelFor(address)
            run(body, context, count, grain, limit, unit)
        except Exception as error:
            failure = error
            _Body(body)(context, 0, count, 0)
    if failure is not None:
        warnings.warn(f"Tack has no threads, so loops run in one: {failure}", RuntimeWarning, stacklevel=2)


_first = _ParallelFor(_start_and_run)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
