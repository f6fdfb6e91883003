"""saxpy, z = a x + y in f32: three sizes, from where the call costs the most to where memory does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


@tack.kernel
def saxpy(z, x, y, a):
    for i in range(z.shape[0]):
        z[i] = a * x[i] + y[i]


def cases(quick: bool) -> Iterator[harness.Case]:
    for n in (1_000, 10_000) if quick else (1_000, 100_000, 10_000_000):
        yield case(n)


def case(n: int) -> harness.Case:
    a = 3.1
    x, y = harness.uniform(n, 1), harness.uniform(n, 2)
    z = harness.zeros(n, np.float32)

    def numpy() -> None:
        np.multiply(x, np.float32(a), out=z)
        np.add(z, y, out=z)

    return harness.Case(
        name=f"saxpy f32 {n:,}",
        workload="saxpy",
        outputs=(z,),
        tack=lambda: saxpy(z, x, y, a),
        c=lambda library: bind(library, "saxpy", z, x, y, np.float32(a), n),
        numpy=numpy,
        arguments=(z, x, y, a),
        peer_tolerance=1e-6,
    )
