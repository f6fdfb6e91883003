"""The C side: gcc and clang run with a list of arguments into a temporary folder, the results loaded through ctypes.

The builds of each file under ``c/``; there is no ``-ffast-math`` anywhere:

- ``plain``: the reference. Both compilers contract ``a * b + c`` to a fused multiply-add as they like.
- ``no-errno``: a harder one. ``-fno-math-errno`` and ``-fno-trapping-math`` keep every rounding and give up what no
  Tack kernel has either, errno and floating-point traps; with them more is vectorised.
- both again with ``-fopenmp`` for all threads. (On one thread the build without it is the faster one.)
- ``strict``: without contraction, as Tack rounds on the CPU: only for checking results, bit by bit.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

SOURCES = Path(__file__).parent / "c"
PLAIN = ("-O3", "-march=native", "-fopenmp-simd")
CLANGS = ("clang", *(f"clang-{number}" for number in range(25, 13, -1)))  # Debian's have their number in the name

# OpenMP's threads look for work for a while after each loop, which must not last into somebody else's turn: there is a
# rest in between, and this keeps clang's while as short as gcc's. Read when the first library is loaded.
os.environ.setdefault("KMP_BLOCKTIME", "3")  # milliseconds, clang's
NO_ERRNO = (*PLAIN, "-fno-math-errno", "-fno-trapping-math")
BUILDS = {
    "plain": PLAIN,
    "plain-openmp": (*PLAIN, "-fopenmp"),
    "no-errno": NO_ERRNO,
    "no-errno-openmp": (*NO_ERRNO, "-fopenmp"),
    "strict": (*PLAIN, "-ffp-contract=off"),
}


class Compiler:
    """Builds and loads the C sources; a context manager, because the libraries lie in a temporary folder.

    Parameters
    ----------
    *names : str
        The compilers to look for in ``PATH``, in order; gcc if none is given.

    Attributes
    ----------
    version : str or None
        The first line of ``--version``; None where there is no such compiler, and then `load` must not be called.
    """

    def __init__(self, *names: str) -> None:
        self._path = next(filter(None, map(shutil.which, names or ("gcc",))), None)
        self._folder = tempfile.TemporaryDirectory(prefix="tack-benchmarks-")
        self._loaded: dict[tuple[str, str], ctypes.CDLL] = {}
        self.version: str | None = None
        if self._path is not None:
            answer = subprocess.run([self._path, "--version"], capture_output=True, text=True, check=True)
            self.version = answer.stdout.splitlines()[0]

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def load(self, workload: str, build: str) -> ctypes.CDLL:
        """The library of ``c/WORKLOAD.c`` in one of `BUILDS`; raises `subprocess.CalledProcessError` on a C error."""
        if (workload, build) not in self._loaded:
            assert self._path is not None, "there is no such compiler"
            target = Path(self._folder.name) / f"{workload}-{build}.so"
            source = SOURCES / f"{workload}.c"
            flags = [
                *BUILDS[build],
                "-Wall",
                "-Wno-unknown-pragmas",
                "-Wno-unused-function",
                "-Wno-pass-failed",
                "-shared",
                "-fPIC",
            ]
            subprocess.run([self._path, *flags, str(source), "-o", str(target), "-lm"], check=True)
            self._loaded[workload, build] = ctypes.CDLL(str(target))
        return self._loaded[workload, build]

    def has_openmp(self) -> bool:
        """Whether builds for all threads work: clang's runtime for OpenMP is a package of its own."""
        try:
            self.load("saxpy", "plain-openmp")
        except (subprocess.CalledProcessError, OSError):
            return False
        return True


def bind(library: ctypes.CDLL, name: str, *arguments: np.ndarray | np.float32 | float | int) -> Callable[[], object]:
    """A call of a C function with every argument converted beforehand.

    An array becomes its address, an int an int64_t, a float a double and a ``np.float32`` a float.
    """
    function = library[name]
    function.restype = None
    return functools.partial(function, *(_converted(a) for a in arguments))


def set_openmp_threads(library: ctypes.CDLL, threads: int) -> None:
    """Set the threads of the loops of a build with OpenMP."""
    library.omp_set_num_threads(ctypes.c_int(threads))


def _converted(argument: np.ndarray | np.float32 | float | int) -> ctypes._SimpleCData:
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, np.float32):
        return ctypes.c_float(argument)
    return ctypes.c_int64(argument) if isinstance(argument, int) else ctypes.c_double(argument)
