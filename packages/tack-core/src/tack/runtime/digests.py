"""Digests of text, and codes that only the holder of a secret can make: BLAKE2b."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # where `hashlib` has it from: that loads OpenSSL too, which takes milliseconds
except ImportError:
    from hashlib import blake2b

CODE_BYTES = 32


def hexdigest(text: str | bytes) -> str:
    """A digest of a text, in 40 digits."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return str(blake2b(data, digest_size=20).hexdigest())


def code(secret: bytes, name: str, payload: bytes) -> bytes:
    """What proves that the holder of `secret` put `payload` under `name`."""
    state = blake2b(name.encode() + b"\0", digest_size=CODE_BYTES, key=secret)
    state.update(payload)
    return bytes(state.digest())
