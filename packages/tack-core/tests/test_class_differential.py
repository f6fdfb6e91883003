"""Random programs of data-oriented classes, called again after constants and numbers have changed, against Python.

CLS-1 to CLS-7, CAP-5, FUNC-2, FUNC-6, LOOP-2, INT-1, EVAL-1 to EVAL-9.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tack
from differential import class_oracle
from differential.class_generator import CONSTANTS, LANES, SCALARS, program
from kernel_text import run_text

PROGRAMS = 12
ROUNDS = 2
Values = list[list[int]]


def play(seed: str, made: SimpleNamespace, array: Callable[[Any], Any], constant: Callable[[int], Any], *,
         stale: bool = False) -> Values:  # fmt: skip
    """What the kernels of a program store, in order. `stale` is deliberately wrong: nothing changes between rounds."""
    rng = random.Random(f"class inputs {seed}")

    def numbers() -> list[int]:
        return [rng.choice((rng.randint(-9, 9), rng.randint(-(2**31), 2**31 - 1))) for _ in range(LANES)]

    def instance(cls: Any, inner: Any) -> Any:
        return cls(
            constant(rng.randint(-9, 9)), constant(rng.randint(-9, 9)), array(numbers()), array(numbers()), inner
        )

    inners = [made.Inner(constant(rng.randint(-9, 9)), array(numbers())) for _ in range(2)]
    base, sub = instance(made.Base, inners[0]), instance(made.Sub, inners[1])
    stored: list[Any] = []
    for _ in range(ROUNDS):
        for call in (base.run, sub.run, lambda out: made.outer(base, sub, out)):
            out = array([0] * LANES)
            call(out)
            stored += [out, *(array(a) for a in (base.y, sub.y, inners[0].x, inners[1].x))]
        owner, name, value = rng.choice((made.Base, made.Sub)), rng.choice(CONSTANTS), constant(rng.randint(-9, 9))
        holder, field, other = rng.choice((base, sub, *inners)), rng.choice(SCALARS), constant(rng.randint(-99, 99))
        if not stale:
            setattr(owner, name, value)
            setattr(holder, field, other)
            base.inner, sub.inner = sub.inner, base.inner
    return [[int(v) for v in np.asarray(cells).tolist()] for cells in stored]


def expected(seed: str, *, stale: bool = False) -> Values:
    made = class_oracle.load(program(seed))
    return play(seed, made, class_oracle.Cells, class_oracle.number, stale=stale)


@pytest.mark.parametrize("number", range(PROGRAMS))
def test_random_programs_of_classes(device, number):
    seed = str(number)
    made = SimpleNamespace(**run_text(program(seed)))

    def array(values: Any) -> Any:
        return tack.asarray(np.array(values.numpy() if isinstance(values, tack.Array) else values, np.int32))

    found = play(seed, made, array, int)
    assert found == expected(seed), program(seed)


def test_the_oracle_notices_values_of_an_earlier_call():
    """The negative control: where constants and numbers stay what they were, most programs compute something else."""
    different = sum(expected(str(n)) != expected(str(n), stale=True) for n in range(PROGRAMS))
    assert different > PROGRAMS // 2


def test_programs_use_all_of_the_language():
    """The generator reaches every part that it claims to."""
    text = "".join(program(str(n)) for n in range(PROGRAMS))
    parts = ["super().first(", "Base.first(self", "super().mix(", "Base.C", "Sub.C", "self.TABLE[", "self.inner.read("]
    parts += ["self.inner.C", "self.note(", "self.second(", "Base.first(p", "o.inner.read(", "p.mix(", "break", " if "]
    parts += ["continue", "return ", "self.inner.x[i] +=", "p.y[i] ", "// ", "% "]
    assert [part for part in parts if part not in text] == []
