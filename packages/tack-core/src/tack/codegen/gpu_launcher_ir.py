"""The native launcher of GPU kernels as LLVM IR text: one function for all kernels, which a table of integers steers.

`tack_gpu_launch` has the shape of a row's function. It evaluates a call's bounds and parameters as a list of small
operations, each of which gives one i64, then calls the driver once for each loop, its parameters being places in that
list. Where something is unusual (a bound that fails, a launch too large, a driver's refusal, a queue that is busy or
may be full) it returns a status before anything has run, and the path through Python does or explains the same. So it
never blocks, and is called with the GIL held: eight threads that release it for each launch take twice as long as one.
No address of the process is in the text, so that its object can be cached.
"""

from __future__ import annotations

from typing import Final

LAUNCH_SYMBOL: Final = "tack_gpu_launch"
ACQUIRE_SYMBOL: Final = "tack_gpu_acquire"
RELEASE_SYMBOL: Final = "tack_gpu_release"
AWAIT_SYMBOL: Final = "tack_gpu_await"

_PATIENCE: Final = 400_000  # reads of a result's place, some hundred microseconds; then the driver waits
MAX_VALUES: Final = 256  # of one call
MAX_PARAMETERS: Final = 128  # of one kernel
OPERATION_WORDS: Final = 4  # number of the operation, then a, b, c
TABLE: Final = (
    "operations",
    "operations_address",
    "loops",
    "loops_address",
    "set_current",
    "context",
    "launch",
    "stream",
    "lock_address",
    "pending_address",
    "failed",
)
MOST_PENDING: Final = (
    448  # launches of a stream between two waits of Python's: a driver's queue holds 1024, then blocks
)

LOOP: Final = ("function", "iterations", "groups", "group", "parameters", "parameters_address")
STATUS_ELSEWHERE: Final = 3
_SPINS: Final = 40_000  # some tens of microseconds: a launch of another thread is over by then, or the queue is full

# Operations by name. $x, $y and $z are the values number a, b and c; each stores one word at %slot and goes on.
_OPERATIONS: Final[dict[str, str]] = {
    "const": "store i64 %a, ptr %slot",
    "word": """
  $word = getelementptr i64, ptr %block, i64 %a
  $r = load i64, ptr $word
  store i64 $r, ptr %slot""",
    "unsigned": """
  $word = getelementptr i64, ptr %block, i64 %a
  $r = load i64, ptr $word
  $bad = icmp slt i64 $r, 0
  br i1 $bad, label %overflow, label $1
$1:
  store i64 $r, ptr %slot""",
    "f32": """
  $word = getelementptr i64, ptr %block, i64 %a
  $d = load double, ptr $word
  $f = fptrunc double $d to float
  $i = bitcast float $f to i32
  $r = zext i32 $i to i64
  store i64 $r, ptr %slot""",
    "extent": """
  $word = getelementptr i64, ptr %block, i64 %a
  $extents = load ptr, ptr $word
  $place = getelementptr i64, ptr $extents, i64 %b
  $r = load i64, ptr $place
  store i64 $r, ptr %slot""",
    "+": "CHECKED sadd",
    "-": "CHECKED ssub",
    "*": "CHECKED smul",
    "total": "CHECKED umul",
    "product": "$r = mul i64 $x, $y\n  store i64 $r, ptr %slot",
    "//": """
  $none = icmp eq i64 $y, 0
  br i1 $none, label %zero, label $1
$1:
  $minus = icmp eq i64 $y, -1
  $least = icmp eq i64 $x, -9223372036854775808
  $bad = and i1 $minus, $least
  br i1 $bad, label %overflow, label $2
$2:
  $q = sdiv i64 $x, $y
  $m = srem i64 $x, $y
  $signs = xor i64 $m, $y
  $differ = icmp slt i64 $signs, 0
  $some = icmp ne i64 $m, 0
  $adjust = and i1 $differ, $some
  $less = sext i1 $adjust to i64
  $r = add i64 $q, $less
  store i64 $r, ptr %slot""",
    "%": """
  $none = icmp eq i64 $y, 0
  br i1 $none, label %zero, label $1
$1:
  $minus = icmp eq i64 $y, -1
  $by = select i1 $minus, i64 1, i64 $y
  $m = srem i64 $x, $by
  $signs = xor i64 $m, $by
  $differ = icmp slt i64 $signs, 0
  $some = icmp ne i64 $m, 0
  $adjust = and i1 $differ, $some
  $more = add i64 $m, $by
  $r = select i1 $adjust, i64 $more, i64 $m
  store i64 $r, ptr %slot""",
    "min": "SELECT slt",
    "max": "SELECT sgt",
    "least": "SELECT ult",
    "trips": """
  $ordered = icmp slt i64 $x, $y
  $forward = icmp sgt i64 $z, 0
  $some = and i1 $ordered, $forward
  $span = sub i64 $y, $x
  $last = sub i64 $span, 1
  $by = select i1 $some, i64 $z, i64 1
  $whole = udiv i64 $last, $by
  $count = add i64 $whole, 1
  $r = select i1 $some, i64 $count, i64 0
  store i64 $r, ptr %slot""",
    "unless_zero": """
  $empty = icmp eq i64 $y, 0
  $r = select i1 $empty, i64 0, i64 $x
  store i64 $r, ptr %slot""",
    "fits": """
  $bad = icmp slt i64 $x, 0
  br i1 $bad, label %overflow, label $1
$1:
  store i64 $x, ptr %slot""",
    "groups": """
  $up = add i64 $x, %b
  $most = sub i64 $up, 1
  $r = udiv i64 $most, %b
  $bad = icmp ugt i64 $r, %c
  br i1 $bad, label %elsewhere, label $1
$1:
  store i64 $r, ptr %slot""",
}
OPERATIONS: Final[dict[str, int]] = {name: number for number, name in enumerate(_OPERATIONS)}

