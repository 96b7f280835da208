"""The cases of vectors/streams.json: whole byte streams of both directions.

What goes in is stated here; the bytes are written down as the engine makes them. Everything that is
left to chance in a real connection (nonces, the randomness of proofs) is fixed.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

import forge
from retelling import record_of
from wires import NOW, OPEN, End, ends, store_of

from lace import b64a
from lace.crypto import SigningKey
from lace.policy.module import PolicyModule, module_from_text
from lace.record import Record, build_plex, seal
from lace.recordstore.base import StoreRecordId
from lace.selectors import selector
from lace.stream import binding
from lace.stream.proof import Meeting, unsigned_proof
from lace.tai import Tai

Json = dict[str, Any]
ADDRESS: Final = "tcp:here:1"
NOTES: Final = selector("//g//notes//")
SECRETS: Final = (bytes(range(32)), b"b" * 32)
_NONCES: Final = tuple(b64a.encode(bytes([number]) * 32) for number in (1, 2))


def note(number: int, key: SigningKey | None = None) -> Record:
    tai = f"{1_700_000_000 + number}:000000000"
    plex = build_plex(group="g", app="notes", name=f"n/{number}", tai=tai, data=b"note %d" % number)
    return plex if key is None else seal(plex, key, aux=forge.AUX)


def cases() -> Json:
    """Return the content of the file."""
    records: dict[str, str] = {}

    def side(some: list[Record], module: PolicyModule = NOTES, **options: Any) -> Json:
        records.update({record.hash: b64a.encode(record.raw) for record in some})
        return {"module": module.text, "records": [record.hash for record in some], **options}

    keys = [SigningKey(secret) for secret in SECRETS]
    secrets = [b64a.encode(secret) for secret in SECRETS]
    many = [note(number) for number in range(12)]
    made = [
        ("nothing on either side", side([]), side([])),
        ("one record each way, nobody proves a key", side([note(1)]), side([note(2)])),
        (
            "both sides prove a key, so that sources are verifiers",
            side([note(1, keys[0])], secret=secrets[0]),
            side([note(2, keys[1])], secret=secrets[1]),
        ),
        ("the connecting side alone proves a key", side([]), side([note(1)], secret=secrets[1])),
        ("a set that is told by a table", side(many), side(many[:11])),
        ("packed lines, since both sides offer them", side(many, packs=True), side([], packs=True)),
        ("one side offers packed lines, so nothing is packed", side(many, packs=True), side([])),
    ]
    listed = [{"why": why, "sides": [one, other]} for why, one, other in made]
    return {
        "about": "Whole byte streams of two sides over one connection; see docs/reference/vectors.md.",
        "records": records,
        "streams": [case | run(case, records) for case in listed],
    }


def run(case: Json, pool: dict[str, str]) -> Json:
    """Run both sides; return what they said in turns, and what each has in the end."""
    both = _ends(case, pool)
    turns: list[Json] = []
    read = [0, 0]
    with fixed_proofs():
        for end in both:
            assert end.connection is not None  # which has its greeting to send
        while any(len(end.sent) > read[index] for index, end in enumerate(both)):
            for index, end in enumerate(both):
                said = bytes(end.sent[read[index] :])
                read[index] += len(said)
                if said:
                    turns.append({"side": index, "bytes": b64a.encode(said)})
                    if not both[1 - index].closed:
                        both[1 - index].take(said)
    stores = [[s.hash for s in end.store.read(StoreRecordId(0), 1000)] for end in both]
    return {
        "address": ADDRESS,
        "clock": NOW,
        "nonces": list(_NONCES),
        "turns": turns,
        "stores": stores,
    }


def hear(case: Json, index: int, pool: dict[str, str]) -> bytes:
    """Let one side hear what the other one said in a case; return what it says itself."""
    end = _ends(case, pool)[index]
    with fixed_proofs():
        assert end.connection is not None
        for turn in case["turns"]:
            if turn["side"] != index and not end.closed:
                end.take(b64a.decode(turn["bytes"]))
    return bytes(end.sent)


def _ends(case: Json, pool: dict[str, str]) -> tuple[End, End]:
    endpoints = []
    for nonce, given in zip(_NONCES, case["sides"], strict=True):
        secret = given.get("secret")
        key = None if secret is None else SigningKey(b64a.decode(secret))
        endpoints.append({"nonce": nonce, "key": key, "packs": given.get("packs", False)})
    stores = [store_of([record_of(pool[h]) for h in given["records"]]) for given in case["sides"]]
    both = ends(stores[0], stores[1], accepting=endpoints[0], connecting=endpoints[1])
    for end, given in zip(both, case["sides"], strict=True):
        end.module, end.exposure = module_from_text(given["module"]), OPEN
    return both


def fixed_proofs() -> AbstractContextManager[object]:
    """Make proofs with the randomness of vectors."""

    def make(key: SigningKey, meeting: Meeting, now: Tai) -> bytes:
        return seal(unsigned_proof(meeting, now), key, aux=forge.AUX).raw

    return patch.object(binding, "make_proof", make)
