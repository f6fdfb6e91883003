"""The C side: gcc run with a list of arguments into a temporary folder, and the result loaded through ctypes.

The builds of each file under ``c/``; there is no ``-ffast-math`` anywhere:

- ``plain``: the reference. gcc contracts ``a * b + c`` to a fused multiply-add as it likes.
- ``no-errno``: a harder one. ``-fno-math-errno`` and ``-fno-trapping-math`` keep every rounding and give up what no
  Tack kernel has either, errno and floating-point traps; with them gcc vectorises more.
- both again with ``-fopenmp`` for all threads. (On one thread the build without it is the faster one.)
- ``strict``: without contraction, as Tack rounds on the CPU: only for checking results, bit by bit.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

SOURCES = Path(__file__).parent / "c"
PLAIN = ("-O3", "-march=native")
NO_ERRNO = (*PLAIN, "-fno-math-errno", "-fno-trapping-math")
BUILDS = {
    "plain": PLAIN,
    "plain-openmp": (*PLAIN, "-fopenmp"),
    "no-errno": NO_ERRNO,
    "no-errno-openmp": (*NO_ERRNO, "-fopenmp"),
    "strict": (*PLAIN, "-ffp-contract=off"),
}


class Gcc:
    """Builds and loads the C sources; a context manager, because the libraries lie in a temporary folder.

    Parameters
    ----------
    executable : str, optional
        The compiler to run; the first ``gcc`` in ``PATH`` if None. It must be gcc: the builds rely on its defaults.

    Attributes
    ----------
    version : str or None
        The first line of ``gcc --version``; None where there is no gcc, and then `load` must not be called.
    """

    def __init__(self, executable: str | None = None) -> None:
        self._path = shutil.which(executable or "gcc")
        self._folder = tempfile.TemporaryDirectory(prefix="tack-benchmarks-")
        self._loaded: dict[tuple[str, str], ctypes.CDLL] = {}
        self.version: str | None = None
        if self._path is not None:
            answer = subprocess.run([self._path, "--version"], capture_output=True, text=True, check=True)
            self.version = answer.stdout.splitlines()[0]

    def __enter__(self) -> Gcc:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def load(self, workload: str, build: str) -> ctypes.CDLL:
        """The library of ``c/WORKLOAD.c`` in one of `BUILDS`; raises `subprocess.CalledProcessError` on a C error."""
        if (workload, build) not in self._loaded:
            assert self._path is not None, "there is no gcc"
            target = Path(self._folder.name) / f"{workload}-{build}.so"
            source = SOURCES / f"{workload}.c"
            flags = [*BUILDS[build], "-Wall", "-Wno-unknown-pragmas", "-shared", "-fPIC"]
            subprocess.run([self._path, *flags, str(source), "-o", str(target), "-lm"], check=True)
            self._loaded[workload, build] = ctypes.CDLL(str(target))
        return self._loaded[workload, build]


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
