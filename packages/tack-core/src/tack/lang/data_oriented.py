"""Classes whose instances kernels take apart: `@tack.data_oriented` (rules CLS-*).

An instance never reaches a generator or a device. A kernel that is given one is lowered for the instance's class, and
each attribute that it uses becomes a parameter of its own: numbers scalars, arrays arrays. `Structure` says which.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import weakref
from _thread import allocate_lock  # `threading` takes a millisecond to load
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tack.lang.array import Array
from tack.lang.loading import loading
from tack.lang.names import MISSING
from tack.lang.records import record

if TYPE_CHECKING:
    from tack.lang.ir import IRFunction, IRParam

_RECORD = "_tack_record"
_T = TypeVar("_T", bound=type)
_serials = itertools.count()
_lock = allocate_lock()
_PLAIN = frozenset((Array, float, int, bool))  # what fields hold most often
_NOTHING: dict[str, Any] = {}


class ClassRecord:
    """What Tack keeps for one class, as an attribute of it, so that it goes when the class goes.

    `variants` holds the lowerings of kernels for instances of this class. A lowering for several classes belongs to the
    one that was seen last, which is likely the one that lives shortest.
    """

    def __init__(self) -> None:
        self.serial = next(_serials)
        self.variants: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()


def data_oriented(cls: _T) -> _T:
    """Make a class whose instances kernels and device functions can take (a class decorator).

    Kernels as methods run on the instance, ``obj.step(dt)``; instances may also be passed to any kernel as an argument,
    and on to device functions. Subclasses need no decorator of their own.

    * A number that the class defines is a constant: a literal of its current value.
    * A number that the instance holds is a scalar of the call; an array that it holds is passed by reference.
    * ``@tack.func`` methods (inherited, overridden, static, ``super().m()``) are device functions.
    * An attribute that is an instance again is taken apart in the same way.

    Only attributes that are used are passed. Code is shared by all instances of one class.

    Parameters
    ----------
    cls
        The class.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    TypeError
        If `cls` is not a class.

    Examples
    --------
    >>> @tack.data_oriented
    ... class Decay:
    ...     def __init__(self, n, rate):
    ...         self.rate = rate
    ...         self.x = tack.ones(n, tack.f32)
    ...
    ...     @tack.kernel
    ...     def step(self, dt):
    ...         for i in range(self.x.shape[0]):
    ...             self.x[i] -= self.rate * self.x[i] * dt
    >>> system = Decay(1000, 0.5)
    >>> system.step(0.01)
    """
    if not isinstance(cls, type):
        raise TypeError(f"tack.data_oriented decorates a class, not {type(cls).__name__} {cls!r:.60}")
    record_of(cls)
    return cls


def record_of(cls: type) -> ClassRecord:
    """The record of a class, made at its first use for a subclass."""
    record = cls.__dict__.get(_RECORD)
    if record is None:
        with loading(), _lock:  # a finalizer may come here, too
            record = cls.__dict__.get(_RECORD)
            if record is None:
                record = ClassRecord()
                setattr(cls, _RECORD, record)
    assert isinstance(record, ClassRecord)
    return record


def is_data_oriented(value: object) -> bool:
    """Whether a value is an instance of a data-oriented class."""
    return is_data_oriented_class(type(value))


def is_data_oriented_class(value: object) -> bool:
    """Whether a value is a data-oriented class."""
    return isinstance(value, type) and hasattr(value, _RECORD)


def instances_in(args: Sequence[Any]) -> dict[int, Any]:
    """The arguments that are instances, by position."""
    return {i: arg for i, arg in enumerate(args) if hasattr(type(arg), _RECORD)}


def instance_value(obj: Any, name: str) -> Any:
    """What the instance itself holds under a name, in its dict or in a slot; `MISSING` if it holds nothing."""
    own = getattr(obj, "__dict__", None)
    if own is not None and name in own:
        return own[name]
    if inspect.ismemberdescriptor(getattr(type(obj), name, None)):
        return getattr(obj, name, MISSING)
    return MISSING


def class_entry(cls: type, after: type | None, name: str) -> Any:
    """What stands under a name in the first class that has it, or, for ``super()``, in the first one behind `after`."""
    order = cls.__mro__
    order = order if after is None else order[order.index(after) + 1 :]
    return next((vars(c)[name] for c in order if name in vars(c)), MISSING)


def is_super(node: ast.expr) -> bool:
    """Whether an expression is ``super()``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args


@record(frozen=True)
class InstanceNode:
    """One instance that a function uses: a parameter (`parent` is -1) or an attribute of an earlier node.

    `class_names` were found in the class: while an instance holds one of them itself, other code is needed.
    """

    parent: int
    position: int
    name: str
    cls: weakref.ref[type]
    class_names: tuple[str, ...]


@record(frozen=True)
class Structure:
    """How a function takes its instance parameters apart; `fields` become parameters, in this order."""

    nodes: tuple[InstanceNode, ...]
    fields: tuple[tuple[int, str], ...]  # node, attribute
    positions: tuple[int, ...]  # of the parameters that are instances, in order

    def expand(self, args: Sequence[Any] | Mapping[int, Any]) -> list[Any] | None:
        """The values of the fields for these arguments; None if the instances are of another structure."""
        objects: list[tuple[Any, dict[str, Any]]] = []
        for node in self.nodes:
            obj = args[node.position] if node.parent < 0 else instance_value(objects[node.parent][0], node.name)
            if type(obj) is not node.cls():
                return None
            own = getattr(obj, "__dict__", _NOTHING)
            if node.class_names and not own.keys().isdisjoint(node.class_names):
                return None
            objects.append((obj, own))
        values = []
        for at, name in self.fields:
            obj, own = objects[at]
            value = own[name] if name in own else instance_value(obj, name)
            if type(value) not in _PLAIN and (value is MISSING or hasattr(type(value), _RECORD)):
                return None
            values.append(value)
        return values

    def describe(self) -> dict[str, Any]:
        """In literals; the classes are those of the arguments that `described` is given."""
        nodes = [(node.parent, node.position, node.name, node.class_names) for node in self.nodes]
        return {"nodes": nodes, "fields": self.fields, "positions": self.positions}

    @staticmethod
    def described(notes: Mapping[str, Any], args: Mapping[int, Any]) -> Structure:
        """What `describe` was made from, for these instances.

        Raises
        ------
        ValueError, TypeError, KeyError, IndexError
            If it is not that, or is not how these instances are made.
        """
        objects, nodes = list[Any](), list[InstanceNode]()
        for parent, position, name, class_names in notes["nodes"]:
            objects.append(args[position] if parent < 0 else instance_value(objects[parent], name))
            cls = weakref.ref(type(objects[-1]))
            nodes.append(InstanceNode(int(parent), int(position), str(name), cls, tuple(map(str, class_names))))
        fields = tuple((int(at), str(name)) for at, name in notes["fields"])
        made = Structure(tuple(nodes), fields, tuple(int(i) for i in notes["positions"]))
        if not all(map(is_data_oriented, objects)) or made.expand(args) is None:
            raise ValueError("other instances")
        return made

    def params_of(self, ir: IRFunction) -> list[IRParam]:
        """The parameters that the fields became."""
        return ir.params[len(ir.params) - len(self.fields) :]

    def classes(self) -> list[type]:
        """The classes that are still alive."""
        return [cls for cls in (node.cls() for node in self.nodes) if cls is not None]
