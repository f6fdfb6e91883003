"""True division and integer power.

Oracle: division by NumPy f32 on operands rounded from exact integers, four ULP; power by Python modular exponentiation.
Rules TDIV-1 to TDIV-4, POW-1 to POW-4.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

import tack
from numeric_oracles import (
    INTEGER_PAIRS,
    INTEGERS,
    SIGNED,
    a_dtype,
    bits,
    columns,
    disagrees,
    is_signed,
    is_slow,
    limits,
    promote,
    round_to_f32,
    same_float,
    samples,
    widest,
    wrap,
)


@tack.kernel
def divide_kernel(a, b, out):
    for i in range(a.shape[0]):
        out[i] = a[i] / b[i]


@tack.kernel
def divide_f64_kernel(a, b, out):
    for i in range(a.shape[0]):
        out[i] = tack.f64(a[i]) / tack.f64(b[i])


@tack.kernel
def power_kernel(a, e, operator, function):
    for i in range(a.shape[0]):
        operator[i] = a[i] ** e[i]
        function[i] = pow(a[i], e[i])


@tack.kernel
def root_kernel(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i] ** 0.5


@tack.kernel
def augmented_power_kernel(a, e, out):
    for i in range(a.shape[0]):
        out[i] = a[i]
        out[i] **= e[i]


rounded = functools.cache(lambda x: np.float32(round_to_f32(x)))


def quotient_f32(x, y):
    """Each operand rounded to f32 once, then one f32 division."""
    return float(rounded(x) / rounded(y))


# --- true division (TDIV) ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a, b", INTEGER_PAIRS)
def test_integer_division_is_f32(device, a, b):
    """TDIV-1, TYPE-5: all 64 pairs, signed with u64 included; an f64 output shows that the quotient was f32."""
    pairs = [(x, y) for x, y in itertools.product(samples(device, a), samples(device, b)) if y]
    out = np.zeros(len(pairs))
    divide_kernel(*columns(pairs, a, b), out)
    assert (out.astype(np.float32) == out).all(), "not f32 values"
    for (x, y), got in zip(pairs, out, strict=True):
        assert same_float(float(got), quotient_f32(x, y), "f32"), (x, y)


def test_naive_divisions_disagree():
    """Negative control for TDIV-1: C's integer division, and division in f64."""
    assert disagrees(lambda x, y: float(x // y), quotient_f32, [(7, 2)])
    assert disagrees(lambda x, y: x / y, quotient_f32, [(16777217, 1), (1, 3)])
    assert quotient_f32(7, 2) == 3.5 and quotient_f32(16777217, 1) == 16777216.0


@pytest.mark.parametrize("a, b", INTEGER_PAIRS)
def test_explicit_f64_division(device, a, b):
    """TDIV-2: casts to f64 give the f64 quotient."""
    pairs = [(x, y) for x, y in itertools.product(samples(device, a), samples(device, b)) if y]
    out = np.zeros(len(pairs))
    divide_f64_kernel(*columns(pairs, a, b), out)
    for (x, y), got in zip(pairs, out, strict=True):
        assert same_float(float(got), float(x) / float(y), "f64"), (x, y)


def as_type(values, name):
    """Exact numbers rounded once to a floating type, as NumPy scalars."""
    if name == "f32":
        return [np.float32(round_to_f32(v) if isinstance(v, int) else v) for v in values]
    return [np.float64(v) for v in values]


@pytest.mark.parametrize("a", ["f32", "f64", *INTEGERS])
@pytest.mark.parametrize("b", ["f32", "f64"])
def test_division_with_a_floating_operand(device, a, b):
    """TDIV-2: at the promoted floating type, each operand converted once, in either order."""
    name = "f64" if "f64" in (a, b) else "f32"
    left = [-7.5, -1.0, 0.1, 3.0, 1e10] if a[0] == "f" else [v for v in samples(device, a) if v]
    pairs = list(itertools.product(left, [-3.0, 0.1, 7.0, 1.5e9]))
    x, y = (np.array(c, dtype=a_dtype(t)) for c, t in zip(zip(*pairs, strict=True), (a, b), strict=True))
    forward, backward = np.zeros(len(pairs)), np.zeros(len(pairs))
    divide_kernel(x, y, forward)
    divide_kernel(y, x, backward)
    operands = zip(as_type(x.tolist(), name), as_type(y.tolist(), name), strict=True)
    for (p, q), one, other in zip(operands, forward, backward, strict=True):
        assert same_float(float(one), float(p / q), name), (p, q)
        assert same_float(float(other), float(q / p), name), (q, p)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_floating_division_by_zero(device, name):
    """TDIV-4: a signed infinity or NaN, no exception."""
    x = np.array([1.0, -1.0, 1.0, -1.0, 0.0, math.nan], dtype=a_dtype(name))
    y = np.array([0.0, 0.0, -0.0, -0.0, 0.0, 0.0], dtype=a_dtype(name))
    out = np.zeros(6, dtype=a_dtype(name))
    divide_kernel(x, y, out)
    assert out[:4].tolist() == [math.inf, -math.inf, -math.inf, math.inf]
    assert np.isnan(out[4:]).all()


def test_constant_zero_divisor(device):
    """TDIV-3: an integer `/` by a constant zero is rejected unguarded; a floating one is not."""

    @tack.kernel
    def integer(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] / 0

    @tack.kernel
    def floating(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] / 0.0

    out = np.full(1, 42.0, np.float32)
    with pytest.raises(ValueError, match="zero"):
        integer(np.array([1], np.int32), out)
    assert out[0] == 42
    floating(np.array([1.0], np.float32), out)
    assert out[0] == math.inf


# --- power (POW) ------------------------------------------------------------------------------------------------------


def modular_power(x, e, name):
    return wrap(pow(x, e, 2 ** bits(name)), name)


def exponents(name):
    high = limits(name)[1]
    return sorted({v for v in (0, 1, 2, 3, 5, 7, 8, 31, 62, 63, 64, 65, 100, 127, 1000, high - 1, high) if v <= high})


@pytest.mark.parametrize("base, exponent", INTEGER_PAIRS)
def test_every_base_and_exponent_pair(device, base, exponent):
    """POW-1, POW-2: `**` and `pow`; the output is 64 bits wide, so a widened result would show."""
    pairs = list(itertools.product(samples(device, base), exponents(exponent)))
    operator, function = (np.zeros(len(pairs), dtype=a_dtype(widest(base))) for _ in range(2))
    power_kernel(*columns(pairs, base, exponent), operator, function)
    want = [modular_power(x, e, base) for x, e in pairs]
    assert [int(v) for v in operator] == want
    assert [int(v) for v in function] == want


def test_naive_powers_disagree():
    """Negative control for POW-1 and POW-2: floating pow, and a result type widened by the exponent."""

    def through_f64(x, e):
        return int(math.pow(x, e))

    def widened(x, e):
        return wrap(x**e, promote("i8", "i64"))

    assert disagrees(through_f64, lambda x, e: modular_power(x, e, "i64"), [(3, 39)])
    assert disagrees(widened, lambda x, e: modular_power(x, e, "i8"), [(3, 5)])


def test_known_powers(device):
    """POW-1: i8 3 ** 5 is -13, u8 20 ** 2 is 144, 0 ** 0 is 1, integer pow(5, 3) is 125."""
    for base, x, e, want in [("i8", 3, 5, -13), ("u8", 20, 2, 144), ("i32", 0, 0, 1), ("i32", 5, 3, 125)]:
        operator, function = np.zeros(1, np.int64), np.zeros(1, np.int64)
        power_kernel(*columns([(x, e)], base, "i32"), operator, function)
        assert operator[0] == function[0] == want


@pytest.mark.parametrize("name", INTEGERS)
def test_constant_exponents(device, name):
    """POW-1: literal and captured exponents, and a literal base."""
    seven = 7

    @tack.kernel
    def constant(a, square, seventh, zeroth, of_three):
        for i in range(a.shape[0]):
            square[i] = a[i] ** 2
            seventh[i] = a[i] ** seven
            zeroth[i] = a[i] ** 0
            of_three[i] = 3 ** (tack.i32(a[i]) & 31)

    values = samples(device, name)
    out = [np.zeros(len(values), dtype=a_dtype(widest(name))) for _ in range(3)]
    of_three = np.zeros(len(values), dtype=np.int64)
    constant(np.array(values, dtype=a_dtype(name)), *out, of_three)
    for e, got in zip((2, 7, 0), out, strict=True):
        assert [int(v) for v in got] == [modular_power(v, e, name) for v in values]
    assert of_three.tolist() == [modular_power(3, v & 31, "i32") for v in values]


@pytest.mark.parametrize("name", INTEGERS)
def test_augmented_power(device, name):
    """POW-1: `**=` on an array element."""
    pairs = list(itertools.product(samples(device, name), [0, 1, 2, 5, 63]))
    a, e = columns(pairs, name, "i32")
    out = np.zeros_like(a)
    augmented_power_kernel(a, e, out)
    assert [int(v) for v in out] == [modular_power(x, y, name) for x, y in pairs]


@pytest.mark.parametrize("base", INTEGERS)
@pytest.mark.parametrize("exponent", SIGNED)
def test_negative_run_time_exponents_return(device, base, exponent):
    """POW-2: the value is unspecified, or the interpreter's report; the call ends, and neighbours are unharmed."""
    low = limits(exponent)[0]
    pairs = [(3, 4), (3, low), (3, -1), (2, -2), (3, 4)]
    operator, function = (np.zeros(len(pairs), dtype=a_dtype(base)) for _ in range(2))
    if is_slow(device):
        with pytest.raises(ArithmeticError, match="POW-2"):
            power_kernel(*columns(pairs, base, exponent), operator, function)
        assert operator[0] == function[0] == 81
    else:
        power_kernel(*columns(pairs, base, exponent), operator, function)
        assert operator[[0, 4]].tolist() == function[[0, 4]].tolist() == [81, 81]


def test_negative_constant_exponents_are_rejected(device):
    """POW-3: literal and captured, `**` and `pow`; a floating base takes them."""
    minus = -1

    @tack.kernel
    def literal(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] ** -2

    @tack.kernel
    def captured(a, out):
        for i in range(a.shape[0]):
            out[i] = a[i] ** minus

    @tack.kernel
    def function(a, out):
        for i in range(a.shape[0]):
            out[i] = pow(a[i], -2)

    out = np.full(1, 42.0)
    for kernel in (literal, captured, function):
        with pytest.raises(TypeError, match="power"):
            kernel(np.array([2], np.int32), out)
    assert out[0] == 42
    for kernel, want in ((literal, 0.25), (captured, 0.5), (function, 0.25)):
        kernel(np.array([2.0]), out)
        assert same_float(float(out[0]), want, "f64")


@pytest.mark.parametrize("base", ["f32", "f64"])
@pytest.mark.parametrize("exponent", ["f32", "f64", *SIGNED])
def test_floating_power(device, base, exponent):
    """POW-4: at the promoted floating type; whole-number exponents keep sign and value."""
    name = "f64" if "f64" in (base, exponent) else "f32"
    rows = [(-1.0, 1), (5.0, 3), (-2.0, 3), (2.0, 10), (2.0, -2), (-3.0, 2), (7.0, 0), (0.0, 0), (1.5, 4)]
    a = np.array([r[0] for r in rows], dtype=a_dtype(base))
    e = np.array([r[1] for r in rows], dtype=a_dtype(exponent))
    operator, function = np.zeros(len(rows)), np.zeros(len(rows))
    power_kernel(a, e, operator, function)
    for (x, y), one, other in zip(rows, operator, function, strict=True):
        assert same_float(float(one), float(x**y), name) and same_float(float(other), float(x**y), name), (x, y)
    assert [float(v) for v in operator[:2]] == [-1.0, 125.0]


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_floating_power_at_the_edges(device, name):
    """POW-4: infinities, signed zeros, NaN, negative bases; NumPy's power of whole arrays is the oracle."""
    values = np.array([-np.inf, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf, np.nan], a_dtype(name))
    a, e = (m.ravel().copy() for m in np.meshgrid(values, values))
    operator, function, root = (np.zeros(a.size, a_dtype(name)) for _ in range(3))
    power_kernel(a, e, operator, function)
    root_kernel(a, root)
    with np.errstate(all="ignore"):
        powers, roots = np.power(a, e), np.power(a, np.full_like(a, 0.5))
    for x, y, want, one, other in zip(a, e, powers, operator, function, strict=True):
        assert same_float(float(one), float(want), name) and same_float(float(other), float(want), name), (x, y)
    for x, want, got in zip(a, roots, root, strict=True):
        assert same_float(float(got), float(want), name), x
    with np.errstate(all="ignore"):  # the control: a square root is another function
        assert not same_float(float(np.sqrt(values[0])), float(np.power(values, np.full_like(values, 0.5))[0]), name)


@pytest.mark.parametrize("base", SIGNED)
def test_integer_base_with_floating_exponent(device, base):
    """POW-4: one floating operand makes the power floating, as TYPE-2 promotes."""
    a = np.array([2, 3, 100], dtype=a_dtype(base))
    e = np.array([0.5, -1.0, 2.0])
    operator, function = np.zeros(3), np.zeros(3)
    power_kernel(a, e, operator, function)
    for x, y, one, other in zip(a, e, operator, function, strict=True):
        want = float(np.power(float(x), float(y)))
        assert same_float(float(one), want, "f64") and same_float(float(other), want, "f64")
    assert all(is_signed(n) for n in SIGNED)
