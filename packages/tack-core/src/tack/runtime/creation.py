"""Functions that make arrays. Each takes `device=`: a name or a `tack.Device`, by default the current device."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from tack.lang.array import Array, new_array
from tack.lang.host_cast import HostArray
from tack.lang.types import (
    DType,
    Scalar,
    VecType,
    as_dtype,
    as_element_type,
    convert_value,
    f32,
    integer_type_for_value,
    number_type,
    shape_of,
)
from tack.runtime.device import Device, current_device
from tack.runtime.device import device as as_device
from tack.runtime.interop import element_type, refuse_mask, wrap_dlpack

Shape = int | Sequence[int]
DeviceLike = str | Device | None


def _resolve(device: DeviceLike) -> Device:
    return current_device() if device is None else as_device(device)


def _extents(shape: Shape) -> tuple[int, ...]:
    try:
        found = (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        try:
            found = tuple(map(operator.index, shape))  # type: ignore[assignment,arg-type]
        except TypeError:
            raise TypeError(f"a shape is an integer or a tuple of integers, not {shape!r}") from None
    if any(n < 0 for n in found):
        raise ValueError(f"shape {shape!r} has a negative extent")
    return found


def zeros(shape: Shape, dtype: Any = f32, *, device: DeviceLike = None) -> Array:
    """A new array of zeros.

    Parameters
    ----------
    shape
        An integer or a tuple of integers; ``()`` makes a 0-d array, and extents may be 0.
    dtype
        A Tack dtype, its name, a NumPy dtype, or a vector or matrix type such as `tack.vec3`.
    device
        A name or a `tack.Device`; by default the current device.

    Raises
    ------
    ValueError
        If an extent is negative, or the array would have 2**63 bytes or more.
    TypeError
        If `shape` is not made of integers, or `dtype` is no Tack dtype.

    Examples
    --------
    >>> tack.zeros((2, 2), tack.f64).shape
    (2, 2)
    """
    return new_array(_extents(shape), as_element_type(dtype), _resolve(device))


def empty(shape: Shape, dtype: Any = f32, *, device: DeviceLike = None) -> Array:
    """A new array for results; filled with zeros like that of `zeros`, so no program can depend on old memory."""
    return zeros(shape, dtype, device=device)


def ones(shape: Shape, dtype: Any = f32, *, device: DeviceLike = None) -> Array:
    """A new array of ones; the parameters are those of `zeros`."""
    return full(shape, 1, dtype, device=device)


def full(shape: Shape, value: Any, dtype: Any = None, *, device: DeviceLike = None) -> Array:
    """A new array with `value` everywhere, converted as a kernel's cast would.

    Parameters
    ----------
    shape, device
        As for `zeros`.
    value
        A number, or a typed scalar such as ``tack.u8(3)``; of vector or matrix elements also a tuple or array.
    dtype
        By default the type of a typed scalar, else f32.
    """
    if dtype is None:
        dtype = value.dtype if isinstance(value, Scalar) else f32
    result = zeros(shape, dtype, device=device)
    result.fill(value)
    return result


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: DeviceLike = None) -> Array:
    """The numbers from `start` (by default 0) up to, not including, `stop`, in steps of `step`.

    Parameters
    ----------
    start, stop, step
        With one argument, it is `stop`. Integers are exact; floats are computed in binary64 as ``start + k * step``.
    dtype
        By default, for integers the type of a Python integer argument (i32, else i64, else u64, by the values),
        and f32 if any argument is a float. Values convert to it as a kernel's cast would.

    Raises
    ------
    ValueError
        If `step` is zero, or the number of elements is not finite.
    TypeError
        If an argument is not a number, or integers do not fit one 64-bit type.

    Examples
    --------
    >>> tack.arange(1, 7, 2).numpy().tolist()
    [1, 3, 5]
    """
    if stop is None:
        start, stop = 0, start
    first, last, by = (x.value if isinstance(x, Scalar) else x for x in (start, stop, step))
    for x in (first, last, by):
        if not isinstance(x, (int, float, np.integer, np.floating)):
            raise TypeError(f"arange takes numbers, not {type(x).__name__}")
    if by == 0:
        raise ValueError("arange: the step is zero")
    if all(isinstance(x, (int, np.integer)) for x in (first, last, by)):
        values = _integers(range(int(first), int(last), int(by)), dtype)
    else:
        values = _floats(float(first), float(last), float(by))
    wanted = (element_type(values.dtype) if values.dtype.kind != "f" else f32) if dtype is None else as_dtype(dtype)
    return _from_values(values, wanted, _resolve(device))


def _integers(numbers: range, dtype: Any) -> HostArray:
    """A range as an array of the narrowest type of a Python integer that holds all of it."""
    ends = (numbers[0], numbers[-1]) if numbers else (0,)
    if min(ends) < 0 and max(ends) >= 1 << 63:
        raise TypeError(f"arange: {numbers[0]} to {numbers[-1]} do not fit one 64-bit integer type")
    found = max((integer_type_for_value(n) for n in ends), key=lambda t: t.code)
    # Arithmetic modulo 2**64 is exact here, since every value fits the type.
    index = np.arange(_count(numbers), dtype=np.uint64)
    modulus = (1 << 64) - 1
    return (index * np.uint64(numbers.step & modulus) + np.uint64(numbers.start & modulus)).astype(found.numpy)


def _count(numbers: range) -> int:
    try:
        return len(numbers)
    except OverflowError:
        raise ValueError(f"arange: {numbers} has too many elements") from None


def _floats(first: float, last: float, by: float) -> HostArray:
    count = (last - first) / by
    if not math.isfinite(count) or count >= 2.0**60:
        raise ValueError(f"arange: from {first} to {last} in steps of {by} is no finite number of elements")
    return first + np.arange(max(0, math.ceil(count)), dtype=np.float64) * by


def asarray(values: Any, dtype: Any = None, *, device: DeviceLike = None) -> Array:
    """An array of the given values; a copy, but for a Tack array that is already what is asked for.

    Parameters
    ----------
    values
        A NumPy array (strided, read-only or of foreign byte order, too), a Tack array, a number, a typed scalar, nested
        lists or tuples of numbers, a DLPack exporter, or anything that `numpy.asarray` takes.
    dtype
        By default that of the array or scalar. Python numbers become what they are as arguments of a kernel: integers
        i32, else i64, else u64, by the values, and floats f32. Values convert as a kernel's cast would. With a vector
        or matrix type the last axes of `values` are the components.
    device
        By default the device of a Tack array, else the current device.

    Raises
    ------
    TypeError
        If the elements have no Tack dtype (bool, f16, complex, text, ...) and `dtype` does not convert them.
    ValueError
        If nested lists are ragged, or a NaN or an infinity would become an integer.

    Examples
    --------
    >>> tack.asarray([[1, 2], [3, 4]]).dtype
    tack.i32
    """
    wanted = None if dtype is None else as_element_type(dtype)
    if isinstance(values, Array):
        return _from_array(values, wanted or values.dtype, values.device if device is None else as_device(device))
    where = _resolve(device)
    if isinstance(values, Scalar):
        return full((), values, wanted, device=where)
    if isinstance(values, (list, tuple, range, int, float)) and not isinstance(values, (bool, np.generic)):
        if not _holds_arrays(values):
            return _from_numbers(values, wanted, where)
    try:
        refuse_mask(values)
    except TypeError as error:
        raise TypeError(f"asarray takes {error}") from None
    found = _host_values(values)
    if wanted is not None:
        return _from_values(found, wanted, where)
    try:
        return _from_values(found, element_type(found.dtype), where)
    except TypeError as error:
        raise TypeError(f"asarray takes {error}, or say dtype=") from None


def _host_values(values: Any) -> HostArray:
    if hasattr(values, "__dlpack__") and not isinstance(values, np.ndarray):
        with contextlib.suppress(BufferError, RuntimeError):  # strange memory: NumPy may know another way
            return np.from_dlpack(values)
    return np.asarray(values)


def _from_array(source: Array, dtype: DType, device: Device) -> Array:
    if source.device != device or shape_of(source.dtype) != shape_of(dtype):
        return _from_values(np.asarray(source), dtype, device)
    return source if source.dtype == dtype else source.astype(dtype)


def _from_values(values: HostArray, dtype: DType, device: Device) -> Array:
    parts = shape_of(dtype)
    axes = values.ndim - len(parts)
    if axes < 0 or values.shape[axes:] != parts:
        raise ValueError(
            f"elements of {dtype!r} need values of shape (..., {', '.join(map(str, parts))}), not {values.shape}"
        )
    result = new_array(values.shape[:axes], dtype, device)
    result._store(values)
    return result


def _holds_arrays(values: Any) -> bool:
    """Whether a list holds arrays, whose dtype counts, rather than numbers."""
    return isinstance(values, (list, tuple)) and any(
        isinstance(x, (np.ndarray, Array)) or _holds_arrays(x) for x in values
    )


def _from_numbers(values: Any, dtype: DType | None, device: Device) -> Array:
    """Nested lists of numbers, each converted by itself: NumPy would make [2**63, -1] floating."""
    cells = np.array(values, dtype=object)
    numbers = cells.reshape(-1).tolist()
    if any(isinstance(x, (list, tuple)) for x in numbers):
        raise ValueError("the nested lists are ragged: their lengths differ")
    wanted = _common_type(numbers) if dtype is None else dtype
    number = number_type(wanted)
    flat = np.array([convert_value(x, number) for x in numbers], number.numpy)
    return _from_values(flat.reshape(cells.shape), wanted, device)


def _common_type(numbers: list[Any]) -> DType:
    typed = {x.dtype for x in numbers if isinstance(x, Scalar)}
    if typed:
        if len(typed) > 1 or not all(isinstance(x, Scalar) for x in numbers):
            raise TypeError("the list mixes typed scalars with other numbers; say dtype=")
        return typed.pop()
    if any(isinstance(x, (bool, np.bool_)) for x in numbers):
        raise TypeError("a list of bool has no Tack dtype; say dtype=tack.u8 (False is 0, True is 1)")
    if any(isinstance(x, (float, np.floating)) for x in numbers) or not numbers:
        return f32
    for x in numbers:
        if not isinstance(x, (int, np.integer)):
            raise TypeError(f"{type(x).__name__} is not a number that Tack has")
    ends = (int(min(numbers)), int(max(numbers)))
    if ends[0] < 0 and ends[1] >= 1 << 63:
        raise TypeError(f"{ends[0]} and {ends[1]} do not fit one 64-bit integer type; say dtype= (values wrap)")
    return max((integer_type_for_value(n) for n in ends), key=lambda t: t.code)


def _like(model: Array | HostArray, dtype: Any, device: DeviceLike) -> tuple[tuple[int, ...], DType, Device]:
    if not isinstance(model, (Array, np.ndarray)):
        raise TypeError(f"a Tack or NumPy array is needed as the model, not {type(model).__name__}")
    if dtype is not None:
        found = as_element_type(dtype)
    else:
        found = model.dtype if isinstance(model, Array) else element_type(model.dtype)
    where = model.device if device is None and isinstance(model, Array) else _resolve(device)
    return model.shape, found, where


def zeros_like(model: Array | HostArray, dtype: Any = None, *, device: DeviceLike = None) -> Array:
    """A new array of zeros with the shape, and by default the dtype and device, of a Tack or NumPy array."""
    return new_array(*_like(model, dtype, device))


def empty_like(model: Array | HostArray, dtype: Any = None, *, device: DeviceLike = None) -> Array:
    """As `zeros_like`; the array is filled with zeros."""
    return zeros_like(model, dtype, device=device)


def full_like(model: Array | HostArray, value: Any, dtype: Any = None, *, device: DeviceLike = None) -> Array:
    """A new array with `value` everywhere; shape, and by default dtype and device, are those of `model`."""
    result = zeros_like(model, dtype, device=device)
    result.fill(value)
    return result


def copyto(target: Array, source: Any) -> None:
    """Copy all elements of `source` into `target`, converted as a kernel's cast would.

    Parameters
    ----------
    target
        The array to overwrite.
    source
        A Tack array (of any device) or NumPy array of the same shape, or a number. It may overlap `target`.

    Raises
    ------
    ValueError
        If the shapes differ, `target` is read-only, or a NaN or an infinity would become an integer.
    TypeError
        If `target` is not a Tack array, or the elements of `source` are not numbers.
    """
    if not isinstance(target, Array):
        raise TypeError(f"copyto writes to a Tack array, not to {type(target).__name__}; use np.copyto")
    if isinstance(source, (int, float, np.generic, Scalar)):
        return target.fill(source)
    try:
        refuse_mask(source)
    except TypeError as error:
        raise TypeError(f"copyto takes {error}") from None
    wanted = target.shape + shape_of(target.dtype)
    alike = isinstance(source, Array) and source.device == target.device and source.dtype is target.dtype
    values = source if alike else np.asarray(source)
    shape = source.shape + shape_of(source.dtype) if alike else values.shape
    if shape != wanted:
        raise ValueError(f"copyto: the source has shape {shape}, the target {wanted}")
    if alike:
        target._copy_from(source)
    else:
        target._store(values)


def concat(arrays: Sequence[Array], axis: int = 0) -> Array:
    """A new array of several arrays joined along an axis.

    Parameters
    ----------
    arrays
        One or more arrays of one dtype on one device, with equal shapes but for the extent of `axis`.
    axis
        Which axis; negative ones count from the last.

    Raises
    ------
    ValueError
        If there are none, the shapes do not fit, an array is 0-d, or the devices differ.
    TypeError
        If the dtypes differ; convert with `Array.astype` first.

    Examples
    --------
    >>> tack.concat([tack.arange(2), tack.arange(3)]).numpy().tolist()
    [0, 1, 0, 1, 2]
    """
    arrays = list(arrays)
    if not arrays:
        raise ValueError("concat needs at least one array")
    for array in arrays:
        if not isinstance(array, Array):
            raise TypeError(f"concat joins Tack arrays, not {type(array).__name__}; use tack.asarray first")
    first = arrays[0]
    for array in arrays[1:]:
        if array.dtype != first.dtype:
            raise TypeError(
                f"concat: dtypes {first.dtype.name} and {array.dtype.name} differ; use .astype(tack.{first.dtype.name})"
            )
        if array.device != first.device:
            raise ValueError(f"concat: arrays of {first.device.name} and {array.device.name} are on different devices")
    if isinstance(first.dtype, VecType):
        if not -first.ndim <= axis < first.ndim:
            raise ValueError(f"concat: {first.ndim}-d arrays have no axis {axis}")
        axis %= first.ndim  # NumPy would count the components in
    return _from_values(np.concatenate([np.asarray(array) for array in arrays], axis), first.dtype, first.device)


def from_dlpack(exporter: Any, *, device: DeviceLike = None) -> Array:
    """An array on the memory of a DLPack exporter, shared and not copied; read-only if the exporter says so.

    Parameters
    ----------
    exporter
        An object with ``__dlpack__`` and ``__dlpack_device__``: an array of NumPy, PyTorch, JAX, ...
    device
        The Tack device to use the memory on; by default the current device.

    Raises
    ------
    TypeError
        If `exporter` does not offer DLPack, or Tack has no such dtype.
    ValueError
        If its memory is not the device's, or is strided.
    """
    if not hasattr(exporter, "__dlpack__"):
        raise TypeError(f"{type(exporter).__name__} does not offer __dlpack__; use tack.asarray")
    try:
        return wrap_dlpack(exporter, _resolve(device))
    except (TypeError, ValueError) as error:
        raise type(error)(f"from_dlpack takes {error}") from None
