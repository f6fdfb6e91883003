"""Integer `//` and `%` at every width and every legal pair of types.

Oracle: Python's own integer `//` and `%`. Rules IDIV-1 to IDIV-4, EVAL-9.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import tack
from numeric_oracles import (
    INTEGERS,
    LEGAL_PAIRS,
    REJECTED_PAIRS,
    SIGNED,
    UNSIGNED,
    a_dtype,
    bits,
    columns,
    disagrees,
    is_signed,
    is_slow,
    limits,
    promote,
    samples,
    widest,
    wrap,
)


@tack.kernel
def divmod_kernel(a, b, quotient, remainder):
    for i in range(a.shape[0]):
        quotient[i] = a[i] // b[i]
        remainder[i] = a[i] % b[i]


@tack.kernel
def identity_kernel(a, b, back):
    for i in range(a.shape[0]):
        back[i] = (a[i] // b[i]) * b[i] + a[i] % b[i]


@tack.kernel
def augmented_kernel(a, b, quotient, remainder):
    for i in range(a.shape[0]):
        quotient[i] = a[i]
        quotient[i] //= b[i]
        remainder[i] = a[i]
        remainder[i] %= b[i]


def valid(x, y, name):
    """IDIV-3 at the type the operation runs in."""
    return y != 0 and not (is_signed(name) and y == -1 and x == limits(name)[0])


def check(a, b, pairs):
    """Run the pairs in one call and compare both operators with Python."""
    name = promote(a, b)
    quotient, remainder = (np.zeros(len(pairs), dtype=a_dtype(widest(name))) for _ in range(2))
    divmod_kernel(*columns(pairs, a, b), quotient, remainder)
    assert [int(v) for v in quotient] == [x // y for x, y in pairs]
    assert [int(v) for v in remainder] == [x % y for x, y in pairs]


def truncated(x, y):
    q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    return q, x - q * y


def valid_pairs(values_a, values_b, name):
    return [(x, y) for x, y in itertools.product(values_a, values_b) if valid(x, y, name)]


# --- the oracle's own controls ----------------------------------------------------------------------------------------


def test_truncation_disagrees():
    """Negative control for IDIV-1 and IDIV-2: C's rule gives another quotient and another remainder."""
    pairs = valid_pairs(range(-128, 128), range(-128, 128), "i8")
    assert disagrees(lambda x, y: truncated(x, y)[0], lambda x, y: x // y, pairs)
    assert disagrees(lambda x, y: truncated(x, y)[1], lambda x, y: x % y, pairs)
    assert truncated(-7, 3) == (-2, -1) and divmod(-7, 3) == (-3, 2)


def test_division_through_floating_point_disagrees():
    """Negative control for IDIV-1: the quotient of two f64 is not exact beyond 2^53."""
    pairs = [(2**63 - 1, 3), (2**62 + 1, 7)]
    assert disagrees(lambda x, y: int(np.floor(float(x) / float(y))), lambda x, y: x // y, pairs)


def test_biasing_the_dividend_disagrees():
    """Negative control for IDIV-1: C's idiom (a - b + 1) / b for negative a overflows near the limits."""

    def biased(x, y):
        return truncated(wrap(x - y + 1, "i32"), y)[0] if x < 0 < y else truncated(x, y)[0]

    assert biased(-7, 3) == -3
    assert disagrees(biased, lambda x, y: x // y, [(-(2**31), 3)])


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["i8", "u8"])
def test_every_valid_8_bit_pair(device, name):
    """IDIV-1, IDIV-2: exhaustive; the interpreter takes a seventeenth of the dividends with every divisor."""
    low, high = limits(name)
    dividends = sorted({*range(low, high + 1, 17), low, -1, 0, 1, high} & set(range(low, high + 1)))
    everything = range(low, high + 1)
    check(name, name, valid_pairs(dividends if is_slow(device) else everything, everything, name))


@pytest.mark.parametrize("name", INTEGERS)
def test_boundary_pairs_at_every_width(device, name):
    """IDIV-1, IDIV-2: cross product of the boundary values."""
    values = samples(device, name)
    check(name, name, valid_pairs(values, values, name))


@pytest.mark.parametrize("name", INTEGERS)
def test_random_pairs_at_every_width(device, name):
    """IDIV-1, IDIV-2: dividends and divisors of every magnitude."""
    rng = random.Random(f"division {name}")
    low, high = limits(name)

    def draw():
        magnitude = rng.getrandbits(rng.randint(1, bits(name)))
        return max(low, min(high, rng.choice((magnitude, -magnitude))))

    drawn = [(draw(), draw()) for _ in range(200 if is_slow(device) else 20_000)]
    check(name, name, [(x, y) for x, y in drawn if valid(x, y, name)])


@pytest.mark.parametrize("a, b", [(a, b) for a, b in LEGAL_PAIRS if a != b])
def test_mixed_types_divide_at_their_promotion(device, a, b):
    """IDIV-1, TYPE-3: i8 -128 // i16 -1 is 128, since it runs in i16."""
    check(a, b, valid_pairs(samples(device, a), samples(device, b), promote(a, b)))


@pytest.mark.parametrize("a, b", REJECTED_PAIRS)
def test_signed_with_u64_is_rejected(device, a, b):
    """TYPE-3: `//` and `%` need a type that holds both operands."""
    with pytest.raises(TypeError, match=r"tack\.(i64|u64)\("):
        divmod_kernel(*columns([(7, 3)], a, b), np.zeros(1, np.int64), np.zeros(1, np.int64))


@pytest.mark.parametrize("name", INTEGERS)
def test_quotient_and_remainder_make_up_the_dividend(device, name):
    """IDIV-2: a == (a // b) * b + a % b, computed in the kernel."""
    values = samples(device, name)
    pairs = valid_pairs(values, values, name)
    a, b = columns(pairs, name, name)
    back = np.zeros_like(a)
    identity_kernel(a, b, back)
    assert back.tolist() == a.tolist()


@pytest.mark.parametrize("name", INTEGERS)
def test_augmented_forms(device, name):
    """IDIV-1, IDIV-2: `//=` and `%=` on array elements."""
    values = samples(device, name)
    pairs = valid_pairs(values, values, name)
    a, b = columns(pairs, name, name)
    quotient, remainder = np.zeros_like(a), np.zeros_like(a)
    augmented_kernel(a, b, quotient, remainder)
    assert quotient.tolist() == [x // y for x, y in pairs]
    assert remainder.tolist() == [x % y for x, y in pairs]


@pytest.mark.parametrize(
    "name, x, y, quotient, remainder",
    [
        ("i32", -7, 3, -3, 2),
        ("i32", 7, -3, -3, -2),
        ("i32", -1, 512, -1, 511),
        ("i32", -1, 2, -1, 1),
        ("u32", 3583196299, 524288, 6834, 212107),
    ],
)
def test_known_rows(device, name, x, y, quotient, remainder):
    """IDIV-1, IDIV-2: the rule's table, and values that other compilers got wrong."""
    assert divmod(x, y) == (quotient, remainder)
    check(name, name, [(x, y)])


@pytest.mark.parametrize("divisor", [-128, -7, -2, 1, 2, 3, 7, 8, 127])
@pytest.mark.parametrize("name", SIGNED)
def test_constant_divisors(device, name, divisor):
    """IDIV-1, IDIV-2: a compiler treats a constant divisor specially; a captured one is a constant."""
    values = samples(device, name)

    @tack.kernel
    def by_constant(a, quotient, remainder):
        for i in range(a.shape[0]):
            quotient[i] = a[i] // divisor
            remainder[i] = a[i] % divisor

    a = np.array(values, dtype=a_dtype(name))
    quotient, remainder = np.zeros(len(values), np.int64), np.zeros(len(values), np.int64)
    by_constant(a, quotient, remainder)
    assert quotient.tolist() == [x // divisor for x in values]
    assert remainder.tolist() == [x % divisor for x in values]


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_division_beyond_the_signed_maximum(device, name):
    """IDIV-1: an unsigned value above the signed maximum is not negative."""
    high = limits(name)[1]
    check(name, name, [(high, 2), (high, high - 1), (high - 1, high), (high // 2 + 1, 3), (high, high // 2 + 1)])


def test_index_arithmetic_wraps_to_the_last_element(device):
    """IDIV-2: (i - 1) % n is n - 1 at i = 0."""

    @tack.kernel
    def rotate(a, out):
        for i in range(a.shape[0]):
            out[i] = a[(i - 1) % a.shape[0]]

    out = np.zeros(5, np.int32)
    rotate(np.arange(5, dtype=np.int32), out)
    assert out.tolist() == [4, 0, 1, 2, 3]


# --- guards (IDIV-3, EVAL-9) ------------------------------------------------------------------------------------------

GUARD_ROWS = [(7, 0), (-7, 2), (0, 0), (-(2**31), 3), (5, -5)]


@pytest.mark.parametrize("name", SIGNED)
def test_guarded_by_a_conditional_expression(device, name):
    """EVAL-9, IDIV-3: both operators guarded in one expression, each as if alone."""

    @tack.kernel
    def guarded(a, b, out):
        for i in range(a.shape[0]):
            out[i] = (a[i] // b[i] if b[i] != 0 else 40) + (a[i] % b[i] if b[i] != 0 else 2)

    rows = [(x, y) for x, y in GUARD_ROWS if limits(name)[0] <= x]
    out = np.zeros(len(rows), np.int64)
    guarded(*columns(rows, name, name), out)
    assert out.tolist() == [x // y + x % y if y else 42 for x, y in rows]


def test_guarded_by_if_short_circuit_and_loop(device):
    """EVAL-9, IDIV-3: an `if`, `and`, `or`, a `while` condition and a device function's early return all guard."""

    @tack.func
    def safe(x, d):
        if d == 0:
            return -1
        return x // d

    @tack.kernel
    def guarded(a, b, out):
        for i in range(a.shape[0]):
            total = 0
            if b[i] != 0:
                total += a[i] // b[i]
            total += 100 * (b[i] != 0 and a[i] % b[i] == 1)
            total += 1000 * (b[i] == 0 or a[i] // b[i] < 0)
            left = 2
            while left > 0 and b[i] != 0 and a[i] // b[i] != 0:
                left -= 1
            out[i] = total + 10 * safe(a[i], b[i]) + 10000 * left

    rows = [(7, 0), (7, 2), (-7, 2), (0, 0), (1, 5), (-9, -4)]

    def truth(x, y):
        total = x // y if y else 0
        total += 100 * int(y != 0 and x % y == 1) + 1000 * int(y == 0 or x // y < 0)
        return total + 10 * (x // y if y else -1) + 10000 * (0 if y and x // y else 2)

    out = np.zeros(len(rows), np.int64)
    guarded(*columns(rows, "i32", "i32"), out)
    assert out.tolist() == [truth(x, y) for x, y in rows]


def test_guarded_signed_minimum_by_minus_one(device):
    """EVAL-9, IDIV-3: the other trapping pair, guarded."""

    @tack.kernel
    def guarded(a, b, out):
        for i in range(a.shape[0]):
            out[i] = -a[i] if b[i] == -1 else a[i] // b[i]

    out = np.zeros(2, np.int32)
    guarded(*columns([(-(2**31), -1), (-(2**31), 2)], "i32", "i32"), out)
    assert out.tolist() == [-(2**31), -(2**30)]


def test_constant_zero_divisor_is_rejected(device):
    """IDIV-4: literal and captured, `//` and `%`; behind a guard it is accepted and does not run."""
    zero = 0

    @tack.kernel
    def quotient(a):
        for i in range(a.shape[0]):
            a[i] = a[i] // 0

    @tack.kernel
    def remainder(a):
        for i in range(a.shape[0]):
            a[i] = a[i] % zero

    @tack.kernel
    def guarded(a):
        for i in range(a.shape[0]):
            a[i] = a[i] // zero if zero != 0 else 9

    data = np.array([3, 4], np.int32)
    for kernel in (quotient, remainder):
        with pytest.raises(ValueError, match="zero"):
            kernel(data)
    assert data.tolist() == [3, 4]
    guarded(data)
    assert data.tolist() == [9, 9]
