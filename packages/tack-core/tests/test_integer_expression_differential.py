"""Two thousand random programs of integers, compared exactly with an oracle that shares no code with the compiler.

Compositions where an intermediate wrap, cast or promotion decides a later operation (INT-1, INT-2, TYPE-2 to TYPE-7,
IDIV-*, SHIFT-*, POW-1, EVAL-7 to EVAL-9, FUNC-2, FUNC-3, FUNC-5, FUNC-6). `differential/` has the generator and the
oracle. A program is the body of a parallel loop with its own device functions and locals; twenty of them share a
kernel, four a loop, to share one compile. The seeds are fixed, and a failure prints the seed and the program.
"""

from __future__ import annotations

import functools
import linecache
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tack
from differential import generator, oracle
from differential.generator import INPUTS, LANES, OUTPUTS, Program
from rigs.device_rig import is_rig
from rigs.driver_faults import FAULTS, has_fault

PROGRAMS_PER_BATCH = 20
BATCHES = 100
REFERENCE_EVERY = 10  # one batch in ten also runs on the interpreter
OPENCL_EVERY = 10  # one in ten on OpenCL, all of them with --every-test
RIG_EVERY = 20  # and one in twenty on each stand-in for a GPU; a GPU runs them all
NUMPY = {t: np.dtype(f"{t[0]}{int(t[1:]) // 8}") for t in INPUTS.values()}

Columns = dict[str, list[int]]
Outputs = dict[str, np.ndarray[Any, Any]]


def test_the_number_of_programs() -> None:
    assert BATCHES * PROGRAMS_PER_BATCH >= 2000


@dataclass
class Batch:
    """Accepted programs, in the order of their rows, with the inputs they share and what each must store."""

    number: int
    programs: list[Program]
    columns: Columns
    expected: Outputs

    def source(self) -> str:
        text = generator.batch(self.programs)
        return generator.tidy(text) if self.number % 2 else text


def zeros(rows: int) -> Outputs:
    return {name: np.zeros((rows, LANES), NUMPY[t]) for name, t in OUTPUTS.items()}


def evaluate(program: Program, columns: Columns, rules: type[oracle.Arithmetic] = oracle.Arithmetic) -> Outputs:
    """What the oracle stores, as outputs of the shape of a batch."""
    stored: dict[str, dict[tuple[int, int], int]] = {name: defaultdict(int) for name in OUTPUTS}
    arrays: dict[str, tuple[str, Any]] = {name: (t, columns[name]) for name, t in INPUTS.items()}
    arrays |= {name: (t, stored[name]) for name, t in OUTPUTS.items()}
    oracle.run(program.source(), "main", arrays, rules)
    outputs = zeros(PROGRAMS_PER_BATCH)
    for name, cells in stored.items():
        for place, value in cells.items():
            outputs[name][place] = value
    return outputs


def candidates(batch: int, columns: Columns) -> Iterator[tuple[Program, Outputs]]:
    """Valid programs without end: what the contract rejects, or has no portable result, is passed over."""
    row = attempt = 0
    while True:
        program = generator.program(f"{batch}.{attempt}", row)
        attempt += 1
        try:
            outputs = evaluate(program, columns)
        except (oracle.Rejected, oracle.ConstraintBroken):
            continue
        yield program, outputs
        row += 1


@functools.lru_cache(maxsize=4)
def make_batch(number: int) -> Batch:
    columns = generator.inputs(str(number))
    programs, expected = [], zeros(PROGRAMS_PER_BATCH)
    for program, outputs in candidates(number, columns):
        programs.append(program)
        for name, array in outputs.items():
            expected[name] += array
        if len(programs) == PROGRAMS_PER_BATCH:
            break
    assert len({p.functions + p.body for p in programs}) == PROGRAMS_PER_BATCH
    return Batch(number, programs, columns, expected)


def load(source: str, name: str) -> Callable[..., None]:
    """The kernel `main` of a module that exists only as text (SRC-1)."""
    file = f"<differential {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": f"differential_{name}"}
    exec(compile(source, file, "exec"), namespace)
    main: Callable[..., None] = namespace["main"]
    return main


def launch(source: str, name: str, columns: Columns, device: str) -> Outputs:
    """Run a module's kernel on a device: the inputs by NumPy, the outputs back."""
    outputs = zeros(PROGRAMS_PER_BATCH)
    with tack.device(device):
        inputs = [tack.asarray(np.array(columns[n], NUMPY[t])) for n, t in INPUTS.items()]
        results = [tack.zeros((PROGRAMS_PER_BATCH, LANES), t) for t in OUTPUTS.values()]
        load(source, name)(*inputs, *results)
    for name_, result in zip(outputs, results, strict=True):
        outputs[name_] = result.numpy()
    return outputs


