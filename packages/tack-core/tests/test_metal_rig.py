"""The Metal backend itself, on its rig: faults planted in it are found, errors are clear, nothing leaks.

What kernels compute on it is tested where every device's answer is. Rules CALL-1, MEM-1, MEM-3, FLT-1.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import mmap
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tack
from rigs import device_rig, metal_rig
from rigs.metal_rig import SWITCHES
from tack.codegen.msl_gen import MSLCodeGen
from tack.runtime import device as device_module
from tack.runtime import metal, metal_api, metal_queue
from tack.runtime.metal_api import MetalError
from tack.runtime.metal_queue import Commands, MetalQueue

HAS_RIG = device_rig.is_rig(tack.Device("metal"))
pytestmark = pytest.mark.skipif(not HAS_RIG, reason=device_rig.missing() or "this machine has Metal, and no rig")

FACTORS = itertools.count(3)


@pytest.fixture
def queue() -> Iterator[MetalQueue]:
    """The queue of the rig's device, which is current."""
    with tack.device("metal"):
        yield tack.current_device().backend._queue
    tack.device("metal").backend.synchronize()
    assert not (noted := metal_rig.misuse()), noted


@tack.kernel
def twice(a, b, s):
    for i in range(a.shape[0]):
        b[i] = a[i] * s
    for i in range(a.shape[0]):
        a[i] = b[i] + 1
    return a.shape[0] * 2


@tack.kernel
def count_up(a):
    for i in range(a.shape[0]):
        a[i] += 1


def probe() -> None:
    """One call with arrays, a scalar, two loops of which one needs the other's stores, and a result."""
    factor = next(FACTORS)  # another in each call: memory that is left from the last one must not do
    a, b = tack.asarray(np.arange(600, dtype=np.float32)), tack.zeros(600)
    assert twice(a, b, factor) == 1200
    wanted = np.arange(600, dtype=np.float32) * factor
    assert np.array_equal(b.numpy(), wanted) and np.array_equal(a.numpy(), wanted + 1)
    assert a.max() == 599 * factor + 1 and tack.zeros(5).numpy().tolist() == [0] * 5
    count_up(a)
    b = a.numpy()
    assert np.array_equal(b, wanted + 2)
    count_up(tack.zeros(10))  # an array that nobody refers to when its call may still run
    gc.collect()
    tack.synchronize()
    assert not (noted := metal_rig.misuse()), noted


def live() -> tuple[int, int, int]:
    """Buffers, their bytes, and other objects that are still there."""
    with contextlib.suppress(MetalError):
        tack.synchronize()
    gc.collect()
    return len(SWITCHES.buffers), SWITCHES.live_bytes, len(SWITCHES.live)


# ---------------------------------------------------------------------------------------------------- planted faults


def changed_launch(change: Callable[..., tuple[Any, ...]]) -> Callable[[pytest.MonkeyPatch], None]:
    """A fault in what `MetalQueue.launch` is given."""
    launch = MetalQueue.launch

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(MetalQueue, "launch", lambda self, *given: launch(self, *change(*given)))

    return plant


def wrong_index(patch: pytest.MonkeyPatch) -> None:
    bind = metal_rig.Encoder.setBytes_length_atIndex_
    patch.setattr(
        metal_rig.Encoder, "setBytes_length_atIndex_", lambda self, data, n, index: bind(self, data, n, index + 1)
    )


def no_wait_before_a_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetalQueue, "wait", lambda self: self.flush())


def not_declared_resident(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commands, "use", lambda self, memory: self.memories.add(memory))


def freed_while_in_use(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Commands, "use", lambda self, memory: self.encoder.useResource_usage_(memory.buffer, 3))


def memory_not_zeroed(patch: pytest.MonkeyPatch) -> None:
    allocate = MetalQueue._known

    def poisoned(self: MetalQueue, memory: Any) -> Any:
        memory.view[:] = metal_rig.POISON
        return allocate(self, memory)

    patch.setattr(MetalQueue, "_known", poisoned)


def address_of_the_host(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MetalQueue, "resolve", lambda self, address: address.to_bytes(8, "little"))


def encoder_left_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metal_rig.Encoder, "endEncoding", lambda self: None)


def committed_twice(patch: pytest.MonkeyPatch) -> None:
    commit = metal_rig.CommandBuffer.commit

    def both(self: Any) -> None:
        commit(self)
        commit(self)

    patch.setattr(metal_rig.CommandBuffer, "commit", both)


def not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metal_rig.CommandBuffer, "commit", lambda self: None)


def no_pool(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metal_queue, "pool", contextlib.nullcontext)


