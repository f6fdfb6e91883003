"""Sorting by radix: one pass a digit, from the lowest to the highest, each keeping the order that the last one made.

A pass counts the digits of each part of the keys, scans the counts, digit by digit and in each digit part by part, to
find where the part's keys of that digit begin, and moves every key there. Parts are independent, so they run at once.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tack.algorithms.arguments import checked, overlap, viewed_as
from tack.algorithms.scan import exclusive_scan
from tack.lang import types
from tack.lang.array import Array, new_array
from tack.lang.host_cast import HostArray
from tack.lang.intrinsics import PUBLIC
from tack.lang.kernel import Kernel, kernel
from tack.lang.records import record
from tack.lang.types import BY_NAME, DType

local = PUBLIC["local"]
i32: Any = types.i32  # to a type checker its calls give host scalars, which have no operators
i64 = types.i64


@record(frozen=True)
class _Plan:
    """How a device sorts.

    Attributes
    ----------
    digit_bits
        The most bits of a digit: each iteration has a table with an entry for each digit.
    parts, part_size
        The most parts, and the least number of keys in one.
    numpy_below
        NumPy sorts fewer keys than this, in host memory: less time than it takes to start the kernels.
    """

    digit_bits: int
    parts: int
    part_size: int
    numpy_below: int = 0


# A table of 2048 counts fits the innermost cache of a processor, and 32 bits take three passes, not four.
_FEW_THREADS = _Plan(digit_bits=11, parts=64, part_size=1 << 16, numpy_below=1 << 14)
_MANY_THREADS = _Plan(digit_bits=4, parts=1 << 14, part_size=64)


@functools.cache
def _pass_kernels(position: DType, digits: int) -> tuple[Kernel, Kernel]:
    """The kernels that count and that move, for positions of a type and tables of a size."""

    # `flip` turns the order of the digits with a sign bit into that of unsigned ones.
    @kernel
    def count(keys: Any, counts: Any, parts: i64, shift: Any, last: Any, flip: Any) -> None:  # type: ignore[valid-type]
        for part in range(parts):
            mine = local(digits, position)
            for digit in range(last + 1):
                mine[digit] = 0
            for i in range(keys.size * part // parts, keys.size * (part + 1) // parts):
                mine[(i32(keys[i] >> shift) & last) ^ flip] += 1
            for digit in range(last + 1):
                counts[digit * parts + part] = mine[digit]

    @kernel
    def move(keys: Any, out: Any, starts: Any, parts: i64, shift: Any, last: Any, flip: Any) -> None:  # type: ignore[valid-type]
        for part in range(parts):
            place = local(digits, position)
            for digit in range(last + 1):
                place[digit] = starts[digit * parts + part]
            for i in range(keys.size * part // parts, keys.size * (part + 1) // parts):
                key = keys[i]
                digit_of_key = (i32(key >> shift) & last) ^ flip
                out[place[digit_of_key]] = key
                place[digit_of_key] += 1

    return count, move


# The bits of floats, as unsigned keys in the order of the numbers. NaN comes last, whatever its sign bit.


@kernel
def _order_floats(bits: Any, keys: Any, sign: Any, infinity: Any) -> None:
    for i in range(keys.size):
        x = bits[i]
        if (x & ~sign) > infinity:
            x = x & ~sign
        keys[i] = ~x if x & sign else x | sign


@kernel
def _restore_floats(keys: Any, bits: Any, sign: Any) -> None:
    for i in range(keys.size):
        x = keys[i]
        bits[i] = x & ~sign if x & sign else ~x


_INFINITY = {32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}


def sort(values: Any, out: Array | None = None) -> Array:
    """The elements in ascending order.

    Floats are in the order of their numbers: -0.0 before 0.0, and NaN last, as in NumPy. A NaN may lose its sign bit.

    Parameters
    ----------
    values : array of shape (n,), any dtype
        A Tack array, or what `tack.asarray` takes.
    out : tack.Array of shape (n,), optional
        Where the result goes, of the same dtype and device; may be `values` itself, or overlap it. A new array if None.

    Returns
    -------
    tack.Array of shape (n,)
        `out`, of the dtype of the values.

    Raises
    ------
    TypeError
        If the elements are vectors or matrices, or `out` has another dtype.
    ValueError
        If the values are not one-dimensional, or `out` has another length or device, or is read-only.

    Examples
    --------
    >>> tack.algorithms.sort(tack.asarray([3, -1, 4, 1])).numpy().tolist()
    [-1, 1, 3, 4]
    """
    source, target = checked("sort", values, out)
    plan = _FEW_THREADS if source.device.supports("serial_workgroups") else _MANY_THREADS
    if source.size < plan.numpy_below and source.device.supports("host_memory"):
        _sort_few(np.asarray(source), np.asarray(target))
    elif source.size:
        with source.device:
            _sort(plan, source, target)
    return target


def _sort_few(source: HostArray, target: HostArray) -> None:
    is_float = source.dtype.kind == "f"
    # Zeros are equal to NumPy: they come in any order, and may lose their signs.
    negative = np.count_nonzero(np.signbit(source[source == 0])) if is_float else 0
    # NumPy has a radix sort for narrow integers only, and calls it the stable one.
    target[...] = np.sort(source, kind="stable" if source.itemsize <= 2 else None)
    if is_float:
        first, end = (int(np.searchsorted(target, target.dtype.type(0), side)) for side in ("left", "right"))
        target[first : first + negative], target[first + negative : end] = -0.0, 0.0


def _sort(plan: _Plan, source: Array, target: Array) -> None:
    dtype = source.dtype
    unsigned = BY_NAME[f"u{dtype.bits}"]
    sign = unsigned(1 << (dtype.bits - 1))
    passes = -(-dtype.bits // plan.digit_bits)
    spare = new_array(source.shape, unsigned, source.device)
    keys, result = viewed_as(source, unsigned), viewed_as(target, unsigned)
    if dtype.is_float:
        ordered = spare if passes % 2 else result
        _order_floats(keys, ordered, sign, unsigned(_INFINITY[dtype.bits]))
        keys = ordered
    # Passes write into the one and the other in turn; if none is left out, the last one into the result.
    to = result if passes % 2 and not overlap(keys, result) else spare
    has_sign = dtype.is_integer and dtype.is_signed
    bits = -(-dtype.bits // passes)
    for k in range(passes):
        flip = (1 << (dtype.bits - 1)) >> k * bits if has_sign and k == passes - 1 else 0
        if _pass(plan, keys, to, k * bits, bits, flip):
            keys, to = to, spare if to is result else result
    if dtype.is_float:
        _restore_floats(keys, result, sign)
    elif keys is not result:
        result.device.backend.copy(result._data, keys._data, result.nbytes)


def _pass(plan: _Plan, keys: Array, out: Array, shift: int, bits: int, flip: int) -> bool:
    """Move keys to where their digit of `bits` bits from `shift` on puts them; False if all stay where they are."""
    position = i32 if keys.size < 1 << 31 else i64
    count, move = _pass_kernels(position, 1 << plan.digit_bits)
    parts = max(1, min(plan.parts, keys.size // plan.part_size))
    counts = new_array((parts << bits,), position, keys.device)
    last = (1 << bits) - 1
    count(keys, counts, parts, shift, last, flip)
    if keys.device.supports("host_memory"):  # elsewhere the host would have to wait
        digit = (keys[0] >> shift & last) ^ flip
        if int(np.asarray(counts)[digit * parts : (digit + 1) * parts].sum()) == keys.size:
            return False
    move(keys, out, exclusive_scan(counts, counts), parts, shift, last, flip)
    return True
