"""Names that a kernel does not assign, and what it captures (rules CAP-1 to CAP-11, SPEC-4)."""

from __future__ import annotations

import math
import sys
import types

import numpy as np
import pytest

import tack
from tack import UnsupportedSyntaxError
from tack.lang.ast_transform import lower_kernel
from tack.lang.ir import IRConst, walk
from tack.lang.names import value_key
from tack.lang.source import read_source


def lowered(fn):
    return lower_kernel(read_source(fn, "kernel"))


def stored_constant(fn) -> IRConst:
    """The constant in the last store of a kernel."""
    return [n for n in walk(lowered(fn).ir.body) if isinstance(n, IRConst)][-1]


# -------------------------------------------------------------------------------------------------------------- keys

DISTINCT = [
    1,
    1.0,
    True,
    0,
    0.0,
    -0.0,
    False,
    math.nan,
    math.inf,
    np.float32(1),
    np.float64(1),
    np.int8(1),
    np.int64(1),
]
DISTINCT += [np.float32(0.1), 0.1, float(np.float32(0.1)), tack.i32(1), tack.i64(1), tack.f32(1), tack.constant(1)]
DISTINCT += [
    tack.constant(1, tack.i32),
    tack.constant(-0.0),
    tack.constant(0.0),
    (1, 2),
    (1, 2.0),
    ((1, 2), (3, 4)),
    (1,),
]


def test_numbers_are_keyed_by_type_and_bits():
    """CAP-7: a key that used `==` would call many of these the same; NaN equals itself."""
    keys = [value_key(value) for value in DISTINCT]
    assert len(set(keys)) == len(DISTINCT)
    assert len(set(DISTINCT)) < len(DISTINCT)  # the negative control: Python's own equality merges some
    assert value_key(math.nan) == value_key(float("nan"))
    assert value_key(10**6) == value_key(int("1000000"))
    assert value_key((0.5, math.nan)) == value_key((0.5, -math.nan))


def test_a_key_keeps_its_object_alive():
    """SPEC-4: identity would not do if the object could be collected and another take its place."""
    key = value_key(type("Thing", (), {})())
    assert all(value_key(type("Thing", (), {})()) != key for _ in range(100))


# --------------------------------------------------------------------------------------------------------- resolution

N = 10
TABLE = (1.5, 2.5, 3.5)
LONG = (1, 2, 3, 4, 5)
MATRIX = ((1, 2, 3), (4, 5, 6))
SINGLE = np.float32(0.1)
TYPED = tack.u8(200)
DECLARED = tack.constant(0.25, tack.f64)
abs_ = 3
constants = types.ModuleType("constants")
constants.LIMIT = 7
constants.inner = types.ModuleType("inner")
constants.inner.DEEP = 8


def test_closure_then_module_then_builtins():
    """CAP-3."""
    N = 20

    def from_closure(a):
        for i in range(1):
            a[i] = N

    def from_module(a):
        for i in range(1):
            a[i] = abs_

    def from_builtins(a):
        for i in range(1):
            a[i] = abs(a[i])

    assert stored_constant(from_closure).value == 20
    assert stored_constant(from_module).value == 3
    names = [c.name for c in lowered(from_builtins).captures]
    assert names == ["range", "abs"]


def test_module_chains_are_captured_step_by_step():
    """CAP-3, CAP-5: each step can be rebound."""

    def k(a):
        for i in range(1):
            a[i] = constants.inner.DEEP

    result = lowered(k)
    assert [c.name for c in result.captures] == ["range", "constants", "inner", "DEEP"]
    assert all(c.is_current() for c in result.captures)
    constants.inner.DEEP = 9
    try:
        assert [c.is_current() for c in result.captures] == [True, True, True, False]
        assert stored_constant(k).value == 9
    finally:
        constants.inner.DEEP = 8
    assert all(value_key(c.current()) == c.key for c in result.captures)


def test_captured_numbers():
    """CAP-3, CAP-8, LIT-11: NumPy scalars are literals, typed ones are pinned."""

    def k0(a):
        for i in range(1):
            a[i] = SINGLE

    def k1(a):
        for i in range(1):
            a[i] = TYPED

    def k2(a):
        for i in range(1):
            a[i] = DECLARED

    def k3(a):
        for i in range(1):
            a[i] = math.pi

    def k4(a):
        for i in range(1):
            a[i] = tack.i16.max

    def k5(a):
        for i in range(1):
            a[i] = True

    found = [(c.value, c.pinned) for c in map(stored_constant, (k0, k1, k2, k3, k4, k5))]
    single = 13421773 / 2**27  # 0.1 rounded to 24 bits
    assert found == [(single, None), (200, tack.u8), (0.25, tack.f64), (math.pi, None), (32767, None), (1, None)]
    assert type(found[-1][0]) is int


