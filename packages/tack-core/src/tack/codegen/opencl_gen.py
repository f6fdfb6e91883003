"""OpenCL C 1.2 and later, also Level Zero's input through SPIR-V."""

from __future__ import annotations

from typing import ClassVar, Final

from tack.codegen.atomics import suffix_of
from tack.codegen.c_dialect import OPENCL_TYPES, Dialect
from tack.codegen.c_family import CFamilyCodeGen, CFamilyOptions
from tack.lang import ir
from tack.lang.records import record
from tack.lang.types import ArrayType, DType, f32, f64, u32

OPENCL = Dialect(
    device="opencl",
    types=OPENCL_TYPES,
    long_suffix="L",
    function="static inline",
    noinline="static __attribute__((noinline))",
    kernel="__kernel __attribute__((reqd_work_group_size({group}, 1, 1)))",
    spaces={"global": "__global ", "private": "__private ", "shared": "__local ", "constant": "__constant "},
    table="__constant",
    shared="__local",
    restrict="restrict",
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    lane="get_local_id(0)",
    group="get_group_id(0)",
    float_from_bits={32: "as_float({})", 64: "as_double({})"},
    float_to_bits={32: "as_uint({})", 64: "as_ulong({})"},
    image="__read_only image3d_t",
    image_sample="read_imagef({image}, tack_sampler, (float4)({x}, {y}, {z}, 0.0f)).x",
)
_SAMPLER: Final = "CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR"
_EXCHANGE = {"exchange": "xchg"}


@record(frozen=True)
class OpenCLOptions(CFamilyOptions):
    """What the device has: f64, 64-bit atomics, and the atomics of C11 ("explicit") instead of those of OpenCL 1.2.

    Atomics of OpenCL 1.2 run on every device; a device whose atomics must say their order needs ``explicit``.
    """

    f64: bool = True
    wide_atomics: bool = True
    explicit_atomics: bool = False


class OpenCLCodeGen(CFamilyCodeGen):
    """Contraction stays inside an expression by the pragma; runtimes differ in what they do without it."""

    dialect: ClassVar[Dialect] = OPENCL
    options: OpenCLOptions

    def __init__(self, kernel: ir.IRKernel, options: OpenCLOptions | None = None) -> None:
        super().__init__(kernel, options or OpenCLOptions())

    def _preamble(self) -> list[str]:
        lines = ["#pragma OPENCL FP_CONTRACT ON"]
        if self._uses_f64():
            lines.append("#pragma OPENCL EXTENSION cl_khr_fp64 : enable")
        if self._uses_wide_atomics():
            lines.append("#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable")
            lines.append("#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable")
        if any(self.sampled.values()):
            lines.append(f"__constant sampler_t tack_sampler = {_SAMPLER};")
        return lines

    def _supports(self, dtype: DType) -> bool:
        return dtype is not f64 or self.options.f64

    def _noinline(self, operation: str, dtype: DType) -> bool:
        """Level Zero (Data Center GPU Max 1100, IGC 2.7.11): an inlined negation or abs of a signed minimum lost its
        sign once widened. `test_integer_semantics.py` on that device would show that this can go."""
        return (operation == "neg" and dtype.bits < u32.bits) or (operation == "abs" and dtype.bits <= u32.bits)

    def _call_math(self, name: str, dtype: DType, *operands: str) -> str:
        text = super()._call_math(name, dtype, *operands)
        if name not in ("floor", "ceil") or dtype is not f64:
            return text
        # Level Zero (Data Center GPU Max 1100, intel-opencl-icd 25.05): +0.0 for floor(-0.0) and ceil(-0.1). Neither
        # ever changes a sign, so this is exact everywhere. `test_float_semantics.py` there would show that it can go.
        name = f"__tack_{name}_f64__"
        if name not in self.module.helpers:
            body = f"return copysign({self._math_name(name[7:-6], dtype)}(x), x);"
            self.module.helpers[name] = f"{self.dialect.function} double {name}(double x) {{\n    {body}\n}}\n"
        return f"{name}({operands[0]})"

    # -- atomics

    def atomic_types(self) -> tuple[str, ...]:
        wide = ("i64", "u64", *(("f64",) if self.options.f64 else ()))
        return ("i32", "u32", "f32", *(wide if self.options.wide_atomics else ()))

    def native_atomic(self, op: str, dtype: DType, space: str) -> str | None:
        if dtype.is_float and not (op == "exchange" and dtype is f32):
            return None
        if op == "cas" and self.options.explicit_atomics:
            return None
        t, qualifier = self._type(dtype), self.dialect.spaces[space]
        if self.options.explicit_atomics:
            name = "atomic_exchange" if op == "exchange" else f"atomic_fetch_{op}"
            pointer = f"(volatile {qualifier}atomic_{t}*)p"
            return f"{name}_explicit({pointer}, v, memory_order_relaxed, memory_scope_device)"
        prefix = "atom" if dtype.bits > u32.bits else "atomic"
        name, values = ("cmpxchg", "e, d") if op == "cas" else (_EXCHANGE.get(op, op), "v")
        return f"{prefix}_{name}((volatile {qualifier}{t}*)p, {values})"

    def atomic_load(self, bits: int, space: str) -> str:
        t = self.dialect.unsigned(bits)
        if self.options.explicit_atomics:
            pointer = f"(volatile {self.dialect.spaces[space]}atomic_{t}*)q"
            return f"atomic_load_explicit({pointer}, memory_order_relaxed, memory_scope_device)"
        # OpenCL 1.2 has no atomic load: swapping a zero for a zero is one, and races with nothing.
        return f"{'atom' if bits > u32.bits else 'atomic'}_cmpxchg(q, ({t})0, ({t})0)"

    def compare_and_swap(self, bits: int, space: str) -> str:
        t = self.dialect.unsigned(bits)
        if not self.options.explicit_atomics:
            return f"{'atom' if bits > u32.bits else 'atomic'}_cmpxchg(q, old, next)"
        name, qualifier = f"__tack_cas_u{bits}{suffix_of(self.dialect, space)}__", self.dialect.spaces[space]
        orders = "memory_order_relaxed, memory_order_relaxed, memory_scope_device"
        self.module.helpers.setdefault(
            name,
            f"{self.dialect.function} {t} {name}(volatile {qualifier}{t}* q, {t} old, {t} next) {{\n"
            f"    atomic_compare_exchange_strong_explicit((volatile {qualifier}atomic_{t}*)q, &old, next, {orders});\n"
            f"    return old;\n}}\n",
        )
        return f"{name}(q, old, next)"

    # -- what a kernel uses

    def _uses_f64(self) -> bool:
        functions = (self.kernel, *self.kernel.functions.values())
        nodes = (getattr(node, "dtype", None) for function in functions for node in ir.walk(function.body))
        params = (param.type for function in functions for param in function.params)
        return f64 in nodes or any(f64 in (p, p.dtype if isinstance(p, ArrayType) else None) for p in params)

    def _uses_wide_atomics(self) -> bool:
        functions = (self.kernel, *self.kernel.functions.values())
        nodes = (node for function in functions for node in ir.walk(function.body))
        return any(isinstance(n, ir.IRAtomic) and n.dtype is not None and n.dtype.bits > u32.bits for n in nodes)
