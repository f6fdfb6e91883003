"""What the LLVM generator is made of: values, the text of a function and of a module."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from tack.lang.records import field, record
from tack.lang.shapes import UNIFORM, Shape
from tack.lang.types import DType, f64, int_to_float, round_float

BIT: Final = DType("bit", 0, "u", 1, np.dtype(bool))
"""A condition while it is computed: an i1, of no type of the language."""

PURE: Final = "nounwind willreturn memory(none)"
MATH_LIBRARY: Final = frozenset(
    "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p pow atan2 fmod fma roundeven "
    "floor ceil trunc sincos ldexp exp10 sqrt cbrt fmin fmax copysign".split()
)
"""Functions of the C mathematics library that generated code may come to need; f32 names end in ``f``. Some are never
written here: LLVM makes them of others (`sincos` of `sin` and `cos`, `ldexp` of `exp2` of an integer)."""


@record(frozen=True)
class Value:
    """A value in generated code: its SSA name or literal, its type, and its shape over the lanes of a block.

    `ssa` is a vector if the shape is `VARYING`, else a scalar: of a linear value that of the first lane.
    """

    ssa: str
    dtype: DType
    shape: Shape = UNIFORM


@record(frozen=True)
class ArrayStorage:
    """Where an array lives: pointer, element type, one i64 extent a dimension, and the alignment that is promised.

    Where each of several lanes has its own array, `interleaved` is how many: element k of lane l is at k * lanes + l.
    """

    pointer: str
    dtype: DType
    extents: tuple[str, ...]
    align: int
    interleaved: int = 1


def llvm_type(dtype: DType) -> str:
    """The LLVM type that holds a Tack type; signedness is not part of it."""
    if dtype.is_float:
        return "double" if dtype is f64 else "float"
    return f"i{dtype.bits}"


def suffix(dtype: DType) -> str:
    """The type's part of the name of an intrinsic: ``f32``, ``i8``."""
    return dtype.name if dtype.is_float else f"i{dtype.bits}"


def literal(value: int | float, dtype: DType) -> str:
    """A number as LLVM text; floats as the bits of a double that is exact at the type, rounded here once."""
    if dtype.is_integer:
        return str(int(value))
    real = int_to_float(value, dtype) if isinstance(value, int) else round_float(float(value), dtype)
    (bits,) = struct.unpack("<Q", struct.pack("<d", real))
    return f"0x{bits:016X}"


def from_literal(text: str) -> float:
    """The number of a floating literal."""
    number: float = struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
    return number


def mangle(name: str) -> str:
    """Any symbol as an LLVM name, one to one. A long one ends in a hash, since LLVM cuts names."""
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.") else f"${ord(c):x}$" for c in name)
    if len(text) <= 200:
        return text
    import hashlib  # loads OpenSSL, which takes milliseconds

    return f"{text[:150]}$.{hashlib.sha256(text.encode()).hexdigest()}"


@record
class FunctionText:
    """One function while it is written: a list of lines, and entry-block slots apart from them."""

    slots: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    block: str = "entry"
    terminated: bool = False
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def emit(self, text: str) -> str:
        """An instruction with a result; its name."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def slot(self, llvm: str, name: str | None = None, zero: bool = True) -> str:
        """Storage in the entry block, zero unless said otherwise; SROA makes registers of it."""
        name = name or self.name()
        self.slots.append(f"  {name} = alloca {llvm}")
        if zero:
            self.slots.append(f"  store {llvm} zeroinitializer, ptr {name}")
        return name

    def open(self, label: str) -> None:
        self.lines.append(label + ":")
        self.block, self.terminated = label, False

    def close(self, text: str) -> None:
        """End the block with a terminator, unless it has ended."""
        if not self.terminated:
            self.do(text)
            self.terminated = True

    def br(self, label: str) -> None:
        self.close(f"br label %{label}")

    def cond_br(self, cond: str, yes: str, no: str) -> None:
        self.close(f"br i1 {cond}, label %{yes}, label %{no}")

    def text(self, header: str) -> str:
        return "\n".join([header + " {", "entry:", *self.slots, *self.lines, "}", ""])


@record
class ModuleText:
    """Declarations, globals and functions of a module, each once, in order."""

    declarations: dict[str, str] = field(default_factory=dict)
    globals: list[str] = field(default_factory=list)
    helpers: dict[str, str] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def declare(self, result: str, name: str, arguments: list[str], attributes: str = "") -> str:
        """Declare an outside function; its name with the sigil."""
        self.declarations.setdefault(name, f"declare {result} @{name}({', '.join(arguments)}) {attributes}".rstrip())
        return f"@{name}"

    def text(self) -> str:
        parts = [*self.declarations.values(), "", *self.globals, "", *self.helpers.values(), *self.functions]
        return "\n".join(parts) + "\n"
