"""What is known of the length of an iteration: it decides how finely a loop is cut, and never what it computes."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from tack.codegen.work_estimate import has_unknown_trips, lengths
from tack.lang.ir import IRParallelFor
from tack.runtime.compilation import type_kernel
from tack.runtime.dispatch import prepare


@tack.kernel
def literal(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(4):
            y[i] += k


@tack.kernel
def parameter(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(m):
            y[i] += k


@tack.kernel
def extent(y: tack.Array, m: tack.i64):
    n = y.shape[0]
    for i in range(n):
        for k in range(1, n - 1):
            for j in range(3):
                y[i] += k * j


@tack.kernel
def computed(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(i * m):
            y[i] += k


@tack.kernel
def loaded(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        for k in range(m):
            for j in range(y[i]):
                y[i] += k * j


@tack.kernel
def waiting(y: tack.Array, m: tack.i64):
    for i in range(y.shape[0]):
        while y[i] > 0:
            y[i] -= m


CASES = [(literal, 0, False), (parameter, 1, False), (extent, 1, False), (computed, 0, True), (loaded, 1, True)]


@pytest.mark.parametrize(("kernel", "known", "unknown"), [*CASES, (waiting, 0, True)], ids=lambda v: str(v))
def test_serial_loops_of_unknown_length(kernel, known, unknown):
    lowering, call = prepare(kernel).bind((np.zeros(4, np.int64), 3), {})
    typed = type_kernel(lowering.ir, call.values)
    loop = next(s for s in typed.body if isinstance(s, IRParallelFor))
    assert len(lengths(loop, typed)) == known
    assert has_unknown_trips(loop, typed) is unknown
