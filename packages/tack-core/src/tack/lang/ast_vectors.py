"""Vectors and matrices: syntax tree to untyped IR (rules VEC-*).

Only typing knows whether ``p[k]`` of a parameter is an element of an array or a component of a vector: it is lowered as
the former. A local is never an array, so ``v[k]`` is a component there.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from typing import Any

from tack.lang.ast_expressions import ExpressionLowering
from tack.lang.ir import IRConst, IRExpr, IRVar
from tack.lang.ir_vector import IRComponent, IRVector, IRVectorOp
from tack.lang.lowering_context import Captured
from tack.lang.records import record
from tack.lang.types import DType, VecType, mat, vec

COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3}


@record(frozen=True)
class Place:
    """A target with brackets or a component: of a local (no `index`), or of an array. Both are syntax trees still."""

    symbol: str
    index: ast.expr | None
    component: ast.expr | None


class VectorLowering(ExpressionLowering):
    """Lowers vector values and components."""

    @abstractmethod
    def arguments(self, node: ast.Call, name: str, least: int, most: int | None) -> list[IRExpr]:
        """The arguments of a builtin, in order."""

    def list_value(self, node: ast.List) -> IRVector:
        return IRVector(loc=self.loc(node), items=[self.expr(item) for item in node.elts])

    def matrix_product(self, node: ast.AST, left: IRExpr, right: IRExpr) -> IRVectorOp:
        return IRVectorOp(loc=self.loc(node), name="matmul", args=[left, right])

    def construct(self, node: ast.Call, target: VecType) -> IRVector:
        """`tack.vec3(x, y, z)`, `tack.vec3(s)`, `tack.mat2(a, b, c, d)`, `tack.vec3(v)`: typing tells them apart."""
        items = self.arguments(node, ast.unparse(node.func), 1, None)
        return IRVector(loc=self.loc(node), items=items, target=target)

    def made_type(self, node: ast.expr) -> VecType | None:
        """The type that `tack.vec(3, tack.f64)` or `tack.mat(...)` makes inside a kernel, from constants."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        captured = self.captured(node.func)
        if captured is None or (captured.value is not vec and captured.value is not mat):
            return None
        values: list[Any] = []
        for argument in node.args:
            given = self.captured(argument)
            value = argument.value if isinstance(argument, ast.Constant) else given.value if given else None
            values.append(value)
        try:
            if node.keywords:
                raise TypeError(f"`{captured.spelling}` takes no keyword arguments here")
            made = captured.value(*values)
        except (TypeError, ValueError) as error:
            self.fail(type(error), str(error), node, "write for instance `tack.vec(3, tack.f64)`")
        assert isinstance(made, VecType)
        return made

    def captured_vector(self, captured: Captured, node: ast.expr) -> IRVector | None:
        """A captured tuple as a constant vector or matrix (rule VEC-4); None if it is too long, or no such tuple."""
        value = captured.value
        if not isinstance(value, tuple) or not 2 <= len(value) <= 4:
            return None
        items: list[IRExpr] = []
        for item in value:
            number = self.captured_number(item, node)
            row = number or self.captured_vector(Captured(captured.spelling, item), node)
            if row is None:
                return None
            items.append(row)
        return IRVector(loc=self.loc(node), items=items)

    # ------------------------------------------------------------------------------------------------- components

    def component_attribute(self, node: ast.Attribute) -> IRExpr:
        """`value.x`."""
        base = self.expr(node.value)
        if isinstance(base, IRVector) and base.target is None and COMPONENTS[node.attr] < len(base.items):
            return base.items[COMPONENTS[node.attr]]  # of a captured tuple: the number itself (rule LIT-11)
        return IRComponent(loc=self.loc(node), base=base, index=[self.attribute_index(node)])

    def attribute_index(self, node: ast.Attribute) -> IRConst:
        return IRConst(loc=self.loc(node), value=COMPONENTS[node.attr])

    def component_subscript(self, node: ast.Subscript) -> IRExpr | None:
        """`value[k]` of anything but an array's or a captured tuple's name; None for those."""
        base = node.value
        if isinstance(base, ast.Subscript):
            if self.names_table(base.value):
                return None
            return IRComponent(loc=self.loc(node), base=self.subscript(base), index=self.indices(node.slice))
        if isinstance(base, ast.Name):
            symbol = self.plain_local(base)
            if symbol is None:
                return None
            value: IRExpr = IRVar(loc=self.loc(base), name=symbol)
            return IRComponent(loc=self.loc(node), base=value, index=self.indices(node.slice))
        if isinstance(base, ast.Attribute):
            return None
        return IRComponent(loc=self.loc(node), base=self.expr(base), index=self.indices(node.slice))

    def names_table(self, node: ast.expr) -> bool:
        captured = self.captured(node)
        return captured is not None and isinstance(captured.value, tuple)

    def plain_local(self, node: ast.expr) -> str | None:
        """The symbol of a local that is no array; None for anything else."""
        if not isinstance(node, ast.Name) or node.id not in self.local_names:
            return None
        symbol = self.symbol_of(node.id, node)
        return symbol if self.symbols[symbol].kind == "local" else None

    def place(self, target: ast.Subscript | ast.Attribute) -> Place:
        """What an assignment to ``v.x``, ``v[k]``, ``a[i]``, ``a[i].x`` or ``a[i][k]`` means."""
        base = target.value
        component: ast.expr
        if isinstance(target, ast.Attribute):
            self.refuse_attribute_store(target)
            if target.attr not in COMPONENTS:
                self.unsupported(
                    f"an assignment to attribute `.{target.attr}` is not supported",
                    target,
                    "vectors have the components `.x`, `.y`, `.z` and `.w`",
                )
            component = ast.copy_location(ast.Constant(COMPONENTS[target.attr]), target)
        else:
            component = target.slice
        if isinstance(base, ast.Subscript) and self.plain_local(base.value) is None:
            return Place(self.element_array(base), base.slice, component)
        symbol = self.plain_local(base)
        if symbol is not None:
            return Place(symbol, None, component)
        if isinstance(target, ast.Subscript) and not isinstance(base, ast.Subscript):
            return Place(self.element_array(target), target.slice, None)
        if isinstance(base, ast.Name) and base.id in self.local_names:
            return Place(self.symbol_of(base.id, base), None, component)  # a parameter
        self.unsupported(
            "an assignment to a component of this is not supported",
            base,
            "assign components of locals and of array elements; those of a matrix as `m[i, j]`",
        )

    def element_type(self, node: ast.expr) -> DType | None:
        """The dtype, or the vector or matrix type, that an expression names."""
        made = self.made_type(node)
        if made is not None:
            return made
        captured = self.captured(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
        return captured.value if captured is not None and isinstance(captured.value, DType) else None
