"""Random valid programs of integer vectors and matrices, as source text that Tack and the oracle both run.

A program is two parallel loops with device functions: it declares vectors, changes components and elements, keeps
vectors in a local array, calls functions, and stores; the second loop reads what the first stored in other rows. Some
calls change `r` so that it tells in which order they ran, and whether they did.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

LANES = 8
INPUTS = {"a": "V", "b": "V", "m": "M"}
OUTPUTS = {"p": "V", "q": "M", "r": "V"}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass
class VectorWriter:
    """Writes statements. `names` maps each readable name to its kind: "V", "M" or "S", a number."""

    rng: random.Random
    size: int
    names: dict[str, str]
    functions: dict[str, tuple[str, str]]  # kind of the parameter and the result, by name
    note: str = ""  # the function with an effect, where there may be one
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    counter: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text + "\n")

    def fresh(self) -> str:
        self.counter += 1
        return f"t{self.counter}"

    # ------------------------------------------------------------------------------------------------- expressions

    def component(self) -> str:
        """A component's index: mostly constant."""
        return (
            str(self.rng.randrange(self.size))
            if self.rng.random() < 0.7
            else f"((i + 1) & {(1, 1, 1, 3)[self.size - 1]})"
        )

    def pair(self) -> str:
        return f"{self.component()}, {self.component()}"

    def leaf(self, kind: str) -> str:
        known = [n for n, k in self.names.items() if k == kind]
        if known and self.rng.random() < 0.85:
            return self.rng.choice(known)
        if kind == "S":
            return str(self.rng.choice((0, 1, 2, 3, 5, 7)))
        if kind == "V":
            return f"[{', '.join(self.leaf('S') for _ in range(self.size))}]"
        return f"[{', '.join(self.leaf('V') for _ in range(self.size))}]"

    def expression(self, kind: str, depth: int) -> str:
        if depth <= 0:
            return self.leaf(kind)
        sub, rng = self.expression, self.rng
        choices = [f"({sub(kind, depth - 1)} {rng.choice('+-*')} {sub(kind, depth - 1)})"] * 3
        choices += [f"(-{self.operand(kind, depth - 1)})", f"abs({self.operand(kind, depth - 1)})"]
        choices += [f"{rng.choice(('min', 'max'))}({self.operand(kind, depth - 1)}, {sub('S', 0)})"]
        choices += [f"({sub(kind, depth - 1)} if {self.condition(depth - 1)} else {sub(kind, 0)})"]
        for name, (param, result) in self.functions.items():
            if result == kind:
                choices += [f"{name}({sub(param, depth - 1)})"] * 2
        if self.note and kind in "SV":
            choices += [f"{self.note}{kind}(r, i, {self.operand(kind, depth - 1)})"] * 2
        if kind == "S":
            choices += self.numbers(depth - 1)
        else:
            choices += [
                f"({sub('S', depth - 1)} * {sub(kind, depth - 1)})",
                f"({sub(kind, depth - 1)} ^ {sub('S', 0)})",
            ]
            choices += [
                f"tack.select({self.mask(kind, depth - 1)}, {sub(kind, depth - 1)}, {sub(rng.choice([kind, 'S']), 0)})"
            ]
            choices += self.vectors(depth - 1) if kind == "V" else self.matrices(depth - 1)
        return rng.choice(choices)

    def operand(self, kind: str, depth: int) -> str:
        """An expression that is no bare literal, which would have a type of its own."""
        text = self.expression(kind, depth)
        return f"({text} + {self.rng.choice([n for n, k in self.names.items() if k == kind])})"

    def numbers(self, depth: int) -> list[str]:
        v, m = self.operand("V", depth), self.operand("M", 0)
        return [
            f"({v}).{'xyzw'[self.rng.randrange(self.size)]}", f"({v})[{self.component()}]", f"({m})[{self.pair()}]",
            f"tack.dot({v}, {self.expression('V', depth)})", f"tack.trace({m})", f"tack.determinant({m})",
            f"tack.{self.rng.choice(('any', 'all'))}({self.mask('V', depth)})",
        ]  # fmt: skip

    def vectors(self, depth: int) -> list[str]:
        v, m = self.operand("V", depth), self.operand("M", 0)
        made = [f"({m} @ {v})", f"({v} @ {m})", f"[{', '.join(self.operand('S', 0) for _ in range(self.size))}]"]
        return made + ([f"tack.cross({v}, {self.operand('V', 0)})"] * 2 if self.size == 3 else [])

    def matrices(self, depth: int) -> list[str]:
        m, n = self.operand("M", depth), self.operand("M", 0)
        v = self.operand("V", 0)
        return [f"({m} @ {n})", f"tack.transpose({m})", f"tack.outer({v}, {self.operand('V', depth)})"]

    def mask(self, kind: str, depth: int) -> str:
        return f"({self.operand(kind, depth)} {self.rng.choice(COMPARISONS)} {self.expression(kind, 0)})"

    def condition(self, depth: int) -> str:
        style = self.rng.randrange(4)
        if style == 0:
            return f"tack.{self.rng.choice(('any', 'all'))}({self.mask('V', depth)})"
        if style == 1 and depth > 0:
            return f"({self.condition(depth - 1)} {self.rng.choice(('and', 'or'))} {self.condition(depth - 1)})"
        return f"{self.operand('S', depth)} {self.rng.choice(COMPARISONS)} {self.expression('S', 0)}"

    # ------------------------------------------------------------------------------------------------- statements

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            choices = [self.declare, self.declare, self.change, self.change, self.swap, self.augment]
            if depth < 2:
                choices += [self.branch, self.loop]
            self.rng.choice(choices)(depth)

    def block(self, depth: int) -> None:
        before = dict(self.names)
        self.indent += 1
        self.statements(self.rng.randint(1, 2), depth + 1)
        self.indent -= 1
        self.names = before

    def local(self, kind: str) -> str:
        known = [n for n, k in self.names.items() if k == kind and n.startswith("t") and "[" not in n]
        return self.rng.choice(known) if known else self.define(kind)

    def define(self, kind: str) -> str:
        name, text = self.fresh(), self.operand(kind, self.rng.randint(0, 2))
        self.line(f"{name} = {text}")
        self.names[name] = kind
        return name

    def declare(self, depth: int) -> None:
        self.define(self.rng.choice("VVVMSS"))

    def change(self, depth: int) -> None:
        """One component of a local, or of an element of the local array."""
        target = self.rng.choice([self.local("V"), f"cells[{self.rng.randrange(2)}]"])
        op, value = self.rng.choice(("=", "=", "+=", "-=", "*=")), self.expression("S", 2)
        self.line(f"{target}[{self.component()}] {op} {value}")
        if self.rng.random() < 0.5:
            self.line(f"{self.local('M')}[{self.pair()}] {op} {value}")
        if self.rng.random() < 0.4:
            self.line(f"{self.local('V')}.{'xyzw'[self.rng.randrange(self.size)]} = {self.expression('S', 1)}")

    def swap(self, depth: int) -> None:
        kind = self.rng.choice("VVM")
        first, second = self.local(kind), self.local(kind)
        if self.rng.random() < 0.5:
            self.line(f"{first}, {second} = {second}, {first}" if first != second else f"{first} = {second} + 1")
        else:
            v = self.local("V")
            self.line(f"{v}.x, {v}.y = {v}.y, {v}.x")
            self.line(f"{v} = {self.expression('V', 2)} + {v}")

    def augment(self, depth: int) -> None:
        kind = self.rng.choice("VMS")
        self.line(f"{self.local(kind)} {self.rng.choice('+-*')}= {self.expression(self.rng.choice([kind, 'S']), 2)}")
        self.line(f"cells[{self.rng.randrange(2)}] += {self.expression('V', 1)}")

    def branch(self, depth: int) -> None:
        self.line(f"if {self.condition(2)}:")
        self.block(depth)
        if self.rng.random() < 0.5:
            self.line("else:")
            self.block(depth)

    def loop(self, depth: int) -> None:
        name = self.fresh()
        self.line(f"for {name} in range({self.rng.randint(1, 3)}):")
        if self.rng.random() < 0.4:
            self.line(f"    if {self.condition(1)}:")
            self.line(f"        {self.rng.choice(('break', 'continue'))}")
        self.block(depth)


