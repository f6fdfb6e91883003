"""Between which integers a value is, where little is needed to know it: sums and products of small numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from tack.lang import ir
from tack.lang.inlining import IRInlined, IRLeave
from tack.lang.types import DType

Interval = tuple[int, int]


class Intervals:
    """Of the values in some statements.

    Parameters
    ----------
    body
        Typed.
    below
        Symbols that are from zero to below a number wherever they are read.
    entering
        Symbols that may be read before the statements assign them.
    """

    def __init__(self, body: list[ir.IRStmt], below: Mapping[str, int], entering: Collection[str]) -> None:
        self._known: dict[str, Interval | None] = {name: (0, stop - 1) for name, stop in below.items()}
        count = Counter(name for node in ir.walk(body) for name in assigned_by(node))
        self._values = {
            node.name: node.value
            for node in ir.walk(body)
            if isinstance(node, ir.IRAssign) and count[node.name] == 1 and node.name not in entering
        }

    def of(self, node: ir.IRExpr) -> Interval | None:
        """The least and the greatest that the value may be, for certain without wrapping; None if that is unknown."""
        if not isinstance(node.dtype, DType) or not node.dtype.is_integer:
            return None
        found = self._of(node)
        return found if found is not None and node.dtype.min <= found[0] <= found[1] <= node.dtype.max else None

    def _of(self, node: ir.IRExpr) -> Interval | None:
        match node:
            case ir.IRConst():
                return int(node.value), int(node.value)
            case ir.IRVar():
                return self._of_name(node.name)
            case ir.IRCast():
                return self.of(node.operand)
            case ir.IRBinOp(op="+" | "-" | "*"):
                left, right = self.of(node.left), self.of(node.right)
                return _combined(node.op, left, right) if left and right else None
        return None

    def _of_name(self, name: str) -> Interval | None:
        if name not in self._known:
            self._known[name] = None  # while it is looked for: a sum of itself has no bounds
            if name in self._values:
                self._known[name] = self.of(self._values[name])
        return self._known[name]


def assigned_by(node: ir.IRNode) -> Collection[str]:
    """The scalar symbols that a node itself assigns, apart from the nodes inside."""
    match node:
        case ir.IRAssign(name=name) | ir.IRBind(name=name) | ir.IRFor(var=name):
            return (name,)
        case ir.IRUnpack() | IRInlined() | IRLeave():
            return node.names
    return ()


def _combined(op: str, left: Interval, right: Interval) -> Interval:
    ends = [a + b if op == "+" else a - b if op == "-" else a * b for a in left for b in right]
    return min(ends), max(ends)
