"""What a crypto provider must do, and the constants that all of them share (spec 009, G17)."""

from __future__ import annotations

from typing import Final, Protocol

#: Field prime, group order and generator of secp256k1.
P: Final = 2**256 - 2**32 - 977
N: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G: Final = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)

#: BLAKE3 derive-key contexts; their exact UTF-8 bytes are part of the format.
ADHOC_KEY: Final = "lace-🖧/adhoc-key"
AUX: Final = "lace-🖧/aux"
NONCE: Final = "lace-🖧/nonce"
CHALLENGE: Final = "lace-🖧/challenge"


Claim = tuple[bytes, bytes, bytes]
"""The x-coordinate of a verifier, the digest of a message, and what is said to sign it."""


class PlainPythonWarning(UserWarning):
    """Compiled cryptography is missing: plain Python does its work, slowly, and signs nothing."""


class CryptoProvider(Protocol):
    """The part of cryptography that validation needs; every provider gives the same answers."""

    def digest(self, data: bytes, /) -> bytes:
        """Return BLAKE3-256 of ``data``."""

    def derive(self, context: str, data: bytes, length: int = 32, /) -> bytes:
        """Return the first ``length`` bytes of BLAKE3 derive-key output."""

    def verify(self, verifier_x: bytes, message: bytes, signature: bytes, /) -> bool:
        """Whether a 64-byte signature over a 32-byte digest holds for a 32-byte x-coordinate."""
