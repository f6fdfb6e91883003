"""Measure the largest error of the CPU's mathematical functions, in units of the last place (ULP) of the exact result.

    python tools/measure_math.py [names] [--step 1] [--samples 22] [--processes 2]

Each f32 function of one argument runs on every f32 there is (or on every `step`-th), against the C library's binary64
through NumPy. Functions of f64, and those of two arguments, run on 2**samples random arguments of each of their ranges,
against numpy.longdouble, which must have more digits than f64. Prints a table in Markdown; exits with 1 where a result
is of another class than the exact one (NaN, infinity, sign of a zero).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TACK_CPU_THREADS", "1")  # the processes share the cores

import numpy as np

import tack

Array = np.ndarray[Any, Any]
# The ranges of random f64 arguments, beside random bit patterns of all of them.
RANGES: dict[str, list[tuple[float, float]]] = {
    "sin": [(-10, 10), (-1e5, 1e5), (-2e9, 2e9)],
    "cos": [(-10, 10), (-1e5, 1e5), (-2e9, 2e9)],
    "tan": [(-10, 10), (-1e5, 1e5), (-2e9, 2e9)],
    "asin": [(-1, 1), (0.45, 0.55)],
    "acos": [(-1, 1), (0.45, 0.55), (-0.55, -0.45), (0.99, 1)],
    "atan": [(-1, 1), (-10, 10), (-1e6, 1e6)],
    "sinh": [(-1, 1), (-30, 30), (-711, 711)],
    "cosh": [(-1, 1), (-30, 30), (-711, 711)],
    "tanh": [(-1, 1), (-25, 25)],
    "exp": [(-1, 1), (-50, 50), (-746, 710)],
    "exp2": [(-1, 1), (-50, 50), (-1076, 1024.5)],
    "expm1": [(-1, 1), (-40, 50), (-50, 710)],
    "log": [(0.5, 2), (0, 100), (0, 1e300)],
    "log2": [(0.5, 2), (0, 100), (0, 1e300)],
    "log10": [(0.5, 2), (0, 100), (0, 1e300)],
    "log1p": [(-1, 1), (-0.35, 0.5), (0, 1e18)],
}
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
BLOCK = 1 << 15


@functools.cache
def compiled(name: str) -> Any:
    """The kernel that applies a function to arrays."""
    function = getattr(tack, name)

    @tack.kernel
    def one(out, a):  # noqa: ANN001, ANN202
        for i in range(out.size):
            out[i] = function(a[i])

    @tack.kernel
    def two(out, a, b):  # noqa: ANN001, ANN202
        for i in range(out.size):
            out[i] = function(a[i], b[i])

    return two if name in ("pow", "atan2") else one


def errors(got: Array, exact: Array) -> tuple[float, int]:
    """The largest error of the finite results in ULP, and how many results are of a wrong class."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        error = np.abs(got - exact) / np.spacing(np.abs(rounded))
        plain = np.isfinite(error) & (rounded != 0)
        largest = float(error.max(where=plain, initial=0))
        if plain.all():
            return largest, 0
        got, rounded, error = got[~plain], rounded[~plain], error[~plain]
        same = (got == rounded) & (np.signbit(got) == np.signbit(rounded)) | (np.isnan(got) & np.isnan(rounded))
        # Where the exact result is within an ULP of infinity or of zero, both neighbours will do.
        edge = np.isinf(got) != np.isinf(rounded)
        near = edge & (np.abs(np.where(np.isinf(got), rounded, got)) >= np.finfo(got.dtype).max)
        near |= (rounded == 0) & (error < 1) & (np.signbit(got) == np.signbit(rounded)) & (got != 0)
        return largest, int(np.count_nonzero(~(same | near)))


def worst(name: str, arguments: list[Array]) -> tuple[float, int]:
    """The largest error for these arguments, and how many results are of a wrong class."""
    out = np.empty_like(arguments[0])
    compiled(name)(out, *arguments)
    wide = np.float64 if out.dtype == np.float32 and len(arguments) == 1 else np.longdouble
    with np.errstate(all="ignore"):
        exact = getattr(np, NUMPY_NAMES.get(name, name))(*(a.astype(wide) for a in arguments))
    return errors(out, exact)


