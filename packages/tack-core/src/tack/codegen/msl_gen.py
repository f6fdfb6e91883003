"""Metal Shading Language, compiled with fast math off."""

from __future__ import annotations

from typing import ClassVar, Final

from tack.codegen.atomics import suffix_of
from tack.codegen.c_dialect import OPENCL_TYPES, Dialect
from tack.codegen.c_family import CFamilyCodeGen
from tack.codegen.launch_plan import KernelParameter
from tack.lang import ir
from tack.lang.types import DType, f64, i64, u64

MSL = Dialect(
    device="metal",
    types={name: text for name, text in OPENCL_TYPES.items() if name != "f64"},
    long_suffix="L",
    function="static inline",
    noinline="static __attribute__((noinline))",
    kernel="kernel",
    spaces={"global": "device ", "private": "thread ", "shared": "threadgroup ", "constant": "constant "},
    table="constant",
    shared="threadgroup",
    restrict="__restrict",
    barrier="threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);",
    lane="tack_lane.x",
    group="tack_group.x",
    float_from_bits={32: "as_type<float>({})"},
    float_to_bits={32: "as_type<uint>({})"},
    bitcast="as_type<{type}>({})",
)

_IDS: Final = "uint3 tack_group [[threadgroup_position_in_grid]], uint3 tack_lane [[thread_position_in_threadgroup]]"
_BODY_IDS: Final = "uint3 tack_group, uint3 tack_lane"
# Metal's library lacks these two. Where 1 + x or exp(x) rounds, the error of the logarithm's argument cancels that of
# the factor.
_LOG1P: Final = """{function} float __tack_log1p_f32__(float x) {{
    const float u = 1.0f + x;
    if (u == 1.0f || u == {infinity}) return x;
    return log(u) * (x / (u - 1.0f));
}}
"""
_EXPM1: Final = """{function} float __tack_expm1_f32__(float x) {{
    const float u = exp(x);
    if (u == 1.0f) return x;
    if (u == {infinity} || u - 1.0f == -1.0f) return u - 1.0f;
    return (u - 1.0f) * (x / log(u));
}}
"""
_MISSING: Final = {"log1p": _LOG1P, "expm1": _EXPM1}


