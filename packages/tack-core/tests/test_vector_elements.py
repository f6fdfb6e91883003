"""Arrays of vectors and matrices: on the host, as arguments, in memory (VEC-1, VEC-2, VEC-5, VEC-8, VEC-12, VEC-13)."""

from __future__ import annotations

import copy
import itertools
import textwrap

import numpy as np
import pytest

import tack
from kernel_text import run_text
from vector_rig import COUNT, element_types, kernel, run, values

# --- On the host ---


@pytest.mark.parametrize("dtype", element_types(), ids=str)
def test_shapes_and_bytes(device, dtype):
    """VEC-1: the components are the last axes of what NumPy sees"""
    for shape in [(), (0,), (5,), (2, 3)]:
        a = tack.zeros(shape, dtype)
        assert (a.shape, a.ndim, a.dtype) == (shape, len(shape), dtype)
        assert a.size == int(np.prod(shape)) and a.nbytes == a.size * dtype.count * dtype.number.itemsize
        assert a.numpy().shape == shape + dtype.shape and a.numpy().dtype == dtype.numpy
        assert not a.numpy().any()


def test_types_are_one_object_each():
    """VEC-1"""
    assert tack.vec(3) is tack.vec3 and tack.mat(2, 2) is tack.mat2
    assert repr(tack.vec3) == "tack.vec3" and repr(tack.mat4) == "tack.mat4"
    assert repr(tack.vec(2, tack.u8)) == "tack.vec(2, u8)" and repr(tack.mat(2, 3)) == "tack.mat(2, 3, f32)"
    for wrong, kind in [((1,), ValueError), ((5,), ValueError), ((2.0,), TypeError), ((True,), TypeError)]:
        with pytest.raises(kind, match="2 to 4"):
            tack.vec(*wrong)
    with pytest.raises(TypeError, match="not a Tack dtype"):
        tack.vec(3, "f16")
    with pytest.raises(TypeError, match="no number type"):
        tack.vec(3, tack.vec3)
    with pytest.raises(TypeError, match="only inside a kernel"):
        tack.vec3(1, 2, 3)
    with pytest.raises(TypeError, match="works only inside a kernel"):
        tack.dot((1, 2), (3, 4))


def test_every_element_type_and_rank_has_its_own_key(device):
    """VEC-1, SPEC-2: codes of all types, ranks and shapes differ"""
    shapes = [(n,) for n in (2, 3, 4)] + [(r, c) for r in (2, 3, 4) for c in (2, 3, 4)]
    types = [tack.lang.types.shaped(t, s) for t in tack.lang.types.DTYPES for s in [(), *shapes]]
    keys = {tack.zeros((0,) * rank, t)._key for t, rank in itertools.product(types, (0, 1, 2))}
    assert len(types) == 130 and len(keys) == 390


def test_elements_are_read_and_set(device):
    """VEC-2, VEC-8: from sequences and numbers; converted as a cast would"""
    a = tack.zeros((2, 2), tack.vec(3, tack.u8))
    a[0, 1] = (1, 300, -1)
    a[3] = 7
    a[-2] = np.array([9, 8, 7])
    assert a.numpy().tolist() == [[[0, 0, 0], [1, 44, 255]], [[9, 8, 7], [7, 7, 7]]]
    element = a[0, 1]
    assert isinstance(element, np.ndarray) and element.tolist() == [1, 44, 255] and element.dtype == np.uint8
    element[0] = 99
    assert a[0, 1][0] == 1, "a copy"
    m = tack.zeros(2, tack.mat2)
    m[1] = [[1, 2], [3, 4]]
    assert m[1].tolist() == [[1, 2], [3, 4]] and m[0].tolist() == [[0, 0], [0, 0]]
    for wrong in ([1, 2], [[1, 2, 3]], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="an element is"):
            a[0] = wrong
    with pytest.raises(IndexError):
        a[4] = 1


