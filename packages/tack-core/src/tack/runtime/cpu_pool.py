"""The CPU thread pool of this process.

`pool()` makes it at the first call, from the text in `tack.codegen.thread_pool_ir`: 20 ms of compiling without
optimisation, as the pool's own instructions are nothing beside the traffic between cores that they cause. The disk
cache keeps the result. Native code calls it through `ThreadPool.address`; nothing in Python stands between a kernel and
its threads.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tack.codegen.thread_pool_host_ir import SYS_FUTEX, PoolTarget, Waiting
from tack.codegen.thread_pool_ir import EXPORTS, MAX_THREADS, PARALLEL_FOR, pool_source
from tack.lang.loading import loading
from tack.lang.records import field_names
from tack.runtime.code_store import digest_of
from tack.runtime.host_identity import code_target
from tack.runtime.native_code import NativeCode, keep_forever, kept

THREADS_VARIABLE = "TACK_CPU_THREADS"

SPIN_SECONDS = 1e-3  # an idle worker: long enough for the Python between two kernel calls, too short to be felt
JOIN_SPIN_SECONDS = 50e-6  # a caller at the end of a loop: about what going to sleep and back would take
WAKE_SECONDS = 60e-6  # what waking a sleeping worker costs until it helps, in a virtual machine; less on bare metal
SHUTDOWN_SECONDS = 1.0  # then a worker in a long chunk is left behind

# These report a fault of the very thread that gets them, and must reach it.
SYNCHRONOUS_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")


# ---- How many threads ------------------------------------------------------------------------------------------------


def cpu_count() -> int:
    """Return the number of threads that a parallel loop uses by default.

    That is `TACK_CPU_THREADS` if it is set. Otherwise it is the number of CPUs which this process may use: its affinity
    mask, and the tightest CPU quota of its control groups (version 1 or 2), rounded up.

    Returns
    -------
    int
        From 1 to `MAX_THREADS`.

    Raises
    ------
    ValueError
        If `TACK_CPU_THREADS` is not a whole number from 1 to `MAX_THREADS`.

    Examples
    --------
    >>> 1 <= cpu_count() <= MAX_THREADS
    True
    """
    wanted = os.environ.get(THREADS_VARIABLE)
    if wanted is not None:
        return _threads_from_text(wanted)
    if hasattr(os, "sched_getaffinity"):
        cpus = len(os.sched_getaffinity(0))
    else:
        cpus = os.cpu_count() or 1
    return max(1, min(cpus, _quota_cpus(Path("/")) or cpus, MAX_THREADS))


def _threads_from_text(text: str) -> int:
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and 1 <= int(digits) <= MAX_THREADS:
        return int(digits)
    raise ValueError(
        f"{THREADS_VARIABLE} must be a whole number from 1 to {MAX_THREADS}, not {text!r}; "
        f"unset it to use every CPU that this process may run on"
    )


def _quota_cpus(root: Path) -> int | None:
    """Return the tightest CPU quota in whole CPUs, None if there is none; `root` is the root of the file system."""
    quotas = list(_cgroup_quotas(root))
    return math.ceil(min(quotas)) if quotas else None


def _cgroup_quotas(root: Path) -> Iterator[float]:
    """Yield the CPUs that each control group around this process allows.

    A group's limit holds for its descendants too, so all levels count. In a container the path in /proc/self/cgroup may
    be the host's, of which only the top is mounted: levels that do not exist are passed over.
    """
    for line in _lines(root / "proc/self/cgroup"):
        number, controllers, path = line.split(":", 2)
        top = root / "sys/fs/cgroup"
        if number == "0":
            files: tuple[str, ...] = ("cpu.max",)
        elif "cpu" in controllers.split(","):
            files, top = ("cpu.cfs_quota_us", "cpu.cfs_period_us"), top / controllers
        else:
            continue
        group = top / path.lstrip("/")
        for level in (group, *group.parents):
            words = [word for name in files for text in _lines(level / name) for word in text.split()]
            if len(words) == 2 and words[0] not in ("max", "-1"):
                yield int(words[0]) / int(words[1])
            if level == top:
                break


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # no such group, not Linux, or not for us to read: no limit that we could know
        return []


# ---- Compiling and loading -------------------------------------------------------------------------------------------


def host_target(waiting: Waiting | None = None) -> PoolTarget:
    """Describe this machine to `pool_source`; `waiting` is chosen by system if None."""
    machine = platform.machine().lower()
    if waiting is None:
        if os.name != "posix" or sys.maxsize < 1 << 32:
            waiting = "none"
        else:
            waiting = "futex" if sys.platform == "linux" and machine in SYS_FUTEX else "condvar"
    if waiting == "none":
        return PoolTarget(machine, sys.platform, waiting)
    kept = {getattr(signal, name, None) for name in SYNCHRONOUS_SIGNALS}
    blocked = sum(1 << (number - 1) for number in signal.valid_signals() if number not in kept)
    # Plain numbers: the target is part of the name that the disk cache finds the code by.
    return PoolTarget(machine, sys.platform, waiting, blocked, int(signal.SIG_BLOCK), int(signal.SIG_SETMASK))


def compile_pool(target: PoolTarget) -> NativeCode:
    """The pool's code for this processor."""
    from tack.runtime.llvm_jit import compiler

    return NativeCode.compiled(lambda far: compiler().compile_unoptimised(pool_source(target), far), EXPORTS)


def load_pool(code: NativeCode) -> dict[str, int]:
    """Load the pool's code, which stays for the life of the process, because threads run it."""
    library = code.load({})
    keep_forever(library)
    return library.addresses


