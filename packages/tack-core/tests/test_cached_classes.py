"""Kernels with instances of data-oriented classes in the disk cache: found by content, never by name (CACHE, CLS-7)."""

from __future__ import annotations

import itertools
import linecache
from types import SimpleNamespace

import numpy as np
import pytest

import tack
from differential import class_oracle
from differential.class_generator import program
from kernel_text import run_text
from tack.lang import free_names
from tack.runtime import code_store, lowering
from tack.runtime.disk_cache import DiskCache
from test_class_differential import play

pytest.importorskip("llvmlite")
_count = itertools.count()

CLASSES = """
@tack.data_oriented
class Inner:
    G = 10
    def __init__(self):
        self.v = np.array([1.0, 2.0])
        self.k = 2.0
    @tack.func
    def f(self, x):
        return x * self.k + self.G

@tack.data_oriented
class Base:
    C = 3
    @tack.func
    def m(self, x):
        return x + self.C
    @staticmethod
    @tack.func
    def s(x):
        return x * 2

class User(Base):
    D = 5.0
    def __init__(self):
        self.x = np.array([1.0, 4.0])
        self.inner = Inner()
        self.rate = 0.5
    @tack.func
    def m(self, x):
        return super().m(x) * 2
    @tack.kernel
    def step(self, dt):
        for i in range(self.x.shape[0]):
            self.x[i] = self.m(self.inner.f(self.x[i])) * dt + self.s(self.D) + Base.m(self, 1) + other(self.inner, i)

@tack.func
def other(a, i):
    return a.f(a.v[i]) * Inner.G

@tack.kernel
def outside(a, out, b):
    for i in range(2):
        out[i] = a.x[i] + b.f(i)
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A cache of this test's own, and a Tack that nobody edits meanwhile."""
    made = DiskCache(str(tmp_path / "cache"))
    monkeypatch.setattr(code_store, "cache", lambda: made)
    monkeypatch.setattr(code_store, "tack_digest", lambda: "this Tack")
    monkeypatch.setattr(code_store, "sources_have_changed", lambda: False)
    return made


@pytest.fixture
def lowered(monkeypatch):
    """The lowerings from here on; what came from the disk has none."""
    seen, lower = [], lowering._lower
    monkeypatch.setattr(lowering, "_lower", lambda *args: seen.append(args) or lower(*args))
    return seen


def module(text=CLASSES, **names):
    name = f"<cached classes {next(_count)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"tack": tack, "np": np, "__name__": "user", **names}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space


def by_python(space, dt):
    """What `step` makes of a fresh instance, computed on the host."""
    inner, c, d = space["Inner"], space["Base"].C, space["User"].D
    g, k = inner.G, 2.0
    x, v = np.array([1.0, 4.0]), np.array([1.0, 2.0])
    return ((x * k + g) + c) * 2 * dt + d * 2 + (1 + c) + (v * k + g) * g


def digest(space, text="User().step"):
    method = eval(text, space)
    found = free_names.contents(method.__func__.source, {0: method.__self__})
    return None if found is None else code_store.digest_of("kernel of instances", found.content)


# ------------------------------------------------------------------------------------------------------------- finding


def test_another_class_of_the_same_content_is_not_lowered(store, lowered):
    """CACHE-1: other class objects, the same text and values; the oracle is Python."""
    for turn in range(3):
        space = module("\n" * turn + CLASSES)
        user = space["User"]()
        for dt in (0.5, 2):  # two variants
            user.x[:] = [1.0, 4.0]
            user.step(dt)
            assert user.x.tolist() == by_python(space, dt).tolist()
        assert len(lowered) == 1
    assert len(store.entries()) == 3, "a kernel and two variants"


def test_instances_as_arguments_of_a_kernel(store, lowered):
    """CACHE-1, CLS-1: two of them, between other arguments, by position and by keyword."""
    for _ in range(2):
        space, out = module(), np.zeros(2)
        space["outside"](space["User"](), b=space["Inner"](), out=out)
        assert out.tolist() == [1.0 + 10, 4.0 + 2 + 10]
    assert len(lowered) == 1


def test_what_came_from_the_disk_lowers_for_new_types_and_for_errors(store, lowered):
    """CACHE-1: a type that the disk has no code for, and messages; both need the IR, made for these instances."""
    module()["User"]().step(0.5)
    space = module()
    user = space["User"]()
    user.step(0.5)
    assert len(lowered) == 1
    user.x = np.array([1.0, 4.0], np.float32)
    user.step(0.5)
    assert np.allclose(user.x, by_python(space, 0.5), rtol=1e-6)
    assert len(lowered) == 2
    user.x.flags.writeable = False
    with pytest.raises(ValueError, match=r"self\.x.*read-only"):
        user.step(0.5)


