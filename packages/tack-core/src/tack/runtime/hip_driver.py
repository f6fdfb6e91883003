"""The HIP runtime and hipRTC through ctypes, as ROCm installs them."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
from ctypes import c_char_p, c_int, c_void_p
from typing import ClassVar, Final

from tack.runtime.gpu_driver import GpuDriver, GpuError, first_library
from tack.runtime.run_time_compiler import RunTimeCompiler

# ROCm has hipRTC in a library of its own; Debian's libamdhip64 has it inside.
_HIPRTC: Final = (
    ("libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5")
    if sys.platform != "win32"
    else ("hiprtc0700.dll", "hiprtc0605.dll", "hiprtc0604.dll", "hiprtc0507.dll")
)
_PROPERTIES: Final = ("hipGetDevicePropertiesR0600", "hipGetDeviceProperties")
_PROPERTIES_ROOM: Final = 1 << 16  # the structure has 0.8 kB in ROCm 5 and 1.5 kB in ROCm 6
_ARCHITECTURE: Final = re.compile(rb"gfx[0-9a-f]+(?::[a-z-]+[+-])*")


class HipError(GpuError):
    """The HIP runtime or hipRTC refused something; the message has its words."""


class HipDriver(GpuDriver):
    """libamdhip64."""

    api = "HIP"
    libraries = (
        ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")
        if sys.platform != "win32"
        else ("amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll")
    )
    error: ClassVar[type[GpuError]] = HipError
    # A grid has less than 2**32 threads; a workgroup has up to 1024.
    most_groups: ClassVar[int] = (2**32 - 1) // 1024
    names: ClassVar[dict[str, str]] = {
        "init": "hipInit",
        "device_count": "hipGetDeviceCount",
        "device_get": "hipDeviceGet",
        "device_name": "hipDeviceGetName",
        "device_attribute": "hipDeviceGetAttribute",
        "set_current": "hipSetDevice",
        "default_pool": "hipDeviceGetDefaultMemPool",
        "pool_set": "hipMemPoolSetAttribute",
        "allocate": "hipMallocAsync",
        "free": "hipFreeAsync",
        "host_allocate": "hipHostMalloc",
        "host_free": "hipHostFree",
        "fill8": "hipMemsetD8Async",
        "fill16": "hipMemsetD16Async",
        "fill32": "hipMemsetD32Async",
        "upload": "hipMemcpyHtoDAsync",
        "download": "hipMemcpyDtoHAsync",
        "copy": "hipMemcpyDtoDAsync",
        "stream_create": "hipStreamCreateWithFlags",
        "stream_wait": "hipStreamSynchronize",
        "stream_wait_event": "hipStreamWaitEvent",
        "event_create": "hipEventCreateWithFlags",
        "event_record": "hipEventRecord",
        "event_wait": "hipEventSynchronize",
        "event_elapsed": "hipEventElapsedTime",
        "event_destroy": "hipEventDestroy",
        "module_load": "hipModuleLoadData",
        "module_unload": "hipModuleUnload",
        "module_function": "hipModuleGetFunction",
        "launch": "hipModuleLaunchKernel",
    }

    def texts(self, code: int) -> tuple[str, str]:
        found = []
        for name in ("hipGetErrorName", "hipGetErrorString"):
            function = getattr(self._library, name)
            function.argtypes, function.restype = (c_int,), c_char_p
            found.append((function(code) or b"unknown error").decode())
        return found[0], found[1]

    def context(self, number: int) -> c_void_p:
        """The device's number: a thread has a current device, which `hipSetDevice` takes by number."""
        return c_void_p(number)

    def runtime_version(self) -> int:
        """Of the whole of HIP: 60342133 is 6.3."""
        found = c_int()
        self._library.hipRuntimeGetVersion(ctypes.byref(found))
        return found.value

    def architecture(self, number: int) -> str:
        """What hipRTC calls a device, such as "gfx90a:sramecc+:xnack-"; where the word lies depends on the version."""
        function = next(f for name in _PROPERTIES if (f := getattr(self._library, name, None)) is not None)
        properties = ctypes.create_string_buffer(_PROPERTIES_ROOM)
        function.argtypes = (c_char_p, c_int)
        code = function(properties, number)
        if code:
            raise self.explain(code, function.__name__)
        found = _ARCHITECTURE.search(properties.raw)
        if found is None:
            raise HipError(f"{function.__name__} gives no architecture of device {number}")
        return found[0].decode()


@functools.cache
def driver() -> HipDriver:
    """The driver of this process."""
    return HipDriver()


@functools.cache
def hiprtc() -> RunTimeCompiler:
    """HipRTC.

    Raises
    ------
    HipError
        If there is none.
    """
    for library in (first_library(_HIPRTC), first_library(HipDriver.libraries)):
        if library is not None and hasattr(library, "hiprtcCreateProgram"):
            return RunTimeCompiler(library, "hipRTC", "HIP C", "hiprtc", "Code", HipError)
    raise HipError("no hipRTC, which compiles HIP C: it comes with ROCm (or HIP for Windows)")


def hiprtc_identity() -> str:
    """What tells one hipRTC from another."""
    major, minor = c_int(), c_int()
    hiprtc().library.hiprtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"hiprtc {major.value}.{minor.value} {driver().runtime_version()}"


def device_count() -> int:
    """How many AMD GPUs HIP finds; 0 without a driver, and where the driver finds none."""
    try:
        return driver().count()
    except (HipError, MemoryError):
        return 0
