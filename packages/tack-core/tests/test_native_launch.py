"""Launching on devices with a queue, from Python and from native code, into a driver that only writes down its calls.

Oracles: Python's `range` and big integers for the iterations, `struct` and NumPy for the bytes of parameters. The two
paths must call the driver alike (LOOP-8, LOOP-10 to LOOP-12, CALL-*).
"""

from __future__ import annotations

import ctypes
import itertools
import math
import struct
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dialects import make
from rigs import host_run
from tack.codegen.gpu_launcher_ir import MOST_PENDING, STATUS_ELSEWHERE
from tack.codegen.launch_plan import ARRAY, EXTENT, FIRST, SCALAR, START, STEP, STOP, TRIPS, LaunchPlan
from tack.lang.types import ArrayType, f32, f64, i16, i32, i64, u8, u64
from tack.runtime.backend import STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION, STATUS_OK
from tack.runtime.native_launch import CallLock, NativeTable, launcher, native_table, result_waiter
from tack.runtime.queued_launch import LaunchQueue, QueuedExecutable, check_launch_size, pack

_Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
_SetCurrent = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
CONTEXT, STREAM, FUNCTIONS = 0x1111, 0x2222, (0x7001, 0x7002, 0x7003)


class RefusedError(RuntimeError):
    """What the written-down driver raises."""


class Recorder(LaunchQueue):
    """A queue whose driver writes down what it is asked for; `refuse` are the numbers of launches that it refuses."""

    label, driver_errors, error = "a recorder", (RefusedError,), RefusedError

    def __init__(self, plan: LaunchPlan, most_groups: int = 2**31 - 1, refuse: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.plan, self.most_groups, self.refuse = plan, most_groups, refuse
        self.calls: list[tuple[Any, ...]] = []
        self.launches, self.contexts, self.lock = 0, [], CallLock()
        self.throttled = 0
        self.pending = ctypes.c_int64(0)
        self.cells: list[int] = []
        self.stored: list[int] = []
        self._callbacks = _Launch(self._native_launch), _SetCurrent(self._set_current)

    def _set_current(self, context: int) -> int:
        self.contexts.append(context)
        return 0

    def _sizes(self, function: int) -> list[int]:
        kernels = [*self.plan.loops, *([self.plan.result] if self.plan.result else [])]
        parameters = kernels[FUNCTIONS.index(function)].parameters
        return [8 if p.is_address else p.dtype.itemsize for p in parameters]

    def _native_launch(self, function: int, gx: int, gy: int, gz: int, group: int, *rest: int) -> int:
        by, bz, shared, stream, pointers, extra = rest
        self.launches += 1
        if self.launches in self.refuse:
            return 700
        assert (gy, gz, by, bz, shared, stream, extra) == (1, 1, 1, 1, 0, STREAM, None)
        sizes = self._sizes(function)
        places = (ctypes.c_void_p * len(sizes)).from_address(pointers)
        values = [ctypes.string_at(place, size) for place, size in zip(places, sizes, strict=True)]
        self.calls.append((function, gx, group, values))
        return 0

    # -- the path through Python

    def throttle(self) -> None:
        self.throttled += 1

    def resolve(self, address: int) -> bytes:
        return struct.pack("<Q", address)

    def launch(self, function: int, values: Any, groups: int, group: int) -> None:
        self.launches += 1
        if self.launches in self.refuse:
            raise RefusedError("refused, planted")
        assert [len(v) for v in values] == self._sizes(function)
        self.calls.append((function, groups & 2**32 - 1, group, list(values)))  # as the driver's API takes it

    def native(self, plan: LaunchPlan, functions: Any) -> NativeTable | None:
        launch, current = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._callbacks)
        words = {"set_current": current, "context": CONTEXT, "launch": launch, "stream": STREAM}
        words["pending_address"] = ctypes.addressof(self.pending)
        return native_table(plan, functions, self.most_groups, words, self.lock)

    def refused(self, code: int) -> Exception:
        return RefusedError(f"code {code}")

    def cell(self, nbytes: int) -> Any:
        self.cells.append(0x9000 + 16 * len(self.cells))
        return SimpleNamespace(address=self.cells[-1])

    def read(self, cell: Any, nbytes: int) -> bytes:
        self.stored.append(cell.address + 5)
        return (cell.address + 5).to_bytes(nbytes, "little")


def plan_of(kernel: Any, types: tuple[Any, ...]) -> LaunchPlan:
    _, plan = host_run.generate("cuda", host_run.type_for(kernel, types))
    return plan


