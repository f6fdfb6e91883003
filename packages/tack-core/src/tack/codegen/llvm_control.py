"""Control flow in LLVM: branches where all lanes agree, masks where they may part.

A region is what a jump leaves: the body of the parallel loop, a serial loop, an inlined function. Where lanes may part
inside it, it keeps its masks in slots: `running`, the lanes that still run this iteration, and for a loop `staying`,
those that will test for the next. A jump takes lanes out of both; the code after it goes on with what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tack.codegen.lane_cost import CostModel
from tack.codegen.lane_plan import LanePlan
from tack.codegen.llvm_expressions import ExpressionEmitter
from tack.codegen.llvm_values import BIT, Value
from tack.lang import ir
from tack.lang.inlining import IRInlined, IRLeave
from tack.lang.records import record
from tack.lang.shapes import UNIFORM, VARYING, LaneShapes, Shapes, assigned, jumps, trips_shape
from tack.lang.types import i64

_FLAT_COST: Final = 16  # cycles that are cheaper than a branch
_JUMPS: Final = (ir.IRBreak, ir.IRContinue, IRLeave)


@record
class Region:
    """Where the jumps of a region go: labels, or the slots of its masks."""

    leave: str
    again: str = ""
    is_loop: bool = True
    running: str | None = None
    staying: str | None = None


class ControlEmitter(ExpressionEmitter):
    """Walks statements that hold others. `regions` has the regions around, innermost last, `passes` the serial loops
    that run as lanes."""

    def __init__(self) -> None:
        super().__init__()
        self.regions: list[Region] = []
        self.passes: dict[int, LanePlan] = {}

    def _pass(self, node: ir.IRFor, plan: LanePlan) -> None:
        """A serial loop as lanes; see `LaneEmitter`."""
        raise NotImplementedError

    def _statement(self, node: ir.IRStmt) -> None:
        """Any statement; see `StatementEmitter`."""
        raise NotImplementedError

    def _block(self, statements: list[ir.IRStmt]) -> None:
        """Statements in order; what follows a jump in the same block cannot run and is not written."""
        ends = []
        for position, statement in enumerate(statements):
            if self.f.terminated:
                break
            self._statement(statement)
            if isinstance(statement, _JUMPS):
                break
            running = self.regions[-1].running if self.regions else None
            if running is not None and any(jumps([statement])):
                self.mask, self.some = self._mask_and(self._kept_mask(running)), False
                rest = statements[position + 1 :]
                if rest and not self._is_flat(rest):
                    ends.append(self._skip_if_none("rest"))
                    self.some = True
        for end in reversed(ends):
            assert end is not None
            self.f.br(end)
            self.f.open(end)

    # -- masks in slots

    def _mask_slot(self) -> str:
        """A slot for a mask, with the lanes that are on now."""
        slot = self.f.slot(self._kept_type, zero=False)
        self._set_mask(slot, self._mask_vector())
        return slot

    def _set_mask(self, slot: str, mask: str) -> None:
        self.f.do(f"store {self._kept_type} {self._to_kept(mask)}, ptr {slot}")

    def _kept_mask(self, slot: str) -> str:
        return self._from_kept(self.f.emit(f"load {self._kept_type}, ptr {slot}"))

    def _jump(self, node: ir.IRStmt) -> None:
        """`break`, `continue`, or the return of an inlined function."""
        depth = len(self.regions) - 1
        if isinstance(node, IRLeave):
            depth = max(k for k, region in enumerate(self.regions) if not region.is_loop)
        target = self.regions[depth]
        if target.running is None:
            self.f.br(target.again if isinstance(node, ir.IRContinue) else target.leave)
            return
        t, mask = self._kept_type, f"{self._mask_type} {self._mask_vector()}"
        for region in self.regions[depth:]:
            stays = region is target and isinstance(node, ir.IRContinue)
            for slot in (region.running, None if stays else region.staying):
                if slot is not None:
                    old = self.f.emit(f"load {t}, ptr {slot}")
                    left = self.f.emit(f"select {mask}, {t} zeroinitializer, {t} {old}")
                    self.f.do(f"store {t} {left}, ptr {slot}")

    # -- if

    def _if(self, node: ir.IRIf) -> None:
        condition = self._condition(node.cond)
        if condition.shape is not UNIFORM or self.shapes.is_divergent(node):
            self._part(node, self._vector(condition))
            return
        then, join = self.f.label("then"), self.f.label("join")
        other = self.f.label("else") if node.other else join
        self.f.cond_br(condition.ssa, then, other)
        for label, body in ((then, node.then), (other, node.other)):
            if body or label is then:
                self.f.open(label)
                with self._under(self.mask, self.some):
                    self._block(body)
                self.f.br(join)
        self.f.open(join)

    def _part(self, node: ir.IRIf, condition: str) -> None:
        """Both arms, each for its lanes."""
        masks = [self._mask_and(condition)]
        if node.other:
            masks.append(self._mask_and(self._mask_not(condition)))
        for arm, mask in zip((node.then, node.other), masks, strict=False):
            if arm:
                self._arm(arm, mask)

    def _arm(self, arm: list[ir.IRStmt], mask: str) -> None:
        """Statements for some lanes: without a branch if they are cheap, else only if there is such a lane; and one
        lane after the other if they are so few that vectors would do more work."""
        if self._is_flat(arm):
            with self._under(mask, False):
                self._block(arm)
            return
        go, end = self.f.label("arm"), self.f.label("end")
        self.f.cond_br(self._any(mask), go, end)
        self.f.open(go)
        with self._under(mask, True):
            few = self._few(arm)
            if few:
                serial, vectors = self.f.label("few"), self.f.label("many")
                self.f.cond_br(self._at_most(few, mask), serial, vectors)
                self.f.open(serial)
                self._serial(arm)
                self.f.br(end)
                self.f.open(vectors)
            self._block(arm)
        self.f.br(end)
        self.f.open(end)

    def _is_flat(self, statements: list[ir.IRStmt]) -> bool:
        """Whether statements may as well run without any lane."""
        for node in ir.walk(statements):
            if isinstance(node, ir.IRFor | ir.IRWhile | IRInlined | ir.IRAtomic):
                return False
            if isinstance(node, ir.IRIf) and not self.shapes.is_divergent(node):
                return False
        return self._cost_model().of(statements).lanes <= _FLAT_COST

    def _cost_model(self) -> CostModel:
        assert isinstance(self.shapes, LaneShapes)
        return CostModel(self.shapes, self.unit, self.width)

    def _few(self, arm: list[ir.IRStmt]) -> int:
        """Up to how many lanes an arm is cheaper one lane at a time; 0 where that is not worth its code."""
        if any(jumps(arm)):
            return 0
        cost = self._cost_model().of(arm)
        native = max(1, self.width * 4 // self.unit.size)
        if cost.lanes < min(4, 2 * native) * cost.scalar:
            return 0
        return min(self.width // 2, int(cost.lanes / max(1.0, cost.scalar)))

    def _at_most(self, count: int, mask: str) -> str:
        bits = f"i{self.width}"
        callee = self.module.declare(bits, f"llvm.ctpop.{bits}", [bits])
        on = self.f.emit(f"call {bits} {callee}({bits} {self._mask_integer(mask)})")
        return self.f.emit(f"icmp ule {bits} {on}, {count}")

    def _serial(self, statements: list[ir.IRStmt]) -> None:
        """Statements as scalar code for each lane that is on; symbols are copied in and out."""
        sets, reads = assigned(statements), {n.name for n in ir.walk(statements) if isinstance(n, ir.IRVar)}
        names = sorted((reads | sets) & set(self.slots))
        values = {name: self._read(name) for name in names}
        spilled = {name: self._spill(v) for name, v in values.items() if v.shape != UNIFORM}
        kept = [name for name in names if name in sets and values[name].shape is VARYING]
        shapes, slots, regions, arrays = self.shapes, self.slots, self.regions, dict(self.arrays)

        def one(lane: str) -> None:
            self.shapes, self.slots, self.regions = Shapes(), dict(slots), []
            for name in names:
                dtype = slots[name][1]
                self.slots[name] = self.f.slot(self._type(dtype), zero=False), dtype
                held = self._lane_value(dtype, spilled[name], lane) if name in spilled else values[name]
                self._write(name, held)
            self._block(statements)
            for name in kept:
                self._set_lane(self._read(name), spilled[name], lane)
            self.shapes, self.slots, self.regions = shapes, slots, regions

        self._each_lane(one)
        dummies = {name: storage for name, storage in self.arrays.items() if name.startswith("%")}
        self.arrays = {**dummies, **arrays}  # a local array of this one lane is not that of all lanes
        for name in kept:
            t = self._type(slots[name][1], VARYING)
            self.f.do(f"store {t} {self.f.emit(f'load {t}, ptr {spilled[name]}')}, ptr {slots[name][0]}")

    # -- loops

    def _while(self, node: ir.IRWhile) -> None:
        if self.shapes.is_divergent(node):
            self._while_masked(node)
            return
        none = self._skip_if_none("loop")
        head, body, end = self.f.label("while"), self.f.label("body"), self.f.label("end")
        with self._under(self.mask, True):
            self.f.br(head)
            self.f.open(head)
            self.f.cond_br(self._condition(node.cond).ssa, body, end)
            self.f.open(body)
            self._region(Region(end, head), node.body)
            self.f.br(head)
        self.f.open(end)
        self._join(none)

    def _join(self, none: str | None) -> None:
        """Open what `_skip_if_none` branches to."""
        if none is not None:
            self.f.br(none)
            self.f.open(none)

    def _region(self, region: Region, statements: list[ir.IRStmt]) -> None:
        self.regions.append(region)
        with self._under(self.mask, self.some):
            self._block(statements)
        self.regions.pop()

    def _while_masked(self, node: ir.IRWhile) -> None:
        head, body, end = self.f.label("while"), self.f.label("body"), self.f.label("end")
        region = Region(end, head, running=self._mask_slot(), staying=self._mask_slot())
        self.f.br(head)
        self.f.open(head)
        self._test(region, lambda: self._condition(node.cond), node.body, body, lambda: None)
        self.f.br(head)
        self.f.open(end)

    def _test(
        self,
        region: Region,
        test: Callable[[], Value],
        statements: list[ir.IRStmt],
        body: str,
        begin: Callable[[], None],
    ) -> None:
        """An iteration of a masked loop: the lanes that stay and pass the test run its body."""
        assert region.staying is not None and region.running is not None
        with self._under(self._kept_mask(region.staying), False):
            mask = self._mask_and(self._vector(test()))
            self._set_mask(region.staying, mask)
            self._set_mask(region.running, mask)
            self.f.cond_br(self._any(mask), body, region.leave)
        self.f.open(body)
        with self._under(mask, True):
            begin()
            self._region(region, statements)

    def _for(self, node: ir.IRFor) -> None:
        """Counts iterations, not values: `start + k * step` for k below a trip count, so that no counter overflows."""
        if id(node) in self.passes and self.width == 1:
            self._pass(node, self.passes[id(node)])
            return
        if self.shapes.is_divergent(node):
            self._for_masked(node)
            return
        none = self._skip_if_none("loop")
        with self._under(self.mask, True):
            start, stop, step = (self._expr(e) for e in (node.start, node.stop, node.step))
            trips = self._trip_count(node, start, stop, step).ssa
            head, latch, end = self.f.label("for"), self.f.label("next"), self.f.label("end")
            before, counter = self.f.block, self.f.name()
            self.f.cond_br(self.f.emit(f"icmp eq i64 {trips}, 0"), end, head)
            self.f.open(head)
            self.f.do(f"{counter} = phi i64 [ 0, %{before} ], [ {counter}.next, %{latch} ]")
            self._step(node, start, counter, step)
            body = self.f.label("body")
            self.f.br(body)
            self.f.open(body)
            self._region(Region(end, latch), node.body)
            self.f.br(latch)
            self.f.open(latch)
            self.f.do(f"{counter}.next = add nuw i64 {counter}, 1")
            self.f.cond_br(self.f.emit(f"icmp eq i64 {counter}.next, {trips}"), end, head)
        self.f.open(end)
        self._join(none)

    def _for_masked(self, node: ir.IRFor) -> None:
        """The counter is one number for all lanes: those in the loop have done as many iterations each."""
        start, stop, step = (self._expr(e) for e in (node.start, node.stop, node.step))
        trips = self._trip_count(node, start, stop, step)
        head, body, latch, end = (self.f.label(x) for x in ("for", "body", "next", "end"))
        region = Region(end, latch, running=self._mask_slot(), staying=self._mask_slot())
        before, counter = self.f.block, self.f.name()
        self.f.br(head)
        self.f.open(head)
        self.f.do(f"{counter} = phi i64 [ 0, %{before} ], [ {counter}.next, %{latch} ]")

        def more() -> Value:
            shape, (k, n) = self._meet(Value(counter, i64), trips)
            return Value(self.f.emit(f"icmp ult {self._type(i64, shape)} {k}, {n}"), BIT, shape)

        self._test(region, more, node.body, body, lambda: self._step(node, start, counter, step))
        self.f.br(latch)
        self.f.open(latch)
        self.f.do(f"{counter}.next = add nuw i64 {counter}, 1")
        self.f.br(head)
        self.f.open(end)

    def _step(self, node: ir.IRFor, start: Value, counter: str, step: Value) -> None:
        value = self._affine(start, counter, step)
        self._write(node.var, value, self.shapes.is_blended(node, node.var))

    def _trip_count(self, node: ir.IRFor, start: Value, stop: Value, step: Value) -> Value:
        """How many values ``range(start, stop, step)`` has for a positive step; as u64 it is right for all of i64."""
        emit, shape = self.f.emit, trips_shape(self.shapes, node)
        if shape == UNIFORM:  # also where start and stop move together
            low, high, by = start.ssa, stop.ssa, step.ssa
        else:
            shape, (low, high, by) = self._meet(start, stop, step)
        t, bit = self._type(i64, shape), self._type(BIT, shape)
        some = emit(f"icmp slt {t} {low}, {high}")
        span = emit(f"sub {t} {high}, {low}")
        if step.ssa != "1":
            one = self._constant("1", i64, shape)
            last, by = emit(f"sub {t} {span}, {one}"), self._safe_divisor(step, by, shape)
            span = emit(f"add {t} {emit(f'udiv {t} {last}, {by}')}, {one}")
        zero = self._constant("0", i64, shape)
        return Value(emit(f"select {bit} {some}, {t} {span}, {t} {zero}"), i64, shape)

    def _affine(self, start: Value, counter: str, step: Value) -> Value:
        """``start + counter * step``; literals that change nothing are left out."""
        product = Value(counter, i64) if step.ssa == "1" else self._emit_binop_of(Value(counter, i64), "*", step)
        return product if start.ssa == "0" else self._emit_binop_of(start, "+", product)

    def _emit_binop_of(self, a: Value, op: str, b: Value) -> Value:
        shape = VARYING if VARYING in (a.shape, b.shape) else a.shape if op == "+" else UNIFORM
        return self._emit_binop(op, a, b, i64, shape)

    # -- inlined functions

    def _inlined(self, node: IRInlined) -> None:
        values = [self._expr(arg) for arg in node.args]
        for name, value in zip(node.names, values, strict=True):
            self._write(name, value)
        region = Region(self.f.label("returned"), is_loop=False)
        if self.shapes.is_divergent(node):
            region.running = self._mask_slot()
        self._region(region, node.body)
        self.f.br(region.leave)
        self.f.open(region.leave)

    def _leave(self, node: IRLeave) -> None:
        values = [self._expr(value) for value in node.values]
        for name, value in zip(node.names, values, strict=True):
            self._write(name, value, self.shapes.is_blended(node, name))
        self._jump(node)
