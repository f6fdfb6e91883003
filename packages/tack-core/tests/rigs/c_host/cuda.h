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
template <class T> static inline T atomicExch(T* p, T v) { return rig_exchange(p, [=](T) { return v; }); }
template <class T> static inline T atomicCAS(T* p, T e, T d) { return rig_exchange(p, [=](T x) { return x == e ? d : x; }); }