def test_arrays_are_made_of_values(device):
    """VEC-2"""
    grid = np.arange(24).reshape(2, 4, 3)
    assert np.array_equal(tack.asarray(grid, tack.vec3).numpy(), grid)
    assert tack.asarray(grid, tack.mat(4, 3)).shape == (2,)
    assert tack.asarray([[1, 2], [3, 4]], tack.vec2).shape == (2,)
    assert tack.asarray([1, 2], tack.vec2).shape == ()
    assert tack.asarray(tack.asarray(grid), tack.vec3).dtype is tack.vec3
    same = tack.asarray(grid, tack.vec3)
    assert tack.asarray(same) is same and tack.asarray(same, tack.vec3) is same
    assert tack.full(2, (1, 2), tack.vec2).numpy().tolist() == [[1, 2], [1, 2]]
    assert tack.full(2, 5, tack.vec2).numpy().tolist() == [[5, 5], [5, 5]]
    assert tack.ones((), tack.mat2).numpy().tolist() == [[1, 1], [1, 1]]
    assert tack.zeros_like(same).dtype is tack.vec3
    assert tack.full_like(same, (1, 2, 3))[1, 2].tolist() == [1, 2, 3]
    for wrong in (np.zeros(4), np.zeros((3, 2)), [1, 2, 3]):
        with pytest.raises(ValueError, match="need values of shape"):
            tack.asarray(wrong, tack.vec4 if np.ndim(wrong) == 2 else tack.mat2)
    with pytest.raises(TypeError):
        tack.arange(3, dtype=tack.vec3)


def test_arrays_are_copied_and_converted(device):
    """VEC-2"""
    grid = np.arange(12).reshape(2, 2, 3) * 100
    a = tack.asarray(grid, tack.vec3)
    for b in (a.copy(), copy.deepcopy(a), a.astype(tack.vec3), a.reshape(4).copy().reshape(2, 2)):
        assert b.dtype is tack.vec3 and np.array_equal(b.numpy(), grid)
    small = a.astype(tack.vec(3, tack.u8))
    assert np.array_equal(small.numpy(), grid % 256) and small.dtype is tack.vec(3, tack.u8)
    assert a.reshape(-1).shape == (4,)
    a.fill((1, 2, 3))
    assert a.numpy().tolist() == [[[1, 2, 3]] * 2] * 2
    tack.copyto(a, grid)
    assert np.array_equal(a.numpy(), grid) and np.array_equal(np.asarray(a), grid)
    assert tack.concat([a, a], axis=-1).shape == (2, 4)
    assert [list(v) for v in a.reshape(4)] == grid.reshape(4, 3).tolist()
    for wrong in (tack.f32, tack.vec2, tack.mat3):
        with pytest.raises(TypeError, match="cannot become"):
            a.astype(wrong)
    with pytest.raises(ValueError, match="copyto"):
        tack.copyto(a, np.zeros((2, 2)))
    for reduction in (a.sum, a.min, a.max, a.mean, lambda: a.sum(reproducible=True)):
        with pytest.raises(TypeError, match=r"write a.numpy\(\)"):
            reduction()


# --- In memory ---


@pytest.mark.parametrize("dtype", element_types(), ids=str)
def test_elements_pass_through_a_kernel_bit_by_bit(device, dtype):
    """VEC-1, INT-7: loads and stores of every number type and shape"""
    a = values(dtype, -100, 120)
    assert np.array_equal(run("out[i] = a[i]", dtype, a=(dtype, a)), a)


def test_only_the_component_is_touched_in_memory(device):
    """VEC-5: each iteration writes one component of an element that all share"""
    out = tack.full(COUNT, (1, 2, 3), tack.vec3)
    body = "out[2][i % 3] += i\nout[3].y += 10\nout[i].z = out[i].z * 2\nout[0][0] -= 1"
    kernel(body, "n")(out, 0)
    expected = np.tile(np.array([1, 2, 3], np.float32), (COUNT, 1))
    for i in range(COUNT):
        expected[2, i % 3] += i
        expected[3, 1] += 10
        expected[i, 2] *= 2
        expected[0, 0] -= 1
    if device.name == "reference":  # its iterations run one after the other
        assert np.array_equal(out.numpy(), expected)
    separate = tack.full(COUNT, (1, 2, 3), tack.vec3)
    kernel("out[i].y += 5\nout[i][2], out[i].x = out[i].x, out[i][2]", "n")(separate, 0)
    assert separate.numpy().tolist() == [[3, 7, 1]] * COUNT


