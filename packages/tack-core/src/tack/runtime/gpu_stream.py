"""The stream and the modules of a GPU whose driver is a `GpuDriver`: CUDA's and HIP's."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, Final

from tack.codegen.gpu_launcher_ir import MOST_PENDING
from tack.codegen.launch_plan import LaunchPlan
from tack.runtime.gpu_driver import GpuDriver, GpuError
from tack.runtime.gpu_memory import Cell, Cells, Event, HostArray, Staging
from tack.runtime.native_launch import CallLock, NativeTable, native_table, result_waiter
from tack.runtime.queued_launch import LaunchQueue

if TYPE_CHECKING:
    from tack.runtime.cuda_textures import TextureImages

_LAUNCHES_OF_A_CALL: Final = 16  # or fewer, mostly; what has more is launched from Python
_WORD: Final = 8  # no parameter is wider
_UNWRITTEN: Final = 0x7FB5C3D17FB5C3D1  # what a cell holds before its result; a NaN that no arithmetic gives
_UNSURE_BYTES: Final = 4  # a result narrower than this may well be a part of it
_pack_address = struct.Struct("<Q").pack


class Stream(LaunchQueue):
    """The context and the one stream of a device, which calls of all threads share in order.

    The stream waits for, and is waited for by, the legacy default stream, so arrays of other libraries need no hand-off
    as long as these use theirs.
    """

    driver_errors = (GpuError,)

    def __init__(self, driver: GpuDriver, number: int, label: str) -> None:
        super().__init__()
        self.driver, self.label, self.error = driver, label, driver.error  # type: ignore[misc]
        self.most_groups = driver.most_groups
        self.context, self.handle = driver.context(number), c_void_p()
        driver.set_current(self.context)
        driver.stream_create(byref(self.handle), 0)
        self.lock: CallLock = CallLock()
        self._cells, self._staging = Cells(self), Staging(self)
        self.images: TextureImages | None = None  # where the device filters textures
        self._await: Any = None  # sees a result sooner than the driver's wait returns
        self._pending, self._throttling = ctypes.c_int64(0), threading.RLock()  # a finalizer may launch, too
        self._reached, self._before = Event(self, timing=False), Event(self, timing=False)

    def begin(self) -> None:
        """Refuse a forked process; make the device's context the current one of this thread."""
        super().begin()
        self.driver.set_current(self.context)

    def throttle(self) -> None:
        """Wait for the launches that were pending when this last did something, if so many have come since."""
        if self._pending.value + _LAUNCHES_OF_A_CALL < MOST_PENDING:
            return
        with self._throttling:  # not the calls' lock: who waits for the GIL must not hold what is spun for with it
            if self._pending.value + _LAUNCHES_OF_A_CALL >= MOST_PENDING:
                self.begin()
                self._reached, self._before = self._before, self._reached
                self._reached.record(self.handle)
                self._pending.value = 0
                self._before.wait()

    def wait(self) -> None:
        """Wait until all that was enqueued is over."""
        self.begin()
        self.driver.stream_wait(self.handle)
        self._pending.value = 0

    # -- launches

    def resolve(self, address: int) -> bytes:
        return _pack_address(address)

    def texture(self, address: int, shape: tuple[int, ...]) -> bytes:
        assert self.images is not None
        return _pack_address(self.images.find(address, shape))

    def launch(self, function: c_void_p, values: Sequence[bytes], groups: int, group: int) -> None:
        self._pending.value += 1
        words = ctypes.create_string_buffer(b"".join(v.ljust(_WORD, b"\0") for v in values))
        start = ctypes.addressof(words)
        pointers = (c_void_p * len(values))(*range(start, start + _WORD * len(values), _WORD))
        self.driver.launch(function, groups, 1, 1, group, 1, 1, 0, self.handle, pointers, None)

    def native(self, plan: LaunchPlan, functions: Sequence[c_void_p]) -> NativeTable | None:
        self._await = result_waiter()
        words = {name: self.driver.address(name) for name in ("set_current", "launch")}
        words["pending_address"] = ctypes.addressof(self._pending)
        words |= {"context": self.context.value or 0, "stream": self.handle.value or 0}
        return native_table(plan, [f.value or 0 for f in functions], self.most_groups, words, self.lock)

    def refused(self, code: int) -> Exception:
        return self.driver.explain(code, self.driver.names["launch"])

    def cell(self, nbytes: int) -> Cell:
        cell = self._cells.take()
        self.expect(cell)
        return cell

    def expect(self, cell: Cell) -> None:
        ctypes.c_int64.from_address(cell.address).value = _UNWRITTEN

    def arrive(self, cell: Cell, nbytes: int) -> None:
        if self._await and nbytes >= _UNSURE_BYTES and self._await(cell.address, _UNWRITTEN):
            self._pending.value = 0  # what was enqueued before is over: the result came after it
        else:
            self.wait()

    def read(self, cell: Cell, nbytes: int) -> bytes:
        self.arrive(cell, nbytes)
        found = ctypes.string_at(cell.address, nbytes)
        cell.give_back()
        return found

    # -- copies

    def upload(self, address: int, source: HostArray) -> None:
        """Copy a C-contiguous host array; returns when it has been read."""
        self.begin()
        start, nbytes = source.ctypes.data, source.nbytes
        if nbytes and not self._staging.upload(address, start, nbytes):
            self.driver.upload(address, start, nbytes, self.handle)
            self.driver.stream_wait(self.handle)  # the caller may change the source at once
        if self.images is not None:
            self.images.changed(address)

    def download(self, address: int, target: HostArray) -> None:
        """Copy into a C-contiguous host array; returns when it is there."""
        self.begin()
        start, nbytes = target.ctypes.data, target.nbytes
        if nbytes and not self._staging.download(start, address, nbytes):
            self.driver.download(start, address, nbytes, self.handle)
            self.driver.stream_wait(self.handle)

    # -- streams of other libraries

    def wait_for(self, other: int) -> None:
        """Let what is enqueued from now on come after what another stream has now."""
        self._order(other, self.handle)

    def let_wait(self, other: int) -> None:
        """Let what another stream gets from now on come after what is enqueued here now."""
        self._order(self.handle, other)

    def _order(self, first: int | c_void_p, then: int | c_void_p) -> None:
        self.begin()
        event = Event(self, timing=False)
        event.record(first)
        self.driver.stream_wait_event(then, event.handle, 0)


class Module:
    """Loaded machine code; unloaded when nothing refers to it any more."""

    def __init__(self, stream: Stream, code: bytes) -> None:
        self._stream, self._handle = stream, c_void_p()
        stream.begin()
        stream.driver.module_load(byref(self._handle), code)

    def function(self, name: str) -> c_void_p:
        """The kernel of a name; it goes when the module does."""
        found = c_void_p()
        self._stream.driver.module_function(byref(found), self._handle, name.encode())
        return found

    def __del__(self) -> None:
        if self._handle.value and self._stream.is_usable():
            self._stream.begin()
            self._stream.driver.module_unload(self._handle)  # waits for the kernels that are running
