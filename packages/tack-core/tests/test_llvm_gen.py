"""The LLVM generator on typed IR written by hand: what the text may contain, and what the code computes.

Oracles: Python's big integers and floats, `math`, and NumPy at the same precision. Rules: INT-1 to INT-6, IDIV-1,
IDIV-2, POW-1, POW-2, FDIV-2 to FDIV-4, FLT-1, FLT-2, FLT-5 to FLT-7, MATH-1, MATH-3, MATH-4, EVAL-7, EVAL-9, MEM-5.
"""

from __future__ import annotations

import itertools
import math
import re
import struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tack.codegen.llvm_gen import LLVMCodeGen
from tack.lang import ir
from tack.lang.types import (
    DTYPES,
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    ArrayType,
    DType,
    f32,
    f64,
    i8,
    i32,
    i64,
    u64,
)
from tack.runtime.backend import STATUS_OK, VariantOptions
from tack.runtime.cpu_backend import CpuBackend
from typed_ir import (
    COMPARISONS,
    LOC,
    array_type,
    assign,
    binary,
    builtin,
    cast,
    const,
    each,
    host,
    kernel,
    load,
    logical,
    parallel,
    run,
    select,
    shape,
    span,
    store,
    unary,
    var,
)

FAST_MATH = re.compile(r"\b(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)\b")
NO_WRAP = re.compile(r"= (add|sub|mul|shl) (nuw |nsw )+")


def text(tree: ir.IRKernel, disjoint: bool = False) -> str:
    return LLVMCodeGen(tree, VariantOptions(disjoint=disjoint)).source()


def user_lines(source: str) -> list[str]:
    """The instructions that a body function has because the user wrote them: not the counter's increment."""
    body = source.split("@body.0(", 1)[1].split("\n}", 1)[0].splitlines()
    return [line for line in body if not re.match(r"\s+%at\.\d+\.next = ", line)]


def pairwise(op: str, dtype: DType) -> ir.IRKernel:
    a, b = load("a", dtype, var("i")), load("b", dtype, var("i"))
    result = i32 if op in COMPARISONS else dtype
    params = {"a": ArrayType(dtype, 1), "b": ArrayType(dtype, 1), "out": ArrayType(result, 1)}
    return kernel(params, each("a", store("out", binary(op, a, b), var("i"))))


