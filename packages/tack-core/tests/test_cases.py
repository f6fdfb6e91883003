"""The small programs of public bug reports that broke other tools, each for its whole kind, on every device.

The numbers are those of the collection; rows about vectors, shared arrays and textures come with those parts.
"""

from __future__ import annotations

import doctest
import linecache
import math
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tack
from numeric_oracles import INTEGERS, a_dtype, is_slow, limits, wrap
from typing_rig import module

FLOATS = ("f32", "f64")


def run(params, value, out, *args, **names):
    """Store an expression of `i` to each element of `out`, in a kernel made for it; `out`."""
    loop(f"out[i] = {value}", f"out, {params}" if params else "out", "out.size", **names)(out, *args)
    return out


def loop(statement, params, bound, **names):
    """A kernel of one loop with one statement."""
    text = f"@tack.kernel\ndef k({params}):\n    for i in range({bound}):\n        {statement}\n"
    return module(text, **names)["k"]


def column(name, values):
    return np.array(values, a_dtype(name))


def zeros(name, count):
    return np.zeros(count, a_dtype(name))


# ------------------------------------------------------------------------------------------------------- atomics


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_case_14_a_thousand_atomic_additions(device, name):
    """ATOM-2: for every dtype; small ones wrap."""
    k = loop("tack.atomic_add(c, 0, 1)", "c, n", "n")
    cell, count = zeros(name, 3), 1024
    k(cell[1:2], count)
    assert cell.tolist() == [0, wrap(count, name) if name in INTEGERS else count, 0], "and no neighbour"


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("count", [1, 3, 16, 1000])
def test_cases_15_and_16_atomic_extrema(device, name, op, count):
    """ATOM-4: below zero, from an extreme start, with few iterations and with many."""
    if is_slow(device):
        count = min(count, 40)
    k = module(f"@tack.kernel\ndef k(c, v):\n    for i in range(v.size):\n        tack.atomic_{op}(c, 0, v[i])\n")["k"]
    if name in FLOATS:
        values, start = [-5.0 - (7 * n) % 101 for n in range(count)], -3e38 if op == "max" else 3e38
    else:
        low, high = limits(name)
        values = [(low + 3 + (7 * n) % 50) if op == "max" else (high - 3 - (7 * n) % 50) for n in range(count)]
        start = low if op == "max" else high
    cell, v = column(name, [start]), column(name, values)
    k(cell, v)
    assert cell.tolist() == [(min if op == "min" else max)(v.tolist())]


def test_case_16_as_reported(device):
    k = module("@tack.kernel\ndef k(c, v):\n    for i in range(v.size):\n        tack.atomic_min(c, 0, v[i])\n")["k"]
    for n in range(1, 17):
        cell, v = column("i32", [100]), np.arange(1, n + 1, dtype=np.int32)[::-1].copy()
        k(cell, v)
        assert cell[0] == 1


# --------------------------------------------------------------------------------------------------------- loops


@pytest.mark.parametrize("name", ["i32", "u64", "f32", "f64"])
def test_case_17_a_sum_that_starts_at_one(device, name):
    """LOOP-3: an accumulator's start counts once, in an iteration and in memory."""
    inner = module(
        f"""
        @tack.kernel
        def k(a, out):
            for i in range(out.size):
                total = tack.{name}(1)
                for j in range(a.size):
                    total += a[j]
                out[i] = total
        """
    )["k"]
    a = np.arange(100).astype(a_dtype(name))
    out = zeros(name, 9)
    inner(a, out)
    assert out.tolist() == [4951] * 9
    cell = column(name, [1])
    module("@tack.kernel\ndef k(a, c):\n    for i in range(a.size):\n        tack.atomic_add(c, 0, a[i])\n")["k"](
        a, cell
    )
    assert cell.tolist() == [4951]


def test_case_18_a_loop_reads_elsewhere_what_one_before_wrote(device):
    """LOOP-2: loops in a row are not fused, in an array, reversed, shifted or gathered."""
    k = module(
        """
        @tack.kernel
        def k(a, b, c):
            for i in range(a.size):
                b[i] = a[i] * 2
            for i in range(a.size):
                c[i] = b[a.size - 1 - i] + b[(i + 1) % a.size]
            for i in range(a.size):
                b[i] = c[(i * 7) % a.size]
        """
    )["k"]
    n = 50 if is_slow(device) else 100_003
    a = np.arange(n, dtype=np.int64)
    b, c = np.zeros_like(a), np.zeros_like(a)
    k(a, b, c)
    first = 2 * a
    second = first[::-1] + np.roll(first, -1)
    assert np.array_equal(c, second) and np.array_equal(b, second[(a * 7) % n])


