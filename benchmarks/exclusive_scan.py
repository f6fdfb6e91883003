"""The running sums of an i32 array: `tack.algorithms.exclusive_scan`, and two passes over each thread's part in C."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 64 << 20
    values = harness.filled(np.random.default_rng(1).integers(0, 16, n, np.int32))
    out = harness.zeros(n, np.int32)
    source, target = tack.from_dlpack(values), tack.from_dlpack(out)

    def numpy() -> None:
        out[0] = 0
        np.cumsum(values[:-1], dtype=np.int32, out=out[1:])

    yield harness.Case(
        name=f"exclusive scan i32 {n:,}",
        workload="exclusive_scan",
        outputs=(out,),
        tack=lambda: tack.algorithms.exclusive_scan(source, target),
        c=lambda library: bind(library, "exclusive_scan", out, values, n),
        numpy=numpy,
        arguments=(out, values),
    )
