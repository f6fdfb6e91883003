"""`sum(reproducible=True)` on devices: the exact sum of floats as integers, in any order (rule RED-6).

A float is a whole number times a power of two. Each thread has a row of 64-bit bins in shared memory, a bin for some
consecutive exponents, and adds each element's mantissa, shifted by its exponent within the bin: integers, so that
nothing rounds. Bins have room for 2**24 elements a workgroup. A second kernel adds the bins of the workgroups, in
halves of 32 bits; the host puts them together and rounds once.
"""

from __future__ import annotations

from typing import Final

from tack.codegen.array_reductions import (
    COUNT,
    ELEMENTS,
    LANES,
    STRIDE,
    begin_reduction,
    element_pointer,
    finish_reduction,
    halve,
    packs_of,
    strided,
    thread_number,
)
from tack.codegen.c_family import CFamilyCodeGen, CFamilyOptions
from tack.codegen.launch_plan import RESULT, KernelParameter, KernelPlan
from tack.lang.records import record
from tack.lang.types import DType, f32, f64, i64, u32, u64

GROUP_ELEMENTS: Final = (1 << 24) - 1024  # for each workgroup; the first one also has what wide accesses leave over


@record(frozen=True)
class ExactLayout:
    """The bins of a float type: `rows` of them, the last one for NaN and infinities; bin k counts multiples of
    ``2**(k * exponents - unit)``. `lanes` is the size of a workgroup, `pattern` the type of the bits, `unrolled` how
    many wide accesses a thread has in flight."""

    rows: int
    exponents: int
    unit: int
    lanes: int
    pattern: DType
    unrolled: int


LAYOUTS: Final = {f32: ExactLayout(17, 16, 150, 256, u32, 2), f64: ExactLayout(67, 32, 1075, 64, u64, 4)}
SPECIAL_BITS: Final = 20
"""The last bin counts threads that saw a NaN, inf and -inf, in fields of this many bits."""

_ADD: Final = {
    f32: """{function} {u32} tack_exact_add_f32({shared}{i64}* bins, {u32} x) {{
    const {u32} field = (x >> 23) & 255u, exponent = field == 0u ? 1u : field;
    if (field == 255u) return (x & 0x7fffffu) != 0u ? 1u : (x >> 31) == 0u ? 2u : 4u;
    const {u64} mantissa = ({u64})((x & 0x7fffffu) | (field == 0u ? 0u : 0x800000u));
    const {i64} value = ({i64})(mantissa << (exponent & 15u));
    bins[(exponent >> 4) * {lanes}u] += (x >> 31) == 0u ? value : -value;
    return 0u;
}}
""",
    f64: """{function} {u32} tack_exact_add_f64({shared}{i64}* bins, {u64} x) {{
    const {u32} field = ({u32})(x >> 52) & 2047u, exponent = field == 0u ? 1u : field, shift = exponent & 31u;
    const {u64} fraction = x & 0xfffffffffffffU{long}, low = 0xffffffffU{long};
    if (field == 2047u) return fraction != 0u ? 1u : (x >> 63) == 0u ? 2u : 4u;
    const {u64} mantissa = fraction | (({u64})(field == 0u ? 0u : 1u) << 52);
    const {u64} a = (mantissa & low) << shift, b = (mantissa >> 32) << shift;
    const {i64} sign = (x >> 63) == 0u ? 1 : -1;
    {shared}{i64}* place = bins + (exponent >> 5) * {lanes}u;
    place[0] += sign * ({i64})(a & low);
    place[{lanes}u] += sign * ({i64})((a >> 32) + (b & low));
    place[{lanes}u * 2u] += sign * ({i64})(b >> 32);
    return 0u;
}}
""",
}


