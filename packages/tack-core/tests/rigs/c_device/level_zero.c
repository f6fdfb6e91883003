// A stand-in for the Level Zero loader and two GPUs behind it: the entry points that Tack calls, over the host.
//
// Commands run when the host waits, and not before; between two barriers in reverse order, as the specification allows.
// What Level Zero leaves undefined is noted (`rig_ze_misuse`) and refused. Layouts are written down from the
// specification, not shared with the code under test.
#define _GNU_SOURCE
#include "spirv.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SUCCESS = 0,
    NOT_READY = 1,
    DEVICE_LOST = 0x70000001,
    OUT_OF_DEVICE_MEMORY = 0x70000003,
    MODULE_BUILD_FAILURE = 0x70000004,
    INVALID_ARGUMENT = 0x78000004,
    INVALID_NULL_HANDLE = 0x78000005,
    HANDLE_OBJECT_IN_USE = 0x78000006,
    INVALID_SIZE = 0x78000008,
    INVALID_KERNEL_NAME = 0x78000011,
    INVALID_GROUP_SIZE_DIMENSION = 0x78000013,
    INVALID_KERNEL_ARGUMENT_INDEX = 0x78000015,
    INVALID_KERNEL_ARGUMENT_SIZE = 0x78000016,
    OVERLAPPING_REGIONS = 0x7800001a,
    UNINITIALIZED = 0x78000001
};
typedef unsigned result;

// -------------------------------------------------------------------------------------------- what a test sees and sets

static char misuses[8192];
static struct {
    char function[64];
    unsigned after;
    result code;
} fault;
static size_t memory_limit = (size_t)2 << 30;
static int present = 1, refuse_modules;
static unsigned shown_devices = 1;
static char build_flags[512];

static result misuse(result code, const char* format, ...) {
    size_t used = strlen(misuses);
    va_list values;
    va_start(values, format);
    if (used < sizeof misuses - 2) used += (size_t)vsnprintf(misuses + used, sizeof misuses - used - 1, format, values);
    va_end(values);
    if (used < sizeof misuses - 2) strcat(misuses, "\n");
    return code;
}

// What was done that the specification does not allow, a line each, since this was last asked.
const char* rig_ze_misuse(void) {
    static char shown[sizeof misuses];
    pthread_mutex_lock(&rig_gate);
    strcpy(shown, misuses);
    misuses[0] = 0;
    pthread_mutex_unlock(&rig_gate);
    return shown;
}
// Let the call after `after` more calls of a function fail with a code, once.
void rig_ze_fail(const char* function, unsigned after, result code) {
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.after = after;
    fault.code = code;
}
void rig_ze_limit(size_t bytes) { memory_limit = bytes; }
void rig_ze_present(int drivers) { present = drivers; }
// Of the two devices the second, a lesser one, is shown only when asked for.
void rig_ze_devices(unsigned count) { shown_devices = count; }
void rig_ze_refuse_modules(int refuse) { refuse_modules = refuse; }
const char* rig_ze_build_flags(void) { return build_flags; }
static result injected(const char* function) {
    if (strcmp(fault.function, function) || fault.after--) return SUCCESS;
    fault.function[0] = 0;
    return fault.code;
}
#define ENTRY \
    do { \
        result wanted_ = injected(__func__); \
        if (wanted_) return wanted_; \
    } while (0)

// -------------------------------------------------------------------------------------------------------------- objects

typedef enum { DRIVER = 1, DEVICE, CONTEXT, LIST, POOL, EVENT, MODULE, LOG, KERNEL, KINDS } kind;
static const char* const kind_names[] = {"", "driver", "device", "context", "list", "pool", "event", "module", "log", "kernel"};
static unsigned live[KINDS];

typedef struct {
    kind kind;
    int alive, users;
} object;

