// What the shims of all dialects build on. No header of the system is included: reading them would take longer than
// compiling a kernel.
#pragma once

struct rig_id {
    unsigned x, y, z;
};

template <class To, class From>
static inline To rig_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "widths differ");
    To result;
    __builtin_memcpy(&result, &value, sizeof result);
    return result;
}

// One thread at a time runs, so plain accesses are indivisible; unsigned arithmetic, since an atomic sum wraps.
template <class T, class F>
static inline T rig_exchange(volatile T* p, F next) {
    T old = *p;
    *p = next(old);
    return old;
}
template <unsigned size> struct rig_unsigned;
template <> struct rig_unsigned<1> { typedef unsigned char type; };
template <> struct rig_unsigned<2> { typedef unsigned short type; };
template <> struct rig_unsigned<4> { typedef unsigned type; };
template <> struct rig_unsigned<8> { typedef unsigned long long type; };
template <class T> constexpr bool rig_is_float = static_cast<T>(0.5) != static_cast<T>(0);
template <class T>
static inline T rig_wrapping_add(T a, T b) {
    typedef typename rig_unsigned<sizeof(T)>::type bits;
    if constexpr (rig_is_float<T>) return a + b;
    else return static_cast<T>(static_cast<bits>(a) + static_cast<bits>(b));
}
template <class T>
static inline T rig_wrapping_sub(T a, T b) {
    typedef typename rig_unsigned<sizeof(T)>::type bits;
    if constexpr (rig_is_float<T>) return a - b;
    else return static_cast<T>(static_cast<bits>(a) - static_cast<bits>(b));
}

// A call whose arguments lie behind pointers; a parameter that is a reference takes the object itself.
template <class T> struct rig_object { typedef T type; };
template <class T> struct rig_object<T&> { typedef T type; };
template <class T, T... I> struct rig_sequence {};
#if defined(__has_builtin) && __has_builtin(__make_integer_seq)
template <unsigned count> using rig_count = __make_integer_seq<rig_sequence, unsigned, count>;
#else
template <unsigned count> using rig_count = rig_sequence<unsigned, __integer_pack(count)...>;
#endif
template <class... A, unsigned... I>
static inline void rig_call(void (*kernel)(A...), void** p, rig_sequence<unsigned, I...>) {
    kernel(*static_cast<typename rig_object<A>::type*>(p[I])...);
}
template <class... A>
static inline void rig_thread(void (*kernel)(A...), void** p) {
    rig_call(kernel, p, rig_count<sizeof...(A)>());
}
