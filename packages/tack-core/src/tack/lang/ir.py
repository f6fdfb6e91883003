"""The intermediate representation: what a kernel means, with no target in it.

Two stages share these nodes (docs/design/pipeline.md has the whole story).

* **Untyped** (made by `ast_transform`): names are resolved, syntax is gone, `dtype` is None.
* **Typed** (made by `annotate_types`): every expression has a `dtype`, and every implicit conversion has become an
  `IRCast`, so that both operands of an operation already have the type it runs in. A generator never converts anything
  by itself and never derives a type. `ir_verify` states what is legal at each stage.

Expressions evaluate their operands left to right. Symbols are unique within a function: a Python name keeps its
spelling, a second meaning of a name gets ``name.2``, compiler temporaries start with ``%``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from tack.lang.diagnostics import Loc
from tack.lang.records import field, field_types, record
from tack.lang.types import ArrayType, DType, ValueType

# --------------------------------------------------------------------------------------------------- expressions


@record(eq=False, kw_only=True)
class IRNode:
    loc: Loc


@record(eq=False, kw_only=True)
class IRExpr(IRNode):
    """A value. `_literal` and `_weak` mark (rules LIT-*) a literal expression, and one holding a float literal."""

    dtype: DType | None = None
    _literal: bool = False
    _weak: bool = False


@record(eq=False, kw_only=True)
class IRConst(IRExpr):
    """A number: a literal, a captured number, or (with `pinned`) a typed `tack.constant`. Typed: exact at `dtype`,
    except that an f32 or f64 constant holds the Python value, which the generator rounds once."""

    value: int | float
    pinned: DType | None = None


@record(eq=False, kw_only=True)
class IRVar(IRExpr):
    """A read of a scalar symbol: parameter, local, loop variable or temporary."""

    name: str


@record(eq=False, kw_only=True)
class IRArrayRef(IRExpr):
    """An array passed by reference; only as an argument of `IRCall`. Typed: `array_type` is set; dtype stays None."""

    name: str
    array_type: ArrayType | None = None


@record(eq=False, kw_only=True)
class IRArrayAttr(IRExpr):
    """`a.shape[axis]` ("shape"), `a.size` or `a.ndim`; always i64. `len(a)` is the shape of axis 0."""

    array: str
    attr: str
    axis: int = 0


@record(eq=False, kw_only=True)
class IRLoad(IRExpr):
    """`array[index]`: one index a dimension, or one flat index. Typed: every index is i64 after an IRCast."""

    array: str
    index: list[IRExpr]


@record(eq=False, kw_only=True)
class IRUnary(IRExpr):
    """`op` is "-" or "~". Typed: operand has this node's dtype. (Unary plus is dropped when lowered.)"""

    op: str
    operand: IRExpr


@record(eq=False, kw_only=True)
class IRBinOp(IRExpr):
    """`op` is one of ``+ - * / // % ** << >> & | ^``. Typed: both operands have this node's dtype, except that the
    exponent of an integer power is u64 (a negative run-time exponent is a caller constraint)."""

    op: str
    left: IRExpr
    right: IRExpr


@record(eq=False, kw_only=True)
class IRCompare(IRExpr):
    """One comparison (``< <= > >= == !=``), i32 0/1. Typed: both operands have `_operand_type`."""

    op: str
    left: IRExpr
    right: IRExpr
    _operand_type: DType | None = None


@record(eq=False, kw_only=True)
class IRBoolOp(IRExpr):
    """`op` is "and" or "or": short-circuit, i32 0/1. Each value is a condition (nonzero is true, NaN is true)."""

    op: str
    values: list[IRExpr]


@record(eq=False, kw_only=True)
class IRNot(IRExpr):
    """`not x`: i32 0/1; the operand is a condition."""

    operand: IRExpr


@record(eq=False, kw_only=True)
class IRSelect(IRExpr):
    """`then if cond else other`; only the chosen arm is evaluated. Typed: both arms have this node's dtype."""

    cond: IRExpr
    then: IRExpr
    other: IRExpr


@record(eq=False, kw_only=True)
class IRBind(IRExpr):
    """Evaluate `value`, keep it in the temporary `name`, and yield it (the middle operand of a comparison chain)."""

    name: str
    value: IRExpr


@record(eq=False, kw_only=True)
class IRCast(IRExpr):
    """Conversion to `target` (== dtype once typed). `explicit` casts were written; the others annotate_types added."""

    target: DType
    operand: IRExpr
    explicit: bool = True


@record(eq=False, kw_only=True)
class IRBuiltin(IRExpr):
    """A builtin of `ops.BUILTINS` by name. Typed: every argument has `_operand_type`; the row gives the result."""

    name: str
    args: list[IRExpr]
    _operand_type: DType | None = None


@record(eq=False, kw_only=True)
class IRAtomic(IRExpr):
    """`tack.atomic_<op>(array, index, args...)`, yielding the old value. `args` is (value,), for "cas" (expected,
    desired); evaluated index first, then args. Typed: args and the result have the element type."""

    op: str
    array: str
    index: list[IRExpr]
    args: list[IRExpr]


