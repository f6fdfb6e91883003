"""Arrays on the host: shapes, memory, element access, conversion (MEM-1, MEM-2, CALL-1, INT-2, INT-3)."""

from __future__ import annotations

import copy
import ctypes
import gc
import itertools
import mmap
import pickle
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import tack
from rigs.far_memory import far_device
from tack.lang.types import DTYPES, FLOAT_DTYPES, INTEGER_DTYPES
from tack.runtime.host_memory import LARGE, HostMemory, _Owner

SHAPES = [(), (0,), (1,), (5,), (2, 3), (3, 0, 2), (2, 3, 4), (1, 1, 1, 1)]


@pytest.fixture(params=[*tack.devices(), "far"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tack.Device]:
    """Every device, and one more whose memory the host cannot reach."""
    if request.param == "far":
        with far_device(monkeypatch) as device:
            yield device
    else:
        with tack.device(request.param) as device:
            yield device


def numbered(shape: tuple[int, ...], dtype: tack.DType = tack.i32) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=dtype.numpy).reshape(shape)


# --- Shape and memory ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_new_arrays_are_zero_and_say_what_they_are(memory, shape, dtype):
    """MEM-1"""
    for make in (tack.zeros, tack.empty):
        a = make(shape, dtype)
        size = int(np.prod(shape, dtype=int))
        assert (a.shape, a.dtype, a.ndim, a.size) == (shape, dtype, len(shape), size)
        assert a.nbytes == size * dtype.itemsize and a.device == memory
        values = a.numpy()
        assert values.dtype == dtype.numpy and values.shape == shape and values.flags.c_contiguous
        assert values.tobytes() == bytes(a.nbytes)


def test_freed_memory_is_zero_when_it_comes_back(device):
    """MEM-1"""
    for size in (10, 1000, LARGE, 10 * LARGE):
        for _ in range(3):
            a = tack.empty(size, tack.u8)
            assert not a.numpy().any()
            a.fill(255)
            del a


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_survive_the_round_trip(memory, shape, dtype):
    """MEM-1; the oracle is NumPy's own row-major order"""
    expected = numbered(shape, dtype)
    assert np.array_equal(tack.asarray(expected).numpy(), expected)


def test_words_that_a_launch_reads(memory):
    """docs/design/pipeline.md, "The argument block" """
    a = tack.zeros((2, 3, 4), tack.i16)
    assert a._nbytes == 48 and a._key & 0xFFFF == tack.i16.code | 3 << 8
    assert list((ctypes.c_int64 * 3).from_address(a._dims)) == [2, 3, 4]
    b = a.reshape(4, 6)
    assert b._data == a._data and list((ctypes.c_int64 * 2).from_address(b._dims)) == [4, 6]
    assert tack.zeros(())._dims != 0 and tack.zeros(0)._data != 0


def test_attributes_cannot_be_set():
    a = tack.zeros(3)
    for name in ("shape", "dtype", "ndim", "size", "nbytes", "device", "other"):
        with pytest.raises(AttributeError):
            setattr(a, name, 1)


