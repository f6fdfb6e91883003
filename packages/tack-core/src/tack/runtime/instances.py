"""Which lowering of a kernel serves a call with instances of data-oriented classes (rules CLS-*).

A kernel knows these lowerings weakly. Each belongs to a class, so that it goes, with its compiled code, when the class
is collected. Once it is found, and the instances are taken apart, the call goes through a native entry of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tack.lang.data_oriented import record_of
from tack.lang.kernel import Kernel

if TYPE_CHECKING:
    from tack.runtime.dispatch import KernelState
    from tack.runtime.lowering import Lowering
    from tack.runtime.native_call import Tables

MAX_LOWERINGS = 64  # per kernel and class that owns them


class FieldEntry:
    """The calls of one lowering with the fields of its instances written out: the state of a kernel of its own.

    No user sees that kernel. Its native entry needs no guards: `InstanceLowerings.find` has compared captured values.
    """

    def __init__(self, state: KernelState, lowering: Lowering) -> None:
        self.kernel: Kernel = Kernel.__new__(Kernel)
        self.kernel._state = self
        self.tables: Tables | None = None
        self._owner, self._lowering = weakref.ref(state), weakref.ref(lowering)  # both are alive during a call

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The slow path of the native entry."""
        state, lowering = self._owner(), self._lowering()
        assert state is not None and lowering is not None and not kwargs
        return state.launch(lowering, args, True)


class InstanceLowerings:
    """The lowerings of one kernel for instances, the last one used first."""

    def __init__(self, kernel: Kernel, count: int, lower: Callable[[Mapping[int, Any]], Lowering]) -> None:
        self._kernel = weakref.ref(kernel)  # the kernel's state holds this object
        self._lock = kernel._lock
        self._count = count
        self._lower = lower
        self._known: list[weakref.ref[Lowering]] = []

    def find(self, args: tuple[Any, ...], objects: Mapping[int, Any]) -> tuple[Lowering, tuple[Any, ...]]:
        """The lowering for these arguments, and the values of the parameters that it has left.

        Parameters
        ----------
        args
            The arguments, by position.
        objects
            Those that are instances.
        """
        found = self._search(args, objects)
        if found is None:
            with self._lock:
                found = self._search(args, objects)
                if found is None:
                    found = self._fresh(args, objects)
        lowering, fields = found
        rest = [arg for i, arg in enumerate(args) if i not in objects]
        return lowering, (*rest, *fields)

    def _fresh(self, args: tuple[Any, ...], objects: Mapping[int, Any]) -> tuple[Lowering, list[Any]]:
        """A new lowering. If a name was rebound meanwhile it is good for this call, as if that had come later."""
        lowering = self._lower(objects)
        self._add(lowering)
        fields = None if lowering.structure is None else lowering.structure.expand(args)
        assert fields is not None, "a fresh lowering does not fit the instances it was made for"
        return lowering, fields

    def _search(self, args: tuple[Any, ...], objects: Mapping[int, Any]) -> tuple[Lowering, list[Any]] | None:
        positions = tuple(objects)
        for at, ref in enumerate(self._known):
            lowering = ref()
            if lowering is None or lowering.structure is None or lowering.structure.positions != positions:
                continue
            fields = lowering.structure.expand(args)
            if fields is not None and (lowering.is_current() or lowering.matches()):
                if at:
                    self._put_first(ref)
                return lowering, fields
        return None

    def _put_first(self, ref: weakref.ref[Lowering]) -> None:
        """Let the next search begin with this one, unless a thread is adding another, which must not be lost."""
        if self._lock.acquire(blocking=False):
            try:
                self._known = [ref, *(r for r in self._known if r is not ref and r() is not None)]
            finally:
                self._lock.release()

    def _add(self, lowering: Lowering) -> None:
        """Give a lowering to the class that was seen last; when another of its classes dies, it goes too."""
        assert lowering.structure is not None
        kernel, ref = self._kernel(), weakref.ref(lowering)
        classes = lowering.structure.classes()
        owner = max(classes, key=lambda cls: record_of(cls).serial)
        variants = record_of(owner).variants
        owned = [lowering, *variants.get(kernel, ())][:MAX_LOWERINGS]
        variants[kernel] = owned
        for cls in classes:
            if cls is not owner:
                weakref.finalize(cls, _forget, weakref.ref(owner), self._kernel, ref).atexit = False
        self._known = [ref, *(r for r in self._known if r() is not None)]


def _forget(owner: weakref.ref[type], kernel: weakref.ref[Kernel], lowering: weakref.ref[Lowering]) -> None:
    """Take a lowering from the class that owns it."""
    cls, known = owner(), kernel()
    if cls is not None and known is not None:
        variants = record_of(cls).variants
        variants[known] = [kept for kept in variants.get(known, ()) if kept is not lowering()]
