"""The workgroup pass: parallel loops that use workgroups, split at their collectives (rules GRP-*).

`split_workgroups` runs after typing and makes of each such loop an `IRWorkgroup`: a tree of regions under control flow
that is provably the same for every lane of a workgroup. Generators for GPUs guard each region by "this lane is within
the trip count"; for devices that run a workgroup on one thread, `serial_workgroups` makes plain loops of it.
docs/design/workgroups.md tells the whole story.
"""

from __future__ import annotations

import copy

from tack.lang import ir
from tack.lang.constant_checks import constant_value, known_locals
from tack.lang.diagnostics import Loc, fail
from tack.lang.ir_building import (
    Symbols,
    assign,
    assigned,
    binary,
    cast,
    clone,
    const,
    is_block_reduce,
    reads,
    rebuild,
    var,
)
from tack.lang.liveness import Liveness
from tack.lang.records import replace
from tack.lang.types import i32, i64
from tack.lang.uniformity import Control, Uniformity, Why
from tack.lang.workgroup_calls import Collectives, uses_workgroup
from tack.lang.workgroup_jumps import with_own_counters, without_continue


def split_workgroups(kernel: ir.IRKernel) -> ir.IRKernel:
    """The kernel with every parallel loop that uses workgroups made an `IRWorkgroup`.

    Parameters
    ----------
    kernel
        Typed; vectors are scalars already. It is not changed.

    Returns
    -------
    IRKernel
        The kernel itself where nothing uses workgroups. Otherwise device functions with collectives are inlined and
        gone, and shared arrays are listed by the loops that use them.

    Raises
    ------
    ValueError
        If a collective is not reached by all lanes of a workgroup together: where it is, which condition varies, and
        why.
    UnsupportedSyntaxError
        If a device function with collectives returns before its end.
    """
    shared = [s for s in kernel.body if isinstance(s, ir.IRLocalArray)]
    if not shared and not any(_is_workgroup_loop(s, kernel) for s in kernel.body):
        return kernel
    symbols = Symbols(kernel.symbols)
    collectives = Collectives(kernel, symbols)
    body: list[ir.IRStmt] = []
    for statement in kernel.body:
        if isinstance(statement, ir.IRParallelFor) and _is_workgroup_loop(statement, kernel):
            body.append(_Loop(kernel, statement, shared, collectives).split())
        elif not isinstance(statement, ir.IRLocalArray):
            body.append(statement)
    functions = collectives.functions
    return replace(kernel, body=body, symbols=symbols.table, functions=functions, tables=collectives.tables)


def _is_workgroup_loop(node: ir.IRStmt, kernel: ir.IRKernel) -> bool:
    if not isinstance(node, ir.IRParallelFor):
        return False
    return uses_workgroup(node.body, kernel.functions) or bool(_shared_names(node.body, kernel.symbols))


def _shared_names(nodes: list[ir.IRStmt], symbols: dict[str, ir.Symbol]) -> set[str]:
    """The shared arrays that code names."""
    names: set[str] = set()
    for node in ir.walk(nodes):
        name = getattr(node, "array", None) or getattr(node, "name", None)
        symbol = symbols.get(name) if isinstance(name, str) else None
        if symbol is not None and symbol.array_type is not None and symbol.array_type.space == "shared":
            names.add(symbol.name)
    return names


