"""Lanes against scalar code: whatever the width, the cuts and the remainder, every result has the same bits.

The oracle is the scalar variant of the same generator, which other tests hold to Python's integers and NumPy; what is
written as lanes here has an oracle in NumPy or Python beside it where it is easy to say. Rules: PAR-*, INT-*, IDIV-*,
POW-1, FDIV-*, CAST-*, FLT-*, EVAL-7 to EVAL-9, ATOM-*, MEM-*.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from lane_rig import Compiled, before_a_hole, same_bits, typed_ir
from tack.codegen.lane_cost import PLAIN, VectorUnit, vector_unit
from tack.lang import ir
from tack.lang.types import DTYPES, FLOAT_DTYPES, INTEGER_DTYPES, ArrayType, DType, i32, i64
from tack.runtime.backend import STATUS_OK
from typed_ir import assign, binary, builtin, cast, const, each, kernel, load, store, unary, var

WIDTHS = (4, 8, 16, 32, 64)
CUTS = (0.13, 0.37, 0.38, 0.91)
COUNT = 107  # full blocks and a remainder at every width
AVX2 = vector_unit("znver3", "+avx2")


def integers(dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    """Limits, small numbers and random ones."""
    rng = np.random.default_rng(seed)
    low, high = dtype.min, dtype.max
    values = [low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 10, 100, *([-1, -2, -3, -7] if dtype.is_signed else [])]
    values += [int(v) for v in rng.integers(low, high, COUNT - len(values), dtype.numpy, endpoint=True)]
    array = np.array(values, dtype.numpy)
    rng.shuffle(array)
    return array


def floats(dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    """Both zeros, infinities, NaN with and without a payload, denormals, and random numbers of many sizes."""
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(-20, 20, COUNT)) * rng.choice([-1, 1], COUNT)
    array = size.astype(dtype.numpy)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.5, 3.5, 1e-42, 16777217.0], dtype.numpy)
    array[: len(special)] = special
    payload = array[4:5].view(f"u{dtype.itemsize}")
    payload ^= payload.dtype.type(0x123)
    rng.shuffle(array)
    return array


def samples(dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    return floats(dtype, seed) if dtype.is_float else integers(dtype, seed)


def check(tree: ir.IRKernel, *args: Any, widths: tuple[int, ...] = (8, 32), disjoint: bool = False) -> list[Any]:
    """The scalar variant's arrays, which every other variant must leave too."""
    want = Compiled(tree, 1)(*args)
    for width in widths:
        variant = Compiled(tree, width, disjoint=disjoint, cuts=CUTS if width < 64 else ())
        assert [plan.width for plan in variant.plans] == [width] * len(variant.plans)
        assert variant.plans, "control: it does run as lanes"
        assert same_bits(variant(*args), want), f"{width} lanes"
    return want


# --- Every operation at every type -----------------------------------------------------------------------------------


def columns(expressions: list[ir.IRExpr], dtype: DType, result: DType, *more: tuple[str, DType]) -> ir.IRKernel:
    """A kernel that stores expression k of the elements of `a` and `b` into row k of `out`."""
    params: dict[str, DType | ArrayType] = {"a": ArrayType(dtype, 1), "b": ArrayType(dtype, 1)}
    params |= {"out": ArrayType(result, 2), "u": dtype, "e": ArrayType(i32, 1)}
    stores = [store("out", e, const(k), var("i")) for k, e in enumerate(expressions)]
    return kernel(params, each("a", *stores))


def operands(dtype: DType) -> list[tuple[ir.IRExpr, ir.IRExpr]]:
    """Varying with varying, with uniform on either side, and linear."""
    a, b, u = load("a", dtype, var("i")), load("b", dtype, var("i")), var("u", dtype)
    linear = cast(var("i"), dtype)
    return [(a, b), (a, u), (u, b), (a, const(3, dtype)), (linear, b), (linear, linear)]


