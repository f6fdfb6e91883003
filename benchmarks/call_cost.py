"""What a call costs: three arrays of one element and a scalar, so that nothing but the call is left; and a fan-out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

import tack
from benchmarks import harness, saxpy, thread_pool
from benchmarks.compilers import Compiler, bind
from benchmarks.peers import Peers

CTYPES = "C through ctypes, arguments prebuilt"
PARALLEL = "Numba, parallel"
FAN_OUT = "Tack: a call, and a fan-out that both threads take part in"
LOOPS = 500  # in one sample of a fan-out
WARM_UP = 50  # calls, after which the native entry has taken over


class FanOut:
    """The pool's fan-out and join, two chunks that wait for each other: a `harness.Sampler`."""

    calls, once = LOOPS, 0.0

    def __init__(self) -> None:
        addresses, self._repeat, self._alive = thread_pool.link_bodies()
        self._body = addresses["meet"]
        self._count = np.zeros(8, np.int64)
        self._loop = harness.Local(self._repeat, self._body, self._count.ctypes.data, 2, 1, 2, LOOPS)

    def sample(self) -> float:
        return self._loop.sample() / LOOPS


class Together:
    """Several samplers one after another, as one."""

    def __init__(self, *parts: harness.Sampler) -> None:
        self._parts = parts
        self.calls, self.once = max(part.calls for part in parts), 0.0

    def sample(self) -> float:
        return sum(part.sample() for part in self._parts)


def an_empty_function(z, x, y, a):
    pass


def measure(gcc: Compiler, peers: Peers, quick: bool) -> dict[str, harness.Timing]:
    """Time every implementation by the clock on the wall, in rounds; ctypes is there if there is gcc."""
    from tack.runtime.cpu_pool import cpu_count, pool

    case = dataclasses.replace(saxpy.case(1), adapter="call")
    arrays = case.arguments[:3]
    on_device = [tack.asarray(array) for array in arrays]
    for given in (case.arguments, (*on_device, 3.0)):
        for _ in range(WARM_UP):
            saxpy.saxpy(*given)
    rows: dict[str, harness.Sampler] = {}
    if gcc.version is not None:
        function = bind(gcc.load("call_cost", "plain"), "small", *arrays, np.float32(3.0), 1)
        # Not through the partial object, which costs something itself.
        rows[CTYPES] = harness.Local(function.func, *function.args)
    rows["Tack, `tack.Array`"] = harness.Local(saxpy.saxpy, *on_device, 3.0)
    rows["Tack, NumPy arrays"] = harness.Local(saxpy.saxpy, *case.arguments)
    rows["an empty Python function"] = harness.Local(an_empty_function, *case.arguments)
    timings = {}
    patience = 0.02 if quick else 0.5
    ours = harness.check(case, None)
    ready, _ = peers.prepare(case, ours)
    named = {"Numba, serial" if name == "Numba" else name: peer for name, peer in ready.items()}
    timings |= harness.interleaved({**rows, **named}, patience, harness.REST)
    if cpu_count() > 1:
        with pool().set_threads(2):
            fan_out: dict[str, harness.Sampler] = {FAN_OUT: Together(rows["Tack, NumPy arrays"], FanOut())}
            ready, _ = peers.prepare(dataclasses.replace(case, adapter="saxpy"), ours)
            if "Numba" in ready:
                fan_out[PARALLEL] = ready["Numba"]
            timings |= harness.interleaved(fan_out, patience, harness.REST)
    return timings


def report(gcc: Compiler, peers: Peers, quick: bool) -> Iterator[str]:
    """The table's lines."""
    timings = measure(gcc, peers, quick)
    yield "\n**The cost of a call**: three arrays of one element and a scalar.\n"
    yield "| call | median ns | least ns | ratio to ctypes | ratio to Numba, parallel |"
    yield "|---|--:|--:|--:|--:|"
    for name, timing in sorted(timings.items(), key=lambda item: item[1].median):
        ratios = [f"{timing.median / timings[t].median:.3g}" if t in timings else "–" for t in (CTYPES, PARALLEL)]
        yield f"| {name} | {timing.median * 1e9:.0f} | {timing.least * 1e9:.0f} | {' | '.join(ratios)} |"
