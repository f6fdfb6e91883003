"""Throughput of one GPU: Tack beside CUDA C, CuPy, PyTorch and Triton on the same arrays; results are compared first.

The CUDA C is what one would write by hand for the card, with 32-bit indices and a grid of as many dimensions as the
loop has. It is compiled by NVRTC with Tack's own options, through CuPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tack
from benchmarks.black_scholes import black_scholes
from benchmarks.gpu_tables import show, timed
from benchmarks.integer_hash import integer_hash
from benchmarks.jacobi import jacobi
from benchmarks.matmul import TILE, naive_matmul, tiled_matmul
from benchmarks.stencil3d import stencil3d

N = 1 << 26
OPTIONS = ("--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
ROWS = ("streams", "sums", "hash", "prices", "stencils", "bodies", "products")
Runs = dict[str, Callable[[], Any]]


@tack.kernel
def saxpy(a, x, y, out):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]


@tack.kernel
def copy(x, out):
    for i in range(out.shape[0]):
        out[i] = x[i]


@tack.kernel
def fill(out):
    for i in range(out.shape[0]):
        out[i] = tack.f32(i % 1021) * 0.5


@tack.kernel
def forces(x, y, z, mass, ax, ay, az):
    for i in range(x.shape[0]):
        fx, fy, fz = 0.0, 0.0, 0.0
        for j in range(x.shape[0]):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            r2 = dx * dx + dy * dy + dz * dz + 1e-4
            inverse = 1.0 / tack.sqrt(r2)
            f = mass[j] * inverse * inverse * inverse
            fx += f * dx
            fy += f * dy
            fz += f * dz
        ax[i], ay[i], az[i] = fx, fy, fz


SAXPY_1 = """(float a, const float* x, const float* y, float* o, int n) {
    int i = blockIdx.x * 256 + threadIdx.x; if (i < n) o[i] = a * x[i] + y[i]; }"""
SAXPY_4 = """(float a, const float4* x, const float4* y, float4* o, int n) {
    int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return; float4 p = x[i], q = y[i];
    o[i] = make_float4(a * p.x + q.x, a * p.y + q.y, a * p.z + q.z, a * p.w + q.w); }"""
HASH = """(unsigned* out, const unsigned* a, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    unsigned x = a[i]; x ^= x << 13; x ^= x >> 17; x ^= x << 5; x *= 0x9E3779B1u; x ^= x >> 16; x *= 0x85EBCA6Bu;
    x ^= x >> 13; out[i] = x; }"""
PRICES = """(double* call, double* put, const double* price, const double* strike, const double* years, double rate,
    double volatility, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    double s = price[i], x = strike[i], t = years[i], deviation = volatility * sqrt(t);
    double d1 = (log(s / x) + (rate + 0.5 * volatility * volatility) * t) / deviation, d2 = d1 - deviation;
    double c1 = cdf(d1), c2 = cdf(d2), discounted = x * exp(-rate * t);
    call[i] = s * c1 - discounted * c2; put[i] = discounted * (1.0 - c2) - s * (1.0 - c1); }"""
CDF = """__device__ double cdf(double d) { double k = 1.0 / (1.0 + 0.2316419 * fabs(d));
    double poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    double tail = 0.39894228040143267794 * exp(-0.5 * d * d) * poly; return d > 0.0 ? 1.0 - tail : tail; }\n"""
JACOBI = """(float* __restrict__ b, const float* __restrict__ a, int n) {
    int j = blockIdx.x * 64 + threadIdx.x + 1, i = blockIdx.y * 4 + threadIdx.y + 1;
    if (i < n - 1 && j < n - 1) b[i * n + j] =
        0.25f * (a[(i - 1) * n + j] + a[(i + 1) * n + j] + a[i * n + j - 1] + a[i * n + j + 1]); }"""
STENCIL = """(float* __restrict__ b, const float* __restrict__ a, int n) {
    int k = blockIdx.x * 64 + threadIdx.x + 1, j = blockIdx.y * 4 + threadIdx.y + 1, i = blockIdx.z + 1;
    if (j >= n - 1 || k >= n - 1) return; int c = (i * n + j) * n + k;
    b[c] = 0.4f * a[c] + 0.1f * (a[c - n * n] + a[c + n * n] + a[c - n] + a[c + n] + a[c - 1] + a[c + 1]); }"""
BODIES = """(const float* x, const float* y, const float* z, const float* m, float* ax, float* ay, float* az, int n) {
    int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return; float fx = 0, fy = 0, fz = 0;
    for (int j = 0; j < n; ++j) { float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
        float r2 = dx * dx + dy * dy + dz * dz + 1e-4f, s = 1.0f / sqrtf(r2), f = m[j] * s * s * s;
        fx += f * dx; fy += f * dy; fz += f * dz; }
    ax[i] = fx; ay[i] = fy; az[i] = fz; }"""
NAIVE = """(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y; float t = 0;
    for (int k = 0; k < n; ++k) t += a[i * n + k] * b[k * n + j];
    c[i * n + j] = t; }"""
TILED = """(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
    __shared__ float l[16][16], r[16][16]; int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x; float t = 0;
    for (int first = 0; first < n; first += 16) {
        l[y][x] = a[row * n + first + x]; r[y][x] = b[(first + y) * n + column]; __syncthreads();
        for (int k = 0; k < 16; ++k) t += l[y][k] * r[k][x];
        __syncthreads(); }
    c[row * n + column] = t; }"""


class Throughput:
    """The rows; `cupy`, `torch` and `triton` are the modules, or None where they are not installed."""

    def __init__(self, cupy: Any, torch: Any, triton: Any, wait: Callable[[], None]) -> None:
        self.cupy, self.torch, self.triton, self.wait = cupy, torch, triton, wait
        self.random = np.random.default_rng(1)

    def uniform(self, *shape: int) -> tack.Array:
        return tack.asarray(self.random.random(shape, np.float32))

    def cuda(self, body: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any, before: str = "") -> Any:
        """A run of CUDA C; arrays of Tack are taken in place, Python integers are i32."""
        raw = self.cupy.RawKernel(f'{before}extern "C" __global__ void k{body}', "k", options=OPTIONS)
        given = tuple(self._argument(a) for a in arguments)
        return lambda: raw(grid, block, given)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, tack.Array):
            return self.cupy.asarray(value)
        return np.int32(value) if isinstance(value, int) else value

    def row(
        self, title: str, runs: Runs, outputs: list[Any], *, nbytes: int = 0, close: float = 0, calls: int = 20
    ) -> None:
        """Every run writes the `outputs`, which must come out alike, and is then timed."""
        expected: list[Any] = []
        for name, run in runs.items():
            for output in outputs if self.cupy is not None else ():
                self.cupy.asarray(output).fill(77)
            self.wait()
            run()
            self.wait()
            found = [output.numpy() for output in outputs]
            expected = expected or found
            for a, b in zip(found, expected, strict=True):
                assert np.abs(a.astype(np.float64) - b).max() <= close * np.abs(b.astype(np.float64)).max(), (
                    title,
                    name,
                )
        show(title, timed(runs, self.wait, calls), nbytes=nbytes)

    # -- streams

    def streams(self) -> None:
        x, y, out = self.uniform(N), self.uniform(N), tack.zeros(N)
        saxpys: Runs = {"Tack": lambda: saxpy(2.0, x, y, out)}
        copies: Runs = {"Tack": lambda: copy(x, out)}
        if self.cupy is not None:
            a = np.float32(2)
            saxpys["CUDA C, a float a thread"] = self.cuda(SAXPY_1, (N // 256,), (256,), a, x, y, out, N)
            saxpys["CUDA C, a float4 a thread"] = self.cuda(SAXPY_4, (N // 1024,), (256,), a, x, y, out, N // 4)
            cx, co = self.cupy.asarray(x), self.cupy.asarray(out)
            null = self.cupy.cuda.Stream.null
            copies["cudaMemcpyAsync (CuPy)"] = lambda: co.data.copy_from_device_async(cx.data, 4 * N, null)
        if self.torch is not None:
            tx, ty, to = (self.torch.as_tensor(a, device="cuda") for a in (x, y, out))
            saxpys["PyTorch add(alpha)"] = lambda: self.torch.add(ty, tx, alpha=2.0, out=to)
            copies["PyTorch copy_"] = lambda: to.copy_(tx)
            if self.triton is not None:
                from benchmarks.gpu_triton import saxpy as in_triton

                saxpys["Triton"] = lambda: in_triton[(N // 1024,)](2.0, tx, ty, to, N, BLOCK=1024)
        self.row("saxpy f32 64 M", saxpys, [out], nbytes=12 * N, close=1e-6)
        self.row("copy f32 64 M", copies, [out], nbytes=8 * N)

    def hash(self) -> None:
        a, out = tack.arange(N, dtype=tack.u32), tack.zeros(N, tack.u32)
        runs: Runs = {"Tack": lambda: integer_hash(out, a)}
        if self.cupy is not None:
            runs["CUDA C, a number a thread"] = self.cuda(HASH, (N // 256,), (256,), out, a, N)
        self.row("u32 hash 64 M", runs, [out], nbytes=8 * N)

    def prices(self) -> None:
        n = N // 4
        price, strike, years = (tack.asarray(self.random.uniform(*s, n)) for s in ((5, 30), (1, 100), (0.25, 10)))
        call, put = tack.zeros(n, tack.f64), tack.zeros(n, tack.f64)
        runs: Runs = {"Tack": lambda: black_scholes(call, put, price, strike, years, 0.02, 0.3)}
        if self.cupy is not None:
            arguments = (call, put, price, strike, years, np.float64(0.02), np.float64(0.3), n)
            runs["CUDA C"] = self.cuda(PRICES, (n // 256,), (256,), *arguments, before=CDF)
        self.row("Black–Scholes f64 16 M", runs, [call, put], nbytes=40 * n, close=1e-13)

    # -- sums

    def sums(self) -> None:
        for dtype in (tack.f32, tack.f64, tack.i32, tack.i64, tack.i8):
            x = tack.asarray((self.random.random(N) * 100).astype(dtype.numpy))
            runs: Runs = {"Tack": x.sum}
            if dtype in (tack.f32, tack.f64):
                runs["Tack, reproducible=True"] = lambda x=x: x.sum(reproducible=True)
            if self.cupy is not None:
                cx = self.cupy.asarray(x)
                runs["CuPy"] = lambda cx=cx: float(cx.sum())
            if self.torch is not None:
                tx = self.torch.as_tensor(x, device="cuda")
                runs["PyTorch"] = lambda tx=tx: float(tx.sum())
            exact = float(x.numpy().sum(dtype=np.float64 if dtype.is_float else np.int64))
            for name, run in runs.items():
                assert abs(run() - exact) <= 1e-5 * abs(exact), (dtype, name)
            show(f"sum {dtype.name} 64 M, its number in Python", timed(runs, self.wait), nbytes=x.nbytes)

        self.large_sums()

    def large_sums(self) -> None:
        """Where launching and waiting count for little."""
        n = 1 << 30
        x = tack.zeros(n, tack.f32)
        fill(x)
        whole, rest = divmod(n, 1021)
        exact = 0.5 * (whole * (1020 * 1021 // 2) + rest * (rest - 1) // 2)
        runs: Runs = {"Tack": x.sum, "Tack, reproducible=True": lambda: x.sum(reproducible=True)}
        assert runs["Tack, reproducible=True"]() == float(np.float32(exact))
        if self.cupy is not None:
            cx = self.cupy.asarray(x)
            runs["CuPy"] = lambda: float(cx.sum())
        if self.torch is not None:
            tx = self.torch.as_tensor(x, device="cuda")
            runs["PyTorch"] = lambda: float(tx.sum())
        for name, run in runs.items():
            assert abs(run() - exact) <= 1e-5 * exact, name
        show("sum f32 1 G, its number in Python", timed(runs, self.wait, 3), nbytes=4 * n)
        one = tack.ones(1)
        show("sum of one element", timed({"Tack": one.sum}, self.wait, 100))

    # -- stencils

    def stencils(self) -> None:
        n = 4096
        a, b = self.uniform(n, n), tack.zeros((n, n))
        runs: Runs = {"Tack": lambda: jacobi(b, a)}
        if self.cupy is not None:
            runs["CUDA C, 64 × 4 threads"] = self.cuda(JACOBI, (n // 64, n // 4), (64, 4), b, a, n)
        self.row("Jacobi 4096²", runs, [b], nbytes=8 * n * n, close=1e-6)
        n = 512
        a, b = self.uniform(n, n, n), tack.zeros((n, n, n))
        runs = {"Tack": lambda: stencil3d(b, a)}
        if self.cupy is not None:
            runs["CUDA C, 64 × 4 threads"] = self.cuda(STENCIL, (n // 64, n // 4, n - 2), (64, 4), b, a, n)
        self.row("3-D 7-point 512³", runs, [b], nbytes=8 * n**3, close=1e-6)

    # -- arithmetic

    def bodies(self) -> None:
        n = 1 << 15
        given, found = [self.uniform(n) for _ in range(4)], [tack.zeros(n) for _ in range(3)]
        runs: Runs = {"Tack": lambda: forces(*given, *found)}
        if self.cupy is not None:
            runs["CUDA C as written"] = self.cuda(BODIES, (n // 256,), (256,), *given, *found, n)
        self.row("n-body, 32,768 bodies", runs, found, close=1e-3, calls=2)

    def products(self) -> None:
        n = 2048
        a, b, c = self.uniform(n, n), self.uniform(n, n), tack.zeros((n, n))
        tiled: Runs = {"Tack": lambda: tiled_matmul(a, b, c, n // TILE)}
        naive: Runs = {"Tack": lambda: naive_matmul(a, b, c)}
        if self.cupy is not None:
            tiled["CUDA C"] = self.cuda(TILED, (n // 16, n // 16), (16, 16), a, b, c, n)
            naive["CUDA C, 32 × 8 threads"] = self.cuda(NAIVE, (n // 32, n // 8), (32, 8), a, b, c, n)
        self.row("matmul f32 2048³, tiles of 16² in shared memory", tiled, [c], close=1e-5, calls=3)
        self.row("matmul f32 2048³, by its definition", naive, [c], close=1e-5, calls=3)
