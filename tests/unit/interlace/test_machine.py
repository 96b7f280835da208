"""Two machines with real policies and stores: they converge, and a hostile peer ends only itself."""

from __future__ import annotations

import random

import forge
import pytest
from exchanges import AUTHORITY, BOB, EVE, NOTES, NOW, aborted, note, participant, result, stored
from showing import showing
from small_room import room

from lace.codes import Code
from lace.crypto import SigningKey
from lace.driving.pair import interlace
from lace.errors import LocalProtocolError
from lace.interlace import messages as m
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.parameters import Parameters
from lace.interlace.phases import Phase
from lace.limits import Limits
from lace.policy.module import module_from_text
from lace.record import Record, build_plex, seal


@pytest.mark.req("050-DRV-01", "050-COR-08", "050-COR-09", "050-SET-08", "000-SYN-03")
def test_two_sides_converge_on_what_both_select() -> None:
    mine = [note(i) for i in range(5)]
    theirs = [note(i) for i in range(3, 9)]
    private = note(1, group="private")
    left, right = participant(0, [*mine, private]), participant(1, theirs)
    interlace(left, right, NOW)
    everything = {record.hash for record in [*mine, *theirs]}
    assert stored(left) == everything | {private.hash}
    assert stored(right) == everything
    assert set(result(left).received) == {r.hash for r in theirs} - {r.hash for r in mine}
    assert result(left).bytes_received == result(right).bytes_sent
    assert result(left).plan == result(right).plan


@pytest.mark.req("000-NOT-03", "000-SYN-05", "050-EVL-02", "050-DRV-02")
def test_the_notes_room_bootstraps_from_nothing() -> None:
    def sealed(key: SigningKey, app: str, name: str, **extras: str) -> Record:
        plex = build_plex(
            group="notes-demo", app=app, name=name, tai=f"{1:010d}:{0:09d}", extras=extras.items()
        )
        return seal(plex, key, aux=forge.AUX)

    grant = sealed(AUTHORITY, "notes/member", "bob", Member=BOB.verifier)
    message = sealed(BOB, "notes/message", "1")
    spam = sealed(EVE, "notes/message", "2")
    module = room("//notes-demo//notes//", authority=AUTHORITY.verifier)
    alice = participant(0, [], module)
    server = participant(1, [grant, message, spam], module)
    interlace(alice, server, NOW)
    saved = [event.hash for event in alice.told if isinstance(event, m.RecordSaved)]
    assert saved == [grant.hash, message.hash]  # the evidence first
    assert result(alice).loops == 3
    assert stored(server) == {grant.hash, message.hash, spam.hash}


@pytest.mark.req("050-REC-01", "050-REC-02", "050-REC-15")
@pytest.mark.parametrize("coarse", [True, False])
@pytest.mark.parametrize(("size", "missing"), [(10, 3), (300, 0), (300, 7), (1500, 40)])
def test_partitions_and_listings_lead_to_the_same_state(
    size: int, missing: int, coarse: bool
) -> None:
    records = [note(i) for i in range(size)]
    chance = random.Random(size)
    less = chance.sample(records, size - missing)
    left, right = participant(0, records, coarse=coarse), participant(1, less, coarse=coarse)
    sizes = [0, 0]

    def count(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerFacts):
            sizes[side] += len(crossing.content)
        return [crossing]

    interlace(left, right, NOW, count)
    assert stored(left) == stored(right) == {record.hash for record in records}
    assert len(result(right).received) == missing
    assert result(left).received == ()
    assert set(right.machine._adverts.table.records("")) == {record.hash for record in records}


