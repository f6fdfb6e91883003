"""Whether a loop goes to the thread pool follows from the work that a launch finds, and not from the loop alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tack
from lane_rig import Compiled, typed_ir


@tack.kernel
def by_extent(a, n, out):
    for i in range(out.shape[0]):
        total = 0
        for j in range(a.shape[0]):
            total += a[j]
        out[i] = total


@tack.kernel
def by_parameter(a, n, out):
    for i in range(out.shape[0]):
        total = 0
        for j in range(n):
            total += a[j]
        out[i] = total


@tack.kernel
def by_local(a, n, out):
    last = a.shape[0] - 1
    for i in range(out.shape[0]):
        total = a[0]
        for j in range(1, last + 1):
            total += a[j]
        out[i] = total


def shared(kernel: Any, rows: int, length: int) -> int:
    """How many loops of a call went to the pool; the results are checked on the way."""
    a, out = np.arange(length, dtype=np.int32), np.zeros(rows, np.int32)
    compiled = Compiled(typed_ir(kernel, a, length, out), None, shared=False)
    found = compiled(a, length, out)[-1]
    assert found.tolist() == [length * (length - 1) // 2] * rows
    return compiled.calls


@pytest.mark.parametrize("kernel", [by_extent, by_parameter, by_local], ids=lambda k: k.__name__)
def test_few_long_iterations_are_shared(kernel: Any) -> None:
    """Two rows of 60,000 elements are worth a second thread; two of ten, or of none, are not."""
    assert shared(kernel, 2, 60_000) == 1
    assert shared(kernel, 2, 10) == 0
    assert shared(kernel, 1, 60_000) == 0, "one iteration cannot be shared"


def test_many_short_iterations_are_shared_as_before() -> None:
    """Short loops inside count as they did: 40,000 rows of one element are worth it."""
    assert shared(by_extent, 40_000, 1) == 1
