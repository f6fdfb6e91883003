"""Apple's Metal through PyObjC: the modules, the device, and whether there is one."""

from __future__ import annotations

import functools
from typing import Any


class MetalError(RuntimeError):
    """Metal refused something, or a kernel failed."""


@functools.cache
def api() -> Any:
    """The module of Metal's classes and constants."""
    import Metal

    return Metal


def pool() -> Any:
    """A context that releases what Metal's methods returned inside it and nothing refers to any more."""
    import objc

    return objc.autorelease_pool()


@functools.cache
def find_device() -> tuple[Any, str]:
    """The system's GPU, or None and part of a sentence: why there is none.

    A missing or broken installation is a reason like any other, so whatever it raises is caught.
    """
    try:
        found = api().MTLCreateSystemDefaultDevice()
        if found is None:
            return None, "Metal finds no GPU"
        # Addresses in argument buffers (`gpuAddress`), which the backend is built on.
        if not found.supportsFamily_(api().MTLGPUFamilyMetal3):
            return None, f"{found.name()} lacks Metal 3, which needs macOS 13 and a GPU of 2017 or later"
    except Exception as error:
        return None, f"Metal cannot be used ({type(error).__name__}: {error})"
    return found, ""
