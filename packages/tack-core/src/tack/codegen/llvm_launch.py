"""From an argument block to iterations: bounds, chunks, and the functions that a launch consists of.

For parallel loop k of a kernel the module has

* ``body.k(parameters, begin, end, ranges)``: iterations begin <= flat < end, the only place with the user's code;
* ``chunk.k(context, begin, end, lane)``: what the thread pool calls: unpacks the argument block, calls the body;

and one ``i32 tack_launch(block)``: evaluates the bounds of all loops, then runs the loops in order.
"""

from __future__ import annotations

from typing import Final

from tack.codegen.llvm_bounds import BoundsEmitter
from tack.codegen.llvm_statements import StatementEmitter
from tack.codegen.llvm_values import FunctionText, Value, llvm_type
from tack.codegen.work_estimate import work
from tack.lang import ir
from tack.lang.types import ArrayType, DType, i64

LAUNCH_SYMBOL: Final = "tack_launch"
PARALLEL_FOR_SYMBOL: Final = "tack_parallel_for"
"""``void tack_parallel_for(ptr body, ptr context, i64 n, i64 grain, i64 limit)``: the thread pool's door."""

# Below this much work (units of work_estimate, some microseconds) a second thread costs more than it brings.
_WORTH_SHARING: Final = 100_000
_RANGE_WORDS: Final = 3  # start, step, count


