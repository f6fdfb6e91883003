"""The native call entry: every form of call has the same answer natively, by the slow path, and without an entry."""

from __future__ import annotations

import copy
import functools
import gc
import math
import weakref

import numpy as np
import pytest

import tack
from call_entry import is_native, needs_cpu
from tack.codegen.call_table import F32_LIMIT
from tack.lang.kernel import _Kernel
from tack.lang.types import DTYPES
from tack.runtime import dispatch
from tack.runtime.dispatch import NATIVE_AFTER
from typing_rig import module

pytestmark = [pytest.mark.usefixtures("entry"), needs_cpu]


def slow(kernel, *args, **kwargs):
    """The same call by the reference path."""
    return _Kernel.__call__(kernel, *args, **kwargs)


def installed(kernel, *args):
    """The kernel, called until the native entry, where there is one, has taken it over."""
    for _ in range(NATIVE_AFTER + 1):
        kernel(*args)
    assert (kernel._entry != 0) is is_native()
    return kernel


@pytest.fixture
def slow_calls(monkeypatch):
    """How many calls reached the slow path since the fixture was made."""
    seen = []
    call = dispatch.KernelState.call

    def counted(state, args, kwargs):
        seen.append(args)
        return call(state, args, kwargs)

    monkeypatch.setattr(dispatch.KernelState, "call", counted)
    return seen


def fresh(text, **names):
    """A kernel of its own, called `k`, whatever other tests have done."""
    return module(text, **names)["k"]


def filling(params, value):
    """A kernel that stores an expression, which may read `i`, to each element of its parameter `out`."""
    return fresh(f"@tack.kernel\ndef k({params}):\n    for i in range(out.size):\n        out[i] = {value}\n")


def result_of():
    """A kernel that returns its scalar argument at its own type."""
    return fresh(
        """
        @tack.kernel
        def k(x, out):
            for i in range(1):
                out[i] = x
            return x
        """
    )


SCALE = """
@tack.kernel
def k(a, out, s):
    for i in range(a.size):
        out[i] = a[i] * s
"""


# --------------------------------------------------------------------------------------------------------- scalars

INTS = [0, 1, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, True, False]
FLOATS = [0.0, -0.0, 1.5, 1e300, -1e300, math.inf, -math.inf, math.nan, 5e-324, F32_LIMIT, float(2**128), 3.4028235e38]
OTHERS = [np.int8(-3), np.uint64(2**64 - 1), np.float32(0.1), tack.u8(300)]


def portable(value, target):
    """Whether a store of the value is within rule INT-3, and a float argument within f32 where it becomes one."""
    if not isinstance(value, float):
        return True
    if target in (np.int64, np.uint64):
        return 0 <= value < 2**31
    return target is np.float64 or not F32_LIMIT <= abs(value) < math.inf


SCALARS = [(v, t) for v in [*INTS, *FLOATS, *OTHERS] for t in (np.int64, np.uint64, np.float32, np.float64)]


@pytest.mark.parametrize(("value", "target"), [pair for pair in SCALARS if portable(*pair)])
def test_scalars_of_every_kind(value, target):
    """PAR-4, CALL-2: natively, by the slow path, and interleaved with calls of other kinds."""
    k = installed(result_of(), 3, np.zeros(1, target))
    expected = np.zeros(1, target)
    wanted = slow(k, value, expected)
    for _ in range(NATIVE_AFTER + 2):
        got = np.zeros(1, target)
        again = k(value, got)
        assert got.tobytes() == expected.tobytes() or (math.isnan(value) and np.isnan(got[0]))
        assert type(again) is type(wanted)
        assert again == wanted or (math.isnan(again) and math.isnan(wanted))
        assert k(3, got) == 3 and got[0] == 3
    if isinstance(value, int) and not isinstance(value, bool):
        assert wanted == value, "the slow path is right, too"


