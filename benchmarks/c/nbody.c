#include <math.h>
#include <stdint.h>

void nbody(float *restrict x, float *restrict y, float *restrict z, float *restrict vx, float *restrict vy,
           float *restrict vz, const float *restrict mass, float dt, int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        float ax = 0.0f, ay = 0.0f, az = 0.0f;
        float xi = x[i], yi = y[i], zi = z[i];
        for (int64_t j = 0; j < n; j++) {
            float dx = x[j] - xi, dy = y[j] - yi, dz = z[j] - zi;
            float r2 = dx * dx + dy * dy + dz * dz + 1e-3f;
            float inverse = 1.0f / sqrtf(r2);
            float f = mass[j] * inverse * inverse * inverse;
            ax += f * dx;
            ay += f * dy;
            az += f * dz;
        }
        vx[i] += dt * ax;
        vy[i] += dt * ay;
        vz[i] += dt * az;
    }
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        x[i] += dt * vx[i];
        y[i] += dt * vy[i];
        z[i] += dt * vz[i];
    }
}
