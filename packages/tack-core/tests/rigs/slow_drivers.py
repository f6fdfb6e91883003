"""What devices that are slow to compile for leave to another one of their kind, unless a run asks for every test.

PoCL takes 0.37 s of a processor for each kernel, which was two fifths of the whole suite's time; rusticl takes 0.05.
Where both are there, PoCL runs a fifth of those tests of an operation that differ in the types of its operands only,
all that rusticl cannot run (f64, 64-bit atomics) or gets wrong by itself, and all others. The rigs of HIP and Level
Zero take a third of such tests where CUDA's rig and an OpenCL driver, whose text is nearly theirs, run all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest

import tack
from rigs.device_rig import is_rig
from rigs.driver_faults import FAULTS

OTHERS: Final = {"opencl": "opencl:1", "hip": "cuda", "level_zero": "opencl:1"}
RUNS_EACH: Final = {"opencl": 5, "hip": 3, "level_zero": 3}

_TYPE = re.compile(r"(?<![a-z0-9])[iuf](1|2|4|8|16|32|64)(?![0-9])")  # Tack's names and NumPy's
_WIDE_FLOAT = re.compile(r"f(64|8)(?![0-9])|float64")
_FAULTY = frozenset().union(*(fault.tests for fault in FAULTS))


def leave_to_others(items: list[pytest.Item]) -> None:
    """Mark as skipped what a device leaves to another one."""
    few = [item for item in items if isinstance(item, pytest.Function) and _may_be_left(item)]
    if not few:  # no driver is loaded for tests that ask for none
        return
    leaving = {name for name in OTHERS if _has_another(name)}
    seen: Counter[tuple[str, str]] = Counter()
    for item in few:
        device = _device(item)
        test = device, item.nodeid.partition("[")[0]
        seen[test] += 1
        if device in leaving and (seen[test] + len(seen)) % RUNS_EACH[device]:  # other types in each test
            item.add_marker(pytest.mark.skip(reason=reason(device)))


def reason(device: str) -> str:
    """Why a test is skipped."""
    part = f"one in {RUNS_EACH[device]} of the tests of each operation's types"
    return f"{device} runs {part}, {OTHERS[device]} all of them (--every-test runs the rest)"


def _device(item: pytest.Function) -> str:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return str(given.get("device", ""))


def _has_another(name: str) -> bool:
    """Whether a device and the one it leaves tests to are there: two drivers of OpenCL, the second without f64, or rigs
    of which no real GPU has taken the place."""
    if not {name, OTHERS[name]} <= set(tack.devices()):
        return False
    if name == "opencl":
        return [tack.device(n).supports("f64") for n in (name, OTHERS[name])] == [True, False]
    return is_rig(tack.device(name))


def _may_be_left(item: pytest.Function) -> bool:
    device = _device(item)
    if device not in OTHERS or _TYPE.search(item.name) is None:
        return False
    if device == "hip":  # CUDA has what it has
        return True
    module = item.module.__name__.rpartition(".")[2]
    wide_atomic = "atomic" in item.nodeid and "64" in item.name
    faulty = f"{module}::{item.function.__name__}" in _FAULTY
    return _WIDE_FLOAT.search(item.name) is None and not wide_atomic and not faulty
