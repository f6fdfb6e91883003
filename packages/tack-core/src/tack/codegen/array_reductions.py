"""Whole-array reductions in the C dialects: of every type, the same bits at every call (rules RED-*).

A pass is a kernel of a few workgroups: each thread combines elements that are a whole launch apart, each workgroup its
threads as a tree, and stores one value. A second pass, over those, of one workgroup, gives the result. Where a dialect
has tickets, the second pass is done by the workgroup of the first that is the last to finish: nobody waits for anybody,
and the order is the same. It depends on the number of elements, their alignment and the dialect's wide accesses.
"""

from __future__ import annotations

from typing import Final

from tack.codegen.c_family import CFamilyCodeGen, CFamilyOptions
from tack.codegen.launch_plan import ARRAY, RESULT, STOP, Bound, KernelParameter, KernelPlan, RangePlan
from tack.codegen.reduction_tree import combined, identity
from tack.lang import ir
from tack.lang.diagnostics import Loc, SourceText
from tack.lang.types import ArrayType, DType, i64, u32, u64

LANES: Final = 256
MOST_GROUPS: Final = 1024  # of a first pass: whatever the device, so that its order does not depend on the GPU's size
ENOUGH: Final = 16  # elements a thread, for which another workgroup is worth its start
ELEMENTS: Final = "x"
COUNT, STRIDE = 0, 1
"""What a kernel takes as the extents of its array: how many elements there are, and the threads of the launch."""


def accumulator(op: str, dtype: DType) -> DType:
    """The type in which elements are combined: integers are added in 64 bits (RED-3)."""
    if op != "sum" or dtype.is_float:
        return dtype
    return i64 if dtype.is_signed else u64


def reduction_source(
    generator: type[CFamilyCodeGen], op: str, dtype: DType, options: CFamilyOptions | None = None
) -> tuple[str, KernelPlan]:
    """Text and plan of a pass over elements of a type, by "sum", "min" or "max".

    Parameters
    ----------
    generator
        The dialect.
    op, dtype
        The operation and the elements' type; of a second pass, the accumulator.
    options
        The dialect's own by default; the group is always of `LANES` threads.

    Returns
    -------
    tuple of str and KernelPlan
        Its result is an array of the accumulator, an element a workgroup.
    """
    gen = begin_reduction(generator, f"{op} of {dtype.name}", dtype, LANES, options)
    kind = accumulator(op, dtype)
    gen.b.do(f"{gen.dialect.shared} {gen.dialect.type(kind)} tile[{LANES}];")
    first, stride = thread_number(gen, LANES), gen._extent(ELEMENTS, STRIDE)
    _combine(gen, op, (element_pointer(gen), dtype), gen._extent(ELEMENTS, COUNT), (first, stride), kind)
    gen.used[KernelParameter(RESULT, kind)] = "result"
    gen.b.do("if (lane == 0u) result[group] = tile[0];")
    return finish_reduction(gen, f"{op}_{dtype.name}")


def fused_reduction_source(
    generator: type[CFamilyCodeGen], op: str, dtype: DType, options: CFamilyOptions | None = None
) -> tuple[str, KernelPlan]:
    """Both passes as one kernel, for dialects with tickets; takes what `reduction_source` does, and gives its bits.

    Returns
    -------
    tuple of str and KernelPlan
        Its array has one extent, its result is one accumulator. Launches must come one after another.
    """
    gen = begin_reduction(generator, f"{op} of {dtype.name}", dtype, LANES, options)
    kind, b, unsigned = accumulator(op, dtype), gen.b, gen.dialect.type(u32)
    t, variable = gen.dialect.type(kind), gen.dialect.variable
    gen.module.declarations["partials"] = f"{variable} {t} tack_partials[{MOST_GROUPS}];"
    gen.module.declarations["finished"] = f"{variable} {unsigned} tack_finished;"
    b.do(f"{gen.dialect.shared} {t} tile[{LANES}];")
    b.do(f"{gen.dialect.shared} {unsigned} ticket;")
    first, stop = thread_number(gen, LANES), gen._takes(STOP)
    _combine(gen, op, (element_pointer(gen), dtype), gen._extent(ELEMENTS, COUNT), (first, stop), kind)
    b.do(f"const {unsigned} groups = ({unsigned})({stop} / {LANES});")
    b.open("if (lane == 0u)")
    b.do("tack_partials[group] = tile[0];")
    b.do(gen.dialect.fence)
    b.do(f"ticket = {gen.dialect.ticket.format(place='&tack_finished', last='groups - 1u')};")
    b.do(gen.dialect.fence)
    b.close()
    b.do(gen.dialect.barrier)
    b.open("if (ticket == groups - 1u)")
    wide = gen.dialect.type(i64)
    _combine(gen, op, ("tack_partials", kind), f"({wide})groups", (f"({wide})lane", str(LANES)), kind)
    gen.used[KernelParameter(RESULT, kind)] = "result"
    b.do("if (lane == 0u) result[0] = tile[0];")
    b.close()
    enough: Bound = ("//", ("shape", 0, 0), ("const", LANES * ENOUGH))
    threads: Bound = ("*", ("max", ("const", 1), ("min", ("const", MOST_GROUPS), enough)), ("const", LANES))
    return finish_reduction(gen, f"{op}_{dtype.name}", (RangePlan(("const", 0), threads, ("const", 1)),))


