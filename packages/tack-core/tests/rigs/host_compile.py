"""Generated C of any dialect as native code of this process, for the device rigs: fast to compile, and in no hurry.

An object holds the kernels of one text behind the table `rig_table` (`c_host/kernel.h`): each kernel with the sizes and
kinds of its parameters. It is made by clang without optimisation, in 25 ms, and kept by content in a folder that the
processes of a test run share; LLVM's JIT loads it in half a millisecond, without a linker.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rigs.text_compilers import Rejected, static_arrays

SHIMS = Path(__file__).parent / "c_host"
FOLDER = "TACK_TEST_RIG_DIR"
"""The variable that names the folder of objects."""

# The large code model, since LLVM's linker puts the parts of an object anywhere (test_llvm_jit.py).
_FLAGS = (
    "-std=c++17 -O0 -fno-pic -mcmodel=large -w -nostdinc -ffp-contract=on -fno-math-errno -fno-exceptions -fno-rtti "
    "-fno-asynchronous-unwind-tables -fno-stack-protector -DRIG_DEVICE "
    "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,float-cast-overflow,bool"
).split()


@dataclass(frozen=True)
class Shim:
    """How the text of a dialect is read: its header, what starts a kernel's definition (the groups `name` and, where it
    says so, `most`, its largest workgroup), and what makes the threads of a group wait for each other."""

    header: str
    kernel: re.Pattern[str]
    waits: re.Pattern[str]


_CUDA = Shim(
    "cuda.h",
    re.compile(r"__global__[^;{}]*?(?:__launch_bounds__\((?P<most>\d+)[^)]*\)\s*)?void\s+(?P<name>\w+)\s*\("),
    re.compile(r"__sync|__shfl"),
)
DIALECTS = {
    "cuda": _CUDA,
    "hip": _CUDA,
    "opencl": Shim(
        "opencl.h",
        re.compile(r"__kernel[^;{}]*?(?:reqd_work_group_size\((?P<most>\d+)[^)]*\)\)\)\s*)?void\s+(?P<name>\w+)\s*\("),
        re.compile(r"\bbarrier\("),
    ),
    "metal": Shim(
        "metal.h",
        re.compile(
            r"\bkernel\s+(?:\[\[max_total_threads_per_threadgroup\((?P<most>\d+)\)\]\]\s*)?void\s+(?P<name>\w+)\("
        ),
        re.compile(r"threadgroup_barrier"),
    ),
}


@functools.cache
def compiler() -> str | None:
    """clang, or g++, which takes three times as long; None where there is neither."""
    return next(filter(None, map(shutil.which, ("clang++-19", "g++"))), None)


def compile_object(dialect: str, text: str) -> bytes:
    """An object file of generated text.

    Parameters
    ----------
    dialect
        A key of `DIALECTS`.
    text
        What the generator of the dialect gives.

    Returns
    -------
    bytes
        For `load`; the same text of dialects that share a shim is compiled once.

    Raises
    ------
    Rejected
        If the compiler does not accept the text; the message is its own, with the line numbers of the text.
    """
    shim = DIALECTS[dialect]
    found = list(shim.kernel.finditer(text))
    waits = int(shim.waits.search(text) is not None)
    enters = "".join(f"RIG_ENTER({m['name']})\n" for m in found)
    rows = "".join(f"RIG_DESCRIBE({m['name']}, {m['most'] or 0}, {waits}), " for m in found)
    source = (
        f'#include "{shim.header}"\n#line 1 "generated"\n{static_arrays(text)}\n#line 1 "rig"\n{enters}'
        f'extern "C" const rig_kernel rig_table[{len(found) + 1}] = {{{rows}}};\n'
    )
    command = _command(dialect)
    path = folder() / f"{digest(_shim_digest(), *command, source)}.o"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return _compile(command, source, path)


def _compile(command: tuple[str, ...], source: str, path: Path) -> bytes:
    made = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    given, said = made.with_suffix(f"{made.suffix}.cpp"), made.with_suffix(f"{made.suffix}.txt")
    given.write_text(source, encoding="utf-8")
    words = [str(made) if word == "OUT" else word for word in command]
    try:
        if _run(words, given, said) != 0:
            raise Rejected(said.read_text(errors="replace")[:8000])
    finally:
        given.unlink()
        said.unlink(missing_ok=True)
    content = made.read_bytes()
    made.replace(path)
    return content


_serving = threading.Lock()


def _run(words: list[str], given: Path, said: Path) -> int:
    """Run the compiler; its status. clang runs as a fork of one that is loaded already, in half of the time."""
    if "clang" not in words[0]:
        with given.open() as source, said.open("w") as output:
            return subprocess.run(words, stdin=source, stdout=output, stderr=output, check=False).returncode
    with _serving:
        server = _server(words[0], os.getpid())
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("\t".join([*words, str(given), str(said)]) + "\n")
        server.stdin.flush()
        return int(server.stdout.readline())


@functools.cache
def _server(clang: str, process: int) -> subprocess.Popen[str]:
    """The loaded compiler of this process, which ends it."""
    library = build_library(SHIMS.parent / "c_device" / "warm_compiler.c", "warm_compiler.so")
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([clang], env=environment, text=True, **pipes)
    atexit.register(_end, server, process)
    return server


def _end(server: subprocess.Popen[str], process: int) -> None:
    if os.getpid() == process:  # not a fork of it
        with server:
            server.kill()


@functools.cache
def _command(dialect: str) -> tuple[str, ...]:
    """The compiler's command, from its input to OUT: clang's own inner one, without the process around it."""
    found = compiler()
    assert found is not None, "no C++ compiler"
    flags = [*_FLAGS, f"-I{SHIMS}", *([f"-I{SHIMS / 'metal'}"] if dialect == "metal" else [])]
    flags.append("-fsanitize=array-bounds" if "clang" in found else "-fsanitize=bounds")
    if has_fma():
        flags.append("-mfma")
    command = [found, *flags, "-c", "-x", "c++", "-", "-o", "OUT"]
    if "clang" not in found:
        return tuple(command)
    shown = subprocess.run([*command[:1], "-###", *command[1:]], capture_output=True, text=True, check=True).stderr
    words = shlex.split(shown.splitlines()[-1])
    assert words[1] == "-cc1", shown
    return tuple(words)


@functools.cache
def c_compiler() -> str | None:
    """A compiler of C with a linker behind it."""
    return next(filter(None, map(shutil.which, ("gcc", "clang-19"))), None)


def build_library(source: Path, name: str) -> Path:
    """A shared library of one C source, under a name that is its SONAME too; built by the first process that asks."""
    compiled_from = sorted([*source.parent.glob("*.h"), source])
    path = folder() / digest(*(p.read_text() for p in compiled_from), c_compiler() or "") / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f"{path.name}.{os.getpid()}")
        flags = "-std=gnu11 -O2 -fPIC -shared -Wall -Wextra -Wno-unused-function".split()
        soname = f"-Wl,-soname,{path.name}"
        command = [c_compiler() or "gcc", *flags, soname, str(source), "-o", str(made), "-ldl", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.replace(path)
    return path


@functools.cache
def has_fma() -> bool:
    """Whether the processor has the instruction that contraction makes."""
    try:
        return " fma " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


@functools.cache
def _shim_digest() -> str:
    return digest(*(p.read_text() for p in sorted(SHIMS.rglob("*")) if p.is_file()))


def digest(*texts: str) -> str:
    """A name for contents."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


@functools.cache
def folder() -> Path:
    """Where objects and libraries are kept."""
    found = Path(os.environ.get(FOLDER) or tempfile.mkdtemp(prefix="tack-rig-"))
    found.mkdir(parents=True, exist_ok=True)
    return found


# ---------------------------------------------------------------------------------------------------------------- load

_numbers = itertools.count(1)
_loaded: dict[bytes, tuple[int, Any]] = {}


@functools.cache
def _jit() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()


def load(image: bytes) -> int:
    """Native code of an object in this process, whose other names are those of the process (`c_device/rig.c`).

    Returns
    -------
    int
        The address of its `rig_table`. Code stays loaded: an object that comes again is the same code.
    """
    import llvmlite.binding as llvm

    if image not in _loaded:
        builder = llvm.JITLibraryBuilder().add_object_img(image).export_symbol("rig_table").add_current_process()
        library = builder.link(_jit(), f"rig{next(_numbers)}")
        _loaded[image] = library["rig_table"], library
    return _loaded[image][0]
