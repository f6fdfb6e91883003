"""From an argument block to iterations: bounds, chunks, and the functions that a launch consists of.

For parallel loop k of a kernel the module has

* ``body.k(parameters, begin, end, ranges)``: iterations begin <= flat < end, the only place with the user's code;
* ``body.k.own``: the same where the loop's counters are copies of its own (`llvm_counters`);
* ``chunk.k(context, begin, end, lane)``: what the thread pool calls: unpacks the argument block, calls the body;

and one ``i32 tack_launch(block)``: evaluates the bounds of all loops, then runs the loops in order.
"""

from __future__ import annotations

import itertools
from typing import Final

from tack.codegen.lane_cost import VectorUnit
from tack.codegen.lane_plan import LanePlan, plan_lanes
from tack.codegen.lane_streams import Streams
from tack.codegen.llvm_bounds import BoundsEmitter
from tack.codegen.llvm_control import Region
from tack.codegen.llvm_counters import Counter, CounterEmitter
from tack.codegen.llvm_values import FunctionText, Value, llvm_type
from tack.codegen.row_plan import RowPlan, plan_rows
from tack.codegen.tile_plan import plan_passes
from tack.codegen.work_estimate import UNKNOWN_TRIPS, has_unknown_trips, lengths, work
from tack.lang import ir
from tack.lang.records import record, replace
from tack.lang.row_blocks import row_name
from tack.lang.shapes import assigned
from tack.lang.types import ArrayType, DType, i64

STREAMS_SYMBOL: Final = "tack_streams"
"""``i32 tack_streams(ptr block)``: `tack_launch` of the kernel's code for loops beyond the caches; -1 if not there."""
LAUNCH_SYMBOL: Final = "tack_launch"
PARALLEL_FOR_SYMBOL: Final = "tack_parallel_for"
"""``void tack_parallel_for(ptr body, ptr context, i64 n, i64 grain, i64 limit, i64 unit)``: the thread pool's door."""

# Below this much work (units of work_estimate, some microseconds) a second thread costs more than it brings.
_WORTH_SHARING: Final = 100_000
_CONTENDED: Final = 200  # work that takes less than an atomic operation for which threads compete
_LIKELY_LONGER: Final = 16  # times what is assumed of an iteration with a serial loop of unknown length
_RANGE_WORDS: Final = 3  # start, step, count


@record(frozen=True)
class _Nest:
    """A parallel loop while its iterations are written: what each starts from, and the ends of the run."""

    loop: ir.IRParallelFor
    entering: list[tuple[str, Value]]
    assigned: set[str]
    first: list[str]
    last: list[str]
    plan: LanePlan | None
    rows: RowPlan | None


