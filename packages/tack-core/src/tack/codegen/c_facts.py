"""What a generator of C must know of an expression before it writes it: C leaves the order of operands open.

An expression with an effect is written as a statement of its own, into a temporary; what stands before it and reads
memory then needs a temporary too. Deep nests are cut the same way, since C compilers limit the depth of brackets.
"""

from __future__ import annotations

from tack.lang import ir

DEEPEST = 48
"""Levels of an expression in one C expression. A level writes up to four brackets, and clang reads 256."""


class ExpressionFacts:
    """Facts of the expressions of one kernel, each found once; nodes live as long as their kernel."""

    def __init__(self, kernel: ir.IRKernel) -> None:
        self._depth: dict[int, int] = {}
        self._effect: dict[int, bool] = {}
        self._reads: dict[int, bool] = {}
        self._effectful: set[str] = set()
        for symbol, function in kernel.functions.items():  # callees before callers
            if self._changes(function):
                self._effectful.add(symbol)

    def _changes(self, function: ir.IRFunction) -> bool:
        """Whether a call may change anything that its caller sees."""
        arrays = {param.name for param in function.params}
        for node in ir.walk(function.body):
            match node:
                case ir.IRStore() if node.array in arrays:
                    return True
                case ir.IRAtomic() | ir.IRPrint():
                    return True
                case ir.IRCall() if node.symbol in self._effectful:
                    return True
        return False

    def has_effect(self, node: ir.IRExpr) -> bool:
        """Whether evaluating it changes memory."""
        known = self._effect.get(id(node))
        if known is None:
            known = isinstance(node, ir.IRAtomic) or (isinstance(node, ir.IRCall) and node.symbol in self._effectful)
            known = known or any(map(self.has_effect, ir.children(node)))
            self._effect[id(node)] = known
        return known

    def reads(self, node: ir.IRExpr) -> bool:
        """Whether its value may differ after an effect, or others wait for the temporary that it binds."""
        known = self._reads.get(id(node))
        if known is None:
            known = isinstance(node, (ir.IRLoad, ir.IRCall, ir.IRBind)) or any(map(self.reads, ir.children(node)))
            self._reads[id(node)] = known
        return known

    def depth(self, node: ir.IRExpr) -> int:
        known = self._depth.get(id(node))
        if known is None:
            known = 1 + max(map(self.depth, ir.children(node)), default=0)
            self._depth[id(node)] = known
        return known

    def needs_statements(self, node: ir.IRExpr) -> bool:
        """Whether writing the expression writes statements before it."""
        return self.depth(node) >= DEEPEST or self.has_effect(node)
