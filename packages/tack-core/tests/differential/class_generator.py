"""Random valid programs with data-oriented classes, as source text that Tack and the oracle both run.

A program is a class with constants, numbers, arrays, a nested instance, device functions and a kernel as methods; a
subclass that overrides some of them and calls `super()`; and a kernel that takes an instance of each and hands both to
a device function. All numbers are i32. A method with an effect tells in which order calls ran, and whether they did.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

LANES = 8
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CONSTANTS = ("C", "D")
SCALARS = ("s", "t")


@dataclass
class ClassWriter:
    """Writes the bodies of methods. `leaves` are readable names, `calls` what may be called: text with `{0}`, `{1}`."""

    rng: random.Random
    leaves: list[str]
    calls: list[str]
    lines: list[str] = field(default_factory=list)

    def leaf(self) -> str:
        return str(self.rng.randint(-9, 9)) if self.rng.random() < 0.15 else self.rng.choice(self.leaves)

    def expression(self, depth: int) -> str:
        if depth <= 0:
            return self.leaf()
        rng, sub = self.rng, lambda: self.expression(depth - 1)
        style = rng.randrange(9)
        if style < 3:
            return f"({sub()} {rng.choice(('+', '-', '*', '&', '|', '^'))} {sub()})"
        if style == 3:
            return f"({sub()} {rng.choice(('//', '%'))} {rng.choice((-7, 3, 5))})"
        if style == 4:
            return f"({sub()} if {self.condition()} else {sub()})"
        if style == 5:
            return f"{rng.choice(('min', 'max'))}({sub()}, {self.leaf()})"
        return rng.choice(self.calls).format(sub(), self.leaf()) if self.calls and style == 6 else f"(-{sub()})"

    def condition(self) -> str:
        test = f"{self.leaf()} {self.rng.choice(COMPARISONS)} {self.expression(1)}"
        if self.rng.random() < 0.3:
            return f"{test} {self.rng.choice(('and', 'or'))} {self.expression(1)} > {self.leaf()}"
        return test

    def statements(self, count: int, stores: list[str]) -> None:
        for _ in range(count):
            style = self.rng.randrange(4)
            if style == 0:
                self.lines.append(f"v {self.rng.choice('+-*^')}= {self.expression(2)}")
            elif style == 1:
                self.lines.append(f"for k in range({self.rng.randint(1, 3)}):")
                self.lines.append(f"    v = {self.expression(1)} + v * tack.i32(k)")
                self.lines.append(f"    if {self.condition()}:")
                self.lines.append(f"        {self.rng.choice(('break', 'continue'))}")
                self.lines.append(f"    v ^= {self.expression(1)}")
            elif style == 2:
                self.lines.append(f"if {self.condition()}:")
                self.lines.append(f"    {self.rng.choice([*stores, 'v'])} += {self.expression(2)}")
            elif stores:
                self.lines.append(
                    f"{self.rng.choice(stores)} {self.rng.choice(('=', '+=', '-='))} {self.expression(2)}"
                )

    def text(self, indent: int) -> str:
        return "".join("    " * indent + line + "\n" for line in self.lines)


def method(rng: random.Random, head: str, leaves: list[str], calls: list[str], stores: list[str]) -> str:
    """A device function of a class, `v` its local, with an early return in some."""
    writer = ClassWriter(rng, [*leaves, "v"], calls)
    writer.statements(1, stores)
    if rng.random() < 0.4:
        writer.lines += [f"if {writer.condition()}:", f"    return {writer.expression(1)}"]
    writer.lines.append(f"return {writer.expression(2)} + v")
    return f"    @tack.func\n    def {head}:\n{writer.text(2)}\n"


def table(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.randint(-99, 99) for _ in range(4))


NOTE = """    @tack.func
    def note(self, i, v):
        self.y[i] = self.y[i] * 31 + v
        return v ^ self.s

"""
RUN = """    @tack.kernel
    def run(self, out):
        for i in range(self.x.shape[0]):
            v = self.x[i]
            {}
        for i in range(self.x.shape[0]):
            out[i] += self.y[i ^ 1] * self.C

"""
INIT = {
    "Inner": "    def __init__(self, s, x):\n        self.s = s\n        self.x = x\n\n",
    "Base": "    def __init__(self, s, t, x, y, inner):\n        self.s = s\n        self.t = t\n"
    "        self.x = x\n        self.y = y\n        self.inner = inner\n\n",
}


def program(seed: str) -> str:
    """The text of `Inner`, `Base`, `Sub` and the kernel `outer`."""
    rng = random.Random(f"classes {seed}")
    text = f"@tack.data_oriented\nclass Inner:\n    C = {rng.randint(-9, 9)}\n\n{INIT['Inner']}"
    text += method(rng, "read(self, i, v)", ["self.C", "self.s", "self.x[i]"], [], ["self.x[i]"])
    own = ["self.C", "self.D", "Base.C", "self.s", "self.t", "self.x[i]", "self.y[i]", "self.TABLE[(i + 1) & 3]"]
    own += ["self.inner.s", "self.inner.C", "self.inner.x[i]"]
    stores = ["self.y[i]", "self.inner.x[i]"]
    constants = "".join(f"    {name} = {rng.randint(-9, 9)}\n" for name in CONSTANTS)
    text += f"@tack.data_oriented\nclass Base:\n{constants}    TABLE = {table(rng)}\n\n{INIT['Base']}"
    text += "    @staticmethod\n" + method(rng, "mix(v, w)", ["w"], [], [])
    text += NOTE
    calls = ["self.mix({0}, {1})", "self.note(i, {0})", "self.inner.read(i, {0})"]
    text += method(rng, "first(self, i, v)", own, calls, stores)
    calls.append("self.first(i, {0})")
    text += method(rng, "second(self, i, v)", own, calls, stores)
    calls.append("self.second(i, {0})")
    writer = ClassWriter(rng, [*own, "v"], calls)
    writer.statements(rng.randint(1, 2), stores)
    writer.lines.append(f"out[i] = {writer.expression(2)} + v")
    text += RUN.format(writer.text(3).strip())
    text += subclass(rng, own, calls, stores)
    both = ["o.first(i, {0})", "p.second(i, {0})", "o.inner.read(i, {0})", "p.mix({0}, {1})", "Base.first(p, i, {0})"]
    leaves = ["o.C", "p.C", "Sub.C", "o.s", "p.s", "o.x[i]", "p.y[i]"]
    text += (
        method(rng, "both(o, p, i, v)", leaves, both, ["o.y[i]", "p.y[i]"])
        .replace("    @", "@")
        .replace("\n    ", "\n")
    )
    text += (
        "@tack.kernel\ndef outer(o, p, out):\n    for i in range(out.shape[0]):\n        out[i] = both(o, p, i, o.x[i])"
    )
    return text + " + both(p, o, i, 1)\n"


def subclass(rng: random.Random, own: list[str], calls: list[str], stores: list[str]) -> str:
    """Overrides a constant, and one or two methods."""
    text = f"class Sub(Base):\n    {rng.choice(CONSTANTS)} = {rng.randint(-9, 9)}\n"
    if rng.random() < 0.5:
        text += f"    TABLE = {table(rng)}\n"
    above = [*calls[:3], "super().first(i, {0})", "Base.first(self, i, {0})", "super().mix({0}, {1})"]
    text += "\n" + method(rng, "first(self, i, v)", own, above, stores)
    if rng.random() < 0.5:
        text += "    @staticmethod\n" + method(rng, "mix(v, w)", ["w"], [], [])
    return text + "\n"
