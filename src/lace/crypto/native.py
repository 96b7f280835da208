"""The provider that everything uses: BLAKE3 and libsecp256k1, both native.

libsecp256k1 verifies BIP340 signatures only with BIP340's own challenge hash; ours is a BLAKE3
derive-key, so R' = s·G − e·P has to be computed from the pieces that the library exports. Multiply
then add costs two point multiplications. Public-key recovery costs one: recovering from (r, s, z)
gives r⁻¹·(s·R − z·G), where R is the point with x-coordinate r. With r = P.x and even y, R is P,
and s := −e·P.x, z := −s·P.x give exactly s·G − e·P.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import local
from typing import Any, Final

from blake3 import blake3
from coincurve._libsecp256k1 import ffi, lib
from coincurve.context import GLOBAL_CONTEXT

from lace.crypto.provider import ADHOC_KEY, AUX, CHALLENGE, NONCE, Claim, N, P

_CONTEXT: Final = GLOBAL_CONTEXT.ctx
_COMPRESSED: Final = lib.SECP256K1_EC_COMPRESSED
_EVEN_Y: Final = b"\x02"
_POINT_BYTES: Final = 33
_AT_ONCE: Final = 64
_recover: Final = lib.secp256k1_ecdsa_recover
"""Fails when no point has the x-coordinate, and when the result is infinity."""

# Setting up a derive-key context hashes the context text; a copy of the set-up state does not.
_DERIVERS: Final = {
    context: blake3(derive_key_context=context) for context in (ADHOC_KEY, AUX, NONCE, CHALLENGE)
}


class _Scratch(local):
    """Buffers for the native calls, one set a thread: they are written with the GIL released."""

    def __init__(self) -> None:
        signatures: Any = ffi.new(f"secp256k1_ecdsa_recoverable_signature[{_AT_ONCE}]")
        points: Any = ffi.new(f"secp256k1_pubkey[{_AT_ONCE}]")
        self.signatures = [signatures + at for at in range(_AT_ONCE)]
        self.points = [points + at for at in range(_AT_ONCE)]
        self.output: Any = ffi.new(f"unsigned char[{_POINT_BYTES}]")
        self.output_bytes: Any = ffi.buffer(self.output, _POINT_BYTES)
        self.output_length: Any = ffi.new("size_t *", _POINT_BYTES)
        self.owners = signatures, points  # memory lives as long as they do


_scratch: Final = _Scratch()


def digest(data: bytes, /) -> bytes:
    """Return BLAKE3-256 of ``data``."""
    return blake3(data).digest()


def digests(texts: Iterable[bytes], /) -> list[bytes]:
    """Return BLAKE3-256 of each text; one hasher for all costs a third less than one for each."""
    hasher = blake3()
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


def verify(verifier_x: bytes, message: bytes, signature: bytes, /) -> bool:
    """Whether ``signature`` holds; false, never an exception, for malformed input (009-SIG-06)."""
    scratch = _scratch
    place, point = scratch.signatures[0], scratch.points[0]
    z = _prepare(verifier_x, message, signature, place)
    if isinstance(z, bool):
        return z
    return bool(_recover(_CONTEXT, point, place, z)) and _is_at(point, signature[:32], scratch)


def verify_all(claims: Sequence[Claim], /) -> list[bool]:
    """Say of each signature whether it holds.

    The long calls follow upon each other. Each lets go of the interpreter, and wants it back for a
    moment only: so threads that verify at the same time seldom wait for each other.
    """
    starts = range(0, len(claims), _AT_ONCE)
    return [holds for at in starts for holds in _verify_some(claims[at : at + _AT_ONCE])]


def _verify_some(claims: Sequence[Claim]) -> list[bool]:
    scratch = _scratch
    places, points = scratch.signatures, scratch.points
    zs = [_prepare(*claim, place) for claim, place in zip(claims, places, strict=False)]
    recovered = [
        not isinstance(z, bool) and bool(_recover(_CONTEXT, point, place, z))
        for z, point, place in zip(zs, points, places, strict=False)
    ]
    return [
        z if isinstance(z, bool) else ok and _is_at(point, claim[2][:32], scratch)
        for z, ok, point, claim in zip(zs, recovered, points, claims, strict=False)
    ]


def _prepare(verifier_x: bytes, message: bytes, signature: bytes, place: Any) -> bytes | bool:
    """Put a signature where it is recovered from; return the message, or what is known already."""
    if len(verifier_x) != 32 or len(message) != 32 or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "big")
    x = int.from_bytes(verifier_x, "big")
    e = int.from_bytes(derive(CHALLENGE, signature[:32] + verifier_x + message), "big") % N
    if s >= N or x >= P or e == 0 or x >= N or x == 0:
        # The last three are out of recovery's reach, and out of chance's: about 1 in 2^127.
        return s < N and x < P and _verify_slowly(verifier_x, e, signature)
    minus_x = N - x
    compact = verifier_x + (e * minus_x % N).to_bytes(32, "big")
    if not lib.secp256k1_ecdsa_recoverable_signature_parse_compact(_CONTEXT, place, compact, 0):
        return False
    return (s * minus_x % N).to_bytes(32, "big")


def _is_at(point: Any, r: bytes, scratch: _Scratch) -> bool:
    """Whether a point has this x-coordinate, and even y."""
    lib.secp256k1_ec_pubkey_serialize(
        _CONTEXT, scratch.output, scratch.output_length, point, _COMPRESSED
    )
    # Equality with a field element's bytes also refuses r >= p.
    return bool(scratch.output_bytes[:] == _EVEN_Y + r)


def _verify_slowly(verifier_x: bytes, e: int, signature: bytes) -> bool:
    """The same decision by multiply and add, for the inputs that recovery cannot take."""
    point = ffi.new("secp256k1_pubkey *")
    if not lib.secp256k1_ec_pubkey_parse(_CONTEXT, point, _EVEN_Y + verifier_x, _POINT_BYTES):
        return False
    s = signature[32:]
    if e == 0:
        if not lib.secp256k1_ec_pubkey_create(_CONTEXT, point, s):
            return False  # s·G is infinity
    else:
        minus_e = (N - e).to_bytes(32, "big")
        if not lib.secp256k1_ec_pubkey_tweak_mul(_CONTEXT, point, minus_e):
            return False
        if not lib.secp256k1_ec_pubkey_tweak_add(_CONTEXT, point, s):
            return False  # the sum is infinity
    return serialize(point) == _EVEN_Y + signature[:32]


def serialize(point: Any) -> bytes:
    """Return a point of the library in compressed form."""
    output = ffi.new(f"unsigned char[{_POINT_BYTES}]")
    length = ffi.new("size_t *", _POINT_BYTES)
    lib.secp256k1_ec_pubkey_serialize(_CONTEXT, output, length, point, _COMPRESSED)
    return bytes(ffi.buffer(output, _POINT_BYTES))


def public_point(scalar: bytes) -> bytes:
    """Return scalar·G in compressed form; the scalar must be in 1..n−1. Constant time."""
    point = ffi.new("secp256k1_pubkey *")
    if not lib.secp256k1_ec_pubkey_create(_CONTEXT, point, scalar):
        raise ValueError("scalar out of range")
    return serialize(point)


def negate(scalar: bytes) -> bytes:
    """Return n − scalar in constant time."""
    value = ffi.new("unsigned char[32]", scalar)
    if not lib.secp256k1_ec_seckey_negate(_CONTEXT, value):
        raise ValueError("scalar out of range")
    return bytes(ffi.buffer(value, 32))


def multiply_add(scalar: bytes, factor: bytes, summand: bytes) -> bytes:
    """Return scalar·factor + summand mod n in constant time; no result may be zero."""
    value = ffi.new("unsigned char[32]", scalar)
    if not lib.secp256k1_ec_seckey_tweak_mul(_CONTEXT, value, factor):
        raise ValueError("factor out of range")
    if not lib.secp256k1_ec_seckey_tweak_add(_CONTEXT, value, summand):
        raise ValueError("sum out of range")
    return bytes(ffi.buffer(value, 32))
