"""Constants that break a caller constraint where nothing guards them.

Rules SHIFT-3, IDIV-4, TDIV-3, FDIV-5, POW-3 and LOOP-10.

The checks read typed IR. What guards an operation: an arm of an `if` or of a conditional expression, the operands of
`and`/`or` after the first, the body of a `while`, a loop that is known to be empty, a link of a comparison chain after
the first, and whatever follows an `if` that may leave (``if d == 0: return 0``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tack.lang import ops
from tack.lang.diagnostics import Loc, fail
from tack.lang.exact import cast
from tack.lang.ir import (
    IRAssign,
    IRBind,
    IRBinOp,
    IRBoolOp,
    IRBreak,
    IRBuiltin,
    IRCall,
    IRCast,
    IRConst,
    IRContinue,
    IRExpr,
    IRFor,
    IRFunction,
    IRIf,
    IRKernel,
    IRParallelFor,
    IRReturn,
    IRSelect,
    IRStmt,
    IRUnary,
    IRUnpack,
    IRVar,
    IRWhile,
    children,
    walk,
)
from tack.lang.types import DType, round_float

Number = int | float
_EXACT_BUILTINS = ("abs", "min", "max")


def constant_value(expr: IRExpr, known: Mapping[str, Number]) -> Number | None:
    """The value of a typed expression made of constants, casts, operators, `abs`, `min` and `max`; else None.

    `known` gives the values of locals. None also where a caller constraint is broken, for then there is no value.
    """
    dtype = expr.dtype
    match expr:
        case IRConst() if dtype is not None:
            return round_float(float(expr.value), dtype) if dtype.is_float else expr.value
        case IRVar():
            return known.get(expr.name)
        case IRCast(operand=IRExpr(dtype=DType() as source)):
            return _cast(constant_value(expr.operand, known), source, expr.target)
        case IRUnary() if dtype is not None:
            return _evaluated(ops.UNARY[expr.op], dtype, [expr.operand], known)
        case IRBinOp() if dtype is not None:
            return _binary(expr, dtype, known)
        case IRBuiltin(_operand_type=DType() as operand_type) if expr.name in _EXACT_BUILTINS:
            return _evaluated(ops.BUILTINS[expr.name], operand_type, expr.args, known)
    return None


def _cast(value: Number | None, source: DType, target: DType) -> Number | None:
    if value is None:
        return None
    if source.is_float and target.is_integer and not target.min - 1 < value < target.max + 1:
        return None  # rule INT-3; NaN compares false
    return cast(target, source, value)


def _evaluated(row: ops.Op, dtype: DType, parts: list[IRExpr], known: Mapping[str, Number]) -> Number | None:
    values: list[Number] = []
    for part in parts:
        value = constant_value(part, known)
        if value is None:
            return None
        values.append(value)
    return row.evaluate(dtype, *values)


def _binary(node: IRBinOp, dtype: DType, known: Mapping[str, Number]) -> Number | None:
    right = _written(node.right)
    written = constant_value(right, known)
    left = None if written is None else constant_value(node.left, known)
    if written is None or left is None or _broken(node, left, written) is not None:
        return None
    value = written
    if right is not node.right and right.dtype is not None and node.right.dtype is not None:
        value = cast(node.right.dtype, right.dtype, written)
    return ops.BINARY[node.op].evaluate(dtype, left, value)


def _written(expr: IRExpr) -> IRExpr:
    """The operand as the user wrote it, under an implicit conversion."""
    return expr.operand if isinstance(expr, IRCast) and not expr.explicit else expr


def _hint(node: IRBinOp, right: Number) -> str:
    """What to write instead."""
    assert node.dtype is not None
    if node.op == "<<" and node.dtype.bits <= right < 64:
        return "cast what is shifted to a wider type, `tack.i64(...)`, guard it with an if, or change the constant"
    return "guard it with an if, or change the constant"


def _broken(node: IRBinOp, left: Number | None, right: Number) -> tuple[type[Exception], str] | None:
    """The caller constraint that `node` breaks, given its operands' values as written: error and message."""
    dtype = node.dtype
    assert dtype is not None
    if node.op in ("<<", ">>") and not 0 <= right < dtype.bits:
        return ValueError, f"a shift of {dtype.name} by {right}: the count must be in [0, {dtype.bits})"
    if node.op == "**" and dtype.is_integer and right < 0:
        return TypeError, f"an integer to the power of {right} is no integer"
    if right == 0 and (node.op in ("//", "%") or (node.op == "/" and _is_integer_quotient(node))):
        return ValueError, f"`{node.op}` by the constant zero"
    if node.op in ("//", "%") and dtype.is_integer and dtype.is_signed and (left, right) == (dtype.min, -1):
        return ValueError, f"`{node.op}` of the smallest {dtype.name} by -1: the quotient does not fit"
    return None