def edges(dtype):
    """Numbers at the ends of a NumPy type, as Python's."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        return sorted({0, 1, 3, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)})
    most = float(np.finfo(dtype).max)
    return [0.0, -0.0, 1.5, most, -most, float(np.finfo(dtype).smallest_subnormal), math.inf, -math.inf, math.nan]


NUMPY_NUMBERS = [(np.dtype(c).type, v) for c in "?bBhHiIlLqQefd" for v in edges(np.dtype(c))]
TYPED_NUMBERS = [(t, v) for t in DTYPES for v in edges(t.numpy)]


@pytest.mark.parametrize(("kind", "value"), [*NUMPY_NUMBERS, *TYPED_NUMBERS])
def test_numbers_with_a_type_are_taken_natively(kind, value, slow_calls):
    """PAR-4: NumPy's scalars are plain numbers, Tack's keep their type; neither costs a call in Python."""
    real = isinstance(value, float)
    target = np.zeros(1, np.float64 if real else np.uint64 if value >= 2**63 else np.int64)
    number, is_taken = kind(value), kind is not np.float16 and (real or value < 2**63)
    k = installed(result_of(), number if is_taken else 0, target)
    slow_calls.clear()
    got = k(number, target)
    assert len(slow_calls) == (not is_native() or not is_taken)
    for found in (got, float(target[0]) if real else int(target[0])):
        assert type(found) is (float if real else int)
        assert np.float64(found).tobytes() == np.float64(value).tobytes() if real else found == value
    assert k(number, target) == slow(k, number, target) or math.isnan(value)


@pytest.mark.parametrize("kind", [np.float32, np.float64, tack.f32, tack.f64])
def test_floats_with_a_type_beside_f32(kind, slow_calls):
    """PAR-4: NumPy's become f32 where no argument is f64, Tack's keep theirs."""
    out, number = np.zeros(1, np.float32), kind(0.1)
    k = installed(result_of(), number, out)
    slow_calls.clear()
    assert k(number, out) == (0.1 if kind is tack.f64 else float(np.float32(0.1)))
    assert out[0] == np.float32(0.1) and len(slow_calls) == (not is_native())


@pytest.mark.parametrize("value", [F32_LIMIT, -F32_LIMIT, 1e300])
def test_floats_beyond_f32(value):
    """PAR-4: f64 beside an f64 array; an error where it would become infinite; infinity itself is fine."""
    k = installed(result_of(), 0.5, np.zeros(1, np.float32))
    out = np.zeros(1, np.float32)
    for call in (k, functools.partial(slow, k)):
        with pytest.raises(ValueError, match="range of f32"):
            call(value, out)
    assert out[0] == 0
    below = math.nextafter(F32_LIMIT, 0)
    assert k(below, out) == out[0] == np.float32(below) < math.inf
    assert k(math.inf, out) == out[0] == math.inf
    wide = np.zeros(1)
    for _ in range(NATIVE_AFTER + 2):
        assert k(value, wide) == wide[0] == value


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**30, None, "x", 1j, np.float16(1) + 1j])
def test_unusable_scalars_are_errors_on_both_paths(value):
    """PAR-7: and the calls after them are right."""
    k = installed(result_of(), 3, np.zeros(1, np.int64))
    out = np.zeros(1, np.int64)
    texts = []
    for call in (k, functools.partial(slow, k)):
        with pytest.raises(TypeError) as caught:
            call(value, out)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert not out.any() and k(5, out) == 5 and out[0] == 5


NARROW = [(t, v) for t in ("i8", "i16", "i32", "i64") for v in (-1, -128, 127)]


@pytest.mark.parametrize(("dtype", "value"), [*NARROW, ("u64", 2**64 - 1), ("u8", 255)])
def test_results_of_every_integer_type(dtype, value):
    """CALL-2: signed results keep their sign, unsigned ones the full range."""
    k = fresh(
        """
        @tack.kernel
        def k(a):
            for i in range(1):
                a[i] = a[i]
            return a[0]
        """
    )
    a = np.array([value], getattr(tack, dtype).numpy)
    installed(k, a)
    assert k(a) == slow(k, a) == value and type(k(a)) is int


def test_results_that_are_floats():
    k = fresh("@tack.kernel\ndef k(a):\n    for i in range(0):\n        pass\n    return a[0] / a[1]\n")
    for dtype in (np.float32, np.float64):
        a = np.array([1, 3], dtype)
        installed(k, a)
        assert k(a) == slow(k, a) == float(a[0] / a[1])
        a[1] = 0
        assert k(a) == math.inf
        a[0] = 0
        assert math.isnan(k(a))


# ---------------------------------------------------------------------------------------------------------- arrays


def readonly(a):
    a.flags.writeable = False
    return a


def misaligned(a):
    raw = np.zeros(a.nbytes + 1, np.uint8)
    raw[1:] = a.view(np.uint8).ravel()
    return raw[1:].view(a.dtype).reshape(a.shape)


BASE = np.arange(24, dtype=np.float32).reshape(4, 6)
USABLE = {
    "ndarray": BASE.copy,
    "tack.Array": lambda: tack.asarray(BASE),
    "read-only": lambda: readonly(BASE.copy()),
    "misaligned": lambda: misaligned(BASE),
    "rank 1": lambda: BASE.copy().ravel(),
    "rank 4": lambda: BASE.reshape(2, 2, 3, 2).copy(),
    "empty": lambda: np.zeros((3, 0), np.float32),
    "0-d": lambda: np.array(3, np.float32),
    "i8": lambda: BASE.astype(np.int8),
    "u16": lambda: BASE.astype(np.uint16),
    "i64": lambda: BASE.astype(np.int64),
    "f64": lambda: BASE.astype(np.float64),
    "subclass": lambda: BASE.view(np.ma.MaskedArray).view(np.recarray).view(np.ndarray),
}
REFUSED = {
    "strided": lambda: BASE[:, ::2],
    "transposed": lambda: BASE.T,
    "reversed": lambda: BASE.ravel()[::-1],
    "foreign": lambda: BASE.astype(BASE.dtype.newbyteorder()),
    "f16": lambda: BASE.astype(np.float16),
    "bool": lambda: BASE.astype(bool),
    "complex": lambda: BASE.astype(np.complex64),
    "datetime": lambda: np.zeros(3, "M8[s]"),
    "object": lambda: np.zeros(3, object),
    "structured": lambda: np.zeros(3, "i4,i4"),
    "list": lambda: [1.0],
}


@pytest.mark.parametrize("name", USABLE)
def test_arrays_that_are_usable(name):
    """PAR-4, PAR-6: as an input, on either path, values in row-major order."""
    k = installed(fresh(SCALE), BASE.copy(), np.zeros(24, np.float32), 2.0)
    for _ in range(NATIVE_AFTER + 2):
        a = USABLE[name]()
        values = a.numpy() if isinstance(a, tack.Array) else a
        for call in (k, functools.partial(slow, k)):
            out = np.zeros(max(1, values.size), np.float64)
            call(a, out, 2.0)
            assert out[: values.size].tolist() == [2.0 * v for v in values.ravel().tolist()]


@pytest.mark.parametrize("name", REFUSED)
def test_arrays_that_are_not_usable(name):
    """PAR-6, PAR-7: the same error on either path, nothing written."""
    k = installed(fresh(SCALE), BASE.copy(), np.zeros(24, np.float32), 2.0)
    out = np.zeros(24, np.float32)
    texts = []
    for call in (k, functools.partial(slow, k)):
        with pytest.raises((TypeError, ValueError)) as caught:
            call(REFUSED[name](), out, 2.0)
        texts.append(str(caught.value))
    assert texts[0] == texts[1] and "parameter `a`" in texts[0]
    assert not out.any()


def test_a_read_only_output_is_refused_natively_too():
    """PAR-6: also where the same array was writable a moment ago."""
    k = fresh(SCALE)
    a, out = BASE.copy(), np.zeros(24, np.float32)
    installed(k, a, out, 2.0)
    out.flags.writeable = False
    before = out.copy()
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            k(a, out, 3.0)
    assert np.array_equal(out, before)
    out.flags.writeable = True
    k(a, out, 3.0)
    assert out.tolist() == (3 * BASE.ravel()).tolist()


def test_an_array_that_is_reshaped_between_calls():
    """SPEC-3: extents are read at each call; the rank is in the key."""
    k = filling("a, out", "a.shape[0] * 100 + a.ndim")
    a, out = np.zeros((4, 6), np.float32), np.zeros(1, np.int32)
    installed(k, a, out)
    for shape in [(4, 6), (6, 4), (2, 12), (24,), (2, 3, 4), (24, 1)]:
        view = a.reshape(shape)
        k(view, out)
        assert out[0] == shape[0] * 100 + len(shape)


# ------------------------------------------------------------------------------------------------------- overlapping

# Each iteration reads a[0], stores to b, reads a[0] again: where no alias is wrongly promised the second read is stale.
WITNESS = """
@tack.kernel
def k(a, b, seen):
    for i in range(1):
        for j in range(b.shape[0]):
            b[j] = a[j] + 1
        seen[0] = a[a.shape[0] - 1]
