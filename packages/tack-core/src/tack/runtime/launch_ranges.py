"""The iterations of a loop of a `LaunchPlan`, from the arguments of a call: Python's integers where they fit i64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tack.codegen.launch_plan import Bound, RangePlan
from tack.lang.types import i64


@dataclass(frozen=True, slots=True)
class LoopSpace:
    """First value, step and number of values of each range; and `total`, the number of iterations."""

    starts: tuple[int, ...]
    steps: tuple[int, ...]
    trips: tuple[int, ...]
    total: int


def loop_space(
    ranges: Sequence[RangePlan], scalars: Sequence[int | float], shapes: Sequence[tuple[int, ...]]
) -> LoopSpace:
    """Evaluate the ranges of a loop.

    Parameters
    ----------
    ranges
        Of a `KernelPlan`.
    scalars, shapes
        By position of the kernel's parameters; what is at the place of a parameter of the other kind is not read.

    Raises
    ------
    OverflowError
        If a value on the way, or the number of iterations, does not fit i64 (`STATUS_BOUNDS_OVERFLOW`).
    ZeroDivisionError
        If a bound divides by zero (`STATUS_BOUNDS_ZERO_DIVISION`).
    """
    starts, steps, trips = [], [], []
    for r in ranges:
        start, stop, step = (evaluate_bound(b, scalars, shapes) for b in (r.start, r.stop, r.step))
        starts.append(start)
        steps.append(step)
        trips.append(-((start - stop) // step) if step > 0 and start < stop else 0)
    total = math.prod(trips)
    return LoopSpace(tuple(starts), tuple(steps), tuple(trips), _fit(total))


def evaluate_bound(bound: Bound, scalars: Sequence[int | float], shapes: Sequence[tuple[int, ...]]) -> int:
    """The value of one bound; raises as `loop_space` does."""
    kind, *parts = bound
    if kind == "const":
        return _fit(parts[0])
    if kind == "scalar":
        return _fit(int(scalars[parts[0]]))
    if kind == "shape":
        return shapes[parts[0]][parts[1]]
    if kind == "size":
        return _fit(math.prod(shapes[parts[0]]))
    values = [evaluate_bound(part, scalars, shapes) for part in parts]
    return _fit(_OPERATIONS[kind](values))


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
