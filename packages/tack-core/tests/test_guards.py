"""A guard keeps an operation from running (EVAL-9), compiled and optimised, in place and through device functions.

An unguarded zero divisor ends the process on a CPU, and an index out of range reads foreign memory: a guard that leaks
does not merely give a wrong number. The oracle is Python's own `//` and `%`.
"""

from __future__ import annotations

import numpy as np
import pytest

import tack
from tack.lang.types import INTEGER_DTYPES

FAR = 1 << 45  # elements: no array reaches as far, and the address is not mapped


@tack.func
def quotient(a, b):
    return a // b


@tack.func
def quotient_or(a, b, other):
    if b == 0:
        return other
    return a // b


@tack.func
def element(a, k):
    return a[k]


@tack.kernel
def conditional(a, b, out):
    for i in range(a.shape[0]):
        out[i] = a[i] // b[i] if b[i] != 0 else 0


@tack.kernel
def conditional_through_call(a, b, out):
    for i in range(a.shape[0]):
        out[i] = quotient(a[i], b[i]) if b[i] else 0


@tack.kernel
def statement(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        if b[i] != 0:
            out[i] = a[i] // b[i]


@tack.kernel
def early_return(a, b, out):
    for i in range(a.shape[0]):
        out[i] = quotient_or(a[i], b[i], 0)


@tack.kernel
def left_of_and(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        if b[i] != 0 and a[i] // b[i] != 0:
            out[i] = a[i] // b[i]


@tack.kernel
def left_of_or(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        if not (b[i] == 0 or quotient(a[i], b[i]) == 0):
            out[i] = a[i] // b[i]


@tack.kernel
def after_continue(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        if b[i] == 0:
            continue
        out[i] = a[i] // b[i]


@tack.kernel
def in_a_while(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        while b[i] != 0 and out[i] == 0 and a[i] // b[i] != 0:
            out[i] = a[i] // b[i]


@tack.kernel
def in_a_chain(a, b, out):
    for i in range(a.shape[0]):
        d = b[i]
        out[i] = a[i] // d if d * 0 != d != a[i] // d * 0 else 0


KERNELS = (
    conditional, conditional_through_call, statement, early_return, left_of_and, left_of_or, after_continue, in_a_while,
    in_a_chain,
)  # fmt: skip


def name_of(kernel):
    return kernel.source.fn.__name__


@pytest.mark.parametrize("kernel", KERNELS, ids=name_of)
def test_zero_divisors(device, kernel):
    """EVAL-9, IDIV-3: half of the divisors are zero, in runs and alone, so that vectors hold both kinds."""
    n = 200
    a = np.arange(n, dtype=np.int32) * 37 - 3000
    b = np.where((np.arange(n) % 16 < 7) | (np.arange(n) % 3 == 0), 0, np.arange(n) % 11 - 5).astype(np.int32)
    assert (b == 0).sum() > n // 2
    out = np.full(n, -1, np.int32)
    kernel(a, b, out)
    assert out.tolist() == [x // y if y else 0 for x, y in zip(a.tolist(), b.tolist(), strict=True)]


def test_zero_divisors_everywhere(device):
    """The guard is never open: nothing of the arm may be moved before the loop."""
    a, b, out = np.arange(70, dtype=np.int64), np.zeros(70, np.int64), np.ones(70, np.int64)
    for kernel in KERNELS:
        kernel(a, b, out)
        assert not out.any(), name_of(kernel)


@tack.kernel
def uniform_divisor(a, out, d, other):
    for i in range(a.shape[0]):
        out[i] = a[i] % d if d else a[i] // other


@pytest.mark.parametrize("dtype", INTEGER_DTYPES, ids=lambda t: t.name)
def test_a_divisor_that_all_iterations_share(device, dtype):
    """EVAL-9: a compiler likes to hoist what does not depend on the iteration."""
    a, out = np.arange(100).astype(dtype.numpy), np.zeros(100, dtype.numpy)
    uniform_divisor(a, out, dtype(0), dtype(7))
    assert out.tolist() == [x // 7 for x in range(100)]
    uniform_divisor(a, out, dtype(3), dtype(0))
    assert out.tolist() == [x % 3 for x in range(100)]


@tack.kernel
def signed_minimum(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0 if b[i] == -1 else a[i] // b[i]


def test_signed_minimum_by_minus_one(device):
    """IDIV-3: the other division that traps."""
    a, b = np.full(40, -(2**31), np.int32), np.where(np.arange(40) % 2, -1, 3).astype(np.int32)
    out = np.zeros(40, np.int32)
    signed_minimum(a, b, out)
    assert out.tolist() == [0 if y == -1 else -(2**31) // 3 for y in b.tolist()]


@tack.kernel
def neighbours(a, out, far):
    for i in range(a.shape[0]):
        left = a[i - 1] if i > 0 else a[0]
        right = element(a, i + 1) if i + 1 < a.shape[0] else a[a.shape[0] - 1]
        out[i] = left + right
        if i < 0 or (i > a.shape[0] and a[i * far] == 0):
            out[i] = a[far]
        out[i] += a[i + far] if far == 0 else 1


def test_indices_out_of_range(device):
    """EVAL-9, MEM-3: only the chosen arm loads."""
    a, out = np.arange(50.0), np.zeros(50)
    neighbours(a, out, FAR)
    padded = np.concatenate([a[:1], a, a[-1:]])
    assert out.tolist() == (padded[:-2] + padded[2:] + 1).tolist()


@tack.kernel
def only_the_chosen_arm_acts(cells, out, n):
    for i in range(n):
        k = tack.atomic_add(cells, 0, 1) if i % 3 == 0 else tack.atomic_add(cells, 1, 10)
        done = (i % 5 == 0 and tack.atomic_add(cells, 2, 1) >= 0) or tack.atomic_sub(cells, 3, 1) > 0
        out[i] = done + 2 * (k < 0)


def test_effects_happen_only_in_the_chosen_arm(device):
    """EVAL-7, EVAL-8: counted by atomics."""
    n = 60
    cells, out = np.zeros(4, np.int32), np.zeros(n, np.int32)
    only_the_chosen_arm_acts(cells, out, n)
    fives = sum(i % 5 == 0 for i in range(n))
    assert cells.tolist() == [n // 3, 10 * (n - n // 3), fives, -(n - fives)]
    assert out.tolist() == [int(i % 5 == 0) for i in range(n)]