# ------------------------------------------------------------------------------------------ captures and caching


def test_case_19_a_module_number_that_changes(device):
    """CAP-5: at every call, for every kind of number, seen by a device function too."""
    space = module(
        """
        N = 1
        @tack.func
        def g(x):
            return x + N
        @tack.kernel
        def k(out):
            for i in range(out.size):
                out[i] = N * 10 + g(0)
        """
    )
    out = np.zeros(1)
    for value in (1, 2, 2.5, True, np.float32(0.5), np.int64(7), 1, 2):
        space["N"] = value
        space["k"](out)
        assert out[0] == 11 * float(value)


def test_case_20_kernels_of_one_factory(device):
    """CAP-6: device functions, numbers and tuples, called by turns."""
    space = module(
        """
        def make(f, n, t):
            @tack.kernel
            def k(a, out):
                for i in range(out.size):
                    out[i] = f(a[i]) * n + t[i]
            return k
        @tack.func
        def double(x):
            return x * 2
        @tack.func
        def square(x):
            return x * x
        """
    )
    make, double, square = space["make"], space["double"], space["square"]
    a = np.array([3, 4])
    cases = [(f, n, t) for f in (double, square) for n in (1, 2) for t in ((0, 1), (1, 0))]
    kernels = [make(*case) for case in cases]
    for _ in range(12):
        for k, (f, n, t) in zip(kernels, cases, strict=True):
            out = np.zeros(2, int)
            k(a, out)
            assert out.tolist() == [(v * 2 if f is double else v * v) * n + s for v, s in zip((3, 4), t, strict=True)]


def test_case_21_the_same_name_and_line_after_an_edit(device, tmp_path):
    """SRC-4: the new body runs, and the old kernel keeps its own."""
    path = tmp_path / "edited.py"
    kernels = []
    for value in (1, 2, 3):
        path.write_text(
            f"import tack\n@tack.kernel\ndef f(out):\n    for i in range(out.size):\n        out[i] = {value}\n"
        )
        space = {}
        exec(compile(path.read_text(), str(path), "exec"), space)
        kernels.append(space["f"])
    for value, k in enumerate(kernels, 1):
        out = np.zeros(2)
        k(out)
        assert out.tolist() == [value] * 2


def test_case_22_keys_of_collected_objects(device):
    """SPEC-4: numbers and device functions that come and go, many at one address."""
    space = module(
        """
        def function(n):
            @tack.func
            def f(x):
                return x + n
            return f
        f = function(0)
        N = 0.0
        @tack.kernel
        def k(out):
            for i in range(out.size):
                out[i] = f(N)
        """
    )
    out = np.zeros(1)
    for n in range(20):
        space["f"] = space["function"](n)
        space["N"] = float(str(1000.5 + n))
        space["k"](out)
        assert out[0] == 1000.5 + 2 * n


def test_case_23_eight_threads_compile_once(device, monkeypatch, uncached):
    """SPEC-5, CALL-3: eight threads race on the first call, each with a scalar of its own."""
    compiled = []
    backend = type(device.backend)
    compile_ = backend.compile
    monkeypatch.setattr(backend, "compile", lambda self, *a: compiled.append(1) or compile_(self, *a))
    k = module("@tack.kernel\ndef k(out, s):\n    for i in range(out.size):\n        out[i] = s * 2\n")["k"]
    outs, barrier, errors = [np.zeros(100, np.int64) for _ in range(8)], threading.Barrier(8), []

    def work(n):
        try:
            with device:
                barrier.wait(30)
                for r in range(20):
                    k(outs[n], 100 * r + n)
                    assert (outs[n] == 2 * (100 * r + n)).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and len(compiled) == 1


# --------------------------------------------------------------------------------------------- arguments, memory


@pytest.mark.requires("host_memory")
@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_case_24_strided_views_are_refused(device, name):
    """PAR-6: transposed, stepped, reversed, a field; as input and as output; the message says to copy."""
    base = np.arange(12).astype(a_dtype(name)).reshape(3, 4)
    record = np.zeros(3, [("x", a_dtype(name)), ("y", a_dtype(name))])
    views = [base.T, base[:, ::2], base[:, 1:3], base.ravel()[::-1], record["y"]]
    for view in views:
        for args in ((view, zeros(name, view.size)), (zeros(name, view.size), view)):
            with pytest.raises(ValueError, match="ascontiguousarray"):
                module("@tack.kernel\ndef k(a, out):\n    for i in range(a.size):\n        out[i] = a[i]\n")["k"](*args)
        copied = run("a", "a[i]", zeros(name, view.size), np.ascontiguousarray(view))
        assert copied.tolist() == view.ravel().tolist()


