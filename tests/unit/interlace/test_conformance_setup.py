"""Set-up, hello and what rules know of an exchange: the requirements of 050, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path
from typing import NewType, get_type_hints

import forge
import pytest
from exchanges import (
    AUTHORITY,
    BOB,
    NOTES,
    NOW,
    aborted,
    note,
    participant,
    remembered,
    result,
    stored,
)
from meeting import Host, client, trusting, within
from sides import Pair, Participant
from traffic import Tap, facts_of
from wires import EVERYTHING, ends, notes, run, store_of

import lace
from lace.answering.store import StoreAnswers
from lace.codes import Code
from lace.crypto import SigningKey
from lace.datalog.ast import Predicate
from lace.datalog.parse import parse_canonical
from lace.driving.connection import Connection
from lace.driving.pair import interlace
from lace.errors import LacegramError
from lace.interlace import messages as m
from lace.interlace.facts import PREDICATES
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.phases import Phase
from lace.limits import DEFAULT_LIMITS
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import Record, build_plex, seal
from lace.recordstore import MemoryStore
from lace.rules import LocalFacts
from lace.stream.items import resource
from lace.tai import NS_PER_SECOND, Tai, add_ns
from lace.transport.address import parse_address
from lace.transport.tls import development_certificate
from lace.vocabulary import ADVERTISEMENT_FACTS, HAVE, RECORD_FACTS, RUNTIME_FACTS, START_TAI


def selecting(condition: str, *, also: str = "") -> PolicyModule:
    """Return a selector of everything under one further condition."""
    return module_from_text(
        f"SelectHave(P) :- Have(P), {condition}.\n"
        f"SelectAdvertised(P,S) :- Advertised(P,S), {condition}.\n{also}"
    )


def signed(key: SigningKey, number: int) -> Record:
    plex = build_plex(group="g", app="a", name=f"{number}", tai=f"{number:010d}:{0:09d}")
    return seal(plex, key, aux=forge.AUX)


def rows(side: Connection, name: str, arity: int) -> list[tuple[str, ...]]:
    """Return the facts of a predicate that a side's rules see."""
    assert isinstance(side.answers, StoreAnswers)
    assert side.answers.policy is not None
    return list(side.answers.policy.source.iterate(Predicate(name, arity)))


# --- operands ---


@pytest.mark.req("050-SET-02", "050-COR-10", "050-SET-11")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_set_up_takes_exactly_one_operand(count: int) -> None:
    """We chose no default for a missing operand: without one there is no exchange."""
    other = b"ExchangeOperand('0','R.x','Opq_a','selector')\n"
    change = {0: lambda _: None, 1: lambda b: b + b, 2: lambda b: b + other}[count]
    left, right = participant(0, [note(1)]), participant(1, [])
    interlace(left, right, NOW, facts_of(0, change, b"ExchangeOperand"))
    if count == 1:  # the same fact twice is one fact
        assert stored(right) == {note(1).hash}
    else:
        assert aborted(right) is Code.INTERLACE_PHASE
        assert stored(right) == set()


@pytest.mark.req("050-SET-06", "050-COR-10")
@pytest.mark.parametrize("announced", [NOTES.id, "R.x"])
def test_without_the_bytes_of_a_module_set_up_ends_at_once(announced: str) -> None:
    """A machine keeps no modules of earlier exchanges: known or not, the bytes have to come."""
    machine = InterlaceMachine(Side(index=1, module=NOTES))
    machine.receive(m.Started(), NOW)
    operand = f"ExchangeOperand('0','{announced}','Opq_a','selector')\n".encode()
    assert machine.receive(m.PeerFacts(operand), NOW) == []
    told, close = machine.receive(m.PeerPhaseEnd(), NOW)
    assert isinstance(told, m.Emit)
    assert isinstance(told.event, m.Aborted)
    assert told.event.code is Code.INTERLACE_PHASE
    assert told.event.blame is m.Blame.REMOTE
    assert close == m.Close()


