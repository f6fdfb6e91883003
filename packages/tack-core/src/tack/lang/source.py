"""Finding the source of a decorated function: its text, its syntax tree and the positions in it (rules SRC-*)."""

from __future__ import annotations
import __future__

import ast
import functools
import io
import linecache
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tack.lang.diagnostics import Loc, SourceText, SourceUnavailableError, UnsupportedSyntaxError
from tack.lang.loading import loading
from tack.lang.records import record

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

_FUTURE_FLAGS = functools.reduce(
    lambda a, b: a | b, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # the parts of statements that are lists of statements
_ADVICE = (
    "Tack reads a kernel again from its source: put it in a file or a notebook cell, or register the text, "
    "`linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)`, and run "
    "`exec(compile(text, filename, 'exec'))`"
)


@record(frozen=True)
class FunctionSource:
    """The source of one function. `what` is "kernel" or "device function", as messages say it."""

    fn: types.FunctionType
    tree: FunctionNode
    text: SourceText
    what: str

    @property
    def name(self) -> str:
        return self.fn.__name__

    @property
    def label(self) -> str:
        return f"{self.what} `{self.name}`"

    def loc(self, node: ast.AST) -> Loc:
        """The position of a node, in characters (the tree counts UTF-8 bytes)."""
        where: Any = node if hasattr(node, "lineno") else self.tree
        line = self.text.line(where.lineno)
        col = _character_column(line, where.col_offset)
        if isinstance(node, FunctionNode):
            return Loc(self.text, self.label, node.lineno, col, _end_of_header(line, col, node.name))
        ends_here = where.end_lineno == where.lineno
        end = _character_column(line, where.end_col_offset) if ends_here else len(line)
        return Loc(self.text, self.label, where.lineno, col, end)


def _character_column(line: str, offset: int) -> int:
    return len(line.encode()[:offset].decode(errors="replace"))


def _end_of_header(line: str, col: int, name: str) -> int:
    at = line.find(name, col)
    return at + len(name) if at >= 0 else len(line)


def read_source(fn: Callable[..., Any], what: str) -> FunctionSource:
    """Find the text and the tree of a function, and make sure that they are those of the function that runs.

    Raises
    ------
    TypeError
        If `fn` is not a Python function.
    UnsupportedSyntaxError
        If `fn` is a lambda.
    SourceUnavailableError
        If no source is to be had, or if it is not the source that `fn` was compiled from.
    """
    if not isinstance(fn, types.FunctionType):
        raise TypeError(f"a {what} is made from a Python function, not from {type(fn).__name__} {fn!r}")
    code = fn.__code__
    if code.co_name == "<lambda>":
        raise UnsupportedSyntaxError(
            f"{code.co_filename}:{code.co_firstlineno}: a lambda cannot be a {what}; "
            "write `def name(...): ...` and decorate it"
        )
    for text in _texts(fn):
        found = _find(text, code)
        if found is not None:
            node, source_text = found
            return FunctionSource(fn, node, source_text, what)
    raise SourceUnavailableError(
        f"the source of {what} `{fn.__name__}` ({code.co_filename}, line {code.co_firstlineno}) is not available, "
        f"or has changed since the function was compiled. {_ADVICE}"
    )


def _texts(fn: types.FunctionType) -> Iterator[str]:
    """The texts that may hold the function: what linecache knows of its file, the command of ``python -c``."""
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if lines:
        yield "".join(lines)
    by_code = getattr(linecache, "_getlines_from_code", None)  # Python 3.13: the REPL and `python -c`
    if by_code is not None:
        yield "".join(by_code(code))
    if code.co_filename == "<string>" and "-c" in sys.orig_argv[:-1]:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1]


@record(frozen=True)
class _Parsed:
    """A text, with its functions by name and first line, as trees and as the code they compile to."""

    text: SourceText
    nodes: dict[tuple[str, int], FunctionNode]
    codes: dict[tuple[str, int], types.CodeType]


@functools.lru_cache(maxsize=32)
@loading()
def _parse(text: str, filename: str, flags: int) -> _Parsed | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python gave its warnings about this text when it compiled it
            tree = ast.parse(text, filename)
            compiled = compile(tree, filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    lines = io.StringIO(text, newline=None).read().split("\n")
    nodes = {(n.name, _first_line(n)): n for n in _functions(tree)}
    codes = {(c.co_name, c.co_firstlineno): c for c in _codes(compiled)}
    return _Parsed(SourceText(filename, tuple(lines)), nodes, codes)


def _functions(tree: ast.Module) -> Iterator[FunctionNode]:
    """Every function of a module: statements alone are looked at, which are a tenth of a tree."""
    found: list[ast.AST] = [tree]
    while found:
        node = found.pop()
        if isinstance(node, FunctionNode):
            yield node
        for part in _BLOCKS:
            found += getattr(node, part, ())


def _find(text: str, code: types.CodeType) -> tuple[FunctionNode, SourceText] | None:
    parsed = _parse(text, code.co_filename, code.co_flags & _FUTURE_FLAGS)
    if parsed is None:
        return None
    key = (code.co_name, code.co_firstlineno)
    node, fresh = parsed.nodes.get(key), parsed.codes.get(key)
    return (node, parsed.text) if node is not None and fresh is not None and _compiled_from(code, fresh) else None


def _first_line(node: FunctionNode) -> int:
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _compiled_from(code: types.CodeType, fresh: types.CodeType) -> bool:
    """Whether `code` is what the text compiles to now, or that plus what an import hook (pytest's asserts) added."""
    if fresh == code:
        return True
    arguments = code.co_argcount + code.co_kwonlyargcount
    same_arguments = fresh.co_varnames[:arguments] == code.co_varnames[:arguments]
    instrumented = set(fresh.co_names) < set(code.co_names) and _numbers(fresh) <= _numbers(code)
    return same_arguments and instrumented


def _numbers(code: types.CodeType) -> set[tuple[type, str]]:
    return {(type(c), repr(c)) for c in code.co_consts if isinstance(c, (int, float))}
