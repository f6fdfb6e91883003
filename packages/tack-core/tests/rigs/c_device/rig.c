#define _GNU_SOURCE
#include "rig.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

pthread_mutex_t rig_gate = PTHREAD_MUTEX_INITIALIZER;

// ------------------------------------------------------------------------------------------------------------- memory

enum { PAGE = 4096, ALIGN = 256, POISON = 0xFD, GUARD = 0xA7 };
static const size_t ARENA = (size_t)1 << 44;  // addresses are never used twice

typedef struct {
    char *pages, *start;
    size_t whole, bytes, used;  // of the pages, as asked for, up to the guard page
} block;
static block* blocks;  // by address
static size_t block_count, block_room, live_bytes;
static char* next_page;
static size_t arena_left;
static int open_depth;

static int protection(void) { return open_depth ? PROT_READ | PROT_WRITE : PROT_NONE; }

uint64_t rig_allocate(size_t bytes) {
    if (!bytes) return 0;
    size_t used = (bytes + ALIGN - 1) / ALIGN * ALIGN, whole = (used + PAGE - 1) / PAGE * PAGE;
    if (!next_page) {
        next_page = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (next_page == MAP_FAILED) abort();
        madvise(next_page, ARENA, MADV_DONTDUMP);  // a core file would take half an hour
        arena_left = ARENA;
    }
    if (used < bytes || whole + PAGE > arena_left) return 0;
    if (block_count == block_room) {
        block_room = block_room ? 2 * block_room : 64;
        blocks = realloc(blocks, block_room * sizeof *blocks);
    }
    block made = {next_page, next_page + whole - used, whole, bytes, used};
    if (mprotect(made.pages, whole, PROT_READ | PROT_WRITE)) return 0;
    memset(made.pages, GUARD, whole - used);
    memset(made.start, POISON, bytes);
    memset(made.start + bytes, GUARD, used - bytes);
    mprotect(made.pages, whole, protection());
    next_page += whole + PAGE;
    arena_left -= whole + PAGE;
    blocks[block_count++] = made;
    live_bytes += bytes;
    return (uint64_t)(uintptr_t)made.start;
}

static block* find(uint64_t address) {
    const char* p = (const char*)(uintptr_t)address;
    for (size_t low = 0, high = block_count; low < high;) {
        size_t middle = (low + high) / 2;
        block* b = &blocks[middle];
        if (p < b->start) high = middle;
        else if (p >= b->start + b->bytes) low = middle + 1;
        else return b;
    }
    return NULL;
}

static int watched(const block* b) {
    for (const char* p = b->pages; p < b->start; p++)
        if (*p != (char)GUARD) return 0;
    for (const char* p = b->start + b->bytes; p < b->start + b->used; p++)
        if (*p != (char)GUARD) return 0;
    return 1;
}

