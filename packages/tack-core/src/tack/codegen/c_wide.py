"""Loops of several iterations a thread, whose accesses are as wide as the device's widest (docs/design/gpu.md).

A workgroup that lies within the loop, and whose arrays are aligned, which all of them decide alike, gives each thread
consecutive iterations: loads, the iterations, stores. Any other workgroup does them one by one, its threads side by
side.
"""

from __future__ import annotations

from typing import ClassVar

from tack.codegen.c_strided import STEP, StridedEmitter
from tack.codegen.host_bounds import plan_ranges
from tack.codegen.launch_plan import STOP, TRIPS, KernelPlan
from tack.codegen.wide_accesses import Access, WidePlan, place, plan_wide
from tack.lang import ir
from tack.lang.types import DType, i64, u64


class WideEmitter(StridedEmitter):
    """Writes a loop's kernel one way or the other. `wide_bytes` is what a dialect says: its widest access, or 0."""

    wide_bytes: ClassVar[int] = 0
    _packs: dict[int, str]  # the accesses of the iterations being written that are elements of a wide one

    def _loop_kernel(self, number: int, loop: ir.IRParallelFor, prelude: list[ir.IRStmt]) -> KernelPlan:
        wide = plan_wide(loop, self.kernel, self.facts, disjoint=self.disjoint, widest=self.wide_bytes)
        if wide is None:
            return super()._loop_kernel(number, loop, prelude)
        self._begin_kernel()
        first = self._group_first(wide.each)
        self._declare(loop, prelude)
        self._block(prelude)
        self.b.open(f"if ({self._is_whole(loop, wide, first)})")
        self._together(loop, wide, first)
        self.b.otherwise()
        self._one_by_one(loop, wide.each, first)
        self.b.close()
        return self._finish_kernel(f"loop{number}", plan_ranges(loop, self.positions, self.kernel.params), wide.each)

    def _is_whole(self, loop: ir.IRParallelFor, wide: WidePlan, first: str) -> str:
        """A condition that all threads of a workgroup decide alike."""
        low: list[str] = []
        self._loop_value(loop, len(loop.vars) - 1, self.dialect.literal(0, i64))
        if len(loop.vars) > 1:
            low.append(f"({self._takes(TRIPS, len(loop.vars) - 1)} & {wide.each - 1}u)")
        for node in {place(node): node for node in wide.accesses}.values():
            low += self._misalignment(node, wide.each)
        return f"{self._takes(STOP)} - {first} >= {self.group * wide.each} && ({' | '.join(low)}) == 0u"

    def _misalignment(self, node: Access, each: int) -> list[str]:
        """Numbers that are zero if the loop's first access is aligned, and so are those of every row."""
        unsigned, array = self._type(u64), self.arrays[node.array]
        size = array.dtype.itemsize
        address = f"({unsigned}){self._pointer(node.array)} + ({unsigned})({self._expr(node.index[-1])}) * {size}u"
        rows = []
        if len(node.index) > 1:
            rows.append(f"(({unsigned}){self._extent(node.array, len(node.index) - 1)} & {each - 1}u)")
        return [f"(({address}) & {size * each - 1}u)", *rows]

    def _together(self, loop: ir.IRParallelFor, wide: WidePlan, first: str) -> None:
        thread = f"({self._type(i64)})(({self._type(u64)}){self.dialect.lane} * {wide.each}u)"
        self._loop_variables(loop, self._temporary(f"{first} + {thread}", i64))
        packs: dict[tuple[object, ...], str] = {}
        for load in wide.loads:
            self._packs[id(load)] = self._pack(load, wide.each, packs, loads=True)
        packs = {}
        last = {place(store): store for store in wide.stores}
        for store in wide.stores:
            self._packs[id(store)] = self._pack(store, wide.each, packs, loads=False)
        targets = [(self._wide_element(store, wide.each), packs[place(store)]) for store in last.values()]
        inner, counter = self._variable(loop.vars[-1]), self._type(i64)
        start = self._temporary(inner, i64)
        self.b.lines.append("    #pragma unroll")
        self.b.open(f"for ({counter} {STEP} = 0; {STEP} < {wide.each}; ++{STEP})")
        self.b.do(f"{inner} = {start} + {STEP};")
        self._block(loop.body)
        self.b.close()
        for target, pack in targets:
            self.b.do(f"*{target} = {pack};")
        self._packs = {}

    def _pack(self, node: Access, each: int, packs: dict[tuple[object, ...], str], *, loads: bool) -> str:
        """The text of one element of the wide access, which is declared unless it has been."""
        name = packs.get(place(node))
        if name is None:
            packs[place(node)] = name = self.b.name()
            value = f" = *{self._wide_element(node, each)}" if loads else ""
            self.b.do(f"{self.pack_type(self.arrays[node.array].dtype, each)} {name}{value};")
        return f"{name}.e[{STEP}]"

    def _wide_element(self, node: Access, each: int) -> str:
        """The address of a wide access."""
        const = "const " if isinstance(node, ir.IRLoad) else ""
        kind = f"{self.dialect.spaces['global']}{const}{self.pack_type(self.arrays[node.array].dtype, each)}*"
        name, element = self.b.name(), self._element(node.array, self._operands(node.index))
        self.b.do(f"{kind} {name} = ({kind})&{element};")
        return name

    def pack_type(self, dtype: DType, each: int) -> str:
        """The type of a wide access to `each` elements of an array."""
        name, element = f"tack_pack_{dtype.name}x{each}", self._element_type(dtype, "global")
        text = f"struct alignas({dtype.itemsize * each}) {name} {{\n    {element} e[{each}];\n}};\n"
        self.module.declarations.setdefault(name, text)
        return name

    def _load(self, node: ir.IRLoad) -> str:
        return self._packs.get(id(node)) or super()._load(node)

    def _store(self, node: ir.IRStore) -> None:
        if id(node) in self._packs:
            self.b.do(f"{self._packs[id(node)]} = {self._expr(node.value)};")
        else:
            super()._store(node)

    def _begin(self, function: ir.IRFunction) -> None:
        super()._begin(function)
        self._packs = {}
