"""A dam breaks: smoothed particle hydrodynamics with a grid of cells to find neighbours; draws ``out/sph.png``.

Weakly compressible, with Wendland's C2 kernel, artificial viscosity and walls of fixed particles. A cell lists its
particles in ascending order, so that sums over neighbours have the same bits however threads run.
"""

from __future__ import annotations

import math

import numpy as np
from common import save
from matplotlib import pyplot

import tack


@tack.data_oriented
class Fluid:
    """Particles that move, and after them those of the walls; within a box of the given size from (0, 0) on."""

    SPACING = 0.015
    H = 1.5 * SPACING  # the kernel reaches to 2 H, which is the size of a cell
    DENSITY = 1000.0
    MASS = DENSITY * SPACING * SPACING
    SOUND = 24.0
    VISCOSITY = 0.06

    def __init__(self, moving, fixed, width, height):
        everything = np.vstack([moving, fixed])
        self.moving = len(moving)
        self.margin = 4 * self.SPACING
        self.columns, self.rows = (int((2 * self.margin + side) / (2 * self.H)) + 1 for side in (width, height))
        self.x = tack.asarray(everything, tack.vec2)
        self.v, self.force = tack.zeros(len(everything), tack.vec2), tack.zeros(len(everything), tack.vec2)
        self.density = tack.zeros(len(everything))
        self.first = tack.zeros(self.rows * self.columns + 1, tack.i32)  # of each cell, in `order`
        self.filled = tack.zeros(self.rows * self.columns, tack.i32)
        self.order = tack.zeros(len(everything), tack.i32)

    @tack.func
    def cell(self, p):
        """Column and row of a point; those outside are in the nearest cell."""
        q = (p + self.margin) / (2.0 * self.H)
        return int(tack.math.clamp(q.x, 0.0, self.columns - 1)), int(tack.math.clamp(q.y, 0.0, self.rows - 1))

    @tack.kernel
    def sort(self):
        """List the particles of each cell: count them, add up the counts, place them, and sort each cell's."""
        for c in range(self.filled.shape[0]):
            self.filled[c] = 0
        for i in range(self.x.shape[0]):
            column, row = self.cell(self.x[i])
            tack.atomic_add(self.filled, row * self.columns + column, 1)
        for _ in range(1):  # one iteration: a sum over some thousand cells, in order
            total = 0
            for c in range(self.filled.shape[0]):
                self.first[c] = total
                total += self.filled[c]
                self.filled[c] = 0
            self.first[self.filled.shape[0]] = total
        for i in range(self.x.shape[0]):
            column, row = self.cell(self.x[i])
            c = row * self.columns + column
            self.order[self.first[c] + tack.atomic_add(self.filled, c, 1)] = i
        for c in range(self.filled.shape[0]):
            for k in range(self.first[c] + 1, self.first[c + 1]):
                at, number = k, self.order[k]
                while at > self.first[c] and self.order[at - 1] > number:
                    self.order[at] = self.order[at - 1]
                    at -= 1
                self.order[at] = number

    @tack.func
    def span(self, column, row):
        """Where in `order` the particles of a cell, and of those left and right of it, begin and end."""
        left = row * self.columns + max(column - 1, 0)
        right = row * self.columns + min(column + 1, self.columns - 1)
        return self.first[left], self.first[right + 1]

    @tack.kernel
    def densities(self):
        for i in range(self.x.shape[0]):
            column, row = self.cell(self.x[i])
            total = 0.0
            for r in range(max(row - 1, 0), min(row + 2, self.rows)):
                begin, end = self.span(column, r)
                for k in range(begin, end):
                    q = tack.distance(self.x[i], self.x[self.order[k]]) / self.H
                    if q < 2.0:
                        near = (1.0 - 0.5 * q) * (1.0 - 0.5 * q)
                        total += near * near * (2.0 * q + 1.0)
            self.density[i] = self.MASS * 7.0 / (4.0 * math.pi * self.H * self.H) * total

    @tack.func
    def pressure(self, i):
        """Pressure over squared density; a fluid does not pull."""
        excess = max(self.density[i] - self.DENSITY, 0.0)
        return self.SOUND * self.SOUND * excess / (self.density[i] * self.density[i])

    @tack.kernel
    def forces(self):
        """Accelerations by pressure and viscosity."""
        for i in range(self.x.shape[0]):
            column, row = self.cell(self.x[i])
            total = tack.vec2(0.0)
            for r in range(max(row - 1, 0), min(row + 2, self.rows)):
                begin, end = self.span(column, r)
                for k in range(begin, end):
                    j = self.order[k]
                    apart = self.x[i] - self.x[j]
                    q = tack.length(apart) / self.H
                    if 0.0 < q < 2.0:
                        closing = tack.dot(self.v[i] - self.v[j], apart)
                        push = self.pressure(i) + self.pressure(j)
                        if closing < 0.0:
                            rate = self.H * closing / (tack.dot(apart, apart) + 0.01 * self.H * self.H)
                            push -= self.VISCOSITY * self.SOUND * rate * 2.0 / (self.density[i] + self.density[j])
                        near = 1.0 - 0.5 * q
                        total += push * near * near * near * apart
            # The kernel's gradient is -5 q (1 - q/2)^3 7 / (4 pi H^3) along apart / |apart|.
            self.force[i] = self.MASS * 35.0 / (4.0 * math.pi * self.H**4) * total

    @tack.kernel
    def move(self, dt, gravity):
        for i in range(self.moving):
            self.v[i] += dt * (self.force[i] + tack.vec2(0.0, -gravity))
            self.x[i] += dt * self.v[i]

    def step(self, dt: float, gravity: float = 9.81) -> None:
        self.sort()
        self.densities()
        self.forces()
        self.move(dt, gravity)


