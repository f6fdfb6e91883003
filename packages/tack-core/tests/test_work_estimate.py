"""Whether a loop goes to the thread pool follows from the work that a launch finds, and not from the loop alone.

So does how finely it is cut. Neither decides what it computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tack
from lane_rig import Compiled, host_unit, typed_ir
from tack.codegen.work_estimate import has_unknown_trips, lengths
from tack.lang.ir import IRParallelFor


@tack.kernel
def by_extent(a, n, out):
    for i in range(out.shape[0]):
        total = 0
        for j in range(a.shape[0]):
            total += a[j]
        out[i] = total


@tack.kernel
def by_parameter(a, n, out):
    for i in range(out.shape[0]):
        total = 0
        for j in range(n):
            total += a[j]
        out[i] = total


@tack.kernel
def by_local(a, n, out):
    last = a.shape[0] - 1
    for i in range(out.shape[0]):
        total = a[0]
        for j in range(1, last + 1):
            total += a[j]
        out[i] = total


def shared(kernel: Any, rows: int, length: int) -> int:
    """How many loops of a call went to the pool; the results are checked on the way."""
    a, out = np.arange(length, dtype=np.int32), np.zeros(rows, np.int32)
    compiled = Compiled(typed_ir(kernel, a, length, out), None, shared=False)
    found = compiled(a, length, out)[-1]
    assert found.tolist() == [length * (length - 1) // 2] * rows
    return compiled.calls


@pytest.mark.parametrize("kernel", [by_extent, by_parameter, by_local], ids=lambda k: k.__name__)
def test_few_long_iterations_are_shared(kernel: Any) -> None:
    """Two rows of 60,000 elements are worth a second thread; two of ten, or of none, are not."""
    assert shared(kernel, 2, 60_000) == 1
    assert shared(kernel, 2, 10) == 0
    assert shared(kernel, 1, 60_000) == 0, "one iteration cannot be shared"


def test_many_short_iterations_are_shared_as_before() -> None:
    """Short loops inside count as they did: 40,000 rows of one element are worth it."""
    assert shared(by_extent, 40_000, 1) == 1


@tack.kernel
def literal(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(4):
            y[i] += k


@tack.kernel
def parameter(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(m):
            y[i] += k


@tack.kernel
def extent(y: tack.Array, m: tack.i64):
    n = y.shape[0]
    for i in range(n):
        for k in range(1, n - 1):
            for j in range(3):
                y[i] += k * j


@tack.kernel
def computed(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(i * m):
            y[i] += k


@tack.kernel
def loaded(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(m):
            for j in range(y[i]):
                y[i] += k * j


@tack.kernel
def waiting(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        while y[i] > 0:
            y[i] -= m


@tack.func
def spin(m: tack.i64) -> tack.i64:
    total = tack.i64(0)
    for k in range(m):
        total += k
    return total


@tack.kernel
def called(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        y[i] = spin(y[i])


CASES = [(literal, 0, False), (parameter, 1, False), (extent, 1, False), (computed, 0, True), (loaded, 1, True)]
CASES += [(waiting, 0, True), (called, 0, True)]


@pytest.mark.parametrize(("kernel", "known", "unknown"), CASES, ids=lambda v: str(v))
def test_serial_loops_of_unknown_length(kernel: Any, known: int, unknown: bool) -> None:
    typed = typed_ir(kernel, np.zeros(4, np.int64), 3)
    loop = next(s for s in typed.body if isinstance(s, IRParallelFor))
    assert len(lengths(loop, typed)) == known
    assert has_unknown_trips(loop, typed) is unknown


def asked(kernel: Any, *args: Any) -> tuple[int, int, int]:
    """The grain, the limit and the unit that a call asks the pool for."""
    compiled = Compiled(typed_ir(kernel, *args), None, disjoint=True)
    compiled(*args)
    return compiled.asked


def test_iterations_of_unknown_length_are_cut_more_finely() -> None:
    """By 16, as each may be long: one that is would hold the others up."""
    y = np.zeros(4, np.int64)
    grain, again = asked(parameter, y, 64)[0], asked(called, y, 64)[0]
    assert grain < -100 and asked(parameter, y, 640)[0] == grain // 10 + 1
    assert -100 < again < 0


def test_the_unit_is_what_code_runs_at_once() -> None:
    """A block of lanes; 1 where one iteration runs after the other."""
    y = np.zeros(4, np.int64)
    compiled = Compiled(typed_ir(parameter, y, 64), None, disjoint=True)
    compiled(y, 64)
    assert compiled.asked[2] == compiled.plans[0].width >= host_unit().size // 8
    scalar = Compiled(typed_ir(parameter, y, 64), 1, disjoint=True)
    scalar(y, 64)
    assert scalar.asked[2] == 1


@tack.kernel
def count(h, x):
    for i in range(x.shape[0]):
        tack.atomic_add(h, x[i], 1)


@pytest.mark.parametrize(
    ("bins", "n", "least", "threads"),
    [(256, 10, 256 * 128, 1), (256, 256 * 128 * 3, 256 * 128, 3), (256, 256 * 128 * 4 - 1, 256 * 128, 3)],
)
def test_counting_takes_no_more_threads_than_copies_pay_for(bins: int, n: int, least: int, threads: int) -> None:
    """Four times 32 iterations an element in each chunk, and a thread for each."""
    x = np.zeros(n, np.int32)
    assert asked(count, np.zeros(bins, np.int32), x)[:2] == (-least, threads)


def test_counters_without_copies_take_all_threads() -> None:
    """An array of more than 16 KiB is not copied."""
    grain, limit, _ = asked(count, np.zeros(5000, np.int32), np.zeros(1000, np.int32))
    assert limit >= 1000 and grain > -256 * 128


@tack.kernel
def count_parts(h, x, parts: tack.i64):
    for part in range(parts):
        mine = tack.local(16, tack.i32)
        for b in range(16):
            mine[b] = 0
        for i in range(x.size * part // parts, x.size * (part + 1) // parts):
            mine[x[i]] += 1
        for b in range(16):
            tack.atomic_add(h, b, mine[b])


def test_long_iterations_that_count_take_all_threads() -> None:
    """Few of them are worth any number of threads, whatever they count: 64 of a millisecond each, for one."""
    grain, limit, _ = asked(count_parts, np.zeros(16, np.int32), np.zeros(64, np.int32), 64)
    assert limit == 0 and grain == -1
