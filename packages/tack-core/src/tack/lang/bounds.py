"""Host expressions: the bounds of parallel loops, evaluated before a launch in Python integers (rule LOOP-8)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tack.lang.diagnostics import UnsupportedSyntaxError, fail
from tack.lang.ir import (
    IRArrayAttr,
    IRBinOp,
    IRBuiltin,
    IRCast,
    IRConst,
    IRExpr,
    IRLoad,
    IRUnary,
    IRVar,
)
from tack.lang.records import replace
from tack.lang.types import DType, Scalar, i64

_OPERATORS = ("+", "-", "*", "//", "%")
HOST_HINT = (
    "use constants, scalar arguments, shapes, `len`, `+ - * // %`, `min` and `max`; "
    "or loop further and test with `if` in the body"
)


def host_problem(expr: IRExpr) -> tuple[IRExpr, str] | None:
    """The first part of an expression that the host cannot evaluate before a launch, and why; None if there is none."""
    match expr:
        case IRConst():
            number = expr.pinned is None or expr.pinned.is_integer
            return None if isinstance(expr.value, int) and number else (expr, "a float is not an integer")
        case IRVar() | IRArrayAttr():
            return None
        case IRUnary(op="-"):
            return host_problem(expr.operand)
        case IRBinOp() if expr.op in _OPERATORS:
            return host_problem(expr.left) or host_problem(expr.right)
        case IRBuiltin() if expr.name in ("min", "max"):
            return next(filter(None, map(host_problem, expr.args)), None)
        case IRLoad():
            return expr, f"an element of `{expr.array}` is known only on the device"
        case IRCast():
            return expr, "a cast is not a host operation"
        case IRBinOp() | IRUnary():
            return expr, f"`{expr.op}` is not a host operation"
    return expr, "this is not a host operation"


def check_host_expression(expr: IRExpr) -> None:
    """Refuse a bound that the host cannot evaluate.

    Raises
    ------
    UnsupportedSyntaxError
        At the part that it cannot evaluate, with the reason.
    """
    problem = host_problem(expr)
    if problem is not None:
        message = f"the bounds of a parallel loop are evaluated on the host, before it starts: {problem[1]}"
        fail(UnsupportedSyntaxError, message, problem[0].loc, hint=HOST_HINT)


def evaluate(expr: IRExpr, env: Mapping[str, Any]) -> int:
    """The value of a host expression in Python integers, every intermediate within i64.

    Parameters
    ----------
    expr
        An expression that `check_host_expression` accepts.
    env
        Parameters by name: integers and typed scalars, and arrays or anything else with a `shape`.

    Raises
    ------
    OverflowError
        If a value on the way does not fit i64.
    ZeroDivisionError
        If it divides by zero.
    """
    match expr:
        case IRConst():
            value = int(expr.value)
        case IRVar():
            given = env[expr.name]
            value = int(given.value) if isinstance(given, Scalar) else int(given)
        case IRArrayAttr():
            value = _attribute(expr, tuple(env[expr.array].shape))
        case IRUnary():
            value = -evaluate(expr.operand, env)
        case IRBuiltin():
            value = (min if expr.name == "min" else max)(evaluate(a, env) for a in expr.args)
        case IRBinOp():
            value = _binary(expr.op, evaluate(expr.left, env), evaluate(expr.right, env))
        case _:
            raise AssertionError(f"{type(expr).__name__} is not a host expression")
    if not i64.min <= value <= i64.max:
        raise OverflowError(f"{value} is outside the range of i64")
    return value


def _attribute(expr: IRArrayAttr, shape: tuple[int, ...]) -> int:
    if expr.attr == "ndim":
        return len(shape)
    return math.prod(shape) if expr.attr == "size" else int(shape[expr.axis])


def _binary(op: str, a: int, b: int) -> int:
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    return a // b if op == "//" else a % b


def constant_value(expr: IRExpr) -> int | None:
    """The value of an expression made of integer constants only; None if it reads anything."""
    if host_problem(expr) is not None or _reads(expr):
        return None
    return evaluate(expr, {})


def _reads(expr: IRExpr) -> bool:
    match expr:
        case IRUnary():
            return _reads(expr.operand)
        case IRBinOp():
            return _reads(expr.left) or _reads(expr.right)
        case IRBuiltin():
            return any(map(_reads, expr.args))
    return isinstance(expr, (IRVar, IRArrayAttr))


HostDefinitions = dict[str, IRExpr | str]
"""What top-level locals hold, as host expressions of the arguments; a string says why one is not."""


def substitute(expr: IRExpr, definitions: HostDefinitions) -> IRExpr | tuple[IRExpr, str]:
    """A copy of a host expression in terms of the arguments, or the part that is not a host expression and why."""
    problem = host_problem(expr)
    if problem is not None:
        return problem
    match expr:
        case IRVar():
            known = definitions.get(expr.name)
            if isinstance(known, str):
                return expr, known
            return replace(expr) if known is None else substitute(known, {})
        case IRUnary():
            operand = substitute(expr.operand, definitions)
            return operand if isinstance(operand, tuple) else replace(expr, operand=operand)
        case IRBinOp():
            left, right = substitute(expr.left, definitions), substitute(expr.right, definitions)
            if isinstance(left, tuple):
                return left
            return right if isinstance(right, tuple) else replace(expr, left=left, right=right)
        case IRBuiltin():
            args: list[IRExpr] = []
            for arg in expr.args:
                done = substitute(arg, definitions)
                if isinstance(done, tuple):
                    return done
                args.append(done)
            return replace(expr, args=args)
    return replace(expr)


def host_definition(name: str, value: IRExpr, pinned: DType | None, definitions: HostDefinitions) -> IRExpr | str:
    """What a straight-line assignment outside the loops makes of a local, for the bounds after it."""
    if pinned is not None and pinned is not i64:
        return f"`{name}` is annotated {pinned.name}, and bounds are exact integers"
    done = substitute(value, definitions)
    return f"`{name}` is not a host expression, since {done[1]}" if isinstance(done, tuple) else done
