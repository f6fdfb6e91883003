"""The store of the disk cache: what is found is what was kept, or nothing (rules CACHE-3 to CACHE-6)."""

from __future__ import annotations

import errno
import os
import stat
import sys

import pytest

from tack.runtime import disk_cache
from tack.runtime.disk_cache import FOLDER, DiskCache, default_directory, size_limit

NAME, OTHER = "a" * 40, "b" * 40
PAYLOAD = bytes(range(256)) * 5
needs_posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="a system without owners of files")


@pytest.fixture
def store(tmp_path):
    return DiskCache(str(tmp_path))


def path_of(store, name=NAME):
    return os.path.join(store.folder, name + ".bin")


def content(path):
    with open(path, "rb") as file:
        return file.read()


def overwrite(path, data):
    with open(path, "wb") as file:
        file.write(data)


def test_what_is_kept_is_found(store):
    """CACHE-1: by its digest, by other objects on the same folder, and replaced by what is kept later."""
    assert store.get(NAME) is None
    store.put(NAME, PAYLOAD)
    store.put(OTHER, b"")
    again = DiskCache(os.path.dirname(store.folder))
    assert again.get(NAME) == PAYLOAD
    assert again.get(OTHER) == b""
    again.put(NAME, b"new")
    assert store.get(NAME) == b"new"


def test_an_entry_cut_short_or_lengthened(store):
    """CACHE-3: at every length that is not its own, an entry is nothing, and is deleted."""
    store.put(NAME, PAYLOAD)
    whole = content(path_of(store))
    for length in [*range(0, 60), len(whole) // 2, len(whole) - 1]:
        overwrite(path_of(store), whole[:length])
        assert store.get(NAME) is None, length
        assert not os.path.exists(path_of(store))
    overwrite(path_of(store), whole + b"\0")
    assert store.get(NAME) is None
    overwrite(path_of(store), whole)
    assert store.get(NAME) == PAYLOAD, "the untouched entry is good: it was the cutting that was noticed"


def test_every_flipped_bit_is_noticed(store):
    """CACHE-3: in the head, the code and the payload."""
    store.put(NAME, PAYLOAD[:40])
    whole = content(path_of(store))
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        overwrite(path_of(store), damaged)
        assert store.get(NAME) is None, bit


def test_entries_do_not_stand_for_each_other(store, tmp_path):
    """CACHE-3: an entry under another name, or of another secret, is nothing."""
    store.put(NAME, PAYLOAD)
    os.rename(path_of(store), path_of(store, OTHER))
    assert store.get(OTHER) is None
    stranger = DiskCache(str(tmp_path / "stranger"))
    stranger.put(NAME, b"hostile")
    overwrite(path_of(store), content(path_of(stranger)))
    assert store.get(NAME) is None
    # The same bytes are good where the secret is the stranger's: it was the secret that made the difference.
    assert stranger.get(NAME) == b"hostile"


def test_whatever_is_not_a_file_is_nothing(store):
    """CACHE-3: a folder, a link, a pipe."""
    store.put(OTHER, PAYLOAD)
    os.mkdir(path_of(store))
    assert store.get(NAME) is None
    store.put(NAME, PAYLOAD)  # cannot replace a folder, and says nothing
    os.rmdir(path_of(store))
    if hasattr(os, "symlink") and hasattr(os, "O_NOFOLLOW"):
        os.symlink(path_of(store, OTHER), path_of(store))
        assert store.get(NAME) is None
        os.unlink(path_of(store))
    if hasattr(os, "mkfifo"):
        os.mkfifo(path_of(store))
        assert store.get(NAME) is None
    assert store.get(OTHER) == PAYLOAD


@needs_posix
def test_the_folder_and_its_files_are_the_users_alone(store):
    """CACHE-4: made so, whatever the umask."""
    mask = os.umask(0)
    try:
        store.put(NAME, PAYLOAD)
    finally:
        os.umask(mask)
    files = [os.path.join(store.folder, name) for name in os.listdir(store.folder)]
    modes = {stat.S_IMODE(os.lstat(file).st_mode) for file in files}
    assert stat.S_IMODE(os.lstat(store.folder).st_mode) == 0o700
    assert modes == {0o600}
    assert len(files) == 2, "one entry and the secret; nothing else is left"


@needs_posix
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o707, 0o755])
def test_a_folder_that_others_can_use_is_not_used(store, mode):
    """CACHE-4: neither read nor written."""
    store.put(NAME, PAYLOAD)
    os.chmod(store.folder, mode)
    assert store.get(NAME) is None
    store.put(OTHER, PAYLOAD)
    assert "access" in store.problem()
    os.chmod(store.folder, 0o700)
    assert store.problem() is None
    assert store.get(NAME) == PAYLOAD
    assert store.get(OTHER) is None


