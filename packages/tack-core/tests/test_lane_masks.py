"""Accesses of lanes that are off have no pointer to where nothing is: the same results, and no faults hushed up."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from lane_rig import Compiled, typed_ir
from test_lane_control import UNITS, N, check, ints, zeros


@tack.kernel
def far_away(n, c: tack.i64, a, b, out):
    for i in range(n):
        if i >= c:
            out[i - c] = a[i - c] + 1
        b[i] = a[i + c] if i + c < n else 7


@pytest.mark.parametrize("c", [0, 5, 300, 2**40])
def test_places_far_away_are_not_asked_for_where_no_lane_is_on(c: int) -> None:
    """No instruction has a pointer there: a processor takes 0.15 us to find out that it must not report a fault."""
    a = ints(0, 100)
    tree = typed_ir(far_away, N, c, a, zeros(), zeros())
    got = check(far_away, N, c, a, zeros(), zeros(), disjoint=True)
    want_b = np.full(N, 7, np.int32)
    want_out = zeros()
    if c < N:
        want_b[: N - c] = a[c:]
        want_out[: N - c] = a[: N - c] + 1
    assert got[3].tolist() == want_b.tolist() and got[4].tolist() == want_out.tolist()
    text = Compiled(tree, 16, True, UNITS["AVX512"]).text
    pointers = re.findall(r"llvm.masked.load\S+\(ptr align \d+ (%\w+),", text)
    assert len(pointers) == 2 and all(re.search(rf"{p} = select i1", text) for p in pointers)


@tack.kernel
def neighbours(n, a, out):
    for i in range(n):
        if 0 < i < n - 1:
            out[i] = a[i - 1] + a[i + 1]


def test_neighbours_are_asked_for_as_they_are() -> None:
    """To check those too costs more than it brings."""
    a = ints(0, 100)
    check(neighbours, N, a, zeros(), disjoint=True)
    text = Compiled(typed_ir(neighbours, N, a, zeros()), 16, True, UNITS["AVX512"]).text
    pointers = re.findall(r"llvm.masked.load\S+\(ptr align \d+ (%\w+),", text)
    assert len(pointers) == 2 and not any(re.search(rf"{p} = select i1", text) for p in pointers)


# Local arrays of an arm that is also written for a few lanes, one after the other.


@tack.kernel
def local_in_an_arm(x, out):
    for i in range(x.shape[0]):
        if x[i] > 5:
            s = tack.i64(0)
            for z in range(x[i]):
                s += x[i] // (z + 1)
            t = tack.local(2, tack.i64)
            t[0] = s
            t[1] = s
            for z in range(x[i]):
                t[z % 2] += s // (z + 1)
            out[i] = t[0] - t[1]


@tack.kernel
def short_local_in_an_arm(x, out):
    for i in range(x.shape[0]):
        if x[i] > 5:
            t = tack.local(2, tack.i64)
            t[0] = x[i]
            t[1] = -x[i]
            out[i] = t[x[i] & 1]
        else:
            out[i] = 0


@tack.func
def parted(a, n):
    t = tack.local(2, tack.i64)
    t[0] = a
    t[1] = a + 1
    for z in range(n):
        t[z % 2] += t[(z + 1) % 2] // (z + 1) + a % (z + 3)
    return t[0] - t[1]


@tack.kernel
def local_in_a_function(x, out):
    for i in range(x.shape[0]):
        if x[i] > 5:
            out[i] = parted(x[i], x[i])


def expected_local_in_an_arm(v: int) -> int:
    if v <= 5:
        return 0
    s = sum(v // (z + 1) for z in range(v))
    t = [s, s]
    for z in range(v):
        t[z % 2] += s // (z + 1)
    return t[0] - t[1]


def expected_short(v: int) -> int:
    return 0 if v <= 5 else (v, -v)[v & 1]


def expected_in_a_function(v: int) -> int:
    t = [v, v + 1]
    for z in range(v):
        t[z % 2] += t[(z + 1) % 2] // (z + 1) + v % (z + 3)
    return 0 if v <= 5 else t[0] - t[1]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (local_in_an_arm, expected_local_in_an_arm),
        (short_local_in_an_arm, expected_short),
        (local_in_a_function, expected_in_a_function),
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("most", [20, 7])
def test_each_lane_has_its_own_local_array(kernel: Any, expected: Any, most: int) -> None:
    """LOC-*: in an arm for all lanes, and where so few are on that each goes alone."""
    x, out = ints(0, most, dtype=np.int64), zeros(dtype=np.int64)
    want = [expected(v) for v in x.tolist()]
    assert check(kernel, x, out, disjoint=True)[1].tolist() == want
    assert Compiled(typed_ir(kernel, x, out), None, disjoint=True)(x, out)[1].tolist() == want
    kernel(x, out)
    assert out.tolist() == want
