"""The messages of ordinary mistakes as golden text: place, line, caret and what to write (SRC-6, SRC-7)."""

from __future__ import annotations

import gc
import linecache
import re
import textwrap
import traceback
import weakref

import numpy as np
import pytest

import tack
from tack.lang import debug
from tack.runtime import dispatch

A, OUT, INTS = (np.zeros(4, t) for t in (np.float32, np.float32, np.int32))
READ_ONLY = np.zeros(4, np.float32)
READ_ONLY.flags.writeable = False
COPY = "out[i] = a[i]"


def message(text, *args, **kwargs):
    """The error of calling the kernel `k` of a text, as its type and its message."""
    linecache.cache["user.py"] = (len(text), None, text.splitlines(keepends=True), "user.py")
    space = {"tack": tack, "np": np, "TABLE": (1, 2), "ARRAY": np.zeros(3)}
    exec(compile(text, "user.py", "exec"), space)
    before = [a.copy() for a in args if isinstance(a, np.ndarray)]
    with pytest.raises(Exception) as caught:
        space["k"](*args, **kwargs)
    after = [a for a in args if isinstance(a, np.ndarray)]
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True)), "rejected before storage changes"
    return f"{type(caught.value).__name__}: {caught.value}"


def in_loop(statement, params="a, out"):
    return f"@tack.kernel\ndef k({params}):\n    for i in range(4):\n        {statement}\n"


