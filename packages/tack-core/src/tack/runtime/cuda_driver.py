"""The CUDA driver and NVRTC through ctypes."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int
from typing import Any, ClassVar, Final

from tack.runtime.gpu_driver import GpuDriver, GpuError, first_library
from tack.runtime.run_time_compiler import RunTimeCompiler, load_ahead

_NVRTC: Final = ("libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12")


class CudaError(GpuError):
    """The CUDA driver or NVRTC refused something; the message has its words."""


class CudaDriver(GpuDriver):
    """libcuda."""

    api = "CUDA"
    libraries = ("libcuda.so.1", "libcuda.so") if sys.platform != "win32" else ("nvcuda.dll",)
    error: ClassVar[type[GpuError]] = CudaError
    names: ClassVar[dict[str, str]] = {
        "init": "cuInit",
        "device_count": "cuDeviceGetCount",
        "device_get": "cuDeviceGet",
        "device_name": "cuDeviceGetName",
        "device_attribute": "cuDeviceGetAttribute",
        "retain_context": "cuDevicePrimaryCtxRetain",
        "set_current": "cuCtxSetCurrent",
        "default_pool": "cuDeviceGetDefaultMemPool",
        "pool_set": "cuMemPoolSetAttribute",
        "allocate": "cuMemAllocAsync",
        "free": "cuMemFreeAsync",
        "host_allocate": "cuMemHostAlloc",
        "host_free": "cuMemFreeHost",
        "fill8": "cuMemsetD8Async",
        "fill16": "cuMemsetD16Async",
        "fill32": "cuMemsetD32Async",
        "upload": "cuMemcpyHtoDAsync_v2",
        "download": "cuMemcpyDtoHAsync_v2",
        "copy": "cuMemcpyDtoDAsync_v2",
        "stream_create": "cuStreamCreate",
        "stream_wait": "cuStreamSynchronize",
        "stream_wait_event": "cuStreamWaitEvent",
        "event_create": "cuEventCreate",
        "event_record": "cuEventRecord",
        "event_wait": "cuEventSynchronize",
        "event_elapsed": "cuEventElapsedTime",
        "event_destroy": "cuEventDestroy_v2",
        "module_load": "cuModuleLoadData",
        "module_unload": "cuModuleUnload",
        "module_function": "cuModuleGetFunction",
        "launch": "cuLaunchKernel",
    }

    def texts(self, code: int) -> tuple[str, str]:
        found = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            function, text = getattr(self._library, name), c_char_p()
            function.argtypes = (c_int, POINTER(c_char_p))
            function(code, byref(text))
            found.append((text.value or b"unknown error").decode())
        return found[0], found[1]


@functools.cache
def driver() -> CudaDriver:
    """The driver of this process."""
    return CudaDriver()


def _packaged_nvrtc() -> list[str]:
    """The libraries of the PyPI package, the newest first."""
    spec = importlib.util.find_spec("nvidia")
    found = []
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        for part in (*sorted((p for p in os.listdir(place) if p.startswith("cu1")), reverse=True), "cuda_nvrtc"):
            folder = os.path.join(place, part, "lib")
            names = os.listdir(folder) if os.path.isdir(folder) else []
            found += [os.path.join(folder, n) for n in sorted(names, reverse=True) if n.startswith("libnvrtc.so.")]
    return found


@functools.cache
def nvrtc() -> Any:
    """NVRTC's library: from the PyPI package if it is installed, else from the system.

    Raises
    ------
    CudaError
        If there is none; the message says what to install.
    """
    library = first_library((*_packaged_nvrtc(), *_NVRTC))
    if library is None:
        raise CudaError("no NVRTC, which compiles CUDA C: pip install tack-core[cuda]")
    return library


@functools.cache
def load_nvrtc_ahead() -> None:
    """Let NVRTC's library be loaded meanwhile, the first time."""
    load_ahead((*_packaged_nvrtc(), *_NVRTC))


@functools.cache
def nvrtc_identity() -> str:
    """What tells one NVRTC from another without loading it, which takes 10 ms: the file, or that it is the system's."""
    for name in _packaged_nvrtc():
        info = os.stat(name)
        return f"{name} {info.st_size} {info.st_mtime_ns}"
    return "system"


def compile_cubin(source: str, name: str, architecture: str, options: tuple[str, ...]) -> bytes:
    """Machine code of CUDA C for a real architecture such as "sm_90".

    Raises
    ------
    CudaError
        If NVRTC rejects the text; the message has its words and the numbered text.
    """
    compiler = RunTimeCompiler(nvrtc(), "NVRTC", "CUDA C", "nvrtc", "CUBIN", CudaError)
    return compiler.compile(source, name, (f"--gpu-architecture={architecture}", *options))


def device_count() -> int:
    """How many NVIDIA GPUs this machine has; 0 without a driver."""
    try:
        return driver().count()
    except (CudaError, MemoryError):
        return 0
