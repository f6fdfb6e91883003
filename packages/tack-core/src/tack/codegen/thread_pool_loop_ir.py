"""The loops and the workers of the CPU thread pool, as templates of LLVM IR text.

`thread_pool_ir` explains the algorithm, defines the state that these functions share, and fills in the `$NAMES`.
"""

from __future__ import annotations

from typing import Final

# ---- Chunks ----------------------------------------------------------------------------------------------------------

CHUNKS: Final = """
; Takes chunks from part %home on, round all parts, until none is left (returns true). A claim takes the loop's share of
; what is left in a part. With %bar: not more than were done so far, and only until, judged by the time since %t0, the
; rest looks longer than %bar ticks (returns false).
define internal i1 @run_chunks(ptr %s, i64 %lane, i64 %home, i64 %bar, i64 %t0) {
  %n_p = getelementptr %slot, ptr %s, i32 0, i32 $N
  %n = load i64, ptr %n_p
  %grain_p = getelementptr %slot, ptr %s, i32 0, i32 $GRAIN
  %grain = load i64, ptr %grain_p
  %body_p = getelementptr %slot, ptr %s, i32 0, i32 $BODY
  %body = load ptr, ptr %body_p
  %ctx_p = getelementptr %slot, ptr %s, i32 0, i32 $CTX
  %ctx = load ptr, ptr %ctx_p
  %homes_p = getelementptr %slot, ptr %s, i32 0, i32 $HOME_COUNT
  %homes = load i64, ptr %homes_p
  %shift_p = getelementptr %slot, ptr %s, i32 0, i32 $SHIFT
  %shift = load i64, ptr %shift_p
  %judging = icmp ne i64 %bar, 0
  br label %part
part:
  %h = phi i64 [%home, %0], [%h_next, %next]
  %parts = phi i64 [%homes, %0], [%parts_left, %next]
  %done = phi i64 [0, %0], [%done_now, %next]
  %cursor = getelementptr %slot, ptr %s, i32 0, i32 $HOME, i64 %h
  %end_p = getelementptr %home, ptr %cursor, i32 0, i32 1
  %end = load i64, ptr %end_p
  br label %look
look:                                                            ; a look is cheaper than a claim in a finished part
  %done_now = phi i64 [%done, %part], [%done_more, %ran], [%done_more, %judge]
  %seen = load atomic i64, ptr %cursor monotonic, align 8
  %open = icmp slt i64 %seen, %end
  br i1 %open, label %claim, label %next
claim:
  %seen_left = sub i64 %end, %seen
  %share = lshr i64 %seen_left, %shift
  %as_many = call i64 @llvm.umin.i64(i64 %share, i64 %done_now)
  %careful = select i1 %judging, i64 %as_many, i64 %share
  %wanted = call i64 @llvm.umax.i64(i64 %careful, i64 1)
  %k = atomicrmw add ptr %cursor, i64 %wanted monotonic
  %mine = icmp slt i64 %k, %end
  br i1 %mine, label %run, label %next
run:
  %there = sub i64 %end, %k
  %taken = call i64 @llvm.umin.i64(i64 %wanted, i64 %there)
  %begin = mul i64 %k, %grain
  %left = sub i64 %n, %begin
  %whole = mul i64 %taken, %grain
  %length = call i64 @llvm.umin.i64(i64 %left, i64 %whole)
  %stop = add i64 %begin, %length
  call void %body(ptr %ctx, i64 %begin, i64 %stop, i64 %lane)
  br label %ran
ran:
  %done_more = add i64 %done_now, %taken
  br i1 %judging, label %judge, label %look
judge:
  %worth = call i1 @worth_waking(ptr %s, i64 %t0, i64 %done_more, i64 %bar)
  br i1 %worth, label %early, label %look
next:
  %h1 = add i64 %h, 1
  %wrap = icmp eq i64 %h1, %homes
  %h_next = select i1 %wrap, i64 0, i64 %h1
  %parts_left = sub i64 %parts, 1
  %over = icmp eq i64 %parts_left, 0
  br i1 %over, label %spent, label %part
spent:                                                           ; tells workers that joining is of no use any more
  %spent_p = getelementptr %slot, ptr %s, i32 0, i32 $SPENT
  store atomic i64 1, ptr %spent_p monotonic, align 8
  ret i1 true
early:
  ret i1 false
}

; Is (ticks a chunk so far) x (chunks left) more than %bar? Written without a division.
define internal i1 @worth_waking(ptr %s, i64 %t0, i64 %done, i64 %bar) {
  %chunks_p = getelementptr %slot, ptr %s, i32 0, i32 $CHUNKS
  %chunks = load i64, ptr %chunks_p
  %t = call i64 @tack_pool_ticks()
  %dt = sub i64 %t, %t0
  %left = sub i64 %chunks, %done
  %rest = mul i64 %dt, %left
  %worth = mul i64 %bar, %done
  %long = icmp ugt i64 %rest, %worth
  ret i1 %long
}

; All of it in order in this thread alone, in chunks of %grain: no atomics, no slot.
define internal void @run_serial(ptr %body, ptr %ctx, i64 %n, i64 %grain) {
  br label %chunk
chunk:
  %begin = phi i64 [0, %0], [%end, %chunk]
  %left = sub i64 %n, %begin
  %length = call i64 @llvm.umin.i64(i64 %left, i64 %grain)
  %end = add i64 %begin, %length
  call void %body(ptr %ctx, i64 %begin, i64 %end, i64 0)
  %more = icmp slt i64 %end, %n
  br i1 %more, label %chunk, label %done
done:
  ret void
}
"""

