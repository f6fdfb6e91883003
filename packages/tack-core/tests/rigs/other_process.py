"""Python in a process of its own: without the rigs of this one, and free to crash."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def run(script: str, **request: Any) -> str:
    """What a script prints; `request` is JSON on its standard input."""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-4000:]}"
    return done.stdout
