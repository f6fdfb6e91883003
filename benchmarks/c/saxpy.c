#include <stdint.h>

void saxpy(float *restrict z, const float *restrict x, const float *restrict y, float a, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++)
        z[i] = a * x[i] + y[i];
}
