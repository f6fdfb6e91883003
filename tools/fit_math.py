"""Derive the constants of the CPU's mathematical functions, and write them as a Python module.

    python tools/fit_math.py > packages/tack-core/src/tack/codegen/math_constants.py

Each polynomial interpolates its function at Chebyshev points, which is within a small factor of the best there is; its
degree is the least that reaches the stated error. Needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
from mpmath import mpf

mp.mp.prec = 320

Function = Callable[[mpf], mpf]

HALF_LN2 = mp.log(2) / 2
# The remainder may lie a little beyond one half of the period, since the multiple is found in binary64.
EXPONENT = HALF_LN2 * (1 + mpf(2) ** -20)
ANGLE = (mp.pi / 4 * (1 + mpf(2) ** -20)) ** 2
RATIO = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * (1 + mpf(2) ** -20)
TANGENT = mp.tan(mp.pi / 8) ** 2 * (1 + mpf(2) ** -20)


def exponential(r: mpf) -> mpf:
    """(e^r - 1 - r) / r^2"""
    return mp.expm1(r) / r**2 - 1 / r if r else mpf(1) / 2


def logarithm(z: mpf) -> mpf:
    """(2 artanh(s) - 2 s) / s^3 for z = s^2"""
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s**3 if s else mpf(2) / 3


def logarithm_rest(z: mpf) -> mpf:
    """(2 artanh(s) - 2 s - 2/3 s^3) / s^5 for z = s^2"""
    return (logarithm(z) - mpf(2) / 3) / z if z else mpf(2) / 5


def sine(z: mpf) -> mpf:
    """(sin(r) - r) / r^3 for z = r^2"""
    r = mp.sqrt(z)
    return (mp.sin(r) - r) / r**3 if r else -mpf(1) / 6


def cosine(z: mpf) -> mpf:
    """(cos(r) - 1 + r^2/2) / r^4 for z = r^2"""
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z else mpf(1) / 24


def arctangent(z: mpf) -> mpf:
    """(atan(t) - t) / t^3 for z = t^2"""
    t = mp.sqrt(z)
    return (mp.atan(t) - t) / t**3 if t else -mpf(1) / 3


def arcsine(z: mpf) -> mpf:
    """(asin(s) - s) / s^3 for z = s^2"""
    s = mp.sqrt(z)
    return (mp.asin(s) - s) / s**3 if s else mpf(1) / 6


# Name, function, interval, and the largest errors for results of binary64 and of binary32.
POLYNOMIALS: list[tuple[str, Function, mpf, mpf, mpf, mpf]] = [
    ("EXPONENTIAL", exponential, -EXPONENT, EXPONENT, mpf(2) ** -54, mpf(2) ** -31),
    ("LOGARITHM", logarithm, mpf(0), RATIO, mpf(2) ** -50, mpf(2) ** -32),
    ("LOGARITHM_REST", logarithm_rest, mpf(0), RATIO, mpf(2) ** -55, mpf(2) ** -32),
    ("SINE", sine, mpf(0), ANGLE, mpf(2) ** -56, mpf(2) ** -34),
    ("COSINE", cosine, mpf(0), ANGLE, mpf(2) ** -56, mpf(2) ** -34),
    ("ARCTANGENT", arctangent, mpf(0), TANGENT, mpf(2) ** -54, mpf(2) ** -32),
    ("ARCSINE", arcsine, mpf(0), mpf(1) / 4, mpf(2) ** -54, mpf(2) ** -32),
]
SPLIT = {
    "LN2": mp.log(2),
    "INVERSE_LN2": 1 / mp.log(2),
    "LOG10_2": mp.log(2, 10),
    "INVERSE_LN10": 1 / mp.log(10),
    "HALF_PI": mp.pi / 2,
    "QUARTER_PI": mp.pi / 4,
    "TWO_THIRDS": mpf(2) / 3,
}
SINGLE = {"TWO_OVER_PI": 2 / mp.pi, "TAN_EIGHTH_PI": mp.tan(mp.pi / 8), "ROOT_HALF": mp.sqrt(mpf(1) / 2)}


def interpolate(function: Function, low: mpf, high: mpf, count: int) -> list[mpf]:
    """Coefficients, the lowest first, of the polynomial through `count` Chebyshev points (Newton's form, expanded)."""
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    table = [function(x) for x in nodes]
    for level in range(1, count):
        for k in range(count - 1, level - 1, -1):
            table[k] = (table[k] - table[k - 1]) / (nodes[k] - nodes[k - level])
    coefficients = [table[-1]]
    for k in range(count - 2, -1, -1):
        shifted = [mpf(0), *coefficients]
        for i, c in enumerate(coefficients):
            shifted[i] -= nodes[k] * c
        shifted[0] += table[k]
        coefficients = shifted
    return coefficients


def error(coefficients: list[float], function: Function, low: mpf, high: mpf) -> mpf:
    """The largest difference over many points, with coefficients as they are stored."""
    points = (low + (high - low) * k / 400 for k in range(401))
    return max(abs(mp.polyval([mpf(c) for c in reversed(coefficients)], x) - function(x)) for x in points)


def fit(function: Function, low: mpf, high: mpf, bound: mpf) -> tuple[list[float], mpf]:
    """The shortest polynomial within the bound, and its error."""
    for count in range(2, 30):
        coefficients = [float(c) for c in interpolate(function, low, high, count)]
        found = error(coefficients, function, low, high)
        if found <= bound:
            return coefficients, found
    raise ValueError("no polynomial of binary64 coefficients is that close")


def main() -> None:
    """Print the module."""
    print('"""Constants of the mathematical functions, written by tools/fit_math.py: change that one."""')
    print("\nfrom __future__ import annotations\n\nfrom typing import Final\n")
    for name, value in SINGLE.items():
        print(f"{name}: Final = {float(value)!r}")
    for name, value in SPLIT.items():  # two numbers of binary64 whose sum is closer than either; of pi, three
        parts = []
        for _ in range(3 if name == "HALF_PI" else 2):
            parts.append(float(value))
            value -= mpf(parts[-1])
        print(f"{name}: Final = ({', '.join(map(repr, parts))})")
    for name, function, low, high, *bounds in POLYNOMIALS:
        print(f"# {function.__doc__}; from {mp.nstr(low, 6)} to {mp.nstr(high, 6)}")
        for precision, bound in zip(("", "_F32"), bounds, strict=True):
            coefficients, found = fit(function, low, high, bound)
            print(f"{name}{precision}: Final = (  # within 2**{mp.nstr(mp.log(found, 2), 3)}")
            print("".join(f"    {c!r},\n" for c in coefficients) + ")")


if __name__ == "__main__":
    main()
