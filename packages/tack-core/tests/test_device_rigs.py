"""The device rigs refuse what the real drivers refuse, and faults planted in a backend do not get past them.

Where a rig answers wrongly the rule suite proves nothing on its device; so each refusal is asked for, each fault is
planted in the backend, and each has the right program beside it, which passes.
"""

from __future__ import annotations

import ctypes
import gc
import re
from collections.abc import Callable, Iterator
from ctypes import byref, c_float, c_int, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tack
from rigs import device_rig
from tack.runtime import gpu_memory, gpu_stream
from tack.runtime.gpu_driver import GpuError

KINDS = ("cuda", "hip")
COUNT = 1000
BAD_CONTEXT, LAUNCH_FAILED, OUT_OF_MEMORY = 201, 719, 2
MODULE, FUNCTION = 3, 4  # kinds of handles in c_device/gpu.h
# A kernel as a generator might write it.
TEXT = """
extern "C" __global__ __launch_bounds__(256) void scale(float* x, long long n, float factor) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < n) x[i] *= factor;
}
extern "C" __global__ __launch_bounds__(256) void stray(float* x) { x[1 << 20] = 1.0f; }
extern "C" __global__ __launch_bounds__(256) void apart(float* x) {
    if (threadIdx.x == 0) __syncthreads();
    else __syncwarp(0xffffffffu);
    x[0] = 1.0f;
}
"""


