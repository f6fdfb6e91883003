"""The page of devices says what the code declares."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import tack
from tack.runtime import device as device_module

TOOL = Path(__file__).parents[3] / "tools" / "backends_page.py"


@pytest.fixture
def tool() -> Any:
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    return runpy.run_path(str(TOOL))


def test_the_table_is_up_to_date(tool: Any) -> None:
    """Run ``python tools/backends_page.py`` where this fails."""
    text = tool["PAGE"].read_text(encoding="utf-8")
    assert tool["page"](text) == text


def test_the_table_knows_every_device_and_changes_with_the_code(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    head, *body = tool["rows"]()
    assert head[2:] == [f"`{kind}`" for kind in device_module._REGISTRY]
    cells = {row[0]: dict(zip(head[2:], row[2:], strict=True)) for row in body}
    for name in tack.devices():
        kind = f"`{name.partition(':')[0]}`"
        for capability in ("f64", "host_memory", "atomic_i64", "atomic_u8"):
            shown = cells[f"`{capability}`"][kind]
            assert shown == "by report" or (shown == "yes") == tack.device(name).supports(capability)
    monkeypatch.setattr("tack.runtime.cpu_backend.CpuBackend.capabilities", frozenset({"f64", "time_travel"}))
    with pytest.raises(ValueError, match="time_travel"):
        tool["table"]()
