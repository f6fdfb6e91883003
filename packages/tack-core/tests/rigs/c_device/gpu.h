// What the rigs of CUDA and HIP have in common: one or more devices whose streams do nothing until something waits for
// them. A call checks all that it is given, and answers with the numbers that both drivers share.
#pragma once
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "image.h"
#include "rig.h"

enum {
    OK = 0, BAD_VALUE = 1, NO_MEMORY = 2, NOT_INITIALISED = 3, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200,
    BAD_CONTEXT = 201, BAD_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700,
    NO_RESOURCES = 701, MISALIGNED = 716, LAUNCH_FAILED = 719,
};
enum { STREAM = 1, EVENT, MODULE, FUNCTION, CONTEXT, POOL };
enum { MOST_DEVICES = 4, MOST_BLOCK = 1024 };
#define LEGACY_STREAM ((void*)1)

static void leave(int* held) { if (*held) pthread_mutex_unlock(&rig_gate); }
static int initialised, device_count = 1, most_devices = 1, sticky;
static __thread int current_device = -1;
static char failing[64];
static int failing_code, failing_after;
static char last_refusal[256];

static int refuse(int code, const char* why) {
    strncpy(last_refusal, why, sizeof last_refusal - 1);
    return code;
}
static int entered(const char* name, int needs_context) {
    if (!strcmp(name, failing) && failing_after-- == 0) {
        failing[0] = 0;
        return refuse(failing_code, "as the test wants");
    }
    if (!initialised) return refuse(NOT_INITIALISED, "not initialised");
    if (needs_context && current_device < 0) return refuse(BAD_CONTEXT, "no context is current on this thread");
    return needs_context ? sticky : OK;
}
#define ENTER(needs_context) \
    int held __attribute__((cleanup(leave))) = !pthread_mutex_lock(&rig_gate); \
    int refused = entered(__func__, needs_context); \
    if (refused) return refused;

// -- switches for tests

void gpu_fail(const char* name, int code, int after) {
    strncpy(failing, name, sizeof failing - 1);
    failing_code = code;
    failing_after = after;
}
// How many devices are counted; what is left of those that were can still be freed.
void gpu_set_devices(int count) {
    device_count = count;
    if (count > most_devices) most_devices = count;
}
const char* gpu_last_refusal(void) { return last_refusal; }

// -- handles: numbers that are never used again

typedef struct {
    int kind, device;
    void* object;
} slot;
static slot* slots;
static size_t slot_count, slot_room;
static const uintptr_t FIRST_HANDLE = 0x7ac0000000000;

static void* new_handle(int kind, void* object) {
    if (slot_count == slot_room) slots = realloc(slots, (slot_room = slot_room ? 2 * slot_room : 256) * sizeof *slots);
    slots[slot_count] = (slot){kind, current_device, object};
    return (void*)(FIRST_HANDLE + 16 * slot_count++);
}
static slot* slot_of(void* handle, int kind) {
    uintptr_t offset = (uintptr_t)handle - FIRST_HANDLE;
    if ((uintptr_t)handle < FIRST_HANDLE || offset % 16 || offset / 16 >= slot_count) return NULL;
    slot* found = &slots[offset / 16];
    return found->kind == kind && found->object ? found : NULL;
}
static void* object_of(void* handle, int kind) {
    slot* found = slot_of(handle, kind);
    return found ? found->object : NULL;
}
static int live_handles(int kind) {
    int count = 0;
    for (size_t i = 0; i < slot_count; i++) count += slots[i].kind == kind && slots[i].object;
    return count;
}

// -- memory

typedef struct {
    uint64_t address;
    size_t bytes;
    int device, pinned, freed;
} allocation;
static allocation* memory;
static size_t memory_count, memory_room;
static size_t memory_limit = (size_t)8 << 30, memory_used;

