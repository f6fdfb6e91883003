"""Statements, functions, bounds and printing in LLVM, from typed IR written by hand.

Rules: ATOM-1 to ATOM-4, LOOP-8, LOOP-11 to LOOP-13, EVAL-5, FUNC-2 to FUNC-4, MEM-6, CALL-2, INT-7.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tack.lang import ir
from tack.lang.types import DTYPES, ArrayType, DType, f32, f64, i8, i32, i64, u8, u64
from tack.runtime.backend import STATUS_BOUNDS_OVERFLOW, STATUS_BOUNDS_ZERO_DIVISION, STATUS_OK, VariantOptions
from tack.runtime.cpu_backend import CpuBackend
from tack.runtime.cpu_pool import pool
from typed_ir import (
    LOC,
    assign,
    atomic,
    binary,
    cast,
    const,
    each,
    host,
    kernel,
    launch,
    load,
    parallel,
    run,
    shape,
    span,
    store,
    unary,
    var,
)

# --- Atomics ---------------------------------------------------------------------------------------------------------

ATOMIC_ORACLE: dict[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "min": min, "max": max,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "exchange": lambda a, b: b,
}  # fmt: skip


# A floating element has no bit operations: TypeError when typed.
ATOMIC_CASES = [
    (op, t) for op in (*ATOMIC_ORACLE, "cas") for t in DTYPES if t.is_integer or op not in ("and", "or", "xor")
]


@pytest.mark.parametrize(("op", "dtype"), ATOMIC_CASES, ids=str)
def test_atomic(op: str, dtype: DType) -> None:
    """ATOM-1, ATOM-3, ATOM-4: new and old value for a signed pair, or one beyond the signed range."""
    start, operand = (-5.5, 2.25) if dtype.is_float else (-100, 90) if dtype.is_signed else (dtype.max - 1, 3)
    cell, old = np.array([7, start, 7], dtype.numpy), np.zeros(1, dtype.numpy)
    args = [const(start, dtype), const(operand, dtype)] if op == "cas" else [const(operand, dtype)]
    body = store("old", atomic(op, "cell", dtype, const(1), *args), var("i"))
    run(kernel({"cell": ArrayType(dtype, 1), "old": ArrayType(dtype, 1)}, each("old", body)), cell, old)
    new = operand if op == "cas" else ATOMIC_ORACLE[op](start, operand)
    assert old.tolist() == [start]
    assert cell.tolist() == [7, new if dtype.is_float else dtype.wrap(new), 7]


def test_cas_that_fails_leaves_the_cell() -> None:
    cell, old = np.array([1.5]), np.zeros(1)
    body = store("old", atomic("cas", "cell", f64, const(0), const(2.0, f64), const(9.0, f64)), var("i"))
    run(kernel({"cell": ArrayType(f64, 1), "old": ArrayType(f64, 1)}, each("old", body)), cell, old)
    assert (cell[0], old[0]) == (1.5, 1.5)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_atomic_adds_are_not_lost(dtype: DType) -> None:
    """ATOM-2, with enough iterations for every thread; each value stays exact in the type."""
    n = 200_000
    cells, work = np.zeros(5000, dtype.numpy), np.zeros(n, np.int8)
    bump = atomic("add", "cells", dtype, binary("%", var("i"), const(5000)), const(1, dtype))
    body = ir.IRExprStmt(loc=LOC, value=bump)
    run(kernel({"cells": ArrayType(dtype, 1), "work": ArrayType(i8, 1)}, each("work", body)), cells, work)
    assert set(cells.tolist()) == {n // 5000}


# --- Statements, functions, local arrays, results ---------------------------------------------------------------------


def for_loop(name: str, start: ir.IRExpr, stop: ir.IRExpr, step: ir.IRExpr, *body: ir.IRStmt) -> ir.IRFor:
    return ir.IRFor(loc=LOC, var=name, start=start, stop=stop, step=step, body=list(body))


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [
        (0, 5, 1), (5, 0, 1), (3, 3, 1), (0, 10, 3), (-7, 8, 5), (i64.max - 3, i64.max, 1), (i64.max - 3, i64.max, 2),
        (i64.min, i64.max, i64.max), (i64.max - 1, i64.max, 1), (i64.min, i64.min + 2, 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True])
def test_serial_range(start: int, stop: int, step: int, dynamic: bool) -> None:
    """EVAL-5, LOOP-12: a range up to the last i64 ends, and gives Python's values."""
    bounds = [load("b", i64, const(k)) if dynamic else const(v) for k, v in enumerate((start, stop, step))]
    body = [
        for_loop(
            "j",
            bounds[0],
            bounds[1],
            bounds[2],
            store("out", var("j"), var("n")),
            assign("n", binary("+", var("n"), const(1))),
        ),
        store("count", var("n"), const(0)),
    ]
    out, count, once = np.zeros(16, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int8)
    tree = kernel(
        {"b": ArrayType(i64, 1), "out": ArrayType(i64, 1), "count": ArrayType(i64, 1), "one": ArrayType(i8, 1)},
        each("one", *body),
    )
    run(tree, np.array([start, stop, step], np.int64), out, count, once)
    assert out[: count[0]].tolist() == list(range(start, stop, step))


