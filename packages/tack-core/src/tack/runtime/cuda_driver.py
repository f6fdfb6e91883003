"""The CUDA driver and NVRTC through ctypes: only the entry points that Tack uses, each with its result checked."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final

_OUT_OF_MEMORY: Final = 2
_DRIVERS: Final = ("libcuda.so.1", "libcuda.so") if sys.platform != "win32" else ("nvcuda.dll",)
_NVRTC: Final = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")

_SIGNATURES: Final[dict[str, tuple[Any, ...]]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuDeviceGetDefaultMemPool": (POINTER(c_void_p), c_int),
    "cuMemPoolSetAttribute": (c_void_p, c_int, c_void_p),
    "cuMemAllocAsync": (POINTER(c_uint64), c_size_t, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamSynchronize": (c_void_p,),
    "cuModuleLoadData": (POINTER(c_void_p), c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, c_void_p, c_void_p),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
}


class CudaError(RuntimeError):
    """The CUDA driver or NVRTC refused something; the message has its words."""


class Driver:
    """The driver's functions by name: ``driver.cuInit(0)`` raises where C would return an error code.

    Raises
    ------
    CudaError
        If there is no driver, or it cannot start.
    """

    def __init__(self) -> None:
        self._library = _first_library(_DRIVERS)
        if self._library is None:
            raise CudaError(f"no CUDA driver: none of {', '.join(_DRIVERS)} can be loaded")
        for name, arguments in _SIGNATURES.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, c_int
        self.cuInit(0)

    def __getattr__(self, name: str) -> Any:
        if name not in _SIGNATURES:
            raise AttributeError(name)
        function = getattr(self._library, name)

        def checked(*arguments: Any) -> None:
            code = function(*arguments)
            if code:
                raise self.error(code, name)

        setattr(self, name, checked)
        return checked

    def address(self, name: str) -> int:
        """Where a function of the driver lies, for native code that calls it."""
        return ctypes.cast(getattr(self._library, name), c_void_p).value or 0

    def error(self, code: int, what: str) -> Exception:
        """The exception of an error code of the driver."""
        texts = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            getattr(self._library, function)(code, byref(text))
            texts.append((text.value or b"unknown error").decode())
        message = f"{what}: {texts[0]} ({texts[1]})"
        return MemoryError(message) if code == _OUT_OF_MEMORY else CudaError(message)


def _first_library(names: tuple[str, ...]) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


@functools.cache
def driver() -> Driver:
    """The driver of this process."""
    return Driver()


@functools.cache
def nvrtc() -> Any:
    """NVRTC's library: from the PyPI package if it is installed, else from the system.

    Raises
    ------
    CudaError
        If there is none; the message says what to install.
    """
    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    packaged = [str(p) for place in places for p in sorted(Path(place).glob("*/lib/libnvrtc.so.*"), reverse=True)]
    library = _first_library((*(p for p in packaged if "builtins" not in p), *_NVRTC))
    if library is None:
        raise CudaError("no NVRTC, which compiles CUDA C: pip install tack-core[cuda]")
    return library


def compile_cubin(source: str, name: str, architecture: str, options: tuple[str, ...]) -> bytes:
    """Machine code of CUDA C for a real architecture such as "sm_90".

    Raises
    ------
    CudaError
        If NVRTC rejects the text; the message has its words and the numbered text.
    """
    library, program = nvrtc(), c_void_p()
    library.nvrtcGetErrorString.restype = c_char_p
    _check_nvrtc(library.nvrtcCreateProgram(byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None))
    try:
        flags = [f"--gpu-architecture={architecture}".encode(), *(o.encode() for o in options)]
        status = library.nvrtcCompileProgram(program, len(flags), (c_char_p * len(flags))(*flags))
        if status:
            log = _nvrtc_bytes(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
            lines = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(source.splitlines(), 1))
            words = log.rstrip(b"\0").decode(errors="replace")
            raise CudaError(f"kernel `{name}`: NVRTC cannot compile its CUDA C\n{words}\n{lines}")
        return _nvrtc_bytes(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    finally:
        library.nvrtcDestroyProgram(byref(program))


def _check_nvrtc(status: int) -> None:
    if status:
        raise CudaError(f"NVRTC: {nvrtc().nvrtcGetErrorString(status).decode()}")


def _nvrtc_bytes(size_of: Any, get: Any, program: c_void_p) -> bytes:
    size = c_size_t()
    _check_nvrtc(size_of(program, byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check_nvrtc(get(program, buffer))
    return buffer.raw


def device_count() -> int:
    """How many NVIDIA GPUs this machine has; 0 without a driver."""
    count = c_int()
    try:
        driver().cuDeviceGetCount(byref(count))
    except CudaError:
        return 0
    return count.value
