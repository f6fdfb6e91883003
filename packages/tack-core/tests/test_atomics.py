"""Atomics: every operation, every type, on global and on shared arrays, old values included (ATOM-1 to ATOM-7).

The oracle works on Python integers and on `fractions`. Iterations have no order, so old values are compared as what
some order would give: those of a chain for add, sub and exchange, a multiset where the order does not matter.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import tack
from workgroup_rig import launch

DTYPES = (tack.i8, tack.u8, tack.i16, tack.u16, tack.i32, tack.u32, tack.i64, tack.u64, tack.f32, tack.f64)
UPDATES = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")
FUNCTIONS = {op: getattr(tack, f"atomic_{op}") for op in (*UPDATES, "cas")}


def by_name(x):
    return getattr(x, "name", None) or str(x)


def operations():
    return [
        pytest.param(op, t, id=f"{op}-{t.name}")
        for op in UPDATES
        for t in DTYPES
        if not (t.is_float and op in ("and", "or", "xor"))
    ]


def global_kernel(op, dtype):
    update = FUNCTIONS[op]

    @tack.kernel
    def k(cell, values, old):
        for i in range(values.shape[0]):
            old[i] = update(cell, 1, values[i])

    return k


def shared_kernel(op, dtype):
    update = FUNCTIONS[op]

    @tack.kernel(group=64)
    def k(cell, values, old):
        box = tack.shared(3, dtype)
        for i in range(values.shape[0]):
            if tack.thread_id() < 3:
                box[tack.thread_id()] = cell[tack.thread_id()]
            tack.barrier()
            old[i] = update(box, 1, values[i])
            tack.barrier()
            if tack.thread_id() < 3:
                cell[tack.thread_id()] = box[tack.thread_id()]

    return k


def shared_without_old(op, dtype):
    update = FUNCTIONS[op]

    @tack.kernel(group=64)
    def k(cell, values, old):
        box = tack.shared((3, 1), dtype)
        for i in range(values.shape[0]):
            if tack.thread_id() < 3:
                box[tack.thread_id()] = cell[tack.thread_id()]
            tack.barrier()
            update(box, 1, values[i])
            tack.barrier()
            if tack.thread_id() < 3:
                cell[tack.thread_id()] = box[tack.thread_id()]

    return k


def values_of(dtype, count, seed):
    """Values whose sums are exact, negative ones among them where the type has such."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return (rng.integers(-64, 64, count) / 4).astype(dtype.numpy)
    return rng.integers(0, 2**63, count).astype(np.uint64).astype(dtype.numpy)


def combine(op, dtype, a, b):
    """One update in exact numbers."""
    if op == "exchange":
        return b
    exact = Fraction if dtype.is_float else int
    a, b = exact(a), exact(b)
    result = {
        "add": lambda: a + b, "sub": lambda: a - b, "min": lambda: min(a, b), "max": lambda: max(a, b),
        "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
    }[op]()  # fmt: skip
    return float(result) if dtype.is_float else dtype.wrap(result)


def is_history(op, dtype, start, values, old, end):
    """Whether some order of the updates gives these old values and this end.

    Each update is an edge from the old value to the new one; an order of them all is an Eulerian path from start to
    end: every value is left as often as it is reached, but for the ends, and all is connected.
    """
    balance, neighbours = Counter({start: 1}), {}
    balance[end] -= 1
    for value, before in zip(values, old, strict=True):
        after = combine(op, dtype, before, value)
        balance[before] -= 1
        balance[after] += 1
        neighbours.setdefault(before, set()).add(after)
    reached, todo = {start}, [start]
    while todo:
        for after in neighbours.get(todo.pop(), ()):
            if after not in reached:
                reached.add(after)
                todo.append(after)
    return not any(balance.values()) and set(neighbours) <= reached


def check(make, op, dtype, count, seed):
    start, values = values_of(dtype, 3, seed), values_of(dtype, count, seed + 1)
    if op == "exchange":
        values = np.array(np.arange(count) % 100 + 3, dtype.numpy)
    cell, old = start.copy(), np.zeros(count, dtype.numpy)
    launch(make(op, dtype), cell, values, old)
    assert [cell[0], cell[2]] == [start[0], start[2]], "a neighbour was touched"
    if make is shared_without_old:
        want = start[1].item()
        for value in values.tolist():
            want = combine(op, dtype, want, value)
        assert op == "exchange" or cell[1].item() == want
        assert op != "exchange" or cell[1].item() in values.tolist()
        return
    assert is_history(op, dtype, start[1].item(), values.tolist(), old.tolist(), cell[1].item())


