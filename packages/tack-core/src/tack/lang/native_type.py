"""Python classes with plain 64-bit fields, which machine code reads and writes with single loads and stores.

The fields are made by CPython itself (`PyType_FromSpecWithBases`, stable C API): ordinary attributes to Python, words
at a fixed offset to machine code. One field may be the vectorcall pointer of the instances: while it is 0 a call runs
Python's ``__call__``; a nonzero address is called instead. Other interpreters, and for kernels debug builds, get a
plain subclass.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from collections.abc import Sequence
from typing import Any

_BASETYPE, _HAVE_VECTORCALL = 1 << 10, 1 << 11  # Py_TPFLAGS_*
_TP_MEMBERS, _ULONGLONG, _LONGLONG, _SSIZE, _READONLY = 72, 18, 17, 19, 1
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
    if platform.python_implementation() != "CPython" or asserts:
        return _plain_type(base, name.rpartition(".")[2], tuple(fields)), {}
    offsets = {f: base.__basicsize__ + 8 * i for i, f in enumerate(fields)}
    rows = [(f, _LONGLONG, offsets[f], 0) for f in fields]
    if vectorcall is not None:
        rows.append(("__vectorcalloffset__", _SSIZE, offsets[vectorcall], _READONLY))
    names = [ctypes.create_string_buffer(n.encode()) for n in (name, *(r[0] for r in rows))]
    entries = [struct.pack("@PiniP", ctypes.addressof(n), *row[1:], 0) for n, row in zip(names[1:], rows, strict=True)]
    members = ctypes.create_string_buffer(b"".join(entries) + bytes(struct.calcsize("@PiniP")))
    # No tp_call: a spec that names it makes `__call__` a wrapper that calls itself; it is inherited instead.
    slots = ctypes.create_string_buffer(struct.pack("@iPiP", _TP_MEMBERS, ctypes.addressof(members), 0, 0))
    flags = _BASETYPE | (_HAVE_VECTORCALL if vectorcall else 0)
    size = base.__basicsize__ + 8 * len(fields)
    spec = struct.pack("@PiiIP", ctypes.addressof(names[0]), size, 0, flags, ctypes.addressof(slots))
    _kept.append((names, members, slots, spec))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_char_p, ctypes.py_object)(
        ("PyType_FromSpecWithBases", ctypes.pythonapi)
    )
    return make(spec, (base,)), offsets


def _plain_type(base: type, name: str, fields: tuple[str, ...]) -> type:
    """The same class to Python, for interpreters whose objects machine code does not know."""

    def __new__(cls: type[Any], *_: Any, **__: Any) -> Any:
        made = object.__new__(cls)
        for field in fields:
            setattr(made, field, 0)
        return made

    return type(name, (base,), {"__slots__": fields, "__new__": __new__})
