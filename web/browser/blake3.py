"""BLAKE3 with the surface that Lace uses, on top of JavaScript's noble library."""

from __future__ import annotations

from lace_noble import blake3 as _noble


class blake3:  # noqa: N801  (the name of the package that it stands in for)
    """Collects bytes and hashes them at once: records are small."""

    def __init__(self, data: bytes = b"", *, derive_key_context: str | None = None) -> None:
        self._context = derive_key_context
        self._data = bytes(data)

    def update(self, data: bytes, /) -> blake3:
        self._data += bytes(data)
        return self

    def reset(self) -> blake3:
        self._data = b""
        return self

    def copy(self) -> blake3:
        return blake3(self._data, derive_key_context=self._context)

    def digest(self, length: int = 32) -> bytes:
        return _noble.hash(self._data, length, self._context or "").to_bytes()

    def hexdigest(self) -> str:
        return self.digest().hex()
