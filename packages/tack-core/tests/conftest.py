"""What every test module shares: the `device` fixture, `@pytest.mark.requires`, and the count of skips by reason."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator

import pytest

if "TACK_CACHE_DIR" not in os.environ:  # a cache of this run's own; its workers inherit it
    _cache = tempfile.TemporaryDirectory(prefix="tack-tests-", ignore_cleanup_errors=True)
    os.environ["TACK_CACHE_DIR"] = _cache.name

import tack
from tack.runtime import code_store


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count compilations: no kernel comes from the disk."""
    monkeypatch.setattr(code_store, "cache", lambda: None)


@pytest.fixture(params=tack.devices())
def device(request: pytest.FixtureRequest) -> Iterator[tack.Device]:
    """Each device of this machine in turn, made the current one while the test runs."""
    target = tack.device(request.param)
    for marker in request.node.iter_markers("requires"):
        for capability in marker.args:
            if not target.supports(capability):
                pytest.skip(f"device {target.name} lacks {capability}")
    with target:
        yield target


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
