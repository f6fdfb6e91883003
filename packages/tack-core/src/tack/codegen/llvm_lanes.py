"""A run of consecutive iterations along the last dimension, as blocks of lanes.

Full blocks first, with no mask at all. What is left is the end of one more full block, if its iterations may run twice;
else it goes through narrower blocks in which lanes past the end are off, or, where a run is long and its iterations are
short, through scalar code, which is much less of it.
"""

from __future__ import annotations

from collections.abc import Callable

from tack.codegen.lane_plan import LanePlan
from tack.codegen.llvm_control import Region
from tack.codegen.llvm_streams import StreamEmitter
from tack.codegen.llvm_values import ArrayStorage, Value
from tack.lang import ir
from tack.lang.shapes import UNIFORM, VARYING, Shapes, assigned
from tack.lang.types import i32, i64

Entering = list[tuple[str, Value]]


class LaneEmitter(StreamEmitter):
    """Writes the blocks of a parallel loop."""

    def _lane_run(self, plan: LanePlan, entering: Entering, start: str, step: str, low: str, stop: str) -> None:
        """Iterations ``start + position * step`` for low <= position < stop."""
        for name, (function, table) in plan.inlined.tables.items():
            assert table.dtype is not None
            storage = self._table_global(function, table), table.dtype
            self.arrays[name] = ArrayStorage(*storage, tuple(map(str, table.shape)), table.dtype.itemsize)

        def block(position: str) -> None:
            shapes = plan.shapes if self.width > 1 else Shapes()
            self._lane_block(plan, shapes, entering, self._position(start, step, position), step)

        def run(first: str, end: str) -> None:
            self.width = plan.width
            if plan.repeatable:
                self._overlapping(plan, first, end, block)
            else:
                rest = self._count(first, end, full=True, body=block)
                if not (first == "0" and end.isdecimal() and int(end) % plan.width == 0):
                    self.width = plan.rest_width
                    self._count(rest, end, full=self.width == 1, body=block)
            self.width, self.shapes, self.mask, self.some = 1, Shapes(), None, True

        def go_to(position: str) -> None:
            self._write(plan.loop.vars[-1], Value(self._position(start, step, position), i64))

        self.mask_bits = plan.mask_bits
        if plan.streams is None:
            run(low, stop)
        else:
            self._parts(plan.streams, low, stop, go_to, run)

    def _pass(self, node: ir.IRFor, plan: LanePlan) -> None:
        """The lanes of a workgroup, in scalar code around; they give their locals to nobody."""
        start, stop = self._expr(node.start).ssa, self._expr(node.stop).ssa
        names = assigned(node.body).intersection(plan.shapes.live_in, self.slots)
        entering = [(name, self._read(name)) for name in sorted(names)]
        regions, unit, arrays = self.regions, self.unit, dict(self.arrays)
        for name in plan.shapes.private:  # a scalar pass may have its own
            self.arrays.pop(name, None)
        self.unit = plan.unit
        self._lane_run(plan, entering, "0", "1", start, stop)
        self.regions, self.unit, self.arrays = regions, unit, arrays

    def _overlapping(self, plan: LanePlan, low: str, stop: str, block: Callable[[str], None]) -> None:
        """Full blocks alone, the last of which ends with the run and repeats iterations; short runs under masks."""
        enough, short, done = (self.f.label(x) for x in ("enough", "short", "ran"))
        length = self.f.emit(f"sub i64 {stop}, {low}")
        self.f.cond_br(self.f.emit(f"icmp sge i64 {length}, {self.width}"), enough, short)
        self.f.open(enough)
        last = self.f.emit(f"sub i64 {stop}, {self.width}")
        self._count(low, stop, full=False, body=lambda at: block(self._intrinsic("smin", i64, at, last).ssa), last=last)
        self.f.br(done)
        self.f.open(short)
        self.width = plan.rest_width
        self._count(low, stop, full=self.width == 1, body=block)
        self.f.br(done)
        self.f.open(done)

    def _position(self, start: str, step: str, position: str) -> str:
        return self._affine(Value(start, i64), position, Value(step, i64)).ssa

    def _count(
        self, low: str, stop: str, full: bool, body: Callable[[str], None], last: str = "", rows: int = 1
    ) -> str:
        """Blocks while there are enough iterations for a full one, or any; where the next would begin. With `last`, the
        place of the last full block, every block is one. A block has `rows` times the width."""
        emit, at, before, size = self.f.emit, self.f.name(), self.f.block, rows * self.width
        head, inside, latch, done = (self.f.label(x) for x in ("blocks", "block", "next", "done"))
        end = emit(f"sub i64 {stop}, {size - 1}") if full and size > 1 else stop
        self.f.br(head)
        self.f.open(head)
        self.f.do(f"{at} = phi i64 [ {low}, %{before} ], [ {at}.next, %{latch} ]")
        self.f.cond_br(emit(f"icmp slt i64 {at}, {end}"), inside, done)
        self.f.open(inside)
        self.mask, self.some = None, True
        if not full and not last:
            self.mask = self._lanes_below(emit(f"sub i64 {stop}, {at}"))
        body(at)
        self.f.br(latch)
        self.f.open(latch)
        self.f.do(f"{at}.next = add i64 {at}, {size}")
        self.f.br(head)
        self.f.open(done)
        return at

    def _lanes_below(self, left: str) -> str:
        """The first `left` lanes."""
        least = self._intrinsic("umin", i64, left, str(self.width)).ssa
        count = Value(self.f.emit(f"trunc i64 {least} to i32"), i32)
        t, lanes = self._type(i32, VARYING), ", ".join(f"i32 {k}" for k in range(self.width))
        return self.f.emit(f"icmp ult {t} <{lanes}>, {self._vector(count)}")

    def _lane_block(self, plan: LanePlan, shapes: Shapes, entering: Entering, first: str, step: str) -> None:
        """One block whose first lane has this value of the last index. Each lane starts from what the locals held."""
        slots, arrays, types = self.slots, dict(self.arrays), plan.types(self.kernel)
        self.shapes, self.slots = shapes, dict(slots)
        index = plan.loop.vars[-1]
        for name in sorted(assigned(plan.loop.body) | {index}):
            self.slots[name] = self.f.slot(self._type(types[name], self.shapes.of_name(name))), types[name]
        self._write(index, self._index(plan, first, step))
        for name, value in entering:
            if name in plan.shapes.live_in:
                self._write(name, value)
        region = Region(self.f.label("iterated"))
        region.again = region.leave
        if self.shapes.is_divergent(plan.loop):
            region.running = self._mask_slot()
        self.regions = [region]
        self._block(plan.loop.body)
        self.f.br(region.leave)
        self.f.open(region.leave)
        self.slots, self.arrays, self.regions = slots, arrays, []

    def _index(self, plan: LanePlan, first: str, step: str) -> Value:
        """The last index over the lanes: linear, unless its step is only known at run time."""
        if self.width == 1:
            return Value(first, i64)
        if plan.shapes.stride is not VARYING:
            return Value(first, i64, plan.shapes.stride)
        lanes = self._stepped(self._constant("0", i64, VARYING), i64, 1)
        away = self._emit_binop("*", Value(lanes, i64, VARYING), Value(step, i64, UNIFORM), i64, VARYING)
        return self._emit_binop("+", Value(first, i64), away, i64, VARYING)
