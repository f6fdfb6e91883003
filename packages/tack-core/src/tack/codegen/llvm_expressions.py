"""Expressions in LLVM: a plain walk over typed IR, operands left to right."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from tack.codegen.llvm_arithmetic import LANE_BY_LANE
from tack.codegen.llvm_memory import MemoryEmitter, operand_type, typed
from tack.codegen.llvm_values import BIT, FunctionText, ModuleText, Value, literal, llvm_type, mangle
from tack.lang import ir
from tack.lang.inlining import IRInlined
from tack.lang.shapes import UNIFORM, VARYING
from tack.lang.types import DType

_COMPARED_BUILTINS: Final = ("isnan", "isinf", "isfinite")
# Cheap, cannot trap and has no effect: such an operand may run although its value is not needed.
_SAFE_BUILTINS: Final = frozenset(
    {*_COMPARED_BUILTINS, *"sqrt floor ceil trunc round fabs abs copysign min max popcount clz ctz".split()}
)
_UNSAFE_OPERATORS: Final = frozenset({"//", "%", "**"})


def function_symbol(name: str) -> str:
    """The LLVM name of a device-function instance."""
    return f"@func.{mangle(name)}"


def result_type(function: ir.IRFunction) -> str:
    """What the LLVM function of an instance returns: nothing, a number, or a structure of several."""
    types = [llvm_type(t) for t in function.results]
    return "void" if not types else types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"


class ExpressionEmitter(MemoryEmitter):
    """Walks expressions. `slots` has the storage of each scalar symbol of the function, in the shape of the symbol."""

    kernel: ir.IRKernel
    slots: dict[str, tuple[str, DType]]

    def __init__(self) -> None:
        super().__init__()
        self.module = ModuleText()
        self.f = FunctionText()
        self._safe_expressions: dict[int, bool] = {}

    # -- values

    def _expr(self, node: ir.IRExpr) -> Value:
        match node:
            case ir.IRConst():
                return Value(literal(node.value, typed(node)), typed(node))
            case ir.IRVar():
                return self._read(node.name)
            case ir.IRArrayAttr():
                return self._array_attribute(node)
            case ir.IRLoad():
                return self._load(node)
            case ir.IRUnary():
                return self._emit_unary(node.op, self._expr(node.operand), typed(node))
            case ir.IRBinOp():
                left = self._expr(node.left)
                return self._emit_binop(node.op, left, self._expr(node.right), typed(node), self.shapes.of(node))
            case ir.IRCompare() | ir.IRBoolOp() | ir.IRNot():
                return self._from_bit(self._condition(node))
            case ir.IRSelect():
                return self._select(node)
            case ir.IRBind():
                value = self._expr(node.value)
                self._write(node.name, value)
                return value
            case ir.IRCast():
                return self._emit_cast(self._expr(node.operand), node.target, self.shapes.of(node))
            case ir.IRBuiltin():
                arguments = [self._expr(a) for a in node.args]
                return self._emit_builtin(node.name, arguments, operand_type(node))
            case ir.IRAtomic():
                return self._atomic(node)
            case IRInlined():
                self._inlined(node)
                return self._read(node.results[0])
            case ir.IRCall():
                return Value(self._call_function(node), typed(node))
        raise AssertionError(f"no lowering of {type(node).__name__}")

    def _inlined(self, node: IRInlined) -> None:
        """Run a call that has its function's body in place; its results are in its result symbols."""
        raise NotImplementedError

    def _read(self, name: str) -> Value:
        pointer, dtype = self.slots[name]
        shape = self.shapes.of_name(name)
        return Value(self.f.emit(f"load {self._type(dtype, shape)}, ptr {pointer}"), dtype, shape)

    def _write(self, name: str, value: Value, blend: bool = False) -> None:
        """Set a symbol; with `blend`, lanes that are off keep what it was for them."""
        pointer, dtype = self.slots[name]
        shape = self.shapes.of_name(name)
        t, ssa = self._type(dtype, shape), self._shaped(value, shape).ssa
        if blend and self.mask is not None:
            old = self.f.emit(f"load {t}, ptr {pointer}")
            ssa = self.f.emit(f"select {self._mask_type} {self.mask}, {t} {ssa}, {t} {old}")
        self.f.do(f"store {t} {ssa}, ptr {pointer}")

    # -- conditions

    def _condition(self, node: ir.IRExpr) -> Value:
        """An expression as a `BIT`, without the detour through 0 and 1."""
        match node:
            case ir.IRCompare():
                left = self._expr(node.left)
                return self._emit_compare(node.op, left, self._expr(node.right), operand_type(node))
            case ir.IRNot():
                condition = self._condition(node.operand)
                t, true = self._type(BIT, condition.shape), self._constant("true", BIT, condition.shape)
                return Value(self.f.emit(f"xor {t} {condition.ssa}, {true}"), BIT, condition.shape)
            case ir.IRBoolOp():
                return self._short_circuit(node)
            case ir.IRBuiltin(name=name) if name in _COMPARED_BUILTINS:
                return self._emit_predicate(name, self._expr(node.args[0]), operand_type(node))
        return self._to_bit(self._expr(node))

    def _short_circuit(self, node: ir.IRBoolOp) -> Value:
        result = self._condition(node.values[0])
        for value in node.values[1:]:
            if result.shape is VARYING or self.shapes.of(value) != UNIFORM:
                result = self._next_under_mask(node.op, result, value)
                continue
            if self._is_safe(value):  # select, not `and`: the right side may be poison where it does not count
                right = self._condition(value).ssa
                arms = f"i1 {right}, i1 false" if node.op == "and" else f"i1 true, i1 {right}"
                result = Value(self.f.emit(f"select i1 {result.ssa}, {arms}"), BIT)
                continue
            right_label, join, before = self.f.label("right"), self.f.label("join"), self.f.block
            known = "false" if node.op == "and" else "true"
            self.f.cond_br(result.ssa, *((right_label, join) if node.op == "and" else (join, right_label)))
            self.f.open(right_label)
            right, after = self._condition(value).ssa, self.f.block
            self.f.br(join)
            self.f.open(join)
            result = Value(self.f.emit(f"phi i1 [ {known}, %{before} ], [ {right}, %{after} ]"), BIT)
        return result

    def _next_under_mask(self, op: str, known: Value, node: ir.IRExpr) -> Value:
        """The next operand of a short circuit, for the lanes that earlier ones leave open."""
        left, m = self._vector(known), self._mask_type
        open_ = left if op == "and" else self._mask_not(left)
        right = self._vector(self._operand_under(open_, node, lambda: self._condition(node), BIT))
        arms = f"{m} {right}, {m} zeroinitializer" if op == "and" else f"{m} splat (i1 true), {m} {right}"
        return Value(self.f.emit(f"select {m} {left}, {arms}"), BIT, VARYING)

    def _operand_under(self, condition: str, node: ir.IRExpr, emit: Callable[[], Value], dtype: DType) -> Value:
        """An operand that only lanes with this condition may evaluate. Calls are skipped if there are none."""
        if self._is_safe(node):
            return emit()
        mask = self._mask_and(condition)
        if not self._is_long(node):
            with self._under(mask, False):
                return emit()
        t, go, end = self._type(dtype, VARYING), self.f.label("some"), self.f.label("none")
        slot = self.f.slot(t, zero=False)
        self.f.do(f"store {t} zeroinitializer, ptr {slot}")
        self.f.cond_br(self._any(mask), go, end)
        self.f.open(go)
        with self._under(mask, True):
            self.f.do(f"store {t} {self._vector(emit())}, ptr {slot}")
        self.f.br(end)
        self.f.open(end)
        return Value(self.f.emit(f"load {t}, ptr {slot}"), dtype, VARYING)

    @staticmethod
    def _is_long(node: ir.IRExpr) -> bool:
        """Whether an operand has a loop in it, or what takes long and is not worth running for no lane."""
        for inner in ir.walk(node):
            match inner:
                case IRInlined() | ir.IRAtomic():
                    return True
                case ir.IRBuiltin(name=name) if name in LANE_BY_LANE:
                    return True
                case ir.IRBinOp(op="//" | "%" | "**"):
                    return True
        return False

    def _select(self, node: ir.IRSelect) -> Value:
        """Only the chosen arm runs; where nobody can tell the difference, both do and no branch is needed."""
        dtype, shape = typed(node), self.shapes.of(node)
        t, cond = self._type(dtype, shape), self._condition(node.cond)
        if cond.shape is VARYING:
            return self._select_lanes(node, cond.ssa)
        if self._is_safe(node.then) and self._is_safe(node.other):
            then, other = (self._shaped(self._expr(arm), shape).ssa for arm in (node.then, node.other))
            return Value(self.f.emit(f"select i1 {cond.ssa}, {t} {then}, {t} {other}"), dtype, shape)
        arms, join = [], self.f.label("join")
        labels = self.f.label("then"), self.f.label("else")
        self.f.cond_br(cond.ssa, *labels)
        for label, arm in zip(labels, (node.then, node.other), strict=True):
            self.f.open(label)
            value = self._shaped(self._expr(arm), shape).ssa
            arms.append(f"[ {value}, %{self.f.block} ]")
            self.f.br(join)
        self.f.open(join)
        return Value(self.f.emit(f"phi {t} {', '.join(arms)}"), dtype, shape)

    def _select_lanes(self, node: ir.IRSelect, cond: str) -> Value:
        dtype = typed(node)
        arms = []
        for arm, when in ((node.then, cond), (node.other, self._mask_not(cond))):
            value = self._operand_under(when, arm, functools.partial(self._expr, arm), dtype)
            arms.append(f"{self._type(dtype, VARYING)} {self._vector(value)}")
        return Value(self.f.emit(f"select {self._mask_type} {cond}, {', '.join(arms)}"), dtype, VARYING)

    def _is_safe(self, node: ir.IRExpr) -> bool:
        known = self._safe_expressions.get(id(node))
        if known is None:
            known = self._has_safe_operation(node) and all(self._is_safe(child) for child in ir.children(node))
            self._safe_expressions[id(node)] = known
        return known

    @staticmethod
    def _has_safe_operation(node: ir.IRExpr) -> bool:
        match node:
            case ir.IRLoad() | ir.IRAtomic() | ir.IRCall() | ir.IRArrayRef() | IRInlined():
                return False
            case ir.IRBinOp():
                return node.op not in _UNSAFE_OPERATORS
            case ir.IRBuiltin():
                return node.name in _SAFE_BUILTINS
        return True

    # -- calls

    def _call_function(self, node: ir.IRCall) -> str:
        """Call a device-function instance; the SSA name of what it returns ("" for nothing)."""
        assert node.symbol is not None
        function = self.kernel.functions[node.symbol]
        arguments: list[str] = []
        for argument in node.args:
            if isinstance(argument, ir.IRArrayRef):
                storage = self.arrays[argument.name]
                arguments += [f"ptr {storage.pointer}", *(f"i64 {extent}" for extent in storage.extents)]
            else:
                value = self._expr(argument)
                arguments.append(f"{llvm_type(value.dtype)} {value.ssa}")
        text = f"call {result_type(function)} {function_symbol(node.symbol)}({', '.join(arguments)})"
        if function.results:
            return self.f.emit(text)
        self.f.do(text)
        return ""
