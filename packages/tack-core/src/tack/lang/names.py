"""Names that a kernel does not assign: where they resolve, what they may hold, and how a change is noticed (CAP-*)."""

from __future__ import annotations

import types
import weakref
from collections.abc import Mapping
from typing import Any

from tack.lang.constant import Constant, plain_number
from tack.lang.records import record
from tack.lang.types import Scalar

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<unbound>"})()


@record(frozen=True)
class GlobalNames:
    """A module's names, then the builtins, as Python looks a global name up."""

    globals: Mapping[str, Any]
    builtins: Mapping[str, Any]

    def get(self, name: str) -> Any:
        value = self.globals.get(name, MISSING)
        return self.builtins.get(name, MISSING) if value is MISSING else value


@record(frozen=True)
class CellName:
    """A variable of an enclosing function."""

    cell: types.CellType

    def get(self, name: str) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # not assigned yet, or deleted
            return MISSING


@record(frozen=True)
class ModuleNames:
    """The attributes of a module (or of a Tack dtype)."""

    owner: Any

    def get(self, name: str) -> Any:
        return getattr(self.owner, name, MISSING)


@record(frozen=True)
class ClassNames:
    """The attributes of a class, or with `after` those that ``super()`` finds; the class is not kept alive."""

    owner: weakref.ref[type]
    after: weakref.ref[type] | None

    def get(self, name: str) -> Any:
        cls = self.owner()
        after = None if self.after is None else self.after()
        if cls is None or (after is None and self.after is not None):
            return MISSING
        return getattr(cls if after is None else super(after, cls), name, MISSING)


Namespace = GlobalNames | CellName | ModuleNames | ClassNames


class _Same:
    """A key that equals only a key of the very same object, which it keeps alive (rule SPEC-4)."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return hash((_Same, id(self.value)))


def value_key(value: Any) -> Any:
    """A hashable key: numbers by type and exact bits (1, 1.0, True, 0.0, -0.0, NaN differ); others by identity."""
    if isinstance(value, (Constant, Scalar)):
        return (type(value), value.dtype, value_key(value.value))
    if isinstance(value, tuple):
        return (type(value), *map(value_key, value))
    number = plain_number(value)
    if number is None:
        return _Same(value)
    return (type(value), number.hex() if isinstance(number, float) else number)


@record(frozen=True)
class Capture:
    """One step of resolving a name: where it was looked up, and what it held when the code was lowered."""

    namespace: Namespace
    name: str
    value: Any
    key: Any

    def current(self) -> Any:
        """What the name holds now; `MISSING` if it is unbound."""
        return self.namespace.get(self.name)

    def is_current(self) -> bool:
        """Whether the name still holds the same value."""
        value = self.current()
        return value is self.value or value_key(value) == self.key


def _capture(namespace: Namespace, name: str) -> Capture:
    value = namespace.get(name)
    return Capture(namespace, name, value, value_key(value))


class Scope:
    """Where the free names of a function resolve: its closure, its module, builtins. Reads are remembered.

    Reads are remembered so that the whole of one lowering sees one value for each name.
    """

    def __init__(self, fn: types.FunctionType) -> None:
        self._cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        builtins = fn.__globals__.get("__builtins__", {})
        names = vars(builtins) if isinstance(builtins, types.ModuleType) else builtins
        self._global_names = GlobalNames(fn.__globals__, names)
        self._captures: dict[tuple[Any, str], Capture] = {}

    @property
    def captures(self) -> tuple[Capture, ...]:
        return tuple(self._captures.values())

    def resolve(self, name: str) -> Any:
        """The value of a free name; `MISSING` if it is bound nowhere."""
        cell = self._cells.get(name)
        return self._read(CellName(cell) if cell is not None else self._global_names, (0, name), name)

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute of a captured module or dtype; `MISSING` if there is none."""
        return self._read(ModuleNames(owner), (id(owner), name), name)

    def class_attribute(self, cls: type, after: type | None, name: str) -> Any:
        """An attribute of a class, found as Python finds it, after the class `after` if given; `MISSING` if none."""
        namespace = ClassNames(weakref.ref(cls), None if after is None else weakref.ref(after))
        return self._read(namespace, (namespace, name), name)

    def _read(self, namespace: Namespace, key: tuple[Any, str], name: str) -> Any:
        found = self._captures.get(key)
        if found is None:
            found = self._captures[key] = _capture(namespace, name)
        return found.value
