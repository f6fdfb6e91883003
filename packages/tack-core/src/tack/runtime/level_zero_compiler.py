"""OpenCL C to SPIR-V by Intel's offline compiler, libocloc, through ctypes: no file is read or written."""

from __future__ import annotations

import ctypes
import functools
import threading
from ctypes import POINTER, byref, c_char_p, c_int32, c_uint8, c_uint32, c_uint64
from typing import Any, Final

from tack.runtime.level_zero_driver import LevelZeroError

_LIBRARIES: Final = ("libocloc.so", "libocloc.so.1", "ocloc64.dll")
_SPIRV_MAGIC: Final = (0x07230203).to_bytes(4, "little")
_BYTES: Any = POINTER(c_uint8)
_lock = threading.RLock()  # the compiler does not say that threads may call it at once; a finalizer may compile, too


@functools.cache
def _library() -> Any:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            library.oclocInvoke.restype = library.oclocFreeOutput.restype = c_int32
            return library
        except (OSError, AttributeError):
            continue
    raise LevelZeroError(
        f"no {_LIBRARIES[0]}, which compiles kernels for Level Zero; Debian and Ubuntu: apt install intel-opencl-icd "
        "(or intel-ocloc)"
    )


def compile_spirv(source: str, name: str, device_id: int, options: tuple[str, ...]) -> bytes:
    """SPIR-V of OpenCL C.

    Parameters
    ----------
    source
        The text.
    name
        Of the kernel, for messages.
    device_id
        The device's PCI number, which decides the extensions that the text may use.
    options
        OpenCL C's own options.

    Raises
    ------
    LevelZeroError
        If there is no compiler, or it rejects the text; the message has its words and the numbered text.
    """
    words = ["ocloc", "compile", "-file", "kernel.cl", "-device", f"{device_id:#06x}", "-spv_only"]
    words += ["-options", " ".join(options)]
    with _lock:
        status, files = _invoke(words, "kernel.cl", source.encode())
    spirv = next((data for file, data in files.items() if file.endswith(".spv")), b"")
    if status == 0 and is_spirv(spirv):
        return spirv
    log = "\n".join(data.decode(errors="replace") for file, data in files.items() if file.endswith(".log"))
    raise LevelZeroError(f"kernel `{name}`: ocloc cannot compile its OpenCL C ({status})\n{log}\n{numbered(source)}")


def is_spirv(data: bytes) -> bool:
    """Whether bytes begin as a SPIR-V module of this byte order does, and are whole words."""
    return data[:4] == _SPIRV_MAGIC and len(data) % 4 == 0 and len(data) > 5 * 4


def numbered(source: str) -> str:
    """A text with the numbers of its lines."""
    return "\n".join(f"{number:5d}  {line}" for number, line in enumerate(source.splitlines(), 1))


def _invoke(words: list[str], file: str, content: bytes) -> tuple[int, dict[str, bytes]]:
    """Run the compiler on one file in memory: its status, and the files that it would have written."""
    library, text = _library(), ctypes.create_string_buffer(content)
    count, names = c_uint32(), POINTER(c_char_p)()
    data, sizes = POINTER(_BYTES)(), POINTER(c_uint64)()
    outputs = tuple(map(byref, (count, data, sizes, names)))
    status = library.oclocInvoke(
        c_uint32(len(words)),
        (c_char_p * len(words))(*(word.encode() for word in words)),
        c_uint32(1),
        (_BYTES * 1)(ctypes.cast(text, _BYTES)),
        (c_uint64 * 1)(len(text)),
        (c_char_p * 1)(file.encode()),
        c_uint32(0),
        None,
        None,
        None,
        *outputs,
    )
    found = {
        (names[i] or b"").decode(errors="replace"): ctypes.string_at(data[i], sizes[i]) for i in range(count.value)
    }
    library.oclocFreeOutput(*outputs)
    return status, found
