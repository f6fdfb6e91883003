"""Array reductions of a dialect, by the runtime's own code, over a queue that runs generated text on the host."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from rigs import host_run
from tack.codegen.launch_plan import KernelPlan, LaunchPlan
from tack.lang.records import replace
from tack.lang.types import DType
from tack.runtime.queued_launch import LaunchQueue
from tack.runtime.queued_reductions import QueuedReductions


class HostArray:
    """What a reduction needs of a `tack.Array`, over NumPy memory."""

    def __init__(self, values: np.ndarray[Any, Any], dtype: DType) -> None:
        self.values, self.dtype, self.size, self._data = values, dtype, values.size, values.ctypes.data


class HostMemory:
    """Some bytes, with their address."""

    def __init__(self, nbytes: int) -> None:
        self.bytes = np.full(max(1, nbytes), 0xAA, np.uint8)
        self.address = self.bytes.ctypes.data


class HostQueue(LaunchQueue):
    """Runs each launch at once."""

    label, most_groups = "the host", 1 << 31
    lock = threading.RLock()
    backwards = False  # the last workgroup runs first

    def resolve(self, address: int) -> bytes:
        return address.to_bytes(8, "little")

    def launch(self, function: Any, values: Sequence[Any], groups: int, group: int) -> None:
        library, plan, packed = function
        held = [np.frombuffer(value, np.uint8) for value in values]
        if packed:  # all of them are 8 bytes wide
            held = [np.concatenate(held)]
        pointers = (ctypes.c_void_p * len(held))(*(v.ctypes.data for v in held))
        reports = ctypes.c_uint.in_dll(library, "rig_reports")
        reports.value = 0
        ctypes.c_uint.in_dll(library, "rig_backwards").value = self.backwards
        getattr(library, f"rig_{plan.name}")(pointers, groups, group, 1)
        if reports.value:
            what = ctypes.c_char_p.in_dll(library, "rig_first_report").value or b""
            raise host_run.UndefinedBehaviour(what.decode())

    def cell(self, nbytes: int) -> HostMemory:
        return HostMemory(nbytes)

    def read(self, cell: HostMemory, nbytes: int) -> bytes:
        return cell.bytes[:nbytes].tobytes()


def reductions_on_host(
    dialect: str, queue: HostQueue | None = None, passes: bool = False, fault: tuple[str, str] = ("", "")
) -> QueuedReductions:
    """The reductions of a dialect; its device runs four workgroups of an exact sum at once.

    With `passes` it has no tickets. `fault` is a text, and what stands in its place.
    """
    generator: Any = host_run.DIALECTS[dialect]
    if passes:
        generator = type("Passes", (generator,), {"dialect": replace(generator.dialect, ticket="")})

    def build(text: str, plan: KernelPlan) -> Any:
        assert fault[0] in text
        library = host_run.build(dialect, text.replace(*fault), LaunchPlan((plan,), None, generator.packed))
        return library, plan, generator.packed

    def read(address: int, target: np.ndarray[Any, Any]) -> None:
        ctypes.memmove(target.ctypes.data, address, target.nbytes)

    return QueuedReductions(queue or HostQueue(), generator, None, build, HostMemory, read, resident=4)
