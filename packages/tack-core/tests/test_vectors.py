"""Vectors in kernels against NumPy at the same precision (VEC-3 to VEC-11, VEC-14)."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from kernel_text import run_text
from vector_rig import COUNT, run, values

F64_3 = tack.vec(3, tack.f64)
I32_3 = tack.vec(3, tack.i32)
LIGHT = (0.25, 0.5, 2.0)
TINY = (0.1, 0.2, 0.3)
INTEGERS = [tack.vec(n, t) for n, t in zip((2, 3, 4) * 3, tack.lang.types.INTEGER_DTYPES, strict=False)]


def wrapped(result, dtype):
    """Python integers modulo 2**bits, as an array of `dtype`."""
    return np.vectorize(dtype.wrap, otypes=[object])(result).astype(dtype.numpy)


ELEMENTWISE = [
    ("a[i] + b[i]", lambda a, b: a + b),
    ("a[i] - 2 * b[i]", lambda a, b: a - 2 * b),
    ("-a[i] * b[i]", lambda a, b: -a * b),
    ("3 - a[i]", lambda a, b: 3 - a),
    ("abs(a[i])", lambda a, b: np.abs(a)),
    ("min(a[i], b[i])", np.minimum),
    ("max(a[i], 2, b[i])", lambda a, b: np.maximum(np.maximum(a, 2), b)),
    ("tack.sqrt(a[i] * a[i])", lambda a, b: np.abs(a)),
    ("tack.floor(a[i] / 2)", lambda a, b: np.floor(a / 2)),
    ("tack.copysign(a[i], -1.0)", lambda a, b: np.copysign(a, -1)),
    ("tack.fma(a[i], b[i], 1.0)", lambda a, b: a * b + 1),
    ("a[i] // 4 + a[i] % 4", lambda a, b: np.floor_divide(a, 4) + np.mod(a, 4)),
    ("a[i] ** 2", lambda a, b: a * a),
    ("a[i].x * b[i]", lambda a, b: a[:, :1] * b),
    ("[b[i].x, a[i].y, 4]", lambda a, b: np.stack([b[:, 0], a[:, 1], np.full(COUNT, 4)], 1)),
    ("tack.i32(a[i]) * 2", lambda a, b: a * 2),
    ("a[i] if b[i].x > 0 else b[i]", lambda a, b: np.where(b[:, :1] > 0, a, b)),
    ("LIGHT * a[i]", lambda a, b: np.array(LIGHT) * a),
    ("a[i] + LIGHT.y + LIGHT[2]", lambda a, b: a + 2.5),
    ("tack.math.mix(a[i], b[i], 0.5)", lambda a, b: a * 0.5 + b * 0.5),
    ("tack.math.clamp(a[i], -2.0, LIGHT)", lambda a, b: np.minimum(np.maximum(a, -2), np.array(LIGHT))),
]


@pytest.mark.parametrize("dtype", [tack.vec3, F64_3], ids=str)
@pytest.mark.parametrize(("expression", "oracle"), ELEMENTWISE, ids=[e for e, _ in ELEMENTWISE])
def test_elementwise(device, dtype, expression, oracle):
    """VEC-4, VEC-6: by component, numbers broadcast, on data whose results are exact."""
    a, b = values(dtype), values(dtype)
    found = run(f"out[i] = {expression}", dtype, given={"LIGHT": LIGHT}, a=(dtype, a), b=(dtype, b))
    assert found.dtype == dtype.numpy
    assert np.array_equal(found, oracle(a.astype(np.float64), b.astype(np.float64)))


def test_the_oracle_tells_components_apart(device):
    """The negative control of the tests here: a swapped component is noticed."""
    a = values(tack.vec3)
    found = run("out[i] = [a[i].y, a[i].x, a[i].z]", tack.vec3, a=(tack.vec3, a))
    assert not np.array_equal(found, a)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_rules_by_component(device, dtype):
    """VEC-6, INT-1, IDIV-1, SHIFT-1, TYPE-3: as for numbers, on the extremes of each type"""
    number, n = dtype.number, dtype.count
    random = np.random.default_rng(n)
    edge = [number.min, number.max, number.min + 1, number.max - 1, 3, 7]
    a = random.choice(np.array(edge, dtype=object), (COUNT, n))
    b = random.choice(np.array([1, 2, 3, 5, number.max], dtype=object), (COUNT, n))
    arrays = {"a": (dtype, a.astype(number.numpy)), "b": (dtype, b.astype(number.numpy))}
    programs = {
        "a[i] + b[i]": a + b,
        "a[i] * b[i] - a[i]": a * b - a,
        "a[i] // b[i]": a // b,
        "a[i] % b[i]": a % b,
        "a[i] ^ b[i] | a[i]": (a ^ b) | a,
        "a[i] >> 3": a >> 3,
        "~a[i] << 1": ~a << 1,
        "b[i] ** 3": b**3,
    }
    for expression, exact in programs.items():
        found = run(f"out[i] = {expression}", dtype, **arrays)
        assert np.array_equal(found, wrapped(exact, number)), expression


def test_true_division_of_integers_is_f32(device):
    """VEC-6, TDIV-1"""
    a, b = values(I32_3), np.full((COUNT, 3), 7, np.int32)
    found = run("out[i] = a[i] / b[i]", F64_3, a=(I32_3, a), b=(I32_3, b))
    assert np.array_equal(found, (a.astype(np.float32) / np.float32(7)).astype(np.float64))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tack.vec3(1, 2.5, 3)", (1, 2.5, 3)),
        ("tack.vec3(7)", (7, 7, 7)),
        ("tack.vec(3, tack.i32)(1.9, -1.9, 3)", (1, -1, 3)),
        ("tack.vec(3, tack.u8)(300, 256, -1)", (44, 0, 255)),
        ("tack.vec3(tack.vec(3, tack.i32)(1, 2, 3))", (1, 2, 3)),
        ("MADE(1, 2, 3)", (1, 2, 3)),
        ("[1, 2, 3]", (1, 2, 3)),
        ("PAIR", None),
        ("LIGHT", LIGHT),
        ("LIGHT.z * [1, 2, 3]", (2, 4, 6)),
        ("-LIGHT", (-0.25, -0.5, -2.0)),
    ],
)
def test_values(device, expression, expected):
    """VEC-3, VEC-4"""
    given = {"LIGHT": LIGHT, "MADE": tack.vec(3, tack.i64), "PAIR": (1, 2)}
    if expected is None:
        with pytest.raises(TypeError, match="vec3, and this is vec"):
            run(f"out[i] = {expression}", tack.vec3, given=given, s=1)
        return
    found = run(f"out[i] = {expression}", tack.vec3, given=given, s=1)
    assert np.array_equal(found, np.tile(expected, (COUNT, 1)))


def test_components_are_read_and_assigned(device):
    """VEC-5: names, brackets and a run-time index; of locals, parameters and values"""
    a = values(tack.vec(4))
    body = """
    v: tack.vec(4, tack.f64) = a[i]
    j = i % 4
    v.x = v.w + 1
    v[1] = v[0] * 2
    v[j] += 10
    v.z -= v[j]
    out[i] = [v[j], (v + v)[2], v.y, v.x]
    """
    expected = []
    for i, row in enumerate(a.tolist()):
        j = i % 4
        row[0] = row[3] + 1
        row[1] = row[0] * 2
        row[j] += 10
        row[2] -= row[j]
        expected.append([row[j], row[2] * 2, row[1], row[0]])
    assert np.array_equal(run(body, tack.vec4, a=(tack.vec4, a)), np.array(expected, np.float32))


def test_assignment_copies(device):
    """VEC-7: `w = v` gives w components of its own, through device functions and tuples too"""
    functions = "@tack.func\ndef changed(v):\n    v.x = 100\n    v[1] = v.x\n    return v\n"
    body = """
    v = a[i]
    w = v
    w.x = 50
    p, q = v, w
    p.z = 7
    c = changed(v)
    out[i] = [v.x + v.z, w.x, q.x + c.y, p.z + c.x]
    """
    a = values(tack.vec3)
    found = run(body, tack.vec4, functions, a=(tack.vec3, a))
    expected = np.stack([a[:, 0] + a[:, 2], np.full(COUNT, 50), np.full(COUNT, 150), np.full(COUNT, 107)], 1)
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    "body",
    [
        "v = a[i]\nw = b[i]\nv = tack.cross(v, w)\nout[i] = v",
        "out[i] = a[i]\nout[i] = tack.cross(out[i], b[i])",
        "v = a[i]\nv.x, v.y, v.z = v.y, v.z, v.x\nw = b[i]\nw = [w.y, w.z, w.x]\n"
        "v = tack.cross(v, w)\nv = [v.z, v.x, v.y]\nout[i] = v",
        "v = a[i]\nw = b[i]\nv, w = w, v\nv, w = tack.cross(w, v), v\nout[i] = v",
    ],
)
def test_components_are_all_evaluated_before_any_is_assigned(device, body):
    """VEC-7: the cross product, written so that an early store would spoil it (case 34)"""
    a, b = values(tack.vec3), values(tack.vec3)
    found = run(body, tack.vec3, a=(tack.vec3, a), b=(tack.vec3, b))
    assert np.array_equal(found, np.cross(a, b))


def test_masks(device):
    """VEC-9"""
    a, b = values(tack.vec3), values(tack.vec3)
    arrays = {"a": (tack.vec3, a), "b": (tack.vec3, b)}
    less = a < b
    mask = run("out[i] = (a[i] < b[i]) + 2 * (a[i] != 0)", I32_3, **arrays)
    assert np.array_equal(mask, less + 2 * (a != 0))
    body = "m = a[i] < b[i]\nout[i] = tack.select(m, a[i], 9) + tack.any(m) * 100 + all(m) * 1000"
    expected = np.where(less, a, 9) + less.any(1, keepdims=True) * 100 + less.all(1, keepdims=True) * 1000
    assert np.array_equal(run(body, tack.vec3, **arrays), expected)
    both = run("out[i] = tack.select((a[i] < 0) & (b[i] < 0), 1.0, 0.0)", tack.vec3, **arrays)
    assert np.array_equal(both, (a < 0) & (b < 0))
    nan = np.array([[np.nan, 0], [0, 0]] * (COUNT // 2), np.float32)
    found = run("out[i] = tack.any(a[i]) + 2 * tack.all(a[i])", tack.f32, a=(tack.vec2, nan))
    assert found.tolist() == [1, 0] * (COUNT // 2)


def test_products_of_vectors(device):
    """VEC-10: exact on whole numbers"""
    a, b = values(tack.vec3), values(tack.vec3)
    arrays = {"a": (tack.vec3, a), "b": (tack.vec3, b)}
    dot = np.einsum("ij,ij->i", a, b)
    assert np.array_equal(run("out[i] = tack.dot(a[i], b[i])", tack.f32, **arrays), dot)
    assert np.array_equal(run("out[i] = a[i] @ b[i]", tack.f32, **arrays), dot)
    assert np.array_equal(run("out[i] = tack.cross(a[i], b[i])", tack.vec3, **arrays), np.cross(a, b))
    outer = run("out[i] = tack.outer(a[i], b[i])", tack.mat3, **arrays)
    assert np.array_equal(outer, np.einsum("ij,ik->ijk", a, b))


def test_lengths(device):
    """VEC-10: floats; whole hypotenuses are exact, the others to a few roundings"""
    a = np.array([[3, 4, 0], [2, 3, 6], [1, 4, 8], [-2, 6, -9], [0, 0, 5], [1, 2, 2]], np.float32)
    exact = np.sqrt((a.astype(np.float64) ** 2).sum(1))
    assert np.array_equal(run("out[i] = tack.length(a[i])", tack.f32, a=(tack.vec3, a)), exact)
    ints = (I32_3, a.astype(np.int32))
    assert np.array_equal(run("out[i] = tack.length(a[i])", tack.f32, a=ints), exact)
    assert np.array_equal(run("out[i] = tack.distance(a[i], 2 * a[i])", tack.f32, a=ints), exact)
    unit = run("out[i] = tack.normalize(a[i])", tack.vec3, a=(tack.vec3, a))
    np.testing.assert_allclose(unit, a / exact[:, None], rtol=3e-7)
    n = unit.astype(np.float64)
    mirrored = run("out[i] = tack.reflect([1.0, 2.0, 3.0], tack.normalize(a[i]))", tack.vec3, a=(tack.vec3, a))
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(mirrored, v - 2 * (n @ v)[:, None] * n, rtol=1e-5, atol=1e-5)
    zero = run("out[i] = tack.normalize(a[i])", tack.vec3, a=(tack.vec3, np.zeros((COUNT, 3), np.float32)))
    assert np.isnan(zero).all()


def test_sums_run_in_index_order(device):
    """VEC-10, FLT-2: (1e8 + -1e8) + 1 is 1, and every other order gives 0"""
    a = np.tile(np.array([1e8, -1e8, 1.0], np.float32), (COUNT, 1))
    assert run("out[i] = tack.dot(a[i], [1.0, 1.0, 1.0])", tack.f32, a=(tack.vec3, a)).tolist() == [1.0] * COUNT


def test_literals_meet_the_precision_of_the_components(device):
    """VEC-14, LIT-5: 0.1 beside f64 is the f64 nearest 0.1, in lists, numbers and captured tuples"""
    a = np.zeros((COUNT, 3))
    wide = np.array(TINY)
    for expression in (
        "a[i] + [0.1, 0.2, 0.3]",
        "TINY + a[i]",
        "[a[i].x + 0.1, 0.2, 0.3]",
        "[0.1, 0.2, 0.3]",
        "v",
        "w",
    ):
        body = f"v = [0.1, 0.2, 0.3]\nw = TINY\nout[i] = {expression}"
        found = run(body, F64_3, given={"TINY": TINY}, a=(F64_3, a))
        assert np.array_equal(found[0], wide), expression
    assert run("out[i] = a[i] + 0.1", F64_3, a=(F64_3, a))[0, 0] == 0.1
    narrow = run("out[i] = tack.vec3(0.1, 0.2, 0.3)", F64_3, a=(F64_3, a))[0]
    assert np.array_equal(narrow, wide.astype(np.float32).astype(np.float64))
    small = run("v = [0.1, 0.2, 0.3]\nout[i] = v", tack.vec3, a=(tack.vec3, a))[0]
    assert np.array_equal(small, wide.astype(np.float32))


FUNCTIONS = """
@tack.func
def scaled(v, s: tack.f32):
    v *= s
    return v

