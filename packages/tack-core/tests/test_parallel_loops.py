"""Parallel loops as they run: order of loops, extents, ndrange, aliasing inside an iteration, threads (LOOP-*)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tack

# --- Several loops --------------------------------------------------------------------------------------------------


@tack.kernel
def three_loops(a, b, total):
    n = a.shape[0]
    scale = 3
    for i in range(n):
        a[i] = i * scale
    scale = scale + 1
    for i in range(n):
        b[i] = a[n - 1 - i] * scale
    for j in range(1):
        s = 0
        for i in range(n):
            s += b[i]
        total[j] = s


def test_loops_run_in_order(device):
    """LOOP-2, LOOP-6: each loop sees all writes of the one before, and the values bound before it."""
    a, b, total = np.zeros(500, np.int64), np.zeros(500, np.int64), np.zeros(1, np.int64)
    three_loops(a, b, total)
    assert a.tolist() == [3 * i for i in range(500)]
    assert b.tolist() == [12 * (499 - i) for i in range(500)]
    assert total[0] == sum(12 * i for i in range(500))


@tack.kernel
def own_locals(out, n):
    step = n
    for i in range(out.shape[0]):
        n = n + step + i
        step += 1
        out[i] = n * 1000 + step


def test_each_iteration_starts_from_the_values_before_its_loop(device):
    """LOOP-3, LOOP-6: no iteration sees another's locals, a scalar parameter included."""
    out = np.zeros(40, np.int64)
    own_locals(out, 7)
    assert out.tolist() == [(14 + i) * 1000 + 8 for i in range(40)]


@tack.kernel
def reused_variable(a, b):
    for i in range(a.shape[0]):
        a[i] = i
    for i, j in tack.ndrange(b.shape[0], b.shape[1]):
        b[i, j] = i * 10 + j


def test_a_loop_variable_is_free_after_its_loop(device):
    """LOOP-7."""
    a, b = np.zeros(4, np.int64), np.zeros((2, 3), np.int64)
    reused_variable(a, b)
    assert a.tolist() == [0, 1, 2, 3]
    assert b.tolist() == [[0, 1, 2], [10, 11, 12]]


# --- Ranges ----------------------------------------------------------------------------------------------------------


@tack.kernel
def mark_range(hits, base, start, stop, step):
    for i in range(start, stop, step):
        tack.atomic_add(hits, i - base, 1)


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (0, 10, 1), (0, 0, 1), (5, 2, 1), (-7, 5, 1), (-7, 5, 3), (3, 4, 100), (0, 9, 3), (0, 10, 3), (0, 11, 3),
        (2**31 - 3, 2**31 + 3, 1), (2**32 - 2, 2**32 + 2, 1), (-(2**33), -(2**33) + 9, 4),
        (2**63 - 4, 2**63 - 1, 1), (2**63 - 4, 2**63 - 1, 2), (-(2**63), -(2**63) + 3, 1),
    ],
)  # fmt: skip
def test_range(device, start, stop, step):
    """LOOP-10, LOOP-12: Python's values, i64 loop variables, no counter that wraps."""
    expected = list(range(start, stop, step))
    hits = np.zeros(12, np.int32)
    mark_range(hits, start, start, stop, step)
    assert [start + k for k in np.flatnonzero(hits)] == expected
    assert hits.sum() == len(expected)


@tack.kernel
def mark_box(hits, counter, l0, h0, l1, h1, l2, h2):
    for i, j, k in tack.ndrange((l0, h0), (l1, h1), (l2, h2)):
        hits[((i - l0) * (h1 - l1) + (j - l1)) * (h2 - l2) + (k - l2)] = i * 10000 + j * 100 + k
        tack.atomic_add(counter, 0, 1)


@pytest.mark.parametrize(
    "box",
    [
        ((0, 2), (0, 3), (0, 4)), ((-3, 2), (5, 9), (-1, 1)), ((1, 2), (1, 2), (1, 2)), ((0, 3), (0, 1), (0, 7)),
        ((0, 0), (0, 3), (0, 4)), ((0, 2), (3, 1), (0, 4)), ((0, 2), (3, 1), (5, 4)), ((0, -1), (0, -1), (0, 4)),
    ],
)  # fmt: skip
def test_ndrange(device, box):
    """LOOP-11: each combination once; any extent that is not positive empties it, also two at once."""
    expected = [i * 10000 + j * 100 + k for i, j, k in itertools.product(*(range(*r) for r in box))]
    hits, counter = np.zeros(max(1, len(expected)), np.int64), np.zeros(1, np.int32)
    mark_box(hits, counter, *(bound for pair in box for bound in pair))
    assert counter[0] == len(expected)
    assert hits.tolist()[: len(expected)] == expected


