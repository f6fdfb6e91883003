"""The argument block of a call, read by backends that launch from Python."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Final

from tack.lang.records import record
from tack.lang.types import DType
from tack.runtime.backend import BLOCK_WORDS_PER_PARAM

_WORD: Final = 8
_FORMATS = zip("i8 u8 i16 u16 i32 u32 i64 u64 f32 f64".split(), "bBhHiIqQfd", strict=True)
_UNPACK: Final = {name: struct.Struct(f"<{letter}").unpack for name, letter in _FORMATS}
_pack_word = struct.Struct("<q").pack
_unpack_double = struct.Struct("<d").unpack


@record(frozen=True)
class CallArguments:
    """The arguments of one call by position of the user's parameters: addresses, extents, numbers."""

    addresses: Sequence[int]
    shapes: Sequence[tuple[int, ...]]
    scalars: Sequence[int | float]


def read_arguments(block: int, arguments: Sequence[DType | int]) -> CallArguments:
    """What the block at this address holds; `arguments` as in `LaunchPlan`: a scalar's dtype, an array's rank."""
    words = (ctypes.c_int64 * (BLOCK_WORDS_PER_PARAM * len(arguments))).from_address(block)
    addresses: list[int] = []
    shapes: list[tuple[int, ...]] = []
    scalars: list[int | float] = []
    for position, kind in enumerate(arguments):
        first = words[BLOCK_WORDS_PER_PARAM * position]
        if isinstance(kind, int):
            extents = words[BLOCK_WORDS_PER_PARAM * position + 2]
            shapes.append(tuple((ctypes.c_int64 * kind).from_address(extents)))
            addresses.append(first)
            scalars.append(0)
        else:
            shapes.append(())
            addresses.append(0)
            scalars.append(decode_word(first, kind))
    return CallArguments(addresses, shapes, scalars)


def decode_word(word: int, dtype: DType) -> int | float:
    """The number in a word of the argument block."""
    if dtype.is_float:
        return float(_unpack_double(_pack_word(word))[0])
    return word & (1 << dtype.bits) - 1 if not dtype.is_signed else word


def store_result(block: int, params: int, found: bytes, dtype: DType) -> None:
    """Write a kernel's result, the bytes of its dtype, into the block's last word."""
    (value,) = _UNPACK[dtype.name](found)
    word = block + _WORD * BLOCK_WORDS_PER_PARAM * params
    (ctypes.c_double if dtype.is_float else ctypes.c_int64).from_address(word).value = value
