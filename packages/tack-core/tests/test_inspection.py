"""`tack.inspect`: every stage as text, nothing run, the errors of a call."""

from __future__ import annotations

import numpy as np
import pytest

import tack


@tack.func
def square(x):
    return x * x


@tack.kernel
def scaled_squares(a, out, s=0.5):
    for i in range(a.shape[0]):
        out[i] = square(a[i]) * s


def test_stages_without_arguments():
    """SRC-3: what needs no types."""
    stages = tack.inspect(scaled_squares)
    assert list(stages) == ["source", "ast", "ir"]
    assert (
        "square(a[i]) * s" in stages["source"] and "FunctionDef" in stages["ast"] and "parallel for i" in stages["ir"]
    )


def test_stages_with_arguments(device):
    """TYPE-1: the typed stage shows the types that every device computes at; nothing runs."""
    a, out = np.ones(3), np.zeros(3)
    stages = tack.inspect(scaled_squares, a, out=out)
    assert list(stages)[:4] == ["source", "ast", "ir", "typed"]
    assert "s: f64" in stages["typed"] and "function square(x: f64) -> f64" in stages["typed"]
    assert "s: i32" in tack.inspect(scaled_squares, a, out, 2)["typed"]
    assert not out.any()


def test_errors_are_those_of_a_call(device):
    """PAR-1, PAR-7, MEM-2: with the kernel's position."""
    with pytest.raises(TypeError, match=r"in kernel `scaled_squares`: nothing was given for `out`"):
        tack.inspect(scaled_squares, np.ones(3))
    with pytest.raises(TypeError, match=r"in kernel `scaled_squares`: parameter `a` was given"):
        tack.inspect(scaled_squares, "text", np.ones(3))


@pytest.mark.parametrize("name", ["square", "len", "number", "nothing", "array", "function"])
def test_only_kernels_are_inspected(name):
    """PAR-7: another thing is refused by name."""
    things = {"square": square, "len": len, "number": 3, "array": np.zeros(3), "function": scaled_squares.__wrapped__}
    thing = things.get(name)
    with pytest.raises(TypeError, match=r"tack\.inspect takes a kernel \(@tack\.kernel\), not "):
        tack.inspect(thing)
