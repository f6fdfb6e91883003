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
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tack.codegen import call_entry_ir as entry_ir
from tack.lang.array import ARRAY_OFFSETS, Array
from tack.lang.kernel import KERNEL_OFFSETS, _Kernel
from tack.lang.names import MISSING, Capture, CellName, GlobalNames, ModuleNames
from tack.lang.records import record
from tack.lang.types import DTYPES, DType
from tack.runtime.code_store import digest_of, is_kept
from tack.runtime.device import current_number
from tack.runtime.host_identity import code_target
from tack.runtime.native_code import NativeCode, keep_forever, kept

if TYPE_CHECKING:
    from tack.lang.kernel import Kernel

MAX_ROWS = 8
_ENTRY_SYMBOL = "tack_entry"
_NATIVE_ORDER, _FOREIGN_ORDER = ("<", ">") if sys.byteorder == "little" else (">", "<")
_API = (
    "PyFloat_Type PyLong_Type PyBool_Type _Py_NoneStruct PyFloat_AsDouble PyLong_AsLongLongAndOverflow "
    "PyFloat_FromDouble PyLong_FromLongLong PyLong_FromUnsignedLongLong PyDict_GetItemWithError PyCell_Get "
    "PyTuple_Size PyObject_Vectorcall PyEval_SaveThread PyEval_RestoreThread Py_IncRef Py_DecRef"
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
    keys: tuple[int, ...]

    def words(self) -> tuple[int, ...]:
        return (
            self.function,
            self.release_bytes,
            self.written_mask,
            self.overlap,
            self.result,
            self.device,
            *self.keys,
        )


class Tables:
    """The tables of one kernel. A new one replaces the old by one store; the last few stay readable."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
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
        guards = guard_words(captures)
        if guards is None:
            return
        self._captures = captures
        self._rows = [row, *(self._rows if same else ())][:MAX_ROWS]
        guard_block = (ctypes.c_int64 * (len(guards) + 1))(*guards)
        count = len(guards) // entry_ir.GUARD_WORDS
        flat = [len(row.keys), count, ctypes.addressof(guard_block), len(self._rows)]
        flat += [w for r in self._rows for w in r.words()]
        table = (ctypes.c_int64 * len(flat))(*flat)
        self._kept.append((table, guard_block, captures))
        # In this order: the entry reads the table as soon as it is set.
        self._kernel._table = ctypes.addressof(table)
        self._kernel._entry = address

    def withdraw(self) -> None:
        """Send every call to the slow path until the next `publish`."""
        self._kernel._entry = 0
        self._captures, self._rows = (), []


def guard_words(captures: Iterable[Capture]) -> list[int] | None:
    """The guards of captured names as words; None if one of them cannot be looked up natively."""
    words: list[int] = []
    for c in captures:
        space = c.namespace
        if isinstance(space, CellName):
            words += (id(space.cell), 0, id(c.value), 0)
        elif isinstance(space, GlobalNames) and isinstance(space.globals, dict) and isinstance(space.builtins, dict):
            words += (id(space.globals), id(c.name), id(c.value), id(space.builtins))
        elif isinstance(space, ModuleNames) and isinstance(space.owner, DType):
            continue  # a dtype's attributes do not change
        elif isinstance(space, ModuleNames) and vars(space.owner).get(c.name, MISSING) is c.value:
            words += (id(vars(space.owner)), id(c.name), id(c.value), 0)
        else:
            return None
    return words


@functools.cache
def entry_address() -> int:
    """The address of the entry; 0 where this interpreter or NumPy lays out objects in an unknown way."""
    found = _text_and_digest()
    if found is None:
        return 0
    text, digest = found

    def make() -> NativeCode:
        from tack.runtime.llvm_jit import compiler

        return NativeCode.of_object(compiler().compile_small(text), (_ENTRY_SYMBOL,))

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
    text, host = entry_ir.call_entry_source(layout, _FOREIGN_ORDER), code_target()
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
    _kept.append(codes)
    symbols = {name: _api_address(name) for name in _API}
    return symbols | {
        "tack_Array": id(Array),
        "tack_ndarray": id(np.ndarray),
        "tack_codes": ctypes.addressof(codes),
        "tack_slow": id(_Kernel.__call__),
        "tack_device": ctypes.addressof(current_number),
    }


def _api_address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def find_layout() -> entry_ir.Layout | None:
    """Where fields lie in objects here, checked on real objects; None if they do not lie as expected."""
    if not ARRAY_OFFSETS or not KERNEL_OFFSETS or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    probe = np.zeros((2, 3), np.float32)
    where = next(
        (i for i in range(0, object.__basicsize__, 8) if all(_word(x, i) == id(type(x)) for x in (1.5, 7, probe))), None
    )
    if where is None or object.__basicsize__ != 16:
        return None
    layout = entry_ir.Layout(
        ob_type=where,
        array_data=ARRAY_OFFSETS["_data"],
        array_nbytes=ARRAY_OFFSETS["_nbytes"],
        array_key=ARRAY_OFFSETS["_key"],
        array_dims=ARRAY_OFFSETS["_dims"],
        kernel_table=KERNEL_OFFSETS["_table"],
        kernel_running=KERNEL_OFFSETS["_running"],
    )
    return layout if _numpy_lies_so(layout, probe) else None


def _word(obj: object, offset: int, kind: Any = ctypes.c_uint64) -> int:
    return int(kind.from_address(id(obj) + offset).value)


def _numpy_lies_so(at: entry_ir.Layout, probe: np.ndarray[Any, Any]) -> bool:
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
    )
