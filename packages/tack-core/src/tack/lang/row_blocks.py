"""Several iterations of a parallel loop in step: one copy of each statement an iteration (a *row*), inside of serial
loops that they share. What the rows load alike is then loaded once, and their sums do not wait for each other.

Every scalar that the body assigns is split, one symbol a row; each row's statements keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable

from tack.lang import ir
from tack.lang.ir_building import renamed, var
from tack.lang.shapes import UNIFORM, Shapes, assigned, jumps
from tack.lang.types import i64


def row_name(name: str, row: int) -> str:
    """A split scalar of one row."""
    return f"{name}%{row}"


def shared_statements(body: list[ir.IRStmt], inner: Iterable[ir.IRFor], shapes: Shapes) -> frozenset[int] | None:
    """By identity: the loops and `if`s that rows must share, to be in step in the loops `inner`; None if they cannot.

    What jumps out of a shared statement is shared too, since its rows go together.
    """
    wanted, shared = {id(node) for node in inner}, set()

    def open_(statements: list[ir.IRStmt]) -> bool:
        for node in statements:
            if not any(id(part) in wanted for part in ir.walk(node)) and not any(jumps([node])):
                continue
            shared.add(id(node))
            match node:
                case ir.IRFor():  # the bounds may move with the rows and give each as many iterations
                    alike = all(shapes.of(bound) == UNIFORM for bound in (node.start, node.stop, node.step))
                    apart = not alike or shapes.is_divergent(node) or not open_(node.body)
                case ir.IRWhile():
                    apart = shapes.is_divergent(node) or not open_(node.body)
                case ir.IRIf():
                    apart = shapes.is_divergent(node) or not (open_(node.then) and open_(node.other))
                case _:
                    apart = not isinstance(node, ir.IRBreak | ir.IRContinue)
            if apart:
                return False
        return True

    return frozenset(shared) if open_(body) else None


def in_step(body: list[ir.IRStmt], index: str, rows: int, shared: frozenset[int]) -> list[ir.IRStmt]:
    """The body for `rows` iterations; `index` is the loop variable that tells them apart."""
    split = assigned(body) | {index}
    names = [{name: row_name(name, row) for name in split} for row in range(rows)]

    def block(statements: list[ir.IRStmt]) -> list[ir.IRStmt]:
        return [copy for node in statements for copy in copies(node)]

    def copies(node: ir.IRStmt) -> list[ir.IRStmt]:
        if id(node) not in shared:
            return [renamed(node, names[row]) for row in range(rows)]
        first = names[0]
        match node:
            case ir.IRFor():
                start, stop, step = (renamed(bound, first) for bound in (node.start, node.stop, node.step))
                counter = first[node.var]
                steps: list[ir.IRStmt] = [
                    ir.IRAssign(loc=node.loc, name=own[node.var], value=var(counter, i64, node.loc), _resolved_type=i64)
                    for own in names[1:]
                ]
                inside = steps + block(node.body)
                return [ir.IRFor(loc=node.loc, var=counter, start=start, stop=stop, step=step, body=inside)]
            case ir.IRWhile():
                return [ir.IRWhile(loc=node.loc, cond=renamed(node.cond, first), body=block(node.body))]
            case ir.IRIf():
                arms = block(node.then), block(node.other)
                return [ir.IRIf(loc=node.loc, cond=renamed(node.cond, first), then=arms[0], other=arms[1])]
        return [renamed(node, first)]

    return block(body)
