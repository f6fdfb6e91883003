"""An oracle for workgroups that shares nothing with Tack: the kernel's own Python text, run by one thread a lane.

`run_lanes` executes a kernel's source as Python. Each lane of a workgroup is a thread, a barrier is a
`threading.Barrier`, and `tack` is a stand-in. Integers are Python's, so programs must not overflow.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import textwrap
import threading
import types

import numpy as np

_LANE = threading.local()


class _Phase(ast.NodeTransformer):
    """Outermost loops run over what the lane is given."""

    def __init__(self):
        self.loops = 0

    def visit_FunctionDef(self, node):
        node.decorator_list = []
        for statement in node.body:
            if isinstance(statement, ast.For):
                given = ast.Call(ast.Name("__lanes__", ast.Load()), [ast.Constant(self.loops), statement.iter], [])
                statement.iter = ast.copy_location(given, statement.iter)
                self.loops += 1
        return node


class _Group:
    """What the lanes of one workgroup share."""

    def __init__(self, size, lanes):
        self.size, self.barrier, self.arrays, self.values = size, threading.Barrier(lanes), {}, [None] * size
        self.lock = threading.Lock()

    def shared(self, shape, dtype):
        """The lane's n-th shared array is the workgroup's n-th."""
        number = _LANE.declared = _LANE.declared + 1
        with self.lock:
            return self.arrays.setdefault(number, np.zeros(shape, dtype.numpy))

    def reduce(self, op, value):
        self.values[_LANE.number] = np.float32(value)
        self.barrier.wait(60)
        identity = {"sum": 0.0, "min": math.inf, "max": -math.inf}[op]
        values = [np.float32(identity) if v is None else v for v in self.values]
        self.barrier.wait(60)
        self.values[_LANE.number] = None
        while len(values) > 1:
            half = len(values) // 2
            values = [combine(op, a, b) for a, b in zip(values[:half], values[half:], strict=True)]
        self.barrier.wait(60)
        return values[0]


def combine(op, a, b):
    """Two f32 values, as the contract says: NaN propagates, and zeros tie by their signs."""
    if op == "sum":
        with np.errstate(all="ignore"):
            return np.float32(a + b)
    if np.isnan(a) or np.isnan(b):
        return np.float32(np.nan)
    if a == 0 and b == 0:
        minus = [bool(np.signbit(x)) for x in (a, b)]
        return np.float32(-0.0 if (any(minus) if op == "min" else all(minus)) else 0.0)
    return min(a, b) if op == "min" else max(a, b)


class _Atomic:
    def __init__(self, update):
        self.update, self.lock = update, threading.Lock()

    def __call__(self, array, index, *args):
        with self.lock:
            old = array[index]
            array[index] = self.update(old, *args)
            return old


class _Tack:
    """What the stand-in for `tack` offers."""

    def __init__(self):
        self.i32 = types.SimpleNamespace(numpy=np.int32)
        self.i64 = types.SimpleNamespace(numpy=np.int64)
        self.f32 = _Cast()
        self.atomic_add = _Atomic(lambda old, value: old + value)
        self.atomic_max = _Atomic(max)

    def shared(self, shape, dtype):
        return _LANE.group.shared(shape, dtype)

    def local(self, shape, dtype):
        return np.zeros(shape, dtype.numpy)

    def thread_id(self):
        return _LANE.number

    def barrier(self):
        _LANE.group.barrier.wait(60)

    def block_sum(self, value):
        return _LANE.group.reduce("sum", value)

    def block_min(self, value):
        return _LANE.group.reduce("min", value)

    def block_max(self, value):
        return _LANE.group.reduce("max", value)

    def ndrange(self, *dims):
        pairs = [d if isinstance(d, tuple) else (0, d) for d in dims]
        return list(itertools.product(*(range(a, b) for a, b in pairs)))


class _Cast:
    numpy = np.float32

    def __call__(self, value):
        return np.float32(value)


def run_lanes(function, group, *args):
    """Run a kernel's Python function on NumPy arrays and numbers, `group` lanes a workgroup, in place."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    phase = _Phase()
    code = compile(ast.fix_missing_locations(phase.visit(tree)), function.__name__, "exec")
    for loop in range(phase.loops):
        points = _points(code, function, loop, args)
        for start in range(0, len(points), group):
            _run_group(code, function, loop, points[start : start + group], group, args)


def _namespace(code, function, lanes):
    helpers = {name: f.source.fn for name, f in function.__globals__.items() if type(f).__name__ == "Func"}
    tack = _Tack()
    space = {**function.__globals__, "tack": tack, "__lanes__": lanes}
    for name, helper in helpers.items():
        space[name] = types.FunctionType(helper.__code__, space)
    exec(code, space)
    return space[function.__name__]


class _Found(Exception):
    pass


def _points(code, function, loop, args):
    """The iterations of a loop, in order."""
    found = []

    def lanes(number, points):
        if number == loop:
            found.extend(points)
            raise _Found
        return ()

    _LANE.group, _LANE.declared, _LANE.number = _Group(1, 1), 0, 0
    try:
        _namespace(code, function, lanes)(*args)
    except _Found:
        pass
    return found


def _run_group(code, function, loop, points, group, args):
    shared, errors = _Group(group, len(points)), []
    run = _namespace(code, function, lambda number, _: [_LANE.point] if number == loop else [])

    def lane(number, point):
        _LANE.group, _LANE.declared, _LANE.number, _LANE.point = shared, 0, number, point
        try:
            run(*args)
        except BaseException as error:
            errors.append(error)
            shared.barrier.abort()

    threads = [threading.Thread(target=lane, args=item) for item in enumerate(points)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
