"""Peers: other ways to run such loops from Python. Each runs in a process of its own, on arrays of its own.

Some cannot live in one process with Tack: they bring another LLVM, another NumPy or another pool of threads. A process
waits while others are timed, so that rounds interleave all the same, and its answers are compared before any timing.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Kind:
    """The distribution that has a peer, the package to import, and the module with its adapters."""

    distribution: str
    package: str
    adapters: str


PEERS = {
    "Numba": Kind("numba", "numba", "benchmarks.peers.numba_peer"),
    "Taichi": Kind("taichi", "taichi", "benchmarks.peers.taichi_peer"),
    "Quadrants": Kind("quadrants", "quadrants", "benchmarks.peers.taichi_peer"),  # grew out of Taichi, has its words
    "Warp": Kind("warp-lang", "warp", "benchmarks.peers.warp_peer"),
    "JAX": Kind("jax", "jax", "benchmarks.peers.jax_peer"),
}
PATH = [str(ROOT)]  # where a peer's process finds the adapters
IN_MEMORY = "/dev/shm"  # of Linux
ANSWER_SECONDS = 150.0  # the longest that a load, check or sample may take

VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class PeerError(RuntimeError):
    """A peer's process failed, or did not answer in time."""


def find(interpreters: Sequence[str]) -> dict[str, tuple[str, str]]:
    """By peer: the first of some Python interpreters that has it, and its version."""
    found: dict[str, tuple[str, str]] = {}
    for interpreter in interpreters or (sys.executable,):
        command = [interpreter, "-c", VERSIONS, *(kind.distribution for kind in PEERS.values())]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        versions = json.loads(answer.stdout)
        for name, kind in PEERS.items():
            if kind.distribution in versions:
                found.setdefault(name, (interpreter, versions[kind.distribution]))
    return found


class Peer:
    """One peer's process, ready for one workload at a time: a `harness.Sampler` once `load` has said so.

    Parameters
    ----------
    name, interpreter : str
        Of `PEERS`, and the Python that has it.
    scratch : str
        A folder for what it leaves behind: its process ends by being killed.
    """

    def __init__(self, name: str, interpreter: str, scratch: str) -> None:
        self.name = name
        self.calls, self.once = 1, 0.0
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATH), "TMPDIR": scratch}
        command = [interpreter, "-m", "benchmarks.peers.worker", PEERS[name].adapters, PEERS[name].package]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def load(self, adapter: str, arguments: Sequence[Path | float | int], outputs: Sequence[int], reset: bool) -> bool:
        """Give it a workload; False if it has no adapter for it. Then `check` before `sample`."""
        given = [str(a) if isinstance(a, Path) else a for a in arguments]
        answer = self._ask(do="load", adapter=adapter, arguments=given, outputs=list(outputs), reset=reset)
        return bool(answer["known"])

    def outputs(self, folder: Path) -> list[np.ndarray]:
        """Run once, compilation included; what the outputs hold then."""
        return [np.load(path) for path in self._ask(do="run", folder=str(folder))["outputs"]]

    def calibrate(self) -> None:
        """Find out how many calls make a sample."""
        answer = self._ask(do="calibrate")
        self.calls, self.once = int(answer["calls"]), float(answer["once"])

    def sample(self) -> float:
        return float(self._ask(do="sample")["seconds"])

    def forget(self) -> None:
        """Let go of the workload's arrays."""
        self._ask(do="forget")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, **question: Any) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
        except OSError:
            raise PeerError(f"{self.name}'s process has ended") from None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(ANSWER_SECONDS):
                raise PeerError(f"{self.name} did not answer within {ANSWER_SECONDS:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise PeerError(f"{self.name}'s process has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer


class Peers:
    """The peers that are there, and why the others are not; a context manager, because they are processes.

    Attributes
    ----------
    versions : dict
        By peer, its version or "not installed".
    """

    def __init__(self, interpreters: Sequence[str] = (), names: Sequence[str] = tuple(PEERS)) -> None:
        found = find(interpreters) if names else {}
        self.versions = {name: found[name][1] if name in found else "not installed" for name in names}
        self._interpreters = {name: found[name][0] for name in names if name in found}
        self._running: dict[str, Peer] = {}
        self._scratch = tempfile.TemporaryDirectory(prefix="tack-benchmarks-", ignore_cleanup_errors=True)

    def __enter__(self) -> Peers:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._running.values():
            peer.close()
        self._scratch.cleanup()

    def prepare(self, case: harness.Case, ours: list[np.ndarray]) -> tuple[dict[str, harness.Sampler], dict[str, str]]:
        """The peers that do a case's work, ready to be timed, and notes on the others.

        A peer whose outputs differ from `ours` by more than the case allows is not timed.
        """
        ready: dict[str, harness.Sampler] = {}
        notes = {name: "not installed" for name in self.versions if name not in self._interpreters}
        with tempfile.TemporaryDirectory(prefix="tack-benchmarks-", dir=_place_for(case)) as place:
            folder = Path(place)
            arguments = _saved(case, folder)
            outputs = [k for k, a in enumerate(case.arguments) if any(a is output for output in case.outputs)]

            def outcome(name: str) -> list[np.ndarray] | str | None:
                """A peer's outputs, or what went wrong; None if it has no adapter."""
                place = folder / name
                place.mkdir()
                try:
                    peer = self._peer(name)
                    known = peer.load(case.adapter or case.workload, arguments, outputs, case.reset is not None)
                    return peer.outputs(place) if known else None
                except PeerError as error:
                    self._running.pop(name).close()
                    return str(error).splitlines()[0]

            # They compile and run at the same time; only what is timed takes turns.
            with ThreadPoolExecutor(os.cpu_count()) as together:
                outcomes = dict(zip(self._interpreters, together.map(outcome, self._interpreters), strict=True))
            for name, theirs in outcomes.items():
                if isinstance(theirs, str):
                    notes[name] = theirs
                elif theirs is not None:
                    try:
                        harness.compare(case, name, ours, theirs, case.peer_tolerance, case.peer_mismatches)
                        self._running[name].calibrate()
                        ready[name] = self._running[name]
                    except (harness.CheckFailed, PeerError) as error:
                        print(error, file=sys.stderr)
                        notes[name] = "wrong result" if isinstance(error, harness.CheckFailed) else str(error)
        return ready, notes

    def forget(self, ready: dict[str, harness.Sampler]) -> None:
        """Let the peers that did a case let go of its arrays."""
        for name in ready:
            self._running[name].forget()

    def _peer(self, name: str) -> Peer:
        if name not in self._running:
            self._running[name] = Peer(name, self._interpreters[name], self._scratch.name)
        return self._running[name]


def _place_for(case: harness.Case) -> str | None:
    """Where the arrays go: to files in memory if there is room, which saves half a minute for the largest."""
    nbytes = sum(argument.nbytes for argument in case.arguments if isinstance(argument, np.ndarray))
    if not os.access(IN_MEMORY, os.W_OK):
        return None
    return IN_MEMORY if shutil.disk_usage(IN_MEMORY).free > 4 * nbytes else None


def _saved(case: harness.Case, folder: Path) -> list[Path | float | int]:
    """The arguments, arrays as files that hold what they are before a run."""
    if case.reset:
        case.reset()
    saved: list[Path | float | int] = []
    for k, argument in enumerate(case.arguments):
        if isinstance(argument, np.ndarray):
            path = folder / f"{k}.npy"
            np.save(path, argument)
            saved.append(path)
        else:
            saved.append(argument)
    return saved
