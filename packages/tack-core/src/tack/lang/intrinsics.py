"""What the objects that kernels may call mean: `math.sqrt`, `numpy.sqrt`, `tack.sqrt` and `abs` all lead to one IR name."""

from __future__ import annotations

import builtins
import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from tack.lang.ops import ATOMICS, BUILTINS


class Intrinsic:
    """An operation that exists only inside kernels and device functions.

    Raises
    ------
    TypeError
        When it is called on the host.
    """

    def __init__(self, name: str, meaning: Meaning, doc: str) -> None:
        self.__name__ = name
        self.__doc__ = doc
        self.meaning = meaning

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        name = self.__name__
        hint = f"; on the host use numpy or math.{name}" if hasattr(math, name) else ""
        raise TypeError(f"tack.{name} works only inside a kernel or a device function{hint}")

    def __repr__(self) -> str:
        return f"<tack intrinsic {self.__name__}>"


@dataclass(frozen=True, slots=True)
class Meaning:
    """How a call is lowered. `form` is "builtin" (`name` is an IR builtin), "atomic" (`name` is its operation), "library" (`name` is a device
    function of `tack.math`) or a form with a lowering of its own: pow int float bool len range ndrange print local."""

    form: str
    name: str


_DOCS = {
    "sqrt": "Square root, correctly rounded.", "sin": "Sine of an angle in radians.", "cos": "Cosine of an angle in radians.",
    "tan": "Tangent of an angle in radians.", "asin": "Arc sine.", "acos": "Arc cosine.", "atan": "Arc tangent.",
    "atan2": "Angle of the point (second, first) from the positive x axis.", "sinh": "Hyperbolic sine.",
    "cosh": "Hyperbolic cosine.", "tanh": "Hyperbolic tangent.", "exp": "e to the power of the argument.",
    "exp2": "2 to the power of the argument.", "expm1": "exp(x) - 1 without loss near zero.", "log": "Natural logarithm.",
    "log2": "Logarithm to base 2.", "log10": "Logarithm to base 10.", "log1p": "log(1 + x) without loss near zero.",
    "floor": "Largest whole number not above the argument, as a float.",
    "ceil": "Smallest whole number not below the argument, as a float.",
    "trunc": "The argument without its fraction, as a float.", "round": "Nearest whole number, half to even, as a float.",
    "fabs": "Absolute value of a float.", "copysign": "Magnitude of the first argument with the sign of the second.",
    "fma": "a * b + c, rounded once.", "abs": "Absolute value, of the argument's type.",
    "min": "Smallest argument; of a NaN and a number, the number.", "max": "Largest argument; of a NaN and a number, the number.",
    "isnan": "1 if the argument is NaN, else 0.", "isinf": "1 if the argument is infinite, else 0.",
    "isfinite": "1 if the argument is neither infinite nor NaN, else 0.", "popcount": "How many bits of an integer are set, as i32.",
    "clz": "Zero bits above the highest set bit of an integer; its width for zero.",
    "ctz": "Zero bits below the lowest set bit of an integer; its width for zero.",
}  # fmt: skip

_ATOMIC_DOC = """Atomically {verb} an array element; returns the old value.

    Parameters
    ----------
    array
        The array.
    index
        One flat index, or a tuple with an index for each dimension.
    {values}

    Raises
    ------
    TypeError
        On the host, and for an element type that the operation or the device does not have.
    """

_ATOMIC_VERBS = {
    "add": "add to", "sub": "subtract from", "min": "lower", "max": "raise", "and": "and bits into",
    "or": "or bits into", "xor": "xor bits into", "exchange": "replace", "cas": "replace, if it equals `expected`,",
}  # fmt: skip


def _signature_doc(name: str, text: str) -> str:
    least, most = BUILTINS[name].arity
    arguments = ", ".join("xyz"[:least]) + (", ..." if most is None else "")
    return (
        f"{name}({arguments}): {text}\n\n    Works inside kernels and device functions; its result type follows rule TYPE-5.\n\n"
        f"    Raises\n    ------\n    TypeError\n        When called on the host.\n"
    )


