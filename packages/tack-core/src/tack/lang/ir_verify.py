"""What is legal in IR at each stage, as assertions: a failure is a bug in the compiler, never in a user's program.

`verify_untyped` takes what lowering makes, `verify_typed` what `annotate_types` makes. Both walk the whole tree. They
run after every pass in tests, and in users' processes under ``TACK_DEBUG=1``. This module checks the structure, which
the two stages share; `ir_verify_types` checks the types.
"""

from __future__ import annotations

import math
from typing import Any

from tack.lang import ops
from tack.lang.bounds import host_problem
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAssign,
    IRAtomic,
    IRBind,
    IRBinOp,
    IRBoolOp,
    IRBreak,
    IRBuiltin,
    IRCall,
    IRCompare,
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
    IRPrint,
    IRReturn,
    IRStmt,
    IRStore,
    IRUnary,
    IRUnpack,
    IRVar,
    IRWhile,
    children,
    walk,
)
from tack.lang.ir_vector import IRComponentAssign, IRVectorOp
from tack.lang.ir_verify_types import require, verify_function_types
from tack.lang.types import DType

_SCALAR_KINDS = ("param", "local", "loop", "temp")
_ARRAY_KINDS = ("array", "local_array", "param")  # a parameter turns out to be an array when it is typed
_KERNEL_STATEMENTS = (IRAssign, IRComponentAssign, IRUnpack, IRExprStmt, IRIf, IRWhile, IRLocalArray)


def verify_untyped(ir: IRFunction) -> None:
    """Check a kernel, or a template of a device function, as lowering makes it.

    Raises
    ------
    AssertionError
        Naming the node and its place.
    """
    _Structure(ir).run()
    for node in walk(ir.body):
        for field in ("dtype", "_operand_type", "_resolved_type", "symbol", "array_type"):
            require(getattr(node, field, None) is None, node, f"{field} is set before typing")
    require(not ir.results and not getattr(ir, "functions", None), ir, "results or instances before typing")
    for param in ir.params:
        require(param.type is None, ir, f"parameter {param.name} is typed before typing")


def verify_typed(ir: IRKernel) -> None:
    """Check a kernel as `annotate_types` makes it, with all instances of device functions.

    Raises
    ------
    AssertionError
        Naming the node and its place.
    """
    known: dict[str, IRFunction] = {}
    for name, function in ir.functions.items():
        require(name == function.name, ir, f"instance {function.name} is listed as {name}")
        _Structure(function).run()
        verify_function_types(function, known)
        known[name] = function
    _Structure(ir).run()
    verify_function_types(ir, known)


