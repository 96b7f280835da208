from __future__ import annotations

import random
import zlib
from dataclasses import replace

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from sides import Participant
from wires import EVERYTHING, NOW, End, ends, hashes, notes, run, store_of

from lace import b64a
from lace.crypto import SigningKey
from lace.driving.pair import interlace
from lace.errors import Code
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.recordstore import MemoryStore
from lace.selectors import selector
from lace.stream import items as i
from lace.stream import packing
from lace.stream.binding import WORKING, Binding, farewell

KEY = SigningKey(b"\x0c" * 32)
OTHER = SigningKey(b"\x0d" * 32)


def last(end: End) -> m.Event:
    assert end.events, "no exchange took place"
    return end.last


@pytest.mark.parametrize("size", [1, 7, 64, 100, 333, 1 << 16])
@pytest.mark.parametrize("keys", [(KEY, OTHER), (KEY, None), (None, OTHER)])
def test_proofs_are_given_however_the_bytes_are_cut(
    size: int, keys: tuple[SigningKey | None, SigningKey | None]
) -> None:
    """A side that waits for the end of what the other one offers hears of it in any chunk."""
    left, right = ends(
        store_of(notes(3)),
        store_of(notes(3, start=2)),
        accepting={"key": keys[0]},
        connecting={"key": keys[1]},
    )
    run(left, right, size)
    assert left.closed
    assert right.closed
    assert len(hashes(left.store)) == len(hashes(right.store)) == 5
    proven = [end.binding.peer_verifier for end in (right, left)]
    assert proven == [None if key is None else key.verifier for key in keys]


@pytest.mark.req("060-TRN-03", "050-PRF-01")
@settings(max_examples=examples(20), deadline=None)
@given(
    size=st.integers(1, 4000),
    here=st.integers(0, 90),
    there=st.integers(0, 90),
    packs=st.tuples(st.booleans(), st.booleans()),
)
def test_an_exchange_over_bytes_ends_like_one_without(
    size: int, here: int, there: int, packs: tuple[bool, bool]
) -> None:
    size = max(size, 5 * (here + there))  # keeps it quick
    mine, theirs = notes(here), notes(there, start=45)
    left, right = ends(
        store_of(mine),
        store_of(theirs),
        accepting={"packs": packs[0]},
        connecting={"packs": packs[1]},
    )
    run(left, right, size)
    direct = [
        Participant(store_of(records), Side(index=index, module=EVERYTHING), left.exposure)
        for index, records in enumerate((mine, theirs))
    ]
    interlace(direct[0], direct[1], NOW)
    for end, plain in zip((left, right), direct, strict=True):
        assert hashes(end.store) == hashes(plain.store)
        assert [type(event) for event in end.events] == [type(event) for event in plain.told]
        assert isinstance(last(end), m.Closed)
    assert (packing.MARK in left.sent + right.sent) <= all(packs)


@pytest.mark.req("060-TRN-04")
def test_phases_on_the_wire_follow_the_decided_order() -> None:
    left, right = ends(store_of(notes(2)), MemoryStore(), accepting={"key": KEY})
    run(left, right)
    found = i.ItemReader().feed(bytes(left.sent))
    kinds: list[list[str]] = [[]]
    for item in found:
        if isinstance(item, i.PhaseEnd):
            kinds.append([])
        elif isinstance(item, i.FactLines):
            kinds[-1] += [line.split(b"(")[0].decode() for line in item.content.split(b"\n")[:-1]]
        else:
            kinds[-1].append(type(item).__name__)
    assert kinds[0] == ["Preface", "Resource", "ExchangeOperand"]
    assert set(kinds[1]) <= {
        "HelloExchangePlan", "HelloSigner", "HelloTAI", "HelloTickInterval", "HelloRecordFormat",
        "HelloAllAdvertisedFields", "HelloLimit", "Comments", "RecordBytes",
    }  # fmt: skip
    assert set(kinds[2]) <= {"Advertised", "AdvertisedField"}
    assert ["RecordBytes", "RecordBytes"] in kinds[3:]
    assert kinds[-1] == []


