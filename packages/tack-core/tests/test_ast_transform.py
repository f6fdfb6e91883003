"""From syntax to untyped IR: shape, names, effects, and the errors of this stage."""

from __future__ import annotations

import pytest

from kernel_text import run_text
from tack import UnsupportedSyntaxError
from tack.lang.ast_transform import lower_kernel
from tack.lang.ir import IRArrayRef, IRAssign, IRBind, IRCall, IRConst, IRParallelFor, IRStore, IRVar, walk
from tack.lang.ir_print import print_ir
from tack.lang.ir_verify import verify_untyped
from tack.lang.source import read_source
from tack.lang.source_validation import validate


def lowered(text: str, filename: str | None = None, **names: object):
    """The lowering of the function `k` of a text; device functions in it are decorated there."""
    source = read_source(run_text(text, filename, **names)["k"], "kernel")
    validate(source)
    result = lower_kernel(source)
    verify_untyped(result.ir)
    return result


def body_lines(statements: str, params: str = "a, b, n") -> list[str]:
    """The printed IR of statements in the body of a parallel loop."""
    lines = "".join(f"        {line}\n" for line in statements.splitlines())
    ir = lowered(f"def k({params}):\n    for i in range(n):\n{lines}").ir
    printed = print_ir(ir).splitlines()
    start = next(at for at, line in enumerate(printed) if line.startswith("    parallel for"))
    return [line.removeprefix("        ") for line in printed[start + 1 :]]


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        # FLT-3: an augmented assignment is one expression, without a temporary for a plain index.
        ("a[i] += b[i] * n", ["a[i] = (a[i] + (b[i] * n))"]),
        ("a[i * 2 + 1] -= 1", ["a[((i * 2) + 1)] = (a[((i * 2) + 1)] - 1)"]),
        ("n += 2 * n", ["n = (n + (2 * n))"]),
        # EVAL-3: an index that loads or calls is kept.
        ("a[b[i]] += 1", ["%1 = b[i]", "a[%1] = (a[%1] + 1)"]),
        ("a[i, b[0]] *= 3", ["%1 = i", "%2 = b[0]", "a[%1, %2] = (a[%1, %2] * 3)"]),
        # EVAL-4
        ("x, y = n, 1\nx, y = y, x", ["%1 = n", "x = %1", "y = 1", "%2 = y", "%3 = x", "x = %2", "y = %3"]),
        ("x = y = n", ["%1 = n", "x = %1", "y = %1"]),
        ("x = y = 0.5", ["x = 0.5", "y = 0.5"]),  # LIT-8: a literal stays one
        # LIT-2
        ("x = -9223372036854775808", ["x = -9223372036854775808"]),
        ("x = -0.5 + +2", ["x = ((-0.5) + 2)"]),
        ("x = - -3", ["x = (--3)"]),  # an operation on a literal: it wraps at the literal's type
        ("x = True\ny = not False", ["x = 1", "y = (not 0)"]),
        # EVAL-6: the middle operand is evaluated once; what is as good twice is not kept.
        ("x = 0 < a[i] < n", ["x = ((0 < (%1 := a[i])) and (%1 < n))"]),
        ("x = 0 <= n * 2 < 5 != i", ["x = ((0 <= (n * 2)) and ((n * 2) < 5) and (5 != i))"]),
        # INT-4, MATH-1, TYPE-8
        ("x = int(n) + float(n) + tack.u8(n)", ["x = ((i32(n) + f32(n)) + u8(n))"]),
        ("x = pow(n, 2) + len(a) + a.shape[1]", ["x = (((n ** 2) + a.shape[0]) + a.shape[1])"]),
        ("x = bool(n)", ["x = (not (not n))"]),
        # SYN-3
        ("x: tack.f64 = 0\ny: 'tack.u8' = 1\nz: float = 2", ["x: f64 = 0", "y: u8 = 1", "z = 2"]),
        # SYN-4
        ("print('n', n, f'{i}+{n!s}', sep=':', end='.')", ["print('n:', n, ':', i, '+', n, '.')"]),
        ("print()", [r"print('\n')"]),
        # MEM-6, ATOM-1
        ("t = tack.local((2, 3), tack.f32)\nt[0, 1] = 5", ["t = local(2x3, f32)", "t[0, 1] = 5"]),
        (
            "tack.atomic_add(a, (i, 0), n)\nx = tack.atomic_cas(a, i, 1, 2)",
            ["atomic_add(a[i, 0], n)", "x = atomic_cas(a[i], 1, 2)"],
        ),
        # SYN-1
        ("if n:\n    pass\nelif i:\n    continue", ["if n:", "else:", "    if i:", "        continue"]),
    ],
)
def test_shapes(statements, expected):
    assert body_lines(statements) == expected


