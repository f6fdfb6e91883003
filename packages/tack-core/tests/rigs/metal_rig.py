"""A stand-in for PyObjC's `Metal` and `objc`, which executes: the classes that Tack's backend touches, on the host.

Generated text is compiled for the host (`host_compile`) and run by `c_device/rig.c`. Buffers are mapped twice, for the
host and for the "GPU", and begin as poison. Command buffers run as late as the real API allows: when somebody waits,
so that what reads too early reads what was there before. What makes the real API abort the process raises `Abort`.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from rigs import device_rig, host_compile
from rigs.text_compilers import Rejected

POISON = 0xA5
_PAGE = mmap.PAGESIZE
_IN_FLIGHT = 64  # command buffers of a queue
_INLINE = 4096  # bytes that setBytes takes
_MOST_BINDINGS = 31
_LANES = 1024
_DONE, _BAD_ADDRESS, _DIVERGED, _KILLED = range(4)  # of `c_device/rig.h`
_VALUE, _POINTER, _REFERENCE, _ID = range(4)
_WHY = {
    _BAD_ADDRESS: "Caused GPU Address Fault Error (0000000b:kIOGPUCommandBufferCallbackErrorPageFault)",
    _DIVERGED: "a barrier that not all threads of a group reach",
    _KILLED: "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
}
NOT_ENQUEUED, COMMITTED, COMPLETED, ERROR = 0, 2, 4, 5


class Abort(AssertionError):
    """The real API ends the process here."""


class Refused(Exception):
    """What an `NSError` says."""

    def localizedDescription(self) -> str:
        return str(self)


class MTLSize(NamedTuple):
    width: int
    height: int
    depth: int


class _Parameter(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint), ("size", ctypes.c_uint), ("align", ctypes.c_uint))


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("thread", ctypes.c_void_p),
        ("parameters", ctypes.POINTER(_Parameter)),
        ("count", ctypes.c_uint),
        ("most", ctypes.c_uint),
        ("waits", ctypes.c_uint),
    )


class Switches:
    """What tests change, and what they look at."""

    def __init__(self) -> None:
        self.limit = 1 << 40  # bytes of all buffers together
        self.compiles = True
        self.most_lanes = _LANES  # that a pipeline is made for
        self.copies = False  # PyObjC hands over a copy of memory that is to be imported
        self.fast_math: list[bool] = []  # of each library made
        self.notes: list[str] = []
        self.buffers: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self.live: weakref.WeakSet[Any] = weakref.WeakSet()  # command buffers, libraries, pipelines
        self.executed = 0
        self.blocked = 0  # how often a queue had no room for a command buffer

    def note(self, text: str) -> None:
        """Something wrong that cannot be raised where it is found."""
        self.notes.append(text)

    @property
    def live_bytes(self) -> int:
        return sum(b.length() for b in self.buffers)

    @contextmanager
    def limited(self, more: int) -> Iterator[None]:
        """A device with room for so many more bytes."""
        before, self.limit = self.limit, self.live_bytes + more
        try:
            yield
        finally:
            self.limit = before

    @contextmanager
    def killing(self, groups: int) -> Iterator[None]:
        """A GPU that gives a launch up after so many more groups of threads."""
        left = ctypes.c_longlong.in_dll(device_rig.core(), "rig_groups_left")
        left.value = groups
        try:
            yield
        finally:
            left.value = -1

    @contextmanager
    def running_only_the_ends(self, groups: int) -> Iterator[None]:
        """Of each launch only so many groups at its start and end run."""
        ends = ctypes.c_uint.in_dll(device_rig.core(), "rig_ends")
        ends.value = groups
        try:
            yield
        finally:
            ends.value = 0


SWITCHES = Switches()
_C = ctypes.CDLL(None)
_pools = threading.local()
_running = threading.Lock()


class autorelease_pool:
    """`objc.autorelease_pool`."""

    def __enter__(self) -> None:
        _pools.depth = getattr(_pools, "depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        _pools.depth -= 1


def _in_pool(what: str) -> None:
    """Objects that Metal returns autoreleased are never freed without a pool around."""
    if not getattr(_pools, "depth", 0):
        raise Abort(f"{what} outside of an autorelease pool")


class Varlist:
    """`objc.varlist`: memory of unknown size."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def as_buffer(self, count: int) -> memoryview:
        if count > self._buffer.length():
            raise Abort(f"{count} bytes of a buffer of {self._buffer.length()}")
        return self._buffer.host[:count]


