"""What a kernel takes from outside its own text, found from its syntax tree alone (rules CAP-*, CACHE-2).

A disk cache must know a kernel by its content before anything is lowered. `contents` resolves every free name of a
function as lowering would, follows the device functions that it reaches, and describes all of it in strings and
integers, which are equal in two processes exactly if the lowerings would be. It may describe more than lowering reads,
never less. What it cannot describe (an object that only an error message would name) is not cached.

Instances of data-oriented classes are described by what functions use of them: which attributes they hold, which of
these are instances again, and what the others are in the class.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tack.lang.constant import Constant, plain_number
from tack.lang.data_oriented import (
    Structure,
    class_entry,
    instance_value,
    is_data_oriented,
    is_data_oriented_class,
    is_super,
)
from tack.lang.func import Func
from tack.lang.intrinsics import lookup
from tack.lang.names import MISSING, Capture, Scope
from tack.lang.records import record
from tack.lang.source import FunctionSource
from tack.lang.types import DType, Scalar

Content = tuple[Any, ...]
_NO_INSTANCES: Mapping[int, Held] = types.MappingProxyType({})


class Indescribable(Exception):
    """A function whose meaning depends on something that has no description."""


Path = tuple[int | str, ...]
"""An instance: the position of a kernel's argument, then names of attributes."""


@record(frozen=True)
class Held:
    """An instance, and where it is found."""

    obj: Any
    path: Path

    def attribute(self, name: str) -> Held:
        return Held(instance_value(self.obj, name), (*self.path, name))


@record(frozen=True)
class Contents:
    """`content` is nested tuples of strings and integers; `captures` are the names that it read, for the guards.

    `fields` and `class_names` are the attributes of instances that it read, from the instance and from its class.
    """

    content: Content
    captures: tuple[Capture, ...]
    fields: frozenset[Path] = frozenset()
    class_names: frozenset[Path] = frozenset()

    def covers(self, structure: Structure) -> bool:
        """Whether the content tells all that made a lowering take its instances apart like this."""
        paths: list[Path] = []
        for node in structure.nodes:
            paths.append((node.position,) if node.parent < 0 else (*paths[node.parent], node.name))
        fields = {(*paths[at], name) for at, name in structure.fields}
        fields |= {path for path in paths if len(path) > 1}
        named = {(*path, name) for path, node in zip(paths, structure.nodes, strict=True) for name in node.class_names}
        return fields <= self.fields and named <= self.class_names


def contents(source: FunctionSource, objects: Mapping[int, Any] | None = None) -> Contents | None:
    """The content of a function and of all that it calls; None if a part of it cannot be described.

    Parameters
    ----------
    source
        The function.
    objects
        The arguments that are instances of data-oriented classes, by position.
    """
    reader = _Reader()
    held = {position: Held(obj, (position,)) for position, obj in (objects or {}).items()}
    try:
        content = reader.function(source, held)
    except Indescribable:
        return None
    return Contents(content, tuple(reader.captures), frozenset(reader.fields), frozenset(reader.class_names))


class _Reader:
    """Reads functions, each once; a later mention is its number, which also ends a cycle of calls."""

    def __init__(self) -> None:
        self.captures: list[Capture] = []
        self.fields: set[Path] = set()
        self.class_names: set[Path] = set()
        self._numbers: dict[tuple[Any, ...], int] = {}

    def function(self, source: FunctionSource, objects: Mapping[int, Held] = _NO_INSTANCES) -> Content:
        key = (id(source), *sorted((position, held.path) for position, held in objects.items()))
        known = self._numbers.get(key)
        if known is not None:
            return ("again", known)
        self._numbers[key] = len(self._numbers)
        scope = Scope(source.fn)
        names = _names(source)
        used = tuple((spelling, self.value(_resolve(scope, node))) for spelling, node in names.used)
        annotating = tuple((spelling, _annotation(scope, node)) for spelling, node in names.annotating)
        members = _Members(self, scope, source, objects).content() if objects else ()
        self.captures += scope.captures
        text, annotations = _text(source), _annotations(source)
        return (source.what, source.name, text, annotations, used, annotating, members, self.defaults(source))

    def defaults(self, source: FunctionSource) -> Content:
        """The defaults of a device function, which its calls bake in; those of a kernel are arguments."""
        if source.what == "kernel":
            return ()
        by_keyword = sorted((source.fn.__kwdefaults__ or {}).items())
        return (*map(self.value, source.fn.__defaults__ or ()), *((name, self.value(v)) for name, v in by_keyword))

    def value(self, value: Any) -> Content:
        if isinstance(value, types.ModuleType) or is_data_oriented_class(value):
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