# ---- Slots -----------------------------------------------------------------------------------------------------------

SLOT_USE: Final = """
; The slot of the lowest bit set.
define internal ptr @slot_of(i32 %bits) alwaysinline {
  %i = call i32 @llvm.cttz.i32(i32 %bits, i1 true)
  %s = getelementptr [$SLOTS x %slot], ptr @slots, i32 0, i32 %i
  ret ptr %s
}

; Claims a free slot: its bit, or 0 if all are in use.
define internal i32 @claim_slot() {
  %first = load atomic i32, ptr @busy monotonic, align 4
  br label %try
try:
  %seen = phi i32 [%first, %0], [%now, %take]
  %free = xor i32 %seen, -1
  %none = icmp eq i32 %free, 0
  br i1 %none, label %out, label %take
take:
  %negative = sub i32 0, %free
  %bit = and i32 %free, %negative
  %used = or i32 %seen, %bit
  %x = cmpxchg ptr @busy, i32 %seen, i32 %used acq_rel monotonic
  %now = extractvalue {i32, i1} %x, 0
  %ok = extractvalue {i32, i1} %x, 1
  br i1 %ok, label %out, label %try
out:
  %got = phi i32 [0, %try], [%bit, %take]
  ret i32 %got
}

; Writes the loop into a claimed slot, deals its chunks into parts and opens it with a ticket for each helper. The state
; is stored last: nobody reads the rest before joining through it.
define internal void @open_slot(ptr %s, ptr %body, ptr %ctx, i64 %n, i64 %grain, i64 %chunks, i64 %team, i64 %shift) {
  %body_p = getelementptr %slot, ptr %s, i32 0, i32 $BODY
  store ptr %body, ptr %body_p
  %ctx_p = getelementptr %slot, ptr %s, i32 0, i32 $CTX
  store ptr %ctx, ptr %ctx_p
  %n_p = getelementptr %slot, ptr %s, i32 0, i32 $N
  store i64 %n, ptr %n_p
  %grain_p = getelementptr %slot, ptr %s, i32 0, i32 $GRAIN
  store i64 %grain, ptr %grain_p
  %chunks_p = getelementptr %slot, ptr %s, i32 0, i32 $CHUNKS
  store i64 %chunks, ptr %chunks_p
  %team_p = getelementptr %slot, ptr %s, i32 0, i32 $TEAM
  store i64 %team, ptr %team_p
  %shift_p = getelementptr %slot, ptr %s, i32 0, i32 $SHIFT
  store i64 %shift, ptr %shift_p
  %spent_p = getelementptr %slot, ptr %s, i32 0, i32 $SPENT
  store atomic i64 0, ptr %spent_p monotonic, align 8
  %homes = call i64 @llvm.umin.i64(i64 %team, i64 $HOMES)
  %homes_p = getelementptr %slot, ptr %s, i32 0, i32 $HOME_COUNT
  store i64 %homes, ptr %homes_p
  %each = udiv i64 %chunks, %homes
  br label %deal
deal:
  %h = phi i64 [0, %0], [%h1, %deal]
  %from = phi i64 [0, %0], [%to, %deal]
  %h1 = add i64 %h, 1
  %even = add i64 %from, %each
  %last = icmp eq i64 %h1, %homes
  %to = select i1 %last, i64 %chunks, i64 %even
  %cursor = getelementptr %slot, ptr %s, i32 0, i32 $HOME, i64 %h
  store atomic i64 %from, ptr %cursor monotonic, align 8
  %end_p = getelementptr %home, ptr %cursor, i32 0, i32 1
  store i64 %to, ptr %end_p
  br i1 %last, label %open, label %deal
open:
  %helpers = sub i64 %team, 1
  %helpers32 = trunc i64 %helpers to i32
  %tickets = shl i32 %helpers32, $TICKET_SHIFT
  %state = or i32 %tickets, $ACTIVE
  store atomic i32 %state, ptr %s release, align 4
  ret void
}

; Closes the slot and waits for the workers that joined: a little while spinning, then asleep.
define internal void @close_slot(ptr %s) {
  %was = atomicrmw and ptr %s, i32 $NOT_ACTIVE acq_rel           ; nobody can join from here on
  %users = and i32 %was, $COUNT
  %alone = icmp eq i32 %users, 0
  br i1 %alone, label %out, label %poll
poll:
  %limit = load i64, ptr @join_ticks
  %gone = call i1 @spin(ptr %s, i32 $COUNT, i32 0, i1 true, i64 %limit)
  br i1 %gone, label %out, label %doze
doze:
  atomicrmw or ptr %s, i32 $WAITER acq_rel                       ; asks the last user for a wake-up
  br label %check
check:
  %v = load atomic i32, ptr %s acquire, align 4
  %still = and i32 %v, $COUNT
  %none = icmp eq i32 %still, 0
  br i1 %none, label %out, label %nap
nap:
  call void @wait(ptr %s, i32 %v)
  br label %check
out:
  ret void
}
"""

