"""The STREAM triad, a = b + s c in f32, far beyond any cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


@tack.kernel
def triad(a, b, c, s):
    for i in range(a.shape[0]):
        a[i] = b[i] + s * c[i]


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 64 << 20
    s = 3.1
    b, c = harness.uniform(n, 1), harness.uniform(n, 2)
    a = harness.zeros(n, np.float32)

    def numpy() -> None:
        np.multiply(c, np.float32(s), out=a)
        np.add(b, a, out=a)

    yield harness.Case(
        name=f"triad f32 {n:,}",
        workload="triad",
        outputs=(a,),
        tack=lambda: triad(a, b, c, s),
        c=lambda library: bind(library, "triad", a, b, c, np.float32(s), n),
        numpy=numpy,
        arguments=(a, b, c, s),
        peer_tolerance=1e-6,
    )
