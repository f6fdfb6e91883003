"""The Mandelbrot set in f32: a loop of unknown length in each iteration, and uneven work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


@tack.kernel
def mandelbrot(out, limit):
    n = out.shape[0]
    for row, column in tack.ndrange(n, n):
        cx = -2.0 + 2.5 * tack.f32(column) / tack.f32(n)
        cy = -1.25 + 2.5 * tack.f32(row) / tack.f32(n)
        zx = 0.0
        zy = 0.0
        count = 0
        while count < limit and zx * zx + zy * zy <= 4.0:
            zx, zy = zx * zx - zy * zy + cx, 2.0 * zx * zy + cy
            count += 1
        out[row, column] = count


def in_numpy(out: np.ndarray, limit: int) -> None:
    n = np.float32(out.shape[0])
    steps = np.arange(out.shape[0], dtype=np.float32)
    cx = (np.float32(-2.0) + np.float32(2.5) * steps / n)[None, :]
    cy = (np.float32(-1.25) + np.float32(2.5) * steps / n)[:, None]
    zx, zy = np.zeros(out.shape, np.float32), np.zeros(out.shape, np.float32)
    out.fill(0)
    with np.errstate(over="ignore", invalid="ignore"):
        inside = np.ones(out.shape, bool)
        for _ in range(limit):
            inside &= zx * zx + zy * zy <= np.float32(4.0)
            out += inside
            zx, zy = zx * zx - zy * zy + cx, np.float32(2.0) * zx * zy + cy


def cases(quick: bool) -> Iterator[harness.Case]:
    n, limit = (64, 50) if quick else (1024, 256)
    out = harness.zeros((n, n), np.int32)
    yield harness.Case(
        name=f"Mandelbrot {n}², {limit}",
        workload="mandelbrot",
        outputs=(out,),
        tack=lambda: mandelbrot(out, limit),
        c=lambda library: bind(library, "mandelbrot", out, n, limit),
        numpy=lambda: in_numpy(out, limit),
        arguments=(out, limit),
        peer_mismatches=0.02,
        time_numpy=quick,
        no_errno=True,
    )
