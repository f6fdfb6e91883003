"""Timing and tables of the GPU benchmarks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 15
CALLS = 20


def timed(runs: dict[str, Callable[[], Any]], wait: Callable[[], None], calls: int = CALLS) -> dict[str, float]:
    """The median seconds of a call of each, from interleaved rounds of several calls."""
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            run()
            wait()
            start = time.perf_counter()
            for _ in range(calls):
                run()
            wait()
            samples[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(s) for name, s in samples.items()}


def show(title: str, times: dict[str, float], ours: str = "Tack", nbytes: int = 0) -> None:
    """One row a contestant: microseconds, GB/s where bytes count, and our time as a ratio to it."""
    print(f"\n| {title} | µs | GB/s | {ours}'s time / its |\n|---|--:|--:|--:|")
    for name, seconds in times.items():
        rate = f"{nbytes / seconds / 1e9:.1f}" if nbytes else ""
        print(f"| {name} | {seconds * 1e6:.2f} | {rate} | {times[ours] / seconds:.2f} |")