@record(eq=False, kw_only=True)
class IRCall(IRExpr):
    """A call of a device function. Untyped: `callee` is the `Func`. Typed: `symbol` names the instance in
    `IRKernel.functions`, and scalar arguments have the parameter types. A call for several results or none is legal
    only in IRUnpack and IRExprStmt; its dtype is None."""

    callee: Any
    args: list[IRExpr]
    symbol: str | None = None


@record(eq=False, kw_only=True)
class IRThreadId(IRExpr):
    """`tack.thread_id()`: the lane's number in its workgroup, i32; past the end of the trip count as well."""


@record(eq=False, kw_only=True)
class IRGroupIndex(IRExpr):
    """The workgroup's number, i64: flat iteration // group size. Made by the workgroup pass only."""


@record(eq=False, kw_only=True)
class IRBlockReduce(IRExpr):
    """`tack.block_<op>(value)`, a collective: `op` is "sum", "min" or "max". Typed: value and result are f32.
    Split: only as the whole value of an IRAssign in an IRWorkgroup's tree, of a local that nothing else reads."""

    op: str
    value: IRExpr


# ---------------------------------------------------------------------------------------------------- statements


@record(eq=False, kw_only=True)
class IRStmt(IRNode):
    pass


@record(eq=False, kw_only=True)
class IRAssign(IRStmt):
    """`name = value`. Typed: the value has `_resolved_type`, the one type of that local."""

    name: str
    value: IRExpr
    pinned: DType | None = None  # x: tack.f64 = ...
    _resolved_type: DType | None = None


@record(eq=False, kw_only=True)
class IRUnpack(IRStmt):
    """`t0, t1 = f(...)`: the results of a device function into fresh temporaries."""

    names: list[str]
    call: IRCall


@record(eq=False, kw_only=True)
class IRStore(IRStmt):
    """`array[index] = value`: the value is evaluated before the index. Typed: the value has the element type.

    `moves`: the compiler moves an element of a local array, which may have no value yet, and then still has none.
    """

    array: str
    index: list[IRExpr]
    value: IRExpr
    moves: bool = False


@record(eq=False, kw_only=True)
class IRExprStmt(IRStmt):
    """A call or an atomic for its effect."""

    value: IRExpr


@record(eq=False, kw_only=True)
class IRIf(IRStmt):
    cond: IRExpr
    then: list[IRStmt]
    other: list[IRStmt]


@record(eq=False, kw_only=True)
class IRWhile(IRStmt):
    cond: IRExpr
    body: list[IRStmt]


@record(eq=False, kw_only=True)
class IRFor(IRStmt):
    """A serial `for var in range(start, stop, step)`. The three are evaluated once, in order; typed: all i64. `var` is
    an i64 local that is set at the start of each iteration from a hidden counter, so the body may assign it."""

    var: str
    start: IRExpr
    stop: IRExpr
    step: IRExpr
    body: list[IRStmt]


@record(eq=False, kw_only=True)
class IRBreak(IRStmt):
    pass


@record(eq=False, kw_only=True)
class IRContinue(IRStmt):
    """In a parallel loop's own body: ends that iteration."""


@record(eq=False, kw_only=True)
class IRReturn(IRStmt):
    """Device function: anywhere, `values` are its results (none, one or several). Kernel: last statement, one value."""

    values: list[IRExpr]


@record(eq=False, kw_only=True)
class IRLocalArray(IRStmt):
    """`name = tack.local(shape, dtype)`: private storage of this iteration, contents undefined. In the space "shared",
    `tack.shared`: storage of a workgroup, before a parallel loop or directly in its body."""

    name: str
    shape: tuple[int, ...]
    element: DType
    space: str = "private"


@record(eq=False, kw_only=True)
class IRBarrier(IRStmt):
    """`tack.barrier()`, a collective: orders shared and global memory within the workgroup."""


@record(eq=False, kw_only=True)
class IRPrint(IRStmt):
    """`print(...)`: literal text and numbers, in order. `sep`-joined text is already in the parts, and the last part
    ends with the `end` string."""

    parts: list[str | IRExpr]


@record(eq=False, kw_only=True)
class IRAssert(IRStmt):
    """Kept for checked mode; generators of unchecked variants skip it, with the statements that `cond` needs `before`
    (scalarised vectors have such)."""

    cond: IRExpr
    message: str | None
    before: list[IRStmt] = field(default_factory=list)


@record(eq=False, kw_only=True)
class IRRange:
    """One dimension of a parallel loop. The bounds are HOST expressions (`bounds.py`): Python integers at run time,
    made only of IRConst, IRVar of scalar parameters, IRArrayAttr, ``+ - * // %``, unary minus and min/max. They are
    never annotated."""

    start: IRExpr
    stop: IRExpr
    step: IRExpr


@record(eq=False, kw_only=True)
class IRParallelFor(IRStmt):
    """A parallel loop over the product of `ranges` (last index fastest); `vars` are i64. Only at a kernel's top."""

    vars: list[str]
    ranges: list[IRRange]
    body: list[IRStmt]


