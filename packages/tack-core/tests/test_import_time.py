"""What importing Tack loads, and what a first call loads: structure only, no times."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tack

SOURCE = Path(tack.__file__).parent

CALL = """
import numpy as np
@tack.kernel
def k(a):
    for i in range(a.shape[0]):
        a[i] = i
k(np.zeros(3))
"""


def loaded(program: str) -> set[str]:
    """The modules that a fresh process has loaded after a program, less those that NumPy loads."""
    shown = "import sys, numpy\nbefore = set(sys.modules)\n{}\nprint(*set(sys.modules) - before, sep='\\n')"
    code = "import linecache\ntext = {0!r}\nlinecache.cache['<p>'] = (len(text), None, text.splitlines(True), '<p>')\n"
    run = [sys.executable, "-c", code.format(shown.format(program)) + "exec(compile(text, '<p>', 'exec'))"]
    return set(subprocess.run(run, capture_output=True, text=True, check=True).stdout.split())


def test_importing_tack_loads_no_compiler():
    """Neither the generators nor the representation that they work on, and nothing of a device."""
    modules = loaded("import tack")
    assert "tack.lang.kernel" in modules
    names = (
        "tack.codegen",
        "tack.lang.ir",
        "tack.lang.ast_transform",
        "tack.lang.ops",
        "tack.lang.texture",
        "tack.math",
        "tack.random",
        "tack.runtime.creation",
        "tack.runtime.dispatch",
        "tack.runtime.cpu_pool",
    )
    assert [m for m in modules if m.startswith(names)] == []
    slow = {"dataclasses", "threading", "json", "hashlib", "pathlib", "tempfile", "random"}
    assert modules & (slow | {"llvmlite", "platformdirs"}) == set()


def test_names_that_are_loaded_later_are_there():
    """Each at its first use, the same object ever after; modules, and what they share a name with, included."""
    late = "import tack\nassert 'zeros' not in vars(tack)\nassert set(dir(tack)) >= set(tack.__all__)\n"
    same = "from tack import *\nassert [n for n in tack.__all__ if globals()[n] is not getattr(tack, n)] == []\n"
    kinds = "assert zeros is tack.runtime.creation.zeros\nassert tack.math is sys.modules['tack.math'] is math"
    assert "tack.algorithms" in loaded(late + same + kinds)
    assert loaded("import tack\nassert not hasattr(tack, 'nothing')\nimport tack.random\ntack.random.uniform")


def test_type_checkers_refuse_unknown_names():
    """A module with a `__getattr__` that they see has every name; they read what is under TYPE_CHECKING instead."""
    for file in SOURCE.rglob("*.py"):
        seen = {node.name for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}
        assert "__getattr__" not in seen, file
    body = ast.parse((SOURCE / "__init__.py").read_text("utf-8")).body
    checked = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in checked for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == set(tack._LATER)


def test_a_first_call_compiles_only_what_it_uses():
    """Not the thread pool for a small loop, not the native entry for one call, not the generators of other devices."""
    modules = loaded("import os\nos.environ['TACK_DEBUG'] = '0'\nimport tack\n" + CALL)
    assert "tack.runtime.dispatch" in modules
    unused = (
        "tack.runtime.cpu_pool",
        "tack.codegen.cuda_gen",
        "tack.codegen.c_family",
        "tack.runtime.reference_backend",
        "tack.runtime.native_call",
        "tack.codegen.call_entry_ir",
        "tack.lang.workgroups",
        "tack.lang.serial_workgroups",
        "tack.lang.ir_verify",
        "difflib",
    )
    assert [m for m in modules if m.startswith(unused)] == []
