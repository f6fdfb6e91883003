"""The Level Zero backend itself, on the device rig: faults planted in it are found, errors are clear, nothing leaks.

What kernels compute on it is tested where every device answers. Rules CALL-1, CALL-3, CALL-4, LOOP-12, MEM-1, CACHE-*.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tack
from rigs import device_rig
from rigs.level_zero_rig import UNINITIALIZED, Rig
from tack.codegen.opencl_gen import OpenCLCodeGen
from tack.lang.types import f32
from tack.runtime import code_store, level_zero_backend, level_zero_driver, level_zero_launch
from tack.runtime import device as device_module
from tack.runtime.backend import Artifact
from tack.runtime.level_zero_compiler import compile_spirv
from tack.runtime.level_zero_driver import LevelZeroError
from tack.runtime.level_zero_launch import Stream

HAS_RIG = device_rig.is_rig(tack.Device("level_zero"))
pytestmark = pytest.mark.skipif(not HAS_RIG, reason=device_rig.missing() or "this machine has an Intel GPU, and no rig")


@pytest.fixture
def rig() -> Iterator[Rig]:
    """The rig, its device current; a test that expects misuse has asked for it."""
    found = Rig()
    with tack.device("level_zero"):
        yield found
    tack.device("level_zero").backend.synchronize()
    assert not (noted := found.misuse()), noted


FACTORS = itertools.count(3)


@tack.kernel
def twice(a, b, s):
    for i in range(a.shape[0]):
        b[i] = a[i] * s
    for i in range(a.shape[0]):
        a[i] = b[i] + 1
    return a.shape[0] * 2


@tack.kernel
def far(out, n):
    for i in range(n):
        if i >= 4294967296:
            out[i - 4294967296] = i


def probe() -> None:
    """One call with arrays, a scalar, two loops of which one needs the other's stores, and a result."""
    factor = next(FACTORS)  # another in each call: an argument that is left from the last one must not do
    a, b = tack.asarray(np.arange(600, dtype=np.float32)), tack.zeros(600)
    assert twice(a, b, factor) == 1200
    wanted = np.arange(600, dtype=np.float32) * factor
    assert np.array_equal(b.numpy(), wanted) and np.array_equal(a.numpy(), wanted + 1)
    assert a.max() == 599 * factor + 1 and tack.zeros(5).numpy().tolist() == [0] * 5
    far(tack.zeros(10, tack.i64), 10)  # an array that nobody refers to when its call may still run


def assert_nothing_leaked(rig: Rig, before: dict[str, int]) -> None:
    """As many objects as before; memory for results, which a failed call does not give back, may be less."""
    after = rig.live()
    assert after.pop("bytes") <= before["bytes"]
    assert after == {name: count for name, count in before.items() if name != "bytes"}


# ---------------------------------------------------------------------------------------------------- planted faults


def argument_off_by_one(patch: pytest.MonkeyPatch) -> None:
    launch = Stream.launch
    patch.setattr(Stream, "launch", lambda self, f, values, *n: launch(self, f, [values[0], *values], *n))


def arguments_exchanged(patch: pytest.MonkeyPatch) -> None:
    launch = Stream.launch
    patch.setattr(
        Stream, "launch", lambda self, f, values, *n: launch(self, f, [values[1], values[0], *values[2:]], *n)
    )


def argument_not_set(patch: pytest.MonkeyPatch) -> None:
    launch = Stream.launch
    patch.setattr(Stream, "launch", lambda self, f, values, *n: launch(self, f, values[:-1], *n))


def no_wait_before_a_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "wait", lambda self: None)


def no_barrier_between_commands(patch: pytest.MonkeyPatch) -> None:
    def append(self: Any, command: str, *arguments: Any) -> None:
        getattr(self.ze, command)(self._list, *arguments, None, 0, None)

    patch.setattr(Stream, "append", append)


