"""Sums of arrays that are large enough for the threads of the cpu device (rules RED-2 to RED-4, LOOP-4)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tack
from tack.runtime import host_sums

pytest.importorskip("llvmlite", reason="the cpu device needs llvmlite")
from tack.runtime.cpu_pool import pool

BLOCK = 256
LENGTHS = (1, 31, 63, 64, 65, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 77)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(host_sums, "LEAST", 1)
    monkeypatch.setattr(host_sums, "BLOCK", BLOCK)
    with tack.device("cpu"):
        yield


def bound(values: np.ndarray) -> float:
    """What RED-4 allows, for any order of adding."""
    n, unit = values.size, 2.0**-24 if values.dtype == np.float32 else 2.0**-53
    return n * unit / (1 - n * unit) * math.fsum(np.abs(values.astype(float)).tolist())


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_floats_are_within_the_bound(dtype, length):
    """RED-4, on [-1, 1)."""
    values = np.random.default_rng(length).uniform(-1, 1, length).astype(dtype)
    assert abs(tack.asarray(values).sum() - math.fsum(values.astype(float).tolist())) <= bound(values)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_integers_wrap_at_64_bits(dtype, length):
    """RED-3, with Python's integers as the oracle."""
    values = np.frombuffer(np.random.default_rng(length).bytes(length * np.dtype(dtype).itemsize), dtype)
    exact = sum(values.tolist()) % (1 << 64)
    if values.dtype.kind == "i" and exact >= 1 << 63:
        exact -= 1 << 64
    assert tack.asarray(values).sum() == float(exact)


@pytest.mark.parametrize("where", [0, 63, BLOCK, 5 * BLOCK + 76])
def test_nan_and_infinities(where):
    """RED-2."""
    values = np.ones(5 * BLOCK + 77, np.float32)
    values[where] = np.inf
    assert tack.asarray(values).sum() == math.inf
    values[(where + 100) % values.size] = -np.inf
    assert math.isnan(tack.asarray(values).sum())
    values[:] = 1
    values[where] = np.nan
    assert math.isnan(tack.asarray(values).sum())


def test_the_same_bits_on_any_threads():
    """LOOP-4, and any shape."""
    values = np.random.default_rng(0).uniform(-1, 1, (40, 5, BLOCK)).astype(np.float32)
    results = set()
    for threads in (1, 2, 3, 7):
        with pool().set_threads(threads):
            results |= {tack.asarray(values).sum(), tack.asarray(values.reshape(-1)).sum()}
    assert len(results) == 1
    assert math.fsum(values.ravel().tolist()) not in results, "the control: this sum rounds somewhere"


def test_which_sums_are_large(monkeypatch):
    """Smaller sums, extrema, and sums of arrays of another current device."""
    asked = []
    monkeypatch.setattr(host_sums, "LEAST", 4)
    monkeypatch.setattr(host_sums, "large_sum", lambda array: asked.append(array.size) or 7.0)
    assert [tack.zeros(n).sum() for n in (3, 4)] == [0.0, 7.0]
    assert tack.zeros(9).max() == 0.0
    assert asked == [4]
    monkeypatch.undo()
    a = tack.asarray(np.ones((300, 300), np.float32))
    with tack.device("reference"):
        assert a.sum() == 90_000.0
