"""What the disk cache holds for Tack: digests of what code is made from, and entries of notes and bytes.

Notes are a Python dict of literals, read with `ast.literal_eval`, which makes values and runs nothing; to import `json`
would take longer than all else of a call from the disk.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from tack.runtime.digests import hexdigest
from tack.runtime.disk_cache import cache
from tack.runtime.host_identity import sources_have_changed, tack_digest

_LENGTH = struct.Struct("<I")
_T = TypeVar("_T")


def digest_of(kind: str, *parts: Any) -> str | None:
    """The name of an entry made from `parts`, nested tuples of strings and numbers; None if nothing can be kept.

    This Tack's own version is in it (rule CACHE-2).
    """
    version = None if cache() is None else tack_digest()
    if version is None or not all(map(_is_plain, parts)):
        return None
    return hexdigest(repr((version, kind, parts)))


def _is_plain(part: Any) -> bool:
    """Whether `repr` tells two values apart exactly if they differ."""
    if type(part) is tuple:
        return all(map(_is_plain, part))
    return part is None or type(part) in (str, int, bool)


def fetch(digest: str | None, decode: Callable[[dict[str, Any], bytes], _T]) -> _T | None:
    """The entry of a digest, decoded; None if there is none. One that does not decode is deleted."""
    store = cache()
    data = None if store is None or digest is None else store.get(digest)
    if store is None or digest is None or data is None:
        return None
    try:
        (size,) = _LENGTH.unpack_from(data)
        notes = ast.literal_eval(data[_LENGTH.size : _LENGTH.size + size].decode())
        if not isinstance(notes, dict):
            raise ValueError("notes are a dict")
        return decode(notes, data[_LENGTH.size + size :])
    except (ValueError, TypeError, KeyError, LookupError, OSError, SyntaxError, struct.error):
        store.discard(digest)
        return None


def keep(digest: str | None, notes: dict[str, Any], payload: bytes = b"") -> None:
    """Keep notes and bytes under a digest, if there is a cache, and Tack is still the one that the digest names."""
    store = cache()
    if store is not None and digest is not None and not sources_have_changed():
        text = repr(notes).encode()
        store.put(digest, _LENGTH.pack(len(text)) + text + payload)


def is_kept(digest: str | None) -> bool:
    """Whether an entry of this digest seems to be there; it is not read."""
    store = cache()
    return store is not None and digest is not None and store.has(digest)