def program(seed: str, name: str) -> tuple[str, int]:
    """The text of a kernel called `name` with its device functions, and the size of its vectors."""
    rng = random.Random(f"vectors {seed}")
    size = rng.choice((2, 3, 3, 4))
    functions: dict[str, tuple[str, str]] = {}
    text = ""
    for number in range(2):
        kinds = (rng.choice("VVM"), rng.choice("VVMS"))
        names = {"tp": kinds[0], "tv": "V", "tm": "M", "ts": "S"}
        writer = VectorWriter(rng, size, names, dict(functions))
        unit = ", ".join("1" for _ in range(size))
        writer.line("i = 2")
        writer.line(f"tv = {'tp' if kinds[0] == 'V' else 'tp @ [' + unit + ']'}")
        writer.line(f"tm = {'tp' if kinds[0] == 'M' else 'tack.outer(tp, tp)'}")
        writer.line("ts = tv[0]")
        writer.line("cells = tack.local(2, T)")
        writer.line("cells[0] = tv")
        writer.line("cells[1] = 3")
        writer.statements(rng.randint(1, 3), 1)
        if rng.random() < 0.5:
            writer.line(f"if {writer.condition(1)}:")
            writer.line(f"    return {writer.operand(kinds[1], 1)}")
        writer.line(f"return {writer.operand(kinds[1], 2)}")
        text += f"@tack.func\ndef {name}_f{number}(tp):\n{''.join(writer.lines)}\n"
        functions[f"{name}_f{number}"] = kinds
    text += NOTES.format(name)
    text += f"@tack.kernel\ndef {name}({', '.join([*INPUTS, *OUTPUTS])}):\n"
    note = f"{name}_note"
    text += loop(rng, size, functions, note, {"a[i]": "V", "b[i]": "V", "m[i]": "M", "r[i]": "V"})
    return text + loop(rng, size, functions, note, {"p[i ^ 1]": "V", "m[i]": "M", "a[i]": "V"}, again=True), size


