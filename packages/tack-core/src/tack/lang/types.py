"""Tack's scalar types, typed host scalars and array types."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, repr=False)
class DType:
    """A fixed-width number type: ``i8 i16 i32 i64 u8 u16 u32 u64 f32 f64``.

    In a kernel, calling a dtype converts (``tack.u8(x)``); as an annotation it pins a parameter or a local
    (``n: tack.i64``); on the host, calling it makes a `Scalar`, which a kernel receives at exactly this type.

    Examples
    --------
    >>> tack.u8(300)
    tack.u8(44)
    >>> tack.i16.max
    32767
    """

    name: str
    code: int  # stable small number, used in signature keys
    kind: str  # "i" signed, "u" unsigned, "f" floating
    bits: int
    numpy: np.dtype[Any] = field(compare=False)

    def __repr__(self) -> str:
        return f"tack.{self.name}"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        return self.kind != "f"

    @property
    def is_signed(self) -> bool:
        return self.kind != "u"

    @property
    def itemsize(self) -> int:
        return self.bits // 8

    @property
    def min(self) -> int:
        """The smallest integer of this integer type."""
        self._need_integer()
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def max(self) -> int:
        """The largest integer of this integer type."""
        self._need_integer()
        return (1 << (self.bits - 1)) - 1 if self.is_signed else (1 << self.bits) - 1

    def _need_integer(self) -> None:
        if self.is_float:
            raise TypeError(f"{self!r} is a floating type: it has no integer limits")

    def wrap(self, value: int) -> int:
        """The integer of this type that equals `value` modulo 2**bits (rule INT-1)."""
        self._need_integer()
        low = value & ((1 << self.bits) - 1)
        return low - (1 << self.bits) if self.is_signed and low >> (self.bits - 1) else low

    def __call__(self, value: Any) -> Scalar:
        """Make a typed host scalar; integers wrap, floats round to nearest or truncate toward zero.

        Raises
        ------
        TypeError
            If `value` is not a number.
        ValueError
            If a non-finite float is converted to an integer type.
        """
        return Scalar(self, convert_value(value, self))


@dataclass(frozen=True, slots=True, repr=False)
class Scalar:
    """A number with a Tack type, made on the host by ``tack.u8(3)``; passed to a kernel it keeps that type."""

    dtype: DType
    value: int | float

    def __repr__(self) -> str:
        return f"{self.dtype!r}({self.value!r})"

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


def _dtype(name: str, code: int) -> DType:
    kind, bits = name[0], int(name[1:])
    return DType(name, code, kind, bits, np.dtype(f"{kind}{bits // 8}"))


i8, u8 = _dtype("i8", 1), _dtype("u8", 2)
i16, u16 = _dtype("i16", 3), _dtype("u16", 4)
i32, u32 = _dtype("i32", 5), _dtype("u32", 6)
i64, u64 = _dtype("i64", 7), _dtype("u64", 8)
f32, f64 = _dtype("f32", 9), _dtype("f64", 10)

DTYPES: tuple[DType, ...] = (i8, u8, i16, u16, i32, u32, i64, u64, f32, f64)
INTEGER_DTYPES = DTYPES[:8]
FLOAT_DTYPES = DTYPES[8:]
BY_NAME = {t.name: t for t in DTYPES}
_BY_NUMPY = {(t.kind, t.itemsize): t for t in DTYPES}


def dtype_of_numpy(dtype: np.dtype[Any]) -> DType | None:
    """The Tack type with the layout of a native-endian NumPy dtype, or None if there is none."""
    return _BY_NUMPY.get((dtype.kind, dtype.itemsize)) if dtype.isnative else None


def as_dtype(spec: Any) -> DType:
    """A Tack dtype from a Tack dtype, its name, or anything `numpy.dtype` takes.

    Raises
    ------
    TypeError
        If the type has no Tack equivalent (f16, bool, complex, foreign byte order, ...).
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in BY_NAME:
        return BY_NAME[spec]
    found = dtype_of_numpy(np.dtype(spec))
    if found is None:
        raise TypeError(f"{spec!r} is not a Tack dtype; the dtypes are {', '.join(BY_NAME)}")
    return found


def integer_type_for_value(value: int) -> DType:
    """The type of an integer literal or Python int argument: i32 if it fits, else i64, else u64.

    Raises
    ------
    TypeError
        If `value` is outside [-2**63, 2**64 - 1].
    """
    for t in (i32, i64, u64):
        if t.min <= value <= t.max:
            return t
    raise TypeError(f"integer {value} does not fit 64 bits; Tack integers are at most i64 or u64")


def round_float(value: float, dtype: DType) -> float:
    """A Python float rounded once to a floating dtype (to nearest, ties to even; overflow gives infinity)."""
    if dtype is f64:
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.float32(value))


def convert_value(value: Any, dtype: DType) -> int | float:
    """Host conversion of a number to `dtype` by the rules of a kernel cast."""
    if isinstance(value, Scalar):
        value = value.value
    if isinstance(value, (int, np.integer, np.bool_)):
        number = int(value)
        return dtype.wrap(number) if dtype.is_integer else int_to_float(number, dtype)
    if not isinstance(value, (float, np.floating)):
        raise TypeError(f"{dtype!r} takes a number, not {type(value).__name__}")
    real = float(value)
    if dtype.is_float:
        return round_float(real, dtype)
    if not math.isfinite(real):
        raise ValueError(f"{real!r} has no {dtype!r} value")
    return dtype.wrap(int(real))


def int_to_float(value: int, dtype: DType) -> float:
    """An integer of at most 64 bits rounded ONCE to `dtype` (not through binary64 for f32)."""
    if dtype is f64:
        return float(value)
    kind = np.int64 if value < 0 else np.uint64
    return float(kind(value).astype(np.float32))


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The type of an array operand: element dtype, rank, address space and, where constant, its shape.

    `space` is "global" (arguments), "private" (`tack.local`) or "constant" (captured tables).
    """

    dtype: DType
    ndim: int
    space: str = "global"
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        dims = "x".join(map(str, self.shape)) if self.shape is not None else f"{self.ndim}-d"
        return f"{self.dtype.name} array ({dims})"


ValueType = DType | ArrayType
