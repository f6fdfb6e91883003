"""Generated C of every dialect, run on the host: compiled with the shims of `c_host/`, on NumPy memory.

One thread runs at a time and nothing is left to chance, so a wrong number is the generator's. Undefined behaviour is
reported by the compiler's sanitizer to handlers of ours, and fails the run.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rigs.text_compilers import static_arrays
from tack.codegen import launch_plan as plans
from tack.codegen.c_family import CFamilyCodeGen, CFamilyOptions
from tack.codegen.cuda_gen import CUDACodeGen
from tack.codegen.hip_gen import HIPCodeGen
from tack.codegen.launch_plan import KernelParameter, KernelPlan, LaunchPlan
from tack.codegen.msl_gen import MSLCodeGen
from tack.codegen.opencl_gen import OpenCLCodeGen
from tack.lang.ast_transform import lower_kernel
from tack.lang.ir import IRKernel
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.ir_verify import verify_typed
from tack.lang.type_inference import infer_param_types
from tack.lang.types import Scalar, convert_value
from tack.lang.workgroup_verify import verify_workgroups
from tack.lang.workgroups import split_workgroups
from tack.runtime.launch_ranges import LoopSpace, loop_space

SHIMS = Path(__file__).parent / "c_host"
DIALECTS: dict[str, type[CFamilyCodeGen]] = {
    "cuda": CUDACodeGen,
    "hip": HIPCodeGen,
    "metal": MSLCodeGen,
    "opencl": OpenCLCodeGen,
}
_SHIM = {"cuda": "cuda.h", "hip": "cuda.h", "metal": "metal.h", "opencl": "opencl.h"}
_FLAGS = (
    "-std=c++17 -O1 -fPIC -w -fno-math-errno -fsanitize=undefined,float-cast-overflow -fvisibility=hidden"
).split()
# As NVRTC's --fmad=true does: across statements too. GCC makes the instruction in a pass that -O1 leaves out.
_CONTRACTION = {"cuda": ("-ffp-contract=fast", "-fexpensive-optimizations")}


@functools.cache
def compiler() -> str | None:
    """The host's C++ compiler, or None."""
    return shutil.which("g++")


ASAN = "TACK_TEST_ASAN"
"""Set in a process that has the address sanitizer preloaded: generated code is then compiled with it."""


@functools.cache
def sanitizer_library() -> str:
    """The path of g++'s address sanitizer, or nothing."""
    command = [compiler() or "g++", "-print-file-name=libasan.so"]
    path = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return path if Path(path).is_absolute() else ""


@functools.cache
def has_fma() -> bool:
    """Whether the processor has the instruction that contraction makes."""
    try:
        return " fma " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tack-host-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class UndefinedBehaviour(AssertionError):
    """The sanitizer found some in generated code."""


def type_for(kernel: Any, args: tuple[Any, ...]) -> IRKernel:
    """Typed and verified IR of a kernel for arguments or types, its workgroups split."""
    untyped = lower_kernel(kernel.source, kernel.group).ir
    typed = annotate_types(untyped, infer_param_types(untyped, args))
    verify_typed(typed)
    split = split_workgroups(typed)
    verify_workgroups(split)
    return split


def generate(
    dialect: str, typed: IRKernel, options: CFamilyOptions | None = None, generator: type[CFamilyCodeGen] | None = None
) -> tuple[str, LaunchPlan]:
    """Text and plan of a kernel in a dialect."""
    made = (generator or DIALECTS[dialect])(typed, options)
    return made.source(), made.plan


def run_on_host(
    dialect: str,
    kernel: Any,
    *args: Any,
    options: CFamilyOptions | None = None,
    generator: type[CFamilyCodeGen] | None = None,
) -> Any:
    """Call a kernel through a dialect's text on the host.

    Parameters
    ----------
    dialect
        "cuda", "hip", "metal" or "opencl".
    kernel
        A Tack kernel, or typed IR.
    *args
        C-contiguous NumPy arrays, which are written in place, and numbers.
    options, generator
        Instead of the dialect's own.

    Returns
    -------
    int or float or None
        What the kernel returns.

    Raises
    ------
    UndefinedBehaviour
        If generated code has some.
    """
    typed = kernel if isinstance(kernel, IRKernel) else type_for(kernel, args)
    text, plan = generate(dialect, typed, options, generator)
    library = build(dialect, text, plan)
    return Launcher(library, typed, plan, args, text).call()


def build(dialect: str, text: str, plan: LaunchPlan) -> ctypes.CDLL:
    """Compile generated text into a library, or find it among those of this process."""
    kernels = [*plan.loops, *([plan.result] if plan.result else [])]
    exports = "".join(f"RIG_EXPORT({k.name}, {_count(k, plan.packed)})\n" for k in kernels)
    source = f'#include "{_SHIM[dialect]}"\n#line 1 "generated"\n{static_arrays(text)}\n#line 1 "rig"\n{exports}'
    flags = [*_FLAGS, f"-I{SHIMS}"]
    if dialect == "metal":
        flags.append(f"-I{SHIMS / 'metal'}")
    flags += _CONTRACTION.get(dialect, ("-ffp-contract=off",))
    if ASAN in os.environ:
        flags.append("-fsanitize=address")
    if has_fma():
        flags.append("-mfma")
    return _compile(source, (f"-I{_precompiled(_SHIM[dialect], tuple(flags))}", *flags))


