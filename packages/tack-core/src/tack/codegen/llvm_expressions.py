"""Expressions in LLVM: a plain walk over typed IR, operands left to right."""

from __future__ import annotations

from typing import Final

from tack.codegen.llvm_arithmetic import ArithmeticEmitter
from tack.codegen.llvm_values import ArrayStorage, FunctionText, ModuleText, Value, literal, llvm_type, mangle
from tack.lang import ir
from tack.lang.types import DType, i64

_COMPARED_BUILTINS: Final = ("isnan", "isinf", "isfinite")
# Cheap, cannot trap and has no effect: such an operand may run although its value is not needed.
_SAFE_BUILTINS: Final = frozenset(
    {*_COMPARED_BUILTINS, *"sqrt floor ceil trunc round fabs abs copysign min max popcount clz ctz".split()}
)
_UNSAFE_OPERATORS: Final = frozenset({"//", "%", "**"})
_FLOAT_ATOMIC: Final = {"add": "fadd", "sub": "fsub", "min": "fmin", "max": "fmax", "exchange": "xchg"}
_INTEGER_ATOMIC: Final = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}


def function_symbol(name: str) -> str:
    """The LLVM name of a device-function instance."""
    return f"@func.{mangle(name)}"


def result_type(function: ir.IRFunction) -> str:
    """What the LLVM function of an instance returns: nothing, a number, or a structure of several."""
    types = [llvm_type(t) for t in function.results]
    return "void" if not types else types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"