// The allocation that an address lies in, or at the end of, where an empty part of an array is.
static allocation* allocation_at(uint64_t address) {
    for (size_t i = memory_count; i-- > 0;)
        if (address >= memory[i].address && address - memory[i].address <= memory[i].bytes) return &memory[i];
    return NULL;
}
static uint64_t add_memory(size_t bytes, int pinned) {
    if (bytes > memory_limit - memory_used) return 0;
    uint64_t address = pinned ? (uint64_t)(uintptr_t)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : rig_allocate(bytes);
    if (!address) return 0;
    if (pinned) memset((void*)(uintptr_t)address, 0xFD, bytes);
    if (memory_count == memory_room) memory = realloc(memory, (memory_room = memory_room ? 2 * memory_room : 256) * sizeof *memory);
    memory[memory_count++] = (allocation){address, bytes, current_device, pinned, 0};
    memory_used += bytes;
    return address;
}
static int drop_memory(uint64_t address) {
    for (size_t i = 0; i < memory_count; i++)
        if (memory[i].address == address) {
            int status = 0;
            memory_used -= memory[i].bytes;
            if (memory[i].pinned) free((void*)(uintptr_t)address);
            else status = rig_free(address);
            memory[i] = memory[--memory_count];
            return status == 2 ? (sticky = refuse(ILLEGAL_ADDRESS, "something wrote outside an allocation")) : OK;
        }
    return OK;
}
// Whether device memory of the current device, or pinned memory, has so many bytes from an address on.
static int check_range(uint64_t address, size_t bytes) {
    allocation* a = allocation_at(address);
    if (!a) return refuse(BAD_VALUE, "no memory of the device at an address");
    if (a->freed) return refuse(BAD_VALUE, "memory that was freed");
    if (!a->pinned && a->device != current_device) return refuse(BAD_VALUE, "memory of another device");
    if (bytes > a->address + a->bytes - address) return refuse(BAD_VALUE, "more bytes than the memory has");
    return OK;
}

// -- modules

typedef struct {
    const rig_kernel* table;
    void* handle;
} module;
typedef struct {
    const rig_kernel* kernel;
    void* module;
} function;

// -- streams: operations in the order of the calls, done when something waits for them

enum { LAUNCH, COPY, FILL, FREE, RECORD, WAIT };
typedef struct {
    int blocking, device, legacy;
} gpu_stream;
typedef struct {
    gpu_stream* on;
    uint64_t reached, wanted;  // numbers of operations; when done, and when last recorded
    struct timespec at;
} gpu_event;
typedef struct {
    int what, done;
    gpu_stream* on;
    uint64_t number, to, from;
    size_t bytes;
    unsigned value;
    int value_bytes;
    const rig_kernel* kernel;
    rig_id groups, size;
    char* arguments;
    gpu_event* event;
    gpu_stream* other;
    uint64_t other_number;
} operation;
static operation* queue;
static size_t queue_count, queue_room;
static uint64_t operations;
static gpu_stream legacy[MOST_DEVICES];

static gpu_stream* stream_of(void* handle) {
    if (!handle || handle == LEGACY_STREAM) {
        legacy[current_device].blocking = legacy[current_device].legacy = 1;
        legacy[current_device].device = current_device;
        return &legacy[current_device];
    }
    gpu_stream* found = object_of(handle, STREAM);
    return found && found->device == current_device ? found : NULL;
}
#define ON(handle) \
    gpu_stream* on = stream_of(handle); \
    if (!on) return refuse(BAD_HANDLE, "no stream of the current context");

static int push(operation op) {
    if (queue_count == queue_room) queue = realloc(queue, (queue_room = queue_room ? 2 * queue_room : 256) * sizeof *queue);
    op.number = ++operations;
    queue[queue_count++] = op;
    return OK;
}

static int launch_now(operation* op) {
    void* pointers[1024];
    size_t at = 0;
    for (unsigned i = 0, n = 0; i < op->kernel->count; i++) {
        const rig_parameter* p = &op->kernel->parameters[i];
        if (p->kind == RIG_ID) continue;
        at = (at + 15) / 16 * 16;
        pointers[n++] = op->arguments + at;
        at += p->size;
    }
    int status = rig_run(op->kernel, pointers, op->groups, op->size);
    if (status == RIG_BAD_ADDRESS) return refuse(ILLEGAL_ADDRESS, "a kernel touched memory that is not its");
    if (status == RIG_DIVERGED) return refuse(LAUNCH_FAILED, "threads of a group wait at different places");
    return status ? refuse(LAUNCH_FAILED, "a kernel was killed") : OK;
}

static void run_until(gpu_stream* on, uint64_t last);

