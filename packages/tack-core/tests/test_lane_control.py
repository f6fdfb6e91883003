"""Lanes that part and meet again: every kind of control flow against scalar code, bit for bit, at every width.

The pitfalls of vectorising across iterations have a test each: wild indices and zero divisors of lanes that are off,
uniform operations where no lane is on, jumps, aliases within an iteration, indices that wrap, the order of atomic
operations. Rules: EVAL-7 to EVAL-9, PAR-*, ATOM-*, FUNC-*, LOC-*.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from lane_rig import Compiled, same_bits, typed_ir
from tack.codegen.lane_cost import PLAIN, vector_unit
from tack.codegen.llvm_gen import LLVMCodeGen
from tack.runtime.backend import VariantOptions
from tack.runtime.cpu_pool import pool

WIDTHS = (4, 8, 16, 32, 64)
CUTS = (0.13, 0.37, 0.38, 0.91)
N = 331
UNITS = {"AVX512": vector_unit("x", "+avx512f,+avx512bw,+avx512dq,+avx512vl"), "plain": PLAIN}


def check(kernel: Any, *args: Any, disjoint: bool = False, **units: Any) -> list[Any]:
    """Scalar code's arrays; every width leaves the same, and so does code written for other processors."""
    tree = typed_ir(kernel, *args)
    want = Compiled(tree, 1)(*args)
    variants = [(width, None) for width in WIDTHS] + [(16, unit) for unit in UNITS.values()]
    for width, unit in variants:
        variant = Compiled(tree, width, disjoint, unit, CUTS)
        assert variant.plans, "control: it does run as lanes"
        assert same_bits(variant(*args), want), f"{width} lanes, {unit}"
    return want