@functools.cache
def _precompiled(shim: str, flags: tuple[str, ...]) -> Path:
    """A folder with a precompiled shim, which the compiler takes instead of the shim itself: half of its time."""
    folder = _folder() / _digest(shim, *flags)
    folder.mkdir()
    _run_compiler("-x", "c++-header", *flags, "-o", str(folder / f"{shim}.gch"), str(SHIMS / shim))
    return folder


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


def _run_compiler(*arguments: str, source: str = "") -> None:
    command = compiler()
    assert command is not None, "no C++ compiler"
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr[:4000]}\n{source}"


@functools.cache
def _compile(source: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    name = _digest(source, *flags)
    path, library = _folder() / f"{name}.cpp", _folder() / f"{name}.so"
    path.write_text(source, encoding="utf-8")
    _run_compiler("-shared", *flags, "-o", str(library), str(path), source=source)
    return ctypes.CDLL(str(library))


def _count(kernel: KernelPlan, packed: bool) -> int:
    return min(1, len(kernel.parameters)) if packed else len(kernel.parameters)


class Launcher:
    """One call: what its parameters are, and the launches of its kernels."""

    def __init__(
        self, library: ctypes.CDLL, typed: IRKernel, plan: LaunchPlan, args: tuple[Any, ...], text: str
    ) -> None:
        self.library, self.typed, self.plan, self.args, self.text = library, typed, plan, args, text
        self.waits = any(generator.dialect.barrier in text for generator in DIALECTS.values())
        self.shapes = [a.shape if isinstance(a, np.ndarray) else () for a in args]
        self.scalars = [0 if isinstance(a, np.ndarray) else self._scalar(i, a) for i, a in enumerate(args)]
        self.result = np.zeros(1, typed.results[0].numpy) if typed.results else None

    def _scalar(self, position: int, value: Any) -> Any:
        dtype: Any = self.typed.params[position].type
        return convert_value(value.value if isinstance(value, Scalar) else value, dtype)

    def call(self) -> Any:
        for kernel in self.plan.loops:
            space = loop_space(kernel.ranges, self.scalars, self.shapes)
            self.launch(kernel, space, 0, space.total)
        if self.plan.result is None:
            return None
        self.launch(self.plan.result, None, 0, 1)
        assert self.result is not None
        return self.result[0].item()

    def launch(self, kernel: KernelPlan, space: LoopSpace | None, first: int, stop: int) -> None:
        """Launch iterations ``first <= flat < stop``, in whole groups."""
        groups = -(-(stop - first) // (kernel.group * kernel.each))
        values = [(p, self._value(p, space, first, stop)) for p in kernel.parameters]
        held = [_structure(values)] if self.plan.packed and values else [value for _, value in values]
        pointers = (ctypes.c_void_p * max(1, len(held)))(*(v.ctypes.data for v in held))
        reports = ctypes.c_uint.in_dll(self.library, "rig_reports")
        reports.value = 0
        getattr(self.library, f"rig_{kernel.name}")(pointers, groups, kernel.group, int(self.waits))
        if reports.value:
            what = ctypes.c_char_p.in_dll(self.library, "rig_first_report").value or b""
            line = ctypes.c_uint.in_dll(self.library, "rig_first_line").value
            shown = self.text.splitlines()[line - 1] if 0 < line <= self.text.count("\n") else ""
            raise UndefinedBehaviour(f"{what.decode()} at line {line} of the text: {shown}")

    def _value(self, p: KernelParameter, space: LoopSpace | None, first: int, stop: int) -> np.ndarray[Any, Any]:
        """The parameter's value in memory of its own; of an address, the address."""
        if p.kind == plans.ARRAY:
            return np.array([self.args[p.position].ctypes.data], np.uint64)
        if p.kind == plans.RESULT:
            assert self.result is not None
            return np.array([self.result.ctypes.data], np.uint64)
        number: Any
        if p.kind == plans.EXTENT:
            number = self.shapes[p.position][p.axis]
        elif p.kind == plans.SCALAR:
            number = self.scalars[p.position]
        elif p.kind in (plans.FIRST, plans.STOP):
            number = first if p.kind == plans.FIRST else stop
        else:
            assert space is not None
            number = {plans.START: space.starts, plans.STEP: space.steps, plans.TRIPS: space.trips}[p.kind][p.axis]
        return np.array([number], p.dtype.numpy)


def _structure(values: list[tuple[KernelParameter, np.ndarray[Any, Any]]]) -> np.ndarray[Any, Any]:
    """The fields of a structure in natural alignment, which the order of a plan makes dense."""
    data = b"".join(value.tobytes() for _, value in values)
    return np.frombuffer(data + bytes(-len(data) % 8), np.uint8)
