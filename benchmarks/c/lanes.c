/* The kernels of lane_kernels.py as a C programmer would write them. Pointers are restrict, nothing is unrolled by hand. */
#include <math.h>
#include <stdint.h>

#define F float *restrict
#define CF const float *restrict

static inline int32_t floordiv_i32(int32_t a, int32_t b) {
    int32_t q = a / b, r = a % b;
    return q - (r != 0 && ((r < 0) != (b < 0)));
}

static inline int64_t floordiv_i64(int64_t a, int64_t b) {
    int64_t q = a / b, r = a % b;
    return q - (r != 0 && ((r < 0) != (b < 0)));
}

static inline int64_t mod_i64(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

void saxpy(int64_t n, float a, CF x, F y) {
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

void mandel(int64_t h, int64_t w, int32_t lim, int32_t *restrict out) {
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++) {
            float cx = (float)j * (3.0f / (float)w) - 2.0f, cy = (float)i * (2.5f / (float)h) - 1.25f;
            float x = 0.0f, y = 0.0f;
            int32_t k = 0;
            while (k < lim && x * x + y * y <= 4.0f) {
                float t = x * x - y * y + cx;
                y = 2.0f * x * y + cy;
                x = t;
                k++;
            }
            out[i * w + j] = k;
        }
}

void nbody(int64_t n, float eps, CF x, CF y, CF z, CF m, F ax, F ay, F az) {
    for (int64_t i = 0; i < n; i++) {
        float sx = 0.0f, sy = 0.0f, sz = 0.0f;
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            float inv = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + eps), f = m[j] * inv * inv * inv;
            sx += dx * f;
            sy += dy * f;
            sz += dz * f;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}

void nbody_aos(int64_t n, float eps, CF p, F a) {
    for (int64_t i = 0; i < n; i++) {
        float sx = 0.0f, sy = 0.0f, sz = 0.0f;
        for (int64_t j = 0; j < n; j++) {
            float dx = p[3 * j] - p[3 * i], dy = p[3 * j + 1] - p[3 * i + 1], dz = p[3 * j + 2] - p[3 * i + 2];
            float r2 = dx * dx + dy * dy + dz * dz + eps, f = 1.0f / (r2 * sqrtf(r2));
            sx += dx * f;
            sy += dy * f;
            sz += dz * f;
        }
        a[3 * i] = sx;
        a[3 * i + 1] = sy;
        a[3 * i + 2] = sz;
    }
}

void jacobi(int64_t h, int64_t w, CF a, F b) {
    for (int64_t i = 1; i < h - 1; i++)
        for (int64_t j = 1; j < w - 1; j++)
            b[i * w + j] = 0.25f * (a[(i - 1) * w + j] + a[(i + 1) * w + j] + a[i * w + j - 1] + a[i * w + j + 1]);
}

void stencil3(int64_t d, int64_t h, int64_t w, CF a, F b) {
    for (int64_t i = 1; i < d - 1; i++)
        for (int64_t j = 1; j < h - 1; j++)
            for (int64_t k = 1; k < w - 1; k++) {
                int64_t c = (i * h + j) * w + k;
                float around = a[c - 1] + a[c + 1] + a[c - w] + a[c + w] + a[c - w * h] + a[c + w * h];
                b[c] = 0.4f * a[c] + 0.1f * around;
            }
}

void hash32(int64_t n, const uint32_t *restrict x, uint32_t *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t h = x[i];
        h = (h ^ (h >> 16)) * 2246822507u;
        h = (h ^ (h >> 13)) * 3266489909u;
        out[i] = h ^ (h >> 16);
    }
}

void matmul(int64_t n, CF a, CF b, F c) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            float s = 0.0f;
            for (int64_t k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j];
            c[i * n + j] = s;
        }
}

void interp(int64_t n, CF t, CF q, F out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = (int64_t)q[i];
        float f = q[i] - (float)k;
        out[i] = t[k] + f * (t[k + 1] - t[k]);
    }
}

void branchy(int64_t n, CF x, F out) {
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], r;
        if (v < 0.2f)
            r = v * v + 1.0f;
        else if (v < 0.7f)
            r = sqrtf(v) * 0.5f + 1.0f / (v + 1.0f);
        else {
            r = v;
            for (int k = 0; k < 8; k++) r = r * v + 0.25f;
        }
        out[i] = r;
    }
}