class Rig:
    """A device that is a rig, its backend, and the switches of its library."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.device = tack.device(kind)
        self.backend: Any = self.device.backend
        self.stream, self.driver = self.backend._stream, self.backend._driver
        self.library, self.core = device_rig.library(kind), device_rig.core()
        self.library.gpu_live_bytes.restype = ctypes.c_longlong
        self.groups_left = ctypes.c_longlong.in_dll(self.core, "rig_groups_left")
        self.ends = ctypes.c_uint.in_dll(self.core, "rig_ends")

    def fail(self, name: str, code: int, after: int = 0) -> None:
        """Let a call of the driver, the first or one `after` it, return an error code."""
        self.library.gpu_fail(self.driver.names[name].encode(), code, after)

    def live(self) -> tuple[int, int, int]:
        """Bytes of memory, modules and functions that nobody has freed."""
        gc.collect()
        self.stream.wait()
        return self.library.gpu_live_bytes(), self.library.gpu_live(MODULE), self.library.gpu_live(FUNCTION)

    def memory(self, nbytes: int) -> gpu_memory.DeviceMemory:
        return gpu_memory.DeviceMemory(self.stream, nbytes)

    def launch(
        self, function: Any, *values: Any, grid: Any = (1, 1, 1), block: Any = (256, 1, 1), **given: Any
    ) -> None:
        pointers = (c_void_p * max(1, len(values)))(*(None if v is None else ctypes.addressof(v) for v in values))
        self.driver.launch(function, *grid, *block, 0, given.get("stream", self.stream.handle), pointers, None)


@pytest.fixture(params=KINDS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    if reason := device_rig.missing():
        pytest.skip(reason)
    if device_rig.has_hardware(request.param):
        pytest.skip(f"this machine has the hardware of {request.param}, and so no rig")
    made = Rig(request.param)
    made.stream.begin()
    try:
        yield made
    finally:
        made.ends.value = 0
        made.library.gpu_reset()


@pytest.fixture
def module(rig: Rig) -> gpu_stream.Module:
    return gpu_stream.Module(rig.stream, rig.backend.compile_text(TEXT, "scale"))


# ------------------------------------------------------------------------------------------------------- what it does


def test_nothing_happens_before_something_waits(rig: Rig, module: gpu_stream.Module) -> None:
    values = np.arange(COUNT, dtype=np.float32)
    back = np.full(COUNT, -1, np.float32)
    memory = rig.memory(values.nbytes)
    rig.driver.upload(memory.address, values.ctypes.data, values.nbytes, rig.stream.handle)
    rig.launch(module.function("scale"), c_uint64(memory.address), c_int64(COUNT), c_float(2), grid=(4, 1, 1))
    rig.driver.download(back.ctypes.data, memory.address, back.nbytes, rig.stream.handle)
    values += 1  # the copy reads what is there when it happens
    assert (back == -1).all()
    rig.stream.wait()
    assert back.tolist() == [2.0 * (i + 1) for i in range(COUNT)]


def test_memory_is_poisoned(rig: Rig) -> None:
    memory, back = rig.memory(100), np.zeros(100, np.uint8)
    rig.stream.download(memory.address, back)
    assert (back == 0xFD).all()


def test_freed_memory_serves_what_was_enqueued_before(rig: Rig, module: gpu_stream.Module) -> None:
    memory, back = rig.memory(4), np.zeros(1, np.float32)
    rig.driver.fill32(memory.address, 0x3F800000, 1, rig.stream.handle)
    rig.launch(module.function("scale"), c_uint64(memory.address), c_int64(1), c_float(3))
    rig.driver.download(back.ctypes.data, memory.address, 4, rig.stream.handle)
    del memory
    rig.stream.wait()
    assert back[0] == 3


# -------------------------------------------------------------------------------------------------- what it refuses


def refused(words: str) -> Any:
    return pytest.raises(GpuError, match=rf"\[rig: .*{words}")


def test_arguments(rig: Rig, module: gpu_stream.Module) -> None:
    scale, memory = module.function("scale"), rig.memory(64)
    right = (c_uint64(memory.address), c_int64(1), c_float(1))
    rig.launch(scale, *right)
    with refused("not bound"):
        rig.launch(scale, right[0], None, right[2])
    for address in (0, 4096, memory.address + 65, memory.address - 1, right[1].value):
        with refused("no memory"):
            rig.launch(scale, c_uint64(address), *right[1:])
    with refused("aligned"):
        rig.launch(scale, c_uint64(memory.address + 2), *right[1:])


def test_freed_and_foreign(rig: Rig, module: gpu_stream.Module) -> None:
    scale, memory = module.function("scale"), rig.memory(64)
    address, rest = memory.address, (c_int64(1), c_float(1))
    rig.driver.free(address, rig.stream.handle)
    memory.address = 0
    with refused("freed"):
        rig.launch(scale, c_uint64(address), *rest)
    with refused("freed"):
        rig.driver.fill8(address, 0, 1, rig.stream.handle)
    with refused("freed twice"):
        rig.driver.free(address, rig.stream.handle)
    rig.stream.wait()
    with refused("no memory"):
        rig.driver.fill8(address, 0, 1, rig.stream.handle)
    kept = rig.memory(64)
    for stream in (12345, scale, module._handle):
        with refused("no stream"):
            rig.launch(scale, c_uint64(kept.address), *rest, stream=stream)


def test_an_unloaded_module_has_no_kernels(rig: Rig) -> None:
    module = gpu_stream.Module(rig.stream, rig.backend.compile_text(TEXT, "scale"))
    scale, memory = module.function("scale"), rig.memory(64)
    with refused("no such kernel"):
        module.function("other")
    rig.driver.module_unload(module._handle)
    with refused("no kernel of a module"):
        rig.launch(scale, c_uint64(memory.address), c_int64(1), c_float(1))
    with refused("no such module"):
        module.function("scale")
    module._handle = c_void_p()
    with refused("no image"):
        gpu_stream.Module(rig.stream, b"\x7fELF" + bytes(100))


def test_sizes(rig: Rig, module: gpu_stream.Module) -> None:
    scale, memory, host = module.function("scale"), rig.memory(64), np.zeros(65, np.uint8)
    arguments = (c_uint64(memory.address), c_int64(1), c_float(1))
    for block in ((1025, 1, 1), (0, 1, 1), (1, 1, 65), (32, 64, 1)):
        with refused("block|nothing"):
            rig.launch(scale, *arguments, block=block)
    with refused("more threads"):
        rig.launch(scale, *arguments, block=(512, 1, 1))
    for grid in ((2**31, 1, 1), (1, 65536, 1), (1, 1, 65536), (0, 1, 1)):
        with refused("grid"):
            rig.launch(scale, *arguments, grid=grid)
    for call, to, given in (
        ("upload", memory.address, host.ctypes.data),
        ("download", host.ctypes.data, memory.address),
    ):
        with refused("more bytes"):
            getattr(rig.driver, call)(to, given, 65, rig.stream.handle)
        with refused("no memory"):
            getattr(rig.driver, call)(given, to, 8, rig.stream.handle)
    with refused("more bytes"):
        rig.driver.fill32(memory.address, 0, 17, rig.stream.handle)
    with refused("onto itself"):
        rig.driver.copy(memory.address + 8, memory.address, 16, rig.stream.handle)


def test_hip_counts_the_threads_of_a_grid(rig: Rig, module: gpu_stream.Module) -> None:
    """The 32-bit cap: a grid has less than 2**32 threads, and the backend cuts longer loops."""
    if rig.kind != "hip":
        assert rig.stream.most_groups == 2**31 - 1
        return
    scale, memory = module.function("scale"), rig.memory(64)
    with refused(r"2\*\*32 threads"):
        rig.launch(scale, c_uint64(memory.address), c_int64(1), c_float(1), grid=(2**24, 1, 1))
    assert rig.stream.most_groups * 1024 < 2**32


def test_a_context_is_needed(rig: Rig) -> None:
    if rig.kind == "hip":
        pytest.skip("HIP has a current device on every thread")
    rig.driver.set_current(None)
    with refused("no context"):
        rig.driver.stream_wait(rig.stream.handle)
    with refused("no such context"):
        rig.driver.set_current(1234)
    rig.stream.begin()
    rig.driver.stream_wait(rig.stream.handle)


@pytest.mark.parametrize(("kernel", "words"), [("stray", "not its"), ("apart", "different places")])
def test_a_kernel_that_goes_wrong(rig: Rig, module: gpu_stream.Module, kernel: str, words: str) -> None:
    """As after a real fault, nothing works any more in this process: only the rig can start anew."""
    memory = rig.memory(64)
    rig.launch(module.function(kernel), c_uint64(memory.address))
    with refused(words):
        rig.stream.wait()
    with refused(words):
        rig.memory(8)
    rig.library.gpu_reset()
    assert rig.memory(8).address


# ------------------------------------------------------------------------------------------------------ planted faults


def values_of(rig: Rig) -> None:
    """A small program, checked: two arrays, a scalar, two loops, results read back."""

    @tack.kernel
    def program(a, out, k):
        for i in range(a.shape[0]):
            out[i] = a[i] * k
        for i in range(out.shape[0]):
            out[i] += i

    given = np.arange(COUNT, dtype=np.int32)
    with rig.device:
        out = tack.zeros(COUNT, dtype=tack.i32)
        program(tack.asarray(given), out, 7)
        assert out.numpy().tolist() == [8 * i for i in range(COUNT)]


def far_index(rig: Rig) -> None:
    """An index past 2**32: of each launch only the groups at the ends run."""

    @tack.kernel
    def far(out, n):
        for i in range(n):
            if i >= n - 4:
                out[i - (n - 4)] = i

    count = 2**32 + 10 * 1024
    rig.ends.value = 16
    with rig.device:
        out = tack.zeros(4, dtype=tack.i64)
        far(out, count)
        assert out.numpy().tolist() == [count - 4 + i for i in range(4)]


Plant = Callable[[Rig, pytest.MonkeyPatch], None]


def through_python(patch: pytest.MonkeyPatch) -> None:
    """Launches that a patched method sees."""
    patch.setattr(gpu_stream.Stream, "native", lambda *_: None)


def shifted_arguments(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    through_python(patch)
    launch = gpu_stream.Stream.launch
    patch.setattr(gpu_stream.Stream, "launch", lambda self, f, v, *sizes: launch(self, f, [*v[1:], v[0]], *sizes))


def swapped_arrays(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    through_python(patch)
    launch = gpu_stream.Stream.launch
    patch.setattr(gpu_stream.Stream, "launch", lambda self, f, v, *sizes: launch(self, f, [v[1], v[0], *v[2:]], *sizes))


def a_group_too_few(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    through_python(patch)
    launch = gpu_stream.Stream.launch
    patch.setattr(gpu_stream.Stream, "launch", lambda self, f, v, n, g: launch(self, f, v, n - 1 or 1, max(1, g - 1)))


def no_waiting(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rig.driver, "stream_wait", lambda handle: None, raising=False)


def freed_too_early(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    allocate = type(rig.backend).allocate

    def early(self: Any, nbytes: int) -> tuple[int, Any]:
        address, memory = allocate(self, nbytes)
        rig.driver.free(address, rig.stream.handle)
        memory.address = 0
        return address, memory

    patch.setattr(type(rig.backend), "allocate", early)


def half_a_copy(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    upload = rig.driver.upload
    patch.setattr(rig.driver, "upload", lambda to, given, n, stream: upload(to, given, n // 2, stream))


def too_long_a_copy(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    download = rig.driver.download
    patch.setattr(rig.driver, "download", lambda to, given, n, stream: download(to, given, n + 4, stream))


def another_stream(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    through_python(patch)
    other = c_void_p()
    rig.driver.stream_create(byref(other), 1)
    launch = rig.driver.launch
    patch.setattr(rig.driver, "launch", lambda *given: launch(*given[:8], other, *given[9:]))


def index_of_32_bits(rig: Rig, patch: pytest.MonkeyPatch) -> None:
    compile_text = type(rig.backend).compile_text

    def narrow(self: Any, source: str, name: str) -> bytes:
        found, count = re.subn(
            r"const long long (\w+) = (first [^;]*);", r"const long long \1 = (unsigned)(\2);", source
        )
        assert count
        return compile_text(self, found, name)

    patch.setattr(type(rig.backend), "compile_text", narrow)


FAULTS: list[tuple[Callable[[Rig], None], Plant]] = [
    (values_of, shifted_arguments),
    (values_of, swapped_arrays),
    (values_of, a_group_too_few),
    (values_of, no_waiting),
    (values_of, freed_too_early),
    (values_of, half_a_copy),
    (values_of, too_long_a_copy),
    (values_of, another_stream),
    (far_index, index_of_32_bits),
]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("program", [values_of, far_index])
def test_without_a_fault(rig: Rig, program: Callable[[Rig], None], native: bool, uncached, monkeypatch) -> None:
    if not native:
        through_python(monkeypatch)
    program(rig)


@pytest.mark.parametrize(("program", "plant"), FAULTS, ids=[plant.__name__ for _, plant in FAULTS])
def test_planted_faults_are_caught(rig: Rig, program: Any, plant: Plant, uncached, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        plant(rig, patch)
        with pytest.raises((AssertionError, GpuError)):
            program(rig)
    rig.library.gpu_reset()  # a copy that nobody waited for would write to an array that is gone
    rig.ends.value = 0
    values_of(rig)


# ---------------------------------------------------------------------------------------------------------- failures


def two_loops() -> Any:
    @tack.kernel
    def two(a):
        for i in range(a.shape[0]):
            a[i] = i
        for i in range(a.shape[0]):
            a[i] += 1

    return two


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("after", [0, 1])
def test_a_refused_launch(rig: Rig, after: int, native: bool, uncached, monkeypatch) -> None:
    """The exception names kernel, device and the driver's error; nothing is leaked, and the next call works."""
    if not native:
        through_python(monkeypatch)
    two = two_loops()
    with rig.device:
        a = tack.zeros(COUNT, dtype=tack.i32)
        two(a)
        before = rig.live()
        rig.fail("launch", LAUNCH_FAILED, after)
        with pytest.raises(GpuError, match=rf"(?s)kernel `two`.*{rig.kind}.*{rig.driver.names['launch']}"):
            two(a)
            tack.synchronize()
            two(a)
        assert rig.live() == before
        two(a)
        assert a.numpy().tolist() == list(range(1, COUNT + 1))


