"""The devices "level_zero", "level_zero:1", ...: OpenCL C for Intel GPUs, through SPIR-V and Level Zero.

Launches go to one queue of the device and are asynchronous; whatever reads memory waits for them. See
docs/design/level-zero.md.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tack.codegen.launch_plan import KernelPlan, LaunchPlan
from tack.lang.array import Array
from tack.lang.ir import IRKernel
from tack.runtime.backend import Artifact, Backend, VariantOptions
from tack.runtime.level_zero_compiler import compile_spirv
from tack.runtime.level_zero_driver import DeviceInfo, driver, find_devices
from tack.runtime.level_zero_launch import HostArray, Memory, Module, Stream
from tack.runtime.queued_launch import QueuedExecutable

if TYPE_CHECKING:
    from tack.codegen.opencl_gen import OpenCLCodeGen, OpenCLOptions
    from tack.runtime.queued_reductions import QueuedReductions

# Founding page, "Safe math by default": f32 division and sqrt correctly rounded, no relaxed-math option.
_OPENCL_OPTIONS: Final = ("-cl-std=CL2.0", "-cl-fp32-correctly-rounded-divide-sqrt")
# SPIR-V does not carry that option: the driver's compiler must be told again (test_level_zero_vendor.py shows it). And
# an index is 64 bits wide here.
_MODULE_FLAGS: Final = "-cl-fp32-correctly-rounded-divide-sqrt -ze-opt-greater-than-4GB-buffer-required"
_GROUP: Final = 256  # iterations a workgroup, where the device allows so many; the lanes of a reduction's tree


class LevelZeroBackend(Backend):
    """One GPU of Level Zero.

    Parameters
    ----------
    number
        As the drivers list them.

    Raises
    ------
    LevelZeroError
        If there is no loader, no driver or no such device.
    """

    def __init__(self, number: int) -> None:
        self.name = "level_zero" if number == 0 else f"level_zero:{number}"
        self.device = find_devices()[number]
        self.capabilities = capabilities(self.device)
        self._group = min(_GROUP, 1 << max(1, self.device.most_lanes).bit_length() - 1)
        self.supports_device_reductions = self._group == _GROUP
        self._stream = Stream(driver(), self.device, f"{self.name} ({self.device.label})")
        self._modules: list[Module] = []

    # -- memory

    def allocate(self, nbytes: int) -> tuple[int, Memory]:
        stream = self._stream
        stream.begin()
        memory = stream.allocate(nbytes)
        if self.device.integrated:  # new, so that no command uses it
            ctypes.memset(memory.address, 0, nbytes)
            return memory.address, memory
        with stream.lock:
            stream.fill(memory.address, b"\0", max(1, nbytes))
        return memory.address, memory

    def upload(self, address: int, source: HostArray) -> None:
        self._stream.upload(address, source)

    def download(self, address: int, target: HostArray) -> None:
        self._stream.download(address, target)

    def fill(self, address: int, cell: HostArray, count: int) -> None:
        pattern = cell.tobytes()
        if not count or len(pattern) > self.device.most_pattern or len(pattern) & (len(pattern) - 1):
            super().fill(address, cell, count)
            return
        with self._stream.lock:
            self._stream.begin()
            self._stream.fill(address, pattern, len(pattern) * count)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if not nbytes or abs(target - source) < nbytes:
            super().copy(target, source, nbytes)
            return
        with self._stream.lock:
            self._stream.begin()
            self._stream.append("zeCommandListAppendMemoryCopy", target, source, nbytes)

    def synchronize(self) -> None:
        self._stream.wait()

    # -- kernels

    def cache_target(self) -> str:
        device = self.device
        shape = (self._group, device.f64, device.wide_atomics)
        return f"level zero {device.device_id} {device.driver_version} {shape} {_OPENCL_OPTIONS}"

    def compile(self, kernel: IRKernel, options: VariantOptions) -> QueuedExecutable:
        return self.load(self.build(kernel, options))

    def build(self, kernel: IRKernel, options: VariantOptions) -> Artifact:
        self._stream.begin()
        generator = self._generator(kernel, options)
        spirv = compile_spirv(generator.source(), kernel.name, self.device.device_id, _OPENCL_OPTIONS)
        return Artifact({"plan": generator.plan.describe()}, spirv)

    def load(self, artifact: Artifact) -> QueuedExecutable:
        self._stream.begin()
        plan = LaunchPlan.described(artifact.notes["plan"])
        module = Module(self._stream, artifact.payload, _MODULE_FLAGS, plan.kernel)
        return QueuedExecutable(self._stream, plan, module.function, module)

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        return {"opencl": self._generator(kernel, options).source()}

    def _generator(self, kernel: IRKernel, options: VariantOptions) -> OpenCLCodeGen:
        from tack.codegen.opencl_gen import OpenCLCodeGen
        from tack.runtime.workgroup_limits import check_workgroups

        check_workgroups(kernel, self.name, self.device.most_lanes, self.device.most_shared)
        return OpenCLCodeGen(kernel, self._options(options.disjoint))

    def _options(self, disjoint: bool = False) -> OpenCLOptions:
        from tack.codegen.opencl_gen import OpenCLOptions

        device = self.device
        return OpenCLOptions(disjoint=disjoint, group=self._group, f64=device.f64, wide_atomics=device.wide_atomics)

    # -- reductions

    def reduce_array(self, array: Array, op: str) -> float:
        return self._reductions.reduce(array, op)

    @cached_property
    def _reductions(self) -> QueuedReductions:
        from tack.codegen.opencl_gen import OpenCLCodeGen
        from tack.runtime.queued_reductions import QueuedReductions

        return QueuedReductions(
            *(self._stream, OpenCLCodeGen, self._options()),
            *(self._build_reduction, self._stream.allocate, self.download),
        )

    def _build_reduction(self, source: str, plan: KernelPlan) -> Any:
        spirv = compile_spirv(source, plan.name, self.device.device_id, _OPENCL_OPTIONS)
        self._modules.append(Module(self._stream, spirv, _MODULE_FLAGS, plan.name))
        return self._modules[-1].function(plan.name)


def capabilities(device: DeviceInfo) -> frozenset[str]:
    """The capabilities of `Backend`, by what the device reports."""
    found = ["workgroups", "atomic_i32", "atomic_u32", "atomic_f32"]
    found += ["f64"] if device.f64 else []
    found += ["host_visible"] if device.integrated else []
    if device.wide_atomics:
        found += ["atomic_i64", "atomic_u64", *(["atomic_f64"] if device.f64 else [])]
    return frozenset(found)