// Destroyed objects keep their memory, so that a handle that is used again is known for what it is.
static void* make(kind kind, size_t size) {
    object* made = calloc(1, size);
    made->kind = kind;
    made->alive = 1;
    live[kind]++;
    return made;
}
unsigned rig_ze_live(const char* name) {
    for (int i = 1; i < KINDS; i++)
        if (!strcmp(kind_names[i], name)) return live[i];
    return ~0u;
}
static int is(const void* handle, kind wanted, const char* function) {
    const object* found = handle;
    if (found && found->kind == wanted && found->alive) return 1;
    misuse(0, "%s: not a %s, or a destroyed one", function, kind_names[wanted]);
    return 0;
}
#define NEED(handle, kind) \
    if (!is(handle, kind, __func__)) return INVALID_NULL_HANDLE
static void destroy(void* handle) {
    object* gone = handle;
    gone->alive = 0;
    live[gone->kind]--;
}
// Objects that only one thread at a time may use.
static void enter(void* handle, const char* function) {
    if (__atomic_fetch_add(&((object*)handle)->users, 1, __ATOMIC_ACQ_REL)) misuse(0, "%s: two threads use one object at once", function);
    pthread_mutex_lock(&rig_gate);
}
static result leave(void* handle, result code) {
    pthread_mutex_unlock(&rig_gate);
    __atomic_fetch_sub(&((object*)handle)->users, 1, __ATOMIC_ACQ_REL);
    return code;
}

typedef struct { object base; } driver;
typedef struct {
    object base;
    unsigned id, flags, module_flags, most_threads, shared_bytes;
    const char* name;
} device;
typedef struct { object base; } context;
typedef struct { object base; unsigned count; } pool;
typedef struct { object base; int signalled, pending; } event;
typedef struct { object base; const rig_kernel* table; const device* device; unsigned kernels; } module;
typedef struct { object base; char text[1024]; } build_log;

enum { MOST_ARGUMENTS = 64, MOST_BYTES = 16 };
typedef struct {
    char bytes[MOST_BYTES];
    unsigned char is_set;
} argument;
typedef struct {
    object base;
    module* owner;
    const rig_kernel* code;
    unsigned group, pending;
    argument arguments[MOST_ARGUMENTS];
} kernel;

typedef enum { LAUNCH, COPY, FILL, BARRIER } action;
typedef struct {
    action action;
    kernel* kernel;
    rig_id groups, size;
    argument arguments[MOST_ARGUMENTS];
    char *target, pattern[MOST_BYTES];
    const char* source;
    size_t bytes, pattern_bytes;
    event* signals;
} command;
typedef struct {
    object base;
    device* device;
    command* commands;
    size_t count, room;
} list;
static list* lists[64];
static unsigned list_count;

static driver the_driver = {{DRIVER, 1, 0}};
static device the_devices[] = {
    {{DEVICE, 1, 0}, 0x0bd5, 0, 2 | 4, 1024, 65536, "rig: a discrete GPU"},
    {{DEVICE, 1, 0}, 0x1912, 1, 0, 128, 32768, "rig: an integrated GPU without f64"},
};

// --------------------------------------------------------------------------------------------------------------- memory

// Memory that the host shares: mapped for as long as it lives.
typedef struct { char* start; size_t bytes, whole; } shared_block;
static shared_block shared[4096];
static unsigned shared_count;
static size_t shared_live;

static size_t room(const void* address) {
    const char* p = address;
    for (unsigned i = 0; i < shared_count; i++)
        if (p >= shared[i].start && p < shared[i].start + shared[i].bytes) return (size_t)(shared[i].start + shared[i].bytes - p);
    return rig_room((uint64_t)(uintptr_t)address);
}
// Whether a command that has not run uses what lies at an address.
static int is_awaited(const char* start, size_t bytes) {
#define INSIDE(p) ((const char*)(p) >= start && (const char*)(p) < start + bytes)
    for (unsigned l = 0; l < list_count; l++)
        for (size_t i = 0; i < lists[l]->count; i++) {
            const command* c = &lists[l]->commands[i];
            if ((c->target && INSIDE(c->target)) || (c->source && INSIDE(c->source))) return 1;
            for (unsigned a = 0; c->action == LAUNCH && a < c->kernel->code->count; a++) {
                const char* p;
                memcpy(&p, c->arguments[a].bytes, sizeof p);
                if (c->kernel->code->parameters[a].kind == RIG_POINTER && INSIDE(p)) return 1;
            }
        }
    return 0;
}

size_t rig_ze_live_bytes(void) { return rig_live_bytes() + shared_live; }

