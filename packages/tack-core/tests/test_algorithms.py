"""Scans and sorts (rules ALG-*), beside NumPy for integers and orders, and `math.fsum` for sums of floats."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import tack
from tack.algorithms import exclusive_scan, scan, sort

INTEGERS = "i1 u1 i2 u2 i4 u4 i8 u8".split()
FLOATS = "f4 f8".split()
BLOCK, PART = 8, 8  # made small, so that a few elements make many blocks, and the reference device is done in time
LENGTHS = (0, 1, 2, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK * BLOCK, BLOCK * BLOCK + 1, 333)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, request):
    if "real_sizes" in request.fixturenames:
        return
    sorting = sys.modules["tack.algorithms.sort"]  # the package's name `sort` is the function
    for name in ("FEW_THREADS", "MANY_THREADS"):
        monkeypatch.setattr(scan, name, BLOCK)
        monkeypatch.setattr(sorting, f"_{name}", sorting._Plan(digit_bits=4, parts=9, part_size=PART))


@pytest.fixture
def real_sizes():
    """For a test that keeps the blocks as they are."""


def any_bits(dtype: str, length: int, seed: int = 1) -> np.ndarray:
    return np.frombuffer(np.random.default_rng(seed).bytes(length * np.dtype(dtype).itemsize), dtype).copy()


def some_floats(dtype: str, length: int) -> np.ndarray:
    """Numbers of all magnitudes, both zeros, infinities and NaNs of either sign."""
    values = any_bits(dtype, length)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], dtype)
    values[::2] = np.resize(special, values[::2].shape)
    return values


def scanned(values: np.ndarray) -> np.ndarray:
    """NumPy's answer for integers: running sums modulo 2**N."""
    sums = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, dtype=values.dtype, out=sums[1:])
    return sums[:-1]


def assert_sorted(result: np.ndarray, values: np.ndarray) -> None:
    """NumPy's order, and -0.0 before 0.0, which NumPy leaves in any order."""
    np.testing.assert_array_equal(result, np.sort(values))
    if values.dtype.kind == "f":
        zeros = np.signbit(result[result == 0])
        assert (zeros == np.sort(np.signbit(values[values == 0]))[::-1]).all(), "the zeros' signs are out of order"


# --- Scans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_scan_of_integers_wraps(device, dtype, length):
    """ALG-1."""
    values = any_bits(dtype, length)
    result = exclusive_scan(values)
    assert (result.dtype.numpy, result.shape, result.device) == (values.dtype, values.shape, device)
    np.testing.assert_array_equal(result.numpy(), scanned(values))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_scan_of_floats(device, dtype, length):
    """ALG-1: within γ_n Σ|x| of the exact sum, on [-1, 1)."""
    values = np.random.default_rng(3).uniform(-1, 1, length).astype(dtype)
    result = exclusive_scan(values).numpy()
    unit = 2.0**-24 if dtype == "f4" else 2.0**-53
    for k in range(length):
        bound = k * unit / (1 - k * unit) * math.fsum(np.abs(values[:k].astype(float)))
        assert abs(float(result[k]) - math.fsum(values[:k].astype(float))) <= bound, k


def test_scan_in_place(device):
    """ALG-1: `out` may be the values."""
    values = any_bits("i4", 200)
    a = tack.asarray(values)
    assert exclusive_scan(a, a) is a
    np.testing.assert_array_equal(a.numpy(), scanned(values))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_scan_and_sort_are_alike_on_any_threads(real_sizes, threads):
    """ALG-1, ALG-2 and LOOP-4, at the block sizes of the cpu device, around their ends."""
    pytest.importorskip("llvmlite", reason="the cpu device needs llvmlite")
    from tack.runtime.cpu_pool import pool

    with tack.device("cpu"), pool().set_threads(threads):
        for length in (scan.FEW_THREADS - 1, scan.FEW_THREADS, 3 * scan.FEW_THREADS + 1, 70_001):
            values = np.random.default_rng(length).uniform(-1, 1, length).astype(np.float32)
            with pool().set_threads(1):
                alone = exclusive_scan(values).numpy()
            np.testing.assert_array_equal(exclusive_scan(values).numpy().view("u4"), alone.view("u4"))
            assert_sorted(sort(values).numpy(), values)
            keys = any_bits("u4", length)
            np.testing.assert_array_equal(sort(keys).numpy(), np.sort(keys))


# --- Sorts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_sort_of_integers(device, dtype, length):
    """ALG-2."""
    values = any_bits(dtype, length)
    result = sort(values)
    assert (result.dtype.numpy, result.shape, result.device) == (values.dtype, values.shape, device)
    np.testing.assert_array_equal(result.numpy(), np.sort(values))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sort_of_floats(device, dtype, length):
    """ALG-2: -0.0 before 0.0, NaN of either sign last."""
    values = some_floats(dtype, length)
    assert_sorted(sort(values).numpy(), values)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_sort_of_so_few_that_numpy_does_it(real_sizes, device, dtype):
    """ALG-2: at the sizes as they are, in place and into another."""
    for length in (0, 1, 2, 333):
        values = any_bits(dtype, length) if dtype in INTEGERS else some_floats(dtype, length)
        a = tack.asarray(values)
        assert_sorted(sort(a).numpy(), values)
        np.testing.assert_array_equal(a.numpy(), values)
        assert_sorted(sort(a, a).numpy(), values)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u4", "f4", "i8", "f8"])
