"""The typing pass on kernels from source: result types, locals, device functions, memory, refusals.

The types expected here are the contract's tables, written by hand. Every tree is verified before and after typing.
"""

from __future__ import annotations

import itertools

import pytest

import tack
from numeric_oracles import INTEGER_PAIRS, promote
from tack.lang.ir import IRAssign, IRBinOp, IRBuiltin, IRCast, IRCompare, IRLoad, IRReturn
from tack.lang.types import BY_NAME, DTYPES, INTEGER_DTYPES, ArrayType, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from typing_rig import array, kernel_of, module, nodes, result_type, stored, typed, typed_body

FLOAT_BUILTINS = (
    "sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p floor ceil trunc round".split()
)


def refusal(kind, body, params, **names):
    with pytest.raises(kind) as caught:
        typed_body(body, params, **names)
    return str(caught.value)


# --- Result types ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "&", "|", "^"])
@pytest.mark.parametrize(("a", "b"), INTEGER_PAIRS)
def test_integer_operators_promote(op, a, b):
    """TYPE-1 to TYPE-3, against the promotion of `numeric_oracles`."""
    params = {"x": BY_NAME[a], "y": BY_NAME[b]}
    wanted = promote(a, b)
    if wanted is None:
        message = refusal(TypeError, f"out[i] = x {op} y", {"out": array(i8), **params})
        assert "use an explicit integer cast: tack.i64(...) or tack.u64(...)" in message
        assert f"`{op}`: no integer type holds both {a} and {b}" in message
    else:
        assert result_type(f"x {op} y", params).name == wanted


@pytest.mark.parametrize(("a", "b"), list(itertools.product(INTEGER_DTYPES, INTEGER_DTYPES)), ids=lambda t: t.name)
def test_division_power_and_shifts_of_integers(a, b):
    """TYPE-5, TDIV-1, POW-2, SHIFT-2: every pair is legal, signed with u64 included."""
    params = {"x": a, "y": b}
    assert result_type("x / y", params) is f32
    assert result_type("x ** y", params) is a
    assert result_type("pow(x, y)", params) is a
    assert result_type("x << y", params) is a
    assert result_type("x >> y", params) is a


@pytest.mark.parametrize("op", ["+", "-", "*", "/", "//", "%", "**"])
@pytest.mark.parametrize("other", DTYPES, ids=lambda t: t.name)
def test_a_floating_operand_wins(op, other):
    """TYPE-2, TDIV-2, FDIV-1, POW-4"""
    wide = f64 if other is f64 else f32
    assert result_type(f"x {op} y", {"x": f32, "y": other}) is wide
    assert result_type(f"y {op} x", {"x": f32, "y": other}) is wide
    assert result_type(f"x {op} y", {"x": f64, "y": other}) is f64


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons(op):
    """TYPE-4, TYPE-5: i32, at the promotion of the operands."""
    kernel = typed_body(f"out[i] = x {op} y", {"out": array(i8), "x": i32, "y": u32})
    assert stored(kernel).dtype is i32
    assert stored(kernel)._operand_type is i64
    assert {stored(kernel).left.dtype, stored(kernel).right.dtype} == {i64}
    message = refusal(TypeError, f"out[i] = x {op} y", {"out": array(i8), "x": i32, "y": u64})
    assert "no integer type holds both i32 and u64" in message


def test_links_of_a_chain_are_typed_on_their_own():
    """TYPE-4, EVAL-6"""
    kernel = typed_body("out[i] = x < y + 1 < z", {"out": array(i8), "x": i8, "y": u16, "z": f64})
    assert [node._operand_type for node in nodes(kernel, IRCompare)] == [i32, f64]
    kernel = typed_body("out[i] = x < 0.1 < y", {"out": array(i8), "x": f64, "y": f32})
    assert [node._operand_type for node in nodes(kernel, IRCompare)] == [f64, f32]


@pytest.mark.parametrize("expression", ["not x", "x and y", "x or y", "isnan(x)", "isinf(x)", "isfinite(y)"])
def test_truth_values(expression):
    """TYPE-5"""
    names = {"isnan": tack.isnan, "isinf": tack.isinf, "isfinite": tack.isfinite}
    assert result_type(expression, {"x": f64, "y": u64}, **names) is i32


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_unary_operators_and_abs_keep_the_type(dtype):
    """TYPE-5"""
    assert result_type("-x", {"x": dtype}) is dtype
    assert result_type("abs(x)", {"x": dtype}) is dtype
    if dtype.is_integer:
        assert result_type("~x", {"x": dtype}) is dtype


