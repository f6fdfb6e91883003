"""Floating arithmetic without `//`: safe math, NaN, signed zeros, grouping, contraction, builtins.

Oracles: NumPy at the same precision, CPython's `math`, and exact fractions where an operation may be fused.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from numeric_oracles import a_dtype, is_slow, round_to_f32, same_float, ulps
from typing_rig import module

FLOATS = ("f32", "f64")
INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, INF, -INF, NAN, 3e38, -3e38]
COMPARE = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def run(params, value, out, *args, before=""):
    """Store an expression of `i` to each element of `out`, after statements that name its parts; `out`."""
    lines = "".join(f"        {line}\n" for line in [*before.splitlines(), f"out[i] = {value}"])
    head = f"@tack.kernel\ndef k(out{params and ', ' + params}):\n    for i in range(out.size):\n"
    module(head + lines, math=math, np=np)["k"](out, *args)
    return out


def column(name, values):
    return np.array(values, a_dtype(name))


def like(a, name=None):
    return np.zeros(len(a), a_dtype(name) if name else a.dtype)


def pairs(name, values=None):
    values = SPECIAL if values is None else values
    a, b = zip(*itertools.product(values, repeat=2), strict=True)
    return column(name, a), column(name, b)


def same(got, want):
    """Bit for bit, any NaN for any NaN."""
    return np.array_equal(got, want, equal_nan=True) and np.array_equal(
        np.signbit(got) & ~np.isnan(got), np.signbit(want) & ~np.isnan(want)
    )


@pytest.fixture(params=FLOATS)
def name(request):
    return request.param


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


# ------------------------------------------------------------------------------------------- values and identities


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_arithmetic_is_ieee(device, name, op):
    """FLT-1, TDIV-4: every pair of exceptional and ordinary values, exact, signs of zeros and infinities included."""
    a, b = pairs(name, [*SPECIAL, 0.1, 1 / 3, 1e-30, 7e7])
    want = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op](a, b)
    got = run("a, b", f"a[i] {op} b[i]", like(a), a, b)
    assert same(got, want)
    assert not same(np.zeros_like(want), want), "the control"


@pytest.mark.parametrize(
    "expression", ["x - x", "x * 0.0", "0.0 * x", "x / x", "x + 0.0", "x * 1.0", "0.0 - x", "x - 0.0"]
)
def test_no_unsafe_identities(device, name, expression):
    """FLT-2: they are computed, with NaN, infinities and signed zeros."""
    x = column(name, SPECIAL)
    zero, one = x.dtype.type(0), x.dtype.type(1)
    want = {
        "x - x": x - x,
        "x * 0.0": x * zero,
        "0.0 * x": zero * x,
        "x / x": x / x,
        "x + 0.0": x + zero,
        "x * 1.0": x * one,
        "0.0 - x": zero - x,
        "x - 0.0": x - zero,
    }[expression]
    assert same(run("a", expression, like(x), x, before="x = a[i]"), want)


def test_the_folds_that_fast_math_makes_are_wrong(device, name):
    """FLT-2: the negative control, what a folding compiler would give, differs from what Tack gives."""
    x = column(name, SPECIAL)
    folded = {"x - x": np.zeros_like(x), "x * 0.0": np.zeros_like(x), "x / x": np.ones_like(x), "x + 0.0": x}
    for expression, wrong in folded.items():
        assert not same(run("a", expression, like(x), x, before="x = a[i]"), wrong)
    assert run("a", "x != x", like(x, "i32"), x, before="x = a[i]").any()


def test_constants_are_not_folded_unsafely(device, name):
    """FLT-2, TDIV-4: the same with infinities made of captured and written constants."""
    space = module(
        """
        INF = float("inf")
        @tack.kernel
        def k(out):
            for i in range(1):
                out[0] = INF - INF
                out[1] = INF * 0.0
                out[2] = 1.0 / (INF - INF)
                out[3] = -1.0 / INF
                out[4] = INF != INF - 1.0
                big = 3e38
                out[5] = big * 1e300
        """
    )
    out = column(name, [9] * 6)
    space["k"](out)
    assert np.isnan(out[:3]).all()
    assert out[3] == 0 and np.signbit(out[3]) and out[4] == 0
    assert out[5] == INF


# --------------------------------------------------------------------------------------- comparisons, conditions


@pytest.mark.parametrize("op", COMPARE)
def test_comparisons(device, name, op):
    """FLT-5: with NaN only `!=` is true; as a value, a condition, an arm and negated."""
    a, b = pairs(name)
    want = [int(COMPARE[op](x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    compared = f"a[i] {op} b[i]"
    assert run("a, b", compared, like(a, "i32"), a, b).tolist() == want
    assert run("a, b", f"7 if {compared} else 3", like(a, "i32"), a, b).tolist() == [7 if w else 3 for w in want]
    assert run("a, b", f"not ({compared})", like(a, "i32"), a, b).tolist() == [1 - w for w in want]
    branch = f"r = 0\nif {compared}:\n    r = 1"
    assert run("a, b", "r", like(a, "i32"), a, b, before=branch).tolist() == want
    negated = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}[op]
    if op not in ("==", "!="):
        wrong = [1 - int(COMPARE[negated](x, y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        assert wrong != want, "the control: `not >=` is not `<`"


def test_comparison_with_itself(device, name):
    """FLT-5, FLT-2: `x != x` finds the NaNs, in every spelling."""
    x = column(name, SPECIAL)
    nan = np.isnan(x).astype(int).tolist()
    for spelling in ("a[i] != a[i]", "not a[i] == a[i]", "x != x", "isnan_(x)", "not (x <= x)"):
        got = run("a", spelling.replace("isnan_", "tack.isnan"), like(x, "i32"), x, before="x = a[i]")
        assert got.tolist() == nan, spelling


def test_chains_with_nan(device, name):
    """FLT-5, EVAL-6."""
    a, b = pairs(name)
    got = run("a, b", "-1.0 <= a[i] <= b[i] < 2.0", like(a, "i32"), a, b)
    assert got.tolist() == [int(-1.0 <= x <= y < 2.0) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_conditions(device, name):
    """FLT-5: NaN is true, either zero is false, as everywhere in Python."""
    x = column(name, SPECIAL)
    truth = [int(bool(v)) for v in x.tolist()]
    assert truth[:2] == [0, 0] and truth[SPECIAL.index(INF)] == 1 and truth[8] == 1
    forms = {
        "1 if a[i] else 0": truth,
        "not a[i]": [1 - t for t in truth],
        "a[i] and 1": truth,
        "a[i] or 0": truth,
        "bool(a[i])": truth,
    }
    for form, want in forms.items():
        assert run("a", form, like(x, "i32"), x).tolist() == want, form
    branch = "r = 0\nif a[i]:\n    r = 1"
    assert run("a", "r", like(x, "i32"), x, before=branch).tolist() == truth
    looped = "r = 0\nx = a[i]\nwhile x:\n    r = 1\n    x = 0.0"
    assert run("a", "r", like(x, "i32"), x, before=looped).tolist() == truth


@pytest.mark.parametrize("op", ["min", "max"])
def test_scalar_extrema(device, name, op):
    """FLT-7: the number beside a NaN, in either place; either zero on a tie; unlike Python's own."""
    a, b = pairs(name)
    got = run("a, b", f"{op}(a[i], b[i])", like(a), a, b)
    want = (np.fmin if op == "min" else np.fmax)(a, b)
    assert np.array_equal(got, want, equal_nan=True)
    python = [(min if op == "min" else max)(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert not np.array_equal(np.array(python), want.astype(float), equal_nan=True), "the control"
    three = run("a, b", f"{op}(a[i], b[i], 1.25)", like(a), a, b)
    assert np.array_equal(three, (np.fmin if op == "min" else np.fmax)(want, a.dtype.type(1.25)))


# ------------------------------------------------------------------------------------------------ zeros, rounding


def test_negation_and_abs(device, name):
    """FLT-6: the sign bit flips or clears, of zeros, infinities and NaNs' magnitude alike."""
    x = column(name, SPECIAL)
    assert same(run("a", "-a[i]", like(x), x), -x)
    assert same(run("a", "--a[i]", like(x), x), x)
    assert same(run("a", "abs(a[i])", like(x), x), np.abs(x))
    assert same(run("a", "-abs(a[i])", like(x), x), -np.abs(x))
    assert not same(0 - x, -x), "the control: subtraction from zero is no negation"


ROUNDED = [
    0.0,
    -0.0,
    0.1,
    -0.1,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    -2.5,
    0.49999997,
    -0.49999997,
    3.7,
    -3.7,
    8388607.5,
    -8388607.5,
]
ROUNDED += [8388609.0, 1e30, -1e30, INF, -INF, NAN]


@pytest.mark.parametrize("function", ["floor", "ceil", "trunc", "round"])
@pytest.mark.parametrize("spelling", ["math.{}", "np.{}", "tack.{}", "round"])
def test_rounding_to_whole_numbers(device, name, function, spelling):
    """MATH-3, FLT-6: half to even, signed zeros kept, floats of the same type."""
    if (spelling == "round") != (function == "round"):
        return
    x = column(name, ROUNDED)
    assert same(
        run("a", f"{spelling.format(function)}(a[i])", like(x), x),
        {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}[function](x),
    )


def test_rounding_is_not_away_from_zero():
    halves = np.array([0.5, 1.5, 2.5])
    assert np.rint(halves).tolist() == [0.0, 2.0, 2.0] != np.floor(halves + 0.5).tolist(), "the control"


# ------------------------------------------------------------------------------------------ grouping, contraction


def test_grouping_is_kept(device, name):
    """FLT-2: sums and products as they are written, in one expression, over names and over loops."""
    big = column(name, [1e30, 1.0, 3e7, 2.0**24, 0.1])
    neg, one = -big, column(name, [1.0, 1e-9, 1.0, 1.0, 0.2])
    cases = {
        "(a[i] + b[i]) + c[i]": (big + neg) + one,
        "a[i] + (b[i] + c[i])": big + (neg + one),
        "a[i] + b[i] + c[i]": (big + neg) + one,
        "(a[i] + c[i]) + b[i]": (big + one) + neg,
        "(a[i] * b[i]) * c[i]": (big * neg) * one,
        "a[i] * (b[i] * c[i])": big * (neg * one),
        "a[i] - (a[i] - c[i])": big - (big - one),
        "(a[i] + c[i]) - a[i]": (big + one) - big,
    }
    assert not same(cases["(a[i] + b[i]) + c[i]"], cases["a[i] + (b[i] + c[i])"]), "the control"
    for expression, want in cases.items():
        assert same(run("a, b, c", expression, like(big), big, neg, one), want), expression


def test_a_sum_in_a_loop_runs_in_order(device, name):
    """FLT-2, LOOP-3: no vectoriser regroups it; the oracle adds one by one."""
    a = np.random.default_rng(1).standard_normal(60 if is_slow(device) else 1003).astype(a_dtype(name))
    k = module(
        """
        @tack.kernel
        def k(a, out):
            for i in range(1):
                for j in range(a.size):
                    out[0] += a[j]
                total = out[1]
                for j in range(a.size):
                    total += a[j]
                out[1] = total
        """
    )["k"]
    out = np.zeros(2, a.dtype)
    k(a, out)
    total = a.dtype.type(0)
    for v in a:
        total = total + v
    assert out.tolist() == [float(total)] * 2
    if not is_slow(device):
        assert float(total) != float(a.sum()), "the control: pairwise summation differs"


def rounded(value, name):
    """An exact fraction rounded once to the type."""
    return round_to_f32(value) if name == "f32" else float(value)


def products(name):
    """Pairs whose products are inexact, and a third column near their negated rounding."""
    rng = np.random.default_rng(5)
    a = rng.uniform(0.5, 2, 40).astype(a_dtype(name))
    b = rng.uniform(0.5, 2, 40).astype(a_dtype(name))
    return a, b, -(a * b)


SIGNS = {
    "a[i] * b[i] + c[i]": (1, 1),
    "c[i] + a[i] * b[i]": (1, 1),
    "c[i] - a[i] * b[i]": (-1, 1),
    "a[i] * b[i] - c[i]": (1, -1),
    "-(a[i] * b[i]) + c[i]": (-1, 1),
}


@pytest.mark.parametrize("expression", SIGNS)
def test_one_expression_may_be_fused_or_not(device, name, expression):
    """FLT-3: either the separate or the fused value, exactly, by fractions."""
    of_product, of_c = SIGNS[expression]
    a, b, c = products(name)
    c = c * of_product * of_c  # so that it cancels the rounded product
    got = run("a, b, c", expression, like(a), a, b, c)
    fused_differs = False
    for value, x, y, z in zip(got.tolist(), a.tolist(), b.tolist(), c.tolist(), strict=True):
        product, addend = of_product * Fraction(x) * Fraction(y), of_c * Fraction(z)
        fused = rounded(product + addend, name)
        separate = rounded(Fraction(rounded(product, name)) + addend, name)
        assert value in (fused, separate)
        fused_differs |= fused != separate
    assert fused_differs, "the control: these inputs tell the two apart"


def test_augmented_assignment_is_one_expression(device, name):
    """FLT-3."""
    a, b, c = products(name)
    got = run("a, b, c", "x", like(a), a, b, c, before="x = c[i]\nx += a[i] * b[i]")
    for value, x, y, z in zip(got.tolist(), a.tolist(), b.tolist(), c.tolist(), strict=True):
        product = Fraction(x) * Fraction(y)
        assert value in (
            rounded(product + Fraction(z), name),
            rounded(Fraction(rounded(product, name)) + Fraction(z), name),
        )


NAMED = {
    "assignment": ("p = a[i] * b[i]", "p + c[i]"),
    "assignment, difference": ("p = a[i] * b[i]\nq = -c[i]", "p - q"),
    "annotation": ("p: tack.{0} = a[i] * b[i]", "p + c[i]"),
    "parameter": ("", "same(a[i] * b[i]) + c[i]"),
    "result": ("", "product(a[i], b[i]) + c[i]"),
    "tuple": ("p, q = a[i] * b[i], c[i]", "p + q"),
    "store and reload": ("out[i] = a[i] * b[i]", "out[i] + c[i]"),
    "local array": ("t = tack.local(1, tack.{0})\nt[0] = a[i] * b[i]", "t[0] + c[i]"),
}


@pytest.mark.parametrize("way", NAMED)
def test_naming_rounds(device, name, way):
    """FLT-4: a product that has a name is rounded once; read once, plus its negated rounding, it gives 0."""
    before, value = (text.format(name) for text in NAMED[way])
    a, b, c = products(name)
    lines = "".join(f"        {line}\n" for line in [*before.splitlines(), f"out[i] = {value}"])
    text = (
        "@tack.func\ndef same(x):\n    return x\n\n@tack.func\ndef product(x, y):\n    return x * y\n\n"
        f"@tack.kernel\ndef k(out, a, b, c):\n    for i in range(a.size):\n{lines}"
    )
    out = like(a)
    module(text)["k"](out, a, b, c)
    assert not out.any()
    exact = [
        Fraction(x) * Fraction(y) + Fraction(z) for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert any(exact), "the control: a fused sum is the product's rounding error"


def test_a_named_product_minus_itself(device, name):
    """FLT-4: with p = k * 0.2, `p - p` is zero, also through a device function, inside conditions and loops."""
    text = """
    @tack.func
    def scaled(k):
        return k * 0.2

    @tack.func
    def difference(x):
        return x - x

    @tack.kernel
    def k(out, a):
        for i in range(a.size):
            p = a[i] * 0.2
            out[4 * i] = p - p
            q = scaled(a[i])
            out[4 * i + 1] = q - q
            out[4 * i + 2] = difference(a[i] * 0.2)
            out[4 * i + 3] = 1.0 if q - q != 0.0 else 0.0
    """
    a = np.arange(20).astype(a_dtype(name))
    out = np.ones(80, a.dtype)
    module(text)["k"](out, a)
    assert not out.any()


# ------------------------------------------------------------------------------------------------------- builtins

# Each with a domain in which NumPy at the same precision is an oracle to a few ULP.
DOMAINS = {
    "sqrt": (0, 1e6, 0),
    "sin": (-10, 10, 8),
    "cos": (-10, 10, 8),
    "tan": (-1.4, 1.4, 8),
    "asin": (-1, 1, 8),
    "acos": (-1, 1, 8),
    "atan": (-50, 50, 8),
    "sinh": (-8, 8, 8),
    "cosh": (-8, 8, 8),
    "tanh": (-4, 4, 8),
    "exp": (-20, 20, 8),
    "exp2": (-20, 20, 8),
    "expm1": (-8, 8, 8),
    "log": (1e-3, 1e6, 8),
    "log2": (1e-3, 1e6, 8),
    "log10": (1e-3, 1e6, 8),
    "log1p": (-0.9, 1e4, 8),
    "fabs": (-10, 10, 0),
}
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}


def spellings(function):
    """The spellings of a builtin in the modules that have it."""
    numpy_name = NUMPY_NAMES.get(function, function)
    yield f"tack.{function}"
    if hasattr(math, function):
        yield f"math.{function}"
    if hasattr(np, numpy_name):
        yield f"np.{numpy_name}"


def call(function, params, out, *args):
    return run(params, f"{function}({', '.join(p + '[i]' for p in params.split(', '))})", out, *args)


def close(got, want, name, tolerance):
    return all(same_float(g, w, name, tolerance) for g, w in zip(got.tolist(), want.tolist(), strict=True))


@pytest.mark.parametrize("function", DOMAINS)
def test_one_argument_builtins(device, name, function):
    """MATH-1, MATH-2, FLT-8: within 8 ULP of the exact value rounded, on a stated domain; `sqrt` is exact."""
    low, high, tolerance = DOMAINS[function]
    x = np.linspace(low, high, 31 if is_slow(device) else 501).astype(a_dtype(name))
    numpy_function = getattr(np, NUMPY_NAMES.get(function, function))
    want = numpy_function(x.astype(np.float64)).astype(x.dtype)
    for spelling in spellings(function):
        got = call(spelling, "a", like(x), x)
        for g, w, v in zip(got.tolist(), want.tolist(), x.tolist(), strict=True):
            # Where the result cancels to near zero the argument's own rounding dominates: an absolute bound there.
            assert same_float(g, w, name, tolerance) or abs(g - w) <= 2 * np.finfo(x.dtype).eps * min(1, abs(v)), (
                v,
                g,
                w,
            )
    assert not close(np.nextafter(want, np.inf) * x.dtype.type(1.0001), want, name, tolerance), "the control"


@pytest.mark.parametrize("function", ["atan2", "copysign", "pow"])
def test_two_argument_builtins(device, name, function):
    """MATH-1, MATH-4, POW-4: quadrants, signs, powers of positive bases."""
    values = [0.5, -0.5, 1.0, -1.0, 3.0, -7.25, 100.0]
    a, b = pairs(name, values)
    if function == "pow":
        a = np.abs(a)
    want = getattr(np, NUMPY_NAMES.get(function, function))(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)
    for spelling in spellings(function):
        assert close(call(spelling, "a, b", like(a), a, b), want, name, 8)


def test_copysign_and_atan2_of_zeros(device, name):
    """MATH-4, FLT-6: the sign of a zero counts."""
    a, b = pairs(name, [0.0, -0.0, 1.0, -1.0, INF, -INF])
    assert same(call("math.copysign", "a, b", like(a), a, b), np.copysign(a, b))
    assert close(call("math.atan2", "a, b", like(a), a, b), np.arctan2(a.astype(float), b).astype(a.dtype), name, 8)
    nan = column(name, [NAN, -NAN])
    got = call("math.copysign", "a, b", like(nan), column(name, [2, 2]), np.copysign(nan, column(name, [1, -1])))
    assert got.tolist() == [2.0, -2.0]


def test_fma_rounds_once(device, name):
    """MATH-4: the exact product and sum, rounded once, by fractions."""
    a, b, c = products(name)
    got = call("tack.fma", "a, b, c", like(a), a, b, c)
    want = [
        rounded(Fraction(x) * Fraction(y) + Fraction(z), name)
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    assert got.tolist() == want
    assert any(want) and not (a * b + c).any(), "the control: two roundings give zero"


def test_classes(device, name):
    """MATH-1, TYPE-5: isnan, isinf and isfinite, i32 0 or 1."""
    x = column(name, SPECIAL)
    for function in ("isnan", "isinf", "isfinite"):
        want = getattr(np, function)(x).astype(int).tolist()
        for spelling in spellings(function):
            assert call(spelling, "a", like(x, "i64"), x).tolist() == want


EXCEPTIONAL = {
    "sqrt": [-1.0, -0.0, INF, NAN],
    "log": [0.0, -1.0, INF, NAN],
    "log2": [0.0, -1.0, INF],
    "log10": [0.0, -1.0, INF],
    "log1p": [-1.0, -2.0, INF, -0.0],
    "exp": [INF, -INF, NAN, 1e4],
    "exp2": [INF, -INF, NAN, 1e5],
    "expm1": [INF, -INF, -0.0],
    "asin": [2.0, -0.0],
    "acos": [2.0, 1.0],
    "sin": [INF, -0.0, NAN],
    "cos": [INF, NAN],
    "tan": [INF, -0.0],
    "atan": [INF, -INF, -0.0],
    "sinh": [INF, -INF, -0.0],
    "cosh": [INF, -INF],
    "tanh": [INF, -INF, -0.0],
}


@pytest.mark.parametrize("function", EXCEPTIONAL)
def test_exceptional_classes_of_builtins(device, name, function):
    """FLT-2, MATH-1: nothing raises; the class and the sign of zero are NumPy's."""
    x = column(name, EXCEPTIONAL[function])
    want = getattr(np, NUMPY_NAMES.get(function, function))(x)
    assert close(call(f"tack.{function}", "a", like(x), x), want, name, 4)


def test_integer_arguments_are_f32_unless_an_f64_is_there(device):
    """MATH-2, TYPE-5: by the value that comes out, stored to f64."""
    n, wide, narrow = np.array([2, 3, 10]), np.array([0.5, 1.5, 2.5]), np.array([0.5, 1.5, 2.5], np.float32)
    single = np.sqrt(n.astype(np.float32)).astype(float)
    assert run("n", "tack.sqrt(n[i])", np.zeros(3), n).tolist() == single.tolist()
    assert single.tolist() != np.sqrt(n).tolist(), "the control"
    got = run("n, w", "tack.atan2(n[i], w[i])", np.zeros(3), n, wide)
    assert close(got, np.arctan2(n, wide), "f64", 8)
    got = run("n, w", "tack.atan2(n[i], w[i])", np.zeros(3), n, narrow)
    assert got.tolist() == got.astype(np.float32).astype(float).tolist(), "f32 beside an f32"


def test_the_library_of_shading_functions(device, name):
    """MATH-5: fract mix clamp saturate smoothstep step sign radians degrees, with `math`'s names of the last two."""
    x = column(name, [-1.75, -0.25, 0.0, 0.25, 0.5, 1.0, 2.5])
    one = x.dtype.type(1)
    t = np.clip(x, 0, 1)
    wants = {
        "tack.math.fract(a[i])": x - np.floor(x),
        "tack.math.mix(a[i], 3.0, 0.25)": x + (x.dtype.type(3) - x) * x.dtype.type(0.25),
        "tack.math.clamp(a[i], -1.0, 0.75)": np.clip(x, -1, x.dtype.type(0.75)),
        "tack.math.saturate(a[i])": t,
        "tack.math.smoothstep(0.0, 1.0, a[i])": t * t * (x.dtype.type(3) - 2 * t),
        "tack.math.step(0.25, a[i])": (x >= x.dtype.type(0.25)) * one,
        "tack.math.sign(a[i])": np.sign(x),
        "tack.math.radians(a[i])": np.radians(x),
        "tack.math.degrees(a[i])": np.degrees(x),
    }
    for expression, want in wants.items():
        got = run("a", expression, like(x), x)
        assert all(
            same_float(g, w, name, 8) or (g == w == 0) for g, w in zip(got.tolist(), want.tolist(), strict=True)
        ), expression


def test_ulps_count_floats():
    """The measure itself: neighbours are one apart, also across zero."""
    assert ulps(1.0, math.nextafter(1.0, 2), "f64") == 1
    assert ulps(1.0, float(np.nextafter(np.float32(1), np.float32(2))), "f32") == 1
    assert ulps(-5e-324, 5e-324, "f64") == 2
