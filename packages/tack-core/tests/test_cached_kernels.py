"""Kernels from the disk cache: what finds them, that they run without the compiler, and what never runs (CACHE-*)."""

from __future__ import annotations

import itertools
import linecache
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tack
from tack.lang.free_names import contents
from tack.runtime import code_store, disk_cache, host_identity, lowering
from tack.runtime.backend import Backend
from tack.runtime.disk_cache import DiskCache
from tack.runtime.lowering import find_lowering

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.usefixtures("store")  # also where the cache of this process is off
SOURCE = Path(tack.__file__).parent
_count = itertools.count()


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A cache of this test's own."""
    made = DiskCache(str(tmp_path / "cache"))
    monkeypatch.setattr(code_store, "cache", lambda: made)
    # Whoever works on Tack while its tests run should not see them fail.
    monkeypatch.setattr(code_store, "tack_digest", lambda: "this Tack")
    monkeypatch.setattr(code_store, "sources_have_changed", lambda: False)
    return made


def module(text, **names):
    """What a module of this text defines; each has a file of its own."""
    name = f"<cached {next(_count)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"tack": tack, "__name__": "user", **names}
    exec(compile(text, name, "exec", dont_inherit=True), space)
    return space


KERNEL = """
@tack.func
def f(x):
    return x + K
@tack.kernel
def k(out):
    for i in range(out.shape[0]):
        out[i] = f(N)
"""


def digest(space, name="k"):
    kernel = space[name]
    found = contents(kernel.source)
    return None if found is None else code_store.digest_of("kernel", found.content, kernel.group)


def entries(store):
    return {os.path.basename(e.path)[:-4] for e in store.entries()}


def built(monkeypatch):
    """The compilations from here on."""
    backend = type(tack.device("cpu").backend)
    seen, build = [], backend.build
    monkeypatch.setattr(backend, "build", lambda self, *args: seen.append(args) or build(self, *args))
    return seen


def is_elf_x86():
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def run(space, dtype=np.float64):
    out = np.zeros(3, dtype)
    space["k"](out)
    return out.tolist()


# ------------------------------------------------------------------------------------------------------------- the key


def test_a_second_kernel_of_the_same_content_is_not_compiled(store, monkeypatch):
    """CACHE-1: another file, other objects, the same text and values."""
    seen = built(monkeypatch)
    assert run(module(KERNEL, N=2.0, K=1.0)) == [3.0] * 3
    assert len(seen) == 1
    assert run(module(KERNEL, N=2.0, K=1.0)) == [3.0] * 3
    assert run(module("\n\n# moved\n" + KERNEL, N=2.0, K=1.0)) == [3.0] * 3
    assert len(seen) == 1


def test_a_device_is_told_that_it_will_build(store, monkeypatch):
    """By the arrays of a call, before the kernel is lowered; not if the code is in the cache."""
    order, lower = [], lowering.lower_kernel_for
    monkeypatch.setattr(lowering, "lower_kernel_for", lambda *args: order.append("lowered") or lower(*args))
    monkeypatch.setattr(Backend, "expect_build", lambda self: order.append(self.name))
    for _ in range(2):
        out = tack.zeros(3)
        module(KERNEL, N=2.0, K=1.0)["k"](out)
        assert out.numpy().tolist() == [3.0] * 3
        assert order == ["cpu", "lowered", "cpu"]


def test_everything_that_code_depends_on_is_in_the_key(store, monkeypatch):
    """CACHE-2: text, captured values with type and bits, device functions, what they capture, the group."""
    plain = {"N": 2, "K": 1}
    group = KERNEL.replace("@tack.kernel", "@tack.kernel(group=64)")
    spaces = [
        module(KERNEL, **plain),
        module(KERNEL.replace("range(out.shape[0])", "range(0, out.shape[0])"), **plain),
        module(KERNEL.replace("x + K", "K + x"), **plain),
        module(group, **plain),
        *(module(KERNEL, **{**plain, "N": n}) for n in (3, 2.0, True, np.int64(2), np.float32(2), (2,), 0.0, -0.0)),
        *(module(KERNEL, **{**plain, "K": k}) for k in (2, 1.0, float("nan"), float("inf"))),
        *(module(KERNEL, **{**plain, "N": tack.constant(2, t)}) for t in (None, tack.u8, tack.i8, tack.f32)),
    ]
    digests = [digest(space) for space in spaces]
    assert None not in digests
    assert len(set(digests)) == len(digests)
    assert digest(module(KERNEL, **plain)) == digests[0], "equal content has an equal digest"


