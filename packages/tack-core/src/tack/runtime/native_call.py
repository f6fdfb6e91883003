"""The native entry of kernel calls: built once a process, fed with tables of integers, one row a signature.

A call that the entry knows costs about what an empty Python function costs; every other call goes to
`Kernel.__call__`, which stays the reference. Where objects do not lie as expected (another interpreter, a free-threaded
build) the entry is not installed, and all calls take that path with the same answers.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from tack.codegen import call_table
from tack.codegen.call_entry_ir import call_entry_source
from tack.codegen.call_table import KEY_TYPED, SCALAR_REAL, SCALAR_SIGNED
from tack.lang.array import ARRAY_OFFSETS, Array
from tack.lang.kernel import KERNEL_OFFSETS, _Kernel
from tack.lang.names import MISSING, Capture, CellName, GlobalNames, ModuleNames
from tack.lang.records import record
from tack.lang.types import DTYPES, DType, Scalar, f32, i8
from tack.runtime.code_store import digest_of, is_kept
from tack.runtime.device import current_number
from tack.runtime.host_identity import code_target
from tack.runtime.native_code import NativeCode, keep_forever, kept

if TYPE_CHECKING:
    from tack.lang.kernel import Kernel
    from tack.runtime.binding import Binder

MAX_ROWS = 8
# NumPy's scalar types that are passed by value, and how the word behind their header is read.
NUMPY_SCALARS = {
    np.dtype(letter).type: 64 - 8 * np.dtype(letter).itemsize | kind
    for letters, kind in (("bhilq", SCALAR_SIGNED), ("?BHILQ", 0), ("fd", SCALAR_REAL))
    for letter in letters
}
_ENTRY_SYMBOL = "tack_entry"
_NATIVE_ORDER, _FOREIGN_ORDER = ("<", ">") if sys.byteorder == "little" else (">", "<")
_API = (
    "PyFloat_Type PyLong_Type PyBool_Type _Py_NoneStruct PyLong_AsLongLongAndOverflow "
    "PyFloat_FromDouble PyLong_FromLongLong PyLong_FromUnsignedLongLong PyDict_GetItemWithError "
    "PyTuple_Size PyTuple_GetItem PyObject_Vectorcall PyEval_SaveThread PyEval_RestoreThread Py_IncRef Py_DecRef"
).split()


@record(frozen=True)
class Row:
    """What the entry needs to launch one signature."""

    function: int
    release_bytes: int  # from this many bytes of arguments on the GIL is released; 0: always
    written_mask: int
    overlap: int
    result: int
    device: int
    context: int  # what the function is given after the argument block
    keys: tuple[int, ...]

    def words(self) -> tuple[int, ...]:
        return (
            self.function,
            self.release_bytes,
            self.written_mask,
            self.overlap,
            self.result,
            self.device,
            self.context,
            *self.keys,
        )


class Tables:
    """The tables of one kernel. A new one replaces the old by one store; the last few stay readable."""

    def __init__(self, kernel: Kernel, binder: Binder | None = None) -> None:
        """Without a binder all arguments are given by position."""
        self._kernel, self._binder = kernel, binder
        self._captures: tuple[Capture, ...] = ()
        self._rows: list[Row] = []
        self._kept: deque[object] = deque(maxlen=4)

    def publish(self, captures: tuple[Capture, ...], row: Row) -> None:
        """Make `row` known for these captured values; rows of other values are forgotten."""
        address = entry_address()
        if address == 0:
            return
        same = len(captures) == len(self._captures) and all(
            a.value is b.value for a, b in zip(captures, self._captures, strict=True)
        )
        if same and row in self._rows:
            return
        guards = Guards.of(captures)
        if guards is None:
            return
        self._captures = captures
        self._rows = [row, *(self._rows if same else ())][:MAX_ROWS]
        count = len(row.keys)
        blocks = [*guards.blocks(), *map(_words, self._parameters(count))]
        places = [ctypes.addressof(block) for block in blocks]
        flat = [count, guards.count, places[0], len(self._rows)]
        flat += [len(guards.cells) // call_table.CELL_WORDS, places[1], len(guards.dicts), places[2]]
        positional = self._binder.positional if self._binder else count
        flat += [count if positional == count else -1, positional, *places[3:]]
        flat += [w for r in self._rows for w in r.words()]
        table = (ctypes.c_int64 * len(flat))(*flat)
        self._kept.append((table, blocks, captures, self._binder))
        # In this order: the entry reads the table as soon as it is set.
        self._kernel._table = ctypes.addressof(table)
        self._kernel._entry = address

    def _parameters(self, count: int) -> tuple[list[int], list[int]]:
        """The addresses of their names, where they may be keywords, and of their defaults, or 0."""
        if self._binder is None:
            return [0] * count, [0] * count
        names = self._binder.names
        keywords = [0 if name in self._binder.positional_only else id(name) for name in names]
        return keywords, [id(self._binder.defaults[n]) if n in self._binder.defaults else 0 for n in names]

    def withdraw(self) -> None:
        """Send every call to the slow path until the next `publish`."""
        self._kernel._entry = 0
        self._captures, self._rows = (), []


class Guards:
    """What the entry compares of captured names: words for names in dicts, for cells, and the dicts."""

    def __init__(self) -> None:
        self.names: list[int] = []
        self.cells: list[int] = []
        self.dicts: list[int] = []

    @property
    def count(self) -> int:
        return len(self.names) // call_table.GUARD_WORDS

    @staticmethod
    def of(captures: Iterable[Capture]) -> Guards | None:
        """The guards of captured names; None if one of them cannot be looked up natively, or they are too many."""
        made = Guards()
        if not all(map(made._add, captures)) or len(made.dicts) > call_table.MAX_DICTS:
            return None
        return made

    def _add(self, c: Capture) -> bool:
        space = c.namespace
        if isinstance(space, CellName):
            self.cells += (id(space.cell), id(c.value))
        elif isinstance(space, GlobalNames) and isinstance(space.globals, dict) and isinstance(space.builtins, dict):
            self._add_name(space.globals, c, space.builtins)
        elif isinstance(space, ModuleNames) and isinstance(space.owner, DType):
            pass  # a dtype's attributes do not change
        elif isinstance(space, ModuleNames) and vars(space.owner).get(c.name, MISSING) is c.value:
            self._add_name(vars(space.owner), c, None)
        else:
            return False
        return True

    def _add_name(self, first: Mapping[str, Any], c: Capture, behind: Mapping[str, Any] | None) -> None:
        self.names += (id(first), id(c.name), id(c.value), 0 if behind is None else id(behind))
        for space in (first, behind):
            if space is not None and id(space) not in self.dicts:
                self.dicts.append(id(space))

    def blocks(self) -> list[Any]:
        """The three as memory that the entry reads; no dict has been looked at yet, so versions are -1."""
        versions = [word for dict_ in self.dicts for word in (dict_, -1)]
        return [_words(words) for words in (self.names, self.cells, versions)]


def _words(words: Sequence[int]) -> Any:
    return (ctypes.c_int64 * (len(words) + 1))(*words)


@functools.cache
def entry_address() -> int:
    """The address of the entry; 0 where this interpreter or NumPy lays out objects in an unknown way."""
    found = _text_and_digest()
    if found is None:
        return 0
    text, digest = found

    def make() -> NativeCode:
        from tack.runtime.llvm_jit import compiler

        return NativeCode.compiled(lambda far: compiler().compile_small(text, far), (_ENTRY_SYMBOL,))

    try:
        library = kept(digest, make).load(_imports())
    except (ImportError, LookupError, OSError):  # no LLVM, or a system that forbids code made at run time
        return 0
    keep_forever(library)
    return library.addresses[_ENTRY_SYMBOL]


@functools.cache
def _text_and_digest() -> tuple[str, str | None] | None:
    """The entry's text, and its name in the disk cache; None where it cannot work."""
    layout = find_layout()
    if layout is None:
        return None
    text, host = call_entry_source(layout, _FOREIGN_ORDER), code_target()
    return text, None if host is None else digest_of("call entry", host, text)


