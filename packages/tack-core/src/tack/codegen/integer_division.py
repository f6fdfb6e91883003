"""Integer ``//`` and ``%`` of the C dialects: rounded down, with the divisor's sign (rules IDIV-*)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tack.lang.types import DType

if TYPE_CHECKING:
    from tack.codegen.integer_ops import IntegerCodeGen

_LITERAL = re.compile(r"(\d+)[uUlL]*")


def integer_division_expr(integers: IntegerCodeGen, op: str, dtype: DType, a: str, b: str) -> str:
    """``a // b`` or ``a % b``, both of type `dtype`; C's truncating operators are corrected for signed types.

    A literal power of two becomes a shift or a mask, which are exact for negative dividends too.
    """
    power = _power_of_two(b, dtype)
    if power is not None:
        if op == "//":
            return integers.binary(">>", dtype, a, str(power))
        return integers.binary("&", dtype, a, integers.dialect.literal((1 << power) - 1, dtype))
    if not dtype.is_signed:
        return f"(({a}) {'/' if op == '//' else '%'} ({b}))"
    t = integers.dialect.type(dtype)
    remainder = f"    {t} r = a % b;\n    int adjust = r != 0 && ((r < 0) != (b < 0));\n"
    if op == "//":
        body = f"    {t} q = a / b;\n{remainder}    return q - adjust;\n"
        return integers.call("floordiv", dtype, body, a, b)
    return integers.call("mod", dtype, f"{remainder}    return adjust ? r + b : r;\n", a, b)


def _power_of_two(text: str, dtype: DType) -> int | None:
    """log2 of a positive literal power of two."""
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    number = int(match[1])
    return number.bit_length() - 1 if 0 < number <= dtype.max and number & (number - 1) == 0 else None
