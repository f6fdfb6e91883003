"""The text of every dialect: accepted by the vendors' compilers, and what it must and must not contain.

CUDA by NVRTC to PTX and cubin, HIP by hipRTC and by clang, OpenCL C by Intel's ocloc and Khronos' validator, Metal by
clang with its address spaces checked. A compiler that is absent is a counted, named skip; CI has them all. Rules FLT-1
to FLT-4, LIT-4, INT-1, SRC-8.
"""

from __future__ import annotations

import functools
import math
import os
import re
from typing import Any

import numpy as np
import pytest

import test_integer_expression_differential as differential
from dialect_corpus import array, atomics, corpus
from dialects import ATOMIC_TYPES, FLOAT_TYPES, make
from rigs import host_run
from rigs import text_compilers as compilers
from tack.codegen.array_reductions import fused_reduction_source, reduction_source
from tack.codegen.c_family import CFamilyOptions
from tack.codegen.exact_sums import exact_bins_source, exact_total_source
from tack.codegen.opencl_gen import OpenCLOptions
from tack.lang.types import BY_NAME, f32, f64, i64

ENTRIES = (
    "integers",
    "floats_f32",
    "floats_f64",
    "control",
    "atomics",
    "workgroups",
    "names",
    "streams",
    "differential",
)
REDUCTIONS = ("sum_u8", "sum_f32", "sum_f64", "min_f32", "max_f64", "exact_f32", "exact_f64", "exact_total")
FUSED = ("fused_sum_f32", "fused_sum_i64", "fused_min_u8", "fused_max_f64")


def needs(*names: str) -> Any:
    """Skip where a compiler is absent; `test_continuous_integration_has_every_compiler` says that CI may not."""
    reasons = [reason for name in names if (reason := compilers.missing(name))]
    return pytest.mark.skipif(bool(reasons), reason="; ".join(reasons) or "never")


def text_of(dialect: str, kernel: Any, *types: Any, options: CFamilyOptions | None = None) -> str:
    return host_run.generate(dialect, host_run.type_for(kernel, types), options)[0]


@functools.cache
def texts(dialect: str, options: CFamilyOptions | None = None) -> dict[str, str]:
    """The corpus in a dialect, one text an entry, and a batch of generated programs and the reductions."""
    wide = options is None or not isinstance(options, OpenCLOptions) or options.f64
    float_types = FLOAT_TYPES[dialect] if wide else ("f32",)
    atomic_types = ATOMIC_TYPES[dialect] if wide else ("i32", "u32", "f32")
    made = {
        name: text_of(dialect, kernel, *types, options=options)
        for name, (kernel, types) in corpus(float_types, atomic_types)
    }
    batch = differential.make_batch(3)
    inputs = [array(t) for t in differential.INPUTS.values()] + [array(t, 2) for t in differential.OUTPUTS.values()]
    made["differential"] = text_of(
        dialect, differential.load(batch.source(), f"text {dialect}"), *inputs, options=options
    )
    made |= reductions(dialect, options, ("u8", "i32", "i64", *float_types))
    return made


def reductions(dialect: str, options: CFamilyOptions | None, names: tuple[str, ...]) -> dict[str, str]:
    """The texts of array reductions over elements of some types."""
    generator = host_run.DIALECTS[dialect]
    made = {"exact_total": exact_total_source(generator, options)[0]}
    for name in names:
        dtype = BY_NAME[name]
        if dtype.is_float:
            made[f"exact_{name}"] = exact_bins_source(generator, dtype, options)[0]
        for op in ("sum", "min", "max"):
            made[f"{op}_{name}"] = reduction_source(generator, op, dtype, options)[0]
            if generator.dialect.ticket:
                made[f"fused_{op}_{name}"] = fused_reduction_source(generator, op, dtype, options)[0]
    return made


def whole(dialect: str, options: CFamilyOptions | None = None) -> list[str]:
    return list(texts(dialect, options).values())


# ------------------------------------------------------------------------------------------------------ acceptance


def test_continuous_integration_has_every_compiler() -> None:
    """A skip is for a user's machine: where CI is set, `.ci/run` has installed them all."""
    absent = [compilers.missing(name) for name in ("nvrtc", "hiprtc", "ocloc", "spirv-val", "clang")]
    absent.append(None if host_run.compiler() else "no g++")
    assert "CI" not in os.environ or not any(absent), absent


