"""Matrices in kernels against NumPy and exact fractions (VEC-3 to VEC-7, VEC-10)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tack
from vector_rig import COUNT, run, values

MAT23, MAT32 = tack.mat(2, 3), tack.mat(3, 2)
TURN = ((0, -1), (1, 0))
SQUARES = [tack.mat2, tack.mat3, tack.mat4, tack.mat(3, 3, tack.f64)]


def exact_determinant(rows):
    """By elimination over fractions, unlike the kernel's expansion along a row."""
    rows = [[Fraction(float(x)) for x in row] for row in rows]
    result = Fraction(1)
    for k in range(len(rows)):
        pivot = next((r for r in range(k, len(rows)) if rows[r][k]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != k:
            rows[k], rows[pivot] = rows[pivot], rows[k]
            result = -result
        result *= rows[k][k]
        for r in range(k + 1, len(rows)):
            factor = rows[r][k] / rows[k][k]
            rows[r] = [x - factor * y for x, y in zip(rows[r], rows[k], strict=True)]
    return result


@pytest.mark.parametrize(
    ("expression", "out", "oracle"),
    [
        ("a[i] @ b[i]", tack.mat2, lambda a, b: a @ b),
        ("b[i] @ a[i]", tack.mat3, lambda a, b: b @ a),
        ("a[i] @ [1, 2, 3]", tack.vec2, lambda a, b: a @ np.array([1, 2, 3])),
        ("[1, 2] @ a[i]", tack.vec3, lambda a, b: np.array([1, 2]) @ a),
        ("TURN @ a[i]", MAT23, lambda a, b: np.array(TURN) @ a),
        ("tack.transpose(a[i])", MAT32, lambda a, b: a.swapaxes(1, 2)),
        ("a[i] + 2 * tack.transpose(b[i])", MAT23, lambda a, b: a + 2 * b.swapaxes(1, 2)),
        ("a[i] * a[i] - 1", MAT23, lambda a, b: a * a - 1),
        ("tack.trace(a[i] @ b[i])", tack.f32, lambda a, b: np.trace(a @ b, axis1=1, axis2=2)),
        ("tack.identity(2) * 3 + a[i] @ b[i]", tack.mat2, lambda a, b: 3 * np.eye(2) + a @ b),
        ("a[i][1, 2] + a[i][0, 0]", tack.f32, lambda a, b: a[:, 1, 2] + a[:, 0, 0]),
        ("a[i][i % 2, i % 3]", tack.f32, lambda a, b: a[range(COUNT), np.arange(COUNT) % 2, np.arange(COUNT) % 3]),
        ("tack.any(a[i] == 3) + 2 * tack.all(a[i] < 9)", tack.f32,
         lambda a, b: (a == 3).any((1, 2)) + 2 * (a < 9).all((1, 2))),
        ("tack.select(a[i] > 0, a[i], 0)", MAT23, lambda a, b: np.where(a > 0, a, 0)),
        ("tack.abs(a[i])", MAT23, lambda a, b: np.abs(a)),
    ],
)  # fmt: skip
def test_products_and_components(device, expression, out, oracle):
    """VEC-5, VEC-6, VEC-9, VEC-10: exact on whole numbers, against NumPy"""
    a, b = values(MAT23), values(MAT32)
    found = run(f"out[i] = {expression}", out, given={"TURN": TURN}, a=(MAT23, a), b=(MAT32, b))
    assert np.array_equal(found, oracle(a, b))


def test_the_oracle_tells_rows_from_columns(device):
    """The negative control: a transposed result is noticed."""
    a = values(tack.mat2)
    assert not np.array_equal(run("out[i] = tack.transpose(a[i])", tack.mat2, a=(tack.mat2, a)), a)
    assert exact_determinant([[1, 2], [3, 4]]) == -2 != exact_determinant([[2, 1], [4, 3]])


@pytest.mark.parametrize("dtype", SQUARES, ids=str)
def test_determinant_and_trace(device, dtype):
    """VEC-10: exact on small whole numbers, singular ones included"""
    a = values(dtype, -4, 5)
    a[0, 0] = a[0, 1]
    found = run("out[i] = tack.determinant(a[i])", tack.f64, a=(dtype, a))
    assert found.tolist() == [float(exact_determinant(m)) for m in a]
    assert np.array_equal(run("out[i] = tack.trace(a[i])", tack.f64, a=(dtype, a)), np.trace(a, axis1=1, axis2=2))


@pytest.mark.parametrize("dtype", SQUARES, ids=str)
def test_inverse(device, dtype):
    """VEC-10: the adjugate over the determinant: times the matrix it is the identity, to roundings"""
    n = dtype.shape[0]
    a = values(dtype) + 20 * np.eye(n, dtype=dtype.numpy)
    found = run("out[i] = tack.inverse(a[i])", dtype, a=(dtype, a)).astype(np.float64)
    np.testing.assert_allclose(found @ a, np.tile(np.eye(n), (COUNT, 1, 1)), atol=1e-5 if dtype.bits == 32 else 1e-13)


def test_inverse_of_integers_and_of_a_singular_matrix(device):
    """VEC-10, TDIV-4: floats; a zero determinant gives no number"""
    ints = tack.mat(2, 2, tack.i32)
    a = np.tile(np.array([[2, 1], [7, 4]], np.int32), (COUNT, 1, 1))
    assert run("out[i] = tack.inverse(a[i])", tack.mat2, a=(ints, a))[0].tolist() == [[4, -1], [-7, 2]]
    a = np.zeros((COUNT, 2, 2), np.float32)
    assert np.isnan(run("out[i] = tack.inverse(a[i])", tack.mat2, a=(tack.mat2, a))).all()


def test_integer_matrices_wrap(device):
    """VEC-6, VEC-10, INT-1: products and determinants modulo 2**bits"""
    dtype = tack.mat(2, 2, tack.u8)
    a = values(dtype, 0, 256)
    exact = a.astype(object)
    product = np.array([m @ m for m in exact])
    assert np.array_equal(run("out[i] = a[i] @ a[i]", dtype, a=(dtype, a)), (product % 256).astype(np.uint8))
    determinant = exact[:, 0, 0] * exact[:, 1, 1] - exact[:, 0, 1] * exact[:, 1, 0]
    found = run("out[i] = tack.determinant(a[i])", tack.u8, a=(dtype, a))
    assert found.tolist() == [d % 256 for d in determinant]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("tack.mat2(1, 2, 3, 4)", [[1, 2], [3, 4]]),
        ("tack.mat2([1, 2], [3, 4])", [[1, 2], [3, 4]]),
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("[v, 2 * v]", [[5, 6], [10, 12]]),
        ("TURN", [[0, -1], [1, 0]]),
        ("tack.mat2(tack.mat(2, 2, tack.i32)(1, 2, 3, 4))", [[1, 2], [3, 4]]),
        ("tack.identity(2)", [[1, 0], [0, 1]]),
        ("tack.outer(v, [1, 2])", [[5, 10], [6, 12]]),
    ],
)
def test_values_are_row_major(device, expression, expected):
    """VEC-1, VEC-3, VEC-4"""
    found = run(f"v = [5, 6]\nout[i] = {expression}", tack.mat2, given={"TURN": TURN}, s=1)
    assert np.array_equal(found, np.tile(np.array(expected, np.float32), (COUNT, 1, 1)))


