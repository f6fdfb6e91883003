"""Integers in the generated C of every dialect, run on the host under the undefined-behaviour sanitizer.

Oracle: Python's big integers reduced modulo 2^N, and `divmod`. Rules TYPE-2, TYPE-4, INT-1 to INT-7, IDIV-1, IDIV-2,
POW-1, POW-2, SHIFT-1 to SHIFT-3, LIT-1, LIT-2.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dialects import each_dialect, make, needs_compiler, run, zeros
from numeric_oracles import INTEGERS, a_dtype, bits, boundary, disagrees, few, is_signed, limits, promote, wrap

pytestmark = needs_compiler

Operation = Callable[..., int]
# Expressions in `a`, `b` (both of the type at hand), `n` (a count) and `e` (an exponent), and what they are exactly.
WRAPPING: dict[str, Operation] = {
    "a + b": lambda a, b, n, e: a + b,
    "a - b": lambda a, b, n, e: a - b,
    "a * b": lambda a, b, n, e: a * b,
    "a & b": lambda a, b, n, e: a & b,
    "a | b": lambda a, b, n, e: a | b,
    "a ^ b": lambda a, b, n, e: a ^ b,
    "-a": lambda a, b, n, e: -a,
    "~a": lambda a, b, n, e: ~a,
    "abs(a)": lambda a, b, n, e: abs(a),
    "min(a, b)": lambda a, b, n, e: min(a, b),
    "max(b, a, b)": lambda a, b, n, e: max(a, b),
    "a << n": lambda a, b, n, e: a << n,
    "a >> n": lambda a, b, n, e: a >> n,
    "a ** e": lambda a, b, n, e: a**e,
    "a ** 3": lambda a, b, n, e: a**3,
    "(a * b - a) * (b + a)": lambda a, b, n, e: (a * b - a) * (b + a),
}
DIVIDING: dict[str, Operation] = {
    "a // b": operator.floordiv,
    "a % b": operator.mod,
    "(a // b) * b + a % b": lambda a, b: a,
}
LITERAL_DIVISORS = (1, 3, 8, 64)


def values(name: str) -> list[tuple[int, int, int, int]]:
    """Pairs of values at the edges of a type, each with a count and an exponent."""
    pairs = itertools.product(few(name), boundary(name)[::3])
    return [(a, b, i % bits(name), (i * 7) % 23) for i, (a, b) in enumerate(pairs)]


def column(numbers: list[int], name: str) -> np.ndarray[Any, Any]:
    return np.array(numbers, a_dtype(name))


def expressions_kernel() -> Any:
    """One loop for each type, so that a dialect is compiled once."""
    params, loops = [], []
    for t in INTEGERS:
        params += [f"{x}_{t}" for x in "abne"] + [f"out_{t}"]
        body = f"a, b, n, e = a_{t}[i], b_{t}[i], n_{t}[i], e_{t}[i]\n".replace("a, b, n, e", f"a{t}, b{t}, n{t}, e{t}")
        for row, text in enumerate(WRAPPING):
            body += f"out_{t}[{row}, i] = {named(text, t)}\n"
        loops.append((f"i in range(a_{t}.shape[0])", body))
    return make(", ".join(params), *loops)


def named(text: str, t: str) -> str:
    """An expression in the locals of one type: `a` becomes `ai8`."""
    return "".join(c + t if c in "abne" and not word else c for c, word in zip(text, in_words(text), strict=True))


def in_words(text: str) -> list[bool]:
    """Whether each character belongs to a longer word, such as the `a` of `abs`."""
    letters = [c.isalpha() for c in text]
    return [
        is_letter and ((i > 0 and letters[i - 1]) or (i + 1 < len(text) and letters[i + 1]))
        for i, is_letter in enumerate(letters)
    ]


@each_dialect
def test_every_operation_wraps_at_every_width(dialect: str) -> None:
    """INT-1, INT-2, INT-4, SHIFT-1, SHIFT-2, POW-1: each nested operation wraps before its value is used."""
    args, results = [], {}
    for t in INTEGERS:
        table = values(t)
        args += [column(list(numbers), t) for numbers in zip(*table, strict=True)]
        results[t] = zeros((len(WRAPPING), len(table)), t)
        args.append(results[t])
    run(dialect, expressions_kernel(), *args)
    for t, (row, (text, exact)) in itertools.product(INTEGERS, enumerate(WRAPPING.items())):
        want = [wrap(exact(*v), t) for v in values(t)]
        assert results[t][row].tolist() == want, f"{t}: {text}"


def test_the_values_show_where_a_wrap_matters() -> None:
    """The control: an oracle that wraps only at the end differs for every type."""
    for t in INTEGERS:
        naive = lambda a, b, n, e, t=t: wrap(((a * b - a) * (b + a)) >> 1, t)  # noqa: E731
        truth = lambda a, b, n, e, t=t: wrap(wrap((a * b - a) * (b + a), t) >> 1, t)  # noqa: E731
        assert disagrees(naive, truth, values(t))


def division_pairs(name: str) -> list[tuple[int, int]]:
    low = limits(name)[0]
    return [
        (a, b)
        for a, b in itertools.product(few(name), boundary(name))
        if b != 0 and not (is_signed(name) and a == low and b == -1)
    ]


@each_dialect
def test_division_rounds_down_at_every_width(dialect: str) -> None:
    """IDIV-1, IDIV-2: `//` rounds toward negative infinity and `%` has the divisor's sign; literal divisors too."""
    params, loops, args, results = [], [], [], {}
    for t in INTEGERS:
        pairs = division_pairs(t)
        params += [f"a_{t}", f"b_{t}", f"out_{t}"]
        texts = [named(text, t) for text in DIVIDING]
        texts += [f"a{t} {op} tack.{t}({d})" for d in LITERAL_DIVISORS for op in ("//", "%")]
        stores = "".join(f"out_{t}[{row}, i] = {text}\n" for row, text in enumerate(texts))
        loops.append((f"i in range(a_{t}.shape[0])", f"a{t}, b{t} = a_{t}[i], b_{t}[i]\n{stores}"))
        results[t] = zeros((len(texts), len(pairs)), t)
        args += [column([a for a, _ in pairs], t), column([b for _, b in pairs], t), results[t]]
    run(dialect, make(", ".join(params), *loops), *args)
    for t in INTEGERS:
        pairs = division_pairs(t)
        want = [[wrap(exact(a, b), t) for a, b in pairs] for exact in DIVIDING.values()]
        want += [[f(a, d) for a, _ in pairs] for d in LITERAL_DIVISORS for f in (operator.floordiv, operator.mod)]
        assert results[t].tolist() == want, t


