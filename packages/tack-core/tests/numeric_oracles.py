"""Oracles for the numerical tests, written from the contract alone: nothing here imports `tack`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np

SIGNED = ("i8", "i16", "i32", "i64")
FLOAT_NAMES = ("f32", "f64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
INTEGER_PAIRS = tuple(itertools.product(INTEGERS, INTEGERS))


def bits(name: str) -> int:
    return int(name[1:])


def is_signed(name: str) -> bool:
    return name[0] == "i"


def limits(name: str) -> tuple[int, int]:
    n = bits(name)
    return (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if is_signed(name) else (0, 2**n - 1)


def wrap(value: int, name: str) -> int:
    """Reduce modulo 2^N and read as two's complement when signed (INT-1, INT-2)."""
    n = bits(name)
    value %= 2**n
    return value - 2**n if is_signed(name) and value >= 2 ** (n - 1) else value


def promote(a: str, b: str) -> str | None:
    """The integer promotion of TYPE-2 and TYPE-3, None where the pair is rejected."""
    if is_signed(a) == is_signed(b):
        return max(a, b, key=bits)
    signed, unsigned = (a, b) if is_signed(a) else (b, a)
    need = max(bits(signed), bits(unsigned) + 1)
    return next((name for name in SIGNED if bits(name) >= need), None)


LEGAL_PAIRS = tuple((a, b) for a, b in INTEGER_PAIRS if promote(a, b) is not None)
REJECTED_PAIRS = tuple((a, b) for a, b in INTEGER_PAIRS if promote(a, b) is None)


def c_type(a: str, b: str) -> str:
    """What C's usual arithmetic conversions make of a pair (32-bit `int`): the naive rule of the controls."""
    a, b = (name if bits(name) >= 32 else "i32" for name in (a, b))
    if is_signed(a) == is_signed(b):
        return max(a, b, key=bits)
    signed, unsigned = (a, b) if is_signed(a) else (b, a)
    return signed if bits(signed) > bits(unsigned) else unsigned


def boundary(name: str) -> list[int]:
    """Values near zero, near every power of two that is a width's edge, and near the type's limits."""
    low, high = limits(name)
    near = [k + d for k in (0, low, high) for d in (-3, -2, -1, 0, 1, 2, 3)]
    edges = [s * 2**p + d for p in (4, 7, 8, 15, 16, 31, 32, 63) for d in (-1, 0, 1) for s in (1, -1)]
    return sorted({v for v in [*near, *edges, 7, -7, 100, -100] if low <= v <= high})


def few(name: str) -> list[int]:
    """A short list of the values that matter most, for cross products on a slow device."""
    low, high = limits(name)
    return sorted({v for v in (low, low + 1, -7, -1, 0, 1, 3, 100, high // 2 + 1, high - 1, high) if low <= v <= high})


def is_slow(device: object) -> bool:
    """Whether the device under test is the interpreter, whose data stay small."""
    return "reference" in str(getattr(device, "name", device))


def samples(device: object, name: str) -> list[int]:
    return few(name) if is_slow(device) else boundary(name)


def columns(pairs: Iterable[tuple[int, int]], a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
    """Two NumPy columns of the named dtypes from pairs of Python integers."""
    left, right = zip(*pairs, strict=True)
    return np.array(left, dtype=a_dtype(a)), np.array(right, dtype=a_dtype(b))


def a_dtype(name: str) -> np.dtype:
    return np.dtype(f"{name[0]}{bits(name) // 8}")


def widest(name: str) -> str:
    """The 64-bit type of the same signedness: an output that shows whether a result wrapped at its own type."""
    return name[0] + "64"


def disagrees(naive: Callable[..., object], truth: Callable[..., object], inputs: Iterable[Sequence[object]]) -> bool:
    """Whether a naive rule differs from the true one somewhere on the inputs: the negative control."""
    return any(naive(*x) != truth(*x) for x in inputs)


def round_to_f32(value: int | Fraction) -> float:
    """An exact rational rounded once to binary32, ties to even; normal range only."""
    value = Fraction(value)
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    rounded = round(magnitude / unit) * unit  # Fraction.__round__ is half to even
    return math.copysign(float(rounded), 1 if value > 0 else -1)


def ulps(a: float, b: float, name: str) -> int:
    """How many floats of the named type lie between two finite floats."""
    kind = {"f32": np.int32, "f64": np.int64}[name]

    def order(x: float) -> int:
        raw = int(np.array(x, dtype=a_dtype(name)).view(kind))
        return raw if raw >= 0 else int(np.iinfo(kind).min) - raw

    return abs(order(a) - order(b))


def same_float(got: float, want: float, name: str, tolerance: int = 4) -> bool:
    """Same class, same sign when zero, exact when infinite, else within the tolerance in ULP."""
    if got == want != 0:
        return True
    if math.isnan(want):
        return math.isnan(got)
    if want == 0:
        return got == 0 and math.copysign(1, got) == math.copysign(1, want)
    if math.isinf(want):
        return False
    return math.isfinite(got) and ulps(got, want, name) <= tolerance