@pytest.mark.parametrize(("op", "dtype"), operations())
def test_on_global_arrays(device, op, dtype):
    """ATOM-1 to ATOM-5: final values, old values, neighbours; on many threads where there are any."""
    check(global_kernel, op, dtype, 200 if device.name == "reference" else 40_000, 1)


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("make", (shared_kernel, shared_without_old), ids=("old", "none"))
@pytest.mark.parametrize(("op", "dtype"), operations())
def test_on_shared_arrays(device, op, dtype, make):
    """ATOM-6, with the old value and without; also a full and a single workgroup of fewer lanes."""
    if not device.supports(f"atomic_{dtype.name}"):
        pytest.skip(f"no atomics of {dtype.name}")
    for count in (64, 37):
        check(make, op, dtype, count, 2)


def test_the_oracle_notices_lost_updates():
    """The negative control: two updates that saw the same old value are no history."""
    assert is_history("add", tack.i32, 0, [1, 2, 3], [0, 1, 3], 6)
    assert is_history("add", tack.i32, 0, [1, 2, 3], [5, 3, 0], 6)
    assert not is_history("add", tack.i32, 0, [1, 2, 3], [0, 0, 2], 5)
    assert not is_history("add", tack.i32, 0, [1, 2], [0, 1], 2)
    assert not is_history("exchange", tack.i32, 0, [1, 2, 3], [0, 1, 3], 3)
    assert is_history("min", tack.i8, 5, [7, 3, 4], [5, 5, 3], 3)


# --- Compare and swap -----------------------------------------------------------------------------------------------


def swapping(dtype, where):
    if where == "global":

        @tack.kernel
        def k(cell, out, expected, desired):
            for i in range(out.shape[0]):
                out[i] = tack.atomic_cas(cell, 1, expected[i], desired[i])

        return k

    @tack.kernel(group=8)
    def s(cell, out, expected, desired):
        box = tack.shared(3, dtype)
        for i in range(out.shape[0]):
            if tack.thread_id() == 0:
                box[1] = cell[1]
            tack.barrier()
            out[i] = tack.atomic_cas(box, 1, expected[i], desired[i])
            tack.barrier()
            if tack.thread_id() == 0:
                cell[1] = box[1]

    return s


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("where", ("global", "shared"))
@pytest.mark.parametrize("dtype", DTYPES, ids=by_name)
def test_compare_and_swap(device, dtype, where):
    """ATOM-7: equal bits are replaced, others are not, and the old value comes back."""
    if not device.supports(f"atomic_{dtype.name}"):
        pytest.skip(f"no atomics of {dtype.name}")
    k, t = swapping(dtype, where), dtype.numpy
    for expected, after in ((5, 9), (6, 5)):
        cell, out = np.array([1, 5, 2], t), np.zeros(1, t)
        launch(k, cell, out, np.array([expected], t), np.array([9], t))
        assert (cell.tolist(), out.tolist()) == ([1, after, 2], [5])


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("where", ("global", "shared"))
def test_compare_and_swap_compares_bits(device, where):
    """ATOM-7: a zero of the other sign is another value, and a NaN equals itself."""
    k = swapping(tack.f32, where)
    for start, expected, swapped in ((0.0, -0.0, False), (-0.0, -0.0, True), (math.nan, math.nan, True)):
        cell, out = np.array([1, start, 2], np.float32), np.zeros(1, np.float32)
        launch(k, cell, out, np.array([expected], np.float32), np.array([9], np.float32))
        assert (cell[1] == 9) == swapped
        assert out.tobytes() == np.array([start], np.float32).tobytes()


@tack.func
def multiply(array, index, factor):
    """A product by compare-and-swap, as a user writes it."""
    old = array[index]
    while True:
        seen = tack.atomic_cas(array, index, old, old * factor)
        if seen == old:
            return old
        old = seen


@tack.kernel
def products(cell, factors, old):
    for i in range(factors.shape[0]):
        old[i] = multiply(cell, i % 2, factors[i])


@tack.kernel(group=32)
def shared_products(cell, factors, old):
    box = tack.shared(2, tack.u32)
    for i in range(factors.shape[0]):
        t = tack.thread_id()
        if t < 2:
            box[t] = cell[t]
        tack.barrier()
        old[i] = multiply(box, i % 2, factors[i])
        tack.barrier()
        if t < 2:
            cell[t] = box[t]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("kernel", (products, shared_products), ids=("global", "shared"))
