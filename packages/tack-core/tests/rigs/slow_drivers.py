"""What a driver that is slow to compile leaves to another one of its kind, unless a run asks for every test.

PoCL takes 0.37 s of a processor for each kernel, which was two fifths of the whole suite's time; rusticl takes 0.05.
Where both are there, PoCL runs a fifth of those tests of an operation that differ in the types of its operands only,
all that rusticl cannot run (f64, 64-bit atomics) or gets wrong by itself, and all others.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

import tack
from rigs.driver_faults import FAULTS

REASON = "opencl runs a fifth of the tests of each operation's types, opencl:1 all of them (--every-test runs the rest)"
RUNS_EACH = 5

_TYPE = re.compile(r"(?<![a-z0-9])[iuf](1|2|4|8|16|32|64)(?![0-9])")  # Tack's names and NumPy's
_WIDE_FLOAT = re.compile(r"f(64|8)(?![0-9])|float64")
_FAULTY = frozenset().union(*(fault.tests for fault in FAULTS))


def leave_to_others(items: list[pytest.Item]) -> None:
    """Mark as skipped what `opencl` leaves to `opencl:1`."""
    few = [item for item in items if isinstance(item, pytest.Function) and _may_be_left(item)]
    if not few or not _has_both():  # in this order: no driver is loaded for tests that ask for none
        return
    seen: Counter[str] = Counter()
    for item in few:
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        if (seen[test] + len(seen)) % RUNS_EACH:  # other types in each test
            item.add_marker(pytest.mark.skip(reason=REASON))


def _has_both() -> bool:
    """Whether there are a device with f64, which PoCL is, and one without."""
    names = {"opencl", "opencl:1"}
    return names <= set(tack.devices()) and [tack.device(n).supports("f64") for n in sorted(names)] == [True, False]


def _may_be_left(item: pytest.Function) -> bool:
    given = item.callspec.params if hasattr(item, "callspec") else {}
    module = item.module.__name__.rpartition(".")[2]
    wide_atomic = "atomic" in item.nodeid and "64" in item.name
    return (
        given.get("device") == "opencl"
        and _TYPE.search(item.name) is not None
        and _WIDE_FLOAT.search(item.name) is None
        and not wide_atomic
        and f"{module}::{item.function.__name__}" not in _FAULTY
    )
