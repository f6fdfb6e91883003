"""HIP C, for hipRTC with ``-ffp-contract=on``: a product is fused only inside its expression."""

from __future__ import annotations

from typing import ClassVar

from tack.codegen.c_dialect import Dialect
from tack.codegen.cuda_gen import CUDA, CUDACodeGen
from tack.lang.records import replace
from tack.lang.types import DType, f32

HIP = replace(
    CUDA,
    device="hip",
    noinline="__device__ __attribute__((noinline))",
    shuffle_down="__shfl_down({value}, {by})",  # a wave of 64 lanes holds a workgroup's first 32, too
)


class HIPCodeGen(CUDACodeGen):
    """CUDA C but for products, the square root, and what the headers lack."""

    dialect: ClassVar[Dialect] = HIP

    def _rounded_product(self, dtype: DType, a: str, b: str) -> str:
        return f"({a} * {b})"

    def _noinline(self, operation: str, dtype: DType) -> bool:
        return False

    def _call_math(self, name: str, dtype: DType, *operands: str) -> str:
        if name == "sqrt" and dtype is f32:
            # hipRTC 5.2 (gfx90a) rounds sqrtf wrongly. The root in f64, rounded to f32, is the correctly rounded one.
            return f"((float)sqrt((double)({operands[0]})))"
        return super()._call_math(name, dtype, *operands)

    def _wide_extremum(self, op: str, dtype: DType) -> str | None:
        """HIP 5.2 has none for signed 64-bit integers: a loop of compare-and-swap."""
        return None if dtype.is_signed else super()._wide_extremum(op, dtype)