# ------------------------------------------------------------------------------------------------- the same in NumPy


def all_pairs(x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Densities and accelerations in f64, from all pairs of particles."""
    h, rest, mass, sound = Fluid.H, Fluid.DENSITY, Fluid.MASS, Fluid.SOUND
    apart = x[:, None] - x[None]
    q = np.sqrt((apart**2).sum(2)) / h
    near = np.maximum(1 - q / 2, 0)
    density = mass * 7 / (4 * math.pi * h**2) * (near**4 * (2 * q + 1)).sum(1)
    share = sound**2 * np.maximum(density - rest, 0) / density**2
    rate = h * np.minimum(((v[:, None] - v[None]) * apart).sum(2), 0) / ((apart**2).sum(2) + 0.01 * h**2)
    push = share[:, None] + share[None] - Fluid.VISCOSITY * sound * rate * 2 / (density[:, None] + density[None])
    slope = -5 * q * near**3 * 7 / (4 * math.pi * h**3)
    unit = apart / np.where(q > 0, q * h, 1)[..., None]
    return density, -mass * ((push * slope)[..., None] * unit).sum(1)


# --------------------------------------------------------------------------------------------------- check and draw


def check() -> str:
    """Compare with all pairs in NumPy; the sum of forces is zero, and two runs have the same bits."""
    random = np.random.default_rng(6)
    side = np.arange(0.1, 0.32, Fluid.SPACING)
    x = (np.stack(np.meshgrid(side, side), -1).reshape(-1, 2) + random.normal(0, 0.002, (len(side) ** 2, 2))) * 0.95
    runs = []
    for _ in range(2):
        fluid = Fluid(x, np.empty((0, 2)), 0.4, 0.4)
        fluid.v = tack.asarray(np.random.default_rng(1).normal(size=x.shape), tack.vec2)
        fluid.step(0.0)
        runs.append(fluid)
    fluid = runs[0]
    density, force = all_pairs(fluid.x.numpy().astype(np.float64), fluid.v.numpy().astype(np.float64))
    errors = [
        float(np.abs(ours.numpy() - theirs).max() / np.abs(theirs).max())
        for ours, theirs in ((fluid.density, density), (fluid.force, force))
    ]
    assert max(errors) < 1e-4
    assert np.abs(fluid.force.numpy().sum(0)).max() < 1e-4 * np.abs(force).sum()
    assert np.array_equal(*(run.force.numpy() for run in runs))
    return f"densities and forces are within {max(errors):.0e} of all pairs in NumPy; forces add up to nothing"


def dam(width: float, height: float) -> Fluid:
    """A column of water on the left of a box."""
    d = Fluid.SPACING
    water = np.stack(np.meshgrid(np.arange(d / 2, 0.5, d), np.arange(d / 2, 0.65, d)), -1).reshape(-1, 2)
    grid = np.stack(np.meshgrid(np.arange(-2.5, width / d + 3) * d, np.arange(-2.5, height / d) * d), -1).reshape(-1, 2)
    wall = grid[(grid[:, 0] < 0) | (grid[:, 0] > width) | (grid[:, 1] < 0)]
    return Fluid(water, wall, width, height)


def main() -> None:
    print(check())
    width, height = 1.6, 0.9
    fluid, dt = dam(width, height), 3e-4
    panels = pyplot.subplots(2, 2, figsize=(11, 6.6), layout="constrained")[1].ravel()
    time = 0.0
    for axes, until in zip(panels, (0.15, 0.35, 0.6, 0.85), strict=True):
        while time < until:
            fluid.step(dt)
            time += dt
        x, v = fluid.x.numpy(), fluid.v.numpy()[: fluid.moving]
        axes.scatter(*x[fluid.moving :].T, s=2, color="0.6", linewidths=0)
        dots = axes.scatter(*x[: fluid.moving].T, s=5, c=np.hypot(*v.T), cmap="viridis", vmin=0, vmax=4, linewidths=0)
        axes.set(
            title=f"{until:.2f} s", xlim=(-0.05, width + 0.05), ylim=(-0.05, height), aspect=1, xticks=[], yticks=[]
        )
    axes.figure.colorbar(dots, ax=panels, label="speed (m/s)", shrink=0.7)
    save(axes, "sph")


if __name__ == "__main__":
    main()
