"""The device functions of `tack.math` (rule MATH-5), written in the language itself.

Each computes at the type of its arguments.
"""

from __future__ import annotations

from typing import Any

from tack.lang.func import func
from tack.lang.intrinsics import PUBLIC

floor, lower, higher = PUBLIC["floor"], PUBLIC["min"], PUBLIC["max"]


@func
def fract(x: Any) -> Any:
    """The fraction ``x - floor(x)``, from 0 up to 1, as a float."""
    return x - floor(x)


@func
def mix(a: Any, b: Any, t: Any) -> Any:
    """Linear interpolation ``a * (1 - t) + b * t``: exactly `a` at 0 and `b` at 1."""
    return a * (1 - t) + b * t


@func
def clamp(x: Any, low: Any, high: Any) -> Any:
    """The nearest number to `x` between `low` and `high`; `low` for a NaN."""
    return lower(higher(x, low), high)


@func
def saturate(x: Any) -> Any:
    """`x` limited to 0 and 1, as a float; 0 for a NaN."""
    return lower(higher(x, 0.0), 1.0)


@func
def step(edge: Any, x: Any) -> Any:
    """0 where ``x < edge``, else 1, as a float."""
    return 0.0 if x < edge else 1.0


@func
def smoothstep(low: Any, high: Any, x: Any) -> Any:
    """0 up to `low`, 1 from `high`, and a smooth cubic between them, as a float; `low` and `high` differ."""
    t = saturate((x - low) / (high - low))
    return t * t * (3.0 - 2.0 * t)


@func
def sign(x: Any) -> Any:
    """-1, 0 or 1 by the sign of `x`, of its type; NaN for a NaN."""
    zero = _zero(x)
    if x == x:
        x = (x > zero) - (x < zero)
    return x


@func
def _zero(x: Any) -> Any:
    x = 0
    return x


@func
def radians(x: Any) -> Any:
    """An angle in degrees as radians, as a float."""
    return x * 0.017453292519943295


@func
def degrees(x: Any) -> Any:
    """An angle in radians as degrees, as a float."""
    return x * 57.29577951308232
