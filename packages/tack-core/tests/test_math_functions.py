"""`tack.math` (rule MATH-5): each function by its definition, computed by NumPy at the same precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tack

VALUES = [-7.75, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 0.999, 1.0, 2.5, 181.0, math.inf, -math.inf, math.nan]


@tack.kernel
def all_of(x, out):
    for i in range(x.shape[0]):
        out[0, i] = tack.math.fract(x[i])
        out[1, i] = tack.math.mix(x[i], 3.0, 0.25)
        out[2, i] = tack.math.clamp(x[i], -1, 2)
        out[3, i] = tack.math.saturate(x[i])
        out[4, i] = tack.math.smoothstep(-1.0, 2.0, x[i])
        out[5, i] = tack.math.step(0.5, x[i])
        out[6, i] = tack.math.sign(x[i])
        out[7, i] = tack.math.radians(x[i])
        out[8, i] = tack.math.degrees(x[i])
        out[9, i] = math.radians(x[i]) - np.deg2rad(x[i])


def expected(x: np.ndarray) -> list[np.ndarray]:
    kind = x.dtype.type
    t = np.fmin(np.fmax((x + kind(1)) / kind(3), kind(0)), kind(1))
    return [
        x - np.floor(x),
        x * kind(0.75) + kind(3) * kind(0.25),
        np.fmin(np.fmax(x, kind(-1)), kind(2)),
        np.fmin(np.fmax(x, kind(0)), kind(1)),
        t * t * (kind(3) - kind(2) * t),
        np.where(x < kind(0.5), kind(0), kind(1)),
        np.sign(x),
        np.deg2rad(x),
        np.rad2deg(x),
        np.where(np.isfinite(x), kind(0), kind(math.nan)),
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_floats(dtype, device):
    """MATH-5: within two roundings, since a product and a sum may be fused."""
    x = np.array(VALUES, dtype)
    out = np.full((10, x.size), 99, dtype)
    all_of(x, out)
    for row, want in zip(out, expected(x), strict=True):
        np.testing.assert_allclose(row, want, rtol=2 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
    with pytest.raises(AssertionError):  # the negative control: rows differ from each other
        np.testing.assert_allclose(out[7], out[8], rtol=1e-3)


@tack.kernel
def of_integers(x, out):
    for i in range(x.shape[0]):
        x[i] = tack.math.sign(x[i])
        out[i] = tack.math.radians(180) + 3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_integers(dtype, device):
    """MATH-5, LIT-10: the sign has the integer's type; literals stay weak through a call."""
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, limits.max], dtype)
    signs = np.sign(x).tolist()
    out = np.zeros(4)
    of_integers(x, out)
    assert x.tolist() == signs
    assert out.tolist() == [180 * 0.017453292519943295 + 3] * 4


@tack.kernel
def numpy_minimum(a, out):
    for i in range(out.shape[0]):
        out[i] = np.minimum(a[i], 1.0)


def test_numpy_minimum_is_refused(device):
    """FLT-6: np.minimum gives the NaN where min gives the number, so it must not silently mean min."""
    with pytest.raises(tack.UnsupportedSyntaxError, match=r"write min or max, .* np\.fmin"):
        numpy_minimum(np.ones(3), np.ones(3))
