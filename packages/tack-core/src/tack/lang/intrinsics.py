"""What the objects that kernels may call mean: `math.sqrt`, `numpy.sqrt` and `tack.sqrt` are one IR builtin."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from tack.lang.records import record


@record(frozen=True)
class Meaning:
    """How a call is lowered.

    `form` is "builtin" (`name` is an IR builtin), "atomic" (`name` is its operation), "library" (`name` is a device
    function of `tack.math`), "block" (`name` is its operation) or a form with a lowering of its own: pow int float bool
    len range ndrange print local shared barrier thread_id.
    """

    form: str
    name: str


class Intrinsic:
    """An operation that exists only inside kernels and device functions.

    Raises
    ------
    TypeError
        When it is called on the host.
    """

    def __init__(self, name: str, meaning: Meaning, doc: str) -> None:
        self.__name__ = name
        self.__qualname__ = name
        self.__doc__ = doc
        self.meaning = meaning

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self.__name__
        hint = f"; on the host use math.{name} or numpy" if hasattr(math, name) else ""
        raise TypeError(f"tack.{name} works only inside a kernel or a device function{hint}")

    def __repr__(self) -> str:
        return f"<tack intrinsic {self.__name__}>"


# By form; "" are those with a form of their own. A test compares them with the tables of `ops`, which compilers load.
_SUMMARIES = {
    "builtin": """
sqrt(x): square root, correctly rounded.
sin(x): sine of an angle in radians.
cos(x): cosine of an angle in radians.
tan(x): tangent of an angle in radians.
asin(x): arc sine.
acos(x): arc cosine.
atan(x): arc tangent.
atan2(y, x): angle of the point (x, y) from the positive x axis.
sinh(x): hyperbolic sine.
cosh(x): hyperbolic cosine.
tanh(x): hyperbolic tangent.
exp(x): e to the power of x.
exp2(x): 2 to the power of x.
expm1(x): exp(x) - 1, without loss near zero.
log(x): natural logarithm.
log2(x): logarithm to base 2.
log10(x): logarithm to base 10.
log1p(x): log(1 + x), without loss near zero.
floor(x): largest whole number not above x, as a float.
ceil(x): smallest whole number not below x, as a float.
trunc(x): x without its fraction, as a float.
round(x): nearest whole number, half to even, as a float.
abs(x): absolute value, of the type of x.
fabs(x): absolute value, as a float.
min(x, y, ...): smallest argument; of a number and a NaN, the number.
max(x, y, ...): largest argument; of a number and a NaN, the number.
copysign(x, y): magnitude of x with the sign of y.
fma(x, y, z): x * y + z, rounded once.
isnan(x): 1 if x is NaN, else 0.
isinf(x): 1 if x is infinite, else 0.
isfinite(x): 1 if x is neither infinite nor NaN, else 0.
popcount(x): how many bits of an integer are set, as i32.
clz(x): zero bits above the highest set bit of an integer, as i32; its width for zero.
ctz(x): zero bits below the lowest set bit of an integer, as i32; its width for zero.
""",
    "vector": """
dot(v, w): sum of the products of the components, in index order.
cross(v, w): vector product of two 3-vectors.
length(v): square root of dot(v, v), as a float.
distance(v, w): length of v - w, as a float.
normalize(v): v / length(v), as floats; of a zero vector NaN.
reflect(v, n): v - 2 * dot(n, v) * n, as floats: v mirrored at the plane whose unit normal is n.
outer(v, w): matrix of the products v[i] * w[j].
transpose(m): matrix with rows and columns exchanged.
trace(m): sum of the diagonal of a square matrix, in index order.
determinant(m): determinant of a square matrix.
inverse(m): inverse of a square matrix, as floats: the adjugate divided by the determinant.
identity(n): square matrix with ones on its diagonal; like a float literal it takes the precision that it meets.
any(v): 1 if any component is nonzero (NaN is), else 0, as i32.
all(v): 1 if all components are nonzero, else 0, as i32.
select(mask, a, b): a where mask is nonzero, else b, for each component.
""",
    "atomic": """
atomic_add(array, index, value): add to an element.
atomic_sub(array, index, value): subtract from an element.
atomic_min(array, index, value): lower an element to a value.
atomic_max(array, index, value): raise an element to a value.
atomic_and(array, index, value): "and" the bits of an element.
atomic_or(array, index, value): "or" the bits of an element.
atomic_xor(array, index, value): "xor" the bits of an element.
atomic_exchange(array, index, value): replace an element.
atomic_cas(array, index, expected, desired): replace an element if it equals `expected`.
""",
    "block": """
block_sum(x): sum of an f32 over the workgroup, the same for every lane.
block_min(x): smallest f32 of the workgroup; NaN if there is one.
block_max(x): largest f32 of the workgroup; NaN if there is one.
""",
    "": """
pow(x, y): the operator ``x ** y``.
local(shape, dtype): an array private to one iteration, its contents undefined at first.
shared(shape, dtype): an array of a workgroup, its contents undefined at first.
thread_id(): the number of this lane in its workgroup, i32.
barrier(): all lanes of the workgroup wait for each other; orders shared and global memory among them.
ndrange(d0, ...): the index space of a parallel loop, last index fastest.
""",
}

_HOST = """
Raises
------
TypeError
    When it is called on the host; in a kernel, with its position, for a wrong count or kind of arguments.
