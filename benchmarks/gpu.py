"""A CUDA device beside CuPy and PyTorch in one process: results checked, then times from interleaved rounds.

Run it on a machine with an NVIDIA GPU: ``python -m benchmarks.gpu``, or with names of sections after it. CuPy, PyTorch,
Triton and numba-cuda are optional.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import tack
from benchmarks import gpu_copies, gpu_launch
from benchmarks.gpu_tables import show, timed

N = 1 << 26


@tack.kernel
def saxpy(a, x, y, out):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]


@tack.kernel
def copy(x, out):
    for i in range(out.shape[0]):
        out[i] = x[i]


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


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def streams(cupy: Any, torch: Any, wait: Callable[[], None]) -> None:
    generator = np.random.default_rng(1)
    hx, hy = (generator.random(N, np.float32) for _ in range(2))
    x, y, out = tack.asarray(hx), tack.asarray(hy), tack.zeros(N)
    saxpy(2.0, x, y, out)
    assert np.allclose(out.numpy(), 2 * hx + hy, rtol=1e-6)
    copies: dict[str, Callable[[], Any]] = {"Tack": lambda: copy(x, out)}
    sums: dict[str, Callable[[], Any]] = {"Tack": x.sum}
    saxpys: dict[str, Callable[[], Any]] = {"Tack": lambda: saxpy(2.0, x, y, out)}
    if cupy is not None:
        cx, cy, co = cupy.asarray(x), cupy.asarray(y), cupy.asarray(out)
        text = 'extern "C" __global__ void k(float a, const float* x, const float* y, float* o, long long n) {'
        text += " long long i = blockIdx.x * 256LL + threadIdx.x; if (i < n) o[i] = a * x[i] + y[i]; }"
        raw = cupy.RawKernel(text, "k")
        arguments = (np.float32(2), cx, cy, co, np.int64(N))
        saxpys["CUDA C, a float a thread (CuPy)"] = lambda: raw((N // 256,), (256,), arguments)
        copies["cudaMemcpyAsync (CuPy)"] = lambda: co.data.copy_from_device_async(cx.data, 4 * N, cupy.cuda.Stream.null)
        sums["CuPy"] = lambda: float(cx.sum())
    if torch is not None:
        tx, ty, to = (torch.as_tensor(a, device="cuda") for a in (x, y, out))
        saxpys["PyTorch add(alpha)"] = lambda: torch.add(ty, tx, alpha=2.0, out=to)
        copies["PyTorch copy_"] = lambda: to.copy_(tx)
        sums["PyTorch"] = lambda: float(tx.sum())
    show("saxpy f32 64 M", timed(saxpys, wait), nbytes=12 * N)
    show("copy f32 64 M", timed(copies, wait), nbytes=8 * N)
    show("sum f32 64 M", timed(sums, wait), nbytes=4 * N)


def bodies(cupy: Any, wait: Callable[[], None]) -> None:
    n = 1 << 15
    generator = np.random.default_rng(2)
    x, y, z, mass = (tack.asarray(generator.random(n, np.float32)) for _ in range(4))
    ours = [tack.zeros(n) for _ in range(3)]
    runs: dict[str, Callable[[], Any]] = {"Tack": lambda: forces(x, y, z, mass, *ours)}
    if cupy is not None:
        text = """extern "C" __global__ void k(const float* x, const float* y, const float* z, const float* m,
            float* ax, float* ay, float* az, long long n) {
            long long i = blockIdx.x * 256LL + threadIdx.x; if (i >= n) return;
            float fx = 0, fy = 0, fz = 0;
            for (long long j = 0; j < n; ++j) { float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
                float r2 = dx * dx + dy * dy + dz * dz + 1e-4f, s = 1.0f / sqrtf(r2), f = m[j] * s * s * s;
                fx += f * dx; fy += f * dy; fz += f * dz; }
            ax[i] = fx; ay[i] = fy; az[i] = fz; }"""
        raw = cupy.RawKernel(text, "k")
        theirs = [cupy.zeros(n, np.float32) for _ in range(3)]
        arguments = (*map(cupy.asarray, (x, y, z, mass)), *theirs, np.int64(n))
        runs["CUDA C as written (CuPy)"] = lambda: raw((n // 256,), (256,), arguments)
        runs["Tack"]()
        runs["CUDA C as written (CuPy)"]()
        wait()
        for a, b in zip(ours, theirs, strict=True):
            assert np.allclose(a.numpy(), b.get(), rtol=2e-3, atol=1e-1)
    show("n-body, 32,768 bodies", timed(runs, wait, 2))


def main() -> None:
    cupy, torch = optional("cupy"), optional("torch")
    wait = tack.synchronize if cupy is None else lambda: (tack.synchronize(), cupy.cuda.Device().synchronize())
    sections: dict[str, Callable[[], None]] = {
        "streams": lambda: streams(cupy, torch, wait),
        "bodies": lambda: bodies(cupy, wait),
        "launches": lambda: gpu_launch.launches(cupy, wait),
        "threads": lambda: gpu_launch.threads(wait),
        "first": gpu_launch.first_calls,
        "lifetimes": lambda: gpu_launch.lifetimes(wait),
        "copies": lambda: gpu_copies.copies(cupy, torch, wait),
        "others": lambda: gpu_copies.others(cupy, torch),
    }
    failed = []
    with tack.device("cuda") as device:
        print(f"{device.backend.label}, NumPy {np.__version__}, {time.strftime('%Y-%m-%d')}")
        for name in sys.argv[1:] or sections:
            try:
                sections[name]()
            except Exception:  # the other sections still count
                traceback.print_exc()
                failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
