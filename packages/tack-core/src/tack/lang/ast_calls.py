"""Calls: builtins, casts, atomics and device functions."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import NoReturn

import numpy as np

from tack.lang.ast_vectors import VectorLowering
from tack.lang.func import Func, InstanceFunc
from tack.lang.intrinsics import PUBLIC, Meaning, lookup
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAtomic,
    IRBinOp,
    IRBlockReduce,
    IRBuiltin,
    IRCall,
    IRCast,
    IRExpr,
    IRFunction,
    IRLoad,
    IRNot,
    IRThreadId,
    IRVar,
    walk,
)
from tack.lang.ir_vector import IRVectorOp
from tack.lang.kernel import Kernel
from tack.lang.lowering_context import Captured, Lowered
from tack.lang.member_lowering import InstanceRef
from tack.lang.ops import BUILTINS, VECTOR_OPS
from tack.lang.source import FunctionSource
from tack.lang.types import DType, VecType, f32, i32

_MAKES_ARRAYS = frozenset("zeros ones full empty arange array asarray zeros_like empty_like".split())
_STATEMENT_FORMS = {
    "range": ("`range` works only as what a `for` loops over", "write `for i in range(...)`"),
    "ndrange": (
        "`tack.ndrange` works only as what a parallel `for` loops over",
        "write `for i, j in tack.ndrange(...)`",
    ),
    "print": ("`print` gives no value", "write it as a statement of its own"),
    "local": (
        "`tack.local` works only as the whole right side of an assignment",
        "write `name = tack.local(shape, dtype)`",
    ),
    "shared": (
        "`tack.shared` works only as the whole right side of an assignment",
        "write `name = tack.shared(shape, dtype)`",
    ),
    "barrier": ("`tack.barrier` gives no value", "write it as a statement of its own"),
}


class CallLowering(VectorLowering):
    """Lowers calls."""

    def callee(self, node: ast.Call) -> Captured:
        """The object that a call names; anything but a free name or a module attribute is refused."""
        captured = self.captured(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else None
        if captured is None:
            spelled = f"`{ast.unparse(node.func)}`"
            if isinstance(node.func, ast.Attribute):
                hint = "values in a kernel have no methods; those of arrays work on the host"
                self.unsupported(f"a call of a method, {spelled}, is not supported", node.func, hint)
            what = "a local" if isinstance(node.func, ast.Name) else "an expression"
            self.unsupported(
                f"a call of {what}, {spelled}, is not supported",
                node.func,
                "call a device function (@tack.func) or a builtin by its name",
            )
        return captured

    def meaning(self, node: ast.Call) -> Meaning | None:
        """The meaning of a call of an intrinsic; None for any other call."""
        return None if self.made_type(node.func) else lookup(self.callee(node).value)

    def call(self, node: ast.Call) -> IRExpr:
        made = self.made_type(node.func)
        if made is not None:
            return self.construct(node, made)
        captured = self.callee(node)
        if isinstance(captured.value, VecType):
            return self.construct(node, captured.value)
        if isinstance(captured.value, DType):
            return self.cast(node, captured.value)
        meaning = lookup(captured.value)
        if isinstance(captured.value, Func) or (meaning is not None and meaning.form == "library"):
            return self.value_of_function(node, self.device_function(captured, meaning))
        if meaning is None:
            self.refuse_callee(captured, node)
        return self.intrinsic(meaning, node)

    def refuse_callee(self, captured: Captured, node: ast.Call) -> NoReturn:
        name, value = captured.spelling, captured.value
        if getattr(value, "__module__", None) == "numpy" and isinstance(value, type):
            hint = "cast with a Tack dtype, for instance `tack.f32(x)`"
        elif value is np.minimum or value is np.maximum:
            hint = f"write min or max, which prefer the number over a NaN as np.fmin does; `{name}` gives the NaN"
        elif isinstance(value, Kernel):
            hint = "kernels are called on the host; make it a device function with @tack.func"
        elif name.rpartition(".")[2] in _MAKES_ARRAYS and _package(value) in ("numpy", "tack"):
            hint = (
                "arrays are made on the host; in a kernel `[x, y, z]` is a vector, `tack.local(shape, dtype)` an array"
            )
        elif isinstance(value, FunctionType):
            hint = "decorate it with @tack.func, if it is yours; builtins are listed in the language contract"
        elif ".random." in f".{name}":
            hint = "write for instance `tack.random.uniform(seed, i)`: tack.random has no hidden state"
        elif value is np.linalg.norm:
            hint = "write `tack.length`"
        elif name.rpartition(".")[2] in PUBLIC:
            hint = f"write `tack.{name.rpartition('.')[2]}`"
        elif callable(value) and not isinstance(value, type):
            hint = "do it on the host, or write it with loops and builtins, which the language contract lists"
        else:
            hint = "only device functions (@tack.func), casts and builtins can be called"
        self.unsupported(
            f"a call of `{name}`, which is neither a device function nor a builtin, is not supported", node.func, hint
        )

    # ------------------------------------------------------------------------------------------------- intrinsics

    def intrinsic(self, meaning: Meaning, node: ast.Call) -> IRExpr:
        loc = self.loc(node)
        match meaning.form:
            case "builtin":
                row = BUILTINS[meaning.name]
                args = self.arguments(node, meaning.name, *row.arity)
                return IRBuiltin(loc=loc, name=meaning.name, args=args)
            case "pow":
                base, exponent = self.arguments(node, "pow", 2, 2)
                return IRBinOp(loc=loc, op="**", left=base, right=exponent)
            case "int":
                return self.cast(node, i32)
            case "float":
                return self.cast(node, f32)
            case "bool":
                (operand,) = self.arguments(node, "bool", 1, 1)
                return IRNot(loc=loc, operand=IRNot(loc=loc, operand=operand))
            case "vector":
                args = self.arguments(node, meaning.name, *VECTOR_OPS[meaning.name])
                return IRVectorOp(loc=loc, name=meaning.name, args=args)
            case "len":
                return self.length(node)
            case "atomic":
                return self.atomic(meaning.name, node)
            case "thread_id":
                self.check_arguments(node, "tack.thread_id", 0, 0)
                self.note_workgroup("tack.thread_id", node)
                return IRThreadId(loc=loc)
            case "block":
                (value,) = self.arguments(node, f"tack.block_{meaning.name}", 1, 1)
                self.note_workgroup(f"tack.block_{meaning.name}", node)
                return IRBlockReduce(loc=loc, op=meaning.name, value=value)
        message, hint = _STATEMENT_FORMS[meaning.form]
        self.unsupported(message, node, hint)

    def arguments(self, node: ast.Call, name: str, least: int, most: int | None) -> list[IRExpr]:
        """The arguments of a builtin, in order (rule MATH-6)."""
        self.check_arguments(node, name, least, most)
        return [self.scalar(argument) for argument in node.args]

    def scalar(self, node: ast.expr) -> IRExpr:
        """An argument that must be one value."""
        if isinstance(node, ast.Tuple):
            self.unsupported("a tuple as an argument is not supported", node, "pass its items one by one")
        return self.expr(node)

    def check_arguments(self, node: ast.Call, name: str, least: int, most: int | None, hint: str | None = None) -> None:
        if node.keywords:
            self.fail(TypeError, f"`{name}` takes no keyword arguments", node.keywords[0].value, "pass it by position")
        count = len(node.args)
        if count < least or (most is not None and count > most):
            wanted = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
            plural = "" if wanted == "1" else "s"
            self.fail(TypeError, f"`{name}` takes {wanted} argument{plural}, not {count}", node, hint)

    def cast(self, node: ast.Call, target: DType) -> IRExpr:
        (operand,) = self.arguments(node, ast.unparse(node.func), 1, 1)
        return IRCast(loc=self.loc(node), target=target, operand=operand)

    def length(self, node: ast.Call) -> IRExpr:
        self.check_arguments(node, "len", 1, 1)
        symbol = self.array_symbol(node.args[0])
        if symbol is None:
            self.fail(TypeError, "`len` takes an array", node, "use it on an array argument")
        return self.array_attribute(symbol, "shape", node)

    def atomic(self, op: str, node: ast.Call) -> IRExpr:
        operands_to_write = "expected, desired" if op == "cas" else "value"
        count = 4 if op == "cas" else 3
        hint = f"write `tack.atomic_{op}(array, index, {operands_to_write})`"
        self.check_arguments(node, f"tack.atomic_{op}", count, count, hint)
        array, index, *operands = node.args
        symbol = self.array_symbol(array)
        if symbol is None:
            self.fail(
                TypeError,
                f"`tack.atomic_{op}` takes an array first",
                array,
                "write the array and its index as two arguments: `(a, i, ...)`",
            )
        indices = self.indices(index)
        args = [self.scalar(operand) for operand in operands]
        self.note_store(symbol, node, f"`tack.atomic_{op}`")
        return IRAtomic(loc=self.loc(node), op=op, array=symbol, index=indices, args=args)

    # ------------------------------------------------------------------------------------------- device functions

    def device_function(self, captured: Captured, meaning: Meaning | None) -> Func:
        if isinstance(captured.value, Func):
            return captured.value
        assert meaning is not None
        from tack.lang import math_functions  # few kernels call them

        function = getattr(math_functions, meaning.name)
        assert isinstance(function, Func)
        return function

    def called_function(self, node: ast.expr) -> Func | None:
        """The device function that an expression calls, if it is such a call."""
        if not isinstance(node, ast.Call) or self.made_type(node.func) is not None:
            return None
        captured = self.callee(node)
        meaning = lookup(captured.value)
        if isinstance(captured.value, Func) or (meaning is not None and meaning.form == "library"):
            return self.device_function(captured, meaning)
        return None

    def value_of_function(self, node: ast.Call, function: Func) -> IRCall:
        """A call where one value is needed."""
        call, count = self.function_call(node, function)
        if count != 1:
            name = function.source.name
            names = ", ".join("abcdefgh"[:count]) if count <= 8 else "a, b, ..."
            hint = f"unpack them: `{names} = {name}(...)`" if count else "call it as a statement"
            if 2 <= count <= 4:
                hint += f"; `[{names}]` is a vector of them"
            given = f"{count} values" if count else "no value"
            self.fail(TypeError, f"`{name}` returns {given}; one is needed here", node, hint)
        return call

    def function_call(self, node: ast.Call, function: Func) -> tuple[IRCall, int]:
        """A call of a device function, and how many values it returns."""
        given, objects = self.given_arguments(node, function.source)
        callee: Func | InstanceFunc = function
        with self.calling(function.source, node):
            if objects:
                callee = function.for_instances({position: ref.obj for position, ref in objects.items()})
            lowered = callee.lowered()
        self.adopt_captures(lowered.captures)
        assert isinstance(lowered.ir, IRFunction)
        args = self.bound_arguments(node, function, lowered, given) + self.field_arguments(lowered, objects, node)
        for param, arg in zip(lowered.ir.params, args, strict=True):
            if isinstance(arg, IRArrayRef):
                if param.written:
                    self.note_store(arg.name, node, f"a call of `{function.source.name}`, which stores to an array,")
                if param.read:
                    self.note_load(arg.name, node)
        if lowered.prints:
            self.note_print(node)
        if lowered.workgroup is not None:
            self.note_workgroup(lowered.workgroup, node, function.source.name)
        return IRCall(loc=self.loc(node), callee=callee, args=args), lowered.result_count

    def given_arguments(
        self, node: ast.Call, callee: FunctionSource
    ) -> tuple[dict[str, ast.expr], dict[int, InstanceRef]]:
        """The arguments by parameter, apart from instances; those by position, the one before the dot included."""
        arguments = callee.tree.args
        positions = {a.arg: i for i, a in enumerate((*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))}
        receiver = self.receiver(node)
        given = self.match_arguments(node, callee, 0 if receiver is None else 1)
        objects = {} if receiver is None else {0: receiver}
        for name, value in list(given.items()):
            ref = self.instance(value)
            if ref is not None:
                objects[positions[name]] = ref
                del given[name]
        return given, objects

    def field_arguments(self, lowered: Lowered, objects: dict[int, InstanceRef], node: ast.Call) -> list[IRExpr]:
        """The fields of instances that a callee uses, which so become fields that this function uses."""
        structure = lowered.structure
        if structure is None:
            return []
        refs = self.adopt_nodes(structure, objects)
        args: list[IRExpr] = []
        for param, (at, name) in zip(structure.params_of(lowered.ir), structure.fields, strict=True):
            symbol = self.field_symbol(refs[at], name)
            if param.name in lowered.array_params:
                self.array_params.add(symbol)
                args.append(IRArrayRef(loc=self.loc(node), name=symbol))
            else:
                args.append(IRVar(loc=self.loc(node), name=symbol))
        return args

    def bound_arguments(
        self, node: ast.Call, function: Func, lowered: Lowered, given: dict[str, ast.expr]
    ) -> list[IRExpr]:
        """The arguments in the order of the parameters (rules FUNC-1, EVAL-1)."""
        fields = 0 if lowered.structure is None else len(lowered.structure.fields)
        names = [p.name for p in lowered.ir.params[: len(lowered.ir.params) - fields]]
        made: dict[str, IRExpr] = {}
        for name, value in given.items():  # in the order in which they are written
            vector = self.vector_argument(value, name, lowered) if name in lowered.array_params else None
            made[name] = vector or self.argument(value, name in lowered.array_params, name, function)
        if [n for n in names if n in given] != list(given):
            self.check_order(node, list(made.values()))
        for name, default in _defaults(function.source).items():
            if name not in made:
                made[name] = self.default(default, name, node, function)
        for name in names:
            if name not in made:
                hint = f"call it as {function.source.name}({', '.join(names)})"
                self.fail(TypeError, f"`{function.source.name}` needs an argument for `{name}`", node, hint)
        return [made[name] for name in names]

    def match_arguments(self, node: ast.Call, callee: FunctionSource, bound: int) -> dict[str, ast.expr]:
        """The arguments written in a call, by parameter; the first `bound` parameters are given otherwise."""
        arguments = callee.tree.args
        positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
        keywords = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)} - set(positional[:bound])
        positional = positional[bound:]
        if len(node.args) > len(positional):
            message = f"`{callee.name}` takes {len(positional)} positional arguments, not {len(node.args)}"
            self.fail(TypeError, message, node.args[len(positional)])
        given = dict(zip(positional, node.args, strict=False))
        for keyword in node.keywords:
            name = keyword.arg
            assert name is not None
            if name not in keywords:
                self.fail(TypeError, f"`{callee.name}` has no parameter `{name}` to pass by keyword", keyword.value)
            if name in given:
                self.fail(TypeError, f"`{callee.name}` gets two arguments for `{name}`", keyword.value)
            given[name] = keyword.value
        return given

    def argument(self, node: ast.expr, is_array: bool, param: str, function: Func) -> IRExpr:
        if isinstance(node, ast.Tuple) or not (is_array or self.names_array(node)):
            return self.scalar(node)
        # What has an index may be an array or a vector: typing says which.
        symbol = None if self.plain_local(node) is not None else self.array_symbol(node)
        if isinstance(node, ast.Constant):
            message = f"parameter `{param}` of `{function.source.name}` is an array, and this is a number"
            self.fail(TypeError, message, node, "pass an array by its name")
        if symbol is None:
            return self.scalar(node)
        return IRArrayRef(loc=self.loc(node), name=symbol)

    def vector_argument(self, node: ast.expr, param: str, lowered: Lowered) -> IRExpr | None:
        """A captured tuple as a vector (rule VEC-4), unless the function needs it as a table: for its extents."""
        captured = self.captured(node)
        if captured is None or any(
            (isinstance(n, IRArrayAttr) and n.array == param) or (isinstance(n, IRArrayRef) and n.name == param)
            for n in walk(list(lowered.ir.body))
        ):
            return None
        return self.captured_vector(captured, node)

    def names_array(self, node: ast.expr) -> bool:
        """Whether a name is already known to be an array."""
        field = self.field(node)
        if field is not None:
            return field in self.array_params
        symbol = self.bindings.get(node.id) if isinstance(node, ast.Name) and node.id in self.local_names else None
        return symbol is not None and (symbol in self.array_params or self.symbols[symbol].kind == "local_array")

    def default(self, value: object, param: str, node: ast.Call, function: Func) -> IRExpr:
        number = self.captured_number(value, node)
        if number is None:
            message = (
                f"the default of parameter `{param}` of `{function.source.name}` is {value!r}, which is not a number"
            )
            self.fail(TypeError, message, node, "pass the argument")
        return number

    def check_order(self, node: ast.Call, args: list[IRExpr]) -> None:
        """Arguments written out of order are evaluated as written: refused where one could see another's effect."""
        effects = sum(any(isinstance(n, (IRCall, IRAtomic)) for n in walk(a)) for a in args)
        reads = sum(any(isinstance(n, (IRCall, IRAtomic, IRLoad)) for n in walk(a)) for a in args)
        if effects and reads > 1:
            self.unsupported(
                "keyword arguments out of order, one of which may have an effect, are not supported",
                node,
                "pass them in the order of the parameters, or assign them to locals first",
            )


def _package(value: object) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


def _defaults(source: FunctionSource) -> dict[str, object]:
    arguments = source.tree.args
    positional = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    values = source.fn.__defaults__ or ()
    found: dict[str, object] = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    return found | (source.fn.__kwdefaults__ or {})