def test_nodes_are_never_shared():
    """Typing annotates in place, so that one node in two places would take one of two types."""
    text = """
    def k(a, n):
        m = n + 1
        for i in range(m):
            a[i * 2] += 0 < n + 1 < 3
            x = y = 0.5 + 1
            a[m], a[i] = x, y
        for i in range(m, m + 2):
            a[i] = 1
    """
    nodes = list(walk(lowered(text).ir.body))
    assert len({id(n) for n in nodes}) == len(nodes)


def test_symbols_of_loop_variables():
    """CAP-2, LOOP-7: each loop has a variable of its own; the name is free again after it."""
    text = """
    def k(a):
        for i in range(3):
            for j in range(2):
                j += 1
            j = 2.5
            a[i] = j
        for i in range(4):
            for j in range(i):
                a[j] = 0
    """
    ir = lowered(text).ir
    kinds = {s.name: s.kind for s in ir.symbols.values()}
    assert kinds == {"a": "array", "i": "loop", "j": "loop", "j.2": "local", "i.2": "loop", "j.3": "loop"}


@pytest.mark.parametrize(
    "name", ["half", "kernel", "default", "float4", "__global__", "ret", "i32", "größe", "名", "self", "tack_i"]
)
def test_any_identifier(name):
    """SRC-8."""
    ir = lowered(f"def k(a, {name}):\n    for i in range(a.shape[0]):\n        {name} += 1\n        a[i] = {name}\n").ir
    assert [p.name for p in ir.params] == ["a", name]


# ------------------------------------------------------------------------------------------------ device functions

FUNCTIONS = """
@tack.func
def read(x, j):
    return x[j]
@tack.func
def write(x, j, v):
    x[j] = v
@tack.func
def deep(y, z, j=1, *, v=-2.5):
    write(y, j, read(z, j) + v)
@tack.func
def add(x, j):
    return tack.atomic_add(x, j, 1)
@tack.func
def unused(x):
    return 1
@tack.func
def pair(p, q):
    return q, p
@tack.func
def nothing(p):
    pass
@tack.func
def say(p):
    print(p)
"""


def test_written_and_read_reach_through_calls():
    """FUNC-4: through any depth."""
    body = "deep(b, a)", "add(c, i)", "unused(d)", "x = len(d)"
    lines = "".join(f"        {line}\n" for line in body)
    result = lowered(f"{FUNCTIONS}def k(a, b, c, d, n):\n    for i in range(n):\n{lines}")
    ir = result.ir
    flags = {p.name: (p.read, p.written) for p in ir.params}
    assert flags == {
        "a": (True, False),
        "b": (False, True),
        "c": (False, True),
        "d": (False, False),
        "n": (False, False),
    }
    calls = [n for n in walk(ir.body) if isinstance(n, IRCall)]
    assert [[type(arg) for arg in call.args] for call in calls] == [
        [IRArrayRef, IRArrayRef, IRConst, IRConst],
        [IRArrayRef, IRVar],
        [IRArrayRef],
    ]
    assert [arg.value for arg in calls[0].args[2:]] == [1, -2.5]
    assert result.array_params == {"a", "b", "c", "d"}


