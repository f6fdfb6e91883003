"""`tack.lang.exact` against oracles that are not Tack's: Python integers, NumPy scalars, fractions.

The rules named in the docstrings are those of docs/reference/language-contract.md. Each oracle has a control that shows
that it tells a plausible wrong rule from the right one.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from fractions import Fraction

import numpy as np
import pytest

from tack.lang import exact, ops
from tack.lang.types import DTYPES, FLOAT_DTYPES, INTEGER_DTYPES, DType, f32, f64, i8, i16, i32, i64, u8, u64

NUMPY = {t: getattr(np, {"i": "int", "u": "uint", "f": "float"}[t.name[0]] + t.name[1:]) for t in DTYPES}

F32_SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    math.inf,
    -math.inf,
    math.nan,
    3.4028234663852886e38,
    2.0**-126,
    16777217.0,
]


def limits(t: DType) -> tuple[int, int]:
    """The range of an integer type, from its name alone."""
    n = int(t.name[1:])
    return (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if t.name[0] == "i" else (0, 2**n - 1)


def reduced(value: int, t: DType) -> int:
    """`value` modulo 2**N in the range of `t`, by adding and subtracting (INT-1)."""
    low, high = limits(t)
    return (value - low) % (high - low + 1) + low


def boundary(t: DType) -> list[int]:
    low, high = limits(t)
    return sorted({v for v in (low, low + 1, -7, -1, 0, 1, 2, 100, high // 2 + 1, high - 1, high) if low <= v <= high})


def floats(t: DType, count: int, seed: int) -> list[float]:
    """Random normal numbers of the type over a wide range of exponents, and the special ones."""
    rng = random.Random(seed)
    numbers = [math.ldexp(rng.uniform(-2, 2), rng.randint(-40, 40)) for _ in range(count)]
    return [float(NUMPY[t](x)) for x in numbers] + [float(NUMPY[t](x)) for x in F32_SPECIAL]


def same(a: float, b: float) -> bool:
    """Equal with the sign of zero; NaN equals NaN."""
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


# ------------------------------------------------------------------------------------------------------- integers

INTEGER_ORACLES = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: math.floor(Fraction(a, b)),
    "%": lambda a, b: a - b * math.floor(Fraction(a, b)),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a * 2**b,
    ">>": lambda a, b: math.floor(Fraction(a, 2**b)),
    "**": lambda a, b: a**b,
}


def defined(op: str, a: int, b: int, t: DType) -> bool:
    if op in ("//", "%"):
        return b != 0 and not (b == -1 and a == limits(t)[0])
    if op in ("<<", ">>"):
        return 0 <= b < int(t.name[1:])
    return op != "**" or b >= 0


@pytest.mark.parametrize("t", [i8, u8], ids=str)
@pytest.mark.parametrize("op", INTEGER_ORACLES)
def test_every_pair_of_eight_bit_operands(op: str, t: DType) -> None:
    """INT-1, IDIV-1, IDIV-2, SHIFT-1, POW-1 exhaustively."""
    low, high = limits(t)
    evaluate, oracle = ops.BINARY[op].evaluate, INTEGER_ORACLES[op]
    exponents = range(low, high + 1) if op != "**" else [v for v in boundary(t) if v >= 0]
    for a, b in itertools.product(range(low, high + 1), exponents):
        if defined(op, a, b, t):
            assert evaluate(t, a, b) == reduced(oracle(a, b), t), (a, op, b)


@pytest.mark.parametrize("t", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("op", [op for op in INTEGER_ORACLES if op != "**"])
def test_boundary_operands_of_every_width(op: str, t: DType) -> None:
    """INT-1, IDIV-*, SHIFT-* at the edges of each type, and quotients that floats cannot hold."""
    for a, b in itertools.product(boundary(t), boundary(t)):
        if defined(op, a, b, t):
            assert ops.BINARY[op].evaluate(t, a, b) == reduced(INTEGER_ORACLES[op](a, b), t), (a, op, b)


@pytest.mark.parametrize("t", INTEGER_DTYPES, ids=str)
def test_power_equals_repeated_wrapping_multiplication(t: DType) -> None:
    """POW-1: also for an exponent as large as u64 holds, checked through squarings."""
    for base in boundary(t):
        product = 1
        for exponent in range(70):
            assert exact.power(t, base, exponent) == reduced(product, t)
            product *= base
        squared = base
        for k in range(63):
            assert exact.power(t, base, 2**k) == squared
            squared = reduced(squared * squared, t)


def test_the_integer_oracle_rejects_truncating_division() -> None:
    """Control: C's quotient and remainder differ from the ones that the tests above want."""
    assert int(-7 / 3) != reduced(INTEGER_ORACLES["//"](-7, 3), i8)
    assert math.fmod(-7, 3) != reduced(INTEGER_ORACLES["%"](-7, 3), i8)
    assert reduced(127 + 1, i8) == -128 and reduced(255 << 1, u8) == 254 != 255 << 1


