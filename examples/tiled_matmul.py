"""Matrix multiplication by tiles in shared memory, beside the plain kernel and NumPy; draws ``out/tiled_matmul.png``.

A workgroup of 32 x 32 lanes makes a tile of the product. It copies a tile of each factor to shared memory, waits until
all lanes are there, and reads each element 32 times.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
from common import figure, save

import tack

TILE = 32  # a workgroup has a lane for each element of its tile


@tack.kernel
def plain(a, b, c):
    for i, j in tack.ndrange(c.shape[0], c.shape[1]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@tack.func
def element(a, i, j):
    """An element of a matrix that goes on with zeros."""
    inside = i < a.shape[0] and j < a.shape[1]
    return a[i, j] if inside else 0.0


@tack.kernel(group=TILE * TILE)
def tiled(a, b, c):
    left = tack.shared((TILE, TILE), tack.f32)
    right = tack.shared((TILE, TILE), tack.f32)
    down = (c.shape[0] + TILE - 1) // TILE
    across = (c.shape[1] + TILE - 1) // TILE
    for lane in range(down * across * TILE * TILE):
        group = lane // (TILE * TILE)
        y, x = tack.thread_id() // TILE, tack.thread_id() % TILE
        i, j = group // across * TILE + y, group % across * TILE + x
        total = 0.0
        for start in range(0, a.shape[1], TILE):
            left[y, x] = element(a, i, start + x)
            right[y, x] = element(b, start + y, j)
            tack.barrier()  # the tiles are there
            for k in range(TILE):
                total += left[y, k] * right[k, x]
            tack.barrier()  # and may be overwritten
        if i < c.shape[0] and j < c.shape[1]:
            c[i, j] = total


def matmul(a, b):
    """The product of two f32 arrays, by tiles."""
    c = tack.empty((a.shape[0], b.shape[1]))
    tiled(a, b, c)
    return c


# --------------------------------------------------------------------------------------------------- check and draw


def factors(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m + k + n)
    return random.normal(size=(m, k)).astype(np.float32), random.normal(size=(k, n)).astype(np.float32)


def error_in_bounds(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """The largest error of a product, as a part of what k additions and multiplications in f32 may make of it."""
    u = 2.0**-24
    a, b = a.astype(np.float64), b.astype(np.float64)
    k = a.shape[1] + 1
    bound = k * u / (1 - k * u) * (np.abs(a) @ np.abs(b))
    return float((np.abs(c - a @ b) / bound).max())


def check() -> str:
    """Compare with NumPy's product in f64, within the error bound of a sum in f32; sizes that no tile divides."""
    worst = 0.0
    for shape in (1, 1, 1), (3, 5, 2), (33, 17, 65), (64, 16, 64), (70, 40, 20):
        a, b = factors(*shape)
        c, same = matmul(tack.asarray(a), tack.asarray(b)), tack.empty((a.shape[0], b.shape[1]))
        plain(tack.asarray(a), tack.asarray(b), same)
        worst = max(worst, error_in_bounds(a, b, c.numpy()), error_in_bounds(a, b, same.numpy()))
    assert worst < 1
    return f"products of five shapes are right, the error at most {worst:.2f} of its bound"


def rate(run, operations: float) -> float:
    """Billions of operations a second, in the best of the runs that fit into half a second; of three at least."""
    best, runs, began = float("inf"), 0, time.perf_counter()
    while runs < 3 or time.perf_counter() - began < 0.5:
        runs += 1
        start = time.perf_counter()
        run()
        tack.synchronize()
        best = min(best, time.perf_counter() - start)
    return operations / best / 1e9


def main() -> None:
    print(check())
    sizes = (64, 128, 256, 384, 512, 768, 1024)
    rates: dict[str, list[float]] = {"NumPy": [], "tiles in shared memory": [], "plain": []}
    for n in sizes:
        a, b = factors(n, n, n)
        ours = tack.asarray(a), tack.asarray(b), tack.empty((n, n))
        runs = partial(np.matmul, a, b), partial(tiled, *ours), partial(plain, *ours)
        for series, run in zip(rates.values(), runs, strict=True):
            series.append(rate(run, 2.0 * n**3))
    axes = figure(7, 4.5)
    for (name, series), colour in zip(rates.items(), ("0.6", "#c44e52", "#4c72b0"), strict=True):
        axes.loglog(sizes, series, "o-", base=2, color=colour, label=name)
    axes.set(title=f"Products of square f32 matrices on device {tack.current_device().name}")
    axes.set(xlabel="n", ylabel="billion operations a second", xticks=sizes, xticklabels=sizes)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend()
    save(axes, "tiled_matmul")


if __name__ == "__main__":
    main()
