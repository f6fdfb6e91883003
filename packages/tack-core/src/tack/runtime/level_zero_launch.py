"""The queue, the memory and the programs of a Level Zero device.

The queue is one immediate command list, with a barrier before each command: so it is in order on every driver, also on
those that do not know the flag for that. The host waits for events.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_void_p
from typing import Any, ClassVar, Final

import numpy as np

from tack.runtime.level_zero_compiler import is_spirv
from tack.runtime.level_zero_driver import (
    FOREVER,
    ContextDesc,
    DeviceInfo,
    DeviceMemoryDesc,
    Driver,
    EventDesc,
    EventPoolDesc,
    GroupCount,
    HostMemoryDesc,
    KernelDesc,
    LevelZeroError,
    ModuleDesc,
    QueueDesc,
)
from tack.runtime.queued_launch import LaunchQueue

HostArray = np.ndarray[Any, Any]

_ALIGNMENT: Final = 64
_RETIRED_BYTES: Final = 256 << 20  # so much memory that nobody refers to may wait for the queue
_EVENTS: Final = 16  # a pool's
_HOST_VISIBLE, _SCOPE_HOST, _ASYNCHRONOUS = 1, 4, 2  # ZE_EVENT_POOL_, ZE_EVENT_SCOPE_FLAG_; ZE_COMMAND_QUEUE_MODE_
_SPIRV: Final = 0  # ZE_MODULE_FORMAT_IL_SPIRV
_NO_EVENTS: Final = (None, 0, None)


class Stream(LaunchQueue):
    """The context and the one queue of a device, which calls of all threads share in order.

    Level Zero neither counts references nor waits: what is freed must be out of use. So memory, kernels and modules
    that nothing refers to any more are retired first, and freed after the next wait.
    """

    driver_errors: ClassVar[tuple[type[Exception], ...]] = (LevelZeroError,)
    error: ClassVar[type[Exception]] = LevelZeroError

    def __init__(self, ze: Driver, device: DeviceInfo, label: str) -> None:
        super().__init__()
        self.ze, self.device, self.label, self.most_groups = ze, device, label, device.most_groups
        self.lock = threading.RLock()
        self.context = ze.new("zeContextCreate", device.driver_handle, byref(ContextDesc()))
        wanted = QueueDesc(ordinal=device.queue_group, mode=_ASYNCHRONOUS)
        self._list = ze.new("zeCommandListCreateImmediate", self.context, device.handle, byref(wanted))
        self._events: list[c_void_p] = []
        self._cells: list[Memory] = []
        # Filled by destructors, which the collector may run anywhere: a deque needs no lock.
        self._retired: deque[tuple[str, tuple[Any, ...], int]] = deque()
        self._retired_bytes = 0

    # -- commands; the caller holds the lock

    def append(self, command: str, *arguments: Any) -> None:
        """Enqueue one command, which waits for all before it."""
        self.ze.zeCommandListAppendBarrier(self._list, *_NO_EVENTS)
        getattr(self.ze, command)(self._list, *arguments, *_NO_EVENTS)

    def fill(self, address: int, pattern: bytes, nbytes: int) -> None:
        """Enqueue filling memory with a pattern."""
        self.append("zeCommandListAppendMemoryFill", address, pattern, len(pattern), nbytes)

    def launch(self, function: Function, values: Sequence[Any], groups: int, group: int) -> None:
        function.set_group(group)
        for index, value in enumerate(values):
            self.ze.zeKernelSetArgumentValue(function.handle, index, len(value), value)
        self.append("zeCommandListAppendLaunchKernel", function.handle, byref(GroupCount(groups, 1, 1)))

    # -- waiting

    def wait(self) -> None:
        """Wait until all that was enqueued is over; then free what was retired before."""
        with self.lock:
            self.begin()
            retired = [self._retired.popleft() for _ in range(len(self._retired))]
            try:
                event = self._events.pop() if self._events else self._make_events()
                self.ze.zeCommandListAppendBarrier(self._list, event, 0, None)
            except BaseException:
                self._retired.extendleft(reversed(retired))
                raise
        try:
            self.ze.zeEventHostSynchronize(event, FOREVER)
        except BaseException:  # nobody knows what still runs
            self._retired.extendleft(reversed(retired))
            raise
        self.ze.zeEventHostReset(event)
        self._events.append(event)
        for function, arguments, nbytes in retired:
            self._retired_bytes -= nbytes
            getattr(self.ze, function)(*arguments)

    def _make_events(self) -> c_void_p:
        """One event; others of its pool are kept for later waits."""
        wanted = EventPoolDesc(flags=_HOST_VISIBLE, count=_EVENTS)
        pool = self.ze.new("zeEventPoolCreate", self.context, byref(wanted), 0, None)
        descriptions = [EventDesc(index=i, signal=_SCOPE_HOST, wait=_SCOPE_HOST) for i in range(_EVENTS)]
        first, *others = [self.ze.new("zeEventCreate", pool, byref(d)) for d in descriptions]
        self._events += others
        return first

    def retire(self, function: str, *arguments: Any, nbytes: int = 0) -> None:
        """Free something after the next wait."""
        self._retired.append((function, arguments, nbytes))
        self._retired_bytes += nbytes

    # -- memory

    def allocate(self, nbytes: int) -> Memory:
        """Memory of any content.

        Raises
        ------
        MemoryError
            If the device has no room, also after freeing what was retired, or no allocation may be so large.
        """
        if nbytes > self.device.most_bytes:
            raise MemoryError(f"an array of {nbytes} bytes: {self.label} allows {self.device.most_bytes} an array")
        if self._retired_bytes > _RETIRED_BYTES:
            self.wait()
        try:
            return Memory(self, nbytes)
        except MemoryError:
            self.wait()
        try:
            return Memory(self, nbytes)
        except MemoryError as error:
            raise MemoryError(f"an array of {nbytes} bytes on {self.label}: {error}") from None

    def upload(self, address: int, source: HostArray) -> None:
        """Copy a C-contiguous host array to the device, after all that was enqueued."""
        if not source.nbytes:
            return
        if self.device.integrated:
            self.wait()
            ctypes.memmove(address, source.ctypes.data, source.nbytes)
            return
        with self.lock:
            self.begin()
            self.append("zeCommandListAppendMemoryCopy", address, source.ctypes.data, source.nbytes)
        self.wait()  # the caller may change the source at once

    def download(self, address: int, target: HostArray) -> None:
        """Copy into a C-contiguous host array, after all that was enqueued."""
        if not target.nbytes:
            return
        if self.device.integrated:
            self.wait()
            ctypes.memmove(target.ctypes.data, address, target.nbytes)
            return
        with self.lock:
            self.begin()
            self.append("zeCommandListAppendMemoryCopy", target.ctypes.data, address, target.nbytes)
        self.wait()

    # -- what a launch needs

    def resolve(self, address: int) -> bytes:
        return address.to_bytes(8, "little")

    def cell(self, nbytes: int) -> Memory:
        return self._cells.pop() if self._cells else self.allocate(8)

    def read(self, cell: Memory, nbytes: int) -> bytes:
        found = np.zeros(nbytes, np.uint8)
        self.download(cell.address, found)
        self._cells.append(cell)
        return found.tobytes()


class Memory:
    """One allocation, retired when nothing refers to it any more. The host may read and write an integrated GPU's."""

    __slots__ = ("_nbytes", "_stream", "address")

    def __init__(self, stream: Stream, nbytes: int) -> None:
        self._stream, self._nbytes, self.address = stream, nbytes, 0
        description, size = DeviceMemoryDesc(), c_size_t(max(1, nbytes))
        place = (size, c_size_t(_ALIGNMENT), c_void_p(stream.device.handle))
        if stream.device.integrated:
            host = byref(HostMemoryDesc())
            pointer = stream.ze.new("zeMemAllocShared", stream.context, byref(description), host, *place)
        else:
            pointer = stream.ze.new("zeMemAllocDevice", stream.context, byref(description), *place)
        self.address = pointer.value or 0

    def __del__(self) -> None:
        if self.address:
            self._stream.retire("zeMemFree", self._stream.context, self.address, nbytes=self._nbytes)


