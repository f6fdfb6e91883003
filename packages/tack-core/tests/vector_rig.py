"""Kernels over arrays of vectors from one statement, for the tests of vectors and matrices."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

import numpy as np

import tack
from kernel_text import run_text
from tack.lang.types import VecType, number_type, shape_of

COUNT = 6
_seeds = itertools.count(1)


def kernel(body: str, params: str, functions: str = "", **names: Any) -> Any:
    """The kernel ``k(out, params)`` with `body` in a loop over all elements of `out`."""
    inner = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    text = f"{functions}\n@tack.kernel\ndef k(out, {params}):\n    for i in range(out.shape[0]):\n{inner}\n"
    return run_text(text, **names)["k"]


def values(dtype: tack.DType, low: int = -9, high: int = 10, count: int = COUNT) -> np.ndarray:
    """Small whole numbers, so that sums of products are exact in every type, contracted or not."""
    random = np.random.default_rng(next(_seeds))
    if not number_type(dtype).is_signed:
        low = max(low, 0)
    return random.integers(low, high, (count, *shape_of(dtype))).astype(number_type(dtype).numpy)


def run(body: str, out: tack.DType, functions: str = "", given: dict[str, Any] | None = None, **arrays: Any) -> Any:
    """`out` after the loop, as NumPy; `arrays` are pairs of an element type and NumPy values, or plain arguments."""
    result = tack.zeros(COUNT, out)
    arguments = [tack.asarray(a[1], a[0]) if isinstance(a, tuple) else a for a in arrays.values()]
    kernel(body, ", ".join(arrays), functions, **(given or {}))(result, *arguments)
    return result.numpy()


def element_types() -> list[VecType]:
    """A vector and a matrix of each number type, all shapes among them."""
    shapes = [(n,) for n in (2, 3, 4)] + [(r, c) for r in (2, 3, 4) for c in (2, 3, 4)]
    numbers = list(tack.lang.types.DTYPES)
    made = [tack.lang.types.shaped(numbers[k % len(numbers)], shape) for k, shape in enumerate(shapes)]
    return [t for t in made if isinstance(t, VecType)]
