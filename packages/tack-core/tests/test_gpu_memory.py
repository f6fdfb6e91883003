"""Memory, streams and calls of the devices with a `GpuDriver`: "cuda" and "hip", real ones or those of the rigs.

A rig's streams do nothing until something waits for them, so an order that was not asked for shows. Oracles: NumPy on
the same bytes. Rules CALL-1, CALL-3, MEM-*, PAR-7.
"""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tack
from rigs import device_rig, other_process
from tack.codegen.gpu_launcher_ir import MOST_PENDING
from tack.lang.array import Array
from tack.lang.types import DTYPES
from tack.runtime import dlpack, gpu_memory, native_launch
from tack.runtime.gpu_backend import GpuBackend
from tack.runtime.gpu_memory import Event

NAMES = [name for name in tack.devices() if name in ("cuda", "hip")]
if not NAMES:
    pytest.skip("no CUDA or HIP device, and no rig of one", allow_module_level=True)


@pytest.fixture(params=NAMES)
def gpu(request: pytest.FixtureRequest) -> Iterator[GpuBackend]:
    with tack.device(request.param) as device:
        assert isinstance(device.backend, GpuBackend)
        yield device.backend


@tack.kernel
def add_to(x, n):
    for i in range(x.size):
        x[i] += n


@tack.kernel
def add_twice(x, n):
    for i in range(x.size):
        x[i] += n
    for i in range(x.size):
        x[i] += n
    return x[0]


# --- filling and copying ---


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("value", [0, 1, 77, 2**40 + 2**8 + 1], ids=str)
def test_filling_on_the_device(gpu, dtype, value):
    """Patterns of one, two, four and more bytes, also at an address that is not aligned to a larger pattern."""
    for size in (0, 1, 3, 1000, 70_001):
        with np.errstate(over="ignore"):
            want = np.full(
                size, np.array(value % 2**64).astype(dtype.numpy) if dtype.kind != "f" else value, dtype.numpy
            )
        assert (tack.full(size, want[0] if size else 0, dtype).numpy() == want).all()
    raw = tack.zeros(64, tack.u8)
    cell = np.array([value % 100 + 1], dtype.numpy)
    gpu.fill(raw._data + dtype.itemsize, cell, 3)
    want = np.zeros(64, np.uint8)
    want[dtype.itemsize : 4 * dtype.itemsize] = np.tile(cell, 3).view(np.uint8)
    assert (raw.numpy() == want).all()


def test_filling_with_vectors(gpu):
    assert (tack.full(5001, (1, 2, 3), tack.vec3).numpy() == [1, 2, 3]).all()
    assert (tack.full((7, 9), 2.5, tack.vec2).numpy() == 2.5).all()


@pytest.mark.parametrize("shift", [0, 1, 3, 64, 500])
@pytest.mark.parametrize("forward", [True, False])
def test_copies_that_overlap(gpu, shift, forward):
    values = np.arange(1000, dtype=np.uint16)
    a = tack.asarray(values)
    source, target = (0, shift) if forward else (shift, 0)
    gpu.copy(a._data + 2 * target, a._data + 2 * source, 2 * (1000 - shift))
    want = values.copy()
    want[target : target + 1000 - shift] = values[source : source + 1000 - shift]
    assert a.numpy().tolist() == want.tolist()


def test_copies_stay_on_the_device(gpu, monkeypatch):
    a = tack.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    b = tack.zeros((3, 4))

    def refuse(*_: object) -> None:
        raise AssertionError("through the host")

    with monkeypatch.context() as patch:
        patch.setattr(gpu, "download", refuse)
        patch.setattr(gpu, "upload", refuse)
        copied = a.copy()
        tack.copyto(b, copied)
        copied.fill(3)
        tack.zeros(4).fill(2)
    assert b.numpy().tolist() == a.numpy().tolist() and (copied.numpy() == 3).all()
    with pytest.raises(ValueError, match=r"shape \(3, 4\), the target \(4, 3\)"):
        tack.copyto(b.reshape(4, 3), a)


