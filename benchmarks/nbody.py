"""One step of n bodies, all pairs, in f32: square roots and divisions, and sums whose order must stay."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind

SOFTENING = 1e-3


@tack.kernel
def nbody(x, y, z, vx, vy, vz, mass, dt):
    n = x.shape[0]
    for i in range(n):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(n):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            r2 = dx * dx + dy * dy + dz * dz + SOFTENING
            inverse = 1.0 / math.sqrt(r2)
            f = mass[j] * inverse * inverse * inverse
            ax += f * dx
            ay += f * dy
            az += f * dz
        vx[i] += dt * ax
        vy[i] += dt * ay
        vz[i] += dt * az
    for i in range(n):
        x[i] += dt * vx[i]
        y[i] += dt * vy[i]
        z[i] += dt * vz[i]


def in_numpy(state: list[np.ndarray], mass: np.ndarray, dt: np.float32) -> None:
    place, speed = state[:3], state[3:]
    apart = [p[None, :] - p[:, None] for p in place]
    inverse = np.float32(1.0) / np.sqrt(sum(d * d for d in apart) + np.float32(SOFTENING))
    f = mass[None, :] * inverse * inverse * inverse
    for p, v, d in zip(place, speed, apart, strict=True):
        v += dt * (f * d).sum(axis=1, dtype=np.float64).astype(np.float32)
        p += dt * v


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 256 if quick else 8192
    start = [np.random.default_rng(k).random(n, np.float32) for k in range(6)]
    state = [harness.filled(values) for values in start]
    mass = harness.filled(np.full(n, 1 / n, np.float32))
    dt = 1e-2

    def reset() -> None:
        for array, values in zip(state, start, strict=True):
            array[...] = values

    yield harness.Case(
        name=f"n-body {n}, all pairs",
        workload="nbody",
        outputs=tuple(state),
        tack=lambda: nbody(*state, mass, dt),
        c=lambda library: bind(library, "nbody", *state, mass, np.float32(dt), n),
        numpy=lambda: in_numpy(state, mass, np.float32(dt)),
        reset=reset,
        numpy_tolerance=1e-5,  # NumPy adds in another order
        arguments=(*state, mass, dt),
        peer_tolerance=1e-4,
        time_numpy=quick,
        no_errno=True,
    )