@tack.func
def pair(v, w):
    if v.x > w.x:
        return v, tack.dot(v, w)
    return w, 0.0

@tack.func
def pick(v, k):
    return v[k]

@tack.func
def pinned(v: tack.vec3):
    return v / 2

@tack.func
def row(m, k):
    return [m[k, 0], m[k, 1]]
"""


def test_device_functions(device):
    """VEC-11, FUNC-3: parameters and results by value, several results, brackets on parameters"""
    a, b = values(tack.vec3), values(tack.vec3)
    arrays = {"a": (tack.vec3, a), "b": (tack.vec3, b)}
    body = """
    v, d = pair(a[i], b[i])
    out[i] = scaled(v, 3) + d + pick(a[i], i % 3) + pick(v + v, 1) + v.y
    """
    first = a[:, :1] > b[:, :1]
    v = np.where(first, a, b)
    d = np.where(first[:, 0], np.einsum("ij,ij->i", a, b), 0)
    scalar = d + a[np.arange(COUNT), np.arange(COUNT) % 3] + 2 * v[:, 1] + v[:, 1]
    assert np.array_equal(run(body, tack.vec3, FUNCTIONS, **arrays), v * 3 + scalar[:, None])
    ints = values(I32_3)
    found = run("out[i] = pinned(a[i])", tack.vec3, FUNCTIONS, a=(I32_3, ints))
    assert np.array_equal(found, ints.astype(np.float32) / 2)
    m = values(tack.mat2)
    assert np.array_equal(run("out[i] = row(a[i], 1)", tack.vec2, FUNCTIONS, a=(tack.mat2, m)), m[:, 1])


def test_captured_tuples_as_arguments(device):
    """VEC-4, CAP-6: a vector by value, but a table where the function asks for extents"""
    functions = """
