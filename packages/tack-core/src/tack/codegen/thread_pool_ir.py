"""The CPU thread pool as LLVM IR text: no C compiler, no OpenMP, no TBB.

Kernels call it like a C function::

    void tack_parallel_for(void (*body)(void *ctx, int64 begin, int64 end, int64 lane),
                           void *ctx, int64 n, int64 grain, int64 limit, int64 unit)

It runs `body` over [0, n) in chunks of `grain` indices on at most `limit` threads (0 or less: all of them) and returns
when every chunk is done. A grain of 0 or less stands for 64 chunks a thread, or fewer where they would have less than
`-grain` indices, which is what is worth a thread; their length is a multiple of `unit`, as a loop's vectors or rows
want it, or of a cache line where they are long. With a given grain, chunk k is always [k * grain, min(n, (k + 1) *
grain)), whoever runs it, and results kept by chunk depend neither on scheduling nor on the number of threads; without
one, several may be run at once, and the first in two parts. The caller is lane 0; helpers have distinct lanes below
min(limit, threads).
All threads run with the default floating-point mode. A loop too small to share costs a call with ``limit=1``.

Help, never wait for help
    The caller starts on the chunks at once and waits, in the end, only for workers that really joined. A worker that is
    asleep, descheduled or lost in a fork() holds nobody up. So nested loops, concurrent callers and forked children
    need no lock, no thread-local and no test for recursion.

Slots and tickets
    A loop sits in one of 32 slots; `@busy` has a bit for each. If all are taken, the loop runs in its caller. The state
    of a slot is one word: ACTIVE | WAITER | tickets << 12 | users. A worker joins by one compare-exchange, which needs
    ACTIVE and a ticket, and which turns a ticket into a user; it reads the loop's fields only then. The caller clears
    ACTIVE and returns at users == 0. So a late worker can neither see a finished loop nor exceed the team's size, and
    the ticket it drew is its lane.

Home parts and stealing
    The chunks are dealt into one part a thread. A worker begins in the same part every time, as its cache holds that
    data, then goes round the parts of the others. One cursor for all would carry a cache line from core to core at each
    chunk: measured, a 100 000-element saxpy took 15 us with it and 8 to 9.6 with parts, which is what a static
    distribution takes, while uneven loops still balance. Where no grain was given, a claim takes a quarter of what is
    left in a part: a few large ones at first, and single chunks at the end, as a thread that has lost time then holds
    the others up for 1/64 of its part. With eight equal claims a thread, a histogram of 33 ms took 3 % more.

Bounded spins, then sleep
    An idle worker watches `@epoch`, which every shared loop increases, for a millisecond, then sleeps on it (a futex on
    Linux, condition variables elsewhere). A caller waits for its joined workers likewise, but for 50 us. Bounds are in
    ticks of the clock, so time off the processor counts. Every 256 pauses a spinning thread yields: caller and worker
    may share a processor on a busy machine, which would otherwise stall either for 100 us.

Lazy wake, with debt
    A wake-up costs tens of microseconds, more than many loops. If workers sleep and there are chunks enough to judge
    by, the caller works alone until (time a chunk) x (chunks left) is more than a wake-up. Time so spent in a row of
    short loops adds up as debt, and in the end is worth a wake-up as well: without it, a hot series of 15 us loops
    would never wake anybody. Where no grain was given, a sixteenth of the first chunk, in whole units, is enough to
    judge by if it took a sixteenth of a wake-up: over large arrays a chunk may take milliseconds. Where a chunk is one
    unit, others are woken at once: it may take milliseconds too, and is thought to be worth a thread. A caller wakes at
    most two sleepers; a woken worker that finds work left wakes two more. Workers beyond the number set, left from a
    time with more threads, are not missed while they sleep.

Sleep elsewhere
    A worker goes to sleep with the last caller's processor taken out of its affinity mask, and has its own mask back
    when it rests again after its first loop: some kernels would wake it where the caller runs, to wait for a
    millisecond or two. A caller that has moved since, and so may find workers on its processor, yields after waking
    them; they see where they are, and leave. The costs are in workers that have nothing to do.

Threads start at the first shared loop, also in a forked child, whose pool starts empty.

The other functions are for the runtime: `tack_pool_init`, `tack_pool_set_helpers`, `tack_pool_helpers`,
`tack_pool_stop`, `tack_pool_running` and `tack_pool_ticks`.
"""