class _Loop:
    """Splits one parallel loop."""

    def __init__(
        self, kernel: ir.IRKernel, loop: ir.IRParallelFor, shared: list[ir.IRLocalArray], collectives: Collectives
    ) -> None:
        self.kernel, self.loop, self.collectives, self.symbols = kernel, loop, collectives, collectives.symbols
        self.declared = shared
        body = collectives.block(_GroupNumbers(kernel, loop).rewrite(loop.body))
        body = without_continue(body, collectives.in_nodes, self.symbols)
        self.body = with_own_counters(body, collectives.in_nodes, self.symbols)
        self.assigned = assigned(self.body)
        varying = {
            name: Why(f"`{self.symbols.table[name].source_name}`, which is different for each of them", loop.loc)
            for name in loop.vars
        }
        self.uniformity = Uniformity(self.symbols.table, collectives.functions, self.body, varying)
        self.lifted: set[str] = set()

    def split(self) -> ir.IRWorkgroup:
        self._check()
        body = [s for s in self.body if not (isinstance(s, ir.IRLocalArray) and s.space == "shared")]
        body = self._with_uniform_parts(body)
        self.lifted |= self._uniform_at_the_top(body)
        while True:
            tree = self._tree(body)
            more = (self._needed(tree) | self._crossing(tree)) - self.lifted
            if not more:
                break
            self.lifted |= more
        loop = self.loop
        used = _shared_names(self.body, self.symbols.table)
        inner = [s for s in self.body if isinstance(s, ir.IRLocalArray) and s.space == "shared"]
        arrays: list[ir.IRLocalArray] = [clone(a) for a in (*self.declared, *inner) if a.name in used]
        return ir.IRWorkgroup(
            loc=loop.loc,
            vars=list(loop.vars),
            ranges=clone(loop.ranges),
            group=self.kernel.group,
            shared=arrays,
            body=clone(tree),
        )

    # ------------------------------------------------------------------------------------------------------- checks

    def _check(self) -> None:
        """Every collective is reached by all lanes together (rule GRP-6)."""
        for node in ir.walk(self.body):
            if isinstance(node, ir.IRBarrier) or is_block_reduce(node):
                control = self.uniformity.control_of(node)
                if control is not None:
                    self._refuse(node, control)

    def _refuse(self, node: ir.IRBarrier | ir.IRAssign, control: Control) -> None:
        place = node if isinstance(node, ir.IRBarrier) else node.value
        what = f"tack.block_{place.op}" if isinstance(place, ir.IRBlockReduce) else "tack.barrier"
        text = control.loc.source.line(control.loc.line).strip()
        fail(
            ValueError,
            f"`{what}` must be reached by all lanes of a workgroup together, but the {control.what} at {control.loc} "
            f"(`{text}`) depends on {control.why.text}",
            place.loc,
            hint=f"make that the same for the whole workgroup (scalar arguments, shapes, constants, block results, "
            f"`i // {self.kernel.group}`), or move the collective out of it",
            chain=self.collectives.chains[id(place)],
        )

    # ---------------------------------------------------------------------------------------------------- splitting

    def _uniform_at_the_top(self, body: list[ir.IRStmt]) -> set[str]:
        """Uniform locals that are assigned directly in the loop's body only: computed once for all lanes."""
        everywhere = [n.name for n in ir.walk(body) if isinstance(n, (ir.IRAssign, ir.IRBind))]
        top = [s.name for s in body if isinstance(s, ir.IRAssign)]
        kept = {n.value.value.name for n in ir.walk(body) if is_block_reduce(n)}
        return {
            name
            for name in top
            if self.uniformity.is_uniform(name) and everywhere.count(name) == top.count(name) and name not in kept
        }

    def _with_uniform_parts(self, body: list[ir.IRStmt]) -> list[ir.IRStmt]:
        """Divisions of uniform values, in assignments of integers that vary, as uniform locals of their own.

        Nothing but divisions is dear enough, and what is left may then be cheap enough to do again in each region.
        """
        done: list[ir.IRStmt] = []
        for node in body:
            if isinstance(node, ir.IRAssign) and not self.uniformity.is_uniform(node.name):
                node.value = rebuild(node.value, lambda part: self._kept_part(part, done))
            done.append(node)
        return done

    def _kept_part(self, part: ir.IRNode, done: list[ir.IRStmt]) -> ir.IRNode | None:
        if isinstance(part, (ir.IRSelect, ir.IRBoolOp)):
            return clone(part)  # type: ignore[no-any-return]  # what only some lanes evaluate stays with them
        if not isinstance(part, ir.IRBinOp) or part.op not in ("//", "%") or part.dtype is None:
            return None
        if part.dtype.is_float or self.uniformity.why(part) is not None:
            return None
        name = self.symbols.temporary(part.loc, part.dtype)
        done.append(assign(name, clone(part)))
        self.assigned.add(name)
        self.lifted.add(name)
        return var(name, part.dtype, part.loc)

    def _needed(self, tree: list[ir.IRStmt]) -> set[str]:
        """The locals that all lanes, those past the end included, must know to find their way through the tree."""
        names: set[str] = set()
        for node in tree:
            match node:
                case ir.IRIf():
                    names |= reads(node.cond) | self._needed(node.then) | self._needed(node.other)
                case ir.IRWhile():
                    names |= reads(node.cond) | self._needed(node.body)
                case ir.IRFor():
                    names |= reads([node.start, node.stop, node.step]) | self._needed(node.body)
                case ir.IRAssign() if not is_block_reduce(node):
                    names |= reads(node.value)
                case ir.IRUnpack():
                    names |= reads(node.call) | set(node.names)
        return names & self.assigned - self._loop_variables(tree)

    @staticmethod
    def _loop_variables(tree: list[ir.IRStmt]) -> set[str]:
        return {node.var for node in ir.walk(tree) if isinstance(node, ir.IRFor)}

    def _crossing(self, tree: list[ir.IRStmt]) -> set[str]:
        """Uniform locals that are assigned in one region and read in another."""
        live = Liveness(tree)
        inside = set().union(*(assigned(region.body) for region in live.regions))
        kept = {n.value.value.name for n in ir.walk(tree) if is_block_reduce(n)}
        crossing = set().union(*(live.entering(region) for region in live.regions)) & inside
        return {name for name in crossing - kept if self.uniformity.is_uniform(name)} - self._loop_variables(tree)

    def _tree(self, body: list[ir.IRStmt]) -> list[ir.IRStmt]:
        tree: list[ir.IRStmt] = []
        region: list[ir.IRStmt] = []

        def flush() -> None:
            if region:
                tree.append(ir.IRRegion(loc=region[0].loc, body=list(region)))
                region.clear()

        for node in body:
            if isinstance(node, ir.IRAssign) and not is_block_reduce(node) and node.name in self.lifted:
                # Earlier statements of the region do not know the difference, unless they use the old value.
                if node.name in reads(region):
                    flush()
                tree.append(node)
            elif self._is_split(node):
                flush()
                tree.append(self._split_statement(node))
            else:
                region.append(node)
        flush()
        return tree

    def _is_split(self, node: ir.IRStmt) -> bool:
        """Whether a statement cannot be inside a region."""
        if isinstance(node, (ir.IRBreak, ir.IRContinue)):
            return True  # those of loops inside regions are not asked about
        if isinstance(node, ir.IRIf) and any(_own_jumps(node)):
            return True
        return any(
            isinstance(n, ir.IRBarrier)
            or is_block_reduce(n)
            or (isinstance(n, (ir.IRAssign, ir.IRBind)) and n.name in self.lifted)
            or (isinstance(n, ir.IRUnpack) and not self.lifted.isdisjoint(n.names))
            for n in ir.walk(node)
        )

    def _split_statement(self, node: ir.IRStmt) -> ir.IRStmt:
        twin = copy.copy(node)
        if isinstance(twin, ir.IRIf):
            twin.then, twin.other = self._tree(twin.then), self._tree(twin.other)
        elif isinstance(twin, (ir.IRWhile, ir.IRFor)):
            twin.body = self._tree(twin.body)
        return twin


