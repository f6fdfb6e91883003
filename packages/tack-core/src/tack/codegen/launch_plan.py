"""What a runtime must know to launch generated kernels: plain data, so that it never looks at IR and can be stored.

A bound of a loop is a tree of tuples: ``("const", n)``, ``("scalar", position)``, ``("shape", position, axis)``,
``("size", position)``, ``("neg", x)``, ``(op, x, y)`` for ``+ - * // %``, ``("min", x, ...)`` and ``("max", x, ...)``.
"""

from __future__ import annotations

from typing import Any, Final

from tack.lang.records import record
from tack.lang.types import BY_NAME, DType, i64, u64

Bound = tuple[Any, ...]

ARRAY: Final = "array"  # the address of an array argument
TEXTURE: Final = "texture"  # an image of the texels of an array argument
RESULT: Final = "result"  # the address of one element that receives the kernel's result
EXTENT: Final = "extent"  # an extent of an array argument
SCALAR: Final = "scalar"  # a scalar argument
FIRST: Final = "first"  # the flat index of this launch's first iteration
STOP: Final = "stop"  # the flat index that this launch ends before
START: Final = "start"  # of the loop's range along an axis
STEP: Final = "step"
TRIPS: Final = "trips"  # how many values that range has

_ADDRESSES = (ARRAY, RESULT)


@record(frozen=True)
class KernelParameter:
    """One parameter of a generated kernel. `position` is that of the user's parameter, `axis` an axis of its array, or
    of the loop; `dtype` the element type of an address, and the type of anything else."""

    kind: str
    dtype: DType
    position: int = -1
    axis: int = -1

    @property
    def is_address(self) -> bool:
        return self.kind in _ADDRESSES

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Addresses first, then by size, large ones first: so that a structure of the others has no holes."""
        kinds = (ARRAY, RESULT, TEXTURE, EXTENT, FIRST, STOP, START, STEP, TRIPS, SCALAR)
        size = 0 if self.is_address else -self.dtype.itemsize
        return (not self.is_address, size, kinds.index(self.kind), (self.position << 8) + self.axis)


@record(frozen=True)
class RangePlan:
    """A range of a parallel loop, as bounds that the host evaluates at each call."""

    start: Bound
    stop: Bound
    step: Bound


@record(frozen=True)
class KernelPlan:
    """A generated kernel: its name, its parameters in order, the ranges of its loop (none for one iteration), how many
    threads a workgroup it is compiled for, and how many consecutive iterations a thread does: a launch of n iterations
    has ``ceil(n / (group * each))`` workgroups. Pieces of a long loop start at multiples of ``group * each``."""

    name: str
    parameters: tuple[KernelParameter, ...]
    ranges: tuple[RangePlan, ...]
    group: int
    each: int = 1


@record(frozen=True)
class LaunchPlan:
    """A call: its loops in order, then the kernel that writes the result, if there is one: of one iteration if it has
    no ranges.

    With `packed`, the parameters are the fields of one structure, in order and naturally aligned. `arguments` has, for
    each of the user's parameters, the dtype of a scalar or the rank of an array; `kernel` is the kernel's name in
    messages.
    """

    loops: tuple[KernelPlan, ...]
    result: KernelPlan | None
    packed: bool
    arguments: tuple[DType | int, ...] = ()
    kernel: str = ""

    def describe(self) -> dict[str, Any]:
        """The plan in literals, for the disk cache."""
        return {
            "loops": [_describe_kernel(loop) for loop in self.loops],
            "result": None if self.result is None else _describe_kernel(self.result),
            "packed": self.packed,
            "arguments": [a if isinstance(a, int) else a.name for a in self.arguments],
            "kernel": self.kernel,
        }

    @staticmethod
    def described(notes: dict[str, Any]) -> LaunchPlan:
        """What `describe` was made from; raises ValueError, TypeError or KeyError if it is not."""
        return LaunchPlan(
            loops=tuple(map(_described_kernel, notes["loops"])),
            result=None if notes["result"] is None else _described_kernel(notes["result"]),
            packed=bool(notes["packed"]),
            arguments=tuple(a if isinstance(a, int) else BY_NAME[a] for a in notes["arguments"]),
            kernel=str(notes["kernel"]),
        )


def _describe_kernel(plan: KernelPlan) -> tuple[Any, ...]:
    parameters = [(p.kind, p.dtype.name, p.position, p.axis) for p in plan.parameters]
    return (plan.name, parameters, [(r.start, r.stop, r.step) for r in plan.ranges], plan.group, plan.each)


def _described_kernel(notes: tuple[Any, ...]) -> KernelPlan:
    name, parameters, ranges, group, each = notes
    return KernelPlan(
        str(name),
        tuple(KernelParameter(str(k), BY_NAME[d], int(position), int(axis)) for k, d, position, axis in parameters),
        tuple(RangePlan(*r) for r in ranges),
        int(group),
        int(each),
    )


def loop_parameter(kind: str, axis: int = -1) -> KernelParameter:
    """A parameter that describes the iterations."""
    return KernelParameter(kind, u64 if kind == TRIPS else i64, axis=axis)