_CHECKED: Final = """
  $pair = call { i64, i1 } @llvm.KIND.with.overflow.i64(i64 $x, i64 $y)
  $bad = extractvalue { i64, i1 } $pair, 1
  br i1 $bad, label %overflow, label $1
$1:
  $r = extractvalue { i64, i1 } $pair, 0
  store i64 $r, ptr %slot"""
_SELECT: Final = """
  $first = icmp KIND i64 $x, $y
  $r = select i1 $first, i64 $x, i64 $y
  store i64 $r, ptr %slot"""

_LOCK: Final = """
declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define i32 @tack_gpu_acquire(ptr %lock) {
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %i1, %more ]
  %seen = load atomic i64, ptr %lock monotonic, align 8
  %free = icmp eq i64 %seen, 0
  br i1 %free, label %try, label %more
try:
  %pair = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic
  %ok = extractvalue { i64, i1 } %pair, 1
  br i1 %ok, label %have, label %more
more:
  %i1 = add i64 %i, 1
  %enough = icmp ugt i64 %i1, $SPINS
  br i1 %enough, label %busy, label %head
have:
  ret i32 1
busy:
  ret i32 0
}

define void @tack_gpu_release(ptr %lock) {
  store atomic i64 0, ptr %lock release, align 8
  ret void
}

define i32 @tack_gpu_await(ptr %place, i64 %before) {
  br label %head
head:
  %i = phi i64 [ 0, %0 ], [ %i1, %more ]
  %seen = load atomic i64, ptr %place acquire, align 8
  %same = icmp eq i64 %seen, %before
  br i1 %same, label %more, label %there
more:
  %i1 = add i64 %i, 1
  %enough = icmp ugt i64 %i1, $PATIENCE
  br i1 %enough, label %late, label %head
there:
  ret i32 1
late:
  ret i32 0
}
"""

