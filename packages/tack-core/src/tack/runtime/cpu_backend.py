"""The device "cpu": LLVM code for the host processor, run by the native thread pool on host memory."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from tack.lang.types import BY_NAME, DTYPES, DType
from tack.runtime.backend import Artifact, Backend, VariantOptions
from tack.runtime.host_identity import cache_bytes, code_target
from tack.runtime.host_memory import HostMemory
from tack.runtime.native_code import NativeCode
from tack.runtime.native_image import NativeLibrary
from tack.runtime.pool_slot import parallel_for_word

if TYPE_CHECKING:
    from tack.codegen.llvm_gen import LLVMCodeGen
    from tack.lang.array import Array
    from tack.lang.ir import IRKernel
    from tack.runtime.stream_code import StreamCode

# Symbols of a kernel's module. The generator has them too, but kept code is loaded without it; a test compares them.
LAUNCH_SYMBOL, PARALLEL_FOR_SYMBOL, PRINT_SYMBOL = "tack_launch", "tack_parallel_for", "tack_print"
STREAMS_SYMBOL = "tack_streams"
_LATE = frozenset({PARALLEL_FOR_SYMBOL, STREAMS_SYMBOL})

PrintParts = tuple[str | DType, ...]  # of one `print`: its literal texts, and the types of the values between them

_Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_WORD_TYPES: dict[str, Any] = {"i": ctypes.c_int64, "u": ctypes.c_uint64, "f": ctypes.c_double}


class CpuExecutable:
    """Native code of one kernel variant, kept in memory for as long as this object lives."""

    __slots__ = ("_launch", "_library", "_printer", "address", "may_print", "streams")
    context, is_brief = 0, False

    def __init__(self, library: NativeLibrary, printer: Printer | None, streams: StreamCode | None) -> None:
        self._library, self._printer, self.streams = library, printer, streams
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

    def __init__(self, sites: list[PrintParts]) -> None:
        self._sites = sites
        self._error: BaseException | None = None
        self.callback = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(self._print)

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
    def _texts(site: PrintParts, values: int) -> list[str]:
        from tack.runtime.number_text import number_text

        texts, place = [], values
        for part in site:
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
    supports_device_reductions = True
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
        return self.load(self.build(kernel, options))

    def cache_target(self) -> str | None:
        return code_target()

    def build(self, kernel: IRKernel, options: VariantOptions) -> Artifact:
        from tack.runtime.llvm_jit import compiler

        generator, text = self._generate(kernel, options)
        emit = compiler().compile_lanes if generator.all_lanes else compiler().compile_object
        notes, payload = NativeCode.compiled(lambda far: emit(text, far), (LAUNCH_SYMBOL,), _LATE).describe()
        sites = [[p if isinstance(p, str) else {"dtype": p.name} for p in s.parts] for s in generator.print_sites]
        streams = generator.beyond_caches().source() if generator.streams else None
        lanes = generator.all_lanes
        return Artifact({"code": notes, "prints": sites, "streams": streams, "lanes": lanes}, payload)

    def load(self, artifact: Artifact) -> CpuExecutable:
        code = NativeCode.described(artifact.notes["code"], artifact.payload)
        sites = [
            tuple(p if isinstance(p, str) else BY_NAME[p["dtype"]] for p in site) for site in artifact.notes["prints"]
        ]
        printer = Printer(sites) if sites else None
        imports = {} if printer is None else {PRINT_SYMBOL: printer.address}
        if code.image is not None:
            imports[PARALLEL_FOR_SYMBOL] = parallel_for_word()
        else:
            from tack.runtime.cpu_pool import pool

            imports[PARALLEL_FOR_SYMBOL] = pool().address
        streams = None
        if artifact.notes["streams"] is not None:
            from tack.runtime.stream_code import StreamCode, absent  # few kernels have it

            if code.image is not None:
                text, lanes = str(artifact.notes["streams"]), bool(artifact.notes["lanes"])
                streams = StreamCode(text, lanes, (LAUNCH_SYMBOL,), _LATE, dict(imports))
            imports[STREAMS_SYMBOL] = absent() if streams is None else streams.word
        return CpuExecutable(code.load(imports), printer, streams)

    def reduce_array(self, array: Array, op: str) -> float:
        from tack.runtime import host_sums
        from tack.runtime.reductions import reduce_numpy

        if op == "sum" and array.size >= host_sums.LEAST:
            return host_sums.large_sum(array)
        return reduce_numpy(np.asarray(array), op)

    def inspect(self, kernel: IRKernel, options: VariantOptions) -> dict[str, str]:
        from tack.runtime.llvm_jit import compiler

        generator, text = self._generate(kernel, options)
        return compiler().stages(text, lanes=generator.all_lanes)

    def _generate(self, kernel: IRKernel, options: VariantOptions) -> tuple[LLVMCodeGen, str]:
        """The generator for this processor, and what it has written."""
        from tack.codegen.lane_cost import vector_unit
        from tack.codegen.llvm_gen import LLVMCodeGen
        from tack.runtime.llvm_jit import compiler

        unit = vector_unit(compiler().cpu, compiler().features, cache_bytes())
        generator = LLVMCodeGen(kernel, options, unit)
        return generator, generator.source()
