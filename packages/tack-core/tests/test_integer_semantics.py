"""Integers: wrapping, all 64 cast pairs, promotion, shifts, comparisons, exact builtins, literals, alignment.

Oracle: Python big integers reduced modulo 2^N. Rules TYPE-2 to TYPE-5, LIT-1 to LIT-3, INT-1 to INT-7,
SHIFT-1 to SHIFT-3.
"""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import tack
from numeric_oracles import (
    INTEGER_PAIRS,
    INTEGERS,
    LEGAL_PAIRS,
    REJECTED_PAIRS,
    a_dtype,
    bits,
    c_type,
    columns,
    disagrees,
    is_signed,
    is_slow,
    limits,
    promote,
    round_to_f32,
    samples,
    widest,
    wrap,
)

ARITHMETIC = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
BITWISE = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
BINARY = {**ARITHMETIC, **BITWISE}
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@tack.kernel
def binary_kernel(a, b, add, sub, mul, and_, or_, xor):
    for i in range(a.shape[0]):
        add[i] = a[i] + b[i]
        sub[i] = a[i] - b[i]
        mul[i] = a[i] * b[i]
        and_[i] = a[i] & b[i]
        or_[i] = a[i] | b[i]
        xor[i] = a[i] ^ b[i]


@tack.kernel
def unary_kernel(a, neg, inv, mag):
    for i in range(a.shape[0]):
        neg[i] = -a[i]
        inv[i] = ~a[i]
        mag[i] = abs(a[i])


@tack.kernel
def nested_kernel(a, b, out):
    for i in range(a.shape[0]):
        out[i] = ((a[i] + b[i]) * a[i] >> 1) - b[i]


@tack.kernel
def compare_kernel(a, b, lt, le, gt, ge, eq, ne):
    for i in range(a.shape[0]):
        lt[i] = a[i] < b[i]
        le[i] = a[i] <= b[i]
        gt[i] = a[i] > b[i]
        ge[i] = a[i] >= b[i]
        eq[i] = a[i] == b[i]
        ne[i] = a[i] != b[i]


@tack.kernel
def extrema_kernel(a, b, low, high, chosen):
    for i in range(a.shape[0]):
        low[i] = min(a[i], b[i])
        high[i] = max(a[i], b[i])
        chosen[i] = a[i] if i % 2 == 0 else b[i]


@tack.kernel
def shift_kernel(a, count, left, right):
    for i in range(a.shape[0]):
        left[i] = a[i] << count[i]
        right[i] = a[i] >> count[i]


@tack.kernel
def bit_builtins_kernel(a, ones, leading, trailing):
    for i in range(a.shape[0]):
        ones[i] = tack.popcount(a[i])
        leading[i] = tack.clz(a[i])
        trailing[i] = tack.ctz(a[i])


@tack.kernel
def add_kernel(a, b, out):
    for i in range(a.shape[0]):
        out[i] = a[i] + b[i]


@tack.kernel
def copy_kernel(a, out):
    for i in range(a.shape[0]):
        out[i] = a[i]


@tack.kernel
def double_scalar_kernel(n, out):
    for i in range(out.shape[0]):
        out[i] = n + n


def cast_kernel(T):
    @tack.kernel
    def cast(a, out):
        for i in range(a.shape[0]):
            out[i] = T(a[i])

    return cast


def ints(array):
    return [int(v) for v in array]


def outputs(count, n, name):
    return [np.zeros(n, dtype=a_dtype(name)) for _ in range(count)]


# --- wrapping (INT-1) -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a, b", LEGAL_PAIRS)
def test_binary_operations_wrap_at_the_promoted_type(device, a, b):
    """INT-1, TYPE-2, TYPE-3: the output is 64 bits wide, so a result that did not wrap at its own type would show."""
    pairs = list(itertools.product(samples(device, a), samples(device, b)))
    result = promote(a, b)
    out = outputs(6, len(pairs), widest(result))
    binary_kernel(*columns(pairs, a, b), *out)
    for (name, op), got in zip(BINARY.items(), out, strict=True):
        assert ints(got) == [wrap(op(x, y), result) for x, y in pairs], name


