"""Seeded exchanges: honest pairs reach the fixed point of a naive model, hostile ones harm nobody."""

from __future__ import annotations

import random

import forge
import pytest
from effort import examples

from lace.crypto import SigningKey
from lace.datalog.source import MemorySource
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import Record, build_plex, facts, fields, seal, validate_record
from lace.recordstore import MemoryStore
from lace.runtime.pair import Crossing, Participant, interlace
from lace.selectors import any_of, room, selector, with_support
from lace.tai import Tai

NOW = Tai("1700000000:000000000")
KEYS = [forge.KEY, *(SigningKey(bytes([i]) * 32) for i in range(1, 4))]
MODULES: list[PolicyModule] = [
    room("//g//notes//", authority=KEYS[0].verifier),
    room("//g//notes//", authority=KEYS[0].verifier, delegation=True, revocation_app="ended"),
    selector("//g//notes//"),
    with_support(selector("//g//notes/message//")),
    any_of(selector("//g//notes/member//"), selector("//h//other//x/")),
    module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"),
]


def population(chance: random.Random) -> list[Record]:
    """Return records of a room: grants, notes, links, strangers."""
    made: list[Record] = []
    for number in range(chance.randint(0, 25)):
        app = chance.choice(["notes/member", "notes/message", "notes/ended", "notes", "other"])
        extras: list[tuple[str, str]] = []
        if app in {"notes/member", "notes/ended"}:
            extras.append(("Member", chance.choice(KEYS).verifier))
        if made and chance.random() < 0.4:
            extras.append(("+Link", f"evidence {chance.choice(made).hash}"))
        group = chance.choice(["g", "g", "g", "h"])
        name = chance.choice(["n", "x/y"]) + f"/{number}"
        plex = build_plex(
            group=group, app=app, name=name, tai=f"{number:010d}:{0:09d}", extras=extras
        )
        made.append(
            seal(plex, chance.choice(KEYS), aux=forge.AUX) if chance.random() < 0.8 else plex
        )
    return made


def participants(chance: random.Random) -> tuple[Participant, Participant]:
    everything = population(chance)
    exposure = chance.choice(
        [Exposure(default="selected"), Exposure(default="everything"), Exposure()]
    )
    limits = Limits(max_loop_iterations=64)
    coarse = chance.random() < 0.5
    sides = []
    for index in (0, 1):
        store = MemoryStore()
        store.save([record for record in everything if chance.random() < 0.6])
        module = chance.choice(MODULES)
        side = Side(index=index, module=module, limits=limits, coarse=coarse)
        sides.append(Participant(store, side, exposure, limits))
    return sides[0], sides[1]


def held(side: Participant) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for stored in side.store.read(0, 10**6):  # type: ignore[arg-type]
        record = side.store.load(stored.hash)
        assert record is not None
        found[record.hash] = record
    return found


def naive(left: Participant, right: Participant) -> tuple[set[str], set[str]]:
    """Run the exchange from its definition: evaluate everything afresh, move all that may move."""
    stores = [held(left), held(right)]
    plan = ExchangePlan(
        label_operands(
            Party(index=0, module=left.side.module), Party(index=1, module=right.side.module)
        )
    )
    exposures = [left.exposure, right.exposure]
    time = [("StartTAI", NOW), ("TickTAI", NOW), ("ClockSkewSeconds", "0")]
    adverts: list[dict[str, Record]] = [{}, {}]  # what each side has heard of the other
    while True:

        def policy(index: int) -> ExchangePolicy:
            source = MemorySource(fact for r in stores[index].values() for fact in facts(r))
            label = plan.operands[1 - index].source_label
            for fact in time:
                source.add(fact)
            for record in adverts[index].values():
                source.add(("Advertised", record.hash, label))
                for name, number, value in fields(record):
                    source.add(("AdvertisedField", record.hash, label, name, str(number), value))
            return ExchangePolicy(plan, index, source, exposures[index])

        sendable = [{h for (h,) in policy(i).may_send if h in stores[i]} for i in (0, 1)]
        for index in (0, 1):
            adverts[index] = {h: stores[1 - index][h] for h in sendable[1 - index]}
        moved = []
        for index in (0, 1):
            wanted = {h for (h,) in policy(index).may_request} - set(stores[index])
            moved.append({h: adverts[index][h] for h in wanted if h in adverts[index]})
        # A request is served only while it may still be sent, after the second evaluation.
        for index in (0, 1):
            still = {h for (h,) in policy(1 - index).may_send}
            moved[index] = {h: r for h, r in moved[index].items() if h in still}
        if not any(moved):
            return set(stores[0]), set(stores[1])
        for index in (0, 1):
            stores[index] |= moved[index]


