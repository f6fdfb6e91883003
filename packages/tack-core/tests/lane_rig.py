"""Kernels compiled at a chosen number of lanes and run in chosen pieces, for tests that compare bits.

The pool is replaced by a function that calls the chunks of a loop one after the other, in pieces that begin and end at
odd places, as threads would get them.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tack.codegen.lane_cost import VectorUnit, vector_unit
from tack.codegen.llvm_gen import LLVMCodeGen
from tack.codegen.llvm_launch import LAUNCH_SYMBOL, PARALLEL_FOR_SYMBOL, STREAMS_SYMBOL
from tack.lang.ir import IRKernel
from tack.runtime.backend import STATUS_OK, VariantOptions
from tack.runtime.compilation import type_kernel
from tack.runtime.dispatch import prepare
from tack.runtime.llvm_jit import compiler
from tack.runtime.native_code import NativeCode
from tack.runtime.stream_code import NOT_RUN
from typed_ir import launch

_Chunk = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_Launch = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
_ParallelFor = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 4)


def typed_ir(kernel: Any, *args: Any) -> IRKernel:
    """The typed IR of a kernel for these arguments."""
    lowering, call = prepare(kernel).bind(args, {})
    return type_kernel(lowering.ir, call.values)


def host_unit() -> VectorUnit:
    """The vectors of this processor."""
    llvm = compiler()
    return vector_unit(llvm.cpu, llvm.features)


@dataclass
class Compiled:
    """A compiled variant; `cuts` are the places where the iterations are cut into pieces, as parts of the whole.

    Loops go through the pool always if `shared`, else where they are worth it; `calls` counts them, and `asked` is what
    grain, limit and unit the last one asked for. `streaming` asks
    for the code for loops beyond the caches; `handed_over` counts how often plain code called that, in vain.
    """

    tree: IRKernel
    lanes: int | None
    disjoint: bool = False
    unit: VectorUnit | None = None
    cuts: Sequence[float] = ()
    shared: bool = True
    streaming: bool = False
    calls: int = 0
    handed_over: int = 0
    asked: tuple[int, int, int] = (0, 0, 0)

    def __post_init__(self) -> None:
        options = VariantOptions(disjoint=self.disjoint, lanes=self.lanes)
        generator = LLVMCodeGen(self.tree, options, self.unit or host_unit(), self.streaming)
        body, launcher = generator.source().split("define i32 @tack_launch")
        if self.shared:
            launcher = re.sub(r"(= icmp ugt i64 %\w+), \S+", r"\1, 0", launcher)
        text = f"{body}define i32 @tack_launch{launcher}"
        self.text, self.plans, self.row_plans = text, generator.plans, generator.row_plans
        llvm = compiler()
        compile_ = llvm.compile_lanes if generator.all_lanes else llvm.compile_object
        self._pool = _ParallelFor(self._pieces)
        address = ctypes.cast(self._pool, ctypes.c_void_p).value or 0
        code = NativeCode.compiled(functools.partial(compile_, text), (LAUNCH_SYMBOL,))
        self._streams = _Launch(self._hand_over)
        streams = ctypes.cast(self._streams, ctypes.c_void_p).value or 0
        library = code.load({PARALLEL_FOR_SYMBOL: address, STREAMS_SYMBOL: streams})
        self._library = library
        self._launch = _Launch(library.addresses[LAUNCH_SYMBOL])

    def _pieces(self, chunk: int, context: int, count: int, grain: int, limit: int, unit: int) -> None:
        self.calls += 1
        self.asked = grain, limit, unit
        places = sorted({0, count, *(int(cut * count) for cut in self.cuts)})
        for begin, end in itertools.pairwise(places):
            _Chunk(chunk)(context, begin, end, 0)

    def _hand_over(self, block: int) -> int:
        self.handed_over += 1
        return NOT_RUN

    def launch(self, block: int) -> int:
        status: int = self._launch(block)
        return status

    def __call__(self, *args: Any) -> list[Any]:
        """Run on copies of the arrays (an array given twice stays one); the copies."""
        copies: dict[int, Any] = {}
        mine = [copies.setdefault(id(a), a.copy()) if isinstance(a, np.ndarray) else a for a in args]
        assert launch(self, *mine).status == STATUS_OK
        return mine

    def in_place(self, *args: Any) -> int:
        """Run on the arrays themselves; the status."""
        return launch(self, *args).status


def before_a_hole(count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """An array that ends where memory ends: the page after it can be neither read nor written."""
    size = -(-count * np.dtype(dtype).itemsize // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    hole = ctypes.c_void_p(whole.ctypes.data + size)
    if libc.mprotect(hole, ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    return whole[:size].view(dtype)[-count:]


def same_bits(a: list[Any], b: list[Any]) -> bool:
    """Whether two runs left the same bits in every array."""
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True) if isinstance(x, np.ndarray))
