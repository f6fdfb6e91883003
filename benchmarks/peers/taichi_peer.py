"""The workloads in Taichi, and in Quadrants, which grew out of it: without fast-math, on NumPy arrays in place."""

# No annotations from the future here: Taichi reads them as they are.

import importlib
import sys
from typing import Any

from benchmarks.peers.work import Work

ti: Any = importlib.import_module(sys.argv[2])

_precision: list[Any] = []  # of literals, as in force


def _use(precision: Any) -> None:
    """Make a type that of floating literals."""
    if _precision != [precision]:
        ti.init(arch=ti.cpu, fast_math=False, offline_cache=False, log_level=ti.ERROR, default_fp=precision)
        _precision[:] = [precision]


_use(ti.f32)


def _array(dtype, ndim=1):
    return ti.types.ndarray(dtype=dtype, ndim=ndim)


f32, f64, i32, u32 = ti.f32, ti.f64, ti.i32, ti.u32
floats, floats2, floats3, doubles = _array(f32), _array(f32, 2), _array(f32, 3), _array(f64)
ints, ints2, words = _array(i32), _array(i32, 2), _array(u32)


@ti.kernel
def _saxpy(z: floats, x: floats, y: floats, a: f32):
    for i in range(z.shape[0]):
        z[i] = a * x[i] + y[i]


@ti.kernel
def _mandelbrot(out: ints2, limit: i32):
    n = out.shape[0]
    for row in range(n):
        cy = -1.25 + 2.5 * ti.cast(row, f32) / ti.cast(n, f32)
        for column in range(n):
            cx = -2.0 + 2.5 * ti.cast(column, f32) / ti.cast(n, f32)
            zx = 0.0
            zy = 0.0
            count = 0
            while count < limit and zx * zx + zy * zy <= 4.0:
                next = zx * zx - zy * zy + cx
                zy = 2.0 * zx * zy + cy
                zx = next
                count += 1
            out[row, column] = count


@ti.kernel
def _nbody(x: floats, y: floats, z: floats, vx: floats, vy: floats, vz: floats, mass: floats, dt: f32):
    n = x.shape[0]
    for i in range(n):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(n):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            inverse = 1.0 / ti.sqrt(dx * dx + dy * dy + dz * dz + 1e-3)
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


@ti.kernel
def _jacobi(b: floats2, a: floats2):
    n = a.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@ti.kernel
def _stencil3d(b: floats3, a: floats3):
    n = a.shape[0]
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            for k in range(1, n - 1):
                b[i, j, k] = 0.4 * a[i, j, k] + 0.1 * (
                    a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
                )


@ti.kernel
def _integer_hash(out: words, a: words):
    for i in range(out.shape[0]):
        x = a[i]
        x ^= x << 13
        x ^= ti.bit_shr(x, 17)
        x ^= x << 5
        x *= ti.u32(0x9E3779B1)
        x ^= ti.bit_shr(x, 16)
        x *= ti.u32(0x85EBCA6B)
        x ^= ti.bit_shr(x, 13)
        out[i] = x


@ti.kernel
def _histogram(counts: ints, data: ints):
    for i in range(data.shape[0]):
        ti.atomic_add(counts[data[i]], 1)


@ti.kernel
def _array_sum(result: floats, x: floats):
    for i in range(x.shape[0]):
        result[0] += x[i]


@ti.func
def _normal_cdf(d):
    k = 1.0 / (1.0 + 0.2316419 * ti.abs(d))
    poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.39894228040143267794 * ti.exp(-0.5 * d * d) * poly
    return ti.select(d > 0, 1.0 - tail, tail)


@ti.kernel
def _black_scholes(
    call: doubles, put: doubles, price: doubles, strike: doubles, years: doubles, rate: f64, volatility: f64
):
    for i in range(call.shape[0]):
        deviation = volatility * ti.sqrt(years[i])
        d1 = (ti.log(price[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / deviation
        c1 = _normal_cdf(d1)
        c2 = _normal_cdf(d1 - deviation)
        discounted = strike[i] * ti.exp(-rate * years[i])
        call[i] = price[i] * c1 - discounted * c2
        put[i] = discounted * (1.0 - c2) - price[i] * (1.0 - c1)


@ti.kernel
def _matmul(a: floats2, b: floats2, c: floats2):
    n = c.shape[0]
    for i in range(n):
        for j in range(n):
            total = 0.0
            for k in range(n):
                total += a[i, k] * b[k, j]
            c[i, j] = total


@ti.kernel
def _matmul_ikj(a: floats2, b: floats2, c: floats2):
    n = c.shape[0]
    for i in range(n):
        for j in range(n):
            c[i, j] = 0.0
        for k in range(n):
            factor = a[i, k]
            for j in range(n):
                c[i, j] = c[i, j] + factor * b[k, j]


def _back_and_forth(kernel):
    def adapter(a, b, sweeps):
        _use(f32)

        def run():
            for _ in range(sweeps // 2):
                kernel(b, a)
                kernel(a, b)
            ti.sync()

        return Work(run)

    return adapter


def _work(kernel, *arguments, precision=f32):
    _use(precision)

    def run():
        kernel(*arguments)
        ti.sync()

    return Work(run)


def saxpy(z, x, y, a):
    return _work(_saxpy, z, x, y, a)


def call(z, x, y, a):
    """As a user calls it; on the CPU it is over when it returns."""
    _use(f32)
    return Work(_saxpy, (z, x, y, a))


def triad(a, b, c, s):
    return _work(_saxpy, a, c, b, s)


def mandelbrot(out, limit):
    return _work(_mandelbrot, out, limit)


def nbody(*arguments):
    return _work(_nbody, *arguments)


jacobi = _back_and_forth(_jacobi)
stencil3d = _back_and_forth(_stencil3d)


def integer_hash(out, a):
    return _work(_integer_hash, out, a)


def histogram(counts, data):
    return _work(_histogram, counts, data)


def array_sum(result, x):
    _use(f32)

    def run():
        result[0] = 0
        _array_sum(result, x)

    return Work(run)


def black_scholes(*arguments):
    return _work(_black_scholes, *arguments, precision=f64)


def matmul(a, b, c):
    return _work(_matmul, a, b, c)


def matmul_ikj(a, b, c):
    return _work(_matmul_ikj, a, b, c)


def radix_sort(out, values):
    """Its parallel sort, an odd-even merge sort, which takes fields only."""
    _use(f32)
    field = ti.field(u32, shape=values.shape)

    def load():
        field.from_numpy(values)

    def run():
        load()  # the sort is in place: a second run would find the keys sorted
        ti.algorithms.parallel_sort(field)
        ti.sync()

    return Work(run, finish=lambda: out.__setitem__(slice(None), field.to_numpy()))
