// OpenCL C on the host, as C++: the atomics of OpenCL 1.2, and those with explicit orders.
#pragma once
#ifdef RIG_DEVICE
#include "kernel.h"
#define RIG_OVERLOADS
#include "rig_math.h"
#else
#ifdef RIG_DEVICE
#define RIG_OVERLOADS
#include "kernel.h"
#include "rig_math.h"
#else
#include "host.h"
#endif
#endif
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define __kernel extern "C"
#define reqd_work_group_size(x, y, z)
#define __global
#define __private
#define __constant const
#define __local
#define restrict __restrict
#define get_group_id(axis) ((ulong)rig_group.x)
#define get_local_id(axis) ((ulong)rig_lane.x)
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define barrier(flags) rig_barrier()
#define as_float(x) rig_bits<float>(x)
#define as_uint(x) rig_bits<uint>(x)
#define as_double(x) rig_bits<double>(x)
#define as_ulong(x) rig_bits<ulong>(x)
static inline int popcount(uint x) { return __builtin_popcount(x); }
static inline int popcount(ulong x) { return __builtin_popcountl(x); }
static inline int clz(uint x) { return x ? __builtin_clz(x) : 32; }
static inline int clz(ulong x) { return x ? __builtin_clzl(x) : 64; }

#define RIG_ATOMIC(name, result) \
    template <class T> static inline T atomic_##name(volatile T* p, T v) { return rig_exchange(p, [=](T x) -> T { return result; }); } \
    template <class T> static inline T atom_##name(volatile T* p, T v) { return rig_exchange(p, [=](T x) -> T { return result; }); }
RIG_ATOMIC(add, rig_wrapping_add(x, v))
RIG_ATOMIC(sub, rig_wrapping_sub(x, v))
RIG_ATOMIC(min, v < x ? v : x)
RIG_ATOMIC(max, v > x ? v : x)
RIG_ATOMIC(and, x & v)
RIG_ATOMIC(or, x | v)
RIG_ATOMIC(xor, x ^ v)
RIG_ATOMIC(xchg, v)
template <class T> static inline T atomic_cmpxchg(volatile T* p, T e, T d) { return rig_exchange(p, [=](T x) { return x == e ? d : x; }); }
template <class T> static inline T atom_cmpxchg(volatile T* p, T e, T d) { return rig_exchange(p, [=](T x) { return x == e ? d : x; }); }

enum rig_order { memory_order_relaxed, memory_scope_device };
typedef int atomic_int;
typedef uint atomic_uint;
typedef long atomic_long;
typedef ulong atomic_ulong;
typedef float atomic_float;
#define RIG_EXPLICIT(name, plain) \
    template <class T> static inline T atomic_##name##_explicit(volatile T* p, T v, rig_order, rig_order) { return atomic_##plain(p, v); }
RIG_EXPLICIT(fetch_add, add)
RIG_EXPLICIT(fetch_sub, sub)
RIG_EXPLICIT(fetch_min, min)
RIG_EXPLICIT(fetch_max, max)
RIG_EXPLICIT(fetch_and, and)
RIG_EXPLICIT(fetch_or, or)
RIG_EXPLICIT(fetch_xor, xor)
RIG_EXPLICIT(exchange, xchg)
template <class T> static inline T atomic_load_explicit(volatile T* p, rig_order, rig_order) { return *p; }
template <class T>
static inline bool atomic_compare_exchange_strong_explicit(volatile T* p, T* e, T d, rig_order, rig_order, rig_order) {
    const T expected = *e;
    *e = atomic_cmpxchg(p, expected, d);
    return *e == expected;
}
