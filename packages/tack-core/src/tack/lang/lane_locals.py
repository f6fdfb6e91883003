"""What a lane keeps from one region to another, when one thread runs the regions as loops over lanes.

A local that is assigned in a region and read in a later one is in an array with an element for each lane; regions load
it first and store it last, so that in between it is an ordinary local. Cheap integer locals, such as positions computed
of the lane's number, are computed again instead: a compiler sees through that, and not through an array. Arrays of
`tack.local` that several regions use have a dimension more.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from tack.lang import ir
from tack.lang.diagnostics import Loc
from tack.lang.ir_building import Symbols, assign, assigned, clone, const, counting, is_block_reduce, reads, var
from tack.lang.liveness import Liveness
from tack.lang.types import ArrayType, DType, i64

_CHEAP = frozenset("+ - * & | ^ << >>".split())
_DIVISIONS = frozenset(("//", "%"))
_LARGEST = 16  # nodes of an expression that is computed again


class LaneLocals:
    """Rewrites the tree of a workgroup; `tree` is the result, whose regions need nothing of each other but arrays.

    Parameters
    ----------
    symbols
        New arrays are added here.
    tree
        The body of an `IRWorkgroup`. It is used up.
    first
        What each lane assigns before anything else: the user's loop variables.
    lane
        The variable that holds the lane's number.
    group
        Lanes of a workgroup.
    before
        Scalars that have a value before the loop.
    """

    def __init__(
        self,
        symbols: Symbols,
        tree: list[ir.IRStmt],
        first: list[ir.IRStmt],
        lane: str,
        group: int,
        before: set[str],
    ) -> None:
        self.symbols, self.lane, self.group, self.had_value = symbols, lane, group, before
        self.tree = _begun(tree, first)
        self._arrays: dict[str, str] = {}
        self._wide: dict[str, ir.IRLocalArray] = {}  # for each local array that several regions use: its wide one
        self._compute_again()
        self.live = Liveness(self.tree)
        self._keep()
        self._widen_local_arrays()

    # ------------------------------------------------------------------------------------------------------- results

    def array_of(self, name: str) -> str:
        """The array that holds a local for each lane."""
        return self._arrays[name]

    def declarations(self) -> list[ir.IRStmt]:
        """The arrays that the code outside the regions declares."""
        found: list[ir.IRStmt] = list(self._wide.values())
        for name, array in self._arrays.items():
            symbol = self.symbols.table[name]
            assert symbol.dtype is not None
            found.append(ir.IRLocalArray(loc=symbol.loc, name=array, shape=(self.group,), element=symbol.dtype))
        return found

    def initial(self) -> list[ir.IRStmt]:
        """Stores that give each lane what its locals held before the loop, zero for what had no value."""
        stores: list[ir.IRStmt] = []
        for name, array in self._arrays.items():
            if name not in self.live.before:
                continue
            symbol = self.symbols.table[name]
            loc, dtype = symbol.loc, symbol.dtype
            assert dtype is not None
            zero = const(0.0 if dtype.is_float else 0, dtype, loc)
            value: ir.IRExpr = var(name, dtype, loc) if name in self.had_value else zero
            stores.append(ir.IRStore(loc=loc, array=array, index=[self._at(loc)], value=value))
        return stores + [self._zeros(wide) for wide in self._wide.values()]

    def _zeros(self, wide: ir.IRLocalArray) -> ir.IRStmt:
        """Contents that copying may touch before the user's code has stored any."""
        loc, k = wide.loc, self.symbols.add("%element", "loop", wide.loc, i64)
        zero = const(0.0 if wide.element.is_float else 0, wide.element, loc)
        store = ir.IRStore(loc=loc, array=wide.name, index=[var(k, i64, loc), self._at(loc)], value=zero)
        return counting(k, const(wide.shape[0], i64, loc), [store])

    def _at(self, loc: Loc) -> ir.IRVar:
        return var(self.lane, i64, loc)

    # ----------------------------------------------------------------------------------------------- computed again

    def _compute_again(self) -> None:
        """Put cheap assignments at the head of every region that reads them of an earlier one."""
        cheap = self._cheap_locals()
        live = Liveness(self.tree)
        for region in live.regions:
            wanted = live.entering(region) & cheap.keys() & reads(region.body)
            while True:
                more = {name for w in wanted for name in reads(cheap[w]) if name in cheap} - wanted
                if not more:
                    break
                wanted |= more
            region.body[:0] = [assign(name, clone(value)) for name, value in cheap.items() if name in wanted]

    def _cheap_locals(self) -> dict[str, ir.IRExpr]:
        """Locals that an expression of what never changes gives, with that expression, in order."""
        count = self._assignments()
        fixed = {s.name for s in self.tree if isinstance(s, ir.IRAssign) and count[s.name] == 1}
        cheap: dict[str, ir.IRExpr] = {}
        top = [s for region in self.tree if isinstance(region, ir.IRRegion) for s in region.body]
        for node in top:
            if isinstance(node, ir.IRAssign) and count[node.name] == 1 and node.name not in self.had_value:
                known = all(n in cheap or n in fixed or not count[n] for n in reads(node.value))
                if known and _is_cheap(node.value):
                    cheap[node.name] = node.value
        return cheap

    def _assignments(self) -> Counter[str]:
        count: Counter[str] = Counter()
        for node in ir.walk(self.tree):
            match node:
                case ir.IRAssign(name=name) | ir.IRBind(name=name) | ir.IRFor(var=name):
                    count[name] += 1
                case ir.IRUnpack():
                    count.update(node.names)
        return count

    # ------------------------------------------------------------------------------------------------------- scalars

    def _keep(self) -> None:
        """Load at the head and store at the end of regions what crosses between them."""
        inside: set[str] = set()
        for region in self.live.regions:
            inside |= assigned(region.body)
        crossing = {name for region in self.live.regions for name in self.live.entering(region)} & inside
        reduced = [n.value.value.name for n in ir.walk(self.tree) if is_block_reduce(n)]
        for name in sorted(crossing.union(reduced)):
            symbol = self.symbols.table[name]
            assert symbol.dtype is not None
            array = ArrayType(symbol.dtype, 1, "private", (self.group,))
            self._arrays[name] = self.symbols.add(f"{name}.lanes", "local_array", symbol.loc, array)
        for region in self.live.regions:
            changed = assigned(region.body)
            used = self.live.entering(region) & (reads(region.body) | changed)
            loads = [self._load(n) for n in sorted(used) if n in self._arrays]
            stores = [self._store(n) for n in sorted(self.live.leaving(region) & changed) if n in self._arrays]
            region.body = [*loads, *region.body, *stores]

    def _load(self, name: str) -> ir.IRStmt:
        symbol = self.symbols.table[name]
        value = ir.IRLoad(loc=symbol.loc, array=self._arrays[name], index=[self._at(symbol.loc)], dtype=symbol.dtype)
        return assign(name, value)

    def _store(self, name: str) -> ir.IRStmt:
        symbol = self.symbols.table[name]
        assert symbol.dtype is not None
        value = var(name, symbol.dtype, symbol.loc)
        return ir.IRStore(loc=symbol.loc, array=self._arrays[name], index=[self._at(symbol.loc)], value=value)

    # -------------------------------------------------------------------------------------------------- local arrays

    def _widen_local_arrays(self) -> None:
        for region in self.live.regions:
            for node in list(ir.walk(region.body)):
                if isinstance(node, ir.IRLocalArray) and node.name not in self._wide:
                    users = [r for r in self.live.regions if any(_names_array(n, node.name) for n in ir.walk(r.body))]
                    if users != [region]:
                        self._widen(node, users)

    def _widen(self, node: ir.IRLocalArray, users: list[ir.IRRegion]) -> None:
        """Keep a local array between regions, an element for each lane, neighbouring lanes side by side in memory.

        Inside a region it stays an array of its own, copied in and out: so it passes to device functions as ever, and
        a small one ends up in registers.
        """
        loc, shape = node.loc, (math.prod(node.shape), self.group)
        array = ArrayType(node.element, 2, "private", shape)
        wide = self.symbols.add(f"{node.name}.lanes", "local_array", loc, array)
        self._wide[node.name] = ir.IRLocalArray(loc=loc, name=wide, shape=shape, element=node.element)
        for region in users:
            if any(isinstance(s, ir.IRLocalArray) and s.name == node.name for s in region.body):
                before: list[ir.IRStmt] = []
            else:
                before = [clone(node), self._copy(node, node.name, wide)]
            region.body = [*before, *region.body, self._copy(node, wide, node.name)]

    def _copy(self, node: ir.IRLocalArray, target: str, source: str) -> ir.IRStmt:
        """A loop over the elements, from or to this lane's column of the wide array."""
        loc, k = node.loc, self.symbols.add("%element", "loop", node.loc, i64)

        def index(name: str) -> list[ir.IRExpr]:
            element: list[ir.IRExpr] = [var(k, i64, loc)]
            return element if name == node.name else [*element, self._at(loc)]

        value = ir.IRLoad(loc=loc, array=source, index=index(source), dtype=node.element)
        store = ir.IRStore(loc=loc, array=target, index=index(target), value=value, moves=True)
        return counting(k, const(math.prod(node.shape), i64, loc), [store])


