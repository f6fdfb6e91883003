"""Which control flow around collectives is accepted, and what is said of the rest, as golden text (GRP-6, GRP-7)."""

from __future__ import annotations

import linecache
import textwrap

import numpy as np
import pytest

import tack
from tack.lang import ir
from tack.lang.ast_transform import lower_kernel
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.type_inference import infer_param_types
from tack.lang.workgroup_verify import verify_workgroups
from tack.lang.workgroups import split_workgroups

HEAD = """\
@tack.func
def double(x):
    return x * 2

@tack.func
def first(values, k):
    return values[k]

@tack.func
def meet(x):
    tack.barrier()
    return x
@tack.kernel
def k(a, out, n, s):
    buf = tack.shared(256, tack.i32)
    m = n * 2
"""
LOOP = "    for i in range(n):\n"
TABLE = (3, 1, 2)


def run(body, loop=LOOP):
    """Compile a kernel with this loop body, and call it."""
    text = HEAD + loop + textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "        ")
    linecache.cache["user.py"] = (len(text), None, text.splitlines(keepends=True), "user.py")
    space = {"tack": tack, "TABLE": TABLE}
    exec(compile(text, "user.py", "exec"), space)
    space["k"](np.arange(8, dtype=np.int32), np.zeros(8, np.int32), 8, 2.5)