"""


def test_overlap_and_no_overlap_by_turns():
    """MEM-4, MEM-5: the answer is part of the key of the native row."""
    k = fresh(WITNESS)
    seen = np.zeros(1, np.int32)
    cells, apart = np.zeros(65, np.int32), np.zeros(64, np.int32)
    for _ in range(3 * NATIVE_AFTER):
        cells[:] = 0
        k(cells[:64], cells[1:], seen)  # a chain: each element is one more than the one before
        assert cells.tolist() == list(range(65)) and seen[0] == 63
        cells[:] = 0
        k(cells[:64], apart, seen)
        assert apart.tolist() == [1] * 64 and seen[0] == 0
        cells[:] = 0
        k(cells[:32], cells[32:64], seen)  # neighbours do not overlap
        assert cells[:64].tolist() == [0] * 32 + [1] * 32
        cells[:] = 0
        k(cells, cells[:0], seen)  # an empty array overlaps nothing
        assert not cells.any()
    assert (k._entry != 0) is is_native()


def test_a_scalar_in_the_place_of_an_array_is_no_overlap(slow_calls):
    """A scalar's bits are not an address, even where they would lie inside the written array."""
    k = fresh("@tack.kernel\ndef k(out, s):\n    for i in range(out.size):\n        out[i] = s\n")
    out = np.zeros(1000, np.int64)
    installed(k, out, out.ctypes.data)  # an address: a key of its width
    slow_calls.clear()
    k(out, out.ctypes.data + 8)
    assert out[3] == out.ctypes.data + 8 and len(slow_calls) == (not is_native())


