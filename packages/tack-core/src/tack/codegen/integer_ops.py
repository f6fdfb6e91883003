"""Integer operations of the C dialects: typed helpers that wrap at their width and never overflow a signed type.

A helper converts its operands to an unsigned carrier of at least 32 bits, where C defines wrapping, truncates the
result to N unsigned bits, and reads those as a signed value by casts of values in range (rules INT-*). Narrower
carriers would not do: C promotes two `unsigned short` to signed `int`, and 65535 * 65535 overflows that.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping

from tack.codegen.c_dialect import Dialect
from tack.lang.types import BY_NAME, DType, i32, u32, u64

_BINARY = {
    "+": ("add", "{a} + {b}"),
    "-": ("sub", "{a} - {b}"),
    "*": ("mul", "{a} * {b}"),
    "&": ("and", "{a} & {b}"),
    "|": ("or", "{a} | {b}"),
    "^": ("xor", "{a} ^ {b}"),
    "<<": ("shl", "{a} << {b}"),
}
_UNARY = {"-": ("neg", "0u - {a}"), "~": ("not", "~{a}")}


def never(operation: str, dtype: DType) -> bool:
    """The usual answer to whether a helper must not be inlined."""
    return False


class IntegerCodeGen:
    """Emits expressions of integers, and into `helpers` the functions that they call.

    Parameters
    ----------
    dialect
        How to spell things.
    helpers
        Where helpers go, by name.
    bitcast
        Reinterpret bits by the dialect's own operation instead of by casts in range.
    noinline
        Whether the helper of an operation (``"neg"``, ``"abs"``) at a type must not be inlined.
    """

    def __init__(
        self,
        dialect: Dialect,
        helpers: MutableMapping[str, str],
        *,
        bitcast: bool = False,
        noinline: Callable[[str, DType], bool] = never,
    ) -> None:
        self.dialect, self.helpers, self.bitcast, self.noinline = dialect, helpers, bitcast, noinline

    # -- operations

    def binary(self, op: str, dtype: DType, a: str, b: str) -> str:
        """``a op b`` at `dtype`, both operands being of that type (the exponent of ``**`` is u64)."""
        if op in ("//", "%"):
            from tack.codegen.integer_division import integer_division_expr

            return integer_division_expr(self, op, dtype, a, b)
        if op == "**":
            return self.call("pow", dtype, self._power(dtype), a, b)
        if op == ">>":
            return self.call("shr", dtype, self._shift_right(dtype), a, b)
        name, formula = _BINARY[op]
        return self.call(name, dtype, self._wrapped(formula, dtype), a, b)

    def unary(self, op: str, dtype: DType, a: str) -> str:
        name, formula = _UNARY[op]
        return self.call(name, dtype, self._wrapped(formula, dtype), a)

    def absolute(self, dtype: DType, a: str) -> str:
        """``abs(a)``; of the signed minimum, itself."""
        if not dtype.is_signed:
            return a
        negated = self.read_bits(dtype, f"({self.type_u(dtype)})(0u - {self.carry(dtype, 'a')})")
        return self.call("abs", dtype, f"    return a < 0 ? {negated} : a;\n", a)

    def extremum(self, name: str, dtype: DType, a: str, b: str) -> str:
        """``min(a, b)`` or ``max(a, b)``."""
        order = "<" if name == "min" else ">"
        return self.call(name, dtype, f"    return b {order} a ? b : a;\n", a, b)

    def bit_count(self, name: str, dtype: DType, a: str, popcount: str, clz: str) -> str:
        """popcount, clz or ctz as i32; `popcount` and `clz` are the dialect's, on the carrier."""
        pattern = f"({self.carrier(dtype)})({self.type_u(dtype)})a"
        if name == "popcount":
            body = f"    return (int){popcount.format(pattern)};\n"
        elif name == "clz":
            body = f"    return (int){clz.format(pattern)} - {self.carrier_bits(dtype) - dtype.bits};\n"
        else:  # the ones of what is below the lowest set bit; all of them for zero
            below = f"({self.carrier(dtype)})({self.type_u(dtype)})(~x & (x - 1u))"
            body = f"    const {self.carrier(dtype)} x = {pattern};\n    return (int){popcount.format(below)};\n"
        return self.call(name, dtype, body, a, result=i32)

    def convert(self, text: str, source: DType, target: DType) -> str:
        """Integer to integer: modulo 2**N, read with the target's signedness (rules CONV-*)."""
        widens = source.bits < target.bits or (source.bits == target.bits and source.is_signed)
        if not target.is_signed or widens:
            return f"(({self.dialect.type(target)})({text}))"
        return self.read_bits(target, f"({self.type_u(target)})({text})")

    def read_bits(self, dtype: DType, pattern: str) -> str:
        """The value of an integer type from its N bits as an unsigned value."""
        if not dtype.is_signed:
            return f"({pattern})"
        name, unsigned, t = f"__tack_bits_{dtype.name}__", self.type_u(dtype), self.dialect.type(dtype)
        if self.bitcast:
            value = self.dialect.bitcast.format("x", type=t)
        else:
            value = f"x <= {dtype.max}ULL ? ({t})x : ({t})(-1 - ({t})(({unsigned})~x))".replace(
                "ULL", "U" + self.dialect.long_suffix
            )
        self.helpers.setdefault(name, f"{self.dialect.function} {t} {name}({unsigned} x) {{\n    return {value};\n}}\n")
        return f"{name}({pattern})"

    # -- the pieces of helpers

    def call(self, operation: str, dtype: DType, body: str, *operands: str, result: DType | None = None) -> str:
        """Call the helper of an operation at a type; emit it unless it is there."""
        name, types = f"__tack_{operation}_{dtype.name}__", [self.dialect.type(dtype)] * len(operands)
        if operation == "pow":
            types[1] = self.dialect.type(u64)
        if name not in self.helpers:
            prefix = self.dialect.noinline if self.noinline(operation, dtype) else self.dialect.function
            formals = ", ".join(f"{t} {letter}" for t, letter in zip(types, "ab", strict=False))
            returned = self.dialect.type(result or dtype)
            self.helpers[name] = f"{prefix} {returned} {name}({formals}) {{\n{body}}}\n"
        return f"{name}({', '.join(operands)})"

    def type_u(self, dtype: DType) -> str:
        return self.dialect.unsigned(dtype.bits)

    @staticmethod
    def carrier_bits(dtype: DType) -> int:
        return max(dtype.bits, u32.bits)

    def carrier(self, dtype: DType) -> str:
        """The type in which an operation runs: unsigned, and never promoted to a signed one."""
        return self.dialect.type(BY_NAME[f"u{self.carrier_bits(dtype)}"])

    def carry(self, dtype: DType, operand: str) -> str:
        return f"(({self.carrier(dtype)})({operand}))"

    def _wrapped(self, formula: str, dtype: DType) -> str:
        text = formula.format(a=self.carry(dtype, "a"), b=self.carry(dtype, "b"))
        return f"    return {self.read_bits(dtype, f'({self.type_u(dtype)})({text})')};\n"

    def _shift_right(self, dtype: DType) -> str:
        """Arithmetic for signed types, without C's own shift of a negative value: the complement is shifted."""
        bits, count = f"({self.carrier(dtype)})({self.type_u(dtype)})", self.carry(dtype, "b")
        if not dtype.is_signed:
            return f"    return ({self.dialect.type(dtype)})({bits}a >> {count});\n"
        shifted = f"a < 0 ? ~(({bits}~{self.carry(dtype, 'a')}) >> {count}) : {bits}a >> {count}"
        return f"    return {self.read_bits(dtype, f'({self.type_u(dtype)})({shifted})')};\n"

    def _power(self, dtype: DType) -> str:
        """By squaring: at most 64 rounds for any exponent."""
        carrier = self.carrier(dtype)
        return (
            f"    {carrier} result = 1u, square = {self.carry(dtype, 'a')};\n"
            f"    for (; b != 0u; b >>= 1) {{\n"
            f"        if ((b & 1u) != 0u) result *= square;\n"
            f"        square *= square;\n"
            f"    }}\n"
            f"    return {self.read_bits(dtype, f'({self.type_u(dtype)})result')};\n"
        )
