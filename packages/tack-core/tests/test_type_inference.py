"""Promotion of types and types of parameters (rules TYPE-2, TYPE-3, TYPE-10, PAR-2, PAR-4, PAR-7, LIT-1).

Oracle of promotion: NumPy's integer limits, searched for the narrowest type that holds both ranges.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tack
from tack.lang.diagnostics import Loc, SourceText
from tack.lang.ir import IRKernel, IRParam, Symbol
from tack.lang.type_inference import infer_param_types, integer_type_for_values, join_types, promote_types
from tack.lang.types import DTYPES, INTEGER_DTYPES, ArrayType, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

LOC = Loc(SourceText("user.py", ("def scale(a, n): ...",)), "kernel `scale`", 1, 0, 3)
PAIRS = list(itertools.product(DTYPES, DTYPES))


def limits(dtype):
    info = np.iinfo(dtype.name.replace("i", "int").replace("u", "uint"))
    return int(info.min), int(info.max)


def oracle(a, b):
    """The rule, from ranges alone; None where the pair is refused."""
    if a.kind == "f" or b.kind == "f":
        return f64 if "f64" in (a.name, b.name) else f32
    low = min(limits(a)[0], limits(b)[0])
    high = max(limits(a)[1], limits(b)[1])
    holding = [t for t in INTEGER_DTYPES if limits(t)[0] <= low and limits(t)[1] >= high]
    same = [t for t in holding if t.kind == a.kind == b.kind]  # i8 with i8 is i8, and u8 with u16 never turns signed
    return min(same or holding, key=lambda t: t.bits, default=None)


def c_rule(a, b):
    """The negative control: C's conversions, which make i32 with u32 unsigned."""
    if a.kind == "f" or b.kind == "f":
        return oracle(a, b)
    a, b = (i32 if t.bits < 32 else t for t in (a, b))
    return max(a, b, key=lambda t: (t.bits, t.kind == "u"))


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=lambda t: t.name)
def test_all_hundred_pairs(a, b):
    """TYPE-2, TYPE-3"""
    wanted = oracle(a, b)
    if wanted is None:
        with pytest.raises(
            TypeError, match=r"use an explicit integer cast: tack\.i64\(\.\.\.\) or tack\.u64\(\.\.\.\)"
        ):
            promote_types(a, b)
    else:
        assert promote_types(a, b) is wanted


def test_the_refused_pairs_are_signed_with_u64():
    """TYPE-3"""
    refused = {frozenset((a.name, b.name)) for a, b in PAIRS if oracle(a, b) is None}
    assert refused == {frozenset((signed, "u64")) for signed in ("i8", "i16", "i32", "i64")}


def test_table_of_the_founding_page():
    """TYPE-3: the table's rows, typed by hand."""
    rows = [(i8, u8, i16), (i8, u16, i32), (i32, u32, i64), (i16, u32, i64), (u8, u64, u64), (i64, f32, f32)]
    for a, b, wanted in rows:
        assert promote_types(a, b) is wanted
        assert promote_types(b, a) is wanted


def test_the_rule_of_c_would_be_noticed():
    """The oracle's negative control."""
    wrong = {(a.name, b.name) for a, b in PAIRS if oracle(a, b) is not None and c_rule(a, b) is not oracle(a, b)}
    assert {("i32", "u32"), ("i8", "i8"), ("i16", "u32")} <= wrong


def test_join_does_not_depend_on_order():
    """TYPE-2, TYPE-6: a floating type wins over integers that have no type of their own."""
    for order in itertools.permutations([i64, u64, f32]):
        assert join_types(order) is f32
    for order in itertools.permutations([i8, u8, u16, f64]):
        assert join_types(order) is f64
    for order in itertools.permutations([i8, u8, u16]):
        assert join_types(order) is i32
    with pytest.raises(TypeError):
        join_types([i64, u64])


def test_type_of_a_table_of_integers():
    """LIT-1 for captured tables."""
    assert integer_type_for_values((1, -1)) is i32
    assert integer_type_for_values((1, 2**31)) is i64
    assert integer_type_for_values((1, 2**64 - 1)) is u64
    with pytest.raises(TypeError, match="one captured table"):
        integer_type_for_values((-1, 2**64 - 1))


# --- Parameters -----------------------------------------------------------------------------------------------------


class FakeArray:
    def __init__(self, dtype, ndim):
        self.dtype, self.ndim = dtype, ndim


def scale(**annotations):
    """A kernel of these parameters, with their annotations."""
    params = [IRParam(name=name, loc=LOC, annotation=pin) for name, pin in annotations.items()]
    symbols = {name: Symbol(name=name, kind="param", source_name=name, loc=LOC) for name in annotations}
    return IRKernel(name="scale", loc=LOC, params=params, body=[], symbols=symbols)


