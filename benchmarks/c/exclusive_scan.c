#include <stdint.h>
#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_max_threads(void) { return 1; }
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

enum { THREADS = 1024 };

/* Each thread adds up its part, then scans it from the sum of the parts before it. */
void exclusive_scan(int32_t *restrict out, const int32_t *restrict values, int64_t n) {
    uint32_t totals[THREADS] = {0};
#pragma omp parallel num_threads(omp_get_max_threads() < THREADS ? omp_get_max_threads() : THREADS)
    {
        const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
        const int64_t begin = n * me / all, end = n * (me + 1) / all;
        uint32_t total = 0;
        for (int64_t i = begin; i < end; i++)
            total += (uint32_t)values[i];
        totals[me] = total;
#pragma omp barrier
        total = 0;
        for (int64_t k = 0; k < me; k++)
            total += totals[k];
        for (int64_t i = begin; i < end; i++) {
            uint32_t value = (uint32_t)values[i];
            out[i] = (int32_t)total;
            total += value;
        }
    }
}
