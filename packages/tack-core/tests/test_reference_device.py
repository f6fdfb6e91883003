"""The reference device: it reports broken caller constraints, touches nothing foreign, and can be stepped through.

What it computes is compared here with values worked out by hand; every other test module runs on it as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tack
from tack.runtime.reference_interpreter import Interpreter

TABLE = (10, 20, 30)


@pytest.fixture(autouse=True)
def on_reference() -> Iterator[None]:
    with tack.device("reference"):
        yield


# ------------------------------------------------------------------------------------------ broken caller constraints


@tack.kernel
def floor_by_zero(a, out):
    for i in range(4):
        out[i] = 100 // a[i]


@tack.kernel
def remainder_by_zero(a, out):
    for i in range(4):
        out[i] = 100 % a[i]


@tack.kernel
def minimum_by_minus_one(a, out):
    for i in range(4):
        out[i] = tack.i32(-2147483648 * a[i]) // -a[i]


@tack.kernel
def true_division_by_zero(a, out):
    for i in range(4):
        out[i] = tack.i32(1 / a[i])


@tack.kernel
def float_floor_by_zero(a, out):
    for i in range(4):
        out[i] = tack.i32(1.5 // a[i])


@tack.kernel
def float_remainder_by_zero(a, out):
    for i in range(4):
        out[i] = tack.i32(1.5 % a[i])


@tack.kernel
def shift_by_width(a, out):
    for i in range(4):
        out[i] = 1 << (32 - a[i])


@tack.kernel
def shift_by_wide_count(a, out):
    for i in range(4):
        # As an i32 the count would be zero.
        out[i] = 1 << (tack.i64(4294967296) * (1 - a[i]))


@tack.kernel
def shift_by_negative(a, out):
    for i in range(4):
        out[i] = 5 >> (a[i] - 1)


@tack.kernel
def negative_exponent(a, out):
    for i in range(4):
        out[i] = 3 ** (a[i] - 1)


@tack.kernel
def float_too_large(a, out):
    for i in range(4):
        out[i] = tack.i32(3e9 * (1 - a[i]))


@tack.kernel
def nan_to_integer(a, out, zero):
    for i in range(4):
        out[i] = tack.i32(a[i] / zero - a[i] / zero)


@tack.kernel
def step_of_zero(a, out):
    for i in range(4):
        for k in range(0, 3, a[i]):
            out[i] += 1


@tack.kernel
def load_past_the_end(a, out):
    for i in range(4):
        out[i] = a[i + 1]


@tack.kernel
def negative_index(a, out):
    for i in range(4):
        out[a[i] - 1] = 7


@tack.kernel
def atomic_past_the_end(a, out):
    for i in range(4):
        tack.atomic_add(out, i + 4 - 4 * a[i], 7)


@tack.kernel
def maybe_unassigned(a, out):
    for i in range(4):
        if a[i] != 0:
            x = 1
        out[i] = x


@tack.kernel
def undefined_local_element(a, out):
    for i in range(4):
        t = tack.local(2, tack.i32)
        t[a[i]] = 5
        out[i] = t[1]


@tack.kernel
def table_past_the_end(a, out):
    for i in range(4):
        out[i] = TABLE[3 - a[i]]


@tack.func
def quotient(n, d):
    return n // d


@tack.kernel
def inside_a_function(a, out):
    for i in range(4):
        out[i] = quotient(100, a[i])


# Each breaks its constraint where the element of `a` is 0, and is defined where it is 1.
VIOLATIONS: list[tuple[Any, type[Exception], str, str]] = [
    (floor_by_zero, ArithmeticError, "IDIV-3", "100 // a[i]"),
    (remainder_by_zero, ArithmeticError, "IDIV-3", "100 % a[i]"),
    (true_division_by_zero, ArithmeticError, "TDIV-3", "1 / a[i]"),
    (float_floor_by_zero, ArithmeticError, "FDIV-5", "1.5 // a[i]"),
    (float_remainder_by_zero, ArithmeticError, "FDIV-5", "1.5 % a[i]"),
    (shift_by_width, ArithmeticError, "SHIFT-2", "1 << (32 - a[i])"),
    (shift_by_wide_count, ArithmeticError, "SHIFT-2", "4294967296"),
    (shift_by_negative, ArithmeticError, "SHIFT-2", "5 >> (a[i] - 1)"),
    (negative_exponent, ArithmeticError, "POW-2", "3 ** (a[i] - 1)"),
    (float_too_large, ArithmeticError, "INT-3", "3e9"),
    (step_of_zero, ValueError, "LOOP-10", "range(0, 3, a[i])"),
    (negative_index, IndexError, "MEM-3", "a[i] - 1"),
    (atomic_past_the_end, IndexError, "MEM-3", "atomic_add"),
    (maybe_unassigned, UnboundLocalError, "CAP-1", "out[i] = x"),
    (undefined_local_element, LookupError, "MEM-6", "t[1]"),
    (table_past_the_end, IndexError, "MEM-3", "TABLE[3 - a[i]]"),
    (inside_a_function, ArithmeticError, "IDIV-3", "n // d"),
]


@pytest.mark.parametrize(("kernel", "kind", "rule", "text"), VIOLATIONS, ids=lambda v: getattr(v, "__name__", None))
def test_a_broken_constraint_is_reported(kernel: Any, kind: type[Exception], rule: str, text: str) -> None:
    """Every row of the table: the error names rule, place and iteration; what ran before stands, nothing runs after."""
    kernel(tack.asarray(np.ones(4, np.int32)), tack.zeros(4, tack.i32))  # the control: nothing is broken
    a, out = tack.asarray(np.array([1, 1, 0, 1], np.int32)), tack.full(4, -1, tack.i32)
    with pytest.raises(kind) as caught:
        kernel(a, out)
    message = str(caught.value)
    assert rule in message and text in message and "iteration i = 2" in message
    assert "test_reference_device.py:" in message and "^" in message
    done = out.numpy()
    assert done[0] != -1 and (done[2:] == -1).all()


def test_the_signed_minimum_by_minus_one() -> None:
    """IDIV-3."""
    out = tack.zeros(4, tack.i32)
    with pytest.raises(ArithmeticError, match=r"IDIV-3.*-2147483648 // -1"):
        minimum_by_minus_one(tack.asarray(np.ones(4, np.int32)), out)
    assert not out.numpy().any()


def test_nan_to_an_integer() -> None:
    """INT-3."""
    with pytest.raises(ArithmeticError, match=r"INT-3.*nan"):
        nan_to_integer(tack.asarray(np.ones(4, np.int32)), tack.zeros(4, tack.i32), 0.0)


def test_the_chain_of_calls_is_shown() -> None:
    """SRC-7 at run time: the device function's line, then the call."""
    with pytest.raises(ArithmeticError) as caught:
        inside_a_function(tack.zeros(4, tack.i32), tack.zeros(4, tack.i32))
    message = str(caught.value)
    assert "device function `quotient`" in message and "called at" in message and "quotient(100, a[i])" in message


