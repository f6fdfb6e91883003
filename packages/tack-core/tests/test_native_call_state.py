"""The native call entry beside what changes: captured values, devices, references, memory, threads."""

from __future__ import annotations

import contextvars
import gc
import math
import sys
import threading

import numpy as np
import pytest

import tack
from call_entry import is_native, needs_cpu
from tack.runtime import dispatch
from test_native_call import SCALE, fresh, installed
from typing_rig import module

pytestmark = [pytest.mark.usefixtures("entry"), needs_cpu]


# ------------------------------------------------------------------------------------------------- captured values


def test_captured_values_changed_deleted_and_restored():
    """CAP-5, CAP-10, SPEC-1: the guards of the native entry."""
    space = module("N = 7\n@tack.kernel\ndef k(out):\n    for i in range(1):\n        out[i] = N\n")
    k, out = space["k"], np.zeros(1, np.float64)
    seven = space["N"]
    installed(k, out)
    for value, wanted in [(8, 8), (8.5, 8.5), (True, 1), (seven, 7), (-0.0, 0.0), (math.nan, math.nan), (7, 7)]:
        space["N"] = value
        for _ in range(2):
            k(out)
            assert out[0] == wanted or (math.isnan(wanted) and math.isnan(out[0]))
    del space["N"]
    for _ in range(2):
        with pytest.raises(NameError, match="`N`"):
            k(out)
    space["N"] = seven
    k(out)
    assert out[0] == 7


def test_captured_cells_modules_and_functions_change():
    """CAP-5, CAP-6, CAP-11: a closure's cell, a module's attribute, a device function two levels down."""
    import types

    settings = types.ModuleType("settings")
    settings.LIMIT = 1
    space = module(
        """
        def make(n):
            def change(value):
                nonlocal n
                n = value
            @tack.func
            def leaf(x):
                return x * n + settings.LIMIT
            @tack.func
            def middle(x):
                return leaf(x)
            @tack.kernel
            def k(a, out):
                for i in range(1):
                    out[i] = middle(a[i])
            return k, change
        """,
        settings=settings,
    )
    (k, change), (other, _) = space["make"](2), space["make"](3)
    a, out = np.array([10]), np.zeros(1, int)
    for kernel, n in [(k, 2), (other, 3)]:
        installed(kernel, a, out)
        assert out[0] == 10 * n + 1
    for n, limit in [(5, 1), (5, 100), (2, 1), (2.5, 1)]:
        change(n)
        settings.LIMIT = limit
        k(a, out)
        assert out[0] == int(10 * n + limit)
    other(a, out)
    assert out[0] == 31
    del settings.LIMIT
    with pytest.raises(NameError, match="LIMIT"):
        k(a, out)


def test_a_builtin_that_is_shadowed_later():
    """CAP-3: a module's name goes before the builtin the row was compiled for."""
    space = module("@tack.kernel\ndef k(a, out):\n    for i in range(1):\n        out[i] = max(a[i], 3)\n")
    a, out = np.array([10]), np.zeros(1, int)
    installed(space["k"], a, out)
    space["max"] = min
    space["k"](a, out)
    assert out[0] == 3
    del space["max"]
    space["k"](a, out)
    assert out[0] == 10


def test_code_that_was_dropped_is_never_called():
    """SPEC-1: values that return after their lowering was dropped are compiled again; no row keeps freed code."""
    space = module("N = 1000\n@tack.kernel\ndef k(out, s=0):\n    for i in range(out.size):\n        out[i] = N + s\n")
    k, out, first = space["k"], np.zeros(4, np.int64), space["N"]
    installed(k, out, 0)
    for n in range(dispatch.MAX_LOWERINGS + 3):
        space["N"] = 2000 + n
        k(out, np.float16(0))  # which the entry never takes: nothing replaces the row of the first value
        assert out[0] == 2000 + n
    gc.collect()
    alive = [variant.executable.address for x in k._state.lowerings for variant in x.rows.values()]
    if k._entry:
        assert {row.function for row in k._state._tables._rows} <= set(alive)
    space["N"] = first
    k(out, 0)
    assert out.tolist() == [1000] * 4