def run_columns(expressions: list[ir.IRExpr], dtype: DType, result: DType, a: Any, b: Any, u: Any) -> list[Any]:
    tree = columns(expressions, dtype, result)
    out = np.zeros((len(expressions), COUNT), result.numpy)
    return check(tree, a, b, out, tack.Scalar(dtype, u), np.zeros(1, np.int32))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_arithmetic(dtype: DType) -> None:
    """INT-1, FLT-1: wraps at its width, rounds once."""
    operators = ["+", "-", "*", *([] if dtype.is_float else ["&", "|", "^"]), *(["/"] if dtype.is_float else [])]
    expressions: list[ir.IRExpr] = [binary(op, x, y) for op in operators for x, y in operands(dtype)]
    expressions += [unary("-", x) for x, _ in operands(dtype)]
    if dtype.is_integer:
        expressions += [unary("~", x) for x, _ in operands(dtype)]
    a, b = samples(dtype, 1), samples(dtype, 2)
    out = run_columns(expressions, dtype, dtype, a, b, a[0].item())[2]
    with np.errstate(all="ignore"):
        assert out[0].tobytes() == (a + b).tobytes(), "control: NumPy agrees on a + b"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_comparison(dtype: DType) -> None:
    """Signed, unsigned and floating; with NaN only != is true."""
    operators = ("<", "<=", ">", ">=", "==", "!=")
    expressions = [binary(op, x, y) for op in operators for x, y in operands(dtype)]
    run_columns(expressions, dtype, i32, samples(dtype, 1), samples(dtype, 2), samples(dtype, 3)[0].item())


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=lambda t: t.name)
def test_division(dtype: DType) -> None:
    """IDIV-1: by varying, uniform and literal divisors, powers of two among them."""
    a, b = integers(dtype, 1), integers(dtype, 2)
    b[b == 0] = 3
    if dtype.is_signed:
        a[a == dtype.min] = dtype.max  # the minimum by -1 is a caller constraint
    x, y, u = load("a", dtype, var("i")), load("b", dtype, var("i")), var("u", dtype)
    divisors = [y, u, *(const(c, dtype) for c in (1, 2, 3, 7, 64, *([-1, -3, -8] if dtype.is_signed else [])))]
    expressions: list[ir.IRExpr] = [binary(op, x, d) for op in ("//", "%") for d in divisors]
    expressions += [binary(op, u, y) for op in ("//", "%")]
    out = run_columns(expressions, dtype, dtype, a, b, 11)[2]
    assert [int(v) for v in out[0]] == [int(p) // int(q) for p, q in zip(a, b, strict=True)]
    assert [int(v) for v in out[len(divisors)]] == [int(p) % int(q) for p, q in zip(a, b, strict=True)]


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=lambda t: t.name)
def test_floating_division_and_power(dtype: DType) -> None:
    """FDIV-*, POW-2."""
    expressions = [binary(op, x, y) for op in ("//", "%", "**") for x, y in operands(dtype)]
    expressions.append(binary("**", load("a", dtype, var("i")), const(2.0, dtype)))
    run_columns(expressions, dtype, dtype, floats(dtype, 1), floats(dtype, 2), 0.7)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=lambda t: t.name)
def test_shift_and_power(dtype: DType) -> None:
    """SHIFT-*, POW-1."""
    a, b = integers(dtype, 1), (np.abs(integers(dtype, 2).astype(np.int64)) % dtype.bits).astype(dtype.numpy)
    x, y, u = load("a", dtype, var("i")), load("b", dtype, var("i")), var("u", dtype)
    pairs: list[tuple[ir.IRExpr, ir.IRExpr]] = [(x, y), (x, u), (u, y), (cast(var("i"), dtype), const(2, dtype))]
    expressions = [binary(op, p, q) for op in ("<<", ">>", "**") for p, q in pairs]
    expressions += [binary("**", x, const(k, dtype)) for k in (0, 1, 2, 5)]
    run_columns(expressions, dtype, dtype, a, b, 3)


@pytest.mark.parametrize("source", DTYPES, ids=lambda t: t.name)
def test_cast(source: DType) -> None:
    """CAST-*: to every type; a linear narrow integer wraps when it gets wider."""
    a = samples(source, 1)
    if source.is_float:  # out of range is a caller constraint
        a = np.random.default_rng(3).uniform(0, 127, COUNT).astype(source.numpy)
    for target in DTYPES:
        linear = cast(cast(var("i"), source), target)
        run_columns([cast(load("a", source, var("i")), target), linear], source, target, a, a, 0)