@pytest.mark.parametrize("factor", [0, 1, 1 << 8, 1 << 20, 1 << 33])
def test_sort_of_keys_that_differ_in_few_digits(device, dtype, factor):
    """ALG-2: passes that would move nothing are left out; in place, and into another."""
    numbers = np.random.default_rng(5).integers(0, 90, 200) * factor
    for values in ((numbers + 3).astype(dtype), (-1 - numbers).astype(dtype), (numbers - 9 * factor).astype(dtype)):
        a = tack.asarray(values)
        assert_sorted(sort(a).numpy(), values)
        np.testing.assert_array_equal(a.numpy(), values)
        assert_sorted(sort(a, a).numpy(), values)


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "f4", "i8"])
def test_sort_in_place_and_into_another(device, dtype):
    """ALG-2: for any number of passes `out` may be the values, which else stay as they are."""
    values = any_bits(dtype, 150)
    a, out = tack.asarray(values), tack.zeros(150, tack.asarray(values).dtype)
    assert sort(a, out) is out
    np.testing.assert_array_equal(a.numpy().view("u1"), values.view("u1"))
    assert_sorted(out.numpy(), values)
    assert sort(a, a) is a
    assert_sorted(a.numpy(), values)


def at(base, start, length):
    """Some elements of an array, in place."""
    view = tack.from_dlpack(base[start : start + length])
    assert view._data == base[start:].ctypes.data
    return view


@pytest.mark.parametrize("dtype", ["i1", "u4", "f4", "f8"])
@pytest.mark.parametrize("starts", [(0, 3), (3, 0), (0, 1), (90, 0)])
def test_out_may_overlap_the_values(dtype, starts):
    """ALG-3, MEM-4: by any number of elements, either way."""
    pytest.importorskip("llvmlite", reason="the cpu device needs llvmlite")
    for algorithm, expected in ((sort, np.sort), (exclusive_scan, scanned)):
        base = np.random.default_rng(12).integers(-9, 9, 70_100).astype(dtype)  # sums of these floats are exact
        length, (source, target) = base.size - 100, starts
        want = expected(base[source : source + length].copy())
        algorithm(at(base, source, length), at(base, target, length))
        tack.synchronize()
        np.testing.assert_array_equal(base[target : target + length], want)


def test_sort_of_few_values(device):
    """ALG-2: many equal keys, sorted and reversed ones."""
    for values in (np.zeros(100, "i4"), np.arange(100, dtype="i4"), np.arange(100, dtype="i4")[::-1] % 3 - 1):
        np.testing.assert_array_equal(sort(values).numpy(), np.sort(values))


# --- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [exclusive_scan, sort])
def test_what_is_refused(algorithm):
    """ALG-3."""
    name = algorithm.__name__
    a = tack.zeros(4, tack.i32)
    with pytest.raises(ValueError, match=rf"{name} takes a 1-d array, not a 2-d one; write a.reshape\(-1\)"):
        algorithm(tack.zeros((2, 2)))
    with pytest.raises(TypeError, match=f"{name} takes an array of numbers, not of tack.vec"):
        algorithm(tack.zeros(4, tack.vec3))
    with pytest.raises(TypeError, match=f"{name}: out is a tack.Array of tack.i32, as the values are, not tack.f32"):
        algorithm(a, tack.zeros(4))
    with pytest.raises(TypeError, match="not ndarray"):
        algorithm(a, np.zeros(4, np.int32))
    with pytest.raises(ValueError, match=rf"{name}: out has shape \(5,\)"):
        algorithm(a, tack.zeros(5, tack.i32))


def test_a_read_only_out_is_refused():
    """ALG-3."""
    frozen = np.zeros(4, np.int32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        sort(tack.zeros(4, tack.i32), tack.from_dlpack(frozen))


def test_control_the_checks_see_a_wrong_order():
    """The negative control of `assert_sorted` and `scanned`."""
    with pytest.raises(AssertionError):
        assert_sorted(np.array([2, 1]), np.array([1, 2]))
    with pytest.raises(AssertionError, match="zeros"):
        assert_sorted(np.array([0.0, -0.0]), np.array([-0.0, 0.0]))
    assert scanned(np.array([100, 100, 1], np.int8)).tolist() == [0, 100, -56]


def test_algorithms_are_loaded_when_they_are_used():
    """Importing Tack does not import them; the attribute does."""
    code = "import sys, tack; print('tack.algorithms' in sys.modules, tack.algorithms.sort.__name__)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "sort"]
    with pytest.raises(AttributeError, match="no attribute 'algorithm'"):
        tack.algorithm
