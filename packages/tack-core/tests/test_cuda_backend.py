"""The device "cuda" as far as it shows without an NVIDIA GPU; with one, the rule suite runs on it as on any."""

from __future__ import annotations

import pytest

import tack
from rigs import device_rig, other_process
from rigs.text_compilers import CUDA_OPTIONS, missing
from tack.runtime import cuda_backend
from tack.runtime.interop import c_strides

NO_DEVICE = """
import tack
from tack.runtime import cuda_backend
print([name for name in tack.devices() if name.startswith("cuda")])
for make in (lambda: tack.device("cuda"), lambda: cuda_backend.CudaBackend(0)):
    try:
        make()
    except (ValueError, RuntimeError) as error:
        print(type(error).__name__, error)
"""
REJECTED = """
from tack.runtime import cuda_backend, cuda_driver
try:
    cuda_driver.compile_cubin("int x = no_such_name;", "k", "sm_90", cuda_backend._COMPILE_OPTIONS)
except cuda_driver.CudaError as error:
    print(error)
"""


def test_compiles_with_safe_math():
    """FLT-1: exactly these options; the text checks use the same."""
    wanted = {"--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"}
    assert set(cuda_backend._COMPILE_OPTIONS) == wanted == set(CUDA_OPTIONS)


@pytest.mark.skipif(device_rig.has_hardware("cuda"), reason="this machine has an NVIDIA GPU")
def test_without_a_driver_there_is_no_device():
    lines = other_process.run(NO_DEVICE).splitlines()
    assert lines[0] == "[]"
    assert lines[1].startswith("ValueError there is no device 'cuda'")
    assert lines[2].startswith("CudaError ") and ("no CUDA driver" in lines[2] or "CUDA_ERROR" in lines[2])


@pytest.mark.skipif(missing("nvrtc") is not None, reason=str(missing("nvrtc")))
def test_rejected_text_is_shown_with_its_line_numbers():
    """By the real NVRTC, which the rig hides in this process."""
    found = other_process.run(REJECTED)
    assert "kernel `k`: NVRTC cannot compile its CUDA C" in found
    assert 'identifier "no_such_name" is undefined' in found and "    1  int x" in found


def test_arrays_elsewhere_have_no_cuda_memory():
    with tack.device("reference"):
        array = tack.zeros(3)
    assert not hasattr(array, "__cuda_array_interface__")


@pytest.mark.parametrize(("shape", "strides"), [((), ()), ((4,), (8,)), ((2, 3), (24, 8)), ((2, 3, 5), (120, 40, 8))])
def test_strides_of_contiguous_arrays(shape, strides):
    assert c_strides(shape, 8) == strides
