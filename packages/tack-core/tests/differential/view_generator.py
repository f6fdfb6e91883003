"""Random kernels over rows of three arrays that are views of one buffer, and the views: an oracle for both.

The text is a kernel `main(n, m, p, q, r)`. `Views` says where each array lies in the buffer, in bytes: shifted by some
elements, by rows, by part of one, apart, or the same. `run` runs the text in Python over the elements in the order of
the program, and finds whether two iterations of a parallel loop touch one byte that one of them writes: such a program
has no one answer, and is of no use.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

HEADER = "import tack\n\n@tack.kernel\ndef main(n, m, p, q, r):\n"
# How an element of a row and a column is written: two dimensions, one, three.
FORMS = ("{0}[{1}, {2}]", "{0}[({1}) * m + {2}]", "{0}[{1}, 1, {2}]")
MARGIN = 4  # the most by which a column is shifted


@dataclass(frozen=True)
class Program:
    """A kernel and, by array, its dimensions; `square` if it takes columns for rows."""

    text: str
    dims: tuple[int, ...]
    square: bool


def program(seed: int) -> Program:
    """The same for the same seed."""
    writer = _Writer(random.Random(seed))
    text = HEADER + "".join(line for _ in range(writer.rng.choice((1, 1, 1, 2))) for line in writer.loop())
    return Program(text, tuple((2, 1, 3)[writer.forms[name]] for name in "pqr"), writer.square)


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.forms = {name: rng.choice((0, 0, 1, 2)) for name in "pqr"}
        self.square = False

    def loop(self) -> list[str]:
        kind = self.rng.choice(("rows", "rows", "rows", "stream", "grid"))
        if kind != "rows":
            return self.stream(kind)
        body = [line for _ in range(self.rng.randint(1, 2)) for line in self.part()]
        return ["    for i in range(n):\n", f"        s = {self.at('p', 'i', '4')}\n", *body]

    def stream(self, kind: str) -> list[str]:
        """One element an iteration: of all in their order, or by row and column."""
        rng, (low, high) = self.rng, self.margins()
        names = rng.sample("pqr", 3)
        if kind == "grid":
            head = f"    for i, j in tack.ndrange(n, ({low}, m - {high})):\n"
            x, y, z = (self.at(name, "i", self.moved("j", low, high)) for name in names)
        else:
            head = f"    for i in range({low}, n * m - {high}):\n"
            x, y, z = (f"{name}[{self.moved('i', low, high)}]" for name in names)
        stores = [f"{x} = {y}", f"{x} = {y} * 3 + {z}", f"{x} = {y} + {z}", f"{x} += {y}", f"{y} = {x} - {z}"]
        return [head, *(f"        {store}\n" for store in rng.sample(stores, rng.randint(1, 2)))]

    def margins(self) -> tuple[int, int]:
        rng = self.rng
        return rng.choice(((0, 0), (1, 1), (rng.randint(0, MARGIN), rng.randint(0, MARGIN))))

    def moved(self, place: str, low: int, high: int) -> str:
        shift = self.rng.choice((0, 0, self.rng.randint(-low, high)))
        return place if shift == 0 else f"{place} {'+' if shift > 0 else '-'} {abs(shift)}"

    def part(self) -> list[str]:
        """A loop along rows, in another one or alone; or statements outside of any."""
        rng, (low, high), pad = self.rng, self.margins(), "        "
        kind = rng.choice(("nest", "nest", "row", "plain"))
        if kind == "plain":
            x, y, z = (self.at(rng.choice("pqr"), "i", str(rng.randint(0, 3))) for _ in range(3))
            return [f"{pad}{x} = s * {y}\n", f"{pad}{z} += {x} + s\n"]
        lines = []
        if kind == "nest":
            lines = [f"{pad}for k in range({rng.choice(('n', 'min(n, 3)', '1, n', 'n - 1'))}):\n"]
            pad += "    "
            if rng.random() < 0.7:
                place = rng.choice((("i", "k"), ("k", "0"), ("k", "i")))
                lines.append(f"{pad}s = {self.at(rng.choice('pqr'), *place)}\n")
        lines.append(f"{pad}for j in range({low}, m - {high}):\n")
        rows = ["i", "i", "k" if kind == "nest" else "0"]
        lines += [f"{pad}    {self.statement(rows, low, high)}\n" for _ in range(rng.choice((1, 1, 2)))]
        if rng.random() < 0.4:
            lines.append(f"{pad}{self.at(rng.choice('pqr'), 'i', str(rng.randint(0, 2)))} = s\n")
        return lines

    def statement(self, rows: list[str], low: int, high: int) -> str:
        rng = self.rng
        target, a, b = (self.element(among, low, high) for among in (["i"], rows, rows))
        products = f"s * {a}", f"s * {a}", f"{a} * {b} + s"
        value = rng.choice((*products, f"{a} + {b}", f"{a} - {b} * 3", a, f"{a} + {b} + s"))
        return rng.choice((f"s += {value}", f"{target} = {value}", f"{target} = {value}", f"{target} += {value}"))

    def element(self, rows: list[str], low: int, high: int) -> str:
        rng = self.rng
        if rng.random() < 0.05 and low == high == 0:
            return self.at(rng.choice("pqr"), "j", "i")
        return self.at(rng.choice("pqr"), rng.choice(rows), self.moved("j", low, high))

    def at(self, name: str, row: str, column: str) -> str:
        if "k" in column or "i" in column:
            self.square = True
        return FORMS[self.forms[name]].format(name, row, column)


@dataclass(frozen=True)
class Views:
    """Arrays of `shapes` and one element type that begin so many bytes after the buffer's start, which has `size`."""

    size: int
    starts: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: Any

    def of(self, buffer: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        return [
            buffer[start : start + self.bytes(shape)].view(self.dtype).reshape(shape)
            for start, shape in zip(self.starts, self.shapes, strict=True)
        ]

    def bytes(self, shape: tuple[int, ...]) -> int:
        return int(np.prod(shape)) * np.dtype(self.dtype).itemsize

    def are_apart(self) -> bool:
        """Whether no two arrays have a byte in common, empty ones aside."""
        spans = [(a, a + self.bytes(shape)) for a, shape in zip(self.starts, self.shapes, strict=True)]
        return all(min(b, d) <= max(a, c) for (a, b), (c, d) in itertools.combinations(spans, 2))


def views(rng: random.Random, dims: tuple[int, ...], n: int, m: int, dtype: Any) -> Views:
    """Random places for arrays of n rows of m elements, each near another's in some way."""
    shapes = tuple({1: (n * m,), 2: (n, m), 3: (n, 2, m)}[d] for d in dims)
    size, integer = np.dtype(dtype).itemsize, np.dtype(dtype).kind != "f"
    lengths = [int(np.prod(shape)) for shape in shapes]
    starts = [0]
    for place in (1, 2):
        other = rng.randrange(place)
        apart = [lengths[other], -lengths[place]]  # right behind, right before
        near = rng.choice((0, rng.randint(-4, 4), m, -m, rng.randint(-m, m), rng.randint(-n, n) * m, *apart, *apart))
        off = rng.choice((0, 0, 0, rng.randint(-4, 4)))
        if rng.random() < 0.2:  # behind all
            other = max(range(place), key=lambda k: starts[k] + lengths[k] * size)
            near, off = lengths[other], abs(off)
        bytes_off = rng.randint(1, size - 1) if integer and size > 1 and rng.random() < 0.05 else 0
        starts.append(starts[other] + (near + off) * size + bytes_off)
    starts = [start - min(starts) for start in starts]
    end = max(start + length * size for start, length in zip(starts, lengths, strict=True))
    return Views(-(-end // size) * size, tuple(starts), shapes, dtype)


class _Log:
    """Who touched which place in a parallel loop: elements, or bytes where arrays do not lie alike."""

    def __init__(self) -> None:
        self.races, self.now = False, -1
        self.written: dict[int, int] = {}
        self.read: dict[int, int] = {}

    def iterations(self, *bounds: int | tuple[int, int]) -> Iterator[Any]:
        """As `range`, or as `tack.ndrange` with a range in it."""
        self.written, self.read = {}, {}
        inner = bounds[-1] if isinstance(bounds[-1], tuple) else None
        places = itertools.product(range(bounds[0]), range(*inner)) if inner else range(*bounds)
        for self.now, place in enumerate(places):
            yield place
        self.races |= any(self.read.get(place, writer) != writer for place, writer in self.written.items())


_MANY = -2  # iterations


class _Logged:
    """An array whose accesses go to the log."""

    def __init__(self, array: np.ndarray[Any, Any], start: int, unit: int, log: _Log) -> None:
        self.array, self.flat, self.log = array, array.reshape(-1), log
        self.start, self.units = start // unit, array.itemsize // unit

    def _place(self, index: Any) -> int:
        if not isinstance(index, tuple):
            assert 0 <= index < self.flat.size
            return index
        flat = 0
        for i, extent in zip(index, self.array.shape, strict=True):
            assert 0 <= i < extent
            flat = flat * extent + i
        return flat

    def __getitem__(self, index: Any) -> Any:
        place, read, now = self._place(index), self.log.read, self.log.now
        first = self.start + place * self.units
        for unit in range(first, first + self.units):
            if read.setdefault(unit, now) != now:
                read[unit] = _MANY
        return self.flat[place]

    def __setitem__(self, index: Any, value: Any) -> None:
        place, written, now = self._place(index), self.log.written, self.log.now
        first = self.start + place * self.units
        for unit in range(first, first + self.units):
            self.log.races |= written.setdefault(unit, now) != now
        self.flat[place] = value


def run(text: str, n: int, m: int, places: Views, buffer: np.ndarray[Any, Any]) -> bool:
    """Run a kernel's text on the buffer; whether its iterations keep apart, and it has one answer."""
    log, size = _Log(), np.dtype(places.dtype).itemsize
    unit = 1 if any(start % size for start in places.starts) else size
    arrays = [_Logged(a, start, unit, log) for a, start in zip(places.of(buffer), places.starts, strict=True)]
    plain = text.replace("import tack\n\n@tack.kernel\n", "").replace("for i in range(", "for i in iterations(")
    plain = plain.replace("tack.ndrange(", "iterations(")
    names: dict[str, Any] = {"iterations": log.iterations}
    exec(plain, names)
    with np.errstate(all="ignore"):
        names["main"](n, m, *arrays)
    return not log.races
