"""The device "hip" as far as it shows without an AMD GPU: its options, and Debian's real hipRTC and HIP runtime.

Those run in processes of their own, where no rig is loaded and what they break is theirs. The rule suite runs on the
device through its rig, `test_device_rigs.py` is about that.
"""

from __future__ import annotations

import numpy as np
import pytest

import tack
from rigs import device_rig, host_run, other_process
from rigs.text_compilers import HIP_OPTIONS, missing
from tack.runtime import hip_backend, hip_driver

NEEDS_HIPRTC = pytest.mark.skipif(missing("hiprtc") is not None, reason=str(missing("hiprtc")))
COMPILE = """
import json, sys
from tack.runtime import hip_backend, hip_driver
request = json.load(sys.stdin)
try:
    code = hip_backend._compile_code_object(request["text"], "k", request["architecture"])
    print("code:" + code[:4].hex(), len(code), request["symbol"].encode() in code)
except hip_driver.HipError as error:
    print("error:" + str(error))
"""
NO_DEVICE = """
import tack
from tack.runtime import hip_driver
print([name for name in tack.devices() if name.startswith("hip")], hip_driver.device_count())
for make in (hip_driver.driver, lambda: tack.device("hip")):
    try:
        make()
    except (hip_driver.HipError, ValueError) as error:
        print(type(error).__name__, error)
print(tack.ones(3, device="reference").numpy().tolist())
"""


@tack.kernel
def scale(a, b, k):
    for i in range(a.shape[0]):
        a[i] = tack.sqrt(b[i]) * k + a[i]


def text_of_scale() -> str:
    arrays = np.zeros(4, np.float32), np.zeros(4, np.float32), np.float32(2)
    return host_run.generate("hip", host_run.type_for(scale, arrays))[0]


def test_compiles_with_safe_math() -> None:
    """FLT-1, FLT-4: exactly this option; the text checks use the same."""
    assert hip_backend._HIPRTC_OPTIONS == ("-ffp-contract=on",) == HIP_OPTIONS


@NEEDS_HIPRTC
def test_the_real_compiler_makes_a_code_object() -> None:
    """ELF for gfx90a, with the kernel's name in it."""
    answer = other_process.run(COMPILE, text=text_of_scale(), architecture="gfx90a", symbol="scale_loop0")
    mark, size, found = answer.rstrip().rsplit("code:")[-1].split()
    assert bytes.fromhex(mark) == b"\x7fELF" and int(size) > 1000 and found == "True"


@NEEDS_HIPRTC
def test_the_real_compiler_rejects_with_its_words_and_the_numbered_text() -> None:
    answer = other_process.run(COMPILE, text="int a;\nint x = no_such_name;", architecture="gfx90a", symbol="")
    assert "error:kernel `k`: hipRTC cannot compile its HIP C" in answer
    assert "use of undeclared identifier 'no_such_name'" in answer and "    2  int x = no_such_name;" in answer


@pytest.mark.skipif(device_rig.has_hardware("hip"), reason="this machine has an AMD GPU")
def test_without_a_gpu_there_is_no_device() -> None:
    """The runtime is here and finds nothing (101, 100), or it is not here: no device, no crash, and clear words."""
    lines = other_process.run(NO_DEVICE).splitlines()
    assert lines[0] == "[] 0"
    assert lines[1].startswith("HipError ") and ("hipInit: " in lines[1] or "no HIP driver" in lines[1])
    assert lines[2].startswith("ValueError there is no device 'hip'") and "'reference'" in lines[2]
    assert lines[3] == str(np.ones(3, np.float32).tolist())


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\0" * 400 + b"gfx90a:sramecc+:xnack-\0" + b"\0" * 100, "gfx90a:sramecc+:xnack-"),
        (b"AMD Instinct MI300X\0" + b"\0" * 900 + b"gfx942:sramecc+:xnack-\0\1\2", "gfx942:sramecc+:xnack-"),
        (b"AMD Radeon gfx1100\0gfx1100\0", "gfx1100"),
    ],
)
def test_architecture_wherever_the_structure_has_it(content: bytes, found: str) -> None:
    """ROCm 5 and 6 lay out hipDeviceProp_t differently."""
    match = hip_driver._ARCHITECTURE.search(content)
    assert match is not None and match[0].decode() == found