def test_keyword_arguments_are_put_in_order():
    """FUNC-1."""
    assert "pair(1, n)" in print_ir(
        lowered(FUNCTIONS + "def k(a, n):\n    for i in range(n):\n        x, y = pair(q=n, p=1)\n").ir
    )


def test_results_of_several_values():
    """FUNC-2."""
    text = (
        FUNCTIONS
        + "def k(a, n):\n    for i in range(n):\n"
        + "        a[i], n = pair(n, a[i])\n        nothing(n)\n        pair(1, 2)\n"
    )
    printed = print_ir(lowered(text).ir).splitlines()
    assert [line.strip() for line in printed[2:]] == [
        "%1, %2 = pair(n, a[i])",
        "a[i] = %1",
        "n = %2",
        "nothing(n)",
        "pair(1, 2)",
    ]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("read(a)", TypeError, "`read` needs an argument for `j`"),
        ("read(a, 1, 2)", TypeError, "`read` takes 2 positional arguments, not 3"),
        ("read(a, 1, j=2)", TypeError, "`read` gets two arguments for `j`"),
        ("read(a, k=2)", TypeError, "`read` has no parameter `k`"),
        ("read(1, 2)", TypeError, "parameter `x` of `read` is an array, and this is a number"),
        ("read(i, 2)", TypeError, "loop variable `i` is a number, not an array"),
        ("pair(1, 2)", TypeError, "`pair` returns 2 values; one is needed here"),
        ("nothing(1)", TypeError, "`nothing` returns no value; one is needed here"),
        ("pair(q=add(a, 1), p=add(a, 0))", UnsupportedSyntaxError, "keyword arguments out of order"),
        ("pair((1, 2), 3)", UnsupportedSyntaxError, "a tuple as an argument"),
        ("max(1)", TypeError, "`max` takes 2 or more arguments, not 1"),
        ("tack.sqrt(1, 2)", TypeError, "`sqrt` takes 1 argument, not 2"),
        ("tack.sqrt(x=1)", TypeError, "`sqrt` takes no keyword arguments"),
        ("tack.atomic_add(a[0], 1)", TypeError, "`tack.atomic_add` takes 3 arguments, not 2"),
        ("tack.atomic_sub(a, 1)", TypeError, "write `tack.atomic_sub(array, index, value)`"),
        ("tack.atomic_cas(a, 0, 1)", TypeError, "write `tack.atomic_cas(array, index, expected, desired)`"),
        ("tack.atomic_add(a[0], 1, 2)", TypeError, "takes an array first"),
        ("tack.atomic_add(i, 1, 2)", TypeError, "loop variable `i` is a number, not an array"),
        ("len(i)", TypeError, "loop variable `i` is a number, not an array"),
        ("i[0]", TypeError, "loop variable `i` is a number, not an array"),
        ("a.shape", UnsupportedSyntaxError, "a shape as a value"),
        ("a.shape[i]", UnsupportedSyntaxError, "the axis of a shape must be a literal"),
        ("a.shape[-1]", UnsupportedSyntaxError, "a negative axis"),
        ("a.T", UnsupportedSyntaxError, "attribute `.T`"),
        ("tack.local(3, tack.f32) + 1", UnsupportedSyntaxError, "only as the whole right side"),
        ("range(3)", UnsupportedSyntaxError, "`range` works only as what a `for` loops over"),
        ("print(1)", UnsupportedSyntaxError, "`print` gives no value"),
    ],
)
def test_mistakes_in_expressions(call, kind, message):
    """MATH-6, PAR-1, FUNC-1: with their positions."""
    with pytest.raises(kind) as caught:
        lowered(FUNCTIONS + f"def k(a, n):\n    for i in range(n):\n        x = {call}\n", "<mistake>")
    assert str(caught.value).startswith("<mistake>:")
    assert message in str(caught.value)


