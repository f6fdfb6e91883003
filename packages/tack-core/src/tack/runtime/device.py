"""Devices as values: which there are, which is current, and the one backend behind each name."""

from __future__ import annotations

import ctypes
import os
from _thread import RLock, get_ident  # all that is needed of `threading`, which is slow to load
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING

from tack.lang.loading import find_package, loading
from tack.lang.records import record
from tack.lang.types import DType, f64

if TYPE_CHECKING:
    from tack.lang.host_cast import HostArray
    from tack.runtime.backend import Backend


@record(frozen=True)
class _Row:
    """How to get a backend's class, and the module without which it cannot run, with the extra that installs it.

    A kind of which a machine may have several devices says which there are: `units` gives the default one's number and
    how many there are. They are named "kind" (the default) and "kind:number", and the class is given the number. `why`
    says in the driver's words why there is none.
    """

    load: Callable[[], Callable[..., Backend]]
    needs: str | None = None
    extra: str | None = None
    units: Callable[[], tuple[int, int]] | None = None
    why: Callable[[], str] | None = None

    @property
    def installed(self) -> bool:
        return self.needs is None or find_package(self.needs) is not None

    def no_device(self, kind: str) -> str:
        """Part of a sentence: why this machine has no device of this kind."""
        if self.why is not None:
            return f"{self.why()}; "
        return f"{self.needs or 'the driver'} finds no device with a driver and a compiler for {kind}; "

    def names(self, kind: str) -> Iterator[str]:
        """The devices of this kind that this machine has, the default one first."""
        if not self.installed:
            return
        if self.units is None:
            yield kind
            return
        default, count = self.units()
        if count:
            yield kind
        yield from (f"{kind}:{number}" for number in range(count) if number != default)

    def make(self, name: str) -> Backend:
        if self.units is None:
            return self.load()()
        _, colon, number = name.partition(":")
        return self.load()(int(number) if colon else self.units()[0])


def _cpu() -> type[Backend]:
    from tack.runtime.cpu_backend import CpuBackend

    return CpuBackend


def _reference() -> type[Backend]:
    from tack.runtime.reference_backend import ReferenceBackend

    return ReferenceBackend


def _opencl() -> Callable[..., Backend]:
    from tack.runtime.opencl_backend import OpenCLBackend

    return OpenCLBackend


def _opencl_units() -> tuple[int, int]:
    try:
        from tack.runtime.opencl_devices import default_number, usable_devices
    except ImportError:  # pyopencl is there, but cannot be loaded
        return 0, 0
    return default_number(), len(usable_devices())


def _cuda() -> Callable[..., Backend]:
    from tack.runtime.cuda_backend import CudaBackend

    return CudaBackend


def _cuda_units() -> tuple[int, int]:
    from tack.runtime.cuda_driver import device_count

    return 0, device_count()


def _cuda_why() -> str:
    from tack.runtime.cuda_driver import driver
    from tack.runtime.gpu_driver import why_no_device

    return why_no_device(driver)


def _level_zero() -> Callable[..., Backend]:
    from tack.runtime.level_zero_backend import LevelZeroBackend

    return LevelZeroBackend


def _level_zero_units() -> tuple[int, int]:
    from tack.runtime.level_zero_driver import device_count

    return 0, device_count()


def _level_zero_why() -> str:
    from tack.runtime.level_zero_driver import why_no_device

    return why_no_device()


def _hip() -> Callable[..., Backend]:
    from tack.runtime.hip_backend import HipBackend

    return HipBackend


def _hip_units() -> tuple[int, int]:
    from tack.runtime.hip_driver import device_count

    return 0, device_count()


def _hip_why() -> str:
    from tack.runtime.gpu_driver import why_no_device
    from tack.runtime.hip_driver import driver

    return why_no_device(driver)


def _metal() -> Callable[..., Backend]:
    from tack.runtime.metal import MetalBackend

    return MetalBackend


def _metal_units() -> tuple[int, int]:
    from tack.runtime.metal_api import find_device

    return 0, int(find_device()[0] is not None)


def _metal_why() -> str:
    from tack.runtime.metal_api import find_device

    return find_device()[1]


