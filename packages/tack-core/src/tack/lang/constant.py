"""`tack.constant`: a captured number declared as one, with a type of its own if wanted (rule CAP-8)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tack.lang.records import record
from tack.lang.types import DType, Scalar, as_dtype, convert_value, is_integer_number


@record(frozen=True, eq=False, repr=False)
class Constant:
    """A number that kernels capture by value; made by `tack.constant`."""

    value: int | float
    dtype: DType | None

    def __repr__(self) -> str:
        return f"tack.constant({self.value!r}{'' if self.dtype is None else f', {self.dtype!r}'})"

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


def constant(value: Any, dtype: Any = None) -> Constant:
    """Declare a number that kernels and device functions capture by its value.

    Parameters
    ----------
    value
        An int, float, bool, NumPy scalar or typed scalar.
    dtype
        A Tack dtype. With it the constant has exactly this type in every expression; without it (and without a typed
        `value`) the constant behaves as the number written in its place would.

    Raises
    ------
    TypeError
        If `value` is not a number, or `dtype` not a dtype.
    ValueError
        If a non-finite float is given for an integer dtype.

    Examples
    --------
    >>> GAMMA = tack.constant(1.4, tack.f32)
    >>> GAMMA
    tack.constant(1.399999976158142, tack.f32)
    """
    if isinstance(value, (Constant, Scalar)):
        dtype = value.dtype if dtype is None else dtype
        value = value.value
    if dtype is not None:
        target = as_dtype(dtype)
        return Constant(convert_value(value, target), target)
    number = plain_number(value)
    if number is None:
        raise TypeError(f"tack.constant takes a number, not {type(value).__name__}")
    return Constant(number, None)


def plain_number(value: object) -> int | float | None:
    """The Python number with the value of an int, float, bool or NumPy scalar; None for anything else."""
    if is_integer_number(value):
        return int(cast(int, value))
    if isinstance(value, (float, np.floating)) and not isinstance(value, np.longdouble):
        return float(value)
    return None
