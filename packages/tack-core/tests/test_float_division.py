"""Floating `//` and `%`: signs, boundaries, overflow, NaN, infinities, signed zeros, every pair with a floating type.

Oracle: NumPy's typed `divmod` after explicit conversion of both operands: exact zeros and classes, four ULP otherwise.
Rules FDIV-1 to FDIV-5.
"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

import tack
from numeric_oracles import INTEGERS, a_dtype, is_slow, round_to_f32, same_float, samples

FLOATS = ("f32", "f64")
PAIRS = [(a, b) for a, b in itertools.product((*FLOATS, *INTEGERS), repeat=2) if a in FLOATS or b in FLOATS]
FINITE = [0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 10.0, 123.456, 1e3, 16777216.0, 1e10]


@tack.kernel
def divmod_kernel(a, b, quotient, remainder):
    for i in range(a.shape[0]):
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]


@tack.kernel
def augmented_kernel(a, b, quotient, remainder):
    for i in range(a.shape[0]):
        quotient[i] = a[i]
        quotient[i] //= b[i]
        remainder[i] = a[i]
        remainder[i] %= b[i]


def promoted(a, b):
    return "f64" if "f64" in (a, b) else "f32"


def converted(values, source, target):
    """One explicit conversion to the floating type in which the operation runs."""
    if source not in FLOATS and target == "f32":
        return np.array([round_to_f32(int(v)) for v in values], dtype=np.float32)
    return np.array([float(v) for v in values], dtype=a_dtype(target))


def oracle(x, y):
    with np.errstate(all="ignore"):
        return np.divmod(x, y)


def check(a, b, x, y):
    """Run both operators and compare with NumPy; the outputs are f64, so that a result in a wider type would show."""
    name = promoted(a, b)
    quotient, remainder = np.zeros(len(x)), np.zeros(len(x))
    divmod_kernel(np.array(x, dtype=a_dtype(a)), np.array(y, dtype=a_dtype(b)), quotient, remainder)
    # operands as stored in their own types, then converted once
    left = converted(np.array(x, dtype=a_dtype(a)).tolist(), a, name)
    right = converted(np.array(y, dtype=a_dtype(b)).tolist(), b, name)
    want_q, want_r = oracle(left, right)
    for i in range(len(x)):
        got_q, got_r = float(quotient[i]), float(remainder[i])
        assert same_float(got_q, float(want_q[i]), name), f"{x[i]!r} // {y[i]!r} = {got_q!r}, not {want_q[i]!r}"
        assert same_float(got_r, float(want_r[i]), name), f"{x[i]!r} % {y[i]!r} = {got_r!r}, not {want_r[i]!r}"
        if math.isfinite(got_q):
            assert got_q == math.floor(got_q), "not a whole number"
        if name == "f32":
            with np.errstate(over="ignore"):
                assert math.isnan(got_r) or float(np.float32(got_r)) == got_r, "not an f32 value"


def cross(left, right):
    return tuple(list(c) for c in zip(*itertools.product(left, right), strict=True))


def with_signs(values):
    return [s * v for v in values for s in (1, -1)]


# --- the oracle's own controls ----------------------------------------------------------------------------------------


def test_floor_of_the_quotient_disagrees():
    """Negative control for FDIV-2: the rounded quotient lands on whole numbers that the true one does not reach."""
    assert oracle(0.5, 0.1)[0] == 4.0 != math.floor(0.5 / 0.1)
    assert oracle(1.0, 0.1)[0] == 9.0 != math.floor(1.0 / 0.1)


def test_c_remainder_disagrees():
    """Negative control for FDIV-2 and FDIV-3: fmod has the dividend's sign, also when it is zero."""
    assert oracle(-7.0, 3.0)[1] == 2.0 != math.fmod(-7.0, 3.0)
    assert not same_float(math.fmod(-6.0, 3.0), float(oracle(-6.0, 3.0)[1]), "f64")


def test_quotient_through_an_integer_disagrees():
    """Negative control for FDIV-2: large quotients do not fit, and a zero quotient loses its sign."""
    assert oracle(1e30, 3.0)[0] > 2.0**63
    assert not same_float(float(int(-0.0)), float(oracle(-0.0, 3.0)[0]), "f64")


