"""From a lowered kernel and a call's argument types to something that launches."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tack.codegen.work_estimate import work
from tack.lang.diagnostics import fail
from tack.lang.ir import IRFor, IRKernel, IRParallelFor, IRPrint, IRVar, IRWhile, IRWorkgroup, walk
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.ir_verify import verify_typed
from tack.lang.serial_workgroups import serialise_workgroups
from tack.lang.type_inference import infer_param_types
from tack.lang.types import DType
from tack.lang.workgroups import split_workgroups
from tack.runtime.backend import Backend, Executable, VariantOptions
from tack.runtime.debug import DEBUG

_RELEASE_BYTES = 1 << 16
_RELEASE_UNITS = 320_000  # bytes x work units an iteration: some 20 microseconds at four bytes an iteration


@dataclass(frozen=True, slots=True)
class Variant:
    """A compiled specialization: what the row of a signature launches."""

    executable: Executable
    result: DType | None
    release_bytes: int

    def decode(self, word: int) -> int | float | None:
        """The Python number in the result word of the argument block."""
        if self.result is None:
            return None
        if self.result.is_float:
            return float(struct.unpack("<d", struct.pack("<q", word))[0])
        return word & (1 << 64) - 1 if self.result.kind == "u" else word


def type_kernel(ir: IRKernel, arguments: list[Any]) -> IRKernel:
    """The typed IR for a call with these arguments, workgroups split."""
    typed = annotate_types(ir, infer_param_types(ir, arguments))
    if DEBUG:
        verify_typed(typed)
    return split_workgroups(typed)


def for_backend(typed: IRKernel, backend: Backend) -> IRKernel:
    """The typed IR as this backend takes it.

    Raises
    ------
    NotImplementedError
        If the kernel uses workgroups and the backend cannot run them; the message has the loop's place.
    """
    loop = next((s for s in typed.body if isinstance(s, IRWorkgroup)), None)
    if loop is not None and "workgroups" not in backend.capabilities:
        fail(NotImplementedError, f"device {backend.name} runs no workgroups", loop.loc, hint="use device cpu")
    if "serial_workgroups" not in backend.capabilities:
        return typed
    plain = serialise_workgroups(typed)
    if DEBUG:
        verify_typed(plain)
    return plain


def build_variant(ir: IRKernel, arguments: list[Any], backend: Backend, options: VariantOptions) -> Variant:
    """Type and compile `ir` for `arguments`; raises the user's errors with positions, before anything runs."""
    typed = for_backend(type_kernel(ir, arguments), backend)
    result = typed.results[0] if typed.results else None
    return Variant(backend.compile(typed, options), result, release_bytes(typed))


def release_bytes(typed: IRKernel) -> int:
    """From how many bytes of arguments on a call is worth releasing the GIL; 0: always.

    Releasing costs about 60 ns, so calls of a few microseconds should keep it. Where the work does not follow from the
    size of the arguments it is always released.
    """
    loops = [s for s in typed.body if isinstance(s, IRParallelFor)]
    bounds = [e for loop in loops for r in loop.ranges for e in (r.start, r.stop, r.step)]
    unknown = any(isinstance(n, (IRFor, IRWhile, IRPrint)) for loop in loops for n in walk(loop.body))
    if unknown or any(isinstance(n, IRVar) for bound in bounds for n in walk(bound)):
        return 0
    units = sum(work(loop.body, typed.functions) for loop in loops)
    return min(_RELEASE_BYTES, _RELEASE_UNITS // max(1, units))
