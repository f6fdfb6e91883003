"""Calls from the outside: binding, captured values, results, threads, fork, and what compiles again."""

from __future__ import annotations

import gc
import io
import math
import os
import subprocess
import sys
import threading
import types
import weakref
from contextlib import redirect_stdout

import numpy as np
import pytest

import tack
from numeric_oracles import FLOAT_NAMES, INTEGERS, a_dtype, limits
from tack.lang.names import Capture, value_key
from tack.runtime import compilation, dispatch
from tack.runtime.dispatch import NATIVE_AFTER
from tack.runtime.lowering import Lowering, Outline
from typing_rig import module

STORE = "@tack.kernel\ndef k({}):\n    for i in range(out.size):\n        out[i] = {}\n"


def storing(params, value, **names):
    return module(STORE.format(params, value), **names)["k"]


@pytest.fixture
def compiled(device, monkeypatch, uncached):
    """The compilations of this test, one entry each."""
    seen = []
    backend = type(device.backend)
    compile_ = backend.compile
    monkeypatch.setattr(backend, "compile", lambda self, *args: seen.append(args) or compile_(self, *args))
    return seen


# ----------------------------------------------------------------------------------------------------- parameters


def test_keywords_and_defaults(device):
    """PAR-1: as in Python, which is the oracle."""
    k = storing("out, a, b=10, *, c=100, d=1000", "a + b + c + d")
    python = lambda a, b=10, *, c=100, d=1000: a + b + c + d  # noqa: E731
    calls = [((1,), {}), ((1, 2), {}), ((1,), {"b": 3}), ((), {"a": 1, "d": 0}), ((1, 2), {"c": 3, "d": 4})]
    for args, kwargs in calls * 2:
        out = np.zeros(1, np.int64)
        k(out, *args, **kwargs)
        assert out[0] == python(*args, **kwargs)
    for args, kwargs in [((), {}), ((1, 2, 3), {}), ((1,), {"a": 1}), ((1,), {"z": 1})]:
        with pytest.raises(TypeError):
            python(*args, **kwargs)
        with pytest.raises(TypeError, match=r":3:\d+: in kernel `k`|:2:\d+: in kernel `k`"):
            k(out, *args, **kwargs)


def test_defaults_are_those_of_the_definition(device):
    """PAR-1: evaluated once, as in Python; typed scalars and NumPy scalars keep their kind."""
    k = module("N = 5\n" + STORE.format("out, n=N, m=tack.u8(300), x=0.5", "n + m + x"))["k"]
    out = np.zeros(1)
    k(out)
    assert out[0] == 5 + 44 + 0.5


@pytest.mark.parametrize("name", [*INTEGERS, *FLOAT_NAMES])
def test_annotations_that_are_dtypes_pin(device, name):
    """PAR-2: the value converts to the dtype, and its expressions run at it; others are documentation."""
    k = storing(f"out, n: tack.{name}", "n + n")
    out = np.zeros(1)
    if name in INTEGERS:
        high = limits(name)[1]
        k(out, high)
        assert out[0] == float(-2 if limits(name)[0] < 0 else high - 1)  # the sum wraps at the pinned type
        with pytest.raises(ValueError, match="`n`"):
            k(out, high + 1)
    else:
        k(out, 0.1)
        assert out[0] == float(a_dtype(name).type(0.1) + a_dtype(name).type(0.1))
    storing("out: 'anything at all', n: int", "n")(out, 0.5)
    assert out[0] == 0.5


@pytest.mark.parametrize("postponed", [False, True])
@pytest.mark.parametrize("text", ["missing", "missing.i64", "tack.nothing", "1 / 0", "tack.f64 | 'x'", "[][0]"])
def test_annotations_that_cannot_be_evaluated(device, text, postponed):
    """PAR-2: they are documentation where Python lets them stand, and the others pin: at their names, or postponed."""
    future = "from __future__ import annotations\n" * postponed
    program = future + "@tack.kernel\ndef k(out, n: tack.u8, m: " + text + ", p: 'tack.i8' = 1):\n"
    program += "    for i in range(1):\n        out[i] = n + n + m + p\n"
    if not postponed and sys.version_info < (3, 14):
        with pytest.raises((NameError, AttributeError, ArithmeticError, TypeError, LookupError)):
            module(program)
        return
    if text == "missing.i64":  # a dtype by its name, so more than documentation
        with pytest.raises(NameError, match=r"missing\.i64"):
            module(program)["k"](np.zeros(1), 200, 0.5)
        return
    k, out = module(program)["k"], np.zeros(1)
    k(out, 200, 0.5)
    assert out[0] == (200 + 200) % 256 + 0.5 + 1
    with pytest.raises(ValueError, match="`n`"):
        k(out, 256, 0.5)
    with pytest.raises(ValueError, match="`p`"):
        k(out, 1, 0.5, 200)