static int do_now(operation* op) {
    char* to = (char*)(uintptr_t)op->to;
    switch (op->what) {
        case LAUNCH:
            return launch_now(op);
        case COPY:
            memmove(to, (char*)(uintptr_t)op->from, op->bytes);
            return OK;
        case FILL:
            for (size_t i = 0; i < op->bytes; i += (size_t)op->value_bytes) memcpy(to + i, &op->value, (size_t)op->value_bytes);
            return OK;
        case FREE:
            return drop_memory(op->to);
        case RECORD:
            if (op->number >= op->event->reached) {
                op->event->reached = op->number;
                clock_gettime(CLOCK_MONOTONIC, &op->event->at);
            }
            return OK;
        case WAIT:
            if (op->other) run_until(op->other, op->other_number);
            return OK;
    }
    return OK;
}

// Do a stream's operations up to a number, and first what they wait for. A blocking stream and the legacy stream wait
// for each other.
static void run_until(gpu_stream* on, uint64_t last) {
    for (size_t i = 0; i < queue_count && queue[i].number <= last; i++) {
        operation* op = &queue[i];
        if (op->done || op->on->device != on->device) continue;
        if (op->on != on && !(op->on->legacy && on->blocking)) continue;
        op->done = 1;
        if (op->on->legacy)
            for (size_t j = 0; j < i; j++)
                if (!queue[j].done && queue[j].on->blocking && queue[j].on->device == on->device) run_until(queue[j].on, op->number);
        if (!sticky || op->what == FREE) {
            int status = do_now(&queue[i]);
            if (status) sticky = status;
        }
        free(queue[i].arguments);
        queue[i].arguments = NULL;
    }
}

static int settle(gpu_stream* on, uint64_t last) {
    rig_open();
    run_until(on, last);
    rig_close();
    size_t kept = 0;
    for (size_t i = 0; i < queue_count; i++)
        if (!queue[i].done) queue[kept++] = queue[i];
    queue_count = kept;
    return sticky;
}
static int settle_device(void) {
    while (queue_count) {
        size_t i = 0;
        while (i < queue_count && queue[i].on->device != current_device) i++;
        if (i == queue_count) break;
        settle(queue[i].on, operations);
    }
    return sticky;
}

// Forget a fault: what a new process would see. What was enqueued is dropped, but for what it frees.
void gpu_reset(void) {
    pthread_mutex_lock(&rig_gate);
    int device = current_device;
    sticky = sticky ? sticky : LAUNCH_FAILED;
    for (current_device = 0; current_device < device_count; current_device++) settle_device();
    current_device = device;
    sticky = 0;
    rig_groups_left = -1;
    failing[0] = 0;
    pthread_mutex_unlock(&rig_gate);
}
long long gpu_live_bytes(void) { return (long long)memory_used; }
int gpu_live(int kind) { return live_handles(kind); }
size_t gpu_waiting(void) { return queue_count; }

// -- calls

static int allocate(uint64_t* out, size_t bytes) {
    if (!out || !bytes) return refuse(BAD_VALUE, "an allocation of no bytes");
    *out = add_memory(bytes, 0);
    return *out ? OK : refuse(NO_MEMORY, "no memory left");
}
static int allocate_pinned(void** out, size_t bytes) {
    if (!out || !bytes) return refuse(BAD_VALUE, "an allocation of no bytes");
    *out = (void*)(uintptr_t)add_memory(bytes, 1);
    return *out ? OK : refuse(NO_MEMORY, "no memory left");
}
static int free_pinned(void* p) {
    allocation* a = allocation_at((uint64_t)(uintptr_t)p);
    if (!a || !a->pinned || a->address != (uint64_t)(uintptr_t)p) return refuse(BAD_VALUE, "freed memory that is not pinned");
    settle_device();
    return drop_memory(a->address);
}
static int free_later(uint64_t address, void* handle) {
    ON(handle)
    allocation* a = allocation_at(address);
    if (!a || a->address != address || a->pinned) return refuse(BAD_VALUE, "freed what is no allocation");
    if (a->freed) return refuse(BAD_VALUE, "freed twice");
    if (a->device != current_device) return refuse(BAD_VALUE, "memory of another device");
    a->freed = 1;
    return push((operation){.what = FREE, .on = on, .to = address});
}
static int free_now(uint64_t address) {
    int status = settle_device();
    status = free_later(address, NULL);
    return status ? status : settle_device();
}
static int fill(uint64_t address, unsigned value, int value_bytes, size_t count, void* handle) {
    ON(handle)
    size_t bytes = count * (size_t)value_bytes;
    int status = check_range(address, bytes);
    if (status) return status;
    if (address % (unsigned)value_bytes) return refuse(BAD_VALUE, "a fill of misaligned memory");
    return push((operation){.what = FILL, .on = on, .to = address, .bytes = bytes, .value = value, .value_bytes = value_bytes});
}
enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST, DEVICE_TO_DEVICE };
static int copy(uint64_t to, uint64_t from, size_t bytes, int kind, void* handle) {
    ON(handle)
    if (!bytes) return OK;
    int status = kind == HOST_TO_DEVICE ? OK : check_range(from, bytes);
    if (!status) status = kind == DEVICE_TO_HOST ? OK : check_range(to, bytes);
    if (status) return status;
    if (kind == DEVICE_TO_DEVICE && to < from + bytes && from < to + bytes) return refuse(BAD_VALUE, "a copy onto itself");
    // A side that is host memory: not null, and not a device's.
    uint64_t host = kind == HOST_TO_DEVICE ? from : to;
    allocation* a = kind == DEVICE_TO_DEVICE ? NULL : allocation_at(host);
    if (!host || (a && !a->pinned && host != a->address + a->bytes)) return refuse(BAD_VALUE, "a host address that is none");
    return push((operation){.what = COPY, .on = on, .to = to, .from = from, .bytes = bytes});
}

