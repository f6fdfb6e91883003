"""Array reductions on the host: the oracle of every device (rules RED-*)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

HostArray = np.ndarray[Any, Any]

_CHUNK = 1 << 20  # elements that are split at a time: bounds the temporary memory, and keeps the partial sums exact


def empty_reduction(op: str) -> float:
    """What "sum", "min" or "max" of no elements is.

    Raises
    ------
    ValueError
        For "min" and "max", which have no identity.
    """
    if op == "sum":
        return 0.0
    raise ValueError(f"{op}() of an empty array has no value")


def reduce_numpy(array: HostArray, op: str) -> float:
    """Reduce all elements of a non-empty host array with "sum", "min" or "max"; whatever its shape, 0-d included."""
    values = array.reshape(-1)
    if op == "sum":
        return _sum(values)
    found = values.min() if op == "min" else values.max()  # both propagate NaN
    if values.dtype.kind == "f" and found == 0.0:
        # NumPy gives either zero on a tie; the rule goes by the sign bits: min prefers -0.0, max prefers 0.0.
        negative = np.signbit(values[values == 0.0])
        return -0.0 if (negative.any() if op == "min" else negative.all()) else 0.0
    return float(found)


def _sum(values: HostArray) -> float:
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return float(values.sum(dtype=values.dtype))
    # The accumulator is named: NumPy's default is the platform's integer.
    return float(int(values.sum(dtype=np.int64 if values.dtype.kind == "i" else np.uint64)))


def exact_sum(array: HostArray) -> float:
    """The exact sum of the floats of a host array, rounded once to their own type; a zero sum is 0.0.

    Infinities and NaN give what a plain sum gives.
    """
    values = array.reshape(-1)
    if not np.isfinite(values).all():
        with np.errstate(invalid="ignore", over="ignore"):
            return float(values[~np.isfinite(values)].sum())
    total = sum(_exact_units(values[start : start + _CHUNK]) for start in range(0, values.size, _CHUNK))
    return round_units(total, array.dtype)


_UNIT = 1074 + 53  # binary64 values are whole multiples of 2**-1074; a mantissa of 53 bits may reach below it


def _exact_units(values: HostArray) -> int:
    """The exact sum of finite floats, in units of 2**-_UNIT.

    Elements of one exponent are summed as integers, in halves of 27 and 26 bits, so that binary64 holds each sum
    exactly.
    """
    fraction, exponent = np.frexp(values.astype(np.float64))
    high = np.trunc(fraction * 2.0**27)
    low = (fraction * 2.0**27 - high) * 2.0**26
    lowest = int(exponent.min(initial=0))
    bins = exponent - lowest
    total = 0
    for part, bits in ((high, 27), (low, 53)):
        for k, amount in enumerate(np.bincount(bins, weights=part).tolist()):
            if amount:
                total += int(amount) << (k + lowest - bits + _UNIT)
    return total


def round_units(total: int, dtype: np.dtype[Any]) -> float:
    """An exact sum in units of 2**-_UNIT, rounded once to nearest even; too large becomes infinite."""
    scale = 1 << _UNIT
    try:
        rounded = total / scale  # of two integers: correctly rounded
    except OverflowError:
        return math.inf if total > 0 else -math.inf
    if dtype == np.float64:
        return rounded
    # Rounding to binary64 to nearest and then to f32 would round twice; through binary64 rounded to odd it is once.
    numerator, denominator = rounded.as_integer_ratio()
    error = total * denominator - numerator * scale
    if error and not np.float64(rounded).view(np.int64) & 1:
        rounded = math.nextafter(rounded, math.inf if error > 0 else -math.inf)
    with np.errstate(over="ignore"):
        return float(np.float32(rounded))