def test_annotations_attributes_and_names_of_builtins_are_in_the_key():
    """CACHE-2: pinned types, constants of modules, what `range` or `abs` is just now."""
    text = "@tack.kernel\ndef k(out, n: T):\n    for i in range(n):\n        out[i] = abs(C.V)\n"

    def constants(value):
        made = type(os)("constants")
        made.V = value
        return made

    base = {"T": tack.i32, "C": constants(1)}
    spaces = [
        module(text, **base),
        module(text, **{**base, "T": tack.i64}),
        module(text, **{**base, "C": constants(2)}),
    ]
    spaces.append(module("from __future__ import annotations\n" + text, **base))
    spaces.append(module("from __future__ import annotations\n" + text, **{**base, "T": tack.u16}))
    spaces.append(module(text, **base, abs=tack.sqrt))
    digests = [digest(space) for space in spaces]
    assert None not in digests
    assert len(set(digests)) == len(digests)


def test_defaults_of_device_functions_are_in_the_key(store):
    """CACHE-2, FUNC-1: a default is no name that the code reads, but a value that calls bake in; through any depth."""
    text = """
@tack.func
def f(x, a=D, *, b=E):
    return x + a + b
@tack.func
def g(x):
    return f(x)
@tack.kernel
def k(out, s=D):
    for i in range(out.shape[0]):
        out[i] = g(i) + f(i, b=0)
"""
    for d, e in itertools.product((1, 2.0, True, tack.u8(3)), (10, 20.5, tack.constant(7, tack.i64))):
        x, y = (float(v.value if hasattr(v, "value") else v) for v in (d, e))
        assert run(module(text, D=d, E=e)) == [i + x + y + i + x for i in range(3)], (d, e)
    kernels = text.replace("D, *", "1, *").replace("b=E", "b=2")
    assert digest(module(kernels, D=1)) == digest(module(kernels, D=2)) is not None, "a kernel's default is an argument"
    assert digest(module(text, D=1, E=[3])) is None, "what has no description"


def test_a_rebound_name_is_another_content():
    """CACHE-2, CAP-5: the digest is that of now."""
    space = module(KERNEL, N=2, K=1)
    first = digest(space)
    space["K"] = 7
    second = digest(space)
    space["f"] = module("@tack.func\ndef f(x):\n    return x\n")["f"]
    third = digest(space)
    assert len({first, second, third}) == 3


@pytest.mark.parametrize("value", [object(), np.zeros(3), "text", None, int, len, [1, 2]])
def test_what_has_no_description_is_not_kept(value):
    """CACHE-2: the kernel is compiled, or refused, as without a cache. `len` is known by its meaning."""
    space = module("@tack.kernel\ndef k(out):\n    for i in range(3):\n        out[i] = V\n", V=value)
    assert (digest(space) is not None) == (value in (int, len) if callable(value) else False)


