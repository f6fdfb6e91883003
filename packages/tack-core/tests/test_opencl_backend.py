"""The device "opencl" itself: choosing it, order and waiting, buffers, errors, options, reductions, threads, forks.

What kernels compute on it is tested where every device's answer is. Rules CALL-1, CALL-2, MEM-1, PAR-*, RED-*, ATOM-*.
"""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tack
from rigs.host_run import type_for
from tack.lang.types import f32
from tack.runtime import device as device_module
from tack.runtime import reductions
from tack.runtime.launch_arguments import decode_word
from tack.runtime.queued_launch import pack
from tack.runtime.workgroup_limits import check_workgroups

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed")
opencl_launch = pytest.importorskip("tack.runtime.opencl_launch")
opencl_devices = pytest.importorskip("tack.runtime.opencl_devices")

SOURCE = Path(__file__).resolve().parents[1] / "src"
NAMES = [name for name in tack.devices() if name.startswith("opencl")]
pytestmark = pytest.mark.skipif(not NAMES, reason="this machine has no OpenCL device")


@pytest.fixture(params=NAMES)
def opencl(request: pytest.FixtureRequest) -> Iterator[tack.Device]:
    with tack.device(request.param) as device:
        yield device


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter with this one's environment."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | environment,
        check=False,
        timeout=120,
    )


@tack.kernel
def add_to(a, amount):
    for i in range(a.shape[0]):
        a[i] += amount


@tack.kernel
def spin(a, rounds):
    for i in range(a.shape[0]):
        x = a[i]
        for k in range(rounds):
            x = x * 3 + 1
        a[i] = x