class _Members:
    """What one function uses of the instances that it is given."""

    def __init__(self, reader: _Reader, scope: Scope, source: FunctionSource, objects: Mapping[int, Held]) -> None:
        self.reader, self.scope, self.source = reader, scope, source
        names = _parameters(source)
        self.by_name = {names[position]: held for position, held in objects.items()}
        self.first = objects.get(0)

    def content(self) -> Content:
        found: list[Content] = [(name, held.path) for name, held in sorted(self.by_name.items())]
        for statement in self.source.tree.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Attribute):
                    found.append((ast.unparse(node), self.member(node)))
                elif isinstance(node, ast.Call):
                    found.append((ast.unparse(node.func), self.call(node)))
        return tuple(found)

    def instance(self, node: ast.expr) -> Held | None:
        """The instance that an expression is, if it is one."""
        if isinstance(node, ast.Name):
            return self.by_name.get(node.id)
        owner = self.instance(node.value) if isinstance(node, ast.Attribute) else None
        if owner is None or not isinstance(node, ast.Attribute):
            return None
        held = owner.attribute(node.attr)
        return held if is_data_oriented(held.obj) else None

    def owner(self, node: ast.Attribute) -> tuple[Held, type | None] | None:
        """Whose attribute this is, and the class after which it is looked up; None if no instance's."""
        if is_super(node.value):
            cell = dict(zip(self.source.fn.__code__.co_freevars, self.source.fn.__closure__ or (), strict=True))
            if self.first is None or "__class__" not in cell:
                raise Indescribable
            return self.first, cell["__class__"].cell_contents
        held = self.instance(node.value)
        return None if held is None else (held, None)

    def member(self, node: ast.Attribute) -> Content:
        found = self.owner(node)
        if found is None:
            return ()
        held, after = found
        value = MISSING if after is not None else instance_value(held.obj, node.attr)
        if value is not MISSING:
            self.reader.fields.add((*held.path, node.attr))
            return ("instance" if is_data_oriented(value) else "field",)
        self.reader.class_names.add((*held.path, node.attr))
        value = self.scope.class_attribute(type(held.obj), after, node.attr)
        if isinstance(value, Func):  # a call says with which instances
            return ("function", isinstance(class_entry(type(held.obj), after, node.attr), Func))
        if value is MISSING:
            raise Indescribable
        return ("class", self.reader.value(value))

    def call(self, node: ast.Call) -> Content:
        """The function that is called, as it is for the instances among the arguments."""
        found = self.owner(node.func) if isinstance(node.func, ast.Attribute) else None
        receiver = None
        if found is not None and isinstance(node.func, ast.Attribute):
            held, after = found
            function = self.scope.class_attribute(type(held.obj), after, node.func.attr)
            receiver = held if isinstance(class_entry(type(held.obj), after, node.func.attr), Func) else None
        elif _is_free(node.func, self.source):
            function = _resolve(self.scope, node.func)
        else:
            return ()
        if not isinstance(function, Func):
            return ()
        return self.reader.function(function.source, self.given(node, function.source, receiver))

    def given(self, node: ast.Call, callee: FunctionSource, receiver: Held | None) -> dict[int, Held]:
        names = _parameters(callee)
        objects = {} if receiver is None else {0: receiver}
        for position, argument in enumerate(node.args, start=len(objects)):
            held = self.instance(argument)
            if held is not None:
                objects[position] = held
        for keyword in node.keywords:
            held = self.instance(keyword.value)
            if held is not None and keyword.arg in names:
                objects[names.index(keyword.arg)] = held
        if not all(position < len(names) for position in objects):
            raise Indescribable  # a call that lowering refuses
        return objects


def _parameters(source: FunctionSource) -> tuple[str, ...]:
    """Names by position, those that are given by keyword alone at the end."""
    code = source.fn.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _is_free(node: ast.expr, source: FunctionSource) -> bool:
    """Whether an expression is a free name or a chain of attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in source.fn.__code__.co_varnames and node.id != "super"


def _text(source: FunctionSource) -> str:
    """The lines of the definition: from `def` to the end, decorators left out."""
    tree = source.tree
    end = tree.end_lineno or tree.lineno
    return "\n".join(source.text.line(n) for n in range(tree.lineno, end + 1))


def _evaluated(source: FunctionSource) -> dict[str, Any]:
    """What Python made of the annotations of the parameters: a dtype, a string, or documentation."""
    try:
        return dict(source.fn.__annotations__)
    except Exception:  # Python 3.14 evaluates them only now, and what they say need not mean anything
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
    if "__class__" in code.co_freevars:
        local |= {"super"}  # read as a member of the instance
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
        elif is_data_oriented_class(base):
            value = scope.class_attribute(base, None, node.attr)
        elif isinstance(base, (tuple, Constant, Scalar)) or plain_number(base) is not None:
            return base  # a component of a captured number or vector: the whole of it is described
        else:
            raise Indescribable
    if value is MISSING:
        raise Indescribable
    return value
