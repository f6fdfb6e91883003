"""Typing of vectors and matrices (rules VEC-*).

Operators and builtins on them are typed by their numbers, as for scalars; here is what they have beside: shapes.
"""

from __future__ import annotations

from abc import abstractmethod

from tack.lang.constant_checks import constant_value
from tack.lang.diagnostics import Loc
from tack.lang.ir import IRExpr, IRLoad, IRStore, IRVar
from tack.lang.ir_type_statements import StatementTyper, UntypedRead
from tack.lang.ir_vector import IRComponent, IRComponentAssign, IRComponentStore, IRVector, IRVectorOp
from tack.lang.types import DType, VecType, element_of, f32, f64, i32, i64, number_type, shape_of, shaped
from tack.lang.weak_literals import both_marks

Shape = tuple[int, ...]
_FLOAT_OPS = ("length", "distance", "normalize", "reflect", "inverse")
_SQUARE_OPS = ("trace", "determinant", "inverse")


class VectorTyper(StatementTyper):
    """Types vector values, components and operations."""

    # ------------------------------------------------------------------------------------------------------- shapes

    def _common_shape(self, operands: list[IRExpr], what: str, loc: Loc) -> Shape:
        """The shape of an elementwise operation: that of all operands but the scalars (rule VEC-6)."""
        shapes = list(dict.fromkeys(shape_of(operand.dtype) for operand in operands))
        wide = [shape for shape in shapes if shape]
        if len(wide) > 1:
            names = " and ".join(describe(operand) for operand in operands if shape_of(operand.dtype))
            matrix = any(len(shape) == 2 for shape in wide)
            hint = "write `@` for a product of matrices" if matrix else "the operands need equally many components"
            self._fail(TypeError, f"{what}: {names} do not match", loc, hint)
        return wide[0] if wide else ()

    def _same_shape(self, operands: list[IRExpr], what: str, loc: Loc) -> Shape:
        """The shape that all operands must have, scalars included."""
        if len({shape_of(operand.dtype) for operand in operands}) > 1:
            names = " and ".join(map(describe, operands))
            self._fail(TypeError, f"{what} are {names}", loc, "write a value of one kind in each")
        return shape_of(operands[0].dtype)

    def _condition(self, expr: IRExpr) -> IRExpr:
        """A condition: a number (rule VEC-9)."""
        typed = self._annotate_expr(expr)
        if shape_of(typed.dtype):
            hint = "write `tack.all(...)` or `tack.any(...)` around it; `tack.select(mask, a, b)` chooses by component"
            self._fail(TypeError, f"{describe(typed)} is no condition", expr.loc, hint)
        return typed

    # ------------------------------------------------------------------------------------------------------- values

    def _vector(self, expr: IRVector) -> IRExpr:
        items = [self._annotate_expr(item) for item in expr.items]
        if expr.target is not None:
            return self._constructed(expr, items, expr.target)
        shapes = {shape_of(item.dtype) for item in items}
        inner = next(iter(shapes), ())
        if len(shapes) != 1 or len(inner) > 1 or not 2 <= len(items) <= 4:
            given = ", ".join(map(describe, items)) or "nothing"
            hint = "write 2 to 4 numbers for a vector, or as many vectors of one length for the rows of a matrix"
            self._fail(TypeError, f"a list of {given} is no vector or matrix", expr.loc, hint)
        typed, number = self._meet_at(items, "the items of this list", expr.loc)
        literal, weak = both_marks(items, number)
        dtype = shaped(number, (len(items), *inner))
        return IRVector(loc=expr.loc, items=typed, dtype=dtype, _literal=literal, _weak=weak)

    def _constructed(self, expr: IRVector, items: list[IRExpr], target: VecType) -> IRExpr:
        """`tack.vec3(...)` (rule VEC-3)."""
        shapes = [shape_of(item.dtype) for item in items]
        if shapes == [target.shape]:
            return self._cast_to(target.number, expr.items[0], items[0], expr.loc, explicit=True)
        is_matrix = len(target.shape) == 2
        fits = (
            shapes == [()] * target.count
            or (not is_matrix and shapes == [()])
            or (is_matrix and shapes == [target.shape[1:]] * target.shape[0])
        )
        if not fits:
            given = ", ".join(map(describe, items))
            rows = f"{target.shape[0]} rows of {target.shape[-1]} numbers" if is_matrix else "one number for all"
            hint = f"it takes {target.count} numbers, {rows}, or a value of its own shape"
            if is_matrix and shapes == [()]:
                hint += f"; a multiple of the identity is `tack.identity({target.shape[0]}) * x`"
            self._fail(TypeError, f"{target!r} of {given}", expr.loc, hint)
        cast = [
            self._cast_to(target.number, item, typed, item.loc, explicit=True)
            for item, typed in zip(expr.items, items, strict=True)
        ]
        return IRVector(loc=expr.loc, items=cast, target=target, dtype=target)

    # --------------------------------------------------------------------------------------------------- components

    def _component(self, expr: IRComponent) -> IRExpr:
        base = self._annotate_expr(expr.base)
        type_ = self._vector_type(base.dtype, expr.base, expr.loc)
        index = self._component_index(expr.index, type_, expr.loc)
        return IRComponent(loc=expr.loc, base=base, index=index, dtype=type_.number)

    def _vector_type(self, dtype: object, base: IRExpr, loc: Loc) -> VecType:
        if not isinstance(dtype, VecType):
            what, hint = "this", "only arrays, vectors and captured tuples have elements"
            if isinstance(base, IRVar):
                what = f"`{self.source_name(base.name)}`"
            elif isinstance(base, IRLoad):
                hint = f"write the indices together: `{self.source_name(base.array)}[i, j]`"
            self._fail(TypeError, f"{what} is a number, not an array or a vector", loc, hint)
        return dtype

    def _component_index(self, index: list[IRExpr], type_: VecType, loc: Loc) -> list[IRExpr]:
        """The index of a component, i64; a constant one is in range (rule VEC-5)."""
        if len(index) != len(type_.shape):
            hint = "a component of a matrix is `m[i, j]`" if len(type_.shape) == 2 else "a component is `v[k]`"
            given = "one index" if len(index) == 1 else f"{len(index)} indices"
            self._fail(TypeError, f"{given} for {type_!r}", loc, hint)
        typed = [self._integer(part, "a component index", i64) for part in index]
        for part, extent in zip(typed, type_.shape, strict=True):
            value = constant_value(part, self.constants)
            if value is not None and not 0 <= value < extent:
                hint = f"its components are 0 to {extent - 1}; negative ones do not wrap"
                self._fail(IndexError, f"component {value} of {type_!r} is out of range", part.loc, hint)
        return typed

    def _component_assign(self, node: IRComponentAssign | IRStore) -> IRComponentAssign:
        """A component of a local or a parameter: ``v[k] = x`` of a parameter was lowered as a store."""
        name = node.array if isinstance(node, IRStore) else node.name
        if name in self.arrays:
            self._fail_array_as_number(name, node.loc)
        value = self._number(node.value)
        type_ = self._vector_type(self._type_of(name, node.loc), IRVar(loc=node.loc, name=name), node.loc)
        index = self._component_index(node.index, type_, node.loc)
        return IRComponentAssign(loc=node.loc, name=name, index=index, value=self._adopt(value, type_.number))

    def _component_store(self, node: IRComponentStore) -> IRComponentStore:
        array = self._array(node.array, node.loc)
        value = self._adopt(self._number(node.value), array.dtype)
        index = self._index(node.index, array, node)
        element = element_of(array)
        if not isinstance(element, VecType):
            shown = self.source_name(node.array)
            hint = f"index it once: `{shown}[i, j]`" if array.ndim > 1 else "make the array of vectors: tack.vec3"
            self._fail(TypeError, f"an element of `{shown}`, {array}, has no components", node.loc, hint)
        component = self._component_index(node.component, element, node.loc)
        return IRComponentStore(loc=node.loc, array=node.array, index=index, component=component, value=value)

    def _number(self, expr: IRExpr) -> IRExpr:
        typed = self._annotate_expr(expr)
        if shape_of(typed.dtype):
            self._fail(TypeError, f"a component is one number, and this is {describe(typed)}", expr.loc)
        return typed

    # --------------------------------------------------------------------------------------------------- operations

    def _vector_op(self, expr: IRVectorOp) -> IRExpr:
        args = [self._annotate_expr(arg) for arg in expr.args]
        name, what = expr.name, "`@`" if expr.name == "matmul" else f"{expr.name}()"
        if name == "identity":
            return self._identity(expr, args[0])
        if name == "select":
            return self._vector_select(expr, args)
        if name in ("any", "all"):
            self._need_shape(bool(shape_of(args[0].dtype)), expr, args, "a vector, a matrix or a mask")
            return IRVectorOp(loc=expr.loc, name=name, args=args, dtype=i32)
        shape = self._op_shape(expr, args)
        if name in _FLOAT_OPS:
            number = f64 if any(_number_of(arg) is f64 for arg in args) else f32
            typed = [self._adopt(arg, number) for arg in args]
        else:
            typed, number = self._meet_at(args, what, expr.loc)
        return IRVectorOp(loc=expr.loc, name=name, args=typed, dtype=shaped(number, shape))

    def _op_shape(self, expr: IRVectorOp, args: list[IRExpr]) -> Shape:
        """The shape of the result; the arguments must have shapes that the operation takes."""
        shapes = [shape_of(arg.dtype) for arg in args]
        first, last = shapes[0], shapes[-1]
        match expr.name:
            case "matmul":
                fits = bool(first and last) and first[-1] == last[0]
                self._need_shape(fits, expr, args, "as many columns on the left as rows on the right")
                return first[:-1] + last[1:]
            case "transpose":
                self._need_shape(len(first) == 2, expr, args, "a matrix")
                return first[::-1]
            case "outer":
                self._need_shape(len(first) == len(last) == 1, expr, args, "two vectors")
                return first + last
            case "cross":
                self._need_shape(first == last == (3,), expr, args, "two vectors of 3")
                return first
        if expr.name in _SQUARE_OPS:
            self._need_shape(len(first) == 2 and first[0] == first[1], expr, args, "a square matrix")
            return first if expr.name == "inverse" else ()
        wanted = "a vector" if len(args) == 1 else "two vectors of one length"
        self._need_shape(len(first) == 1 and first == last, expr, args, wanted)
        return first if expr.name in ("normalize", "reflect") else ()

    def _need_shape(self, fits: bool, expr: IRVectorOp, args: list[IRExpr], wanted: str) -> None:
        if not fits:
            what = "`@`" if expr.name == "matmul" else f"{expr.name}()"
            given = " and ".join(map(describe, args))
            self._fail(TypeError, f"{what} takes {wanted}, not {given}", expr.loc)

    def _identity(self, expr: IRVectorOp, size: IRExpr) -> IRExpr:
        extent = constant_value(size, self.constants)
        if not isinstance(extent, int) or not 2 <= extent <= 4:
            self._fail(TypeError, "identity() takes a constant integer from 2 to 4", expr.loc)
        dtype = shaped(f32, (extent, extent))
        return IRVectorOp(loc=expr.loc, name="identity", args=[], dtype=dtype, _literal=True, _weak=True)

    def _vector_select(self, expr: IRVectorOp, args: list[IRExpr]) -> IRExpr:
        shape = self._common_shape(args, "select()", expr.loc)
        mask, *arms = args
        typed, number = self._meet_at(arms, "select()", expr.loc)
        literal, weak = both_marks(arms, number)
        dtype = shaped(number, shape)
        return IRVectorOp(loc=expr.loc, name="select", args=[mask, *typed], dtype=dtype, _literal=literal, _weak=weak)

    # ------------------------------------------------------------------------------------------------------- naming

    def _as_element(self, value: IRExpr, element: DType, array: str) -> IRExpr:
        """A value at the type of an element; a number may fill a vector or matrix (rule VEC-8)."""
        if shape_of(value.dtype):
            self._need_type(value, element, f"an element of `{array}`")
        return self._adopt(value, element)

    def _need_type(self, value: IRExpr, dtype: DType, what: str) -> None:
        """Refuse a value of another shape than `dtype`."""
        assert value.dtype is not None
        if shape_of(value.dtype) != shape_of(dtype):
            fills = isinstance(dtype, VecType) and not shape_of(value.dtype)
            hint = f"write tack.{dtype.name}(...), which takes one number for all components" if fills else None
            self._fail(TypeError, f"{what} is {dtype.name}, and this is {value.dtype.name}", value.loc, hint)

    def _type_of(self, name: str, loc: Loc) -> DType:
        dtype = self.types.get(name)
        if dtype is None:
            raise UntypedRead(name, loc)
        return dtype

    def _settle(self, value: IRExpr) -> IRExpr:
        """A vector that gets a name: one of float literals is then f64 in a kernel with an f64 array, else f32."""
        if shape_of(value.dtype):
            if value._weak:
                value = self._retype(value, f64 if self.instances.has_f64 else f32)
            value._literal = value._weak = False
        return value

    # ------------------------------------------------------------------------------------------ supplied by `Annotator`

    @abstractmethod
    def _cast_to(self, number: DType, untyped: IRExpr, operand: IRExpr, loc: Loc, *, explicit: bool) -> IRExpr: ...

    @abstractmethod
    def _meet_at(self, operands: list[IRExpr], what: str, loc: Loc) -> tuple[list[IRExpr], DType]: ...


def _number_of(expr: IRExpr) -> DType:
    assert expr.dtype is not None
    return number_type(expr.dtype)


def describe(expr: IRExpr) -> str:
    """The type of a typed expression, in words."""
    dtype = expr.dtype
    assert dtype is not None
    if isinstance(dtype, VecType):
        return f"a {dtype.name}"
    return f"a number ({dtype.name})"
