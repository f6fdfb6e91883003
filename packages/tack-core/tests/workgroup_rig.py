"""Launches of workgroup kernels on any device, and their comparison with the oracle of `lanes_oracle`."""

from __future__ import annotations

import numpy as np

import tack
from lanes_oracle import run_lanes


def launch(kernel, *args):
    """Call a kernel with NumPy arrays; on a device with memory of its own they are copied there and back."""
    device = tack.current_device()
    if device.supports("host_memory"):
        return kernel(*args)
    moved = [tack.asarray(a, device=device) if isinstance(a, np.ndarray) else a for a in args]
    result = kernel(*moved)
    for array, there in zip(args, moved, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = there.numpy()
    return result


def check(function, group, *args, oracle=None):
    """Run a function as a kernel and (unless `oracle` is another one) as Python, and compare every array."""
    given, wanted = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    launch(tack.kernel(function, group=group), *given)
    run_lanes(oracle or function, group, *wanted)
    for position, (got, want) in enumerate(zip(given, wanted, strict=True)):
        if isinstance(got, np.ndarray):
            np.testing.assert_array_equal(got, want, err_msg=f"argument {position}, group {group}", strict=True)