def _code(target: PoolTarget) -> NativeCode:
    """The pool's code for this machine, from the disk cache if it is there."""
    host = code_target()
    fields = tuple(getattr(target, name) for name in field_names(target))
    digest = None if host is None else digest_of("thread pool", host, fields)
    return kept(digest, lambda: compile_pool(target))


# ---- The pool --------------------------------------------------------------------------------------------------------


class ThreadPool:
    """A native thread pool for parallel loops; use `pool()` unless you test the pool itself.

    Parameters
    ----------
    threads : int, optional
        Threads of a loop, the caller included: from 1 to `MAX_THREADS`, `cpu_count()` if None.
    waiting : {"futex", "condvar", "none"}, optional
        How idle threads sleep; by system if None.

    Attributes
    ----------
    address : int
        Address of ``void tack_parallel_for(void (*body)(void *ctx, int64 begin, int64 end, int64 lane), void *ctx,
        int64 n, int64 grain, int64 limit, int64 unit)``. See `tack.codegen.thread_pool_ir` for what it promises. `body`
        must not raise into Python; it runs without the GIL.

    Raises
    ------
    ValueError
        If `threads` or `TACK_CPU_THREADS` is out of range.

    Notes
    -----
    Threads start at the first loop of more than one chunk. A forked child starts with no workers and starts its own. A
    new worker inherits the CPU affinity of the thread that starts it.
    """

    def __init__(self, threads: int | None = None, waiting: Waiting | None = None) -> None:
        threads = cpu_count() if threads is None else _checked_threads(threads)
        target = host_target(waiting)
        addresses = load_pool(_code(target))
        self.address: int = addresses[PARALLEL_FOR]
        self._init = _native(addresses, "tack_pool_init", None, ctypes.c_int32, *[ctypes.c_int64] * 3)
        self._set_helpers = _native(addresses, "tack_pool_set_helpers", None, ctypes.c_int32)
        self._helpers = _native(addresses, "tack_pool_helpers", ctypes.c_int32)
        self._stop = _native(addresses, "tack_pool_stop", None)
        self._running = _native(addresses, "tack_pool_running", ctypes.c_int32)
        rate = _ticks_per_second(_native(addresses, "tack_pool_ticks", ctypes.c_int64))
        self._ticks = [max(1, round(s * rate)) for s in (SPIN_SECONDS, JOIN_SPIN_SECONDS, WAKE_SECONDS)]
        self._init(threads - 1 if target.waiting != "none" else 0, *self._ticks)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._restart)
        atexit.register(self.shutdown)

    @property
    def threads(self) -> int:
        """Threads of a loop, the caller included. Lower than what was asked for if the system gave no more."""
        return int(self._helpers()) + 1

    def set_threads(self, threads: int) -> _FormerThreads:
        """Use `threads` threads from the next loop on; in a `with` statement, until its end.

        It holds for the whole process. More threads than CPUs are fine: results are the same, only slower.

        Parameters
        ----------
        threads : int
            From 1 to `MAX_THREADS`.

        Raises
        ------
        ValueError
            If `threads` is out of range.

        Examples
        --------
        >>> with pool().set_threads(3):
        ...     pool().threads
        3
        """
        former = self.threads
        self._set_helpers(_checked_threads(threads) - 1)
        return _FormerThreads(self, former)

    def shutdown(self) -> None:
        """Let the workers return, and wait a little for it. Later loops run in the thread that calls them."""
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        self._stop()
        while self._running() and time.monotonic() < deadline:
            time.sleep(2e-4)
            self._stop()

    def _restart(self) -> None:
        """In a forked child, which has none of the parent's threads."""
        self._init(self._helpers(), *self._ticks)


class _FormerThreads:
    """Sets a pool's former number of threads at the end of a `with` statement."""

    def __init__(self, owner: ThreadPool, threads: int) -> None:
        self._owner = owner
        self._threads = threads

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.set_threads(self._threads)


def _checked_threads(threads: int) -> int:
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"the number of threads must be from 1 to {MAX_THREADS}, not {threads!r}")
    return threads


def _native(addresses: dict[str, int], name: str, result: Any, *parameters: Any) -> Any:
    return ctypes.CFUNCTYPE(result, *parameters)(addresses[name])


def _ticks_per_second(ticks: Any) -> float:
    """Measure the rate of the pool's clock, which differs from one machine to the next."""

    def sample() -> tuple[float, int]:
        # the tightest of a few: the thread may lose its processor between the two clocks
        pairs = []
        for _ in range(5):
            before = time.perf_counter()
            count = ticks()
            after = time.perf_counter()
            pairs.append((after - before, (before + after) / 2, count))
        return min(pairs)[1:]

    t0, ticks0 = sample()
    time.sleep(3e-4)
    t1, ticks1 = sample()
    return (ticks1 - ticks0) / (t1 - t0)


# ---- The pool of this process ----------------------------------------------------------------------------------------

_lock = threading.Lock()
_pool: ThreadPool | None = None


def pool() -> ThreadPool:
    """Return the pool of this process; the first call makes it.

    Returns
    -------
    ThreadPool
        The same object at every call, also in a forked child.

    Raises
    ------
    ValueError
        If `TACK_CPU_THREADS` is set and is not a whole number from 1 to `MAX_THREADS`.

    Examples
    --------
    >>> pool() is pool()
    True
    """
    global _pool
    if _pool is None:
        with loading(), _lock:  # a finalizer may launch a loop, too
            if _pool is None:
                _pool = ThreadPool()
    return _pool


if hasattr(os, "register_at_fork"):
    # A fork waits until another thread has made the pool: a child with half a pool could never finish it.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