FAULTS = {
    "argument off by one": changed_launch(lambda f, values, *n: (f, [values[0], *values], *n)),
    "arguments exchanged": changed_launch(lambda f, values, *n: (f, [values[1], values[0], *values[2:]], *n)),
    "argument not set": changed_launch(lambda f, values, *n: (f, values[:-1], *n)),
    "groups too large": changed_launch(lambda f, values, groups, group: (f, values, groups, 2 * group)),
    "a group too few": changed_launch(lambda f, values, groups, group: (f, values, max(1, groups - 1), group)),
    "wrong index": wrong_index,
    "no wait before a read": no_wait_before_a_read,
    "not declared resident": not_declared_resident,
    "freed while in use": freed_while_in_use,
    "memory not zeroed": memory_not_zeroed,
    "address of the host": address_of_the_host,
    "encoder left open": encoder_left_open,
    "committed twice": committed_twice,
    "not committed": not_committed,
    "no autorelease pool": no_pool,
}


def test_the_probe_passes_without_a_fault(queue: MetalQueue) -> None:
    for _ in range(3):
        probe()


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Each makes the probe fail: by numbers, by an error, or by what the rig refuses."""
    probe()
    with monkeypatch.context() as patch:
        FAULTS[name](patch)
        with pytest.raises((AssertionError, MetalError, RuntimeError)):
            probe()
        queue._recorded.clear()
    while queue._queue.committed:  # what a broken backend left
        queue._queue.run_one()
    queue._sent.clear()
    metal_rig.misuse()
    gc.collect()
    metal_rig.misuse()
    probe()


class NarrowIndex(MSLCodeGen):
    """The planted fault: a thread's iteration in 32 bits."""

    def _flat_index(self) -> str:
        name = super()._flat_index()
        self.b.lines[-1] = self.b.lines[-1].replace(" = ", " = (long)(uint)(").replace(";", ");")
        return name