@pytest.mark.parametrize("name", ["min", "max"])
def test_extrema_promote_all_arguments(name):
    """TYPE-5, INT-5"""
    assert result_type(f"{name}(x, y, z)", {"x": i8, "y": u8, "z": u16}) is i32
    assert result_type(f"{name}(x, y, z)", {"x": i64, "y": u64, "z": f32}) is f32
    message = refusal(TypeError, f"out[i] = {name}(x, y)", {"out": array(i8), "x": i64, "y": u64})
    assert f"{name}(): no integer type holds both i64 and u64" in message


@pytest.mark.parametrize("name", FLOAT_BUILTINS)
def test_other_builtins(name):
    """TYPE-5, MATH-2, MATH-3: f64 if any argument is f64, else f32."""
    names = {"function": round if name == "round" else getattr(tack, name)}
    for dtype in DTYPES:
        wanted = f64 if dtype is f64 else f32
        kernel = typed_body("out[i] = function(x)", {"out": array(i8), "x": dtype}, **names)
        (call,) = nodes(kernel, IRBuiltin)
        assert (call.dtype, call._operand_type, call.args[0].dtype) == (wanted, wanted, wanted)


def test_builtins_of_several_arguments():
    """TYPE-5, MATH-2"""
    params = {"x": i64, "y": f64, "z": f32}
    assert result_type("tack.atan2(x, y)", params) is f64
    assert result_type("tack.atan2(x, z)", params) is f32
    assert result_type("tack.copysign(z, y)", params) is f64
    assert result_type("tack.fma(x, z, z)", params) is f32


@pytest.mark.parametrize("name", ["popcount", "clz", "ctz"])
def test_bit_counts(name):
    """TYPE-5, INT-6: i32, of the operand's own width; floats are refused."""
    kernel = typed_body(f"out[i] = tack.{name}(x)", {"out": array(i8), "x": u64})
    assert (stored(kernel).dtype, stored(kernel)._operand_type) == (i32, u64)
    message = refusal(TypeError, f"out[i] = tack.{name}(x)", {"out": array(i8), "x": f32})
    assert f"{name}() takes integers, and this operand is f32" in message


@pytest.mark.parametrize("op", ["<<", ">>", "&", "|", "^"])
def test_bit_operations_on_floats(op):
    """INT-1, SHIFT-2: TypeError for either operand."""
    for params in ({"x": f32, "y": i32}, {"x": i32, "y": f64}):
        message = refusal(TypeError, f"out[i] = x {op} y", {"out": array(i8), **params})
        assert f"`{op}` takes integers" in message
    assert "`~` takes integers" in refusal(TypeError, "out[i] = ~x", {"out": array(i8), "x": f32})


def test_arms_of_a_conditional_promote():
    """TYPE-2, EVAL-8"""
    assert result_type("x if i else y", {"x": i8, "y": u8}) is i16
    assert result_type("x if i else y", {"x": u64, "y": f32}) is f32
    message = refusal(TypeError, "out[i] = x if i else y", {"out": array(i8), "x": u64, "y": i8})
    assert "the arms of this conditional expression" in message


def test_extents_and_truth_literals():
    """TYPE-8"""
    for expression in ("out.shape[0]", "len(out)", "out.size", "out.ndim"):
        assert result_type(expression, {}) is i64
    assert result_type("True", {}, f64) is i32


def test_casts():
    """INT-4: `int` is i32, `float` f32."""
    assert result_type("int(x)", {"x": f64}) is i32
    assert result_type("float(x)", {"x": f64}) is f32
    for dtype in DTYPES:
        assert result_type(f"tack.{dtype.name}(x)", {"x": i16}) is dtype


# --- Integer literals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2147483647", i32), ("2147483648", i64), ("-2147483648", i32), ("-2147483649", i64),
        ("9223372036854775807", i64), ("9223372036854775808", u64), ("-9223372036854775808", i64),
        ("18446744073709551615", u64), ("-(-2147483648)", i32), ("-(-(2147483648))", i32), ("-+5", i32),
    ],
)  # fmt: skip
def test_integer_literals(text, wanted):
    """LIT-1, LIT-2"""
    assert result_type(text, {}, f64) is wanted


