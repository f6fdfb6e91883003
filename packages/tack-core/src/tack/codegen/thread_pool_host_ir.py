"""What differs from one machine to the next in the CPU thread pool, as LLVM IR text.

`thread_pool_ir` holds the algorithm; the pieces here are its ground:

* by processor: a pause for spin loops, a cheap clock, the floating-point control register;
* by system: waiting on a 32-bit word, waking its waiters, starting a thread, keeping a thread off a processor.

Every flavour defines the same internal functions, so the algorithm names none of them::

    void @pause()                      i64  @tack_pool_ticks()
    i64  @float_mode_enter()           void @float_mode_leave(i64 saved)
    void @wait(ptr word, i32 seen)     void @wake(ptr word, i32 count)     void @wait_init()
    void @yield_cpu()                  i1   @spawn(i32 number)             void @spawn_init()
    i1   @note_caller()                void @keep_off_caller(ptr place)    void @go_anywhere(ptr place)
    void @leave_caller(ptr place)      void @place_init()

Nothing is asked of the running process here: `PoolTarget` carries all of it, and is the cache key of the text.
"""

from __future__ import annotations

from string import Template
from typing import Literal

from tack.lang.records import record

X86_64 = frozenset({"x86_64", "amd64"})
AARCH64 = frozenset({"aarch64", "arm64"})

