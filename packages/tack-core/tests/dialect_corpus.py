"""Kernels that together use everything the generators of C can write, for compilers that only accept or reject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dialects import make
from numeric_oracles import INTEGERS
from tack.lang.types import BY_NAME, ArrayType, DType, ValueType

FUNCTIONS = """
@tack.func
def pair(x, y):
    for j in range(4):
        if j > x:
            return x + y, j
    return x - y, 9

@tack.func
def total(values, first):
    s = 0
    for j in range(first, len(values), 2):
        s += values[j]
    return s

@tack.func
def through(values):
    return total(values, 1) + values[0]

@tack.func
def bump(cells, i):
    cells[i] += 1
    return cells[i]

@tack.func
def corner(m, i):
    return m[i, 1] * m.shape[1] + m.size + m.ndim
"""
INTEGER_EXPRESSIONS = (
    "a + b; a - b; a * b; a & b; a | b; a ^ b; a << 3; a >> 2; -a; ~a; abs(a); min(a, b); max(a, b); a // b; a % b; "
    "a // T(8); a % T(8); a ** b; a ** 3; tack.popcount(a); tack.clz(a); tack.ctz(a); a < b; a == b or b != a; a / b; "
    "tack.f32(a); tack.i8(a); tack.u16(b); tack.i64(a); tack.u64(b); not a; 0 if a > b else 1"
).split("; ")
FLOAT_EXPRESSIONS = (
    ["x + y", "x - y", "x * y", "x / y", "x // y", "x % y", "x ** y", "-x", "x * y + x", "x < y", "not x"]
    + ["min(x, y)", "max(x, y, x)", "tack.atan2(x, y)", "tack.copysign(x, y)", "tack.fma(x, y, x)", "1 if x else 0"]
    + [f"tack.{f}(x)" for f in ("isnan", "isinf", "isfinite", "floor", "ceil", "trunc", "round", "sqrt", "fabs", "i32")]
    + [f"tack.{f}(x)" for f in "sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p".split()]
)
CONTROL = """
k, rest = pair(i, n)
t = tack.local((2, 3), tack.i32)
t[1, 2] = k
t[0, 1] = rest + TABLE[i % 3]
t[0] = cells[i] + bump(cells, i) * cells[0]
out[i] = through(cells) + through(TABLE) + corner(t, 1) + corner(grid, 0)
if cells[i] > 3 and bump(cells, i) < 9 or t[0] == 0:
    grid[i % 2, 0] = bump(cells, i) if n > 2 else t[1]
else:
    while bump(cells, i) < 5:
        if i == 2:
            continue
        break
for j in range(n, 0 - n, 3):
    for m in range(j):
        wide += m
out[i] += wide
"""
WORKGROUPS = """
box = tack.shared((2, 256), tack.T)
lane = tack.thread_id()
kept = cells[i]
box[0, lane] = kept
box[1, lane] = 1
tack.barrier()
for r in range(n):
    if r == 2:
        break
    old = tack.atomic_add(box, 1, 3)
    tack.atomic_max(box, (1, r), kept)
    tack.atomic_cas(box, 2, old, kept)
    tack.barrier()
cells[i] = far(box, 255 - lane) + kept
least = tack.block_min(tack.f32(kept)) + tack.block_sum(1.0)
cells[i] += tack.block_max(least) + i // 256
"""
FAR = """
@tack.func
def far(values, k):
    return values[0, k] + values[1, tack.thread_id()]