def test_indices_of_elements(device):
    """VEC-1, MEM-2: flat and one a dimension; extents count elements"""
    grid = np.arange(2 * 3 * 4 * 2, dtype=np.float32).reshape(2, 3, 4, 2)
    text = """
    @tack.kernel
    def k(a, out, flat, sizes):
        for i, j, l in tack.ndrange(a.shape[0], a.shape[1], a.shape[2]):
            out[i, j, l] = a[i, j, l] + [0, 100]
            flat[(i * a.shape[1] + j) * a.shape[2] + l] = a[(i * 3 + j) * 4 + l]
            sizes[0] = a.size
            sizes[1] = a.ndim
            sizes[2] = len(a)
    """
    a = tack.asarray(grid, tack.vec2)
    out, flat, sizes = tack.zeros((2, 3, 4), tack.vec2), tack.zeros((2, 3, 4), tack.vec2), tack.zeros(3, tack.i64)
    run_text(text)["k"](a, out, flat, sizes)
    assert np.array_equal(out.numpy(), grid + np.array([0, 100])) and np.array_equal(flat.numpy(), grid)
    assert sizes.numpy().tolist() == [24, 3, 2]


def test_the_same_kernel_takes_every_element_type(device):
    """SPEC-2, VEC-6: scalars and vectors of one rank never share code, also through the fast path of calls"""
    k = kernel("out[i] = a[i] + a[i]", "a")
    for _ in range(12):
        for dtype in (tack.f32, tack.vec2, tack.vec3, tack.vec(3, tack.f64), tack.mat2, tack.i32):
            a = values(dtype)
            out = tack.zeros(COUNT, dtype)
            k(out, tack.asarray(a, dtype))
            assert np.array_equal(out.numpy(), a + a)


def test_the_same_array_twice(device):
    """VEC-7, MEM-4: in place through an alias, components rotated"""
    a = values(tack.vec3)
    array = tack.asarray(a, tack.vec3)
    kernel("out[i] = [b[i].y, b[i].z, b[i].x]\nout[i].x += b[i].x", "b")(array, array)
    rotated = a[:, [1, 2, 0]]
    rotated[:, 0] *= 2
    assert np.array_equal(array.numpy(), rotated)


def test_a_number_fills_an_element(device):
    """VEC-8: evaluated once, converted to the number type"""
    assert run("out[i] = i - 2", tack.vec(3, tack.u8), s=1).tolist() == [[(i - 2) % 256] * 3 for i in range(COUNT)]
    assert run("out[i] = 2.75", tack.mat(2, 2, tack.i32), s=1)[1].tolist() == [[2, 2], [2, 2]]
    found = run("out[i] = tack.vec(2, tack.f64)(-1.5, 300.9)", tack.vec(2, tack.i16), s=1)
    assert found[0].tolist() == [-1, 300]


EFFECTS = """
@tack.func
def mark(log, value):
    k = log[0]
    log[k + 1] = value
    log[0] = k + 1
    return value

@tack.func
def marked(log, value):
    mark(log, value)
    return [value, value + 1]

@tack.func
def put(log, a, value):
    mark(log, value)
    a[0] = [value, value]
    return 1
"""


@pytest.mark.parametrize(
    ("body", "log", "out"),
    [
        ("out[0] = marked(log, 1) + marked(log, 2) * mark(log, 3)", [1, 2, 3], [1 + 2 * 3, 2 + 3 * 3]),
        ("out[0] = [mark(log, 1), mark(log, 2)] - marked(log, 3)", [1, 2, 3], [-2, -2]),
        ("out[mark(log, 2) - 2] = marked(log, 1)", [1, 2], [1, 2]),
        ("out[mark(log, 1) - 1][mark(log, 2) - 1] = mark(log, 3)", [3, 1, 2], [5, 3]),
        ("out[mark(log, 1) - 1] += marked(log, 2)", [1, 2], [7, 8]),
        ("out[mark(log, 1) - 1].y += mark(log, 2)", [1, 2], [5, 7]),
        ("out[0] += [put(log, out, 9), 1]", [9], [6, 6]),
        ("out[0] = out[0] + put(log, out, 9) + out[0]", [9], [15, 15]),
        ("x = out[0].x + tack.dot(marked(log, 1), [1, 1]) + put(log, out, 4)\nout[0] = x", [1, 4], [9, 9]),
        ("out[0] = marked(log, 1) if log[0] > 5 else marked(log, 7)", [7], [7, 8]),
        ("v = [1, 2]\nif log[0] > 5 and tack.all(marked(log, 1) == v):\n    v = [8, 8]\nout[0] = v", [], [1, 2]),
        ("v = [1, 2]\nif log[0] > 5 or tack.all(marked(log, 1) == v):\n    v = [8, 8]\nout[0] = v", [1], [8, 8]),
        ("v = [1, 2]\nif 0 < tack.dot(marked(log, 1), v) < mark(log, 9):\n    v = [8, 8]\nout[0] = v", [1, 9], [8, 8]),
        ("v, w = marked(log, 1), marked(log, 2)\nout[0] = v - w", [1, 2], [-1, -1]),
        ("out[0] = tack.select([1, 0], marked(log, 1), marked(log, 5))", [1, 5], [1, 6]),
        ("out[0] = marked(log, 3)[mark(log, 2) - 1] + [0, 1]", [3, 2], [4, 5]),
        ("marked(log, 4)\nout[0] = out[0]", [4], [5, 5]),
        ("assert tack.all(marked(log, 1) == marked(log, 2))\nout[0] = [7, 8]", [], [7, 8]),
    ],
)  # fmt: skip
def test_everything_is_evaluated_once_and_in_order(device, body, log, out):
    """VEC-7, EVAL-1 to EVAL-8, SYN-5: device functions that log their calls, against the order that Python has"""
    text = f"{EFFECTS}\n@tack.kernel\ndef k(out, log):\n    for i in range(1):\n"
    text += "\n".join("        " + line for line in body.splitlines()) + "\n"
    result, calls = tack.full(1, 5, tack.vec(2, tack.i32)), tack.zeros(20, tack.i32)
    run_text(text)["k"](result, calls)
    assert calls.numpy()[1 : calls[0] + 1].tolist() == log
    assert result[0].tolist() == out