def test_components_are_assigned(device):
    """VEC-5, VEC-7: constant and run-time indices; a copy is a copy"""
    a = values(MAT23)
    body = """
    m = a[i]
    w = m
    m[0, 1] = 40
    m[i % 2, i % 3] += 7
    m[1, 2], m[1, 0] = m[1, 0], m[1, 2]
    out[i] = m - w
    """
    m = a.copy()
    for i in range(COUNT):
        m[i, 0, 1] = 40
        m[i, i % 2, i % 3] += 7
        m[i, 1, 2], m[i, 1, 0] = m[i, 1, 0], m[i, 1, 2]
    assert np.array_equal(run(body, MAT23, a=(MAT23, a)), m - a)


def test_a_matrix_is_multiplied_in_place(device):
    """VEC-7: `m @= n` evaluates all of the product before it changes m"""
    a = values(tack.mat3, -3, 4)
    found = run("m = a[i]\nm @= a[i]\nout[i] = m\nout[i] @= a[i]", tack.mat3, a=(tack.mat3, a))
    assert np.array_equal(found, a @ a @ a)


def test_literals_of_matrices_meet_f64(device):
    """VEC-14: in products, identities and names"""
    dtype = tack.mat(2, 2, tack.f64)
    one = np.tile(np.eye(2), (COUNT, 1, 1))
    found = run("m = [[0.1, 0.2], [0.3, 0.4]]\nout[i] = a[i] @ m + (0.1 * tack.identity(2) - 0.1 * a[i])", dtype,
                a=(dtype, one))  # fmt: skip
    assert np.array_equal(found[0], [[0.1, 0.2], [0.3, 0.4]])
