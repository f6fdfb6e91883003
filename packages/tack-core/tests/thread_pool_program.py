"""Loop bodies for the tests of the thread pool, in LLVM IR, so that nothing of Tack's code generator takes part."""

from __future__ import annotations

import ctypes
import struct

import llvmlite.binding as llvm

from tack.runtime.cpu_pool import ThreadPool

BODIES = """
declare void @tack_parallel_for(ptr, ptr, i64, i64, i64, i64)
declare i32 @sched_yield()
declare i32 @usleep(i32)

; ++ctx[i], not atomic: no index may be visited twice, let alone at one time
define void @mark(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  br label %loop
loop:
  %i = phi i64 [%b, %0], [%j, %loop]
  %p = getelementptr i8, ptr %ctx, i64 %i
  %v = load i8, ptr %p
  %w = add i8 %v, 1
  store i8 %w, ptr %p
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %e
  br i1 %more, label %loop, label %done
done:
  ret void
}

; a hundred indices of @mark for each index
define void @nested(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  br label %loop
loop:
  %i = phi i64 [%b, %0], [%j, %loop]
  %offset = mul i64 %i, 100
  %p = getelementptr i8, ptr %ctx, i64 %offset
  call void @tack_parallel_for(ptr @mark, ptr %p, i64 100, i64 7, i64 0, i64 1)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %e
  br i1 %more, label %loop, label %done
done:
  ret void
}

; ctx: i64 depth, i64 count. Index 0 goes one level deeper while depth lasts, index 1 counts the level
define void @deep(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %first = icmp eq i64 %b, 0
  br i1 %first, label %descend, label %count
descend:
  %left = atomicrmw sub ptr %ctx, i64 1 seq_cst
  %more = icmp sgt i64 %left, 1
  br i1 %more, label %call, label %done
call:
  call void @tack_parallel_for(ptr @deep, ptr %ctx, i64 2, i64 1, i64 0, i64 1)
  br label %done
count:
  %c = getelementptr i64, ptr %ctx, i64 1
  atomicrmw add ptr %c, i64 1 seq_cst
  br label %done
done:
  ret void
}

; ctx: i64 chunks, i64 indices
define void @count(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %length = sub i64 %e, %b
  atomicrmw add ptr %ctx, i64 1 seq_cst
  %p = getelementptr i64, ptr %ctx, i64 1
  atomicrmw add ptr %p, i64 %length seq_cst
  ret void
}

; ctx: i64 ends, by the first index of their chunk
define void @ends(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %p = getelementptr i64, ptr %ctx, i64 %b
  store i64 %e, ptr %p
  ret void
}

; As @ends, in no less than 300 microseconds
define void @late_ends(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  call i32 @usleep(i32 300)
  call void @ends(ptr %ctx, i64 %b, i64 %e, i64 %lane)
  ret void
}

; ctx: i64 length of a chunk, i64 another lane has come, i64 chunks that waited for it in vain. Chunk 0 is cheap at its
; first index and takes 300 microseconds from the next on; each other chunk of lane 0 waits for another lane
define void @late_meet(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %length = load i64, ptr %ctx
  %come_p = getelementptr i64, ptr %ctx, i64 1
  %vain_p = getelementptr i64, ptr %ctx, i64 2
  %cheap = icmp eq i64 %b, 0
  br i1 %cheap, label %done, label %dear
dear:
  %other = icmp ne i64 %lane, 0
  br i1 %other, label %come, label %mine
come:
  store atomic i64 1, ptr %come_p seq_cst, align 8
  br label %done
mine:
  %rest = icmp slt i64 %b, %length
  br i1 %rest, label %late, label %look
late:
  call i32 @usleep(i32 300)
  br label %done
look:
  %turn = phi i64 [0, %mine], [%turn1, %yield]
  %seen = load atomic i64, ptr %come_p seq_cst, align 8
  %alone = icmp eq i64 %seen, 0
  br i1 %alone, label %count, label %done
count:
  %turn1 = add i64 %turn, 1
  %patient = icmp ult i64 %turn1, 1000000
  br i1 %patient, label %yield, label %vain
yield:
  call i32 @sched_yield()
  br label %look
vain:
  atomicrmw add ptr %vain_p, i64 1 seq_cst
  br label %done
done:
  ret void
}

; ctx: i64 grain, ptr x, ptr partial. partial[chunk] = sum of its part of x, left to right
define void @chunk_sum(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %grain = load i64, ptr %ctx
  %xp = getelementptr i64, ptr %ctx, i64 1
  %x = load ptr, ptr %xp
  %pp = getelementptr i64, ptr %ctx, i64 2
  %partial = load ptr, ptr %pp
  %chunk = sdiv i64 %b, %grain
  %to = getelementptr double, ptr %partial, i64 %chunk
  br label %loop
loop:
  %i = phi i64 [%b, %0], [%j, %loop]
  %sum = phi double [0.0, %0], [%more_sum, %loop]
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p
  %more_sum = fadd double %sum, %v
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %e
  br i1 %more, label %loop, label %done
done:
  store double %more_sum, ptr %to
  ret void
}

; ctx: i64 clashes, then an i64 for each lane, not 0 while a thread has that lane
define void @own_lane(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %slot = add i64 %lane, 1
  %p = getelementptr i64, ptr %ctx, i64 %slot
  %was = atomicrmw xchg ptr %p, i64 1 seq_cst
  atomicrmw add ptr %ctx, i64 %was seq_cst
  call i32 @sched_yield()
  store atomic i64 0, ptr %p seq_cst, align 8
  ret void
}

; ctx: i64 wanted lanes (a mask), i64 lanes seen, f64 inexact, f64 results by lane. Waits until all wanted lanes are
; here, or a million turns; then computes 1 + inexact, which rounds to 1 in the default mode and above it in another
define void @meet(ptr %ctx, i64 %b, i64 %e, i64 %lane) {
  %wanted = load i64, ptr %ctx
  %seen_p = getelementptr i64, ptr %ctx, i64 1
  %bit = shl i64 1, %lane
  atomicrmw or ptr %seen_p, i64 %bit seq_cst
  br label %look
look:
  %turn = phi i64 [0, %0], [%turn1, %yield]
  %seen = load atomic i64, ptr %seen_p seq_cst, align 8
  %missing = icmp ne i64 %seen, %wanted
  %patient = icmp ult i64 %turn, 1000000
  %again = and i1 %missing, %patient
  br i1 %again, label %yield, label %compute
yield:
  call i32 @sched_yield()
  %turn1 = add i64 %turn, 1
  br label %look
compute:
  %inexact_p = getelementptr double, ptr %ctx, i64 2
  %inexact = load double, ptr %inexact_p
  %r = fadd double 1.0, %inexact
  %results = getelementptr double, ptr %ctx, i64 3
  %to = getelementptr double, ptr %results, i64 %lane
  store double %r, ptr %to
  ret void
}
"""
NAMES = ("mark", "nested", "deep", "count", "ends", "late_ends", "late_meet", "chunk_sum", "own_lane", "meet")


