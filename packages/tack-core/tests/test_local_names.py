"""Local names: which assignments a read can see (rules CAP-1, CAP-2, LOOP-6, LOOP-7, PAR-3)."""

from __future__ import annotations

import pytest

from kernel_text import run_text
from tack import UnsupportedSyntaxError
from tack.lang.ast_transform import lower_kernel
from tack.lang.source import read_source
from tack.lang.source_validation import validate


def lower(text: str, filename: str | None = None) -> None:
    source = read_source(run_text(text, filename)["k"], "kernel")
    validate(source)
    lower_kernel(source)


def in_loop(body: str) -> str:
    return "def k(a, n):\n    for i in range(n):\n" + "".join(f"        {line}\n" for line in body.splitlines())


ACCEPTED = {
    "one path assigns": "if n:\n    x = 1\na[i] = x",
    "each path assigns": "if n:\n    x = 1\nelse:\n    x = 2\na[i] = x",
    "the loop assigns": "while n:\n    x = 1\n    n -= 1\na[i] = x",
    "an earlier round assigns": "for j in range(3):\n    if j > 0:\n        a[i] = x\n    x = j",
    "continue carries it": "for j in range(3):\n    if j > 0:\n        a[i] = x\n    x = j\n    continue",
    "break carries it": "while True:\n    x = 1\n    if n:\n        break\na[i] = x",
    "a loop variable reassigned": "for j in range(3):\n    pass\nj = 1\na[j] = 0",
    "a loop variable used again": "for j in range(3):\n    pass\nfor j in range(2):\n    a[j] = 0",
    "a loop variable assigned in its body": "for j in range(3):\n    j += 1\n    a[j] = 0",
    "unreachable": "continue\na[i] = x\nx = 1",
    "a parameter": "n += 1\na[i] = n",
}