@pytest.mark.req("050-DRV-01", "050-BND-01", "000-SYN-01", "000-SYN-03")
@pytest.mark.parametrize("seed", range(examples(60)))
def test_honest_pairs_reach_the_fixed_point_of_the_definition(seed: int) -> None:
    left, right = participants(random.Random(seed))
    expected = naive(left, right)
    interlace(left, right, NOW)
    assert (set(held(left)), set(held(right))) == expected
    for side in (left, right):
        assert any(isinstance(event, m.FixedPoint) for event in side.events), side.events


@pytest.mark.req("050-STA-07", "050-COR-06", "050-ERR-17")
@pytest.mark.parametrize("seed", range(examples(120)))
def test_a_hostile_peer_ends_its_own_exchange_and_nothing_else(seed: int) -> None:
    chance = random.Random(seed)
    left, right = participants(chance)
    before = held(right)
    spare = seal(
        build_plex(group="g", app="notes", name="evil", tai=f"{1:010d}:{0:09d}"),
        KEYS[3],
        aux=forge.AUX,
    )
    recent: list[Crossing] = []

    def hostile(side: int, crossing: Crossing) -> list[Crossing]:
        if side == 1:
            return [crossing]
        recent.append(crossing)
        dice = chance.random()
        if dice < 0.8:
            return [crossing]
        if dice < 0.84:
            return []
        if dice < 0.88:
            return [crossing, crossing]
        if dice < 0.92:
            return [crossing, chance.choice(recent)]
        if dice < 0.94:
            return [m.PeerRecord(spare.raw), crossing]
        if isinstance(crossing, m.PeerRecord | m.PeerFacts) and dice < 0.98:
            content = bytearray(
                crossing.raw if isinstance(crossing, m.PeerRecord) else crossing.content
            )
            if content:
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            return [type(crossing)(bytes(content))]
        return [m.PeerFacts(b"Advertised('P.x.H9','V.liar')\n"), crossing]

    interlace(left, right, NOW, hostile)
    after = held(right)
    assert set(before) <= set(after)  # nothing that was stored is lost
    for record in after.values():
        assert validate_record(record.raw).ok  # nothing unvalidated got in
    assert right.closed
    assert spare.hash not in after
    ends = [event for event in right.events if isinstance(event, m.Closed | m.Aborted)]
    assert len(ends) == 1
    if isinstance(ends[0], m.Aborted):
        assert not any(isinstance(event, m.FixedPoint) for event in right.events)


@pytest.mark.req("040-DIS-01")
@pytest.mark.parametrize("seed", range(examples(60)))
def test_what_crosses_does_not_depend_on_hidden_records(seed: int) -> None:
    """Stores that differ only in what the peer may neither query nor select say the same bytes."""
    chance = random.Random(seed)
    hidden = [
        build_plex(group="secret", app="diary", name=f"{i}", tai=f"{i:010d}:{0:09d}")
        for i in range(chance.randint(1, 5))
    ]
    mine = chance.choice(MODULES[:4])
    theirs = chance.choice(MODULES)
    shown = population(chance)
    heard: list[list[Crossing]] = []
    for secrets in ([], hidden):
        store, other = MemoryStore(), MemoryStore()
        store.save([*shown, *secrets])
        other.save(population(random.Random(seed + 1)))
        crossings: list[Crossing] = []

        def listen(
            side: int, crossing: Crossing, heard: list[Crossing] = crossings
        ) -> list[Crossing]:
            if side == 0:
                heard.append(crossing)
            return [crossing]

        exposure = Exposure(default="selected")
        interlace(
            Participant(store, Side(index=0, module=mine), exposure),
            Participant(other, Side(index=1, module=theirs), exposure),
            NOW,
            listen,
        )
        heard.append(crossings)
    assert heard[0] == heard[1]
