"""The Level Zero backend against Intel's own software, without a GPU: the driver's host side, and the compiler.

The driver stands on a simulated command streamer: every call succeeds or fails as on a machine with the GPU, under the
loader's validation layer, but kernels are not executed (the rig executes them). All of it can take a process down, so
it runs in processes of its own. Rules FLT-1, FLT-4, ATOM-*, GRP-*.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dialect_corpus import corpus
from dialects import ATOMIC_TYPES
from rigs import text_compilers as compilers
from rigs.host_run import generate, type_for
from tack.codegen.array_reductions import reduction_source
from tack.codegen.opencl_gen import OpenCLCodeGen, OpenCLOptions
from tack.lang.types import f32

HERE = Path(__file__).parent
SIMULATED = {
    "NEOReadDebugKeys": "1",
    "SetCommandStreamReceiver": "1",  # commands go to a file
    "ZE_ENABLE_VALIDATION_LAYER": "1",
    "ZE_ENABLE_PARAMETER_VALIDATION": "1",
    "TACK_CACHE": "0",
}
HOST_CALLS = """
import ctypes, gc, json, sys
import numpy as np
import tack
from tack.runtime import level_zero_backend, level_zero_driver, level_zero_launch

@tack.kernel(group=64)
def everything(a, b, cells, s):
    for i in range(a.shape[0]):
        b[i] = tack.block_sum(a[i] * s)
        tack.atomic_add(cells, i % 4, 1)
    for i in range(a.shape[0]):
        a[i] = b[i] / s
    return a.shape[0]

driver = level_zero_driver.driver()
try:
    driver.zeContextCreate(level_zero_driver.find_devices()[0].driver_handle, None, ctypes.byref(ctypes.c_void_p()))
    validated = False
except level_zero_driver.LevelZeroError as error:
    validated = "INVALID_NULL_POINTER" in str(error)

with tack.device("level_zero") as device:
    for _ in range(2):
        a, b, cells = tack.asarray(np.ones(1000, np.float32)), tack.zeros(1000), tack.zeros(4, tack.u32)
        everything(a, b, cells, 3.0)
        a.numpy(), b.sum(), cells[2]
        a[1] = 2
    if device.supports("f64"):
        tack.ones(10, tack.f64).numpy()
    del a, b, cells
    gc.collect()
    tack.synchronize()
    stream, flags = device.backend._stream, level_zero_backend._MODULE_FLAGS
    retired = len(stream._retired)
    source = ("__kernel void k(__global float* a, __global float* b)"
              "{ size_t i = get_local_id(0); a[i] = a[i] / b[i]; b[i] = sqrt(a[i]); }")
    spirv = [level_zero_backend.compile_spirv(source, "k", device.backend.device.device_id, options)
             for options in (level_zero_backend._OPENCL_OPTIONS, level_zero_backend._OPENCL_OPTIONS[:1])]
    sizes = []
    for given in (flags, ""):
        module, size = level_zero_launch.Module(stream, spirv[0], given, "k"), ctypes.c_size_t()
        assert driver._library.zeModuleGetNativeBinary(module._handle, ctypes.byref(size), None) == 0
        sizes.append(size.value)
print("found:" + json.dumps({
    "label": device.backend.device.label, "capabilities": sorted(device.backend.capabilities), "retired": retired,
    "validated": validated, "same_spirv": spirv[0] == spirv[1], "sizes": sizes,
}))
"""


@functools.cache
def missing() -> str | None:
    """Why Intel's driver cannot be used here; None if it can."""
    for library, package in (("libze_loader.so.1", "libze1"), ("libze_intel_gpu.so.1", "intel-opencl-icd")):
        if not compilers.loads(library):
            return f"no {library} (Debian: {package})"
    return compilers.missing("ocloc")


needs_driver = pytest.mark.skipif(missing() is not None, reason=missing() or "never")
needs_ocloc = pytest.mark.skipif(compilers.missing("ocloc") is not None, reason=compilers.missing("ocloc") or "never")


@pytest.mark.skipif("CI" not in os.environ, reason="not in continuous integration, which installs Intel's driver")
def test_continuous_integration_has_the_driver() -> None:
    assert missing() is None


@needs_driver
@pytest.mark.parametrize(("product", "host_visible", "f64"), (("skl", True, True), ("dg1", False, False)))
def test_host_side_of_the_real_driver(product: str, host_visible: bool, f64: bool, tmp_path: Path) -> None:
    """Create, allocate, compile, launch, wait and free, on an integrated and on a discrete GPU: no error anywhere."""
    environment = os.environ | SIMULATED | {"ProductFamilyOverride": product, "PYTHONPATH": str(HERE.parent / "src")}
    script = tmp_path / "host_calls.py"  # a kernel's source is read from its file
    script.write_text(HOST_CALLS, encoding="utf-8")
    command, how = [sys.executable, str(script)], {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=False, **how)
    lines = [line.removeprefix("found:") for line in done.stdout.splitlines() if line.startswith("found:")]
    assert done.returncode == 0 and lines, f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    found = json.loads(lines[0])
    assert "Intel" in found["label"] and found["validated"] and found["retired"] == 0
    assert {"host_visible": host_visible, "f64": f64}.items() <= {
        name: name in found["capabilities"] for name in ("host_visible", "f64")
    }.items()
    # FLT-4: SPIR-V does not carry the rounding of division and square root; the driver's own compiler must be told.
    assert found["same_spirv"] and found["sizes"][0] > found["sizes"][1]


def texts(entries: tuple[str, ...], f64: bool) -> dict[str, str]:
    """Texts of the corpus as a device with or without f64 gets them."""
    options = OpenCLOptions(f64=f64)
    types = (("f32", "f64"), ATOMIC_TYPES["opencl"]) if f64 else (("f32",), ("i32", "u32", "f32", "i64", "u64"))
    made: dict[str, Any] = dict(corpus(*types))
    found = {name: generate("opencl", type_for(made[name][0], made[name][1]), options)[0] for name in entries}
    return found | {"reduce_min": reduction_source(OpenCLCodeGen, "min", f32, options)[0]}


@needs_ocloc
@pytest.mark.parametrize(
    ("product", "f64", "entries"),
    (
        ("pvc", True, ("control", "floats_f64")),
        ("dg2", False, ("atomics", "workgroups")),
        ("skl", True, ("atomics", "names")),
    ),
)
def test_machine_code_for_real_devices(product: str, f64: bool, entries: tuple[str, ...]) -> None:
    """What the backend's options make of generated text: a binary of the device, from valid SPIR-V."""
    for name, text in texts(entries, f64).items():
        binary = compilers.compile_opencl(text, "CL2.0", product, binary=True)
        assert binary[:4] == b"\x7fELF" or len(binary) > 1000, name


@needs_ocloc
def test_ocloc_refuses_f64_where_the_device_has_none() -> None:
    """The negative control: a dg2 takes no text with f64."""
    with pytest.raises(compilers.Rejected, match="cl_khr_fp64"):
        compilers.compile_opencl(texts(("floats_f64",), True)["floats_f64"], "CL2.0", "dg2", binary=True)
