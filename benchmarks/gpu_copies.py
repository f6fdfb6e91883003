"""Copies between host and device and inside the device, and arrays of other libraries, on a CUDA device.

Part of ``python -m benchmarks.gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tack
from benchmarks.gpu_tables import show, timed

HOST = 1 << 28  # bytes
DEVICE = 1 << 28  # elements of four bytes


@tack.kernel
def double(x):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2.0


def copies(cupy: Any, torch: Any, wait: Callable[[], None]) -> None:
    """Host to device and back, pageable NumPy memory on the host; device to device; filling."""
    host = np.random.default_rng(1).integers(0, 256, HOST, np.uint8)
    there = tack.asarray(host)
    assert np.array_equal(there.numpy(), host)
    back = np.empty_like(host)
    backend = there.device.backend
    up: dict[str, Callable[[], Any]] = {"Tack": lambda: backend.upload(there._data, host)}
    down: dict[str, Callable[[], Any]] = {"Tack": lambda: backend.download(there._data, back)}
    if cupy is not None:
        other = cupy.empty(HOST, np.uint8)
        up["CuPy"] = lambda: other.set(host)
        down["CuPy"] = lambda: other.get(out=back)
    if torch is not None:
        tensor, target = torch.from_numpy(host), torch.from_numpy(back)
        device = torch.empty(HOST, dtype=torch.uint8, device="cuda")
        up["PyTorch"] = lambda: device.copy_(tensor)
        down["PyTorch"] = lambda: target.copy_(device)
    show("host to device, 256 MiB", timed(up, wait, 2), nbytes=HOST)
    show("device to host, 256 MiB", timed(down, wait, 2), nbytes=HOST)
    x, y = tack.ones(DEVICE), tack.zeros(DEVICE)
    inside: dict[str, Callable[[], Any]] = {"Tack": lambda: tack.copyto(y, x)}
    filled: dict[str, Callable[[], Any]] = {"Tack": lambda: y.fill(1.5)}
    if cupy is not None:
        cx, cy = cupy.asarray(x), cupy.asarray(y)
        null = cupy.cuda.Stream.null
        inside["cudaMemcpyAsync (CuPy)"] = lambda: cy.data.copy_from_device_async(cx.data, 4 * DEVICE, null)
        filled["CuPy"] = lambda: cy.fill(1.5)
    show("copyto, f32 256 M", timed(inside, wait), nbytes=8 * DEVICE)
    show("fill, f32 256 M", timed(filled, wait), nbytes=4 * DEVICE)


def others(cupy: Any, torch: Any) -> None:
    """Tensors in and out without a copy, on streams of their libraries that are in no order with ours."""
    n = 1 << 22
    if torch is not None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for k in range(20):
                tensor = torch.full((n,), float(k), device="cuda") * 3
                double(tensor)
                assert bool((tensor + 1 == 6 * k + 1).all()), "PyTorch's stream and ours are out of order"
                shared = tack.from_dlpack(tensor)
                assert shared._data == tensor.data_ptr()
                double(shared)
                again = torch.from_dlpack(shared)
                assert again.data_ptr() == tensor.data_ptr() and bool((again == 12 * k).all())
        print("\nPyTorch tensors in and out on a stream of its own: right, no copy")
    if cupy is not None:
        with cupy.cuda.Stream(non_blocking=True):
            for k in range(20):
                array = cupy.full(n, k, np.float32) * 3
                double(array)
                assert bool((array + 1 == 6 * k + 1).all()), "CuPy's stream and ours are out of order"
                shared = tack.from_dlpack(array)
                double(shared)
                for again in (cupy.from_dlpack(shared), cupy.asarray(shared)):
                    assert again.data.ptr == array.data.ptr == shared._data and bool((again == 12 * k).all())
        print("CuPy arrays in and out on a stream of its own: right, no copy")
