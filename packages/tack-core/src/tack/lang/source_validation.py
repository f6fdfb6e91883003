"""The allow-list over the source as written, unreachable code included: translate or reject (rules SYN-*, SRC-5)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NoReturn

from tack.lang.diagnostics import Loc, UnsupportedSyntaxError, fail
from tack.lang.source import FunctionSource

_COMPREHENSION = "write a `for ... in range(...)` loop"

_REJECTED_STATEMENTS: dict[str, tuple[str, str]] = {
    "Try": ("`try`", "kernels raise no exceptions; test for the case with `if`"),
    "TryStar": ("`try`", "kernels raise no exceptions; test for the case with `if`"),
    "Raise": ("`raise`", "store an error code in an array and look at it after the call"),
    "With": ("`with`", "do this on the host, around the call of the kernel"),
    "AsyncWith": ("`async with`", "do this on the host, around the call of the kernel"),
    "AsyncFor": ("`async for`", "write `for ... in range(...)`"),
    "Import": ("`import`", "import at the top of the module"),
    "ImportFrom": ("`import`", "import at the top of the module"),
    "FunctionDef": ("a nested function", "define it outside and decorate it with @tack.func"),
    "AsyncFunctionDef": ("a nested function", "define it outside and decorate it with @tack.func"),
    "ClassDef": ("a class", "define it outside of the kernel"),
    "Global": ("`global`", "kernels cannot assign module names; store results in an array"),
    "Nonlocal": ("`nonlocal`", "kernels cannot assign outer names; store results in an array"),
    "Delete": ("`del`", "a local needs no deletion"),
    "Match": ("`match`", "write `if`/`elif`/`else`"),
    "TypeAlias": ("`type`", "define the alias outside of the kernel"),
}

_REJECTED_EXPRESSIONS: dict[str, tuple[str, str]] = {
    "Lambda": ("`lambda`", "define a function outside and decorate it with @tack.func"),
    "ListComp": ("a comprehension", _COMPREHENSION),
    "SetComp": ("a comprehension", _COMPREHENSION),
    "DictComp": ("a comprehension", _COMPREHENSION),
    "GeneratorExp": ("a generator expression", _COMPREHENSION),
    "Yield": ("`yield`", "store results in an array"),
    "YieldFrom": ("`yield`", "store results in an array"),
    "Await": ("`await`", "a kernel runs to its end; wait on the host"),
    "JoinedStr": ("an f-string outside `print`", "f-strings work only as arguments of print(...)"),
    "TemplateStr": ("a t-string", "strings work only as arguments of print(...)"),
    "FormattedValue": ("an f-string outside `print`", "f-strings work only as arguments of print(...)"),
    "Dict": ("a dict", "use arrays, or a tuple of numbers outside of the kernel"),
    "Set": ("a set", "use arrays, or a tuple of numbers outside of the kernel"),
    "Slice": ("a slice", "index single elements in a `for ... in range(...)` loop"),
    "NamedExpr": ("`:=`", "assign in a statement of its own"),
    "Starred": ("a starred expression", "write every argument and target out"),
    "Tuple": ("a tuple as a value", "tuples work as an index, in `return`, and on both sides of an assignment"),
}

_REJECTED_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Is: ("`is`", "compare with `==`"),
    ast.IsNot: ("`is not`", "compare with `!=`"),
    ast.In: ("`in`", "compare with each value: `x == a or x == b`"),
    ast.NotIn: ("`not in`", "compare with each value: `x != a and x != b`"),
}


def validate(source: FunctionSource, chain: Sequence[Loc] = ()) -> None:
    """Check that every construct of a function, reachable or not, is one that Tack translates.

    Raises
    ------
    UnsupportedSyntaxError
        At the first construct that is not; the message says what to write instead. `chain` lists the call sites
        that led to a device function, outermost first.
    """
    _Validator(source, chain).function()


class _Validator:
    def __init__(self, source: FunctionSource, chain: Sequence[Loc]) -> None:
        self.source = source
        self.chain = chain

    def reject(self, node: ast.AST, construct: str, hint: str) -> NoReturn:
        message = f"{construct} is not supported"
        fail(UnsupportedSyntaxError, message, self.source.loc(node), hint=hint, chain=self.chain)

    # ------------------------------------------------------------------------------------------------- statements

    def function(self) -> None:
        tree = self.source.tree
        if isinstance(tree, ast.AsyncFunctionDef):
            self.reject(tree, "`async def`", "write `def`")
        if getattr(tree, "type_params", None):
            self.reject(
                tree, "a type parameter", "Tack types every call from its arguments; leave the type parameters out"
            )
        starred = tree.args.vararg or tree.args.kwarg
        if starred is not None:
            self.reject(starred, "a starred parameter", "name every parameter")
        body = tree.body
        if isinstance(body[0], ast.Expr) and _is_string(body[0].value):
            body = body[1:]
        self.block(body)

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        kind = type(node).__name__
        if kind in _REJECTED_STATEMENTS:
            self.reject(node, *_REJECTED_STATEMENTS[kind])
        match node:
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case ast.Expr():
                self.expression_statement(node)
            case ast.Assign():
                self.value(node.value, tuples=True)
                for target in node.targets:
                    self.target(target)
            case ast.AnnAssign():
                self.annotated(node)
            case ast.AugAssign():
                self.target(node.target)
                self.value(node.value)
            case ast.If():
                self.value(node.test)
                self.block(node.body)
                self.block(node.orelse)
            case ast.While():
                self.value(node.test)
                self.block(node.body)
                self.no_else(node)
            case ast.For():
                self.for_loop(node)
            case ast.Return():
                if node.value is not None and not _is_none(node.value):
                    self.value(node.value, tuples=True)
            case ast.Assert():
                self.value(node.test)
                if node.msg is not None and not _is_string(node.msg):
                    self.reject(
                        node.msg, "a message of `assert` that is not a string literal", "write a string literal"
                    )
            case _:
                self.reject(node, f"`{kind}`", "see the language contract for the statements that there are")

    def expression_statement(self, node: ast.Expr) -> None:
        value = node.value
        if _is_string(value):
            self.reject(node, "a string as a statement", "write a comment; only the first statement is a docstring")
        if isinstance(value, ast.Constant) and value.value is Ellipsis:
            self.reject(node, "`...`", "write `pass`")
        self.value(value)
        if not isinstance(value, ast.Call):
            self.reject(node, "an expression as a statement", "it has no effect: assign its value or leave it out")

    def annotated(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self.reject(node.target, "an annotation on anything but a local name", "assign without the annotation")
        if node.value is None:
            self.reject(node, "an annotation without a value", f"give the local a value: `{node.target.id}: ... = 0`")
        self.value(node.value)

    def for_loop(self, node: ast.For) -> None:
        self.no_else(node)
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for target in targets:
            if not isinstance(target, ast.Name):
                self.reject(
                    target,
                    "a loop variable that is not a plain name",
                    "name the loop variable, then assign in the body",
                )
        if not isinstance(node.iter, ast.Call):
            self.reject(
                node.iter,
                "a loop over anything but `range` or `tack.ndrange`",
                "loop over `range(...)` and index in the body",
            )
        self.value(node.iter)
        self.block(node.body)

    def no_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            self.reject(node.orelse[0], "`else` on a loop", "set a local in the loop and test it afterwards")

    def target(self, node: ast.expr, *, inner: bool = False) -> None:
        match node:
            case ast.Name():
                pass
            case ast.Subscript() | ast.Attribute():
                self.value(node)
            case ast.Tuple() if not inner:
                for item in node.elts:
                    self.target(item, inner=True)
            case ast.Starred():
                self.reject(node, *_REJECTED_EXPRESSIONS["Starred"])
            case _:
                self.reject(
                    node, "this assignment target", "assign names and array elements; unpack one level of tuple only"
                )

    # ------------------------------------------------------------------------------------------------ expressions

    def values(self, nodes: Iterable[ast.expr], *, tuples: bool = False) -> None:
        for node in nodes:
            self.value(node, tuples=tuples)

    def value(self, node: ast.expr, *, tuples: bool = False) -> None:
        """Check an expression; `tuples` says that a tuple display may stand here."""
        if isinstance(node, ast.Tuple) and tuples:
            self.values(node.elts)
            return
        kind = type(node).__name__
        if kind in _REJECTED_EXPRESSIONS:
            self.reject(node, *_REJECTED_EXPRESSIONS[kind])
        match node:
            case ast.Name():
                pass
            case ast.Constant():
                self.constant(node)
            case ast.BinOp():
                self.values((node.left, node.right))
            case ast.UnaryOp():
                self.value(node.operand)
            case ast.BoolOp():
                self.values(node.values)
            case ast.Compare():
                self.comparison(node)
            case ast.IfExp():
                self.values((node.test, node.body, node.orelse))
            case ast.Attribute():
                self.value(node.value)
            case ast.List():
                self.values(node.elts)
            case ast.Subscript():
                self.value(node.value)
                self.value(node.slice, tuples=True)
            case ast.Call():
                self.call(node)
            case _:
                self.reject(node, f"`{kind}`", "see the language contract for the expressions that there are")

    def constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, (bool, int, float)):
            return
        spelled = "None" if node.value is None else "..."
        name = f"`{spelled}`" if node.value in (None, ...) else f"a {type(node.value).__name__} literal"
        self.reject(node, name, "kernels compute with integers and floats; strings work only in print(...)")

    def comparison(self, node: ast.Compare) -> None:
        self.value(node.left)
        for op, right in zip(node.ops, node.comparators, strict=True):
            if type(op) in _REJECTED_COMPARISONS:
                self.reject(node, *_REJECTED_COMPARISONS[type(op)])
            self.value(right)

    def call(self, node: ast.Call) -> None:
        self.value(node.func)
        printing = isinstance(node.func, ast.Name) and node.func.id == "print"
        for argument in node.args:
            if printing and _is_string(argument):
                continue
            if printing and isinstance(argument, ast.JoinedStr):
                self.printed_f_string(argument)
            else:
                self.value(argument, tuples=True)
        for keyword in node.keywords:
            if keyword.arg is None:
                self.reject(keyword.value, "`**` in a call", "write every argument out")
            if not (printing and _is_string(keyword.value)):
                self.value(keyword.value, tuples=True)

    def printed_f_string(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                if part.format_spec is not None:
                    self.reject(part, "a format in an f-string", "print the value as it is: `{x}`")
                self.value(part.value)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
