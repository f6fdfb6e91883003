"""Launching the kernels of a `LaunchPlan` on a device with a queue: everything that no driver has a say in.

A device supplies a `LaunchQueue`: how to launch one function, what its API takes for an address, how to read a few
bytes back. Reading the argument block, evaluating bounds, cutting long loops into pieces, the values of parameters, the
result and the words of errors are here, once for all devices.
"""

from __future__ import annotations

import abc
import ctypes
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tack.codegen import launch_plan as plans
from tack.codegen.launch_plan import KernelParameter, KernelPlan, LaunchPlan
from tack.lang.types import DType
from tack.runtime.backend import (
    BLOCK_WORDS_PER_PARAM,
    STATUS_BOUNDS_OVERFLOW,
    STATUS_BOUNDS_ZERO_DIVISION,
    STATUS_OK,
)
from tack.runtime.launch_arguments import CallArguments, read_arguments, store_result
from tack.runtime.launch_ranges import LoopSpace, compile_space

if TYPE_CHECKING:
    from tack.runtime.native_launch import NativeTable

_FORMATS: Final = {
    "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q", "f64": "<d"
}  # fmt: skip


_forks = 0  # before this process; counted, since asking for its number costs more than a launch on some systems


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class LaunchQueue(abc.ABC):
    """The one queue of a device, which calls of all threads share in order.

    Attributes
    ----------
    label
        The device in messages.
    most_groups
        The most workgroups of one launch; longer loops are launched in pieces.
    lock
        Held while a call is enqueued, so that a call of several loops is not split by another, and never while a kernel
        runs. The same thread may take it again.
    driver_errors
        What the driver's refusals are raised as.
    error
        What a refused launch is raised as; it takes a message.
    """

    label: str
    most_groups: int
    lock: AbstractContextManager[Any]
    driver_errors: ClassVar[tuple[type[Exception], ...]] = (RuntimeError,)
    error: ClassVar[type[Exception]] = RuntimeError

    def __init__(self) -> None:
        self._forks = _forks

    def is_usable(self) -> bool:
        """Whether this is the process that made it, not one forked from it, where a driver's state is another's."""
        return self._forks == _forks

    def begin(self) -> None:
        """Before anything is asked of the driver: refuse a forked process, make a context current.

        Raises
        ------
        Exception
            `error`, in a process that was forked after the device had been used.
        """
        if not self.is_usable():
            raise self.error(
                f"{self.label} was used before this process was forked, and does not work across a fork: start "
                "processes with multiprocessing's 'spawn', or use the device only after the fork"
            )

    def throttle(self) -> None:  # noqa: B027
        """Before the lock is taken: wait until the driver's queue has room, so that no lock is held meanwhile."""

    def flush(self) -> None:  # noqa: B027
        """After a call that has no result, with the lock held: let the device start."""

    @abc.abstractmethod
    def resolve(self, address: int) -> Any:
        """What `launch` takes for a parameter that is an address."""

    def texture(self, address: int, shape: tuple[int, ...]) -> Any:
        """What `launch` takes for an image of the texels at an address, where the device has images."""
        raise NotImplementedError

    @abc.abstractmethod
    def launch(self, function: Any, values: Sequence[Any], groups: int, group: int) -> None:
        """Enqueue `groups` workgroups of `group` threads; `values` by parameter: what `resolve` gave, or bytes."""

    def native(self, plan: LaunchPlan, functions: Sequence[Any]) -> NativeTable | None:
        """What launches a kernel without Python, where the device can.

        `functions` are those of its loops, and of its result. The block of a call has the address of a cell for the
        result in its last word.
        """
        return None

    def refused(self, code: int) -> Exception:
        """The exception of a code that the native launcher got from the driver."""
        raise NotImplementedError

    def expect(self, cell: Any) -> None:
        """Make a cell ready for a result; of queues with native launchers."""
        raise NotImplementedError

    def arrive(self, cell: Any, nbytes: int) -> None:
        """Return when the result is in the cell that `expect` made ready; called without the lock."""
        raise NotImplementedError

    @abc.abstractmethod
    def cell(self, nbytes: int) -> Any:
        """Memory for a result, with its `address`; freed with the object."""

    @abc.abstractmethod
    def read(self, cell: Any, nbytes: int) -> bytes:
        """The bytes of a cell, when everything that was enqueued before is over. Called without the lock."""


