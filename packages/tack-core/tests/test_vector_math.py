"""Mathematical functions of the CPU: the same bits wherever they are computed, and how far they are from exact.

Oracles: NumPy in `longdouble`, which is the C library's and has more digits than f64. The control of each bound is the
same measure on results that are off by the bound.
"""

from __future__ import annotations

import importlib.util
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lane_rig import Compiled, host_unit, same_bits, typed_ir
from numeric_oracles import a_dtype
from tack.codegen.lane_cost import PLAIN
from typing_rig import module

ONE = "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p".split()
TWO = ("atan2", "pow")
# Powers of literal exponents, of whole ones, and of negative bases, each with what the oracle computes.
POWERS = {
    **{f"a[i] ** {e}": (lambda a, b, e=e: np.power(a, e)) for e in (-1, 0.5, 2, 3, 4, 7, 64, -3, 2.5)},
    "a[i] ** tack.floor(b[i])": lambda a, b: np.power(a, np.floor(b)),
}
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
# The largest error in ULP of f64; docs/design/lanes.md has what was measured. f32 results are rounded from f64.
BOUNDS = dict.fromkeys([*ONE, *TWO, *POWERS], 1.0) | dict.fromkeys(["sinh", "expm1", "tan", "atan2"], 1.25)
F32_BOUND = 0.501
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 5e-324, -1e-310, 1e-40, math.inf, -math.inf, math.nan, 710.0, -746.0, 1e300]
FAR = [2.0**30, 2.0**30 + 1, 1e22, -1.7e308, 3e38]

pytestmark = pytest.mark.skipif(not host_unit().fused, reason="no fused multiply-add: the C library computes")


