"""Faults planted in the generators of C, each found by numbers or by the sanitizer, never by comparing text.

The tests of the dialects are worth what they find: a signed carrier (INT-1), C's truncating division (IDIV-1), a fused
named product (FLT-4), a missing lane guard (LOOP-12), operands in C's order (EVAL-1), and a lost guard (EVAL-9).
"""

from __future__ import annotations

import numpy as np
import pytest

from dialects import each_dialect, make, needs_compiler, run
from numeric_oracles import wrap
from rigs import host_run
from tack.codegen import integer_division
from tack.codegen.c_expressions import ExpressionEmitter
from tack.codegen.c_facts import ExpressionFacts
from tack.codegen.c_launch import LaunchEmitter
from tack.codegen.cuda_gen import CUDACodeGen
from tack.codegen.integer_ops import IntegerCodeGen
from tack.lang import ir
from tack.lang.types import DType
from test_dialect_floats import named_products

pytestmark = needs_compiler

PRODUCT = make("a, out", ("i in range(a.size)", "out[i] = a[i] * a[i]"))


@each_dialect
@pytest.mark.parametrize("name", ["i32", "i64"])
def test_a_signed_carrier_overflows(dialect: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Squares of the largest values: right as generated, undefined behaviour with a carrier that C treats as signed."""
    a = np.array([2 ** (int(name[1:]) - (name[0] == "i")) - 1], f"{name[0]}{int(name[1:]) // 8}")
    out = np.zeros_like(a)
    run(dialect, PRODUCT, a, out)
    assert out[0] == wrap(int(a[0]) ** 2, name)

    def signed(self: IntegerCodeGen, dtype: DType) -> str:
        return self.dialect.types[f"i{self.carrier_bits(dtype)}"]

    monkeypatch.setattr(IntegerCodeGen, "carrier", signed)
    with pytest.raises(host_run.UndefinedBehaviour, match="mul_overflow"):
        run(dialect, PRODUCT, a, out)


@each_dialect
def test_truncating_division_gives_other_numbers(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make("a, b, out", ("i in range(a.size)", "out[0, i] = a[i] // b[i]\nout[1, i] = a[i] % b[i]"))
    a, b, out = np.array([-7, 7, -7], np.int32), np.array([3, -3, -3], np.int32), np.zeros((2, 3), np.int32)
    want = [[-7 // 3, 7 // -3, -7 // -3], [-7 % 3, 7 % -3, -7 % -3]]
    run(dialect, kernel, a, b, out)
    assert out.tolist() == want

    def truncating(integers: IntegerCodeGen, op: str, dtype: DType, x: str, y: str) -> str:
        return f"(({x}) {op[0]} ({y}))"

    monkeypatch.setattr(integer_division, "integer_division_expr", truncating)
    run(dialect, kernel, a, b, out)
    assert out.tolist() == [[-2, -2, 2], [-1, 1, -1]] != want


@pytest.mark.skipif(not host_run.has_fma(), reason="the processor has no fused multiply-add to contract to")
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_a_fused_named_product_leaves_its_rounding_error(name: str) -> None:
    """CUDA with plain products: a compiler that contracts across statements fuses the named ones into later sums."""

    class PlainProducts(CUDACodeGen):
        def _rounded_product(self, dtype: DType, a: str, b: str) -> str:
            return f"({a} * {b})"

    assert not named_products("cuda", name).any()
    assert named_products("cuda", name, generator=PlainProducts)[0].any()


@each_dialect
def test_a_missing_lane_guard_touches_memory_after_the_array(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make("a", ("i in range(a.shape[0])", "a[i] += 1"))
    memory = np.zeros(1024, np.int64)
    monkeypatch.setattr(host_run.DIALECTS[dialect], "wide_bytes", 0)  # one iteration a thread
    run(dialect, kernel, memory[:300])
    assert memory.sum() == 300
    monkeypatch.setattr(LaunchEmitter, "_lane_guard", lambda self, flat: self._takes("stop"))
    run(dialect, kernel, memory[:300])
    assert memory[300:].any()


@each_dialect
def test_operands_in_any_order_give_other_numbers(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without temporaries for what stands left of an effect."""
    kernel = make("c, out", ("i in range(1)", "out[i] = c[i] * 10 + tack.atomic_add(c, i, 1)"))
    c, out = np.array([1], np.int32), np.zeros(1, np.int32)
    run(dialect, kernel, c, out)
    assert out[0] == 11
    monkeypatch.setattr(ExpressionFacts, "reads", lambda self, node: False)
    run(dialect, kernel, c, out)
    assert out[0] == 32  # instead of 22


@each_dialect
def test_a_lost_guard_divides_by_zero(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conditional expression that computes both arms before it chooses."""
    kernel = make("a, out", ("i in range(a.size)", "out[i] = 12 // a[i] if a[i] != 0 else -1"))
    a, out = np.array([0, 5], np.int32), np.zeros(2, np.int32)
    run(dialect, kernel, a, out)
    assert out.tolist() == [-1, 2]

    def both(self: ExpressionEmitter, node: ir.IRSelect) -> str:
        assert node.dtype is not None
        arms = [self._temporary(self._expr(arm), node.dtype) for arm in (node.then, node.other)]
        return f"({self._condition(node.cond)} ? {arms[0]} : {arms[1]})"

    monkeypatch.setattr(ExpressionEmitter, "_select", both)
    with pytest.raises(host_run.UndefinedBehaviour, match="divrem_overflow"):
        run(dialect, kernel, a, out)
