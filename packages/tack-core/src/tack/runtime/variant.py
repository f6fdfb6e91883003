"""From a lowered kernel and a call's argument types to something that launches."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tack.lang.ir import IRKernel
from tack.lang.ir_type_annotate import annotate_types
from tack.lang.ir_verify import verify_typed
from tack.lang.type_inference import infer_param_types
from tack.lang.types import DType
from tack.runtime.backend import Backend, Executable, VariantOptions
from tack.runtime.debug import DEBUG


@dataclass(frozen=True, slots=True)
class Variant:
    """A compiled specialization: what the row of a signature launches."""

    executable: Executable
    result: DType | None

    def decode(self, word: int) -> int | float | None:
        """The Python number in the result word of the argument block."""
        if self.result is None:
            return None
        if self.result.is_float:
            return float(struct.unpack("<d", struct.pack("<q", word))[0])
        return word & (1 << 64) - 1 if self.result.kind == "u" else word


def type_kernel(ir: IRKernel, arguments: list[Any]) -> IRKernel:
    """The typed IR for a call with these arguments."""
    typed = annotate_types(ir, infer_param_types(ir, arguments))
    if DEBUG:
        verify_typed(typed)
    return typed


def build_variant(ir: IRKernel, arguments: list[Any], backend: Backend, options: VariantOptions) -> Variant:
    """Type and compile `ir` for `arguments`; raises the user's errors with positions, before anything runs."""
    typed = type_kernel(ir, arguments)
    return Variant(backend.compile(typed, options), typed.results[0] if typed.results else None)
