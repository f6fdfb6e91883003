"""The OpenCL devices of this machine: which there are, their numbers, and what each can do."""

from __future__ import annotations

import functools
import os
from typing import Final

import pyopencl as cl

from tack.lang.types import DTYPES, f64

VARIABLE: Final = "TACK_OPENCL_DEVICE"
# 16 numbers are what an array's key has room for; the plain name "opencl" takes one of them.
MAX_DEVICES: Final = 15
_INT64_ATOMICS: Final = ("cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics")
_NARROW_ATOMICS: Final = ("i32", "u32", "f32")  # OpenCL 1.1 has 32-bit atomics; f32 is built on compare-and-swap


@functools.cache
def usable_devices() -> tuple[cl.Device, ...]:
    """Every device that can compile, of every platform, in the order of the ICD loader; their places are their numbers.

    A platform without a device, as an installed driver without its hardware is, counts for nothing.
    """
    found: list[cl.Device] = []
    try:
        platforms = cl.get_platforms()
    except cl.Error:  # no platform at all is reported as an error
        return ()
    for platform in platforms:
        try:
            found += [d for d in platform.get_devices() if d.available and d.compiler_available and d.endian_little]
        except cl.Error:
            continue
    return tuple(found[:MAX_DEVICES])


@functools.cache
def default_number() -> int:
    """Which of `usable_devices` is plain "opencl": the first, or the one that ``TACK_OPENCL_DEVICE`` numbers.

    Raises
    ------
    ValueError
        If the variable is not the number of a device.
    """
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return 0
    count = len(usable_devices())
    if not text.isascii() or not text.isdigit() or int(text) >= count:
        names = ", ".join(f"{i} ({d.name.strip()})" for i, d in enumerate(usable_devices()))
        raise ValueError(f"{VARIABLE}={text}: the OpenCL devices of this machine are {names or 'none'}")
    return int(text)


def has_f64(device: cl.Device) -> bool:
    """Whether it computes in f64."""
    return bool(device.double_fp_config)


def has_wide_atomics(device: cl.Device) -> bool:
    """Whether it has the 64-bit atomics, both extensions of them."""
    return all(extension in device.extensions.split() for extension in _INT64_ATOMICS)


def capabilities(device: cl.Device) -> frozenset[str]:
    """The capabilities of `Backend`, by what the device reports."""
    wide = has_wide_atomics(device)
    atomics = [
        f"atomic_{t.name}"
        for t in DTYPES
        if t.name in _NARROW_ATOMICS or (wide and t.bits == f64.bits and (t is not f64 or has_f64(device)))
    ]
    return frozenset(["workgroups", *atomics, *(["f64"] if has_f64(device) else [])])


def build_options(device: cl.Device) -> tuple[str, ...]:
    """What programs are built with: only options that keep every value (rule FLT-*).

    OpenCL C 1.2 is what every device compiles. A device that can round f32 division and `sqrt` correctly must be asked
    to; one that cannot refuses the option.
    """
    options = ["-cl-std=CL1.2"]
    if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return tuple(options)
