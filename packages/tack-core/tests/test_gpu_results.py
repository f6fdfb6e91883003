"""Cells in page-locked memory, where kernels of "cuda" and "hip" store results: real devices, or those of the rigs.

A rig runs nothing until something waits, so a result that was taken too soon is an old one. Rules CALL-1, RED-1.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tack
from rigs import device_rig
from tack.runtime import gpu_memory, native_launch
from tack.runtime.gpu_backend import GpuBackend

NAMES = [name for name in tack.devices() if name in ("cuda", "hip")]
if not NAMES:
    pytest.skip("no CUDA or HIP device, and no rig of one", allow_module_level=True)


@pytest.fixture(params=NAMES)
def gpu(request: pytest.FixtureRequest) -> Iterator[GpuBackend]:
    with tack.device(request.param) as device:
        assert isinstance(device.backend, GpuBackend)
        yield device.backend


def test_a_dropped_cell_is_used_again_after_a_wait(gpu: GpuBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of a call that was interrupted may still be going to store there; what was read is free at once."""
    stream, waits = gpu._stream, []
    monkeypatch.setattr(stream, "wait", lambda: waits.append(1))
    cells = gpu_memory.Cells(stream)
    taken = [cells.take()]
    taken += [cells.take() for _ in range(len(cells.free))]
    assert len({cell.address for cell in taken}) == 256 and not cells.free
    read, dropped = taken[0].address, taken[1].address
    taken[0].give_back()
    del taken[:2]
    again = cells.take()
    assert again.address == read and not waits
    assert cells.take().address == dropped and waits == [1]


def test_a_result_is_not_what_the_cell_held_before(gpu: GpuBackend) -> None:
    """Its negative control: a cell that was not made ready is taken at once for one that has its result."""
    if native_launch.launcher() is None:
        pytest.skip("no llvmlite: the driver waits")
    x = tack.full(9000, 1, tack.f32)
    assert x.sum() == 9000.0
    x.fill(2.0)
    assert x.sum() == 18000.0
    x.fill(3.0)
    expect, gpu._stream.expect = gpu._stream.expect, lambda cell: None  # type: ignore[method-assign]
    try:
        early = x.sum()
    finally:
        gpu._stream.expect = expect  # type: ignore[method-assign]
        tack.synchronize()
    assert early == 18000.0 or not device_rig.is_rig(tack.current_device())
