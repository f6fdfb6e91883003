"""`continue` written as structure, where what it skips has collectives.

``if c: continue`` followed by the rest becomes ``if c: pass`` with the rest in its `else`; where that cannot be, a flag
says whether the rest still runs. So control flow around collectives is a tree, and reasons about it see the condition.
Their loops then count by variables that nothing else assigns.
"""

from __future__ import annotations

from collections.abc import Callable

from tack.lang import ir
from tack.lang.intervals import assigned_by
from tack.lang.ir_building import Symbols, assign, const, var
from tack.lang.records import replace
from tack.lang.types import i32, i64


def without_continue(
    body: list[ir.IRStmt], has_collectives: Callable[[object], bool], symbols: Symbols
) -> list[ir.IRStmt]:
    """The body of a parallel loop, with no `continue` of its own and none in loops that have collectives in them.

    The statements are used up: they are part of the result.
    """
    return _Jumps(has_collectives, symbols).block(body, None)


def with_own_counters(
    body: list[ir.IRStmt], has_collectives: Callable[[object], bool], symbols: Symbols
) -> list[ir.IRStmt]:
    """The body, in which loops with collectives count by variables of their own where the user's has other assignments:
    that one is then a local like any, which each lane may keep a value of."""
    others = {name for node in ir.walk(body) if not isinstance(node, ir.IRFor) for name in assigned_by(node)}

    def block(nodes: list[ir.IRStmt]) -> list[ir.IRStmt]:
        return [renewed(node) if has_collectives(node) else node for node in nodes]

    def renewed(node: ir.IRStmt) -> ir.IRStmt:
        # Collectives stay the nodes that they are: what refuses one looks up how it was reached.
        match node:
            case ir.IRFor(loc=loc) if node.var in others:
                counter = symbols.add(f"{node.var}.count", "loop", loc, i64)
                own = assign(node.var, var(counter, i64, loc))
                return ir.IRFor(
                    loc=loc,
                    var=counter,
                    start=node.start,
                    stop=node.stop,
                    step=node.step,
                    body=[own, *block(node.body)],
                )
            case ir.IRFor() | ir.IRWhile():
                return replace(node, body=block(node.body))
            case ir.IRIf():
                return replace(node, then=block(node.then), other=block(node.other))
        return node

    return block(body)


class _Jumps:
    def __init__(self, has_collectives: Callable[[object], bool], symbols: Symbols) -> None:
        self.has_collectives, self.symbols = has_collectives, symbols

    def block(self, body: list[ir.IRStmt], flag: str | None) -> list[ir.IRStmt]:
        """Statements of a loop's body; `flag`, if there is one, is set to 0 where one of them continues."""
        done: list[ir.IRStmt] = []
        for position, node in enumerate(body):
            if isinstance(node, ir.IRContinue):
                if flag is not None:
                    done.append(assign(flag, const(0, i32, node.loc)))
                return done
            if isinstance(node, ir.IRIf) and _continues([node]):
                return done + self._conditional(node, body[position + 1 :], flag)
            if isinstance(node, ir.IRIf):
                node.then, node.other = self.block(node.then, flag), self.block(node.other, flag)
            elif isinstance(node, (ir.IRWhile, ir.IRFor)) and self.has_collectives(node.body):
                node.body = self.block(node.body, None)
            done.append(node)
        return done

    def _conditional(self, node: ir.IRIf, rest: list[ir.IRStmt], flag: str | None) -> list[ir.IRStmt]:
        """An `if` that may continue, and what follows it."""
        if _ends(node.then) and not _continues(node.other):
            node.then, node.other = self.block(node.then, flag), self.block(node.other + rest, flag)
            return [node]
        if _ends(node.other) and not _continues(node.then):
            node.then, node.other = self.block(node.then + rest, flag), self.block(node.other, flag)
            return [node]
        if not rest:
            node.then, node.other = self.block(node.then, flag), self.block(node.other, flag)
            return [node]
        before: list[ir.IRStmt] = []
        jump = next(n for n in ir.walk(node) if isinstance(n, ir.IRContinue))
        if flag is None:
            flag = self.symbols.temporary(node.loc, i32, "%goes")
            before.append(assign(flag, const(1, i32, node.loc)))
        node.then, node.other = self.block(node.then, flag), self.block(node.other, flag)
        cond = var(flag, i32, jump.loc)
        return [*before, node, ir.IRIf(loc=jump.loc, cond=cond, then=self.block(rest, flag), other=[])]


def _continues(body: list[ir.IRStmt]) -> bool:
    """Whether some of these statements may continue the loop around them."""
    for node in body:
        if isinstance(node, ir.IRContinue):
            return True
        if isinstance(node, ir.IRIf) and (_continues(node.then) or _continues(node.other)):
            return True
    return False


def _ends(body: list[ir.IRStmt]) -> bool:
    """Whether a block ends in `continue`, and nothing else in it continues."""
    return bool(body) and isinstance(body[-1], ir.IRContinue) and not _continues(body[:-1])
