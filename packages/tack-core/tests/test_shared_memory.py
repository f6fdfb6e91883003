"""Shared arrays at work: transposes, matrix products, histograms, independence of arrays (GRP-2, GRP-4, GRP-12)."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from workgroup_rig import launch

TILE = 16


@tack.kernel
def transpose(a, out, rows, columns):
    tile = tack.shared((TILE, TILE), tack.i32)
    for i in range(rows * columns * 256):
        lane = tack.thread_id()
        y = lane // TILE
        x = lane % TILE
        r = i // 256 // columns * TILE
        c = i // 256 % columns * TILE
        tile[y, x] = a[r + y, c + x]
        tack.barrier()
        out[c + y, r + x] = tile[x, y]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("tiles", [(1, 1), (2, 3)])
def test_tiled_transpose(device, tiles):
    """GRP-2, GRP-4, case 26."""
    a = np.random.default_rng(1).integers(-9999, 9999, (TILE * tiles[0], TILE * tiles[1])).astype(np.int32)
    out = np.zeros(a.shape[::-1], np.int32)
    launch(transpose, a, out, *tiles)
    assert np.array_equal(out, a.T)


@tack.kernel
def ragged_transpose(a, out):
    tile = tack.shared((16, 17), tack.f32)
    rows = a.shape[0]
    columns = a.shape[1]
    across = (columns + 15) // 16
    for i in range((rows + 15) // 16 * ((columns + 15) // 16) * 256):
        lane = tack.thread_id()
        y = lane >> 4
        x = lane & 15
        r = i // 256 // across * 16
        c = i // 256 % across * 16
        if r + y < rows and c + x < columns:
            tile[y, x] = a[r + y, c + x]
        tack.barrier()
        if c + y < columns and r + x < rows:
            out[c + y, r + x] = tile[x, y]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("shape", [(1, 1), (16, 16), (17, 5), (30, 33)])
def test_transpose_of_any_shape(device, shape):
    """GRP-4: lanes outside the array still come to the barrier."""
    a = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    out = np.zeros(shape[::-1], np.float32)
    launch(ragged_transpose, a, out)
    assert np.array_equal(out, a.T)


@tack.kernel
def product(a, b, c, tiles):
    for i in range(tiles * tiles * 256):
        left = tack.shared((TILE, TILE), tack.i64)
        right = tack.shared((TILE, TILE), tack.i64)
        lane = tack.thread_id()
        y = lane // TILE
        x = lane % TILE
        row = i // 256 // tiles * TILE + y
        column = i // 256 % tiles * TILE + x
        total = tack.i64(0)
        for t in range(tiles):
            left[y, x] = a[row, t * TILE + x]
            right[y, x] = b[t * TILE + y, column]
            tack.barrier()
            for k in range(TILE):
                total += left[y, k] * right[k, x]
            tack.barrier()
        c[row, column] = total


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("tiles", (1, 2))
def test_tiled_matrix_product(device, tiles):
    """GRP-2, GRP-6, GRP-12: exact, in integers."""
    rng, n = np.random.default_rng(3), TILE * tiles
    a, b = (rng.integers(-(2**20), 2**20, (n, n)) for _ in range(2))
    c = np.zeros((n, n), np.int64)
    launch(product, a, b, c, tiles)
    assert np.array_equal(c, a @ b)


@tack.kernel(group=64)
def histogram(values, counts):
    bins = tack.shared(16, tack.i32)
    for i in range(values.shape[0]):
        t = tack.thread_id()
        if t < 16:
            bins[t] = 0
        tack.barrier()
        tack.atomic_add(bins, values[i], 1)
        tack.barrier()
        if t < 16:
            tack.atomic_add(counts, t, bins[t])


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (16, 64, 1000, 1040))
def test_histogram_in_shared_memory(device, n):
    """GRP-2, ATOM-6: a last workgroup of 16 or more lanes clears and adds every bin."""
    n = n // 16 * 16
    values = np.random.default_rng(n).integers(0, 16, n).astype(np.int32)
    counts = np.zeros(16, np.int64)
    whole = n if n % 64 >= 16 or n % 64 == 0 else n - n % 64
    launch(histogram, values[:whole].copy(), counts)
    assert counts.tolist() == np.bincount(values[:whole], minlength=16).tolist()


@tack.kernel(group=8)
def two_arrays(a, out):
    for i in range(a.shape[0]):
        first = tack.shared(8, tack.i32)
        second = tack.shared(8, tack.i32)
        t = tack.thread_id()
        first[t] = a[i]
        second[t] = -a[i] - 1
        tack.barrier()
        out[i] = first[7 - t] * 1000 + second[t]


@tack.kernel(group=8)
def one_wide_array(a, out):
    for i in range(a.shape[0]):
        first = tack.shared((2, 8), tack.f32)
        t = tack.thread_id()
        first[0, t] = a[i]
        first[1, t] = 0.5
        tack.barrier()
        out[i] = first[0, 7 - t] + first[1, 7 - t]


@pytest.mark.requires("workgroups")
def test_two_shared_arrays_are_independent(device):
    """GRP-2, case 26: within a kernel, and from the kernel that runs next."""
    a = np.arange(16, dtype=np.int32)
    for _ in range(2):
        out, floats = np.zeros(16, np.int32), np.zeros(16, np.float32)
        launch(two_arrays, a, out)
        launch(one_wide_array, a, floats)
        mirrored = a.reshape(2, 8)[:, ::-1].reshape(-1)
        assert out.tolist() == (mirrored * 1000 - a - 1).tolist()
        assert floats.tolist() == (mirrored + 0.5).tolist()


DTYPES = (tack.i8, tack.u8, tack.i16, tack.u16, tack.i32, tack.u32, tack.i64, tack.u64, tack.f32, tack.f64)


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_shared_arrays_of_every_type(device, dtype):
    """GRP-2: a store converts to the element type, as to any array."""
    if not device.supports_dtype(dtype):
        pytest.skip(f"no {dtype.name}")

    @tack.kernel(group=16)
    def mirrored(a, out):
        buf = tack.shared(16, dtype)
        for i in range(a.shape[0]):
            t = tack.thread_id()
            buf[t] = a[i]
            tack.barrier()
            out[i] = buf[15 - t]

    a = np.random.default_rng(5).integers(-(2**40), 2**40, 32)
    out = np.zeros(32, dtype.numpy)
    launch(mirrored, a, out)
    assert np.array_equal(out, a.reshape(2, 16)[:, ::-1].reshape(-1).astype(dtype.numpy))


@tack.kernel(group=8)
def scan(a, out):
    buf = tack.shared((2, 8), tack.i32)
    for i in range(a.shape[0]):
        t = tack.thread_id()
        source = 0
        buf[0, t] = a[i]
        tack.barrier()
        for step in range(3):
            reach = 1 << step
            value = buf[source, t]
            if t >= reach:
                value += buf[source, t - reach]
            source = 1 - source
            buf[source, t] = value
            tack.barrier()
        out[i] = buf[source, t]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (0, 1, 5, 8, 21))
def test_scan_in_shared_memory(device, n):
    """GRP-4, GRP-5, GRP-12: a uniform local picks the array's half."""
    a = np.random.default_rng(n).integers(-100, 100, n).astype(np.int32)
    out = np.zeros(n, np.int32)
    launch(scan, a, out)
    want = [np.cumsum(a[k : k + 8]).tolist() for k in range(0, n, 8)]
    assert out.tolist() == [x for part in want for x in part]


