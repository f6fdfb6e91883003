// What the device rigs share: memory, and the threads of a kernel. `rig.c` is loaded first, with names visible to all.
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    unsigned x, y, z;
} rig_id;

// A kernel of an object, as `c_host/kernel.h` writes it.
enum { RIG_VALUE, RIG_POINTER, RIG_REFERENCE, RIG_ID };
typedef struct {
    unsigned kind, size, align;
} rig_parameter;
typedef struct {
    const char* name;
    void (*thread)(void**);
    const rig_parameter* parameters;
    unsigned count, most_threads, waits;
} rig_kernel;

// One call at a time, of all rigs: they share what is below. Nothing calls Python while it holds this.
extern pthread_mutex_t rig_gate;

// The ids that a running thread sees.
extern rig_id rig_group, rig_lane, rig_group_size, rig_grid_size;

enum { RIG_DONE, RIG_BAD_ADDRESS, RIG_DIVERGED, RIG_KILLED };

// Memory that the host cannot touch but between `rig_open` and `rig_close`. It is poisoned when allocated and gone when
// freed; a page that nothing can touch follows each allocation, and bytes up to there are watched.
uint64_t rig_allocate(size_t bytes);
int rig_free(uint64_t address);
// The bytes from an address to the end of its allocation; 0 if it lies in none.
size_t rig_room(uint64_t address);
// Whether something wrote past the end of an allocation that still lives.
int rig_overrun(void);
size_t rig_live_bytes(void);
size_t rig_live_count(void);
void rig_open(void);
void rig_close(void);

// Run a kernel with arguments behind pointers (without the ids, which a kernel may take as parameters); the memory must
// be open. One thread runs at a time.
int rig_run(const rig_kernel* kernel, void** arguments, rig_id groups, rig_id size);
// The same, holding the gate: who is in Python must not hold it, since native launches wait for it with the GIL.
int rig_run_alone(const rig_kernel* kernel, void** arguments, rig_id groups, rig_id size);

// How many groups may still run, in all launches, before one is killed; negative: any number.
extern long long rig_groups_left;
// If not 0: of a launch only so many groups at each end run, for launches that are too long for a processor.
extern unsigned rig_ends;

// What threads call.
void rig_barrier(void);
unsigned long long* rig_warp(unsigned mask, unsigned long long value);

// The first undefined behaviour of generated code since the last call, in words; empty if there was none.
const char* rig_undefined(void);

// Python compiles and loads: `compile` gives an object, or the compiler's words and a status that is not 0, to `rig_give`.
typedef struct {
    char* data;
    size_t size;
} rig_bytes;
typedef int (*rig_compiler)(const char* dialect, const char* text, rig_bytes* out);
typedef const rig_kernel* (*rig_loader)(const char* image, size_t size);
void rig_set_host(rig_compiler compile, rig_loader load);
void rig_give(rig_bytes* out, const char* data, size_t size);
int rig_compile(const char* dialect, const char* text, rig_bytes* out);
const rig_kernel* rig_load(const char* image, size_t size);
