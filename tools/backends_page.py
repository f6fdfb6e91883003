"""Write the capability table of docs/reference/backends.md from what the backends declare.

    python tools/backends_page.py

A test compares the page with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tack.lang.types import DTYPES
from tack.runtime.device import _REGISTRY

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference" / "backends.md"
BEGIN, END = "<!-- capabilities: written by tools/backends_page.py -->", "<!-- end of capabilities -->"
MEANINGS: Final = {
    "f64": "f64 arrays and arithmetic",
    "host_memory": "NumPy arrays are arguments in place",
    "host_visible": "`np.asarray(a)` is a view of the device's memory",
    "page_import": "NumPy arrays of whole pages are arguments in place",
    "alias_variants": "separate code where arguments do not overlap",
    "workgroups": "`tack.shared`, `tack.barrier`, block operations",
    "texture_images": "textures through the hardware's samplers",
    "cuda_array_interface": "`__cuda_array_interface__`",
    "device reductions": "arrays reduce where they are",
}
# How another device runs a workgroup is no difference that a program sees.
INTERNAL: Final = frozenset({"serial_workgroups"})
YES, REPORTED, NO = "yes", "by report", ""

Declared = tuple[frozenset[str], frozenset[str]]  # what every device of a kind has, and what some have


def declared(kind: str) -> Declared:
    """What the backend of a kind declares, for the least and for the most that a device may report."""
    if kind == "opencl":
        return _of_opencl()
    if kind == "level_zero":
        return _of_level_zero()
    backend: Any = _REGISTRY[kind].load()
    found = set(backend.capabilities)
    found |= {"device reductions"} if backend.supports_device_reductions else set()
    found |= {"host_visible"} if "host_memory" in found else set()
    return frozenset(found), frozenset(found) | getattr(backend, "reported", frozenset())


def _of_opencl() -> Declared:
    from tack.runtime.opencl_devices import _INT64_ATOMICS, capabilities

    least: Any = SimpleNamespace(extensions="", double_fp_config=0)
    most: Any = SimpleNamespace(extensions=" ".join(_INT64_ATOMICS), double_fp_config=1)
    return capabilities(least), capabilities(most) | {"texture_images", "device reductions"}


def _of_level_zero() -> Declared:
    from tack.runtime.level_zero_backend import capabilities

    least, most = (SimpleNamespace(f64=x, wide_atomics=x, integrated=x) for x in (False, True))
    return capabilities(least), capabilities(most) | {"device reductions"}  # type: ignore[arg-type]


def rows() -> Iterator[list[str]]:
    """The cells of the table, line by line, the head first."""
    known = {kind: declared(kind) for kind in _REGISTRY}
    names = list(MEANINGS) + [f"atomic_{t.name}" for t in DTYPES]
    strange = {name for _, most in known.values() for name in most} - set(names) - INTERNAL
    if strange:
        raise ValueError(f"capabilities without a meaning in {Path(__file__).name}: {sorted(strange)}")
    yield ["capability", "means", *(f"`{kind}`" for kind in known)]
    for name in names:
        meaning = MEANINGS.get(name) or f"atomic operations on {name.removeprefix('atomic_')}"
        cells = [YES if name in least else REPORTED if name in most else NO for least, most in known.values()]
        yield [f"`{name}`" if " " not in name else name, meaning, *cells]


def table() -> str:
    """The table as Markdown."""
    head, *body = rows()
    lines = [head, ["---", "---", *["---"] * (len(head) - 2)], *body]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def page(text: str) -> str:
    """The page with the table that the code gives now."""
    before, found, rest = text.partition(BEGIN)
    _, also, after = rest.partition(END)
    if not (found and also):
        raise ValueError(f"{PAGE.name} has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
