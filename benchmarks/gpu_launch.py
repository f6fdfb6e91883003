"""What a launch on a CUDA device costs, beside `cuLaunchKernel` in a C loop, ctypes, CuPy, Triton and numba-cuda.

Calls are issued, not waited for: what is timed is the host's work. Part of ``python -m benchmarks.gpu``.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tack
from benchmarks.gpu_tables import ROUNDS, show
from tack.runtime.launch_arguments import CallArguments

CALLS = 500  # fewer than a queue holds: a full one would time the device
THREADS, EACH = 8, 10_000
LIFETIMES = 100_000
_C = """
#include <time.h>
typedef unsigned u;
typedef int (*launch_t)(void*, u, u, u, u, u, u, u, void*, void**, void**);
double launch_loop(launch_t launch, void* f, unsigned group, void* stream, void** values, int n) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < n; i++) if (launch(f, 1, 1, 1, group, 1, 1, 0, stream, values, 0)) return -1;
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec);
}
"""


@tack.kernel
def saxpy(a, x, y, out):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]


@tack.kernel
def store(out, at, value):
    for i in range(1):
        out[at] = value


def issued(runs: dict[str, Callable[[], float]], wait: Callable[[], None]) -> dict[str, float]:
    """The median seconds of a call; a run gives the seconds of `CALLS` of them."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(2 * ROUNDS):
        for name, run in runs.items():
            wait()
            samples[name].append(run() / CALLS)
    return {name: float(np.median(s)) for name, s in samples.items()}


def repeated(call: Callable[[], Any]) -> Callable[[], float]:
    """A loop of Python over a call."""

    def run() -> float:
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return time.perf_counter() - start

    return run


def c_loop() -> Any:
    """`launch_loop`, built here; None without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "loop.c").write_text(_C)
    command = [compiler, "-O2", "-shared", "-fPIC", str(folder / "loop.c"), "-o", str(folder / "loop.so")]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(folder / "loop.so")).launch_loop
    function.restype = ctypes.c_double
    return function


class Prebuilt:
    """The driver's own arguments of one call of `saxpy`, as Tack passes them."""

    def __init__(self, x: tack.Array, y: tack.Array, out: tack.Array) -> None:
        lowering = saxpy._state.lowerings[0]
        executable = next(iter(lowering.rows.values())).executable
        self.stream, loop = executable._queue, executable._loops[0]
        shapes = [(), x.shape, y.shape, out.shape]
        call = CallArguments([0, x._data, y._data, out._data], shapes, [2.0, 0, 0, 0])
        recorded: list[tuple[Any, ...]] = []
        stream = _Recording(self.stream, recorded)
        loop.enqueue(stream, call, loop.space(call.scalars, call.shapes), out.size)
        self.function, values, self.group = recorded[0]
        self.words = ctypes.create_string_buffer(b"".join(v.ljust(8, b"\0") for v in values))
        start = ctypes.addressof(self.words)
        self.pointers = (ctypes.c_void_p * len(values))(*range(start, start + 8 * len(values), 8))

    def by_ctypes(self) -> None:
        driver, stream = self.stream.driver, self.stream
        driver.launch(self.function, 1, 1, 1, self.group, 1, 1, 0, stream.handle, self.pointers, None)

    def in_c(self, loop: Any) -> float:
        address = ctypes.c_void_p(self.stream.driver.address("launch"))
        seconds: float = loop(address, self.function, self.group, self.stream.handle, self.pointers, CALLS)
        assert seconds > 0
        return seconds


class _Recording:
    """A queue that notes a launch instead of making it."""

    def __init__(self, stream: Any, calls: list[tuple[Any, ...]]) -> None:
        self.most_groups, self.resolve, self._calls = stream.most_groups, stream.resolve, calls

    def launch(self, function: Any, values: Any, groups: int, group: int) -> None:
        self._calls.append((function, list(values), group))


def launches(cupy: Any, wait: Callable[[], None]) -> None:
    """One launch of three arrays and a number."""
    x, y, out = tack.ones(1), tack.ones(1), tack.zeros(1)
    for _ in range(10):
        saxpy(2.0, x, y, out)
    assert out.numpy().tolist() == [3.0] and saxpy._entry, "the native entry has taken over"
    made, loop = Prebuilt(x, y, out), c_loop()

    def ours() -> float:  # without the call of a lambda, which is a fair part of ours
        start = time.perf_counter()
        for _ in range(CALLS):
            saxpy(2.0, x, y, out)
        return time.perf_counter() - start

    runs: dict[str, Callable[[], float]] = {"Tack": ours}
    runs["Tack, through Python"] = repeated(lambda: saxpy(2.0, x, y, out=out))
    if loop is not None:
        runs["cuLaunchKernel in a C loop"] = lambda: made.in_c(loop)
    runs["ctypes, arguments prebuilt"] = repeated(made.by_ctypes)
    if cupy is not None:
        raw = cupy.RawKernel('extern "C" __global__ void k(float a, const float* x, const float* y, float* o) {}', "k")
        arguments = (np.float32(2), cupy.asarray(x), cupy.asarray(y), cupy.asarray(out))
        runs["CuPy RawKernel"] = repeated(lambda: raw((1,), (256,), arguments))
    for name, make in (("Triton", _triton), ("numba-cuda", _numba)):
        try:
            call = make(x, y, out)
            call()
            runs[name] = repeated(call)
        except Exception as error:  # a peer that does not work on this machine is no error of ours
            print(f"({name}: {type(error).__name__}: {str(error)[:80]})")
    show("one launch, three arrays and a number", issued(runs, wait))


