"""A histogram of 256 bins: by one atomic increment an element, and by private counts that are added at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind

BINS = 256
PARTS = 64


@tack.kernel
def histogram(counts, data):
    for i in range(data.shape[0]):
        tack.atomic_add(counts, data[i], 1)


@tack.kernel
def histogram_private(counts, data, parts: tack.i64):
    for part in range(parts):
        mine = tack.local((4, BINS), tack.i32)
        for k in range(4):
            for b in range(BINS):
                mine[k, b] = 0
        begin = data.size * part // parts
        end = data.size * (part + 1) // parts
        for i in range(begin, end - 3, 4):
            for k in range(4):  # equal neighbours do not wait for each other
                mine[k, data[i + k]] += 1
        for i in range(begin + (end - begin) // 4 * 4, end):
            mine[0, data[i]] += 1
        for b in range(BINS):
            tack.atomic_add(counts, b, mine[0, b] + mine[1, b] + mine[2, b] + mine[3, b])


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 64 << 20
    data = harness.filled(np.random.default_rng(1).integers(0, BINS, n, np.int32))
    counts = harness.zeros(BINS, np.int32)

    def numpy() -> None:
        counts[...] = np.bincount(data, minlength=BINS)

    def row(how: str, kernel: Callable[[], object], name: str) -> harness.Case:
        return harness.Case(
            name=f"histogram {n:,} into {BINS}, {how}",
            workload="histogram",
            outputs=(counts,),
            tack=kernel,
            c=lambda library: bind(library, name, counts, data, n),
            numpy=numpy,
            arguments=(counts, data),
            adapter=name,
            reset=lambda: counts.fill(0),
        )

    yield row("atomics", lambda: histogram(counts, data), "histogram")
    yield row("private copies", lambda: histogram_private(counts, data, PARTS), "histogram_private")
