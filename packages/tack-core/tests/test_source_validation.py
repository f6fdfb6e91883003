"""Translate or reject: each excluded construct, reachable or not (rules SYN-*, SRC-5, SRC-6)."""

from __future__ import annotations

import linecache
import sys
import textwrap

import pytest

import tack
from tack import UnsupportedSyntaxError
from tack.lang.ast_transform import lower_kernel
from tack.lang.source import read_source
from tack.lang.source_validation import validate

FILE = "<kernel text>"


def source_of(text: str, **names: object):
    text = textwrap.dedent(text).lstrip("\n")
    linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
    namespace: dict[str, object] = {"tack": tack, **names}
    exec(compile(text, FILE, "exec", dont_inherit=True), namespace)
    return read_source(namespace["k"], "kernel")


def kernel_with(statement: str, indent: str = "        "):
    lines = textwrap.indent(textwrap.dedent(statement).strip("\n"), indent)
    return source_of(f"def k(a, n):\n    for i in range(n):\n{lines}\n        a[i] = 0\n")


# The construct, and words of the message and of the advice.
REJECTED = [
    ("try:\n    a[i] = 1\nexcept ValueError:\n    pass", "`try`", "test for the case with `if`"),
    ("try:\n    a[i] = 1\nfinally:\n    pass", "`try`", "if"),
    ("raise ValueError", "`raise`", "error code"),
    ("with n:\n    pass", "`with`", "host"),
    ("import math", "`import`", "top of the module"),
    ("from math import pi", "`import`", "top of the module"),
    ("def g(x):\n    return x", "a nested function", "@tack.func"),
    ("class C:\n    pass", "a class", "outside"),
    ("global g", "`global`", "array"),
    ("del n", "`del`", "no deletion"),
    ("match n:\n    case 1:\n        pass", "`match`", "`if`"),
    ("x = lambda y: y", "`lambda`", "@tack.func"),
    ("x = [j for j in range(3)]", "a comprehension", "loop"),
    ("x = {j for j in range(3)}", "a comprehension", "loop"),
    ("x = {j: j for j in range(3)}", "a comprehension", "loop"),
    ("x = sum(j for j in range(3))", "a generator expression", "loop"),
    ("yield 1", "`yield`", "array"),
    ("x = yield", "`yield`", "array"),
    ("x = f'{n}'", "an f-string outside `print`", "print"),
    ("print(f'{n:3d}')", "a format in an f-string", "print the value"),
    ("x = {}", "a dict", "array"),
    ("x = {1, 2}", "a set", "array"),
    ("x = a[0:2]", "a slice", "single elements"),
    ("a[:] = 1", "a slice", "single elements"),
    ("x = n is i", "`is`", "=="),
    ("x = n is not None", "`is not`", "!="),
    ("x = n in (1, 2)", "`in`", "or"),
    ("x = n not in (1, 2)", "`not in`", "and"),
    ("x = (y := 1)", "`:=`", "statement of its own"),
    ("x = max(*a)", "a starred expression", "out"),
    ("x = max(**a)", "`**` in a call", "out"),
    ("x, *y = 1, 2", "a starred expression", "out"),
    ("for j in range(3):\n    pass\nelse:\n    pass", "`else` on a loop", "set a local"),
    ("while n:\n    pass\nelse:\n    pass", "`else` on a loop", "set a local"),
    ("for j in a:\n    pass", "a loop over anything but `range`", "range"),
    ("for a[0] in range(3):\n    pass", "not a plain name", "assign in the body"),
    ("(x, y), z = n, 3", "this assignment target", "one level"),
    ("[x, y] = 1, 2", "this assignment target", "tuple"),
    ("x = (1, 2)[0]", "a tuple as a value", "index"),
    ("x = 'text'", "a str literal", "print"),
    ("x = b'text'", "a bytes literal", "integers and floats"),
    ("x = 1j", "a complex literal", "integers and floats"),
    ("x = None", "`None`", "integers and floats"),
    ("x = ...", "`...`", "integers and floats"),
    ("...", "`...`", "pass"),
    ("'a comment'", "a string as a statement", "comment"),
    ("n + 1", "an expression as a statement", "no effect"),
    ("x: tack.f64", "an annotation without a value", "x: ... = 0"),
    ("a[i]: tack.f64 = 1", "an annotation on anything but a local", "without the annotation"),
    ("assert n, f'{n}'", "not a string literal", "string literal"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "construct", "advice"), REJECTED, ids=[r[0].splitlines()[0] for r in REJECTED])