def test_case_25_an_error_far_into_a_file(device, tmp_path):
    """SRC-6: the user's file, line and column, a caret, advice; no name of the compiler's."""
    path = tmp_path / "long.py"
    lines = ["import tack"] + [f"x{n} = {n}" for n in range(200)]
    lines += ["@tack.kernel", "def f(a):", "    for i in range(a.size):", "        a[i] = [v for v in (1, 2)]"]
    path.write_text("\n".join(lines) + "\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(tack.UnsupportedSyntaxError) as caught:
        space["f"](np.zeros(3))
    text = str(caught.value)
    assert text.startswith(f"{path}:205:16: in kernel `f`: ")
    shown, caret = text.splitlines()[1:3]
    assert shown.strip() == lines[204].strip() and caret.index("^") == shown.index("[v for")
    assert "help: " in text and "IR" not in text and "ast." not in text


def test_case_27_a_value_read_before_and_after_a_store(device):
    """MEM-4, LOOP-3: through another argument that is the same array, for whole and partial overlap."""
    k = module(
        """
        @tack.kernel
        def k(a, b, out):
            for i in range(out.size):
                before = a[i]
                b[i] = before + 1
                out[i] = a[i] * 100 + before
        """
    )["k"]
    for name in ("i32", "f64", "u16"):
        a, out = np.arange(4).astype(a_dtype(name)), zeros(name, 4)
        k(a, a, out)
        assert out.tolist() == [(v + 1) * 100 + v for v in range(4)]
        a = np.arange(4).astype(a_dtype(name))
        k(a, np.zeros_like(a), out)
        assert out.tolist() == [v * 101 for v in range(4)]
        both = tack.asarray(np.arange(4).astype(a_dtype(name)))
        k(both, both.reshape(2, 2), out)
        assert out.tolist() == [(v + 1) * 100 + v for v in range(4)]


THREADS = """
import numpy as np, tack, hashlib, sys
@tack.kernel
def k(a, out, cells):
    for i in range(a.size):
        x = a[i]
        for j in range(i % 7):
            x = x * 31 + j
        out[i] = x
        tack.atomic_add(cells, i % 13, x)
    for i in range(a.size):
        a[i] = out[a.size - 1 - i] ^ cells[i % 13]
a = np.arange(200_003, dtype=np.uint32)
out, cells = np.zeros_like(a), np.zeros(13, np.uint32)
for _ in range(3):
    k(a, out, cells)
from tack.runtime.cpu_pool import pool
print(hashlib.sha256(a.tobytes() + out.tobytes() + cells.tobytes()).hexdigest(), pool().threads)
"""


def test_case_28_any_number_of_threads(tmp_path):
    """LOOP-4: the same bits with 1, 2, 3 and 7 threads."""
    script = tmp_path / "threads.py"
    script.write_text(THREADS)
    found, sizes = set(), []
    for threads in (1, 2, 3, 7):
        environment = dict(os.environ, TACK_CPU_THREADS=str(threads), PYTHONPATH=os.pathsep.join(sys.path))
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        )
        digest, size = done.stdout.split()
        found.add(digest)
        sizes.append(int(size))
    assert len(found) == 1 and sizes == [1, 2, 3, 7]


