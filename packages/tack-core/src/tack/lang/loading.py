"""Loading Tack's own modules at a first call."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Let no garbage collection start by itself: the many objects of new modules start dozens, which find nothing.

    For imports alone. They are a fifth faster so; other threads have their collections some milliseconds later.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