# The number of the futex system call by processor. It is called through libc's `syscall`, so no inline assembly is due.
SYS_FUTEX = {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
FUTEX_WAIT_PRIVATE = 128
FUTEX_WAKE_PRIVATE = 129

# musl gives a new thread 128 KiB and macOS 512 KiB: too little for a kernel with arrays of its own.
STACK_BYTES = 8 << 20

SSE_DEFAULT_MODE = 0x1F80  # MXCSR: all exceptions masked, round to nearest, subnormals kept
SSE_MODE_MASK = 0xFFC0  # without the six sticky exception flags
CLOCK_MONOTONIC = {"darwin": 6}  # 1 elsewhere
CREATE_DETACHED = {"darwin": 2}  # PTHREAD_CREATE_DETACHED; 1 elsewhere

CPU_SET_BITS = 1024  # libc's cpu_set_t; the calls fail on a larger machine, and its workers stay where they are

Waiting = Literal["futex", "condvar", "none"]


@record(frozen=True)
class PoolTarget:
    """The machine for which the pool is written; its fields are the cache key of the text.

    Parameters
    ----------
    machine : str
        Processor as `platform.machine()` names it, in lower case.
    system : str
        Operating system as `sys.platform` names it.
    waiting : {"futex", "condvar", "none"}
        How an idle thread sleeps. "none" is for systems without POSIX threads: no worker is ever started and every loop
        runs in the thread that calls it.
    blocked_signals : int
        Bit k - 1 is set when workers must leave signal k to the other threads.
    sig_block, sig_setmask : int
        The system's SIG_BLOCK and SIG_SETMASK, which POSIX leaves open.
    """

    machine: str
    system: str
    waiting: Waiting
    blocked_signals: int = 0
    sig_block: int = 0
    sig_setmask: int = 2

    def __post_init__(self) -> None:
        if self.waiting == "futex" and (self.system != "linux" or self.machine not in SYS_FUTEX):
            raise ValueError(f"there is no futex on {self.system} {self.machine}; use waiting='condvar'")


# ---- By processor ----------------------------------------------------------------------------------------------------

_X86_PROCESSOR = f"""
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

; A spinning thread leaves the core to its sibling, and leaves the spin without a memory-order flush.
define internal void @pause() alwaysinline {{
  call void @llvm.x86.sse2.pause()
  ret void
}}

; rdtsc: invariant on every x86-64 of this century's second decade, and 10 ns instead of a call into the kernel.
define i64 @tack_pool_ticks() alwaysinline {{
  %t = call i64 @llvm.readcyclecounter()
  ret i64 %t
}}

; Sets default rounding and subnormals; returns the former MXCSR, or -1 if nothing had to change: a library that has set
; flush-to-zero in the calling thread must not make that thread's share of a loop differ from the others'.
define internal i64 @float_mode_enter() alwaysinline {{
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %old = load i32, ptr %p
  %mode = and i32 %old, {SSE_MODE_MASK}
  %same = icmp eq i32 %mode, {SSE_DEFAULT_MODE}
  br i1 %same, label %kept, label %set
set:
  store i32 {SSE_DEFAULT_MODE}, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  %saved = zext i32 %old to i64
  ret i64 %saved
kept:
  ret i64 -1
}}

define internal void @float_mode_leave(i64 %saved) alwaysinline {{
  %p = alloca i32
  %kept = icmp eq i64 %saved, -1
  br i1 %kept, label %out, label %restore
restore:
  %old = trunc i64 %saved to i32
  store i32 %old, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  br label %out
out:
  ret void
}}
"""

_AARCH64_PROCESSOR = """
declare void @llvm.aarch64.isb(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)
declare i64 @llvm.read_volatile_register.i64(metadata)
!0 = !{!"CNTVCT_EL0"}

; `yield` does nothing on most cores; an instruction barrier waits for about as long as x86's pause.
define internal void @pause() alwaysinline {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}

; The virtual counter: llvm.readcyclecounter would read PMCCNTR_EL0, which traps unless the kernel opens it to users.
define i64 @tack_pool_ticks() alwaysinline {
  %t = call i64 @llvm.read_volatile_register.i64(metadata !0)
  ret i64 %t
}

; FPCR is 0 by default; its flags live in another register. Returns the former mode, or -1 if nothing had to change.
define internal i64 @float_mode_enter() alwaysinline {
  %old = call i64 @llvm.aarch64.get.fpcr()
  %same = icmp eq i64 %old, 0
  br i1 %same, label %kept, label %set
set:
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %old
kept:
  ret i64 -1
}

define internal void @float_mode_leave(i64 %saved) alwaysinline {
  %kept = icmp eq i64 %saved, -1
  br i1 %kept, label %out, label %restore
restore:
  call void @llvm.aarch64.set.fpcr(i64 %saved)
  br label %out
out:
  ret void
}
"""

_OTHER_PROCESSOR = Template("""
declare i32 @clock_gettime(i32, ptr)

define internal void @pause() alwaysinline {
  ret void
}

; The system's clock in nanoseconds: no user-readable counter is known to be safe on this processor.
define i64 @tack_pool_ticks() {
  %now = alloca [2 x i64]
  call i32 @clock_gettime(i32 $CLOCK, ptr %now)
  %s = load i64, ptr %now
  %np = getelementptr i64, ptr %now, i64 1
  %ns = load i64, ptr %np
  %whole = mul i64 %s, 1000000000
  %t = add i64 %whole, %ns
  ret i64 %t
}

define internal i64 @float_mode_enter() alwaysinline {
  ret i64 -1
}

define internal void @float_mode_leave(i64 %saved) alwaysinline {
  ret void
}
""")


def processor_source(target: PoolTarget) -> str:
    """Return pause, clock and floating-point mode for `target.machine`."""
    if target.machine in X86_64:
        return _X86_PROCESSOR
    if target.machine in AARCH64:
        return _AARCH64_PROCESSOR
    return _OTHER_PROCESSOR.substitute(CLOCK=CLOCK_MONOTONIC.get(target.system, 1))


# ---- By system: waiting on a word ------------------------------------------------------------------------------------

_FUTEX = Template("""
declare i64 @syscall(i64, ...)

; The kernel compares the word with %seen and goes to sleep in one step, so a change in between is never slept through.
define internal void @wait(ptr %word, i32 %seen) {
  call i64 (i64, ...) @syscall(i64 $NUMBER, ptr %word, i64 $WAIT, i32 %seen, ptr null, ptr null, i64 0)
  ret void
}

define internal void @wake(ptr %word, i32 %count) {
  call i64 (i64, ...) @syscall(i64 $NUMBER, ptr %word, i64 $WAKE, i32 %count, ptr null, ptr null, i64 0)
  ret void
}

define internal void @wait_init() {
  ret void
}
""")

# Two mutexes and two condition variables, one pair for @epoch and one for all slots: idle workers, who are many, need
# not wake for the sake of one caller.
_CONDVAR = """
@epoch_mutex = internal global [256 x i8] zeroinitializer, align 128
@epoch_cond = internal global [256 x i8] zeroinitializer, align 128
@slot_mutex = internal global [256 x i8] zeroinitializer, align 128
@slot_cond = internal global [256 x i8] zeroinitializer, align 128
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)

; A waker changes the word before it takes the mutex, so a waiter that still sees the old value here is woken later.
; Every caller looks again after waiting: a spurious return is harmless.
define internal void @wait(ptr %word, i32 %seen) {
  %is_epoch = icmp eq ptr %word, @epoch
  %mutex = select i1 %is_epoch, ptr @epoch_mutex, ptr @slot_mutex
  %cond = select i1 %is_epoch, ptr @epoch_cond, ptr @slot_cond
  call i32 @pthread_mutex_lock(ptr %mutex)
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %sleep, label %out
sleep:
  call i32 @pthread_cond_wait(ptr %cond, ptr %mutex)
  br label %out
out:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; All of them: a signal for one could reach a waiter of another slot, who shares the condition variable.
define internal void @wake(ptr %word, i32 %count) {
  %is_epoch = icmp eq ptr %word, @epoch
  %mutex = select i1 %is_epoch, ptr @epoch_mutex, ptr @slot_mutex
  %cond = select i1 %is_epoch, ptr @epoch_cond, ptr @slot_cond
  call i32 @pthread_mutex_lock(ptr %mutex)
  call i32 @pthread_cond_broadcast(ptr %cond)
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; Also in a forked child, where a thread that no longer exists may have held them.
define internal void @wait_init() {
  call i32 @pthread_mutex_init(ptr @epoch_mutex, ptr null)
  call i32 @pthread_mutex_init(ptr @slot_mutex, ptr null)
  call i32 @pthread_cond_init(ptr @epoch_cond, ptr null)
  call i32 @pthread_cond_init(ptr @slot_cond, ptr null)
  ret void
}
"""

# ---- By system: starting a thread ------------------------------------------------------------------------------------

_POSIX_THREADS = Template("""
@attributes = internal global [128 x i8] zeroinitializer, align 16
@old_mask = internal global [128 x i8] zeroinitializer, align 16
@worker_mask = internal global [16 x i64] [i64 $SIGNALS, $MORE_SIGNALS]
declare i32 @sched_yield()
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)

define internal void @yield_cpu() {
  call i32 @sched_yield()
  ret void
}

define internal void @spawn_init() {
  call i32 @pthread_attr_init(ptr @attributes)
  call i32 @pthread_attr_setstacksize(ptr @attributes, i64 $STACK)
  call i32 @pthread_attr_setdetachstate(ptr @attributes, i32 $DETACHED)
  ret void
}

; Starts worker %number. A new thread inherits the signal mask: Python's signals must interrupt Python's own threads, or
; Ctrl-C would not end a sleep(). Only one thread spawns at a time (@start_workers), so @old_mask needs no lock.
define internal i1 @spawn(i32 %number) {
  %handle = alloca i64
  %argument = inttoptr i32 %number to ptr
  call i32 @pthread_sigmask(i32 $SIG_BLOCK, ptr @worker_mask, ptr @old_mask)
  %failed = call i32 @pthread_create(ptr %handle, ptr @attributes, ptr @worker, ptr %argument)
  call i32 @pthread_sigmask(i32 $SIG_SETMASK, ptr @old_mask, ptr null)
  %ok = icmp eq i32 %failed, 0
  ret i1 %ok
}
""")

# ---- By system: where a worker sleeps --------------------------------------------------------------------------------

# Linux likes to wake a thread on the processor of whoever wakes it. There the worker waits until the caller, who does
# not stop, loses the processor: 1.8 ms after a wake-up was measured with the other CPU idle, against 40 us with this.
_LINUX_PLACES = Template("""
%place = type { i64, [$WORDS x i64], [$WORDS x i64] }           ; is it kept off?, its own mask, the narrower one
@caller_cpu = internal global i32 -1                             ; where the last caller ran who woke or started workers
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @place_init() {
  store atomic i32 -1, ptr @caller_cpu monotonic, align 4
  ret void
}

; For a caller about to wake workers: true if those asleep expect it on another processor, and may be on this one.
define internal i1 @note_caller() {
  %cpu = call i32 @sched_getcpu()
  %expected = atomicrmw xchg ptr @caller_cpu, i32 %cpu monotonic
  %moved = icmp ne i32 %cpu, %expected
  ret i1 %moved
}

; Takes the caller's processor out of the worker's mask. An error leaves the worker as it is: no CPU may be left, the
; machine may be too large for the mask, a sandbox may forbid it.
define internal void @keep_off_caller(ptr %place) {
  call void @go_anywhere(ptr %place)
  %cpu = load atomic i32, ptr @caller_cpu monotonic, align 4
  %known = icmp ult i32 %cpu, $BITS
  br i1 %known, label %read, label %out
read:
  %own = getelementptr %place, ptr %place, i32 0, i32 1
  %narrow = getelementptr %place, ptr %place, i32 0, i32 2
  %unread = call i32 @sched_getaffinity(i32 0, i64 $BYTES, ptr %own)
  %have = icmp eq i32 %unread, 0
  br i1 %have, label %narrower, label %out
narrower:
  call void @llvm.memcpy.p0.p0.i64(ptr %narrow, ptr %own, i64 $BYTES, i1 false)
  %index = lshr i32 %cpu, 6
  %word_p = getelementptr i64, ptr %narrow, i32 %index
  %word = load i64, ptr %word_p
  %cpu64 = zext i32 %cpu to i64
  %shift = and i64 %cpu64, 63
  %bit = shl i64 1, %shift
  %others = xor i64 %bit, -1
  %rest = and i64 %word, %others
  store i64 %rest, ptr %word_p
  %failed = call i32 @sched_setaffinity(i32 0, i64 $BYTES, ptr %narrow)
  %kept = icmp eq i32 %failed, 0
  %flag = zext i1 %kept to i64
  store i64 %flag, ptr %place
  br label %out
out:
  ret void
}

; Gives the worker its own mask back: awake, it is the scheduler's to place.
define internal void @go_anywhere(ptr %place) {
  %flag = load i64, ptr %place
  %free = icmp eq i64 %flag, 0
  br i1 %free, label %out, label %restore
restore:
  store i64 0, ptr %place
  %own = getelementptr %place, ptr %place, i32 0, i32 1
  call i32 @sched_setaffinity(i32 0, i64 $BYTES, ptr %own)
  br label %out
out:
  ret void
}

; For a worker that has just begun to run: away from the caller's processor if it is there.
define internal void @leave_caller(ptr %place) {
  %cpu = call i32 @sched_getcpu()
  %caller = load atomic i32, ptr @caller_cpu monotonic, align 4
  %same = icmp eq i32 %cpu, %caller
  br i1 %same, label %leave, label %out
leave:
  call void @keep_off_caller(ptr %place)
  br label %out
out:
  ret void
}
""")

_NO_PLACES = """
%place = type { i64 }

define internal void @place_init() {
  ret void
}

define internal i1 @note_caller() {
  ret i1 false
}

define internal void @keep_off_caller(ptr %place) {
  ret void
}

define internal void @go_anywhere(ptr %place) {
  ret void
}

define internal void @leave_caller(ptr %place) {
  ret void
}
"""

# ---- By system: no threads at all ------------------------------------------------------------------------------------

# @worker is referenced nowhere here, which is allowed: its code is simply dead.
_NO_THREADS = """
define internal void @wait(ptr %word, i32 %seen) {
  ret void
}

define internal void @wake(ptr %word, i32 %count) {
  ret void
}

define internal void @wait_init() {
  ret void
}

define internal void @yield_cpu() {
  ret void
}

define internal void @spawn_init() {
  ret void
}

; The pool lives with the threads it gets: none.
define internal i1 @spawn(i32 %number) {
  ret i1 false
}
"""


def system_source(target: PoolTarget) -> str:
    """Return waiting, waking, thread creation and thread placement for `target.system`."""
    if target.waiting == "none":
        return _NO_THREADS + _NO_PLACES
    threads = _POSIX_THREADS.substitute(
        SIGNALS=target.blocked_signals,
        MORE_SIGNALS=", ".join(["i64 0"] * 15),
        STACK=STACK_BYTES,
        DETACHED=CREATE_DETACHED.get(target.system, 1),
        SIG_BLOCK=target.sig_block,
        SIG_SETMASK=target.sig_setmask,
    )
    if target.system == "linux":
        threads += _LINUX_PLACES.substitute(BITS=CPU_SET_BITS, BYTES=CPU_SET_BITS // 8, WORDS=CPU_SET_BITS // 64)
    else:
        threads += _NO_PLACES
    if target.waiting == "condvar":
        return _CONDVAR + threads
    futex = _FUTEX.substitute(
        NUMBER=SYS_FUTEX[target.machine],
        WAIT=FUTEX_WAIT_PRIVATE,
        WAKE=FUTEX_WAKE_PRIVATE,
    )
    return futex + threads
