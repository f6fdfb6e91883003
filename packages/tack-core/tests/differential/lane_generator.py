"""Random kernels whose iterations part: nested control flow over floats and integers, with guarded operations.

The text is a kernel `main(n, x, y, t, out, fout)`: f32 and f64 arrays, an i32 table of 64 elements, two outputs. Every
element of an output is written by its own iteration only, so that the order of iterations does not matter.
"""

from __future__ import annotations

import random

HEADER = """import tack

@tack.func
def helper(a, b):
    if a > b:
        return a - b
    for k in range(a & 3):
        if k * b > 10:
            return b + k
        a += 1
    return a * 3 - b

@tack.kernel
def main(n, x, y, t, out, fout):
    for i in range(n):
        f = x[i]
        g = y[i]
        k = t[i & 63]
        m = i * 2
        u = tack.u8(k)
        own = tack.local(4, tack.f32)
        for z in range(4):
            own[z] = f
"""
FOOTER = """        out[i] = k + tack.i32(m & 1023) * 3 + tack.i32(u) + out[i]
        fout[i] = tack.f64(f) + g + tack.f64(own[k & 3])
"""
MOST_DEPTH = 3


def program(seed: int) -> str:
    """The same text for the same seed."""
    return HEADER + "".join(_Writer(random.Random(seed)).block(MOST_DEPTH, 2, False)) + FOOTER


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.names = rng, 0

    def block(self, depth: int, indent: int, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 3)):
            lines += self.statement(depth, indent, in_loop)
        return lines

    def statement(self, depth: int, indent: int, in_loop: bool) -> list[str]:
        pad, rng = "    " * indent, self.rng
        kind = rng.choice(
            ["set"] * 5 + (["if"] * 3 + ["for", "while"] if depth else []) + ["jump"] * (in_loop or depth < 3)
        )
        if kind == "set":
            return [pad + self.assignment() + "\n"]
        if kind == "if":
            lines = [f"{pad}if {self.condition()}:\n", *self.block(depth - 1, indent + 1, in_loop)]
            if rng.random() < 0.5:
                lines += [f"{pad}else:\n", *self.block(depth - 1, indent + 1, in_loop)]
            return lines
        if kind == "jump":
            jump = rng.choice(["break", "continue"]) if in_loop else "continue"
            return [f"{pad}if {self.condition()}:\n", f"{pad}    {jump}\n"]
        self.names += 1
        name = f"c{self.names}"
        if kind == "for":
            bounds = rng.choice(["k & 7", "3", "i & 3, i & 7", "m & 3, 9, 2", "-2, 4, 3", "(k & 1), (i & 3) + 2"])
            return [f"{pad}for {name} in range({bounds}):\n", f"{pad}    k += tack.i32({name})\n",
                    *self.block(depth - 1, indent + 1, True)]  # fmt: skip
        return [f"{pad}{name} = 0\n", f"{pad}while {name} < 6 and ({self.condition()}):\n", f"{pad}    {name} += 1\n",
                *self.block(depth - 1, indent + 1, True)]  # fmt: skip

    def assignment(self) -> str:
        rng = self.rng
        return rng.choice(
            [
                f"k = {self.integer(2)}",
                f"k += {self.integer(1)}",
                f"m = tack.i64({self.integer(1)}) ^ (m >> {rng.randint(1, 9)})",
                f"u = tack.u8({self.integer(1)}) + u",
                f"f = {self.real(2)}",
                f"f = tack.f32(g) if {self.condition()} else {self.real(1)}",
                f"g = g * 0.75 + tack.f64({self.real(1)})",
                f"own[{self.integer(1)} & 3] = {self.real(1)}",
                f"own[{rng.randint(0, 3)}] += f",
                f"out[i] = {self.integer(2)}",
                f"k = helper({self.integer(1)}, k & 15)",
                "f, k = f * 0.5, k + 1",
            ]
        )

    def integer(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(["k", "tack.i32(m)", "tack.i32(i)", "tack.i32(u)", str(rng.randint(0, 9)), "t[i & 63]"])
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        return rng.choice(
            [
                f"({a} {rng.choice(['+', '-', '*', '&', '|', '^'])} {b})",
                f"({a} {rng.choice(['//', '%'])} {rng.choice([2, 3, 8, 10])})",
                f"({a} {rng.choice(['//', '%'])} {b} if {b} > 0 else {a})",
                f"({a} >> ({b} & 15))",
                f"t[{a} & 63]",
                f"min({a}, {b})",
                f"tack.popcount({a})",
                f"abs({a} & 255)",
                f"({self.condition(0)})",
            ]
        )

    def real(self, depth: int) -> str:
        rng = self.rng
        if depth == 0:
            return rng.choice(["f", "tack.f32(k & 255)", f"{rng.randint(1, 40) / 8}", "x[i]", "own[k & 3]", "own[1]"])
        a, b = self.real(depth - 1), self.real(depth - 1)
        return rng.choice(
            [
                f"({a} {rng.choice('+-*')} {b})",
                f"({a} / ({b} * {b} + 1.0))",
                f"tack.sqrt(abs({a}))",
                f"max({a}, {b})",
                f"tack.floor({a})",
                f"tack.sin({a})",
                f"x[{self.integer(depth - 1)} & 31]",
                f"({a} % 3.0)",
            ]
        )

    def condition(self, depth: int = 1) -> str:
        rng = self.rng
        a, b = self.integer(depth), self.integer(depth)
        return rng.choice(
            [
                f"{a} {rng.choice(['<', '<=', '>', '==', '!='])} {b}",
                f"{self.real(depth)} {rng.choice(['<', '>'])} {self.real(0)}",
                f"{a} > 3 and t[{a} & 63] // ({b} | 1) < 5",
                f"k < 5 or {self.real(0)} < 2.0",
                f"0 <= {a} < {b} < 99",
                f"not {a}",
                f"i & {rng.choice([1, 3, 7])} == {rng.choice([0, 1])}",
            ]
        )
