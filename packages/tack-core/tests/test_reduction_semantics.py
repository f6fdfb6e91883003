"""Whole-array sum, min, max and mean: values, accumulators, zero ties, accuracy (RED-1 … RED-6).

Oracles: exact expected values, Python integers, `math.fsum` with the gamma_n budget, `fractions`.
"""

from __future__ import annotations

import math
import random
import threading
from fractions import Fraction

import numpy as np
import pytest

import tack
from rigs.far_memory import FarBackend, far_device
from tack.lang.types import DTYPES, FLOAT_DTYPES, INTEGER_DTYPES
from tack.runtime import device as device_module
from tack.runtime.reductions import empty_reduction, reduce_numpy

# Around one group and one vector of any device, with tails.
SIZES = (1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 256, 257, 511, 513, 1000, 65537)
UNIT_ROUNDOFF = {tack.f32: Fraction(1, 2**24), tack.f64: Fraction(1, 2**53)}
NAN, INF = math.nan, math.inf


def same(got: float, expected: float) -> bool:
    """Equal as values and in the sign of zero; NaN equals NaN."""
    if math.isnan(expected):
        return math.isnan(got)
    return got == expected and math.copysign(1, got) == math.copysign(1, expected)


def budget(values: np.ndarray, dtype: tack.DType) -> Fraction:
    """The contract's gamma_n * sum(|x|)."""
    nu = values.size * UNIT_ROUNDOFF[dtype]
    return nu / (1 - nu) * sum(abs(Fraction(x)) for x in values.ravel().tolist())


# --- The table (RED-2) ---


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize(
    ("values", "total", "least", "most"),
    [
        ([1.0, NAN, 2.0], NAN, NAN, NAN),
        ([NAN], NAN, NAN, NAN),
        ([NAN, INF, -INF], NAN, NAN, NAN),
        ([INF, -INF], NAN, -INF, INF),
        ([INF, 1.0], INF, 1.0, INF),
        ([-INF, 1.0], -INF, -INF, 1.0),
        ([1.5, -2.5, 4.0], 3.0, -2.5, 4.0),
    ],
)
def test_classes(device, dtype, values, total, least, most):
    """RED-2"""
    for order in (values, values[::-1]):
        a = tack.asarray(np.array(order, dtype.numpy))
        assert same(a.sum(), total) and same(a.min(), least) and same(a.max(), most)
        assert same(a.mean(), total / len(values))
        assert same(a.sum(reproducible=True), total)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
