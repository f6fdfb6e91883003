"""The workloads in Numba: parallel, without fast-math; f32 and u32 literals are cast, else it widens to 64 bits."""

from __future__ import annotations

import numba
import numpy as np
from numba import njit, prange

from benchmarks.peers.work import Work

f32, u32, i32 = np.float32, np.uint32, np.int32
parallel = njit(parallel=True)


@njit
def _serial_saxpy(z, x, y, a):
    for i in range(z.shape[0]):
        z[i] = a * x[i] + y[i]


@parallel
def _saxpy(z, x, y, a):
    for i in prange(z.shape[0]):
        z[i] = a * x[i] + y[i]


@parallel
def _mandelbrot(out, limit):
    n = out.shape[0]
    for row in prange(n):
        cy = f32(-1.25) + f32(2.5) * f32(row) / f32(n)
        for column in range(n):
            cx = f32(-2.0) + f32(2.5) * f32(column) / f32(n)
            zx = f32(0)
            zy = f32(0)
            count = 0
            while count < limit and zx * zx + zy * zy <= f32(4):
                zx, zy = zx * zx - zy * zy + cx, f32(2) * zx * zy + cy
                count += 1
            out[row, column] = count


@parallel
def _nbody(x, y, z, vx, vy, vz, mass, dt):
    n = x.shape[0]
    for i in prange(n):
        ax = f32(0)
        ay = f32(0)
        az = f32(0)
        for j in range(n):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            inverse = f32(1) / np.sqrt(dx * dx + dy * dy + dz * dz + f32(1e-3))
            f = mass[j] * inverse * inverse * inverse
            ax += f * dx
            ay += f * dy
            az += f * dz
        vx[i] += dt * ax
        vy[i] += dt * ay
        vz[i] += dt * az
    for i in prange(n):
        x[i] += dt * vx[i]
        y[i] += dt * vy[i]
        z[i] += dt * vz[i]


@parallel
def _jacobi(b, a):
    n = a.shape[0]
    for i in prange(1, n - 1):
        for j in range(1, n - 1):
            b[i, j] = f32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@parallel
def _stencil3d(b, a):
    n = a.shape[0]
    for i in prange(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                b[i, j, k] = f32(0.4) * a[i, j, k] + f32(0.1) * (
                    a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
                )


@parallel
def _integer_hash(out, a):
    for i in prange(out.shape[0]):
        x = a[i]
        x = u32(x ^ u32(x << u32(13)))
        x = u32(x ^ u32(x >> u32(17)))
        x = u32(x ^ u32(x << u32(5)))
        x = u32(x * u32(0x9E3779B1))
        x = u32(x ^ u32(x >> u32(16)))
        x = u32(x * u32(0x85EBCA6B))
        out[i] = u32(x ^ u32(x >> u32(13)))


@parallel
def _histogram_private(counts, data, parts):
    n = data.shape[0]
    private = np.zeros((parts, 256), i32)
    for part in prange(parts):
        for i in range(n * part // parts, n * (part + 1) // parts):
            private[part, data[i]] += 1
    for part in range(parts):
        for k in range(256):
            counts[k] += private[part, k]


@parallel
def _array_sum(result, x):
    total = f32(0)
    for i in prange(x.shape[0]):
        total += x[i]
    result[0] = total


@njit(inline="always")
def _normal_cdf(d):
    k = 1.0 / (1.0 + 0.2316419 * abs(d))
    poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.39894228040143267794 * np.exp(-0.5 * d * d) * poly
    return 1.0 - tail if d > 0.0 else tail


@parallel
def _black_scholes(call, put, price, strike, years, rate, volatility):
    for i in prange(call.shape[0]):
        deviation = volatility * np.sqrt(years[i])
        d1 = (np.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / deviation
        c1 = _normal_cdf(d1)
        c2 = _normal_cdf(d1 - deviation)
        discounted = strike[i] * np.exp(-rate * years[i])
        call[i] = price[i] * c1 - discounted * c2
        put[i] = discounted * (1.0 - c2) - price[i] * (1.0 - c1)


@parallel
def _matmul(a, b, c):
    n = c.shape[0]
    for i in prange(n):
        for j in range(n):
            total = f32(0)
            for k in range(n):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@parallel
def _matmul_ikj(a, b, c):
    n = c.shape[0]
    for i in prange(n):
        for j in range(n):
            c[i, j] = f32(0)
        for k in range(n):
            factor = a[i, k]
            for j in range(n):
                c[i, j] += factor * b[k, j]


@parallel
def _exclusive_scan(out, values, parts):
    n = values.shape[0]
    totals = np.zeros(parts + 1, i32)
    for part in prange(parts):
        total = i32(0)
        for i in range(n * part // parts, n * (part + 1) // parts):
            total += values[i]
        totals[part + 1] = total
    for part in range(parts):
        totals[part + 1] += totals[part]
    for part in prange(parts):
        total = totals[part]
        for i in range(n * part // parts, n * (part + 1) // parts):
            value = values[i]
            out[i] = total
            total = i32(total + value)


def _back_and_forth(kernel):
    def adapter(a, b, sweeps):
        def run():
            for _ in range(sweeps // 2):
                kernel(b, a)
                kernel(a, b)

        return Work(run)

    return adapter


def call(z, x, y, a):
    """The smallest call that it has: serial."""
    return Work(_serial_saxpy, (z, x, y, f32(a)))


def saxpy(z, x, y, a):
    return Work(_saxpy, (z, x, y, f32(a)))


def triad(a, b, c, s):
    return Work(_saxpy, (a, c, b, f32(s)))


def mandelbrot(out, limit):
    return Work(_mandelbrot, (out, limit))


def nbody(*arguments):
    return Work(_nbody, (*arguments[:-1], f32(arguments[-1])))


jacobi = _back_and_forth(_jacobi)
stencil3d = _back_and_forth(_stencil3d)


def integer_hash(out, a):
    return Work(_integer_hash, (out, a))


def histogram_private(counts, data):  # there are no atomics on its CPU
    return Work(_histogram_private, (counts, data, numba.get_num_threads()))


def array_sum(result, x):
    return Work(_array_sum, (result, x))


def black_scholes(*arguments):
    return Work(_black_scholes, arguments)


def matmul(a, b, c):
    return Work(_matmul, (a, b, c))


def matmul_ikj(a, b, c):
    return Work(_matmul_ikj, (a, b, c))


def exclusive_scan(out, values):
    return Work(_exclusive_scan, (out, values, numba.get_num_threads()))