result zeMemAllocDevice(context* c, const void* desc, size_t size, size_t alignment, device* d, void** out) {
    ENTRY;
    NEED(c, CONTEXT);
    NEED(d, DEVICE);
    if (*(const unsigned*)desc != 0x15 || !size || alignment & (alignment - 1)) return misuse(INVALID_SIZE, "%s: size or description", __func__);
    pthread_mutex_lock(&rig_gate);
    uint64_t found = rig_live_bytes() + shared_live + size > memory_limit ? 0 : rig_allocate(size);
    pthread_mutex_unlock(&rig_gate);
    *out = (void*)(uintptr_t)found;
    return found ? SUCCESS : OUT_OF_DEVICE_MEMORY;
}

result zeMemAllocShared(context* c, const void* desc, const void* host, size_t size, size_t alignment, device* d, void** out) {
    ENTRY;
    NEED(c, CONTEXT);
    NEED(d, DEVICE);
    if (*(const unsigned*)desc != 0x15 || *(const unsigned*)host != 0x16 || !size || alignment & (alignment - 1))
        return misuse(INVALID_SIZE, "%s: size or description", __func__);
    pthread_mutex_lock(&rig_gate);
    size_t whole = (size + 4095) / 4096 * 4096;
    char* p = MAP_FAILED;
    if (rig_live_bytes() + shared_live + size <= memory_limit && shared_count < sizeof shared / sizeof *shared)
        p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
        memset(p, 0xFD, size);
        shared[shared_count++] = (shared_block){p, size, whole};
        shared_live += size;
        *out = p;
    }
    pthread_mutex_unlock(&rig_gate);
    return p == MAP_FAILED ? OUT_OF_DEVICE_MEMORY : SUCCESS;
}