from __future__ import annotations

from string import Template
from typing import Final

from tack.codegen.thread_pool_host_ir import PoolTarget, processor_source, system_source
from tack.codegen.thread_pool_loop_ir import CHUNKS, LOOP, SLOT_USE, WORKER

PARALLEL_FOR: Final = "tack_parallel_for"
EXPORTS: Final = (
    PARALLEL_FOR,
    "tack_pool_init",
    "tack_pool_set_helpers",
    "tack_pool_helpers",
    "tack_pool_stop",
    "tack_pool_running",
    "tack_pool_ticks",
)

# 12 bits count users and tickets; a quarter of their range is more than any machine needs.
MAX_THREADS: Final = 1024
SLOTS: Final = 32  # loops shared at one time; a bit each in @busy
HOMES: Final = 32  # parts of a loop; threads beyond that share them

# The bits of a slot's state.
COUNT: Final = (1 << 12) - 1  # users, and after a shift by TICKET_SHIFT, tickets
TICKET_SHIFT: Final = 12
WAITER: Final = 1 << 29  # the caller sleeps on the state
ACTIVE: Final = 1 << 30  # may be joined

MOST_CHUNKS: Final = 64  # a thread: so much of its part may be left to the last thread at the end of a loop
CLAIM_SHIFT: Final = 2  # a claim takes a quarter of what is left in a part, a chunk at least: 15 for 64 chunks
FEWEST_CHUNKS: Final = 1  # of short loops: a claim waits for all stores before it, 0.15 us of a saxpy in the cache
CHUNK_UNIT: Final = 64  # iterations: whole cache lines of any type. saxpy of 100,000 within the cache: 0.85 of the time
LONG_CHUNK: Final = 1024  # chunks longer than this are a multiple of the unit, which is then too little to unbalance
TASTE_SHIFT: Final = 4  # a sixteenth of a chunk is enough to judge by, if it takes a sixteenth of a wake-up
JUDGED_CHUNKS: Final = 4  # a thread let a caller judge whether a wake-up is worth it, where a grain was given
YIELD_MASK: Final = 255  # a spin yields every 256 pauses

# Field numbers of %slot and %home, in the order of the types below.
SLOT_FIELDS: Final = tuple("STATE BODY CTX N GRAIN CHUNKS TEAM HOME_COUNT SPENT SHIFT PAD HOME".split())

_NAMES: Final[dict[str, object]] = {
    **{field: number for number, field in enumerate(SLOT_FIELDS)},
    "SLOTS": SLOTS,
    "HOMES": HOMES,
    "COUNT": COUNT,
    "TICKET_SHIFT": TICKET_SHIFT,
    "ONE_TICKET": 1 << TICKET_SHIFT,
    "JOIN": 1 - (1 << TICKET_SHIFT),  # a user more, a ticket less
    "ACTIVE": ACTIVE,
    "NOT_ACTIVE": ~ACTIVE,
    "WAITER": WAITER,
    "WAITER_AND_USERS": WAITER | COUNT,
    "LAST_USER_AND_WAITER": WAITER | 1,
    "MOST_CHUNKS": MOST_CHUNKS,
    "CLAIM_SHIFT": CLAIM_SHIFT,
    "FEWEST_CHUNKS": FEWEST_CHUNKS,
    "CHUNK_UNIT": CHUNK_UNIT,
    "CHUNK_MASK": -CHUNK_UNIT,
    "LONG_CHUNK": LONG_CHUNK,
    "TASTE_SHIFT": TASTE_SHIFT,
    "JUDGED_CHUNKS": JUDGED_CHUNKS,
    "YIELD_MASK": YIELD_MASK,
    "EVERYBODY": (1 << 31) - 1,
}

