"""Random valid programs of integers, as source text.

A program is the body of a parallel loop with its device functions: it reads elements of the input arrays, computes, and
stores into its own row of the output arrays. Types are followed only roughly here, to keep signed operands away from
u64; the oracle has the last word on what is valid. Operations with a caller constraint are guarded, in all the ways the
language has. `batch` puts several programs, with names of their own, into one kernel, so that they cost one compile.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from numeric_oracles import INTEGERS, bits, boundary, is_signed, limits, promote

LANES = 24
INPUTS = {f"x_{t}": t for t in INTEGERS}
OUTPUTS = {f"y_{t}": t for t in ("i64", "u64", "i32", "u8")}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")

HEADER = "import tack\n"
INDEX = "i"
PROGRAMS_PER_LOOP = 4


@dataclass
class Program:
    """`functions` is module text, `body` that of its parallel loop's body; `row` is its row of the outputs."""

    seed: str
    row: int
    functions: str
    body: str

    def source(self) -> str:
        """The program as a module of its own, with a kernel `main`."""
        return batch([self])


def batch(programs: list[Program]) -> str:
    """One module with the device functions of all programs and one kernel, `main`, a loop for every few."""
    parameters = ", ".join([*INPUTS, *OUTPUTS])
    functions = "".join(p.functions for p in programs)
    lines = [f"{HEADER}{functions}\n@tack.kernel\ndef main({parameters}):\n"]
    for number, program_ in enumerate(programs):
        if number % PROGRAMS_PER_LOOP == 0:
            lines.append(f"    for {INDEX} in range({LANES}):\n")
        lines.append(program_.body)
    return "".join(lines)


def inputs(seed: str) -> dict[str, list[int]]:
    """A column of boundary values and random ones for each input array, each in its own order."""
    rng = random.Random(f"inputs {seed}")
    columns = {}
    for name, t in INPUTS.items():
        low, high = limits(t)
        edges = [low, low + 1, high, high - 1, 0, 1, 2, 3, *rng.sample(boundary(t), 8)]
        values = edges + [rng.randint(low, high) for _ in range(LANES - len(edges))]
        rng.shuffle(values)
        columns[name] = values
    return columns


def program(seed: str, row: int) -> Program:
    """A random program; the same seed gives the same program."""
    rng = random.Random(f"program {seed}")
    functions: list[Function] = []
    for number in range(rng.choice((0, 0, 1, 1, 2))):
        functions.append(make_function(rng, f"p{row}_f{number}", functions))
    writer = Writer(rng, f"p{row}_", functions)
    for name, t in rng.sample(list(INPUTS.items()), rng.randint(2, 4)):
        local = writer.fresh("x")
        writer.line(f"{local} = {name}[{INDEX}]")
        writer.variables[local] = t
    writer.statements(rng.randint(1, 4), depth=0)
    for name in rng.sample(list(OUTPUTS), rng.choice((1, 1, 2))):
        writer.line(f"{name}[{row}, {INDEX}] = {writer.expression(writer.depth())[0]}")
        if rng.random() < 0.2:
            operand, _ = writer.matching(OUTPUTS[name], 2)
            writer.line(f"{name}[{row}, {INDEX}] {rng.choice('+-*^')}= {operand}")
    return Program(seed, row, "".join(f.text for f in functions), writer.text(2))


@dataclass
class Function:
    """A device function: its text, the types it was written for, and the rough types of its results."""

    name: str
    text: str
    params: list[str]
    results: list[str]


def make_function(rng: random.Random, name: str, callable_: list[Function]) -> Function:
    params = [rng.choice(INTEGERS) for _ in range(rng.randint(1, 3))]
    names = [f"{name}_{letter}" for letter in "abc"[: len(params)]]
    writer = Writer(
        rng, f"{name}_", callable_, dict(zip(names, params, strict=True)), result_count=rng.choice((1, 1, 1, 2))
    )
    writer.statements(rng.randint(0, 3), depth=0)
    writer.give_back()
    text = f"\n@tack.func\ndef {name}({', '.join(names)}):\n{writer.text(1)}\n"
    return Function(name, text, params, writer.results)


Typed = tuple[str, str]  # the text of an expression, in brackets, and its rough type


