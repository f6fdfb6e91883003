"""Kernels under oclgrind, which runs OpenCL C instruction by instruction and reports races, accesses outside a buffer
and barriers that not all threads reach. Rules ATOM-*, MEM-3, PAR-3, LOOP-*, GRP-4.

Whole test modules run there as a device of their own: each of their assertions holds, and the simulator has nothing to
say. Its exit status is always 0, so its log is read.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tack

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src"
pytest.importorskip("pyopencl", reason="pyopencl is not installed")
pytestmark = pytest.mark.skipif(shutil.which("oclgrind") is None, reason="oclgrind is not installed")

# Module, and which of its tests, as pytest's -k says it.
CHECKED = {
    "test_guards": "opencl",
    "test_evaluation_order": "opencl",
    "test_parallel_loops": "opencl",
    "test_cases": "opencl and atomic",
    "test_workgroups": "opencl and (shared_memory or ndrange or by_reference or uniform_control or functions)",
    "test_opencl_backend": "opencl and (atomics or reduces or pieces or loops or views)",
}


def under_oclgrind(log: Path, *command: str) -> str:
    """Run Python with oclgrind as the only OpenCL device; returns what it printed."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(SOURCE), str(TESTS)])}
    done = subprocess.run(
        ["oclgrind", "--data-races", "--log", str(log), sys.executable, *command],
        capture_output=True,
        text=True,
        env=environment,
        cwd=TESTS,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("module", CHECKED)
def test_nothing_to_report(module: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-k", CHECKED[module]]
    printed = under_oclgrind(log, "-m", "pytest", *options, str(TESTS / f"{module}.py"))
    assert " passed" in printed, printed
    assert log.read_text() == "", log.read_text()[:3000]


@tack.kernel
def all_write_one_cell(a):
    for i in range(a.shape[0]):
        a[0] = i


@tack.kernel
def read_a_neighbour(a):
    for i in range(a.shape[0] - 1):
        a[i] = a[i + 1]


@tack.kernel
def beyond_the_end(a):
    for i in range(a.shape[0]):
        a[i + 1] = 1


@tack.kernel(group=32)
def no_barrier(a):
    for i in range(a.shape[0]):
        box = tack.shared(32, tack.i32)
        t = tack.thread_id()
        box[t] = i
        a[i] = box[31 - t]


@pytest.mark.parametrize(
    ("kernel", "report"),
    [
        ("all_write_one_cell", "Write-write data race"),
        ("read_a_neighbour", "Read-write data race"),
        ("beyond_the_end", "Invalid write"),
        ("no_barrier", "Read-write data race"),
    ],
)
def test_what_is_wrong_is_reported(kernel: str, report: str, tmp_path: Path) -> None:
    """The control: the simulator is really there, and sees what a kernel does."""
    log = tmp_path / "log"
    code = (
        "import tack, test_opencl_races as here\n"
        "tack.set_default_device('opencl')\n"
        "assert tack.current_device().backend.device.name == 'Oclgrind Simulator'\n"
        f"here.{kernel}(a := tack.zeros(300, tack.i32)); a.numpy()"
    )
    under_oclgrind(log, "-c", code)
    assert report in log.read_text()
