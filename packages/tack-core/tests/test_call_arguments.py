"""Arguments and captured values that are not what they seem: kinds of parameters, time differences, wide tables."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from tack.runtime.dispatch import NATIVE_AFTER
from typing_rig import module


def storing(params, value, **names):
    return module(
        f"@tack.kernel\ndef k({params}):\n    for i in range(out.size):\n        out[i] = {value}\n", **names
    )["k"]


@pytest.mark.parametrize(
    ("params", "calls"),
    [
        ("a, *, b", [((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1, "b": 2})]),
        ("*, a, b=2", [((1, 2), {}), ((1,), {}), ((), {"b": 1, "a": 2})]),
        ("a, b, /", [((1, 2), {}), ((1,), {"b": 2}), ((), {"a": 1, "b": 2})]),
        ("a, /, b=2", [((1, 2), {}), ((1,), {}), ((1,), {"b": 3}), ((), {"a": 1, "b": 2})]),
        ("a, /, *, b", [((1, 2), {}), ((1,), {"b": 3}), ((), {"a": 1, "b": 2})]),
    ],
)
def test_how_a_parameter_may_be_given(device, params, calls):
    """PAR-1: keyword-only and positional-only parameters as in Python, which is the oracle, on every path of a call."""
    k = storing(f"out, {params}", "a * 10 + b")
    python = eval(f"lambda {params}: a * 10 + b")
    for args, kwargs in calls * (NATIVE_AFTER + 2):
        out = np.zeros(1, np.int64)
        try:
            want = python(*args, **kwargs)
        except TypeError:
            with pytest.raises(TypeError, match=r":2:\d+: in kernel `k`(?s:.*)help: call it as k\("):
                k(out, *args, **kwargs)
            assert out[0] == 0
        else:
            k(out, *args, **kwargs)
            assert out[0] == want


@pytest.mark.parametrize("table", [(-1, 2**63), (1, 2**64), (-(2**63) - 1, 0)])
def test_a_table_of_integers_that_no_type_holds(device, table):
    """CAP-4, LIT-1: with the position of the table."""
    with pytest.raises(TypeError, match=r":4:18: in kernel `k`: no integer type holds both .*(?s:.*)help: "):
        storing("out", "TABLE[i]", TABLE=table)(np.zeros(2))


@pytest.mark.parametrize("value", [np.timedelta64(3, "D"), np.timedelta64(3, "s"), np.datetime64("2020-01-01")])
def test_times_are_no_numbers(device, value):
    """CAP-9, PAR-7: NumPy makes its time difference an integer type; it is no number all the same."""
    out = np.zeros(1)
    with pytest.raises(TypeError, match="which a kernel cannot capture"):
        storing("out", "T", T=value)(out)
    for params in ("out, t", "out, t: tack.i64"):
        with pytest.raises(TypeError, match="parameter `t` was given"):
            storing(params, "t")(out, value)
    with pytest.raises(TypeError):
        tack.zeros(1, tack.i64).fill(value)
    with pytest.raises(TypeError):
        tack.i64(value)
    assert not out.any()
