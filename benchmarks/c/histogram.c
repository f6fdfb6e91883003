#include <stdint.h>

/* An atomic increment by name, so that the build without OpenMP keeps it. */
void histogram(int32_t *restrict counts, const int32_t *restrict data, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++)
        __atomic_fetch_add(&counts[data[i]], 1, __ATOMIC_RELAXED);
}

enum { BINS = 256 };

/* Four copies a thread, so that equal neighbours do not wait for each other. */
void histogram_private(int32_t *restrict counts, const int32_t *restrict data, int64_t n) {
#pragma omp parallel
    {
        int32_t mine[4][BINS] = {{0}};
#pragma omp for
        for (int64_t i = 0; i < n / 4; i++)
            for (int k = 0; k < 4; k++)
                mine[k][data[4 * i + k]]++;
#pragma omp critical
        for (int bin = 0; bin < BINS; bin++)
            counts[bin] += mine[0][bin] + mine[1][bin] + mine[2][bin] + mine[3][bin];
    }
    for (int64_t i = n / 4 * 4; i < n; i++)
        counts[data[i]]++;
}
