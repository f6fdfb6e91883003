"""The combiner that block reductions and whole-array reductions share in the C dialects (rules RED-*, GRP-10)."""

from __future__ import annotations

import math
from typing import ClassVar, Final, Protocol

from tack.codegen.c_dialect import CModule, Dialect
from tack.lang.types import f32

IDENTITY: Final = {"sum": 0.0, "min": math.inf, "max": -math.inf}
_QUIET_NAN: Final = "0x7fc00000u"


class Combining(Protocol):
    """What a combination needs of a generator."""

    dialect: ClassVar[Dialect]
    module: CModule


def combined(gen: Combining, op: str, a: str, b: str) -> str:
    """The combination of two texts, which are evaluated once: a sum, or a call of the extremum's helper."""
    if op == "sum":
        return f"{a} + {b}"
    name, text = extremum_combiner(gen.dialect, op)
    gen.module.helpers.setdefault(name, text)
    return f"{name}({a}, {b})"


def extremum_combiner(dialect: Dialect, op: str) -> tuple[str, str]:
    """Name and text of the function that combines two values into their "min" or "max".

    Of two zeros, OR-ing the bits keeps a minus sign and AND-ing them drops it.
    """
    t, name = dialect.type(f32), f"tack_reduce_{op}_f32"
    bits = f" {'|' if op == 'min' else '&'} ".join(dialect.float_to_bits[f32.bits].format(x) for x in "ab")
    return name, (
        f"{dialect.function} {t} {name}({t} a, {t} b) {{\n"
        f"    if (a != a || b != b) return {dialect.float_from_bits[f32.bits].format(_QUIET_NAN)};\n"
        f"    if (a == 0.0f && b == 0.0f) return {dialect.float_from_bits[f32.bits].format(bits)};\n"
        f"    return a {'<' if op == 'min' else '>'} b ? a : b;\n"
        f"}}\n"
    )
