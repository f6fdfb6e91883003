"""Sorting u32 keys: `tack.algorithms.sort`, and a radix sort in C, its parts counted and moved by a thread each.

Each makes the second array that it needs in each call.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 16 << 20
    keys = harness.filled(np.random.default_rng(1).integers(0, 1 << 32, n, np.uint32))
    out = harness.zeros(n, np.uint32)
    source, target = tack.from_dlpack(keys), tack.from_dlpack(out)

    def numpy() -> None:
        out[...] = keys
        out.sort()

    yield harness.Case(
        name=f"radix sort u32 {n:,}",
        workload="radix_sort",
        outputs=(out,),
        tack=lambda: tack.algorithms.sort(source, target),
        c=lambda library: bind(library, "radix_sort", out, keys, n),
        numpy=numpy,
        arguments=(out, keys),
    )
