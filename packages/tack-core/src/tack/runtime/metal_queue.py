"""The memory, the programs and the queue of command buffers of a Metal device.

A call is one command buffer with one encoder, whose dispatches run in order; the buffers of a queue do too. Arrays
are addresses inside an argument buffer, so Metal does not see them: each is declared to the encoder with
`useResource`, and kept alive here until its command buffer is over.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from tack.lang.records import record
from tack.runtime.metal_api import MetalError, api, pool
from tack.runtime.queued_launch import LaunchQueue

HostArray = np.ndarray[Any, Any]

_MOST_THREADS: Final = 1 << 31  # thread positions have 32 bits
_INLINE_BYTES: Final = 4096  # the most that `setBytes` takes
_CELL_BYTES: Final = 8
_MOST_SENT: Final = 48  # a queue has room for 64 command buffers, and then blocks with our lock held


class Memory:
    """A buffer in storage that the host shares; it goes when nothing refers to it any more.

    Attributes
    ----------
    view
        Its bytes, for the host.
    address
        Where they are for the host.
    owner
        Whose memory it is, where Metal did not allocate it.
    """

    __slots__ = ("__weakref__", "address", "buffer", "larger", "owner", "view")

    def __init__(self, buffer: Any, nbytes: int, owner: object = None) -> None:
        self.buffer, self.owner = buffer, owner
        self.view: HostArray = np.frombuffer(buffer.contents().as_buffer(nbytes), np.uint8)
        self.address = int(self.view.__array_interface__["data"][0])
        self.larger: Memory | None = None  # another buffer at this address, which the queue's table has instead


class Pipeline:
    """One kernel, ready to run; `state` is Metal's object."""

    __slots__ = ("name", "state")

    def __init__(self, name: str, state: Any) -> None:
        self.name, self.state = name, state


@record(frozen=True)
class Launch:
    """A launch that is not encoded yet; `data` are the bytes of its argument buffer, which point to `memories`."""

    function: Pipeline
    data: bytes
    memories: list[Memory]
    groups: int
    group: int


class Commands:
    """A command buffer, its encoder, and what must outlive it."""

    __slots__ = ("buffer", "encoder", "memories", "names")

    def __init__(self, buffer: Any) -> None:
        self.buffer, self.encoder = buffer, buffer.computeCommandEncoder()
        self.memories: set[Memory] = set()
        self.names: list[str] = []

    def use(self, memory: Memory) -> None:
        """Make memory resident for what is dispatched from now on."""
        if memory not in self.memories:
            usage = api().MTLResourceUsageRead | api().MTLResourceUsageWrite
            self.encoder.useResource_usage_(memory.buffer, usage)
            self.memories.add(memory)

    def failure(self) -> str | None:
        """What went wrong, if something did."""
        if self.buffer.status() != api().MTLCommandBufferStatusError:
            return None
        error = self.buffer.error()
        words = "no reason given" if error is None else error.localizedDescription()
        return f"kernel `{', '.join(dict.fromkeys(self.names))}` failed: {words}"

    def is_done(self) -> bool:
        return bool(self.buffer.status() == api().MTLCommandBufferStatusCompleted)


