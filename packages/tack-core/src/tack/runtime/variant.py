"""What the row of a signature launches."""

from __future__ import annotations

import struct
from typing import Any

from tack.lang.records import record
from tack.lang.types import BY_NAME, DType
from tack.runtime.backend import Artifact, Backend, Executable


@record(frozen=True)
class Variant:
    """A compiled specialization: what the row of a signature launches."""

    executable: Executable
    result: DType | None
    release_bytes: int

    def decode(self, word: int) -> int | float | None:
        """The Python number in the result word of the argument block."""
        if self.result is None:
            return None
        if self.result.is_float:
            return float(struct.unpack("<d", struct.pack("<q", word))[0])
        return word & (1 << 64) - 1 if self.result.kind == "u" else word

    @staticmethod
    def described(backend: Backend, notes: dict[str, Any], payload: bytes) -> Variant:
        """A variant that `describe` noted; raises ValueError, TypeError, KeyError, LookupError or OSError if none."""
        result = None if notes["result"] is None else BY_NAME[notes["result"]]
        executable = backend.load(Artifact(notes["artifact"], payload))
        return Variant(executable, result, int(notes["release_bytes"]))


def describe(artifact: Artifact, result: DType | None, release_bytes: int) -> dict[str, Any]:
    """The notes of a variant for the disk cache, in literals."""
    name = None if result is None else result.name
    return {"result": name, "release_bytes": release_bytes, "artifact": artifact.notes}
