"""Tack's scalar types, typed host scalars, vector and matrix types, and array types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tack.lang.records import field, record


@record(frozen=True, repr=False)
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


@record(frozen=True, repr=False)
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
    if isinstance(spec, VecType):
        raise TypeError(f"{spec!r} is no number type; the dtypes are {', '.join(BY_NAME)}")
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


def is_integer_number(value: object) -> bool:
    """Whether `value` is an int, a bool or a NumPy integer. A NumPy time difference, which passes for one, is not."""
    return isinstance(value, (int, np.integer, np.bool_)) and not isinstance(value, np.timedelta64)


def convert_value(value: Any, dtype: DType) -> int | float:
    """Host conversion of a number to `dtype` by the rules of a kernel cast."""
    if isinstance(value, Scalar):
        value = value.value
    if is_integer_number(value):
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


@record(frozen=True)
class ArrayType:
    """The type of an array operand: element dtype, rank, address space and, where constant, its shape.

    `space` is "global" (arguments), "private" (`tack.local`), "shared" (`tack.shared`) or "constant" (captured tables).
    `components` is the shape of a vector or matrix element, whose numbers `dtype` types; () for scalar elements.
    """

    dtype: DType
    ndim: int
    space: str = "global"
    shape: tuple[int, ...] | None = None
    components: tuple[int, ...] = ()

    def __str__(self) -> str:
        dims = "x".join(map(str, self.shape)) if self.shape is not None else f"{self.ndim}-d"
        return f"{element_of(self).name} array ({dims})"


@record(frozen=True, repr=False)
class VecType(DType):
    """A vector (``shape == (n,)``) or matrix (``(rows, columns)``) of 2 to 4 numbers a dimension.

    Made by `tack.vec` and `tack.mat`; there is one object for each. It is an element type of arrays, and in a kernel
    calling it makes a value (``tack.vec3(x, y, z)``) or converts one. What it has from `DType` (kind, bits, limits) is
    that of its numbers, whose type is `number`.

    Examples
    --------
    >>> tack.vec3
    tack.vec3
    >>> tack.mat(2, 3, tack.f64).shape
    (2, 3)
    """

    number: DType
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.count * self.number.itemsize

    def __call__(self, *args: Any) -> Any:
        """Works inside kernels and device functions.

        Raises
        ------
        TypeError
            On the host, where a tuple, a list or a NumPy array stands for a vector.
        """
        raise TypeError(f"{self!r} makes values only inside a kernel; on the host write a tuple or a NumPy array")


_vector_types: dict[tuple[DType, tuple[int, ...]], VecType] = {}


def _vector_type(number: DType, shape: tuple[int, ...]) -> VecType:
    """The one type of its kind, also where threads ask for it at once: types are compared by identity."""
    found = _vector_types.get((number, shape))
    return _vector_types.setdefault((number, shape), _made_type(number, shape)) if found is None else found


def _made_type(number: DType, shape: tuple[int, ...]) -> VecType:
    rows, *columns = shape
    # Codes of shapes, for signature keys: 1 to 3 are vectors, 4 to 12 matrices.
    code = 4 + 3 * (rows - 2) + columns[0] - 2 if columns else rows - 1
    kind = "mat" if columns else "vec"
    plain = number is f32 and all(extent == rows for extent in columns)
    name = f"{kind}{rows}" if plain else f"{kind}({', '.join(map(str, shape))}, {number.name})"
    return VecType(name, number.code | code << 4, number.kind, number.bits, number.numpy, number, shape)


def shaped(number: DType, shape: tuple[int, ...]) -> DType:
    """The type of values of this shape: the dtype itself for (), else the one `VecType`."""
    return _vector_type(number, shape) if shape else number


def number_type(dtype: DType) -> DType:
    """The dtype of a scalar, or of each number of a vector or matrix."""
    return dtype.number if isinstance(dtype, VecType) else dtype


def shape_of(dtype: DType | None) -> tuple[int, ...]:
    """The shape of a vector or matrix type; () for a scalar."""
    return dtype.shape if isinstance(dtype, VecType) else ()


def element_of(array: ArrayType) -> DType:
    """The type of the elements of an array."""
    return shaped(array.dtype, array.components)


def _extent(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{what} takes integers from 2 to 4, not {value!r}")
    if not 2 <= value <= 4:
        raise ValueError(f"{what}: vectors and matrices have 2 to 4 numbers a dimension, not {value}")
    return int(value)


def vec(n: int, dtype: Any = f32) -> VecType:
    """The type of vectors of `n` numbers (rule VEC-1).

    Parameters
    ----------
    n
        2, 3 or 4.
    dtype
        A Tack dtype, f32 by default.

    Raises
    ------
    TypeError, ValueError
        If `n` is no such integer, or `dtype` no Tack dtype.

    Examples
    --------
    >>> tack.zeros(8, tack.vec(2, tack.i32)).numpy().shape
    (8, 2)
    """
    return _vector_type(as_dtype(dtype), (_extent(n, "tack.vec"),))


def mat(rows: int, columns: int, dtype: Any = f32) -> VecType:
    """The type of matrices of `rows` by `columns` numbers, row-major; parameters and errors as for `vec`.

    Examples
    --------
    >>> tack.zeros(8, tack.mat(2, 3)).numpy().shape
    (8, 2, 3)
    """
    return _vector_type(as_dtype(dtype), (_extent(rows, "tack.mat"), _extent(columns, "tack.mat")))


vec2, vec3, vec4 = vec(2), vec(3), vec(4)
mat2, mat3, mat4 = mat(2, 2), mat(3, 3), mat(4, 4)


def as_element_type(spec: Any) -> DType:
    """A vector or matrix type as it is, or a dtype as `as_dtype` finds it."""
    return spec if isinstance(spec, VecType) else as_dtype(spec)


ValueType = DType | ArrayType
