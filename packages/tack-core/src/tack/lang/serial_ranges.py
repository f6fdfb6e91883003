"""The iteration space of workgroups as a parallel loop over them, with host expressions for its bounds.

Values that the host computes reach the loop's body as the variables of ranges with one iteration: ``range(n, n + 1)``.
So a generator needs to know nothing of them.
"""

from __future__ import annotations

from tack.lang import ir
from tack.lang.diagnostics import Loc
from tack.lang.ir_building import Symbols, binary, clone, const, var
from tack.lang.records import field, record
from tack.lang.types import i64

_LARGEST = (1 << 63) - 2  # one more still fits i64


@record
class GroupRanges:
    """`last` is the variable that holds the flat number of the last iteration."""

    node: ir.IRWorkgroup
    symbols: Symbols
    last: str = ""
    _carried: list[tuple[str, ir.IRRange]] = field(default_factory=list)
    _start: list[ir.IRExpr] = field(default_factory=list)
    _step: list[ir.IRExpr] = field(default_factory=list)
    _count: list[ir.IRExpr] = field(default_factory=list)

    def __post_init__(self) -> None:
        loc = self.node.loc
        total = self._total()
        self.last = self._carry(
            "%last", ir.IRRange(start=_minus(total, 1, loc), stop=clone(total), step=_number(1, loc))
        )
        for axis, r in enumerate(self.node.ranges):
            self._start.append(self._value("%start", r.start, _number(1, loc)))
            self._step.append(self._value("%step", r.step, r.step))
            self._count.append(self._value("%count", self._trips(r), _number(1, loc)) if axis else const(1, i64, loc))

    def _carry(self, wanted: str, range_: ir.IRRange) -> str:
        name = self.symbols.add(wanted, "loop", self.node.loc, i64)
        self._carried.append((name, range_))
        return name

    def _value(self, wanted: str, expr: ir.IRExpr, step: ir.IRExpr) -> ir.IRExpr:
        """A host expression as a typed one. A step that is not positive makes the range empty, as in a plain loop."""
        loc = self.node.loc
        if isinstance(expr, ir.IRConst):
            return const(expr.value, i64, loc)
        start = _host("min", clone(expr), _number(_LARGEST, loc))
        name = self._carry(wanted, ir.IRRange(start=start, stop=_plus(clone(start), 1, loc), step=clone(step)))
        return var(name, i64, loc)

    # ------------------------------------------------------------------------------------------------ host expressions

    def _trips(self, r: ir.IRRange) -> ir.IRExpr:
        """How many values a range has: ``-((start - stop) // step)``, which does not overflow where they are few."""
        loc = self.node.loc
        start, stop, step = clone(r.start), clone(r.stop), clone(r.step)
        if isinstance(start, ir.IRConst) and start.value == 0 and isinstance(step, ir.IRConst) and step.value == 1:
            return _host("max", stop, _number(0, loc))
        if not isinstance(step, ir.IRConst):
            step = _host("max", step, _number(1, loc))
        span = ir.IRBinOp(loc=loc, op="-", left=start, right=_host("max", clone(r.start), stop))
        return ir.IRUnary(loc=loc, op="-", operand=ir.IRBinOp(loc=loc, op="//", left=span, right=step))

    def _total(self) -> ir.IRExpr:
        """The number of iterations; zero as soon as one range is empty, however large the others are."""
        loc = self.node.loc
        trips = [self._trips(r) for r in self.node.ranges]
        if len(trips) == 1:
            return trips[0]
        total: ir.IRExpr = _number(1, loc)
        for count in trips:
            total = _host("min", total, clone(count))
        for count in trips:
            total = ir.IRBinOp(loc=loc, op="*", left=total, right=count)
        return total

    # ------------------------------------------------------------------------------------------------------- the loop

    def ranges(self, number: str) -> tuple[list[ir.IRRange], list[str]]:
        """The ranges and the variables of the loop over workgroups; `number` counts them."""
        loc = self.node.loc
        negative = ir.IRUnary(loc=loc, op="-", operand=self._total())
        whole = ir.IRBinOp(loc=loc, op="//", left=negative, right=_number(self.node.group, loc))
        groups = ir.IRRange(
            start=_number(0, loc), stop=ir.IRUnary(loc=loc, op="-", operand=whole), step=_number(1, loc)
        )
        names, carried = [name for name, _ in self._carried], [r for _, r in self._carried]
        return [groups, *carried], [number, *names]

    def positions(self, flat: ir.IRExpr) -> list[tuple[str, ir.IRExpr]]:
        """What the user's loop variables are in the iteration with a flat number; some entries are temporaries."""
        loc, names = self.node.loc, self.node.vars
        done: list[tuple[str, ir.IRExpr]] = []
        if len(names) == 1:
            return [(names[0], self._affine(0, flat))]
        rest = self.symbols.temporary(loc, i64)
        done.append((rest, flat))
        for axis in range(len(names) - 1, 0, -1):
            done.append((names[axis], self._affine(axis, binary("%", var(rest, i64, loc), clone(self._count[axis])))))
            outer = self.symbols.temporary(loc, i64)
            done.append((outer, binary("//", var(rest, i64, loc), clone(self._count[axis]))))
            rest = outer
        done.append((names[0], self._affine(0, var(rest, i64, loc))))
        return done

    def _affine(self, axis: int, position: ir.IRExpr) -> ir.IRExpr:
        start, step = self._start[axis], self._step[axis]
        if not (isinstance(step, ir.IRConst) and step.value == 1):
            position = binary("*", position, clone(step))
        if isinstance(start, ir.IRConst) and start.value == 0:
            return position
        return binary("+", clone(start), position)


def _number(value: int, loc: Loc) -> ir.IRConst:
    return ir.IRConst(loc=loc, value=value)


def _plus(expr: ir.IRExpr, amount: int, loc: Loc) -> ir.IRExpr:
    return ir.IRBinOp(loc=loc, op="+", left=expr, right=_number(amount, loc))


def _minus(expr: ir.IRExpr, amount: int, loc: Loc) -> ir.IRExpr:
    return ir.IRBinOp(loc=loc, op="-", left=expr, right=_number(amount, loc))


def _host(name: str, *args: ir.IRExpr) -> ir.IRExpr:
    return ir.IRBuiltin(loc=args[0].loc, name=name, args=list(args))
