"""How a kernel's `print` writes a number, on every device that prints through the host."""

from __future__ import annotations

import numpy as np

from tack.lang.types import DType, f32


def number_text(number: int | float, dtype: DType) -> str:
    """A number as Python prints it; an f32 by the shortest digits that tell it from its neighbours."""
    return str(np.float32(number)) if dtype is f32 else str(number)