@functools.cache
def is_cheap() -> bool:
    """Whether the entry is at hand without compiling it."""
    found = _text_and_digest()
    return found is not None and is_kept(found[1])


_kept: list[object] = []


def _imports() -> dict[str, int]:
    codes = (ctypes.c_uint8 * 64)()
    for letter in "bBhHiIlLqQfd":
        numpy_type = np.dtype(letter)
        ours = next(t for t in DTYPES if t.numpy == numpy_type)
        codes[numpy_type.num] = ours.itemsize << 4 | ours.code
    scalars = (ctypes.c_int64 * (2 * len(NUMPY_SCALARS) + 1))(*chain(*((id(t), k) for t, k in NUMPY_SCALARS.items())))
    dtypes = (ctypes.c_int64 * (2 * len(DTYPES) + 1))(*chain(*((id(t), KEY_TYPED | t.code) for t in DTYPES)))
    _kept.extend((codes, scalars, dtypes))
    symbols = {name: _api_address(name) for name in _API}
    return symbols | {
        "tack_Array": id(Array),
        "tack_ndarray": id(np.ndarray),
        "tack_codes": ctypes.addressof(codes),
        "tack_numpy_scalars": ctypes.addressof(scalars),
        "tack_Scalar": id(Scalar),
        "tack_dtypes": ctypes.addressof(dtypes),
        "tack_slow": id(_Kernel.__call__),
        "tack_device": ctypes.addressof(current_number),
    }


