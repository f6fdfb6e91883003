"""The device "reference": typed IR executed by Python, exactly: it checks other devices and debugs kernels."""

from __future__ import annotations

from tack.lang.ir import IRKernel
from tack.lang.records import record
from tack.lang.types import DTYPES
from tack.runtime.backend import Backend, VariantOptions
from tack.runtime.host_memory import HostMemory
from tack.runtime.reference_interpreter import Interpreter


@record
class ReferenceExecutable:
    """A kernel to interpret. It prints through Python, so a launch keeps the GIL."""

    interpreter: Interpreter
    address: int | None = None
    context, is_brief = 0, False
    may_print: bool = False

    def launch(self, block: int) -> int:
        """Run on the argument block at this address; raises where a caller constraint is broken."""
        return self.interpreter.launch(block)


class ReferenceBackend(HostMemory, Backend):
    """Runs kernels in the Python interpreter, one iteration after the other, on host memory.

    A broken caller constraint raises an error that names the rule, the place and the iteration; nothing outside an
    array is ever touched.
    """

    name = "reference"
    capabilities = frozenset(
        {"f64", "host_memory", "workgroups", "serial_workgroups", *(f"atomic_{t.name}" for t in DTYPES)}
    )

    def compile(self, kernel: IRKernel, options: VariantOptions) -> ReferenceExecutable:
        return ReferenceExecutable(Interpreter(kernel))
