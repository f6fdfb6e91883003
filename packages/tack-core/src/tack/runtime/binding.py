"""Keywords, defaults and annotated scalars: what a call's arguments are, and the words for what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tack.lang.array import Array
from tack.lang.diagnostics import render
from tack.lang.source import FunctionSource
from tack.lang.types import DType, Scalar, convert_value
from tack.runtime.device import Device

_ACCEPTED = (
    "a tack.Array, a NumPy array, an object with DLPack, an int, a float, a bool or a typed scalar like tack.u8(3)"
)


class Binder:
    """The parameters of one kernel, by name and position, with their defaults."""

    def __init__(self, source: FunctionSource) -> None:
        fn, self._source = source.fn, source
        code = fn.__code__
        positional = code.co_varnames[: code.co_argcount]
        self.positional = len(positional)
        self.names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = fn.__defaults__ or ()
        self.defaults: dict[str, Any] = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        self.defaults.update(fn.__kwdefaults__ or {})
        self.what = f"kernel `{fn.__name__}`"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments in parameter order.

        Raises
        ------
        TypeError
            For a missing, repeated or unknown argument, as Python words it, with the kernel's position.
        """
        if len(args) > self.positional:
            raise self._error(TypeError, f"takes {self._signature()}; {len(args)} positional arguments were given")
        given = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.names:
                raise self._error(TypeError, f"has no parameter `{name}`; it takes {self._signature()}")
            if name in given:
                raise self._error(TypeError, f"got two values for `{name}`")
            given[name] = value
        missing = [f"`{n}`" for n in self.names if n not in given and n not in self.defaults]
        if missing:
            raise self._error(TypeError, f"lacks {', '.join(missing)}; it takes {self._signature()}")
        return tuple(given[n] if n in given else self.defaults[n] for n in self.names)

    def pinned(self, i: int, pin: DType, value: Any) -> Scalar:
        """An argument of a parameter annotated with a dtype, at that dtype (rule PAR-*)."""
        if isinstance(value, Scalar):
            if value.dtype is pin:
                return value
            raise self.argument_error(TypeError, i, f"{value!r}", f"{pin!r}: write {pin!r}({value.value!r})")
        if isinstance(value, (bool, int, np.integer, np.bool_)):
            if pin.is_integer and not pin.min <= int(value) <= pin.max:
                raise self.argument_error(ValueError, i, f"{value}", f"an integer in [{pin.min}, {pin.max}] ({pin!r})")
            return pin(int(value))
        if isinstance(value, (float, np.floating)) and pin.is_float:
            converted = convert_value(float(value), pin)
            if math.isinf(converted) and math.isfinite(value):
                raise self.argument_error(ValueError, i, f"{value!r}", f"a number within the range of {pin!r}")
            return Scalar(pin, converted)
        raise self.argument_error(TypeError, i, _describe(value), f"a number for {pin!r}")

    def wrap(self, i: int, value: Any, device: Device, wrap: Callable[[Any, Device], Array | None]) -> Array:
        """An array argument that is not a tack.Array, without a copy, or the error that says why not."""
        try:
            array = wrap(value, device)
        except (TypeError, ValueError) as problem:
            raise self.argument_error(type(problem), i, _describe(value), str(problem)) from None
        if array is None:
            raise self.argument_error(TypeError, i, _describe(value), _ACCEPTED)
        return array

    def argument_error(self, kind: type[Exception], i: int, given: str, accepted: str) -> Exception:
        return self._error(kind, f"parameter `{self.names[i]}` was given {given}; accepted: {accepted}")

    def _error(self, kind: type[Exception], text: str) -> Exception:
        loc = self._source.loc(self._source.tree)
        return kind(render(f"{self.what} {text}", loc))

    def _signature(self) -> str:
        shown = (f"{n}={self.defaults[n]!r}" if n in self.defaults else n for n in self.names)
        return f"({', '.join(shown)})"


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {value.dtype}, shape {value.shape}"
    return f"{value!r:.60} of type {type(value).__name__}"