# In order of preference: the first one that is available is the default.
_REGISTRY = {
    "cpu": _Row(_cpu, needs="llvmlite", extra="cpu"),
    "reference": _Row(_reference),
    "cuda": _Row(_cuda, extra="cuda", units=_cuda_units, why=_cuda_why),
    "hip": _Row(_hip, extra="hip", units=_hip_units, why=_hip_why),
    "metal": _Row(_metal, needs="Metal", extra="metal", units=_metal_units, why=_metal_why),
    "opencl": _Row(_opencl, needs="pyopencl", extra="opencl", units=_opencl_units),
    "level_zero": _Row(_level_zero, units=_level_zero_units, why=_level_zero_why),
}
_NUMBERS = {name: i for i, name in enumerate(_REGISTRY, 1)}
_UNIT_SHIFT = 4  # an array's key has eight bits for its device: up to 15 kinds, and 15 devices of a kind

_backends: dict[str, Backend] = {}
_lock = RLock()  # a collection may close a generator that stands in a block, and start while another block is entered
_default: Device | None = None
_entered: ContextVar[tuple[_Block, ...]] = ContextVar("tack_entered_devices", default=())


@record(frozen=True, repr=False)
class Device:
    """A device, as made by `tack.device`: a value, equal to every other of the same name.

    As a context manager it is the current device inside the block, in this thread only; blocks nest. A task has blocks
    of its own, and those that its thread was in when it was made, until they are left. A generator that is closed in
    the middle of a block leaves that one, wherever it is closed.

    Examples
    --------
    >>> with tack.device("reference"):
    ...     a = tack.zeros(3)
    >>> a.device
    tack.device('reference')
    """

    name: str

    def __repr__(self) -> str:
        return f"tack.device({self.name!r})"

    @property
    def number(self) -> int:
        """A small positive number, the same for all devices of this name."""
        kind, colon, number = self.name.partition(":")
        return _NUMBERS[kind] | ((int(number) + 1) << _UNIT_SHIFT if colon else 0)

    @property
    def backend(self) -> Backend:
        """The backend, made at its first use and shared by all devices of this name."""
        found = _backends.get(self.name)
        return _make_backend(self.name) if found is None else found

    def supports(self, capability: str) -> bool:
        """Whether the device has a capability, such as "f64", "host_memory" or "atomic_i32"."""
        return capability in self.backend.capabilities

    def supports_dtype(self, dtype: DType) -> bool:
        """Whether arrays and kernels of this device can have a dtype; all have the integers and f32."""
        return dtype is not f64 or self.supports("f64")

    def __enter__(self) -> Device:
        block = _Block(self, get_ident())
        with _lock:
            _open_blocks[block] = block
            _update_current_number()
        _entered.set((*_still_open(), block))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _lock:
            _leave_innermost(self)
            _update_current_number()
        _entered.set(_still_open())

    # The host path of reductions, for arrays, which know only their device.

    @staticmethod
    def empty_reduction(op: str) -> float:
        """What a reduction of no elements is; ValueError where it has no value."""
        from tack.runtime.reductions import empty_reduction

        return empty_reduction(op)

    @staticmethod
    def reduce_numpy(array: HostArray, op: str) -> float:
        """A reduction of the elements of a non-empty host array."""
        from tack.runtime.reductions import reduce_numpy

        return reduce_numpy(array, op)


@record(eq=False)
class _Block:
    """A ``with`` block of a device, and the thread that entered it.

    Contexts are copied: to tasks, which may outlive the block, and by free-threaded builds to new threads. A copy must
    not bring the device to where the block is not, which the native entry knows nothing of.
    """

    device: Device
    thread: int


# What the native call entry reads: the number of the device that is current in every thread, or 0 if they may differ.
current_number = ctypes.c_int64(0)
_open_blocks: dict[_Block, _Block] = {}  # of all threads, in order


def _still_open() -> tuple[_Block, ...]:
    """The blocks of this context, less those that were left in another one."""
    return tuple(block for block in _entered.get() if block in _open_blocks)