"""
_SCALAR = """
Works inside kernels and device functions, where `math`, `numpy` and bare spellings mean the same.

Parameters
----------
x, y, ... : numbers
    Floating builtins convert integers to f32, or to f64 beside an f64.

Returns
-------
A number of the type that rule TYPE-5 gives.
"""
_ATOMIC = """
Indivisible, relaxed, at the scope of the device (rules ATOM-*).

Parameters
----------
array : array
index : integer or tuple of integers
    One flat index, or an index for each dimension.
value, expected, desired : numbers
    Each converts once to the element type.

Returns
-------
The old value of the element.
"""
_VECTOR = """
Works inside kernels and device functions (rules VEC-*).

Parameters
----------
v, w, n : vectors
m : matrix
mask : vector or matrix of integers, such as a comparison gives
a, b : vectors, matrices or numbers

Returns
-------
A vector, a matrix or a number of the type in which the arguments meet.
"""
_LOCAL = """
Parameters
----------
shape : integer or tuple of integers
    Constant extents.
dtype : Tack dtype

Examples
--------
``window = tack.local((3, 3), tack.f32)`` in the body of a loop or of a device function.
"""
_SHARED = """
Parameters
----------
shape : integer or tuple of integers
    Constant extents.
dtype : Tack dtype

Examples
--------
``tile = tack.shared((16, 16), tack.f32)`` before a parallel loop or directly in its body; it passes to device functions
by reference.
"""
_COLLECTIVE = """
A collective: every lane of a workgroup must reach it together, so control flow around it depends only on what is the
same for all of them: scalar arguments, shapes, constants, block results, ``i // group`` (rules GRP-*).
"""
_BLOCK = (
    _COLLECTIVE
    + """
Parameters
----------
x : f32
    Lanes past the end of the loop contribute nothing.

Returns
-------
f32, the same bits for every lane.
"""
)
_NDRANGE = """
Parameters
----------
d0, ... : integers or pairs
    Sizes, or ``(start, end)`` pairs; host expressions. An extent that is not positive makes the space empty.

Examples
--------
``for i, j in tack.ndrange(a.shape[0], (1, n)):`` directly in the body of a kernel.
"""


_DETAILS = {
    "builtin": _SCALAR, "vector": _VECTOR, "atomic": _ATOMIC, "block": _BLOCK,
    "pow": _SCALAR, "local": _LOCAL, "ndrange": _NDRANGE, "shared": _SHARED, "barrier": _COLLECTIVE, "thread_id": "",
}  # fmt: skip


def _public() -> dict[str, Intrinsic]:
    table: dict[str, Intrinsic] = {}
    for form, lines in _SUMMARIES.items():
        for line in lines.strip().splitlines():
            name = line[: line.index("(")]
            meaning = Meaning(form or name, name.removeprefix(form + "_") if form else name)
            table[name] = Intrinsic(name, meaning, f"{line}\n{_DETAILS[meaning.form]}{_HOST}")
    return table


PUBLIC: dict[str, Intrinsic] = _public()
"""The markers that `tack` exports, by name."""

LATER = frozenset(("checked").split())
"""Names of `tack` that come with later versions."""

_NUMPY_SPELLINGS = (
    "arcsin:asin arccos:acos arctan:atan arctan2:atan2 absolute:abs rint:round around:round fmin:min fmax:max "
    "bitwise_count:popcount"
)
_ANGLES = "radians:radians deg2rad:radians degrees:degrees rad2deg:degrees"


def _meanings() -> dict[int, tuple[Any, Meaning]]:
    """By identity of the object; each entry also holds the object, so that its identity stays its own."""
    found: dict[int, tuple[Any, Meaning]] = {}

    def add(namespace: Any, attribute: str, meaning: Meaning) -> None:
        value = vars(namespace).get(attribute)
        if value is not None:
            found[id(value)] = (value, meaning)

    for name, marker in PUBLIC.items():
        if marker.meaning.form in ("builtin", "pow"):
            # np.min and np.max reduce arrays; np.minimum and np.maximum propagate NaN, which Tack's min and max do not.
            for namespace in (math, builtins) if name in ("min", "max") else (math, builtins, np):
                add(namespace, name, marker.meaning)
    for pair in _NUMPY_SPELLINGS.split():
        spelling, name = pair.split(":")
        add(np, spelling, Meaning("builtin", name))
    add(np, "power", Meaning("pow", "pow"))
    for name in ("int", "float", "bool", "len", "range", "print"):
        add(builtins, name, Meaning(name, name))
    for name in ("any", "all"):
        add(builtins, name, Meaning("vector", name))
    for pair in _ANGLES.split():
        spelling, name = pair.split(":")
        for namespace in (math, np):
            add(namespace, spelling, Meaning("library", name))
    return found


_MEANINGS = _meanings()


def lookup(value: Any) -> Meaning | None:
    """What a call of this object means in a kernel, or None."""
    if isinstance(value, Intrinsic):
        return value.meaning
    entry = _MEANINGS.get(id(value))
    return None if entry is None else entry[1]
