"""Vector expressions as numbers: the expression half of `scalarise`.

`parts` gives the components of an expression as scalar expressions. Those of a vector have no effects and may be
evaluated in any order, or not at all; what has effects is put into temporaries by statements that go to `out`, in the
order of the source (rules EVAL-*). A number may keep its effects, for it is used once, where it stood.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tack.lang.diagnostics import Loc
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAssign,
    IRAtomic,
    IRBinOp,
    IRBoolOp,
    IRCall,
    IRCast,
    IRCompare,
    IRConst,
    IRExpr,
    IRFunction,
    IRIf,
    IRLoad,
    IRNode,
    IRNot,
    IRSelect,
    IRStmt,
    IRUnpack,
    IRVar,
    Symbol,
    child_fields,
    children,
)
from tack.lang.ir_vector import IRComponent, IRVector, IRVectorOp
from tack.lang.purity import fresh, has_effect, is_cheap, is_impure, is_plain_index, reads_memory
from tack.lang.records import replace
from tack.lang.types import ArrayType, DType, VecType, i32, i64, number_type, shape_of
from tack.lang.vector_algebra import USED_ONCE, Algebra

Parts = list[IRExpr]


def component_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """The symbols of the components of a vector or matrix symbol; the symbol itself for a scalar."""
    if not shape:
        return [name]
    if len(shape) == 1:
        return [f"{name}.{letter}" for letter in "xyzw"[: shape[0]]]
    return [f"{name}.m{i}{j}" for i in range(shape[0]) for j in range(shape[1])]


def flat_array(array: ArrayType) -> ArrayType:
    """The type of an array after the pass: where the shape is constant, the components are its last axes."""
    if array.shape is None or not array.components:
        return array
    shape = array.shape + array.components
    return ArrayType(array.dtype, len(shape), array.space, shape)


class ExpressionScalariser:
    """Expands the expressions of one function."""

    def __init__(self, function: IRFunction) -> None:
        self.source = function.symbols
        self.symbols: dict[str, Symbol] = {}
        self.out: list[IRStmt] = []
        self._temporaries = 0
        self._known: dict[int, bool] = {}

    # -------------------------------------------------------------------------------------------------- temporaries

    def temporary(self, dtype: DType, loc: Loc) -> str:
        self._temporaries += 1
        name = f"%v{self._temporaries}"
        self.symbols[name] = Symbol(name=name, kind="temp", source_name=name, loc=loc, dtype=dtype)
        return name

    def keep(self, value: IRExpr) -> IRExpr:
        """A number in a temporary, unless it is as cheap as one."""
        if is_cheap(value):
            return value
        assert value.dtype is not None
        name = self.temporary(value.dtype, value.loc)
        self.assign(name, value)
        return IRVar(loc=value.loc, name=name, dtype=value.dtype)

    def assign(self, name: str, value: IRExpr) -> None:
        self.out.append(IRAssign(loc=value.loc, name=name, value=value, _resolved_type=value.dtype))

    @contextmanager
    def collected(self) -> Iterator[list[IRStmt]]:
        """The statements that are made inside, apart from the others."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    # ----------------------------------------------------------------------------------------------------- operands

    def operands(self, exprs: Sequence[IRExpr], *, pure: bool) -> list[Parts]:
        """The parts of each, evaluated in order; with `pure`, impure numbers are kept too.

        What was evaluated before the statements of a later operand is kept before them, where they could change it.
        """
        done: list[Parts] = []
        for expr in exprs:
            with self.collected() as made:
                parts = self.parts(expr)
                if pure:
                    parts = [self.keep(part) if is_impure(part) else part for part in parts]
            if made:
                effect = has_effect(made)
                done = [
                    [self.keep(p) if is_impure(p) or (effect and reads_memory(p)) else p for p in known]
                    for known in done
                ]
                self.out += made
            done.append(parts)
        return done

    def scalars(self, exprs: Sequence[IRExpr], *, pure: bool = False) -> list[IRExpr]:
        return [part for parts in self.operands(exprs, pure=pure) for part in parts]

    def scalar(self, expr: IRExpr) -> IRExpr:
        """An expression that is one number."""
        (part,) = self.parts(expr)
        return part

    def holds_vector(self, node: Any) -> bool:
        """Whether the pass has anything to do in an expression."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._is_vector(node) or any(map(self.holds_vector, children(node)))
        return known

    def _is_vector(self, node: IRNode) -> bool:
        if isinstance(node, (IRArrayAttr, IRArrayRef)):
            array = self.array(node.array if isinstance(node, IRArrayAttr) else node.name)
            return flat_array(array) is not array
        return isinstance(node, (IRVectorOp, IRComponent)) or isinstance(getattr(node, "dtype", None), VecType)

    def array(self, name: str) -> ArrayType:
        array = self.source[name].array_type
        assert array is not None
        return array

    # ------------------------------------------------------------------------------------------------------- dispatch

    def parts(self, expr: IRExpr) -> Parts:
        if not self.holds_vector(expr):
            return [expr]
        shape = shape_of(expr.dtype)
        match expr:
            case IRVar():
                number = number_type(_dtype(expr))
                return [IRVar(loc=expr.loc, name=name, dtype=number) for name in component_names(expr.name, shape)]
            case IRVector():
                return self.vector(expr)
            case IRComponent():
                return [self.component(expr)]
            case IRVectorOp():
                return self.vector_op(expr)
            case IRLoad() if shape:
                address = self.address(expr.array, self.scalars(expr.index, pure=True), expr.loc)
                return [self.load(expr.array, part, expr.loc) for part in self.cells(address, expr.dtype)]
            case IRSelect():
                return self.select(expr)
            case IRBoolOp():
                return [self.bool_op(expr)]
            case IRCall():
                return self.call(expr)
            case IRAtomic() if shape:
                return [self.keep(part) for part in self.atomic(expr)]
            case IRArrayAttr():
                return [self.array_attr(expr)]
            case IRArrayRef():
                return [replace(expr, array_type=flat_array(self.array(expr.name)))]
        return self.elementwise(expr, shape) if shape else [self.rebuilt(expr)]

    def rebuilt(self, node: Any) -> Any:
        """A scalar node, or a statement, with its operands expanded; each is one number."""
        cls: Any = type(node)
        names = child_fields(cls)
        parts = iter(self.scalars(list(children(node))))
        changes: dict[str, Any] = {}
        for name in names:
            value = getattr(node, name)
            if isinstance(value, IRExpr):
                changes[name] = next(parts)
            elif isinstance(value, list):
                changes[name] = [next(parts) if isinstance(item, IRExpr) else item for item in value]
        return replace(node, **changes)

    def elementwise(self, node: Any, shape: tuple[int, ...]) -> Parts:
        """An operator, builtin or cast, component by component; a scalar operand counts for each."""
        cls: Any = type(node)
        names = child_fields(cls)
        operands = self.spread(self.operands(list(children(node)), pure=True), math.prod(shape))
        number = number_type(_dtype(node))
        parts: Parts = []
        for k in range(math.prod(shape)):
            left = iter(operands)
            changes: dict[str, Any] = {"dtype": number}
            for name in names:
                value = getattr(node, name)
                if isinstance(value, IRExpr):
                    changes[name] = next(left)[k]
                elif isinstance(value, list):
                    changes[name] = [next(left)[k] for _ in value]
            if isinstance(node, IRCast):
                changes["target"] = number
            parts.append(replace(node, **changes))
        return parts

    def spread(self, operands: list[Parts], count: int) -> list[Parts]:
        """Numbers repeated as often as there are components."""
        return [parts if len(parts) > 1 else self.repeated(parts[0], count) for parts in operands]

    def repeated(self, part: IRExpr, count: int) -> Parts:
        kept = self.keep(part)
        return [fresh(kept) for _ in range(count)]

    # ---------------------------------------------------------------------------------------------- vectors, components

    def vector(self, expr: IRVector) -> Parts:
        count = math.prod(shape_of(expr.dtype))
        parts = self.scalars(expr.items, pure=True)
        return parts if len(parts) == count else self.repeated(parts[0], count)

    def component(self, expr: IRComponent) -> IRExpr:
        shape = shape_of(expr.base.dtype)
        base = expr.base
        if isinstance(base, IRLoad):
            (*index,) = self.scalars([*base.index, *expr.index], pure=True)
            count = len(base.index)
            address = self.address(base.array, index[:count], expr.loc)
            return self.load(base.array, self.cell(address, index[count:], base.dtype), expr.loc)
        operands = self.operands([base, *expr.index], pure=True)
        position = self.position([part for parts in operands[1:] for part in parts], shape)
        parts = operands[0]
        if isinstance(position, IRConst):
            return parts[int(position.value)]
        position = self.keep(position)
        chosen = parts[-1]
        for k in reversed(range(len(parts) - 1)):
            chosen = IRSelect(
                loc=expr.loc, cond=self.is_component(position, k), then=parts[k], other=chosen, dtype=expr.dtype
            )
        return chosen

    def position(self, index: Parts, shape: tuple[int, ...]) -> IRExpr:
        """The number of a component among all of its vector or matrix; a constant where it is one."""
        total = index[0]
        for part, extent in zip(index[1:], shape[1:], strict=True):
            total = self.plus(self.times(total, extent), part)
        return total

    def is_component(self, position: IRExpr, k: int) -> IRExpr:
        loc = position.loc
        return IRCompare(loc=loc, op="==", left=fresh(position), right=_i64(k, loc), dtype=i32, _operand_type=i64)

    # ------------------------------------------------------------------------------------------------------- memory

    def address(self, array: str, index: Parts, loc: Loc) -> IRExpr:
        """The flat number of an element (rule MEM-2)."""
        type_ = self.array(array)
        if len(index) == 1:
            return index[0]
        flat = index[0]
        for axis, part in enumerate(index[1:], 1):
            extent: IRExpr = IRArrayAttr(loc=loc, array=array, attr="shape", axis=axis, dtype=i64)
            if type_.shape is not None:
                extent = _i64(type_.shape[axis], loc)
            flat = IRBinOp(loc=loc, op="*", left=flat, right=extent, dtype=i64)
            flat = IRBinOp(loc=loc, op="+", left=flat, right=part, dtype=i64)
        return flat

    def cells(self, address: IRExpr, dtype: DType | None) -> Parts:
        """The flat numbers of all components of an element, from that of the element."""
        assert isinstance(dtype, VecType)
        first = self.times(address, dtype.count)
        if not is_plain_index(first):
            first = self.keep(first)
        return [self.plus(fresh(first), _i64(k, first.loc)) for k in range(dtype.count)]

    def cell(self, address: IRExpr, component: Parts, dtype: DType | None) -> IRExpr:
        """The flat number of one component."""
        assert isinstance(dtype, VecType)
        return self.plus(self.times(address, dtype.count), self.position(component, dtype.shape))

    def load(self, array: str, cell: IRExpr, loc: Loc) -> IRExpr:
        return IRLoad(loc=loc, array=array, index=[cell], dtype=self.array(array).dtype)

    def times(self, expr: IRExpr, factor: int) -> IRExpr:
        if isinstance(expr, IRConst):
            return _i64(i64.wrap(int(expr.value) * factor), expr.loc)
        return IRBinOp(loc=expr.loc, op="*", left=expr, right=_i64(factor, expr.loc), dtype=i64)

    def plus(self, left: IRExpr, right: IRExpr) -> IRExpr:
        if isinstance(left, IRConst) and isinstance(right, IRConst):
            return _i64(i64.wrap(int(left.value) + int(right.value)), left.loc)
        if isinstance(right, IRConst) and right.value == 0:
            return left
        return IRBinOp(loc=left.loc, op="+", left=left, right=right, dtype=i64)

    def atomic(self, expr: IRAtomic) -> list[IRExpr]:
        """One operation a component, to be run in order, on vector elements (rule VEC-12)."""
        assert isinstance(expr.dtype, VecType)
        count = len(expr.index)
        operands = self.operands([*expr.index, *expr.args], pure=True)
        address = self.address(expr.array, [parts[0] for parts in operands[:count]], expr.loc)
        args = self.spread([[self.keep(p) for p in parts] for parts in operands[count:]], expr.dtype.count)
        cells = self.cells(address, expr.dtype)
        return [
            replace(expr, index=[cell], args=[parts[k] for parts in args], dtype=expr.dtype.number)
            for k, cell in enumerate(cells)
        ]

    def array_attr(self, expr: IRArrayAttr) -> IRExpr:
        """What a local array had before its components became axes."""
        array = self.array(expr.array)
        assert array.shape is not None
        if expr.attr == "shape":
            return expr
        return _i64(array.ndim if expr.attr == "ndim" else math.prod(array.shape), expr.loc)

    # ---------------------------------------------------------------------------------------------------- operations

    def vector_op(self, expr: IRVectorOp) -> Parts:
        name, loc = expr.name, expr.loc
        shape = shape_of(expr.dtype)
        if name == "identity":
            size = shape[0]
            cells = [float(i == j) for i in range(size) for j in range(size)]
            return [IRConst(loc=loc, value=cell, dtype=number_type(_dtype(expr))) for cell in cells]
        operands = self.operands(expr.args, pure=True)
        if name == "select":
            operands = self.spread(operands, math.prod(shape)) if shape else operands
        elif name not in USED_ONCE:
            operands = [[self.keep(part) for part in parts] for parts in operands]
        algebra = Algebra(number_type(_dtype(expr)), loc, self.keep)
        return algebra.expand(name, operands, [shape_of(arg.dtype) for arg in expr.args])

    def call(self, expr: IRCall) -> Parts:
        call = replace(expr, args=self.scalars(expr.args))
        dtype = expr.dtype
        if not isinstance(dtype, VecType):
            return [call]
        call.dtype = None
        names = [self.temporary(dtype.number, expr.loc) for _ in range(dtype.count)]
        self.out.append(IRUnpack(loc=expr.loc, names=names, call=call))
        return [IRVar(loc=expr.loc, name=name, dtype=dtype.number) for name in names]

    # ----------------------------------------------------------------------------------------------------- conditions

    def select(self, expr: IRSelect) -> Parts:
        """A conditional expression. Where an arm needs statements, or loads, it becomes an `if`: the guard holds."""
        cond = self.scalar(expr.cond)
        with self.collected() as then_made:
            then = self.parts(expr.then)
        with self.collected() as other_made:
            other = self.parts(expr.other)
        light = not any(reads_memory(part) or is_impure(part) for part in (*then, *other))
        if not (then_made or other_made) and (light or len(then) == 1):
            conds = self.repeated(cond, len(then)) if len(then) > 1 else [cond]
            return [
                IRSelect(loc=expr.loc, cond=c, then=a, other=b, dtype=a.dtype)
                for c, a, b in zip(conds, then, other, strict=True)
            ]
        names = [self.temporary(_dtype(part), expr.loc) for part in then]
        with self.collected() as then_block:
            self.out += then_made
            self.assign_all(names, then)
        with self.collected() as other_block:
            self.out += other_made
            self.assign_all(names, other)
        self.out.append(IRIf(loc=expr.loc, cond=cond, then=then_block, other=other_block))
        return [IRVar(loc=expr.loc, name=n, dtype=p.dtype) for n, p in zip(names, then, strict=True)]

    def assign_all(self, names: list[str], parts: Parts) -> None:
        for name, part in zip(names, parts, strict=True):
            self.assign(name, part)

    def bool_op(self, expr: IRBoolOp) -> IRExpr:
        """`and` and `or`; what a later value needs is made only when it is reached."""
        values: list[IRExpr] = []
        for position, value in enumerate(expr.values):
            with self.collected() as made:
                part = self.scalar(value)
            if made and position > 0:
                values = [self.guarded(expr, values, made, part)]
            else:
                self.out += made
                values.append(part)
        return _truth(values[0]) if len(values) == 1 else replace(expr, values=values)

    def guarded(self, expr: IRBoolOp, before: list[IRExpr], made: list[IRStmt], part: IRExpr) -> IRExpr:
        loc = expr.loc
        name = self.temporary(i32, loc)
        self.assign(name, _truth(before[0] if len(before) == 1 else replace(expr, values=before)))
        with self.collected() as reached:
            self.out += made
            self.assign(name, _truth(part))
        test = IRVar(loc=loc, name=name, dtype=i32)
        then, other = (reached, []) if expr.op == "and" else ([], reached)
        self.out.append(IRIf(loc=loc, cond=test, then=then, other=other))
        return IRVar(loc=loc, name=name, dtype=i32)


def _truth(expr: IRExpr) -> IRExpr:
    """A condition as 0 or 1."""
    temporary = isinstance(expr, IRVar) and expr.name.startswith("%v")
    if isinstance(expr, (IRBoolOp, IRNot, IRCompare)) or temporary:
        return expr
    return IRNot(loc=expr.loc, operand=IRNot(loc=expr.loc, operand=expr, dtype=i32), dtype=i32)


def _i64(value: int, loc: Loc) -> IRConst:
    return IRConst(loc=loc, value=value, dtype=i64)


def _dtype(expr: IRExpr) -> DType:
    assert expr.dtype is not None
    return expr.dtype
