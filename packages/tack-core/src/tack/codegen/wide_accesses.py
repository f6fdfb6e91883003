"""Which loops of a device move several elements a thread with one access, and which accesses those are.

Consecutive iterations are independent of each other, so a thread may do some of them at once: all its loads first, its
stores last. What must hold is that no iteration can tell, which is decided here from the shapes of `lang.shapes`, the
same analysis that serves a CPU's lanes. Whether addresses are aligned is asked at run time.
"""

from __future__ import annotations

from typing import Final

from tack.codegen.c_facts import ExpressionFacts
from tack.codegen.work_estimate import work
from tack.lang import ir
from tack.lang.liveness import Liveness
from tack.lang.records import field, record
from tack.lang.shapes import UNIFORM, LaneShapes, assigned
from tack.lang.types import ArrayType

_MOST_WORK: Final = 320  # of the iterations of a thread: beyond, arithmetic costs more than memory, and code grows
_HARD: Final = (
    *(ir.IRFor, ir.IRWhile, ir.IRBreak, ir.IRContinue, ir.IRReturn, ir.IRAtomic, ir.IRPrint),
    *(ir.IRLocalArray, ir.IRUnpack, ir.IRExprStmt),
)
Access = ir.IRLoad | ir.IRStore
_INDEX_NODES: Final = (ir.IRConst, ir.IRVar, ir.IRArrayAttr, ir.IRBinOp, ir.IRUnary, ir.IRCast)


@record(frozen=True)
class WidePlan:
    """`each` iterations a thread; the accesses that are one access for all of them, in order of evaluation."""

    each: int
    loads: list[ir.IRLoad]
    stores: list[ir.IRStore]

    @property
    def accesses(self) -> list[Access]:
        return [*self.loads, *self.stores]


@record
class _Events:
    """The accesses of an iteration in order of evaluation; `certain` are the loads that every iteration does."""

    order: list[tuple[str, Access | None]] = field(default_factory=list)
    certain: list[ir.IRLoad] = field(default_factory=list)

    def statement(self, node: ir.IRStmt) -> None:
        match node:
            case ir.IRStore():
                self.expression(node.value, True)
                for index in node.index:
                    self.expression(index, True)
                self.order.append((node.array, node))
            case ir.IRIf():
                for child in ir.walk(node):
                    if isinstance(child, (ir.IRLoad, ir.IRArrayRef)):
                        self._load(child, False)
            case _:
                for child in ir.children(node):
                    self.expression(child, True)

    def expression(self, node: ir.IRExpr, certain: bool) -> None:
        if isinstance(node, (ir.IRSelect, ir.IRBoolOp)):
            first, *guarded = ir.children(node)
            self.expression(first, certain)
            for child in guarded:
                self.expression(child, False)
            return
        for child in ir.children(node):
            self.expression(child, certain)
        if isinstance(node, (ir.IRLoad, ir.IRArrayRef)):
            self._load(node, certain)

    def _load(self, node: ir.IRLoad | ir.IRArrayRef, certain: bool) -> None:
        if isinstance(node, ir.IRArrayRef):  # a device function that is called reads it
            self.order.append((node.name, None))
            return
        self.order.append((node.array, node))
        if certain:
            self.certain.append(node)


def plan_wide(
    loop: ir.IRParallelFor, kernel: ir.IRKernel, facts: ExpressionFacts, *, disjoint: bool, widest: int
) -> WidePlan | None:
    """How many iterations of a loop a thread does, and with which wide accesses.

    Parameters
    ----------
    loop, kernel
        Typed.
    facts
        Of the kernel.
    disjoint
        No written array overlaps another argument; else any two arrays may be one.
    widest
        Bytes of the device's widest access; 0 if it gains nothing from wide ones.

    Returns
    -------
    WidePlan or None
        None for one iteration a thread.
    """
    if not widest or not _is_plain(loop, facts):
        return None
    shapes, changed = LaneShapes(loop, 1, frozenset()), assigned(loop.body)
    if changed & (shapes.live_in | set(loop.vars)):
        return None  # an iteration would see what the one before it left
    events = _Events()
    for statement in loop.body:
        events.statement(statement)
    stores = [node for _, node in events.order if isinstance(node, ir.IRStore)]
    accesses = _Accesses(loop, kernel, shapes, changed)
    if not stores or not all(map(accesses.is_wide, stores)) or not _may_wait(events, stores, disjoint):
        return None
    loads = list(filter(accesses.is_wide, events.certain))
    chosen = WidePlan(1, loads, stores).accesses
    if len(set(map(place, chosen))) > len({node.array for node in chosen}):
        return None  # of neighbours in one array at most one is aligned
    each = widest // max(accesses.itemsize(node) for node in chosen)
    if each * work(loop.body, kernel.functions) > _MOST_WORK:
        return None
    return WidePlan(each, loads, stores)