@pytest.mark.req("050-VLD-01", "050-VLD-05", "050-VLD-06", "050-ERR-15")
def test_a_tampered_record_is_rejected_and_the_rest_arrives() -> None:
    records = [note(i) for i in range(4)]
    victim = records[2].hash.encode()

    def tamper(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerRecord) and victim in crossing.raw[:80]:
            raw = crossing.raw
            return [m.PeerRecord(raw.replace(b"Name: n/2", b"Name: n/9"))]
        return [crossing]

    left, right = participant(0, records), participant(1, [])
    interlace(left, right, NOW, tamper)
    assert stored(right) == {r.hash for r in records if r is not records[2]}
    assert result(right).rejected == (records[2].hash,)
    rejected = [event for event in right.told if isinstance(event, m.RecordRejected)]
    assert rejected[0].code is Code.RECORD_HASH_MISMATCH


def flood(kind: type, make: m.Incoming) -> object:
    """Return a tamperer that makes side 0 say something more after each item of a kind."""

    def tamper(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 0 and isinstance(crossing, kind):
            return [crossing, make]
        return [crossing]

    return tamper


@pytest.mark.req("050-ERR-05", "050-ERR-14", "050-ERR-17", "050-SET-01", "050-XFR-06", "050-BLK-05")
@pytest.mark.parametrize(
    ("kind", "extra", "code"),
    [
        (m.PeerModule, m.PeerFacts(b"Foo('a')\n"), Code.INTERLACE_BLOCK),
        (m.PeerModule, m.PeerFacts(b"HelloTAI('x')\n"), Code.INTERLACE_PHASE),
        (m.PeerModule, m.PeerRecord(note(99).raw), Code.INTERLACE_PHASE),
        (m.PeerModule, m.PeerModule("R.x", b"MaySend(P) :- Have(P).\n"), Code.INTERLACE_PHASE),
        (m.PeerRecord, m.PeerRecord(note(99).raw), Code.INTERLACE_UNASKED),
        (m.PeerRecord, m.PeerRecord(b""), Code.INTERLACE_UNASKED),
        (m.PeerRecord, m.PeerFacts(b"NotAvailable('P.x.H9')\n"), Code.INTERLACE_UNASKED),
    ],
)
def test_what_has_no_place_ends_the_exchange_and_nothing_else(
    kind: type, extra: m.Incoming, code: Code
) -> None:
    kept = note(50)
    left, right = participant(0, [note(1), note(2)]), participant(1, [kept])
    interlace(left, right, NOW, flood(kind, extra))  # type: ignore[arg-type]
    assert aborted(right) is code
    assert kept.hash in stored(right)
    assert note(99).hash not in stored(right)


def replaced(old: bytes, new: bytes) -> object:
    def tamper(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 0 and isinstance(crossing, m.PeerFacts):
            return [m.PeerFacts(crossing.content.replace(old, new))]
        return [crossing]

    return tamper


LIES = {
    "another index": (b"ExchangeOperand('0'", b"ExchangeOperand('1'", Code.POLICY_OPERAND),
    "an origin not proven": (b"'Opq_", b"'V.alice", Code.POLICY_ORIGIN),
    "another facet": (b"'selector'", b"'cache'", Code.POLICY_FACET),
    "another plan": (b"HelloExchangePlan('E.", b"HelloExchangePlan('E.x", Code.INTERLACE_PLAN),
    "another format": (b"RecordFormat('H3')", b"RecordFormat('H9')", Code.INTERLACE_FORMAT),
    "an interval of words": (b"TickInterval('1", b"TickInterval('x", Code.INTERLACE_HELLO),
    "no record": (b"Advertised('P", b"Advertised('X", Code.INTERLACE_BLOCK),
}
LIES_SHOW = {
    "another index": "050-SET-03",
    "an origin not proven": "050-HEL-05",
    "another plan": "050-ERR-02 050-HEL-01",
    "another format": "050-ERR-03 050-FMT-02",
    "no record": "050-ERR-05",
}


@pytest.mark.parametrize(("old", "new", "code"), showing(LIES, LIES_SHOW))
def test_lies_in_facts_end_the_exchange(old: bytes, new: bytes, code: Code) -> None:
    left, right = participant(0, [note(1)]), participant(1, [])
    interlace(left, right, NOW, replaced(old, new))  # type: ignore[arg-type]
    assert aborted(right) is code
    assert stored(right) == set()


@pytest.mark.req("050-ERR-10", "050-REC-13")
def test_a_summary_that_lies_is_found_out() -> None:
    records = [note(i) for i in range(300)]

    def lie(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if (
            side == 0
            and isinstance(crossing, m.PeerFacts)
            and crossing.content.startswith(b"Advertised(")
        ):
            lines = crossing.content.splitlines(keepends=True)
            first = lines[0].split(b"'")[1]
            return [m.PeerFacts(b"".join(line for line in lines if first not in line))]
        return [crossing]

    left, right = participant(0, records), participant(1, [])
    interlace(left, right, NOW, lie)
    assert aborted(right) is Code.INTERLACE_LISTING


@pytest.mark.req("050-LIM-07", "050-BND-05")
def test_a_loop_limit_closes_without_claiming_a_fixed_point() -> None:
    chain = []
    target = note(0, app="evidence", group="x")
    chain.append(target)
    for i in range(1, 6):
        made = build_plex(
            group="x",
            app="evidence",
            name=f"{i}",
            tai=f"{i:010d}:{0:09d}",
            extras=[("+Link", f"evidence {chain[-1].hash}")],
        )
        chain.append(made)
    top = build_plex(
        group="notes-demo",
        app="notes",
        name="top",
        tai=f"{9:010d}:{0:09d}",
        extras=[("+Link", f"evidence {chain[-1].hash}")],
    )
    from lace.selectors import with_support

    module = with_support(NOTES)
    limits = Limits(max_loop_iterations=3)
    left, right = participant(0, [*chain, top], module), participant(1, [], module, limits=limits)
    interlace(left, right, NOW)
    closed = [event for event in right.told if isinstance(event, m.Closed)]
    assert "max_loop_iterations" in closed[0].reason
    assert not any(isinstance(event, m.FixedPoint) for event in right.told)
    assert len(stored(right)) == 3
    whole_left, whole_right = participant(0, [*chain, top], module), participant(1, [], module)
    interlace(whole_left, whole_right, NOW)
    assert len(stored(whole_right)) == 7
    assert result(whole_right).loops == 8


@pytest.mark.req("050-ERR-13", "050-LIM-06", "050-ERR-17")
def test_a_byte_limit_aborts_with_what_was_stored() -> None:
    records = [note(i) for i in range(10)]
    limits = Limits(max_total_transferred_bytes=len(records[0].raw) * 3 + 10)
    left, right = participant(0, records), participant(1, [], limits=limits)
    interlace(left, right, NOW)
    assert aborted(right) is Code.LIMIT_EXCEEDED
    assert len(stored(right)) == 3


@pytest.mark.req("050-EVL-03")
def test_an_evaluation_that_fails_ends_the_exchange() -> None:
    left, right = (
        participant(0, [note(1)]),
        participant(1, [note(2)], limits=Limits(derived_facts=0)),
    )
    interlace(left, right, NOW)
    assert aborted(right) is Code.LIMIT_EXCEEDED
    assert aborted(left) is Code.INTERLACE_GONE


@pytest.mark.req("050-ERR-06", "050-SET-07")
def test_a_peer_module_that_cannot_be_used() -> None:
    left, right = participant(0, []), participant(1, [])

    def swap(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == 0 and isinstance(crossing, m.PeerModule):
            text = b"SelectHave(P) :- Have(P).\n"
            return [m.PeerModule(module_id(text), text)]
        return [crossing]

    interlace(left, right, NOW, swap)
    assert aborted(right) is Code.POLICY_EXPORT


def module_id(text: bytes) -> str:
    from lace.rules import check_lacegram

    return check_lacegram(text).lacegram.id


@pytest.mark.parametrize("seed", range(60))
def test_any_inputs_at_any_time_are_answered(seed: int) -> None:
    """Nothing that a peer says makes a machine raise, and a closed one stays closed."""
    chance = random.Random(seed)
    machine = InterlaceMachine(Side(index=0, module=NOTES))
    other = module_from_text(
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    choices: list[m.Input] = [
        m.Started(), m.PeerModule(other.id, other.text.encode()), m.PeerFacts(b"MayRequest('x')\n"),
        m.PeerFacts(b"garbage"), m.PeerPhaseEnd(), m.PeerRecord(note(1).raw), m.Evaluated(),
        m.Served((None,)), m.TimerFired(), m.PeerGone(), m.CloseRequested(),
    ]  # fmt: skip
    for _ in range(30):
        given = chance.choice(choices)
        try:
            effects = machine.receive(given, NOW)
        except LocalProtocolError:
            assert isinstance(given, m.FromDriver)  # a fault of ours
            continue
        if machine.phase is Phase.CLOSED:
            assert isinstance(effects[-1], m.Close)
            assert machine.receive(m.Started(), NOW) == []
            return


@pytest.mark.req("050-XFR-02", "050-ERR-16", "050-COR-04")
def test_a_record_that_is_gone_is_not_available_and_the_rest_arrives() -> None:
    records = [note(i) for i in range(4)]
    left, right = participant(0, records), participant(1, [])

    def forget(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if (
            side == 1
            and isinstance(crossing, m.PeerFacts)
            and crossing.content.startswith(b"MayRequest")
        ):
            left.store.forget([records[1].hash])
        return [crossing]

    interlace(left, right, NOW, forget)
    assert stored(right) == {r.hash for r in records if r is not records[1]}
    assert result(right).not_available == (records[1].hash,)


@pytest.mark.req("050-XFR-01", "050-XFR-03", "050-XFR-04", "050-BND-06")
def test_what_is_deferred_is_asked_for_again() -> None:
    records = [note(i) for i in range(6)]
    limits = Limits(transfer_phase_bytes=len(records[0].raw) + 1)
    left, right = participant(0, records, limits=limits), participant(1, [])
    interlace(left, right, NOW)
    assert stored(right) == {r.hash for r in records}
    assert result(right).not_available == ()
    assert result(right).loops == 2  # going on with what was deferred is no loop


@pytest.mark.req("050-REQ-04", "050-REQ-03", "050-STA-05")
def test_asking_for_what_may_not_be_sent_tells_nothing_but_that() -> None:
    secret = note(7, group="private")
    left, right = participant(0, [note(1), secret]), participant(1, [])
    answers: list[bytes] = []

    def ask(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if (
            side == 1
            and isinstance(crossing, m.PeerFacts)
            and crossing.content.startswith(b"MayRequest")
        ):
            more = f"MayRequest('{secret.hash}')\nMayRequest('P.nothing.H9')\n".encode()
            return [m.PeerFacts(crossing.content + more)]
        if side == 0 and isinstance(crossing, m.PeerFacts) and b"NotAvailable" in crossing.content:
            answers.extend(crossing.content.splitlines(keepends=True))
            return []
        return [crossing]

    interlace(left, right, NOW, ask)
    assert sorted(answers) == sorted(
        f"NotAvailable('{h}')\n".encode() for h in (secret.hash, "P.nothing.H9")
    )
    assert stored(right) == {note(1).hash}


@pytest.mark.req("050-FMT-03", "050-COR-03", "050-REQ-01")
def test_formats_that_nobody_agreed_on_are_not_asked_for() -> None:
    def advertise_more(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if (
            side == 0
            and isinstance(crossing, m.PeerFacts)
            and crossing.content.startswith(b"Advertised(")
        ):
            fields = crossing.content.replace(note(1).hash.encode(), b"P.abc.H9")
            return [m.PeerFacts(crossing.content + fields)]
        return [crossing]

    left, right = participant(0, [note(1)]), participant(1, [])
    interlace(left, right, NOW, advertise_more)
    assert stored(right) == {note(1).hash}
    assert result(right).not_available == ()


@pytest.mark.req("050-ERR-11", "050-ERR-12", "050-LIM-02", "050-LIM-08")
def test_time_and_size_are_limited() -> None:
    slow = InterlaceMachine(Side(index=0, module=NOTES))
    effects = slow.receive(m.Started(), NOW)
    assert m.SetTimer(30) in effects
    (event, close) = slow.receive(m.TimerFired(), NOW)
    assert isinstance(event, m.Emit)
    assert isinstance(event.event, m.Aborted)
    assert event.event.code is Code.INTERLACE_TIMEOUT
    assert close == m.Close()
    small = InterlaceMachine(Side(index=0, module=NOTES, limits=Limits(max_fact_block_size=10)))
    (event, _) = small.receive(m.PeerFacts(b"ExchangeOperand('1','R.x','Opq_a','selector')\n"), NOW)
    assert isinstance(event, m.Emit)
    assert isinstance(event.event, m.Aborted)
    assert event.event.code is Code.INTERLACE_BLOCK_SIZE


@pytest.mark.req("050-REC-15", "050-REC-13")
@pytest.mark.parametrize("coarse", [True, False])
def test_sets_of_one_size_that_differ_are_not_taken_for_equal(coarse: bool) -> None:
    mine, theirs = [note(i) for i in range(40)], [note(i) for i in range(100, 140)]
    left, right = participant(0, mine, coarse=coarse), participant(1, theirs, coarse=coarse)
    interlace(left, right, NOW)
    assert stored(left) == stored(right) == {record.hash for record in [*mine, *theirs]}


@pytest.mark.req("050-COR-03", "050-REQ-01")
def test_what_nobody_advertised_is_not_asked_for() -> None:
    """Rules may select a link's target that the peer never advertised."""
    target = note(5, group="elsewhere")
    linking = build_plex(
        group="notes-demo", app="notes", name="a", tai=f"{1:010d}:{0:09d}",
        extras=[("+Link", f"see {target.hash}")],
    )  # fmt: skip
    eager = module_from_text(
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectAdvertised(T,S) :- Advertised(P,S), Have(P), RecordLink(P,_,_,_,T).\n"
    )
    left, right = participant(0, [linking, target], eager), participant(1, [linking], eager)
    asked: list[bytes] = []

    def listen(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerFacts) and b"MayRequest" in crossing.content:
            asked.append(crossing.content)
        return [crossing]

    interlace(left, right, NOW, listen)
    assert right.local.policy is not None
    assert (target.hash,) in right.local.policy.may_request
    assert asked == []
    assert stored(right) == {linking.hash}


@pytest.mark.req("050-BLK-06")
@pytest.mark.parametrize("repeated", [False, True])
def test_no_question_is_asked_twice_in_a_loop(repeated: bool) -> None:
    """Over a stream a phase comes in many blocks; one that a peer repeats is one question still."""
    narrows = Parameters(list_up_to=0)  # so that few records are narrowed far
    left = participant(0, [note(i) for i in range(3000)], parameters=narrows)
    right = participant(1, [note(i) for i in range(0, 3000, 2)], parameters=narrows)
    asked: list[list[str]] = []

    def listen(_side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerFacts) and b"AdvertisementPartition('" in crossing.content:
            lines = crossing.content.decode().splitlines()
            asked.append([line for line in lines if line.startswith(("Narrow", "List"))])
            if repeated and asked[-1]:
                return [crossing, crossing]
        return [crossing]

    interlace(left, right, NOW, listen)
    assert stored(left) == stored(right)
    assert any(len(lines) > 64 for lines in asked)
    assert all(len(lines) == len(set(lines)) for lines in asked)
