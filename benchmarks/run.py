"""Run the benchmarks: Tack beside C, NumPy and the peers that are installed, as tables in Markdown and a plot.

Every implementation's results are compared before anything is timed; then all of a row take turns.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks import call_cost, harness
from benchmarks.compilers import BUILDS, CLANGS, Compiler
from benchmarks.peers import PEERS, Peers

WORKLOADS = (
    "saxpy",
    "triad",
    "mandelbrot",
    "nbody",
    "jacobi",
    "stencil3d",
    "integer_hash",
    "histogram",
    "array_sum",
    "black_scholes",
    "matmul",
    "exclusive_scan",
    "radix_sort",
)
DEFAULT_OTHERS = ("call_cost", "first_call")
OTHERS = (*DEFAULT_OTHERS, "lanes")
C = ("gcc", "clang")
NO_ERRNO = tuple(f"{name}, no errno" for name in C)
COLUMNS = (
    "workload",
    "Tack",
    *C,
    "C no errno",
    *PEERS,
    "NumPy",
    "Tack / C",
    "Tack / no errno",
    "Tack / best peer",
    "load",
)

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PLOT = DOCS / "performance.md", DOCS / "performance.svg"
BEGIN, END = "<!-- benchmarks.run: begin -->", "<!-- benchmarks.run: end -->"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(WORKLOADS + OTHERS)}; default all but lanes"
    )
    parser.add_argument("--threads", choices=("1", "all"), default="all", help="threads of Tack and C; 1 without peers")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run at all?")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each implementation of a row")
    parser.add_argument(
        "--peers",
        action="append",
        default=[],
        metavar="PYTHON",
        help=f"an interpreter that has some of {', '.join(PEERS)}; may be repeated; default this one",
    )
    parser.add_argument("--plot", type=Path, help="write the plot to this SVG file")
    parser.add_argument(
        "--publish", action="store_true", help=f"write the tables into docs/{PAGE.name}, beside its plot"
    )
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


def header(compilers: Mapping[str, Compiler], peers: Peers, cpus: int) -> Iterator[str]:
    """What was measured, on what, by what."""
    import llvmlite

    now = datetime.datetime.now(datetime.UTC)
    machine = f"{processor()}, {cpus} threads, {platform.system()}, load {load()} at the start"
    yield f"- {now:%Y-%m-%d %H:%M} UTC, `python -m benchmarks.run`, {machine}."
    versions = [f"Python {platform.python_version()}", f"NumPy {np.__version__}", f"llvmlite {llvmlite.__version__}"]
    versions += [compiler.version or f"no {name}" for name, compiler in compilers.items()]
    versions += [f"{name} {version}" for name, version in peers.versions.items()]
    yield f"- {', '.join(versions)}."


def caption(threads: int) -> Iterator[str]:
    """How to read the table of throughput."""
    build = "plain" if threads == 1 else "plain-openmp"
    yield f"C is `{' '.join(BUILDS[build])}`, without fast-math; no errno adds `{' '.join(BUILDS['no-errno'][3:])}`."
    yield "*Tack / C* is beside the better of gcc and clang."
    yield "Tack's sort and C's make the second array that they need in each call."
    if threads == 1:
        yield "One thread, its processor time; peers take no part."
    else:
        yield "All threads, wall clock. Each peer runs in a process of its own, on arrays of its own, in turn with the"
        yield "rest: Taichi and Quadrants without fast-math, on NumPy arrays; Warp on one thread, as its CPU does;"
        yield "JAX on whole arrays."
        yield "The matmul of JAX would be a library's, so it has none."
    yield "Medians of interleaved rounds. All results were compared first: integers bit by bit, and floats of C without"
    yield "contraction too (but for `exp`, `log` and sums in another order); floats of peers to 1e-4 or better (sums"
    yield "1e-3), and 2 % of Mandelbrot's points may count otherwise, for some fuse `a * b + c`."


def scaled(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def line(row: harness.Row, peers: tuple[str, ...] = tuple(PEERS)) -> str:
    """A row of the table."""

    def cell(*names: str) -> str:
        value = row.median(*names)
        return next((row.notes[n] for n in names if n in row.notes), "–") if value is None else scaled(value)

    cells = [row.name, f"**{cell('Tack')}**", *map(cell, C), cell(*NO_ERRNO), *map(cell, peers), cell("NumPy")]
    cells += [ratio(row, C), ratio(row, NO_ERRNO), ratio(row, peers), load()]
    return f"| {' | '.join(cells)} |"


def ratio(row: harness.Row, theirs: tuple[str, ...]) -> str:
    value = row.median(*theirs)
    if value is None:
        return "–"
    quotient = row.timings["Tack"].median / value
    return f"{quotient:.2f}" if quotient >= 0.1 else f"{quotient:.2g}"


def throughput(
    names: list[str],
    compilers: Mapping[str, Compiler],
    peers: Peers,
    threads: int,
    given: argparse.Namespace,
    rows: list[harness.Row],
) -> Iterator[str]:
    """The table's lines, each as soon as it is measured; the rows are added to `rows`."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|---{'|--:' * (len(COLUMNS) - 1)}|"
    strict = next((compiler for compiler in compilers.values() if compiler.version), None)
    for name in names:
        for case in importlib.import_module(f"benchmarks.{name}").cases(given.quick):
            ours = harness.check(case, strict and strict.load(case.workload, "strict"), with_numpy=case.time_numpy)
            ready, notes = peers.prepare(case, ours) if threads > 1 else ({}, {})
            row = harness.measure(case, compilers, threads, 0.02 if given.quick else given.seconds, ready)
            peers.forget(ready)
            row.notes.update(notes)
            rows.append(row)
            yield line(row)


def published(text: list[str]) -> None:
    """Put the lines between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{PAGE} lacks the marks {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(text) + f"\n{END}{after}", encoding="utf-8")


def main() -> None:
    given = arguments()
    names = given.names or [*WORKLOADS, *DEFAULT_OTHERS]
    from tack.runtime.cpu_pool import cpu_count

    threads = 1 if given.threads == "1" else cpu_count()
    text: list[str] = []

    def say(lines: Iterator[str]) -> None:
        for written in lines:
            text.append(written)
            print(written, flush=True)

    workloads = [name for name in names if name in WORKLOADS]
    with Compiler("gcc") as gcc, Compiler(*CLANGS) as clang, Peers(given.peers, PEERS if threads > 1 else ()) as peers:
        compilers = {"gcc": gcc, "clang": clang}
        say(header(compilers, peers, cpu_count()))
        rows: list[harness.Row] = []
        if workloads:
            say(iter(["- " + " ".join(caption(threads)), ""]))
            say(throughput(workloads, compilers, peers, threads, given, rows))
        if "call_cost" in names:
            say(call_cost.report(gcc, peers, given.quick))
        plot = given.plot or (PLOT if given.publish else None)
        if plot and rows:
            importlib.import_module("benchmarks.plot").draw(rows, plot)
            text += ["", f"![Time of each implementation, beside that of C]({plot.name})"]
        if given.publish:
            published(["", *text, ""])
        if "lanes" in names:
            importlib.import_module("benchmarks.lanes").report(gcc, given.quick)
        if "first_call" in names:
            importlib.import_module("benchmarks.first_call").report(given.quick)


if __name__ == "__main__":
    sys.exit(main())
