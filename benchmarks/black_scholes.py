"""Black–Scholes prices of European options in f64: exp, log, sqrt and divisions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


@tack.func
def normal_cdf(d):
    k = 1.0 / (1.0 + 0.2316419 * abs(d))
    poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.39894228040143267794 * math.exp(-0.5 * d * d) * poly
    return 1.0 - tail if d > 0.0 else tail


@tack.kernel
def black_scholes(call, put, price, strike, years, rate, volatility):
    for i in range(call.shape[0]):
        s, x, t = price[i], strike[i], years[i]
        deviation = volatility * math.sqrt(t)
        d1 = (math.log(s / x) + (rate + 0.5 * volatility * volatility) * t) / deviation
        d2 = d1 - deviation
        c1, c2 = normal_cdf(d1), normal_cdf(d2)
        discounted = x * math.exp(-rate * t)
        call[i] = s * c1 - discounted * c2
        put[i] = discounted * (1.0 - c2) - s * (1.0 - c1)


def normal_cdf_numpy(d: np.ndarray) -> np.ndarray:
    k = 1.0 / (1.0 + 0.2316419 * np.abs(d))
    poly = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.39894228040143267794 * np.exp(-0.5 * d * d) * poly
    return np.where(d > 0.0, 1.0 - tail, tail)


def in_numpy(call, put, s, x, t, rate, volatility) -> None:
    deviation = volatility * np.sqrt(t)
    d1 = (np.log(s / x) + (rate + 0.5 * volatility * volatility) * t) / deviation
    c1, c2 = normal_cdf_numpy(d1), normal_cdf_numpy(d1 - deviation)
    discounted = x * np.exp(-rate * t)
    call[...] = s * c1 - discounted * c2
    put[...] = discounted * (1.0 - c2) - s * (1.0 - c1)


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 12 if quick else 16 << 20
    random = np.random.default_rng(1)
    price, strike, years = (harness.filled(random.uniform(*span, n)) for span in ((5, 30), (1, 100), (0.25, 10)))
    call, put = harness.zeros(n, np.float64), harness.zeros(n, np.float64)
    arguments = (call, put, price, strike, years, 0.02, 0.30)
    yield harness.Case(
        name=f"Black–Scholes f64 {n:,}",
        workload="black_scholes",
        outputs=(call, put),
        tack=lambda: black_scholes(*arguments),
        c=lambda library: bind(library, "black_scholes", *arguments, n),
        numpy=lambda: in_numpy(*arguments),
        tolerance=1e-14,  # each library has its own exp and log
        numpy_tolerance=1e-14,
        arguments=arguments,
        peer_tolerance=1e-12,
        no_errno=True,
    )
