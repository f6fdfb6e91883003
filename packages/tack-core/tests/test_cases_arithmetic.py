"""The small programs of public bug reports that broke other tools: rows 1 to 13, arithmetic and literals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from numeric_oracles import INTEGERS, a_dtype, is_slow, limits, round_to_f32, samples, wrap
from test_cases import FLOATS, column, run, zeros

# ------------------------------------------------------------------------------------- integer division and casts


@pytest.mark.parametrize("name", ["i8", "i16", "i32", "i64"])
def test_case_01_floor_division_of_negatives(device, name):
    """IDIV-1: by variables and by constants, powers of two included, where a shift would do and a truncation not."""
    values = [-1, -2, -3, -100, 1, 100, limits(name)[0], limits(name)[1]]
    for divisor in [2, 4, 64, 3, -2] + ([512] if name != "i8" else []):
        wanted = [v // divisor for v in values]
        assert run("a", f"a[i] // {divisor}", zeros(name, 8), column(name, values)).tolist() == wanted
        spread = column(name, [divisor] * 8)
        assert run("a, b", "a[i] // b[i]", zeros(name, 8), column(name, values), spread).tolist() == wanted
    assert any(int(v / 512) != v // 512 for v in values), "the control: truncation differs"


@pytest.mark.parametrize("name", ["u8", "u16", "u32", "u64"])
def test_case_02_unsigned_remainder(device, name):
    """IDIV-2: values whose top bit is set."""
    top = limits(name)[1]
    values = [top, top - 1, top // 2 + 1, top // 2, 3583196299 % (top + 1), 1, 0, 12]
    for divisor in (3, 7, 100, 524288 % (top + 1) or 16, top // 2 + 1, top):
        other = column(name, [divisor] * 8)
        got = run("a, b", "a[i] % b[i]", zeros(name, 8), column(name, values), other)
        assert got.tolist() == [v % divisor for v in values]
    assert run("a", "a[0] % tack.u32(524288)", zeros("u32", 1), column("u32", [3583196299])).tolist() == [212107]


@pytest.mark.parametrize("name", INTEGERS)
def test_case_03_floor_division_near_the_limits(device, name):
    """IDIV-1: every pair of boundary values, compared with Python's integers."""
    low = limits(name)[0]
    pairs = [(a, b) for a, b in itertools.product(samples(device, name), repeat=2) if b and not (a == low and b == -1)]
    a, b = (column(name, side) for side in zip(*pairs, strict=True))
    quotients = run("a, b", "a[i] // b[i]", zeros(name, len(a)), a, b)
    remainders = run("a, b", "a[i] % b[i]", zeros(name, len(a)), a, b)
    assert quotients.tolist() == [x // y for x, y in pairs]
    assert remainders.tolist() == [x % y for x, y in pairs]


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("real", FLOATS)
def test_case_04_integers_to_floats_and_back(device, name, real):
    """INT-3, INT-4: by the source's signedness, by the destination's range."""
    values = [v for v in samples(device, name)]
    got = run("a", f"tack.{real}(a[i])", zeros(real, len(values)), column(name, values))
    assert got.tolist() == [float(v) if real == "f64" else round_to_f32(v) for v in values]
    fitting = [v for v in values if abs(v) < 2**24 or (real == "f64" and abs(v) < 2**53)]
    fitting += [2**31 + 2**30] * (limits(name)[1] >= 3 * 2**30)
    back = run("a", f"tack.{name}(a[i])", zeros(name, len(fitting)), column(real, fitting))
    assert back.tolist() == fitting
    stored = run("a", "a[i]", zeros(name, len(fitting)), column(real, fitting))
    assert stored.tolist() == fitting


def test_case_04_as_reported(device):
    assert run("a", "a[i]", zeros("f64", 1), column("u8", [200])).tolist() == [200.0]
    assert run("a", "a[i]", zeros("f64", 1), column("u32", [3000000000])).tolist() == [3e9]
    assert run("a", "tack.u32(a[i])", zeros("u32", 1), column("f64", [3e9])).tolist() == [3000000000]


@pytest.mark.parametrize("name", INTEGERS)
def test_case_05_left_shift_keeps_the_type(device, name):
    """SHIFT-1: also where the result is stored wider."""
    low, high = limits(name)
    for value, count in [(high, 1), (low, 1), (high, 3), (1, 1)]:
        got = run("a, n", "a[i] << n[i]", zeros("i64", 1), column(name, [value]), column("i32", [count]))
        assert got[0] == np.int64(np.uint64(wrap(value << count, name) % 2**64))
    assert run("a", "a[i] << 1", zeros("i32", 1), column("u8", [255])).tolist() == [254]


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "<", "==", "&", "|", "^"])
@pytest.mark.parametrize("signed", ["i8", "i16", "i32", "i64"])
def test_case_06_signed_with_u64_is_refused(device, op, signed):
    """TYPE-3: never through floating point; the message shows the cast."""
    out = zeros("f64", 1)
    sides = column(signed, [1]), column("u64", [2**63])
    for a, b in (sides, sides[::-1]):
        with pytest.raises(TypeError, match=r"(?s)u64.*tack\.u64\("):
            run("a, b", f"a[i] {op} b[i]", out, a, b)
    assert out[0] == 0
    exact = run("a, b", "tack.u64(a[i]) + b[i]", zeros("u64", 1), column(signed, [-1]), column("u64", [2**63 + 3]))
    assert exact.tolist() == [2**63 + 2]


