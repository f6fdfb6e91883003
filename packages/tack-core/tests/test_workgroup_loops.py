"""Serial loops with collectives in them: what their variables are (GRP-12), against a thread for each lane."""

from __future__ import annotations

import pytest

import tack
from test_workgroups import ints, zeros
from workgroup_rig import check


def counts_on(a, out, n, by):
    for i in range(n):
        total = 0
        for g in range(3):
            total += a[i] * g
            tack.barrier()
            for _ in range(by):
                g += 1
            total += g
            tack.barrier()
            for _ in range(g % 4):
                tack.barrier()
                total += 100
        out[i] = total


def counts_apart(a, out, n, by):
    for i in range(n):
        total = 0
        for g in range(3):
            tack.barrier()
            total += g * 10
            g += tack.thread_id() * by
            tack.barrier()
            total += g
        g = a[i] + 0
        tack.barrier()
        out[i] = total + g * 1000


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("kernel", [counts_on, counts_apart])
@pytest.mark.parametrize("n", [8, 13])
def test_variables_of_loops_with_collectives_are_locals(device, kernel, n):
    """GRP-12: what the body assigns to one holds to the end of the iteration, and the next one has its own number."""
    check(kernel, 8, ints(n), zeros(n), n, 2)
