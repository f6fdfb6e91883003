"""Floats in the generated C of every dialect, run on the host under the undefined-behaviour sanitizer.

Oracles: NumPy at the same precision, NumPy's `divmod`, and `fractions` for the one rounding of a named product. Rules
FLT-1 to FLT-7, FDIV-1 to FDIV-4, LIT-4, LIT-5, MATH-1 to MATH-3, INT-3 and INT-4.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dialects import FLOAT_TYPES, each_dialect, make, needs_compiler, run, zeros
from numeric_oracles import round_to_f32, same_float
from rigs import host_run
from tack.codegen.opencl_gen import OpenCLOptions

pytestmark = needs_compiler

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 0.5, 2.5, -2.5, 3.0, 7.25, -7.0, 1e10, -3e-5, 8388609.0)
SPECIAL = (math.inf, -math.inf, math.nan)
BINARY = {
    "x + y": np.add,
    "x - y": np.subtract,
    "x * y": np.multiply,
    "x / y": np.divide,
    "min(x, y)": np.fmin,
    "max(x, y)": np.fmax,
    "tack.copysign(x, y)": np.copysign,
    "x < y": np.less,
    "x <= y": np.less_equal,
    "x == y": np.equal,
    "x != y": np.not_equal,
}
UNARY = {
    "-x": np.negative,
    "abs(x)": np.abs,
    "tack.fabs(x)": np.abs,
    "tack.sqrt(abs(x))": lambda x: np.sqrt(np.abs(x)),
    "tack.floor(x)": np.floor,
    "tack.ceil(x)": np.ceil,
    "tack.trunc(x)": np.trunc,
    "tack.round(x)": np.rint,
    "tack.isnan(x)": np.isnan,
    "tack.isinf(x)": np.isinf,
    "tack.isfinite(x)": np.isfinite,
    "1 if x else 0": lambda x: np.where(x != 0, 1, 0),
    "not x": lambda x: np.where(x != 0, 0, 1),
    "x - x": lambda x: x - x,
    "x * 0": lambda x: x * 0,
    "x != x": lambda x: x != x,
}
SMOOTH = "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p".split()
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}


def floats(name: str) -> type[np.floating[Any]]:
    return np.float32 if name == "f32" else np.float64


def table_kernel(params: str, expressions: list[str], reads: str) -> Any:
    stores = "".join(f"out[{row}, i] = {text}\n" for row, text in enumerate(expressions))
    return make(f"{params}, out", ("i in range(a.shape[0])", f"{reads}\n{stores}"))


def typed_dialects() -> list[Any]:
    return [pytest.param(d, t, id=f"{d}-{t}") for d, types in FLOAT_TYPES.items() for t in types]


def agree(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], name: str, tolerance: int, text: str) -> None:
    for g, w in zip(got.tolist(), want.astype(floats(name)).tolist(), strict=True):
        assert same_float(g, w, name, tolerance), f"{text}: {g!r}, must be {w!r}"


@pytest.mark.parametrize(("dialect", "name"), typed_dialects())
def test_operations_and_classes(dialect: str, name: str) -> None:
    """FLT-1, FLT-2, FLT-5 to FLT-7, MATH-1: exact operations, NaN, infinities and the signs of zeros."""
    kind = floats(name)
    pairs = list(itertools.product(NUMBERS + SPECIAL, repeat=2))
    a, b = (np.array(numbers, kind) for numbers in zip(*pairs, strict=True))
    out = np.zeros((len(BINARY) + len(UNARY), len(a)), kind)
    run(dialect, table_kernel("a, b", [*BINARY, *UNARY], "x, y = a[i], b[i]"), a, b, out)
    with np.errstate(all="ignore"):
        for row, (text, exact) in zip(out, {**BINARY, **UNARY}.items(), strict=True):
            want = exact(a, b) if text in BINARY else exact(a)
            if "min(" in text or "max(" in text:  # either zero on a tie
                row, want = row + 0.0, np.asarray(want) + 0.0
            agree(row, np.asarray(want), name, 0, f"{text} in {dialect}")


@pytest.mark.parametrize(("dialect", "name"), typed_dialects())
def test_floor_division_and_remainder(dialect: str, name: str) -> None:
    """FDIV-1 to FDIV-4: CPython's algorithm, with the contract's zeros and infinities."""
    kind = floats(name)
    tops, bottoms = NUMBERS + SPECIAL, tuple(v for v in NUMBERS + SPECIAL if v != 0)
    pairs = [(x, y) for x, y in itertools.product(tops, bottoms) if abs(x / y) < 1e9 or not math.isfinite(x / y)]
    pairs += [(0.5, 0.1), (1.0, 0.1), (0.3, 0.1), (-1.0, 0.1)]
    a, b = (np.array(numbers, kind) for numbers in zip(*pairs, strict=True))
    out = np.zeros((2, len(a)), kind)
    run(dialect, table_kernel("a, b", ["x // y", "x % y"], "x, y = a[i], b[i]"), a, b, out)
    with np.errstate(all="ignore"):
        quotients, remainders = np.divmod(a, b)
    remainders = np.where(remainders == 0, np.copysign(kind(0), b), remainders)
    quotients = np.where(np.isinf(a), kind("nan"), quotients)
    agree(out[0], quotients, name, 4, f"// in {dialect}")
    agree(out[1], remainders, name, 4, f"% in {dialect}")


def test_the_rounded_quotient_is_a_wrong_oracle() -> None:
    """The control of the test above."""
    assert math.floor(1.0 / 0.1) == 10 and 1.0 // 0.1 == 9


@pytest.mark.parametrize(("dialect", "name"), typed_dialects())
def test_mathematics(dialect: str, name: str) -> None:
    """MATH-1, MATH-2: builtins within eight units in the last place, on bounded arguments."""
    kind = floats(name)
    a = np.array([0.01, 0.1, 0.3, 0.5, 0.75, 0.9, 1.0], kind)
    expressions = [f"tack.{f}(x)" for f in SMOOTH] + [
        "tack.atan2(x, y)",
        "x ** y",
        "tack.pow(y, x)",
        "tack.fma(x, y, x)",
    ]
    out = np.zeros((len(expressions), len(a)), kind)
    run(dialect, table_kernel("a, b", expressions, "x, y = a[i], b[i]"), a, a[::-1].copy(), out)
    x, y = a.astype(np.float64), a[::-1].astype(np.float64)
    want = [getattr(np, NUMPY_NAMES.get(f, f))(x) for f in SMOOTH] + [np.arctan2(x, y), x**y, y**x, x * y + x]
    for row, exact, text in zip(out, want, expressions, strict=True):
        agree(row, exact, name, 8, f"{text} in {dialect}")


@each_dialect
def test_small_and_special_arguments_of_expm1_and_log1p(dialect: str) -> None:
    """MATH-2: Metal has neither, so they are built from others; small arguments keep their precision."""
    a = np.array([0.0, -0.0, 1e-30, -1e-12, 1e-8, 3e-5, -0.25, 80.0, math.inf, math.nan, -1.0], np.float32)
    out = np.zeros((2, len(a)), np.float32)
    run(dialect, table_kernel("a", ["tack.expm1(x)", "tack.log1p(x)"], "x = a[i]"), a, out)
    with np.errstate(all="ignore"):
        agree(out[0], np.expm1(a.astype(np.float64)), "f32", 8, "expm1")
        agree(out[1], np.log1p(a.astype(np.float64)), "f32", 8, "log1p")


@each_dialect
def test_conversions(dialect: str) -> None:
    """INT-3, INT-4, TYPE-5: floats truncate toward zero; integers round once; `int / int` is an f32 quotient."""
    floats_ = np.array([-2.7, 2.7, -0.5, 127.9, -128.0, 0.0], np.float32)
    integers = np.array([2**63 - 1, -(2**63), 2**24 + 1, 7, -7, 2**53 + 1], np.int64)
    unsigned = np.array([2**64 - 1, 2**63, 2**40 + 1, 0, 5, 2**32 - 1], np.uint64)
    text = "".join(f"t{t}[i] = tack.{t}(x[i])\n" for t in ("i8", "i16", "i32", "i64"))
    text += "q[0, i] = n[i]\nq[1, i] = u[i]\nq[2, i] = n[i] / u[5]\nq[3, i] = tack.f32(n[i]) / 3\n"
    kernel = make("x, n, u, ti8, ti16, ti32, ti64, q", ("i in range(x.shape[0])", text))
    outs = [zeros(6, t) for t in ("i8", "i16", "i32", "i64")]
    q = np.zeros((4, 6), np.float32)
    run(dialect, kernel, floats_, integers, unsigned, *outs, q)
    for out in outs:
        assert out.tolist() == [math.trunc(v) for v in floats_.tolist()]
    assert q[0].tolist() == [round_to_f32(v) for v in integers.tolist()]
    assert q[1].tolist() == [round_to_f32(v) for v in unsigned.tolist()]
    divisor = np.float32(round_to_f32(2**32 - 1))
    assert q[2].tolist() == (q[0] / divisor).tolist()
    assert q[3].tolist() == (q[0] / np.float32(3)).tolist()


@each_dialect
def test_literals_keep_every_digit(dialect: str) -> None:
    """LIT-4, LIT-5, CAP-7: a literal is rounded once, at the precision that it meets; NaN and infinities too."""
    names = {"INF": math.inf, "NAN": math.nan, "PI": math.pi, "ZERO": -0.0, "TINY": 1.1754943508222875e-38}
    expressions = [
        "0.1",
        "x * 0.1",
        "PI",
        "-INF",
        "NAN",
        "ZERO",
        "TINY",
        "1e22",
        "3.4028234663852886e38",
        "x * (1.0 / 3.0)",
    ]
    for name in FLOAT_TYPES[dialect]:
        kind = floats(name)
        stores = "".join(f"out[{row}] = {text}\n" for row, text in enumerate(expressions))
        kernel = make("a, out", ("i in range(1)", f"x = a[0]\n{stores}"), names=names)
        out = np.zeros(len(expressions), kind)
        run(dialect, kernel, np.array([7.0], kind), out)
        want = [0.1, kind(7) * kind(0.1), math.pi, -math.inf, math.nan, -0.0, 1.1754943508222875e-38, 1e22]
        want += [3.4028234663852886e38, kind(7) * (kind(1) / kind(3))]
        agree(out, np.array(want, kind), name, 0, f"literals in {dialect}")


def product_error(a: float, b: float, kind: type[np.floating[Any]]) -> float:
    """What a fused ``a * b - rounded`` would give instead of zero: the rounding error of the product."""
    rounded = kind(a) * kind(b)
    return float(Fraction(float(kind(a))) * Fraction(float(kind(b))) - Fraction(float(rounded)))


NAMED = """
@tack.func
def product(x, y):
    return x * y