def test_a_launch_that_is_killed(rig: Rig, uncached) -> None:
    """One group has run: the error comes from whatever waits, in the driver's own words."""
    two = two_loops()
    with rig.device:
        a = tack.zeros(COUNT, dtype=tack.i32)
        tack.synchronize()
        rig.groups_left.value = 1
        with pytest.raises(GpuError, match=r"(?i)launch.?fail"):
            two(a)
            a.numpy()
        rig.library.gpu_reset()
        two(a)
        assert a.numpy().tolist() == list(range(1, COUNT + 1))


def test_out_of_memory(rig: Rig) -> None:
    with rig.device:
        before = rig.live()
        with pytest.raises(MemoryError, match=rig.driver.names["allocate"]):
            tack.zeros(2**40, dtype=tack.u8)
        rig.fail("allocate", OUT_OF_MEMORY)
        with pytest.raises(MemoryError):
            tack.zeros(4)
        assert rig.live() == before
        assert tack.ones(4).numpy().tolist() == [1] * 4


def test_a_text_that_does_not_compile(rig: Rig, uncached, monkeypatch) -> None:
    """The compiler's words and the numbered text; the same kernel works once the generator does."""
    two, compile_text = two_loops(), type(rig.backend).compile_text
    with rig.device:
        a = tack.zeros(COUNT, dtype=tack.i32)
        before = rig.live()
        with monkeypatch.context() as patch:
            broken = "\nint x = no_such_name;\n"
            patch.setattr(type(rig.backend), "compile_text", lambda self, _, name: compile_text(self, broken, name))
            with pytest.raises(GpuError, match=r"(?s)kernel `two`.*no_such_name.*    2  int x"):
                two(a)
        assert rig.live() == before
        two(a)
        assert a.numpy().tolist() == list(range(1, COUNT + 1))


