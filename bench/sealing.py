"""Sealing against libsecp256k1's own BIP340 signing. Both check each signature they make."""

from __future__ import annotations

import os
import random

from bip340 import SecretKey
from lace import SigningKey, seal
from lace.ids import digest_of
from measure import Effort, Result, race
from records import make_plexes


def run(effort: Effort) -> list[Result]:
    chance = random.Random(effort.records)
    secret = chance.randbytes(32)
    key, floor_key = SigningKey(secret), SecretKey(secret)
    plexes = make_plexes(effort.records)
    digests = [digest_of(plex.hash) for plex in plexes]

    def seal_all() -> None:
        for plex in plexes:
            seal(plex, key)

    def sign_all() -> None:
        for digest in digests:
            floor_key.sign(digest, os.urandom(32))

    seconds, floor_seconds = race(seal_all, sign_all, rounds=effort.rounds)
    return [
        Result(
            name="sealing",
            unit="records/s",
            count=len(plexes),
            seconds=seconds,
            floor="BIP340 sign and check",
            floor_seconds=floor_seconds,
            notes=("a Seal also takes one BLAKE3 hash of the whole record",),
        )
    ]