@tack.func
def of_vector(v, k):
    w = v * 2
    v[0] = 10
    return v.x + v[k] + w.y

@tack.func
def of_table(t, k):
    return t[k] + len(t)
"""
    body = "out[i] = of_vector(LIGHT, i % 3) + of_table(LIGHT, i % 3) + of_vector([1, 2, 3], 1)"
    found = run(body, tack.f32, functions, given={"LIGHT": LIGHT}, s=1)
    changed = (10, *LIGHT[1:])
    assert found.tolist() == [10 + changed[i % 3] + 1.0 + LIGHT[i % 3] + 3 + (10 + 2 + 4) for i in range(COUNT)]


def test_results_of_kernels_from_vectors(device):
    """VEC-11, CALL-2: after the loops, with statements of its own; loads before the loops too"""
    text = """
    @tack.kernel
    def k(a, b, n):
        g = (b[0] + b[1]) * n
        for i in range(a.size):
            a[i] = g * i
        return tack.length(a[2]) + tack.dot(tack.normalize(a[1]), a[1])
    """
    b = tack.asarray([[1, 2, 0], [0, 0, 2]], tack.vec3)
    assert run_text(text)["k"](tack.zeros(3, tack.vec3), b, 2) == pytest.approx(12 + 6, rel=1e-6)


def test_shared_arrays_and_block_sums(device):
    """VEC-13, GRP-2, GRP-8"""
    text = """
    @tack.kernel(group=4)
    def k(a, out, sums):
        for i in range(a.size):
            t = tack.shared(4, tack.vec3)
            k = tack.thread_id()
            t[k] = a[i] * 2.0
            tack.barrier()
            out[i] = t[3 - k] + 1.0
            sums[i] = tack.block_sum(tack.dot(a[i], a[i]))
    """
    a = np.arange(24, dtype=np.float32).reshape(8, 3)
    out, sums = tack.zeros(8, tack.vec3), tack.zeros(8)
    run_text(text)["k"](tack.asarray(a, tack.vec3), out, sums)
    assert np.array_equal(out.numpy(), (2 * a).reshape(2, 4, 3)[:, ::-1].reshape(8, 3) + 1)
    assert np.array_equal(sums.numpy(), np.repeat((a * a).sum(1).reshape(2, 4).sum(1), 4))


def test_locals_outside_of_the_loops_and_through_them(device):
    """VEC-11, LOOP-4: each iteration starts from the value before its loop"""
    text_loop = """