def test_case_29_exec_cells_and_doctests(device):
    """SRC-1, SRC-4: registered text run again has the new body, a doctest's kernel works."""
    for value in (1, 2):
        out = np.zeros(2)
        text = f"@tack.kernel\ndef k(out):\n    for i in range(out.size):\n        out[i] = {value}\n"
        linecache.cache["<cell 7>"] = (len(text), None, text.splitlines(keepends=True), "<cell 7>")
        space = {"tack": tack}
        exec(compile(text, "<cell 7>", "exec"), space)
        space["k"](out)
        assert out.tolist() == [value] * 2
    example = """
    >>> @tack.kernel
    ... def k(out):
    ...     for i in range(out.size):
    ...         out[i] = 3
    >>> k(out); out.tolist()
    [3.0, 3.0]
    """
    parsed = doctest.DocTestParser().get_doctest(example, {"tack": tack, "out": np.zeros(2)}, "case29", None, 0)
    runner = doctest.DocTestRunner()
    assert runner.run(parsed).failed == 0


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the interpreter keeps no source of `python -c` before 3.13")
def test_case_29_python_c():
    text = (
        "import numpy as np, tack\n@tack.kernel\ndef k(out):\n    for i in range(out.size):\n        out[i] = 5\n"
        "out = np.zeros(2)\nk(out)\nprint(out.sum())"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "10.0"


def test_case_30_images_survive(device):
    """INT-2, INT-4: small unsigned pixels in and out, through arrays of either library."""
    image = np.array([[0, 127, 128], [200, 254, 255]], np.uint8)
    assert np.array_equal(tack.asarray(image).numpy(), image)
    assert tack.asarray(image)[1, 0] == 200
    for name in ("u8", "i16", "i32", "f32", "f64", "u64"):
        got = run("a", "a[i]", zeros(name, 6), image)
        assert got.tolist() == image.ravel().tolist()


def test_case_31_shapes_do_not_matter_to_compilation(device, monkeypatch, uncached):
    """LOOP-9, SPEC-3: one compilation for every extent and for constant loops of any length."""
    backend, texts = type(device.backend), []
    compile_ = backend.compile
    monkeypatch.setattr(backend, "compile", lambda self, *a: texts.append(a) or compile_(self, *a))
    k = module("@tack.kernel\ndef k(a, n):\n    for i in range(n):\n        a[i] = i\n")["k"]
    for extent in (10, 10**4, 10**7):
        a = tack.empty(extent, tack.i32)
        k(a, 10)
        assert a[9] == 9
    assert len(texts) == 1
    if device.name == "cpu":
        from tack.codegen.llvm_gen import LLVMCodeGen

        sizes = []
        for count in (10, 10**4, 10**7):
            long = loop(f"for j in range({count}): a[0] = j", "a", "1")
            long(np.zeros(1, np.int32))
            sizes.append(len(LLVMCodeGen(*texts[-1]).source()))
        assert max(sizes) - min(sizes) < 100, "constant loops are not unrolled when generated"


def test_case_32_nothing_to_do(device):
    """MEM-1, LOOP-10, LOOP-11: 0-d and zero-length arrays, empty and reversed ranges."""
    k = module(
        """
        @tack.kernel
        def k(a, b, n, m):
            for i in range(n, m):
                a[i] = 1
            for i, j in tack.ndrange((n, m), (m, m)):
                a[i] = 2
            for i, j in tack.ndrange((n, m), (n, m)):
                a[i] = 3
            for i in range(b.size):
                for j in range(5, 2):
                    b[i] = 4
        """
    )["k"]
    a, b = np.zeros(3), np.zeros(3)
    for n, m in [(5, 2), (0, 0), (-1, -5), (2**40, -(2**40))]:
        k(a, b, n, m)
    k(a, np.zeros(0), 5, 2)
    k(a, np.zeros((4, 0)), 5, 2)
    assert not a.any() and not b.any()
    point = np.zeros(())
    module("@tack.kernel\ndef k(p):\n    for i in range(p.size):\n        p[0] = p[0] + 7\n")["k"](point)
    assert point == 7


@pytest.mark.parametrize(("rank", "index"), [(3, "i, i"), (2, "i, i, i"), (1, "i, i"), (4, "i, i, i"), (0, "i, i")])
def test_case_33_a_wrong_count_of_indices(device, rank, index):
    """MEM-2: loads, stores and atomics are refused with the position."""
    a = np.zeros((2,) * rank)
    for statement in (
        f"out[i] = a[{index}]",
        f"a[{index}] = 1",
        f"a[{index}] += 1",
        f"tack.atomic_add(a, ({index}), 1)",
    ):
        k = module(f"@tack.kernel\ndef k(a, out):\n    for i in range(1):\n        {statement}\n")["k"]
        with pytest.raises(TypeError, match=r":4:\d+: in kernel `k`"):
            k(a, np.zeros(1))
    assert not a.any()


@pytest.mark.parametrize("count", [10**6, 2**24 + 5])
def test_case_35_a_sum_of_ones(device, count):
    """RED-4, RED-6: within the budget; exact, and the same bits on every device, when reproducible."""
    if is_slow(device):
        count //= 16
    ones = tack.ones(count, tack.f32)
    unit = 2.0**-24
    assert abs(ones.sum() - count) <= count * unit / (1 - count * unit) * count if count * unit < 1 else True
    assert ones.sum(reproducible=True) == float(np.float32(count))
    values = np.random.default_rng(3).standard_normal(10_001).astype(np.float32)
    exact = float(np.float32(math.fsum(values.tolist())))
    for order in (values, values[::-1].copy(), values.reshape(73, 137)):
        assert tack.asarray(order).sum(reproducible=True) == exact
