"""Which assignments may reach a read of a local name (rules CAP-1, CAP-2, LOOP-7), over the syntax tree.

Every local name has a set of states that it may be in, a few bits. A loop's body is walked twice: once to learn what
its end sends back to its start, then to report. Two rounds suffice: a statement sets a name's state or leaves it. Where
nothing is reported and nothing was learnt one does, so that the work does not double with every level of nesting.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tack.lang.records import field, record

UNASSIGNED, ASSIGNED, ENDED_LOOP, OTHER_ITERATION = 1, 2, 4, 8

State = dict[str, int]
Report = Callable[[type[Exception], str, ast.AST, str], Any]

_PROBLEMS = (
    (
        ENDED_LOOP,
        "the loop of `{0}` has ended, so `{0}` has no value here",
        "assign it again, or copy it to another local inside the loop",
    ),
    (
        OTHER_ITERATION,
        "`{0}` was assigned inside an earlier parallel loop, whose iterations each own their locals",
        "store the value in an array, or assign `{0}` again before reading it",
    ),
    (UNASSIGNED, "local `{0}` is read, but nothing has assigned it", "assign it before this line"),
)


@record
class _Loop:
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


def assigned_names(body: Iterable[ast.AST]) -> set[str]:
    """Every name that the statements assign, loop variables included."""
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def component_bases(body: Iterable[ast.AST]) -> set[str]:
    """Every name of which the statements assign an element or a component."""
    targets = [
        node
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store)
    ]
    return {node.value.id for node in targets if isinstance(node.value, ast.Name)}


def loop_targets(node: ast.For) -> list[str]:
    """The variables of a loop."""
    targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    return [t.id for t in targets if isinstance(t, ast.Name)]


class Flow:
    """One function. `check` reports the first wrong read and says whether the end of the body can be reached."""

    def __init__(self, params: Iterable[str], report: Report) -> None:
        self.params = frozenset(params)
        self.locals: set[str] = set(self.params)
        self.shared: set[str] = set()  # shared arrays from before the loops: no iteration's own
        self.report = report
        self.loops: list[_Loop] = []
        self.silent = 0

    def check(self, body: list[ast.stmt], *, is_kernel: bool) -> bool:
        self.locals |= assigned_names(body)
        state: State | None = dict.fromkeys(self.params, ASSIGNED)
        if not is_kernel:
            return self.block(body, state) is not None
        for statement in body:
            if isinstance(statement, ast.For) and state is not None:
                state = self.parallel_loop(statement, state)
            else:
                state = self.statement(statement, state)
        return state is not None

    # ------------------------------------------------------------------------------------------------- statements

    def block(self, body: list[ast.stmt], state: State | None) -> State | None:
        for statement in body:
            state = self.statement(statement, state)
        return state

    def statement(self, node: ast.stmt, state: State | None) -> State | None:
        """The states after a statement; None where control does not come through."""
        if state is None:
            return None
        match node:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self.assignment(node, state)
            case ast.If():
                self.reads(node.test, state)
                return _join(self.block(node.body, dict(state)), self.block(node.orelse, dict(state)))
            case ast.While():
                return self.while_loop(node, state)
            case ast.For():
                return self.serial_loop(node, state)
            case ast.Break():
                if self.loops:
                    self.loops[-1].breaks.append(state)
                return None
            case ast.Continue():
                if self.loops:
                    self.loops[-1].continues.append(state)
                return None
            case ast.Return():
                if node.value is not None:
                    self.reads(node.value, state)
                return None
            case _:
                self.reads(node, state)
        return state

    def assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, state: State) -> None:
        if isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                self.read(node.target, state)
            else:
                self.reads(node.target, state)
        if node.value is not None:
            self.reads(node.value, state)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for item in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(item, ast.Name):
                    state[item.id] = ASSIGNED
                else:
                    self.reads(item, state)

    def parallel_loop(self, node: ast.For, state: State) -> State:
        self.reads(node.iter, state)
        targets = loop_targets(node)
        self.loops.append(_Loop())
        self.block(node.body, {**state, **dict.fromkeys(targets, ASSIGNED)})
        self.loops.pop()
        for name in assigned_names(node.body) | self.locals & component_bases(node.body) - self.shared:
            # A parameter is what the caller passed again: an iteration assigns its own copy (rule PAR-3).
            if name not in self.params or state.get(name) != ASSIGNED or name in _inner_targets(node):
                state[name] = OTHER_ITERATION
        state.update(dict.fromkeys(targets, ENDED_LOOP))
        return state

    def serial_loop(self, node: ast.For, state: State) -> State:
        self.reads(node.iter, state)
        after = self.iterate(node.body, state, loop_targets(node), None)[1]
        after.update(dict.fromkeys(loop_targets(node), ENDED_LOOP))
        return after

    def while_loop(self, node: ast.While, state: State) -> State | None:
        breaks, after = self.iterate(node.body, state, [], node.test)
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return breaks if forever else after

    def iterate(
        self, body: list[ast.stmt], entry: State, targets: list[str], test: ast.expr | None
    ) -> tuple[State | None, State]:
        """The states after the breaks of a loop, and those after all of its exits."""
        breaks: State | None = None
        head: State = {**entry, **dict.fromkeys(targets, ASSIGNED)}
        for reporting in (False, True):
            self.silent += not reporting
            if test is not None:
                self.reads(test, head)
            loop = _Loop()
            self.loops.append(loop)
            end = self.block(body, {**head, **dict.fromkeys(targets, ASSIGNED)})
            self.loops.pop()
            self.silent -= not reporting
            breaks = _join_all(loop.breaks)
            known, head = head, _join_all([head, end, *loop.continues]) or head
            if self.silent and head == known:
                break
        return breaks, _join(head, breaks) or head

    # ------------------------------------------------------------------------------------------------------ reads

    def reads(self, node: ast.AST, state: State) -> None:
        for name in _names_read(node):
            self.read(name, state)

    def read(self, node: ast.Name, state: State) -> None:
        if node.id not in self.locals or self.silent:
            return
        states = state.get(node.id, UNASSIGNED)
        for bit, message, hint in _PROBLEMS:
            if states & bit and (bit != UNASSIGNED or not states & ASSIGNED):
                self.report(NameError, message.format(node.id), node, hint.format(node.id))


def _names_read(node: ast.AST) -> Iterator[ast.Name]:
    """The names that an expression or a simple statement reads, in the order of the source."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load):
            yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _names_read(child)


def _inner_targets(loop: ast.For) -> set[str]:
    return {
        name
        for node in loop.body
        for inner in ast.walk(node)
        if isinstance(inner, ast.For)
        for name in loop_targets(inner)
    }


def _join(a: State | None, b: State | None) -> State | None:
    if a is None or b is None:
        return a if b is None else b
    return {name: a.get(name, UNASSIGNED) | b.get(name, UNASSIGNED) for name in a.keys() | b.keys()}


def _join_all(states: Iterable[State | None]) -> State | None:
    joined: State | None = None
    for state in states:
        joined = _join(joined, state)
    return joined
