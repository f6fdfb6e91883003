"""CUDA C, for NVRTC."""

from __future__ import annotations

from typing import ClassVar

from tack.codegen.c_dialect import CUDA_TYPES, Dialect
from tack.codegen.c_family import CFamilyCodeGen
from tack.codegen.launch_plan import RESULT, KernelParameter
from tack.lang.types import DType, f32, u32

CUDA = Dialect(
    device="cuda",
    types=CUDA_TYPES,
    long_suffix="LL",
    function="__device__ inline",
    noinline="__device__ __noinline__",
    kernel='extern "C" __global__ __launch_bounds__({group})',
    spaces={"global": "", "private": "", "shared": "", "constant": "const "},
    table="__device__ const",
    shared="__shared__",
    restrict="__restrict__",
    barrier="__syncthreads();",
    lane="threadIdx.x",
    group="blockIdx.x",
    image="unsigned long long",
    image_sample="tex3D<float>({image}, {x}, {y}, {z})",
    float_from_bits={32: "__uint_as_float({})", 64: "__longlong_as_double((long long)({}))"},
    shuffle_down="__shfl_down_sync(0xffffffffu, {value}, {by})",
    variable="alignas(16) static __device__",
    fence="__threadfence();",
    ticket="atomicInc({place}, {last})",
    float_to_bits={32: "__float_as_uint({})", 64: "((unsigned long long)__double_as_longlong({}))"},
)
_CAST = "(unsigned long long*)p"
_ATOMICS = {"add": "Add", "sub": "Sub", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor"}


class CUDACodeGen(CFamilyCodeGen):
    """NVRTC's ``--fmad=true`` fuses a product into a later sum across statements, and has no option for expressions
    only; so a product that is no operand of a sum is written as an intrinsic that is never fused (rule FLT-4)."""

    dialect: ClassVar[Dialect] = CUDA
    f32_suffix: ClassVar[str] = "f"
    wide_bytes: ClassVar[int] = 16
    strided: ClassVar[int] = 4
    popcount: ClassVar[dict[int, str]] = {32: "__popc({})", 64: "__popcll({})"}
    clz: ClassVar[dict[int, str]] = {32: "__clz((int)({}))", 64: "__clzll((long long)({}))"}

    def _rounded_product(self, dtype: DType, a: str, b: str) -> str:
        return f"{'__fmul_rn' if dtype is f32 else '__dmul_rn'}({a}, {b})"

    def _noinline(self, operation: str, dtype: DType) -> bool:
        """NVRTC 13.0 for sm_90 (H200, driver 580.159): an inlined negation or abs of the i16 minimum lost its sign once
        widened. `test_integer_semantics.py::test_unary_operations_wrap` on that device would show that this can go."""
        return operation in ("neg", "abs") and dtype.bits < u32.bits

    def _formal_type(self, parameter: KernelParameter) -> str:
        """A result is volatile: a store to all of the system, for which the host may look while the kernel runs."""
        return ("volatile " if parameter.kind == RESULT else "") + super()._formal_type(parameter)

    # -- atomics

    def atomic_types(self) -> tuple[str, ...]:
        return ("i32", "u32", "i64", "u64", "f32", "f64")

    def native_atomic(self, op: str, dtype: DType, space: str) -> str | None:
        if dtype.is_float:
            if op in ("add", "sub"):
                return f"atomicAdd(p, {'' if op == 'add' else '-'}v)"
            return "atomicExch(p, v)" if op == "exchange" and dtype is f32 else None
        if dtype.bits == u32.bits:
            return "atomicCAS(p, e, d)" if op == "cas" else f"atomic{_ATOMICS.get(op, 'Exch')}(p, v)"
        return self._wide_atomic(op, dtype)

    def _wide_atomic(self, op: str, dtype: DType) -> str | None:
        """64-bit integers: extrema of either signedness, the rest on unsigned patterns."""
        if op == "cas":
            return None
        if op in ("min", "max"):
            return self._wide_extremum(op, dtype)
        value = "(unsigned long long)v"
        if op == "sub":
            op, value = "add", f"0ULL - {value}"
        return self.integers.read_bits(dtype, f"atomic{_ATOMICS.get(op, 'Exch')}({_CAST}, {value})")

    def _wide_extremum(self, op: str, dtype: DType) -> str | None:
        return f"atomic{_ATOMICS[op]}(p, v)"

    def atomic_load(self, bits: int, space: str) -> str:
        return "*q"

    def compare_and_swap(self, bits: int, space: str) -> str:
        unsigned = self.dialect.unsigned(bits)
        return f"atomicCAS(({unsigned}*)q, old, next)"
