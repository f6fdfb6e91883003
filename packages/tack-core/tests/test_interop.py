"""NumPy arguments in place, and DLPack both ways (PAR-*, MEM-1, MEM-3, CALL-1)."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from rigs.far_memory import far_device
from tack.lang.array import MISALIGNED, READ_ONLY
from tack.lang.types import DTYPES
from tack.runtime.interop import wrap_argument, wrap_numpy


def misaligned(values: np.ndarray) -> np.ndarray:
    """The same values in an array that starts one byte into its buffer."""
    raw = np.zeros(values.nbytes + 1, np.uint8)
    result = raw[1:].view(values.dtype).reshape(values.shape)
    result[...] = values
    return result


# --- NumPy in place ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3), (2, 0, 3)], ids=str)
def test_numpy_memory_is_shared(device, dtype, shape):
    values = np.ones(shape, dtype.numpy)
    a = wrap_numpy(values, device)
    assert (a.shape, a.dtype, a.device) == (shape, dtype, device)
    assert a._key & 0xFFFF == dtype.code | len(shape) << 8 and a._nbytes == values.nbytes
    assert not a._key & (READ_ONLY | MISALIGNED)
    a.fill(3)
    assert (values == 3).all()


def test_one_byte_misaligned_imports(device):
    """An argument may start at any byte: it is used in place, and its key says so"""
    values = misaligned(np.array([1, -2, 2**31 - 1], np.int32))
    a = wrap_numpy(values, device)
    assert a._key & MISALIGNED and a._data % 4 == 1
    assert a.numpy().tolist() == [1, -2, 2**31 - 1]
    a[1] = 77
    assert values[1] == 77 and a[1] == 77
    assert a.sum() == 1 + 77 + 2**31 - 1
    assert a.reshape(3, 1)._key & MISALIGNED
    assert not wrap_numpy(misaligned(np.zeros(3, np.uint8)), device)._key & MISALIGNED, "bytes are always aligned"


def test_readonly_numpy_stays_readonly(device):
    values = np.arange(3)
    values.flags.writeable = False
    a = wrap_numpy(values, device)
    assert a._key & READ_ONLY and a.reshape(3, 1)._key & READ_ONLY
    for write in (lambda: a.fill(0), lambda: a.__setitem__(0, 1), lambda: tack.copyto(a, values)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert not np.asarray(a).flags.writeable
    assert a.numpy().flags.writeable and not a.copy()._key & READ_ONLY
    assert repr(a).endswith(", read-only>")


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((3, 4)).T,
        np.zeros(8)[::2],
        np.zeros(8)[::-1],
        np.asfortranarray(np.zeros((2, 3))),
        np.broadcast_to(np.zeros(3), (2, 3)),
        np.zeros((4, 4))[:, :2],
    ],
    ids=["transposed", "every second", "reversed", "fortran", "broadcast", "columns"],
)
def test_strided_arrays_are_refused(device, values):
    """Case 24: never other values"""
    with pytest.raises(ValueError, match=r"np\.ascontiguousarray"):
        wrap_numpy(values, device)
    assert wrap_numpy(np.ascontiguousarray(values), device).shape == values.shape


def test_contiguous_in_spite_of_odd_strides(device):
    """An extent of 1, or no elements at all, has no stride that matters"""
    assert wrap_numpy(np.zeros((4, 3))[:1], device).shape == (1, 3)
    assert wrap_numpy(np.zeros((4, 1, 3)).transpose(1, 0, 2), device).shape == (1, 4, 3)
    assert wrap_numpy(np.zeros((0, 3)).T, device).shape == (3, 0)


def test_foreign_byte_order_is_refused(device):
    values = np.arange(3).astype(np.dtype(np.int32).newbyteorder(">" if np.little_endian else "<"))
    with pytest.raises(ValueError, match=r"a\.astype\(a\.dtype\.newbyteorder\('='\)\)"):
        wrap_numpy(values, device)
    a = wrap_numpy(values.astype(values.dtype.newbyteorder("=")), device)
    assert a.numpy().tolist() == [0, 1, 2]
    assert wrap_numpy(np.zeros(2, ">u1"), device).dtype is tack.u8, "one byte has no order"


@pytest.mark.parametrize(
    "dtype", [bool, np.float16, complex, np.longdouble, "U1", "S2", object, "M8[s]", [("x", "i4")]], ids=str
)
def test_dtypes_that_tack_lacks_are_refused(device, dtype):
    with pytest.raises(TypeError, match="use "):
        wrap_numpy(np.zeros(2, dtype), device)


def test_what_is_no_array(device):
    assert wrap_argument("abc", device) is None and wrap_argument([1], device) is None
    assert wrap_argument(np.zeros(2), device).size == 2


def test_numpy_on_a_device_with_its_own_memory(monkeypatch):
    with far_device(monkeypatch) as far, pytest.raises(ValueError, match=r"tack\.asarray"):
        wrap_argument(np.zeros(2), far)


# --- DLPack ---


class Exporter:
    """A DLPack exporter that is no NumPy array."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        return self.values.__dlpack__(**options)