def differences(batch: Batch, found: Outputs) -> list[str]:
    """A line for each program whose row differs, with the first wrong element and its inputs."""
    lines = []
    for program in batch.programs:
        for name in OUTPUTS:
            wrong = np.nonzero(found[name][program.row] != batch.expected[name][program.row])[0]
            if len(wrong):
                lane = int(wrong[0])
                inputs = {n: batch.columns[n][lane] for n in INPUTS}
                got, want = found[name][program.row, lane], batch.expected[name][program.row, lane]
                lines.append(
                    f"seed {program.seed}: {name}[{lane}] is {got}, must be {want}, for {inputs}\n{program.source()}"
                )
                break
    return lines


def culprits(batch: Batch, device: str) -> str:
    """The programs of a batch that do not even run by themselves, with their errors."""
    found = []
    for program in batch.programs:
        try:
            launch(program.source(), f"{program.seed} alone", batch.columns, device)
        except Exception as error:
            found.append(f"seed {program.seed}: {type(error).__name__}: {error}\n{program.source()}")
    return "\n".join(found) or "each program runs by itself"


def compare(batch: Batch, device: str) -> None:
    try:
        found = launch(batch.source(), str(batch.number), batch.columns, device)
    except Exception as error:
        pytest.fail(f"batch {batch.number} on {device}: {error}\n{culprits(batch, device)}")
    wrong = differences(batch, found)
    assert not wrong, f"{len(wrong)} programs of batch {batch.number} are wrong on {device}:\n" + "\n".join(wrong)


@functools.cache
def opencl_name() -> str | None:
    """An OpenCL device whose driver has no known fault, or None."""
    names = [name for name in tack.devices() if name.startswith("opencl")]
    return next((n for n in names if not any(has_fault(tack.device(n), fault) for fault in FAULTS)), None)


def devices_for(number: int, every: bool) -> Iterator[str]:
    """Where a batch runs: on the CPU and GPUs always, elsewhere a share of the batches."""
    yield "cpu"
    if (every or number % OPENCL_EVERY == 0) and (opencl := opencl_name()) is not None:
        yield opencl
    gpus = [n for n in tack.devices() if ":" not in n and n not in ("cpu", "reference", "opencl")]
    yield from (n for n in gpus if number % RIG_EVERY == 0 or not is_rig(tack.device(n)))
    if number % REFERENCE_EVERY == 0:
        yield "reference"


@pytest.mark.parametrize("number", range(BATCHES))
def test_generated_programs(number: int, pytestconfig: pytest.Config) -> None:
    """Every program has one answer, whatever runs it."""
    batch = make_batch(number)
    for device in devices_for(number, pytestconfig.getoption("every_test")):
        compare(batch, device)


@pytest.mark.parametrize("rules", [oracle.WrapAtTheEnd, oracle.TruncatingDivision], ids=lambda r: r.__name__)
def test_a_naive_oracle_disagrees(rules: type[oracle.Arithmetic]) -> None:
    """The control: an oracle with one wrong rule differs on many programs from what the device stores."""
    disagreeing = total = 0
    for number in (0, 1):
        batch = make_batch(number)
        found = launch(batch.source(), str(number), batch.columns, "cpu")
        for program in batch.programs:
            try:
                naive = evaluate(program, batch.columns, rules)
            except (oracle.ConstraintBroken, oracle.TooLarge):
                continue  # the wrong values led it astray: not counted as a disagreement
            total += 1
            disagreeing += any((naive[n][program.row] != found[n][program.row]).any() for n in OUTPUTS)
    assert total > PROGRAMS_PER_BATCH and disagreeing > total / 5, f"{disagreeing} of {total}"


def test_what_the_oracle_rejects_is_a_type_error() -> None:
    """TYPE-3, LIT-3 and TYPE-6: a signed operand that meets u64 anywhere is refused before anything runs."""
    columns = generator.inputs("rejected")
    refused = 0
    for attempt in range(120):
        program = generator.program(f"rejected.{attempt}", 0)
        try:
            evaluate(program, columns)
        except oracle.Rejected:
            with pytest.raises(TypeError, match="u64"):
                launch(program.source(), f"rejected {attempt}", columns, "reference")
            refused += 1
        except oracle.ConstraintBroken:
            pass
    assert refused >= 15


def test_a_failure_names_the_seed_and_shows_the_program() -> None:
    """The comparison itself: one wrong element in one row is found, and reported with its source."""
    batch = make_batch(0)
    found = {name: array.copy() for name, array in batch.expected.items()}
    found["y_i64"][3, 5] += 1
    (report,) = differences(batch, found)
    assert f"seed {batch.programs[3].seed}" in report and "y_i64[5]" in report and "@tack.kernel" in report
