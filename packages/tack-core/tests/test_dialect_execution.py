"""Control flow, memory and launches in the generated C of every dialect, run on the host under the sanitizer.

Oracles: the same programs in plain Python. Rules EVAL-1 to EVAL-9, LOOP-2, LOOP-6, LOOP-8 to LOOP-12, FUNC-*, MEM-4,
MEM-6, ATOM-1 to ATOM-5, CALL-2, SRC-8.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tack
from dialects import ATOMIC_TYPES, each_dialect, make, needs_compiler, run
from numeric_oracles import wrap
from rigs import host_run
from tack.codegen.c_family import CFamilyOptions
from tack.codegen.opencl_gen import OpenCLOptions

pytestmark = needs_compiler


def ints(count: int | tuple[int, ...], fill: int = 0) -> np.ndarray[Any, Any]:
    return np.full(count, fill, np.int32)


# ------------------------------------------------------------------------------------------------ evaluation order

BUMP = """
@tack.func
def bump(c, i):
    c[i] += 1
    return c[i]

@tack.func
def note(log, i, value):
    log[i] = log[i] * 10 + value
    return value
"""


@each_dialect
def test_operands_left_to_right(dialect: str) -> None:
    """EVAL-1 to EVAL-3: a load left of a call sees the old value, one right of it the new."""
    body = """
out[0, i] = c[i] * 100 + bump(c, i) * 10 + c[i]
out[1, i] = tack.atomic_add(c, i, 5) - c[i]
out[2, i] = (c[i], bump(c, i))[0] if False else c[i] - bump(c, i)
c[i] = c[i] + bump(c, i) * 10
out[3, i] = c[i]
t = tack.atomic_add(c, tack.atomic_add(d, i, 1), c[i])
out[4, i] = t + d[i]
d[bump(d, i) - 2] = d[i]
out[5, i] = d[i]
""".replace("(c[i], bump(c, i))[0] if False else ", "")
    c, d, out = ints(1, 3), ints(1), ints((6, 1))
    run(dialect, make("c, d, out", ("i in range(1)", body), before=BUMP), c, d, out)
    # c: 3 -> 4 -> 9 -> 10 -> (10 + 11 * 10 = 120) -> 240; d: 0 -> 1 -> 2, then the old d[0], 1, is stored to d[0].
    assert out[:5, 0].tolist() == [3 * 100 + 4 * 10 + 4, 4 - 9, 9 - 10, 10 + 11 * 10, 120 + 1]
    assert c.tolist() == [240] and out[5, 0] == d[0] == 1


@each_dialect
def test_arguments_and_chains(dialect: str) -> None:
    """EVAL-1, EVAL-6: arguments in order; the middle of a chain once; a chain stops at its first false link."""
    body = """
three(note(log, 0, 1), note(log, 0, 2), note(log, 0, 3))
out[0] = 0 < note(log, 1, 2) < 5 < note(log, 1, 9) > note(log, 1, 4)
out[1] = 5 < note(log, 2, 2) < note(log, 2, 3)
out[2] = note(log, 3, 2) + note(log, 3, 1) * note(log, 3, 4)
for j in range(note(log, 4, 1), note(log, 4, 4), note(log, 4, 2)):
    out[3] += j
"""
    before = BUMP + "\n@tack.func\ndef three(a, b, c):\n    return a + b + c\n"
    log, out = ints(5), ints(4)
    run(dialect, make("log, out", ("i in range(1)", body), before=before), log, out)
    assert log.tolist() == [123, 294, 2, 214, 142] and out.tolist() == [1, 0, 6, 4]


@each_dialect
def test_short_circuit_and_chosen_arms(dialect: str) -> None:
    """EVAL-7 to EVAL-9: with effects and without; what is guarded does not run."""
    body = """
x = a[i]
out[0, i] = x > 1 and note(log, i, 1) and note(log, i, 0) and note(log, i, 7)
out[1, i] = x > 1 or note(log, i, 2) or note(log, i, 8)
out[2, i] = note(log, i, 3) if x == 1 else note(log, i, 4) if x == 2 else 9
out[3, i] = not (x and note(log, i, 5))
out[4, i] = 12 // x if x != 0 else -1
out[5, i] = x != 0 and 12 % x == 0
while x > 0 and note(log, i, 6):
    x -= 1
