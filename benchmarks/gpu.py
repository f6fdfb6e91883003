"""A CUDA device beside others in one process: results checked, then times from interleaved rounds.

Run it on a machine with an NVIDIA GPU: ``python -m benchmarks.gpu``, or with names of sections after it. CuPy, PyTorch,
Triton and numba-cuda are optional.
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import tack
from benchmarks import gpu_copies, gpu_launch
from benchmarks.gpu_throughput import ROWS, Throughput


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def main() -> None:
    cupy, torch, triton = map(optional, ("cupy", "torch", "triton"))
    wait = tack.synchronize if cupy is None else lambda: (tack.synchronize(), cupy.cuda.Device().synchronize())
    throughput = Throughput(cupy, torch, triton, wait)
    sections: dict[str, Callable[[], None]] = {
        **{name: getattr(throughput, name) for name in ROWS},
        "launches": lambda: gpu_launch.launches(cupy, wait),
        "threads": lambda: gpu_launch.threads(wait),
        "first": gpu_launch.first_calls,
        "lifetimes": lambda: gpu_launch.lifetimes(wait),
        "copies": lambda: gpu_copies.copies(cupy, torch, wait),
        "others": lambda: gpu_copies.others(cupy, torch),
    }
    failed = []
    with tack.device("cuda") as device:
        print(f"{device.backend.label}, NumPy {np.__version__}, {time.strftime('%Y-%m-%d')}")
        for name in sys.argv[1:] or sections:
            try:
                sections[name]()
            except Exception:  # the other sections still count
                traceback.print_exc()
                failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
