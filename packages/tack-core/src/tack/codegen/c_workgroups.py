"""Loops that use workgroups, one thread a lane (rules GRP-*): the tree of an `IRWorkgroup`, written as it stands.

Regions are for the lanes within the range; everything else in the tree is done by all lanes, so barriers are reached by
all of them. Locals that live across regions are ordinary private variables.
"""

from __future__ import annotations

import math

from tack.codegen.c_dialect import mangle
from tack.codegen.c_expressions import CArray, typed
from tack.codegen.c_wide import WideEmitter
from tack.codegen.host_bounds import plan_ranges
from tack.codegen.launch_plan import FIRST, STOP, KernelPlan
from tack.codegen.reduction_tree import IDENTITY, combined
from tack.lang import ir
from tack.lang.ir_building import is_block_reduce
from tack.lang.types import f32, i64, u32

_WARP = 32  # lanes that exchange values without shared memory
_INSIDE, _NUMBER, _LANE, _TILE = "tack_inside", "tack_number", "tack_lane_number", "tack_tile"


class WorkgroupEmitter(WideEmitter):
    """Writes the kernels of loops that use workgroups; what a dialect says are its words for memory and barriers."""

    def _workgroup_kernel(self, number: int, loop: ir.IRWorkgroup, prelude: list[ir.IRStmt]) -> KernelPlan:
        usual, self.group = self.group, loop.group
        self._begin_kernel()
        self._shared_memory(loop)
        flat = self._flat_index()
        self._lane_facts(loop, flat)
        self._declare(loop, prelude)
        self._block(prelude)
        self._loop_variables(loop, flat)
        self._block(loop.body)
        plan = self._finish_kernel(f"loop{number}", plan_ranges(loop, self.positions, self.kernel.params))
        self.group = usual
        return plan

    # -- what all lanes know

    def _shared_memory(self, loop: ir.IRWorkgroup) -> None:
        """Shared arrays, and the cells of block reductions: dialects want them first in the kernel's outer block."""
        for node in loop.shared:
            name = f"s_{mangle(node.name)}"
            self.b.do(f"{self.dialect.shared} {self._type(node.element)} {name}[{math.prod(node.shape)}];")
            extents = tuple(self.dialect.literal(extent, i64) for extent in node.shape)
            self.arrays[node.name] = CArray(name, node.element, "shared", extents)
        if any(map(is_block_reduce, ir.walk(loop.body))):
            self.b.do(f"{self.dialect.shared} {self._type(f32)} {_TILE}[{loop.group}];")

    def _lane_facts(self, loop: ir.IRWorkgroup, flat: str) -> None:
        """Whether this lane is within the range, its number, and the workgroup's; a piece is of whole groups."""
        wide, unsigned = self._type(i64), self._type(u32)
        self.b.do(f"const int {_INSIDE} = {self._lane_inside(flat)};")
        self.b.do(f"const {unsigned} {_LANE} = ({unsigned}){self.dialect.lane};")
        group = f"({wide}){self.dialect.group}"
        self.b.do(f"const {wide} {_NUMBER} = {self._takes(FIRST)} / {loop.group} + {group};")

    def _lane_inside(self, flat: str) -> str:
        """The condition of all regions."""
        return f"{flat} < {self._takes(STOP)}"

    def _text(self, node: ir.IRExpr) -> str:
        match node:
            case ir.IRThreadId():
                return f"((int){_LANE})"
            case ir.IRGroupIndex():
                return _NUMBER
        return super()._text(node)

    # -- the tree

    def _statement(self, node: ir.IRStmt) -> None:
        match node:
            case ir.IRRegion():
                self.b.open(f"if ({_INSIDE})")
                self._block(node.body)
                self.b.close()
            case ir.IRBarrier():
                self._barrier()
            case ir.IRAssign(value=ir.IRBlockReduce() as reduce):
                self._block_reduction(node.name, reduce)
            case _:
                super()._statement(node)

    def _barrier(self) -> None:
        self.b.do(self.dialect.barrier)

    def _block_reduction(self, name: str, reduce: ir.IRBlockReduce) -> None:
        """The tree of rule GRP-9: the identity for lanes past the end, then halves, then one value for all lanes."""
        value, identity = self._expr(reduce.value), self.dialect.literal(IDENTITY[reduce.op], typed(reduce))
        self.b.do(f"{_TILE}[{_LANE}] = {_INSIDE} ? {value} : {identity};")
        self._barrier()
        shuffles = bool(self.dialect.shuffle_down) and self.group > _WARP
        self._halves(reduce.op, _WARP if shuffles else 1)
        if shuffles:
            self._warp_halves(reduce.op)
        self.b.do(f"{self._variable(name)} = {_TILE}[0];")
        self._barrier()  # the next reduction stores to the same cells

    def _halves(self, op: str, least: int) -> None:
        """Halves in shared memory, down to the one of `least` lanes."""
        unsigned = self._type(u32)
        self.b.open(f"for ({unsigned} width = {self.group // 2}u; width >= {least}u; width >>= 1)")
        pair = combined(self, op, f"{_TILE}[{_LANE}]", f"{_TILE}[{_LANE} + width]")
        self.b.do(f"if ({_LANE} < width) {_TILE}[{_LANE}] = {pair};")
        self._barrier()
        self.b.close()

    def _warp_halves(self, op: str) -> None:
        """The last halves from lane to lane; the same pairs, so the same bits."""
        value = self.b.name()
        self.b.open(f"if ({_LANE} < {_WARP}u)")
        self.b.do(f"{self._type(f32)} {value} = {_TILE}[{_LANE}];")
        width = _WARP // 2
        while width:
            other = self._temporary(self.dialect.shuffle_down.format(value=value, by=width), f32)
            self.b.do(f"{value} = {combined(self, op, value, other)};")
            width //= 2
        self.b.do(f"if ({_LANE} == 0u) {_TILE}[0] = {value};")
        self.b.close()
        self._barrier()


def shared_bytes(loop: ir.IRWorkgroup) -> int:
    """How much shared memory the kernel of a loop takes."""
    reduces = any(map(is_block_reduce, ir.walk(loop.body)))
    return sum(math.prod(a.shape) * a.element.itemsize for a in loop.shared) + reduces * loop.group * f32.itemsize
