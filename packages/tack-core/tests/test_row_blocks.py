"""Iterations that run several in step: the same bits as one by one, for any number of rows, lengths and cuts.

Oracles: NumPy, a row or an element at a time in the order of the program; Python loops; and, for random kernels, the
scalar variant of the same generator and the reference device. Rules: LOOP-3, LOOP-4, LOOP-6, LOOP-13, MEM-4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from differential.row_generator import program
from kernel_text import run_text
from lane_rig import Compiled, host_unit, same_bits, typed_ir
from tack.codegen import row_plan
from tack.codegen.lane_cost import VectorUnit, vector_unit
from tack.codegen.llvm_gen import LLVMCodeGen
from tack.lang import ir
from tack.lang.types import DTYPES, DType
from tack.runtime.backend import VariantOptions

CUTS = (0.2, 0.61)
AVX512 = vector_unit("x", "+avx512f,+avx512bw,+avx512dq,+avx512vl")
AVX2 = vector_unit("znver3", "+avx2,+fma")


@tack.kernel
def product(a, b, c):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0
        for k in range(a.shape[1]):
            factor = a[i, k]
            for j in range(c.shape[1]):
                c[i, j] += factor * b[k, j]


def numbers(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return (rng.random(shape) - 0.5).astype(dtype.numpy)
    return rng.integers(dtype.min, dtype.max, shape, dtype.numpy, endpoint=True)


def product_by_numpy(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Each element adds in the order of k, and rounds as often."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    with np.errstate(over="ignore"):
        for k in range(a.shape[1]):
            total += a[:, k, None] * b[k]
    return total


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_product_of_any_shape_and_type(dtype: DType) -> None:
    tree = typed_ir(product, *(numbers(dtype, (2, 2), seed) for seed in range(3)))
    variant = Compiled(tree, None, disjoint=True, cuts=CUTS)
    assert variant.row_plans, "control: rows run in step"
    for rows, inner, columns in [(0, 3, 3), (1, 0, 3), (1, 1, 1), (3, 2, 0), (4, 5, 1), (9, 6, 17), (14, 3, 70)]:
        a, b = numbers(dtype, (rows, inner), 1), numbers(dtype, (inner, columns), 2)
        (*_, c) = variant(a, b, numbers(dtype, (rows, columns), 3))
        assert c.tobytes() == product_by_numpy(a, b).tobytes(), (rows, inner, columns)


@pytest.mark.parametrize("unit", [AVX2, AVX512], ids=lambda u: u.name)
@pytest.mark.parametrize("disjoint", [False, True])
def test_rows_only_where_arrays_are_apart_and_lanes_never(unit: VectorUnit, disjoint: bool) -> None:
    tree = typed_ir(product, *(np.zeros((2, 2), np.float32) for _ in range(3)))
    generator = LLVMCodeGen(tree, VariantOptions(disjoint=disjoint), unit)
    generator.source()
    assert [plan.rows for plan in generator.row_plans] == [4] * disjoint
    assert not generator.plans, "lanes would gather and scatter"


SUMS = """
@tack.kernel
def main(a, x, y):
    for i in range(y.shape[0]):
        total = y[i]
        for j in range({bounds}):
            {body}
        y[i] = total