def test_version_processor_options_and_types_are_in_the_key(store, monkeypatch):
    """CACHE-2: each makes new entries; the first ones are found again."""
    space = dict(N=2.0, K=1.0)
    run(module(KERNEL, **space))
    first = entries(store)
    assert len(first) == 2, "a kernel and a variant"
    target = host_identity.code_target()
    from tack.runtime import cpu_backend

    monkeypatch.setattr(cpu_backend, "code_target", lambda: target + " with another feature")
    run(module(KERNEL, **space))
    second = entries(store)
    assert len(second) == 3
    monkeypatch.setattr(code_store, "tack_digest", lambda: "another Tack")
    run(module(KERNEL, **space))
    assert len(entries(store)) == 5
    monkeypatch.setattr(code_store, "tack_digest", lambda: "this Tack")
    monkeypatch.setattr(cpu_backend, "code_target", lambda: target)
    run(module(KERNEL, **space), np.float32)
    assert len(entries(store)) == 6
    both = module("@tack.kernel\ndef k(a, b):\n    for i in range(3):\n        a[i] = b[i]\n")
    x, y = np.zeros(3), np.ones(3)
    both["k"](x, y)
    before = len(entries(store))
    both["k"](x, x)
    assert len(entries(store)) == before + 1, "overlapping arguments have code of their own"
    seen = built(monkeypatch)
    assert run(module(KERNEL, **space)) == [3.0] * 3
    assert seen == []


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Two files for Tack's own, and a process that loaded them later."""
    root = tmp_path / "tack"
    for folder, text in (("lang", "x = 1\n"), ("runtime", "y = 1\n")):
        (root / folder).mkdir(parents=True)
        (root / folder / "a.py").write_text(text)
    monkeypatch.setattr(host_identity, "__file__", str(root / "runtime" / "host_identity.py"))
    monkeypatch.setattr(host_identity, "cache", lambda: DiskCache(str(tmp_path / "cache")))
    monkeypatch.setattr(host_identity, "_stamped", {})
    monkeypatch.setattr(host_identity, "_loaded_before", {name for name in sys.modules if name.startswith("tack.")})
    monkeypatch.setattr(host_identity, "LOADED", time.time_ns() + 10**12)
    return root


def tack_digest():
    return host_identity.tack_digest.__wrapped__()


def test_tack_is_told_by_the_content_of_its_files(sources):
    """CACHE-2: not by size and times, which another version may share; and touching a file makes no other Tack."""
    file = sources / "lang" / "a.py"
    known = tack_digest()
    assert tack_digest() == known
    info = file.stat()
    file.write_text("x = 2\n")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (info.st_size, info.st_mtime_ns)
    other = tack_digest()
    assert other != known
    assert tack_digest() == other, "also from the note of the first time"
    file.write_text("x = 1\n")
    os.utime(file)
    assert tack_digest() == known
    file.rename(file.with_name("b.py"))
    assert tack_digest() not in (known, None)


def test_a_tack_that_changes_under_a_process_keeps_nothing(sources, monkeypatch):
    """CACHE-2: what is loaded before and after is no version at all."""
    assert tack_digest() is not None
    late = ModuleType("tack.lang.late")
    late.__file__ = str(sources / "lang" / "a.py")
    monkeypatch.setitem(sys.modules, late.__name__, late)
    assert not host_identity.sources_have_changed()
    (sources / "lang" / "a.py").write_text("x = 3\n")
    assert host_identity.sources_have_changed()
    late.__file__ = str(sources / "lang" / "new.py")
    assert host_identity.sources_have_changed(), "it was not there"
    assert tack_digest() is not None
    assert not host_identity.sources_have_changed(), "what was loaded before that is of the files as they are"
    monkeypatch.setattr(host_identity, "LOADED", 10**9)
    assert tack_digest() is None


def test_the_processor_is_told_by_its_features(tmp_path):
    """CACHE-2: a machine with one feature less is another target; frequencies and counters are no part of it."""
    text = "processor: 0\nvendor_id: X\nmodel: 7\ncpu MHz: 1000.5\nflags: fpu sse avx\n\nprocessor: 1\n"
    file = tmp_path / "cpuinfo"

    def identity(text):
        file.write_text(text)
        return host_identity.cpu_identity(str(file))

    known = identity(text)
    assert known is not None
    assert identity(text.replace("1000.5", "2500.1")) == known
    assert identity(text.replace(" avx", "")) != known
    assert identity(text.replace("model: 7", "model: 8")) != known
    assert identity("processor: 0\n") is None
    assert host_identity.cpu_identity(str(tmp_path / "nothing")) is None


