"""From the bounds of a parallel loop, host expressions in IR, to the plain data of a `LaunchPlan`."""

from __future__ import annotations

from tack.codegen.launch_plan import SCALAR, Bound, RangePlan
from tack.lang import ir
from tack.lang.types import ArrayType, DType


def plan_ranges(
    loop: ir.IRParallelFor | ir.IRWorkgroup, positions: dict[str, int], params: list[ir.IRParam]
) -> tuple[RangePlan, ...]:
    """The bounds of a loop without IR; `positions` has the parameters by name."""

    def plan(node: ir.IRExpr) -> Bound:
        match node:
            case ir.IRConst():
                return ("const", int(node.value))
            case ir.IRVar():
                return (SCALAR, positions[node.name])
            case ir.IRArrayAttr():
                return _attribute(node, positions[node.array], params)
            case ir.IRUnary():
                return ("neg", plan(node.operand))
            case ir.IRBinOp():
                return (node.op, plan(node.left), plan(node.right))
            case ir.IRBuiltin():
                return (node.name, *map(plan, node.args))
        raise AssertionError(f"{type(node).__name__} is no host expression")

    return tuple(RangePlan(plan(r.start), plan(r.stop), plan(r.step)) for r in loop.ranges)


def _attribute(node: ir.IRArrayAttr, position: int, params: list[ir.IRParam]) -> Bound:
    if node.attr == "ndim":
        array_type = params[position].type
        assert isinstance(array_type, ArrayType)
        return ("const", array_type.ndim)
    return ("shape", position, node.axis) if node.attr == "shape" else ("size", position)


def plan_arguments(params: list[ir.IRParam]) -> tuple[DType | int, ...]:
    """For each parameter the dtype of a scalar, or the rank of an array."""
    return tuple(p.type.ndim if isinstance(p.type, ArrayType) else _number(p.type) for p in params)


def _number(value_type: object) -> DType:
    assert isinstance(value_type, DType)
    return value_type