def test_guards_prevent_loads_of_elements(device):
    """VEC-7, EVAL-9: an arm that is not chosen loads nothing: the index would be out of range"""
    a = values(tack.vec2)
    body = "v = a[i + 1] if i + 1 < a.size else tack.vec2(0)\n"
    body += "out[i] = v if i + 5 < a.size and a[i + 5].x > -100 else -v"
    nxt = np.vstack([a[1:], np.zeros((1, 2), np.float32)])
    expected = np.where((np.arange(COUNT) + 5 < COUNT)[:, None], nxt, -nxt)
    assert np.array_equal(run(body, tack.vec2, a=(tack.vec2, a)), expected)


# --- Atomics, local arrays, print ---


def test_atomics_are_one_operation_a_component(device):
    """VEC-12: sums over all iterations; old components; compare and swap by component"""
    cells = tack.zeros((2, 2), tack.vec(3, tack.i32))
    text = """
    @tack.kernel
    def k(cells, out, n):
        for i in range(n):
            tack.atomic_add(cells, (i % 2, 1), [1, i, 2])
            tack.atomic_max(cells, 0, tack.vec(3, tack.i32)(i, -i, 7))
    @tack.kernel
    def old(cells, out):
        for i in range(1):
            out[0] = tack.atomic_exchange(cells, 1, [10, 20, 30])
            out[1] = tack.atomic_cas(cells, 1, [10, 21, 30], 5)
            out[2] = tack.atomic_sub(cells, 1, 1) + 1000
    """
    space, n = run_text(text), 500
    out = tack.zeros(3, tack.vec(3, tack.i32))
    space["k"](cells, out, n)
    sums = [[n // 2, sum(range(k, n, 2)), n] for k in (0, 1)]
    assert cells.numpy()[:, 1].tolist() == sums
    assert cells[0].tolist() == [n - 1, 0, 7] and cells[2].tolist() == [0, 0, 0]
    space["old"](cells, out)
    assert out.numpy().tolist() == [sums[0], [10, 20, 30], [1005, 1020, 1005]]
    assert cells[1].tolist() == [4, 19, 4]


def test_local_arrays_of_vectors(device):
    """VEC-13, MEM-6: by element and component, through device functions, with their extents"""
    functions = """
    @tack.func
    def total(t):
        s = [0.0, 0.0]
        for j in range(t.shape[0]):
            for l in range(t.shape[1]):
                s += t[j, l]
        return s + [t.size, t.ndim]
    """
    body = """
    t = tack.local((3, 2), tack.vec2)
    for j in range(3):
        for l in range(2):
            t[j, l] = a[i] * j
            t[j, l].y += l
    t[5].x = len(t)
    out[i] = total(t) + t[i % 3, 1]
    """
    a = values(tack.vec2)
    expected = []
    for i in range(COUNT):
        t = np.zeros((3, 2, 2))
        for j in range(3):
            for m in range(2):
                t[j, m] = a[i] * j
                t[j, m, 1] += m
        t[2, 1, 0] = 3
        expected.append(t.sum((0, 1)) + [6, 2] + t[i % 3, 1])
    found = run(body, tack.vec2, textwrap.dedent(functions), a=(tack.vec2, a))
    assert np.array_equal(found, np.array(expected))


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_print(name, capfd):
    """VEC-13"""
    body = "if i == 0:\n    print('v =', tack.vec(2, tack.i32)(1, -2), [[1, 2], [3, 4]], a[i].x)"
    with tack.device(name):
        run(body, tack.f32, a=(tack.vec2, np.ones((COUNT, 2), np.float32)))
    tack.synchronize()
    assert capfd.readouterr().out.strip() == "v = [1, -2] [[1, 2], [3, 4]] 1.0"


def test_a_component_outside_of_an_array_is_noticed_by_the_reference():
    """VEC-1, MEM-3: the reference device counts elements"""
    with tack.device("reference"), pytest.raises(IndexError, match=r"\[6\] is out of range for `a`, whose extent is 6"):
        run("out[i] = a[i + 1]", tack.vec2, a=(tack.vec2, values(tack.vec2)))


# --- Mistakes ---

MISTAKES = [
    ("out[i] = a[i] + [1, 2]", TypeError, "`+`: a vec3 and a vec(2, i32) do not match", "equally many components"),
    ("out[i] = a[i] * tack.identity(3)", TypeError, "`*`: a vec3 and a mat3 do not match", "write `@`"),
    ("out[i] = m[i] + [1, 2, 3, 4]", TypeError, "a mat2 and a vec(4, i32) do not match", "write `@`"),
    ("out[i] = [1, 2]", TypeError, "an element of `out` is vec3, and this is vec(2, i32)", ""),
    ("s[i] = a[i]", TypeError, "an element of `s` is f32, and this is vec3", ""),
    ("out[i] = a[i].w", IndexError, "component 3 of tack.vec3 is out of range", "0 to 2"),
    ("out[i] = a[i][3]", IndexError, "component 3 of tack.vec3 is out of range", "0 to 2"),
    ("out[i] = a[i][-1]", IndexError, "component -1 of tack.vec3 is out of range", "do not wrap"),
    ("v = a[i]\nv[THREE] = 1", IndexError, "component 3 of tack.vec3 is out of range", ""),
    ("out[i] = m[i][0]", TypeError, "one index for tack.mat2", "`m[i, j]`"),
    ("out[i] = a[i][0, 1]", TypeError, "2 indices for tack.vec3", "`v[k]`"),
    ("out[i] = a[i][0.5]", TypeError, "a component index is an integer", "cast"),
    ("out[i] = s[i].x", TypeError, "this is a number, not an array or a vector", ""),
    ("out[i] = s[i][0]", TypeError, "this is a number, not an array or a vector", "`s[i, j]`"),
    ("s[i].x = 1", TypeError, "has no components", ""),
    ("x = 1.0\nx.y = 2", TypeError, "`x` is a number", ""),
    ("out[i].x = a[i]", TypeError, "a component is one number, and this is a vec3", ""),
    ("if a[i] > 0:\n    s[i] = 1", TypeError, "a vec(3, i32) is no condition", "tack.all"),
    ("while a[i] > 0:\n    s[i] = 1", TypeError, "a vec(3, i32) is no condition", "tack.any"),
    ("s[i] = 1 if a[i] == 0 else 2", TypeError, "is no condition", "tack.all"),
    ("s[i] = not a[i]", TypeError, "a vec3 is no condition", "tack.all"),
    ("s[i] = 0 < a[i] < 1", TypeError, "is no condition", "tack.all"),
    ("assert a[i] > 0", TypeError, "is no condition", "tack.all"),
    ("out[i] = a[i] if s[i] > 0 else 0.0", TypeError, "the arms of this conditional expression are", "one kind"),
    ("v = a[i]\nv = 0.0", TypeError, "`v` is f32 here and vec3", "keeps its shape"),
    ("v = a[i]\nv = [1.0, 2.0]", TypeError, "`v` is vec2 here and vec3", "keeps its shape"),
    ("out[i] = tack.cross([1, 2], [3, 4])", TypeError, "cross() takes two vectors of 3", ""),
    ("s[i] = tack.dot(a[i], 2)", TypeError, "dot() takes two vectors of one length", ""),
    ("s[i] = tack.determinant(a[i])", TypeError, "determinant() takes a square matrix, not a vec3", ""),
    ("out[i] = m[i] @ a[i]", TypeError, "`@` takes as many columns", ""),
    ("s[i] = s[i] @ s[i]", TypeError, "`@` takes as many columns", ""),
    ("s[i] = tack.any(s[i])", TypeError, "any() takes a vector, a matrix or a mask, not a number", ""),
    ("out[i] = tack.vec3(1, 2)", TypeError, "tack.vec3 of a number", "it takes 3 numbers"),
    ("out[i] = tack.vec3([1, 2])", TypeError, "tack.vec3 of a vec(2, i32)", "it takes 3 numbers"),
    ("m[i] = tack.mat2(1)", TypeError, "tack.mat2 of a number", "tack.identity(2) * x"),
    ("out[i] = [1]", TypeError, "a list of a number (i32) is no vector", "2 to 4"),
    ("out[i] = [1, 2, 3, 4, 5]", TypeError, "is no vector or matrix", "2 to 4"),
    ("out[i] = [a[i], 1]", TypeError, "is no vector or matrix", ""),
    ("out[i] = tack.identity(5)", TypeError, "identity() takes a constant integer from 2 to 4", ""),
    ("out[i] = tack.vec(5)(1)", ValueError, "2 to 4 numbers", "tack.vec(3, tack.f64)"),
    ("out[i] = a[i] & 1", TypeError, "`&` takes integers", "cast"),
    ("out[i] = s[a[i]]", TypeError, "an index is an integer, and this is a vec3", ""),
    ("for j in range(a[i]):\n    s[i] = 1", TypeError, "a bound of range() is an integer, and this is a vec3", ""),
    ("out[i] = a.x", TypeError, "`a` is an array", "read an element"),
    ("out[i] = LONG", NotImplementedError, "captured tuple `LONG` is not a number", "LONG[k]"),
    ("out[i] = tack.vec(3, tack.i32)(1, 2, 3) << 32", ValueError, "a shift of i32 by 32", "guard"),
    ("out[i] = tack.vec(3, tack.i32)(7) // [1, 0, 2]", ValueError, "by the constant zero", "guard"),
    ("tack.atomic_add(a, i, [1, 2])", TypeError, "an element of `a` is vec3, and this is vec(2, i32)", ""),
]


@pytest.mark.parametrize(("body", "kind", "message", "advice"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_mistakes(body, kind, message, advice):
    """VEC-3, VEC-4, VEC-5, VEC-6, VEC-9, VEC-10, VEC-11: refused with position and advice, before anything is stored"""
    arrays = [tack.full(COUNT, 3, t) for t in (tack.vec3, tack.vec3, tack.f32, tack.mat2)]
    with pytest.raises(kind) as caught:
        kernel(body, "a, s, m", LONG=(1, 2, 3, 4, 5), THREE=3)(*arrays)
    text = str(caught.value)
    assert message in text and advice in text, text
    assert ": in kernel `k`: " in text and "^" in text
    assert all((a.numpy() == 3).all() for a in arrays)


def test_kernels_take_and_return_numbers():
    """VEC-11"""
    text = "@tack.kernel\ndef k(a):\n    for i in range(1):\n        pass\n    return a[0]\n"
    with pytest.raises(TypeError, match="a kernel returns one number"):
        run_text(text)["k"](tack.zeros(3, tack.vec3))
    with pytest.raises(TypeError, match=r"parameter `v` of a kernel is annotated tack\.vec3; kernels take numbers"):
        kernel("out[i] = v", "v: tack.vec3")(tack.zeros(3, tack.vec3), 1)
    with pytest.raises(TypeError, match="parameter `v` was given"):
        kernel("out[i] = v", "v")(tack.zeros(3, tack.vec3), (1, 2, 3))


def test_a_component_assigned_in_one_loop_is_not_read_in_the_next():
    """VEC-11, LOOP-7"""
    text = """
    @tack.kernel
    def k(out):
        v = tack.vec2(1)
        for i in range(1):
            v.x = 2
        for i in range(1):
            out[i] = v
    """
    with pytest.raises(NameError, match="earlier parallel loop"):
        run_text(text)["k"](tack.zeros(1, tack.vec2))