def executable(queue: Recorder) -> QueuedExecutable:
    kernels = [*queue.plan.loops, *([queue.plan.result] if queue.plan.result else [])]
    names = {kernel.name: function for kernel, function in zip(kernels, FUNCTIONS, strict=False)}
    return QueuedExecutable(queue, queue.plan, names.__getitem__)


def word(value: float) -> int:
    return struct.unpack("<q", struct.pack("<d", value))[0]


class Block:
    """An argument block: arrays as (address, shape), numbers as words."""

    def __init__(self, *arguments: Any) -> None:
        self.held, words = [], []
        for a in arguments:
            if isinstance(a, tuple):
                extents = (ctypes.c_int64 * max(1, len(a[1])))(*a[1])
                self.held.append(extents)
                words += [a[0], 4 * math.prod(a[1]), ctypes.addressof(extents)]
            else:
                words += [(a + 2**63) % 2**64 - 2**63, 0, 0]
        self.words = (ctypes.c_int64 * (len(words) + 1))(*words)
        self.address = ctypes.addressof(self.words)


def native_launch(made: QueuedExecutable, block: Block) -> int:
    if made.address is None:
        pytest.skip("no llvmlite, or no code at run time: only the path through Python is there")
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(made.address)
    return int(function(block.address, made.context))


