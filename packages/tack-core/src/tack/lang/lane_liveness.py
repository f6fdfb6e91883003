"""Liveness over the tree of a workgroup: what a region reads of earlier code, and what later code reads of it."""

from __future__ import annotations

from tack.lang import ir
from tack.lang.records import record

Names = frozenset[str]
_NONE: Names = frozenset()


@record(frozen=True)
class _Targets:
    """What is live where the jumps of a loop go."""

    leave: Names = _NONE
    again: Names = _NONE


class LaneLiveness:
    """Backward liveness of scalars, with an entry for each region.

    Parameters
    ----------
    tree
        The body of an `IRWorkgroup`, typed.

    Attributes
    ----------
    regions
        Every region, in the order of the text.
    before
        What is live where the tree begins: what it reads of the code before the loop, or of nothing.
    """

    def __init__(self, tree: list[ir.IRStmt]) -> None:
        self._entering: dict[int, Names] = {}
        self._leaving: dict[int, Names] = {}
        self.regions: list[ir.IRRegion] = [node for node in ir.walk(tree) if isinstance(node, ir.IRRegion)]
        self.before: Names = self._block(tree, _NONE, _Targets())

    def entering(self, region: ir.IRRegion) -> Names:
        """What is live where the region begins."""
        return self._entering.get(id(region), _NONE)  # code after a jump is never looked at

    def leaving(self, region: ir.IRRegion) -> Names:
        """What is live where the region ends."""
        return self._leaving.get(id(region), _NONE)

    # --------------------------------------------------------------------------------------------------- statements

    def _block(self, body: list[ir.IRStmt], out: Names, to: _Targets) -> Names:
        for node in reversed(body):
            out = self._statement(node, out, to)
        return out

    def _statement(self, node: ir.IRStmt, out: Names, to: _Targets) -> Names:
        match node:
            case ir.IRRegion():
                self._leaving[id(node)] = out
                entering = self._entering[id(node)] = self._block(node.body, out, _Targets())
                return entering
            case ir.IRAssign():
                return self._expr(node.value, out - {node.name})
            case ir.IRUnpack():
                return self._expr(node.call, out - set(node.names))
            case ir.IRIf():
                arms = self._block(node.then, out, to) | self._block(node.other, out, to)
                return self._expr(node.cond, arms)
            case ir.IRWhile() | ir.IRFor():
                return self._loop(node, out)
            case ir.IRBreak():
                return to.leave
            case ir.IRContinue():
                return to.again
            case ir.IRAssert():
                return out
            case ir.IRStore():
                return self._exprs([node.value, *node.index], out)
        return self._exprs(list(ir.children(node)), out)

    def _loop(self, node: ir.IRWhile | ir.IRFor, out: Names) -> Names:
        """To the fixpoint; the head is where a `while` tests and where a `for` steps."""
        head, known = out, None
        while head != known:
            known = head
            inside = self._block(node.body, head, _Targets(out, head))
            head |= inside - {node.var} if isinstance(node, ir.IRFor) else self._expr(node.cond, inside | out)
        if isinstance(node, ir.IRFor):
            return self._exprs([node.start, node.stop, node.step], head)
        return head

    # -------------------------------------------------------------------------------------------------- expressions

    def _exprs(self, nodes: list[ir.IRExpr], out: Names) -> Names:
        for node in reversed(nodes):
            out = self._expr(node, out)
        return out

    def _expr(self, node: ir.IRExpr, out: Names) -> Names:
        match node:
            case ir.IRVar():
                return out | {node.name}
            case ir.IRBind():
                return self._expr(node.value, out - {node.name})
            case ir.IRSelect():
                return self._expr(node.cond, self._expr(node.then, out) | self._expr(node.other, out))
            case ir.IRBoolOp():
                before = self._expr(node.values[-1], out)
                for value in reversed(node.values[:-1]):
                    before = self._expr(value, out | before)
                return before
        return self._exprs(list(ir.children(node)), out)