def exact_bins_source(
    generator: type[CFamilyCodeGen], dtype: DType, options: CFamilyOptions | None = None
) -> tuple[str, KernelPlan]:
    """The kernel that adds elements into bins: its result has `rows` i64 a workgroup.

    A workgroup must not get more than `GROUP_ELEMENTS`. The array is that of the elements' bits.
    """
    layout = LAYOUTS[dtype]
    gen = begin_reduction(generator, f"exact sum of {dtype.name}", layout.pattern, layout.lanes, options)
    b, lanes = gen.b, layout.lanes
    b.do(f"{gen.dialect.shared} {gen.dialect.type(i64)} bins[{layout.rows * lanes}];")
    first = thread_number(gen, lanes)
    b.do(f"{gen.dialect.type(u32)} special = 0u;")
    b.do(f"for ({gen.dialect.type(u32)} r = 0u; r < {layout.rows}u; ++r) bins[r * {lanes}u + lane] = 0;")
    rest = _add_packs(gen, dtype, layout, first)
    b.open(strided(gen, f"{rest} + {first}", gen._extent(ELEMENTS, COUNT), gen._extent(ELEMENTS, STRIDE)))
    b.do(f"special |= {_adder(gen, dtype, layout)}(bins + lane, {element_pointer(gen)}[p]);")
    b.close()
    last = f"bins[{(layout.rows - 1) * lanes}u + lane]"
    wide = gen.dialect.type(i64)
    fields = " + ".join(f"(({wide})((special >> {k}) & 1u) << {k * SPECIAL_BITS})" for k in range(3))
    b.do(f"{last} = {fields};")
    row = f"r * {lanes}u + lane"
    halve(
        gen,
        lanes,
        [f"for ({gen.dialect.type(u32)} r = 0u; r < {layout.rows}u; ++r) bins[{row}] += bins[{row} + width];"],
    )
    gen.used[KernelParameter(RESULT, i64)] = "result"
    target = f"result[group * {layout.rows} + ({wide})r]"
    b.do(f"for ({gen.dialect.type(u32)} r = lane; r < {layout.rows}u; r += {lanes}u) {target} = bins[r * {lanes}u];")
    return finish_reduction(gen, f"exact_{dtype.name}")


def _add_packs(gen: CFamilyCodeGen, dtype: DType, layout: ExactLayout, first: str) -> str:
    """Wide accesses, a few at a time; the text of the place where what is left begins."""
    each = gen.wide_bytes // dtype.itemsize
    if each < 2:
        return "0"
    b, adder, pack = gen.b, _adder(gen, dtype, layout), gen.pack_type(layout.pattern, each)
    packs = packs_of(gen, layout.pattern, each, element_pointer(gen), gen._extent(ELEMENTS, COUNT))
    b.open(strided(gen, first, packs, f"{gen._extent(ELEMENTS, STRIDE)} * {layout.unrolled}"))
    for u in range(layout.unrolled):
        b.do(f"{pack} v{u} = {{{{{', '.join(['0u'] * each)}}}}};")
        place = f"p + {gen._extent(ELEMENTS, STRIDE)} * {u}"
        b.do(f"if ({place} < {packs}) v{u} = ((const {pack}*){element_pointer(gen)})[{place}];")
    for u in range(layout.unrolled):
        for k in range(each):
            b.do(f"special |= {adder}(bins + lane, v{u}.e[{k}]);")
    b.close()
    return f"{packs} * {each}"


def _adder(gen: CFamilyCodeGen, dtype: DType, layout: ExactLayout) -> str:
    dialect = gen.dialect
    types = {t.name: dialect.type(t) for t in (u32, i64, u64)}
    text = _ADD[dtype].format(
        **types,
        function=dialect.function,
        shared=dialect.spaces["shared"],
        lanes=layout.lanes,
        long=dialect.long_suffix,
    )
    name = f"tack_exact_add_{dtype.name}"
    gen.module.helpers.setdefault(name, text)
    return name


def exact_total_source(
    generator: type[CFamilyCodeGen], options: CFamilyOptions | None = None
) -> tuple[str, KernelPlan]:
    """The kernel that adds the bins of workgroups, a workgroup a bin: COUNT is the number of workgroups that filled
    bins, STRIDE that of bins. Its result has two i64 a bin: the sum of the low halves, and of the high ones."""
    gen = begin_reduction(generator, "exact sum of bins", i64, LANES, options)
    b, wide, low = gen.b, gen.dialect.type(i64), gen.dialect.literal(0xFFFFFFFF, i64)
    b.do(f"{gen.dialect.shared} {wide} tile[{2 * LANES}];")
    thread_number(gen, LANES)
    b.do(f"{wide} lows = 0, highs = 0;")
    b.open(f"for ({wide} p = ({wide})lane; p < {gen._extent(ELEMENTS, COUNT)}; p += {LANES})")
    b.do(f"const {wide} x = {element_pointer(gen)}[p * {gen._extent(ELEMENTS, STRIDE)} + group];")
    b.do(f"lows += x & {low};")
    b.do(f"highs += (x - (x & {low})) / {gen.dialect.literal(1 << 32, i64)};")
    b.close()
    b.do("tile[lane] = lows;")
    b.do(f"tile[lane + {LANES}u] = highs;")
    halve(gen, LANES, ["tile[lane] += tile[lane + width];", f"tile[lane + {LANES}u] += tile[lane + width + {LANES}u];"])
    gen.used[KernelParameter(RESULT, i64)] = "result"
    b.open("if (lane == 0u)")
    b.do("result[group * 2] = tile[0];")
    b.do(f"result[group * 2 + 1] = tile[{LANES}];")
    b.close()
    return finish_reduction(gen, "exact_total")
