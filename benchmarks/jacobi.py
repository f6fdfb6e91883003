"""Jacobi sweeps over a square grid in f32, back and forth between two arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import back_and_forth, harness


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
    yield back_and_forth.case(f"2-D Jacobi {n}²", "jacobi", start, sweeps, jacobi, in_numpy)
