"""`record` against `dataclass`, which is the oracle: the same declarations, the same behaviour."""

from __future__ import annotations

import copy
import dataclasses
import weakref

import pytest

from tack.lang.records import _WITHOUT_CONSTRUCTOR, field, field_names, field_types, record, replace


def declared(make, field):
    @make
    class Base:
        a: int
        b: str = "x"

        def double(self):
            return self.a * 2

    @make
    class Derived(Base):
        c: list = field(default_factory=list)
        d: float = field(default=1.5, compare=False, repr=False)

    @make
    class Checked:
        a: int
        size: int = field(init=False)

        def __post_init__(self):
            object.__setattr__(self, "size", self.a + 1)

    return Base, Derived, Checked


def both(**options):
    ours = declared(record(**options), field)
    theirs = declared(dataclasses.dataclass(slots=True, **options), dataclasses.field)
    return zip(ours, theirs, strict=True)


OPTIONS = [{}, {"frozen": True}, {"eq": False}, {"repr": False, "frozen": True}, {"kw_only": True, "eq": False}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1,), {}), ((), {"a": 1}), ((), {"a": 1, "b": "y"})]
    + [((1, "y", 3), {}), ((1, 2, 3, 4, 5), {}), ((1,), {"a": 2}), ((1,), {"z": 0})],
)
def test_constructing(options, args, kwargs):
    """Alike with the constructor that is written after some instances, and before."""
    for mine, python in both(**options):
        for _ in range(_WITHOUT_CONSTRUCTOR + 2):
            try:
                want = python(*args, **kwargs)
            except TypeError:
                with pytest.raises(TypeError):
                    mine(*args, **kwargs)
                continue
            got = mine(*args, **kwargs)
            names = [f.name for f in dataclasses.fields(want)]
            assert list(field_names(got)) == list(field_names(mine)) == names
            assert [getattr(got, n) for n in names] == [getattr(want, n) for n in names]
            assert not hasattr(got, "__dict__")


@pytest.mark.parametrize("options", OPTIONS)
def test_defaults_and_methods(options):
    (_, _), (ours, _), (_, _) = both(**options)
    assert ours(a=1).c is not ours(a=1).c
    assert ours(a=3).double() == 6


@pytest.mark.parametrize("options", OPTIONS)
def test_comparing_hashing_printing(options):
    for mine, python in both(**options):
        values = [mine(a=1), mine(a=1), mine(a=2), mine(a=True)]
        oracle = [python(a=1), python(a=1), python(a=2), python(a=True)]
        assert [[x == y for y in values] for x in values] == [[x == y for y in oracle] for x in oracle]
        assert values[0] != oracle[0]
        if options.get("repr", True):
            assert [repr(x).rpartition(".")[2] for x in values] == [repr(x).rpartition(".")[2] for x in oracle]
        try:
            same = hash(oracle[0]) == hash(oracle[1])
        except TypeError:
            with pytest.raises(TypeError):
                hash(values[0])
        else:
            assert (hash(values[0]) == hash(values[1])) == same


def test_frozen():
    for mine, _ in both(frozen=True):
        made = mine(a=1)
        for change, *value in ((setattr, 2), (delattr,)):
            for name in ("a", "q"):
                with pytest.raises(dataclasses.FrozenInstanceError):
                    change(made, name, *value)
        assert made.a == 1
        assert copy.copy(made).a == copy.deepcopy(made).a == 1


def test_replace_match_and_weak_references():
    (base, _), (derived, _), _ = both()
    assert replace(derived(1, c=[2]), a=5).a == 5
    assert replace(derived(1, c=[2])).c == [2]
    with pytest.raises(TypeError):
        replace(derived(1), nothing=5)
    match base(1, "q"):
        case base(x, y):
            assert (x, y) == (1, "q")
    with pytest.raises(TypeError):
        weakref.ref(base(1))

    @record(eq=False, weakref_slot=True)
    class Known:
        a: int

    made = Known(1)
    assert weakref.ref(made)() is made


def test_annotations_are_known_by_their_text():
    @record
    class Noted:
        a: int
        b: list[str] = field(default_factory=list)

    assert field_types(Noted) == {"a": "int", "b": "list[str]"}
