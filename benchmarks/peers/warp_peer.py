"""The workloads in Warp, whose CPU launches run on one thread: its threads are the outer loop's iterations."""

from __future__ import annotations

import tempfile

import numpy as np
import warp as wp

from benchmarks.peers.work import Work

wp.config.quiet = True
wp.config.enable_backward = False
wp.config.kernel_cache_dir = tempfile.mkdtemp(prefix="tack-benchmarks-warp-")
wp.init()

f64, u32 = wp.float64, wp.uint32
floats, floats2, floats3 = wp.array(dtype=wp.float32), wp.array2d(dtype=wp.float32), wp.array3d(dtype=wp.float32)
ints, ints2, words, doubles = (
    wp.array(dtype=wp.int32),
    wp.array2d(dtype=wp.int32),
    wp.array(dtype=wp.uint32),
    wp.array(dtype=wp.float64),
)
kernel = wp.kernel(module="unique")  # compiles only what is launched


@kernel
def _saxpy(z: floats, x: floats, y: floats, a: float):
    i = wp.tid()
    z[i] = a * x[i] + y[i]


@kernel
def _mandelbrot(out: ints2, limit: int):
    row = wp.tid()
    n = out.shape[0]
    cy = -1.25 + 2.5 * float(row) / float(n)
    for column in range(n):
        cx = -2.0 + 2.5 * float(column) / float(n)
        zx = float(0.0)
        zy = float(0.0)
        count = int(0)
        while count < limit and zx * zx + zy * zy <= 4.0:
            following = zx * zx - zy * zy + cx
            zy = 2.0 * zx * zy + cy
            zx = following
            count += 1
        out[row, column] = count


@kernel
def _pull(x: floats, y: floats, z: floats, vx: floats, vy: floats, vz: floats, mass: floats, dt: float):
    i = wp.tid()
    ax = float(0.0)
    ay = float(0.0)
    az = float(0.0)
    for j in range(x.shape[0]):
        dx = x[j] - x[i]
        dy = y[j] - y[i]
        dz = z[j] - z[i]
        inverse = 1.0 / wp.sqrt(dx * dx + dy * dy + dz * dz + 1.0e-3)
        f = mass[j] * inverse * inverse * inverse
        ax += f * dx
        ay += f * dy
        az += f * dz
    vx[i] = vx[i] + dt * ax
    vy[i] = vy[i] + dt * ay
    vz[i] = vz[i] + dt * az


@kernel
def _drift(x: floats, y: floats, z: floats, vx: floats, vy: floats, vz: floats, dt: float):
    i = wp.tid()
    x[i] = x[i] + dt * vx[i]
    y[i] = y[i] + dt * vy[i]
    z[i] = z[i] + dt * vz[i]


@kernel
def _jacobi(b: floats2, a: floats2):
    i = wp.tid() + 1
    for j in range(1, a.shape[1] - 1):
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@kernel
def _stencil3d(b: floats3, a: floats3):
    i = wp.tid() + 1
    n = a.shape[0]
    for j in range(1, n - 1):
        for k in range(1, n - 1):
            b[i, j, k] = 0.4 * a[i, j, k] + 0.1 * (
                a[i - 1, j, k] + a[i + 1, j, k] + a[i, j - 1, k] + a[i, j + 1, k] + a[i, j, k - 1] + a[i, j, k + 1]
            )


@kernel
def _integer_hash(out: words, a: words):
    i = wp.tid()
    x = a[i]
    x = x ^ (x << u32(13))
    x = x ^ (x >> u32(17))
    x = x ^ (x << u32(5))
    x = x * u32(0x9E3779B1)
    x = x ^ (x >> u32(16))
    x = x * u32(0x85EBCA6B)
    out[i] = x ^ (x >> u32(13))


@kernel
def _histogram(counts: ints, data: ints):
    wp.atomic_add(counts, data[wp.tid()], 1)


@wp.func
def _normal_cdf(d: wp.float64):
    k = f64(1.0) / (f64(1.0) + f64(0.2316419) * wp.abs(d))
    poly = k * (
        f64(0.31938153)
        + k * (f64(-0.356563782) + k * (f64(1.781477937) + k * (f64(-1.821255978) + k * f64(1.330274429))))
    )
    tail = f64(0.39894228040143267794) * wp.exp(f64(-0.5) * d * d) * poly
    return wp.where(d > f64(0.0), f64(1.0) - tail, tail)