static int make_stream(void** out, int blocking) {
    gpu_stream* made = calloc(1, sizeof *made);
    made->device = current_device;
    made->blocking = blocking;
    *out = new_handle(STREAM, made);
    return OK;
}
static int drop_stream(void* handle) {
    slot* found = slot_of(handle, STREAM);
    if (!found) return refuse(BAD_HANDLE, "no such stream");
    settle(found->object, operations);
    found->object = NULL;
    return OK;
}
static int wait_for(void* handle) {
    ON(handle)
    return settle(on, operations);
}
static int ask(void* handle) {
    ON(handle)
    for (size_t i = 0; i < queue_count; i++)
        if (queue[i].on == on) return NOT_READY;
    return sticky;
}

static int make_event(void** out) {
    *out = new_handle(EVENT, calloc(1, sizeof(gpu_event)));
    return OK;
}
static int record(void* handle, void* stream_handle) {
    ON(stream_handle)
    gpu_event* e = object_of(handle, EVENT);
    if (!e) return refuse(BAD_HANDLE, "no such event");
    push((operation){.what = RECORD, .on = on, .event = e});
    e->on = on;
    e->wanted = operations;
    return OK;
}
static int stream_waits(void* stream_handle, void* handle) {
    ON(stream_handle)
    gpu_event* e = object_of(handle, EVENT);
    if (!e) return refuse(BAD_HANDLE, "no such event");
    return push((operation){.what = WAIT, .on = on, .other = e->on, .other_number = e->wanted});
}
static int event_waits(void* handle) {
    gpu_event* e = object_of(handle, EVENT);
    if (!e) return refuse(BAD_HANDLE, "no such event");
    return e->on && e->reached < e->wanted ? settle(e->on, e->wanted) : sticky;
}
static int event_asks(void* handle) {
    gpu_event* e = object_of(handle, EVENT);
    if (!e) return refuse(BAD_HANDLE, "no such event");
    return e->reached < e->wanted ? NOT_READY : sticky;
}
static int drop_event(void* handle) {
    slot* found = slot_of(handle, EVENT);
    if (!found) return refuse(BAD_HANDLE, "no such event");
    found->object = NULL;  // an operation may still name it: the few bytes are kept
    return OK;
}
static int elapsed(float* out, void* first, void* second) {
    gpu_event *a = object_of(first, EVENT), *b = object_of(second, EVENT);
    if (!a || !b || !a->wanted || !b->wanted) return refuse(BAD_HANDLE, "no event that was recorded");
    if (a->reached < a->wanted || b->reached < b->wanted) return NOT_READY;
    *out = (float)(b->at.tv_sec - a->at.tv_sec) * 1e3f + (float)(b->at.tv_nsec - a->at.tv_nsec) * 1e-6f;
    return OK;
}

