"""Fan-out and join: Tack's thread pool beside gcc's libgomp, in one process, on the same loop bodies.

Run it with ``python -m benchmarks.thread_pool``. Both run with two threads, and take turns at each row, so that load on
the machine falls on both. A figure is the lower quartile of many samples. Without gcc, or where it has no OpenMP, the
table has one column.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

from tack.runtime.cpu_pool import compile_pool, host_target, load_pool, pool

THREADS = 2
ELEMENTS = 98_304  # saxpy: 768 KiB in all, which fits the second-level caches
CHUNKS = 16
REST = 0.02  # before a turn, lest the other pool's threads still spin on the second CPU

BODIES = f"""
declare void @tack_parallel_for(ptr, ptr, i64, i64, i64, i64)
declare i32 @sched_yield()

define void @empty(ptr %ctx, i64 %b, i64 %e, i64 %lane) {{
  ret void
}}

; Ends when both chunks of a pair have begun, so two threads must come; or after many turns, if one never does.
define void @meet(ptr %ctx, i64 %b, i64 %e, i64 %lane) {{
  %before = atomicrmw add ptr %ctx, i64 1 seq_cst
  %first = or i64 %before, 1
  br label %look
look:
  %turn = phi i64 [0, %0], [%turn1, %look]
  %now = load atomic i64, ptr %ctx acquire, align 8
  %alone = icmp sle i64 %now, %first
  %turn1 = add i64 %turn, 1
  %patient = icmp ult i64 %turn1, 100000000
  %again = and i1 %alone, %patient
  br i1 %again, label %look, label %done
done:
  ret void
}}

; y += x / 8, eight floats at a time
define void @saxpy(ptr %ctx, i64 %b, i64 %e, i64 %lane) {{
  %ys = getelementptr float, ptr %ctx, i64 {ELEMENTS}
  br label %loop
loop:
  %i = phi i64 [%b, %0], [%j, %loop]
  %xp = getelementptr float, ptr %ctx, i64 %i
  %x = load <8 x float>, ptr %xp, align 4
  %yp = getelementptr float, ptr %ys, i64 %i
  %y = load <8 x float>, ptr %yp, align 4
  %ax = fmul <8 x float> %x, splat (float 1.25e-1)
  %sum = fadd <8 x float> %y, %ax
  store <8 x float> %sum, ptr %yp, align 4
  %j = add i64 %i, 8
  %more = icmp slt i64 %j, %e
  br i1 %more, label %loop, label %done
done:
  ret void
}}

