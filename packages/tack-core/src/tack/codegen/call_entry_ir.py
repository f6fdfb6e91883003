"""The native call entry as LLVM IR text: one vectorcall function for all kernels and signatures.

It classifies the arguments, checks that captured names still hold what was compiled in, finds the row of this
signature in the kernel's table, answers whether a written array overlaps another argument, and runs the row's function
on an argument block. Whatever is unusual goes to Python's slow path (`_slow`), which gives the same answers and
explains failures. No address of the process is in the text (all are imported symbols), so its object can be cached.
"""

from __future__ import annotations

import struct

from tack.codegen import call_table
from tack.codegen.call_arguments_ir import CLASSIFY
from tack.codegen.call_table import F32_LIMIT, MAX_PARAMS, ROW_HEADER, TABLE_HEADER, Layout
from tack.lang.records import field_names

_DECLARATIONS = """
@tack_Array = external global i8
@tack_ndarray = external global i8
@tack_codes = external global [64 x i8]
@tack_numpy_scalars = external global i8
@tack_Scalar = external global i8
@tack_dtypes = external global i8
@tack_slow = external global i8
@tack_device = external global i64
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyBool_Type = external global i8
@_Py_NoneStruct = external global i8
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare double @llvm.fabs.f64(double)
"""

# Whether every captured name still holds the object that the table's rows were compiled for. A dict that has not
# changed since its names were last looked up is not searched again.
_GUARDS = """
define internal i1 @guards_hold(ptr %table) alwaysinline {
  %cnp = getelementptr i64, ptr %table, i64 4
  %cn = load i64, ptr %cnp
  %cgp = getelementptr i64, ptr %table, i64 5
  %cells = load ptr, ptr %cgp
  %vnp = getelementptr i64, ptr %table, i64 6
  %vn = load i64, ptr %vnp
  %vgp = getelementptr i64, ptr %table, i64 7
  %dicts = load ptr, ptr %vgp
  br label %cell0
cell0:
  %c = phi i64 [ 0, %0 ], [ %c1, %cell2 ]
  %morec = icmp ult i64 %c, %cn
  br i1 %morec, label %cell1, label %dict0
cell1:
  %cat = mul i64 %c, $CELL_WORDS
  %cp = getelementptr i64, ptr %cells, i64 %cat
  %cell = load ptr, ptr %cp
  %cwantp = getelementptr i64, ptr %cp, i64 1
  %cwant = load ptr, ptr %cwantp
  %heldp = getelementptr i8, ptr %cell, i64 $cell_content
  %held = load ptr, ptr %heldp
  %csame = icmp eq ptr %held, %cwant
  br i1 %csame, label %cell2, label %no
cell2:
  %c1 = add i64 %c, 1
  br label %cell0
dict0:
  %v = phi i64 [ 0, %cell0 ], [ %v1, %dict2 ]
  %morev = icmp ult i64 %v, %vn
  br i1 %morev, label %dict1, label %yes
dict1:
  %vat = mul i64 %v, $DICT_WORDS
  %vp = getelementptr i64, ptr %dicts, i64 %vat
  %dict = load ptr, ptr %vp
  %thenp = getelementptr i64, ptr %vp, i64 1
  %then = load i64, ptr %thenp
  %nowp = getelementptr i8, ptr %dict, i64 $dict_version
  %now = load i64, ptr %nowp
  %unchanged = icmp eq i64 %now, %then
  br i1 %unchanged, label %dict2, label %search
dict2:
  %v1 = add i64 %v, 1
  br label %dict0
search:
  %found = call i1 @look_up(ptr %table, i64 %vn, ptr %dicts)
  ret i1 %found
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @look_up(ptr %table, i64 %vn, ptr %dicts) noinline {
  %seen = alloca [$MAX_DICTS x i64]
  br label %note0
note0:
  %a = phi i64 [ 0, %0 ], [ %a1, %note1 ]
  %morea = icmp ult i64 %a, %vn
  br i1 %morea, label %note1, label %start
note1:
  %aat = mul i64 %a, $DICT_WORDS
  %ap = getelementptr i64, ptr %dicts, i64 %aat
  %adict = load ptr, ptr %ap
  %anowp = getelementptr i8, ptr %adict, i64 $dict_version
  %anow = load i64, ptr %anowp
  %asp = getelementptr i64, ptr %seen, i64 %a
  store i64 %anow, ptr %asp
  %a1 = add i64 %a, 1
  br label %note0
start:
  %np = getelementptr i64, ptr %table, i64 1
  %n = load i64, ptr %np
  %gp = getelementptr i64, ptr %table, i64 2
  %guards = load ptr, ptr %gp
  br label %head
head:
  %i = phi i64 [ 0, %start ], [ %i1, %next ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %one, label %keep0
one:
  %at = mul i64 %i, $GUARD_WORDS
  %g = getelementptr i64, ptr %guards, i64 %at
  %space = load ptr, ptr %g
  %namep = getelementptr i64, ptr %g, i64 1
  %name = load ptr, ptr %namep
  %wantp = getelementptr i64, ptr %g, i64 2
  %want = load ptr, ptr %wantp
  %found = call ptr @PyDict_GetItemWithError(ptr %space, ptr %name)
  %absent = icmp eq ptr %found, null
  br i1 %absent, label %behind, label %test
behind:
  %secondp = getelementptr i64, ptr %g, i64 3
  %second = load ptr, ptr %secondp
  %has = icmp ne ptr %second, null
  br i1 %has, label %lookup, label %no
lookup:
  %found2 = call ptr @PyDict_GetItemWithError(ptr %second, ptr %name)
  br label %test
test:
  %now = phi ptr [ %found, %one ], [ %found2, %lookup ]
  %same = icmp eq ptr %now, %want
  br i1 %same, label %next, label %no
next:
  %i1 = add i64 %i, 1
  br label %head
keep0:
  %k = phi i64 [ 0, %head ], [ %k1, %keep1 ]
  %morek = icmp ult i64 %k, $KEPT
  br i1 %morek, label %keep1, label %yes
keep1:
  %ksp = getelementptr i64, ptr %seen, i64 %k
  %kseen = load i64, ptr %ksp
  %kat = mul i64 %k, $DICT_WORDS
  %kp = getelementptr i64, ptr %dicts, i64 %kat
  %kthenp = getelementptr i64, ptr %kp, i64 1
  store i64 %kseen, ptr %kthenp
  %k1 = add i64 %k, 1
  br label %keep0
yes:
  ret i1 true
no:
  ret i1 false
}
"""

