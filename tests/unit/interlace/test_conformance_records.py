"""What is claimed, requested, sent and validated: the requirements of 050 about single records."""

from __future__ import annotations

import forge
import pytest
from exchanges import AUTHORITY, BOB, NOTES, NOW, aborted, note, participant, result, stored
from sides import Pair, Participant
from traffic import Tap, records_of
from wires import EVERYTHING, ends, run, store_of

from lace.codes import Code
from lace.datalog.ast import Predicate
from lace.driving.pair import Tamper, interlace
from lace.interlace import messages as m
from lace.interlace import transfer
from lace.interlace.facts import PREDICATES
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.parameters import DEFAULT_PARAMETERS, Parameters
from lace.interlace.partition import Partitions
from lace.interlace.phases import Phase
from lace.limits import Limits
from lace.policy.module import module_from_text
from lace.record import Record, Seal, build_blob, build_plex, seal, validate_record
from lace.record.grammar import MARKLINE_BYTES
from lace.recordstore import MemoryStore


def rows(side: Participant, name: str, arity: int, *first: str) -> list[tuple[str, ...]]:
    assert side.local.policy is not None
    return list(side.local.policy.source.query(Predicate(name, arity), *first))


def hash_of(raw: bytes) -> bytes:
    return raw[len("🖧: ".encode()) : MARKLINE_BYTES - 1]


def passing_off(honest: Record, raw: bytes) -> Tamper:
    """Return a tamperer by which side 0 claims and sends other bytes under their own hash."""
    true, false = honest.hash.encode(), hash_of(raw)

    def tamper(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerFacts):
            old, new = (true, false) if side == 0 else (false, true)
            return [m.PeerFacts(crossing.content.replace(old, new))]
        if side == 0 and isinstance(crossing, m.PeerRecord) and true in crossing.raw[:80]:
            return [m.PeerRecord(raw)]
        return [crossing]

    return tamper


# --- validation ---

BLOB, PLEX, SEAL = forge.blob(), forge.plex(), forge.seal()
WRONG_BLOB = BLOB.replace(hash_of(BLOB), hash_of(forge.blob(b"other")))
WRONG_PLEX = PLEX.replace(hash_of(PLEX), hash_of(forge.plex_with(b"X: a")), 1)
GROUP, APP, NAME, INSTANT = forge.PLACE


@pytest.mark.req(
    "050-VLD-02", "050-VLD-03", "050-VLD-04", "050-VLD-05", "050-FMT-04", "050-ERR-15", "050-COR-06"
)
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        pytest.param(forge.plex((APP, GROUP, NAME, INSTANT)), Code.RECORD_HEADER_MISSING, id="headers in another order"),
        pytest.param(forge.plex_with(b"B: 1", b"A: 1"), Code.RECORD_HEADER_ORDER, id="extras not sorted"),
        pytest.param(forge.plex(embedded=forge.blob(b"hello", b"Data-Length: 05")), Code.RECORD_DATA_LENGTH, id="length with a zero before it"),
        pytest.param(forge.blob(b"hello", b"Data-Length: 4"), Code.RECORD_TRAILING_BYTES, id="more data than said"),
        pytest.param(forge.plex(embedded=WRONG_BLOB), Code.RECORD_HASH_MISMATCH, id="hash of the Blob inside"),
        pytest.param(forge.seal(WRONG_PLEX), Code.RECORD_HASH_MISMATCH, id="hash of the Plex inside"),
        pytest.param(forge.seal(key=BOB, signed_by=AUTHORITY.verifier.encode()), Code.RECORD_SIGNATURE, id="signed by another"),
        pytest.param(forge.plex(embedded=BLOB.replace(b".H3\n", b".H9\n", 1)), Code.RECORD_MARKLINE, id="format that is not supported inside"),
    ],
)  # fmt: skip
def test_bytes_that_have_the_right_hash_and_are_no_record(raw: bytes, code: Code) -> None:
    """Each is wrong in one respect; it alone is rejected, and the exchange goes on."""
    assert validate_record(raw).code is code
    left, right = participant(0, [note(i) for i in range(3)]), participant(1, [])
    interlace(left, right, NOW, passing_off(note(1), raw))
    assert stored(right) == {note(0).hash, note(2).hash}
    found = result(right)
    name = hash_of(raw).decode()
    assert found.rejected == (name,)
    assert found.not_available == ()
    (event,) = [event for event in right.told if isinstance(event, m.RecordRejected)]
    assert (event.hash, event.code) == (name, code)
    assert rows(right, "Have", 1, name) == rows(right, "Field", 4, name) == []


