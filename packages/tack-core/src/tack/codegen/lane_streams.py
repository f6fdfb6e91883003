"""Which stores of a loop may go past the caches to memory, and from how many iterations on.

A plain store first reads the cache line that it writes to. Where a loop only writes an array, and touches more than the
caches hold, that read is for nothing: a store past the caches saves it, a quarter of the traffic of ``a = b + s * c``.
Where the caches do hold the array, whoever reads it next would wait for memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tack.codegen.lane_cost import VectorUnit
from tack.lang import ir
from tack.lang.records import record
from tack.lang.shapes import UNIFORM, LaneShapes, assigned

LINE: Final = 64  # bytes of a cache line
_LEAST_BYTES: Final = 16  # the narrowest vector that can go past the caches
_SIMPLE: Final = ir.IRVar | ir.IRConst | ir.IRArrayAttr | ir.IRCast | ir.IRBinOp
_OPERATORS: Final = frozenset("+-*")


@record(frozen=True)
class Streams:
    """Stores past the caches: the statements, those of the smallest elements first, the lanes of a block, and from how
    many iterations of the whole loop on they pay."""

    stores: tuple[ir.IRStore, ...]
    width: int
    least: int


def size_of(store: ir.IRStore) -> int:
    """Of an element, in bytes."""
    assert store.value.dtype is not None
    return store.value.dtype.itemsize


def find_streams(loop: ir.IRParallelFor, shapes: LaneShapes, unit: VectorUnit, width: int) -> Streams | None:
    """The stores of a loop that may go past the caches, in full blocks; None if there are none.

    Each runs once an iteration, its lanes' elements are neighbours, and nothing else in the loop touches its array. Its
    place must be known before the iteration begins: no local of the loop takes part.

    Parameters
    ----------
    loop
        Typed and inlined; no array that it writes overlaps another.
    shapes, unit, width
        As for its plan.
    """
    if not unit.caches or width & (width - 1) or shapes.is_divergent(loop):
        return None
    nodes = list(ir.walk(loop.body))
    uses = Counter(
        node.name if isinstance(node, ir.IRArrayRef) else getattr(node, "array", "")
        for node in nodes
        if not isinstance(node, ir.IRArrayAttr)
    )
    own = assigned(loop.body)
    stores = [
        node
        for node in loop.body
        if isinstance(node, ir.IRStore) and node.array not in shapes.private and uses[node.array] == 1
        if width * size_of(node) >= _LEAST_BYTES and _is_row(node.index, shapes)
        if all(_is_simple(part, own) for part in ir.walk(list(node.index)))
    ]
    if not stores:
        return None
    return Streams(tuple(sorted(stores, key=size_of)), width, -(-unit.caches // _bytes_touched(nodes, shapes)))


def _is_row(index: Sequence[ir.IRExpr], shapes: LaneShapes) -> bool:
    """Whether the lanes of a block have neighbouring elements."""
    found = [shapes.of(i) for i in index]
    return bool(found) and found[-1] == 1 and all(shape == UNIFORM for shape in found[:-1])


def _is_simple(node: ir.IRNode, own: set[str]) -> bool:
    if isinstance(node, ir.IRVar):
        return node.name not in own
    return isinstance(node, _SIMPLE) and (not isinstance(node, ir.IRBinOp) or node.op in _OPERATORS)


def _bytes_touched(nodes: list[ir.IRNode], shapes: LaneShapes) -> int:
    """By an iteration, of arrays of which each touches something else: about what a long loop needs of the caches."""
    sizes: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ir.IRLoad | ir.IRStore) and node.array not in shapes.private:
            dtype = node.dtype if isinstance(node, ir.IRLoad) else node.value.dtype
            assert dtype is not None
            if any(shapes.of(i) != UNIFORM for i in node.index):
                sizes[node.array] = dtype.itemsize
    return sum(sizes.values())
