"""The disk cache: bytes found by the digest of what they were made from (contract 11, rules CACHE-*).

An entry is used only if it is what this user wrote under this very digest: each carries a code (keyed BLAKE2b) made
with a secret of the user that never leaves the cache's folder. Whatever else is found, truncated, damaged, renamed or
planted, is deleted, and what it stood for is made anew. Nothing here raises because of a disk: a cache that cannot be
read or written is a slower start, no more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import time
from collections.abc import Iterator

from tack.lang.records import record
from tack.runtime.digests import CODE_BYTES, code

FOLDER = "objects-1"  # the number changes with the format, so that versions of Tack do not delete each other's entries
DEFAULT_LIMIT = 256 << 20
_MAGIC = b"TACK\x01\r\n\0"
_KEY_FILE = "key"
_KEY_BYTES = 32
_SUFFIX, _TEMPORARY = ".bin", ".tmp"
_MAX_ENTRY = 64 << 20
_TOUCH_SECONDS = 3600.0  # how exactly "least recently used" is known
_STALE_SECONDS = 3600.0  # a temporary file of this age was left by a process that died
_WRITES_PER_SWEEP = 64
_OWNED = hasattr(os, "geteuid")  # elsewhere the user's folder is private by its place
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def default_directory() -> str:
    """Where this user's caches are: ``TACK_CACHE_DIR``, else the system's place for caches; "" if there is no home."""
    chosen = os.environ.get("TACK_CACHE_DIR", "").strip()
    home = os.path.expanduser("~")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if not os.path.isabs(home):
        return ""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local"), "tack", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "tack")
    base = os.environ.get("XDG_CACHE_HOME", "")
    # A relative one is to be ignored, says the XDG specification.
    return os.path.join(base if os.path.isabs(base) else os.path.join(home, ".cache"), "tack")


def size_limit() -> int:
    """The bytes that the cache may take: ``TACK_CACHE_SIZE`` in MiB, else 256 MiB.

    Raises
    ------
    ValueError
        If ``TACK_CACHE_SIZE`` is not a whole number.
    """
    text = os.environ.get("TACK_CACHE_SIZE", "").strip()
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"TACK_CACHE_SIZE is a whole number of MiB, not {text!r}")
    return int(text) << 20


@record(frozen=True)
class Entry:
    """One file of the cache."""

    path: str
    size: int
    used: float


class DiskCache:
    """A folder of entries that only this user can read or write.

    Parameters
    ----------
    directory
        Where the folder is, or is made at the first write.
    limit
        Bytes; the least recently used entries go when there are more.
    """

    def __init__(self, directory: str, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = os.path.join(directory, FOLDER)
        self.limit = limit

    # ------------------------------------------------------------------------------------------ reading and writing

    def get(self, digest: str) -> bytes | None:
        """What `put` was given for this digest, or None."""
        secret = self._secret()
        if secret is None:
            return None
        path = self._path(digest)
        found = _read(path, _MAX_ENTRY)
        if found is None:
            return None
        data, info = found
        head = len(_MAGIC) + CODE_BYTES
        payload = data[head:]
        if data[:head] != _MAGIC + code(secret, digest, payload) or not _is_ours(info, 0o022):
            self.discard(digest)
            return None
        if time.time() - info.st_mtime > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(path)
        return payload

    def has(self, digest: str) -> bool:
        """Whether there is a file for this digest, good or not."""
        return os.path.exists(self._path(digest))

    def put(self, digest: str, payload: bytes) -> None:
        """Keep `payload` under `digest`, if the disk allows it."""
        if len(payload) > min(_MAX_ENTRY - 256, self.limit):
            return
        secret = self._secret(make=True)
        if secret is None:
            return
        written = self._write(self._path(digest), _MAGIC + code(secret, digest, payload) + payload)
        # Digests are as good as random: of all processes together, about one write in so many looks at the size.
        if written and int(digest[-2:], 16) % _WRITES_PER_SWEEP == 0:
            self.sweep()

    def discard(self, digest: str) -> None:
        """Delete an entry, if there is one."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(digest))

    def _path(self, digest: str) -> str:
        return os.path.join(self.folder, digest + _SUFFIX)

    def _temporary(self) -> str:
        return os.path.join(self.folder, f"{os.getpid()}-{os.urandom(8).hex()}{_TEMPORARY}")

    def _write(self, path: str, data: bytes) -> bool:
        """All of `data` under a name that nobody reads, then its own name: a reader sees a whole file or none."""
        temporary = self._temporary()
        try:
            _create(temporary, data)
            os.replace(temporary, path)
        except OSError:  # full, read-only, over a quota, gone
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            return False
        return True

    # ----------------------------------------------------------------------------------------------- folder and key

    def problem(self) -> str | None:
        """Why the folder is not used, in words; None if it is private, or not there yet."""
        try:
            info = os.lstat(self.folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            return f"it cannot be read: {error.strerror}"
        if not stat.S_ISDIR(info.st_mode):
            return "it is not a folder"
        if not _is_ours(info, 0):
            return "it belongs to another user"
        return None if _is_ours(info, 0o077) else "other users have access to it: make it private, chmod 700"

    def _secret(self, make: bool = False) -> bytes | None:
        """The user's secret; None if there is none, or the folder is not private."""
        if make:
            try:
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
            except OSError:
                return None
        elif not os.path.exists(self.folder):
            return None
        if self.problem() is not None:
            return None
        secret = self._known_secret()
        if secret is None and make:
            self._make_secret()
            secret = self._known_secret()
        return secret

    def _known_secret(self) -> bytes | None:
        found = _read(os.path.join(self.folder, _KEY_FILE), _KEY_BYTES + 1)
        if found is None or len(found[0]) != _KEY_BYTES or not _is_ours(found[1], 0o077):
            return None
        return found[0]

    def _make_secret(self) -> None:
        """Make a secret, or leave the one that another process made meanwhile; a file that is no secret is replaced."""
        key, fresh = os.path.join(self.folder, _KEY_FILE), self._temporary()
        try:
            if os.path.lexists(key) and self._known_secret() is None:
                os.unlink(key)
            _create(fresh, os.urandom(_KEY_BYTES))
            try:
                os.link(fresh, key)  # unlike a renaming it fails if the file is there
            except FileExistsError:
                pass
            except OSError:  # no links on this file system
                os.replace(fresh, key)
        except OSError:
            pass
        finally:
            with contextlib.suppress(OSError):
                os.unlink(fresh)

    # ------------------------------------------------------------------------------------------------------- upkeep

    def entries(self) -> list[Entry]:
        """Every entry, the least recently used first."""
        found = [Entry(f.path, info.st_size, info.st_mtime) for f, info in self._files(_SUFFIX)]
        return sorted(found, key=lambda e: (e.used, e.path))

    def _files(self, suffix: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        try:
            with os.scandir(self.folder) as files:
                for file in files:
                    if file.name.endswith(suffix):
                        with contextlib.suppress(OSError):  # another process deleted it
                            yield file, file.stat(follow_symlinks=False)
        except OSError:
            return

    def sweep(self) -> None:
        """Delete what dead processes left, and the least recently used entries beyond the limit."""
        now = time.time()
        for file, info in self._files(_TEMPORARY):
            if now - info.st_mtime > _STALE_SECONDS:
                with contextlib.suppress(OSError):
                    os.unlink(file.path)
        entries = self.entries()
        total = sum(e.size for e in entries)
        goal = self.limit if total <= self.limit else self.limit * 4 // 5
        for entry in entries:
            if total <= goal:
                break
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            total -= entry.size

    def clear(self) -> int:
        """Delete all entries and the secret; how many entries there were."""
        if self.problem() is not None:
            return 0
        entries = self.entries()
        leftovers = [file.path for file, _ in self._files(_TEMPORARY)]
        for path in (*(e.path for e in entries), *leftovers, os.path.join(self.folder, _KEY_FILE)):
            with contextlib.suppress(OSError):
                os.unlink(path)
        return len(entries)


def _create(path: str, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
    with open(handle, "wb") as file:
        file.write(data)


def _read(path: str, limit: int) -> tuple[bytes, os.stat_result] | None:
    """The content of a regular file of at most `limit` bytes, and what the system says of that file; else None."""
    try:
        handle = os.open(path, os.O_RDONLY | _NO_LINK | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode) or info.st_size > limit:
                return None
            return file.read(limit + 1), info
    except OSError:
        return None


def _is_ours(info: os.stat_result, forbidden: int) -> bool:
    """Whether a file belongs to this user, and others have none of the `forbidden` rights on it."""
    return not _OWNED or (info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & forbidden)


@functools.cache
def cache() -> DiskCache | None:
    """The cache of this process; None if ``TACK_CACHE=0``, or if there is no place for one."""
    if os.environ.get("TACK_CACHE", "").strip() in ("0", "off", "no", "false"):
        return None
    directory = default_directory()
    return DiskCache(directory, size_limit()) if directory else None
