"""Tack: a Python-first kernel language with one answer per defined program, on every device."""

from typing import TYPE_CHECKING

from tack.lang.array import Array
from tack.lang.constant import Constant, constant
from tack.lang.data_oriented import data_oriented
from tack.lang.diagnostics import SourceUnavailableError, UnsupportedSyntaxError
from tack.lang.func import Func, func
from tack.lang.intrinsics import PUBLIC
from tack.lang.kernel import Kernel, kernel
from tack.lang.types import (
    DType,
    Scalar,
    VecType,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    mat,
    mat2,
    mat3,
    mat4,
    u8,
    u16,
    u32,
    u64,
    vec,
    vec2,
    vec3,
    vec4,
)
from tack.runtime.device import Device, current_device, device, devices, set_default_device, synchronize

# What works inside kernels only; spelled out, so that editors and type checkers know the names.
sqrt = PUBLIC["sqrt"]
sin = PUBLIC["sin"]
cos = PUBLIC["cos"]
tan = PUBLIC["tan"]
asin = PUBLIC["asin"]
acos = PUBLIC["acos"]
atan = PUBLIC["atan"]
atan2 = PUBLIC["atan2"]
sinh = PUBLIC["sinh"]
cosh = PUBLIC["cosh"]
tanh = PUBLIC["tanh"]
exp = PUBLIC["exp"]
exp2 = PUBLIC["exp2"]
expm1 = PUBLIC["expm1"]
log = PUBLIC["log"]
log2 = PUBLIC["log2"]
log10 = PUBLIC["log10"]
log1p = PUBLIC["log1p"]
pow = PUBLIC["pow"]
floor = PUBLIC["floor"]
ceil = PUBLIC["ceil"]
trunc = PUBLIC["trunc"]
round = PUBLIC["round"]
fabs = PUBLIC["fabs"]
abs = PUBLIC["abs"]
min = PUBLIC["min"]
max = PUBLIC["max"]
copysign = PUBLIC["copysign"]
fma = PUBLIC["fma"]
isnan = PUBLIC["isnan"]
isinf = PUBLIC["isinf"]
isfinite = PUBLIC["isfinite"]
popcount = PUBLIC["popcount"]
clz = PUBLIC["clz"]
ctz = PUBLIC["ctz"]
atomic_add = PUBLIC["atomic_add"]
atomic_sub = PUBLIC["atomic_sub"]
atomic_min = PUBLIC["atomic_min"]
atomic_max = PUBLIC["atomic_max"]
atomic_and = PUBLIC["atomic_and"]
atomic_or = PUBLIC["atomic_or"]
atomic_xor = PUBLIC["atomic_xor"]
atomic_exchange = PUBLIC["atomic_exchange"]
atomic_cas = PUBLIC["atomic_cas"]
dot = PUBLIC["dot"]
cross = PUBLIC["cross"]
length = PUBLIC["length"]
distance = PUBLIC["distance"]
normalize = PUBLIC["normalize"]
reflect = PUBLIC["reflect"]
outer = PUBLIC["outer"]
transpose = PUBLIC["transpose"]
trace = PUBLIC["trace"]
determinant = PUBLIC["determinant"]
inverse = PUBLIC["inverse"]
identity = PUBLIC["identity"]
any = PUBLIC["any"]
all = PUBLIC["all"]
select = PUBLIC["select"]
local = PUBLIC["local"]
shared = PUBLIC["shared"]
thread_id = PUBLIC["thread_id"]
barrier = PUBLIC["barrier"]
block_sum = PUBLIC["block_sum"]
block_min = PUBLIC["block_min"]
block_max = PUBLIC["block_max"]
ndrange = PUBLIC["ndrange"]

if TYPE_CHECKING:
    from tack import algorithms, math, random
    from tack.lang.texture import Texture3D
    from tack.runtime.creation import (
        arange,
        asarray,
        concat,
        copyto,
        empty,
        empty_like,
        from_dlpack,
        full,
        full_like,
        ones,
        zeros,
        zeros_like,
    )
    from tack.runtime.events import Event
    from tack.runtime.inspection import inspect
    from tack.runtime.textures import texture3d

_CREATION = ("arange asarray concat copyto empty empty_like from_dlpack full full_like ones zeros zeros_like").split()
# Where the names are that many programs do not use; `algorithms`, `math` and `random` are modules.
_LATER = {
    **dict.fromkeys(_CREATION, "tack.runtime.creation"),
    "Event": "tack.runtime.events",
    "Texture3D": "tack.lang.texture",
    "algorithms": "tack.algorithms",
    "inspect": "tack.runtime.inspection",
    "math": "tack.math",
    "random": "tack.random",
    "texture3d": "tack.runtime.textures",
}


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> object:
        """A name of `_LATER`: its module is imported when it is first asked for."""
        place = _LATER.get(name)
        if place is None:
            raise AttributeError(f"module 'tack' has no attribute {name!r}")
        from importlib import import_module

        module = import_module(place)
        found = module if place == f"tack.{name}" else getattr(module, name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "Array",
    "Constant",
    "DType",
    "Device",
    "Event",
    "Func",
    "Kernel",
    "Scalar",
    "SourceUnavailableError",
    "Texture3D",
    "UnsupportedSyntaxError",
    "VecType",
    "abs",
    "acos",
    "algorithms",
    "all",
    "any",
    "arange",
    "asarray",
    "asin",
    "atan",
    "atan2",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_exchange",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_sub",
    "atomic_xor",
    "barrier",
    "block_max",
    "block_min",
    "block_sum",
    "ceil",
    "clz",
    "concat",
    "constant",
    "copysign",
    "copyto",
    "cos",
    "cosh",
    "cross",
    "ctz",
    "current_device",
    "data_oriented",
    "determinant",
    "device",
    "devices",
    "distance",
    "dot",
    "empty",
    "empty_like",
    "exp",
    "exp2",
    "expm1",
    "f32",
    "f64",
    "fabs",
    "floor",
    "fma",
    "from_dlpack",
    "full",
    "full_like",
    "func",
    "i8",
    "i16",
    "i32",
    "i64",
    "identity",
    "inspect",
    "inverse",
    "isfinite",
    "isinf",
    "isnan",
    "kernel",
    "length",
    "local",
    "log",
    "log1p",
    "log2",
    "log10",
    "mat",
    "mat2",
    "mat3",
    "mat4",
    "math",
    "max",
    "min",
    "ndrange",
    "normalize",
    "ones",
    "outer",
    "popcount",
    "pow",
    "random",
    "reflect",
    "round",
    "select",
    "set_default_device",
    "shared",
    "sin",
    "sinh",
    "sqrt",
    "synchronize",
    "tan",
    "tanh",
    "texture3d",
    "thread_id",
    "trace",
    "transpose",
    "trunc",
    "u8",
    "u16",
    "u32",
    "u64",
    "vec",
    "vec2",
    "vec3",
    "vec4",
    "zeros",
    "zeros_like",
]
