"""What the native call entry and the runtime agree on: the table of a kernel, keys of arguments, places of fields."""

from __future__ import annotations

from tack.lang.records import record

MAX_PARAMS = 32  # the frame is fixed; kernels with more parameters keep the slow path

# The kernel's table: a header, then rows. All words are i64.
TABLE_HEADER = (
    *("params", "guards", "guards_address", "rows", "cells", "cells_address", "dicts", "dicts_address"),
    "plain",  # how many arguments a call without keywords has that gives them all, or -1
    "positional",  # how many may be given by position
    "names_address",  # of each parameter, or 0 where it has no keyword
    "defaults_address",  # of each parameter, or 0
)
GUARD_WORDS = 4  # dict address, name address, expected object, address of the dict behind it or 0
CELL_WORDS = 2  # cell address, expected object
DICT_WORDS = 2  # dict address, its version when its guards were last seen to hold; written by the entry
MAX_DICTS = 16
ROW_HEADER = ("function", "release_bytes", "written_mask", "overlap", "result", "device", "context")
OVERLAP_NO, OVERLAP_YES, OVERLAP_ANY = 0, 1, 2
RESULT_NONE, RESULT_FLOAT, RESULT_SIGNED, RESULT_UNSIGNED = 0, 1, 2, 3

# Keys of scalar arguments; keys of arrays are Array._key. An ndarray's is dtype code | rank << 8 | read-only << 16.
KEY_INT32, KEY_INT64, KEY_UINT64 = 1 << 32, 2 << 32, 3 << 32
KEY_FLOAT, KEY_FLOAT_WIDE = 4 << 32, 5 << 32  # WIDE: finite, but infinity in f32
KEY_TYPED = 6 << 32  # | dtype code
KEY_REALS = KEY_TYPED | 9  # from here on the typed scalars are floats
SCALAR_SIGNED, SCALAR_REAL = 64, 128  # of a NumPy scalar's type, beside the bits that its word does not use
READ_ONLY = 1 << 16
F32_LIMIT = float(2**128 - 2**103)  # from here on a finite double rounds to infinity in f32


@record(frozen=True)
class Layout:
    """Where fields lie in this interpreter's and this NumPy's objects; found and checked by the runtime."""

    ob_type: int
    array_data: int
    array_nbytes: int
    array_key: int
    array_dims: int
    kernel_table: int
    kernel_running: int
    float_value: int
    scalar_value: int  # of NumPy's scalars
    typed_dtype: int  # of Tack's
    typed_value: int
    cell_content: int
    dict_version: int | None  # changes with every change of a dict; None where there is none such
    ndarray_data: int = 16
    ndarray_ndim: int = 24
    ndarray_dims: int = 32
    ndarray_descr: int = 56
    ndarray_flags: int = 64
    descr_byteorder: int = 26
    descr_type_num: int = 28
