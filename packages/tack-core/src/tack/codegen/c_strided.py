"""Loops over several ranges, and indices of several dimensions (docs/design/gpu.md).

Of short iterations a thread does a few. The threads of a workgroup stay side by side: each goes on by the size of the
workgroup. So the division that finds the first iteration is paid once, and the next ones carry from one range to the
one around it. Of long iterations a workgroup does a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from tack.codegen.c_launch import LaunchEmitter
from tack.codegen.host_bounds import plan_ranges
from tack.codegen.launch_plan import FIRST, STOP, TRIPS, KernelPlan
from tack.codegen.wide_accesses import may_share_a_thread
from tack.lang import ir
from tack.lang.types import i64, u64

STEP: Final = "tack_step"  # the number of the iteration among those of a thread
_FARTHEST: Final = 64  # a neighbour along an axis, so that the address in between cannot overflow
_TILE_WIDTH: Final = 32
_MOST_CARRIES: Final = 4  # of a step: rows at least this part of a workgroup long need no division


class StridedEmitter(LaunchEmitter):
    """`strided` is what a dialect says: iterations a thread of such loops; 1 for none of what is here."""

    strided: ClassVar[int] = 1

    def _loop_kernel(self, number: int, loop: ir.IRParallelFor, prelude: list[ir.IRStmt]) -> KernelPlan:
        each = self.strided
        if each == 1 or len(loop.ranges) == 1:
            return super()._loop_kernel(number, loop, prelude)
        if not may_share_a_thread(loop, self.kernel, each):
            return self._tiled_kernel(number, loop, prelude)
        self._begin_kernel()
        first = self._group_first(each)
        self._declare(loop, prelude)
        self._block(prelude)
        self._one_by_one(loop, each, first)
        return self._finish_kernel(f"loop{number}", plan_ranges(loop, self.positions, self.kernel.params), each)

    def _group_first(self, each: int) -> str:
        """The workgroup's first iteration."""
        wide, unsigned = self._type(i64), self._type(u64)
        offset = f"({wide})(({unsigned}){self.dialect.group} * {self.group * each}u)"
        return self._temporary(f"{self._takes(FIRST)} + {offset}", i64)

    def _one_by_one(self, loop: ir.IRParallelFor, each: int, first: str) -> None:
        """The threads of the workgroup side by side, over and over."""
        unsigned, wide = self._type(u64), self._type(i64)
        places = [self.b.name() for _ in loop.vars] if len(loop.vars) > 1 else []
        for name in places:
            self.b.do(f"{wide} {name} = 0;")
        self.b.open(f"for ({unsigned} {STEP} = 0; {STEP} < {each}; ++{STEP})")
        offset = f"({wide})({STEP} * {self.group}u + ({unsigned}){self.dialect.lane})"
        flat = self._temporary(f"{first} + {offset}", i64)
        self.b.do(f"if ({flat} >= {self._takes(STOP)}) break;")
        if places:
            self._move(flat, places)
        for axis, position in enumerate(places or [flat]):
            self._loop_value(loop, axis, position)
        self.loops += 1  # so that `continue` ends the iteration only
        self._block(loop.body)
        self.loops -= 1
        self.b.close()

    def _move(self, flat: str, places: list[str]) -> None:
        """Positions along the ranges: by division at first, and where a step goes over many rows."""
        trips = [f"({self._type(i64)}){self._takes(TRIPS, axis)}" if axis else "" for axis in range(len(places))]
        self.b.open(f"if ({STEP} == 0 || {trips[-1]} < {self.group // _MOST_CARRIES})")
        rest = flat
        for axis in range(len(places) - 1, 0, -1):
            self.b.do(f"{places[axis]} = {rest} % {trips[axis]};")
            rest = self._temporary(f"{rest} / {trips[axis]}", i64)
        self.b.do(f"{places[0]} = {rest};")
        self.b.otherwise()
        self.b.do(f"{places[-1]} += {self.group};")
        for axis in range(len(places) - 1, 0, -1):
            self.b.open(f"while ({places[axis]} >= {trips[axis]})")
            self.b.do(f"{places[axis]} -= {trips[axis]};")
            self.b.do(f"++{places[axis - 1]};")
        for _ in places:
            self.b.close()

    # -- long iterations

    def _tiled_kernel(self, number: int, loop: ir.IRParallelFor, prelude: list[ir.IRStmt]) -> KernelPlan:
        """An iteration a thread. Where the loop's rows divide into tiles of a warp's width and a workgroup's size, a
        workgroup does one, so that its threads share more of what they load; elsewhere consecutive iterations."""
        self._begin_kernel()
        flat, inner = self._flat_index(), len(loop.vars) - 1
        self._lane_guard(flat)
        self._declare(loop, prelude)
        self._block(prelude)
        column, row = self._tile_place(flat, f"({self._type(i64)}){self._takes(TRIPS, inner)}")
        self._loop_value(loop, inner, column)
        for axis in range(inner - 1, 0, -1):
            trips = f"({self._type(i64)}){self._takes(TRIPS, axis)}"
            self._loop_value(loop, axis, self._temporary(f"{row} % {trips}", i64))
            row = self._temporary(f"{row} / {trips}", i64)
        self._loop_value(loop, 0, row)
        self._block(loop.body)
        return self._finish_kernel(f"loop{number}", plan_ranges(loop, self.positions, self.kernel.params))

    def _tile_place(self, flat: str, trips: str) -> tuple[str, str]:
        """The column and the row of a thread. A launch that begins elsewhere is a piece of a long loop: no tiles."""
        wide, height = self._type(i64), self.group // _TILE_WIDTH
        column, row, tiles = (self.b.name() for _ in range(3))
        self.b.do(f"{wide} {column} = {flat} % {trips};")
        self.b.do(f"{wide} {row} = {flat} / {trips};")
        stop = self._takes(STOP)
        whole = f"{trips} % {_TILE_WIDTH} == 0 && {stop} % {trips} == 0 && {stop} / {trips} % {height} == 0"
        self.b.open(f"if ({self._takes(FIRST)} == 0 && {whole})")
        self.b.do(f"const {wide} {tiles} = {trips} / {_TILE_WIDTH};")
        group, lane = f"({wide}){self.dialect.group}", f"({wide}){self.dialect.lane}"
        self.b.do(f"{column} = {group} % {tiles} * {_TILE_WIDTH} + {lane} % {_TILE_WIDTH};")
        self.b.do(f"{row} = {group} / {tiles} * {height} + {lane} / {_TILE_WIDTH};")
        self.b.close()
        return column, row

    # -- neighbours

    def _load(self, node: ir.IRLoad) -> str:
        if self.strided == 1 or len(node.index) == 1:
            return super()._load(node)
        bases, offsets = _split(node.index)
        return self._neighbour(node.array, self._operands(bases), offsets)

    def _store(self, node: ir.IRStore) -> None:
        if self.strided == 1 or len(node.index) == 1:
            super()._store(node)
            return
        bases, offsets = _split(node.index)
        value, *index = self._operands((node.value, *bases))
        self.b.do(f"{self._neighbour(node.array, index, offsets)} = {value};")

    def _neighbour(self, name: str, index: list[str], offsets: Sequence[int]) -> str:
        """An element as an offset from another one, whose address all neighbours share; the offset is the same in all
        threads. Written as one index, each neighbour would have products of its own."""
        if not any(offsets):
            return self._element(name, index)
        base, flat, offset = index[0], "", offsets[0]
        for axis, position in enumerate(index[1:], 1):
            extent = self._extent(name, axis)
            base = f"({base} * {extent} + {position})"
            flat = f"({flat} * {extent})" if flat else f"({offset} * {extent})" if offset else ""
            offset = offsets[axis]
            if flat and offset:
                flat, offset = f"({flat} + {offset})", 0
        return f"({self._pointer(name)} + {base})[{flat or offset}]"


def _split(index: Sequence[ir.IRExpr]) -> tuple[list[ir.IRExpr], list[int]]:
    """Indices without the small literals that they add, and those."""
    bases: list[ir.IRExpr] = []
    offsets: list[int] = []
    for node in index:
        base, offset = node, 0
        if isinstance(node, ir.IRBinOp) and node.op in "+-" and isinstance(node.right, ir.IRConst):
            base, offset = node.left, int(node.right.value) * (1 if node.op == "+" else -1)
        elif isinstance(node, ir.IRBinOp) and node.op == "+" and isinstance(node.left, ir.IRConst):
            base, offset = node.right, int(node.left.value)
        near = abs(offset) <= _FARTHEST
        bases.append(base if near else node)
        offsets.append(offset if near else 0)
    return bases, offsets
