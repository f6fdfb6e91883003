"""Vectors and matrices become numbers: typed IR to typed IR in which every value is a scalar (docs/design/pipeline.md).

A local, parameter or result becomes one symbol a component; an array of vectors becomes an array of numbers, addressed
by one flat index. Everything is evaluated once and in order. A function without vectors is left as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tack.lang.ir import (
    IRAssert,
    IRAssign,
    IRAtomic,
    IRBreak,
    IRCall,
    IRConst,
    IRExpr,
    IRExprStmt,
    IRFor,
    IRFunction,
    IRIf,
    IRKernel,
    IRLocalArray,
    IRNot,
    IRParallelFor,
    IRParam,
    IRPrint,
    IRReturn,
    IRSelect,
    IRStmt,
    IRStore,
    IRUnpack,
    IRVar,
    IRWhile,
    Symbol,
    walk,
)
from tack.lang.ir_vector import IRComponentAssign, IRComponentStore, has_vectors
from tack.lang.purity import fresh, reads_memory
from tack.lang.records import replace
from tack.lang.scalarise_expressions import ExpressionScalariser, Parts, component_names, flat_array
from tack.lang.types import ArrayType, DType, VecType, element_of, i32, number_type, shape_of


def scalarise(kernel: IRKernel) -> IRKernel:
    """The same kernel with scalars only; device functions that have vectors are expanded as well."""
    functions = {name: _expanded(function) for name, function in kernel.functions.items()}
    expanded = _expanded(kernel)
    assert isinstance(expanded, IRKernel)
    expanded.functions = functions
    return expanded


def _expanded(function: IRFunction) -> IRFunction:
    return _StatementScalariser(function).function_of(function) if has_vectors(function) else function


class _StatementScalariser(ExpressionScalariser):
    """Expands the statements of one function."""

    def function_of(self, function: IRFunction) -> IRFunction:
        for symbol in function.symbols.values():
            self.symbols.update((s.name, s) for s in _symbols(symbol))
        body = self.block(function.body)
        params = [part for param in function.params for part in _params(param)]
        results = tuple(part for result in function.results for part in _numbers(result))
        return replace(function, params=params, body=body, symbols=self.symbols, results=results)

    def block(self, body: Sequence[IRStmt]) -> list[IRStmt]:
        with self.collected() as made:
            for statement in body:
                self.statement(statement)
        return made

    def statement(self, node: IRStmt) -> None:
        match node:
            case IRIf():
                cond = self.scalar(node.cond)
                self.out.append(replace(node, cond=cond, then=self.block(node.then), other=self.block(node.other)))
            case IRWhile():
                self.while_loop(node)
            case IRFor():
                start, stop, step = self.scalars([node.start, node.stop, node.step])
                self.out.append(replace(node, start=start, stop=stop, step=step, body=self.block(node.body)))
            case IRParallelFor():
                self.out.append(replace(node, body=self.block(node.body)))
            case IRLocalArray():
                shape = node.shape + shape_of(node.element)
                self.out.append(replace(node, shape=shape, element=number_type(node.element)))
            case IRUnpack():
                self.unpack(node)
            case IRComponentAssign():
                self.component_assign(node)
            case _ if not self.touches(node):
                self.out.append(node)
            case IRAssign():
                self.assign_vector(node)
            case IRComponentStore():
                self.component_store(node)
            case IRStore():
                self.store(node)
            case IRReturn():
                self.out.append(replace(node, values=self.scalars(node.values)))
            case IRPrint():
                self.print_parts(node)
            case IRAssert():
                with self.collected() as before:
                    cond = self.scalar(node.cond)
                self.out.append(replace(node, cond=cond, before=before))
            case IRExprStmt(value=IRAtomic() as atomic) if shape_of(atomic.dtype):
                self.out += [replace(node, value=part) for part in self.atomic(atomic)]
            case IRExprStmt():
                self.out.append(replace(node, value=self.effect(node.value)))
            case _:
                self.out.append(self.rebuilt(node))

    def touches(self, node: IRStmt) -> bool:
        """Whether a simple statement has anything to expand."""
        if isinstance(node, IRStore) and self.array(node.array).components:
            return True
        return self.holds_vector(node)

    def effect(self, value: IRExpr) -> IRExpr:
        """A call for its effect, whatever it returns; or an atomic on numbers."""
        if isinstance(value, IRCall):
            return replace(value, args=self.scalars(value.args), dtype=None)
        return self.scalar(value)

    def while_loop(self, node: IRWhile) -> None:
        with self.collected() as made:
            cond = self.scalar(node.cond)
        body = self.block(node.body)
        if made:  # to be made anew for each test
            leave = IRNot(loc=node.loc, operand=cond, dtype=i32)
            test = IRIf(loc=node.loc, cond=leave, then=[IRBreak(loc=node.loc)], other=[])
            body = [*made, test, *body]
            cond = IRConst(loc=node.loc, value=1, dtype=i32)
        self.out.append(replace(node, cond=cond, body=body))

    # -------------------------------------------------------------------------------------------------- assignments

    def assign_vector(self, node: IRAssign) -> None:
        """All components are evaluated before any is assigned (rule VEC-7)."""
        parts = self.parts(node.value)
        shape = shape_of(node.value.dtype)
        if not shape:
            self.out.append(replace(node, value=parts[0]))
            return
        names = component_names(node.name, shape)
        if any(_reads(part, names[:k]) for k, part in enumerate(parts)):
            parts = [self.keep(part) if _reads(part, names) else part for part in parts]
            parts = [self.copied(part, names) for part in parts]
        self.assign_all(names, parts)

    def copied(self, part: IRExpr, names: list[str]) -> IRExpr:
        """A component that is itself about to be assigned, in a temporary."""
        if not (isinstance(part, IRVar) and part.name in names):
            return part
        assert part.dtype is not None
        name = self.temporary(part.dtype, part.loc)
        self.assign(name, part)
        return IRVar(loc=part.loc, name=name, dtype=part.dtype)

    def component_assign(self, node: IRComponentAssign) -> None:
        symbol = self.source[node.name]
        shape = shape_of(symbol.dtype)
        names = component_names(node.name, shape)
        value, *index = self.scalars([node.value, *node.index])
        position = self.position(index, shape)
        if isinstance(position, IRConst):
            self.assign(names[int(position.value)], value)
            return
        value, position = self.keep(value), self.keep(position)
        for k, name in enumerate(names):
            old = IRVar(loc=node.loc, name=name, dtype=value.dtype)
            test = self.is_component(position, k)
            self.assign(name, IRSelect(loc=node.loc, cond=test, then=fresh(value), other=old, dtype=value.dtype))

    def store(self, node: IRStore) -> None:
        value, *index = self.operands([node.value, *node.index], pure=True)
        element = self.array(node.array).components
        flat = [part for parts in index for part in parts]
        if not element:
            self.out.append(replace(node, value=value[0], index=flat))
            return
        address = self.address(node.array, flat, node.loc)
        dtype = _element(self.array(node.array))
        # A store may change what a later component would load.
        parts = self.spread([[self.keep(p) if reads_memory(p) else p for p in value]], dtype.count)[0]
        for cell, part in zip(self.cells(address, dtype), parts, strict=True):
            self.out.append(IRStore(loc=node.loc, array=node.array, index=[cell], value=part))

    def component_store(self, node: IRComponentStore) -> None:
        value, *index = self.scalars([node.value, *node.index, *node.component])
        count = len(node.index)
        address = self.address(node.array, index[:count], node.loc)
        cell = self.cell(address, index[count:], _element(self.array(node.array)))
        self.out.append(IRStore(loc=node.loc, array=node.array, index=[cell], value=value))

    def unpack(self, node: IRUnpack) -> None:
        call = replace(node.call, args=self.scalars(node.call.args))
        names = [n for name in node.names for n in component_names(name, shape_of(self.source[name].dtype))]
        self.out.append(replace(node, names=names, call=call))

    # --------------------------------------------------------------------------------------------------------- print

    def print_parts(self, node: IRPrint) -> None:
        """A vector is shown as a list, a matrix as a list of lists (rule VEC-13)."""
        values = iter(self.operands([part for part in node.parts if isinstance(part, IRExpr)], pure=True))
        shown: list[str | IRExpr] = []
        for part in node.parts:
            more = [part] if isinstance(part, str) else _shown(next(values), shape_of(part.dtype))
            for item in more:
                if isinstance(item, str) and shown and isinstance(shown[-1], str):
                    shown[-1] += item
                else:
                    shown.append(item)
        self.out.append(replace(node, parts=shown))


def _shown(parts: Parts, shape: tuple[int, ...]) -> list[str | IRExpr]:
    if not shape:
        return list(parts)
    size = len(parts) // shape[0]
    shown: list[str | IRExpr] = ["["]
    for k in range(shape[0]):
        shown += [", "] if k else []
        shown += _shown(parts[k * size : (k + 1) * size], shape[1:])
    return [*shown, "]"]


def _reads(expr: IRExpr, names: Sequence[str]) -> bool:
    return any(isinstance(node, IRVar) and node.name in names for node in walk(expr))


def _element(array: ArrayType) -> VecType:
    dtype = element_of(array)
    assert isinstance(dtype, VecType)
    return dtype


def _numbers(dtype: DType) -> list[DType]:
    return [dtype.number] * dtype.count if isinstance(dtype, VecType) else [dtype]


def _params(param: IRParam) -> list[IRParam]:
    if isinstance(param.type, ArrayType):
        return [replace(param, type=flat_array(param.type))]
    assert param.type is not None
    names = component_names(param.name, shape_of(param.type))
    if len(names) == 1:
        return [param]
    return [replace(param, name=name, type=number_type(param.type), annotation=None) for name in names]


def _symbols(symbol: Symbol) -> list[Symbol]:
    if symbol.array_type is not None:
        return [replace(symbol, array_type=flat_array(symbol.array_type))]
    if not isinstance(symbol.dtype, VecType):
        return [symbol]
    shape, number = symbol.dtype.shape, symbol.dtype.number
    names = zip(component_names(symbol.name, shape), component_names(symbol.source_name, shape), strict=True)
    return [replace(symbol, name=name, source_name=shown, dtype=number) for name, shown in names]
