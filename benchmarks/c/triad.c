#include <stdint.h>

void triad(float *restrict a, const float *restrict b, const float *restrict c, float s, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}