class FarExporter:
    """One whose memory is a GPU's, and that will not copy it to the host."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **options: object) -> object:
        raise BufferError("the memory is on cuda:0")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3)], ids=str)
def test_dlpack_in_shares(device, dtype, shape):
    values = np.ones(shape, dtype.numpy)
    for exporter in (values, Exporter(values)):
        a = tack.from_dlpack(exporter)
        assert (a.shape, a.dtype, a.device) == (shape, dtype, device) and not a._key & READ_ONLY
        a.fill(5)
        assert (values == 5).all()
        values.fill(1)
    assert wrap_argument(Exporter(values), device)._data == a._data


def test_dlpack_in_is_kept_alive(device):
    a = tack.from_dlpack(Exporter(np.arange(100_000)))
    np.zeros(100_000, int).fill(7)
    assert np.array_equal(a.numpy(), np.arange(100_000))


def test_dlpack_in_readonly(device):
    values = np.arange(3)
    values.flags.writeable = False
    assert tack.from_dlpack(Exporter(values))._key & READ_ONLY


def test_dlpack_in_refusals(device):
    with pytest.raises(TypeError, match="__dlpack__"):
        tack.from_dlpack([1, 2])
    with pytest.raises(ValueError, match=r"np\.ascontiguousarray"):
        tack.from_dlpack(Exporter(np.zeros((2, 3)).T))
    with pytest.raises(TypeError, match="bool"):
        tack.from_dlpack(Exporter(np.zeros(2, bool)))
    with pytest.raises(ValueError, match=r"FarExporter.*cuda:0"):
        tack.from_dlpack(FarExporter())


class Wayward:
    """A DLPack exporter of host memory that hands over whatever it is given, or raises it."""

    def __init__(self, result: object) -> None:
        self.result = result

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: object) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@pytest.mark.parametrize("problem", ["consumed", "no capsule", RuntimeError("sulks"), BufferError("sulks")], ids=repr)
def test_dlpack_exporters_that_do_not_deliver(device, problem):
    """PAR-7: the exporter is named, on both ways in; a capsule can be taken once only."""
    for take in (tack.from_dlpack, lambda x: wrap_argument(x, device)):
        capsule = np.zeros(3).__dlpack__()
        results = {"consumed": capsule, "no capsule": 5}
        exporter = Wayward(results.get(problem, problem) if isinstance(problem, str) else problem)
        if problem == "consumed":
            assert take(exporter).shape == (3,)
        with pytest.raises(ValueError, match="which this Wayward does not hand over"):
            take(exporter)


def test_dlpack_in_is_copied_by_asarray(device):
    values = np.arange(3)
    a = tack.asarray(Exporter(values))
    values.fill(9)
    assert a.numpy().tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dlpack_out_shares(device, dtype):
    a = tack.ones((2, 3), dtype)
    assert a.__dlpack_device__() == (1, 0)
    values = np.from_dlpack(a)
    assert values.dtype == dtype.numpy and values.shape == (2, 3)
    a.fill(4)
    assert (values == 4).all()
    del a
    tack.ones((2, 3), dtype)
    assert (values == 4).all(), "the consumer keeps the memory"


def test_dlpack_out_readonly_and_copy(device):
    values = np.arange(3)
    values.flags.writeable = False
    a = wrap_numpy(values, device)
    assert not np.from_dlpack(a).flags.writeable
    with pytest.raises(BufferError):
        a.__dlpack__()  # the old protocol cannot say that memory is read-only
    copied = np.from_dlpack(tack.arange(3), copy=True)
    assert copied.tolist() == [0, 1, 2]


def test_dlpack_round_trip(device):
    a = tack.arange(4)
    b = tack.from_dlpack(a)
    b[0] = 9
    assert a[0] == 9 and b.device == device


def test_dlpack_out_of_a_device_with_its_own_memory(monkeypatch):
    with far_device(monkeypatch):
        a = tack.zeros(2)
        for hand_over in (a.__dlpack__, a.__dlpack_device__):
            with pytest.raises(BufferError, match=r"numpy\(\)"):
                hand_over()
        with pytest.raises(ValueError, match=r"tack\.asarray"):
            tack.from_dlpack(np.zeros(2))
