"""What the devices "cuda" and "hip" are made of: a `GpuDriver`, a compiler of C text, and what the device can do.

Launches go to one stream of the device and are asynchronous; whatever reads memory waits for them.
"""

from __future__ import annotations

import abc
import ctypes
import threading
from ctypes import byref, c_float, c_int, c_uint64, c_void_p
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tack.codegen.launch_plan import KernelPlan, LaunchPlan
from tack.lang.array import Array
from tack.lang.ir import IRKernel
from tack.lang.loading import loading
from tack.runtime.backend import Artifact, Backend, VariantOptions
from tack.runtime.gpu_driver import GpuDriver, GpuError
from tack.runtime.gpu_memory import DeviceMemory, Event, HostArray, copy, fill
from tack.runtime.gpu_stream import Module, Stream
from tack.runtime.queued_launch import QueuedExecutable

if TYPE_CHECKING:
    from tack.codegen.c_family import CFamilyCodeGen
    from tack.runtime.queued_reductions import QueuedReductions

_NAME_LENGTH: Final = 256
_DEFAULT_STREAMS: Final = (None, 0, 1)
_EXACT_GROUPS: Final = 6  # of an exact sum that a multiprocessor holds: their bins fill its shared memory
_POOL_RELEASE_THRESHOLD: Final = 4  # the attribute's number in both APIs