@tack.func
def shifted(p, c):
    return p - c
"""
NAMED_BODY = """
p = a[i] * b[i]
out[0, i] = p - c[i]
out[1, i] = product(a[i], b[i]) - c[i]
out[2, i] = shifted(a[i] * b[i], c[i])
keep[i] = a[i] * b[i]
out[3, i] = keep[i] - c[i]
q = -(a[i] * b[i])
out[4, i] = q + c[i]
r = (a[i] * b[i]) * one
out[5, i] = r - c[i]
"""


def named_products(dialect: str, name: str, **options: Any) -> np.ndarray[Any, Any]:
    """Sums of named products with the products' negated roundings: zero, unless a product was fused."""
    kind = floats(name)
    a, b = np.array([0.1, 1.3, 7.7, 3.0], kind), np.array([0.2, 1.7, 0.3, 0.2], kind)
    assert all(product_error(x, y, kind) != 0 for x, y in zip(a.tolist(), b.tolist(), strict=True))
    out = np.ones((6, len(a)), kind)
    kernel = make("a, b, c, keep, out, one", ("i in range(a.shape[0])", NAMED_BODY), before=NAMED)
    run(dialect, kernel, a, b, a * b, np.zeros_like(a), out, kind(1), **options)
    return out


@pytest.mark.skipif(not host_run.has_fma(), reason="the processor has no fused multiply-add to contract to")
@pytest.mark.parametrize(("dialect", "name"), typed_dialects())
def test_a_named_product_is_rounded(dialect: str, name: str) -> None:
    """FLT-3, FLT-4: a product bound to a name, passed, returned or stored is rounded once before a later sum.

    CUDA's text is compiled with contraction across statements, as NVRTC does it.
    """
    assert not named_products(dialect, name).any()


