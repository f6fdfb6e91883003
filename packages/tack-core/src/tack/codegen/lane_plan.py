"""Which parallel loops run as lanes, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tack.codegen.lane_cost import PLAIN, CostModel, VectorUnit, choose_width, is_division, is_function, looped_types
from tack.codegen.lane_streams import Streams, find_streams
from tack.codegen.row_plan import leaves_rows
from tack.lang import ir
from tack.lang.inlining import InlinedBody, TooLarge, inline_calls
from tack.lang.records import record, replace
from tack.lang.shapes import VARYING, LaneShapes
from tack.lang.types import DType

_MOST_NODES: Final = 4000
_MOST_PRIVATE_BYTES: Final = 1 << 16  # local arrays of a whole block
_GAIN: Final = 0.8  # lanes must promise at least this much
_GAIN_OF_STREAMS: Final = 0.3  # what LLVM vectorises too
_GAIN_WITHOUT_MASKS: Final = 0.5  # where every masked access goes lane by lane
PASSES: Final = ("%lane", "%low", "%high")
"""How the variables of loops over the threads of a workgroup begin."""

_WIDEST: Final = 64
_MASKED_WIDTH: Final = 16  # of the blocks for what is left of a run


@record(frozen=True)
class LanePlan:
    """A parallel loop as lanes: the loop with device functions inlined, its annotations, and the width of a block;
    `disjoint` if no array that is written overlaps another; `streams` are its stores that may go past the caches."""

    loop: ir.IRParallelFor
    inlined: InlinedBody
    shapes: LaneShapes
    width: int
    unit: VectorUnit
    mask_bits: int
    disjoint: bool
    streams: Streams | None = None

    @property
    def rest_width(self) -> int:
        """Of the blocks for what is left of a run; 1 for scalar code."""
        loops = any(isinstance(node, ir.IRFor | ir.IRWhile) for node in ir.walk(self.loop.body))
        return min(self.width, _MASKED_WIDTH) if loops or len(self.loop.ranges) > 1 else 1

    @property
    def repeatable(self) -> bool:
        """Whether an iteration over several ranges that runs twice stores the same again."""
        nodes = list(ir.walk(self.loop.body))
        stored = {node.array for node in nodes if isinstance(node, ir.IRStore)} - self.shapes.private
        read = {node.array for node in nodes if isinstance(node, ir.IRLoad)}
        other = any(isinstance(node, ir.IRAtomic | ir.IRCall | ir.IRArrayRef) for node in nodes)
        return self.disjoint and len(self.loop.ranges) > 1 and not other and stored.isdisjoint(read)

    def types(self, kernel: ir.IRKernel) -> dict[str, DType]:
        return _types(kernel, self.inlined)


def plan_lanes(
    loop: ir.IRParallelFor,
    kernel: ir.IRKernel,
    unit: VectorUnit | None,
    lanes: int | None,
    disjoint: bool,
    below: Mapping[str, int] | None = None,
) -> LanePlan | None:
    """How to run a loop as lanes; None for scalar code.

    Parameters
    ----------
    loop, kernel
        Typed.
    unit
        The processor's vectors; None where nothing is known of them, and nothing is chosen.
    lanes
        The width to use wherever lanes are possible; 1 for none, None for a choice by cost.
    disjoint
        Whether no array that is written overlaps another.
    below
        Integer symbols that are known to be from zero to below a number.
    """
    if lanes == 1 or (lanes is None and unit is None):
        return None
    try:
        inlined = inline_calls(loop.body, kernel.functions, _MOST_NODES)
    except TooLarge:
        return None
    nodes = list(ir.walk(inlined.body))
    arrays = {node.name: node for node in nodes if isinstance(node, ir.IRLocalArray)}
    if any(isinstance(node, ir.IRPrint) or _is_over_workgroup(node) for node in nodes):
        return None  # what is printed comes out an iteration at a time
    body = ir.IRParallelFor(loc=loop.loc, vars=loop.vars, ranges=loop.ranges, body=inlined.body)
    stride = loop.ranges[-1].step
    literal = int(stride.value) if isinstance(stride, ir.IRConst) else VARYING
    shapes = LaneShapes(body, literal, frozenset(arrays), below)
    unit = unit or PLAIN
    types = _types(kernel, inlined)
    width = lanes or min(choose_width(body, shapes, types, unit), _most_lanes(loop.ranges[-1]))
    mask_bits = 1 if unit.has_masks else 8 * max([t.itemsize for t in looped_types(body, shapes, types)] + [4])
    if sum(map(_bytes, arrays.values())) * width > _MOST_PRIVATE_BYTES:
        return None
    plan = LanePlan(body, inlined, shapes, width, unit, mask_bits, disjoint)
    if not lanes and not _is_worth_it(plan, nodes):
        return None
    return replace(plan, streams=find_streams(body, shapes, unit, width)) if disjoint else plan


def _most_lanes(bounds: ir.IRRange) -> int:
    """The widest block that a range of literals fills."""
    if not isinstance(bounds.start, ir.IRConst) or not isinstance(bounds.stop, ir.IRConst):
        return _WIDEST
    return 1 << max(0, int(bounds.stop.value - bounds.start.value).bit_length() - 1)


def _types(kernel: ir.IRKernel, inlined: InlinedBody) -> dict[str, DType]:
    own = {s.name: s.dtype for s in kernel.symbols.values() if s.dtype is not None}
    return own | inlined.types


def _is_over_workgroup(node: ir.IRNode) -> bool:
    """Whether this is the loop of a pass over the threads of a workgroup: `tile_plan` makes lanes of those."""
    return isinstance(node, ir.IRFor) and node.var.startswith(PASSES)


def _bytes(array: ir.IRLocalArray) -> int:
    size = array.element.itemsize
    for extent in array.shape:
        size *= extent
    return size


def _is_worth_it(plan: LanePlan, nodes: list[ir.IRNode]) -> bool:
    """Cheaper as lanes; and not what LLVM's own vectoriser does better, straight-line code on rows of a grid.

    Streams it does as well, but its passes take 10 ms longer. Tables that are looked up are no streams.
    """
    if leaves_rows(plan.loop.body, plan.shapes):
        return False
    cost = CostModel(plan.shapes, plan.unit, plan.width).of(plan.loop.body)
    if cost.lanes >= (_GAIN if plan.unit.masked else _GAIN_WITHOUT_MASKS) * plan.width * cost.scalar:
        return False
    if (len(plan.loop.ranges) == 1 or plan.repeatable) and cost.lanes < _GAIN_OF_STREAMS * plan.width * cost.scalar:
        return True
    fused = plan.unit.fused
    return any(isinstance(node, ir.IRFor | ir.IRWhile | ir.IRIf) or _is_hard(node, fused) for node in nodes)


def _is_hard(node: ir.IRNode, fused: bool) -> bool:
    """Whether an operation of straight-line code keeps LLVM from vectorising, and not us."""
    if fused and is_function(node):
        return True
    return is_division(node)
