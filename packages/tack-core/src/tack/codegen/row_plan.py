"""Which parallel loops run several iterations in step (`row_blocks`), and how many."""

from __future__ import annotations

from collections import Counter
from math import comb
from typing import Final

from tack.codegen.work_estimate import trips
from tack.lang import ir
from tack.lang.ir_print import expr_text
from tack.lang.liveness import Liveness
from tack.lang.records import record
from tack.lang.row_blocks import in_step, shared_statements
from tack.lang.shapes import UNIFORM, VARYING, LaneShapes, Shape, assigned, constant

_ROWS: Final = 4
_FEWER_ROWS: Final = 2
_MOST_NODES: Final = 320  # of a loop that rows share, written out
_MOST_TESTS: Final = 8  # LLVM's `runtime-memory-check-threshold`
_SHORT: Final = 16  # iterations
# What has no copies, or an order.
_REFUSED: Final = (ir.IRAtomic, ir.IRPrint, ir.IRUnpack, ir.IRExprStmt, ir.IRLocalArray, ir.IRArrayRef, ir.IRThreadId)


@record(frozen=True)
class RowPlan:
    """A parallel loop whose iterations run `rows` at a time: `body` is that of a block."""

    rows: int
    body: list[ir.IRStmt]


def plan_rows(loop: ir.IRParallelFor, kernel: ir.IRKernel) -> RowPlan | None:
    """How to run a loop in rows; None if that does not pay. No array that is written may overlap another."""
    nodes = list(ir.walk(loop.body))
    if not any(isinstance(node, ir.IRFor) for node in nodes) or any(isinstance(node, _REFUSED) for node in nodes):
        return None
    if any(isinstance(node, ir.IRPrint) for function in kernel.functions.values() for node in ir.walk(function.body)):
        return None
    step = loop.ranges[-1].step
    shapes = LaneShapes(loop, int(step.value) if isinstance(step, ir.IRConst) else VARYING, frozenset())
    inner = row_loops(loop.body, shapes)
    shared = shared_statements(loop.body, inner, shapes) if inner else None
    if shared is None:
        return None
    rows = min(_count(node) for node in inner)
    return RowPlan(rows, in_step(loop.body, loop.vars[-1], rows, shared)) if rows > 1 else None


def _count(loop: ir.IRFor) -> int:
    """How many rows fit in the registers, and in LLVM's patience: it makes vectors of a loop only if it takes few tests
    whether streams of a stored array overlap."""
    nodes = list(ir.walk(loop.body))
    stored = {node.array for node in nodes if isinstance(node, ir.IRStore)}
    accesses = [node for node in nodes if isinstance(node, ir.IRLoad | ir.IRStore) and node.array in stored]
    streams = Counter(array for array, _ in {(a.array, tuple(map(expr_text, a.index))) for a in accesses})
    for rows in (_ROWS, _FEWER_ROWS):
        tests = sum(comb(rows * count, 2) for count in streams.values())
        if tests <= _MOST_TESTS and len(nodes) * rows <= _MOST_NODES:
            return rows
    return 1


def row_loops(body: list[ir.IRStmt], shapes: LaneShapes) -> list[ir.IRFor]:
    """The loops along rows in which iterations gain by going together: they add up floats, which have to wait for each
    other, or they load the same again and again, in a nest."""
    nests = [node for node in ir.walk(body) if isinstance(node, ir.IRFor)]
    inner = {id(node) for outer in nests for node in ir.walk(outer.body)}
    return [
        node
        for node in nests
        if not shapes.is_divergent(node) and (run := _along_rows(node, shapes)) is not None
        if run.elsewhere == 0 and (run.carries_float or (id(node) in inner and run.common > 0))
    ]


def leaves_rows(body: list[ir.IRStmt], shapes: LaneShapes) -> bool:
    """Whether lanes would gather or scatter what one iteration finds side by side, in a loop of which LLVM makes
    vectors, or one that stores."""
    runs = (_along_rows(node, shapes) for node in ir.walk(body) if isinstance(node, ir.IRFor))
    return any(run and (run.stores > 0 or (run.elsewhere == 0 and not run.carries_float)) for run in runs)


@record(frozen=True)
class _Run:
    """A loop along rows of arrays, one row an iteration of the parallel loop: how many of its accesses are stores along
    rows, to what is the same for all iterations, or neither; and whether it adds up floats."""

    stores: int
    common: int
    elsewhere: int
    carries_float: bool


def _along_rows(loop: ir.IRFor, shapes: LaneShapes) -> _Run | None:
    """How a plain innermost loop runs along rows; None if it does not."""
    if not all(isinstance(node, ir.IRAssign | ir.IRStore) for node in loop.body) or trips(loop) < _SHORT:
        return None
    if constant(loop.step) != 1:
        return None
    changing = assigned(loop.body)
    rows = stores = common = elsewhere = 0
    for node in ir.walk(loop.body):
        if isinstance(node, ir.IRLoad | ir.IRStore):
            along, across = _along(node.index, loop.var, changing), _across(node.index, shapes)
            if along == 1 and across in (1, -1):
                return None
            rows += along == 1 and across != UNIFORM
            stores += along == 1 and across != UNIFORM and isinstance(node, ir.IRStore)
            common += along == 1 and across == UNIFORM
            elsewhere += along not in (0, 1)
    carried = Liveness(loop.body).before & changing
    sums = [node.value for node in loop.body if isinstance(node, ir.IRAssign) and node.name in carried]
    floats = any(value.dtype is not None and value.dtype.is_float for value in sums)
    return _Run(stores, common, elsewhere, floats) if rows else None


def _across(index: list[ir.IRExpr], shapes: LaneShapes) -> Shape:
    """How an access runs over the iterations of the parallel loop."""
    of = [shapes.of(i) for i in index]
    return VARYING if any(shape != UNIFORM for shape in of[:-1]) else of[-1] if of else UNIFORM


def _along(index: list[ir.IRExpr], name: str, changing: set[str]) -> int | None:
    """How many elements an access moves with a loop's variable; None if that is no constant."""
    steps = [_step(i, name, changing) for i in index]
    return None if any(step != 0 for step in steps[:-1]) else steps[-1] if steps else 0


def _step(node: ir.IRExpr, name: str, changing: set[str]) -> int | None:
    if isinstance(node, ir.IRVar):
        return None if node.name in changing else int(node.name == name)
    steps = [_step(child, name, changing) for child in ir.children(node)]
    if None in steps:
        return None
    match node, steps:
        case ir.IRBinOp(op="+"), [int(a), int(b)]:
            return a + b
        case ir.IRBinOp(op="-"), [int(a), int(b)]:
            return a - b
    return None if any(steps) else 0
