"""The devices "cuda", "cuda:1", ...: CUDA C for NVIDIA GPUs, compiled by NVRTC, launched through the driver.

Launches go to one stream of the device and are asynchronous; whatever reads memory waits for them.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any, Final

import numpy as np

from tack.codegen.c_family import CFamilyOptions
from tack.codegen.cuda_gen import CUDACodeGen
from tack.codegen.reduction_tree import IDENTITY
from tack.codegen.reductions import array_reduction_source
from tack.lang.array import Array
from tack.lang.ir import IRKernel
from tack.lang.types import f32
from tack.runtime.backend import Backend, VariantOptions
from tack.runtime.cuda_driver import CudaError, compile_cubin, driver
from tack.runtime.cuda_launch import CudaExecutable, DeviceKernel, Module, Stream
from tack.runtime.launch_arguments import CallArguments
from tack.runtime.workgroup_limits import check_workgroups

HostArray = np.ndarray[Any, Any]

# Value-preserving math (founding page, "Safe math by default"): no fast-math option.
_COMPILE_OPTIONS: Final = ("--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
_ATTRIBUTE_MAJOR, _ATTRIBUTE_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
_ATTRIBUTE_LANES, _ATTRIBUTE_SHARED = 1, 8  # CU_DEVICE_ATTRIBUTE_MAX_THREADS_ and _SHARED_MEMORY_PER_BLOCK
_POOL_RELEASE_THRESHOLD = 4  # CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
_ATOMICS = ("i32", "u32", "i64", "u64", "f32", "f64")
_NAME_LENGTH = 256
_LEGACY_DEFAULT_STREAM = 1


class DeviceMemory:
    """One allocation, given back to the device's pool, in the stream's order, when nothing refers to it any more."""

    __slots__ = ("_stream", "address")

    def __init__(self, stream: Stream, nbytes: int) -> None:
        self._stream, pointer = stream, c_uint64()
        stream.make_current()
        self.address = 0
        stream.driver.cuMemAllocAsync(byref(pointer), max(1, nbytes), stream.handle)
        self.address = pointer.value
        stream.driver.cuMemsetD8Async(self.address, 0, max(1, nbytes), stream.handle)

    def __del__(self) -> None:
        if self.address:
            self._stream.make_current()
            self._stream.driver.cuMemFreeAsync(self.address, self._stream.handle)


class CudaBackend(Backend):
    """One NVIDIA GPU.

    Parameters
    ----------
    number
        As the driver counts them.

    Raises
    ------
    CudaError
        If there is no driver or no such device.
    """

    capabilities = frozenset(
        {"f64", "workgroups", "alias_variants", "cuda_array_interface", *(f"atomic_{t}" for t in _ATOMICS)}
    )
    supports_device_reductions = True

    def __init__(self, number: int) -> None:
        self.name = "cuda" if number == 0 else f"cuda:{number}"
        self._driver, self._process = driver(), os.getpid()
        device = c_int()
        self._driver.cuDeviceGet(byref(device), number)
        self.architecture = f"sm_{self._attribute(device, _ATTRIBUTE_MAJOR)}{self._attribute(device, _ATTRIBUTE_MINOR)}"
        self._most_lanes = self._attribute(device, _ATTRIBUTE_LANES)
        self._most_shared = self._attribute(device, _ATTRIBUTE_SHARED)
        label = ctypes.create_string_buffer(_NAME_LENGTH)
        self._driver.cuDeviceGetName(label, _NAME_LENGTH, device)
        self.label = label.value.decode()
        self._stream = Stream(self._driver, number)
        self._keep_pool(device)
        self._reductions: dict[str, DeviceKernel] = {}

    def _attribute(self, device: c_int, attribute: int) -> int:
        value = c_int()
        self._driver.cuDeviceGetAttribute(byref(value), attribute, device)
        return value.value

    def _keep_pool(self, device: c_int) -> None:
        """Let freed memory stay with the pool: giving it back to the system at each wait costs milliseconds."""
        pool, everything = c_void_p(), c_uint64(2**64 - 1)
        self._driver.cuDeviceGetDefaultMemPool(byref(pool), device)
        self._driver.cuMemPoolSetAttribute(pool, _POOL_RELEASE_THRESHOLD, byref(everything))

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise CudaError(
                "CUDA was used before this process was forked, and does not work across a fork: start processes with "
                "multiprocessing's 'spawn', or use the device only after the fork"
            )

    # -- memory

    def allocate(self, nbytes: int) -> tuple[int, DeviceMemory]:
        self._check_process()
        memory = DeviceMemory(self._stream, nbytes)
        return memory.address, memory

    def upload(self, address: int, source: HostArray) -> None:
        self._check_process()
        if source.nbytes:
            self._stream.make_current()
            data = source.ctypes.data
            self._driver.cuMemcpyHtoDAsync_v2(address, data, source.nbytes, self._stream.handle)
            self._driver.cuStreamSynchronize(self._stream.handle)  # the caller may change the source at once

    def download(self, address: int, target: HostArray) -> None:
        self._check_process()
        if target.nbytes:
            self._stream.make_current()
            self._driver.cuMemcpyDtoHAsync_v2(target.ctypes.data, address, target.nbytes, self._stream.handle)
            self._driver.cuStreamSynchronize(self._stream.handle)

    def synchronize(self) -> None:
        self._check_process()
        self._stream.wait()

    def wait_for_stream(self, stream: int | None) -> None:
        """Wait for a stream of another library; the legacy default stream (1, or None) is in order with ours."""
        if stream is not None and stream != _LEGACY_DEFAULT_STREAM:
            self._stream.make_current()
            self._driver.cuStreamSynchronize(stream)

    # -- kernels

    def compile(self, kernel: IRKernel, options: VariantOptions) -> CudaExecutable:
        self._check_process()
        generator = self._generator(kernel, options)
        source = generator.source()
        module = Module(self._stream, compile_cubin(source, kernel.name, self.architecture, _COMPILE_OPTIONS))
        cell = DeviceMemory(self._stream, 8) if kernel.results else None
        return CudaExecutable(self._stream, module, kernel, generator.plan, cell)

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        return {"cuda": self._generator(kernel, options).source()}

    def _generator(self, kernel: IRKernel, options: VariantOptions) -> CUDACodeGen:
        check_workgroups(kernel, self.name, self._most_lanes, self._most_shared)
        return CUDACodeGen(kernel, CFamilyOptions(disjoint=options.disjoint))

    # -- reductions

    def reduce_array(self, array: Array, op: str) -> float:
        self._check_process()
        if array.dtype is not f32:
            return super().reduce_array(array, op)
        found = np.array([IDENTITY[op]], np.float32)
        call = CallArguments([array._data], [array.shape], [0])
        with self._stream.lock:
            self._stream.make_current()
            cell = DeviceMemory(self._stream, found.nbytes)
            self.upload(cell.address, found)
            self._reduction(op).enqueue(self._stream, call, None, array.size, cell.address)
            self.download(cell.address, found)
        return float(found[0])

    def _reduction(self, op: str) -> DeviceKernel:
        """The kernel of an operation, built at its first use; the caller holds the stream's lock."""
        if op not in self._reductions:
            source, plan = array_reduction_source(CUDACodeGen, op)
            module = Module(self._stream, compile_cubin(source, op, self.architecture, _COMPILE_OPTIONS))
            self._reductions[op] = DeviceKernel(module, plan)
        return self._reductions[op]
