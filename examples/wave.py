"""The wave equation in two dimensions through two slits; draws ``out/wave.png``.

Second-order leapfrog on a square grid with reflecting walls, checked against an exact standing wave and, bit by bit,
against NumPy.
"""

from __future__ import annotations

import math

import numpy as np
from common import figure, save

import tack


@tack.kernel
def leapfrog(before, now, after, speed2, courant2):
    """Set after = 2 now - before + (c dt/dx)^2 lap(now) inside the walls; `speed2` is 0 where a wall stands."""
    for y, x in tack.ndrange((1, now.shape[0] - 1), (1, now.shape[1] - 1)):
        around = now[y - 1, x] + now[y + 1, x] + now[y, x - 1] + now[y, x + 1]
        bend = around - 4.0 * now[y, x]
        after[y, x] = (2.0 * now[y, x] - before[y, x] + courant2 * bend) * speed2[y, x]


@tack.kernel
def drive(field, column, value):
    for y in range(field.shape[0]):
        field[y, column] = value


def leapfrog_numpy(before, now, after, speed2, courant2):
    middle = now[1:-1, 1:-1]
    around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    bend = around - 4.0 * middle
    after[1:-1, 1:-1] = (2.0 * middle - before[1:-1, 1:-1] + courant2 * bend) * speed2[1:-1, 1:-1]


def standing(n: int, steps: int, step) -> tuple[np.ndarray, np.ndarray]:
    """A standing wave of mode (2, 3) after some steps by `step`, and the exact solution of the difference equation."""
    p, q, courant2 = 2, 3, 0.45
    x = np.arange(n) / (n - 1)
    shape = np.outer(np.sin(p * math.pi * x), np.sin(q * math.pi * x))
    curvature = sum(math.sin(k * math.pi / (2 * (n - 1))) ** 2 for k in (p, q))
    omega = 2 * math.asin(math.sqrt(courant2 * curvature))  # dispersion relation of the leapfrog scheme
    before, now, after = shape.copy(), shape * math.cos(omega), np.zeros_like(shape)
    air = np.ones_like(shape)
    for _ in range(steps):
        step(before, now, after, air, courant2)
        before, now, after = now, after, before
    return now, shape * math.cos(omega * (steps + 1))


def check() -> str:
    """Compare with NumPy bit by bit, and with the exact solution of the scheme within 1e-11."""
    ours, exact = standing(65, 300, leapfrog)
    theirs, _ = standing(65, 300, leapfrog_numpy)
    assert np.array_equal(ours, theirs)
    error = float(np.abs(ours - exact).max())
    assert error < 1e-11
    return f"300 steps of a standing wave equal NumPy's bit by bit; {error:.1e} from the exact solution"


def two_slits(height: int, width: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The field behind two slits, and where there is no wall."""
    air = np.ones((height, width), np.float32)
    wall, gap = width // 4, height // 30
    air[:, wall : wall + 4] = 0
    for middle in (height // 2 - 4 * gap, height // 2 + 4 * gap):
        air[middle - gap // 2 : middle + gap // 2, wall : wall + 4] = 1
    speed = tack.asarray(air)
    before, now, after = (tack.zeros((height, width)) for _ in range(3))
    for n in range(steps):
        drive(now, 1, math.sin(0.28 * n) * min(1.0, n / 60))
        leapfrog(before, now, after, speed, 0.45)
        before, now, after = now, after, before
    return now.numpy(), air


def main() -> None:
    print(check())
    field, air = two_slits(480, 720, 900)
    axes = figure(9, 6)
    axes.imshow(np.where(air > 0, field, np.nan), cmap="RdBu", vmin=-0.5, vmax=0.5)
    axes.set(title="A plane wave through two slits", xticks=[], yticks=[], facecolor="0.2")
    save(axes, "wave")


if __name__ == "__main__":
    main()
