"""Device functions written into their callers, as trees: for analyses and generators that look at whole loop bodies.

`inline_calls` copies statements and replaces every `IRCall` by an `IRInlined`, whose names are unique in the result.
The original trees are left as they are.
"""

from __future__ import annotations

import copy
from typing import Any

from tack.lang import ir
from tack.lang.records import field, field_names, record
from tack.lang.types import DType


@record(eq=False, kw_only=True)
class IRInlined(ir.IRCall):
    """A call with its function's body in place: `args` are assigned to `names`, then `body` runs until an `IRLeave`.
    Its value is `results[0]`; it has several or none only in IRUnpack and IRExprStmt."""

    body: list[ir.IRStmt]
    names: list[str]
    results: list[str]


@record(eq=False, kw_only=True)
class IRLeave(ir.IRStmt):
    """A `return` of an inlined function: `values` go to `names`, and the function's body is left."""

    values: list[ir.IRExpr]
    names: list[str]


class TooLarge(Exception):
    """Inlining would write more nodes than the caller allows."""


@record
class InlinedBody:
    """Statements without calls. `types` has the scalars that inlining added, `tables` the tables under new names."""

    body: list[ir.IRStmt]
    types: dict[str, DType] = field(default_factory=dict)
    tables: dict[str, tuple[ir.IRFunction, ir.IRTable]] = field(default_factory=dict)


def inline_calls(body: list[ir.IRStmt], functions: dict[str, ir.IRFunction], most: int) -> InlinedBody:
    """A copy of `body` with every device function inlined.

    Parameters
    ----------
    body
        Typed statements of a kernel.
    functions
        The kernel's instances.
    most
        How many nodes the copy may have.

    Raises
    ------
    TooLarge
        If it would have more.
    """
    inliner = _Inliner(functions, most)
    inliner.result.body = inliner.copy(body, {}, ())
    return inliner.result


_NAMES = ("name", "var", "array")  # fields that hold the name of a symbol


class _Inliner:
    def __init__(self, functions: dict[str, ir.IRFunction], most: int) -> None:
        self.functions, self.left, self.calls = functions, most, 0
        self.result = InlinedBody([])

    def copy(self, value: Any, renamed: dict[str, str], results: tuple[str, ...]) -> Any:
        """A deep copy of nodes; `renamed` has the symbols of the function being inlined, `results` its results."""
        if isinstance(value, list):
            return [self.copy(item, renamed, results) for item in value]
        if not isinstance(value, (ir.IRNode, ir.IRRange)):
            return value
        self.left -= 1
        if self.left < 0:
            raise TooLarge
        if isinstance(value, ir.IRCall):
            return self._call(value, renamed, results)
        if isinstance(value, ir.IRReturn):
            values = self.copy(value.values, renamed, results)
            return IRLeave(loc=value.loc, values=values, names=list(results))
        twin = copy.copy(value)
        for name in field_names(value):
            held = getattr(value, name)
            if name in _NAMES and isinstance(held, str):
                setattr(twin, name, renamed.get(held, held))
            elif name == "names":
                setattr(twin, name, [renamed.get(n, n) for n in held])
            elif isinstance(held, (list, ir.IRNode)):
                setattr(twin, name, self.copy(held, renamed, results))
        return twin

    def _call(self, node: ir.IRCall, renamed: dict[str, str], results: tuple[str, ...]) -> IRInlined:
        assert node.symbol is not None
        function = self.functions[node.symbol]
        self.calls += 1
        number = self.calls  # of this call: its arguments may have others
        inner = {name: f"{name}@{number}" for name in function.symbols}
        names, args = [], []
        for param, arg in zip(function.params, node.args, strict=True):
            inner.setdefault(param.name, f"{param.name}@{number}")
            if isinstance(arg, ir.IRArrayRef):
                inner[param.name] = renamed.get(arg.name, arg.name)
            else:
                names.append(inner[param.name])
                args.append(self.copy(arg, renamed, results))
                if isinstance(param.type, DType):
                    self.result.types[inner[param.name]] = param.type
        for table in function.tables.values():
            inner[table.name] = f"{table.name}@{number}"
            self.result.tables[inner[table.name]] = function, table
        for symbol in function.symbols.values():
            if symbol.dtype is not None:
                self.result.types[inner[symbol.name]] = symbol.dtype
        given = [f"%result.{position}@{number}" for position in range(len(function.results))]
        self.result.types |= dict(zip(given, function.results, strict=True))
        body = self.copy(function.body, inner, tuple(given))
        return IRInlined(
            loc=node.loc,
            dtype=node.dtype,
            callee=node.callee,
            symbol=node.symbol,
            args=args,
            body=body,
            names=names,
            results=given,
        )