def integer_samples(dtype: DType) -> list[int]:
    near = [0, 1, 2, 3, 5, 7, 11, dtype.bits - 1, dtype.max, dtype.max - 1, dtype.max // 2, dtype.max // 3]
    return sorted({dtype.wrap(v) for v in [*near, *(-v for v in near), dtype.min, dtype.min + 1]})


def integer_oracle(op: str, a: int, b: int, dtype: DType) -> int | None:
    """Python's answer, or None where the language has none."""
    if op in ("//", "%") and (b == 0 or (dtype.is_signed and (a, b) == (dtype.min, -1))):
        return None
    if op in ("<<", ">>") and not 0 <= b < dtype.bits:
        return None
    if op == "**":
        return dtype.wrap(pow(a, b, 1 << dtype.bits)) if b >= 0 else None
    python: dict[str, Any] = {
        "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__,
        "&": int.__and__, "|": int.__or__, "^": int.__xor__, "<<": int.__lshift__, ">>": int.__rshift__,
        "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__, "==": int.__eq__, "!=": int.__ne__,
    }  # fmt: skip
    exact = int(python[op](a, b))
    return exact if op in COMPARISONS else dtype.wrap(exact)


# --- What the text contains -----------------------------------------------------------------------------------------


def everything() -> ir.IRKernel:
    """A kernel with each floating and integer operation."""
    x, n, i = load("x", f64, var("i")), load("n", i32, var("i")), var("i")
    floats = [store("x", binary(op, x, const(0.1, f64)), i) for op in ("+", "-", "*", "/", "//", "%", "**")]
    ints = [store("n", binary(op, n, n), i) for op in ("+", "-", "*", "//", "%", "<<", ">>", "&", "|", "^", "**")]
    more = [store("x", unary("-", x), i), store("x", cast(n, f64), i), store("x", builtin("min", x, x), i)]
    return kernel({"x": ArrayType(f64, 1), "n": ArrayType(i32, 1)}, each("x", *floats, *ints, *more))


@pytest.mark.parametrize("disjoint", [False, True])
def test_no_fast_math_flag(disjoint: bool) -> None:
    """FLT-2: nothing lets LLVM reassociate or ignore a NaN."""
    assert not FAST_MATH.search(text(everything(), disjoint))
    assert FAST_MATH.search("%t = fadd reassoc double %a, %b"), "control: the pattern finds a flag"


def test_no_wrap_flags_on_user_arithmetic() -> None:
    """INT-1: overflow wraps, so LLVM must not be told that there is none."""
    lines = user_lines(text(everything()))
    assert any("= mul i32" in line for line in lines)
    assert not [line for line in lines if NO_WRAP.search(line)]
    assert NO_WRAP.search("  %t = add nsw i32 %a, %b"), "control"


def test_noalias_only_where_arguments_are_disjoint() -> None:
    """MEM-5."""
    assert "noalias" in text(everything(), disjoint=True)
    assert "noalias" not in text(everything(), disjoint=False)


def test_a_written_array_is_not_readonly() -> None:
    tree = pairwise("+", f32)
    for param in tree.params:
        param.written = param.name == "out"
    source = text(tree)
    assert "ptr readonly %a.a" in source and "ptr %a.out" in source


@pytest.mark.parametrize("value", [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, math.inf, 3])
def test_double_literals_are_exact(value: float) -> None:
    """FLT-1: all 64 bits."""
    tree = kernel({"x": ArrayType(f64, 1)}, each("x", store("x", const(value, f64), var("i"))))
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    assert f"store double 0x{bits:016X}" in text(tree)


@pytest.mark.parametrize(("value", "single"), [(0.1, np.float32(0.1)), (16777217, np.float32(16777216.0))])
def test_single_literals_round_once(value: float, single: np.float32) -> None:
    tree = kernel({"x": ArrayType(f32, 1)}, each("x", store("x", const(value, f32), var("i"))))
    bits = struct.unpack("<Q", struct.pack("<d", float(single)))[0]
    assert f"store float 0x{bits:016X}" in text(tree)


def test_integers_beyond_double_round_once_to_single() -> None:
    """2**60 + 2**36 + 1 lies just above a tie of two f32 neighbours; through f64 it would fall on the tie."""
    value = 2**60 + 2**36 + 1
    tree = kernel({"x": ArrayType(f32, 1)}, each("x", store("x", const(value, f32), var("i"))))
    out = np.zeros(1, np.float32)
    run(tree, out)
    assert float(out[0]) == 2.0**60 + 2.0**37
    assert float(np.float32(float(value))) == 2.0**60, "control: rounding twice gives another number"


@pytest.mark.parametrize("name", ["half", "kernel", "define", "i32", "entry", "π", "ª", "store", "_", "x.2", "%1"])
def test_any_name_is_usable(name: str) -> None:
    """SYN: a parameter or local may have any name that Python allows, and the compiler's own."""
    body = [assign(name, binary("+", var("i"), const(1))), store("out", var(name), var("i"))]
    out = np.zeros(3, np.int64)
    assert run(kernel({"out": ArrayType(i64, 1)}, each("out", *body)), out).status == STATUS_OK
    assert out.tolist() == [1, 2, 3]


# --- Integer arithmetic ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "**", "<<", ">>", "&", "|", "^", *COMPARISONS])
@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=lambda t: t.name)
def test_integer_operation(op: str, dtype: DType) -> None:
    """INT-1, IDIV-1, IDIV-2, POW-1, SHIFT-1."""
    pairs = itertools.product(integer_samples(dtype), repeat=2)
    rows = [(a, b, e) for a, b in pairs if (e := integer_oracle(op, a, b, dtype)) is not None]
    a, b = (np.array([row[k] for row in rows], dtype.numpy) for k in (0, 1))
    out = np.zeros(len(rows), np.int32 if op in COMPARISONS else dtype.numpy)
    run(pairwise(op, dtype), a, b, out)
    assert out.tolist() == [row[2] for row in rows]