@kernel
def _black_scholes(
    call: doubles, put: doubles, price: doubles, strike: doubles, years: doubles, rate: f64, volatility: f64
):
    i = wp.tid()
    deviation = volatility * wp.sqrt(years[i])
    d1 = (wp.log(price[i] / strike[i]) + (rate + f64(0.5) * volatility * volatility) * years[i]) / deviation
    c1 = _normal_cdf(d1)
    c2 = _normal_cdf(d1 - deviation)
    discounted = strike[i] * wp.exp(-rate * years[i])
    call[i] = price[i] * c1 - discounted * c2
    put[i] = discounted * (f64(1.0) - c2) - price[i] * (f64(1.0) - c1)


@kernel
def _matmul(a: floats2, b: floats2, c: floats2):
    i = wp.tid()
    for j in range(c.shape[1]):
        total = float(0.0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@kernel
def _matmul_ikj(a: floats2, b: floats2, c: floats2):
    i = wp.tid()
    for j in range(c.shape[1]):
        c[i, j] = 0.0
    for k in range(a.shape[1]):
        factor = a[i, k]
        for j in range(c.shape[1]):
            c[i, j] = c[i, j] + factor * b[k, j]


def _on_device(*arguments):
    return [wp.array(a, device="cpu", copy=False) if isinstance(a, np.ndarray) else a for a in arguments]


def _work(function, count, *arguments):
    inputs = _on_device(*arguments)
    return Work(lambda: wp.launch(function, dim=count, inputs=inputs, device="cpu"))


def call(z, x, y, a):
    return _work(_saxpy, len(z), z, x, y, a)


saxpy = call


def triad(a, b, c, s):
    return _work(_saxpy, len(a), a, c, b, s)


def mandelbrot(out, limit):
    return _work(_mandelbrot, len(out), out, limit)


def nbody(*arguments):
    everything = _on_device(*arguments)
    state, mass, dt = everything[:6], everything[6], everything[7]

    def run():
        wp.launch(_pull, dim=len(mass), inputs=[*state, mass, dt], device="cpu")
        wp.launch(_drift, dim=len(mass), inputs=[*state, dt], device="cpu")

    return Work(run)


def _back_and_forth(function):
    def adapter(a, b, sweeps):
        a, b = _on_device(a, b)

        def run():
            for _ in range(sweeps // 2):
                wp.launch(function, dim=a.shape[0] - 2, inputs=[b, a], device="cpu")
                wp.launch(function, dim=a.shape[0] - 2, inputs=[a, b], device="cpu")

        return Work(run)

    return adapter


jacobi = _back_and_forth(_jacobi)
stencil3d = _back_and_forth(_stencil3d)


def integer_hash(out, a):
    return _work(_integer_hash, len(out), out, a)


def histogram(counts, data):
    return _work(_histogram, len(data), counts, data)


def array_sum(result, x):
    (x,) = _on_device(x)

    def run():
        result[0] = wp.utils.array_sum(x)

    return Work(run)


def black_scholes(*arguments):
    return _work(_black_scholes, len(arguments[0]), *arguments)


def matmul(a, b, c):
    return _work(_matmul, len(c), a, b, c)


def matmul_ikj(a, b, c):
    return _work(_matmul_ikj, len(c), a, b, c)


def exclusive_scan(out, values):
    out, values = _on_device(out, values)
    return Work(lambda: wp.utils.array_scan(values, out, inclusive=False))


def radix_sort(out, values):
    """Its sort of pairs: i32 keys, in whose order u32 are once their sign bit is flipped, and values that go along."""
    n = len(values)
    keys, carried = (wp.zeros(2 * n, dtype=wp.int32, device="cpu") for _ in range(2))
    place = keys.numpy()
    flipped = (values ^ np.uint32(1 << 31)).view(np.int32)

    def run():
        place[:n] = flipped  # the sort is in place
        wp.utils.radix_sort_pairs(keys, carried, n)

    return Work(run, finish=lambda: np.bitwise_xor(place[:n].view(np.uint32), np.uint32(1 << 31), out=out))