@pytest.mark.req("050-SET-05", "050-COR-10")
def test_what_a_side_exposes_is_told_to_nobody() -> None:
    expose = module_from_text(
        "AllowQueryRecord(V,P) :- Have(P), Field(P,'App',_,'only-here'), Peer(V).\n", Facet.EXPOSE
    )
    said: list[list[m.Incoming]] = []
    for exposure in (Exposure(), Exposure(default="selected"), Exposure((expose,))):
        left, right = participant(0, []), participant(1, [note(1)])
        left = Participant(MemoryStore(), left.side, exposure)
        tap = Tap()
        interlace(left, right, NOW, tap)
        assert b"AllowQueryRecord" not in tap.bytes()
        assert b"only-here" not in tap.bytes()
        said.append(tap.by(0)[:5])
    assert said[0] == said[1] == said[2]
    assert [type(crossing) for crossing in said[0]] == [
        m.PeerModule, m.PeerFacts, m.PeerPhaseEnd, m.PeerFacts, m.PeerPhaseEnd,
    ]  # fmt: skip


@pytest.mark.req("050-ERR-07", "050-SET-07")
@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("MaySend(P) :- Have(P).", Code.LACEGRAM_RESERVED),
        ("MayRequest(P) :- Advertised(P,_).", Code.LACEGRAM_RESERVED),
        ("CanQueryRecord(V,P) :- Have(P), Peer(V).", Code.LACEGRAM_RESERVED),
        ("o0_SelectHave(P) :- Have(P).", Code.LACEGRAM_RESERVED),
        ("Have(P) :- Advertised(P,_).", Code.LACEGRAM_SHADOW),
        ("Odd(P) :- Have(P), not Odd(P).", Code.LACEGRAM_UNSTRATIFIED),
    ],
)
def test_a_peer_module_that_no_plan_can_be_made_of_ends_the_exchange(rule: str, code: Code) -> None:
    text = canonical(f"{rule}\n{EVERYTHING.text}")
    with pytest.raises(LacegramError):
        module_from_text(text)

    def swap(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 0 and isinstance(crossing, m.PeerModule):
            return [m.PeerModule(parse_canonical(text).id, text)]
        return [crossing]

    left, right = participant(0, [note(1)]), participant(1, [note(2)])
    interlace(left, right, NOW, swap)
    assert aborted(right) is code
    assert stored(right) == {note(2).hash}


def canonical(text: str) -> bytes:
    return "".join(sorted(f"{line}\n" for line in text.splitlines())).encode()


# --- no way around the plan ---


@pytest.mark.req("050-COR-11", "050-ERR-08")
def test_there_is_no_way_to_bring_in_a_prepared_policy() -> None:
    """What starts an exchange is a selector; nothing that was compiled before can be put in."""
    for made in (Side, Participant, InterlaceMachine, client(MemoryStore()).__class__):
        parameters = signature(made).parameters
        hints = get_type_hints(made.__init__)
        assert not [name for name in parameters if "policy" in name or "plan" in name]
        assert ExchangePolicy not in {hints.get(name) for name in parameters}
        assert ExchangePlan not in {hints.get(name) for name in parameters}


@pytest.mark.req("050-ERR-08", "050-COR-11", "050-STA-05")
@pytest.mark.parametrize("facet", ["prepared", "cache", "expose", "policy", ""])
def test_a_peer_cannot_bring_one_in_either(facet: str) -> None:
    left, right = participant(0, [note(1)]), participant(1, [])
    change = f"'{facet}')".encode()
    lie = facts_of(0, lambda b: b.replace(b"'selector')", change), b"ExchangeOperand")
    interlace(left, right, NOW, lie)
    assert aborted(right) is Code.POLICY_FACET
    assert stored(right) == set()


@pytest.mark.req("050-SET-10", "050-ERR-08")
def test_an_executable_of_another_plan_is_not_used() -> None:
    """Whatever lies in the cache, the plan that was agreed on decides."""
    secret = note(5, group="private")
    left, right = participant(0, [note(1), secret]), participant(1, [])
    other = ExchangePlan(
        label_operands(Party(index=0, module=EVERYTHING), Party(index=1, module=EVERYTHING))
    )
    source = LocalFacts([("Have", note(1).hash), ("Have", secret.hash)])
    cached = ExchangePolicy(other, 0, source, Exposure(default="everything"))
    left.local._together.policy = cached
    assert (secret.hash,) in cached.may_send
    interlace(left, right, NOW)
    assert left.local.policy is not None
    assert left.local.policy.plan.id == result(left).plan != other.id
    assert stored(right) == {note(1).hash}


@pytest.mark.req("050-SET-10", "050-EPO-01", "050-EPO-02")
def test_a_new_plan_between_the_same_two_is_a_new_plan() -> None:
    """Proven peers keep their names when an operand changes; their rules are compiled anew."""
    secret = note(5, group="private")
    sides = []
    for index, (key, peer) in enumerate(((AUTHORITY, BOB), (BOB, AUTHORITY))):
        store = MemoryStore()
        store.save([note(1), secret] if index == 0 else [])
        side = Side(
            index=index, module=EVERYTHING if index else NOTES, open=True,
            verifier=key.verifier, peer_verifier=peer.verifier,
        )  # fmt: skip
        sides.append(Participant(store, side, Exposure(default="selected")))
    pair = Pair(sides[0], sides[1])
    pair.start(NOW)
    pair.run(NOW)
    assert stored(sides[1]) == {note(1).hash}
    pair.give(0, m.OperandChanged(EVERYTHING), NOW)
    pair.run(NOW)
    assert stored(sides[1]) == {note(1).hash, secret.hash}
    first, last = [e.result for e in sides[1].told if isinstance(e, m.FixedPoint)]
    assert first.plan != last.plan
    assert first.link != last.link  # so that no cursor of one plan is taken for that of another
    assert first.peer == last.peer == AUTHORITY.verifier


@pytest.mark.req("050-COR-05")
def test_applications_speak_of_sets_and_never_of_directions() -> None:
    for name in lace.__all__:
        public = getattr(lace, name)
        if not callable(public) or isinstance(public, type | NewType):
            continue
        for parameter in signature(public).parameters:
            assert not {"send", "request", "directions"} & set(parameter.split("_")), name
    for text in ("MaySend(P) :- Have(P).", "SelectHave(P) :- Have(P), MaySend(P)."):
        with pytest.raises(LacegramError):
            lace.selector(f"{text}\nSelectAdvertised(P,S) :- Advertised(P,S).")


# --- hello ---


@pytest.mark.req("050-HEL-02", "050-ERR-02")
def test_plans_that_differ_end_it_even_if_the_bytes_of_one_are_supplied() -> None:
    """We chose not to go on by a plan that a peer supplies: both sides compute it, or it ends."""
    plan = ExchangePlan(
        label_operands(Party(index=0, module=NOTES), Party(index=1, module=EVERYTHING))
    )
    supplied = resource(plan.id, plan.transcript.encode())
    claim = f"HelloExchangePlan('{plan.id}')\n".encode()

    def supply(index: int, chunk: bytes, *, claims: bool) -> bytes:
        at = chunk.find(b"HelloExchangePlan")
        if index != 0 or at < 0:
            return chunk
        rest = chunk[chunk.index(b"\n", at) + 1 :] if claims else chunk[at:]
        return chunk[:at] + supplied + (claim if claims else b"") + rest

    left, right = ends(store_of(notes(3)), MemoryStore())
    run(left, right, 10**6, lambda index, chunk: supply(index, chunk, claims=True))
    assert isinstance(right.last, m.Aborted)
    assert right.last.code is Code.INTERLACE_PLAN
    assert right.store.count() == 0
    left, right = ends(store_of(notes(3)), MemoryStore())
    run(left, right, 10**6, lambda index, chunk: supply(index, chunk, claims=False))
    assert isinstance(right.last, m.Closed)  # bytes that are of no use do no harm
    assert right.store.count() == 3


@pytest.mark.req("050-ERR-04", "050-SCH-06")
@pytest.mark.parametrize("said", [b"", b"HelloAdvertisedField('group')\n"])
def test_a_schema_that_cannot_serve_the_plan_ends_the_exchange(said: bytes) -> None:
    left, right = participant(0, [note(1)]), participant(1, [])
    field = b"HelloAdvertisedField('Group')\n"
    interlace(left, right, NOW, facts_of(0, lambda b: b.replace(field, said), b"Hello"))
    assert aborted(right) is Code.INTERLACE_SCHEMA
    left, right = participant(0, [note(1)]), participant(1, [])
    every = b"HelloAllAdvertisedFields()\n"
    interlace(left, right, NOW, facts_of(0, lambda b: b.replace(field, every), b"Hello"))
    assert stored(right) == {note(1).hash}


@pytest.mark.req("050-ERR-04", "050-ADF-07")
def test_a_rule_that_asks_for_any_field_needs_all_fields_of_both() -> None:
    any_field = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,N,_,'notes').\n"
    )
    every, some = b"HelloAllAdvertisedFields()\n", b"HelloAdvertisedField('App')\n"
    left, right = participant(0, [note(1)], any_field), participant(1, [], any_field)
    interlace(left, right, NOW)
    assert stored(right) == {note(1).hash}
    left, right = participant(0, [note(1)], any_field), participant(1, [], any_field)
    interlace(left, right, NOW, facts_of(0, lambda b: b.replace(every, some), b"Hello"))
    assert aborted(right) is Code.INTERLACE_SCHEMA
    assert stored(right) == set()