// 0; 1 if nothing starts at the address; 2 if something wrote outside it.
int rig_free(uint64_t address) {
    block* b = find(address);
    if (!b || (uint64_t)(uintptr_t)b->start != address) return 1;
    mprotect(b->pages, b->whole, PROT_READ | PROT_WRITE);
    int whole = watched(b);
    // Fresh pages that nothing may touch: what was there is given back to the system.
    mmap(b->pages, b->whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    madvise(b->pages, b->whole, MADV_DONTDUMP);  // like the arena around it: else each is a mapping, of which there are few
    live_bytes -= b->bytes;
    memmove(b, b + 1, (char*)(blocks + --block_count) - (char*)b);
    return whole ? 0 : 2;
}

size_t rig_room(uint64_t address) {
    block* b = find(address);
    return b ? (size_t)(b->start + b->bytes - (char*)(uintptr_t)address) : 0;
}

int rig_overrun(void) {
    rig_open();
    int found = 0;
    for (size_t i = 0; i < block_count; i++) found |= !watched(&blocks[i]);
    rig_close();
    return found;
}

size_t rig_live_bytes(void) { return live_bytes; }
size_t rig_live_count(void) { return block_count; }

static void protect_all(void) {
    for (size_t i = 0; i < block_count; i++) mprotect(blocks[i].pages, blocks[i].whole, protection());
}

void rig_open(void) {
    if (open_depth++ == 0) protect_all();
}

void rig_close(void) {
    if (--open_depth == 0) protect_all();
}

// ------------------------------------------------------------------------------------------------------------- threads

enum { MOST = 1024, STACK = 1 << 18, WARP = 32, MOST_PARAMETERS = 1024 };
enum { READY, AT_BARRIER, AT_WARP, FINISHED };
rig_id rig_group, rig_lane, rig_group_size, rig_grid_size;

static struct {
    unsigned char state[MOST];
    unsigned mask[MOST];           // that a lane at a warp's meeting waits for
    unsigned char turn[MOST];      // which of the two sets of values its next meeting uses
    unsigned long long values[2][MOST];
} lanes;
static unsigned current, group_lanes;
static void (*entry)(void**);
static void** entry_arguments;

#ifdef __x86_64__
// Six registers and the stack pointer: some nanoseconds, where `swapcontext` makes a call to the system.
typedef void* place;
void rig_change(place* from, place to);
__asm__(
    ".text\n.globl rig_change\n.hidden rig_change\n.type rig_change,@function\nrig_change:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
static place begin(char* stack, void (*function)(void)) {
    void** top = (void**)(stack + STACK) - 2;
    top[0] = (void*)function;
    top[1] = NULL;
    memset(top - 6, 0, 6 * sizeof *top);
    return top - 6;
}
static place scheduler, fibers[MOST];
static void to_fiber(unsigned lane) { rig_change(&scheduler, fibers[lane]); }
static void to_scheduler(void) { rig_change(&fibers[current], scheduler); }
static void start(unsigned lane, char* stack, void (*function)(void)) { fibers[lane] = begin(stack, function); }
#else
static ucontext_t scheduler, fibers[MOST];
static void to_fiber(unsigned lane) { swapcontext(&scheduler, &fibers[lane]); }
static void to_scheduler(void) { swapcontext(&fibers[current], &scheduler); }
static void start(unsigned lane, char* stack, void (*function)(void)) {
    getcontext(&fibers[lane]);
    fibers[lane].uc_stack.ss_sp = stack;
    fibers[lane].uc_stack.ss_size = STACK;
    makecontext(&fibers[lane], function, 0);
}
#endif

static void number(unsigned lane) {
    rig_lane.x = lane % rig_group_size.x;
    rig_lane.y = lane / rig_group_size.x % rig_group_size.y;
    rig_lane.z = lane / rig_group_size.x / rig_group_size.y;
}

static void fiber(void) {
    entry(entry_arguments);
    lanes.state[current] = FINISHED;
    to_scheduler();
}

void rig_barrier(void) {
    lanes.state[current] = AT_BARRIER;
    to_scheduler();
}

// Give a value to the lanes of this thread's warp; what those of the mask gave, by lane, once all of them have come.
unsigned long long* rig_warp(unsigned mask, unsigned long long value) {
    unsigned lane = current, turn = lanes.turn[lane];
    lanes.turn[lane] ^= 1;
    lanes.values[turn][lane] = value;
    lanes.mask[lane] = mask;
    lanes.state[lane] = AT_WARP;
    to_scheduler();
    return &lanes.values[turn][lane / WARP * WARP];
}

// Let go of the warps that have met; whether any has.
static int release_warps(void) {
    int some = 0;
    for (unsigned first = 0; first < group_lanes; first += WARP)
        for (unsigned lane = first; lane < first + WARP && lane < group_lanes; lane++) {
            if (lanes.state[lane] != AT_WARP) continue;
            unsigned mask = lanes.mask[lane], met = 1;
            for (unsigned other = first; other < first + WARP && other < group_lanes; other++) {
                if (!(mask >> (other - first) & 1) || lanes.state[other] == FINISHED) continue;
                met &= lanes.state[other] == AT_WARP && lanes.mask[other] == mask;
            }
            if (!met || !(mask >> (lane - first) & 1)) continue;
            for (unsigned other = first; other < first + WARP && other < group_lanes; other++)
                if (mask >> (other - first) & 1 && lanes.state[other] == AT_WARP) lanes.state[other] = READY;
            some = 1;
        }
    return some;
}

static int release_barrier(void) {
    for (unsigned lane = 0; lane < group_lanes; lane++)
        if (lanes.state[lane] != AT_BARRIER && lanes.state[lane] != FINISHED) return 0;
    for (unsigned lane = 0; lane < group_lanes; lane++)
        if (lanes.state[lane] == AT_BARRIER) lanes.state[lane] = READY;
    return 1;
}

static int run_group(void) {
    static char* stacks;
    if (!stacks) stacks = mmap(NULL, (size_t)MOST * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memset(lanes.turn, 0, sizeof lanes.turn);
    for (unsigned lane = 0; lane < group_lanes; lane++) {
        lanes.state[lane] = READY;
        start(lane, stacks + (size_t)STACK * lane, fiber);
    }
    for (;;) {
        unsigned finished = 0;
        for (current = 0; current < group_lanes; current++) {
            if (lanes.state[current] == READY) {
                number(current);
                to_fiber(current);
            }
            finished += lanes.state[current] == FINISHED;
        }
        if (finished == group_lanes) return RIG_DONE;
        if (!release_warps() && !release_barrier()) return RIG_DIVERGED;
    }
}

static sigjmp_buf escape;
static void trap(int signal) { siglongjmp(escape, signal); }

long long rig_groups_left = -1;
unsigned rig_ends;

static int run_groups(const rig_kernel* kernel, rig_id groups) {
    for (rig_group.z = 0; rig_group.z < groups.z; rig_group.z++)
        for (rig_group.y = 0; rig_group.y < groups.y; rig_group.y++)
            for (rig_group.x = 0; rig_group.x < groups.x; rig_group.x++) {
                if (rig_groups_left >= 0 && rig_groups_left-- == 0) return RIG_KILLED;
                if (rig_ends && rig_group.x == rig_ends && groups.x / 2 > rig_ends) rig_group.x = groups.x - rig_ends;
                if (kernel->waits) {
                    int status = run_group();
                    if (status) return status;
                    continue;
                }
                for (current = 0; current < group_lanes; current++) {
                    number(current);
                    entry(entry_arguments);
                }
            }
    return RIG_DONE;
}

int rig_run(const rig_kernel* kernel, void** arguments, rig_id groups, rig_id size) {
    static void* all[MOST_PARAMETERS];
    static rig_id* const ids[] = {&rig_group, &rig_lane};
    for (unsigned i = 0, id = 0; i < kernel->count; i++)
        all[i] = kernel->parameters[i].kind == RIG_ID ? ids[id++ & 1] : *arguments++;
    entry = kernel->thread;
    entry_arguments = all;
    rig_group_size = size;
    rig_grid_size = groups;
    group_lanes = size.x * size.y * size.z;
    struct sigaction mine = {.sa_handler = trap, .sa_flags = SA_NODEFER}, before[4];
    static const int signals[4] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (int i = 0; i < 4; i++) sigaction(signals[i], &mine, &before[i]);
    int status = sigsetjmp(escape, 1) ? RIG_BAD_ADDRESS : run_groups(kernel, groups);
    for (int i = 0; i < 4; i++) sigaction(signals[i], &before[i], NULL);
    return status;
}

int rig_run_alone(const rig_kernel* kernel, void** arguments, rig_id groups, rig_id size) {
    pthread_mutex_lock(&rig_gate);
    int status = rig_run(kernel, arguments, groups, size);
    pthread_mutex_unlock(&rig_gate);
    return status;
}

// -------------------------------------------------------------------------------------------------- undefined behaviour

// What the compiler's sanitizer reports of generated code: the first, and at which line of the text.
typedef struct {
    const char* file;
    unsigned line, column;
} place_of;
static char undefined[256];

const char* rig_undefined(void) {
    static char last[sizeof undefined];
    memcpy(last, undefined, sizeof last);
    undefined[0] = 0;
    return last;
}
#define REPORT(name) \
    void __ubsan_handle_##name(void* data, ...) { \
        const place_of* at = data; \
        if (!undefined[0]) snprintf(undefined, sizeof undefined, "undefined behaviour, %s, at line %u of the text", #name, at->line); \
    }
REPORT(add_overflow) REPORT(sub_overflow) REPORT(mul_overflow) REPORT(negate_overflow) REPORT(divrem_overflow)
REPORT(shift_out_of_bounds) REPORT(out_of_bounds) REPORT(load_invalid_value) REPORT(float_cast_overflow)

// ---------------------------------------------------------------------------------------------- what Python does for C

static rig_compiler compiler;
static rig_loader loader;

void rig_set_host(rig_compiler compile, rig_loader load) {
    compiler = compile;
    loader = load;
}

int rig_compile(const char* dialect, const char* text, rig_bytes* out) { return compiler(dialect, text, out); }
const rig_kernel* rig_load(const char* image, size_t size) { return loader(image, size); }

void rig_give(rig_bytes* out, const char* data, size_t size) {
    out->data = malloc(size + 1);
    memcpy(out->data, data, size);
    out->data[size] = 0;
    out->size = size;
}