class LaunchEmitter(BoundsEmitter, StatementEmitter):
    """Writes what surrounds the user's code."""

    disjoint: bool

    # -- parameters

    def _block_arguments(self, block: str) -> list[str]:
        """Load every parameter from the argument block: typed texts in the order of `_formal_parameters`."""
        arguments: list[str] = []
        for position, param in enumerate(self.kernel.params):
            if isinstance(param.type, ArrayType):
                arguments.append(f"ptr {self._block_word(block, position, 0, 'ptr')}")
                extents = self._block_word(block, position, 2, "ptr")
                for axis in range(param.type.ndim):
                    place = self.f.emit(f"getelementptr i64, ptr {extents}, i64 {axis}")
                    arguments.append(f"i64 {self.f.emit(f'load i64, ptr {place}')}")
            else:
                assert param.type is not None
                word = self._block_word(block, position, 0, "i64")
                arguments.append(f"{llvm_type(param.type)} {self._from_word(word, param.type)}")
        return arguments

    def _from_word(self, word: str, dtype: DType) -> str:
        """A number from its word in the block: integers by their low bits, floats from binary64."""
        if dtype.is_float:
            wide = self.f.emit(f"bitcast i64 {word} to double")
            return wide if llvm_type(dtype) == "double" else self.f.emit(f"fptrunc double {wide} to float")
        return word if dtype.bits == 64 else self.f.emit(f"trunc i64 {word} to {llvm_type(dtype)}")

    # -- one loop

    def _body_function(self, number: int, loop: ir.IRParallelFor, prelude: list[ir.IRStmt]) -> None:
        """The user's code for a run of consecutive iterations; ranges that are literals stay literals."""
        self._begin_function(self.kernel)
        formals = self._formal_parameters(self.kernel, noalias=self.disjoint)
        formals += ["i64 %begin", "i64 %end"]
        formals += [f"i64 %{name}.{axis}" for axis in range(len(loop.ranges)) for name in ("start", "step", "count")]
        self._block(prelude)
        entering = self._values_before(loop)
        if len(loop.ranges) == 1:
            self._flat_loop(loop, entering)
        else:
            self._row_loops(loop, entering)
        # noinline: a promise on a parameter does not survive inlining as well, and the unpacking stays out of the way.
        header = f"define internal void @body.{number}({', '.join(formals)}) noinline nounwind"
        self.module.functions.append(self.f.text(header))

    def _values_before(self, loop: ir.IRParallelFor) -> list[tuple[str, Value]]:
        """What the locals that an iteration assigns hold before it: each iteration starts from that."""
        return [(name, self._read(name)) for name in sorted(_assigned(loop.body).difference(loop.vars))]

    def _iteration(self, loop: ir.IRParallelFor, entering: list[tuple[str, Value]], latch: str) -> None:
        for name, value in entering:
            self._write(name, value)
        self.loops.append(("", latch))
        self._block(loop.body)
        self.loops.pop()
        self.f.br(latch)

    def _loop_value(self, loop: ir.IRParallelFor, axis: int, position: str) -> None:
        """Set a loop variable to ``start + position * step``."""
        bounds = loop.ranges[axis]
        start = "0" if _is_literal(bounds.start, 0) else f"%start.{axis}"
        step = "1" if _is_literal(bounds.step, 1) else f"%step.{axis}"
        self._write(loop.vars[axis], Value(self._affine(start, position, step), i64))

    def _flat_loop(self, loop: ir.IRParallelFor, entering: list[tuple[str, Value]]) -> None:
        """One dimension. The caller never asks for an empty run, so the test stands at the end."""
        before = self.f.block
        self.f.br("iteration")
        self.f.open("iteration")
        self.f.do(f"%flat = phi i64 [ %begin, %{before} ], [ %flat.next, %next ]")
        self._loop_value(loop, 0, "%flat")
        self._iteration(loop, entering, "next")
        self.f.open("next")
        self.f.do("%flat.next = add nuw nsw i64 %flat, 1")
        self.f.cond_br(self.f.emit("icmp slt i64 %flat.next, %end"), "iteration", "done")
        self.f.open("done")
        self.f.close("ret void")

    def _row_loops(self, loop: ir.IRParallelFor, entering: list[tuple[str, Value]]) -> None:
        """Several dimensions: rows of the last one, outer indices carried on from row to row without division."""
        emit, do, last = self.f.emit, self.f.do, len(loop.ranges) - 1
        first = self._decompose(len(loop.ranges))
        before = self.f.block
        self.f.br("row")
        self.f.open("row")
        do(f"%flat = phi i64 [ %begin, %{before} ], [ %flat.next, %row.next ]")
        do(f"%column = phi i64 [ {first[last]}, %{before} ], [ 0, %row.next ]")
        for axis in range(last):
            do(f"%at.{axis} = phi i64 [ {first[axis]}, %{before} ], [ %at.{axis}.next, %row.next ]")
        for axis in range(last):
            self._loop_value(loop, axis, f"%at.{axis}")
        left, room = emit("sub i64 %end, %flat"), emit(f"sub i64 %count.{last}, %column")
        length = emit(f"select i1 {emit(f'icmp ult i64 {left}, {room}')}, i64 {left}, i64 {room}")
        row_end = emit(f"add nuw nsw i64 %column, {length}")
        outer = [(loop.vars[axis], self._read(loop.vars[axis])) for axis in range(last)]
        self.f.br("iteration")
        self.f.open("iteration")
        do("%position = phi i64 [ %column, %row ], [ %position.next, %next ]")
        self._loop_value(loop, last, "%position")
        self._iteration(loop, entering + outer, "next")
        self.f.open("next")
        do("%position.next = add nuw nsw i64 %position, 1")
        self.f.cond_br(emit(f"icmp slt i64 %position.next, {row_end}"), "iteration", "row.next")
        self.f.open("row.next")
        do(f"%flat.next = add nuw nsw i64 %flat, {length}")
        self._carry(last)
        self.f.cond_br(emit("icmp slt i64 %flat.next, %end"), "row", "done")
        self.f.open("done")
        self.f.close("ret void")

    def _decompose(self, rank: int) -> list[str]:
        """The position of iteration `begin` along each dimension."""
        positions, rest = [""] * rank, "%begin"
        for axis in range(rank - 1, 0, -1):
            positions[axis] = self.f.emit(f"urem i64 {rest}, %count.{axis}")
            rest = self.f.emit(f"udiv i64 {rest}, %count.{axis}")
        positions[0] = rest
        return positions

    def _carry(self, last: int) -> None:
        """Add one to the outer positions, as an odometer does."""
        carry = "1"
        for axis in range(last - 1, -1, -1):
            if axis == 0:
                self.f.do(f"%at.0.next = add i64 %at.0, {carry}")
                return
            moved = self.f.emit(f"add i64 %at.{axis}, {carry}")
            full = self.f.emit(f"icmp eq i64 {moved}, %count.{axis}")
            self.f.do(f"%at.{axis}.next = select i1 {full}, i64 0, i64 {moved}")
            carry = self.f.emit(f"zext i1 {full} to i64")

    def _chunk_function(self, number: int, loop: ir.IRParallelFor) -> None:
        """The pool's entry: context word 0 is the argument block, then start, step and count of each range."""
        self.f = FunctionText()
        block = self.f.emit("load ptr, ptr %context")
        arguments = [*self._block_arguments(block), "i64 %begin", "i64 %end"]
        for word in range(_RANGE_WORDS * len(loop.ranges)):
            place = self.f.emit(f"getelementptr i64, ptr %context, i64 {word + 1}")
            arguments.append(f"i64 {self.f.emit(f'load i64, ptr {place}')}")
        self.f.do(f"call void @body.{number}({', '.join(arguments)})")
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
        for number, (loop, (context, total)) in enumerate(zip(loops, contexts, strict=True)):
            self._run_loop(number, loop, context, total)
        if has_result:
            word = self.f.emit(f"call i64 @result({', '.join(self._block_arguments('%block'))})")
            place = self.f.emit(f"getelementptr i64, ptr %block, i64 {3 * len(self.kernel.params)}")
            self.f.do(f"store i64 {word}, ptr {place}")
        self.f.close("ret i32 0")
        self._end_bounds()
        self.module.functions.append(self.f.text(f"define i32 @{LAUNCH_SYMBOL}(ptr %block) nounwind"))

    def _loop_context(self, loop: ir.IRParallelFor) -> tuple[str, str]:
        """What chunks of a loop need, on the launch's stack, and the loop's number of iterations."""
        context = self.f.slot(f"[{1 + _RANGE_WORDS * len(loop.ranges)} x i64]", zero=False)
        self.f.do(f"store ptr %block, ptr {context}")
        counts = []
        for axis, bounds in enumerate(loop.ranges):
            start, stop, step = self._bound(bounds.start), self._bound(bounds.stop), self._bound(bounds.step)
            counts.append(self._iterations(start, stop, step))
            for word, value in enumerate((start, step, counts[-1])):
                place = self.f.emit(f"getelementptr i64, ptr {context}, i64 {1 + _RANGE_WORDS * axis + word}")
                self.f.do(f"store i64 {value}, ptr {place}")
        return context, self._total(counts)

    def _run_loop(self, number: int, loop: ir.IRParallelFor, context: str, total: str) -> None:
        emit, (some, share, alone, after) = self.f.emit, (self.f.label(x) for x in ("some", "share", "alone", "after"))
        self.f.cond_br(emit(f"icmp eq i64 {total}, 0"), after, some)
        self.f.open(some)
        most = _WORTH_SHARING // work(loop.body, self.kernel.functions)
        self.f.cond_br(emit(f"icmp ugt i64 {total}, {max(1, most)}"), share, alone)
        self.f.open(share)
        pool = self.module.declare("void", PARALLEL_FOR_SYMBOL, ["ptr", "ptr", "i64", "i64", "i64"])
        self.f.do(f"call void {pool}(ptr @chunk.{number}, ptr {context}, i64 {total}, i64 0, i64 0)")
        self.f.br(after)
        self.f.open(alone)
        self.f.do(f"call void @chunk.{number}(ptr {context}, i64 0, i64 {total}, i64 0)")
        self.f.br(after)
        self.f.open(after)


def _assigned(body: list[ir.IRStmt]) -> set[str]:
    """The scalar symbols that running these statements may assign."""
    names: set[str] = set()
    for node in ir.walk(body):
        match node:
            case ir.IRAssign(name=name) | ir.IRBind(name=name):
                names.add(name)
            case ir.IRUnpack():
                names.update(node.names)
            case ir.IRFor(var=name):
                names.add(name)
    return names


def _is_literal(node: ir.IRExpr, value: int) -> bool:
    return isinstance(node, ir.IRConst) and node.value == value
