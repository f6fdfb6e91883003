"""Volume rendering: rays march through a texture that holds an electron's wave function; draws ``out/volume.png``.

The wave function of hydrogen with n = 4, l = 2 or 3 is sampled on a coarse grid; the texture interpolates between its
points. Orange and blue are the two signs. Each step of a ray adds light and dims what is behind it.
"""

from __future__ import annotations

import math

import numpy as np
from common import save
from matplotlib import pyplot

import tack

WARM, COOL = (1.0, 0.45, 0.12), (0.15, 0.5, 1.0)
LAMP = (0.48, 0.60, 0.64)  # towards the light, of length 1


@tack.func
def value(field, p):
    """The field at a point of the cube from -1 to 1."""
    q = 0.5 * p + 0.5
    return field.sample(q.x, q.y, q.z)


@tack.func
def slope(field, p, h):
    """The gradient, by differences over 2 h in each direction."""
    x = value(field, [p.x + h, p.y, p.z]) - value(field, [p.x - h, p.y, p.z])
    y = value(field, [p.x, p.y + h, p.z]) - value(field, [p.x, p.y - h, p.z])
    z = value(field, [p.x, p.y, p.z + h]) - value(field, [p.x, p.y, p.z - h])
    return tack.vec3(x, y, z) / (2.0 * h)


@tack.func
def cube(origin, direction):
    """Where a ray enters the cube and where it leaves: it misses when it leaves first."""
    a, b = (-1.0 - origin) / direction, (1.0 - origin) / direction
    near, far = min(a, b), max(a, b)
    return max(near.x, near.y, near.z, 0.0), min(far.x, far.y, far.z)


@tack.func
def march(field, origin, direction, gain, step):
    """The colour a ray gathers, and how much of what is behind still shines through."""
    enter, leave = cube(origin, direction)
    colour, clear = tack.vec3(0.0), 1.0
    t = enter + 0.5 * step
    while t < leave and clear > 0.003:
        p = origin + t * direction
        psi = value(field, p)
        opacity = 1.0 - tack.exp(-gain * psi * psi * step)
        if opacity > 1e-5:
            steep = slope(field, p, 0.02)
            facing = tack.dot(steep, LAMP) / (tack.length(steep) + 1e-6)
            light = 0.35 + 0.65 * max(-facing if psi > 0.0 else facing, 0.0)
            colour += clear * opacity * light * (WARM if psi > 0.0 else COOL)
            clear *= 1.0 - opacity
        t += step
    return colour, clear


@tack.kernel
def render(picture, field, turn, lift, gain, step):
    """Look at the cube's middle from a distance of 4, `turn` around and `lift` above it (radians)."""
    for y, x in tack.ndrange(picture.shape[0], picture.shape[1]):
        u = (2.0 * tack.f32(x) + 1.0) / picture.shape[1] - 1.0
        v = 1.0 - (2.0 * tack.f32(y) + 1.0) / picture.shape[0]
        forward = -tack.vec3(math.cos(turn) * math.cos(lift), math.sin(turn) * math.cos(lift), math.sin(lift))
        right = tack.vec3(-math.sin(turn), math.cos(turn), 0.0)
        up = tack.cross(right, forward)
        direction = tack.normalize(forward + 0.34 * (u * right + v * up))
        colour, clear = march(field, -4.0 * forward, direction, gain, step)
        background = 0.05 + 0.05 * v
        picture[y, x] = tack.sqrt(tack.math.saturate(colour + clear * background))  # light to screen, nearly


@tack.kernel
def samples(field, points, out):
    for i in range(points.shape[0]):
        out[i] = value(field, points[i])


@tack.kernel
def see_through(field, points, out, gain, step):
    """How clear the cube is along z, from above these points."""
    for i in range(points.shape[0]):
        _, clear = march(field, [points[i].x, points[i].y, -2.0], [1e-9, 1e-9, 1.0], gain, step)
        out[i] = clear


# --------------------------------------------------------------------------------------------------- check and draw


def trilinear(grid: np.ndarray, points: np.ndarray) -> np.ndarray:
    """What `value` gives, in f64: the grid's first axis is z, and beyond the outermost centres it goes on unchanged."""
    total = np.zeros(len(points))
    size = np.array(grid.shape[::-1])
    at = np.clip((points * 0.5 + 0.5) * size - 0.5, 0, size - 1)
    low = np.minimum(at.astype(int), np.maximum(size - 2, 0))
    part = at - low
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod(np.where(np.array(corner), part, 1 - part), axis=1)
        x, y, z = np.minimum(low + corner, size - 1).T
        total += weight * grid[z, y, x]
    return total


def check() -> str:
    """Compare samples with NumPy's, and the light through an even fog with the law of Beer and Lambert."""
    random = np.random.default_rng(2)
    grid = random.normal(size=(5, 4, 7)).astype(np.float32)
    points = random.uniform(-1.2, 1.2, (500, 3)).astype(np.float32)
    out = tack.zeros(500)
    samples(tack.texture3d(grid, shape=grid.shape[::-1]), tack.asarray(points, tack.vec3), out)
    error = float(np.abs(out.numpy() - trilinear(grid.astype(np.float64), points.astype(np.float64))).max())
    assert error < 1e-5
    fog = tack.texture3d(np.full((2, 2, 2), 0.5, np.float32), shape=(2, 2, 2))
    clear = tack.zeros(4)
    see_through(fog, tack.asarray(points[:4] / 2, tack.vec3), clear, 3.0, 1 / 64)
    law = math.exp(-3.0 * 0.5**2 * 2.0)  # gain, squared field, length
    assert np.allclose(clear.numpy(), law, rtol=1e-4)
    return f"500 samples are within {error:.1e} of NumPy's; a fog lets through {law:.4f} of the light, as it should"


def orbital(n: int, l: int, points: int, reach: float) -> np.ndarray:  # noqa: E741
    """The wave function with m = l - 1 of hydrogen, n = 4 and l = 2 or 3, scaled to a largest value of 1."""
    z, y, x = np.meshgrid(*[np.linspace(-reach, reach, points)] * 3, indexing="ij")
    r = np.sqrt(x * x + y * y + z * z) + 1e-9
    rho = 2 * r / n
    radial = np.exp(-rho / 2) * rho**l * (1 if l == n - 1 else 2 * l + 2 - rho)
    angular = x * z / r**2 if l == 2 else z * (x * x - y * y) / r**3
    psi = radial * angular
    return (psi / np.abs(psi).max()).astype(np.float32)


def main() -> None:
    print(check())
    panels = pyplot.subplots(1, 2, figsize=(10, 5.2), layout="constrained", facecolor="0.93")[1]
    for axes, l, turn, reach in zip(panels, (2, 3), (0.9, 0.35), (36, 40), strict=True):  # noqa: E741
        psi = orbital(4, l, 48, reach)
        field = tack.texture3d(psi, shape=psi.shape[::-1])
        picture = tack.zeros((420, 420), tack.vec3)
        render(picture, field, turn, 0.42, 110.0, 0.012)
        axes.imshow(picture.numpy())
        axes.set(title=f"Hydrogen, 4{'spdf'[l]}", xticks=[], yticks=[])
    save(panels[0], "volume")


if __name__ == "__main__":
    main()
