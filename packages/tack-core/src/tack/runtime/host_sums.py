"""Sums of large arrays on a host device, as kernels: blocks are added up at once, and then their sums.

A block has a fixed size, so that the result does not depend on the number of threads. NumPy adds on one thread, which
memory keeps waiting.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tack.lang.array import Array
from tack.lang.intrinsics import PUBLIC
from tack.lang.kernel import Kernel, kernel
from tack.lang.types import DType, i64, u64

local = PUBLIC["local"]

LEAST = 1 << 16  # elements that are worth the threads, and the compiling
BLOCK = 1 << 15
COLUMN_BYTES = 128  # of the sums that a block of floats is added into side by side, in vectors; 256 was slower


@functools.cache
def _float_sums(dtype: DType, columns: int) -> Kernel:
    @kernel
    def float_sums(values: Any, sums: Any, block: i64) -> None:  # type: ignore[valid-type]
        for b in range(sums.shape[0]):
            column = local(columns, dtype)
            for k in range(columns):
                column[k] = 0.0
            start = b * block
            stop = min(start + block, values.size)
            for i in range(start, stop - (columns - 1), columns):
                for k in range(columns):
                    column[k] += values[i + k]
            for i in range(start + (stop - start) // columns * columns, stop):
                column[(i - start) % columns] += values[i]
            total = column[0]
            for k in range(1, columns):
                total += column[k]
            sums[b] = total

    return float_sums


@functools.cache
def _integer_sums(wide: Any) -> Kernel:
    @kernel
    def integer_sums(values: Any, sums: Any, block: i64) -> None:  # type: ignore[valid-type]
        for b in range(sums.shape[0]):
            total = wide(0)
            for i in range(b * block, min((b + 1) * block, values.size)):
                total += values[i]
            sums[b] = total

    return integer_sums


def large_sum(array: Array) -> float:
    """The sum of an array of a host device; rules RED-2 to RED-4."""
    dtype = array._dtype
    flat = array if array.ndim == 1 else array.reshape(array.size)
    wide = dtype if dtype.is_float else i64 if dtype.is_signed else u64
    sums = np.empty(-(-array.size // BLOCK), wide.numpy)
    with array.device:
        if dtype.is_float:
            _float_sums(dtype, COLUMN_BYTES // dtype.itemsize)(flat, sums, BLOCK)
        else:
            _integer_sums(wide)(flat, sums, BLOCK)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(sums.sum(dtype=wide.numpy).item())