_LAUNCH: Final = """
define i32 @tack_gpu_launch(ptr %block, ptr %table) {
  %values = alloca [$MAX_VALUES x i64]
  %pointers = alloca [$MAX_PARAMETERS x ptr]
$FIELDS
  br label %operation0
operation0:
  %i = phi i64 [ 0, %0 ], [ %i1, %next ]
  %more = icmp ult i64 %i, %t.operations
  br i1 %more, label %operation1, label %lock
operation1:
  %at = mul i64 %i, $OPERATION_WORDS
  %op = getelementptr i64, ptr %t.operations_address, i64 %at
  %kind = load i64, ptr %op
  %ap = getelementptr i64, ptr %op, i64 1
  %a = load i64, ptr %ap
  %bp = getelementptr i64, ptr %op, i64 2
  %b = load i64, ptr %bp
  %cp = getelementptr i64, ptr %op, i64 3
  %c = load i64, ptr %cp
  %slot = getelementptr i64, ptr %values, i64 %i
  switch i64 %kind, label %elsewhere [ $SWITCH ]
$CASES
next:
  %i1 = add i64 %i, 1
  br label %operation0
lock:
  %have = call i32 @tack_gpu_acquire(ptr %t.lock_address)
  %free = icmp ne i32 %have, 0
  br i1 %free, label %current, label %elsewhere
current:
  %pending = load i64, ptr %t.pending_address
  %many = add i64 %pending, %t.loops
  %full = icmp ugt i64 %many, $MOST_PENDING
  br i1 %full, label %refused, label %context
context:
  store i64 %many, ptr %t.pending_address
  %e0 = call i32 %t.set_current(ptr %t.context)
  %good0 = icmp eq i32 %e0, 0
  br i1 %good0, label %loop0, label %refused
loop0:
  %n = phi i64 [ 0, %context ], [ %n1, %loop4 ]
  %done = phi i64 [ 0, %context ], [ %done1, %loop4 ]
  %moren = icmp ult i64 %n, %t.loops
  br i1 %moren, label %loop1, label %end
loop1:
  %lat = mul i64 %n, $LOOP_WORDS
  %l = getelementptr i64, ptr %t.loops_address, i64 %lat
$LOOP_FIELDS
  %itp = getelementptr i64, ptr %values, i64 %l.iterations
  %it = load i64, ptr %itp
  %empty = icmp eq i64 %it, 0
  br i1 %empty, label %loop4, label %pass0
pass0:
  %k = phi i64 [ 0, %loop1 ], [ %k1, %pass1 ]
  %morek = icmp ult i64 %k, %l.parameters
  br i1 %morek, label %pass1, label %loop2
pass1:
  %np = getelementptr i64, ptr %l.parameters_address, i64 %k
  %number = load i64, ptr %np
  %vp = getelementptr i64, ptr %values, i64 %number
  %pp = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %vp, ptr %pp
  %k1 = add i64 %k, 1
  br label %pass0
loop2:
  %gp = getelementptr i64, ptr %values, i64 %l.groups
  %g64 = load i64, ptr %gp
  %groups = trunc i64 %g64 to i32
  %group = trunc i64 %l.group to i32
  %e = call i32 %t.launch(ptr %l.function, i32 %groups, i32 1, i32 1, i32 %group, i32 1, i32 1, i32 0,
    ptr %t.stream, ptr %pointers, ptr null)
  %good = icmp eq i32 %e, 0
  br i1 %good, label %loop4, label %failed
loop4:
  %done1 = phi i64 [ %done, %loop1 ], [ 1, %loop2 ]
  %n1 = add i64 %n, 1
  br label %loop0
failed:
  %first = icmp eq i64 %done, 0
  br i1 %first, label %refused, label %half
half:
  %e64 = zext i32 %e to i64
  store atomic i64 %e64, ptr %p.failed monotonic, align 8
  br label %refused
refused:
  call void @tack_gpu_release(ptr %t.lock_address)
  br label %elsewhere
end:
  call void @tack_gpu_release(ptr %t.lock_address)
  ret i32 0
overflow:
  ret i32 1
zero:
  ret i32 2
elsewhere:
  ret i32 $ELSEWHERE
}
"""


def gpu_launcher_source() -> str:
    """The text of the module that defines the symbols of this file."""
    cases, targets = [], []
    for name, number in OPERATIONS.items():
        kind, _, argument = _OPERATIONS[name].partition(" ")
        body = {"CHECKED": _CHECKED, "SELECT": _SELECT}.get(kind, _OPERATIONS[name]).replace("KIND", argument)
        cases.append(_case(number, body))
        targets.append(f"i64 {number}, label %op{number}")
    values = {
        "MAX_VALUES": str(MAX_VALUES),
        "MAX_PARAMETERS": str(MAX_PARAMETERS),
        "OPERATION_WORDS": str(OPERATION_WORDS),
        "LOOP_WORDS": str(len(LOOP)),
        "LOOP_FIELDS": _fields("l", LOOP),
        "FIELDS": _fields("t", TABLE),
        "SWITCH": " ".join(targets),
        "CASES": "".join(cases),
        "ELSEWHERE": str(STATUS_ELSEWHERE),
        "MOST_PENDING": str(MOST_PENDING),
        "SPINS": str(_SPINS),
        "PATIENCE": str(_PATIENCE),
    }
    text = _LOCK + _LAUNCH
    for name in sorted(values, key=len, reverse=True):
        text = text.replace("$" + name, values[name])
    return text


def _case(number: int, body: str) -> str:
    """The block of one operation: its operands, then its text with names of its own."""
    lines = [f"op{number}:"]
    for operand, place in (("x", "a"), ("y", "b"), ("z", "c")):
        if "$" + operand in body:
            lines.append(f"  $p{operand} = getelementptr i64, ptr %values, i64 %{place}")
            lines.append(f"  ${operand} = load i64, ptr $p{operand}")
    text = "\n".join([*lines, f"  {body.strip()}", "  br label %next\n"])
    for label in ("1", "2"):
        text = text.replace(f"\n${label}:", f"\nop{number}.{label}:").replace(f"${label}", f"%op{number}.{label}")
    return text.replace("$", f"%op{number}.")


def _fields(prefix: str, names: tuple[str, ...]) -> str:
    """Loads of all words of a row: addresses and functions as pointers, counts as i64."""
    numbers = ("operations", "loops", "iterations", "groups", "group", "parameters", "failed")
    lines = []
    base = "table" if prefix == "t" else prefix
    for place, name in enumerate(names):
        pointer = f"%p.{name}" if prefix == "t" else f"%p.l.{name}"
        lines.append(f"  {pointer} = getelementptr i64, ptr %{base}, i64 {place}")
        lines.append(f"  %{prefix}.{name} = load {'i64' if name in numbers else 'ptr'}, ptr {pointer}")
    return "\n".join(lines)
