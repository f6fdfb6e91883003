"""Which values and which control flow are provably the same for every lane of a workgroup, and if not, why.

The analysis is optimistic: all starts uniform, and what is given as varying spreads to a fixpoint through values,
through assignments under control that varies, and through loops that some lanes leave early. A value is uniform at a
place if all lanes that are there compute the same; control is uniform if either all lanes come by or none does.

Uniform: constants, scalar parameters, shapes, results of block reductions, the number of the workgroup, elements of
captured tables at uniform indices, and what is computed of these alone. Elements of arrays are not: arguments may
overlap, and other workgroups may be storing to them.
"""

from __future__ import annotations

from tack.lang import ir
from tack.lang.diagnostics import Loc
from tack.lang.records import record

_LONGEST_TRAIL = 4


@record(frozen=True)
class Why:
    """Why a value varies: `text` is a noun phrase, `loc` where the value is."""

    text: str
    loc: Loc
    trail: int = 0


@record(frozen=True)
class Control:
    """Why control varies: `what` decides (an `if`, a loop, a jump), at `loc`."""

    what: str
    loc: Loc
    why: Why


class Uniformity:
    """The analysis of one parallel loop's body.

    Parameters
    ----------
    function
        Where the symbols and the tables are.
    functions
        The instances that the body calls.
    body
        Typed statements. It is not changed.
    varying
        What the body starts with that varies, with the reason: the loop's variables.

    Attributes
    ----------
    varying
        Every scalar symbol that is not uniform, with the reason.
    """

    def __init__(
        self,
        symbols: dict[str, ir.Symbol],
        functions: dict[str, ir.IRFunction],
        body: list[ir.IRStmt],
        varying: dict[str, Why],
    ) -> None:
        self.symbols, self.functions = symbols, functions
        self.varying = dict(varying)
        self._pure: dict[str, bool] = {}
        self._controls: dict[int, Control] = {}  # by identity of a statement: what decides whether a lane comes by
        self._jumps: dict[int, Control] = {}  # by identity of a loop: why some lanes leave an iteration early
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(body, None, None)

    # ------------------------------------------------------------------------------------------------------ answers

    def control_of(self, node: ir.IRStmt) -> Control | None:
        """What makes some lanes miss this statement; None if its control is uniform."""
        return self._controls.get(id(node))

    def is_uniform(self, name: str) -> bool:
        """Whether a scalar symbol holds the same for all lanes, wherever they are together."""
        return name not in self.varying

    def why(self, node: ir.IRExpr) -> Why | None:
        """Why an expression varies; None if it is uniform."""
        match node:
            case ir.IRVar():
                known = self.varying.get(node.name)
                return None if known is None else Why(known.text, node.loc, known.trail)
            case ir.IRThreadId():
                return Why("`tack.thread_id()`, which is different for each of them", node.loc)
            case ir.IRBlockReduce():
                return None
            case ir.IRLoad():
                return self._why_load(node)
            case ir.IRAtomic():
                return Why(f"what `tack.atomic_{node.op}` returns, which may be different for each of them", node.loc)
            case ir.IRCall():
                return self._why_call(node)
        return self._first(list(ir.children(node)))

    def _first(self, nodes: list[ir.IRExpr]) -> Why | None:
        return next((why for why in map(self.why, nodes) if why is not None), None)

    def _why_load(self, node: ir.IRLoad) -> Why | None:
        if _is_constant(self.symbols[node.array]):
            return self._first(node.index)
        name = self.symbols[node.array].source_name
        return Why(f"an element of `{name}`, which is not provably the same for all of them", node.loc)

    def _why_call(self, node: ir.IRCall) -> Why | None:
        symbol = node.symbol or ""
        if not self._is_pure(symbol):
            name = self.functions[symbol].name
            return Why(f"what `{name}` returns, which is not provably the same for all of them", node.loc)
        return self._first(node.args)

    def _is_pure(self, symbol: str) -> bool:
        """Whether a function's results depend on nothing but its arguments."""
        if symbol not in self._pure:
            function = self.functions[symbol]
            impure = (ir.IRAtomic, ir.IRThreadId, ir.IRStore, ir.IRPrint)
            self._pure[symbol] = not any(
                isinstance(node, impure)
                or (isinstance(node, ir.IRLoad) and not _is_constant(function.symbols[node.array]))
                or (isinstance(node, ir.IRCall) and not self._is_pure(node.symbol or ""))
                for node in ir.walk(function.body)
            )
        return self._pure[symbol]

    # --------------------------------------------------------------------------------------------------- statements

    def _block(self, body: list[ir.IRStmt], control: Control | None, loop: ir.IRNode | None) -> None:
        for node in body:
            self._statement(node, control, loop)

    def _statement(self, node: ir.IRStmt, control: Control | None, loop: ir.IRNode | None) -> None:
        if control is not None:
            self._controls[id(node)] = control
        match node:
            case ir.IRAssign():
                self._bindings(node.value, control)
                self._assign(node.name, self.why(node.value), node.loc, control)
            case ir.IRUnpack():
                self._bindings(node.call, control)
                why = self.why(node.call)
                for name in node.names:
                    self._assign(name, why, node.loc, control)
            case ir.IRIf():
                self._bindings(node.cond, control)
                inside = control or self._control("condition", node.loc, [node.cond])
                self._block(node.then, inside, loop)
                self._block(node.other, inside, loop)
            case ir.IRWhile() | ir.IRFor():
                self._loop(node, control)
            case ir.IRBreak() | ir.IRContinue():
                if control is not None and loop is not None and id(loop) not in self._jumps:
                    what = "`break`" if isinstance(node, ir.IRBreak) else "`continue`"
                    self._jumps[id(loop)] = Control(f"{what} under the {control.what}", control.loc, control.why)
                    self._changed = True
            case _:
                for child in ir.children(node):
                    self._bindings(child, control)

    def _loop(self, node: ir.IRWhile | ir.IRFor, control: Control | None) -> None:
        heads = [node.cond] if isinstance(node, ir.IRWhile) else [node.start, node.stop, node.step]
        for head in heads:
            self._bindings(head, control)
        what = "condition" if isinstance(node, ir.IRWhile) else "range"
        inside = control or self._jumps.get(id(node)) or self._control(what, node.loc, heads)
        if isinstance(node, ir.IRFor):
            # Lanes that are still in the loop are in the same iteration of it.
            self._assign(node.var, self._first([node.start, node.step]), node.loc, None)
        self._block(node.body, inside, node)

    def _control(self, what: str, loc: Loc, parts: list[ir.IRExpr]) -> Control | None:
        why = self._first(parts)
        return None if why is None else Control(what, loc, why)

    def _bindings(self, node: ir.IRExpr, control: Control | None) -> None:
        """Names that an expression binds; what is on the right of a condition may not be evaluated by all lanes."""
        match node:
            case ir.IRBind():
                self._bindings(node.value, control)
                self._assign(node.name, self.why(node.value), node.loc, control)
                return
            case ir.IRSelect():
                self._bindings(node.cond, control)
                inside = control or self._control("condition", node.cond.loc, [node.cond])
                self._bindings(node.then, inside)
                self._bindings(node.other, inside)
                return
            case ir.IRBoolOp():
                for value in node.values:
                    self._bindings(value, control)
                    control = control or self._control("condition", value.loc, [value])
                return
        for child in ir.children(node):
            self._bindings(child, control)

    def _assign(self, name: str, why: Why | None, loc: Loc, control: Control | None) -> None:
        if name in self.varying or (why is None and control is None):
            return
        symbol = self.symbols[name]
        shown = f"`{symbol.source_name}`" if symbol.kind != "temp" else "a value"
        if why is not None:
            text = f"{shown}, assigned in line {loc.line} from {why.text}"
            cause = why
        else:
            assert control is not None
            cause = control.why
            text = f"{shown}, assigned in line {loc.line} under a condition that depends on {cause.text}"
        if symbol.kind == "temp" or cause.trail >= _LONGEST_TRAIL:
            text = cause.text
        self.varying[name] = Why(text, loc, cause.trail + 1)
        self._changed = True


def _is_constant(symbol: ir.Symbol) -> bool:
    """Whether an array is a captured table."""
    return symbol.array_type is not None and symbol.array_type.space == "constant"
