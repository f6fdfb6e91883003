"""Jacobi sweeps over a square grid in f32, back and forth between two arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


@tack.kernel
def jacobi(b, a):
    n = a.shape[0]
    for i, j in tack.ndrange((1, n - 1), (1, n - 1)):
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


def in_numpy(b: np.ndarray, a: np.ndarray) -> None:
    inner = b[1:-1, 1:-1]
    np.add(a[:-2, 1:-1], a[2:, 1:-1], out=inner)
    inner += a[1:-1, :-2]
    inner += a[1:-1, 2:]
    inner *= np.float32(0.25)


def cases(quick: bool) -> Iterator[harness.Case]:
    n, sweeps = (100, 4) if quick else (4096, 20)
    start = np.random.default_rng(1).random((n, n), np.float32)
    a, b = harness.filled(start), harness.filled(start)

    def back_and_forth(there: Callable[[], object], back: Callable[[], object]) -> None:
        for _ in range(sweeps // 2):
            there()
            back()

    def in_c(library):
        there, back = bind(library, "jacobi", b, a, n), bind(library, "jacobi", a, b, n)
        return lambda: back_and_forth(there, back)

    def reset() -> None:
        a[...] = start
        b[...] = start

    yield harness.Case(
        name=f"2-D Jacobi {n}², {sweeps} sweeps",
        workload="jacobi",
        outputs=(a, b),
        tack=lambda: back_and_forth(lambda: jacobi(b, a), lambda: jacobi(a, b)),
        c=in_c,
        numpy=lambda: back_and_forth(lambda: in_numpy(b, a), lambda: in_numpy(a, b)),
        reset=reset,
    )
