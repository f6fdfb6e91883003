"""The CPU thread pool: every index once, whatever the grain, the number of threads, nesting, forks and signals.

No test measures time: a body that needs other threads waits for them a bounded number of turns.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import random
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

llvm = pytest.importorskip("llvmlite.binding")

from tack.codegen.thread_pool_host_ir import PoolTarget  # noqa: E402
from tack.codegen.thread_pool_ir import EXPORTS, MAX_THREADS, SLOTS, pool_source  # noqa: E402
from tack.runtime import cpu_pool  # noqa: E402
from tack.runtime.cpu_pool import ThreadPool, pool  # noqa: E402
from thread_pool_program import Program, visited  # noqa: E402

posix = pytest.mark.skipif(os.name != "posix", reason="the pool has threads on POSIX systems only")
WAITINGS = ("futex", "condvar") if sys.platform == "linux" else ("condvar",)
DEPTH = SLOTS + 8  # nested deeper than there are slots


@pytest.fixture(scope="module", params=WAITINGS)
def program(request: pytest.FixtureRequest) -> Iterator[Program]:
    shared = ThreadPool(threads=3, waiting=request.param)
    yield Program(shared)
    shared.shutdown()


# ---- Every index once ------------------------------------------------------------------------------------------------


def test_every_index_is_visited_once(program: Program) -> None:
    program.check()
    program.check(size=1300)
    program.check(size=100)


def test_the_coverage_oracle_sees_a_missing_and_a_repeated_index(program: Program) -> None:
    data = (ctypes.c_uint8 * 1000)()
    program.run("mark", data, 999)
    assert not visited(data, 1)
    program.run("mark", data, 1000)
    assert not visited(data, 1) and not visited(data, 2)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads(program: Program, threads: int) -> None:
    with program.pool.set_threads(threads):
        assert program.pool.threads == threads
        program.check(size=5000)
        program.meet(threads)
    assert program.pool.threads == 3


@pytest.mark.parametrize("n", [0, -1, -(2**63)])
def test_an_empty_loop_runs_nothing(program: Program, n: int) -> None:
    total = (ctypes.c_int64 * 2)()
    program.run("count", total, n, 1)
    assert list(total) == [0, 0]


@pytest.mark.parametrize(
    ("n", "grain"), [(2**63 - 1, 2**61), (2**63 - 1, 2**63 - 1), (2**63 - 1, 0), (2**62, 2**60 - 1)]
)
def test_the_largest_counts_do_not_overflow(program: Program, n: int, grain: int) -> None:
    total = (ctypes.c_int64 * 2)()
    program.run("count", total, n, grain)
    assert total[1] == n
    if grain:
        assert total[0] == -(-n // grain)


@pytest.mark.parametrize(("limit", "threads"), [(0, 3), (-3, 3), (2, 2), (100, 3)])
def test_automatic_chunks_are_claimed_by_the_quarter(program: Program, limit: int, threads: int) -> None:
    """64 of them a thread, in fewer calls of the body; each a thread at least, and all of them once."""
    total = (ctypes.c_int64 * 2)()
    program.run("count", total, 100_000, 0, limit)
    assert total[1] == 100_000
    assert threads < total[0] < threads * 32


def test_an_automatic_loop_of_one_thread_is_one_call(program: Program) -> None:
    total = (ctypes.c_int64 * 2)()
    program.run("count", total, 100_000, 0, 1)
    assert list(total) == [1, 100_000]


@pytest.mark.parametrize(
    ("least", "each"), [(1, 64), (520, 64), (521, 63), (11_111, 3), (12_000, 2), (20_000, 1), (2**62, 1), (2**63, 1)]
)
def test_short_loops_have_fewer_chunks(program: Program, least: int, each: int) -> None:
    """As many a thread as have the least length, up to 64, and one at least."""
    length = -(-100_000 // (3 * each))
    found = ends_of(program, 100_000, -least)
    assert_chunks(found, 100_000, -(-length // 64) * 64 if length > 1024 else length)


@pytest.mark.parametrize(
    ("n", "length"), [(192 * 1024, 1024), (192 * 1025, 1088), (500_000, 2624), (192 * 1087, 1088), (192 * 100 - 5, 100)]
)
def test_long_chunks_begin_where_cache_lines_do(program: Program, n: int, length: int) -> None:
    """Automatic chunks of more than 1,024 iterations are a multiple of 64, shorter ones even."""
    assert_chunks(ends_of(program, n), n, length)


def test_the_chunk_oracle_sees_another_length() -> None:
    assert_chunks({0: 128, 128: 192, 192: 200}, 200, 64)
    for length in (32, 48, 128):
        with pytest.raises(AssertionError):
            assert_chunks({0: 128, 128: 192, 192: 200}, 200, length)


@pytest.mark.parametrize(
    ("n", "unit", "length"),
    [
        (256, 64, 64),
        (300, 64, 64),
        (16, 16, 16),
        (20, 16, 16),
        (192 * 40, 16, 48),
        (768, 4, 4),
        (208, 13, 13),
        (192 * 1025, 13, 1088),
        (192 * 1025, 64, 1088),
    ],
)
def test_automatic_chunks_are_whole_units(program: Program, n: int, unit: int, length: int) -> None:
    """Where code runs so many iterations at once: fewer would take it as long."""
    assert_chunks(ends_of(program, n, unit=unit), n, length)
    assert_chunks(ends_of(program, n, -1, unit=unit), n, length)


def ends_of(program: Program, n: int, grain: int = 0, unit: int = 1) -> dict[int, int]:
    """Of each call of the body, the first index and the end."""
    ends = (ctypes.c_int64 * n)()
    program.run("ends", ends, n, grain, unit=unit)
    return {begin: end for begin, end in enumerate(ends) if end}


def assert_chunks(found: dict[int, int], n: int, length: int) -> None:
    """Every call has a number of chunks of this length, and some have one; a begun first chunk counts as whole."""
    if (rest := found.get(found[0])) is not None and found[0] < length:  # begun to see whether to wake the others
        assert found[0] in (length // 16, max(64, length // 16 // 64 * 64), 1, 4, 16)
        del found[found[0]]
        found[0] = rest
    ends = list(found.values())
    assert list(found) == [0, *ends[:-1]] and ends[-1] == n
    assert all(begin % length == 0 for begin in found)
    assert any(end - begin == length for begin, end in found.items())


@pytest.mark.parametrize(("n", "part"), [(192 * 2, 1), (192 * 40, 2), (192 * 4096, 256)])
def test_a_long_loop_wakes_others_after_a_part_of_its_first_chunk(program: Program, n: int, part: int) -> None:
    """A whole chunk may take milliseconds. A grain that was given stays whole."""
    for _ in range(100):
        time.sleep(0.02)  # until the others sleep, mostly; a busy machine may keep one awake
        ends = (ctypes.c_int64 * n)()
        program.run("late_ends", ends, n, 0)
        assert_covered(ends)
        if ends[0] == part:
            break
    assert ends[0] == part
    program.run("late_ends", ends, n, n // 2)
    assert ends[0] == n // 2


def test_chunks_of_one_index_wake_others_at_once(program: Program) -> None:
    """Each may take milliseconds: the first claim is a quarter of the caller's part of eight, not one to judge by."""
    for _ in range(10):
        time.sleep(0.02)
        ends = (ctypes.c_int64 * 24)()
        program.run("late_ends", ends, 24)
        assert_covered(ends)
        assert ends[0] == 2


