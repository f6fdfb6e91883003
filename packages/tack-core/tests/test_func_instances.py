"""Device functions in typed IR: instances by signature, results, call chains.

Rules FUNC-1 to FUNC-5, LIT-10 and SRC-7.
"""

from __future__ import annotations

import pytest

import tack
from tack.lang.ir import IRCall, IRReturn
from tack.lang.types import f32, f64, i8, i16, i32, i64, u8, u64
from typing_rig import array, module, nodes, stored, typed_body


def funcs(text):
    """The device functions that `text` defines, by name."""
    return {name: value for name, value in module(text).items() if isinstance(value, tack.lang.func.Func)}


def functions_by_params(kernel):
    return {name: tuple(p.type for p in f.params) for name, f in kernel.functions.items()}


TWICE = """
@tack.func
def twice(x):
    return x + x
"""


def test_calls_with_one_signature_share_an_instance():
    """FUNC-5"""
    body = "out[i] = twice(x) + twice(y) + twice(z) + twice(i)"
    kernel = typed_body(body, {"out": array(f64), "x": i32, "y": i32, "z": f64}, **funcs(TWICE))
    assert functions_by_params(kernel) == {"twice": (i32,), "twice.2": (f64,), "twice.3": (i64,)}
    assert [f.results for f in kernel.functions.values()] == [(i32,), (f64,), (i64,)]
    assert [call.symbol for call in nodes(kernel, IRCall)] == ["twice", "twice", "twice.2", "twice.3"]


def test_callees_come_before_callers():
    """FUNC-1: through any depth; an instance that nothing calls in the end is not listed."""
    four = "@tack.func\ndef four(x):\n    return twice(twice(x))\n"
    top = "@tack.func\ndef top(x):\n    return four(x) + twice(x)\n"
    made = funcs(TWICE + four + top)
    kernel = typed_body("out[i] = top(x)", {"out": array(i64), "x": u8}, **made)
    order = list(kernel.functions)
    assert order.index("twice") < order.index("four") < order.index("top")
    assert len(order) == 3


def test_functions_of_one_name_do_not_interfere():
    """FUNC-5"""
    first = funcs("@tack.func\ndef f(x):\n    return x + 1\n")["f"]
    second = funcs("@tack.func\ndef f(x):\n    return x / 2\n")["f"]
    kernel = typed_body("out[i] = first(x) + second(x)", {"out": array(i8), "x": i16}, first=first, second=second)
    assert {name: f.results for name, f in kernel.functions.items()} == {"f": (i32,), "f.2": (f32,)}


def test_several_returns_join():
    """FUNC-2"""
    made = funcs("@tack.func\ndef f(x, y):\n    if x > 1:\n        return x\n    return y\n")
    kernel = typed_body("out[i] = f(x, y)", {"out": array(i8), "x": i8, "y": u8}, **made)
    assert kernel.functions["f"].results == (i16,)
    assert [node.values[0].dtype for node in nodes(kernel.functions["f"], IRReturn)] == [i16, i16]
    with pytest.raises(TypeError, match="a result is u64 here and i8 at"):
        typed_body("out[i] = f(x, y)", {"out": array(i8), "x": i8, "y": u64}, **made)


def test_several_results():
    """FUNC-2: each position joins on its own; the count must match the names."""
    made = funcs("@tack.func\ndef f(x, y):\n    if x > 1:\n        return x, y\n    return y, 0.5\n")
    kernel = typed_body("p, q = f(x, y)\nout[i] = p", {"out": array(i64), "x": i8, "y": i64}, **made)
    assert kernel.functions["f"].results == (i64, f32)
    params = {"out": array(i64), "x": i8, "y": i64}
    with pytest.raises(TypeError, match="`f` returns 2 values"):
        typed_body("out[i] = f(x, y)", params, **made)
    with pytest.raises(TypeError, match="2 values cannot be unpacked"):
        typed_body("p, q, r = f(x, y)\nout[i] = p", params, **made)


def test_functions_without_a_result():
    """FUNC-2, FUNC-4: arrays pass by reference, with their types."""
    made = funcs("@tack.func\ndef put(a, k, v):\n    a[k] = v\n@tack.func\ndef deep(a, v):\n    put(a, 1, v)\n")
    kernel = typed_body("deep(out, x)", {"out": array(i8, 2), "x": f64}, **made)
    assert functions_by_params(kernel) == {"put": (array(i8, 2), i32, f64), "deep": (array(i8, 2), f64)}
    with pytest.raises(TypeError, match="`deep` returns no value"):
        typed_body("out[i] = deep(out, x)", {"out": array(i8), "x": f64}, **made)


def test_a_parameter_keeps_its_type():
    """FUNC-3, TYPE-7: an assignment converts."""
    made = funcs("@tack.func\ndef f(x):\n    x = x * 0.5\n    return x\n")
    kernel = typed_body("out[i] = f(x)", {"out": array(f64), "x": i8}, **made)
    assert kernel.functions["f"].results == (i8,)


