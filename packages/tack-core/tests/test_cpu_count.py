"""How many threads a parallel loop uses: the variable, the affinity mask, the quotas of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tack.codegen.thread_pool_ir import MAX_THREADS
from tack.runtime import cpu_pool
from tack.runtime.cpu_pool import cpu_count


@pytest.mark.parametrize("text", ["1", "5", " 7 ", "007", str(MAX_THREADS)])
def test_the_variable_overrides_the_count(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TACK_CPU_THREADS", text)
    assert cpu_count() == int(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "2.5", "many", "1e3", "1_0", "٣", str(MAX_THREADS + 1), "9" * 30])
def test_a_senseless_variable_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("TACK_CPU_THREADS", text)
    message = f"TACK_CPU_THREADS must be a whole number from 1 to {MAX_THREADS}, not"
    with pytest.raises(ValueError, match=message) as error:
        cpu_count()
    assert repr(text) in str(error.value) and "unset it" in str(error.value)


def fake_root(root: Path, groups: str, files: dict[str, str]) -> Path:
    """A file system with these lines in /proc/self/cgroup and these files below /sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


V1_GROUPS = "12:memory:/jobs/a\n4:cpu,cpuacct:/jobs/a\n3:cpuset:/jobs/a\n0::/unified\n"


def v1(level: str, quota: int) -> dict[str, str]:
    base = f"cpu,cpuacct{level}"
    return {f"{base}/cpu.cfs_quota_us": f"{quota}\n", f"{base}/cpu.cfs_period_us": "100000\n"}


@pytest.mark.parametrize(
    ("groups", "files", "cpus"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n", "a/cpu.max": "max 100000\n"}, 3),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "150000 100000\n"}, 2),  # the parent is tighter
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),  # v2 root: a container with a namespace of its own
        ("0::/host/path\n", {"cpu.max": "50000 100000\n"}, 1),  # a container that sees the host's path
        ("0::/a:b\n", {"a:b/cpu.max": "700000 100000\n"}, 7),
        ("0::/\n", {}, None),
        (V1_GROUPS, v1("/jobs/a", 320_000), 4),
        (V1_GROUPS, {**v1("/jobs/a", 320_000), **v1("/jobs", 100_000)}, 1),
        (V1_GROUPS, v1("", 600_000), 6),
        (V1_GROUPS, v1("/jobs/a", -1), None),
        (V1_GROUPS, {"cpu,cpuacct/jobs/a/cpu.cfs_quota_us": "100000\n"}, None),
        ("", {"cpu.max": "100000 100000\n"}, None),
    ],
)
def test_the_quota_of_control_groups(tmp_path: Path, groups: str, files: dict[str, str], cpus: int | None) -> None:
    assert cpu_pool._quota_cpus(fake_root(tmp_path, groups, files)) == cpus


def test_no_proc_no_quota(tmp_path: Path) -> None:
    assert cpu_pool._quota_cpus(tmp_path) is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity masks")
@pytest.mark.parametrize(
    ("affinity", "quota", "count"), [(64, None, 64), (64, 3, 3), (2, 8, 2), (4000, None, MAX_THREADS), (1, 1, 1)]
)
def test_the_tighter_of_affinity_and_quota_counts(
    monkeypatch: pytest.MonkeyPatch, affinity: int, quota: int | None, count: int
) -> None:
    monkeypatch.delenv("TACK_CPU_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(affinity)))
    monkeypatch.setattr(cpu_pool, "_quota_cpus", lambda root: quota)
    assert cpu_count() == count
