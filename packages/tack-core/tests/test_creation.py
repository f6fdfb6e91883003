"""Functions that make arrays (MEM-1, LIT-*, INT-2)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tack
from rigs.far_memory import far_device
from tack.lang.types import DTYPES, dtype_of_numpy

# --- zeros, ones, full ---


def test_shapes_are_integers_or_tuples(device):
    """MEM-1"""
    assert tack.zeros(3).shape == (3,) and tack.zeros(np.int64(3)).shape == (3,)
    assert tack.zeros((2, 3)).shape == (2, 3) and tack.zeros([2, np.int8(3)]).shape == (2, 3)
    assert tack.zeros(()).shape == () and tack.zeros(0).size == 0
    for bad in (-1, (2, -3)):
        with pytest.raises(ValueError, match="negative"):
            tack.zeros(bad)
    for bad in (1.5, "3", None, (2, 1.0)):
        with pytest.raises(TypeError, match="shape"):
            tack.zeros(bad)


def test_dtype_defaults_to_f32(device):
    for make in (tack.zeros, tack.empty, tack.ones):
        assert make(2).dtype is tack.f32
    assert tack.full(2, 1).dtype is tack.f32
    assert tack.full(2, tack.u8(300)).dtype is tack.u8


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_by_any_name(device, dtype):
    for spec in (dtype, dtype.name, dtype.numpy, dtype.numpy.type, dtype.numpy.str):
        a = tack.ones(3, spec)
        assert a.dtype is dtype and a.numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("spec", [bool, "f16", np.float16, complex, "U3", object, ">i4", "nonsense", "vec3", 7])
def test_dtypes_that_do_not_exist(spec):
    with pytest.raises(TypeError):
        tack.zeros(2, spec)


def test_full_converts_as_a_cast(device):
    """INT-1, INT-3"""
    assert tack.full(2, -1, tack.u16).numpy().tolist() == [65535, 65535]
    assert tack.full(2, -2.7, tack.i32).numpy().tolist() == [-2, -2]
    assert tack.full((), 2**53 + 1, tack.i64)[()] == 2**53 + 1
    assert tack.full((), 0.1, tack.f64)[()] == 0.1
    with pytest.raises(ValueError, match="inf"):
        tack.full(2, math.inf, tack.i32)
    with pytest.raises(TypeError):
        tack.full(2, "x")


def test_like(device):
    a = tack.full((2, 3), 5, tack.i16)
    for b, value in ((tack.zeros_like(a), 0), (tack.empty_like(a), 0), (tack.full_like(a, 9), 9)):
        assert (b.shape, b.dtype, b.device) == ((2, 3), tack.i16, device) and (b.numpy() == value).all()
    assert tack.zeros_like(a, tack.f64).dtype is tack.f64
    assert tack.zeros_like(np.zeros((4, 1), ">u4")).dtype is tack.u32
    with pytest.raises(TypeError, match="model"):
        tack.zeros_like([1, 2])


def test_like_stays_on_the_device_of_the_model():
    with tack.device("reference"):
        a = tack.zeros(3)
    assert tack.zeros_like(a).device == tack.device("reference")


# --- arange ---


@pytest.mark.parametrize(
    "args",
    [(5,), (0,), (-3,), (2, 7), (7, 2), (7, 2, -2), (0, 10, 3), (-5, 5, 4), (2**31 - 2, 2**31), (2**62, 2**62 + 9, 4)],
)
def test_arange_of_integers(device, args):
    """The oracle is Python's range"""
    a = tack.arange(*args)
    expected = list(range(*args))
    assert a.numpy().tolist() == expected
    assert a.dtype is (tack.i32 if all(abs(n) < 2**31 for n in expected) else tack.i64)


def test_arange_at_the_ends_of_64_bits(device):
    ends = range(2**64 - 5, 2**64, 2), range(-(2**63), -(2**63) + 3), range(2**63 - 3, 2**63 + 2)
    for expected, dtype in zip(ends, (tack.u64, tack.i64, tack.u64), strict=True):
        a = tack.arange(expected.start, expected.stop, expected.step)
        assert a.dtype is dtype and a.numpy().tolist() == list(expected)
    step = 2**63
    assert tack.arange(0, 2**64, step).numpy().tolist() == [0, step]
    with pytest.raises(TypeError, match="64"):
        tack.arange(-1, 2**63 + 2, 2**63 + 1)
    with pytest.raises(TypeError, match="64"):
        tack.arange(2**64, 2**64 + 3)


