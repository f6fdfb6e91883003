"""The pages of the guide print what they say they print: each page runs from top to bottom as one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = "-- end of block --"


def program_and_outputs(text: str) -> tuple[str, list[str]]:
    """The Python blocks of a page as one program that prints a mark after each, and what each prints by the page.

    A block without a language shows the output of the Python block before it; without one, nothing is printed.
    """
    code, outputs = [], []
    for language, body in BLOCK.findall(text):
        if language == "python":
            code.append(f"{body}\nprint({MARK!r})\n")
            outputs.append("")
        elif not language:
            assert outputs and not outputs[-1], "an output that follows no program"
            outputs[-1] = body
    return "\n".join(code), outputs


def run(code: str, folder: Path) -> list[str]:
    """What each block prints. Places in messages lose folder, line and column, which depend on where the page runs."""
    file = folder / "program.py"
    file.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    text = re.sub(rf"{re.escape(str(file))}:\d+:\d+", "program.py", done.stdout)
    return text.split(MARK + "\n")[:-1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page, tmp_path):
    code, outputs = program_and_outputs(page.read_text(encoding="utf-8"))
    assert outputs, "a page without programs"
    assert run(code, tmp_path) == outputs


def test_a_wrong_output_is_noticed(tmp_path):
    """The negative control."""
    code, outputs = program_and_outputs("```python\nprint(1 + 1)\n```\n\n```\n3\n```\n")
    assert run(code, tmp_path) == ["2\n"] != outputs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
