"""Random kernels with divergent control flow: lanes, scalar code and the interpreter leave the same bits.

The seeds are fixed; a failure prints the seed and the program. Lanes and scalar code come from one generator, so the
reference device, which shares no code with it, runs a share of the programs.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from differential.lane_generator import program
from kernel_text import run_text
from lane_rig import Compiled, same_bits, typed_ir

N = 75
PROGRAMS = 30
REFERENCE_EVERY = 3
CUTS = (0.2, 0.61)


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    x = (rng.random(N) * 20 - 4).astype(np.float32)
    t = rng.integers(-20, 60, 64).astype(np.int32)
    return [N, x, rng.random(N) * 10, t, np.zeros(N, np.int32), np.zeros(N)]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_kernel(seed: int) -> None:
    text = program(seed)
    main, args = run_text(text)["main"], arguments(seed)
    tree = typed_ir(main, *args)
    want = Compiled(tree, 1)(*args)
    width = random.Random(seed).choice((4, 8, 8, 16, 32))
    variant = Compiled(tree, width, disjoint=seed % 2 == 0, cuts=CUTS)
    assert variant.plans, "control: it does run as lanes"
    assert same_bits(variant(*args), want), f"seed {seed}, {width} lanes:\n{text}"
    if seed % REFERENCE_EVERY == 0:
        with tack.device("reference"):
            arrays = [tack.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
            main(*arrays)
        assert np.array_equal(arrays[4].numpy(), want[4]), f"seed {seed}:\n{text}"
