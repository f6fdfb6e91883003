"""Statements: syntax tree to untyped IR.

Evaluation order (rules EVAL-*) is made explicit here, with temporaries where needed.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from tack.lang.ast_calls import CallLowering
from tack.lang.ast_expressions import literal, repeatable
from tack.lang.ast_vectors import Place
from tack.lang.bounds import constant_value
from tack.lang.ir import (
    IRAssert,
    IRAssign,
    IRAtomic,
    IRBarrier,
    IRBreak,
    IRContinue,
    IRExpr,
    IRExprStmt,
    IRIf,
    IRLoad,
    IRLocalArray,
    IRPrint,
    IRStmt,
    IRStore,
    IRUnpack,
    IRVar,
    IRWhile,
)
from tack.lang.ir_vector import IRComponent, IRComponentAssign, IRComponentStore
from tack.lang.names import MISSING
from tack.lang.types import BY_NAME, DType

SERIAL, PARALLEL = "serial", "parallel"

_Value = Callable[[], IRExpr]  # makes a fresh tree each time: IR nodes are never shared


class StatementLowering(CallLowering):
    """Lowers statements; loops and `return` are left to the classes below."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.loops: list[str] = []
        self.direct: set[int] = set()  # statements directly in the body of a kernel or of a parallel loop, by identity
        self.pins: dict[str, DType] = {}
        self.assigned_params: dict[str, ast.AST] = {}

    @abstractmethod
    def for_loop(self, node: ast.For) -> list[IRStmt]:
        """A `for` inside other statements."""

    @abstractmethod
    def return_statement(self, node: ast.Return) -> list[IRStmt]:
        """A `return` inside other statements."""

    def block(self, body: list[ast.stmt]) -> list[IRStmt]:
        return [lowered for statement in body for lowered in self.statement(statement)]

    def statement(self, node: ast.stmt) -> list[IRStmt]:
        match node:
            case ast.Assign():
                return self.assign(node)
            case ast.AnnAssign():
                return self.annotated(node)
            case ast.AugAssign():
                return self.augmented(node)
            case ast.If():
                cond = self.expr(node.test)
                return [
                    IRIf(loc=self.loc(node.test), cond=cond, then=self.block(node.body), other=self.block(node.orelse))
                ]
            case ast.While():
                return self.while_loop(node)
            case ast.For():
                return self.for_loop(node)
            case ast.Break():
                return self.break_statement(node)
            case ast.Continue():
                return [IRContinue(loc=self.loc(node))]
            case ast.Return():
                return self.return_statement(node)
            case ast.Assert():
                message = node.msg.value if isinstance(node.msg, ast.Constant) else None
                assert message is None or isinstance(message, str)
                return [IRAssert(loc=self.loc(node), cond=self.expr(node.test), message=message)]
            case ast.Expr():
                return self.expression_statement(node)
        return []  # pass, docstring

    def while_loop(self, node: ast.While) -> list[IRStmt]:
        cond = self.expr(node.test)
        self.loops.append(SERIAL)
        body = self.block(node.body)
        self.loops.pop()
        return [IRWhile(loc=self.loc(node.test), cond=cond, body=body)]

    def break_statement(self, node: ast.Break) -> list[IRStmt]:
        if self.loops[-1] == PARALLEL:
            self.unsupported(
                "`break` out of a parallel loop is not supported",
                node,
                "use `continue` to end this iteration; iterations have no order",
            )
        return [IRBreak(loc=self.loc(node))]

    # ------------------------------------------------------------------------------------------------ assignments

    def assign(self, node: ast.Assign) -> list[IRStmt]:
        first = node.targets[0]
        if len(node.targets) == 1 and not isinstance(first, ast.Tuple):
            if isinstance(node.value, ast.Tuple):
                self.unsupported(
                    "a tuple as a value is not supported",
                    node.value,
                    "a vector is a list, `[a, b, c]`; to unpack, write `a, b = ...`",
                )
            if isinstance(node.value, ast.Call) and (meaning := self.meaning(node.value)):
                if meaning.form == "shared":
                    self.check_shared(node)
                if meaning.form in ("local", "shared"):
                    return [self.local_array(first, node.value, meaning.form)]
            return [self.store(first, self.expr(node.value), node)]
        statements: list[IRStmt] = []
        if not any(isinstance(target, ast.Tuple) for target in node.targets):
            value = self.kept(node.value, self.expr(node.value), statements)
            return statements + [self.store(target, value(), node) for target in node.targets]
        values = self.right_side(node, statements)
        for target in node.targets:
            items = target.elts if isinstance(target, ast.Tuple) else []
            if len(items) != len(values):
                self.fail(
                    TypeError,
                    f"{len(values)} values cannot be unpacked into this target",
                    target,
                    "write one target for each value",
                )
            statements += [self.store(item, v(), node) for item, v in zip(items, values, strict=True)]
        return statements

    def kept(self, node: ast.expr, value: IRExpr, statements: list[IRStmt]) -> _Value:
        """A value to be used after other assignments: in a temporary, unless it holds only numbers."""
        if literal(value):
            return lambda: self.expr(node)
        name = self.temporary(node)
        statements.append(IRAssign(loc=self.loc(node), name=name, value=value))
        return lambda: IRVar(loc=self.loc(node), name=name)

    def right_side(self, node: ast.Assign, statements: list[IRStmt]) -> list[_Value]:
        """The values of a tuple assignment, all of them evaluated before any target (rule EVAL-4)."""
        value = node.value
        if isinstance(value, ast.Tuple):
            return [self.kept(item, self.expr(item), statements) for item in value.elts]
        function = self.called_function(value)
        if function is not None:
            assert isinstance(value, ast.Call)
            call, count = self.function_call(value, function)
            names = [self.temporary(value) for _ in range(count)]
            if count < 2:
                given = "one value" if count else "no value"
                self.fail(TypeError, f"`{function.source.name}` returns {given}, which cannot be unpacked", value)
            statements.append(IRUnpack(loc=self.loc(node), names=names, call=call))
            return [lambda name=name: IRVar(loc=self.loc(value), name=name) for name in names]  # type: ignore[misc]
        captured = self.captured(value)
        if captured is not None and isinstance(captured.value, tuple):
            shape, numbers = self.table_contents(captured, value)
            if len(shape) == 1:
                return [lambda n=n: self.number(n, value) for n in numbers]  # type: ignore[misc]
        self.unsupported(
            "this value cannot be unpacked",
            value,
            "write as many values as targets (of a vector `v.x, v.y`), or call a device function that returns a tuple",
        )

    def store(self, target: ast.expr, value: IRExpr, node: ast.AST, pinned: DType | None = None) -> IRStmt:
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            self.refuse_attribute_store(target)
            place = self.place(target)
            index = [] if place.index is None else self.indices(place.index)
            component = [] if place.component is None else self.indices(place.component)
            return self.store_at(place, index, component, value, target)
        assert isinstance(target, ast.Name)
        symbol = self.assigned_symbol(target)
        return IRAssign(loc=self.loc(node), name=symbol, value=value, pinned=pinned)

    def store_at(
        self, place: Place, index: list[IRExpr], component: list[IRExpr], value: IRExpr, target: ast.expr
    ) -> IRStmt:
        symbol, loc = place.symbol, self.loc(target)
        if place.index is None:
            return IRComponentAssign(loc=loc, name=symbol, index=component, value=value)
        self.note_store(symbol, target, "a store")
        if place.component is None:
            return IRStore(loc=loc, array=symbol, index=index, value=value)
        return IRComponentStore(loc=loc, array=symbol, index=index, component=component, value=value)

    def assigned_symbol(self, target: ast.Name) -> str:
        self.refuse_instance(target)
        symbol = self.symbol_of(target.id, target)
        kind = self.symbols[symbol].kind
        if kind == "local_array":
            self.fail(
                TypeError,
                f"`{target.id}` is a local array, and cannot be assigned",
                target,
                f"assign its elements: `{target.id}[...] = ...`",
            )
        if kind == "param":
            self.assigned_params.setdefault(symbol, target)
        return symbol

    def augmented(self, node: ast.AugAssign) -> list[IRStmt]:
        target = node.target
        if isinstance(target, ast.Name):
            old: IRExpr = IRVar(loc=self.loc(target), name=self.assigned_symbol(target))
            return [self.store(target, self.binary(node, node.op, old, self.expr(node.value)), node)]
        self.refuse_attribute_store(target)
        place, loc = self.place(target), self.loc(target)
        statements: list[IRStmt] = []
        index, index_again = self.index_twice(place.index, statements)
        component, component_again = self.index_twice(place.component, statements)
        if place.index is None:
            old = IRVar(loc=loc, name=place.symbol)
        else:
            old = IRLoad(loc=loc, array=place.symbol, index=index)
            self.note_load(place.symbol, target)
        if component:
            old = IRComponent(loc=loc, base=old, index=component)
        value = self.binary(node, node.op, old, self.expr(node.value))
        statements.append(self.store_at(place, index_again, component_again, value, target))
        return statements

    def index_twice(self, node: ast.expr | None, statements: list[IRStmt]) -> tuple[list[IRExpr], list[IRExpr]]:
        """An index for the load and the store of an augmented assignment, evaluated once (rule EVAL-3)."""
        if node is None:
            return [], []
        first, second = self.indices(node), []
        nodes = node.elts if isinstance(node, ast.Tuple) else [node]
        if all(map(repeatable, first)):
            return first, self.indices(node)
        for i, part in enumerate(nodes):
            value = self.kept(part, first[i], statements)
            first[i] = value()
            second.append(value())
        return first, second

    # ----------------------------------------------------------------------------------------------- declarations

    def annotated(self, node: ast.AnnAssign) -> list[IRStmt]:
        assert isinstance(node.target, ast.Name) and node.value is not None
        value = self.expr(node.value)
        pinned = self.annotation_dtype(node.annotation)
        if pinned is not None:
            self.pin(node.target, pinned, node.annotation)
        return [self.store(node.target, value, node, pinned)]

    def pin(self, target: ast.Name, pinned: DType, node: ast.expr) -> None:
        symbol = self.symbol_of(target.id, target)
        kind = self.symbols[symbol].kind
        if kind != "local":
            what = {"param": "a parameter", "loop": "a loop variable"}.get(kind, "a local array")
            self.fail(
                TypeError,
                f"`{target.id}` is {what}, which has its own type",
                node,
                "annotate parameters in the signature; use another name for a local",
            )
        known = self.pins.setdefault(symbol, pinned)
        if known is not pinned:
            self.fail(
                TypeError,
                f"`{target.id}` is annotated {pinned.name} here and {known.name} before",
                node,
                "a local has one type",
            )

    def annotation_dtype(self, node: ast.expr | None) -> DType | None:
        """The Tack dtype that an annotation names; None for any other annotation, which is documentation."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.copy_location(ast.parse(node.value, mode="eval").body, node)
            except SyntaxError:
                return None
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("vec", "mat")):
            return self.made_type(node)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return None
        value = self._annotation_value(node)
        last = node.id if isinstance(node, ast.Name) else node.attr
        if value is MISSING and last in BY_NAME:
            self.fail(
                NameError,
                f"the annotation `{ast.unparse(node)}` cannot be found",
                node,
                "import tack at the top of the module",
            )
        return value if isinstance(value, DType) else None

    def _annotation_value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self.scope.resolve(node.id)
        if not isinstance(node, ast.Attribute):
            return None
        base = self._annotation_value(node.value)
        return MISSING if base is MISSING else self.scope.attribute(base, node.attr)

    def check_shared(self, node: ast.Assign) -> None:
        """Where `tack.shared` may stand (rule GRP-2)."""
        if not self.outside and not self.loops:
            self.unsupported(
                "`tack.shared` in a device function is not supported",
                node.value,
                "declare it in the kernel and pass it: arrays pass by reference",
            )
        if id(node) not in self.direct:
            self.unsupported(
                "`tack.shared` under an `if` or in an inner loop is not supported",
                node.value,
                "declare it before the parallel loop, or at the top of its body",
            )
        if not self.outside:
            self.note_workgroup("tack.shared", node.value)

    def local_array(self, target: ast.expr, node: ast.Call, form: str) -> IRStmt:
        """`name = tack.local(shape, dtype)` or `tack.shared(...)` (rules MEM-6 and GRP-2)."""
        if not isinstance(target, ast.Name):
            self.unsupported(
                f"a {form} array that is not assigned to a name is not supported",
                target,
                f"write `name = tack.{form}(shape, dtype)`",
            )
        if self.outside and form == "local":
            self.unsupported(
                "`tack.local` outside the parallel loops is not supported",
                node,
                "declare it in the body of the loop: each iteration has its own",
            )
        given = dict(zip(("shape", "dtype"), node.args, strict=False))
        given.update((k.arg or "", k.value) for k in node.keywords)
        if len(node.args) + len(node.keywords) != 2 or given.keys() != {"shape", "dtype"}:
            self.fail(
                TypeError,
                f"`tack.{form}` takes a shape and a dtype",
                node,
                f"write `tack.{form}(16, tack.f32)` or `tack.{form}((4, 4), tack.f32)`",
            )
        element = self.element_type(given["dtype"])
        if element is None:
            self.fail(
                TypeError,
                f"the second argument of `tack.{form}` is not a Tack dtype",
                given["dtype"],
                "write for instance `tack.f32`",
            )
        bound = self.bindings.get(target.id)
        if bound is not None:
            kind = "a local array already" if self.symbols[bound].kind == "local_array" else "already a number"
            self.unsupported(f"`{target.id}` is {kind} here", target, "use another name")
        symbol = self.bindings[target.id] = self.new_symbol(target.id, "local_array", target)
        shape = self.constant_shape(given["shape"], form)
        space = "private" if form == "local" else "shared"
        return IRLocalArray(loc=self.loc(node), name=symbol, shape=shape, element=element, space=space)

    def constant_shape(self, node: ast.expr, form: str) -> tuple[int, ...]:
        extents: list[int] = []
        captured = self.captured(node)
        if captured is not None and isinstance(captured.value, tuple):
            return self.captured_shape(captured.spelling, captured.value, node, form)
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            extent = constant_value(self.expr(item))
            if extent is None:
                self.unsupported(
                    f"the shape of a {form} array must be constant",
                    item,
                    "use literals and captured integers; array shapes change from call to call",
                )
            extents.append(extent)
        return self.positive_shape(extents, node, form)

    def captured_shape(self, spelling: str, value: tuple[Any, ...], node: ast.expr, form: str) -> tuple[int, ...]:
        if not all(isinstance(extent, int) for extent in value):
            self.fail(TypeError, f"`{spelling}` is not a tuple of integers", node)
        return self.positive_shape([int(extent) for extent in value], node, form)

    def positive_shape(self, extents: list[int], node: ast.expr, form: str) -> tuple[int, ...]:
        if not extents or any(extent <= 0 for extent in extents):
            self.fail(ValueError, f"the extents of a {form} array must be positive", node)
        return tuple(extents)

    # ------------------------------------------------------------------------------------------ calls for an effect

    def expression_statement(self, node: ast.Expr) -> list[IRStmt]:
        value = node.value
        if not isinstance(value, ast.Call):
            return []  # the docstring
        function = self.called_function(value)
        if function is not None:
            call, _ = self.function_call(value, function)
            return [IRExprStmt(loc=self.loc(node), value=call)]
        meaning = self.meaning(value)
        if meaning is not None and meaning.form == "print":
            return [self.print_statement(value)]
        if meaning is not None and meaning.form == "barrier":
            self.check_arguments(value, "tack.barrier", 0, 0)
            self.note_workgroup("tack.barrier", value)
            return [IRBarrier(loc=self.loc(value))]
        lowered = self.expr(value)
        if not isinstance(lowered, IRAtomic):
            self.unsupported("a value that is not used is not supported", node, "assign it, or leave it out")
        return [IRExprStmt(loc=self.loc(node), value=lowered)]

    def print_statement(self, node: ast.Call) -> IRStmt:
        """`print(...)` (rule SYN-4): text and values in order, with the separators in place."""
        self.note_print(node)
        words = {"sep": " ", "end": "\n"}
        for keyword in node.keywords:
            value = keyword.value
            if keyword.arg not in words or not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                self.unsupported(
                    f"this `{keyword.arg}` of `print` is not supported",
                    value,
                    "`sep` and `end` take string literals; there is nothing else",
                )
            words[keyword.arg] = value.value
        parts: list[str | IRExpr] = []
        for i, argument in enumerate(node.args):
            parts += [words["sep"]] if i else []
            parts += self.printed(argument)
        return IRPrint(loc=self.loc(node), parts=_merged([*parts, words["end"]]))

    def printed(self, node: ast.expr) -> list[str | IRExpr]:
        if isinstance(node, ast.JoinedStr):
            return [part for value in node.values for part in self.printed(value)]
        if isinstance(node, ast.FormattedValue):
            return [self.expr(node.value)]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        return [self.scalar(node)]


def _merged(parts: list[str | IRExpr]) -> list[str | IRExpr]:
    """Neighbouring texts made one; empty ones dropped."""
    merged: list[str | IRExpr] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    return merged
