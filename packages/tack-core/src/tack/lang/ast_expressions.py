"""Expressions: syntax tree to untyped IR."""

from __future__ import annotations

import ast
from abc import abstractmethod
from typing import Any, NoReturn

from tack.lang.constant import Constant, plain_number
from tack.lang.func import Func
from tack.lang.intrinsics import lookup
from tack.lang.ir import (
    IRArrayAttr,
    IRBind,
    IRBinOp,
    IRBoolOp,
    IRBuiltin,
    IRCast,
    IRCompare,
    IRConst,
    IRExpr,
    IRLoad,
    IRNot,
    IRSelect,
    IRTable,
    IRUnary,
    IRVar,
)
from tack.lang.ir_vector import IRVector
from tack.lang.lowering_context import Captured
from tack.lang.member_lowering import MemberLowering
from tack.lang.types import DType, Scalar, i64

BINARY_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
ARGUMENT_HINT = "pass it to the kernel as an argument"


class ExpressionLowering(MemberLowering):
    """Lowers what yields one value."""

    @abstractmethod
    def call(self, node: ast.Call) -> IRExpr:
        """A call that yields one value."""

    @abstractmethod
    def list_value(self, node: ast.List) -> IRExpr:
        """`[x, y, z]`."""

    @abstractmethod
    def matrix_product(self, node: ast.AST, left: IRExpr, right: IRExpr) -> IRExpr:
        """`left @ right`."""

    @abstractmethod
    def captured_vector(self, captured: Captured, node: ast.expr) -> IRExpr | None:
        """A captured tuple as a constant vector or matrix, if it is one."""

    @abstractmethod
    def component_attribute(self, node: ast.Attribute) -> IRExpr:
        """`value.x`."""

    @abstractmethod
    def component_subscript(self, node: ast.Subscript) -> IRExpr | None:
        """`value[k]` of anything but an array's or a captured tuple's name; None for those."""

    def expr(self, node: ast.expr) -> IRExpr:
        match node:
            case ast.Constant() if isinstance(node.value, (int, float)):
                return self.number(node.value, node)
            case ast.Name():
                return self.name(node)
            case ast.BinOp():
                return self.binary(node, node.op, self.expr(node.left), self.expr(node.right))
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BoolOp():
                op = "and" if isinstance(node.op, ast.And) else "or"
                return IRBoolOp(loc=self.loc(node), op=op, values=[self.expr(v) for v in node.values])
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                cond, then, other = self.expr(node.test), self.expr(node.body), self.expr(node.orelse)
                return IRSelect(loc=self.loc(node), cond=cond, then=then, other=other)
            case ast.Subscript():
                return self.subscript(node)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.List():
                return self.list_value(node)
        self.unsupported("a string outside `print` is not supported", node, "kernels compute with integers and floats")

    # ----------------------------------------------------------------------------------------------- names, numbers

    def number(self, value: Any, node: ast.expr, pinned: DType | None = None) -> IRConst:
        number = plain_number(value)
        assert number is not None
        return IRConst(loc=self.loc(node), value=number, pinned=pinned)

    def name(self, node: ast.Name) -> IRExpr:
        captured = self.captured(node)
        if captured is not None:
            return self.captured_value(captured, node)
        self.refuse_instance(node)
        symbol = self.symbol_of(node.id, node)
        if self.symbols[symbol].kind == "local_array":
            self.fail(TypeError, f"local array `{node.id}` is not a number", node, f"index it: `{node.id}[...]`")
        return IRVar(loc=self.loc(node), name=symbol)

    def captured_value(self, captured: Captured, node: ast.expr) -> IRExpr:
        """A captured object used as a value: a number, or an error that says what to do."""
        value = self.captured_number(captured.value, node) or self.captured_vector(captured, node)
        if value is not None:
            return value
        self.refuse_captured(captured, node)

    def captured_number(self, value: Any, node: ast.expr) -> IRConst | None:
        if isinstance(value, (Scalar, Constant)):
            return self.number(value.value, node, value.dtype)
        return None if plain_number(value) is None else self.number(value, node)

    def refuse_captured(self, captured: Captured, node: ast.expr) -> NoReturn:
        name, value = captured.spelling, captured.value
        if isinstance(value, tuple):
            self.unsupported(f"captured tuple `{name}` is not a number", node, f"index it: `{name}[k]`")
        if isinstance(value, Func) or lookup(value) is not None or isinstance(value, DType):
            self.unsupported(f"function `{name}` is used as a value", node, f"call it: `{name}(...)`")
        if callable(value) and not hasattr(value, "__array__"):
            self.unsupported(
                f"`{name}` is used as a value",
                node,
                "kernels compute with numbers; call device functions and builtins only",
            )
        what = "module" if type(value).__name__ == "module" else type(value).__name__
        hint = "capture one of its numbers: `module.NAME`" if what == "module" else ARGUMENT_HINT
        self.fail(TypeError, f"`{name}` is a {what}, which a kernel cannot capture", node, hint)

    # ------------------------------------------------------------------------------------------------- operators

    def binary(self, node: ast.AST, op: ast.operator, left: IRExpr, right: IRExpr) -> IRExpr:
        if isinstance(op, ast.MatMult):
            return self.matrix_product(node, left, right)
        return IRBinOp(loc=self.loc(node), op=BINARY_OPERATORS[type(op)], left=left, right=right)

    def unary(self, node: ast.UnaryOp) -> IRExpr:
        operand = self.expr(node.operand)
        loc = self.loc(node)
        match node.op:
            case ast.UAdd():
                return operand
            case ast.Not():
                return IRNot(loc=loc, operand=operand)
            case ast.Invert():
                return IRUnary(loc=loc, op="~", operand=operand)
        if (
            isinstance(operand, IRConst)
            and isinstance(operand.value, int)
            and operand.pinned is None
            and operand.value >= 0
        ):
            return IRConst(loc=loc, value=-operand.value)  # a negative literal is judged whole (rule LIT-2)
        return IRUnary(loc=loc, op="-", operand=operand)

    def comparison(self, node: ast.Compare) -> IRExpr:
        operands = [node.left, *node.comparators]
        links: list[IRExpr] = []
        left = self.expr(node.left)
        for i, op in enumerate(node.ops):
            right = self.expr(operands[i + 1])
            again: IRExpr | None = None
            if i + 1 < len(node.ops):
                right, again = self.twice(operands[i + 1], right)
            links.append(IRCompare(loc=self.loc(node), op=COMPARISONS[type(op)], left=left, right=right))
            if again is not None:
                left = again
        return links[0] if len(links) == 1 else IRBoolOp(loc=self.loc(node), op="and", values=links)

    def twice(self, node: ast.expr, value: IRExpr) -> tuple[IRExpr, IRExpr]:
        """A value for two places of one expression: itself and a copy if that is as good, else bound at the first."""
        if repeatable(value):
            return value, self.expr(node)
        name = self.temporary(node)
        return IRBind(loc=self.loc(node), name=name, value=value), IRVar(loc=self.loc(node), name=name)

    # ------------------------------------------------------------------------------------------- arrays and tables

    def array_symbol(self, node: ast.expr) -> str | None:
        """The symbol of the array that an expression names: a parameter (which then is one), a local array, a table."""
        captured = self.captured(node)
        if captured is not None:
            return self.table_symbol(captured, node)
        self.refuse_instance(node)
        field = self.field(node)
        if field is not None:
            self.array_params.add(field)
            return field
        if not isinstance(node, ast.Name):
            return None
        symbol = self.symbol_of(node.id, node)
        kind = self.array_kind(symbol)
        if kind is None:
            what = "loop variable" if self.symbols[symbol].kind == "loop" else "local"
            self.fail(
                TypeError,
                f"{what} `{node.id}` is a number, not an array",
                node,
                "only arrays and captured tuples have elements",
            )
        if kind == "param":
            self.array_params.add(symbol)
        return symbol

    def table_symbol(self, captured: Captured, node: ast.expr) -> str:
        """The symbol of a captured tuple of numbers, or of tuples of numbers."""
        if not isinstance(captured.value, tuple):
            self.refuse_captured(captured, node)
        for symbol in self.tables:
            if self.symbols[symbol].source_name == captured.spelling:
                return symbol
        shape, values = self.table_contents(captured, node)
        symbol = self.new_symbol(captured.spelling, "array", node)
        self.tables[symbol] = IRTable(name=symbol, shape=shape, values=values)
        return symbol

    def table_contents(self, captured: Captured, node: ast.expr) -> tuple[tuple[int, ...], tuple[int | float, ...]]:
        rows = captured.value
        nested = bool(rows) and all(isinstance(row, tuple) for row in rows)
        items = [item for row in rows for item in row] if nested else list(rows)
        shape: tuple[int, ...] = (len(rows), len(rows[0])) if nested else (len(rows),)
        values = [plain_number(item) for item in items]
        even = not nested or all(len(row) == shape[1] for row in rows)
        if not values or not even or any(value is None for value in values):
            message = f"captured tuple `{captured.spelling}` must hold numbers, or tuples of numbers of one length"
            self.fail(TypeError, message, node, "pass anything else to the kernel as an array")
        return shape, tuple(value for value in values if value is not None)

    def indices(self, node: ast.expr) -> list[IRExpr]:
        """The index between brackets: one expression a dimension, or one flat index."""
        if isinstance(node, ast.Tuple):
            if not node.elts:
                self.unsupported("an empty index is not supported", node, "index a 0-d array with `[0]`")
            return [self.expr(item) for item in node.elts]
        return [self.expr(node)]

    def subscript(self, node: ast.Subscript) -> IRExpr:
        if (
            isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
            and self.captured_root(node.value) is None
            and self.instance(node.value.value) is None
        ):
            return self.extent(node.value, node)
        component = self.component_subscript(node)
        if component is not None:
            return component
        if isinstance(node.value, ast.Subscript):
            return self.nested_subscript(node, node.value)
        symbol = self.element_array(node)
        return self.element(symbol, self.indices(node.slice), node)

    def element_array(self, node: ast.Subscript) -> str:
        symbol = self.array_symbol(node.value)
        if symbol is None:
            if isinstance(node.value, ast.Attribute):
                self.attribute(node.value)  # says what attributes there are
            self.unsupported(
                "an index on an expression is not supported", node.value, "index an array argument by its name"
            )
        return symbol

    def nested_subscript(self, node: ast.Subscript, inner: ast.Subscript) -> IRExpr:
        """`table[i][j]`, as a tuple of tuples is indexed in Python."""
        symbol = None if isinstance(inner.value, ast.Subscript) else self.array_symbol(inner.value)
        if symbol is None or symbol not in self.tables:
            self.unsupported("an index on an element is not supported", node, "write the indices together: `a[i, j]`")
        return self.element(symbol, self.indices(inner.slice) + self.indices(node.slice), node)

    def element(self, symbol: str, index: list[IRExpr], node: ast.expr) -> IRExpr:
        table = self.tables.get(symbol)
        if table is not None:
            return self.table_element(table, index, node)
        self.note_load(symbol, node)
        return IRLoad(loc=self.loc(node), array=symbol, index=index)

    def table_element(self, table: IRTable, index: list[IRExpr], node: ast.expr) -> IRExpr:
        """An element of a captured tuple; where the index is a literal, the number itself (rule LIT-11)."""
        name = self.symbols[table.name].source_name
        if len(index) != len(table.shape):
            message = f"captured tuple `{name}` takes {len(table.shape)} indices, not {len(index)}"
            self.fail(TypeError, message, node, f"write `{name}{'[i]' * len(table.shape)}`")
        if not all(isinstance(i, IRConst) and isinstance(i.value, int) for i in index):
            return IRLoad(loc=self.loc(node), array=table.name, index=index)
        flat = 0
        for i, extent in zip(index, table.shape, strict=True):
            assert isinstance(i, IRConst)
            if not 0 <= i.value < extent:
                self.fail(
                    IndexError,
                    f"index {i.value} of `{name}` is out of range",
                    i.loc,
                    f"it has {extent} items; negative indices do not wrap",
                )
            flat = flat * extent + int(i.value)
        return IRConst(loc=self.loc(node), value=table.values[flat])

    # -------------------------------------------------------------------------------------------- shapes and limits

    def captured_root(self, node: ast.expr) -> Captured | None:
        """What a chain like `module.name` starts from, if that is a captured object."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return self.captured(node) if isinstance(node, ast.Name) else None

    def extent(self, attribute: ast.Attribute, node: ast.Subscript) -> IRExpr:
        """`a.shape[k]` with a literal k."""
        symbol = self.shaped(attribute)
        axis = self.expr(node.slice) if not isinstance(node.slice, ast.Tuple) else None
        if not isinstance(axis, IRConst) or not isinstance(axis.value, int):
            self.unsupported(
                "the axis of a shape must be a literal", node.slice, "write `a.shape[0]`, `a.shape[1]`, ..."
            )
        if axis.value < 0:
            self.unsupported("a negative axis is not supported", node.slice, "count axes from 0")
        return self.array_attribute(symbol, "shape", node, int(axis.value))

    def shaped(self, attribute: ast.Attribute) -> str:
        symbol = self.array_symbol(attribute.value)
        if symbol is None:
            self.unsupported(
                f"`.{attribute.attr}` of an expression is not supported", attribute, "use it on an array argument"
            )
        return symbol

    def array_attribute(self, symbol: str, attr: str, node: ast.expr, axis: int = 0) -> IRExpr:
        table = self.tables.get(symbol)
        if table is None:
            return IRArrayAttr(loc=self.loc(node), array=symbol, attr=attr, axis=axis)
        return self.number(table.shape[axis], node, i64)

    def attribute(self, node: ast.Attribute) -> IRExpr:
        self.refuse_instance(node)
        field = self.field(node)
        if field is not None:
            return IRVar(loc=self.loc(node), name=field)
        owner = self.captured(node.value) if node.attr in ("x", "y", "z", "w") else None
        if owner is not None and isinstance(owner.value, tuple):
            return self.component_attribute(node)
        captured = self.captured(node)
        if captured is not None:
            return self.captured_value(captured, node)
        if node.attr in ("size", "ndim"):
            return self.array_attribute(self.shaped(node), node.attr, node)
        if node.attr == "shape":
            self.unsupported("a shape as a value is not supported", node, "read one extent: `a.shape[0]`")
        if node.attr in ("x", "y", "z", "w"):
            return self.component_attribute(node)
        hint = "an array has `.shape[k]`, `.size` and `.ndim`; a vector has `.x`, `.y`, `.z` and `.w`"
        if 2 <= len(node.attr) <= 4 and set(node.attr) <= set("xyzw"):
            value = ast.unparse(node.value)
            hint = f"write the components: `[{', '.join(f'{value}.{c}' for c in node.attr)}]`"
        self.unsupported(f"attribute `.{node.attr}` is not supported", node, hint)


def repeatable(expr: IRExpr) -> bool:
    """Whether evaluating an expression twice is as cheap as keeping its value, and cannot give another value."""
    match expr:
        case IRConst() | IRVar() | IRArrayAttr():
            return True
        case IRUnary() | IRCast():
            return repeatable(expr.operand)
        case IRBinOp():
            cheap = expr.op not in ("/", "//", "%", "**") or literal(expr)
            return cheap and repeatable(expr.left) and repeatable(expr.right)
    return literal(expr)


def literal(expr: IRExpr) -> bool:
    """Whether an expression holds only numbers; it must then be repeated, so that each place gives it its type."""
    match expr:
        case IRConst():
            return True
        case IRVector(target=None):
            return all(map(literal, expr.items))
        case IRUnary():
            return literal(expr.operand)
        case IRBinOp():
            return literal(expr.left) and literal(expr.right)
        case IRBuiltin():
            return all(map(literal, expr.args))
        case IRSelect():
            return literal(expr.cond) and literal(expr.then) and literal(expr.other)
    return False