def test_arange_of_floats(device):
    a = tack.arange(0.0, 1.0, 0.1)
    assert a.dtype is tack.f32 and a.size == 10
    exact = [np.float32(float(k * 0.1)) for k in range(10)]
    assert np.array_equal(a.numpy(), np.array(exact, np.float32))
    assert tack.arange(3.0).numpy().tolist() == [0.0, 1.0, 2.0]
    assert tack.arange(0.0, 1.0, 0.1, tack.f64).numpy().tolist() == [k * 0.1 for k in range(10)]
    assert tack.arange(1.0, 0.0).size == 0


def test_arange_dtype_and_errors(device):
    assert tack.arange(300, dtype=tack.u8).numpy()[-1] == 299 - 256
    assert tack.arange(3, dtype=tack.f64).dtype is tack.f64
    for bad in ((0, 5, 0), (0.0, math.inf), (0.0, math.nan), (0.0, 1.0, 0.0), (0, 2**64, 1)):
        with pytest.raises((ValueError, MemoryError)):
            tack.arange(*bad)
    with pytest.raises(TypeError):
        tack.arange("3")


# --- asarray ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_asarray_copies_numpy(device, dtype):
    values = np.arange(6, dtype=dtype.numpy)
    a = tack.asarray(values)
    values[:] = 0
    assert a.dtype is dtype and a.numpy().tolist() == [0, 1, 2, 3, 4, 5]


def test_asarray_of_any_layout_is_by_value(device):
    """Cases 24 and 30: never the raw layout, never another sign"""
    values = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    readonly = values.copy()
    readonly.flags.writeable = False
    misaligned = np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view(np.int32)
    layouts = [
        values.T,
        values[:, ::-1, ::2],
        np.asfortranarray(values),
        values.astype(">i4"),
        values.astype("<i4"),
        np.broadcast_to(values[0], (5, 3, 4)),
        readonly,
        misaligned,
    ]
    for layout in layouts:
        a = tack.asarray(layout)
        assert a.dtype is tack.i32 and np.array_equal(a.numpy(), layout)
    assert tack.asarray(np.array([200], np.uint8))[0] == 200
    # Negative control: the raw layout of a transpose is something else.
    assert not np.array_equal(np.frombuffer(values.tobytes(), np.int32).reshape(4, 3, 2), values.T)


def test_asarray_of_numbers_takes_the_types_of_arguments(device):
    """LIT-1 and the table of parameters: i32, else i64, else u64; floats are f32"""
    rows = [
        (3, tack.i32, ()),
        (2**31, tack.i64, ()),
        (2**63, tack.u64, ()),
        (1.5, tack.f32, ()),
        ([1, 2], tack.i32, (2,)),
        ([[1], [2**40]], tack.i64, (2, 1)),
        ((0, 2**64 - 1), tack.u64, (2,)),
        ([1, 0.1], tack.f32, (2,)),
        ([], tack.f32, (0,)),
        ([[], []], tack.f32, (2, 0)),
        (range(3), tack.i32, (3,)),
        (tack.i8(-3), tack.i8, ()),
        ([tack.u8(1), tack.u8(255)], tack.u8, (2,)),
        (np.float64(0.1), tack.f64, ()),
        (np.uint16(9), tack.u16, ()),
        ([np.arange(2.0), np.arange(2.0)], tack.f64, (2, 2)),
    ]
    for given, dtype, shape in rows:
        a = tack.asarray(given)
        assert (a.dtype, a.shape) == (dtype, shape), given


def test_asarray_of_integers_is_exact(device):
    """Each number converts by itself: NumPy would go through binary64"""
    given = [2**63 + 1, 2**53 + 1, 1]
    assert tack.asarray(given).numpy().tolist() == given
    assert tack.asarray([-1, 2**63], tack.u64).numpy().tolist() == [2**64 - 1, 2**63]
    value = (1 << 54) + (1 << 30) + 1  # halfway between two f32, and a little more
    assert Fraction(float(tack.asarray([value, 0.5])[0])) == Fraction((1 << 54) + (1 << 31))
    assert np.array([-1, 2**63]).dtype.kind == "f"  # negative control


@pytest.mark.parametrize(
    "bad",
    [
        [True, False], True, np.zeros(2, bool), np.zeros(2, np.float16), np.zeros(2, complex),
        np.zeros(2, np.longdouble), np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]"),
        np.zeros(2, [("x", "i4")]), "abc", ["a"], None, {}, [None], object(),
        [-1, 2**63], [2**64], [tack.u8(1), 2], [tack.u8(1), tack.i8(1)],
    ],
    ids=lambda bad: type(bad).__name__,
)  # fmt: skip
def test_asarray_refuses(device, bad):
    with pytest.raises(TypeError):
        tack.asarray(bad)


