"""Weak float literals, run on every device (rules LIT-4 to LIT-14, TYPE-10).

Oracle: NumPy's result for the same expression in binary64, within one ULP. The negative control of each expression is
NumPy's result with f32 literals: it must lie further away, or the test could not tell the two rules apart.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tack
from tack.lang.ir import IRConst
from typing_rig import array, kernel_of, module, nodes, typed_body

CAPTURED = 0.1
NUMPY_CAPTURED = np.float32(0.1)
X = np.array([1.0, 3.0, 7.0, 1e10, 0.7, -2.5])


def run(body, out="f8", x="f8", params="out, x", **names):
    """The output of a kernel whose loop has this body, over the inputs `X`."""
    text = f"@tack.kernel\ndef k({params}):\n    for i in range(out.shape[0]):\n        "
    kernel = module(text + body.replace("\n", "\n        ") + "\n", **names)["k"]
    result = tack.asarray(np.zeros(len(X), out))
    kernel(result, tack.asarray(X.astype(x)))
    return result.numpy()


EXPRESSIONS = [
    ("v * 0.1", lambda v, r: v * r(0.1)),
    ("v * -0.1", lambda v, r: v * r(-0.1)),
    ("v * (1.0 / 3.0)", lambda v, r: v * (r(1.0) / r(3.0))),
    ("0.1 - v", lambda v, r: r(0.1) - v),
    ("v / 0.3", lambda v, r: v / r(0.3)),
    ("v * (0.1 + 0.2)", lambda v, r: v * (r(0.1) + r(0.2))),
    ("v * (2 * 0.1)", lambda v, r: v * (r(2) * r(0.1))),
    ("v * (7 // 2 * 0.1)", lambda v, r: v * (r(3) * r(0.1))),
    ("v * -(0.1 - 3)", lambda v, r: v * -(r(0.1) - r(3))),
    ("v * 1.1 ** 2", lambda v, r: v * np.power(r(1.1), r(2))),
    ("v * sqrt(0.3)", lambda v, r: v * np.sqrt(r(0.3))),
    ("v * min(0.1, 0.3)", lambda v, r: v * r(0.1)),
    ("v * max(0.1, -1)", lambda v, r: v * r(0.1)),
    ("v * abs(-0.1)", lambda v, r: v * r(0.1)),
    ("min(v, 0.1)", lambda v, r: np.minimum(v, r(0.1))),
    ("max(v, -0.1, 0.1)", lambda v, r: np.maximum(v, r(0.1))),
    ("v * (0.1 if i < 9 else 0.2)", lambda v, r: v * r(0.1)),
    ("v if i > 9 else 0.1", lambda v, r: r(0.1) + 0 * v),
    ("0.1 if i < 9 else v", lambda v, r: r(0.1) + 0 * v),
    ("v * CAPTURED", lambda v, r: v * r(0.1)),
    ("v * math.pi", lambda v, r: v * r(math.pi)),
    ("v * T[i - i]", lambda v, r: v * r(0.1)),
    ("v * T[1]", lambda v, r: v * r(0.3)),
    ("v % 0.7", lambda v, r: np.mod(v, r(0.7))),
    ("v * (0.1 * 3 if i < 9 else 1)", lambda v, r: v * (r(0.1) * r(3))),
    ("v * tack.copysign(0.1, -1)", lambda v, r: v * -r(0.1)),
    ("v + half(0.2)", lambda v, r: v + r(0.2) * r(0.5)),
    ("v + half(half(0.4))", lambda v, r: v + r(0.4) * r(0.5) * r(0.5)),
    ("v + pick(i)", lambda v, r: v + r(0.1)),
    ("scaled(v, 0.1)", lambda v, r: v * (r(0.1) * r(3.0))),
    ("v + tenth(3)", lambda v, r: v + r(3) * r(0.1)),
]
FUNCTIONS = """
@tack.func
def half(s):
    return s * 0.5

@tack.func
def pick(k):
    if k > 9:
        return 0.3
    return 0.1

@tack.func
def scaled(x, s):
    t = s * 3.0
    return x * t

@tack.func
def tenth(n):
    return n * 0.1
"""
FUNCS = {name: value for name, value in module(FUNCTIONS).items() if isinstance(value, tack.lang.func.Func)}
NAMES = {"sqrt": math.sqrt, "math": math, "CAPTURED": CAPTURED, "T": (0.1, 0.3), **FUNCS}
IDS = [text for text, _ in EXPRESSIONS]


def equal(got, want):
    """Equal up to one ULP for the fused form that FLT-3 permits, which is far closer than any f32 literal comes."""
    return bool(np.all(np.abs(got - want) <= np.spacing(np.abs(want))))


@pytest.mark.parametrize(("text", "oracle"), EXPRESSIONS, ids=IDS)
def test_beside_f64_operands(device, text, oracle):
    """LIT-4 to LIT-6, LIT-10, LIT-11: literals count at full precision, as NumPy's do."""
    got = run("v = x[i]\nout[i] = " + text, **NAMES)
    want = oracle(X, np.float64)
    assert equal(got, want), (got, want)
    f32_literals = oracle(X, np.float32)  # NumPy, too, computes these by themselves at f32 and then widens
    assert not equal(f32_literals, want)


