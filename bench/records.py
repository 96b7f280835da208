"""The records that are measured: about 1000 bytes each, the same ones on every run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from lace.crypto.keys import SigningKey
from lace.record.build import build_plex, seal
from lace.record.grammar import MARKLINE_BYTES
from lace.record.model import Plex, Record, Seal
from lace.record.validate import validate_record
from lace.tai import from_ns

SIGNERS: Final = 8
_SEED: Final = 340
_START_NS: Final = 1_700_000_000_000_000_000
# A Seal has 213 bytes more of headers than a Plex; both records are about 1000 bytes in all.
_DATA_IN_SEAL: Final = 530
_DATA_IN_PLEX: Final = _DATA_IN_SEAL + 213


def make_plexes(count: int, data_bytes: int = _DATA_IN_PLEX) -> list[Plex]:
    """Return unsigned records, each with three extra headers, one of them a link."""
    chance = random.Random(_SEED)
    plexes: list[Plex] = []
    previous = "B.0000000000000000000000000000000000000000000.H3"
    for number in range(count):
        plex = build_plex(
            group="notes-demo",
            app="notes/message",
            name=f"thread-{number % 10}/{number:06d}",
            tai=from_ns(_START_NS + number),
            extras=[
                ("Kind", "note"),
                ("Reply+Link", f"to {previous}"),
                ("Tag", f"tag-{number % 7}"),
            ],
            data=chance.randbytes(data_bytes),
        )
        plexes.append(plex)
        previous = plex.hash
    return plexes


def make_seals(count: int) -> list[Seal]:
    """Return sealed records of several signers in turn."""
    chance = random.Random(_SEED)
    signers = [SigningKey(chance.randbytes(32)) for _ in range(SIGNERS)]
    plexes = make_plexes(count, _DATA_IN_SEAL)
    return [
        seal(plex, signers[number % SIGNERS], aux=chance.randbytes(32))
        for number, plex in enumerate(plexes)
    ]


def raw_of(records: Sequence[Record]) -> list[bytes]:
    """Return the bytes to validate; a record that is refused would make the measure worthless."""
    raws = [record.raw for record in records]
    if not all(validate_record(raw).ok for raw in raws):
        raise RuntimeError("a record that was made to be valid is not")
    return raws


def payload(record: Record) -> bytes:
    """Return the bytes that the record's hash is over."""
    return record.raw[MARKLINE_BYTES:]


def size_note(raws: Sequence[bytes]) -> str:
    return f"{len(raws)} records, {sum(map(len, raws)) / len(raws):.0f} bytes each on average"
