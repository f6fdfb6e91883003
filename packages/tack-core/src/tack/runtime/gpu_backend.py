"""What the devices "cuda" and "hip" are made of: a `GpuDriver`, a compiler of C text, and what the device can do.

Launches go to one stream of the device and are asynchronous; whatever reads memory waits for them.
"""

from __future__ import annotations

import abc
import ctypes
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from tack.codegen.launch_plan import LaunchPlan
from tack.lang.array import Array
from tack.lang.ir import IRKernel
from tack.lang.types import f32
from tack.runtime.backend import Artifact, Backend, VariantOptions
from tack.runtime.gpu_driver import GpuDriver, GpuError
from tack.runtime.gpu_stream import DeviceMemory, HostArray, Module, Stream
from tack.runtime.launch_arguments import CallArguments
from tack.runtime.queued_launch import QueuedExecutable, QueuedKernel

if TYPE_CHECKING:
    from tack.codegen.c_family import CFamilyCodeGen

_NAME_LENGTH: Final = 256
_POOL_RELEASE_THRESHOLD: Final = 4  # the attribute's number in both APIs
_LEGACY_DEFAULT_STREAM: Final = 1


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
        The driver's numbers of "lanes" (the most threads of a workgroup) and "shared" (bytes of its shared memory).
    language
        The stage that `inspect` shows.

    Raises
    ------
    GpuError
        If there is no such device.
    """

    attributes: ClassVar[dict[str, int]]
    language: ClassVar[str]
    supports_device_reductions = True

    def __init__(self, driver: GpuDriver, kind: str, number: int) -> None:
        self.name = kind if number == 0 else f"{kind}:{number}"
        self._driver, self._device = driver, c_int()
        driver.device_get(byref(self._device), number)
        self._most_lanes, self._most_shared = self.attribute("lanes"), self.attribute("shared")
        label = ctypes.create_string_buffer(_NAME_LENGTH)
        driver.device_name(label, _NAME_LENGTH, self._device)
        self.label = label.value.decode()
        self._stream = Stream(driver, number, f"{self.name} ({self.label})")
        self._keep_pool()
        self._reductions: dict[str, QueuedKernel] = {}
        self._modules: list[Module] = []

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
    def reduction_source(self, op: str) -> tuple[str, Any]:
        """Text and plan of the kernel that reduces an f32 array."""

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
        return memory.address, memory

    def upload(self, address: int, source: HostArray) -> None:
        self._stream.upload(address, source)

    def download(self, address: int, target: HostArray) -> None:
        self._stream.download(address, target)

    def synchronize(self) -> None:
        self._stream.wait()

    def wait_for_stream(self, stream: int | None) -> None:
        """Wait for a stream of another library; the legacy default stream (1, or None) is in order with ours."""
        if stream is not None and stream != _LEGACY_DEFAULT_STREAM:
            self._stream.begin()
            self._driver.stream_wait(stream)

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
        if array.dtype is not f32:
            return super().reduce_array(array, op)
        from tack.codegen.reduction_tree import IDENTITY

        found = np.array([IDENTITY[op]], np.float32)
        call = CallArguments([array._data], [array.shape], [0])
        with self._stream.lock:
            self._stream.begin()
            cell = DeviceMemory(self._stream, found.nbytes)
            self.upload(cell.address, found)
            self._reduction(op).enqueue(self._stream, call, None, array.size, cell.address)
        self.download(cell.address, found)
        return float(found[0])

    def _reduction(self, op: str) -> QueuedKernel:
        """The kernel of an operation, built at its first use; the caller holds the stream's lock."""
        if op not in self._reductions:
            source, plan = self.reduction_source(op)
            module = Module(self._stream, self.compile_text(source, op))
            self._modules.append(module)
            self._reductions[op] = QueuedKernel(module.function(plan.name), plan)
        return self._reductions[op]
