"""Loops over lanes as nests, where the code asks for the position of a lane in a tile.

``thread_id() // 16`` and ``thread_id() % 16`` give workgroups two dimensions. As a loop over 256 lanes they
hide from a compiler that neighbouring lanes touch neighbouring elements; as a nest of 16 by 16 they are its variables.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tack.lang import ir
from tack.lang.ir_building import Symbols, cast, rebuild, var
from tack.lang.records import record
from tack.lang.types import i64

_NARROWEST = 8  # narrower rows than this are worse for a vector unit than the division


@record(frozen=True)
class Nest:
    """Lane = `high` * width + `low`; the body has these for the quotient and the remainder of the lane's number."""

    high: str
    low: str
    width: int
    body: list[ir.IRStmt]


def tiled(body: list[ir.IRStmt], group: int, symbols: Symbols) -> Nest | None:
    """A region's body for a nest of two loops, or None where one loop will do."""
    lanes = _lane_names(body)
    found = Counter(w for n in ir.walk(body) if (w := _width(n, lanes)) is not None and _NARROWEST <= w < group)
    if not found:
        return None
    width = found.most_common(1)[0][0]
    loc = body[0].loc
    high, low = symbols.add("%high", "loop", loc, i64), symbols.add("%low", "loop", loc, i64)

    def replaced(node: Any) -> ir.IRExpr | None:
        if _width(node, lanes) != width:
            return None
        return cast(var(high if node.op in ("//", ">>") else low, i64, node.loc), node.dtype)

    return Nest(high, low, width, rebuild(body, replaced))


def _lane_names(body: list[ir.IRStmt]) -> set[str]:
    """Locals that hold the lane's number."""
    assigned = Counter(n.name for n in ir.walk(body) if isinstance(n, (ir.IRAssign, ir.IRBind)))
    names: set[str] = set()
    for node in ir.walk(body):
        if isinstance(node, ir.IRAssign) and assigned[node.name] == 1 and _is_lane(node.value, names):
            names.add(node.name)
    return names


def _is_lane(node: ir.IRExpr, names: set[str]) -> bool:
    match node:
        case ir.IRThreadId():
            return True
        case ir.IRVar():
            return node.name in names
        case ir.IRCast():
            return node.target.is_integer and node.target.bits >= 32 and _is_lane(node.operand, names)
    return False


def _width(node: Any, names: set[str]) -> int | None:
    """The width of the tile, if the node is the row or the column of a lane in one."""
    if not isinstance(node, ir.IRBinOp) or not isinstance(node.right, ir.IRConst) or not _is_lane(node.left, names):
        return None
    number = node.right.value
    if not isinstance(number, int) or not 0 < number < 1 << 20:
        return None
    width = {"//": number, "%": number, ">>": 1 << min(number, 30), "&": number + 1}.get(node.op, 0)
    return width if width & (width - 1) == 0 and width > 1 else None