def both(plan: LaunchPlan, block: Block, **options: Any) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Status and calls of the path through Python, and of the native one."""
    found = []
    for native in (False, True):
        queue = Recorder(plan, **options)
        made = executable(queue)
        status = native_launch(made, block) if native else made.launch(block.address)
        assert queue.contexts == ([CONTEXT] if native and status == STATUS_OK else [])
        found.append((status, queue.calls))
    return found


def test_parameters_are_the_bytes_that_the_kernel_takes() -> None:
    """Every kind and width; a float is rounded to f32 once, beyond it becomes infinite (FLT-*)."""
    kernel = make("a, s, n, m, t, u", ("i, j in tack.ndrange((m, a.shape[0]), (1, 7))", "a[i, j] = s + t + n + u + m"))
    plan = plan_of(kernel, (ArrayType(f32, 2), f32, i16, i64, f64, u8))
    for s, n in ((0.1, -7), (1e300, 32767), (-0.0, -32768)):
        block = Block((0xABC0, (9, 11)), word(s), n, -3, word(0.1), 200)
        by_python, by_native = both(plan, block)
        assert by_python == by_native and by_native[0] == STATUS_OK
        ((function, groups, group, values),) = by_native[1]
        i, j = range(-3, 9), range(1, 7)
        total = len(i) * len(j)
        with np.errstate(over="ignore"):
            narrow = np.float32(s)
        scalars = {1: narrow.tobytes(), 2: struct.pack("<h", n), 3: struct.pack("<q", -3)}
        scalars |= {4: struct.pack("<d", 0.1), 5: b"\xc8"}
        for p, value in zip(plan.loops[0].parameters, values, strict=True):
            axis = (i, j)[p.axis]
            want = {
                ARRAY: struct.pack("<Q", 0xABC0),
                SCALAR: scalars.get(p.position),
                EXTENT: struct.pack("<q", (9, 11)[p.axis]),
                FIRST: bytes(8),
                STOP: struct.pack("<q", total),
                START: struct.pack("<q", axis.start),
                STEP: struct.pack("<q", axis.step),
                TRIPS: struct.pack("<Q", len(axis)),
            }[p.kind]
            assert value == want, p
        assert (function, groups) == (FUNCTIONS[0], -(-total // (group * plan.loops[0].each)))


@pytest.mark.parametrize(
    "expression",
    ["n", "7", "-n", "n + m * 3", "(n - 5) // m", "n % -m", "min(n, m, 4)", "max(n, a.shape[1])", "len(a)", "a.size"],
)
def test_bounds_are_pythons(expression: str) -> None:
    plan = plan_of(make("a, n, m", (f"i in range(-2, {expression}, 3)", "a[0] = i")), (ArrayType(f32, 2), i64, i64))
    edges = (-(2**63), -(2**62), -7, -1, 0, 3, 10, 2**63 - 1)
    outcomes = set()
    for n, m in itertools.product(edges, edges):
        block = Block((64, (3, 5)), n, m)
        (by_python, calls), (by_native, native_calls) = both(plan, block, most_groups=2**62)
        assert by_python == by_native
        outcomes.add(by_native)
        a = np.zeros((3, 5), np.float32)
        if by_native == STATUS_OK:
            scope = {"a": a, "n": n, "m": m, "len": len, "min": min, "max": max}
            total = -((-2 - eval(expression, scope)) // 3) if eval(expression, scope) > -2 else 0
            assert calls == native_calls and len(calls) == (total > 0)
            if calls:
                values = dict(zip((p.kind for p in plan.loops[0].parameters), calls[0][3], strict=True))
                assert values[STOP] == struct.pack("<q", total)
        else:
            assert not calls and not native_calls
    if "//" in expression:
        assert outcomes == {STATUS_OK, STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION}


def test_a_product_of_ranges_and_unsigned_bounds() -> None:
    """LOOP-11: an empty range empties the loop, however large the others are; u64 beyond i64 is refused."""
    plan = plan_of(
        make("a, n, m, k", ("i, j, l in tack.ndrange(n, m, k)", "a[0] = i")), (ArrayType(f32, 1), u64, i64, i32)
    )
    sizes = (0, 1, 3, 2**20, 2**63 - 1)  # all products either overflow, or are launched in few pieces
    for n, m, k in itertools.product((*sizes, 2**63), (*sizes, -1), (0, 2, -5, 2**31 - 1)):
        found = both(plan, Block((64, (5,)), n, m, k))
        total = math.prod(max(0, x) for x in (n, m, k))
        fits = n < 2**63 and total < 2**63
        groups = -(-total // (plan.loops[0].group * plan.loops[0].each))
        assert found[0][0] == (STATUS_OK if fits else STATUS_BOUNDS_OVERFLOW)
        assert found[1][0] == (found[0][0] if groups < 2**31 or not fits else STATUS_ELSEWHERE)
        if found[1][0] == STATUS_OK:
            assert found[0] == found[1] and len(found[1][1]) == (total > 0)


def test_long_loops_are_cut_into_pieces_by_python() -> None:
    plan = plan_of(make("a", ("i in range(a.shape[0])", "a[i] = i")), (ArrayType(f32, 1),))
    per_group = plan.loops[0].group * plan.loops[0].each
    n = 5 * per_group + 3
    (status, calls), (native_status, native_calls) = both(plan, Block((64, (n,))), most_groups=2)
    assert status == STATUS_OK and native_status == STATUS_ELSEWHERE and native_calls == []
    kinds = [p.kind for p in plan.loops[0].parameters]
    ends = [[int.from_bytes(values[kinds.index(kind)], "little") for kind in (FIRST, STOP)] for *_, values in calls]
    edges = [*range(0, n, 2 * per_group), n]
    assert ends == [list(pair) for pair in itertools.pairwise(edges)] and [c[1] for c in calls] == [2, 2, 2]
    with pytest.raises(ValueError, match=r"what: 3 workgroups, and a launch on a recorder has at most 2"):
        check_launch_size("what", 3, Recorder(plan, most_groups=2))


LOOPS = [("i in range(n)", "a[i] = 1"), ("i in range(m)", "a[i] = 2"), ("i in range(3)", "a[i] = 3")]


def three_loops() -> LaunchPlan:
    return plan_of(make("a, n, m", *LOOPS), (ArrayType(f32, 1), i64, i64))


@pytest.mark.parametrize(("n", "m"), [(4, 5), (0, 5), (4, 0), (0, 0)])
def test_loops_in_order_without_the_empty_ones(n: int, m: int) -> None:
    by_python, by_native = both(three_loops(), Block((64, (8,)), n, m))
    wanted = [f for f, size in zip(FUNCTIONS, (n, m, 3), strict=True) if size]
    assert by_python == by_native and [c[0] for c in by_native[1]] == wanted


def test_all_bounds_before_anything_runs() -> None:
    plan = plan_of(
        make("a, n", ("i in range(3)", "a[i] = 1"), ("i in range(4 // n)", "a[i] = 2")), (ArrayType(f32, 1), i64)
    )
    for status, calls in both(plan, Block((64, (8,)), 0)):
        assert status == STATUS_BOUNDS_ZERO_DIVISION and calls == []


def test_a_refusal_names_kernel_and_launch() -> None:
    """The first refused: nothing has run, so Python tries again and explains. A later one: never a second run."""
    plan, block = three_loops(), Block((64, (8,)), 4, 5)
    made = executable(Recorder(plan, refuse=(2,)))
    with pytest.raises(
        RefusedError, match=r"kernel `k` could not run on a recorder \(loop 2 of 3, 5 iterations\): .*planted"
    ):
        made.launch(block.address)
    queue = Recorder(plan, refuse=(1,))
    assert native_launch(executable(queue), block) == STATUS_ELSEWHERE and queue.calls == []
    assert executable(queue).launch(block.address) == STATUS_OK, "the lock was given back"
    queue = Recorder(plan, refuse=(3,))
    made = executable(queue)
    assert native_launch(made, block) == STATUS_ELSEWHERE and len(queue.calls) == 2
    with pytest.raises(RefusedError, match=r"kernel `k` could not run .*code 700"):
        made.launch(block.address)
    assert len(queue.calls) == 2, "not run again"
    assert made.launch(block.address) == STATUS_OK and len(queue.calls) == 5
    queue.refuse = (queue.launches + 2,)
    with pytest.raises(RefusedError, match=r"kernel `k` could not run .*code 700"):
        made.launch(block.address)
    assert len(queue.calls) == 6, "nor when Python had launched it"


def test_calls_of_several_loops_are_not_split() -> None:
    """While another thread enqueues, a native launch goes to Python, which waits its turn."""
    queue = Recorder(three_loops())
    made, block = executable(queue), Block((64, (8,)), 4, 5)
    assert native_launch(made, block) == STATUS_OK
    with queue.lock, queue.lock:
        assert native_launch(made, block) == STATUS_ELSEWHERE and len(queue.calls) == 3
    workers = [threading.Thread(target=calls_of, args=(made, block, way)) for way in (0, 1, 0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(queue.calls) == 3 + 4 * 50 * 3
    assert [c[0] for c in queue.calls] == [*FUNCTIONS] * (len(queue.calls) // 3)


def calls_of(made: QueuedExecutable, block: Block, native: int) -> None:
    for _ in range(50):
        if not native or native_launch(made, block) == STATUS_ELSEWHERE:
            made.launch(block.address)


def test_the_launcher_never_fills_a_queue() -> None:
    """It may be called with the GIL held, and a full queue blocks: where it may be full, Python waits first."""
    queue = Recorder(three_loops())
    made, block = executable(queue), Block((64, (8,)), 4, 5)
    queue.pending.value = MOST_PENDING - 3
    assert native_launch(made, block) == STATUS_OK and queue.pending.value == MOST_PENDING
    assert native_launch(made, block) == STATUS_ELSEWHERE and len(queue.calls) == 3
    assert made.launch(block.address) == STATUS_OK and queue.throttled, "the lock was given back"
    queue.pending.value = 0
    assert native_launch(made, block) == STATUS_OK


def test_what_the_launcher_cannot_express_stays_with_python() -> None:
    many = make("a, n", *[(f"i in range(n + {k})", "a[i] = 1") for k in range(200)])
    plan = plan_of(many, (ArrayType(f32, 1), i64))
    assert Recorder(plan).native(plan, range(200)) is None, "too many values"


def test_results_are_launched_natively_and_waited_for_by_python() -> None:
    """CALL-2: the native entry does not take such a call; Python's path does, with a cell of its own each time."""
    plan = plan_of(make("a, n", ("i in range(n)", "a[i] = 1"), tail="return n * 3"), (ArrayType(f32, 1), i64))
    queue = Recorder(plan)
    made, block = executable(queue), Block((64, (8,)), 4)
    for _ in range(2):
        assert made.launch(block.address) == STATUS_OK and block.words[6] == queue.stored[-1]
        assert made.address is None, "asked for after some calls"
    by_python, by_native = queue.calls[:2], queue.calls[2:]
    cells = [calls[1][3][0] for calls in (by_python, by_native)]
    assert [c[:3] for c in by_python] == [c[:3] for c in by_native] and by_python[0] == by_native[0]
    assert [int.from_bytes(cell, "little") for cell in cells] == queue.cells and len(set(queue.stored)) == 2


def test_a_result_is_seen_when_it_is_there() -> None:
    """CALL-*: as soon as any part of the word is another, and never while it is the same."""
    wait, word = result_waiter(), (ctypes.c_int32 * 4)(7, 8, 9, 9)
    if wait is None:
        pytest.skip("no llvmlite")
    before = int.from_bytes(struct.pack("<ii", 7, 8), "little")
    assert wait(ctypes.addressof(word), before) == 0
    later = threading.Timer(0.0, word.__setitem__, (0, 1))
    later.start()
    assert any(wait(ctypes.addressof(word), before) for _ in range(10_000)) and word[0] == 1
    later.join()


def test_the_launcher_is_linked_without_llvm() -> None:
    """CACHE-*: it comes from the disk cache as an image; nothing of this process is in its text."""
    if launcher() is None:
        pytest.skip("no llvmlite")
    assert pack(-1, i16) == b"\xff\xff" and launcher() is launcher()
