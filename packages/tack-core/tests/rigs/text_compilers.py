"""Compilers of the vendors, and stand-ins for them, that say whether generated text is accepted; none needs a device.

Each door is a function of the text that raises `Rejected` with the compiler's words, and `missing(name)` gives the
reason why a compiler cannot be used here, for a skip. What can take a process down runs in one of its own.
"""

from __future__ import annotations

import base64
import ctypes
import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import util
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CLANG = "clang-19"
CUDA_OPTIONS = ("--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17")
HIP_OPTIONS = ("-ffp-contract=on",)
OPENCL_OPTIONS = ("-cl-fp32-correctly-rounded-divide-sqrt",)
_HIP_LIBRARIES = ("libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5")


class Rejected(AssertionError):
    """A compiler did not accept the text."""


@functools.cache
def missing(name: str) -> str | None:
    """Why "nvrtc", "hiprtc", "ocloc", "spirv-val" or "clang" cannot be used; None if it can."""
    if name == "nvrtc":
        return None if _nvrtc_path() else "no NVRTC (pip install nvidia-cuda-nvrtc)"
    if name == "hiprtc":
        found = any(loads(library) for library in _HIP_LIBRARIES)
        return None if found else "no hipRTC (Debian: libamdhip64-5)"
    if name == "ocloc":
        return None if loads("libocloc.so") else "no ocloc (Debian: intel-opencl-icd)"
    if name == "spirv-val":
        return None if shutil.which("spirv-val") else "no spirv-val (Debian: spirv-tools)"
    return None if shutil.which(CLANG) else f"no {CLANG}"


def loads(library: str) -> bool:
    """Whether a library is there, found without running its code in this process."""
    script = f"import ctypes; ctypes.CDLL({library!r})"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, check=False).returncode == 0


# ---------------------------------------------------------------------------------------------------------------- CUDA


def _nvrtc_path() -> Path | None:
    spec = util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    # Its builtins lie beside it; beside the rig's there are none.
    found = [path for place in places for path in Path(place).glob("*/lib/libnvrtc*.so.*")]
    real = {path.parent for path in found if "builtins" in path.name}
    return next((path for path in found if "builtins" not in path.name and path.parent in real), None)


@functools.cache
def _nvrtc() -> Any:
    return ctypes.CDLL(str(_nvrtc_path()))