def test_integer_oracle_is_not_truncating_division() -> None:
    """Control: C's quotient differs, so the test above would see it."""
    assert integer_oracle("//", -7, 3, i8) == -3 != int(-7 / 3)


@pytest.mark.parametrize("divisor", [1, 2, 4, 64, 3, 7, -1, -2, -7])
@pytest.mark.parametrize("dtype", [i8, i32, i64], ids=lambda t: t.name)
def test_constant_divisors(divisor: int, dtype: DType) -> None:
    """IDIV-1, IDIV-2 where the generator or LLVM sees the divisor."""
    values = [v for v in integer_samples(dtype) if (v, divisor) != (dtype.min, -1)]
    a, q, r = (np.array(values, dtype.numpy), *(np.zeros(len(values), dtype.numpy) for _ in range(2)))
    x, d, i = load("a", dtype, var("i")), const(divisor, dtype), var("i")
    body = [store("q", binary("//", x, d), i), store("r", binary("%", x, d), i)]
    run(kernel({n: ArrayType(dtype, 1) for n in ("a", "q", "r")}, each("a", *body)), a, q, r)
    assert q.tolist() == [v // divisor for v in values]
    assert r.tolist() == [v % divisor for v in values]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 64, 65, 2**64 - 1])
def test_constant_exponents(exponent: int) -> None:
    """POW-1, POW-2: the longest exponent ends at once."""
    values = integer_samples(i32)
    a, out = np.array(values, np.int32), np.zeros(len(values), np.int32)
    power = ir.IRBinOp(loc=LOC, op="**", left=load("a", i32, var("i")), right=const(exponent, u64), dtype=i32)
    run(kernel({n: ArrayType(i32, 1) for n in ("a", "out")}, each("a", store("out", power, var("i")))), a, out)
    assert out.tolist() == [i32.wrap(pow(v, exponent, 1 << 32)) for v in values]


@pytest.mark.parametrize("source", INTEGER_DTYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("target", INTEGER_DTYPES, ids=lambda t: t.name)
def test_integer_cast(source: DType, target: DType) -> None:
    """INT-2: all 64 pairs."""
    values = integer_samples(source)
    a, out = np.array(values, source.numpy), np.zeros(len(values), target.numpy)
    body = store("out", cast(load("a", source, var("i")), target), var("i"))
    run(kernel({"a": ArrayType(source, 1), "out": ArrayType(target, 1)}, each("a", body)), a, out)
    assert out.tolist() == [target.wrap(v) for v in values]


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=lambda t: t.name)
def test_integer_builtins(dtype: DType) -> None:
    """INT-5, INT-6, INT-1 for the unary operators."""
    values = integer_samples(dtype)
    x, i, width = load("a", dtype, var("i")), var("i"), dtype.bits
    rows = {
        "abs": (builtin("abs", x), [dtype.wrap(abs(v)) for v in values]),
        "neg": (unary("-", x), [dtype.wrap(-v) for v in values]),
        "inv": (unary("~", x), [dtype.wrap(~v) for v in values]),
        "min": (builtin("min", x, const(3, dtype), const(5, dtype)), [min(v, 3) for v in values]),
        "max": (builtin("max", x, const(3, dtype)), [max(v, 3) for v in values]),
        "pop": (builtin("popcount", x, result=i32), [(v % (1 << width)).bit_count() for v in values]),
        "clz": (builtin("clz", x, result=i32), [width - (v % (1 << width)).bit_length() for v in values]),
        "ctz": (builtin("ctz", x, result=i32), [width if v == 0 else ((v & -v).bit_length() - 1) for v in values]),
    }
    outs = {name: np.zeros(len(values), e.dtype.numpy) for name, (e, _) in rows.items()}  # type: ignore[union-attr]
    params = {"a": ArrayType(dtype, 1)} | {name: array_type(out) for name, out in outs.items()}
    run(
        kernel(params, each("a", *(store(n, e, i) for n, (e, _) in rows.items()))),
        np.array(values, dtype.numpy),
        *outs.values(),
    )
    assert {name: out.tolist() for name, out in outs.items()} == {name: want for name, (_, want) in rows.items()}


