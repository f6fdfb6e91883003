"""Record classes that cost nothing until they are used.

`dataclasses.dataclass(slots=True)` writes and compiles the methods of a class when the class is made: 0.2 to 0.5 ms
each, a third of a cold start. A `record` is declared in the same way and does the same, but its constructor is written
when the first instance is made, and comparing, hashing and printing need no code of their own. `dataclasses.fields`
and `dataclasses.replace` work on records.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

__all__ = ["field", "record"]


class _Shape:
    """The fields of one record class, its own after those that it inherits."""

    def __init__(self, cls: type, kw_only: bool, frozen: bool) -> None:
        self.types: dict[str, str] = {}
        self.fields: dict[str, Field[Any]] = {}
        self.keywords: set[str] = set()
        self.frozen = frozen
        for base in reversed(cls.__mro__[1:]):
            inherited = base.__dict__.get("_record_shape")
            if inherited is not None:
                self.types |= inherited.types
                self.fields |= inherited.fields
                self.keywords |= inherited.keywords
        annotations = cls.__annotations__  # of this class alone
        self.own = [n for n, t in annotations.items() if not str(t).startswith("ClassVar")]
        for name in self.own:
            given = cls.__dict__.get(name, MISSING)
            self.types[name] = annotations[name]
            self.fields[name] = given if isinstance(given, Field) else field(default=given)
            if kw_only if self.fields[name].kw_only is MISSING else self.fields[name].kw_only:
                self.keywords.add(name)
            else:
                self.keywords.discard(name)

    def compared(self) -> tuple[str, ...]:
        return tuple(n for n, f in self.fields.items() if f.compare)

    def constructor(self, cls: type) -> Callable[..., None]:
        """Write ``__init__`` for the fields, and compile it."""
        scope: dict[str, Any] = {"_missing": MISSING}
        head, keywords, body = ["self"], list[str](), list[str]()
        for name, f in self.fields.items():
            value, default = name, ""
            if f.default is not MISSING:
                scope[f"_default_{name}"], default = f.default, f"=_default_{name}"
            elif f.default_factory is not MISSING:
                scope[f"_make_{name}"], default = f.default_factory, "=_missing"
                value = f"_make_{name}() if {name} is _missing else {name}" if f.init else f"_make_{name}()"
            if f.init:
                (keywords if name in self.keywords else head).append(name + default)
            elif not default:
                continue  # for `__post_init__` to set
            elif value == name:
                value = f"_default_{name}"
            if self.frozen:
                scope[f"_set_{name}"] = getattr(cls, name).__set__
                body.append(f" _set_{name}(self, {value})")
            else:
                body.append(f" self.{name} = {value}")
        if keywords:
            head += ["*", *keywords]
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        exec(f"def __init__({', '.join(head)}):\n" + "\n".join(body or [" pass"]), scope)
        return cast("Callable[..., None]", scope["__init__"])


class _Fields:
    """What `dataclasses` asks a class for; made when it asks."""

    def __get__(self, instance: object, cls: type) -> dict[str, Any]:
        from dataclasses import make_dataclass

        shape: _Shape = cls._record_shape  # type: ignore[attr-defined]
        rows = []
        for name, f in shape.fields.items():
            copy: Any = field(
                default=f.default,
                default_factory=f.default_factory,
                compare=f.compare,
                init=f.init,
                kw_only=True,
            )
            rows.append((name, shape.types[name], copy))
        made: Any = make_dataclass(cls.__name__, rows, eq=False, repr=False)
        found: dict[str, Any] = made.__dataclass_fields__
        type.__setattr__(cls, "__dataclass_fields__", found)
        return found


if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(cls=None, *, frozen=False, eq=True, repr=True, kw_only=False, weakref_slot=False):  # noqa: ANN001, ANN201
        """Make a class with slots from its annotations (a decorator); the options are those of `dataclass`."""
        if cls is None:
            return lambda made: _make(made, frozen, eq, repr, kw_only, weakref_slot)
        return _make(cls, frozen, eq, repr, kw_only, weakref_slot)


def _make(cls: type, frozen: bool, eq: bool, repr: bool, kw_only: bool, weakref_slot: bool) -> Any:
    shape = _Shape(cls, kw_only, frozen)
    space = {k: v for k, v in cls.__dict__.items() if k not in shape.own and k not in ("__dict__", "__weakref__")}
    space["__slots__"] = (*shape.own, "__weakref__") if weakref_slot else tuple(shape.own)
    space |= {"_record_shape": shape, "__dataclass_fields__": _Fields(), "__dataclass_params__": _Options()}
    space["__match_args__"] = tuple(n for n in shape.fields if n not in shape.keywords)
    made: Any = None

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        made.__init__ = shape.constructor(made)
        made.__init__(self, *args, **kwargs)

    space.setdefault("__init__", __init__)
    if repr and "__repr__" not in cls.__dict__:
        space["__repr__"] = _repr
    if eq:
        space["_record_key"] = staticmethod(_key(shape.compared()))
        space.setdefault("__eq__", _eq)
        if frozen:
            space["__hash__"] = cls.__dict__.get("__hash__") or _hash
    if frozen:
        space |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _restore}
    made = type(cls)(cls.__name__, cls.__bases__, space)
    made.__qualname__ = cls.__qualname__
    return made


class _Options:
    """What `dataclass` asks of a base class."""

    def __get__(self, instance: object, cls: type) -> Any:
        shape: _Shape = cls._record_shape  # type: ignore[attr-defined]
        return SimpleNamespace(frozen=shape.frozen)


def _key(names: tuple[str, ...]) -> Callable[[Any], Any]:
    return operator.attrgetter(*names) if names else lambda self: ()


def _repr(self: Any) -> str:
    shape = type(self)._record_shape
    shown = ", ".join(f"{n}={getattr(self, n)!r}" for n, f in shape.fields.items() if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._record_key(self) == self._record_key(other)


def _hash(self: Any) -> int:
    return hash(self._record_key(self))


def _refuse(self: Any, name: str, *value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self._record_shape.fields]


def _restore(self: Any, state: list[Any]) -> None:
    for name, value in zip(self._record_shape.fields, state, strict=True):
        object.__setattr__(self, name, value)