def test_tables():
    """CAP-4: indexed by a literal, an item is the number itself."""

    def k(a, j):
        for i in range(1):
            a[i] = TABLE[j] + MATRIX[j][1]
            a[i] = MATRIX[1][2]

    ir = lowered(k).ir
    assert {t.name: (t.shape, t.values) for t in ir.tables.values()} == {
        "TABLE": ((3,), (1.5, 2.5, 3.5)),
        "MATRIX": ((2, 3), (1, 2, 3, 4, 5, 6)),
    }
    assert stored_constant(k).value == 6


def test_a_table_index_out_of_range():
    def k(a):
        for i in range(1):
            a[i] = TABLE[3]

    def negative(a):
        for i in range(1):
            a[i] = TABLE[-1]

    for fn in (k, negative):
        with pytest.raises(IndexError, match="of `TABLE` is out of range"):
            lowered(fn)


def test_two_closures_of_a_factory_have_their_own_captures():
    """CAP-6."""

    def factory(n):
        def k(a):
            for i in range(1):
                a[i] = n

        return k

    assert [stored_constant(factory(n)).value for n in (1, 2)] == [1, 2]


def test_rebinding_is_noticed():
    """CAP-5, CAP-7: also where Python's `==` sees no change."""
    namespace = sys.modules[__name__]

    def k(a):
        for i in range(1):
            a[i] = N

    result = lowered(k)
    capture = next(c for c in result.captures if c.name == "N")
    for other, same in [(11, False), (10.0, False), (np.int64(10), False), (int("10"), True)]:
        namespace.N = other
        assert capture.is_current() is same
        assert (value_key(capture.current()) == capture.key) is same
    del namespace.N
    assert not capture.is_current()
    with pytest.raises(NameError, match="name `N` is not defined"):
        lowered(k)
    namespace.N = 10


def test_shadowing_a_builtin_later_is_noticed():
    """CAP-3: a module's name goes before the builtin that was captured."""
    namespace = sys.modules[__name__]

    def k(a):
        for i in range(1):
            a[i] = max(a[i], 1)

    result = lowered(k)
    namespace.max = 5
    try:
        assert not all(c.is_current() for c in result.captures)
    finally:
        del namespace.max
    assert all(c.is_current() for c in result.captures)


# ------------------------------------------------------------------------------------------------------------- errors

ARRAY = np.zeros(3)
LIST = [1, 2]
TEXT = "text"
RAGGED = ((1, 2), (3,))
WORDS = ("a", "b")


class Settings:
    N = 1


def host_function(x):
    return x


@pytest.mark.parametrize(
    ("expression", "kind", "message", "advice"),
    [
        ("ARRAY[i]", TypeError, "`ARRAY` is a ndarray, which a kernel cannot capture", "argument"),
        ("ARRAY", TypeError, "`ARRAY` is a ndarray, which a kernel cannot capture", "argument"),
        ("LIST[0]", TypeError, "`LIST` is a list, which a kernel cannot capture", "argument"),
        ("TEXT", TypeError, "`TEXT` is a str, which a kernel cannot capture", "argument"),
        ("RAGGED[i][0]", TypeError, "tuples of numbers of one length", "array"),
        ("WORDS[i]", TypeError, "must hold numbers", "array"),
        ("MATRIX[i]", TypeError, "`MATRIX` takes 2 indices, not 1", "MATRIX[i][i]"),
        ("LONG", UnsupportedSyntaxError, "captured tuple `LONG` is not a number", "LONG[k]"),
        ("Settings.N", TypeError, "attributes of type `Settings` cannot be captured", "module-level name"),
        ("math", TypeError, "`math` is a module", "module.NAME"),
        ("missing", NameError, "name `missing` is not defined", "argument"),
        ("missing(1)", NameError, "name `missing` is not defined", "argument"),
        ("math.missing(1)", NameError, "module `math` has no `missing`", ""),
        ("host_function(i)", UnsupportedSyntaxError, "neither a device function nor a builtin", "@tack.func"),
        ("host_function", UnsupportedSyntaxError, "used as a value", "call device functions"),
        ("math.sqrt", UnsupportedSyntaxError, "function `math.sqrt` is used as a value", "math.sqrt(...)"),
        ("tack.f32", UnsupportedSyntaxError, "function `tack.f32` is used as a value", "tack.f32(...)"),
        ("np.float32(i)", UnsupportedSyntaxError, "neither a device function nor a builtin", "tack.f32(x)"),
        ("N(1)", UnsupportedSyntaxError, "neither a device function nor a builtin", "can be called"),
        ("i(1)", UnsupportedSyntaxError, "a call of a local, `i`", "@tack.func"),
        ("tack.f32.max", TypeError, "no integer limits", ""),
    ],
)
def test_what_cannot_be_captured(expression, kind, message, advice, tmp_path):
    """CAP-9, CAP-10, SYN-7: each with its position and advice."""
    path = tmp_path / "user.py"
    path.write_text(f"def k(a):\n    for i in range(1):\n        a[i] = {expression}\n")
    namespace = dict(vars(sys.modules[__name__]))
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    with pytest.raises(kind) as caught:
        lowered(namespace["k"])
    text = str(caught.value)
    assert text.startswith(f"{path}:3:16: in kernel `k`: ")
    assert message in text
    assert advice in text.partition("help: ")[2]


