"""The provider of the browser bundle: the same functions, on top of JavaScript's noble libraries.

Takes the place of ``lace.crypto.native`` in the bundle. It passes the same vectors; its signing is
not in constant time, so it is for keys whose owner trusts the page it runs in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blake3 import blake3
from lace_noble import secp256k1

from lace.crypto.provider import CHALLENGE, Claim, N, P

_EVEN_Y = b"\x02"


def digest(data: bytes, /) -> bytes:
    """Return BLAKE3-256 of ``data``."""
    return blake3(data).digest()


def digests(texts: Iterable[bytes], /) -> list[bytes]:
    """Return BLAKE3-256 of each text."""
    return [digest(text) for text in texts]


def derive(context: str, data: bytes, length: int = 32, /) -> bytes:
    """Return the first ``length`` bytes of BLAKE3 derive-key output."""
    hasher = blake3(derive_key_context=context)
    hasher.update(data)
    return hasher.digest(length=length)


def verify(verifier_x: bytes, message: bytes, signature: bytes, /) -> bool:
    """Whether ``signature`` holds; false, never an exception, for malformed input."""
    if len(verifier_x) != 32 or len(message) != 32 or len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "big")
    if s >= N or int.from_bytes(r, "big") >= P:
        return False
    e = int.from_bytes(derive(CHALLENGE, r + verifier_x + message), "big") % N
    # s·G − e·P must be the point with even y and x = r.
    return bool(secp256k1.holds(verifier_x.hex(), f"{s:x}", f"{(N - e) % N:x}", r.hex()))


def verify_all(claims: Sequence[Claim], /) -> list[bool]:
    """Say of each signature whether it holds."""
    return [verify(*claim) for claim in claims]


def public_point(scalar: bytes) -> bytes:
    """Return scalar·G in compressed form; the scalar must be in 1..n−1."""
    value = int.from_bytes(scalar, "big")
    if not 0 < value < N:
        raise ValueError("scalar out of range")
    return bytes.fromhex(secp256k1.point(f"{value:x}"))


def negate(scalar: bytes) -> bytes:
    """Return n − scalar."""
    value = int.from_bytes(scalar, "big")
    if not 0 < value < N:
        raise ValueError("scalar out of range")
    return (N - value).to_bytes(32, "big")


def multiply_add(scalar: bytes, factor: bytes, summand: bytes) -> bytes:
    """Return scalar·factor + summand mod n; no result may be zero."""
    product = int.from_bytes(scalar, "big") * int.from_bytes(factor, "big")
    if product % N == 0:
        raise ValueError("factor out of range")
    value = (product + int.from_bytes(summand, "big")) % N
    if value == 0:
        raise ValueError("sum out of range")
    return value.to_bytes(32, "big")