def test_scalar_parameters_are_locals_of_each_iteration(device):
    """PAR-3: an assignment converts to the parameter's type and is not seen by other iterations or loops."""
    k = module(
        """
        @tack.kernel
        def k(out, n, more):
            for i in range(out.size):
                n = n + i
                n = n + 0.75
                out[i] = n
            for i in range(more.size):
                more[i] = n
        """
    )["k"]
    out, more = np.zeros(5), np.zeros(2)
    k(out, 10, more)
    assert out.tolist() == [10, 11, 12, 13, 14] and more.tolist() == [10, 10]


@pytest.mark.parametrize(
    ("value", "name"),
    [(1, "i32"), (True, "i32"), (2**31, "i64"), (2**63, "u64"), (np.int8(1), "i32"), (np.uint64(1), "i32")]
    + [(getattr(tack, name)(1), name) for name in INTEGERS],
)
def test_types_of_integer_arguments(device, value, name):
    """PAR-4, LIT-1: by the wrap of its square, at the argument's own type."""
    k = storing("out, n", "n * n")
    number = int(value) if not isinstance(value, tack.lang.types.Scalar) else value.value
    out = np.zeros(1, np.uint64 if name[0] == "u" else np.int64)
    k(out, value)
    assert int(out[0]) == getattr(tack, name).wrap(number * number)
    if isinstance(value, tack.lang.types.Scalar):
        top = limits(name)[1]
        k(out, getattr(tack, name)(top))
        assert int(out[0]) == getattr(tack, name).wrap(top * top)


def test_types_of_float_arguments(device):
    """PAR-4, TYPE-10: f32, or f64 if any array argument is f64."""
    for a, want in [(np.ones(1, np.float32), float(np.float32(0.1))), (np.ones(1), 0.1), (np.ones(1, np.int64), None)]:
        out = np.zeros(1, np.float64)
        k = storing("a, out, s", "s")
        k(a, out, 0.1)
        assert out[0] == 0.1  # the f64 array `out` makes it f64
        if want is not None:
            narrow = np.zeros(1, a.dtype)
            storing("a, out, s", "a[i] * s")(a, narrow, np.float64(0.1))
            assert narrow[0] == a.dtype.type(want)


def test_host_scalars_wrap(device):
    """PAR-5."""
    out = np.zeros(1, np.int64)
    storing("out, n", "n")(out, tack.u8(300))
    assert out[0] == 44
    assert [int(tack.i8(200)), int(tack.u64(-1)), int(tack.i32(-2.7))] == [-56, 2**64 - 1, -2]


def test_unusable_arguments_are_refused_before_anything_is_written(device):
    """PAR-6, PAR-7."""
    k = storing("a, out", "a[i]")
    for bad in (
        "x",
        None,
        [1],
        {},
        1j,
        np.zeros(3, np.float16),
        np.zeros((4, 4))[:, :2],
        np.zeros(3, ">i4"),
        object(),
    ):
        out = np.full(3, 7.0)
        with pytest.raises((TypeError, ValueError), match="`a`"):
            k(bad, out)
        assert out.tolist() == [7.0] * 3


# ------------------------------------------------------------------------------------------------ captured values


def test_equal_looking_captured_numbers(device):
    """CAP-7: 1, 1.0, True, 0.0, -0.0 and NaN are distinct, and each keeps its type and sign."""
    space = module("N = 1\n" + STORE.format("out", "N // 2 if i == 0 else math.copysign(1.0, N)"), math=math)
    k = space["k"]
    wants = [(1, 1.0), (1.0, 1.0), (0.0, 1.0), (-0.0, -1.0), (True, 1.0), (math.nan, 1.0), (-0.0, -1.0), (0.0, 1.0)]
    for value, sign in wants * 2:
        space["N"] = value
        out = np.zeros(2)
        k(out)
        assert out[1] == sign, value
    halves = module("N = 1\n" + STORE.format("out", "N / 2 + N % 2"))
    for value, want in [(3, 2.5), (3.5, 3.25), (True, 1.5), (3, 2.5)]:
        halves["N"] = value
        out = np.zeros(1)
        halves["k"](out)
        assert out[0] == want


