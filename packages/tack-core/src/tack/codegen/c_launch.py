"""The kernels of a call: one a parallel loop, here of one iteration a thread, and one that writes the result."""

from __future__ import annotations

from tack.codegen.c_dialect import mangle
from tack.codegen.c_expressions import CArray
from tack.codegen.c_statements import StatementEmitter
from tack.codegen.host_bounds import plan_ranges
from tack.codegen.launch_plan import (
    ARRAY,
    FIRST,
    RESULT,
    START,
    STEP,
    STOP,
    TEXTURE,
    TRIPS,
    KernelParameter,
    KernelPlan,
    RangePlan,
    loop_parameter,
)
from tack.lang import ir
from tack.lang.types import ArrayType, i64, u64


class LaunchEmitter(StatementEmitter):
    """Writes what surrounds the user's code. A dialect may override how a kernel takes its parameters."""

    group: int
    disjoint: bool

    # -- one loop

    def _loop_kernel(self, number: int, loop: ir.IRParallelFor, prelude: list[ir.IRStmt]) -> KernelPlan:
        self._begin_kernel()
        flat = self._flat_index()
        self._lane_guard(flat)
        self._declare(loop, prelude)
        self._block(prelude)
        self._loop_variables(loop, flat)
        self._block(loop.body)
        return self._finish_kernel(f"loop{number}", plan_ranges(loop, self.positions, self.kernel.params))

    def _declare(self, loop: ir.IRParallelFor | ir.IRWorkgroup, prelude: list[ir.IRStmt]) -> None:
        """The loop's variables, and all other locals of the kernel."""
        params = {param.name for param in self.kernel.params}
        for name in loop.vars:
            if name not in params:
                self.b.do(f"{self._type(i64)} {self._variable(name)};")
        self._locals([*prelude, *loop.body], frozenset(loop.vars))

    def _begin_kernel(self) -> None:
        self._begin(self.kernel)
        for position, param in enumerate(self.kernel.params):
            if isinstance(param.type, ArrayType):
                pointer = f"a_{mangle(param.name)}"
                self.arrays[param.name] = CArray(pointer, param.type.dtype, param.type.space, None, position)

    def _takes(self, kind: str, axis: int = -1) -> str:
        """The name of a parameter about the iterations, which the kernel then takes."""
        name = kind if axis < 0 else f"{kind}_{axis}"
        self.used[loop_parameter(kind, axis)] = name
        return name

    def _flat_index(self) -> str:
        """The thread's iteration in the flat space of the loop, in 64 bits whatever the width of the built-in ids."""
        wide, unsigned = self._type(i64), self._type(u64)
        thread = f"({unsigned}){self.dialect.group} * {self.group}u + ({unsigned}){self.dialect.lane}"
        name = self.b.name()
        self.b.do(f"const {wide} {name} = {self._takes(FIRST)} + ({wide})({thread});")
        return name

    def _lane_guard(self, flat: str) -> None:
        """Threads past the end do nothing."""
        self.b.do(f"if ({flat} >= {self._takes(STOP)}) return;")

    def _loop_variables(self, loop: ir.IRParallelFor | ir.IRWorkgroup, flat: str) -> None:
        """From the flat index to the loop's variables, the last one fastest."""
        rest = flat
        for axis in range(len(loop.ranges) - 1, 0, -1):
            trips = f"({self._type(i64)}){self._takes(TRIPS, axis)}"
            position = self._temporary(f"{rest} % {trips}", i64)
            self._loop_value(loop, axis, position)
            rest = self._temporary(f"{rest} / {trips}", i64)
        self._loop_value(loop, 0, rest)

    def _loop_value(self, loop: ir.IRParallelFor | ir.IRWorkgroup, axis: int, position: str) -> None:
        """``start + position * step``; the product alone may be outside i64, and wraps."""
        bounds, value = loop.ranges[axis], position
        if not _is_literal(bounds.step, 1):
            value = self.integers.binary("*", i64, value, self._takes(STEP, axis))
        if not _is_literal(bounds.start, 0):
            value = self.integers.binary("+", i64, self._takes(START, axis), value)
        self.b.do(f"{self._variable(loop.vars[axis])} = {value};")

    # -- the result

    def _result_kernel(self, prelude: list[ir.IRStmt], value: ir.IRExpr) -> KernelPlan:
        """One thread: the result, from the values that the statements outside the loops give."""
        self._begin_kernel()
        thread = f"{self.dialect.group} != 0 || {self.dialect.lane} != 0"
        self.b.do(f"if ({thread}) return;")
        self._locals([*prelude, ir.IRReturn(loc=value.loc, values=[value])])
        self._block(prelude)
        text = self._expr(value)
        self.b.do(f"result[0] = {text};")
        assert value.dtype is not None
        self.used[KernelParameter(RESULT, value.dtype)] = "result"
        return self._finish_kernel("result", ())

    # -- parameters

    def _finish_kernel(self, suffix: str, ranges: tuple[RangePlan, ...], each: int = 1) -> KernelPlan:
        name = f"{mangle(self.kernel.name)}_{suffix}"
        parameters = tuple(sorted(self.used, key=lambda parameter: parameter.order))
        self.module.functions.append(self._kernel_text(name, parameters))
        return KernelPlan(name, parameters, ranges, self.group, each)

    def _kernel_text(self, name: str, parameters: tuple[KernelParameter, ...]) -> str:
        formals = [f"{self._formal_type(parameter)} {self.used[parameter]}" for parameter in parameters]
        return f"{self._kernel_header(name)}({', '.join(formals)}) {{\n{self.b.text()}}}\n"

    def _kernel_header(self, name: str) -> str:
        return f"{self.dialect.kernel.format(group=self.group)} void {name}"

    def _formal_type(self, parameter: KernelParameter) -> str:
        if parameter.kind == ARRAY:
            promise = f" {self.dialect.restrict}" if self.disjoint and self.dialect.restrict else ""
            return f"{self._pointer_type(self.kernel.params[parameter.position])}{promise}"
        if parameter.kind == TEXTURE:
            return self.dialect.image
        if parameter.kind == RESULT:
            return f"{self.dialect.spaces['global']}{self._type(parameter.dtype)}*"
        return self._type(parameter.dtype)


def _is_literal(node: ir.IRExpr, value: int) -> bool:
    return isinstance(node, ir.IRConst) and node.value == value
