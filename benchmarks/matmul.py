"""A product of square f32 matrices: by its definition, in the order that one writes for speed, and tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind

TILE = 16
CLOSE = 1e-5  # to NumPy, which adds in another order


@tack.kernel
def naive_matmul(a, b, c):
    for i, j in tack.ndrange(c.shape[0], c.shape[1]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@tack.kernel
def matmul_ikj(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0.0
        for k in range(a.shape[1]):
            factor = a[i, k]
            for j in range(c.shape[1]):
                c[i, j] += factor * b[k, j]


@tack.kernel(group=TILE * TILE)
def tiled_matmul(a, b, c, tiles):
    left = tack.shared((TILE, TILE), tack.f32)
    right = tack.shared((TILE, TILE), tack.f32)
    for i in range(tiles * tiles * TILE * TILE):
        group = i // (TILE * TILE)
        y = tack.thread_id() // TILE
        x = tack.thread_id() % TILE
        row = group // tiles * TILE + y
        column = group % tiles * TILE + x
        total = 0.0
        for t in range(tiles):
            left[y, x] = a[row, t * TILE + x]
            right[y, x] = b[t * TILE + y, column]
            tack.barrier()
            for k in range(TILE):
                total += left[y, k] * right[k, x]
            tack.barrier()
        c[row, column] = total


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 64 if quick else 1024
    a, b, c = harness.uniform((n, n), 1), harness.uniform((n, n), 2), harness.zeros((n, n), np.float32)

    def numpy() -> None:
        np.matmul(a, b, out=c)

    def row(how: str, kernel: Callable[[], object], function: str, adapter: str) -> harness.Case:
        return harness.Case(
            name=f"matmul f32 {n}³, {how}",
            workload="matmul",
            outputs=(c,),
            tack=kernel,
            c=lambda library: bind(library, function, a, b, c, n),
            numpy=numpy,
            arguments=(a, b, c),
            adapter=adapter,
            numpy_tolerance=CLOSE,
            peer_tolerance=CLOSE,
        )

    yield row("as written: i, j, k", lambda: naive_matmul(a, b, c), "naive_matmul", "matmul")
    yield row("i, k, j", lambda: matmul_ikj(a, b, c), "matmul_ikj", "matmul_ikj")
    yield row("tiles in shared memory", lambda: tiled_matmul(a, b, c, n // TILE), "tiled_matmul", "tiled_matmul")
