// What the headers of HIP give device code, for clang without them: enough to compile generated text for any architecture.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define threadIdx (rig_ids{__builtin_amdgcn_workitem_id_x()})
#define blockIdx (rig_ids{__builtin_amdgcn_workgroup_id_x()})
struct rig_ids {
    unsigned x;
};
#define __syncthreads __builtin_amdgcn_s_barrier
__device__ inline float __shfl_down(float v, unsigned by) {
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((lane + by) * 4, __builtin_bit_cast(int, v)));
}
#define RIG_UNARY(name) extern "C" __device__ float name##f(float); extern "C" __device__ double name(double);
#define RIG_BINARY(name) extern "C" __device__ float name##f(float, float); extern "C" __device__ double name(double, double);
RIG_UNARY(sqrt) RIG_UNARY(sin) RIG_UNARY(cos) RIG_UNARY(tan) RIG_UNARY(asin) RIG_UNARY(acos) RIG_UNARY(atan)
RIG_UNARY(sinh) RIG_UNARY(cosh) RIG_UNARY(tanh) RIG_UNARY(exp) RIG_UNARY(exp2) RIG_UNARY(expm1) RIG_UNARY(log)
RIG_UNARY(log2) RIG_UNARY(log10) RIG_UNARY(log1p) RIG_UNARY(floor) RIG_UNARY(ceil) RIG_UNARY(trunc) RIG_UNARY(rint)
RIG_UNARY(fabs) RIG_BINARY(atan2) RIG_BINARY(pow) RIG_BINARY(fmod) RIG_BINARY(copysign) RIG_BINARY(fmin) RIG_BINARY(fmax)
extern "C" __device__ float fmaf(float, float, float);
extern "C" __device__ double fma(double, double, double);
#define __uint_as_float(x) __builtin_bit_cast(float, (unsigned)(x))
#define __float_as_uint(x) __builtin_bit_cast(unsigned, (float)(x))
#define __longlong_as_double(x) __builtin_bit_cast(double, (long long)(x))
#define __double_as_longlong(x) __builtin_bit_cast(long long, (double)(x))
#define __popc(x) __builtin_popcount(x)
#define __popcll(x) __builtin_popcountll(x)
#define __clz(x) __builtin_clzg((unsigned)(x), 32)
#define __clzll(x) __builtin_clzg((unsigned long long)(x), 64)
#define RIG_ATOMIC(name, builtin) \
    template <class T> __device__ T atomic##name(T* p, T v) { \
        return __hip_atomic_##builtin(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
    }
RIG_ATOMIC(Add, fetch_add)
RIG_ATOMIC(Sub, fetch_sub)
RIG_ATOMIC(Min, fetch_min)
RIG_ATOMIC(Max, fetch_max)
RIG_ATOMIC(And, fetch_and)
RIG_ATOMIC(Or, fetch_or)
RIG_ATOMIC(Xor, fetch_xor)
RIG_ATOMIC(Exch, exchange)
__device__ inline unsigned atomicInc(unsigned* p, unsigned last) {
    unsigned old = *p;
    while (!__hip_atomic_compare_exchange_strong(p, &old, old >= last ? 0u : old + 1u, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)) {}
    return old;
}
__device__ inline void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
template <class T> __device__ T atomicCAS(T* p, T e, T d) {
    __hip_atomic_compare_exchange_strong(p, &e, d, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return e;
}