@pytest.fixture
def staged(gpu: GpuBackend, monkeypatch: pytest.MonkeyPatch) -> GpuBackend:
    """Copies of 1000 bytes and more are shared between three threads, in pieces of 300."""
    for name, value in (("STAGED_FROM", 1000), ("STAGE_BYTES", 300), ("LANES", 3)):
        monkeypatch.setattr(gpu_memory, name, value)
    monkeypatch.setattr(gpu._stream, "_staging", gpu_memory.Staging(gpu._stream))
    return gpu


@pytest.mark.parametrize("size", [999, 1000, 1199, 1200, 1201, 1801, 5003])
def test_large_copies_through_page_locked_buffers(staged, size):
    values = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    given = values.copy()
    a = tack.asarray(given)
    given.fill(7)  # it has been read
    add_to(a, 1)
    assert np.array_equal(a.numpy(), values + np.uint8(1))
    assert bool(staged._stream._staging._lanes) == (size >= 1000)


def test_large_copies_from_several_threads(staged):
    """Only one goes through the buffers at a time; the others must not wait for it, nor get its bytes."""
    failures: list[int] = []

    def run(seed: int) -> None:
        values = np.random.default_rng(seed).integers(0, 2**31, 3000, np.int32)
        with tack.device(staged.name):
            for _ in range(20):
                if not np.array_equal(tack.asarray(values).numpy(), values):
                    failures.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# --- results and native calls ---


def test_results_of_calls_at_once_do_not_meet(gpu):
    """CALL-2, CALL-3: each call has a cell of its own; a call of two loops is not split by another."""
    x = tack.zeros(3, tack.i32)
    failures: list[tuple[int, int]] = []

    def run() -> None:
        before = 0
        for _ in range(40):
            found = add_twice(x, 1)
            if found <= before or found % 2:
                failures.append((before, found))
            before = found

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and x.numpy().tolist() == [320] * 3


def test_threads_launch_natively_with_their_own_scalars(gpu):
    """CALL-3: eight threads, different numbers, all of them arrive."""

    @tack.kernel
    def store(x, at, value):
        for i in range(1):
            x[at] = value

    x = tack.zeros(8 * 50, tack.i64)
    for _ in range(10):
        store(x, 0, 0)
    assert store._entry, "the native entry has taken over"

    def run(number: int) -> None:
        for k in range(50):
            store(x, 50 * number + k, 1000 * number + k)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.numpy().tolist() == [1000 * number + k for number in range(8) for k in range(50)]


def test_calls_wait_before_the_queue_is_full(gpu):
    """The native launcher, which keeps the GIL, hands over to Python, which waits without it."""
    x, waits = tack.zeros(3, tack.i32), []
    for _ in range(10):
        add_to(x, 1)
    gpu.synchronize()
    real = gpu._stream.driver.event_wait

    def wait(event: object) -> None:
        waits.append(event)
        real(event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu._stream.driver, "event_wait", wait)
        for _ in range(2000):
            add_to(x, 1)
            assert gpu._stream._pending.value <= MOST_PENDING
    assert len(waits) == 2000 // MOST_PENDING and x.numpy().tolist() == [2010] * 3


