"""Loading Tack's own modules, and making what a first call needs."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Let no garbage collection start by itself: the many objects of new modules start dozens, which find nothing.

    For imports, and for lowering and compiling, all of which are up to a fifth faster so; never while user code runs.
    Around a lock, it keeps finalizers, which may call kernels, from waiting for the lock of their own thread.
    Other threads have their collections some milliseconds later.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def find_package(name: str) -> ModuleSpec | None:
    """`importlib.util.find_spec` of a package, without that module, which is slow to load."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    specs = (finder.find_spec(name, None) for finder in sys.meta_path)
    return next((spec for spec in specs if spec is not None), None)
