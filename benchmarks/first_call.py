"""What the start costs: imports, a first call in a fresh process, and the compiling of a second kernel after it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import harness

ROOT = Path(__file__).parent.parent

# Each prints the processor time of its last step, and the time by the clock on the wall; a fresh process each time.
BEGIN = "import time; start = time.process_time(), time.perf_counter()"
END = "print(time.process_time() - start[0], time.perf_counter() - start[1])"
TIMED = f"{BEGIN}; {{step}}; {END}"
READY = f"""
import numpy as np
from benchmarks.saxpy import saxpy
from benchmarks.triad import triad
a, b, c = (np.ones(8, np.float32) for _ in range(3))
{{before}}
{BEGIN}
{{step}}
{END}
"""
WHOLE = f"""
{BEGIN}
import numpy as np
import tack
@tack.kernel
def saxpy(x, y, out, a):
    for i in range(out.shape[0]):
        out[i] = a * x[i] + y[i]
x, y, out = (np.ones(8, np.float32) for _ in range(3))
saxpy(x, y, out, 3.0)
{END}
"""
PROGRAMS = {
    "import numpy": TIMED.format(step="import numpy"),
    "import tack (NumPy included)": TIMED.format(step="import tack"),
    "import llvmlite.binding": TIMED.format(step="import llvmlite.binding"),
    "cold first call, after the import": READY.format(before="", step="saxpy(a, b, c, 3.0)"),
    "cold first call, after the import of llvmlite too": READY.format(
        before="import llvmlite.binding", step="saxpy(a, b, c, 3.0)"
    ),
    "a second kernel's first call": READY.format(before="saxpy(a, b, c, 3.0)", step="triad(a, b, c, 3.0)"),
}
CACHED = {
    "first call from the disk cache, after the import": READY.format(before="", step="saxpy(a, b, c, 3.0)"),
    "a second kernel from the disk cache": READY.format(before="saxpy(a, b, c, 3.0)", step="triad(a, b, c, 3.0)"),
    "all of it: imports, decoration, first call from the disk cache": WHOLE,
}


def run(program: str, bytecode: str, cache: str | None) -> tuple[float, float]:
    """Run one program in a fresh interpreter; the seconds that it prints, of the processor and on the wall.

    `bytecode` is where the interpreter keeps what it compiles of imported modules, `cache` the folder of the disk
    cache, which is off if None.
    """
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        **({"TACK_CACHE": "0"} if cache is None else {"TACK_CACHE": "1", "TACK_CACHE_DIR": cache}),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "PYTHONPYCACHEPREFIX": bytecode,
    }
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    processor, wall = map(float, answer.stdout.split())
    return processor, wall


def measure(rounds: int) -> dict[str, tuple[harness.Timing, harness.Timing]]:
    """Run every program once a round, after a round that is not counted: that one leaves bytecode behind."""
    timings = {name: (harness.Timing(), harness.Timing()) for name in PROGRAMS | CACHED}
    with tempfile.TemporaryDirectory(prefix="tack-benchmark-") as folder:
        bytecode, cache = os.path.join(folder, "bytecode"), os.path.join(folder, "cache")
        programs = [(n, p, None) for n, p in PROGRAMS.items()] + [(n, p, cache) for n, p in CACHED.items()]
        for _, program, place in programs:
            run(program, bytecode, place)
        for _ in range(rounds):
            for name, program, place in programs:
                for timing, seconds in zip(timings[name], run(program, bytecode, place), strict=True):
                    timing.samples.append(seconds)
    return timings


def report(quick: bool) -> None:
    print("\n## The first call, each in fresh processes\n")
    print("| step | processor, median ms | least ms | wall, median ms | least ms |\n|---|--:|--:|--:|--:|")
    for name, timings in measure(1 if quick else 7).items():
        figures = [f"{seconds * 1e3:.0f}" for timing in timings for seconds in (timing.median, timing.least)]
        print(f"| {name} | {' | '.join(figures)} |")
