"""The NumPy mirrors of `tack.random`: the same numbers on the host, for arrays of streams and draws.

Arguments broadcast. Integers and uniforms have the bits of a kernel's; what goes through `log` or `cos` agrees to a few
units in the last place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MULTIPLIER_0, MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
KEY_STEP_0, KEY_STEP_1 = 0x9E3779B9, 0xBB67AE85  # of the golden ratio, and of the square root of 3
UNIFORM, UNIFORM64, NORMAL, NORMAL64, RANDINT, DIRECTION2, DIRECTION3 = range(7)
TWO_PI = 2 * math.pi
_ATTEMPTS = 256

_Words = np.ndarray[Any, Any]


def _words(values: Any, bits: int) -> _Words:
    """Integers modulo 2**bits, as u64.

    Raises
    ------
    TypeError
        If they are not integers.
    """
    if isinstance(values, int):
        return np.asarray(values & (1 << bits) - 1, np.uint64)
    array = np.asarray(values)
    if array.dtype.kind not in "iub":
        raise TypeError(f"tack.random takes integers for seeds, streams, draws and bounds, not {array.dtype}")
    return array.astype(np.uint64) & np.uint64((1 << bits) - 1)


def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[_Words, _Words, _Words, _Words]:
    """Mirror of `tack.random.philox`."""
    a, b, c, d, low, high = np.broadcast_arrays(*(_words(word, 32) for word in (c0, c1, c2, c3, k0, k1)))
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for _ in range(10):
        p, q = a * np.uint64(MULTIPLIER_0), c * np.uint64(MULTIPLIER_1)
        a, b, c, d = (q >> half) ^ b ^ low, q & mask, (p >> half) ^ d ^ high, p & mask
        low, high = (low + np.uint64(KEY_STEP_0)) & mask, (high + np.uint64(KEY_STEP_1)) & mask
    words = (a, b, c, d)
    return tuple(word.astype(np.uint32) for word in words)  # type: ignore[return-value]


def block(kind: int, attempt: int, seed: Any, stream: Any, draw: Any) -> tuple[_Words, _Words, _Words, _Words]:
    """The four words of one draw."""
    n, i, k = _words(draw, 52), _words(stream, 64), _words(seed, 64)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    c1 = n >> half | np.uint64(kind << 20 | attempt << 24)
    return philox(n & mask, c1, i & mask, i >> half, k & mask, k >> half)


def _unit32(word: Any) -> Any:
    return (word >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def unit64(low: Any, high: Any) -> Any:
    """A number in [0, 1) of two words."""
    return (_joined(low, high) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _joined(low: Any, high: Any) -> Any:
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def uniform(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """Mirror of `tack.random.uniform`."""
    return _unit32(block(UNIFORM, 0, seed, stream, draw)[0])


def uniform64(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """Mirror of `tack.random.uniform64`."""
    low, high, _, _ = block(UNIFORM64, 0, seed, stream, draw)
    return unit64(low, high)


def normal(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """Mirror of `tack.random.normal`."""
    a, b, _, _ = block(NORMAL, 0, seed, stream, draw)
    u = a.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    return np.sqrt(np.float32(-2) * np.log(u)) * np.cos(np.float32(TWO_PI) * _unit32(b))


def normal64(seed: Any, stream: Any, draw: Any = 0) -> Any:
    """Mirror of `tack.random.normal64`."""
    a, b, c, d = block(NORMAL64, 0, seed, stream, draw)
    return np.sqrt(-2.0 * np.log(unit64(a, b) + 2.0**-53)) * np.cos(TWO_PI * unit64(c, d))


def randint(lo: Any, hi: Any, seed: Any, stream: Any, draw: Any = 0) -> Any:
    """Mirror of `tack.random.randint`."""
    if np.any(np.asarray(lo) >= np.asarray(hi)):
        raise ValueError(f"tack.random.randint: lo must be below hi, not {lo} and {hi}")
    low = _words(lo, 64)
    top = _words(hi, 64) - low - np.uint64(1)
    low, top, seeds, streams, draws = np.broadcast_arrays(
        low, top, _words(seed, 64), _words(stream, 64), _words(draw, 52)
    )
    shift = np.uint64(64) - _bit_length(top)
    result, open_ = np.zeros(top.shape, np.uint64), np.ones(top.shape, bool)
    for attempt in range(_ATTEMPTS):
        a, b, c, d = block(RANDINT, attempt, seeds, streams, draws)
        for value in (_joined(a, b) >> shift, _joined(c, d) >> shift):
            take = open_ & (value <= top)
            result[take] = value[take]
            open_ &= ~take
        if not open_.any():
            break
    return (low + result).astype(np.int64)[()]


def _bit_length(top: Any) -> Any:
    """The bits that `top` needs, at least one."""
    bits = np.ones(top.shape, np.uint64)
    for k in range(1, 64):
        bits += top >> np.uint64(k) != 0
    return bits


def direction2(seed: Any, stream: Any, draw: Any = 0) -> tuple[Any, Any]:
    """Mirror of `tack.random.direction2`."""
    angle = np.float32(TWO_PI) * _unit32(block(DIRECTION2, 0, seed, stream, draw)[0])
    return np.cos(angle), np.sin(angle)


def direction3(seed: Any, stream: Any, draw: Any = 0) -> tuple[Any, Any, Any]:
    """Mirror of `tack.random.direction3`."""
    a, b, _, _ = block(DIRECTION3, 0, seed, stream, draw)
    z = ((a >> np.uint32(8)).astype(np.int64) * 2 - 16777215).astype(np.float32) * np.float32(2.0**-24)
    angle = np.float32(TWO_PI) * _unit32(b)
    radius = np.sqrt((np.float32(1) - z) * (np.float32(1) + z))
    return radius * np.cos(angle), radius * np.sin(angle), z
