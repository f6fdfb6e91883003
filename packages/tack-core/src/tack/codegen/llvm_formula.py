"""Formulas in binary64 as LLVM code: for a scalar, or for each lane of a vector with the same operations.

`Real`, `Word` and `Flag` are a number, its 64 bits and a condition in a function that a `Formula` writes. Every
operation rounds once and none may be regrouped, so that a value has the same bits whatever vector it is computed in.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final

from tack.codegen.llvm_values import PURE, FunctionText, ModuleText, literal
from tack.lang.records import record
from tack.lang.types import f64

_SHIFT: Final = 1.5 * 2.0**52
"""Added to a number, it leaves the nearest whole number in the low bits of the sum."""
_BIAS: Final = 1023


class Formula:
    """One function while it is written.

    Parameters
    ----------
    module
        Where outside functions are declared.
    lanes
        The size of its vectors; 0 for scalars.
    short
        Whether the result is rounded to binary32, so that less than the precision of binary64 does.
    """

    def __init__(self, module: ModuleText, lanes: int, short: bool) -> None:
        self.module, self.lanes, self.short = module, lanes, short
        self.f = FunctionText()

    def type(self, scalar: str) -> str:
        return f"<{self.lanes} x {scalar}>" if self.lanes else scalar

    def _constant(self, scalar: str, text: str) -> str:
        return f"splat ({scalar} {text})" if self.lanes else text

    def real(self, value: Real | float) -> Real:
        return value if isinstance(value, Real) else Real(self, self._constant("double", literal(value, f64)))

    def word(self, value: Word | int) -> Word:
        return value if isinstance(value, Word) else Word(self, self._constant("i64", str(value)))

    def emit_real(self, operation: str, *operands: Real | float) -> Real:
        values = ", ".join(self.real(x).ssa for x in operands)
        return Real(self, self.f.emit(f"{operation} {self.type('double')} {values}"))

    def emit_word(self, operation: str, *operands: Word | int) -> Word:
        values = ", ".join(self.word(x).ssa for x in operands)
        return Word(self, self.f.emit(f"{operation} {self.type('i64')} {values}"))

    def intrinsic(self, name: str, *operands: Real | float) -> Real:
        t = self.type("double")
        callee = self.module.declare(t, f"llvm.{name}.{f'v{self.lanes}' if self.lanes else ''}f64", [t] * len(operands))
        arguments = ", ".join(f"{t} {self.real(x).ssa}" for x in operands)
        return Real(self, self.f.emit(f"call {t} {callee}({arguments})"))

    def fma(self, a: Real | float, b: Real | float, c: Real | float) -> Real:
        """``a * b + c``, rounded once."""
        return self.intrinsic("fma", a, b, c)

    def select(self, condition: Flag, then: Real | float, other: Real | float) -> Real:
        t = self.type("double")
        arms = f"{t} {self.real(then).ssa}, {t} {self.real(other).ssa}"
        return Real(self, self.f.emit(f"select {self.type('i1')} {condition.ssa}, {arms}"))

    def polynomial(self, x: Real, coefficients: Sequence[float]) -> Real:
        """A polynomial, its lowest coefficient first: pairs of terms, then Horner's rule in ``x * x``, which is half as
        deep as Horner's rule alone."""
        pairs: list[Real | float] = [
            self.fma(coefficients[k + 1], x, coefficients[k]) if k + 1 < len(coefficients) else coefficients[k]
            for k in range(0, len(coefficients), 2)
        ]
        square, result = x * x, pairs[-1]
        for pair in reversed(pairs[:-1]):
            result = self.fma(result, square, pair)
        return self.real(result)

    def nearest(self, x: Real | float, factor: Real | float = 1.0) -> tuple[Real, Word]:
        """The whole number nearest to ``x * factor``, which is below 2**51; and a word whose low bits it is."""
        shifted = self.fma(x, factor, _SHIFT)
        return shifted - _SHIFT, shifted.word

    @staticmethod
    def power_of_two(number: Word) -> Real:
        """2 to a whole number, within the exponents of normal numbers, in the low bits of a word."""
        return ((number + _BIAS) << 52).real

    def scaled(self, x: Real, exponent: Real, less: float = 0.0) -> Real:
        """``x * 2**(exponent - less)`` in two steps with normal factors, so that it rounds once at either end."""
        half, half_word = self.nearest(exponent, 0.5)
        rest = (exponent - half - less if less else exponent - half) + _SHIFT
        return x * self.power_of_two(rest.word) * self.power_of_two(half_word)

    def split(self, x: Real) -> tuple[Real, Real]:
        """A whole number k and m from sqrt(1/2) to sqrt(2) with ``x == m * 2**k``, for a positive normal number."""
        bits = x.word
        exponent = (bits + (_bits(1.0) - _bits(0.5**0.5))) >> 52  # k + _BIAS
        m = (bits - ((exponent << 52) - (_BIAS << 52))).real
        return (exponent | _bits(2.0**52)).real - (2.0**52 + _BIAS), m

    def rarely(self, condition: Flag, result: Real, instead: Callable[[], Real]) -> Real:
        """`result`, and where the condition holds what `instead` computes; that is skipped where it holds nowhere.

        The choice is made by the value of each lane alone.
        """
        go, end, before = self.f.label("rare"), self.f.label("end"), self.f.block
        some = condition.ssa
        if self.lanes:
            bits = self.f.emit(f"bitcast {self.type('i1')} {some} to i{self.lanes}")
            some = self.f.emit(f"icmp ne i{self.lanes} {bits}, 0")
        self.f.cond_br(some, go, end)
        self.f.open(go)
        fixed, after = self.select(condition, instead(), result), self.f.block
        self.f.br(end)
        self.f.open(end)
        arms = f"[ {result.ssa}, %{before} ], [ {fixed.ssa}, %{after} ]"
        return Real(self, self.f.emit(f"phi {self.type('double')} {arms}"))

    def library(self, name: str, *operands: Real) -> Real:
        """The C library's function, of one lane after the other."""
        if name not in ("expm1", "log1p"):
            return self.intrinsic(name, *operands)  # of a vector, LLVM calls the library for each lane
        callee = self.module.declare("double", name, ["double"], PURE)
        if not self.lanes:
            return Real(self, self.f.emit(f"call double {callee}(double {operands[0].ssa})"))
        t, result = self.type("double"), "poison"
        for lane in range(self.lanes):
            one = self.f.emit(f"extractelement {t} {operands[0].ssa}, i64 {lane}")
            value = self.f.emit(f"call double {callee}(double {one})")
            result = self.f.emit(f"insertelement {t} {result}, double {value}, i64 {lane}")
        return Real(self, result)