class GpuBackend(Backend):
    """One GPU. A subclass gives the class attributes, the generator and the compiler.

    Parameters
    ----------
    driver
        The driver of this process.
    kind
        The device's name without a number.
    number
        As the driver counts them.

    Attributes
    ----------
    attributes
        The driver's numbers of "lanes" (the most threads of a workgroup), "shared" (bytes of its shared memory) and
        "processors" (multiprocessors).
    dlpack_kind
        DLPack's number for this kind of device.
    language
        The stage that `inspect` shows.

    Raises
    ------
    GpuError
        If there is no such device.
    """

    attributes: ClassVar[dict[str, int]]
    dlpack_kind: ClassVar[int]
    language: ClassVar[str]
    supports_device_reductions = True

    def __init__(self, driver: GpuDriver, kind: str, number: int) -> None:
        self.name = kind if number == 0 else f"{kind}:{number}"
        self.dlpack_device: tuple[int, int] = (self.dlpack_kind, number)
        self._driver, self._device = driver, c_int()
        driver.device_get(byref(self._device), number)
        self._most_lanes, self._most_shared = self.attribute("lanes"), self.attribute("shared")
        label = ctypes.create_string_buffer(_NAME_LENGTH)
        driver.device_name(label, _NAME_LENGTH, self._device)
        self.label = label.value.decode()
        ahead = threading.Thread(target=self._load_compiler, name="tack-load-ahead")
        ahead.start()
        try:
            self._stream = Stream(driver, number, f"{self.name} ({self.label})")
        finally:
            ahead.join()  # so that no process forks, and none ends, in the middle of an import
        self._keep_pool()
        self._modules: list[Module] = []

    def _load_compiler(self) -> None:
        """Import what first calls need while the driver makes the context, which takes longer and not the GIL."""
        with loading():
            import tack.runtime.compilation
            import tack.runtime.dispatch
            import tack.runtime.workgroup_limits  # noqa: F401

            self.dialect()

    def attribute(self, name: str) -> int:
        """An attribute of the device by its name in `attributes`."""
        value = c_int()
        self._driver.device_attribute(byref(value), self.attributes[name], self._device)
        return value.value

    def _keep_pool(self) -> None:
        """Let freed memory stay with the pool: giving it back to the system at each wait costs milliseconds."""
        pool, everything = c_void_p(), c_uint64(2**64 - 1)
        self._driver.default_pool(byref(pool), self._device)
        self._driver.pool_set(pool, _POOL_RELEASE_THRESHOLD, byref(everything))

    # -- what a subclass says

    @abc.abstractmethod
    def generator(self, kernel: IRKernel, options: VariantOptions) -> CFamilyCodeGen:
        """The generator of a kernel for this device."""

    @abc.abstractmethod
    def dialect(self) -> type[CFamilyCodeGen]:
        """The generator's class."""

    @abc.abstractmethod
    def compile_text(self, source: str, name: str) -> bytes:
        """Machine code of this device.

        Raises
        ------
        GpuError
            If the compiler rejects the text; the message has its words and the numbered text.
        """

    # -- memory

    def allocate(self, nbytes: int) -> tuple[int, DeviceMemory]:
        memory = DeviceMemory(self._stream, nbytes)
        self._driver.fill8(memory.address, 0, max(1, nbytes), self._stream.handle)
        return memory.address, memory

    def upload(self, address: int, source: HostArray) -> None:
        self._stream.upload(address, source)

    def download(self, address: int, target: HostArray) -> None:
        self._stream.download(address, target)

    def fill(self, address: int, cell: HostArray, count: int) -> None:
        if count:
            self._stream.begin()
            fill(self._stream, address, cell.tobytes(), count)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._stream.begin()
            copy(self._stream, target, source, nbytes)

    def synchronize(self) -> None:
        self._stream.wait()

    def mark(self) -> Event:
        event = Event(self._stream, timing=True)
        event.record(self._stream.handle)
        return event

    def seconds_between(self, first: Event, last: Event) -> float:
        first.wait()
        last.wait()
        milliseconds = c_float()
        self._driver.event_elapsed(byref(milliseconds), first.handle, last.handle)
        return milliseconds.value / 1000

    # -- streams and arrays of other libraries

    @property
    def dlpack_stream(self) -> int:
        return self._stream.handle.value or 0

    def wait_for_stream(self, stream: int | None) -> None:
        """Come after another library's stream; the legacy default stream (None, 0 or 1) is in order with ours."""
        if stream not in _DEFAULT_STREAMS:
            self._stream.wait_for(stream)

    def hand_back(self, stream: int | None) -> None:
        """Let another library's stream come after ours."""
        if stream not in _DEFAULT_STREAMS:
            self._stream.let_wait(stream)

    def export_dlpack(self, array: Array, **options: Any) -> Any:
        from tack.runtime.dlpack import export

        return export(array, self, **options)

    # -- kernels

    def compile(self, kernel: IRKernel, options: VariantOptions) -> QueuedExecutable:
        return self.load(self.build(kernel, options))

    def build(self, kernel: IRKernel, options: VariantOptions) -> Artifact:
        self._stream.begin()
        generator = self.generator(kernel, options)
        source = generator.source()
        return Artifact({"plan": generator.plan.describe()}, self.compile_text(source, kernel.name))

    def load(self, artifact: Artifact) -> QueuedExecutable:
        plan = LaunchPlan.described(artifact.notes["plan"])
        try:
            module = Module(self._stream, artifact.payload)
            return QueuedExecutable(self._stream, plan, module.function, module)
        except GpuError as error:
            raise ValueError(f"kernel `{plan.kernel}`: the driver does not load its code: {error}") from error

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        return {self.language: self.generator(kernel, options).source()}

    # -- reductions

    def reduce_array(self, array: Array, op: str) -> float:
        return self._reductions.reduce(array, op)

    def exact_sum(self, array: Array) -> float:
        return self._reductions.exact_sum(array)

    @cached_property
    def _reductions(self) -> QueuedReductions:
        from tack.runtime.queued_reductions import QueuedReductions

        return QueuedReductions(
            *(self._stream, self.dialect(), None, self._build_reduction),
            *(partial(DeviceMemory, self._stream), self.download),
            resident=_EXACT_GROUPS * self.attribute("processors"),
        )

    def _build_reduction(self, source: str, plan: KernelPlan) -> c_void_p:
        module = Module(self._stream, self.compile_text(source, plan.name))
        self._modules.append(module)
        return module.function(plan.name)