def plus_one(name: str) -> ir.IRExpr:
    return binary("+", var(name), const(1))


def when(cond: ir.IRExpr, then: list[ir.IRStmt], other: list[ir.IRStmt] | None = None) -> ir.IRIf:
    return ir.IRIf(loc=LOC, cond=cond, then=then, other=other or [])


def test_loop_control() -> None:
    """LOOP-13: break and continue of nested loops, and an assigned loop variable, as in Python."""
    j, total = var("j"), var("total")
    body: list[ir.IRStmt] = [
        assign("total", const(0)),
        for_loop(
            "j", const(0), const(10), const(1),
            when(binary("==", j, const(3)), [ir.IRContinue(loc=LOC)]),
            when(binary("==", j, var("i")), [ir.IRBreak(loc=LOC)]),
            assign("total", binary("+", total, j)),
            assign("j", const(100)),
        ),
        ir.IRWhile(
            loc=LOC, cond=const(1, i32),
            body=[
                assign("total", binary("+", total, const(1000))),
                when(binary(">", total, const(2000)), [ir.IRBreak(loc=LOC)], [ir.IRContinue(loc=LOC)]),
            ],
        ),
        store("out", total, var("i")),
    ]  # fmt: skip
    out = np.zeros(12, np.int64)
    run(kernel({"out": ArrayType(i64, 1)}, each("out", *body)), out)

    def expected(i: int) -> int:
        total = 0
        for j in range(10):
            if j == 3:
                continue
            if j == i:
                break
            total += j
        while True:
            total += 1000
            if total > 2000:
                return total

    assert out.tolist() == [expected(i) for i in range(12)]


def function(name: str, params: dict[str, Any], results: tuple[DType, ...], *body: ir.IRStmt) -> ir.IRFunction:
    made = kernel(params, *body)
    return ir.IRFunction(name=name, loc=LOC, params=made.params, body=list(body), symbols=made.symbols, results=results)


def call(symbol: str, dtype: DType | None, *args: ir.IRExpr) -> ir.IRCall:
    return ir.IRCall(loc=LOC, callee=None, symbol=symbol, args=list(args), dtype=dtype)


def ref(name: str, type_: ArrayType) -> ir.IRArrayRef:
    return ir.IRArrayRef(loc=LOC, name=name, array_type=type_)


def give(*values: ir.IRExpr) -> ir.IRReturn:
    return ir.IRReturn(loc=LOC, values=list(values))