@pytest.mark.parametrize("t", INTEGER_DTYPES, ids=str)
def test_unary_operators_and_bit_counts(t: DType) -> None:
    """INT-1, INT-5 and INT-6, by the bits of a string."""
    n = int(t.name[1:])
    for a in range(limits(t)[0], limits(t)[1] + 1) if n == 8 else boundary(t):
        pattern = format(a % 2**n, f"0{n}b")
        assert exact.negate(t, a) == reduced(-a, t)
        assert exact.invert(t, a) == reduced(int("".join("10"[int(c)] for c in pattern), 2), t)
        assert exact.abs_(t, a) == reduced(abs(a), t)
        assert exact.popcount_(t, a) == pattern.count("1")
        assert exact.clz_(t, a) == len(pattern) - len(pattern.lstrip("0"))
        assert exact.ctz_(t, a) == len(pattern) - len(pattern.rstrip("0"))


@pytest.mark.parametrize("t", DTYPES, ids=str)
def test_comparisons_give_the_integers_zero_and_one(t: DType) -> None:
    """TYPE-5 and FLT-5: every comparison with NaN but `!=` is false."""
    values = boundary(t) if t.is_integer else [-1.0, -0.0, 0.0, 1.5, math.inf, math.nan]
    for a, b in itertools.product(values, values):
        x, y = NUMPY[t](a), NUMPY[t](b)
        wanted = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}
        for op, answer in wanted.items():
            result = ops.COMPARE[op].evaluate(t, a, b)
            assert type(result) is int and result == int(answer), (a, op, b)


# ---------------------------------------------------------------------------------------------------- conversions


@pytest.mark.parametrize("target", [i8, u8], ids=str)
@pytest.mark.parametrize("source", INTEGER_DTYPES, ids=str)
def test_eight_bit_casts(source: DType, target: DType) -> None:
    """INT-2: every value of a small source, boundary values of the others."""
    values = range(limits(source)[0], limits(source)[1] + 1) if source.bits <= 16 else boundary(source)
    for value in values:
        assert exact.cast(target, source, value) == reduced(value, target)


@pytest.mark.parametrize("pair", list(itertools.product(INTEGER_DTYPES, INTEGER_DTYPES)), ids=str)
def test_all_64_integer_casts(pair: tuple[DType, DType]) -> None:
    """INT-2 against NumPy's own conversion of the stored bits."""
    source, target = pair
    for value in boundary(source):
        stored = np.array([value], NUMPY[source]).astype(NUMPY[target])
        assert exact.cast(target, source, value) == int(stored[0])


def nearest(value: Fraction, precision: int) -> Fraction:
    """The number of `precision` significant bits nearest a positive fraction, ties to even; no exponent limits."""
    exponent = 0
    while value >= Fraction(2) ** (exponent + precision):
        exponent += 1
    while value < Fraction(2) ** (exponent + precision - 1):
        exponent -= 1
    scaled = value / Fraction(2) ** exponent
    down = scaled.numerator // scaled.denominator
    rest = scaled - down
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and down % 2 == 1)
    return (down + up) * Fraction(2) ** exponent


def test_integers_round_once_to_f32() -> None:
    """INT-4: a value that binary64 would round to a tie of f32 first."""
    double_rounding = 2**60 + 2**36 + 1
    through_f64 = float(np.float32(float(double_rounding)))
    assert exact.cast(f32, i64, double_rounding) == 2.0**60 + 2.0**37 != through_f64  # the control
    rng = random.Random(7)
    for value in [rng.randrange(1, 2 ** rng.randint(1, 64)) for _ in range(3000)] + [2**64 - 1, 2**63 - 1, 2**24 + 1]:
        assert exact.cast(f32, u64, value) == nearest(Fraction(value), 24)
        assert exact.cast(f64, u64, value) == nearest(Fraction(value), 53)