@needs_posix
def test_files_of_other_users_are_not_used(store, monkeypatch):
    """CACHE-4: a folder of somebody else; in one of ours, a secret or an entry of somebody else."""
    store.put(NAME, PAYLOAD)
    me, real = os.geteuid(), os.fstat
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert store.get(NAME) is None
    assert store.problem() == "it belongs to another user"
    monkeypatch.undo()

    def foreign(handle, *, which):
        info = real(handle)
        return os.stat_result((*info[:4], info[4] + 1, *info[5:])) if info.st_size == which else info

    for which, found in ((32, None), (os.path.getsize(path_of(store)), None)):
        monkeypatch.setattr(os, "fstat", lambda handle, which=which: foreign(handle, which=which))
        assert store.get(NAME) == found
        monkeypatch.undo()


@needs_posix
def test_a_secret_that_others_could_read_is_replaced(store):
    """CACHE-4: and what it vouched for is worth nothing from then on."""
    store.put(NAME, PAYLOAD)
    key = os.path.join(store.folder, "key")
    old = content(key)
    os.chmod(key, 0o644)
    assert store.get(NAME) is None
    store.put(OTHER, PAYLOAD)
    assert content(key) != old
    assert store.get(OTHER) == PAYLOAD
    assert store.get(NAME) is None


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 33])
def test_a_secret_that_is_none_is_replaced(store, damaged):
    """CACHE-5: a process that died while it made the secret does not end caching for ever."""
    store.put(NAME, PAYLOAD)
    overwrite(os.path.join(store.folder, "key"), damaged)
    assert store.get(NAME) is None
    store.put(NAME, PAYLOAD)
    assert store.get(NAME) == PAYLOAD