# --- Floating arithmetic ---------------------------------------------------------------------------------------------

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 0.5, -0.75, 3.0, -7.0, 1e-3, 2.5, 3.5, 1e20, -1e30, math.inf, -math.inf, math.nan]


def same(got: Any, want: Any) -> bool:
    """Equal numbers with equal signs of zero, any NaN for a NaN."""
    got, want = np.asarray(got), np.asarray(want)
    return bool(((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)).all())


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", *COMPARISONS])
def test_floating_operation(op: str, dtype: DType) -> None:
    """FLT-1, FLT-5, FDIV-2 to FDIV-4; the quotient and remainder by CPython in f64, by NumPy in f32."""
    pairs = [(a, b) for a, b in itertools.product(FLOATS, repeat=2) if not (op in ("//", "%") and b == 0)]
    a, b = (np.array([p[k] for p in pairs], dtype.numpy) for k in (0, 1))
    out = np.zeros(len(pairs), np.int32 if op in COMPARISONS else dtype.numpy)
    run(pairwise(op, dtype), a, b, out)
    numpy = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide, "%": np.remainder}
    compared = {
        "<": np.less,
        "<=": np.less_equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "==": np.equal,
        "!=": np.not_equal,
    }
    with np.errstate(all="ignore"):
        want = (numpy | compared)[op](a, b)
    if op == "//":  # NumPy answers an infinity for an infinite dividend; the contract says NaN (FDIV-4)
        want[np.isinf(a)] = np.nan
    assert same(out, want)


def test_floor_division_rebuilds_the_quotient() -> None:
    """FDIV-2: 0.5 // 0.1 and 1.0 // 0.1, which floor(a / b) gets wrong."""
    a, b, out = np.array([0.5, 1.0, -1.0]), np.array([0.1, 0.1, math.inf]), np.zeros(3)
    run(pairwise("//", f64), a, b, out)
    assert out.tolist() == [0.5 // 0.1, 1.0 // 0.1, -1.0 // math.inf] == [4.0, 9.0, -1.0]
    assert math.floor(0.5 / 0.1) == 5, "control"


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=lambda t: t.name)
def test_exact_floating_builtins(dtype: DType) -> None:
    """FLT-6, FLT-7, MATH-3, MATH-4."""
    a = np.array(FLOATS, dtype.numpy)
    x, i, two = load("a", dtype, var("i")), var("i"), const(2.0, dtype)
    with np.errstate(all="ignore"):
        rows: dict[str, tuple[ir.IRExpr, Any]] = {
            "neg": (unary("-", x), np.negative(a)),
            "abs": (builtin("abs", x), np.abs(a)),
            "floor": (builtin("floor", x), np.floor(a)),
            "ceil": (builtin("ceil", x), np.ceil(a)),
            "trunc": (builtin("trunc", x), np.trunc(a)),
            "round": (builtin("round", x), np.rint(a)),
            "sqrt": (builtin("sqrt", x), np.sqrt(a)),
            "sign": (builtin("copysign", two, x), np.copysign(dtype.numpy.type(2), a)),
            "min": (builtin("min", x, two), np.fmin(a, dtype.numpy.type(2))),
            "max": (builtin("max", x, two), np.fmax(a, dtype.numpy.type(2))),
            "nan": (builtin("isnan", x, result=i32), np.isnan(a)),
            "inf": (builtin("isinf", x, result=i32), np.isinf(a)),
            "finite": (builtin("isfinite", x, result=i32), np.isfinite(a)),
            "diff": (binary("-", x, x), a - a),
            "zero": (binary("*", x, const(0.0, dtype)), a * dtype.numpy.type(0)),
            "not": (ir.IRNot(loc=LOC, operand=x, dtype=i32), ~a.astype(bool)),
        }
    outs = {name: np.zeros(len(a), e.dtype.numpy) for name, (e, _) in rows.items()}  # type: ignore[union-attr]
    params = {"a": ArrayType(dtype, 1)} | {name: array_type(out) for name, out in outs.items()}
    run(kernel(params, each("a", *(store(n, e, i) for n, (e, _) in rows.items()))), a, *outs.values())
    assert [name for name, out in outs.items() if not same(out, rows[name][1])] == []