"""


@pytest.mark.parametrize(
    ("bounds", "body", "dtype", "rows", "lanes"),
    [
        ("a.shape[1]", "total += a[i, j] * x[j]", np.float32, 1, 0),
        ("a.shape[1]", "total += a[i, j]", np.float64, 1, 0),
        ("a.shape[1]", "total += a[i, j]", np.int32, 0, 0),
        ("a.shape[1]", "total += x[j]", np.float32, 0, 1),
        ("a.shape[1]", "total += a[j, i]", np.float32, 0, 1),
        ("3", "total += a[i, j]", np.float32, 0, 1),
        ("9", "total += x[i % 2 + j]", np.float32, 0, 1),
        ("4, 20", "total += x[i + j] * a[0, j - 4]", np.float32, 0, 1),
        ("i * 3, min(i * 3 + 3, x.shape[0])", "total += x[j]", np.int32, 0, 0),
        ("i * 3, min(i * 3 + 3, x.shape[0])", "total += x[j]", np.float32, 0, 1),
    ],
)
def test_sums_along_rows(bounds: str, body: str, dtype: Any, rows: int, lanes: int) -> None:
    """Floats in step, integers by LLVM's vectors, and lanes where these load side by side, or lanes would part."""
    main, rng = run_text(SUMS.format(bounds=bounds, body=body))["main"], np.random.default_rng(7)
    a, x, y = ((rng.random(shape) * 100).astype(dtype) for shape in ((18, 18), (40,), (18,)))
    tree = typed_ir(main, a, x, y)
    generator = LLVMCodeGen(tree, VariantOptions(disjoint=True), AVX512)
    generator.source()
    assert (len(generator.row_plans), len(generator.plans)) == (rows, lanes)
    variant = Compiled(tree, None, disjoint=True, cuts=CUTS)
    assert same_bits(variant(a, x, y), Compiled(tree, 1)(a, x, y))
    if bounds == "a.shape[1]" and "a[i, j]" in body:
        want = y.copy()
        for j in range(18):
            want += a[:, j] * x[j] if "x[j]" in body else a[:, j]
        assert variant(a, x, y)[2].tobytes() == want.tobytes()


def test_stores_along_rows_are_never_scattered() -> None:
    body = "value = a[i, j]\n            a[i, j] = total\n            total += value"
    main = run_text(SUMS.format(bounds="a.shape[1]", body=body))["main"]
    tree = typed_ir(main, np.zeros((2, 2), np.int32), np.zeros(2, np.int32), np.zeros(2, np.int32))
    for disjoint in (False, True):
        generator = LLVMCodeGen(tree, VariantOptions(disjoint=disjoint), AVX512)
        generator.source()
        assert not generator.plans


@tack.kernel
def update(a, b, c):
    for i in range(c.shape[0]):
        for k in range(a.shape[1]):
            factor = a[i, k]
            for j in range(c.shape[1]):
                c[i, j] += factor * b[k, j]


def test_arguments_that_overlap() -> None:
    n = 11
    a, b = numbers(tack.i32, (n, n), 1), numbers(tack.i32, (n, n), 2)
    want = a.copy()
    for i in range(n):
        for k in range(n):
            factor = int(want[i, k])
            for j in range(n):
                want[i, j] = (int(want[i, j]) + factor * int(b[k, j]) + 2**31) % 2**32 - 2**31
    apart = a.copy()
    update(apart, b, apart)
    assert np.array_equal(apart, want), "a is c: each row is read and written by its own iteration"
    whole = np.concatenate([a, b])
    update(whole[:n], whole[n:], whole[:n])
    assert np.array_equal(whole[:n], want)


JUMPS = """
@tack.kernel
def main(m, a, b, c):
    before = m * 2
    {loop}:
        last = 5
        for k in range(a.shape[1]):
            {first}
            factor = a[i, k] + before
            last = k
            for j in range(c.shape[2]):
                c[p, i, j] += factor * b[k, j]
            {second}
            before += k
        c[p, i, 0] += before * 100 + last
"""
PASS = "last = k"
STATEMENTS = [
    (PASS, PASS, True),
    ("if k == m:\n                break", PASS, True),
    ("if k % 3 == 1:\n                before += 1\n                continue", PASS, True),
    (PASS, "if 1 < k < 4 and b[k, 0] > 3:\n                last = 7\n                break", True),
    (PASS, "k += 2\n            before += k", True),
    (PASS, "while last > 3:\n                last -= 2", True),
    (PASS, "for q in range(a[i, k]):\n                if q == 2: break\n                last += q", True),
    ("if a[i, k] == 0:\n                continue", PASS, False),
    (PASS, "if a[i, k] > 5:\n                break", False),
    ("own = tack.local(2, tack.i64)\n            own[0] = k", PASS, False),
    ("tack.atomic_add(c, (p, i, 0), 1)", PASS, False),
]  # fmt: skip


