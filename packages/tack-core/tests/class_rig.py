"""What the tests of data-oriented classes share: a class, its oracle in NumPy, and counts of code (rules CLS-*)."""

from __future__ import annotations

import numpy as np

import tack
from tack.lang.data_oriented import record_of


def lowerings(cls: type) -> int:
    """How many lowerings of kernels belong to a class."""
    return sum(map(len, record_of(cls).variants.values()))


def variants(cls: type) -> int:
    """How many compiled variants belong to a class."""
    return sum(len(lowering.rows) for owned in record_of(cls).variants.values() for lowering in owned)


@tack.data_oriented
class Oscillator:
    DRAG = 0.5

    def __init__(self, n, stiffness):
        self.n = n
        self.stiffness = stiffness
        self.x = tack.ones(n, tack.f32)
        self.v = tack.zeros(n, tack.f32)

    @tack.func
    def force(self, x):
        return -self.stiffness * x

    @tack.func
    def drag(self, i):
        return self.DRAG * self.v[i]

    @staticmethod
    @tack.func
    def square(x):
        return x * x

    @tack.kernel
    def step(self, dt):
        for i in range(self.n):
            self.v[i] += (self.force(self.x[i]) - self.drag(i)) * dt
            self.x[i] += self.v[i] * dt

    @tack.kernel
    def energy(self, out):
        for i in range(self.x.shape[0]):
            out[i] = self.square(self.v[i]) + self.stiffness * self.square(self.x[i])


def stepped(n, stiffness, drag, dt, steps):
    """The oscillator in NumPy, at the same precision."""
    f = np.float32
    x, v = np.ones(n, f), np.zeros(n, f)
    for _ in range(steps):
        v = v + (f(-stiffness) * x - f(drag) * v) * f(dt)
        x = x + v * f(dt)
    return x, v