def test_every_capture_of_a_lowering_is_in_the_content(store):
    """CACHE-2: a lowering that reads what the content does not describe has no digest; here it has one."""
    own = "@tack.kernel\ndef m(out):\n    for i in range(3):\n        out[i] = math.radians(math.pi)\n"
    space = module(KERNEL + own, N=1, K=2, math=math)
    for name in ("k", "m"):
        found = find_lowering(space[name], None)
        assert found.digest is not None
        known = {c.name for c in contents(space[name].source).captures}
        user = [c for c in found.captures if getattr(c.namespace, "globals", {}).get("__name__") == "user"]
        assert {c.name for c in user} <= known


# ----------------------------------------------------------------------------------------------------- what never runs


def poisoned(store, monkeypatch):
    """A kernel that stores 1, a kernel that stores 666 (the mark), and the name of each variant's entry."""
    text = "@tack.kernel\ndef k(out):\n    for i in range(out.shape[0]):\n        out[i] = {}\n"
    names = []
    for value in (1, 666):
        before = entries(store)
        run(module(text.format(value)))
        new = entries(store) - before
        (name,) = [n for n in new if b"'artifact'" in store.get(n)]
        names.append(name)
    return text.format(1), *names


def test_hostile_entries_never_run(store, monkeypatch):
    """CACHE-3: code that would leave a mark, in an entry of another name, or of another secret, is rebuilt."""
    text, good, bad = poisoned(store, monkeypatch)
    path = {name: os.path.join(store.folder, name + ".bin") for name in (good, bad)}
    stranger = DiskCache(os.path.join(store.folder, "stranger"))
    stranger.put(good, store.get(bad))
    swapped = Path(path[bad]).read_bytes()
    foreign = Path(stranger.folder, good + ".bin").read_bytes()
    payload_only = Path(path[good]).read_bytes()[:40] + store.get(bad)
    for hostile in (swapped, foreign, payload_only, b"", b"\x90" * 5000):
        Path(path[good]).write_bytes(hostile)
        assert run(module(text)) == [1.0] * 3
        assert b"'artifact'" in store.get(good), "rebuilt and kept"
    # The negative control: put there with the user's own secret, that code does run and leaves its mark.
    store.put(good, store.get(bad))
    assert run(module(text)) == [666.0] * 3


def test_damaged_code_never_runs(store, monkeypatch):
    """CACHE-3: one bit of the machine code, anywhere, and the entry is rebuilt."""
    text, good, _ = poisoned(store, monkeypatch)
    path = Path(store.folder, good + ".bin")
    whole = path.read_bytes()
    seen = built(monkeypatch)
    for count, at in enumerate(range(len(whole) - 1, 40, -len(whole) // 9), 1):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        assert run(module(text)) == [1.0] * 3
        assert len(seen) == count


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xff\xff\xff{}",
        b"\2\0\0\0{}",
        b"\2\0\0\0[]",
        b"\x0c\0\0\0{'result': 1",
        b"\x1f\0\0\0__import__('os').system('true')",
    ],
)
def test_notes_that_are_none(store, monkeypatch, payload):
    """CACHE-3: what the user's secret vouches for and yet makes no sense (another version's, say) is rebuilt."""
    text, good, _ = poisoned(store, monkeypatch)
    store.put(good, payload)
    assert run(module(text)) == [1.0] * 3
    assert b"'artifact'" in store.get(good)