@needs("nvrtc")
@pytest.mark.parametrize(("architecture", "part"), [("sm_90", (0, 1)), ("sm_75", (0, 3)), ("sm_100", (1, 3))])
def test_nvrtc_compiles_every_text(architecture: str, part: tuple[int, int]) -> None:
    """For one architecture all of them, a third each for an older and a newer one."""
    first, step = part
    for text in whole("cuda")[first::step]:
        ptx, cubin = compilers.compile_cuda(text, architecture)
        assert f".target {architecture}" in ptx and cubin[:4] == b"\x7fELF"


@needs("hiprtc")
@pytest.mark.parametrize("name", [*ENTRIES, *REDUCTIONS, *FUSED])
def test_hiprtc_compiles_every_text(name: str) -> None:
    """gfx90a, with the oldest headers that are supported; in a process of its own."""
    assert len(compilers.compile_hip(texts("hip")[name])) > 1000


@needs("clang")
@pytest.mark.parametrize("architecture", ["gfx942", "gfx1100"])
def test_clang_compiles_every_hip_text(architecture: str) -> None:
    for text in whole("hip"):
        assert f'"target-cpu"="{architecture}"' in compilers.compile_hip_clang(text, architecture)


@needs("ocloc", "spirv-val")
@pytest.mark.parametrize(
    ("standard", "options"),
    [
        ("CL1.2", OpenCLOptions()),
        ("CL2.0", OpenCLOptions(explicit_atomics=True)),
        ("CL1.2", OpenCLOptions(f64=False, wide_atomics=False, group=64)),
    ],
    ids=["plain", "explicit", "without-f64"],
)
def test_ocloc_compiles_every_text_to_valid_spirv(standard: str, options: OpenCLOptions) -> None:
    done = whole("opencl", OpenCLOptions()) if options != OpenCLOptions() else []
    texts_ = [text for text in whole("opencl", options) if text not in done]
    assert texts_, "control: options change some"
    for text in texts_:
        compilers.validate_spirv(compilers.compile_opencl(text, standard))


@needs("clang")
def test_clang_compiles_every_metal_text() -> None:
    for text in whole("metal"):
        assert "define" in compilers.compile_metal(text)


@needs("nvrtc")
def test_nvrtc_rejects_a_wrong_text() -> None:
    """The control of the tests above, as the four after it."""
    with pytest.raises(compilers.Rejected, match="__popq"):
        compilers.compile_cuda(texts("cuda")["integers"].replace("__popc(", "__popq("), "sm_90")


@needs("hiprtc")
def test_hiprtc_rejects_a_wrong_text() -> None:
    with pytest.raises(compilers.Rejected, match="rintq"):
        compilers.compile_hip(texts("hip")["floats_f32"].replace("rintf(", "rintq("))


@needs("ocloc", "spirv-val")
def test_ocloc_rejects_a_lost_address_space() -> None:
    with pytest.raises(compilers.Rejected, match="address space"):
        compilers.compile_opencl(
            texts("opencl")["control"].replace("__constant int* a_values", "__private int* a_values")
        )
    with pytest.raises(compilers.Rejected):
        compilers.validate_spirv(compilers.compile_opencl(texts("opencl")["names"])[:-8])


@needs("clang")
@pytest.mark.parametrize("space", ["device", "constant"])
def test_clang_rejects_a_lost_address_space_of_metal(space: str) -> None:
    text = texts("metal")["control"]
    lost = re.sub(rf"{space} ((?:const )?\w+\* a_values)", r"thread \1", text)
    assert lost != text
    with pytest.raises(compilers.Rejected, match=r"address space|no matching function"):
        compilers.compile_metal(lost)


# --------------------------------------------------------------------------------------------------------- numbers

NAMED = ("a, b, c, out", ("i in range(out.size)", "p = a[i] * b[i]\nout[i] = p + c[i]"))
FUSABLE = ("a, b, c, out", ("i in range(out.size)", "out[i] = a[i] * b[i] + c[i]"))


def four(dtype: Any) -> tuple[Any, ...]:
    return (array(dtype.name),) * 4