# ---- State -----------------------------------------------------------------------------------------------------------

_STATE = """
; A word that is written often has 128 bytes to itself: processors fetch cache lines in pairs.
%line = type [32 x i32]
@epoch = internal global %line zeroinitializer, align 128        ; grows with every shared loop; idle workers watch it
@sleepers = internal global %line zeroinitializer, align 128     ; workers asleep on @epoch, or about to be
@busy = internal global %line zeroinitializer, align 128         ; a bit for each slot in use

@started = internal global i32 0, align 128                      ; workers ever started; the newest has this number
@helpers = internal global i32 0                                 ; workers wanted: threads - 1
@stopping = internal global i32 0                                ; not 0: workers return
@running = internal global i32 0                                 ; workers that have not returned
@starting = internal global i32 0                                ; not 0: some thread is starting workers
@spin_ticks = internal global i64 0                              ; how long an idle worker spins
@join_ticks = internal global i64 0                              ; how long a caller spins for its workers
@wake_ticks = internal global i64 0                              ; what a wake-up costs, about
@debt = internal global i64 0, align 128                         ; ticks worked alone in a row of short loops
@last_alone = internal global i64 0                              ; when such a loop last ended

%home = type { i64, i64, [112 x i8] }                            ; next chunk, end of the part
%slot = type { i32, ptr, ptr, i64, i64, i64, i64, i64, i64, i64, [48 x i8], [$HOMES x %home] }
@slots = internal global [$SLOTS x %slot] zeroinitializer, align 128

declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.smax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
"""

# ---- For the runtime -------------------------------------------------------------------------------------------------

_CONTROL = """
; At start and in a forked child: no workers, no loops. What a thread of the parent held is free again.
define void @tack_pool_init(i32 %helpers, i64 %spin, i64 %join, i64 %wake) {
  store atomic i32 0, ptr @epoch monotonic, align 4
  store atomic i32 0, ptr @sleepers monotonic, align 4
  store atomic i32 0, ptr @started monotonic, align 4
  store atomic i32 %helpers, ptr @helpers monotonic, align 4
  store atomic i32 0, ptr @stopping monotonic, align 4
  store atomic i32 0, ptr @running monotonic, align 4
  store atomic i64 0, ptr @debt monotonic, align 8
  store i64 %spin, ptr @spin_ticks
  store i64 %join, ptr @join_ticks
  store i64 %wake, ptr @wake_ticks
  br label %clear
clear:
  %i = phi i64 [0, %0], [%next, %clear]
  %state = getelementptr [$SLOTS x %slot], ptr @slots, i64 0, i64 %i
  store atomic i32 0, ptr %state monotonic, align 4
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, $SLOTS
  br i1 %more, label %clear, label %done
done:
  call void @wait_init()
  call void @spawn_init()
  call void @place_init()
  store atomic i32 0, ptr @starting monotonic, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; Takes effect at the next loop. Workers beyond the number stay and sleep: a loop has tickets for its team only.
define void @tack_pool_set_helpers(i32 %helpers) {
  store atomic i32 %helpers, ptr @helpers monotonic, align 4
  ret void
}

define i32 @tack_pool_helpers() {
  %helpers = load atomic i32, ptr @helpers monotonic, align 4
  ret i32 %helpers
}

; Tells all workers to return; later loops run in their callers. May be called again, for those who were about to sleep.
define void @tack_pool_stop() {
  store atomic i32 0, ptr @helpers monotonic, align 4
  store atomic i32 1, ptr @stopping release, align 4
  atomicrmw add ptr @epoch, i32 1 seq_cst
  call void @wake(ptr @epoch, i32 $EVERYBODY)
  ret void
}

define i32 @tack_pool_running() {
  %running = load atomic i32, ptr @running acquire, align 4
  ret i32 %running
}

; Starts the workers that are missing: at the first shared loop, after fork(), after a larger number was set.
define internal void @start_workers() noinline {
  %x = cmpxchg ptr @starting, i32 0, i32 1 acq_rel monotonic
  %mine = extractvalue {i32, i1} %x, 1
  br i1 %mine, label %begin, label %out                          ; else another thread is at it: do not wait for it
begin:
  call i1 @note_caller()
  br label %next
next:
  %started = load atomic i32, ptr @started monotonic, align 4
  %helpers = load atomic i32, ptr @helpers monotonic, align 4
  %missing = icmp slt i32 %started, %helpers
  br i1 %missing, label %start, label %done
start:
  %number = add i32 %started, 1
  atomicrmw add ptr @running, i32 1 monotonic                    ; before it runs, lest a shutdown miss it
  %ok = call i1 @spawn(i32 %number)
  br i1 %ok, label %made, label %failed
made:
  store atomic i32 %number, ptr @started monotonic, align 4
  br label %next
failed:                                                          ; no more to be had: live with those there are
  atomicrmw sub ptr @running, i32 1 monotonic
  store atomic i32 %started, ptr @helpers monotonic, align 4
  br label %done
done:
  store atomic i32 0, ptr @starting release, align 4
  br label %out
out:
  ret void
}
"""

