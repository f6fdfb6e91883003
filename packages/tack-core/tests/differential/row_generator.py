"""Random kernels with nests of serial loops, most of which every iteration runs alike, and some of which it does not.

The text is a kernel `main(n, m, x, t, out, fout)`: f32 and i32 arrays to read, and two outputs of n by 8, of which an
iteration touches its own row only. The table `t` has 64 elements.
"""

from __future__ import annotations

import random

HEADER = """import tack

@tack.kernel
def main(n, m, x, t, out, fout):
    before = m * 3
    for i in range(n):
        k = tack.i64(t[i & 63])
        s = m
        f = x[i, 0]
        for z in range(m & 3):
            before += z
"""
FOOTER = """        out[i, 0] += tack.i32(k ^ s ^ before)
        fout[i, 0] += f
"""
MOST_DEPTH = 4


def program(seed: int) -> str:
    """The same text for the same seed."""
    return HEADER + "".join(_Writer(random.Random(seed)).block(MOST_DEPTH, 2, [])) + FOOTER


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.names = rng, 0

    def block(self, depth: int, indent: int, loops: list[str]) -> list[str]:
        count = self.rng.randint(1, 3)
        return [line for _ in range(count) for line in self.statement(depth, indent, loops)]

    def statement(self, depth: int, indent: int, loops: list[str]) -> list[str]:
        pad, rng = "    " * indent, self.rng
        kind = rng.choice(["set"] * 4 + (["for"] * 4 + ["if", "while"] if depth else []) + ["jump"])
        if kind == "set":
            return [f"{pad}{self.assignment(loops)}\n"]
        if kind == "jump":
            jump = rng.choice(["break", "continue"]) if loops else "continue"
            extra = [f"{pad}    {self.assignment(loops)}\n"] if rng.random() < 0.5 else []
            return [f"{pad}if {self.condition(loops)}:\n", *extra, f"{pad}    {jump}\n"]
        if kind == "if":
            lines = [f"{pad}if {self.condition(loops)}:\n", *self.block(depth - 1, indent + 1, loops)]
            return lines + [f"{pad}else:\n", *self.block(depth - 1, indent + 1, loops)] * (rng.random() < 0.4)
        self.names += 1
        name = f"c{self.names}"
        inside = self.block(depth - 1, indent + 1, [*loops, name])
        if kind == "for":
            bounds = rng.choice(["5", "m", "m", "1, m, 2", "-2, 3", "s & 3", "i & 3", "i, i + 3", "x.shape[1]"])
            own = [f"{pad}    {name} += 1\n"] * (rng.random() < 0.2)
            return [f"{pad}for {name} in range({bounds}):\n", *own, *inside]
        limit = rng.choice(["4", "m", "k & 3"])
        return [f"{pad}{name} = 0\n", f"{pad}while {name} < {limit}:\n", f"{pad}    {name} += 1\n", *inside]

    def assignment(self, loops: list[str]) -> str:
        rng = self.rng
        return rng.choice(
            [
                f"k = {self.integer(2, loops)}",
                f"s += {rng.choice(['m', '1', *loops])}",
                f"before = {self.integer(1, loops)}",
                f"f = {self.real(loops)} * 0.5 + f",
                f"f += x[i, {self.common(loops)} & 3] * x[3, {self.common(loops)} & 3]",
                f"out[i, {self.common(loops)} & 7] += tack.i32({self.integer(1, loops)})",
                f"out[i, {self.integer(0, loops)} & 7] = t[{self.integer(1, loops)} & 63]",
                f"fout[i, {self.common(loops)} & 7] += {self.real(loops)}",
            ]
        )

    def common(self, loops: list[str]) -> str:
        """The same for every iteration, or nearly."""
        rng = self.rng
        return f"({rng.choice(['s', 'm', *loops, *loops])} + {rng.randint(0, 3)})"

    def integer(self, depth: int, loops: list[str]) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(["k", "s", "before", "i", "m", str(rng.randint(0, 9)), *loops])
        a, b = self.integer(depth - 1, loops), self.integer(depth - 1, loops)
        loads = [f"tack.i64(t[{a} & 63])", f"tack.i64(out[i, {a} & 7])"]
        return rng.choice([f"({a} {rng.choice('+-*&|^')} {b})", f"({a} // 3)", f"({a} % 5)", f"min({a}, {b})", *loads])

    def real(self, loops: list[str]) -> str:
        whole = self.integer(1, loops)
        return self.rng.choice(["f", f"tack.f32({whole} & 63)", f"x[{whole} & 15, 1]", f"fout[i, {whole} & 7]"])

    def condition(self, loops: list[str]) -> str:
        rng, a = self.rng, self.common(loops)
        same = [f"{a} & 3 == 1", f"t[{a} & 63] > 20", f"0 < {a} < 6"]
        return rng.choice([*same, *same, f"{self.integer(1, loops)} & 3 == {rng.randint(0, 3)}", "f > 3.0"])