def test_extrema_propagate_nan_from_any_place(device, dtype):
    """RED-2: in every group and tail"""
    for size in SIZES:
        for place in {0, size // 2, size - 1}:
            values = np.full(size, 2.0, dtype.numpy)
            values[place] = NAN
            a = tack.asarray(values)
            assert math.isnan(a.min()) and math.isnan(a.max()) and math.isnan(a.sum())
    # Negative control: Python's min depends on the order, so it could not be the rule.
    assert min(1.0, NAN) == 1.0 and math.isnan(min(NAN, 1.0))


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_zero_ties(device, dtype, size):
    """RED-2: one -0.0 anywhere decides the minimum, one 0.0 anywhere the maximum"""
    for place in {0, size // 3, size - 1}:
        for rest, one in ((0.0, -0.0), (-0.0, 0.0), (0.0, 0.0), (-0.0, -0.0)):
            values = np.full(size, rest, dtype.numpy)
            values[place] = one
            a = tack.asarray(values)
            signs = {math.copysign(1, x) for x in values.tolist()}
            assert same(a.min(), -0.0 if -1 in signs else 0.0)
            assert same(a.max(), 0.0 if 1 in signs else -0.0)
            assert a.sum() == 0.0 and a.mean() == 0.0


def test_zero_ties_beside_other_numbers(device):
    """RED-2: a zero is the extremum only where no other number is"""
    a = tack.asarray(np.array([3.0, 0.0, -0.0, 5.0]))
    assert same(a.min(), -0.0) and a.max() == 5.0
    b = tack.asarray(np.array([-3.0, -0.0, 0.0, -5.0]))
    assert same(b.max(), 0.0) and b.min() == -5.0


def test_zero_ties_control():
    """Negative control: equality alone cannot tell the zeros apart, and `same` can"""
    assert np.array([0.0, -0.0]).min() == 0.0 and not same(0.0, -0.0)


# --- Empty arrays ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)], ids=str)
def test_empty(device, dtype, shape):
    """RED-2, RED-5"""
    a = tack.zeros(shape, dtype)
    assert same(a.sum(), 0.0) and math.isnan(a.mean()) and same(a.sum(reproducible=True), 0.0)
    for method in (a.min, a.max):
        with pytest.raises(ValueError, match="empty"):
            method()


def test_empty_reduction():
    """RED-2"""
    assert empty_reduction("sum") == 0.0
    for op in ("min", "max"):
        with pytest.raises(ValueError, match=op):
            empty_reduction(op)


# --- Integers ---


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_integer_sums_wrap_in_64_bits(device, dtype, size):
    """RED-3: the oracle is Python integers modulo 2**64, of the element's signedness"""
    source = random.Random(size)
    numbers = [source.choice((dtype.min, dtype.max, source.randint(dtype.min, dtype.max))) for _ in range(size)]
    total = sum(numbers) % 2**64
    if dtype.is_signed and total >= 2**63:
        total -= 2**64
    a = tack.asarray(np.array(numbers, dtype.numpy))
    for got in (a.sum(), a.sum(reproducible=True)):
        assert type(got) is float and got == float(total)
    assert a.min() == float(min(numbers)) and a.max() == float(max(numbers))
    assert a.mean() == float(total) / size


def test_integer_rows_of_the_table(device):
    """RED-2, RED-3"""
    assert tack.asarray(np.array([100, 100], np.int8)).sum() == 200.0
    assert tack.asarray(np.array([2**64 - 1, 2], np.uint64)).sum() == 1.0
    assert tack.asarray(np.array([2**63 - 1, 1], np.int64)).sum() == -(2.0**63)
    assert tack.asarray(np.array([2**63 - 1, 2**63 - 1], np.int64)).mean() == -1.0
    # Negative control: an accumulator of the element's width gives something else.
    assert int(np.array([100, 100], np.int8).sum(dtype=np.int8)) == -56


def test_integer_extrema_compare_by_signedness(device):
    """RED-1"""
    assert tack.asarray(np.array([1, 2**64 - 1], np.uint64)).max() == float(2**64 - 1)
    assert tack.asarray(np.array([1, -1], np.int64)).min() == -1.0
    assert tack.asarray(np.array([0, 255], np.uint8)).max() == 255.0


# --- Accuracy of plain sums ---


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_sum_within_budget(device, dtype, size):
    """RED-4: |computed - exact| <= gamma_n * sum(|x|); the exact sum is math.fsum's or a Fraction's"""
    values = np.random.default_rng(size).normal(size=size).astype(dtype.numpy) * np.float32(2.0) ** (size % 60 - 30)
    got = tack.asarray(values).sum()
    exact = sum(map(Fraction, values.tolist()))
    assert abs(Fraction(math.fsum(values.tolist())) - exact) <= abs(exact) * UNIT_ROUNDOFF[tack.f64]
    assert abs(Fraction(got) - exact) <= budget(values, dtype)
    mean = Fraction(tack.asarray(values).mean()) * size  # of another sum, whose order may differ
    assert abs(mean - exact) <= budget(values, dtype) + abs(exact) * UNIT_ROUNDOFF[tack.f64]


def test_sum_budget_control():
    """Negative control: a sum that loses one element of many is outside the budget"""
    values = np.ones(1000, np.float32)
    assert abs(Fraction(999) - 1000) > budget(values, tack.f32)


def test_exact_sums_of_small_integers_are_exact(device):
    """RED-4: nothing rounds while every partial sum is an integer below 2**24"""
    for size in SIZES[:-1]:
        values = np.arange(size, dtype=np.float32)
        assert tack.asarray(values).sum() == size * (size - 1) / 2


# --- Shape ---


def test_shape_does_not_matter(device):
    """RED-1"""
    values = np.random.default_rng(1).normal(size=2 * 3 * 4)
    flat = tack.asarray(values)
    for shape in ((24,), (4, 6), (2, 3, 4), (1, 24, 1)):
        a = flat.reshape(shape)
        assert (a.min(), a.max()) == (values.min(), values.max())
        assert abs(Fraction(a.sum()) - sum(map(Fraction, values.tolist()))) <= budget(values, tack.f64)
        assert a.sum(reproducible=True) == flat.sum(reproducible=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_0d(device, dtype):
    """RED-1"""
    a = tack.full((), 3, dtype)
    for got in (a.sum(), a.min(), a.max(), a.mean(), a.sum(reproducible=True)):
        assert type(got) is float and got == 3.0


# --- The exact sum (RED-6) ---


def round_to(exact: Fraction, dtype: tack.DType) -> float:
    """Oracle: the nearest number of the type, found by exact comparison with its neighbours; ties to even."""
    kind = dtype.numpy.type
    with np.errstate(over="ignore"):
        guess = kind(float(exact))
    candidates = [guess, np.nextafter(guess, kind(-INF)), np.nextafter(guess, kind(INF))]
    finite = [c for c in candidates if np.isfinite(c)]
    bits = np.uint32 if dtype is tack.f32 else np.uint64
    return float(min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(bits)) & 1)))


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_reproducible_sum_is_the_exact_sum_rounded_once(device, dtype, size):
    """RED-6: any order has the same bits"""
    source = np.random.default_rng(size)
    scale = source.integers(-60, 60, size)
    values = np.ldexp(source.normal(size=size), scale).astype(dtype.numpy)
    expected = round_to(sum(map(Fraction, values.tolist())), dtype)
    for order in (values, values[::-1], np.sort(values), source.permutation(values)):
        assert same(tack.asarray(order).sum(reproducible=True), expected)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (tack.f64, [1e308, 1e308, -1e308], 1e308),
        (tack.f64, [1e16, 1.0, -1e16], 1.0),
        (tack.f64, [1e308, 1e308], INF),
        (tack.f64, [-1e308, -1e308], -INF),
        (tack.f64, [1.0, -1.0], 0.0),
        (tack.f64, [-0.0, -0.0], 0.0),
        (tack.f32, [1.0, 2.0**-24, 2.0**-60], 1.0 + 2.0**-23),
        (tack.f32, [1.0, 2.0**-24, -(2.0**-60)], 1.0),
        (tack.f32, [1.0, 2.0**-24], 1.0),
        (tack.f32, [-1.0, -(2.0**-24), -(2.0**-60)], -1.0 - 2.0**-23),
        (tack.f32, [3e38, 3e38], INF),
        (tack.f32, [3e38, 3e38, -3e38], float(np.float32(3e38))),
        (tack.f32, [0.1], float(np.float32(0.1))),
    ],
)
def test_reproducible_sum_at_the_edges(device, dtype, values, expected):
    """RED-6"""
    assert same(tack.asarray(np.array(values, dtype.numpy)).sum(reproducible=True), expected)