REFUSED = {
    "never before": ("a[i] = x\nx = 1", "local `x` is read, but nothing has assigned it"),
    "only later in the line": ("x, y = 1, x", "local `x` is read, but nothing has assigned it"),
    "in its own value": ("x = x + 1", "local `x` is read, but nothing has assigned it"),
    "augmented": ("x += 1", "local `x` is read, but nothing has assigned it"),
    "in an index": ("a[x] = 1\nx = 1", "local `x` is read, but nothing has assigned it"),
    "in a condition": ("while x:\n    pass\nx = 1", "local `x` is read, but nothing has assigned it"),
    "in print": ("print(f'{x}')\nx = 1", "local `x` is read, but nothing has assigned it"),
    "in a dropped assert": ("assert x\nx = 1", "local `x` is read, but nothing has assigned it"),
    "dead after its loop": ("for j in range(3):\n    pass\na[i] = j", "the loop of `j` has ended"),
    "dead though assigned before": ("j = 5\nfor j in range(3):\n    pass\na[i] = j", "the loop of `j` has ended"),
    "dead on one path": ("j = 5\nif n:\n    for j in range(3):\n        pass\na[i] = j", "the loop of `j` has ended"),
    "dead in the next round": (
        "j = 5\nwhile n:\n    a[i] = j\n    for j in range(3):\n        pass",
        "the loop of `j` has ended",
    ),
    "an inner loop ends the outer name": (
        "for j in range(3):\n    for j in range(2):\n        pass\n    a[i] = j",
        "the loop of `j` has ended",
    ),
    "the parallel variable": ("for i in range(3):\n    pass\na[i] = 1", "the loop of `i` has ended"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    """CAP-1: where some path has assigned it, being assigned is the caller's constraint."""
    lower(in_loop(ACCEPTED[name]))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    """CAP-1, CAP-2: with the position of the read."""
    body, message = REFUSED[name]
    with pytest.raises(NameError) as caught:
        lower(in_loop(body), "<names>")
    assert str(caught.value).startswith("<names>:")
    assert message in str(caught.value)
    assert "help: " in str(caught.value)


def test_message():
    """SRC-6."""
    with pytest.raises(NameError) as caught:
        lower(in_loop("for row in range(3):\n    pass\na[i] = 2 * row"), "<names>")
    assert str(caught.value) == (
        "<names>:5:20: in kernel `k`: the loop of `row` has ended, so `row` has no value here\n"
        "    a[i] = 2 * row\n"
        "               ^^^\n"
        "  help: assign it again, or copy it to another local inside the loop"
    )


LOCAL = "t = tack.local(3, tack.f32)\n"
BEFORE = "def k(a, n):\n    s = 1\n    for i in range(n):\n"
BEFORE += "        t = s\n        s = s + 1\n        n = n + 1\n        a[i] = n\n"


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("    for i in range(3):\n        a[i] = t\n", "`t` was assigned inside an earlier parallel loop"),
        ("    for i in range(3):\n        a[i] = s\n", "`s` was assigned inside an earlier parallel loop"),
        ("    return s\n", "`s` was assigned inside an earlier parallel loop"),
        ("    u = t\n    for i in range(3):\n        a[i] = u\n", "`t` was assigned inside an earlier parallel loop"),
        ("    return i\n", "the loop of `i` has ended"),
        ("    for j in range(i):\n        a[j] = 0\n", "the loop of `i` has ended"),
        ("    for j in range(3):\n        a[j] = i\n", "the loop of `i` has ended"),
    ],
)
def test_locals_of_a_parallel_loop_are_not_visible_after_it(rest, message):
    """LOOP-7: also where the name had a value before the loop, which Python would have changed."""
    with pytest.raises(NameError, match=message):
        lower(BEFORE + rest)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "    for i in range(n):\n        a[i] = n\n",
        "    t = 2\n    for i in range(t):\n        a[i] = t\n",
        "    for i in range(n):\n        t = i\n        a[i] = t\n",
        "    return n\n",
    ],
)
def test_what_stays_visible(rest):
    """PAR-3, LOOP-6: a parameter is what the caller passed; names may be assigned again."""
    lower(BEFORE + rest)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (in_loop("a[0] = 1\na = 5"), TypeError, "`a` is an array here, and cannot be assigned"),
        (
            "def k(a: tack.f32, n):\n    for i in range(n):\n        a[i] = 0\n",
            TypeError,
            "annotated f32, a number, and used as an array",
        ),
        (in_loop(LOCAL + "t = 1"), TypeError, "`t` is a local array, and cannot be assigned"),
        (in_loop(LOCAL + "x = t + 1"), TypeError, "local array `t` is not a number"),
        (in_loop("t = 1\nt = tack.local(3, tack.f32)"), UnsupportedSyntaxError, "`t` is already a number here"),
        (in_loop(LOCAL + LOCAL), UnsupportedSyntaxError, "`t` is a local array already"),
        (in_loop("t = tack.local(n, tack.f32)"), UnsupportedSyntaxError, "the shape of a local array must be constant"),
        (in_loop("t = tack.local(0, tack.f32)"), ValueError, "the extents of a local array must be positive"),
        (in_loop("t = tack.local(3)"), TypeError, "`tack.local` takes a shape and a dtype"),
        (in_loop("t = tack.local(3, float)"), TypeError, "is not a Tack dtype"),
        (in_loop("x: tack.f64 = 1\nx: tack.f32 = 2"), TypeError, "`x` is annotated f32 here and f64 before"),
        (in_loop("n: tack.f64 = 1"), TypeError, "`n` is a parameter, which has its own type"),
        (in_loop("i: tack.f64 = 1"), TypeError, "`i` is a loop variable, which has its own type"),
        (in_loop("x: f64 = 1"), NameError, "the annotation `f64` cannot be found"),
        (in_loop("x, y = 1, 2, 3"), TypeError, "3 values cannot be unpacked"),
        (in_loop("x, y = n"), UnsupportedSyntaxError, "this value cannot be unpacked"),
        (in_loop("x = 1, 2"), UnsupportedSyntaxError, "a tuple as a value"),
    ],
)
def test_mistakes(text, kind, message):
    """MEM-6, SYN-3, TYPE-7."""
    with pytest.raises(kind, match=message):
        lower(text)
