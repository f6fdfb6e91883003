"""Copies of typed IR with parts replaced, and the few constructors that the workgroup passes need.

Trees never share nodes, so a pass that moves code copies it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from tack.lang import ir
from tack.lang.diagnostics import Loc
from tack.lang.types import DType, i32, i64

Replace = Callable[[Any], Any]
"""Given a node: what stands for it, already a fresh tree, or None to copy the node and look inside."""


def rebuild(value: Any, replace: Replace) -> Any:
    """A deep copy of a node, or of a list of nodes, in which `replace` has the first word on each node."""
    if isinstance(value, list):
        return [rebuild(item, replace) for item in value]
    if not isinstance(value, (ir.IRNode, ir.IRRange)):
        return value
    done = replace(value)
    return _inside(copy.copy(value), replace) if done is None else done


def _inside(twin: Any, replace: Replace) -> Any:
    """`twin`, itself a fresh node, with its parts rebuilt."""
    cls: Any = type(twin)  # mypy finds no hash on a dataclass without eq
    for name in ir.child_fields(cls):
        setattr(twin, name, rebuild(getattr(twin, name), replace))
    return twin


def clone(value: Any) -> Any:
    """A deep copy of a node or of a list of nodes."""
    return rebuild(value, lambda node: None)


_NAMES = ("name", "var", "array")  # fields that hold the name of a symbol


def renamed(value: Any, names: dict[str, str]) -> Any:
    """A deep copy with symbols renamed."""

    def replace(node: Any) -> Any:
        fields_ = () if isinstance(node, ir.IRBuiltin) else _NAMES
        found: dict[str, Any] = {f: names[getattr(node, f)] for f in fields_ if getattr(node, f, None) in names}
        if isinstance(node, ir.IRUnpack):
            found["names"] = [names.get(n, n) for n in node.names]
        if not found:
            return None
        twin: Any = copy.copy(node)
        for field, new in found.items():
            setattr(twin, field, new)
        return _inside(twin, replace)

    return rebuild(value, replace)


def assigned(body: Iterable[ir.IRStmt]) -> set[str]:
    """The scalar symbols that running these statements may assign."""
    names: set[str] = set()
    for node in ir.walk(list(body)):
        match node:
            case ir.IRAssign(name=name) | ir.IRBind(name=name) | ir.IRFor(var=name):
                names.add(name)
            case ir.IRUnpack():
                names.update(node.names)
    return names


def reads(nodes: Any) -> set[str]:
    """The scalar symbols that a node, or a list of them, mentions as values."""
    return {node.name for node in ir.walk(nodes) if isinstance(node, ir.IRVar)}


def is_block_reduce(node: Any) -> bool:
    """Whether a statement is a block reduction, as `workgroup_calls` leaves them."""
    return isinstance(node, ir.IRAssign) and isinstance(node.value, ir.IRBlockReduce)


# ------------------------------------------------------------------------------------------------------- constructors


def const(value: int | float, dtype: DType, loc: Loc) -> ir.IRConst:
    """A typed number."""
    return ir.IRConst(loc=loc, value=value, dtype=dtype)


def var(name: str, dtype: DType, loc: Loc) -> ir.IRVar:
    """A read of a scalar."""
    return ir.IRVar(loc=loc, name=name, dtype=dtype)


def cast(operand: ir.IRExpr, dtype: DType) -> ir.IRExpr:
    """The value at another type; itself if it has that type."""
    if operand.dtype is dtype:
        return operand
    return ir.IRCast(loc=operand.loc, target=dtype, operand=operand, dtype=dtype)


def binary(op: str, left: ir.IRExpr, right: ir.IRExpr) -> ir.IRBinOp:
    """An operation on operands of one type."""
    return ir.IRBinOp(loc=left.loc, op=op, left=left, right=right, dtype=left.dtype)


def compare(op: str, left: ir.IRExpr, right: ir.IRExpr) -> ir.IRCompare:
    """A comparison of operands of one type."""
    operand_type = left.dtype
    assert isinstance(operand_type, DType)
    return ir.IRCompare(loc=left.loc, op=op, left=left, right=right, dtype=i32, _operand_type=operand_type)


def builtin(name: str, *args: ir.IRExpr) -> ir.IRBuiltin:
    """A builtin whose result has the type of its arguments."""
    dtype = args[0].dtype
    assert isinstance(dtype, DType)
    return ir.IRBuiltin(loc=args[0].loc, name=name, args=list(args), dtype=dtype, _operand_type=dtype)


def assign(name: str, value: ir.IRExpr) -> ir.IRAssign:
    """An assignment of a typed value."""
    return ir.IRAssign(loc=value.loc, name=name, value=value, _resolved_type=value.dtype)


def counting(variable: str, stop: ir.IRExpr, body: list[ir.IRStmt]) -> ir.IRFor:
    """``for variable in range(stop)``."""
    loc = stop.loc
    return ir.IRFor(loc=loc, var=variable, start=const(0, i64, loc), stop=stop, step=const(1, i64, loc), body=body)


class Symbols:
    """The symbols of a function that a pass adds to."""

    def __init__(self, known: dict[str, ir.Symbol]) -> None:
        self.table = dict(known)

    def add(self, wanted: str, kind: str, loc: Loc, type_: Any) -> str:
        """A new symbol, named `wanted` or ``wanted.2`` and so on; `type_` is a DType or an ArrayType."""
        name, count = wanted, 1
        while name in self.table:
            count += 1
            name = f"{wanted}.{count}"
        scalar = isinstance(type_, DType)
        types = {"dtype": type_} if scalar else {"array_type": type_}
        self.table[name] = ir.Symbol(name=name, kind=kind, source_name=wanted, loc=loc, **types)
        return name

    def temporary(self, loc: Loc, dtype: DType, wanted: str = "%w") -> str:
        """A new scalar of the compiler's own."""
        return self.add(wanted, "temp", loc, dtype)
