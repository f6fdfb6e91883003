"""Constants that break a caller constraint are refused where nothing guards them.

Rules SHIFT-3, IDIV-4, TDIV-3, FDIV-5, POW-3 and LOOP-10. The divisors and counts are zero, or out of range, by hand.
"""

from __future__ import annotations

import pytest

import tack
from tack.lang.types import f32, f64, i8, i32, i64, u64
from typing_rig import array, module, typed_body

PARAMS = {"out": array(f64), "x": i64, "b": i8, "y": f64, "w": f32}
PREFIX = "z = 0\nn = -1\n"


def check(body, **names):
    return typed_body(PREFIX + body, PARAMS, **names)


ZERO = ["0", "z", "ZERO", "(3 - 3)", "tack.i64(0)", "(z * 5)", "abs(0)", "min(0, 3)", "-0", "(1 // 2)", "tack.i8(256)"]


@pytest.mark.parametrize("divisor", ZERO)
@pytest.mark.parametrize("op", ["//", "%", "/"])
def test_integer_division_by_a_constant_zero(op, divisor):
    """IDIV-4, TDIV-3: literal, captured, a local that stands for one, or an expression of them."""
    with pytest.raises(ValueError, match="by the constant zero") as caught:
        check(f"out[i] = x {op} {divisor}", ZERO=0)
    assert ">:6:" in str(caught.value) or divisor == "z"
    check(f"out[i] = x {op} ({divisor} + 1)", ZERO=0)


@pytest.mark.parametrize("op", ["//", "%"])
@pytest.mark.parametrize("divisor", ["0", "0.0", "-0.0", "ZERO", "(0.5 - 0.5)"])
def test_floating_division_by_a_constant_zero(op, divisor):
    """FDIV-5; a quotient by zero has a value instead (TDIV-4)."""
    with pytest.raises(ValueError, match="by the constant zero"):
        check(f"out[i] = y {op} {divisor}", ZERO=0.0)
    check(f"out[i] = y / {divisor}", ZERO=0.0)
    check(f"out[i] = x / 0.0 + y / z + 0.0 / {divisor}", ZERO=0.0)


@pytest.mark.parametrize("op", ["<<", ">>"])
@pytest.mark.parametrize("count", ["8", "-1", "n", "256", "COUNT", "(4 + 4)", "tack.u64(18446744073709551615)"])
def test_constant_shift_counts(op, count):
    """SHIFT-3: by the width of the left operand, not wrapped into it."""
    with pytest.raises(ValueError, match=r"a shift of i8 by .*: the count must be in \[0, 8\)"):
        check(f"out[i] = b {op} {count}", COUNT=99)
    check(f"out[i] = (b {op} 7) + (b {op} 0)")


def test_the_smallest_integer_by_minus_one():
    """IDIV-3, IDIV-4"""
    for op in ("//", "%"):
        with pytest.raises(ValueError, match="the smallest i8 by -1"):
            check(f"out[i] = tack.i8(-128) {op} tack.i8(-1)")
        check(f"out[i] = b {op} n + tack.i8(-127) {op} tack.i8(-1)")


@pytest.mark.parametrize("exponent", ["-1", "n", "E", "(2 - 3)", "(-E * E)"])
def test_a_negative_literal_exponent(exponent):
    """POW-3: of an integer base, a guard changes nothing; a floating base takes it."""
    for body in (f"out[i] = x ** {exponent}", f"out[i] = pow(x, {exponent}) if x > 0 else 0"):
        with pytest.raises(TypeError, match="is no integer") as caught:
            check(body, E=-3)
        assert "tack.f32(x) ** -1" in str(caught.value)
    check(f"out[i] = y ** {exponent} + tack.f32(x) ** {exponent}", E=-3)


def test_other_negative_constant_exponents():
    """POW-3: TypeError where nothing guards them."""
    with pytest.raises(TypeError, match="is no integer"):
        check("out[i] = x ** tack.i32(-1)")
    check("out[i] = x ** tack.i32(-1) if x > 0 else 0")


GUARDED = [
    "if ZERO != 0:\n    out[i] = x // ZERO",
    "if ZERO == 0:\n    out[i] = 1\nelse:\n    out[i] = x // ZERO",
    "out[i] = x // ZERO if ZERO != 0 else 0",
    "out[i] = ZERO != 0 and x // ZERO > 1",
    "out[i] = ZERO == 0 or x % ZERO > 1",
    "while ZERO != 0:\n    out[i] = x // ZERO",
    "for j in range(ZERO):\n    out[i] = x // ZERO",
    "if ZERO == 0:\n    continue\nout[i] = x // ZERO",
    "out[i] = safe(x, ZERO)",
    "out[i] = unsafe(x) if ZERO != 0 else 0",
]
FUNCTIONS = """
ZERO = 0

@tack.func
def safe(x, d):
    if ZERO == 0:
        return x
    return x // ZERO

@tack.func
def unsafe(x):
    return x // ZERO
"""


@pytest.mark.parametrize("body", GUARDED)
def test_guards(body):
    """IDIV-4, EVAL-9: a guard may be false for this very constant, so nothing is refused."""
    made = module(FUNCTIONS)
    check(body, ZERO=0, safe=made["safe"], unsafe=made["unsafe"])


UNGUARDED = [
    "if x // ZERO > 1:\n    out[i] = 1",
    "while x // ZERO > 1:\n    out[i] = 1",
    "for j in range(4):\n    out[i] = x // ZERO",
    "for j in range(x // ZERO):\n    out[i] = 1",
    "out[i] = 1 if x // ZERO > 1 else 2",
    "out[i] = x // ZERO > 1 and x > 2",
    "out[x // ZERO] = 1",
    "t = x // ZERO\nif t > 1:\n    out[i] = 1",
    "if x > 1:\n    out[i] = 2\nout[i] = x // ZERO",
    "tack.atomic_add(out, 0, x // ZERO)",
    "out[i] = unsafe(x)",
]


@pytest.mark.parametrize("body", UNGUARDED)
def test_what_guards_nothing(body):
    """IDIV-4: the negative control of `test_guards`."""
    with pytest.raises(ValueError, match="by the constant zero") as caught:
        check(body, ZERO=0, unsafe=module(FUNCTIONS)["unsafe"])
    if "unsafe" in body:
        assert "called at" in str(caught.value)


@pytest.mark.parametrize("step", ["0", "-1", "STEP", "(1 - 1)", "n"])
def test_the_step_of_a_serial_loop(step):
    """LOOP-10"""
    with pytest.raises(ValueError, match="step"):
        check(f"for j in range(9, 0, {step}):\n    out[i] = j", STEP=-2)


def test_a_run_time_operand_is_never_refused():
    """The constraints on run-time values stay the caller's."""
    check("out[i] = x // b + x % x + (x << b) + x ** b + y // w")
    assert tack.u64 is u64
    check("t = 0\nif x > 2:\n    t = 3\nout[i] = x // t")
    typed_body("out[i] = x // d", {"out": array(i32), "x": i32, "d": i32})