def _combine(
    gen: CFamilyCodeGen, op: str, elements: tuple[str, DType], count: str, places: tuple[str, str], kind: DType
) -> None:
    """Combine `count` elements (a pointer and their type), from a first place on by a stride, into `tile[0]`."""
    (pointer, dtype), (first, stride), b = elements, places, gen.b
    each, rest = max(1, gen.wide_bytes // dtype.itemsize), "0"
    for k in range(each):
        b.do(f"{gen.dialect.type(kind)} s{k} = {gen.dialect.literal(identity(op, kind), kind)};")
    if each > 1:
        pack, rest = gen.pack_type(dtype, each), packs_of(gen, dtype, each, pointer, count)
        b.open(strided(gen, first, rest, stride))
        b.do(f"const {pack} v = ((const {pack}*){pointer})[p];")
        for k in range(each):
            b.do(f"s{k} = {combined(gen, op, f's{k}', gen._cast(f'v.e[{k}]', dtype, kind), kind)};")
        b.close()
    b.open(strided(gen, f"{rest} * {each} + {first}", count, stride))
    b.do(f"s0 = {combined(gen, op, 's0', gen._cast(f'{pointer}[p]', dtype, kind), kind)};")
    b.close()
    width = each // 2
    while width:
        for k in range(width):
            b.do(f"s{k} = {combined(gen, op, f's{k}', f's{k + width}', kind)};")
        width //= 2
    b.do("tile[lane] = s0;")
    halve(gen, LANES, [f"tile[lane] = {combined(gen, op, 'tile[lane]', 'tile[lane + width]', kind)};"])


# -- the pieces of such kernels


def begin_reduction(
    generator: type[CFamilyCodeGen], name: str, dtype: DType, lanes: int, options: CFamilyOptions | None
) -> CFamilyCodeGen:
    """A generator whose kernel takes an array and has begun, with `lane` and `group`."""
    gen = generator(elements_kernel(name, dtype), options)
    gen.group, gen.disjoint = lanes, True
    gen.module.preamble += gen._preamble()
    gen._begin_kernel()
    return gen


def finish_reduction(gen: CFamilyCodeGen, name: str, ranges: tuple[RangePlan, ...] = ()) -> tuple[str, KernelPlan]:
    """The text and the plan of the kernel that was begun."""
    plan = gen._finish_kernel(name, ranges)
    return gen.module.text(), plan


def elements_kernel(name: str, dtype: DType) -> ir.IRKernel:
    """A kernel of one array that is only read, as the home of the generator's names."""
    loc = Loc(SourceText("reduction", ()), f"reduction `{name}`", 1, 0, 0)
    elements = ArrayType(dtype, 1)
    symbol = ir.Symbol(name=ELEMENTS, kind="array", source_name=ELEMENTS, loc=loc, array_type=elements)
    param = ir.IRParam(name=ELEMENTS, loc=loc, type=elements, read=True)
    return ir.IRKernel(name="tack_array", loc=loc, params=[param], body=[], symbols={ELEMENTS: symbol})


def thread_number(gen: CFamilyCodeGen, lanes: int) -> str:
    """Declares `lane`, `group` and the thread's number in the launch."""
    wide, unsigned, b = gen.dialect.type(i64), gen.dialect.type(u32), gen.b
    b.do(f"const {unsigned} lane = ({unsigned}){gen.dialect.lane};")
    b.do(f"const {wide} group = ({wide}){gen.dialect.group};")
    b.do(f"const {wide} number = group * {lanes} + ({wide})lane;")
    return "number"


def element_pointer(gen: CFamilyCodeGen) -> str:
    """The name of the array, which the kernel then takes."""
    array = gen.arrays[ELEMENTS]
    gen.used[KernelParameter(ARRAY, array.dtype, 0)] = array.pointer
    return array.pointer


def packs_of(gen: CFamilyCodeGen, dtype: DType, each: int, pointer: str, count: str) -> str:
    """Declares how many wide accesses an array of `count` elements has: none if it is not aligned."""
    wide, unsigned = gen.dialect.type(i64), gen.dialect.type(u64)
    low = f"(({unsigned}){pointer} & {dtype.itemsize * each - 1}u)"
    gen.b.do(f"const {wide} packs = {low} == 0u ? {count} / {each} : 0;")
    return "packs"


def strided(gen: CFamilyCodeGen, first: str, stop: str, stride: str) -> str:
    """The header of a loop of `p` over the places of a thread."""
    return f"for ({gen.dialect.type(i64)} p = {first}; p < {stop}; p += {stride})"


def halve(gen: CFamilyCodeGen, lanes: int, statements: list[str]) -> None:
    """Barriers, and `statements` in the lanes below the halves of a group, until one is left."""
    unsigned, b = gen.dialect.type(u32), gen.b
    b.do(gen.dialect.barrier)
    b.open(f"for ({unsigned} width = {lanes // 2}u; width != 0u; width >>= 1)")
    b.open("if (lane < width)")
    for statement in statements:
        b.do(statement)
    b.close()
    b.do(gen.dialect.barrier)
    b.close()
