"""Whole-array reductions as every dialect writes them, run on the host with threads that wait at barriers.

Oracles: exact values, NumPy's NaN-propagating extrema, and `math.fsum` with the error budget gamma_n. Rules RED-1
to RED-4.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dialects import each_dialect, needs_compiler
from rigs.host_run import reduce_on_host

pytestmark = needs_compiler

SIZES = (1, 255, 256, 257, 1000, 4096)
UNIT = 2.0**-24


@each_dialect
def test_sums_are_within_the_budget(dialect: str) -> None:
    rng = np.random.default_rng(7)
    for size in SIZES:
        values = rng.standard_normal(size).astype(np.float32)
        exact, magnitude = math.fsum(values.tolist()), math.fsum(np.abs(values).tolist())
        gamma = size * UNIT / (1 - size * UNIT)
        assert abs(reduce_on_host(dialect, "sum", values) - exact) <= gamma * magnitude
        assert reduce_on_host(dialect, "sum", np.ones(size, np.float32)) == size


@each_dialect
@pytest.mark.parametrize("op", ["min", "max"])
def test_extrema_propagate_nan_and_order_zeros(dialect: str, op: str) -> None:
    """NaN wherever it is; -0.0 is less than 0.0, across groups and in the tail."""
    exact = {"min": np.min, "max": np.max}[op]
    rng = np.random.default_rng(11)
    for size in SIZES:
        values = (rng.standard_normal(size) * 100 - 500 * (op == "max")).astype(np.float32)
        assert reduce_on_host(dialect, op, values) == exact(values)
        for place in {0, size // 2, size - 1}:
            spoiled = values.copy()
            spoiled[place] = math.nan
            assert math.isnan(reduce_on_host(dialect, op, spoiled))
            zeros = np.full(size, -0.0 if op == "max" else 0.0, np.float32)
            zeros[place] *= -1.0
            assert math.copysign(1, reduce_on_host(dialect, op, zeros)) == (-1 if op == "min" else 1)


@each_dialect
def test_infinities(dialect: str) -> None:
    for order in itertools.permutations((math.inf, -math.inf, 1.0)):
        values = np.array(order, np.float32)
        assert math.isnan(reduce_on_host(dialect, "sum", values))
        assert reduce_on_host(dialect, "min", values) == -math.inf
        assert reduce_on_host(dialect, "max", values) == math.inf
