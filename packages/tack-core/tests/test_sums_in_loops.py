"""FLT-2 in loops: a sum over a nested loop adds in the order that is written, whatever is computed in vectors.

The oracle adds one term after the other in NumPy scalars of the same precision.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import tack

LENGTHS = (0, 1, 7, 8, 9, 64, 257)


@tack.kernel
def sums(out, a, b):
    for i in range(out.shape[0]):
        plain = out[i]
        product = out[i]
        root = out[i]
        for j in range(a.shape[0]):
            plain += a[j]
            p = a[j] * b[j]
            product += p
            root += 1.0 / math.sqrt(abs(p))
        out[i] = plain - product + root


@tack.kernel
def one_sum(out, a):
    for i in range(out.shape[0]):
        s = out[i]
        for j in range(a.shape[0]):
            s += a[j]
        out[i] = s


def terms(n: int, dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of many magnitudes and both signs, so that nearly every other order gives another sum."""
    random = np.random.default_rng(n)
    a = random.choice((-1.0, 1.0), n) * 2.0 ** random.uniform(-12, 12, n)
    return a.astype(dtype), (2.0 ** random.uniform(-6, 6, n)).astype(dtype)


def in_order(start: np.floating, values: np.ndarray) -> np.floating:
    for value in values:
        start = start + value
    return start


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", LENGTHS)
def test_sums_keep_their_order(device, dtype, n):
    a, b = terms(n, dtype)
    out = np.full(3, 0.3, dtype)
    start, p = out[0], a * b
    expected = in_order(start, a) - in_order(start, p) + in_order(start, dtype(1.0) / np.sqrt(np.abs(p)))
    sums(out, a, b)
    assert out.tobytes() == np.full(3, expected, dtype).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_of_nothing_else(device, dtype):
    a, _ = terms(1000, dtype)
    out = np.zeros(2, dtype)
    one_sum(out, a)
    assert out.tobytes() == np.full(2, in_order(dtype(0.0), a)).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_another_order_is_another_sum(dtype):
    """The negative control: eight partial sums, as reassociation would make them, are told from the order written."""
    a, _ = terms(1000, dtype)
    lanes = np.zeros(8, dtype)
    for k in range(0, 1000, 8):
        lanes += a[k : k + 8]
    assert in_order(dtype(0.0), lanes) != in_order(dtype(0.0), a)
