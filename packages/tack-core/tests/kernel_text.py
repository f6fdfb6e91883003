"""Kernels from text, for tests that need many small ones or the very text of an error."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from typing import Any

import tack

_numbers = itertools.count(1)


def run_text(text: str, filename: str | None = None, **names: Any) -> dict[str, Any]:
    """Run text as a notebook does, registered in linecache; returns its namespace."""
    filename = filename or f"<text {next(_numbers)}>"
    text = textwrap.dedent(text).lstrip("\n")
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    namespace: dict[str, Any] = {"__name__": "text", "tack": tack, **names}
    exec(compile(text, filename, "exec", dont_inherit=True), namespace)
    return namespace
