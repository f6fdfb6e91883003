"""What every test module shares: the `device` fixture, `@pytest.mark.requires`, and the count of skips by reason."""

from __future__ import annotations

import gc
import os
import re
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

# Mesa's OpenCL on the processor, a device without f64, takes part where it is installed. Read when drivers are loaded.
os.environ.setdefault("RUSTICL_ENABLE", "llvmpipe")
# PoCL compiles a kernel in a quarter of a second; what it compiled is kept from one run to the next, and shared by all.
os.environ.setdefault("POCL_CACHE_DIR", str(Path(__file__).resolve().parents[3] / ".pytest_cache" / "pocl"))
# The same for what the device rigs compile.
os.environ.setdefault("TACK_TEST_RIG_DIR", str(Path(__file__).resolve().parents[3] / ".pytest_cache" / "rigs"))

if "TACK_CACHE_DIR" not in os.environ:  # a cache of this run's own; its workers inherit it
    _cache = tempfile.TemporaryDirectory(prefix="tack-tests-", ignore_cleanup_errors=True)
    os.environ["TACK_CACHE_DIR"] = _cache.name

import tack
from call_entry import needs_entry
from rigs import device_rig, metal_rig, slow_drivers
from rigs.copied_arguments import copy_arguments
from rigs.driver_faults import known_fault
from tack.runtime import code_store, native_call

metal_rig.install()
device_rig.install()  # before anything asks for devices

# How Tack refuses what a device lacks, and the name of that capability.
_REFUSALS = (
    (re.compile(r"device \S+ has no (f64)"), "{}"),
    (re.compile(r"device \S+ has no atomics on (\w+)"), "atomic_{}"),
)


# What runs on devices with memory of their own too: what a kernel computes, and arrays. The others are about the front
# end, errors and the host's own memory, where compilers that take up to a quarter of a second for a kernel would add
# time and nothing else.
ON_OWN_MEMORY = {
    "test_algorithms",
    "test_arrays",
    "test_atomics",
    "test_block_reductions",
    "test_cases",
    "test_cases_arithmetic",
    "test_creation",
    "test_devices",
    "test_division_and_power",
    "test_evaluation_order",
    "test_float_division",
    "test_float_literals",
    "test_float_semantics",
    "test_guards",
    "test_integer_division",
    "test_integer_semantics",
    "test_math_functions",
    "test_parallel_loops",
    "test_reduction_semantics",
    "test_shared_memory",
    "test_sums_in_loops",
    "test_texture3d",
    "test_wide_accesses",
    "test_workgroup_differential",
    "test_workgroup_loops",
    "test_workgroups",
}

# Of these, modules whose tests launch many kernels each: one driver and one rig of the others' kind stand for all.
ON_FEW = {"test_algorithms": ("opencl", "cuda")}


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count compilations: no kernel comes from the disk."""
    monkeypatch.setattr(code_store, "cache", lambda: None)


@pytest.fixture(params=[pytest.param("native", marks=needs_entry), "python"])
def entry(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of calls: with the native entry, and without it, as on a free-threaded build or without LLVM."""
    if request.param == "python":
        monkeypatch.setattr(native_call, "entry_address", lambda: 0)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--every-test`, for who has the time."""
    parser.addoption("--every-test", action="store_true", help="all tests on slow drivers too: rigs/slow_drivers.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `slow_drivers` says."""
    if not config.getoption("every_test"):
        slow_drivers.leave_to_others(items)


def pytest_collection_finish() -> None:
    """What was collected stays: a third of a second less in each of the many collections of garbage that follow."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Which devices are tested, and which of them are rigs: what passes on hardware is worth more."""
    rigs = {name for name in tack.devices() if device_rig.is_rig(tack.device(name))}
    return "tack devices: " + ", ".join(f"{name} (rig)" if name in rigs else name for name in tack.devices())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `device` on each device of this machine."""
    if "device" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        everywhere, few = module in ON_OWN_MEMORY, ON_FEW.get(module)
        names: list[Any] = [
            name
            for name in tack.devices()
            if tack.device(name).supports("host_memory") or (everywhere and (few is None or name in few))
        ]
        if everywhere and (reason := device_rig.missing()):
            absent = [kind for kind in device_rig.KINDS if kind not in names and (few is None or kind in few)]
            names += [pytest.param(kind, marks=pytest.mark.skip(reason=reason)) for kind in absent]
        metafunc.parametrize("device", names, indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tack.Device]:
    """The device that a test runs on, made the current one meanwhile."""
    target = tack.device(request.param)
    for marker in request.node.iter_markers("requires"):
        for capability in marker.args:
            if not target.supports(capability):
                pytest.skip(f"device {target.name} lacks {capability}")
    if target.supports("host_memory"):
        with target:
            yield target
        return
    copy_arguments(monkeypatch, target)
    device_rig.misuse(target)  # by a test without this fixture
    with target:
        yield target
    noted = device_rig.misuse(target) + (metal_rig.misuse() if target.name == "metal" else "")
    assert not noted, noted


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Two ends of a test count as skips: the refusal of a type, or of its atomics, that the device lacks, and what a
    known fault of the device's driver does to it.

    Every rule is tested at every type, so marking each case for the first would say the same on each line.
    """
    try:
        return (yield)
    except (TypeError, AssertionError) as error:
        given = pyfuncitem.funcargs
        target = given.get("device", given.get("memory"))
        test = f"{pyfuncitem.module.__name__}::{pyfuncitem.function.__name__}"
        reason = skip_for(target, test, error) if isinstance(target, tack.Device) else None
        if reason is None:
            raise
    pytest.skip(reason)


def skip_for(target: tack.Device, test: str, error: Exception) -> str | None:
    """Why a failure is the device's, not Tack's; None if it is not."""
    return lacking(target, str(error)) if isinstance(error, TypeError) else known_fault(target, test)


def lacking(target: tack.Device, message: str) -> str | None:
    """The reason for a skip if a refusal names a capability that the device under test truly lacks."""
    for pattern, capability in _REFUSALS:
        for name in pattern.findall(message):
            if not target.supports(capability.format(name)):
                return f"device {target.name} lacks {capability.format(name)}"
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test whose `requires` marker nothing would read: it has no device, or the marker no capability."""
    for marker in item.iter_markers("requires"):
        if "device" not in getattr(item, "fixturenames", ()):
            pytest.fail("'requires' needs the 'device' fixture", pytrace=False)
        if not marker.args or marker.kwargs or not all(isinstance(name, str) for name in marker.args):
            pytest.fail("'requires' takes names of capabilities", pytrace=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the skipped tests by reason: a skip that nobody sees is a test that does not exist."""
    reasons = Counter(skip_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    if reasons:
        terminalreporter.section("skips by reason")
        for reason, count in sorted(reasons.items(), key=lambda row: (-row[1], row[0])):
            terminalreporter.line(f"{count:6d}  {reason}")


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason that a report of a skipped test gives; a skip is the triple (file, line, reason)."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