# ---- Spinning and waking ---------------------------------------------------------------------------------------------

_WAITING = """
; Spins until ((*word & mask) == value) is %wanted (returns true), or for %limit ticks (returns false).
define internal i1 @spin(ptr %word, i32 %mask, i32 %value, i1 %wanted, i64 %limit) {
  %t0 = call i64 @tack_pool_ticks()
  br label %again
again:
  %i = phi i32 [1, %0], [%i1, %turn]
  %v = load atomic i32, ptr %word acquire, align 4
  %masked = and i32 %v, %mask
  %equal = icmp eq i32 %masked, %value
  %hit = icmp eq i1 %equal, %wanted
  br i1 %hit, label %yes, label %rest
rest:
  call void @pause()
  %i1 = add i32 %i, 1
  %low = and i32 %i, $YIELD_MASK
  %due = icmp eq i32 %low, 0
  br i1 %due, label %yield, label %turn
yield:                                                           ; who we wait for may need this very processor
  call void @yield_cpu()
  br label %turn
turn:
  %t = call i64 @tack_pool_ticks()
  %dt = sub i64 %t, %t0
  %early = icmp slt i64 %dt, %limit
  br i1 %early, label %again, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; Wakes at most two sleepers, if there are any: each of them wakes two more if work is left, so that neither the caller
; nor any worker makes a long series of system calls.
define internal void @wake_some(i64 %wanted) {
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %any = icmp sgt i32 %sleepers, 0
  br i1 %any, label %go, label %out
go:
  %two = call i64 @llvm.umin.i64(i64 %wanted, i64 2)
  %count = trunc i64 %two to i32
  call void @wake(ptr @epoch, i32 %count)
  br label %out
out:
  ret void
}
"""


def pool_source(target: PoolTarget) -> str:
    """Return the thread pool as LLVM IR text.

    Parameters
    ----------
    target : PoolTarget
        The machine it is for. The text depends on nothing else.

    Returns
    -------
    str
        A module that defines the functions in `EXPORTS`; libc and POSIX threads are its only imports.

    Examples
    --------
    >>> target = PoolTarget(machine="x86_64", system="linux", waiting="futex")
    >>> "define void @tack_parallel_for(" in pool_source(target)
    True
    """
    core = _STATE + _CONTROL + _WAITING + CHUNKS + SLOT_USE + LOOP + WORKER
    return processor_source(target) + system_source(target) + Template(core).substitute(_NAMES)