# Whether an array of the mask shares a byte with any other array of the block; empty ones share nothing.
_OVERLAP = """
define internal i1 @overlaps(ptr %block, i64 %n, i64 %mask) alwaysinline {
  br label %outer
outer:
  %w = phi i64 [ 0, %0 ], [ %w1, %skip ]
  %morew = icmp ult i64 %w, %n
  br i1 %morew, label %pick, label %no
pick:
  %shifted = lshr i64 %mask, %w
  %bit = trunc i64 %shifted to i1
  br i1 %bit, label %scan, label %skip
scan:
  %w3 = mul i64 %w, 3
  %wp = getelementptr i64, ptr %block, i64 %w3
  %x = load i64, ptr %wp
  %wnp = getelementptr i64, ptr %wp, i64 1
  %xn = load i64, ptr %wnp
  %xend = add i64 %x, %xn
  br label %inner
inner:
  %q = phi i64 [ 0, %scan ], [ %q1, %nextq ]
  %moreq = icmp ult i64 %q, %n
  br i1 %moreq, label %compare, label %skip
compare:
  %q3 = mul i64 %q, 3
  %qp = getelementptr i64, ptr %block, i64 %q3
  %y = load i64, ptr %qp
  %qnp = getelementptr i64, ptr %qp, i64 1
  %yn = load i64, ptr %qnp
  %yend = add i64 %y, %yn
  %c1 = icmp ult i64 %x, %yend
  %c2 = icmp ult i64 %y, %xend
  %c3 = icmp ne i64 %q, %w
  %c4 = icmp ne i64 %yn, 0
  %c5 = icmp ne i64 %xn, 0
  %d1 = and i1 %c1, %c2
  %d2 = and i1 %c3, %c4
  %d3 = and i1 %d1, %d2
  %hit = and i1 %d3, %c5
  br i1 %hit, label %yes, label %nextq
nextq:
  %q1 = add i64 %q, 1
  br label %inner
skip:
  %w1 = add i64 %w, 1
  br label %outer
yes:
  ret i1 true
no:
  ret i1 false
}
"""

