"""`return f(...)`: the results of a function passed on by another, however many there are (FUNC-2)."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_text import run_text

FUNCTIONS = """
@tack.func
def divide(a, b):
    if b == 0:
        return 0, -1
    return a // b, a % b

@tack.func
def again(a, b):
    if a < 0:
        return divide(a, b)
    return b, a

@tack.func
def thrice(a, b):
    for j in range(3):
        if j == a:
            return again(-a * 7, b)
    return again(a, b)

@tack.func
def tenths(n):
    return 0.1, n

@tack.func
def passed(n):
    return tenths(n)

@tack.func
def mark(out, i):
    out[i] = 5

@tack.func
def mark_again(out, i):
    return mark(out, i)

@tack.func
def one(a):
    return one_more(a)

@tack.func
def one_more(a):
    return a + 1
"""


def python_thrice(a, b):
    """The same in Python, which is the oracle."""

    def divide(a, b):
        return (0, -1) if b == 0 else divmod(a, b)

    def again(a, b):
        return divide(a, b) if a < 0 else (b, a)

    return again(-a * 7, b) if a in (0, 1, 2) else again(a, b)


def test_several_results_through_two_levels(device):
    """FUNC-2, FUNC-6: guards, early returns, returns from a loop."""
    text = FUNCTIONS + "@tack.kernel\ndef k(a, b, q, r):\n    for i in range(a.size):\n"
    text += "        x, y = thrice(a[i], b[i])\n        q[i], r[i] = x, y\n"
    a, b = (m.ravel().astype(np.int32) for m in np.meshgrid(np.arange(-4, 5), np.arange(-3, 4)))
    q, r = np.zeros_like(a), np.zeros_like(a)
    run_text(text)["k"](a, b, q, r)
    assert list(zip(q.tolist(), r.tolist(), strict=True)) == [
        python_thrice(*p) for p in zip(a.tolist(), b.tolist(), strict=True)
    ]
    wrong = [python_thrice(*p)[::-1] for p in zip(a.tolist(), b.tolist(), strict=True)]
    assert list(zip(q.tolist(), r.tolist(), strict=True)) != wrong  # the control: results the other way round


def test_one_result_and_none(device):
    """FUNC-2: a value, and an effect."""
    text = FUNCTIONS + "@tack.kernel\ndef k(out):\n    for i in range(2):\n        mark_again(out, i)\n"
    text += "        out[i] += one(i)\n"
    out = np.zeros(2)
    run_text(text)["k"](out)
    assert out.tolist() == [6.0, 7.0]


def test_results_of_each_position_keep_their_types(device):
    """FUNC-2, FUNC-5: an integer beside a float, in two calls of other types."""
    text = FUNCTIONS + "@tack.kernel\ndef k(out):\n    for i in range(1):\n"
    text += "        t, n = passed(tack.i8(127))\n        out[0] = n + n\n        out[1] = t\n"
    text += "        u, m = passed(2.5)\n        out[2] = m\n"
    out = np.zeros(3, np.float32)
    run_text(text)["k"](out)
    assert out.tolist() == [-2.0, np.float32(0.1), 2.5]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("out[0] = again(1, 2)", "`again` returns 2 values; one is needed here"),
        ("x, y, z = again(1, 2)", "2 values cannot be unpacked into this target"),
        ("out[0] = mark_again(out, 0)", "`mark_again` returns no value; one is needed here"),
        ("out[0] = mixed(1)", "this `return` gives one value, and an earlier one 2 values"),
    ],
)
def test_the_count_is_still_checked(device, body, message):
    """FUNC-2: as for results that a function makes itself."""
    text = FUNCTIONS + "@tack.func\ndef mixed(a):\n    if a:\n        return again(a, a)\n    return 1\n"
    text += f"@tack.kernel\ndef k(out):\n    for i in range(1):\n        {body}\n"
    with pytest.raises(TypeError, match=message):
        run_text(text)["k"](np.zeros(1))