void collatz(int64_t n, int32_t *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t x = i + 1;
        int32_t k = 0;
        while (x != 1) {
            x = x % 2 == 0 ? x / 2 : 3 * x + 1;
            k++;
        }
        out[i] = k;
    }
}

void floordiv(int64_t n, const int32_t *restrict a, const int32_t *restrict b, int32_t *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = b[i] != 0 ? floordiv_i32(a[i], b[i]) : 0;
}

void floordiv64(int64_t n, const int64_t *restrict a, const int64_t *restrict b, int64_t *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = b[i] != 0 ? floordiv_i64(a[i], b[i]) : 0;
}

void poly64(int64_t n, const double *restrict x, double *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], s = 0.0 * v;
        for (int64_t k = 0; k < 24; k++) s = s * v + (double)k;
        out[i] = s / (1.0 + sqrt(v));
    }
}

void ragged(int64_t n, const int64_t *restrict first, CF x, F out) {
    for (int64_t i = 0; i < n; i++) {
        float s = 0.0f;
        for (int64_t k = first[i]; k < first[i + 1]; k++) s += x[k];
        out[i] = s;
    }
}

void scatter(int64_t n, const int64_t *restrict p, CF x, F out) {
    for (int64_t i = 0; i < n; i++) out[p[i]] = x[i] * 2.0f;
}

void hist(int64_t n, const uint32_t *restrict x, int32_t *restrict h) {
    for (int64_t i = 0; i < n; i++) __atomic_fetch_add(&h[x[i] & 255], 1, __ATOMIC_RELAXED);
}

void expk(int64_t n, CF x, F out) {
    for (int64_t i = 0; i < n; i++) out[i] = x[i] > 0.0f ? expf(x[i]) : x[i];
}

void diverge(int64_t n, const int32_t *restrict x, F out) {
    for (int64_t i = 0; i < n; i++) {
        float r = (float)(x[i] & 255) * 0.01f;
        switch (x[i] & 7) {
        case 0: for (int k = 0; k < 60; k++) r = r * 0.9f + 0.1f; break;
        case 1: for (int k = 0; k < 60; k++) r = r / 1.1f + 0.2f; break;
        case 2: for (int k = 0; k < 60; k++) r = sqrtf(r) + 0.3f; break;
        case 3: for (int k = 0; k < 60; k++) r = r - r * r * 0.4f; break;
        case 4: for (int k = 0; k < 60; k++) r = r * r * 0.5f + 0.5f; break;
        case 5: for (int k = 0; k < 60; k++) r = 1.0f / (r + 0.6f); break;
        case 6: for (int k = 0; k < 60; k++) r = fabsf(r - 0.7f); break;
        default: for (int k = 0; k < 60; k++) r = (r + 0.8f) * 0.5f;
        }
        out[i] = r;
    }
}

void rare_mul(int64_t n, const int32_t *restrict x, F out) {
    for (int64_t i = 0; i < n; i++) {
        float r = (float)(x[i] & 255) * 0.01f;
        if ((x[i] & 63) == 0)
            for (int k = 0; k < 100; k++) r = r * 0.9f + 0.1f;
        out[i] = r;
    }
}

void rare_div(int64_t n, const int32_t *restrict x, F out) {
    for (int64_t i = 0; i < n; i++) {
        float r = (float)(x[i] & 255) * 0.01f;
        if ((x[i] & 63) == 0)
            for (int k = 0; k < 100; k++) r = 1.0f / (r + 0.6f) + 1.0f / (r + 0.7f) + sqrtf(r);
        out[i] = r;
    }
}

void rare_chase(int64_t n, const int32_t *restrict x, const int32_t *restrict t, int32_t *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        int32_t k = x[i] & 1023;
        if ((x[i] & 63) == 0)
            for (int s = 0; s < 100; s++) k = (t[k] + 1) & 1023;
        out[i] = k;
    }
}

void rare_mod64(int64_t n, const int32_t *restrict x, const int64_t *restrict m, int64_t *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t k = x[i];
        if ((x[i] & 63) == 0)
            for (int64_t s = 0; s < 100; s++) k = mod_i64(k * 31 + s, m[s & 15]);
        out[i] = k;
    }
}

void gcd64(int64_t n, const int64_t *restrict x, const int64_t *restrict y, int64_t *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        int64_t a = x[i], b = y[i];
        while (b != 0) {
            int64_t t = mod_i64(a, b);
            a = b;
            b = t;
        }
        out[i] = a;
    }
}
