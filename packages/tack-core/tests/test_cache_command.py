"""``tack cache`` (rule CACHE-7)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tack
from tack import __main__ as command
from tack.runtime.disk_cache import DiskCache

SOURCE = Path(tack.__file__).parent.parent


@pytest.fixture
def store(tmp_path, monkeypatch):
    made = DiskCache(str(tmp_path / "cache"))
    monkeypatch.setattr(command, "cache", lambda: made)
    return made


def test_show_and_clear(store, capsys):
    assert command.main(["cache"]) == 0
    assert "entries: 0" in capsys.readouterr().out
    store.put("a" * 40, bytes(3 << 20))
    assert command.main(["cache", "show"]) == 0
    shown = capsys.readouterr().out
    assert store.folder in shown and "entries: 1" in shown and "3.0 of 256 MiB" in shown
    assert command.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith("1 entries deleted")
    assert store.entries() == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without owners of files")
def test_what_is_wrong_is_said(store, capsys):
    store.put("a" * 40, b"")
    os.chmod(store.folder, 0o777)
    assert command.main(["cache"]) == 1
    assert "chmod 700" in capsys.readouterr().out


def test_words_that_mean_nothing(capsys):
    for words in ([], ["cash"], ["cache", "burn"], ["cache", "warm"]):
        assert command.main(words) == 2
        assert capsys.readouterr().err.startswith("usage: tack cache")
    assert command.main(["--help"]) == 0


def test_off(monkeypatch, capsys):
    monkeypatch.setattr(command, "cache", lambda: None)
    assert command.main(["cache"]) == command.main(["cache", "clear"]) == 0
    assert "off" in capsys.readouterr().out


def test_warming_runs_the_program(tmp_path):
    """In a process of its own, with its arguments, as its main module."""
    pytest.importorskip("llvmlite")
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np, tack\n"
        "@tack.kernel\ndef k(a):\n    for i in range(3):\n        a[i] = i\n"
        "if __name__ == '__main__':\n    a = np.zeros(3)\n    k(a)\n    print(a.tolist(), sys.argv[1:])\n"
    )
    environment = os.environ | {"TACK_CACHE_DIR": str(tmp_path / "c"), "TACK_CACHE": "1", "PYTHONPATH": str(SOURCE)}
    words = [sys.executable, "-m", "tack", "cache", "warm", str(program), "x"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "[0.0, 1.0, 2.0] ['x']"
    assert "entries: 3" in lines, "the digest of Tack, a kernel, a variant"
