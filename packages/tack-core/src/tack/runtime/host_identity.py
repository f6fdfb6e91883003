"""What code made by this Tack on this machine depends on, without asking LLVM: that would mean to load it."""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import sys
from typing import Final

from tack.lang import LOADED
from tack.lang.loading import find_package
from tack.runtime.digests import hexdigest
from tack.runtime.disk_cache import cache

_CLOCK_STEP: Final = 20_000_000  # nanoseconds: how far the time of a change may lag behind the clock

# The lines of /proc/cpuinfo that tell processors and what they can do apart, on x86 and on arm.
_CPU_FIELDS = frozenset(
    (
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
    )
)
_CPU_INFO_BYTES = 1 << 14  # a few processors' worth: the text of all takes milliseconds on a large machine


Stamp = tuple[str, int, int, int, int, int]
"""What the system says of a file: path, size, times of writing and of any change, inode, device."""


@functools.cache
def tack_digest() -> str | None:
    """A digest of all of Tack's sources; None where there are no files, or where they changed under this process.

    They are read once, as that takes longer than all else of a call from the disk: the digest is kept in the disk cache
    under what the system says of the files. That includes the time of the last change of any kind, which no program can
    set, so a file with other content under the same name, size and time of writing is noticed.
    """
    stamps = _stamps()
    if not stamps or max(changed for _, _, _, changed, _, _ in stamps) >= LOADED - _CLOCK_STEP:
        return None
    store, name = cache(), hexdigest(marshal.dumps(stamps, 2))  # of this format equal values have equal bytes
    known = None if store is None else store.get(name)
    if known is None:
        known = _content(stamps).encode()
        if store is not None:
            store.put(name, known)
    _stamped.update((stamp[0], stamp) for stamp in stamps)
    _loaded_before.update(name for name in list(sys.modules) if name.startswith(_PREFIX))
    return known.decode()


def sources_have_changed() -> bool:
    """Whether a module that was loaded since `tack_digest` may be of another file than that read: of another Tack.

    Those loaded before are of the same files, since these were written before the first of them was loaded.
    """
    names = [name for name in list(sys.modules) if name.startswith(_PREFIX) and name not in _loaded_before]
    return not _stamped or not all(map(_is_as_stamped, names))


def _is_as_stamped(name: str) -> bool:
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None) or ""
    try:
        return module is None or _stamp(path, os.stat(path)) == _stamped.get(path)
    except OSError:
        return False


_PREFIX: Final = "tack."
_stamped: dict[str, Stamp] = {}
_loaded_before: set[str] = set()


def _stamp(path: str, info: os.stat_result) -> Stamp:
    return path, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev


def _stamps() -> list[Stamp]:
    """Every source file of the package, in order."""
    found, folders = list[Stamp](), [os.path.dirname(os.path.dirname(__file__))]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as files:
            for file in files:
                if file.name.endswith(".py"):
                    found.append(_stamp(file.path, file.stat()))
                elif file.name.isidentifier() and file.name != "__pycache__" and file.is_dir():
                    folders.append(file.path)
    return sorted(found)


def _content(stamps: list[Stamp]) -> str:
    root = os.path.dirname(os.path.dirname(__file__))
    parts = []
    for path, *_ in stamps:
        with open(path, "rb", buffering=0) as file:
            parts.append((os.path.relpath(path, root), file.read().decode(errors="surrogateescape")))
    return hexdigest(repr(parts))


@functools.cache
def code_target() -> str | None:
    """The processor, its features, the system and the LLVM of this process in one string; None if they are not known.

    LLVM's own names for the first two follow from what is used here.
    """
    cpu, llvm = cpu_identity(), llvm_identity()
    if cpu is None or llvm is None:
        return None
    return f"{sys.platform} {sys.byteorder} {_machine()} {cpu} {llvm} {cache_bytes()}"


@functools.cache
def cache_bytes(root: str = "/sys/devices/system/cpu/cpu0/cache") -> int:
    """What the last-level caches of this machine hold together; 0 if that is not known."""
    for level in (3, 2):
        with contextlib.suppress(OSError, ValueError):
            kilobytes = int(_line(f"{root}/index{level}/size").removesuffix("K"))
            sharing = sum(map(_cpus, _line(f"{root}/index{level}/shared_cpu_list").split(",")))
            return (kilobytes << 10) * -(-(os.cpu_count() or 1) // sharing)
    return 0


def _line(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return file.read(1 << 12).decode().strip()


def _cpus(text: str) -> int:
    """How many a range as "0-3" or "5" has."""
    first, _, last = text.partition("-")
    return int(last or first) - int(first) + 1


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
    spec = find_package("llvmlite")
    if spec is None or spec.origin is None:
        return None
    root = os.path.dirname(spec.origin)
    libraries = os.path.join(root, "binding")
    files, found = [], list[object]()
    with contextlib.suppress(OSError), open(os.path.join(root, "_version.py"), "rb", buffering=0) as version:
        found.append(version.read())
    with contextlib.suppress(OSError):
        files = [os.path.join(libraries, n) for n in sorted(os.listdir(libraries)) if "llvmlite." in n]
    for file in files:
        with contextlib.suppress(OSError):
            info = os.stat(file)
            found.append((os.path.basename(file), info.st_size, info.st_mtime_ns))
    return hexdigest(repr(found)) if found else None


def _machine() -> str:
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
