"""Typing of statements: one type for each local, joined over all its assignments (rules TYPE-6 and TYPE-7)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NoReturn

from tack.lang.constant_checks import constant_value
from tack.lang.diagnostics import Loc
from tack.lang.func_instances import (
    Argument,
    Instance,
    Instances,
    assigned_names,
    has_effects,
    template_of,
)
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAssert,
    IRAssign,
    IRAtomic,
    IRBarrier,
    IRBind,
    IRBreak,
    IRCall,
    IRContinue,
    IRExpr,
    IRExprStmt,
    IRFor,
    IRFunction,
    IRIf,
    IRKernel,
    IRLoad,
    IRLocalArray,
    IRParallelFor,
    IRParam,
    IRPrint,
    IRRange,
    IRReturn,
    IRStmt,
    IRStore,
    IRTable,
    IRUnpack,
    IRVar,
    IRWhile,
    Symbol,
    walk,
)
from tack.lang.ir_vector import IRComponentAssign, IRComponentStore
from tack.lang.records import record, replace
from tack.lang.type_inference import integer_type_for_values, join_types, promote_types
from tack.lang.types import ArrayType, DType, ValueType, element_of, f32, f64, i64, number_type, shape_of, shaped
from tack.lang.weak_literals import WeakLiterals, version_name


class UntypedRead(Exception):
    """A local was read before this round gave it a type; a later round will, or the program has none."""

    def __init__(self, name: str, loc: Loc) -> None:
        super().__init__(name)
        self.name, self.loc = name, loc


@record(frozen=True)
class _Given:
    """One assignment's part in the join of a local."""

    loc: Loc
    dtype: DType
    literal: bool
    weak: bool