def _is_integer_quotient(node: IRBinOp) -> bool:
    dtypes = _written(node.left).dtype, _written(node.right).dtype
    return all(dtype is not None and dtype.is_integer for dtype in dtypes)


def check_constants(kernel: IRKernel) -> None:
    """Refuse unguarded constants that break a caller constraint, in a typed kernel and in every instance it calls.

    Raises
    ------
    ValueError
        For a shift count, a divisor, or the step of a loop.
    TypeError
        For a negative exponent of an integer.
    """
    _Checker(kernel, kernel, (), set()).run()


class _Checker:
    def __init__(self, function: IRFunction, kernel: IRKernel, chain: tuple[Loc, ...], done: set[str]) -> None:
        self.function, self.kernel, self.chain, self.done = function, kernel, chain, done
        self.known = known_locals(function)

    def run(self) -> None:
        self.block(self.function.body, False)

    def block(self, body: Iterable[IRStmt], guarded: bool) -> None:
        for statement in body:
            self.statement(statement, guarded)
            guarded = guarded or (isinstance(statement, IRIf) and _may_leave(statement))

    def statement(self, node: IRStmt, guarded: bool) -> None:
        match node:
            case IRIf():
                self.expr(node.cond, guarded)
                self.block(node.then, True)
                self.block(node.other, True)
            case IRWhile():
                self.expr(node.cond, guarded)
                self.block(node.body, True)
            case IRFor():
                self.loop(node, guarded)
            case IRParallelFor():
                self.block(node.body, guarded)
            case _:
                for child in children(node):
                    self.expr(child, guarded)

    def loop(self, node: IRFor, guarded: bool) -> None:
        for bound in (node.start, node.stop, node.step):
            self.expr(bound, guarded)
        step = constant_value(node.step, self.known)
        if step is not None and step <= 0:
            self.refuse(
                ValueError, f"the step of a loop is {step}, and it must be positive", node.step.loc,
                "count upward, and compute the descending index from the loop variable",
            )  # fmt: skip
        start, stop = constant_value(node.start, self.known), constant_value(node.stop, self.known)
        empty = start is not None and stop is not None and start >= stop
        self.block(node.body, guarded or empty)

    def expr(self, node: IRExpr, guarded: bool) -> None:
        match node:
            case IRSelect():
                self.expr(node.cond, guarded)
                self.expr(node.then, True)
                self.expr(node.other, True)
                return
            case IRBoolOp():
                self.expr(node.values[0], guarded)
                for value in node.values[1:]:
                    self.expr(value, True)
                return
            case IRBinOp(op=op) if not guarded and ops.BINARY[op].constraint is not None:
                self.operands(node)
            case IRCall(symbol=str() as symbol) if not guarded and symbol not in self.done:
                # A callee is checked only where it is called without a guard.
                self.done.add(symbol)
                _Checker(self.kernel.functions[symbol], self.kernel, (*self.chain, node.loc), self.done).run()
        for child in children(node):
            self.expr(child, guarded)

    def operands(self, node: IRBinOp) -> None:
        right = _written(node.right)
        value = constant_value(right, self.known)
        if value is None:
            return
        problem = _broken(node, constant_value(node.left, self.known), value)
        if problem is not None:
            self.refuse(*problem, right.loc, _hint(node, value))

    def refuse(self, kind: type[Exception], message: str, loc: Loc, hint: str) -> None:
        fail(kind, message, loc, hint=hint, chain=self.chain)


def known_locals(function: IRFunction) -> dict[str, Number]:
    """The locals of a typed function that are assigned once, to a constant."""
    assigned: Counter[str] = Counter(p.name for p in function.params)
    for node in walk(function.body):
        match node:
            case IRAssign() | IRBind():
                assigned[node.name] += 1
            case IRUnpack():
                assigned.update(node.names)
            case IRFor():
                assigned[node.var] += 1
            case IRParallelFor():
                assigned.update(node.vars)
    known: dict[str, Number] = {}
    for node in walk(function.body):
        if isinstance(node, IRAssign) and assigned[node.name] == 1:
            value = constant_value(node.value, known)
            if value is not None:
                known[node.name] = value
    return known


def _may_leave(node: IRIf) -> bool:
    return any(isinstance(inner, (IRReturn, IRBreak, IRContinue)) for inner in walk([*node.then, *node.other]))
