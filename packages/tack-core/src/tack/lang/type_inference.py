"""Types of parameters from the arguments of a call, and the one rule by which two types promote."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from tack.lang.diagnostics import fail
from tack.lang.ir import IRKernel, IRParam
from tack.lang.types import (
    BY_NAME,
    ArrayType,
    DType,
    Scalar,
    ValueType,
    dtype_of_numpy,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    integer_type_for_value,
    number_type,
    shape_of,
    u64,
)

_SIGNED = (i8, i16, i32, i64)


def promote_types(a: DType, b: DType) -> DType:
    """The type in which values of the types `a` and `b` meet (rules TYPE-2 and TYPE-3).

    Parameters
    ----------
    a, b : DType
        The types of the two operands; the order does not matter.

    Returns
    -------
    DType
        The common type; for two integers it holds every value of both.

    Raises
    ------
    TypeError
        If one is signed and the other is u64: no Tack integer holds both ranges.

    Examples
    --------
    >>> promote_types(tack.i32, tack.u32)
    tack.i64
    """
    if a is b:
        return a
    if a.is_float or b.is_float:
        return f64 if f64 in (a, b) else f32
    if a.is_signed == b.is_signed:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    need = max(signed.bits, unsigned.bits + 1)
    for candidate in _SIGNED:
        if candidate.bits >= need:
            return candidate
    raise TypeError(
        f"no integer type holds every value of both {a.name} and {b.name}; "
        f"use an explicit integer cast: tack.i64(...) or tack.u64(...)"
    )


def join_types(types: Iterable[DType]) -> DType:
    """The promotion of one or more types, whatever their order: a floating type wins over any mix of integers.

    Raises
    ------
    TypeError
        As `promote_types` does.
    """
    given = list(types)
    floats = [t for t in given if t.is_float]
    result, *rest = floats or given
    for t in rest:
        result = promote_types(result, t)
    return result


def integer_type_for_values(values: Sequence[int | float]) -> DType:
    """The type of a captured table of integers: the first of i32, i64 and u64 that holds them all.

    Raises
    ------
    TypeError
        If none does.
    """
    low, high = min(values), max(values)
    for candidate in (i32, i64, u64):
        if candidate.min <= low and high <= candidate.max:
            return candidate
    raise TypeError(f"no integer type holds both {low} and {high}, which are in one captured table")


def infer_param_types(ir: IRKernel, arguments: Sequence[Any]) -> list[ValueType]:
    """The types of a kernel's parameters, from one argument for each (rules PAR-2 and PAR-4).

    Parameters
    ----------
    ir : IRKernel
        The kernel, untyped: its name, and names and annotations of its parameters.
    arguments : sequence
        Python and NumPy numbers, `Scalar` values, arrays (anything with a `dtype` that is a Tack or NumPy one and an
        `ndim`), or types themselves.

    Returns
    -------
    list of DType or ArrayType

    Raises
    ------
    TypeError
        If an argument is no number and no array, its dtype has no Tack equivalent, an integer does not fit 64 bits, or
        an annotated parameter is given another kind of value.
    ValueError
        If an integer is outside the annotated type, or a finite float is outside f32 where it would become one.
    """
    if len(arguments) != len(ir.params):
        raise TypeError(f"kernel `{ir.name}` takes {len(ir.params)} arguments, not {len(arguments)}")
    arrays = [_array_type(p, a) for p, a in zip(ir.params, arguments, strict=True)]
    float_type = f64 if any(t is not None and t.dtype is f64 for t in arrays) else f32
    return [
        array if array is not None else _scalar_type(param, argument, float_type)
        for param, argument, array in zip(ir.params, arguments, arrays, strict=True)
    ]


def _refuse(kind: type[Exception], param: IRParam, text: str, hint: str | None = None) -> NoReturn:
    fail(kind, f"parameter `{param.name}`: {text}", param.loc, hint=hint)


def _array_type(param: IRParam, argument: Any) -> ArrayType | None:
    """The array type of an argument, or None if it is not an array."""
    if isinstance(argument, ArrayType):
        found = argument
    elif isinstance(argument, (DType, Scalar, np.generic)) or not hasattr(argument, "ndim"):
        return None
    else:
        dtype = getattr(argument, "dtype", None)
        if isinstance(dtype, np.dtype):
            dtype = dtype_of_numpy(dtype)
        if not isinstance(dtype, DType):
            given = getattr(argument, "dtype", type(argument).__name__)
            _refuse(TypeError, param, f"an array of {given} has no Tack dtype", f"the dtypes are {', '.join(BY_NAME)}")
        found = ArrayType(number_type(dtype), int(argument.ndim), components=shape_of(dtype))
    if param.annotation is not None:
        text = f"annotated {param.annotation!r}, it takes a number, not an array"
        _refuse(TypeError, param, text, "remove the annotation to pass an array")
    return found


def _scalar_type(param: IRParam, argument: Any, float_type: DType) -> DType:
    pin = param.annotation
    if isinstance(argument, DType):
        return pin or argument
    if pin is None and isinstance(argument, Scalar):
        return argument.dtype
    value = argument.value if isinstance(argument, Scalar) else argument
    if isinstance(value, (int, np.integer, np.bool_)):
        return _integer_type(param, int(value))
    if isinstance(value, (float, np.floating)):
        return _float_type(param, float(value), pin or float_type)
    text = f"a value of type {type(argument).__name__} is not accepted"
    _refuse(TypeError, param, text, "pass a number, a typed scalar such as tack.u8(3), or an array")


def _integer_type(param: IRParam, value: int) -> DType:
    pin = param.annotation
    if pin is None or pin.is_float:
        try:
            natural = integer_type_for_value(value)
        except TypeError as error:
            _refuse(TypeError, param, str(error))
        return pin or natural
    if not pin.min <= value <= pin.max:
        hint = f"pass {pin!r}({value}) to wrap it on purpose, or annotate a wider type"
        _refuse(ValueError, param, f"{value} is outside {pin!r} [{pin.min}, {pin.max}]", hint)
    return pin


def _float_type(param: IRParam, value: float, dtype: DType) -> DType:
    if dtype.is_integer:
        text = f"annotated {dtype!r}, it takes an integer, not the float {value!r}"
        _refuse(TypeError, param, text, "convert it before the call")
    if dtype is f32 and math.isfinite(value):
        with np.errstate(over="ignore"):
            fits = math.isfinite(np.float32(value))
        if not fits:
            text = f"{value!r} is outside the range of f32, which a float argument becomes here"
            _refuse(ValueError, param, text, f"pass tack.f64({value!r}), or annotate the parameter with tack.f64")
    return dtype
