"""Nodes of vectors and matrices. `scalarise` replaces them, so that no generator and no device ever sees one.

Until then an expression may have a `VecType` as its `dtype`, and so may locals, parameters and results; an operand
beside a vector may be a scalar of the vector's number type, which counts for every component.
"""

from __future__ import annotations

from tack.lang.ir import IRExpr, IRFunction, IRStmt, IRStore, walk
from tack.lang.records import record
from tack.lang.types import VecType


@record(eq=False, kw_only=True)
class IRVector(IRExpr):
    """`[x, y, z]`, or `tack.vec3(x, y, z)` with its `target`. Items are numbers, rows of a matrix, or, typed, one
    number that fills a vector. Typed: all numbers have the number type of `dtype`."""

    items: list[IRExpr]
    target: VecType | None = None


@record(eq=False, kw_only=True)
class IRComponent(IRExpr):
    """`base.x`, `base[k]` or `base[i, j]`. Typed: the indices are i64, and in range where constant."""

    base: IRExpr
    index: list[IRExpr]


@record(eq=False, kw_only=True)
class IRVectorOp(IRExpr):
    """An operation of `vector_algebra` on whole vectors: "dot", "matmul", "any", "select", ... Typed: numbers of the
    arguments have `_operand_type`, but for the condition of "select"."""

    name: str
    args: list[IRExpr]


@record(eq=False, kw_only=True)
class IRComponentAssign(IRStmt):
    """`name.x = value` of a local or a parameter; the value is evaluated before a run-time index."""

    name: str
    index: list[IRExpr]
    value: IRExpr


@record(eq=False, kw_only=True)
class IRComponentStore(IRStore):
    """`array[index].x = value`: only that component is touched in memory."""

    component: list[IRExpr]


def has_vectors(function: IRFunction) -> bool:
    """Whether a typed function has values that are no numbers, or arrays of such."""
    if any(
        isinstance(symbol.dtype, VecType) or (symbol.array_type is not None and symbol.array_type.components)
        for symbol in function.symbols.values()
    ):
        return True
    return any(
        isinstance(node, IRVectorOp) or isinstance(getattr(node, "dtype", None), VecType)
        for node in walk(function.body)
    )
