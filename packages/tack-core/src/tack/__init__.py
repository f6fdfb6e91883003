"""Tack: a Python-first kernel language with one answer per defined program, on every device."""

from tack.lang.array import Array
from tack.lang.diagnostics import SourceUnavailableError, UnsupportedSyntaxError
from tack.lang.types import DType, Scalar, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
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
from tack.runtime.device import Device, current_device, device, devices, set_default_device, synchronize

__all__ = [
    "Array",
    "DType",
    "Device",
    "Scalar",
    "SourceUnavailableError",
    "UnsupportedSyntaxError",
    "arange",
    "asarray",
    "concat",
    "copyto",
    "current_device",
    "device",
    "devices",
    "empty",
    "empty_like",
    "f32",
    "f64",
    "from_dlpack",
    "full",
    "full_like",
    "i8",
    "i16",
    "i32",
    "i64",
    "ones",
    "set_default_device",
    "synchronize",
    "u8",
    "u16",
    "u32",
    "u64",
    "zeros",
    "zeros_like",
]