UNARY_FLOAT = (
    "sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p floor ceil trunc round fabs abs"
).split()


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=lambda t: t.name)
def test_floating_builtin(dtype: DType) -> None:
    """MATH-*: also of uniform and linear arguments."""
    a, b, u = load("a", dtype, var("i")), load("b", dtype, var("i")), var("u", dtype)
    expressions = [builtin(name, x) for name in UNARY_FLOAT for x in (a, u, cast(var("i"), dtype))]
    for name in ("min", "max", "atan2", "copysign"):
        expressions += [builtin(name, a, b), builtin(name, u, b), builtin(name, a, u)]
    expressions += [builtin("fma", a, b, u), builtin("max", a, u, b)]
    run_columns(expressions, dtype, dtype, floats(dtype, 1), floats(dtype, 2), 0.7)
    predicates = [builtin(name, a, result=i32) for name in ("isnan", "isinf", "isfinite")]
    run_columns(predicates, dtype, i32, floats(dtype, 1), floats(dtype, 2), 0.7)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=lambda t: t.name)
def test_integer_builtin(dtype: DType) -> None:
    a, b, u = load("a", dtype, var("i")), load("b", dtype, var("i")), var("u", dtype)
    expressions: list[ir.IRExpr] = [builtin("min", a, b), builtin("max", u, a, b), builtin("abs", a)]
    run_columns(expressions, dtype, dtype, integers(dtype, 1), integers(dtype, 2), 3)
    bits = [builtin(name, x, result=i32) for name in ("popcount", "clz", "ctz") for x in (a, cast(var("i"), dtype))]
    run_columns(bits, dtype, i32, integers(dtype, 1), integers(dtype, 2), 3)


def test_code_grows_with_the_program() -> None:
    """Twice as many statements are twice as much text, and all divisions of one kind are calls of one function."""

    def statements(count: int) -> Compiled:
        a, s = load("a", i64, var("i")), var("s", i64)
        body: list[ir.IRStmt] = [assign("s", a)]
        for k in range(count):
            body.append(assign("s", binary("//", s, binary("+", a, const(k + 1, i64)))))
        body.append(store("out", s, var("i")))
        params: dict[str, DType | ArrayType] = {"a": ArrayType(i64, 1), "out": ArrayType(i64, 1)}
        return Compiled(kernel(params, each("a", *body)), 8)

    small, large = statements(8), statements(16)
    assert len(large.text) < 2.2 * len(small.text)
    assert [v.text.count("define internal <8 x i64> @__tack_floordiv_i64x8__") for v in (small, large)] == [1, 1]
    a = np.arange(-40, 60, dtype=np.int64) * 12345 + 7
    want = a.copy()
    for k in range(16):
        want //= a + (k + 1)
    assert np.array_equal(large(a, np.zeros_like(a))[1], want)


# --- Rows ------------------------------------------------------------------------------------------------------------


@tack.kernel
def rows(x, y):
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        y[i, j] = x[i, j] * 2 + i if x[i, j] > 3 else j


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_short_and_empty_rows(width: int, disjoint: bool) -> None:
    """Every length of a row from none to two blocks and one more; NumPy is the oracle. Where arrays do not overlap the
    last block of a row repeats iterations."""
    variant = None
    for n in range(2 * width + 2):
        x = np.arange(3 * n, dtype=np.int32).reshape(3, n) % 7
        y = np.zeros_like(x)
        variant = variant or Compiled(typed_ir(rows, x, y), width, disjoint, cuts=CUTS)
        assert variant.plans[0].repeatable == disjoint
        i, j = np.indices(x.shape)
        want = np.where(x > 3, x * 2 + i, j).astype(np.int32)
        assert np.array_equal(variant(x, y)[1], want), n


@tack.kernel
def in_place(x, y):
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        x[i, j] = x[i, j] * 3 + 1
        y[i, j] = i


@tack.kernel
def counted(x, y):
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        tack.atomic_add(y, (0, 0), x[i, j])


@tack.kernel
def looped(x, y):
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        mine = tack.local(2, tack.i32)
        mine[0], mine[1] = 0, 0
        for k in range(x[i, j] % 5):
            mine[k % 2] += j - k
        y[i, j] = mine[0] - mine[1]


