#include <stdint.h>

enum { TILE = 16 };

/* One dot product after another, as the definition has it. */
void naive_matmul(const float *restrict a, const float *restrict b, float *restrict c, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int64_t k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

/* The same sums in the same order, a row of c at a time. */
void matmul_ikj(const float *restrict a, const float *restrict b, float *restrict c, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++)
            c[i * n + j] = 0.0f;
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}

/* A tile of c at a time, from copies of tiles of a and b; each element adds in the same order as above. */
void tiled_matmul(const float *restrict a, const float *restrict b, float *restrict c, int64_t n) {
    const int64_t tiles = n / TILE;
#pragma omp parallel for
    for (int64_t group = 0; group < tiles * tiles; group++) {
        const int64_t row = group / tiles * TILE, column = group % tiles * TILE;
        float left[TILE][TILE], right[TILE][TILE], sum[TILE][TILE] = {{0}};
        for (int64_t t = 0; t < n; t += TILE) {
            for (int y = 0; y < TILE; y++)
                for (int x = 0; x < TILE; x++) {
                    left[y][x] = a[(row + y) * n + t + x];
                    right[y][x] = b[(t + y) * n + column + x];
                }
            for (int y = 0; y < TILE; y++)
                for (int x = 0; x < TILE; x++)
                    for (int k = 0; k < TILE; k++)
                        sum[y][x] += left[y][k] * right[k][x];
        }
        for (int y = 0; y < TILE; y++)
            for (int x = 0; x < TILE; x++)
                c[(row + y) * n + column + x] = sum[y][x];
    }
}