class Module:
    """A module made of SPIR-V; retired with its kernels when nothing refers to it or to one of them any more.

    Parameters
    ----------
    stream
        Of the device.
    spirv
        What the compiler gave, now or in an earlier process. Drivers take the process down for SPIR-V that is none, so
        it comes from the compiler or, verified, from the disk cache, and from nowhere else.
    flags
        Options of the driver's own compiler.
    name
        For messages.

    Raises
    ------
    LevelZeroError
        If the driver cannot compile it; the message has its words.
    """

    def __init__(self, stream: Stream, spirv: bytes, flags: str, name: str) -> None:
        self._stream, self._handle, log = stream, c_void_p(), c_void_p()
        self._kernels: list[c_void_p] = []
        if not is_spirv(spirv):
            raise ValueError("not SPIR-V")
        wanted = ModuleDesc(format=_SPIRV, inputSize=len(spirv), pInputModule=spirv, pBuildFlags=flags.encode())
        create, device = stream.ze.zeModuleCreate, stream.device.handle
        try:
            create(stream.context, device, byref(wanted), byref(self._handle), byref(log))
        except LevelZeroError as error:
            words = self._words(log)
            text = f"kernel `{name}`: {stream.label} cannot compile its SPIR-V: {error}\n{words}"
            raise LevelZeroError(text) from None
        finally:
            if log.value:
                stream.ze.zeModuleBuildLogDestroy(log)

    def _words(self, log: c_void_p) -> str:
        if not log.value:
            return ""
        size, read = c_size_t(), self._stream.ze.zeModuleBuildLogGetString
        read(log, byref(size), None)
        text = ctypes.create_string_buffer(size.value + 1)
        read(log, byref(size), text)
        return text.value.decode(errors="replace")

    def function(self, name: str) -> Function:
        """A kernel of the module, for one executable: its arguments are part of it."""
        wanted = KernelDesc(pKernelName=name.encode())
        self._kernels.append(self._stream.ze.new("zeKernelCreate", self._handle, byref(wanted)))
        return Function(self, self._stream, self._kernels[-1])

    def __del__(self) -> None:
        for kernel in self._kernels:  # first: the collector would let a kernel go after its module
            self._stream.retire("zeKernelDestroy", kernel)
        if self._handle.value:
            self._stream.retire("zeModuleDestroy", self._handle)


class Function:
    """A kernel of a module, with the arguments that were last set."""

    __slots__ = ("_group", "_module", "_stream", "handle")

    def __init__(self, module: Module, stream: Stream, handle: c_void_p) -> None:
        self._module, self._stream, self.handle = module, stream, handle
        self._group = 0

    def set_group(self, group: int) -> None:
        """The threads a group of the launches to come."""
        if group != self._group:
            self._stream.ze.zeKernelSetGroupSize(self.handle, group, 1, 1)
            self._group = group
