"""Run the benchmarks: ``python -m benchmarks [names] [--threads 1|all] [--quick]``; tables in Markdown on stdout."""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import harness
from benchmarks.compilers import BUILDS, Gcc

WORKLOADS = (
    "saxpy",
    "triad",
    "mandelbrot",
    "nbody",
    "jacobi",
    "integer_hash",
    "histogram",
    "stencil3d",
    "black_scholes",
    "tiled_matmul",
)
OTHERS = ("lanes", "call_cost", "first_call")
BAR_OF_C, LONGEST = 30, 60  # characters


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(WORKLOADS + OTHERS)}; default all")
    parser.add_argument("--threads", choices=("1", "all"), help="threads of Tack and C; default first 1, then all")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run at all?")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each row, after at least five rounds")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(WORKLOADS + OTHERS))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(WORKLOADS + OTHERS)}")
    return given


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def load() -> str:
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?"


def header(gcc: Gcc, cpus: int) -> None:
    print(f"{datetime.date.today()}, {processor()}, {cpus} threads, {platform.system()}, load {load()} at the start")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}; {gcc.version or 'no gcc: rows without C'}")
    print(f"C: {' '.join(BUILDS['plain'])}; no errno: {' '.join(BUILDS['no-errno'])}; all threads: and -fopenmp")
    print("One thread: processor time of the thread; all threads: time by the clock on the wall")
    print(f"C that results are checked against, before any timing: {' '.join(BUILDS['strict'])}")


def scaled(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def line(row: harness.Row) -> str:
    timings = row.timings
    cells = [row.name, str(row.threads)]
    cells += [scaled(timings[name].median) if name in timings else "" for name in ("Tack", "C", "C no errno", "NumPy")]
    for name in ("C", "C no errno"):
        cells.append(ratio(timings["Tack"], timings[name]) if name in timings else row.note)
    cells += [str(len(timings["Tack"].samples)), load()]
    return f"| {' | '.join(cells)} |"


def ratio(ours: harness.Timing, theirs: harness.Timing) -> str:
    return f"{ours.median / theirs.median:.2f} ({ours.least / theirs.least:.2f})"


def throughput(names: list[str], gcc: Gcc, thread_counts: list[int], quick: bool, seconds: float) -> Iterator[str]:
    """The table's lines, each as soon as it is measured, then the plot."""
    yield "\n## Throughput: medians of interleaved rounds; in brackets the ratio of the least times\n"
    columns = (
        "workload",
        "threads",
        "Tack",
        "C",
        "C no errno",
        "NumPy",
        "Tack / C",
        "Tack / C no errno",
        "rounds",
        "load",
    )
    yield f"| {' | '.join(columns)} |"
    yield f"|---{'|--:' * (len(columns) - 1)}|"
    rows = []
    for name in names:
        for case in importlib.import_module(f"benchmarks.{name}").cases(quick):
            strict = gcc.load(case.workload, "strict") if gcc.version else None
            harness.check(case, strict, with_numpy=case.time_numpy)
            for threads in thread_counts:
                rows.append(harness.measure(case, gcc, threads, seconds))
                yield line(rows[-1])
    yield from plot([row for row in rows if "C" in row.timings])


def plot(rows: list[harness.Row]) -> Iterator[str]:
    """Bars of Tack's time relative to plain C, in text; longer than C is drawn up to `LONGEST`."""
    if not rows:
        return
    yield f"\n```\n{'Tack / C, medians':>44}  {'1.0':>{BAR_OF_C + 1}}"
    for row in rows:
        times_c = row.timings["Tack"].median / row.timings["C"].median
        bar = "#" * max(1, min(LONGEST, round(times_c * BAR_OF_C)))
        mark = bar if len(bar) > BAR_OF_C else f"{bar:<{BAR_OF_C}}|"
        yield f"{row.name:>40} x{row.threads:<2}  {mark} {times_c:.2f}"
    yield "```"


def main() -> None:
    given = arguments()
    names = given.names or list(WORKLOADS + OTHERS)
    from tack.runtime.cpu_pool import cpu_count

    cpus = cpu_count()
    thread_counts = {"1": [1], "all": [cpus], None: sorted({1, cpus})}[given.threads]
    with Gcc() as gcc:
        header(gcc, cpus)
        workloads = [name for name in names if name in WORKLOADS]
        if workloads:
            for text in throughput(workloads, gcc, thread_counts, given.quick, 0.1 if given.quick else given.seconds):
                print(text, flush=True)
        if "lanes" in names:
            importlib.import_module("benchmarks.lanes").report(gcc, given.quick)
        if "call_cost" in names:
            importlib.import_module("benchmarks.call_cost").report(gcc, given.quick)
        if "first_call" in names:
            importlib.import_module("benchmarks.first_call").report(given.quick)


if __name__ == "__main__":
    main()