def test_each_excluded_construct_is_rejected(statement, construct, advice):
    """SYN-6, SYN-7: with what to write instead; the position is in the user's text."""
    with pytest.raises(UnsupportedSyntaxError) as caught:
        validate(kernel_with(statement))
    message = str(caught.value)
    assert construct in message
    assert advice in message.partition("help: ")[2]
    assert message.startswith(f"{FILE}:3:") or message.startswith(f"{FILE}:5:") or message.startswith(f"{FILE}:6:")
    assert "in kernel `k`:" in message


@pytest.mark.parametrize(("statement", "construct", "advice"), REJECTED, ids=[r[0].splitlines()[0] for r in REJECTED])
def test_unreachable_code_is_checked_too(statement, construct, advice):
    """SRC-5."""
    lines = textwrap.indent(textwrap.dedent(statement), " " * 12)
    text = f"def k(a, n):\n    for i in range(n):\n        a[i] = 0\n        if False:\n{lines}\n"
    if statement.startswith("global"):
        text = text.replace("a[i]", "a[0]")
    with pytest.raises(UnsupportedSyntaxError) as caught:
        validate(source_of(text))
    assert construct in str(caught.value)


def test_what_is_not_excluded_is_accepted():
    """SYN-1, SYN-2: the negative control of the tests above."""
    text = """
    def k(a, b, n: tack.i64, s=1.0):
        "docstring"
        h = n // 2
        for i in range(0, h + n, 2):
            x: tack.f64 = 0.5
            y, z = x, -i
            y, z = z, y
            w = v = 3
            a[i], x = x, a[i]
            x += a[i] * 2 - 1 / 3 // 4 % 5 ** 2
            j = (i << 1 >> 2) & 3 | 4 ^ ~5
            if 0 < x <= 1 != y and not z or True:
                pass
            elif j == 1:
                continue
            else:
                while j > 0:
                    j -= 1
                    if j == 2:
                        break
            for m in range(3):
                a[i] += m if m > 1 else len(b) + b.shape[0] + b.size + b.ndim
            assert x > 0, "positive"
            print("x", x, f"{j} and {v}", sep=", ", end="")
            a[i] = max(int(x), float(y), abs(w), tack.u8(1)) + tack.sqrt(s)
        return a[0]
    """
    source = source_of(text)
    validate(source)
    lower_kernel(source)


def test_parameters():
    for text, construct in [
        ("def k(*a):\n    pass\n", "a starred parameter"),
        ("def k(**a):\n    pass\n", "a starred parameter"),
        ("async def k(a):\n    pass\n", "`async def`"),
    ]:
        with pytest.raises(UnsupportedSyntaxError, match=f"{construct}"):
            validate(source_of(text))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters came with Python 3.12")
def test_type_parameters():
    with pytest.raises(UnsupportedSyntaxError, match="a type parameter"):
        validate(source_of("def k[T](a):\n    pass\n"))


GOLDEN = {
    "x = [j * 2 for j in range(3)]": """\
<kernel text>:3:13: in kernel `k`: a comprehension is not supported
    x = [j * 2 for j in range(3)]
        ^^^^^^^^^^^^^^^^^^^^^^^^^
  help: write a `for ... in range(...)` loop""",
    "é = n if n is i else 1": """\
<kernel text>:3:18: in kernel `k`: `is` is not supported
    é = n if n is i else 1
             ^^^^^^
  help: compare with `==`""",
    "try:\n    a[i] = 1\nexcept ValueError:\n    pass": """\
<kernel text>:3:9: in kernel `k`: `try` is not supported
    try:
    ^^^^
  help: kernels raise no exceptions; test for the case with `if`""",
    "a[i] = a[0:2]": """\
<kernel text>:3:18: in kernel `k`: a slice is not supported
    a[i] = a[0:2]
             ^^^
  help: index single elements in a `for ... in range(...)` loop""",
}


@pytest.mark.parametrize("statement", GOLDEN)
def test_messages(statement):
    """SRC-6: position, message, the line with a caret, and what to write."""
    with pytest.raises(UnsupportedSyntaxError) as caught:
        validate(kernel_with(statement))
    assert str(caught.value) == GOLDEN[statement]


def test_it_is_a_not_implemented_error():
    """SYN-6."""
    assert issubclass(UnsupportedSyntaxError, NotImplementedError)
