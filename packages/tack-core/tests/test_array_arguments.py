"""Arrays as arguments of kernels: in place, by value of their elements, in any overlap (PAR-*, MEM-1 … MEM-5)."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from tack.lang.types import DTYPES
from test_interop import Exporter, misaligned

ONE = tack.u8(1)  # meets every dtype, u64 too


@tack.kernel
def add_one(a, out, one=ONE):
    for i in range(a.size):
        out[i] = a[i] + one


@tack.kernel
def read_store_read(a, b, seen):
    for i in range(a.shape[0]):
        before = a[i]
        b[i] = before + 10
        seen[i] = a[i]


@tack.kernel
def shift_in_one_iteration(a, b):
    for _ in range(1):
        for i in range(b.shape[0]):
            b[i] = a[i] + 1


@tack.kernel
def count(cells, n):
    for i in range(n):
        tack.atomic_add(cells, i % cells.shape[0], 1)


@tack.func
def count_into(cells, k):
    tack.atomic_add(cells, k, 1)


@tack.kernel
def count_below(cells, n):
    for i in range(n):
        count_into(cells, i % cells.shape[0])


# --- In place ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shift", [0, 1], ids=["aligned", "one byte off"])
def test_numpy_arguments_are_used_in_place(device, dtype, shift):
    """PAR-1; one-byte-misaligned imports are right for every dtype"""
    values = np.arange(70).astype(dtype.numpy)
    place = misaligned if shift else np.copy
    a, out = place(values), place(np.zeros(70, dtype.numpy))
    add_one(a, out)
    assert out.tolist() == [k + 1 for k in range(70)]
    assert a.tolist() == list(range(70))


def test_overlapping_misaligned_arguments_see_each_other(device):
    """MEM-4: no copy stands between them"""
    raw = np.zeros(4 * 9 + 1, np.uint8)
    cells = raw[1:].view(np.int32)
    shift_in_one_iteration(cells[:8], cells[1:9])
    assert cells.tolist() == list(range(9))


@pytest.mark.parametrize("kernel", [count, count_below])
def test_atomics_on_misaligned_memory_are_refused(device, kernel):
    """ATOM-2: they could not be indivisible; nothing is changed"""
    cells = misaligned(np.zeros(4, np.int32))
    with pytest.raises(ValueError, match=r"cells.*aligned"):
        kernel(cells, 8)
    assert not cells.any()
    aligned = cells.copy()
    kernel(aligned, 8)
    assert aligned.tolist() == [2, 2, 2, 2]


def test_dlpack_arguments_are_used_in_place(device):
    """PAR-1"""
    out = np.zeros(4, np.int32)
    add_one(Exporter(np.arange(4, dtype=np.int32)), Exporter(out))
    assert out.tolist() == [1, 2, 3, 4]


def test_numpy_and_tack_arrays_mix(device):
    out = tack.zeros((2, 3), tack.f64)
    add_one(np.ones((2, 3)), out)
    assert (out.numpy() == 2).all()


def test_a_readonly_array_can_be_read_but_not_stored_to(device):
    """PAR-1"""
    a = np.arange(3)
    a.flags.writeable = False
    out = np.zeros(3, int)
    add_one(a, out)
    assert out.tolist() == [1, 2, 3]
    for target in (a, tack.from_dlpack(a)):
        with pytest.raises(ValueError, match=r"(?s)add_one.*out.*read-only"):
            add_one(out, target)
    assert a.tolist() == [0, 1, 2]


# --- Refused, with what to write ---


@pytest.mark.parametrize(
    ("make", "kind", "hint"),
    [
        (lambda: np.zeros((3, 4), np.float32).T, ValueError, "np.ascontiguousarray(a)"),
        (lambda: np.zeros(8, np.float32)[::2], ValueError, "np.ascontiguousarray(a)"),
        (lambda: np.zeros(3, ">f4"), ValueError, "newbyteorder('=')"),
        (lambda: np.zeros(3, np.float16), TypeError, ".astype(np.float32)"),
        (lambda: np.zeros(3, bool), TypeError, ".astype(np.uint8)"),
        (lambda: np.zeros(3, complex), TypeError, ".real"),
        (lambda: np.zeros(3, np.longdouble), TypeError, ".astype(np.float64)"),
        (lambda: np.ma.MaskedArray(np.zeros(3, np.float32), [0, 1, 0]), TypeError, "a.filled(value)"),
        (lambda: np.zeros(3, np.float32).view(np.ma.MaskedArray), TypeError, "a.filled(value)"),
        (lambda: np.timedelta64(3, "s"), TypeError, "an int, a float"),
        (lambda: [1.0, 2.0], TypeError, "NumPy array"),
        (lambda: "text", TypeError, "NumPy array"),
        (lambda: None, TypeError, "NumPy array"),
    ],
)
def test_refusals_name_kernel_and_parameter(device, make, kind, hint):
    """Case 24: an error that says what to do, never other values"""
    out = tack.zeros(12)
    with pytest.raises(kind) as caught:
        add_one(make(), out)
    message = str(caught.value)
    assert "add_one" in message and "`a`" in message and hint in message
    assert not out.numpy().any()


def test_arrays_of_two_devices():
    with tack.device("reference"):
        a = tack.zeros(3)
    others = [name for name in tack.devices() if name != "reference"]
    if not others:
        pytest.skip("only one device")
    with pytest.raises(ValueError, match=r"(?s)out.*reference"):
        add_one(a, tack.zeros(3, device=others[0]))


def test_a_warm_kernel_refuses_the_same_arrays(device):
    """PAR-1, SPEC-1: the fast path of repeated calls looks at layout, byte order, alignment and write protection too"""
    a, out = np.arange(6, dtype=np.int32), np.zeros(6, np.int32)
    cells = np.zeros(6, np.int32)
    for _ in range(5):
        add_one(a, out)
        count(cells, 6)
    frozen = np.zeros(6, np.int32)
    frozen.flags.writeable = False
    wide = np.zeros(12, np.int32)
    for bad in (frozen, wide[::2], a.astype(">i4"), np.zeros((6, 2), np.int32).T):
        with pytest.raises(ValueError):
            add_one(a, bad)
        assert not bad.any() or bad.dtype == np.dtype(">i4")
    shifted = misaligned(np.zeros(6, np.int32))
    with pytest.raises(ValueError, match="aligned"):
        count(shifted, 6)
    add_one(misaligned(a), shifted)
    add_one(frozen, out)
    assert shifted.tolist() == [1, 2, 3, 4, 5, 6] and out.tolist() == [1] * 6
    read_store_read(a, a, out)
    assert out.tolist() == [10, 11, 12, 13, 14, 15]


# --- Overlap ---


def test_the_same_array_twice(device):
    """MEM-4, case 27: the value after a store through another argument is the stored one"""
    a, b, seen = tack.arange(5), tack.zeros(5, tack.i32), tack.zeros(5, tack.i32)
    read_store_read(a, b, seen)
    assert seen.numpy().tolist() == [0, 1, 2, 3, 4], "apart"
    read_store_read(a, a, seen)
    assert seen.numpy().tolist() == [10, 11, 12, 13, 14], "the same"
    read_store_read(a, a.reshape(5), seen)
    assert seen.numpy().tolist() == [20, 21, 22, 23, 24], "another array on the same memory"
    read_store_read(a, b, seen)
    assert seen.numpy().tolist() == [20, 21, 22, 23, 24], "apart again"


def test_overlap_by_a_part(device):
    """MEM-4, MEM-5: a chain through memory; without the overlap there is none"""
    cells = np.zeros(100, np.int32)
    shift_in_one_iteration(cells[:99], cells[1:])
    assert cells.tolist() == list(range(100))
    apart = np.zeros(99, np.int32)
    shift_in_one_iteration(np.zeros(99, np.int32), apart)
    assert apart.tolist() == [1] * 99
    halves = np.zeros(100, np.int32)
    shift_in_one_iteration(halves[:50], halves[50:])
    assert halves.tolist() == [0] * 50 + [1] * 50, "neighbours do not overlap"


def test_overlap_of_different_dtypes(device):
    """MEM-4: a byte view of a wider array"""
    cells = np.zeros(4, np.int32)
    read_store_read(cells.view(np.uint8), cells.view(np.uint8), np.zeros(16, np.uint8))
    assert cells.view(np.uint8).tolist() == [10] * 16


# --- Shapes ---


def test_0d_and_zero_size(device):
    """MEM-1, case 32"""
    out = tack.zeros((), tack.i32)
    add_one(tack.full((), 4, tack.i32), out)
    assert out[()] == 5
    for shape in ((0,), (3, 0), (0, 2, 2)):
        add_one(tack.zeros(shape), tack.zeros(shape))


@tack.kernel
def both_ways(a, flat, full):
    for i, j in tack.ndrange(a.shape[0], a.shape[1]):
        flat[i * a.shape[1] + j] = a[i, j]
        full[i, j] = a[i * a.shape[1] + j]


def test_flat_and_full_indices_are_row_major(device):
    """MEM-2; the oracle is NumPy's order"""
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    flat, full = tack.zeros((3, 4), tack.i32), tack.zeros((3, 4), tack.i32)
    both_ways(values, flat, full)
    assert np.array_equal(flat.numpy(), values) and np.array_equal(full.numpy(), values)


@tack.kernel
def far_store(a, base):
    for i in range(4):
        a[base + i] = i + 1


@pytest.mark.parametrize("base", [2**31 - 2, 2**32 - 2])
def test_indices_past_32_bits(device, base):
    """MEM-3: only a few pages of the memory are ever touched"""
    try:
        a = tack.zeros(base + 4, tack.u8)
    except MemoryError:
        pytest.skip("this machine does not lend 4 GiB of address space")
    far_store(a, base)
    assert [a[base + i] for i in range(-1, 4)] == [0, 1, 2, 3, 4]
    assert [a[i] for i in range(4)] == [0, 0, 0, 0], "no index wrapped around"


def test_pixel_values_survive(device):
    """Case 30"""
    image = np.array([0, 127, 128, 200, 254], np.uint8)
    out = np.zeros(5, np.int32)
    add_one(image, out)
    assert out.tolist() == [1, 128, 129, 201, 255]