def test_inspecting_what_came_from_the_disk(store):
    module()["User"]().step(0.5)
    user = module()["User"]()
    user.step(0.5)
    assert "self.inner.k" in tack.inspect(user.step, 0.5)["ir"]


def test_a_class_that_changes_after_it_came_from_the_disk(store):
    """CAP-5, CLS-2, CLS-7: constants, methods, and an instance that hides a name of its class."""
    module()["User"]().step(0.5)
    space = module()
    user = space["User"]()
    user.step(0.5)
    space["Base"].C = 40
    user.x[:] = [1.0, 4.0]
    user.step(0.5)
    assert user.x.tolist() == by_python(space, 0.5).tolist()
    user.C = 41.0
    user.x[:] = [1.0, 4.0]
    user.step(0.5)
    space["Base"].C = 41
    assert user.x.tolist() == by_python(space, 0.5).tolist()


# ------------------------------------------------------------------------------------------------------------- the key

CHANGES = [
    ("G = 10", "G = 11"),
    ("G = 10", "G = 10.0"),
    ("C = 3", "C = 4"),
    ("C = 3", "C = True"),
    ("D = 5.0", "D = 5"),
    ("x * self.k + self.G", "x * self.k - self.G"),
    ("return x + self.C", "return self.C + x"),
    ("return x * 2", "return x * 3"),
    ("super().m(x) * 2", "super().m(x) * 3"),
    ("self.rate = 0.5", "self.D = 0.5"),
    ("self.k = 2.0", "self.k, self.G = 2.0, 7"),
    ("    @staticmethod\n    @tack.func\n    def s(x):", "    @tack.func\n    def s(self, x):"),
    ("class User(Base):", "class Middle(Base):\n    C = 7\nclass User(Middle):"),
    (
        "class User(Base):",
        "class Middle(Base):\n    @tack.func\n    def m(self, x):\n        return x\nclass User(Middle):",
    ),
    ("* Inner.G", "* a.G * 2"),
    ("for i in range(self.x.shape[0]):", "for i in range(self.inner.v.shape[0]):"),
]


def test_everything_that_code_depends_on_is_in_the_key(store):
    """CACHE-2: constants of classes by type and bits, methods, their order, and what the instance holds itself."""
    plain = digest(module())
    assert plain is not None
    assert plain == digest(module("\n\n" + CLASSES))
    found = [digest(module(CLASSES.replace(*change))) for change in CHANGES]
    assert all(CLASSES.replace(*change) != CLASSES for change in CHANGES)
    assert None not in found
    assert len({plain, *found}) == len(found) + 1


@pytest.mark.parametrize("value", ["object()", "np.zeros(3)", "'text'", "None", "property(lambda self: 1)"])
def test_what_has_no_description_is_not_kept(store, value):
    """CACHE-2: the class holds what no kernel can use."""
    assert digest(module(CLASSES.replace("D = 5.0", f"D = {value}"))) is None


def test_notes_for_other_instances_are_none(store, lowered):
    """CACHE-3: an entry whose structure these instances do not have is deleted, and the kernel lowered."""
    module()["User"]().step(0.5)
    kernels = [e for e in store.entries() if b"'structure'" in store.get(e.path.rpartition("/")[2][:-4])]
    (name,) = [e.path.rpartition("/")[2][:-4] for e in kernels]
    good = store.get(name)
    for old, new in ((b"'inner'", b"'other'"), (b"'nodes'", b"'knots'"), (b"(0, 'x')", b"(9, 'x')")):
        assert old in good
        store.put(name, good.replace(old, new))
        space = module()
        user = space["User"]()
        before = len(lowered)
        user.step(0.5)
        assert user.x.tolist() == by_python(space, 0.5).tolist()
        assert len(lowered) == before + 1
        assert store.get(name) == good


# ------------------------------------------------------------------------------------------------------------ programs


@pytest.mark.parametrize("seed", [f"cached classes {n}" for n in range(4)])
def test_random_programs_from_the_disk(store, lowered, monkeypatch, seed):
    """CACHE-1, CACHE-2, CLS-7: a second run of a program, with classes of its own, takes all from the disk; both are
    what Python computes. Whatever a lowering takes from instances is in the content."""
    covered, covers = [], free_names.Contents.covers
    monkeypatch.setattr(free_names.Contents, "covers", lambda self, s: covered.append(covers(self, s)) or covered[-1])
    text = program(seed)
    oracle = play(seed, class_oracle.load(text), class_oracle.Cells, class_oracle.number)
    for _ in range(2):
        made = SimpleNamespace(**run_text(text))
        got = play(seed, made, lambda values: np.array(values, np.int32), int)
        assert got == oracle
        count, lowered[:] = len(lowered), []
    assert count == 0
    assert covered
    assert all(covered)
