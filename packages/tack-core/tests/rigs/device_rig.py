"""Device rigs: stand-ins for vendors' runtimes that really execute, so that the unchanged backends run the rule suite.

The C of `c_device/` is compiled once for a test run and loaded before Tack looks for a driver: the dynamic loader gives
a library that is there already to whoever asks for its SONAME. Where the machine has the hardware there is no rig.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from importlib import util
from pathlib import Path
from typing import Any

from rigs import host_compile
from rigs.text_compilers import Rejected

SOURCES = Path(__file__).parent / "c_device"
# Source, file, and what shows that the machine has the hardware.
_LIBRARIES = {
    "cuda": (("cuda.c", "libcuda.so.1"), ("nvrtc.c", "nvidia/cu13/lib/libnvrtc.so.13")),
    "hip": (("hip.c", "libamdhip64.so"), ("hiprtc.c", "libhiprtc.so")),
    "level_zero": (("level_zero.c", "libze_loader.so.1"), ("ocloc.c", "libocloc.so")),
}
_HARDWARE = {"cuda": ("/dev/nvidiactl", "/dev/dxg"), "hip": ("/dev/kfd", "/dev/dxg"), "level_zero": ("/dev/dxg",)}
_INTEL = "0x8086"
KINDS = (*_LIBRARIES, "metal")
"""The kinds of devices that have rigs; that of Metal is `metal_rig`."""

_Compiler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
_Loader = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_loaded: dict[str, ctypes.CDLL] = {}


class Id(ctypes.Structure):
    """`rig_id`."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


@functools.cache
def missing() -> str | None:
    """Why this machine can have no rigs; None if it can."""
    if not sys.platform.startswith("linux"):
        return "device rigs need Linux"
    if host_compile.c_compiler() is None or host_compile.compiler() is None:
        return "device rigs need clang-19, or gcc and g++"
    return None if util.find_spec("llvmlite") else "device rigs need llvmlite"


def has_hardware(kind: str) -> bool:
    """Whether the device files of a kind's real driver are there."""
    if kind == "level_zero" and any(
        p.read_text().strip() == _INTEL for p in Path("/sys/class/drm").glob("renderD*/device/vendor")
    ):
        return True
    return any(os.path.exists(path) for path in _HARDWARE[kind])


def install() -> None:
    """Load the rigs that this machine needs; called once, before Tack looks for drivers."""
    if missing():
        return
    for kind, libraries in _LIBRARIES.items():
        if has_hardware(kind):
            continue
        core()
        for source, name in libraries:
            path = host_compile.build_library(SOURCES / source, name)
            _loaded[name] = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
            if name.startswith("nvidia/"):  # Tack looks for NVRTC among the installed packages first
                sys.path.insert(0, str(path.parents[3]))


def is_rig(device: Any) -> bool:
    """Whether a device is one of ours, or that of `metal_rig`."""
    if device.name == "metal":
        return hasattr(sys.modules.get("Metal"), "SWITCHES")
    libraries = _LIBRARIES.get(device.name.partition(":")[0])
    return libraries is not None and libraries[0][1] in _loaded


def misuse(device: Any) -> str:
    """What a rig has noted, since it was last asked, that the real thing leaves undefined and so would not report."""
    if missing():
        return ""
    undefined = core().rig_undefined
    undefined.restype = ctypes.c_char_p
    found = undefined().decode()
    if is_rig(device) and device.name.partition(":")[0] == "level_zero":
        note = library("level_zero").rig_ze_misuse
        note.restype = ctypes.c_char_p
        found += note().decode()
    return found


def library(kind: str) -> ctypes.CDLL:
    """The driver of a rig, with its switches for tests."""
    return _loaded[_LIBRARIES[kind][0][1]]


@functools.cache
def core() -> ctypes.CDLL:
    """`rig.c`: memory, threads, and the way back to Python's compiler."""
    found = ctypes.CDLL(str(host_compile.build_library(SOURCES / "rig.c", "libtackrig.so")), ctypes.RTLD_GLOBAL)
    found.rig_give.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
    found.rig_allocate.argtypes, found.rig_allocate.restype = (ctypes.c_size_t,), ctypes.c_uint64
    found.rig_free.argtypes = (ctypes.c_uint64,)
    found.rig_room.argtypes, found.rig_room.restype = (ctypes.c_uint64,), ctypes.c_size_t
    found.rig_run.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), Id, Id)
    found.rig_run_alone.argtypes = found.rig_run.argtypes
    found.rig_set_host.argtypes = (_Compiler, _Loader)
    found.rig_set_host(_compile, _load)
    return found


@_Compiler
def _compile(dialect: bytes, text: bytes, out: int) -> int:
    try:
        answer, status = host_compile.compile_object(dialect.decode(), text.decode()), 0
    except Rejected as error:
        answer, status = str(error).encode(), 1
    except Exception as error:  # C has no other way to hear of it
        answer, status = f"the rig's compiler: {error!r}".encode(), 1
    core().rig_give(out, answer, len(answer))
    return status


@_Loader
def _load(image: int, size: int) -> int:
    return host_compile.load(ctypes.string_at(image, size))