class Program:
    """The bodies above, linked to one pool."""

    def __init__(self, shared: ThreadPool) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.pool = shared
        self.jit = llvm.create_lljit_compiler()
        builder = llvm.JITLibraryBuilder().add_ir(BODIES).add_current_process()
        builder.import_symbol("tack_parallel_for", shared.address)
        for name in NAMES:
            builder.export_symbol(name)
        self.library = builder.link(self.jit, "bodies")
        self.parallel_for = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)(
            shared.address
        )

    def run(self, name: str, context: object, n: int, grain: int = 0, limit: int = 0, unit: int = 1) -> None:
        self.parallel_for(self.library[name], ctypes.addressof(context), n, grain, limit, unit)

    def alone(self, name: str, context: object, n: int) -> None:
        """The body called directly, without a pool."""
        body = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(self.library[name])
        body(ctypes.addressof(context), 0, n, 0)

    def meet(self, threads: int, limit: int = 0) -> list[float]:
        """Run a chunk in each of `threads` threads at one time; what each of them computed."""
        context = (ctypes.c_int64 * (3 + threads))(
            (1 << threads) - 1, 0, struct.unpack("q", struct.pack("d", 2.0**-60))[0]
        )
        self.run("meet", context, threads, 1, limit)
        assert context[1] == context[0], f"lanes {context[1]:b} of {threads} came"
        return [struct.unpack("d", struct.pack("q", word))[0] for word in context[3:]]

    def check(self, size: int = 20_000) -> None:
        """Every index once: many grains, plain and nested."""
        data = (ctypes.c_uint8 * size)()
        for times, grain in enumerate((0, 1, 7, 1000, size - 1, size, 10 * size, -5), 1):
            self.run("mark", data, size, grain)
            assert visited(data, times), f"grain {grain}"
        self.run("nested", data, size // 100, 3)
        assert visited(data, 9), "nested"


def visited(data: ctypes.Array[ctypes.c_uint8], times: int) -> bool:
    """The oracle of `mark`: each index that many times."""
    return bytes(data) == bytes([times]) * len(data)
