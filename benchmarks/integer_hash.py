"""A u32 hash, xorshift and multiplications: integer vector units, and memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness
from benchmarks.compilers import bind


@tack.kernel
def integer_hash(out, a):
    for i in range(out.shape[0]):
        x = a[i]
        x ^= x << 13
        x ^= x >> 17
        x ^= x << 5
        x *= tack.u32(0x9E3779B1)
        x ^= x >> 16
        x *= tack.u32(0x85EBCA6B)
        x ^= x >> 13
        out[i] = x


def in_numpy(out: np.ndarray, a: np.ndarray) -> None:
    u32 = np.uint32
    np.bitwise_xor(a, a << u32(13), out=out)
    out ^= out >> u32(17)
    out ^= out << u32(5)
    out *= u32(0x9E3779B1)
    out ^= out >> u32(16)
    out *= u32(0x85EBCA6B)
    out ^= out >> u32(13)


def cases(quick: bool) -> Iterator[harness.Case]:
    n = 1 << 14 if quick else 64 << 20
    a = harness.filled(np.arange(n, dtype=np.uint32))
    out = harness.zeros(n, np.uint32)
    yield harness.Case(
        name=f"u32 hash {n:,}",
        workload="integer_hash",
        outputs=(out,),
        tack=lambda: integer_hash(out, a),
        c=lambda library: bind(library, "integer_hash", out, a, n),
        numpy=lambda: in_numpy(out, a),
        arguments=(out, a),
    )
