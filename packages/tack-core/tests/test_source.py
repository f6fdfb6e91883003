"""Finding the source of a function (rules SRC-1, SRC-2, SRC-4, SRC-8)."""

from __future__ import annotations

import ast
import doctest
import functools
import linecache
import subprocess
import sys
import textwrap

import pytest

from tack import SourceUnavailableError, UnsupportedSyntaxError
from tack.lang.source import _functions, read_source


def run_registered(text: str, filename: str, **names: object) -> dict[str, object]:
    """Run text as a notebook does: registered in linecache under its own name."""
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, object] = {"__name__": "cell", **names}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace


def body(source) -> str:
    return ast.unparse(source.tree.body[-1])


def same(fn):
    return fn


def wrapped_in(*_args, **_options):
    return same


@wrapped_in(
    1,
    key="a decorator over several lines",
)
@same
def decorated(a):
    a[0] = 1


def plain(a):
    a[0] = 2


def test_functions_of_a_file():
    """SRC-1: decorators over several lines do not shift the function that is found."""
    assert body(read_source(decorated, "kernel")) == "a[0] = 1"
    assert body(read_source(plain, "kernel")) == "a[0] = 2"


BLOCKS = """
def of_module(): ...
if 1:
    def of_if(): ...
elif 2:
    def of_elif(): ...
else:
    def of_else(): ...
for x in ():
    def of_for(): ...
else:
    async def of_for_else(): ...
while 0:
    def of_while(): ...
else:
    def of_while_else(): ...
try:
    def of_try(): ...
except KeyError:
    def of_except(): ...
else:
    def of_try_else(): ...
finally:
    def of_finally(): ...
with open("x"):
    def of_with(): ...
match 1:
    case 2:
        def of_case(): ...
class C:
    def of_class(self):
        async def of_method():
            class D:
                def of_inner_class(self): ...
async def of_async():
    async for x in y:
        def of_async_for(): ...
    async with z:
        def of_async_with(): ...
"""


