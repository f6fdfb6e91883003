#include <math.h>
#include <stdint.h>

static inline double normal_cdf(double d) {
    double k = 1.0 / (1.0 + 0.2316419 * fabs(d));
    double poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
    double tail = 0.39894228040143267794 * exp(-0.5 * d * d) * poly;
    return d > 0.0 ? 1.0 - tail : tail;
}

void black_scholes(double *restrict call, double *restrict put, const double *restrict price,
                   const double *restrict strike, const double *restrict years, double rate, double volatility,
                   int64_t n) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        double s = price[i], x = strike[i], t = years[i];
        double deviation = volatility * sqrt(t);
        double d1 = (log(s / x) + (rate + 0.5 * volatility * volatility) * t) / deviation;
        double d2 = d1 - deviation;
        double c1 = normal_cdf(d1), c2 = normal_cdf(d2);
        double discounted = x * exp(-rate * t);
        call[i] = s * c1 - discounted * c2;
        put[i] = discounted * (1.0 - c2) - s * (1.0 - c1);
    }
}
