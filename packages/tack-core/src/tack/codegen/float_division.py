"""Floating ``//`` and ``%`` of the C dialects, by CPython's algorithm (rules FDIV-*)."""

from __future__ import annotations

from tack.codegen.c_dialect import Dialect
from tack.lang.types import DType, f32

_FLOOR_DIVISION = """{function} {t} __tack_floordiv_{name}__({t} a, {t} b) {{
    {t} r = {fmod}(a, b);
    {t} q = (a - r) / b;
    if (r != {zero}) {{
        if ((r < {zero}) != (b < {zero})) {{
            r += b;
            q -= {one};
        }}
    }}
    if (q == {zero}) return {copysign}({zero}, a / b);
    {t} result = {floor}(q);
    if (q - result > {half}) result += {one};
    return result;
}}
"""
_REMAINDER = """{function} {t} __tack_mod_{name}__({t} a, {t} b) {{
    {t} r = {fmod}(a, b);
    if (r == {zero}) return {copysign}({zero}, b);
    if ((r < {zero}) != (b < {zero})) r += b;
    return r;
}}
"""


def float_division_helpers(dialect: Dialect, op: str, dtype: DType, suffix: str) -> tuple[str, str]:
    """Name and text of the helper for an operator at a precision.

    `suffix` ends the names of the dialect's f32 functions (``fmodf`` or ``fmod``). The remainder is exact; the quotient
    is rebuilt from it and snapped to the nearest whole number, since ``floor(a / b)`` can land on a whole number that
    the true quotient does not reach. The copies of signs give zeros the signs of the contract.
    """
    f = "f" if dtype is f32 else ""
    tail = suffix if dtype is f32 else ""
    words = {name: name + tail for name in ("fmod", "floor", "copysign")}
    numbers = {"zero": "0.0" + f, "one": "1.0" + f, "half": "0.5" + f}
    template = _FLOOR_DIVISION if op == "//" else _REMAINDER
    text = template.format(function=dialect.function, t=dialect.type(dtype), name=dtype.name, **words, **numbers)
    return f"__tack_{'floordiv' if op == '//' else 'mod'}_{dtype.name}__", text
