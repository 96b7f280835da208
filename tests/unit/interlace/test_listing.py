"""Two readings of a listing: at one go, and fact by fact; they agree wherever both speak."""

from __future__ import annotations

import random

import pytest
from effort import examples
from exchanges import note
from hypothesis import given, settings
from hypothesis import strategies as st
from links import Meeting, held

from lace.errors import LaceError
from lace.interlace import messages as m
from lace.interlace import reconcile
from lace.interlace.advertise import Advertisement, advertise, gather
from lace.interlace.facts import block, read_block
from lace.interlace.listing import last_advert, read_listing
from lace.interlace.parameters import Parameters
from lace.limits import Limits
from lace.policy.origin import SourceLabel
from lace.record.facts import fields
from lace.recordstore import MemoryStore

SOURCE = SourceLabel("V.peer")
RECORDS = [note(i) for i in range(6)]

VALUES = st.one_of(
    st.sampled_from(["", "g", "notes/1", "it's", "a\\b", "é", "','", "')", "x" * 40]),
    st.text(max_size=5).filter(lambda text: "\n" not in text and "\r" not in text),
)
FIELDS = st.lists(
    st.tuples(st.sampled_from(["App", "Group", "Tag", "it's"]), st.integers(0, 12), VALUES),
    max_size=4,
    unique_by=lambda field: field[:2],
)


def adverts(chosen: list[tuple[int, list[tuple[str, int, str]]]]) -> list[Advertisement]:
    return [advertise(RECORDS[i].hash, SOURCE, some, None) for i, some in chosen]


@pytest.mark.req("050-ADF-01")
@settings(max_examples=examples(300), deadline=None)
@given(
    chosen=st.lists(st.tuples(st.integers(0, 5), FIELDS), max_size=6, unique_by=lambda c: c[0]),
    damage=st.one_of(st.none(), st.tuples(st.integers(0, 400), st.sampled_from("'\\\n0xé,"))),
    order=st.randoms(use_true_random=False),
    shuffled=st.booleans(),
)
def test_both_readings_agree(
    chosen: list[tuple[int, list[tuple[str, int, str]]]],
    damage: tuple[int, str] | None,
    order: object,
    shuffled: bool,
) -> None:
    made = adverts(chosen)
    facts = [fact for advert in made for fact in advert.facts()]
    if shuffled:
        order.shuffle(facts)  # type: ignore[attr-defined]
    text = block(facts).decode()
    if damage is not None:
        at, character = damage
        text = text[:at] + character + text[at + 1 :]
    content = text.encode()
    at_once = read_listing(content, SOURCE)
    if at_once is None:
        return
    slowly = gather(read_block(content), SOURCE)
    assert {record: advert for record, (advert, _) in at_once.items()} == slowly
    assert {record: leaf for record, (_, leaf) in at_once.items()} == {
        record: advert.digest() for record, advert in slowly.items()
    }


def test_what_honest_peers_send_is_read_at_one_go() -> None:
    made = [advertise(r.hash, SOURCE, fields(r), None) for r in RECORDS]
    content = b"".join(advert.canonical() for advert in made)
    assert read_listing(content, SOURCE) == {a.record: (a, a.digest()) for a in made}
    assert content == block([fact for advert in made for fact in advert.facts()])


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[:-1],
        lambda t: t.replace("V.peer", "V.other"),
        lambda t: t.replace("V.peer", "V.other", 1),
        lambda t: t + t,
        lambda t: "\n" + t,
        lambda t: t.replace("'0'", "'00'"),
        lambda t: t.replace("'0'", "'-1'"),
        lambda t: t.replace("P.", "Q.", 1),
        lambda t: "".join(reversed(t.splitlines(keepends=True))),
        lambda t: t.replace("notes-demo", "né"),
    ],
)
def test_anything_else_is_left_to_the_general_reading(change: object) -> None:
    advert = advertise(RECORDS[0].hash, SOURCE, fields(RECORDS[0]), None)
    text = change(advert.canonical().decode())  # type: ignore[operator]
    assert read_listing(text.encode(), SOURCE) is None


def test_limits_hold() -> None:
    advert = Advertisement(RECORDS[0].hash, SOURCE, (("App", 0, "x" * 900),))
    small = Limits(value_bytes=500)
    assert read_listing(advert.canonical(), SOURCE) is not None
    assert read_listing(advert.canonical(), SOURCE, small) is None
    short = Limits(max_fact_block_size=1000)
    assert read_listing(advert.canonical(), SOURCE, short) is None
    with pytest.raises(LaceError):
        read_block(advert.canonical(), short)


class Cutting:
    """A tamperer that cuts what one side says behind some lines."""

    def __init__(self, chance: random.Random, often: float) -> None:
        self._chance, self._often = chance, often

    def __call__(self, _side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if not isinstance(crossing, m.PeerFacts):
            return [crossing]
        pieces = [b""]
        for line in crossing.content.splitlines(keepends=True):
            pieces[-1] += line
            if self._chance.random() < self._often:
                pieces.append(b"")
        return [m.PeerFacts(piece) for piece in pieces if piece]


@settings(max_examples=examples(40), deadline=None)
@given(
    chance=st.randoms(use_true_random=False),
    often=st.sampled_from([0.05, 0.3, 1.0]),
    longest=st.sampled_from([1, 200, 1 << 16]),
    tags=st.lists(st.sampled_from(["x", "it's", "é", "y" * 300]), min_size=2, max_size=9),
    limits=st.sampled_from(
        [Limits(), Limits(max_advertisements_in_delta=0, max_cells_in_sketch=0)]
    ),
)
def test_where_a_listing_is_cut_does_not_show(
    chance: random.Random, often: float, longest: int, tags: list[str], limits: Limits
) -> None:
    records = [note(i, extras=[("Tag", tag)]) for i, tag in enumerate(tags)]
    said = []
    for cutting in (Cutting(chance, 0.0), Cutting(chance, often)):
        stores = MemoryStore(), MemoryStore()
        stores[0].save(records)
        stores[1].save([note(100), records[0]])
        parameters = Parameters(hold_cut_bytes=longest)
        meeting = Meeting(stores, tamper=cutting, limits=limits, parameters=parameters).end()
        said.append([[what for by, what in meeting.crossed if by == side] for side in (0, 1)])
        assert held(stores[0]) == held(stores[1])
        assert len(held(stores[0])) == len(records) + 1
    assert said[0] == said[1]


def test_a_listing_is_read_at_one_go_wherever_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_given: object) -> None:
        raise AssertionError

    monkeypatch.setattr(reconcile, "gather", never)
    for often in (0.0, 0.1, 0.5, 1.0):
        stores = MemoryStore(), MemoryStore()
        stores[0].save([note(i) for i in range(50)])
        Meeting(stores, tamper=Cutting(random.Random(1), often)).end()
        assert len(held(stores[1])) == 50


@pytest.mark.parametrize("after", [b"HelloTAI('x')\n", b"Advertised(x)\n", b"x\n"])
def test_what_follows_an_advertisement_is_looked_at_when_it_comes(after: bytes) -> None:
    advert = advertise(RECORDS[0].hash, SOURCE, fields(RECORDS[0]), None).canonical()
    assert last_advert(advert) == 0
    assert last_advert(advert + advert) == len(advert)
    assert last_advert(after) is None
    assert last_advert(advert + after) is None
    assert last_advert(after + advert) == len(after)
    assert last_advert(b"") is None