@dataclass
class Writer:
    """Writes the statements of one function body or loop body; `variables` may be read, and have these types."""

    rng: random.Random
    prefix: str
    functions: list[Function]
    variables: dict[str, str] = field(default_factory=dict)
    result_count: int = 0
    results: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    indent: int = 0
    loops: int = 0
    counter: int = 0
    frozen: set[str] = field(default_factory=set)  # loop counters, which the body must not assign

    def text(self, levels: int) -> str:
        return "".join("    " * levels + line + "\n" for line in self.lines)

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{self.prefix}{stem}{self.counter}"

    def depth(self) -> int:
        """How deep a whole expression goes."""
        return self.rng.choice((1, 2, 2, 3))

    # ---------------------------------------------------------------------------------------------- statements

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            choices: list[Callable[[int], None]] = [self.declare, self.declare, self.reassign, self.augment, self.swap]
            if depth < 2:
                choices += [self.branch, self.branch, self.guarded, self.serial_loop, self.while_loop]
            if self.functions:
                choices += [self.unpack]
            if self.result_count and depth < 2:
                choices += [self.early_return]
            self.rng.choice(choices)(depth)

    def block(self, depth: int) -> None:
        """An indented block; what it declares is forgotten after it."""
        before = dict(self.variables)
        self.indent += 1
        written = len(self.lines)
        self.statements(self.rng.randint(1, 2), depth + 1)
        if len(self.lines) == written:
            self.line("pass")
        self.indent -= 1
        self.variables = before

    def declare(self, depth: int) -> None:
        text, t = self.expression(self.depth())
        name = self.fresh("t")
        self.line(f"{name} = {text}")
        self.variables[name] = t

    def assignable(self) -> str | None:
        names = [n for n in self.variables if n not in self.frozen]
        return self.rng.choice(names) if names else None

    def reassign(self, depth: int) -> None:
        name = self.assignable()
        if name is not None:
            self.line(f"{name} = {self.matching(self.variables[name], self.depth())[0]}")

    def augment(self, depth: int) -> None:
        name = self.assignable()
        if name is None:
            return
        t = self.variables[name]
        op = self.rng.choice(["+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%"])
        if op in ("<<", ">>"):
            operand = str(self.rng.randrange(bits(t)))
        elif op in ("//", "%"):
            operand = self.literal(t, self.rng.choice((2, 3, 7, 10, 100)))
        else:
            operand = self.matching(t, 2)[0]
        self.line(f"{name} {op}= {operand}")

    def swap(self, depth: int) -> None:
        a, b = self.assignable(), self.assignable()
        if a is None or b is None or a == b or promote(self.variables[a], self.variables[b]) is None:
            return
        if self.rng.random() < 0.5:
            self.line(f"{a}, {b} = {b}, {a}")
        else:
            first, second = self.matching(self.variables[a], 2)[0], self.matching(self.variables[b], 2)[0]
            self.line(f"{a}, {b} = {first}, {second}")

    def branch(self, depth: int) -> None:
        self.line(f"if {self.condition(2)}:")
        self.block(depth)
        if self.rng.random() < 0.3:
            self.line(f"elif {self.condition(1)}:")
            self.block(depth)
        if self.rng.random() < 0.6:
            self.line("else:")
            self.block(depth)

    def guarded(self, depth: int) -> None:
        """`if` around an operation that has a caller constraint."""
        name = self.assignable()
        if name is None:
            return
        t = self.variables[name]
        divisor, u = self.leaf_of(t)
        safe = f"{divisor} != 0 and {divisor} != -1" if is_signed(u) else divisor
        self.line(f"if {safe}:")
        self.indent += 1
        self.line(f"{name} = {name} {self.rng.choice(('//', '%'))} {divisor}")
        self.indent -= 1

    def serial_loop(self, depth: int) -> None:
        if self.loops >= 2:
            return
        self.loops += 1
        name = self.fresh("k")
        stop = self.rng.choice(["3", "5", self.count_expression()])
        bounds = self.rng.choice([stop, f"1, {stop}", f"-2, {stop}, 2"])
        self.line(f"for {name} in range({bounds}):")
        self.variables[name] = "i64"
        self.frozen.add(name)
        leave = f"if {self.condition(1)}:"
        self.indent += 1
        if self.rng.random() < 0.4:
            self.line(leave)
            self.line("    " + self.rng.choice(("break", "continue")))
        self.indent -= 1
        self.block(depth)
        del self.variables[name]
        self.loops -= 1

    def count_expression(self) -> str:
        text, t = self.expression(1)
        return f"(tack.i64({text}) & 3) + 1" if t == "u64" else f"({text} & 3) + 1"

    def while_loop(self, depth: int) -> None:
        if self.loops >= 2:
            return
        self.loops += 1
        name = self.fresh("w")
        self.line(f"{name} = 0")
        self.variables[name] = "i32"
        self.frozen.add(name)
        extra = f" and {self.condition(1)}" if self.rng.random() < 0.6 else ""
        self.line(f"while {name} < {self.rng.randint(2, 5)}{extra}:")
        self.indent += 1
        self.line(f"{name} += 1")
        self.indent -= 1
        self.block(depth)
        self.loops -= 1

    def unpack(self, depth: int) -> None:
        called = self.rng.choice(self.functions)
        if len(called.results) == 1:
            return self.declare(depth)
        names = [self.fresh("r") for _ in called.results]
        self.line(f"{', '.join(names)} = {called.name}({self.arguments(called)})")
        self.variables.update(zip(names, called.results, strict=True))

    def early_return(self, depth: int) -> None:
        self.line(f"if {self.condition(1)}:")
        self.indent += 1
        self.give_back()
        self.indent -= 1

    def give_back(self) -> None:
        if not self.results:
            made = [self.expression(self.depth()) for _ in range(self.result_count)]
            self.results = [t for _, t in made]
        else:
            made = [self.matching(t, self.depth()) for t in self.results]
            self.results = [promote(a, b) or a for a, (_, b) in zip(self.results, made, strict=True)]
        self.line("return " + ", ".join(text for text, _ in made))

    # --------------------------------------------------------------------------------------------- expressions

    def literal(self, t: str, value: int | None = None) -> str:
        """A literal that may meet type `t`: beside u64 it is cast."""
        if value is None:
            value = self.rng.choice((0, 1, 2, 3, 7, 100, 127, 128, 255, 65535, 2**31 - 1, 2**31, -1, -7, -(2**31)))
        return f"tack.u64({abs(value)})" if t == "u64" else f"({value})"

    def leaf(self) -> Typed:
        if self.variables and self.rng.random() < 0.85:
            return self.rng.choice(list(self.variables.items()))
        value = self.rng.choice((0, 1, 2, 5, -1, -3, 17, 255, 256, 32768, 2**31, -(2**40), 2**62))
        return f"({value})", "i32" if -(2**31) <= value < 2**31 else "i64"

    def leaf_of(self, t: str) -> Typed:
        """A variable that may meet `t`, else a cast of one."""
        fitting = [(n, u) for n, u in self.variables.items() if promote(u, t) is not None]
        return self.rng.choice(fitting) if fitting else (f"tack.{t}({self.leaf()[0]})", t)

    def matching(self, t: str, depth: int) -> Typed:
        """An expression that may meet an operand of type `t`."""
        text, u = self.expression(depth)
        if promote(t, u) is not None:
            return text, u
        return f"tack.{t}({text})", t

    def expression(self, depth: int) -> Typed:
        if depth <= 0:
            return self.leaf()
        choices = [self.arithmetic] * 5 + [self.bitwise] * 2 + [self.shift] * 2 + [self.division] * 3
        choices += [self.cast] * 3 + [self.unary, self.power, self.builtin, self.builtin, self.truth, self.conditional]
        if any(len(f.results) == 1 for f in self.functions):
            choices += [self.call] * 3
        return self.rng.choice(choices)(depth - 1)

    def binary(self, operators: str, depth: int) -> Typed:
        left, a = self.expression(depth)
        right, b = self.matching(a, self.rng.randint(0, depth))
        return f"({left} {self.rng.choice(operators)} {right})", promote(a, b) or a

    def arithmetic(self, depth: int) -> Typed:
        return self.binary("+-*", depth)

    def bitwise(self, depth: int) -> Typed:
        return self.binary("&|^", depth)

    def unary(self, depth: int) -> Typed:
        text, t = self.expression(depth)
        return f"({self.rng.choice('-~+')}{text})", t

    def cast(self, depth: int) -> Typed:
        text, _ = self.expression(depth)
        t = self.rng.choice([*INTEGERS, "i32"])
        return (f"int({text})", "i32") if self.rng.random() < 0.1 else (f"tack.{t}({text})", t)

    def shift(self, depth: int) -> Typed:
        left, t = self.expression(depth)
        op, width = self.rng.choice(("<<", ">>")), bits(t)
        style = self.rng.randrange(3)
        if style == 0:
            return f"({left} {op} {self.rng.randrange(width)})", t
        count, u = self.expression(min(depth, 1))
        mask = self.literal(u, width - 1)
        if style == 1:
            return f"({left} {op} ({count} & {mask}))", t
        low, high = self.literal(u, 0), self.literal(u, width)
        return f"({left} {op} {count} if {low} <= {count} < {high} else {left})", t

    def division(self, depth: int) -> Typed:
        left, a = self.expression(depth)
        op = self.rng.choice(("//", "%"))
        if self.rng.random() < 0.3:
            value = self.rng.choice((1, 2, 3, 7, 10, 255, 512))
            if is_signed(a) and self.rng.random() < 0.3:
                value = -value - 1
            text = self.literal(a, value)
            return f"({left} {op} {text})", promote(a, "i32") or a
        divisor, b = self.leaf_of(a)
        t = promote(a, b) or a
        other = self.matching(t, min(depth, 1))[0]
        if not is_signed(b):
            return f"({left} {op} {divisor} if {divisor} else {other})", t
        guard = self.rng.choice([f"{divisor} > 0", f"{divisor} != 0 and {divisor} != -1", f"not -1 <= {divisor} <= 0"])
        if self.rng.random() < 0.25:
            return f"({divisor} > 0 and {left} {op} {divisor} {self.rng.choice(COMPARISONS)} {other})", "i32"
        return f"({left} {op} {divisor} if {guard} else {other})", t

    def power(self, depth: int) -> Typed:
        base, t = self.expression(min(depth, 1))
        if self.rng.random() < 0.5:
            return f"({base} ** {self.rng.randrange(6)})", t
        exponent, u = self.leaf()
        text = f"({exponent} & {self.literal(u, 7)})"
        return (f"pow({base}, {text})" if self.rng.random() < 0.3 else f"({base} ** {text})"), t

    def builtin(self, depth: int) -> Typed:
        name = self.rng.choice(("min", "max", "abs", "popcount", "clz", "ctz"))
        text, t = self.expression(depth)
        if name == "abs":
            return f"abs({text})", t
        if name in ("min", "max"):
            other, u = self.matching(t, min(depth, 1))
            return f"{name}({text}, {other})", promote(t, u) or t
        return f"tack.{name}({text})", "i32"

    def truth(self, depth: int) -> Typed:
        return f"({self.condition(min(depth, 2))})", "i32"

    def condition(self, depth: int) -> str:
        style = self.rng.randrange(6)
        if depth > 0 and style == 0:
            return f"({self.condition(depth - 1)} {self.rng.choice(('and', 'or'))} {self.condition(depth - 1)})"
        if depth > 0 and style == 1:
            return f"(not {self.condition(depth - 1)})"
        text, t = self.expression(min(depth, 1))
        if style == 2:
            return text
        other, u = self.matching(t, min(depth, 1))
        link = f"({text} {self.rng.choice(COMPARISONS)} {other}"
        if style == 3:
            return f"{link} {self.rng.choice(COMPARISONS)} {self.matching(u, 0)[0]})"
        return link + ")"

    def conditional(self, depth: int) -> Typed:
        then, a = self.expression(depth)
        other, b = self.matching(a, min(depth, 1))
        return f"({then} if {self.condition(1)} else {other})", promote(a, b) or a

    def arguments(self, called: Function) -> str:
        """Arguments for a call; most have the types the function was written for, the others make a new instance."""
        made = []
        for t in called.params:
            text, u = self.expression(1)
            made.append(text if u == t or self.rng.random() < 0.15 else f"tack.{t}({text})")
        return ", ".join(made)

    def call(self, depth: int) -> Typed:
        called = self.rng.choice([f for f in self.functions if len(f.results) == 1])
        return f"{called.name}({self.arguments(called)})", called.results[0]


def tidy(source: str) -> str:
    """The same module without needless brackets, so that precedence is tested too."""
    return ast.unparse(ast.parse(source)) + "\n"
