"""Every operator and builtin once: its arity, its result rule, its caller constraint and its exact evaluation.

`annotate_types` reads the rule, `ir_verify` the arity, checked mode the constraint, the reference device and constant
checks the evaluation. A new operator is one row here and one lowering per generator family.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import tack.lang.exact as exact
from tack.lang.records import record


class Rule(enum.Enum):
    """How the type of a result follows from the types of the operands."""

    ARITHMETIC = "promotion of both; integers wrap"
    TRUE_DIVIDE = "f32 for two integers, else promotion"
    POWER = "the base's type for two integers, else promotion"
    SHIFT = "the left operand's type; integers only"
    BITWISE = "promotion of both; integers only"
    COMPARE = "i32; operands meet at their promotion"
    SAME = "the argument's type"
    EXTREMUM = "promotion of all arguments"
    FLOAT = "f64 if any argument is f64, else f32; arguments convert to it"
    PREDICATE = "i32; the argument converts as for FLOAT"
    BITS = "i32; integer argument of any type"


@record(frozen=True)
class Op:
    """One row. `evaluate(dtype, *values)` gives the exact result, values and result being Python numbers of the type
    `dtype` that the operation runs in (the operand type for COMPARE, PREDICATE and BITS). `constraint` names the rule
    of the contract's caller-constraint table that inputs must keep."""

    name: str
    arity: tuple[int, int | None]  # least and most operands; None: any number
    rule: Rule
    evaluate: Callable[..., int | float]
    constraint: str | None = None


def _table(*rows: Op) -> dict[str, Op]:
    return {row.name: row for row in rows}


BINARY = _table(
    Op("+", (2, 2), Rule.ARITHMETIC, exact.add),
    Op("-", (2, 2), Rule.ARITHMETIC, exact.subtract),
    Op("*", (2, 2), Rule.ARITHMETIC, exact.multiply),
    Op("/", (2, 2), Rule.TRUE_DIVIDE, exact.true_divide, "integer divisor nonzero"),
    Op("//", (2, 2), Rule.ARITHMETIC, exact.floor_divide, "divisor nonzero, not minimum by -1"),
    Op("%", (2, 2), Rule.ARITHMETIC, exact.remainder, "divisor nonzero, not minimum by -1"),
    Op("**", (2, 2), Rule.POWER, exact.power, "integer exponent nonnegative"),
    Op("<<", (2, 2), Rule.SHIFT, exact.shift_left, "count in [0, N)"),
    Op(">>", (2, 2), Rule.SHIFT, exact.shift_right, "count in [0, N)"),
    Op("&", (2, 2), Rule.BITWISE, exact.bit_and),
    Op("|", (2, 2), Rule.BITWISE, exact.bit_or),
    Op("^", (2, 2), Rule.BITWISE, exact.bit_xor),
)

UNARY = _table(
    Op("-", (1, 1), Rule.ARITHMETIC, exact.negate),
    Op("~", (1, 1), Rule.BITWISE, exact.invert),
)

COMPARE = _table(
    Op("<", (2, 2), Rule.COMPARE, exact.less),
    Op("<=", (2, 2), Rule.COMPARE, exact.less_equal),
    Op(">", (2, 2), Rule.COMPARE, exact.greater),
    Op(">=", (2, 2), Rule.COMPARE, exact.greater_equal),
    Op("==", (2, 2), Rule.COMPARE, exact.equal),
    Op("!=", (2, 2), Rule.COMPARE, exact.not_equal),
)

_FLOAT_UNARY = (
    "sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p floor ceil trunc round fabs"
).split()

BUILTINS = _table(
    *(Op(name, (1, 1), Rule.FLOAT, getattr(exact, name + "_")) for name in _FLOAT_UNARY),
    Op("atan2", (2, 2), Rule.FLOAT, exact.atan2_),
    Op("copysign", (2, 2), Rule.FLOAT, exact.copysign_),
    Op("fma", (3, 3), Rule.FLOAT, exact.fma_),
    Op("abs", (1, 1), Rule.SAME, exact.abs_),
    Op("min", (2, None), Rule.EXTREMUM, exact.min_),
    Op("max", (2, None), Rule.EXTREMUM, exact.max_),
    Op("isnan", (1, 1), Rule.PREDICATE, exact.isnan_),
    Op("isinf", (1, 1), Rule.PREDICATE, exact.isinf_),
    Op("isfinite", (1, 1), Rule.PREDICATE, exact.isfinite_),
    Op("popcount", (1, 1), Rule.BITS, exact.popcount_),
    Op("clz", (1, 1), Rule.BITS, exact.clz_),
    Op("ctz", (1, 1), Rule.BITS, exact.ctz_),
)
"""Builtins by the one name that the IR uses. `pow(a, b)` lowers to the operator ``**``."""

VECTOR_OPS: dict[str, tuple[int, int]] = {
    **dict.fromkeys("length normalize transpose trace determinant inverse identity any all".split(), (1, 1)),
    **dict.fromkeys("dot cross distance reflect outer".split(), (2, 2)),
    "select": (3, 3),
}
"""Operations on whole vectors and matrices: least and most arguments. `vector_algebra` makes scalars of them."""

ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas")