def freed_while_in_use(patch: pytest.MonkeyPatch) -> None:
    def retire(self: Any, function: str, *arguments: Any, nbytes: int = 0) -> None:
        getattr(self.ze, function)(*arguments)

    patch.setattr(Stream, "retire", retire)
    patch.setattr(Stream, "cell", lambda self, nbytes: self.allocate(8))
    keep = level_zero_launch.Memory.__del__

    def free(self: Any) -> None:  # what a destructor raises Python only prints; the rig notes it
        try:
            keep(self)
        except LevelZeroError:
            pass

    patch.setattr(level_zero_launch.Memory, "__del__", free)


def memory_not_zeroed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "fill", lambda self, *a: None)


def groups_too_large(patch: pytest.MonkeyPatch) -> None:
    launch = Stream.launch
    patch.setattr(Stream, "launch", lambda self, f, values, groups, group: launch(self, f, values, groups, 2 * group))


def one_group_too_few(patch: pytest.MonkeyPatch) -> None:
    launch = Stream.launch
    patch.setattr(Stream, "launch", lambda self, f, v, groups, group: launch(self, f, v, max(1, groups - 1), group))


FAULTS = (
    argument_off_by_one,
    arguments_exchanged,
    argument_not_set,
    no_wait_before_a_read,
    no_barrier_between_commands,
    freed_while_in_use,
    memory_not_zeroed,
    groups_too_large,
    one_group_too_few,
)


