"""Launching the kernels of a `LaunchPlan` on a CUDA stream: arguments from the block, iterations from the bounds."""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_uint64, c_void_p
from typing import Any, Final

import numpy as np

from tack.codegen import launch_plan as plans
from tack.codegen.launch_plan import KernelParameter, KernelPlan, LaunchPlan
from tack.lang.ir import IRKernel
from tack.lang.types import DType
from tack.runtime.backend import STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION, STATUS_OK
from tack.runtime.cuda_driver import CudaError, Driver
from tack.runtime.launch_arguments import CallArguments, read_arguments, store_result
from tack.runtime.launch_ranges import LoopSpace, compile_space

# A grid has at most 2**31 - 1 blocks; longer loops are launched in pieces.
PIECE: Final = 1 << 38
_C_TYPES: Final[dict[str, Any]] = {
    "i8": ctypes.c_int8,
    "u8": ctypes.c_uint8,
    "i16": ctypes.c_int16,
    "u16": ctypes.c_uint16,
    "i32": ctypes.c_int32,
    "u32": ctypes.c_uint32,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}


class Stream:
    """The context and the one stream of a device, which calls of all threads share in order.

    The stream waits for, and is waited for by, the legacy default stream, so arrays of other libraries need no hand-off
    as long as these use theirs.
    """

    def __init__(self, driver: Driver, number: int) -> None:
        self.driver, self.context, self.handle = driver, c_void_p(), c_void_p()
        driver.cuDevicePrimaryCtxRetain(byref(self.context), number)  # the context that PyTorch and CuPy use too
        self.make_current()
        driver.cuStreamCreate(byref(self.handle), 0)
        self.lock = threading.RLock()  # a call of several loops is not split by another call

    def make_current(self) -> None:
        """Make the device's context the current one of this thread."""
        self.driver.cuCtxSetCurrent(self.context)

    def wait(self) -> None:
        """Wait until all that was enqueued is over."""
        self.make_current()
        self.driver.cuStreamSynchronize(self.handle)


class Module:
    """Loaded machine code; unloaded when nothing refers to it any more."""

    def __init__(self, stream: Stream, cubin: bytes) -> None:
        self._stream, self._handle = stream, c_void_p()
        stream.make_current()
        stream.driver.cuModuleLoadData(byref(self._handle), cubin)

    def function(self, name: str) -> c_void_p:
        found = c_void_p()
        self._stream.driver.cuModuleGetFunction(byref(found), self._handle, name.encode())
        return found

    def __del__(self) -> None:
        if self._handle.value:
            self._stream.make_current()
            self._stream.driver.cuModuleUnload(self._handle)  # waits for the kernels that are running


class DeviceKernel:
    """One generated kernel with its parameters."""

    def __init__(self, module: Module, plan: KernelPlan) -> None:
        self.space = compile_space(plan.ranges)
        self._module = module  # unloading it would take the function away
        self._function, self._parameters, self._group = module.function(plan.name), plan.parameters, plan.group

    def enqueue(
        self, stream: Stream, call: CallArguments, space: LoopSpace | None, total: int, result: int = 0
    ) -> None:
        """Enqueue iterations 0 to `total`; the caller holds the stream's lock."""
        for first in range(0, total, PIECE):
            stop = min(first + PIECE, total)
            values = [_argument(p, call, space, (first, stop), result) for p in self._parameters]
            pointers = (c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
            blocks = -(-(stop - first) // self._group)
            stream.driver.cuLaunchKernel(
                self._function, blocks, 1, 1, self._group, 1, 1, 0, stream.handle, pointers, None
            )


def _argument(
    parameter: KernelParameter, call: CallArguments, space: LoopSpace | None, piece: tuple[int, int], result: int
) -> Any:
    """The value of a parameter as a C object."""
    kind, position, axis = parameter.kind, parameter.position, parameter.axis
    if kind == plans.ARRAY:
        return c_uint64(call.addresses[position])
    if kind == plans.RESULT:
        return c_uint64(result)
    c_type = _C_TYPES[parameter.dtype.name]
    if kind == plans.SCALAR:
        return c_type(call.scalars[position])
    if kind == plans.EXTENT:
        return c_type(call.shapes[position][axis])
    if kind in (plans.FIRST, plans.STOP):
        return c_type(piece[kind == plans.STOP])
    assert space is not None
    per_axis = {plans.TRIPS: space.trips, plans.START: space.starts, plans.STEP: space.steps}
    return c_type(per_axis[kind][axis])


class CudaExecutable:
    """A compiled kernel. A launch returns when it is enqueued, or, if it has a result, when that is there."""

    address: int | None = None  # a call goes through Python
    may_print = False

    def __init__(self, stream: Stream, module: Module, kernel: IRKernel, plan: LaunchPlan, cell: Any) -> None:
        self._stream, self._name, self._module = stream, kernel.name, module
        self._types = [param.type for param in kernel.params]
        self._loops = [DeviceKernel(module, loop) for loop in plan.loops]
        self._result = DeviceKernel(module, plan.result) if plan.result is not None else None
        self._result_dtype: DType | None = kernel.results[0] if kernel.results else None
        self._cell = cell

    def launch(self, block: int) -> int:
        """Enqueue the loops of a call; all bounds are evaluated before any of them runs.

        Raises
        ------
        CudaError
            If the driver refuses a launch, or an earlier one has failed.
        """
        call = read_arguments(block, self._types)
        try:
            spaces = [loop.space(call.scalars, call.shapes) for loop in self._loops]
        except OverflowError:
            return STATUS_BOUNDS_OVERFLOW
        except ZeroDivisionError:
            return STATUS_BOUNDS_ZERO_DIVISION
        try:
            with self._stream.lock:
                self._stream.make_current()
                for loop, space in zip(self._loops, spaces, strict=True):
                    if space.total:
                        loop.enqueue(self._stream, call, space, space.total)
                if self._result is not None:
                    self._compute_result(call, block)
        except CudaError as error:
            raise CudaError(f"kernel `{self._name}`: {error}") from error
        return STATUS_OK

    def _compute_result(self, call: CallArguments, block: int) -> None:
        assert self._result is not None and self._result_dtype is not None
        self._result.enqueue(self._stream, call, None, 1, self._cell.address)
        found = np.zeros(1, self._result_dtype.numpy)
        driver = self._stream.driver
        driver.cuMemcpyDtoHAsync_v2(found.ctypes.data, self._cell.address, found.nbytes, self._stream.handle)
        driver.cuStreamSynchronize(self._stream.handle)
        store_result(block, len(self._types), found)
