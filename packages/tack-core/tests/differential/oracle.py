"""What a kernel of integers must compute, from the contract's text alone: Python runs it, with the wraps put in.

The kernel's own source is parsed, typed by the rules TYPE-*, LIT-1, LIT-2 and FUNC-*, and rewritten so that every
operation whose result may leave its type calls a helper. Because integer promotion preserves values (TYPE-3), no
operand needs a conversion. Control flow, evaluation order, chains and short circuits are then Python's own.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numeric_oracles import INTEGERS, bits, limits, promote, wrap

OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
    ast.LShift: "shl", ast.RShift: "shr", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
}  # fmt: skip
LEFT_TYPED = (ast.Pow, ast.LShift, ast.RShift)  # TYPE-5: the result has the left operand's type
COUNTS = ("popcount", "clz", "ctz")


class Rejected(Exception):
    """The contract rejects the program: a signed type met u64."""


class ConstraintBroken(Exception):
    """These inputs break a caller constraint, so the program has no portable result."""


class TooLarge(Exception):
    """A big integer of the naive oracle got out of hand."""


def literal_type(value: int) -> str:
    """LIT-1."""
    for name in ("i32", "i64", "u64"):
        if limits(name)[0] <= value <= limits(name)[1]:
            return name
    raise Rejected(f"{value} does not fit 64 bits")


def join(*types: str) -> str:
    """TYPE-2 and TYPE-3 for any number of types."""
    result = types[0]
    for other in types[1:]:
        common = promote(result, other)
        if common is None:
            raise Rejected(f"{result} with {other}")
        result = common
    return result


# ---------------------------------------------------------------------------------------------------------- typing


@dataclass
class Instance:
    """A function typed for its parameter types: `locals` by name; those `pinned` never widen."""

    tree: ast.FunctionDef
    symbol: str
    locals: dict[str, str]
    pinned: frozenset[str]
    results: tuple[str, ...] = ()
    changed: bool = True


@dataclass
class Typer:
    """Types functions of one module, given by their texts. `arrays` gives the element type of each array name."""

    functions: dict[str, str]
    arrays: dict[str, str]
    instances: dict[tuple[str, ...], Instance] = field(default_factory=dict)

    def instance(self, name: str, params: tuple[str, ...]) -> Instance:
        """The function typed for these parameter types; joins of locals run to their fixpoint (TYPE-6)."""
        key = (name, *params)
        if key not in self.instances:
            tree = ast.parse(self.functions[name]).body[0]
            assert isinstance(tree, ast.FunctionDef)
            tree.args.args = tree.args.args[: len(params)]  # a kernel's arrays are globals of the rewritten module
            names = [a.arg for a in tree.args.args]
            made = Instance(tree, "__".join(key), dict(zip(names, params, strict=True)), frozenset(names))
            while made.changed:
                made.changed = False
                made.results = ()
                for statement in tree.body:
                    self.statement(statement, made)
            self.instances[key] = made
        return self.instances[key]

    def statement(self, node: ast.stmt, scope: Instance) -> None:
        if isinstance(node, ast.Assign):
            self.assign(node.targets[0], node.value, scope)
        elif isinstance(node, ast.AugAssign):
            load = copy.copy(node.target)
            binary = ast.BinOp(left=load, op=node.op, right=node.value)
            node.result = self.expression(binary, scope)
            if isinstance(node.target, ast.Name):
                self.bind(node.target.id, node.result, scope)
        elif isinstance(node, ast.Return) and node.value is not None:
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            types = tuple(self.expression(v, scope) for v in values)
            both = zip(scope.results, types, strict=True)
            scope.results = tuple(join(a, b) for a, b in both) if scope.results else types
        elif isinstance(node, ast.For):
            assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
            for argument in node.iter.args:
                self.expression(argument, scope)
            scope.locals[node.target.id] = "i64"  # LOOP-12
            self.block(node.body, scope)
        elif isinstance(node, ast.If | ast.While):
            self.expression(node.test, scope)
            self.block(node.body, scope)
            self.block(node.orelse, scope)
        elif isinstance(node, ast.Expr):
            self.expression(node.value, scope)

    def block(self, body: Sequence[ast.stmt], scope: Instance) -> None:
        for statement in body:
            self.statement(statement, scope)

    def assign(self, target: ast.expr, value: ast.expr, scope: Instance) -> None:
        if not isinstance(target, ast.Tuple):
            self.target(target, self.expression(value, scope), scope)
            return
        if isinstance(value, ast.Tuple):
            types: tuple[str, ...] = tuple(self.expression(v, scope) for v in value.elts)
        else:
            assert isinstance(value, ast.Call)
            types = self.call(value, scope)
        for element, found in zip(target.elts, types, strict=True):
            self.target(element, found, scope)

    def target(self, node: ast.expr, found: str, scope: Instance) -> None:
        if isinstance(node, ast.Name):
            self.bind(node.id, found, scope)
        else:
            assert isinstance(node, ast.Subscript)
            self.expression(node, scope)

    def bind(self, name: str, found: str, scope: Instance) -> None:
        if name not in scope.pinned:
            widened = join(scope.locals.get(name, found), found)
            scope.changed |= scope.locals.get(name) != widened
            scope.locals[name] = widened

    def expression(self, node: ast.expr, scope: Instance) -> str:
        """The type of an expression, also left on the node as `.type`."""
        found = getattr(self, "type_" + type(node).__name__)(node, scope)
        node.type = found
        return str(found)

    def type_Constant(self, node: ast.Constant, scope: Instance) -> str:
        assert isinstance(node.value, int)
        return literal_type(int(node.value))

    def type_Name(self, node: ast.Name, scope: Instance) -> str:
        return scope.locals[node.id]

    def type_UnaryOp(self, node: ast.UnaryOp, scope: Instance) -> str:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return literal_type(-int(node.operand.value))  # LIT-2
        operand = self.expression(node.operand, scope)
        return "i32" if isinstance(node.op, ast.Not) else operand

    def type_BinOp(self, node: ast.BinOp, scope: Instance) -> str:
        left, right = self.expression(node.left, scope), self.expression(node.right, scope)
        return left if isinstance(node.op, LEFT_TYPED) else join(left, right)

    def type_Compare(self, node: ast.Compare, scope: Instance) -> str:
        types = [self.expression(operand, scope) for operand in [node.left, *node.comparators]]
        for pair in itertools.pairwise(types):
            join(*pair)  # TYPE-4: each link on its own
        return "i32"

    def type_BoolOp(self, node: ast.BoolOp, scope: Instance) -> str:
        for value in node.values:
            self.expression(value, scope)
        return "i32"

    def type_IfExp(self, node: ast.IfExp, scope: Instance) -> str:
        self.expression(node.test, scope)
        return join(self.expression(node.body, scope), self.expression(node.orelse, scope))

    def type_Subscript(self, node: ast.Subscript, scope: Instance) -> str:
        assert isinstance(node.value, ast.Name)
        for index in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
            self.expression(index, scope)
        return self.arrays[node.value.id]

    def type_Call(self, node: ast.Call, scope: Instance) -> str:
        (result,) = self.call(node, scope)
        return result

    def call(self, node: ast.Call, scope: Instance) -> tuple[str, ...]:
        types = tuple(self.expression(a, scope) for a in node.args)
        name = called_name(node)
        if name in self.functions:
            called = self.instance(name, types)
            node.symbol = called.symbol
            return called.results
        if name in INTEGERS:
            return (name,)
        if name in ("min", "max"):
            return (join(*types),)
        return (types[0] if name in ("abs", "pow") else "i32",)  # int() and the bit counts give i32


def called_name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id


# ------------------------------------------------------------------------------------------------------- rewriting


class Rewriter(ast.NodeTransformer):
    """Puts a helper call, `<operation>_<type>`, at every node whose value may leave its type."""

    def __init__(self, scope: Instance, arrays: dict[str, str]) -> None:
        self.scope, self.arrays = scope, arrays

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name, node.decorator_list = self.scope.symbol, []
        self.generic_visit(node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return helper("int", node) if isinstance(node.op, ast.Not) else helper(f"wrap_{node.type}", node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return helper(f"{OPERATORS[type(node.op)]}_{node.type}", node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return helper("int", node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return helper("truth", node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        types = [getattr(a, "type", "") for a in node.args]
        self.generic_visit(node)
        name = called_name(node)
        if hasattr(node, "symbol"):
            return helper(node.symbol, *node.args)
        if name in INTEGERS or name == "int":
            return helper(f"wrap_{'i32' if name == 'int' else name}", *node.args)
        if name == "abs":
            return helper(f"wrap_{types[0]}", node)
        return helper(f"{name}_{types[0]}", *node.args) if name in (*COUNTS, "pow") else node

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter.args = [helper("wrap_i64", a) for a in node.iter.args]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        target = node.targets[0]
        if not isinstance(target, ast.Tuple):
            node.value = self.converted(target, node.value)
        elif isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts, strict=True)
            node.value.elts = [self.converted(t, v) for t, v in pairs]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.Assign:
        self.generic_visit(node)
        load = ast.parse(ast.unparse(node.target), mode="eval").body
        value = helper(f"{OPERATORS[type(node.op)]}_{node.result}", load, node.value)
        return ast.Assign(targets=[node.target], value=self.converted(node.target, value))

    def converted(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """A store reduces to the element type, an assignment to a parameter to its type (TYPE-9, PAR-3, FUNC-3)."""
        if isinstance(target, ast.Subscript):
            return helper(f"store_{self.arrays[target.value.id]}", value)
        assert isinstance(target, ast.Name)
        pinned = target.id in self.scope.pinned
        return helper(f"wrap_{self.scope.locals[target.id]}", value) if pinned else value


def helper(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


# --------------------------------------------------------------------------------------------------------- running


def check(holds: bool) -> None:
    if not holds:
        raise ConstraintBroken


class Arithmetic:
    """The helpers of the contract, for one type. Subclasses are deliberately wrong: the controls."""

    def __init__(self, name: str) -> None:
        self.name, self.low, self.bits = name, limits(name)[0], bits(name)

    def wrap(self, v: int) -> int:
        return wrap(v, self.name)

    def store(self, v: int) -> int:
        return wrap(v, self.name)

    def add(self, a: int, b: int) -> int:
        return self.wrap(a + b)

    def sub(self, a: int, b: int) -> int:
        return self.wrap(a - b)

    def mul(self, a: int, b: int) -> int:
        return self.wrap(a * b)

    def floordiv(self, a: int, b: int) -> int:
        check(b != 0 and not (b == -1 and a == self.low < 0))
        return a // b

    def mod(self, a: int, b: int) -> int:
        check(b != 0 and not (b == -1 and a == self.low < 0))
        return a % b

    def pow(self, a: int, b: int) -> int:
        check(b >= 0)
        return self.wrap(pow(a, b, 2**self.bits))

    def shl(self, a: int, n: int) -> int:
        check(0 <= n < self.bits)
        return self.wrap(a << n)

    def shr(self, a: int, n: int) -> int:
        check(0 <= n < self.bits)
        return a >> n

    def and_(self, a: int, b: int) -> int:
        return self.wrap(a & b)

    def or_(self, a: int, b: int) -> int:
        return self.wrap(a | b)

    def xor(self, a: int, b: int) -> int:
        return self.wrap(a ^ b)

    def pattern(self, a: int) -> str:
        return format(a % 2**self.bits, f"0{self.bits}b")

    def popcount(self, a: int) -> int:
        return self.pattern(a).count("1")

    def clz(self, a: int) -> int:
        return self.bits - len(self.pattern(a).lstrip("0"))

    def ctz(self, a: int) -> int:
        return self.bits - len(self.pattern(a).rstrip("0"))

    def helpers(self) -> dict[str, Callable[..., int]]:
        names = [*OPERATORS.values(), *COUNTS, "wrap", "store"]
        return {f"{n}_{self.name}": getattr(self, n + "_" if n in ("and", "or") else n) for n in names}


class WrapAtTheEnd(Arithmetic):
    """The naive rule: big integers throughout, reduced only where they are stored."""

    def wrap(self, v: int) -> int:
        if abs(v) >> 4096:
            raise TooLarge
        return v

    def pow(self, a: int, b: int) -> int:
        check(0 <= b < 64)
        return self.wrap(a**b)


class TruncatingDivision(Arithmetic):
    """C's rule: quotients toward zero, remainders with the dividend's sign."""

    def floordiv(self, a: int, b: int) -> int:
        quotient = super().floordiv(abs(a), abs(b))
        return quotient if (a < 0) == (b < 0) else -quotient

    def mod(self, a: int, b: int) -> int:
        return a - b * self.floordiv(a, b)


def run(source: str, kernel: str, arrays: dict[str, tuple[str, Any]], rules: type[Arithmetic] = Arithmetic) -> None:
    """Run the kernel of a module's source; `arrays` maps each parameter to (element type, indexable storage).

    Raises
    ------
    Rejected
        If the contract rejects the program.
    ConstraintBroken
        If the program breaks a caller constraint for this input.
    """
    lines = source.splitlines(keepends=True)
    definitions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    element = {name: dtype for name, (dtype, _) in arrays.items()}
    typer = Typer({n.name: "".join(lines[n.lineno - 1 : n.end_lineno]) for n in definitions}, element)
    typer.instance(kernel, ())
    body = [Rewriter(made, element).visit(made.tree) for made in typer.instances.values()]
    module = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    namespace: dict[str, Any] = {name: storage for name, (_, storage) in arrays.items()}
    namespace |= {"truth": lambda v: int(bool(v))}
    for name in INTEGERS:
        namespace |= rules(name).helpers()
    exec(compile(module, "<oracle>", "exec"), namespace)
    namespace[kernel]()