def test_division_in_the_other_precision_disagrees():
    """Negative control for FDIV-1: f32 operands divided in f64 give another quotient."""
    x, y = np.float32(0.5), np.float32(0.1)
    differs = [
        (p, q)
        for p, q in itertools.product(np.float32(FINITE), np.float32(FINITE))
        if float(oracle(p, q)[1]) != float(oracle(float(str(p)), float(str(q)))[1])
    ]
    assert differs and float(x) == 0.5 and float(y) != 0.1


# --- values -----------------------------------------------------------------------------------------------------------


def test_table_of_examples(device):
    """FDIV-2: the rows of the rule's own table, exactly."""
    quotient, remainder = np.zeros(2), np.zeros(2)
    divmod_kernel(np.array([0.5, 1.0]), np.array([0.1, 0.1]), quotient, remainder)
    assert quotient.tolist() == [4.0, 9.0]
    assert remainder[0] == 0.09999999999999998


@pytest.mark.parametrize("a, b", PAIRS)
def test_every_pair_with_a_floating_type(device, a, b):
    """FDIV-1, FDIV-2: 36 pairs of types, both signs; integers convert once to the promoted floating type."""

    def values(name, zero):
        found = with_signs(FINITE) if name in FLOATS else samples(device, name)
        return [v for v in found if v or zero]

    check(a, b, *cross(values(a, True), values(b, False)))


@pytest.mark.parametrize("name", FLOATS)
def test_signs_and_whole_quotients(device, name):
    """FDIV-2, FDIV-3: all sign combinations, exact multiples included."""
    check(name, name, *cross(with_signs([3.0, 6.0, 7.0, 7.5, 0.25]), with_signs([3.0, 2.0, 0.25, 2.5])))


@pytest.mark.parametrize("name", FLOATS)
def test_signed_zeros(device, name):
    """FDIV-3: a zero remainder takes the divisor's sign, a zero quotient the true quotient's sign."""
    x, y = cross([0.0, -0.0, 6.0, -6.0, 1.0, -1.0], [3.0, -3.0, 5.0, -5.0, math.inf, -math.inf])
    check(name, name, x, y)
    quotient, remainder = np.zeros(len(x), a_dtype(name)), np.zeros(len(x), a_dtype(name))
    divmod_kernel(np.array(x, a_dtype(name)), np.array(y, a_dtype(name)), quotient, remainder)
    for p, q, got_q, got_r in zip(x, y, quotient, remainder, strict=True):
        if got_r == 0:
            assert math.copysign(1, got_r) == math.copysign(1, q), (p, q)
        if got_q == 0:
            assert math.copysign(1, got_q) == math.copysign(1, p) * math.copysign(1, q), (p, q)


@pytest.mark.parametrize("name", FLOATS)
def test_nan_and_infinities(device, name):
    """FDIV-4: NaN in either operand or an infinite dividend gives NaN; an infinite divisor follows CPython."""
    special = [math.nan, math.inf, -math.inf]
    check(name, name, *cross([*special, 1.0, -1.0, 0.0, -0.0], [*special, 2.0, -2.0]))
    quotient, remainder = np.zeros(3, a_dtype(name)), np.zeros(3, a_dtype(name))
    x, y = np.array([-1.0, 1.0, math.inf], a_dtype(name)), np.array([math.inf, math.inf, 2.0], a_dtype(name))
    divmod_kernel(x, y, quotient, remainder)
    assert quotient[:2].tolist() == [-1.0, 0.0] and remainder[:2].tolist() == [math.inf, 1.0]
    assert math.isnan(quotient[2]) and math.isnan(remainder[2])


@pytest.mark.parametrize("name", FLOATS)
def test_boundaries_and_overflow(device, name):
    """FDIV-2: the largest and smallest normal numbers; a quotient too large for the type is infinite."""
    info = np.finfo(a_dtype(name))
    large, tiny, eps = float(info.max), float(info.tiny), float(info.eps)
    check(name, name, *cross(with_signs([large, large / 2, 1 / eps, 1.0, 1 - eps]), with_signs([large, 3.0, 1.0, 0.7])))
    check(name, name, [large, -large, large, 1.0], [0.1, 0.1, -tiny, tiny])