@pytest.mark.parametrize("text", ["18446744073709551616", "-9223372036854775809"])
def test_integer_literals_beyond_64_bits(text):
    """LIT-1"""
    assert "does not fit 64 bits" in refusal(TypeError, f"out[i] = {text}", {"out": array(i64)})


def test_u64_beside_a_plain_literal():
    """LIT-3: the message shows the cast to write, with the literal in it."""
    message = refusal(TypeError, "out[i] = x + 1", {"out": array(u64), "x": u64})
    assert "tack.u64(1)" in message
    assert result_type("x + tack.u64(1)", {"x": u64}) is u64
    assert result_type("x + 9223372036854775808", {"x": u64}) is u64


# --- Locals ---------------------------------------------------------------------------------------------------------


def local_type(kernel, name):
    (dtype,) = {node._resolved_type for node in nodes(kernel, IRAssign) if node.name == name}
    return dtype


def test_a_sum_that_starts_from_zero_takes_the_type_of_its_terms():
    """TYPE-6: the founding page's bug."""
    body = "total = 0.0\nfor j in range(4):\n    total += a[j]\nout[i] = total"
    for dtype, wanted in ((f64, f64), (f32, f32), (i32, f32)):
        kernel = typed_body(body, {"out": array(i8), "a": array(dtype)})
        assert local_type(kernel, "total") is wanted


def test_a_local_joins_all_assignments():
    """TYPE-6"""
    body = "t = a\nif i > 1:\n    t = b\nelif i > 2:\n    t = c\nout[i] = t"
    kernel = typed_body(body, {"out": array(i8), "a": i8, "b": u8, "c": u32})
    assert local_type(kernel, "t") is i64
    kernel = typed_body(body, {"out": array(i8), "a": i64, "b": u64, "c": f32})
    assert local_type(kernel, "t") is f32


def test_joins_reach_a_fixpoint_against_the_order_of_the_text():
    """TYPE-6: each round carries a type one local further; the last is read first."""
    names = [f"v{k}" for k in range(40)]
    lines = [f"{name} = x" for name in names]
    lines += ["while v0 < 10:"] + [f"    {a} = {b} + 1" for a, b in itertools.pairwise(names)] + ["    v39 = a[i]"]
    lines += ["out[i] = v0"]
    kernel = typed_body("\n".join(lines), {"out": array(i8), "x": i8, "a": array(f64)})
    assert {local_type(kernel, name) for name in names} == {f64}


def test_a_local_read_above_its_first_assignment():
    """TYPE-6: in a loop the text's order is not the order of time."""
    body = "k = 0\nwhile k < 3:\n    if k > 0:\n        out[i] = later\n    later = a[k]\n    k += 1"
    kernel = typed_body(body, {"out": array(i8), "a": array(u16)})
    assert local_type(kernel, "later") is u16


def test_a_local_whose_own_value_is_in_one_arm():
    """TYPE-6: the other arm gives it its first type."""
    for value in ("r + x if k > 0 else a[k]", "a[k] if k == 0 else r + x"):
        body = f"k = 0\nwhile k < 3:\n    r = {value}\n    k += 1\n    out[i] = r"
        kernel = typed_body(body, {"out": array(i8), "a": array(u8), "x": i8})
        assert local_type(kernel, "r") is i16


def test_an_error_that_a_later_join_removes_is_no_error():
    """TYPE-6: the types are those of the fixpoint, whatever the order of rounds."""
    body = "t = tack.i64(1)\nt = t + x\nt = y\nout[i] = t"
    kernel = typed_body(body, {"out": array(i8), "x": u64, "y": f32})
    assert local_type(kernel, "t") is f32


def test_an_impossible_join_names_both_places():
    """TYPE-6, SRC-6"""
    message = refusal(TypeError, "t = x\nt = y\nout[i] = t", {"out": array(i8), "x": i16, "y": u64})
    assert "`t` is u64 here and i16 at <typing rig" in message
    assert "tack.u64(...)" in message
    first, second = (line for line in message.splitlines() if "<typing rig" in line), message.count(">:4:")
    assert ">:5:" in next(first)
    assert second == 1