def test_device_functions() -> None:
    """FUNC-2, FUNC-3, FUNC-4: early returns, several results, arrays by reference, parameters by value."""
    vector = ArrayType(f64, 1)
    square_is_more = binary(">", binary("*", var("k"), var("k")), var("n"))
    search = for_loop("k", const(0), const(100), const(1), when(square_is_more, [give(var("k"))]))
    early = function("early", {"n": i64}, (i64,), search, give(const(-1)))
    both = give(binary("//", var("a"), var("b")), binary("%", var("a"), var("b")))
    divmod_ = function("divmod", {"a": i64, "b": i64}, (i64, i64), both)
    write = store("x", cast(var("k"), f64), binary("-", var("k"), const(1)))
    put = function("put", {"x": vector, "k": i64}, (), assign("k", plus_one("k")), write)
    i = var("i")
    body = [
        ir.IRExprStmt(loc=LOC, value=call("put", None, ref("x", vector), i)),
        ir.IRUnpack(loc=LOC, names=["q", "r"], call=call("divmod", None, unary("-", i), const(3))),
        store("out", binary("+", binary("*", var("q"), const(100)), var("r")), i),
        store("root", call("early", i64, i), i),
    ]
    x, out, root = np.zeros(6), np.zeros(6, np.int64), np.zeros(6, np.int64)
    tree = kernel(
        {"x": vector, "out": ArrayType(i64, 1), "root": ArrayType(i64, 1)},
        each("x", *body),
        functions={"early": early, "divmod": divmod_, "put": put},
    )
    run(tree, x, out, root)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    assert out.tolist() == [(-k // 3) * 100 + -k % 3 for k in range(6)]
    assert root.tolist() == [math.isqrt(k) + 1 for k in range(6)]


def test_local_arrays_and_tables() -> None:
    """MEM-6, CAP: private storage, passed by reference, and a constant table indexed at run time."""
    private = ArrayType(i64, 2, "private", (2, 3))
    add = assign("s", binary("+", var("s"), load("t", i64, var("a"), var("b"))))
    columns = for_loop("b", const(0), shape("t", 1), const(1), add)
    rows = for_loop("a", const(0), shape("t", 0), const(1), columns)
    total = function("total", {"t": private}, (i64,), assign("s", const(0)), rows, give(var("s")))
    product = binary("*", var("i"), load("table", i64, var("k")))
    body = [
        ir.IRLocalArray(loc=LOC, name="t", shape=(2, 3), element=i64),
        for_loop("k", const(0), const(6), const(1), store("t", product, var("k"))),
        store("out", call("total", i64, ref("t", private)), var("i")),
    ]
    tree = kernel({"out": ArrayType(i64, 1)}, each("out", *body), functions={"total": total})
    tree.tables["table"] = ir.IRTable(name="table", shape=(6,), values=(1, 2, 3, 4, 5, -6), dtype=i64)
    out = np.zeros(5, np.int64)
    run(tree, out)
    assert out.tolist() == [9 * k for k in range(5)]


@pytest.mark.parametrize(("dtype", "value"), [(i32, -7), (u8, 200), (u64, 2**64 - 1), (f64, 0.1), (f32, 2.5)], ids=str)
def test_trailing_result(dtype: DType, value: float) -> None:
    """CALL-2: after the last loop, from a parameter and an element that the loop wrote."""
    element = load("x", dtype, const(0))
    tree = kernel(
        {"x": ArrayType(dtype, 1), "v": dtype},
        each("x", store("x", var("v", dtype), var("i"))),
        ir.IRReturn(loc=LOC, values=[element]),
        results=(dtype,),
    )
    word = run(tree, np.zeros(2, dtype.numpy), value).word
    got: Any = struct.unpack("<d", struct.pack("<q", word))[0] if dtype.is_float else dtype.wrap(word)
    assert got == value


def test_misaligned_elements() -> None:
    """INT-7: a view that starts at an odd byte."""
    raw = np.zeros(8 * 40 + 1, np.uint8)
    view = raw[1:].view(np.float64)
    view[:] = np.arange(40)
    out = np.zeros(40)
    body = store("out", binary("+", load("x", f64, var("i")), load("x", f64, var("i"))), var("i"))
    run(kernel({"x": ArrayType(f64, 1), "out": ArrayType(f64, 1)}, each("x", body)), view, out)
    assert out.tolist() == [2.0 * k for k in range(40)]


# --- Bounds ----------------------------------------------------------------------------------------------------------


PYTHON: dict[str, Any] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__,
}  # fmt: skip


def bounded(*ranges: ir.IRRange, params: dict[str, DType] | None = None) -> ir.IRKernel:
    """Counts its iterations in `n`."""
    bump = ir.IRExprStmt(loc=LOC, value=atomic("add", "n", i64, const(0), const(1)))
    names = [f"v{k}" for k in range(len(ranges))]
    scalars: dict[str, DType | ArrayType] = dict(params or {})
    return kernel({"n": ArrayType(i64, 1)} | scalars, parallel(list(ranges), [bump], *names))


@pytest.mark.parametrize(
    ("op", "a", "b", "status"),
    [
        ("+", i64.max, 1, STATUS_BOUNDS_OVERFLOW), ("-", i64.min, 1, STATUS_BOUNDS_OVERFLOW),
        ("*", 2**32, 2**31, STATUS_BOUNDS_OVERFLOW), ("//", i64.min, -1, STATUS_BOUNDS_OVERFLOW),
        ("//", 5, 0, STATUS_BOUNDS_ZERO_DIVISION), ("%", 5, 0, STATUS_BOUNDS_ZERO_DIVISION),
        ("%", i64.min, -1, STATUS_OK), ("//", -7, -2, STATUS_OK), ("%", 17, 10, STATUS_OK), ("-", 3, -4, STATUS_OK),
        ("%", -7, 10, STATUS_OK), ("//", -7, 2, STATUS_OK), ("*", -3, -4, STATUS_OK),
    ],
)  # fmt: skip
def test_bound_arithmetic(op: str, a: int, b: int, status: int) -> None:
    """LOOP-8: Python's integers, or a refusal before anything runs."""
    n = np.zeros(1, np.int64)
    tree = bounded(span(host(op, var("a"), var("b"))), params={"a": i64, "b": i64})
    assert run(tree, n, a, b).status == status
    python: dict[str, Any] = {
        "+": int.__add__,
        "-": int.__sub__,
        "*": int.__mul__,
        "//": int.__floordiv__,
        "%": int.__mod__,
    }
    assert n[0] == (max(0, python[op](a, b)) if status == STATUS_OK else 0)


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ((2**32, 2**32), STATUS_BOUNDS_OVERFLOW), ((2**62, 2), STATUS_BOUNDS_OVERFLOW), ((2**62, 2**62, 0), STATUS_OK),
        ((0, 0), STATUS_OK), ((-5, 7), STATUS_OK), ((-1, -1), STATUS_OK), ((3, 5, 7), STATUS_OK),
    ],
)  # fmt: skip
def test_product_of_extents(counts: tuple[int, ...], status: int) -> None:
    """LOOP-11, LOOP-12."""
    n = np.zeros(1, np.int64)
    names = [f"c{k}" for k in range(len(counts))]
    tree = bounded(*(span(var(name)) for name in names), params=dict.fromkeys(names, i64))
    assert run(tree, n, *counts).status == status
    assert n[0] == (math.prod(max(0, c) for c in counts) if status == STATUS_OK else 0)


