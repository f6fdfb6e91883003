"""Captured names at native calls: every way to rebind one is seen at the next call (rules CAP-5, CAP-6, SPEC-1)."""

from __future__ import annotations

import builtins
import ctypes
import types

import numpy as np
import pytest

from call_entry import is_native, needs_cpu
from tack.codegen.call_table import MAX_DICTS
from tack.runtime import dispatch
from tack.runtime.dispatch import NATIVE_AFTER
from typing_rig import module

pytestmark = [pytest.mark.usefixtures("entry"), needs_cpu]
TEXT = "@tack.kernel\ndef k(out):\n    for i in range(out.shape[0]):\n        out[i] = N + mod.M\n"


@pytest.fixture
def slow_calls(monkeypatch):
    """The calls that Python took."""
    seen = []
    call = dispatch.KernelState.call
    monkeypatch.setattr(dispatch.KernelState, "call", lambda *a: seen.append(1) or call(*a))
    return seen


def called(space, times=1):
    out = np.full(2, -1.0)
    for _ in range(times):
        out[:] = -1
        space["k"](out)
    return out.tolist()


def ready():
    """A module with a kernel that the native entry, where there is one, has taken over."""
    mod = types.ModuleType("mod")
    mod.M = 100
    space = module(TEXT, N=1, mod=mod)
    assert called(space, NATIVE_AFTER + 2) == [101.0] * 2
    assert (space["k"]._entry != 0) is is_native()
    return space


def rebind_by_cell(space):
    exec("def change(v):\n    global N\n    N = v\nchange(7)", space)


WAYS = {
    "item": lambda s: s.__setitem__("N", 7),
    "update": lambda s: s.update(N=7),
    "or": lambda s: s.__ior__({"N": 7}),
    "pop": lambda s: (s.pop("N"), s.setdefault("N", 7)),
    "del": lambda s: (s.__delitem__("N"), s.__setitem__("N", 7)),
    "exec": lambda s: exec("N = 7", s),
    "global": rebind_by_cell,
    "clear": lambda s: (lambda kept: (s.clear(), s.update(kept | {"N": 7})))(dict(s)),
    "C": lambda s: ctypes.pythonapi.PyDict_SetItemString(ctypes.py_object(s), b"N", ctypes.py_object(7)),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_rebind_a_global(way, slow_calls):
    space = ready()
    WAYS[way](space)
    assert called(space) == [107.0] * 2
    assert called(space, 3) == [107.0] * 2
    space["N"] = 1
    assert called(space, 3) == [101.0] * 2


@pytest.mark.parametrize("way", ["attribute", "dict", "del"])
def test_every_way_to_rebind_an_attribute_of_a_module(way):
    space = ready()
    mod = space["mod"]
    if way == "attribute":
        mod.M = 200
    elif way == "dict":
        vars(mod)["M"] = 200
    else:
        del mod.M
        mod.M = 200
    assert called(space, 2) == [201.0] * 2


def test_shadowing_a_builtin(monkeypatch):
    """In the module, then no longer; and in `builtins` itself."""
    space = ready()
    space["range"] = lambda *a: None
    with pytest.raises((TypeError, NotImplementedError)):
        called(space)
    del space["range"]
    assert called(space, 3) == [101.0] * 2
    real = builtins.range
    monkeypatch.setattr(builtins, "range", 5)
    try:
        with pytest.raises((TypeError, NotImplementedError)):
            space["k"](np.zeros(2))
    finally:
        monkeypatch.undo()
    assert builtins.range is real
    assert called(space, 3) == [101.0] * 2


def test_other_names_do_not_matter(slow_calls):
    """A module that changes at every call keeps native calls, and stays right."""
    space = ready()
    slow_calls.clear()
    for n in range(50):
        space["unrelated"] = n
        space["mod"].other = n
        assert called(space) == [101.0] * 2
        del space["unrelated"]
    assert len(slow_calls) == (0 if is_native() else 50)
    slow_calls.clear()
    space["N"] = 2
    assert called(space) == [102.0] * 2
    assert len(slow_calls) == 1


def test_cells(slow_calls):
    """A closure's variable: rebound, deleted, bound again."""
    text = """
        def make():
            n = 1
            def change(*value):
                nonlocal n
                if value:
                    n, = value
                else:
                    del n
            @tack.kernel
            def k(out):
                for i in range(2):
                    out[i] = n
            return change, k
        change, k = make()
    """
    space = module(text)
    assert called(space, NATIVE_AFTER + 2) == [1.0] * 2
    slow_calls.clear()
    assert called(space) == [1.0] * 2
    assert len(slow_calls) == (not is_native())
    space["change"](4)
    assert called(space, 3) == [4.0] * 2
    space["change"]()
    with pytest.raises(NameError):
        called(space)
    space["change"](1)
    assert called(space, 3) == [1.0] * 2


def test_names_of_many_modules():
    """More dicts than the entry watches: Python takes the calls, with the same answers."""
    mods = {f"m{n}": types.ModuleType(f"m{n}") for n in range(MAX_DICTS + 2)}
    for mod in mods.values():
        mod.V = 1
    total = " + ".join(f"{name}.V" for name in mods)
    space = module(f"@tack.kernel\ndef k(out):\n    for i in range(2):\n        out[i] = {total}\n", **mods)
    for _ in range(2):
        assert called(space, NATIVE_AFTER + 2) == [float(MAX_DICTS + 2)] * 2
        assert space["k"]._entry == 0
    mods["m3"].V = 5
    assert called(space) == [MAX_DICTS + 6.0] * 2
