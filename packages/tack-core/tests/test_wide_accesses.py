"""Loops that move several elements with one access: the same values as one element a thread, for every length,
alignment, mixture of widths and overlap; and which loops are such. The oracle is NumPy at the same precision."""

from __future__ import annotations

from mmap import mmap
from typing import Any

import numpy as np
import pytest

import tack
from dialects import make, needs_compiler, run
from rigs import host_run
from tack.codegen.c_family import CFamilyOptions
from tack.codegen.c_wide import WideEmitter
from tack.runtime.launch_ranges import loop_space

LENGTHS = (0, 1, 3, 1023, 1024, 1025, 2048, 5000)
DISJOINT = CFamilyOptions(disjoint=True)
HOST = pytest.mark.parametrize("dialect", ["cuda", "hip"])
SAXPY = ("a, x, y, out", ("i in range(out.shape[0])", "out[i] = a * x[i] + y[i]"))


def each_of(kernel: Any, *args: Any, options: CFamilyOptions | None = DISJOINT, dialect: str = "cuda") -> list[int]:
    """The iterations a thread of each loop."""
    _, plan = host_run.generate(dialect, host_run.type_for(kernel, args), options)
    return [loop.each for loop in plan.loops]


def at_offset(values: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """A copy that starts `offset` elements after an address that is a multiple of 64."""
    room = np.zeros(values.nbytes + 256, np.uint8)
    start = -room.ctypes.data % 64 + offset * values.itemsize
    view = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    view[...] = values
    return view


def floats(shape: int | tuple[int, ...], dtype: Any = np.float32, seed: int = 1) -> np.ndarray[Any, Any]:
    """Whole numbers, so that sums and products are exact whatever is contracted."""
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(dtype)


# ------------------------------------------------------------------------------------------------------------ values


@HOST
@needs_compiler
@pytest.mark.parametrize("options", [CFamilyOptions(), DISJOINT], ids=["any", "disjoint"])
def test_every_length_and_alignment(dialect: str, options: CFamilyOptions) -> None:
    kernel = make(*SAXPY)
    for n in LENGTHS:
        for offsets in ((0, 0, 0), (4, 8, 0), (1, 0, 0), (0, 0, 3), (1, 1, 1)):
            x, y, out = (at_offset(floats(n, seed=k), offset) for k, offset in enumerate(offsets))
            expected = 2 * x + y
            run(dialect, kernel, 2.0, x, y, out, options=options)
            assert out.tobytes() == expected.tobytes(), (n, offsets)


@HOST
@needs_compiler
def test_nothing_beyond_the_array_is_written(dialect: str) -> None:
    kernel = make(*SAXPY)
    for n in (1, 1021, 1027):
        room = at_offset(np.full(n + 2048, 7, np.float32), 0)
        run(dialect, kernel, 1.0, floats(n), floats(n), room[512 : 512 + n], options=DISJOINT)
        assert (room[:512] == 7).all() and (room[512 + n :] == 7).all()


@needs_compiler
@pytest.mark.parametrize("narrow", ["i8", "u8", "i16", "i32", "f32", "i64", "f64"])
@pytest.mark.parametrize("wide", ["i8", "u16", "u32", "f32", "f64"])
def test_every_mixture_of_widths(narrow: str, wide: str) -> None:
    """As many iterations a thread as the widest of the accesses allows."""
    kernel = make("x, y", ("i in range(y.shape[0])", f"y[i] = tack.{wide}(x[i]) + y[i]"))
    types = [np.dtype(f"{t[0]}{int(t[1:]) // 8}") for t in (narrow, wide)]
    assert each_of(kernel, *(np.zeros(4, t) for t in types)) == [16 // max(t.itemsize for t in types)]
    for n in (4099, 8192):
        x, y = (np.random.default_rng(k).integers(0, 50, n).astype(t) for k, t in enumerate(types))
        x, y = at_offset(x, 0), at_offset(y, 0)
        expected = (x.astype(types[1]) + y).astype(types[1])
        run("cuda", kernel, x, y, options=DISJOINT)
        assert (y == expected).all()


@HOST
@needs_compiler
def test_in_place_and_one_array_twice(dialect: str) -> None:
    in_place = make("a", ("i in range(a.shape[0])", "a[i] = a[i] * 2.0 + 1.0"))
    for n in (1024, 3001):
        a = at_offset(floats(n), 0)
        expected = a * 2 + 1
        run(dialect, in_place, a, options=DISJOINT)
        assert (a == expected).all()
        y = at_offset(floats(n), 0)
        expected = 3 * y + y
        run(dialect, make(*SAXPY), 3.0, y, y, y)
        assert (y == expected).all()


@HOST
@needs_compiler
def test_ranges_that_start_elsewhere(dialect: str) -> None:
    """Offsets that are misaligned, and those that fit the start."""
    kernel = make("a, b", ("i in range(1, b.shape[0] - 1)", "b[i] = a[i + 3] * 2.0"))
    assert each_of(kernel, np.zeros(8, np.float32), np.zeros(8, np.float32)) == [4]
    for n in (5, 1030, 4096):
        for offsets in ((0, 0), (0, 3), (4, 7)):
            a, b = at_offset(floats(n + 2), offsets[0]), at_offset(np.zeros(n, np.float32), offsets[1])
            expected = b.copy()
            expected[1:-1] = a[4 : n + 2] * 2
            run(dialect, kernel, a, b, options=DISJOINT)
            assert (b == expected).all()


SHAPES = [(3, 3), (5, 1030), (40, 300), (3, 700), (260, 4), (3, 4, 5), (3, 5, 300), (9, 70, 100), (4, 3, 5, 259)]


@HOST
@needs_compiler
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stencils_of_several_dimensions(dialect: str, shape: tuple[int, ...]) -> None:
    """Rows longer and shorter than a workgroup, and neighbours along every axis."""
    names = "i j k m".split()[: len(shape)]
    ranges = ", ".join(f"(1, b.shape[{axis}] - 1)" for axis in range(len(shape)))
    here = ", ".join(names)
    terms = [f"a[{here}]"]
    for name in names:
        terms += [f"a[{here.replace(name, f'{name} {sign} 1')}]" for sign in "-+"]
    body = f"if a[{here}] == 7.0:\n    continue\nb[{here}] = {' + '.join(terms)}"
    kernel = make("a, b", (f"{here} in tack.ndrange({ranges})", body))
    a, b = floats(shape), floats(shape, seed=2)
    assert each_of(kernel, a, b) == [4]
    inner = (slice(1, -1),) * len(shape)
    total = a[inner].copy()
    for axis in range(len(shape)):
        for move in (slice(0, -2), slice(2, None)):
            total += a[(*inner[:axis], move, *inner[axis + 1 :])]
    expected = b.copy()
    expected[inner] = np.where(a[inner] == 7, b[inner], total)
    run(dialect, kernel, a, b, options=DISJOINT)
    assert (b == expected).all()


@HOST
@needs_compiler
@pytest.mark.parametrize("shape", [(7, 1024), (33, 100), (5, 1023), (300, 4), (3, 2, 64)])
def test_rows_of_several_dimensions(dialect: str, shape: tuple[int, ...]) -> None:
    names = ["i", "j", "k"][: len(shape)]
    where = ", ".join(names)
    extents = ", ".join(f"c.shape[{axis}]" for axis in range(len(shape)))
    kernel = make("a, b, c", (f"{where} in tack.ndrange({extents})", f"c[{where}] = a[{where}] - b[{names[-1]}]"))
    a, c = at_offset(floats(shape), 0), at_offset(np.zeros(shape, np.float32), 0)
    b = at_offset(floats(shape[-1], seed=2), 0)
    assert each_of(kernel, a, b, c) == [4]
    run(dialect, kernel, a, b, c, options=DISJOINT)
    assert (c == a - b).all()


@HOST
@needs_compiler
def test_a_guarded_load_stays_guarded(dialect: str) -> None:
    """Reading beyond the short array would be found by the address sanitizer, and gives other values here."""
    body = (
        "v = x[i] if i < x.shape[0] else 0.0\nw = 0.0\nif i + 1 < x.shape[0]:\n    w = x[i + 1]\nout[i] = v + w + y[i]"
    )
    kernel = make("x, y, out", ("i in range(out.shape[0])", body))
    x, y, out = at_offset(floats(1500), 0), at_offset(floats(4096, seed=2), 0), at_offset(np.zeros(4096, np.float32), 0)
    assert each_of(kernel, x, y, out) == [4]
    run(dialect, kernel, x, y, out, options=DISJOINT)
    first, second = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    first[:1500], second[:1499] = x, x[1:]
    assert (out == first + second + y).all()


@HOST
@needs_compiler
def test_locals_casts_and_calls(dialect: str) -> None:
    text = "@tack.func\ndef twice(v):\n    return v + v\n"
    body = "j = i + n\ns = twice(x[i + n])\nif s > 10.0:\n    s = s - 10.0\nout[i] = s + tack.f32(j)"
    kernel = make("n, x, out", ("i in range(out.shape[0])", body), before=text)
    for n in (0, 4, 3):
        x, out = at_offset(floats(3000), 0), at_offset(np.zeros(2100, np.float32), 0)
        s = 2 * x[n : n + 2100]
        expected = np.where(s > 10, s - 10, s) + np.arange(n, n + 2100, dtype=np.float32)
        run(dialect, kernel, n, x, out, options=DISJOINT)
        assert (out == expected).all()


@needs_compiler
def test_a_second_store_to_an_array_wins() -> None:
    kernel = make("x, out", ("i in range(x.shape[0])", "out[i] = x[i]\nout[i] = x[i] + 1.0"))
    x, out = at_offset(floats(2050), 0), at_offset(np.zeros(2050, np.float32), 0)
    assert each_of(kernel, x, out) == [4]
    run("cuda", kernel, x, out, options=DISJOINT)
    assert (out == x + 1).all()


@needs_compiler
def test_whole_aligned_groups_and_no_others_take_the_wide_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the other way, what is left undone shows which groups that was for."""
    monkeypatch.setattr(WideEmitter, "_one_by_one", lambda self, *_: None)
    kernel, n = make(*SAXPY), 2500
    for offset in (0, 1):
        x, y, out = at_offset(floats(n), 0), at_offset(floats(n), offset), at_offset(np.zeros(n, np.float32), 0)
        run("cuda", kernel, 2.0, x, y, out, options=DISJOINT)
        done = 0 if offset else 2048
        assert (out[:done] == (2 * x + y)[:done]).all() and (out[done:] == 0).all()


@HOST
@needs_compiler
@pytest.mark.parametrize(
    "shape", [(8, 32), (16, 64), (24, 96), (8, 33), (9, 32), (4, 6, 32), (3, 5, 7), (300, 1)], ids=str
)
def test_long_iterations_in_tiles(dialect: str, shape: tuple[int, ...]) -> None:
    """Loops that divide into tiles, and loops that do not: each iteration runs once."""
    names = ["i", "j", "k"][: len(shape)]
    where = ", ".join(names)
    extents = ", ".join(f"(2, {extent + 2})" for extent in shape)
    places = ", ".join(f"{name} - 2" for name in names)
    value = " + ".join(f"{name} * {1000**axis}" for axis, name in enumerate(names))
    body = f"s = 0\nfor m in range(3):\n    s += m\nout[{places}] = out[{places}] + {value} + s"
    kernel = make("out", (f"{where} in tack.ndrange({extents})", body))
    out = np.zeros(shape, np.int64)
    assert each_of(kernel, out) == [1]
    run(dialect, kernel, out, options=DISJOINT)
    expected = sum((np.indices(shape)[axis] + 2) * 1000**axis for axis in range(len(shape))) + 3
    assert (out == expected).all()


@needs_compiler
def test_a_piece_of_a_tiled_loop() -> None:
    """A launch that does not begin at the first iteration does those that it is for."""
    body = "s = 1\nfor m in range(1):\n    s += m\nout[i, j] = out[i, j] + s"
    typed = host_run.type_for(make("out", ("i, j in tack.ndrange(64, 32)", body)), (np.zeros((64, 32), np.int64),))
    text, plan = host_run.generate("cuda", typed, DISJOINT)
    out = np.zeros((64, 32), np.int64)
    launcher = host_run.Launcher(host_run.build("cuda", text, plan), typed, plan, (out,), text)
    space = loop_space(plan.loops[0].ranges, launcher.scalars, launcher.shapes)
    for first, stop in ((256, 1024), (0, 256), (1024, 2048)):
        launcher.launch(plan.loops[0], space, first, stop)
        assert (out.reshape(-1)[first:stop] == 1).all()
    assert (out == 1).all()


@needs_compiler
@pytest.mark.parametrize("first", [0, 2**31 - 2048, 2**31, 2**32 - 1024, 2**40])
def test_pieces_of_long_loops(first: int) -> None:
    """Iterations far from the start, over memory that stands for that part of a long array."""
    typed = host_run.type_for(make(*SAXPY), (2.0, F, F, F))
    text, plan = host_run.generate("cuda", typed, DISJOINT)
    library = host_run.build("cuda", text, plan)
    for n in (4096, 5001):
        x, y, out = (np.frombuffer(mmap(-1, 4 * n), np.float32) for _ in range(3))  # its addresses are beyond 2**43
        x[:], y[:] = floats(n, seed=1), floats(n, seed=2)
        windows = [2.0, *(Window(a.ctypes.data - 4 * first) for a in (x, y, out))]
        launcher = host_run.Launcher(library, typed, plan, (2.0, x, y, out), text)
        launcher.args = tuple(windows)
        launcher.launch(plan.loops[0], None, first, first + n)
        assert (out == 2 * x + y).all()


class Window:
    """An address, as `host_run.Launcher` asks NumPy for it."""

    def __init__(self, data: int) -> None:
        self.ctypes = self
        self.data = data


# --------------------------------------------------------------------------------------------------------- devices


@tack.kernel
def mixed(small, wide, out):
    for i in range(out.shape[0]):
        out[i] = wide[i] * 2.0 + small[i]


@tack.kernel
def rows(a, b):
    for i, j in tack.ndrange(a.shape[0], a.shape[1]):
        b[i, j] = a[i, j] + 1.0


@tack.kernel
def around(a, b):
    for i, j in tack.ndrange((1, a.shape[0] - 1), (1, a.shape[1] - 1)):
        b[i, j] = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]


@pytest.mark.parametrize("size", [1, 1023, 1024, 4096, 100_003])
def test_streams_on_every_device(device: tack.Device, size: int) -> None:
    small, wide = floats(size, np.int8), floats(size, seed=2)
    out = tack.zeros(size, tack.f32)
    mixed(tack.asarray(small), tack.asarray(wide), out)
    assert (out.numpy() == wide * 2 + small).all()
    mixed(tack.asarray(small), out, out)  # in place: arrays that overlap
    assert (out.numpy() == (wide * 2 + small) * 2 + small).all()


@pytest.mark.parametrize("shape", [(3, 4), (64, 1024), (65, 1000), (5, 1027), (2000, 7)], ids=str)
def test_rows_on_every_device(device: tack.Device, shape: tuple[int, int]) -> None:
    a, b = floats(shape), tack.zeros(shape, tack.f32)
    rows(tack.asarray(a), b)
    assert (b.numpy() == a + 1).all()
    b = tack.zeros(shape, tack.f32)
    around(tack.asarray(a), b)
    assert (b.numpy()[1:-1, 1:-1] == a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]).all()


# ------------------------------------------------------------------------------------------------- which loops are wide

F = np.zeros(8, np.float32)
NARROW = {
    "a load after the store": ("x, y, out", "out[i] = x[i]\ny[i] = out[i] + 1.0"),
    "a store that strides": ("x, y, out", "out[2 * i] = x[i]"),
    "a store under a condition": ("x, y, out", "if x[i] > 0.0:\n    out[i] = x[i]"),
    "a serial loop": ("x, y, out", "s = 0.0\nfor j in range(3):\n    s += x[j]\nout[i] = s"),
    "an atomic": ("x, y, out", "tack.atomic_add(y, 0, x[i])\nout[i] = x[i]"),
    "neighbours": ("x, y, out", "out[i] = x[i - 1] + x[i + 1]"),
    "an early end": ("x, y, out", "if x[i] > 0.0:\n    continue\nout[i] = x[i]"),
    "an index from memory": ("x, y, out", "out[tack.i64(x[i])] = 1.0"),
    "much arithmetic": ("x, y, out", "out[i] = tack.sin(x[i]) ** tack.cos(y[i]) + tack.exp(x[i]) + tack.log(y[i])"),
}


@pytest.mark.parametrize("name", NARROW)
def test_loops_of_one_iteration_a_thread(name: str) -> None:
    params, body = NARROW[name]
    assert each_of(make(params, ("i in range(x.shape[0])", body)), F, F, F) == [1]


def test_what_one_iteration_leaves_no_other_sees() -> None:
    """A parameter that the body assigns after reading it (PAR-3)."""
    kernel = make("n, out", ("i in range(out.shape[0])", "out[i] = n\nn = n + 1"))
    assert each_of(kernel, 1, np.zeros(8, np.int32)) == [1]


def test_arrays_that_may_overlap_need_one_store_after_all_loads() -> None:
    loop = "i in range(x.shape[0])"
    two = make("x, y, out", (loop, "out[i] = x[i]\ny[i] = 1.0"))
    later = make("x, y, out", (loop, "out[i] = 1.0\ny[i] = x[i]"))
    for kernel in (two, later):
        assert each_of(kernel, F, F, F, options=CFamilyOptions()) == [1]
        assert each_of(kernel, F, F, F) == [4]


def test_a_step_and_other_devices_keep_one_iteration() -> None:
    kernel = make("x, y, out", ("i in range(0, x.shape[0], 2)", "out[i] = x[i]"))
    assert each_of(kernel, F, F, F) == [1]
    for dialect in ("opencl", "metal"):
        assert each_of(make(*SAXPY), 2.0, F, F, F, options=None, dialect=dialect) == [1]
    assert each_of(make(*SAXPY), 2.0, F, F, F, dialect="hip") == [4]
