"""Faults of OpenCL drivers, each shown by a few lines of OpenCL C that no part of Tack has written.

A rule test that fails on a driver with such a fault, and is listed with it, counts as a skip that names the fault. Once
the driver is mended the probe finds nothing, and the test counts again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tack


@dataclass(frozen=True)
class Fault:
    """`source` is a kernel `probe(in, out)`; `shows` says of the outputs for `inputs` whether the fault is there."""

    reason: str
    source: str
    inputs: tuple[float, ...]
    dtype: str
    shows: Callable[[Any], bool]
    tests: frozenset[str]


FAULTS = (
    Fault(
        reason="the driver takes `(long)x < 0` of an int for false",
        source="__kernel void probe(__global const int* x, __global int* y) {"
        " int i = get_global_id(0); y[i] = (long)x[i] < 0L; }",
        inputs=(-7, 3),
        dtype="i4",
        shows=lambda y: y.tolist() != [1, 0],
        tests=frozenset(
            {
                "test_integer_division::test_mixed_types_divide_at_their_promotion",
                "test_integer_division::test_guarded_by_a_conditional_expression",
            }
        ),
    ),
    Fault(
        reason="the driver drops the store of `x / 0.0f`",
        source="__kernel void probe(__global const float* x, __global float* y) {"
        " int i = get_global_id(0); y[i] = x[i] / 0.0f; }",
        inputs=(1.0, -2.0),
        dtype="f4",
        shows=lambda y: not np.isinf(y).all(),
        tests=frozenset({"test_division_and_power::test_constant_zero_divisor"}),
    ),
    Fault(
        reason="the driver folds `x * 0.0f` to zero without being asked for fast math",
        source="__kernel void probe(__global const float* x, __global float* y) {"
        " int i = get_global_id(0); y[i] = x[i] * 0.0f; }",
        inputs=(np.inf, 1.0),
        dtype="f4",
        shows=lambda y: not np.isnan(y[0]),
        tests=frozenset(
            {
                "test_float_semantics::test_no_unsafe_identities",
                "test_float_semantics::test_the_folds_that_fast_math_makes_are_wrong",
            }
        ),
    ),
)


def known_fault(device: tack.Device, test: str) -> str | None:
    """The reason for a skip if a test, ``module::function``, is listed with a fault that the device's driver has."""
    if device.name.startswith("opencl"):
        for fault in FAULTS:
            if test in fault.tests and has_fault(device, fault):
                return f"device {device.name}: {fault.reason}"
    return None


@functools.cache
def has_fault(device: tack.Device, fault: Fault) -> bool:
    """Whether the probe shows the fault on a device; the driver's compiler is called directly."""
    import pyopencl as cl

    context = cl.Context([device.backend.device])
    queue = cl.CommandQueue(context)
    given = np.array(fault.inputs, fault.dtype)
    found = np.zeros_like(given)
    flags = cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE | flags, hostbuf=a) for a in (given, found)]
    program = cl._cl._Program(context, fault.source)
    program._build(options=b"-cl-std=CL1.2", devices=[device.backend.device])
    kernel = cl.Kernel(program, "probe")
    kernel.set_args(*buffers)
    cl.enqueue_nd_range_kernel(queue, kernel, given.shape, None)
    cl.enqueue_copy(queue, found, buffers[1])
    return fault.shows(found)
