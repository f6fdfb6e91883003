// Metal's language on the host. Its library comes through `#include <metal_stdlib>`, beside this file.
#pragma once
#ifdef RIG_DEVICE
#include "kernel.h"
#include "rig_math.h"
#else
#include "host.h"
#endif
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef rig_id uint3;
#define threadgroup_barrier(flags) rig_barrier()
// Names that the C library has too; Metal's own are in `metal`, and a call would be ambiguous.
#define sqrt metal_sqrt
#define sin metal_sin
#define cos metal_cos
#define tan metal_tan
#define asin metal_asin
#define acos metal_acos
#define atan metal_atan
#define sinh metal_sinh
#define cosh metal_cosh
#define tanh metal_tanh
#define exp metal_exp
#define exp2 metal_exp2
#define log metal_log
#define log2 metal_log2
#define log10 metal_log10
#define floor metal_floor
#define ceil metal_ceil
#define trunc metal_trunc
#define rint metal_rint
#define atan2 metal_atan2
#define pow metal_pow
#define fmod metal_fmod
#define copysign metal_copysign
#define abs metal_abs
#define fma metal_fma
#define device
#define constant const
#define thread
#define threadgroup
#define kernel extern "C"