@pytest.mark.parametrize(
    "loop", ["for p, i in tack.ndrange(2, (1, c.shape[1]))", "p = 1\n    for i in range(1, c.shape[1], 3)"]
)
@pytest.mark.parametrize(("first", "second", "together"), STATEMENTS)
def test_jumps_and_locals(first: str, second: str, together: bool, loop: str) -> None:
    main = run_text(JUMPS.format(first=first, second=second, loop=loop))["main"]
    rng = np.random.default_rng(5)
    a, b, c = rng.integers(0, 9, (23, 7)), rng.integers(0, 9, (7, 19)), np.zeros((2, 23, 19), np.int64)
    tree = typed_ir(main, 4, a, b, c)
    variant = Compiled(tree, None, disjoint=True, cuts=CUTS)
    assert bool(variant.row_plans) == together
    with tack.device("reference"):
        arrays = [tack.asarray(x) for x in (a, b, c)]
        main(4, *arrays)
    assert np.array_equal(variant(4, a, b, c)[3], arrays[2].numpy())


ENDED_EARLY = """
@tack.kernel
def main(m, a, b, c):
    for i in range(c.shape[0]):
        if m == 1:
            continue
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
        if m == 2:
            c[i, 0] = 7
            continue
        c[i, 0] += 100
"""


@pytest.mark.parametrize("m", [0, 1, 2])
def test_iterations_that_all_end_early(m: int) -> None:
    main, rng = run_text(ENDED_EARLY)["main"], np.random.default_rng(3)
    a, b = rng.integers(0, 9, (11, 7)), rng.integers(0, 9, (7, 19))
    c = np.zeros((11, 19), np.int64)
    variant = Compiled(typed_ir(main, m, a, b, c), None, disjoint=True, cuts=CUTS)
    assert variant.row_plans
    want = c if m == 1 else a @ b
    if m != 1:
        want[:, 0] = 7 if m == 2 else want[:, 0] + 100
    assert np.array_equal(variant(m, a, b, c)[3], want)


ROW_PROGRAMS = 30
REFERENCE_EVERY = 3


def innermost(body: list[ir.IRStmt], shapes: Any) -> list[ir.IRFor]:
    """Every serial loop that has no other inside and that all iterations run alike."""
    loops = [n for n in ir.walk(body) if isinstance(n, ir.IRFor) and not shapes.is_divergent(n)]
    return [n for n in loops if not any(isinstance(x, ir.IRFor | ir.IRWhile) for x in ir.walk(n.body))]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Rows wherever they are possible."""
    monkeypatch.setattr(row_plan, "row_loops", innermost)
    return monkeypatch


def random_case(seed: int) -> tuple[Any, ir.IRKernel, list[Any], str]:
    rng, text = np.random.default_rng(seed), program(seed)
    x = (rng.random((37, 4)) * 8 - 2).astype(np.float32)
    t = rng.integers(-20, 60, 64).astype(np.int32)
    n = int(rng.integers(0, 37))
    args = [n, int(rng.integers(0, 7)), x, t, np.zeros((37, 8), np.int32), np.zeros((37, 8), np.float32)]
    main = run_text(text)["main"]
    return main, typed_ir(main, *args), args, text


@pytest.mark.parametrize("seed", range(ROW_PROGRAMS))
def test_random_nests(seed: int, eager: pytest.MonkeyPatch) -> None:
    main, tree, args, text = random_case(seed)
    eager.setattr(row_plan, "_count", lambda loop: 2 + seed % 4)
    want = Compiled(tree, 1)(*args)
    variant = Compiled(tree, None, disjoint=True, cuts=CUTS)
    assert same_bits(variant(*args), want), f"seed {seed}:\n{text}"
    if seed % REFERENCE_EVERY == 0:
        with tack.device("reference"):
            arrays = [tack.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
            main(*arrays)
        assert np.array_equal(arrays[4].numpy(), want[4]), f"seed {seed}:\n{text}"


def test_most_random_nests_run_in_rows(eager: pytest.MonkeyPatch) -> None:
    """Control: the test above is about rows."""
    eager.setattr(row_plan, "_count", lambda loop: 4)
    plans = 0
    for seed in range(ROW_PROGRAMS):
        generator = LLVMCodeGen(random_case(seed)[1], VariantOptions(disjoint=True), host_unit())
        generator.source()
        plans += len(generator.row_plans)
    assert plans > ROW_PROGRAMS // 3
