"""How a C dialect spells what all of them have: types, qualifiers, literals, bits; and the text of a module."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from tack.lang.records import field, record
from tack.lang.types import DType, f32, i32, i64, int_to_float, round_float

CUDA_TYPES: Mapping[str, str] = {
    "i8": "signed char",
    "u8": "unsigned char",
    "i16": "short",
    "u16": "unsigned short",
    "i32": "int",
    "u32": "unsigned int",
    "i64": "long long",
    "u64": "unsigned long long",
    "f32": "float",
    "f64": "double",
}
OPENCL_TYPES: Mapping[str, str] = {
    "i8": "char",
    "u8": "uchar",
    "i16": "short",
    "u16": "ushort",
    "i32": "int",
    "u32": "uint",
    "i64": "long",
    "u64": "ulong",
    "f32": "float",
    "f64": "double",
}


@record(frozen=True)
class Dialect:
    """The words of a dialect.

    `device` is the device's name in errors. `spaces` are the qualifiers of pointers by address space ("global",
    "private", "shared", "constant"), with a trailing blank where there is one. `float_from_bits` and `float_to_bits`
    reinterpret, by width. `bitcast` reinterprets a u{N} as an i{N}, where the dialect defines that (`{type}`, `{}`).
    `image` is the type of a volume that the device filters, and `image_sample` its value at a point (`{image}`, `{x}`,
    `{y}`, `{z}`), in texels. `shuffle_down` is the `{value}` of the lane `{by}` lanes further on, in the first 32 lanes
    of a workgroup, where all of them ask.

    `variable`, `fence` and `ticket` go together, where a workgroup may read what others of its launch have stored:
    what starts a variable of the module (zero at first, aligned for wide accesses); what makes stores before it
    visible to the whole device before those after it; and how many have come to a `u32` at `{place}`, which begins
    again after `{last}`.
    """

    device: str
    types: Mapping[str, str]
    long_suffix: str
    function: str
    noinline: str
    kernel: str
    spaces: Mapping[str, str]
    table: str
    shared: str
    restrict: str
    barrier: str
    lane: str
    group: str
    float_from_bits: Mapping[int, str]
    float_to_bits: Mapping[int, str]
    bitcast: str = ""
    image: str = ""
    image_sample: str = ""
    shuffle_down: str = ""
    variable: str = ""
    fence: str = ""
    ticket: str = ""

    def type(self, dtype: DType) -> str:
        return self.types[dtype.name]

    def unsigned(self, bits: int) -> str:
        return self.types[f"u{bits}"]

    def literal(self, value: int | float, dtype: DType) -> str:
        """A number, exactly: integers with a suffix, floats with digits that round-trip, NaN and infinities by bits."""
        if dtype.is_integer:
            return self._integer(int(value), dtype)
        real = int_to_float(value, dtype) if isinstance(value, int) else round_float(float(value), dtype)
        if not math.isfinite(real):
            return self._bits(real, dtype)
        text = repr(real) + ("f" if dtype is f32 else "")
        return f"({text})" if text.startswith("-") else text

    def _integer(self, value: int, dtype: DType) -> str:
        suffix = "" if dtype.is_signed else "u"
        if dtype.bits == i64.bits:
            suffix = suffix.upper() + self.long_suffix
        if value >= 0:
            return f"{value}{suffix}"
        if value in (i32.min, i64.min):  # the magnitude has no literal of this type
            return f"({value + 1}{suffix} - 1)"
        return f"({value}{suffix})"

    def _bits(self, real: float, dtype: DType) -> str:
        if dtype is f32:
            (pattern,) = struct.unpack("<I", struct.pack("<f", real))
            return self.float_from_bits[dtype.bits].format(f"0x{pattern:08x}u")
        (pattern,) = struct.unpack("<Q", struct.pack("<d", real))
        return self.float_from_bits[dtype.bits].format(f"0x{pattern:016x}U{self.long_suffix}")


def mangle(name: str) -> str:
    """Any symbol as letters, digits and underscores, one to one: `Z` is ``ZZ``, what C lacks is ``Z<code>Z``."""
    if name.isascii() and name.isidentifier() and "Z" not in name:
        return name
    return "".join(map(_mangle, name))


def _mangle(character: str) -> str:
    if character.isascii() and (character.isalnum() or character == "_"):
        return "ZZ" if character == "Z" else character
    return f"Z{ord(character):x}Z"


@record
class BodyText:
    """The lines of one C function while they are written, and its temporaries."""

    lines: list[str] = field(default_factory=list)
    level: int = 1
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def do(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    def open(self, text: str) -> None:
        self.do(text + " {")
        self.level += 1

    def close(self) -> None:
        self.level -= 1
        self.do("}")

    def otherwise(self) -> None:
        self.level -= 1
        self.do("} else {")
        self.level += 1

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


@record
class CModule:
    """Parts of a translation unit, in order; `helpers` by name, each after what it calls."""

    preamble: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def text(self) -> str:
        parts = ["\n".join(self.preamble), *self.declarations.values(), *self.helpers.values(), *self.functions]
        return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)