def _own_jumps(node: ir.IRIf) -> list[ir.IRStmt]:
    """The jumps under an `if` that leave an iteration of the loop around it."""
    found: list[ir.IRStmt] = []
    for inner in (*node.then, *node.other):
        if isinstance(inner, (ir.IRBreak, ir.IRContinue)):
            found.append(inner)
        elif isinstance(inner, ir.IRIf):
            found += _own_jumps(inner)
    return found


class _GroupNumbers:
    """Writes ``i // group`` as the number of the workgroup, and ``i % group`` as that of the lane (rule GRP-7).

    `i` is the variable of a loop over one `range` with step 1 that starts at a constant multiple of the divisor, and
    that the body does not assign; the divisor is a constant multiple of the group.
    """

    def __init__(self, kernel: ir.IRKernel, loop: ir.IRParallelFor) -> None:
        self.group, self.name, self.start = kernel.group, "", 0
        self.known = known_locals(kernel)
        first = loop.ranges[0]
        start, step = first.start, first.step
        simple = isinstance(start, ir.IRConst) and isinstance(step, ir.IRConst) and step.value == 1
        if len(loop.ranges) == 1 and simple and loop.vars[0] not in assigned(loop.body):
            assert isinstance(start, ir.IRConst)
            self.name, self.start = loop.vars[0], int(start.value)

    def rewrite(self, body: list[ir.IRStmt]) -> list[ir.IRStmt]:
        if not self.name:
            return body
        return rebuild(body, self._replace)  # type: ignore[no-any-return]

    def _replace(self, node: object) -> ir.IRExpr | None:
        if not isinstance(node, ir.IRBinOp) or not self._is_variable(node.left) or node.dtype is not i64:
            return None
        divisor = constant_value(node.right, self.known)
        if node.op == ">>" and isinstance(divisor, int) and 0 <= divisor < i64.bits - 1:
            divisor = 1 << divisor
        if not isinstance(divisor, int) or divisor <= 0 or self.start % divisor:
            return None
        if node.op in ("//", ">>") and divisor % self.group == 0:
            return self._number(divisor, node.loc)
        if node.op == "%" and divisor == self.group:
            return cast(ir.IRThreadId(loc=node.loc, dtype=i32), i64)
        return None

    def _is_variable(self, node: ir.IRExpr) -> bool:
        return isinstance(node, ir.IRVar) and node.name == self.name

    def _number(self, divisor: int, loc: Loc) -> ir.IRExpr:
        number: ir.IRExpr = ir.IRGroupIndex(loc=loc, dtype=i64)
        if divisor != self.group:
            number = binary("//", number, const(divisor // self.group, i64, loc))
        if self.start:
            number = binary("+", number, const(self.start // divisor, i64, loc))
        return number