"""
Entry = tuple[Any, tuple[ValueType, ...]]


def array(name: str, ndim: int = 1) -> ArrayType:
    return ArrayType(BY_NAME[name], ndim)


def integers() -> Entry:
    params, loops = [], []
    for t in INTEGERS:
        stores = "".join(f"o{t}[{row}, i] = {text}\n" for row, text in enumerate(INTEGER_EXPRESSIONS))
        body = f"a, b = a{t}[i], b{t}[i]\n{stores}"
        body = re.sub(r"\b[ab]\b", rf"\g<0>{t}_", body)  # a local has one type in a kernel
        loops.append((f"i in range(a{t}.size)", body.replace("T(", f"tack.{t}(")))
        params += [f"a{t}", f"b{t}", f"o{t}"]
    types = [x for t in INTEGERS for x in (array(t), array(t), array("f32" if t[0] == "i" else t, 2))]
    return make(", ".join(params), *loops), tuple(types)


def floats(name: str) -> Entry:
    stores = "".join(f"out[{row}, i] = {text}\n" for row, text in enumerate(FLOAT_EXPRESSIONS))
    body = f"x, y = a[i], b[i]\n{stores}out[0, 0] = INF\nout[0, 1] = x * 0.1 - NAN\nn[i] = y"
    names = {"INF": float("-inf"), "NAN": float("nan")}
    kernel = make("a, b, out, n, s", ("i in range(a.size)", body), names=names, tail="return s * 2.5")
    return kernel, (array(name), array(name), array(name, 2), array("i64"), BY_NAME[name])


def control() -> Entry:
    loops = [
        ("i in range(out.size)", CONTROL),
        ("i, j in tack.ndrange((n, 9), out.shape[0])", "out[j] = i * j + first"),
    ]
    head = "wide = tack.i64(n)\nfirst = n + 1"
    kernel = make(
        "out, cells, grid, n", *loops, head=head, before=FUNCTIONS, tail="return n - 1", names={"TABLE": (1, 2, 3)}
    )
    return kernel, (array("i32"), array("i32"), array("i32", 2), BY_NAME["i16"])


def atomics(names: tuple[str, ...]) -> Entry:
    params, loops, types = [], [], list[ValueType]()
    for t in names:
        ops = ["add", "sub", "min", "max", "exchange", *(("and", "or", "xor") if t[0] != "f" else ())]
        body = "".join(f"c{t}[i] = tack.atomic_{op}(c{t}, 0, v)\ntack.atomic_{op}(c{t}, i, 1)\n" for op in ops)
        loops.append((f"i in range(c{t}.size)", body.replace("v)", f"c{t}[i])") + f"tack.atomic_cas(c{t}, 0, 1, 2)"))
        params.append(f"c{t}")
        types.append(array(t))
    return make(", ".join(params), *loops), tuple(types)


def workgroups(names: tuple[str, ...]) -> Entry:
    """A loop for each type: shared memory, atomics on it, a device function of it, block reductions."""
    loops = []
    for t in names:  # a local has one type in a kernel
        body = re.sub(r"\b(box|kept|old|cells)\b", rf"\g<0>{t}", WORKGROUPS).replace("tack.T", f"tack.{t}")
        loops.append((f"i in range(cells{t}.size)", body))
    params = [f"cells{t}" for t in names]
    return make(", ".join([*params, "n"]), *loops, before=FAR), (*map(array, names), BY_NAME["i32"])


def names() -> Entry:
    """Identifiers that mean something to a target, or that C lacks (rule SRC-8)."""
    text = "half = float4 + i\nZ = half + é\n__kernel = Z + gl_Position\nout[i] = __kernel + as_type\n"
    return make("out, float4, é, gl_Position, as_type", ("i in range(out.size)", text)), (
        array("i64"),
        *_scalars("i32", 4),
    )


def _scalars(name: str, count: int) -> tuple[DType, ...]:
    return (BY_NAME[name],) * count


def streams() -> Entry:
    """Loops whose accesses are wide, over arrays of several widths which may be the same memory."""
    rows = ("i, j in tack.ndrange(grid.shape[0], grid.shape[1])", "grid[i, j] = grid[i, j] + bytes[j]")
    kernel = make("out, bytes, grid", ("i in range(out.size)", "out[i] = out[i] + bytes[i]"), rows)
    return kernel, (array("f32"), array("i8"), array("i64", 2))


def corpus(float_types: tuple[str, ...], atomic_types: tuple[str, ...]) -> Iterator[tuple[str, Entry]]:
    """All entries that a dialect with these types can have, by name."""
    yield "integers", integers()
    yield from ((f"floats_{name}", floats(name)) for name in float_types)
    yield "control", control()
    yield "atomics", atomics(atomic_types)
    yield "workgroups", workgroups(atomic_types)
    yield "names", names()
    yield "streams", streams()
