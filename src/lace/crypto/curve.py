"""Signatures and keys by libsecp256k1: what takes points of the curve, in compiled code.

libsecp256k1 verifies BIP340 signatures only with BIP340's own challenge hash; ours is a BLAKE3
derive-key, so R' = s·G − e·P has to be computed from the pieces that the library exports. Multiply
then add costs two point multiplications. Public-key recovery costs one: recovering from (r, s, z)
gives r⁻¹·(s·R − z·G), where R is the point with x-coordinate r. With r = P.x and even y, R is P,
and s := −e·P.x, z := −s·P.x give exactly s·G − e·P.

Many signatures by one key hold if the sum of their equations does, each times a weight that cannot
be foreseen. What is left for each is to find R and multiply it by a weight; half the length of a
scalar is enough for that. Signatures that do not hold together are checked one by one, so that the
answers are those of one by one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from threading import local
from typing import Any, Final

from lace.crypto.hashing import derive
from lace.crypto.libsecp256k1 import COMPRESSED, LIBRARY
from lace.crypto.provider import CHALLENGE, Claim, N

assert LIBRARY is not None, "lace.crypto.native does without this module where there is no library"
lib: Final = LIBRARY.lib
memory: Final = LIBRARY.memory
_CONTEXT: Final = LIBRARY.context
_EVEN_Y: Final = b"\x02"
_POINT_BYTES: Final = 33
_NO_POINT: Final = bytes(_POINT_BYTES)
_SCALAR_BYTES: Final = 32
_AT_ONCE: Final = 64
_TOGETHER: Final = 3  # signatures by one key that cost less together than one by one
_HALF_BYTES: Final = 8
_HALVING: Final = 0x5363AD4CC05C30E0A5261C028812645A122E22EA20816678DF02967C1B23BD72
"""The scalar that multiplies a point by changing its x-coordinate. The library takes a scalar apart
into u + v · this, and is done in half the time if u and v have 64 bits."""
_recover: Final = lib.secp256k1_ecdsa_recover
"""Fails when no point has the x-coordinate, and when the result is infinity."""


class _Scratch:
    """Buffers for the native calls, which are written with the GIL released."""

    def __init__(self) -> None:
        self.signatures = [memory.signature() for _ in range(_AT_ONCE)]
        self.points = [memory.point() for _ in range(_AT_ONCE)]
        self.places: Any = memory.places(self.points)
        self.sum: Any = memory.point()
        self.right: Any = memory.point()
        self.output, self.output_bytes = memory.octets(_NO_POINT)
        self.output_length: Any = memory.size(_POINT_BYTES)


class _Scratches(local):
    """Buffers that are at hand, for each thread.

    A verification has a set alone, also against a signal handler of its own thread that verifies
    something in the middle.
    """

    def __init__(self) -> None:
        self.free: list[_Scratch] = []

    def take(self) -> _Scratch:
        try:
            return self.free.pop()
        except IndexError:
            return _Scratch()


_scratches: Final = _Scratches()


def verify(verifier_x: bytes, message: bytes, signature: bytes, /) -> bool:
    """Whether ``signature`` holds; false, never an exception, for malformed input (009-SIG-06)."""
    scratch = _scratches.take()
    try:
        place, point = scratch.signatures[0], scratch.points[0]
        z = _prepare(verifier_x, message, signature, place)
        if isinstance(z, bool):
            return z
        return bool(_recover(_CONTEXT, point, place, z)) and _is_at(point, signature[:32], scratch)
    finally:
        _scratches.free.append(scratch)


def verify_all(claims: Sequence[Claim], /) -> list[bool]:
    """Say of each signature whether it holds; those by one key are looked at together (L73).

    The long calls follow upon each other. Each lets go of the interpreter, and wants it back for a
    moment only: so threads that verify at the same time seldom wait for each other.
    """
    scratch = _scratches.take()
    try:
        return _verify_all(claims, scratch)
    finally:
        _scratches.free.append(scratch)


def _verify_all(claims: Sequence[Claim], scratch: _Scratch) -> list[bool]:
    by_key: dict[bytes, list[int]] = {}
    for number, (verifier_x, _, _) in enumerate(claims):
        by_key.setdefault(verifier_x, []).append(number)
    found = [False] * len(claims)
    alone: list[int] = []
    for verifier_x, numbers in by_key.items():
        for some in _parts(numbers):
            of_key = [claims[number] for number in some]
            if len(some) < _TOGETHER or not _hold_together(verifier_x, of_key, scratch):
                alone += some
                continue
            for number in some:
                found[number] = True
    for some in _parts(alone):
        one_by_one = _verify_some([claims[number] for number in some], scratch)
        for number, holds in zip(some, one_by_one, strict=True):
            found[number] = holds
    return found


def _parts(numbers: list[int]) -> Iterable[list[int]]:
    return (numbers[at : at + _AT_ONCE] for at in range(0, len(numbers), _AT_ONCE))


def _hold_together(verifier_x: bytes, claims: Sequence[Claim], scratch: _Scratch) -> bool:
    """Whether many signatures by one key hold; if not all of them do, the answer is no.

    That of wrong ones the weighted sum is right has a chance of 1 in 2^128, however they were made.
    """
    read = [claim for claim in (_read(*claim) for claim in claims) if claim is not None]
    if len(read) < len(claims):
        return False
    weights = [1, *_weights(len(claims) - 1)]
    e = sum(weight * e for weight, (e, _) in zip(weights, read, strict=True))
    s = sum(weight * s for weight, (_, s) in zip(weights, read, strict=True))
    z = _prepare_point(verifier_x, e % N, s % N, scratch.signatures[0])
    if z is None or not _recover(_CONTEXT, scratch.right, scratch.signatures[0], z):
        return False
    points = scratch.points[: len(claims)]
    parse, multiply = lib.secp256k1_ec_pubkey_parse, lib.secp256k1_ec_pubkey_tweak_mul
    for (_, _, signature), weight, point in zip(claims, weights, points, strict=True):
        if not parse(_CONTEXT, point, _EVEN_Y + signature[:32], _POINT_BYTES):
            return False
        if weight != 1 and not multiply(_CONTEXT, point, weight.to_bytes(32, "big")):
            return False
    if not lib.secp256k1_ec_pubkey_combine(_CONTEXT, scratch.sum, scratch.places, len(points)):
        return False
    return bool(lib.secp256k1_ec_pubkey_cmp(_CONTEXT, scratch.sum, scratch.right) == 0)


def _weights(count: int) -> list[int]:
    """Return scalars that cannot be foreseen: each is one of 2^128, all different."""
    chance = os.urandom(2 * _HALF_BYTES * count)
    halves = [
        int.from_bytes(chance[at : at + _HALF_BYTES], "big")
        for at in range(0, len(chance), _HALF_BYTES)
    ]
    return [(u + v * _HALVING) % N for u, v in zip(halves[::2], halves[1::2], strict=True)]


def _verify_some(claims: Sequence[Claim], scratch: _Scratch) -> list[bool]:
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


def _read(verifier_x: bytes, message: bytes, signature: bytes) -> tuple[int, int] | None:
    """Return the challenge and s of a signature; None if it is malformed."""
    if len(verifier_x) != 32 or len(message) != 32 or len(signature) != 64:
        return None
    s = int.from_bytes(signature[32:], "big")
    e = int.from_bytes(derive(CHALLENGE, signature[:32] + verifier_x + message), "big") % N
    return None if s >= N else (e, s)


def _prepare(verifier_x: bytes, message: bytes, signature: bytes, place: Any) -> bytes | bool:
    """Put a signature where it is recovered from; return the message, or what is known already."""
    read = _read(verifier_x, message, signature)
    if read is None:
        return False
    z = _prepare_point(verifier_x, *read, place)
    return _verify_slowly(verifier_x, read[0], signature) if z is None else z


def _prepare_point(verifier_x: bytes, e: int, s: int, place: Any) -> bytes | None:
    """Put a signature where s·G − e·P is recovered from; return the message for that.

    None stands for what is out of recovery's reach, and out of chance's: about 1 in 2^127.
    """
    x = int.from_bytes(verifier_x, "big")
    if e == 0 or x >= N or x == 0:
        return None
    minus_x = N - x
    compact = verifier_x + (e * minus_x % N).to_bytes(32, "big")
    if not lib.secp256k1_ecdsa_recoverable_signature_parse_compact(_CONTEXT, place, compact, 0):
        return None
    return (s * minus_x % N).to_bytes(32, "big")


def _is_at(point: Any, r: bytes, scratch: _Scratch) -> bool:
    """Whether a point has this x-coordinate, and even y."""
    lib.secp256k1_ec_pubkey_serialize(
        _CONTEXT, scratch.output, scratch.output_length, point, COMPRESSED
    )
    # Equality with a field element's bytes also refuses r >= p.
    return bool(scratch.output_bytes[:] == _EVEN_Y + r)


def _verify_slowly(verifier_x: bytes, e: int, signature: bytes) -> bool:
    """The same decision by multiply and add, for the inputs that recovery cannot take."""
    point = memory.point()
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
    output, view = memory.octets(_NO_POINT)
    length = memory.size(_POINT_BYTES)
    lib.secp256k1_ec_pubkey_serialize(_CONTEXT, output, length, point, COMPRESSED)
    return bytes(view[:])


def public_point(scalar: bytes) -> bytes:
    """Return scalar·G in compressed form; the scalar must be in 1..n−1. Constant time."""
    _check_scalars(scalar)
    point = memory.point()
    if not lib.secp256k1_ec_pubkey_create(_CONTEXT, point, scalar):
        raise ValueError("scalar out of range")
    return serialize(point)


def negate(scalar: bytes) -> bytes:
    """Return n − scalar in constant time."""
    _check_scalars(scalar)
    value, view = memory.octets(scalar)
    if not lib.secp256k1_ec_seckey_negate(_CONTEXT, value):
        raise ValueError("scalar out of range")
    return bytes(view[:])


def multiply_add(scalar: bytes, factor: bytes, summand: bytes) -> bytes:
    """Return scalar·factor + summand mod n in constant time; no result may be zero."""
    _check_scalars(scalar, factor, summand)
    value, view = memory.octets(scalar)
    if not lib.secp256k1_ec_seckey_tweak_mul(_CONTEXT, value, factor):
        raise ValueError("factor out of range")
    if not lib.secp256k1_ec_seckey_tweak_add(_CONTEXT, value, summand):
        raise ValueError("sum out of range")
    return bytes(view[:])


def _check_scalars(*scalars: bytes) -> None:
    """Raise ``ValueError`` if one has not 32 bytes: the library reads as many in any case."""
    if any(len(scalar) != _SCALAR_BYTES for scalar in scalars):
        raise ValueError(f"a scalar has {_SCALAR_BYTES} bytes")