class QueuedKernel:
    """One generated kernel: its function as the device's API has it, and its plan."""

    def __init__(self, function: Any, plan: KernelPlan) -> None:
        self.function, self.plan = function, plan
        self.space = compile_space(plan.ranges)
        kinds = (plans.FIRST, plans.STOP)
        self._varying = [(i, p) for i, p in enumerate(plan.parameters) if p.kind in kinds]

    def enqueue(
        self, queue: LaunchQueue, call: CallArguments, space: LoopSpace | None, total: int, result: int = 0
    ) -> None:
        """Enqueue iterations 0 to `total`, in pieces of whole workgroups; the caller holds the queue's lock."""
        plan = self.plan
        values = [_value(parameter, queue, call, space, result) for parameter in plan.parameters]
        per_group = plan.group * plan.each
        piece = queue.most_groups * per_group
        if not self._varying:  # nothing would tell a piece from another
            check_launch_size(plan.name, -(-total // per_group), queue)
        for first in range(0, total, piece):
            stop = min(first + piece, total)
            for index, parameter in self._varying:
                values[index] = pack(first if parameter.kind == plans.FIRST else stop, parameter.dtype)
            queue.launch(self.function, values, -(-(stop - first) // per_group), plan.group)


def check_launch_size(what: str, groups: int, queue: LaunchQueue) -> None:
    """Refuse a launch that cannot be cut into pieces and is larger than the device allows.

    Parameters
    ----------
    what
        What is launched, in words: "Array sum()", a kernel's name.
    groups
        The workgroups that it needs.
    queue
        The device's.

    Raises
    ------
    ValueError
        If there are more than `queue.most_groups`.
    """
    if groups > queue.most_groups:
        raise ValueError(f"{what}: {groups} workgroups, and a launch on {queue.label} has at most {queue.most_groups}")


def _value(
    parameter: KernelParameter, queue: LaunchQueue, call: CallArguments, space: LoopSpace | None, result: int
) -> Any:
    """The value of a parameter, None if it is another in each piece."""
    kind, position, axis = parameter.kind, parameter.position, parameter.axis
    if kind == plans.ARRAY:
        return queue.resolve(call.addresses[position])
    if kind == plans.TEXTURE:
        return queue.texture(call.addresses[position], call.shapes[position])
    if kind == plans.RESULT:
        return queue.resolve(result)
    if kind in (plans.FIRST, plans.STOP):
        return None
    if kind == plans.SCALAR:
        return pack(call.scalars[position], parameter.dtype)
    if kind == plans.EXTENT:
        return pack(call.shapes[position][axis], parameter.dtype)
    assert space is not None
    per_axis = {plans.TRIPS: space.trips, plans.START: space.starts, plans.STEP: space.steps}
    return pack(per_axis[kind][axis], parameter.dtype)


def pack(value: int | float, dtype: DType) -> bytes:
    """A number as the bytes of its type; a float too large for f32 becomes infinite, as by a cast."""
    if dtype.name == "f32":
        return bytes(ctypes.c_float(value))
    return struct.pack(_FORMATS[dtype.name], value)


class QueuedExecutable:
    """A compiled kernel. A launch returns when it is enqueued, or, if it has a result, when that is there.

    Parameters
    ----------
    queue
        The device's.
    plan
        How to launch it.
    function
        Gives the function of a kernel's name, as `LaunchQueue.launch` takes it.
    owner
        Whatever must live as long as the functions.
    """

    may_print, is_brief = False, True

    def __init__(
        self, queue: LaunchQueue, plan: LaunchPlan, function: Callable[[str], Any], owner: object = None
    ) -> None:
        self._queue, self._plan, self._owner = queue, plan, owner
        self._native: NativeTable | None = None
        self._loops = [QueuedKernel(function(loop.name), loop) for loop in plan.loops]
        self._kernels, self._result = self._loops, None
        if plan.result is not None:
            self._result = QueuedKernel(function(plan.result.name), plan.result)
            self._kernels = [*self._loops, self._result]
            self._result_dtype = next(p.dtype for p in plan.result.parameters if p.kind == plans.RESULT)

    @property
    def address(self) -> int | None:
        """The native launcher, made when somebody asks; None if there is none, or a result must be waited for."""
        if self._native is None:
            self._native = self._queue.native(self._plan, [kernel.function for kernel in self._kernels])
        return None if self._native is None or self._result is not None else self._native.function

    @property
    def context(self) -> int:
        return 0 if self._native is None else self._native.context

    def launch(self, block: int) -> int:
        """Enqueue the loops of a call; all bounds are evaluated before any of them runs.

        Raises
        ------
        Exception
            The queue's `error`, if the device refuses a launch, or an earlier one has failed.
        """
        if self._native is not None:
            try:
                self._raise_failure()
                self._queue.throttle()
                if self._launch_natively(block) == STATUS_OK:
                    return STATUS_OK
                self._raise_failure()
            except self._queue.driver_errors as error:
                raise self._explained(error, "in an earlier launch, or a loop after the first") from error
        call = read_arguments(block, self._plan.arguments)
        try:
            spaces = [kernel.space(call.scalars, call.shapes) for kernel in self._kernels]
        except OverflowError:
            return STATUS_BOUNDS_OVERFLOW
        except ZeroDivisionError:
            return STATUS_BOUNDS_ZERO_DIVISION
        self._enqueue(call, spaces, block)
        return STATUS_OK

    def repeat(self, block: int, cell: Any) -> bool:
        """A call of a kernel with a result whose block has the address of this cell, which then has the result, in its
        last word; False if it has to be made by `launch`, and nothing has run.

        Raises
        ------
        Exception
            As `launch`.
        """
        native, queue = self._native, self._queue
        if native is None:
            return False
        try:
            queue.throttle()
            queue.expect(cell)
            if native.launch(block) != STATUS_OK:
                return False
            queue.arrive(cell, self._result_dtype.itemsize)
        except queue.driver_errors as error:
            raise self._explained(error, "in an earlier launch, or this one") from error
        return True

    def _enqueue(self, call: CallArguments, spaces: Sequence[LoopSpace], block: int) -> None:
        queue, cell, where = self._queue, None, "before its launch"
        try:
            queue.throttle()
            with queue.lock:
                queue.begin()
                for number, (loop, space) in enumerate(zip(self._loops, spaces, strict=False), 1):
                    if space.total:
                        where = f"loop {number} of {len(self._loops)}, {space.total} iterations"
                        loop.enqueue(queue, call, space, space.total)
                where = "the result"
                if self._result is None:
                    queue.flush()
                else:
                    cell = queue.cell(self._result_dtype.itemsize)
                    self._result.enqueue(queue, call, spaces[-1], spaces[-1].total, cell.address)
            if cell is not None:
                self._read_result(cell, block)
        except queue.driver_errors as error:
            raise self._explained(error, where) from error

    def _explained(self, error: Exception, where: str) -> Exception:
        return self._queue.error(
            f"kernel `{self._plan.kernel}` could not run on {self._queue.label} ({where}): {error}"
        )

    def _launch_natively(self, block: int) -> int:
        """As `launch`, where nothing is unusual; another status means that nothing has run."""
        assert self._native is not None
        if self._result is None:
            return self._native.launch(block)
        cell = self._queue.cell(self._result_dtype.itemsize)
        word = block + 8 * BLOCK_WORDS_PER_PARAM * len(self._plan.arguments)
        ctypes.c_int64.from_address(word).value = cell.address
        status = self._native.launch(block)
        if status == STATUS_OK:
            self._read_result(cell, block)
        return status

    def _read_result(self, cell: Any, block: int) -> None:
        dtype = self._result_dtype
        store_result(block, len(self._plan.arguments), self._queue.read(cell, dtype.itemsize), dtype)

    def _raise_failure(self) -> None:
        """Say what the native launcher could not: that a loop after the first was refused, in this call or another."""
        code = 0 if self._native is None else self._native.take_failure()
        if code:
            raise self._queue.refused(code)