def test_asarray_says_what_to_write():
    with pytest.raises(TypeError, match=r"\.astype\(np\.uint8\)"):
        tack.asarray(np.zeros(2, bool))
    with pytest.raises(TypeError, match=r"\.astype\(np\.float32\)"):
        tack.asarray(np.zeros(2, np.float16))
    with pytest.raises(TypeError, match=r"\.real"):
        tack.asarray(np.zeros(2, complex))
    for masked in (np.ma.MaskedArray([1, 2], [0, 1]), np.zeros(2).view(np.ma.MaskedArray)):
        with pytest.raises(TypeError, match=r"asarray takes arrays without a mask: pass a\.filled"):
            tack.asarray(masked)
        with pytest.raises(TypeError, match=r"asarray takes arrays without a mask"):
            tack.asarray(masked, tack.f32)
        with pytest.raises(TypeError, match=r"copyto takes arrays without a mask"):
            tack.copyto(tack.zeros(2), masked)
    with pytest.raises(ValueError, match="ragged"):
        tack.asarray([[1], [2, 3]])


def test_asarray_with_a_dtype_converts(device):
    assert tack.asarray(np.array([True, False]), tack.u8).numpy().tolist() == [1, 0]
    assert tack.asarray([True, 300], tack.u8).numpy().tolist() == [1, 44]
    assert tack.asarray(np.array([0.1], np.float16), tack.f32)[0] == float(np.float16(0.1))
    assert tack.asarray([0.1], tack.f64)[0] == 0.1
    assert tack.asarray(np.array([-2.7]), tack.i8)[0] == -2
    with pytest.raises(TypeError):
        tack.asarray(np.zeros(2, complex), tack.f32)
    with pytest.raises(ValueError, match="nan"):
        tack.asarray([math.nan], tack.i32)


def test_asarray_of_a_tack_array(monkeypatch):
    with tack.device("reference") as here:
        a = tack.arange(4)
        assert tack.asarray(a) is a and tack.asarray(a, tack.i32, device=here) is a
        b = tack.asarray(a, tack.f64)
        assert b is not a and b.numpy().tolist() == [0, 1, 2, 3]
        with far_device(monkeypatch) as there:
            assert tack.asarray(a) is a, "without device= it stays where it is"
            c = tack.asarray(a, device=there)
            assert c.device == there and c.numpy().tolist() == [0, 1, 2, 3]
            assert tack.asarray(c, tack.u8, device="reference").device == here


# --- copyto, concat ---


def test_copyto(device):
    a = tack.zeros((2, 3), tack.i32)
    tack.copyto(a, np.arange(6.9, 0.9, -1).reshape(2, 3)[:, ::-1])
    assert a.numpy().tolist() == [[4, 5, 6], [1, 2, 3]]
    tack.copyto(a, tack.full((2, 3), 2**32 + 5, tack.i64))
    assert (a.numpy() == 5).all()
    tack.copyto(a, 8)
    assert (a.numpy() == 8).all()
    tack.copyto(a, [[1, 2, 3], [4, 5, 6]])
    tack.copyto(a.reshape(6), a.reshape(6))
    assert a.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    for bad in (np.zeros(3), tack.zeros((3, 2)), tack.zeros(6)):
        with pytest.raises(ValueError, match="shape"):
            tack.copyto(a, bad)
    with pytest.raises(TypeError, match=r"np\.copyto"):
        tack.copyto(np.zeros(3), a)
    with pytest.raises(TypeError):
        tack.copyto(a, np.full((2, 3), "x"))


def test_concat(device):
    a, b = tack.arange(6).reshape(2, 3), tack.arange(3).reshape(1, 3)
    assert tack.concat([a, b]).numpy().tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert tack.concat((a, a), axis=-1).shape == (2, 6)
    assert tack.concat([tack.zeros(0), tack.ones(2)]).numpy().tolist() == [1, 1]
    one = tack.concat([a])
    one.fill(0)
    assert a[5] == 5
    for bad in ([], [a, tack.zeros(3, tack.i32)], [tack.zeros(()), tack.zeros(())]):
        with pytest.raises(ValueError):
            tack.concat(bad)
    with pytest.raises(ValueError):
        tack.concat([a, b], axis=2)
    with pytest.raises(TypeError, match="astype"):
        tack.concat([a, a.astype(tack.i64)])
    with pytest.raises(TypeError, match="asarray"):
        tack.concat([a, a.numpy()])


def test_concat_of_two_devices(monkeypatch):
    with tack.device("reference"):
        a = tack.zeros(2)
    with far_device(monkeypatch), pytest.raises(ValueError, match="devices"):
        tack.concat([a, tack.zeros(2)])


def test_every_numpy_dtype_of_ours_has_one_tack_dtype():
    assert [dtype_of_numpy(t.numpy) for t in DTYPES] == list(DTYPES)
