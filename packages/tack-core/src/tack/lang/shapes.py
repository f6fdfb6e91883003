"""How values vary over consecutive iterations of a parallel loop, when a block of them runs as the lanes of vectors.

The shape of a value is `UNIFORM` (0: one number for the block), an integer stride (*linear*: base + stride * lane,
modulo 2**N), or `VARYING` (None: a number a lane). A statement is *divergent* if the lanes of a block may decide
differently, so that it needs masks. Both are found together, optimistically, to a fixpoint: all starts uniform.

A local that is assigned under a mask needs no blend with its old value, and may stay uniform or linear, when no lane
outside the mask can read it later.

The annotations stay outside the tree: the same tree is also emitted as plain scalar code, where all is uniform.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tack.lang import ir
from tack.lang.inlining import IRInlined, IRLeave
from tack.lang.intervals import Intervals, assigned_by
from tack.lang.liveness import Liveness, Names
from tack.lang.records import record
from tack.lang.types import DType

Shape = int | None
UNIFORM: Final = 0
VARYING: Final = None
_WIDEST_STRIDE: Final = 1 << 20

Region = ir.IRParallelFor | ir.IRWhile | ir.IRFor | IRInlined
"""What a jump leaves: the parallel loop's own body, a loop, an inlined function."""


class Shapes:
    """Annotations of a body in which everything is uniform: plain scalar code."""

    def of(self, node: ir.IRExpr) -> Shape:
        """The shape of an expression."""
        return UNIFORM

    def of_name(self, name: str) -> Shape:
        """The shape of a scalar symbol."""
        return UNIFORM

    def is_divergent(self, node: ir.IRNode) -> bool:
        """Whether lanes may part at this `if`, loop or inlined call."""
        return False

    def is_blended(self, node: ir.IRNode, name: str) -> bool:
        """Whether what this node assigns to `name` must be merged with the old value under a mask."""
        return False


class LaneShapes(Shapes):
    """Annotations of a parallel loop whose last index is linear.

    Parameters
    ----------
    loop
        Typed; device functions are inlined.
    stride
        The step of the last range, if it is a literal, else `VARYING`.
    private
        The names of arrays that each iteration has its own of.
    below
        Integer symbols that are known to be from zero to below a number.
    """

    def __init__(
        self, loop: ir.IRParallelFor, stride: Shape, private: frozenset[str], below: Mapping[str, int] | None = None
    ) -> None:
        self.loop, self.stride, self.private = loop, stride, private
        self.names: dict[str, Shape] = {}
        self.divergent: set[int] = set()
        self.blended: set[tuple[int, str]] = set()
        self.liveness = Liveness(loop.body)
        self.live_in = self.liveness.before
        self._intervals = Intervals(loop.body, below, self.live_in) if below else None
        self._known: dict[int, Shape] = {}
        _Walk(self).fixpoint()

    def of(self, node: ir.IRExpr) -> Shape:
        if isinstance(node, ir.IRConst | ir.IRArrayAttr | ir.IRArrayRef):
            return UNIFORM
        if isinstance(node, ir.IRVar):
            return self.of_name(node.name)
        if id(node) not in self._known:
            self._known[id(node)] = self._compound(node)
        return self._known[id(node)]

    def of_name(self, name: str) -> Shape:
        return self.names.get(name, UNIFORM)

    def is_divergent(self, node: ir.IRNode) -> bool:
        return id(node) in self.divergent

    def is_blended(self, node: ir.IRNode, name: str) -> bool:
        return (id(node), name) in self.blended

    def forget(self) -> None:
        """Names have new shapes: those of expressions must be found again."""
        self._known.clear()

    def _compound(self, node: ir.IRExpr) -> Shape:
        match node:
            case ir.IRBind():
                return self.of(node.value)
            case IRInlined():
                return self.of_name(node.results[0]) if node.results else UNIFORM
            case ir.IRAtomic():
                return VARYING
            case ir.IRLoad():
                uniform = node.array not in self.private and all(self.of(i) == UNIFORM for i in node.index)
                return UNIFORM if uniform else VARYING
        operands = [self.of(child) for child in ir.children(node)]
        if all(shape == UNIFORM for shape in operands):
            return UNIFORM
        if VARYING in operands or node.dtype is None or node.dtype.is_float:
            return VARYING
        return _narrow(self._linear(node, [s for s in operands if s is not None]))

    def _linear(self, node: ir.IRExpr, operands: list[int]) -> Shape:
        """Of an integer operation on linear operands, not all uniform."""
        match node:
            case ir.IRUnary():
                return -operands[0]
            case ir.IRCast(operand=operand, target=target):
                source = operand.dtype
                keeps = source is not None and source.is_integer and target.bits <= source.bits
                # A wider type does not wrap where the base does.
                return operands[0] if keeps or (self._intervals and self._intervals.of(operand)) else VARYING
            case ir.IRBinOp(op="+"):
                return operands[0] + operands[1]
            case ir.IRBinOp(op="-"):
                return operands[0] - operands[1]
            case ir.IRBinOp(op="*", left=left, right=right):
                if (factor := constant(right)) is not None:
                    return operands[0] * factor
                if (factor := constant(left)) is not None:
                    return operands[1] * factor
            case ir.IRBinOp(op="<<", right=right):
                if (count := constant(right)) is not None:
                    return operands[0] << min(count, 64)
        return VARYING