class MSLCodeGen(CFamilyCodeGen):
    """Parameters travel in one structure: Metal passes nothing by value, and arrays may overlap."""

    dialect: ClassVar[Dialect] = MSL
    math_names: ClassVar[dict[str, str]] = {"round": "rint", "fabs": "abs", "fmin": "min", "fmax": "max"}
    packed = True
    accumulates: bool  # the function being written has a serial loop that adds to a 64-bit local

    def _preamble(self) -> list[str]:
        return ["#include <metal_stdlib>", "using namespace metal;"]

    def _supports(self, dtype: DType) -> bool:
        return dtype is not f64

    def _call_math(self, name: str, dtype: DType, *operands: str) -> str:
        if name not in _MISSING:
            return super()._call_math(name, dtype, *operands)
        helper, infinity = f"__tack_{name}_f32__", self.dialect.literal(float("inf"), dtype)
        text = _MISSING[name].format(function=self.dialect.function, infinity=infinity)
        self.module.helpers.setdefault(helper, text)
        return f"{helper}({operands[0]})"

    # -- a workaround

    # Metal's compiler (M1 Max) crashed on a 64-bit addition that updates a local from itself in a loop with a run-time
    # bound. Two shapes held: the addition not inlined, which `_emit_assign` writes where the sum is the whole value,
    # and the body of the parallel loop, or the device function, around such a serial loop not inlined. Running
    # test_integer_semantics.py and test_sums_in_loops.py on an Apple GPU without them would show that both can go.

    def _begin(self, function: ir.IRFunction) -> None:
        super()._begin(function)
        self.accumulates = False

    def _emit_assign(self, node: ir.IRAssign) -> None:
        value = node.value
        if self.loops and value.dtype in (i64, u64) and _adds_to(node.name, value):
            self.accumulates = True
            if isinstance(value, ir.IRBinOp) and value.op == "+":
                operands = (value.left, value.right)
                if any(isinstance(x, ir.IRVar) and x.name == node.name for x in operands):
                    self.b.do(f"{self._variable(node.name)} = {self._separate_sum(value.dtype, operands)};")
                    return
        super()._emit_assign(node)

    def _function_words(self) -> str:
        return self.dialect.noinline if self.accumulates else super()._function_words()

    def _separate_sum(self, dtype: DType, operands: tuple[ir.IRExpr, ir.IRExpr]) -> str:
        name, t = f"__tack_add_separate_{dtype.name}__", self._type(dtype)
        a, b = self._operands(operands)
        inner = self.integers.binary("+", dtype, "a", "b")
        text = f"{self.dialect.noinline} {t} {name}({t} a, {t} b) {{\n    return {inner};\n}}\n"
        self.module.helpers.setdefault(name, text)
        return f"{name}({a}, {b})"

    # -- parameters

    def _kernel_text(self, name: str, parameters: tuple[KernelParameter, ...]) -> str:
        """The kernel with one argument buffer.

        Buffers bound one by one could be taken not to overlap; addresses in a structure are addresses.
        """
        typed = [(self._formal_type(p), self.used[p]) for p in parameters]
        declaration, formals, unpacking = "", [_IDS], ""
        if typed:
            promise = f" {self.dialect.restrict}"
            fields = "".join(f"    {t.removesuffix(promise)} {field};\n" for t, field in typed)
            declaration = f"struct {name}_arguments {{\n{fields}}};\n"
            formals.insert(0, f"constant {name}_arguments& arguments [[buffer(0)]]")
            unpacking = "".join(f"    {t} {field} = arguments.{field};\n" for t, field in typed)
        body = self.b.text()
        if self.accumulates and f"    {self.dialect.shared} " not in body:  # shared memory is declared in kernels only
            separate = ", ".join([*(f"{t} {field}" for t, field in typed), _BODY_IDS])
            values = ", ".join([*(field for _, field in typed), "tack_group", "tack_lane"])
            self.module.functions.append(f"{self.dialect.noinline} void {name}_body({separate}) {{\n{body}}}\n")
            body = f"    {name}_body({values});\n"
        return f"{declaration}{self._kernel_header(name)}({', '.join(formals)}) {{\n{unpacking}{body}}}\n"

    # -- atomics

    def native_atomic(self, op: str, dtype: DType, space: str) -> str | None:
        if dtype.is_float or op == "cas":
            return None
        name = "atomic_exchange" if op == "exchange" else f"atomic_fetch_{op}"
        pointer = f"({self.dialect.spaces[space]}atomic_{self._type(dtype)}*)p"
        return f"{name}_explicit({pointer}, v, memory_order_relaxed)"

    def atomic_load(self, bits: int, space: str) -> str:
        return f"atomic_load_explicit((volatile {self.dialect.spaces[space]}atomic_uint*)q, memory_order_relaxed)"

    def compare_and_swap(self, bits: int, space: str) -> str:
        """Metal has the weak form only, which may fail for nothing: try again until it fails for a reason."""
        name, qualifier = f"__tack_cas_u32{suffix_of(self.dialect, space)}__", self.dialect.spaces[space]
        order = "memory_order_relaxed, memory_order_relaxed"
        self.module.helpers.setdefault(
            name,
            f"{self.dialect.function} uint {name}(volatile {qualifier}uint* q, uint old, uint next) {{\n"
            f"    uint seen = old;\n"
            f"    volatile {qualifier}atomic_uint* cell = (volatile {qualifier}atomic_uint*)q;\n"
            f"    while (!atomic_compare_exchange_weak_explicit(cell, &seen, next, {order})) {{\n"
            f"        if (seen != old) return seen;\n"
            f"    }}\n"
            f"    return old;\n}}\n",
        )
        return f"{name}(q, old, next)"


def _adds_to(name: str, value: ir.IRExpr) -> bool:
    """Whether a value is a sum, or made of one, that reads the local which it updates."""
    nodes = list(ir.walk(value))
    return any(isinstance(x, ir.IRVar) and x.name == name for x in nodes) and any(
        isinstance(x, ir.IRBinOp) and x.op == "+" for x in nodes
    )
