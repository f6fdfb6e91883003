"""What code made by this Tack on this machine depends on, without asking LLVM: that would mean to load it."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator

from tack.runtime.digests import hexdigest

# The lines of /proc/cpuinfo that tell processors and what they can do apart, on x86 and on arm.
_CPU_FIELDS = frozenset(
    (
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
    )
)
_CPU_INFO_BYTES = 1 << 14  # a few processors' worth: the text of all takes milliseconds on a large machine


@functools.cache
def tack_digest() -> str | None:
    """A digest that another version or another state of Tack's sources does not have; None where it has no files.

    Of each file the name, the size and the time of its last change count: reading them all would take milliseconds.
    """
    root = os.path.dirname(os.path.dirname(__file__))
    if not os.path.isdir(root):
        return None
    found = [
        (os.path.relpath(file.path, root), info.st_size, info.st_mtime_ns)
        for folder in (root, *(os.path.join(root, name) for name in ("lang", "codegen", "runtime")))
        for file, info in _sources(folder)
    ]
    return hexdigest(repr(sorted(found)))


def _sources(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith(".py"):
                yield file, file.stat()


@functools.cache
def code_target() -> str | None:
    """The processor, its features, the system and the LLVM of this process in one string; None if they are not known.

    LLVM's own names for the first two follow from what is used here.
    """
    cpu, llvm = cpu_identity(), llvm_identity()
    if cpu is None or llvm is None:
        return None
    return f"{sys.platform} {sys.byteorder} {_machine()} {cpu} {llvm}"


def cpu_identity(path: str = "/proc/cpuinfo") -> str | None:
    """A digest of the processor's model and features."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = file.read(_CPU_INFO_BYTES).decode(errors="replace")
    except OSError:
        return None
    whole = text.split("\n")[:-1]  # the last line may be cut
    pairs = {(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in whole)}
    known = sorted(pair for pair in pairs if pair[0] in _CPU_FIELDS)
    if not any(name in ("flags", "Features") for name, _ in known):
        return None
    return hexdigest(repr(known))


def llvm_identity() -> str | None:
    """The version of llvmlite, and the file of the library itself; None if there is no llvmlite."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    root = os.path.dirname(spec.origin)
    libraries = os.path.join(root, "binding")
    files = [os.path.join(root, "_version.py")]
    with contextlib.suppress(OSError):
        files += [os.path.join(libraries, n) for n in sorted(os.listdir(libraries)) if "llvmlite." in n]
    found = []
    for file in files:
        with contextlib.suppress(OSError):
            info = os.stat(file)
            found.append((os.path.basename(file), info.st_size, info.st_mtime_ns))
    return hexdigest(repr(found)) if found else None


def _machine() -> str:
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
