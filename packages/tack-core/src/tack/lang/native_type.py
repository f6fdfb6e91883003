"""Python classes with plain 64-bit fields, which machine code reads and writes with single loads and stores.

The fields are made by CPython itself (`PyType_FromSpecWithBases`, stable C API): ordinary attributes to Python, words
at a fixed offset to machine code. One field may be the vectorcall pointer of the instances: while it is 0 a call runs
Python's ``__call__``; a nonzero address is called instead. Other interpreters, and for kernels debug builds, get a
plain subclass.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import struct
import sys
from collections.abc import Sequence
from typing import Any

_BASETYPE, _HAVE_VECTORCALL = 1 << 10, 1 << 11  # Py_TPFLAGS_*
_TP_MEMBERS, _ULONGLONG, _LONGLONG, _SSIZE, _READONLY = 72, 18, 17, 19, 1
_MEMBER, _SLOTS = struct.Struct("@PiniP"), struct.Struct("@iPiP")  # PyMemberDef; two of PyType_Slot
_kept: list[object] = []  # what the types point to for ever


def native_type(
    base: type, name: str, fields: Sequence[str], vectorcall: str | None = None
) -> tuple[type, dict[str, int]]:
    """A subclass of `base` with zeroed i64 `fields`, and their offsets (empty where it is a plain one).

    Parameters
    ----------
    base
        A class without ``__dict__`` of its own making; it need not be abstract.
    name
        The qualified name of the new type.
    fields
        Attribute names; each holds a signed 64-bit integer.
    vectorcall
        The field, if any, that is the address of a ``vectorcallfunc`` or 0.
    """
    # A debug build of CPython asserts that a type with vectorcall has a tp_call of its own; below is why ours has none.
    asserts = vectorcall is not None and hasattr(sys, "gettotalrefcount")
    if sys.implementation.name != "cpython" or asserts:
        return _plain_type(base, name.rpartition(".")[2], tuple(fields)), {}
    offsets = {f: base.__basicsize__ + 8 * i for i, f in enumerate(fields)}
    rows = [(f, _LONGLONG, offsets[f], 0) for f in fields]
    if vectorcall is not None:
        rows.append(("__vectorcalloffset__", _SSIZE, offsets[vectorcall], _READONLY))
    # One block of memory: the rows of the members and a row of zeros, the slots, and the names. No tp_call among the
    # slots: a spec that names it makes `__call__` a wrapper that calls itself; it is inherited instead.
    names = [n.encode() + b"\0" for n in (name, *(r[0] for r in rows))]
    slots_at = _MEMBER.size * (len(rows) + 1)
    texts_at = slots_at + _SLOTS.size
    block = ctypes.create_string_buffer(texts_at + sum(map(len, names)))
    start = ctypes.addressof(block)
    texts = [start + at for at in itertools.accumulate(map(len, names), initial=texts_at)]
    for i, row in enumerate(rows):
        _MEMBER.pack_into(block, _MEMBER.size * i, texts[i + 1], *row[1:], 0)
    _SLOTS.pack_into(block, slots_at, _TP_MEMBERS, start, 0, 0)
    ctypes.memmove(texts[0], b"".join(names), sum(map(len, names)))
    flags = _BASETYPE | (_HAVE_VECTORCALL if vectorcall else 0)
    size = base.__basicsize__ + 8 * len(fields)
    spec = struct.pack("@PiiIP", texts[0], size, 0, flags, start + slots_at)
    _kept.append((block, spec))
    make = _prototype()(("PyType_FromSpecWithBases", ctypes.pythonapi))
    return make(spec, (base,)), offsets


@functools.cache
def _prototype() -> Any:
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.py_object)


def _plain_type(base: type, name: str, fields: tuple[str, ...]) -> type:
    """The same class to Python, for interpreters whose objects machine code does not know."""

    def __new__(cls: type[Any], *_: Any, **__: Any) -> Any:
        made = object.__new__(cls)
        for field in fields:
            setattr(made, field, 0)
        return made

    return type(name, (base,), {"__slots__": fields, "__new__": __new__})
