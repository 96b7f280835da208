"""The cases of vectors/streams.json: whole byte streams of both directions.

What goes in is stated here; the bytes are written down as the engine makes them. Everything that is
left to chance in a real connection (nonces, the randomness of proofs) is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

import forge
from retelling import record_of
from wires import NOW, OPEN, End, ends, store_of

from lace import b64a
from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import PolicyModule, module_from_text
from lace.record import Record, build_plex, seal
from lace.recordstore.base import RecordStore, StoreRecordId
from lace.selectors import any_of, selector
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
    most = [note(number) for number in range(66)]
    two = [note(number) for number in (20, 21)]
    records.update({record.hash: b64a.encode(record.raw) for record in two})
    wider = any_of(NOTES, selector("//g//other//"))
    proven = (side(many, secret=secrets[0]), side(many[:11], secret=secrets[1]))
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
        ("tables that differ both ways, found out by a sketch", side(most[1:]), side(most[:64])),
        ("both sides prove keys and remember what they advertised", *proven),
    ]
    listed: list[Json] = [{"why": why, "sides": [one, other]} for why, one, other in made]
    listed += [
        {
            "why": "the same two again: each begins from what both had, and tells what is new",
            "after": listed[-1]["why"],
            "sides": [
                side([*many, note(12)], secret=secrets[0]),
                side([*many, note(13)], secret=secrets[1]),
            ],
        },
        {
            "why": "open: each side gets one more record, then one closes",
            "sides": [side([note(1)], open=True), side([note(1)], open=True)],
            "orders": [
                {"side": 0, "do": "store", "records": [two[0].hash]},
                {"side": 1, "do": "store", "records": [two[1].hash]},
                {"side": 1, "do": "close"},
            ],
        },
        {
            "why": "open: one side changes its selector, which is a second set-up",
            "sides": [
                side([note(1)], secret=secrets[0], open=True),
                side([], secret=secrets[1], open=True),
            ],
            "orders": [
                {"side": 1, "do": "operand", "module": wider.text},
                {"side": 0, "do": "close"},
            ],
        },
        {
            "why": "more is sent than one side takes: it ends, and says why",
            "sides": [side([note(1), note(2)]), side([], limits={"max_total_transferred_bytes": 300})],
        },
    ]  # fmt: skip
    played: list[Json] = []
    for case in listed:
        orders = case.pop("orders", [])
        played.append(case | run(case, orders, records, played))
    return {
        "about": "Whole byte streams of two sides over one connection; see docs/reference/vectors.md.",
        "records": records,
        "streams": played,
    }


def run(case: Json, orders: list[Json], pool: dict[str, str], played: list[Json]) -> Json:
    """Run both sides; return what they said in turns, and what each has in the end."""
    both = _ends(case, pool, played)
    turns: list[Json] = []
    with fixed_proofs():
        for end in both:
            assert end.connection is not None  # which has its greeting to send
        turns += _carried(both)
        for order in orders:
            turns.append(order)
            obey(both[order["side"]], order, pool)
            turns += _carried(both)
    stores = [[s.hash for s in end.store.read(StoreRecordId(0), 1000)] for end in both]
    return {
        "address": ADDRESS,
        "clock": NOW,
        "nonces": list(_NONCES),
        "turns": turns,
        "stores": stores,
    }


def _carried(both: tuple[End, End]) -> Iterator[Json]:
    """Carry what both ends say, until both are quiet; yield who said what."""
    silent = 0
    index = 0
    while silent < 2:
        end, other = both[index], both[1 - index]
        said = bytes(end.sent)
        end.sent.clear()
        silent = 0 if said else silent + 1
        if said:
            yield {"side": index, "bytes": b64a.encode(said)}
            if not other.closed:
                other.take(said)
                _say_why(other)
        index = 1 - index


def _say_why(end: End) -> None:
    """Add the last word of an end that gives up, as whoever drives a connection does."""
    ended = end.connection.ended
    if ended is not None and ended.code is not None:
        end.sent += binding.farewell(ended.code)


def obey(end: End, order: Json, pool: dict[str, str]) -> None:
    """Let something happen to an end from outside."""
    match order["do"]:
        case "store":
            end.store.save([record_of(pool[name]) for name in order["records"]])
            end.give(m.Woken())
        case "operand":
            end.give(m.OperandChanged(module_from_text(order["module"])))
        case "close":
            end.give(m.CloseRequested())


def hear(case: Json, index: int, pool: dict[str, str], played: list[Json]) -> bytes:
    """Let one side hear what the other one said in a case; return what it says itself."""
    end = _ends(case, pool, played)[index]
    with fixed_proofs():
        assert end.connection is not None
        for turn in case["turns"]:
            if end.closed:
                break
            if "do" in turn:
                if turn["side"] == index:
                    obey(end, turn, pool)
            elif turn["side"] != index:
                end.take(b64a.decode(turn["bytes"]))
                _say_why(end)
    return bytes(end.sent)


def _ends(case: Json, pool: dict[str, str], played: list[Json]) -> tuple[End, End]:
    stores: list[RecordStore]
    if "after" in case:
        earlier = next(other for other in played if other["why"] == case["after"])
        before = _ends(earlier, pool, played)
        with fixed_proofs():
            for end in before:
                assert end.connection is not None
            list(_carried(before))
        stores = [end.store for end in before]
    else:
        stores = [store_of([]), store_of([])]
    endpoints = []
    for nonce, given in zip(_NONCES, case["sides"], strict=True):
        secret = given.get("secret")
        key = None if secret is None else SigningKey(b64a.decode(secret))
        endpoints.append({"nonce": nonce, "key": key, "packs": given.get("packs", False)})
    for store, given in zip(stores, case["sides"], strict=True):
        store.save([record_of(pool[name]) for name in given["records"]])
    both = ends(stores[0], stores[1], accepting=endpoints[0], connecting=endpoints[1])
    for end, given in zip(both, case["sides"], strict=True):
        end.module, end.exposure = module_from_text(given["module"]), OPEN
        end.limits = replace(DEFAULT_LIMITS, **given.get("limits", {}))
        end.stays = given.get("open", False)
    return both


def fixed_proofs() -> AbstractContextManager[object]:
    """Make proofs with the randomness of vectors."""

    def make(key: SigningKey, meeting: Meeting, now: Tai) -> bytes:
        return seal(unsigned_proof(meeting, now), key, aux=forge.AUX).raw

    return patch.object(binding, "make_proof", make)