class LaunchEmitter(BoundsEmitter, CounterEmitter):
    """Writes what surrounds the user's code."""

    disjoint: bool
    lanes: int | None
    target: VectorUnit | None
    writes_streams: bool

    def __init__(self) -> None:
        super().__init__()
        self.plans: list[LanePlan] = []
        self.row_plans: list[RowPlan] = []
        self.all_lanes = True
        self.streams: dict[int, Streams] = {}
        self.planned: dict[int, tuple[RowPlan | None, LanePlan | None]] = {}
        self.counters: dict[int, list[Counter]] = {}

    # -- parameters

    def _block_arguments(self, block: str) -> list[list[str]]:
        """Load every parameter from the argument block: for each its typed texts, as `_formal_parameters` has them."""
        arguments: list[list[str]] = []
        for position, param in enumerate(self.kernel.params):
            if isinstance(param.type, ArrayType):
                texts = [f"ptr {self._block_word(block, position, 0, 'ptr')}"]
                extents = self._block_word(block, position, 2, "ptr")
                for axis in range(param.type.ndim):
                    place = self.f.emit(f"getelementptr i64, ptr {extents}, i64 {axis}")
                    texts.append(f"i64 {self.f.emit(f'load i64, ptr {place}')}")
                arguments.append(texts)
            else:
                assert param.type is not None
                word = self._block_word(block, position, 0, "i64")
                arguments.append([f"{llvm_type(param.type)} {self._from_word(word, param.type)}"])
        return arguments

    def _from_word(self, word: str, dtype: DType) -> str:
        """A number from its word in the block: integers by their low bits, floats from binary64."""
        if dtype.is_float:
            wide = self.f.emit(f"bitcast i64 {word} to double")
            return wide if llvm_type(dtype) == "double" else self.f.emit(f"fptrunc double {wide} to float")
        return word if dtype.bits == 64 else self.f.emit(f"trunc i64 {word} to {llvm_type(dtype)}")

    # -- one loop

    def _body_function(
        self, name: str, loop: ir.IRParallelFor, prelude: list[ir.IRStmt], own: list[Counter] | None = None
    ) -> None:
        """The user's code for a run of consecutive iterations; ranges that are literals stay literals. The arrays `own`
        are copies that no other thread knows."""
        self._begin_function(self.kernel)
        self.counted = frozenset(counter.name for counter in own or ())
        formals = self._formal_parameters(self.kernel, noalias=self.disjoint)
        formals += ["i64 %begin", "i64 %end"]
        formals += [f"i64 %{word}.{axis}" for axis in range(len(loop.ranges)) for word in ("start", "step", "count")]
        self._block(prelude)
        rank, names = len(loop.ranges), assigned(loop.body)
        # An iteration starts from what the locals that it assigns held before the loop.
        entering = [(name, self._read(name)) for name in sorted(names.difference(loop.vars))]
        first, last = self._run_end(rank, "%begin"), self._run_end(rank, self.f.emit("sub i64 %end, 1"))
        rows, plan = self._plans(loop)
        streams = plan.streams if plan is not None else None
        if plan is None:
            self.all_lanes = False
            self.passes = plan_passes(loop, self.kernel, self.target, self.lanes, self.disjoint)
            self.plans.extend(self.passes.values())
        else:
            self.plans.append(plan)
            self.unit = plan.unit
        if rows is not None:
            self.row_plans.append(rows)
        if plan is not None and streams is not None:
            self.streams[id(loop)] = streams
            if self.writes_streams:
                self._pays = self._is_beyond(streams, [f"%count.{axis}" for axis in range(rank)])
            else:
                plan, streams = replace(plan, streams=None), None
        self._level(_Nest(loop, entering, names, first, last, plan, rows), 0, "true", "true")
        if streams is not None:
            self._end_streams()
        self.f.close("ret void")
        # noinline: a promise on a parameter does not survive inlining as well, and the unpacking stays out of the way.
        header = f"define internal void @{name}({', '.join(formals)}) noinline nounwind"
        self.module.functions.append(self.f.text(header))

    def _plans(self, loop: ir.IRParallelFor) -> tuple[RowPlan | None, LanePlan | None]:
        """How the loop runs: iterations in step, as lanes, or neither; the same in all code of the kernel."""
        if id(loop) not in self.planned:
            chosen = self.lanes is None and self.target is not None and self.disjoint
            rows = plan_rows(loop, self.kernel) if chosen else None
            plan = None if rows else plan_lanes(loop, self.kernel, self.target, self.lanes, self.disjoint)
            self.planned[id(loop)] = rows, plan
        return self.planned[id(loop)]

    def _iteration(self, loop: ir.IRParallelFor, entering: list[tuple[str, Value]], latch: str) -> None:
        for name, value in entering:
            self._write(name, value)
        self._region(Region(latch, latch), loop.body)
        self.f.br(latch)

    def _loop_value(self, loop: ir.IRParallelFor, axis: int, position: str) -> None:
        """Set a loop variable to ``start + position * step``."""
        self._write(loop.vars[axis], Value(self._position(*_start_and_step(loop, axis), position), i64))

    def _level(self, nest: _Nest, axis: int, first_row: str, last_row: str) -> None:
        """The loop along one dimension, as a proper nest: what depends on outer indices only stays outside.

        `first_row` and `last_row` say whether the outer indices are those of the first and of the last iteration: a
        chunk begins and ends anywhere. No run is empty, so each loop tests at its end.
        """
        emit, do = self.f.emit, self.f.do
        low = emit(f"select i1 {first_row}, i64 {nest.first[axis]}, i64 0")
        high = emit(f"select i1 {last_row}, i64 {nest.last[axis]}, i64 {emit(f'sub i64 %count.{axis}, 1')}")
        stop = emit(f"add i64 {high}, 1")
        if nest.plan is not None and axis == len(nest.loop.ranges) - 1:
            self._lane_run(nest.plan, nest.entering, *_start_and_step(nest.loop, axis), low, stop)
            return
        if nest.rows is not None and axis == len(nest.loop.ranges) - 1:
            self._row_run(nest, nest.rows, low, stop)
            return
        head, latch, done, at, before = f"along.{axis}", f"next.{axis}", f"done.{axis}", f"%at.{axis}", self.f.block
        self.f.br(head)
        self.f.open(head)
        do(f"{at} = phi i64 [ {low}, %{before} ], [ {at}.next, %{latch} ]")
        self._loop_value(nest.loop, axis, at)
        if axis == len(nest.loop.ranges) - 1:
            self._iteration(nest.loop, nest.entering, latch)
        else:
            name = nest.loop.vars[axis]
            if name in nest.assigned:
                nest.entering.append((name, self._read(name)))
            starts = emit(f"icmp eq i64 {at}, {nest.first[axis]}")
            ends = emit(f"icmp eq i64 {at}, {nest.last[axis]}")
            self._level(nest, axis + 1, emit(f"and i1 {first_row}, {starts}"), emit(f"and i1 {last_row}, {ends}"))
            self.f.br(latch)
        self.f.open(latch)
        do(f"{at}.next = add nuw nsw i64 {at}, 1")
        self.f.cond_br(emit(f"icmp eq i64 {at}.next, {stop}"), done, head)
        self.f.open(done)

    def _row_run(self, nest: _Nest, plan: RowPlan, low: str, stop: str) -> None:
        """Blocks of rows that run in step, then the rest one by one."""
        axis = len(nest.loop.ranges) - 1
        index, start_and_step = nest.loop.vars[axis], _start_and_step(nest.loop, axis)
        for name, row in itertools.product(sorted(nest.assigned | {index}), range(plan.rows)):
            dtype = self.slots[name][1]
            self.slots[row_name(name, row)] = self.f.slot(llvm_type(dtype)), dtype

        def block(position: str) -> None:
            for row in range(plan.rows):
                own = self.f.emit(f"add i64 {position}, {row}") if row else position
                self._write(row_name(index, row), Value(self._position(*start_and_step, own), i64))
                for name, value in nest.entering:
                    self._write(row_name(name, row), value)
            done = self.f.label("iterated")  # where a `continue` of all rows goes
            self._region(Region(done, done), plan.body)
            self.f.br(done)
            self.f.open(done)

        def one(position: str) -> None:
            done = self.f.label("iterated")
            self._loop_value(nest.loop, axis, position)
            self._iteration(nest.loop, nest.entering, done)
            self.f.open(done)

        rest = self._count(low, stop, full=True, body=block, rows=plan.rows)
        self._count(rest, stop, full=True, body=one)

    def _run_end(self, rank: int, flat: str) -> list[str]:
        """The position of an iteration along each dimension, the last one fastest."""
        positions, rest = [""] * rank, flat
        for axis in range(rank - 1, 0, -1):
            positions[axis] = self.f.emit(f"urem i64 {rest}, %count.{axis}")
            rest = self.f.emit(f"udiv i64 {rest}, %count.{axis}")
        positions[0] = rest
        return positions

    def _chunk_function(self, number: int, loop: ir.IRParallelFor) -> None:
        """The pool's entry: context word 0 is the argument block, then start, step and count of each range."""
        self.f = FunctionText()
        block = self.f.emit("load ptr, ptr %context")
        arguments, ranges = self._block_arguments(block), ["i64 %begin", "i64 %end"]
        for word in range(_RANGE_WORDS * len(loop.ranges)):
            place = self.f.emit(f"getelementptr i64, ptr %context, i64 {word + 1}")
            ranges.append(f"i64 {self.f.emit(f'load i64, ptr {place}')}")
        known = self.counters[id(loop)]
        self._call_body(number, arguments, ranges, known, self._counter_sizes(known, block))
        self.f.close("ret void")
        header = f"define internal void @chunk.{number}(ptr %context, i64 %begin, i64 %end, i64 %lane) nounwind"
        self.module.functions.append(self.f.text(header))

    # -- the launch

    def _result_function(self, prelude: list[ir.IRStmt], value: ir.IRExpr) -> None:
        """The kernel's result, from the values that the statements outside the loops give."""
        self._begin_function(self.kernel)
        formals = self._formal_parameters(self.kernel, noalias=False)
        self._block(prelude)
        result = self._expr(value)
        self.f.close(f"ret i64 {self._to_word(result)}")
        self.module.functions.append(self.f.text(f"define internal i64 @result({', '.join(formals)}) nounwind"))

    def _launch_function(self, loops: list[ir.IRParallelFor], has_result: bool) -> None:
        """Bounds of all loops first: a status that is not zero means that nothing has run."""
        self.f = FunctionText()
        self._begin_bounds("%block")
        contexts = [self._loop_context(loop) for loop in loops]
        if not self.writes_streams:
            for loop, (_, _, counts) in zip(loops, contexts, strict=True):
                if id(loop) in self.streams:
                    self._launch_streams(self._is_beyond(self.streams[id(loop)], counts))
        for number, (loop, (context, total, counts)) in enumerate(zip(loops, contexts, strict=True)):
            self._run_loop(number, loop, context, total, counts[-1])
        if has_result:
            given = ", ".join(itertools.chain(*self._block_arguments("%block")))
            word = self.f.emit(f"call i64 @result({given})")
            place = self.f.emit(f"getelementptr i64, ptr %block, i64 {3 * len(self.kernel.params)}")
            self.f.do(f"store i64 {word}, ptr {place}")
        self.f.close("ret i32 0")
        self._end_bounds()
        self.module.functions.append(self.f.text(f"define i32 @{LAUNCH_SYMBOL}(ptr %block) nounwind"))

    def _launch_streams(self, pays: str) -> None:
        """Leave the launch to the code that stores past the caches, if it is there."""
        beyond, ran, within = (self.f.label(x) for x in ("beyond", "ran", "within"))
        self.f.cond_br(pays, beyond, within)
        self.f.open(beyond)
        status = self.f.emit(f"call i32 {self.module.declare('i32', STREAMS_SYMBOL, ['ptr'])}(ptr %block)")
        self.f.cond_br(self.f.emit(f"icmp eq i32 {status}, -1"), within, ran)
        self.f.open(ran)
        self.f.close(f"ret i32 {status}")
        self.f.open(within)

    def _loop_context(self, loop: ir.IRParallelFor) -> tuple[str, str, list[str]]:
        """What chunks of a loop need, on the launch's stack, and how many iterations it has, in all and by range."""
        context = self.f.slot(f"[{1 + _RANGE_WORDS * len(loop.ranges)} x i64]", zero=False)
        self.f.do(f"store ptr %block, ptr {context}")
        counts = []
        for axis, bounds in enumerate(loop.ranges):
            start, stop, step = self._bound(bounds.start), self._bound(bounds.stop), self._bound(bounds.step)
            counts.append(self._iterations(start, stop, step))
            for word, value in enumerate((start, step, counts[-1])):
                place = self.f.emit(f"getelementptr i64, ptr {context}, i64 {1 + _RANGE_WORDS * axis + word}")
                self.f.do(f"store i64 {value}, ptr {place}")
        return context, self._total(counts), counts

    def _run_loop(self, number: int, loop: ir.IRParallelFor, context: str, total: str, row: str) -> None:
        emit, (some, share, alone, after) = self.f.emit, (self.f.label(x) for x in ("some", "share", "alone", "after"))
        self.f.cond_br(emit(f"icmp eq i64 {total}, 0"), after, some)
        self.f.open(some)
        most = self._most_alone(loop)
        self.f.cond_br(emit(f"icmp ugt i64 {total}, {most}"), share, alone)
        self.f.open(share)
        pool = self.module.declare("void", PARALLEL_FOR_SYMBOL, ["ptr", "ptr", *["i64"] * 4])
        least, limit = self._shortest_chunk_and_limit(loop, most, total)
        cut = f"i64 {emit(f'sub i64 0, {least}')}, i64 {limit}, i64 {self._iterations_at_once(loop, row)}"
        self.f.do(f"call void {pool}(ptr @chunk.{number}, ptr {context}, i64 {total}, {cut})")
        self.f.br(after)
        self.f.open(alone)
        self.f.do(f"call void @chunk.{number}(ptr {context}, i64 0, i64 {total}, i64 0)")
        self.f.br(after)
        self.f.open(after)

    def _most_alone(self, loop: ir.IRParallelFor) -> str:
        """Up to how many iterations are not worth a second thread; fewer where serial loops turn out to be long."""
        most = max(1, _WORTH_SHARING // work(loop.body, self.kernel.functions))
        longest = Value(str(UNKNOWN_TRIPS), i64)
        for node in lengths(loop, self.kernel) if most > 1 else ():
            longest = self._intrinsic("smax", i64, longest.ssa, self._length(node))
        if longest.ssa == str(UNKNOWN_TRIPS):
            return str(most)
        fewer = self.f.emit(f"udiv i64 {most * UNKNOWN_TRIPS}, {longest.ssa}")
        return self._intrinsic("umax", i64, fewer, "1").ssa

    def _shortest_chunk_and_limit(self, loop: ir.IRParallelFor, most: str, total: str) -> tuple[str, str]:
        """What a chunk has at least: fewer iterations where nobody knows how long they are, lest one unbalance; enough
        of them where each does little but count, and a chunk has copies to add up. And how many threads are worth that;
        0 stands for all."""
        if has_unknown_trips(loop, self.kernel):
            most = self._intrinsic("umax", i64, self.f.emit(f"udiv i64 {most}, {_LIKELY_LONGER}"), "1").ssa
        known = self.counters[id(loop)] if work(loop.body, self.kernel.functions) <= _CONTENDED else []
        counting = self._shortest_counting(known, self._counter_sizes(known, self._bounds_block))
        if counting == "0":
            return most, "0"
        threads = self.f.emit(f"udiv i64 {total}, {self._intrinsic('umax', i64, counting, '1').ssa}")
        return self._intrinsic("umax", i64, most, counting).ssa, self._intrinsic("umax", i64, threads, "1").ssa

    def _iterations_at_once(self, loop: ir.IRParallelFor, row: str) -> str:
        """How many iterations a step of the code runs, of which a chunk of fewer takes nearly as long: a block of
        lanes, or a whole row of iterations where that is hardly more."""
        rows, plan = self.planned[id(loop)]
        if rows is not None or plan is None:
            return str(rows.rows if rows is not None else 1)
        if len(loop.ranges) == 1:
            return str(plan.width)
        short = self.f.emit(f"icmp ule i64 {row}, {2 * plan.width}")
        return self._intrinsic("umax", i64, self.f.emit(f"select i1 {short}, i64 {row}, i64 {plan.width}"), "1").ssa

    def _counter_sizes(self, known: list[Counter], block: str) -> list[str]:
        """The bytes of each counter."""
        return [self._block_word(block, counter.position, 1, "i64") for counter in known]

    def _length(self, node: ir.IRExpr) -> str:
        if isinstance(node, ir.IRArrayAttr):
            return self._extent(node)
        assert isinstance(node, ir.IRVar)
        return self._block_word(self._bounds_block, self._positions[node.name], 0, "i64")


def _start_and_step(loop: ir.IRParallelFor, axis: int) -> tuple[str, str]:
    """A range's start and step in a body function, literals as such."""
    bounds = loop.ranges[axis]
    start = "0" if _is_literal(bounds.start, 0) else f"%start.{axis}"
    return start, "1" if _is_literal(bounds.step, 1) else f"%step.{axis}"


def _is_literal(node: ir.IRExpr, value: int) -> bool:
    return isinstance(node, ir.IRConst) and node.value == value