@tack.kernel
def four_axes(out):
    for i, j, k, m in tack.ndrange(out.shape[0], out.shape[1], out.shape[2], out.shape[3]):
        out[i, j, k, m] = ((i * 10 + j) * 10 + k) * 10 + m


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 1, 1), (5, 1, 2, 3), (3, 0, 2, 2)], ids=str)
def test_last_index_is_fastest_in_memory(device, shape):
    """LOOP-11, MEM-2."""
    out = np.zeros(shape, np.int64)
    four_axes(out)
    assert out.tolist() == np.fromfunction(lambda i, j, k, m: ((i * 10 + j) * 10 + k) * 10 + m, shape).tolist()


@tack.kernel
def by_bounds(out, n, m):
    for i in range(max(n, m) - min(n, m) + len(out) // 3 - -2, out.size * out.ndim - n % 4):
        out[i] = 1


@pytest.mark.parametrize(("n", "m"), [(0, 0), (7, 2), (2, 7), (-5, 3), (3, -5)])
def test_bounds_are_python_integers(device, n, m):
    """LOOP-8: floor division and remainder as Python's."""
    out, expected = np.zeros(30, np.int8), np.zeros(30, np.int8)
    by_bounds(out, n, m)
    expected[max(n, m) - min(n, m) + 30 // 3 + 2 : 30 - n % 4] = 1
    assert out.tolist() == expected.tolist()


def test_extents_do_not_compile_again(device, monkeypatch, uncached):
    """LOOP-9, SPEC-3."""
    compiled = []
    backend = type(device.backend)
    original = backend.compile
    monkeypatch.setattr(backend, "compile", lambda *args: compiled.append(1) or original(*args))

    @tack.kernel
    def fill(a, v):
        for i, j in tack.ndrange(a.shape[0], a.shape[1]):
            a[i, j] = v

    for shape in ((3, 4), (1, 1), (0, 5), (7, 2)):
        a = np.zeros(shape, np.int32)
        fill(a, 9)
        assert (a == 9).all()
    assert len(compiled) == 1


# --- Limits ----------------------------------------------------------------------------------------------------------


@tack.kernel
def touch_then_huge(a, n, m):
    for i in range(a.shape[0]):
        a[i] = 1
    for i, j in tack.ndrange(n, m):
        a[0] = 2


@pytest.mark.parametrize(("n", "m"), [(2**32, 2**32), (2**62, 2), (2**63 - 1, 2**63 - 1)])
def test_more_iterations_than_i64_are_refused(device, n, m):
    """LOOP-12: before anything runs, of any loop of the kernel."""
    a = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="iterations"):
        touch_then_huge(a, n, m)
    assert a.tolist() == [0, 0, 0]


@tack.kernel
def divided_bound(a, n, m):
    for i in range(a.shape[0]):
        a[i] = 1
    for i in range(n // m):
        a[0] = 2


@pytest.mark.parametrize(("n", "m", "message"), [(1, 0, "divides by zero"), (-(2**63), -1, "64 bits")])
def test_a_bound_without_a_value_is_refused(device, n, m, message):
    """LOOP-8."""
    a = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match=message):
        divided_bound(a, n, m)
    assert a.tolist() == [0, 0, 0]


@tack.kernel
def count_last(hits, n):
    for i in range(n):
        if i >= 4294967296:
            hits[i - 4294967296] += 1


def test_more_than_2_to_the_32_iterations():
    """LOOP-12: right on the CPU; the reference device would take an hour.

    Until its last iterations it has places 32 GiB below the array before it, which no lane may touch.
    """
    pytest.importorskip("llvmlite")
    with tack.device("cpu"):
        hits = np.zeros(5, np.int64)
        count_last(hits, 2**32 + 5)
    assert hits.tolist() == [1, 1, 1, 1, 1]


# --- Inside an iteration ----------------------------------------------------------------------------------------------


@tack.kernel
def store_then_load(a, b, out):
    for i in range(out.shape[0]):
        old = b[i]
        a[i] = old + 100
        out[i] = b[i] * 1000 + old


def test_a_load_sees_the_iterations_own_store_through_an_alias(device):
    """LOOP-3, MEM-4."""
    a, out = np.arange(70), np.zeros(70, np.int64)
    store_then_load(a, a, out)
    assert out.tolist() == [(i + 100) * 1000 + i for i in range(70)]
    b = np.arange(70)
    store_then_load(np.zeros(70, np.int64), b, out)
    assert out.tolist() == [i * 1000 + i for i in range(70)], "control: without an alias the old value is read"


@tack.kernel
def skip(out):
    for i in range(out.shape[0]):
        if i % 3 == 1:
            continue
        for j in range(10):
            if j == i % 4:
                continue
            if j > 6:
                break
            out[i] += j
        if i % 5 == 0:
            continue
        out[i] += 1000


def test_continue_ends_the_iteration(device):
    """LOOP-13."""
    out = np.zeros(60, np.int64)
    skip(out)

    def expected(i):
        if i % 3 == 1:
            return 0
        total = sum(j for j in range(7) if j != i % 4)
        return total if i % 5 == 0 else total + 1000

    assert out.tolist() == [expected(i) for i in range(60)]


@tack.kernel
def continue_in_rows(out):
    for i, j in tack.ndrange(out.shape[0], out.shape[1]):
        if (i + j) % 2:
            continue
        i += 100
        out[i - 100, j] = i * j


def test_continue_and_assigned_variables_in_an_ndrange(device):
    """LOOP-11, LOOP-13: assigning a loop variable changes no other iteration."""
    out = np.zeros((5, 6), np.int64)
    continue_in_rows(out)
    assert out.tolist() == [[0 if (i + j) % 2 else (i + 100) * j for j in range(6)] for i in range(5)]


# --- Threads ---------------------------------------------------------------------------------------------------------


@tack.kernel
def smooth(a, b, sums, rounds):
    for i, j in tack.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
        b[i, j] = (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]) * 0.25 + math.sin(a[i, j])
    for i in range(a.shape[0]):
        s = 0.0
        for r in range(rounds):
            for j in range(a.shape[1]):
                s += b[i, j] / (r + 1)
        sums[i] = s