; %times loops in a row, so that no call from Python is measured
define void @repeat(ptr %body, ptr %ctx, i64 %n, i64 %grain, i64 %limit, i64 %times) {{
  br label %loop
loop:
  %i = phi i64 [0, %0], [%j, %loop]
  call void @tack_parallel_for(ptr %body, ptr %ctx, i64 %n, i64 %grain, i64 %limit, i64 1)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""

# A static OpenMP region: each thread gets one piece, whatever the grain.
LIBGOMP = """
#include <omp.h>
#include <stdint.h>
typedef void body_t(void *, int64_t, int64_t, int64_t);
void repeat(body_t *body, void *ctx, int64_t n, int64_t grain, int64_t limit, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        #pragma omp parallel num_threads(limit)
        {
            int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
            body(ctx, n * me / all, n * (me + 1) / all, me);
        }
    }
}
"""

Repeat = Callable[[int, int, int, int, int, int], None]
REPEAT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)


@dataclass(frozen=True)
class Row:
    """One line of the table: `samples` times, after `idle` seconds, `times` loops in a row."""

    label: str
    body: str
    n: int
    grain: int
    times: int
    idle: float = 0.0
    samples: int = 40
    limit: int = THREADS


ROWS = (
    Row("empty loop, one thread", "empty", 2, 1, 2000, limit=1),
    Row("empty loop, two chunks", "empty", 2, 1, 2000),
    Row("two threads must meet", "meet", 2, 1, 500),
    Row("saxpy 96 Ki, one thread", "saxpy", ELEMENTS, ELEMENTS // CHUNKS, 50, limit=1),
    Row("saxpy 96 Ki", "saxpy", ELEMENTS, ELEMENTS // CHUNKS, 50),
    Row("after 10 ms: must meet", "meet", 2, 1, 1, idle=0.01, samples=30),
    Row("after 10 ms: saxpy 96 Ki", "saxpy", ELEMENTS, ELEMENTS // CHUNKS, 1, idle=0.01, samples=30),
    Row("after 100 ms: must meet", "meet", 2, 1, 1, idle=0.1, samples=15),
    Row("after 100 ms: saxpy 96 Ki", "saxpy", ELEMENTS, ELEMENTS // CHUNKS, 1, idle=0.1, samples=15),
)


def link_bodies() -> tuple[dict[str, int], Repeat, list[object]]:
    """Compile the bodies; their addresses, the repeater of Tack's pool, and what keeps them alive."""
    llvm.initialize_native_target()  # Tack's own code may all have come from the disk
    llvm.initialize_native_asmprinter()
    jit = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_ir(BODIES).add_current_process()
    builder.import_symbol("tack_parallel_for", pool().address)
    names = ("empty", "meet", "saxpy", "repeat")
    for name in names:
        builder.export_symbol(name)
    library = builder.link(jit, "bodies")
    addresses = {name: library[name] for name in names}
    return addresses, REPEAT(addresses["repeat"]), [jit, library]


def libgomp_repeat(folder: Path) -> Repeat | None:
    """Compile the same for libgomp; None if this machine cannot."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    source, library = folder / "gomp.c", folder / "gomp.so"
    source.write_text(LIBGOMP)
    command = [gcc, "-O3", "-fopenmp", "-shared", "-fPIC", "-o", str(library), str(source)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        return None
    return REPEAT(("repeat", ctypes.CDLL(str(library))))


def measure(row: Row, repeats: list[Repeat], body: int, context: int) -> list[float]:
    """Lower quartile of microseconds a loop, for each of the repeaters."""
    samples: list[list[float]] = [[] for _ in repeats]
    for _ in range(row.samples):
        for repeat, results in zip(repeats, samples, strict=True):
            time.sleep(row.idle or REST)
            if not row.idle:
                repeat(body, context, row.n, row.grain, row.limit, row.times)
            start = time.perf_counter()
            repeat(body, context, row.n, row.grain, row.limit, row.times)
            results.append((time.perf_counter() - start) / row.times * 1e6)
    return [sorted(results)[row.samples // 4] for results in samples]


def spin_cost(repeat: Repeat, body: int, context: int) -> float:
    """CPU milliseconds that a process spends in the 200 ms after one loop."""
    costs = []
    for _ in range(5):
        time.sleep(0.05)
        repeat(body, context, 2, 1, THREADS, 1)
        start = time.process_time()
        time.sleep(0.2)
        costs.append((time.process_time() - start) * 1e3)
    return min(costs)


def making_cost() -> tuple[float, float]:
    """Least milliseconds of compiling the pool, and of loading what that gave."""
    emitting, loading = [], []
    for _ in range(5):
        start = time.perf_counter()
        code = compile_pool(host_target())
        middle = time.perf_counter()
        load_pool(code)
        emitting.append(middle - start)
        loading.append(time.perf_counter() - middle)
    return min(emitting) * 1e3, min(loading) * 1e3


def main() -> None:
    """Print the table."""
    pool().set_threads(THREADS)
    addresses, tack_repeat, alive = link_bodies()
    data = (ctypes.c_float * (2 * ELEMENTS))()
    context = ctypes.addressof(data)
    with tempfile.TemporaryDirectory() as folder:
        gomp = libgomp_repeat(Path(folder))
        repeats = [tack_repeat] if gomp is None else [tack_repeat, gomp]
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg()) if hasattr(os, "getloadavg") else "unknown"
        print(f"{THREADS} threads on {os.cpu_count()} CPUs; load {load}; microseconds a loop, lower quartile")
        print(
            f"{'':26}{'Tack':>10}" + (f"{'libgomp':>10}{'libgomp / Tack':>16}" if gomp else "   (no gcc with OpenMP)")
        )
        for row in ROWS:
            figures = measure(row, repeats, addresses[row.body], context)
            ratio = f"{figures[1] / figures[0]:16.2f}" if gomp else ""
            print(f"{row.label:26}" + "".join(f"{figure:10.3f}" for figure in figures) + ratio)
        costs = [spin_cost(repeat, addresses["empty"], context) for repeat in repeats]
        ratio = f"{costs[1] / costs[0]:16.2f}" if gomp else ""
        print(f"{'CPU ms spent idle after it':26}" + "".join(f"{cost:10.3f}" for cost in costs) + ratio)
    emitting, loading = making_cost()
    print(f"compiling the pool {emitting:.1f} ms, loading its object {loading:.1f} ms")
    del alive


if __name__ == "__main__":
    main()