class Buffer:
    """`MTLBuffer`. The GPU's mapping of it is gone when it is freed; a page that nothing can touch follows it."""

    def __init__(self, host: memoryview, gpu: mmap.mmap | None) -> None:
        self.host, self._gpu, self._length = host, gpu, host.nbytes
        self._address = _address(host if gpu is None else memoryview(gpu))
        SWITCHES.buffers.add(self)

    def length(self) -> int:
        return self._length

    def contents(self) -> Varlist:
        return Varlist(self)

    def gpuAddress(self) -> int:
        return self._address

    def has(self, address: int) -> bool:
        """Whether it is an address of it on the GPU."""
        return self._address <= address < self._address + self._length

    def hosts_any(self, words: memoryview) -> bool:
        """Whether some number is an address of it that is the host's alone."""
        start = _address(self.host)
        return start != self._address and any(start <= word < start + self._length for word in words)

    def overrun(self) -> bool:
        """Whether a kernel wrote past the end, up to the end of the page."""
        tail = -self._length % _PAGE
        return self._gpu is not None and self._gpu[self._length : self._length + tail] != bytes([POISON]) * tail

    def __del__(self) -> None:
        if self._gpu is not None:
            self._gpu.close()


def _address(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _map_twice(nbytes: int) -> tuple[memoryview, mmap.mmap]:
    whole = -(-nbytes // _PAGE) * _PAGE
    fd = os.memfd_create("metal")
    try:
        os.ftruncate(fd, whole + _PAGE)
        host, gpu = mmap.mmap(fd, whole), mmap.mmap(fd, whole + _PAGE)
    finally:
        os.close(fd)
    ctypes.memset(_address(memoryview(host)), POISON, whole)
    guard = ctypes.c_void_p(_address(memoryview(gpu)) + whole)
    if _C.mprotect(guard, ctypes.c_size_t(_PAGE), 0):
        raise OSError("mprotect")
    return memoryview(host)[:nbytes], gpu


class Function:
    """`MTLFunction`."""

    def __init__(self, kernel: _Kernel, library: Library) -> None:
        self.kernel, self.library = kernel, library
        parameters = [kernel.parameters[i] for i in range(kernel.count)]
        self.bindings = [(p.kind, p.size) for p in parameters if p.kind != _ID]


class Library:
    """`MTLLibrary`."""

    def __init__(self, table: int) -> None:
        self._kernels: dict[str, _Kernel] = {}
        for i in itertools.count():
            kernel = _Kernel.from_address(table + i * ctypes.sizeof(_Kernel))
            if not kernel.name:
                break
            self._kernels[kernel.name.decode()] = kernel
        SWITCHES.live.add(self)

    def newFunctionWithName_(self, name: str) -> Function | None:
        kernel = self._kernels.get(name)
        return None if kernel is None else Function(kernel, self)


class _Made:
    """A class with Objective-C's two steps of construction."""

    @classmethod
    def alloc(cls) -> Any:
        return cls.__new__(cls)

    def init(self) -> Any:
        return self


class MTLCompileOptions(_Made):
    fast_math = True  # Metal's default

    def setFastMathEnabled_(self, on: bool) -> None:
        self.fast_math = on


class MTLComputePipelineDescriptor(_Made):
    function: Function | None = None
    most = 0

    def setComputeFunction_(self, function: Function | None) -> None:
        self.function = function

    def setMaxTotalThreadsPerThreadgroup_(self, most: int) -> None:
        self.most = most


class Pipeline:
    """`MTLComputePipelineState`."""

    def __init__(self, function: Function, most: int) -> None:
        self.function, self._most = function, most
        SWITCHES.live.add(self)

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return self._most


class Dispatch(NamedTuple):
    """A launch as it was encoded; `arguments` are bytes, or a buffer and an offset."""

    pipeline: Pipeline
    arguments: list[bytes | tuple[Buffer, int]]
    resident: list[weakref.ref[Buffer]]
    groups: MTLSize
    size: MTLSize


class Encoder:
    """`MTLComputeCommandEncoder`."""

    def __init__(self, commands: CommandBuffer) -> None:
        self._commands, self.ended = weakref.ref(commands), False
        self._pipeline: Pipeline | None = None
        self._bound: dict[int, bytes | tuple[Buffer, int]] = {}
        self._resident: list[weakref.ref[Buffer]] = []  # it does not keep what it is told of

    def _check_open(self) -> None:
        if self.ended:
            raise Abort("an encoder that has ended")

    def setComputePipelineState_(self, pipeline: Pipeline) -> None:
        self._check_open()
        self._pipeline = pipeline

    def setBytes_length_atIndex_(self, data: bytes, length: int, index: int) -> None:
        self._check_open()
        if not 0 < length <= min(_INLINE, len(data)):
            raise Abort(f"setBytes of {length} bytes, of {len(data)} given")
        self._bind(index, bytes(data[:length]))

    def setBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, index: int) -> None:
        self._check_open()
        if not 0 <= offset < buffer.length():
            raise Abort(f"offset {offset} in a buffer of {buffer.length()} bytes")
        self._bind(index, (buffer, offset))

    def _bind(self, index: int, value: bytes | tuple[Buffer, int]) -> None:
        if not 0 <= index < _MOST_BINDINGS:
            raise Abort(f"index {index} of an argument")
        self._bound[index] = value

    def useResource_usage_(self, buffer: Buffer, usage: int) -> None:
        self._check_open()
        if usage != MTLResourceUsageRead | MTLResourceUsageWrite:
            raise Abort("Tack does not know whether a kernel only reads")
        self._resident.append(weakref.ref(buffer))

    def dispatchThreadgroups_threadsPerThreadgroup_(self, groups: MTLSize, size: MTLSize) -> None:
        self._check_open()
        pipeline = self._pipeline
        if pipeline is None:
            raise Abort("a dispatch without a pipeline")
        if min(groups) < 1 or min(size) < 1:
            raise Abort(f"an empty dispatch: {groups}, {size}")
        lanes = size.width * size.height * size.depth
        if lanes > pipeline.maxTotalThreadsPerThreadgroup():
            raise Abort(f"{lanes} threads a group, of {pipeline.maxTotalThreadsPerThreadgroup()}")
        arguments = []
        for index, (kind, nbytes) in enumerate(pipeline.function.bindings):
            if index not in self._bound:
                raise Abort(f"argument {index} is not bound")
            value = self._bound[index]
            given = len(value) if isinstance(value, bytes) else value[0].length() - value[1]
            if kind != _REFERENCE or given < nbytes:
                raise Abort(f"argument {index} takes {nbytes} bytes and is given {given}")
            arguments.append(value)
        commands = self._commands()
        assert commands is not None
        commands.dispatches.append(Dispatch(pipeline, arguments, list(self._resident), groups, size))

    def endEncoding(self) -> None:
        self._check_open()
        self.ended = True

    def __del__(self) -> None:
        if not self.ended:
            SWITCHES.note("an encoder was released before it had ended")


class CommandBuffer:
    """`MTLCommandBuffer`."""

    def __init__(self, queue: CommandQueue) -> None:
        self._queue, self._status = queue, NOT_ENQUEUED
        self._error: Refused | None = None
        self._encoder: weakref.ref[Encoder] | None = None
        self._ended: list[bool] = []
        self.dispatches: list[Dispatch] = []
        SWITCHES.live.add(self)

    def computeCommandEncoder(self) -> Encoder:
        _in_pool("computeCommandEncoder")
        self._check_encoders("another encoder")
        if self._status != NOT_ENQUEUED:
            raise Abort("an encoder of a command buffer that is committed")
        made = Encoder(self)
        self._encoder = weakref.ref(made)
        return made

    def _check_encoders(self, what: str) -> None:
        encoder = None if self._encoder is None else self._encoder()
        if encoder is not None and not encoder.ended:
            raise Abort(f"{what} before the encoder has ended")

    def commit(self) -> None:
        if self._status != NOT_ENQUEUED:
            raise Abort("a command buffer that is committed twice")
        self._check_encoders("commit")
        self._status = COMMITTED
        self._queue.committed.append(self)

    def waitUntilCompleted(self) -> None:
        if self._status == NOT_ENQUEUED:
            raise Abort("waiting for a command buffer that is not committed")
        while self._status == COMMITTED:
            self._queue.run_one()

    def status(self) -> int:
        return self._status

    def error(self) -> Refused | None:
        return self._error

    def execute(self) -> None:
        for dispatch in self.dispatches:
            words = _run(dispatch)
            if words:
                self._status, self._error = ERROR, Refused(words)
                break
        else:
            self._status = COMPLETED
        self.dispatches.clear()


class CommandQueue:
    """`MTLCommandQueue`."""

    def __init__(self) -> None:
        self.committed: deque[CommandBuffer] = deque()
        self._made: weakref.WeakSet[CommandBuffer] = weakref.WeakSet()

    def commandBuffer(self) -> CommandBuffer:
        _in_pool("commandBuffer")
        while len(self.committed) >= _IN_FLIGHT:
            SWITCHES.blocked += 1
            self.run_one()
        return CommandBuffer(self)

    def run_one(self) -> None:
        with _running:
            if self.committed:
                self.committed.popleft().execute()


def _run(dispatch: Dispatch) -> str:
    """Run the threads of a launch; what went wrong, or nothing."""
    resident = [buffer for ref in dispatch.resident if (buffer := ref()) is not None]
    if len(resident) < len(dispatch.resident):
        SWITCHES.note("a buffer was freed before the launch that uses it was over")
    held, pointers = [], []
    for argument in dispatch.arguments:
        if isinstance(argument, bytes):
            made = ctypes.create_string_buffer(argument, len(argument))
            held.append(made)
            pointers.append(ctypes.addressof(made))
        else:
            made = ctypes.create_string_buffer(argument[0].host[argument[1] :].tobytes())
            held.append(made)
            pointers.append(argument[0].gpuAddress() + argument[1])
        if words := _not_resident(made.raw, resident):
            return words
    kernel = dispatch.pipeline.function.kernel
    groups, size = device_rig.Id(*dispatch.groups), device_rig.Id(*dispatch.size)
    given = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
    status = device_rig.core().rig_run_alone(ctypes.addressof(kernel), given, groups, size)
    SWITCHES.executed += 1
    if any(buffer.overrun() for buffer in resident):
        return _WHY[_BAD_ADDRESS]
    return _WHY.get(status, "")


def _not_resident(data: bytes, resident: list[Buffer]) -> str:
    """Whether an argument holds the address of a buffer that was not declared, which the GPU then does not find."""
    words = memoryview(data[: len(data) // 8 * 8]).cast("Q")
    for buffer in SWITCHES.buffers:
        if buffer.hosts_any(words):
            return _WHY[_BAD_ADDRESS] + ": an address of the host"
        for word in words:  # of an imported buffer, another one may have the same memory
            if buffer.has(word) and not any(other.has(word) for other in resident):
                return _WHY[_BAD_ADDRESS] + ": not resident"
    return ""


class Device:
    """`MTLDevice`."""

    def name(self) -> str:
        return "rig"

    def supportsFamily_(self, family: int) -> bool:
        return family == MTLGPUFamilyMetal3

    def maxThreadsPerThreadgroup(self) -> MTLSize:
        return MTLSize(_LANES, _LANES, _LANES)

    def maxThreadgroupMemoryLength(self) -> int:
        return 32768

    def maxBufferLength(self) -> int:
        return 1 << 33

    def newCommandQueue(self) -> CommandQueue:
        return CommandQueue()

    def newBufferWithLength_options_(self, length: int, options: int) -> Buffer | None:
        if length < 1 or options != MTLResourceStorageModeShared:
            raise Abort(f"a buffer of {length} bytes with options {options}")
        if SWITCHES.live_bytes + length > SWITCHES.limit:
            return None
        return Buffer(*_map_twice(length))

    def newBufferWithBytesNoCopy_length_options_deallocator_(
        self, data: memoryview, length: int, options: int, deallocator: Any
    ) -> Buffer | None:
        if _address(data) % _PAGE or length % _PAGE or length > data.nbytes or options != MTLResourceStorageModeShared:
            raise Abort("memory that is not whole pages")
        return Buffer(memoryview(mmap.mmap(-1, length)), None) if SWITCHES.copies else Buffer(data, None)

    def newLibraryWithSource_options_error_(
        self, source: str, options: MTLCompileOptions, error: None
    ) -> tuple[Library | None, Refused | None]:
        SWITCHES.fast_math.append(options.fast_math)
        if not SWITCHES.compiles:
            return None, Refused("program_source:1:1: error: no")
        try:
            return Library(host_compile.load(host_compile.compile_object("metal", source))), None
        except Rejected as refused:
            return None, Refused(str(refused))

    def newComputePipelineStateWithDescriptor_options_reflection_error_(
        self, descriptor: MTLComputePipelineDescriptor, options: int, reflection: None, error: None
    ) -> tuple[Pipeline | None, Refused | None]:
        """PyObjC returns the error only: its metadata calls `reflection` no result."""
        if descriptor.function is None:
            return None, Refused("computeFunction must not be nil.")
        return Pipeline(descriptor.function, min(SWITCHES.most_lanes, descriptor.most or _LANES)), None


MTLResourceStorageModeShared = 0
MTLResourceUsageRead, MTLResourceUsageWrite = 1, 2
MTLCommandBufferStatusCompleted, MTLCommandBufferStatusError = COMPLETED, ERROR
MTLGPUFamilyMetal3 = 5001
MTLSizeMake = MTLSize
_DEVICE = Device()


def MTLCreateSystemDefaultDevice() -> Device | None:
    return _DEVICE


_METAL = (
    "MTLCommandBufferStatusCompleted",
    "MTLCommandBufferStatusError",
    "MTLCompileOptions",
    "MTLComputePipelineDescriptor",
    "MTLCreateSystemDefaultDevice",
    "MTLGPUFamilyMetal3",
    "MTLResourceStorageModeShared",
    "MTLResourceUsageRead",
    "MTLResourceUsageWrite",
    "MTLSizeMake",
    "SWITCHES",
)


def install() -> None:
    """Put the stand-ins where Tack will import them, unless the machine has PyObjC's Metal, or can have no rigs."""
    if device_rig.missing() is None and util.find_spec("Metal") is None:
        _module("Metal", {name: globals()[name] for name in _METAL})
        _module("objc", {"autorelease_pool": autorelease_pool})


def _module(name: str, content: dict[str, Any]) -> None:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    made.__dict__.update(content)
    sys.modules[name] = made


def misuse() -> str:
    """What was noted since this was last asked, and could not be raised."""
    found, SWITCHES.notes = "; ".join(SWITCHES.notes), []
    return found
