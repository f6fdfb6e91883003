#include <stdint.h>

void array_sum(float *restrict result, const float *restrict x, int64_t n) {
    float sum = 0.0f;
#pragma omp parallel for simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    *result = sum;
}
