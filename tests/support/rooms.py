"""Records of a notes room: an authority, grants, revocations, messages, and what else lies about."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from lace.crypto.keys import SigningKey
from lace.record.build import build_blob, build_plex, seal
from lace.record.model import Plex, Record
from lace.tai import from_ns

#: Small work, many queries: compiling each takes longer than running it.
TEST_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}

GROUP, APP = "notes-demo", "notes"
PREFIX = f"//{GROUP}//{APP}//"
_AUX = b"\x01" * 32
_START = 1_700_000_000_000_000_000


def key(number: int) -> SigningKey:
    return SigningKey(number.to_bytes(32, "big"))


AUTHORITY = key(1)


def room_records(count: int, *, seed: int = 0, members: int = 4, chain: int = 0) -> list[Record]:
    """Return ``count`` messages, some by members, with grants, and records of other kinds.

    With ``chain``, members are admitted by members: the first by the authority, each by the one
    before.
    """
    chance = random.Random(seed)
    signers = [key(2 + number) for number in range(members + 2)]  # two of them are strangers
    records: list[Record] = []

    def place(
        app: str, name: str, extras: Iterable[tuple[str, str]] = (), data: bytes = b""
    ) -> Plex:
        return build_plex(
            group=GROUP, app=app, name=name, tai=from_ns(_START + len(records)),
            extras=sorted(extras, key=lambda e: e[0].encode()), data=data,
        )  # fmt: skip

    for number, signer in enumerate(signers[:members]):
        grants = place(f"{APP}/member", f"m{number}", [("Member", signer.verifier)])
        by = signers[number - 1] if chain and number else AUTHORITY
        records.append(seal(grants, by, aux=_AUX))
    gone = place(f"{APP}/revoked", "r", [("Member", signers[members - 1].verifier)])
    records.append(seal(gone, AUTHORITY, aux=_AUX))
    previous = records[0].hash
    for number in range(count):
        extras = [("Tag", f"t{chance.randrange(5)}") for _ in range(chance.randrange(3))]
        if chance.random() < 0.4:
            extras.append(("Reply+Link", f"{chance.choice(['evidence', 'to'])} {previous}"))
        app = chance.choice([f"{APP}/message", f"{APP}/message", APP, "other"])
        plex = place(app, f"t/{number}", extras, chance.randbytes(chance.randrange(80)))
        kind = chance.random()
        if kind < 0.8:
            record: Record = seal(plex, chance.choice(signers), aux=_AUX)
        elif kind < 0.9:
            record = plex
        else:
            record = build_blob(b"%d-%d" % (seed, number))
        previous = record.hash
        records.append(record)
    return records


def write_bundle(path: Path, records: Iterable[Record]) -> Path:
    path.write_bytes(b"".join(record.raw for record in records))
    return path