@pytest.mark.parametrize(("text", "oracle"), EXPRESSIONS, ids=IDS)
def test_f32_kernels_are_unchanged(device, text, oracle):
    """LIT-14: without an f64 operand, literals are f32; and nothing in the typed program is f64."""
    got = run("v = x[i]\nout[i] = " + text, out="f4", x="f4", **NAMES)
    with np.errstate(all="ignore"):
        want = oracle(X.astype("f4"), np.float32)
    assert want.dtype == np.float32
    assert np.allclose(got, want, rtol=3e-7, atol=0)
    params = {"out": array(tack.f32), "x": array(tack.f32)}
    kernel = typed_body("v = x[i]\nout[i] = " + text, params, **NAMES)
    for function in (kernel, *kernel.functions.values()):
        assert all(node.dtype is not tack.f64 for node in nodes(function, IRConst))
        assert all(symbol.dtype is not tack.f64 for symbol in function.symbols.values())


def one(body, out="f8", **names):
    return float(run(body, out=out, **names)[0])


def f32(value):
    return float(np.float32(value))


def test_casts_adapt_the_literal_inside(device):
    """LIT-5, LIT-12"""
    assert one("out[i] = tack.f64(0.1)") == 0.1 != f32(0.1)
    assert one("out[i] = tack.f64(1.0 + 5e-8)") == 1.0 + 5e-8 != f32(1.0 + 5e-8)
    assert one("out[i] = tack.f64(0.1 * 3)") == 0.1 * 3
    assert one("out[i] = tack.f32(0.1)") == f32(0.1)
    assert one("out[i] = float(0.1)") == f32(0.1)
    assert one("out[i] = tack.f64(1 / 3)") == f32(1 / 3) != 1 / 3
    assert one("out[i] = tack.f64(2147483647 + 1)") == -(2.0**31)
    assert one("out[i] = tack.f64(tack.f32(0.1))") == f32(0.1)


def test_an_integer_cast_takes_the_exact_literal(device):
    """LIT-12, INT-3: 16777217 has no f32 value."""
    assert one("out[i] = tack.i64(16777217.0)") == 16777217 != f32(16777217.0)
    assert one("out[i] = int(-16777217.9)") == -16777217
    assert one("a = 16777217.5\nout[i] = tack.u32(a)") == 16777217
    assert run("out[i] = tack.u64(9007199254740992.0) + tack.u64(1)", out="u8")[0] == 2**53 + 1


def test_integer_parts_keep_their_own_type(device):
    """LIT-12, LIT-13: an integer quotient is f32, and the sum takes the precision it meets."""
    third = f32(np.float32(1) / np.float32(3))
    assert one("out[i] = (1 / 3) + 1.1") == third + 1.1
    assert one("out[i] = (1 / 3) + 1.1") != 1 / 3 + 1.1
    assert one("out[i] = x[i] * (1 / 3)") == third
    assert one("out[i] = 2147483647 + 1 + 0.1") == -(2.0**31) + 0.1
    root = f32(np.sqrt(np.float32(2)))
    assert one("out[i] = sqrt(2) + 0.1", sqrt=math.sqrt) == root + 0.1


def test_targets_adopt(device):
    """LIT-5: floating stores, atomics and annotated locals; an f64 target widens nothing else (TYPE-10)."""
    assert one("out[i] = 0.1") == 0.1
    assert one("out[i] = 0.1 + 0.2") == 0.1 + 0.2
    assert one("tack.atomic_add(out, i, 0.1)") == 0.1
    assert one("tack.atomic_exchange(out, i, 0.1 * 3)") == 0.1 * 3
    assert one("y: tack.f64 = 0.1\nout[i] = y") == 0.1
    assert one("y: tack.f32 = 0.1\nout[i] = y") == f32(0.1)
    assert one("b = tack.local(1, tack.f64)\nb[0] = 0.1\nout[i] = b[0]") == 0.1
    assert one("y = tack.f32(1) * 0.1\nout[i] = y") == f32(0.1)


def test_what_meets_only_integers_is_f32(device):
    """LIT-7"""
    assert one("out[i] = (i + 1) * 0.1") == f32(0.1)
    assert one("out[i] = (i + 1) * 0.1 + x[i]") == f32(0.1) + 1.0
    assert one("out[i] = len(out) * 0.1") == f32(np.float32(len(X)) * np.float32(0.1))
    assert one("out[i] = int(0.1 * 30)") == 3