"""
    a, log, out = ints(4), ints(4), ints((6, 4))
    a[:] = range(4)
    run(dialect, make("a, log, out", ("i in range(a.shape[0])", body), before=BUMP), a, log, out)
    want_log, want = reference_guards()
    assert log.tolist() == want_log and out.T.tolist() == want


def reference_guards() -> tuple[list[int], list[list[int]]]:
    logs, rows = [], []
    for start in range(4):
        x, log = start, 0

        def note(value: int) -> int:
            nonlocal log
            log = log * 10 + value
            return value

        row = [bool(x > 1 and note(1) and note(0) and note(7)), bool(x > 1 or note(2) or note(8))]
        row.append(note(3) if x == 1 else note(4) if x == 2 else 9)
        row += [not (x and note(5)), 12 // x if x != 0 else -1, x != 0 and 12 % x == 0]
        while x > 0 and note(6):
            x -= 1
        logs.append(log)
        rows.append([int(v) for v in row])
    return logs, rows


@each_dialect
def test_deep_expressions_and_long_texts(dialect: str) -> None:
    """C compilers limit the depth of brackets; order and guards hold where an expression is cut."""
    total = "a[i]"
    for step in range(150):
        total = f"({total} + {step}) ^ a[{step} % 2]"
    chain = "0"
    for step in range(1, 41):
        chain = f"(12 // a[i] if a[i] == {step} else {chain})"
    body = f"out[0, i] = {total}\nout[1, i] = {chain}\nout[2, i] = a[i] != 0 and ({total}) // a[i] > 0"
    a, out = np.array([0, 5], np.int32), ints((3, 2))
    run(dialect, make("a, out", ("i in range(2)", body)), a, out)
    for i in range(2):
        want = eval(total, {"a": [0, 5], "i": i})
        assert out[0, i] == wrap(want, "i32")
    assert out[1].tolist() == [0, 12 // 5] and out[2, 0] == 0


# --------------------------------------------------------------------------------------------------------- loops


@each_dialect
def test_serial_loops(dialect: str) -> None:
    """LOOP-12, LOOP-13: steps, reversed ranges, the edges of i64, an assigned variable, break and continue."""
    body = """
n = stops[i]
for j in range(starts[i], n, steps[i]):
    n = 0
    if j == skip[i]:
        continue
    out[0, i] += 1
    last[i] = j
    j = 99
    if out[0, i] == 5:
        break
for j in range(1, 8, 3):
    for m in range(j):
        if m == 4:
            break
        out[1, i] += m * j
