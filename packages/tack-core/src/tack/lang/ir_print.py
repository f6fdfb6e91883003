"""IR as text, one statement a line, for `tack.inspect`: the same program always prints the same text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAssert,
    IRAssign,
    IRAtomic,
    IRBarrier,
    IRBind,
    IRBinOp,
    IRBlockReduce,
    IRBoolOp,
    IRBreak,
    IRBuiltin,
    IRCall,
    IRCast,
    IRCompare,
    IRConst,
    IRContinue,
    IRExpr,
    IRExprStmt,
    IRFor,
    IRFunction,
    IRGroupIndex,
    IRIf,
    IRKernel,
    IRLoad,
    IRLocalArray,
    IRNot,
    IRParallelFor,
    IRParam,
    IRPrint,
    IRRange,
    IRRegion,
    IRReturn,
    IRSelect,
    IRStmt,
    IRStore,
    IRTable,
    IRThreadId,
    IRUnary,
    IRUnpack,
    IRVar,
    IRWhile,
    IRWorkgroup,
)
from tack.lang.ir_vector import IRComponent, IRComponentAssign, IRComponentStore, IRVector, IRVectorOp
from tack.lang.types import DType


def print_ir(ir: IRFunction) -> str:
    """The text of a kernel or a device function, untyped or typed; a typed kernel's instances come first."""
    units = [*ir.functions.values(), ir] if isinstance(ir, IRKernel) else [ir]
    return "\n\n".join("\n".join(_function(unit)) for unit in units) + "\n"


def _function(ir: IRFunction) -> Iterator[str]:
    what = "kernel" if isinstance(ir, IRKernel) else "function"
    results = f" -> {', '.join(t.name for t in ir.results)}" if ir.results else ""
    yield f"{what} {ir.name}({', '.join(map(_param, ir.params))}){results}:"
    for table in ir.tables.values():
        yield f"    {_table(table)}"
    for symbol in ir.symbols.values():
        if symbol.dtype is not None and symbol.kind in ("local", "loop", "temp"):
            yield f"    {symbol.kind} {symbol.name}: {symbol.dtype.name}"
    yield from _block(ir.body, "    ")


def _param(param: IRParam) -> str:
    kind = param.type if param.type is not None else param.annotation
    marks = " read" * param.read + " written" * param.written
    return param.name + ("" if kind is None else f": {kind.name if isinstance(kind, DType) else kind}") + marks


def _table(table: IRTable) -> str:
    kind = "" if table.dtype is None else f" {table.dtype.name}"
    return f"table {table.name}{kind} {'x'.join(map(str, table.shape))} = ({', '.join(map(repr, table.values))})"


def _block(body: Iterable[IRStmt], indent: str) -> Iterator[str]:
    for statement in body:
        yield from (indent + line for line in _statement(statement))


def _statement(node: IRStmt) -> Iterator[str]:
    match node:
        case IRIf():
            yield f"if {expr_text(node.cond)}:"
            yield from _block(node.then, "    ")
            if node.other:
                yield "else:"
                yield from _block(node.other, "    ")
        case IRWhile():
            yield f"while {expr_text(node.cond)}:"
            yield from _block(node.body, "    ")
        case IRFor():
            yield f"for {node.var} in {_range(node)}:"
            yield from _block(node.body, "    ")
        case IRParallelFor():
            yield f"parallel for {', '.join(node.vars)} in {' x '.join(map(_range, node.ranges))}:"
            yield from _block(node.body, "    ")
        case IRWorkgroup():
            yield f"workgroups of {node.group}, {', '.join(node.vars)} in {' x '.join(map(_range, node.ranges))}:"
            yield from _block([*node.shared, *node.body], "    ")
        case IRRegion():
            yield "region:"
            yield from _block(node.body, "    ")
        case _:
            yield _simple(node)


def _range(node: IRFor | IRRange) -> str:
    return f"range({expr_text(node.start)}, {expr_text(node.stop)}, {expr_text(node.step)})"