def _public() -> dict[str, Intrinsic]:
    table = {name: Intrinsic(name, Meaning("builtin", name), _signature_doc(name, _DOCS[name])) for name in BUILTINS}
    power = "pow(x, y): the operator `x ** y`.\n\n    Raises\n    ------\n    TypeError\n        When called on the host.\n"
    table["pow"] = Intrinsic("pow", Meaning("pow", "pow"), power)
    for op in ATOMICS:
        values = "expected, desired\n        The values to compare with and to store." if op == "cas" else "value\n        The operand."
        doc = _ATOMIC_DOC.format(verb=_ATOMIC_VERBS[op], values=values)
        table[f"atomic_{op}"] = Intrinsic(f"atomic_{op}", Meaning("atomic", op), doc)
    table["local"] = Intrinsic(
        "local",
        Meaning("local", "local"),
        "local(shape, dtype): an array private to one iteration, contents undefined.\n\n    Parameters\n    ----------\n    shape\n"
        "        Constant extents: one integer, or a tuple.\n    dtype\n        A Tack dtype.\n\n"
        "    Raises\n    ------\n    TypeError\n        When called on the host.\n",
    )
    table["ndrange"] = Intrinsic(
        "ndrange",
        Meaning("ndrange", "ndrange"),
        "ndrange(d0, ...): the index space of a parallel loop, last index fastest.\n\n    Parameters\n    ----------\n    d0, ...\n"
        "        Sizes, or ``(start, end)`` pairs.\n\n    Raises\n    ------\n    TypeError\n        When called on the host.\n",
    )
    return table


PUBLIC: dict[str, Intrinsic] = _public()
"""The markers that `tack` exports, by name."""

LATER = frozenset(
    "vec mat vec2 vec3 vec4 mat2 mat3 mat4 dot cross length distance normalize reflect outer transpose trace determinant inverse identity any all "
    "select shared barrier thread_id block_sum block_min block_max texture3d data_oriented checked".split()
)
"""Names of `tack` that come with later versions."""

_NUMPY_SPELLINGS = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
}  # fmt: skip
_NUMPY_MORE = {
    "absolute": "abs", "rint": "round", "around": "round", "fmin": "min", "fmax": "max", "minimum": "min", "maximum": "max",
    "amin": "min", "amax": "max", "bitwise_count": "popcount",
}  # fmt: skip


def _meanings() -> dict[int, tuple[Any, Meaning]]:
    """By identity of the object; each entry also holds the object, so that its identity stays its own."""
    found: dict[int, tuple[Any, Meaning]] = {}

    def add(namespace: Any, attribute: str, meaning: Meaning) -> None:
        value = getattr(namespace, attribute, None)
        if value is not None:
            found[id(value)] = (value, meaning)

    for name, marker in PUBLIC.items():
        if marker.meaning.form not in ("builtin", "pow"):
            continue
        for namespace in (math, builtins, np):
            add(namespace, name, marker.meaning)
        if name in _NUMPY_SPELLINGS:
            add(np, _NUMPY_SPELLINGS[name], marker.meaning)
    for spelling, name in _NUMPY_MORE.items():
        add(np, spelling, Meaning("builtin", name))
    add(np, "power", Meaning("pow", "pow"))
    for name in ("int", "float", "bool", "len", "range", "print"):
        add(builtins, name, Meaning(name, name))
    for name, spellings in (("radians", ("radians", "deg2rad")), ("degrees", ("degrees", "rad2deg"))):
        for spelling in spellings:
            add(math, spelling, Meaning("library", name))
            add(np, spelling, Meaning("library", name))
    return found


_MEANINGS = _meanings()


def lookup(value: Any) -> Meaning | None:
    """What a call of this object means in a kernel, or None."""
    if isinstance(value, Intrinsic):
        return value.meaning
    entry = _MEANINGS.get(id(value))
    return None if entry is None else entry[1]
