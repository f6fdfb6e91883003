"""Where objects do not lie as the native call entry expects it is refused, and calls have the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import types

import numpy as np
import pytest

from call_entry import needs_entry
from tack.codegen import call_table
from tack.codegen.call_entry_ir import call_entry_source
from tack.lang.records import field_names
from tack.runtime import native_call
from tack.runtime.dispatch import NATIVE_AFTER
from tack.runtime.llvm_jit import compiler
from tack.runtime.native_code import NativeCode
from test_native_call_guards import called, ready

# What the entry takes for granted of objects: words at these places.
WORDS = {
    "the type of an object": (object, 8),
    "a cell's content": (types.CellType, 16),
    "a float's value": (float, 16),
    "an array's memory": (np.ndarray, 16),
    "its rank": (np.ndarray, 24),
    "its extents": (np.ndarray, 32),
    "its dtype": (np.ndarray, 56),
    "its flags": (np.ndarray, 64),
    "a dtype's byte order": (np.dtype, 26),
    "a dtype's number": (np.dtype, 28),
}


def rearranged(monkeypatch, kind, offset):
    """Let the word at this place of objects of this kind be another one."""
    read = native_call._word

    def word(obj, at, *how):
        there = isinstance(obj, kind) and at == offset
        return read(obj, at, *how) ^ there

    monkeypatch.setattr(native_call, "_word", word)


@needs_entry
@pytest.mark.parametrize("what", WORDS)
def test_one_field_in_another_place_is_enough(monkeypatch, what):
    assert native_call.find_layout() is not None
    rearranged(monkeypatch, *WORDS[what])
    assert native_call.find_layout() is None


def test_free_threaded_builds_are_refused(monkeypatch):
    """Whether their GIL is off, or on: then the longer header of objects tells."""
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert native_call.find_layout() is None
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    read = native_call._word
    monkeypatch.setattr(native_call, "_word", lambda obj, at, *how: 0 if at < 16 else read(obj, at - 16, *how))
    assert native_call.find_layout() is None


def test_this_interpreter():
    """Nothing here is made up: a free-threaded build has no entry, an ordinary one has."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        assert native_call.entry_address() == 0 and object.__basicsize__ != 16
    elif sys.implementation.name == "cpython" and not hasattr(sys, "gettotalrefcount"):
        assert native_call.find_layout() is not None


OTHERS = {
    "another interpreter": "import sys; sys.implementation.name = 'another'",
    "a debug build": "import sys; sys.gettotalrefcount = lambda: 0",
}
PROGRAM = """
import numpy as np, tack
from tack.runtime import native_call
from tack.lang.kernel import KERNEL_OFFSETS, Kernel
from tack.runtime.dispatch import MAX_LOWERINGS

@tack.kernel
def scale(a, out, s):
    for i in range(a.shape[0]):
        out[i] = a[i] * s
    return s

@tack.kernel
def fill(out):
    for i in range(3):
        out[i] = N

assert not KERNEL_OFFSETS and native_call.entry_address() == 0
a, out = np.arange(5.0), tack.zeros(5)
for n in range(20):
    assert scale(a, out, n) == n and scale(a, s=n, out=out) == n
    assert out.numpy().tolist() == [n * i for i in range(5)]
for N in range(MAX_LOWERINGS + 3):
    fill(out)
    assert out.numpy().tolist() == [N] * 3 + [19 * 3, 19 * 4]
assert isinstance(scale, Kernel) and scale._entry == fill._running == 0
print("same answers")
"""


@pytest.mark.parametrize("other", OTHERS)
def test_plain_classes_give_the_same_answers(tmp_path, other):
    script = tmp_path / "program.py"
    script.write_text(OTHERS[other] + PROGRAM)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "same answers", done.stderr


@needs_entry
def test_dicts_without_versions(monkeypatch):
    """Python 3.14 drops them: the entry's text then looks names up at every call, and gives the same answers."""
    layout = native_call.find_layout()
    plain = call_table.Layout(
        **{n: getattr(layout, n) for n in field_names(layout) if n != "dict_version"}, dict_version=None
    )
    text = call_entry_source(plain, ">")
    code = NativeCode.compiled(lambda far: compiler().compile_small(text, far), ("tack_entry",))
    library = code.load(native_call._imports())
    monkeypatch.setattr(native_call, "entry_address", lambda: library.addresses["tack_entry"])
    space = ready()
    assert space["k"]._entry == library.addresses["tack_entry"]
    for value in (7, 8, 7, 1):
        space["N"] = value
        assert called(space, NATIVE_AFTER + 2) == [100.0 + value] * 2
    space["k"]._entry = 0
