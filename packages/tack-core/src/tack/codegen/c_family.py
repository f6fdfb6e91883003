"""Typed IR to C text: what CUDA C, HIP C, Metal's and OpenCL's languages share.

A dialect is a subclass that says only how it differs: `CUDACodeGen`, `HIPCodeGen`, `MSLCodeGen`, `OpenCLCodeGen`. One
parallel loop becomes one kernel, of one iteration a thread or a few; `plan` says how to launch them, without IR. How a
new dialect is added is told in docs/design/adding-a-backend.md.
"""

from __future__ import annotations

from tack.codegen.c_dialect import CModule
from tack.codegen.c_facts import ExpressionFacts
from tack.codegen.c_textures import sampled_arrays
from tack.codegen.c_workgroups import WorkgroupEmitter
from tack.codegen.host_bounds import plan_arguments
from tack.codegen.integer_ops import IntegerCodeGen
from tack.codegen.launch_plan import KernelPlan, LaunchPlan
from tack.lang import ir
from tack.lang.diagnostics import fail
from tack.lang.records import record
from tack.lang.types import ArrayType, DType, f64


@record(frozen=True)
class CFamilyOptions:
    """What shapes the text besides the IR; every field is part of a variant's key.

    `disjoint` promises that no written array overlaps any other argument. `group` is the number of threads a workgroup
    of loops that do not use workgroups. With `texture_images` textures come with images, which the device filters.
    """

    disjoint: bool = False
    group: int = 256
    texture_images: bool = False


class CFamilyCodeGen(WorkgroupEmitter):
    """A generator of C; use a subclass.

    Parameters
    ----------
    kernel
        Typed and verified IR, its workgroups split.
    options
        See `CFamilyOptions`.

    Attributes
    ----------
    plan
        After `source`: the kernels of a call, in order, with their parameters.

    Examples
    --------
    >>> generator = CUDACodeGen(typed, CFamilyOptions())  # doctest: +SKIP
    >>> text, plan = generator.source(), generator.plan  # doctest: +SKIP
    """

    packed = False  # the parameters are the fields of one structure
    plan: LaunchPlan

    def __init__(self, kernel: ir.IRKernel, options: CFamilyOptions | None = None) -> None:
        if kernel.functions:  # most kernels are spared the loading of the pass
            from tack.lang.serial_workgroups import lanes_as_parameters

            kernel = lanes_as_parameters(kernel)
        self.kernel, self.options = kernel, options or CFamilyOptions()
        self.group, self.disjoint = self.options.group, self.options.disjoint
        self.module, self.facts = CModule(), ExpressionFacts(kernel)
        self.positions = {param.name: position for position, param in enumerate(kernel.params)}
        self.integers = IntegerCodeGen(
            self.dialect, self.module.helpers, bitcast=bool(self.dialect.bitcast), noinline=self._noinline
        )
        self.sampled = sampled_arrays(kernel) if self.options.texture_images and self.dialect.image else {}
        elements = {param.type.dtype for param in kernel.params if isinstance(param.type, ArrayType)}
        self.aliasing = not self.disjoint and len(elements) > 1

    def source(self) -> str:
        """The text of the module.

        Raises
        ------
        TypeError
            If the kernel uses a type, or an atomic on a type, that the device lacks.
        UnsupportedSyntaxError
            If it prints.
        """
        self._refuse_types()
        self.module.preamble += self._preamble()
        for symbol, function in self.kernel.functions.items():
            self._device_function(symbol, function)
        prelude: list[ir.IRStmt] = []
        loops: list[KernelPlan] = []
        result: KernelPlan | None = None
        for statement in self.kernel.body:
            if isinstance(statement, ir.IRParallelFor):
                loops.append(self._loop_kernel(len(loops), statement, prelude))
            elif isinstance(statement, ir.IRWorkgroup):
                loops.append(self._workgroup_kernel(len(loops), statement, prelude))
            elif isinstance(statement, ir.IRReturn):
                result = self._result_kernel(prelude, statement.values[0])
            else:
                prelude.append(statement)
        arguments = plan_arguments(self.kernel.params)
        self.plan = LaunchPlan(tuple(loops), result, self.packed, arguments, self.kernel.name)
        return self.module.text()

    # -- what a dialect says

    def _preamble(self) -> list[str]:
        """Lines at the top of the module."""
        return []

    def _supports(self, dtype: DType) -> bool:
        """Whether the device computes with a type."""
        return True

    def _noinline(self, operation: str, dtype: DType) -> bool:
        """Whether the helper of an integer operation must not be inlined on this device."""
        return False

    # -- types that a device lacks

    def _refuse_types(self) -> None:
        if self._supports(f64):
            return
        for function in (self.kernel, *self.kernel.functions.values()):
            for param in function.params:
                element = param.type.dtype if isinstance(param.type, ArrayType) else param.type
                if element is f64:
                    self._refuse(f"`{param.name}` is f64, and", param)
            for node in ir.walk(function.body):
                if getattr(node, "dtype", None) is f64:
                    self._refuse("this is computed in f64, and", node)

    def _refuse(self, what: str, node: ir.IRNode | ir.IRParam) -> None:
        fail(TypeError, f"{what} device {self.dialect.device} has no f64", node.loc, hint="compute in f32")
