"""Machines whose GPU drivers are missing, broken or too old: every other device works, and the error says why.

Each case is a process of its own, whose loader finds our files before any others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rigs import host_run
from tack.runtime.cuda_driver import CudaDriver
from tack.runtime.hip_driver import HipDriver
from tack.runtime.level_zero_driver import LOADERS

KINDS = {"cuda", "hip", "level_zero"}
LIBRARIES = (*CudaDriver.libraries, *HipDriver.libraries, *LOADERS)
PROGRAM = """
import json, tack
def why(name):
    try:
        return repr(tack.device(name))
    except ValueError as error:
        return str(error)
print(json.dumps([tack.devices(), {name: why(name) for name in ("cuda", "hip", "level_zero", "cuda:1")}]))
assert tack.zeros(2).numpy().tolist() == [0, 0]
"""
NO_FUNCTION = "int unrelated(void) { return 0; }"
# A first function that fails, and none that would say what its code means.
NO_DEVICE = """
int cuInit(unsigned flags) { return 100; }
int hipInit(unsigned flags) { return 100; }
int zeInit(unsigned flags) { return 0x78000001; }
"""


def ask(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The devices of a machine with these libraries, and the answers to asking for GPUs."""
    environment = {name: value for name, value in os.environ.items() if name != "TACK_DEVICE"}
    environment["LD_LIBRARY_PATH"] = str(folder)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    devices, answers = json.loads(run.stdout)
    assert {"reference"} <= set(devices) and not set(devices) & KINDS
    for name, answer in answers.items():
        assert answer.startswith(f"there is no device '{name}': ") and answer.count("the devices of this machine") == 1
    return devices, answers


def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    for name in LIBRARIES:
        (tmp_path / name).write_text("this is not a library\n" * 10)
    for answer in ask(tmp_path)[1].values():
        assert "invalid ELF header" in answer, answer


@pytest.mark.parametrize("text", [NO_FUNCTION, NO_DEVICE], ids=["nothing", "no device"])
def test_libraries_without_functions(tmp_path: Path, text: str) -> None:
    """As drivers are that are older than what Tack calls."""
    compiler = host_run.compiler()
    if compiler is None:
        pytest.skip("no g++ to make libraries")
    source, made = tmp_path / "stub.c", tmp_path / "stub.so"
    source.write_text(text)
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
    for name in LIBRARIES:
        (tmp_path / name).write_bytes(made.read_bytes())
    for kind, answer in ask(tmp_path)[1].items():
        words = "older than version 1.0" if kind == "level_zero" else "too old, or not one"
        assert words in answer, answer
