"""A vortex street behind a cylinder by the lattice Boltzmann method (D2Q9, one relaxation time).

The check is a Taylor–Green vortex, whose decay is known exactly, and the same scheme in NumPy, bit by bit. Draws
``out/lattice_boltzmann.png``.
"""

from __future__ import annotations

import math

import numpy as np
from common import figure, save

import tack

# The nine velocities of a lattice cell, their weights, and which one is opposite to which.
CX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
CY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHT = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)


@tack.func
def equilibrium(k, density, u, v):
    """How many particles travel along direction k. Products have names, so no device fuses them into a sum (FLT-4)."""
    along = 3.0 * (CX[k] * u + CY[k] * v)
    uu, vv = u * u, v * v
    growth, loss = 0.5 * along * along, 1.5 * (uu + vv)
    return WEIGHT[k] * density * (1.0 + along + growth - loss)


@tack.func
def wrap(i, n):
    """The index modulo n, of one at most a step outside; cheaper than `i % n`."""
    return i + n if i < 0 else i - n if i >= n else i


@tack.kernel
def fill(f, density, u, v):
    """Set every direction to its equilibrium with these fields."""
    for y, x in tack.ndrange(f.shape[1], f.shape[2]):
        for k in range(9):
            f[k, y, x] = equilibrium(k, density[y, x], u[y, x], v[y, x])


@tack.kernel
def stream_and_collide(f, g, solid, relaxation):
    """Pull particles from the neighbours, those that left a solid cell bounced back, and relax. Edges are joined."""
    for y, x in tack.ndrange(f.shape[1], f.shape[2]):
        if solid[y, x] == 0:
            near = tack.local(9, tack.f32)
            density, u, v = 0.0, 0.0, 0.0
            for k in range(9):
                yy = wrap(y - CY[k], f.shape[1])
                xx = wrap(x - CX[k], f.shape[2])
                near[k] = f[OPPOSITE[k], y, x] if solid[yy, xx] else f[k, yy, xx]
                density += near[k]
                u += CX[k] * near[k]
                v += CY[k] * near[k]
            u /= density
            v /= density
            for k in range(9):
                change = relaxation * (equilibrium(k, density, u, v) - near[k])
                g[k, y, x] = near[k] + change


@tack.kernel
def hold_ends(f, speed):
    """Fluid of this speed comes in on the left; what leaves on the right is what is just before it."""
    for y in range(f.shape[1]):
        for k in range(9):
            f[k, y, 0] = equilibrium(k, 1.0, speed, 0.0)
            f[k, y, f.shape[2] - 1] = f[k, y, f.shape[2] - 2]


@tack.kernel
def moments(f, density, u, v):
    for y, x in tack.ndrange(f.shape[1], f.shape[2]):
        total, right, down = 0.0, 0.0, 0.0
        for k in range(9):
            total += f[k, y, x]
            right += CX[k] * f[k, y, x]
            down += CY[k] * f[k, y, x]
        density[y, x], u[y, x], v[y, x] = total, right / total, down / total


# ------------------------------------------------------------------------------------------------- the same in NumPy


def equilibrium_numpy(density, u, v):
    one, half, three_halves, three = map(np.float32, (1, 0.5, 1.5, 3))
    loss = three_halves * (u * u + v * v)
    weights = np.array(WEIGHT, np.float32)
    out = np.empty((9, *u.shape), np.float32)
    for k in range(9):
        along = three * (np.float32(CX[k]) * u + np.float32(CY[k]) * v)
        out[k] = weights[k] * density * (one + along + half * along * along - loss)
    return out


def step_numpy(f, solid, relaxation):
    """One step on whole arrays, as `stream_and_collide`."""
    near = np.empty_like(f)
    for k in range(9):
        turn = (CY[k], CX[k])
        near[k] = np.where(np.roll(solid, turn, (0, 1)), f[OPPOSITE[k]], np.roll(f[k], turn, (0, 1)))
    density, u, v = (np.zeros_like(f[0]) for _ in range(3))
    for k in range(9):
        density += near[k]
        u += np.float32(CX[k]) * near[k]
        v += np.float32(CY[k]) * near[k]
    change = np.float32(relaxation) * (equilibrium_numpy(density, u / density, v / density) - near)
    return np.where(solid, f, near + change)


# --------------------------------------------------------------------------------------------------- check and draw


def read(f):
    """Density and velocity of a field of particles, as NumPy arrays."""
    fields = [tack.zeros(f.shape[1:]) for _ in range(3)]
    moments(f, *fields)
    return [field.numpy() for field in fields]


def check() -> str:
    """Compare 60 steps around a block with NumPy, bit by bit, and a Taylor–Green vortex with theory within 1%."""
    n, steps, relaxation = 32, 60, 1.25
    y, x = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    k = 2 * math.pi / n
    u0 = (0.02 * np.cos(k * x) * np.sin(k * y)).astype(np.float32)
    v0 = (-0.02 * np.sin(k * x) * np.cos(k * y)).astype(np.float32)
    viscosity = (1 / relaxation - 0.5) / 3
    for solid in (np.zeros((n, n), np.uint8), ((x > 5) & (x < 12) & (y > 8) & (y < 20)).astype(np.uint8)):
        f = tack.zeros((9, n, n))
        fill(f, tack.ones((n, n)), tack.asarray(u0), tack.asarray(v0))
        expected = f.numpy()
        walls, g = tack.asarray(solid), tack.asarray(expected)
        for _ in range(steps):
            stream_and_collide(f, g, walls, relaxation)
            f, g = g, f
            expected = step_numpy(expected, solid, relaxation)
        assert np.array_equal(f.numpy(), expected)
        if not solid.any():
            u = read(f)[1]
            decay = math.exp(-2 * viscosity * k * k * steps)
            error = float(np.abs(u - u0 * decay).max() / np.abs(u0 * decay).max())
            assert error < 0.01
    return f"60 steps equal NumPy's bit by bit; a Taylor–Green vortex decays as in theory within {error:.1%}"


def flow(height: int, width: int, steps: int):
    """Velocity behind a cylinder at a Reynolds number of 150, and where the cylinder is."""
    radius, speed = height / 13, 0.1
    viscosity = speed * 2 * radius / 150
    y, x = np.ogrid[:height, :width]
    cylinder = ((x - width / 5) ** 2 + (y - height / 2 - 1) ** 2 < radius**2).astype(np.uint8)
    f, solid = tack.zeros((9, height, width)), tack.asarray(cylinder)
    sway = np.broadcast_to(0.3 * speed * np.sin(x / (1.6 * radius)), (height, width))  # or it stays symmetric for long
    fill(f, tack.ones((height, width)), tack.full((height, width), speed), tack.asarray(sway, tack.f32))
    g = tack.asarray(f.numpy())
    for _ in range(steps):
        stream_and_collide(f, g, solid, 1 / (3 * viscosity + 0.5))
        hold_ends(g, speed)
        f, g = g, f
    _, u, v = read(f)
    return u / speed, v / speed, cylinder


def main() -> None:
    print(check())
    u, v, cylinder = flow(130, 380, 6500)
    spin = np.gradient(v, axis=1) - np.gradient(u, axis=0)
    axes = figure(10, 4)
    axes.imshow(np.where(cylinder, np.nan, spin), cmap="RdBu_r", vmin=-0.16, vmax=0.16, interpolation="bilinear")
    axes.contourf(cylinder, levels=(0.5, 1.5), colors="0.25")
    axes.set(title="Vorticity behind a cylinder at a Reynolds number of 150", xticks=[], yticks=[])
    save(axes, "lattice_boltzmann")


if __name__ == "__main__":
    main()
