"""The queue and the programs of an OpenCL device."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyopencl as cl

from tack.runtime.opencl_memory import BufferTable
from tack.runtime.queued_launch import LaunchQueue

# Devices limit the size of a launch, some to 2**31 threads.
_MOST_THREADS: Final = 1 << 30


class Stream(LaunchQueue):
    """What all kernels of a device share.

    OpenCL forbids two threads to set the arguments of one kernel at once: only with the lock held are they set.
    """

    driver_errors: ClassVar[tuple[type[Exception], ...]] = (cl.Error,)

    def __init__(self, device: cl.Device) -> None:
        self.device, self.label = device, device.name
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)  # in order: the default
        self.buffers = BufferTable(self.context, self.queue)
        self.lock = threading.RLock()
        self.most_groups = _MOST_THREADS // device.max_work_group_size
        self._process = os.getpid()

    def check_process(self) -> None:
        """Refuse to go on in a forked child, which has none of the runtime's threads and would wait for ever.

        Raises
        ------
        RuntimeError
            In a process that was forked after the device had been used.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"OpenCL device {self.device.name} was used before this process was forked, and does not work across a "
                "fork: start processes with multiprocessing's 'spawn', or use the device only after the fork"
            )

    def begin(self) -> None:
        self.check_process()

    def flush(self) -> None:
        self.queue.flush()

    def resolve(self, address: int) -> cl.Buffer:
        buffer, offset = self.buffers.find(address)
        assert offset == 0, "an array that starts inside its buffer"  # none does: the host makes no slices
        return buffer

    def texture(self, address: int, shape: tuple[int, ...]) -> cl.Image:
        return self.buffers.image(address, shape)

    def launch(self, function: cl.Kernel, values: Sequence[Any], groups: int, group: int) -> None:
        for index, value in enumerate(values):
            function.set_arg(index, value)
        cl.enqueue_nd_range_kernel(self.queue, function, (groups * group,), (group,))

    def cell(self, nbytes: int) -> Any:
        return self.buffers.allocate(nbytes)

    def read(self, cell: Any, nbytes: int) -> bytes:
        found = np.zeros(nbytes, np.uint8)
        self.buffers.download(cell.address, found)
        return found.tobytes()


class Program:
    """A built program of a device; the kernels of one text share it.

    Raises
    ------
    RuntimeError
        If the device cannot compile it; the message has the compiler's words and the numbered text.
    """

    def __init__(self, stream: Stream, options: Sequence[str], source: str, name: str) -> None:
        # Not `pyopencl.Program`: it adds an include path, the options in an environment variable, which may be unsafe
        # ones, and a cache on disk.
        self.built = cl._cl._Program(stream.context, source)
        try:
            self.built._build(options=" ".join(options).encode(), devices=[stream.device])
        except cl.Error as error:
            log = "\n".join(text for _, text in self.built._get_build_logs() if text)
            lines = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(source.splitlines(), 1))
            raise RuntimeError(
                f"kernel `{name}`: {stream.device.name} cannot compile its OpenCL C, which is an error of Tack or "
                f"of the driver: {error}\n{log}\n{lines}"
            ) from None

<<<<<<< packages/tack-core/src/tack/runtime/opencl_launch.py
    def function(self, name: str) -> cl.Kernel:
        """The kernel of a name, for one executable: its arguments are part of it."""
        return cl.Kernel(self.built, name)
=======

@record(frozen=True)
class CallArguments:
    """The arguments of one call by position of the user's parameters: buffers, extents, numbers as they are packed, and
    the addresses that buffers have in the table."""

    buffers: Sequence[Any]
    shapes: Sequence[tuple[int, ...]]
    scalars: Sequence[int | float]
    addresses: Sequence[int] = ()