@pytest.mark.req("050-LNK-02", "050-RES-02", "050-LNK-03")
def test_a_link_without_two_proofs_may_have_a_cursor_but_no_identity() -> None:
    stores = MemoryStore(), MemoryStore()
    stores[0].save([note(i) for i in range(30)])

    def meet(link: bytes | None, **who: object) -> tuple[Participant, Tap]:
        sides = [
            Participant(store, Side(index=i, module=NOTES, link=link, **who), Exposure(default="selected"))  # type: ignore[arg-type]
            for i, store in enumerate(stores)
        ]  # fmt: skip
        tap = Tap()
        interlace(sides[0], sides[1], NOW, tap)
        return sides[1], tap

    right, tap = meet(b"my local name for that address")
    found = result(right)
    assert (found.link, found.peer) == (None, None)
    assert found.cursor_updated
    assert b"my local name" not in tap.bytes()
    key = b"my local name for that address" + str(found.plan).encode()
    assert remembered(stores[1], key) == {note(i).hash for i in range(30)}
    assert rows(right, "Peer", 1) == []
    again, _ = meet(b"my local name for that address")
    assert not result(again).cursor_updated  # it was there, and it was used
    nowhere, _ = meet(None)
    assert result(nowhere).cursor_updated
    half, _ = meet(None, verifier=BOB.verifier)
    assert aborted(half) is Code.INTERLACE_SIGNER  # said, but not proven


