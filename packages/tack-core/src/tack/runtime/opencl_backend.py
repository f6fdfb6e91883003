"""The device "opencl": OpenCL C for any OpenCL 1.2 device, through pyopencl.

Launches go to one in-order queue and are asynchronous; whatever reads memory waits for them. See docs/design/opencl.md.
"""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import Final

import pyopencl as cl

from tack.codegen.array_reductions import LANES
from tack.codegen.launch_plan import KernelPlan
from tack.codegen.opencl_gen import OpenCLCodeGen, OpenCLOptions
from tack.lang.array import Array
from tack.lang.ir import IRKernel
from tack.runtime.backend import Backend, VariantOptions
from tack.runtime.opencl_devices import (
    build_options,
    capabilities,
    default_number,
    has_f64,
    has_wide_atomics,
    usable_devices,
)
from tack.runtime.opencl_launch import Program, Stream
from tack.runtime.opencl_memory import DeviceMemory, HostArray
from tack.runtime.queued_launch import QueuedExecutable
from tack.runtime.queued_reductions import QueuedReductions
from tack.runtime.workgroup_limits import check_workgroups

_GROUP: Final = 256  # iterations a workgroup, where the device allows so many


class OpenCLBackend(Backend):
    """One OpenCL device.

    Parameters
    ----------
    number
        Of `usable_devices`.

    Attributes
    ----------
    device
        The device, as pyopencl knows it.
    options
        What its programs are built with.
    """

    def __init__(self, number: int) -> None:
        self.name = "opencl" if number == default_number() else f"opencl:{number}"
        self.device = usable_devices()[number]
        self.options = build_options(self.device)
        self._stream = Stream(self.device)
        images = ["texture_images"] if self._stream.buffers.filters_images() else []
        self.capabilities = capabilities(self.device) | frozenset(images)
        self._programs: weakref.WeakValueDictionary[str, Program] = weakref.WeakValueDictionary()
        self._group = _largest_group(self.device)
        self.supports_device_reductions = self._group >= LANES

    # -- memory

    def allocate(self, nbytes: int) -> tuple[int, DeviceMemory]:
        self._stream.begin()
        memory = self._stream.buffers.allocate(nbytes)
        return memory.address, memory

    def upload(self, address: int, source: HostArray) -> None:
        self._stream.begin()
        self._stream.buffers.upload(address, source)

    def download(self, address: int, target: HostArray) -> None:
        self._stream.begin()
        self._stream.buffers.download(address, target)

    def synchronize(self) -> None:
        self._stream.begin()
        self._stream.queue.finish()

    # -- kernels

    def compile(self, kernel: IRKernel, options: VariantOptions) -> QueuedExecutable:
        self._stream.begin()
        generator = self._generator(kernel, options)
        program = self._build(generator.source(), kernel.name)
        return QueuedExecutable(self._stream, generator.plan, program.function, program)

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        return {"opencl": self._generator(kernel, options).source()}

    def _generator(self, kernel: IRKernel, options: VariantOptions) -> OpenCLCodeGen:
        check_workgroups(kernel, self.name, self.device.max_work_group_size, self.device.local_mem_size)
        return OpenCLCodeGen(kernel, self._generator_options(options.disjoint))

    def _generator_options(self, disjoint: bool = False) -> OpenCLOptions:
        return OpenCLOptions(
            disjoint=disjoint,
            group=self._group,
            f64=has_f64(self.device),
            wide_atomics=has_wide_atomics(self.device),
            texture_images="texture_images" in self.capabilities,
        )

    def _build(self, source: str, name: str) -> Program:
        """The program of a text; one that another kernel still uses is shared."""
        program = self._programs.get(source)
        if program is None:
            program = self._programs[source] = Program(self._stream, self.options, source, name)
        return program

    # -- reductions

    def reduce_array(self, array: Array, op: str) -> float:
        return self._reductions.reduce(array, op)

    @cached_property
    def _reductions(self) -> QueuedReductions:
        return QueuedReductions(
            *(self._stream, OpenCLCodeGen, self._generator_options()),
            *(self._build_reduction, self._stream.buffers.allocate, self.download),
        )

    def _build_reduction(self, source: str, plan: KernelPlan) -> cl.Kernel:
        return self._build(source, plan.name).function(plan.name)


def _largest_group(device: cl.Device) -> int:
    """The number of iterations a workgroup: a power of two."""
    return min(_GROUP, 1 << device.max_work_group_size.bit_length() - 1)