def _simple(node: IRStmt) -> str:
    match node:
        case IRAssign():
            kind = node._resolved_type or node.pinned
            return f"{node.name}{'' if kind is None else ': ' + kind.name} = {expr_text(node.value)}"
        case IRUnpack():
            return f"{', '.join(node.names)} = {expr_text(node.call)}"
        case IRComponentStore():
            component = _list(node.component)
            return f"{node.array}[{_list(node.index)}][{component}] = {expr_text(node.value)}"
        case IRComponentAssign():
            return f"{node.name}[{_list(node.index)}] = {expr_text(node.value)}"
        case IRStore():
            return f"{node.array}[{_list(node.index)}] = {expr_text(node.value)}"
        case IRExprStmt():
            return expr_text(node.value)
        case IRBreak():
            return "break"
        case IRContinue():
            return "continue"
        case IRReturn():
            return f"return {_list(node.values)}".rstrip()
        case IRLocalArray():
            what = "shared" if node.space == "shared" else "local"
            return f"{node.name} = {what}({'x'.join(map(str, node.shape))}, {node.element.name})"
        case IRBarrier():
            return "barrier"
        case IRPrint():
            return f"print({', '.join(repr(p) if isinstance(p, str) else expr_text(p) for p in node.parts)})"
        case IRAssert():
            return f"assert {expr_text(node.cond)}" + ("" if node.message is None else f", {node.message!r}")
    raise AssertionError(f"no text for {type(node).__name__}")


def _list(nodes: Iterable[IRExpr]) -> str:
    return ", ".join(map(expr_text, nodes))


def expr_text(node: IRExpr) -> str:
    """The text of an expression; operations and casts of typed IR show their type as ``:dtype``."""
    text = _expr(node)
    shown = isinstance(node, (IRBinOp, IRUnary, IRSelect, IRBuiltin, IRConst, IRAtomic, IRCall, IRCompare))
    kind = getattr(node, "_operand_type", None) or node.dtype
    return f"{text}:{kind.name}" if shown and kind is not None else text


def _expr(node: IRExpr) -> str:
    match node:
        case IRConst():
            return (
                repr(node.value)
                if node.pinned is None or node.dtype is not None
                else f"{node.value!r}:{node.pinned.name}"
            )
        case IRVar() | IRArrayRef():
            return node.name if isinstance(node, IRVar) else f"&{node.name}"
        case IRArrayAttr():
            return f"{node.array}.{node.attr}" + (f"[{node.axis}]" if node.attr == "shape" else "")
        case IRLoad():
            return f"{node.array}[{_list(node.index)}]"
        case IRVector():
            return f"{'' if node.target is None else node.target.name}[{_list(node.items)}]"
        case IRComponent():
            return f"{expr_text(node.base)}[{_list(node.index)}]"
        case IRVectorOp():
            return f"{node.name}({_list(node.args)})"
        case IRUnary():
            return f"({node.op}{expr_text(node.operand)})"
        case IRBinOp() | IRCompare():
            return f"({expr_text(node.left)} {node.op} {expr_text(node.right)})"
        case IRBoolOp():
            return "(" + f" {node.op} ".join(map(expr_text, node.values)) + ")"
        case IRNot():
            return f"(not {expr_text(node.operand)})"
        case IRSelect():
            return f"({expr_text(node.then)} if {expr_text(node.cond)} else {expr_text(node.other)})"
        case IRBind():
            return f"({node.name} := {expr_text(node.value)})"
        case IRCast():
            return f"{'' if node.explicit else '~'}{node.target.name}({expr_text(node.operand)})"
        case IRBuiltin():
            return f"{node.name}({_list(node.args)})"
        case IRAtomic():
            return f"atomic_{node.op}({node.array}[{_list(node.index)}], {_list(node.args)})"
        case IRThreadId() | IRGroupIndex():
            return "thread_id()" if isinstance(node, IRThreadId) else "group_index()"
        case IRBlockReduce():
            return f"block_{node.op}({expr_text(node.value)})"
        case IRCall():
            return f"{node.symbol or node.callee.source.name}({_list(node.args)})"
    raise AssertionError(f"no text for {type(node).__name__}")