def test_an_image_that_reaches_outside_itself_is_refused():
    """CACHE-3: places of words and exports are checked before anything is mapped."""
    from tack.runtime.native_image import PAGE, Image

    good = Image(b"\xc3", (PAGE, 2 * PAGE, 2 * PAGE), {"f": 0}, (("memset", PAGE, 0),), ((PAGE + 8, 0),))
    assert Image.described(good.describe(), good.content) == good
    for change in (
        {"ends": (PAGE, PAGE + 1, 2 * PAGE)},
        {"ends": (0, PAGE, PAGE)},
        {"ends": (2 * PAGE, PAGE, 3 * PAGE)},
        {"exports": {"f": PAGE}},
        {"exports": {"f": -1}},
        {"imports": (("memset", 2 * PAGE, 0),)},
        {"imports": (("memset", 0, 0),)},
        {"relative": ((2 * PAGE - 7, 0),)},
        {"relative": ((-8, 0),)},
        {"page": 2 * PAGE},
    ):
        with pytest.raises(ValueError, match=r"image|export"):
            Image.described(good.describe() | change, good.content)


# ------------------------------------------------------------------------------------------------------ after a hit


def test_new_types_errors_and_rebinding_after_a_hit(store, monkeypatch):
    """CACHE-1: a kernel from the disk is a kernel: it compiles what it lacks, explains errors, sees rebound names."""
    text = "@tack.kernel\ndef k(out, n):\n    for i in range(n + BIG):\n        out[i] = V\n    return V + n\n"
    out = np.zeros(3)
    assert module(text, V=1.5, BIG=0)["k"](out, 3) == 4.5
    seen = built(monkeypatch)
    space = module(text, V=1.5, BIG=0)
    assert space["k"](out, 3) == 4.5
    assert seen == []
    wide = np.zeros(3, np.int32)
    space["k"](wide, 3)
    assert wide.tolist() == [1, 1, 1]
    assert len(seen) == 1
    space["V"] = 2.5
    assert space["k"](out, 3) == 5.5
    assert out.tolist() == [2.5] * 3
    space["V"], space["BIG"] = 1.5, 2**62
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        space["k"](out, 2**62)
    space["BIG"] = 0
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        space["k"](frozen, 3)
    with pytest.raises(TypeError):
        space["k"](out)


def test_printing_from_the_disk(store, capfd):
    """CACHE-1: texts and types of a print come with the code."""
    text = "@tack.kernel\ndef k(out):\n    for i in range(1):\n        print('x', out[i], i, sep='|')\n"
    shown = []
    for _ in range(2):
        run(module(text))
        shown.append(capfd.readouterr().out)
    assert shown == ["x|0.0|0\n"] * 2


def test_what_cannot_be_linked_here_is_kept_as_an_object(store, monkeypatch):
    """CACHE-1: another system's object format: LLVM links it, from the disk too."""
    from tack.runtime import elf_image

    monkeypatch.setattr(elf_image, "link", lambda *args: None)
    assert run(module(KERNEL, N=2.0, K=1.0)) == [3.0] * 3
    seen = built(monkeypatch)
    assert run(module(KERNEL, N=2.0, K=1.0)) == [3.0] * 3
    assert seen == []


@pytest.mark.skipif(not is_elf_x86(), reason="only ELF for x86-64 is linked without LLVM")
@pytest.mark.parametrize("body", ["i", "K", "f(i) / 3", "tack.sin(i * 0.5) ** 2.5", "i // K + i % 7", "T[i % 3]"])
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
def test_code_of_this_machine_is_linked_without_llvm(store, body, dtype):
    """CACHE-1: constants, jump tables, calls of the C library and of the pool: none falls back to LLVM's linker."""
    text = KERNEL.replace("f(N)", body)
    out, again = np.zeros(40, dtype), np.zeros(40, dtype)
    module(text, N=1, K=5, T=(3, 1, 2))["k"](out)
    (name,) = [n for n in entries(store) if b"'artifact'" in store.get(n)]
    assert b"'image'" in store.get(name)
    module(text, N=1, K=5, T=(3, 1, 2))["k"](again)
    assert out.tobytes() == again.tobytes()


@pytest.mark.parametrize("broken", ["open", "makedirs", "replace"])
def test_kernels_work_with_a_broken_disk(store, monkeypatch, broken):
    """CACHE-5."""

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, broken, fail)
    for _ in range(2):
        assert run(module(KERNEL, N=2.0, K=1.0)) == [3.0] * 3
    monkeypatch.undo()


