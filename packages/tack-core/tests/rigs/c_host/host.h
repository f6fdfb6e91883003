// Runs generated kernels on the host: thread ids, a loop over threads, fibers where threads wait for each other, and
// handlers that count undefined behaviour instead of printing it. The shim of a dialect includes this first.
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include "base.h"

static rig_id rig_group, rig_lane;

// What the sanitizer reports: how often, what first, and at which line of the generated text.
struct rig_place {
    const char* file;
    unsigned line, column;
};
extern "C" {
__attribute__((visibility("default"))) unsigned rig_reports;
__attribute__((visibility("default"))) const char* rig_first_report;
__attribute__((visibility("default"))) unsigned rig_first_line;
__attribute__((visibility("default"))) unsigned rig_backwards;  // the last workgroup runs first
}
static inline void rig_report(const char* what, const void* data) {
    if (rig_reports++ == 0) {
        rig_first_report = what;
        rig_first_line = data ? static_cast<const rig_place*>(data)->line : 0;
    }
}
#define RIG_HANDLER(name) \
    extern "C" __attribute__((used, visibility("hidden"), no_sanitize("undefined"))) void __ubsan_handle_##name(void* data, ...) { \
        rig_report(#name, data); \
    }
RIG_HANDLER(add_overflow)
RIG_HANDLER(sub_overflow)
RIG_HANDLER(mul_overflow)
RIG_HANDLER(negate_overflow)
RIG_HANDLER(shift_out_of_bounds)
RIG_HANDLER(out_of_bounds)
RIG_HANDLER(load_invalid_value)
RIG_HANDLER(float_cast_overflow)
RIG_HANDLER(type_mismatch_v1)
RIG_HANDLER(pointer_overflow)
RIG_HANDLER(nonnull_arg)
RIG_HANDLER(nonnull_return_v1)
RIG_HANDLER(invalid_builtin)
RIG_HANDLER(vla_bound_not_positive)
RIG_HANDLER(missing_return)

// What the processor would trap on leaves the launch.
static jmp_buf rig_escape;
#define RIG_FATAL_HANDLER(name) \
    extern "C" __attribute__((used, visibility("hidden"))) void __ubsan_handle_##name(void* data, ...) { \
        rig_report(#name, data); \
        longjmp(rig_escape, 1); \
    }
RIG_FATAL_HANDLER(divrem_overflow)
RIG_FATAL_HANDLER(builtin_unreachable)

// Fibers: threads of a group in turn, each up to where it waits: for the group, or, for one round, for its warp.
enum { RIG_RUNS, RIG_WAITS, RIG_FINISHED };
static ucontext_t rig_scheduler, *rig_fibers;
static unsigned char* rig_states;
static unsigned rig_current;
static void (*rig_entry)();
static inline void rig_leave(unsigned char state) {
    rig_states[rig_current] = state;
    swapcontext(&rig_fibers[rig_current], &rig_scheduler);
}
static inline void rig_barrier() { rig_leave(RIG_WAITS); }
static void rig_fiber() {
    rig_entry();
    rig_leave(RIG_FINISHED);
}
// What each lane of a warp of 32 gives; in turns, since a lane may give again before the others have read.
static unsigned long long rig_given[2][32];
static unsigned rig_turns[32];
static inline unsigned long long* rig_warp(unsigned, unsigned long long value) {
    const unsigned lane = rig_current % 32, turn = rig_turns[lane]++ % 2;
    rig_given[turn][lane] = value;
    rig_leave(RIG_RUNS);
    return rig_given[turn];
}
static inline bool rig_all_wait(unsigned size) {
    for (unsigned lane = 0; lane < size; lane++)
        if (rig_states[lane] == RIG_RUNS) return false;
    return true;
}
static void rig_run_group(unsigned size, void (*entry)()) {
    const size_t stack = 65536;
    char* stacks = static_cast<char*>(malloc(stack * size));
    rig_fibers = static_cast<ucontext_t*>(calloc(size, sizeof(ucontext_t)));
    rig_states = static_cast<unsigned char*>(calloc(size, 1));
    rig_entry = entry;
    for (unsigned lane = 0; lane < size; lane++) {
        getcontext(&rig_fibers[lane]);
        rig_fibers[lane].uc_stack.ss_sp = stacks + stack * lane;
        rig_fibers[lane].uc_stack.ss_size = stack;
        makecontext(&rig_fibers[lane], rig_fiber, 0);
    }
    for (bool some = true; some;) {
        some = false;
        const bool all = rig_all_wait(size);
        for (rig_current = 0; rig_current < size; rig_current++) {
            const unsigned char state = rig_states[rig_current];
            if (state == RIG_FINISHED || (state == RIG_WAITS && !all)) continue;
            rig_lane.x = rig_current;
            swapcontext(&rig_scheduler, &rig_fibers[rig_current]);
            some = true;
        }
    }
    free(stacks);
    free(rig_fibers);
    free(rig_states);
}

// Defines `rig_<name>(arguments, groups, size, fibers)` for a kernel; the ids come last, for kernels that take them.
#define RIG_EXPORT(name, count) \
    static void** rig_arguments_##name; \
    static void rig_enter_##name() { \
        void* p[count + 2]; \
        rig_id group = rig_group, lane = rig_lane; \
        for (int i = 0; i < count; i++) p[i] = rig_arguments_##name[i]; \
        p[count] = &group; \
        p[count + 1] = &lane; \
        rig_thread(name, p); \
    } \
    extern "C" __attribute__((visibility("default"))) void rig_##name(void** arguments, unsigned groups, unsigned size, int fibers) { \
        rig_arguments_##name = arguments; \
        if (setjmp(rig_escape)) return; \
        for (unsigned number = 0; number < groups; number++) { \
            rig_group.x = rig_backwards ? groups - 1 - number : number; \
            if (fibers) { \
                rig_run_group(size, rig_enter_##name); \
                continue; \
            } \
            for (rig_lane.x = 0; rig_lane.x < size; rig_lane.x++) rig_enter_##name(); \
        } \
    }