def test_functions_in_every_kind_of_block():
    """A walk of the whole tree is the oracle, and the names say how many there are."""
    tree = ast.parse(BLOCKS)
    found = {node.name for node in _functions(tree)}
    assert found == {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
    assert len(found) == BLOCKS.count("def of_")


def test_nested_functions_keep_their_columns():
    """SRC-6: the columns are those of the file, though the function is indented."""

    def inner(a):
        a[0] = 3

    source = read_source(inner, "kernel")
    loc = source.loc(source.tree.body[0])
    assert (loc.col, loc.end_col) == (8, 16)
    assert source.text.line(loc.line) == "        a[0] = 3"
    assert loc.source.file == __file__


def test_functions_of_one_name_on_neighbouring_lines():
    """SRC-4: functions that share a name and a file are told apart by their line."""
    functions = []
    if functions == []:

        def f(a):
            a[0] = 1

        functions.append(f)

        def f(a):
            a[0] = 2

        functions.append(f)
    assert [body(read_source(f, "kernel")) for f in functions] == ["a[0] = 1", "a[0] = 2"]


def test_exec_with_registered_text():
    """SRC-1."""
    f = run_registered("def f(a):\n    a[0] = 4\n", "<registered 1>")["f"]
    assert body(read_source(f, "kernel")) == "a[0] = 4"


def test_a_redefined_cell_gives_the_new_body():
    """SRC-4: also where the cell keeps its name, and the text its length."""
    old = run_registered("def f(a):\n    a[0] = 5\n", "<cell>")["f"]
    assert body(read_source(old, "kernel")) == "a[0] = 5"
    new = run_registered("def f(a):\n    a[0] = 6\n", "<cell>")["f"]
    assert body(read_source(new, "kernel")) == "a[0] = 6"


def test_a_stale_source_is_refused():
    """SRC-2: the text that is there is not the one that was compiled, though the function is on the same line."""
    for before, after in [("a[0] = 1", "a[0] = 2"), ("a[0] = b + 1", "a[0] = b - 1"), ("a[0] = 1", "a[b] = 1")]:
        f = run_registered(f"def f(a, b):\n    {before}\n", "<stale>")["f"]
        text = f"def f(a, b):\n    {after}\n"
        linecache.cache["<stale>"] = (len(text), None, text.splitlines(True), "<stale>")
        with pytest.raises(SourceUnavailableError, match=r"has changed since"):
            read_source(f, "kernel")


def test_code_that_an_import_hook_added_to_is_found():
    """SRC-1: pytest rewrites asserts, so that the code differs from what the text compiles to."""

    def checked(a, n):
        assert n > 0, "n"
        a[0] = n

    assert body(read_source(checked, "kernel")) == "a[0] = n"


def test_missing_source():
    """SRC-2: the message says what to do."""
    namespace: dict[str, object] = {}
    exec("def f(a):\n    a[0] = 1\n", namespace)
    with pytest.raises(SourceUnavailableError, match=r"kernel `f` .*<string>.*linecache\.cache\[filename\]"):
        read_source(namespace["f"], "kernel")


def test_lambdas_and_other_objects():
    with pytest.raises(UnsupportedSyntaxError, match=r"test_source\.py:\d+: a lambda cannot be a device function"):
        read_source(lambda x: x, "device function")
    for thing in (len, int, functools.partial(plain, 1), 3):
        with pytest.raises(TypeError, match="a kernel is made from a Python function"):
            read_source(thing, "kernel")


COMMAND = """
import numpy as np, tack
@tack.kernel
def f(a):
    for i in range(a.shape[0]):
        a[i] = i + 7
with tack.device("reference"):
    a = np.zeros(2, np.int32)
    f(a)
print(a.tolist())
"""


def test_python_c():
    """SRC-1: the interpreter keeps the text of `-c`."""
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[7, 8]\n", done.stderr


def test_doctest():
    """SRC-1."""
    text = textwrap.dedent(
        """
        >>> from tack.lang.source import read_source
        >>> def f(a):
        ...     a[0] = 8
        >>> read_source(f, "kernel").tree.body[0].value.value
        8
        """
    )
    test = doctest.DocTestParser().get_doctest(text, {}, "example", "example.txt", 0)
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines_and_tabs(newline):
    """SRC-6: columns count characters; a tab is one."""
    text = newline.join(["x = 1", "if x:", "\tdef f(a):", "\t\ta[0] = 9", ""])
    f = run_registered(text, f"<newline {newline!r}>")["f"]
    source = read_source(f, "kernel")
    loc = source.loc(source.tree.body[0])
    assert (loc.line, loc.col, loc.end_col) == (4, 2, 10)
    assert source.text.line(4) == "\t\ta[0] = 9"


def test_unicode_identifiers_and_columns():
    """SRC-8, SRC-6: columns count characters, not the bytes of the file."""
    text = 'def größe(λ, 名):\n    "é"; λ[0] = 名 * 名\n'
    source = read_source(run_registered(text, "<unicode>")["größe"], "kernel")
    loc = source.loc(source.tree.body[1].value)
    assert text.splitlines()[1][loc.col : loc.end_col] == "名 * 名"
    assert loc.function == "kernel `größe`"


def test_future_flags_are_those_of_the_function():
    text = "from __future__ import annotations\ndef f(a: int, b: 'x'):\n    a[0] = b\n"
    assert body(read_source(run_registered(text, "<future>")["f"], "kernel")) == "a[0] = b"


def test_a_file_changed_and_loaded_again(tmp_path):
    """SRC-4: an edited file loaded again runs its new body."""
    path = tmp_path / "mod.py"
    for value in (1, 22):
        path.write_text(f"def f(a):\n    a[0] = {value}\n")
        namespace: dict[str, object] = {}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        assert body(read_source(namespace["f"], "kernel")) == f"a[0] = {value}"
