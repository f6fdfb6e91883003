"""Where vectorising across iterations gains, and where it could lose: Tack as it chooses, its scalar code, and C.

All three keep every rounding and are compared bit by bit before they are timed. C is the strict build, without
contraction, since that is what the results have in common.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks import harness, lane_kernels
from benchmarks.compilers import Compiler, bind

Argument = np.ndarray | np.float32 | int


@dataclass(frozen=True)
class LaneRow:
    """A measured kernel: seconds of each implementation, and how many lanes were chosen (1: scalar code)."""

    name: str
    timings: dict[str, harness.Timing]
    width: int


def data(quick: bool) -> dict[str, list[Argument]]:
    """Arguments of every kernel by its name, the same for every implementation and in every run."""
    rng, n, edge = np.random.default_rng(7), 1_003 if quick else 1 << 20, 37 if quick else 512
    small = n if quick else 1 << 16

    def uniform(count: int, dtype: type = np.float32) -> np.ndarray:
        return harness.filled(rng.random(count).astype(dtype))

    def ints(low: int, high: int, count: int, dtype: type = np.int32) -> np.ndarray:
        return harness.filled(rng.integers(low, high, count).astype(dtype))

    def zeros(count: int, dtype: type = np.float32) -> np.ndarray:
        return harness.zeros(count, dtype)

    first = np.concatenate([[0], np.cumsum(ints(0, 24, n, np.int64))])
    divisors = ints(-9, 9, n, np.int64) * ints(0, 2**20, n, np.int64)
    grid = (16, 34, 70) if quick else (64, 34, 70)
    cells = grid[0] * grid[1] * grid[2]
    bodies = 4 * edge
    return {
        "saxpy": [small, np.float32(0.5), uniform(small), uniform(small)],
        "mandel": [edge, edge, 256, zeros(edge * edge, np.int32)],
        "nbody": [bodies, np.float32(1e-3), *(uniform(bodies) for _ in range(4)), *(zeros(bodies) for _ in range(3))],
        "nbody_aos": [bodies, np.float32(1e-3), uniform(3 * bodies), zeros(3 * bodies)],
        "jacobi": [edge, edge, uniform(edge * edge), zeros(edge * edge)],
        "stencil3": [*grid, uniform(cells), zeros(cells)],
        "hash32": [small, ints(0, 2**32, small, np.uint32), zeros(small, np.uint32)],
        "matmul": [edge, uniform(edge * edge), uniform(edge * edge), zeros(edge * edge)],
        "interp": [n, uniform(4001), harness.filled(uniform(n) * np.float32(3999)), zeros(n)],
        "branchy": [n, uniform(n), zeros(n)],
        "collatz": [n // 4, zeros(n // 4, np.int32)],
        "floordiv": [n, ints(-(2**31) + 1, 2**31, n), harness.filled(divisors.astype(np.int32)), zeros(n, np.int32)],
        "floordiv64": [n, ints(-(2**62), 2**62, n, np.int64), ints(-9, 9, n, np.int64), zeros(n, np.int64)],
        "poly64": [n, uniform(n, np.float64), zeros(n, np.float64)],
        "ragged": [n, harness.filled(first), uniform(24 * n), zeros(n)],
        "scatter": [n, harness.filled(rng.permutation(n)), uniform(n), zeros(n)],
        "hist": [n, ints(0, 2**32, n, np.uint32), zeros(256, np.int32)],
        "expk": [n, harness.filled(uniform(n) - np.float32(0.5)), zeros(n)],
        "diverge": [n // 4, ints(0, 2**30, n), zeros(n)],
        "rare_mul": [n, ints(0, 2**30, n), zeros(n)],
        "rare_div": [n, ints(0, 2**30, n), zeros(n)],
        "rare_chase": [n, ints(0, 2**30, n), ints(0, 1024, 1024), zeros(n, np.int32)],
        "rare_mod64": [n, ints(0, 2**30, n), ints(10**9, 10**12, 16, np.int64), zeros(n, np.int64)],
        "gcd64": [n // 16, *(ints(1, 2**62, n // 16, np.int64) for _ in range(2)), zeros(n // 16, np.int64)],
    }


def outcome(run: Callable[[], object], arguments: list[Argument]) -> list[bytes]:
    """The bits of every array after a run on what the arrays held before; they are put back."""
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    before = [a.copy() for a in arrays]
    run()
    after = [a.tobytes() for a in arrays]
    for array, values in zip(arrays, before, strict=True):
        array[...] = values
    return after


def agrees(a: list[bytes], b: list[bytes], own_exp: bool) -> bool:
    """Whether two outcomes have the same bits; of f32, to 1e-6 where the C library has an `exp` of its own."""
    if not own_exp:
        return a == b
    return all(np.allclose(*(np.frombuffer(v, np.float32) for v in pair), rtol=1e-6) for pair in zip(a, b, strict=True))


def compiled(kernel: object, arguments: list[Argument], lanes: int | None) -> tuple[Callable[[], object], int]:
    """A launch of a kernel's variant for disjoint arrays on one thread, and the lanes that it has."""
    from tack.codegen.lane_cost import vector_unit
    from tack.codegen.llvm_gen import LLVMCodeGen
    from tack.runtime.backend import VariantOptions
    from tack.runtime.compilation import type_kernel
    from tack.runtime.cpu_backend import CpuBackend
    from tack.runtime.dispatch import prepare
    from tack.runtime.llvm_jit import compiler

    values = [float(a) if isinstance(a, np.floating) else a for a in arguments]
    lowering, call = prepare(kernel).bind(tuple(values), {})
    tree, options = type_kernel(lowering.ir, call.values), VariantOptions(disjoint=True, lanes=lanes)
    generator = LLVMCodeGen(tree, options, vector_unit(compiler().cpu, compiler().features))
    generator.source()
    executable = CpuBackend().compile(tree, options)
    words = [*call.words, 0]
    block = (ctypes.c_int64 * len(words))(*words)
    kept = executable, block, call

    def run() -> int:
        return kept[0].launch(ctypes.addressof(kept[1]))

    return run, generator.plans[0].width if generator.plans else 1


