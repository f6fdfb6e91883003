"""Typed IR, executed in plain Python: one method a node class, one iteration after the other.

To step through a kernel, set a breakpoint in `statement` (or in one `exec_…` method) and look at ``frame.locals`` and
``frame.arrays``, which hold the user's names; ``node.loc`` is the user's line. All arithmetic is `lang.exact`,
through the rows of `lang.ops`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tack.lang import bounds, exact, ir, ops
from tack.lang.diagnostics import Loc
from tack.lang.types import DType
from tack.runtime import reference_checks as checks
from tack.runtime.backend import STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION, STATUS_OK
from tack.runtime.number_text import number_text
from tack.runtime.reference_memory import (
    ArrayView,
    Frame,
    Number,
    bits_of,
    constant,
    decode_block,
    store_result,
    table_views,
)

_MAX_ITERATIONS = (1 << 63) - 1


class Flow(enum.Enum):
    """How a statement ended, where it did not just go on to the next."""

    BREAK = enum.auto()
    CONTINUE = enum.auto()
    RETURN = enum.auto()


Bounds = tuple[tuple[int, int, int], ...]  # (start, stop, step) of each dimension of a parallel loop


class Interpreter:
    """Executes one typed kernel. Nothing of a launch is kept here, so threads may share an interpreter."""

    def __init__(self, kernel: ir.IRKernel) -> None:
        self.kernel = kernel
        self._constants: dict[ir.IRConst, Number] = {}
        self._tables = {symbol: table_views(function) for symbol, function in kernel.functions.items()}
        self._eval = self._methods("eval_", ir.IRExpr)
        self._exec = self._methods("exec_", ir.IRStmt)

    def _methods(self, prefix: str, base: type[ir.IRNode]) -> dict[type, Callable[[Any, Frame], Any]]:
        classes = (c for c in vars(ir).values() if isinstance(c, type) and issubclass(c, base))
        return {c: getattr(self, prefix + c.__name__) for c in classes if hasattr(self, prefix + c.__name__)}

    # ------------------------------------------------------------------------------------------------ launching

    def launch(self, block: int) -> int:
        """Run the kernel on the argument block at this address; a status word of `backend`.

        Raises
        ------
        ArithmeticError, IndexError, LookupError, ValueError, UnboundLocalError
            Where the program breaks a caller constraint; what ran before stands.
        """
        frame = decode_block(self.kernel, block)
        try:
            spaces = self._iteration_spaces(frame)
        except OverflowError:
            return STATUS_BOUNDS_OVERFLOW
        except ZeroDivisionError:
            return STATUS_BOUNDS_ZERO_DIVISION
        for node in self.kernel.body:
            if isinstance(node, ir.IRParallelFor):
                self.parallel_loop(node, spaces[node], frame)
            else:
                self.statement(node, frame)
        if self.kernel.results:
            store_result(self.kernel, block, frame.results[0])
        return STATUS_OK

    def _iteration_spaces(self, frame: Frame) -> dict[ir.IRParallelFor, Bounds]:
        """The bounds of every parallel loop, before anything runs."""
        env = {**frame.locals, **frame.arrays}
        spaces: dict[ir.IRParallelFor, Bounds] = {}
        for loop in self.kernel.body:
            if isinstance(loop, ir.IRParallelFor):
                dims = []
                for r in loop.ranges:
                    start, stop, step = (bounds.evaluate(e, env) for e in (r.start, r.stop, r.step))
                    dims.append((start, stop, step))
                for _, _, step in dims:
                    checks.check_step(step, loop.loc, frame)
                if math.prod(_trips(*dim) for dim in dims) > _MAX_ITERATIONS:
                    raise OverflowError("more iterations than an i64 counts")
                spaces[loop] = tuple(dims)
        return spaces

    def parallel_loop(self, node: ir.IRParallelFor, space: Bounds, outer: Frame) -> None:
        """Every iteration of a parallel loop, in order, the last index fastest."""
        for indices in _points(space):
            self.iteration(node, dict(zip(node.vars, indices, strict=True)), outer)

    def iteration(self, node: ir.IRParallelFor, point: dict[str, int], outer: Frame) -> None:
        """One iteration, starting from the values bound before the loop."""
        frame = Frame(outer.function, {**outer.locals, **point}, dict(outer.arrays), point=point)
        self.block(node.body, frame)

    # ----------------------------------------------------------------------------------------------- statements

    def block(self, body: Iterable[ir.IRStmt], frame: Frame) -> Flow | None:
        """Run statements until one leaves the block."""
        for node in body:
            flow = self.statement(node, frame)
            if flow is not None:
                return flow
        return None

    def statement(self, node: ir.IRStmt, frame: Frame) -> Flow | None:
        """Run one statement."""
        flow: Flow | None = self._exec[type(node)](node, frame)
        return flow

    def exec_IRAssign(self, node: ir.IRAssign, frame: Frame) -> None:
        frame.locals[node.name] = self.value(node.value, frame)

    def exec_IRUnpack(self, node: ir.IRUnpack, frame: Frame) -> None:
        frame.locals.update(zip(node.names, self.call(node.call, frame), strict=True))

    def exec_IRStore(self, node: ir.IRStore, frame: Frame) -> None:
        if node.moves and isinstance(node.value, ir.IRLoad):
            source, position, _ = self.element(node.value.array, node.value.index, node.loc, frame)
            value = source.cells[position]
        else:
            value = self.value(node.value, frame)
        array, offset, _ = self.element(node.array, node.index, node.loc, frame)
        array.cells[offset] = value  # type: ignore[index]

    def exec_IRExprStmt(self, node: ir.IRExprStmt, frame: Frame) -> None:
        if isinstance(node.value, ir.IRCall):
            self.call(node.value, frame)
        else:
            self.value(node.value, frame)

    def exec_IRIf(self, node: ir.IRIf, frame: Frame) -> Flow | None:
        return self.block(node.then if self.value(node.cond, frame) else node.other, frame)

    def exec_IRWhile(self, node: ir.IRWhile, frame: Frame) -> Flow | None:
        while self.value(node.cond, frame):
            flow = self.block(node.body, frame)
            if flow is Flow.BREAK:
                break
            if flow is Flow.RETURN:
                return flow
        return None

    def exec_IRFor(self, node: ir.IRFor, frame: Frame) -> Flow | None:
        counter, stop, step = (int(self.value(e, frame)) for e in (node.start, node.stop, node.step))
        checks.check_step(step, node.loc, frame)
        while counter < stop:
            frame.locals[node.var] = counter
            flow = self.block(node.body, frame)
            if flow is Flow.BREAK:
                break
            if flow is Flow.RETURN:
                return flow
            counter += step
        return None

    def exec_IRBreak(self, node: ir.IRBreak, frame: Frame) -> Flow:
        return Flow.BREAK

    def exec_IRContinue(self, node: ir.IRContinue, frame: Frame) -> Flow:
        return Flow.CONTINUE

    def exec_IRReturn(self, node: ir.IRReturn, frame: Frame) -> Flow:
        frame.results = tuple(self.value(v, frame) for v in node.values)
        return Flow.RETURN

    def exec_IRLocalArray(self, node: ir.IRLocalArray, frame: Frame) -> None:
        cells: list[Number | None] = [None] * math.prod(node.shape)
        frame.arrays[node.name] = ArrayView(node.name, node.element, node.shape, cells)

    def exec_IRPrint(self, node: ir.IRPrint, frame: Frame) -> None:
        parts = [p if isinstance(p, str) else self.text(p, frame) for p in node.parts]
        print("".join(parts), end="")

    def exec_IRAssert(self, node: ir.IRAssert, frame: Frame) -> None:
        """Dropped, as under ``python -O`` (rule SYN-5)."""

    def text(self, node: ir.IRExpr, frame: Frame) -> str:
        """The value of an expression, as `print` writes it."""
        assert node.dtype is not None
        return number_text(self.value(node, frame), node.dtype)

    # ---------------------------------------------------------------------------------------------- expressions

    def value(self, node: ir.IRExpr, frame: Frame) -> Number:
        """The value of a scalar expression, a Python number of its dtype."""
        number: Number = self._eval[type(node)](node, frame)
        return number

    def eval_IRConst(self, node: ir.IRConst, frame: Frame) -> Number:
        known = self._constants.get(node)
        if known is None:
            assert node.dtype is not None
            known = self._constants[node] = constant(node.dtype, node.value)
        return known

    def eval_IRVar(self, node: ir.IRVar, frame: Frame) -> Number:
        try:
            return frame.locals[node.name]
        except KeyError:
            pass
        checks.unassigned(node.name, node.loc, frame)

    def eval_IRArrayAttr(self, node: ir.IRArrayAttr, frame: Frame) -> int:
        array = frame.arrays[node.array]
        if node.attr == "shape":
            return array.shape[node.axis]
        return array.size if node.attr == "size" else array.ndim

    def eval_IRLoad(self, node: ir.IRLoad, frame: Frame) -> Number:
        array, offset, index = self.element(node.array, node.index, node.loc, frame)
        return self.load(array, offset, index, node.loc, frame)

    def eval_IRUnary(self, node: ir.IRUnary, frame: Frame) -> Number:
        return ops.UNARY[node.op].evaluate(node.dtype, self.value(node.operand, frame))

    def eval_IRBinOp(self, node: ir.IRBinOp, frame: Frame) -> Number:
        row = ops.BINARY[node.op]
        left = self.value(node.left, frame)
        if row.constraint is None:
            return row.evaluate(node.dtype, left, self.value(node.right, frame))
        # The constraint is on the operand as written: a count of 256 must not become a u8 zero first.
        written = node.right
        if isinstance(written, ir.IRCast) and not written.explicit:
            written = written.operand
        right = self.value(written, frame)
        checks.check_binary(node, left, right, frame)
        converted = node.right.dtype
        if written.dtype is not converted:
            assert converted is not None and written.dtype is not None
            right = exact.cast(converted, written.dtype, right)
        return row.evaluate(node.dtype, left, right)

    def eval_IRCompare(self, node: ir.IRCompare, frame: Frame) -> Number:
        left = self.value(node.left, frame)
        return ops.COMPARE[node.op].evaluate(node._operand_type, left, self.value(node.right, frame))

    def eval_IRBoolOp(self, node: ir.IRBoolOp, frame: Frame) -> int:
        if node.op == "and":
            return int(all(self.value(v, frame) for v in node.values))
        return int(any(self.value(v, frame) for v in node.values))

    def eval_IRNot(self, node: ir.IRNot, frame: Frame) -> int:
        return int(not self.value(node.operand, frame))

    def eval_IRSelect(self, node: ir.IRSelect, frame: Frame) -> Number:
        return self.value(node.then if self.value(node.cond, frame) else node.other, frame)

    def eval_IRBind(self, node: ir.IRBind, frame: Frame) -> Number:
        number = frame.locals[node.name] = self.value(node.value, frame)
        return number

    def eval_IRCast(self, node: ir.IRCast, frame: Frame) -> Number:
        source = node.operand.dtype
        assert source is not None
        number = self.value(node.operand, frame)
        if source.is_float and node.target.is_integer:
            checks.check_cast(node, number, frame)
        return exact.cast(node.target, source, number)

    def eval_IRBuiltin(self, node: ir.IRBuiltin, frame: Frame) -> Number:
        values = [self.value(a, frame) for a in node.args]
        return ops.BUILTINS[node.name].evaluate(node._operand_type, *values)

    def eval_IRAtomic(self, node: ir.IRAtomic, frame: Frame) -> Number:
        array, offset, index = self.element(node.array, node.index, node.loc, frame)
        args = [self.value(a, frame) for a in node.args]
        old = self.load(array, offset, index, node.loc, frame)
        array.cells[offset] = _updated(node.op, array.dtype, old, args)  # type: ignore[index]
        return old

    def eval_IRCall(self, node: ir.IRCall, frame: Frame) -> Number:
        (result,) = self.call(node, frame)
        return result

    # --------------------------------------------------------------------------------------- elements and calls

    def element(self, name: str, index: list[ir.IRExpr], loc: Loc, frame: Frame) -> tuple[ArrayView, int, list[int]]:
        """The array, the flat position of an element that surely exists, and the index as evaluated."""
        array = frame.arrays[name]
        values = [int(self.value(i, frame)) for i in index]
        offset = array.offset(values)
        if offset is None:
            checks.index_violation(array, values, loc, frame)
        return array, offset, values

    def load(self, array: ArrayView, offset: int, index: list[int], loc: Loc, frame: Frame) -> Number:
        """The element at a flat position."""
        number: Number | None = array.cells[offset]
        if number is None:
            checks.undefined_element(array, index, loc, frame)
        return number

    def call(self, node: ir.IRCall, frame: Frame) -> tuple[Number, ...]:
        """Run a device function: scalars by value, arrays by reference."""
        assert node.symbol is not None
        function = self.kernel.functions[node.symbol]
        inner = Frame(function, {}, dict(self._tables[node.symbol]), frame, node.loc)
        for param, argument in zip(function.params, node.args, strict=True):
            if isinstance(argument, ir.IRArrayRef):
                inner.arrays[param.name] = frame.arrays[argument.name]
            else:
                inner.locals[param.name] = self.value(argument, frame)
        self.block(function.body, inner)
        return inner.results


def _trips(start: int, stop: int, step: int) -> int:
    return max(0, -(-(stop - start) // step))


def _points(space: Bounds) -> Iterator[tuple[int, ...]]:
    if not space:
        yield ()
        return
    first, *rest = space
    if any(_trips(*dim) == 0 for dim in rest):
        return
    index, stop, step = first
    while index < stop:
        for point in _points(tuple(rest)):
            yield (index, *point)
        index += step


def _updated(op: str, dtype: DType, old: Number, args: list[Number]) -> Number:
    """The new value of an atomically updated element."""
    if op == "exchange":
        return args[0]
    if op == "cas":
        expected, desired = args
        return desired if bits_of(dtype, old) == bits_of(dtype, expected) else old
    return _ATOMIC[op](dtype, old, args[0])


_ATOMIC: dict[str, Callable[..., Number]] = {
    "add": exact.add,
    "sub": exact.subtract,
    "min": exact.min_,
    "max": exact.max_,
    "and": exact.bit_and,
    "or": exact.bit_or,
    "xor": exact.bit_xor,
}
