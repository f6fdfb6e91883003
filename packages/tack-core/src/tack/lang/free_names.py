"""What a kernel takes from outside its own text, found from its syntax tree alone (rules CAP-*, CACHE-2).

A disk cache must know a kernel by its content before anything is lowered. `contents` resolves every free name of a
function as lowering would, follows the device functions that it reaches, and describes all of it in strings and
integers, which are equal in two processes exactly if the lowerings would be. It may describe more than lowering reads,
never less. What it cannot describe (an object that only an error message would name, a class) is not cached.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator, Sequence
from typing import Any

from tack.lang.constant import Constant, plain_number
from tack.lang.func import Func
from tack.lang.intrinsics import lookup
from tack.lang.names import MISSING, Capture, Scope
from tack.lang.records import record
from tack.lang.source import FunctionSource
from tack.lang.types import DType, Scalar

Content = tuple[Any, ...]


class Indescribable(Exception):
    """A function whose meaning depends on something that has no description."""


@record(frozen=True)
class Contents:
    """`content` is nested tuples of strings and integers; `captures` are the names that it read, for the guards."""

    content: Content
    captures: tuple[Capture, ...]


def contents(source: FunctionSource) -> Contents | None:
    """The content of a function and of all that it calls; None if a part of it cannot be described."""
    reader = _Reader()
    try:
        return Contents(reader.function(source), tuple(reader.captures))
    except Indescribable:
        return None


class _Reader:
    """Reads functions, each once; a later mention is its number, which also ends a cycle of calls."""

    def __init__(self) -> None:
        self.captures: list[Capture] = []
        self._numbers: dict[int, int] = {}

    def function(self, source: FunctionSource) -> Content:
        known = self._numbers.get(id(source))
        if known is not None:
            return ("again", known)
        self._numbers[id(source)] = len(self._numbers)
        scope = Scope(source.fn)
        names = _names(source)
        used = tuple((spelling, self.value(_resolve(scope, node))) for spelling, node in names.used)
        annotating = tuple((spelling, _annotation(scope, node)) for spelling, node in names.annotating)
        self.captures += scope.captures
        return (source.what, source.name, _text(source), _annotations(source), used, annotating, self.defaults(source))

    def defaults(self, source: FunctionSource) -> Content:
        """The defaults of a device function, which its calls bake in; those of a kernel are arguments."""
        if source.what == "kernel":
            return ()
        by_keyword = sorted((source.fn.__kwdefaults__ or {}).items())
        return (*map(self.value, source.fn.__defaults__ or ()), *((name, self.value(v)) for name, v in by_keyword))

    def value(self, value: Any) -> Content:
        if isinstance(value, types.ModuleType):
            return ("module",)  # what counts are the attributes that are read, each a name of its own
        if isinstance(value, DType):
            return ("dtype", repr(value))
        if isinstance(value, (Constant, Scalar)):
            kind = type(value).__name__
            return (kind, repr(value.dtype), self.value(value.value))
        if type(value) is tuple:
            return ("tuple", *map(self.value, value))
        if isinstance(value, Func):
            return self.function(value.source)
        meaning = lookup(value)
        if meaning is not None:
            return ("meaning", meaning.form, meaning.name)
        number = plain_number(value)
        if number is None:
            raise Indescribable
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        return (kind, number.hex() if isinstance(number, float) else str(number))


def _text(source: FunctionSource) -> str:
    """The lines of the definition: from `def` to the end, decorators left out."""
    tree = source.tree
    end = tree.end_lineno or tree.lineno
    return "\n".join(source.text.line(n) for n in range(tree.lineno, end + 1))


def _evaluated(source: FunctionSource) -> dict[str, Any]:
    """What Python made of the annotations of the parameters: a dtype, a string, or documentation."""
    try:
        return dict(source.fn.__annotations__)
    except NameError:  # Python 3.14 evaluates them only now
        raise Indescribable from None


def _annotations(source: FunctionSource) -> Content:
    kept = ((name, value) for name, value in _evaluated(source).items() if isinstance(value, (DType, str)))
    return tuple((name, type(value).__name__, repr(value)) for name, value in kept)


@record(frozen=True)
class _Names:
    """Free names and attribute chains of a function, by spelling: those it computes with, and those in annotations."""

    used: tuple[tuple[str, ast.expr], ...]
    annotating: tuple[tuple[str, ast.expr], ...]


def _names(source: FunctionSource) -> _Names:
    code = source.fn.__code__
    if not isinstance(source.tree, ast.FunctionDef):
        raise Indescribable
    local = frozenset(code.co_varnames) | frozenset(code.co_cellvars)
    postponed = frozenset(n for n, value in _evaluated(source).items() if isinstance(value, str))
    return _names_of(source.tree, local, postponed)


@functools.lru_cache(maxsize=256)
def _names_of(tree: ast.FunctionDef, local: frozenset[str], postponed: frozenset[str]) -> _Names:
    annotations = list(_annotation_trees(tree, postponed))
    skipped = {id(inner) for root in annotations for inner in ast.walk(root)}
    used = {ast.unparse(n): n for n in _chains(tree.body, local) if id(n) not in skipped}
    annotating = {ast.unparse(n): n for n in _chains(annotations, local)}
    return _Names(tuple(sorted(used.items())), tuple(sorted(annotating.items())))


def _chains(roots: Sequence[ast.AST], local: frozenset[str]) -> Iterator[ast.expr]:
    for root in roots:
        for node in ast.walk(root):
            base: ast.AST = node
            while isinstance(base, ast.Attribute):
                base = base.value
            if isinstance(base, ast.Name) and base.id not in local:
                assert isinstance(node, ast.expr)
                yield node


def _annotation_trees(tree: ast.FunctionDef, postponed: frozenset[str]) -> Iterator[ast.AST]:
    """The annotations that are resolved by name: those of locals, and of parameters where Python left a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) or (isinstance(node, ast.arg) and node.arg in postponed):
            text = node.annotation
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                try:
                    yield ast.parse(text.value, mode="eval").body
                except SyntaxError:  # documentation, then
                    continue
            elif text is not None:
                yield text


def _annotation(scope: Scope, node: ast.expr) -> Content:
    """Only a dtype means anything in an annotation; the rest is documentation."""
    try:
        value = _resolve(scope, node)
    except Indescribable:
        return ("unknown",)
    return ("dtype", repr(value)) if isinstance(value, DType) else (type(value).__name__,)


def _resolve(scope: Scope, node: ast.expr) -> Any:
    """The object of a chain, read through `scope`, which remembers what was read."""
    if isinstance(node, ast.Name):
        value = scope.resolve(node.id)
    else:
        assert isinstance(node, ast.Attribute)
        base = _resolve(scope, node.value)
        if isinstance(base, (types.ModuleType, DType)):
            value = scope.attribute(base, node.attr)
        elif isinstance(base, (tuple, Constant, Scalar)) or plain_number(base) is not None:
            return base  # a component of a captured number or vector: the whole of it is described
        else:
            raise Indescribable
    if value is MISSING:
        raise Indescribable
    return value
