"""Record classes that cost nothing until they are used.

`dataclasses.dataclass(slots=True)` writes and compiles the methods of a class when the class is made: 0.2 to 0.5 ms
each, a third of a cold start. A `record` is declared in the same way and does the same, but its constructor, which
takes 0.1 ms to write, is written when a few instances have been made without: most classes never have as many.
Comparing, hashing and printing need no code of their own. `field_names` and `replace` stand for `dataclasses.fields`
and `dataclasses.replace`, which do not know records.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["field", "field_names", "field_types", "record", "replace"]

_T = TypeVar("_T")
_WITHOUT_CONSTRUCTOR = 100  # instances of a class: to set their fields one by one takes 1 to 4 microseconds each
_MISSING: Any = object()


class _Field:
    """What is declared of one field, as `dataclasses.Field` has it. `keyword` is None where the class decides."""

    __slots__ = ("compare", "default", "factory", "init", "keyword", "repr")

    def __init__(
        self, default: Any, factory: Any = _MISSING, init: bool = True, repr: bool = True, compare: bool = True
    ) -> None:
        self.default, self.factory = default, factory
        self.init, self.repr, self.compare = init, repr, compare
        self.keyword: bool | None = None

    @property
    def optional(self) -> bool:
        return self.default is not _MISSING or self.factory is not _MISSING


_PLAIN = _Field(_MISSING)


class _Shape:
    """The fields of one record class, its own after those that it inherits."""

    def __init__(self, cls: type, kw_only: bool, frozen: bool) -> None:
        self.types: dict[str, str] = {}
        self.fields: dict[str, _Field] = {}
        self.keywords: set[str] = set()
        self.frozen = frozen
        for base in cls.__mro__[:0:-1]:
            inherited = base.__dict__.get("_record_shape")
            if inherited is not None:
                self.types |= inherited.types
                self.fields |= inherited.fields
                self.keywords |= inherited.keywords
        annotations = cls.__annotations__  # of this class alone
        self.own = tuple([n for n, t in annotations.items() if not str(t).startswith("ClassVar")])
        space = cls.__dict__
        for name in self.own:
            self.types[name] = annotations[name]
            given = space.get(name, _PLAIN)
            self.fields[name] = made = given if isinstance(given, _Field) else _Field(given)
            if kw_only if made.keyword is None else made.keyword:
                self.keywords.add(name)
            elif self.keywords:
                self.keywords.discard(name)
        # The fields that arguments without a name are for, and whether they are all.
        self.positional = tuple([n for n, f in self.fields.items() if f.init and n not in self.keywords])
        self.simple = len(self.positional) == len(self.fields) and not hasattr(cls, "__post_init__")

    @functools.cached_property
    def key(self) -> Callable[[Any], Any]:
        """What instances are compared by."""
        names = [n for n, f in self.fields.items() if f.compare]
        return operator.attrgetter(*names) if names else lambda record: ()

    def fill(self, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Initialise an instance as its constructor would; False if the arguments do not fit, for that one to say."""
        put = object.__setattr__ if self.frozen else setattr
        if self.simple and not kwargs and len(args) == len(self.positional):
            for name, value in zip(self.positional, args, strict=True):
                put(made, name, value)
            return True
        values = dict(zip(self.positional, args))  # noqa: B905  # there may be fewer
        if len(values) < len(args) or not values.keys().isdisjoint(kwargs):
            return False
        values |= kwargs
        for name, f in self.fields.items():
            if f.init and name in values:
                put(made, name, values.pop(name))
            elif f.default is not _MISSING:
                put(made, name, f.default)
            elif f.factory is not _MISSING:
                put(made, name, f.factory())
            elif f.init:
                return False
        if values:
            return False
        if hasattr(made, "__post_init__"):
            made.__post_init__()
        return True

    def constructor(self, cls: type) -> Callable[..., None]:
        """Make ``__init__`` for the fields."""
        scope: dict[str, Any] = {"_missing": _MISSING}
        head, keywords, body = list[str](), list[str](), list[str]()
        defaults, by_keyword = list[Any](), dict[str, Any]()
        for at, (name, f) in enumerate(self.fields.items()):
            value = f"_{at}"
            optional = f.optional
            if f.init and name in self.keywords:
                keywords.append(value + "=None" * optional)
                by_keyword |= {name: f.default} if optional else {}
            elif f.init:
                head.append(value + "=None" * optional)
                defaults += [f.default] if optional else []
            elif not optional:
                continue  # for `__post_init__` to set
            if f.factory is not _MISSING:
                scope[f"make_{at}"] = f.factory
                value = f"make_{at}() if _{at} is _missing else _{at}" if f.init else f"make_{at}()"
            elif not f.init:
                scope[f"default_{at}"], value = f.default, f"default_{at}"
            if self.frozen:
                scope[f"set_{at}"] = getattr(cls, name).__set__
            body.append(f" set_{at}(self, {value})" if self.frozen else f" self._{at} = {value}")
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        given = ", ".join(["self", *head, *(("*", *keywords) if keywords else ())])
        code = _compiled(f"def __init__({given}):\n" + "\n".join(body or [" pass"]))
        names = {f"_{at}": name for at, name in enumerate(self.fields)}
        code = code.replace(
            co_varnames=tuple(names.get(n, n) for n in code.co_varnames),
            co_names=tuple(names.get(n, n) for n in code.co_names),
        )
        made = types.FunctionType(code, scope, "__init__", tuple(defaults))
        made.__kwdefaults__ = by_keyword
        return made