def arguments(name: str, count: int) -> np.ndarray:
    """Numbers of every size, mostly small ones, and the special ones among them."""
    random = np.random.default_rng(5)
    bits = random.integers(0, 2**63, count // 4, np.uint64) * 2 + random.integers(0, 2, count // 4, np.uint64)
    with np.errstate(all="ignore"):
        kinds = [random.uniform(-1, 1, count // 2), random.uniform(-40, 40, count // 4), bits.view(np.float64)]
        values = np.concatenate([*kinds, SPECIAL, FAR]).astype(a_dtype(name))
    return random.permutation(values)


def all_functions(condition: str = "") -> str:
    """A kernel that stores every function of one argument and of two, each to its row."""
    calls = [f"tack.{f}(a[i])" for f in ONE] + [f"tack.{f}(a[i], b[i])" for f in TWO] + list(POWERS)
    head = "@tack.kernel\ndef k(out, a, b):\n    for i in range(a.size):\n"
    pad = " " * 8
    if condition:
        head, pad = f"{head}        if {condition}:\n", " " * 12
    return head + "".join(f"{pad}out[{row}, i] = {call}\n" for row, call in enumerate(calls))


def run(compiled: Compiled, a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    return compiled(np.full((len(BOUNDS), a.size), 7, a.dtype), a, b)[:1]


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("condition", ["", "b[i] > 0.0"], ids=["everywhere", "masked"])
def test_bits_do_not_depend_on_the_lane(name: str, condition: str) -> None:
    """MATH-7: scalar code, full blocks, tails and masked lanes, cut anywhere, give one result."""
    a = arguments(name, 300)
    b = np.random.default_rng(6).permutation(a)
    tree = typed_ir(module(all_functions(condition))["k"], np.zeros((len(BOUNDS), a.size), a.dtype), a, b)
    scalar = run(Compiled(tree, 1), a, b)
    for lanes in (4, 16, 32):
        variant = Compiled(tree, lanes, cuts=(0.13, 0.5, 0.77))
        assert variant.plans and variant.plans[0].width == lanes
        assert same_bits(run(variant, a, b), scalar), lanes
    short = a[:5].copy(), b[:5].copy()  # nothing but a tail
    tail = run(Compiled(tree, 16), *short)
    assert np.array_equal(tail[0], scalar[0][:, :5], equal_nan=True)
    nudged = [np.nextafter(scalar[0], np.inf)]
    assert not same_bits(nudged, scalar), "the control"


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_bits_outside_a_parallel_loop(name: str) -> None:
    """MATH-7: in a serial loop, on a parameter before the loop, in a device function, and on one element."""
    text = """
    @tack.func
    def chain(x):
        return tack.sin(x) + tack.exp(x) * tack.log(x)

    @tack.kernel
    def serial(out, a):
        for one in range(1):
            for i in range(a.size):
                out[i] = chain(a[i])

    @tack.kernel
    def parallel(out, a):
        for i in range(a.size):
            out[i] = chain(a[i])

    @tack.kernel
    def uniform(out, x: tack.{name}):
        value = chain(x)
        for i in range(out.size):
            out[i] = value
    """
    kernels = module(text.replace("{name}", name))
    a = np.random.default_rng(7).uniform(0.01, 60, 67).astype(a_dtype(name))
    many, serial, single, uniform = (np.zeros_like(a) for _ in range(4))
    kernels["parallel"](many, a)
    kernels["serial"](serial, a)
    for k in range(a.size):
        kernels["parallel"](single[k : k + 1], a[k : k + 1])
        kernels["uniform"](uniform[k : k + 1], float(a[k]))
    assert many.tobytes() == serial.tobytes() == single.tobytes() == uniform.tobytes()
    assert np.allclose(many, np.sin(a) + np.exp(a) * np.log(a), rtol=1e-5)


def test_an_exponent_given_to_a_function() -> None:
    """MATH-7: lanes have the function inlined, scalar code calls it; the exponent is a parameter for both."""
    text = """
    @tack.func
    def raised(x, e):
        return x ** e

    @tack.kernel
    def k(out, a):
        for i in range(a.size):
            out[i] = raised(a[i], 4) + raised(a[i], 0.5)
    """
    a = np.abs(arguments("f64", 2000))
    tree = typed_ir(module(text)["k"], a, a)
    with np.errstate(all="ignore"):
        scalar, lanes = (Compiled(tree, width)(np.zeros_like(a), a)[:1] for width in (1, 16))
    assert same_bits(scalar, lanes)


def exact(function: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        a, b = a.astype(np.longdouble), b.astype(np.longdouble)
        if function in POWERS:
            return POWERS[function](a, b)
        oracle = getattr(np, NUMPY.get(function, function))
        return oracle(a, b) if function in TWO else oracle(a)


def worst(got: np.ndarray, want: np.ndarray) -> float:
    """The largest error in ULP of the normal results."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        use = np.isfinite(got) & (np.abs(rounded) >= np.finfo(got.dtype).tiny) & np.isfinite(rounded)
        ulp = np.spacing(np.abs(rounded[use])).astype(np.longdouble)
        return float(np.max(np.abs(got[use].astype(np.longdouble) - want[use]) / ulp))


def results(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.zeros((len(BOUNDS), a.size), a.dtype)
    module(all_functions())["k"](out, a, b)
    return out


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="longdouble has no more digits than f64 here")
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_largest_errors(name: str) -> None:
    """MATH-7: over some thousand numbers of every size; tools/measure_math.py takes all of f32."""
    a = np.concatenate(
        [arguments(name, 20_000), np.random.default_rng(8).uniform(0.3, 1.7, 10_000).astype(a_dtype(name))]
    )
    b = np.random.default_rng(9).permutation(a)
    for got, function in zip(results(name, a, b), BOUNDS, strict=True):
        want = exact(function, a, b)
        bound = F32_BOUND if name == "f32" else BOUNDS[function]
        assert worst(got, want) <= bound, function
        off = got + got.dtype.type(math.ceil(bound) + 1) * np.spacing(got)
        assert worst(off, want) > bound, f"the control: {function}"


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_special_arguments(name: str) -> None:
    """MATH-7, FLT-2: the class, and the sign of zero, of the C library."""
    pairs = np.array([(x, y) for x in [*SPECIAL, *FAR] for y in [*SPECIAL, 3.0, -0.25]])
    with np.errstate(all="ignore"):
        a, b = (np.ascontiguousarray(column).astype(a_dtype(name)) for column in pairs.T)
        for got, function in zip(results(name, a, b), BOUNDS, strict=True):
            wide = exact(function, a, b).astype(a.dtype)
            same = (got == wide) | (np.isnan(got) & np.isnan(wide))
            near = np.isfinite(got) & np.isfinite(wide) & (np.abs(got - wide) <= 3 * np.spacing(np.abs(wide)))
            assert np.all(same | near), (function, a[~(same | near)], b[~(same | near)])
            assert np.array_equal(np.signbit(got)[got == 0], np.signbit(wide)[got == 0]), function


def test_only_what_is_used_is_written() -> None:
    """A kernel has the functions that it calls, of its type, once for scalars and once for vectors."""
    a = np.ones(8)
    text = """
    @tack.kernel
    def some(out, a):
        for i in range(a.size):
            out[i] = tack.exp(a[i]) + tack.exp(-a[i])

    @tack.kernel
    def none(out, a):
        for i in range(a.size):
            out[i] = a[i] ** 2 + tack.sqrt(a[i]) / a[i] ** -1
    """
    kernels = module(text)
    found = [
        re.findall(r"^define internal .* @(__tack_\w+)\(", Compiled(typed_ir(kernels[k], a, a), 16).text, re.MULTILINE)
        for k in ("some", "none")
    ]
    assert len(found[0]) in (1, 2) and all(symbol.startswith("__tack_exp_f64_") for symbol in found[0])
    assert found[1] == []


def test_processors_without_fused_products() -> None:
    """The C library computes there, for scalars and lanes, with the same bits."""
    a = arguments("f64", 100)
    b = np.random.default_rng(6).permutation(a)
    tree = typed_ir(module(all_functions())["k"], np.zeros((len(BOUNDS), a.size)), a, b)
    scalar, lanes = Compiled(tree, 1, unit=PLAIN), Compiled(tree, 4, unit=PLAIN)
    assert "__tack_exp" not in scalar.text + lanes.text
    assert same_bits(run(scalar, a, b), run(lanes, a, b))


def test_constants_are_derived() -> None:
    """The module of constants is what its script writes."""
    pytest.importorskip("mpmath", reason="the script needs mpmath")
    script = Path(__file__).parents[3] / "tools" / "fit_math.py"
    if not script.exists():
        pytest.skip("the tools are not in an installed package")
    written = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    spec = importlib.util.find_spec("tack.codegen.math_constants")
    assert spec is not None and spec.origin is not None
    ours, theirs = {}, {}
    exec(Path(spec.origin).read_text(), ours)
    exec(written, theirs)
    names = [n for n in theirs if n.isupper()]
    assert {n: ours[n] for n in names} == {n: theirs[n] for n in names} and len(names) > 15
