"""Backward liveness of scalar symbols in typed statements: which a later statement may still read."""

from __future__ import annotations

from tack.lang import ir
from tack.lang.inlining import IRInlined, IRLeave
from tack.lang.records import record

Names = frozenset[str]
_NONE: Names = frozenset()


@record(frozen=True)
class _Targets:
    """What is live where each kind of jump goes."""

    leave: Names = _NONE  # break
    again: Names = _NONE  # continue
    returned: Names = _NONE


class Liveness:
    """What is live in the body of a parallel loop, or in the tree of an `IRWorkgroup`.

    Attributes
    ----------
    after, head, other
        By identity of the node: what is live after a statement, at the head of a loop, in the other arm of an if, and
        where an inlined function's body ends (`after` of the IRInlined).
    before
        What is live where the body begins.
    regions
        Every region, in the order of the text.
    """

    def __init__(self, body: list[ir.IRStmt]) -> None:
        self.after: dict[int, Names] = {}
        self.head: dict[int, Names] = {}
        self.other: dict[int, Names] = {}
        self._entering: dict[int, Names] = {}
        self.regions: list[ir.IRRegion] = [node for node in ir.walk(body) if isinstance(node, ir.IRRegion)]
        self.before: Names = self._block(body, _NONE, _Targets())

    def entering(self, region: ir.IRRegion) -> Names:
        """What is live where a region begins."""
        return self._entering.get(id(region), _NONE)

    def leaving(self, region: ir.IRRegion) -> Names:
        """What is live where a region ends."""
        return self.after.get(id(region), _NONE)

    def _block(self, statements: list[ir.IRStmt], out: Names, to: _Targets) -> Names:
        for statement in reversed(statements):
            self.after[id(statement)] = out
            out = self._statement(statement, out, to)
        return out

    def _statement(self, node: ir.IRStmt, out: Names, to: _Targets) -> Names:
        match node:
            case ir.IRRegion():
                entering = self._entering[id(node)] = self._block(node.body, out, _Targets())
                return entering
            case ir.IRAssign():
                return self._expr(node.value, out - {node.name})
            case ir.IRUnpack():
                return self._expr(node.call, out - set(node.names))
            case ir.IRIf():
                other = self.other[id(node)] = self._block(node.other, out, to)
                return self._expr(node.cond, self._block(node.then, out, to) | other)
            case ir.IRWhile() | ir.IRFor():
                return self._loop(node, out, to)
            case ir.IRBreak():
                return to.leave
            case ir.IRContinue():
                return to.again
            case IRLeave():
                return self._exprs(node.values, to.returned - set(node.names))
            case ir.IRAssert():
                return out
            case ir.IRStore():  # the value comes first, whatever the order of the fields
                return self._exprs([node.value, *node.index], out)
        return self._exprs(list(ir.children(node)), out)

    def _loop(self, node: ir.IRWhile | ir.IRFor, out: Names, to: _Targets) -> Names:
        """To the fixpoint; the head is where a while tests and where a for steps."""
        head = out
        while True:
            inside = self._block(node.body, head, _Targets(out, head, to.returned))
            if isinstance(node, ir.IRFor):
                new = head | (inside - {node.var})
            else:
                new = head | self._expr(node.cond, inside | out)
            if new == head:
                break
            head = new
        self.head[id(node)] = head
        if isinstance(node, ir.IRFor):
            return self._exprs([node.start, node.stop, node.step], head)
        return head

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
            case IRInlined():
                ends = self.after[id(node)] = out | set(node.results)
                inside = self._block(node.body, ends, _Targets(returned=ends))
                return self._exprs(node.args, inside - set(node.names))
        return self._exprs(list(ir.children(node)), out)