NOTES = """
@tack.func
def {0}_noteV(notes, i, v):
    notes[i].x = notes[i].x * 31 + v[0]
    notes[i].y ^= v.y
    return v + notes[i].x

@tack.func
def {0}_noteS(notes, i, s):
    notes[i] = notes[i] * 17 + s
    return s
"""


def loop(
    rng: random.Random,
    size: int,
    functions: dict[str, tuple[str, str]],
    note: str,
    names: dict[str, str],
    *,
    again: bool = False,
) -> str:
    writer = VectorWriter(rng, size, names, functions, note, indent=2, counter=50 * again)
    writer.line("ts = a[i][0]")
    writer.line("cells = tack.local(2, T)")
    writer.line("cells[0] = a[i]")
    writer.line("cells[1] = ts")
    writer.names |= {"ts": "S", "cells[0]": "V", "cells[1]": "V"}
    writer.statements(rng.randint(2, 5), 0)
    if not again:
        writer.line(f"p[i] = {writer.expression(rng.choice('VVS'), 2)}")
        writer.line(f"p[i].y += {writer.expression('S', 2)}")
    else:
        writer.line(
            f"q[i] = {writer.operand('M', 1)} + {writer.operand('S', 2)} * tack.outer({writer.leaf('V')} + a[i], a[i])"
        )
        writer.line(f"q[i][{writer.pair()}] ^= {writer.expression('S', 1)}")
    return f"    for i in range({LANES}):\n{''.join(writer.lines)}"