@pytest.mark.req("060-TRN-04")
@pytest.mark.parametrize(
    ("inserted", "code"),
    [
        (i.preface("0" * 43), Code.ILTP_PREFACE),
        (b"MayRequest('P.x.H3')\n", Code.INTERLACE_PHASE),
        (notes(1)[0].raw, Code.INTERLACE_PHASE),
        (b"Nonsense('x')\n", Code.INTERLACE_BLOCK),
        (b"\n", Code.INTERLACE_PHASE),
        (b"!", Code.ILTP_ITEM),
        ("🗜: deflate\nData-Length: 3\nFull-Length: 9\n\nabc".encode(), Code.ILTP_ITEM),
    ],
)
def test_an_item_in_the_wrong_place_aborts(inserted: bytes, code: Code) -> None:
    left, right = ends(store_of(notes(2)), MemoryStore())

    def insert(index: int, chunk: bytes) -> bytes:
        preface = i.preface(right.endpoint.nonce)
        if index == 1 and chunk.startswith(preface):
            return preface + inserted + chunk[len(preface) :]
        return chunk

    run(left, right, 10**6, insert)
    event = last(left)
    assert isinstance(event, m.Aborted)
    assert event.code is code
    assert left.binding.receive(b"\n") == [] or code is not Code.ILTP_ITEM


@pytest.mark.req("060-TRN-06")
def test_a_module_that_is_not_what_its_id_says_aborts() -> None:
    left, right = ends(store_of(notes(2)), MemoryStore())
    run(left, right, 10**6, lambda _index, chunk: chunk.replace(b"Have(P).", b"Have(Q)."))
    event = last(left)
    assert isinstance(event, m.Aborted)
    assert event.code is Code.POLICY_MODULE_ID


def carry_until_records(left: End, right: End) -> bytes:
    """Carry everything but records to the accepting side; return the records that wait."""
    read = [0, 0]
    both = (left, right)
    mark = "🖧".encode()
    while mark not in right.sent:
        for index in (1, 0):  # the connecting side last, so that its records stay behind
            chunk = bytes(both[index].sent[read[index] :])
            read[index] += len(chunk)
            both[1 - index].take(chunk)
    before = right.sent.index(mark)
    left.take(bytes(right.sent[read[1] : before]))
    return bytes(right.sent[before:])


@pytest.mark.req("060-TRN-09", "050-ERR-17")
def test_an_end_in_mid_phase_aborts_with_the_partial_result() -> None:
    left, right = ends(MemoryStore(), store_of(notes(5)))
    records = carry_until_records(left, right)
    left.take(records[: len(records) // 2])
    left.give(m.PeerGone())
    event = last(left)
    assert isinstance(event, m.Aborted)
    assert event.code is Code.INTERLACE_GONE
    assert len(event.result.received) == left.store.count() == 2


@pytest.mark.req("060-TRN-09")
def test_an_end_between_phases_is_orderly_and_one_after_a_farewell_is_not() -> None:
    left, _ = ends(MemoryStore(), MemoryStore())
    left.binding.receive(i.preface("0" * 43))
    assert left.binding.end() == m.PeerGone(orderly=False)
    left.binding.receive(b"\n")
    assert left.binding.end() == m.PeerGone(orderly=True)
    left.binding.receive(WORKING)
    assert left.binding.end() == m.PeerGone(orderly=True)  # a word in between is no phase
    left.binding.receive(b"M")
    assert left.binding.end() == m.PeerGone(orderly=False)
    left.binding.receive(b"x()\n\n" + farewell(Code.SERVE_FULL))
    assert left.binding.end() == m.StreamFailed(Code.INTERLACE_GONE, "the peer gave up: serve.full")


def test_a_plan_may_be_told_before_it_is_due() -> None:
    left, _ = ends(MemoryStore(), MemoryStore())
    parties = (Party(index=0, module=EVERYTHING), Party(index=1, module=EVERYTHING))
    plan = ExchangePlan(label_operands(*parties))
    told = i.resource(plan.id, plan.transcript.encode())
    fresh = Binding(left.endpoint)
    assert fresh.receive(i.preface("0" * 43) + told) == []
    fresh.receive(b"\n\n")
    (failed,) = fresh.receive(told)
    assert isinstance(failed, m.StreamFailed)
    assert failed.code is Code.ILTP_ORDER


@pytest.mark.req("060-TRN-08")
@pytest.mark.parametrize("encrypted", [True, False])
def test_rules_see_encryption_and_address_only_as_this_process_knows_them(encrypted: bool) -> None:
    module = module_from_text(
        "SelectHave(P) :- Have(P), TransportEncrypted(), Transport('tcp:here:1').\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    left, right = ends(
        store_of(notes(2)), MemoryStore(),
        accepting={"encrypted": encrypted, "transport": "tcp:here:1"},
        connecting={"encrypted": True},
    )  # fmt: skip
    left.module = module
    run(left, right)
    assert right.store.count() == (2 if encrypted else 0)


# --- packed lines ---


def test_advertisements_shrink_about_tenfold() -> None:
    records = notes(400, key=KEY)
    plain, packed = [
        ends(
            store_of(records), MemoryStore(),
            accepting={"packs": on, "key": KEY}, connecting={"packs": on, "key": KEY},
        )
        for on in (False, True)
    ]  # fmt: skip
    sizes = []
    for left, right in (plain, packed):
        left.module = right.module = selector("//g//notes//n/")
        run(left, right, 10**5)
        assert right.store.count() == 400
        sizes.append(len(left.sent) - sum(len(record.raw) for record in records))
    assert sizes[0] > 8 * sizes[1]


def packed_item(lines: bytes, length: int | None = None, full: int | None = None) -> bytes:
    body = zlib.compress(lines)
    head = f"deflate\nData-Length: {length or len(body)}\nFull-Length: {full or len(lines)}\n\n"
    return packing.MARK + head.encode() + body


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (packed_item(b"A()\n" * 100, full=399), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n" * 100, full=401), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n" * 100, full=4_000_000), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n" * 100, length=4_000_000), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n" * 100, length=5), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n\nA()\n"), Code.ILTP_COMPRESSION),
        (packed_item(b"A()"), Code.ILTP_COMPRESSION),
        (packed_item(b"# a comment\n"), Code.ILTP_COMPRESSION),
        (packed_item(b"A" * 20_000 + b"\n"), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n").replace(b"deflate", b"zstd"), Code.ILTP_COMPRESSION),
        (packed_item(b"A()\n" * 10_000) * 2, Code.INTERLACE_BLOCK_SIZE),
    ],
)
def test_packed_bytes_that_lie_are_refused(item: bytes, code: Code) -> None:
    limits = replace(DEFAULT_LIMITS, max_fact_block_size=50_000)
    reader = i.ItemReader(limits, unpacks=True)
    found = [*reader.feed(item), *reader.close()]
    assert isinstance(found[-1], i.Malformed)
    assert found[-1].code is code


