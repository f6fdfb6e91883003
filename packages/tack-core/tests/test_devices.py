"""Devices as values, and which one is current (PAR-*, CALL-1)."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import tack
from rigs import device_rig
from rigs.far_memory import FarBackend, far_device, register
from tack.runtime import device as device_module

SOURCE = Path(__file__).resolve().parents[1] / "src"


@pytest.fixture
def restored_default() -> Iterator[None]:
    before = tack.current_device()
    yield
    tack.set_default_device(before)


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter whose environment has nothing of Tack but what is given, and the same drivers."""
    drivers = {name: value for name, value in os.environ.items() if name in ("RUSTICL_ENABLE", "POCL_CACHE_DIR")}
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import tack; {code}"],
        capture_output=True,
        text=True,
        env=drivers | environment,
        check=False,
    )


def test_devices_are_values():
    a, b = tack.device("reference"), tack.device("reference")
    assert a == b and hash(a) == hash(b) and a.backend is b.backend and a != "reference"
    assert {a: 1}[b] == 1 and tack.device(a) is a
    assert repr(a) == "tack.device('reference')"
    with pytest.raises(AttributeError):
        a.name = "cpu"


def test_devices_of_this_machine():
    names = tack.devices()
    assert "reference" in names and len(set(names)) == len(names)
    for name in names:
        assert tack.device(name).backend.name == name


def test_an_unknown_device_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'gpu9000'.*'reference'"):
        tack.device("gpu9000")
    with pytest.raises(TypeError, match="string"):
        tack.device(3)


def test_a_device_whose_package_is_missing(monkeypatch):
    row = device_module._Row(device_module._cpu, needs="no_such_module_at_all", extra="cpu")
    monkeypatch.setitem(device_module._REGISTRY, "cpu", row)
    monkeypatch.delitem(device_module._backends, "cpu", raising=False)
    assert "cpu" not in tack.devices()
    with pytest.raises(ImportError, match=r"no_such_module_at_all.*tack-core\[cpu\].*'reference'"):
        tack.device("cpu")


def test_capabilities_by_name(device):
    assert device.supports("host_memory") == ("host_memory" in device.backend.capabilities)
    assert not device.supports("time_travel")
    assert device.supports_dtype(tack.f32) and device.supports_dtype(tack.f64) == device.supports("f64")


def test_current_device_follows_the_blocks(monkeypatch, restored_default):
    tack.set_default_device("reference")
    assert tack.current_device() == tack.device("reference") == tack.zeros(1).device
    with far_device(monkeypatch) as far:
        assert tack.current_device() == far == tack.zeros(1).device
        with tack.device("reference") as inner, inner:
            assert tack.current_device() == inner
            assert tack.zeros(1, device="far").device == far
        assert tack.current_device() == far
        with pytest.raises(ZeroDivisionError), tack.device("reference"):
            raise ZeroDivisionError
        assert tack.current_device() == far
    assert tack.current_device() == tack.device("reference")


def test_blocks_belong_to_their_thread(monkeypatch, restored_default):
    tack.set_default_device("reference")
    with far_device(monkeypatch) as far:
        seen: dict[int, list[tack.Device]] = {}
        barrier = threading.Barrier(4)

        def work(number: int) -> None:
            mine = far if number % 2 else tack.device("reference")
            seen[number] = [tack.current_device()]
            with mine:
                barrier.wait()
                seen[number].append(tack.current_device())
                barrier.wait()
            seen[number].append(tack.current_device())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        default = tack.device("reference")
        assert seen == {n: [default, far if n % 2 else default, default] for n in range(4)}


def test_blocks_do_not_come_with_copied_contexts(monkeypatch, restored_default):
    """A free-threaded build gives new threads a copy of the context; others must have the same devices."""
    tack.set_default_device("reference")
    seen = []

    def look() -> None:
        seen.append(tack.current_device().name)
        with tack.device("reference"), far:
            seen.append(tack.current_device().name)

    with far_device(monkeypatch) as far:
        copied = contextvars.copy_context()
        copied.run(look)  # a task of this thread, while the block is open
        for target in (lambda: copied.run(look), look):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
        assert tack.current_device() == far
    copied.run(look)  # a task that outlives the block
    assert seen == ["far", "far", "reference", "far", "reference", "far", "reference", "far"]
    assert tack.current_device() == tack.device("reference")


def suspended(device: tack.Device | str) -> Iterator[None]:
    """A generator that stands inside a block."""
    with tack.device(device):
        yield


def in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_a_copied_context(work: Callable[[], None]) -> None:
    contextvars.copy_context().run(work)


def in_a_context_of_its_own(work: Callable[[], None]) -> None:
    contextvars.Context().run(work)


HERE_OR_ELSEWHERE = [lambda work: work(), in_a_thread, in_a_copied_context, in_a_context_of_its_own]


