"""Every benchmark at a small size: Tack, C and NumPy agree, and the tables come out. No time is asserted.

The oracles are NumPy and the C sources, compiled without contraction: the CPU device fuses nothing (FLT-3 allows it
to), so the bits are the same wherever only + - * / and sqrt are used. The histogram pins ATOM-2.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # the package lies beside `packages` and is not installed
try:
    from benchmarks import compilers, harness, run
    from benchmarks import peers as peers_of
finally:
    sys.path.remove(str(ROOT))


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture(scope="module")
def gcc():
    with compilers.Compiler() as compiler:
        yield compiler


def cases_of(workload: str) -> Iterator[harness.Case]:
    return importlib.import_module(f"benchmarks.{workload}").cases(quick=True)


def test_every_workload_has_its_c():
    for name in run.WORKLOADS:
        assert (ROOT / "benchmarks" / "c" / f"{name}.c").is_file()


@pytest.mark.parametrize("workload", run.WORKLOADS)
def test_tack_agrees_with_numpy(workload):
    for case in cases_of(workload):
        harness.check(case, None)


@pytest.mark.parametrize("workload", run.WORKLOADS)
def test_tack_agrees_with_c(gcc, workload):
    if gcc.version is None:
        pytest.skip("gcc is not installed")
    for case in cases_of(workload):
        harness.check(case, gcc.load(workload, "strict"), with_numpy=False)


@pytest.mark.parametrize("workload", run.WORKLOADS)
def test_a_wrong_element_is_seen(workload):
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


class Counted:
    """A sampler that notes its turns and says how long each took."""

    calls = 1

    def __init__(self, turns: list[str], name: str, seconds: float) -> None:
        self.turns, self.name, self.seconds, self.once = turns, name, seconds, seconds

    def sample(self) -> float:
        self.turns.append(self.name)
        return self.seconds


def test_interleaved_rounds():
    """All take turns, another first each time; a quick one until its time is up, a slow one was timed before."""
    turns: list[str] = []
    runs = {name: Counted(turns, name, seconds) for name, seconds in (("a", 0.1), ("b", 0.3), ("slow", 9.0))}
    timings = harness.interleaved(runs, patience=0.65)
    assert turns == ["a", "b", "b", "a", "a", "b", "a", "a", "a", "a"]
    assert {name: len(timing.samples) for name, timing in timings.items()} == {"a": 7, "b": 3, "slow": 1}


def test_a_reset_runs_before_each_sample():
    order: list[str] = []
    timed = harness.Local(lambda: order.append("run"), reset=lambda: order.append("reset"))
    timed.sample()
    assert order == ["reset", "run"] * 2
    assert timed.calls == 1


def test_large_arrays_are_staggered():
    starts = {harness.empty(1 << 20, np.float32).ctypes.data % harness.HUGE_PAGE for _ in range(4)}
    assert len(starts) == 4
    assert all(start % 64 == 0 for start in starts)


def test_without_a_compiler_a_row_says_so():
    with compilers.Compiler("no-such-compiler") as absent:
        assert absent.version is None
        row = harness.measure(next(cases_of("saxpy")), {"gcc": absent, "clang": absent}, threads=1, patience=0.0)
    assert "| no gcc | no clang |" in run.line(row)


# --- Peers ----------------------------------------------------------------------------------------------------------

STAND_IN = """
import numpy as np
from benchmarks.peers.work import Work

def saxpy(z, x, y, a):
    return Work(lambda: np.copyto(z, np.float32(a) * x + y))

def histogram(counts, data):
    return Work(lambda: np.add(counts, np.bincount(data, minlength=256), out=counts, casting="unsafe"))

def triad(a, b, c, s):
    return Work(lambda: None)

def integer_hash(out, a):
    raise ValueError("no such thing")
