"""Weak float literals (rules LIT-4 to LIT-14): how an operand takes the type that it meets.

A typed expression is marked `_literal` if it is a literal expression, and `_weak` if it also holds a float literal. A
weak one has been typed f32, for the time being. `_retype` gives it another floating type throughout.

A local that is assigned once, to a literal expression, is weak wherever it is read. It is kept as one variable for each
floating type in which it is wanted (``x`` at f32, ``x.f64``), each assigned where the user assigned `x`. So the
literals round once at the type they meet, nothing is computed twice, and a chain of such locals stays as long as
it was written. Parameters of device functions that are given weak literals work in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tack.lang.ir import IRBinOp, IRBuiltin, IRCall, IRCast, IRConst, IRExpr, IRSelect, IRUnary, IRVar
from tack.lang.ir_vector import IRVector, IRVectorOp
from tack.lang.type_inference import join_types
from tack.lang.types import DType, f32, number_type, shape_of, shaped


def version_name(name: str, dtype: DType) -> str:
    """The variable that holds the weak symbol `name` at a floating type."""
    return name if dtype is f32 else f"{name}.{dtype.name}"


def convert(expr: IRExpr, dtype: DType) -> IRExpr:
    """`expr` at `dtype`: itself, an integer constant of that type if it fits, or an implicit cast.

    A vector or matrix keeps its shape: `dtype` is the type of its numbers.
    """
    dtype = shaped(number_type(dtype), shape_of(expr.dtype))
    if expr.dtype is dtype:
        return expr
    if (
        isinstance(expr, IRConst)
        and isinstance(expr.value, int)
        and dtype.is_integer
        and dtype.wrap(expr.value) == expr.value
    ):
        return IRConst(loc=expr.loc, value=expr.value, dtype=dtype, _literal=expr._literal)
    return IRCast(loc=expr.loc, target=dtype, operand=expr, explicit=False, dtype=dtype, _literal=expr._literal)


class WeakLiterals(ABC):
    """The part of the annotator that makes operands meet."""

    def _meet(self, operands: list[IRExpr]) -> tuple[list[IRExpr], DType]:
        """Bring operands to the promotion of their types; a weak one takes that type as a literal does.

        The promotion needs no case for weak operands: until they meet something they are f32, the least floating type.
        """
        dtype = join_types(number_type(_dtype(operand)) for operand in operands)
        return [self._adopt(operand, dtype) for operand in operands], dtype

    def _adopt(self, expr: IRExpr, dtype: DType) -> IRExpr:
        """`expr` as a value of `dtype`: a weak expression that meets a floating type takes it, another converts.

        Of vectors and matrices this is about their numbers.
        """
        dtype = number_type(dtype)
        if expr._weak and dtype.is_float:
            return self._retype(expr, dtype)
        return convert(expr, dtype)

    def _retype(self, expr: IRExpr, dtype: DType) -> IRExpr:
        """Give a weak expression the floating type `dtype`, in place and throughout."""
        if number_type(_dtype(expr)) is dtype:
            return expr
        expr.dtype = shaped(dtype, shape_of(expr.dtype))
        match expr:
            case IRConst():
                pass
            case IRVar():
                expr.name = self._weak_version(expr.name, dtype)
            case IRCall():
                self._retype_call(expr, dtype)
            case IRUnary():
                expr.operand = self._retype_part(expr.operand, dtype)
            case IRBinOp():
                expr.left = self._retype_part(expr.left, dtype)
                expr.right = self._retype_part(expr.right, dtype)
            case IRSelect():
                expr.then = self._retype_part(expr.then, dtype)
                expr.other = self._retype_part(expr.other, dtype)
            case IRVector():
                expr.items = [self._retype_part(item, dtype) for item in expr.items]
            case IRVectorOp():  # select, or identity, which has no arguments
                expr.args[1:] = [self._retype_part(arg, dtype) for arg in expr.args[1:]]
            case IRBuiltin():
                expr._operand_type = dtype
                expr.args = [self._retype_part(arg, dtype) for arg in expr.args]
            case _:
                raise AssertionError(f"{expr.loc}: {type(expr).__name__} cannot be a weak literal")
        return expr

    def _retype_part(self, expr: IRExpr, dtype: DType) -> IRExpr:
        """A part of a weak expression: itself weak, or a literal of a type of its own that was converted to f32."""
        if isinstance(expr, IRCast) and not expr.explicit:
            return convert(expr.operand, dtype)
        return self._retype(expr, dtype) if expr._weak else convert(expr, dtype)

    @abstractmethod
    def _weak_version(self, name: str, dtype: DType) -> str:
        """The variable that holds the weak local or parameter `name` at `dtype`; from now on it is wanted."""

    @abstractmethod
    def _retype_call(self, call: IRCall, dtype: DType) -> None:
        """Make a call with a weak result call the instance whose result has the type `dtype`."""


def both_marks(operands: list[IRExpr], dtype: DType) -> tuple[bool, bool]:
    """The marks of an operation on `operands` that gives `dtype`: all literal, and then weak if any of them is."""
    literal = all(operand._literal for operand in operands)
    return literal, literal and dtype.is_float and any(operand._weak for operand in operands)


def _dtype(expr: IRExpr) -> DType:
    assert expr.dtype is not None, f"{expr.loc}: untyped operand {type(expr).__name__}"
    return expr.dtype
