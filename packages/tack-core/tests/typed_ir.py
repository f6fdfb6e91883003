"""Typed IR written by hand, and launches on raw argument blocks: for tests of a generator alone."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from tack.lang import ir
from tack.lang.diagnostics import Loc, SourceText
from tack.lang.types import ArrayType, DType, Scalar, dtype_of_numpy, i32, i64, u64
from tack.runtime.backend import VariantOptions
from tack.runtime.cpu_backend import CpuBackend

LOC = Loc(SourceText("hand_written.py", ("",)), "kernel `k`", 1, 0, 1)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
WORD_BITS = 64


def const(value: int | float, dtype: DType = i64) -> ir.IRConst:
    return ir.IRConst(loc=LOC, value=value, dtype=dtype)


def var(name: str, dtype: DType = i64) -> ir.IRVar:
    return ir.IRVar(loc=LOC, name=name, dtype=dtype)


def load(array: str, dtype: DType, *index: ir.IRExpr) -> ir.IRLoad:
    return ir.IRLoad(loc=LOC, array=array, index=list(index), dtype=dtype)


def store(array: str, value: ir.IRExpr, *index: ir.IRExpr) -> ir.IRStore:
    return ir.IRStore(loc=LOC, array=array, index=list(index), value=value)


def assign(name: str, value: ir.IRExpr) -> ir.IRAssign:
    return ir.IRAssign(loc=LOC, name=name, value=value, _resolved_type=value.dtype)


def binary(op: str, left: ir.IRExpr, right: ir.IRExpr) -> ir.IRExpr:
    """An operator or comparison with the type of its left operand; an integer exponent is converted to u64."""
    if op in COMPARISONS:
        return ir.IRCompare(loc=LOC, op=op, left=left, right=right, dtype=i32, _operand_type=left.dtype)
    if op == "**" and left.dtype is not None and left.dtype.is_integer:
        right = cast(right, u64)
    return ir.IRBinOp(loc=LOC, op=op, left=left, right=right, dtype=left.dtype)


def unary(op: str, operand: ir.IRExpr) -> ir.IRUnary:
    return ir.IRUnary(loc=LOC, op=op, operand=operand, dtype=operand.dtype)


def cast(operand: ir.IRExpr, target: DType) -> ir.IRCast:
    return ir.IRCast(loc=LOC, target=target, operand=operand, dtype=target)


def builtin(name: str, *args: ir.IRExpr, result: DType | None = None) -> ir.IRBuiltin:
    operand = args[0].dtype
    return ir.IRBuiltin(loc=LOC, name=name, args=list(args), dtype=result or operand, _operand_type=operand)


def logical(op: str, *values: ir.IRExpr) -> ir.IRBoolOp:
    return ir.IRBoolOp(loc=LOC, op=op, values=list(values), dtype=i32)


def select(cond: ir.IRExpr, then: ir.IRExpr, other: ir.IRExpr) -> ir.IRSelect:
    return ir.IRSelect(loc=LOC, cond=cond, then=then, other=other, dtype=then.dtype)


def atomic(op: str, array: str, dtype: DType, index: ir.IRExpr, *args: ir.IRExpr) -> ir.IRAtomic:
    return ir.IRAtomic(loc=LOC, op=op, array=array, index=[index], args=list(args), dtype=dtype)


def shape(array: str, axis: int = 0) -> ir.IRArrayAttr:
    return ir.IRArrayAttr(loc=LOC, array=array, attr="shape", axis=axis, dtype=i64)


def host(op: str, left: ir.IRExpr, right: ir.IRExpr) -> ir.IRBinOp:
    """An operator of a bound, which has no type."""
    return ir.IRBinOp(loc=LOC, op=op, left=left, right=right)


def span(stop: ir.IRExpr, start: ir.IRExpr | int = 0, step: ir.IRExpr | int = 1) -> ir.IRRange:
    def expr(x: ir.IRExpr | int) -> ir.IRExpr:
        return ir.IRConst(loc=LOC, value=x) if isinstance(x, int) else x

    return ir.IRRange(start=expr(start), stop=stop, step=expr(step))


def parallel(ranges: list[ir.IRRange], body: list[ir.IRStmt], *names: str) -> ir.IRParallelFor:
    return ir.IRParallelFor(loc=LOC, vars=list(names or ("i",)), ranges=ranges, body=body)


def each(array: str, *body: ir.IRStmt) -> ir.IRParallelFor:
    """A parallel loop over the first axis of an array, by `i`."""
    return parallel([span(shape(array))], list(body))


def kernel(
    params: dict[str, DType | ArrayType],
    *body: ir.IRStmt,
    local: dict[str, DType] | None = None,
    functions: dict[str, ir.IRFunction] | None = None,
    results: tuple[DType, ...] = (),
    written: set[str] | None = None,
) -> ir.IRKernel:
    """A typed kernel; every scalar is i64 unless `local` says otherwise, and every array may be written."""
    symbols: dict[str, ir.Symbol] = {}
    for name, type_ in params.items():
        array, kind = (type_, "array") if isinstance(type_, ArrayType) else (None, "param")
        dtype = type_ if isinstance(type_, DType) else None
        symbols[name] = ir.Symbol(name=name, kind=kind, source_name=name, loc=LOC, dtype=dtype, array_type=array)
    for name in _scalars(list(body)):
        if name not in symbols:
            dtype = (local or {}).get(name, i64)
            symbols[name] = ir.Symbol(name=name, kind="local", source_name=name, loc=LOC, dtype=dtype)
    declared = [
        ir.IRParam(name=name, loc=LOC, type=type_, read=True, written=written is None or name in written)
        for name, type_ in params.items()
    ]
    return ir.IRKernel(
        name="k",
        loc=LOC,
        params=declared,
        body=list(body),
        symbols=symbols,
        functions=functions or {},
        results=results,
    )


def _scalars(body: list[ir.IRStmt]) -> list[str]:
    names: list[str] = []
    for node in ir.walk(body):
        match node:
            case ir.IRParallelFor():
                names += node.vars
            case ir.IRAssign(name=name) | ir.IRBind(name=name) | ir.IRFor(var=name):
                names.append(name)
            case ir.IRUnpack():
                names += node.names
    return names


@dataclass
class Launch:
    """What a launch gave: its status, and the word of its result."""

    status: int
    word: int


def run(tree: ir.IRKernel, *args: Any, disjoint: bool = False) -> Launch:
    """Compile for the CPU and launch once on NumPy arrays and numbers."""
    executable = CpuBackend().compile(tree, VariantOptions(disjoint=disjoint))
    return launch(executable, *args)


def launch(executable: Any, *args: Any) -> Launch:
    words: list[int] = []
    alive = []
    for arg in args:
        if isinstance(arg, np.ndarray):
            extents = (ctypes.c_int64 * max(1, arg.ndim))(*arg.shape)
            alive.append(extents)
            words += [arg.__array_interface__["data"][0], arg.nbytes, ctypes.addressof(extents)]
        else:
            words += [_word(arg.value if isinstance(arg, Scalar) else arg), 0, 0]
    block = (ctypes.c_int64 * (len(words) + 1))(*words, 0)
    status = executable.launch(ctypes.addressof(block))
    return Launch(status, block[len(words)])


def _word(value: int | float) -> int:
    if isinstance(value, float):
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return value - (1 << WORD_BITS) if value >= 1 << (WORD_BITS - 1) else value


def array_type(array: np.ndarray[Any, Any]) -> ArrayType:
    dtype = dtype_of_numpy(array.dtype)
    assert dtype is not None
    return ArrayType(dtype, array.ndim)