static int load_image(void** out, const char* image) {
    // Python loads it, so the gate must be open: this is called before `ENTER`.
    uint64_t bytes;
    if (!image || memcmp(image, MARK, sizeof MARK)) return BAD_IMAGE;
    memcpy(&bytes, image + sizeof MARK, sizeof bytes);
    *out = (void*)(uintptr_t)rig_load(image + sizeof MARK + sizeof bytes, bytes);
    return *out ? OK : BAD_IMAGE;
}
static int add_module(void** out, const void* table) {
    module* made = calloc(1, sizeof *made);
    made->table = table;
    *out = made->handle = new_handle(MODULE, made);
    return OK;
}
static int drop_module(void* handle) {
    slot* found = slot_of(handle, MODULE);
    if (!found || found->device != current_device) return refuse(BAD_HANDLE, "no module of the current context");
    found->object = NULL;
    for (size_t i = 0; i < slot_count; i++)
        if (slots[i].kind == FUNCTION && slots[i].object && ((function*)slots[i].object)->module == handle) slots[i].object = NULL;
    return OK;
}
static int find_function(void** out, void* handle, const char* name) {
    module* m = object_of(handle, MODULE);
    if (!m) return refuse(BAD_HANDLE, "no such module");
    for (const rig_kernel* k = m->table; k->name; k++)
        if (!strcmp(k->name, name)) {
            function* made = calloc(1, sizeof *made);
            *made = (function){k, handle};
            *out = new_handle(FUNCTION, made);
            return OK;
        }
    return refuse(NOT_FOUND, "the module has no such kernel");
}

// The values of the parameters, each in 16 bytes or more: from pointers, or from one packed buffer.
static int take_arguments(const rig_kernel* kernel, void** pointers, void** extra, char** out) {
    const char* buffer = NULL;
    size_t given = 0, at = 0, need = 0;
    for (void** e = extra; e && *e; e += 2) {
        if (*e == (void*)1) buffer = e[1];
        else if (*e == (void*)2) given = *(size_t*)e[1];
        else return refuse(BAD_VALUE, "an extra option that there is not");
    }
    if (kernel->count && !pointers == !buffer) return refuse(BAD_VALUE, "arguments are given in one of two ways");
    for (unsigned i = 0; i < kernel->count; i++) need += (kernel->parameters[i].size + 15) / 16 * 16;
    char* values = calloc(1, need + 1);
    *out = values;
    for (unsigned i = 0; i < kernel->count; i++) {
        const rig_parameter* p = &kernel->parameters[i];
        size_t align = p->kind == RIG_POINTER ? sizeof(void*) : p->align;
        at = (at + align - 1) / align * align;
        const void* from = buffer ? buffer + at : pointers[i];
        if (!from) return refuse(BAD_VALUE, "an argument that is not bound");
        if (buffer && at + p->size > given) return refuse(BAD_VALUE, "the buffer of arguments is too small");
        memcpy(values, from, p->size);
        at += p->size;
        if (p->kind == RIG_POINTER) {
            uint64_t address;
            memcpy(&address, from, sizeof address);
            int status = check_range(address, 0);
            if (status) return status;
            if (address % p->align) return refuse(MISALIGNED, "a pointer that is not aligned for its elements");
        }
        values += (p->size + 15) / 16 * 16;
    }
    if (buffer && given != at) return refuse(BAD_VALUE, "the buffer of arguments has another size than the parameters");
    return OK;
}

static int launch(void* handle, rig_id grid, rig_id block, void* stream_handle, void** pointers, void** extra) {
    slot* found = slot_of(handle, FUNCTION);
    if (!found || found->device != current_device) return refuse(BAD_HANDLE, "no kernel of a module that is loaded");
    ON(stream_handle)
    const rig_kernel* kernel = ((function*)found->object)->kernel;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return refuse(BAD_VALUE, "a grid of nothing");
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return refuse(BAD_VALUE, "the grid is too large");
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads > MOST_BLOCK || block.z > 64) return refuse(BAD_VALUE, "the block is too large");
    if (kernel->most_threads && threads > kernel->most_threads) return refuse(NO_RESOURCES, "more threads than the kernel was compiled for");
    char* arguments = NULL;
    int status = take_arguments(kernel, pointers, extra, &arguments);
    if (status) {
        free(arguments);
        return status;
    }
    return push((operation){.what = LAUNCH, .on = on, .kernel = kernel, .groups = grid, .size = block, .arguments = arguments});
}
