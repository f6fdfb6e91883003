// Generated kernels as an object that a device rig loads: each kernel behind one table, with what a driver knows of its
// parameters. `c_device/rig.c` has the ids and runs the threads.
#pragma once
#include "base.h"

extern "C" rig_id rig_group, rig_lane, rig_group_size, rig_grid_size;
extern "C" void rig_barrier();
extern "C" unsigned long long* rig_warp(unsigned mask, unsigned long long value);

// As in `c_device/rig.h`.
enum { RIG_VALUE, RIG_POINTER, RIG_REFERENCE, RIG_ID };
struct rig_parameter {
    unsigned kind, size, align;
};
struct rig_kernel {
    const char* name;
    void (*thread)(void**);
    const rig_parameter* parameters;
    unsigned count, most_threads, waits;
};
template <class T> struct rig_described { static constexpr rig_parameter value = {RIG_VALUE, sizeof(T), alignof(T)}; };
template <class T> struct rig_described<T*> { static constexpr rig_parameter value = {RIG_POINTER, sizeof(T*), alignof(T)}; };
template <class T> struct rig_described<T&> { static constexpr rig_parameter value = {RIG_REFERENCE, sizeof(T), alignof(T)}; };
template <> struct rig_described<rig_id> { static constexpr rig_parameter value = {RIG_ID, sizeof(rig_id), alignof(rig_id)}; };
template <class... A>
struct rig_list {
    static constexpr rig_parameter values[sizeof...(A) + 1] = {rig_described<A>::value...};
};
template <class... A>
static constexpr rig_kernel rig_describe(void (*)(A...), const char* name, void (*thread)(void**), unsigned most, unsigned waits) {
    return {name, thread, rig_list<A...>::values, sizeof...(A), most, waits};
}
#define RIG_ENTER(name) static void rig_enter_##name(void** p) { rig_thread(name, p); }
#define RIG_DESCRIBE(name, most, waits) rig_describe(name, #name, rig_enter_##name, most, waits)
