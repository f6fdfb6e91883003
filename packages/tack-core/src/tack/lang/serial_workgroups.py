"""Workgroups on a device that runs each on one thread: `IRWorkgroup` made of plain loops.

The parallel loop runs over workgroups. Shared arrays are local arrays of that loop's iteration, each region is a loop
over the lanes that are within the trip count, and a barrier is nothing: the lanes of a region are done when the next
one begins. What a lane keeps from one region to another is in an array with an element for each lane (`lane_locals`);
what is the same for all lanes is a scalar.
"""

from __future__ import annotations

import copy
from typing import Any

from tack.lang import ir
from tack.lang.block_reductions import IDENTITY, combining_loops
from tack.lang.diagnostics import Loc
from tack.lang.ir_building import (
    Symbols,
    assign,
    binary,
    builtin,
    cast,
    clone,
    compare,
    const,
    counting,
    rebuild,
    var,
)
from tack.lang.lane_locals import LaneLocals
from tack.lang.lane_tiles import tiled
from tack.lang.records import replace
from tack.lang.serial_ranges import GroupRanges
from tack.lang.types import f32, i32, i64
from tack.lang.workgroup_calls import uses_workgroup

LANE_PARAM = "%lane"


def serialise_workgroups(kernel: ir.IRKernel) -> ir.IRKernel:
    """The kernel with plain loops for workgroups: only nodes that every generator knows.

    Parameters
    ----------
    kernel
        As `split_workgroups` leaves it. It is not changed; one without workgroups is returned as it is.
    """
    if not any(isinstance(s, ir.IRWorkgroup) for s in kernel.body):
        return kernel
    symbols = Symbols(kernel.symbols)
    functions = {name: _with_lane(f, kernel.functions) for name, f in kernel.functions.items()}
    before = _assigned_before(kernel)
    body = [
        _Group(kernel, statement, symbols, before).loop() if isinstance(statement, ir.IRWorkgroup) else statement
        for statement in kernel.body
    ]
    return replace(kernel, body=body, symbols=symbols.table, functions=functions)


def lanes_as_parameters(kernel: ir.IRKernel) -> ir.IRKernel:
    """The kernel with device functions that are given the lane's number instead of asking for it.

    For devices where only a kernel can ask. One whose functions do not is returned as it is.

    Parameters
    ----------
    kernel
        As `split_workgroups` leaves it. It is not changed.
    """
    if not any(uses_workgroup(f.body, kernel.functions) for f in kernel.functions.values()):
        return kernel
    functions = {name: _with_lane(f, kernel.functions) for name, f in kernel.functions.items()}
    body = _numbered(kernel.body, kernel.functions, lambda loc: ir.IRThreadId(loc=loc, dtype=i32))
    return replace(kernel, body=body, functions=functions)


def _assigned_before(kernel: ir.IRKernel) -> set[str]:
    """The scalars that have a value where a parallel loop begins."""
    names = {p.name for p in kernel.params}
    for node in kernel.body:
        for inner in ir.walk(node) if not isinstance(node, (ir.IRWorkgroup, ir.IRParallelFor)) else ():
            if isinstance(inner, (ir.IRAssign, ir.IRBind)):
                names.add(inner.name)
            elif isinstance(inner, ir.IRUnpack):
                names.update(inner.names)
    return names


def _with_lane(function: ir.IRFunction, functions: dict[str, ir.IRFunction]) -> ir.IRFunction:
    """A device function that is given the lane's number, if it or one that it calls asks for it."""
    if not uses_workgroup(function.body, functions):
        return function
    symbol = ir.Symbol(name=LANE_PARAM, kind="param", source_name=LANE_PARAM, loc=function.loc, dtype=i32)
    return replace(
        function,
        params=[*function.params, ir.IRParam(name=LANE_PARAM, loc=function.loc, type=i32)],
        symbols={**function.symbols, LANE_PARAM: symbol},
        body=_numbered(function.body, functions, lambda loc: var(LANE_PARAM, i32, loc)),
    )


