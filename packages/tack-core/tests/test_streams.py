"""Stores past the caches: which they are, that they run, and that results stay those of NumPy. No rule names them: they
must never be seen but in time (PAR-*, MEM-*)."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import tack
from lane_rig import Compiled, host_unit, typed_ir
from tack.codegen import llvm_streams
from tack.codegen.lane_cost import VectorUnit, vector_unit
from tack.codegen.llvm_gen import LLVMCodeGen
from tack.lang.records import replace
from tack.runtime import cpu_backend, stream_code
from tack.runtime.backend import STATUS_OK, Artifact, VariantOptions
from tack.runtime.host_identity import cache_bytes
from tack.runtime.llvm_jit import compiler
from typed_ir import launch

pytestmark = pytest.mark.skipif("+sse2" not in compiler().features.split(","), reason="no such stores")

CUTS = (0.13, 0.37, 0.38, 0.91)
SENTINEL = 0x5A
PAST = "!nontemporal"


def unit(caches: int = 1) -> VectorUnit:
    """This processor with caches of that many bytes: with 1, every loop goes past them."""
    return vector_unit(compiler().cpu, compiler().features, caches)


def streaming(tree: Any, lanes: int | None = None, cuts: tuple[float, ...] = CUTS) -> Compiled:
    return Compiled(tree, lanes, disjoint=True, unit=unit(), cuts=cuts, streaming=True)


def placed(shape: int | tuple[int, ...], dtype: Any, offset: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """An array that starts so many bytes after a cache line, and the bytes around it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.full(size + 256, SENTINEL, np.uint8)
    start = -whole.ctypes.data % 64 + 64 + offset
    array = np.frombuffer(whole, np.uint8)[start : start + size].view(dtype).reshape(shape)
    return array, np.concatenate([np.arange(start), np.arange(start + size, whole.size)])


def is_untouched(array: np.ndarray[Any, Any], around: np.ndarray[Any, Any]) -> bool:
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    return bool((whole.view(np.uint8)[around] == SENTINEL).all())


@tack.kernel
def line(out, a):
    for i in range(a.shape[0]):
        out[i] = a[i] * 3 + i


@tack.kernel
def grid(out, a):
    for i, j in tack.ndrange((1, a.shape[0]), (1, a.shape[1] - 1)):
        out[i, j] = a[i - 1, j] + a[i, j - 1] + a[i, j + 1]


@tack.kernel
def two(out, more, a):
    for i in range(a.shape[0]):
        out[i] = a[i] + 1
        more[i + 3] = a[i] * 2


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.uint32, np.float64])
def test_every_alignment_and_length(dtype: Any) -> None:
    """All starts within a line, odd bytes too, and lengths around one block, two, and many; nothing else is written."""
    variant = streaming(typed_ir(line, np.zeros(3, dtype), np.zeros(3, dtype)))
    assert PAST in variant.text
    for n in (1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200, 1000):
        a = (np.arange(n) % 50).astype(dtype)
        want = (a * 3 + np.arange(n)).astype(dtype)
        for offset in range(0, 64, 1 if n in (65, 200) else 7):
            out, around = placed(n, dtype, offset)
            assert variant.in_place(out, a) == STATUS_OK
            assert out.tobytes() == want.tobytes(), (n, offset)
            assert is_untouched(out, around), (n, offset)


