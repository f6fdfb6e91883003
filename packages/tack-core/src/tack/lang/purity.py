"""Small questions about typed expressions, and copies of them, for passes that rewrite IR."""

from __future__ import annotations

from typing import Any, TypeVar

from tack.lang.ir import (
    IRArrayAttr,
    IRAtomic,
    IRBind,
    IRBinOp,
    IRBlockReduce,
    IRCall,
    IRCast,
    IRConst,
    IRExpr,
    IRLoad,
    IRNode,
    IRPrint,
    IRStmt,
    IRStore,
    IRVar,
    walk,
)
from tack.lang.records import field_names, replace

Node = TypeVar("Node", bound=IRNode)
_MOST_REPEATED = 8  # nodes of an index that is written out again rather than kept in a temporary


def fresh(node: Node) -> Node:
    """A copy of an expression, for a second place: nodes are never shared."""
    changes = {name: _copied(getattr(node, name)) for name in field_names(node)}
    return replace(node, **changes)


def _copied(value: Any) -> Any:
    if isinstance(value, IRNode):
        return fresh(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value


def is_impure(expr: IRExpr) -> bool:
    """Whether an expression must run once, where it stands: it may have an effect, or it sets a temporary."""
    return any(isinstance(node, (IRCall, IRAtomic, IRBind, IRBlockReduce)) for node in walk(expr))


def reads_memory(expr: IRExpr) -> bool:
    """Whether a store could change the value of an expression."""
    return any(isinstance(node, IRLoad) for node in walk(expr))


def has_effect(statements: list[IRStmt]) -> bool:
    """Whether statements may change what a load gives."""
    kinds = (IRCall, IRAtomic, IRStore, IRPrint, IRBlockReduce)
    return any(isinstance(node, kinds) for node in walk(list(statements)))


def is_cheap(expr: IRExpr) -> bool:
    """Whether an expression costs nothing to repeat: a constant, or a read of a symbol."""
    return isinstance(expr, (IRConst, IRVar)) or (isinstance(expr, IRCast) and isinstance(expr.operand, IRConst))


def is_plain_index(expr: IRExpr) -> bool:
    """Whether an index is short arithmetic on symbols, which is better repeated: generators see how it runs."""
    nodes = list(walk(expr))
    plain = (IRConst, IRVar, IRCast, IRArrayAttr)
    return len(nodes) <= _MOST_REPEATED and all(
        isinstance(node, plain) or (isinstance(node, IRBinOp) and node.op in "+-*") for node in nodes
    )
