#include <stdint.h>

void integer_hash(uint32_t *restrict out, const uint32_t *restrict a, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = a[i];
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x *= 0x9E3779B1u;
        x ^= x >> 16;
        x *= 0x85EBCA6Bu;
        x ^= x >> 13;
        out[i] = x;
    }
}
