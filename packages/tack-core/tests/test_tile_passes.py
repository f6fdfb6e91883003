"""Passes over the lanes of a workgroup as lanes of vectors, and rows of tiles in step: the bits of one lane at a time.

Oracles: NumPy in the order of the program, and the scalar variant of the same generator, which `test_workgroups.py` and
`test_workgroup_differential.py` hold to Python threads. Rules: GRP-4 to GRP-9, ATOM-6.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import test_workgroup_differential as programs
from kernel_text import run_text
from lane_rig import Compiled, same_bits, typed_ir
from tack.codegen.lane_cost import vector_unit
from tack.codegen.tile_plan import below_group
from tack.lang import ir
from tack.lang.intervals import Intervals
from tack.lang.serial_workgroups import serialise_workgroups
from tack.lang.types import DTYPES, DType, i8, i32, i64
from tack.lang.workgroups import split_workgroups
from typed_ir import assign, binary, cast, const, var

CUTS = (0.3, 0.61)
AVX2 = vector_unit("znver3", "+avx2,+fma")


def serial(kernel: Any, *args: Any) -> ir.IRKernel:
    return serialise_workgroups(split_workgroups(typed_ir(kernel, *args)))


def compare(kernel: Any, *args: Any, widths: tuple[int | None, ...] = (None, 8)) -> list[Any]:
    """What scalar code gives, after every width has given the same."""
    tree = serial(kernel, *args)
    want = Compiled(tree, 1)(*args)
    for width in widths:
        variant = Compiled(tree, width, disjoint=True, cuts=CUTS)
        assert variant.plans, "control: passes run as lanes"
        assert same_bits(variant(*args), want), width
    return want


TILED = """
@tack.kernel(group={tile} * {tile})
def main(a, b, c, tiles, n):
    left = tack.shared(({tile}, {tile}), tack.{dtype})
    right = tack.shared(({tile}, {tile}), tack.{dtype})
    for i in range(n):
        group = i // ({tile} * {tile})
        y = tack.thread_id() // {tile}
        x = tack.thread_id() % {tile}
        row = group // tiles * {tile} + y
        column = group % tiles * {tile} + x
        total = tack.{dtype}(0)
        for t in range(tiles):
            left[y, x] = a[row, t * {tile} + x]
            right[y, x] = b[t * {tile} + y, column]
            tack.barrier()
            for k in range({tile}):
                total += left[y, k] * right[k, x]
            tack.barrier()
        c[row, column] = total