@pytest.mark.parametrize("narrow", [False, True])
def test_iterations_beyond_32_bits(queue: MetalQueue, narrow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOOP-12: more than 2**32 iterations, in pieces; a 32-bit index, planted, gives wrong numbers."""
    if narrow:
        monkeypatch.setattr(metal, "MSLCodeGen", NarrowIndex)

    @tack.kernel
    def far(out, n):
        for i in range(n):
            if i >= 4294967296:
                out[i - 4294967296] = i

    out = tack.zeros(300, tack.i64)
    with SWITCHES.running_only_the_ends(2):
        far(out, 2**32 + 300)
        found = out.numpy()
    assert np.array_equal(found, np.arange(300) + 2**32) != narrow


def test_fast_math_is_off(queue: MetalQueue) -> None:
    """FLT-1: kernels and reductions alike; Metal's default is on."""

    @tack.kernel
    def own(a):
        for i in range(a.shape[0]):
            a[i] = 12345

    SWITCHES.fast_math.clear()
    tack.current_device().backend._reductions._kernels.clear()
    a = tack.zeros(3)
    own(a)
    assert a.sum() == 3 * 12345
    assert SWITCHES.fast_math and not any(SWITCHES.fast_math)
    assert metal_rig.MTLCompileOptions.alloc().init().fast_math  # what would be without asking


# ------------------------------------------------------------------------------------------------- failures half-way


def test_a_launch_that_is_killed(queue: MetalQueue) -> None:
    """The next read says which kernel failed, and why; nothing leaks, and the next call works."""
    a = tack.zeros(5000)
    count_up(a)
    assert a[4999] == 1
    before = live()
    for _ in range(3):
        with SWITCHES.killing(2):
            count_up(a)
            with pytest.raises(MetalError, match=r"kernel `count_up_loop0` failed: .*Timeout"):
                a.numpy()
        with SWITCHES.killing(0), pytest.raises(MetalError, match=r"could not run on metal \(rig\).*Timeout"):
            twice(a, tack.zeros(5000), 2)  # it has a result, and so waits
    del _
    after = live()
    assert after[0] <= before[0] and after[2] <= before[2]
    probe()


def test_no_room(queue: MetalQueue) -> None:
    """MEM-1: a `MemoryError` with the size; memory that waits for calls to be over is used first."""
    before = live()
    with SWITCHES.limited(1000):
        with pytest.raises(MemoryError, match=r"an array of 4000 bytes on metal \(rig\): no room"):
            tack.zeros(1000)
        with pytest.raises(MemoryError, match="allows 8589934592 an array"):
            tack.zeros(1 << 40, tack.u8)
    assert live() == before
    with SWITCHES.limited(5000):
        for _ in range(3):
            count_up(tack.zeros(1000))  # nobody refers to it any more, but its call is not over
    probe()


def test_a_text_that_metal_rejects(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has Metal's words and the numbered text; the same kernel compiles afterwards."""

    @tack.kernel
    def fresh(a):
        for i in range(a.shape[0]):
            a[i] = 54321

    a = tack.zeros(3)
    before = live()
    monkeypatch.setattr(SWITCHES, "compiles", False)
    with pytest.raises(MetalError, match=r"(?s)kernel `fresh`.*program_source:1:1: error.*\n +1  #include <metal_st"):
        fresh(a)
    monkeypatch.setattr(SWITCHES, "compiles", True)
    assert live() == before
    fresh(a)
    assert a.numpy().tolist() == [54321] * 3


def test_pipelines_for_smaller_groups_are_refused(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    @tack.kernel
    def wide(a):
        for i in range(a.shape[0]):
            a[i] = 99

    monkeypatch.setattr(SWITCHES, "most_lanes", 64)
    with pytest.raises(MetalError, match="`wide_loop0` with 64 lanes a workgroup, not 256"):
        wide(tack.zeros(3))


def test_many_calls_before_a_read(queue: MetalQueue) -> None:
    """CALL-1: in order; a queue has room for 64 command buffers, and blocks nobody; what is over is let go."""
    a, before = tack.zeros(700), live()
    blocked = SWITCHES.blocked
    for _ in range(200):
        count_up(a)
    assert len(queue._sent) < 64 and SWITCHES.blocked == blocked
    assert a.numpy().tolist() == [200] * 700
    assert not queue._sent and live()[2] == before[2]


def test_arguments_that_are_too_long_to_travel_inline(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    probe()
    before = live()
    monkeypatch.setattr(metal_queue, "_INLINE_BYTES", 8)
    probe()
    assert live() == before
    monkeypatch.undo()
    names = [f"a{n}" for n in range(280)]
    lines = ["@tack.kernel", f"def k({', '.join(names)}):", "    for i in range(a0.shape[0]):", "        a0[i, 0] = 0"]
    lines += [f"        a0[i, 0] += {name}[i, 1]" for name in names[1:]]
    from typing_rig import module

    many = module("\n".join(lines) + "\n")["k"]
    arrays = [tack.asarray(np.full((2, 2), n, np.int32)) for n in range(280)]
    many(*arrays)
    assert arrays[0].numpy()[:, 0].tolist() == [sum(range(1, 280))] * 2


def test_several_threads(queue: MetalQueue) -> None:
    """CALL-*: each with its own arguments."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with tack.device("metal"):
                for _ in range(4):
                    probe()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_finalizer_that_launches(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """CALL-1: while a call is being encoded: it does not get between the parts of that call."""
    a, b, use = tack.zeros(300), tack.zeros(300), Commands.use

    def interrupted(self: Commands, memory: Any) -> None:
        use(self, memory)
        if memory is a._owner:
            monkeypatch.setattr(Commands, "use", use)
            count_up(b)
            assert b.numpy().tolist() == [1] * 300

    monkeypatch.setattr(Commands, "use", interrupted)
    twice(b, a, 3)
    assert a.numpy().tolist() == [3] * 300 and b.numpy().tolist() == [4] * 300


def test_no_room_for_arguments(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder has ended, so the process goes on; so does the next call."""
    a = tack.zeros(300)
    monkeypatch.setattr(metal_queue, "_INLINE_BYTES", 8)
    with SWITCHES.limited(0), pytest.raises(MetalError, match=r"`count_up`.*no room for \d+ bytes of arguments"):
        count_up(a)
    assert a.numpy().tolist() == [0] * 300
    count_up(a)
    assert a.numpy().tolist() == [1] * 300


def test_a_forked_child_is_refused(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    a = tack.zeros(3)
    monkeypatch.setattr(queue, "_forks", -1)
    for use in (lambda: count_up(a), a.numpy, lambda: tack.zeros(3)):
        with pytest.raises(MetalError, match="used before this process was forked"):
            use()


# ------------------------------------------------------------------------------------------------------------- memory


def pages(count: int, dtype: Any = np.float32) -> Any:
    """A NumPy array of whole pages."""
    return np.frombuffer(mmap.mmap(-1, count * mmap.PAGESIZE), dtype)


def test_numpy_views_share_the_memory(queue: MetalQueue) -> None:
    a = tack.zeros(1000)
    view = np.asarray(a)
    count_up(a)
    assert view.sum() == 0  # not yet
    tack.synchronize()
    assert view.tolist() == [1] * 1000
    view[3] = 7
    assert a[3] == 7 and a.sum() == 1006


def test_whole_pages_are_imported_without_a_copy(queue: MetalQueue) -> None:
    """A call with a NumPy array is over when it returns, since NumPy may read at once; an array of Tack's is queued."""
    values = pages(2)
    count_up(values)
    assert values.tolist() == [1] * values.size
    a = tack.from_dlpack(values)
    assert a.device.name == "metal" and a._data == values.ctypes.data
    count_up(a)
    assert values[0] == 1
    tack.synchronize()
    assert values.tolist() == [2] * values.size
    values[:] = 5
    assert a.numpy().tolist() == [5] * values.size and np.asarray(a).ctypes.data == values.ctypes.data
    del a
    before = live()
    count_up(values)
    assert live() == before and values[0] == 6


def test_imported_arrays_may_overlap(queue: MetalQueue) -> None:
    """MEM-3: the same pages twice, and a part of them that begins in the middle."""

    @tack.kernel
    def add(a, b):
        for i in range(b.shape[0]):
            a[i] += b[i]

    values = pages(3)
    values[:] = 1
    add(values, values)
    assert values.tolist() == [2] * values.size
    half = values[: values.size // 3]
    small = tack.from_dlpack(half)
    add(values, half)
    assert values[:3].tolist() == [4] * 3 and values[-1] == 2
    add(values, values[values.size // 3 :])
    assert values[0] == 6
    count_up(small)
    assert small[0] == values[0] == 7


def test_what_cannot_be_imported_is_refused(queue: MetalQueue) -> None:
    values = pages(2)
    frozen = values.view()
    frozen.flags.writeable = False
    for wrong in (values[1:], values[:-1], np.zeros(3, np.float32)[:2], frozen):
        with pytest.raises(ValueError, match=r"writable ones of whole pages: copy it there with tack.asarray"):
            count_up(wrong)


def test_a_copy_is_no_import(queue: MetalQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should PyObjC pass other memory than NumPy's, it is refused and not lost."""
    monkeypatch.setattr(SWITCHES, "copies", True)
    with pytest.raises(ValueError, match="copy it there"):
        count_up(pages(1))


def test_dlpack_out(queue: MetalQueue) -> None:
    a = tack.asarray(np.arange(5, dtype=np.int32))
    assert np.from_dlpack(a).tolist() == [0, 1, 2, 3, 4]


def test_f64_is_refused(queue: MetalQueue) -> None:
    @tack.kernel
    def wide(a):
        for i in range(a.shape[0]):
            a[i] = tack.f32(tack.f64(a[i]) / 3)

    with pytest.raises(TypeError, match="device metal has no f64"):
        wide(tack.zeros(3))
    with pytest.raises(TypeError, match="metal has no f64"):
        tack.zeros(3, tack.f64)


# ------------------------------------------------------------------------------------------------- whether it is there


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A process that has not looked for the device yet."""
    metal_api.find_device.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    metal_api.find_device.cache_clear()


def no_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys.modules["Metal"], "MTLCreateSystemDefaultDevice", lambda: None)


def old_gpu(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(metal_rig.Device, "supportsFamily_", lambda self, family: False)


def broken_module(patch: pytest.MonkeyPatch) -> None:
    patch.delattr(sys.modules["Metal"], "MTLCreateSystemDefaultDevice")


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (no_gpu, "Metal finds no GPU"),
        (old_gpu, "rig lacks Metal 3, which needs macOS 13"),
        (broken_module, "Metal cannot be used .AttributeError"),
    ],
)
def test_a_machine_without_the_device_says_why(unknown: pytest.MonkeyPatch, plant: Any, words: str) -> None:
    plant(unknown)
    assert "metal" not in tack.devices()
    with pytest.raises(ValueError, match=words):
        tack.device("metal")
    with pytest.raises(MetalError, match=words):
        metal.MetalBackend(0)


def test_pyobjc_that_is_not_installed(unknown: pytest.MonkeyPatch) -> None:
    unknown.delitem(sys.modules, "Metal")
    unknown.delitem(device_module._backends, "metal", raising=False)
    assert "metal" not in tack.devices()
    with pytest.raises(ImportError, match=r"needs Metal: install tack-core\[metal\]"):
        tack.device("metal")


def test_the_text_is_shown(queue: MetalQueue) -> None:
    text = tack.inspect(count_up, tack.zeros(3))["metal"]
    assert "kernel void count_up_loop0(constant count_up_loop0_arguments& arguments [[buffer(0)]]" in text
