"""The device "metal": Metal's language for Apple's GPUs, compiled and launched through PyObjC.

Memory is shared storage, which host and GPU both see. Launches are queued in command buffers; whatever reads or writes
memory from the host waits for them. Metal has no f64.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

from tack.codegen.c_family import CFamilyOptions
from tack.codegen.launch_plan import KernelPlan
from tack.codegen.msl_gen import MSLCodeGen
from tack.lang.array import Array
from tack.lang.ir import IRKernel
from tack.runtime.backend import Backend, VariantOptions
from tack.runtime.interop import Lent
from tack.runtime.metal_api import MetalError, api, find_device, pool
from tack.runtime.metal_queue import HostArray, Memory, MetalQueue, Pipeline, as_bytes
from tack.runtime.queued_launch import QueuedExecutable
from tack.runtime.queued_reductions import QueuedReductions
from tack.runtime.workgroup_limits import check_workgroups

_ATOMICS: Final = ("i32", "u32", "f32")  # f32 is built on compare-and-swap


class MetalBackend(Backend):
    """The system's GPU.

    Parameters
    ----------
    number
        0: Apple's machines have one.

    Attributes
    ----------
    device
        The device, as PyObjC has it.

    Raises
    ------
    MetalError
        If there is none.
    """

    name = "metal"
    capabilities = frozenset(
        {"workgroups", "alias_variants", "host_visible", "page_import", *(f"atomic_{t}" for t in _ATOMICS)}
    )
    dlpack_device = (1, 0)  # kDLCPU: shared storage is the host's memory too
    supports_device_reductions = True

    def __init__(self, number: int) -> None:
        self.device, why = find_device()
        if self.device is None or number:
            raise MetalError(why or f"there is no Metal device {number}")
        self._queue = MetalQueue(self.device)
        self._reductions = QueuedReductions(
            *(self._queue, MSLCodeGen, None), *(self._get_reduce_pipeline, self._queue.allocate, self.download)
        )

    # -- memory

    def allocate(self, nbytes: int) -> tuple[int, Memory]:
        memory = self._queue.allocate(nbytes)
        return memory.address, memory

    def import_pages(self, values: HostArray) -> Lent | None:
        start, nbytes = values.__array_interface__["data"][0], values.nbytes
        if not values.flags.writeable or not nbytes or start % mmap.PAGESIZE or nbytes % mmap.PAGESIZE:
            return None
        memory = self._queue.import_pages(values)
        return None if memory is None else Lent(memory, 0, self)

    def hand_back(self, stream: int | None) -> None:
        """After a call with memory that is the host's: let the host read it."""
        self._queue.wait()

    def upload(self, address: int, source: HostArray) -> None:
        if source.nbytes:
            self._queue.wait()
            self._queue.bytes_at(address, source.nbytes)[:] = as_bytes(source)

    def download(self, address: int, target: HostArray) -> None:
        if target.nbytes:
            self._queue.wait()
            as_bytes(target)[:] = self._queue.bytes_at(address, target.nbytes)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes:
            self._queue.wait()
            self._queue.bytes_at(target, nbytes)[:] = self._queue.bytes_at(source, nbytes)

    def synchronize(self) -> None:
        self._queue.wait()

    # -- kernels

    def compile(self, kernel: IRKernel, options: VariantOptions) -> QueuedExecutable:
        generator = self._generator(kernel, options)
        library, plan = self._compile_kernel(generator.source(), kernel.name), generator.plan
        kernels = {k.name: k for k in (*plan.loops, *((plan.result,) if plan.result else ()))}
        return QueuedExecutable(self._queue, plan, lambda name: self._pipeline(library, kernels[name]))

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        return {"metal": self._generator(kernel, options).source()}

    def _generator(self, kernel: IRKernel, options: VariantOptions) -> MSLCodeGen:
        shared = int(self.device.maxThreadgroupMemoryLength())
        check_workgroups(kernel, self.name, self._queue.most_lanes, shared)
        return MSLCodeGen(kernel, CFamilyOptions(disjoint=options.disjoint))

    def _compile_kernel(self, source: str, name: str) -> Any:
        """A library of a text, with fast math off: its default changes which branch runs (rules FLT-*).

        Raises
        ------
        MetalError
            If Metal rejects it; the message has its words and the numbered text.
        """
        self._queue.begin()
        with pool():
            options = api().MTLCompileOptions.alloc().init()
            options.setFastMathEnabled_(False)
            library, error = self.device.newLibraryWithSource_options_error_(source, options, None)
            words = "no reason given" if error is None else error.localizedDescription()
        if library is None:
            lines = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(source.splitlines(), 1))
            raise MetalError(
                f"kernel `{name}`: {self._queue.label} cannot compile its Metal text, which is an error of Tack or of "
                f"Metal: {words}\n{lines}"
            )
        return library

    def _pipeline(self, library: Any, plan: KernelPlan) -> Pipeline:
        """A kernel of a library, for groups as large as its plan's.

        Raises
        ------
        MetalError
            If Metal makes none, or only for smaller groups.
        """
        with pool():
            wanted = api().MTLComputePipelineDescriptor.alloc().init()
            wanted.setComputeFunction_(library.newFunctionWithName_(plan.name))
            wanted.setMaxTotalThreadsPerThreadgroup_(plan.group)
            make = self.device.newComputePipelineStateWithDescriptor_options_reflection_error_
            state, error = make(wanted, 0, None, None)
            words = "no reason given" if error is None else error.localizedDescription()
        if state is None:
            raise MetalError(f"{self._queue.label} makes no pipeline of `{plan.name}`: {words}")
        most = int(state.maxTotalThreadsPerThreadgroup())
        if most < plan.group:
            raise MetalError(f"{self._queue.label} runs `{plan.name}` with {most} lanes a workgroup, not {plan.group}")
        return Pipeline(plan.name, state)

    # -- reductions

    def reduce_array(self, array: Array, op: str) -> float:
        return self._reductions.reduce(array, op)

    def _get_reduce_pipeline(self, source: str, plan: KernelPlan) -> Pipeline:
        """The kernel of a reduction, with fast math off like all."""
        return self._pipeline(self._compile_kernel(source, plan.name), plan)
