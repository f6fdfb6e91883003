"""Arithmetic in LLVM: one method for each kind of operation, from typed values to a typed value.

Nothing here converts an operand by itself: typed IR has a cast wherever the language converts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tack.codegen import llvm_helpers
from tack.codegen.llvm_values import PURE, FunctionText, ModuleText, Value, literal, llvm_type, suffix
from tack.lang.types import DType, f32, i32

_WRAPPING: Final = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor", "<<": "shl"}
_FLOATING: Final = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_ORDER: Final = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
# Builtins that are an intrinsic of the same meaning. The intrinsic promises that errno is not touched.
_INTRINSIC: Final = {
    **{n: n for n in "sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 log log2 log10 atan2".split()},
    **{n: n for n in "floor ceil trunc fabs copysign fma".split()},
    "round": "roundeven",
}
_LIBRARY: Final = ("expm1", "log1p")  # builtins that LLVM has no intrinsic for
_LONGEST_INLINE_EXPONENT: Final = 64


class ArithmeticEmitter:
    """The operations. `module` collects helpers and declarations; `f` is the function being written."""

    module: ModuleText
    f: FunctionText

    def _call(self, dtype: DType, name: str, *arguments: str, attributes: str = "") -> Value:
        """Call an outside function or intrinsic; `arguments` are typed texts."""
        types = [a.split(" ", 1)[0] for a in arguments]
        callee = self.module.declare(llvm_type(dtype), name, types, attributes)
        return Value(self.f.emit(f"call {llvm_type(dtype)} {callee}({', '.join(arguments)})"), dtype)

    def _intrinsic(self, name: str, dtype: DType, *operands: str) -> Value:
        t = llvm_type(dtype)
        return self._call(dtype, f"llvm.{name}.{suffix(dtype)}", *(f"{t} {x}" for x in operands))

    def _helper(self, make: Callable[[DType], tuple[str, str]], dtype: DType, *arguments: str) -> Value:
        name, text = make(dtype)
        self.module.helpers[name] = text
        return Value(self.f.emit(f"call {llvm_type(dtype)} @{name}({', '.join(arguments)})"), dtype)

    # -- binary operators

    def _emit_binop(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        if dtype.is_integer:
            return self._emit_int_binop(op, a, b, dtype)
        t = llvm_type(dtype)
        if op in _FLOATING:
            return Value(self.f.emit(f"{_FLOATING[op]} {t} {a.ssa}, {b.ssa}"), dtype)
        if op == "**":
            return self._intrinsic("pow", dtype, a.ssa, b.ssa)
        return self._emit_float_division(op, a, b, dtype)

    def _emit_int_binop(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """Low N bits of the exact result: no `nsw` or `nuw`, so that overflow wraps."""
        t = llvm_type(dtype)
        if op in _WRAPPING:
            return Value(self.f.emit(f"{_WRAPPING[op]} {t} {a.ssa}, {b.ssa}"), dtype)
        if op == ">>":
            return Value(self.f.emit(f"{'ashr' if dtype.is_signed else 'lshr'} {t} {a.ssa}, {b.ssa}"), dtype)
        if op == "**":
            return self._emit_integer_power(a, b, dtype)
        return self._emit_integer_division(op, a, b, dtype)

    def _emit_integer_division(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """`//` rounds down and `%` takes the divisor's sign, by a correction that cannot overflow."""
        t = llvm_type(dtype)
        power = self._power_of_two(b, dtype)
        if power is not None:  # exact for negative dividends too, and it vectorises
            if op == "%":
                return Value(self.f.emit(f"and {t} {a.ssa}, {(1 << power) - 1}"), dtype)
            return Value(self.f.emit(f"{'ashr' if dtype.is_signed else 'lshr'} {t} {a.ssa}, {power}"), dtype)
        if not dtype.is_signed:
            return Value(self.f.emit(f"{'udiv' if op == '//' else 'urem'} {t} {a.ssa}, {b.ssa}"), dtype)
        emit = self.f.emit
        r = emit(f"srem {t} {a.ssa}, {b.ssa}")
        differ = emit(f"icmp slt {t} {emit(f'xor {t} {r}, {b.ssa}')}, 0")
        adjust = emit(f"and i1 {differ}, {emit(f'icmp ne {t} {r}, 0')}")
        if op == "%":
            moved = emit(f"add {t} {r}, {b.ssa}")
            return Value(emit(f"select i1 {adjust}, {t} {moved}, {t} {r}"), dtype)
        q = emit(f"sdiv {t} {a.ssa}, {b.ssa}")
        return Value(emit(f"add {t} {q}, {emit(f'sext i1 {adjust} to {t}')}"), dtype)

    @staticmethod
    def _power_of_two(value: Value, dtype: DType) -> int | None:
        """log2 of a positive literal power of two that the type holds."""
        if not value.ssa.isdecimal():
            return None
        number = int(value.ssa)
        return number.bit_length() - 1 if 0 < number <= dtype.max and number & (number - 1) == 0 else None

    def _emit_integer_power(self, base: Value, exponent: Value, dtype: DType) -> Value:
        """A small literal exponent becomes its multiplications, which vectorise; others call a helper."""
        t = llvm_type(dtype)
        if not exponent.ssa.isdecimal() or int(exponent.ssa) > _LONGEST_INLINE_EXPONENT:
            return self._helper(llvm_helpers.integer_power, dtype, f"{t} {base.ssa}", f"i64 {exponent.ssa}")
        rest, square, result = int(exponent.ssa), base.ssa, "1"
        while rest:
            if rest & 1:
                result = square if result == "1" else self.f.emit(f"mul {t} {result}, {square}")
            rest >>= 1
            if rest:
                square = self.f.emit(f"mul {t} {square}, {square}")
        return Value(result, dtype)

    def _emit_float_division(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """Floating `//` and `%`, as CPython defines them."""
        t = llvm_type(dtype)
        self._declare_math(dtype, "copysign", 2)
        self._declare_math(dtype, "floor", 1)
        make = llvm_helpers.float_floor_division if op == "//" else llvm_helpers.float_remainder
        return self._helper(make, dtype, f"{t} {a.ssa}", f"{t} {b.ssa}")

    def _declare_math(self, dtype: DType, name: str, arity: int) -> None:
        self.module.declare(llvm_type(dtype), f"llvm.{name}.{suffix(dtype)}", [llvm_type(dtype)] * arity)

    # -- unary operators, comparisons, conditions, conversions

    def _emit_unary(self, op: str, a: Value, dtype: DType) -> Value:
        t = llvm_type(dtype)
        if op == "~":
            return Value(self.f.emit(f"xor {t} {a.ssa}, -1"), dtype)
        return Value(self.f.emit(f"fneg {t} {a.ssa}" if dtype.is_float else f"sub {t} 0, {a.ssa}"), dtype)

    def _emit_compare(self, op: str, a: Value, b: Value, dtype: DType) -> str:
        """An i1. With NaN only `!=` is true."""
        if dtype.is_float:
            predicate = "fcmp " + {"==": "oeq", "!=": "une"}.get(op, "o" + _ORDER.get(op, ""))
        elif op in _ORDER:
            predicate = f"icmp {'s' if dtype.is_signed else 'u'}{_ORDER[op]}"
        else:
            predicate = f"icmp {'eq' if op == '==' else 'ne'}"
        return self.f.emit(f"{predicate} {llvm_type(dtype)} {a.ssa}, {b.ssa}")

    def _to_i1(self, value: Value) -> str:
        """A number as a condition: not zero is true, and so is NaN."""
        if value.dtype.is_float:
            return self.f.emit(f"fcmp une {llvm_type(value.dtype)} {value.ssa}, 0.0")
        return self.f.emit(f"icmp ne {llvm_type(value.dtype)} {value.ssa}, 0")

    def _from_i1(self, condition: str) -> Value:
        return Value(self.f.emit(f"zext i1 {condition} to i32"), i32)

    def _emit_cast(self, value: Value, target: DType) -> Value:
        source = value.dtype
        if value.ssa[0] != "%" and source.is_integer and target.is_integer:
            # Before the test of equal widths: a constant's text holds its value, so its sign must follow its type.
            return Value(str(target.wrap(int(value.ssa))), target)
        if llvm_type(source) == llvm_type(target):
            return Value(value.ssa, target, value.shape)
        if source.is_float and target.is_float:
            op = "fptrunc" if target is f32 else "fpext"
        elif source.is_float:
            op = "fptosi" if target.is_signed else "fptoui"
        elif target.is_float:
            op = "sitofp" if source.is_signed else "uitofp"
        elif target.bits < source.bits:
            op = "trunc"
        else:
            op = "sext" if source.is_signed else "zext"
        return Value(self.f.emit(f"{op} {llvm_type(source)} {value.ssa} to {llvm_type(target)}"), target)

    # -- builtins

    def _emit_builtin(self, name: str, arguments: list[Value], dtype: DType) -> Value:
        """A builtin whose arguments have type `dtype`."""
        x = [a.ssa for a in arguments]
        if name in _INTRINSIC:
            return self._intrinsic(_INTRINSIC[name], dtype, *x)
        if name in _LIBRARY:
            symbol = name + ("f" if dtype is f32 else "")
            return self._call(dtype, symbol, f"{llvm_type(dtype)} {x[0]}", attributes=PURE)
        if name in ("min", "max"):
            return self._emit_extremum(name, x, dtype)
        if name == "abs":
            return self._emit_abs(arguments[0], dtype)
        if name in ("popcount", "clz", "ctz"):
            return self._emit_bit_count(name, x[0], dtype)
        return self._from_i1(self._emit_predicate(name, x[0], dtype))

    def _emit_extremum(self, name: str, operands: list[str], dtype: DType) -> Value:
        """Folded from the left. Floating: the number beside one NaN, NaN for two."""
        intrinsic = f"{name}num" if dtype.is_float else ("s" if dtype.is_signed else "u") + name
        result = Value(operands[0], dtype)
        for operand in operands[1:]:
            result = self._intrinsic(intrinsic, dtype, result.ssa, operand)
        return result

    def _emit_abs(self, value: Value, dtype: DType) -> Value:
        if dtype.is_float:
            return self._intrinsic("fabs", dtype, value.ssa)
        if not dtype.is_signed:
            return value
        # false: the signed minimum is defined, and gives itself.
        return self._call(dtype, f"llvm.abs.{suffix(dtype)}", f"{llvm_type(dtype)} {value.ssa}", "i1 false")

    def _emit_bit_count(self, name: str, operand: str, dtype: DType) -> Value:
        t = llvm_type(dtype)
        if name == "popcount":
            count = self._intrinsic("ctpop", dtype, operand)
        else:  # false: zero is defined, and gives the width
            intrinsic = f"llvm.{'ctlz' if name == 'clz' else 'cttz'}.{suffix(dtype)}"
            count = self._call(dtype, intrinsic, f"{t} {operand}", "i1 false")
        if dtype.bits == 32:
            return Value(count.ssa, i32)
        return Value(self.f.emit(f"{'trunc' if dtype.bits > 32 else 'zext'} {t} {count.ssa} to i32"), i32)

    def _emit_predicate(self, name: str, operand: str, dtype: DType) -> str:
        t = llvm_type(dtype)
        if name == "isnan":
            return self.f.emit(f"fcmp uno {t} {operand}, 0.0")
        size, infinity = self._intrinsic("fabs", dtype, operand).ssa, literal(float("inf"), dtype)
        return self.f.emit(f"fcmp {'oeq' if name == 'isinf' else 'one'} {t} {size}, {infinity}")