def test_constant():
    """CAP-8: what `tack.constant` takes."""
    assert repr(tack.constant(3)) == "tack.constant(3)"
    assert (int(tack.constant(300, tack.u8)), float(tack.constant(2, "f32"))) == (300 - 256, 2.0)
    assert tack.constant(tack.i8(5)).dtype is tack.i8
    assert tack.constant(tack.constant(5, tack.i8), tack.f32).dtype is tack.f32
    for wrong in ("1", None, [1], 1j):
        with pytest.raises(TypeError, match="takes a number"):
            tack.constant(wrong)
    with pytest.raises(ValueError, match="has no"):
        tack.constant(math.inf, tack.i32)


# --------------------------------------------------------------------------------------------------- device functions


def test_a_rebound_device_function_is_noticed_through_any_depth():
    """CAP-11."""

    def make(value):
        @tack.func
        def leaf(x):
            return x + value

        return leaf

    leaf = make(1)

    @tack.func
    def middle(x):
        return leaf(x)

    def k(a):
        for i in range(1):
            a[i] = middle(a[i])

    result = lowered(k)
    before = middle.lowered()
    assert middle.lowered() is before
    assert all(c.is_current() for c in result.captures)
    leaf = make(2)
    assert not all(c.is_current() for c in result.captures)
    assert middle.lowered() is not before


def test_host_calls_of_what_works_only_in_kernels():
    @tack.func
    def f(x):
        return x

    for call in (lambda: f(1), lambda: tack.sqrt(2.0), lambda: tack.ndrange(3), lambda: tack.local(3, tack.f32)):
        with pytest.raises(TypeError, match="works only inside a kernel"):
            call()


def test_intrinsics_are_the_operations_of_the_ir():
    """The names are listed apart, as `import tack` does not load the table of operations."""
    from tack.lang import ops
    from tack.lang.intrinsics import PUBLIC

    forms = {}
    for name, marker in PUBLIC.items():
        assert marker.__name__ == name
        assert name in (marker.meaning.name, f"{marker.meaning.form}_{marker.meaning.name}")
        forms.setdefault(marker.meaning.form, []).append(marker.meaning.name)
    assert sorted(forms["builtin"]) == sorted(ops.BUILTINS)
    assert sorted(forms["vector"]) == sorted(ops.VECTOR_OPS)
    assert sorted(forms["atomic"]) == sorted(ops.ATOMICS)


@pytest.mark.parametrize(
    "name", ["sqrt", "sin", "asin", "atan2", "floor", "fabs", "abs", "min", "pow", "isnan", "copysign"]
)
def test_each_spelling_means_the_same(name):
    """MATH-1: bare, math, numpy and tack; numpy's own spellings too."""
    from tack.lang.intrinsics import lookup

    numpy_name = {"asin": "arcsin", "atan2": "arctan2", "min": "fmin"}.get(name, name)
    spellings = [getattr(m, n, None) for m, n in [(math, name), (np, numpy_name), (tack, name)]]
    meanings = {lookup(s) for s in spellings if s is not None}
    assert len(meanings) == 1 and None not in meanings