@needs("nvrtc")
@pytest.mark.parametrize(("dtype", "bits"), [(f32, "f32"), (f64, "f64")])
def test_nvrtc_fuses_no_named_product(dtype: Any, bits: str) -> None:
    """FLT-4 in PTX, where NVRTC's own contraction crosses statements; plain products show that it does (FLT-3)."""
    named = text_of("cuda", make(*NAMED), *four(dtype))
    ptx, _ = compilers.compile_cuda(named, "sm_90")
    assert f"mul.rn.{bits}" in ptx and f"fma.rn.{bits}" not in ptx
    plain = re.sub(r"__[fd]mul_rn\((.*?\]), (.*?\])\)", r"(\1 * \2)", named)
    assert plain != named and f"fma.rn.{bits}" in compilers.compile_cuda(plain, "sm_90")[0]
    assert f"fma.rn.{bits}" in compilers.compile_cuda(text_of("cuda", make(*FUSABLE), *four(dtype)), "sm_90")[0]


@needs("nvrtc")
def test_nvrtc_keeps_safe_mathematics() -> None:
    """FLT-1, FLT-2: correctly rounded division and root, gradual underflow, nothing approximate in their place."""
    body = "out[i] = a[i] / b[i] + math.sqrt(c[i])"
    ptx, _ = compilers.compile_cuda(
        text_of("cuda", make("a, b, c, out", ("i in range(4)", body), names={"math": math}), *four(f32)), "sm_90"
    )
    assert "div.rn.f32" in ptx and "sqrt.rn.f32" in ptx and ".ftz" not in ptx and ".approx" not in ptx
    assert {"--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"} <= set(compilers.CUDA_OPTIONS)


@needs("clang")
def test_hip_contracts_inside_one_expression_only() -> None:
    """FLT-3, FLT-4 in LLVM IR: one fused operation for one expression, none for a named product, no fast math."""
    named = compilers.compile_hip_clang(text_of("hip", make(*NAMED), *four(f32)), "gfx942")
    fused = compilers.compile_hip_clang(text_of("hip", make(*FUSABLE), *four(f32)), "gfx942")
    assert "llvm.fmuladd.f32" in fused and "llvm.fmuladd" not in named and "fmul" in named
    assert not re.search(r"\b(fast|reassoc|nnan|nsz|arcp|afn)\b.*%", named + fused) and "fmul contract" not in named
    assert compilers.HIP_OPTIONS == ("-ffp-contract=on",)


def test_opencl_says_how_it_contracts() -> None:
    assert texts("opencl")["floats_f32"].startswith("#pragma OPENCL FP_CONTRACT ON\n")
    assert "-cl-fp32-correctly-rounded-divide-sqrt" in compilers.OPENCL_OPTIONS
    assert not any("relaxed" in o or "unsafe" in o or "fast" in o for o in compilers.OPENCL_OPTIONS)


@pytest.mark.parametrize("dialect", ["cuda", "hip", "opencl"])
def test_f64_literals_round_trip(dialect: str) -> None:
    """LIT-4: unsuffixed digits of an f64, suffixed ones of an f32 that is exact."""
    text = text_of(dialect, make("x, out", ("i in range(4)", "out[i] = x[i] * 0.1")), array("f64"), array("f64"))
    assert re.search(r"\b0\.1\b(?!f)", text) and "0.1f" not in text
    narrow = text_of(dialect, make("x, out", ("i in range(4)", "out[i] = x[i] * 0.1")), array("f32"), array("f32"))
    (digits,) = set(re.findall(r"(0\.1\d*)f", narrow))
    assert np.float32(float(digits)) == np.float32(0.1)


# ---------------------------------------------------------------------------------------------------------- helpers


@pytest.mark.parametrize("dialect", host_run.DIALECTS)
def test_only_helpers_that_are_used_are_written(dialect: str) -> None:
    text = text_of(
        dialect, make("a, out", ("i in range(out.size)", "out[i] = a[i] * a[i]")), array("u16"), array("u16")
    )
    assert set(re.findall(r"__tack_\w+__", text)) == {"__tack_mul_u16__"}
    none = text_of(
        dialect, make("a, out", ("i in range(out.size)", "out[i] = a[i] + a[i]")), array("f32"), array("f32")
    )
    assert "__tack_" not in none


@pytest.mark.parametrize("dialect", host_run.DIALECTS)
def test_integers_are_computed_in_unsigned_carriers_of_at_least_32_bits(dialect: str) -> None:
    """INT-1: operands of every `+ - * << & | ^` in the helpers of operations are cast to the carrier."""
    text = texts(dialect)["integers"]
    carriers = {"cuda": "unsigned int|unsigned long long", "hip": "unsigned int|unsigned long long"}.get(
        dialect, "uint|ulong"
    )
    for name in ("add", "sub", "mul", "and", "or", "xor", "shl"):
        found = re.findall(rf"inline [\w ]+ __tack_{name}_\w+__\(.*?\) \{{\n(.*?)\n\}}", text, re.S)
        assert len(found) >= 7, name  # an i64 `+` may be only in index arithmetic
        for body in found:
            assert re.search(rf"\(\(({carriers})\)\(a\)\) [-+*&|^<]+ \(\(({carriers})\)\(b\)\)", body), body


