"""`tack.block_sum`, `block_min`, `block_max`: types, identities, order, NaN, signed zeros (GRP-5, GRP-8 to GRP-10)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tack
from workgroup_rig import launch

TRIPS = (0, 1, 255, 256, 257, 1000)
F32 = np.float32


@tack.kernel
def all_three(a, sums, least, most):
    for i in range(a.shape[0]):
        s = tack.block_sum(a[i])
        lo = tack.block_min(a[i])
        hi = tack.block_max(a[i])
        sums[i] = s
        least[i] = lo
        most[i] = hi


@tack.kernel(group=32)
def small_groups(a, sums, least, most):
    for i in range(a.shape[0]):
        sums[i] = tack.block_sum(a[i])
        least[i] = tack.block_min(a[i])
        most[i] = tack.block_max(a[i])


KERNELS = {256: all_three, 32: small_groups}


def reduced(a, group=256):
    """What every lane got of each reduction."""
    out = [np.full(a.shape[0], 7, F32) for _ in range(3)]
    launch(KERNELS[group], a, *out)
    return out


def tree_sum(values, group):
    """The contract's order, in NumPy f32."""
    padded = np.zeros(group, F32)
    padded[: len(values)] = values
    while len(padded) > 1:
        half = len(padded) // 2
        padded = padded[:half] + padded[half:]
    return padded[0]


def bits(values):
    return np.asarray(values, F32).view(np.uint32).tolist()


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
@pytest.mark.parametrize("group", (256, 32))
def test_every_lane_gets_the_reduction_of_its_workgroup(device, n, group):
    """GRP-5, GRP-8, GRP-9: exactly, for integers that f32 holds."""
    a = np.random.default_rng(n).integers(-999, 999, n).astype(F32)
    sums, least, most = reduced(a, group)
    for start in range(0, n, group):
        part = a[start : start + group]
        lanes = slice(start, start + len(part))
        assert set(sums[lanes].tolist()) == {float(part.sum(dtype=np.float64))}
        assert set(least[lanes].tolist()) == {float(part.min())}
        assert set(most[lanes].tolist()) == {float(part.max())}


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (1, 31, 255, 256, 257, 1000))
@pytest.mark.parametrize("group", (256, 32))
def test_sums_have_the_bits_of_the_tree(device, n, group):
    """GRP-9: values of very different size, so that another order gives other bits; within RED-4's budget too."""
    rng = np.random.default_rng(n)
    a = (rng.standard_normal(n) * 10.0 ** rng.integers(-6, 7, n)).astype(F32)
    sums = reduced(a, group)[0]
    for start in range(0, n, group):
        part = a[start : start + group]
        assert bits(sums[start : start + 1]) == bits([tree_sum(part, group)])
        size = len(part) * 2.0**-24
        budget = size / (1 - size) * math.fsum(abs(float(x)) for x in part)
        assert abs(float(sums[start]) - math.fsum(map(float, part))) <= budget


def test_another_order_would_give_other_bits():
    """The negative control of the test before."""
    rng = np.random.default_rng(1000)
    a = (rng.standard_normal(256) * 10.0 ** rng.integers(-6, 7, 256)).astype(F32)
    serial = F32(0)
    for x in a:
        serial = F32(serial + x)
    assert bits([serial]) != bits([tree_sum(a, 256)])


NAN, INF = math.nan, math.inf
EXTREMA = [
    ([0.0, -0.0], -0.0, 0.0),
    ([-0.0, 0.0], -0.0, 0.0),
    ([-0.0, -0.0], -0.0, -0.0),
    ([0.0, 0.0], 0.0, 0.0),
    ([-0.0], -0.0, -0.0),
    ([0.0], 0.0, 0.0),
    ([1.0, NAN, 2.0], NAN, NAN),
    ([NAN], NAN, NAN),
    ([NAN, NAN], NAN, NAN),
    ([INF, NAN, -INF], NAN, NAN),
    ([INF, -INF, 1.0], -INF, INF),
    ([INF, INF], INF, INF),
    ([-INF], -INF, -INF),
    ([-3e38, -2e38], -3e38, -2e38),
    ([5.0] * 200 + [-0.0] + [0.0] * 55, -0.0, 5.0),
    ([0.0] * 255 + [-0.0], -0.0, 0.0),
    ([-0.0] * 255 + [0.0], -0.0, 0.0),
]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize(("values", "least", "most"), EXTREMA, ids=map(str, range(len(EXTREMA))))
def test_extrema_of_nan_infinities_and_zeros(device, values, least, most):
    """GRP-10, in every rotation of the values: the result depends on no order."""
    for turn in range(0, len(values), max(1, len(values) // 5)):
        a = np.roll(np.array(values, F32), turn)
        _, lo, hi = reduced(a)
        for got, want in ((lo, least), (hi, most)):
            if math.isnan(want):
                assert np.isnan(got).all()
            else:
                assert set(bits(got)) == set(bits([want]))


@pytest.mark.requires("workgroups")
def test_sums_of_nan_and_infinities(device):
    """GRP-9, RED-2."""
    for values, want in (([1.0, NAN], NAN), ([INF, -INF], NAN), ([INF, 1.0], INF), ([3e38, 3e38], INF)):
        got = float(reduced(np.array(values, F32))[0][0])
        assert got == want or (math.isnan(got) and math.isnan(want))


INTEGERS = (tack.i8, tack.u8, tack.i16, tack.u16, tack.i32, tack.u32, tack.i64, tack.u64)


@pytest.mark.parametrize("op", ("sum", "min", "max"))
@pytest.mark.parametrize("dtype", (*INTEGERS, tack.f64), ids=lambda t: t.name)
def test_other_types_are_refused(op, dtype):
    """GRP-8: only f32; the message shows the cast."""
    block = getattr(tack, f"block_{op}")

    @tack.kernel
    def k(a, out):
        for i in range(a.shape[0]):
            out[i] = block(a[i])

    a = np.zeros(4, dtype.numpy)
    with pytest.raises(TypeError) as caught:
        k(a, a.copy())
    assert f"block_{op}() takes f32, and this is {dtype.name}" in str(caught.value)
    assert f"block_{op}(tack.f32(x))" in str(caught.value)


def test_vectors_are_refused():
    """GRP-8: a vector of f32 is no f32; the message says what to write."""

    @tack.kernel
    def k(a):
        for i in range(a.shape[0]):
            a[i] = tack.block_max(a[i])

    with pytest.raises(TypeError, match=r"block_max\(\) takes f32, and this is a vec3(?s:.*)block_max\(v.x\)"):
        k(tack.zeros(4, tack.vec3))


@tack.kernel(group=8)
def with_casts(a, d, out):
    for i in range(a.shape[0]):
        out[i] = tack.block_sum(tack.f32(a[i])) + tack.block_max(tack.f32(d[i])) + tack.block_sum(0.5)


@pytest.mark.requires("workgroups", "f64")
def test_casts_and_literals_are_f32(device):
    """GRP-8: the advice of the message works, and a float literal is f32."""
    a, d, out = np.arange(8, dtype=np.int64), np.linspace(0, 1.75, 8), np.zeros(8, F32)
    launch(with_casts, a, d, out)
    assert out.tolist() == [28 + 1.75 + 4] * 8
