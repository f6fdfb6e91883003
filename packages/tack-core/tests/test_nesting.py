"""Code nested deeply: work that does not grow exponentially with the depth, and one clear error past the limit."""

from __future__ import annotations

import ast
import sys

import numpy as np
import pytest

import tack
from kernel_text import run_text
from tack import UnsupportedSyntaxError
from tack.lang.depth import deepest
from tack.lang.flow import Flow

LOOPS = {"for": "for j{} in range(1):", "while": "while a[1] < 1:", "if": "if a[0]:"}


def nested(kinds: list[str]) -> str:
    """A kernel of one iteration, whose statements are nested as `kinds` says."""
    text = "@tack.kernel\ndef k(a, out):\n    for i in range(1):\n"
    for depth, kind in enumerate(kinds):
        text += " " * (8 + depth) + LOOPS[kind].format(depth) + "\n"
    inner = " " * (8 + len(kinds))
    return text + f"{inner}a[1] += 1\n{inner}out[0] += 1\n"


@pytest.mark.parametrize("kinds", [["for"], ["while"], ["if"], ["for", "if", "while"]], ids=", ".join)
def test_work_of_flow_does_not_double_with_each_level(kinds, monkeypatch):
    """SRC-3: the analysis of assignments visits each statement a number of times that grows with the depth at most."""
    visits = []
    statement = Flow.statement
    monkeypatch.setattr(Flow, "statement", lambda self, *args: visits.append(1) or statement(self, *args))
    counts = {}
    for depth in (6, 18):
        visits.clear()
        nested_kinds = (kinds * depth)[:depth]
        out = np.zeros(1, np.int32)
        run_text(nested(nested_kinds))["k"](np.array([1, 0], np.int32), out)
        assert out[0] == 1
        counts[depth] = len(visits)
    assert counts[18] <= counts[6] * 3**3, counts  # doubling each level would be 2**12 times as many


DEEP = {
    "a sum": "+".join(["a[0]"] * 2000),
    "signs": "-" * 2000 + "a[0]",
    "conditional expressions": "a[0] if a[1] else " * 1500 + "1",
    "calls": "abs(" * 190 + "a[0]" + ")" * 190,
}


@pytest.fixture
def parser_has_room():
    """Python's own parser may walk the texts below; the compiler under test has the usual limit again."""
    limit = sys.getrecursionlimit()
    yield lambda text: _parsed(text)
    sys.setrecursionlimit(limit)


def _parsed(text):
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        return run_text(text, "deep.py")
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("name", DEEP)
def test_deep_expressions_are_refused_with_their_place(device, name, parser_has_room):
    """SRC-6: no `RecursionError`, but where, and what to write instead."""
    k = parser_has_room(f"@tack.kernel\ndef k(a, out):\n    for i in range(1):\n        out[0] = {DEEP[name]}\n")["k"]
    with pytest.raises(UnsupportedSyntaxError, match=r"^deep\.py:4:\d+: in kernel `k`: nesting this deep") as caught:
        k(np.ones(2), np.zeros(1))
    assert "help: name parts of the expression" in str(caught.value) and caught.value.__cause__ is None
    with pytest.raises(UnsupportedSyntaxError, match=r"^deep\.py:4:"):
        tack.inspect(k, np.ones(2), np.zeros(1))


def test_a_long_chain_of_elif_is_refused_with_its_place(device, parser_has_room):
    """SRC-6, SYN-1: `elif` nests in Python's tree."""
    arms = "".join(f"        elif a[0] == {j}:\n            out[0] = {j}\n" for j in range(1, 1500))
    text = (
        f"@tack.kernel\ndef k(a, out):\n    for i in range(1):\n        if a[0] == 0:\n            out[0] = 0\n{arms}"
    )
    with pytest.raises(UnsupportedSyntaxError, match=r"^deep\.py:\d+:\d+: in kernel `k`: nesting this deep"):
        parser_has_room(text)["k"](np.ones(1), np.zeros(1))


def test_a_long_chain_of_functions(device):
    """SRC-6, FUNC-1: refused at the limit; its functions still work, and the whole at a higher limit."""
    text = "@tack.func\ndef f0(x):\n    return x\n"
    text += "".join(f"@tack.func\ndef f{n}(x):\n    return f{n - 1}(x) + 1\n" for n in range(1, 200))
    for n in (20, 199):
        text += f"@tack.kernel\ndef k{n}(out):\n    for i in range(1):\n        out[0] = f{n}(i)\n"
    names = run_text(text)
    out = np.zeros(1)
    with pytest.raises(UnsupportedSyntaxError, match="in kernel `k199`: nesting this deep"):
        names["k199"](out)
    names["k20"](out)
    assert out[0] == 20
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    try:
        names["k199"](out)
    finally:
        sys.setrecursionlimit(limit)
    assert out[0] == 199


def test_deepest():
    """The place that the error shows: a statement or an expression, wherever it is in the tree."""
    tree = ast.parse("x = 1\ny = [f(a + b * c)]\nz = 2\n")
    node, depth = deepest(tree)
    assert ast.unparse(node) in ("b", "c") and depth == 6
