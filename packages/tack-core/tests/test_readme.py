"""The README's program prints what the README says it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

README = Path(__file__).parents[3] / "README.md"


def program_and_output() -> tuple[str, str]:
    """The first Python block of the README, and the block that follows it."""
    found = re.search(r"```python\n(.*?)```\n+```\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1], found[2]


def test_program_prints_what_is_shown(tmp_path):
    code, shown = program_and_output()
    file = tmp_path / "program.py"
    file.write_text(code, encoding="utf-8")
    run = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout == shown


def test_what_is_shown_is_right():
    """A glider moves by one cell down and to the right in four steps: by four in sixteen, around the edges."""
    world = np.zeros((6, 8), np.uint8)
    world[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
    moved = np.roll(world, (4, 4), (0, 1))
    assert program_and_output()[1] == "".join("".join(".#"[cell] for cell in line) + "\n" for line in moved)


def figures(page: str) -> dict[str, tuple[str, str]]:
    """The ratios to C and to the best peer of each row of a page's table of workloads."""
    (table,) = (part for part in page.split("\n\n") if part.rstrip().endswith("|") and "Tack / best peer" in part)
    lines = [line for line in table.splitlines() if line.startswith("|")]
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: (row[names.index("Tack / C")], row[names.index("Tack / best peer")]) for row in rows}


def test_figures_are_those_of_the_performance_page():
    """All of them, so that no row where Tack is behind is left out."""
    performance = README.parent / "docs" / "performance.md"
    assert figures(README.read_text("utf-8")) == figures(performance.read_text("utf-8"))
