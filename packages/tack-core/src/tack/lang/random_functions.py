"""The device functions of `tack.random` (rules RAND-*), written in the language itself.

The generator is Philox 4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy
as 1, 2, 3", SC 2011. It has no state: a value is a function of a key (the seed) and of a 128-bit counter, which holds
the stream, the number of the draw in it, the kind of the draw and, where draws are rejected, the attempt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tack.lang import random_numpy as host
from tack.lang import types
from tack.lang.func import Func
from tack.lang.intrinsics import PUBLIC
from tack.lang.random_numpy import (
    DIRECTION2,
    DIRECTION3,
    KEY_STEP_0,
    KEY_STEP_1,
    MULTIPLIER_0,
    MULTIPLIER_1,
    NORMAL,
    NORMAL64,
    RANDINT,
    TWO_PI,
    UNIFORM,
    UNIFORM64,
)

# To a type checker calls of dtypes give host scalars, which have no operators.
f32: Any = types.f32
f64: Any = types.f64
i64: Any = types.i64
u32: Any = types.u32
u64: Any = types.u64
sqrt, log, sin, cos, clz = (PUBLIC[name] for name in "sqrt log sin cos clz".split())


class RandomFunc(Func):
    """A device function that also works on the host, on NumPy arrays."""

    def __init__(self, fn: Callable[..., Any], mirror: Callable[..., Any]) -> None:
        super().__init__(fn)
        self.mirror = mirror

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The same numbers on the host; see `tack.random`."""
        return self.mirror(*args, **kwargs)


def _mirrored(mirror: Callable[..., Any]) -> Callable[[Callable[..., Any]], RandomFunc]:
    return functools.partial(RandomFunc, mirror=mirror)


@_mirrored(host.philox)
def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> Any:
    """Philox 4x32-10: four u32 words, a function of four counter words and two key words.

    The words are taken modulo 2**32, ``c0`` and ``k0`` the low ones. Unpack the result: ``a, b, c, d = philox(...)``.
    """
    a, b, c, d = u32(c0), u32(c1), u32(c2), u32(c3)
    low, high = u32(k0), u32(k1)
    for _ in range(10):
        p = u64(a) * u64(MULTIPLIER_0)
        q = u64(c) * u64(MULTIPLIER_1)
        a, b, c, d = u32(q >> 32) ^ b ^ low, u32(q), u32(p >> 32) ^ d ^ high, u32(p)
        low += u32(KEY_STEP_0)
        high += u32(KEY_STEP_1)
    return a, b, c, d


@_mirrored(host.block)
def _block(kind: Any, attempt: Any, seed: Any, stream: Any, draw: Any) -> Any:
    """The four words of one draw."""
    n, i, k = u64(draw & draw), u64(stream & stream), u64(seed & seed)  # `&` refuses floats, which a cast would cut
    c1 = u32(n >> 32) & u32(0xFFFFF) | u32(kind) << 20 | u32(attempt) << 24
    a, b, c, d = philox(n, c1, i, i >> 32, k, k >> 32)
    return a, b, c, d


@_mirrored(host.uniform)
def uniform(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """A number in [0, 1), f32: a multiple of 2**-24, each as likely.

    Parameters
    ----------
    seed : integer
        Of the whole program or run; modulo 2**64.
    stream : integer
        Of an iteration, a particle, a pixel; modulo 2**64.
    draw : integer
        The number of the draw in its stream; modulo 2**52. Draws of different functions are independent.

    Returns
    -------
    f32, with the same bits on every device and on the host.

    Examples
    --------
    ``x[i] += sigma * tack.random.normal(seed, i, step)`` in a kernel; on the host
    ``tack.random.uniform(7, np.arange(1000))`` is the array of the first draws of 1000 streams.
    """
    a, _, _, _ = _block(UNIFORM, 0, seed, stream, draw)
    return f32(a >> 8) * 5.9604644775390625e-08  # 2**-24


@_mirrored(host.uniform64)
def uniform64(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """A number in [0, 1), f64: a multiple of 2**-53, each as likely; parameters as for `uniform`."""
    a, b, _, _ = _block(UNIFORM64, 0, seed, stream, draw)
    return _unit(a, b)


@_mirrored(host.unit64)
def _unit(low: Any, high: Any) -> Any:
    return f64((u64(high) << 32 | u64(low)) >> 11) * 1.1102230246251565e-16  # 2**-53


@_mirrored(host.normal)
def normal(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """A normally distributed number, mean 0, variance 1, f32, at most 6.8 in size; parameters as for `uniform`.

    Its words are the same everywhere, and `log` and `cos` of a device may differ in their last bits.
    """
    a, b, _, _ = _block(NORMAL, 0, seed, stream, draw)
    # (word + 1/2) / 2**32, never 0: the product is exact, so contraction changes nothing.
    u = f32(a) * 2.3283064365386963e-10 + 1.1641532182693481e-10
    return sqrt(-2.0 * log(u)) * cos(f32(TWO_PI) * (f32(b >> 8) * 5.9604644775390625e-08))


@_mirrored(host.normal64)
def normal64(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """A normally distributed number, mean 0, variance 1, f64, at most 8.6 in size; as `normal` otherwise."""
    a, b, c, d = _block(NORMAL64, 0, seed, stream, draw)
    u = _unit(a, b) + f64(1.1102230246251565e-16)
    return sqrt(-2.0 * log(u)) * cos(f64(TWO_PI) * _unit(c, d))


@_mirrored(host.randint)
def randint(lo: Any, hi: Any, seed: Any, stream: Any, draw: Any = 0) -> Any:
    """An integer from `lo` up to, not including, `hi`, each exactly as likely, i64.

    Parameters
    ----------
    lo, hi : integers
        Within i64, and ``lo < hi`` (caller constraint; on the host `ValueError`).
    seed, stream, draw : integers
        As for `uniform`.

    Returns
    -------
    i64, the same on every device and on the host.
    """
    span = u64(i64(hi & hi)) - u64(i64(lo & lo))  # `&` refuses floats
    top = span - u64(1)
    shift = clz(top | u64(1))
    # Whole bits beyond the span are dropped, and what is then still too large is drawn again.
    for attempt in range(256):
        a, b, c, d = _block(RANDINT, attempt, seed, stream, draw)
        first = (u64(b) << 32 | u64(a)) >> shift
        if first <= top:
            return i64(u64(i64(lo)) + first)
        second = (u64(d) << 32 | u64(c)) >> shift
        if second <= top:
            return i64(u64(i64(lo)) + second)
    return i64(lo)  # once in 2**512 draws


@_mirrored(host.direction2)
def direction2(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """A direction in the plane, each as likely: ``x, y = direction2(...)``, f32; parameters as for `uniform`."""
    a, _, _, _ = _block(DIRECTION2, 0, seed, stream, draw)
    angle = f32(TWO_PI) * (f32(a >> 8) * 5.9604644775390625e-08)
    return cos(angle), sin(angle)


@_mirrored(host.direction3)
def direction3(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """A direction in space, each as likely: ``x, y, z = direction3(...)``, f32; parameters as for `uniform`."""
    a, b, _, _ = _block(DIRECTION3, 0, seed, stream, draw)
    # (2 * word + 1) / 2**24 - 1 with 24 bits, from pole to pole and never at one.
    z = f32(i64(a >> 8) * 2 - 16777215) * 5.9604644775390625e-08
    angle = f32(TWO_PI) * (f32(b >> 8) * 5.9604644775390625e-08)
    radius = sqrt((1.0 - z) * (1.0 + z))
    return radius * cos(angle), radius * sin(angle), z
