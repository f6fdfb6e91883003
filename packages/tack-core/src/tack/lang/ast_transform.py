"""Lowering of whole kernels and device functions: syntax tree to untyped IR, names and captures resolved."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tack.lang.ast_loops import LoopLowering
from tack.lang.bounds import host_definition
from tack.lang.flow import Flow, assigned_names
from tack.lang.intrinsics import lookup
from tack.lang.ir import (
    IRArrayRef,
    IRAssign,
    IRCall,
    IRExpr,
    IRExprStmt,
    IRFunction,
    IRIf,
    IRKernel,
    IRParallelFor,
    IRParam,
    IRReturn,
    IRStmt,
    IRUnpack,
    IRVar,
    IRWhile,
    walk,
)
from tack.lang.kernel import DEFAULT_GROUP
from tack.lang.lowering_context import Lowered, call_chain, entered
from tack.lang.source import FunctionSource
from tack.lang.source_validation import validate
from tack.lang.types import DType, VecType

_SAMPLING = "tack.lang.texture", "Texture3D.sample"

__all__ = ["Lowered", "lower_function", "lower_kernel"]

NO_INSTANCES: Mapping[int, Any] = MappingProxyType({})


def lower_kernel(
    source: FunctionSource, group: int = DEFAULT_GROUP, objects: Mapping[int, Any] = NO_INSTANCES
) -> Lowered:
    """The untyped IR of a validated kernel, for the values that captured names hold now; `group` lanes a workgroup.

    `objects` holds examples of the arguments that are instances of data-oriented classes, by position.

    Raises
    ------
    UnsupportedSyntaxError, NameError, TypeError, ValueError, IndexError
        The user's mistakes, each with its position.
    """
    with entered(source):
        return _KernelLowering(source, group, objects).lower()


def lower_function(source: FunctionSource, objects: Mapping[int, Any] = NO_INSTANCES) -> Lowered:
    """The untyped template of a device function, validated first; raises as `lower_kernel` does."""
    with entered(source):
        validate(source, call_chain())
        return _FunctionLowering(source, objects).lower()


class _FunctionLowering(LoopLowering):
    """Lowers a device function; what a kernel shares with it is here too."""

    def __init__(self, source: FunctionSource, objects: Mapping[int, Any]) -> None:
        arguments = source.tree.args
        self.arguments_of_def = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        names = [a.arg for a in self.arguments_of_def]
        super().__init__(source, set(names) | assigned_names(source.tree.body), objects)
        self.flow = Flow(names, self.fail)
        self.annotations: dict[str, DType] = {}
        self.returns: list[tuple[int, ast.Return]] = []

    def lower(self) -> Lowered:
        tree = self.source.tree
        self.declare_params()
        comes_through = self.flow.check(tree.body, is_kernel=False)
        body = self.block(tree.body)
        counts = {count for count, _ in self.returns}
        if counts - {0} and comes_through:
            self.fail(
                TypeError,
                "some paths end without a `return`, while others return a value",
                tree,
                "end every path in a `return`",
            )
        self.finish(body)
        ir = IRFunction(
            name=self.source.name,
            loc=self.loc(tree),
            params=self.ir_params(),
            body=body,
            symbols=self.symbols,
            tables=self.tables,
            samples=(self.source.fn.__module__, self.source.fn.__qualname__) == _SAMPLING,
        )
        return self.lowered(ir, counts.pop() if counts else 0)

    def lowered(self, ir: IRFunction, result_count: int) -> Lowered:
        arrays, effects, structure = frozenset(self.array_params), self.effects, self.structure()
        return Lowered(
            ir, self.captures(), arrays, result_count, effects.prints, effects.workgroup, structure=structure
        )

    # ------------------------------------------------------------------------------------------------- parameters

    def declare_params(self) -> None:
        evaluated = self.evaluated_annotations()
        for position, argument in enumerate(self.arguments_of_def):
            name = argument.arg
            if position in self.objects:
                self.declare_instance(argument, position)
                continue
            self.params.append(name)
            self.bindings[name] = self.new_symbol(name, "param", argument)
            value = evaluated.get(name)
            pinned = value if isinstance(value, DType) else None
            if argument.annotation is not None and (value is None or isinstance(value, str)):
                pinned = self.annotation_dtype(argument.annotation)
            if pinned is not None:
                self.annotations[name] = pinned

    def evaluated_annotations(self) -> dict[str, object]:
        """What Python made of the annotations; Python 3.14 evaluates them only now, and one may fail."""
        try:
            return dict(self.source.fn.__annotations__)
        except Exception:
            return {}

    def finish(self, body: list[IRStmt]) -> None:
        """What is known only once the whole body has been seen: which parameters are arrays."""
        for name in self.params:
            if name in self.array_params:
                self.check_array_param(name)
        for node in walk(list(body)):
            if isinstance(node, IRCall):
                node.args = [
                    IRArrayRef(loc=a.loc, name=a.name) if isinstance(a, IRVar) and a.name in self.array_params else a
                    for a in node.args
                ]
        for name in self.array_params:
            self.symbols[name].kind = "array"
        for name in self.instances:
            del self.symbols[name]

    def check_array_param(self, name: str) -> None:
        pinned = self.annotations.get(name)
        if pinned is not None and not isinstance(pinned, VecType):
            message = f"`{name}` is annotated {pinned.name}, a number, and used as an array"
            self.fail(
                TypeError,
                message,
                self.symbols[name].loc,
                "leave the annotation out; an array argument brings its dtype",
            )

    def ir_params(self) -> list[IRParam]:
        early = {name for name, _ in self.loads_outside}
        return [
            IRParam(
                name=name,
                loc=self.symbols[name].loc,
                annotation=self.annotations.get(name),
                written=name in self.effects.written,
                read=name in self.effects.read,
                early=name in early,
            )
            for name in self.params
        ]

    # ---------------------------------------------------------------------------------------------------- results

    def return_statement(self, node: ast.Return) -> list[IRStmt]:
        statements: list[IRStmt] = []
        values = self.returned_values(node, statements)
        count = len(values)
        if self.returns and self.returns[0][0] != count:
            message = f"this `return` gives {_count(count)}, and an earlier one {_count(self.returns[0][0])}"
            self.fail(TypeError, message, node, "return as many values on every path")
        self.returns.append((count, node))
        return [*statements, IRReturn(loc=self.loc(node), values=values)]

    def returned_values(self, node: ast.Return, statements: list[IRStmt]) -> list[IRExpr]:
        """The values of a `return`. Those of a call are passed on, however many the function returns."""
        function = None if node.value is None else self.called_function(node.value)
        if function is None:
            return [self.expr(value) for value in _returned(node)]
        assert isinstance(node.value, ast.Call)
        call, count = self.function_call(node.value, function)
        if count == 1:
            return [call]
        names = [self.temporary(node.value) for _ in range(count)]
        loc = self.loc(node)
        statements.append(IRUnpack(loc=loc, names=names, call=call) if names else IRExprStmt(loc=loc, value=call))
        return [IRVar(loc=loc, name=name) for name in names]


class _KernelLowering(_FunctionLowering):
    """Lowers a kernel: straight-line statements on locals, parallel loops, and a last `return`."""

    def __init__(self, source: FunctionSource, group: int, objects: Mapping[int, Any]) -> None:
        super().__init__(source, objects)
        self.group = group

    def lower(self) -> Lowered:
        tree = self.source.tree
        self.declare_params()
        self.check_annotations()
        self.flow.shared.update(self.shared_before_loops(tree.body))
        self.flow.check(tree.body, is_kernel=True)
        self.outside = True
        self.direct.update(map(id, tree.body))
        body: list[IRStmt] = []
        for statement in tree.body:
            body += self.top_level(statement, is_last=statement is tree.body[-1])
        if not any(isinstance(statement, IRParallelFor) for statement in body):
            self.unsupported(
                "a kernel without a parallel loop is not supported",
                tree,
                "write a `for i in range(...)` directly in its body; for one step only, loop over `range(1)`",
            )
        self.check_loads_outside()
        self.finish(body)
        ir = IRKernel(
            name=self.source.name,
            loc=self.loc(tree),
            params=self.ir_params(),
            body=body,
            symbols=self.symbols,
            tables=self.tables,
            group=self.group,
        )
        return self.lowered(ir, len(self.returns))

    def shared_before_loops(self, body: list[ast.stmt]) -> Iterator[str]:
        """The names of shared arrays that are declared outside the loops."""
        for node in body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                captured = self.captured(node.value.func)
                meaning = None if captured is None else lookup(captured.value)
                if meaning is not None and meaning.form == "shared":
                    yield from (t.id for t in node.targets if isinstance(t, ast.Name))

    def top_level(self, node: ast.stmt, *, is_last: bool) -> list[IRStmt]:
        if isinstance(node, ast.For):
            return [self.parallel_loop(node)]
        if isinstance(node, ast.Return) and is_last:
            return self.last_return(node)
        statements = self.statement(node)
        for statement in statements:
            self.define_for_host(statement)
        return statements

    def define_for_host(self, statement: IRStmt) -> None:
        """Remember what a statement outside the loops makes of locals, for the bounds after it."""
        known = self.host_definitions
        if isinstance(statement, IRAssign):
            pinned = statement.pinned or self.annotations.get(statement.name)
            source_name = self.symbols[statement.name].source_name
            known[statement.name] = host_definition(source_name, statement.value, pinned, known)
        elif isinstance(statement, IRUnpack):
            known.update(
                (name, "results of a device function are known only on the device") for name in statement.names
            )
        elif isinstance(statement, (IRIf, IRWhile)):
            for node in walk(statement):
                if isinstance(node, IRAssign):
                    name = self.symbols[node.name].source_name
                    known[node.name] = f"`{name}` is assigned under an `if` or `while`"

    def check_annotations(self) -> None:
        for name, pinned in self.annotations.items():
            if isinstance(pinned, VecType):
                message = f"parameter `{name}` of a kernel is annotated {pinned!r}; kernels take numbers and arrays"
                hint = "pass the components, or an array of vectors, as `tack.asarray([v], tack.vec3)` makes one"
                self.fail(TypeError, message, self.symbols[name].loc, hint)

    def check_array_param(self, name: str) -> None:
        """Here an array for certain: in a device function it may be a vector."""
        if name in self.assigned_params:
            self.fail(
                TypeError,
                f"`{name}` is an array here, and cannot be assigned",
                self.assigned_params[name],
                "use another name",
            )
        super().check_array_param(name)

    def return_statement(self, node: ast.Return) -> list[IRStmt]:
        where = "inside a parallel loop" if self.loops else "that is not the last statement"
        hint = "use `continue` to end this iteration" if self.loops else "put one `return` at the end of the kernel"
        self.unsupported(f"a `return` {where} is not supported in a kernel", node, hint)

    def last_return(self, node: ast.Return) -> list[IRStmt]:
        """The result, computed once after the last loop (rule CALL-2); its loads see what the loops stored."""
        values = _returned(node)
        if len(values) > 1:
            self.unsupported(
                "several results of a kernel are not supported",
                node,
                "return one number, and store the others in an array",
            )
        if not values:
            return []
        seen = len(self.loads_outside)
        result = self.expr(values[0])
        del self.loads_outside[seen:]
        self.returns.append((1, node))
        return [IRReturn(loc=self.loc(node), values=[result])]

    def check_loads_outside(self) -> None:
        for name, loc in self.loads_outside:
            if name in self.effects.written:
                self.unsupported(
                    f"a load of `{name}` outside the parallel loops, which may store to it, is not supported",
                    loc,
                    "load it inside the loop, or pass the value as an argument",
                )


def _returned(node: ast.Return) -> list[ast.expr]:
    if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
        return []
    return list(node.value.elts) if isinstance(node.value, ast.Tuple) else [node.value]


def _count(count: int) -> str:
    return "nothing" if count == 0 else "one value" if count == 1 else f"{count} values"
