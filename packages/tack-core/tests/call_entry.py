"""Whether calls go through the native entry, for tests that run with it and without it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tack.runtime import native_call

needs_cpu = pytest.mark.skipif(find_spec("llvmlite") is None, reason="no CPU device without llvmlite")
needs_entry = pytest.mark.skipif(not native_call.entry_address(), reason="no native call entry on this interpreter")


def is_native() -> bool:
    """Whether there is an entry that calls can go through now."""
    return native_call.entry_address() != 0
