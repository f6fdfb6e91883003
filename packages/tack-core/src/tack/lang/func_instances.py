"""Device functions: one typed instance for each call signature (rules FUNC-2 to FUNC-5, LIT-10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tack.lang.diagnostics import Loc
from tack.lang.ir import (
    IRAssign,
    IRAtomic,
    IRBarrier,
    IRBlockReduce,
    IRCall,
    IRFunction,
    IRNode,
    IRParam,
    IRPrint,
    IRStore,
    Symbol,
    walk,
)
from tack.lang.records import record
from tack.lang.types import DType, ValueType


@record(frozen=True)
class Argument:
    """What an instance knows of one argument: its type, and whether it is a literal, a weak one."""

    type: ValueType
    literal: bool = False
    weak: bool = False


@record
class Instance:
    """A typed device function. `layout` says which argument, at which type, each of its parameters takes: a weak
    argument may be wanted at f32, at f64 or at both. `weak` marks the results that are literal expressions."""

    function: IRFunction
    layout: list[tuple[int, ValueType]]
    weak: tuple[bool, ...]


def template_of(call: IRCall) -> IRFunction:
    """The untyped template that a call names."""
    template: IRFunction = call.callee.lowered().ir
    return template


def assigned_names(function: IRFunction) -> set[str]:
    """The symbols that a function's body assigns."""
    return {node.name for node in walk(function.body) if isinstance(node, IRAssign)}


def has_effects(node: IRNode, seen: set[int] | None = None) -> bool:
    """Whether running untyped code twice could differ from running it once; `seen` holds templates known not to."""
    seen = set() if seen is None else seen
    for part in walk(node):
        if isinstance(part, (IRAtomic, IRStore, IRPrint, IRBarrier, IRBlockReduce)):
            return True
        if isinstance(part, IRCall) and id(template_of(part)) not in seen:
            seen.add(id(template_of(part)))
            if any(has_effects(statement, seen) for statement in template_of(part).body):
                return True
    return False


def _without_unread_params(symbols: dict[str, Symbol], params: list[IRParam]) -> dict[str, Symbol]:
    names = {param.name for param in params}
    return {name: symbol for name, symbol in symbols.items() if symbol.kind != "param" or name in names}


class Instances:
    """The instances that one kernel needs. `annotator` types a function; it is handed in, for it asks for instances."""

    def __init__(self, annotator: Callable[..., Any], has_f64: bool) -> None:
        self.annotator = annotator
        self.has_f64 = has_f64
        self._known: dict[tuple[Any, ...], tuple[IRFunction, Instance]] = {}
        self._by_name: dict[str, IRFunction] = {}

    def get(
        self, template: IRFunction, arguments: tuple[Argument, ...], adopted: DType, chain: tuple[Loc, ...], rounds: int
    ) -> Instance:
        """The instance of `template` for a signature; `adopted` is the type that its weak results take."""
        key = (id(template), arguments, adopted)
        if key not in self._known:
            instance = self._type(template, arguments, adopted, chain, rounds)
            self._known[key] = (template, instance)  # the template stays alive, so that its id stays its own
        return self._known[key][1]

    def _type(
        self, template: IRFunction, arguments: tuple[Argument, ...], adopted: DType, chain: tuple[Loc, ...], rounds: int
    ) -> Instance:
        literals = {
            param.name: argument.weak
            for param, argument in zip(template.params, arguments, strict=True)
            if argument.literal
        }
        types = [argument.type for argument in arguments]
        typed = self.annotator(template, types, self, chain=chain, literal_params=literals, adopted=adopted)
        body = typed.function_body(rounds)
        params, layout = typed.param_versions(body)
        name = self._fresh_name(template.name)
        function = IRFunction(
            name=name,
            loc=template.loc,
            params=params,
            body=body,
            symbols=_without_unread_params(typed.typed_symbols(), params),
            tables=typed.typed_tables(),
            results=typed.result_types(),
            samples=template.samples,
        )
        self._by_name[name] = function
        return Instance(function, layout, typed.weak_results())

    def _fresh_name(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._by_name:
            count += 1
            name = f"{wanted}.{count}"
        return name

    def reachable(self, kernel: IRFunction) -> dict[str, IRFunction]:
        """The instances that `kernel` calls, directly or not, callees before callers."""
        found: dict[str, IRFunction] = {}

        def visit(function: IRFunction) -> None:
            for node in walk(function.body):
                if isinstance(node, IRCall) and node.symbol is not None and node.symbol not in found:
                    callee = self._by_name[node.symbol]
                    visit(callee)
                    found[node.symbol] = callee

        visit(kernel)
        return found