ACCEPTED = {
    "a scalar argument": "if n > 3:\n    tack.barrier()",
    "a float argument": "if s > 2.0:\n    tack.barrier()",
    "a local from before the loop": "if m > 3:\n    tack.barrier()",
    "a shape": "for r in range(a.shape[0]):\n    tack.barrier()",
    "a constant": "while True:\n    tack.barrier()\n    break",
    "a captured table": "for r in range(3):\n    if TABLE[r] > 1:\n        tack.barrier()",
    "a device function of uniform values": "if double(n) > 3:\n    tack.barrier()",
    "a device function that reads a table": "if first(TABLE, 1) > 0:\n    tack.barrier()",
    "a block result": "if tack.block_max(tack.f32(a[i])) > 3.0:\n    tack.barrier()",
    "the number of the workgroup": "if i // 256 == 0:\n    tack.barrier()",
    "a multiple of the group": "if i // 1024 % 2 == 0:\n    tack.barrier()",
    "the number by a shift": "if i >> 8 == 0:\n    tack.barrier()",
    "the number by way of a local": "g = i // 256\nh = g * 2 + n\nif h > 3:\n    tack.barrier()",
    "a local assigned under a uniform condition": "x = 0\nif n > 3:\n    x = m\nif x > 4:\n    tack.barrier()",
    "a counter of a uniform loop": "x = 0\nfor r in range(n):\n    x += r\nif x > 4:\n    tack.barrier()",
    "nested loops": "for r in range(n):\n    for q in range(r):\n        tack.barrier()",
    "a uniform chain": "if 1 < n < m:\n    tack.barrier()",
    "a uniform arm": "x = n if s > 1.0 else m\nif x > 2:\n    tack.barrier()",
    "a varying condition without a collective": "if a[i] > 2:\n    out[i] = 1\ntack.barrier()",
    "a varying continue after the last collective": "tack.barrier()\nif a[i] > 2:\n    continue\nout[i] = 1",
    "a varying loop before": "x = 0\nwhile x < a[i]:\n    x += 1\n    if x == 5:\n        break\ntack.barrier()",
    "a collective in a device function": "out[i] = meet(a[i])",
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_uniform_control_is_accepted(body):
    """GRP-6, GRP-7."""
    with tack.device("cpu"):
        run(body)


ADVICE = (
    "  help: make that the same for the whole workgroup (scalar arguments, shapes, constants, block results, "
    "`i // 256`), or move the collective out of it"
)
MUST = "must be reached by all lanes of a workgroup together, but the"
ELEMENT = "an element of `a`, which is not provably the same for all of them"
BARRIER = "    tack.barrier()\n    ^^^^^^^^^^^^^^"

# Title, the body of the loop (its first line is line 18), the place, what decides, why it varies, the line with caret.
REJECTED = [
    (
        "the loop's variable",
        "if i > 3:\n    tack.barrier()",
        "19:13",
        "condition at user.py:18:12 (`if i > 3:`)",
        "`i`, which is different for each of them",
        BARRIER,
    ),
    (
        "the lane's number",
        "t = tack.thread_id()\nif t == 0:\n    tack.barrier()",
        "20:13",
        "condition at user.py:19:12 (`if t == 0:`)",
        "`t`, assigned in line 18 from `tack.thread_id()`, which is different for each of them",
        BARRIER,
    ),
    (
        "an element, by way of two locals and a uniform if",
        "x = a[i]\ny = x + 1\nif n > 3:\n    if y:\n        out[i] = 0\n    else:\n        tack.barrier()",
        "24:17",
        "condition at user.py:21:16 (`if y:`)",
        f"`y`, assigned in line 19 from `x`, assigned in line 18 from {ELEMENT}",
        BARRIER,
    ),
    (
        "a local assigned under a varying condition",
        "x = 0\nif a[i] > 2:\n    x = 1\nwhile x < 3:\n    tack.barrier()\n    x += 1",
        "22:13",
        "condition at user.py:21:15 (`while x < 3:`)",
        f"`x`, assigned in line 20 under a condition that depends on {ELEMENT}",
        BARRIER,
    ),
    (
        "a continue before",
        "if a[i] > 2:\n    continue\ntack.barrier()",
        "20:9",
        "condition at user.py:18:12 (`if a[i] > 2:`)",
        ELEMENT,
        BARRIER,
    ),
    (
        "a continue deeper in an if",
        "if n > 2:\n    if a[i] > 2:\n        continue\n    out[i] = 3\ntack.barrier()",
        "22:9",
        "condition at user.py:20:17 (`continue`)",
        ELEMENT,
        BARRIER,
    ),
    (
        "a break out of the loop around",
        "for r in range(5):\n    tack.barrier()\n    if a[i] == r:\n        break",
        "19:13",
        "`break` under the condition at user.py:20:16 (`if a[i] == r:`)",
        ELEMENT,
        BARRIER,
    ),
    (
        "the bounds of a loop",
        "for r in range(a[i]):\n    tack.barrier()",
        "19:13",
        "range at user.py:18:9 (`for r in range(a[i]):`)",
        ELEMENT,
        BARRIER,
    ),
    (
        "an arm of a conditional expression",
        "x = tack.block_max(1.0) if a[i] > 2 else 3.0",
        "18:13",
        "condition at user.py:18:36 (`x = tack.block_max(1.0) if a[i] > 2 else 3.0`)",
        ELEMENT,
        "    x = tack.block_max(1.0) if a[i] > 2 else 3.0\n        ^^^^^^^^^^^^^^^^^^^",
    ),
    (
        "the right side of an and",
        "x = a[i] > 2 and tack.block_max(1.0) > 0",
        "18:26",
        "condition at user.py:18:13 (`x = a[i] > 2 and tack.block_max(1.0) > 0`)",
        ELEMENT,
        "    x = a[i] > 2 and tack.block_max(1.0) > 0\n                     ^^^^^^^^^^^^^^^^^^^",
    ),
    (
        "what an atomic returns",
        "old = tack.atomic_add(out, 0, 1)\nif old < n:\n    tack.barrier()",
        "20:13",
        "condition at user.py:19:12 (`if old < n:`)",
        "`old`, assigned in line 18 from what `tack.atomic_add` returns, which may be different for each of them",
        BARRIER,
    ),
    (
        "what a device function reads",
        "if first(a, 0) > 2:\n    tack.barrier()",
        "19:13",
        "condition at user.py:18:12 (`if first(a, 0) > 2:`)",
        "what `first` returns, which is not provably the same for all of them",
        BARRIER,
    ),
    (
        "an element of a shared array",
        "if buf[0] > 2:\n    tack.barrier()",
        "19:13",
        "condition at user.py:18:12 (`if buf[0] > 2:`)",
        "an element of `buf`, which is not provably the same for all of them",
        BARRIER,
    ),
    (
        "a divisor that is no multiple of the group",
        "if i // 128 == 0:\n    tack.barrier()",
        "19:13",
        "condition at user.py:18:12 (`if i // 128 == 0:`)",
        "`i`, which is different for each of them",
        BARRIER,
    ),
]


@pytest.mark.parametrize(
    ("body", "place", "decides", "why", "line"), [row[1:] for row in REJECTED], ids=[row[0] for row in REJECTED]
)
def test_other_control_is_refused_with_the_reason(body, place, decides, why, line):
    """GRP-6: the place of the collective, the condition that varies, and why."""
    what = "block_max" if "block_max" in body else "barrier"
    with pytest.raises(ValueError) as caught, tack.device("cpu"):
        run(body)
    want = f"user.py:{place}: in kernel `k`: `tack.{what}` {MUST} {decides} depends on {why}\n{line}\n{ADVICE}"
    assert str(caught.value) == want


def test_a_collective_in_a_device_function_shows_the_call():
    """GRP-6, SRC-7: the place is in the function, the call sites follow."""
    with pytest.raises(ValueError) as caught, tack.device("cpu"):
        run("if a[i] > 2:\n    out[i] = meet(a[i])")
    text = str(caught.value)
    assert text.startswith(f"user.py:11:5: in device function `meet`: `tack.barrier` {MUST} condition at user.py:18:12")
    assert text.endswith("  called at user.py:19:22, in kernel `k`\n    out[i] = meet(a[i])")


LOOPS = {
    "a start that is no multiple": ("    for i in range(1, n):\n", False),
    "a start that is one": ("    for i in range(512, n):\n", True),
    "a step": ("    for i in range(0, n, 2):\n", False),
    "two dimensions": ("    for i, j in tack.ndrange(n, n):\n", False),
}


@pytest.mark.parametrize(("loop", "accepted"), LOOPS.values(), ids=LOOPS)
def test_where_the_division_is_the_number_of_the_workgroup(loop, accepted):
    """GRP-7."""
    body = "if i // 256 == 2:\n    tack.barrier()"
    with tack.device("cpu"):
        if accepted:
            run(body, loop)
        else:
            with pytest.raises(ValueError, match="depends on `i`, which is different"):
                run(body, loop)


def test_a_variable_that_the_body_assigns_is_no_number_of_the_workgroup():
    """GRP-7."""
    with pytest.raises(ValueError, match="depends on `i`"), tack.device("cpu"):
        run("i = i + 1\nif i // 256 == 0:\n    tack.barrier()")


EARLY = (
    "if x > 0:\n    return x\ntack.barrier()\nreturn 0",
    "for r in range(x):\n    return r\ntack.barrier()\nreturn 1",
)


@pytest.mark.parametrize("body", EARLY, ids=("if", "for"))
def test_an_early_return_of_a_function_with_collectives(body):
    """GRP-11."""
    text = "@tack.func\ndef f(x):\n" + textwrap.indent(body, "    ")
    text += "\n\n@tack.kernel\ndef k(n):\n    for i in range(n):\n        f(n)\n"
    linecache.cache["user.py"] = (len(text), None, text.splitlines(keepends=True), "user.py")
    space = {"tack": tack}
    exec(compile(text, "user.py", "exec"), space)
    with pytest.raises(tack.UnsupportedSyntaxError) as caught, tack.device("cpu"):
        space["k"](3)
    assert "a `return` before the end of a device function with collectives is not supported" in str(caught.value)
    assert "called at user.py:" in str(caught.value)


def test_nothing_runs_when_a_collective_is_refused():
    """GRP-6: refused before any storage changes."""

    @tack.kernel
    def k(a):
        for i in range(a.shape[0]):
            a[i] = 1
        for i in range(a.shape[0]):
            if a[i] > 0:
                tack.barrier()

    a = np.zeros(4, np.int32)
    with pytest.raises(ValueError, match="depends on an element of `a`"):
        k(a)
    assert a.tolist() == [0, 0, 0, 0]


def split(body):
    """The kernel of this loop body, typed and split."""
    text = HEAD + LOOP + textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", "        ")
    linecache.cache["user.py"] = (len(text), None, text.splitlines(keepends=True), "user.py")
    space = {"tack": tack, "TABLE": TABLE}
    exec(compile(text, "user.py", "exec"), space)
    lowered = lower_kernel(space["k"].source, space["k"].group).ir
    arguments = [tack.zeros(8, tack.i32), tack.zeros(8, tack.i32), 8, 2.5]
    return split_workgroups(annotate_types(lowered, infer_param_types(lowered, arguments)))


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_trees_are_legal(body):
    """What all lanes do depends on nothing that regions assign (docs/design/workgroups.md)."""
    verify_workgroups(split(body))


def test_an_illegal_tree_is_noticed():
    """The negative control: a barrier in a region, a condition that reads a lane's local, a stray store."""
    for spoil in (barrier_in_region, private_condition, store_outside):
        kernel = split("x = a[i]\ntack.barrier()\nif n > 3:\n    tack.barrier()\n    out[i] = x")
        (loop,) = [s for s in kernel.body if isinstance(s, ir.IRWorkgroup)]
        spoil(loop.body)
        with pytest.raises(AssertionError):
            verify_workgroups(kernel)


def barrier_in_region(tree):
    tree[0].body.append(tree.pop(1))


def private_condition(tree):
    tree[2].cond = ir.IRVar(loc=tree[2].loc, name="x", dtype=tack.i32)


def store_outside(tree):
    tree.append(tree[2].then[-1].body[-1])
