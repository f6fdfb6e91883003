"""Array reductions on a device with a queue: passes over the elements, then over what the workgroups found (RED-*)."""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tack.codegen.array_reductions import (
    ENOUGH,
    LANES,
    MOST_GROUPS,
    accumulator,
    fused_reduction_source,
    reduction_source,
)
from tack.codegen.exact_sums import GROUP_ELEMENTS, LAYOUTS, SPECIAL_BITS, exact_bins_source, exact_total_source
from tack.codegen.launch_plan import KernelPlan, LaunchPlan
from tack.lang.types import f32, i64
from tack.runtime.queued_launch import LaunchQueue, QueuedExecutable, check_launch_size
from tack.runtime.reductions import round_units

if TYPE_CHECKING:
    from tack.codegen.c_family import CFamilyCodeGen, CFamilyOptions
    from tack.lang.array import Array
    from tack.lang.types import DType

_SUBNORMAL_UNITS: Final = 1127  # `round_units` counts 2**-1127

_pack_i64 = struct.Struct("<q").pack

Build = Callable[[str, KernelPlan], Any]
"""Compiles a text and gives the function of its kernel, as `LaunchQueue.launch` takes it."""


class QueuedReductions:
    """The reductions of one device; kernels are made at their first use.

    Parameters
    ----------
    queue
        The device's.
    generator, options
        The dialect.
    build
        See `Build`.
    memory
        Gives device memory of a number of bytes, as an object with its `address`.
    read
        Copies device memory into a host array, after all that was enqueued.
    resident
        How many workgroups of an exact sum the device runs at once.
    """

    def __init__(
        self,
        queue: LaunchQueue,
        generator: type[CFamilyCodeGen],
        options: CFamilyOptions | None,
        build: Build,
        memory: Callable[[int], Any],
        read: Callable[[int, np.ndarray[Any, Any]], None],
        resident: int = MOST_GROUPS,
    ) -> None:
        self._queue, self._dialect, self._build = queue, (generator, options), build
        self._memory, self._read, self._resident = memory, read, resident
        self._kernels: dict[tuple[str, str], tuple[Any, KernelPlan]] = {}
        self._fused: dict[tuple[str, str], FusedReduction] | None = {} if generator.dialect.ticket else None
        self._partials: Any = None  # what one pass leaves to the next: calls come one after another on the device
        self._partial_bytes = 0

    def reduce(self, array: Array, op: str) -> float:
        """Reduce a non-empty array by "sum", "min" or "max"."""
        if self._fused is not None:
            fused = self._fused.get((op, array.dtype.name)) or self._fuse(self._fused, op, array.dtype)
            return fused(array._data, array.size)
        kind, groups = accumulator(op, array.dtype), _groups(array.size, LANES * ENOUGH, MOST_GROUPS)
        queue = self._queue
        with queue.lock:
            queue.begin()
            cell = queue.cell(kind.itemsize)
            first = self._kernel(op, array.dtype)
            if groups == 1:
                self._pass(first, array._data, (array.size, LANES), 1, cell.address)
            else:
                partials = self._scratch(MOST_GROUPS * i64.itemsize)
                self._pass(first, array._data, (array.size, groups * LANES), groups, partials)
                self._pass(self._kernel(op, kind), partials, (groups, LANES), 1, cell.address)
        return float(np.frombuffer(queue.read(cell, kind.itemsize), kind.numpy)[0])

    def _fuse(self, known: dict[tuple[str, str], FusedReduction], op: str, dtype: DType) -> FusedReduction:
        """Make a reduction of one kernel, once."""
        with self._queue.lock:
            found = known.get((op, dtype.name))
            if found is None:
                self._queue.begin()
                generator, options = self._dialect
                text, plan = fused_reduction_source(generator, op, dtype, options)
                function = self._build(text, plan)
                call = LaunchPlan((), plan, generator.packed, (1,), f"{op} of {dtype.name}")
                executable = QueuedExecutable(self._queue, call, lambda name: function)
                found = known[op, dtype.name] = FusedReduction(self._queue, executable, accumulator(op, dtype))
        return found

    def exact_sum(self, array: Array) -> float:
        """The exact sum of a non-empty array of floats, rounded once to their type."""
        layout, queue = LAYOUTS[array.dtype], self._queue
        least = -(-array.size // GROUP_ELEMENTS)
        groups = max(least, _groups(array.size, layout.lanes * ENOUGH, self._resident))
        found = np.zeros((layout.rows, 2), np.int64)
        with queue.lock:
            queue.begin()
            bins, totals = self._scratch(groups * layout.rows * i64.itemsize), self._memory(found.nbytes)
            stride = groups * layout.lanes
            self._pass(self._kernel("exact", array.dtype), array._data, (array.size, stride), groups, bins)
            self._pass(self._kernel("total", i64), bins, (groups, layout.rows), layout.rows, totals.address)
        self._read(totals.address, found)
        sums = [low + (high << 32) for low, high in found.tolist()]
        special = [sums[-1] >> SPECIAL_BITS * k & ((1 << SPECIAL_BITS) - 1) for k in range(3)]
        if any(special):
            nan, above, below = special
            return float("nan") if nan or (above and below) else float("inf" if above else "-inf")
        units = sum(amount << k * layout.exponents for k, amount in enumerate(sums[:-1]))
        return round_units(units << _SUBNORMAL_UNITS - layout.unit, array.dtype.numpy)

    def _scratch(self, nbytes: int) -> int:
        """The address of at least so many bytes, for one call at a time; the caller holds the queue's lock."""
        if nbytes > self._partial_bytes:
            self._partials, self._partial_bytes = self._memory(nbytes), nbytes
        return int(self._partials.address)

    def _pass(
        self, kernel: tuple[Any, KernelPlan], source: int, extents: tuple[int, int], groups: int, result: int
    ) -> None:
        """Enqueue a kernel of an array, its result and two numbers, in this order."""
        function, plan = kernel
        check_launch_size(plan.name, groups, self._queue)
        resolve = self._queue.resolve
        self._queue.launch(function, (resolve(source), resolve(result), *map(_pack_i64, extents)), groups, plan.group)

    def _kernel(self, op: str, dtype: DType) -> tuple[Any, KernelPlan]:
        """A kernel by operation and element type; the caller holds the queue's lock."""
        found = self._kernels.get((op, dtype.name))
        if found is None:
            generator, options = self._dialect
            if op == "exact":
                text, plan = exact_bins_source(generator, dtype, options)
            elif op == "total":
                text, plan = exact_total_source(generator, options)
            else:
                text, plan = reduction_source(generator, op, dtype, options)
            found = self._kernels[op, dtype.name] = (self._build(text, plan), plan)
        return found


class _Block(ctypes.Structure):
    """The argument block of one array, its result or where that goes, then the array's one extent."""

    _fields_ = [(name, ctypes.c_int64) for name in ("source", "nbytes", "extents", "result", "size")]


class _Call:
    """A block, and the cell for the results of its calls."""

    __slots__ = ("address", "block", "cell", "found", "word")

    def __init__(self, cell: Any, kind: DType) -> None:
        self.block, self.cell = _Block(), cell
        self.address = ctypes.addressof(self.block)
        self.block.extents = self.address + _Block.size.offset
        self.block.result = cell.address
        self.found = _c_type(kind, kind.bits).from_address(cell.address)
        self.word = _c_type(kind, 64).from_address(self.address + _Block.result.offset)


def _c_type(kind: DType, bits: int) -> Any:
    """C's number of so many bits, and of the kind of another."""
    if kind.is_float:
        return ctypes.c_float if bits == f32.bits else ctypes.c_double
    return getattr(ctypes, f"c_{'int' if kind.is_signed else 'uint'}{bits}")


class FusedReduction:
    """A reduction by one kernel that is called again and again, by any thread: blocks and cells are kept."""

    def __init__(self, queue: LaunchQueue, executable: QueuedExecutable, kind: DType) -> None:
        self._queue, self._executable, self._kind = queue, executable, kind
        self._idle: deque[_Call] = deque()  # its methods are atomic
        _ = executable.address  # has the native launcher made, where there is one

    def __call__(self, source: int, size: int) -> float:
        """Reduce `size` elements from an address on."""
        try:
            call = self._idle.pop()
        except IndexError:
            call = _Call(self._queue.cell(self._kind.itemsize), self._kind)
        block = call.block
        block.source, block.size = source, size
        if self._executable.repeat(call.address, call.cell):
            result = call.found.value
        else:
            self._executable.launch(call.address)
            result = call.word.value
            block.result = call.cell.address
        self._idle.append(call)
        return float(result)


def _groups(size: int, enough: int, most: int) -> int:
    """Workgroups for a number of elements: one for every `enough`."""
    return max(1, min(most, size // enough))