class StatementTyper(WeakLiterals):
    """Types the statements of one function, in rounds: each round types the whole untyped body with the types that the
    locals have so far, and joins what it assigns to them. The round that changes nothing gives the result."""

    def __init__(
        self,
        ir: IRFunction,
        param_types: Sequence[ValueType],
        instances: Instances,
        *,
        chain: tuple[Loc, ...],
        literal_params: Mapping[str, bool],
        adopted: DType,
    ) -> None:
        self.ir, self.instances, self.chain, self.adopted = ir, instances, chain, adopted
        self.param_types = list(param_types)
        self.types: dict[str, DType] = {}  # of scalars
        self.arrays: dict[str, ArrayType] = {}
        self.fixed: dict[str, DType] = {}  # of parameters, loop variables and annotated locals: they do not join
        self.literals: dict[str, bool] = dict(literal_params)  # symbols that stand for a literal; True: a weak one
        self.literal_source: dict[str, IRExpr] = {}
        self.constants: dict[str, int | float] = {}
        self.bound_literals: dict[str, IRExpr] = {}
        self.wide: set[str] = set()  # weak symbols that are wanted at f64 too
        self.dropped: set[str] = set()  # those of them that are wanted at f64 only
        self.given: dict[str, list[_Given]] = {}
        self.assigned: Counter[str] = Counter()
        self.changed = False
        self.problem: Exception | None = None
        self.rounds = 0
        self.weak_calls: dict[int, tuple[IRCall, IRCall]] = {}
        self._declare()

    # ---------------------------------------------------------------------------------------------------- declaring

    def _declare(self) -> None:
        for param, type_ in zip(self.ir.params, self.param_types, strict=True):
            if isinstance(type_, ArrayType):
                self.arrays[param.name] = type_
            else:
                self.types[param.name] = self.fixed[param.name] = type_
        for name, table in self.ir.tables.items():
            self.arrays[name] = ArrayType(self._table_dtype(table), len(table.shape), "constant", table.shape)
        for node in walk(self.ir.body):
            match node:
                case IRAssign() | IRBind():
                    self.assigned[node.name] += 1
                case IRUnpack():
                    self.assigned.update(node.names)
                case IRLocalArray():
                    self.arrays[node.name] = ArrayType(
                        number_type(node.element), len(node.shape), node.space, node.shape, shape_of(node.element)
                    )
                case IRFor():
                    self._fix(node.var, i64)
                case IRParallelFor():
                    for name in node.vars:
                        self._fix(name, i64)
            if isinstance(node, IRAssign) and node.pinned is not None:
                self._fix(node.name, node.pinned)  # rule SYN-3

    def _fix(self, name: str, dtype: DType) -> None:
        self.types[name] = self.fixed[name] = dtype

    def _table_dtype(self, table: IRTable) -> DType:
        if any(isinstance(value, float) for value in table.values):
            return f64 if self.instances.has_f64 else f32
        try:
            return integer_type_for_values(table.values)
        except TypeError as error:
            self._fail(TypeError, str(error), self.ir.symbols[table.name].loc, "make its numbers floats, or split it")

    def source_name(self, name: str) -> str:
        symbol = self.ir.symbols.get(name)
        return symbol.source_name if symbol is not None else name

    # ------------------------------------------------------------------------------------------------------- rounds

    def function_body(self, max_rounds: int) -> list[IRStmt]:
        """The typed body, when the types of all locals are settled."""
        self.rounds = max_rounds
        for _ in range(max_rounds):
            body = self._round()
            if self.changed:
                continue
            if self.problem is not None:
                self._raise_problem(self.problem)
            self._drop_unread(body)
            return body
        raise AssertionError(f"{self.ir.loc}: the types of locals did not settle in {max_rounds} rounds")

    def _round(self) -> list[IRStmt]:
        self.changed, self.problem = False, None
        self.given.clear()
        self.weak_calls.clear()
        body = self._block(self.ir.body)
        if not (self.changed or self.problem):
            self._widen_literal_locals()
        return body

    def _drop_unread(self, body: list[IRStmt]) -> None:
        """Drop the f32 variables of weak locals that are read only at f64: computing them could break a constraint."""
        candidates = {name for name in self.wide if name not in self.fixed}
        while candidates:
            read = {node.name for node in walk(body) if isinstance(node, IRVar)}
            unread = candidates - read
            if not unread:
                return
            candidates -= unread
            self.dropped |= unread
            drop_assignments(body, unread)

    def _raise_problem(self, problem: Exception) -> NoReturn:
        if isinstance(problem, UntypedRead):
            shown = self.source_name(problem.name)
            self._fail(NameError, f"local `{shown}` is read, but nothing has assigned it", problem.loc)
        raise problem

    def _widen_literal_locals(self) -> None:
        """Rule LIT-9: a local assigned only literals, more than once, is f64 when the kernel has an f64 array."""
        for name, given in self.given.items():
            if all(g.literal for g in given) and any(g.weak for g in given):
                wanted = self.adopted if is_result(name) else f64 if self.instances.has_f64 else f32
                if wanted is f64 and self.types[name] is f32:
                    self.types[name] = f64
                    self.changed = True

    def contribute(self, name: str, value: IRExpr) -> DType:
        """Join the type of `value` into that of the local `name`, and return it (rule TYPE-6)."""
        assert value.dtype is not None
        given = self.given.setdefault(name, [])
        given.append(_Given(value.loc, value.dtype, value._literal, value._weak))
        known = self.types.get(name)
        try:
            types = [g.dtype for g in given] + ([known] if known is not None else [])
            shape = _one_shape(types)
            joined = shaped(join_types(map(number_type, types)), shape)
        except TypeError:
            self._fail_join(name, given)
        if joined is not known:
            self.types[name] = joined
            # A first type is news only if it was missed.
            self.changed = self.changed or known is not None or self.problem is not None
        return joined

    def _fail_join(self, name: str, given: list[_Given]) -> NoReturn:
        new = given[-1]
        what = "a result" if is_result(name) else f"`{self.source_name(name)}`"
        other = next((g for g in given[:-1] if _is_impossible(g.dtype, new.dtype)), None)
        known = f"{other.dtype.name} at {other.loc}" if other else f"{self.types[name].name} elsewhere"
        if shape_of(new.dtype) != shape_of(other.dtype if other else self.types[name]):
            self._fail(TypeError, f"{what} is {new.dtype.name} here and {known}", new.loc, "a name keeps its shape")
        self._fail(
            TypeError,
            f"{what} is {new.dtype.name} here and {known}; no integer type holds both",
            new.loc,
            "use an explicit integer cast, tack.i64(...) or tack.u64(...), in one of the assignments",
        )

    # --------------------------------------------------------------------------------------------------- statements

    def _block(self, body: Sequence[IRStmt]) -> list[IRStmt]:
        typed: list[IRStmt] = []
        for statement in body:
            try:
                typed += self._statement(statement)
            except (UntypedRead, TypeError, ValueError, NameError) as error:
                # The types of locals may still change; the first error that remains is raised.
                self.problem = self.problem or error
        return typed

    def _statement(self, node: IRStmt) -> list[IRStmt]:
        match node:
            case IRAssign():
                return self._assign(node)
            case IRComponentAssign():
                return [self._component_assign(node)]
            case IRComponentStore():
                return [self._component_store(node)]
            case IRStore():
                return [self._store(node)]
            case IRIf() | IRWhile() | IRFor() | IRParallelFor():
                return [self._compound(node)]
            case IRUnpack():
                return [self._unpack(node)]
            case IRExprStmt():
                return [IRExprStmt(loc=node.loc, value=self._effect(node.value))]
            case IRReturn():
                return [self._return(node)]
            case IRPrint():
                parts = [part if isinstance(part, str) else self._annotate_expr(part) for part in node.parts]
                return [IRPrint(loc=node.loc, parts=parts)]
            case IRAssert():
                return [IRAssert(loc=node.loc, cond=self._condition(node.cond), message=node.message)]
            case IRLocalArray():
                return [replace(node)]
            case IRBreak() | IRContinue() | IRBarrier():
                return [type(node)(loc=node.loc)]
        raise AssertionError(f"{node.loc}: no typing rule for {type(node).__name__}")

    def _assign(self, node: IRAssign) -> list[IRStmt]:
        name = node.name
        if name in self.arrays:
            self._fail(
                TypeError,
                f"`{self.source_name(name)}` is an array here, and cannot be assigned",
                node.loc,
                "store to its elements, or use another name",
            )
        value = self._settle(self._annotate_expr(node.value))
        if name in self.fixed:
            dtype = self.fixed[name]
            self._need_type(value, dtype, f"`{self.source_name(name)}`")
        elif self.assigned[name] == 1 and value._literal and not has_effects(node.value):
            return self._assign_literal(node, value)
        else:
            dtype = self.contribute(name, value)
        return [_assignment(node, name, self._adopt(value, dtype))]

    def _assign_literal(self, node: IRAssign, value: IRExpr) -> list[IRStmt]:
        """Rule LIT-8: the only assignment of a local, of a literal expression."""
        name = node.name
        assert value.dtype is not None
        if name not in self.literals:
            self.literals[name] = value._weak
            self.literal_source[name] = node.value
            self.types[name] = value.dtype
            constant = constant_value(value, self.constants)
            if constant is not None:
                self.constants[name] = constant
            self.changed = self.changed or self.problem is not None
        typed: list[IRStmt] = [_assignment(node, name, value)]
        if name in self.wide:
            wide = self._retype(self._annotate_expr(node.value), f64)
            typed.append(_assignment(node, version_name(name, f64), wide))
        return typed

    def _store(self, node: IRStore) -> IRStmt:
        if node.array not in self.arrays and shape_of(self.types.get(node.array)):
            return self._component_assign(node)
        array = self._array(node.array, node.loc)
        value = self._as_element(self._annotate_expr(node.value), element_of(array), self.source_name(node.array))
        return IRStore(loc=node.loc, array=node.array, index=self._index(node.index, array, node), value=value)

    def _compound(self, node: IRIf | IRWhile | IRFor | IRParallelFor) -> IRStmt:
        """A statement with a body: what is wrong in its head must not hide what its body assigns."""
        if isinstance(node, IRParallelFor):
            ranges = [self._host_range(r) for r in node.ranges]
            return IRParallelFor(loc=node.loc, vars=list(node.vars), ranges=ranges, body=self._block(node.body))
        head: list[IRExpr] = []
        try:
            if isinstance(node, IRFor):
                head = [self._integer(e, "a bound of range()", i64) for e in (node.start, node.stop, node.step)]
            else:
                head = [self._condition(node.cond)]
        except (UntypedRead, TypeError, ValueError, NameError) as error:
            self.problem = self.problem or error
        if isinstance(node, IRIf):
            then, other = self._block(node.then), self._block(node.other)
            return IRIf(loc=node.loc, cond=head[0] if head else node.cond, then=then, other=other)
        body = self._block(node.body)
        if isinstance(node, IRWhile):
            return IRWhile(loc=node.loc, cond=head[0] if head else node.cond, body=body)
        start, stop, step = head or (node.start, node.stop, node.step)
        return IRFor(loc=node.loc, var=node.var, start=start, stop=stop, step=step, body=body)

    def _host_range(self, ranges: IRRange) -> IRRange:
        return IRRange(start=self._host(ranges.start), stop=self._host(ranges.stop), step=self._host(ranges.step))

    def _host(self, expr: IRExpr) -> IRExpr:
        """A copy of a host expression, its reads checked; it stays untyped, for Python integers have no type."""
        if isinstance(expr, IRArrayAttr):
            return replace(expr, axis=self._array_attr(expr).axis)
        if isinstance(expr, IRVar):
            if expr.name in self.arrays:
                self._fail_array_as_number(expr.name, expr.loc)
            dtype = self.types[expr.name]
            if dtype.is_float:
                shown = self.source_name(expr.name)
                self._fail(
                    TypeError,
                    f"a bound of a loop is an integer, and `{shown}` is {dtype.name}",
                    expr.loc,
                    "pass an int",
                )
        parts = {name: getattr(expr, name) for name in ("left", "right", "operand") if hasattr(expr, name)}
        changes: dict[str, IRExpr | list[IRExpr]] = {name: self._host(part) for name, part in parts.items()}
        if hasattr(expr, "args"):
            changes["args"] = [self._host(arg) for arg in expr.args]
        return replace(expr, **changes)

    # ------------------------------------------------------------------------------------------------ calls, results

    def _effect(self, value: IRExpr) -> IRExpr:
        return self._call(value, f32)[0] if isinstance(value, IRCall) else self._annotate_expr(value)

    def _unpack(self, node: IRUnpack) -> IRUnpack:
        # Weak results end here, as in a local that is assigned several literals.
        call, instance = self._call(node.call, f64 if self.instances.has_f64 else f32)
        results = instance.function.results
        for name, dtype in zip(node.names, results, strict=True):
            self.contribute(name, IRVar(loc=node.loc, name=name, dtype=dtype))
        return IRUnpack(loc=node.loc, names=list(node.names), call=call)

    def _value_of_call(self, node: IRCall) -> IRCall:
        call, instance = self._call(node, f32)
        results = instance.function.results
        assert len(results) == 1, f"{node.loc}: lowering let a call for {len(results)} values through"
        call.dtype = results[0]
        if instance.weak[0]:
            call._literal = call._weak = True
            self.weak_calls[id(call)] = (call, node)
        return call

    def _retype_call(self, call: IRCall, dtype: DType) -> None:
        fresh, instance = self._call(self.weak_calls[id(call)][1], dtype)
        call.args, call.symbol, call.dtype = fresh.args, fresh.symbol, instance.function.results[0]

    def _weak_version(self, name: str, dtype: DType) -> str:
        if name not in self.wide:
            self.wide.add(name)
            self.changed = True
        return version_name(name, dtype)

    def _call(self, node: IRCall, adopted: DType) -> tuple[IRCall, Instance]:
        """A call typed by its own arguments, and the instance that it calls."""
        template = template_of(node)
        typed = [self._argument(arg) for arg in node.args]
        all_literal = all(arg._literal for arg in typed)
        assigned = assigned_names(template)
        signature = tuple(
            self._signature(param, arg, param.name in assigned, all_literal)
            for param, arg in zip(template.params, typed, strict=True)
        )
        instance = self.instances.get(template, signature, adopted, (*self.chain, node.loc), self.rounds)
        args: list[IRExpr] = []
        for index, type_ in instance.layout:
            # A weak argument that is wanted at two types is written out twice; nothing else is.
            fresh = (
                typed[index]
                if all(index != i for i, _ in instance.layout[: len(args)])
                else self._argument(node.args[index])
            )
            args.append(fresh if isinstance(type_, ArrayType) else self._adopt(fresh, type_))
        return IRCall(loc=node.loc, callee=node.callee, args=args, symbol=instance.function.name), instance

    def _argument(self, arg: IRExpr) -> IRExpr:
        if isinstance(arg, (IRVar, IRArrayRef)) and arg.name in self.arrays:
            return IRArrayRef(loc=arg.loc, name=arg.name, array_type=self.arrays[arg.name])
        return self._settle(
            self._annotate_expr(IRVar(loc=arg.loc, name=arg.name) if isinstance(arg, IRArrayRef) else arg)
        )

    def _signature(self, param: IRParam, arg: IRExpr, assigned: bool, all_literal: bool) -> Argument:
        if isinstance(arg, IRArrayRef):
            assert arg.array_type is not None
            if param.annotation is not None:
                self._fail(
                    TypeError, f"parameter `{param.name}` is annotated {param.annotation!r}: it takes no array", arg.loc
                )
            return Argument(arg.array_type)
        assert arg.dtype is not None
        if param.annotation is not None:
            self._need_type(arg, param.annotation, f"parameter `{param.name}`")
            return Argument(param.annotation)
        if assigned:
            # A parameter that is assigned is a local that more than one literal may reach (rule LIT-9).
            return Argument(f64 if arg._weak and self.instances.has_f64 else arg.dtype)
        return Argument(arg.dtype, arg._literal and (arg._weak or all_literal), arg._weak)

    def _return(self, node: IRReturn) -> IRReturn:
        values = [self._settle(self._annotate_expr(value)) for value in node.values]
        if isinstance(self.ir, IRKernel) and shape_of(values[0].dtype):
            self._fail(TypeError, "a kernel returns one number", node.loc, "store the vector in an array")
        typed = [self._adopt(value, self.contribute(result_name(k), value)) for k, value in enumerate(values)]
        return IRReturn(loc=node.loc, values=typed)

    # ----------------------------------------------------------------------------------------------------- the tables

    def result_types(self) -> tuple[DType, ...]:
        count = sum(is_result(name) for name in self.types)
        return tuple(self.types[result_name(k)] for k in range(count))

    def weak_results(self) -> tuple[bool, ...]:
        marks = []
        for k in range(len(self.result_types())):
            given = self.given[result_name(k)]
            marks.append(all(g.literal for g in given) and any(g.weak for g in given))
        return tuple(marks)

    def typed_params(self) -> list[IRParam]:
        return [replace(p, type=t) for p, t in zip(self.ir.params, self.param_types, strict=True)]

    def param_versions(self, body: list[IRStmt]) -> tuple[list[IRParam], list[tuple[int, ValueType]]]:
        """The parameters of an instance: a weak one at each type in which it is read, or else at f32."""
        read = {node.name for node in walk(body) if isinstance(node, IRVar)}
        params: list[IRParam] = []
        layout: list[tuple[int, ValueType]] = []
        for index, param in enumerate(self.typed_params()):
            assert param.type is not None
            wanted: list[tuple[str, ValueType]] = [(param.name, param.type)]
            if param.name in self.wide:
                wide = (version_name(param.name, f64), f64)
                wanted = [*wanted, wide] if param.name in read else [wide]
            for name, type_ in wanted:
                params.append(replace(param, name=name, type=type_))
                layout.append((index, type_))
        return params, layout

    def typed_symbols(self) -> dict[str, Symbol]:
        """The symbols, each with its type; one that typing has replaced by what it stood for is gone."""
        symbols: dict[str, Symbol] = {}
        for name, symbol in self.ir.symbols.items():
            if name in self.arrays:
                array = self.arrays[name]
                kind = "local_array" if symbol.kind == "local_array" else "array"
                symbols[name] = replace(symbol, kind=kind, array_type=array)
            elif name in self.types and name not in self.dropped:
                kind = "param" if symbol.kind == "array" else symbol.kind
                symbols[name] = replace(symbol, kind=kind, dtype=self.types[name])
            if name in self.wide:
                wide = version_name(name, f64)
                symbols[wide] = replace(symbol, name=wide, dtype=f64)
        return symbols

    def typed_tables(self) -> dict[str, IRTable]:
        return {name: replace(table, dtype=self.arrays[name].dtype) for name, table in self.ir.tables.items()}

    # -------------------------------------------------------------------------------------- supplied by `Annotator`

    @abstractmethod
    def _annotate_expr(self, expr: IRExpr) -> IRExpr: ...

    @abstractmethod
    def _condition(self, expr: IRExpr) -> IRExpr: ...

    @abstractmethod
    def _settle(self, value: IRExpr) -> IRExpr: ...

    @abstractmethod
    def _component_assign(self, node: IRComponentAssign | IRStore) -> IRStmt: ...

    @abstractmethod
    def _component_store(self, node: IRComponentStore) -> IRStmt: ...

    @abstractmethod
    def _as_element(self, value: IRExpr, element: DType, array: str) -> IRExpr: ...

    @abstractmethod
    def _need_type(self, value: IRExpr, dtype: DType, what: str) -> None: ...

    @abstractmethod
    def _array(self, name: str, loc: Loc) -> ArrayType: ...

    @abstractmethod
    def _array_attr(self, expr: IRArrayAttr) -> IRArrayAttr: ...

    @abstractmethod
    def _fail_array_as_number(self, name: str, loc: Loc) -> NoReturn: ...

    @abstractmethod
    def _index(self, index: list[IRExpr], array: ArrayType, node: IRLoad | IRStore | IRAtomic) -> list[IRExpr]: ...

    @abstractmethod
    def _integer(self, expr: IRExpr, what: str, dtype: DType) -> IRExpr: ...

    @abstractmethod
    def _fail(self, kind: type[Exception], message: str, loc: Loc, hint: str | None = None) -> NoReturn: ...