@pytest.mark.parametrize("source", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("target", INTEGER_DTYPES, ids=str)
def test_floats_truncate_toward_zero(source: DType, target: DType) -> None:
    """INT-3, where the truncation fits; outside it something comes back and nothing is raised."""
    low, high = limits(target)
    assert exact.cast(i32, source, -2.75) == -2 != math.floor(-2.75)  # the control
    for value in [-2.75, -0.5, 0.0, 0.75, 2.5, 127.5, float(2**30)] + ([-128.5] if low < 0 else []):
        if low <= math.trunc(value) <= high:
            assert exact.cast(target, source, value) == math.trunc(value)
    for value in (math.nan, math.inf, -math.inf, 1e30, -1e30):
        assert low <= exact.cast(target, source, value) <= high


# --------------------------------------------------------------------------------------------- floating arithmetic

FLOAT_OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("op", FLOAT_OPERATORS)
def test_floating_operators_round_once(op: str, t: DType) -> None:
    """FLT-1, TDIV-4: NumPy at the same precision, bit for bit but for NaN."""
    values = floats(t, 40, seed=1)
    with np.errstate(all="ignore"):
        for a, b in itertools.product(values, values):
            wanted = float(FLOAT_OPERATORS[op](NUMPY[t](a), NUMPY[t](b)))
            assert same(ops.BINARY[op].evaluate(t, a, b), wanted), (a, op, b)


def test_f32_quotients_and_roots_are_the_nearest_ones() -> None:
    """FLT-1 against fractions: rounding through binary64 is innocuous, as exact.py claims."""
    rng = random.Random(3)
    for _ in range(2000):
        a, b = (float(np.float32(rng.uniform(1, 1e6))) for _ in range(2))
        assert Fraction(exact.true_divide(f32, a, b)) == nearest(Fraction(a) / Fraction(b), 24)
        root = exact.sqrt_(f32, a)
        step = 2.0 ** (math.frexp(root)[1] - 24)
        lower, upper = Fraction(root) - Fraction(step) / 2, Fraction(root) + Fraction(step) / 2
        assert lower**2 <= Fraction(a) <= upper**2
    assert nearest(Fraction(1, 3), 24) != Fraction(1 / 3)  # the control: the f64 quotient is another number


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
def test_floor_division_and_remainder(t: DType) -> None:
    """FDIV-2 to FDIV-4: NumPy's divmod at the same precision, which follows CPython."""
    values = floats(t, 40, seed=2)
    with np.errstate(all="ignore"):
        for a, b in itertools.product(values, [v for v in values if v != 0]):
            quotient, rest = (float(x) for x in np.divmod(NUMPY[t](a), NUMPY[t](b)))
            if math.isinf(a):
                quotient = math.nan  # FDIV-4; NumPy's quotient is an infinity
            assert same(exact.floor_divide(t, a, b), quotient), (a, b)
            assert same(exact.remainder(t, a, b), rest), (a, b)


def test_floor_division_of_binary64_is_pythons() -> None:
    """FDIV-2: the founding page's table and random pairs, by Python's own operators; `floor(a / b)` is the control."""
    assert (exact.floor_divide(f64, 0.5, 0.1), math.floor(0.5 / 0.1)) == (4.0, 5.0)
    assert (exact.floor_divide(f64, 1.0, 0.1), exact.remainder(f64, 0.5, 0.1)) == (9.0, 0.09999999999999998)
    values = [v for v in floats(f64, 60, seed=5) if math.isfinite(v)]
    for a, b in itertools.product(values, [v for v in values if v != 0]):
        assert same(exact.floor_divide(f64, a, b), a // b) and same(exact.remainder(f64, a, b), a % b)


def test_broken_constraints_give_a_value_without_raising() -> None:
    """Division by zero and the like have no portable result, but evaluation never raises."""
    for t in INTEGER_DTYPES:
        for op in ("//", "%"):
            assert reduced(ops.BINARY[op].evaluate(t, 5, 0), t) == ops.BINARY[op].evaluate(t, 5, 0)
        for op in ("<<", ">>"):
            assert reduced(ops.BINARY[op].evaluate(t, 5, 200), t) == ops.BINARY[op].evaluate(t, 5, 200)
    assert exact.floor_divide(i16, -32768, -1) == -32768
    for t, op, a in itertools.product(FLOAT_DTYPES, ("//", "%"), (1.0, -1.0, 0.0, math.inf, math.nan)):
        assert math.isnan(ops.BINARY[op].evaluate(t, a, 0.0))


# -------------------------------------------------------------------------------------------------- fma and rounding


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
def test_fma_rounds_once(t: DType) -> None:
    """MATH-4 against fractions; the control is that separate rounding often differs."""
    precision = 24 if t is f32 else 53
    rng, differ = random.Random(11), 0
    for _ in range(1500):
        a, b, c = (float(NUMPY[t](rng.uniform(-1, 1) * 2.0 ** rng.randint(-12, 12))) for _ in range(3))
        true = Fraction(a) * Fraction(b) + Fraction(c)
        wanted = math.copysign(float(nearest(abs(true), precision)), true) if true else 0.0
        assert exact.fma_(t, a, b, c) == wanted
        differ += exact.add(t, exact.multiply(t, a, b), c) != wanted
    assert differ > 50


def test_fma_of_f32_is_not_rounded_through_binary64() -> None:
    """The exact sum lies just above a tie of f32, so far below that binary64 sees the tie itself."""
    a = b = 1.0 + 2.0**-12
    c = 2.0**-60
    # a * b = 1 + 2**-11 + 2**-24 is a tie between two f32 numbers; c decides it upward.
    assert exact.fma_(f32, a, b, c) == 1.0 + 2.0**-11 + 2.0**-23
    assert float(np.float32(a * b + c)) == 1.0 + 2.0**-11


def test_fma_of_special_values() -> None:
    """Signed zeros, infinities and NaN; a product beyond binary64 that the addend cannot rescue."""
    inf, nan = math.inf, math.nan
    cases = [
        ((0.0, 1.0, -0.0), 0.0), ((-0.0, 1.0, -0.0), -0.0), ((-0.0, 1.0, 0.0), 0.0), ((1.0, 1.0, -1.0), 0.0),
        ((inf, 0.0, 1.0), nan), ((inf, 1.0, -inf), nan), ((inf, -1.0, 1.0), -inf), ((2.0, 3.0, inf), inf),
        ((1e300, 1e300, -inf), -inf), ((1e300, 1e300, -1e300), inf), ((-1e300, 1e300, 1.0), -inf),
        ((1.0, nan, 1.0), nan),
    ]  # fmt: skip
    for operands, wanted in cases:
        assert same(exact.fma_(f64, *operands), wanted), operands


def test_round_fraction_at_the_ends_of_the_range() -> None:
    """Overflow from half an ulp above the largest number; subnormal steps; the sign of what underflows."""
    for t, top, step in ((f32, 2**128 - 2**104, 2**104), (f64, 2**1024 - 2**971, 2**971)):
        assert exact.round_fraction(t, Fraction(top)) == float(top)
        assert exact.round_fraction(t, Fraction(top + step // 2 - 1)) == float(top)
        assert exact.round_fraction(t, Fraction(-top - step // 2)) == -math.inf
    tiny = struct.unpack("<f", (1).to_bytes(4, "little"))[0]
    assert exact.round_fraction(f32, Fraction(tiny) * 3 / 4) == tiny
    assert same(exact.round_fraction(f32, -Fraction(tiny) / 2), -0.0)
    assert exact.round_fraction(f64, Fraction(5e-324) * 5 / 2) == 1e-323


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_rounding_to_whole_numbers(name: str, t: DType) -> None:
    """MATH-3 and FLT-6: half to even, signed zeros kept."""
    ufunc = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}[name]
    halves = [k / 2 for k in range(-9, 10)] + [-0.0, -0.1, 0.1, 2.0**22 + 0.5, 1e30, -1e30]
    for a in [float(NUMPY[t](x)) for x in halves] + floats(t, 50, seed=4):
        assert same(ops.BUILTINS[name].evaluate(t, a), float(ufunc(NUMPY[t](a)))), a
    assert exact.round_(t, 2.5) == 2.0 != math.floor(2.5 + 0.5)  # the control: half up


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
def test_extrema_and_signs(t: DType) -> None:
    """FLT-6 and FLT-7: NumPy's fmin and fmax, but that the sign of a zero tie is free."""
    values = floats(t, 15, seed=6)
    for a, b in itertools.product(values, values):
        for evaluate, ufunc in ((exact.min_, np.fmin), (exact.max_, np.fmax)):
            wanted = float(ufunc(NUMPY[t](a), NUMPY[t](b)))
            result = evaluate(t, a, b)
            assert result == wanted or (math.isnan(result) and math.isnan(wanted)), (a, b)
        assert same(exact.copysign_(t, a, b), float(np.copysign(a, b)))
        assert same(exact.negate(t, a), float(np.negative(a))) and same(exact.abs_(t, a), float(np.abs(a)))
    assert exact.min_(t, math.nan, 3.0, math.nan, 2.0) == 2.0 and exact.max_(t, 1.0, math.nan, 5.0) == 5.0
    assert math.isnan(min(math.nan, 1.0)) and not math.isnan(exact.min_(t, math.nan, 1.0))  # control: Python's min


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
def test_predicates(t: DType) -> None:
    """TYPE-5."""
    for a in floats(t, 10, seed=8):
        assert exact.isnan_(t, a) == int(np.isnan(a))
        assert exact.isinf_(t, a) == int(np.isinf(a))
        assert exact.isfinite_(t, a) == int(np.isfinite(a))


# -------------------------------------------------------------------------------------------- transcendental functions

UFUNCS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
TRANSCENDENTAL = "sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p".split()


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_transcendental_functions(name: str, t: DType) -> None:
    """FLT-8: within eight units in the last place of NumPy at the type; classes and signs of zero exactly."""
    ufunc = getattr(np, UFUNCS.get(name, name))
    values = [*np.linspace(-3, 3, 61), 0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1000.0, -1000.0]
    with np.errstate(all="ignore"):
        for a in (float(NUMPY[t](v)) for v in values):
            result, wanted = ops.BUILTINS[name].evaluate(t, a), ufunc(NUMPY[t](a))
            if math.isfinite(wanted) and wanted != 0:
                assert abs(result - float(wanted)) <= 8 * abs(float(np.spacing(wanted))), a
            else:
                assert same(result, float(wanted)), a


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
def test_floating_power_is_cs(t: DType) -> None:
    """POW-4: never an exception, NaN of a negative base with a fractional exponent; NumPy's pow at the type."""
    values = [-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 1e30, math.inf, -math.inf, math.nan]
    with np.errstate(all="ignore"):
        bases, exponents = (m.ravel() for m in np.meshgrid(*[np.array(values, NUMPY[t])] * 2))
        # Whole arrays: of a single exponent, NumPy takes 0.5 for a square root, which is NaN of -inf.
        for a, b, wanted in zip(bases.tolist(), exponents.tolist(), np.power(bases, exponents), strict=True):
            result = exact.power(t, a, b)
            if math.isfinite(wanted) and wanted != 0:
                assert abs(result - float(wanted)) <= 8 * abs(float(np.spacing(wanted))), (a, b)
            else:
                assert same(result, float(wanted)), (a, b)
    assert same(exact.power(t, -math.inf, 0.5), math.inf) and same(exact.power(t, -0.0, 0.5), 0.0)
    assert same(exact.power(t, -1e30, 31.0), -math.inf) and same(exact.power(t, -0.0, -3.0), -math.inf)
    assert exact.power(t, -1.0, 1.0) == -1.0 and exact.power(t, 5.0, 3.0) == 125.0
    with pytest.raises(ZeroDivisionError):  # the control: Python's own operator
        0.0**-1.0


@pytest.mark.parametrize("t", FLOAT_DTYPES, ids=str)
def test_atan2_quadrants(t: DType) -> None:
    """MATH-1, with signed zeros."""
    for y, x in itertools.product([-1.0, -0.0, 0.0, 1.0, math.inf], repeat=2):
        assert same(exact.atan2_(t, y, x), float(NUMPY[t](math.atan2(y, x))))


def test_results_are_python_numbers_of_the_type() -> None:
    """What every user of the rows relies on: no NumPy scalar leaks, and an f32 result is an f32 number."""
    for table in (ops.BINARY, ops.UNARY, ops.BUILTINS):
        for row in table.values():
            integer_only = row.rule.name in ("SHIFT", "BITWISE", "BITS")
            t, value = (i32, 3) if integer_only else (f32, float(np.float32(0.3)))
            result = row.evaluate(t, *[value] * max(row.arity[0], 1))
            assert type(result) in (int, float), row.name
            if t is f32 and row.rule.name != "PREDICATE":
                assert math.isnan(result) or float(np.float32(result)) == result, row.name
