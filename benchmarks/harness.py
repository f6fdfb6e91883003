"""What a workload is, checking its implementations against each other, and timing them in interleaved rounds."""

from __future__ import annotations

import ctypes
import itertools
import statistics
import time
import timeit
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from benchmarks.compilers import Compiler, set_openmp_threads

HUGE_PAGE = 2 << 20
LINES_APART = 65 * 64  # bytes
MIN_ROUNDS, MAX_ROUNDS = 3, 30
SAMPLE_SECONDS, MAX_CALLS = 2e-3, 100_000  # calls that are shorter are repeated within one sample
REST = 0.01
COMPARED = 1 << 16  # elements at a time
SLOW = 2.0  # seconds: a longer run may be timed but once

_arrays_made = itertools.count()


@dataclass(frozen=True)
class Case:
    """One row: the same work by Tack, C, NumPy and peers.

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
    arguments : tuple of ndarrays and numbers
        What a peer's adapter takes, the outputs among them.
    adapter : str
        The name of the peers' adapters; that of the workload if empty.
    reset : callable, optional
        Puts the arrays back to their start before each run, outside the time; None where a run repeats as it is.
    tolerance, numpy_tolerance, peer_tolerance : float
        Largest difference from C without contraction, from NumPy and from a peer, relative to the largest magnitude of
        an output; zero means the same bits.
    peer_mismatches : float
        The part of the elements that a peer may have wrong: one that fuses ``a * b + c`` counts a few points of the
        Mandelbrot set otherwise.
    time_numpy : bool
        False where the NumPy version is there for checking only.
    no_errno : bool
        Whether the builds without errno and traps may differ from the plain ones.
    """

    name: str
    workload: str
    outputs: tuple[np.ndarray, ...]
    tack: Callable[[], object]
    c: Callable[[ctypes.CDLL], Callable[[], object]]
    numpy: Callable[[], object]
    arguments: tuple[np.ndarray | float | int, ...]
    adapter: str = ""
    reset: Callable[[], object] | None = None
    tolerance: float = 0.0
    numpy_tolerance: float = 0.0
    peer_tolerance: float = 0.0
    peer_mismatches: float = 0.0
    time_numpy: bool = True
    no_errno: bool = False


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


def check(case: Case, strict: ctypes.CDLL | None, with_numpy: bool = True) -> list[np.ndarray]:
    """Tack's outputs; raise `CheckFailed` unless C without contraction (if there is a library) and NumPy agree."""
    ours = _outcome(case, case.tack)
    if strict is not None:
        compare(case, "C", ours, _outcome(case, case.c(strict)), case.tolerance)
    if with_numpy:
        compare(case, "NumPy", ours, _outcome(case, case.numpy), case.numpy_tolerance)
    return ours


def _outcome(case: Case, run: Callable[[], object]) -> list[np.ndarray]:
    for array in case.outputs:  # what an implementation fails to write must not look right
        array.fill(77)
    if case.reset:
        case.reset()
    run()
    return [array.copy() for array in case.outputs]


def compare(
    case: Case,
    who: str,
    ours: Iterable[np.ndarray],
    theirs: Iterable[np.ndarray],
    tolerance: float,
    mismatches: float = 0.0,
) -> None:
    """Raise `CheckFailed` unless two sets of outputs agree; `Case` says what the last two mean."""
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        limit = tolerance * float(max(b.max(), -b.min())) if tolerance else 0.0
        if _count_wrong(a.reshape(-1), b.reshape(-1), limit) > mismatches * a.size:
            worst = np.abs(a.astype(np.float64) - b.astype(np.float64)).max()
            raise CheckFailed(f"{case.name}: output {k} of Tack differs from {who} by up to {worst:.6g}")


def _count_wrong(a: np.ndarray, b: np.ndarray, limit: float) -> int:
    """The elements that differ by more than a limit, or at all if it is zero; block by block, within the caches."""
    wrong = 0
    bits = f"u{a.itemsize}"
    for start in range(0, a.size, COMPARED):
        x, y = a[start : start + COMPARED], b[start : start + COMPARED]
        differ = x.view(bits) != y.view(bits)
        if differ.any():
            wrong += np.count_nonzero(~(np.abs(x - y) <= limit) if limit else differ)
    return wrong


# ---- Timing ----------------------------------------------------------------------------------------------------------


class Sampler(Protocol):
    """Something that can be timed: in this process, or in a peer's."""

    calls: int  # a sample
    once: float  # seconds of the run that said how many

    def sample(self) -> float:
        """Seconds of one run, the mean over the calls of a sample."""