# -------------------------------------------------------------------------------------------------------- devices


@pytest.mark.skipif("reference" not in tack.devices(), reason="needs a second device")
class TestDevices:
    """The entry runs CPU code only where the slow path would."""

    def observed(self, monkeypatch):
        """The names of the devices on which `k` ran by the slow path."""
        names = []
        call = dispatch.KernelState._variant

        def spied(state, lowering, bound):
            names.append(bound.device.name)
            return call(state, lowering, bound)

        monkeypatch.setattr(dispatch.KernelState, "_variant", spied)
        return names

    def test_contexts_of_this_thread(self, monkeypatch):
        """PAR-4: NumPy arguments run on the device that is current."""
        k, a, out = fresh(SCALE), np.ones(3, np.float32), np.zeros(3, np.float32)
        with tack.device("cpu"):
            installed(k, a, out, 2.0)
        names = self.observed(monkeypatch)
        with tack.device("reference"):
            k(a, out, 3.0)
            with tack.device("cpu"):
                k(a, out, 4.0)
            k(a, out, 5.0)
        assert out.tolist() == [5.0] * 3
        assert names.count("reference") == 2
        arrays = tack.asarray(a), tack.zeros(3)
        installed(k, *arrays, 1.0)
        with tack.device("reference"):
            names.clear()
            k(*arrays, 7.0)  # the device of the arrays, not the current one
            assert "reference" not in names and arrays[1].numpy().tolist() == [7.0] * 3

    def test_contexts_of_another_thread(self, monkeypatch):
        """CALL-3: one thread's context does not move another thread's calls."""
        k, a, out = fresh(SCALE), np.ones(3, np.float32), np.zeros(3, np.float32)
        installed(k, a, out, 2.0)
        names = self.observed(monkeypatch)
        inside, leave = threading.Event(), threading.Event()

        def other():
            with tack.device("reference"):
                k(a, np.zeros(3, np.float32), 2.0)
                inside.set()
                leave.wait(30)

        thread = threading.Thread(target=other)
        thread.start()
        assert inside.wait(30)
        k(a, out, 9.0)
        leave.set()
        thread.join()
        assert out.tolist() == [9.0] * 3
        assert names == ["reference", "cpu"]

    def test_a_task_that_outlives_its_block(self, monkeypatch):
        """PAR-4: the entry, which knows open blocks alone, and the slow path agree on its device."""
        k, a, out = fresh(SCALE), np.ones(3, np.float32), np.zeros(3, np.float32)
        with tack.device("cpu"):
            installed(k, a, out, 2.0)
        names = self.observed(monkeypatch)
        with tack.device("reference"):
            task = contextvars.copy_context()
            task.run(k, a, out, 3.0)
            assert names == ["reference"]
        for _ in range(2):
            task.run(k, a, out, 4.0)
            task.run(k, a, out, np.float16(4.0))  # by the slow path
        assert set(names[1:]) == {tack.current_device().name} and out.tolist() == [4.0] * 3

    def test_the_default_device(self, monkeypatch):
        k, a, out = fresh(SCALE), np.ones(3, np.float32), np.zeros(3, np.float32)
        before = tack.current_device()
        try:
            tack.set_default_device("cpu")
            installed(k, a, out, 2.0)
            names = self.observed(monkeypatch)
            tack.set_default_device("reference")
            k(a, out, 3.0)
            assert names == ["reference"] and out.tolist() == [3.0] * 3
            tack.set_default_device("cpu")
            k(a, out, 4.0)
            assert names == ["reference", *([] if is_native() else ["cpu"])] and out.tolist() == [4.0] * 3
        finally:
            tack.set_default_device(before)

    def test_arrays_of_two_devices_are_refused(self):
        """PAR-7: a row of one device never takes an array of another."""
        k = installed(fresh(SCALE), tack.ones(3), tack.zeros(3), 2.0)
        elsewhere = tack.ones(3, device="reference")
        with pytest.raises(ValueError, match="reference"):
            k(tack.ones(3), elsewhere, 2.0)
        k(elsewhere, tack.zeros(3, device="reference"), 2.0)