"""
    big = 2**63 - 1
    rows = [(0, 3, 1, 1), (5, 0, 1, -1), (big - 3, big, 2, 0), (-big - 1, big, big, 0), (0, 100, 7, 14), (3, 3, 1, 0)]
    starts, stops, steps, skip = (np.array(numbers, np.int64) for numbers in zip(*rows, strict=True))
    out, last = np.zeros((2, len(rows)), np.int64), np.zeros(len(rows), np.int64)
    run(
        dialect,
        make("starts, stops, steps, skip, out, last", (f"i in range({len(rows)})", body)),
        starts,
        stops,
        steps,
        skip,
        out,
        last,
    )
    for i, (start, stop, step, skipped) in enumerate(rows):
        taken = [j for j in itertools.islice(range(start, stop, step), 7) if j != skipped][:5]
        assert out[0, i] == len(taken) and last[i] == (taken[-1] if taken else 0)
    assert out[1].tolist() == [sum(m * j for j in range(1, 8, 3) for m in range(min(j, 4)))] * len(rows)


@each_dialect
def test_bounds_of_parallel_loops(dialect: str) -> None:
    """LOOP-8, LOOP-10, LOOP-11: starts, steps, empty and reversed ranges, ndrange with the last index fastest."""
    loops = [
        ("i in range(n - 4, min(n, len(a)) * 2, 3)", "out[0, i] += 1"),
        ("i in range(5, n - 100)", "out[1, i] += 1"),
        (
            "i, j, m in tack.ndrange((1, 3), a.shape[0], (-1, n // 5))",
            "out[2, order[0]] += (i * 100 + j * 10 + m)\norder[0] += 1",
        ),
        ("i, j in tack.ndrange(0, -3)", "out[3, 0] += 1"),
        ("i in range(-a.size + 3, 3 % n)", "out[4, i + 5] += i"),
    ]
    a, order, out = ints(4), ints(1), np.zeros((5, 40), np.int64)
    run(dialect, make("a, n, order, out", *loops), a, 10, order, out)
    assert np.flatnonzero(out[0]).tolist() == list(range(6, 8, 3))
    assert not out[1].any() and not out[3].any()
    want = [i * 100 + j * 10 + m for i in range(1, 3) for j in range(4) for m in range(-1, 2)]
    assert out[2, : len(want)].tolist() == want and not out[2, len(want) :].any()
    assert out[4, 4:8].tolist() == [-1, 0, 1, 2]


@each_dialect
def test_bounds_outside_i64_are_refused(dialect: str) -> None:
    """LOOP-8: nothing runs where a bound or the number of iterations does not fit."""
    out = ints(1)
    with pytest.raises(OverflowError):
        run(dialect, make("n, out", ("i in range(n * 4)", "out[0] = 1")), 2**62, out)
    with pytest.raises(OverflowError):
        run(dialect, make("n, out", ("i, j in tack.ndrange(n, n)", "out[0] = 1")), 2**40, out)
    with pytest.raises(ZeroDivisionError):
        run(dialect, make("n, out", ("i in range(4 // n)", "out[0] = 1")), 0, out)
    assert out[0] == 0


@each_dialect
def test_loops_in_order_with_values_from_before_them(dialect: str) -> None:
    """LOOP-2, LOOP-6, CALL-2: each loop sees the writes before it, each iteration the locals from before its loop."""
    kernel = make(
        "a, out, n",
        ("i in range(a.shape[0])", "total += i\na[i] = total * n\nn = 0"),
        ("i in range(a.shape[0])", "out[i] = a[a.shape[0] - 1 - i] + m"),
        head="m = n + 1\ntotal = m",
        tail="return a[2] * 1.5 + m",
    )
    a, out = np.zeros(5, np.int64), np.zeros(5, np.int64)
    result = run(dialect, kernel, a, out, 7)
    assert a.tolist() == [(8 + i) * 7 for i in range(5)]
    assert out.tolist() == [(8 + 4 - i) * 7 + 8 for i in range(5)] and result == 70 * 1.5 + 8


@pytest.mark.parametrize("group", [32, 256])
@each_dialect
def test_no_thread_past_the_end_does_anything(dialect: str, group: int) -> None:
    """Any trip count: memory after the last element is not touched, and each iteration runs once."""
    kernel = make("a", ("i in range(a.shape[0])", "a[i] += i + 1"))
    options = OpenCLOptions(group=group) if dialect == "opencl" else CFamilyOptions(group=group)
    for count in (0, 1, group - 1, group, group + 1, 3 * group - 5):
        memory = np.full(count + 2 * group, -7, np.int64)
        run(dialect, kernel, memory[:count], options=options)
        assert (memory[count:] == -7).all() and memory[:count].tolist() == [i - 6 for i in range(count)]


@each_dialect
def test_a_launch_may_be_cut_in_pieces(dialect: str) -> None:
    """LOOP-12: `first` and `stop` let a runtime launch a part; indices past 2^32 are right."""
    kernel = make("a, base", ("i in range(base, base + 6_000_000_000, 2)", "a[i - base - 5_999_999_900] += 1"))
    a = ints(100)
    typed = host_run.type_for(kernel, (a, 5))
    text, plan = host_run.generate(dialect, typed)
    launcher = host_run.Launcher(host_run.build(dialect, text, plan), typed, plan, (a, 5), text)
    space = host_run.loop_space(plan.loops[0].ranges, launcher.scalars, launcher.shapes)
    assert space.total == 3_000_000_000
    launcher.launch(plan.loops[0], space, space.total - 50, space.total - 20)
    launcher.launch(plan.loops[0], space, space.total - 20, space.total)
    assert a.tolist() == [1, 0] * 50


# ------------------------------------------------------------------------------------------- functions and memory

FUNCTIONS = """
@tack.func
def classify(x, limit):
    for j in range(10):
        if j * j > x:
            return j, x - j, 0.5
        if j == limit:
            return -1, x, 1
    return 7, 0, 0

