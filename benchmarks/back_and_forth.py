"""Sweeps of a stencil, back and forth between two arrays: what the stencil workloads have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks import harness
from benchmarks.compilers import bind

Sweep = Callable[[np.ndarray, np.ndarray], object]


def case(name: str, workload: str, start: np.ndarray, sweeps: int, tack: Sweep, numpy: Sweep) -> harness.Case:
    """The row for a stencil of f32: `tack` and `numpy` take the array to write and the one to read."""
    a, b = harness.filled(start), harness.filled(start)

    def alternate(there: Callable[[], object], back: Callable[[], object]) -> None:
        for _ in range(sweeps // 2):
            there()
            back()

    def in_c(library):
        there, back = bind(library, workload, b, a, len(a)), bind(library, workload, a, b, len(a))
        return lambda: alternate(there, back)

    def reset() -> None:
        a[...] = start
        b[...] = start

    return harness.Case(
        name=f"{name}, {sweeps} sweeps",
        workload=workload,
        outputs=(a, b),
        tack=lambda: alternate(lambda: tack(b, a), lambda: tack(a, b)),
        c=in_c,
        numpy=lambda: alternate(lambda: numpy(b, a), lambda: numpy(a, b)),
        arguments=(a, b, sweeps),
        reset=reset,
        peer_tolerance=1e-5,
    )
