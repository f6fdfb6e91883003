"""Passes over the lanes of a workgroup, which are serial loops here (`serial_workgroups`), as lanes of vectors.

LLVM makes vectors of innermost loops only. So a pass whose lanes have loops of their own runs as lanes, and one over a
tile takes several of its rows in step first: rows of a tile load much alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tack.codegen.lane_cost import VectorUnit
from tack.codegen.lane_plan import PASSES, LanePlan, plan_lanes
from tack.codegen.work_estimate import trips
from tack.lang import ir
from tack.lang.ir_building import assign, binary, const, rebuild, var
from tack.lang.records import replace
from tack.lang.row_blocks import in_step, row_name, shared_statements
from tack.lang.shapes import UNIFORM, LaneShapes, assigned
from tack.lang.types import i64

_ROWS: Final = 4
_TILE: Final = "%high"
_INNER: Final = ("%lane", "%low")
# What has no copies, or an order.
_REFUSED: Final = (ir.IRAtomic, ir.IRPrint, ir.IRCall, ir.IRUnpack, ir.IRExprStmt, ir.IRLocalArray)


def step_tiles(kernel: ir.IRKernel) -> ir.IRKernel:
    """The kernel with passes over tiles that take several rows in step, where these share what they load."""
    if not any(name.startswith(_TILE) for name in kernel.symbols):
        return kernel
    split: set[str] = set()

    def replaced(node: Any) -> ir.IRFor | None:
        if not isinstance(node, ir.IRFor) or not node.var.startswith(_TILE) or (made := _stepped(node)) is None:
            return None
        split.update(assigned(node.body) | {node.var})
        return made

    body = rebuild(kernel.body, replaced)
    copies = {
        row_name(name, row): replace(kernel.symbols[name], name=row_name(name, row))
        for name in sorted(split)
        for row in range(_ROWS)
    }
    return replace(kernel, body=body, symbols=kernel.symbols | copies)


def _stepped(tile: ir.IRFor) -> ir.IRFor | None:
    """The outer loop of a pass over a tile, four rows an iteration."""
    if trips(tile) % _ROWS or any(isinstance(node, _REFUSED) for node in ir.walk(tile.body)):
        return None
    loc, bounds = tile.loc, ir.IRRange(start=tile.start, stop=tile.stop, step=tile.step)
    shapes = LaneShapes(ir.IRParallelFor(loc=loc, vars=[tile.var], ranges=[bounds], body=tile.body), 1, frozenset())
    columns = [node for node in tile.body if isinstance(node, ir.IRFor)]
    inner = [node for column in columns for node in ir.walk(column.body) if _is_shared(node, shapes)]
    shared = shared_statements(tile.body, inner, shapes) if inner else None
    if shared is None:
        return None
    names = [row_name(tile.var, row) for row in range(_ROWS)]
    rows: list[ir.IRStmt] = [
        assign(names[row], binary("+", var(names[0], i64, loc), const(row, i64, loc))) for row in range(1, _ROWS)
    ]
    body = rows + in_step(tile.body, tile.var, _ROWS, shared)
    return ir.IRFor(loc=loc, var=names[0], start=tile.start, stop=tile.stop, step=const(_ROWS, i64, loc), body=body)


def _is_shared(node: ir.IRNode, shapes: LaneShapes) -> bool:
    """Whether this is a plain loop in which rows of a tile load the same."""
    if not isinstance(node, ir.IRFor) or shapes.is_divergent(node):
        return False
    plain = all(isinstance(inner, ir.IRAssign | ir.IRStore) for inner in node.body)
    return plain and any(isinstance(n, ir.IRLoad) and shapes.of(n) == UNIFORM for n in ir.walk(node.body))


def plan_passes(
    loop: ir.IRParallelFor, kernel: ir.IRKernel, unit: VectorUnit | None, lanes: int | None, disjoint: bool
) -> dict[int, LanePlan]:
    """By identity of the serial loop: the passes of a loop over workgroups that run as lanes."""
    plans: dict[int, LanePlan] = {}
    below = below_group(kernel)
    for node in _passes(loop.body) if below else ():
        bounds = ir.IRRange(start=node.start, stop=node.stop, step=node.step)
        lane_loop = ir.IRParallelFor(loc=node.loc, vars=[node.var], ranges=[bounds], body=node.body)
        plan = plan_lanes(lane_loop, kernel, unit, lanes, disjoint, below) if _has_loops(node) else None
        if plan is not None:
            plans[id(node)] = replace(plan, streams=None)
    return plans


def below_group(kernel: ir.IRKernel) -> dict[str, int]:
    """The variables of passes, which are below the size of a workgroup; `%lanes`, how many one has, may equal it."""
    return {name: kernel.group for name, s in kernel.symbols.items() if s.kind == "loop" and name.startswith(PASSES)}


def _passes(body: list[ir.IRStmt]) -> Iterator[ir.IRFor]:
    """Loops over the lanes of a workgroup; of a pass over a tile the one for full workgroups."""
    for node in body:
        if isinstance(node, ir.IRFor) and node.var.startswith(_INNER):
            yield node
        elif isinstance(node, ir.IRIf) and len(node.then) == 1 and _is_tile(node.then[0]):
            yield from _passes(node.then)
        elif isinstance(node, ir.IRFor | ir.IRWhile):
            yield from _passes(node.body)
        elif isinstance(node, ir.IRIf):
            yield from _passes(node.then)
            yield from _passes(node.other)


def _is_tile(node: ir.IRStmt) -> bool:
    return isinstance(node, ir.IRFor) and node.var.startswith(_TILE)


def _has_loops(lane_loop: ir.IRFor) -> bool:
    """Whether lanes have loops of their own, and no effect that must be one lane's after another's: what was an atomic
    update of a shared array binds its index."""
    nodes = list(ir.walk(lane_loop.body))
    if any(isinstance(n, ir.IRAtomic) or (isinstance(n, ir.IRBind) and n.name.startswith("%w")) for n in nodes):
        return False
    return any(isinstance(n, ir.IRFor | ir.IRWhile) for n in nodes)