@record(frozen=True)
class Flag:
    """A condition."""

    m: Formula
    ssa: str

    def __and__(self, other: Flag) -> Flag:
        return Flag(self.m, self.m.f.emit(f"and {self.m.type('i1')} {self.ssa}, {other.ssa}"))

    def __or__(self, other: Flag) -> Flag:
        return Flag(self.m, self.m.f.emit(f"or {self.m.type('i1')} {self.ssa}, {other.ssa}"))

    def __invert__(self) -> Flag:
        true = self.m._constant("i1", "true")
        return Flag(self.m, self.m.f.emit(f"xor {self.m.type('i1')} {self.ssa}, {true}"))


@record(frozen=True)
class Word:
    """The 64 bits of a number, as an integer without sign."""

    m: Formula
    ssa: str

    def __add__(self, other: Word | int) -> Word:
        return self.m.emit_word("add", self, other)

    def __sub__(self, other: Word | int) -> Word:
        return self.m.emit_word("sub", self, other)

    def __and__(self, other: Word | int) -> Word:
        return self.m.emit_word("and", self, other)

    def __or__(self, other: Word | int) -> Word:
        return self.m.emit_word("or", self, other)

    def __xor__(self, other: Word | int) -> Word:
        return self.m.emit_word("xor", self, other)

    def __lshift__(self, count: int) -> Word:
        return self.m.emit_word("shl", self, count)

    def __rshift__(self, count: int) -> Word:
        return self.m.emit_word("lshr", self, count)

    def equals(self, other: Word | int) -> Flag:
        return Flag(self.m, self.m.emit_word("icmp eq", self, other).ssa)

    @property
    def real(self) -> Real:
        text = f"bitcast {self.m.type('i64')} {self.ssa} to {self.m.type('double')}"
        return Real(self.m, self.m.f.emit(text))


@record(frozen=True)
class Real:
    """A number of binary64. Comparisons with NaN are false."""

    m: Formula
    ssa: str

    def __add__(self, other: Real | float) -> Real:
        return self.m.emit_real("fadd", self, other)

    def __radd__(self, other: float) -> Real:
        return self.m.emit_real("fadd", other, self)

    def __sub__(self, other: Real | float) -> Real:
        return self.m.emit_real("fsub", self, other)

    def __rsub__(self, other: float) -> Real:
        return self.m.emit_real("fsub", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self.m.emit_real("fmul", self, other)

    def __rmul__(self, other: float) -> Real:
        return self.m.emit_real("fmul", other, self)

    def __truediv__(self, other: Real | float) -> Real:
        return self.m.emit_real("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self.m.emit_real("fdiv", other, self)

    def __neg__(self) -> Real:
        return self.m.emit_real("fneg", self)

    def __abs__(self) -> Real:
        return self.m.intrinsic("fabs", self)

    def __lt__(self, other: Real | float) -> Flag:
        return Flag(self.m, self.m.emit_real("fcmp olt", self, other).ssa)

    def __le__(self, other: Real | float) -> Flag:
        return Flag(self.m, self.m.emit_real("fcmp ole", self, other).ssa)

    def __gt__(self, other: Real | float) -> Flag:
        return Flag(self.m, self.m.emit_real("fcmp ogt", self, other).ssa)

    def __ge__(self, other: Real | float) -> Flag:
        return Flag(self.m, self.m.emit_real("fcmp oge", self, other).ssa)

    def equals(self, other: Real | float) -> Flag:
        return Flag(self.m, self.m.emit_real("fcmp oeq", self, other).ssa)

    def at_most(self, limit: float) -> Real:
        """No more than the limit; NaN stays."""
        return self.m.select(self > limit, limit, self)

    def at_least(self, limit: float) -> Real:
        """No less than the limit; NaN stays."""
        return self.m.select(self < limit, limit, self)

    def with_sign_of(self, other: Real) -> Real:
        return self.m.intrinsic("copysign", self, other)

    @property
    def word(self) -> Word:
        text = f"bitcast {self.m.type('double')} {self.ssa} to {self.m.type('i64')}"
        return Word(self.m, self.m.f.emit(text))


def _bits(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits)
