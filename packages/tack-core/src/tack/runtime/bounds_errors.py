"""The error behind a launch status: which bound of which loop could not be used, and its value."""

from __future__ import annotations

from typing import Any, NoReturn

from tack.lang.bounds import evaluate
from tack.lang.diagnostics import fail
from tack.lang.ir import IRKernel, IRParallelFor
from tack.runtime.backend import STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION


def explain_status(status: int, ir: IRKernel, arguments: list[Any]) -> NoReturn:
    """Raise the error that a nonzero launch status stands for; nothing has run.

    Raises
    ------
    ValueError
        If a bound, or the number of iterations, does not fit 64 bits, or a bound divides by zero.
    RuntimeError
        For a status that only a backend knows.
    """
    env = {p.name: value for p, value in zip(ir.params, arguments, strict=True)}
    for loop in ir.body:
        if isinstance(loop, IRParallelFor):
            _check_loop(loop, env)
    if status not in (STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION):
        raise RuntimeError(f"kernel `{ir.name}`: the device reported status {status}")
    raise AssertionError(f"kernel `{ir.name}`: status {status}, but every bound is in range")


def _check_loop(loop: IRParallelFor, env: dict[str, Any]) -> None:
    total = 1
    for r in loop.ranges:
        try:
            start, stop, step = (evaluate(e, env) for e in (r.start, r.stop, r.step))
        except ZeroDivisionError:
            fail(ValueError, "a bound of this loop divides by zero", loop.loc)
        except OverflowError as problem:
            fail(ValueError, f"a bound of this loop does not fit 64 bits: {problem}", loop.loc)
        total *= max(0, -(-(stop - start) // max(1, step)))
    if total >= 1 << 63:
        fail(ValueError, f"this loop has {total} iterations; a launch can have at most 2**63 - 1", loop.loc)