@pytest.mark.parametrize("ends_before", [0, 1, 2])
@pytest.mark.parametrize("offers", [True, False])
def test_packed_lines_come_after_a_hello_that_offered_them(offers: bool, ends_before: int) -> None:
    left, _ = ends(MemoryStore(), MemoryStore(), accepting={"packs": True})
    left.binding.receive(i.preface("0" * 43))
    hello = packing.OFFER if offers else b"HelloLimit('stream_deflate','0')\n"
    before = [b"", b"\n", b"\n" + hello + b"\n"][ends_before]
    found = left.binding.receive(before + packed_item(b"A('x')\n" * 100))
    if offers and ends_before == 2:
        assert found[-1] == m.PeerFacts(b"A('x')\n" * 100)
    else:
        assert isinstance(found[-1], m.StreamFailed)
        assert found[-1].code is Code.ILTP_COMPRESSION


def test_a_bomb_is_not_inflated_beyond_what_it_announced() -> None:
    bomb = zlib.compress(b"A()\n" * 10_000_000, 9)
    assert packing.unpack(bomb, 1000) is None
    assert packing.unpack(b"", 0) is None
    assert packing.unpack(zlib.compress(b"x") + b"y", 1) is None


@given(
    st.lists(
        st.sampled_from([b"A()\n", b"B('x')\n" * 50, b"C('%s')\n" % (b"y" * 9000)]), max_size=80
    )
)
def test_packing_is_undone_by_reading(parts: list[bytes]) -> None:
    lines = b"".join(parts)
    reader = i.ItemReader(unpacks=True)
    found = [item for piece in packing.pack(lines) for item in reader.feed(piece)]
    assert b"".join(item.content for item in found if isinstance(item, i.FactLines)) == lines
    assert all(isinstance(item, i.FactLines) for item in found)


@given(st.integers(1, 16), st.integers(0, 2**32))
def test_a_few_lines_are_packed_as_small_as_among_many(records: int, seed: int) -> None:
    """Small tables of deflate are quickly made; they may cost a few bytes, and no more."""
    chance = random.Random(seed)
    found = [b64a.encode(chance.randbytes(32)) for _ in range(records)]
    names = ("Advertised('P.{}.H3','s')\n", "AdvertisedField('P.{}.H3','s','App','0','notes')\n")
    lines = "".join(name.format(hash) for hash in found for name in names).encode()
    large = zlib.compressobj(packing._LEVEL, strategy=packing._STRATEGY)
    most = len(large.compress(lines) + large.flush())
    pieces = list(packing.pack(lines))
    assert len(pieces[-1]) <= (most + 8 if len(pieces) > 1 else packing._LEAST)