def _triton(x: tack.Array, y: tack.Array, out: tack.Array) -> Callable[[], Any]:
    import torch

    from benchmarks.gpu_triton import saxpy as kernel

    tensors = [torch.as_tensor(a, device="cuda") for a in (x, y, out)]
    return lambda: kernel[(1,)](2.0, *tensors, 1, BLOCK=256)


def _numba(x: tack.Array, y: tack.Array, out: tack.Array) -> Callable[[], Any]:
    from numba import cuda

    @cuda.jit
    def kernel(a, x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    arrays = [cuda.as_cuda_array(a) for a in (x, y, out)]
    configured = kernel[1, 256]
    return lambda: configured(np.float32(2), *arrays)


def threads(wait: Callable[[], None]) -> None:
    """Eight host threads with different scalars: all right, and no slower than one."""
    out = tack.zeros(THREADS * EACH, tack.i64)
    for _ in range(10):
        store(out, 0, 0)

    def run(number: int) -> None:
        for at in range(number * EACH, (number + 1) * EACH):
            store(out, at, 3 * at + 1)

    def timed(workers: int) -> float:
        out.fill(0)
        wait()
        start = time.perf_counter()
        if workers == 1:
            for number in range(THREADS):
                run(number)
        else:
            crew = [threading.Thread(target=run, args=(number,)) for number in range(workers)]
            for thread in crew:
                thread.start()
            for thread in crew:
                thread.join()
        wait()
        seconds = time.perf_counter() - start
        assert np.array_equal(out.numpy(), 3 * np.arange(THREADS * EACH) + 1)
        return seconds / (THREADS * EACH)

    pairs = [(timed(1), timed(THREADS)) for _ in range(7)]
    one, many = (float(np.median(column)) for column in zip(*pairs, strict=True))
    show(f"{THREADS} host threads, {EACH} launches each", {"one thread": one, f"{THREADS} threads": many}, "one thread")


def lifetimes(wait: Callable[[], None]) -> None:
    """Free memory of the device after many arrays is what it was."""
    information = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2

    def free() -> int:
        wait()
        left, all_of_it = ctypes.c_size_t(), ctypes.c_size_t()
        assert information(ctypes.byref(left), ctypes.byref(all_of_it)) == 0
        return left.value

    def live(count: int) -> None:
        for k in range(count):
            tack.zeros(1 + k % 5000).fill(1.0)

    live(1000)
    before, start = free(), time.perf_counter()
    live(LIFETIMES)
    seconds, after = time.perf_counter() - start, free()
    print(
        f"\n{LIFETIMES} arrays made, filled and dropped: {seconds / LIFETIMES * 1e6:.1f} µs each, free memory ", end=""
    )
    print(f"{before} bytes before, {after} after")
    assert after >= before - (1 << 21), "memory was lost"


_FIRST = """
import sys, time
begin = time.perf_counter()
import numpy as np
import tack
imported = time.perf_counter()
from tack.runtime import cuda_backend
build, builds = cuda_backend.compile_cubin, []
def timed(*words):
    begin = time.perf_counter()
    code = build(*words)
    builds.append(time.perf_counter() - begin)
    return code
cuda_backend.compile_cubin = timed
@tack.kernel
def fresh(a, x, y, out):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i] * {number}
@tack.kernel
def second(a, x, y, out):
    for i in range(out.shape[0]):
        out[i] = a * x[i] - y[i] * {number}
with tack.device("cuda") as device:
    x, y, out = tack.ones(8), tack.ones(8), tack.zeros(8)
    tack.synchronize()
    print(imported - begin)
    for kernel, want in ((fresh, 2 + {number}), (second, 2 - {number})):
        start = time.perf_counter()
        kernel(2.0, x, y, out)
        tack.synchronize()
        print(time.perf_counter() - start)
        assert out.numpy().tolist() == [want] * 8
        with open(sys.argv[1] + kernel.__name__, "w") as file:
            file.write(tack.inspect(kernel, 2.0, x, y, out)["cuda"])
    print(0, *builds)
"""
_ALONE = """
import sys, time
import numpy, tack
from tack.runtime.cuda_backend import _COMPILE_OPTIONS
from tack.runtime.cuda_driver import compile_cubin
backend = tack.device("cuda").backend
print(0)
for name in ("fresh", "second"):
    text = open(sys.argv[1] + name).read()
    start = time.perf_counter()
    compile_cubin(text, name, backend.architecture, _COMPILE_OPTIONS)
    print(time.perf_counter() - start)
"""


def first_calls() -> None:
    """The first two kernels of a fresh process, without and with the disk cache; NVRTC in it and alone."""
    cold, alone, kept = "Tack, cold", "NVRTC alone", "Tack, from the disk cache"
    seconds: dict[str, list[list[float]]] = {cold: [], "of which NVRTC": [], alone: [], kept: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "alone.py").write_text(_ALONE)
        for number in range(1, 9):
            program = folder / f"first{number}.py"
            program.write_text(_FIRST.format(number=number))
            if number == 1:  # the first program on a machine also reads Tack's own files, to know its version
                _run(program, folder)
                continue
            found = _run(program, folder)
            seconds[cold].append(found[:3])
            seconds["of which NVRTC"].append(found[3:])
            seconds[alone].append(_run(folder / "alone.py", folder))
            seconds[kept].append(_run(program, folder)[:3])
    print("\n| a small kernel in a new process, ms | import | first kernel | second kernel |\n|---|--:|--:|--:|")
    for what, rows in seconds.items():
        print("|", what, "|", " | ".join(f"{np.median(column) * 1e3:.1f}" for column in zip(*rows, strict=True)), "|")


def _run(program: Path, folder: Path) -> list[float]:
    environment = os.environ | {"TACK_CACHE_DIR": str(folder / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    command = [sys.executable, str(program), str(folder / "text.cu")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [float(word) for word in done.stdout.split()]
