"""Kernels made from text, and their typed IR: for tests of the typing pass."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Iterator
from typing import Any

import tack
from tack.lang.ast_transform import lower_kernel
from tack.lang.ir import IRFunction, IRKernel, IRNode, IRStore, walk
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.ir_verify import verify_typed, verify_untyped
from tack.lang.types import ArrayType, DType, ValueType

_COUNT = itertools.count()


def module(text: str, **names: Any) -> dict[str, Any]:
    """Run text whose source Tack can find, with `tack` and `names` in its namespace; the namespace."""
    text = textwrap.dedent(text)
    file = f"<typing rig {next(_COUNT)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"tack": tack, "__name__": "typing_rig_module", **names}
    exec(compile(text, file, "exec", dont_inherit=True), namespace)
    return namespace


def kernel_of(body: str, params: str = "out", **names: Any) -> tack.lang.kernel.Kernel:
    """The kernel ``k`` whose one parallel loop over ``range(4)`` has this body."""
    inner = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    text = f"@tack.kernel\ndef k({params}):\n    for i in range(4):\n{inner}\n"
    return module(text, **names)["k"]


def typed(kernel: Any, *types: ValueType) -> IRKernel:
    """The typed IR, verified before and after."""
    untyped = lower_kernel(kernel.source).ir
    verify_untyped(untyped)
    result = annotate_types(untyped, list(types))
    verify_typed(result)
    verify_untyped(untyped)  # typing only reads it
    return result


def typed_body(body: str, params: dict[str, ValueType], **names: Any) -> IRKernel:
    return typed(kernel_of(body, ", ".join(params), **names), *params.values())


def array(dtype: DType, ndim: int = 1) -> ArrayType:
    return ArrayType(dtype, ndim)


def nodes(function: IRFunction, kind: type[IRNode]) -> Iterator[Any]:
    return (node for node in walk(function.body) if isinstance(node, kind))


def stored(kernel: IRKernel, name: str = "out") -> Any:
    """The value of the last store to an array, as it was written: without an implicit conversion."""
    value = [node for node in nodes(kernel, IRStore) if node.array == name][-1].value
    return value.operand if getattr(value, "explicit", True) is False else value


def result_type(expression: str, params: dict[str, ValueType], target: DType = tack.i8, **names: Any) -> DType:
    """The type of an expression, stored to an array whose type lends it nothing."""
    kernel = typed_body(f"out[i] = {expression}", {"out": array(target), **params}, **names)
    return stored(kernel).dtype
