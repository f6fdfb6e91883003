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
with tack.device(request["kind"]) as device:
    compiled = []
    real = device.backend.compile_text
    device.backend.compile_text = lambda *a: compiled.append(a) or real(*a)
    x = tack.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    before = set(sys.modules)
    results = [scale(x, 2.0, 5) for _ in range(2)]
    assert x.numpy().reshape(-1).tolist() == [4.0 * i + 3 * (i < 5) for i in range(6)], x.numpy()
    assert results == [17, 17]
    print(len(compiled), sorted(set(sys.modules) - before))
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


def start(tmp_path: Path, kind: str) -> tuple[int, str]:
    """How often the vendor's compiler was called, and which modules the calls loaded."""
    (tmp_path / "cached_kernel.py").write_text(KERNEL)
    path = [str(Path(__file__).parent), str(tmp_path)]
    count, _, modules = other_process.run(PROGRAM, path=path, cache=str(tmp_path / "cache"), kind=kind).partition(" ")
    return int(count), modules


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_process_neither_lowers_nor_compiles(tmp_path, kind):
    """CACHE-1, for a plan with several loops, ranges and a result; CACHE-3: what somebody changed is never run."""
    if device_rig.has_hardware(kind):
        pytest.skip("this machine has the hardware: its driver is not the rig's")
    compiled, modules = start(tmp_path, kind)
    assert compiled == 1 and "tack.lang.ast_transform" in modules
    compiled, modules = start(tmp_path, kind)
    assert compiled == 0
    assert not any(name in modules for name in ("ast_transform", "tack.lang.ir'", "c_family", f"{kind}_gen"))
    entries = [p for p in (tmp_path / "cache").rglob("*.bin") if b"'plan'" in p.read_bytes()]
    assert len(entries) == 1
    data = bytearray(entries[0].read_bytes())
    data[-1] ^= 1
    entries[0].write_bytes(bytes(data))
    assert start(tmp_path, kind)[0] == 1
