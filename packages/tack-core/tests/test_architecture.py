"""The rules of the house: who imports whom, how long things get, what importing `tack` loads, what a wheel holds.

Every rule is a checker that is run twice: on the repository, where it must find nothing, and on a small synthetic tree
that breaks the rule, where it must find exactly that.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import tack

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "packages" / "tack-core" / "src"
PACKAGE = SOURCE / "tack"
HOUSE = ("packages", "examples", "benchmarks", "tools")

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
# "path::function": why it is one idea although it is long. An entry that is no longer too long fails a test.
LONG_FUNCTIONS: dict[str, str] = {}

# A layer imports from itself and from the layers before it, and from nothing else in `tack`.
LAYERS = ("lang", "codegen", "runtime", "algorithms")
# The one door: inside a function of lang/kernel.py, once.
DOOR_FILE, DOOR_TARGET = "lang/kernel.py", "tack.runtime.dispatch"

# What `import tack` must not load: backends, tools, and whatever costs a user who needs only the names.
HEAVY = ("llvmlite", "matplotlib", "cuda", "hip", "pyopencl", "objc", "rich", "platformdirs")

STATE_NAME = re.compile(
    r"_*((current|default|active|selected|global|last)_+)?(backend|device)s?(_+(stack|var|context))?", re.IGNORECASE
)


# --- The checkers ---------------------------------------------------------------------------------------------------


def imports_of(file: Path, package: Path) -> Iterator[tuple[str, int, bool]]:
    """Yield (absolute module or member name, line, is it inside a function?) for each import in a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    lazy = {
        id(inner)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
    }
    here = (package.name, *file.relative_to(package).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, id(node) in lazy
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                yield f"{module}.{alias.name}", node.lineno, id(node) in lazy
        elif isinstance(node, ast.Call) and is_dynamic_import(node.func):
            argument = node.args[0] if node.args else None
            known = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            # A name that is computed could be anything, so it counts as an import of the whole package.
            yield str(argument.value) if known else package.name, node.lineno, id(node) in lazy


def is_dynamic_import(function: ast.expr) -> bool:
    """Is this `__import__`, `import_module` or `importlib.import_module`?"""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("__import__", "import_module")


def import_violations(package: Path) -> list[str]:
    """Every import inside the layers of `package` that goes the wrong way."""
    found = []
    doors = 0
    for rank, layer in enumerate(LAYERS):
        allowed = tuple(f"{package.name}.{name}" for name in LAYERS[: rank + 1])
        for file in sorted((package / layer).rglob("*.py")):
            where = file.relative_to(package).as_posix()
            for name, line, lazy in imports_of(file, package):
                if name.split(".")[0] != package.name or is_within(name, allowed):
                    continue
                if where == DOOR_FILE and lazy and is_within(name, (DOOR_TARGET,)):
                    doors += 1
                    if doors == 1:
                        continue
                found.append(f"{where}:{line} imports {name}")
    return found


def is_within(name: str, modules: tuple[str, ...]) -> bool:
    """Is `name` one of `modules`, or something inside one?"""
    return any(name == module or name.startswith(module + ".") for module in modules)


def long_files(root: Path) -> list[str]:
    """Python files over the limit."""
    return [
        f"{file.relative_to(root).as_posix()} has {count} lines"
        for file in python_files(root)
        if (count := len(file.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    ]


def long_functions(root: Path) -> dict[str, int]:
    """Functions over the limit, docstrings not counted: {"path::function": lines}."""
    found = {}
    for file in python_files(root):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and (count := lines_of(node)) > MAX_FUNCTION_LINES
            ):
                found[f"{file.relative_to(root).as_posix()}::{node.name}"] = count
    return found


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function, from `def` to its end, less those of its docstring."""
    count = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node, clean=False) is not None:
        text = node.body[0]
        count -= (text.end_lineno or text.lineno) - text.lineno + 1
    return count


def python_files(root: Path) -> list[Path]:
    """The Python files of the house under `root`."""
    return sorted(file for part in HOUSE for file in (root / part).rglob("*.py"))


def device_globals(package: Path) -> list[str]:
    """Names in `lang` and `codegen` that hold a current backend or device for the whole process."""
    found = []
    for layer in ("lang", "codegen"):
        for file in sorted((package / layer).rglob("*.py")):
            where = file.relative_to(package).as_posix()
            found += [
                f"{where}:{line} keeps {name}"
                for name, line in process_state(ast.parse(file.read_text(encoding="utf-8")))
                if STATE_NAME.fullmatch(name)
            ]
    return found


def process_state(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the names that a module binds at its top or in a class body, or rebinds through `global`."""
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for scope in scopes:
        for node in scope.body:
            # An annotation without a value declares the field of an instance, not state of the process.
            if isinstance(node, ast.Assign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    yield from ((name.id, name.lineno) for name in ast.walk(target) if isinstance(name, ast.Name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from ((name, node.lineno) for name in node.names)


def heavy_modules_loaded(statement: str, path: Path) -> list[str]:
    """The modules of HEAVY that a fresh interpreter has loaded after `statement`, with `path` first on its path."""
    probe = f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    code = f"import sys; sys.path.insert(0, {str(path)!r}); {statement}; {probe}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.split()


def missing_from_wheel(root: Path, out: Path) -> list[str]:
    """Build the wheel of the project at `root`; what every wheel of ours must hold and this one does not."""
    pytest.importorskip("hatchling", reason="no hatchling, which builds wheels")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = archive.namelist()
    return [name for name in ("tack/__init__.py", "tack/py.typed") if name not in held]


# --- The repository keeps the rules ---------------------------------------------------------------------------------


def test_imports_run_one_way() -> None:
    assert import_violations(PACKAGE) == []


def test_files_are_small() -> None:
    assert long_files(ROOT) == []


def test_functions_are_small() -> None:
    too_long = long_functions(ROOT)
    assert {name: count for name, count in too_long.items() if name not in LONG_FUNCTIONS} == {}
    assert [name for name in LONG_FUNCTIONS if name not in too_long] == [], "no longer too long: take it off the list"


def test_lang_and_codegen_know_no_current_device() -> None:
    assert device_globals(PACKAGE) == []


def test_importing_tack_loads_no_backend() -> None:
    assert heavy_modules_loaded("import tack", SOURCE) == []


def test_wheel_ships_the_type_marker(tmp_path: Path) -> None:
    assert missing_from_wheel(ROOT, tmp_path) == []


def test_public_names_exist_and_have_docstrings() -> None:
    assert sorted(set(tack.__all__)) == sorted(tack.__all__), "a name is listed twice"
    assert [name for name in tack.__all__ if not hasattr(tack, name)] == []
    callables = [name for name in tack.__all__ if callable(getattr(tack, name))]
    assert [name for name in callables if not (getattr(tack, name).__doc__ or "").strip()] == []


# --- Negative controls: each checker finds a broken rule ------------------------------------------------------------


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write a synthetic repository."""
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("file", "text", "finding"),
    [
        ("lang/a.py", "import tack.codegen.llvm_gen\n", "lang/a.py:1 imports tack.codegen.llvm_gen"),
        ("lang/a.py", "from tack.runtime import device\n", "lang/a.py:1 imports tack.runtime.device"),
        ("lang/a.py", "from tack import runtime\n", "lang/a.py:1 imports tack.runtime"),
        ("lang/a.py", "import tack\n", "lang/a.py:1 imports tack"),
        ("lang/a.py", "from ..runtime import device\n", "lang/a.py:1 imports tack.runtime.device"),
        ("lang/sub/a.py", "from ...codegen import x\n", "lang/sub/a.py:1 imports tack.codegen.x"),
        ("lang/a.py", "def f():\n    import tack.runtime.dispatch\n", "lang/a.py:2 imports tack.runtime.dispatch"),
        ("lang/a.py", "if TYPE_CHECKING:\n    from tack.runtime import x\n", "lang/a.py:2 imports tack.runtime.x"),
        ("lang/a.py", "importlib.import_module('tack.runtime')\n", "lang/a.py:1 imports tack.runtime"),
        ("lang/a.py", "__import__(name)\n", "lang/a.py:1 imports tack"),
        ("lang/kernel.py", "from tack.runtime import dispatch\n", "lang/kernel.py:1 imports tack.runtime.dispatch"),
        ("lang/kernel.py", "def f():\n    from tack.runtime import x\n", "lang/kernel.py:2 imports tack.runtime.x"),
        ("lang/kernel.py", "def f():\n    from tack.codegen import x\n", "lang/kernel.py:2 imports tack.codegen.x"),
        (
            "lang/kernel.py",
            "def f():\n    from tack.runtime import dispatch\n\ndef g():\n    from tack.runtime import dispatch\n",
            "lang/kernel.py:5 imports tack.runtime.dispatch",
        ),
        ("codegen/a.py", "from tack.runtime import x\n", "codegen/a.py:1 imports tack.runtime.x"),
        ("codegen/a.py", "def f():\n    import tack.runtime\n", "codegen/a.py:2 imports tack.runtime"),
        ("runtime/a.py", "from tack.algorithms import scan\n", "runtime/a.py:1 imports tack.algorithms.scan"),
    ],
)
def test_control_import_the_wrong_way(tmp_path: Path, file: str, text: str, finding: str) -> None:
    package = tree(tmp_path, {f"tack/{file}": text}) / "tack"
    assert import_violations(package) == [finding]


def test_control_imports_the_right_way_are_not_reported(tmp_path: Path) -> None:
    files = {
        "tack/__init__.py": "from tack.runtime.device import devices\n",
        "tack/lang/kernel.py": "from . import ir\n\ndef call():\n    from tack.runtime import dispatch\n",
        "tack/codegen/gen.py": "import numpy\nfrom ..lang import ir\n",
        "tack/runtime/run.py": "from tack.codegen.gen import x\nfrom tack.lang import ir\nimport tackle\n",
        "tack/algorithms/scan.py": "from tack.runtime.creation import zeros\n",
    }
    assert import_violations(tree(tmp_path, files) / "tack") == []


def test_control_long_file(tmp_path: Path) -> None:
    files = {"tools/long.py": "x = 1\n" * (MAX_FILE_LINES + 1), "tools/fits.py": "x = 1\n" * MAX_FILE_LINES}
    assert long_files(tree(tmp_path, files)) == [f"tools/long.py has {MAX_FILE_LINES + 1} lines"]


def test_control_long_function(tmp_path: Path) -> None:
    body = "    x = 1\n"
    files = {
        "tools/long.py": "class A:\n    async def f(self):\n" + ("    " + body) * MAX_FUNCTION_LINES,
        "tools/fits.py": "def f():\n" + body * (MAX_FUNCTION_LINES - 1),
        "tools/told.py": 'def f():\n    """One\n\n    two\n    """\n' + body * (MAX_FUNCTION_LINES - 1),
    }
    assert long_functions(tree(tmp_path, files)) == {"tools/long.py::f": MAX_FUNCTION_LINES + 1}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("_current_backend = None\n", "_current_backend"),
        ("DEVICE: object = make()\n", "DEVICE"),
        ("default_device, x = 1, 2\n", "default_device"),
        ("_device_stack = []\n", "_device_stack"),
        ("_device_var = ContextVar('d')\n", "_device_var"),
        ("class State:\n    current_device = None\n", "current_device"),
        ("def use(d):\n    global active_device\n    active_device = d\n", "active_device"),
    ],
)
def test_control_current_device(tmp_path: Path, text: str, name: str) -> None:
    (finding,) = device_globals(tree(tmp_path, {"tack/codegen/a.py": text}) / "tack")
    assert finding.startswith("codegen/a.py:") and finding.endswith(f" keeps {name}")


def test_control_a_device_of_an_instance_is_no_global(tmp_path: Path) -> None:
    text = "class Array:\n    device: Device\n\n    def __init__(self, device):\n        self.device = device\n"
    assert device_globals(tree(tmp_path, {"tack/lang/array.py": text}) / "tack") == []


def test_control_heavy_import(tmp_path: Path) -> None:
    root = tree(
        tmp_path, {"llvmlite.py": "", "eager.py": "import llvmlite\n", "lazy.py": "def f():\n    import llvmlite\n"}
    )
    assert heavy_modules_loaded("import eager", root) == ["llvmlite"]
    assert heavy_modules_loaded("import lazy", root) == []


def test_control_wheel_without_the_type_marker(tmp_path: Path) -> None:
    project = """
        [build-system]
        requires = ["hatchling"]
        build-backend = "hatchling.build"
        [project]
        name = "control"
        version = "1"
        [tool.hatch.build.targets.wheel]
        packages = ["src/tack"]
    """
    tree(tmp_path, {"pyproject.toml": project, "src/tack/__init__.py": ""})
    assert missing_from_wheel(tmp_path, tmp_path / "dist") == ["tack/py.typed"]
