"""Bounds of parallel loops on each device: Python's integers wherever all of them fit 64 bits, an error elsewhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kernel_text import run_text

OPERATIONS = ["n + m", "n - m", "n * m", "n // m", "n % m", "-n", "min(n, m)", "max(n, m)"]
ENDS = [-(2**63), -(2**63) + 1, -3, -1, 0, 1, 7, 2**62, 2**63 - 1]


def in_64_bits(value: int) -> bool:
    return -(2**63) <= value < 2**63


@pytest.mark.parametrize("operation", OPERATIONS)
def test_values_at_the_ends(device, operation):
    """LOOP-8: Python is the oracle; a zero divisor, and a value that fits no i64, are refused before anything runs."""
    text = f"@tack.kernel\ndef k(out, n, m):\n    for i in range(max(0, min({operation}, 5)), 5):\n"
    k = run_text(text + "        tack.atomic_add(out, 0, 1)\n")["k"]
    for n, m in itertools.product(ENDS, repeat=2):
        out = np.zeros(1, np.int64)
        try:
            value = eval(operation, {"n": n, "m": m, "min": min, "max": max})
        except ZeroDivisionError:
            value = None
        if value is not None and in_64_bits(value):
            k(out, n, m)
            assert out[0] == 5 - max(0, min(value, 5)), (n, m)
        else:
            with pytest.raises(ValueError, match="divides by zero" if value is None else "does not fit 64 bits"):
                k(out, n, m)
            assert out[0] == 0


def test_a_value_on_the_way_counts_too(device):
    """LOOP-8: refused, not wrapped, though the bound itself would fit."""
    text = "@tack.kernel\ndef k(out, n, m):\n    for i in range(n * m // m):\n        out[0] = 1\n"
    out = np.zeros(1)
    with pytest.raises(ValueError, match=r":3:5: in kernel `k`: a bound of this loop does not fit 64 bits: 2\d+ is"):
        run_text(text)["k"](out, 2**40, 2**41)
    assert out[0] == 0