# ---- The loop, and the workers ---------------------------------------------------------------------------------------

LOOP: Final = """
define void @tack_parallel_for(ptr %body, ptr %ctx, i64 %n, i64 %grain, i64 %limit, i64 %unit) {
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %plan, label %out
plan:
  %mode = call i64 @float_mode_enter()
  %helpers = load atomic i32, ptr @helpers monotonic, align 4
  %helpers64 = zext i32 %helpers to i64
  %threads = add i64 %helpers64, 1
  %unlimited = icmp sle i64 %limit, 0
  %most = select i1 %unlimited, i64 %threads, i64 %limit
  %allowed = call i64 @llvm.umin.i64(i64 %most, i64 %threads)
  %given = icmp sgt i64 %grain, 0
  %negative = sub i64 0, %grain
  %least = call i64 @llvm.umax.i64(i64 %negative, i64 1)         ; anything where a grain was given
  %each = udiv i64 %n, %allowed
  %fit = udiv i64 %each, %least
  %some_chunks = call i64 @llvm.umax.i64(i64 %fit, i64 $FEWEST_CHUNKS)
  %thread_chunks = call i64 @llvm.umin.i64(i64 %some_chunks, i64 $MOST_CHUNKS)
  %wanted_chunks = mul i64 %allowed, %thread_chunks
  %last = sub i64 %n, 1
  %below = udiv i64 %last, %wanted_chunks
  %even = add i64 %below, 1
  %long = icmp ugt i64 %even, $LONG_CHUNK
  %lines = call i64 @llvm.umax.i64(i64 %unit, i64 $CHUNK_UNIT)   ; begins where a cache line does, if the arrays do
  %whole = select i1 %long, i64 %lines, i64 %unit
  %above = add i64 %below, %whole
  %units = udiv i64 %above, %whole
  %automatic = mul i64 %units, %whole
  %g = select i1 %given, i64 %grain, i64 %automatic
  %sample = select i1 %given, i64 0, i64 %automatic              ; who gave a grain may count on its chunks
  %shift = select i1 %given, i64 63, i64 $CLAIM_SHIFT
  %full = udiv i64 %last, %g
  %chunks = add i64 %full, 1
  %team = call i64 @llvm.umin.i64(i64 %allowed, i64 %chunks)
  %alone = icmp ule i64 %team, 1
  br i1 %alone, label %serial, label %claim
claim:
  %bit = call i32 @claim_slot()
  %none = icmp eq i32 %bit, 0
  br i1 %none, label %serial, label %share
share:
  %s = call ptr @slot_of(i32 %bit)
  call void @open_slot(ptr %s, ptr %body, ptr %ctx, i64 %n, i64 %g, i64 %chunks, i64 %team, i64 %shift)
  call void @run_shared(ptr %s, i64 %chunks, i64 %team, i32 %helpers, i64 %sample, i64 %unit)
  call void @close_slot(ptr %s)
  %others = xor i32 %bit, -1
  atomicrmw and ptr @busy, i32 %others release
  br label %restore
serial:
  %at_once = select i1 %given, i64 %g, i64 %n
  call void @run_serial(ptr %body, ptr %ctx, i64 %n, i64 %at_once)
  br label %restore
restore:
  call void @float_mode_leave(i64 %mode)
  br label %out
out:
  ret void
}

; The caller's share of an open loop: announces it, wakes sleepers if that pays, takes chunks until none is left. With
; %sample, the length of a chunk, it judges after a part of the first one, as a whole one may take milliseconds.
define internal void @run_shared(ptr %s, i64 %chunks, i64 %team, i32 %helpers, i64 %sample, i64 %unit) {
  %wanted = sub i64 %team, 1
  %started = load atomic i32, ptr @started monotonic, align 4
  %missing = icmp slt i32 %started, %helpers
  br i1 %missing, label %start, label %announce
start:
  call void @start_workers()
  br label %announce
announce:                                                        ; first the epoch, then a look for sleepers: a worker
  atomicrmw add ptr @epoch, i32 1 seq_cst                        ; does the reverse, so one of the two sees the other
  %sleepers = load atomic i32, ptr @sleepers seq_cst, align 4
  %there = load atomic i32, ptr @started monotonic, align 4      ; once more threads were set, they are more than wanted
  %more = sub i32 %there, %helpers
  %surplus = call i32 @llvm.smax.i32(i32 %more, i32 0)
  %asleep = icmp sgt i32 %sleepers, %surplus
  br i1 %asleep, label %judge, label %work
judge:                                                           ; a debt from before an idle time counts no more
  %wake_ticks = load i64, ptr @wake_ticks
  %t0 = call i64 @tack_pool_ticks()
  %last = load atomic i64, ptr @last_alone monotonic, align 8
  %gap = sub i64 %t0, %last
  %spin_ticks = load i64, ptr @spin_ticks
  %cold = icmp ugt i64 %gap, %spin_ticks
  %debt = load atomic i64, ptr @debt monotonic, align 8
  %owed = select i1 %cold, i64 0, i64 %debt
  %modest = icmp ule i64 %owed, %wake_ticks
  %part = call i64 @begun_part(i64 %sample, i64 %unit)
  %divisible = icmp slt i64 %part, %sample
  %each = select i1 %divisible, i64 $FEWEST_CHUNKS, i64 $JUDGED_CHUNKS
  %enough = mul i64 %team, %each
  %many = icmp uge i64 %chunks, %enough
  %given = icmp eq i64 %sample, 0
  %judged = or i1 %divisible, %given                             ; else a chunk is thought to be worth a thread, and
  %fair = and i1 %many, %judged                                  ; may take milliseconds: it would run alone first
  %hold = and i1 %fair, %modest
  br i1 %hold, label %taste, label %rouse
taste:
  %begun = call i64 @taste(ptr %s, i64 %chunks, i64 %sample, i64 %part, i64 %wake_ticks, i64 %t0)
  %lengthy = icmp sge i64 %begun, 0
  br i1 %lengthy, label %rouse, label %alone
alone:
  %since = call i64 @tack_pool_ticks()
  %finished = call i1 @run_chunks(ptr %s, i64 0, i64 0, i64 %wake_ticks, i64 %since)
  br i1 %finished, label %settle, label %rouse
settle:
  %t1 = call i64 @tack_pool_ticks()
  %dt = sub i64 %t1, %t0
  %total = add i64 %owed, %dt
  store atomic i64 %total, ptr @debt monotonic, align 8
  store atomic i64 %t1, ptr @last_alone monotonic, align 8
  ret void
rouse:
  %from = phi i64 [%sample, %judge], [%begun, %taste], [%sample, %alone]
  store atomic i64 0, ptr @debt monotonic, align 8
  %moved = call i1 @note_caller()
  call void @wake_some(i64 %wanted)
  br i1 %moved, label %let_in, label %resume
let_in:                                                          ; a worker that woke here can only leave if it runs
  call void @yield_cpu()
  br label %resume
resume:
  %is_open = icmp slt i64 %from, %sample
  br i1 %is_open, label %rest, label %work
rest:
  call void @run_from(ptr %s, i64 %from, i64 %sample)
  br label %work
work:
  call i1 @run_chunks(ptr %s, i64 0, i64 0, i64 0, i64 0)
  ret void
}

; A sixteenth of a chunk, or as many units as come close to it.
define internal i64 @begun_part(i64 %sample, i64 %unit) {
  %small = lshr i64 %sample, $TASTE_SHIFT
  %whole = and i64 %small, $CHUNK_MASK
  %lines = icmp ne i64 %whole, 0
  %in_units = udiv i64 %small, %unit
  %units = mul i64 %in_units, %unit
  %few = call i64 @llvm.umax.i64(i64 %units, i64 %unit)
  %part = select i1 %lines, i64 %whole, i64 %few
  ret i64 %part
}

; The first part of chunk 0, which nobody but the caller takes while all others sleep. If that was not long enough
; to tell, the others judge: they are dearer where the loop's first indices have little to do, and nothing is cold any
; more. If the whole looks longer than %bar ticks, the index up to which the chunk has been run is returned; else the
; whole chunk is run, and -1 returned.
define internal i64 @taste(ptr %s, i64 %chunks, i64 %sample, i64 %part, i64 %bar, i64 %t0) {
  %divisible = icmp slt i64 %part, %sample
  br i1 %divisible, label %claim, label %no
claim:
  %cursor = getelementptr %slot, ptr %s, i32 0, i32 $HOME, i64 0
  %x = cmpxchg ptr %cursor, i64 0, i64 1 monotonic monotonic
  %ok = extractvalue {i64, i1} %x, 1
  br i1 %ok, label %run, label %no
run:
  call void @run_range(ptr %s, i64 0, i64 %part)
  %t1 = call i64 @tack_pool_ticks()
  %dt = sub i64 %t1, %t0
  %least = lshr i64 %bar, $TASTE_SHIFT
  %sure = icmp uge i64 %dt, %least
  %parts = udiv i64 %sample, %part
  %all = mul i64 %parts, %chunks
  %total = mul i64 %dt, %all
  %much = icmp ugt i64 %total, %bar
  %worth = and i1 %sure, %much
  br i1 %worth, label %yes, label %finish
finish:
  call void @run_from(ptr %s, i64 %part, i64 %sample)
  %t2 = call i64 @tack_pool_ticks()
  %others = sub i64 %t2, %t1
  %left = sub i64 %chunks, 1
  %others_total = mul i64 %others, %left
  %much_left = icmp ugt i64 %others_total, %bar
  br i1 %much_left, label %yes, label %no
yes:
  %upto = phi i64 [%part, %run], [%sample, %finish]
  ret i64 %upto
no:
  ret i64 -1
}

; Chunk 0 from index %from on.
define internal void @run_from(ptr %s, i64 %from, i64 %grain) {
  %n_p = getelementptr %slot, ptr %s, i32 0, i32 $N
  %n = load i64, ptr %n_p
  %stop = call i64 @llvm.umin.i64(i64 %n, i64 %grain)
  call void @run_range(ptr %s, i64 %from, i64 %stop)
  ret void
}

define internal void @run_range(ptr %s, i64 %begin, i64 %stop) {
  %body_p = getelementptr %slot, ptr %s, i32 0, i32 $BODY
  %body = load ptr, ptr %body_p
  %ctx_p = getelementptr %slot, ptr %s, i32 0, i32 $CTX
  %ctx = load ptr, ptr %ctx_p
  call void %body(ptr %ctx, i64 %begin, i64 %stop, i64 0)
  ret void
}
"""