def may_share_a_thread(loop: ir.IRParallelFor, kernel: ir.IRKernel, each: int) -> bool:
    """Whether a thread may do several iterations, one after another: they are short, and leave each other nothing."""
    if any(isinstance(node, (ir.IRFor, ir.IRWhile)) for node in ir.walk(loop.body)):
        return False
    if each * work(loop.body, kernel.functions) > _MOST_WORK:
        return False
    return not assigned(loop.body) & Liveness(loop.body).before - set(loop.vars)


def place(node: Access) -> tuple[object, ...]:
    """What an access addresses; equal for the same array and index, if nothing in the index changes in between."""
    return (node.array, *map(_shape_of, node.index))


def _shape_of(node: ir.IRExpr) -> tuple[object, ...]:
    match node:
        case ir.IRConst():
            return ("const", node.value)
        case ir.IRVar():
            return ("var", node.name)
        case ir.IRArrayAttr():
            return (node.attr, node.array, node.axis)
        case ir.IRCast():
            return ("cast", node.target.name, _shape_of(node.operand))
    return (getattr(node, "op", None), *map(_shape_of, ir.children(node)))


def _is_plain(loop: ir.IRParallelFor, facts: ExpressionFacts) -> bool:
    """Straight-line code that loads, computes and stores, and branches that do no more than assign."""
    step = loop.ranges[-1].step
    if not isinstance(step, ir.IRConst) or step.value != 1:
        return False
    for statement in loop.body:
        for node in ir.walk(statement):
            if isinstance(node, _HARD) or (node is not statement and isinstance(node, ir.IRStore)):
                return False
            if isinstance(node, ir.IRCall) and facts.has_effect(node):
                return False
    return True


@record(frozen=True)
class _Accesses:
    """Which accesses move along an array by one element an iteration."""

    loop: ir.IRParallelFor
    kernel: ir.IRKernel
    shapes: LaneShapes
    changed: set[str]

    def itemsize(self, node: Access) -> int:
        return self._type(node).dtype.itemsize

    def _type(self, node: Access) -> ArrayType:
        array_type = self.kernel.symbols[node.array].array_type
        assert array_type is not None
        return array_type

    def is_wide(self, node: Access) -> bool:
        if node.array not in {param.name for param in self.kernel.params}:
            return False
        *outer, last = node.index
        if not all(isinstance(n, _INDEX_NODES) for index in node.index for n in ir.walk(index)):
            return False
        if _variables(*node.index) & self.changed or _variables(last) & set(self.loop.vars[:-1]):
            return False
        return self.shapes.of(last) == 1 and all(self.shapes.of(index) == UNIFORM for index in outer)


def _variables(*indices: ir.IRExpr) -> set[str]:
    return {node.name for index in indices for node in ir.walk(index) if isinstance(node, ir.IRVar)}


def _may_wait(events: _Events, stores: list[ir.IRStore], disjoint: bool) -> bool:
    """Whether stores may come after all loads: an array's loads are before its stores, which are to one place."""
    if not disjoint and len(stores) > 1:
        return False
    stored: dict[str, tuple[object, ...]] = {}
    for array, node in events.order:
        if isinstance(node, ir.IRStore):
            if stored.setdefault(array, place(node)) != place(node):
                return False
        elif array in stored or (stored and not disjoint):
            return False
    return True
