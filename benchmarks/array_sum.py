"""The sum of an f32 array far beyond any cache, in any order: `tack.Array.sum`, and a reduction of OpenMP with SIMD."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 64 << 20
    close = 1e-5 if quick else 1e-3  # each adds in another order, and one after another is what most do
    # Small beside their spread, lest a sum that one f32 collects gets so large that elements no longer count.
    x = harness.filled(harness.uniform(n, 1) - np.float32(0.375))
    result = harness.zeros(1, np.float32)
    array = tack.from_dlpack(x)

    def ours() -> None:
        result[0] = array.sum()

    def numpy() -> None:
        result[0] = x.sum()

    yield harness.Case(
        name=f"sum f32 {n:,}",
        workload="array_sum",
        outputs=(result,),
        tack=ours,
        c=lambda library: bind(library, "array_sum", result, x, n),
        numpy=numpy,
        arguments=(result, x),
        tolerance=close,
        numpy_tolerance=close,
        peer_tolerance=close,
    )
