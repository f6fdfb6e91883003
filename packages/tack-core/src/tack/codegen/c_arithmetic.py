"""Floating arithmetic, comparisons, conversions and builtins of the C dialects, from texts of operands to a text.

Nothing here converts an operand by itself: typed IR has a cast wherever the language converts.
"""

from __future__ import annotations

from typing import ClassVar

from tack.codegen.c_dialect import CModule, Dialect
from tack.codegen.integer_ops import IntegerCodeGen
from tack.lang.types import DType, f32

_PREDICATES = {"isnan": "x != x", "isinf": "{fabs}(x) == {infinity}", "isfinite": "{fabs}(x) < {infinity}"}
COUNTS = ("popcount", "clz", "ctz")


class ArithmeticEmitter:
    """The operations. A dialect sets the class attributes, and overrides a method where it differs."""

    dialect: ClassVar[Dialect]
    f32_suffix: ClassVar[str] = ""  # ends the names of the f32 functions of its mathematics library
    math_names: ClassVar[dict[str, str]] = {"round": "rint"}  # builtins that the library names differently
    popcount: ClassVar[dict[int, str]] = {32: "popcount({})", 64: "popcount({})"}
    clz: ClassVar[dict[int, str]] = {32: "clz({})", 64: "clz({})"}

    module: CModule
    integers: IntegerCodeGen

    def _type(self, dtype: DType) -> str:
        return self.dialect.type(dtype)

    # -- operators

    def _binary(self, op: str, dtype: DType, a: str, b: str) -> str:
        if dtype.is_integer:
            return self.integers.binary(op, dtype, a, b)
        if op == "**":
            return self._call_math("pow", dtype, a, b)
        if op in ("//", "%"):
            from tack.codegen.float_division import float_division_helpers

            name, text = float_division_helpers(self.dialect, op, dtype, self.f32_suffix)
            self.module.helpers.setdefault(name, text)
            return f"{name}(({self._type(dtype)})({a}), ({self._type(dtype)})({b}))"
        return f"({a} {op} {b})"

    def _rounded_product(self, dtype: DType, a: str, b: str) -> str:
        """A floating product that the language rounds: it is no operand of a sum."""
        return f"({a} * {b})"

    def _unary(self, op: str, dtype: DType, a: str) -> str:
        return f"(-{a})" if dtype.is_float else self.integers.unary(op, dtype, a)

    def _truth(self, dtype: DType, text: str) -> str:
        """A number as a condition: not zero is true, and so is NaN."""
        return f"({text} != {self.dialect.literal(0, dtype)})"

    def _cast(self, text: str, source: DType, target: DType) -> str:
        """Integers wrap; floats truncate toward zero or round once, as C converts them."""
        if source.is_integer and target.is_integer:
            return self.integers.convert(text, source, target)
        return f"(({self._type(target)})({text}))"

    # -- builtins

    def _builtin(self, name: str, dtype: DType, operands: list[str]) -> str:
        """A builtin whose arguments have type `dtype`."""
        if name in ("min", "max"):
            result = operands[0]
            for operand in operands[1:]:
                result = self._extremum(name, dtype, result, operand)
            return result
        if name in COUNTS:
            bits = self.integers.carrier_bits(dtype)
            return self.integers.bit_count(name, dtype, operands[0], self.popcount[bits], self.clz[bits])
        if name in _PREDICATES:
            return self._predicate(name, dtype, operands[0])
        if name == "abs":
            if dtype.is_integer:
                return self.integers.absolute(dtype, operands[0])
            name = "fabs"
        return self._call_math(name, dtype, *operands)

    def _extremum(self, name: str, dtype: DType, a: str, b: str) -> str:
        """Floating: the number beside one NaN, NaN for two."""
        if dtype.is_integer:
            return self.integers.extremum(name, dtype, a, b)
        return self._call_math(f"f{name}", dtype, a, b)

    def _call_math(self, name: str, dtype: DType, *operands: str) -> str:
        """A function of the dialect's library; each argument is cast, so that no overload is ambiguous."""
        arguments = ", ".join(f"({self._type(dtype)})({x})" for x in operands)
        return f"{self._math_name(name, dtype)}({arguments})"

    def _math_name(self, name: str, dtype: DType) -> str:
        return self.math_names.get(name, name) + (self.f32_suffix if dtype is f32 else "")

    def _predicate(self, name: str, dtype: DType, operand: str) -> str:
        helper, infinity = f"__tack_{name}_{dtype.name}__", self.dialect.literal(float("inf"), dtype)
        test = _PREDICATES[name].format(fabs=self._math_name("fabs", dtype), infinity=infinity)
        header = f"{self.dialect.function} int {helper}({self._type(dtype)} x)"
        self.module.helpers.setdefault(helper, f"{header} {{\n    return ({test}) ? 1 : 0;\n}}\n")
        return f"{helper}({operand})"

    # -- what atomics need

    def combine(self, op: str, dtype: DType, a: str, b: str) -> str:
        """The value that an atomic operation leaves."""
        if op in ("min", "max"):
            return self._extremum(op, dtype, a, b)
        if op == "exchange":
            return b
        symbol = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}[op]
        return self._binary(symbol, dtype, a, b)