def _assignment(node: IRAssign, name: str, value: IRExpr) -> IRAssign:
    return IRAssign(loc=node.loc, name=name, value=value, pinned=node.pinned, _resolved_type=value.dtype)


def drop_assignments(body: list[IRStmt], names: set[str]) -> None:
    """Remove the assignments to `names` from typed statements, in place."""
    body[:] = [statement for statement in body if not (isinstance(statement, IRAssign) and statement.name in names)]
    for statement in body:
        if isinstance(statement, IRIf):
            drop_assignments(statement.then, names)
            drop_assignments(statement.other, names)
        elif isinstance(statement, (IRWhile, IRFor, IRParallelFor)):
            drop_assignments(statement.body, names)


def result_name(position: int) -> str:
    """The name under which the values of the returns join; no symbol has such a name."""
    return f"return {position}"


def is_result(name: str) -> bool:
    """Whether `name` was made by `result_name`."""
    return name.startswith("return ")


def _one_shape(types: Sequence[DType]) -> tuple[int, ...]:
    """The shape that all the types have; TypeError if there are several."""
    shapes = {shape_of(dtype) for dtype in types}
    if len(shapes) > 1:
        raise TypeError(f"{len(shapes)} shapes")
    return shapes.pop()


def _is_impossible(a: DType, b: DType) -> bool:
    if shape_of(a) != shape_of(b):
        return True
    try:
        promote_types(number_type(a), number_type(b))
    except TypeError:
        return True
    return False