def measure(gcc: Compiler, quick: bool) -> list[LaneRow]:
    """Every kernel, checked and then timed in turns, by the processor time of one thread."""
    from tack.runtime.cpu_pool import pool

    rows = []
    everything = data(quick)
    with pool().set_threads(1):
        for kernel in lane_kernels.KERNELS:
            name, arguments = kernel.__name__, everything[kernel.__name__]
            chosen, width = compiled(kernel, arguments, None)
            runs = {"Tack": chosen, "scalar": compiled(kernel, arguments, 1)[0]}
            if gcc.version is not None:
                runs["C"] = bind(gcc.load("lanes", "strict"), name, *arguments)
            results = {who: outcome(run, arguments) for who, run in runs.items()}
            wrong = [who for who in runs if not agrees(results[who], results["Tack"], who == "C" and name == "expk")]
            if wrong:
                raise harness.CheckFailed(f"{name}: Tack differs from {', '.join(wrong)}")
            samplers = {who: harness.Local(run, clock=time.thread_time) for who, run in runs.items()}
            rows.append(LaneRow(name, harness.interleaved(samplers, 0.0 if quick else 0.4), width))
    return rows


def report(gcc: Compiler, quick: bool) -> None:
    """Print the table: least times, and ratios of them."""
    print("\n| lanes: kernel | Tack, ms | Tack / C | scalar / C | lanes |\n|---|---|---|---|---|")
    for row in measure(gcc, quick):
        cells = [row.name, f"{row.timings['Tack'].least * 1e3:.3f}"]
        for who in ("Tack", "scalar"):
            has_c = "C" in row.timings
            cells.append(f"{row.timings[who].least / row.timings['C'].least:.2f}" if has_c else "no gcc")
        print(f"| {' | '.join(cells)} | {row.width} |", flush=True)