# -------------------------------------------------------------------------------------------------------- processes

PROGRAM = """
import sys
import numpy as np
import tack

K = 3

@tack.func
def f(x):
    return x * K

@tack.kernel
def k(a, out):
    for i in range(a.shape[0]):
        out[i] = f(a[i])
    return 7

a, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
assert k(a, out) == 7
assert out.tolist() == [0, 3, 6, 9, 12]
"""
MODULES = (
    "llvmlite tack.lang.ir tack.lang.ast_transform tack.codegen.llvm_gen tack.runtime.compilation json hashlib".split()
)
LOADED = f"print(*[name for name in {MODULES!r} if name in sys.modules])\n"
FORKS = """
children = []
for _ in range(32):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(opener)
            os.read(gate, 1)
            run()
            status = 0
        finally:
            os._exit(status)
    children.append(child)
os.close(opener)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children].count(0))
"""


def start(file, folder, **more):
    packages = folder.parent / "packages"  # a Tack that nobody works on meanwhile
    if not packages.exists():
        shutil.copytree(SOURCE, packages / "tack", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"TACK_CACHE_DIR": str(folder), "PYTHONPATH": str(packages), "TACK_CACHE": "1"} | more
    done = subprocess.run([sys.executable, str(file)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_later_process_runs_without_the_compiler(tmp_path):
    """CACHE-1: neither LLVM nor Tack's own compiler is imported; with TACK_CACHE=0 both are, and nothing is written."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM + LOADED)
    off = tmp_path / "off"
    assert set(start(file, off, TACK_CACHE="0")) >= {"llvmlite", "tack.lang.ir"}
    assert not off.exists()
    assert set(start(file, tmp_path / "cache")) >= {"llvmlite", "tack.lang.ir"}
    assert start(file, tmp_path / "cache") == []


def test_the_pool_and_the_call_entry_are_kept_too(tmp_path):
    """CACHE-1: neither the first shared loop nor a hundred calls import the compiler in a later process."""
    file = tmp_path / "program.py"
    many = "a, out = np.ones((2, 1 << 20), np.float32)\nk(a, out)\nassert out.tolist() == [3] * out.size\n"
    calls = "for _ in range(100):\n    k(a[:3], out[:3])\n"
    made = "print(*sorted({'tack.runtime.cpu_pool', 'tack.runtime.native_call'} & set(sys.modules)))\n"
    file.write_text(PROGRAM + many + calls + made + LOADED)
    both = ["tack.runtime.cpu_pool", "tack.runtime.native_call"]
    first = start(file, tmp_path / "cache", TACK_CPU_THREADS="2")
    assert first[:2] == both and set(first) >= {"llvmlite", "tack.lang.ir"}
    assert start(file, tmp_path / "cache", TACK_CPU_THREADS="2") == both


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_32_processes_at_once(tmp_path):
    """CACHE-5: in an empty cache all succeed; what they leave is whole, and serves the next."""
    body = PROGRAM.partition("a, out =")
    text = body[0] + "import os\ndef run():\n    " + (body[1] + body[2]).replace("\n", "\n    ")
    text += "\ngate, opener = os.pipe()\n" + FORKS
    file = tmp_path / "forks.py"
    file.write_text(text)
    assert start(file, tmp_path / "cache") == ["32"]
    store = DiskCache(str(tmp_path / "cache"))
    names = entries(store)
    assert len(names) == 3, "the digest of Tack, a kernel, a variant"
    assert all(store.get(name) for name in names)
    assert sorted(os.listdir(store.folder)) == sorted([*(f"{n}.bin" for n in names), "key"])
    again = tmp_path / "program.py"
    again.write_text(PROGRAM + LOADED)
    assert start(again, tmp_path / "cache") == []


def test_the_switch_of_this_process():
    """CACHE-1: `cache()` is asked once; the tests run with a folder of their own."""
    assert disk_cache.cache() is None or "TACK_CACHE_DIR" in os.environ