def test_large_arrays_do_not_share_cache_sets():
    """Staggered starts: neighbours differ modulo a page and modulo a huge page"""
    memory = HostMemory()
    starts, owners = zip(*(memory.allocate(LARGE) for _ in range(64)), strict=True)
    assert all(start % 64 == 0 for start in starts)
    assert len({start % 4096 for start in starts}) == 64
    assert len({start % (1 << 21) // 4096 for start in starts}) > 48
    for start, owner in zip(starts, owners, strict=True):
        base = owner.__array_interface__["data"][0]
        assert base <= start and start + LARGE <= base + owner.nbytes


def test_memory_that_is_used_again_is_clear():
    """MEM-1: the pages of a freed array go to one of about its size, and to one array only"""
    memory, size = HostMemory(), 5 << 20
    for nbytes in (size, size, size - (1 << 20), size + (1 << 20), 2 * size, size):
        starts, owners = zip(*(memory.allocate(nbytes) for _ in range(3)), strict=True)
        cells = [np.frombuffer((ctypes.c_uint8 * nbytes).from_address(start), np.uint8) for start in starts]
        for k, array in enumerate(cells):
            assert not array.any()
            array.fill(k + 1)
        assert all((array == k + 1).all() for k, array in enumerate(cells))
        del owners


@pytest.mark.skipif(not hasattr(mmap, "MADV_FREE"), reason="the system has no MADV_FREE, so nothing is kept")
def test_little_memory_is_kept():
    """The pages of one array, and none of a very large one"""
    memory = HostMemory()
    held = [memory.allocate(5 << 20)[1] for _ in range(4)]
    held.clear()
    (kept,) = _Owner.kept
    assert 5 << 20 <= len(kept) < 8 << 20
    assert memory.allocate(300 << 20)[1] is not None  # and is freed at once
    assert _Owner.kept == [kept]


def test_small_arrays_start_a_cache_line():
    memory = HostMemory()
    held = [memory.allocate(n) for n in (0, 1, 63, 64, 1000)]
    assert all(address % 64 == 0 for address, _ in held)


def test_memory_that_cannot_be_had(device):
    with pytest.raises(MemoryError):
        tack.zeros(1 << 55, tack.u8)
    with pytest.raises(ValueError, match="too large"):
        tack.zeros((1 << 40, 1 << 40))


# --- Element access from the host ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_read_and_written(memory, dtype):
    """MEM-2: an index a dimension, or one flat index; negative ones count from the end, as Python's do"""
    expected = numbered((2, 3), dtype)
    a = tack.asarray(expected)
    for i, j in itertools.product(range(-2, 2), range(-3, 3)):
        assert a[i, j] == expected[i, j]
    for k in range(-6, 6):
        assert a[k] == expected.flat[k]
        assert type(a[k]) is (float if dtype.is_float else int)
    a[1, -1] = 77
    a[0] = 88
    expected[1, 2], expected[0, 0] = 77, 88
    assert np.array_equal(a.numpy(), expected)


def test_element_of_a_0d_array(memory):
    """MEM-1, MEM-2"""
    a = tack.full((), 3, tack.i64)
    assert a[()] == 3 and a[0] == 3 and a[-1] == 3
    a[()] = 4
    assert a.numpy() == 4


@pytest.mark.parametrize("index", [6, -7, (2, 0), (0, 3), (-3, 0), (0, -4)])
def test_index_out_of_range(memory, index):
    """MEM-3 leaves it to the caller in a kernel; the host checks"""
    a = tack.zeros((2, 3))
    with pytest.raises(IndexError, match="outside axis"):
        a[index]
    with pytest.raises(IndexError, match="outside axis"):
        a[index] = 1


@pytest.mark.parametrize("index", [(0, 0, 0), (), slice(None), (slice(1), 0), 1.0, "0", None, ...])
def test_index_of_a_wrong_kind(memory, index):
    """MEM-2"""
    a = tack.zeros((2, 3))
    with pytest.raises(TypeError):
        a[index]
    with pytest.raises(TypeError):
        a[index] = 1


def test_elements_convert_as_a_cast(memory):
    """INT-1, INT-3: a store from the host wraps and truncates; the oracle is arithmetic modulo 2**8"""
    a = tack.zeros(5, tack.u8)
    for k, value in enumerate((300, -1, 2.9, -1.5, np.int64(-300))):
        a[k] = value
    assert a.numpy().tolist() == [300 % 256, -1 % 256, 2, -1 % 256, -300 % 256]
    with pytest.raises(ValueError, match="nan"):
        a[0] = float("nan")
    with pytest.raises(TypeError):
        a[0] = "1"


def test_length_and_iteration(memory):
    assert len(tack.zeros((4, 2))) == 4
    assert list(tack.arange(4)) == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="0-d"):
        len(tack.zeros(()))
    with pytest.raises(TypeError, match="1-d"):
        iter(tack.zeros((2, 2)))


# --- Whole-array methods ---


def test_numpy_is_a_snapshot_on_every_device(memory):
    """CALL-1"""
    a = tack.arange(4)
    before = a.numpy()
    a.fill(9)
    assert before.tolist() == [0, 1, 2, 3]
    before[0] = 5
    assert a[0] == 9


def test_fill(memory):
    a = tack.zeros((2, 3), tack.i8)
    a.fill(200)
    assert (a.numpy() == 200 - 256).all()
    a.fill(tack.u8(7))
    assert (a.numpy() == 7).all()
    tack.zeros(0).fill(1)
    with pytest.raises(ValueError, match="inf"):
        a.fill(float("inf"))


def test_copy_is_independent(memory):
    a = tack.arange(6).reshape(2, 3)
    for b in (a.copy(), copy.copy(a), copy.deepcopy(a)):
        assert b.shape == (2, 3) and b.device == memory and np.array_equal(b.numpy(), a.numpy())
        b.fill(0)
        assert a[5] == 5


def test_reshape_shares_memory(memory):
    a = tack.arange(12)
    b = a.reshape(3, -1)
    assert b.shape == (3, 4)
    b[1, 0] = 100
    assert a[4] == 100
    assert a.reshape((2, 2, 3)).shape == (2, 2, 3) and a.reshape(-1).shape == (12,)
    assert tack.arange(1).reshape(()).ndim == 0
    assert tack.zeros((0, 4)).reshape(2, 0).shape == (2, 0)
    assert a.reshape(np.int64(12)).shape == (12,)


@pytest.mark.parametrize("shape", [(5,), (5, -1), (-1, -1), (-2, -6), (0, -1)])
def test_reshape_refuses(memory, shape):
    with pytest.raises(ValueError, match="shape"):
        tack.arange(12).reshape(shape)


def wrap(value: int, dtype: tack.DType) -> int:
    """Oracle: Python integers modulo 2**bits."""
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.is_signed and value >= 1 << (dtype.bits - 1) else value


@pytest.mark.parametrize("target", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("source", INTEGER_DTYPES, ids=str)
def test_astype_between_integers_wraps(memory, source, target):
    """INT-2: all 64 pairs, on the host"""
    values = [source.min, source.max, 0, 1, source.max // 2, source.min + 1]
    got = tack.asarray(np.array(values, source.numpy)).astype(target)
    assert got.dtype is target
    assert got.numpy().tolist() == [wrap(v, target) for v in values]


@pytest.mark.parametrize("target", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("source", FLOAT_DTYPES, ids=str)
def test_astype_from_floats_truncates(source, target):
    """INT-3; out of range the caller's constraint is broken, and the host wraps like `tack.u8(300.0)`"""
    values = np.array(
        [0.0, -0.0, 2.9, -2.9, 200.5, -129.0, 2.0**31, 2.0**63, -(2.0**63), 2.0**64, 3e20, -3e20], source.numpy
    )
    got = tack.asarray(values).astype(target).numpy().tolist()
    assert got == [wrap(int(v), target) for v in values.tolist()]
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="has no"):
            tack.full(3, bad, source).astype(target)


def test_astype_control_plain_numpy_cast_differs():
    """Negative control: NumPy's cast saturates or wraps as the machine pleases, so it could not be the oracle"""
    with np.errstate(invalid="ignore"):
        plain = np.array([3e20, 2.0**64]).astype(np.int16).tolist()
    assert [wrap(int(v), tack.i16) for v in (3e20 + 2.0**17, 300.0)] != plain


@pytest.mark.parametrize("source", [tack.i64, tack.u64], ids=str)
def test_astype_from_integers_rounds_once(memory, source):
    """TYPE-4: an i64 becomes f32 without a stop at f64; the oracle compares exact distances"""
    values = [source.max, (1 << 54) + (1 << 30) + 1, (1 << 62) + (1 << 38) + 1, 16777217, 16777219]
    got = tack.asarray(np.array(values, source.numpy)).astype(tack.f32).numpy()
    for value, rounded in zip(values, got, strict=True):
        below, above = np.nextafter(rounded, np.float32(0)), np.nextafter(rounded, np.float32(np.inf))
        distance = abs(int(rounded) - value)
        assert distance <= abs(int(below) - value) and distance <= abs(int(above) - value)
    # Negative control: rounding twice gives another number for the second value.
    assert np.float32(float(values[1])) != got[1] or np.float32(float(values[2])) != got[2]


def test_astype_between_floats(memory):
    a = tack.asarray(np.array([1e300, -1e300, 0.1, -0.0]))
    got = a.astype(tack.f32).numpy()
    assert got[:2].tolist() == [np.inf, -np.inf] and got[2] == np.float32(0.1) and np.signbit(got[3])
    assert a.astype("f32").astype(np.float64).numpy()[2] == float(np.float32(0.1))
    with pytest.raises(TypeError, match="float16"):
        a.astype(np.float16)


# --- Life ---


def test_views_keep_the_memory_alive(device):
    a = tack.arange(1 << 16)
    view, part = np.asarray(a), a.reshape(2, -1)
    died = weakref.ref(a)
    del a
    gc.collect()
    assert died() is None
    assert view[-1] == (1 << 16) - 1 and part[1, 0] == 1 << 15
    del part
    tack.zeros(1 << 16).fill(3)
    assert np.array_equal(view, np.arange(1 << 16))


@pytest.mark.requires("host_memory")
def test_an_array_keeps_borrowed_memory_alive(device):
    from tack.runtime.interop import wrap_numpy

    values = np.arange(1000)
    a = wrap_numpy(values, device)
    del values
    gc.collect()
    assert np.array_equal(a.numpy(), np.arange(1000))


def test_asarray_view_or_copy(memory):
    """`np.asarray` shares where it can, and says so where it cannot"""
    a = tack.arange(3)
    shares = memory.supports("host_memory") or memory.supports("host_visible")
    view = np.asarray(a)
    view[0] = 7
    assert a[0] == (7 if shares else 0)
    copied = np.array(a)
    copied[1] = 9
    assert a[1] == 1
    assert np.asarray(a, np.float64).dtype == np.float64
    if shares:
        assert np.array(a, copy=False).base is not None
    else:
        with pytest.raises(ValueError, match="host memory"):
            np.array(a, copy=False)


def test_pickle_is_refused(memory):
    with pytest.raises(TypeError, match=r"numpy\(\)"):
        pickle.dumps(tack.zeros(2))


def test_repr_is_short():
    with tack.device("reference"):
        assert repr(tack.zeros((2, 3), tack.u8)) == "<tack.Array (2, 3) u8 on reference>"