def test_a_later_loop_with_a_bad_bound_keeps_the_first_from_running() -> None:
    """LOOP-12: nothing has run."""
    bump = ir.IRExprStmt(loc=LOC, value=atomic("add", "n", i64, const(0), const(1)))
    bad = parallel([span(host("*", var("big"), var("big")))], [bump])
    tree = kernel({"n": ArrayType(i64, 1), "big": i64}, each("n", bump), bad)
    n = np.zeros(1, np.int64)
    assert run(tree, n, 2**40).status == STATUS_BOUNDS_OVERFLOW
    assert n[0] == 0
    assert run(tree, n, 2).status == STATUS_OK
    assert n[0] == 5


def test_unsigned_bound_beyond_i64() -> None:
    n = np.zeros(1, np.int64)
    tree = bounded(span(var("a", u64)), params={"a": u64})
    assert run(tree, n, 2**63).status == STATUS_BOUNDS_OVERFLOW
    assert run(tree, n, 12).status == STATUS_OK
    assert n[0] == 12


# --- Printing --------------------------------------------------------------------------------------------------------


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    """SYN: text and numbers as Python writes them, an f32 by its shortest digits."""
    parts = ["x = ", const(0.1, f32), " ", const(0.1, f64), " ", const(2**64 - 1, u64), " ", const(-3, i8), "\n"]
    tree = kernel(
        {"out": ArrayType(i8, 1)}, each("out", ir.IRPrint(loc=LOC, parts=parts), ir.IRPrint(loc=LOC, parts=["end\n"]))
    )
    run(tree, np.zeros(1, np.int8))
    assert capsys.readouterr().out == f"x = 0.1 0.1 {2**64 - 1} -3\nend\n"