@pytest.mark.parametrize("somewhere", HERE_OR_ELSEWHERE)
def test_a_generator_leaves_its_own_block(monkeypatch, restored_default, somewhere):
    """Wherever it is closed, and whatever other block is open there: that one goes on."""
    register(monkeypatch, "far", FarBackend)
    default = tack.set_default_device("reference")
    for left, kept in (("far", default), (default, tack.device("far"))):
        blocks = suspended(left)
        next(blocks)
        assert tack.current_device() == tack.device(left)
        seen = []

        def close(blocks=blocks, kept=kept, seen=seen) -> None:
            with kept:
                blocks.close()
                seen.append(tack.current_device())
            seen.append(tack.current_device())

        somewhere(close)
        assert [*seen, tack.current_device()] == [kept, default, default]
        assert device_module.current_number.value == default.number and not device_module._open_blocks


def test_blocks_of_tasks(monkeypatch, restored_default):
    """Tasks take turns inside of their blocks; a generator that one of them leaves behind is closed by another."""
    register(monkeypatch, "far", FarBackend)
    default, far = tack.set_default_device("reference"), tack.device("far")

    async def generator() -> AsyncIterator[None]:
        with far:
            yield

    async def work(device: tack.Device) -> None:
        for _ in range(20):
            with device:
                await asyncio.sleep(0)
                assert tack.current_device() == device
            await asyncio.sleep(0)
            assert tack.current_device() == default

    async def start(blocks: AsyncIterator[None]) -> None:
        await anext(blocks)
        assert tack.current_device() == far

    async def main() -> None:
        blocks = generator()
        await asyncio.create_task(start(blocks))
        await asyncio.gather(*(work(device) for device in (far, default) * 3))
        with default:
            await blocks.aclose()
            assert tack.current_device() == default
        with far:
            assert await asyncio.to_thread(tack.current_device) == default

    asyncio.run(main())
    assert device_module.current_number.value == default.number and not device_module._open_blocks


def test_a_collection_closes_a_generator_while_a_block_is_entered():
    """At whichever object it starts. In a process of its own: it waited for its own lock, for ever."""
    program = """
import faulthandler, gc
faulthandler.dump_traceback_later(60, exit=True)
far = tack.device("reference")
def suspended(itself):
    with far:
        yield
for n in range(1, 40):
    gc.set_threshold(100000)
    itself = []
    itself.append(suspended(itself))
    next(itself[0])
    del itself
    gc.set_threshold(n)
    with far:
        assert tack.current_device() is far
    tack.set_default_device("reference")
    gc.collect()
    assert not tack.runtime.device._open_blocks
print("done")
"""
    result = run(program)
    assert result.stdout.strip() == "done", result.stderr


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 and later can give threads their maker's context")
def test_threads_that_inherit_their_context():
    program = """
import threading
with tack.device("reference"):
    thread = threading.Thread(target=lambda: print(tack.current_device().name))
    thread.start()
    thread.join()
"""
    for flag in ("0", "1"):
        assert run(program, PYTHON_THREAD_INHERIT_CONTEXT=flag).stdout.strip() == tack.devices()[0]


def test_default_device_is_kept_when_a_new_one_is_refused(restored_default):
    before = tack.set_default_device("reference")
    with pytest.raises(ValueError):
        tack.set_default_device("gpu9000")
    assert tack.current_device() == before


def test_environment_chooses_the_default():
    for name in (n for n in tack.devices() if not device_rig.is_rig(tack.device(n))):  # those are in this process alone
        assert run("print(tack.current_device().name)", TACK_DEVICE=name).stdout.strip() == name
    assert run("print(tack.current_device().name)").stdout.strip() == tack.devices()[0]
    done = run("tack.set_default_device('reference'); print(tack.current_device().name)", TACK_DEVICE="gpu9000")
    assert done.stdout.strip() == "reference"


def test_environment_with_an_unknown_name():
    done = run("tack.zeros(3)", TACK_DEVICE="gpu9000")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: TACK_DEVICE=gpu9000: ") and "'reference'" in last
    assert run("print(tack.devices())", TACK_DEVICE="gpu9000").returncode == 0, "only use of the default is an error"


def test_a_backend_is_made_once_by_many_threads(monkeypatch):
    made = []

    class Slow(FarBackend):
        def __init__(self) -> None:
            made.append(threading.get_ident())
            super().__init__()

    register(monkeypatch, "slow", Slow)
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        tack.zeros(3, device="slow")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.delitem(device_module._backends, "slow")
    assert len(made) == 1


def test_synchronize_waits_for_every_device(monkeypatch):
    """CALL-1"""
    with far_device(monkeypatch) as far:
        tack.zeros(3)
        before = far.backend.waits
        tack.synchronize()
        assert far.backend.waits == before + 1
