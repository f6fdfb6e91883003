"""The device "cuda" as far as it shows without an NVIDIA GPU; with one, the rule suite runs on it as on any."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

import tack
from rigs import device_rig, other_process
from rigs.text_compilers import CUDA_OPTIONS, missing
from tack.runtime import cuda_backend
from tack.runtime.interop import c_strides
from tack.runtime.run_time_compiler import load_ahead

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

FIRST_CALL = """
import json, sys, threading
sys.path[:0] = json.loads(sys.stdin.read())["paths"]
from rigs import device_rig
device_rig.install()
import tack
from user import kernel
with tack.device(NAME):
    x, out = tack.ones(8), tack.zeros(8)
    threads = [thread.name for thread in threading.enumerate()]
    before = {name for name in sys.modules if name.startswith("tack.")}
    kernel(x, out)
    assert (out.numpy() == 2.0).all()
assert "tack-load-ahead" not in threads, threads
print(*sorted(name for name in sys.modules if name.startswith("tack.") and name not in before))
"""
KERNEL = """
import tack
@tack.kernel
def kernel(x, out):
    for i in range(out.shape[0]):
        out[i] = 2.0 * x[i]
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


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the loader is Linux's")
def test_a_library_is_loaded_ahead(tmp_path):
    """The first that there is; one that is not there, or is no library, is passed over as it is by ctypes."""
    of_python = next(Path(sysconfig.get_config_var("DESTSHARED")).glob("*.so"))
    there, broken, late = (tmp_path / f"{name}.so" for name in ("there", "broken", "late"))
    for copy in (there, late):
        copy.write_bytes(of_python.read_bytes())
    broken.write_bytes(b"no library")
    thread = load_ahead((str(tmp_path / "missing.so"), str(broken), str(there), str(late)))
    assert thread is not None
    thread.join()
    loaded = Path("/proc/self/maps").read_text()
    assert str(there) in loaded and str(late) not in loaded


@pytest.mark.skipif(device_rig.missing() is not None, reason=str(device_rig.missing()))
@pytest.mark.parametrize("name", ["cuda", "cpu"])
def test_a_first_call_finds_its_modules_loaded(name, tmp_path, monkeypatch):
    """They are imported while the driver makes the context, not after that; "cpu" shows that this can tell."""
    monkeypatch.setenv("TACK_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "user.py").write_text(KERNEL)
    script = FIRST_CALL.replace("NAME", repr(name))
    loaded = other_process.run(script, paths=[str(tmp_path), *sys.path]).split()
    assert ("tack.runtime.compilation" in loaded) == (name == "cpu")
    assert name == "cpu" or loaded == []


def test_arrays_elsewhere_have_no_cuda_memory():
    with tack.device("reference"):
        array = tack.zeros(3)
    assert not hasattr(array, "__cuda_array_interface__")


@pytest.mark.parametrize(("shape", "strides"), [((), ()), ((4,), (8,)), ((2, 3), (24, 8)), ((2, 3, 5), (120, 40, 8))])
def test_strides_of_contiguous_arrays(shape, strides):
    assert c_strides(shape, 8) == strides