def test_any_number_of_threads_gives_the_same_bits():
    """LOOP-4."""
    pytest.importorskip("llvmlite")
    from tack.runtime.cpu_pool import pool

    a = np.random.default_rng(5).random((301, 407))
    results = []
    for threads in (1, 2, 3, 7):
        b, sums = np.zeros_like(a), np.zeros(len(a))
        with tack.device("cpu"), pool().set_threads(threads):
            smooth(a, b, sums, 3)
        results.append((b.tobytes(), sums.tobytes()))
    assert results[0][0] != bytes(a.nbytes) and len(set(results)) == 1
    inner = (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) * 0.25 + np.sin(a[1:-1, 1:-1])
    assert np.allclose(np.frombuffer(results[0][0]).reshape(a.shape)[1:-1, 1:-1], inner, rtol=1e-14)


# ------------------------------------------------------------------------------------------- loads outside of the loops


@tack.func
def first_of(values):
    return values[0]


@tack.kernel
def add_first(a, b):
    first = b[0]
    for i in range(a.shape[0]):
        a[i] = a[i] + first
    return a[0] + first


@tack.kernel
def add_first_by_a_function(a, b):
    first = first_of(b)
    for i in range(a.shape[0]):
        a[i] = a[i] + first


@pytest.mark.parametrize("kernel", [add_first, add_first_by_a_function], ids=["load", "function"])
def test_what_is_loaded_outside_the_loops_overlaps_nothing_that_they_store_to(device, kernel):
    """MEM-7: also when the native entry has taken over"""
    a, b = tack.zeros(1000, tack.i32), tack.full(1000, 3, tack.i32)
    for _ in range(12):
        kernel(a, b)
    assert (a.numpy() == 36).all()
    for _ in range(12):
        with pytest.raises(ValueError, match=r"`b` was given an array that overlaps `a`[\s\S]*load it inside the loop"):
            kernel(a, a.reshape(10, 100).reshape(1000))
    assert (a.numpy() == 36).all() and add_first(a, b) == 42


@pytest.mark.requires("host_memory")
def test_parts_of_one_array(device):
    """MEM-7: what counts is shared bytes"""
    cells = np.arange(8, dtype=np.int32)
    assert add_first(cells[:4], cells[4:]) == 8
    assert cells.tolist() == [4, 5, 6, 7, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="overlaps"):
        add_first(cells[:5], cells[4:])
    assert cells.tolist() == [4, 5, 6, 7, 4, 5, 6, 7]