def _numbered(nodes: Any, functions: dict[str, ir.IRFunction], lane: Any) -> Any:
    """A copy in which `lane(loc)` is the lane's number, handed to the functions that ask for it."""

    def replaced(node: Any) -> Any:
        if isinstance(node, ir.IRThreadId):
            return lane(node.loc)
        if isinstance(node, ir.IRCall) and uses_workgroup(functions[node.symbol or ""].body, functions):
            twin = copy.copy(node)
            twin.args = [*rebuild(node.args, replaced), lane(node.loc)]
            return twin
        return None

    return rebuild(nodes, replaced)


class _Group:
    """Makes the plain loop of one `IRWorkgroup`."""

    def __init__(self, kernel: ir.IRKernel, node: ir.IRWorkgroup, symbols: Symbols, before: set[str]) -> None:
        self.kernel, self.node, self.symbols, self.loc = kernel, node, symbols, node.loc
        self.number = self._new("%group", "loop")
        self.base, self.lanes, self.lane = self._new("%base"), self._new("%lanes"), self._new("%lane", "loop")
        self.spaces = GroupRanges(node, symbols)
        tree = self._plain_atomics(clone(node.body))
        first: list[ir.IRStmt] = [assign(name, value) for name, value in self.spaces.positions(self._flat(self.loc))]
        self.locals = LaneLocals(symbols, tree, first, self.lane, node.group, before)

    def _new(self, wanted: str, kind: str = "temp") -> str:
        return self.symbols.add(wanted, kind, self.loc, i64)

    def _flat(self, loc: Loc) -> ir.IRExpr:
        """The flat number of this lane's iteration."""
        return binary("+", var(self.base, i64, loc), var(self.lane, i64, loc))

    # ------------------------------------------------------------------------------------------------------ the loop

    def loop(self) -> ir.IRParallelFor:
        loc, group = self.loc, self.node.group
        base = binary("*", var(self.number, i64, loc), const(group, i64, loc))
        left = binary("+", binary("-", var(self.spaces.last, i64, loc), var(self.base, i64, loc)), const(1, i64, loc))
        body: list[ir.IRStmt] = [
            *(ir.IRLocalArray(loc=a.loc, name=a.name, shape=a.shape, element=a.element, space="shared")
              for a in self.node.shared),
            *self.locals.declarations(),
            assign(self.base, base),
            assign(self.lanes, builtin("min", const(group, i64, loc), left)),
            *self._initial(),
            *self._block(self.locals.tree),
        ]  # fmt: skip
        ranges, names = self.spaces.ranges(self.number)
        return ir.IRParallelFor(loc=loc, vars=names, ranges=ranges, body=body)

    def _initial(self) -> list[ir.IRStmt]:
        """Every lane begins with what its locals held before the loop."""
        stores = self.locals.initial()
        return [counting(self.lane, const(self.node.group, i64, self.loc), stores)] if stores else []

    def _block(self, tree: list[ir.IRStmt]) -> list[ir.IRStmt]:
        return [plain for node in tree for plain in self._statement(node)]

    def _statement(self, node: ir.IRStmt) -> list[ir.IRStmt]:
        match node:
            case ir.IRRegion():
                return self._region(node)
            case ir.IRBarrier():
                return []
            case ir.IRAssign(value=ir.IRBlockReduce() as reduce):
                return self._reduce(node, reduce)
            case ir.IRIf():
                cond = self._scalar(node.cond)
                return [ir.IRIf(loc=node.loc, cond=cond, then=self._block(node.then), other=self._block(node.other))]
            case ir.IRWhile():
                return [ir.IRWhile(loc=node.loc, cond=self._scalar(node.cond), body=self._block(node.body))]
            case ir.IRFor():
                twin = copy.copy(node)
                twin.start, twin.stop, twin.step = (self._scalar(e) for e in (node.start, node.stop, node.step))
                twin.body = self._block(node.body)
                return [twin]
        return [self._scalar(node)]

    def _scalar(self, node: Any) -> Any:
        """A copy of what is done once for all lanes."""

        def replaced(inner: Any) -> Any:
            return var(self.number, i64, inner.loc) if isinstance(inner, ir.IRGroupIndex) else None

        return rebuild(node, replaced)

    # ---------------------------------------------------------------------------------------------------- the regions

    def _region(self, region: ir.IRRegion) -> list[ir.IRStmt]:
        """A loop over the lanes; where positions in a tile are used, a nest of two over full workgroups."""
        loc = region.loc
        plain = counting(self.lane, var(self.lanes, i64, loc), self._lane_body(region.body))
        nest = tiled(region.body, self.node.group, self.symbols)
        if nest is None:
            return [plain]
        high, low, body = nest.high, nest.low, self._lane_body(nest.body)
        position = binary("+", binary("*", var(high, i64, loc), const(nest.width, i64, loc)), var(low, i64, loc))
        inner = counting(low, const(nest.width, i64, loc), [assign(self.lane, position), *body])
        full = counting(high, const(self.node.group // nest.width, i64, loc), [inner])
        is_full = compare("==", var(self.lanes, i64, loc), const(self.node.group, i64, loc))
        return [ir.IRIf(loc=loc, cond=is_full, then=[full], other=[plain])]

    def _lane_body(self, body: list[ir.IRStmt]) -> list[ir.IRStmt]:
        numbered = _numbered(body, self.kernel.functions, lambda loc: cast(var(self.lane, i64, loc), i32))
        return self._scalar(numbered)  # type: ignore[no-any-return]

    def _reduce(self, node: ir.IRAssign, reduce: ir.IRBlockReduce) -> list[ir.IRStmt]:
        """Lanes past the end give the identity; then the values are combined as a tree."""
        assert isinstance(reduce.value, ir.IRVar)
        loc, group, values = reduce.loc, self.node.group, self.locals.array_of(reduce.value.name)
        lane = self._new("%k", "loop")
        identity = const(IDENTITY[reduce.op], f32, loc)
        fill = ir.IRStore(loc=loc, array=values, index=[var(lane, i64, loc)], value=identity)
        past_end = ir.IRFor(
            loc=loc, var=lane, start=var(self.lanes, i64, loc), stop=const(group, i64, loc), step=const(1, i64, loc),
            body=[fill],
        )  # fmt: skip
        first = ir.IRLoad(loc=loc, array=values, index=[const(0, i64, loc)], dtype=f32)
        return [past_end, *combining_loops(reduce, values, group, self.symbols), assign(node.name, first)]

    # ---------------------------------------------------------------------------------------------------- atomics

    def _plain_atomics(self, tree: list[ir.IRStmt]) -> list[ir.IRStmt]:
        """An atomic on a shared array whose old value nobody wants is an ordinary update: lanes take turns."""

        def replaced(node: Any) -> Any:
            if not isinstance(node, ir.IRExprStmt) or not isinstance(node.value, ir.IRAtomic):
                return None
            return self._update(node.value)

        return rebuild(tree, replaced)  # type: ignore[no-any-return]

    def _update(self, node: ir.IRAtomic) -> ir.IRStmt | None:
        array = self.symbols.table[node.array].array_type
        if array is None or array.space != "shared" or node.op in ("cas", "exchange") or len(node.index) != 1:
            return None
        position = self.symbols.temporary(node.loc, i64)
        index = ir.IRBind(loc=node.loc, name=position, value=clone(node.index[0]), dtype=i64)
        again = var(position, i64, node.loc)
        old = ir.IRLoad(loc=node.loc, array=node.array, index=[index], dtype=node.dtype)
        value = clone(node.args[0])
        operators = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
        new = binary(operators[node.op], old, value) if node.op in operators else builtin(node.op, old, value)
        return ir.IRStore(loc=node.loc, array=node.array, index=[again], value=new)
