"""What the generators of C tell a runtime: plain data, from which the host computes the iterations without IR.

Oracles: Python's `range`, and `tack.lang.bounds.evaluate`, which evaluates the same bounds from IR. Rules LOOP-8,
LOOP-10 to LOOP-12.
"""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

from dialects import make
from rigs import host_run
from tack.codegen.launch_plan import ARRAY, RESULT, SCALAR, RangePlan
from tack.lang.bounds import evaluate
from tack.lang.types import BY_NAME, ArrayType, f32, f64, i16, i64, u8
from tack.runtime.launch_ranges import evaluate_bound, loop_space


def bound(expression: str) -> tuple[Any, Any]:
    """A bound in the parameters `a` (2-d), `n` and `m`, as IR and as the plan has it."""
    kernel = make("a, n, m", (f"i in range({expression})", "a[0] = i"))
    typed = host_run.type_for(kernel, (ArrayType(f32, 2), i64, i64))
    _, plan = host_run.generate("cuda", typed)
    return typed.body[0].ranges[0].stop, plan.loops[0].ranges[0].stop


@pytest.mark.parametrize(
    "expression",
    [
        "n",
        "7",
        "-n",
        "n + m * 3",
        "(n - 5) // m",
        "n % -m",
        "min(n, m, 4)",
        "max(n, a.shape[1])",
        "len(a)",
        "a.size",
        "a.ndim",
    ],
)
def test_bounds_agree_with_their_evaluation_from_ir(expression: str) -> None:
    from_ir, from_plan = bound(expression)
    array = np.zeros((3, 5), np.float32)
    for n, m in itertools.product((-7, 0, 3, 10), (-3, 1, 4)):
        want = evaluate(from_ir, {"a": array, "n": n, "m": m})
        assert evaluate_bound(from_plan, [0, n, m], [array.shape, (), ()]) == want
        assert want == eval(expression, {"a": array, "n": n, "m": m, "len": len, "min": min, "max": max})


@pytest.mark.parametrize(("error", "n"), [(OverflowError, 2**62), (ZeroDivisionError, 0)])
def test_bounds_without_a_value(error: type[Exception], n: int) -> None:
    from_ir, from_plan = bound("n * 4 // n")
    with pytest.raises(error):
        evaluate_bound(from_plan, [0, n, 1], [(3, 5), (), ()])
    with pytest.raises(error):
        evaluate(from_ir, {"a": np.zeros((3, 5)), "n": n, "m": 1})


def constants(*ranges: tuple[int, int, int]) -> list[RangePlan]:
    return [RangePlan(*(("const", value) for value in r)) for r in ranges]


EDGES = (-(2**63), -(2**62), -7, 0, 1, 5, 2**62, 2**63 - 1)


def test_counts_of_iterations_are_those_of_range() -> None:
    for start, stop, step in itertools.product(EDGES, EDGES, (1, 2, 7, 2**62)):
        count = (stop - start + step - 1) // step if start < stop else 0
        if count >= 2**63:
            with pytest.raises(OverflowError):
                loop_space(constants((start, stop, step)), [], [])
        else:
            space = loop_space(constants((start, stop, step)), [], [])
            assert space.total == space.trips[0] == count and (space.starts, space.steps) == ((start,), (step,))
        if stop - start < 100:
            assert count == len(range(start, stop, step))


def test_a_product_of_ranges() -> None:
    """LOOP-11: one empty dimension, or two, empty the loop, however large the others are."""
    assert loop_space(constants((1, 4, 1), (0, 10, 3)), [], []).total == 12
    assert loop_space(constants((0, 2**62, 1), (0, 2**62, 1), (5, 5, 1)), [], []).total == 0
    assert loop_space(constants((0, -1, 1), (3, -2, 1)), [], []).total == 0
    with pytest.raises(OverflowError):
        loop_space(constants((0, 2**32, 1), (0, 2**31, 1)), [], [])


def test_parameters_are_those_that_a_loop_uses_in_an_order_without_holes() -> None:
    """Addresses, then by size: a structure of the others needs no padding; and nothing in a plan needs IR."""
    head = "k = n + 1"
    loops = [("i in range(b.shape[0])", "b[i] = a[i, k] * s + t"), ("i, j in tack.ndrange((m, 9), 4)", "b[j] = i")]
    kernel = make("unused, a, n, b, m, s, t", *loops, head=head, tail="return n")
    types = (ArrayType(f64, 1), ArrayType(f32, 2), i16, ArrayType(f32, 1), i64, f64, u8)
    for dialect in ("cuda", "hip", "opencl"):
        text, plan = host_run.generate(dialect, host_run.type_for(kernel, types))
        assert pickle.loads(pickle.dumps(plan)) == plan
        first, second = plan.loops
        assert [p.position for p in first.parameters if p.kind == ARRAY] == [1, 3]
        assert [(p.position, p.dtype.name) for p in first.parameters if p.kind == SCALAR] == [
            (5, "f64"),
            (2, "i16"),
            (6, "u8"),
        ]
        # `n` too: what stands before the loops is computed again in each iteration.
        assert [p.position for p in second.parameters if p.kind in (ARRAY, SCALAR)] == [3, 2]
        assert plan.result is not None and [p.kind for p in plan.result.parameters] == [RESULT, SCALAR]
        for k in (*plan.loops, plan.result):
            assert f"void {k.name}(" in text
            sizes = [p.dtype.itemsize for p in k.parameters if not p.is_address]
            assert sizes == sorted(sizes, reverse=True)
        assert all(dtype is BY_NAME[dtype.name] for dtype in (p.dtype for p in first.parameters))
