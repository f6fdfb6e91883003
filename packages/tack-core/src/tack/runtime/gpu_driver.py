"""The driver of a GPU through ctypes, under names that CUDA's and HIP's share; each call has its result checked.

The two APIs differ in names alone. A subclass of `GpuDriver` says what the functions are called.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_ushort, c_void_p
from typing import TYPE_CHECKING, Any, ClassVar, Final

_ADDRESS = c_uint64
_HANDLE = POINTER(c_void_p)

# All that Tack calls of a driver; whoever stands in for one needs no more.
SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "init": (c_uint,),
    "device_count": (POINTER(c_int),),
    "device_get": (POINTER(c_int), c_int),
    "device_name": (c_char_p, c_int, c_int),
    "device_attribute": (POINTER(c_int), c_int, c_int),
    "retain_context": (_HANDLE, c_int),
    "set_current": (c_void_p,),
    "default_pool": (_HANDLE, c_int),
    "pool_set": (c_void_p, c_int, c_void_p),
    "allocate": (POINTER(_ADDRESS), c_size_t, c_void_p),
    "free": (_ADDRESS, c_void_p),
    "host_allocate": (_HANDLE, c_size_t, c_uint),
    "host_free": (c_void_p,),
    "fill8": (_ADDRESS, c_ubyte, c_size_t, c_void_p),
    "fill16": (_ADDRESS, c_ushort, c_size_t, c_void_p),
    "fill32": (_ADDRESS, c_uint, c_size_t, c_void_p),
    "upload": (_ADDRESS, c_void_p, c_size_t, c_void_p),
    "download": (c_void_p, _ADDRESS, c_size_t, c_void_p),
    "copy": (_ADDRESS, _ADDRESS, c_size_t, c_void_p),
    "stream_create": (_HANDLE, c_uint),
    "stream_wait": (c_void_p,),
    "stream_wait_event": (c_void_p, c_void_p, c_uint),
    "event_create": (_HANDLE, c_uint),
    "event_record": (c_void_p, c_void_p),
    "event_wait": (c_void_p,),
    "event_elapsed": (POINTER(c_float), c_void_p, c_void_p),
    "event_destroy": (c_void_p,),
    "module_load": (_HANDLE, c_void_p),
    "module_unload": (c_void_p,),
    "module_function": (_HANDLE, c_void_p, c_char_p),
    "launch": (c_void_p, *[c_uint] * 7, c_void_p, _HANDLE, c_void_p),
}
# Over in less time than it takes to give the GIL away and get it back from another thread.
_BRIEF: Final = frozenset({"set_current", "event_record"})


class GpuError(RuntimeError):
    """The driver of a GPU, or its compiler, refused something; the message has its words."""


class GpuDriver:
    """The driver's functions by their common names: ``driver.init(0)`` raises where C would return an error code.

    A subclass sets the class attributes below.

    Attributes
    ----------
    api
        What the driver is called in messages.
    libraries
        The names of its library, the first that loads counts.
    names
        What the functions of `SIGNATURES` are called in it.
    most_groups
        The most workgroups of one launch.
    out_of_memory
        The error code that becomes a MemoryError.
    error
        What all other codes are raised as.

    Raises
    ------
    GpuError
        If there is no driver, or it cannot start.
    """

    api: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]]
    names: ClassVar[dict[str, str]]
    most_groups: ClassVar[int] = 2**31 - 1
    out_of_memory: ClassVar[int] = 2
    error: ClassVar[type[GpuError]] = GpuError

    def __init__(self) -> None:
        reasons: list[str] = []
        self._library = first_library(self.libraries, reasons)
        if self._library is None:
            raise self.error(f"no {self.api} driver ({'; '.join(reasons)})")
        self._holding = ctypes.PyDLL(None, handle=self._library._handle)
        try:
            for name, function_name in self.names.items():
                setattr(self, name, self.bind(function_name, SIGNATURES[name], name in _BRIEF))
        except AttributeError as lacking:
            raise self.error(f"the {self.api} driver is too old, or not one ({lacking})") from None
        self.init(0)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def has(self, function_name: str) -> bool:
        """Whether the library has a function."""
        return hasattr(self._library, function_name)

    def bind(self, function_name: str, arguments: tuple[Any, ...], holding: bool = False) -> Any:
        """A function of the library; it raises where C would return an error code. `holding`: it keeps the GIL."""
        function = getattr(self._holding if holding else self._library, function_name)
        function.argtypes, function.restype = arguments, c_int

        def checked(*values: Any) -> None:
            code = function(*values)
            if code:
                raise self.explain(code, function_name)

        return checked

    def address(self, name: str) -> int:
        """Where a function of the driver lies, for native code that calls it."""
        return ctypes.cast(getattr(self._library, self.names[name]), c_void_p).value or 0

    def explain(self, code: int, what: str) -> Exception:
        """The exception of an error code."""
        name, words = self.texts(code)
        message = f"{what}: {name} ({words})"
        return MemoryError(message) if code == self.out_of_memory else self.error(message)

    # -- what a driver may do in another way

    def texts(self, code: int) -> tuple[str, str]:
        """The name of an error code, and what it means."""
        raise NotImplementedError

    def context(self, number: int) -> c_void_p:
        """What `set_current` takes for a device: the context that other libraries of this process use too."""
        found = c_void_p()
        self.retain_context(byref(found), number)
        return found

    def count(self) -> int:
        """How many devices there are."""
        found = c_int()
        self.device_count(byref(found))
        return found.value


def first_library(names: Iterable[str], reasons: list[str] | None = None) -> Any:
    """The first of these libraries that can be loaded; None if there is none. `reasons` gets the loader's words."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as problem:
            if reasons is not None:
                reasons.append(str(problem))
    return None


def why_no_device(driver: Callable[[], GpuDriver]) -> str:
    """Why a machine has no device of a kind: the loader's or the driver's words."""
    try:
        return f"the {driver().api} driver finds no GPU" if not driver().count() else ""
    except (GpuError, MemoryError) as problem:
        return str(problem)