WORKER: Final = """
; A worker looks at all slots, joins what it can, and rests when there is nothing. Its number, 1 and up, gives it the
; same part of every loop. What floating-point mode a new thread begins with is the system's affair, so it is set.
define internal ptr @worker(ptr %argument) {
  %number = ptrtoint ptr %argument to i64
  %place = alloca %place
  store i64 0, ptr %place
  %mode = call i64 @float_mode_enter()
  call void @leave_caller(ptr %place)
  br label %top
top:
  %woken = phi i1 [false, %0], [false, %joined], [%slept, %rest]
  %stopping = load atomic i32, ptr @stopping acquire, align 4
  %quit = icmp ne i32 %stopping, 0
  br i1 %quit, label %exit, label %look
look:                                                            ; the epoch before the slots: a loop opened after this
  %epoch = load atomic i32, ptr @epoch seq_cst, align 4          ; look has changed it
  %busy = load atomic i32, ptr @busy acquire, align 4
  br label %scan
scan:
  %slots = phi i32 [%busy, %look], [%others, %slot]
  %nothing = icmp eq i32 %slots, 0
  br i1 %nothing, label %rest, label %slot
slot:
  %s = call ptr @slot_of(i32 %slots)
  %minus = sub i32 %slots, 1
  %others = and i32 %slots, %minus
  %tickets = call i32 @join(ptr %s)
  %in = icmp ne i32 %tickets, 0
  br i1 %in, label %joined, label %scan
joined:
  call void @work_in(ptr %s, i64 %number, i32 %tickets, i1 %woken)
  br label %top
rest:
  %slept = call i1 @rest(i32 %epoch, ptr %place)
  br label %top
exit:
  atomicrmw sub ptr @running, i32 1 release
  ret ptr null
}

; Joins the loop in slot %s: the number of tickets there were, or 0 if it is closed, full or has no chunks left.
define internal i32 @join(ptr %s) {
  %first = load atomic i32, ptr %s acquire, align 4
  %spent_p = getelementptr %slot, ptr %s, i32 0, i32 $SPENT
  %spent = load atomic i64, ptr %spent_p monotonic, align 8
  %useful = icmp eq i64 %spent, 0                                ; a hint only: joining a spent loop would be harmless
  br i1 %useful, label %try, label %no
try:
  %state = phi i32 [%first, %0], [%now, %take]
  %active = and i32 %state, $ACTIVE
  %is_active = icmp ne i32 %active, 0
  %shifted = lshr i32 %state, $TICKET_SHIFT
  %tickets = and i32 %shifted, $COUNT
  %has_ticket = icmp ne i32 %tickets, 0
  %can = and i1 %is_active, %has_ticket
  br i1 %can, label %take, label %no
take:
  %joined = add i32 %state, $JOIN
  %x = cmpxchg ptr %s, i32 %state, i32 %joined acq_rel acquire
  %now = extractvalue {i32, i1} %x, 0
  %ok = extractvalue {i32, i1} %x, 1
  br i1 %ok, label %yes, label %try
yes:
  ret i32 %tickets
no:
  ret i32 0
}

; A worker's share of a loop that it has joined. The first to join holds the last ticket and is lane 1.
define internal void @work_in(ptr %s, i64 %number, i32 %tickets, i1 %woken) {
  %team_p = getelementptr %slot, ptr %s, i32 0, i32 $TEAM
  %team = load i64, ptr %team_p
  %drawn = zext i32 %tickets to i64
  %lane = sub i64 %team, %drawn
  %left = sub i64 %drawn, 1
  %more = icmp ne i64 %left, 0
  %pass_on = and i1 %woken, %more
  br i1 %pass_on, label %rouse, label %work
rouse:
  call void @wake_some(i64 %left)
  br label %work
work:
  %homes_p = getelementptr %slot, ptr %s, i32 0, i32 $HOME_COUNT
  %homes = load i64, ptr %homes_p
  %home = urem i64 %number, %homes
  call i1 @run_chunks(ptr %s, i64 %lane, i64 %home, i64 0, i64 0)
  %was = atomicrmw sub ptr %s, i32 1 acq_rel                     ; %s may be another loop's from here on
  %bits = and i32 %was, $WAITER_AND_USERS
  %call = icmp eq i32 %bits, $LAST_USER_AND_WAITER
  br i1 %call, label %tell, label %out
tell:
  call void @wake(ptr %s, i32 1)
  br label %out
out:
  ret void
}

; Nothing to do since %epoch: spins for the next loop, then sleeps. Returns whether it slept.
define internal i1 @rest(i32 %epoch, ptr %place) {
  call void @go_anywhere(ptr %place)
  %limit = load i64, ptr @spin_ticks
  %news = call i1 @spin(ptr @epoch, i32 -1, i32 %epoch, i1 false, i64 %limit)
  br i1 %news, label %awake, label %sleep
sleep:                                                           ; first be counted, then look again: see @run_shared
  call void @keep_off_caller(ptr %place)
  atomicrmw add ptr @sleepers, i32 1 seq_cst
  %now = load atomic i32, ptr @epoch seq_cst, align 4
  %same = icmp eq i32 %now, %epoch
  br i1 %same, label %wait, label %up
wait:
  call void @wait(ptr @epoch, i32 %epoch)
  br label %up
up:
  atomicrmw sub ptr @sleepers, i32 1 seq_cst
  call void @leave_caller(ptr %place)
  ret i1 true
awake:
  ret i1 false
}
"""