def test_nothing_is_leaked(rig: Rig, uncached) -> None:
    """Arrays, kernels and results come and go; memory and modules are what they were."""

    def once() -> None:
        two = two_loops()
        with rig.device:
            a = tack.zeros(COUNT, dtype=tack.i32)
            two(a)
            assert int(tack.ones(5).sum()) == 5

    once()
    before = rig.live()
    for _ in range(3):
        once()
        with rig.device:
            for size in range(1, 200):
                tack.zeros(size)
    assert rig.live() == before


def test_freed_memory_is_no_mapping(rig: Rig) -> None:
    """A process has 65,530 mappings: the ones of freed blocks must become one with their surroundings."""

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count("\n")

    rig.memory(64)
    rig.live()
    before = mappings()
    for _ in range(200):
        rig.memory(64)
    rig.live()
    assert mappings() < before + 100


def test_devices_have_memory_of_their_own(rig: Rig) -> None:
    """The second device of a kind: its arrays are its own."""
    rig.library.gpu_set_devices(2)
    try:
        assert f"{rig.kind}:1" in tack.devices()
        second = tack.device(f"{rig.kind}:1")
        two = two_loops()
        with second:
            there = tack.zeros(COUNT, dtype=tack.i32)
            two(there)
            assert there.numpy().tolist() == list(range(1, COUNT + 1))
        rig.stream.begin()
        with refused("another device"):
            rig.driver.fill8(there._data, 0, 1, rig.stream.handle)
        values_of(rig)
    finally:
        rig.library.gpu_set_devices(1)


