"""A peer's process: `python -m benchmarks.peers.worker MODULE PACKAGE` answers questions, one JSON a line.

An adapter is a function of that module with the name of a workload. It is given the workload's arguments as NumPy
arrays and numbers, and returns a `Work`. The module imports the package.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.peers.work import Work


class Worker:
    """One workload: its arrays, the peer's work on them, and how to put the outputs back."""

    def __init__(self, module: Any, question: dict[str, Any]) -> None:
        adapter = getattr(module, question["adapter"], None)
        self.known = adapter is not None
        if adapter is None:
            return
        arguments = [harness.filled(np.load(a)) if isinstance(a, str) else a for a in question["arguments"]]
        self._outputs = [arguments[k] for k in question["outputs"]]
        self._start = [array.copy() for array in self._outputs] if question["reset"] else None
        if self._start is None:  # what the peer fails to write must not look right
            for array in self._outputs:
                array.fill(77)
        self._work: Work = adapter(*arguments)

    def run(self, folder: Path) -> dict[str, Any]:
        """Run once and save the outputs."""
        self._work.function(*self._work.arguments)
        self._work.finish()
        paths = [folder / f"output{k}.npy" for k in range(len(self._outputs))]
        for path, array in zip(paths, self._outputs, strict=True):
            np.save(path, array)
        return {"outputs": [str(path) for path in paths]}

    def calibrate(self) -> dict[str, Any]:
        reset = self._reset if self._start else None
        self._timed = harness.Local(self._work.function, *self._work.arguments, reset=reset)
        return {"calls": self._timed.calls, "once": self._timed.once}

    def sample(self) -> dict[str, Any]:
        return {"seconds": self._timed.sample()}

    def _reset(self) -> None:
        for array, values in zip(self._outputs, self._start or [], strict=True):
            array[...] = values
        self._work.restart()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the peer prints is no answer
    worker = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question["do"] == "load":
                worker = None
                gc.collect()
                module = importlib.import_module(sys.argv[1])
                worker = Worker(module, question)
                answer: dict[str, Any] = {"known": worker.known}
            elif question["do"] == "forget":
                worker = None
                gc.collect()
                answer = {}
            elif question["do"] == "run":
                answer = worker.run(Path(question["folder"]))
            else:
                answer = worker.calibrate() if question["do"] == "calibrate" else worker.sample()
        except Exception as error:  # whatever the peer says is the row's note
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