class ExpressionEmitter(ArithmeticEmitter):
    """Walks expressions. `slots` has the storage of each scalar symbol of the function, `arrays` that of its arrays."""

    kernel: ir.IRKernel
    slots: dict[str, tuple[str, DType]]
    arrays: dict[str, ArrayStorage]

    def __init__(self) -> None:
        self.module = ModuleText()
        self.f = FunctionText()
        self._safe_expressions: dict[int, bool] = {}

    # -- values

    def _expr(self, node: ir.IRExpr) -> Value:
        match node:
            case ir.IRConst():
                return Value(literal(node.value, _typed(node)), _typed(node))
            case ir.IRVar():
                return self._read(node.name)
            case ir.IRArrayAttr():
                return self._array_attribute(node)
            case ir.IRLoad():
                return self._load(node)
            case ir.IRUnary():
                return self._emit_unary(node.op, self._expr(node.operand), _typed(node))
            case ir.IRBinOp():
                left = self._expr(node.left)
                return self._emit_binop(node.op, left, self._expr(node.right), _typed(node))
            case ir.IRCompare() | ir.IRBoolOp() | ir.IRNot():
                return self._from_i1(self._condition(node))
            case ir.IRSelect():
                return self._select(node)
            case ir.IRBind():
                value = self._expr(node.value)
                self._write(node.name, value)
                return value
            case ir.IRCast():
                return self._emit_cast(self._expr(node.operand), node.target)
            case ir.IRBuiltin():
                arguments = [self._expr(a) for a in node.args]
                return self._emit_builtin(node.name, arguments, _operand_type(node))
            case ir.IRAtomic():
                return self._atomic(node)
            case ir.IRCall():
                return Value(self._call_function(node), _typed(node))
        raise AssertionError(f"no lowering of {type(node).__name__}")

    def _read(self, name: str) -> Value:
        pointer, dtype = self.slots[name]
        return Value(self.f.emit(f"load {llvm_type(dtype)}, ptr {pointer}"), dtype)

    def _write(self, name: str, value: Value) -> None:
        pointer, dtype = self.slots[name]
        self.f.do(f"store {llvm_type(dtype)} {value.ssa}, ptr {pointer}")

    # -- conditions

    def _condition(self, node: ir.IRExpr) -> str:
        """An expression as an i1, without the detour through 0 and 1."""
        match node:
            case ir.IRCompare():
                left = self._expr(node.left)
                return self._emit_compare(node.op, left, self._expr(node.right), _operand_type(node))
            case ir.IRNot():
                return self.f.emit(f"xor i1 {self._condition(node.operand)}, true")
            case ir.IRBoolOp():
                return self._short_circuit(node)
            case ir.IRBuiltin(name=name) if name in _COMPARED_BUILTINS:
                return self._emit_predicate(name, self._expr(node.args[0]).ssa, _operand_type(node))
        return self._to_i1(self._expr(node))

    def _short_circuit(self, node: ir.IRBoolOp) -> str:
        result = self._condition(node.values[0])
        for value in node.values[1:]:
            if self._is_safe(value):  # select, not `and`: the right side may be poison where it does not count
                right = self._condition(value)
                arms = f"i1 {right}, i1 false" if node.op == "and" else f"i1 true, i1 {right}"
                result = self.f.emit(f"select i1 {result}, {arms}")
                continue
            right_label, join, before = self.f.label("right"), self.f.label("join"), self.f.block
            known = "false" if node.op == "and" else "true"
            self.f.cond_br(result, *((right_label, join) if node.op == "and" else (join, right_label)))
            self.f.open(right_label)
            right, after = self._condition(value), self.f.block
            self.f.br(join)
            self.f.open(join)
            result = self.f.emit(f"phi i1 [ {known}, %{before} ], [ {right}, %{after} ]")
        return result

    def _select(self, node: ir.IRSelect) -> Value:
        """Only the chosen arm runs; where nobody can tell the difference, both do and no branch is needed."""
        dtype = _typed(node)
        t, cond = llvm_type(dtype), self._condition(node.cond)
        if self._is_safe(node.then) and self._is_safe(node.other):
            then, other = self._expr(node.then), self._expr(node.other)
            return Value(self.f.emit(f"select i1 {cond}, {t} {then.ssa}, {t} {other.ssa}"), dtype)
        arms, join = [], self.f.label("join")
        labels = self.f.label("then"), self.f.label("else")
        self.f.cond_br(cond, *labels)
        for label, arm in zip(labels, (node.then, node.other), strict=True):
            self.f.open(label)
            value = self._expr(arm)
            arms.append(f"[ {value.ssa}, %{self.f.block} ]")
            self.f.br(join)
        self.f.open(join)
        return Value(self.f.emit(f"phi {t} {', '.join(arms)}"), dtype)

    def _is_safe(self, node: ir.IRExpr) -> bool:
        known = self._safe_expressions.get(id(node))
        if known is None:
            known = self._has_safe_operation(node) and all(self._is_safe(child) for child in ir.children(node))
            self._safe_expressions[id(node)] = known
        return known

    @staticmethod
    def _has_safe_operation(node: ir.IRExpr) -> bool:
        match node:
            case ir.IRLoad() | ir.IRAtomic() | ir.IRCall() | ir.IRArrayRef():
                return False
            case ir.IRBinOp():
                return node.op not in _UNSAFE_OPERATORS
            case ir.IRBuiltin():
                return node.name in _SAFE_BUILTINS
        return True

    # -- memory

    def _array_attribute(self, node: ir.IRArrayAttr) -> Value:
        extents = self.arrays[node.array].extents
        if node.attr == "shape":
            return Value(extents[node.axis], i64)
        if node.attr == "ndim":
            return Value(str(len(extents)), i64)
        return Value(self._product(extents), i64)

    def _product(self, factors: tuple[str, ...]) -> str:
        result = factors[0] if factors else "1"
        for factor in factors[1:]:
            result = self.f.emit(f"mul i64 {result}, {factor}")
        return result

    def _address(self, array: str, index: list[ir.IRExpr]) -> str:
        """A pointer to one element: an index a dimension, or one flat index."""
        storage, values = self.arrays[array], [self._expr(i).ssa for i in index]
        flat = values[0] if values else "0"
        for extent, value in zip(storage.extents[1:], values[1:], strict=False):
            row = self.f.emit(f"mul i64 {flat}, {extent}")
            flat = self.f.emit(f"add i64 {row}, {value}")
        return self.f.emit(f"getelementptr {llvm_type(storage.dtype)}, ptr {storage.pointer}, i64 {flat}")

    def _load(self, node: ir.IRLoad) -> Value:
        storage, address = self.arrays[node.array], self._address(node.array, node.index)
        t = llvm_type(storage.dtype)
        return Value(self.f.emit(f"load {t}, ptr {address}, align {storage.align}"), storage.dtype)

    def _atomic(self, node: ir.IRAtomic) -> Value:
        """Relaxed, and the old value. The alignment is the element's own: a lock needs that."""
        dtype, address = self.arrays[node.array].dtype, self._address(node.array, node.index)
        operands = [self._expr(a).ssa for a in node.args]
        t = llvm_type(dtype)
        if node.op == "cas":
            return self._compare_and_swap(dtype, address, operands)
        if dtype.is_float:
            op = _FLOAT_ATOMIC[node.op]
        else:
            op = _INTEGER_ATOMIC.get(node.op) or ("" if dtype.is_signed else "u") + node.op
        return Value(self.f.emit(f"atomicrmw {op} ptr {address}, {t} {operands[0]} monotonic"), dtype)

    def _compare_and_swap(self, dtype: DType, address: str, operands: list[str]) -> Value:
        t, bits = llvm_type(dtype), f"i{dtype.bits}"
        if dtype.is_float:
            operands = [self.f.emit(f"bitcast {t} {x} to {bits}") for x in operands]
        pair = self.f.emit(
            f"cmpxchg ptr {address}, {bits} {operands[0]}, {bits} {operands[1]} monotonic monotonic, "
            f"align {dtype.itemsize}"
        )
        old = self.f.emit(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        return Value(self.f.emit(f"bitcast {bits} {old} to {t}") if dtype.is_float else old, dtype)

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


def _typed(node: ir.IRExpr) -> DType:
    assert node.dtype is not None, "the generator takes typed IR only"
    return node.dtype


def _operand_type(node: ir.IRCompare | ir.IRBuiltin) -> DType:
    assert node._operand_type is not None, "the generator takes typed IR only"
    return node._operand_type