# ------------------------------------------------------------------------------------------------ undefined behaviour


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("out[0] = a + 2147483647;", "add_overflow"),
        ("out[0] = -2147483647 - 1 - a;", "sub_overflow"),
        ("out[0] = (a << 16) * (a << 16);", "mul_overflow"),
        ("out[0] = 1 << (a + 31);", "shift_out_of_bounds"),
        ("out[0] = (int)((float)a * 3e9f);", "float_cast_overflow"),
        ("int few[2] = {1, 2}; out[0] = few[a + 1];", "out_of_bounds"),
        ("out[0] = (int)((unsigned)a + 2147483647u);", ""),
    ],
)
def test_undefined_behaviour_is_noted(rig: Rig, statement: str, word: str) -> None:
    """Also where the number that comes out is the wanted one; every test on a rig asks for the note."""
    text = f'extern "C" __global__ __launch_bounds__(32) void k(int* out, int a) {{\n    {statement}\n}}\n'
    module = gpu_stream.Module(rig.stream, rig.backend.compile_text(text, "k"))
    memory = rig.memory(64)
    device_rig.misuse(rig.device)
    rig.launch(module.function("k"), c_uint64(memory.address), c_int(1), block=(1, 1, 1))
    rig.stream.wait()
    noted = device_rig.misuse(rig.device)
    assert (f"{word}, at line 2" in noted) if word else not noted
