// The C library's mathematics, declared and not included; where a dialect overloads by type, the names of f32 too.
#pragma once
#ifdef RIG_OVERLOADS
#define RIG_F32(name, parameters, arguments) static inline float name parameters { return name##f arguments; }
#else
#define RIG_F32(name, parameters, arguments)
#endif
#define RIG_MATH(name, c_double, c_float, arguments) \
    extern "C" double name c_double; \
    extern "C" float name##f c_float; \
    RIG_F32(name, c_float, arguments)
#define RIG_UNARY(name) RIG_MATH(name, (double x), (float x), (x))
#define RIG_BINARY(name) RIG_MATH(name, (double x, double y), (float x, float y), (x, y))
RIG_UNARY(sqrt) RIG_UNARY(cbrt) RIG_UNARY(sin) RIG_UNARY(cos) RIG_UNARY(tan) RIG_UNARY(asin) RIG_UNARY(acos)
RIG_UNARY(atan) RIG_UNARY(sinh) RIG_UNARY(cosh) RIG_UNARY(tanh) RIG_UNARY(asinh) RIG_UNARY(acosh) RIG_UNARY(atanh)
RIG_UNARY(exp) RIG_UNARY(exp2) RIG_UNARY(expm1) RIG_UNARY(log) RIG_UNARY(log2) RIG_UNARY(log10) RIG_UNARY(log1p)
RIG_UNARY(floor) RIG_UNARY(ceil) RIG_UNARY(trunc) RIG_UNARY(round) RIG_UNARY(rint) RIG_UNARY(nearbyint)
RIG_UNARY(fabs) RIG_UNARY(erf) RIG_UNARY(erfc) RIG_UNARY(tgamma) RIG_UNARY(lgamma)
RIG_BINARY(atan2) RIG_BINARY(pow) RIG_BINARY(fmod) RIG_BINARY(hypot) RIG_BINARY(copysign) RIG_BINARY(fmin)
RIG_BINARY(fmax) RIG_BINARY(fdim)
RIG_MATH(fma, (double x, double y, double z), (float x, float y, float z), (x, y, z))
RIG_MATH(ldexp, (double x, int y), (float x, int y), (x, y))
#undef RIG_UNARY
#undef RIG_BINARY
#undef RIG_MATH
#undef RIG_F32
#ifndef INFINITY
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#endif