@pytest.mark.parametrize(("kernel", "repeatable"), [(in_place, False), (counted, False), (looped, True)])
def test_iterations_that_may_run_twice(kernel: Any, repeatable: bool) -> None:
    """Not those that read what they store, or count; local arrays are no such thing. Rows of all lengths, cut into
    pieces, against scalar code."""
    for n in (1, 7, 8, 9, 31, 33, 70):
        x = np.arange(5 * n, dtype=np.int32).reshape(5, n) % 11
        tree, y = typed_ir(kernel, x, x), np.zeros_like(x)
        variant = Compiled(tree, 8, disjoint=True, cuts=CUTS)
        assert variant.plans[0].repeatable == repeatable
        assert same_bits(variant(x, y), Compiled(tree, 1)(x, y)), n


def test_repeated_iterations_stay_inside_of_their_row() -> None:
    """The arrays end where memory ends, and begin a row that is shorter than a block."""
    tree = typed_ir(rows, *(np.zeros((2, 2), np.int32) for _ in range(2)))
    for n in (3, 8, 11, 16, 21):
        x, y = (before_a_hole(2 * n, np.int32).reshape(2, n) for _ in range(2))
        x[:] = np.arange(2 * n).reshape(2, n) % 9
        y[:] = -1
        Compiled(tree, 8, disjoint=True, cuts=(0.3, 0.9)).in_place(x, y)
        i, j = np.indices(x.shape)
        assert np.array_equal(y, np.where(x > 3, x * 2 + i, j)), n


@tack.kernel
def stepped(n, step, x, y):
    for i in range(3, n, 3):
        y[i] = x[i] + i
    for i in range(1, n, step):
        y[i] = x[i] - 2 * i


def test_steps() -> None:
    """A literal step is a stride; one that is only known at run time is not."""
    x, y = np.arange(400, dtype=np.int64), np.zeros(400, np.int64)
    for step in (1, 2, 7):
        check(typed_ir(stepped, 400, step, x, y), 400, step, x, y)


@tack.kernel
def places(x, y, z):
    for i in range(len(y)):
        y[i] = x[3 * i] + x[2 * i + 1] + x[len(x) - 1 - i] + x[4 * i + 3] + x[5 * i]
        z[len(y) - 1 - i] = x[i]
        z[len(y) + 2 * i] = x[i + 1]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_strides_touch_nothing_else(dtype: DType) -> None:
    """MEM-*: forward, backward and with gaps; the arrays end where the last access does."""
    n = 100
    x, y, z = samples(dtype, 1), np.zeros(n, dtype.numpy), np.zeros(3 * n - 1, dtype.numpy)
    x = np.resize(x, 5 * (n - 1) + 1)
    check(typed_ir(places, x, y, z), x, y, z, widths=(4, 8, 32))


@tack.kernel
def copied(x, y):
    for i in range(len(x)):
        if x[i] != x[5]:
            y[i] = x[i]


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@pytest.mark.parametrize("unit", [None, AVX2, PLAIN], ids=["host", "AVX2", "plain"])
def test_masked_accesses_end_at_a_page(unit: VectorUnit | None) -> None:
    """A block that is not full reads and writes nothing past the end: there the memory is not readable."""
    for dtype in DTYPES:
        x, y = (before_a_hole(77, dtype.numpy) for _ in range(2))
        x[:] = samples(dtype, 4)[:77]
        assert Compiled(typed_ir(copied, x, y), 16, unit=unit).in_place(x, y) == STATUS_OK
        assert y.tobytes() == np.where(x != x[5], x, x.dtype.type(0)).tobytes(), dtype


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
def test_strided_accesses_end_at_a_page() -> None:
    """The wide load of a stride ends with the last element that a lane touches."""
    for dtype in DTYPES:
        x, y = before_a_hole(5 * 63 + 1, dtype.numpy), before_a_hole(64, dtype.numpy)
        x[:] = np.arange(len(x)) % 100
        assert Compiled(typed_ir(strided, x, y), 16).in_place(x, y) == STATUS_OK
        i = np.arange(64)
        assert np.array_equal(
            y, (x[5 * i] + x[len(x) - 1 - 4 * (63 - i)] + x[len(x) - 127 + 2 * i]).astype(dtype.numpy)
        )


@tack.kernel
def strided(x, y):
    for i in range(len(y)):
        y[i] = x[5 * i] + x[len(x) - 253 + 4 * i] + x[len(x) - 127 + 2 * i]
