"""What a workload is, checking its implementations against each other, and timing them in interleaved rounds."""

from __future__ import annotations

import ctypes
import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.compilers import Gcc, set_openmp_threads

HUGE_PAGE = 2 << 20
LINES_APART = 65 * 64  # bytes
MIN_ROUNDS, MAX_ROUNDS = 5, 60
SAMPLE_SECONDS = 2e-3  # calls that are shorter are repeated within one sample

_arrays_made = itertools.count()


@dataclass(frozen=True)
class Case:
    """One row: the same work by Tack, C and NumPy on the same arrays.

    Attributes
    ----------
    name : str
        The row's name, with its size.
    workload : str
        The C file's name.
    outputs : tuple of ndarray
        What every implementation writes, and what is compared.
    tack, numpy : callable
        One run each.
    c : callable
        From a loaded library to one run.
    reset : callable, optional
        Puts the arrays back to their start before each run, outside the time; None where a run repeats as it is.
    tolerance, numpy_tolerance : float
        Largest difference from C without contraction and from NumPy, relative to the largest magnitude of an output;
        zero means the same bits.
    time_numpy : bool
        False where the NumPy version is there for checking only.
    """

    name: str
    workload: str
    outputs: tuple[np.ndarray, ...]
    tack: Callable[[], object]
    c: Callable[[ctypes.CDLL], Callable[[], object]]
    numpy: Callable[[], object]
    reset: Callable[[], object] | None = None
    tolerance: float = 0.0
    numpy_tolerance: float = 0.0
    time_numpy: bool = True


@dataclass
class Timing:
    """Seconds a run, one entry a round."""

    samples: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.samples)

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


class CheckFailed(AssertionError):
    """Two implementations of a workload disagree, so that their times mean nothing."""


# ---- Arrays ----------------------------------------------------------------------------------------------------------


def empty(shape: int | tuple[int, ...], dtype: type) -> np.ndarray:
    """A C-contiguous array, its start staggered against the arrays made before it.

    Large arrays that lie alike within 2 MiB pages fight for the same cache sets, which doubles the time of a stencil;
    whether they do would otherwise be luck. Every implementation of a row gets the same arrays.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    stagger = next(_arrays_made) % 64 * LINES_APART
    buffer = np.empty(size + HUGE_PAGE + 64 * LINES_APART, np.uint8)
    start = -buffer.ctypes.data % HUGE_PAGE + stagger if size >= HUGE_PAGE else -buffer.ctypes.data % 64
    return buffer[start : start + size].view(dtype).reshape(shape)


def filled(values: np.ndarray) -> np.ndarray:
    """A staggered copy."""
    copy = empty(values.shape, values.dtype.type)
    copy[...] = values
    return copy


def zeros(shape: int | tuple[int, ...], dtype: type) -> np.ndarray:
    """A staggered array of zeros, every page touched."""
    array = empty(shape, dtype)
    array[...] = 0
    return array


def uniform(shape: int | tuple[int, ...], seed: int) -> np.ndarray:
    """A staggered f32 array of numbers in [0, 1), the same in every run."""
    return filled(np.random.default_rng(seed).random(shape, np.float32))


# ---- Checking --------------------------------------------------------------------------------------------------------


def check(case: Case, strict: ctypes.CDLL | None, with_numpy: bool = True) -> None:
    """Raise `CheckFailed` unless Tack, C without contraction (if there is a library) and NumPy agree."""
    ours = _outcome(case, case.tack)
    if strict is not None:
        _compare(case, "C", ours, _outcome(case, case.c(strict)), case.tolerance)
    if with_numpy:
        _compare(case, "NumPy", ours, _outcome(case, case.numpy), case.numpy_tolerance)


def _outcome(case: Case, run: Callable[[], object]) -> list[np.ndarray]:
    for array in case.outputs:  # what an implementation fails to write must not look right
        array.fill(77)
    if case.reset:
        case.reset()
    run()
    return [array.copy() for array in case.outputs]


def _compare(case: Case, who: str, ours: Iterable[np.ndarray], theirs: Iterable[np.ndarray], tolerance: float) -> None:
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if tolerance == 0.0:
            wrong = a.view(np.uint8).reshape(-1) != b.view(np.uint8).reshape(-1)
            agree = not wrong.any()
        else:
            agree = bool(np.all(np.abs(a - b) <= tolerance * np.abs(b).max()))
        if not agree:
            worst = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
            raise CheckFailed(f"{case.name}: output {k} of Tack differs from {who} by up to {worst:.6g}")


# ---- Timing ----------------------------------------------------------------------------------------------------------


def interleaved(
    runs: dict[str, Callable[[], object]],
    reset: Callable[[], object] | None,
    budget: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the runs in rounds, each round all of them in turn, the first one changing from round to round.

    Parameters
    ----------
    runs : dict
        The implementations by name.
    reset : callable, optional
        Run before each sample, outside the time.
    budget : float
        Seconds after which no further round starts, once there were `MIN_ROUNDS`.
    clock : callable
        Reads the seconds that are compared.
    """
    calls = {name: 1 if reset else _calls_a_sample(run, clock) for name, run in runs.items()}
    timings = {name: Timing() for name in runs}
    names = list(runs)
    end = time.perf_counter() + budget
    for k in range(MAX_ROUNDS):
        if k >= MIN_ROUNDS and time.perf_counter() > end:
            break
        for name in names[k % len(names) :] + names[: k % len(names)]:
            if reset:
                reset()
            timings[name].samples.append(_sample(runs[name], calls[name], clock))
    return timings


def _sample(run: Callable[[], object], calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        run()
    return (clock() - start) / calls


def _calls_a_sample(run: Callable[[], object], clock: Callable[[], float]) -> int:
    once = min(_sample(run, 1, clock) for _ in range(3))
    return max(1, round(SAMPLE_SECONDS / once))


@dataclass(frozen=True)
class Row:
    """A measured row."""

    name: str
    threads: int
    timings: dict[str, Timing]
    note: str = ""


def measure(case: Case, gcc: Gcc, threads: int, budget: float) -> Row:
    """Time one case on a number of threads; without gcc the row has no C and says so."""
    from tack.runtime.cpu_pool import pool

    runs = {"Tack": case.tack}
    note = ""
    if gcc.version is None:
        note = "no gcc, so no C"
    else:
        for name, build in (("C", "plain"), ("C no errno", "no-errno")):
            library = gcc.load(case.workload, build if threads == 1 else f"{build}-openmp")
            if threads > 1:
                set_openmp_threads(library, threads)
            runs[name] = case.c(library)
    if case.time_numpy:
        runs["NumPy"] = case.numpy
    # One thread is timed by its own clock: what else runs on this machine takes turns, not time.
    clock = time.thread_time if threads == 1 else time.perf_counter
    with pool().set_threads(threads):
        case.tack()
        return Row(case.name, threads, interleaved(runs, case.reset, budget, clock), note)
