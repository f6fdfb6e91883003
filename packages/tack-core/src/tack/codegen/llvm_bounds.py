"""Bounds of parallel loops in LLVM: Python's integers where they fit i64, and a status where they do not."""

from __future__ import annotations

from tack.codegen.llvm_arithmetic import ArithmeticEmitter
from tack.lang import ir
from tack.lang.types import ArrayType, DType, i64

_CHECKED = {"+": "sadd", "-": "ssub", "*": "smul"}
_OVERFLOW, _ZERO_DIVISION = "bounds.overflow", "bounds.zero"
_STATUS = {_OVERFLOW: 1, _ZERO_DIVISION: 2}  # as runtime/backend.py numbers them


class BoundsEmitter(ArithmeticEmitter):
    """Host expressions, evaluated in the launch function. Every failure leaves it at once, before anything has run."""

    kernel: ir.IRKernel

    def _begin_bounds(self, block: str) -> None:
        self._bounds_block = block
        self._failures: set[str] = set()
        self._positions = {param.name: position for position, param in enumerate(self.kernel.params)}

    def _end_bounds(self) -> None:
        for label in sorted(self._failures):
            self.f.open(label)
            self.f.close(f"ret i32 {_STATUS[label]}")

    def _leave_if(self, cond: str, label: str) -> None:
        """Leave the launch with a status where `cond` holds."""
        self._failures.add(label)
        ok = self.f.label("ok")
        self.f.cond_br(cond, label, ok)
        self.f.open(ok)

    def _bound(self, node: ir.IRExpr) -> str:
        """A host expression as i64."""
        match node:
            case ir.IRConst():
                value = int(node.value)
                if not i64.min <= value <= i64.max:
                    self._leave_if("true", _OVERFLOW)
                    return "0"
                return str(value)
            case ir.IRVar():
                return self._scalar_argument(node.name)
            case ir.IRArrayAttr():
                return self._extent(node)
            case ir.IRUnary():
                return self._checked("ssub", "0", self._bound(node.operand))
            case ir.IRBinOp():
                left = self._bound(node.left)
                return self._bound_operation(node.op, left, self._bound(node.right))
            case ir.IRBuiltin():
                result, *others = [self._bound(a) for a in node.args]
                for other in others:
                    result = self._intrinsic(f"s{node.name}", i64, result, other).ssa
                return result
        raise AssertionError(f"{type(node).__name__} is no host expression")

    def _scalar_argument(self, name: str) -> str:
        position = self._positions[name]
        dtype = self.kernel.params[position].type
        assert isinstance(dtype, DType) and dtype.is_integer, "a bound is made of integers"
        word = self._block_word(self._bounds_block, position, 0, "i64")
        if dtype.bits == 64 and not dtype.is_signed:
            self._leave_if(self.f.emit(f"icmp slt i64 {word}, 0"), _OVERFLOW)
        return word

    def _extent(self, node: ir.IRArrayAttr) -> str:
        position = self._positions[node.array]
        array_type = self.kernel.params[position].type
        assert isinstance(array_type, ArrayType)
        if node.attr == "ndim":
            return str(array_type.ndim)
        extents = self._block_word(self._bounds_block, position, 2, "ptr")
        axes = [node.axis] if node.attr == "shape" else range(array_type.ndim)
        result = "1"
        for axis in axes:
            place = self.f.emit(f"getelementptr i64, ptr {extents}, i64 {axis}")
            extent = self.f.emit(f"load i64, ptr {place}")
            result = extent if result == "1" else self.f.emit(f"mul i64 {result}, {extent}")
        return result

    def _checked(self, intrinsic: str, a: str, b: str) -> str:
        """``sadd``, ``ssub``, ``smul`` or ``umul``; leaves if the result does not fit."""
        callee = self.module.declare("{ i64, i1 }", f"llvm.{intrinsic}.with.overflow.i64", ["i64", "i64"])
        pair = self.f.emit(f"call {{ i64, i1 }} {callee}(i64 {a}, i64 {b})")
        self._leave_if(self.f.emit(f"extractvalue {{ i64, i1 }} {pair}, 1"), _OVERFLOW)
        return self.f.emit(f"extractvalue {{ i64, i1 }} {pair}, 0")

    def _bound_operation(self, op: str, a: str, b: str) -> str:
        if op in _CHECKED:
            return self._checked(_CHECKED[op], a, b)
        emit = self.f.emit
        self._leave_if(emit(f"icmp eq i64 {b}, 0"), _ZERO_DIVISION)
        minus_one = emit(f"icmp eq i64 {b}, -1")
        if op == "//":  # the one quotient that does not fit
            smallest = emit(f"icmp eq i64 {a}, {i64.min}")
            self._leave_if(emit(f"and i1 {smallest}, {minus_one}"), _OVERFLOW)
        # A remainder by -1 is 0, but the processor's division of the smallest i64 traps: divide by 1 instead.
        divisor = emit(f"select i1 {minus_one}, i64 1, i64 {b}") if op == "%" else b
        r = emit(f"srem i64 {a}, {divisor}")
        differ = emit(f"icmp slt i64 {emit(f'xor i64 {r}, {divisor}')}, 0")
        adjust = emit(f"and i1 {differ}, {emit(f'icmp ne i64 {r}, 0')}")
        if op == "%":
            return emit(f"select i1 {adjust}, i64 {emit(f'add i64 {r}, {divisor}')}, i64 {r}")
        return emit(f"add i64 {emit(f'sdiv i64 {a}, {b}')}, {emit(f'sext i1 {adjust} to i64')}")

    def _iterations(self, start: str, stop: str, step: str) -> str:
        """How many values a range has, as u64; none for a step that is not positive, which must not trap here."""
        emit = self.f.emit
        ordered = emit(f"icmp slt i64 {start}, {stop}")
        some = emit(f"and i1 {ordered}, {emit(f'icmp sgt i64 {step}, 0')}")
        last = emit(f"sub i64 {emit(f'sub i64 {stop}, {start}')}, 1")
        divisor = emit(f"select i1 {some}, i64 {step}, i64 1")
        whole = emit(f"udiv i64 {last}, {divisor}")
        count = emit(f"add i64 {whole}, 1")  # as u64 it cannot wrap: at most 2**64 - 1
        return emit(f"select i1 {some}, i64 {count}, i64 0")

    def _total(self, counts: list[str]) -> str:
        """The product of the counts; zero as soon as one of them is, whatever the others are."""
        emit = self.f.emit
        empty = "false"
        for count in counts:
            empty = emit(f"or i1 {empty}, {emit(f'icmp eq i64 {count}, 0')}")
        total = "1"
        for count in counts:
            factor = emit(f"select i1 {empty}, i64 0, i64 {count}")
            total = factor if total == "1" else self._checked("umul", total, factor)
        self._leave_if(emit(f"icmp slt i64 {total}, 0"), _OVERFLOW)
        return total

    def _block_word(self, block: str, position: int, word: int, type_: str) -> str:
        """Load a word of a parameter's entry in the argument block."""
        place = self.f.emit(f"getelementptr i64, ptr {block}, i64 {3 * position + word}")
        return self.f.emit(f"load {type_}, ptr {place}")
