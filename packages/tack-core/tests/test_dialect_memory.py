"""Generated C under the address sanitizer: no access outside an array, a local array or a table.

The sanitizer must be in the process from its start, so a process of its own runs tests of `test_dialect_execution.py`
again, and one that reads past an array, as the control. Rules MEM-3, MEM-6, LOOP-12.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dialects import needs_compiler
from rigs import host_run

pytestmark = needs_compiler

HERE = Path(__file__).parent
SELECTED = "device_functions or (no_thread_past and 256)"
PAST_THE_END = """
import numpy as np
from dialects import make, run
a, out = np.ones(3000, np.int64), np.zeros(3000, np.int64)
run("cuda", make("a, out", ("i in range(a.size)", "out[i] = a[i + {past}]")), a, out)
"""


def under_the_sanitizer(*arguments: str) -> subprocess.CompletedProcess[str]:
    library = host_run.sanitizer_library()
    environment = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", host_run.ASAN: "1"}
    paths = [str(HERE), *sys.path]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=HERE)


@pytest.mark.skipif(
    host_run.compiler() is not None and not host_run.sanitizer_library(), reason="no libasan beside g++"
)
def test_no_access_outside_memory() -> None:
    done = under_the_sanitizer(
        *["-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"], "test_dialect_execution.py", "-k", SELECTED
    )
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.skipif(
    host_run.compiler() is not None and not host_run.sanitizer_library(), reason="no libasan beside g++"
)
@pytest.mark.parametrize(("past", "found"), [(0, False), (1, True)])
def test_a_read_past_the_end_is_found(past: int, found: bool) -> None:
    """The control."""
    done = under_the_sanitizer("-c", PAST_THE_END.format(past=past))
    assert ("heap-buffer-overflow" in done.stderr) is found, done.stderr[-3000:]
    assert (done.returncode != 0) is found
