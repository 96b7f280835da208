"""Sealed records against the hashing and the one verification that nothing can avoid."""

from __future__ import annotations

import random
from typing import Final

from blake3 import blake3

from bip340 import SecretKey, VerifyingKey
from lace.ids import digest_of
from lace.interlace.parameters import DEFAULT_PARAMETERS
from lace.record.model import Seal
from lace.record.validate import validate_record, validate_records
from measure import Effort, Result, Target, race
from records import SIGNERS, make_seals, payload, raw_of, size_note

_TOGETHER: Final = DEFAULT_PARAMETERS.validate_at_once
Work = tuple[bytes, bytes, bytes, VerifyingKey, bytes, bytes]
"""Seal, Plex and Blob payload; key, signature and digest of a BIP340 verification."""


def run(effort: Effort) -> list[Result]:
    seals = make_seals(effort.records)
    raws = raw_of(seals)
    work = floor_work(seals)

    def validate() -> None:
        for raw in raws:
            validate_record(raw)

    def hash_and_verify() -> None:
        for seal, plex, blob, key, signature, digest in work:
            blake3(seal).digest()
            blake3(plex).digest()
            blake3(blob).digest()
            key.verify(signature, digest)

    def validate_together() -> None:
        for at in range(0, len(raws), _TOGETHER):
            validate_records(raws[at : at + _TOGETHER])

    jobs = (validate, validate_together, hash_and_verify)
    seconds, together, floor_seconds = race(*jobs, rounds=effort.rounds)
    return [
        Result(
            name="seal validation",
            unit="records/s",
            count=len(raws),
            seconds=seconds,
            floor="3 BLAKE3 + BIP340 verify",
            floor_seconds=floor_seconds,
            target=Target(sign=">=", ratio=0.6),
            notes=(f"{size_note(raws)}, {SIGNERS} signers",),
        ),
        Result(
            name="seal validation, many at a time",
            unit="records/s",
            count=len(raws),
            seconds=together,
            floor="3 BLAKE3 + BIP340 verify",
            floor_seconds=floor_seconds,
            target=Target(sign=">=", ratio=0.9),
            notes=(
                f"the same, {_TOGETHER} at a time: signatures by one key are verified together",
                "with as many signers as records it is what one record at a time is",
            ),
        ),
    ]


def floor_work(seals: list[Seal]) -> list[Work]:
    """Return all that the floor needs, sliced and parsed before the clock starts.

    Lace's own signatures have another challenge hash, so BIP340 gets signatures of its own, over
    the same digests and by as many signers.
    """
    chance = random.Random(SIGNERS)
    signers = [SecretKey(chance.randbytes(32)) for _ in range(SIGNERS)]
    work: list[Work] = []
    for number, seal in enumerate(seals):
        signer = signers[number % SIGNERS]
        key = signer.public
        digest = digest_of(seal.plex_hash)
        signature = signer.sign(digest, chance.randbytes(32))
        if not key.verify(signature, digest):
            raise RuntimeError("the floor verifies a signature that does not hold")
        payloads = (payload(seal), payload(seal.plex), payload(seal.blob))
        work.append((*payloads, key, signature, digest))
    return work