@tack.kernel
def two_loops(a, b, n, divisor):
    for i in range(a.shape[0]):
        a[i] += 1
    for i in range(n // divisor):
        b[i] = a[i] + b[i]


@tack.kernel
def last_of(a, scale):
    for i in range(a.shape[0]):
        a[i] = i
    return a[a.shape[0] - 1] * scale


@tack.kernel
def is_wide(a, out):
    for i in range(a.shape[0]):
        out[i] = tack.f32(tack.f64(a[i]) * 2.0)


@tack.kernel
def count_into(cells, n):
    for i in range(n):
        tack.atomic_add(cells, i % cells.shape[0], 1)


@tack.kernel
def boxes(out, n, m):
    for i, j in tack.ndrange((3, n), (-2, m)):
        out[(i - 3) * (m + 2) + (j + 2)] += i * 1000 + j


# --- Which devices there are ---


def test_names_and_numbers():
    assert NAMES[0] == "opencl" and len(NAMES) == len(opencl_devices.usable_devices())
    assert len({tack.device(name).number for name in tack.devices()}) == len(tack.devices())
    for number in range(len(opencl_devices.usable_devices())):
        found = tack.device(f"opencl:{number}")
        assert found.name in NAMES and found.backend.device == opencl_devices.usable_devices()[number]
        assert tack.device(found.name) == found and found.backend.name == found.name


@pytest.mark.parametrize("name", ["opencl:", "opencl:-1", "opencl:99", "opencl:x", "opencl:01", "cpu:0", "cpu:"])
def test_names_that_are_none(name):
    with pytest.raises(ValueError, match=r"no device .*'reference'"):
        tack.device(name)


def test_a_variable_chooses_the_default():
    last = len(NAMES) - 1
    done = run(
        f"import tack; print(tack.device('opencl') == tack.device('opencl:{last}'), *tack.devices())",
        **{opencl_devices.VARIABLE: str(last)},
    )
    assert done.stdout.split()[0] == "True" and done.stdout.split().count("opencl") == 1, done.stderr
    wrong = run("import tack; tack.device('opencl')", **{opencl_devices.VARIABLE: "99"})
    assert wrong.returncode and "ValueError: TACK_OPENCL_DEVICE=99" in wrong.stderr


def test_nothing_loads_drivers_before_they_are_asked_for():
    code = """
        import sys, tack
        tack.zeros(3).numpy()
        tack.device("reference")
        print("pyopencl" in sys.modules)
    """
    assert run(code).stdout.strip() == "False"


def test_a_machine_without_a_device_says_what_is_missing(monkeypatch):
    row = device_module._REGISTRY["opencl"]
    empty = device_module._Row(row.load, needs="pyopencl", extra="opencl", units=lambda: (0, 0))
    monkeypatch.setitem(device_module._REGISTRY, "opencl", empty)
    assert not [name for name in tack.devices() if name.startswith("opencl")]
    with pytest.raises(ValueError, match=r"pyopencl finds no device with a driver"):
        tack.device("opencl")


# --- Order, waiting, results (CALL-1) ---


def test_calls_run_in_order_and_reads_wait(opencl):
    a = tack.zeros(100_000, tack.u32)
    for amount in range(1, 31):
        add_to(a, amount)
    assert (a.numpy() == sum(range(1, 31))).all()
    spin(a, 4_000)
    want = sum(range(1, 31))
    for _ in range(4_000):
        want = (want * 3 + 1) % 2**32
    assert a[99_999] == want
    spin(a, 4_000)
    assert len(set(a.copy().numpy().tolist())) == 1
    assert last_of(a, 2) == 2 * 99_999


def test_writes_of_the_host_wait_too(opencl):
    a = tack.zeros(1000, tack.u32)
    spin(a, 5000)
    a[0] = 7
    a.fill(3)
    add_to(a, 1)
    assert (a.numpy() == 4).all()


def test_synchronize_waits(opencl):
    a = tack.zeros(100_000, tack.u32)
    spin(a, 4_000)
    tack.synchronize()
    status = cl.enqueue_marker(opencl.backend._stream.queue)
    status.wait()
    assert status.command_execution_status == cl.command_execution_status.COMPLETE


def test_loops_of_a_call_in_order_and_none_if_a_bound_fails(opencl):
    """LOOP-8: all bounds are evaluated before anything runs."""
    a, b = tack.arange(10, dtype=tack.i64), tack.ones(10, tack.i64)
    two_loops(a, b, 20, 2)
    assert b.numpy().tolist() == [i + 2 for i in range(10)]
    with pytest.raises(ValueError, match="divides by zero"):
        two_loops(a, b, 20, 0)
    with pytest.raises(ValueError, match="64 bits"):
        two_loops(a, b, -(2**63), -1)
    assert a.numpy().tolist() == [i + 1 for i in range(10)]


@pytest.mark.parametrize("value", [tack.i8(-3), tack.u8(200), tack.u64(2**64 - 1), tack.i64(-(2**63)), 1.5])
def test_results_of_every_kind(opencl, value):
    @tack.kernel
    def give(a, x):
        for i in range(a.shape[0]):
            a[i] = 1
        return x

    want = getattr(value, "value", value)
    assert give(tack.zeros(1), value) == want and type(give(tack.zeros(1), value)) is type(want)


def test_empty_launches_and_empty_arrays(opencl):
    for shape in (0, (3, 0, 2)):
        empty = tack.zeros(shape, tack.i32)
        add_to(empty.reshape(-1), 1)
        assert empty.numpy().size == 0 and empty.sum() == 0.0


@pytest.mark.parametrize("groups", [1, 2])
def test_long_loops_are_launched_in_pieces(opencl, monkeypatch, groups):
    monkeypatch.setattr(opencl.backend._stream, "most_groups", groups)
    a = tack.zeros(5000, tack.i32)
    add_to(a, 5)
    assert (a.numpy() == 5).all()
    out = tack.zeros(40 * 52, tack.i64)
    boxes(out, 43, 50)
    assert out.numpy().tolist() == [i * 1000 + j for i in range(3, 43) for j in range(-2, 50)]
    x = tack.asarray(np.arange(3001, dtype=np.float32))
    assert x.sum() == 3000 * 3001 / 2 and x.max() == 3000.0


@tack.kernel(group=128)
def sums_of_workgroups(a, out):
    box = tack.shared(128, tack.i32)
    for i in range(out.shape[0]):
        box[tack.thread_id()] = a[i]
        tack.barrier()
        out[i] = box[0] + i // 128 * 1000 + tack.i32(tack.block_sum(1.0))


@pytest.mark.parametrize("groups", [2, 4])
def test_pieces_are_of_whole_workgroups(opencl, monkeypatch, groups):
    """GRP-1, GRP-7: the number of a workgroup goes on from piece to piece."""
    monkeypatch.setattr(opencl.backend._stream, "most_groups", groups)
    n = 1000
    a, out = tack.asarray(np.arange(n, dtype=np.int32)), tack.zeros(n, tack.i32)
    sums_of_workgroups(a, out)
    lanes = [min(128, n - w * 128) for w in range(8)]
    assert out.numpy().tolist() == [i // 128 * 1128 + lanes[i // 128] for i in range(n)]


def test_workgroups_beyond_the_device_are_refused_with_their_place(opencl):
    """Lanes, and bytes of shared memory with the cells of a reduction: as many as there are do run."""
    extent, bytes_needed = opencl.backend.device.local_mem_size // 8 + 1, 2 * 128 * 4
    typed = type_for(sums_of_workgroups, (np.zeros(1, np.int32), np.zeros(1, np.int32)))
    check_workgroups(typed, "tiny", 128, bytes_needed)
    with pytest.raises(ValueError, match=r"device tiny runs at most 64 lanes .* has 128(.|\n)*group=64"):
        check_workgroups(typed, "tiny", 64, bytes_needed)
    with pytest.raises(ValueError, match=f"has {bytes_needed - 1} bytes of shared memory .* needs {bytes_needed}"):
        check_workgroups(typed, "tiny", 128, bytes_needed - 1)

    @tack.kernel
    def too_much(a):
        box = tack.shared(extent, tack.i64)
        for i in range(a.shape[0]):
            box[tack.thread_id()] = i
            tack.barrier()
            a[i] = box[0]

    with pytest.raises(ValueError, match=r"bytes of shared memory a workgroup(.|\n)*for i in range"):
        too_much(tack.zeros(1, tack.i32))


# --- Memory (MEM-*) ---


def test_one_array_given_twice_and_views(opencl):
    @tack.kernel
    def through(a, b):
        for i in range(a.shape[0]):
            a[i] = i + 1
            b[i] = b[i] * 10 + a[i]

    a = tack.zeros(6, tack.i32)
    through(a, a.reshape(2, 3))
    assert a.numpy().tolist() == [(i + 1) * 11 for i in range(6)]
    a.reshape(2, 3)[1, 2] = -4
    assert a[5] == -4


def test_addresses_never_overlap_and_memory_is_given_back(opencl):
    buffers = opencl.backend._stream.buffers
    gc.collect()
    before = len(buffers)
    arrays = [tack.zeros(n, tack.u8) for n in (0, 1, 5, 4096)]
    ranges = sorted((a._data, a._data + max(1, a.nbytes)) for a in arrays)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    assert len(buffers) == before + 4
    view = arrays[3].reshape(64, 64)
    del arrays
    gc.collect()
    assert len(buffers) == before + 1 and view[63, 63] == 0
    del view
    gc.collect()
    assert len(buffers) == before


def test_memory_may_go_while_a_launch_uses_it(opencl):
    for _ in range(20):
        a = tack.zeros(10_000, tack.u32)
        spin(a, 2000)
        del a
    tack.synchronize()


def test_an_array_that_is_too_large(opencl):
    with pytest.raises(MemoryError, match="bytes"):
        tack.zeros(opencl_devices.usable_devices()[0].max_mem_alloc_size * 64, tack.u8)


def test_many_launches_leak_nothing(opencl):
    resource = pytest.importorskip("resource")
    a = tack.zeros(64, tack.i32)

    def launches(count: int) -> int:
        for _ in range(count):
            add_to(a, 1)
            last_of(tack.zeros(8, tack.i32), 3)
        tack.synchronize()
        gc.collect()
        peak: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak

    first = launches(300)
    assert launches(900) - first < 16 * 1024, "kilobytes of 900 launches"


def test_kernels_give_their_programs_back(opencl):
    def once() -> weakref.ref[Any]:
        @tack.kernel
        def short_lived(a):
            for i in range(a.shape[0]):
                a[i] = 1234567

        short_lived(tack.zeros(1))
        (source,) = (text for text in opencl.backend._programs if "1234567" in text)
        return weakref.ref(opencl.backend._programs[source])

    program = once()
    gc.collect()
    assert program() is None


def test_one_text_is_built_once(opencl):
    def make() -> tack.Kernel:
        @tack.kernel
        def same_text(a):
            for i in range(a.shape[0]):
                a[i] = 7654321

        return same_text

    kernels = [make(), make()]
    for kernel in kernels:
        kernel(tack.zeros(1))
    programs = [p for text, p in opencl.backend._programs.items() if "7654321" in text]
    assert len(programs) == 1


# --- What the device lacks ---


def test_f64_is_refused_where_the_device_lacks_it(opencl):
    """TYPE-1: before anything runs, for arrays and for what is computed."""
    assert opencl.supports("f64") == bool(opencl.backend.device.double_fp_config)
    if opencl.supports("f64"):
        a, out = tack.full(3, 0.1), tack.zeros(3)
        is_wide(a, out)
        assert out.numpy().tolist() == [float(np.float32(0.1) * 2)] * 3
        return
    with pytest.raises(TypeError, match=rf"device {opencl.name} has no f64"):
        tack.zeros(3, tack.f64)
    with pytest.raises(TypeError, match=r"(?s)has no f64.*tack\.f64\(a\[i\]\)"):
        is_wide(tack.zeros(3), tack.zeros(3))


def test_atomics_are_those_that_the_device_reports(opencl):
    """ATOM-*: each type works, or is refused; there is no emulation that touches neighbours."""
    extensions = opencl.backend.device.extensions.split()
    wide = {"cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"} <= set(extensions)
    has = {"i32": True, "u32": True, "f32": True, "i64": wide, "u64": wide, "f64": wide and opencl.supports("f64")}
    for name in ("i8", "u8", "i16", "u16", *has):
        assert opencl.supports(f"atomic_{name}") == has.get(name, False)
        if name == "f64" and not opencl.supports("f64"):
            continue
        cells = tack.zeros(5, name)
        if has.get(name, False):
            count_into(cells, 1003)
            assert cells.numpy().tolist() == [201, 201, 201, 200, 200]
        else:
            with pytest.raises(TypeError, match=f"no atomics on {name}"):
                count_into(cells, 1003)


def test_printing_is_refused(opencl):
    @tack.kernel
    def says(a):
        for i in range(a.shape[0]):
            print("i", i)

    with pytest.raises(tack.UnsupportedSyntaxError, match="opencl cannot print"):
        says(tack.zeros(1))


# --- Programs ---

SAFE = {"-cl-std=CL1.2", "-cl-fp32-correctly-rounded-divide-sqrt"}


def test_build_options_are_the_safe_ones_and_no_others(opencl, monkeypatch):
    """FLT-*: also when the environment asks pyopencl for others."""
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-fast-relaxed-math")
    device = opencl.backend.device
    rounds = device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    assert set(opencl.backend.options) == (SAFE if rounds else {"-cl-std=CL1.2"})
    program = opencl_launch.Program(opencl.backend._stream, opencl.backend.options, "__kernel void k() {}", "k")
    used = program.built.get_build_info(device, cl.program_build_info.OPTIONS)
    assert used.split() == list(opencl.backend.options)


def test_contraction_is_said_in_the_text(opencl):
    """FLT-3"""
    text = tack.inspect(add_to, tack.zeros(3), 1.0)["opencl"]
    assert "#pragma OPENCL FP_CONTRACT ON" in text and text.count("FP_CONTRACT") == 1


def test_what_the_compiler_refuses_is_shown_with_its_text(opencl):
    with pytest.raises(RuntimeError, match=r"(?s)kernel `wrong`.*cannot compile.*    2  .*this is no C"):
        opencl_launch.Program(
            opencl.backend._stream, opencl.backend.options, "__kernel void k() {\n    this is no C;\n}", "wrong"
        )


def test_a_launch_that_the_device_refuses(opencl, monkeypatch):
    add_to(tack.zeros(3), 1.0)

    def refuse(*args: object) -> None:
        raise cl.RuntimeError("OUT_OF_RESOURCES, planted")

    monkeypatch.setattr(opencl_launch.cl, "enqueue_nd_range_kernel", refuse)
    with pytest.raises(RuntimeError, match=r"kernel `add_to` could not run on .*planted"):
        add_to(tack.zeros(3), 1.0)


@pytest.mark.parametrize(
    ("word", "name", "number"), [(-1, "u8", 255), (-1, "i8", -1), (-1, "u64", 2**64 - 1), (2**31 - 1, "i32", 2**31 - 1)]
)
def test_scalars_by_value(word, name, number):
    dtype = getattr(tack, name)
    assert decode_word(word, dtype) == number
    assert pack(number, dtype) == np.array(number, dtype.numpy).tobytes()


def test_a_float_that_is_too_large_for_f32_becomes_infinite():
    assert pack(1e300, f32) == np.float32(np.inf).tobytes() and pack(0.1, f32) == np.float32(0.1).tobytes()


# --- Reductions (RED-*) ---


def test_arrays_of_every_type_reduce_on_the_device(opencl, monkeypatch):
    values = np.random.default_rng(5).standard_normal(20_001).astype(np.float32)
    a, whole = tack.asarray(values), tack.asarray(np.arange(100), tack.i32)

    def host(*args: object) -> float:
        raise AssertionError("reduced on the host")

    monkeypatch.setattr(reductions, "reduce_numpy", host)
    exact = float(np.sum(values, dtype=np.longdouble))
    assert abs(a.sum() - exact) <= 20_001 * 2.0**-24 * float(np.abs(values).sum(dtype=np.float64))
    assert a.min() == values.min() and a.max() == values.max()
    assert a.reshape(1, -1).max() == values.max()
    assert whole.sum() == 4950 and whole.max() == 99


# --- Threads and processes (CALL-2) ---


def test_threads_call_one_kernel_with_their_own_arrays(opencl):
    wrong: list[str] = []
    start = threading.Barrier(6)

    def work(number: int) -> None:
        start.wait()
        with opencl:
            for turn in range(25):
                a = tack.zeros(300 + number, tack.i32)
                add_to(a, number)
                got = last_of(a, number)
                add_to(a, turn)
                want = [i + turn for i in range(300 + number)]
                if got != (299 + number) * number or a.numpy().tolist() != want:
                    wrong.append(f"thread {number}, turn {turn}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


PROGRAM = """
    import os, sys, linecache
    import tack
    text = "import tack\\n@tack.kernel\\ndef k(a, n):\\n    for i in range(a.shape[0]):\\n" \\
           "        for j in range(n):\\n            a[i] = a[i] * 3 + 1\\n"
    linecache.cache["<k>"] = (len(text), None, text.splitlines(True), "<k>")
    space = {}
    exec(compile(text, "<k>", "exec"), space)
    tack.set_default_device(NAME)
    a = tack.zeros(10000, tack.u32)
    space["k"](a, 1000)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("name", NAMES)
def test_a_forked_child_is_told(name):
    code = textwrap.dedent(PROGRAM).replace("NAME", repr(name)) + textwrap.dedent("""
        a.numpy()
        child = os.fork()
        if not child:
            for use in (lambda: a.numpy(), lambda: tack.zeros(1), lambda: space["k"](a, 1), lambda: a.sum()):
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error)
                else:
                    os._exit(9)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(a.numpy()[0]) > 0)
    """)
    done = run(code)
    assert done.stdout.split() == ["0", "True"], done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_process_may_end_while_launches_run(name):
    done = run(textwrap.dedent(PROGRAM).replace("NAME", repr(name)).replace("1000)", "100000)") + "print('over')\n")
    assert done.returncode == 0 and done.stdout.strip() == "over", done.stderr