def test_reproducible_sum_control():
    """Negative control: rounding twice, through binary64, gives another f32"""
    values = [1.0, 2.0**-24, 2.0**-60]
    twice = float(np.float32(math.fsum(values)))
    assert twice != round_to(sum(map(Fraction, values)), tack.f32) == 1.0 + 2.0**-23


# --- Which path ---


def test_threads_get_the_results_of_their_own_arrays(device):
    """RED-1: calls of one reduction by several threads, of sizes of one workgroup and of several."""
    arrays = [tack.full((8000 * n + 1,), n, tack.f32) for n in (1, 2, 3, 4)]
    wrong = []

    def work(number, array):
        exact = float(number * array.size)
        wrong.extend(found for found in (array.sum() for _ in range(10)) if found != exact)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(arrays, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_device_with_native_reductions_is_asked(monkeypatch):
    """RED-1: empty arrays never reach the device; others do, and the default of `reduce_array` is the host path"""
    asked = []

    class Native(FarBackend):
        supports_device_reductions = True

        def reduce_array(self, array: tack.Array, op: str) -> float:
            asked.append(op)
            return super().reduce_array(array, op)

    with far_device(monkeypatch) as far:
        monkeypatch.setitem(device_module._backends, "far", Native())
        a = tack.asarray(np.array([3.0, 1.0, 2.0]), device=far)
        assert (a.sum(), a.min(), a.max(), a.mean()) == (6.0, 1.0, 3.0, 2.0)
        assert asked == ["sum", "min", "max", "sum"]
        assert tack.zeros(0).sum() == 0.0 and len(asked) == 4


def test_reduce_numpy_takes_any_layout():
    """RED-1"""
    values = np.arange(24.0).reshape(2, 3, 4)
    for layout in (values.T, values[:, ::-1], values[:, :, ::2]):
        assert reduce_numpy(layout, "sum") == math.fsum(layout.ravel().tolist())
        assert reduce_numpy(layout, "max") == max(layout.ravel().tolist())
