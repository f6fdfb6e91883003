"""The device "cpu": LLVM code for the host processor, run by the native thread pool on host memory."""

from __future__ import annotations

import ctypes
from typing import Any

from tack.codegen.llvm_gen import LLVMCodeGen
from tack.codegen.llvm_launch import LAUNCH_SYMBOL, PARALLEL_FOR_SYMBOL
from tack.codegen.llvm_statements import PRINT_SYMBOL, PrintSite
from tack.lang.ir import IRKernel
from tack.lang.types import DTYPES
from tack.runtime.backend import Backend, VariantOptions
from tack.runtime.cpu_pool import pool
from tack.runtime.host_memory import HostMemory
from tack.runtime.llvm_jit import LLVMCompiler, NativeLibrary, compiler
from tack.runtime.number_text import number_text

_Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_Print = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)
_WORD_TYPES: dict[str, Any] = {"i": ctypes.c_int64, "u": ctypes.c_uint64, "f": ctypes.c_double}


class CpuExecutable:
    """Native code of one kernel variant, kept in memory for as long as this object lives."""

    __slots__ = ("_launch", "_library", "_printer", "address", "may_print")

    def __init__(self, library: NativeLibrary, printer: Printer | None) -> None:
        self._library, self._printer = library, printer
        self.address: int | None = library.addresses[LAUNCH_SYMBOL]
        self.may_print = printer is not None
        self._launch = _Launch(self.address)  # a ctypes function releases the GIL while it runs

    def launch(self, block: int) -> int:
        """Run on the argument block at this address; raises what printing raised, after the launch."""
        status: int = self._launch(block)
        if self._printer is not None:
            self._printer.reraise()
        return status


class Printer:
    """The runtime's side of `print`: native code gives the number of a site and the values."""

    def __init__(self, sites: list[PrintSite]) -> None:
        self._sites = sites
        self._error: BaseException | None = None
        self.callback = _Print(self._print)

    @property
    def address(self) -> int:
        return ctypes.cast(self.callback, ctypes.c_void_p).value or 0

    def _print(self, site: int, values: int) -> None:
        # An exception cannot cross native code: keep the first for the end of the launch.
        try:
            print("".join(self._texts(self._sites[site], values)), end="")
        except BaseException as error:
            self._error = self._error or error

    @staticmethod
    def _texts(site: PrintSite, values: int) -> list[str]:
        texts, place = [], values
        for part in site.parts:
            if isinstance(part, str):
                texts.append(part)
            else:
                texts.append(number_text(_WORD_TYPES[part.kind].from_address(place).value, part))
                place += 8
        return texts

    def reraise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


class CpuBackend(HostMemory, Backend):
    """The host processor. A launch is over when it returns.

    Raises
    ------
    ImportError
        At the first compilation, if llvmlite is not installed.
    """

    name = "cpu"
    capabilities = frozenset(
        {
            "f64",
            "host_memory",
            "alias_variants",
            "workgroups",
            "serial_workgroups",
            *(f"atomic_{t.name}" for t in DTYPES),
        }
    )

    def compile(self, kernel: IRKernel, options: VariantOptions) -> CpuExecutable:
        generator = LLVMCodeGen(kernel, options)
        llvm = compiler()
        image = llvm.compile_object(generator.source())
        return load_kernel(llvm, image, generator.print_sites)

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        return compiler().stages(LLVMCodeGen(kernel, options).source())


def load_kernel(llvm: LLVMCompiler, image: bytes, print_sites: list[PrintSite]) -> CpuExecutable:
    """A kernel's object file, freshly compiled or kept from earlier, as something that launches."""
    printer = Printer(print_sites) if print_sites else None
    imports = {PARALLEL_FOR_SYMBOL: pool().address}
    if printer is not None:
        imports[PRINT_SYMBOL] = printer.address
    return CpuExecutable(llvm.load(image, (LAUNCH_SYMBOL,), imports), printer)
