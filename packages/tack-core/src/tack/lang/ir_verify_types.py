"""The typed half of `ir_verify`: every expression has the type that its operands and its row in `ops` give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tack.lang import ops
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAssign,
    IRAtomic,
    IRBind,
    IRBinOp,
    IRBlockReduce,
    IRBoolOp,
    IRBuiltin,
    IRCall,
    IRCast,
    IRCompare,
    IRConst,
    IRExpr,
    IRExprStmt,
    IRFor,
    IRFunction,
    IRGroupIndex,
    IRKernel,
    IRLoad,
    IRLocalArray,
    IRNot,
    IRParallelFor,
    IRRange,
    IRReturn,
    IRSelect,
    IRStore,
    IRThreadId,
    IRUnary,
    IRUnpack,
    IRVar,
    children,
)
from tack.lang.types import ArrayType, DType, f32, f64, i32, i64, u64


def require(condition: bool, node: Any, message: str) -> None:
    """Raise AssertionError, naming the node and its place, unless the condition holds."""
    if not condition:
        raise AssertionError(f"{node.loc}: {type(node).__name__}: {message}")


def verify_function_types(function: IRFunction, callees: Mapping[str, IRFunction]) -> None:
    """Check the types of one typed function; `callees` are the instances listed before it."""
    _TypeVerifier(function, callees).run()


class _TypeVerifier:
    def __init__(self, function: IRFunction, callees: Mapping[str, IRFunction]) -> None:
        self.function, self.callees = function, callees

    def run(self) -> None:
        function = self.function
        for symbol in function.symbols.values():
            where = f"symbol {symbol.name}"
            one = (symbol.dtype is None) != (symbol.array_type is None)
            require(one, function, f"{where} needs a dtype or an array type, and not both")
            is_array = symbol.kind in ("array", "local_array")
            require(is_array == (symbol.array_type is not None), function, f"{where} of kind {symbol.kind}")
        for param in function.params:
            symbol = function.symbols[param.name]
            typed = param.type is not None and param.type in (symbol.dtype, symbol.array_type)
            require(typed, function, f"parameter {param.name} is {param.type}, its symbol is not")
        for table in function.tables.values():
            array = function.symbols[table.name].array_type
            good = array is not None and array.dtype is table.dtype and array.shape == table.shape
            require(good and array is not None and array.space == "constant", function, f"type of table {table.name}")
        require(
            not isinstance(function, IRKernel) or len(function.results) < 2, function, "several results of a kernel"
        )
        for statement in function.body:
            self.statement(statement)

    # --------------------------------------------------------------------------------------------------- statements

    def statement(self, node: Any) -> None:
        match node:
            case IRAssign():
                dtype = node._resolved_type
                require(dtype is not None and dtype is self.scalar(node.name), node, f"_resolved_type of {node.name}")
                self.has(node.value, dtype, node)
            case IRUnpack():
                results = self.callee(node.call).results
                require(len(node.names) == len(results), node, f"{len(results)} results for {len(node.names)} names")
                for name, dtype in zip(node.names, results, strict=True):
                    require(self.scalar(name) is dtype, node, f"{name} is not {dtype}")
                self.call(node.call, results)
                return
            case IRStore():
                array = self.array(node.array, node)
                require(array.space != "constant", node, f"store to the table {node.array}")
                self.has(node.value, array.dtype, node)
                self.index(node.index, array, node)
            case IRExprStmt() if isinstance(node.value, IRCall):
                self.call(node.value, self.callee(node.value).results)
                return
            case IRFor():
                require(self.scalar(node.var) is i64, node, f"loop variable {node.var} is not i64")
                for bound in (node.start, node.stop, node.step):
                    self.has(bound, i64, node)
            case IRParallelFor():
                for name in node.vars:
                    require(self.scalar(name) is i64, node, f"loop variable {name} is not i64")
            case IRReturn():
                dtypes = tuple(value.dtype for value in node.values)
                require(dtypes == self.function.results, node, f"returns {dtypes}, not {self.function.results}")
            case IRLocalArray():
                array = self.array(node.name, node)
                require((array.dtype, array.shape) == (node.element, node.shape), node, f"array type of {node.name}")
        for child in children(node):
            if isinstance(child, IRRange):
                continue  # host expressions stay untyped; the structure was checked
            if isinstance(child, IRExpr):
                self.expr(child)
            else:
                self.statement(child)

    # -------------------------------------------------------------------------------------------------- expressions

    def expr(self, node: Any) -> None:
        require(node.dtype is not None, node, "no dtype")
        match node:
            case IRConst():
                self.const(node)
            case IRVar():
                require(node.dtype is self.scalar(node.name), node, f"{node.name} is not {node.dtype}")
            case IRUnary():
                self.has(node.operand, node.dtype, node)
                self.integers(ops.UNARY[node.op].rule is ops.Rule.BITWISE, node)
            case IRBinOp():
                self.binary(node)
            case IRCompare():
                require(node._operand_type is not None, node, "no _operand_type")
                self.all_have((node.left, node.right), node._operand_type, node)
                require(node.dtype is i32, node, "a comparison is not i32")
            case IRBoolOp() | IRNot():
                require(node.dtype is i32, node, "a truth value is not i32")
            case IRSelect():
                self.all_have((node.then, node.other), node.dtype, node)
            case IRBind():
                require(node.dtype is self.scalar(node.name), node, f"{node.name} is not {node.dtype}")
                self.has(node.value, node.dtype, node)
            case IRCast():
                require(node.dtype is node.target, node, f"casts to {node.target}, but is {node.dtype}")
                require(
                    node.explicit or node.operand.dtype is not node.target, node, "an implicit cast to the same type"
                )
            case IRBuiltin():
                self.builtin(node)
            case IRLoad():
                array = self.array(node.array, node)
                require(node.dtype is array.dtype, node, f"an element of {array} is not {node.dtype}")
                self.index(node.index, array, node)
            case IRArrayAttr():
                array = self.array(node.array, node)
                require(node.dtype is i64, node, "an extent is not i64")
                require(node.attr != "shape" or 0 <= node.axis < array.ndim, node, f"no axis {node.axis} in {array}")
            case IRAtomic():
                self.atomic(node)
            case IRThreadId() | IRGroupIndex():
                require(node.dtype is (i32 if isinstance(node, IRThreadId) else i64), node, f"is {node.dtype}")
            case IRBlockReduce():
                require(node.dtype is f32, node, f"a block reduction is {node.dtype}")
                self.has(node.value, f32, node)
            case IRCall():
                results = self.callee(node).results
                require(results == (node.dtype,), node, f"results {results} where one {node.dtype} is needed")
                self.call(node, results)
                return
        for child in children(node):
            self.expr(child)

    def const(self, node: IRConst) -> None:
        dtype = node.dtype
        assert dtype is not None
        require(type(node.value) in (int, float), node, f"value {node.value!r} of type {type(node.value).__name__}")
        if dtype.is_integer:
            exact = isinstance(node.value, int) and dtype.min <= node.value <= dtype.max
            require(exact, node, f"{node.value!r} is no {dtype.name}")

    def binary(self, node: IRBinOp) -> None:
        assert node.dtype is not None
        self.has(node.left, node.dtype, node)
        power = node.op == "**" and node.dtype.is_integer
        self.has(node.right, u64 if power else node.dtype, node)
        rule = ops.BINARY[node.op].rule
        self.integers(rule in (ops.Rule.SHIFT, ops.Rule.BITWISE), node)
        require(rule is not ops.Rule.TRUE_DIVIDE or node.dtype.is_float, node, "a quotient is not a float")

    def builtin(self, node: IRBuiltin) -> None:
        operand, rule = node._operand_type, ops.BUILTINS[node.name].rule
        require(operand is not None, node, "no _operand_type")
        assert operand is not None
        self.all_have(node.args, operand, node)
        wants_float = rule in (ops.Rule.FLOAT, ops.Rule.PREDICATE)
        require(not wants_float or operand in (f32, f64), node, f"{node.name} of {operand.name}")
        require(rule is not ops.Rule.BITS or operand.is_integer, node, f"{node.name} of {operand.name}")
        result = i32 if rule in (ops.Rule.PREDICATE, ops.Rule.BITS) else operand
        require(node.dtype is result, node, f"{node.name} is {node.dtype}, not {result}")

    def atomic(self, node: IRAtomic) -> None:
        array = self.array(node.array, node)
        require(node.dtype is array.dtype, node, f"an element of {array} is not {node.dtype}")
        require(array.space in ("global", "shared"), node, f"atomic on an array in {array.space} space")
        bits = node.op in ("and", "or", "xor")
        require(not (bits and array.dtype.is_float), node, f"atomic {node.op} on {array.dtype.name}")
        self.index(node.index, array, node)
        self.all_have(node.args, array.dtype, node)

    def call(self, node: IRCall, results: tuple[DType, ...]) -> None:
        callee = self.callee(node)
        require(len(results) == 1 or node.dtype is None, node, "a dtype on a call for several results or none")
        require(len(node.args) == len(callee.params), node, f"{len(node.args)} arguments for {callee.name}")
        for arg, param in zip(node.args, callee.params, strict=True):
            given = arg.array_type if isinstance(arg, IRArrayRef) else arg.dtype
            require(given == param.type, node, f"argument {param.name} of {callee.name} is {given}, not {param.type}")
            if isinstance(arg, IRArrayRef):
                require(self.array(arg.name, node) == given, node, f"array type of {arg.name}")
            else:
                self.expr(arg)

    # ------------------------------------------------------------------------------------------------------ helpers

    def callee(self, node: IRCall) -> IRFunction:
        require(
            node.symbol in self.callees, node, f"calls {node.symbol}, which is not listed before {self.function.name}"
        )
        assert node.symbol is not None
        return self.callees[node.symbol]

    def scalar(self, name: str) -> DType | None:
        return self.function.symbols[name].dtype

    def array(self, name: str, node: Any) -> ArrayType:
        array = self.function.symbols[name].array_type
        require(array is not None, node, f"{name} is not an array")
        assert array is not None
        return array

    def index(self, index: Sequence[IRExpr], array: ArrayType, node: Any) -> None:
        require(len(index) in (1, array.ndim), node, f"{len(index)} indices for {array}")
        self.all_have(index, i64, node)

    def has(self, part: IRExpr, dtype: DType | None, node: Any) -> None:
        require(part.dtype is dtype, node, f"a part is {part.dtype} where {dtype} is needed")

    def all_have(self, parts: Sequence[IRExpr], dtype: DType | None, node: Any) -> None:
        for part in parts:
            self.has(part, dtype, node)

    def integers(self, needed: bool, node: Any) -> None:
        require(not needed or node.dtype.is_integer, node, f"`{node.op}` of {node.dtype}")
