"""CUDA's texture objects as far as they show without an NVIDIA GPU; with one, `test_texture3d.py` samples them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tack
from rigs import other_process
from rigs.text_compilers import missing
from tack.runtime import cuda_textures

COMPILE = """
from tack.runtime import cuda_backend, cuda_driver
print(len(cuda_driver.compile_cubin({text!r}, "k", "sm_90", cuda_backend._COMPILE_OPTIONS)))
"""


@tack.kernel
def sample(tex, out):
    for i in range(out.shape[0]):
        out[i] = tex.sample(0.5, 0.25, i)


def test_structures_are_as_large_as_the_drivers():
    """cuda.h of CUDA 13.0, 64-bit: CUDA_ARRAY3D_DESCRIPTOR, CUDA_MEMCPY3D, CUDA_RESOURCE_DESC, CUDA_TEXTURE_DESC."""
    names = ("_ArrayDescription", "_Copy", "_Resource", "_Sampler")
    assert [ctypes.sizeof(getattr(cuda_textures, name)) for name in names] == [40, 200, 144, 104]


def test_the_vendors_compiler_takes_the_sampler(monkeypatch):
    """TEX-2: the hardware first, the software where that gives nothing finite."""
    if reason := missing("nvrtc"):
        pytest.skip(reason)
    if "cuda" not in tack.devices():
        pytest.skip("no CUDA device, and no rig of one")
    with tack.device("cuda") as device:
        tex, out = tack.texture3d(np.zeros((2, 3, 4)), (4, 3, 2)), tack.zeros(3)
        plain = device.backend.capabilities - {"texture_images"}
        monkeypatch.setattr(device.backend, "capabilities", plain)
        assert "tex3D" not in tack.inspect(sample, tex, out)["cuda"]
        monkeypatch.setattr(device.backend, "capabilities", plain | {"texture_images"})
        text = tack.inspect(sample, tex, out)["cuda"]
    assert "tex3D<float>(" in text
    assert int(other_process.run(COMPILE.format(text=text))) > 1000