"""


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """A peer whose adapters are NumPy's, in a process of its own; one of them writes nothing, one fails."""
    (tmp_path / "stand_in_peer.py").write_text(STAND_IN)
    monkeypatch.setattr(peers_of, "PEERS", {"Stand-in": peers_of.Kind("pytest", "pytest", "stand_in_peer")})
    monkeypatch.setattr(peers_of, "PATH", [str(ROOT), str(tmp_path)])
    with peers_of.Peers(names=("Stand-in", "Absent")) as peers:
        yield peers


def test_a_peer_takes_part(stand_in):
    """Its outputs are compared, then it is timed; a run whose outputs are put back counts from zero each time."""
    assert stand_in.versions == {"Stand-in": pytest.__version__, "Absent": "not installed"}
    for workload in ("saxpy", "histogram"):
        case = next(cases_of(workload))
        ready, notes = stand_in.prepare(case, harness.check(case, None))
        assert notes == {"Absent": "not installed"}
        row = harness.measure(case, {}, threads=2, patience=0.0, peers=ready)
        assert min(row.timings["Stand-in"].samples) > 0
        stand_in.forget(ready)


def test_control_a_peer_that_is_wrong_is_not_timed(stand_in, capsys):
    case = next(cases_of("triad"))
    ready, notes = stand_in.prepare(case, harness.check(case, None))
    assert (ready, notes["Stand-in"]) == ({}, "wrong result")
    assert "output 0 of Tack differs from Stand-in" in capsys.readouterr().err


def test_a_peer_without_the_workload_and_one_that_fails(stand_in):
    case = next(cases_of("array_sum"))
    assert stand_in.prepare(case, harness.check(case, None)) == ({}, {"Absent": "not installed"})
    case = next(cases_of("integer_hash"))
    ready, notes = stand_in.prepare(case, harness.check(case, None))
    assert (ready, notes["Stand-in"]) == ({}, "Stand-in: ValueError: no such thing")


def test_what_is_not_installed_is_not_found():
    """This interpreter has none of the peers that it does not have."""
    found = peers_of.find([sys.executable])
    assert all(importlib.util.find_spec(peers_of.PEERS[name].package) for name in found)


# --- The command ----------------------------------------------------------------------------------------------------


def test_the_command(tmp_path):
    """`python -m benchmarks.run`, with names and one thread: tables in Markdown, and a plot."""
    plot = tmp_path / "plot.svg"
    names = ["saxpy", "call_cost", "first_call"]
    command = [sys.executable, "-m", "benchmarks.run", *names, "--quick", "--threads", "1", "--plot", str(plot)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"^\| saxpy f32 1,000 \| \*\*[\d.]+ .?s\*\* \|", answer.stdout, re.MULTILINE)
    assert re.search(r"^\| Tack, NumPy arrays \|", answer.stdout, re.MULTILINE)
    assert re.search(r"^\| cold first call", answer.stdout, re.MULTILINE)
    assert "saxpy f32 1,000" in plot.read_text(encoding="utf-8")


def test_a_page_gets_its_tables(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"above\n{run.BEGIN}\nold\n{run.END}\nbelow\n")
    monkeypatch.setattr(run, "PAGE", page)
    run.published(["new", "table"])
    assert page.read_text() == f"above\n{run.BEGIN}\nnew\ntable\n{run.END}\nbelow\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="lacks the marks"):
        run.published(["new"])
    assert page.read_text() == "no marks"


def test_the_page_has_its_marks():
    text = run.PAGE.read_text(encoding="utf-8")
    assert text.index(run.BEGIN) < text.index(run.END)


def test_lanes_agree_with_c(gcc):
    """Every kernel of the lane benchmark: chosen and scalar code, and C, leave the same bits."""
    lanes = importlib.import_module("benchmarks.lanes")
    rows = lanes.measure(gcc, quick=True)
    assert len(rows) == len(importlib.import_module("benchmarks.lane_kernels").KERNELS)
    assert all(row.timings["Tack"].samples for row in rows)


def test_an_unknown_name_is_refused():
    answer = subprocess.run([sys.executable, "-m", "benchmarks", "sapxy"], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 2
    assert "unknown: sapxy" in answer.stderr
