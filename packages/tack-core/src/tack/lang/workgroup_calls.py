"""Collectives in the open: every barrier and block reduction becomes a statement of the loop's own code.

Device functions that contain collectives are inlined, and a block reduction inside an expression is lifted out of it,
with temporaries that keep the order of evaluation. Afterwards a collective is an `IRBarrier`, or the whole value of an
`IRAssign`, whose operand is a temporary that nothing else reads.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

from tack.lang import ir
from tack.lang.diagnostics import Loc, UnsupportedSyntaxError, fail
from tack.lang.ir_building import Symbols, assign, clone, compare, const, renamed, var
from tack.lang.records import field, record
from tack.lang.types import DType, f32, i32


def uses_workgroup(nodes: Any, functions: dict[str, ir.IRFunction]) -> bool:
    """Whether code reads the lane's number, has a collective, or uses a shared array that it is given."""
    for node in ir.walk(nodes):
        if isinstance(node, (ir.IRThreadId, ir.IRBarrier, ir.IRBlockReduce)):
            return True
        if isinstance(node, ir.IRCall) and uses_workgroup(functions[node.symbol or ""].body, functions):
            return True
    return False


@record
class Collectives:
    """Brings the collectives of one kernel into the open.

    `chains` has, by identity of a node that was inlined, the call sites that led to it, outermost first.
    """

    kernel: ir.IRKernel
    symbols: Symbols
    tables: dict[str, ir.IRTable] = field(default_factory=dict)
    chains: dict[int, tuple[Loc, ...]] = field(default_factory=dict)
    _collective: set[str] = field(default_factory=set)
    _chain: tuple[Loc, ...] = ()

    def __post_init__(self) -> None:
        self.tables |= self.kernel.tables
        for name, function in self.kernel.functions.items():  # callees come before callers
            if self.in_nodes(function.body):
                self._collective.add(name)

    @property
    def functions(self) -> dict[str, ir.IRFunction]:
        """The instances that are still called: those without collectives."""
        return {name: f for name, f in self.kernel.functions.items() if name not in self._collective}

    def in_nodes(self, nodes: Any) -> bool:
        """Whether there is a collective inside, or a call of a function that has one."""
        return any(
            isinstance(node, (ir.IRBarrier, ir.IRBlockReduce))
            or (isinstance(node, ir.IRCall) and node.symbol in self._collective)
            for node in ir.walk(nodes)
        )

    # --------------------------------------------------------------------------------------------------- statements

    def block(self, body: list[ir.IRStmt]) -> list[ir.IRStmt]:
        """A copy of the statements with every collective a statement of its own."""
        out: list[ir.IRStmt] = []
        for node in body:
            if self.in_nodes(node):
                self._statement(node, out)
            else:
                out.append(clone(node))
        return out

    def _statement(self, node: ir.IRStmt, out: list[ir.IRStmt]) -> None:
        match node:
            case ir.IRBarrier():
                self._emit(copy.copy(node), out)
            case ir.IRAssign():
                value = self._lift(node.value, out)
                out.append(ir.IRAssign(loc=node.loc, name=node.name, value=value, _resolved_type=node._resolved_type))
            case ir.IRUnpack():
                for name, value in zip(node.names, self._call(node.call, out), strict=True):
                    out.append(assign(name, value))
            case ir.IRExprStmt(value=ir.IRCall() as call) if call.symbol in self._collective:
                self._call(call, out)
            case ir.IRIf():
                cond = self._lift(node.cond, out)
                then, other = self.block(node.then), self.block(node.other)
                out.append(ir.IRIf(loc=node.loc, cond=cond, then=then, other=other))
            case ir.IRWhile():
                out.append(self._while(node))
            case ir.IRFor():
                start, stop, step = self._lift_all([node.start, node.stop, node.step], out)
                body = self.block(node.body)
                out.append(ir.IRFor(loc=node.loc, var=node.var, start=start, stop=stop, step=step, body=body))
            case ir.IRAssert():
                pass  # dropped in unchecked variants, what it would evaluate included
            case _:
                out.append(self._simple(node, out))

    def _while(self, node: ir.IRWhile) -> ir.IRWhile:
        """A test with a collective moves into the body, where `continue` still comes by it."""
        if not self.in_nodes(node.cond):
            return ir.IRWhile(loc=node.loc, cond=clone(node.cond), body=self.block(node.body))
        body: list[ir.IRStmt] = []
        cond = self._lift(node.cond, body)
        leave: list[ir.IRStmt] = [ir.IRBreak(loc=node.loc)]
        body.append(ir.IRIf(loc=node.loc, cond=ir.IRNot(loc=node.loc, operand=cond, dtype=i32), then=leave, other=[]))
        return ir.IRWhile(loc=node.loc, cond=const(1, i32, node.loc), body=body + self.block(node.body))

    def _simple(self, node: ir.IRStmt, out: list[ir.IRStmt]) -> ir.IRStmt:
        twin: Any = copy.copy(node)
        match twin:
            case ir.IRStore():
                twin.value, *twin.index = self._lift_all([twin.value, *twin.index], out)
            case ir.IRExprStmt():
                twin.value = self._parts(twin.value, out)
            case ir.IRReturn():
                twin.values = self._lift_all(twin.values, out)
            case ir.IRPrint():
                lifted = iter(self._lift_all([part for part in twin.parts if not isinstance(part, str)], out))
                twin.parts = [part if isinstance(part, str) else next(lifted) for part in twin.parts]
            case _:
                raise AssertionError(f"{node.loc}: a collective in {type(node).__name__}")
        return twin  # type: ignore[no-any-return]

    def _emit(self, node: ir.IRNode, out: list[ir.IRStmt]) -> None:
        self.chains[id(node)] = self._chain
        if isinstance(node, ir.IRStmt):
            out.append(node)

    # -------------------------------------------------------------------------------------------------- expressions

    def _lift(self, node: ir.IRExpr, out: list[ir.IRStmt]) -> ir.IRExpr:
        """The value of an expression after the statements added to `out`, without collectives in it."""
        if not self.in_nodes(node):
            return clone(node)  # type: ignore[no-any-return]
        match node:
            case ir.IRBlockReduce():
                return self._reduce(node, out)
            case ir.IRCall() if node.symbol in self._collective:
                (value,) = self._call(node, out)
                return value
            case ir.IRSelect():
                return self._select(node, out)
            case ir.IRBoolOp():
                return self._short_circuit(node, out)
            case ir.IRBind():
                out.append(assign(node.name, self._lift(node.value, out)))
                return var(node.name, _typed(node), node.loc)
        return self._parts(node, out)

    def _parts(self, node: ir.IRExpr, out: list[ir.IRStmt]) -> ir.IRExpr:
        """An operation whose operands are evaluated first, in order."""
        twin: Any = copy.copy(node)
        parts = iter(self._lift_all(list(ir.children(node)), out))
        for name in ("index", "args", "left", "right", "operand", "value"):
            held = getattr(twin, name, None)
            if isinstance(held, list):
                setattr(twin, name, [next(parts) for _ in held])
            elif isinstance(held, ir.IRExpr):
                setattr(twin, name, next(parts))
        assert next(parts, None) is None, f"{node.loc}: operands of {type(node).__name__}"
        return twin  # type: ignore[no-any-return]

    def _lift_all(self, nodes: list[ir.IRExpr], out: list[ir.IRStmt]) -> list[ir.IRExpr]:
        """Operands in order: what comes before a collective is kept in a temporary."""
        last = max((k for k, node in enumerate(nodes) if self.in_nodes(node)), default=-1)
        done: list[ir.IRExpr] = []
        for k, node in enumerate(nodes):
            value = self._lift(node, out)
            keep = k < last and not isinstance(value, (ir.IRConst, ir.IRArrayRef))
            done.append(self._kept(value, out) if keep else value)
        return done

    def _kept(self, value: ir.IRExpr, out: list[ir.IRStmt]) -> ir.IRVar:
        name = self.symbols.temporary(value.loc, _typed(value))
        out.append(assign(name, value))
        return var(name, _typed(value), value.loc)

    def _reduce(self, node: ir.IRBlockReduce, out: list[ir.IRStmt]) -> ir.IRVar:
        operand = self._kept(self._lift(node.value, out), out)
        reduce = ir.IRBlockReduce(loc=node.loc, op=node.op, value=operand, dtype=f32)
        self._emit(reduce, out)
        return self._kept(reduce, out)

    def _select(self, node: ir.IRSelect, out: list[ir.IRStmt]) -> ir.IRVar:
        cond, name = self._lift(node.cond, out), self.symbols.temporary(node.loc, _typed(node))
        arms: list[list[ir.IRStmt]] = []
        for arm in (node.then, node.other):
            inside: list[ir.IRStmt] = []
            inside.append(assign(name, self._lift(arm, inside)))
            arms.append(inside)
        out.append(ir.IRIf(loc=node.cond.loc, cond=cond, then=arms[0], other=arms[1]))
        return var(name, _typed(node), node.loc)

    def _short_circuit(self, node: ir.IRBoolOp, out: list[ir.IRStmt]) -> ir.IRVar:
        name = self.symbols.temporary(node.loc, i32)
        out.append(assign(name, _truth(self._lift(node.values[0], out))))
        for decides, value in pairwise(node.values):
            inside: list[ir.IRStmt] = []
            inside.append(assign(name, _truth(self._lift(value, inside))))
            known = var(name, i32, value.loc)
            goes_on = compare("!=" if node.op == "and" else "==", known, const(0, i32, value.loc))
            out.append(ir.IRIf(loc=decides.loc, cond=goes_on, then=inside, other=[]))
        return var(name, i32, node.loc)

    # -------------------------------------------------------------------------------------------------------- calls

    def _call(self, node: ir.IRCall, out: list[ir.IRStmt]) -> list[ir.IRExpr]:
        """A call of a function with collectives, inlined; its results."""
        function = self.kernel.functions[node.symbol or ""]
        *body, last = function.body
        if not isinstance(last, ir.IRReturn):
            body, last = function.body, ir.IRReturn(loc=function.loc, values=[])
        for inner in ir.walk(list(body)):
            if isinstance(inner, ir.IRReturn):
                fail(
                    UnsupportedSyntaxError,
                    "a `return` before the end of a device function with collectives is not supported",
                    inner.loc,
                    hint="assign the result to a local, and return it at the end",
                    chain=(*self._chain, node.loc),
                )
        args = self._lift_all(node.args, out)
        names = self._names(function, node)
        for param, arg in zip(function.params, args, strict=True):
            if isinstance(arg, ir.IRArrayRef):
                names[param.name] = arg.name
            else:
                out.append(assign(names[param.name], arg))
        before, self._chain = self._chain, (*self._chain, node.loc)
        out += self.block(renamed(list(body), names))
        results = [self._kept(self._lift(value, out), out) for value in renamed(last.values, names)]
        self._chain = before
        return list(results)

    def _names(self, function: ir.IRFunction, node: ir.IRCall) -> dict[str, str]:
        """A fresh symbol in the kernel for each symbol of a function but its array parameters."""
        names: dict[str, str] = {}
        by_reference = {p.name for p in function.params if not isinstance(p.type, DType)}
        for name, symbol in function.symbols.items():
            if name in by_reference:
                continue
            kind = "temp" if symbol.kind == "param" else symbol.kind
            wanted = f"{function.name}.{name}"
            names[name] = self.symbols.add(wanted, kind, symbol.loc, symbol.dtype or symbol.array_type)
            self.symbols.table[names[name]].source_name = symbol.source_name
        for name, table in function.tables.items():
            self.tables[names[name]] = copy.copy(table)
            self.tables[names[name]].name = names[name]
        return names


def _truth(value: ir.IRExpr) -> ir.IRExpr:
    """0 or 1, as `and` and `or` give; NaN is true."""
    inner = ir.IRNot(loc=value.loc, operand=value, dtype=i32)
    return ir.IRNot(loc=value.loc, operand=inner, dtype=i32)


def _typed(node: ir.IRExpr) -> DType:
    assert node.dtype is not None, "workgroups are split after typing"
    return node.dtype