def test_no_foreign_memory_is_touched() -> None:
    """MEM-3: an index out of range neither reads nor writes the bytes beside an array."""
    memory = np.full(12, 99, np.int32)
    view = memory[4:8]
    for kernel in (load_past_the_end, negative_index, atomic_past_the_end):
        view[:] = 0
        with pytest.raises(IndexError, match="MEM-3"):
            kernel(view, view)
        assert (memory[:4] == 99).all() and (memory[8:] == 99).all()


@tack.kernel
def row_and_column(a, out):
    for i in range(1):
        out[0] = a[0, 4]


def test_each_index_is_checked_against_its_own_extent() -> None:
    """MEM-3: a column past the end is out of range although the flat position exists."""
    with pytest.raises(IndexError, match=r"\[0, 4\].*\(3, 4\)"):
        row_and_column(tack.zeros((3, 4), tack.i32), tack.zeros(1, tack.i32))


@tack.kernel
def guarded(a, out):
    for i in range(4):
        out[i] = 100 // a[i] if a[i] != 0 else -1
        if a[i] != 0 and 100 % a[i] == 0:
            out[i] += 1000


def test_a_guard_prevents_execution() -> None:
    """EVAL-9: nothing is reported for what never runs."""
    out = tack.zeros(4, tack.i32)
    guarded(tack.asarray(np.array([0, 7, 0, 50], np.int32)), out)
    assert out.numpy().tolist() == [-1, 14, -1, 1002]


