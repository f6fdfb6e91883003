"""What each operation of `ops` gives, exactly: the language's arithmetic on Python numbers.

Every function is ``f(dtype, *values)``. Values and result are numbers *of* `dtype`, the type the operation runs in:
Python ints in its range, or Python floats that it represents. Integers are computed without bound and wrapped
(rule INT-1), floats are rounded once, to nearest even. Predicates, comparisons and bit counts give ints (type i32).

Nothing here raises for a value. Where a caller constraint is broken, the docstring says what comes out; there is no
portable result, so nothing may rely on it.

Binary64 has more than 2 * 24 + 1 bits of precision, so the sum, difference, product, quotient or square root of f32
values, computed in binary64 and then rounded to f32, is the one correctly rounded f32 result. `fma_` has no such
luck and works on fractions. Transcendental functions run in binary64 and are then rounded to the type: the language
gives no error bound for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import c_float
from typing import TYPE_CHECKING

import numpy as np

from tack.lang.types import DType, f32, int_to_float

if TYPE_CHECKING:
    from fractions import Fraction

Number = int | float

_INT_EXACT_IN_F64 = 1 << 53
_F32_PRECISION, _F32_QUANTUM = 24, -149  # bits of a significand; exponent of the smallest subnormal
_F64_PRECISION, _F64_QUANTUM = 53, -1074


def round_to(dtype: DType, value: float) -> float:
    """A binary64 value rounded to the floating type `dtype`; overflow gives infinity."""
    return c_float(value).value if dtype is f32 else value


def round_fraction(dtype: DType, value: Fraction) -> float:
    """A rational number rounded once to the floating type `dtype`, ties to even; zero gives +0.0."""
    precision, lowest = (_F32_PRECISION, _F32_QUANTUM) if dtype is f32 else (_F64_PRECISION, _F64_QUANTUM)
    two = type(value)(2)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < two**exponent:
        exponent -= 1  # now 2**exponent <= magnitude < 2**(exponent + 1), unless it is zero
    quantum = two ** max(exponent - precision + 1, lowest)
    rounded = round(magnitude / quantum) * quantum
    try:
        result = round_to(dtype, float(rounded))
    except OverflowError:
        result = math.inf
    return -result if value < 0 else result


def cast(target: DType, source: DType, value: Number) -> Number:
    """`value`, a number of type `source`, converted to `target`.

    Integers reduce modulo 2**N (CONV rules) or round once to a float; floats round once, or truncate toward zero to an
    integer. Broken constraint (float to integer): NaN and infinities give 0, others the truncation modulo 2**N.
    """
    if target.is_float:
        if source.is_float:
            return round_to(target, value)
        if -_INT_EXACT_IN_F64 <= value <= _INT_EXACT_IN_F64:
            return round_to(target, float(value))
        return int_to_float(int(value), target)
    if source.is_float:
        if not math.isfinite(value):
            return 0
        value = int(value)
    return target.wrap(int(value))


# ---------------------------------------------------------------------------------------------------- arithmetic


def add(dtype: DType, a: Number, b: Number) -> Number:
    """``a + b``."""
    return round_to(dtype, a + b) if dtype.is_float else dtype.wrap(a + b)  # type: ignore[arg-type]


def subtract(dtype: DType, a: Number, b: Number) -> Number:
    """``a - b``."""
    return round_to(dtype, a - b) if dtype.is_float else dtype.wrap(a - b)  # type: ignore[arg-type]


def multiply(dtype: DType, a: Number, b: Number) -> Number:
    """``a * b``."""
    return round_to(dtype, a * b) if dtype.is_float else dtype.wrap(a * b)  # type: ignore[arg-type]


def negate(dtype: DType, a: Number) -> Number:
    """``-a``; of a float, the sign of a zero flips too."""
    return -a if dtype.is_float else dtype.wrap(-a)  # type: ignore[arg-type]


def true_divide(dtype: DType, a: Number, b: Number) -> float:
    """IEEE division at the floating type `dtype`; integers were converted to it before."""
    if b == 0:
        if a == 0 or a != a:
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return round_to(dtype, a / b)


def _fmod(a: float, b: float) -> float:
    """C's fmod: exact, with the sign of `a`; NaN where Python's raises."""
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def floor_divide(dtype: DType, a: Number, b: Number) -> Number:
    """Division rounded toward negative infinity; floats by CPython's algorithm, each step at `dtype`.

    Broken constraint: a zero divisor gives 0 for integers and NaN for floats; the minimum by -1 wraps.
    """
    if dtype.is_integer:
        return dtype.wrap(a // b) if b else 0  # type: ignore[arg-type]
    mod = _fmod(a, b)
    quotient = true_divide(dtype, round_to(dtype, a - mod), b)
    if mod and (mod < 0) != (b < 0):
        quotient = round_to(dtype, quotient - 1.0)
    if quotient == 0:
        return math.copysign(0.0, true_divide(dtype, a, b))
    if not math.isfinite(quotient):
        return quotient
    floored = float(math.floor(quotient))
    return round_to(dtype, floored + 1.0) if quotient - floored > 0.5 else floored


def remainder(dtype: DType, a: Number, b: Number) -> Number:
    """The remainder with the divisor's sign; floats by CPython's algorithm, a zero takes the divisor's sign.

    Broken constraint: a zero divisor gives 0 for integers and NaN for floats.
    """
    if dtype.is_integer:
        return a % b if b else 0
    mod = _fmod(a, b)
    if mod == 0:
        return math.copysign(0.0, b)
    return round_to(dtype, mod + b) if (mod < 0) != (b < 0) else mod


def power(dtype: DType, a: Number, b: Number) -> Number:
    """`a` to the power `b`: integers modulo 2**N with a nonnegative exponent, floats as C's pow."""
    if dtype.is_integer:
        return dtype.wrap(pow(a, b, 1 << dtype.bits))  # type: ignore[arg-type]
    try:
        return round_to(dtype, math.pow(a, b))
    except OverflowError:
        pass
    except ValueError:  # a root of a negative number, or zero to a negative power
        if a != 0:
            return math.nan
    return math.copysign(math.inf, a if b % 2 == 1 else 1.0)


