"""What a program with data-oriented classes must compute: Python runs its text, on numbers that wrap as i32 do.

Attributes, inheritance, `super()`, evaluation order and control flow are Python's own; decorators do nothing, and an
iteration runs after the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from numeric_oracles import wrap


class Wrapping(int):
    """An i32: every operation wraps, of either side."""

    def _operation(function: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:  # type: ignore[misc]
        return lambda self, other: number(function(int(self), int(other)))

    def _reflected(function: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:  # type: ignore[misc]
        return lambda self, other: number(function(int(other), int(self)))

    for _name in ("add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor"):
        vars()[f"__{_name.strip('_')}__"] = _operation(getattr(operator, _name))
        vars()[f"__r{_name.strip('_')}__"] = _reflected(getattr(operator, _name))

    def __neg__(self) -> Wrapping:
        return number(-int(self))


def number(value: int) -> Wrapping:
    return Wrapping(wrap(int(value), "i32"))


class Cells(list[Any]):
    """An array: a store wraps."""

    def __init__(self, values: Iterable[int]) -> None:
        super().__init__(map(number, values))
        self.shape = (len(self),)

    def __setitem__(self, index: Any, value: int) -> None:
        super().__setitem__(index, number(value))


def _unchanged(item: Any) -> Any:
    return item


def load(source: str) -> SimpleNamespace:
    """The classes and functions of a program, for Python to run; their constants wrap."""
    library = SimpleNamespace(data_oriented=_unchanged, func=_unchanged, kernel=_unchanged, i32=number)
    namespace: dict[str, Any] = {"__name__": "oracle", "tack": library}
    exec(compile(source, "<class oracle>", "exec"), namespace)
    for cls in (namespace[name] for name in ("Inner", "Base", "Sub")):
        for name, value in list(vars(cls).items()):
            if isinstance(value, int):
                setattr(cls, name, number(value))
            elif isinstance(value, tuple) and not name.startswith("__"):
                setattr(cls, name, tuple(map(number, value)))
    return SimpleNamespace(**namespace)
