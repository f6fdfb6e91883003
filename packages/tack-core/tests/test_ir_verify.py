"""Each invariant of the IR, violated once, is caught: a sound kernel is changed in one place (rules TYPE-1, SPEC-1)."""

from __future__ import annotations

from types import FunctionType

import pytest

import tack
from tack.lang.ast_transform import lower_kernel
from tack.lang.ir import (
    IRArrayAttr,
    IRArrayRef,
    IRAssign,
    IRAtomic,
    IRBinOp,
    IRBoolOp,
    IRBreak,
    IRBuiltin,
    IRCall,
    IRCast,
    IRCompare,
    IRConst,
    IRContinue,
    IRExprStmt,
    IRFor,
    IRIf,
    IRKernel,
    IRLoad,
    IRLocalArray,
    IRNot,
    IRParallelFor,
    IRPrint,
    IRReturn,
    IRSelect,
    IRStore,
    IRUnary,
    IRUnpack,
    IRVar,
    walk,
)
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.ir_verify import verify_typed, verify_untyped
from tack.lang.records import replace
from tack.lang.types import ArrayType, f32, f64, i8, i32, i64, u8

TABLE = (1, 2, 3)


@tack.func
def pair(x, y):
    return x, y + 1


@tack.func
def put(a, k):
    a[k] = pair_sum(k)


@tack.func
def pair_sum(k):
    p, q = pair(k, 2)
    return p + q


@tack.kernel
def everything(a, b, n, s):
    m = n + 1
    for i, j in tack.ndrange(a.shape[0], (1, n)):
        t = -a[i, j] * s
        t += m
        scratch = tack.local(4, tack.u8)
        scratch[0] = ~n
        for k in range(n):
            if k == 3 or not n:
                break
            if k < n < m:
                continue
            t = min(t, k, 1.5) if b[k] > 0 else abs(t)
        put(b, n)
        tack.atomic_add(b, 0, t)
        a[i, j] = t + pair_sum(n) ** 2 + TABLE[n] + tack.isnan(t) + tack.clz(n << 1) + tack.f32(n)
        print("t =", t)
    return m


def untyped():
    return lower_kernel(everything.source).ir


def typed() -> IRKernel:
    return annotate_types(untyped(), [ArrayType(f64, 2), ArrayType(i64, 1), i32, f32])


def first(ir, kind, test=lambda node: True):
    functions = [ir, *getattr(ir, "functions", {}).values()]
    return next(n for f in functions for n in walk(f.body) if isinstance(n, kind) and test(n))


def loop(ir):
    return first(ir, IRParallelFor)


def test_the_sound_kernel_passes():
    verify_untyped(untyped())
    verify_typed(typed())


def change(attribute, value, kind, test=lambda node: True):
    """A violation: the first node of a kind gets an attribute, computed from the node if `value` is callable."""

    def apply(ir):
        node = first(ir, kind, test)
        setattr(node, attribute, value(node) if isinstance(value, FunctionType) else value)

    return apply


def into_loop(statement):
    return lambda ir: loop(ir).body.append(statement(loop(ir).loc))


def to_top(statement):
    return lambda ir: ir.body.insert(0, statement(ir.loc))


def const(loc, **more):
    return IRConst(loc=loc, value=1, dtype=i64, **more)


def store(loc):
    return IRStore(loc=loc, array="b", index=[const(loc)], value=const(loc))


def symbol(which, **changes):
    def apply(ir):
        ir.symbols[which] = replace(ir.symbols[which], **changes)

    return apply


def with_op(op):
    return lambda node: node.op == op