@record(eq=False, kw_only=True)
class IRRegion(IRStmt):
    """Part of an IRWorkgroup without collectives: run by each lane that is within the trip count, and by no other."""

    body: list[IRStmt]


@record(eq=False, kw_only=True)
class IRWorkgroup(IRStmt):
    """A parallel loop that uses workgroups, split at its collectives (docs/design/workgroups.md). Workgroup w runs the
    flat iterations from ``w * group`` on, below ``(w + 1) * group``, one a lane.

    `body` is a tree: IRRegion, IRBarrier, IRAssign of an IRBlockReduce or (and IRUnpack) of what is uniform, and IRIf,
    IRWhile, IRFor, IRBreak, IRContinue under uniform control, with such trees in them. Everything outside the regions
    is done by all lanes, also those past the end, and reads only what is the same for all of them."""

    vars: list[str]
    ranges: list[IRRange]
    group: int
    shared: list[IRLocalArray]
    body: list[IRStmt]


# ------------------------------------------------------------------------------------------ functions and kernels


@record(eq=False, kw_only=True)
class Symbol:
    """What a symbol is: "param", "local", "loop" or "temp" (scalars), "array" (an array parameter or a table), or
    "local_array" (shared ones too). `source_name` is what the user wrote. `dtype` is set when typed."""

    name: str
    kind: str
    source_name: str
    loc: Loc
    dtype: DType | None = None
    array_type: ArrayType | None = None


@record(eq=False, kw_only=True)
class IRParam:
    """A parameter: `annotation` pins a scalar (`n: tack.i64`); `type` is set when typed. `written` and `read` say
    whether an array parameter may be stored to (atomics included) or loaded from, device functions included; `early`
    that it is loaded from outside the parallel loops."""

    name: str
    loc: Loc
    annotation: DType | None = None
    type: ValueType | None = None
    written: bool = False
    read: bool = False
    early: bool = False


@record(eq=False, kw_only=True)
class IRTable:
    """A captured tuple (or tuple of tuples) of numbers, indexable at run time; row-major `values`."""

    name: str
    shape: tuple[int, ...]
    values: tuple[int | float, ...]
    dtype: DType | None = None


@record(eq=False, kw_only=True)
class IRFunction:
    """A device function: a template (untyped) or an instance for certain argument types (typed, `results` set).
    `samples` marks `Texture3D.sample`, which devices with images do by other means."""

    name: str
    loc: Loc
    params: list[IRParam]
    body: list[IRStmt]
    symbols: dict[str, Symbol]
    tables: dict[str, IRTable] = field(default_factory=dict)
    results: tuple[DType, ...] = ()
    samples: bool = False


@record(eq=False, kw_only=True)
class IRKernel(IRFunction):
    """A kernel. `body` holds effect-free statements on locals, IRParallelFor, and at most one trailing IRReturn. Each
    parallel iteration starts from the values that the statements before its loop give. Typed: `functions` holds every
    instance that is called, callees before callers; `results` is () or the one result type. `group` is the number of
    lanes of a workgroup; loops that use workgroups become IRWorkgroup after typing."""

    functions: dict[str, IRFunction] = field(default_factory=dict)
    group: int = 256


# -------------------------------------------------------------------------------------------------- tree walking


_NODES: Final = (IRNode, IRRange)


@functools.cache
def child_fields(cls: type[Any]) -> tuple[str, ...]:
    """The fields of a class that may hold nodes, by the text of their annotations: compiling walks trees a lot."""
    return tuple(name for name, kind in field_types(cls).items() if "IR" in str(kind))


def children(node: IRNode | IRRange) -> Iterator[Any]:
    """The IR nodes directly inside `node`, in evaluation order of the fields."""
    cls: Any = type(node)  # mypy finds no hash on a dataclass without eq
    for name in child_fields(cls):
        value = getattr(node, name)
        if isinstance(value, _NODES):
            yield value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, _NODES):
                    yield item


def walk(root: IRNode | IRRange | list[Any]) -> Iterator[Any]:
    """Every node of a tree or of a list of statements, parents first."""
    stack = list(reversed(root)) if isinstance(root, list) else [root]
    while stack:
        node = stack.pop()
        yield node
        cls: Any = type(node)
        for name in reversed(child_fields(cls)):  # as `children`, but compiling is here a lot
            value = getattr(node, name)
            if isinstance(value, list):
                stack.extend([item for item in reversed(value) if isinstance(item, _NODES)])
            elif isinstance(value, _NODES):
                stack.append(value)


def may_use_workgroups(kernel: IRKernel) -> bool:
    """Whether a kernel, or a function that it calls, has shared arrays or mentions the lanes of a workgroup."""
    return any(
        any(symbol.array_type is not None and symbol.array_type.space == "shared" for symbol in f.symbols.values())
        or any(isinstance(node, (IRThreadId, IRBarrier, IRBlockReduce)) for node in walk(f.body))
        for f in (kernel, *kernel.functions.values())
    )
