"""The mathematical functions of the CPU: formulas in binary64 without tables, which vectors compute as scalars do.

The methods are in the open literature: reduction in parts by W. J. Cody and W. Waite (Software Manual for the
Elementary Functions, 1980) with the exact products of a fused multiply-add; sums and products of pairs by T. J. Dekker
(1971); the rearrangements that keep a logarithm or an arc within an ULP by K. C. Ng (fdlibm, 1993). Constants:
tools/fit_math.py.

A result of binary32 (`short`) is rounded from binary64 and needs no second parts. What is rare and long (angles beyond
2**30, logarithms of what is not a positive normal number) is left to the C library by the value alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tack.codegen import math_constants as c
from tack.codegen.llvm_formula import Formula, Real, Word

_LEAST_NORMAL: Final = 2.0**-1022
_GREATEST: Final = 2.0**1023 * (2 - 2.0**-52)
_LARGEST_ANGLE: Final = 2.0**30


# ---------------------------------------------------------------------------------------------- exponentials


def _exponent_and_rest(m: Formula, x: Real) -> tuple[Real, Word, Real, Real]:
    """A whole number k, also as a word, and the rest of ``x - k * ln(2)`` as a pair."""
    k, n = m.nearest(x, c.INVERSE_LN2[0])
    high = m.fma(-k, c.LN2[0], x)  # exact: both are multiples of one unit, and the difference is small
    if m.short:
        return k, n, high, m.real(0.0)
    r = m.fma(-k, c.LN2[1], high)
    return k, n, r, m.fma(-k, c.LN2[1], high - r)


def _raised(m: Formula, base: Real | float, r: Real, low: Real) -> tuple[Real, Real]:
    """``base + (e**(r + low) - 1)`` as a pair, where `base` is 0 or larger than r."""
    if m.short:
        return base + m.fma(m.polynomial(r, c.EXPONENTIAL_F32), r * r, r), m.real(0.0)
    rest = m.fma(m.polynomial(r, c.EXPONENTIAL), r * r, low)
    high = base + r
    return high, ((base - high) + r) + rest


def _sum(m: Formula, pair: tuple[Real, Real]) -> Real:
    return pair[0] if m.short else pair[0] + pair[1]


def _normal(m: Formula, pair: tuple[Real, Real]) -> tuple[Real, Real]:
    """A pair whose first part is its sum, rounded."""
    if m.short:
        return pair
    total = pair[0] + pair[1]
    return total, (pair[0] - total) + pair[1]


def _exp(m: Formula, x: Real) -> Real:
    if m.short:
        _, n, r, low = _exponent_and_rest(m, x.at_most(90.0).at_least(-105.0))
        return _sum(m, _raised(m, 1.0, r, low)) * m.power_of_two(n)
    k, n, r, low = _exponent_and_rest(m, x)
    y = _sum(m, _raised(m, 1.0, r, low))

    def at_the_ends() -> Real:
        some = m.scaled(y, k)
        return m.select(x > 710.0, math.inf, m.select(x < -746.0, 0.0, some))

    return m.rarely(~(abs(x) <= 708.0), y * m.power_of_two(n), at_the_ends)


def _exp2(m: Formula, x: Real) -> Real:
    x = x.at_most(130.0).at_least(-152.0) if m.short else x.at_most(1025.0).at_least(-1076.0)
    k, n = m.nearest(x)
    if m.short:
        return _power_of_two_short(m, x - k) * m.power_of_two(n)
    return _power_of_two(m, x - k, m.real(0.0), k)


def _power_of_two(m: Formula, r: Real, low: Real, k: Real) -> Real:
    """``2**(r + low + k)``"""
    high = r * c.LN2[0]
    low = m.fma(r, c.LN2[0], -high) + m.fma(r, c.LN2[1], low * c.LN2[0])
    return m.scaled(_sum(m, _raised(m, 1.0, high, low)), k)


def _power_of_two_short(m: Formula, r: Real) -> Real:
    return _raised(m, 1.0, r * c.LN2[0], m.real(0.0))[0]


def _less_one(m: Formula, x: Real) -> tuple[tuple[Real, Real], Real]:
    """A pair p and a whole number k with ``e**x - 1 == p * 2**k``; the sign of a zero is lost."""
    k, _, r, low = _exponent_and_rest(m, x.at_most(711.0).at_least(-60.0))
    _, n = m.nearest(-k.at_most(1000.0))
    return _normal(m, _raised(m, 1.0 - m.power_of_two(n), r, low)), k


def _expm1(m: Formula, x: Real) -> Real:
    pair, k = _less_one(m, x)
    return m.select(x.equals(0.0), x, m.scaled(pair[0], k))


def _quotient(m: Formula, top: tuple[Real, Real], bottom: tuple[Real, Real]) -> tuple[Real, Real]:
    """The quotient of two pairs; of two numbers, if short."""
    if m.short:
        return top[0] / bottom[0], m.real(0.0)
    inverse = 1.0 / bottom[0]
    q = top[0] * inverse
    return q, (m.fma(-q, bottom[0], top[0]) + (top[1] - q * bottom[1])) * inverse


def _plus(a: Real, low: Real, number: float) -> tuple[Real, Real]:
    """A pair and a number as a pair, whichever is larger."""
    total = a + number
    back = total - a
    return total, ((a - (total - back)) + (number - back)) + low


def _sinh(m: Formula, x: Real) -> Real:
    (high, low), k = _less_one(m, abs(x))
    high, low = m.scaled(high, k, 1.0), m.scaled(low, k, 1.0)  # halves, of which the sum below may not be finite
    least = high.at_most(2.0**900)
    q, q_low = _quotient(m, (least, low), _plus(2.0 * least, 2.0 * low, 1.0))
    return (high + (q + (q_low + low))).with_sign_of(x)


def _cosh(m: Formula, x: Real) -> Real:
    k, _, r, low = _exponent_and_rest(m, abs(x).at_most(711.0))
    high, low = _normal(m, _raised(m, 1.0, r, low))
    half = m.scaled(high, k, 1.0)
    return half + (0.25 / half + m.scaled(low, k, 1.0))


def _tanh(m: Formula, x: Real) -> Real:
    (high, low), k = _less_one(m, (2.0 * abs(x)).at_most(40.0))
    factor = m.power_of_two(m.nearest(k)[1])
    high, low = high * factor, low * factor
    return _sum(m, _quotient(m, (high, low), _plus(high, low, 2.0))).with_sign_of(x)


# ------------------------------------------------------------------------------------------------ logarithms


def _log_parts(m: Formula, f: Real) -> tuple[Real, Real]:
    """``f - log(1 + f)`` in two parts, ``h = f * f / 2`` and what to take away from it."""
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    return h, s * (h + z * m.polynomial(z, c.LOGARITHM_F32 if m.short else c.LOGARITHM))


def _with_exceptions(m: Formula, name: str, x: Real, result: Real) -> Real:
    """Zero, subnormal and negative numbers, infinities and NaN."""
    return m.rarely(~((x >= _LEAST_NORMAL) & (x <= _GREATEST)), result, lambda: m.library(name, x))


def _log(m: Formula, x: Real) -> Real:
    k, mantissa = m.split(x)
    f = mantissa - 1.0
    h, rest = _log_parts(m, f)
    return _with_exceptions(m, "log", x, m.fma(k, c.LN2[0], f - (h - m.fma(k, c.LN2[1], rest))))


def _log1p(m: Formula, x: Real) -> Real:
    u = x + 1.0
    k, mantissa = m.split(u)
    same = k.equals(0.0)
    # What the sum lost, over u: so small that two digits of its divisor suffice.
    back = u - 1.0
    lost = (x - back) + (1.0 - (u - back))
    f = m.select(same, x, mantissa - 1.0)
    _, n = m.nearest(-k.at_most(1000.0))
    low = m.select(same, 0.0, lost * m.power_of_two(n) * m.fma(f, f - 1.0, 1.0))
    h, rest = _log_parts(m, f)
    result = m.fma(k, c.LN2[0], f - (h - (m.fma(k, c.LN2[1], rest) + low)))
    result = m.select(x.equals(0.0), x, result)
    return m.rarely(~((x > -1.0) & (x <= 2.0**60)), result, lambda: m.library("log1p", x))


def _log_pair(m: Formula, f: Real) -> tuple[Real, Real]:
    """``log(1 + f)`` as a pair that is a few bits better than one number."""
    h, rest = _log_parts(m, f)
    high = f - h
    return high, ((f - high) - h) + (rest - m.fma(0.5 * f, f, -h))


def _log2(m: Formula, x: Real) -> Real:
    k, mantissa = m.split(x)
    high, low = _log_pair(m, mantissa - 1.0)
    p = high * c.INVERSE_LN2[0]
    rest = m.fma(high, c.INVERSE_LN2[0], -p) + m.fma(high, c.INVERSE_LN2[1], low * c.INVERSE_LN2[0])
    total = k + p
    return _with_exceptions(m, "log2", x, total + (((k - total) + p) + rest))


def _log10(m: Formula, x: Real) -> Real:
    k, mantissa = m.split(x)
    high, low = _log_pair(m, mantissa - 1.0)
    p = high * c.INVERSE_LN10[0]
    rest = m.fma(high, c.INVERSE_LN10[0], -p) + m.fma(high, c.INVERSE_LN10[1], low * c.INVERSE_LN10[0])
    q = k * c.LOG10_2[0]
    rest = rest + m.fma(k, c.LOG10_2[0], -q) + k * c.LOG10_2[1]
    total = q + p
    return _with_exceptions(m, "log10", x, total + (((q - total) + p) + rest))


def _log2_pair(m: Formula, x: Real) -> tuple[Real, Real]:
    """``log2(x)`` as a pair, within about 2**-65 of it."""
    k, mantissa = m.split(x)
    f, divisor = mantissa - 1.0, mantissa + 1.0
    inverse = 1.0 / divisor
    s = f * inverse
    s_low = (m.fma(-s, divisor, f) - s * (mantissa - (divisor - 1.0))) * inverse
    z = s * s
    z_low = m.fma(s, s, -z) + 2.0 * s * s_low
    rest = z * m.polynomial(z, c.LOGARITHM_REST)
    factor = c.TWO_THIRDS[0] + rest
    factor_low = ((c.TWO_THIRDS[0] - factor) + rest) + c.TWO_THIRDS[1]
    t = z * factor
    t_low = m.fma(z, factor, -t) + m.fma(z, factor_low, z_low * factor)
    u = s * t
    u_low = m.fma(s, t, -u) + m.fma(s, t_low, s_low * t)
    double = 2.0 * s
    high = double + u
    low = ((double - high) + u) + (u_low + 2.0 * s_low)
    p = high * c.INVERSE_LN2[0]
    p_low = m.fma(high, c.INVERSE_LN2[0], -p) + m.fma(high, c.INVERSE_LN2[1], low * c.INVERSE_LN2[0])
    total = k + p
    total_low = ((k - total) + p) + p_low
    result = total + total_low
    return result, (total - result) + total_low


def _log2_short(m: Formula, x: Real) -> Real:
    k, mantissa = m.split(x)
    f = mantissa - 1.0
    s = f / (2.0 + f)
    z = s * s
    return m.fma(m.fma(s * z, m.polynomial(z, c.LOGARITHM), 2.0 * s), c.INVERSE_LN2[0], k)


def _power_of_size(m: Formula, x: Real, y: Real) -> Real:
    """``x ** y`` for a positive normal number"""
    if m.short:
        product = (y * _log2_short(m, x)).at_most(200.0).at_least(-200.0)
        k, n = m.nearest(product)
        result = _power_of_two_short(m, product - k) * m.power_of_two(n)
    else:
        log, log_low = _log2_pair(m, x)
        product = y * log
        low = m.fma(y, log, -product) + y * log_low
        inside = abs(product) <= 1080.0
        product, low = product.at_most(1080.0).at_least(-1080.0), m.select(inside, low, 0.0)
        k, _ = m.nearest(product)
        rest = product - k
        r = rest + low
        result = _power_of_two(m, r, (rest - r) + low, k)
    return result


def _pow(m: Formula, x: Real, y: Real) -> Real:
    """``x ** y``: of subnormal numbers, infinities and NaN by the library."""
    size = abs(x)
    whole = m.intrinsic("floor", y).equals(y)
    half = 0.5 * y
    odd = whole & ~m.intrinsic("floor", half).equals(half)
    at_zero = m.select(y > 0.0, 0.0, m.select(y < 0.0, math.inf, 1.0))
    result = m.select(size.equals(0.0), at_zero, _power_of_size(m, size, y))
    result = m.select(odd, result.with_sign_of(x), result)
    result = m.select((x < 0.0) & ~whole, math.nan, result)
    usual = ((size >= _LEAST_NORMAL) | size.equals(0.0)) & (size <= _GREATEST) & (abs(y) <= 2.0**70)
    return m.rarely(~usual, result, lambda: m.library("pow", x, y))


def _root(m: Formula, x: Real) -> Real:
    """``x ** 0.5``, which differs from a square root at -0 and at minus infinity."""
    return m.select(x.equals(-math.inf), math.inf, m.intrinsic("sqrt", x + 0.0))


def whole_power(exponent: int) -> Callable[..., Real]:
    """The formula for ``x ** exponent``, a positive whole number: by squaring, in pairs."""

    def formula(m: Formula, x: Real) -> Real:
        rest, square, result = exponent, (x, m.real(0.0)), (m.real(1.0), m.real(0.0))
        while rest:
            if rest & 1:
                result = square if result[0].ssa == m.real(1.0).ssa else _product(m, result, square)
            rest >>= 1
            if rest:
                square = _product(m, square, square)
        high, low = result
        if m.short:
            return high
        # Where the product is infinite, the rest is NaN; the sign of a zero stays.
        return m.select((abs(high) > 0.0) & (abs(high) <= _GREATEST), high + low, high)

    return formula


def _product(m: Formula, a: tuple[Real, Real], b: tuple[Real, Real]) -> tuple[Real, Real]:
    high = a[0] * b[0]
    if m.short:
        return high, a[1]
    return high, m.fma(a[0], b[0], -high) + m.fma(a[0], b[1], a[1] * b[0])


# ------------------------------------------------------------------------------------------ sine and cosine


def _sine_and_cosine(m: Formula, x: Real) -> tuple[Word, tuple[Real, Real], tuple[Real, Real]]:
    """The nearest multiple of half of pi, as a word; sine and cosine, as pairs, of what is left of the angle."""
    k, word = m.nearest(x, c.TWO_OVER_PI)
    first = m.fma(-k, c.HALF_PI[0], x)  # exact: both are multiples of one unit
    if m.short:
        r = m.fma(-k, c.HALF_PI[1], first)
        z = r * r
        sine, zero = m.fma(z * r, m.polynomial(z, c.SINE_F32), r), m.real(0.0)
        return word, (sine, zero), (m.fma(z * z, m.polynomial(z, c.COSINE_F32), m.fma(z, -0.5, 1.0)), zero)
    product = k * c.HALF_PI[1]
    r = first - product
    back = r - first
    lost = (first - (r - back)) - (product + back)
    low = m.fma(-k, c.HALF_PI[2], lost - m.fma(k, c.HALF_PI[1], -product))
    z = r * r
    half = 0.5 * z
    sine_low = m.fma(z * r, m.polynomial(z, c.SINE), m.fma(-half, low, low))
    one = 1.0 - half
    rest = m.fma(z * z, m.polynomial(z, c.COSINE), -(r * low))
    return word, (r, sine_low), (one, ((1.0 - one) - half) + rest)


def _far(m: Formula, name: str, x: Real, result: Real) -> Real:
    return m.rarely(~(abs(x) <= _LARGEST_ANGLE), result, lambda: m.library(name, x))


def _sin(m: Formula, x: Real) -> Real:
    k, sine, cosine = _sine_and_cosine(m, x)
    value = m.select((k & 1).equals(0), _sum(m, sine), _sum(m, cosine))
    result = (value.word ^ ((k & 2) << 62)).real
    return _far(m, "sin", x, m.select(x.equals(0.0), x, result))


def _cos(m: Formula, x: Real) -> Real:
    k, sine, cosine = _sine_and_cosine(m, x)
    value = m.select((k & 1).equals(0), _sum(m, cosine), _sum(m, sine))
    return _far(m, "cos", x, (value.word ^ (((k + 1) & 2) << 62)).real)


def _tan(m: Formula, x: Real) -> Real:
    k, sine, cosine = _sine_and_cosine(m, x)
    even = (k & 1).equals(0)
    top = m.select(even, sine[0], -cosine[0]), m.select(even, sine[1], -cosine[1])
    bottom = m.select(even, cosine[0], sine[0]), m.select(even, cosine[1], sine[1])
    return _far(m, "tan", x, m.select(x.equals(0.0), x, _sum(m, _quotient(m, _normal(m, top), _normal(m, bottom)))))


# ------------------------------------------------------------------------------------------------------ arcs


def _arc(
    m: Formula, small: Real, large: Real, quarters: Callable[[Real], Real], negative: Callable[[Real], Real]
) -> Real:
    """The arctangent of a ratio from 0 to 1, turned: `quarters` gives the turn in quarters of pi for one of 0 or 1, and
    `negative` the arc or its opposite."""
    beyond = small > large * c.TAN_EIGHTH_PI
    top, bottom = small - large, small + large
    # What the difference and the sum lost.
    top_low, bottom_low = small - (top + large), small - (bottom - large)
    top, bottom = m.select(beyond, top, small), m.select(beyond, bottom, large)
    top_low, bottom_low = m.select(beyond, top_low, 0.0), m.select(beyond, bottom_low, 0.0)
    inverse = 1.0 / bottom
    t = top * inverse
    low = (m.fma(-t, bottom, top) + m.fma(-t, bottom_low, top_low)) * inverse
    z = t * t
    low = m.fma(z * t, m.polynomial(z, c.ARCTANGENT_F32 if m.short else c.ARCTANGENT), low)
    t, low = negative(t), negative(low)
    turn = quarters(m.select(beyond, 1.0, 0.0))
    base = turn * c.QUARTER_PI[0]
    base_low = m.fma(turn, c.QUARTER_PI[0], -base) + turn * c.QUARTER_PI[1]
    high = base + t
    return high + (((base - high) + t) + (low + base_low))


def _atan(m: Formula, x: Real) -> Real:
    a = abs(x).at_most(2.0**500)
    inverted = a > 1.0
    small, large = m.select(inverted, 1.0, a), m.select(inverted, a, 1.0)
    arc = _arc(
        m,
        small,
        large,
        lambda turn: m.select(inverted, 2.0 - turn, turn),
        lambda t: m.select(inverted, -t, t),
    )
    return arc.with_sign_of(x)


def _atan2(m: Formula, y: Real, x: Real) -> Real:
    a, b = abs(y), abs(x)
    steep, left = a > b, x < 0.0
    small, large = m.select(steep, b, a), m.select(steep, a, b)

    def quarters(turn: Real) -> Real:
        turn = m.select(steep, 2.0 - turn, turn)
        return m.select(left, 4.0 - turn, turn)

    def negative(t: Real) -> Real:
        t = m.select(steep, -t, t)
        return m.select(left, -t, t)

    arc = _arc(m, small, large, quarters, negative).with_sign_of(y)
    usual = (small >= 0.0) & (large >= 2.0**-500) & (large <= 2.0**500)
    return m.rarely(~usual, arc, lambda: m.library("atan2", y, x))


def _arcsine(m: Formula, x: Real) -> tuple[Real, Real, Real, Real]:
    """The size of x; s, which is x, or beyond 1/2 the root of (1 - x) / 2; its arcsine's rest; the root's error."""
    a = abs(x)
    half = 0.5 * (1.0 - a)
    z = m.select(a > 0.5, half, a * a)
    root = m.intrinsic("sqrt", half)
    s = m.select(a > 0.5, root, a)
    rest = z * s * m.polynomial(z, c.ARCSINE_F32 if m.short else c.ARCSINE)
    lost = m.select(half > 0.0, m.fma(-root, root, half) * (0.5 / root), 0.0)
    return a, s, rest, lost


def _asin(m: Formula, x: Real) -> Real:
    a, s, rest, lost = _arcsine(m, x)
    double = 2.0 * s
    high = c.HALF_PI[0] - double
    low = ((c.HALF_PI[0] - high) - double) + m.fma(-2.0, rest + lost, c.HALF_PI[1])
    return m.select(a > 0.5, high + low, s + rest).with_sign_of(x)


def _acos(m: Formula, x: Real) -> Real:
    a, s, rest, lost = _arcsine(m, x)
    outer = a > 0.5
    # pi/2 - x - rest; 2 (s + rest); pi - 2 (s + rest)
    base = m.select(outer, m.select(x < 0.0, 2.0 * c.HALF_PI[0], 0.0), c.HALF_PI[0])
    base_low = m.select(outer, m.select(x < 0.0, 2.0 * c.HALF_PI[1], 0.0), c.HALF_PI[1])
    double, double_rest = m.select(outer, -2.0 * s, s), m.select(outer, -2.0 * (rest + lost), rest)
    double, double_rest = m.select(x < 0.0, double, -double), m.select(x < 0.0, double_rest, -double_rest)
    high = base + double
    return high + (((base - high) + double) + (double_rest + base_low))


_NAMED: Final = (
    *(_exp, _exp2, _expm1, _sinh, _cosh, _tanh, _log, _log1p, _log2, _log10),
    *(_sin, _cos, _tan, _atan, _atan2, _asin, _acos, _pow, _root),
)
FUNCTIONS: Final[dict[str, Callable[..., Real]]] = {function.__name__[1:]: function for function in _NAMED}
"""By the name that the IR uses; `pow` is the operator ``**`` of floats, and `root` that with 0.5."""