# ------------------------------------------------------------------------------------------------- stepping through


@tack.kernel
def collatz(start, steps):
    for i in range(start.shape[0]):
        n = start[i]
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        steps[i] = count


def test_statements_can_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A debugger's breakpoint in `Interpreter.statement` sees each statement with the user's names and lines."""
    seen: list[tuple[int, int | float | None]] = []
    plain = Interpreter.statement

    def watched(self: Interpreter, node: Any, frame: Any) -> Any:
        flow = plain(self, node, frame)
        seen.append((node.loc.line, frame.locals.get("n")))
        return flow

    monkeypatch.setattr(Interpreter, "statement", watched)
    steps = tack.zeros(2, tack.i32)
    collatz(tack.asarray(np.array([6, 1], np.int32)), steps)
    assert steps.numpy().tolist() == [8, 0]
    body_of_while = collatz.__wrapped__.__code__.co_firstlineno + 6  # the line that assigns n
    assert [n for line, n in seen if line == body_of_while] == [3, 10, 5, 16, 8, 4, 2, 1]


# ------------------------------------------------------------------------------------------ values worked out by hand


@tack.func
def find(a, wanted):
    for k in range(a.shape[0]):
        if a[k] == wanted:
            return k, 1
    return tack.i64(-1), 0


@tack.kernel
def lookups(a, keys, out):
    for i in range(keys.size):
        position, found = find(a, keys[i])
        out[i, 0] = position
        out[i, 1] = found


def test_device_functions_with_early_returns() -> None:
    """FUNC-2: a return from inside a loop, two results, an array by reference."""
    a, keys = np.array([5, 3, 9], np.int32), np.array([9, 4, 5], np.int32)
    out = tack.zeros((3, 2), tack.i64)
    lookups(tack.asarray(a), tack.asarray(keys), out)
    assert out.numpy().tolist() == [[2, 1], [-1, 0], [0, 1]]


@tack.kernel
def odd_sums(out):
    for i in range(3):
        total = 0
        for k in range(10):
            if k % 2 == 0:
                continue
            if k > 5 + i:
                break
            total += k
        out[i] = total
    for i in range(2, -1, 1):
        out[i] = -1


def test_break_continue_and_an_empty_loop() -> None:
    """LOOP-10, LOOP-13."""
    out = tack.zeros(3, tack.i32)
    odd_sums(out)
    assert out.numpy().tolist() == [9, 9, 16]


@tack.kernel
def atomics(cell, old):
    for i in range(4):
        old[i] = tack.atomic_add(cell, 0, i)
    for i in range(1):
        old[4] = tack.atomic_max(cell, 0, 100)
        old[5] = tack.atomic_cas(cell, 0, 100, 7)
        old[6] = tack.atomic_cas(cell, 0, 100, 8)
        old[7] = tack.atomic_exchange(cell, 0, -1)


def test_atomics_give_the_old_value() -> None:
    """ATOM-1."""
    cell, old = tack.full(1, 10, tack.i32), tack.zeros(8, tack.i32)
    atomics(cell, old)
    assert old.numpy().tolist() == [10, 10, 11, 13, 16, 100, 7, 7]
    assert cell.numpy().tolist() == [-1]


@tack.kernel
def float_cas(cell, out):
    for i in range(1):
        out[0] = tack.atomic_cas(cell, 0, 0.0, 5.0)


def test_compare_and_swap_compares_bits() -> None:
    """ATOM-1: -0.0 is not 0.0 to a compare-and-swap."""
    cell, out = tack.full(1, -0.0, tack.f32), tack.zeros(1, tack.f32)
    float_cas(cell, out)
    assert np.signbit(out.numpy()[0]) and np.signbit(cell.numpy()[0])


@tack.kernel
def tables_and_locals(out):
    for i in range(3):
        t = tack.local((2, 2), tack.i8)
        t[0, 0] = TABLE[i]
        t[1, 1] = TABLE[2 - i] * 10
        out[i] = t[0, 0] * 1000 + t[1, 1]


def test_tables_and_local_arrays() -> None:
    """CAP-4, MEM-6, TYPE-9: stores to i8 elements wrap (300 is 44, 200 is -56)."""
    out = tack.zeros(3, tack.i64)
    tables_and_locals(out)
    assert out.numpy().tolist() == [10044, 19944, 30100]


@tack.kernel
def visits(order, count, w, h):
    for i, j in tack.ndrange((1, w), h):
        order[tack.atomic_add(count, 0, 1)] = i * 10 + j
    return w * h


def test_ndrange_order_and_the_trailing_result() -> None:
    """LOOP-11: the last index is fastest, and any empty extent empties all; CALL-2: an int."""
    order, count = tack.zeros(8, tack.i32), tack.zeros(1, tack.i32)
    result = visits(order, count, 3, 2)
    assert type(result) is int and result == 6
    assert order.numpy().tolist() == [10, 11, 20, 21, 0, 0, 0, 0]
    for w, h in ((0, 2), (3, 0), (0, 0), (-5, -5)):
        visits(order, count, w, h)
    assert count.numpy()[0] == 4


@tack.kernel
def tenths(x, out):
    for i in range(1):
        out[0] = x[0] + 0.2
    return x[0] + 0.2


def test_f32_is_rounded_at_every_operation() -> None:
    """FLT-1, CALL-2: the f32 sum, as a Python float of exactly that value."""
    x, out = tack.full(1, 0.1, tack.f32), tack.zeros(1, tack.f32)
    result = tenths(x, out)
    wanted = np.float32(0.1) + np.float32(0.2)
    assert out.numpy()[0] == wanted and result == float(wanted) != 0.1 + 0.2


@tack.kernel
def talk(x, n):
    for i in range(2):
        print("x", x[i], "n", n + i)


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    """SYN-4: as Python prints; an f32 by its own shortest digits."""
    talk(tack.asarray(np.array([0.1, 1e30], np.float32)), 5)
    assert capsys.readouterr().out == "x 0.1 n 5\nx 1e+30 n 6\n"


@tack.kernel
def two_loops(out, n, d):
    for i in range(2):
        out[i] = 1
    for i in range(n * n // d):
        out[i] = 2


def test_nothing_runs_when_a_bound_fails() -> None:
    """LOOP-8: all bounds are evaluated before the first loop starts."""
    out = tack.zeros(2, tack.i32)
    for n, d in ((2**40, 1), (3, 0)):
        with pytest.raises(ValueError, match="bound"):
            two_loops(out, n, d)
    assert not out.numpy().any()


@tack.kernel
def run_time_step(out, s):
    for i in range(0, 4, s):
        out[i] = 1


def test_a_run_time_step_of_a_parallel_loop() -> None:
    """LOOP-10."""
    out = tack.zeros(4, tack.i32)
    run_time_step(out, 3)
    assert out.numpy().tolist() == [1, 0, 0, 1]
    with pytest.raises(ValueError, match=r"LOOP-10.*-1"):
        run_time_step(out, -1)


def test_threads_share_one_compiled_kernel() -> None:
    """CALL-3."""
    collatz(tack.asarray(np.array([6], np.int32)), tack.zeros(1, tack.i32))
    starts = (7, 27, 97, 1)
    results: dict[int, int] = {}

    def work(start: int) -> None:
        with tack.device("reference"):
            steps = tack.zeros(1, tack.i32)
            collatz(tack.asarray(np.array([start], np.int32)), steps)
            results[start] = int(steps.numpy()[0])

    threads = [threading.Thread(target=work, args=(s,)) for s in starts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {7: 16, 27: 111, 97: 118, 1: 0}