def test_loop_variables_parameters_and_annotated_locals_do_not_join():
    """TYPE-7, PAR-3, SYN-3, LOOP-12"""
    kernel = typed_body("n = n * 0.5\nout[i] = n", {"out": array(i8), "n": i32})
    assert local_type(kernel, "n") is i32
    (assign,) = nodes(kernel, IRAssign)
    assert isinstance(assign.value, IRCast)
    assert not assign.value.explicit
    kernel = typed_body("x: tack.u8 = 300\nx = x + a[i]\nout[i] = x", {"out": array(i8), "a": array(f64)})
    assert local_type(kernel, "x") is u8
    kernel = typed_body("for j in range(3):\n    j = j * 2\n    out[i] = j", {"out": array(i8)})
    assert local_type(kernel, "j") is i64


def test_two_annotations_of_one_local():
    """SYN-3"""
    message = refusal(TypeError, "x: tack.u8 = 1\nx: tack.i8 = 2\nout[i] = x", {"out": array(i8)})
    assert "`x` is annotated" in message


# --- Conversions are written out ------------------------------------------------------------------------------------


def test_stores_and_operands_convert_by_implicit_casts():
    """TYPE-1, TYPE-9"""
    kernel = typed_body("out[j] = x + y", {"out": array(f32), "x": i8, "y": u16, "j": u8})
    casts = [(node.operand.dtype, node.target) for node in nodes(kernel, IRCast) if not node.explicit]
    assert set(casts) == {(i32, f32), (i8, i32), (u16, i32), (u8, i64)}
    assert len(casts) == 4


def test_an_integer_exponent_is_u64():
    """POW-1, POW-2"""
    (power,) = nodes(typed_body("out[i] = x ** y", {"out": array(i8), "x": i8, "y": i32}), IRBinOp)
    assert (power.left.dtype, power.right.dtype, power.dtype) == (i8, u64, i8)


def test_one_untyped_kernel_serves_every_signature():
    """SPEC-1: typing builds a new tree."""
    kernel = kernel_of("t = x * 2\nout[i] = t", "out, x")
    first = typed(kernel, array(f32), i8)
    second = typed(kernel, array(f64), f64)
    assert (local_type(first, "t"), local_type(second, "t")) == (i32, f64)
    assert local_type(first, "t") is i32


# --- Memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ndim", "index", "legal"), [
    (1, "i", True), (2, "i, 0", True), (2, "i", True), (3, "i", True), (3, "i, 0, 1", True), (0, "0", True),
    (1, "i, 0", False), (2, "i, 0, 1", False), (3, "i, 0", False), (0, "0, 0", False),
])  # fmt: skip
def test_count_of_indices(ndim, index, legal):
    """MEM-2: one a dimension, or one flat index, in loads, stores and atomics."""
    for body in (f"out[i] = a[{index}]", f"a[{index}] = 1", f"tack.atomic_add(a, ({index}), 1)"):
        params = {"out": array(i8), "a": array(i32, ndim)}
        if legal:
            typed_body(body, params)
        else:
            message = refusal(TypeError, body, params)
            assert f"for `a`, i32 array ({ndim}-d): it takes" in message
            assert ">:4:" in message


def test_a_float_index():
    """MEM-2"""
    message = refusal(TypeError, "out[i] = a[x]", {"out": array(i8), "a": array(i8), "x": f32})
    assert "an index is an integer, and this is f32" in message
    assert "cast with tack.i64" in message
    assert "an index is an integer" in refusal(TypeError, "out[0.5] = 1", {"out": array(i8)})
    assert "range()" in refusal(TypeError, "for j in range(x):\n    out[i] = j", {"out": array(i8), "x": f32})


def test_every_index_is_i64():
    """MEM-3"""
    kernel = typed_body("out[i] = a[x, 3]", {"out": array(i8), "a": array(i8, 2), "x": u64})
    (load,) = nodes(kernel, IRLoad)
    assert [part.dtype for part in load.index] == [i64, i64]


