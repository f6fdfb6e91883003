"""Random programs with workgroups, against their own Python text with a thread for each lane (GRP-4 to GRP-12).

Values stay small, so that Python's integers and Tack's are the same numbers.
"""

from __future__ import annotations

import linecache
import random

import numpy as np
import pytest

import tack
from workgroup_rig import check

GROUP = 8
PROGRAMS = 30
# PoCL 3.1 copies the code between barriers for each way through it: these programs take it 7 and more than 20 seconds
# of compiling, the others 0.5 to 3.5. A PoCL that compiles these seeds in that time would let this go.
SLOW_ON_POCL = (12, 19)
HEAD = """\
def k(a, out, log, n, p):
    buf = tack.shared(8, tack.i32)
    x = p
    u = p + 1
    for i in range(n):
        t = tack.thread_id()
        count = min(8, n - i // 8 * 8)
        y = a[i]
        z = 0
        mine = tack.local(3, tack.i32)
        for k in range(3):
            mine[k] = y + k
"""
TAIL = """\
        out[i] = (x * 7 + y * 5 + z * 3 + u + mine[0] + mine[2]) % 99991
"""


class Writer:
    """Writes one program."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []
        self.depth = 2
        self.loops = 0

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def pick(self, *choices):
        return self.random.choice(choices)

    def uniform(self):
        c = self.random.randint(1, 9)
        return self.pick("u", "p", "n", f"{c}", f"(u + {c})", f"(u * {c} % 13)", "(n - p)", "i // 8", "a.shape[0]")

    def varying(self):
        c = self.random.randint(1, 9)
        return self.pick(
            "x",
            "y",
            "z",
            "t",
            "i",
            "a[i]",
            f"(x + {c})",
            f"(y * {c})",
            "(z - t)",
            "mine[1]",
            f"(t % {c})",
            self.uniform(),
        )

    def block(self, budget, collective, loop=None):
        """Statements; `collective` says that control is uniform here, `loop` the kind of the innermost loop."""
        for _ in range(self.random.randint(1, budget)):
            self.statement(budget, collective, loop)

    def nested(self, head, budget, collective, loop):
        self.line(head)
        self.depth += 1
        self.block(max(1, budget - 1), collective, loop)
        self.depth -= 1

    def statement(self, budget, collective, loop):
        kinds = ["assign"] * 3 + ["local", "log", "branch", "serial"]
        if collective:
            kinds += ["exchange"] * 3 + ["reduce"] * 2 + ["set", "set"] + (["if", "for", "while"] if budget > 1 else [])
        if collective and loop == "uniform":
            kinds += ["leave", "skip"]
        getattr(self, "write_" + self.pick(*kinds))(budget, loop)

    def write_assign(self, budget, loop):
        self.line(f"{self.pick('x', 'y', 'z')} = ({self.varying()} + {self.varying()}) % 997")

    def write_set(self, budget, loop):
        self.line(f"u = ({self.uniform()} + {self.uniform()}) % 61")

    def write_local(self, budget, loop):
        self.line(f"mine[{self.pick('0', '1', '2', 't % 3')}] = {self.varying()} % 997")

    def write_log(self, budget, loop):
        self.line(f"log[i] = (log[i] * 3 + {self.varying()}) % 9973")

    def write_branch(self, budget, loop):
        self.nested(f"if {self.varying()} % 3 > {self.pick('0', '1', 't % 2')}:", 2, False, loop)
        if self.random.random() < 0.4:
            self.nested("else:", 2, False, loop)

    def write_serial(self, budget, loop):
        name = f"q{self.loops}"
        self.loops += 1
        self.line(f"for {name} in range({self.varying()} % 4):")
        self.line(f"    z = (z * 2 + {name}) % 997")
        if self.random.random() < 0.5:
            self.line("    if z % 5 == 0:")
            self.line(f"        {self.pick('break', 'continue')}")
            self.line("    y = (y + 1) % 997")

    def write_exchange(self, budget, loop):
        self.line(f"buf[t] = {self.varying()} % 997")
        self.line("tack.barrier()")
        self.line(f"{self.pick('x', 'y', 'z')} = buf[(t + {self.random.randint(0, 7)}) % count]")
        self.line("tack.barrier()")

    def write_reduce(self, budget, loop):
        call = f"tack.block_{self.pick('sum', 'min', 'max')}(tack.f32({self.varying()} % 61))"
        self.line(f"{self.pick('u', 'x', 'z')} = int({call}) % 61")

    def write_if(self, budget, loop):
        self.nested(f"if {self.uniform()} % 3 > {self.random.randint(0, 1)}:", budget, True, loop)
        if self.random.random() < 0.5:
            self.nested("else:", budget, True, loop)

    def write_for(self, budget, loop):
        name = f"r{self.loops}"
        self.loops += 1
        self.nested(f"for {name} in range({self.uniform()} % 4):", budget, True, "uniform")

    def write_while(self, budget, loop):
        name = f"w{self.loops}"
        self.loops += 1
        self.line(f"{name} = {self.uniform()} % 4")
        self.line(f"while {name} > 0:")
        self.line(f"    {name} -= 1")
        self.depth += 1
        self.block(max(1, budget - 1), True, "uniform")
        self.depth -= 1

    def write_leave(self, budget, loop):
        self.line(f"if {self.uniform()} % 4 == 0:")
        self.line(f"    {self.pick('break', 'continue')}")

    def write_skip(self, budget, loop):
        """Lanes that skip what follows, where nothing that follows is a collective: the end of an `if` of its own."""
        self.line("if u >= 0:")
        self.line(f"    if {self.varying()} % 3 == 0:")
        self.line("        z = (z + 1) % 997")
        self.line("    else:")
        self.line("        x = (x + z) % 997")


def program(seed):
    writer = Writer(seed)
    writer.block(6, True)
    return HEAD + "\n".join(writer.lines) + "\n" + TAIL


def function_of(text, name):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space = {"tack": tack}
    exec(compile(text, name, "exec"), space)
    return space["k"]


def is_pocl(device):
    """Whether the device is PoCL's."""
    return device.name.startswith("opencl") and device.backend.device.platform.name.startswith("Portable")


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_programs(device, seed):
    """Whatever the program, a full workgroup, several, and a last one that is not full."""
    if seed in SLOW_ON_POCL and is_pocl(device):
        pytest.skip("PoCL compiles this program for many seconds")
    k = function_of(program(seed), f"random-{seed}.py")
    for n in (8, 19):
        a = np.random.default_rng(seed).integers(0, 99, n).astype(np.int32)
        check(k, GROUP, a, np.zeros(n, np.int32), np.zeros(n, np.int32), n, seed % 5)


def test_the_programs_have_what_they_are_for():
    """The negative control: they differ, and all kinds of statements occur."""
    texts = [program(seed) for seed in range(PROGRAMS)]
    assert len(set(texts)) == PROGRAMS
    everything = "\n".join(texts)
    for part in ("barrier()", "block_sum", "block_min", "block_max", "while w", "break", "continue", "mine[t % 3]"):
        assert everything.count(part) >= 3, part
    assert sum("tack.barrier" in text for text in texts) > PROGRAMS // 2
