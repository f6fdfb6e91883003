"""LLVM through llvmlite: text to an object file, an object file to native code in this process.

The two halves are apart so that an object can be kept: `compile_object` needs LLVM's optimiser, `load` only its linker.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from typing import Any

from tack.codegen.llvm_values import MATH_LIBRARY
from tack.lang.loading import loading
from tack.runtime.native_image import NativeLibrary, symbol_address

_OPTIMISATION_LEVEL = 3
# Lanes need no vectoriser and little else; only what makes registers of slots and tidies up.
_LANE_PASSES = "sroa instruction_combine simplify_cfg loop_rotate new_gvn instruction_combine simplify_cfg".split()


class LLVMUnavailableError(ImportError):
    """llvmlite, which compiles for the CPU, is not installed or does not work."""


class LLVMCompiler:
    """LLVM for this processor; `compiler` gives the one of this process.

    Raises
    ------
    LLVMUnavailableError
        If llvmlite cannot be imported.
    """

    def __init__(self) -> None:
        try:
            import llvmlite.binding as llvm
        except ImportError as error:
            message = "the CPU device compiles with llvmlite, which is not installed: pip install tack-core[cpu]"
            raise LLVMUnavailableError(message) from error
        self._llvm = llvm
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # A float sum in a loop keeps its order, and what it adds up may still be computed in vectors: on x86 LLVM 22
        # gives up on the whole loop without this (n-body: 2.4 times slower). An LLVM without the option ignores it.
        llvm.set_option("tack", "-force-ordered-reductions=true")
        self.cpu: str = llvm.get_host_cpu_name()
        # The name alone misses features, and has some that a virtual machine takes away.
        self.features: str = llvm.get_host_cpu_features().flatten()
        self._machine = self._target_machine(_OPTIMISATION_LEVEL, far=False)
        self._jit: Any = None
        self._numbers = itertools.count(1)  # a library name cannot be used again, even after the library is gone
        self._lock = threading.RLock()  # neither a target machine nor the JIT is made for two threads at once

    def _target_machine(self, level: int, far: bool) -> Any:
        """A code generator; `far` is for code that `load` is to link.

        LLVM's linker puts the sections of an object wherever there is room, which may be more than 2 GiB apart, and
        aborts the process if the code expected them nearer. On macOS it is another linker, without this fault.
        """
        llvm = self._llvm
        far = far and sys.platform != "darwin"
        return llvm.Target.from_default_triple().create_target_machine(
            cpu=self.cpu,
            features=self.features,
            opt=level,
            reloc="static" if far else "pic",
            codemodel="large" if far else "small",
        )

    def _emit(self, module: Any, far: bool) -> bytes:
        machine = self._target_machine(_OPTIMISATION_LEVEL, far) if far else self._machine
        image: bytes = machine.emit_object(module)
        return image

    def optimised(self, text: str) -> Any:
        """Parse, verify and optimise; the module."""
        llvm = self._llvm
        with self._lock:
            module = llvm.parse_assembly(text)
            module.verify()
            tuning = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISATION_LEVEL)
            tuning.loop_vectorization = tuning.slp_vectorization = True
            tuning.loop_interleaving = tuning.loop_unrolling = True
            builder = llvm.create_pass_builder(self._machine, tuning)
            builder.getModulePassManager().run(module, builder)
            return module

    def compile_object(self, text: str, far: bool = False) -> bytes:
        """Native code of a module, as the bytes of an object file that other processes of this machine can load."""
        with self._lock:
            return self._emit(self.optimised(text), far)

    def compile_small(self, text: str, far: bool = False) -> bytes:
        """Native code of a module that is run often and compiled once: few passes, a quarter of the time."""
        llvm = self._llvm
        with self._lock:
            module = llvm.parse_assembly(text)
            module.verify()
            tuning = llvm.create_pipeline_tuning_options(speed_level=1)
            builder = llvm.create_pass_builder(self._machine, tuning)
            builder.getModulePassManager().run(module, builder)
            return self._emit(module, far)

    def compile_unoptimised(self, text: str, far: bool = False) -> bytes:
        """Native code of a module whose own instructions do not count."""
        with self._lock:
            image: bytes = self._target_machine(0, far).emit_object(self._llvm.parse_assembly(text))
            return image

    def compile_lanes(self, text: str, far: bool = False) -> bytes:
        """Native code of a module whose loops are lanes already: a short list of passes does as well as all of them."""
        with self._lock:
            return self._emit(self.tidied(text), far)

    def tidied(self, text: str) -> Any:
        """Parse, verify, and run the passes of `compile_lanes`; the module."""
        llvm = self._llvm
        with self._lock:
            module = llvm.parse_assembly(text)
            module.verify()
            tuning = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISATION_LEVEL)
            builder = llvm.create_pass_builder(self._machine, tuning)
            passes = llvm.create_new_module_pass_manager()
            for name in _LANE_PASSES:
                getattr(passes, f"add_{name}_pass")()
            passes.run(module, builder)
            return module

    def stages(self, text: str, lanes: bool = False) -> dict[str, str]:
        """The text of each stage, for people: "llvm", "optimised" and "asm"."""
        with self._lock:
            module = self.tidied(text) if lanes else self.optimised(text)
            return {"llvm": text, "optimised": str(module), "asm": self._machine.emit_assembly(module)}

    def load(self, image: bytes, exports: tuple[str, ...], imports: dict[str, int]) -> NativeLibrary:
        """Link an object file compiled with `far`; `imports` are symbols beside the mathematics of the C library."""
        with self._lock:
            if self._jit is None:
                self._jit, self._math = self._llvm.create_lljit_compiler(), _math_symbols()
            builder = self._llvm.JITLibraryBuilder().add_object_img(image)
            for name, address in (self._math | imports).items():
                builder.import_symbol(name, address)
            for name in exports:
                builder.export_symbol(name)
            builder.add_current_process()  # memset and the like, which LLVM calls of its own accord
            tracker = builder.link(self._jit, f"tack.kernel.{next(self._numbers)}")
            return NativeLibrary({name: int(tracker[name]) for name in exports}, tracker)


def _math_symbols() -> dict[str, int]:
    """Addresses of the C mathematics library's functions, as far as this system has them."""
    found: dict[str, int] = {}
    for name in sorted(MATH_LIBRARY):
        for spelling in (name, name + "f"):
            with contextlib.suppress(LookupError):
                found[spelling] = symbol_address(spelling)
    return found


_lock = threading.Lock()
_compiler: LLVMCompiler | None = None


def compiler() -> LLVMCompiler:
    """The compiler of this process; the first call makes it."""
    global _compiler
    if _compiler is None:
        with loading(), _lock:  # a finalizer may call a kernel, too
            if _compiler is None:
                _compiler = LLVMCompiler()
    return _compiler
