"""Evaluation order (rules EVAL-*): programs that record what they evaluate, against CPython running the same text."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from kernel_text import run_text
from tack import UnsupportedSyntaxError

HELPERS = """
def mark(log, value):
    k = log[0]
    log[k + 1] = value
    log[0] = k + 1
    return value

def put(log, a, j, value):
    mark(log, value)
    a[j] = value
    return value

def sub(p, q=5):
    return p - q

def both(log, p):
    mark(log, 9)
    return p, p + 1

def early(log, x):
    for j in range(5):
        mark(log, j)
        if j == x:
            return j * 10
    return mark(log, 77)
"""

PROGRAMS = {
    "EVAL-1 operands": "a[0] = mark(log, 1) + mark(log, 2) * mark(log, 3) - max(mark(log, 4), mark(log, 5))",
    "EVAL-1 arguments": "a[0] = sub(mark(log, 1), mark(log, 2)) + sub(q=3, p=mark(log, 4))",
    "EVAL-1 loads and stores": "a[0] = a[1] + put(log, a, 1, 8) + a[1]",
    "EVAL-2 value before index": "a[mark(log, 1)] = mark(log, 2)",
    "EVAL-2 the value moves the index": "a[a[0]] = put(log, a, 0, 3)",
    "EVAL-3 index once": "a[mark(log, 1)] += mark(log, 2)",
    "EVAL-3 old value first": "a[1] -= put(log, a, 1, 5)",
    "EVAL-3 index kept": "a[a[0]] += put(log, a, 0, 3)",
    "EVAL-3 local": "x = 4\nx *= mark(log, x)\na[0] = x",
    "EVAL-4 right side, then targets": "a[mark(log, 1)], a[mark(log, 2)] = mark(log, 3), mark(log, 4)",
    "EVAL-4 swap": "a[0], a[1], a[2] = a[2], a[0], a[1]",
    "EVAL-4 swap of locals": "x = 1\ny = 2\nx, y = y, x\na[0] = x * 10 + y",
    "EVAL-4 targets left to right": "j = 0\nj, a[j] = j + 2, 7",
    "EVAL-4 results of a call": "j = 1\nj, a[j] = both(log, 2)",
    "EVAL-4 several targets": "a[mark(log, 1)] = x = a[mark(log, 2)] = mark(log, 3)\na[4] = x",
    "EVAL-5 range arguments": "for j in range(mark(log, 1), mark(log, 5), mark(log, 2)):\n    mark(log, 10 + j)",
    "EVAL-5 range arguments once": "m = 3\nfor j in range(m):\n    m += 1\na[0] = m",
    "EVAL-5 the body assigns the variable": "for j in range(4):\n    mark(log, j)\n    j += 2\n    mark(log, j)",
    "EVAL-6 chain": "a[0] = 1 if mark(log, 1) < mark(log, 2) < mark(log, 3) else 0",
    "EVAL-6 chain stops": "a[0] = 1 if mark(log, 3) < mark(log, 2) < mark(log, 1) else 0",
    "EVAL-6 long chain": "a[0] = 1 if mark(log, 1) < mark(log, 3) != mark(log, 3) <= mark(log, 4) else 0",
    "EVAL-7 and": "a[0] = 1 if mark(log, 0) and mark(log, 1) else 0\na[1] = 1 if mark(log, 1) and mark(log, 2) else 0",
    "EVAL-7 or": "a[0] = 1 if mark(log, 0) or mark(log, 1) or mark(log, 2) else 0\nb = not mark(log, 0)\na[1] = b",
    "EVAL-8 arms": "a[0] = mark(log, 1) if mark(log, 0) else mark(log, 2)",
    "EVAL-9 guarded division": "z = a[4] - 14\na[0] = a[1] // z if z != 0 else 5\n"
    "if z != 0 and a[1] % z:\n    a[2] = 1 // z",
    "while condition": "x = 0\nwhile mark(log, x) < 3:\n    x += 1\n"
    "    if x == 2:\n        continue\n    mark(log, 50)",
    "break": "for j in range(9):\n    while True:\n        if mark(log, j) > 1:\n            break\n        j += 1\n"
    "    if j > 4:\n        break",
    "FUNC-6 early return": "a[0] = early(log, 2)\na[1] = early(log, 9)",
    "FUNC-3 by value": "x = 3\na[0] = sub(x) + x",
}  # fmt: skip


def text_of(program: str, head: str, decorate: bool) -> str:
    helpers = HELPERS.replace("\ndef ", "\n@tack.func\ndef ") if decorate else HELPERS
    decorator = "@tack.kernel\n" if decorate else ""
    return helpers + decorator + head + "".join(f"        {line}\n" for line in program.splitlines())


def run(program: str, decorate: bool) -> tuple[list[int], list[int]]:
    kernel = run_text(text_of(program, "def k(a, log):\n    for i in range(1):\n", decorate))["k"]
    a, log = np.arange(10, 20), np.zeros(64, np.int64)
    a[0] = 2
    kernel(a, log)
    return a.tolist(), log.tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_python(name, device):
    """The name of each program says the rule; CPython is the oracle."""
    assert run(PROGRAMS[name], decorate=True) == run(PROGRAMS[name], decorate=False)


def test_the_record_tells_orders_apart():
    """The negative control: the same program with the order changed leaves another record."""
    reordered = "x = mark(log, 2)\na[mark(log, 1)] = x"
    assert run("a[mark(log, 1)] = mark(log, 2)", decorate=False) == run(reordered, decorate=False)
    assert run(reordered, decorate=False) != run("j = mark(log, 1)\na[j] = mark(log, 2)", decorate=False)
    assert run(PROGRAMS["EVAL-3 index kept"], decorate=False) != run("a[0] = 3\na[3] += 3", decorate=False)


def test_and_or_give_zero_and_one(device):
    """EVAL-7, TYPE-5: unlike Python's, which give an operand."""

    @tack.kernel
    def k(a, x):
        for i in range(1):
            a[0] = x and 7
            a[1] = 0 or x
            a[2] = not x

    a = np.zeros(3)
    k(a, 5)
    assert a.tolist() == [1, 1, 0]


def test_arguments_out_of_order_with_effects_are_refused():
    """EVAL-1: they would have to be evaluated as written, and passed as declared."""
    with pytest.raises(UnsupportedSyntaxError, match="pass them in the order of the parameters"):
        with tack.device("reference"):
            run("a[0] = sub(q=mark(log, 1), p=mark(log, 2))", decorate=True)
