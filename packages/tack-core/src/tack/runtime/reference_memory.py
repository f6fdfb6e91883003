"""What the reference device computes on: arrays by address, frames of locals, and the argument block."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, MutableSequence
from typing import Any

from tack.lang import exact
from tack.lang.diagnostics import Loc
from tack.lang.ir import IRFunction, IRKernel, IRTable
from tack.lang.records import field, record
from tack.lang.types import ArrayType, DType, f32, int_to_float
from tack.runtime.backend import BLOCK_WORDS_PER_PARAM

Number = int | float

# struct and memoryview formats of the element types.
_FORMATS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
_FORMATS |= {"f32": "f", "f64": "d"}


@record
class ArrayView:
    """An array of any address space: `cells` holds Python numbers by flat index, and is foreign memory for arguments.

    A cell of a local array that was never stored holds None.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    cells: MutableSequence[Any] | memoryview[Any] | tuple[Number, ...]
    components: int = 1  # numbers of an element: vector elements are addressed by number, with one flat index
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def offset(self, index: list[int]) -> int | None:
        """The flat position of an index (one a dimension, or one flat one), or None if it is out of range."""
        if len(index) == 1:
            flat = index[0]
            limit = self.size * self.components
            return flat if 0 <= flat < limit else None
        flat = 0
        for i, extent in zip(index, self.shape, strict=True):
            if not 0 <= i < extent:
                return None
            flat = flat * extent + i
        return flat


@record
class Frame:
    """One activation: an iteration, a device function, or the kernel outside its loops. `locals` has the user's names.

    `point` is the iteration's index by loop variable, `call_site` where the caller called.
    """

    function: IRFunction
    locals: dict[str, Number]
    arrays: dict[str, ArrayView]
    caller: Frame | None = None
    call_site: Loc | None = None
    point: dict[str, int] = field(default_factory=dict)
    results: tuple[Number, ...] = ()

    def stack(self) -> Iterator[Frame]:
        """The frame and its callers, innermost first."""
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.caller


def bits_of(dtype: DType, value: Number) -> bytes:
    """The memory image of a number; what a compare-and-swap compares."""
    return struct.pack(_FORMATS[dtype.name], value)


def table_views(function: IRFunction) -> dict[str, ArrayView]:
    """The captured tables of a function, by name."""
    return {name: _table_view(table) for name, table in function.tables.items()}


def _table_view(table: IRTable) -> ArrayView:
    dtype = table.dtype
    assert dtype is not None, f"table {table.name} has no type"
    return ArrayView(table.name, dtype, table.shape, tuple(constant(dtype, v) for v in table.values))


def constant(dtype: DType, value: Number) -> Number:
    """The value of a constant of the IR at its type: a float constant holds the Python value, rounded here, once."""
    if dtype.is_integer:
        return value
    return exact.round_to(dtype, value) if isinstance(value, float) else int_to_float(value, dtype)


def decode_block(kernel: IRKernel, address: int) -> Frame:
    """The kernel's outermost frame: parameters by name, from the argument block at `address`."""
    words = (ctypes.c_int64 * (BLOCK_WORDS_PER_PARAM * len(kernel.params) + 1)).from_address(address)
    frame = Frame(kernel, {}, table_views(kernel))
    for number, param in enumerate(kernel.params):
        first, nbytes, extents = words[BLOCK_WORDS_PER_PARAM * number : BLOCK_WORDS_PER_PARAM * (number + 1)]
        if isinstance(param.type, ArrayType):
            shape = tuple((ctypes.c_int64 * param.type.ndim).from_address(extents)) if param.type.ndim else ()
            frame.arrays[param.name] = _global_view(param.name, param.type, shape, first, nbytes)
        else:
            assert param.type is not None, f"parameter {param.name} has no type"
            frame.locals[param.name] = _decode_scalar(param.type, first)
    return frame


def _global_view(name: str, type_: ArrayType, shape: tuple[int, ...], address: int, nbytes: int) -> ArrayView:
    dtype, components = type_.dtype, math.prod(type_.components)
    size = math.prod(shape) * components
    assert size * dtype.itemsize <= nbytes, f"array {name}: {shape} of {dtype} in {nbytes} bytes"
    if size == 0:
        return ArrayView(name, dtype, shape, (), components)
    memory = memoryview((ctypes.c_char * (size * dtype.itemsize)).from_address(address))
    cells: memoryview[Any] = memory.cast("B").cast(_FORMATS[dtype.name])  # type: ignore[call-overload]
    return ArrayView(name, dtype, shape, cells, components)


def _decode_scalar(dtype: DType, word: int) -> Number:
    if dtype.is_integer:
        return dtype.wrap(word)
    value = float(struct.unpack("<d", struct.pack("<q", word))[0])
    return exact.round_to(dtype, value) if dtype is f32 else value


def store_result(kernel: IRKernel, address: int, value: Number) -> None:
    """Write the kernel's trailing result into the last word of the argument block."""
    position = address + 8 * BLOCK_WORDS_PER_PARAM * len(kernel.params)
    word = ctypes.c_int64.from_address(position)
    if kernel.results[0].is_float:
        (word.value,) = struct.unpack("<q", struct.pack("<d", value))
    else:
        word.value = int(value)
