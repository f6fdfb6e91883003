"""Arguments that are views of one buffer, shifted by elements or rows, apart or the same: the bits of plain loops.

Oracle: the kernel's text run by Python over NumPy's elements in the order of the program, which also finds programs
whose iterations conflict; these have no one answer and are left out. Rules: LOOP-3, LOOP-4, MEM-4.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from differential.view_generator import Program, Views, program, run, views
from kernel_text import run_text
from lane_rig import Compiled, typed_ir
from tack.codegen import llvm_streams, row_plan
from tack.codegen.lane_cost import vector_unit
from tack.lang.kernel import Kernel
from tack.runtime.dispatch import prepare
from tack.runtime.llvm_jit import compiler
from test_row_blocks import innermost

PROGRAMS = 20
REFERENCE_EVERY = 4
PLACES = 6  # of the arrays of one program
TRIES = 40
CUTS = (0.2, 0.61)
PAST = vector_unit(compiler().cpu, compiler().features, 1)  # with caches of one byte, if it can go past them
ELEMENTS = (np.int32, np.float32, np.int16)


@dataclass
class Case:
    """A call: the arrays lie in a buffer that holds `before`, and `want` in the end."""

    n: int
    m: int
    places: Views
    before: np.ndarray[Any, Any]
    want: np.ndarray[Any, Any]

    def arguments(self, buffer: np.ndarray[Any, Any]) -> tuple[Any, ...]:
        return self.n, self.m, *self.places.of(buffer)

    def is_right(self, runner: Any) -> bool:
        buffer, dtype = self.before.copy(), self.places.dtype
        runner(*self.arguments(buffer))
        return np.array_equal(buffer.view(dtype), self.want.view(dtype), equal_nan=dtype is np.float32)


def find_case(made: Program, rng: random.Random, dtype: Any) -> Case | None:
    """A random call; None if iterations conflict in it."""
    n, m = rng.choice((1, 2, 4, 5, 7, 9)), rng.choice((9, 17, 36, 67))
    if made.square:
        n = m = 9
    places = views(rng, made.dims, n, m, dtype)
    numbers = np.random.default_rng(rng.randint(0, 99))
    before = numbers.integers(0, 256, places.size, np.uint8)
    if dtype is np.float32:
        before = (numbers.random(places.size // 4, dtype) * 4 - 2).view(np.uint8)
    want = before.copy()
    return Case(n, m, places, before, want) if run(made.text, n, m, places, want) else None


@functools.lru_cache
def random_cases(seed: int) -> tuple[Kernel, str, list[Case]]:
    rng, made = random.Random(seed), program(seed)
    tried = (find_case(made, rng, ELEMENTS[seed % len(ELEMENTS)]) for _ in range(TRIES))
    return run_text(made.text)["main"], made.text, [case for case in tried if case][:PLACES]


def is_disjoint(main: Kernel, case: Case) -> bool:
    """What the runtime finds; arrays that no byte is shared by must be so."""
    lowering, call = prepare(main).bind(case.arguments(case.before), {})
    found = call.is_disjoint(lowering.written)
    assert found or not case.places.are_apart()
    return found


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in step and stores past the caches wherever they are possible."""
    monkeypatch.setattr(row_plan, "row_loops", innermost)
    monkeypatch.setattr(row_plan, "_count", lambda loop: 4)
    monkeypatch.setattr(llvm_streams, "_LEAST_ROW", 4)


def variants(main: Kernel, case: Case, disjoint: bool, lanes: int) -> list[Compiled]:
    """As chosen, with stores past the caches, and as lanes."""
    tree = typed_ir(main, *case.arguments(case.before))
    return [
        Compiled(tree, None, disjoint, cuts=CUTS),
        Compiled(tree, None, disjoint, PAST, CUTS, streaming=bool(PAST.caches)),
        Compiled(tree, lanes, disjoint, cuts=CUTS),
    ]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_views_of_one_buffer(seed: int, eager: None) -> None:
    main, text, cases = random_cases(seed)
    made: dict[bool, list[Compiled]] = {}
    for case in cases:
        disjoint = is_disjoint(main, case)
        if disjoint not in made:
            made[disjoint] = variants(main, case, disjoint, (4, 8, 16, 32)[seed % 4])
        for runner in (main, *(variant.in_place for variant in made[disjoint])):
            assert case.is_right(runner), f"seed {seed}, {case.n}, {case.m}, {case.places}:\n{text}"
        if seed % REFERENCE_EVERY == 0:
            with tack.device("reference"):
                assert case.is_right(main), f"seed {seed}, {case.n}, {case.m}, {case.places}:\n{text}"


def test_promises_that_do_not_hold(eager: None) -> None:
    """Controls: there are views that overlap and views that do not, rows, lanes and stores past the caches; code that
    takes overlapping arrays to be apart is wrong for some."""
    together = apart = wrong = rows = lanes = past = 0
    for seed in range(PROGRAMS):
        main, _, cases = random_cases(seed)
        overlapping = [case for case in cases if not is_disjoint(main, case)]
        together, apart = together + len(overlapping), apart + len(cases) - len(overlapping)
        if not cases:
            continue
        forced = variants(main, cases[0], True, 16)
        rows, lanes = rows + len(forced[0].row_plans), lanes + len(forced[2].plans)
        past += "!nontemporal" in forced[1].text
        wrong += sum(not case.is_right(variant.in_place) for case in overlapping for variant in forced)
    assert together >= PROGRAMS and apart >= PROGRAMS / 2, (together, apart)
    assert rows >= 3 and lanes >= 5 and past >= 2 * bool(PAST.caches), (rows, lanes, past)
    assert wrong > 0


@tack.kernel
def along(p, q):
    for i in range(p.shape[0]):
        for k in range(3):
            for j in range(4, p.shape[1] - 4):
                p[i, j] = q[i, j] ^ (k + j)


def test_rows_shifted_by_elements(eager: None) -> None:
    """Each row is read and written by its own iteration; with promises, a row that feeds itself comes out wrong."""
    wrong = {}
    forced = Compiled(typed_ir(along, *(np.zeros((2, 2), np.int32) for _ in range(2))), None, disjoint=True, cuts=CUTS)
    assert forced.row_plans
    for shift in range(-4, 5):
        before = np.random.default_rng(9).integers(0, 99, 9 * 40 + 8, np.int32)
        want, called, promised = before.copy(), before.copy(), before.copy()
        for i in range(9):
            for k in range(3):
                for j in range(4, 36):
                    want[4 + i * 40 + j] = want[4 + i * 40 + j + shift] ^ (k + j)
        for buffer, runner in ((called, along), (promised, forced.in_place)):
            runner(buffer[4:-4].reshape(9, 40), buffer[4 + shift : 364 + shift].reshape(9, 40))
        assert np.array_equal(called, want), shift
        wrong[shift] = not np.array_equal(promised, want)
    assert wrong[-1] and wrong[-3] and not wrong[0], wrong