# Title, the statement of the loop, parameters, arguments, and the golden text.
GOLDEN = [
    # ------------------------------------------------------------------------------------------------- the call
    ("a missing argument", COPY, "a, out", (A,), """
        TypeError: user.py:2:10: in kernel `k`: nothing was given for `out`
            def k(a, out):
                     ^^^
          help: call it as k(a, out)
        """),
    ("an extra argument", COPY, "a, out", (A, OUT, 1), """
        TypeError: user.py:2:1: in kernel `k`: 3 positional arguments were given; it takes 2
            def k(a, out):
            ^^^^^
          help: call it as k(a, out)
        """),
    ("a list", COPY, "a, out", ([1.0], OUT), """
        TypeError: user.py:2:7: in kernel `k`: parameter `a` was given [1.0] of type list
            def k(a, out):
                  ^
          help: it takes numbers and arrays: a NumPy array, or tack.asarray(..., tack.vec3) for vectors; a tuple that the module or the class holds is a constant
        """),  # noqa: E501
    ("a word", COPY, "a, out", ("word", OUT), """
        TypeError: user.py:2:7: in kernel `k`: parameter `a` was given 'word' of type str
            def k(a, out):
                  ^
          help: it takes a tack.Array, a NumPy array, an object with DLPack, an int, a float, a bool or a typed scalar like tack.u8(3)
        """),  # noqa: E501
    ("a texture as an array", "out[i] = t[i]", "t, out", (tack.texture3d(A, shape=(4, 1, 1)), OUT), """
        TypeError: user.py:4:18: in kernel `k`: `t` is an instance of Texture3D, not a number or an array
            out[i] = t[i]
                     ^
          help: write `t.sample(u, v, w)`
        """),
    ("several values as one", "out[i] = tack.random.direction3(1, i)", "out", (OUT,), """
        TypeError: user.py:4:18: in kernel `k`: `direction3` returns 3 values; one is needed here
            out[i] = tack.random.direction3(1, i)
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
          help: unpack them: `a, b, c = direction3(...)`; `[a, b, c]` is a vector of them
        """),
    ("an integer of more than 64 bits", "out[i] = s", "out, s", (OUT, 2**64), """
        TypeError: user.py:2:12: in kernel `k`: parameter `s` was given 18446744073709551616
            def k(out, s):
                       ^
          help: it takes an integer of at most 64 bits
        """),
    ("a float beyond f32", "out[i] = s", "out, s", (OUT, 1e300), """
        ValueError: user.py:2:12: in kernel `k`: parameter `s`: 1e+300 is outside the range of f32, which a float argument becomes here
            def k(out, s):
                       ^
          help: pass tack.f64(1e+300), or annotate the parameter with tack.f64
        """),  # noqa: E501
    ("a pinned integer out of range", "out[i] = s", "out, s: tack.u8", (OUT, 300), """
        ValueError: user.py:2:12: in kernel `k`: parameter `s` was given 300
            def k(out, s: tack.u8):
                       ^^^^^^^^^^
          help: it takes an integer in [0, 255] (tack.u8)
        """),
    ("a float for a pinned integer", "out[i] = s", "out, s: tack.i32", (OUT, 1.5), """
        TypeError: user.py:2:12: in kernel `k`: parameter `s` was given 1.5 of type float
            def k(out, s: tack.i32):
                       ^^^^^^^^^^^
          help: it takes an integer, since it is annotated tack.i32
        """),
    ("an array of f16", COPY, "a, out", (A.astype(np.float16), OUT), """
        TypeError: user.py:2:7: in kernel `k`: parameter `a` was given a NumPy array of float16, shape (4,)
            def k(a, out):
                  ^
          help: it takes arrays of i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, not of NumPy dtype float16: use .astype(np.float32)
        """),  # noqa: E501
    ("a strided array", COPY, "a, out", (np.zeros(8, np.float32)[::2], OUT), """
        ValueError: user.py:2:7: in kernel `k`: parameter `a` was given a NumPy array of float32, shape (4,)
            def k(a, out):
                  ^
          help: it takes C-contiguous arrays, not one of shape (4,) with strides (8,) bytes: pass np.ascontiguousarray(a)
        """),  # noqa: E501
    ("a foreign byte order", COPY, "a, out", (A.astype(">f4"), OUT), """
        ValueError: user.py:2:7: in kernel `k`: parameter `a` was given a NumPy array of >f4, shape (4,)
            def k(a, out):
                  ^
          help: it takes arrays of native byte order, not '>f4': pass a.astype(a.dtype.newbyteorder('='))
        """),
    ("a read-only output", COPY, "a, out", (A, READ_ONLY), """
        ValueError: user.py:2:10: in kernel `k`: `out` is a read-only array, but the kernel stores to it
            def k(a, out):
                     ^^^
          help: pass a writable array, for instance a copy
        """),
    ("a number for an array", COPY, "a, out", (1.5, OUT), """
        TypeError: user.py:4:18: in kernel `k`: `a` is a number (f32), not an array
            out[i] = a[i]
                     ^^^^
          help: use `a` without an index or attribute, or pass an array for it
        """),
    # ------------------------------------------------------------------------------------------------- names
    ("an unknown name", "out[i] = a[i] + missing", "a, out", (A, OUT), """
        NameError: user.py:4:25: in kernel `k`: name `missing` is not defined
            out[i] = a[i] + missing
                            ^^^^^^^
          help: define it before the first call, or pass it as an argument
        """),
    ("a misspelt function", "out[i] = np.sqroot(a[i])", "a, out", (A, OUT), """
        NameError: user.py:4:18: in kernel `k`: module `np` has no `sqroot`
            out[i] = np.sqroot(a[i])
                     ^^^^^^^^^
          help: did you mean `np.sqrt`?
        """),
    ("an undefined local", "out[i] = x; x = 1", "a, out", (A, OUT), """
        NameError: user.py:4:18: in kernel `k`: local `x` is read, but nothing has assigned it
            out[i] = x; x = 1
                     ^
          help: assign it before this line
        """),
    ("a captured array", "out[i] = ARRAY[i]", "a, out", (A, OUT), """
        TypeError: user.py:4:18: in kernel `k`: `ARRAY` is a ndarray, which a kernel cannot capture
            out[i] = ARRAY[i]
                     ^^^^^
          help: pass it to the kernel as an argument
        """),
    ("a store to a captured tuple", "TABLE[i] = 1", "a", (A,), """
        TypeError: user.py:4:9: in kernel `k`: `TABLE` is a captured tuple, which cannot be changed
            TABLE[i] = 1
            ^^^^^^^^
          help: pass an array as an argument
        """),
    # ------------------------------------------------------------------------------------------------- types
    ("i64 and u64", "out[i] = a[i] + b[i]", "a, b, out", (A.astype(np.int64), A.astype(np.uint64), OUT), """
        TypeError: user.py:4:18: in kernel `k`: `+`: no integer type holds both i64 and u64
            out[i] = a[i] + b[i]
                     ^^^^^^^^^^^
          help: use an explicit integer cast: tack.i64(...) or tack.u64(...) around one of them, whichever wrap you mean
        """),
    ("u64 and a literal", "out[i] = a[i] + 1", "a, out", (A.astype(np.uint64), OUT), """
        TypeError: user.py:4:18: in kernel `k`: `+`: no integer type holds both u64 and i32
            out[i] = a[i] + 1
                     ^^^^^^^^
          help: use an explicit integer cast: tack.u64(1)
        """),
    ("a float as an index", "out[i] = a[i / 2]", "a, out", (A, OUT), """
        TypeError: user.py:4:20: in kernel `k`: an index is an integer, and this is f32
            out[i] = a[i / 2]
                       ^^^^^
          help: cast with tack.i64(...)
        """),
    ("a float in a shift", "out[i] = a[i] << 1", "a, out", (A, OUT), """
        TypeError: user.py:4:18: in kernel `k`: `<<` takes integers, and this operand is f32
            out[i] = a[i] << 1
                     ^^^^
          help: cast it to an integer type, such as tack.i64(x), if you mean its truncated value
        """),
    ("a wrong count of indices", "out[i] = a[i, i, i]", "a, out", (A, OUT), """
        TypeError: user.py:4:18: in kernel `k`: 3 indices for `a`, f32 array (1-d): it takes one index
            out[i] = a[i, i, i]
                     ^^^^^^^^^^
        """),
    ("an array as a number", "out[i] = a + 1", "a, out", (A, OUT), """
        TypeError: user.py:4:18: in kernel `k`: `a` is an array (f32 array (1-d)) where a number is needed
            out[i] = a + 1
                     ^
          help: read an element, such as a[i]; whole-array arithmetic is not part of the language
        """),
    ("a printed array", "print(a)", "a", (A,), """
        TypeError: user.py:4:15: in kernel `k`: `a` is an array (f32 array (1-d)) where a number is needed
            print(a)
                  ^
          help: read an element, such as a[i]; whole-array arithmetic is not part of the language
        """),
    ("a wrong count of arguments", "out[i] = tack.sqrt(a[i], 1)", "a, out", (A, OUT), """
        TypeError: user.py:4:18: in kernel `k`: `sqrt` takes 1 argument, not 2
            out[i] = tack.sqrt(a[i], 1)
                     ^^^^^^^^^^^^^^^^^^
        """),
    ("a negative power of an integer", "out[i] = i ** -1", "out", (OUT,), """
        TypeError: user.py:4:23: in kernel `k`: an integer to the power of -1 is no integer
            out[i] = i ** -1
                          ^^
          help: cast the base to a floating type for a negative power, such as tack.f32(x) ** -1
        """),
    ("a division by zero", "out[i] = i // 0", "out", (OUT,), """
        ValueError: user.py:4:23: in kernel `k`: `//` by the constant zero
            out[i] = i // 0
                          ^
          help: guard it with an if, or change the constant
        """),
    # ------------------------------------------------------------------------------------------------- syntax
    ("a comprehension", "x = [v for v in range(3)]", "out", (OUT,), """
        UnsupportedSyntaxError: user.py:4:13: in kernel `k`: a comprehension is not supported
            x = [v for v in range(3)]
                ^^^^^^^^^^^^^^^^^^^^^
          help: write a `for ... in range(...)` loop
        """),
    ("a slice", "out[i] = a[i:]", "a, out", (A, OUT), """
        UnsupportedSyntaxError: user.py:4:20: in kernel `k`: a slice is not supported
            out[i] = a[i:]
                       ^^
          help: index single elements in a `for ... in range(...)` loop
        """),
    ("a method", "out[i] = a.sum()", "a, out", (A, OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: a call of a method, `a.sum`, is not supported
            out[i] = a.sum()
                     ^^^^^
          help: values in a kernel have no methods; those of arrays work on the host
        """),
    ("an attribute", "out[i] = a.T[i]", "a, out", (A, OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: attribute `.T` is not supported
            out[i] = a.T[i]
                     ^^^
          help: an array has `.shape[k]`, `.size` and `.ndim`; a vector has `.x`, `.y`, `.z` and `.w`
        """),
    ("several components at once", "out[i] = v[i].zx.x", "v, out", (tack.zeros(4, tack.vec3), OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: attribute `.zx` is not supported
            out[i] = v[i].zx.x
                     ^^^^^^^
          help: write the components: `[v[i].z, v[i].x]`
        """),
    ("a tuple as a vector", "v[i] = (1, 2, 3)", "v", (tack.zeros(4, tack.vec3),), """
        UnsupportedSyntaxError: user.py:4:16: in kernel `k`: a tuple as a value is not supported
            v[i] = (1, 2, 3)
                   ^^^^^^^^^
          help: a vector is a list, `[a, b, c]`; to unpack, write `a, b = ...`
        """),
    ("a number for an annotated vector", "v: tack.vec3 = 0", "out", (OUT,), """
        TypeError: user.py:4:24: in kernel `k`: `v` is vec3, and this is i32
            v: tack.vec3 = 0
                           ^
          help: write tack.vec3(...), which takes one number for all components
        """),
    ("an array made in a kernel", "v = tack.zeros(3)", "out", (OUT,), """
        UnsupportedSyntaxError: user.py:4:13: in kernel `k`: a call of `tack.zeros`, which is neither a device function nor a builtin, is not supported
            v = tack.zeros(3)
                ^^^^^^^^^^
          help: arrays are made on the host; in a kernel `[x, y, z]` is a vector, `tack.local(shape, dtype)` an array
        """),  # noqa: E501
    ("the norm of NumPy", "out[i] = np.linalg.norm(v[i])", "v, out", (tack.zeros(4, tack.vec3), OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: a call of `np.linalg.norm`, which is neither a device function nor a builtin, is not supported
            out[i] = np.linalg.norm(v[i])
                     ^^^^^^^^^^^^^^
          help: write `tack.length`
        """),  # noqa: E501
    ("a shift out of an i32", "out[i] = 1 << 40", "out", (OUT,), """
        ValueError: user.py:4:23: in kernel `k`: a shift of i32 by 40: the count must be in [0, 32)
            out[i] = 1 << 40
                          ^^
          help: cast what is shifted to a wider type, `tack.i64(...)`, guard it with an if, or change the constant
        """),
    ("the shape of a texture", "out[i] = t.shape[0]", "t, out", (tack.texture3d(A, shape=(4, 1, 1)), OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: `t.shape` is a property, which is not supported
            out[i] = t.shape[0]
                     ^^^^^^^
          help: kernels sample a texture, `tex.sample(u, v, w)`; pass its extents as arguments
        """),
    ("a function of NumPy", "out[i] = np.sum(a)", "a, out", (A, OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: a call of `np.sum`, which is neither a device function nor a builtin, is not supported
            out[i] = np.sum(a)
                     ^^^^^^
          help: do it on the host, or write it with loops and builtins, which the language contract lists
        """),  # noqa: E501
    ("a function of NumPy that Tack has", "out[i] = np.dot(a, a)", "a, out", (A, OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: a call of `np.dot`, which is neither a device function nor a builtin, is not supported
            out[i] = np.dot(a, a)
                     ^^^^^^
          help: write `tack.dot`
        """),  # noqa: E501
    ("random numbers of NumPy", "out[i] = np.random.rand()", "a, out", (A, OUT), """
        UnsupportedSyntaxError: user.py:4:18: in kernel `k`: a call of `np.random.rand`, which is neither a device function nor a builtin, is not supported
            out[i] = np.random.rand()
                     ^^^^^^^^^^^^^^
          help: write for instance `tack.random.uniform(seed, i)`: tack.random has no hidden state
        """),  # noqa: E501
    ("a break", "break", "out", (OUT,), """
        UnsupportedSyntaxError: user.py:4:9: in kernel `k`: `break` out of a parallel loop is not supported
            break
            ^^^^^
          help: use `continue` to end this iteration; iterations have no order
        """),
    ("a return", "return i", "out", (OUT,), """
        UnsupportedSyntaxError: user.py:4:9: in kernel `k`: a `return` inside a parallel loop is not supported in a kernel
            return i
            ^^^^^^^^
          help: use `continue` to end this iteration
        """),  # noqa: E501
]  # fmt: skip


@pytest.mark.parametrize(("statement", "params", "args", "golden"), [g[1:] for g in GOLDEN], ids=[g[0] for g in GOLDEN])
def test_golden(device, statement, params, args, golden):
    """SRC-6, PAR-7, MATH-6, MEM-2 and the rule of each mistake: the same words on every device."""
    assert message(in_loop(statement, params), *args) == textwrap.dedent(golden).strip()


def test_golden_keywords(device):
    """PAR-1."""
    assert message(in_loop(COPY), A, out=OUT, q=1).splitlines()[0].endswith("in kernel `k`: there is no parameter `q`")
    repeated = message(in_loop(COPY), A, OUT, a=A).splitlines()
    assert repeated[0].endswith("in kernel `k`: two values were given for `a`")
    assert repeated[-1] == "  help: call it as k(a, out)"
    text = "@tack.kernel\ndef k(a, s=2, *, t=0.5):\n    for i in range(4):\n        a[i] = s + t\n"
    assert message(text).splitlines()[-1] == "  help: call it as k(a, s=2, *, t=0.5)"


FUNCTIONS = """
@tack.func
def f(x):
    return x << 1

@tack.func
def g(x):
    return f(x) + 1

@tack.func
def r(x):
    return r(x - 1)

@tack.kernel
def other(a):
    for i in range(1):
        a[i] = 1

"""


def test_golden_chain_of_calls(device):
    """SRC-7: where the mistake is, and how the compiler got there."""
    assert (
        message(FUNCTIONS + in_loop("out[i] = g(a[i])"), A, OUT)
        == textwrap.dedent(
            """
        TypeError: user.py:4:12: in device function `f`: `<<` takes integers, and this operand is f32
            return x << 1
                   ^
          help: cast it to an integer type, such as tack.i64(x), if you mean its truncated value
          called at user.py:8:12, in device function `g`
            return f(x) + 1
          called at user.py:22:18, in kernel `k`
            out[i] = g(a[i])
        """
        ).strip()
    )


def test_golden_recursion_and_kernels_in_kernels(device):
    """SYN-7."""
    recursion = message(FUNCTIONS + in_loop("out[i] = r(a[i])"), A, OUT).splitlines()
    assert (
        recursion[0]
        == "UnsupportedSyntaxError: user.py:12:12: in device function `r`: recursion is not supported: r -> r"
    )
    assert recursion[3] == "  help: write a loop"
    nested = message(FUNCTIONS + in_loop("other(a)"), A, OUT).splitlines()
    assert "a call of `other`" in nested[0]
    assert nested[3] == "  help: kernels are called on the host; make it a device function with @tack.func"


BOUNDS = [
    ("n[0]", (OUT, INTS), "an element of `n` is known only on the device"),
    ("n / 2", (OUT, 4), "`/` is not a host operation"),
    ("n", (OUT, 4.0), "a bound of a loop is an integer, and `n` is f32"),
]


@pytest.mark.parametrize(("bound", "args", "text"), BOUNDS, ids=[b[0] for b in BOUNDS])
def test_golden_bounds(device, bound, args, text):
    """LOOP-8."""
    given = message(f"@tack.kernel\ndef k(out, n):\n    for i in range({bound}):\n        out[i] = 1\n", *args)
    first, line, caret, advice = given.splitlines()
    assert first.split(": in kernel `k`: ")[0].endswith("user.py:3:20") and text in first
    assert caret == " " * line.rindex(bound) + "^" * len(bound) and advice.startswith("  help: ")


def test_no_message_names_the_compiler(device):
    """SRC-6: none of the golden texts names a class, a module or a file of ours; each but few says what to write."""
    texts = [textwrap.dedent(g[4]) for g in GOLDEN]
    assert not [t for t in texts if re.search(r"\bIR[A-Z]|ast\.|lowering|_\w+\(|tack/", t)]
    assert sum("help: " in t for t in texts) >= len(texts) - 3


# ------------------------------------------------------------------------------------------------------- the traceback

BAD = "@tack.kernel\ndef k(a, n):\n    for i in range(10 // n):\n        a[i] = b\n"
BOUND = BAD.replace("= b", "= 1")


def the_kernel(text):
    linecache.cache["user.py"] = (len(text), None, text.splitlines(keepends=True), "user.py")
    space = {"tack": tack}
    exec(compile(text, "user.py", "exec"), space)
    return space["k"]


def frames(text, *args):
    """The functions that a call's error leads through, and whether Python would show an error before it."""
    kernel = the_kernel(text)
    with pytest.raises(Exception) as caught:
        kernel(*args)
    error = caught.value
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return names, error.__cause__ or (error.__context__ if not error.__suppress_context__ else None)


@pytest.mark.parametrize(("text", "args"), [(BAD, (A, 1)), (BOUND, (A, 0)), (BOUND, ([1], 1)), (BOUND, (A,))])
def test_errors_about_user_code_lead_through_no_inside_of_tack(monkeypatch, text, args):
    """SRC-6: the message tells all; the frames inside of Tack are left out unless TACK_DEBUG asks for them."""
    monkeypatch.setattr(debug, "DEBUG", False)
    assert frames(text, *args) == (["frames", "__call__"], None)
    monkeypatch.setattr(debug, "DEBUG", True)
    assert len(frames(text, *args)[0]) > 3


def test_an_error_in_a_handler_shows_what_was_being_handled(monkeypatch):
    """SRC-6: Python's own context, and none of Tack's; no cycle keeps the arguments alive."""
    monkeypatch.setattr(debug, "DEBUG", False)
    first, kernel = ZeroDivisionError("of the user's"), the_kernel(BOUND)
    with pytest.raises(ValueError, match="divides by zero") as caught:
        try:
            raise first
        except ZeroDivisionError:
            kernel(A, 0)
    error = caught.value
    assert error.__context__ is first and error.__cause__ is None and not error.__suppress_context__
    mine = A.copy()
    ends = weakref.ref(mine)
    gc.collect()
    gc.disable()
    try:
        kernel(mine, 0)
    except ValueError as error:
        assert error.__context__ is None
    finally:
        del mine
        gone = ends() is None
        gc.enable()
    assert gone


def test_other_errors_keep_their_frames(monkeypatch):
    """A mistake of Tack's own is for its bug tracker, and must say where it is."""
    monkeypatch.setattr(debug, "DEBUG", False)

    def broken(*args):
        raise KeyError("a mistake")

    monkeypatch.setattr(dispatch.KernelState, "call", broken)
    assert frames(BOUND, A, 1) == (["frames", "__call__", "broken"], None)