# --- runtime facts ---


@pytest.mark.req("050-RTF-01", "050-RTF-09")
def test_each_side_is_here_for_itself_by_the_same_rules() -> None:
    """Both sides have the same bytes of the same module; each gives what it has signed itself."""
    own = module_from_text(
        "SelectHave(P) :- Have(P), Here(V), Field(P,'Signed-By',_,V).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    mixed = [[signed(AUTHORITY, 1), signed(BOB, 2)], [signed(AUTHORITY, 3), signed(BOB, 4)]]
    keys = (AUTHORITY, BOB)
    sides = []
    for index, (key, other) in enumerate((keys, keys[::-1])):
        store = MemoryStore()
        store.save(mixed[index])
        side = Side(index=index, module=own, verifier=key.verifier, peer_verifier=other.verifier)
        sides.append(Participant(store, side, Exposure(default="everything")))
    tap = Tap()
    interlace(sides[0], sides[1], NOW, tap)
    modules = [c for _, c in tap.crossed if isinstance(c, m.PeerModule)]
    assert modules[0] == modules[1]
    assert result(sides[0]).plan == result(sides[1]).plan
    assert [rows(side, "Here", 1) for side in sides] == [[(AUTHORITY.verifier,)], [(BOB.verifier,)]]
    assert stored(sides[0]) == {mixed[0][0].hash, mixed[0][1].hash, mixed[1][1].hash}
    assert stored(sides[1]) == {mixed[1][0].hash, mixed[1][1].hash, mixed[0][0].hash}


@pytest.mark.req("050-RTF-01", "050-RTF-03", "050-RTF-04")
def test_what_is_not_there_is_no_fact() -> None:
    left, right = participant(0, [note(1)]), participant(1, [])
    interlace(left, right, NOW)
    for side in (left, right):
        assert rows(side, "StartTAI", 1) == [(NOW,)]
        for name, arity in (("Here", 1), ("Peer", 1), ("Transport", 1), ("TransportEncrypted", 0)):
            assert rows(side, name, arity) == []


@pytest.mark.req("050-RTF-03", "050-RTF-04")
@pytest.mark.parametrize("address", ["tcp:127.0.0.1:0", "ws:127.0.0.1:0", "wss:localhost:0"])
def test_rules_know_the_address_and_what_was_proven_of_it(address: str, tmp_path: Path) -> None:
    encrypted = address.startswith("wss")
    certificate = development_certificate(tmp_path) if encrypted else None
    exchanges = []
    module = selecting("not Have('another')")  # so that there is a policy to look at

    async def work() -> str:
        host = Host(store_of(notes(2)), module)
        async with host.at(address, certificate) as place:
            near = client(MemoryStore(), trust=trusting(certificate), module=module)
            exchange = await near.dial(parse_address(place))
            assert isinstance(await exchange.run(), m.Closed)
            await host.ended.wait()
            exchanges.extend([host.exchanges[0], exchange])
        return place

    place = within(work())
    for exchange in exchanges:
        side = exchange.connection
        ((transport,),) = rows(side, "Transport", 1)
        assert transport.startswith(address.partition(":")[0] + ":")
        assert rows(side, "TransportEncrypted", 0) == ([()] if encrypted else [])
    assert rows(exchanges[1].connection, "Transport", 1) == [(place,)]


KNOWN = RECORD_FACTS | ADVERTISEMENT_FACTS | RUNTIME_FACTS
CONTROL = sorted(PREDICATES.keys() - {"Advertised", "AdvertisedField", "MayRequest"})


SHOWS_IN_TIME = Exposure(
    (module_from_text("AllowQueryRecord(V,P) :- Have(P), Peer(V), TickTAI(_).\n", Facet.EXPOSE),)
)


@pytest.mark.req("050-SET-09", "050-RTF-07", "050-TIC-10")
@pytest.mark.parametrize(
    ("name", "arity"),
    [*((name, PREDICATES[name]) for name in CONTROL), ("StoreRecordId", 1), ("Link", 1), ("Secret", 0), ("Have", 2)],
)  # fmt: skip
def test_nothing_but_declared_facts_reaches_rules(name: str, arity: int) -> None:
    """Rules over control data or over anything private select nothing, on either side."""
    atom = f"{name}({','.join('_' * arity)})"
    hears = selecting(atom)
    silent = selecting(f"not {atom}" if arity == 0 else "TickTAI(_)")
    for module, count in ((hears, 0), (silent, 2)):
        sides = [
            Participant(
                store_of([note(i)]),
                Side(
                    index=i,
                    module=module,
                    open=True,
                    verifier=(BOB, AUTHORITY)[i].verifier,
                    peer_verifier=(AUTHORITY, BOB)[i].verifier,
                ),
                SHOWS_IN_TIME,
            )
            for i in (0, 1)
        ]
        pair = Pair(sides[0], sides[1])
        pair.start(NOW)
        pair.run(NOW)
        later = add_ns(NOW, 20 * NS_PER_SECOND)
        for index in (0, 1):
            pair.give(index, m.TimerFired(), later)
        pair.run(later)
        for side in sides:
            assert side.idle
            assert len(stored(side)) == max(1, count)
            assert side.local.policy is not None
            assert set(side.local.policy.source.predicates()) <= KNOWN
            assert rows(side, "TickTAI", 1) == [(later,)]  # ticks were told, and moved time


@pytest.mark.req("050-RTF-08")
def test_rules_do_not_see_the_clock() -> None:
    """However the clocks run during a bounded exchange, rules see the time they agreed on."""
    due = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(Now), LexCompare(T,'<=',Now).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    records = [note(1), note(1_700_000_005), note(1_800_000_000)]
    said: list[list[tuple[int, m.Incoming]]] = []
    for jumps in (False, True):
        left, right = participant(0, records, due), participant(1, [], due)
        tap = Tap()
        pair = Pair(left, right, tap)
        pair.start(NOW)
        clocks = clock_of(jumps=jumps)
        while not pair.quiet:
            hello = any(side.machine.phase in {Phase.SETUP, Phase.HELLO} for side in pair.sides)
            pair.step(NOW if hello else next(clocks))
        assert stored(right) == {note(1).hash}
        assert left.closed
        said.append(tap.crossed)
    assert said[0] == said[1]


def clock_of(*, jumps: bool) -> Iterator[Tai]:
    seconds = 0
    while True:
        yield add_ns(NOW, seconds * NS_PER_SECOND)
        seconds = -seconds + 200_000_000 if jumps else 0


# --- state ---


@pytest.mark.req("050-COR-01", "050-STA-02")
def test_an_exchange_holds_all_that_defines_it() -> None:
    """Stopped in the middle of a transfer, both sides show every part of their state."""
    limits = replace(DEFAULT_LIMITS, max_loop_iterations=9)
    left = participant(0, [note(i) for i in range(20)], limits=limits, open=True)
    right = participant(1, [note(99)], open=True)
    pair = Pair(left, right)
    pair.start(NOW)
    while right.machine.phase is not Phase.TRANSFER:
        pair.step(NOW)
    plans = set()
    for side in pair.sides:
        machine, policy = side.machine, side.local.policy
        assert policy is not None
        opening = machine._opening
        plans.add(opening.plan.id)
        assert policy.plan == opening.plan  # the executable is that of the agreed plan
        assert side.store.count() in {1, 20}
        assert {row[0] for row in policy.source.iterate(HAVE)} == stored(side)
        assert set(policy.source.iterate(START_TAI)) == {(NOW,)}
        agreement = opening.agreement
        assert agreement.formats == {"H3"}
        assert agreement.fields == frozenset(("App", "Group"))
        assert agreement.limits["max_loop_iterations"] == 9
        assert machine._ticks.now == NOW
        assert machine._transfer.tally.loops == 1
        assert side.local._position.high_water == side.store.high_water()  # what it has observed
    assert len(plans) == 1
    assert set(right.machine._adverts.table.records("")) == {note(i).hash for i in range(20)}
    assert right.machine._transfer._outstanding.keys() == {note(i).hash for i in range(20)}
    pair.run(NOW)
    assert right.machine._transfer._outstanding == {}
    assert right.local._position.high_water == right.store.high_water() == 21


@pytest.mark.req("050-STA-02", "050-OPN-03")
def test_what_a_side_keeps_is_local() -> None:
    """Ids of a store, keys of links and cursors never cross."""
    store = MemoryStore()
    store.save([note(i, group="other") for i in range(1000)])
    store.save([note(1), note(2)])
    left = Participant(
        store, Side(index=0, module=NOTES, link=b"key"), Exposure(default="selected")
    )
    right = participant(1, [])
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert left.local._position.high_water == 1002
    assert b"1002" not in tap.bytes()
    assert not [name for name in tap.predicates() if "Id" in name or "Cursor" in name]
    assert {field.name for field in fields(Side)} >= {"link", "limits"}