def ints(low: int, high: int, n: int = N, dtype: Any = np.int32, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(low, high, n).astype(dtype)


def zeros(n: int = N, dtype: Any = np.int32) -> np.ndarray[Any, Any]:
    return np.zeros(n, dtype)


@tack.kernel
def jumping(n, x, out):
    for i in range(n):
        s = 0
        if x[i] == 5:
            out[i] = -1
            continue
        for k in range(20):
            v = x[(i + k) % n]
            if v == 3:
                continue
            if v > 90:
                if k > 4:
                    break
                s += 1000
            q = tack.i64(v)
            while q > 0:
                q = q // 3
                s += 1
                if q == 7:
                    break
            if s > 50000:
                break
        out[i] = s


def test_jumps() -> None:
    """What follows a jump in its block does not run; what follows the `if` around it runs for those that stayed."""
    check(jumping, N, ints(0, 100), zeros())


@tack.kernel
def bare_jumps(x, out):
    for i in range(len(x)):
        k = 0
        while True:
            k += 1
            if x[i] < k:
                out[i] += 100
                break
            if x[i] % 3 == k % 3:
                out[i] += 1
                continue
            out[i] += 10
        for j in range(x[i]):
            if j > 3:
                break
            out[i] += j
            continue
        if x[i] > 20:
            continue
        out[i] *= 2


def test_bare_jumps() -> None:
    out = check(bare_jumps, ints(0, 40), zeros())[1]
    assert len(set(out.tolist())) > 5, "control: lanes part"


@tack.kernel
def loops_in_branches(n, x, out):
    for i in range(len(x)):
        if n > 0:
            j = 0
            while j < i % 3:
                j += 1
            out[i] += j
        k = 0
        while k < i % 5:
            k += 1
        if x[i] > 4:
            if n > 1:
                while k < x[i]:
                    k += 2
            for m in range(x[i] % 4):
                k += m
            if n > 2:
                out[i] += k if x[i] > 7 else -k
        while k < 9:
            k += 3
        out[i] += k


def python_loops_in_branches(n, x):
    """The same in Python, which is the oracle."""
    for i, value in enumerate(x):
        total, k = i % 3 if n > 0 else 0, i % 5
        if value > 4:
            while n > 1 and k < value:
                k += 2
            k += sum(range(value % 4))
            if n > 2:
                total += k if value > 7 else -k
        while k < 9:
            k += 3
        yield total + k


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_masks_first_met_inside_a_branch(n) -> None:
    """A mask, that of all lanes too, is met first in a block that does not lead to its later uses."""
    x = ints(0, 12)
    assert check(loops_in_branches, n, x, zeros())[-1].tolist() == list(python_loops_in_branches(n, x.tolist()))


@tack.kernel
def guarded(n, x, y, out):
    for i in range(n):
        r = -1
        if x[i] >= 0 and x[i] < n and y[x[i]] != 0:
            r = y[i] // y[x[i]] + y[i] % y[x[i]] + (y[i] << (y[x[i]] & 31))
        if x[i] == -77777:
            r = 100 // tack.i32(n >> 40)
        r += y[x[i]] if 0 <= x[i] < n else 3
        out[i] = r


def test_guards() -> None:
    """EVAL-7, EVAL-9: indices are wild and divisors zero in lanes that are off; a uniform divisor is zero where none
    is on."""
    x = ints(-(10**12), 10**12, dtype=np.int64) * ints(0, 2, seed=2) + ints(0, N, seed=3)
    check(guarded, N, x, ints(-3, 4), zeros())


@tack.kernel
def uniform_in_arms(x, table, where, out):
    for i in range(len(x)):
        r = 0
        if x[i] == 12345:  # never
            r = table[where]
            while table[where] != 77:
                r += 1
            table[where] = 5
            r += 10 // table[where]
        if x[i] > 50 and table[where - where] == 7:
            r += table[0]
        out[i] = r


def test_uniform_work_where_no_lane_is_on() -> None:
    """A uniform load has a wild index, a uniform loop would not end, and a uniform store must not happen."""
    check(uniform_in_arms, ints(0, 100), np.array([7, 0], np.int32), 10**15, zeros())


@tack.kernel
def after_all_left(x, table, where, out):
    for i in range(len(x)):
        if x[i] < 1000:
            continue
        while table[where] != 77:
            out[i] += 1
        out[i] = table[where]


def test_nothing_runs_after_all_have_left() -> None:
    check(after_all_left, ints(0, 100), np.array([7, 0], np.int32), 10**15, zeros())


@tack.func
def classify(v, limit):
    if v < 10:
        return v * 2
    for k in range(v):
        if k * k > limit:
            return k
        if (k ^ v) % 13 == 12:
            return -k
    return v


@tack.func
def pair(a, b):
    if a > b:
        return a - b, b
    return b % (a + 1), a + 7


@tack.kernel
def calling(x, out):
    for i in range(len(x)):
        r = classify(x[i], 40) + classify(classify(x[i] // 2, 10), x[i])
        p, q = pair(x[i], r)
        out[i] = r + p * 3 + q if x[i] % 2 else classify(r, p)


def test_early_returns() -> None:
    """FUNC-*: of functions inlined into lanes, also from within their loops, and one call inside another."""
    check(calling, ints(0, 90), zeros())


@tack.kernel
def alias(x, y, out):
    for i in range(len(x)):
        x[i] = tack.i32(i) * 3
        out[i] = y[i] + 1
        if i & 3 != 1:
            x[i] = y[i] + 7
            out[i] += y[i]


def test_alias_within_an_iteration() -> None:
    """MEM-*: a load sees what its own iteration stored through another name."""
    x = ints(0, 99)
    out = check(alias, x, x, zeros())[2]
    i = np.arange(N)
    assert np.array_equal(out, np.where(i & 3 != 1, 3 * i + 1 + 3 * i + 7, 3 * i + 1))


@tack.kernel
def wrapping_index(x, start, out):
    for i in range(start, start + 40):
        small = tack.u8(i)
        low = tack.i32(i)
        out[i - start] = x[small] + x[tack.i64(low & 255)] + x[tack.u8(small * 3 + tack.u8(1))] + tack.i64(low)


def test_linear_indices_wrap() -> None:
    """INT-1: u8(i) and i32(i) go up in steps of one, and wrap in the middle of a block."""
    check(wrapping_index, ints(0, 99, 256, np.int64), 2**31 - 17, zeros(40, np.int64))
    check(wrapping_index, ints(0, 99, 256, np.int64), 250, zeros(40, np.int64))


@tack.kernel
def last_wins(x, out, total):
    for i in range(len(x)):
        if x[i] > 20:
            out[0] = x[i]
            old = tack.atomic_add(total, 0, tack.f32(x[i]) * 0.1)
            out[i + 1] = tack.i32(old)


def test_order_of_lanes() -> None:
    """Atomics and stores to one place happen in the order of the lanes: a single piece leaves scalar code's bits."""
    x, out, total = ints(0, 40), zeros(N + 1), zeros(1, np.float32)
    tree = typed_ir(last_wins, x, out, total)
    want = Compiled(tree, 1)(x, out, total)
    for width in WIDTHS:
        assert same_bits(Compiled(tree, width)(x, out, total), want)
    old, position = np.float32(0), 0
    for position, v in enumerate(x.tolist()):
        if v > 20:
            assert want[1][position + 1] == int(old) and want[1][0] == x[x > 20][-1]
            old = np.float32(old + np.float32(v) * np.float32(0.1))


@tack.kernel
def many_atomics(x, a, f, out):
    for i in range(len(x)):
        p = x[i] & 3
        out[i] = tack.atomic_max(a, p, x[i]) if x[i] & 1 else tack.atomic_sub(a, p + 4, i)
        out[i] += tack.atomic_cas(a, 8, x[i], x[i] + 1) + tack.atomic_exchange(a, 9, x[i])
        tack.atomic_min(f, 0, tack.f64(x[i]))
        tack.atomic_xor(a, 10 + p, x[i])


def test_atomics() -> None:
    """ATOM-*: every lane that is on does its own; where one statement touches a place its old values are in order."""
    x, a, f = ints(0, 99), zeros(20), np.full(1, 50.0)
    tree = typed_ir(many_atomics, x, a, f, zeros())
    want = Compiled(tree, 1)(x, a, f, zeros())
    for width in WIDTHS:
        assert same_bits(Compiled(tree, width)(x, a, f, zeros()), want)


@tack.kernel
def local_arrays(x, out):
    for i in range(len(x)):
        seen = tack.local(8, tack.i32)
        grid = tack.local((2, 3), tack.f64)
        for k in range(8):
            seen[k] = k
        for k in range(6):
            grid[k // 3, k % 3] = x[i] * k
        for k in range(x[i] % 20):
            seen[(x[i] * k) % 8] += k
            if k % 3 == x[i] % 3:
                grid[1, k % 3] = seen[k % 8]
        if x[i] > 50:
            seen[2] = -1
        total = 0
        for k in range(8):
            total = total * 3 + seen[k]
        out[i] = total + tack.i32(grid[0, 2] + grid[1, x[i] % 3])


def test_local_arrays() -> None:
    """LOC-*: each lane has its own; a store under a mask leaves the others'."""
    check(local_arrays, ints(0, 100), zeros())


PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)


@tack.func
def from_table(k):
    return PRIMES[k & 7]


@tack.kernel
def tables(x, out):
    for i in range(len(x)):
        out[i] = PRIMES[x[i] & 7] * from_table(i) + PRIMES[3]


def test_constant_tables() -> None:
    out = check(tables, ints(0, 100), zeros())[1]
    primes, x = np.array(PRIMES), ints(0, 100)
    assert np.array_equal(out, primes[x & 7] * primes[np.arange(N) & 7] + 7)


@tack.kernel
def chains(x, y, out):
    for i in range(len(x)):
        a = 0 <= x[i] < y[x[i]] < 60 or x[i] == 7
        b = not a and (x[i] > 200 or y[i] // (x[i] + 1) > 0)
        out[i] = a + 2 * b + (4 if x[i] > y[i] > 3 else 0)


def test_chains_and_short_circuits() -> None:
    """EVAL-7: a middle operand is evaluated once, and only where the one before it holds."""
    check(chains, ints(0, 100), ints(0, 100, seed=2), zeros())


@tack.kernel
def entering(x, out, bias):
    start = bias * 2
    turns = 3
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        i += 1
        if x[i - 1, j] > 50:
            start += j
            bias = 7
        for k in range(turns):
            start += k
            turns -= 1
        out[i - 1, j] = start + bias + i
        j = 0
        out[i - 1, j] += 0


def test_iterations_start_from_the_prelude() -> None:
    """PAR-3: an iteration's own copies of what was set before the loop, of parameters and of loop variables."""
    check(entering, ints(0, 100).reshape(1, -1).repeat(4, 0)[:, :77].copy(), zeros((4, 77)), 11)


@tack.kernel
def moving(x, radius, out):
    for i in range(radius, len(x) - radius):
        s = 0.0
        for j in range(i - radius, i + radius + 1):
            s += x[j] * (j - i)
        for j in range(i, i + 3):
            if x[j] > 0.5:
                break
            s += x[j]
        out[i] = s


def test_windows_move_with_the_lanes() -> None:
    """A serial loop whose start and stop are linear together is uniform, and its loads lie side by side."""
    x = np.random.default_rng(1).random(N)
    check(moving, x, 4, zeros(N, np.float64))


@tack.kernel
def ragged(first, x, out):
    for i in range(len(out)):
        s = 0.0
        for k in range(first[i], first[i + 1], 2):
            s += x[k]
        for k in range(first[i + 1], first[i]):
            s += 1000.0
        out[i] = s


def test_ragged_rows() -> None:
    first = np.concatenate([[0], np.cumsum(ints(0, 24))]).astype(np.int64)
    x = np.random.default_rng(1).random(24 * N).astype(np.float32)
    check(ragged, first, x, zeros(N, np.float32), disjoint=True)


@tack.kernel
def rare(x, m, t, out):
    for i in range(len(x)):
        k = tack.i64(x[i])
        low = tack.local(4, tack.i64)
        low[0] = k
        if x[i] & 63 == 0:
            for s in range(20):
                k = (k * 31 + s) % m[s & 15]
                low[k & 3] = k
            k += low[0] + tack.i64(tack.exp(tack.f32(k & 7)))
        elif x[i] & 7 == 1:
            for s in range(30):
                k = t[(k + i) & 1023] + 1
        out[i] = k


def test_few_lanes() -> None:
    """Where few lanes are on, an arm runs as scalar code for one after the other."""
    m, t = ints(10**9, 10**12, 16, np.int64), ints(0, 1024, 1024)
    args = ints(0, 2**30), m, t, zeros(N, np.int64)
    check(rare, *args)
    assert "few" in Compiled(typed_ir(rare, *args), 16).text, "control: there is such code"


@tack.kernel
def poison(x, f, out):
    for i in range(len(x)):
        r = 0
        if x[i] < 32 and 1 << x[i] > 5 and tack.i32(f[i]) > 3:
            r = 1
        if f[i] < 100.0:
            r += tack.i32(f[i])
        while r < x[i] < 32 and (r << x[i]) < 1000:
            r += 3
        out[i] = r


def test_poison_stays_in_lanes_that_are_off() -> None:
    """Shift counts and floats out of range, in lanes that do not count: masks are combined by select."""
    f = np.where(ints(0, 3) == 0, np.float32(3e38), ints(0, 90).astype(np.float32)).astype(np.float32)
    x = ints(0, 60)
    check(poison, x, np.where(x < 32, np.minimum(f, 1e6), f).astype(np.float32), zeros())


def test_prints_are_scalar() -> None:
    """PRINT-*: output comes an iteration at a time, so such a loop has no lanes, whatever is asked for."""
    generator = LLVMCodeGen(typed_ir(printing, zeros()), VariantOptions(lanes=8))
    assert "<8 x" not in generator.source()
    assert not generator.plans


@tack.kernel
def printing(x):
    for i in range(len(x)):
        print(x[i])


@tack.kernel
def two_loops(x, out):
    for i in range(len(x)):
        out[i] = x[i] * 2
    for i, j, k in tack.ndrange((1, 3), 5, (2, 11)):
        if (i + j + k) % 3:
            out[i * 100 + j * 20 + k] += i * j - k
    for i in range(0):
        out[i] = 9


def test_several_loops() -> None:
    check(two_loops, ints(0, 100), zeros())


@tack.kernel
def escape(h, w, lim, out):
    for i, j in tack.ndrange(h, w):
        cx = tack.f32(j) * (3.0 / tack.f32(w)) - 2.0
        cy = tack.f32(i) * (2.5 / tack.f32(h)) - 1.25
        x = tack.f32(0.0)
        y = tack.f32(0.0)
        k = 0
        while k < lim and x * x + y * y <= 4.0:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            k += 1
        out[i, j] = k


def test_threads_do_not_matter() -> None:
    """The pool cuts a loop wherever it likes; an ordinary call has lanes here, and the bits of NumPy's float32."""
    h, w, lim = 67, 93, 60
    assert Compiled(typed_ir(escape, h, w, lim, zeros((h, w))), None).plans, "control: lanes are chosen"
    f = np.float32
    cx = np.arange(w).astype(f) * (f(3.0) / f(w)) - f(2.0)
    cy = (np.arange(h).astype(f) * (f(2.5) / f(h)) - f(1.25))[:, None]
    x, y, want = np.zeros((h, w), f), np.zeros((h, w), f), zeros((h, w))
    for _ in range(lim):
        on = x * x + y * y <= f(4.0)
        x, y = np.where(on, x * x - y * y + cx, x), np.where(on, f(2.0) * x * y + cy, y)
        want += on
    for threads in (1, 2, 3, 7):
        out = zeros((h, w))
        with pool().set_threads(threads):
            escape(h, w, lim, out)
        assert np.array_equal(out, want), threads


@tack.kernel
def masks_in_branches(n, x, out):
    for i in range(x.shape[0]):
        v = x[i]
        large = v > 3
        if n > 3:  # the same for all lanes: what is made in here is not there where it is not taken
            if large or v < -5:
                v = v * 2
                out[i] = v
        if large:
            for k in range(3):
                v += k * x[i]
                if v % 5 == 0:
                    break
                v ^= 3
        out[i] += v


@tack.func
def returns_early(v, n):
    if n > 3:
        if v % 3 == 0:
            return v * 2
        v = v + 5
    if v % 5 == 1:
        return v - 7
    return v ^ 1


@tack.kernel
def calls_in_branches(n, x, out):
    for i in range(x.shape[0]):
        v = x[i]
        if n > 2:
            v = returns_early(v, n) + 1
        w = returns_early(v + 1, n - 1)
        out[i] = v * 3 + returns_early(w, n + 3)


@pytest.mark.parametrize("n", (2, 5))
@pytest.mark.parametrize("kernel", (masks_in_branches, calls_in_branches), ids=lambda k: k.__name__)
def test_masks_that_branches_and_other_blocks_share(kernel, n):
    """EVAL-9, FUNC-6: a mask is put into the form that is kept where it is needed, in blocks of either width."""
    check(kernel, n, ints(-20, 60), zeros())
