"""Casts of whole host arrays, by the rules of a kernel cast (INT-2, INT-3): the array form of `convert_value`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tack.lang.types import DType

HostArray = np.ndarray[Any, Any]


def cast_values(values: HostArray, dtype: DType) -> HostArray:
    """Convert a NumPy array of numbers to the NumPy dtype of `dtype`; a view when nothing changes.

    Integers wrap modulo 2**bits, integers and floats round once to a float, floats truncate toward zero.

    Raises
    ------
    TypeError
        If the elements are not real numbers (complex, text, objects, dates).
    ValueError
        If a NaN or an infinity is converted to an integer type.
    """
    if values.dtype.kind not in "biuf":
        raise TypeError(f"elements of NumPy dtype {values.dtype} are not real numbers: they have no {dtype!r} value")
    if values.dtype.kind == "f" and dtype.is_integer:
        return _truncate(values, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype.numpy, copy=False)


def _truncate(values: HostArray, dtype: DType) -> HostArray:
    # NumPy's own cast of an unrepresentable float is undefined in C, so the value is first brought into i64, exactly.
    if not np.isfinite(values).all():
        bad = values[~np.isfinite(values)].flat[0]
        raise ValueError(f"{float(bad)!r} has no {dtype!r} value")
    wide = values if values.dtype.itemsize >= 8 else values.astype(np.float64)
    whole = np.fmod(np.trunc(wide), 2.0**64)
    whole = np.where(whole >= 2.0**63, whole - 2.0**64, np.where(whole < -(2.0**63), whole + 2.0**64, whole))
    return whole.astype(np.int64).astype(dtype.numpy)