@functools.cache
def _compiled(text: str) -> types.CodeType:
    """The code of a constructor whose fields are `_0`, `_1`, ...: most classes share a few, and compiling is slow."""
    scope: dict[str, Any] = {}
    exec(text, scope)
    code: types.CodeType = scope["__init__"].__code__
    return code


def field_names(record: Any) -> tuple[str, ...]:
    """The fields of a record class or of an instance, inherited ones first."""
    return tuple(record._record_shape.fields)


def field_types(record: Any) -> dict[str, str]:
    """The text of each field's annotation."""
    found: dict[str, str] = record._record_shape.types
    return found


def replace(record: _T, /, **changes: Any) -> _T:
    """A copy with some fields changed, as `dataclasses.replace` makes it.

    Raises
    ------
    TypeError
        If there is no such field, or the constructor does not take it.
    """
    shape: _Shape = record._record_shape  # type: ignore[attr-defined]
    kept = {name: getattr(record, name) for name, f in shape.fields.items() if f.init and name not in changes}
    return type(record)(**kept, **changes)


if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field
else:

    def field(*, default=_MISSING, default_factory=_MISSING, init=True, repr=True, compare=True, kw_only=None):  # noqa: ANN001, ANN201
        """Say more of a field than its default; the options are those of `dataclasses.field`."""
        made = _Field(default, default_factory, init, repr, compare)
        made.keyword = kw_only
        return made

    def record(cls=None, *, frozen=False, eq=True, repr=True, kw_only=False, weakref_slot=False):  # noqa: ANN001, ANN201
        """Make a class with slots from its annotations (a decorator); the options are those of `dataclass`."""
        if cls is None:
            return lambda made: _make(made, frozen, eq, repr, kw_only, weakref_slot)
        return _make(cls, frozen, eq, repr, kw_only, weakref_slot)


def _make(cls: type, frozen: bool, eq: bool, repr: bool, kw_only: bool, weakref_slot: bool) -> Any:
    shape = _Shape(cls, kw_only, frozen)
    space: dict[str, Any] = dict(cls.__dict__)
    for name in (*shape.own, "__dict__", "__weakref__"):
        space.pop(name, None)
    space["__slots__"] = (*shape.own, "__weakref__") if weakref_slot else shape.own
    space["_record_shape"] = shape
    space["__match_args__"] = tuple([n for n in shape.fields if n not in shape.keywords])
    made: Any = None
    count = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal count
        count += 1
        if count > _WITHOUT_CONSTRUCTOR or not shape.fill(self, args, kwargs):
            made.__init__ = shape.constructor(made)
            made.__init__(self, *args, **kwargs)

    space.setdefault("__init__", __init__)
    if repr:
        space.setdefault("__repr__", _repr)
    if eq:
        space.setdefault("__eq__", _eq)
        if frozen:
            space["__hash__"] = cls.__dict__.get("__hash__") or _hash
    if frozen:
        space |= _FROZEN
    made = type(cls)(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    return made


def _repr(self: Any) -> str:
    shape = type(self)._record_shape
    shown = ", ".join(f"{n}={getattr(self, n)!r}" for n, f in shape.fields.items() if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    key = self._record_shape.key
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(self._record_shape.key(self))


def _refuse(self: Any, name: str, *value: Any) -> None:
    from dataclasses import FrozenInstanceError  # slow to load, and few programs get here

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self._record_shape.fields]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self._record_shape.fields, state, strict=True):
        object.__setattr__(self, name, value)


_FROZEN = {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _restore}