def test_locals_assigned_once(device):
    """LIT-8: as if the expression were written where the local is read, through other such locals too."""
    assert equal(run("a = 0.1\nout[i] = x[i] * a"), X * 0.1)
    assert equal(run("a = 0.1\nb = a * 3.0\nc = -b\nout[i] = x[i] * c"), X * -(0.1 * 3.0))
    assert equal(run("a = 3\nb = a * 0.1\nout[i] = x[i] * b"), X * (3 * 0.1))
    assert equal(run("a = 0.1 if x[i] > 2.0 else 0.2\nout[i] = x[i] * a"), X * np.where(X > 2.0, 0.1, 0.2))
    fused = np.array([float(Fraction(x) * Fraction(0.1) + Fraction(0.3)) for x in X.tolist()])  # FLT-3 permits it
    got = run("a, b = 0.1, 0.3\nout[i] = x[i] * a + b")
    assert equal(got, X * 0.1 + 0.3) or equal(got, fused)
    assert equal(run("if i < 99:\n    a = 0.1\nout[i] = x[i] * a"), X * 0.1)
    body = "a = 0.1\nlow = tack.f32(x[i]) * a\nout[i] = low + x[i] * a"
    assert equal(run(body), (X.astype("f4") * np.float32(0.1)).astype("f8") + X * 0.1)


def test_a_condition_is_evaluated_where_the_local_is_assigned(device):
    """LIT-8, EVAL-3: what the condition reads may change before the local is read."""
    body = "y = x[i]\na = 0.1 if y > 0 else 0.2\ny = -y\nout[i] = y * a"
    assert equal(run(body), -X * np.where(X > 0, 0.1, 0.2))
    body = "a = 0.1 if tack.atomic_add(out, i, 1.0) > 5.0 else 0.2\nout[i] = out[i] + x[i] * a"
    assert equal(run(body), 1.0 + X * 0.2)


def test_a_long_chain_of_locals_stays_short(device):
    """LIT-8: written out, the last of these would have 2**40 terms."""
    lines = ["v0 = 0.1"] + [f"v{k + 1} = v{k} * 0.5 + v{k} * 0.5" for k in range(40)]
    assert equal(run("\n".join([*lines, "out[i] = x[i] * v40"])), X * 0.1)


def test_locals_assigned_several_literals(device):
    """LIT-9: f64 when the kernel has an f64 array, else f32."""
    body = "a = 0.1\nif i > 0:\n    a = 0.3\nout[i] = a"
    assert np.array_equal(run(body), np.where(np.arange(len(X)) > 0, 0.3, 0.1))
    assert np.array_equal(run(body, x="f4"), np.where(np.arange(len(X)) > 0, 0.3, 0.1))
    body = "a = 1\nif i > 0:\n    a = 0.3\nout[i] = x[i] * a"
    assert equal(run(body), X * np.where(np.arange(len(X)) > 0, 0.3, 1.0))
    got = run(body, out="f4", x="f4")
    assert np.array_equal(got, X.astype("f4") * np.where(np.arange(len(X)) > 0, np.float32(0.3), np.float32(1)))


def test_comparisons_adopt(device):
    """LIT-5: each link of a chain on its own."""
    near = np.array([0.1, f32(0.1), np.nextafter(0.1, 1.0)])
    kernel = kernel_of("if i < 3:\n    out[i] = (x[i] == 0.1) + 2 * (x[i] < 0.1) + 4 * (0.0 < x[i] <= 0.1)", "out, x")
    out = tack.asarray(np.zeros(3, "i4"))
    kernel(out, tack.asarray(near))
    assert out.numpy().tolist() == [int(v == 0.1) + 2 * int(v < 0.1) + 4 * int(v <= 0.1) for v in near]
    low = tack.asarray(near.astype("f4"))
    kernel(out, low)
    assert out.numpy().tolist() == [5, 5, 5]


def test_captured_numbers_are_literals(device):
    """LIT-11, CAP-8: a NumPy scalar counts by its value; a typed constant is not weak."""
    assert one("out[i] = x[i] * C", C=0.1) == 0.1
    assert one("out[i] = x[i] * C", C=np.float64(0.1)) == 0.1
    assert one("out[i] = x[i] * C", C=np.float32(0.1)) == f32(0.1)
    assert one("out[i] = x[i] * C", C=tack.constant(0.1, tack.f32)) == f32(0.1)
    assert one("out[i] = tack.f32(x[i]) * C", C=tack.constant(0.1, tack.f64)) == 0.1


def test_results_of_device_functions_in_locals(device):
    """LIT-8, LIT-10"""
    assert equal(run("a = half(0.2)\nout[i] = x[i] * a", **FUNCS), X * (0.2 * 0.5))
    assert equal(run("a = half(0.2)\nb = half(a)\nout[i] = x[i] * b", **FUNCS), X * (0.2 * 0.5 * 0.5))


def test_a_float_argument_beside_an_f64_array(device):
    """TYPE-10, PAR-4: the argument is f64, and widens the expression it appears in."""
    kernel = kernel_of("if i < 1:\n    out[i] = a[i] * s", "a, out, s")
    a = tack.asarray(np.array([3.0], "f4"))
    wide, narrow = tack.asarray(np.zeros(1)), tack.asarray(np.zeros(1, "f4"))
    kernel(a, wide, 0.1)
    kernel(a, narrow, 0.1)
    assert wide.numpy()[0] == 3.0 * 0.1
    assert narrow.numpy()[0] == np.float32(3.0) * np.float32(0.1)
