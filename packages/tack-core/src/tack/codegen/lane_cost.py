"""When lanes are worth it, and how many: rough costs of a body as a block of lanes and as scalar code.

One unit is about a cycle of throughput. The weights are rules of thumb for classes of processors; they decide what is
emitted, and never what it computes.
"""

from __future__ import annotations

from typing import Final

from tack.codegen.work_estimate import trips
from tack.lang import ir
from tack.lang.inlining import IRInlined
from tack.lang.records import record, replace
from tack.lang.shapes import UNIFORM, VARYING, LaneShapes, Shape, constant
from tack.lang.types import DType, f32, f64


@record(frozen=True)
class VectorUnit:
    """What vectors a processor has.

    `size` is in bytes; `registers` is how many values a loop may keep (a few of them in memory are no loss); `masked`
    has the element sizes, in bits, that masked loads and stores take; `gathers` says whether a gather is better than
    its lanes one by one; `has_masks` whether masks have registers of their own; `fused` whether a product and a sum can
    be rounded once; `caches` is how many bytes all caches hold, where stores can go past them, else 0.
    """

    name: str
    size: int
    registers: int
    masked: frozenset[int]
    gathers: bool
    has_masks: bool = False
    fused: bool = False
    caches: int = 0


PLAIN: Final = VectorUnit("128 bits", 16, 24, frozenset(), False)
_FUSED: Final = VectorUnit("128 bits, fused", 16, 24, frozenset(), False, fused=True)
_AVX2: Final = VectorUnit("AVX2", 32, 24, frozenset({32, 64}), False, fused=True)
_AVX512: Final = VectorUnit("AVX-512", 64, 32, frozenset({8, 16, 32, 64}), True, True, True)
_AVX512_FEATURES: Final = frozenset("+avx512f +avx512bw +avx512dq +avx512vl".split())
_FUSES: Final = frozenset({"+fma", "+fp-armv8"})
_FAST_GATHER: Final = frozenset("skylake alderlake raptorlake meteorlake arrowlake arrowlake-s lunarlake".split())


def vector_unit(cpu: str, features: str, caches: int = 0) -> VectorUnit:
    """The unit of a processor by LLVM's name and list of features; `caches` is how many bytes they hold, if known."""
    have = set(features.split(","))
    unit = _vectors(cpu, have)
    return replace(unit, caches=caches) if caches and "+sse2" in have else unit


def _vectors(cpu: str, have: set[str]) -> VectorUnit:
    if have >= _AVX512_FEATURES:
        slow = VectorUnit("AVX-512, slow gathers", 64, 32, _AVX512.masked, False, True, True)
        return slow if "znver" in cpu else _AVX512
    if have >= {"+avx2", "+fma"}:
        fast = VectorUnit("AVX2, fast gathers", 32, 24, _AVX2.masked, True, fused=True)
        return fast if cpu in _FAST_GATHER else _AVX2
    return _FUSED if have & _FUSES else PLAIN


@record(frozen=True)
class Cost:
    """Of a block of lanes, and of one iteration as scalar code."""

    lanes: float
    scalar: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.lanes + other.lanes, self.scalar + other.scalar)

    def times(self, count: float) -> Cost:
        return Cost(self.lanes * count, self.scalar * count)


_NOTHING: Final = Cost(0, 0)
_MOST_TRIPS: Final = 8  # a loop counts as at most so many iterations: what matters is which part is inside
_DIVIDED_LOOP: Final = 1.3  # lanes that have left a loop are paid for until the last one leaves
_WIDE_INTEGERS_UNDER_MASKS: Final = 5  # of 64 bits, where masks are vectors: shifts and products are made of several
_STRAIGHT: Final = 16  # lanes without a serial loop
_DIVIDED_WIDE: Final = 8  # with divisions of 64 bits, which are made one by one
_LIBRARY_CALL: Final = 22
# How many operations a mathematical function has, of one native vector of binary64 or one scalar.
_OPERATIONS: Final = {
    **dict.fromkeys("exp exp2 log".split(), 40),
    **dict.fromkeys("sin cos tan asin acos atan atan2 sinh cosh tanh expm1 log2 log10 log1p".split(), 60),
    "pow": 140,
    "small power": 12,
}


_SHORT_FACTORS: Final = frozenset(2**k + d for k in range(1, 16) for d in (-1, 0, 1))  # a shift and a sum
_SMALL_EXPONENTS: Final = frozenset({-1, 0.5, *range(1, 65)})