# A row's function that needs no context has no parameter for it; every calling convention lets the caller pass more.
# While the GIL is released `_running` counts the call, so that its code is not dropped (see native_call.py).
_RUN = """
define internal ptr @run(ptr %self, ptr %row, ptr %block, i64 %n, i64 %bytes, ptr %failed) alwaysinline {
  %fn = load ptr, ptr %row
  %limitp = getelementptr i64, ptr %row, i64 1
  %limit = load i64, ptr %limitp
  %resultp = getelementptr i64, ptr %row, i64 4
  %result = load i64, ptr %resultp
  %contextp = getelementptr i64, ptr %row, i64 6
  %context = load ptr, ptr %contextp
  %large = icmp uge i64 %bytes, %limit
  br i1 %large, label %unlocked, label %locked
unlocked:
  %running = getelementptr i8, ptr %self, i64 $kernel_running
  atomicrmw add ptr %running, i64 1 acq_rel
  %thread = call ptr @PyEval_SaveThread()
  %s1 = call i32 %fn(ptr %block, ptr %context)
  call void @PyEval_RestoreThread(ptr %thread)
  atomicrmw sub ptr %running, i64 1 acq_rel
  br label %after
locked:
  %s2 = call i32 %fn(ptr %block, ptr %context)
  br label %after
after:
  %status = phi i32 [ %s1, %unlocked ], [ %s2, %locked ]
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %fail, label %value
fail:
  store i1 true, ptr %failed
  ret ptr null
value:
  %n3 = mul i64 %n, 3
  %wordp = getelementptr i64, ptr %block, i64 %n3
  %word = load i64, ptr %wordp
  switch i64 %result, label %none [ i64 $RESULT_FLOAT, label %real
    i64 $RESULT_SIGNED, label %signed
    i64 $RESULT_UNSIGNED, label %unsigned ]
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
real:
  %d = bitcast i64 %word to double
  %rf = call ptr @PyFloat_FromDouble(double %d)
  ret ptr %rf
signed:
  %rs = call ptr @PyLong_FromLongLong(i64 %word)
  ret ptr %rs
unsigned:
  %ru = call ptr @PyLong_FromUnsignedLongLong(i64 %word)
  ret ptr %ru
}
"""

_SLOW = """
define internal ptr @slow(ptr %self, ptr %args, i64 %n, ptr %names) noinline {
  %named0 = icmp ne ptr %names, null
  br i1 %named0, label %count, label %ready
count:
  %c = call i64 @PyTuple_Size(ptr %names)
  br label %ready
ready:
  %named = phi i64 [ 0, %0 ], [ %c, %count ]
  %total = add i64 %n, %named
  %slots = add i64 %total, 1
  %copy = alloca ptr, i64 %slots
  store ptr %self, ptr %copy
  br label %head
head:
  %i = phi i64 [ 0, %ready ], [ %i1, %body ]
  %more = icmp ult i64 %i, %total
  br i1 %more, label %body, label %call
body:
  %from = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %from
  %i1 = add i64 %i, 1
  %to = getelementptr ptr, ptr %copy, i64 %i1
  store ptr %arg, ptr %to
  br label %head
call:
  %positional = add i64 %n, 1
  %r = call ptr @PyObject_Vectorcall(ptr @tack_slow, ptr %copy, i64 %positional, ptr %names)
  ret ptr %r
}
"""

