"""Expressions in C: a plain walk over typed IR that keeps its order of evaluation.

C leaves the order of operands open, so an operand with an effect becomes a statement before the expression, and what
stands to its left and reads memory becomes one too. A guard stays a guard: ``&&``, ``||`` and ``?:`` where both sides
are expressions, else an if-statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from tack.codegen.c_arithmetic import ArithmeticEmitter
from tack.codegen.c_dialect import BodyText, CModule, mangle
from tack.codegen.c_facts import DEEPEST, ExpressionFacts
from tack.codegen.launch_plan import ARRAY, EXTENT, SCALAR, TEXTURE, KernelParameter
from tack.lang import ir
from tack.lang.diagnostics import fail
from tack.lang.records import record
from tack.lang.types import DType, f32, i64

_LINK = {"and": " && ", "or": " || "}


@record(frozen=True)
class CArray:
    """An array in C: its pointer, element type and address space. `extents` are texts; of a kernel's own argument they
    are None, since a kernel takes only the extents that it reads, and `position` is the argument's."""

    pointer: str
    dtype: DType
    space: str
    extents: tuple[str, ...] | None
    position: int = -1


class ExpressionEmitter(ArithmeticEmitter):
    """Walks expressions. `arrays` has the arrays of the function being written, `b` its lines; `used` collects the
    parameters that a kernel must take; `sampled` has the arrays with images of each function (see c_textures)."""

    kernel: ir.IRKernel
    facts: ExpressionFacts
    module: CModule
    function: ir.IRFunction
    arrays: dict[str, CArray]
    sampled: dict[int, frozenset[str]]
    used: dict[KernelParameter, str]
    positions: dict[str, int]
    b: BodyText

    # -- values

    def _expr(self, node: ir.IRExpr) -> str:
        """The text of an expression, in brackets unless it is one word or call; may write statements before it."""
        text = self._text(node)
        if self.facts.depth(node) % DEEPEST == 0 and node.dtype is not None:
            return self._temporary(text, node.dtype)
        return text

    def _text(self, node: ir.IRExpr) -> str:
        match node:
            case ir.IRConst():
                return self.dialect.literal(node.value, typed(node))
            case ir.IRVar():
                return self._variable(node.name)
            case ir.IRArrayAttr():
                return self._attribute(node)
            case ir.IRLoad():
                return self._load(node)
            case ir.IRUnary():
                return self._unary(node.op, typed(node), self._expr(node.operand))
            case ir.IRBinOp():
                return self._binary_operator(node)
            case ir.IRCompare() | ir.IRBoolOp() | ir.IRNot():
                return f"((int){self._condition(node)})"
            case ir.IRSelect():
                return self._select(node)
            case ir.IRBind():
                return f"({self._variable(node.name)} = {self._expr(node.value)})"
            case ir.IRCast(operand=ir.IRConst(value=int(value))) if node.target.is_integer:
                return self.dialect.literal(node.target.wrap(value), node.target)
            case ir.IRCast():
                return self._cast(self._expr(node.operand), typed(node.operand), node.target)
            case ir.IRBuiltin():
                assert node._operand_type is not None
                return self._builtin(node.name, node._operand_type, self._operands(node.args))
            case ir.IRAtomic():
                return self._temporary(self._atomic(node), typed(node))
            case ir.IRCall():
                text = self._call(node)
                return self._temporary(text, typed(node)) if self.facts.has_effect(node) else text
        raise AssertionError(f"no lowering of {type(node).__name__}")

    def _operands(self, nodes: Sequence[ir.IRExpr]) -> list[str]:
        """Texts of expressions that are evaluated in this order."""
        last = max((i for i, node in enumerate(nodes) if self.facts.has_effect(node)), default=-1)
        texts = []
        for i, node in enumerate(nodes):
            text = self._expr(node)
            if i < last and self.facts.reads(node):
                text = self._temporary(text, typed(node))
            texts.append(text)
        return texts

    def _temporary(self, text: str, dtype: DType) -> str:
        name = self.b.name()
        self.b.do(f"const {self._type(dtype)} {name} = {text};")
        return name

    def _binary_operator(self, node: ir.IRBinOp) -> str:
        dtype = typed(node)
        if dtype.is_float and node.op in "+-":
            self._fusable.update(id(x) for x in (node.left, node.right))
        left, right = self._operands((node.left, node.right))
        if dtype.is_float and node.op == "*" and id(node) not in self._fusable:
            return self._rounded_product(dtype, left, right)
        return self._binary(node.op, dtype, left, right)

    _fusable: set[int]  # operands of floating sums: a product among them may be fused into its sum

    # -- names

    def _variable(self, name: str) -> str:
        """A scalar in C; a kernel takes the scalar arguments that it names."""
        text = f"v_{mangle(name)}"
        if self.function is self.kernel and name in self.positions:
            dtype = self.function.symbols[name].dtype
            assert dtype is not None
            self.used[KernelParameter(SCALAR, dtype, self.positions[name])] = text
        return text

    # -- conditions

    def _condition(self, node: ir.IRExpr) -> str:
        """An expression as a condition of C, always in brackets."""
        match node:
            case ir.IRCompare():
                left, right = self._operands((node.left, node.right))
                return f"({left} {node.op} {right})"
            case ir.IRNot():
                return f"(!{self._condition(node.operand)})"
            case ir.IRBoolOp():
                return self._short_circuit(node)
        return self._truth(typed(node), self._expr(node))

    def _short_circuit(self, node: ir.IRBoolOp) -> str:
        first, *rest = node.values
        if not any(map(self.facts.needs_statements, rest)):
            return "(" + _LINK[node.op].join(map(self._condition, node.values)) + ")"
        result = self.b.name()
        self.b.do(f"int {result} = (int){self._condition(first)};")
        for value in rest:
            self.b.open(f"if ({'' if node.op == 'and' else '!'}{result})")
            self.b.do(f"{result} = (int){self._condition(value)};")
            self.b.close()
        return f"({result} != 0)"

    def _select(self, node: ir.IRSelect) -> str:
        """Only the chosen arm runs."""
        condition = self._condition(node.cond)
        if not (self.facts.needs_statements(node.then) or self.facts.needs_statements(node.other)):
            return f"({condition} ? {self._expr(node.then)} : {self._expr(node.other)})"
        result = self.b.name()
        self.b.do(f"{self._type(typed(node))} {result};")
        self.b.open(f"if {condition}")
        self.b.do(f"{result} = {self._expr(node.then)};")
        self.b.otherwise()
        self.b.do(f"{result} = {self._expr(node.other)};")
        self.b.close()
        return result

    # -- memory

    def _load(self, node: ir.IRLoad) -> str:
        return self._element(node.array, self._operands(node.index))

    def _pointer(self, name: str) -> str:
        array = self.arrays[name]
        if array.position >= 0:
            self.used[KernelParameter(ARRAY, array.dtype, array.position)] = array.pointer
        return array.pointer

    def _image(self, name: str) -> str:
        """The image of an array that is sampled."""
        array, text = self.arrays[name], image_name(name)
        if array.position >= 0:
            self.used[KernelParameter(TEXTURE, f32, array.position)] = text
        return text

    def _extents(self, name: str) -> tuple[str, ...]:
        array = self.arrays[name]
        if array.extents is not None:
            return array.extents
        array_type = self.kernel.symbols[name].array_type
        assert array_type is not None
        return tuple(self._extent(name, axis) for axis in range(array_type.ndim))

    def _extent(self, name: str, axis: int) -> str:
        array, text = self.arrays[name], extent_name(name, axis)
        if array.extents is not None:
            return array.extents[axis]
        self.used[KernelParameter(EXTENT, i64, array.position, axis)] = text
        return text

    def _attribute(self, node: ir.IRArrayAttr) -> str:
        if node.attr == "shape":
            return self._extent(node.array, node.axis)
        if node.attr == "ndim":
            array_type = self.function.symbols[node.array].array_type
            assert array_type is not None
            return self.dialect.literal(array_type.ndim, i64)
        return "(" + (" * ".join(self._extents(node.array)) or self.dialect.literal(1, i64)) + ")"

    def _element(self, name: str, index: list[str]) -> str:
        """One element as an lvalue: an index a dimension, or one flat index."""
        flat = index[0]
        for axis, position in enumerate(index[1:], 1):
            flat = f"({flat} * {self._extent(name, axis)} + {position})"
        return f"{self._pointer(name)}[{flat}]"

    def _atomic(self, node: ir.IRAtomic) -> str:
        """The old value, as a call with an effect."""
        array, count = self.arrays[node.array], len(node.index)
        if not self.supports_atomic(array.dtype):
            hint = f"atomics of {self.dialect.device} work on {', '.join(self.atomic_types())}"
            fail(TypeError, f"device {self.dialect.device} has no atomics on {array.dtype.name}", node.loc, hint=hint)
        from tack.codegen.atomics import atomic_helper

        texts = self._operands((*node.index, *node.args))
        helper = atomic_helper(self, self.module.helpers, node.op, array.dtype, array.space)
        pointer = f"{self.dialect.spaces[array.space]}{self._type(array.dtype)}*"
        address = f"({pointer})&{self._element(node.array, texts[:count])}"
        return f"{helper}({', '.join([address, *texts[count:]])})"

    def supports_atomic(self, dtype: DType) -> bool:
        return dtype.name in self.atomic_types()

    def atomic_types(self) -> tuple[str, ...]:
        """The element types that atomics work on, by name."""
        return ("i32", "u32", "f32")

    def native_atomic(self, op: str, dtype: DType, space: str) -> str | None:
        """See `atomics.AtomicPrimitives`; a dialect says."""
        raise NotImplementedError

    def atomic_load(self, bits: int, space: str) -> str:
        """See `atomics.AtomicPrimitives`."""
        return "*q"

    def compare_and_swap(self, bits: int, space: str) -> str:
        """See `atomics.AtomicPrimitives`; a dialect says."""
        raise NotImplementedError

    # -- calls

    def _call(self, node: ir.IRCall) -> str:
        """A call of a device-function instance: arrays by pointer, with the extents that the callee cannot know."""
        scalars = [a for a in node.args if not isinstance(a, ir.IRArrayRef)]
        texts = iter(self._operands(scalars))
        arguments: list[str] = []
        assert node.symbol is not None
        callee = self.kernel.functions[node.symbol]
        for param, argument in zip(callee.params, node.args, strict=True):
            if isinstance(argument, ir.IRArrayRef):
                arguments.append(self._pointer(argument.name))
                array_type = self.function.symbols[argument.name].array_type
                assert array_type is not None
                arguments += self._extents(argument.name) if array_type.shape is None else ()
                if param.name in self.sampled.get(id(callee), ()):
                    arguments.append(self._image(argument.name))
            else:
                arguments.append(next(texts))
        return f"{function_name(node)}({', '.join(arguments)})"


def typed(node: ir.IRExpr) -> DType:
    """The type of an expression of typed IR."""
    assert node.dtype is not None, "the generator takes typed IR only"
    return node.dtype


def extent_name(array: str, axis: int) -> str:
    """The C name of an extent."""
    return f"e{axis}_{mangle(array)}"


def image_name(array: str) -> str:
    """The C name of an array's image."""
    return f"i_{mangle(array)}"


def function_name(node: ir.IRCall) -> str:
    """The C name of a device-function instance."""
    assert node.symbol is not None
    return f"f_{mangle(node.symbol)}"