UNARY_MATH = "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p".split()


@pytest.mark.parametrize("dtype", FLOAT_DTYPES, ids=lambda t: t.name)
def test_library_builtins(dtype: DType) -> None:
    """MATH-1: within 8 units in the last place of NumPy's f64 answer rounded to the type."""
    a = np.linspace(0.01, 0.99, 37).astype(dtype.numpy)
    x, i = load("a", dtype, var("i")), var("i")
    exprs = {name: builtin(name, x) for name in UNARY_MATH}
    exprs |= {"atan2": builtin("atan2", x, const(-0.5, dtype)), "pow": binary("**", x, const(1.7, dtype))}  # type: ignore[dict-item]
    outs = {name: np.zeros(len(a), dtype.numpy) for name in exprs}
    params = {"a": ArrayType(dtype, 1)} | {name: array_type(out) for name, out in outs.items()}
    run(kernel(params, each("a", *(store(n, e, i) for n, e in exprs.items()))), a, *outs.values())
    renamed = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
    wide = a.astype(np.float64)
    want = {name: getattr(np, renamed.get(name, name))(wide) for name in UNARY_MATH}
    want |= {"atan2": np.arctan2(wide, -0.5), "pow": wide ** float(dtype.numpy.type(1.7))}
    for name, out in outs.items():
        assert (np.abs(out - want[name]) <= 8 * np.spacing(np.abs(want[name]).astype(dtype.numpy))).all(), name


