"""Kernels of "cuda" and "hip" from the disk cache, in processes of their own on the rigs (rules CACHE-*)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rigs import device_rig, other_process

if reason := device_rig.missing():
    pytest.skip(reason, allow_module_level=True)

PROGRAM = """
import json, os, sys
request = json.load(sys.stdin)
sys.path[:0] = request["path"]
os.environ["TACK_CACHE_DIR"] = request["cache"]
from rigs import device_rig
device_rig.install()
import numpy as np
import tack
from cached_kernel import scale
from tack.runtime import lowering
with tack.device(request["kind"]) as device:
    calls = {"_lower": 0, "generator": 0, "compile_text": 0}
    def counted(owner, name):
        real = getattr(owner, name)
        def call(*arguments):
            calls[name] += 1
            return real(*arguments)
        setattr(owner, name, call)
    counted(lowering, "_lower")
    counted(device.backend, "generator")
    counted(device.backend, "compile_text")
    x = tack.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    results = [scale(x, 2.0, 5) for _ in range(2)]
    assert x.numpy().reshape(-1).tolist() == [4.0 * i + 3 * (i < 5) for i in range(6)], x.numpy()
    assert results == [17, 17]
    print(*calls.values())
"""
KERNEL = """
import tack

@tack.kernel
def scale(x, factor, n):
    for i, j in tack.ndrange(x.shape[0], x.shape[1]):
        x[i, j] = x[i, j] * factor
    for i in range(min(n, x.size)):
        x[i] += 1.0
    for i, j in tack.ndrange((0, x.shape[0]), (0, x.shape[1])):
        x[i, j] = x[i, j] * (factor - 1.0)
    return n * 3 + 2
"""
KINDS = ("cuda", "hip")


def start(tmp_path: Path, kind: str) -> list[int]:
    """How often a process lowers a kernel, writes its text, and calls the vendor's compiler."""
    (tmp_path / "cached_kernel.py").write_text(KERNEL)
    path = [str(Path(__file__).parent), str(tmp_path)]
    return [int(n) for n in other_process.run(PROGRAM, path=path, cache=str(tmp_path / "cache"), kind=kind).split()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_process_neither_lowers_nor_compiles(tmp_path, kind):
    """CACHE-1, for a plan with several loops, ranges and a result; CACHE-3: what somebody changed is never run."""
    if device_rig.has_hardware(kind):
        pytest.skip("this machine has the hardware: its driver is not the rig's")
    assert start(tmp_path, kind) == [1, 1, 1]
    assert start(tmp_path, kind) == [0, 0, 0]
    entries = [p for p in (tmp_path / "cache").rglob("*.bin") if b"'plan'" in p.read_bytes()]
    assert len(entries) == 1
    data = bytearray(entries[0].read_bytes())
    data[-1] ^= 1
    entries[0].write_bytes(bytes(data))
    assert start(tmp_path, kind) == [1, 1, 1]