STRUCTURE = {
    "unknown name": change("name", "nowhere", IRVar),
    "unknown array": change("array", "nowhere", IRLoad),
    "unknown target": change("name", "nowhere", IRAssign),
    "scalar as array": change("array", "t", IRLoad),
    "local array as scalar": change("name", "scratch", IRVar),
    "symbol under another name": symbol("t", name="u"),
    "kind of symbol": symbol("t", kind="register"),
    "parameter without symbol": lambda ir: ir.symbols.pop("s"),
    "parameter twice": lambda ir: ir.params.append(ir.params[0]),
    "table without symbol": symbol("TABLE", kind="local"),
    "table of another size": lambda ir: setattr(ir.tables["TABLE"], "shape", (2, 2)),
    "unary operator": change("op", "+", IRUnary),
    "binary operator": change("op", "@", IRBinOp),
    "comparison": change("op", "is", IRCompare),
    "truth operator": change("op", "xor", IRBoolOp),
    "lone truth value": change("values", lambda n: n.values[:1], IRBoolOp),
    "builtin": change("name", "gamma", IRBuiltin),
    "arity of builtin": change("args", [], IRBuiltin),
    "atomic": change("op", "nand", IRAtomic),
    "arguments of atomic": change("args", lambda n: n.args * 2, IRAtomic),
    "no index": change("index", [], IRLoad),
    "break in a parallel loop": into_loop(lambda loc: IRBreak(loc=loc)),
    "continue outside": to_top(lambda loc: IRIf(loc=loc, cond=const(loc), then=[IRContinue(loc=loc)], other=[])),
    "return in a loop": into_loop(lambda loc: IRReturn(loc=loc, values=[const(loc)])),
    "return before the end": to_top(lambda loc: IRReturn(loc=loc, values=[const(loc)])),
    "kernel returns two values": change("values", lambda n: n.values * 2, IRReturn, lambda n: len(n.values) == 1),
    "store outside the loops": to_top(lambda loc: IRIf(loc=loc, cond=const(loc), then=[store(loc)], other=[])),
    "bare store outside the loops": to_top(store),
    "parallel loop inside": lambda ir: loop(ir).body.append(replace(loop(ir), body=[])),
    "variables and ranges": lambda ir: loop(ir).vars.pop(),
    "bound is no host expression": lambda ir: setattr(
        loop(ir).ranges[0], "stop", IRCast(loc=ir.loc, target=i64, operand=IRConst(loc=ir.loc, value=1))
    ),
    "bound is typed": lambda ir: setattr(loop(ir).ranges[0].stop, "dtype", i64),
    "expression as statement": into_loop(lambda loc: IRExprStmt(loc=loc, value=const(loc))),
    "array outside a call": change("value", lambda n: IRArrayRef(loc=n.loc, name="a"), IRAssign),
    "one name twice": lambda ir: loop(ir).body.append(
        IRUnpack(loc=ir.loc, names=["t", "t"], call=IRCall(loc=ir.loc, callee=pair, args=[]))
    ),
    "no extent": change("shape", (0,), IRLocalArray),
    "print without end": change("parts", [], IRPrint),
    "attribute": lambda ir: loop(ir).body.append(
        IRAssign(loc=ir.loc, name="t", value=IRArrayAttr(loc=ir.loc, array="a", attr="strides"))
    ),
    "annotations differ": lambda ir: [
        setattr(n, "pinned", p) for n, p in zip(assigns(ir, "t"), [i8, u8], strict=False)
    ],
    "statement that is an expression": lambda ir: loop(ir).body.append(const(ir.loc)),
}


def assigns(ir, name):
    return [n for n in walk(ir.body) if isinstance(n, IRAssign) and n.name == name]


@pytest.mark.parametrize("name", STRUCTURE)
@pytest.mark.parametrize("make", [untyped, typed])
def test_structure(make, name):
    ir = make()
    STRUCTURE[name](ir)
    verify = verify_typed if make is typed else verify_untyped
    with pytest.raises(AssertionError, match=r"test_ir_verify.py:\d+"):
        verify(ir)


UNTYPED = {
    "dtype": change("dtype", i64, IRVar),
    "operand type": change("_operand_type", i64, IRCompare),
    "resolved type": change("_resolved_type", i64, IRAssign),
    "instance": change("symbol", "pair", IRCall),
    "array type": change("array_type", ArrayType(i8, 1), IRArrayRef),
    "results": lambda ir: setattr(ir, "results", (i64,)),
    "parameter": lambda ir: setattr(ir.params[0], "type", i64),
}


@pytest.mark.parametrize("name", UNTYPED)
def test_nothing_is_typed_before_typing(name):
    ir = untyped()
    UNTYPED[name](ir)
    with pytest.raises(AssertionError, match="before typing"):
        verify_untyped(ir)


def operand_of_type(field, dtype=f32):
    """Replace a part of a node by a constant of a type that nothing in the kernel has there."""
    return lambda node: setattr(node, field, IRConst(loc=node.loc, value=1, dtype=dtype))


def part(kind, field, test=lambda node: True):
    return lambda ir: operand_of_type(field, i8)(first(ir, kind, test))


def parts(kind, field):
    def apply(ir):
        node = first(ir, kind)
        getattr(node, field)[0] = IRConst(loc=node.loc, value=1, dtype=i8)

    return apply


def function(name, **changes):
    return lambda ir: [setattr(ir.functions[name], field, value) for field, value in changes.items()]