class Local:
    """A function of this process.

    Parameters
    ----------
    function, arguments
        What is called; directly, since a wrapper would cost as much as a small call.
    reset : callable, optional
        Run before each sample, outside the time; there is one call in a sample then.
    clock : callable
        Reads the seconds that are compared.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *arguments: object,
        reset: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        names = {f"a{k}": value for k, value in enumerate(arguments)}
        setup = {"f": function, **names}
        self._timer = timeit.Timer(f"f({', '.join(names)})", timer=clock, globals=setup)
        self._reset = reset
        self.calls = 1
        self.once = self.sample()
        if not reset and self.once < SLOW:
            self._calibrate()

    def _calibrate(self) -> None:
        """Find how many calls make a sample; the least of three, for the first call may be a slow one."""
        self.once = min(self.once, *(self.sample() for _ in range(2)))
        while self.once * self.calls < SAMPLE_SECONDS and self.calls < MAX_CALLS:
            self.calls = min(MAX_CALLS, max(2 * self.calls, round(SAMPLE_SECONDS / max(self.once, 1e-9))))
            self.once = min(self.sample() for _ in range(2))

    def sample(self) -> float:
        if self._reset:
            self._reset()
        elif self.calls > 1:
            self._timer.timeit(1 + self.calls // 10)  # threads that fell asleep wake up, some after a few calls
        return self._timer.timeit(self.calls) / self.calls


def interleaved(runs: Mapping[str, Sampler], patience: float, rest: float = 0.0) -> dict[str, Timing]:
    """Time the runs in rounds, each round all of them in turn, the first one changing from round to round.

    Parameters
    ----------
    runs : dict
        The implementations by name.
    patience : float
        Seconds of an implementation after which it takes part in no further round, once it had `MIN_ROUNDS`. One that
        takes longer for a single run takes part in none: the run before, which said so, is its sample.
    rest : float
        Seconds before each sample, lest another implementation's threads still look for work.
    """
    timings = {name: Timing([run.once] if run.once > max(patience, SLOW) else []) for name, run in runs.items()}
    names = list(runs)
    for k in range(MAX_ROUNDS):
        going = [name for name in names if _goes_on(timings[name].samples, runs[name].calls, patience)]
        if not going:
            break
        first = k % len(going)
        for name in going[first:] + going[:first]:
            time.sleep(rest)
            timings[name].samples.append(runs[name].sample())
    return timings


def _goes_on(samples: list[float], calls: int, patience: float) -> bool:
    if not samples:
        return True
    return sum(samples) * calls < patience or (len(samples) < MIN_ROUNDS and max(samples) < patience)


@dataclass(frozen=True)
class Row:
    """A measured row: the timings by implementation, and for those that have none, why."""

    name: str
    threads: int
    timings: dict[str, Timing]
    notes: dict[str, str] = field(default_factory=dict)

    def median(self, *names: str) -> float | None:
        """The least of the medians of some implementations; None if there is none."""
        return min((self.timings[name].median for name in names if name in self.timings), default=None)


def measure(
    case: Case,
    compilers: Mapping[str, Compiler],
    threads: int,
    patience: float,
    peers: Mapping[str, Sampler] | None = None,
) -> Row:
    """Time one case on a number of threads, beside C of each compiler that is there and the peers given."""
    from tack.runtime.cpu_pool import pool

    # One thread is timed by its own clock: what else runs on this machine takes turns, not time.
    clock = time.thread_time if threads == 1 else time.perf_counter
    runs: dict[str, Callable[[], object]] = {"Tack": case.tack}
    notes = {}
    for name, compiler in compilers.items():
        if compiler.version is None or (threads > 1 and not compiler.has_openmp()):
            notes[name] = f"no {name}" if compiler.version is None else f"no OpenMP for {name}"
            continue
        for build in ("plain", "no-errno") if case.no_errno else ("plain",):
            library = compiler.load(case.workload, build if threads == 1 else f"{build}-openmp")
            if threads > 1:
                set_openmp_threads(library, threads)
            runs[name if build == "plain" else f"{name}, no errno"] = case.c(library)
    if case.time_numpy:
        runs["NumPy"] = case.numpy
    with pool().set_threads(threads):
        samplers = {name: Local(run, reset=case.reset, clock=clock) for name, run in runs.items()}
        timings = interleaved({**samplers, **(peers or {})}, patience, REST if threads > 1 else 0.0)
    return Row(case.name, threads, timings, notes)