@pytest.mark.parametrize("fault", [*FAULTS, None], ids=lambda fault: fault.__name__ if fault else "none")
def test_planted_faults_are_caught(rig: Rig, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault makes the probe fail, or the rig note what the real driver would not survive; none does neither."""
    probe()  # compiled before the fault
    with monkeypatch.context() as patch:
        if fault:
            fault(patch)
        try:
            probe()
            caught = ""
        except (AssertionError, LevelZeroError) as error:
            caught = str(error) or "wrong numbers"
    tack.synchronize()
    noted = rig.misuse()
    assert bool(caught or noted) == (fault is not None), (caught, noted)
    probe()


class NarrowIndex(OpenCLCodeGen):
    """The fault: the index of a thread as `get_global_id` gives it where ids have 32 bits."""

    def source(self) -> str:
        text = super().source()
        narrow = text.replace("(long)((ulong)get_group_id(0)", "(long)(uint)((ulong)get_group_id(0)")
        assert narrow != text
        return narrow


@pytest.mark.parametrize("narrow", (False, True))
def test_iterations_beyond_32_bits(rig: Rig, narrow: bool, monkeypatch: pytest.MonkeyPatch, uncached: None) -> None:
    """LOOP-12: one launch of more than 2**32 iterations; a 32-bit index, planted, gives wrong numbers."""
    if narrow:
        monkeypatch.setattr("tack.codegen.opencl_gen.OpenCLCodeGen", NarrowIndex)
    kernel = tack.kernel(far.__wrapped__)
    out = tack.zeros(300, tack.i64)
    with rig.running_only_the_ends(2):
        kernel(out, 2**32 + 300)
        found = out.numpy()
    assert np.array_equal(found, np.arange(300) + 2**32) != narrow


def test_reductions_of_many_elements_use_wide_indices(rig: Rig) -> None:
    """RED-1: the text of a reduction counts in 64 bits."""
    from tack.codegen.array_reductions import reduction_source

    text, plan = reduction_source(OpenCLCodeGen, "sum", f32)
    assert "get_global_id" not in text
    assert {p.dtype.name for p in plan.parameters if not p.is_address} == {"i64"}


# ------------------------------------------------------------------------------------------------------------ errors


def test_launch_that_fails_half_way(rig: Rig) -> None:
    """A clear error that names the kernel and its loop; nothing leaks, and the next call works."""
    probe()
    before = rig.live()
    a, b = tack.ones(100), tack.zeros(100)
    rig.fail("zeCommandListAppendLaunchKernel", after=1)
    with pytest.raises(LevelZeroError, match=r"kernel `twice` .*loop 2 of 2.*DEVICE_LOST"):
        twice(a, b, 2)
    del a, b
    probe()
    assert_nothing_leaked(rig, before)


def test_device_lost_while_it_runs(rig: Rig) -> None:
    """The wait says so, and the next call works."""
    probe()
    before = rig.live()
    a, b = tack.ones(3000), tack.zeros(3000)
    tack.synchronize()
    with rig.killing(3), pytest.raises(LevelZeroError, match="DEVICE_LOST"):
        twice(a, b, 2)
        tack.synchronize()
    del a, b
    probe()
    assert_nothing_leaked(rig, before)


@pytest.mark.parametrize(
    "function",
    (
        "zeMemAllocDevice",
        "zeCommandListAppendMemoryFill",
        "zeCommandListAppendMemoryCopy",
        "zeCommandListAppendBarrier",
        "zeKernelSetArgumentValue",
        "zeEventHostSynchronize",
        "zeEventHostReset",
    ),
)
def test_any_function_may_fail(rig: Rig, function: str) -> None:
    """The error names it; nothing leaks but an event, and the next call works."""
    probe()
    before = rig.live()
    rig.fail(function)
    with pytest.raises(LevelZeroError, match=f"{function}: ZE_RESULT_ERROR_DEVICE_LOST"):
        probe()
    probe()
    assert_nothing_leaked(rig, before)


def test_out_of_memory(rig: Rig) -> None:
    """MemoryError says what was asked for; memory that is to be freed is freed first; the next call works."""
    probe()
    before = rig.live()
    with rig.limit(before["bytes"] + (1 << 20)):
        for _ in range(4):  # each waits for the one before it to be freed
            tack.zeros(200_000)
        with pytest.raises(MemoryError, match=r"an array of 4000000 bytes on level_zero"):
            tack.zeros(1_000_000)
        probe()
    with pytest.raises(MemoryError, match="allows 2147483648 an array"):
        tack.zeros(1 << 40, tack.u8)
    assert_nothing_leaked(rig, before)


def test_rejected_text(rig: Rig, monkeypatch: pytest.MonkeyPatch, uncached: None) -> None:
    """The compiler's words, the kernel's name and the numbered text."""
    before = rig.live()
    monkeypatch.setattr(OpenCLCodeGen, "source", lambda self: "int x = no_such_name;")
    monkeypatch.setattr(OpenCLCodeGen, "plan", None, raising=False)
    with pytest.raises(LevelZeroError, match=r"(?s)kernel `far`: ocloc cannot.*no_such_name.*    1  int x"):
        tack.kernel(far.__wrapped__)(tack.zeros(3, tack.i64), 3)
    monkeypatch.undo()
    assert_nothing_leaked(rig, before)


def test_rejected_module(rig: Rig, uncached: None) -> None:
    """The driver's build log is shown, and given back."""
    before = rig.live()
    with (
        rig.refusing_modules(),
        pytest.raises(LevelZeroError, match=r"(?s)kernel `far`.*BUILD_FAILURE.*told to refuse"),
    ):
        tack.kernel(far.__wrapped__)(tack.zeros(3, tack.i64), 3)
    assert_nothing_leaked(rig, before)


@pytest.mark.parametrize("state", ("no loader", "an old loader", "no driver"))
def test_missing_or_broken_driver(rig: Rig, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One clear error, no device, and no call after a failed `zeInit`, on which the real loader crashes."""
    for cached in (level_zero_driver.find_devices, level_zero_driver.driver):
        monkeypatch.setattr(level_zero_driver, cached.__name__, cached.__wrapped__)
    if state == "no loader":
        monkeypatch.setattr(level_zero_driver, "LOADERS", ("libze_loader_that_is_not_there.so",))
    elif state == "an old loader":
        monkeypatch.setitem(level_zero_driver._SIGNATURES, "zeFutureFunction", ())
    else:
        rig.fail("zeInit", code=UNINITIALIZED)
    words = {
        "no loader": r"no Level Zero loader .*not_there.*apt install libze1",
        "an old loader": r"the Level Zero loader has no zeFutureFunction",
        "no driver": r"finds no driver with a GPU \(zeInit: ZE_RESULT_ERROR_UNINITIALIZED\)",
    }[state]
    with pytest.raises(LevelZeroError, match=words):
        level_zero_driver.Driver()
    if state != "no driver":  # which fails once
        with pytest.raises(ValueError, match=f"no device 'level_zero': .*{words}"):
            tack.device("level_zero")
        assert not any(name.startswith("level_zero") for name in tack.devices())


def test_no_compiler(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libocloc the error says what to install."""
    from tack.runtime import level_zero_compiler as compiler

    monkeypatch.setattr(compiler, "_LIBRARIES", ("libocloc_that_is_not_there.so",))
    monkeypatch.setattr(compiler, "_library", compiler._library.__wrapped__)
    with pytest.raises(LevelZeroError, match=r"no libocloc_that_is_not_there.*apt install"):
        compiler.compile_spirv("", "k", 0x0BD5, ())


# -------------------------------------------------------------------------------------------- compiling and the cache


def test_safe_options(rig: Rig, uncached: None) -> None:
    """FLT-1: exactly these options; SPIR-V does not carry the rounding, so the driver is told as well."""
    assert level_zero_backend._OPENCL_OPTIONS == ("-cl-std=CL2.0", "-cl-fp32-correctly-rounded-divide-sqrt")
    tack.kernel(far.__wrapped__)(tack.zeros(3, tack.i64), 3)
    flags = rig.build_flags().split()
    assert flags == ["-cl-fp32-correctly-rounded-divide-sqrt", "-ze-opt-greater-than-4GB-buffer-required"]


def test_spirv_comes_from_the_disk(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """CACHE-1: the same kernel again is not compiled; what is no SPIR-V never reaches the driver."""
    compiled = []
    compile_spirv = level_zero_backend.compile_spirv
    monkeypatch.setattr(
        level_zero_backend, "compile_spirv", lambda *a: compiled.append(a[1]) or compile_spirv(*a), raising=True
    )

    @tack.kernel
    def kept(out):
        for i in range(out.shape[0]):
            out[i] = i * 7

    for _ in range(2):
        out = tack.zeros(5, tack.i32)
        tack.kernel(kept.__wrapped__)(out)
        assert out.numpy().tolist() == [0, 7, 14, 21, 28]
    assert compiled == ([] if code_store.cache() is None else ["kept"]) or compiled == ["kept"] * 2
    backend = tack.device("level_zero").backend
    plan = {"loops": [], "result": None, "packed": False, "arguments": [], "kernel": "k"}
    for payload in (b"", b"\0" * 64, (0x07230203).to_bytes(4, "little"), b"\x7fELF" + bytes(60)):
        with pytest.raises(ValueError, match="not SPIR-V"):
            backend.load(
                Artifact(
                    {"plan": {"loops": [], "result": None, "packed": False, "arguments": [], "kernel": "k"}}, payload
                )
            )


# ------------------------------------------------------------------------------------------------- another device


def test_a_lesser_device(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """MEM-1: no f64, no 64-bit atomics, small groups, memory that the host sees: by report, each refused or used."""
    with rig.second_device() as backend:
        monkeypatch.setitem(device_module._backends, "level_zero:1", backend)
        assert backend.capabilities == {"workgroups", "host_visible", "atomic_i32", "atomic_u32", "atomic_f32"}
        assert not backend.supports_device_reductions and backend._group == 128
        with tack.device("level_zero:1") as device:
            a, b = tack.asarray(np.arange(600, dtype=np.float32)), tack.zeros(600)
            assert twice(a, b, 3) == 1200
            view = np.asarray(b)
            assert view.ctypes.data == b._data and np.array_equal(view, np.arange(600) * 3)
            assert a.sum() == float((np.arange(600, dtype=np.float64) * 3 + 1).sum())
            with pytest.raises(TypeError, match="has no f64"):
                tack.zeros(3, tack.f64)
            assert not device.supports("atomic_i64")
            b[7] = 5
            assert b[7] == 5 and b.max() == 599 * 3
            del a, b, view
        backend.synchronize()


def test_capabilities_follow_the_report(rig: Rig) -> None:
    """ATOM-1: what the first device reports."""
    capabilities = tack.device("level_zero").backend.capabilities
    assert capabilities == {"f64", "workgroups", *(f"atomic_{t}" for t in ("i32", "u32", "f32", "i64", "u64", "f64"))}


# ------------------------------------------------------------------------------------------------ threads and forks


def test_threads_share_the_device(rig: Rig) -> None:
    """CALL-3: calls of several threads, each with its own arguments, never meet inside one driver object."""
    probe()
    failures: list[str] = []

    def work(number: int) -> None:
        with tack.device("level_zero"):
            for _ in range(8):
                a, b = tack.full(500, number), tack.zeros(500)
                twice(a, b, number)
                if b.numpy().tolist() != [number * number] * 500:
                    failures.append(f"thread {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_is_refused(rig: Rig) -> None:
    """CALL-4: an error instead of a driver in an unknown state."""
    probe()
    code = (
        "import os, sys; sys.path[:0] = sys.argv[1:]\n"
        "from rigs import device_rig; device_rig.install()\n"
        "import tack\n"
        "a = tack.ones(3, device='level_zero'); a.sum()\n"
        "if os.fork() == 0:\n"
        "    try: a.numpy()\n"
        "    except RuntimeError as error: print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    here = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code, here], capture_output=True, text=True, check=False, timeout=120)
    assert "does not work across a fork" in done.stdout, done.stderr


# ------------------------------------------------------------------------------------- what the rig itself refuses


def test_the_rig_refuses_what_level_zero_refuses(rig: Rig) -> None:
    """Each misuse by itself: a code, a note, or both; the right calls beside them give neither."""
    probe()
    stream: Any = tack.device("level_zero").backend._stream
    ze = stream.ze
    module = level_zero_launch.Module(stream, code_for_a_copy(), "", "k")
    function = module.function("k")
    good, gone = stream.allocate(64), stream.allocate(64)
    place, stale = stream.resolve(good.address), stream.resolve(gone.address)
    del gone
    stream.wait()
    launch = "zeCommandListAppendLaunchKernel", function.handle, ctypes.byref(level_zero_driver.GroupCount(1, 1, 1))

    def refused(words: str, function: Any, *arguments: Any) -> None:
        with pytest.raises(LevelZeroError, match=words):
            function(*arguments)
        rig.misuse()

    set_argument = ze.zeKernelSetArgumentValue
    refused("ARGUMENT_INDEX", set_argument, function.handle, 2, 8, place)
    refused("ARGUMENT_SIZE", set_argument, function.handle, 0, 4, place)
    refused("INVALID_ARGUMENT", set_argument, function.handle, 0, 8, stale)
    refused("GROUP_SIZE", ze.zeKernelSetGroupSize, function.handle, 2048, 1, 1)
    refused("GROUP_SIZE", ze.zeKernelSetGroupSize, function.handle, 32, 1, 1)  # the text says 64
    refused("GROUP_SIZE", stream.append, *launch)  # none was set
    function.set_group(64)
    refused("INVALID_ARGUMENT", stream.append, *launch)  # nor any argument
    refused("INVALID_SIZE", stream.fill, good.address, b"\0", 65)
    refused("INVALID_ARGUMENT", stream.append, "zeCommandListAppendMemoryCopy", good.address, place, 65)
    refused("INVALID_ARGUMENT", ze.zeMemFree, stream.context, good.address + 8)
    refused("OBJECT_IN_USE", ze.zeModuleDestroy, module._handle)
    refused("KERNEL_NAME", module.function, "no_such_kernel")
    refused("NULL_HANDLE", ze.zeKernelDestroy, module._handle)
    for index in range(2):
        set_argument(function.handle, index, 8, place)
    stream.append(*launch)
    refused("OBJECT_IN_USE", ze.zeMemFree, stream.context, good.address)
    refused("OBJECT_IN_USE", ze.zeKernelDestroy, function.handle)
    stream.wait()
    assert not rig.misuse()


def code_for_a_copy() -> bytes:
    """A kernel `k` of two arrays, groups of 64."""
    text = (
        "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void k(__global char* a, __global const char* b) {"
        " a[get_local_id(0)] = b[get_local_id(0)]; }"
    )
    return compile_spirv(text, "k", 0x0BD5, level_zero_backend._OPENCL_OPTIONS)
