"""Code nested deeper than Python's recursion limit lets the compiler go: an error about the kernel, not about Tack."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tack.lang.diagnostics import UnsupportedSyntaxError, render
from tack.lang.source import FunctionSource


@contextmanager
def nesting_explained(source: FunctionSource) -> Iterator[None]:
    """Compile inside it: a `RecursionError` becomes an `UnsupportedSyntaxError` at the most deeply nested place.

    Raises
    ------
    UnsupportedSyntaxError
        If the code inside hits Python's recursion limit.
    """
    try:
        yield
    except RecursionError:
        node, depth = deepest(source.tree)
        text = f"nesting this deep is not supported ({depth} levels here, beside those of the functions called)"
        hint = (
            f"name parts of the expression, break up chains of `elif` or of calls; or raise Python's recursion limit, "
            f"now {sys.getrecursionlimit()}, with sys.setrecursionlimit"
        )
        raise UnsupportedSyntaxError(render(text, source.loc(node), hint=hint)) from None


def deepest(tree: ast.AST) -> tuple[ast.AST, int]:
    """The statement or expression nested most deeply, and how deeply. Without recursion, for trees of any depth."""
    found, most = tree, 0
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > most and isinstance(node, (ast.stmt, ast.expr)):
            found, most = node, depth
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return found, most
