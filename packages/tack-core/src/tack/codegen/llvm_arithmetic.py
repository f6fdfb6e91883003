"""Arithmetic in LLVM: one method for each kind of operation, from typed values to a typed value.

Nothing here converts an operand by itself: typed IR has a cast wherever the language converts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tack.codegen import llvm_helpers
from tack.codegen.lane_cost import VectorUnit
from tack.codegen.llvm_values import BIT, PURE, FunctionText, Value, from_literal, literal, llvm_type
from tack.codegen.llvm_vectors import VectorEmitter
from tack.lang.shapes import UNIFORM, VARYING, Shape
from tack.lang.types import DType, f32, f64, i32, i64

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
_BYTES_OF_A_LANE: Final = 4  # one call computes two native vectors of f64 together, since each operation waits
# Operations that are ours, of scalars and vectors, where products can be exact; elsewhere without a vector form of the
# same bits: the C library is called for one lane after the other.
LANE_BY_LANE: Final = frozenset(
    {*_LIBRARY, *"sin cos tan asin acos atan sinh cosh tanh exp exp2 log log2 log10 atan2".split()}
)


class ArithmeticEmitter(VectorEmitter):
    """The operations, on scalars where all operands are uniform, else on vectors."""

    target: VectorUnit | None

    def _call(
        self, dtype: DType, name: str, *operands: tuple[str, str], shape: Shape = UNIFORM, pure: str = ""
    ) -> Value:
        """Call an outside function or intrinsic; operands are pairs of type and value."""
        t = self._type(dtype, shape)
        callee = self.module.declare(t, name, [kind for kind, _ in operands], pure)
        arguments = ", ".join(f"{kind} {ssa}" for kind, ssa in operands)
        return Value(self.f.emit(f"call {t} {callee}({arguments})"), dtype, shape)

    def _intrinsic(self, name: str, dtype: DType, *operands: str, shape: Shape = UNIFORM) -> Value:
        t = self._type(dtype, shape)
        return self._call(dtype, f"llvm.{name}.{self._suffix(dtype, shape)}", *((t, x) for x in operands), shape=shape)

    def _helper(self, make: Callable[[DType], tuple[str, str]], dtype: DType, *arguments: str) -> Value:
        name, text = make(dtype)
        self.module.helpers[name] = text
        return Value(self.f.emit(f"call {llvm_type(dtype)} @{name}({', '.join(arguments)})"), dtype)

    # -- binary operators

    def _emit_binop(self, op: str, a: Value, b: Value, dtype: DType, shape: Shape = UNIFORM) -> Value:
        """`shape` is that of the result; a linear one is computed on the scalars of the first lane."""
        if dtype.is_integer:
            return self._emit_int_binop(op, a, b, dtype, shape)
        if op in _FLOATING:
            shape, (x, y) = self._meet(a, b)
            return Value(self.f.emit(f"{_FLOATING[op]} {self._type(dtype, shape)} {x}, {y}"), dtype, shape)
        if op == "**" and self._has_own_functions:
            return self._emit_float_power(a, b, dtype)
        if VARYING in (a.shape, b.shape):  # through the C library, or long
            return self._lane_by_lane(dtype, [a, b], lambda v: self._emit_binop(op, v[0], v[1], dtype))
        if op == "**":
            return self._intrinsic("pow", dtype, a.ssa, b.ssa)
        return self._emit_float_division(op, a, b, dtype)

    def _emit_int_binop(self, op: str, a: Value, b: Value, dtype: DType, shape: Shape = UNIFORM) -> Value:
        """Low N bits of the exact result: no `nsw` or `nuw`, so that overflow wraps."""
        if op in _WRAPPING or op == ">>":
            x, y = (a.ssa, b.ssa) if shape is not VARYING else (self._vector(a), self._vector(b))
            name = _WRAPPING.get(op) or ("ashr" if dtype.is_signed else "lshr")
            return Value(self.f.emit(f"{name} {self._type(dtype, shape)} {x}, {y}"), dtype, shape)
        if op == "**":
            return self._emit_integer_power(a, b, dtype)
        return self._emit_integer_division(op, a, b, dtype)

    def _emit_integer_division(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """`//` rounds down and `%` takes the divisor's sign, by a correction that cannot overflow."""
        power = self._power_of_two(b, dtype)
        shape, (x, y) = self._meet(a, b)
        t, emit = self._type(dtype, shape), self.f.emit
        if power is not None:  # exact for negative dividends too, and it vectorises
            name, operand = ("and", (1 << power) - 1) if op == "%" else ("ashr" if dtype.is_signed else "lshr", power)
            return Value(emit(f"{name} {t} {x}, {self._constant(str(operand), dtype, shape)}"), dtype, shape)
        if self._is_literal(b):
            return self._corrected_division(op, x, y, dtype, shape)
        y = self._safe_divisor(b, y, shape)
        if shape is not VARYING:
            return self._corrected_division(op, x, y, dtype, shape)
        name = f"__tack_{'floordiv' if op == '//' else 'mod'}_{dtype.name}x{self.width}__"
        if name not in self.module.helpers:
            self.module.helpers[name] = self._division_of_lanes(name, op, dtype)
        return Value(emit(f"call {t} @{name}({t} {x}, {t} {y})"), dtype, VARYING)

    def _division_of_lanes(self, name: str, op: str, dtype: DType) -> str:
        """A function, since it is much code, and LLVM's time for a block of code grows faster than the block."""
        t, outside = self._type(dtype, VARYING), self.f
        self.f = FunctionText()
        if dtype.bits <= f32.bits:
            result = self._divide_through_floats(op, "%a", "%b", dtype)
        else:
            result = self._corrected_division(op, "%a", "%b", dtype, VARYING)
        self.f.close(f"ret {t} {result.ssa}")
        inside, self.f = self.f, outside
        return inside.text(f"define internal {t} @{name}({t} %a, {t} %b) noinline nounwind willreturn memory(none)")

    def _corrected_division(self, op: str, x: str, y: str, dtype: DType, shape: Shape) -> Value:
        t, emit = self._type(dtype, shape), self.f.emit
        if not dtype.is_signed:
            return Value(emit(f"{'udiv' if op == '//' else 'urem'} {t} {x}, {y}"), dtype, shape)
        bit, zero = self._type(BIT, shape), self._constant("0", dtype, shape)
        r = emit(f"srem {t} {x}, {y}")
        differ = emit(f"icmp slt {t} {emit(f'xor {t} {r}, {y}')}, {zero}")
        adjust = emit(f"and {bit} {differ}, {emit(f'icmp ne {t} {r}, {zero}')}")
        if op == "%":
            moved = emit(f"add {t} {r}, {y}")
            return Value(emit(f"select {bit} {adjust}, {t} {moved}, {t} {r}"), dtype, shape)
        q = emit(f"sdiv {t} {x}, {y}")
        return Value(emit(f"add {t} {q}, {emit(f'sext {bit} {adjust} to {t}')}"), dtype, shape)

    @staticmethod
    def _is_literal(value: Value) -> bool:
        return value.ssa[0] != "%"

    def _safe_divisor(self, divisor: Value, operand: str, shape: Shape) -> str:
        """The divisor, 1 for lanes that are off: those may hold zero, and must not trap."""
        t = self._type(divisor.dtype, shape)
        if self.mask is None:
            return operand
        if shape is VARYING:
            one = self._constant("1", divisor.dtype, VARYING)
            return self.f.emit(f"select {self._mask_type} {self.mask}, {t} {operand}, {t} {one}")
        return operand if self.some else self.f.emit(f"select i1 {self._any(self.mask)}, {t} {operand}, {t} 1")

    def _divide_through_floats(self, op: str, a: str, b: str, dtype: DType) -> Value:
        """Vectors of at most 32 bits, of which there is no division of integers."""
        emit, t = self.f.emit, self._type(dtype, VARYING)
        quotient = (self._quotient_of_16_bits if dtype.bits < f32.bits else self._quotient_of_32_bits)(a, b, dtype)
        if op == "//":
            return Value(quotient, dtype, VARYING)
        return Value(emit(f"sub {t} {a}, {emit(f'mul {t} {quotient}, {b}')}"), dtype, VARYING)

    def _quotient_of_16_bits(self, a: str, b: str, dtype: DType) -> str:
        """The quotient in binary32 is on the right side of every whole number, so that its floor is exact."""
        emit, t, real, word = self.f.emit, *(self._type(kind, VARYING) for kind in (dtype, f32, i32))
        convert = "sitofp" if dtype.is_signed else "uitofp"
        x, y = (emit(f"{convert} {t} {v} to {real}") for v in (a, b))
        q = self._intrinsic("floor", f32, emit(f"fdiv {real} {x}, {y}"), shape=VARYING).ssa
        return emit(f"trunc {word} {emit(f'fptosi {real} {q} to {word}')} to {t}")

    def _quotient_of_32_bits(self, a: str, b: str, dtype: DType) -> str:
        """The same in binary64. A sum with 1.5 * 2^52 ends in the bits of a whole number, those of -2^31 // -1 too."""
        emit, t, real, bits = self.f.emit, *(self._type(kind, VARYING) for kind in (dtype, f64, i64))
        x, y = (emit(f"{'sitofp' if dtype.is_signed else 'uitofp'} {t} {v} to {real}") for v in (a, b))
        q = self._intrinsic("floor", f64, emit(f"fdiv {real} {x}, {y}"), shape=VARYING).ssa
        shifted = emit(f"fadd {real} {q}, {self._constant('0x4338000000000000', f64, VARYING)}")
        return emit(f"trunc {bits} {emit(f'bitcast {real} {shifted} to {bits}')} to {t}")

    @staticmethod
    def _power_of_two(value: Value, dtype: DType) -> int | None:
        """log2 of a positive literal power of two that the type holds."""
        if not value.ssa.isdecimal():
            return None
        number = int(value.ssa)
        return number.bit_length() - 1 if 0 < number <= dtype.max and number & (number - 1) == 0 else None

    def _emit_integer_power(self, base: Value, exponent: Value, dtype: DType) -> Value:
        """A small literal exponent becomes its multiplications, which vectorise; others call a helper."""
        shape, (x, y) = self._meet(base, exponent)
        if not exponent.ssa.isdecimal() or int(exponent.ssa) > _LONGEST_INLINE_EXPONENT:
            if shape is VARYING:
                return self._lane_by_lane(
                    dtype, [base, exponent], lambda v: self._emit_integer_power(v[0], v[1], dtype)
                )
            return self._helper(llvm_helpers.integer_power, dtype, f"{llvm_type(dtype)} {x}", f"i64 {y}")
        t, one = self._type(dtype, shape), self._constant("1", dtype, shape)
        rest, square, result = int(exponent.ssa), x, one
        while rest:
            if rest & 1:
                result = square if result == one else self.f.emit(f"mul {t} {result}, {square}")
            rest >>= 1
            if rest:
                square = self.f.emit(f"mul {t} {square}, {square}")
        return Value(result, dtype, shape)

    def _emit_float_power(self, base: Value, exponent: Value, dtype: DType) -> Value:
        """A literal exponent that is small and whole takes multiplications, rounded as one operation."""
        number = from_literal(exponent.ssa) if self._is_literal(exponent) else math.nan
        if number == 2.0:
            return self._emit_binop("*", base, base, dtype)
        if number == 0.5:
            return self._own_function("root", dtype, base)
        if number == -1.0:
            return self._emit_binop("/", Value(literal(1.0, dtype), dtype), base, dtype)
        if 1.0 <= number <= _LONGEST_INLINE_EXPONENT and number.is_integer():
            return self._own_function(f"pow{int(number)}", dtype, base)
        return self._own_function("pow", dtype, base, exponent)

    def _emit_float_division(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """Floating `//` and `%`, as CPython defines them."""
        t = llvm_type(dtype)
        self._declare_math(dtype, "copysign", 2)
        self._declare_math(dtype, "floor", 1)
        make = llvm_helpers.float_floor_division if op == "//" else llvm_helpers.float_remainder
        return self._helper(make, dtype, f"{t} {a.ssa}", f"{t} {b.ssa}")

    def _declare_math(self, dtype: DType, name: str, arity: int) -> None:
        self.module.declare(llvm_type(dtype), f"llvm.{name}.{self._suffix(dtype)}", [llvm_type(dtype)] * arity)

    # -- unary operators, comparisons, conditions, conversions

    def _emit_unary(self, op: str, a: Value, dtype: DType) -> Value:
        t = self._type(dtype, a.shape)
        minus = None if a.shape is VARYING else -a.shape
        if op == "~":
            ones = self._constant("-1", dtype, a.shape)
            return Value(self.f.emit(f"xor {t} {a.ssa}, {ones}"), dtype, minus)
        if dtype.is_float:
            return Value(self.f.emit(f"fneg {t} {a.ssa}"), dtype, a.shape)
        return Value(self.f.emit(f"sub {t} {self._constant('0', dtype, a.shape)}, {a.ssa}"), dtype, minus)

    def _emit_compare(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        """A condition. With NaN only `!=` is true."""
        if dtype.is_float:
            predicate = "fcmp " + {"==": "oeq", "!=": "une"}.get(op, "o" + _ORDER.get(op, ""))
        elif op in _ORDER:
            predicate = f"icmp {'s' if dtype.is_signed else 'u'}{_ORDER[op]}"
        else:
            predicate = f"icmp {'eq' if op == '==' else 'ne'}"
        shape, (x, y) = self._meet(a, b)
        return Value(self.f.emit(f"{predicate} {self._type(dtype, shape)} {x}, {y}"), BIT, shape)

    def _to_bit(self, value: Value) -> Value:
        """A number as a condition: not zero is true, and so is NaN."""
        shape, (x,) = self._meet(value)
        compare, zero = ("fcmp une", "0.0") if value.dtype.is_float else ("icmp ne", "0")
        zero = self._constant(zero, value.dtype, shape)
        return Value(self.f.emit(f"{compare} {self._type(value.dtype, shape)} {x}, {zero}"), BIT, shape)

    def _from_bit(self, condition: Value) -> Value:
        source, target = (self._type(t, condition.shape) for t in (BIT, i32))
        return Value(self.f.emit(f"zext {source} {condition.ssa} to {target}"), i32, condition.shape)

    def _emit_cast(self, value: Value, target: DType, shape: Shape = UNIFORM) -> Value:
        """`shape` is that of the result: a wider integer is not linear where a narrower one wraps."""
        source = value.dtype
        if value.shape is not VARYING and self._is_literal(value) and source.is_integer and target.is_integer:
            # Before the test of equal widths: a constant's text holds its value, so its sign must follow its type.
            return Value(str(target.wrap(int(value.ssa))), target)
        if value.shape is not VARYING and self._is_literal(value) and source.is_integer and target.is_float:
            return Value(literal(int(value.ssa), target), target)
        value = self._shaped(value, shape)
        if llvm_type(source) == llvm_type(target):
            return Value(value.ssa, target, shape)
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
        source_type, target_type = (self._type(t, shape) for t in (source, target))
        return Value(self.f.emit(f"{op} {source_type} {value.ssa} to {target_type}"), target, shape)

    # -- builtins

    def _emit_builtin(self, name: str, arguments: list[Value], dtype: DType) -> Value:
        """A builtin whose arguments have type `dtype`."""
        if name in LANE_BY_LANE and self._has_own_functions:
            return self._own_function(name, dtype, *arguments)
        shape, x = self._meet(*arguments)
        if shape is VARYING and name in LANE_BY_LANE:
            return self._lane_by_lane(dtype, arguments, lambda v: self._emit_builtin(name, v, dtype))
        if name in _INTRINSIC:
            return self._intrinsic(_INTRINSIC[name], dtype, *x, shape=shape)
        if name in _LIBRARY:
            symbol = name + ("f" if dtype is f32 else "")
            return self._call(dtype, symbol, (llvm_type(dtype), x[0]), pure=PURE)
        if name in ("min", "max"):
            return self._emit_extremum(name, x, dtype, shape)
        if name == "abs":
            return self._emit_abs(Value(x[0], dtype, shape), dtype)
        if name in ("popcount", "clz", "ctz"):
            return self._emit_bit_count(name, Value(x[0], dtype, shape), dtype)
        return self._from_bit(self._emit_predicate(name, arguments[0], dtype))

    @property
    def _has_own_functions(self) -> bool:
        """Whether mathematical functions are ours, for scalars and lanes alike; they need exact products."""
        return self.target is not None and self.target.fused

    def _own_function(self, name: str, dtype: DType, *arguments: Value) -> Value:
        shape, operands = self._meet(*arguments)
        if shape is not VARYING:
            return self._call_own(name, dtype, 0, operands)
        assert self.target is not None
        lanes = min(self.width, self.target.size // _BYTES_OF_A_LANE)
        if lanes == self.width:
            return self._call_own(name, dtype, lanes, operands)
        t, u = self._type(dtype, VARYING), f"<{lanes} x {llvm_type(dtype)}>"
        parts: list[str] = []
        for first in range(0, self.width, lanes):
            places = ", ".join(f"i32 {first + k}" for k in range(lanes))
            some = [self.f.emit(f"shufflevector {t} {x}, {t} poison, <{lanes} x i32> <{places}>") for x in operands]
            parts.append(self._call_own(name, dtype, lanes, some).ssa)
        while len(parts) > 1:  # neighbours together, until there is one
            lanes *= 2
            places = ", ".join(f"i32 {k}" for k in range(lanes))
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.f.emit(f"shufflevector {u} {a}, {u} {b}, <{lanes} x i32> <{places}>") for a, b in pairs]
            u = f"<{lanes} x {llvm_type(dtype)}>"
        return Value(parts[0], dtype, VARYING)

    def _call_own(self, name: str, dtype: DType, lanes: int, operands: list[str]) -> Value:
        t = f"<{lanes} x {llvm_type(dtype)}>" if lanes else llvm_type(dtype)
        from tack.codegen.llvm_math import math_function  # most kernels have none, and need not wait for it

        symbol = math_function(self.module, name, dtype, lanes)
        arguments = ", ".join(f"{t} {x}" for x in operands)
        return Value(self.f.emit(f"call {t} @{symbol}({arguments})"), dtype, VARYING if lanes else UNIFORM)

    def _emit_extremum(self, name: str, operands: list[str], dtype: DType, shape: Shape) -> Value:
        """Folded from the left. Floating: the number beside one NaN, NaN for two."""
        intrinsic = f"{name}num" if dtype.is_float else ("s" if dtype.is_signed else "u") + name
        result = Value(operands[0], dtype, shape)
        for operand in operands[1:]:
            result = self._intrinsic(intrinsic, dtype, result.ssa, operand, shape=shape)
        return result

    def _emit_abs(self, value: Value, dtype: DType) -> Value:
        if dtype.is_float:
            return self._intrinsic("fabs", dtype, value.ssa, shape=value.shape)
        if not dtype.is_signed:
            return value
        # false: the signed minimum is defined, and gives itself.
        operands = (self._type(dtype, value.shape), value.ssa), ("i1", "false")
        return self._call(dtype, f"llvm.abs.{self._suffix(dtype, value.shape)}", *operands, shape=value.shape)

    def _emit_bit_count(self, name: str, operand: Value, dtype: DType) -> Value:
        t, shape = self._type(dtype, operand.shape), operand.shape
        if name == "popcount":
            count = self._intrinsic("ctpop", dtype, operand.ssa, shape=shape)
        else:  # false: zero is defined, and gives the width
            intrinsic = f"llvm.{'ctlz' if name == 'clz' else 'cttz'}.{self._suffix(dtype, shape)}"
            count = self._call(dtype, intrinsic, (t, operand.ssa), ("i1", "false"), shape=shape)
        if dtype.bits == 32:
            return Value(count.ssa, i32, shape)
        op = "trunc" if dtype.bits > 32 else "zext"
        return Value(self.f.emit(f"{op} {t} {count.ssa} to {self._type(i32, shape)}"), i32, shape)

    def _emit_predicate(self, name: str, operand: Value, dtype: DType) -> Value:
        """isnan, isinf or isfinite as a condition."""
        shape, (x,) = self._meet(operand)
        t = self._type(dtype, shape)
        if name == "isnan":
            return Value(self.f.emit(f"fcmp uno {t} {x}, {self._constant('0.0', dtype, shape)}"), BIT, shape)
        size = self._intrinsic("fabs", dtype, x, shape=shape).ssa
        infinity = self._constant(literal(float("inf"), dtype), dtype, shape)
        compare = "oeq" if name == "isinf" else "one"
        return Value(self.f.emit(f"fcmp {compare} {t} {size}, {infinity}"), BIT, shape)