def test_metal_reads_bits_as_signed_by_its_own_operation() -> None:
    assert "return as_type<char>(x);" in texts("metal")["integers"]
    assert "(signed char)(-1 - (signed char)((unsigned char)~x))" in texts("cuda")["integers"]


# ------------------------------------------------------------------------------------------------------ workarounds


def test_level_zero_negations_and_magnitudes_are_not_inlined() -> None:
    """INT-3: neg below 32 bits and abs below 64."""
    text = texts("opencl")["integers"]
    separate = set(re.findall(r"static __attribute__\(\(noinline\)\) \w+ (__tack_\w+__)", text))
    names = {f"__tack_neg_{t}__" for t in ("i8", "u8", "i16", "u16")} | {
        f"__tack_abs_{t}__" for t in ("i8", "i16", "i32")
    }
    assert separate == names


def test_level_zero_floor_and_ceil_of_f64_keep_the_sign() -> None:
    """FLT-6."""
    assert (
        "copysign(floor(x), x)" in texts("opencl")["floats_f64"]
        and "copysign(ceil(x), x)" in texts("opencl")["floats_f64"]
    )
    assert "copysign(floor" not in texts("opencl")["floats_f32"]


def test_hip_takes_the_f32_root_in_f64() -> None:
    assert "((float)sqrt((double)(" in texts("hip")["floats_f32"] and "sqrtf" not in texts("hip")["floats_f32"]


ACCUMULATE = "for j in range(n):\n    s += a[j]\nout[i] = s"


def test_metal_adds_64_bits_apart_where_a_loop_accumulates() -> None:
    """The workaround's shape: a local of 64 bits that grows by itself, inside a loop."""
    for t, separate in (("i64", True), ("u64", True), ("i32", False)):
        kernel = make("a, out, n", ("i in range(out.size)", f"s = tack.{t}(0)\n{ACCUMULATE}"))
        text = text_of("metal", kernel, array(t), array(t), i64)
        assert ("__attribute__((noinline))" in text) is separate
        assert (f"v_s = __tack_add_separate_{t}__(v_s, " in text) is separate
    outside = make("a, out", ("i in range(out.size)", "s = tack.i64(0)\ns += a[i]\nout[i] = s"))
    assert "noinline" not in text_of("metal", outside, array("i64"), array("i64"))


NESTED = "for j in range(n):\n    s = (s + a[j]) * a[0]\nout[i] = s"


@pytest.mark.parametrize("loop", [ACCUMULATE, NESTED])
def test_metal_keeps_bodies_apart_whose_loops_accumulate(loop: str) -> None:
    """The workaround's other shape: a parallel body with such a loop is a function that is not inlined."""
    for t, separate in (("i64", True), ("u64", True), ("i32", False)):
        kernel = make("a, out, n", ("i in range(out.size)", f"s = tack.{t}(0)\n{loop}"))
        text = text_of("metal", kernel, array(t), array(t), i64)
        entry = text[text.index("kernel void") :]
        assert ("static __attribute__((noinline)) void k_loop0_body(" in text) is separate
        assert ("k_loop0_body(a_a, a_out, " in entry) is separate
        assert ("for (" in entry) is not separate
        if compilers.missing("clang") is None:
            compilers.compile_metal(text)


ADDING_FUNCTION = """
@tack.func
def total(a, n):
    s = tack.i64(0)
    for j in range(n):
        s += a[j]
    return s
"""


def test_metal_does_not_inline_functions_whose_loops_accumulate() -> None:
    """Device functions with such a loop."""
    kernel = make("a, out, n", ("i in range(out.size)", "out[i] = total(a, n)"), before=ADDING_FUNCTION)
    text = text_of("metal", kernel, array("i64"), array("i64"), i64)
    assert "static __attribute__((noinline)) long f_total(" in text
    assert "_body(" not in text