class _Structure:
    """What holds at both stages."""

    def __init__(self, function: IRFunction) -> None:
        self.function = function

    def run(self) -> None:
        function = self.function
        for name, symbol in function.symbols.items():
            require(name == symbol.name, function, f"symbol {symbol.name} is listed as {name}")
            require(symbol.kind in (*_SCALAR_KINDS, *_ARRAY_KINDS), function, f"symbol {name} of kind {symbol.kind}")
        names = [param.name for param in function.params]
        require(len(set(names)) == len(names), function, "two parameters of one name")
        require(all(name in function.symbols for name in names), function, "a parameter without a symbol")
        for name, table in function.tables.items():
            listed = name == table.name and name in function.symbols and function.symbols[name].kind == "array"
            require(listed, function, f"table {name} without its symbol")
            require(len(table.values) == math.prod(table.shape), function, f"table {name} is not {table.shape}")
        if isinstance(function, IRKernel):
            self.kernel_body(function)
        else:
            self.block(function.body, loops=())
        self.pins()

    def pins(self) -> None:
        """Annotations of one symbol agree, and only locals are annotated."""
        pinned: dict[str, DType] = {}
        for node in walk(self.function.body):
            if isinstance(node, IRAssign) and node.pinned is not None:
                agree = pinned.setdefault(node.name, node.pinned) is node.pinned
                require(agree and self.function.symbols[node.name].kind == "local", node, f"annotation of {node.name}")

    def kernel_body(self, kernel: IRKernel) -> None:
        for position, node in enumerate(kernel.body):
            if isinstance(node, IRParallelFor):
                self.parallel_for(node)
            elif isinstance(node, IRReturn):
                require(position == len(kernel.body) - 1, node, "a kernel returns before its end")
                require(len(node.values) == 1, node, "a kernel returns one value")
                self.statement(node, ())
            else:
                require(isinstance(node, _KERNEL_STATEMENTS), node, "not allowed outside the loops of a kernel")
                for inner in walk(node):
                    effect = isinstance(inner, (IRStore, IRAtomic, IRPrint, IRReturn))
                    require(not effect, inner, "an effect outside the loops of a kernel")
                self.statement(node, ())

    def parallel_for(self, node: IRParallelFor) -> None:
        require(len(node.vars) == len(node.ranges) > 0, node, f"{len(node.vars)} variables, {len(node.ranges)} ranges")
        self.scalars(node.vars, node)
        for dimension in node.ranges:
            for bound in (dimension.start, dimension.stop, dimension.step):
                require(host_problem(bound) is None, bound, "not a host expression")
                for part in walk(bound):
                    require(part.dtype is None, part, "a host expression is typed")
                    self.names_of(part)
        self.block(node.body, loops=("parallel",))

    # --------------------------------------------------------------------------------------------------- statements

    def block(self, body: list[IRStmt], loops: tuple[str, ...]) -> None:
        for node in body:
            require(isinstance(node, IRStmt), node, "not a statement")
            self.statement(node, loops)

    def statement(self, node: Any, loops: tuple[str, ...]) -> None:
        self.names_of(node)
        match node:
            case IRIf():
                self.block(node.then, loops)
                self.block(node.other, loops)
            case IRWhile() | IRFor():
                self.block(node.body, (*loops, "serial"))
            case IRBreak():
                require(loops[-1:] == ("serial",), node, "no serial loop to break out of")
            case IRContinue():
                require(bool(loops), node, "no loop to continue")
            case IRReturn():
                outside = not isinstance(self.function, IRKernel) or not loops
                require(outside, node, "a return inside a kernel's loop")
            case IRParallelFor():
                # Those of a kernel's own body do not come here.
                require(False, node, "a parallel loop is not at the top of a kernel")
            case IRExprStmt():
                require(isinstance(node.value, (IRCall, IRAtomic)), node, "neither a call nor an atomic")
            case IRUnpack():
                require(isinstance(node.call, IRCall), node, "not a call")
                require(len(set(node.names)) == len(node.names), node, "one name twice")
            case IRLocalArray():
                require(all(extent > 0 for extent in node.shape), node, f"extents {node.shape}")
            case IRPrint():
                require(bool(node.parts) and isinstance(node.parts[-1], str), node, "the last part is not text")
        for child in children(node):
            if isinstance(child, IRExpr):
                self.expr(child)

    # -------------------------------------------------------------------------------------------------- expressions

    def expr(self, node: Any, *, argument: bool = False) -> None:
        require(isinstance(node, IRExpr), node, "not an expression")
        require(argument or not isinstance(node, IRArrayRef), node, "an array outside the arguments of a call")
        self.names_of(node)
        self.shape_of(node)
        for child in children(node):
            self.expr(child, argument=isinstance(node, IRCall))

    def shape_of(self, node: Any) -> None:
        """Operators that exist, with as many operands as they take."""
        match node:
            case IRUnary():
                require(node.op in ops.UNARY, node, f"operator {node.op}")
            case IRBinOp():
                require(node.op in ops.BINARY, node, f"operator {node.op}")
            case IRCompare():
                require(node.op in ops.COMPARE, node, f"operator {node.op}")
            case IRBoolOp():
                require(node.op in ("and", "or"), node, f"operator {node.op}")
                require(len(node.values) > 1, node, "fewer than two values")
            case IRBuiltin():
                require(node.name in ops.BUILTINS, node, f"builtin {node.name}")
                least, most = ops.BUILTINS[node.name].arity
                count = len(node.args)
                require(least <= count and (most is None or count <= most), node, f"{count} arguments of {node.name}")
            case IRVectorOp():
                require(node.name == "matmul" or node.name in ops.VECTOR_OPS, node, f"operation {node.name}")
            case IRAtomic():
                require(node.op in ops.ATOMICS, node, f"operation {node.op}")
                require(len(node.args) == (2 if node.op == "cas" else 1), node, f"{len(node.args)} values")
            case IRArrayAttr():
                require(node.attr in ("shape", "size", "ndim"), node, f"attribute {node.attr}")

    def names_of(self, node: Any) -> None:
        """Names that the node holds: each has a symbol of the right kind."""
        match node:
            case IRVar():
                self.known(node.name, (*_SCALAR_KINDS, "array"), node)
            case IRAssign() | IRBind() | IRComponentAssign():
                self.scalars([node.name], node)
            case IRFor():
                self.scalars([node.var], node)
            case IRUnpack():
                self.scalars(node.names, node)
            case IRLoad() | IRStore() | IRAtomic() | IRArrayAttr():
                self.known(node.array, _ARRAY_KINDS, node)
                require(len(getattr(node, "index", [0])) > 0, node, "no index")
                require(len(getattr(node, "component", [0])) > 0, node, "no component")
            case IRArrayRef():
                self.known(node.name, _ARRAY_KINDS, node)
            case IRLocalArray():
                self.known(node.name, ("local_array",), node)

    def scalars(self, names: list[str], node: Any) -> None:
        for name in names:
            self.known(name, _SCALAR_KINDS, node)

    def known(self, name: str, kinds: tuple[str, ...], node: Any) -> None:
        symbol = self.function.symbols.get(name)
        require(symbol is not None, node, f"no symbol {name}")
        assert symbol is not None
        require(symbol.kind in kinds, node, f"{name} is of kind {symbol.kind}")
