"""How much work an iteration is, roughly: decides whether a loop is worth sharing, and never what it computes.

One unit is about a quarter of a nanosecond of straight-line code on a current core.
"""

from __future__ import annotations

from typing import Final

from tack.lang import ir
from tack.lang.types import DType

UNKNOWN_TRIPS: Final = 64
_BUILTIN: Final = 2
_LIBRARY_CALL: Final = 30
_DIVISION: Final = 20
_ATOMIC: Final = 20
_PRINT: Final = 4000
_CHEAP_BUILTINS: Final = frozenset("sqrt floor ceil trunc round fabs abs copysign fma min max".split())
_CHEAP_BUILTINS_OF_BITS: Final = frozenset("isnan isinf isfinite popcount clz ctz".split())
MOST: Final = 1 << 40


def work(nodes: list[ir.IRStmt], functions: dict[str, ir.IRFunction]) -> int:
    """The estimated work of running these statements once."""
    known: dict[str, int] = {}
    for symbol, function in functions.items():  # callees come before callers
        known[symbol] = _statements(function.body, known)
    return _statements(nodes, known)


def _statements(nodes: list[ir.IRStmt], functions: dict[str, int]) -> int:
    return min(MOST, 1 + sum(_node(node, functions) for node in nodes))


def _node(node: ir.IRNode, functions: dict[str, int]) -> int:
    inside = 0
    for child in ir.children(node):
        inside += _node(child, functions)
    match node:
        case ir.IRFor():
            return min(MOST, (inside + 4) * trips(node))
        case ir.IRWhile():
            return min(MOST, (inside + 4) * UNKNOWN_TRIPS)
        case ir.IRCall():
            return min(MOST, inside + functions.get(node.symbol or "", 0) + 4)
    return min(MOST, inside + _operation(node))


def trips(node: ir.IRFor) -> int:
    """How many iterations a serial loop has, if its bounds are literals; else a guess."""
    start, stop, step = node.start, node.stop, node.step
    if isinstance(start, ir.IRConst) and isinstance(stop, ir.IRConst) and isinstance(step, ir.IRConst):
        return max(1, int(stop.value - start.value) // max(1, int(step.value)))
    return UNKNOWN_TRIPS


def has_unknown_trips(loop: ir.IRParallelFor, kernel: ir.IRKernel) -> bool:
    """Whether the length of a serial loop in it is known neither here nor, by `lengths`, at the launch; those of the
    kernel's functions never are."""
    inner = _open_loops(loop.body)
    called = any(_open_loops(function.body) for function in kernel.functions.values())
    return called or len(inner) > len(lengths(loop, kernel)) or any(isinstance(n, ir.IRWhile) for n in inner)


def _open_loops(body: list[ir.IRStmt]) -> list[ir.IRFor | ir.IRWhile]:
    """The serial loops without literal bounds."""
    loops = [node for node in ir.walk(body) if isinstance(node, ir.IRFor | ir.IRWhile)]
    return [node for node in loops if isinstance(node, ir.IRWhile) or not _has_literal_bounds(node)]


def _has_literal_bounds(node: ir.IRFor) -> bool:
    return all(isinstance(bound, ir.IRConst) for bound in (node.start, node.stop, node.step))


def lengths(loop: ir.IRParallelFor, kernel: ir.IRKernel) -> list[ir.IRExpr]:
    """What the serial loops inside run to where a launch knows it, nearly: integer parameters and extents of arrays."""
    numbers = {p.name for p in kernel.params if isinstance(p.type, DType) and p.type.is_integer}
    locals_ = {s.name: s.value for s in kernel.body if isinstance(s, ir.IRAssign)}
    stops = [n.stop for n in ir.walk(loop.body) if isinstance(n, ir.IRFor)]
    return [known for stop in stops if (known := _known(stop, numbers, locals_)) is not None]


def _known(node: ir.IRExpr, numbers: set[str], locals_: dict[str, ir.IRExpr]) -> ir.IRExpr | None:
    match node:
        case ir.IRCast():
            return _known(node.operand, numbers, locals_)
        case ir.IRBinOp(op="+" | "-", right=ir.IRConst() | ir.IRCast(operand=ir.IRConst())):
            return _known(node.left, numbers, locals_)
        case ir.IRVar(name=name) if name in locals_:
            return _known(locals_[name], numbers, {k: v for k, v in locals_.items() if k != name})
        case ir.IRVar(name=name) if name in numbers:
            return node
        case ir.IRArrayAttr(attr="shape" | "size"):
            return node
    return None


def _operation(node: ir.IRNode) -> int:
    match node:
        case ir.IRBinOp(op=op):
            if op == "**" or (op in ("//", "%") and node.dtype is not None and node.dtype.is_float):
                return _LIBRARY_CALL
            return _DIVISION if op in ("/", "//", "%") else 1
        case ir.IRBuiltin(name=name):
            return _BUILTIN if name in _CHEAP_BUILTINS or name in _CHEAP_BUILTINS_OF_BITS else _LIBRARY_CALL
        case ir.IRAtomic():
            return _ATOMIC
        case ir.IRPrint():
            return _PRINT
        case ir.IRConst() | ir.IRVar() | ir.IRCast():
            return 0
    return 1