@pytest.mark.req("050-FMT-04", "050-XFR-06")
@pytest.mark.parametrize("suffix", [b"H9", b"H3X"])
def test_a_response_in_another_format_is_no_response(suffix: bytes) -> None:
    """What was asked for has an accepted suffix, so that another one answers nothing."""
    left, right = participant(0, [note(1)]), participant(1, [])
    interlace(left, right, NOW, records_of(0, lambda raw: raw.replace(b".H3\n", b"." + suffix + b"\n", 1)))  # fmt: skip
    assert aborted(right) is Code.INTERLACE_UNASKED
    assert stored(right) == set()


@pytest.mark.req("050-XFR-07")
def test_the_trailer_form_is_refused() -> None:
    """We chose not to take the form that has its hash behind it: neither as bytes nor by stream."""
    trailer = "⋯🖧: P\n".encode() + PLEX[MARKLINE_BYTES:] + b"\n" + hash_of(PLEX) + b"\n"
    left, right = participant(0, [note(1)]), participant(1, [])
    interlace(left, right, NOW, records_of(0, lambda _: trailer))
    assert aborted(right) is Code.INTERLACE_UNASKED
    assert stored(right) == set()
    one, other = ends(store_of([note(1)]), MemoryStore())
    run(one, other, 10**6, lambda i, b: b.replace(note(1).raw, trailer) if i == 0 else b)
    assert isinstance(other.last, m.Aborted)
    assert other.last.code is Code.RECORD_TRAILER_FORM
    assert other.store.count() == 0


@pytest.mark.req("050-XFR-05")
def test_record_bytes_are_bytes() -> None:
    """Whatever data says, it is never taken for facts, for the end of a phase, or for a record."""
    texts = [
        b"MayRequest('P.x.H3')\n", b"\n\n\n", b"it's 'quoted' \\ \xff\x00\r\n", note(9).raw,
        b"TickReady('1700000010:000000000')\n" * 100, bytes(range(256)) * 50, b"",
    ]  # fmt: skip
    records: list[Record] = [build_blob(text) for text in texts]
    for size in (1, 7, 10**6):
        one, other = ends(store_of(records), MemoryStore())
        run(one, other, size)
        assert isinstance(other.last, m.Closed)
        for record in records:
            kept = other.store.load(record.hash)
            assert kept is not None
            assert kept.raw == record.raw
        assert other.store.count() == len(records)
    left, right = participant(0, records, EVERYTHING), participant(1, [], EVERYTHING)
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert tap.records() == [record.raw for record in sorted(records, key=lambda r: r.hash)]
    assert not any(b"quoted" in block for block in tap.blocks())


# --- claims ---


@pytest.mark.req("050-STA-04", "050-ADF-04", "050-ARC-06")
def test_a_false_claim_is_a_claim_and_the_record_is_the_truth() -> None:
    """Claimed to be a note, requested as one, and found to be something else (L74).

    What rules would not have asked for does not get in by a claim.
    """
    truth = note(1, app="spam", group="elsewhere")
    left, right = participant(0, [note(1), note(2)], open=True), participant(1, [], open=True)
    pair = Pair(left, right, passing_off(note(1), truth.raw))
    pair.start(NOW)
    while right.machine.phase is not Phase.TRANSFER:
        pair.step(NOW)
    # Advertised, and not a fact of any record yet.
    claimed = rows(right, "AdvertisedField", 5, truth.hash)
    assert {row[2:] for row in claimed} == {("App", "0", "notes"), ("Group", "0", "notes-demo")}
    assert rows(right, "Have", 1) == rows(right, "Field", 4) == []
    pair.run(NOW)
    assert right.idle
    # Rules decided by the claim, and the claim was false: it is as if it had not come.
    assert stored(right) == {note(2).hash}
    assert rows(right, "Field", 4, truth.hash) == []
    assert truth.hash not in right.machine.tables[0]
    (rejected,) = [event for event in right.told if isinstance(event, m.RecordRejected)]
    assert (rejected.hash, rejected.code) == (truth.hash, Code.INTERLACE_CLAIM)


