"""What lowering a function carries along: symbols, captured values, effects, and the call sites that led to it."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from tack.lang.data_oriented import Structure
from tack.lang.diagnostics import Loc, UnsupportedSyntaxError, fail
from tack.lang.intrinsics import LATER
from tack.lang.ir import IRFunction, IRKernel, IRTable, Symbol
from tack.lang.names import MISSING, Capture, ClassNames, Scope
from tack.lang.records import field, record
from tack.lang.source import FunctionSource
from tack.lang.types import DType

EFFECT_HINT = "statements outside the parallel loops may be evaluated any number of times; move it into a loop"


@record(frozen=True)
class Lowered:
    """An untyped template. `captures` are those of the function and of every device function that it reaches; the other
    fields are what a caller has to know: which parameters are arrays, how many results there are, whether it prints,
    and what it uses of the workgroup, if anything."""

    ir: IRKernel | IRFunction
    captures: tuple[Capture, ...]
    array_params: frozenset[str]
    result_count: int
    prints: bool
    # If parameters are instances: how they are taken apart; the last parameters of `ir` are the fields that are used.
    structure: Structure | None = field(default=None, kw_only=True)
    workgroup: str | None = None


@record(frozen=True)
class _Frame:
    source: FunctionSource
    site: Loc | None


_FRAMES: ContextVar[tuple[_Frame, ...]] = ContextVar("tack_lowering", default=())


@contextmanager
def entered(source: FunctionSource) -> Iterator[None]:
    """Lowering of `source` begins; `Context.calling` has set the call site."""
    frames = _FRAMES.get()
    inside = bool(frames) and frames[-1].source is source
    token = _FRAMES.set(frames if inside else (_Frame(source, None),))
    try:
        yield
    finally:
        _FRAMES.reset(token)


def call_chain() -> tuple[Loc, ...]:
    """The call sites that led to the function being lowered, outermost first."""
    return tuple(frame.site for frame in _FRAMES.get() if frame.site is not None)


@record(frozen=True)
class Captured:
    """A free name or attribute chain: its spelling and the Python object it holds."""

    spelling: str
    value: Any


@record
class Effects:
    """What the function does to arrays, by symbol of the array parameter, whether it prints, and an intrinsic of
    workgroups that it calls."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    prints: bool = False
    workgroup: str | None = None


