"""Typed IR to LLVM IR text, for the CPU.

The text needs nothing but what it declares: rare mathematics from the C library, `tack_parallel_for` from the pool,
and `tack_print` where the kernel prints. `docs/design/pipeline.md` has the argument block and the launch protocol.

No instruction carries a fast-math flag, and the user's integer arithmetic carries no `nsw` or `nuw`.
"""

from __future__ import annotations

from typing import Protocol

from tack.codegen.lane_cost import VectorUnit
from tack.codegen.llvm_counters import counters
from tack.codegen.llvm_launch import LaunchEmitter
from tack.codegen.tile_plan import step_tiles
from tack.lang import ir


class GeneratorOptions(Protocol):
    """What shapes the text besides the IR: the fields of the runtime's `VariantOptions` that a CPU reads."""

    @property
    def disjoint(self) -> bool: ...

    @property
    def lanes(self) -> int | None: ...


class LLVMCodeGen(LaunchEmitter):
    """The CPU generator.

    Parameters
    ----------
    kernel
        Typed and verified IR.
    options
        `disjoint` promises that no written array overlaps any other argument; pointers become `noalias`. `lanes` is
        the width to run parallel loops at wherever lanes are possible; 1 for scalar code, None for a choice by cost.
    target
        The vectors of the processor; without them nothing is chosen, and only `lanes` can ask for some.
    streaming
        Whether to write the code for loops beyond the caches, which stores past them; else what is plain, and calls
        ``i32 tack_streams(ptr block)``, the launch of such code, where there is one that pays: -1 says that it is not
        there, and nothing has run.

    Attributes
    ----------
    print_sites
        After `source`: what each `print` of the kernel writes, by site number.
    plans
        After `source`: the loops that run as lanes.
    row_plans
        After `source`: the loops whose iterations run several in step.
    all_lanes
        After `source`: whether every loop does. Such code needs few of LLVM's passes.
    streams
        After `source`: the loops that may store past the caches, by identity.
    """

    def __init__(
        self,
        kernel: ir.IRKernel,
        options: GeneratorOptions,
        target: VectorUnit | None = None,
        streaming: bool = False,
    ) -> None:
        super().__init__()
        self.kernel, self.disjoint, self.lanes, self.target = kernel, options.disjoint, options.lanes, target
        self.writes_streams = streaming

    def beyond_caches(self) -> LLVMCodeGen:
        """After `source`: the generator of the code for loops beyond the caches, which takes over the plans."""
        made = LLVMCodeGen(self.kernel, self, self.target, streaming=True)
        made.planned = self.planned
        return made

    def source(self) -> str:
        """The module's text; its one exported function is ``i32 tack_launch(ptr block)``."""
        if self.target is not None and self.lanes != 1 and not self.writes_streams:  # which begins from such a kernel
            self.kernel = step_tiles(self.kernel)
        for symbol, function in self.kernel.functions.items():
            self._device_function(symbol, function)
        prelude: list[ir.IRStmt] = []
        loops: list[ir.IRParallelFor] = []
        result: ir.IRReturn | None = None
        for statement in self.kernel.body:
            if isinstance(statement, ir.IRParallelFor):
                name, own = f"body.{len(loops)}", counters(statement, self.kernel) if self.disjoint else []
                self.counters[id(statement)] = own
                self._body_function(name, statement, prelude)
                if own:
                    self._body_function(f"{name}.own", statement, prelude, own)
                self._chunk_function(len(loops), statement)
                loops.append(statement)
            elif isinstance(statement, ir.IRReturn):
                result = statement
                self._result_function(prelude, statement.values[0])
            else:
                prelude.append(statement)
        self._launch_function(loops, result is not None)
        return self.module.text()
