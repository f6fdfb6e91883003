"""The pool is made by the first loop that is shared, and a loop that gets no pool runs all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("llvmlite")

PROGRAM = """
import sys, warnings
import numpy as np
import tack

@tack.kernel
def k(a):
    for i in range(a.shape[0]):
        a[i] = i

small, large = np.zeros(8, np.int64), np.zeros(1 << 22, np.int64)
k(small)
print("tack.runtime.cpu_pool" in sys.modules)
{before}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    k(large)
print((large == np.arange(large.size)).all(), len(caught))
k(large)
from tack.runtime import cpu_pool
print(cpu_pool._pool is not None)
"""
BROKEN = """
from tack.runtime import cpu_pool
def broken():
    raise OSError("no memory for code")
cpu_pool.pool = broken
"""


def output(before):
    command = [sys.executable, "-c", PROGRAM.format(before=before)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_the_first_shared_loop_makes_the_pool(monkeypatch):
    monkeypatch.setenv("TACK_CPU_THREADS", "2")
    assert output("") == ["True", "True 0", "True"], "a count that is given is checked at once, by the pool's module"
    monkeypatch.delenv("TACK_CPU_THREADS")
    assert output("")[0] == "False"


def test_a_loop_without_a_pool_runs_in_its_thread(monkeypatch):
    monkeypatch.setenv("TACK_CPU_THREADS", "2")
    assert output(BROKEN) == ["True", "True 1", "False"]