def _leave_innermost(device: Device) -> None:
    """Close the block of this very object.

    It need not be the last that was entered: a generator may be closed inside of another block, in another task, or by
    another thread that drops it. Only who takes it out of the dict has it: a collection may leave others meanwhile.
    """
    mine = (block for block in reversed(_entered.get()) if block.thread == get_ident())
    for block in (*mine, *reversed(list(_open_blocks))):
        if block.device is device and _open_blocks.pop(block, None) is not None:
            return


def _update_current_number() -> None:
    differs = any(block.device != _default for block in list(_open_blocks))
    current_number.value = 0 if _default is None or differs else _default.number


def _make_backend(name: str) -> Backend:
    with loading(), _lock:
        if name not in _backends:
            _backends[name] = _REGISTRY[name.partition(":")[0]].make(name)
        return _backends[name]


def device(name: str | Device) -> Device:
    """The device of a name.

    Raises
    ------
    ValueError
        If Tack has no device of this name; the message lists the names.
    ImportError
        If the device needs a package that is not installed; the message says which.

    Examples
    --------
    >>> tack.device("reference").supports("host_memory")
    True
    >>> tack.device("opencl:1")  # the second OpenCL device of the machine  # doctest: +SKIP
    """
    if isinstance(name, Device):
        return name
    if not isinstance(name, str):
        raise TypeError(f"a device is named by a string such as 'cpu', not by {type(name).__name__}")
    kind, colon, number = name.partition(":")
    row = _REGISTRY.get(kind)
    if row is None or (colon and row.units is None):
        raise ValueError(f"there is no device {name!r}; the devices of this machine are {_listed()}")
    if kind not in _backends and not row.installed:  # looking for a package that is not loaded takes up to 0.1 ms
        raise ImportError(
            f"device {name!r} needs {row.needs}: install tack-core[{row.extra}], or use one of {_listed()}"
        )
    if row.units is None:
        return Device(kind)
    default, count = row.units()
    known = {str(i): f"{kind}:{i}" for i in range(count)} | ({"": kind, str(default): kind} if count else {})
    if number not in known or name.endswith(":"):
        hint = "" if count else row.no_device(kind)
        raise ValueError(f"there is no device {name!r}: {hint}the devices of this machine are {_listed()}")
    return Device(known[number])


def _listed() -> str:
    return ", ".join(map(repr, devices()))


def _names() -> Iterator[str]:
    """The names of `devices`, found one by one: asking for OpenCL's loads its drivers."""
    for kind, row in _REGISTRY.items():
        yield from row.names(kind)


def devices() -> tuple[str, ...]:
    """The names of the devices that this machine can use, the default first.

    OpenCL's are "opencl", the first that the driver loader lists or the one that ``TACK_OPENCL_DEVICE`` numbers, and
    "opencl:N", the others by number.
    """
    return tuple(_names())


def current_device() -> Device:
    """The device of the innermost ``with tack.device(...)`` block of this thread, else the default device.

    The default is what `set_default_device` was last given, else what the variable ``TACK_DEVICE`` names, else the
    first of `devices`.

    Raises
    ------
    ValueError, ImportError
        If ``TACK_DEVICE`` names a device that does not exist, or cannot be used here.
    """
    for block in reversed(_entered.get()):
        if block.thread == get_ident() and block in _open_blocks:
            return block.device
    if _default is None:
        return set_default_device(_first_default())
    return _default


def _first_default() -> Device:
    name = os.environ.get("TACK_DEVICE", "").strip()
    if not name:
        return Device(next(_names()))
    try:
        return device(name)
    except (ValueError, ImportError) as error:
        raise type(error)(f"TACK_DEVICE={name}: {error}") from None


def set_default_device(name: str | Device) -> Device:
    """Make a device the default of the process, for all threads; returns it.

    Raises
    ------
    ValueError, ImportError
        As `device` does; the default then stays as it was.
    """
    global _default
    chosen = device(name)
    with _lock:
        _default = chosen
        _update_current_number()
    return chosen


def synchronize() -> None:
    """Wait until every kernel called so far, on every device, has finished."""
    for backend in list(_backends.values()):
        backend.synchronize()