@tack.kernel
def k(out, s):
    g = tack.vec3(1, 2, s)
    h: tack.vec3 = [3, 4, 5]
    h.y = g.z
    for i in range(out.shape[0]):
        g.x += i
        out[i] = g + h
    for i in range(out.shape[0]):
        out[i] += h
"""
    out = tack.zeros(4, tack.vec3)
    run_text(text_loop)["k"](out, 7)
    expected = np.array([[1 + i + 6, 2 + 14, 7 + 10] for i in range(4)], np.float32)
    assert np.array_equal(out.numpy(), expected)


def test_loops_and_branches_carry_vectors(device):
    """VEC-7: in `while`, `for`, `if`, `break`; conditions that need statements"""
    functions = "@tack.func\ndef half(v):\n    return v * 0.5\n"
    body = """
    v = a[i]
    n = 0
    while tack.length(half(v)) > 1.0 and n < 20:
        v = half(v)
        n += 1
        if n == 3:
            break
    for k in range(3):
        if tack.dot(half(v), v) < 0.5 or k == 2:
            continue
        v += [1.0, 0.0, -1.0]
    out[i] = v
    """
    a = values(tack.vec3) * 16
    expected = []
    for v in a.astype(np.float64):
        n = 0
        while np.sqrt((v * 0.5) @ (v * 0.5)) > 1 and n < 20:
            v = v * 0.5
            n += 1
            if n == 3:
                break
        for k in range(3):
            if (v * 0.5) @ v < 0.5 or k == 2:
                continue
            v = v + [1, 0, -1]
        expected.append(v)
    assert np.array_equal(run(body, tack.vec3, functions, a=(tack.vec3, a)), np.array(expected))