def test_truncation_differs_on_the_pairs() -> None:
    """The control of the test above: C's own division disagrees for every signed type."""
    for t in filter(is_signed, INTEGERS):
        assert disagrees(
            lambda a, b: int(np.trunc(np.longdouble(a) / np.longdouble(b))), operator.floordiv, division_pairs(t)
        )


@each_dialect
def test_all_cast_pairs(dialect: str) -> None:
    """INT-5 and INT-6: a cast and a store reduce modulo 2^N of the target; widening follows the source's sign."""
    params, loops, args, results = [], [], [], {}
    for s in INTEGERS:
        params += [f"a_{s}", *(f"{s}_{t}" for t in INTEGERS)]
        body = "".join(f"{s}_{t}[0, i] = tack.{t}(a_{s}[i])\n{s}_{t}[1, i] = a_{s}[i]\n" for t in INTEGERS)
        loops.append((f"i in range(a_{s}.shape[0])", body))
        results[s] = {t: zeros((2, len(boundary(s))), t) for t in INTEGERS}
        args += [column(boundary(s), s), *results[s].values()]
    run(dialect, make(", ".join(params), *loops), *args)
    for s, t in itertools.product(INTEGERS, INTEGERS):
        assert results[s][t].tolist() == [[wrap(v, t) for v in boundary(s)]] * 2, f"{s} to {t}"


