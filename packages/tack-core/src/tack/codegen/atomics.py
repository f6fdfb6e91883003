"""Atomic operations of the C dialects: native where a dialect has them, else a loop of compare-and-swap (rules ATOM-*).

Each operation at a type is one helper, ``T __tack_atomic_<op>_<type>__(pointer, value)``, that gives the old value.
Where pointers into shared memory are of another type, there is one more for shared arrays.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import ClassVar, Protocol

from tack.codegen.c_dialect import Dialect
from tack.codegen.integer_ops import IntegerCodeGen
from tack.lang.types import DType

_EXTREMA = ("min", "max")


class AtomicPrimitives(Protocol):
    """What a dialect's generator says of its atomics."""

    dialect: ClassVar[Dialect]
    integers: IntegerCodeGen

    def native_atomic(self, op: str, dtype: DType, space: str) -> str | None:
        """An expression in `p` and `v` (`e` and `d` for "cas") that gives the old value; None: it has none."""

    def atomic_load(self, bits: int, space: str) -> str:
        """An expression that reads the pattern at `q`, a pointer to u{bits}."""

    def compare_and_swap(self, bits: int, space: str) -> str:
        """An expression on `q`, `old` and `next`, patterns of a width; the pattern that it found."""

    def combine(self, op: str, dtype: DType, a: str, b: str) -> str:
        """The value that an operation leaves, from the old value and the operand."""


def atomic_helper(
    gen: AtomicPrimitives, helpers: MutableMapping[str, str], op: str, dtype: DType, space: str = "global"
) -> str:
    """The name of the helper of an atomic operation in an address space, emitted if it is not there yet."""
    name = f"__tack_atomic_{op}_{dtype.name}{suffix_of(gen.dialect, space)}__"
    if name not in helpers:
        native = gen.native_atomic(op, dtype, space)
        if native is None and op == "cas":
            body = _swap_patterns(gen, dtype, space)
        elif native is None:
            combined = gen.combine(op, dtype, "x", "v")
            body = cas_loop(gen, dtype, combined, always_changes=op not in _EXTREMA, space=space)
        else:
            body = f"    return {native};\n"
        t, qualifier = gen.dialect.type(dtype), gen.dialect.spaces[space]
        formals = f"{t} e, {t} d" if op == "cas" else f"{t} v"
        helpers[name] = f"{gen.dialect.function} {t} {name}({qualifier}{t}* p, {formals}) {{\n{body}}}\n"
    return name


def suffix_of(dialect: Dialect, space: str) -> str:
    """What the names of helpers have at their end, by the address space of their pointers."""
    return "" if dialect.spaces[space] == dialect.spaces["global"] else f"_{space}"


def to_pattern(gen: AtomicPrimitives, dtype: DType, text: str) -> str:
    """A value as the unsigned pattern of its bits."""
    if dtype.is_float:
        return gen.dialect.float_to_bits[dtype.bits].format(text)
    return f"(({gen.dialect.unsigned(dtype.bits)})({text}))"


def from_pattern(gen: AtomicPrimitives, dtype: DType, text: str) -> str:
    """The value that an unsigned pattern stands for."""
    if dtype.is_float:
        return gen.dialect.float_from_bits[dtype.bits].format(text)
    return gen.integers.read_bits(dtype, text)


def _pointer(gen: AtomicPrimitives, dtype: DType, space: str) -> str:
    unsigned = f"volatile {gen.dialect.spaces[space]}{gen.dialect.unsigned(dtype.bits)}*"
    return f"    {unsigned} q = ({unsigned})p;\n"


def _swap_patterns(gen: AtomicPrimitives, dtype: DType, space: str) -> str:
    """Compare-and-swap of a type through the pattern of its bits."""
    unsigned = gen.dialect.unsigned(dtype.bits)
    return (
        _pointer(gen, dtype, space)
        + f"    const {unsigned} old = {to_pattern(gen, dtype, 'e')};\n"
        + f"    const {unsigned} next = {to_pattern(gen, dtype, 'd')};\n"
        + f"    return {from_pattern(gen, dtype, gen.compare_and_swap(dtype.bits, space))};\n"
    )


def cas_loop(gen: AtomicPrimitives, dtype: DType, combined: str, *, always_changes: bool, space: str = "global") -> str:
    """The body of a helper that tries until no other thread came between; returns the old value.

    `combined` is the new value, from `x`, the old one, and `v`. An extremum may leave the cell as it is, which needs no
    write; sums say that they always change it.
    """
    t, unsigned = gen.dialect.type(dtype), gen.dialect.unsigned(dtype.bits)
    enough = "" if always_changes else "        if (next == old) return x;\n"
    return (
        _pointer(gen, dtype, space)
        + f"    {unsigned} old = {gen.atomic_load(dtype.bits, space)};\n"
        + "    for (;;) {\n"
        + f"        const {t} x = {from_pattern(gen, dtype, 'old')};\n"
        + f"        const {unsigned} next = {to_pattern(gen, dtype, combined)};\n"
        + enough
        + f"        const {unsigned} seen = {gen.compare_and_swap(dtype.bits, space)};\n"
        + "        if (seen == old) return x;\n"
        + "        old = seen;\n"
        + "    }\n"
    )