def _api_address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def find_layout() -> call_table.Layout | None:
    """Where fields lie in objects here, checked on real objects; None if they do not lie as expected."""
    if not ARRAY_OFFSETS or not KERNEL_OFFSETS or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    probe = np.zeros((2, 3), np.float32)
    where = next(
        (i for i in range(0, object.__basicsize__, 8) if all(_word(x, i) == id(type(x)) for x in (1.5, 7, probe))), None
    )
    if where is None or object.__basicsize__ != 16:
        return None
    layout = call_table.Layout(
        ob_type=where,
        array_data=ARRAY_OFFSETS["_data"],
        array_nbytes=ARRAY_OFFSETS["_nbytes"],
        array_key=ARRAY_OFFSETS["_key"],
        array_dims=ARRAY_OFFSETS["_dims"],
        kernel_table=KERNEL_OFFSETS["_table"],
        kernel_running=KERNEL_OFFSETS["_running"],
        float_value=16,
        scalar_value=16,
        typed_dtype=16,
        typed_value=24,
        cell_content=16,
        dict_version=24 if _dicts_have_versions() else None,
    )
    return layout if _python_lies_so(layout) and _numpy_lies_so(layout, probe) else None


def _word(obj: object, offset: int, kind: Any = ctypes.c_uint64) -> int:
    return int(kind.from_address(id(obj) + offset).value)


def _python_lies_so(at: call_table.Layout) -> bool:
    held = object()

    def holder() -> object:
        return held

    (cell,) = holder.__closure__ or ()
    floats = ((0.5, 0x3FE0000000000000), (-2.0, -(1 << 62)))
    typed = Scalar(f32, 0.5), Scalar(i8, -3)
    return (
        _word(cell, at.cell_content) == id(held)
        and all(_word(x, at.float_value, ctypes.c_int64) == bits for x, bits in floats)
        and all(_word(x, at.typed_dtype) == id(x.dtype) and _word(x, at.typed_value) == id(x.value) for x in typed)
    )


def _dicts_have_versions() -> bool:
    """Whether the fourth word of a dict is new after each change; PEP 699 lets Python 3.14 and later drop it."""
    probe: dict[str, Any] = {"a": object(), "b": object()}
    changes = (
        lambda: probe.__setitem__("a", object()),
        lambda: probe.__setitem__("c", object()),
        lambda: probe.__delitem__("b"),
        lambda: probe.pop("a"),
        lambda: probe.update(c=object()),
        lambda: probe.setdefault("d", object()),
        lambda: exec("c = 1", probe),
        lambda: probe.popitem(),
        lambda: probe.clear(),
    )
    seen = {_word(probe, 24), _word({}, 24)}
    for change in changes:
        before = len(seen)
        probe.get("a")
        same = _word(probe, 24) in seen
        change()
        seen.add(_word(probe, 24))
        if not same or len(seen) == before:
            return False
    return True


def _numpy_lies_so(at: call_table.Layout, probe: np.ndarray[Any, Any]) -> bool:
    frozen = probe.copy()
    frozen.flags.writeable = False
    foreign = np.dtype(_FOREIGN_ORDER + "f4")
    return (
        _word(probe, at.ndarray_data) == probe.ctypes.data
        and _word(probe, at.ndarray_ndim, ctypes.c_int) == 2
        and (ctypes.c_int64 * 2).from_address(_word(probe, at.ndarray_dims))[:] == [2, 3]
        and _word(probe, at.ndarray_descr) == id(probe.dtype)
        and _word(probe, at.ndarray_flags, ctypes.c_int) & 0x501 == 0x501
        and _word(frozen, at.ndarray_flags, ctypes.c_int) & 0x501 == 0x101
        and _word(probe.T, at.ndarray_flags, ctypes.c_int) & 0x1 == 0
        and all(_word(np.dtype(t), at.descr_type_num, ctypes.c_int) == np.dtype(t).num for t in "bBhHiIlLqQfd")
        and _word(foreign, at.descr_byteorder, ctypes.c_uint8) == ord(_FOREIGN_ORDER)
        and all(_scalar_lies_so(at, kind) for kind in NUMPY_SCALARS)
    )


def _scalar_lies_so(at: call_table.Layout, kind: type[np.generic]) -> bool:
    """Whether a NumPy scalar's bytes lie where they should, in an object that has a whole word there."""
    probe = kind(1)
    held = (ctypes.c_char * probe.itemsize).from_address(id(probe) + at.scalar_value).raw
    return held == probe.tobytes() and kind.__basicsize__ >= at.scalar_value + 8
