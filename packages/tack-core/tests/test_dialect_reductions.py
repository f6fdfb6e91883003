"""Whole-array reductions as every dialect writes them, run on the host with threads that wait at barriers.

Oracles: exact values, Python integers modulo 2**64, NumPy's NaN-propagating extrema, `math.fsum` with the error budget
gamma_n, `fractions`. Rules RED-1 to RED-4, RED-6.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dialects import FLOAT_TYPES, each_dialect, needs_compiler
from numeric_oracles import INTEGERS
from rigs.host_reductions import HostArray, HostQueue, reductions_on_host
from tack.codegen import exact_sums
from tack.codegen.array_reductions import MOST_GROUPS
from tack.lang.types import BY_NAME

pytestmark = needs_compiler

SIZES = (1, 255, 256, 257, 1000, 4099, 20001)
UNITS = {"f32": 2.0**-24, "f64": 2.0**-53}
each_float = pytest.mark.parametrize(
    ("dialect", "name"), [(dialect, name) for dialect, names in FLOAT_TYPES.items() for name in names]
)
reductions = functools.cache(reductions_on_host)


def array(values: Any, name: str) -> HostArray:
    return HostArray(np.ascontiguousarray(values, BY_NAME[name].numpy), BY_NAME[name])


def reduce(dialect: str, op: str, values: Any, name: str = "f32") -> float:
    return reductions(dialect).reduce(array(values, name), op)


def exact_sum(dialect: str, values: Any, name: str) -> float:
    return reductions(dialect).exact_sum(array(values, name))


@each_float
def test_sums_are_within_the_budget(dialect: str, name: str) -> None:
    rng = np.random.default_rng(7)
    for size in SIZES:
        values = rng.standard_normal(size).astype(BY_NAME[name].numpy)
        exact, magnitude = math.fsum(values.tolist()), math.fsum(np.abs(values).tolist())
        gamma = size * UNITS[name] / (1 - size * UNITS[name])
        assert abs(reduce(dialect, "sum", values, name) - exact) <= gamma * magnitude
        assert reduce(dialect, "sum", np.ones(size), name) == size


@each_dialect
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_every_width(dialect: str, name: str) -> None:
    """RED-3, and extrema by signedness; also from addresses that wide accesses cannot use."""
    dtype, rng = BY_NAME[name], np.random.default_rng(3)
    for size, offset in ((1, 0), (300, 1), (8300, 0), (8300, 1)):
        values = rng.integers(dtype.min, dtype.max, size + 1, dtype.numpy, endpoint=True)[offset : offset + size]
        total = sum(values.tolist()) % 2**64
        total -= 2**64 if dtype.is_signed and total >= 2**63 else 0
        found = [reductions(dialect).reduce(HostArray(values, dtype), op) for op in ("sum", "min", "max")]
        assert found == [float(total), float(min(values.tolist())), float(max(values.tolist()))]


@each_float
@pytest.mark.parametrize("op", ["min", "max"])
def test_extrema_propagate_nan_and_order_zeros(dialect: str, name: str, op: str) -> None:
    """NaN wherever it is; -0.0 is less than 0.0, across groups and in the tail."""
    exact = {"min": np.min, "max": np.max}[op]
    rng = np.random.default_rng(11)
    for size in SIZES:
        values = (rng.standard_normal(size) * 100 - 500 * (op == "max")).astype(BY_NAME[name].numpy)
        assert reduce(dialect, op, values, name) == exact(values)
        for place in {0, size // 2, size - 1}:
            spoiled = values.copy()
            spoiled[place] = math.nan
            assert math.isnan(reduce(dialect, op, spoiled, name))
            zeros = np.full(size, -0.0 if op == "max" else 0.0)
            zeros[place] *= -1.0
            assert math.copysign(1, reduce(dialect, op, zeros, name)) == (-1 if op == "min" else 1)


@each_float
def test_infinities(dialect: str, name: str) -> None:
    for order in itertools.permutations((math.inf, -math.inf, 1.0)):
        assert math.isnan(reduce(dialect, "sum", order, name)) and math.isnan(exact_sum(dialect, order, name))
        assert reduce(dialect, "min", order, name) == -math.inf
        assert reduce(dialect, "max", order, name) == math.inf
    for special in (math.inf, -math.inf, math.nan):
        values = np.ones(1500)
        values[700] = special
        found = exact_sum(dialect, values, name)
        assert found == special or (math.isnan(special) and math.isnan(found))


@each_dialect
def test_a_sum_has_the_same_bits_at_every_call(dialect: str) -> None:
    values = np.random.default_rng(5).standard_normal(50_000)
    assert len({reduce(dialect, "sum", values) for _ in range(3)}) == 1
    assert values.size // (256 * 16) < MOST_GROUPS


each_with_tickets = pytest.mark.parametrize("dialect", ["cuda", "hip"])


@each_with_tickets
@pytest.mark.parametrize("name", ["f32", "f64", "i8", "u16"])
def test_the_last_workgroup_gives_the_bits_of_two_passes(dialect: str, name: str) -> None:
    """RED-1: whichever workgroup is the last, at every call."""
    queue, dtype, rng = HostQueue(), BY_NAME[name], np.random.default_rng(17)
    fused, passes = reductions_on_host(dialect, queue), reductions_on_host(dialect, passes=True)
    for size, op in itertools.product((1, 4099, 8192, 20_001), ("sum", "min", "max")):
        values = array(rng.standard_normal(size) * 100 if dtype.is_float else rng.integers(0, 100, size), name)
        expected = passes.reduce(values, op)
        for queue.backwards in (False, True, True):
            assert fused.reduce(values, op) == expected


@each_with_tickets
@pytest.mark.parametrize(
    "fault",
    [
        ("atomicInc(&tack_finished, groups - 1u)", "atomicAdd(&tack_finished, 1u)"),
        ("if (ticket == groups - 1u)", "if (group == groups - 1)"),
        ("if (ticket == groups - 1u)", "if (ticket == 0u)"),
    ],
    ids=["the count goes on", "the one with the highest number", "the first to finish"],
)
def test_wrong_last_workgroups_are_caught(dialect: str, fault: tuple[str, str]) -> None:
    """Negative control of the test above, on whole numbers whose sums are exact."""
    for planted in (("", ""), fault):
        queue = HostQueue()
        faulty, right = reductions_on_host(dialect, queue, fault=planted), 0
        for call, queue.backwards in enumerate((False, True, False, True), 1):
            right += faulty.reduce(array(np.full(50_000, call), "f32"), "sum") == 50_000.0 * call
        assert (right == 4) == (planted is not fault)


def rounded(exact: Fraction, name: str) -> float:
    """The nearest number of the type; ties to even."""
    kind, bits = BY_NAME[name].numpy.type, {"f32": np.uint32, "f64": np.uint64}[name]
    guess = kind(float(exact))
    near = [guess, np.nextafter(guess, kind(-math.inf)), np.nextafter(guess, kind(math.inf))]
    return float(min(near, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(bits)) & 1)))


@each_float
def test_exact_sums_over_all_exponents(dialect: str, name: str) -> None:
    """RED-6: subnormals and the largest numbers in one sum, in several orders, aligned and not."""
    info, rng = np.finfo(BY_NAME[name].numpy), np.random.default_rng(13)
    for size in (1, 3, 1000, 6001):
        exponents = rng.integers(info.minexp - info.nmant, info.maxexp - 1, size)
        values = np.ldexp(rng.uniform(-1, 1, size), exponents).astype(info.dtype)
        values[: size // 3] = -values[size - size // 3 :][::-1]  # the large ones cancel
        expected = rounded(sum(map(Fraction, values.tolist()), Fraction(0)), name)
        for order in (values, values[::-1], np.sort(values), np.concatenate([[0.0], values])[1:]):
            assert exact_sum(dialect, order, name) == expected


@each_float
def test_exact_sums_at_the_edges(dialect: str, name: str) -> None:
    """Zeros, one subnormal, the largest number twice and once, and what no partial sum may round."""
    info = np.finfo(BY_NAME[name].numpy)
    largest, least = float(info.max), float(info.smallest_subnormal)
    for values, expected in (
        ([-0.0, -0.0], 0.0),
        ([least], least),
        ([-least, -least], -2 * least),
        ([largest, largest], math.inf),
        ([-largest, -largest], -math.inf),
        ([largest, largest, -largest], largest),
        ([largest, 1.0, -largest], 1.0),
        ([1.0, float(info.eps) / 2, least], 1.0 + float(info.eps)),
        ([1.0, float(info.eps) / 2], 1.0),
    ):
        assert exact_sum(dialect, values, name) == expected
        assert exact_sum(dialect, [*values, *[0.0] * 3000], name) == expected
    # Negative control: adding in floats loses the small ones.
    assert float(np.array([largest, 1.0, -largest], info.dtype).sum()) == 0.0


@each_float
def test_bins_have_room_for_many_elements(dialect: str, name: str) -> None:
    """All in one bin, and negative ones beside them, so that halves borrow from each other."""
    for value in (-1.5, float(np.finfo(BY_NAME[name].numpy).max)):
        values = np.full(50_000, value, BY_NAME[name].numpy)
        values[1::2] = -value
        values[0] = 0.0
        assert exact_sum(dialect, values, name) == -value


def most_in_a_group(size: int, per_group: int, lanes: int, each: int) -> int:
    """The elements of the first workgroup, which has the most, when a launch has as few workgroups as may be."""
    groups = -(-size // per_group)
    packs, stride = size // each, groups * lanes
    return sum(-(-(packs - lane) // stride) for lane in range(lanes)) * each + size % each


def test_the_largest_sum_of_a_workgroup_fits_its_bins() -> None:
    """RED-6, for arrays too large to be made here: every element adds the most that one can to the same bin."""
    most = {"f32": (2**24 - 1) << 15, "f64": 2**33 - 1}
    for name, added in most.items():
        dtype = BY_NAME[name]
        lanes, each = exact_sums.LAYOUTS[dtype].lanes, 16 // dtype.itemsize
        for groups in (1, 2, 3, 792, 2000):
            for multiple in (exact_sums.GROUP_ELEMENTS, 1 << 24):
                for size in range(groups * multiple - 2 * each, groups * multiple + 2 * each):
                    found = most_in_a_group(size, exact_sums.GROUP_ELEMENTS, lanes, each)
                    assert -(-size // exact_sums.GROUP_ELEMENTS) * found >= size
                    assert found * added < 2**63, (name, size)
    # Negative control: 2**24 of them, and the three that wide accesses leave over, do not fit.
    assert most_in_a_group(2**24 * 792 - 1, 1 << 24, 256, 4) * most["f32"] >= 2**63
