"""The typing pass: untyped IR and parameter types give typed IR, in which every conversion is written out.

`annotate_types` is the door. This module types expressions; `ir_type_statements` types statements and joins the
assignments of each local, `weak_literals` lets float literals take the type they meet, `func_instances` types device
functions for each signature, and `constant_checks` refuses constants that break a caller constraint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

from tack.lang import ops
from tack.lang.constant_checks import check_constants, constant_value
from tack.lang.diagnostics import Loc, fail
from tack.lang.func_instances import Instances, has_effects
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAtomic,
    IRBind,
    IRBinOp,
    IRBlockReduce,
    IRBoolOp,
    IRBuiltin,
    IRCall,
    IRCast,
    IRCompare,
    IRConst,
    IRExpr,
    IRKernel,
    IRLoad,
    IRNot,
    IRSelect,
    IRStore,
    IRThreadId,
    IRUnary,
    IRVar,
)
from tack.lang.ir_type_statements import UntypedRead
from tack.lang.ir_type_vectors import VectorTyper, describe
from tack.lang.ir_vector import IRComponent, IRVector, IRVectorOp, has_vectors
from tack.lang.types import (
    ArrayType,
    DType,
    ValueType,
    element_of,
    f32,
    f64,
    i32,
    i64,
    integer_type_for_value,
    number_type,
    shape_of,
    shaped,
    u64,
)
from tack.lang.weak_literals import both_marks, convert

_MAX_JOIN_ROUNDS = 1000  # a backstop: each round but the last widens a local, and a type widens a few times at most
_LITERAL_OPERATORS = frozenset("+ - * / // % **".split())
_BIT_ATOMICS = ("and", "or", "xor")


def annotate_types(ir: IRKernel, param_types: Sequence[ValueType]) -> IRKernel:
    """Type a kernel for the given parameter types.

    Parameters
    ----------
    ir : IRKernel
        The untyped kernel. It is only read: one untyped kernel serves any number of signatures.
    param_types : sequence of DType or ArrayType
        One type for each parameter, as `infer_param_types` gives them.

    Returns
    -------
    IRKernel
        A new tree: `dtype` on every expression, `_resolved_type` on every assignment, `_operand_type` on comparisons
        and builtins, an `IRCast` for every implicit conversion, and in `functions` the instances that are called.

    Raises
    ------
    TypeError, ValueError, NameError
        If the program has no type, or a constant breaks a caller constraint; the message shows the place.
    """
    has_f64 = any(isinstance(t, ArrayType) and t.dtype is f64 for t in param_types)
    instances = Instances(Annotator, has_f64)
    annotator = Annotator(ir, param_types, instances, chain=(), literal_params={}, adopted=f32)
    typed = annotator.function_body(_MAX_JOIN_ROUNDS)
    kernel = IRKernel(
        name=ir.name,
        loc=ir.loc,
        params=annotator.typed_params(),
        body=typed,
        symbols=annotator.typed_symbols(),
        tables=annotator.typed_tables(),
        results=annotator.result_types(),
        group=ir.group,
    )
    kernel.functions = instances.reachable(kernel)
    if any(map(has_vectors, (kernel, *kernel.functions.values()))):  # most kernels are spared the loading of the pass
        from tack.lang.scalarise import scalarise

        kernel = scalarise(kernel)
    check_constants(kernel)
    return kernel


class Annotator(VectorTyper):
    """Types one function: a kernel, or a device function for one signature."""

    # ---------------------------------------------------------------------------------------------------- dispatch

    def _annotate_expr(self, expr: IRExpr) -> IRExpr:
        """A new, typed copy of an untyped expression."""
        match expr:
            case IRConst():
                return self._const(expr)
            case IRVar():
                return self._var(expr)
            case IRBinOp():
                return self._binary(expr)
            case IRUnary():
                return self._unary(expr)
            case IRCompare():
                return self._compare(expr)
            case IRBoolOp():
                values = [self._condition(value) for value in expr.values]
                return IRBoolOp(loc=expr.loc, op=expr.op, values=values, dtype=i32)
            case IRNot():
                return IRNot(loc=expr.loc, operand=self._condition(expr.operand), dtype=i32)
            case IRSelect():
                return self._select(expr)
            case IRBind():
                return self._bind(expr)
            case IRCast():
                return self._cast(expr)
            case IRBuiltin():
                return self._builtin(expr)
            case IRLoad():
                return self._load(expr)
            case IRVector():
                return self._vector(expr)
            case IRComponent():
                return self._component(expr)
            case IRVectorOp():
                return self._vector_op(expr)
            case IRArrayAttr():
                return self._array_attr(expr)
            case IRAtomic():
                return self._atomic(expr)
            case IRThreadId():
                return IRThreadId(loc=expr.loc, dtype=i32)
            case IRBlockReduce():
                return self._block_reduce(expr)
            case IRCall():
                return self._value_of_call(expr)
            case IRArrayRef():
                self._fail_array_as_number(expr.name, expr.loc)
        raise AssertionError(f"{expr.loc}: no typing rule for {type(expr).__name__}")

    def _fail(self, kind: type[Exception], message: str, loc: Loc, hint: str | None = None) -> NoReturn:
        fail(kind, message, loc, hint=hint, chain=self.chain)

    # -------------------------------------------------------------------------------------------- constants, names

    def _const(self, expr: IRConst) -> IRConst:
        value = int(expr.value) if isinstance(expr.value, bool) else expr.value
        if expr.pinned is not None:
            return IRConst(loc=expr.loc, value=value, pinned=expr.pinned, dtype=expr.pinned)
        if isinstance(value, float):
            return IRConst(loc=expr.loc, value=value, dtype=f32, _literal=True, _weak=True)
        try:
            dtype = integer_type_for_value(value)
        except TypeError as error:
            self._fail(
                TypeError, str(error), expr.loc, f"write {value}.0 for a float" if value.bit_length() < 1024 else None
            )
        return IRConst(loc=expr.loc, value=value, dtype=dtype, _literal=True)

    def _var(self, expr: IRVar) -> IRExpr:
        name = expr.name
        if name in self.bound_literals:
            return self._annotate_expr(self.bound_literals[name])
        if name in self.arrays:
            self._fail_array_as_number(name, expr.loc)
        dtype = self.types.get(name)
        if dtype is None:
            raise UntypedRead(name, expr.loc)
        literal = name in self.literals
        return IRVar(loc=expr.loc, name=name, dtype=dtype, _literal=literal, _weak=literal and self.literals[name])

    def _fail_array_as_number(self, name: str, loc: Loc) -> NoReturn:
        shown, array = self.source_name(name), self.arrays[name]
        index = ", ".join("ijklmn"[: array.ndim]) or "0"
        self._fail(
            TypeError,
            f"`{shown}` is an array ({array}) where a number is needed",
            loc,
            f"read an element, such as {shown}[{index}]; whole-array arithmetic is not part of the language",
        )

    def _bind(self, expr: IRBind) -> IRExpr:
        value = self._annotate_expr(expr.value)
        if value._literal and not has_effects(expr.value):
            # The middle of a chain is typed in each link on its own, so a literal there is written out again.
            self.bound_literals[expr.name] = expr.value
            return value
        dtype = self.contribute(expr.name, value)
        return IRBind(loc=expr.loc, name=expr.name, value=self._adopt(value, dtype), dtype=dtype)

    # --------------------------------------------------------------------------------------------------- operators

    def _unary(self, expr: IRUnary) -> IRExpr:
        operand = self._annotate_expr(expr.operand)
        dtype = operand.dtype
        assert dtype is not None
        if ops.UNARY[expr.op].rule is ops.Rule.BITWISE:
            self._need_integers(f"`{expr.op}`", [operand], expr.loc)
            return IRUnary(loc=expr.loc, op=expr.op, operand=operand, dtype=dtype)
        literal, weak = both_marks([operand], dtype)
        return IRUnary(loc=expr.loc, op=expr.op, operand=operand, dtype=dtype, _literal=literal, _weak=weak)

    def _binary(self, expr: IRBinOp) -> IRExpr:
        left, right = self._annotate_expr(expr.left), self._annotate_expr(expr.right)
        rule = ops.BINARY[expr.op].rule
        integers = _dtype(left).is_integer and _dtype(right).is_integer
        if rule in (ops.Rule.SHIFT, ops.Rule.BITWISE):
            self._need_integers(f"`{expr.op}`", [left, right], expr.loc)
        if rule is ops.Rule.SHIFT:
            operands, dtype = [left, convert(right, _dtype(left))], _dtype(left)
        elif rule is ops.Rule.POWER and integers:
            self._check_integer_exponent(right)
            operands, dtype = [left, convert(right, u64)], _dtype(left)
        elif rule is ops.Rule.TRUE_DIVIDE and integers:
            operands, dtype = [self._adopt(left, f32), self._adopt(right, f32)], f32
        else:
            operands, dtype = self._meet_at([left, right], f"`{expr.op}`", expr.loc)
        shape = self._common_shape([left, right], f"`{expr.op}`", expr.loc)
        left_operand, right_operand = operands
        result = IRBinOp(loc=expr.loc, op=expr.op, left=left_operand, right=right_operand, dtype=shaped(dtype, shape))
        if expr.op in _LITERAL_OPERATORS:
            result._literal, result._weak = both_marks([left, right], dtype)
        return result

    def _check_integer_exponent(self, exponent: IRExpr) -> None:
        """Refuse a literal or captured exponent that is negative, of an integer base (rule POW-3)."""
        value = constant_value(exponent, self.constants) if exponent._literal else None
        if value is not None and value < 0:
            self._fail(
                TypeError,
                f"an integer to the power of {value} is no integer",
                exponent.loc,
                "cast the base to a floating type for a negative power, such as tack.f32(x) ** -1",
            )

    def _compare(self, expr: IRCompare) -> IRExpr:
        operands = [self._annotate_expr(expr.left), self._annotate_expr(expr.right)]
        (left, right), meet = self._meet_at(operands, f"`{expr.op}`", expr.loc)
        dtype = shaped(i32, self._common_shape(operands, f"`{expr.op}`", expr.loc))
        return IRCompare(loc=expr.loc, op=expr.op, left=left, right=right, dtype=dtype, _operand_type=meet)

    def _select(self, expr: IRSelect) -> IRExpr:
        cond = self._condition(expr.cond)
        arms = self._arms(expr)
        what = "the arms of this conditional expression"
        (then, other), number = self._meet_at(arms, what, expr.loc)
        dtype = shaped(number, self._same_shape(arms, what, expr.loc))
        literal, weak = both_marks(arms, dtype)
        return IRSelect(loc=expr.loc, cond=cond, then=then, other=other, dtype=dtype, _literal=literal, _weak=weak)

    def _arms(self, expr: IRSelect) -> list[IRExpr]:
        """Both arms. While one reads a local without a type yet, the other stands in: ``r = r + 1 if k > 0 else 0``."""
        typed: list[IRExpr] = []
        for arm in (expr.then, expr.other):
            try:
                typed.append(self._annotate_expr(arm))
            except UntypedRead as error:
                self.problem = self.problem or error
                if not typed and arm is expr.other:
                    raise
        return [typed[0], typed[-1]]

    def _cast(self, expr: IRCast) -> IRExpr:
        operand = self._annotate_expr(expr.operand)
        return self._cast_to(expr.target, expr.operand, operand, expr.loc, explicit=expr.explicit)

    def _cast_to(self, number: DType, untyped: IRExpr, operand: IRExpr, loc: Loc, *, explicit: bool) -> IRExpr:
        """A cast of the numbers of `operand`, which is `untyped` typed."""
        if operand._weak:
            # Rule LIT-12: a literal directly inside adapts, to a floating type or to an exact integer.
            operand = self._retype(operand, number) if number.is_float else self._whole(untyped, number) or operand
        target = shaped(number, shape_of(operand.dtype))
        return IRCast(loc=loc, target=target, operand=operand, explicit=explicit, dtype=target)

    def _whole(self, expr: IRExpr, target: DType) -> IRConst | None:
        """A float literal truncated from its exact value, if that is an integer of type `target`."""
        sign = 1
        while True:
            if isinstance(expr, IRUnary) and expr.op == "-":
                expr, sign = expr.operand, -sign
            elif isinstance(expr, IRVar) and expr.name in self.literal_source:
                expr = self.literal_source[expr.name]
            else:
                break
        if not isinstance(expr, IRConst) or not math.isfinite(expr.value):
            return None
        value = sign * math.trunc(expr.value)
        return IRConst(loc=expr.loc, value=value, dtype=target) if target.min <= value <= target.max else None

    def _meet_at(self, operands: list[IRExpr], what: str, loc: Loc) -> tuple[list[IRExpr], DType]:
        """`_meet`, with a diagnostic at `loc` that shows the cast to write."""
        try:
            return self._meet(operands)
        except TypeError:
            names = " and ".join(dict.fromkeys(_dtype(operand).name for operand in operands))
            self._fail(
                TypeError,
                f"{what}: no integer type holds both {names}",
                loc,
                f"use an explicit integer cast: {_cast_to_write(operands)}",
            )

    def _need_integers(self, what: str, operands: list[IRExpr], loc: Loc) -> None:
        for operand in operands:
            if _dtype(operand).is_float:
                self._fail(
                    TypeError,
                    f"{what} takes integers, and this operand is {_dtype(operand).name}",
                    operand.loc,
                    "cast it to an integer type, such as tack.i64(x), if you mean its truncated value",
                )

    # ---------------------------------------------------------------------------------------------------- builtins

    def _builtin(self, expr: IRBuiltin) -> IRExpr:
        row = ops.BUILTINS[expr.name]
        least, most = row.arity
        if len(expr.args) < least or (most is not None and len(expr.args) > most):
            wanted = str(least) if most == least else f"{least} or more"
            self._fail(TypeError, f"{expr.name}() takes {wanted} arguments, not {len(expr.args)}", expr.loc)
        args = [self._annotate_expr(arg) for arg in expr.args]
        what = f"{expr.name}()"
        if row.rule is ops.Rule.BITS:
            self._need_integers(what, args, expr.loc)
            typed, operand_type = args, _dtype(args[0])
        elif row.rule in (ops.Rule.SAME, ops.Rule.EXTREMUM):
            typed, operand_type = self._meet_at(args, what, expr.loc)
        else:
            operand_type = f64 if any(_dtype(arg) is f64 for arg in args) else f32
            typed = [self._adopt(arg, operand_type) for arg in args]
        number = i32 if row.rule in (ops.Rule.BITS, ops.Rule.PREDICATE) else operand_type
        dtype = shaped(number, self._common_shape(args, what, expr.loc))
        literal, weak = both_marks(args, dtype)
        return IRBuiltin(
            loc=expr.loc,
            name=expr.name,
            args=typed,
            dtype=dtype,
            _operand_type=operand_type,
            _literal=literal,
            _weak=weak,
        )

    # ------------------------------------------------------------------------------------------------------ memory

    def _array(self, name: str, loc: Loc) -> ArrayType:
        if name in self.arrays:
            return self.arrays[name]
        dtype = self.types.get(name)
        if dtype is None:
            raise UntypedRead(name, loc)
        shown = self.source_name(name)
        self._fail(
            TypeError,
            f"`{shown}` is a number ({dtype.name}), not an array",
            loc,
            f"use `{shown}` without an index or attribute, or pass an array for it",
        )

    def _load(self, expr: IRLoad) -> IRExpr:
        if expr.array not in self.arrays and shape_of(self.types.get(expr.array)):
            base = IRVar(loc=expr.loc, name=expr.array)
            return self._component(IRComponent(loc=expr.loc, base=base, index=expr.index))
        array = self._array(expr.array, expr.loc)
        index = self._index(expr.index, array, expr)
        return IRLoad(loc=expr.loc, array=expr.array, index=index, dtype=element_of(array))

    def _index(self, index: list[IRExpr], array: ArrayType, node: IRLoad | IRStore | IRAtomic) -> list[IRExpr]:
        """The index of an element, each part an i64 (rule MEM-2)."""
        if len(index) not in (array.ndim, 1):
            wanted = f"{array.ndim} indices, or one flat index" if array.ndim != 1 else "one index"
            shown = self.source_name(node.array)
            self._fail(TypeError, f"{len(index)} indices for `{shown}`, {array}: it takes {wanted}", node.loc)
        return [self._integer(part, "an index", i64) for part in index]

    def _integer(self, expr: IRExpr, what: str, dtype: DType) -> IRExpr:
        """`expr` as an integer of type `dtype`; a float is refused."""
        typed = self._annotate_expr(expr)
        if shape_of(typed.dtype):
            self._fail(TypeError, f"{what} is an integer, and this is {describe(typed)}", expr.loc)
        if _dtype(typed).is_float:
            self._fail(
                TypeError,
                f"{what} is an integer, and this is {_dtype(typed).name}",
                expr.loc,
                "cast with tack.i64(...)",
            )
        return convert(typed, dtype)

    def _array_attr(self, expr: IRArrayAttr) -> IRArrayAttr:
        array = self._array(expr.array, expr.loc)
        axis = expr.axis
        if expr.attr == "shape":
            if not -array.ndim <= axis < array.ndim:
                shown = self.source_name(expr.array)
                self._fail(
                    TypeError, f"`{shown}`, {array}, has no axis {axis}: it has {array.ndim} dimensions", expr.loc
                )
            axis %= array.ndim
        return IRArrayAttr(loc=expr.loc, array=expr.array, attr=expr.attr, axis=axis, dtype=i64)

    def _atomic(self, expr: IRAtomic) -> IRExpr:
        array = self._array(expr.array, expr.loc)
        shown = self.source_name(expr.array)
        if array.space == "private":
            self._fail(
                TypeError, f"`{shown}` is private to an iteration, so atomics on it have no meaning", expr.loc,
                "write a plain assignment, or pass an array argument",
            )  # fmt: skip
        if expr.op in _BIT_ATOMICS and array.dtype.is_float:
            self._fail(
                TypeError, f"atomic_{expr.op}() takes integer arrays, and `{shown}` is {array.dtype.name}", expr.loc
            )
        index = self._index(expr.index, array, expr)
        element = element_of(array)
        args = [self._as_element(self._annotate_expr(arg), element, shown) for arg in expr.args]
        return IRAtomic(loc=expr.loc, op=expr.op, array=expr.array, index=index, args=args, dtype=element)

    def _block_reduce(self, expr: IRBlockReduce) -> IRBlockReduce:
        """Rule GRP-8: f32 only."""
        value = self._annotate_expr(expr.value)
        if value.dtype is not f32:
            name = f"block_{expr.op}"
            given, hint = _dtype(value).name, f"cast it: {name}(tack.f32(x))"
            if shape_of(value.dtype):
                given, hint = describe(value), f"give it one component at a time: {name}(v.x)"
            self._fail(TypeError, f"{name}() takes f32, and this is {given}", expr.value.loc, hint)
        return IRBlockReduce(loc=expr.loc, op=expr.op, value=value, dtype=f32)


def _dtype(expr: IRExpr) -> DType:
    """The type of an expression, or of the numbers of a vector or matrix: operators are typed by that."""
    assert expr.dtype is not None, f"{expr.loc}: untyped operand {type(expr).__name__}"
    return number_type(expr.dtype)


def _cast_to_write(operands: list[IRExpr]) -> str:
    """The advice for signed beside u64: cast the literal, if there is one, else either operand."""
    for operand in operands:
        if isinstance(operand, IRConst) and _dtype(operand).is_signed and operand.value >= 0:
            return f"tack.u64({operand.value})"
    return "tack.i64(...) or tack.u64(...) around one of them, whichever wrap you mean"