def test_nan_equals_itself(compiled):
    """CAP-7: rebinding NaN to NaN compiles nothing."""
    space = module("N = 0.0\n" + STORE.format("out", "N"))
    for value in (math.nan, float("nan"), -math.nan, np.nan):
        space["N"] = value
        space["k"](np.zeros(1))
    assert len(compiled) == 1


def test_rebinding_compiles_once_a_value(compiled):
    """CAP-5, SPEC-1: values that return find their variant again."""
    space = module("N = 0\n" + STORE.format("out", "N"))
    for value in [1, 2, 3] * 5:
        space["N"] = value
        out = np.zeros(1)
        space["k"](out)
        assert out[0] == value
    assert len(compiled) == 3


def test_a_name_that_another_thread_rebinds_while_it_is_compared():
    """CAP-5: the object that a lowering adopts is the one whose key was compared, not one that came a moment later."""

    class Flipping:
        def __init__(self):
            self.values = [int("1000"), 2000]

        def get(self, name):
            return self.values.pop(0)

    capture = Capture(Flipping(), "N", int("1000"), value_key(1000))
    lowering = Lowering(None, (capture,), Outline((), ()), None)
    assert lowering.matches()
    assert lowering.captures[0].value == 1000


def test_a_callee_capture_that_is_rebound_while_a_variant_is_built(device, monkeypatch):
    """CAP-5, SPEC-1: the code of the other value is not kept under this one, nor taken by the native entry."""
    space = module("N = 1\n@tack.func\ndef f(x):\n    return x + N\n" + STORE.format("out", "f(10)"))
    build = compilation.type_kernel

    def rebinding(*args):
        space["N"] = 2
        return build(*args)

    monkeypatch.setattr(compilation, "type_kernel", rebinding)
    monkeypatch.setattr(dispatch, "NATIVE_AFTER", 1)
    out = np.zeros(1)
    space["k"](out)
    monkeypatch.undo()
    for value in (1, 2, 1):
        space["N"] = value
        for _ in range(NATIVE_AFTER + 2):
            space["k"](out)
            assert out[0] == 10 + value


def test_typed_constants(device):
    """CAP-8: with a dtype, exactly that type and no weak literal; without, a literal."""
    names = {"NARROW": tack.constant(0.1, tack.f32), "WEAK": tack.constant(0.1), "BYTE": tack.constant(200, tack.u8)}
    out = np.zeros(3)
    storing("out", "NARROW if i == 0 else (0.0 + WEAK)", **names)(out)
    assert out[0] == float(np.float32(0.1))
    storing("out", "WEAK", **names)(out)
    assert out[0] == 0.1
    storing("out", "BYTE + BYTE", **names)(out)
    assert out[0] == 400 - 256


def test_modules_closures_and_builtins(device):
    """CAP-3: resolution as in Python."""
    settings = types.ModuleType("settings")
    settings.LIMIT, settings.inner = 7, types.ModuleType("inner")
    settings.inner.DEEP = 8.5
    space = module(
        """
        N = 1
        def outer():
            N = 2
            def middle():
                @tack.kernel
                def k(out):
                    for i in range(out.size):
                        out[i] = N * 1000 + settings.LIMIT * 100 + settings.inner.DEEP + M
                return k
            return middle()
        M = 0.25
        """,
        settings=settings,
    )
    k, out = space["outer"](), np.zeros(1)
    k(out)
    assert out[0] == 2000 + 700 + 8.5 + 0.25
    settings.inner.DEEP, settings.LIMIT, space["M"], space["N"] = 1, 2, 3, 99
    k(out)
    assert out[0] == 2000 + 200 + 1 + 3


def test_what_cannot_be_captured_and_what_is_unbound(device):
    """CAP-9, CAP-10: also inside a callee; the call after the name is bound works."""
    array = np.ones(3)
    with pytest.raises(TypeError, match=r"(?s)`ARRAY`.*argument"):
        storing("out", "ARRAY[i]", ARRAY=array)(np.zeros(3))
    space = module("@tack.func\ndef f(x):\n    return x + LATE\n" + STORE.format("out", "f(1)"))
    out = np.zeros(1)
    with pytest.raises(NameError, match=r"(?s):3:16: in device function `f`: name `LATE`.*called at .*in kernel `k`"):
        space["k"](out)
    space["LATE"] = 4
    space["k"](out)
    assert out[0] == 5


