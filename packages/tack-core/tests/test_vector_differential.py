"""Random programs of vectors, matrices, local arrays and several loops, against Python on wrapping vectors.

VEC-3 to VEC-7, VEC-9 to VEC-11, VEC-13, LOOP-2, INT-1, EVAL-1 to EVAL-9.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import tack
from differential.vector_generator import INPUTS, LANES, OUTPUTS, program
from differential.vector_oracle import Rules, Storage, run
from kernel_text import run_text
from numeric_oracles import limits

PROGRAMS = 24
TYPES = ("i32", "i64")


def shapes(size: int) -> dict[str, tuple[int, ...]]:
    return {"V": (size,), "M": (size, size)}


def columns(seed: str, size: int, dtype: str) -> dict[str, list[list[int]]]:
    """Elements of the inputs as flat lists of numbers, extremes among them."""
    rng = random.Random(f"vector inputs {seed}")
    low, high = limits(dtype)
    pick = [lambda: rng.randint(-9, 9), lambda: rng.randint(low, high), lambda: rng.choice((low, high, 0, 1, -1))]
    made = {}
    for name, kind in INPUTS.items():
        count = int(np.prod(shapes(size)[kind]))
        made[name] = [[rng.choice(pick)() for _ in range(count)] for _ in range(LANES)]
    return made


def expected(text: str, name: str, size: int, dtype: str, seed: str, *, aliased: bool = False) -> dict[str, np.ndarray]:
    rules = Rules(dtype, aliased=aliased)
    given = columns(seed, size, dtype)
    kinds = shapes(size)
    arrays = {
        n: Storage(rules, (LANES,), kinds[kind], {(i,): row for i, row in enumerate(given[n])} if n in given else None)
        for n, kind in {**INPUTS, **OUTPUTS}.items()
    }
    run(text, name, arrays, rules, {"T": kinds["V"]})
    return {n: np.array([[int(c) for c in arrays[n][i].cells] for i in range(LANES)]) for n in OUTPUTS}


def computed(kernel, size: int, dtype: str, seed: str) -> dict[str, np.ndarray]:
    number = getattr(tack, dtype)
    kinds = {"V": tack.vec(size, number), "M": tack.mat(size, size, number)}
    given = columns(seed, size, dtype)
    arrays = {}
    for n, kind in {**INPUTS, **OUTPUTS}.items():
        shape = (LANES, *kinds[kind].shape)
        values = np.array(given[n], number.numpy).reshape(shape) if n in given else np.zeros(shape, number.numpy)
        arrays[n] = tack.asarray(values, kinds[kind])
    kernel(*arrays.values())
    return {n: arrays[n].numpy().reshape(LANES, -1) for n in OUTPUTS}


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_programs_of_vectors(device, number):
    name, dtype = f"k{number}", TYPES[number % 2]
    text, size = program(str(number), name)
    kernel = run_text(text, T=tack.vec(size, getattr(tack, dtype)))[name]
    wanted = expected(text, name, size, dtype, str(number))
    found = computed(kernel, size, dtype, str(number))
    for output in OUTPUTS:
        assert np.array_equal(found[output], wanted[output]), f"{output} of\n{text}"


def test_the_oracle_notices_shared_components():
    """The negative control: where names share components, some programs compute something else."""
    different = 0
    for number in range(PROGRAMS):
        text, size = program(str(number), f"k{number}")
        arguments = (text, f"k{number}", size, TYPES[number % 2], str(number))
        right, wrong = expected(*arguments), expected(*arguments, aliased=True)
        different += any(not np.array_equal(right[n], wrong[n]) for n in OUTPUTS)
    assert different >= 3


def test_programs_use_all_of_the_language():
    """The generator reaches every part that it claims to."""
    text = "".join(program(str(number), f"k{number}")[0] for number in range(PROGRAMS))
    parts = ["tack.cross(", "tack.determinant(", "tack.select(", " @ ", "tack.transpose(", "tack.outer(", "].y", ".x, "]
    parts += [
        " if ",
        "cells[1][",
        "break",
        "continue",
        "tack.any(",
        "tack.all(",
        "^=",
        "_f1(",
        "return ",
        "_noteV(r",
        "_noteS(r",
    ]
    assert [part for part in parts if part not in text] == []
