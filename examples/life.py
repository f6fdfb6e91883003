"""Game of life on a torus, in integers, beside the same in NumPy; draws ``out/life.png``."""

from __future__ import annotations

import numpy as np
from common import figure, save

import tack


@tack.kernel
def step(world, out):
    for y, x in tack.ndrange(world.shape[0], world.shape[1]):
        around = 0
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                # The remainder has the divisor's sign: -1 % n is n - 1, so the world wraps around.
                around += world[(y + dy) % world.shape[0], (x + dx) % world.shape[1]]
        alive = world[y, x]
        out[y, x] = around == 3 or (around == 4 and alive == 1)  # the cell itself is counted in


def run(world: np.ndarray, generations: int) -> np.ndarray:
    """The world after some generations; u8, 0 or 1, of shape (height, width)."""
    now = tack.asarray(world)
    then = tack.empty_like(now)
    for _ in range(generations):
        step(now, then)
        now, then = then, now
    return now.numpy()


def run_numpy(world: np.ndarray, generations: int) -> np.ndarray:
    """The same by rolling the whole world."""
    for _ in range(generations):
        turns = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
        around = sum(np.roll(world, turn, (0, 1)) for turn in turns)
        world = ((around == 3) | ((around == 2) & (world == 1))).astype(np.uint8)
    return world


def soup(height: int, width: int) -> np.ndarray:
    return (np.random.default_rng(7).random((height, width)) < 0.3).astype(np.uint8)


def check() -> str:
    """Compare with NumPy, cell by cell."""
    world = soup(14, 21)
    assert np.array_equal(run(world, 30), run_numpy(world, 30))
    return "30 generations of a 21 x 14 torus equal NumPy's, cell by cell"


def main() -> None:
    print(check())
    axes = figure(7, 5)
    world = soup(300, 420)
    trace = sum(run(world, n).astype(np.float32) * 0.75 ** (8 - k) for k, n in enumerate(range(400, 409)))
    axes.imshow(trace, cmap="magma", interpolation="nearest")
    axes.set(title="Game of life: generations 400 to 408 of a random soup", xticks=[], yticks=[])
    save(axes, "life")


if __name__ == "__main__":
    main()