class CostModel:
    """Costs of the statements of one parallel loop, for blocks of `width` lanes."""

    def __init__(self, shapes: LaneShapes, unit: VectorUnit, width: int) -> None:
        self.shapes, self.unit, self.width = shapes, unit, width
        self._divided = False  # inside a loop whose lanes may part

    def of(self, statements: list[ir.IRStmt]) -> Cost:
        total = _NOTHING
        for node in statements:
            total += self._node(node)
        return total

    def parts(self, dtype: DType) -> float:
        """How many native vectors hold a value of each lane."""
        return max(1, self.width * dtype.itemsize / self.unit.size)

    def _node(self, node: ir.IRNode) -> Cost:
        outside = self._divided
        self._divided |= isinstance(node, ir.IRFor | ir.IRWhile) and self.shapes.is_divergent(node)
        inside = _NOTHING
        for child in ir.children(node):
            inside += self._node(child)
        self._divided = outside
        match node:
            case ir.IRFor() | ir.IRWhile():
                count = min(_MOST_TRIPS, trips(node)) if isinstance(node, ir.IRFor) else _MOST_TRIPS
                divided = self.shapes.is_divergent(node)
                lanes = (inside.lanes + 2 + 2 * divided) * (_DIVIDED_LOOP if divided else 1)
                return Cost(lanes, inside.scalar + 2).times(count)
            case ir.IRIf():
                return inside + (Cost(2, 4) if self.shapes.is_divergent(node) else Cost(1, 1))
            case ir.IRStore():
                return inside + self._access(node.array, node.index, node.value.dtype, store=True)
            case ir.IRLoad():
                return inside + self._access(node.array, node.index, node.dtype, store=False)
            case ir.IRAtomic():
                return inside + Cost(21 * self.width, 20)
            case ir.IRExpr():
                return inside + self._operation(node)
        return inside

    def _access(self, array: str, index: list[ir.IRExpr], dtype: DType | None, store: bool) -> Cost:
        assert dtype is not None
        if array in self.shapes.private:
            uniform = all(self.shapes.of(i) == UNIFORM for i in index)
            return Cost(self.parts(dtype) if uniform else 3 * self.width, 1)
        shape = self._flat_shape(index)
        if shape == UNIFORM:
            return Cost(1, 1)
        if shape == 1:
            return Cost(self.parts(dtype), 1)
        if shape in (2, 3, 4) and not store:
            return Cost(2 * self.parts(dtype) * (shape or 1), 1)
        if shape == -1:
            return Cost(2 * self.parts(dtype), 1)
        return Cost((1.3 if self.unit.gathers else 3.6) * self.width, 1)

    def _flat_shape(self, index: list[ir.IRExpr]) -> Shape:
        shapes = [self.shapes.of(i) for i in index]
        return shapes[-1] if shapes and all(s == UNIFORM for s in shapes[:-1]) else VARYING if shapes else UNIFORM

    def _operation(self, node: ir.IRExpr) -> Cost:
        if isinstance(node, ir.IRConst | ir.IRVar | ir.IRArrayAttr | ir.IRBind | IRInlined | ir.IRArrayRef):
            return _NOTHING
        vector, scalar = self._weights(node)
        if self._divided and not self.unit.has_masks and _is_wide_integer(node):
            vector *= _WIDE_INTEGERS_UNDER_MASKS
        if self.shapes.of(node) is not VARYING:
            return Cost(scalar, scalar)
        return Cost(vector, scalar)

    def _weights(self, node: ir.IRExpr) -> tuple[float, float]:
        dtype = getattr(node, "_operand_type", None) or node.dtype
        assert dtype is not None
        parts, avx512 = self.parts(dtype), self.unit.size == _AVX512.size
        match node:
            case ir.IRBuiltin(name=name) if name in _OPERATIONS:
                return self._function(name)
            case ir.IRBuiltin(name="sqrt") | ir.IRBinOp(op="/"):
                return parts * (10 if avx512 else 6), 5
            case ir.IRBinOp(op="**") if dtype.is_float:
                return self._function(_power_name(node))
            case ir.IRBinOp(op="**"):
                return (_LIBRARY_CALL + 3.0) * self.width, _LIBRARY_CALL
            case ir.IRBinOp(op="//" | "%"):
                return self._division(node, dtype)
            case ir.IRBinOp(op="*", left=left, right=right) if dtype.is_integer and dtype.bits != 32:
                if constant(left) in _SHORT_FACTORS or constant(right) in _SHORT_FACTORS:
                    return parts * 2, 1
                return parts * (3 if avx512 or dtype.bits == 16 else 8), 1
            case ir.IRCast():
                source = node.operand.dtype
                if source is None or (source.itemsize == dtype.itemsize and source.kind == dtype.kind):
                    return 0, 0
                wide = max(parts, self.parts(source))
                slow = not avx512 and source.is_float != dtype.is_float and 64 in (source.bits, dtype.bits)
                return wide * (8 if slow else 1.5), 1
        return parts, 1

    def _function(self, name: str) -> tuple[float, float]:
        if not self.unit.fused:
            return (_LIBRARY_CALL + 3.0) * self.width, _LIBRARY_CALL
        return _OPERATIONS[name] * self.parts(f64), _OPERATIONS[name]

    def _division(self, node: ir.IRBinOp, dtype: DType) -> tuple[float, float]:
        if dtype.is_float:
            return (_LIBRARY_CALL + 6.0) * self.width, _LIBRARY_CALL
        if isinstance(node.right, ir.IRConst):
            value = int(node.right.value)
            if value > 0 and value & (value - 1) == 0:
                return self.parts(dtype), 1
            return (6 * self.parts(dtype), 4) if dtype.bits <= 32 else (8.0 * self.width, 5)
        if dtype.bits <= 32:
            return self.width * (2.2 if self.unit.size < 64 else 1.6) + 6, 10
        return 8.0 * self.width, 14


