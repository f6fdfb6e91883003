"""The device "cuda" as far as it shows without an NVIDIA GPU; with one, the rule suite runs on it as on any."""

from __future__ import annotations

import pytest

import tack
from rigs.text_compilers import CUDA_OPTIONS, missing
from tack.runtime import cuda_backend, cuda_driver
from tack.runtime.interop import c_strides

NO_GPU = pytest.mark.skipif(cuda_driver.device_count() > 0, reason="this machine has an NVIDIA GPU")


def test_compiles_with_safe_math():
    """FLT-1: exactly these options; the text checks use the same."""
    wanted = {"--fmad=true", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"}
    assert set(cuda_backend._COMPILE_OPTIONS) == wanted == set(CUDA_OPTIONS)


@NO_GPU
def test_without_a_driver_there_is_no_device():
    assert not any(name.startswith("cuda") for name in tack.devices())
    with pytest.raises(ValueError, match="'cuda'"):
        tack.device("cuda")
    with pytest.raises(cuda_driver.CudaError, match=r"no CUDA driver|CUDA_ERROR"):
        cuda_backend.CudaBackend(0)


def test_rejected_text_is_shown_with_its_line_numbers():
    if reason := missing("nvrtc"):
        pytest.skip(reason)
    with pytest.raises(cuda_driver.CudaError, match=r"(?s)kernel `k`.*no_such_name.*    1  int x"):
        cuda_driver.compile_cubin("int x = no_such_name;", "k", "sm_90", cuda_backend._COMPILE_OPTIONS)


def test_arrays_elsewhere_have_no_cuda_memory():
    with tack.device("reference"):
        array = tack.zeros(3)
    assert not hasattr(array, "__cuda_array_interface__")


@pytest.mark.parametrize(("shape", "strides"), [((), ()), ((4,), (8,)), ((2, 3), (24, 8)), ((2, 3, 5), (120, 40, 8))])
def test_strides_of_contiguous_arrays(shape, strides):
    assert c_strides(shape, 8) == strides
