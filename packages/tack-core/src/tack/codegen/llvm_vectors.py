"""Values over the lanes of a block: from scalars to vectors, masks, and work that is done one lane at a time.

With `width` 1 every shape is uniform and there is no mask: what comes out is plain scalar code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from tack.codegen.llvm_values import BIT, FunctionText, ModuleText, Value, llvm_type, suffix
from tack.lang.shapes import UNIFORM, VARYING, Shape, Shapes
from tack.lang.types import DType

_TESTED_BITS: Final = 256


class VectorEmitter:
    """The state of a block.

    Attributes
    ----------
    width
        How many lanes a block has.
    shapes
        The shape of every value, and where lanes part.
    mask
        The lanes that are on, as an SSA name; None if they all are, for certain.
    some
        Whether at least one lane is on, for certain.
    mask_bits
        The width of an element of a mask where it is kept: 1 where the processor has masks, else that of the numbers
        it is for, all ones or zero. Conditions are vectors of i1 in any case: computing on those themselves would pack
        and unpack them all the time. By name, `_wide` has those that were made of the form that is kept, in that form;
        `_widened` has the others, for the block of code that needed them so.
    lane
        The lane that scalar code runs for, inside a block; "" if there is none.
    """

    module: ModuleText
    f: FunctionText

    def __init__(self) -> None:
        self.width = 1
        self.shapes = Shapes()
        self.mask: str | None = None
        self.some = True
        self.lane = ""
        self.mask_bits = 1
        self._wide: dict[str, str] = {}
        self._widened: dict[tuple[str, str, str], str] = {}

    # -- text

    def _type(self, dtype: DType, shape: Shape = UNIFORM) -> str:
        scalar = llvm_type(dtype)
        return scalar if shape is not VARYING else f"<{self.width} x {scalar}>"

    def _suffix(self, dtype: DType, shape: Shape = UNIFORM) -> str:
        return suffix(dtype) if shape is not VARYING else f"v{self.width}{suffix(dtype)}"

    def _constant(self, text: str, dtype: DType, shape: Shape) -> str:
        """A literal as an operand; `text` is that of the scalar."""
        return text if shape is not VARYING else f"splat ({llvm_type(dtype)} {text})"

    @property
    def _mask_type(self) -> str:
        return f"<{self.width} x i1>"

    # -- shapes

    def _vector(self, value: Value) -> str:
        """A value as a vector."""
        if value.shape is VARYING:
            return value.ssa
        v, t = self._type(value.dtype, VARYING), llvm_type(value.dtype)
        if value.ssa[0] == "%":
            one = self.f.emit(f"insertelement {v} poison, {t} {value.ssa}, i64 0")
            whole = self.f.emit(f"shufflevector {v} {one}, {v} poison, <{self.width} x i32> zeroinitializer")
        else:
            whole = self._constant(value.ssa, value.dtype, VARYING)
        return self._stepped(whole, value.dtype, value.shape) if value.shape else whole

    def _stepped(self, whole: str, dtype: DType, stride: int) -> str:
        steps = ", ".join(f"{llvm_type(dtype)} {dtype.wrap(stride * k)}" for k in range(self.width))
        return self.f.emit(f"add {self._type(dtype, VARYING)} {whole}, <{steps}>")

    def _shaped(self, value: Value, shape: Shape) -> Value:
        """A value in a shape that can hold it."""
        if value.shape == shape:
            return value
        assert shape is VARYING, f"a value of shape {value.shape} where the analysis found {shape}"
        return Value(self._vector(value), value.dtype, VARYING)

    def _meet(self, *values: Value) -> tuple[Shape, list[str]]:
        """Operands in one shape, all scalars or all vectors; and which."""
        if all(v.shape == UNIFORM for v in values):
            return UNIFORM, [v.ssa for v in values]
        return VARYING, [self._vector(v) for v in values]

    # -- masks

    def _mask_and(self, condition: str) -> str:
        """The lanes that are on and have this vector condition. Off lanes of it may hold poison, which must not spread:
        so it is no `and`."""
        if self.mask is None:
            return condition
        m = self._mask_type
        if self.mask_bits == 1:
            return self.f.emit(f"select {m} {self.mask}, {m} {condition}, {m} zeroinitializer")
        kept, certain = self._kept_type, self.f.emit(f"freeze {m} {condition}")
        wide = self.f.emit(f"sext {m} {certain} to {kept}")
        return self._from_kept(self.f.emit(f"and {kept} {self._to_kept(self.mask)}, {wide}"))

    def _mask_not(self, condition: str) -> str:
        return self.f.emit(f"xor {self._mask_type} {condition}, {self._constant('true', BIT, VARYING)}")

    def _mask_vector(self) -> str:
        return self.mask or self._constant("true", BIT, VARYING)

    @property
    def _kept_type(self) -> str:
        return f"<{self.width} x i{self.mask_bits}>"

    def _to_kept(self, mask: str) -> str:
        """A mask in the form that is kept in slots."""
        if self.mask_bits == 1:
            return mask
        if mask in self._wide:
            return self._wide[mask]
        made = self.f.block, self._kept_type, mask
        if made not in self._widened:  # in another block it would be used where this one may not have run
            self._widened[made] = self.f.emit(f"sext {self._mask_type} {mask} to {self._kept_type}")
        return self._widened[made]

    def _from_kept(self, kept: str) -> str:
        if self.mask_bits == 1:
            return kept
        mask = self.f.emit(f"icmp slt {self._kept_type} {kept}, zeroinitializer")
        self._wide[mask] = kept
        return mask

    def _mask_integer(self, mask: str) -> str:
        """A mask as an integer, the first lane in the lowest bit."""
        return self.f.emit(f"bitcast {self._mask_type} {mask} to i{self.width}")

    def _any(self, mask: str) -> str:
        if self.mask_bits == 1:
            return self.f.emit(f"icmp ne i{self.width} {self._mask_integer(mask)}, 0")
        kept, count = self._to_kept(mask), self.width
        while count * self.mask_bits > _TESTED_BITS:  # halves together, down to what one instruction tests
            half, t = count // 2, f"<{count} x i{self.mask_bits}>"
            low, high = (", ".join(f"i32 {k + first}" for k in range(half)) for first in (0, half))
            parts = (self.f.emit(f"shufflevector {t} {kept}, {t} poison, <{half} x i32> <{p}>") for p in (low, high))
            kept, count = self.f.emit(f"or <{half} x i{self.mask_bits}> {', '.join(parts)}"), half
        whole = f"i{count * self.mask_bits}"
        bits = self.f.emit(f"bitcast <{count} x i{self.mask_bits}> {kept} to {whole}")
        return self.f.emit(f"icmp ne {whole} {bits}, 0")

    @contextmanager
    def _under(self, mask: str | None, some: bool) -> Iterator[None]:
        before = self.mask, self.some
        self.mask, self.some = mask, some
        yield
        self.mask, self.some = before

    @property
    def _surely_some(self) -> bool:
        return self.mask is None or self.some

    def _skip_if_none(self, hint: str) -> str | None:
        """Where no lane may be on: a branch around what follows, to the label that is returned and opened later."""
        if self._surely_some:
            return None
        assert self.mask is not None
        go, end = self.f.label(hint), self.f.label("none")
        self.f.cond_br(self._any(self.mask), go, end)
        self.f.open(go)
        return end

    # -- one lane at a time

    def _each_lane(self, work: Callable[[str], None]) -> None:
        """``work(lane)`` once for each lane that is on, in order; what it emits is scalar code in a loop."""
        bits, head, body, end = f"i{self.width}", *(self.f.label(x) for x in ("lane", "one", "lanes.end"))
        rest, start, before = self.f.name(), self._mask_integer(self._mask_vector()), self.f.block
        self.f.br(head)
        place = len(self.f.lines)
        self.f.open(head)
        self.f.cond_br(self.f.emit(f"icmp ne {bits} {rest}, 0"), body, end)
        self.f.open(body)
        intrinsic = self.module.declare(bits, f"llvm.cttz.{bits}", [bits, "i1"])
        lane = self.f.emit(f"call {bits} {intrinsic}({bits} {rest}, i1 true)")
        if self.width != 64:
            lane = self.f.emit(f"{'zext' if self.width < 64 else 'trunc'} {bits} {lane} to i64")
        less = self.f.emit(f"sub {bits} {rest}, 1")
        following = self.f.emit(f"and {bits} {rest}, {less}")
        outside = self.lane
        with self._under(None, True):
            self.lane = lane
            work(lane)
            self.lane = outside
        self.f.lines.insert(
            place + 1, f"  {rest} = phi {bits} [ {start}, %{before} ], [ {following}, %{self.f.block} ]"
        )
        self.f.br(head)
        self.f.open(end)

    def _spill(self, value: Value) -> str:
        """A vector in memory, for access by lane."""
        t = self._type(value.dtype, VARYING)
        pointer = self.f.slot(t, zero=False)
        self.f.do(f"store {t} {self._vector(value)}, ptr {pointer}")
        return pointer

    def _lane_pointer(self, dtype: DType, pointer: str, lane: str) -> str:
        return self.f.emit(f"getelementptr {llvm_type(dtype)}, ptr {pointer}, i64 {lane}")

    def _lane_value(self, dtype: DType, pointer: str, lane: str) -> Value:
        t = llvm_type(dtype)
        return Value(self.f.emit(f"load {t}, ptr {self._lane_pointer(dtype, pointer, lane)}"), dtype)

    def _set_lane(self, value: Value, pointer: str, lane: str) -> None:
        place = self._lane_pointer(value.dtype, pointer, lane)
        self.f.do(f"store {llvm_type(value.dtype)} {value.ssa}, ptr {place}")

    def _lane_by_lane(self, result: DType, operands: list[Value], work: Callable[[list[Value]], Value]) -> Value:
        """The scalar ``work(operands)`` for each lane that is on; zero for the others. Uniform operands stay as they
        are, so that the scalar code is what it would be without lanes."""
        t = self._type(result, VARYING)
        spilled = [None if v.shape == UNIFORM else self._spill(v) for v in operands]
        into = self.f.slot(t, zero=False)
        self.f.do(f"store {t} zeroinitializer, ptr {into}")

        def one(lane: str) -> None:
            scalars = [
                v if place is None else self._lane_value(v.dtype, place, lane)
                for v, place in zip(operands, spilled, strict=True)
            ]
            self._set_lane(work(scalars), into, lane)

        self._each_lane(one)
        return Value(self.f.emit(f"load {t}, ptr {into}"), result, VARYING)