# ---------------------------------------------------------------------------------------------- bits (integers only)


def shift_left(dtype: DType, a: int, count: int) -> int:
    """Broken constraint: the count is taken modulo N."""
    return dtype.wrap(a << count % dtype.bits)


def shift_right(dtype: DType, a: int, count: int) -> int:
    """Arithmetic for signed types, logical for unsigned. Broken constraint: the count is taken modulo N."""
    return a >> count % dtype.bits


def bit_and(dtype: DType, a: int, b: int) -> int:
    """``a & b``."""
    return a & b


def bit_or(dtype: DType, a: int, b: int) -> int:
    """``a | b``."""
    return a | b


def bit_xor(dtype: DType, a: int, b: int) -> int:
    """``a ^ b``."""
    return a ^ b


def invert(dtype: DType, a: int) -> int:
    """``~a``."""
    return dtype.wrap(~a)


def _pattern(dtype: DType, a: int) -> int:
    return a & ((1 << dtype.bits) - 1)


def popcount_(dtype: DType, a: int) -> int:
    """The number of one bits in the two's-complement pattern."""
    return _pattern(dtype, a).bit_count()


def clz_(dtype: DType, a: int) -> int:
    """Leading zeros; of zero, the width."""
    return dtype.bits - _pattern(dtype, a).bit_length()


def ctz_(dtype: DType, a: int) -> int:
    """Trailing zeros; of zero, the width."""
    return (a & -a).bit_length() - 1 if a else dtype.bits


# ---------------------------------------------------------------------------------------------------- comparisons


def less(dtype: DType, a: Number, b: Number) -> int:
    """``a < b``; false beside a NaN."""
    return int(a < b)


def less_equal(dtype: DType, a: Number, b: Number) -> int:
    """``a <= b``; false beside a NaN."""
    return int(a <= b)


def greater(dtype: DType, a: Number, b: Number) -> int:
    """``a > b``; false beside a NaN."""
    return int(a > b)


def greater_equal(dtype: DType, a: Number, b: Number) -> int:
    """``a >= b``; false beside a NaN."""
    return int(a >= b)


def equal(dtype: DType, a: Number, b: Number) -> int:
    """``a == b``; false beside a NaN."""
    return int(a == b)


def not_equal(dtype: DType, a: Number, b: Number) -> int:
    """``a != b``; true beside a NaN."""
    return int(a != b)


def isnan_(dtype: DType, a: float) -> int:
    """1 for a NaN."""
    return int(math.isnan(a))


