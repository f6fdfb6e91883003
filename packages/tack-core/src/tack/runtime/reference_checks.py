"""The caller constraints of the language contract, as the reference device reports them.

Elsewhere a broken constraint has no portable result. Here it raises, before it can do harm, and names the rule, the
kernel, the place and the iteration.
"""

from __future__ import annotations

import math
from typing import NoReturn

from tack.lang.diagnostics import Loc, fail
from tack.lang.ir import IRBinOp, IRCast, IRConst, IRExpr
from tack.lang.types import DType
from tack.runtime.reference_memory import ArrayView, Frame, Number


def violation(kind: type[Exception], rule: str, message: str, loc: Loc, frame: Frame) -> NoReturn:
    """Raise `kind` for a caller constraint broken at `loc`, with the iteration and the chain of calls."""
    stack = list(frame.stack())
    where = _place(stack[-1])
    chain = [f.call_site for f in reversed(stack) if f.call_site is not None]
    fail(kind, f"caller constraint {rule} broken{where}: {message}", loc, chain=chain)


def _place(frame: Frame) -> str:
    """Which iteration ran, as the user counts; of a loop over workgroups the hidden variables say which lane."""
    group = next((value for name, value in frame.point.items() if name.startswith("%group")), None)
    if group is not None:
        lane = next((value for name, value in frame.locals.items() if name.partition(".")[0] == "%lane"), 0)
        return f" in lane {lane} of workgroup {group}"
    point = ", ".join(f"{name} = {value}" for name, value in frame.point.items())
    return f" in iteration {point}" if point else ""


def check_binary(node: IRBinOp, left: Number, right: Number, frame: Frame) -> None:
    """Test the operands of an operation that has a constraint; `right` is as written, not yet converted."""
    op, dtype = node.op, node.dtype
    assert dtype is not None
    if op in ("//", "%"):
        _check_floor_division(node, dtype, left, right, frame)
    elif op == "/":
        if right == 0 and _is_from_integer(node.left) and _is_from_integer(node.right):
            violation(ArithmeticError, "TDIV-3", "integer division by zero", node.loc, frame)
    elif op in ("<<", ">>"):
        if not 0 <= right < dtype.bits:
            text = f"the shift count {right} is not in [0, {dtype.bits}), the width of {dtype!r}"
            violation(ArithmeticError, "SHIFT-2", text, node.loc, frame)
    elif op == "**" and dtype.is_integer and right < 0:
        violation(ArithmeticError, "POW-2", f"the integer exponent {right} is negative", node.loc, frame)


def _check_floor_division(node: IRBinOp, dtype: DType, left: Number, right: Number, frame: Frame) -> None:
    if right == 0:
        rule = "IDIV-3" if dtype.is_integer else "FDIV-5"
        violation(ArithmeticError, rule, f"`{left} {node.op} {right}` divides by zero", node.loc, frame)
    if dtype.is_integer and dtype.is_signed and right == -1 and left == dtype.min:
        text = f"`{left} {node.op} -1` has no {dtype!r} quotient"
        violation(ArithmeticError, "IDIV-3", text, node.loc, frame)


def _is_from_integer(operand: IRExpr) -> bool:
    """Whether the operand of a floating `/` was written as an integer and converted implicitly."""
    if isinstance(operand, IRConst):
        return isinstance(operand.value, int)
    inner = operand.operand if isinstance(operand, IRCast) and not operand.explicit else operand
    return inner.dtype is not None and inner.dtype.is_integer


def check_cast(node: IRCast, value: Number, frame: Frame) -> None:
    """Test a conversion of the float `value` to an integer type."""
    target = node.target
    if not math.isfinite(value) or not target.min <= math.trunc(value) <= target.max:
        violation(ArithmeticError, "INT-3", f"{value!r} does not fit {target!r}", node.loc, frame)


def check_step(step: int, loc: Loc, frame: Frame) -> None:
    """Test the step of a loop."""
    if step <= 0:
        violation(ValueError, "LOOP-10", f"the step of `range` is {step}, not positive", loc, frame)


def index_violation(array: ArrayView, index: list[int], loc: Loc, frame: Frame) -> NoReturn:
    """Report an element access that is out of range."""
    shown = ", ".join(str(i // array.components) for i in index)
    shape = array.size if len(index) == 1 else array.shape
    text = f"index [{shown}] is out of range for `{array.name}`, whose extent is {shape}"
    violation(IndexError, "MEM-3", text, loc, frame)


def undefined_element(array: ArrayView, index: list[int], loc: Loc, frame: Frame) -> NoReturn:
    """Report a load from an element of a local array that nothing has stored."""
    text = f"element [{', '.join(map(str, index))}] of the local array `{array.name}` is read before it is stored"
    violation(LookupError, "MEM-6", text, loc, frame)


def unassigned(name: str, loc: Loc, frame: Frame) -> NoReturn:
    """Report the read of a local that no statement on this path has assigned."""
    symbol = frame.function.symbols.get(name)
    shown = symbol.source_name if symbol is not None else name
    violation(UnboundLocalError, "CAP-1", f"`{shown}` is read, but nothing on this path assigned it", loc, frame)