TYPED = {
    "no dtype": change("dtype", None, IRLoad),
    "symbol without type": symbol("t", dtype=None),
    "symbol with two types": symbol("t", array_type=ArrayType(i8, 1)),
    "array symbol of a scalar kind": symbol("a", kind="param"),
    "parameter and its symbol": lambda ir: setattr(ir.params[2], "type", i64),
    "table and its symbol": lambda ir: setattr(ir.tables["TABLE"], "dtype", i8),
    "variable": change("dtype", i8, IRVar),
    "constant out of range": change("value", 2**70, IRConst, lambda n: n.dtype.is_integer),
    "constant that is a bool": change("value", True, IRConst),
    "integer constant that is a float": change("value", 1.0, IRConst, lambda n: n.dtype.is_integer),
    "operand of unary": part(IRUnary, "operand"),
    "unary type": change("dtype", f64, IRUnary, with_op("~")),
    "left operand": part(IRBinOp, "left"),
    "right operand": part(IRBinOp, "right"),
    "exponent": part(IRBinOp, "right", with_op("**")),
    "left of comparison": part(IRCompare, "left"),
    "right of comparison": part(IRCompare, "right"),
    "type of comparison": change("dtype", i64, IRCompare),
    "operands of comparison": change("_operand_type", None, IRCompare),
    "type of and": change("dtype", i64, IRBoolOp),
    "type of not": change("dtype", i64, IRNot),
    "arm": part(IRSelect, "then"),
    "other arm": part(IRSelect, "other"),
    "cast to another type": change("dtype", i8, IRCast),
    "cast of nothing": change("target", lambda n: n.operand.dtype, IRCast, lambda n: not n.explicit),
    "implicit cast of nothing": lambda ir: [
        setattr(n, field, n.operand.dtype)
        for n in [first(ir, IRCast, lambda n: not n.explicit)]
        for field in ("target", "dtype")
    ],
    "argument of builtin": parts(IRBuiltin, "args"),
    "operand type of builtin": change("_operand_type", None, IRBuiltin),
    "result of builtin": change("dtype", i8, IRBuiltin),
    "predicate of an integer": change("_operand_type", i64, IRBuiltin, lambda n: n.name == "isnan"),
    "element": change("dtype", i8, IRLoad),
    "index": parts(IRLoad, "index"),
    "count of indices": change("index", lambda n: n.index * 3, IRLoad),
    "value of store": part(IRStore, "value"),
    "index of store": parts(IRStore, "index"),
    "store to a table": change("array", "TABLE", IRStore),
    "value of assignment": part(IRAssign, "value"),
    "resolved type": change("_resolved_type", i8, IRAssign),
    "value of atomic": parts(IRAtomic, "args"),
    "type of atomic": change("dtype", i8, IRAtomic),
    "atomic on private storage": change("array", "scratch", IRAtomic),
    "bits of a float atomic": lambda ir: [
        setattr(n, field, value)
        for n in [first(ir, IRAtomic)]
        for field, value in (("op", "and"), ("array", "a"), ("dtype", f64))
    ],
    "bound of a serial loop": part(IRFor, "stop"),
    "loop variable": symbol("k", dtype=i32),
    "parallel loop variable": symbol("i", dtype=i32),
    "local array": change("element", i8, IRLocalArray),
    "results of a kernel": lambda ir: setattr(ir, "results", (i8,)),
    "two results of a kernel": lambda ir: setattr(ir, "results", ir.results * 2),
    "unknown instance": change("symbol", "nowhere", IRCall),
    "caller before callee": lambda ir: setattr(ir, "functions", dict(reversed(ir.functions.items()))),
    "instance under another name": lambda ir: ir.functions.update(again=ir.functions["pair"]),
    "count of arguments": change("args", [], IRCall),
    "type of argument": lambda ir: first(ir, IRCall, lambda n: n.symbol == "pair_sum").args.__setitem__(
        0, const(ir.loc)
    ),
    "array argument": change("array_type", ArrayType(i8, 3), IRArrayRef),
    "dtype of a call for two": change("dtype", i64, IRCall, lambda n: n.symbol == "pair"),
    "names for results": lambda ir: [n.names.pop() for n in [first(ir, IRUnpack)]],
    "type of results": function("pair", results=(i8, i8)),
    "result without a return": function("pair_sum", results=()),
}


@pytest.mark.parametrize("name", TYPED)
def test_types(name):
    ir = typed()
    TYPED[name](ir)
    with pytest.raises(AssertionError, match=r"test_ir_verify.py:\d+"):
        verify_typed(ir)


def test_missing_axis():
    ir = annotate_types(lower_kernel(extents.source).ir, [ArrayType(f32, 2)])
    verify_typed(ir)
    first(ir, IRArrayAttr).axis = 2
    with pytest.raises(AssertionError, match="no axis 2"):
        verify_typed(ir)


@tack.kernel
def extents(a):
    for i in range(4):
        a[i] = a.shape[1]


def test_messages_name_node_and_place():
    """SRC-6, for ourselves: the node's class and the user's line."""
    ir = typed()
    node = first(ir, IRStore)
    node.value.dtype = f32
    with pytest.raises(AssertionError, match=rf"test_ir_verify.py:{node.loc.line}:\d+: IRStore: a part is tack.f32"):
        verify_typed(ir)
