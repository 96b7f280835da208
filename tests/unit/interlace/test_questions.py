"""Questions that no honest peer asks: refused before any work is done for them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from exchanges import note

from lace import b64a
from lace.codes import Code
from lace.crypto.native import digest
from lace.datalog.source import Fact
from lace.errors import LimitExceeded, ProtocolError
from lace.interlace import partition, reconcile
from lace.interlace.parameters import DEFAULT_PARAMETERS
from lace.interlace.partition import Partitions
from lace.interlace.reconcile import PeerAdverts
from lace.interlace.sketching import Sketching
from lace.interlace.summary import EMPTY, Summary, merkle_root
from lace.interlace.telling import OwnAdverts, told_table
from lace.policy.origin import SourceLabel

LIMITS = {
    "max_narrowing_depth": 12, "max_advertisement_records_listed": 1000,
    "max_partition_summaries": 200, "max_loop_iterations": 16, "max_fact_block_size": 1 << 26,
    "max_advertisements_in_delta": 1000, "max_cells_in_sketch": 1024,
}  # fmt: skip
ASK = "NarrowAdvertisementPartition"
LIST = "ListAdvertisementPartition"
ITEMS = "ListAdvertisementItems"
NAMES = [note(i).hash for i in range(100)]
KEY = bytes(32)


def own_adverts(names: Sequence[str] = NAMES) -> OwnAdverts:
    table = Partitions(2)
    table.put({name: digest(name.encode()) * 2 for name in names})
    return OwnAdverts(LIMITS, DEFAULT_PARAMETERS, table, Sketching(KEY, 0, table, 1024, 1000))


def prefixes(count: int) -> list[str]:
    """Return prefixes below which nothing lies."""
    used = {name[2:6] for name in NAMES}
    every = (b64a.encode(number.to_bytes(3, "big")) for number in range(count + len(used)))
    return [prefix for prefix in every if prefix not in used][:count]


def refused(own: OwnAdverts, *asks: Fact) -> Code:
    with pytest.raises(ProtocolError) as caught:
        own.answer(list(asks))
    return caught.value.code


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the trees that are made from here on, by how many leaves they have."""
    trees: list[int] = []

    def tree(leaves: list[bytes]) -> bytes:
        trees.append(len(leaves))
        return merkle_root(leaves)

    monkeypatch.setattr(partition, "merkle_root", tree)
    return trees


@pytest.mark.req("050-REC-06")
def test_an_empty_partition_is_narrowed_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    own, trees = own_adverts(), counted(monkeypatch)
    assert own.answer([(ASK, prefix) for prefix in prefixes(150)]).facts == []
    assert trees == []


@pytest.mark.req("050-REC-06")
def test_narrowing_makes_a_tree_for_each_part_that_has_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, trees = own_adverts(), counted(monkeypatch)
    beginning = NAMES[0][2:4]
    here = [name for name in NAMES if name[2:4] == beginning]
    assert len(own.answer([(ASK, beginning)]).facts) == len({name[4] for name in here})
    assert sum(trees) == len(here)


@pytest.mark.parametrize("standard", [0, 1, 2, 3])
def test_children_are_the_summaries_that_are_not_empty(standard: int) -> None:
    table = Partitions(2, standard=standard)
    odd = [f"P.{'ab' + NAMES[0][2:4] * 30}.X", "P.ab.X", "P.abc.X", f"P.{NAMES[1][2:]}"[:40] + ".Y"]
    table.put({name: digest(name.encode()) * 2 for name in NAMES + odd})
    beginnings = [name[2:][:length] for name in NAMES[:20] + odd for length in (0, 1, 2, 3, 4, 42)]
    for prefix in {beginning.split(".")[0] for beginning in beginnings}:
        expected = [table.summary(prefix + character) for character in b64a.ALPHABET.decode()]
        found: list[Summary] = list(table.children(prefix))
        assert found == [summary for summary in expected if summary.count]