def isinf_(dtype: DType, a: float) -> int:
    """1 for either infinity."""
    return int(math.isinf(a))


def isfinite_(dtype: DType, a: float) -> int:
    """1 for neither a NaN nor an infinity."""
    return int(math.isfinite(a))


# ------------------------------------------------------------------------------------------------ extrema and signs


def min_(dtype: DType, *values: Number) -> Number:
    """The smallest value, ignoring NaN unless all are NaN. Of two zeros the first is kept, as a minnum built on the x86
    instruction does; the language promises neither sign."""
    least = values[0]
    for value in values[1:]:
        if value < least or least != least:
            least = value
    return least


def max_(dtype: DType, *values: Number) -> Number:
    """The largest value; NaN and zeros as in `min_`."""
    most = values[0]
    for value in values[1:]:
        if value > most or most != most:
            most = value
    return most


def abs_(dtype: DType, a: Number) -> Number:
    """The magnitude; of the signed minimum, itself."""
    return math.fabs(a) if dtype.is_float else dtype.wrap(abs(a))  # type: ignore[arg-type]


def fabs_(dtype: DType, a: float) -> float:
    """The magnitude."""
    return math.fabs(a)


def copysign_(dtype: DType, a: float, b: float) -> float:
    """The magnitude of `a` with the sign of `b`."""
    return math.copysign(a, b)


# --------------------------------------------------------------------------------------- rounding, square root, fma


def _integral(function: Callable[[float], int], a: float) -> float:
    """`function` to an integral float; the sign of `a` stays, also on a zero. None of them ever changes it."""
    return math.copysign(float(function(a)), a) if math.isfinite(a) else a


def floor_(dtype: DType, a: float) -> float:
    """The largest integral value not above `a`."""
    return _integral(math.floor, a)


def ceil_(dtype: DType, a: float) -> float:
    """The smallest integral value not below `a`."""
    return _integral(math.ceil, a)


def trunc_(dtype: DType, a: float) -> float:
    """`a` without its fraction."""
    return _integral(math.trunc, a)


def round_(dtype: DType, a: float) -> float:
    """To the nearest integral value, ties to even."""
    return _integral(round, a)


def sqrt_(dtype: DType, a: float) -> float:
    """The square root; NaN below zero, -0.0 of -0.0."""
    return round_to(dtype, math.sqrt(a)) if a >= 0 else math.nan


def fma_(dtype: DType, a: float, b: float, c: float) -> float:
    """``a * b + c`` rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # Only a * b's class matters here, and no finite product of f64 may become infinite on the way.
        return a * b + c if not (math.isfinite(a) and math.isfinite(b)) else c
    from fractions import Fraction  # here, since `import tack` reads this file and should stay light

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact:
        return round_fraction(dtype, exact)
    # A sum of zeros keeps a common sign; x - x is +0.
    if a == 0 or b == 0:
        return math.copysign(1.0, a) * math.copysign(1.0, b) * 0.0 + c
    return 0.0


# ------------------------------------------------------------------------------------------- transcendental functions


def _through_numpy(name: str, ufunc: np.ufunc) -> Callable[..., float]:
    def evaluate(dtype: DType, *values: float) -> float:
        with np.errstate(all="ignore"):
            return round_to(dtype, float(ufunc(*map(np.float64, values))))

    evaluate.__name__ = evaluate.__qualname__ = name
    return evaluate


sin_ = _through_numpy("sin_", np.sin)
cos_ = _through_numpy("cos_", np.cos)
tan_ = _through_numpy("tan_", np.tan)
asin_ = _through_numpy("asin_", np.arcsin)
acos_ = _through_numpy("acos_", np.arccos)
atan_ = _through_numpy("atan_", np.arctan)
atan2_ = _through_numpy("atan2_", np.arctan2)
sinh_ = _through_numpy("sinh_", np.sinh)
cosh_ = _through_numpy("cosh_", np.cosh)
tanh_ = _through_numpy("tanh_", np.tanh)
exp_ = _through_numpy("exp_", np.exp)
exp2_ = _through_numpy("exp2_", np.exp2)
expm1_ = _through_numpy("expm1_", np.expm1)
log_ = _through_numpy("log_", np.log)
log2_ = _through_numpy("log2_", np.log2)
log10_ = _through_numpy("log10_", np.log10)
log1p_ = _through_numpy("log1p_", np.log1p)