# The arguments in the order of the parameters, where some are given by keyword or left to their defaults; false: not
# all are there. Keywords are compared by identity: a call's are interned, as a function's names are.
_BIND = """
define internal i1 @bind(ptr %table, ptr %args, i64 %given, ptr %keywords, ptr %bound) noinline {
  %n = load i64, ptr %table
  %mostp = getelementptr i64, ptr %table, i64 9
  %most = load i64, ptr %mostp
  %namesp = getelementptr i64, ptr %table, i64 10
  %names = load ptr, ptr %namesp
  %defaultsp = getelementptr i64, ptr %table, i64 11
  %defaults = load ptr, ptr %defaultsp
  %few = icmp ule i64 %given, %most
  br i1 %few, label %copy0, label %no
copy0:
  %i = phi i64 [ 0, %0 ], [ %i1, %copy2 ]
  %morei = icmp ult i64 %i, %n
  br i1 %morei, label %copy1, label %count
copy1:
  %i1 = add i64 %i, 1
  %boundp = getelementptr ptr, ptr %bound, i64 %i
  store ptr null, ptr %boundp
  %here = icmp ult i64 %i, %given
  br i1 %here, label %copy, label %copy2
copy:
  %argp = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %argp
  store ptr %arg, ptr %boundp
  br label %copy2
copy2:
  br label %copy0
count:
  %unnamed = icmp eq ptr %keywords, null
  br i1 %unnamed, label %default0, label %size
size:
  %named = call i64 @PyTuple_Size(ptr %keywords)
  br label %name0
name0:
  %k = phi i64 [ 0, %size ], [ %k1, %name3 ]
  %morek = icmp ult i64 %k, %named
  br i1 %morek, label %name1, label %default0
name1:
  %k1 = add i64 %k, 1
  %keyword = call ptr @PyTuple_GetItem(ptr %keywords, i64 %k)
  br label %find0
find0:
  %j = phi i64 [ 0, %name1 ], [ %j1, %find1 ]
  %morej = icmp ult i64 %j, %n
  br i1 %morej, label %find1, label %no
find1:
  %j1 = add i64 %j, 1
  %namep = getelementptr ptr, ptr %names, i64 %j
  %name = load ptr, ptr %namep
  %found = icmp eq ptr %name, %keyword
  br i1 %found, label %name2, label %find0
name2:
  %placep = getelementptr ptr, ptr %bound, i64 %j
  %before = load ptr, ptr %placep
  %twice = icmp ne ptr %before, null
  br i1 %twice, label %no, label %name3
name3:
  %at = add i64 %given, %k
  %valuep = getelementptr ptr, ptr %args, i64 %at
  %value = load ptr, ptr %valuep
  store ptr %value, ptr %placep
  br label %name0
default0:
  %d = phi i64 [ 0, %count ], [ 0, %name0 ], [ %d1, %default2 ]
  %mored = icmp ult i64 %d, %n
  br i1 %mored, label %default1, label %yes
default1:
  %d1 = add i64 %d, 1
  %slotp = getelementptr ptr, ptr %bound, i64 %d
  %held = load ptr, ptr %slotp
  %empty = icmp eq ptr %held, null
  br i1 %empty, label %fill, label %default2
fill:
  %fillp = getelementptr ptr, ptr %defaults, i64 %d
  %default = load ptr, ptr %fillp
  store ptr %default, ptr %slotp
  %none = icmp eq ptr %default, null
  br i1 %none, label %no, label %default2
default2:
  br label %default0
yes:
  ret i1 true
no:
  ret i1 false
}
"""

