// CUDA C and HIP C on the host.
#pragma once
#ifdef RIG_DEVICE
#include "kernel.h"
#include "rig_math.h"
#else
#include "host.h"
#endif
#define __global__
#define __device__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __shared__ static
#define threadIdx rig_lane
#define blockIdx rig_group
#define __syncthreads rig_barrier

static inline float __uint_as_float(unsigned x) { return rig_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return rig_bits<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return rig_bits<double>(x); }
static inline long long __double_as_longlong(double x) { return rig_bits<long long>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }

// Never fused with a sum: the product is a value returned from a function that is not inlined.
__attribute__((noinline, noipa)) static float __fmul_rn(float a, float b) { return a * b; }
__attribute__((noinline, noipa)) static double __dmul_rn(double a, double b) { return a * b; }

template <class T> static inline T atomicAdd(T* p, T v) { return rig_exchange(p, [=](T x) { return rig_wrapping_add(x, v); }); }
template <class T> static inline T atomicSub(T* p, T v) { return rig_exchange(p, [=](T x) { return rig_wrapping_sub(x, v); }); }
template <class T> static inline T atomicMin(T* p, T v) { return rig_exchange(p, [=](T x) { return v < x ? v : x; }); }
template <class T> static inline T atomicMax(T* p, T v) { return rig_exchange(p, [=](T x) { return v > x ? v : x; }); }
template <class T> static inline T atomicAnd(T* p, T v) { return rig_exchange(p, [=](T x) { return T(x & v); }); }
template <class T> static inline T atomicOr(T* p, T v) { return rig_exchange(p, [=](T x) { return T(x | v); }); }
template <class T> static inline T atomicXor(T* p, T v) { return rig_exchange(p, [=](T x) { return T(x ^ v); }); }
static inline unsigned atomicInc(unsigned* p, unsigned last) { return rig_exchange(p, [=](unsigned x) { return x >= last ? 0u : x + 1u; }); }
static inline void __threadfence() {}
template <class T> static inline T atomicExch(T* p, T v) { return rig_exchange(p, [=](T) { return v; }); }
template <class T> static inline T atomicCAS(T* p, T e, T d) { return rig_exchange(p, [=](T x) { return x == e ? d : x; }); }

// The lanes of a warp, by what each gives the others.
enum { RIG_WARP = 32 };
#ifdef RIG_DEVICE
static inline unsigned rig_warp_lane() { return (rig_lane.x + rig_group_size.x * (rig_lane.y + rig_group_size.y * rig_lane.z)) % RIG_WARP; }
#else
static inline unsigned rig_warp_lane() { return rig_lane.x % RIG_WARP; }
#endif
template <class T> static inline unsigned long long rig_word(T v) {
    unsigned long long word = 0;
    __builtin_memcpy(&word, &v, sizeof v);
    return word;
}
template <class T> static inline T rig_from_word(unsigned long long word) {
    T v;
    __builtin_memcpy(&v, &word, sizeof v);
    return v;
}
// Past the end of a segment of `width` lanes a lane keeps its own value.
template <class T> static inline T rig_shuffle(unsigned mask, T v, int source, int width) {
    const unsigned long long* all = rig_warp(mask, rig_word(v));
    const int lane = (int)rig_warp_lane(), first = lane & ~(width - 1);
    return rig_from_word<T>(all[source >= first && source < first + width ? source : lane]);
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int lane, int width = RIG_WARP) {
    return rig_shuffle(mask, v, ((int)rig_warp_lane() & ~(width - 1)) + (lane & (width - 1)), width);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = RIG_WARP) {
    return rig_shuffle(mask, v, (int)rig_warp_lane() - (int)by, width);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = RIG_WARP) {
    return rig_shuffle(mask, v, (int)rig_warp_lane() + (int)by, width);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int by, int width = RIG_WARP) {
    return rig_shuffle(mask, v, (int)rig_warp_lane() ^ by, width);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) { rig_warp(mask, 0); }
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const unsigned long long* all = rig_warp(mask, predicate != 0);
    unsigned found = 0;
    for (int lane = 0; lane < RIG_WARP; lane++) found |= (mask >> lane & 1 && all[lane]) ? 1u << lane : 0;
    return found;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }
// HIP's, which has no mask: in a wave of 64 lanes those from 32 on take no part, and what they give is undefined.
template <class T> static inline T __shfl_down(T v, unsigned by) {
    const unsigned long long* all = rig_warp(0xffffffffu, rig_word(v));
    const unsigned source = rig_warp_lane() + by;
    return rig_from_word<T>(source < RIG_WARP ? all[source] : 0xfdfdfdfdfdfdfdfdull);
}