def constant(node: ir.IRExpr) -> int | None:
    """The value of an integer literal, through casts between integers."""
    if isinstance(node, ir.IRConst) and node.dtype is not None and node.dtype.is_integer:
        return int(node.value)
    if isinstance(node, ir.IRCast) and isinstance(node.dtype, DType) and node.dtype.is_integer:
        value = constant(node.operand)
        return None if value is None else node.dtype.wrap(value)
    return None


def _narrow(shape: Shape) -> Shape:
    return VARYING if shape is None or abs(shape) > _WIDEST_STRIDE else shape


def jumps(statements: list[ir.IRStmt]) -> Iterator[ir.IRStmt]:
    """The jumps in statements that leave the region which these are directly in."""
    for node in statements:
        match node:
            case ir.IRBreak() | ir.IRContinue() | IRLeave():
                yield node
            case ir.IRIf():
                yield from jumps(node.then)
                yield from jumps(node.other)
            case ir.IRWhile() | ir.IRFor():
                yield from (jump for jump in jumps(node.body) if isinstance(jump, IRLeave))


@record
class _Place:
    """A region on the way down, and whether some of its lanes may be off here."""

    region: Region
    parted: bool = False


class _Walk:
    """One round after another over the body, until nothing changes; shapes and divergence only ever grow."""

    def __init__(self, shapes: LaneShapes) -> None:
        self.shapes, self.live = shapes, shapes.liveness
        self.changed = False
        self.places: list[_Place] = []

    def fixpoint(self) -> None:
        loop, names = self.shapes.loop, self.shapes.names
        names[loop.vars[-1]] = self.shapes.stride
        self.changed = True
        while self.changed:
            self.changed = False
            self.shapes.blended.clear()
            for name in self.shapes.live_in & assigned(loop.body) - {loop.vars[-1]}:
                self._assign(name, UNIFORM)
            self.places = [_Place(loop)]
            self._block(loop.body, frozenset())

    def _assign(self, name: str, shape: Shape) -> None:
        names = self.shapes.names
        if name not in names or (names[name] is not VARYING and names[name] != shape):
            names[name] = VARYING if name in names else shape
            self.changed = True
            self.shapes.forget()

    def _assign_under_mask(self, node: ir.IRNode, name: str, shape: Shape, others: Names) -> None:
        if name in others:
            self.shapes.blended.add((id(node), name))
            shape = VARYING
        self._assign(name, shape)

    def _part(self, node: Region | ir.IRIf) -> None:
        if id(node) not in self.shapes.divergent:
            self.shapes.divergent.add(id(node))
            self.changed = True

    # -- statements; `others` is what lanes that are off here may read later

    def _block(self, statements: list[ir.IRStmt], others: Names) -> None:
        for node in statements:
            self._statement(node, others)
            place = self.places[-1]
            if self.shapes.is_divergent(place.region) and any(jumps([node])):
                place.parted = True

    def _statement(self, node: ir.IRStmt, others: Names) -> None:
        match node:
            case ir.IRAssign():
                self._expr(node.value, others)
                self._assign_under_mask(node, node.name, self.shapes.of(node.value), others)
            case ir.IRUnpack():
                self._expr(node.call, others)
                assert isinstance(node.call, IRInlined)
                for name, result in zip(node.names, node.call.results, strict=True):
                    self._assign_under_mask(node, name, self.shapes.of_name(result), others)
            case ir.IRIf():
                self._if(node, others)
            case ir.IRWhile() | ir.IRFor():
                self._loop(node, others)
            case ir.IRBreak() | ir.IRContinue():
                self._jump(len(self.places) - 1)
            case IRLeave():
                for name, value in zip(node.names, node.values, strict=True):
                    self._expr(value, others)
                    self._assign_under_mask(node, name, self.shapes.of(value), others)
                inlined = [k for k, place in enumerate(self.places) if isinstance(place.region, IRInlined)]
                self._jump(inlined[-1])
            case ir.IRAssert():
                pass
            case _:
                for child in ir.children(node):
                    self._expr(child, others)

    def _if(self, node: ir.IRIf, others: Names) -> None:
        self._expr(node.cond, others)
        if self.shapes.of(node.cond) != UNIFORM:
            self._part(node)
        place = self.places[-1]
        before, parts = place.parted, self.shapes.is_divergent(node)
        if parts:
            others |= self.live.after[id(node)]
        for arm in (node.then, node.other):
            place.parted = before or parts
            self._block(arm, others | self.live.other[id(node)] if parts and arm is node.then else others)
        place.parted = before

    def _loop(self, node: ir.IRWhile | ir.IRFor, others: Names) -> None:
        if isinstance(node, ir.IRFor):
            for bound in (node.start, node.stop, node.step):
                self._expr(bound, others)
            parts = trips_shape(self.shapes, node) != UNIFORM
        else:
            self._expr(node.cond, others)
            parts = self.shapes.of(node.cond) != UNIFORM
        if parts:
            self._part(node)
        if self.shapes.is_divergent(node):
            others |= self.live.after[id(node)]
            if any(isinstance(jump, ir.IRContinue) for jump in jumps(node.body)):
                others |= self.live.head[id(node)]
        if isinstance(node, ir.IRFor):
            self._assign_under_mask(node, node.var, variable_shape(self.shapes, node), others)
        self._enter(node, node.body, others)

    def _enter(self, region: Region, body: list[ir.IRStmt], others: Names) -> None:
        before = [place.parted for place in self.places]
        if self.shapes.is_divergent(region):
            for place in self.places:
                place.parted = True
        self.places.append(_Place(region))
        self._block(body, others)
        self.places.pop()
        for place, parted in zip(self.places, before, strict=True):
            place.parted = parted

    def _jump(self, target: int) -> None:
        """Lanes that are off somewhere on the way cannot come along: every region on it then keeps masks."""
        way = self.places[target:]
        if any(place.parted or self.shapes.is_divergent(place.region) for place in way):
            for place in way:
                self._part(place.region)

    # -- expressions

    def _expr(self, node: ir.IRExpr, others: Names) -> None:
        if isinstance(node, IRInlined):
            for name, arg in zip(node.names, node.args, strict=True):
                self._expr(arg, others)
                self._assign(name, self.shapes.of(arg))
            if self.shapes.is_divergent(node):
                others |= self.live.after[id(node)]
            self._enter(node, node.body, others)
            return
        for child in ir.children(node):
            self._expr(child, others)
        if isinstance(node, ir.IRBind):
            self._assign(node.name, self.shapes.of(node.value))


def trips_shape(shapes: Shapes, node: ir.IRFor) -> Shape:
    """Of the number of iterations of a serial loop: uniform also where start and stop move together."""
    start, stop, step = (shapes.of(e) for e in (node.start, node.stop, node.step))
    return UNIFORM if start is not VARYING and start == stop and step == UNIFORM else VARYING


def variable_shape(shapes: Shapes, node: ir.IRFor) -> Shape:
    """Of a serial loop's variable where the loop sets it."""
    return shapes.of(node.start) if shapes.of(node.step) == UNIFORM else VARYING


def assigned(body: list[ir.IRStmt]) -> set[str]:
    """The scalar symbols that running these statements may assign."""
    return {name for node in ir.walk(body) for name in assigned_by(node)}
