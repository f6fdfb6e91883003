"""What the tests of the C dialects share: the dialects to run on the host, and kernels made from text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rigs import host_run
from typing_rig import module

needs_compiler = pytest.mark.skipif(host_run.compiler() is None, reason="no g++ to run generated C on the host")
each_dialect = pytest.mark.parametrize("dialect", host_run.DIALECTS)
ATOMIC_TYPES = {
    "cuda": ("i32", "u32", "i64", "u64", "f32", "f64"),
    "hip": ("i32", "u32", "i64", "u64", "f32", "f64"),
    "metal": ("i32", "u32", "f32"),
    "opencl": ("i32", "u32", "i64", "u64", "f32", "f64"),
}
FLOAT_TYPES = {"cuda": ("f32", "f64"), "hip": ("f32", "f64"), "metal": ("f32",), "opencl": ("f32", "f64")}


def kernel_text(params: str, *loops: tuple[str, str], head: str = "", tail: str = "", before: str = "") -> str:
    """A module with a kernel `k`: device functions, what stands before the loops, `(header, body)` of each loop, and
    what is after them."""
    lines = [before, "@tack.kernel", f"def k({params}):"]
    lines += [f"    {line}" for line in head.splitlines()]
    for header, body in loops:
        lines.append(f"    for {header}:")
        lines += [f"        {line}" for line in body.strip("\n").splitlines()]
    lines += [f"    {line}" for line in tail.splitlines()]
    return "\n".join(lines) + "\n"


def make(params: str, *loops: tuple[str, str], names: dict[str, Any] | None = None, **parts: str) -> Any:
    """The kernel of `kernel_text`; `names` are what it captures."""
    return module(kernel_text(params, *loops, **parts), **(names or {}))["k"]


def run(dialect: str, kernel: Any, *args: Any, **options: Any) -> Any:
    """See `host_run.run_on_host`."""
    return host_run.run_on_host(dialect, kernel, *args, **options)


def zeros(shape: int | tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    return np.zeros(shape, f"{name[0]}{int(name[1:]) // 8}")