@each_dialect
def test_one_expression_may_fuse_and_nothing_else(dialect: str) -> None:
    """FLT-3: ``a * b + c`` is the separate or the fused result, exactly."""
    a, b, c = (np.array(v, np.float32) for v in ([0.1, 1.3, 7.7], [0.2, 1.7, 0.3], [0.3, -2.21, -2.31]))
    out = np.zeros(3, np.float32)
    run(dialect, make("a, b, c, out", ("i in range(3)", "out[i] = a[i] * b[i] + c[i]")), a, b, c, out)
    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), out.tolist(), strict=True):
        product = round_to_f32(Fraction(x) * Fraction(y))
        separate = round_to_f32(Fraction(product) + Fraction(z))
        assert got in (separate, round_to_f32(Fraction(x) * Fraction(y) + Fraction(z)))


def test_f64_on_a_device_without_it_is_a_type_error() -> None:
    """PAR-7: Metal has no f64, nor has an OpenCL device that does not report it; the error says where."""
    cast = make("out", ("i in range(4)", "out[i] = tack.f64(i) * 2.5"))
    typed = host_run.type_for(cast, (np.zeros(4, np.float32),))
    with pytest.raises(TypeError, match=r"(?s)metal has no f64.*out\[i\].*\^.*f32"):
        host_run.generate("metal", typed)
    with pytest.raises(TypeError, match="opencl has no f64"):
        host_run.generate("opencl", typed, OpenCLOptions(f64=False))
    array = host_run.type_for(make("out", ("i in range(4)", "out[i] = 1")), (np.zeros(4),))
    with pytest.raises(TypeError, match="`out` is f64"):
        host_run.generate("metal", array)
