"""Local arrays some of whose elements have no value yet, across barriers (GRP-12, MEM-6)."""

from __future__ import annotations

import numpy as np
import pytest

import tack
from workgroup_rig import check

TRIPS = (0, 1, 7, 8, 19)


def ints(n):
    return np.arange(n, dtype=np.int32) * 3


def keep_some(a, out, n):
    for i in range(n):
        window = tack.local(3, tack.i32)
        window[1] = a[i]
        if a[i] % 2 == 0:
            window[2] = 7
        tack.barrier()
        if a[i] % 2 == 0:
            window[1] += window[2]
        tack.barrier()
        out[i] = window[1]


def read_what_nobody_stored(a, out, n):
    for i in range(n):
        window = tack.local(3, tack.i32)
        window[1] = a[i]
        tack.barrier()
        window[1] += 1
        tack.barrier()
        out[i] = window[2]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_elements_without_a_value_may_cross_barriers(device, n):
    """GRP-12, MEM-6: only reading one breaks the constraint, and barriers read nothing."""
    check(keep_some, 8, ints(n), np.zeros(n, np.int32), n)


def test_the_reference_reports_an_element_without_a_value_behind_barriers():
    """MEM-6: the constraint is still watched after two barriers."""
    with tack.device("reference"), pytest.raises(LookupError, match=r"MEM-6 broken.*element \[2\].*`window`"):
        tack.kernel(read_what_nobody_stored, group=8)(tack.arange(8, dtype=tack.i32), tack.zeros(8, tack.i32), 8)
