"""What a program of integer vectors must compute: Python runs its text, on vectors that wrap and are copied (VEC-*).

The kernel's source is rewritten so that every assignment and argument copies vectors. Control flow, evaluation order
and indexing are Python's own; a number is an `int` that wraps to the program's one type.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from numeric_oracles import wrap


class Rules:
    """The number type of a program, and whether names share components: `aliased` is deliberately wrong."""

    def __init__(self, name: str, *, aliased: bool = False) -> None:
        self.name, self.aliased = name, aliased

    def number(self, value: Any) -> Number:
        made = Number(wrap(int(value), self.name))
        made.rules = self
        return made

    def copied(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.copied, value))
        return Vector(list(value.cells), value.shape, self) if isinstance(value, Vector) and not self.aliased else value

    def vector(self, items: list[Any]) -> Vector:
        """A list value: numbers, or rows."""
        if isinstance(items[0], Vector):
            cells = [cell for row in items for cell in row.cells]
            return Vector(cells, (len(items), *items[0].shape), self)
        return Vector(list(map(self.number, items)), (len(items),), self)


class Number(int):
    """An integer that wraps after every operation."""

    rules: Rules

    def _operation(name: str) -> Callable[[Any, Any], Any]:  # type: ignore[misc]
        def method(self: Number, other: Any) -> Any:
            if not isinstance(other, int):
                return NotImplemented
            return self.rules.number(getattr(int, name)(self, other))

        return method

    for _name in ("add", "sub", "mul", "and", "or", "xor"):
        vars()[f"__{_name}__"] = _operation(f"__{_name}__")
        vars()[f"__r{_name}__"] = _operation(f"__r{_name}__")

    def __neg__(self) -> Number:
        return self.rules.number(-int(self))


class Vector:
    """A vector or matrix; operators work by component."""

    def __init__(self, cells: list[Any], shape: tuple[int, ...], rules: Rules) -> None:
        vars(self).update(cells=cells, shape=shape, rules=rules)

    def _at(self, index: Any) -> int:
        if not isinstance(index, tuple):
            index = (index,)
        assert len(index) == len(self.shape) and all(0 <= i < n for i, n in zip(index, self.shape, strict=True))
        return int(index[0] if len(index) == 1 else index[0] * self.shape[1] + index[1])

    def __getitem__(self, index: Any) -> Any:
        return self.cells[self._at(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.cells[self._at(index)] = self.rules.number(value)

    def __getattr__(self, name: str) -> Any:
        return self["xyzw".index(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        self["xyzw".index(name)] = value

    def by_component(self, function: Callable[..., Any], *others: Any) -> Vector:
        columns = [o.cells if isinstance(o, Vector) else [o] * len(self.cells) for o in others]
        cells = [self.rules.number(function(*row)) for row in zip(self.cells, *columns, strict=True)]
        return Vector(cells, self.shape, self.rules)

    def __neg__(self) -> Vector:
        return self.by_component(operator.neg)

    def _operation(name: str) -> Callable[[Any, Any], Any]:  # type: ignore[misc]
        return lambda self, other: self.by_component(getattr(operator, name), other)

    def _reflected(name: str) -> Callable[[Any, Any], Any]:  # type: ignore[misc]
        return lambda self, other: self.by_component(lambda a, b: getattr(operator, name)(b, a), other)

    for _name in ("add", "sub", "mul", "and_", "or_", "xor"):
        vars()[f"__{_name.strip('_')}__"] = _operation(f"__{_name.strip('_')}__")
        vars()[f"__r{_name.strip('_')}__"] = _reflected(f"__{_name.strip('_')}__")
    for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
        vars()[f"__{_name}__"] = _operation(f"__{_name}__")
    __hash__ = None  # type: ignore[assignment]

    def rows(self) -> list[list[Any]]:
        n = self.shape[-1]
        return [self.cells[k : k + n] for k in range(0, len(self.cells), n)]

    def __matmul__(self, other: Vector) -> Any:
        columns = list(zip(*other.rows(), strict=True)) if len(other.shape) == 2 else [other.cells]
        left = self.rows() if len(self.shape) == 2 else [self.cells]
        cells = [sum(a * b for a, b in zip(row, column, strict=True)) for row in left for column in columns]
        shape = self.shape[:-1] + other.shape[1:]
        return Vector(cells, shape, self.rules) if shape else cells[0]


class Storage:
    """An array of vectors; an element is set by copy, or filled with a number."""

    def __init__(self, rules: Rules, extents: tuple[int, ...], shape: tuple[int, ...], values: Any = None) -> None:
        self.rules, self.extents, self.shape = rules, extents, shape
        count = 1
        for n in shape:
            count *= n
        flat = [0] * count
        self.cells = {
            index: Vector(list(map(rules.number, flat if values is None else values[index])), shape, rules)
            for index in itertools.product(*map(range, extents))
        }

    def __getitem__(self, index: Any) -> Vector:
        return self.cells[index if isinstance(index, tuple) else (index,)]

    def __setitem__(self, index: Any, value: Any) -> None:
        element = self[index]
        if isinstance(value, Vector):
            assert value.shape == self.shape
            element.cells[:] = list(map(self.rules.number, value.cells))
        else:
            element.cells[:] = [self.rules.number(value)] * len(element.cells)


class Copying(ast.NodeTransformer):
    """Copies vectors where the language does: at assignments, arguments and loads. Lists become vectors."""

    def __init__(self, arrays: set[str]) -> None:
        self.arrays = arrays

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        node.value = self.place(node.value) if isinstance(node.ctx, ast.Store) else self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.slice = self.visit(node.slice)
        if isinstance(node.ctx, ast.Store):
            node.value = self.place(node.value)
            return node
        node.value = self.visit(node.value)
        is_load = isinstance(node.value, ast.Name) and node.value.id in self.arrays
        return _call("copied_", node) if is_load else node

    def place(self, node: ast.expr) -> ast.expr:
        """An element whose component is assigned: no copy."""
        if isinstance(node, ast.Subscript):
            node.slice = self.visit(node.slice)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.Assign:
        """Indices have no effects here; the old value is read before the right side."""
        old = ast.parse(ast.unparse(node.target), mode="eval").body
        value = ast.BinOp(left=old, op=node.op, right=node.value)
        return self.visit_Assign(ast.Assign(targets=[node.target], value=value))

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        node.value = _call("copied_", node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        node.args = [_call("copied_", a) for a in node.args]
        return node

    def visit_List(self, node: ast.List) -> ast.Call:
        self.generic_visit(node)
        return _call("vector_", node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list = []
        self.generic_visit(node)
        return node


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _library(rules: Rules) -> SimpleNamespace:
    def cross(a: Vector, b: Vector) -> Vector:
        (x, y, z), (u, v, w) = a.cells, b.cells
        return rules.vector([y * w - z * v, z * u - x * w, x * v - y * u])

    def determinant(m: Vector) -> Any:
        """By the permutations of its columns."""
        total, n = 0, m.shape[0]
        for order in itertools.permutations(range(n)):
            swaps = sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
            term = -1 if swaps % 2 else 1
            for i, j in enumerate(order):
                term *= int(m[i, j])
            total += term
        return rules.number(total)

    def transpose(m: Vector) -> Vector:
        return rules.vector([rules.vector(list(column)) for column in zip(*m.rows(), strict=True)])

    def select(mask: Vector, a: Any, b: Any) -> Vector:
        return mask.by_component(lambda c, x, y: x if c else y, a, b)

    def local(shape: Any, element: tuple[int, ...]) -> Storage:
        return Storage(rules, shape if isinstance(shape, tuple) else (shape,), element)

    return SimpleNamespace(
        cross=cross, determinant=determinant, transpose=transpose, select=select, local=local,
        dot=lambda a, b: a @ b,
        outer=lambda a, b: rules.vector([a[i] * b for i in range(a.shape[0])]),
        trace=lambda m: sum((m[k, k] for k in range(m.shape[0])), rules.number(0)),
        any=lambda v: int(any(v.cells)), all=lambda v: int(all(v.cells)),
    )  # fmt: skip


def run(source: str, kernel: str, arrays: dict[str, Storage], rules: Rules, types: dict[str, tuple[int, ...]]) -> None:
    """Run the kernel of a module's source on `arrays`; `types` are the shapes of its element types, by name."""
    module = ast.parse(source)
    module.body = [n for n in module.body if isinstance(n, ast.FunctionDef)]
    module = ast.fix_missing_locations(Copying({*arrays, "cells", "notes"}).visit(module))
    namespace: dict[str, Any] = {"tack": _library(rules), "copied_": rules.copied, "vector_": rules.vector}
    namespace |= types | {"min": _least(min), "max": _least(max), "abs": _magnitude}
    exec(compile(module, "<vector oracle>", "exec"), namespace)
    namespace[kernel](*arrays.values())


def _least(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    def by_component(a: Any, b: Any) -> Any:
        if isinstance(a, Vector):
            return a.by_component(function, b)
        return b.by_component(lambda y, x: function(x, y), a) if isinstance(b, Vector) else function(a, b)

    return by_component


def _magnitude(a: Any) -> Any:
    return (
        a.by_component(abs)
        if isinstance(a, Vector)
        else a.rules.number(abs(int(a)))
        if isinstance(a, Number)
        else abs(a)
    )
