"""The 7-point stencil over a cube in f32, back and forth between two arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import back_and_forth, harness


@tack.kernel
def stencil3d(b, a):
    n = a.shape[0]
    for i, j, k in tack.ndrange((1, n - 1), (1, n - 1), (1, n - 1)):
        b[i, j, k] = 0.4 * a[i, j, k] + 0.1 * (
            a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
        )


def in_numpy(b: np.ndarray, a: np.ndarray) -> None:
    one = slice(1, -1)
    around = a[:-2, one, one] + a[2:, one, one]
    around += a[one, :-2, one]
    around += a[one, 2:, one]
    around += a[one, one, :-2]
    around += a[one, one, 2:]
    around *= np.float32(0.1)
    np.add(np.float32(0.4) * a[one, one, one], around, out=b[one, one, one])


def cases(quick: bool) -> Iterator[harness.Case]:
    n, sweeps = (24, 4) if quick else (256, 10)
    start = np.random.default_rng(1).random((n, n, n), np.float32)
    yield back_and_forth.case(f"3-D 7-point {n}³", "stencil3d", start, sweeps, stencil3d, in_numpy)
