"""Workgroups in the text of every dialect, run on the host with a fiber for each lane, under the sanitizer.

Oracles: the same function run by Python threads (`lanes_oracle`), sums by the tree of rule GRP-9 in NumPy, exact
integers. Rules GRP-*, ATOM-6. Then two faults planted in the generator: a region without its guard, and no barriers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tack
import test_atomics
import test_block_reductions as reductions
import test_workgroups as rules
from dialects import ATOMIC_TYPES, each_dialect, make, needs_compiler, zeros
from lanes_oracle import run_lanes
from rigs.host_run import run_on_host
from tack.codegen.c_workgroups import WorkgroupEmitter

pytestmark = needs_compiler

GROUP = 8


def agrees(dialect: str, function: Callable[..., Any], *args: Any) -> bool:
    """Whether every array is the same after the dialect's text as after the threads of the oracle."""
    given, wanted = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    run_on_host(dialect, tack.kernel(function, group=GROUP), *given)
    run_lanes(function, GROUP, *wanted)
    pairs = zip(given, wanted, strict=True)
    return all(np.array_equal(got, want) for got, want in pairs if isinstance(got, np.ndarray))


def out(n: int = 13) -> Any:
    return rules.zeros(n)


PROGRAMS: list[tuple[Any, ...]] = [
    (rules.flat_lanes, np.zeros((3, 7), np.int32), np.zeros((3, 7), np.int32), 3, 7),
    (rules.keep_locals, rules.ints(13), rules.zeros(13, np.int64), 13, 2),
    (rules.pass_arrays, rules.ints(16), out(16), 16),
    (rules.uniform_control, rules.ints(13), out(), 13, 7, 5),
    (rules.block_control, rules.ints(13), out(), 13),
    (rules.in_functions, rules.ints(16), out(16), 16),
    (rules.several_loops, rules.ints(16), out(16), out(16), 16),
]


@each_dialect
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].__name__)
def test_programs_agree_with_threads(dialect: str, program: tuple[Any, ...]) -> None:
    """Barriers, locals and local arrays across regions, uniform control, device functions, several loops."""
    assert agrees(dialect, *program)


@each_dialect
def test_block_reductions_have_the_bits_of_the_tree(dialect: str) -> None:
    """GRP-9, GRP-10: two workgroups, the last one not full; NaN, and zeros of both signs."""
    rng = np.random.default_rng(4)
    a = (rng.standard_normal(45) * 2.0 ** rng.integers(-20, 20, 45)).astype(np.float32)
    kernel = reductions.small_groups
    sums, least, most = (np.zeros(45, np.float32) for _ in range(3))
    run_on_host(dialect, kernel, a, sums, least, most)
    for start in (0, 32):
        part, lanes = a[start : start + 32], slice(start, start + 32)
        assert set(reductions.bits(sums[lanes])) == set(reductions.bits([reductions.tree_sum(part, 32)]))
        assert set(least[lanes].tolist()) == {part.min().item()}
        assert set(most[lanes].tolist()) == {part.max().item()}
    a[:32], a[40] = np.tile(np.array([0.0, -0.0], np.float32), 16), np.nan
    run_on_host(dialect, kernel, a, sums, least, most)
    assert np.signbit(least[:32]).all() and not np.signbit(most[:32]).any()
    assert np.isnan(least[32:]).all() and np.isnan(most[32:]).all() and np.isnan(sums[32:]).all()


@each_dialect
def test_atomics_on_shared_arrays(dialect: str) -> None:
    """ATOM-6, ATOM-7: at every type; sums, extrema, and a product by compare-and-swap in a device function."""
    names = ATOMIC_TYPES[dialect]
    loops = []
    for t in names:
        body = (
            f"box{t} = tack.shared(3, tack.{t})\nlane = tack.thread_id()\nif lane < 3:\n    box{t}[lane] = 7\n"
            f"tack.barrier()\ntack.atomic_add(box{t}, 0, i + 1)\ntack.atomic_max(box{t}, 1, i)\n"
            f"tack.atomic_exchange(box{t}, 2, 5)\ntack.barrier()\n"
            f"if lane < 3:\n    o{t}[i // 256 * 3 + lane] = box{t}[lane]"
        )
        loops.append(("i in range(300)", body))
    given = [zeros(6, t) for t in names]
    run_on_host(dialect, make(", ".join(f"o{t}" for t in names), *loops), *given)
    want = [7 + sum(range(1, 257)), 255, 5, 7 + sum(range(257, 301)), 299, 5]
    assert [array.tolist() for array in given] == [want] * len(names)
    factors = (np.arange(32) * 2 + 3).astype(np.uint32)
    cell, old = np.ones(2, np.uint32), np.zeros(32, np.uint32)
    run_on_host(dialect, test_atomics.shared_products, cell, factors, old)
    for half in (0, 1):
        product = 1
        for factor in factors[half::2].tolist():
            product = product * factor % 2**32
        assert cell[half] == product


# --- Planted faults -------------------------------------------------------------------------------------------------


@each_dialect
def test_a_region_without_its_guard_has_effects_past_the_end(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GRP-5: lanes past the end count themselves."""
    kernel = tack.kernel(rules.count_lanes, group=GROUP)
    counter = np.zeros(1, np.int32)
    run_on_host(dialect, kernel, counter, 13)
    assert counter[0] == 13
    monkeypatch.setattr(WorkgroupEmitter, "_lane_inside", lambda self, flat: "1")
    counter[0] = 0
    run_on_host(dialect, kernel, counter, 13)
    assert counter[0] == 16


@each_dialect
def test_a_missing_barrier_gives_other_numbers(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GRP-4: a lane reads what its neighbour has not stored yet; and a reduction, what is not combined yet."""
    assert agrees(dialect, rules.rotate, rules.ints(13, 100), out())
    monkeypatch.setattr(WorkgroupEmitter, "_barrier", lambda self: None)
    assert not agrees(dialect, rules.rotate, rules.ints(13, 100), out())
    a, found = np.ones(32, np.float32), [np.zeros(32, np.float32) for _ in range(3)]
    run_on_host(dialect, reductions.small_groups, a, *found)
    assert not (found[0] == 32).all()
