"""Signing keys: made, derived, used, and never shown by accident (spec 009, G17)."""

from __future__ import annotations

import os
from typing import Final, NoReturn

from lace import b64a
from lace.crypto import native
from lace.crypto.provider import ADHOC_KEY, AUX, CHALLENGE, NONCE, N
from lace.errors import Code, EncodingError, UsageError
from lace.ids import SUFFIX, Verifier, verifier_from_x

_PREFIX: Final = "&."
_ENDING: Final = f".{SUFFIX}"
_SIZE: Final = 32
_ODD_Y: Final = 3
_DEMO: Final = b"lace-demo-key/v1\n"


class SigningKey:
    """A secret that can sign; its repr, its errors and its copies never contain the secret.

    The secret text ``&.<43 B64A>.H3`` holds derivation material, not the scalar. ``reveal`` is the
    only way to get it back, so that a reader of the code can find every place that does.
    """

    __slots__ = ("_material", "_scalar", "_x", "verifier")

    verifier: Verifier
    """What others check its signatures by."""

    def __init__(self, material: bytes) -> None:
        if len(material) != _SIZE:
            raise UsageError(
                f"a secret has {_SIZE} bytes, not {len(material)}", code=Code.KEY_SECRET_MALFORMED
            )
        self._material = material
        scalar = _derive_scalar(material)
        point = native.public_point(scalar)
        # One verifier text stands for one point: the one with even y.
        self._scalar = native.negate(scalar) if point[0] == _ODD_Y else scalar
        self._x = point[1:]
        self.verifier = verifier_from_x(self._x)

    @classmethod
    def generate(cls) -> SigningKey:
        """Return a new key from the system's randomness."""
        return cls(os.urandom(_SIZE))

    @classmethod
    def from_secret_text(cls, text: str) -> SigningKey:
        """Return the key of a secret text; the error for a bad one does not repeat it."""
        body = text.removeprefix(_PREFIX).removesuffix(_ENDING)
        try:
            material = b64a.decode(body)
        except EncodingError:
            material = b""
        # Comparing with the one canonical spelling covers prefix, suffix and length at once.
        if len(material) != _SIZE or text != _secret_text(material):
            raise EncodingError("not a signing secret", code=Code.KEY_SECRET_MALFORMED) from None
        return cls(material)

    def reveal(self) -> str:
        """Return the secret text. Keep it out of logs, flags and records."""
        return _secret_text(self._material)

    def sign(self, message: bytes, aux: bytes | None = None) -> bytes:
        """Return 64 bytes over a digest, checked before they leave; ``aux`` is for vectors."""
        if len(message) != _SIZE:
            raise UsageError(
                f"a digest has {_SIZE} bytes, not {len(message)}", code=Code.KEY_MESSAGE
            )
        if aux is None:
            aux = os.urandom(_SIZE)
        if len(aux) != _SIZE or not any(aux):
            raise UsageError("unusable auxiliary randomness", code=Code.KEY_AUX)
        mask = _xor(native.derive(AUX, aux), self._scalar)
        nonce = int.from_bytes(native.derive(NONCE, mask + self._x + message), "big") % N
        k = nonce.to_bytes(_SIZE, "big")
        point = native.public_point(k)
        if point[0] == _ODD_Y:
            k = native.negate(k)
        r = point[1:]
        e = int.from_bytes(native.derive(CHALLENGE, r + self._x + message), "big") % N
        s = native.multiply_add(self._scalar, e.to_bytes(_SIZE, "big"), k)
        signature = r + s
        # A fault in the arithmetic could give the secret away, so a wrong signature stays here.
        if not native.verify(self._x, message, signature):
            raise RuntimeError("the signature that was just made does not hold")
        return signature

    def __repr__(self) -> str:
        return f"<SigningKey {self.verifier}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigningKey) and self.verifier == other.verifier

    def __hash__(self) -> int:
        return hash(self.verifier)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SigningKey is not pickled or copied; pass reveal() on purpose")


def _secret_text(material: bytes) -> str:
    return f"{_PREFIX}{b64a.encode(material)}{_ENDING}"


def demo_key(words: str) -> SigningKey:
    """Return the demo key of some words: whoever knows the words has the key (L32)."""
    return SigningKey(native.digest(_DEMO + words.encode()))


def _derive_scalar(material: bytes) -> bytes:
    """Return the first 32-byte block of the derived stream that is a scalar in 1..n−1."""
    blocks = 1
    while True:
        block = native.derive(ADHOC_KEY, material, blocks * _SIZE)[-_SIZE:]
        if 0 < int.from_bytes(block, "big") < N:
            return block
        blocks += 1  # about once in 2^128 keys


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
