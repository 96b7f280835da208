"""BLAKE3: digests and derived keys, compiled where the package ``blake3`` is installed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from lace.crypto.provider import ADHOC_KEY, AUX, CHALLENGE, NONCE

_OF_NOTHING: Final = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

try:
    from blake3 import blake3

    _tried = blake3(derive_key_context=ADHOC_KEY).copy()
    _tried.reset()
    if blake3(b"").digest().hex() != _OF_NOTHING:
        raise ImportError("it gives wrong answers")  # noqa: TRY301 (falls to plain Python)
except Exception:  # noqa: BLE001 (there is none for this Python; or it fails in any way)
    if not TYPE_CHECKING:
        from lace.crypto.reference import Hasher as blake3  # noqa: N813 (as the package calls it)

__all__ = ["COMPILED", "blake3", "derive", "digest", "digests"]

COMPILED: Final = blake3.__module__ != "lace.crypto.reference"
"""Whether BLAKE3 is the package's, and not plain Python."""

# Setting up a derive-key context hashes the context text; a copy of the set-up state does not.
_DERIVERS: Final = {
    context: blake3(derive_key_context=context) for context in (ADHOC_KEY, AUX, NONCE, CHALLENGE)
}


def digest(data: bytes, /) -> bytes:
    """Return BLAKE3-256 of ``data``."""
    return blake3(data).digest()


def digests(texts: Iterable[bytes], /, *, key: bytes | None = None) -> list[bytes]:
    """Return BLAKE3-256 of each text, with a key of 32 bytes if one is given.

    One hasher for all costs a third less than one for each.
    """
    hasher = blake3() if key is None else blake3(key=key)
    reset, update, finish = hasher.reset, hasher.update, hasher.digest
    found: list[bytes] = []
    for text in texts:
        reset()
        update(text)
        found.append(finish())
    return found


def derive(context: str, data: bytes, length: int = 32, /) -> bytes:
    """Return the first ``length`` bytes of BLAKE3 derive-key output."""
    hasher = _DERIVERS[context].copy()
    hasher.update(data)
    return hasher.digest(length=length)
