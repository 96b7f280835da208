"""Two readings of a listing: at one go, and fact by fact; they agree wherever both speak."""

from __future__ import annotations

import pytest
from effort import examples
from exchanges import note
from hypothesis import given, settings
from hypothesis import strategies as st

from lace.errors import LaceError
from lace.interlace.advertise import Advertisement, advertise, gather
from lace.interlace.facts import block, read_block
from lace.interlace.listing import read_listing
from lace.limits import Limits
from lace.policy.origin import SourceLabel
from lace.record.facts import fields

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
