"""The `func` decorator and device functions."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tack.lang.source import FunctionSource, read_source

if TYPE_CHECKING:
    from tack.lang.ast_transform import Lowered


class Func:
    """A device function: kernels and other device functions call it; each call is typed from its own arguments.

    Raises
    ------
    TypeError
        When it is called on the host.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn, self._source = fn, None if _is_library(fn) else read_source(fn, "device function")
        functools.update_wrapper(self, fn)
        self._lowered: Lowered | None = None
        # Weak: a kernel's lowering owns them, which in turn belongs to the class of an instance.
        self._for_instances: list[weakref.ref[InstanceFunc]] = []

    @property
    def source(self) -> FunctionSource:
        """Text and syntax tree, read when the function is made; of Tack's own functions when they are used."""
        if self._source is None:
            self._source = read_source(self._fn, "device function")
        return self._source

    def lowered(self) -> Lowered:
        """The untyped template for the values that captured names hold now (rules CAP-5, CAP-11)."""
        known = self._lowered
        if known is not None and all(c.is_current() for c in known.captures):
            return known
        # ast_transform knows Func, so Func reaches it only when it is used.
        from tack.lang.ast_transform import lower_function

        self._lowered = fresh = lower_function(self.source)
        return fresh

    def for_instances(self, objects: Mapping[int, Any]) -> InstanceFunc:
        """The function for arguments that are instances, by position, of the classes of `objects`."""
        known = [ref for ref in self._for_instances if ref() is not None]
        for ref in known:
            found = ref()
            if found is not None and found.serves(objects):
                return found
        from tack.lang.ast_transform import lower_function

        fresh = InstanceFunc(self, lower_function(self.source, objects))
        self._for_instances = [weakref.ref(fresh), *known]
        return fresh

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"device function `{self._fn.__name__}` works only inside a kernel or another device function")

    def __reduce__(self) -> str:
        return self._fn.__qualname__  # pickled by its name, and its own copy, as a function is

    def __repr__(self) -> str:
        return f"<tack device function {self._fn.__qualname__}>"


def _is_library(fn: Callable[..., Any]) -> bool:
    """Whether a function is Tack's own: reading all their sources would double the time of `import tack`."""
    return str(getattr(fn, "__module__", "")).startswith("tack.")


class InstanceFunc:
    """A device function lowered for arguments some of which are instances: what a call of it refers to."""

    def __init__(self, function: Func, lowered: Lowered) -> None:
        self.source = function.source
        self.function = function
        self._lowered = lowered

    def lowered(self) -> Lowered:
        """The untyped template; whoever holds it watches its captures."""
        return self._lowered

    def serves(self, objects: Mapping[int, Any]) -> bool:
        """Whether it is right for these instances and for what captured names hold now."""
        structure = self._lowered.structure
        assert structure is not None
        if structure.positions != tuple(sorted(objects)) or structure.expand(objects) is None:
            return False
        return all(c.is_current() for c in self._lowered.captures)


def func(fn: Callable[..., Any]) -> Func:
    """Make a device function of a Python function (a decorator).

    Parameters
    ----------
    fn
        The function. It may return on several paths one value, a tuple of values, or nothing; arrays pass by
        reference, scalars by value.

    Raises
    ------
    SourceUnavailableError
        If the source text of `fn` cannot be found.

    Examples
    --------
    >>> @tack.func
    ... def lerp(a, b, t):
    ...     return a + (b - a) * t
    """
    return Func(fn)
