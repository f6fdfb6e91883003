"""Loading Tack's own modules, and making what a first call needs."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Let no garbage collection start by itself: the many objects of new modules start dozens, which find nothing.

    For imports, and for lowering and compiling, all of which are up to a fifth faster so; never while user code runs.
    Other threads have their collections some milliseconds later.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
