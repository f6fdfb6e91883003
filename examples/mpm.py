"""Jelly falls into water: the material point method with moving least squares (MLS-MPM); draws ``out/mpm.png``.

Particles carry mass, velocity and deformation; forces act on a grid. Each step scatters to the grid with atomics on
vector elements, and gathers from it. The check compares a step with NumPy, and mass and momentum with their sums.
"""

from __future__ import annotations

import math

import numpy as np
from common import save
from matplotlib import pyplot

import tack

WATER, JELLY = 0, 1
CELLS = 96  # of the grid, in each direction
DX = 1.0 / CELLS
DT = 2.5e-4
AREA = (DX / 2) ** 2  # of a particle
MASS = AREA  # the density is 1
STIFF = 400.0  # of water
MU, LAMBDA = 500.0, 700.0  # of jelly
WALL = 3  # how many cells a wall is thick


@tack.func
def weight(offset):
    """The quadratic B-spline of a distance in cells, for both directions."""
    d = abs(offset)
    w = tack.select(d < 0.5, 0.75 - d * d, 0.5 * (1.5 - d) * (1.5 - d))
    return w.x * w.y


@tack.func
def stress(kind, f):
    """Kirchhoff's stress for a deformation: water resists compression, jelly (neo-Hookean) every change of shape."""
    volume = tack.determinant(f)
    if kind == WATER:
        return STIFF * (volume - 1.0) * tack.identity(2)
    return MU * (f @ tack.transpose(f) - tack.identity(2)) + LAMBDA * tack.log(volume) * tack.identity(2)


@tack.kernel
def step(x, v, c, f, kind, momentum, mass, gravity):
    """Advance by DT: positions, velocities, their gradients and deformations; clear, scatter, move and gather."""
    for i, j in tack.ndrange(CELLS, CELLS):
        momentum[i, j], mass[i, j] = 0.0, 0.0
    for p in range(x.shape[0]):
        base = tack.i32(x[p] / DX - 0.5)
        affine = MASS * c[p] - DT * AREA * 4.0 / (DX * DX) * stress(kind[p], f[p])
        for i in range(base.x, base.x + 3):
            for j in range(base.y, base.y + 3):
                offset = tack.vec2(i, j) - x[p] / DX
                w = weight(offset)
                tack.atomic_add(momentum, (i, j), w * (MASS * v[p] + affine @ (offset * DX)))
                tack.atomic_add(mass, (i, j), w * MASS)
    for i, j in tack.ndrange(CELLS, CELLS):
        if mass[i, j] > 0.0:
            u = momentum[i, j] / mass[i, j]  # from here on the array holds velocities
            u.y -= DT * gravity
            if (i < WALL and u.x < 0.0) or (i > CELLS - WALL and u.x > 0.0):
                u.x = 0.0
            if (j < WALL and u.y < 0.0) or (j > CELLS - WALL and u.y > 0.0):
                u.y = 0.0
            momentum[i, j] = u
    for p in range(x.shape[0]):
        base = tack.i32(x[p] / DX - 0.5)
        velocity, gradient = tack.vec2(0.0), tack.mat2(0.0, 0.0, 0.0, 0.0)
        for i in range(base.x, base.x + 3):
            for j in range(base.y, base.y + 3):
                offset = tack.vec2(i, j) - x[p] / DX
                u = weight(offset) * momentum[i, j]
                velocity += u
                gradient += 4.0 / DX * tack.outer(u, offset)
        v[p], c[p] = velocity, gradient
        x[p] += DT * velocity
        deformed = f[p] + DT * gradient @ f[p]
        if kind[p] == WATER:  # only its volume counts
            deformed = tack.sqrt(tack.determinant(deformed)) * tack.identity(2)
        f[p] = deformed


# ------------------------------------------------------------------------------------------------- the same in NumPy


def step_numpy(x, v, c, f, kind, gravity):
    """One step in f64, after which it returns positions, velocities, gradients and deformations."""
    one = np.eye(2)
    volume = np.linalg.det(f)[:, None, None]
    jelly = MU * (f @ f.transpose(0, 2, 1) - one) + LAMBDA * np.log(volume) * one
    tension = np.where((kind == WATER)[:, None, None], STIFF * (volume - 1) * one, jelly)
    affine = MASS * c - DT * AREA * 4 / DX**2 * tension
    base = (x / DX - 0.5).astype(int)
    parts = []
    momentum, mass = np.zeros((CELLS, CELLS, 2)), np.zeros((CELLS, CELLS))
    for corner in np.ndindex(3, 3):
        node = base + corner
        offset = node - x / DX
        d = np.abs(offset)
        w = np.where(d < 0.5, 0.75 - d * d, 0.5 * (1.5 - d) ** 2).prod(1)[:, None]
        parts.append((node[:, 0], node[:, 1], offset, w))
        np.add.at(momentum, tuple(node.T), w * (MASS * v + np.einsum("pij,pj->pi", affine, offset * DX)))
        np.add.at(mass, tuple(node.T), w[:, 0] * MASS)
    u = momentum / np.where(mass > 0, mass, 1)[..., None] - [0, DT * gravity]
    for axis in range(2):
        side = np.swapaxes(u, 0, axis)[..., axis]
        side[:WALL] = np.maximum(side[:WALL], 0)
        side[CELLS - WALL + 1 :] = np.minimum(side[CELLS - WALL + 1 :], 0)
    v = sum(w * u[i, j] for i, j, _, w in parts)
    c = sum(4 / DX * np.einsum("pi,pj->pij", w * u[i, j], offset) for i, j, offset, w in parts)
    f = f + DT * c @ f
    f = np.where((kind == WATER)[:, None, None], np.sqrt(np.linalg.det(f))[:, None, None] * one, f)
    return x + DT * v, v, c, f