def test_rebinding_device_functions(device):
    """CAP-11, SPEC-2: at any depth, also of the function that a captured module holds."""
    helpers = types.ModuleType("helpers")
    space = module(
        """
        @tack.func
        def one(x):
            return x + 1
        @tack.func
        def two(x):
            return x + 2
        @tack.func
        def middle(x):
            return leaf(x) * 10 + helpers.f(x)
        leaf = one
        @tack.kernel
        def k(out):
            for i in range(out.size):
                out[i] = middle(0)
        """,
        helpers=helpers,
    )
    helpers.f = space["one"]
    out = np.zeros(1)
    for leaf, other, want in [("one", "one", 11), ("two", "one", 21), ("one", "two", 12), ("one", "one", 11)]:
        space["leaf"], helpers.f = space[leaf], space[other]
        for _ in range(12):
            space["k"](out)
            assert out[0] == want


# ---------------------------------------------------------------------------------------- sources, results, asserts


def test_decoration_only_parses(compiled):
    """SRC-3: mistakes appear at the first call, or at `tack.inspect`."""
    space = module("@tack.kernel\ndef k(out):\n    for i in range(3):\n        out[i] = [v for v in missing]\n")
    assert not compiled
    for _ in range(2):
        with pytest.raises(tack.UnsupportedSyntaxError):
            space["k"](np.zeros(3))
    assert not compiled


def test_assert_is_dropped_but_checked(device):
    """SYN-5: the condition is not evaluated; its syntax and names are checked."""
    k = module(
        """
        @tack.kernel
        def k(out, cell):
            for i in range(out.size):
                assert tack.atomic_add(cell, 0, 1) < 0, "never"
                assert out[i] > 100
                out[i] = 5
        """
    )["k"]
    out, cell = np.zeros(3), np.zeros(1, np.int32)
    k(out, cell)
    assert out.tolist() == [5] * 3 and cell[0] == 0
    for condition, kind in [("missing > 1", NameError), ("(lambda: 1)", tack.UnsupportedSyntaxError)]:
        with pytest.raises(kind):
            module(f"@tack.kernel\ndef k(out):\n    for i in range(3):\n        assert {condition}\n")["k"](out)


@pytest.mark.parametrize("name", [*INTEGERS, *FLOAT_NAMES])
def test_trailing_results(device, name):
    """CALL-2: a Python number of every dtype, computed once, after the last loop."""
    k = module(
        """
        @tack.kernel
        def k(a):
            for i in range(a.size):
                a[i] = a[i]
            for i in range(a.size):
                a[i] = a[a.size - 1]
            return a[0]
        """
    )["k"]
    values = [*limits(name)] if name in INTEGERS else [0.1, -math.inf, 1e30, -0.0]
    for value in values:
        a = np.zeros(1, a_dtype(name))
        a[0] = value
        result = k(a)
        assert type(result) is (int if name in INTEGERS else float)
        assert result == float(a[0]) if name in FLOAT_NAMES else result == value
    assert module("@tack.kernel\ndef k(a):\n    for i in range(1):\n        a[i] = 1\n")["k"](np.zeros(1)) is None


def test_a_result_has_no_effect_of_its_own_and_sees_the_loops(device):
    """CALL-2."""
    k = module(
        """
        @tack.kernel
        def k(a, n):
            for i in range(n):
                tack.atomic_add(a, 0, 1)
            return a[0] * 10 + n
        """
    )["k"]
    a = np.zeros(1, np.int64)
    assert [k(a, n) for n in (0, 3, 4)] == [0, 33, 74]


def test_calls_are_in_order_and_reads_see_them(device):
    """CALL-1: `numpy()`, an element, a reduction and DLPack see every call before."""
    k = storing("out, s", "out[i] + s")
    a = tack.zeros(10, tack.f64)
    for n in range(5):
        k(a, 1.0)
        assert a.numpy()[3] == a[3] == n + 1 and a.sum() == 10 * (n + 1)
    assert np.from_dlpack(a)[0] == 5
    tack.synchronize()


