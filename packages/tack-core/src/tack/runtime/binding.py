"""Keywords, defaults and annotated scalars: what a call's arguments are, and the words for what is wrong with them."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tack.lang.array import Array
from tack.lang.diagnostics import render
from tack.lang.source import FunctionSource
from tack.lang.types import DType, Scalar, convert_value, is_integer_number
from tack.runtime.device import Device

_ACCEPTED = (
    "a tack.Array, a NumPy array, an object with DLPack, an int, a float, a bool or a typed scalar like tack.u8(3)"
)
_INSTEAD_OF_LISTS = (
    "numbers and arrays: a NumPy array, or tack.asarray(..., tack.vec3) for vectors; "
    "a tuple that the module or the class holds is a constant"
)


class Binder:
    """The parameters of one kernel, by name and position, with their defaults."""

    def __init__(self, source: FunctionSource) -> None:
        fn, self._source = source.fn, source
        code = fn.__code__
        positional = code.co_varnames[: code.co_argcount]
        self.positional = len(positional)
        self.positional_only = positional[: code.co_posonlyargcount]
        self.names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = fn.__defaults__ or ()
        self.defaults: dict[str, Any] = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        self.defaults.update(fn.__kwdefaults__ or {})

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments in parameter order.

        Raises
        ------
        TypeError
            For a missing, repeated or unknown argument, as Python words it, with the kernel's position.
        """
        if len(args) > self.positional:
            text = f"{len(args)} positional arguments were given; it takes {self.positional}"
            raise self._error(TypeError, text, hint=self._call_to_write())
        given = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.names:
                raise self._error(TypeError, f"there is no parameter `{name}`", hint=self._call_to_write())
            if name in self.positional_only:
                raise self._error(TypeError, f"`{name}` is given by position only", name, self._call_to_write())
            if name in given:
                raise self._error(TypeError, f"two values were given for `{name}`", name, self._call_to_write())
            given[name] = value
        missing = [n for n in self.names if n not in given and n not in self.defaults]
        if missing:
            text = f"nothing was given for {', '.join(f'`{n}`' for n in missing)}"
            raise self._error(TypeError, text, missing[0], self._call_to_write())
        return tuple(given[n] if n in given else self.defaults[n] for n in self.names)

    def of_fields(self, names: Iterable[str]) -> Binder:
        """A binder that only reports errors, for the parameters that are left when instances are taken apart."""
        from copy import copy  # few kernels take instances

        other = copy(self)
        other.names = tuple(names)
        return other

    def pinned(self, i: int, pin: DType, value: Any) -> Scalar:
        """An argument of a parameter annotated with a dtype, at that dtype (rule PAR-*)."""
        if isinstance(value, Scalar):
            if value.dtype is pin:
                return value
            accepted = f"a number of type {pin!r}, such as {pin!r}({value.value!r})"
            raise self.argument_error(TypeError, i, f"{value!r}", accepted)
        if is_integer_number(value):
            if pin.is_integer and not pin.min <= int(value) <= pin.max:
                raise self.argument_error(ValueError, i, f"{value}", f"an integer in [{pin.min}, {pin.max}] ({pin!r})")
            return pin(int(value))
        if isinstance(value, (float, np.floating)) and pin.is_float:
            converted = convert_value(float(value), pin)
            if math.isinf(converted) and math.isfinite(value):
                raise self.argument_error(ValueError, i, f"{value!r}", f"a number within the range of {pin!r}")
            return Scalar(pin, converted)
        number = "an integer" if pin.is_integer else "a number"
        raise self.argument_error(TypeError, i, _describe(value), f"{number}, since it is annotated {pin!r}")

    def wrap(self, i: int, value: Any, device: Device, wrap: Callable[[Any, Device], Array | None]) -> Array:
        """An array argument that is not a tack.Array, without a copy, or the error that says why not."""
        try:
            array = wrap(value, device)
        except (TypeError, ValueError) as problem:
            raise self.argument_error(type(problem), i, _describe(value), str(problem)) from None
        if array is None:
            accepted = _INSTEAD_OF_LISTS if isinstance(value, (list, tuple)) else _ACCEPTED
            raise self.argument_error(TypeError, i, _describe(value), accepted)
        return array

    def argument_error(self, kind: type[Exception], i: int, given: str, accepted: str) -> Exception:
        name = self.names[i].removesuffix("._texels")
        return self._error(kind, f"parameter `{name}` was given {given}", name, f"it takes {accepted}")

    def is_texture(self, i: int) -> bool:
        """Whether a parameter is the snapshot of a texture."""
        return self.names[i].endswith("._texels")

    def _error(
        self, kind: type[Exception], text: str, parameter: str | None = None, hint: str | None = None
    ) -> Exception:
        """An error that points at a parameter, or at the head of the kernel."""
        tree = self._source.tree
        name = parameter and parameter.partition(".")[0]  # a field `self.x` belongs to `self`
        places = [a for a in ast.walk(tree.args) if isinstance(a, ast.arg) and a.arg == name]
        return kind(render(text, self._source.loc(places[0] if places else tree), hint=hint))

    def _call_to_write(self) -> str:
        shown = [f"{n}={self.defaults[n]!r}" if n in self.defaults else n for n in self.names]
        if len(self.names) > self.positional:
            shown.insert(self.positional, "*")
        if self.positional_only:
            shown.insert(len(self.positional_only), "/")
        return f"call it as {self._source.name}({', '.join(shown)})"


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {value.dtype}, shape {value.shape}"
    return f"{value!r:.60} of type {type(value).__name__}"
