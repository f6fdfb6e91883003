"""The workloads in JAX, on XLA's CPU: functions of whole arrays, as one writes them there. It has memory of its own."""

from __future__ import annotations

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.peers.work import Work

jax.config.update("jax_enable_x64", True)
f32, u32 = np.float32, np.uint32


def _work(function, outputs, *arguments):
    """The work of a jitted function of arrays and numbers that returns what the outputs get."""
    compiled = jax.jit(function)
    given = []
    results = []

    def restart():
        given[:] = [jnp.array(a) for a in arguments]

    def run():
        results[:] = jax.block_until_ready(compiled(*given))

    def finish():
        for output, result in zip(outputs, results, strict=True):
            output[...] = result

    restart()
    return Work(run, finish=finish, restart=restart)


def saxpy(z, x, y, a):
    return _work(lambda x, y, a: (a * x + y,), [z], x, y, f32(a))


def call(z, x, y, a):
    compiled = jax.jit(lambda x, y, a: a * x + y)
    x, y, a = jnp.array(x), jnp.array(y), f32(a)
    return Work(compiled, (x, y, a), finish=lambda: z.__setitem__(slice(None), compiled(x, y, a)))


def triad(a, b, c, s):
    return _work(lambda b, c, s: (b + s * c,), [a], b, c, f32(s))


def mandelbrot(out, limit):
    n = len(out)

    def function():
        steps = jnp.arange(n, dtype=f32)
        cx = (f32(-2) + f32(2.5) * steps / f32(n))[None, :] + jnp.zeros((n, 1), f32)
        cy = (f32(-1.25) + f32(2.5) * steps / f32(n))[:, None] + jnp.zeros((1, n), f32)

        def step(_, state):
            zx, zy, count, inside = state
            inside = inside & (zx * zx + zy * zy <= 4)
            return zx * zx - zy * zy + cx, 2 * zx * zy + cy, count + inside, inside

        zero = jnp.zeros((n, n), f32)
        start = (zero, zero, jnp.zeros((n, n), jnp.int32), jnp.ones((n, n), bool))
        return (lax.fori_loop(0, limit, step, start)[2],)

    return _work(function, [out])


def nbody(x, y, z, vx, vy, vz, mass, dt):
    def function(x, y, z, vx, vy, vz, mass, dt):
        dx, dy, dz = (p[None, :] - p[:, None] for p in (x, y, z))
        inverse = 1 / jnp.sqrt(dx * dx + dy * dy + dz * dz + f32(1e-3))
        f = mass[None, :] * inverse * inverse * inverse
        vx, vy, vz = (v + dt * (f * d).sum(1) for v, d in ((vx, dx), (vy, dy), (vz, dz)))
        return x + dt * vx, y + dt * vy, z + dt * vz, vx, vy, vz

    return _work(function, [x, y, z, vx, vy, vz], x, y, z, vx, vy, vz, mass, f32(dt))


def jacobi(a, b, sweeps):
    def sweep(_, a):
        return a.at[1:-1, 1:-1].set(f32(0.25) * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]))

    return _sweeps(sweep, a, b, sweeps)


def stencil3d(a, b, sweeps):
    one, low, high = slice(1, -1), slice(None, -2), slice(2, None)

    def sweep(_, a):
        around = a[low, one, one] + a[high, one, one] + a[one, low, one] + a[one, high, one]
        around = around + a[one, one, low] + a[one, one, high]
        return a.at[one, one, one].set(f32(0.4) * a[one, one, one] + f32(0.1) * around)

    return _sweeps(sweep, a, b, sweeps)


def _sweeps(sweep, a, b, sweeps):
    def function(a):
        before = lax.fori_loop(0, sweeps - 1, sweep, a)
        return sweep(0, before), before

    return _work(function, [a, b], a)


def integer_hash(out, a):
    def function(x):
        x ^= x << 13
        x ^= x >> 17
        x ^= x << 5
        x *= u32(0x9E3779B1)
        x ^= x >> 16
        x *= u32(0x85EBCA6B)
        return (x ^ (x >> 13),)

    return _work(function, [out], a)


def histogram_private(counts, data):
    return _work(lambda data: (jnp.zeros(len(counts), jnp.int32).at[data].add(1),), [counts], data)


def array_sum(result, x):
    return _work(lambda x: (jnp.sum(x),), [result], x)


def black_scholes(call, put, price, strike, years, rate, volatility):
    def normal_cdf(d):
        k = 1.0 / (1.0 + 0.2316419 * jnp.abs(d))
        poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
        tail = 0.39894228040143267794 * jnp.exp(-0.5 * d * d) * poly
        return jnp.where(d > 0.0, 1.0 - tail, tail)

    def function(price, strike, years, rate, volatility):
        deviation = volatility * jnp.sqrt(years)
        d1 = (jnp.log(price / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation
        c1, c2 = normal_cdf(d1), normal_cdf(d1 - deviation)
        discounted = strike * jnp.exp(-rate * years)
        return price * c1 - discounted * c2, discounted * (1.0 - c2) - price * (1.0 - c1)

    return _work(function, [call, put], price, strike, years, rate, volatility)


def exclusive_scan(out, values):
    return _work(lambda x: (jnp.cumsum(x, dtype=jnp.int32) - x,), [out], values)


def radix_sort(out, values):
    return _work(lambda x: (jnp.sort(x),), [out], values)
