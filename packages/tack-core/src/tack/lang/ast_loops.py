"""Loops: `range` and `tack.ndrange`, serial and parallel (rules LOOP-*)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tack.lang.ast_statements import PARALLEL, SERIAL, StatementLowering
from tack.lang.bounds import HOST_HINT, HostDefinitions, constant_value, substitute
from tack.lang.flow import loop_targets
from tack.lang.intrinsics import Meaning
from tack.lang.ir import IRConst, IRExpr, IRFor, IRParallelFor, IRRange, IRStmt


class LoopLowering(StatementLowering):
    """Lowers `for` loops."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.host_definitions: HostDefinitions = {}

    @contextmanager
    def loop_variables(self, node: ast.For, kind: str) -> Iterator[list[str]]:
        """Fresh symbols for the variables of a loop; their names mean what they meant before when it is over."""
        names = loop_targets(node)
        before = {name: self.bindings.get(name) for name in names}
        symbols = [self.new_symbol(name, "loop", node.target) for name in names]
        self.bindings.update(zip(names, symbols, strict=True))
        self.loops.append(kind)
        yield symbols
        self.loops.pop()
        for name, symbol in before.items():
            if symbol is None:
                del self.bindings[name]
            else:
                self.bindings[name] = symbol

    def iterated(self, node: ast.For) -> tuple[ast.Call, Meaning]:
        """The call of `range` or `tack.ndrange` that a `for` loops over."""
        assert isinstance(node.iter, ast.Call)
        meaning = self.meaning(node.iter)
        if meaning is None or meaning.form not in ("range", "ndrange"):
            self.unsupported(
                "a loop over anything but `range` or `tack.ndrange` is not supported",
                node.iter,
                "loop over `range(...)`",
            )
        return node.iter, meaning

    # ----------------------------------------------------------------------------------------------------- serial

    def for_loop(self, node: ast.For) -> list[IRStmt]:
        if self.outside:
            self.unsupported(
                "a `for` under an `if` or `while` outside the parallel loops is not supported",
                node,
                "put the loop directly in the body of the kernel, and the test inside it",
            )
        call, meaning = self.iterated(node)
        if meaning.form == "ndrange":
            self.unsupported(
                "`tack.ndrange` in a serial loop is not supported", call, "nest `for ... in range(...)` loops"
            )
        if isinstance(node.target, ast.Tuple):
            self.unsupported("several variables of a `range` are not supported", node.target, "write one loop variable")
        start, stop, step = self.range_arguments(call)
        with self.loop_variables(node, SERIAL) as symbols:
            body = self.block(node.body)
        return [IRFor(loc=self.loc(node), var=symbols[0], start=start, stop=stop, step=step, body=body)]

    def range_arguments(self, call: ast.Call) -> tuple[IRExpr, IRExpr, IRExpr]:
        given = self.arguments(call, "range", 1, 3)
        loc = self.loc(call)
        start = given[0] if len(given) > 1 else IRConst(loc=loc, value=0)
        stop = given[1] if len(given) > 1 else given[0]
        step = given[2] if len(given) > 2 else IRConst(loc=loc, value=1)
        number = constant_value(step)
        if number is not None and number <= 0:
            hint = "count up, and compute the reversed index in the body: `n - 1 - i`"
            self.fail(ValueError, f"the step of `range` must be positive, and this one is {number}", step.loc, hint)
        return start, stop, step

    # --------------------------------------------------------------------------------------------------- parallel

    def parallel_loop(self, node: ast.For) -> IRParallelFor:
        call, meaning = self.iterated(node)
        names = loop_targets(node)
        if meaning.form == "range":
            if isinstance(node.target, ast.Tuple):
                self.unsupported(
                    "several variables of a `range` are not supported", node.target, "loop over `tack.ndrange(d0, d1)`"
                )
            start, stop, step = self.range_arguments(call)
            ranges = [self.host_range(start, stop, step)]
        else:
            ranges = self.ndrange_arguments(call)
            if len(ranges) != len(names):
                self.fail(
                    TypeError,
                    f"`tack.ndrange` has {len(ranges)} dimensions, and there are {len(names)} loop variables",
                    node.target,
                    "write one loop variable a dimension: `for i, j in tack.ndrange(...)`",
                )
        if len(set(names)) != len(names):
            self.unsupported("two loop variables of one name are not supported", node.target, "name them differently")
        self.outside = False
        outer = set(self.bindings)
        self.direct.update(map(id, node.body))
        with self.loop_variables(node, PARALLEL) as symbols:
            body = self.block(node.body)
        self.outside = True
        inner = [name for name in self.bindings if name not in outer]
        for name in inner:
            if self.symbols[self.bindings[name]].kind == "local_array":
                del self.bindings[name]
        return IRParallelFor(loc=self.loc(node), vars=symbols, ranges=ranges, body=body)

    def host_range(self, start: IRExpr, stop: IRExpr, step: IRExpr) -> IRRange:
        return IRRange(start=self.host(start), stop=self.host(stop), step=self.host(step))

    def host(self, expr: IRExpr) -> IRExpr:
        """A bound in terms of the arguments (rule LOOP-8)."""
        done = substitute(expr, self.host_definitions)
        if isinstance(done, tuple):
            part, reason = done
            message = f"the bounds of a parallel loop are evaluated on the host, before it starts: {reason}"
            if isinstance(part, IRConst):
                self.fail(TypeError, message, part.loc, "bounds are integers")
            self.unsupported(message, part.loc, HOST_HINT)
        return done

    def ndrange_arguments(self, call: ast.Call) -> list[IRRange]:
        self.check_arguments(call, "tack.ndrange", 1, None)
        ranges: list[IRRange] = []
        for argument in call.args:
            pair = (
                argument.elts
                if isinstance(argument, ast.Tuple)
                else [ast.copy_location(ast.Constant(0), argument), argument]
            )
            if len(pair) != 2:
                self.fail(TypeError, "a dimension of `tack.ndrange` is a size or a `(start, end)` pair", argument)
            start, stop = (self.expr(part) for part in pair)
            ranges.append(self.host_range(start, stop, IRConst(loc=self.loc(argument), value=1)))
        return ranges