# ------------------------------------------------------------------------------------------------------- signatures


def test_more_signatures_than_rows():
    """SPEC-2: ten dtypes by turns, twice each the number of rows."""
    k = filling("a, out", "a[i] + a[0]")
    for round_ in range(NATIVE_AFTER + 3):
        for dtype in DTYPES:
            a, out = np.arange(round_, round_ + 3).astype(dtype.numpy), np.zeros(3, np.float64)
            k(a, out)
            assert out.tolist() == [2 * round_ + v for v in (0, 1, 2)], dtype
    assert (k._entry != 0) is is_native()


def test_pinned_parameters():
    """PAR-2: the entry takes what fits without a conversion; the rest is the slow path's."""
    k = filling("out, n: tack.i64, x: tack.f64, b: tack.u8", "n + x + b")
    wide = filling("out, n: tack.i64, x: tack.f64", "x + n")
    out = np.zeros(1)
    installed(wide, out, 1, 0.5)
    for n in (0, 2**31, -(2**62), True, np.int16(-3)):
        for x in (0.1, 1e300, 1, np.float32(0.1), False):
            for _ in range(2):
                wide(out, n, x)
                assert out[0] == float(x) + float(n)
                k(out, n, x, 255)
                assert out[0] == float(n) + float(x) + 255
    for bad in (2**63, 1.5, "x", np.zeros(3)):
        with pytest.raises((TypeError, ValueError), match="parameter `n`"):
            wide(out, bad, 0.5)
    with pytest.raises(ValueError, match="parameter `b`"):
        k(out, 1, 0.5, 256)


def test_many_parameters():
    """Kernels with more parameters than the frame holds keep the slow path."""
    for count in (31, 32, 33, 40):
        names = [f"p{i}" for i in range(count - 1)]
        k = filling(f"out, {', '.join(names)}", " + ".join(names))
        out = np.zeros(1, np.int64)
        for n in range(NATIVE_AFTER + 2):
            k(out, *range(n, n + count - 1))
            assert out[0] == sum(range(n, n + count - 1))
        assert (k._entry != 0) is (is_native() and count <= 32)


# -------------------------------------------------------------------------------------------------- forms of calls


def test_forms_of_calls():
    """PAR-1: keywords, defaults, `*args`, partial, map, after the entry was installed."""
    k = filling("a, out, s=2.0, *, t=1", "a[i] * s + t")
    a, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    for _ in range(NATIVE_AFTER + 1):
        k(a, out, 2.0)
    plain = installed(fresh(SCALE), a, out, 2.0)
    forms = [
        (lambda: k(a, out), 2, 1),
        (lambda: k(a, out, 3.0), 3, 1),
        (lambda: k(a, out, t=5), 2, 5),
        (lambda: k(out=out, a=a, s=4), 4, 1),
        (lambda: k(*(a, out), **{"s": 7, "t": 0}), 7, 0),
        (lambda: functools.partial(k, a, s=3)(out), 3, 1),
        (lambda: list(map(k, [a], [out])), 2, 1),
        (lambda: plain(a, out, 6.0), 6, 0),
        (lambda: plain(a, out, s=8.0), 8, 0),
        (lambda: plain(s=9.0, out=out, a=a), 9, 0),
        (lambda: plain.__call__(a, out, 3.0), 3, 0),
        (lambda: functools.partial(plain, a, out)(4.0), 4, 0),
        (lambda: list(map(plain, [a] * 3, [out] * 3, [1.0, 2.0, 5.0])), 5, 0),
        (lambda: type(plain).__call__(plain, a, out, 11.0), 11, 0),
    ]
    for form, s, t in forms * 2:
        out[:] = -1
        form()
        assert out.tolist() == [0 * s + t, 1 * s + t, 2 * s + t]


