"""Several threads at first calls, in Tack's own tables: what an interpreter without a GIL meets more often (CALL-3)."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tack
from tack.lang import types
from tack.lang.data_oriented import data_oriented, record_of
from typing_rig import module

THREADS = 8


@pytest.fixture(autouse=True)
def hasty():
    """Threads take turns as often as a GIL lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work):
    """`work(number)` in eight threads that start together; their results in order. The first failure is raised."""
    barrier, results, failures = threading.Barrier(THREADS), [None] * THREADS, []

    def run(number):
        try:
            barrier.wait(30)
            results[number] = work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


@pytest.mark.parametrize("round_", range(3))
def test_first_calls_of_different_kernels_that_share_a_function(device, round_):
    """FUNC-2: the function is lowered and typed for each, with vectors that no kernel had before."""
    space = module(
        f"""
        BASE = {round_}
        @tack.func
        def shared(x, n):
            v = tack.vec({2 + round_}, tack.f64)(x)
            return tack.dot(v, v) * n + BASE
        """
    )
    text = "@tack.kernel\ndef k(a, out):\n    for i in range(a.size):\n        out[i] = shared(a[i], {n})\n"
    kernels = [module(text.format(n=n), shared=space["shared"])["k"] for n in range(THREADS)]

    def work(n):
        a, out = np.arange(20.0), np.zeros(20)
        with device:
            kernels[n](a, out)
        return out

    for n, out in enumerate(at_once(work)):
        assert out.tolist() == [(2 + round_) * x * x * n + round_ for x in range(20)]


def test_a_type_is_made_once(monkeypatch):
    """Types are compared by identity, so two of one kind would be two types."""
    made = types._made_type

    def slowly(*args):
        time.sleep(0.01)
        return made(*args)

    monkeypatch.setattr(types, "_made_type", slowly)
    monkeypatch.setattr(types, "_vector_types", {})
    found = at_once(lambda _: tack.vec(3, tack.u8))
    assert all(dtype is found[0] for dtype in found)


def test_a_class_has_one_record():
    """CLS-7: what a second one held would be lost."""
    for _ in range(20):

        class Base:
            pass

        class Derived(data_oriented(Base)):
            pass

        records = at_once(lambda _, cls=Derived: record_of(cls))
        assert all(record is records[0] for record in records)


def test_methods_while_a_captured_value_changes(device):
    """CAP-5, CLS-3: each call uses a value that the name held meanwhile, also a call that had to be lowered."""
    space = module(
        """
        N = 0
        @tack.data_oriented
        class System:
            def __init__(self, own):
                self.own, self.x = own, tack.zeros(8, tack.i64)
            @tack.kernel
            def step(self):
                for i in range(8):
                    self.x[i] = self.own + N
        """
    )
    stop = threading.Event()

    def work(number):
        try:
            if number == 0:
                for n in range(1500):
                    space["N"] = n % 37
                    time.sleep(1e-3)
                return
            with device:
                system = space["System"](1000 * number)
                while not stop.is_set():
                    system.step()
                    values = system.x.numpy()
                    assert (values == values[0]).all() and 0 <= values[0] - 1000 * number < 37
        finally:
            stop.set()

    at_once(work)


FINALIZER = """
import faulthandler, gc
faulthandler.dump_traceback_later(100, exit=True)
import tack
from tack.lang.data_oriented import record_of
from tack.runtime import cpu_pool, llvm_jit

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        work()

{}
for allocations in range(1, {}):
    gc.set_threshold(100000)
    prepare()
    Cycle()
    gc.set_threshold(allocations)
    work()
    gc.set_threshold(100000)
    gc.collect()
print("done")
"""
RECORD = """
@tack.data_oriented
class Base:
    pass
def prepare():
    global Derived
    class Derived(Base):
        pass
def work():
    return record_of(Derived)
"""
COMPILER = """
def prepare():
    llvm_jit._compiler = None
def work():
    return llvm_jit.compiler()
"""
POOL = """
def prepare():
    cpu_pool._pool = None
def work():
    return cpu_pool.pool()
"""


@pytest.mark.parametrize(
    ("program", "rounds"), [(RECORD, 40), (COMPILER, 20), (POOL, 8)], ids=["record", "compiler", "pool"]
)
def test_a_finalizer_does_what_its_thread_is_doing(program, rounds):
    """A collection may start at any object. It must not find a lock that its own thread holds: that waited for ever."""
    run = [sys.executable, "-c", FINALIZER.format(program, rounds)]
    result = subprocess.run(run, capture_output=True, text=True, check=False)
    assert result.stdout == "done\n", result.stderr