@pytest.mark.parametrize("broken", ["open", "makedirs", "replace", "write", "read"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_disk_that_fails_is_no_error(store, monkeypatch, broken, code):
    """CACHE-5: full, read-only, forbidden, broken; nothing is left of what could not be written."""

    def fail(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    class Failing:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *args):
            self.file.close()

        def fileno(self):
            return self.file.fileno()

        read = write = fail

    if broken in ("write", "read"):
        store.put(OTHER, PAYLOAD)
        monkeypatch.setattr(disk_cache, "open", lambda *args: Failing(open(*args)), raising=False)
    else:
        monkeypatch.setattr(os, broken, fail)
    store.put(NAME, PAYLOAD)
    assert store.get(NAME) is None
    monkeypatch.undo()
    left = os.listdir(store.folder) if os.path.exists(store.folder) else []
    assert [name for name in left if name.endswith(".tmp")] == []
    assert store.get(NAME) is None
    store.put(NAME, PAYLOAD)
    assert store.get(NAME) == PAYLOAD


def test_a_file_in_the_place_of_the_folder(tmp_path):
    """CACHE-5: or of a folder above it."""
    (tmp_path / FOLDER).write_text("")
    store = DiskCache(str(tmp_path))
    store.put(NAME, PAYLOAD)
    assert store.get(NAME) is None
    assert store.problem() is not None
    below = DiskCache(str(tmp_path / FOLDER / "deep"))
    below.put(NAME, PAYLOAD)
    assert below.get(NAME) is None


def test_the_least_recently_used_entries_go_first(tmp_path):
    """CACHE-6: when there is more than the limit; reading an entry is using it."""
    store = DiskCache(str(tmp_path), limit=10_000)
    names = [f"{i:040x}" for i in range(12)]
    for i, name in enumerate(names):
        store.put(name, bytes(900))
        os.utime(path_of(store, name), (i * 10_000, i * 10_000))
    assert store.get(names[0]) is not None
    store.sweep()
    left = [name for name in names if os.path.exists(path_of(store, name))]
    assert left == [names[0], *names[-len(left) + 1 :]]
    total = sum(e.size for e in store.entries())
    assert 5_000 < total <= 8_000
    assert store.get(names[-1]) == bytes(900)


def test_the_size_stays_bounded_by_itself(tmp_path):
    """CACHE-6: over many writes nobody has to ask for it; an entry larger than all the cache is not kept."""
    store = DiskCache(str(tmp_path), limit=100_000)
    for i in range(400):
        store.put(f"{i:040x}", bytes(2_000))
    assert sum(e.size for e in store.entries()) <= 100_000 + 65 * 2_100
    store.put(NAME, bytes(200_000))
    assert store.get(NAME) is None


def test_leftovers_of_dead_processes_go(store):
    """CACHE-5: a crash in mid-write leaves a file that nobody reads and that the next sweep deletes, once it is old."""
    store.put(NAME, PAYLOAD)
    old, new = (os.path.join(store.folder, f"{i}-ff.tmp") for i in range(2))
    for path in (old, new):
        overwrite(path, b"half")
    os.utime(old, (0, 0))
    store.sweep()
    assert not os.path.exists(old)
    assert os.path.exists(new), "another process may be writing it"
    assert store.get(NAME) == PAYLOAD


def test_clearing(store):
    """CACHE-7: entries, leftovers and the secret; then all starts anew."""
    assert store.clear() == 0
    store.put(NAME, PAYLOAD)
    store.put(OTHER, PAYLOAD)
    overwrite(os.path.join(store.folder, "1-ff.tmp"), b"half")
    assert [e.size for e in store.entries()] == [len(PAYLOAD) + 40] * 2
    assert store.clear() == 2
    assert os.listdir(store.folder) == []
    store.put(NAME, PAYLOAD)
    assert store.get(NAME) == PAYLOAD


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="these systems have one place for caches")
def test_where_the_cache_is(monkeypatch, tmp_path):
    """CACHE-1: TACK_CACHE_DIR, else XDG_CACHE_HOME if it is absolute, else ~/.cache."""
    for name in ("TACK_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == str(tmp_path / ".cache" / "tack")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory() == str(tmp_path / ".cache" / "tack")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_directory() == str(tmp_path / "xdg" / "tack")
    monkeypatch.setenv("TACK_CACHE_DIR", "~/mine")
    assert default_directory() == str(tmp_path / "mine")


def test_limits_and_the_switch(monkeypatch):
    """CACHE-1, CACHE-6: TACK_CACHE=0 and TACK_CACHE_SIZE."""
    monkeypatch.setenv("TACK_CACHE_SIZE", "3")
    assert size_limit() == 3 << 20
    monkeypatch.setenv("TACK_CACHE_SIZE", "")
    assert size_limit() == disk_cache.DEFAULT_LIMIT
    for text in ("-1", "1.5", "many"):
        monkeypatch.setenv("TACK_CACHE_SIZE", text)
        with pytest.raises(ValueError, match="TACK_CACHE_SIZE"):
            size_limit()
    monkeypatch.setenv("TACK_CACHE_SIZE", "1")
    for text, there in (("0", False), ("1", True), ("", True)):
        monkeypatch.setenv("TACK_CACHE", text)
        assert (disk_cache.cache.__wrapped__() is not None) == there
