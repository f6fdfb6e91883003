#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_max_threads(void) { return 1; }
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

enum { THREADS = 256, BITS = 11, DIGITS = 1 << BITS, PASSES = 3 };

static int32_t places[THREADS][DIGITS];

/* One pass a digit from the lowest on: count the digits of each thread's part, find where its keys of each digit
   begin, move them there. 11 bits a pass were faster than 8, and buffers of a cache line a digit slower than none.
   The second array is its own affair, as it is of any sort that takes keys and gives them sorted, Tack's too. */
void radix_sort(uint32_t *restrict out, const uint32_t *restrict values, int64_t n) {
    uint32_t *restrict spare = malloc(n * sizeof *spare);
    if (!spare)
        abort();
    const uint32_t *from = values;
    for (int pass = 0; pass < PASSES; pass++) {
        uint32_t *to = pass % 2 ? spare : out;
        const int shift = pass * BITS;
#pragma omp parallel num_threads(omp_get_max_threads() < THREADS ? omp_get_max_threads() : THREADS)
        {
            const int64_t me = omp_get_thread_num(), all = omp_get_num_threads();
            const int64_t begin = n * me / all, end = n * (me + 1) / all;
            int32_t *place = places[me];
            memset(place, 0, sizeof places[0]);
            for (int64_t i = begin; i < end; i++)
                place[from[i] >> shift & (DIGITS - 1)]++;
#pragma omp barrier
#pragma omp single
            {
                int32_t before = 0;
                for (int digit = 0; digit < DIGITS; digit++)
                    for (int64_t k = 0; k < all; k++) {
                        int32_t count = places[k][digit];
                        places[k][digit] = before;
                        before += count;
                    }
            }
            for (int64_t i = begin; i < end; i++)
                to[place[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        }
        from = to;
    }
    free(spare);
}