_ENTRY = """
define ptr @tack_entry(ptr %self, ptr %args, i64 %flagged, ptr %names) {
  %block = alloca [$BLOCK_WORDS x i64]
  %keys = alloca [$MAX_PARAMS x i64]
  %bound = alloca [$MAX_PARAMS x ptr]
  %fromdevice = alloca i8
  %failed = alloca i1
  store i8 0, ptr %fromdevice
  store i1 false, ptr %failed
  %given = and i64 %flagged, 9223372036854775807
  %tablep = getelementptr i8, ptr %self, i64 $kernel_table
  %table = load ptr, ptr %tablep
  %n = load i64, ptr %table
  %plainp = getelementptr i64, ptr %table, i64 8
  %plain = load i64, ptr %plainp
  %count = icmp eq i64 %given, %plain
  %unnamed = icmp eq ptr %names, null
  %usual = and i1 %count, %unnamed
  br i1 %usual, label %args0, label %named
named:
  %complete = call i1 @bind(ptr %table, ptr %args, i64 %given, ptr %names, ptr %bound)
  br i1 %complete, label %args0, label %miss
args0:
  %i = phi i64 [ 0, %0 ], [ 0, %named ], [ %i1, %args2 ]
  %sum = phi i64 [ 0, %0 ], [ 0, %named ], [ %sum1, %args2 ]
  %from = phi ptr [ %args, %0 ], [ %bound, %named ], [ %from, %args2 ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %args1, label %guards
args1:
  %objp = getelementptr ptr, ptr %from, i64 %i
  %obj = load ptr, ptr %objp
  %key = getelementptr i64, ptr %keys, i64 %i
  %i3 = mul i64 %i, 3
  %words = getelementptr i64, ptr %block, i64 %i3
  %fine = call i1 @classify(ptr %obj, ptr %key, ptr %words, ptr %fromdevice)
  br i1 %fine, label %args2, label %miss
args2:
  %sizep = getelementptr i64, ptr %words, i64 1
  %size = load i64, ptr %sizep
  %sum1 = add i64 %sum, %size
  %i1 = add i64 %i, 1
  br label %args0
guards:
  %hold = call i1 @guards_hold(ptr %table)
  br i1 %hold, label %rows, label %miss
rows:
  %nrowsp = getelementptr i64, ptr %table, i64 3
  %nrows = load i64, ptr %nrowsp
  %first = getelementptr i64, ptr %table, i64 $TABLE_WORDS
  %rowwords = add i64 %n, $ROW_WORDS
  br label %row0
row0:
  %r = phi i64 [ 0, %rows ], [ %r1, %skip ]
  %morer = icmp ult i64 %r, %nrows
  br i1 %morer, label %row1, label %miss
row1:
  %off = mul i64 %r, %rowwords
  %row = getelementptr i64, ptr %first, i64 %off
  %rowkeys = getelementptr i64, ptr %row, i64 $ROW_WORDS
  br label %key0
key0:
  %j = phi i64 [ 0, %row1 ], [ %j1, %key2 ]
  %morej = icmp ult i64 %j, %n
  br i1 %morej, label %key1, label %device
key1:
  %hasp = getelementptr i64, ptr %keys, i64 %j
  %has = load i64, ptr %hasp
  %wantp = getelementptr i64, ptr %rowkeys, i64 %j
  %want = load i64, ptr %wantp
  %same = icmp eq i64 %has, %want
  br i1 %same, label %key2, label %skip
key2:
  %j1 = add i64 %j, 1
  br label %key0
device:
  %fd = load i8, ptr %fromdevice
  %known = icmp ne i8 %fd, 0
  %rowdevp = getelementptr i64, ptr %row, i64 5
  %rowdev = load i64, ptr %rowdevp
  %cur = load i64, ptr @tack_device
  %agrees = icmp eq i64 %rowdev, %cur
  %dev = or i1 %known, %agrees
  br i1 %dev, label %alias, label %skip
alias:
  %overlapp = getelementptr i64, ptr %row, i64 3
  %overlap = load i64, ptr %overlapp
  %either = icmp eq i64 %overlap, $OVERLAP_ANY
  br i1 %either, label %go, label %measure
measure:
  %maskp = getelementptr i64, ptr %row, i64 2
  %mask = load i64, ptr %maskp
  %meet = call i1 @overlaps(ptr %block, i64 %n, i64 %mask)
  %meet64 = zext i1 %meet to i64
  %right = icmp eq i64 %meet64, %overlap
  br i1 %right, label %go, label %skip
go:
  %value = call ptr @run(ptr %self, ptr %row, ptr %block, i64 %n, i64 %sum, ptr %failed)
  %f = load i1, ptr %failed
  br i1 %f, label %miss, label %out
out:
  ret ptr %value
skip:
  %r1 = add i64 %r, 1
  br label %row0
miss:
  %again = call ptr @slow(ptr %self, ptr %args, i64 %given, ptr %names)
  ret ptr %again
}
"""

_CONSTANTS = (
    "GUARD_WORDS CELL_WORDS DICT_WORDS MAX_DICTS KEY_INT32 KEY_INT64 KEY_FLOAT KEY_FLOAT_WIDE READ_ONLY MAX_PARAMS "
    "OVERLAP_ANY RESULT_FLOAT RESULT_SIGNED RESULT_UNSIGNED SCALAR_SIGNED SCALAR_REAL KEY_REALS"
).split()


def call_entry_source(layout: Layout, foreign_order: str) -> str:
    """The text of the module that defines ``tack_entry``; `foreign_order` is NumPy's sign of the other byte order."""
    values = {name: str(getattr(layout, name)) for name in field_names(layout)}
    # Without versions the words keep the -1 that no word of a dict is, and names are looked up at every call.
    values |= {"dict_version": str(layout.dict_version or 0), "KEPT": "0" if layout.dict_version is None else "%vn"}
    values |= {name: str(getattr(call_table, name)) for name in _CONSTANTS}
    values |= {
        "F32_LIMIT": f"0x{struct.unpack('<Q', struct.pack('<d', F32_LIMIT))[0]:016X}",
        "FOREIGN": str(ord(foreign_order)),
        "BLOCK_WORDS": str(3 * MAX_PARAMS + 1),
        "TABLE_WORDS": str(len(TABLE_HEADER)),
        "ROW_WORDS": str(len(ROW_HEADER)),
    }
    text = _DECLARATIONS + CLASSIFY + _GUARDS + _OVERLAP + _RUN + _SLOW + _BIND + _ENTRY
    for name in sorted(values, key=len, reverse=True):
        text = text.replace("$" + name, values[name])
    return text
