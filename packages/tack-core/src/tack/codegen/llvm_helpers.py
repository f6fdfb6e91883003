"""Internal functions that generated LLVM code calls: integer power, floating floor division and remainder."""

from __future__ import annotations

from tack.codegen.llvm_values import llvm_type, suffix
from tack.lang.types import DType


def integer_power(dtype: DType) -> tuple[str, str]:
    """Name and text of ``base ** exponent`` modulo 2**N: by squaring, so any u64 exponent takes at most 64 rounds."""
    name, t = f"__tack_pow_{dtype.name}__", llvm_type(dtype)
    return (
        name,
        f"""define internal {t} @{name}({t} %base, i64 %exponent) nounwind willreturn memory(none) {{
entry:
  br label %test
test:
  %result = phi {t} [ 1, %entry ], [ %result.next, %step ]
  %square = phi {t} [ %base, %entry ], [ %square.next, %step ]
  %rest = phi i64 [ %exponent, %entry ], [ %rest.next, %step ]
  %done = icmp eq i64 %rest, 0
  br i1 %done, label %exit, label %step
step:
  %odd = trunc i64 %rest to i1
  %product = mul {t} %result, %square
  %result.next = select i1 %odd, {t} %product, {t} %result
  %square.next = mul {t} %square, %square
  %rest.next = lshr i64 %rest, 1
  br label %test
exit:
  ret {t} %result
}}
""",
    )


# Both begin with the truncating remainder, and find whether it is neither zero nor of the divisor's sign.
_REMAINDER = """entry:
  %r = frem {t} %a, %b
  %nonzero = fcmp une {t} %r, 0.0
  %r.negative = fcmp olt {t} %r, 0.0
  %b.negative = fcmp olt {t} %b, 0.0
  %differ = xor i1 %r.negative, %b.negative
  %adjust = and i1 %nonzero, %differ
"""


def float_remainder(dtype: DType) -> tuple[str, str]:
    """Name and text of ``a % b`` as CPython computes it; a zero remainder takes the divisor's sign."""
    name, t, s = f"__tack_mod_{dtype.name}__", llvm_type(dtype), suffix(dtype)
    return name, (
        f"define internal {t} @{name}({t} %a, {t} %b) nounwind willreturn memory(none) {{\n"
        + _REMAINDER.format(t=t)
        + f"""  %moved = fadd {t} %r, %b
  %signed = select i1 %adjust, {t} %moved, {t} %r
  %zero = call {t} @llvm.copysign.{s}({t} 0.0, {t} %b)
  %result = select i1 %nonzero, {t} %signed, {t} %zero
  ret {t} %result
}}
"""
    )


def float_floor_division(dtype: DType) -> tuple[str, str]:
    """Name and text of ``a // b`` as CPython computes it: from the remainder, snapped to the nearest whole number."""
    name, t, s = f"__tack_floordiv_{dtype.name}__", llvm_type(dtype), suffix(dtype)
    return name, (
        f"define internal {t} @{name}({t} %a, {t} %b) nounwind willreturn memory(none) {{\n"
        + _REMAINDER.format(t=t)
        + f"""  %difference = fsub {t} %a, %r
  %truncated = fdiv {t} %difference, %b
  %less = fsub {t} %truncated, 1.0
  %q = select i1 %adjust, {t} %less, {t} %truncated
  %floor = call {t} @llvm.floor.{s}({t} %q)
  %fraction = fsub {t} %q, %floor
  %above = fcmp ogt {t} %fraction, 0.5
  %next = fadd {t} %floor, 1.0
  %snapped = select i1 %above, {t} %next, {t} %floor
  %true = fdiv {t} %a, %b
  %zero = call {t} @llvm.copysign.{s}({t} 0.0, {t} %true)
  %q.zero = fcmp oeq {t} %q, 0.0
  %result = select i1 %q.zero, {t} %zero, {t} %snapped
  ret {t} %result
}}
"""
    )