def test_a_first_chunk_that_is_dear_after_its_first_part_wakes_others_at_its_end(program: Program) -> None:
    """As where later iterations do more. Nobody would come to the next chunk, which waits for another thread."""
    for _ in range(5):
        time.sleep(0.02)
        context = (ctypes.c_int64 * 3)(16, 0, 0)
        program.run("late_meet", context, 192 * 16)
        assert list(context) == [16, 1, 0]


def assert_covered(ends: ctypes.Array[ctypes.c_int64]) -> None:
    at = 0
    while at < len(ends):
        assert ends[at] > at
        at = ends[at]
    assert at == len(ends)


def test_nesting_deeper_than_there_are_slots(program: Program) -> None:
    state = (ctypes.c_int64 * 2)(DEPTH, 0)
    program.run("deep", state, 2, 1)
    assert list(state) == [0, DEPTH]


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 9])
def test_lanes_are_distinct_and_below_the_limit(program: Program, limit: int) -> None:
    lanes = (ctypes.c_int64 * 65)()
    with program.pool.set_threads(7):
        program.run("own_lane", lanes, 2000, 1, limit)
        assert list(lanes) == [0] * 65
        most = min(limit or 7, 7)
        program.meet(most, limit)  # its array ends with lane most - 1, and each lane must come


