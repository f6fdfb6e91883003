"""Parallel loops: where they stand, and their bounds.

Rules LOOP-1, LOOP-5, LOOP-6, LOOP-8, LOOP-10, LOOP-11, LOOP-13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernel_text import run_text
from tack import UnsupportedSyntaxError
from tack.lang.ast_transform import lower_kernel
from tack.lang.bounds import check_host_expression, evaluate
from tack.lang.ir import IRParallelFor
from tack.lang.source import read_source
from tack.lang.source_validation import validate


def lower(text: str, filename: str | None = None, **names: Any):
    source = read_source(run_text(text, filename, **names)["k"], "kernel")
    validate(source)
    return lower_kernel(source).ir


def loop_over(bounds: str, before: str = "", body: str = "a[0] = 1") -> str:
    lines = "".join(f"    {line}\n" for line in before.splitlines())
    return f"def k(a, b, n, m, x):\n{lines}    for i in {bounds}:\n        {body}\n"


FILL = "    for i in range(n):\n        a[i] = 0\n"
ENV: dict[str, Any] = {"a": np.zeros((5, 7)), "b": np.zeros(3), "n": 11, "m": -4, "x": 2}


def last_ranges(text: str, **names: Any) -> list[tuple[int, int, int]]:
    loop = [s for s in lower(text, **names).body if isinstance(s, IRParallelFor)][-1]
    for r in loop.ranges:
        for bound in (r.start, r.stop, r.step):
            check_host_expression(bound)
    return [tuple(evaluate(e, ENV) for e in (r.start, r.stop, r.step)) for r in loop.ranges]


@pytest.mark.parametrize(
    ("bounds", "before", "expected"),
    [
        ("range(n)", "", (0, 11, 1)),
        ("range(m, n, x)", "", (-4, 11, 2)),
        ("range(-n // 2, n % -3 + 1)", "", (-6, 0, 1)),
        ("range(a.shape[1] * a.shape[0] - len(b))", "", (0, 32, 1)),
        ("range(a.size, a.size + a.ndim)", "", (35, 37, 1)),
        ("range(min(n, a.shape[0]), max(m, 3, x))", "", (5, 3, 1)),
        ("range(K, -(-n), LIMITS[1])", "", (6, 11, 3)),
        ("range(half)", "half = n // 2", (0, 5, 1)),
        ("range(half, n)", "half = n // 2\nhalf = half + len(a)\nn = half * 2", (10, 20, 1)),
        ("range(p, q)", "p, q = m, n\np, q = q, p", (11, -4, 1)),
        ("range(h)", "h: tack.i64 = n + 1", (0, 12, 1)),
        ("range(h)", "h = g = n - 1", (0, 10, 1)),
        ("range(n)", "if n > 3:\n    y = 2\nelse:\n    y = 3", (0, 11, 1)),
        ("range(True + 1)", "", (0, 2, 1)),
    ],
)
def test_bounds_that_the_host_evaluates(bounds, before, expected):
    """LOOP-8: straight-line locals are what they were assigned, in terms of the arguments."""
    assert last_ranges(loop_over(bounds, before), K=6, LIMITS=(2, 3)) == [expected]


def test_ndrange():
    """LOOP-11."""
    text = "def k(a, b, n, m, x):\n    for i, j, l in tack.ndrange(n, (m, a.shape[1]), 2 * x):\n        a[i, j] = l\n"
    assert last_ranges(text) == [(0, 11, 1), (-4, 7, 1), (0, 4, 1)]
    assert last_ranges(loop_over("tack.ndrange(n)")) == [(0, 11, 1)]


@pytest.mark.parametrize(
    ("bounds", "before", "kind", "message"),
    [
        ("range(b[0])", "", UnsupportedSyntaxError, "an element of `b` is known only on the device"),
        ("range(int(n))", "", UnsupportedSyntaxError, "a cast is not a host operation"),
        ("range(n / 2)", "", UnsupportedSyntaxError, "`/` is not a host operation"),
        ("range(n << 1)", "", UnsupportedSyntaxError, "`<<` is not a host operation"),
        ("range(n ** 2)", "", UnsupportedSyntaxError, r"`\*\*` is not a host operation"),
        ("range(~n)", "", UnsupportedSyntaxError, "`~` is not a host operation"),
        ("range(n if m else x)", "", UnsupportedSyntaxError, "this is not a host operation"),
        ("range(n > 2)", "", UnsupportedSyntaxError, "this is not a host operation"),
        ("range(abs(m))", "", UnsupportedSyntaxError, "this is not a host operation"),
        ("range(2.0)", "", TypeError, "a float is not an integer"),
        ("range(y)", "y = b[0]", UnsupportedSyntaxError, "`y` is not a host expression, since an element of `b`"),
        ("range(z)", "y = n / 2\nz = y + 1", UnsupportedSyntaxError, "`z` is not a host expression, since `y` is not"),
        ("range(y)", "y = 1\nif n:\n    y = 2", UnsupportedSyntaxError, "`y` is assigned under an `if` or `while`"),
        ("range(y)", "y = 1\nwhile y < n:\n    y *= 2", UnsupportedSyntaxError, "`y` is assigned under an `if` or"),
        ("range(y)", "y: tack.u8 = n", UnsupportedSyntaxError, "`y` is annotated u8"),
        ("range(n, m, 0)", "", ValueError, "the step of `range` must be positive, and this one is 0"),
        ("range(n, m, -1)", "", ValueError, "the step of `range` must be positive, and this one is -1"),
        ("range(n, m, 1 - STEP)", "", ValueError, "the step of `range` must be positive, and this one is -2"),
        ("range()", "", TypeError, "`range` takes 1 to 3 arguments, not 0"),
        ("range(1, 2, 3, 4)", "", TypeError, "`range` takes 1 to 3 arguments, not 4"),
        ("range(stop=3)", "", TypeError, "`range` takes no keyword arguments"),
        ("tack.ndrange(n, m)", "", TypeError, "has 2 dimensions, and there are 1 loop variables"),
        ("tack.ndrange((1, 2, 3))", "", TypeError, "a size or a `\\(start, end\\)` pair"),
        ("tack.ndrange()", "", TypeError, "takes 1 or more arguments"),
        ("max(n, m)", "", UnsupportedSyntaxError, "a loop over anything but `range` or `tack.ndrange`"),
    ],
)
def test_bounds_that_are_refused(bounds, before, kind, message):
    """LOOP-8, LOOP-10: with the reason and its position."""
    with pytest.raises(kind, match=message) as caught:
        lower(loop_over(bounds, before), "<bounds>", STEP=3)
    assert str(caught.value).startswith("<bounds>:")


def test_message_of_a_bound():
    with pytest.raises(UnsupportedSyntaxError) as caught:
        lower(loop_over("range(n, m + b[i + 1])", "i = 2"), "<bounds>")
    assert str(caught.value) == (
        "<bounds>:3:27: in kernel `k`: the bounds of a parallel loop are evaluated on the host, before it starts: "
        "an element of `b` is known only on the device\n"
        "    for i in range(n, m + b[i + 1]):\n"
        "                          ^^^^^^^^\n"
        "  help: use constants, scalar arguments, shapes, `len`, `+ - * // %`, `min` and `max`; or loop further and "
        "test with `if` in the body"
    )


def test_evaluation_is_exact_and_stays_in_i64():
    """LOOP-8, LOOP-12: every intermediate fits i64, or nothing runs."""
    big = 2**62
    for bounds, env, problem in [
        ("range(n * 2 - 1)", {"n": big}, OverflowError),
        ("range(n * 2 - 1)", {"n": big - 1}, None),
        ("range(-n)", {"n": -(2**63)}, OverflowError),
        ("range(n)", {"n": 2**63}, OverflowError),
        ("range(5 // n)", {"n": 0}, ZeroDivisionError),
        ("range(5 % n)", {"n": 0}, ZeroDivisionError),
        ("range(n // -1)", {"n": -(2**63)}, OverflowError),
    ]:
        stop = lower(loop_over(bounds)).body[0].ranges[0].stop
        if problem is None:
            assert evaluate(stop, env) == 2**63 - 3
        else:
            with pytest.raises(problem):
                evaluate(stop, env)


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        (
            "    if n:\n        for i in range(n):\n            a[i] = 0\n",
            "a `for` under an `if` or `while` outside",
            "directly in the body",
        ),
        (
            "    while n:\n        for i in range(n):\n            a[i] = 0\n",
            "a `for` under an `if` or `while` outside",
            "directly in the body",
        ),
        ("    a[0] = 1\n" + FILL, "a store outside the parallel loops", "move it into a loop"),
        (FILL + "    a[0] += 1\n", "a store outside the parallel loops", "move it into a loop"),
        ("    tack.atomic_add(a, 0, 1)\n" + FILL, "`tack.atomic_add` outside", "move it into a loop"),
        (FILL + "    print(n)\n", "`print` outside the parallel loops", "move it into a loop"),
        ("    set(a)\n" + FILL, "a call of `set`, which stores to an array, outside", "move it into a loop"),
        ("    say(n)\n" + FILL, "`print` outside the parallel loops", "move it into a loop"),
        (
            "    x = a[0]\n    for i in range(n):\n        a[i] = x\n",
            "a load of `a` outside the parallel loops",
            "inside the loop",
        ),
        (
            "    x = get(a)\n    for i in range(n):\n        set(a)\n",
            "a load of `a` outside the parallel loops",
            "inside the loop",
        ),
        (FILL + "    x = a[0]\n    return x\n", "a load of `a` outside the parallel loops", "inside"),
        ("    t = tack.local(3, tack.f32)\n" + FILL, "`tack.local` outside", "in the body of the loop"),
        ("    return n\n" + FILL, "a `return` that is not the last statement", "at the end"),
        ("    if n:\n        return 1\n" + FILL, "a `return` that is not the last", "at the end"),
        ("    for i in range(n):\n        return\n", "a `return` inside a parallel loop", "continue"),
        (
            "    for i in range(n):\n        for j in range(n):\n            return 1\n",
            "a `return` inside a parallel loop",
            "continue",
        ),
        ("    for i in range(n):\n        break\n", "`break` out of a parallel loop", "continue"),
        ("    for i in range(n):\n        if n:\n            break\n", "`break` out of a parallel loop", "continue"),
        (FILL + "    return n, n\n", "several results of a kernel", "one number"),
        ("    x = n\n", "a kernel without a parallel loop", "range(1)"),
        ("    pass\n", "a kernel without a parallel loop", "range(1)"),
        (
            "    for i in range(n):\n        for j in tack.ndrange(n):\n            pass\n",
            "`tack.ndrange` in a serial loop",
            "nest",
        ),
        ("    for i, i in tack.ndrange(n, n):\n        pass\n", "two loop variables of one name", "differently"),
        ("    for i, j in range(n):\n        pass\n", "several variables of a `range`", "ndrange"),
    ],
)
def test_where_statements_may_stand(text, message, advice):
    """LOOP-1, LOOP-5, LOOP-13, CALL-2."""
    helpers = """
    @tack.func
    def set(p):
        p[0] = 1
    @tack.func
    def get(p):
        return p[0]
    @tack.func
    def say(p):
        print(p)
    """
    functions = run_text(helpers)
    with pytest.raises(UnsupportedSyntaxError) as caught:
        lower("def k(a, b, n):\n" + text, "<place>", **{name: functions[name] for name in ("set", "get", "say")})
    assert str(caught.value).startswith("<place>:")
    assert message in str(caught.value)
    assert advice in str(caught.value).partition("help: ")[2]


@pytest.mark.parametrize(
    "text",
    [
        "    s = b[0] * 2\n    while s > n:\n        s -= 1\n        if s == 3:\n            break\n" + FILL,
        FILL + "    return a[0] + b[0]\n",
        FILL + "    return\n",
        FILL
        + "        while True:\n            break\n        for j in range(3):\n            break\n        continue\n",
        "    assert n > 0\n" + FILL,
    ],
)
def test_what_may_stand_outside_the_loops(text):
    """LOOP-6, CALL-2, LOOP-13: the negative control of the tests above."""
    lower("def k(a, b, n):\n" + text)