def infer_one(argument, pin=None):
    (found,) = infer_param_types(scale(n=pin), [argument])
    return found


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (0, i32), (2**31 - 1, i32), (-(2**31), i32), (2**31, i64), (-(2**31) - 1, i64), (2**63 - 1, i64),
        (-(2**63), i64), (2**63, u64), (2**64 - 1, u64), (True, i32), (False, i32),
        (np.int8(3), i32), (np.uint64(2**64 - 1), u64), (np.int64(5), i32), (np.bool_(True), i32),
    ],
)  # fmt: skip
def test_integers(value, wanted):
    """PAR-4, LIT-1: i32 if it fits, else i64, else u64; a NumPy integer counts by its value."""
    assert infer_one(value) is wanted


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_integers_beyond_64_bits(value):
    """PAR-4, LIT-1"""
    with pytest.raises(TypeError, match=r"kernel `scale`: parameter `n`.*64 bits"):
        infer_one(value)


@pytest.mark.parametrize("value", [1.5, float("inf"), float("nan"), np.float32(1.5), np.float64(1.5), np.float16(1.5)])
def test_floats_follow_the_arrays(value):
    """PAR-4, TYPE-10: f64 beside an f64 array anywhere among the arguments, else f32."""
    kernel = scale(s=None, a=None)
    assert infer_param_types(kernel, [value, FakeArray(f32, 1)]) == [f32, ArrayType(f32, 1)]
    assert infer_param_types(kernel, [value, FakeArray(f64, 2)]) == [f64, ArrayType(f64, 2)]
    assert infer_param_types(kernel, [value, FakeArray(i64, 1)])[0] is f32
    assert infer_param_types(kernel, [value, tack.f64(2.0)])[0] is f32  # a scalar lends nothing


def test_typed_scalars_and_types_keep_their_type():
    """PAR-4, PAR-5"""
    assert infer_one(tack.u8(300)) is u8
    assert infer_one(tack.f64(1.0)) is f64
    assert infer_one(u16) is u16
    assert infer_one(ArrayType(i8, 3)) == ArrayType(i8, 3)


def test_arrays():
    """PAR-4: dtype and rank, of a Tack or a NumPy dtype."""
    assert infer_one(FakeArray(u32, 0)) == ArrayType(u32, 0)
    assert infer_one(np.zeros((2, 3), np.int16)) == ArrayType(i16, 2)


@pytest.mark.parametrize("dtype", ["float16", "complex64", "bool", ">i4"])
def test_arrays_without_a_tack_dtype(dtype):
    """PAR-7"""
    with pytest.raises(TypeError, match=r"(?s)kernel `scale`: parameter `n`.*the dtypes are i8"):
        infer_one(np.zeros(3, dtype))


@pytest.mark.parametrize("value", ["x", None, 1j, [1, 2], np.complex64(1)])
def test_what_is_neither_number_nor_array(value):
    """PAR-7"""
    with pytest.raises(TypeError, match=r"kernel `scale`: parameter `n`.*not accepted"):
        infer_one(value)


def test_annotations_pin():
    """PAR-2"""
    assert infer_one(3, i64) is i64
    assert infer_one(3, f64) is f64
    assert infer_one(2**63, u64) is u64
    assert infer_one(1e300, f64) is f64
    assert infer_one(tack.u8(3), i64) is i64
    assert infer_one(i32, i64) is i64


@pytest.mark.parametrize(("value", "pin"), [(256, u8), (-1, u32), (128, i8), (2**63, i64), (2**64, u64)])
def test_integer_outside_its_annotation(value, pin):
    """PAR-2, PAR-7"""
    with pytest.raises(ValueError, match=rf"kernel `scale`: parameter `n`: {value} is outside tack\.{pin.name}"):
        infer_one(value, pin)


def test_float_for_an_integer_annotation():
    """PAR-2, PAR-7"""
    with pytest.raises(TypeError, match=r"kernel `scale`: parameter `n`.*takes an integer, not the float 1\.5"):
        infer_one(1.5, i32)


def test_array_for_an_annotated_scalar():
    """PAR-2, PAR-7"""
    with pytest.raises(TypeError, match="takes a number, not an array"):
        infer_one(FakeArray(f32, 1), i32)


@pytest.mark.parametrize("pin", [None, f32])
@pytest.mark.parametrize("value", [1e39, -1e300, 3.4028235677973366e38])
def test_float_beyond_f32(value, pin):
    """PAR-7: a finite float never turns into an infinity unseen; the last value is the first that rounds up to one."""
    with pytest.raises(ValueError, match=r"pass tack\.f64\(.*annotate"):
        infer_one(value, pin)
    assert infer_one(3.4028235677973362e38, pin) is f32


def test_wrong_count():
    """PAR-1"""
    with pytest.raises(TypeError, match="kernel `scale` takes 1 arguments, not 2"):
        infer_param_types(scale(n=None), [1, 2])