@tack.func
def total(values, first):
    s = 0
    for j in range(first, len(values)):
        s += values[j]
    return s

@tack.func
def through(values, first):
    return total(values, first) + values[0]

@tack.func
def fill(values, x):
    for j in range(values.size):
        values[j] = x + j

@tack.func
def early(values, i, x):
    if x < 0:
        return
    values[i] = x

@tack.func
def corner(m, i, j):
    return m[i, j] * m.shape[1] + m.ndim
"""


@each_dialect
def test_device_functions(dialect: str) -> None:
    """FUNC-2, FUNC-3, FUNC-5: several results, returns in loops, none; arrays of each kind through two levels."""
    body = """
k, rest, part = classify(a[i], 6)
out[0, i] = k * 100 + rest
halves[i] = part
t = tack.local(5, tack.i32)
fill(t, a[i])
t[1] = 50
out[1, i] = through(t, 1) + through(TABLE, 2)
early(row, i, a[i] - 20)
out[2, i] = through(a, 1) + corner(out, 0, i)
m = tack.local((2, 3), tack.i64)
m[1, 2] = i
m[0, 1] = 4
m[1, 0] = 8
out[3, i] = m[5] * 100 + m[1] * 10 + corner(m, 1, 0)
"""
    a = np.array([0, 10, 30, 50], np.int32)
    row, halves, out = ints(4, -1), np.zeros(4, np.float32), ints((4, 4))
    kernel = make(
        "a, row, halves, out", ("i in range(a.shape[0])", body), before=FUNCTIONS, names={"TABLE": (1, 2, 3, 4)}
    )
    run(dialect, kernel, a, row, halves, out)
    want = []
    for x in a.tolist():
        k = next((j, x - j, 0.5) if j * j > x else (-1, x, 1) for j in range(10) if j * j > x or j == 6)
        want.append(k)
    assert out[0].tolist() == [k * 100 + rest for k, rest, _ in want] and halves.tolist() == [part for *_, part in want]
    assert out[1].tolist() == [50 + (x + 2) + (x + 3) + (x + 4) + x + 3 + 4 + 1 for x in a.tolist()]
    assert row.tolist() == [x - 20 if x >= 20 else -1 for x in a.tolist()]
    assert out[2].tolist() == [10 + 30 + 50 + 0 + v * 4 + 2 for v in out[0].tolist()]
    assert out[3].tolist() == [i * 100 + 40 + 8 * 3 + 2 for i in range(4)]


@each_dialect
def test_an_iteration_sees_its_stores_through_an_alias(dialect: str) -> None:
    """LOOP-3, MEM-4: arrays may overlap, also with other element types."""
    memory = np.zeros(64, np.int32)
    body = "x[i] = 1.0\nn[i] += 8388608\nx[i] = x[i] + 1.0\nb[4 * i + 3] = 65\ny[i] = x[i]"
    y = np.zeros(16, np.float32)
    kernel = make("x, n, b, y", ("i in range(16)", body))
    run(dialect, kernel, memory[:16].view(np.float32), memory[:16], memory[:16].view(np.uint8), y)
    bits = int(np.array([3.0], np.float32).view(np.uint32)[0]) & 0x00FFFFFF | 65 << 24
    assert y.tolist() == np.full(16, bits, np.uint32).view(np.float32).tolist()


@each_dialect
def test_any_identifier(dialect: str) -> None:
    """SRC-8: words of the target languages, names of helpers, and letters beyond ASCII, apart from each other."""
    body = """