@pytest.mark.req("050-ARC-06", "050-COR-06")
def test_adverts_alone_make_no_facts() -> None:
    """A peer that advertises and then sends nothing leaves nothing behind."""
    left, right = participant(0, [note(i) for i in range(4)]), participant(1, [])

    def keep(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        return [] if side == 0 and isinstance(crossing, m.PeerRecord) else [crossing]

    interlace(left, right, NOW, keep)
    assert len(rows(right, "Advertised", 2)) == 4
    assert rows(right, "Have", 1) == rows(right, "Field", 4) == []
    assert stored(right) == set()


# --- requests ---


def lists(tap: Tap, side: int) -> list[int]:
    """Return how many records each request list of a side asks for."""
    return [b.count(b"MayRequest(") for b in tap.blocks(side) if b.startswith(b"MayRequest(")]


@pytest.mark.req("050-REQ-02")
def test_a_request_list_may_be_a_part_of_what_is_wanted() -> None:
    records = [note(i) for i in range(25)]
    left = participant(0, records)
    right = participant(1, [], parameters=Parameters(request_at_once=10))
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert lists(tap, 1) == [10, 10, 5]
    assert stored(right) == {record.hash for record in records}
    assert result(right).not_available == ()


ONE_IS_ENOUGH = module_from_text(
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Cardinality(Have(_),'<','1').\n"
)


@pytest.mark.req("050-REQ-05")
def test_what_was_asked_for_is_stored_though_nobody_would_ask_for_it_now() -> None:
    records = [note(i) for i in range(3)]
    left = participant(0, records, EVERYTHING)
    right = participant(1, [], ONE_IS_ENOUGH)
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert lists(tap, 1) == [3]
    assert stored(right) == {record.hash for record in records}
    assert result(right).rejected == ()
    assert right.local.policy is not None
    assert not right.local.policy.may_request


@pytest.mark.req("050-COR-03", "050-REQ-01")
@pytest.mark.parametrize("when", ["advertise", "request"])
def test_what_another_exchange_has_brought_is_not_asked_for(when: str) -> None:
    """Deferred here, stored by somebody else meanwhile: it is here now, and not requestable."""
    records = [note(i) for i in range(4)]
    wanted = sorted(record.hash for record in records)
    left = participant(0, records, limits=Limits(transfer_phase_bytes=1))
    right = participant(1, [])
    tap = Tap()

    def listen(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        first = len(tap.records()) == 1 and right.store.count() == 1
        if first and (when == "request" or side == 1):
            right.store.save([record for record in records if record.hash == wanted[-1]])
        return [crossing]

    tap.change = listen
    interlace(left, right, NOW, tap)
    assert stored(right) == set(wanted)
    asked = [[fact[1] for fact in tap.facts("MayRequest", 1)].count(name) for name in wanted]
    assert asked[0] == 1
    assert asked[-1] == 1  # in the first list, before it was here
    assert len(tap.records()) == 3


@pytest.mark.req("050-SND-01", "050-ARC-01")
def test_what_may_be_sent_and_is_not_here_is_not_advertised_until_it_is() -> None:
    """Rules may name a record that nobody has stored: the target of a link."""
    target = note(7, group="elsewhere")
    linking = build_plex(
        group="notes-demo", app="notes", name="a", tai=f"{1:010d}:{0:09d}",
        extras=[("+Link", f"see {target.hash}")],
    )  # fmt: skip
    targets = module_from_text(
        "SelectHave(T) :- Have(P), RecordLink(P,_,_,_,T).\n"
        "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    left = participant(0, [linking], targets, open=True)
    right = participant(1, [], targets, open=True)
    tap = Tap()
    pair = Pair(left, right, tap)
    pair.start(NOW)
    pair.run(NOW)
    assert left.local.policy is not None
    assert (target.hash,) in left.local.policy.may_send
    assert target.hash not in left.machine.tables[0]
    assert {fact[1] for fact in tap.facts("Advertised", 0)} == {linking.hash}
    assert stored(right) == {linking.hash}
    left.store.save([target])
    pair.wake(NOW)
    assert target.hash in left.machine.tables[0]
    assert stored(right) == {linking.hash, target.hash}


@pytest.mark.req("050-COR-04", "050-XFR-02")
def test_what_may_no_longer_be_sent_is_not_sent_though_it_was_advertised() -> None:
    """An advertisement of the peer, heard after ours, takes back what ours offered."""
    shy = module_from_text(
        "SelectHave(P) :- Have(P), not Stop('now').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "Stop('now') :- Advertised(Q,S), AdvertisedField(Q,S,'Name',_,'n/99').\n"
    )
    left = participant(0, [note(1), note(2)], shy)
    right = participant(1, [note(99)], EVERYTHING)
    tap = Tap()
    interlace(left, right, NOW, tap)
    assert {fact[1] for fact in tap.facts("MayRequest", 1)} == {note(1).hash, note(2).hash}
    assert {fact[1] for fact in tap.facts("NotAvailable", 0)} == {note(1).hash, note(2).hash}
    assert tap.records(0) == []
    assert result(right).not_available == tuple(sorted((note(1).hash, note(2).hash)))


@pytest.mark.req("050-XFR-06", "050-ERR-14")
def test_a_second_copy_of_a_record_ends_the_exchange() -> None:
    def twice(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        again = side == 0 and isinstance(crossing, m.PeerRecord)
        return [crossing, crossing] if again else [crossing]

    left, right = participant(0, [note(1), note(2)]), participant(1, [])
    interlace(left, right, NOW, twice)
    assert aborted(right) is Code.INTERLACE_UNASKED
    assert len(stored(right)) == 1  # it was valid and asked for, and stays


@pytest.mark.req("050-VLD-06", "050-XFR-04")
def test_what_was_refused_is_asked_for_again_when_there_is_reason_to() -> None:
    """Not again in the same round, unless it is advertised anew; in the next round it may be (A34)."""
    left, right = participant(0, [note(1)], open=True), participant(1, [], open=True)
    tap = Tap(records_of(0, lambda raw: raw[:-1] if raw == note(1).raw else raw))
    pair = Pair(left, right, tap)
    pair.start(NOW)
    pair.run(NOW)
    assert [fact[1] for fact in tap.facts("MayRequest", 1)] == [note(1).hash]
    assert right.idle
    left.store.save([note(2)])
    tap.change = None
    pair.wake(NOW)
    assert stored(right) == {note(1).hash, note(2).hash}
    round_ = transfer.Transfer(Limits(), DEFAULT_PARAMETERS, 1000)
    round_.take_evaluation(m.Evaluated(requestable=frozenset({note(1).hash})))
    advertised, formats = Partitions.of({note(1).hash: bytes(32)}), frozenset({"H3"})
    round_.ask(round_.requestable(advertised, formats, 1))
    round_.conclude([("NotAvailable", note(1).hash)])
    assert round_.requestable(advertised, formats, 1) == {}
    round_.advertised_anew([note(2).hash], ())
    assert round_.requestable(advertised, formats, 1) == {}
    round_.advertised_anew([note(1).hash], ())
    assert round_.requestable(advertised, formats, 1) == {note(1).hash: bytes(32)}


@pytest.mark.req("050-XFR-06")
def test_nothing_is_heard_after_the_end_of_a_phase() -> None:
    """Even while this side is still busy: a phase that was ended stays ended."""
    theirs, mine = Side(index=0, module=NOTES), Side(index=1, module=NOTES)
    machine = InterlaceMachine(mine)
    for given in (m.Started(), *heard_until_advertise(theirs, mine)):
        machine.receive(given, NOW)
    assert machine.phase is Phase.ADVERTISE  # and its evaluation is not done yet
    assert machine.receive(m.PeerPhaseEnd(), NOW) == []
    told, _ = machine.receive(m.PeerFacts(b""), NOW)
    assert isinstance(told, m.Emit)
    assert isinstance(told.event, m.Aborted)
    assert told.event.code is Code.INTERLACE_PHASE


def heard_until_advertise(theirs: Side, mine: Side) -> list[m.Input]:
    """Return what a side hears of the other in set-up and hello."""
    heard: list[m.Input] = []

    def listen(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if side == theirs.index and sum(isinstance(g, m.PeerPhaseEnd) for g in heard) < 2:
            heard.append(crossing)
        return [crossing]

    interlace(Participant(MemoryStore(), theirs), Participant(MemoryStore(), mine), NOW, listen)
    return heard


# --- receipts ---


@pytest.mark.req("050-OPS-04", "050-OPS-01")
def test_a_receipt_is_a_record_like_any_other() -> None:
    """The receiver signs what it has stored; the receipt travels by ordinary rules, or not at all."""

    def meet(*, receipts: bool) -> tuple[Participant, Participant, Tap]:
        module = module_from_text(
            NOTES.text
            + "SelectHave(P) :- Have(P), Field(P,'Group',_,'lace'), Field(P,'App',_,'receipt').\n"
            "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'receipt').\n"
        )
        left, right = participant(0, [note(1)], module), participant(1, [], module)
        save = right.store.save

        def saving(records: object) -> list[object]:
            outcomes = save(records)  # type: ignore[arg-type]
            for outcome in outcomes if receipts else ():
                assert outcome.value is not None
                save([receipt(outcome.value.hash)])
            return outcomes  # type: ignore[return-value]

        right.store.save = saving  # type: ignore[method-assign,assignment]
        tap = Tap()
        interlace(left, right, NOW, tap)
        return left, right, tap

    without, _, plain = meet(receipts=False)
    assert stored(without) == {note(1).hash}
    sender, receiver, tap = meet(receipts=True)
    made = receipt(note(1).hash)
    assert stored(sender) == stored(receiver) == {note(1).hash, made.hash}
    assert plain.predicates() <= tap.predicates() <= PREDICATES.keys()
    assert tap.records(1) == [made.raw]
    assert made.signed_by == BOB.verifier


def receipt(of: str) -> Seal:
    plex = build_plex(
        group="lace", app="receipt", name=f"store/{of}", tai=NOW,
        extras=[("Stored-From", AUTHORITY.verifier), ("Stored-Hash", of)],
    )  # fmt: skip
    return seal(plex, BOB, aux=forge.AUX)