def _begun(tree: list[ir.IRStmt], first: list[ir.IRStmt]) -> list[ir.IRStmt]:
    """The tree with statements that each lane runs first: in its first region, if only scalars are assigned before."""
    position = next((k for k, node in enumerate(tree) if not isinstance(node, ir.IRAssign) or is_block_reduce(node)), 0)
    node = tree[position] if tree else None
    if isinstance(node, ir.IRRegion):
        node.body[:0] = first
        return tree
    return [*tree[:position], ir.IRRegion(loc=first[0].loc, body=first), *tree[position:]]


def _names_array(node: Any, name: str) -> bool:
    return getattr(node, "array", None) == name or (isinstance(node, ir.IRArrayRef) and node.name == name)


def _is_cheap(node: ir.IRExpr) -> bool:
    """Integer arithmetic that is done again rather than kept; divisions only by constants, which are no divisions."""
    nodes = list(ir.walk(node))
    return len(nodes) <= _LARGEST and all(map(_is_cheap_operation, nodes))


def _is_cheap_operation(node: Any) -> bool:
    if node.dtype is None or node.dtype.is_float:
        return False
    match node:
        case ir.IRConst() | ir.IRVar() | ir.IRThreadId() | ir.IRGroupIndex() | ir.IRArrayAttr() | ir.IRUnary():
            return True
        case ir.IRCast():
            return isinstance(node.operand.dtype, DType) and node.operand.dtype.is_integer
        case ir.IRBinOp():
            constant = isinstance(node.right, ir.IRConst) and node.right.value > 0
            return node.op in _CHEAP or (node.op in _DIVISIONS and constant)
    return False