@pytest.mark.parametrize("lanes", [None, 4, 8, 16, 32])
def test_rows(lanes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any length and start, cut anywhere; short ones are let in here."""
    monkeypatch.setattr(llvm_streams, "_LEAST_ROW", 4)
    variant = streaming(typed_ir(grid, *(np.zeros((3, 3), np.float32) for _ in range(2))), lanes)
    assert PAST in variant.text
    for m in (3, 17, 18, 34, 50, 66, 81, 131, 300):
        a = np.random.default_rng(m).random((7, m), np.float32)
        want = np.full_like(a, 9)
        want[1:, 1:-1] = a[:-1, 1:-1] + a[1:, :-2] + a[1:, 2:]
        for offset in (0, 4, 16, 33, 60):
            out, around = placed(a.shape, np.float32, offset)
            out[...] = 9
            assert variant.in_place(out, a) == STATUS_OK
            assert out.tobytes() == want.tobytes(), (m, offset)
            assert is_untouched(out, around)


@pytest.mark.parametrize("types", [(np.float32, np.float32), (np.float64, np.float32), (np.uint8, np.float64)])
def test_two_arrays_that_may_not_agree(types: tuple[Any, Any]) -> None:
    """Where no place suits both arrays, nothing goes past the caches, and results are the same."""
    n = 333
    a = (np.arange(n) % 60).astype(types[0])
    variant = streaming(typed_ir(two, a, a.astype(types[1]), a))
    assert variant.text.count(PAST) == 2
    for first in (0, 4, 8, 31, 52):
        for second in (0, 4, 12, 52):
            out, around = placed(n, types[0], first)
            more, beside = placed(n + 3, types[1], second)
            more[:3] = 7
            assert variant.in_place(out, more, a) == STATUS_OK
            assert np.array_equal(out, a + types[0](1))
            assert np.array_equal(more[3:], a.astype(types[1]) * types[1](2))
            assert is_untouched(out, around) and is_untouched(more, beside)


def test_these_stores_are_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: without the stores past the caches the middle of each chunk is not written, and its ends are."""
    source = LLVMCodeGen.source

    def without(self: LLVMCodeGen) -> str:
        return "\n".join(row for row in source(self).split("\n") if PAST not in row)

    monkeypatch.setattr(LLVMCodeGen, "source", without)
    a, (out, _) = np.ones(1000, np.float32), placed(1000, np.float32, 20)
    out[...] = -1
    streaming(typed_ir(line, out, a), cuts=(0.5,)).in_place(out, a)
    written = out != -1
    assert np.array_equal(out[written], (3 + np.arange(1000, dtype=np.float32))[written])
    for chunk in (written[:500], written[500:]):
        assert 0 < np.count_nonzero(chunk) < 32
        assert not chunk[16:480].any()


# --- Which stores ----------------------------------------------------------------------------------------------------


@tack.kernel
def updated(out, a):
    for i in range(a.shape[0]):
        out[i] += a[i]


@tack.kernel
def read_nearby(out, a):
    for i in range(a.shape[0]):
        out[i] = a[i] + out[0]


@tack.kernel
def masked(out, a):
    for i in range(a.shape[0]):
        if a[i] > 0:
            out[i] = a[i]


@tack.kernel
def left_early(out, a):
    for i in range(a.shape[0]):
        if a[i] > 0:
            continue
        out[i] = a[i]


@tack.kernel
def revisited(out, a):
    for i in range(a.shape[0]):
        for k in range(3):
            out[i] = a[i] * k


@tack.kernel
def twice(out, a):
    for i in range(a.shape[0]):
        out[i] = a[i]
        out[i] = a[i] * 2


@tack.kernel
def counted(out, a):
    for i in range(a.shape[0]):
        tack.atomic_add(out, i, a[i])


@tack.kernel
def spread(out, a):
    for i in range(a.shape[0] // 2):
        out[2 * i] = a[i]


@tack.kernel
def by_local(out, a):
    for i in range(a.shape[0]):
        k = i + 0
        out[k] = a[i]


@pytest.mark.parametrize(
    "kernel", [updated, read_nearby, masked, left_early, revisited, twice, counted, spread, by_local]
)
def test_stores_that_stay(kernel: Any) -> None:
    """What the loop reads, may not write, writes again or writes elsewhere goes through the caches."""
    a = np.ones(100, np.float32)
    tree = typed_ir(kernel, a.copy(), a)
    for lanes in (None, 16):
        assert PAST not in streaming(tree, lanes).text


def test_only_where_arrays_are_apart_and_caches_known() -> None:
    a = np.ones(100, np.float32)
    tree = typed_ir(line, a.copy(), a)
    assert PAST in streaming(tree).text
    assert PAST not in Compiled(tree, 16, disjoint=False, unit=unit(), streaming=True).text
    assert PAST not in Compiled(tree, 16, disjoint=True, unit=host_unit(), streaming=True).text
    assert PAST not in Compiled(tree, 16, disjoint=True, unit=unit()).text, "plain code has none"
    assert vector_unit("apple-m1", "+neon,+fp-armv8", 1 << 20).caches == 0


def test_machine_code() -> None:
    """The processor's own instruction, and a fence after it; plain code has neither."""
    tree = typed_ir(line, np.zeros(3, np.float32), np.zeros(3, np.float32))
    asm = compiler().stages(streaming(tree).text, lanes=True)["asm"]
    assert "movntp" in asm and "sfence" in asm
    asm = compiler().stages(Compiled(tree, None, disjoint=True, unit=unit()).text, lanes=True)["asm"]
    assert "movnt" not in asm and "sfence" not in asm


# --- When ------------------------------------------------------------------------------------------------------------


def test_only_loops_beyond_the_caches() -> None:
    """`line` touches 8 bytes an iteration, so 1000 iterations fill 8000 bytes; `grid` wants rows of 2 KiB as well."""
    a = np.ones(1000, np.float32)
    plain = Compiled(typed_ir(line, a, a), None, disjoint=True, unit=unit(8000))
    for n, asked in ((0, 0), (10, 0), (999, 0), (1000, 1), (5000, 1)):
        plain.handed_over = 0
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(plain(np.zeros_like(x), x)[0], x * 3 + x)
        assert plain.handed_over == asked, n
    rows = Compiled(typed_ir(grid, *(np.ones((3, 3), np.float32),) * 2), None, disjoint=True, unit=unit(8000))
    for shape, asked in (((1000, 513), 0), ((1000, 514), 1), ((1, 100_000), 0), ((2, 100_000), 1)):
        rows.handed_over = 0
        rows(np.zeros(shape, np.float32), np.ones(shape, np.float32))
        assert rows.handed_over == asked, shape


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function from a kernel and arguments to an executable of a machine with caches of 64 KiB, as from the disk."""
    monkeypatch.setattr(cpu_backend, "cache_bytes", lambda: 1 << 16)
    backend = cpu_backend.CpuBackend()

    def make(kernel: Any, *args: Any) -> cpu_backend.CpuExecutable:
        artifact = backend.build(typed_ir(kernel, *args), VariantOptions(disjoint=True))
        return backend.load(Artifact(ast.literal_eval(repr(artifact.notes)), artifact.payload))

    return make


def runs_right(executable: cpu_backend.CpuExecutable, n: int) -> bool:
    a, out = np.random.default_rng(n).integers(0, 99, n).astype(np.int32), np.zeros(n, np.int32)
    assert launch(executable, out, a).status == STATUS_OK
    return np.array_equal(out, a * 3 + np.arange(n))


def test_the_second_code_is_made_by_the_first_long_loop(made: Any) -> None:
    """The pool's threads run it; short loops go on in the plain code."""
    executable = made(line, *(np.zeros(3, np.int32),) * 2)
    assert runs_right(executable, 8000) and not executable.streams.is_made
    assert runs_right(executable, 100_001) and executable.streams.is_made
    for n in (1_000_003, 8000, 8192, 100_001):
        assert runs_right(executable, n)


def test_kernels_without_streams_have_no_second_code(made: Any) -> None:
    assert made(updated, *(np.zeros(3, np.int32),) * 2).streams is None


def test_code_that_cannot_be_had(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain code runs instead, and no launch tries again."""
    tried = []

    def refuse(*args: Any) -> Any:
        tried.append(args)
        raise OSError("no memory for code")

    monkeypatch.setattr(stream_code, "kept", refuse)
    executable = made(line, *(np.zeros(3, np.int32),) * 2)
    for _ in range(3):
        assert runs_right(executable, 100_001)
    assert len(tried) == 1 and not executable.streams.is_made


@tack.kernel
def long_and_short(out, few, a, n):
    for i in range(a.shape[0]):
        out[i] = a[i] + 1
    for i in range(n):
        few[i] = a[i] * 2


def test_a_short_loop_beside_a_long_one(made: Any) -> None:
    """One launch has one code: each loop decides for itself there."""
    a = np.arange(300_000, dtype=np.int32)
    executable = made(long_and_short, a, a, a, 5)
    for n in (5, 40_000, 5):
        out, few = np.zeros_like(a), np.zeros_like(a)
        assert launch(executable, out, few, a, n).status == STATUS_OK
        assert np.array_equal(out, a + 1)
        assert np.array_equal(few[:n], a[:n] * 2) and not few[n:].any()
    assert executable.streams.is_made


def test_caches_of_this_machine(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last level, once for each group of processors that share one; 0 where nothing is said."""
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    for level, size, shared in ((2, "512K", "0,8"), (3, "32768K", "0-3,8-11")):
        folder = tmp_path / f"index{level}"
        folder.mkdir()
        (folder / "size").write_text(size + "\n")
        (folder / "shared_cpu_list").write_text(shared + "\n")
    assert cache_bytes(str(tmp_path)) == 2 * 32768 << 10
    assert cache_bytes(str(tmp_path / "none")) == 0
    assert replace(unit(), caches=0) == host_unit()