"""


@pytest.mark.parametrize("tile", [8, 16])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_product_of_tiles(dtype: DType, tile: int) -> None:
    main, rng, n = run_text(TILED.format(tile=tile, dtype=dtype.name))["main"], np.random.default_rng(1), 3 * tile
    a, b = ((rng.random((n, n)) * 100 - 50).astype(dtype.numpy) for _ in range(2))
    got = compare(main, a, b, np.zeros((n, n), dtype.numpy), 3, n * n)[2]
    want = np.zeros((n, n), dtype.numpy)
    for k in range(n):
        want += a[:, k, None] * b[k]
    assert got.tobytes() == want.tobytes()


def test_rows_of_a_tile_with_bounds_of_their_own() -> None:
    text = TILED.format(tile=8, dtype="i32").replace("for k in range(8)", "for k in range(y, y + 20)")
    text = text.replace("tack.thread_id()", "tack.i64(tack.thread_id())").replace("y, k]", "y, k & 7]")
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, (8, 8), np.int32) for _ in range(2))
    text = text.replace("right[k, x]", "right[k & 7, x] + right[0, x]")  # the last is the same for all rows
    got = compare(run_text(text)["main"], a, b, np.zeros((8, 8), np.int32), 1, 64)[2]
    element = [[sum(a[y, k & 7] * b[k & 7, x] + b[0, x] for k in range(y, y + 20)) for x in range(8)] for y in range(8)]
    want = np.array(element)
    assert np.array_equal(got, want)


def test_rows_of_a_tile_go_in_step_and_load_vectors() -> None:
    a = np.zeros((32, 32), np.float32)
    tree = serial(run_text(TILED.format(tile=16, dtype="f32"))["main"], a, a, a, 2, 1024)
    variant = Compiled(tree, None, disjoint=True, unit=AVX2)
    assert [plan.width for plan in variant.plans] == [16]
    assert "total%3" in variant.plans[0].types(variant.tree) or any("total%3" in n for n in names(variant.plans[0]))
    assert "gather" not in variant.text, "the column of a lane is known not to wrap at 32 bits"


def names(plan: Any) -> set[str]:
    return {node.name for node in ir.walk(plan.loop.body) if isinstance(node, ir.IRAssign)}


REGION = """
@tack.kernel(group=32)
def main(a, out, n, m):
    near = tack.shared(32, tack.f32)
    count = tack.shared(32, tack.i32)
    for i in range(n):
        t = tack.thread_id()
        near[t] = a[i]
        count[t] = 0
        tack.barrier()
        total = tack.f32(0)
        for k in range(min(m, n - i // 32 * 32)):
            {body}
        out[i] += total
        tack.barrier()
        out[i] += tack.f32(count[t])
"""
BODIES = [
    "total += near[k] * near[t]",
    "total += near[k] * near[t] if k != t else 0.25",
    "if k == t:\n                continue\n            total += near[k]",
    "if near[k] > near[t]:\n                break\n            total += near[k]",
    "for j in range(t % 5):\n                total += near[(j + k) % 20]",
    "while total < near[k]:\n                total += 0.5",
    "x = t * 268435456\n            total += near[((x >> 28) & 15)] + a[(tack.i64(x) >> 28) & 15]",
    "x = tack.i8(t * 5)\n            total += a[tack.i64(x) + 128]",
    "t2 = t * 3 + k\n            total += a[t2 % 20] * near[tack.i64(t2) % 20]",
]


@pytest.mark.parametrize("body", BODIES)
def test_loops_in_regions(body: str) -> None:
    a = (np.random.default_rng(2).random(256) * 8).astype(np.float32)
    main = run_text(REGION.format(body=body))["main"]
    for n in (0, 1, 32, 33, 187):
        compare(main, a, np.zeros(256, np.float32), n, 20)


def test_products_in_a_region() -> None:
    """Against NumPy."""
    a = (np.random.default_rng(3).random(200) * 8).astype(np.float32)
    got = compare(run_text(REGION.format(body=BODIES[0]))["main"], a, np.zeros(200, np.float32), 190, 20)[1]
    for i in range(190):
        near, total = a[i // 32 * 32 :], np.float32(0)
        for k in range(min(20, 190 - i // 32 * 32)):
            total += near[k] * a[i]
        assert got[i] == total


def test_updates_of_shared_arrays_take_turns() -> None:
    body = "tack.atomic_add(count, k % 3, 1)"
    tree = serial(run_text(REGION.format(body=body))["main"], np.zeros(99, np.float32), np.zeros(99, np.float32), 99, 9)
    for width in (None, 8):
        got = Compiled(tree, width, disjoint=True)(np.zeros(99, np.float32), np.zeros(99, np.float32), 99, 9)[1]
        assert list(got[:4]) == [96, 96, 96, 0]


LOCAL = """
@tack.kernel(group=32)
def main(a, out, n, m):
    count = tack.shared(2, tack.i32)
    for i in range(n):
        mine = tack.local(2, tack.f32)
        mine[0] = a[i]
        mine[1] = 1.0
        tack.atomic_add(count, i % 2, 1)
        tack.barrier()
        for k in range(m):
            mine[1] += mine[0] * a[k]
        out[i] = mine[1]
"""


def test_local_arrays_of_a_scalar_pass_and_of_lanes() -> None:
    a = (np.random.default_rng(4).random(200) * 8).astype(np.float32)
    got = compare(run_text(LOCAL)["main"], a, np.zeros(200, np.float32), 75, 9)[1]
    for i in range(75):
        total = np.float32(1)
        for k in range(9):
            total += a[i] * a[k]
        assert got[i] == total


@pytest.mark.parametrize("seed", range(0, programs.PROGRAMS, 2))
def test_random_programs(seed: int) -> None:
    writer_text = programs.program(seed)
    main = run_text(writer_text.replace("def k(", "@tack.kernel(group=8)\ndef k("))["k"]
    rng = random.Random(seed)
    a = np.array([rng.randint(0, 50) for _ in range(27)], np.int32)
    args = a, np.zeros(27, np.int32), np.zeros(27, np.int32), 27, 3
    tree = serial(main, *args)
    want = Compiled(tree, 1)(*args)
    for width in (None, 4):
        assert same_bits(Compiled(tree, width, disjoint=True)(*args), want), f"seed {seed}:\n{writer_text}"


def test_the_number_of_lanes_is_not_below_the_group() -> None:
    """It equals the size of a full workgroup; only the variables of loops over lanes are below it."""
    a = np.zeros((64, 64), np.float32)
    tree = serial(run_text(TILED.format(tile=16, dtype="f32"))["main"], a, a, a, 2, 1024)
    known = below_group(tree)
    assert "%lanes" in tree.symbols and "%lanes" not in known
    assert {"%lane", "%high", "%low"} <= set(known) and set(known.values()) == {256}


def test_intervals() -> None:
    low = var("low", i64)
    body = [assign("x", cast(low, i32)), assign("y", binary("*", var("x", i32), const(3, i32))),
            assign("z", binary("+", var("z", i32), const(1, i32)))]  # fmt: skip
    of = Intervals(body, {"low": 100}, set()).of
    assert of(var("y", i32)) == (0, 297)
    assert of(binary("-", var("y", i32), var("x", i32))) == (-99, 297)
    assert of(cast(var("y", i32), i64)) == (0, 297)
    assert of(cast(var("y", i32), i8)) is None, "297 is none"
    assert of(binary("*", var("y", i32), const(1 << 24, i32))) is None
    assert of(var("z", i32)) is None
    assert Intervals(body, {"low": 100}, {"x"}).of(var("y", i32)) is None, "x may be read before"