def test_fma_rounds_once() -> None:
    """MATH-4: (1 + 2**-30)**2 - 1 keeps the 2**-60 that two roundings lose."""
    a = 1 + 2.0**-30
    x = const(a, f64)
    out = np.zeros(1)
    run(
        kernel({"out": ArrayType(f64, 1)}, each("out", store("out", builtin("fma", x, x, const(-1.0, f64)), var("i")))),
        out,
    )
    assert out[0] == 2.0**-29 + 2.0**-60
    assert a * a - 1 == 2.0**-29, "control"


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in DTYPES for t in FLOAT_DTYPES], ids=str)
def test_cast_to_float(source: DType, target: DType) -> None:
    """INT-4: one rounding, as the signed or unsigned value that it is."""
    values: list[Any] = [0.1, -2.5, 1e10] if source.is_float else [*integer_samples(source), source.max // 5]
    a = np.array(values, source.numpy)
    out = np.zeros(len(a), target.numpy)
    body = store("out", cast(load("a", source, var("i")), target), var("i"))
    run(kernel({"a": ArrayType(source, 1), "out": ArrayType(target, 1)}, each("a", body)), a, out)
    assert out.tolist() == a.astype(target.numpy).tolist()


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in FLOAT_DTYPES for t in INTEGER_DTYPES], ids=str)
def test_cast_to_integer_truncates(source: DType, target: DType) -> None:
    """INT-3."""
    values = [0.0, 2.7, 100.5, 0.99] + ([-2.7, -100.5] if target.is_signed else [float(target.max // 2 + 1)])
    a, out = np.array(values, source.numpy), np.zeros(len(values), target.numpy)
    body = store("out", cast(load("a", source, var("i")), target), var("i"))
    run(kernel({"a": ArrayType(source, 1), "out": ArrayType(target, 1)}, each("a", body)), a, out)
    assert out.tolist() == [math.trunc(v) for v in a.tolist()]


# --- Guards ----------------------------------------------------------------------------------------------------------


def test_guarded_division_does_not_run() -> None:
    """EVAL-9: a zero divisor would end the process."""
    a, b, out = np.array([7, 8, -9, 5], np.int32), np.array([2, 0, 4, 0], np.int32), np.zeros(4, np.int32)
    x, y, i = load("a", i32, var("i")), load("b", i32, var("i")), var("i")
    nonzero = binary("!=", y, const(0, i32))
    guarded = {
        "select": select(nonzero, binary("//", x, y), const(-1, i32)),
        "and": logical("and", nonzero, binary("%", x, y)),
        "or": logical("or", binary("==", y, const(0, i32)), binary("%", x, y)),
    }
    want = {"select": [3, -1, -3, -1], "and": [1, 0, 1, 0], "or": [1, 1, 1, 1]}
    for name, expr in guarded.items():
        params = {n: ArrayType(i32, 1) for n in ("a", "b", "out")}
        run(kernel(params, each("a", store("out", expr, i))), a, b, out)
        assert out.tolist() == want[name], name


def test_short_circuit_and_select_values() -> None:
    """EVAL-7: i32 0 or 1, NaN true."""
    a = np.array([0.0, -0.0, 2.0, math.nan])
    x, i = load("a", f64, var("i")), var("i")
    big = binary(">", x, const(1.0, f64))
    exprs = [logical("and", x, big), logical("or", big, x, const(0, i32)), select(x, const(5, i32), const(6, i32))]
    outs = [np.zeros(4, np.int32) for _ in exprs]
    params = {"a": ArrayType(f64, 1)} | {f"o{k}": ArrayType(i32, 1) for k in range(3)}
    run(kernel(params, each("a", *(store(f"o{k}", e, i) for k, e in enumerate(exprs)))), a, *outs)
    assert [out.tolist() for out in outs] == [[0, 0, 1, 0], [0, 0, 1, 1], [6, 6, 5, 5]]


def test_stages_can_be_read() -> None:
    """TOOL: a pipeline that a user can look into."""
    assert list(CpuBackend().inspect(pairwise("+", f32), VariantOptions())) == ["llvm", "optimised", "asm"]


def vector_lines(tree: ir.IRKernel, disjoint: bool) -> list[str]:
    """Optimised instructions on vectors of f32."""
    optimised = CpuBackend().inspect(tree, VariantOptions(disjoint=disjoint))["optimised"]
    return [line for line in optimised.splitlines() if re.search(r"= (load|fadd|fmul)\b.* <\d+ x float>", line)]


def stencil() -> ir.IRKernel:
    """Four neighbours of the inner points of a plane."""
    i, j, one = var("i"), var("j"), const(1)
    around = [(binary("-", i, one), j), (binary("+", i, one), j), (i, binary("-", j, one)), (i, binary("+", j, one))]
    loads: list[ir.IRExpr] = [load("a", f32, *at) for at in around]
    total = binary("+", binary("+", loads[0], loads[1]), binary("+", loads[2], loads[3]))
    ranges = [span(host("-", shape("a", axis), const(1)), 1) for axis in (0, 1)]
    plane = {"a": ArrayType(f32, 2), "b": ArrayType(f32, 2)}
    return kernel(plane, parallel(ranges, [store("b", total, i, j)], "i", "j"), written={"b"})


def recurrence() -> ir.IRKernel:
    """Each step needs the one before."""
    step = binary("*", var("s", f32), load("a", f32, var("k")))
    inner = ir.IRFor(
        loc=LOC, var="k", start=const(0), stop=shape("a"), step=const(1), body=[assign("s", binary("+", step, step))]
    )
    body = [assign("s", const(1.0, f32)), inner, store("a", var("s", f32), var("i"))]
    return kernel({"a": ArrayType(f32, 1)}, each("a", *body), local={"s": f32})


@pytest.mark.parametrize("disjoint", [True, False])
def test_plain_loops_vectorise(disjoint: bool) -> None:
    """PERF: what LLVM's vectoriser needs is there, with and without the promise about aliases."""
    assert vector_lines(pairwise("+", f32), disjoint)
    assert vector_lines(stencil(), disjoint)
    assert not vector_lines(recurrence(), disjoint), "control: vectors are not found where there can be none"