def compile_cuda(text: str, architecture: str) -> tuple[str, bytes]:
    """PTX and cubin of CUDA C for a real architecture such as ``sm_90``, with the project's own options."""
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"text.cu", 0, None, None) == 0
    options = [f"--gpu-architecture={architecture}", *CUDA_OPTIONS]
    array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    try:
        if status != 0:
            raise Rejected(_nvrtc_output(nvrtc, program, "ProgramLog").decode() + text)
        return _nvrtc_output(nvrtc, program, "PTX").rstrip(b"\0").decode(), _nvrtc_output(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _nvrtc_output(nvrtc: Any, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
    data = ctypes.create_string_buffer(size.value)
    assert getattr(nvrtc, f"nvrtcGet{what}")(program, data) == 0
    return data.raw


# ------------------------------------------------------------------------------------------- in a process of their own


def _in_subprocess(function: str, **arguments: Any) -> bytes:
    """Call a function of this file in another process; its bytes."""
    script = f"import sys; sys.path.insert(0, {str(HERE)!r}); import text_compilers; text_compilers.serve()"
    request = json.dumps({"function": function, "arguments": arguments})
    done = subprocess.run([sys.executable, "-c", script], input=request, capture_output=True, text=True, check=False)
    marked = [line for line in done.stdout.splitlines() if line.startswith("result:")]
    if done.returncode != 0 or not marked:
        raise Rejected(f"{done.stdout[-4000:]}{done.stderr[-4000:]}\n{arguments.get('text', '')}")
    return base64.b64decode(marked[-1].removeprefix("result:"))


def serve() -> None:
    """The other process: one request from standard input."""
    request = json.load(sys.stdin)
    result = {"hiprtc": _hiprtc, "ocloc": _ocloc}[request["function"]](**request["arguments"])
    print("result:" + base64.b64encode(result).decode())


def compile_hip(text: str, architecture: str = "gfx90a") -> bytes:
    """A code object of HIP C through hipRTC; 5.2 takes the process down for newer architectures than gfx90a."""
    return _in_subprocess("hiprtc", text=text, architecture=architecture)


def _hiprtc(text: str, architecture: str) -> bytes:
    library = next(name for name in _HIP_LIBRARIES if loads(name))
    hip, program, size = ctypes.CDLL(library), ctypes.c_void_p(), ctypes.c_size_t()
    assert hip.hiprtcCreateProgram(ctypes.byref(program), text.encode(), b"text.hip", 0, None, None) == 0
    options = [f"--offload-arch={architecture}", *HIP_OPTIONS]
    array = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    status = hip.hiprtcCompileProgram(program, len(options), array)
    what = "ProgramLog" if status else "Code"
    getattr(hip, f"hiprtcGet{what}Size")(program, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value + 1)
    getattr(hip, f"hiprtcGet{what}")(program, data)
    if status:
        raise Rejected(data.value.decode())
    return data.raw[: size.value]


def compile_opencl(text: str, standard: str = "CL1.2", device: str = "pvc", *, binary: bool = False) -> bytes:
    """SPIR-V of OpenCL C through Intel's ocloc, or the device's machine code."""
    return _in_subprocess("ocloc", text=text, standard=standard, device=device, binary=binary)


def _ocloc(text: str, standard: str, device: str, binary: bool) -> bytes:
    options = " ".join([f"-cl-std={standard}", *OPENCL_OPTIONS])
    words = ["ocloc", "compile", "-file", "text.cl", "-device", device, "-options", options]
    words += [] if binary else ["-spv_only"]
    u8 = ctypes.POINTER(ctypes.c_uint8)
    source = ctypes.create_string_buffer(text.encode())
    outputs, data = ctypes.c_uint32(), ctypes.POINTER(u8)()
    sizes, names = ctypes.POINTER(ctypes.c_uint64)(), ctypes.POINTER(ctypes.c_char_p)()
    status = ctypes.CDLL("libocloc.so").oclocInvoke(
        ctypes.c_uint(len(words)),
        (ctypes.c_char_p * len(words))(*(w.encode() for w in words)),
        ctypes.c_uint32(1),
        (u8 * 1)(ctypes.cast(source, u8)),
        (ctypes.c_uint64 * 1)(len(source)),
        (ctypes.c_char_p * 1)(b"text.cl"),
        ctypes.c_uint32(0),
        *(None,) * 3,
        *map(ctypes.byref, (outputs, data, sizes, names)),
    )
    files = {names[i].decode(): ctypes.string_at(data[i], sizes[i]) for i in range(outputs.value)}
    made = [content for name, content in files.items() if name.endswith(".bin" if binary else ".spv")]
    if status or not made:
        raise Rejected("\n".join(content.decode(errors="replace") for content in files.values()))
    return made[0]


def validate_spirv(spirv: bytes) -> None:
    """Khronos' validator on a module."""
    with tempfile.NamedTemporaryFile(suffix=".spv") as file:
        file.write(spirv)
        file.flush()
        _run(["spirv-val", "--target-env", "spv1.4", file.name])


# --------------------------------------------------------------------------------------------------------------- clang


_SHARED_ARRAY = re.compile(r"^( +)(?=(?:__local|threadgroup) [^*\n]*\[\d+\];$)", re.MULTILINE)


def static_arrays(text: str) -> str:
    """For compilers of C++: ``static`` before each shared array, not before pointers, whose qualifiers are the same."""
    return _SHARED_ARRAY.sub(r"\1static ", text)


def compile_metal(text: str) -> str:
    """LLVM IR of Metal's language by clang, through a stand-in for its library with checked address spaces."""
    folder = str(HERE / "metal_spaces")
    # A user's program may compare a value with itself.
    quiet = ["-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-tautological-compare"]
    flags = ["-x", "c++", "-std=c++14", f"-I{folder}", *quiet]
    return _run([CLANG, *flags, "-nostdinc", "-Werror", "-S", "-emit-llvm", "-O1", "-o", "-", "-"], static_arrays(text))


def compile_hip_clang(text: str, architecture: str) -> str:
    """LLVM IR of HIP C by clang, for architectures that hipRTC 5.2 does not know; `hip_device.h` has HIP's words."""
    flags = ["-x", "hip", f"--offload-arch={architecture}", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-O3"]
    shim = ["-include", str(HERE / "hip_device.h")]
    return _run([CLANG, *flags, *shim, *HIP_OPTIONS, "-S", "-emit-llvm", "-o", "-", "-"], text)


def _run(command: Sequence[str], text: str = "") -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Rejected(f"{done.stderr[:4000]}\n{text}")
    return done.stdout