class Context:
    """Shared state of the lowering of one function."""

    def __init__(self, source: FunctionSource, locals_: set[str]) -> None:
        self.source = source
        self.scope = Scope(source.fn)
        self.local_names = locals_
        self.symbols: dict[str, Symbol] = {}
        self.bindings: dict[str, str] = {}  # what a Python name means here; loops shadow and restore
        self.tables: dict[str, IRTable] = {}
        self.params: list[str] = []
        self.array_params: set[str] = set()
        self.effects = Effects()
        self.callee_captures: dict[tuple[Any, str], Capture] = {}
        self.outside = False  # in a kernel, outside its parallel loops
        self.loads_outside: list[tuple[str, Loc]] = []
        self._temporaries = 0

    # ----------------------------------------------------------------------------------------------------- errors

    def fail(self, kind: type[Exception], message: str, node: ast.AST | Loc, hint: str | None = None) -> NoReturn:
        loc = node if isinstance(node, Loc) else self.source.loc(node)
        fail(kind, message, loc, hint=hint, chain=call_chain())

    def unsupported(self, message: str, node: ast.AST | Loc, hint: str | None = None) -> NoReturn:
        self.fail(UnsupportedSyntaxError, message, node, hint)

    def loc(self, node: ast.AST) -> Loc:
        return self.source.loc(node)

    # ---------------------------------------------------------------------------------------------------- symbols

    def new_symbol(self, name: str, kind: str, node: ast.AST) -> str:
        """A symbol for a Python name: its spelling, or ``name.2`` and so on where that is taken."""
        unique, count = name, 1
        while unique in self.symbols:
            count += 1
            unique = f"{name}.{count}"
        self.symbols[unique] = Symbol(name=unique, kind=kind, source_name=name, loc=self.loc(node))
        return unique

    def temporary(self, node: ast.AST) -> str:
        self._temporaries += 1
        name = f"%{self._temporaries}"
        self.symbols[name] = Symbol(name=name, kind="temp", source_name=name, loc=self.loc(node))
        return name

    def symbol_of(self, name: str, node: ast.AST) -> str:
        """The symbol that a local name means here; made at its first use."""
        if name not in self.bindings:
            self.bindings[name] = self.new_symbol(name, "local", node)
        return self.bindings[name]

    def array_kind(self, symbol: str) -> str | None:
        """What a symbol that may be an array is: "param", "local_array" or "table"; None for a scalar."""
        kind = self.symbols[symbol].kind
        if kind == "param":
            return "param"
        if kind == "local_array":
            return kind
        return "table" if symbol in self.tables else None

    # --------------------------------------------------------------------------------------------- captured values

    def captured(self, node: ast.expr) -> Captured | None:
        """The object that a free name, or an attribute chain on a captured module, holds; None for anything else."""
        if isinstance(node, ast.Name):
            if node.id in self.local_names:
                return None
            value = self.scope.resolve(node.id)
            if value is MISSING:
                self.fail(
                    NameError,
                    f"name `{node.id}` is not defined",
                    node,
                    "define it before the first call, or pass it as an argument",
                )
            return Captured(node.id, value)
        if not isinstance(node, ast.Attribute):
            return None
        base = self.captured(node.value)
        return None if base is None else self._captured_attribute(base, node)

    def _captured_attribute(self, base: Captured, node: ast.Attribute) -> Captured:
        spelling = f"{base.spelling}.{node.attr}"
        if isinstance(base.value, DType) and node.attr in ("min", "max"):
            if base.value.is_float:
                self.fail(TypeError, f"`{base.spelling}` is a floating type: it has no integer limits", node)
        elif not _is_module(base.value):
            self.fail(
                TypeError,
                f"`{spelling}`: attributes of {type(base.value).__name__} `{base.spelling}` cannot be captured",
                node,
                "bind the number to a module-level name, or pass it as an argument",
            )
        value = self.scope.attribute(base.value, node.attr)
        if value is MISSING:
            if _is_tack(base.value) and node.attr in LATER:
                self.unsupported(
                    f"`{spelling}` is not in this version of Tack", node, "this version has scalars and arrays"
                )
            from difflib import get_close_matches  # slow to load, and only errors need it

            similar = get_close_matches(node.attr, dir(base.value), n=1)
            hint = f"did you mean `{base.spelling}.{similar[0]}`?" if similar else None
            self.fail(NameError, f"module `{base.spelling}` has no `{node.attr}`", node, hint)
        return Captured(spelling, value)

    def captures(self) -> tuple[Capture, ...]:
        """Own captures, then those of callees; one entry a name."""
        merged = {_capture_key(c): c for c in self.scope.captures}
        return tuple({**self.callee_captures, **merged}.values())

    def adopt_captures(self, captures: tuple[Capture, ...]) -> None:
        self.callee_captures.update((_capture_key(c), c) for c in captures)

    # ---------------------------------------------------------------------------------------------------- effects

    def note_load(self, symbol: str, node: ast.AST) -> None:
        if self.symbols[symbol].kind == "param":
            self.effects.read.add(symbol)
            if self.outside:
                self.loads_outside.append((symbol, self.loc(node)))
        elif self.outside and self.symbols[symbol].kind == "local_array":
            self.unsupported("a load from a shared array outside the parallel loops is not supported", node)

    def note_store(self, symbol: str, node: ast.AST, what: str) -> None:
        if symbol in self.tables:
            name = self.symbols[symbol].source_name
            self.fail(
                TypeError,
                f"`{name}` is a captured tuple, which cannot be changed",
                node,
                "pass an array as an argument",
            )
        if self.outside:
            self.unsupported(f"{what} outside the parallel loops is not supported", node, EFFECT_HINT)
        if self.symbols[symbol].kind == "param":
            self.effects.written.add(symbol)

    def note_print(self, node: ast.AST) -> None:
        if self.outside:
            self.unsupported("`print` outside the parallel loops is not supported", node, EFFECT_HINT)
        self.effects.prints = True

    def note_workgroup(self, what: str, node: ast.AST, function: str | None = None) -> None:
        """`what` is an intrinsic of workgroups; `function` the device function that calls it, if it is not this one."""
        if self.outside:
            through = "" if function is None else f" (in `{function}`)"
            self.unsupported(
                f"`{what}`{through} outside the parallel loops is not supported",
                node,
                "workgroups run iterations of parallel loops; move it into one",
            )
        self.effects.workgroup = what

    # ------------------------------------------------------------------------------------------------------ calls

    @contextmanager
    def calling(self, callee: FunctionSource, node: ast.AST) -> Iterator[None]:
        """The lowering of a callee runs inside; a cycle of calls is refused."""
        frames = _FRAMES.get()
        sources = [frame.source for frame in frames]
        if any(s is callee for s in sources):
            start = next(i for i, s in enumerate(sources) if s is callee)
            cycle = " -> ".join([*(s.name for s in sources[start:]), callee.name])
            self.unsupported(f"recursion is not supported: {cycle}", node, "write a loop")
        token = _FRAMES.set((*frames, _Frame(callee, self.loc(node))))
        try:
            yield
        finally:
            _FRAMES.reset(token)


def _capture_key(capture: Capture) -> tuple[Any, str]:
    namespace: Any = capture.namespace
    if isinstance(namespace, ClassNames):
        return namespace, capture.name
    for attribute in ("owner", "cell", "globals"):
        if hasattr(namespace, attribute):
            return id(getattr(namespace, attribute)), capture.name
    raise AssertionError(namespace)


def _is_module(value: object) -> bool:
    return isinstance(value, types.ModuleType)


def _is_tack(value: object) -> bool:
    return getattr(value, "__name__", "") == "tack"