# --------------------------------------------------------------------------------------------------- check and draw


class Particles:
    """Their arrays, and those of the grid."""

    def __init__(self, x, kind):
        self.x, self.kind = tack.asarray(x, tack.vec2), tack.asarray(kind, tack.i32)
        self.v, self.c = tack.zeros(len(x), tack.vec2), tack.zeros(len(x), tack.mat2)
        self.f = tack.asarray(np.tile(np.eye(2), (len(x), 1, 1)), tack.mat2)
        self.momentum, self.mass = tack.zeros((CELLS, CELLS), tack.vec2), tack.zeros((CELLS, CELLS))

    def step(self, steps: int, gravity: float) -> None:
        for _ in range(steps):
            step(self.x, self.v, self.c, self.f, self.kind, self.momentum, self.mass, gravity)

    def state(self) -> list[np.ndarray]:
        return [a.numpy().astype(np.float64) for a in (self.x, self.v, self.c, self.f)]


def block(left: float, bottom: float, width: float, height: float) -> np.ndarray:
    """Particles in a rectangle, four a cell."""
    spots = [np.arange(a + DX / 4, a + size, DX / 2) for a, size in ((left, width), (bottom, height))]
    return np.stack(np.meshgrid(*spots), -1).reshape(-1, 2)


def check() -> str:
    """Compare a step with NumPy's, at the walls too; with no gravity, mass and momentum stay in a collision."""
    random = np.random.default_rng(4)
    n = 200
    given = Particles(random.uniform((WALL + 1) * DX, 0.3, (n, 2)), random.integers(0, 2, n))
    given.v = tack.asarray(random.normal(size=(n, 2)), tack.vec2)
    given.c = tack.asarray(random.normal(size=(n, 2, 2)), tack.mat2)
    given.f = tack.asarray(np.eye(2) + random.normal(0, 0.03, (n, 2, 2)), tack.mat2)
    expected = step_numpy(*given.state(), given.kind.numpy(), 9.8)
    given.step(1, 9.8)
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(given.state(), expected, strict=True))
    assert error < 1e-5
    squares = [block(0.40, 0.40, 0.06, 0.06), block(0.48, 0.49, 0.06, 0.06)]
    pair = Particles(np.vstack(squares), np.repeat([JELLY, WATER], [len(square) for square in squares]))
    pair.v = tack.asarray(np.where(np.arange(len(pair.kind))[:, None] < len(squares[0]), [3, 2], [-1, -2.5]), tack.vec2)
    before = MASS * pair.state()[1].sum(0)
    pair.step(80, 0.0)
    drift = float(np.abs(MASS * pair.state()[1].sum(0) - before).max() / np.abs(before).max())
    assert drift < 1e-5
    assert math.isclose(pair.mass.sum(), len(pair.kind) * MASS, rel_tol=1e-5)
    return f"a step is within {error:.0e} of NumPy's; momentum drifts by {drift:.0e} in a collision"


def main() -> None:
    print(check())
    edge = WALL * DX
    parts = [block(edge, edge, 1 - 2 * edge, 0.22), block(0.2, 0.42, 0.2, 0.2), block(0.56, 0.66, 0.24, 0.16)]
    colour = np.repeat([0, 1, 2], [len(p) for p in parts])
    fluid = Particles(np.vstack(parts), np.minimum(colour, 1))
    panels = pyplot.subplots(1, 4, figsize=(13, 3.7), layout="constrained")[1]
    shades = np.array(["#3a7ca5", "#e07a5f", "#81b29a"])
    for n, (axes, steps) in enumerate(zip(panels, (0, 500, 500, 900), strict=True)):
        fluid.step(steps, 9.8)
        x = fluid.x.numpy()
        axes.scatter(x[:, 0], x[:, 1], c=shades[colour], s=2.2, linewidths=0)
        time = sum((0, 500, 500, 900)[: n + 1]) * DT
        axes.set(title=f"{time:.2f} s", xlim=(edge, 1 - edge), ylim=(edge, 1 - edge), aspect=1, xticks=[], yticks=[])
    save(panels[0], "mpm")


if __name__ == "__main__":
    main()