def test_recursion_is_refused():
    """SYN-7: the cycle is named; the chain of calls is shown (SRC-7)."""
    text = """
    @tack.func
    def even(n):
        return odd(n - 1)
    @tack.func
    def odd(n):
        return even(n - 1)
    def k(a):
        for i in range(3):
            a[i] = even(i)
    """
    with pytest.raises(UnsupportedSyntaxError) as caught:
        lowered(text, "<cycle>")
    assert str(caught.value) == (
        "<cycle>:6:12: in device function `odd`: recursion is not supported: even -> odd -> even\n"
        "    return even(n - 1)\n"
        "           ^^^^^^^^^^^\n"
        "  help: write a loop\n"
        "  called at <cycle>:3:12, in device function `even`\n"
        "    return odd(n - 1)\n"
        "  called at <cycle>:9:16, in kernel `k`\n"
        "    a[i] = even(i)"
    )


def test_errors_inside_device_functions_show_the_chain():
    """SRC-7: of validation too."""
    text = """
    @tack.func
    def inner(x):
        return {x}
    @tack.func
    def outer(x):
        return inner(x)
    def k(a):
        for i in range(3):
            a[i] = outer(i)
    """
    with pytest.raises(UnsupportedSyntaxError) as caught:
        lowered(text, "<chain>")
    lines = str(caught.value).splitlines()
    assert lines[0] == "<chain>:3:12: in device function `inner`: a set is not supported"
    assert [line for line in lines if line.startswith("  called")] == [
        "  called at <chain>:6:12, in device function `outer`",
        "  called at <chain>:9:16, in kernel `k`",
    ]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if x:\n        return 1", "some paths end without a `return`"),
        ("while x:\n        return 1", "some paths end without a `return`"),
        ("if x:\n        return 1\n    return 1, 2", "this `return` gives 2 values, and an earlier one one value"),
        ("if x:\n        return 1\n    return", "this `return` gives nothing, and an earlier one one value"),
    ],
)
def test_returns_that_do_not_agree(body, message):
    """FUNC-2."""
    with pytest.raises(TypeError, match=message):
        lowered(f"@tack.func\ndef f(x):\n    {body}\ndef k(a):\n    for i in range(1):\n        f(1)\n")


def test_returns_that_agree():
    """FUNC-2: on several paths, inside of loops."""
    for body in (
        "if x:\n        return 1\n    return 2",
        "while True:\n        if x:\n            return 1",
        "return",
        "return None",
    ):
        lowered(f"@tack.func\ndef f(x):\n    {body}\ndef k(a):\n    for i in range(1):\n        f(1)\n")


def test_a_default_that_is_not_a_number():
    with pytest.raises(TypeError, match="the default of parameter `y` of `f` is None"):
        lowered("@tack.func\ndef f(x, y=None):\n    return x\ndef k(a):\n    for i in range(1):\n        a[i] = f(1)\n")


# ------------------------------------------------------------------------------------------------------ chains of IR


def test_binds_and_temporaries_are_symbols():
    ir = lowered("def k(a, n):\n    for i in range(n):\n        x = 0 < a[i] < 3\n        a[a[0]] += 1\n").ir
    temps = {n.name for n in walk(ir.body) if isinstance(n, (IRBind, IRAssign)) and n.name.startswith("%")}
    assert temps == {"%1", "%2"} == {s.name for s in ir.symbols.values() if s.kind == "temp"}


def test_positions_are_those_of_the_source():
    """SRC-6."""
    ir = lowered("def k(a, n):\n    for i in range(n):\n        a[i] = n * 2\n").ir
    store = next(n for n in walk(ir.body) if isinstance(n, IRStore))
    assert (store.loc.line, store.loc.col, store.value.loc.col, store.value.loc.end_col) == (3, 8, 15, 20)


def test_several_parallel_loops():
    """LOOP-1, LOOP-2."""
    ir = lowered(
        "def k(a, n):\n    for i in range(n):\n        a[i] = 1\n    for i in range(n):\n        a[i] = 2\n"
    ).ir
    assert [type(s) for s in ir.body] == [IRParallelFor, IRParallelFor]