def test_loops_of_compare_and_swap(device, kernel):
    """ATOM-7: any update can be built, here a product modulo 2**32 of odd numbers."""
    count = 20_000 if kernel is products and device.name != "reference" else 32
    factors = (np.arange(count) * 2 + 3).astype(np.uint32)
    cell, old = np.ones(2, np.uint32), np.zeros(count, np.uint32)
    launch(kernel, cell, factors, old)
    for half in (0, 1):
        want = 1
        for factor in factors[half::2].tolist():
            want = want * factor % 2**32
        assert cell[half] == want
        assert len(set(old[half::2].tolist())) > count // 4, "old values move on"


# --- Indices, values, refusals --------------------------------------------------------------------------------------


@tack.kernel
def indexed(a, b, hits):
    for i in range(1):
        tack.atomic_add(a, (1, 2), 5)
        tack.atomic_add(a, 4, 7)
        tack.atomic_sub(b, tack.atomic_add(hits, 0, 1), tack.f32(0.5) + i)


def test_indices_and_values_are_evaluated_once(device):
    """ATOM-2, ATOM-3: a tuple or a flat index; what stands in an argument runs once."""
    a, b, hits = np.zeros((2, 3), np.int16), np.zeros(2, np.float32), np.zeros(1, np.int32)
    indexed(a, b, hits)
    assert a.tolist() == [[0, 0, 0], [0, 7, 5]]
    assert (b.tolist(), hits.tolist()) == ([-0.5, 0.0], [1])


@tack.kernel(group=4)
def shared_indexed(out, hits):
    box = tack.shared((2, 3), tack.i16)
    for i in range(4):
        t = tack.thread_id()
        if t == 0:
            for k in range(6):
                box[k] = 0
        tack.barrier()
        tack.atomic_add(box, (1, t % 3), 300 * 300 + t)
        tack.atomic_max(box, tack.atomic_add(hits, 0, 1) % 3, t)
        tack.barrier()
        if t == 0:
            for k in range(6):
                out[k] = box[k]


@pytest.mark.requires("workgroups")
def test_indices_and_values_on_shared_arrays(device):
    """ATOM-3, ATOM-6: the value converts to the element type once, modulo 2**16."""
    out, hits = np.zeros(6, np.int16), np.zeros(1, np.int32)
    launch(shared_indexed, out, hits)
    big = tack.i16.wrap(90000)
    assert out[3:].tolist() == [tack.i16.wrap(2 * big + 3), tack.i16.wrap(big + 1), tack.i16.wrap(big + 2)]
    assert hits.tolist() == [4]
    assert out[:3].max() == 3


@pytest.mark.parametrize("dtype", (tack.f32, tack.f64), ids=by_name)
def test_extrema_of_negative_values(device, dtype):
    """ATOM-4, cases 15 and 16."""

    @tack.kernel
    def k(values, out):
        for i in range(values.shape[0]):
            tack.atomic_max(out, 0, values[i])
            tack.atomic_min(out, 1, values[i])

    values = -np.arange(1, 200, dtype=dtype.numpy)
    out = np.array([-3e38, 100], dtype.numpy)
    k(values, out)
    assert out.tolist() == [-1.0, -199.0]


@pytest.mark.parametrize("op", ("and", "or", "xor"))
@pytest.mark.parametrize("where", ("global", "shared"))
def test_bit_operations_of_floats_are_refused(op, where):
    """ATOM-4, on shared arrays too."""
    update = FUNCTIONS[op]
    if where == "global":

        @tack.kernel
        def k(a):
            for i in range(1):
                update(a, 0, 1.0)
    else:

        @tack.kernel
        def k(a):
            box = tack.shared(1, tack.f32)
            for i in range(1):
                update(box, 0, a[i])

    with pytest.raises(TypeError, match=f"atomic_{op}.. takes integer arrays"):
        k(np.zeros(1, np.float32))


def test_atomics_on_local_arrays_are_refused():
    """ATOM-6."""

    @tack.kernel
    def k(a):
        for i in range(1):
            mine = tack.local(1, tack.i32)
            tack.atomic_add(mine, 0, 1)

    with pytest.raises(TypeError, match="private to an iteration"):
        k(np.zeros(1, np.int32))
