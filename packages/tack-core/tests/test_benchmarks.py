"""Every benchmark at a small size: Tack, C and NumPy agree, and the tables come out. No time is asserted.

The oracles are NumPy and the C sources, compiled without contraction: the CPU device fuses nothing (FLT-3 allows it
to), so the bits are the same wherever only + - * / and sqrt are used. The histogram pins ATOM-2.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
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


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[ModuleType]:
    """The package, which lies beside `packages` and is not installed."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(ROOT))
    yield importlib.import_module("benchmarks")
    patch.undo()


@pytest.fixture(scope="module")
def harness(benchmarks):
    return importlib.import_module("benchmarks.harness")


@pytest.fixture(scope="module")
def gcc(benchmarks):
    with importlib.import_module("benchmarks.compilers").Gcc() as compiler:
        yield compiler


def cases_of(workload: str) -> Iterator:
    return importlib.import_module(f"benchmarks.{workload}").cases(quick=True)


def test_all_workloads_are_here(benchmarks):
    main = importlib.import_module("benchmarks.__main__")
    assert main.WORKLOADS == WORKLOADS
    for name in WORKLOADS:
        assert (ROOT / "benchmarks" / f"{name}.py").is_file()
        assert (ROOT / "benchmarks" / "c" / f"{name}.c").is_file()


@pytest.mark.parametrize("workload", WORKLOADS)
def test_tack_agrees_with_numpy(harness, workload):
    for case in cases_of(workload):
        harness.check(case, None)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_tack_agrees_with_c(harness, gcc, workload):
    if gcc.version is None:
        pytest.skip("gcc is not installed")
    for case in cases_of(workload):
        harness.check(case, gcc.load(workload, "strict"), with_numpy=False)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_wrong_element_is_seen(harness, workload):
    """The negative control: one bit of one element, and a run that writes nothing."""
    case = next(cases_of(workload))

    def wrong() -> None:
        case.numpy()
        output = case.outputs[0].reshape(-1)
        output[output.size // 2] += output.dtype.type(1)

    with pytest.raises(harness.CheckFailed, match="output 0 of Tack differs from NumPy"):
        harness.check(dataclasses.replace(case, tack=wrong), None)
    with pytest.raises(harness.CheckFailed, match="differs from NumPy"):
        harness.check(dataclasses.replace(case, tack=lambda: None), None)


def test_interleaved_rounds(harness):
    order: list[str] = []
    runs = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    resets: list[int] = []
    timings = harness.interleaved(runs, lambda: resets.append(len(order)), budget=0.0)
    assert order == ["a", "b", "b", "a", "a", "b", "b", "a", "a", "b"]
    assert resets == list(range(10))
    assert all(len(timing.samples) == harness.MIN_ROUNDS for timing in timings.values())


def test_large_arrays_are_staggered(harness):
    starts = {harness.empty(1 << 20, np.float32).ctypes.data % harness.HUGE_PAGE for _ in range(4)}
    assert len(starts) == 4
    assert all(start % 64 == 0 for start in starts)


def test_without_gcc_a_row_says_so(benchmarks, harness):
    compilers = importlib.import_module("benchmarks.compilers")
    main = importlib.import_module("benchmarks.__main__")
    with compilers.Gcc("no-such-compiler") as absent:
        assert absent.version is None
        row = harness.measure(next(cases_of("saxpy")), absent, threads=1, budget=0.0)
    assert "no gcc" in main.line(row)


def test_the_command(benchmarks):
    """`python -m benchmarks`, with a name, without C if there is no gcc: tables in Markdown."""
    command = [sys.executable, "-m", "benchmarks", "saxpy", "call_cost", "first_call", "--quick", "--threads", "1"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"^\| saxpy f32 1,000 \| 1 \|", answer.stdout, re.MULTILINE)
    assert re.search(r"^\| Tack, NumPy arrays \|", answer.stdout, re.MULTILINE)
    assert re.search(r"^\| cold first call", answer.stdout, re.MULTILINE)


def test_lanes_agree_with_c(benchmarks, gcc):
    """Every kernel of the lane benchmark: chosen and scalar code, and C, leave the same bits."""
    lanes = importlib.import_module("benchmarks.lanes")
    rows = lanes.measure(gcc, quick=True)
    assert len(rows) == len(importlib.import_module("benchmarks.lane_kernels").KERNELS)
    assert all(row.timings["Tack"].samples for row in rows)


def test_an_unknown_name_is_refused(benchmarks):
    answer = subprocess.run([sys.executable, "-m", "benchmarks", "sapxy"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "unknown: sapxy" in answer.stderr