def test_every_i8_pair_wraps(device):
    """INT-1: all 65,536 i8 pairs on a fast device, every fifth value on the interpreter."""
    values = range(-128, 128, 5 if is_slow(device) else 1)
    pairs = list(itertools.product(values, values))
    out = outputs(6, len(pairs), "i64")
    binary_kernel(*columns(pairs, "i8", "i8"), *out)
    for op, got in zip(BINARY.values(), out, strict=True):
        assert ints(got) == [wrap(op(x, y), "i8") for x, y in pairs]


@pytest.mark.parametrize("name", INTEGERS)
def test_unary_operations_wrap(device, name):
    """INT-1, INT-5: unary minus, complement and abs; abs of the signed minimum is itself."""
    values = samples(device, name)
    out = outputs(3, len(values), widest(name))
    unary_kernel(np.array(values, dtype=a_dtype(name)), *out)
    for op, got in zip((operator.neg, operator.inv, abs), out, strict=True):
        assert ints(got) == [wrap(op(v), name) for v in values], op


@pytest.mark.parametrize("name", INTEGERS)
def test_nested_operations_wrap_before_use(device, name):
    """INT-1: a right shift sees the wrapped product, not the exact one."""
    pairs = list(itertools.product(samples(device, name), repeat=2))
    out = np.zeros(len(pairs), dtype=a_dtype(name))
    nested_kernel(*columns(pairs, name, name), out)

    def truth(x, y):
        product = wrap(wrap(x + y, name) * x, name)
        return wrap((product >> 1) - y, name)

    def only_at_the_end(x, y):
        return wrap(((x + y) * x >> 1) - y, name)

    assert ints(out) == [truth(x, y) for x, y in pairs]
    assert disagrees(only_at_the_end, truth, pairs)


def test_c_promotion_of_small_types_disagrees():
    """Negative control for INT-1: C computes i8 and u16 arithmetic in int."""
    pairs = list(itertools.product((-128, -1, 127), repeat=2))
    assert disagrees(lambda x, y: wrap(x + y, c_type("i8", "i8")), lambda x, y: wrap(x + y, "i8"), pairs)
    assert disagrees(lambda x, y: wrap(x * y, "i32"), lambda x, y: wrap(x * y, "u16"), [(65535, 65535)])


def test_table_of_examples(device):
    """INT-1: the rows of the rule's own table."""
    i8, u8, u16 = np.int8, np.uint8, np.uint16

    @tack.kernel
    def rows(a, low, word, eight, b, minus, plus, out):
        for i in range(1):
            out[0] = tack.i8(a[0] + 1)
            out[1] = a[0] + a[0]
            out[2] = word[0] * word[0]
            out[3] = abs(low[0])
            out[4] = eight[0] >> 1
            out[5] = b[0] >> 1
            out[6] = minus[0] + plus[0]
            out[7] = a[0] + 1

    out = np.zeros(8, dtype=np.int64)
    rows(
        np.array([127], i8), np.array([-128], i8), np.array([65535], u16), np.array([-8], i8),
        np.array([200], u8), np.array([-1], np.int32), np.array([4294967295], np.uint32), out,
    )  # fmt: skip
    assert ints(out) == [-128, -2, 1, -128, -4, 100, 4294967294, 128]


# --- conversions (INT-2, INT-3, INT-4) --------------------------------------------------------------------------------


@pytest.mark.parametrize("source, target", INTEGER_PAIRS)
def test_every_cast_pair(device, source, target):
    """INT-2: all 64 integer pairs over all boundary values, as an explicit cast and as a store."""
    values = samples(device, source)
    array = np.array(values, dtype=a_dtype(source))
    want = [wrap(v, target) for v in values]
    cast_out = np.zeros(len(values), dtype=a_dtype(widest(target)))
    cast_kernel(getattr(tack, target))(array, cast_out)
    assert ints(cast_out) == want
    store_out = np.zeros(len(values), dtype=a_dtype(target))
    copy_kernel(array, store_out)
    assert ints(store_out) == want