def test_axes_that_an_array_lacks():
    """MEM-2, SYN-2"""
    typed_body("out[i] = out.shape[1]", {"out": array(i8, 2)})
    assert "has no axis 1" in refusal(TypeError, "out[i] = out.shape[1]", {"out": array(i8, 1)})
    assert "has no axis 0" in refusal(TypeError, "out[i] = len(a)", {"out": array(i8), "a": array(i8, 0)})
    bound = module("@tack.kernel\ndef k(a):\n    for i in range(a.shape[2]):\n        a[i] = 1\n")["k"]
    with pytest.raises(TypeError, match="has no axis 2"):
        typed(bound, array(i8, 2))


def test_arrays_and_numbers_are_not_confused():
    """PAR-7, SRC-6"""
    message = refusal(TypeError, "out[i] = a + 1", {"out": array(i8), "a": array(f32, 2)})
    assert "`a` is an array (f32 array (2-d)) where a number is needed" in message
    assert "a[i, j]" in message
    assert "`x` is a number (f32), not an array" in refusal(TypeError, "out[i] = x[0]", {"out": array(i8), "x": f32})
    assert "`x` is a number" in refusal(TypeError, "x[i] = 1", {"out": array(i8), "x": i32})
    assert "cannot be assigned" in refusal(TypeError, "a = 1\nout[i] = 2", {"out": array(i8), "a": array(i8)})


def test_a_float_bound_of_a_parallel_loop():
    """LOOP-8"""
    kernel = module("@tack.kernel\ndef k(a, n):\n    for i in range(n):\n        a[i] = 1\n")["k"]
    typed(kernel, array(i8), u64)
    with pytest.raises(TypeError, match="a bound of a loop is an integer, and `n` is f32"):
        typed(kernel, array(i8), f32)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.name)
def test_atomics(dtype):
    """ATOM-1, ATOM-3, ATOM-4: value and result have the element type; bits of floats are refused."""
    for op in ("add", "sub", "min", "max", "and", "or", "xor", "exchange"):
        body, params = f"out[i] = tack.atomic_{op}(a, i, x)", {"out": array(i8), "a": array(dtype), "x": f32}
        if dtype.is_float and op in ("and", "or", "xor"):
            assert f"atomic_{op}() takes integer arrays, and `a` is {dtype.name}" in refusal(TypeError, body, params)
        else:
            kernel = typed_body(body, params)
            assert stored(kernel).dtype is dtype
            assert stored(kernel).args[0].dtype is dtype
    kernel = typed_body("out[i] = tack.atomic_cas(a, i, x, 1)", {"out": array(i8), "a": array(dtype), "x": i64})
    assert [arg.dtype for arg in stored(kernel).args] == [dtype, dtype]


def test_captured_tables():
    """CAP-4, LIT-9, LIT-11: integers by the widest value; floats are f64 where the kernel has an f64 array."""
    for values, wanted in (((1, 2, 3), i32), ((1, 2**40), i64), ((1, 2**63), u64), ((1, 0.5), f32)):
        assert result_type("T[i]", {}, T=values) is wanted
    kernel = typed_body("out[i] = T[i][1]", {"out": array(f64)}, T=((1.0, 2.0), (3.0, 4.0)))
    assert stored(kernel).dtype is f64
    assert kernel.symbols["T"].array_type == ArrayType(f64, 2, "constant", (2, 2))


def test_local_arrays():
    """MEM-6"""
    kernel = typed_body("b = tack.local((2, 3), tack.u16)\nb[0, 1] = 7.5\nout[i] = b[4]", {"out": array(i8)})
    assert kernel.symbols["b"].array_type == ArrayType(u16, 2, "private", (2, 3))
    assert stored(kernel).dtype is u16
    body = "b = tack.local(3, tack.i32)\ntack.atomic_add(b, 0, 1)\nout[i] = b[0]"
    assert "private" in refusal(TypeError, body, {"out": array(i8)})


# --- Results --------------------------------------------------------------------------------------------------------


def test_the_result_of_a_kernel():
    """CALL-2"""
    text = "@tack.kernel\ndef k(a, n):\n    for i in range(n):\n        a[i] = 1\n    return {}\n"
    for expression, dtype, wanted in (("n", u32, u32), ("n + 1", u16, i32), ("n / 2", i64, f32), ("0.5", i8, f32)):
        kernel = typed(module(text.format(expression))["k"], array(f64), dtype)
        assert kernel.results == (wanted,)
        (node,) = nodes(kernel, IRReturn)
        assert node.values[0].dtype is wanted