def test_random_loops(program: Program) -> None:
    choose = random.Random(8)
    for _ in range(200):
        size = choose.choice((1, 2, 3, 31, 257, 4096, 20_000))
        data = (ctypes.c_uint8 * size)()
        program.run("mark", data, size, choose.randrange(0, size + 2), choose.randrange(0, 5))
        assert visited(data, 1)


# ---- One answer ------------------------------------------------------------------------------------------------------


def test_results_by_chunk_are_the_same_for_any_number_of_threads(program: Program) -> None:
    choose = random.Random(1)
    values = [choose.uniform(-1, 1) * 10.0 ** choose.randrange(-8, 9) for _ in range(10_000)]
    x = (ctypes.c_double * len(values))(*values)
    grain, answers = 37, set()
    for threads in (1, 2, 3, 7):
        partial = (ctypes.c_double * -(-len(values) // grain))()
        context = (ctypes.c_int64 * 3)(grain, ctypes.addressof(x), ctypes.addressof(partial))
        with program.pool.set_threads(threads):
            for _ in range(5):
                program.run("chunk_sum", context, len(values), grain)
                answers.add(bytes(partial))
    assert len(answers) == 1
    expected = []
    for begin in range(0, len(values), grain):
        total = 0.0
        for value in values[begin : begin + grain]:
            total += value  # binary64, left to right
        expected.append(total)
    assert answers == {struct.pack(f"{len(expected)}d", *expected)}
    assert expected != [math.fsum(values[b : b + grain]) for b in range(0, len(values), grain)]  # order does matter


@pytest.mark.skipif(
    sys.platform != "linux" or cpu_pool.host_target().machine not in ("x86_64", "aarch64"),
    reason="rounding modes have other numbers",
)
@pytest.mark.parametrize("waiting", WAITINGS)
def test_every_thread_rounds_to_nearest_whatever_the_caller_has_set(waiting: str) -> None:
    fresh = Program(ThreadPool(threads=3, waiting=waiting))  # its workers start under the caller's mode
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[cpu_pool.host_target().machine]
    libm = ctypes.CDLL("libm.so.6")
    former = libm.fegetround()

    def alone() -> float:
        context = (ctypes.c_int64 * 4)(1, 0, struct.unpack("q", struct.pack("d", 2.0**-60))[0])
        fresh.alone("meet", context, 1)
        return struct.unpack("d", struct.pack("q", context[3]))[0]

    try:
        assert libm.fesetround(upward) == 0
        before, together, one_chunk, after = alone(), fresh.meet(3), fresh.meet(1), alone()
    finally:
        libm.fesetround(former)
        fresh.pool.shutdown()
    assert together == [1.0] * 3 and one_chunk == [1.0]
    assert before > 1.0  # the control: the mode changes the result
    assert after > 1.0  # the caller has its mode back


# ---- Many callers, forks, signals, the end ---------------------------------------------------------------------------


def in_threads(count: int, job: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)

    team = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    assert not failures, failures[0]


def test_eight_python_threads_at_once(program: Program) -> None:
    in_threads(8, lambda: [program.check(size=4000) for _ in range(5)] and None)


def in_child(job: Callable[[], None]) -> int:
    """Run `job` in a forked child; its exit status, 0 if nothing was raised. A child that hangs is killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on, for a fork with threads: our subject
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        try:
            job()
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@posix
@pytest.mark.parametrize("pause", [0, 0.02], ids=["while they spin", "while they sleep"])
def test_a_forked_child_has_threads_of_its_own(program: Program, pause: float) -> None:
    def job() -> None:
        program.check(size=4000)
        program.meet(3)

    program.check(size=1000)
    program.meet(3)
    time.sleep(pause)
    assert in_child(job) == 0
    program.check(size=1000)
    program.meet(3)


@posix
def test_fork_while_other_threads_are_in_the_pool(program: Program) -> None:
    done = threading.Event()

    def keep_busy() -> None:
        while not done.is_set():
            program.check(size=2000)

    others = [threading.Thread(target=keep_busy) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        assert [in_child(lambda: program.check(size=2000)) for _ in range(5)] == [0] * 5
    finally:
        done.set()
        for thread in others:
            thread.join()


@posix
def test_a_child_of_a_child(program: Program) -> None:
    def job() -> None:
        program.meet(2)
        assert in_child(lambda: program.check(size=1000)) == 0

    assert in_child(job) == 0


@posix
def test_a_child_notices_a_failure() -> None:
    """The control of the tests above."""

    def job() -> None:
        os.close(2)
        raise AssertionError

    assert in_child(job) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_leave_pythons_signals_alone() -> None:
    def blocked() -> dict[str, int]:
        masks = {}
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # a thread of an earlier test that ends just now
                fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                masks[task.name] = int(fields["SigBlk"], 16)
        return masks

    before = blocked()
    former = signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2})
    fresh = Program(ThreadPool(threads=3))
    fresh.meet(3)
    own = signal.pthread_sigmask(signal.SIG_SETMASK, former)
    workers = [mask for task, mask in blocked().items() if task not in before]
    fresh.pool.shutdown()
    assert len(workers) == 2
    for mask in workers:
        assert mask >> (signal.SIGINT - 1) & 1 and mask >> (signal.SIGALRM - 1) & 1
        assert not mask >> (signal.SIGSEGV - 1) & 1 and not mask >> (signal.SIGFPE - 1) & 1
    assert own == {signal.SIGUSR2}  # the caller's mask is as it was


@pytest.mark.skipif(sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs affinity and two CPUs")
def test_a_worker_sleeps_off_the_callers_cpu_and_gets_it_back() -> None:
    every = os.sched_getaffinity(0)
    before = set(os.listdir("/proc/self/task"))
    fresh = Program(ThreadPool(threads=2))
    fresh.meet(2)
    (worker,) = (int(task) for task in set(os.listdir("/proc/self/task")) - before)

    def seen(cpus_missing: int, pause: float) -> bool:
        """Does the worker, in a bounded number of loops, run with so many CPUs less?"""
        for _ in range(500):
            fresh.meet(2)
            time.sleep(pause)
            mask = os.sched_getaffinity(worker)
            assert mask <= every and len(every - mask) <= 1
            if len(every - mask) == cpus_missing:
                return True
        return False

    asleep, awake = seen(1, pause=0.01), seen(0, pause=0)
    fresh.pool.shutdown()
    assert asleep and awake
    assert os.sched_getaffinity(0) == every


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_beyond_the_number_stay_asleep() -> None:
    """A row of loops that have the workers they want would wake all others, one after the other."""
    before = set(os.listdir("/proc/self/task"))
    fresh = Program(ThreadPool(threads=7))
    fresh.meet(7)
    workers = set(os.listdir("/proc/self/task")) - before
    fresh.pool.set_threads(2)

    def sleeps(worker: str) -> str:
        status = Path(f"/proc/self/task/{worker}/status").read_text().splitlines()
        return next(line for line in status if line.startswith("voluntary"))

    def woken() -> int:
        time.sleep(0.02)
        counts = {worker: sleeps(worker) for worker in workers}
        for _ in range(30):
            fresh.meet(2)
        time.sleep(0.02)
        return sum(sleeps(worker) != counts[worker] for worker in workers)

    alone = any(woken() == 1 for _ in range(100))  # a busy machine may put the one to sleep in between
    fresh.pool.shutdown()
    assert len(workers) == 6 and alone


def test_after_shutdown_loops_run_in_their_callers() -> None:
    fresh = Program(ThreadPool(threads=3))
    fresh.meet(3)
    fresh.pool.shutdown()
    assert fresh.pool.threads == 1
    fresh.check(size=1000)


EXIT_SCRIPT = """
    import ctypes, threading, time
    from tack.runtime.cpu_pool import pool

    shared = pool()
    shared.set_threads(3)
    parallel_for = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)(shared.address)
    body = ctypes.CFUNCTYPE(ctypes.c_int)(("sched_yield", ctypes.CDLL(None)))  # any C function will do
    address = ctypes.cast(body, ctypes.c_void_p)

    def loop():
        parallel_for(address, None, 1000, 1, 0, 1)

    def forever():
        while True:
            loop()

    loop()
    {ending}
"""


@posix
@pytest.mark.parametrize(
    "ending",
    ["pass", "time.sleep(0.02)", "threading.Thread(target=forever, daemon=True).start(); time.sleep(0.02)"],
    ids=["while they spin", "while they sleep", "while a daemon thread runs loops"],
)
def test_a_process_ends_while_workers(ending: str) -> None:
    script = textwrap.dedent(EXIT_SCRIPT).format(ending=ending)
    source = str(Path(cpu_pool.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, timeout=60, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


# ---- The pool of the process -----------------------------------------------------------------------------------------


def test_there_is_one_pool_also_when_threads_race_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Slow:
        def __init__(self) -> None:
            made.append(self)
            time.sleep(0.02)

    monkeypatch.setattr(cpu_pool, "ThreadPool", Slow)
    monkeypatch.setattr(cpu_pool, "_pool", None)
    got = []
    in_threads(8, lambda: got.append(pool()))
    assert len(made) == 1 and set(map(id, got)) == {id(made[0])}


@posix
def test_a_fork_waits_for_a_pool_in_the_making(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    class Slow:
        def __init__(self) -> None:
            begun.set()
            time.sleep(0.05)

    monkeypatch.setattr(cpu_pool, "ThreadPool", Slow)
    monkeypatch.setattr(cpu_pool, "_pool", None)
    maker = threading.Thread(target=pool)
    maker.start()
    begun.wait()

    def job() -> None:
        assert cpu_pool._pool is not None and pool() is cpu_pool._pool

    status = in_child(job)
    maker.join()
    assert status == 0


def test_the_pool_of_this_process_works() -> None:
    shared = pool()
    assert shared is pool() and shared.address and shared.threads >= 1
    Program(shared).check()


def test_set_threads_without_a_with_statement_stays(program: Program) -> None:
    program.pool.set_threads(2)
    try:
        assert program.pool.threads == 2
    finally:
        program.pool.set_threads(3)


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1])
def test_a_senseless_number_of_threads_is_refused(program: Program, threads: int) -> None:
    with pytest.raises(ValueError, match=rf"from 1 to {MAX_THREADS}, not {threads}"):
        program.pool.set_threads(threads)
    with pytest.raises(ValueError, match="number of threads"):
        ThreadPool(threads=threads)
    assert program.pool.threads == 3


def test_a_pool_takes_its_threads_from_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACK_CPU_THREADS", "5")
    fresh = ThreadPool()
    fresh_program = Program(fresh)
    assert fresh.threads == 5
    fresh_program.meet(5)
    fresh.shutdown()


# ---- Other systems ---------------------------------------------------------------------------------------------------


def test_a_system_without_threads_runs_loops_in_their_callers() -> None:
    alone = Program(ThreadPool(threads=4, waiting="none"))
    assert alone.pool.threads == 1
    alone.check(size=2000)
    with alone.pool.set_threads(4):
        alone.check(size=2000)
        assert alone.pool.threads == 1  # as the first loop found out


@pytest.mark.parametrize("waiting", ["futex", "condvar", "none"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_text_of_every_flavour_is_valid(machine: str, waiting: str) -> None:
    module = llvm.parse_assembly(pool_source(PoolTarget(machine, "linux", waiting, blocked_signals=2**64 - 1)))
    module.verify()
    assert set(EXPORTS) <= {function.name for function in module.functions if not function.is_declaration}


def test_a_futex_is_linuxs_only() -> None:
    with pytest.raises(ValueError, match="no futex on darwin arm64; use waiting='condvar'"):
        PoolTarget("arm64", "darwin", "futex")
