"""Arrays in LLVM: addresses, loads, stores and atomic operations, of one element or of a block of lanes.

A block loads and stores what lies side by side as one vector, masked where lanes are off; with a stride of two to four
as one wide load from the first to the last element that lanes touch; and anything else as a gather or scatter.
No lane that is off is ever touched: where the processor has no such instruction, those lanes go to a dummy element.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tack.codegen.lane_cost import PLAIN, VectorUnit
from tack.codegen.llvm_arithmetic import ArithmeticEmitter
from tack.codegen.llvm_values import ArrayStorage, Value, llvm_type
from tack.lang import ir
from tack.lang.shapes import UNIFORM, VARYING, Shape
from tack.lang.types import DType, i64

_FLOAT_ATOMIC: Final = {"add": "fadd", "sub": "fsub", "min": "fmin", "max": "fmax", "exchange": "xchg"}
_INTEGER_ATOMIC: Final = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "exchange": "xchg"}
_WIDE_STRIDES: Final = (2, 3, 4)
_NEAR: Final = 1 << 12  # elements


class MemoryEmitter(ArithmeticEmitter):
    """Accesses. `arrays` has the storage of every array of the function, `unit` what vectors the processor has; atomic
    operations on the arrays `counted` are plain ones, since no other thread knows these. The stores `streamed`, by
    identity, go past the caches where the condition `streaming` holds, which is "" if that is nowhere."""

    arrays: dict[str, ArrayStorage]
    function: ir.IRFunction

    def __init__(self) -> None:
        super().__init__()
        self.unit: VectorUnit = PLAIN
        self.counted: frozenset[str] = frozenset()
        self.streamed: frozenset[int] = frozenset()
        self.streaming = ""

    def _array_attribute(self, node: ir.IRArrayAttr) -> Value:
        extents = self.arrays[node.array].extents
        if node.attr == "shape":
            return Value(extents[node.axis], i64)
        if node.attr == "ndim":
            return Value(str(len(extents)), i64)
        return Value(self._product(extents), i64)

    def _product(self, factors: tuple[str, ...]) -> str:
        result = factors[0] if factors else "1"
        for factor in factors[1:]:
            result = self.f.emit(f"mul i64 {result}, {factor}")
        return result

    # -- addresses

    def _flat_index(self, storage: ArrayStorage, index: list[ir.IRExpr]) -> Value:
        """The position of an element: from an index a dimension, or from one flat index."""
        values = [self._expr(i) for i in index]
        flat = values[0] if values else Value("0", i64)
        for extent, value in zip(storage.extents[1:], values[1:], strict=False):
            flat = self._index_sum(self._index_product(flat, extent), value)
        return flat

    def _index_product(self, value: Value, factor: str) -> Value:
        if value.shape is not VARYING and (value.shape == UNIFORM or factor.isdecimal()):
            stride = value.shape * int(factor) if value.shape else UNIFORM
            return Value(self.f.emit(f"mul i64 {value.ssa}, {factor}"), i64, stride)
        t = self._type(i64, VARYING)
        return Value(self.f.emit(f"mul {t} {self._vector(value)}, {self._vector(Value(factor, i64))}"), i64, VARYING)

    def _index_sum(self, a: Value, b: Value) -> Value:
        if a.shape is not VARYING and b.shape is not VARYING:
            return Value(self.f.emit(f"add i64 {a.ssa}, {b.ssa}"), i64, a.shape + b.shape)
        t = self._type(i64, VARYING)
        return Value(self.f.emit(f"add {t} {self._vector(a)}, {self._vector(b)}"), i64, VARYING)

    def _pointer(self, storage: ArrayStorage, flat: str) -> str:
        """A pointer to one element; of an array that each lane has, to that of the lane which code now runs for."""
        if storage.interleaved > 1:
            row = self.f.emit(f"mul i64 {flat}, {storage.interleaved}")
            flat = self.f.emit(f"add i64 {row}, {self.lane}") if self.lane else row
        return self.f.emit(f"getelementptr {llvm_type(storage.dtype)}, ptr {storage.pointer}, i64 {flat}")

    def _pointers(self, storage: ArrayStorage, flat: Value) -> str:
        """A vector of pointers, one a lane."""
        positions, t = self._vector(flat), self._type(i64, VARYING)
        if storage.interleaved > 1:
            row = self.f.emit(f"mul {t} {positions}, {self._constant(str(storage.interleaved), i64, VARYING)}")
            positions = self._stepped(row, i64, 1)
        return self.f.emit(f"getelementptr {llvm_type(storage.dtype)}, ptr {storage.pointer}, {t} {positions}")

    def _dummy(self, name: str = "%dummy") -> str:
        """An element that takes the place of those that must not be touched; always zero when read."""
        if name not in self.arrays:
            self.arrays[name] = ArrayStorage(self.f.slot("i64"), i64, (), i64.itemsize)
        return self.arrays[name].pointer

    def _is_private(self, storage: ArrayStorage) -> bool:
        """Whether an access in a block is to an array that each lane has for itself."""
        return storage.interleaved > 1 and not self.lane

    # -- loads

    def _load(self, node: ir.IRLoad) -> Value:
        storage = self.arrays[node.array]
        flat, dtype = self._flat_index(storage, node.index), storage.dtype
        if flat.shape == UNIFORM:
            vector = VARYING if self._is_private(storage) else UNIFORM
            place = self._guarded_pointer(storage, flat)
            return Value(self._plain_load(dtype, place, storage.align, vector), dtype, vector)
        return Value(self._load_lanes(storage, flat, self._may_be_far(node.index)), dtype, VARYING)

    def _guarded_pointer(self, storage: ArrayStorage, flat: Value) -> str:
        """The pointer for a uniform index, which may be wild where no lane is on."""
        if self._surely_some:
            return self._pointer(storage, flat.ssa)
        assert self.mask is not None
        some = self._any(self.mask)
        if self._is_private(storage):
            return self._pointer(storage, self.f.emit(f"select i1 {some}, i64 {flat.ssa}, i64 0"))
        place = self._pointer(storage, flat.ssa)
        return self.f.emit(f"select i1 {some}, ptr {place}, ptr {self._dummy()}")

    def _may_be_far(self, index: list[ir.IRExpr]) -> bool:
        """Whether what is added to a position may lead far out of the array where no lane is on: a number that only the
        launch knows, or a large one. Neighbours of an element are as near as that."""
        return any(len(terms := list(_terms(i))) > 1 and any(map(self._is_far_term, terms)) for i in index)

    def _is_far_term(self, node: ir.IRExpr) -> bool:
        if isinstance(node, ir.IRConst):
            return abs(node.value) > _NEAR
        symbol = self.function.symbols.get(node.name) if isinstance(node, ir.IRVar) else None
        return isinstance(node, ir.IRArrayAttr) or (symbol is not None and symbol.kind in ("param", "local"))

    def _mapped(self, place: str, instead: str) -> str:
        """The pointer of an access under a mask, or another where no lane is on: a processor takes 0.15 us to find out
        that it must not report a fault. Loads have no place in common with stores, for which they would wait."""
        if self._surely_some:
            return place
        assert self.mask is not None
        return self.f.emit(f"select i1 {self._any(self.mask)}, ptr {place}, ptr {instead}")

    def _plain_load(self, dtype: DType, place: str, align: int, shape: Shape) -> str:
        return self.f.emit(f"load {self._type(dtype, shape)}, ptr {place}, align {align}")

    def _load_lanes(self, storage: ArrayStorage, flat: Value, far: bool) -> str:
        dtype, stride = storage.dtype, flat.shape if storage.interleaved == 1 else VARYING
        if stride == 1 and self.mask is None:
            return self._plain_load(dtype, self._pointer(storage, flat.ssa), storage.align, VARYING)
        if stride == 1 and dtype.bits in self.unit.masked:
            v, s = self._type(dtype, VARYING), self._suffix(dtype, VARYING)
            callee = self.module.declare(v, f"llvm.masked.load.{s}.p0", ["ptr", self._mask_type, v])
            place = self._pointer(storage, flat.ssa)
            place = self._mapped(place, storage.pointer) if far else place
            operands = f"ptr align {storage.align} {place}, {self._mask_type} {self.mask}, {v} zeroinitializer"
            return self.f.emit(f"call {v} {callee}({operands})")
        if stride in _WIDE_STRIDES and self.mask is None:
            assert stride is not None
            return self._strided_load(storage, flat, stride)
        if stride == -1 and self.mask is None:
            last = self._last_pointer(storage, flat)
            return self._reversed(self._plain_load(dtype, last, storage.align, VARYING), dtype)
        return self._gather(storage, flat)

    def _last_pointer(self, storage: ArrayStorage, flat: Value) -> str:
        return self._pointer(storage, self.f.emit(f"sub i64 {flat.ssa}, {self.width - 1}"))

    def _reversed(self, vector: str, dtype: DType) -> str:
        v, order = self._type(dtype, VARYING), ", ".join(f"i32 {k}" for k in reversed(range(self.width)))
        return self.f.emit(f"shufflevector {v} {vector}, {v} poison, <{self.width} x i32> <{order}>")

    def _strided_load(self, storage: ArrayStorage, flat: Value, stride: int) -> str:
        """One load from the first to the last element that lanes touch, not one more."""
        wide = f"<{(self.width - 1) * stride + 1} x {llvm_type(storage.dtype)}>"
        whole = self.f.emit(f"load {wide}, ptr {self._pointer(storage, flat.ssa)}, align {storage.align}")
        picked = ", ".join(f"i32 {k * stride}" for k in range(self.width))
        return self.f.emit(f"shufflevector {wide} {whole}, {wide} poison, <{self.width} x i32> <{picked}>")

    def _lane_pointers(self, storage: ArrayStorage, flat: Value) -> tuple[str, str]:
        """Pointers and mask of a gather or scatter. Without such instructions, masks would become branches."""
        places, t = self._pointers(storage, flat), f"<{self.width} x ptr>"
        if self.mask is None or self.unit.gathers:
            return places, self._mask_vector()
        one = self.f.emit(f"insertelement {t} poison, ptr {self._dummy()}, i64 0")
        off = self.f.emit(f"shufflevector {t} {one}, {t} poison, <{self.width} x i32> zeroinitializer")
        chosen = self.f.emit(f"select {self._mask_type} {self.mask}, {t} {places}, {t} {off}")
        return chosen, "splat (i1 true)"

    def _gather(self, storage: ArrayStorage, flat: Value) -> str:
        dtype, pointers = storage.dtype, f"<{self.width} x ptr>"
        v, s = self._type(dtype, VARYING), self._suffix(dtype, VARYING)
        places, mask = self._lane_pointers(storage, flat)
        callee = self.module.declare(v, f"llvm.masked.gather.{s}.v{self.width}p0", [pointers, self._mask_type, v])
        operands = f"{pointers} align {storage.align} {places}, {self._mask_type} {mask}, {v} zeroinitializer"
        return self.f.emit(f"call {v} {callee}({operands})")

    # -- stores

    def _store(self, node: ir.IRStore) -> None:
        value = self._expr(node.value)
        storage = self.arrays[node.array]
        flat = self._flat_index(storage, node.index)
        if flat.shape != UNIFORM:
            past = self.streaming if id(node) in self.streamed else ""
            self._store_lanes(storage, flat, value, past, self._may_be_far(node.index))
        elif self._is_private(storage):
            self._store_private(storage, flat, value)
        else:
            end = self._skip_if_none("store")
            last = value if value.shape == UNIFORM else self._last_lane(value)
            place = self._pointer(storage, flat.ssa)
            self.f.do(f"store {llvm_type(value.dtype)} {last.ssa}, ptr {place}, align {storage.align}")
            if end:
                self.f.br(end)
                self.f.open(end)

    def _last_lane(self, value: Value) -> Value:
        """Of the last lane that is on: that is what iterations in order would leave in one place."""
        vector, lane = self._vector(value), str(self.width - 1)
        if self.mask is not None:
            bits = f"i{self.width}"
            callee = self.module.declare(bits, f"llvm.ctlz.{bits}", [bits, "i1"])
            above = self.f.emit(f"call {bits} {callee}({bits} {self._mask_integer(self.mask)}, i1 true)")
            lane = self.f.emit(f"sub {bits} {lane}, {above}")
            if self.width < i64.bits:
                lane = self.f.emit(f"zext {bits} {lane} to i64")
        t = self._type(value.dtype, VARYING)
        return Value(self.f.emit(f"extractelement {t} {vector}, i64 {lane}"), value.dtype)

    def _store_private(self, storage: ArrayStorage, flat: Value, value: Value) -> None:
        """To a row of all lanes' arrays; lanes that are off keep what they have."""
        place, t, ssa = self._guarded_pointer(storage, flat), self._type(value.dtype, VARYING), self._vector(value)
        if self.mask is not None:
            old = self.f.emit(f"load {t}, ptr {place}, align {storage.align}")
            ssa = self.f.emit(f"select {self._mask_type} {self.mask}, {t} {ssa}, {t} {old}")
        self.f.do(f"store {t} {ssa}, ptr {place}, align {storage.align}")

    def _store_lanes(self, storage: ArrayStorage, flat: Value, value: Value, past: str, far: bool) -> None:
        dtype, stride = storage.dtype, flat.shape if storage.interleaved == 1 else VARYING
        v, s, vector = self._type(dtype, VARYING), self._suffix(dtype, VARYING), self._vector(value)
        if stride in (1, -1) and self.mask is None:
            place = self._pointer(storage, flat.ssa) if stride == 1 else self._last_pointer(storage, flat)
            vector = vector if stride == 1 else self._reversed(vector, dtype)
            plain = f"store {v} {vector}, ptr {place}, align {storage.align}"
            if past:
                whole = self.width * dtype.itemsize
                self._either(past, f"store {v} {vector}, ptr {place}, align {whole}, !nontemporal !{{i32 1}}", plain)
            else:
                self.f.do(plain)
            return
        if stride == 1 and dtype.bits in self.unit.masked:
            callee = self.module.declare("void", f"llvm.masked.store.{s}.p0", [v, "ptr", self._mask_type])
            place = self._pointer(storage, flat.ssa)
            place = self._mapped(place, self._dummy("%sink")) if far else place
            self.f.do(
                f"call void {callee}({v} {vector}, ptr align {storage.align} {place}, {self._mask_type} {self.mask})"
            )
            return
        pointers = f"<{self.width} x ptr>"
        places, mask = self._lane_pointers(storage, flat)
        callee = self.module.declare("void", f"llvm.masked.scatter.{s}.v{self.width}p0", [v, pointers, self._mask_type])
        places = f"{pointers} align {storage.align} {places}"
        self.f.do(f"call void {callee}({v} {vector}, {places}, {self._mask_type} {mask})")

    def _either(self, condition: str, rare: str, usual: str) -> None:
        """One of two instructions; short loops, in which a branch shows, take the usual one."""
        first, second, end = (self.f.label(x) for x in ("past", "through", "stored"))
        weights = '!prof !{!"branch_weights", i32 1, i32 99}'
        self.f.close(f"br i1 {condition}, label %{first}, label %{second}, {weights}")
        for label, text in ((first, rare), (second, usual)):
            self.f.open(label)
            self.f.do(text)
            self.f.br(end)
        self.f.open(end)

    # -- atomic operations

    def _atomic(self, node: ir.IRAtomic) -> Value:
        """Relaxed, and the old value; lanes one after the other."""
        storage = self.arrays[node.array]
        values = [self._flat_index(storage, node.index), *(self._expr(a) for a in node.args)]
        operate = self._tally if node.array in self.counted else self._atomic_scalar
        if self.shapes.of(node) is VARYING:
            return self._lane_by_lane(storage.dtype, values, lambda v: operate(node.op, storage, v))
        return operate(node.op, storage, values)

    def _tally(self, op: str, storage: ArrayStorage, values: list[Value]) -> Value:
        """An operation on an array of this thread's own; see `CounterEmitter`."""
        raise NotImplementedError

    def _atomic_scalar(self, op: str, storage: ArrayStorage, values: list[Value]) -> Value:
        """The alignment is the element's own: a lock needs that."""
        dtype, address = storage.dtype, self._pointer(storage, values[0].ssa)
        operands, t = [v.ssa for v in values[1:]], llvm_type(dtype)
        if op == "cas":
            return self._compare_and_swap(dtype, address, operands)
        if dtype.is_float:
            name = _FLOAT_ATOMIC[op]
        else:
            name = _INTEGER_ATOMIC.get(op) or ("" if dtype.is_signed else "u") + op
        return Value(self.f.emit(f"atomicrmw {name} ptr {address}, {t} {operands[0]} monotonic"), dtype)

    def _compare_and_swap(self, dtype: DType, address: str, operands: list[str]) -> Value:
        t, bits = llvm_type(dtype), f"i{dtype.bits}"
        if dtype.is_float:
            operands = [self.f.emit(f"bitcast {t} {x} to {bits}") for x in operands]
        pair = self.f.emit(
            f"cmpxchg ptr {address}, {bits} {operands[0]}, {bits} {operands[1]} monotonic monotonic, "
            f"align {dtype.itemsize}"
        )
        old = self.f.emit(f"extractvalue {{ {bits}, i1 }} {pair}, 0")
        return Value(self.f.emit(f"bitcast {bits} {old} to {t}") if dtype.is_float else old, dtype)

    def _expr(self, node: ir.IRExpr) -> Value:
        """Any expression; see `ExpressionEmitter`."""
        raise NotImplementedError


def typed(node: ir.IRExpr) -> DType:
    """The type of an expression, which typed IR always has."""
    assert node.dtype is not None, "the generator takes typed IR only"
    return node.dtype


def operand_type(node: ir.IRCompare | ir.IRBuiltin) -> DType:
    """The type that an operation runs in."""
    assert node._operand_type is not None, "the generator takes typed IR only"
    return node._operand_type


def _terms(node: ir.IRExpr) -> Iterator[ir.IRExpr]:
    """What is added up or subtracted."""
    if isinstance(node, ir.IRCast):
        yield from _terms(node.operand)
    elif isinstance(node, ir.IRBinOp) and node.op in ("+", "-"):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node
