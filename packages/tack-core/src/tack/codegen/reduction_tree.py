"""The combiner that block reductions and whole-array reductions share in the C dialects (rules RED-*, GRP-10)."""

from __future__ import annotations

import math
from typing import ClassVar, Final, Protocol

from tack.codegen.c_dialect import CModule, Dialect
from tack.codegen.integer_ops import IntegerCodeGen
from tack.lang.types import DType, f32, f64

IDENTITY: Final = {"sum": 0.0, "min": math.inf, "max": -math.inf}
_QUIET_NAN: Final = {f32: "0x7fc00000u", f64: "0x7ff8000000000000U{long}"}


class Combining(Protocol):
    """What a combination needs of a generator."""

    dialect: ClassVar[Dialect]
    module: CModule
    integers: IntegerCodeGen


def identity(op: str, dtype: DType) -> int | float:
    """What a combination with it leaves as it is."""
    if dtype.is_float or op == "sum":
        return IDENTITY[op]
    return dtype.max if op == "min" else dtype.min


def combined(gen: Combining, op: str, a: str, b: str, dtype: DType = f32) -> str:
    """The combination of two texts, which are evaluated once: a sum, or a call of the extremum's helper."""
    if dtype.is_integer:
        return gen.integers.binary("+", dtype, a, b) if op == "sum" else gen.integers.extremum(op, dtype, a, b)
    if op == "sum":
        return f"{a} + {b}"
    name, text = extremum_combiner(gen.dialect, op, dtype)
    gen.module.helpers.setdefault(name, text)
    return f"{name}({a}, {b})"


def extremum_combiner(dialect: Dialect, op: str, dtype: DType = f32) -> tuple[str, str]:
    """Name and text of the function that combines two floats into their "min" or "max".

    Of two zeros, OR-ing the bits keeps a minus sign and AND-ing them drops it.
    """
    t, name = dialect.type(dtype), f"tack_reduce_{op}_{dtype.name}"
    to_bits, from_bits = dialect.float_to_bits[dtype.bits], dialect.float_from_bits[dtype.bits]
    bits = f" {'|' if op == 'min' else '&'} ".join(to_bits.format(x) for x in "ab")
    nan, zero = _QUIET_NAN[dtype].format(long=dialect.long_suffix), dialect.literal(0, dtype)
    return name, (
        f"{dialect.function} {t} {name}({t} a, {t} b) {{\n"
        f"    if (a != a || b != b) return {from_bits.format(nan)};\n"
        f"    if (a == {zero} && b == {zero}) return {from_bits.format(bits)};\n"
        f"    return a {'<' if op == 'min' else '>'} b ? a : b;\n"
        f"}}\n"
    )
