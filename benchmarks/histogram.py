"""A histogram of 256 bins by one atomic increment an element, in C too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind

BINS = 256


@tack.kernel
def histogram(counts, data):
    for i in range(data.shape[0]):
        tack.atomic_add(counts, data[i], 1)


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 64 << 20
    data = harness.filled(np.random.default_rng(1).integers(0, BINS, n, np.int32))
    counts = harness.zeros(BINS, np.int32)

    def numpy() -> None:
        counts[...] = np.bincount(data, minlength=BINS)

    yield harness.Case(
        name=f"histogram {n:,} into {BINS}, atomics",
        workload="histogram",
        outputs=(counts,),
        tack=lambda: histogram(counts, data),
        c=lambda library: bind(library, "histogram", counts, data, n),
        numpy=numpy,
        reset=lambda: counts.fill(0),
    )
