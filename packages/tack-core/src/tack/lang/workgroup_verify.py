"""What is legal in the tree of an `IRWorkgroup`, as assertions: a failure is a bug in the compiler."""

from __future__ import annotations

from typing import Any

from tack.lang import ir
from tack.lang.ir_building import assigned, reads
from tack.lang.ir_verify_types import require

_PER_LANE = (ir.IRThreadId, ir.IRAtomic)


def verify_workgroups(kernel: ir.IRKernel) -> None:
    """Check every `IRWorkgroup` of a kernel, as `split_workgroups` makes them.

    Raises
    ------
    AssertionError
        Naming the node and its place.
    """
    for statement in kernel.body:
        if isinstance(statement, ir.IRWorkgroup):
            require(len(statement.vars) == len(statement.ranges), statement, "one variable a range")
            require(all(a.space == "shared" for a in statement.shared), statement, "shared arrays only")
            _Tree(kernel, statement).block(statement.body, loops=0)


class _Tree:
    def __init__(self, kernel: ir.IRKernel, node: ir.IRWorkgroup) -> None:
        regions = [n for n in ir.walk(node.body) if isinstance(n, ir.IRRegion)]
        self.kernel = kernel
        self.private = set(node.vars).union(*(assigned(region.body) for region in regions))

    def block(self, body: list[ir.IRStmt], loops: int) -> None:
        for node in body:
            self.statement(node, loops)

    def statement(self, node: Any, loops: int) -> None:
        match node:
            case ir.IRRegion():
                for inner in ir.walk(node.body):
                    collective = isinstance(inner, (ir.IRBarrier, ir.IRBlockReduce, ir.IRRegion))
                    require(not collective, inner, "a collective or a region inside a region")
            case ir.IRBarrier():
                pass
            case ir.IRAssign(value=ir.IRBlockReduce(value=operand)):
                require(isinstance(operand, ir.IRVar), node, "the operand of a block reduction is no local")
            case ir.IRAssign() | ir.IRUnpack():
                self.uniform([node])
            case ir.IRIf():
                self.uniform([node.cond])
                self.block(node.then, loops)
                self.block(node.other, loops)
            case ir.IRWhile() | ir.IRFor():
                self.uniform([node.cond] if isinstance(node, ir.IRWhile) else [node.start, node.stop, node.step])
                self.block(node.body, loops + 1)
            case ir.IRBreak() | ir.IRContinue():
                require(loops > 0, node, "a jump out of a workgroup")
            case _:
                require(False, node, "not allowed outside the regions")

    def uniform(self, nodes: list[Any]) -> None:
        """What all lanes evaluate reads nothing that regions assign, and nothing that differs from lane to lane."""
        for node in nodes:
            require(self.private.isdisjoint(reads(node)), node, f"reads {sorted(self.private & reads(node))}")
            for inner in ir.walk(node):
                require(not isinstance(inner, _PER_LANE), inner, "differs from lane to lane")
                if isinstance(inner, ir.IRLoad):
                    array = self.kernel.symbols[inner.array].array_type
                    require(array is not None and array.space == "constant", inner, "loads from memory")