class MetalQueue(LaunchQueue):
    """The one queue of a device, which calls of all threads share in order."""

    driver_errors: ClassVar[tuple[type[Exception], ...]] = (MetalError,)
    error: ClassVar[type[Exception]] = MetalError

    def __init__(self, device: Any) -> None:
        super().__init__()
        self.device, self.label = device, f"metal ({device.name()})"
        self.most_lanes = int(device.maxThreadsPerThreadgroup().width)
        self.most_groups = _MOST_THREADS // self.most_lanes
        self.lock = threading.RLock()
        self._queue = device.newCommandQueue()
        self._memories: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
        self._cells: list[Memory] = []
        self._recorded: list[Launch] = []
        self._sent: deque[Commands] = deque()

    def throttle(self) -> None:
        sent = self._sent.copy()
        if len(sent) >= _MOST_SENT:
            with pool():
                sent[-_MOST_SENT].buffer.waitUntilCompleted()

    # -- memory

    def allocate(self, nbytes: int) -> Memory:
        """Zero-filled memory.

        Raises
        ------
        MemoryError
            If the device has no room, also when all calls are over, or no buffer may be so large.
        """
        self.begin()
        limit = int(self.device.maxBufferLength())
        if nbytes > limit:
            raise MemoryError(f"an array of {nbytes} bytes: {self.label} allows {limit} an array")
        size = max(1, nbytes)  # there are no empty buffers
        with pool():
            made = self._new_buffer(size)
            if made is None:
                self.wait()
                made = self._new_buffer(size)
            if made is None:
                raise MemoryError(f"an array of {nbytes} bytes on {self.label}: no room")
            memory = Memory(made, size)
        memory.view[:] = 0
        return self._known(memory)

    def _new_buffer(self, size: int) -> Any:
        return self.device.newBufferWithLength_options_(size, api().MTLResourceStorageModeShared)

    def import_pages(self, values: HostArray) -> Memory | None:
        """The memory of a host array as a buffer; None if Metal does not take it."""
        self.begin()
        data = as_bytes(values).data
        shared = api().MTLResourceStorageModeShared
        with pool():
            made = self.device.newBufferWithBytesNoCopy_length_options_deallocator_(data, data.nbytes, shared, None)
            if made is None:
                return None
            memory = Memory(made, data.nbytes, values)
        # A bridge that hands over a copy would lose what kernels store.
        return self._known(memory) if memory.address == values.__array_interface__["data"][0] else None

    def _known(self, memory: Memory) -> Memory:
        """Enter memory in the table; of buffers at one address the largest is the one that is used."""
        with self.lock:
            other = self._memories.get(memory.address)
            if other is not None and other.view.nbytes >= memory.view.nbytes:
                return other
            if other is not None:
                other.larger = memory
            self._memories[memory.address] = memory
        return memory

    def bytes_at(self, address: int, nbytes: int) -> HostArray:
        """Bytes of an array, for the host; no call may be running."""
        memory = self._memories.get(address) or self._around(address)
        start = address - memory.address
        return memory.view[start : start + nbytes]

    def _around(self, address: int) -> Memory:
        memories = list(self._memories.values())
        return next(m for m in memories if m.address <= address < m.address + m.view.nbytes)

    def resolve(self, address: int) -> Memory:
        return self._memories[address]

    # -- commands; the caller holds the lock

    def launch(self, function: Pipeline, values: Sequence[Any], groups: int, group: int) -> None:
        memories = [value for value in values if isinstance(value, Memory)]
        data = b"".join(v if isinstance(v, bytes) else int(v.buffer.gpuAddress()).to_bytes(8, "little") for v in values)
        # The structure's own size is a multiple of its alignment.
        self._recorded.append(Launch(function, data + bytes(-len(data) % 8), memories, groups, group))

    def flush(self) -> None:
        """Encode and commit what was recorded. A finalizer that launches meanwhile gets a command buffer of its own."""
        recorded, self._recorded = self._recorded, []
        if not recorded:
            return
        with pool():
            buffer = self._queue.commandBuffer()
            if buffer is None:
                raise MetalError(f"{self.label}: no command buffer")
            commands = Commands(buffer)
            try:
                for launch in recorded:
                    self._encode(commands, launch)
            finally:
                commands.encoder.endEncoding()  # letting an encoder go without it ends the process
            buffer.commit()
            self._sent.append(commands)
            while self._sent and self._sent[0].is_done():
                self._sent.popleft()

    def _encode(self, commands: Commands, launch: Launch) -> None:
        commands.names.append(launch.function.name)
        commands.encoder.setComputePipelineState_(launch.function.state)
        for memory in launch.memories:
            commands.use(memory)
        self._set_arguments(commands, launch.data)
        size = api().MTLSizeMake
        groups, group = size(launch.groups, 1, 1), size(launch.group, 1, 1)
        commands.encoder.dispatchThreadgroups_threadsPerThreadgroup_(groups, group)

    def _set_arguments(self, commands: Commands, data: bytes) -> None:
        if 0 < len(data) <= _INLINE_BYTES:
            commands.encoder.setBytes_length_atIndex_(data, len(data), 0)
        elif data:
            made = self._new_buffer(len(data))
            if made is None:
                raise MetalError(f"{self.label}: no room for {len(data)} bytes of arguments")
            memory = Memory(made, len(data))
            memory.view[:] = np.frombuffer(data, np.uint8)
            commands.memories.add(memory)
            commands.encoder.setBuffer_offset_atIndex_(made, 0, 0)

    # -- waiting

    def wait(self) -> None:
        """Wait until all that was enqueued is over.

        Raises
        ------
        MetalError
            If a call has failed since the last wait.
        """
        with self.lock:
            self.begin()
            self.flush()
            sent = list(self._sent)
        with pool():
            if sent:
                sent[-1].buffer.waitUntilCompleted()  # the queue is in order: so are all before it
            with self.lock:
                over = [commands for commands in sent if commands in self._sent]
                for commands in over:
                    self._sent.remove(commands)
            failures = [text for commands in over if (text := commands.failure()) is not None]
        if failures:
            raise MetalError(f"{self.label}: {failures[0]}")

    def cell(self, nbytes: int) -> Memory:
        return self._cells.pop() if self._cells else self.allocate(_CELL_BYTES)

    def read(self, cell: Memory, nbytes: int) -> bytes:
        self.wait()
        found = cell.view[:nbytes].tobytes()
        self._cells.append(cell)
        return found


def as_bytes(values: HostArray) -> HostArray:
    """The bytes of a C-contiguous array, on the same memory."""
    return values.reshape(-1).view(np.uint8)
