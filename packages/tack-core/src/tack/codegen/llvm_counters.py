"""Counters: small arrays that a loop only counts in, by integer atomics whose result nobody reads.

A chunk of enough iterations counts in a copy of its own, in plain memory, and adds that to the array at its end. Such
operations commute exactly, so the sums are the same, and threads no longer pass the array's cache lines to and fro. How
large the array is and how long the chunk, is known when it runs; else the same loop runs with atomic operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tack.codegen.llvm_lanes import LaneEmitter
from tack.codegen.llvm_values import ArrayStorage, Value, llvm_type
from tack.lang import ir
from tack.lang.records import record
from tack.lang.types import ArrayType, DType, i64

_MOST_BYTES: Final = 1 << 14  # of all copies of a chunk, on its stack
_ITERATIONS_AN_ELEMENT: Final = 32  # fewer would not pay for the sums at the end
_COPIES_A_CHUNK: Final = 4  # times that is what a chunk has: 250,000 increments of 256 i64 bins took 1.8 times as long
_OPERATORS: Final = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
_ALLOWED: Final = frozenset({*_OPERATORS, "min", "max"})


@record(frozen=True)
class Counter:
    """An array parameter by its position among the parameters, the one operation on it, and its element type."""

    position: int
    name: str
    op: str
    dtype: DType

    @property
    def identity(self) -> int:
        """What leaves every number as it is."""
        special = {"and": self.dtype.wrap(-1), "min": int(self.dtype.max), "max": int(self.dtype.min)}
        return special.get(self.op, 0)


def counters(loop: ir.IRParallelFor, kernel: ir.IRKernel) -> list[Counter]:
    """The parameters that a loop only counts in; `sub` counts as `add`.

    Parameters
    ----------
    loop, kernel
        Typed. No statement before the loop reads an array.
    """
    found: dict[str, set[str]] = {}
    counting: set[int] = set()
    for node in ir.walk(loop.body):
        if isinstance(node, ir.IRExprStmt) and isinstance(node.value, ir.IRAtomic):
            op = "add" if node.value.op == "sub" else node.value.op
            found.setdefault(node.value.array, set()).add(op)
            counting.add(id(node.value))
    for node in ir.walk(loop.body):
        if id(node) not in counting and not isinstance(node, ir.IRArrayAttr):
            found.pop(getattr(node, "array", ""), None)
            found.pop(getattr(node, "name", ""), None)  # handed to a device function
    return [
        Counter(at, param.name, min(found[param.name]), param.type.dtype)
        for at, param in enumerate(kernel.params)
        if isinstance(param.type, ArrayType) and param.type.dtype.is_integer
        if len(found.get(param.name, ())) == 1 and found[param.name] <= _ALLOWED
    ]


class CounterEmitter(LaneEmitter):
    """Writes chunks that may count for themselves, and the counting."""

    def _tally(self, op: str, storage: ArrayStorage, values: list[Value]) -> Value:
        """An operation on a copy that only this thread knows; nobody reads what it gives."""
        address, t = self._pointer(storage, values[0].ssa), llvm_type(storage.dtype)
        old = Value(self.f.emit(f"load {t}, ptr {address}"), storage.dtype)
        if op in _OPERATORS:
            new = self._emit_binop(_OPERATORS[op], old, values[1], storage.dtype)
        else:
            new = self._emit_builtin(op, [old, values[1]], storage.dtype)
        self.f.do(f"store {t} {new.ssa}, ptr {address}")
        return old

    def _call_body(
        self, number: int, arguments: list[list[str]], ranges: list[str], known: list[Counter], sizes: list[str]
    ) -> None:
        """Call a loop's code, on copies of its counters if that pays. `arguments` has the texts of each parameter,
        `sizes` the bytes of each counter."""
        every = ", ".join([*itertools.chain(*arguments), *ranges])
        if not known:
            self.f.do(f"call void @body.{number}({every})")
            return
        own, plain, done = (self.f.label(x) for x in ("own", "plain", "done"))
        self.f.cond_br(self._copies_pay(sizes, known), own, plain)
        self.f.open(own)
        ours, copies = list(arguments), list[str]()
        for c, size in zip(known, sizes, strict=True):
            copies.append(self.f.slot(f"[{_MOST_BYTES // len(known)} x i8], align 16", zero=False))
            with self._each(c, size) as k:
                self.f.do(f"store {llvm_type(c.dtype)} {c.identity}, ptr {self._element(c, copies[-1], k)}")
            ours[c.position] = [f"ptr {copies[-1]}", *arguments[c.position][1:]]
        self.f.do(f"call void @body.{number}.own({', '.join([*itertools.chain(*ours), *ranges])})")
        for c, size, copy in zip(known, sizes, copies, strict=True):
            with self._each(c, size) as k:
                self._merge(c, copy, arguments[c.position][0].removeprefix("ptr "), k)
        self.f.br(done)
        self.f.open(plain)
        self.f.do(f"call void @body.{number}({every})")
        self.f.br(done)
        self.f.open(done)

    def _copies_pay(self, sizes: list[str], known: list[Counter]) -> str:
        length, pay = self.f.emit("sub i64 %end, %begin"), "true"
        for size, wanted in zip(sizes, self._iterations_for_copies(known, sizes), strict=True):
            enough = self.f.emit(f"icmp uge i64 {length}, {wanted}")
            pay = self.f.emit(f"and i1 {pay}, {self.f.emit(f'and i1 {self._may_be_copied(size, known)}, {enough}')}")
        return pay

    def _may_be_copied(self, size: str, known: list[Counter]) -> str:
        return self.f.emit(f"icmp ule i64 {size}, {_MOST_BYTES // len(known)}")

    def _iterations_for_copies(self, known: list[Counter], sizes: list[str]) -> list[str]:
        """How long a chunk is for whom a copy of each counter pays."""
        each = [max(1, _ITERATIONS_AN_ELEMENT // c.dtype.itemsize) for c in known]
        return [self.f.emit(f"mul i64 {size}, {times}") for size, times in zip(sizes, each, strict=True)]

    def _shortest_counting(self, known: list[Counter], sizes: list[str]) -> str:
        """What is worth a thread, for it adds up its copies in competition with others: 0 where it has none anyway."""
        longest, may = "0", "true"
        for size, wanted in zip(sizes, self._iterations_for_copies(known, sizes), strict=True):
            longest = self._intrinsic("umax", i64, longest, wanted).ssa
            may = self.f.emit(f"and i1 {may}, {self._may_be_copied(size, known)}")
        if not known:
            return "0"
        return self.f.emit(f"select i1 {may}, i64 {self.f.emit(f'mul i64 {longest}, {_COPIES_A_CHUNK}')}, i64 0")

    def _element(self, counter: Counter, pointer: str, k: str) -> str:
        return self.f.emit(f"getelementptr {llvm_type(counter.dtype)}, ptr {pointer}, i64 {k}")

    @contextmanager
    def _each(self, counter: Counter, size: str) -> Iterator[str]:
        """A loop over the elements; what is written meanwhile is its body."""
        count = self.f.emit(f"udiv i64 {size}, {counter.dtype.itemsize}")
        head, inside, latch, done = (self.f.label(x) for x in ("elements", "element", "next", "done"))
        k, before = self.f.name(), self.f.block
        self.f.br(head)
        self.f.open(head)
        self.f.do(f"{k} = phi i64 [ 0, %{before} ], [ {k}.next, %{latch} ]")
        self.f.cond_br(self.f.emit(f"icmp ult i64 {k}, {count}"), inside, done)
        self.f.open(inside)
        yield k
        self.f.br(latch)
        self.f.open(latch)
        self.f.do(f"{k}.next = add i64 {k}, 1")
        self.f.br(head)
        self.f.open(done)

    def _merge(self, counter: Counter, copy: str, shared: str, k: str) -> None:
        """Add an element of a copy to the array, if anything was counted there."""
        t = llvm_type(counter.dtype)
        value = self.f.emit(f"load {t}, ptr {self._element(counter, copy, k)}")
        some, none = self.f.label("some"), self.f.label("none")
        self.f.cond_br(self.f.emit(f"icmp ne {t} {value}, {counter.identity}"), some, none)
        self.f.open(some)
        storage = ArrayStorage(shared, counter.dtype, (), counter.dtype.itemsize)
        self._atomic_scalar(counter.op, storage, [Value(k, i64), Value(value, counter.dtype)])
        self.f.br(none)
        self.f.open(none)