def test_chains_of_casts_of_constants(device):
    """INT-2, LIT-12: a constant that passes through several types wraps at each, as a run-time value does."""

    @tack.kernel
    def chains(byte, out):
        for i in range(1):
            out[0] = tack.i32(tack.i8(tack.u8(200)))
            out[1] = tack.i64(tack.u8(tack.i8(-1)))
            out[2] = tack.i64(tack.i32(tack.u32(4294967295)))
            out[3] = tack.i8(tack.u8(128)) // 3
            out[4] = tack.i8(tack.u8(200)) + byte[0]
            out[5] = tack.i8(tack.u8(200)) < 0
            out[6] = tack.i64(tack.u32(tack.i64(-1)))
            out[7] = tack.f64(tack.i8(tack.u8(200)))
            out[8] = byte[0] // tack.i8(tack.u8(128))

    out = np.zeros(9, dtype=np.int64)
    chains(np.array([1], dtype=np.int8), out)
    assert ints(out) == [-56, 255, -1, -43, -55, 1, 2**32 - 1, -56, -1]


def test_naive_casts_disagree():
    """Negative control for INT-2: saturation, and widening by the destination's signedness."""

    def saturate(v, target):
        low, high = limits(target)
        return min(max(v, low), high)

    assert disagrees(saturate, wrap, [(300, "u8"), (-1, "u64"), (128, "i8")])
    # zero-extending i8 because the destination is u64; sign-extending u8 because it is i64
    assert 255 != wrap(-1, "u64") and wrap(255, "i8") != wrap(255, "i64")


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer_truncates(device, source, target):
    """INT-3: truncation toward zero, over values whose truncation fits."""
    low, high = limits(target)
    candidates = [-2.7, -2.0, -0.9, -0.0, 0.5, 0.999, 1.5, 2.7, 100.9, 3.0e9, 1e15, 9.2e18, 1.8e19, -1e15, -9.2e18]
    values = [float(v) for v in np.array(candidates, dtype=a_dtype(source)) if low <= int(v) <= high]
    out = np.zeros(len(values), dtype=a_dtype(widest(target)))
    cast_kernel(getattr(tack, target))(np.array(values, dtype=a_dtype(source)), out)
    assert ints(out) == [int(v) for v in values]
    stored = np.zeros(len(values), dtype=a_dtype(target))
    copy_kernel(np.array(values, dtype=a_dtype(source)), stored)
    assert ints(stored) == [int(v) for v in values]
    assert any(int(v) != int(np.floor(v)) for v in candidates), "flooring is the naive rule"


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float_keeps_the_sign_of_its_own_type(device, source):
    """INT-4: u8 200 is 200.0, u32 3e9 is 3e9, each rounded once, to nearest even."""
    values = [*samples(device, source), limits(source)[1] // 3, limits(source)[1] // 7 * 5]
    array, out = np.array(values, dtype=a_dtype(source)), np.zeros(len(values))
    cast_kernel(tack.f64)(array, out)
    assert [float(v) for v in out] == [float(v) for v in values]
    cast_kernel(tack.f32)(array, out)
    assert [float(v) for v in out] == [round_to_f32(v) for v in values]


def test_rounding_twice_disagrees():
    """Negative control for INT-4: an integer that goes to binary32 through binary64 rounds the wrong way."""
    value = 2**60 + 2**36 + 1
    assert float(np.float32(float(value))) != round_to_f32(value) == float(2**60 + 2**37)


def test_int_is_i32_and_float_is_f32(device):
    """INT-4: the two Python names are casts to i32 and f32."""

    @tack.kernel
    def names(a, b, out):
        for i in range(1):
            out[0] = int(a[0])
            out[1] = float(b[0])

    out = np.zeros(2)
    names(np.array([2**32 + 5], dtype=np.int64), np.array([0.1]), out)
    assert list(out) == [5.0, float(np.float32(0.1))]


# --- promotion and comparison (TYPE-3, TYPE-4, TYPE-5) ----------------------------------------------------------------


@pytest.mark.parametrize("a, b", REJECTED_PAIRS)
def test_signed_with_u64_is_rejected(device, a, b):
    """TYPE-3: no type holds both; the message shows the cast to write, and nothing has been stored."""
    left, right = np.ones(1, dtype=a_dtype(a)), np.ones(1, dtype=a_dtype(b))
    out = np.full(1, 42, dtype=np.int64)
    with pytest.raises(TypeError, match=r"tack\.(i64|u64)\("):
        add_kernel(left, right, out)
    with pytest.raises(TypeError, match=r"tack\.(i64|u64)\("):
        compare_kernel(left, right, *outputs(6, 1, "i32"))
    with pytest.raises(TypeError):
        extrema_kernel(left, right, *outputs(3, 1, "i64"))
    assert out[0] == 42


@pytest.mark.parametrize("a, b", LEGAL_PAIRS)
def test_comparisons_are_of_mathematical_values(device, a, b):
    """TYPE-4: i32 -1 is less than u32 1."""
    pairs = list(itertools.product(samples(device, a), samples(device, b)))
    out = outputs(6, len(pairs), "i32")
    compare_kernel(*columns(pairs, a, b), *out)
    for op, got in zip(COMPARISONS, out, strict=True):
        assert ints(got) == [int(op(x, y)) for x, y in pairs], op


def test_c_comparison_disagrees():
    """Negative control for TYPE-4: C compares i32 with u32 as unsigned."""
    kind = c_type("i32", "u32")
    assert kind == "u32"
    assert disagrees(lambda x, y: wrap(x, kind) < wrap(y, kind), operator.lt, [(-1, 1)])


@pytest.mark.parametrize("a, b", LEGAL_PAIRS)
def test_extrema_and_conditional_arms_promote(device, a, b):
    """TYPE-2, INT-5: min, max and both arms of a conditional are exact at the promoted type."""
    pairs = list(itertools.product(samples(device, a), samples(device, b)))
    out = outputs(3, len(pairs), widest(promote(a, b)))
    extrema_kernel(*columns(pairs, a, b), *out)
    assert ints(out[0]) == [min(p) for p in pairs]
    assert ints(out[1]) == [max(p) for p in pairs]
    assert ints(out[2]) == [p[i % 2] for i, p in enumerate(pairs)]


def test_shapes_are_i64_and_booleans_are_literals(device):
    """TYPE-1, TYPE-8: a product of extents does not wrap at 32 bits; True and False are the i32 literals 1 and 0."""

    @tack.kernel
    def sizes(a, out):
        for i in range(1):
            out[0] = a.shape[1] * 2147483647
            out[1] = len(a) * 2147483647
            out[2] = a.size * 2147483647
            out[3] = a.ndim * 2147483647
            out[4] = (True + True) * 2147483647 + False

    out = np.zeros(5, dtype=np.int64)
    sizes(np.zeros((3, 4), dtype=np.int8), out)
    assert ints(out) == [k * 2147483647 for k in (4, 3, 12, 2)] + [wrap(2 * 2147483647, "i32")]


# --- shifts (SHIFT-1, SHIFT-2, SHIFT-3) -------------------------------------------------------------------------------


@pytest.mark.parametrize("a, count", INTEGER_PAIRS)
def test_shifts_keep_the_left_type(device, a, count):
    """SHIFT-1, SHIFT-2: every count in [0, N) that the count's type holds, u64 beside a signed `a` included."""
    n = bits(a)
    counts = sorted({0, 1, n // 2, n - 2, n - 1}) if is_slow(device) else range(n)
    pairs = list(itertools.product(samples(device, a), [c for c in counts if c <= limits(count)[1]]))
    out = outputs(2, len(pairs), widest(a))
    shift_kernel(*columns(pairs, a, count), *out)
    assert ints(out[0]) == [wrap(x << c, a) for x, c in pairs]
    assert ints(out[1]) == [x >> c for x, c in pairs]


def test_naive_shifts_disagree():
    """Negative control for SHIFT-1: C promotes u8 to int before shifting, and a logical shift ignores the sign."""
    assert (255 << 1) != wrap(255 << 1, "u8") == 254
    assert (wrap(-8, "u8") >> 1) != -8 >> 1


def test_constant_shift_count_out_of_range(device):
    """SHIFT-3: refused unguarded, for each end of the range and either direction."""

    @tack.kernel
    def too_far(a):
        for i in range(a.shape[0]):
            a[i] = a[i] << 8

    @tack.kernel
    def negative(a):
        for i in range(a.shape[0]):
            a[i] = a[i] >> -1

    data = np.array([1, 2], dtype=np.uint8)
    for kernel in (too_far, negative):
        with pytest.raises(ValueError, match="shift"):
            kernel(data)
    assert ints(data) == [1, 2]
    wide = np.array([1, 2], dtype=np.int32)
    too_far(wide)
    assert ints(wide) == [256, 512]


def test_guarded_constant_shift_count_is_accepted(device):
    """SHIFT-3: behind a guard a constant count is the program's business, and does not run."""

    @tack.kernel
    def guarded(a, out):
        for i in range(a.shape[0]):
            if a[i] < 0:
                out[i] = a[i] << 99
            else:
                out[i] = a[i]

    out = np.zeros(2, dtype=np.int32)
    guarded(np.array([3, 4], dtype=np.int32), out)
    assert ints(out) == [3, 4]


# --- builtins (INT-5, INT-6) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INTEGERS)
def test_bit_builtins(device, name):
    """INT-6: counted in the operand's own width; of zero, clz and ctz give the width."""
    n, values = bits(name), samples(device, name)
    out = outputs(3, len(values), "i32")
    bit_builtins_kernel(np.array(values, dtype=a_dtype(name)), *out)
    words = [v % 2**n for v in values]
    assert ints(out[0]) == [bin(w).count("1") for w in words]
    assert ints(out[1]) == [n - w.bit_length() for w in words]
    assert ints(out[2]) == [n if w == 0 else (w & -w).bit_length() - 1 for w in words]
    if n < 32:  # negative control: counting in a 32-bit carrier
        assert disagrees(lambda w: 32 - w.bit_length(), lambda w: n - w.bit_length(), [(w,) for w in words])


@pytest.mark.parametrize("name", INTEGERS)
def test_bit_builtins_give_i32(device, name):
    """TYPE-5: the i32 result wraps at 32 bits, whatever the operand's type."""

    @tack.kernel
    def wraps(a, out):
        for i in range(a.shape[0]):
            out[i] = tack.popcount(a[i]) * 2147483647

    out = np.zeros(1, dtype=np.int64)
    wraps(np.array([3], dtype=a_dtype(name)), out)
    assert ints(out) == [wrap(2 * 2147483647, "i32")]


# --- literals (LIT-1, LIT-2, LIT-3) -----------------------------------------------------------------------------------


def test_full_width_literals(device):
    """LIT-1, LIT-2: i32, then i64, then u64; a negative literal is judged whole."""

    @tack.kernel
    def signed(out):
        for i in range(1):
            out[0] = 2147483647 + 1
            out[1] = 2147483648 + 1
            out[2] = -9223372036854775808
            out[3] = 9223372036854775807
            out[4] = -2147483648 - 1
            out[5] = -2147483649 - 1

    @tack.kernel
    def unsigned(out):
        for i in range(1):
            out[0] = 18446744073709551615
            out[1] = 9223372036854775808
            out[2] = 18446744073709551615 + 9223372036854775809

    out = np.zeros(6, dtype=np.int64)
    signed(out)
    assert ints(out) == [-(2**31), 2**31 + 1, -(2**63), 2**63 - 1, 2**31 - 1, -(2**31) - 2]
    out = np.zeros(3, dtype=np.uint64)
    unsigned(out)
    assert ints(out) == [2**64 - 1, 2**63, 2**63]


def test_literals_that_no_type_holds(device):
    """LIT-1: beyond [-2^63, 2^64 - 1] there is no type."""

    @tack.kernel
    def too_large(out):
        for i in range(1):
            out[0] = 18446744073709551616

    @tack.kernel
    def too_small(out):
        for i in range(1):
            out[0] = -9223372036854775809

    for kernel in (too_large, too_small):
        with pytest.raises(TypeError):
            kernel(np.zeros(1, dtype=np.int64))


def test_plain_literal_beside_u64(device):
    """LIT-3, LIT-12: a literal that fits a signed type is signed; the message shows the cast, and the cast works."""

    @tack.kernel
    def plain(a, out):
        for i in range(1):
            out[0] = a[0] + 1

    @tack.kernel
    def cast(a, out):
        for i in range(1):
            out[0] = a[0] + tack.u64(1)

    a, out = np.array([2**64 - 2], dtype=np.uint64), np.zeros(1, dtype=np.uint64)
    with pytest.raises(TypeError, match=r"tack\.u64\(1\)"):
        plain(a, out)
    cast(a, out)
    assert ints(out) == [2**64 - 1]


VALUE_TYPES = {
    2**31 - 1: "i32", -(2**31): "i32",
    2**31: "i64", -(2**31) - 1: "i64", 2**63 - 1: "i64",
    2**63: "u64", 2**64 - 1: "u64",
}  # fmt: skip
CARRIED = [
    (value, name, convert)
    for value, name in VALUE_TYPES.items()
    for convert in (int, np.int64, np.uint64)
    if convert is int or np.iinfo(convert).min <= value <= np.iinfo(convert).max
]


@pytest.mark.parametrize("value, name, convert", CARRIED)
def test_integer_arguments(device, value, name, convert):
    """LIT-1, PAR-4: the type of an integer argument follows from its value, whatever Python type carries it."""
    out = np.zeros(1, dtype=a_dtype(widest(name)))
    double_scalar_kernel(convert(value), out)
    assert ints(out) == [wrap(2 * value, name)]


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integer_arguments_that_no_type_holds(device, value):
    """LIT-1, PAR-4: refused, nothing stored."""
    out = np.full(1, 42, dtype=np.int64)
    with pytest.raises(TypeError):
        double_scalar_kernel(value, out)
    assert ints(out) == [42]


# --- alignment (INT-7) ------------------------------------------------------------------------------------------------


def misaligned(values, name):
    """The values in a NumPy array whose storage starts one byte off its alignment."""
    kind = a_dtype(name)
    raw = np.zeros(len(values) * kind.itemsize + 1, dtype=np.uint8)
    view = raw[1:].view(kind)
    view[:] = values
    return view


@pytest.mark.parametrize("name", INTEGERS)
def test_one_byte_misaligned_imports(device, name):
    """INT-7: passed directly and imported, read and written, with nothing beyond the array touched."""
    values = samples(device, name)
    source, target = misaligned(values, name), misaligned([0] * len(values), name)
    if bits(name) > 8:
        assert source.ctypes.data % source.itemsize
    copy_kernel(source, target)
    assert ints(target) == values
    out = np.zeros(len(values), dtype=a_dtype(name))
    copy_kernel(tack.asarray(source), out)
    assert ints(out) == values
    add_kernel(source, source, target)
    assert ints(target) == [wrap(2 * v, name) for v in values]
    assert is_signed(name) or min(values) == 0
