"""What a call costs: three arrays of one element and a scalar, so that nothing but the call is left."""

from __future__ import annotations

import importlib.util
import time
import timeit
from collections.abc import Callable

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import Gcc, bind
from benchmarks.saxpy import saxpy

CALLS = 5_000


def an_empty_function(z, x, y, a):
    pass


def implementations(gcc: Gcc) -> dict[str, Callable[[], float]]:
    """By name, the seconds that one call takes, loop included; `ctypes` is there if there is gcc."""
    arrays = [np.ones(1, np.float32) for _ in range(3)]
    on_device = [tack.asarray(array) for array in arrays]
    rows = {}
    if gcc.version is not None:
        function = bind(gcc.load("call_cost", "plain"), "small", *arrays, np.float32(3.0), 1)
        # Not through the partial object, which costs something itself.
        rows["C through ctypes, arguments prebuilt"] = _timer(function.func, *function.args)
    rows["Tack, tack.Array"] = _timer(saxpy, *on_device, 3.0)
    rows["Tack, NumPy arrays"] = _timer(saxpy, *arrays, 3.0)
    if importlib.util.find_spec("numba"):
        rows["Numba, serial"] = _timer(_numba_saxpy(), *arrays, 3.0)
    rows["an empty Python function"] = _timer(an_empty_function, *arrays, 3.0)
    return rows


def _timer(function: Callable[..., object], *arguments: object) -> Callable[[], float]:
    names = {f"a{k}": value for k, value in enumerate(arguments)}
    timer = timeit.Timer(f"f({', '.join(names)})", timer=time.thread_time, globals={"f": function, **names})
    timer.timeit(100)
    return lambda: timer.timeit(CALLS) / CALLS


def _numba_saxpy() -> Callable[..., object]:
    import numba

    @numba.njit
    def numba_saxpy(z, x, y, a):
        for i in range(z.shape[0]):
            z[i] = a * x[i] + y[i]

    return numba_saxpy


def measure(gcc: Gcc, rounds: int) -> dict[str, harness.Timing]:
    """Time every implementation once a round."""
    rows = implementations(gcc)
    timings = {name: harness.Timing() for name in rows}
    for _ in range(rounds):
        for name, one_call in rows.items():
            timings[name].samples.append(one_call())
    return timings


def report(gcc: Gcc, quick: bool) -> None:
    timings = measure(gcc, 3 if quick else 40)
    print("\n## The cost of a call: three arrays of one element and a scalar; processor time\n")
    print("| call | median ns | least ns | ratio to ctypes |\n|---|--:|--:|--:|")
    base = next((t for name, t in timings.items() if "ctypes" in name), None)
    for name, timing in timings.items():
        ratio = f"{timing.median / base.median:.2f}" if base else "no gcc"
        print(f"| {name} | {timing.median * 1e9:.0f} | {timing.least * 1e9:.0f} | {ratio} |")