@each_dialect
def test_comparisons_of_mixed_types_compare_values(dialect: str) -> None:
    """TYPE-2, TYPE-4: operands meet at a type that holds both, so -1 is less than the u32 1."""
    pairs = [("i32", "u32"), ("i8", "u8"), ("i16", "u32"), ("u8", "u64"), ("i64", "i8")]
    ops = ("<", "<=", ">", ">=", "==", "!=")
    params, loops, args, checks = [], [], [], []
    for a, b in pairs:
        name, table = f"{a}{b}", list(itertools.product(few(a), few(b)))
        params += [f"x{name}", f"y{name}", f"out{name}"]
        body = "".join(f"out{name}[{row}, i] = x{name}[i] {op} y{name}[i]\n" for row, op in enumerate(ops))
        loops.append((f"i in range(x{name}.shape[0])", body + f"out{name}[6, i] = min(x{name}[i], y{name}[i])\n"))
        out = zeros((7, len(table)), promote(a, b) or "i64")
        args += [column([x for x, _ in table], a), column([y for _, y in table], b), out]
        checks.append((out, table))
    run(dialect, make(", ".join(params), *loops), *args)
    functions = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne, min)
    for out, table in checks:
        assert out.tolist() == [[int(f(x, y)) for x, y in table] for f in functions]


@each_dialect
def test_counts_of_bits(dialect: str) -> None:
    """MATH-4: popcount, clz and ctz at every width; of zero, clz and ctz give the width."""
    params, loops, args, results = [], [], [], {}
    for t in INTEGERS:
        params += [f"a_{t}", f"out_{t}"]
        names = ("popcount", "clz", "ctz")
        body = "".join(f"out_{t}[{row}, i] = tack.{name}(a_{t}[i])\n" for row, name in enumerate(names))
        loops.append((f"i in range(a_{t}.shape[0])", body))
        results[t] = zeros((3, len(boundary(t))), "i32")
        args += [column(boundary(t), t), results[t]]
    run(dialect, make(", ".join(params), *loops), *args)
    for t in INTEGERS:
        patterns = [format(v % 2 ** bits(t), f"0{bits(t)}b") for v in boundary(t)]
        ones = [p.count("1") for p in patterns]
        leading = [len(p) - len(p.lstrip("0")) for p in patterns]
        trailing = [len(p) - len(p.rstrip("0")) for p in patterns]
        assert results[t].tolist() == [ones, leading, trailing], t


@each_dialect
def test_literals_at_full_width(dialect: str) -> None:
    """LIT-1, LIT-2: the extremes of every type, as literals and as captured numbers, and tables of them."""
    edges = {t: limits(t) for t in INTEGERS}
    stores = "".join(f"{t}s[0] = {low}\n{t}s[1] = {high}\n" for t, (low, high) in edges.items() if t != "u64")
    stores += "u64s[0] = 0\nu64s[1] = 18446744073709551615\n"
    captured = {f"LOW_{t}": low for t, (low, _) in edges.items()} | {
        f"HIGH_{t}": high for t, (_, high) in edges.items()
    }
    captured["WIDE"] = (-(2**63), 2**63 - 1, 5)
    stores += (
        "".join(f"{t}s[2] = LOW_{t}\n{t}s[3] = HIGH_{t}\n" for t in edges) + "i64s[4] = WIDE[i] \ni64s[5] = WIDE[i + 1]"
    )
    kernel = make(", ".join(f"{t}s" for t in edges), ("i in range(1)", stores), names=captured)
    arrays = [zeros(6, t) for t in edges]
    run(dialect, kernel, *arrays)
    for array, (t, (low, high)) in zip(arrays, edges.items(), strict=True):
        assert array.tolist() == [low, high, low, high, *((-(2**63), 2**63 - 1) if t == "i64" else (0, 0))], t