@pytest.mark.skipif(host_run.compiler() is None, reason="no g++ to run generated C on the host")
def test_metal_bodies_apart_compute_the_same() -> None:
    """Beside Python's integers, wrapped; a workgroup's body stays in the kernel, where shared memory must be."""
    kernel = make("a, out, n", ("i in range(out.size)", f"s = tack.i64(i)\n{NESTED}"))
    a, out = np.array([2**62 + 3, -5, 2**63 - 1, 7]), np.zeros(5, np.int64)
    host_run.run_on_host("metal", kernel, a, out, 4)
    for i in range(5):
        s = i
        for j in range(4):
            s = (s + int(a[j])) * int(a[0])
        assert int(out[i]) == (s + 2**63) % 2**64 - 2**63
    shared = "t = tack.shared(256, tack.i64)\nt[tack.thread_id()] = i\ntack.barrier()\n"
    grouped = make("a, out, n", ("i in range(out.size)", f"{shared}s = t[tack.thread_id()]\n{ACCUMULATE}"))
    assert "_body(" not in text_of("metal", grouped, array("i64"), array("i64"), i64)
    host_run.run_on_host("metal", grouped, np.arange(4), out, 4)
    assert out.tolist() == [i + 6 for i in range(5)]


def test_metal_takes_one_argument_buffer() -> None:
    """Addresses are fields of a structure, so that arrays may overlap and any number of them fits."""
    text = texts("metal")["control"]
    header = next(line for line in text.splitlines() if line.startswith("kernel void k_loop0("))
    assert re.findall(r"\[\[buffer\((\d+)\)\]\]", header) == ["0"]
    assert "constant k_loop0_arguments& arguments [[buffer(0)]]" in header
    assert header.count("[[threadgroup_position_in_grid]]") == header.count("[[thread_position_in_threadgroup]]") == 1
    names = [f"a{n}" for n in range(40)]
    many = make(", ".join(names), ("i in range(4)", "a0[i] = " + " + ".join(f"{name}[i]" for name in names[1:])))
    text = text_of("metal", many, *(array("f32"),) * 40)
    fields = text[text.index("struct k_loop0_arguments {") :].split("}")[0]
    assert [f"a_{name}" for name in names] == re.findall(r"device .*float\* (\w+);", fields)
    assert "restrict" not in text


# ------------------------------------------------------------------------------------------------- options and promises


def test_promises_of_no_overlap_are_made_only_when_given() -> None:
    """MEM-5."""
    kernel, types = make("a, out", ("i in range(out.size)", "out[i] = a[i]")), (array("f32"), array("f32"))
    words = {"cuda": "__restrict__", "hip": "__restrict__", "metal": "__restrict", "opencl": "restrict"}
    for dialect, word in words.items():
        promised = OpenCLOptions(disjoint=True) if dialect == "opencl" else CFamilyOptions(disjoint=True)
        assert word in text_of(dialect, kernel, *types, options=promised)
        assert word not in text_of(dialect, kernel, *types)


def test_types_that_may_overlap_are_marked() -> None:
    """MEM-4: arrays of different elements may be the same memory, which C must not rule out."""
    kernel = make("a, out", ("i in range(out.size)", "out[i] = a[i]"))
    for dialect in host_run.DIALECTS:
        assert "may_alias" in text_of(dialect, kernel, array("f32"), array("i32"))
        assert "may_alias" not in text_of(dialect, kernel, array("f32"), array("f32"))


def test_atomics_of_opencl_follow_the_option() -> None:
    kernel, types = atomics(("i32", "f32"))
    plain = text_of("opencl", kernel, *types)
    explicit = text_of("opencl", kernel, *types, options=OpenCLOptions(explicit_atomics=True))
    assert "atomic_cmpxchg" in plain and "_explicit" not in plain
    assert "memory_order_relaxed, memory_scope_device" in explicit and "cmpxchg" not in explicit


@pytest.mark.parametrize(("dialect", "shuffles"), [("cuda", 5), ("hip", 5), ("opencl", 0), ("metal", 0)])
def test_the_last_halves_of_a_block_reduction_need_no_barriers(dialect: str, shuffles: int) -> None:
    """GRP-9: the pairs are the same; what the bits are is in test_dialect_workgroups.py."""
    kernel = make("x, out", ("i in range(x.size)", "s = tack.block_sum(x[i])\nout[i] = s"))
    text = text_of(dialect, kernel, array("f32"), array("f32"))
    assert len(re.findall(r"__shfl_down(?:_sync)?\(", text)) == shuffles