def _is_wide_integer(node: ir.IRExpr) -> bool:
    """Whether an operation is on integers of 64 bits, and not lane by lane anyway."""
    dtype = getattr(node, "_operand_type", None) or node.dtype
    return dtype is not None and dtype.is_integer and dtype.bits == 64 and not is_division(node)


def _power_name(node: ir.IRBinOp) -> str:
    """What a power costs as: "small power" for a literal exponent that takes a few multiplications, else "pow"."""
    right = node.right.operand if isinstance(node.right, ir.IRCast) else node.right
    return "small power" if isinstance(right, ir.IRConst) and right.value in _SMALL_EXPONENTS else "pow"


def is_function(node: ir.IRNode) -> bool:
    """Whether an expression is a mathematical function or a power of floats."""
    if isinstance(node, ir.IRBinOp):
        return node.op == "**" and node.dtype is not None and node.dtype.is_float
    return isinstance(node, ir.IRBuiltin) and node.name in _OPERATIONS


def is_division(node: ir.IRNode) -> bool:
    """Whether an expression divides integers by what is no literal."""
    if not isinstance(node, ir.IRBinOp) or node.op not in ("//", "%") or node.dtype is None or node.dtype.is_float:
        return False
    return constant(node.right) is None


def looped_types(loop: ir.IRParallelFor, shapes: LaneShapes, types: dict[str, DType]) -> list[DType]:
    """The types of the varying symbols that serial loops use."""
    loops = [n for n in ir.walk(loop.body) if isinstance(n, ir.IRFor | ir.IRWhile)]
    used = {name for n in loops for inner in ir.walk(n) if (name := getattr(inner, "name", None)) in types}
    used |= {n.var for n in loops if isinstance(n, ir.IRFor)}
    return [types[name] for name in sorted(used) if shapes.of_name(name) is VARYING]


def choose_width(loop: ir.IRParallelFor, shapes: LaneShapes, types: dict[str, DType], unit: VectorUnit) -> int:
    """Lanes that fill R native vectors. Without a serial loop R is 1 for rows, which may be short, and 2 for streams;
    else more chains are in flight while they fit."""
    varying = looped_types(loop, shapes, types)
    native = unit.size // max([t.itemsize for t in varying] + [4])
    if not any(isinstance(n, ir.IRFor | ir.IRWhile) for n in ir.walk(loop.body)):
        slow = any(is_division(n) and n.dtype.bits > f32.bits for n in ir.walk(loop.body))
        return max(native, _DIVIDED_WIDE if slow else _STRAIGHT if len(loop.ranges) == 1 else 0)
    together = min(4, max(1, unit.registers // (len(varying) + 4)))
    return min(64, native * (4 if together > 3 else 2 if together > 1 else 1))
