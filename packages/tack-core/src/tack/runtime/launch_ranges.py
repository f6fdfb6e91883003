"""The iterations of a loop of a `LaunchPlan`, from the arguments of a call: Python's integers where they fit i64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tack.codegen.launch_plan import Bound, RangePlan
from tack.lang.records import record
from tack.lang.types import i64

Scalars = Sequence[int | float]
Shapes = Sequence[tuple[int, ...]]
BoundFunction = Callable[[Scalars, Shapes], int]


@record(frozen=True)
class LoopSpace:
    """First value, step and number of values of each range; and `total`, the number of iterations."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    trips: tuple[int, ...]
    total: int


def compile_space(ranges: Sequence[RangePlan]) -> Callable[[Scalars, Shapes], LoopSpace]:
    """A function that evaluates the ranges of a loop, made once for all launches of a kernel.

    Parameters
    ----------
    ranges
        Of a `KernelPlan`.

    Returns
    -------
    callable
        It takes scalars and shapes, both by position of the kernel's parameters; what is at the place of a parameter of
        the other kind is not read. It raises `OverflowError` if a value on the way, or the number of iterations, does
        not fit i64 (`STATUS_BOUNDS_OVERFLOW`), and `ZeroDivisionError` if a bound divides by zero
        (`STATUS_BOUNDS_ZERO_DIVISION`).
    """
    bounds = [tuple(compile_bound(b) for b in (r.start, r.stop, r.step)) for r in ranges]

    def space(scalars: Scalars, shapes: Shapes) -> LoopSpace:
        starts, steps, trips = [], [], []
        for functions in bounds:
            start, stop, step = (function(scalars, shapes) for function in functions)
            starts.append(start)
            steps.append(step)
            trips.append(-((start - stop) // step) if step > 0 and start < stop else 0)
        total = math.prod(trips)
        return LoopSpace(tuple(starts), tuple(steps), tuple(trips), _fit(total))

    return space


def compile_bound(bound: Bound) -> BoundFunction:
    """A function that evaluates one bound; it takes and raises what the one of `compile_space` does."""
    kind, *parts = bound
    place = parts[0]
    if kind == "const":
        return lambda scalars, shapes: _fit(place)  # a literal outside i64 fails the launch, not the compilation
    if kind == "scalar":
        return lambda scalars, shapes: _fit(int(scalars[place]))
    if kind == "shape":
        axis = parts[1]
        return lambda scalars, shapes: shapes[place][axis]
    if kind == "size":
        return lambda scalars, shapes: _fit(math.prod(shapes[place]))
    operation, operands = _OPERATIONS[kind], [compile_bound(part) for part in parts]
    return lambda scalars, shapes: _fit(operation([operand(scalars, shapes) for operand in operands]))


def loop_space(ranges: Sequence[RangePlan], scalars: Scalars, shapes: Shapes) -> LoopSpace:
    """The ranges of a loop, evaluated once; see `compile_space`."""
    return compile_space(ranges)(scalars, shapes)


def evaluate_bound(bound: Bound, scalars: Scalars, shapes: Shapes) -> int:
    """The value of one bound; see `compile_bound`."""
    return compile_bound(bound)(scalars, shapes)


_OPERATIONS: dict[str, Callable[[list[int]], int]] = {
    "neg": lambda v: -v[0],
    "+": lambda v: v[0] + v[1],
    "-": lambda v: v[0] - v[1],
    "*": lambda v: v[0] * v[1],
    "//": lambda v: v[0] // v[1],
    "%": lambda v: v[0] % v[1],
    "min": min,
    "max": max,
}


def _fit(value: int) -> int:
    if not i64.min <= value <= i64.max:
        raise OverflowError(f"{value} is outside the range of i64")
    return value