@pytest.mark.req("050-LIM-04", "050-REC-05", "050-REC-06")
@pytest.mark.parametrize("name", [ASK, LIST])
def test_no_more_questions_about_partitions_than_there_are_summaries(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each partition that was summarised, and one about everything."""
    most = LIMITS["max_partition_summaries"] + 1
    asks: list[Fact] = [(name, prefix) for prefix in prefixes(most + 1)]
    own = own_adverts()
    own.answer(asks[:most])
    with pytest.raises(LimitExceeded):
        own.answer(asks[most:])
    own, trees = own_adverts(), counted(monkeypatch)
    with pytest.raises(LimitExceeded) as caught:
        own.answer([(name, NAMES[0][2:4]), *asks[1:]])
    assert caught.value.limit == "max_partition_summaries"
    assert trees == []
    own.begin_loop()
    own.answer(asks[:most])


@pytest.mark.req("050-REC-05")
@pytest.mark.parametrize(
    ("first", "second", "is_taken"),
    [
        ("ab", "ab", False), ("ab", "abc", False), ("abc", "ab", False), ("", "a", False),
        ("a", "", False), ("ab", "ac", True), ("ab", "aa", True), ("abc", "abd", True),
    ],
)  # fmt: skip
def test_listings_of_a_loop_have_no_record_in_common(
    first: str, second: str, is_taken: bool
) -> None:
    for between in ([], [(LIST, "Z")], [(LIST, "~")]):
        own = own_adverts()
        own.answer([(LIST, first)])
        if first and second:
            own.answer(list(between))
        if is_taken:
            own.answer([(LIST, second)])
        else:
            assert refused(own, (LIST, second)) is Code.INTERLACE_PHASE


# --- tables ---

CHECK = b64a.encode(digest(b"x"))


@pytest.mark.parametrize(
    "facts",
    [
        [("AdvertisementTable", "3000", "")],
        [("AdvertisementTable", "3000", CHECK), ("AdvertisementDelta", "")],
        [("AdvertisementTable", "3000", ""), ("AdvertisementDelta", CHECK)],
        [("AdvertisementTable", "", CHECK)],
    ],
)
def test_a_table_without_a_digest_is_none(facts: list[Fact]) -> None:
    with pytest.raises(ProtocolError) as caught:
        told_table(facts)
    assert caught.value.code is Code.INTERLACE_SUMMARY


def test_a_table_with_its_digests_is_taken() -> None:
    told, base = told_table([("AdvertisementTable", "3", CHECK), ("AdvertisementDelta", CHECK)])
    assert told is not None
    assert (told.count, told.check, base) == (3, digest(b"x"), digest(b"x"))


# --- sketches ---


def items(*names: int) -> Fact:
    return ITEMS, b64a.encode(b"".join(name.to_bytes(8, "big") for name in names))


def asked_for_cells() -> tuple[OwnAdverts, list[int]]:
    """Return a side that has given cells, and the names of what it advertises."""
    own = own_adverts()
    own.answer([("SketchAdvertisements", "0", "8")])
    return own, list(own.sketching.own.names(KEY, 0)._names)  # type: ignore[attr-defined]


def test_items_are_listed_once() -> None:
    own, names = asked_for_cells()
    assert len(own.answer([items(*names[:2]), items()]).listing) == 2
    assert len(own.answer([items(*names[2:])]).listing) == len(NAMES) - 2
    assert own.answer([items()]).listing == []
    assert own.sketching.memory >= 2 * len(NAMES) * 100


def test_more_items_than_there_are_advertisements_are_refused_undecoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, names = asked_for_cells()
    own.answer([items(names[0])])
    decoded: list[str] = []
    monkeypatch.setattr(b64a, "decode", decoded.append)
    asks = [items(number) for number in range(len(NAMES))]
    assert refused(own, *asks) is Code.INTERLACE_SUMMARY
    assert decoded == []


def test_items_without_cells_before_them_are_refused_undecoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(b64a, "decode", pytest.fail)
    assert refused(own_adverts(), items(1)) is Code.INTERLACE_SUMMARY


@pytest.mark.parametrize("ask", [(ITEMS, "0"), (ITEMS, "00"), (ITEMS, "!"), items(1)])
def test_items_of_nothing_are_refused(ask: Fact) -> None:
    own, _ = asked_for_cells()
    assert refused(own, ask) is Code.INTERLACE_SUMMARY


def test_an_item_asked_for_twice_is_refused_for_that() -> None:
    for together in (True, False):
        own, names = asked_for_cells()
        asks = [items(names[0], names[0])] if together else [items(names[0])]
        if not together:
            own.answer(asks)
        with pytest.raises(ProtocolError, match="twice") as caught:
            own.answer(asks)
        assert caught.value.code is Code.INTERLACE_SUMMARY


def test_a_side_says_once_that_it_waits() -> None:
    own, wait = own_adverts(), ("SketchAdvertisements", "0", "0")
    own.answer([wait])
    assert refused(own, wait) is Code.INTERLACE_PHASE


def cells(own: OwnAdverts, first: int, last: int) -> list[Fact]:
    names = own.sketching.own.names(KEY, 0)
    return [
        ("AdvertisementSketch", str(at), b64a.encode(names.cells(at, min(at + 50, last))))
        for at in range(first, last, 50)
    ]


def looking_for(count: int) -> tuple[PeerAdverts, int]:
    """Return a side that has asked for cells of a table, and up to which one."""
    own = own_adverts()
    source = SourceLabel("Opq_x")
    peers = PeerAdverts(source, LIMITS, DEFAULT_PARAMETERS, own.table, Partitions(), own.sketching)
    (ask,) = peers.take_advertise([("AdvertisementTable", str(count), CHECK)], 2, {})
    assert ask[:2] == ("SketchAdvertisements", "0")
    return peers, int(ask[2])


def test_cells_come_in_any_order_and_no_more_than_were_asked_for() -> None:
    other = own_adverts(NAMES[:90])
    peers, last = looking_for(90)
    (ask,) = peers.take_answer(cells(other, 0, last)[::-1], {})
    assert ask[0] == ITEMS
    peers, last = looking_for(90)
    with pytest.raises(ProtocolError) as caught:
        peers.take_answer(cells(other, 0, last + 8), {})
    assert caught.value.code is Code.INTERLACE_SUMMARY
    peers, last = looking_for(90)
    (ask,) = peers.take_answer(cells(other, 0, 8), {})  # fewer are taken
    assert ask[:2] == ("SketchAdvertisements", "8")


def test_cells_that_nobody_asked_for_are_refused() -> None:
    other = own_adverts(NAMES[:90])
    peers, last = looking_for(90)
    peers.take_answer(cells(other, 0, last), {})
    with pytest.raises(ProtocolError) as caught:
        peers.take_answer(cells(other, last, last + 8), {})  # items were asked for
    assert caught.value.code is Code.INTERLACE_SUMMARY
    own = own_adverts()
    quiet = PeerAdverts(
        SourceLabel("Opq_x"), LIMITS, DEFAULT_PARAMETERS, own.table, Partitions(), own.sketching
    )
    with pytest.raises(ProtocolError) as caught:
        quiet.take_answer(cells(other, 0, 8), {})  # nothing was
    assert caught.value.code is Code.INTERLACE_SUMMARY


# --- listings ---


def adverts(count: int) -> list[Fact]:
    """Return advertisements in a spelling that is read fact by fact, each said twice."""
    told: list[Fact] = [("Advertised", f"P.{number}.X", "Opq_x") for number in range(count)]
    return told * 2


def peer_adverts(**limits: int) -> PeerAdverts:
    own = own_adverts([])
    source = SourceLabel("Opq_x")
    return PeerAdverts(
        source, LIMITS | limits, DEFAULT_PARAMETERS, own.table, Partitions(), own.sketching
    )


@pytest.mark.req("050-LIM-03")
@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("max_advertisement_records_listed", []),
        (
            "max_advertisements_in_delta",
            [("AdvertisementTable", "5", CHECK), ("AdvertisementDelta", CHECK)],
        ),
    ],
)
def test_too_many_advertisements_are_refused_before_anything_is_made_of_them(
    name: str, before: list[Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer_adverts(**{name: 5}).take_advertise(before + adverts(5), 2, {})
    monkeypatch.setattr(reconcile, "gather", pytest.fail)
    with pytest.raises(LimitExceeded) as caught:
        peer_adverts(**{name: 5}).take_advertise(before + adverts(6), 2, {})
    assert (caught.value.limit, caught.value.observed) == (name, 6)


@pytest.mark.req("050-REC-05")
def test_more_advertisements_than_were_asked_for_are_refused_before_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconcile, "gather", pytest.fail)
    peers = peer_adverts()
    summary = Summary("aa", 5, digest(b"x"))
    assert peers.take_advertise([summary.fact()], 2, {}) == [(LIST, "aa")]
    with pytest.raises(ProtocolError) as caught:
        peers.take_answer(adverts(6), {})
    assert caught.value.code is Code.INTERLACE_LISTING


@pytest.mark.req("050-LIM-04")
def test_too_many_summaries_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = [Summary(prefix, 1, digest(b"x")).fact() for prefix in ("aa", "ab", "ac")]
    everything = Summary("", 0, EMPTY).fact()
    peer_adverts(max_partition_summaries=2).take_advertise(
        [*facts[:2], *facts[:2], everything], 2, {}
    )
    monkeypatch.setattr(reconcile, "parse_summary", pytest.fail)
    with pytest.raises(LimitExceeded) as caught:
        peer_adverts(max_partition_summaries=2).take_advertise(facts, 2, {})
    assert (caught.value.limit, caught.value.observed) == ("max_partition_summaries", 3)