def test_atomics_of_every_dtype(device):
    """ATOM-5: the CPU and the reference device have them all; neighbours stay; misaligned cells are refused."""
    for name in [*INTEGERS, *FLOAT_NAMES]:
        assert device.supports(f"atomic_{name}")
        for op in ("add", "sub", "min", "max", "exchange"):
            k = module(f"@tack.kernel\ndef k(c):\n    for i in range(10):\n        tack.atomic_{op}(c, 1, 2)\n")["k"]
            cells = np.full(3, 30, a_dtype(name))
            k(cells)
            want = {"add": 50, "sub": 10, "min": 2, "max": 30, "exchange": 2}[op]
            assert cells.tolist() == [30, want, 30], (name, op)
        if a_dtype(name).itemsize > 1:
            raw = np.zeros(33, np.uint8)[1:].view(a_dtype(name))
            with pytest.raises(ValueError, match="aligned"):
                module("@tack.kernel\ndef k(c):\n    for i in range(10):\n        tack.atomic_add(c, 1, 2)\n")["k"](raw)
            assert not raw.any()


def test_printing(device):
    """SYN-4: where and as often as its iteration reaches it."""
    k = module(
        """
        @tack.kernel
        def k(a):
            for i in range(a.size):
                if a[i] > 1:
                    print("large", a[i], i)
        """
    )["k"]
    text = io.StringIO()
    with redirect_stdout(text):
        for _ in range(10):
            k(np.array([1, 2, 3]))
    assert sorted(text.getvalue().splitlines()) == sorted(["large 2 1", "large 3 2"] * 10)


# ------------------------------------------------------------------------------------------------ threads and fork


def test_threads_with_arguments_of_their_own(device):
    """CALL-3: eight threads, several signatures, one kernel."""
    k, errors = storing("a, out, s", "a[i] * s"), []

    def work(n):
        try:
            with device:
                dtype = (np.float32, np.float64, np.int32, np.int64)[n % 4]
                a, out = np.full(50, n, dtype), np.zeros(50)
                for r in range(30):
                    k(a, out, r)
                    assert (out == n * r).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_threads_race_on_a_first_call(compiled, device):
    """SPEC-5: one compilation, eight right answers."""
    k, barrier, wrong = storing("out, s", "s"), threading.Barrier(8), []

    def work(n):
        out = np.zeros(4)
        with device:
            barrier.wait(30)
            k(out, n)
        if (out != n).any():
            wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(compiled) == 1


FORK = """
import os, sys, numpy as np, tack
@tack.kernel
def k(a, out, s):
    for i in range(a.size):
        out[i] = a[i] * s
a, out = np.ones(300_000), np.zeros(300_000)
for _ in range(12):
    k(a, out, 2.0)
child = os.fork()
if child == 0:
    k(a, out, 5.0)                      # a variant of the parent's
    fine = (out == 5).all()
    b = np.ones(1000, np.int32)
    k(b, out[:1000], 3)                 # a variant of its own
    os._exit(0 if fine and (out[:1000] == 3).all() else 1)
_, status = os.waitpid(child, 0)
k(a, out, 7.0)
assert (out == 7).all()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_fork_after_use(device, tmp_path):
    """CALL-4: the child computes, with variants of its parent and its own, and the parent goes on."""
    if device.name != "cpu":
        pytest.skip("only the CPU device has threads of its own")
    script = tmp_path / "forks.py"
    script.write_text(FORK)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


# -------------------------------------------------------------------------------------------------- specialization


def test_what_compiles_again(compiled, device):
    """SPEC-2, SPEC-3, LOOP-9: dtypes, ranks and kinds of scalars do; extents, values, contents and addresses do not."""
    k = storing("a, out, s", "a[i] + s")
    for n in (1, 2, 17, 1000, 0):
        for s in (1, -5, 2**31 - 1):
            k(np.full(n, s % 7), np.zeros(n), s)
    assert len(compiled) == 1
    for count, (a, s) in enumerate(
        [
            (np.ones(4, np.float32), 1),
            (np.ones(4, np.int8), 1),
            (np.ones((2, 2), np.int8), 1),
            (np.ones(4, np.int8), 2**40),
            (np.ones(4, np.int8), 0.5),
            (np.ones(4, np.int8), tack.u8(1)),
            (np.ones(4, np.int8), tack.u16(1)),
        ],
        start=2,
    ):
        for _ in range(2):
            k(a, np.zeros(4), s)
        assert len(compiled) == count


def test_collected_kernels_release_their_code(device):
    """SPEC-4: kernel, state and variants go; a kernel that captures itself by name too."""
    space = module(STORE.format("out", "1"))
    for _ in range(12):
        space["k"](np.zeros(3))
    k = space["k"]
    refs = [weakref.ref(k)]
    libraries = [getattr(v.executable, "_library", None) for v in k._state.lowerings[0].rows.values()]
    refs += [weakref.ref(library.tracker) for library in libraries if library]
    del k, space["k"], libraries
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)