def test_keywords_and_defaults_are_taken_natively(slow_calls):
    """PAR-1: in any order, after any number by position; keywords that are not interned are found by Python."""
    k = filling("out, /, x, y=20, *, z=300, w", "out.size * 0 + x + y + z + w")
    out = np.zeros(2, np.int64)
    calls = [
        (lambda: k(out, 1, 2, z=3, w=4), 10),
        (lambda: k(out, 1, w=4), 325),
        (lambda: k(out, w=4, x=1), 325),
        (lambda: k(out, y=2, z=3, w=4, x=1), 10),
        (lambda: k(out, **{"w": 5}, x=1, y=-1), 305),
    ]
    for call, _ in calls * (NATIVE_AFTER + 2):
        call()
    slow_calls.clear()
    for call, expected in calls:
        call()
        assert out.tolist() == [expected] * 2
    assert len(slow_calls) == (0 if is_native() else len(calls))
    slow_calls.clear()
    k(out, 1, **{"".join(["w", ""]).encode().decode(): 7, "".join("zz"[:1]): 1})
    assert out.tolist() == [1 + 20 + 1 + 7] * 2


def test_wrong_keywords_after_the_entry_is_installed():
    """PAR-1: what is by position only, by keyword only, given twice, or missing."""
    k = filling("out, /, x, y=20, *, z=300, w", "x + y + z + w")
    out = np.zeros(2, np.int64)
    for _ in range(NATIVE_AFTER + 2):
        k(out, 1, 2, z=3, w=4)
    out[:] = 0
    wrong = [
        (lambda: k(out, 1, 2, 3, 4), "5 positional arguments were given; it takes 3"),
        (lambda: k(out, 1, 2, 3, w=4), "4 positional arguments were given; it takes 3"),
        (lambda: k(out, 1), "nothing was given for `w`"),
        (lambda: k(out, w=1), "nothing was given for `x`"),
        (lambda: k(out, 1, x=1, w=1), "two values were given for `x`"),
        (lambda: k(out=out, x=1, w=1), "`out` is given by position only"),
        (lambda: k(out, 1, w=1, v=1), "no parameter `v`"),
        (lambda: k(), "nothing was given for `out`, `x`, `w`"),
    ]
    for call, text in wrong * 2:
        with pytest.raises(TypeError, match=text):
            call()
    assert not out.any()


def test_wrong_calls_after_the_entry_is_installed():
    """PAR-1: the slow path explains, natively missed."""
    a, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    k = installed(fresh(SCALE), a, out, 2.0)
    out[:] = 0
    wrong = [
        (lambda: k(), "nothing was given for `a`, `out`, `s`"),
        (lambda: k(a, out), "nothing was given for `s`"),
        (lambda: k(a, out, 1.0, 2.0), "4 positional"),
        (lambda: k(a, out, 1.0, s=2.0), "two values were given for `s`"),
        (lambda: k(a, out, z=2.0), "no parameter `z`"),
    ]
    for call, text in wrong * 2:
        with pytest.raises(TypeError, match=text):
            call()
    assert not out.any()


def test_a_failing_status_raises_and_nothing_runs():
    """LOOP-8, LOOP-12: bounds that do not fit are refused before anything runs, natively as well."""
    k = fresh("@tack.kernel\ndef k(out, n, d):\n    for i in range(n * n * n // d):\n        out[i] = 1\n")
    out = np.zeros(8, np.int32)
    installed(k, out, 2, 1)
    out[:] = 0
    for _ in range(3):
        with pytest.raises(ValueError, match=r"64"):
            k(out, 2**31 - 1, 1)
        with pytest.raises((ValueError, ZeroDivisionError), match=r"zero"):
            k(out, 2, 0)
    assert not out.any()
    k(out, 2, 1)
    assert out.all()


def test_kernels_in_classes_weakrefs_and_collection():
    """SPEC-4: a kernel is an ordinary object; when it is collected its code goes with it."""
    k = installed(fresh(SCALE), np.ones(3, np.float32), np.zeros(3, np.float32), 2.0)

    class Holder:
        run = staticmethod(k)  # without it, an instance would be bound as the first argument

    out = np.zeros(3, np.float32)
    Holder().run(np.ones(3, np.float32), out, 5.0)
    assert out.tolist() == [5.0] * 3
    assert copy.copy([k])[0] is k
    tracker = next(iter(k._state.lowerings[0].rows.values())).executable._library.tracker
    refs = [weakref.ref(k), weakref.ref(tracker)]
    del k, Holder, tracker
    gc.collect()
    assert [ref() for ref in refs] == [None, None]
