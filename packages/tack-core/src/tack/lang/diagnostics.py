"""Source locations and the one way in which Tack words an error about user code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tack.lang.records import field, record


class UnsupportedSyntaxError(NotImplementedError):
    """Python that a Tack kernel cannot contain; the message says what to write instead."""


class SourceUnavailableError(TypeError):
    """The source text of a decorated function cannot be found."""


@record(frozen=True)
class SourceText:
    """A file (or notebook cell) that holds kernels: its name and its lines, 1-based as Python counts them."""

    file: str
    lines: tuple[str, ...] = field(repr=False)

    def line(self, number: int) -> str:
        return self.lines[number - 1].rstrip("\n") if 0 < number <= len(self.lines) else ""


@record(frozen=True)
class Loc:
    """A place in user code. `line` is 1-based; `col` and `end_col` are 0-based character columns."""

    source: SourceText = field(repr=False)
    function: str  # "kernel `name`" or "device function `name`", as messages say it
    line: int
    col: int
    end_col: int

    def __str__(self) -> str:
        return f"{self.source.file}:{self.line}:{self.col + 1}"


class Diagnostic(str):
    """A message that tells all: where, what, and what to write instead. Frames inside of Tack add nothing to it."""

    __slots__ = ()


def has_diagnostic(error: BaseException) -> bool:
    """Whether an error is about user code and says so itself."""
    return len(error.args) == 1 and isinstance(error.args[0], Diagnostic)


def render(message: str, loc: Loc, *, hint: str | None = None, chain: Sequence[Loc] = ()) -> Diagnostic:
    """The text of a diagnostic: position, message, the line with a caret, a hint, and the call sites if inlined."""
    text = loc.source.line(loc.line)
    shown = text.expandtabs(1).lstrip()
    start = loc.col - (len(text) - len(text.lstrip()))
    width = max(1, min(loc.end_col, len(text)) - loc.col)
    parts = [f"{loc}: in {loc.function}: {message}", f"    {shown}", "    " + " " * max(0, start) + "^" * width]
    if hint:
        parts.append(f"  help: {hint}")
    for site in reversed(chain):
        parts += [f"  called at {site}, in {site.function}", f"    {site.source.line(site.line).strip()}"]
    return Diagnostic("\n".join(parts))


def fail(
    kind: type[Exception], message: str, loc: Loc, *, hint: str | None = None, chain: Sequence[Loc] = ()
) -> NoReturn:
    """Raise `kind` with the rendered diagnostic; `chain` lists the call sites, outermost first."""
    raise kind(render(message, loc, hint=hint, chain=chain))
