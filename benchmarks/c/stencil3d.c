#include <stdint.h>

void stencil3d(float *restrict b, const float *restrict a, int64_t n) {
    int64_t p = n * n;
#pragma omp parallel for
    for (int64_t i = 1; i < n - 1; i++)
        for (int64_t j = 1; j < n - 1; j++)
            for (int64_t k = 1; k < n - 1; k++) {
                int64_t q = i * p + j * n + k;
                b[q] = 0.4f * a[q] + 0.1f * (a[q - p] + a[q + p] + a[q - n] + a[q + n] + a[q - 1] + a[q + 1]);
            }
}