static result free_locked(char* p) {
    size_t bytes = room(p);
    if (!bytes) return misuse(INVALID_ARGUMENT, "zeMemFree: nothing lives at this address");
    if (is_awaited(p, bytes)) return misuse(HANDLE_OBJECT_IN_USE, "zeMemFree: a command that has not run uses the memory");
    for (unsigned i = 0; i < shared_count; i++)
        if (shared[i].start == p) {
            mmap(p, shared[i].whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            shared_live -= shared[i].bytes;
            shared[i] = shared[--shared_count];
            return SUCCESS;
        }
    int status = rig_free((uint64_t)(uintptr_t)p);
    if (status == 2) return misuse(SUCCESS, "zeMemFree: something wrote outside the memory");
    return status ? misuse(INVALID_ARGUMENT, "zeMemFree: not the start of an allocation") : SUCCESS;
}

result zeMemFree(context* c, void* p) {
    ENTRY;
    NEED(c, CONTEXT);
    pthread_mutex_lock(&rig_gate);
    result code = free_locked(p);
    pthread_mutex_unlock(&rig_gate);
    return code;
}

// ---------------------------------------------------------------------------------------------------- driver and devices

static int started;
result zeInit(unsigned flags) {
    ENTRY;
    started = present && !(flags & ~3u);
    return started ? SUCCESS : UNINITIALIZED;
}
static result enumerate(unsigned* count, void** handles, void* first, size_t step, unsigned total) {
    if (!handles || *count > total) *count = total;
    for (unsigned i = 0; handles && i < *count; i++) handles[i] = (char*)first + step * i;
    return SUCCESS;
}
result zeDriverGet(unsigned* count, void** drivers) {
    if (!started) abort();  // the real one crashes
    return enumerate(count, drivers, &the_driver, sizeof the_driver, 1);
}
result zeDeviceGet(driver* owner, unsigned* count, void** devices) {
    NEED(owner, DRIVER);
    return enumerate(count, devices, the_devices, sizeof *the_devices, shown_devices);
}

typedef struct { unsigned stype; void* next; unsigned char uuid[16]; unsigned version; } driver_properties;
typedef struct {
    unsigned stype;
    void* next;
    unsigned type, vendor, id, flags, sub, clock;
    uint64_t largest;
    unsigned contexts, priority, per_eu, simd, eus, subslices, slices;
    uint64_t timer;
    unsigned bits, kernel_bits;
    unsigned char uuid[16];
    char name[256];
} device_properties;
typedef struct { unsigned stype; void* next; unsigned total, group[3], groups[3], shared, sub_groups, sizes[8]; } compute_properties;
typedef struct { unsigned stype; void* next; unsigned spirv, flags, f16, f32, f64, arguments, print; unsigned char uuid[16]; } module_properties;
typedef struct { unsigned stype; void* next; unsigned flags; size_t pattern; unsigned queues; } queue_properties;
#define TYPED(structure, number) \
    if ((structure)->stype != (number) || (structure)->next) return misuse(INVALID_ARGUMENT, "%s: the structure's type", __func__)

result zeDriverGetProperties(driver* owner, driver_properties* found) {
    NEED(owner, DRIVER);
    TYPED(found, 0x1);
    found->version = 7;
    return SUCCESS;
}
result zeDeviceGetProperties(device* d, device_properties* found) {
    NEED(d, DEVICE);
    TYPED(found, 0x3);
    found->type = 1;
    found->vendor = 0x8086;
    found->id = d->id;
    found->flags = d->flags;
    found->largest = (uint64_t)1 << 31;
    snprintf(found->name, sizeof found->name, "%s", d->name);
    return SUCCESS;
}
result zeDeviceGetComputeProperties(device* d, compute_properties* found) {
    NEED(d, DEVICE);
    TYPED(found, 0x4);
    found->total = found->group[0] = d->most_threads;
    found->groups[0] = 0xFFFFFFFFu;
    found->shared = d->shared_bytes;
    return SUCCESS;
}
result zeDeviceGetModuleProperties(device* d, module_properties* found) {
    NEED(d, DEVICE);
    TYPED(found, 0x5);
    found->spirv = 0x10002;
    found->flags = d->module_flags;
    return SUCCESS;
}
// The first group only copies: a queue for kernels must be looked for.
result zeDeviceGetCommandQueueGroupProperties(device* d, unsigned* count, queue_properties* found) {
    NEED(d, DEVICE);
    if (!found) return *count = 2, SUCCESS;
    for (unsigned i = 0; i < *count && i < 2; i++) {
        TYPED(&found[i], 0x6);
        found[i].flags = i ? 1 | 2 : 2;
        found[i].pattern = MOST_BYTES;
        found[i].queues = 1;
    }
    return SUCCESS;
}

typedef struct { unsigned stype; const void* next; unsigned flags; } context_desc;
typedef struct { unsigned stype; const void* next; unsigned ordinal, index, flags, mode, priority; } queue_desc;
result zeContextCreate(driver* owner, const context_desc* desc, context** out) {
    ENTRY;
    NEED(owner, DRIVER);
    TYPED(desc, 0xd);
    *out = make(CONTEXT, sizeof **out);
    return SUCCESS;
}
result zeCommandListCreateImmediate(context* c, device* d, const queue_desc* desc, list** out) {
    ENTRY;
    NEED(c, CONTEXT);
    NEED(d, DEVICE);
    TYPED(desc, 0xe);
    if (desc->ordinal != 1) return misuse(INVALID_ARGUMENT, "%s: the queue runs no kernels", __func__);
    if (list_count == sizeof lists / sizeof *lists) return OUT_OF_DEVICE_MEMORY;
    *out = make(LIST, sizeof **out);
    (*out)->device = d;
    lists[list_count++] = *out;
    return SUCCESS;
}

// --------------------------------------------------------------------------------------------------------------- events

typedef struct { unsigned stype; const void* next; unsigned flags, count; } pool_desc;
typedef struct { unsigned stype; const void* next; unsigned index, signal, wait; } event_desc;
result zeEventPoolCreate(context* c, const pool_desc* desc, unsigned count, device** devices, pool** out) {
    ENTRY;
    NEED(c, CONTEXT);
    TYPED(desc, 0x10);
    (void)count, (void)devices;
    if (!(desc->flags & 1)) return misuse(INVALID_ARGUMENT, "%s: the host cannot see these events", __func__);
    *out = make(POOL, sizeof **out);
    (*out)->count = desc->count;
    return SUCCESS;
}
result zeEventCreate(pool* p, const event_desc* desc, event** out) {
    ENTRY;
    NEED(p, POOL);
    TYPED(desc, 0x11);
    if (desc->index >= p->count) return misuse(INVALID_ARGUMENT, "%s: index outside the pool", __func__);
    if (!(desc->signal & 4)) return misuse(INVALID_ARGUMENT, "%s: a signal that does not reach the host", __func__);
    *out = make(EVENT, sizeof **out);
    return SUCCESS;
}
result zeEventHostReset(event* e) {
    ENTRY;
    NEED(e, EVENT);
    if (e->pending) return misuse(INVALID_ARGUMENT, "%s: the event is still to be signalled", __func__);
    e->signalled = 0;
    return SUCCESS;
}

static result run_launch(command* c) {
    void* values[MOST_ARGUMENTS];
    const rig_kernel* code = c->kernel->code;
    c->kernel->pending--;
    for (unsigned i = 0; i < code->count; i++) {
        values[i] = c->arguments[i].bytes;
        void* p;
        memcpy(&p, values[i], sizeof p);
        if (code->parameters[i].kind == RIG_POINTER && p && !room(p))
            return misuse(DEVICE_LOST, "kernel %s: argument %u is freed memory when it runs", code->name, i);
    }
    int status = rig_run(code, values, c->groups, c->size);
    if (status == RIG_KILLED) return DEVICE_LOST;
    if (status == RIG_BAD_ADDRESS) return misuse(DEVICE_LOST, "kernel %s touched memory that is not there", code->name);
    if (status) return misuse(DEVICE_LOST, "kernel %s: not all threads came to a barrier", code->name);
    return SUCCESS;
}

static result run(command* c) {
    if (c->action == LAUNCH) return run_launch(c);
    if (c->action == COPY) memcpy(c->target, c->source, c->bytes);
    for (size_t i = 0; c->action == FILL && i < c->bytes; i += c->pattern_bytes) memcpy(c->target + i, c->pattern, c->pattern_bytes);
    return SUCCESS;
}

// Run the commands of a list up to the one that signals an event.
static result run_until(list* l, const event* wanted) {
    size_t end = 0;
    while (end < l->count && l->commands[end].signals != wanted) end++;
    if (end == l->count) return NOT_READY;
    result status = SUCCESS;
    rig_open();
    for (size_t first = 0, last; first <= end; first = last + 1) {
        for (last = first; l->commands[last].action != BARRIER; last++) continue;
        for (size_t i = last; i-- > first;) {
            result code = run(&l->commands[i]);
            status = status ? status : code;
        }
        event* signals = l->commands[last].signals;
        if (signals) signals->signalled = 1, signals->pending = 0;
    }
    rig_close();
    if (rig_overrun()) misuse(0, "a kernel wrote past the end of an array");
    l->count -= end + 1;
    memmove(l->commands, l->commands + end + 1, l->count * sizeof *l->commands);
    return status;
}

result zeEventHostSynchronize(event* e, uint64_t timeout) {
    (void)timeout;
    ENTRY;
    NEED(e, EVENT);
    pthread_mutex_lock(&rig_gate);
    result status = e->signalled ? SUCCESS : NOT_READY;
    for (unsigned i = 0; status == NOT_READY && i < list_count; i++) status = run_until(lists[i], e);
    if (status == NOT_READY) misuse(0, "zeEventHostSynchronize: nothing will ever signal this event");
    pthread_mutex_unlock(&rig_gate);
    return status;
}

// ------------------------------------------------------------------------------------------------- modules and kernels

typedef struct { unsigned stype; const void* next; unsigned format; size_t size; const void* data; const char* flags; const void* constants; } module_desc;
typedef struct { unsigned stype; const void* next; unsigned flags; const char* name; } kernel_desc;

result zeModuleCreate(context* c, device* d, const module_desc* desc, module** out, build_log** log) {
    ENTRY;
    NEED(c, CONTEXT);
    NEED(d, DEVICE);
    TYPED(desc, 0x1b);
    *out = NULL;
    if (log) *log = NULL;
    snprintf(build_flags, sizeof build_flags, "%s", desc->flags ? desc->flags : "");
    if (desc->format || desc->size < sizeof(spirv) || *(const unsigned*)desc->data != SPIRV_MAGIC)
        return misuse(MODULE_BUILD_FAILURE, "%s: not SPIR-V, which ends the process", __func__);
    const rig_kernel* table = refuse_modules ? NULL : rig_load((const char*)desc->data + sizeof(spirv), ((const spirv*)desc->data)->bytes);
    if (!table) {
        if (log) strcpy((*log = make(LOG, sizeof **log))->text, "error: the rig was told to refuse modules");
        return MODULE_BUILD_FAILURE;
    }
    *out = make(MODULE, sizeof **out);
    (*out)->table = table;
    (*out)->device = d;
    return SUCCESS;
}
result zeModuleDestroy(module* m) {
    ENTRY;
    NEED(m, MODULE);
    if (m->kernels) return misuse(HANDLE_OBJECT_IN_USE, "%s: it has kernels", __func__);
    destroy(m);
    return SUCCESS;
}
result zeModuleBuildLogGetString(build_log* l, size_t* size, char* text) {
    NEED(l, LOG);
    if (text) memcpy(text, l->text, *size);
    else *size = strlen(l->text) + 1;
    return SUCCESS;
}
result zeModuleBuildLogDestroy(build_log* l) {
    NEED(l, LOG);
    destroy(l);
    return SUCCESS;
}

result zeKernelCreate(module* m, const kernel_desc* desc, kernel** out) {
    ENTRY;
    NEED(m, MODULE);
    TYPED(desc, 0x1d);
    const rig_kernel* code = m->table;
    while (code->name && strcmp(code->name, desc->name)) code++;
    if (!code->name || code->count > MOST_ARGUMENTS) return INVALID_KERNEL_NAME;
    *out = make(KERNEL, sizeof **out);
    (*out)->owner = m;
    (*out)->code = code;
    __atomic_fetch_add(&m->kernels, 1, __ATOMIC_ACQ_REL);
    return SUCCESS;
}
result zeKernelDestroy(kernel* k) {
    ENTRY;
    NEED(k, KERNEL);
    if (k->pending) return misuse(HANDLE_OBJECT_IN_USE, "%s: a launch that has not run uses it", __func__);
    __atomic_fetch_sub(&k->owner->kernels, 1, __ATOMIC_ACQ_REL);
    destroy(k);
    return SUCCESS;
}
result zeKernelSetGroupSize(kernel* k, unsigned x, unsigned y, unsigned z) {
    ENTRY;
    NEED(k, KERNEL);
    enter(k, __func__);
    unsigned required = k->code->most_threads;
    int good = y == 1 && z == 1 && x && x <= k->owner->device->most_threads && (!required || x == required);
    if (good) k->group = x;
    return leave(k, good ? SUCCESS : INVALID_GROUP_SIZE_DIMENSION);
}

static result set_argument(kernel* k, unsigned index, size_t size, const void* value) {
    if (index >= k->code->count) return misuse(INVALID_KERNEL_ARGUMENT_INDEX, "kernel %s has no argument %u", k->code->name, index);
    const rig_parameter* wanted = &k->code->parameters[index];
    if (size != wanted->size || size > MOST_BYTES)
        return misuse(INVALID_KERNEL_ARGUMENT_SIZE, "kernel %s: argument %u has %u bytes, not %zu", k->code->name, index, wanted->size, size);
    void* p;
    memcpy(&p, value, sizeof p < size ? sizeof p : size);
    if (wanted->kind == RIG_POINTER && (!room(p) || (uintptr_t)p % wanted->align))
        return misuse(INVALID_ARGUMENT, "kernel %s: argument %u is no address of an array", k->code->name, index);
    memcpy(k->arguments[index].bytes, value, size);
    k->arguments[index].is_set = 1;
    return SUCCESS;
}
result zeKernelSetArgumentValue(kernel* k, unsigned index, size_t size, const void* value) {
    ENTRY;
    NEED(k, KERNEL);
    enter(k, __func__);
    return leave(k, set_argument(k, index, size, value));
}

// ------------------------------------------------------------------------------------------------------------- commands

static result append(list* l, const command* c, event* signals, unsigned waits) {
    if (waits) return misuse(INVALID_ARGUMENT, "an event to wait for, which this rig has no need of");
    if (signals) {
        if (signals->base.kind != EVENT || !signals->base.alive) return misuse(INVALID_NULL_HANDLE, "a signal to no event");
        if (c->action != BARRIER) return misuse(INVALID_ARGUMENT, "only barriers signal events here");
        if (signals->pending || signals->signalled) return misuse(INVALID_ARGUMENT, "an event that was not reset");
        signals->pending = 1;
    }
    if (l->count == l->room) l->commands = realloc(l->commands, (l->room = 2 * l->room + 16) * sizeof *l->commands);
    l->commands[l->count] = *c;
    l->commands[l->count++].signals = signals;
    return SUCCESS;
}

result zeCommandListAppendBarrier(list* l, event* signals, unsigned count, event** waits) {
    ENTRY;
    NEED(l, LIST);
    (void)waits;
    enter(l, __func__);
    return leave(l, append(l, &(command){.action = BARRIER}, signals, count));
}

static int is_reachable(const void* p, size_t bytes) {
    // What lies in no allocation is the host's own memory.
    size_t left = room(p);
    return p && (!left || left >= bytes);
}
result zeCommandListAppendMemoryCopy(list* l, void* to, const void* from, size_t bytes, event* signals, unsigned count, event** waits) {
    ENTRY;
    NEED(l, LIST);
    (void)waits;
    enter(l, __func__);
    command made = {.action = COPY, .target = to, .source = from, .bytes = bytes};
    if ((char*)to < (const char*)from + bytes && (const char*)from < (char*)to + bytes) return leave(l, OVERLAPPING_REGIONS);
    if (!is_reachable(to, bytes) || !is_reachable(from, bytes) || (!room(to) && !room(from)))
        return leave(l, misuse(INVALID_ARGUMENT, "%s: past the end of an array, or between no arrays", __func__));
    return leave(l, append(l, &made, signals, count));
}
result zeCommandListAppendMemoryFill(list* l, void* to, const void* pattern, size_t size, size_t bytes, event* signals, unsigned count, event** waits) {
    ENTRY;
    NEED(l, LIST);
    (void)waits;
    enter(l, __func__);
    command made = {.action = FILL, .target = to, .bytes = bytes, .pattern_bytes = size};
    if (!size || size > MOST_BYTES || size & (size - 1) || bytes % size || room(to) < bytes)
        return leave(l, misuse(INVALID_SIZE, "%s: the pattern, or past the end of an array", __func__));
    memcpy(made.pattern, pattern, size);
    return leave(l, append(l, &made, signals, count));
}

static result append_launch(list* l, kernel* k, const rig_id* groups, event* signals, unsigned count) {
    if (!k->group) return misuse(INVALID_GROUP_SIZE_DIMENSION, "kernel %s: no group size was set", k->code->name);
    if (!groups->x || groups->y != 1 || groups->z != 1) return misuse(INVALID_ARGUMENT, "kernel %s: a launch of no groups", k->code->name);
    command made = {.action = LAUNCH, .kernel = k, .groups = *groups, .size = {k->group, 1, 1}};
    for (unsigned i = 0; i < k->code->count; i++) {
        if (!k->arguments[i].is_set) return misuse(INVALID_ARGUMENT, "kernel %s: argument %u was not set", k->code->name, i);
        void* p;
        memcpy(&p, k->arguments[i].bytes, sizeof p);
        if (k->code->parameters[i].kind == RIG_POINTER && !room(p))
            return misuse(INVALID_ARGUMENT, "kernel %s: argument %u is freed memory", k->code->name, i);
    }
    memcpy(made.arguments, k->arguments, sizeof made.arguments);
    result code = append(l, &made, signals, count);
    k->pending += code == SUCCESS;
    return code;
}
result zeCommandListAppendLaunchKernel(list* l, kernel* k, const rig_id* groups, event* signals, unsigned count, event** waits) {
    ENTRY;
    NEED(l, LIST);
    NEED(k, KERNEL);
    (void)waits;
    enter(l, __func__);
    return leave(l, append_launch(l, k, groups, signals, count));
}
