"""Block reductions as plain IR: the order in which a workgroup's values are combined, and the combiner (GRP-9, GRP-10).

The order is the same on every device, so the bits are too: one value a lane, the identity for lanes past the end, and
then, for widths group/2, group/4, ... 1, lane k below the width takes the combination of itself and lane k + width.
"""

from __future__ import annotations

import math

from tack.lang import ir
from tack.lang.diagnostics import Loc
from tack.lang.ir_building import Symbols, assign, binary, builtin, compare, const, counting, var
from tack.lang.types import f32, i32, i64

IDENTITY = {"sum": 0.0, "min": math.inf, "max": -math.inf}


def combined(op: str, first: str, second: str, loc: Loc) -> ir.IRExpr:
    """The combination of two f32 variables.

    An extremum is NaN if either is; of two zeros the minimum is -0.0 if either is, the maximum if both are.
    """

    def a() -> ir.IRExpr:
        return var(first, f32, loc)

    def b() -> ir.IRExpr:
        return var(second, f32, loc)

    if op == "sum":
        return binary("+", a(), b())
    order = "<" if op == "min" else ">"
    sign = builtin("copysign", const(1.0, f32, loc), a())
    tie: list[ir.IRExpr] = [compare("==", a(), b()), compare(order, sign, const(0.0, f32, loc))]
    takes_a: list[ir.IRExpr] = [
        compare(order, a(), b()),
        compare("!=", a(), a()),
        ir.IRBoolOp(loc=loc, op="and", values=tie, dtype=i32),
    ]
    cond = ir.IRBoolOp(loc=loc, op="or", values=takes_a, dtype=i32)
    return ir.IRSelect(loc=loc, cond=cond, then=a(), other=b(), dtype=f32)


def combining_loops(reduce: ir.IRBlockReduce, values: str, group: int, symbols: Symbols) -> list[ir.IRStmt]:
    """Loops that leave the combination of the `group` elements of an array in its element 0."""
    loc = reduce.loc
    lane = symbols.add("%k", "loop", loc, i64)
    first, second = symbols.temporary(loc, f32), symbols.temporary(loc, f32)
    loops: list[ir.IRStmt] = []
    width = group // 2
    while width:
        above = binary("+", var(lane, i64, loc), const(width, i64, loc))
        body: list[ir.IRStmt] = [
            assign(first, ir.IRLoad(loc=loc, array=values, index=[var(lane, i64, loc)], dtype=f32)),
            assign(second, ir.IRLoad(loc=loc, array=values, index=[above], dtype=f32)),
            ir.IRStore(
                loc=loc, array=values, index=[var(lane, i64, loc)], value=combined(reduce.op, first, second, loc)
            ),
        ]
        loops.append(counting(lane, const(width, i64, loc), body))
        width //= 2
    return loops