@pytest.mark.parametrize("name", ["i32", "i64", "u8", "u64"])
def test_case_07_guarded_division_beside_guarded_remainder(device, name):
    """EVAL-9: each as if alone, in either order, in a conditional, an `if` and a short circuit."""
    x, d = column(name, [7, 9, 0, 100, 8]), column(name, [2, 0, 5, 0, 3])
    q = [int(a) // int(b) if b else 0 for a, b in zip(x, d, strict=True)]
    r = [int(a) % int(b) if b else 0 for a, b in zip(x, d, strict=True)]
    zero = f"tack.{name}(0)"
    div, mod = f"(x[i] // d[i] if d[i] != {zero} else {zero})", f"(x[i] % d[i] if d[i] != {zero} else {zero})"
    ten = f"tack.{name}(10)"
    assert run("x, d", div, zeros(name, 5), x, d).tolist() == q
    assert run("x, d", mod, zeros(name, 5), x, d).tolist() == r
    assert run("x, d", f"{div} * {ten} + {mod}", zeros(name, 5), x, d).tolist() == [
        10 * a + b for a, b in zip(q, r, strict=True)
    ]
    both = run("x, d", f"d[i] != {zero} and x[i] // d[i] > {zero} and x[i] % d[i] > {zero}", zeros("i32", 5), x, d)
    assert both.tolist() == [int(a > 0 and b > 0) for a, b in zip(q, r, strict=True)]


def test_case_08_negative_wide_constants(device):
    """INT-1, LIT-2: a constant beyond 32 bits keeps its sign, captured or written."""
    c, x, y = 2**40 + 12345, [3, -7, 1], [5, 11, -1]
    a, b = column("i64", x), column("i64", y)
    wanted = [wrap(-c * p * q, "i64") for p, q in zip(x, y, strict=True)]
    assert run("a, b", "-C * a[i] * b[i]", zeros("i64", 3), a, b, C=c).tolist() == wanted
    assert run("a, b", f"-{c} * a[i] * b[i]", zeros("i64", 3), a, b).tolist() == wanted
    assert run("a, b", f"-({c}) * a[i] * b[i]", zeros("i64", 3), a, b).tolist() == wanted
    assert run("", "-9223372036854775808", zeros("i64", 1)).tolist() == [-(2**63)]


# --------------------------------------------------------------------------------------------- floating literals


def test_case_09_literals_in_a_cast(device):
    """LIT-6, LIT-12: computed in the precision that the cast asks for, in an f32 kernel too."""
    assert run("a", "tack.f64(1.0 + 5e-8) + a[i] * 0.0", zeros("f64", 1), column("f32", [1])).tolist() == [1.0 + 5e-8]
    assert run("a", "tack.f64(1.0 - 5e-8) * a[i]", zeros("f64", 1), column("f32", [1])).tolist() == [1.0 - 5e-8]
    assert 1.0 + 5e-8 != 1.0 == float(np.float32(1.0) + np.float32(5e-8)), "the control: f32 loses it"


@pytest.mark.parametrize("value", [0.3, 0.1, 1e-300, 16777217.0, 1 / 3])
def test_case_10_doubles_stay_doubles(device, value):
    """LIT-5, TYPE-10: a literal stored to, and an argument beside, an f64 array."""
    assert run("", repr(value), zeros("f64", 1)).tolist() == [value]
    assert run("s", "s", zeros("f64", 1), value).tolist() == [value]
    assert run("a, s", "a[i] * s", zeros("f64", 1), np.ones(1), value).tolist() == [value]
    assert run("", "V", zeros("f64", 1), V=value).tolist() == [value]
    if value != 1e-300:
        assert float(np.float32(value)) != value, "the control"


# ----------------------------------------------------------------------------------- exact quotients and powers


@pytest.mark.parametrize("real", FLOATS)
def test_case_11_equal_operands_divide_to_one(device, real):
    """FLT-1: division is correctly rounded, not multiplication by a reciprocal."""
    t = np.arange(1, 65 if is_slow(device) else 1025).astype(a_dtype(real))
    assert (run("t", "int(abs(t[i]) / t[i])", zeros("i32", len(t)), t) == 1).all()
    assert (run("t", "int(-t[i] / abs(t[i]))", zeros("i32", len(t)), t) == -1).all()
    if not is_slow(device):
        reciprocal = t * (np.ones_like(t) / t)
        assert (reciprocal != 1).any(), "the control"


@pytest.mark.parametrize("real", FLOATS)
def test_case_12_powers_with_whole_exponents(device, real):
    """POW-1, POW-4: floats by floats, floats by integers, integers by integers."""
    bases, exponents = [-1.0, 5.0, -2.0, 10.0, -3.0, 2.0, 0.5], [1, 3, 5, 2, 4, 10, 2]
    wanted = [b**e for b, e in zip(bases, exponents, strict=True)]
    a = column(real, bases)
    assert run("a, e", "pow(a[i], e[i])", zeros(real, 7), a, column(real, exponents)).tolist() == wanted
    assert run("a, e", "a[i] ** e[i]", zeros(real, 7), a, column("i32", exponents)).tolist() == wanted
    assert run("", "pow(5, 3)", zeros("i32", 1)).tolist() == [125]
    assert run("", "pow(-1.0, 1)", zeros(real, 1)).tolist() == [-1.0]
    assert run("", "pow(5.0, 3)", zeros(real, 1)).tolist() == [125.0]


@pytest.mark.parametrize("name", INTEGERS)
def test_case_13_huge_and_negative_exponents_return(device, name):
    """POW-2: a huge one is exact modulo 2^N; a negative one gives some value, or the reference device's error."""
    exponents = [2**63 - 1, 2**62 + 1, 10**18, 2**40]
    got = run("a, e", "a[i] ** e[i]", zeros(name, 4), column(name, [3] * 4), column("i64", exponents))
    assert got.tolist() == [wrap(pow(3, e, 2**64), name) for e in exponents]
    for negative in (-1, -(2**63), -5):
        args = "a, e", "a[i] ** e[i]", zeros(name, 1), column(name, [3]), column("i64", [negative])
        if device.name == "reference":
            with pytest.raises(Exception, match="POW-2"):
                run(*args)
        else:
            run(*args)