# --------------------------------------------------------------------------------------------- references and memory


def resident_kib() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_reference_counts_and_memory_over_a_million_calls():
    """CALL-1: a call neither takes nor leaks references or memory."""
    k = fresh("@tack.kernel\ndef k(a, b, s):\n    for i in range(a.shape[0]):\n        b[i] = s\n    return s\n")
    a, b, value = np.zeros(1), tack.zeros(1), 0.125
    installed(k, a, b, value)
    objects = (a, b, value, k, None)
    for _ in range(1000):
        k(a, b, value)
    counts, before = [sys.getrefcount(x) for x in objects], resident_kib()
    for _ in range(1_000_000 if is_native() else 20_000):
        k(a, b, value)
    after = [sys.getrefcount(x) for x in objects]
    assert after[:4] == counts[:4] and abs(after[4] - counts[4]) < 100
    assert resident_kib() - before < 2048


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_reference_counts_of_calls_that_miss():
    """Errors, keywords and rebound captures leak nothing either."""
    space = module("N = 1\n@tack.kernel\ndef k(a, s=1.0):\n    for i in range(a.shape[0]):\n        a[i] = s + N\n")
    k, a = space["k"], np.zeros(1)
    installed(k, a, 1.0)

    def misses():
        for n in range(2000):
            k(a, s=1.0)
            k(a, np.float16(1.0))
            space["N"] = 1000 + n % 2
            k(a, 1.0)
            try:
                k(a, "x")
            except TypeError:
                pass

    misses()
    gc.collect()
    counts, before = (sys.getrefcount(a), sys.getrefcount(k)), resident_kib()
    misses()
    gc.collect()
    assert (sys.getrefcount(a), sys.getrefcount(k)) == counts
    assert resident_kib() - before < 2048


# ----------------------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("size", [3, 50_000])
def test_eight_threads(size):
    """CALL-3, case 23: below and above the size from which the GIL is released."""
    k = installed(fresh(SCALE), np.ones(size), np.zeros(size), 2.0)
    wrong = []

    def work(n):
        a, out = np.full(size, float(n)), np.zeros(size)
        for r in range(200 if size < 100 else 20):
            k(a, out, r + 0.5)
            if (out != n * (r + 0.5)).any():
                wrong.append((n, r))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong and k._running == 0


def test_threads_while_captured_values_change():
    """CAP-5, SPEC-1: a call uses a value that the name held during the call, never freed code."""
    space = module("N = 1\n@tack.kernel\ndef k(out):\n    for i in range(out.size):\n        out[i] = N\n")
    k, stop, wrong = space["k"], threading.Event(), []
    installed(k, np.zeros(5000))

    def work():
        out = np.zeros(5000)
        while not stop.is_set():
            k(out)
            if not (out == out[0]).all():
                wrong.append(out.copy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for n in range(dispatch.MAX_LOWERINGS + 10):
        space["N"] = n
        k(np.zeros(5000))
    stop.set()
    for t in threads:
        t.join()
    assert not wrong and k._running == 0


def test_another_thread_runs_during_a_large_call():
    """CALL-3: the GIL is released while native code has much to do."""
    k = fresh(
        """
        @tack.kernel
        def k(out, n):
            for i in range(out.size):
                x = out[i]
                for j in range(n):
                    x = x * 0.5 + 1.0
                out[i] = x
        """
    )
    installed(k, np.zeros(4), 1)
    ticks, done = [], threading.Event()

    def ticking():
        while not done.is_set():
            ticks.append(1)

    thread = threading.Thread(target=ticking)
    thread.start()
    while not ticks:
        pass
    before = len(ticks)
    k(np.zeros(4), 20_000_000)
    after = len(ticks)
    done.set()
    thread.join()
    assert after > before + 100