@pytest.mark.parametrize("a, b", [(a, b) for a in FLOATS for b in FLOATS])
def test_near_whole_quotients(device, a, b):
    """FDIV-2: dividends one float either side of a multiple, where rounding the quotient goes wrong."""
    rng = random.Random(f"near {a} {b}")
    kind = a_dtype(a).type
    x, y = [], []
    for _ in range(20 if is_slow(device) else 2000):
        divisor = float(a_dtype(b).type(rng.choice((1, -1)) * rng.uniform(0.01, 100)))
        near = kind(divisor * rng.randint(-1000, 1000))
        for value in (near, np.nextafter(near, kind(math.inf)), np.nextafter(near, kind(-math.inf))):
            if value == 0 or abs(value) >= np.finfo(kind).tiny:  # denormals are outside the domain (FLT-8)
                x.append(float(value))
                y.append(divisor)
    check(a, b, x, y)


@pytest.mark.parametrize("name", FLOATS)
def test_integer_operands_convert_once(device, name):
    """FDIV-1: an i64 beyond the mantissa is rounded once, then divided as that float."""
    values = [2**60 + 2**36 + 1, -(2**62) - 1, 2**53 + 1, 16777217]
    check("i64", name, values, [3.0, 7.0, 2.0, 2.0])
    check(name, "i64", [3.0e18, 7.0, -2.0, 1.0], values)


@pytest.mark.parametrize("name", FLOATS)
def test_augmented_forms(device, name):
    """FDIV-1: `//=` and `%=` on array elements."""
    x, y = (np.array(c, dtype=a_dtype(name)) for c in cross(with_signs(FINITE), with_signs([0.1, 0.3, 7.0])))
    quotient, remainder = np.zeros_like(x), np.zeros_like(x)
    augmented_kernel(x, y, quotient, remainder)
    want_q, want_r = oracle(x, y)
    for got_q, got_r, q, r in zip(quotient, remainder, want_q, want_r, strict=True):
        assert same_float(float(got_q), float(q), name) and same_float(float(got_r), float(r), name)


@pytest.mark.parametrize("name", FLOATS)
def test_constant_divisors(device, name):
    """FDIV-2: literal divisors, which a compiler treats specially."""

    @tack.kernel
    def by_constant(a, tenth, rest, two):
        for i in range(a.shape[0]):
            tenth[i] = a[i] // 0.1
            rest[i] = a[i] % 0.1
            two[i] = a[i] // -2

    x = np.array(with_signs(FINITE), dtype=a_dtype(name))
    tenth, rest, two = (np.zeros_like(x) for _ in range(3))
    by_constant(x, tenth, rest, two)
    for got, want in ((tenth, oracle(x, x.dtype.type(0.1))[0]), (rest, oracle(x, x.dtype.type(0.1))[1]),
                      (two, oracle(x, x.dtype.type(-2))[0])):  # fmt: skip
        for g, w in zip(got, want, strict=True):
            assert same_float(float(g), float(w), name)


def test_guarded_and_constant_zero_divisors(device):
    """FDIV-5: a guarded zero divisor does not run; a constant one is rejected where nothing guards it."""

    @tack.kernel
    def guarded(a, b, out):
        for i in range(a.shape[0]):
            out[i] = a[i] // b[i] if b[i] != 0.0 else -1.0

    @tack.kernel
    def quotient(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] // 0.0

    @tack.kernel
    def remainder(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] % 0.0

    a, b, out = np.array([5.0, 5.0]), np.array([0.0, 2.0]), np.zeros(2)
    guarded(a, b, out)
    assert out.tolist() == [-1.0, 2.0]
    for kernel in (quotient, remainder):
        with pytest.raises(ValueError, match="zero"):
            kernel(a, out)
    assert out.tolist() == [-1.0, 2.0]
