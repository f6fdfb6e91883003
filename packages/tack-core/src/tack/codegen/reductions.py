"""Whole-array reductions of f32 in the C dialects (rules RED-*).

A workgroup of 256 threads reduces its elements as a tree in shared memory; one thread then combines the group's result
into the output, which the host has set to the identity. NaN propagates, and zeros of both signs give the sign that the
extremum asks for, so extrema do not depend on the order in which groups arrive.
"""

from __future__ import annotations

from typing import Final

from tack.codegen.atomics import atomic_helper, cas_loop
from tack.codegen.c_family import CFamilyCodeGen, CFamilyOptions
from tack.codegen.launch_plan import ARRAY, RESULT, STOP, KernelParameter, KernelPlan
from tack.codegen.reduction_tree import IDENTITY, combined
from tack.lang import ir
from tack.lang.diagnostics import Loc, SourceText
from tack.lang.types import ArrayType, f32, u32

LANES: Final = 256
_ELEMENTS: Final = "x"


def array_reduction_source(
    generator: type[CFamilyCodeGen], op: str, options: CFamilyOptions | None = None
) -> tuple[str, KernelPlan]:
    """Text and plan of the kernel that reduces an f32 array by "sum", "min" or "max".

    Parameters
    ----------
    generator
        The dialect.
    op
        The operation; the result must hold `IDENTITY` of it before the first launch.
    options
        The dialect's own by default; the group is always of 256 threads.

    Returns
    -------
    tuple of str and KernelPlan
        The plan's STOP parameter is the number of elements.
    """
    gen = generator(empty_kernel(op), options)
    gen.group = LANES
    gen.module.preamble += gen._preamble()
    gen._begin_kernel()
    flat, stop = gen._flat_index(), gen._takes(STOP)
    gen.used[KernelParameter(RESULT, f32)] = "result"
    gen.used[KernelParameter(ARRAY, f32, 0)] = gen.arrays[_ELEMENTS].pointer
    _tree(
        gen, op, f"{flat} < {stop} ? {gen.arrays[_ELEMENTS].pointer}[{flat}] : {gen.dialect.literal(IDENTITY[op], f32)}"
    )
    plan = gen._finish_kernel(f"{op}_f32", ())
    return gen.module.text(), plan


def empty_kernel(op: str) -> ir.IRKernel:
    """A kernel of one array that is only read, as the home of the generator's names."""
    loc = Loc(SourceText("reduction", ()), f"reduction `{op}`", 1, 0, 0)
    elements = ArrayType(f32, 1)
    symbol = ir.Symbol(name=_ELEMENTS, kind="array", source_name=_ELEMENTS, loc=loc, array_type=elements)
    param = ir.IRParam(name=_ELEMENTS, loc=loc, type=elements, read=True)
    return ir.IRKernel(name="tack_array", loc=loc, params=[param], body=[], symbols={_ELEMENTS: symbol})


def _tree(gen: CFamilyCodeGen, op: str, element: str) -> None:
    """The body: load, halve until one value is left, combine that into the result."""
    t, unsigned, b = gen.dialect.type(f32), gen.dialect.type(u32), gen.b
    b.do(f"{gen.dialect.shared} {t} tile[{LANES}];")
    b.do(f"const {unsigned} lane = ({unsigned}){gen.dialect.lane};")
    b.do(f"tile[lane] = {element};")
    b.do(gen.dialect.barrier)
    b.open(f"for ({unsigned} width = {LANES // 2}u; width != 0u; width >>= 1)")
    b.do(f"if (lane < width) tile[lane] = {combined(gen, op, 'tile[lane]', 'tile[lane + width]')};")
    b.do(gen.dialect.barrier)
    b.close()
    b.do(f"if (lane == 0u) {_atomic_combine(gen, op)}(result, tile[0]);")


def _atomic_combine(gen: CFamilyCodeGen, op: str) -> str:
    """The helper that combines a value into a cell: of the reduction's own extrema, which keep NaN."""
    if op == "sum":
        return atomic_helper(gen, gen.module.helpers, "add", f32)
    name, t = f"__tack_atomic_reduce_{op}_f32__", gen.dialect.type(f32)
    body = cas_loop(gen, f32, combined(gen, op, "x", "v"), always_changes=False)
    header = f"{gen.dialect.function} {t} {name}({gen.dialect.spaces['global']}{t}* p, {t} v)"
    gen.module.helpers[name] = f"{header} {{\n{body}}}\n"
    return name
