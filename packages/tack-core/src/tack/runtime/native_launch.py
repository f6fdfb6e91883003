"""Launches without Python: the table of integers from which the native launcher of GPU kernels works.

The launcher (`codegen.gpu_launcher_ir`) is one function for all kernels of all GPUs, compiled once a machine and kept
in the disk cache. A kernel adds a table, so that its calls become native without compiling anything. Kernels that the
table cannot describe, and machines without LLVM, keep the path through Python, with the same answers.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from tack.codegen import launch_plan as plans
from tack.codegen.gpu_launcher_ir import (
    ACQUIRE_SYMBOL,
    AWAIT_SYMBOL,
    LAUNCH_SYMBOL,
    MAX_PARAMETERS,
    MAX_VALUES,
    OPERATIONS,
    RELEASE_SYMBOL,
    TABLE,
    gpu_launcher_source,
)
from tack.codegen.launch_plan import Bound, KernelParameter, KernelPlan, LaunchPlan
from tack.lang.types import i64, u64
from tack.runtime.backend import BLOCK_WORDS_PER_PARAM
from tack.runtime.code_store import digest_of
from tack.runtime.host_identity import code_target
from tack.runtime.native_code import NativeCode, keep_forever, kept
from tack.runtime.native_image import NativeLibrary

_FAILED: Final = TABLE.index("failed")
_SYMBOLS: Final = (LAUNCH_SYMBOL, ACQUIRE_SYMBOL, RELEASE_SYMBOL, AWAIT_SYMBOL)
_Launcher = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_PATIENCE: Final = 50e-6  # seconds between two tries of a lock that a native launch holds: the queue is full then


class _Undescribable(Exception):
    """A plan that the launcher's operations cannot express."""


class CallLock:
    """Held while a call is enqueued; the native launcher takes the same lock, for which Python's are too slow.

    A thread may take it again. In a forked child no native launch gets it any more.
    """

    def __init__(self) -> None:
        self._mine, self._depth = threading.RLock(), 0
        self._word = ctypes.c_int64(0)
        self._acquire: Any = None
        self._release: Any = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    @property
    def address(self) -> int:
        """Of the word that the native launcher takes."""
        return ctypes.addressof(self._word)

    def share(self, library: NativeLibrary) -> None:
        """From now on the native launcher competes for it."""
        with self._mine:
            if self._acquire is None and self._depth == 0:
                prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
                self._release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses[RELEASE_SYMBOL])
                self._acquire = prototype(library.addresses[ACQUIRE_SYMBOL])

    def _forget(self) -> None:
        self._word.value, self._acquire, self._depth = 1, None, 0
        self._mine = threading.RLock()

    def __enter__(self) -> None:
        self._mine.acquire()
        self._depth += 1
        if self._depth == 1 and self._acquire is not None:
            while not self._acquire(self.address):
                time.sleep(_PATIENCE)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._depth -= 1
        if self._depth == 0 and self._acquire is not None:
            self._release(self.address)
        self._mine.release()


@functools.cache
def launcher() -> NativeLibrary | None:
    """The native launcher; None without LLVM, or on a system that forbids code made at run time."""
    text, host = gpu_launcher_source(), code_target()

    def make() -> NativeCode:
        from tack.runtime.llvm_jit import compiler

        return NativeCode.compiled(lambda far: compiler().compile_small(text, far), _SYMBOLS)

    try:
        library = kept(None if host is None else digest_of("gpu launcher", host, text), make).load({})
    except (ImportError, LookupError, OSError):
        return None
    keep_forever(library)
    return library


@functools.cache
def result_waiter() -> Any:
    """Waits a while until the word at an address is another one, without the GIL; whether it is. None without LLVM."""
    library = launcher()
    if library is None:
        return None
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(library.addresses[AWAIT_SYMBOL])


class NativeTable:
    """The table of one kernel; it must live for as long as the launcher may be called with it.

    Attributes
    ----------
    function, context
        The launcher, and what it is called with beside the argument block.
    """

    def __init__(self, function: int, words: Sequence[int], held: object) -> None:
        self.function, self._held = function, held
        self._call = _Launcher(function)
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.context = ctypes.addressof(self._words)

    def launch(self, block: int) -> int:
        """Launch from Python; gives the status."""
        return int(self._call(block, self.context))

    def take_failure(self) -> int:
        """The driver's code, if a loop after the first could not be launched; 0 if nothing failed since."""
        code = int(self._words[_FAILED])
        if code:
            self._words[_FAILED] = 0
        return code