@tack.kernel
def outside(a):
    buf = tack.shared(8, tack.i32)
    x = buf[0]
    for i in range(a.shape[0]):
        a[i] = x


@tack.kernel
def under_an_if(a):
    for i in range(a.shape[0]):
        if i > 3:
            buf = tack.shared(8, tack.i32)
            buf[0] = 1


@tack.kernel
def in_a_loop(a):
    for i in range(a.shape[0]):
        for _ in range(3):
            buf = tack.shared(8, tack.i32)
            buf[0] = 1


@tack.kernel
def of_a_size(a, n):
    buf = tack.shared(n, tack.i32)
    for i in range(a.shape[0]):
        buf[0] = a[i]


@tack.func
def declares():
    buf = tack.shared(8, tack.i32)
    buf[0] = 1
    return buf[0]


@tack.kernel
def through_a_function(a):
    for i in range(a.shape[0]):
        a[i] = declares()


@tack.kernel
def barrier_outside(a):
    tack.barrier()
    for i in range(a.shape[0]):
        a[i] = 1


@tack.kernel
def as_a_value(a):
    for i in range(a.shape[0]):
        a[i] = tack.barrier()


REFUSED = [
    (outside, (), "a load from a shared array outside the parallel loops is not supported"),
    (under_an_if, (), "`tack.shared` under an `if` or in an inner loop is not supported"),
    (in_a_loop, (), "`tack.shared` under an `if` or in an inner loop is not supported"),
    (of_a_size, (4,), "the shape of a shared array must be constant"),
    (through_a_function, (), "`tack.shared` in a device function is not supported"),
    (barrier_outside, (), "`tack.barrier` outside the parallel loops is not supported"),
    (as_a_value, (), "`tack.barrier` gives no value"),
]


@pytest.mark.parametrize(("kernel", "more", "text"), REFUSED, ids=lambda x: getattr(x, "__name__", None))
def test_where_shared_arrays_and_barriers_cannot_be(kernel, more, text):
    """GRP-2, GRP-4, SYN-1."""
    with pytest.raises(tack.UnsupportedSyntaxError) as caught:
        kernel(np.zeros(4, np.int32), *more)
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ("shared", "thread_id", "barrier", "block_sum", "block_min", "block_max"))
def test_they_work_in_kernels_only(name):
    """GRP-2 to GRP-8: on the host they say so."""
    with pytest.raises(TypeError, match="works only inside a kernel"):
        getattr(tack, name)()
