"""The device "reference": typed IR executed by Python, exactly: it checks other devices and debugs kernels."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from tack.lang.ir import IRKernel
from tack.lang.types import DTYPES
from tack.runtime.backend import Backend, VariantOptions
from tack.runtime.reference_interpreter import Interpreter


@dataclass(slots=True)
class ReferenceExecutable:
    """A kernel to interpret. It prints through Python, so a launch keeps the GIL."""

    interpreter: Interpreter
    address: int | None = None
    may_print: bool = False

    def launch(self, block: int) -> int:
        """Run on the argument block at this address; raises where a caller constraint is broken."""
        return self.interpreter.launch(block)


class ReferenceBackend(Backend):
    """Runs kernels in the Python interpreter, one iteration after the other, on host memory.

    A broken caller constraint raises an error that names the rule, the place and the iteration; nothing outside an
    array is ever touched.
    """

    name = "reference"
    capabilities = frozenset({"f64", "host_memory", *(f"atomic_{t.name}" for t in DTYPES)})

    def allocate(self, nbytes: int) -> tuple[int, Any]:
        memory = np.zeros(max(nbytes, 1), np.uint8)
        return memory.ctypes.data, memory

    def upload(self, address: int, source: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(address, source.ctypes.data, source.nbytes)

    def download(self, address: int, target: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    def compile(self, kernel: IRKernel, options: VariantOptions) -> ReferenceExecutable:
        return ReferenceExecutable(Interpreter(kernel))

    def synchronize(self) -> None:
        """Nothing to wait for: a launch runs at once."""