def test_an_annotation_pins_a_parameter():
    """PAR-2, FUNC-3"""
    made = funcs("@tack.func\ndef f(x: tack.u8):\n    return x\n")
    kernel = typed_body("out[i] = f(300) + f(y)", {"out": array(f64), "y": f64}, **made)
    assert functions_by_params(kernel) == {"f": (u8,)}
    with pytest.raises(TypeError, match="takes no array"):
        typed_body("out[i] = f(out)", {"out": array(f64)}, **made)


def test_arrays_and_numbers_at_a_call():
    """FUNC-4, SRC-6"""
    made = funcs("@tack.func\ndef first(a):\n    return a[0]\n@tack.func\ndef bump(x):\n    return x + 1\n")
    with pytest.raises(TypeError, match="a number"):
        typed_body("out[i] = first(x)", {"out": array(i8), "x": i32}, **made)
    with pytest.raises(TypeError, match="where a number is needed"):
        typed_body("out[i] = bump(out)", {"out": array(i8)}, **made)


def test_an_error_shows_the_call_sites():
    """SRC-7: the innermost call first."""
    made = funcs("@tack.func\ndef inner(x):\n    return x & 1\n@tack.func\ndef outer(x):\n    return inner(x)\n")
    with pytest.raises(TypeError) as caught:
        typed_body("out[i] = outer(x)", {"out": array(i8), "x": f32}, **made)
    lines = str(caught.value).splitlines()
    assert "device function `inner`: `&` takes integers" in lines[0]
    sites = [line for line in lines if line.startswith("  called at")]
    assert len(sites) == 2
    assert sites[0].endswith("in device function `outer`")
    assert sites[1].endswith("in kernel `k`")


# --- Weak literals through calls ------------------------------------------------------------------------------------

WEAK = """
@tack.func
def half(s):
    return s * 0.5

@tack.func
def weight(k):
    if k == 0:
        return 0.25
    return 0.1

@tack.func
def scaled(x, s):
    t = s * 3.0
    return x * t

@tack.func
def tenth(n):
    return n * 0.1

@tack.func
def damped(s):
    s = s * 0.5
    return s

@tack.func
def both(s):
    return s, s * 3.0
"""


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("half(0.1)", f64),
        ("half(half(0.1))", f64),
        ("half(a[i])", f64),
        ("tenth(3)", f64),
        ("weight(i)", f64),
        ("scaled(b[i], 0.1)", f32),
        ("tenth(i)", f32),
    ],
)
def test_the_type_of_a_result_beside_an_f64_operand(call, wanted):
    """LIT-10: literals in, literals out; the instance computes at the type that its result meets."""
    kernel = typed_body(f"out[i] = a[i] * {call}", {"out": array(f64), "a": array(f64), "b": array(f32)}, **funcs(WEAK))
    product = stored(kernel).right
    assert (product.operand if product.dtype is not wanted else product).dtype is wanted


def test_without_f64_everything_is_f32():
    """LIT-14"""
    body = "out[i] = a[i] * half(0.1) + tenth(3) + weight(i) + scaled(a[i], 0.1) + damped(0.1)"
    kernel = typed_body(body, {"out": array(f32), "a": array(f32)}, **funcs(WEAK))
    assert {dtype for f in kernel.functions.values() for dtype in f.results} == {f32}
    assert {p.type for f in kernel.functions.values() for p in f.params} == {f32, i32, i64}


def test_a_literal_parameter_is_passed_at_the_types_that_are_read():
    """LIT-10: f32 and f64 side by side when both are wanted, otherwise one of them."""
    made = funcs(WEAK + "@tack.func\ndef mixed(x, y, s):\n    return x * s + tack.f32(y * s)\n")
    kernel = typed_body("out[i] = scaled(a[i], 0.1)", {"out": array(f64), "a": array(f64)}, **made)
    assert functions_by_params(kernel) == {"scaled": (f64, f64)}
    body = "out[i] = mixed(a[i], b[i], 0.1)"
    kernel = typed_body(body, {"out": array(f64), "a": array(f64), "b": array(f32)}, **made)
    assert functions_by_params(kernel) == {"mixed": (f64, f32, f32, f64)}


def test_an_assigned_parameter_and_several_results_take_the_type_of_the_kernel():
    """LIT-9, LIT-10"""
    body = "p, q = both(0.1)\nout[i] = p + q + damped(0.1)"
    for dtype in (f32, f64):
        kernel = typed_body(body, {"out": array(dtype)}, **funcs(WEAK))
        assert kernel.functions["both"].results == (dtype, dtype)
        assert kernel.functions["damped"].results == (dtype,)


def test_the_same_function_at_both_precisions_in_one_kernel():
    """LIT-10"""
    body = "out[i] = a[i] * half(0.1)\nlow[i] = b[i] * half(0.1)"
    kernel = typed_body(body, {"out": array(f64), "low": array(f32), "a": array(f64), "b": array(f32)}, **funcs(WEAK))
    assert sorted(f.results[0].name for f in kernel.functions.values()) == ["f32", "f64"]
