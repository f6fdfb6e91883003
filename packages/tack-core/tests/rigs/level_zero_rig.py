"""The switches of the Level Zero rig (`c_device/level_zero.c`) for the tests of the backend itself."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tack
from rigs import device_rig

DEVICE_LOST, UNINITIALIZED, UNKNOWN = 0x70000001, 0x78000001, 0x7FFFFFFE
OBJECTS = ("module", "kernel", "log", "list", "context")


class Rig:
    """The rig that this process has loaded."""

    def __init__(self) -> None:
        self._library, self._core = device_rig.library("level_zero"), device_rig.core()
        self._library.rig_ze_build_flags.restype = ctypes.c_char_p
        self._library.rig_ze_live_bytes.restype = ctypes.c_size_t
        self._library.rig_ze_limit.argtypes = (ctypes.c_size_t,)
        self._library.rig_ze_live.argtypes = (ctypes.c_char_p,)
        self._library.rig_ze_fail.argtypes = (ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint)

    def fail(self, function: str, after: int = 0, code: int = DEVICE_LOST) -> None:
        """Let a function fail once, after so many calls that do not."""
        self._library.rig_ze_fail(function.encode(), after, code)

    def misuse(self) -> str:
        """What was done that the specification does not allow, and forget it."""
        return device_rig.misuse(tack.Device("level_zero"))

    def live(self) -> dict[str, int]:
        """What there is of each kind, when nobody waits for the collector."""
        gc.collect()
        tack.device("level_zero").backend.synchronize()
        counts = {name: int(self._library.rig_ze_live(name.encode())) for name in OBJECTS}
        return counts | {"bytes": int(self._library.rig_ze_live_bytes())}

    def build_flags(self) -> str:
        """Those of the last module."""
        return str(self._library.rig_ze_build_flags().decode())

    @contextmanager
    def limit(self, nbytes: int) -> Iterator[None]:
        """A device with this much memory in all."""
        self._library.rig_ze_limit(nbytes)
        yield
        self._library.rig_ze_limit(2 << 30)

    @contextmanager
    def refusing_modules(self) -> Iterator[None]:
        """A driver whose compiler refuses all SPIR-V."""
        self._library.rig_ze_refuse_modules(1)
        yield
        self._library.rig_ze_refuse_modules(0)

    @contextmanager
    def killing(self, groups: int) -> Iterator[None]:
        """A device that is lost after so many more groups of threads."""
        left = ctypes.c_longlong.in_dll(self._core, "rig_groups_left")
        left.value = groups
        yield
        left.value = -1

    @contextmanager
    def running_only_the_ends(self, groups: int) -> Iterator[None]:
        """Of each launch only so many groups at its start and end run."""
        ends = ctypes.c_uint.in_dll(self._core, "rig_ends")
        ends.value = groups
        yield
        ends.value = 0

    @contextmanager
    def second_device(self) -> Iterator[Any]:
        """The backend of the rig's other GPU: integrated, without f64 and 64-bit atomics, groups of 128 at most."""
        from tack.runtime.level_zero_backend import LevelZeroBackend
        from tack.runtime.level_zero_driver import find_devices

        self._library.rig_ze_devices(2)
        find_devices.cache_clear()
        try:
            yield LevelZeroBackend(1)
        finally:
            self._library.rig_ze_devices(1)
            find_devices.cache_clear()