half = double + kernel[i]
float4 = half * 2
__global__ = float4 + Z
Z61Z = a + ZZ
naïve = Z61Z + é
out[i] = __global__ + naïve + int_ + t1 + first
""".replace("int_", "signed")
    head = "signed = 1\nt1 = 2\nfirst = 3\nZZ = 100"
    kernel = make("kernel, out, double, Z, a, é", ("i in range(kernel.size)", body), head=head)
    out = ints(2)
    run(dialect, kernel, np.array([1, 2], np.int32), out, 10, 1000, 10000, 100000)
    assert out.tolist() == [(10 + k) * 2 + 1000 + 10000 + 100 + 100000 + 6 for k in (1, 2)]


# ------------------------------------------------------------------------------------------------------- atomics

INTEGER_ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange")


def atomic_columns(name: str) -> list[float]:
    if name[0] == "f":
        return [-2.5, 0.75, -8.0, 3.25, 1e6, -0.5]
    return [
        3,
        2 ** (int(name[1:]) - 1) - 1,
        5,
        *((-7, -(2**31), -1) if name[0] == "i" else (2 ** int(name[1:]) - 2, 9, 1)),
    ]


def apply(op: str, old: Any, value: Any, name: str) -> Any:
    if name[0] == "f":
        kind = np.float32 if name == "f32" else np.float64
        return (
            float({"add": kind(old) + kind(value), "sub": kind(old) - kind(value)}.get(op, 0))
            if op in ("add", "sub")
            else ({"min": min(old, value), "max": max(old, value), "exchange": value}[op])
        )
    exact = {"add": old + value, "sub": old - value, "min": min(old, value), "max": max(old, value)}
    exact |= {"and": old & value, "or": old | value, "xor": old ^ value, "exchange": value}
    return wrap(exact[op], name)


@pytest.mark.parametrize(("dialect", "explicit"), [*((d, False) for d in host_run.DIALECTS), ("opencl", True)])
def test_atomics_give_the_old_value(dialect: str, explicit: bool) -> None:
    """ATOM-1 to ATOM-4: every operation on every type that the dialect has, old values and final ones."""
    params, loops, args, checks = [], [], [], []
    for t in ATOMIC_TYPES[dialect]:
        ops = [op for op in INTEGER_ATOMICS if t[0] != "f" or op not in ("and", "or", "xor")]
        dtype = np.dtype(f"{t[0]}{int(t[1:]) // 8}")
        values = np.array(atomic_columns(t), dtype)
        cells, olds = np.full(len(ops) + 1, 5, dtype), np.zeros((len(ops) + 1, len(values)), dtype)
        body = "".join(f"o{t}[{row}, i] = tack.atomic_{op}(c{t}, {row}, v{t}[i])\n" for row, op in enumerate(ops))
        body += (
            f"o{t}[{len(ops)}, i] = tack.atomic_cas(c{t}, {len(ops)}, tack.{t}(5) if i != 3 else v{t}[2], v{t}[i])\n"
        )
        params += [f"c{t}", f"v{t}", f"o{t}"]
        loops.append((f"i in range(v{t}.size)", body))
        args += [cells, values, olds]
        checks.append((t, ops, values.tolist(), cells, olds))
    options = {"options": OpenCLOptions(explicit_atomics=True)} if explicit else {}
    run(dialect, make(", ".join(params), *loops), *args, **options)
    for t, ops, values, cells, olds in checks:
        for row, op in enumerate(ops):
            old: Any = 5
            for i, value in enumerate(values):
                assert olds[row, i] == old, f"{op} on {t} in {dialect}"
                old = apply(op, old, value, t)
            assert cells[row] == old, f"{op} on {t} in {dialect}"
        old = 5
        for i, value in enumerate(values):
            assert olds[-1, i] == old
            old = value if old == (5 if i != 3 else values[2]) else old
        assert cells[-1] == old


@each_dialect
def test_atomics_that_a_device_lacks(dialect: str) -> None:
    """ATOM-5: a TypeError with the place and what works, never a neighbour's cell."""
    name = "i64" if dialect == "metal" else "i16"
    kernel = make("c", ("i in range(4)", "tack.atomic_add(c, 0, 1)"))
    typed = host_run.type_for(kernel, (np.zeros(1, f"i{int(name[1:]) // 8}"),))
    with pytest.raises(TypeError, match=rf"(?s)no atomics on {name}.*atomic_add.*\^.*i32, u32"):
        host_run.generate(dialect, typed)
    if dialect == "opencl":
        wide = host_run.type_for(kernel, (np.zeros(1, np.int64),))
        with pytest.raises(TypeError, match="no atomics on i64"):
            host_run.generate(dialect, wide, OpenCLOptions(wide_atomics=False))


@each_dialect
def test_printing_is_refused_with_the_device(dialect: str) -> None:
    typed = host_run.type_for(make("a", ("i in range(4)", "print('x', a[i])")), (ints(4),))
    with pytest.raises(tack.UnsupportedSyntaxError, match=rf"(?s)device {dialect} cannot print.*print\("):
        host_run.generate(dialect, typed)
