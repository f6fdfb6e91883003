#include <stdint.h>

void mandelbrot(int32_t *restrict out, int64_t n, int64_t limit) {
#pragma omp parallel for schedule(dynamic, 8)
    for (int64_t row = 0; row < n; row++)
        for (int64_t column = 0; column < n; column++) {
            float cx = -2.0f + 2.5f * (float)column / (float)n;
            float cy = -1.25f + 2.5f * (float)row / (float)n;
            float zx = 0.0f, zy = 0.0f;
            int32_t count = 0;
            while (count < limit && zx * zx + zy * zy <= 4.0f) {
                float next = zx * zx - zy * zy + cx;
                zy = 2.0f * zx * zy + cy;
                zx = next;
                count += 1;
            }
            out[row * n + column] = count;
        }
}