def over_f32(name: str, first: int, last: int, step: int) -> tuple[float, int]:
    """The worst over f32 bit patterns from `first` to `last`."""
    kernel_results = (
        worst(name, [np.arange(at, min(last, at + BLOCK * step), step, np.uint64).astype(np.uint32).view(np.float32)])
        for at in range(first, last, BLOCK * step)
    )
    found = list(kernel_results)
    return max(e for e, _ in found), sum(w for _, w in found)


def samples(name: str, dtype: str, count: int, random: np.random.Generator) -> list[list[Array]]:
    """Arguments of a function: of each range, and all kinds of numbers."""
    bits = {"f32": np.uint32, "f64": np.uint64}[dtype]
    kind = {"f32": np.float32, "f64": np.float64}[dtype]

    def anything() -> Array:
        return random.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(kind)

    def within(low: float, high: float) -> Array:
        return random.uniform(low, high, count).astype(kind)

    if name == "pow":
        near = [within(0, 4), within(-300, 300)], [within(0.99, 1.01), within(-3e4, 3e4)]
        return [*near, [within(0, 1e6), within(-8, 8)], [anything(), anything()]]
    if name == "atan2":
        return [[within(-1, 1), within(-1, 1)], [within(-1, 1), within(-1e3, 1e3)], [anything(), anything()]]
    return [*([within(*r)] for r in RANGES[name]), [anything()]]


def over_samples(name: str, dtype: str, count: int, seed: int) -> tuple[float, int]:
    """The worst over random arguments."""
    found = [worst(name, arguments) for arguments in samples(name, dtype, count, np.random.default_rng(seed))]
    return max(e for e, _ in found), sum(w for _, w in found)


def jobs(
    names: list[str], step: int, count: int
) -> list[tuple[str, str, Callable[..., tuple[float, int]], tuple[Any, ...]]]:
    """Pieces of work: function, type, what to call, with what."""
    work: list[tuple[str, str, Callable[..., tuple[float, int]], tuple[Any, ...]]] = []
    for name in names:
        if name in RANGES:
            piece = 1 << 28
            work += [(name, "f32", over_f32, (name, at, at + piece, step)) for at in range(0, 1 << 32, piece)]
        for dtype in ("f32", "f64")[name in RANGES :]:
            rounds = range(max(1, count >> 18))
            work += [(name, dtype, over_samples, (name, dtype, min(count, 1 << 18), seed)) for seed in rounds]
    return work


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*RANGES, "atan2", "pow"]
    parser.add_argument("names", nargs="*", choices=[*names, []], help="functions; default all")
    parser.add_argument("--step", type=int, default=1, help="take every so many-th f32")
    parser.add_argument("--samples", type=int, default=22, help="log2 of the random arguments of each range")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    given = parser.parse_args()
    if np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        print("numpy.longdouble has no more digits than f64 here")
        return 2
    work = jobs(given.names or names, given.step, 1 << given.samples)
    context = multiprocessing.get_context("spawn")
    print("| function | f32: ULP | f64: ULP | wrong classes |\n|---|---|---|---|")
    with concurrent.futures.ProcessPoolExecutor(given.processes, mp_context=context) as pool:
        futures = [(name, dtype, pool.submit(call, *arguments)) for name, dtype, call, arguments in work]
        total = 0
        for name, group in itertools.groupby(futures, lambda future: future[0]):
            found: dict[str, tuple[float, int]] = {}
            for _, dtype, future in group:
                error, wrong = future.result()
                before = found.get(dtype, (0.0, 0))
                found[dtype] = max(error, before[0]), wrong + before[1]
            bad = sum(wrong for _, wrong in found.values())
            total += bad
            print(f"| {name} | {found['f32'][0]:.4f} | {found['f64'][0]:.3f} | {bad} |", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