def test_without_llvm_calls_take_the_path_through_python(gpu, monkeypatch):
    """The same answers: loops in order, a result, bounds that fail."""
    monkeypatch.setattr(native_launch, "launcher", lambda: None)

    @tack.kernel
    def both(x, n):
        for i in range(n):
            x[i] += 1
        for i in range(x.size // n):
            x[i] += 10
        return x[0] * n

    x = tack.zeros(6, tack.i32)
    found = [both(x, n) for n in (2, 3, 6) for _ in range(6)]
    assert not both._entry and both._state.lowerings[0].rows
    assert found == [11 * (k + 1) * (2, 3, 6)[k // 6] for k in range(18)]
    with pytest.raises(ValueError, match="zero"):
        both(x, 0)


def test_a_failing_launch_names_kernel_and_loop(gpu, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(gpu._stream.driver, "launch", failing(gpu))
        with pytest.raises(
            type(gpu._stream.driver).error, match=r"kernel `add_twice` .*loop 1 of 2, 3 iterations.*planted"
        ):
            add_twice(tack.zeros(3, tack.i16), 1)


def failing(gpu: GpuBackend) -> Any:
    def launch(*_: object) -> None:
        raise gpu._stream.driver.error("planted")

    return launch


# --- other libraries ---


class ForeignStream:
    """A stream that is in no order with ours, as another library's may be."""

    def __init__(self, gpu: GpuBackend) -> None:
        self.driver, self.handle = gpu._stream.driver, ctypes.c_void_p()
        gpu._stream.begin()
        self.driver.stream_create(ctypes.byref(self.handle), 1)

    @property
    def number(self) -> int:
        return self.handle.value or 0


class ForeignArray:
    """An exporter of the CUDA array interface, with what it does in its own stream."""

    def __init__(self, array: tack.Array, stream: ForeignStream, **more: Any) -> None:
        self.array, self.stream = array, stream
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": array.shape,
            "typestr": array.dtype.numpy.str,
            "data": (array._data, False),
            "stream": stream.number,
        } | more

    def fill(self, value: int) -> None:
        self.stream.driver.fill32(self.array._data, value, self.array.size, self.stream.handle)

    def read(self) -> list[int]:
        found = np.zeros(self.array.shape, self.array.dtype.numpy)
        self.stream.driver.download(found.ctypes.data, self.array._data, found.nbytes, self.stream.handle)
        self.stream.driver.stream_wait(self.stream.handle)
        return found.tolist()


def test_a_call_is_in_the_order_of_the_arguments_stream(gpu):
    """CALL-1: after what the other stream has, before what it gets next."""
    if "cuda_array_interface" not in gpu.capabilities:
        pytest.skip(f"device {gpu.name} has no CUDA array interface")
    foreign = ForeignArray(tack.zeros(5, tack.i32), ForeignStream(gpu))
    for value in (3, 40):
        gpu.synchronize()
        foreign.fill(value)
        add_to(foreign, 2)
        assert foreign.read() == [value + 2] * 5
    for wrong in ({"strides": (8,)}, {"typestr": ">i4"}, {"mask": 1}):
        with pytest.raises((ValueError, TypeError), match=r"arrays|C-contiguous"):
            add_to(ForeignArray(foreign.array, foreign.stream, **wrong), 2)
    with pytest.raises(ValueError, match=r"aligned to their 4-byte elements"):
        add_to(ForeignArray(foreign.array, foreign.stream, data=(foreign.array._data + 2, False), shape=(4,)), 2)


def test_dlpack_out_is_in_the_order_of_the_consumers_stream(gpu):
    """PAR-7"""
    stream, a = ForeignStream(gpu), tack.zeros(5, tack.i32)
    foreign = ForeignArray(a, stream)
    add_to(a, 9)
    capsule = a.__dlpack__(stream=stream.number)
    assert foreign.read() == [9] * 5 and "dltensor" in repr(capsule)
    assert a.__dlpack_device__() == gpu.dlpack_device == (dlpack.CUDA if gpu.name == "cuda" else dlpack.ROCM, 0)


class Exporter:
    """A DLPack exporter that hands over a Tack array's memory as another library would."""

    def __init__(self, array: tack.Array, old: bool = False) -> None:
        self.array, self.old, self.asked = array, old, []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        if self.old and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("old", [False, True], ids=["versioned", "old"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3)], ids=str)
def test_dlpack_in_shares(gpu, dtype, shape, old):
    a = tack.ones(shape, dtype)
    exporter = Exporter(a, old)
    b = tack.from_dlpack(exporter)
    assert (b.shape, b.dtype, b._data) == (shape, dtype, a._data)
    assert exporter.asked[-1]["stream"] == gpu.dlpack_stream, "the exporter makes our stream wait"
    b.fill(3)
    assert (a.numpy() == 3).all()


def given_out() -> int:
    """How many capsules keep memory."""
    return sum(isinstance(found, dlpack._Lent) for found in gc.get_objects())


def test_dlpack_keeps_memory_as_long_as_somebody_has_it(gpu):
    held = given_out()
    b = tack.from_dlpack(Exporter(tack.full(100, 5, tack.i32)))
    assert given_out() == held + 1
    tack.full(100, 6, tack.i32)
    assert (b.numpy() == 5).all()
    del b
    gc.collect()
    assert given_out() == held
    capsule = tack.zeros(3).__dlpack__()  # that nobody takes
    assert given_out() == held + 1
    del capsule
    assert given_out() == held


def test_a_consumer_that_refuses_our_memory_says_so_and_keeps_nothing(gpu):
    held = given_out()
    with pytest.raises((RuntimeError, BufferError), match="Unsupported device"):
        np.from_dlpack(tack.zeros(3))
    assert given_out() == held


def test_dlpack_of_read_only_arrays_and_copies(gpu):
    a = tack.asarray(np.arange(4))
    readonly = tack.Array(a.dtype, a.shape, a.device, a._data, a, readonly=True)
    with pytest.raises(BufferError, match=r"read-only.*copy"):
        readonly.__dlpack__()
    b = tack.from_dlpack(Exporter(readonly))
    with pytest.raises(ValueError, match="read-only"):
        b.fill(0)
    c = tack.from_dlpack(Wayward(gpu, a.__dlpack__(copy=True, max_version=(1, 0))))
    c.fill(9)
    assert a.numpy().tolist() == [0, 1, 2, 3]
    assert np.from_dlpack(ToHost(a)).tolist() == [0, 1, 2, 3]


class ToHost:
    """What NumPy asks of an exporter when it wants host memory."""

    def __init__(self, array: tack.Array) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(dl_device=(1, 0), max_version=options.get("max_version"))


class Wayward:
    """An exporter of this device that hands over whatever it is given, or raises it."""

    def __init__(self, gpu: GpuBackend, result: object, where: tuple[int, int] | None = None) -> None:
        self.result, self.where = result, where or gpu.dlpack_device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.where

    def __dlpack__(self, **options: object) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_dlpack_refusals(gpu):
    a = tack.zeros((3, 4))
    capsule = a.__dlpack__()
    assert tack.from_dlpack(Wayward(gpu, capsule)).shape == (3, 4)
    for what in (capsule, 5, RuntimeError("sulks"), BufferError("sulks")):
        with pytest.raises(ValueError, match="which this Wayward does not hand over"):
            tack.from_dlpack(Wayward(gpu, what))
    with pytest.raises(ValueError, match=r"not of DLPack's device \(1, 0\): use tack\.asarray"):
        tack.from_dlpack(np.zeros(3))
    with pytest.raises(ValueError, match=r"not of DLPack's device"):
        tack.from_dlpack(Wayward(gpu, a.__dlpack__(), (gpu.dlpack_device[0], 7)))
    misaligned = Array(tack.f32, (3,), tack.device(gpu.name), a._data + 1, a)
    with pytest.raises(ValueError, match=r"aligned to their 4-byte elements"):
        tack.from_dlpack(Exporter(misaligned))
    with pytest.raises(BufferError, match="as a copy only"):
        a.__dlpack__(dl_device=(1, 0), copy=False)
    if gpu.name == "cuda":
        with pytest.raises(BufferError, match="stream 0 is ambiguous"):
            a.__dlpack__(stream=0)


# --- events, and what is left behind ---


def test_events(gpu):
    """Of the device's own clock; no time is asserted, but that it does not run backwards."""
    x = tack.zeros(1000)
    start = tack.Event()
    add_to(x, 1.0)
    middle = tack.Event()
    add_to(x, 1.0)
    end = tack.Event(gpu.name)
    assert end.seconds_since(start) >= middle.seconds_since(start) >= 0.0
    with tack.device("reference"), pytest.raises(ValueError, match=r"reference.* no common clock"):
        tack.Event().seconds_since(start)
    assert tack.Event("reference").seconds_since(tack.Event("reference")) <= 0.0


def test_no_array_leaves_memory_behind(gpu, monkeypatch):
    """Every allocation is freed once, pinned cells come back, and events go."""
    driver, counts = gpu._stream.driver, {"allocate": 0, "free": 0, "event_create": 0, "event_destroy": 0}

    def counted(name: str) -> Any:
        real = getattr(driver, name)

        def call(*arguments: object) -> None:
            counts[name] += 1
            real(*arguments)

        return call

    x = tack.zeros(3, tack.i32)
    add_twice(x, 1)
    gc.collect()  # what other tests left is freed before it is counted
    for name in counts:
        monkeypatch.setattr(driver, name, counted(name))
    pages = len(gpu._stream._cells._pages)
    for k in range(600):
        a = tack.full(k % 7, k, tack.i32)
        a.copy()
        add_twice(x, 1)
    Event(gpu._stream, timing=True)
    del a
    gc.collect()
    assert counts["allocate"] == counts["free"] >= 1200 and counts["event_create"] == counts["event_destroy"] >= 1
    assert len(gpu._stream._cells._pages) == pages and gpu_memory.CELL_BYTES >= 8


# --- several devices ---

TWO_DEVICES = """
import json, sys, threading
sys.path[:0] = json.load(sys.stdin)["path"]
from rigs import device_rig
device_rig.install()
for kind in ("cuda", "hip"):
    device_rig.library(kind).gpu_set_devices(2)
import numpy as np
import tack
from rigs import device_rig, other_process
from two_devices_kernel import add_to
for kind in ("cuda", "hip"):
    names = [name for name in tack.devices() if name.startswith(kind)]
    assert names == [kind, kind + ":1"], names
    arrays = [tack.zeros(1000, tack.i32, device=name) for name in names]
    assert [a.device.backend.dlpack_device[1] for a in arrays] == [0, 1]

    def run(a, n):
        for _ in range(50):
            add_to(a, n)

    threads = [threading.Thread(target=run, args=(a, n)) for a, n in zip(arrays * 2, (1, 20, 300, 4000))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [set(a.numpy().tolist()) for a in arrays] == [{50 * 301}, {50 * 4020}]
    there = tack.asarray(arrays[0], device=names[1])
    assert there.device.name == names[1] and there.numpy().tolist() == arrays[0].numpy().tolist()
    tack.copyto(arrays[0], arrays[1])
    assert set(arrays[0].numpy().tolist()) == {50 * 4020}
    try:
        tack.from_dlpack(arrays[1], device=names[0])
    except ValueError as error:
        assert "not of DLPack's device" in str(error)
    else:
        raise AssertionError("memory of another device was taken")
print("right")
"""
KERNEL = """
import tack
from rigs import device_rig, other_process

@tack.kernel
def add_to(x, n):
    for i in range(x.size):
        x[i] += n
"""


def test_two_devices_of_a_kind(tmp_path):
    """Each has its context, stream and memory; a thread works on either without saying which is current."""
    if device_rig.missing():
        pytest.skip(str(device_rig.missing()))
    if any(device_rig.has_hardware(kind) for kind in ("cuda", "hip")):
        pytest.skip("this machine has a GPU; rigs can be given a second one")
    (tmp_path / "two_devices_kernel.py").write_text(KERNEL)
    here = str(Path(__file__).parent)
    assert other_process.run(TWO_DEVICES, path=[here, str(tmp_path)]).strip() == "right"


FORK = """
import json, os, sys
sys.path[:0] = json.load(sys.stdin)["path"]
from rigs import device_rig
device_rig.install()
import tack
from two_devices_kernel import add_to
for kind in ("cuda", "hip"):
    x = tack.zeros(8, tack.i32, device=kind)
    for _ in range(20):
        add_to(x, 1)
    assert add_to._entry, "the native launcher has taken over"
    child = os.fork()
    if child == 0:
        for use in (lambda: add_to(x, 1), lambda: tack.zeros(3, device=kind), x.numpy, lambda: tack.Event(kind)):
            try:
                use()
            except RuntimeError as error:
                if "before this process was forked" not in str(error):
                    os._exit(1)
            else:
                os._exit(2)
        del x
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    add_to(x, 1)
    assert status == 0 and x.numpy().tolist() == [21] * 8, (status, x.numpy())
print("right")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_says_so_and_the_parent_goes_on(tmp_path):
    """CALL-4: for native launches too, which ask nobody for their process."""
    if device_rig.missing():
        pytest.skip(str(device_rig.missing()))
    if any(device_rig.has_hardware(kind) for kind in ("cuda", "hip")):
        pytest.skip("this machine has a GPU, so that no rig of its kind is loaded")
    (tmp_path / "two_devices_kernel.py").write_text(KERNEL)
    here = str(Path(__file__).parent)
    assert other_process.run(FORK, path=[here, str(tmp_path)]).strip() == "right"
