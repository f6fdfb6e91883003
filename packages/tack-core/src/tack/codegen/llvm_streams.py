"""Runs of a loop that may store past the caches: when that pays, and which blocks do it.

A vector goes past the caches only to an address that is a multiple of its size, but an array may start at any byte, and
a row anywhere. So a run is cut into the iterations before the first whole cache line, those of whole lines, and the
rest; all go through the code of one run, and the middle part stores past the caches. No line is stored to in both ways,
which would take longer than either. A run that does not store so, as in every short loop, is not cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tack.codegen.lane_streams import LINE, Streams, size_of
from tack.codegen.llvm_statements import StatementEmitter
from tack.lang import ir

_LEAST_ROW: Final = 2048  # bytes: the two ends of a row take longer


class StreamEmitter(StatementEmitter):
    """Writes what decides; `_pays` is whether the loop at hand stores past the caches."""

    _pays: str

    def _is_beyond(self, streams: Streams, counts: list[str]) -> str:
        """Whether a loop as a whole is long enough, and its rows are."""
        emit, (total, *inner) = self.f.emit, counts
        for count in inner:
            total = emit(f"mul i64 {total}, {count}")
        pays = emit(f"icmp uge i64 {total}, {streams.least}")
        if not inner:
            return pays
        row = emit(f"icmp uge i64 {inner[-1]}, {_LEAST_ROW // size_of(streams.stores[0])}")
        return emit(f"and i1 {pays}, {row}")

    def _end_streams(self) -> None:
        """Such stores are not in order with others: who waits for this chunk must see them."""
        fence, done = self.f.label("fence"), self.f.label("done")
        self.f.cond_br(self._pays, fence, done)
        self.f.open(fence)
        self.f.do(f"call void {self.module.declare('void', 'llvm.x86.sse.sfence', [])}()")
        self.f.br(done)
        self.f.open(done)

    def _parts(
        self,
        streams: Streams,
        low: str,
        stop: str,
        go_to: Callable[[str], None],
        run: Callable[[str, str], None],
    ) -> None:
        """Iterations ``low <= position < stop`` in one part, or in three, after an empty one: all by the code that
        `run` writes once. `go_to` gives the loop's variable its value at a position."""
        head, cut, done = (self.f.label(x) for x in ("part", "cut", "ran"))
        first = self.f.emit(f"select i1 {self._pays}, i64 {low}, i64 {stop}")
        before, (begin, end, past) = self.f.block, (self.f.name() for _ in range(3))
        self.f.br(head)
        self.f.open(head)
        phis = len(self.f.lines)
        self.streaming, self.streamed = past, frozenset(map(id, streams.stores))
        run(begin, end)
        self.streaming = ""
        self.f.cond_br(self.f.emit(f"icmp eq i64 {end}, {stop}"), done, cut)
        self.f.open(cut)
        go_to(end)
        following, whole = self._following(streams, end, stop)
        self.f.lines[phis:phis] = [
            f"  {begin} = phi i64 [ {low}, %{before} ], [ {end}, %{cut} ]",
            f"  {end} = phi i64 [ {first}, %{before} ], [ {following}, %{cut} ]",
            f"  {past} = phi i1 [ false, %{before} ], [ {whole}, %{cut} ]",
        ]
        self.f.br(head)
        self.f.open(done)

    def _following(self, streams: Streams, begin: str, stop: str) -> tuple[str, str]:
        """Where the part that begins here ends, and whether it consists of whole lines."""
        emit, (lead, *others), left = self.f.emit, streams.stores, self.f.emit(f"sub i64 {stop}, {begin}")
        step, size = max(streams.width, LINE // size_of(lead)), size_of(lead)
        address = self._address(lead)
        good = self._is_multiple(address, step * size)
        for store in others:
            good = emit(f"and i1 {good}, {self._is_multiple(self._address(store), streams.width * size_of(store))}")
        behind = emit(f"lshr i64 {emit(f'sub i64 0, {address}')}, {size.bit_length() - 1}")
        ahead, whole = emit(f"and i64 {behind}, {step - 1}"), emit(f"and i64 {left}, {-step}")
        length = emit(f"select i1 {good}, i64 {whole}, i64 {ahead}")
        some = emit(f"icmp ult i64 {emit(f'sub i64 {length}, 1')}, {left}")  # neither none nor more than there are
        end = emit(f"select i1 {some}, i64 {emit(f'add i64 {begin}, {length}')}, i64 {stop}")
        return end, emit(f"and i1 {good}, {some}")

    def _is_multiple(self, address: str, power: int) -> str:
        return self.f.emit(f"icmp eq i64 {self.f.emit(f'and i64 {address}, {power - 1}')}, 0")

    def _address(self, store: ir.IRStore) -> str:
        """Of the element that the iteration at hand stores to."""
        storage = self.arrays[store.array]
        place = self._flat_index(storage, store.index)
        return self.f.emit(f"ptrtoint ptr {self._pointer(storage, place.ssa)} to i64")