def native_table(
    plan: LaunchPlan, functions: Sequence[int], most_groups: int, stream_words: dict[str, int], lock: CallLock
) -> NativeTable | None:
    """The table of a kernel, None if its launches need Python.

    Parameters
    ----------
    plan
        The kernel's.
    functions
        The driver's handles of its loops, then that of the result's kernel, if it has one.
    most_groups
        The most workgroups of one launch; larger calls return to Python.
    stream_words
        The words "set_current", "context", "launch", "stream" and "pending_address" of the table. The last is where the
        launches are counted that nobody has waited for.
    lock
        The stream's.
    """
    library = launcher()
    if library is None:
        return None
    program = Program(plan.arguments, most_groups)
    try:
        rows = [program.loop(loop) for loop in plan.loops]
        if plan.result is not None:
            rows.append(program.result(plan.result))
    except _Undescribable:
        return None
    lists = [_array(numbers) for *_, numbers in rows]
    loops: list[int] = []
    for function, row, numbers in zip(functions, rows, lists, strict=True):
        total, groups, group, _ = row
        loops += (function, total, groups, group, len(numbers) - 1, ctypes.addressof(numbers))
    operations, loop_words = _array(program.words), _array(loops)
    words = stream_words | {
        "operations": program.count,
        "operations_address": ctypes.addressof(operations),
        "loops": len(rows),
        "loops_address": ctypes.addressof(loop_words),
        "lock_address": lock.address,
        "failed": 0,
    }
    lock.share(library)
    flat = [words[name] for name in TABLE]
    return NativeTable(library.addresses[LAUNCH_SYMBOL], flat, (operations, loop_words, lists))


def _array(words: Sequence[int]) -> Any:
    return (ctypes.c_int64 * (len(words) + 1))(*words)


class Program:
    """The operations of a call, each used once however often it is asked for."""

    def __init__(self, arguments: Sequence[Any], most_groups: int) -> None:
        self.words: list[int] = []
        self._arguments, self._most_groups = arguments, most_groups
        self._known: dict[tuple[str, int, int, int], int] = {}

    @property
    def count(self) -> int:
        return len(self._known)

    def add(self, name: str, a: int = 0, b: int = 0, c: int = 0) -> int:
        """The number of an operation's value."""
        key = (name, a, b, c)
        if key not in self._known:
            if len(self._known) == MAX_VALUES:
                raise _Undescribable
            self._known[key] = len(self._known)
            self.words += (OPERATIONS[name], a, b, c)
        return self._known[key]

    def loop(self, plan: KernelPlan) -> tuple[int, int, int, list[int]]:
        """Iterations, workgroups, threads of one, parameters of a loop: all but the threads as numbers of values."""
        if len(plan.parameters) > MAX_PARAMETERS:
            raise _Undescribable
        starts, steps, trips = [], [], []
        for r in plan.ranges:
            start, stop, step = (self.bound(b) for b in (r.start, r.stop, r.step))
            starts.append(start)
            steps.append(step)
            trips.append(self.add("trips", start, stop, step))
        total = self.total(trips)
        groups = self.add("groups", total, plan.group * plan.each, self._most_groups)
        spaces = {plans.START: starts, plans.STEP: steps, plans.TRIPS: trips}
        return total, groups, plan.group, [self._parameter(p, total, spaces) for p in plan.parameters]

    def result(self, plan: KernelPlan) -> tuple[int, int, int, list[int]]:
        """The kernel that writes the result, of one iteration or its ranges: where to, the block's last word says."""
        if plan.ranges:
            return self.loop(plan)
        one = self.add("const", 1)
        return one, one, plan.group, [self._parameter(p, one, {}) for p in plan.parameters]

    def total(self, trips: Sequence[int]) -> int:
        """Iterations of a loop: zero as soon as one range is empty, whatever the others are."""
        result = least = trips[0]
        if len(trips) > 1:
            for other in trips[1:]:
                least = self.add("least", least, other)
            result = self.add("unless_zero", trips[0], least)
            for other in trips[1:]:
                result = self.add("total", result, self.add("unless_zero", other, least))
        return self.add("fits", result)

    def _parameter(self, parameter: KernelParameter, total: int, spaces: dict[str, list[int]]) -> int:
        kind, place = parameter.kind, BLOCK_WORDS_PER_PARAM * parameter.position
        if kind == plans.ARRAY:
            return self.add("word", place)
        if kind == plans.RESULT:
            return self.add("word", BLOCK_WORDS_PER_PARAM * len(self._arguments))
        if kind == plans.SCALAR:
            return self.add("f32" if parameter.dtype.name == "f32" else "word", place)
        if kind == plans.EXTENT:
            return self.add("extent", place + 2, parameter.axis)
        if kind == plans.FIRST:
            return self.add("const", 0)
        if kind == plans.STOP:
            return total
        if kind in spaces:
            return spaces[kind][parameter.axis]
        raise _Undescribable

    def bound(self, bound: Bound) -> int:
        """The number of a bound's value."""
        kind, *parts = bound
        if kind == "const":
            if not i64.min <= parts[0] <= i64.max:
                raise _Undescribable
            return self.add("const", parts[0])
        if kind == "scalar":
            word = BLOCK_WORDS_PER_PARAM * parts[0]
            return self.add("unsigned" if self._arguments[parts[0]] is u64 else "word", word)
        if kind in ("shape", "size"):
            place, rank = BLOCK_WORDS_PER_PARAM * parts[0] + 2, self._arguments[parts[0]]
            if kind == "shape":
                return self.add("extent", place, parts[1])
            return self._fold("product", [self.add("extent", place, axis) for axis in range(rank)], 1)
        if kind == "neg":
            return self.add("-", self.add("const", 0), self.bound(parts[0]))
        return self._fold(kind, [self.bound(part) for part in parts], 0)

    def _fold(self, operation: str, values: Sequence[int], start: int) -> int:
        if not values:
            return self.add("const", start)
        result = values[0]
        for value in values[1:]:
            result = self.add(operation, result, value)
        return result