class DeviceKernel:
    """One generated kernel with its parameters."""

    def __init__(self, program: Program, plan: KernelPlan) -> None:
        self.space = compile_space(plan.ranges)
        self._kernel = cl.Kernel(program.built, plan.name)
        self._parameters, self._group = plan.parameters, plan.group

    def enqueue(
        self, stream: Stream, call: CallArguments, space: LoopSpace | None, total: int, result: cl.Buffer | None
    ) -> None:
        """Enqueue iterations 0 to `total`; the caller holds the stream's lock."""
        kernel, group = self._kernel, self._group
        varying = []
        for index, parameter in enumerate(self._parameters):
            if parameter.kind in (plans.FIRST, plans.STOP):
                varying.append((index, parameter.kind))
            elif parameter.kind == plans.TEXTURE:
                position = parameter.position
                kernel.set_arg(index, stream.buffers.image(call.addresses[position], call.shapes[position]))
            else:
                kernel.set_arg(index, _argument(parameter, call, space, result))
        for first in range(0, total, PIECE):
            stop = min(first + PIECE, total)
            for index, kind in varying:
                kernel.set_arg(index, _pack_word(first if kind == plans.FIRST else stop))
            threads = -(-(stop - first) // group) * group
            cl.enqueue_nd_range_kernel(stream.queue, kernel, (threads,), (group,))


def _argument(
    parameter: KernelParameter, call: CallArguments, space: LoopSpace | None, result: cl.Buffer | None
) -> Any:
    """The value of a parameter that is the same for all pieces, as `set_arg` takes it."""
    kind, position, axis = parameter.kind, parameter.position, parameter.axis
    if kind == plans.ARRAY:
        return call.buffers[position]
    if kind == plans.SCALAR:
        return pack(call.scalars[position], parameter.dtype)
    if kind == plans.EXTENT:
        return _pack_word(call.shapes[position][axis])
    if kind == plans.RESULT:
        return result
    assert space is not None
    if kind == plans.TRIPS:
        return _pack_unsigned(space.trips[axis])
    return _pack_word((space.starts if kind == plans.START else space.steps)[axis])


def pack(value: int | float, dtype: DType) -> bytes:
    """A number as the bytes of its type; a float too large for f32 becomes infinite, as by a cast."""
    if dtype is f32:
        return bytes(ctypes.c_float(value))
    if dtype is f64:
        return bytes(ctypes.c_double(value))
    return int(value).to_bytes(dtype.itemsize, "little", signed=dtype.is_signed)


class OpenCLExecutable:
    """A compiled kernel. A launch returns when it is enqueued, or, if it has a result, when that is there."""

    address: int | None = None  # there is no native entry: a call goes through Python
    may_print = False

    def __init__(self, stream: Stream, program: Program, kernel: IRKernel, plan: LaunchPlan) -> None:
        self._stream, self._program, self._name = stream, program, kernel.name
        self._types = [param.type for param in kernel.params]
        self._loops = [DeviceKernel(program, loop) for loop in plan.loops]
        self._result: DeviceKernel | None = None
        if plan.result is not None:
            self._result = DeviceKernel(program, plan.result)
            self._result_dtype = kernel.results[0]
            self._cell = cl.Buffer(stream.context, cl.mem_flags.READ_WRITE, _RESULT_BYTES)

    def launch(self, block: int) -> int:
        """Enqueue the loops of a call; all bounds are evaluated before any of them runs.

        Raises
        ------
        RuntimeError
            If the device refuses a launch.
        """
        self._stream.check_process()
        call = self._arguments(block)
        try:
            spaces = [loop.space(call.scalars, call.shapes) for loop in self._loops]
        except OverflowError:
            return STATUS_BOUNDS_OVERFLOW
        except ZeroDivisionError:
            return STATUS_BOUNDS_ZERO_DIVISION
        try:
            with self._stream.lock:
                for loop, space in zip(self._loops, spaces, strict=True):
                    if space.total:
                        loop.enqueue(self._stream, call, space, space.total, None)
                if self._result is None:
                    self._stream.queue.flush()
                else:
                    self._compute_result(call, block)
        except cl.Error as error:
            device = self._stream.device.name
            raise RuntimeError(f"kernel `{self._name}` could not run on {device}: {error}") from error
        return STATUS_OK

    def _compute_result(self, call: CallArguments, block: int) -> None:
        assert self._result is not None
        self._result.enqueue(self._stream, call, None, 1, self._cell)
        found = np.zeros(1, self._result_dtype.numpy)
        cl.enqueue_copy(self._stream.queue, found, self._cell, is_blocking=True)
        store_result(block, len(self._types), found)

    def _arguments(self, block: int) -> CallArguments:
        found = read_arguments(block, self._types)
        arrays = [isinstance(kind, ArrayType) for kind in self._types]
        buffers = [self._buffer(x) if array else None for x, array in zip(found.addresses, arrays, strict=True)]
        return CallArguments(buffers, found.shapes, found.scalars, found.addresses)

    def _buffer(self, address: int) -> cl.Buffer:
        buffer, offset = self._stream.buffers.find(address)
        assert offset == 0, "an array that starts inside its buffer"  # none does: the host makes no slices
        return buffer
>>>>>>> /tmp/team/d-new
