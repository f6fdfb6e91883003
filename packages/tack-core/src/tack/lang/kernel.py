"""The `kernel` decorator and the kernel object that a user calls."""

from __future__ import annotations

import functools
import types
from _thread import RLock  # all that is needed of `threading`, which takes a millisecond to load
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from tack.lang import debug
from tack.lang.diagnostics import has_diagnostic
from tack.lang.loading import loading
from tack.lang.native_type import native_type
from tack.lang.source import FunctionSource, read_source

DEFAULT_GROUP = 256
MAX_GROUP = 1024
"""Lanes of a workgroup; every device of this kind can run 1024."""


class _Kernel:
    """A kernel: call it with arrays and numbers, positionally or by keyword.

    Decoration only parses; the first call validates, lowers, types and compiles for the arguments' types. Later calls
    of the same types reuse that variant (rules SPEC-*).

    Examples
    --------
    >>> import numpy as np, tack
    >>> @tack.kernel
    ... def double(a, out):
    ...     for i in range(a.shape[0]):
    ...         out[i] = a[i] * 2
    >>> x = np.arange(3, dtype=np.int32); y = np.zeros_like(x)
    >>> double(x, y); y.tolist()
    [0, 2, 4]
    """

    source: FunctionSource
    # Words of the native entry (runtime/native_call.py): the table it reads, the entry itself (0: `__call__` runs), and
    # how many calls run without the GIL.
    _table: int
    _entry: int
    _running: int

    def __init__(self, fn: Callable[..., Any], group: int = DEFAULT_GROUP) -> None:
        self.source = read_source(fn, "kernel")
        self.group = group
        functools.update_wrapper(self, fn)
        # Owned by runtime.dispatch: parameter binding, lowerings and their variants.
        self._state: Any = None
        self._lock = RLock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = self._state
        if state is None:
            # The one door from lang to the runtime; imported at the first call so that `import tack` stays light.
            with loading():
                from tack.runtime.dispatch import prepare

            state = prepare(self)
        try:
            return state.call(args, kwargs)
        except Exception as error:
            if debug.DEBUG or not has_diagnostic(error):
                raise
            error.__cause__ = error.__context__ = None
            error.__suppress_context__ = False
            short = error.with_traceback(None)
        try:
            raise short  # after the handler, so that its context is what the caller is handling, if anything
        finally:
            del short  # it holds this frame, which holds the arguments

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """A kernel of a class, called on an instance: ``obj.step(dt)`` (rule CLS-1)."""
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> str:
        return self.source.fn.__qualname__  # pickled by its name, and its own copy, as a function is

    def __repr__(self) -> str:
        return f"<tack kernel {self.source.fn.__qualname__}>"


if TYPE_CHECKING:
    Kernel = _Kernel
    KERNEL_OFFSETS: dict[str, int]
else:
    Kernel, KERNEL_OFFSETS = native_type(_Kernel, "tack.Kernel", ("_table", "_entry", "_running"), vectorcall="_entry")
    Kernel.__doc__ = _Kernel.__doc__  # a type made from a spec does not inherit it


@overload
def kernel(fn: Callable[..., Any], *, group: int = ...) -> Kernel: ...


@overload
def kernel(fn: None = None, *, group: int = ...) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    fn: Callable[..., Any] | None = None, *, group: int = DEFAULT_GROUP
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a Python function (a decorator, with or without options).

    Parameters
    ----------
    fn
        The function. Its source is read again and compiled; Python never runs its body. Its outermost loops over
        `range` or `tack.ndrange` run in parallel.
    group
        Lanes of a workgroup: a power of two, at most 1024. It matters to kernels that use workgroups (rules GRP-*).

    Raises
    ------
    SourceUnavailableError
        If the source text of `fn` cannot be found.
    TypeError, ValueError
        If `group` is not an integer, or not such a number.

    Examples
    --------
    >>> @tack.kernel(group=64)
    ... def sums(a, out):
    ...     for i in range(a.shape[0]):
    ...         s = tack.block_sum(a[i])
    ...         if tack.thread_id() == 0:
    ...             out[i // 64] = s
    """
    if type(group) is not int:
        raise TypeError(f"@tack.kernel(group=...) takes an integer, not {type(group).__name__}")
    if not 1 <= group <= MAX_GROUP or group & (group - 1):
        raise ValueError(f"@tack.kernel(group={group}): the group is a power of two, at most {MAX_GROUP}")
    if fn is None:
        return functools.partial(Kernel, group=group)
    return Kernel(fn, group)