def test_an_error_while_printing_is_raised_after_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def write(self, text: str) -> int:
            raise OSError("no space left")

    tree = kernel(
        {"out": ArrayType(i8, 1)}, each("out", ir.IRPrint(loc=LOC, parts=["x\n"]), store("out", const(1, i8), var("i")))
    )
    executable = CpuBackend().compile(tree, VariantOptions())
    assert executable.may_print
    monkeypatch.setattr("sys.stdout", Broken())
    out = np.zeros(2, np.int8)
    with pytest.raises(OSError, match="no space left"):
        launch(executable, out)
    assert out.tolist() == [1, 1]


# --- Chunks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_iteration_once_in_any_split(threads: int) -> None:
    """LOOP-4, LOOP-11: rows of an ndrange that chunks cut anywhere, with starts and steps, on any number of threads."""
    starts, steps, counts = (-3, 5, 100), (2, 1, 3), (7, 3, 977)
    ranges = [span(ir.IRConst(loc=LOC, value=a + n * s), a, s) for a, s, n in zip(starts, steps, counts, strict=True)]
    at = [binary("//", binary("-", var(f"v{k}"), const(starts[k])), const(steps[k])) for k in range(len(counts))]
    flat = binary("+", binary("*", binary("+", binary("*", at[0], const(3)), at[1]), const(977)), at[2])
    seen = ir.IRExprStmt(loc=LOC, value=atomic("add", "hits", i64, flat, const(1)))
    place = store("where", binary("+", binary("*", var("v0"), var("v1")), var("v2")), flat)
    # Work that no estimate calls too small to share.
    spin = for_loop("w", const(0), const(30), const(1), assign("sum", binary("+", var("sum"), var("w"))))
    tree = kernel(
        {"hits": ArrayType(i64, 1), "where": ArrayType(i64, 1)},
        parallel(ranges, [assign("sum", const(0)), spin, seen, place], "v0", "v1", "v2"),
    )
    hits, where = np.zeros(math.prod(counts), np.int64), np.zeros(math.prod(counts), np.int64)
    with pool().set_threads(threads):
        run(tree, hits, where)
    grid = np.meshgrid(*(a + s * np.arange(n) for a, s, n in zip(starts, steps, counts, strict=True)), indexing="ij")
    assert (hits == 1).all()
    assert (where == (grid[0] * grid[1] + grid[2]).ravel()).all()


def test_an_iteration_starts_from_the_values_before_its_loop() -> None:
    """LOOP-6: also where the body assigns them, a scalar parameter included."""
    x = ArrayType(i64, 1)
    body = [
        assign("a", binary("+", var("a"), var("i"))),
        assign("n", plus_one("n")),
        store("x", binary("+", var("a"), var("n")), var("i")),
    ]
    tree = kernel(
        {"x": x, "y": x, "n": i64},
        assign("a", binary("*", var("n"), const(10))),
        each("x", *body),
        assign("a", plus_one("a")),
        each("y", store("y", var("a"), var("i"))),
    )
    out, later = np.zeros(5, np.int64), np.zeros(2, np.int64)
    run(tree, out, later, 7)
    assert out.tolist() == [70 + i + 8 for i in range(5)]
    assert later.tolist() == [71, 71]
