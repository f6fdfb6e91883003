"""Arrays that a loop only counts in: the same numbers from copies of each chunk as from atomics (ATOM-*, LOOP-4)."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import tack
from tack.codegen.llvm_counters import counters
from tack.lang.ir import IRParallelFor
from tack.runtime.compilation import type_kernel
from tack.runtime.dispatch import prepare

pytest.importorskip("llvmlite")
OPS = {
    "add": np.add,
    "sub": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
DTYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"]


@tack.kernel
def add(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_add(h, x[i], v[i])


@tack.kernel
def sub(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_sub(h, x[i], v[i])


@tack.kernel
def lowest(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_min(h, x[i], v[i])


@tack.kernel
def highest(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_max(h, x[i], v[i])


@tack.kernel
def both(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_and(h, x[i], v[i])


@tack.kernel
def either(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_or(h, x[i], v[i])


@tack.kernel
def odd(h, x, v):
    for i in range(x.shape[0]):
        tack.atomic_xor(h, x[i], v[i])


KERNELS = dict(zip(OPS, (add, sub, lowest, highest, both, either, odd), strict=True))


def numbers(dtype, count, rng):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, count, dtype, endpoint=True)


def known(kernel, *args):
    """The counters that the generator finds in the first loop."""
    lowering, call = prepare(kernel).bind(args, {})
    typed = type_kernel(lowering.ir, call.values)
    loop = next(s for s in typed.body if isinstance(s, IRParallelFor))
    return [(c.name, c.op) for c in counters(loop, typed)]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DTYPES)
def test_every_operation_and_type(op, name):
    """Against NumPy, modulo 2**N; so many elements and iterations that copies are used, and so few that they are not.
    The last size has more bytes than a copy may have."""
    dtype, rng = np.dtype(getattr(tack, name).numpy), np.random.default_rng(7)
    for cells, count in ((1, 1), (1, 5000), (100, 3000), (100, 100_000), (7, 250_001), (1 << 15, 40_000)):
        h, x = numbers(dtype, cells, rng), rng.integers(0, cells, count, np.int32)
        v = numbers(dtype, count, rng)
        want = h.copy()
        OPS[op].at(want, x, v)
        KERNELS[op](h, x, v)
        assert np.array_equal(h, want), (cells, count)


def test_several_counters_of_several_ranks_and_types():
    """A grid of counters, a count and a maximum; what is in the arrays before stays in."""

    @tack.kernel
    def count(grid, seen, most, x):
        for i, j in tack.ndrange(x.shape[0], x.shape[1]):
            tack.atomic_add(grid, (x[i, j] // 4, x[i, j] % 4), 2)
            if x[i, j] > 3:
                tack.atomic_sub(seen, 0, 1)
                tack.atomic_add(seen, 0, 3)
            tack.atomic_max(most, j % 3, x[i, j] * x[i, j])

    rng = np.random.default_rng(3)
    x = rng.integers(0, 16, (300, 700), np.int32)
    grid, seen, most = np.full((4, 4), 5, np.int64), np.zeros(1, np.uint8), np.full(3, -1, np.int32)
    assert known(count, grid, seen, most, x) == [("grid", "add"), ("seen", "add"), ("most", "max")]
    count(grid, seen, most, x)
    assert np.array_equal(grid, 5 + 2 * np.bincount(x.ravel(), minlength=16).reshape(4, 4))
    assert seen[0] == 2 * np.count_nonzero(x > 3) % 256
    assert most.tolist() == [int(x[:, k::3].max()) ** 2 for k in range(3)]


def test_device_functions_and_many_threads():
    """A count in a device function is not found, and is right all the same."""

    @tack.func
    def note(h, k):
        tack.atomic_add(h, k, 1)

    @tack.kernel
    def count(h, x):
        for i in range(x.shape[0]):
            note(h, x[i] & 7)

    x, h = np.arange(100_000, dtype=np.int32), np.zeros(8, np.int32)
    assert known(count, h, x) == []
    count(h, x)
    assert h.tolist() == [12_500] * 8


@pytest.mark.parametrize(
    "body",
    [
        "y[i] = tack.atomic_add(h, x[i], 1)",  # the old value is wanted
        "tack.atomic_add(h, x[i], 1); y[i] = h[0]",
        "tack.atomic_add(h, x[i], 1); h[1] = 3",
        "tack.atomic_add(h, x[i], 1); tack.atomic_max(h, x[i], 1)",
        "tack.atomic_exchange(h, x[i], 1)",
        "tack.atomic_cas(h, x[i], 1, 2)",
        "tack.atomic_add(y, x[i], 1.5)",
    ],
)
def test_arrays_that_are_more_than_counters(body):
    """Whatever else reads or writes the array, an operation that does not commute, floats."""
    name = f"<counters {body}>"
    lines = "".join(f"        {part.strip()}\n" for part in body.split(";"))
    text = f"import tack\n@tack.kernel\ndef k(h, x, y):\n    for i in range(x.shape[0]):\n{lines}"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {}
    exec(compile(text, name, "exec"), space)
    x, h, y = np.zeros(9, np.int32), np.zeros(4, np.int32), np.zeros(9, np.float32)
    assert known(space["k"], h, x, y) == []
    space["k"](h, x, y)


def test_an_array_that_overlaps_another_argument():
    """MEM: the loop counts in the array that it reads; no copy would do."""

    @tack.kernel
    def count(h, x):
        for i in range(1):
            for _ in range(50):
                tack.atomic_add(h, 0, x[0])

    h = np.ones(4, np.int64)
    count(h, h)
    assert h.tolist() == [1 << 50, 1, 1, 1]
