"""A lake takes part in an exchange like any other lace, and both end up as two laces would."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from exchanges import NOW
from meeting import client, within
from rooms import AUTHORITY, PREFIX, room_records, write_bundle
from sides import Participant

from lace.answering.store import StoreAnswers
from lace.driving.connection import Connection
from lace.driving.pair import interlace
from lace.interlace import messages as m
from lace.interlace.advertise import Advertisement, advertise
from lace.interlace.machine import Side
from lace.interlace.parameters import Parameters
from lace.interlace.runs import KEY
from lace.lake import adverts as adverts_module
from lace.lake import facts as facts_module
from lace.lake import loading, sendable
from lace.lake import peer as peer_module
from lace.lake.adverts import StagedAdverts
from lace.lake.answers import LakeAnswers
from lace.lake.forget import forget
from lace.lake.ingest import ingest
from lace.lake.maintain import maintain
from lace.lake.ordered import OrderedNames, changes
from lace.lake.packed import PackedTable, pack
from lace.lake.peer import LakeStore, Mirror, lake_answers
from lace.lake.plan import PlanOverLake
from lace.lake.reading import local_frame
from lace.lake.serve import LakeHost
from lace.lake.tables import Lake
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import Operand, Origin, SourceLabel
from lace.policy.own import evaluate_own
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore.memory import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.rules import MemorySource
from lace.selectors import room, selector, with_support
from lace.transport.address import parse_address
from lace.vocabulary import SELECT_ADVERTISED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = room_records(120, seed=31, members=4, chain=1)
ROOM = room(PREFIX, authority=AUTHORITY.verifier, delegation=True)
FLAT = room(PREFIX, authority=AUTHORITY.verifier)
SELECTED = Exposure(default="selected")
SMALL = Parameters(list_up_to=2, sketch_from=4, list_at_once=8, answer_at_once=20)
HIDING = Exposure((
    module_from_text(
        "AllowQueryRecord(V,P) :- Viewer(V), Have(P), not Field(P,'Tag',_,'t1').\n"
        "Viewer(V) :- Peer(V).\n"
        "AllowQueryRecord(V,P) :- Have(P), Field(P,'Tag',_,V).\n",
        Facet.EXPOSE,
    ),
), default="none")  # fmt: skip


def lake_of(spark: SparkSession, root: Path, records: list[Record]) -> Lake:
    lake = Lake.open(spark, str(root), create=True)
    if records:
        ingest(lake, [str(write_bundle(root.with_suffix(".records"), records))])
    return lake


def hashes(lake: Lake) -> set[str]:
    return {row.hash for row in lake.snapshot().records.select("hash").collect()}


def embedded(
    index: int, records: list[Record], module: PolicyModule, exposure: Exposure
) -> Participant:
    store = MemoryStore()
    store.save(records)
    return Participant(store, Side(index=index, module=module), exposure)


def stored(side: Participant) -> set[str]:
    return {entry.hash for entry in side.store.read(0, 10**6)}  # type: ignore[arg-type]


def fixed_point(side: Connection) -> m.InterlaceResult:
    told = side.told if isinstance(side, Participant) else side.events()
    (found,) = [event.result for event in told if isinstance(event, m.FixedPoint)]
    return found


@pytest.mark.req("050-REC-10")
@pytest.mark.parametrize(
    ("modules", "exposure", "split"),
    [
        ((ROOM, ROOM), SELECTED, (slice(0, 70), slice(40, 130))),
        ((selector(PREFIX), ROOM), SELECTED, (slice(20, 130), slice(0, 50))),
        ((with_support(selector(PREFIX, {"Tag": "t2"})),) * 2, SELECTED, (slice(0, 60), slice(50, 130))),
        ((selector(PREFIX),) * 2, HIDING, (slice(0, 90), slice(60, 130))),
        ((ROOM, ROOM), SELECTED, (slice(0, 130), slice(0, 130))),
        ((ROOM, ROOM), SELECTED, (slice(0, 130), slice(0, 0))),
    ],
    ids=["a room", "two selectors", "support", "hiding", "the same", "from nothing"],
)  # fmt: skip
def test_a_lake_and_a_lace_end_up_as_two_laces_do(
    spark: SparkSession,
    tmp_path: Path,
    modules: tuple[PolicyModule, PolicyModule],
    exposure: Exposure,
    split: tuple[slice, slice],
) -> None:
    here, there = RECORDS[split[0]], RECORDS[split[1]]
    left, right = (
        embedded(index, records, modules[index], exposure)
        for index, records in enumerate((here, there))
    )
    interlace(left, right, NOW)
    lake = lake_of(spark, tmp_path / "lake", here)
    given = Side(index=0, module=modules[0])
    answers = lake_answers(LakeStore(lake), given, exposure)
    assert isinstance(answers, StoreAnswers)
    assert isinstance(answers.store, Mirror)
    side = Connection(given, lambda _side: answers)
    other = embedded(1, there, modules[1], exposure)
    interlace(side, other, NOW)
    assert hashes(lake) == stored(left)
    assert stored(other) == stored(right)
    assert fixed_point(side).received == fixed_point(left).received
    assert fixed_point(other).received == fixed_point(right).received
    assert lake.snapshot().records.count() == len(stored(left))


@pytest.mark.parametrize(
    ("modules", "exposure", "split"),
    [
        ((selector(PREFIX), FLAT), SELECTED, (slice(0, 100), slice(0, 110))),
        ((with_support(selector(PREFIX, {"Tag": "t2"})), selector(PREFIX)), HIDING, (slice(0, 40), slice(0, 60))),
    ],
    ids=["a room", "hiding"],
)  # fmt: skip
def test_a_large_lake_answers_with_spark_and_a_spool(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    modules: tuple[PolicyModule, PolicyModule],
    exposure: Exposure,
    split: tuple[slice, slice],
) -> None:
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    monkeypatch.setattr(loading, "DIRECT", 10)
    here, there = RECORDS[split[0]], RECORDS[split[1]]
    lake = lake_of(spark, tmp_path / "lake", here)
    given = Side(index=0, module=modules[0])
    answers = lake_answers(LakeStore(lake), given, exposure)
    assert isinstance(answers, LakeAnswers)
    side = Connection(given, lambda _side: answers)
    other = embedded(1, there, modules[1], exposure)
    interlace(side, other, NOW)
    left, right = (embedded(n, r, modules[n], exposure) for n, r in enumerate((here, there)))
    interlace(left, right, NOW)
    assert hashes(lake) == stored(left)
    assert stored(other) == stored(right)
    assert fixed_point(other).received == fixed_point(right).received
    spool = tmp_path / "lake" / "spool"
    assert not spool.exists() or not list(spool.iterdir())


SAME_TAG = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Signed-By',_,V), "
    "AdvertisedField(G,S,'App',_,'notes/member'), AdvertisedField(G,S,'Member',_,V).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Tag',_,T), "
    "AdvertisedField(Q,S,'Tag',_,T), AdvertisedField(Q,S,'App',_,'other').\n",
)


@pytest.mark.parametrize("most", [1 << 30, 5000], ids=["held", "staged"])
def test_what_a_peer_advertises_goes_to_spark_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """However many patterns of however many rules of both operands ask for it."""
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:60])
    plan = ExchangePlan((
        Operand(index=0, module=SAME_TAG, origin=Origin("O.left")),
        Operand(index=1, module=SAME_TAG, origin=Origin("O.right")),
    ))  # fmt: skip
    schema = plan.required_fields
    peer = plan.operands[1].source_label
    adverts = {r.hash: advertise(r.hash, peer, fields(r), schema) for r in RECORDS}
    source = MemorySource(f for a in adverts.values() for f in a.facts())
    selected = evaluate_own(SAME_TAG.program, source).rows(SELECT_ADVERTISED)
    sent: list[int] = []
    held = local_frame

    def counted(session: SparkSession, table: pa.Table) -> DataFrame:
        sent.append(table.nbytes)
        return held(session, table)

    monkeypatch.setattr(facts_module, "local_frame", counted)
    monkeypatch.setattr(adverts_module, "HELD_BYTES", most)
    said = StagedAdverts(lake.root)
    if most == 5000:
        said.say_as_here(r.hash for r in RECORDS[:60])
    else:  # as an exchange would make them
        said.say(adverts[r.hash] for r in RECORDS[:60])
    said.say(adverts[r.hash] for r in RECORDS[60:])
    assert said.memory < most
    over = PlanOverLake(
        snapshot=lake.snapshot(), plan=plan, index=0, exposure=SELECTED, adverts=said,
        schema=schema,
    )  # fmt: skip
    asked = over.may_request()
    here = lake.snapshot().hashes()
    assert set(asked) - here == {row[0] for row in selected} - here
    assert list(asked) == sorted(set(asked))
    large = [size for size in sent if size > 500]
    # Two predicates, or none of them where the workers read them.
    assert len(large) == (2 if most > 5000 else 0), sent
    asked.close()
    over.close()
    said.close()
    assert list(tmp_path.glob("lake/staged/*")) == []


@pytest.mark.parametrize("most", [1, 700, 1 << 30], ids=["written", "now and then", "held"])
def test_the_last_word_counts_wherever_it_lies(
    spark: SparkSession, tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adverts_module, "HELD_BYTES", most)
    peer = SourceLabel("V.peer")
    said, expected = StagedAdverts(str(tmp_path)), dict[str, Advertisement | None]()
    assert not said
    chance = random.Random(most)
    for number in range(8):
        some = sorted({f"n{chance.randrange(6)}" for _ in range(2)})
        match chance.randrange(3):
            case 0:
                words = ("Tag", 0, f"x{number}"), ("Tag", 1, "'"), ("Z", 0, "")
                adverts = [Advertisement(name, peer, words[: number % 4]) for name in some]
                said.say(adverts)
                expected |= {advert.record: advert for advert in adverts}
            case 1:
                said.say_as_here(some)
                expected |= dict.fromkeys(some)
            case _:
                said.withdraw(some)
                for name in some:
                    expected.pop(name, None)
        assert said.memory < most
        found = said.find(spark, {*some, *expected}, peer)
        assert found == {name: advert for name, advert in expected.items() if advert}
    assert said.are_written == (most < 1 << 30)
    rows = {row.hash: row.fields for row in said.frame(spark).collect()}
    assert {
        name: None if f is None else tuple((x.name, int(x["index"]), x.value) for x in f)
        for name, f in rows.items()
    } == {name: None if advert is None else advert.fields for name, advert in expected.items()}
    said.close()
    assert not said
    assert list(tmp_path.glob("staged/*")) == []


def test_names_in_order_are_compared_as_they_are_read(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(7)
    before = OrderedNames()
    for _ in range(4):
        names = [f"n{chance.randrange(40)}" for _ in range(30)]
        frame = spark.createDataFrame([(name,) for name in names], "hash string").repartition(3)
        written = OrderedNames.of_frame(frame, str(tmp_path))
        assert list(written) == list(OrderedNames.of(names)) == sorted(set(names))
        then, now = set(before), set(names)
        expected = sorted({(n, True) for n in now - then} | {(n, False) for n in then - now})
        assert list(changes(before, written)) == expected
        before.close()
        before = written
    before.close()
    none = spark.createDataFrame([], "hash string")
    nothing = OrderedNames.of_frame(none, str(tmp_path))
    assert list(nothing) == []
    nothing.close()
    assert list(tmp_path.glob("staged/*")) == []


# --- rules that compare advertisements ---

FOLLOWING = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'notes-demo').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'Tag',_,T), AdvertisedField(Q,S,'Tag',_,T), "
    "AdvertisedField(Q,S,'Name',_,N), AdvertisedField(P,S,'Name',_,M), N != M.\n"
    "SelectAdvertised(P,S) :- Linked(P,S).\n"
    "Linked(P,S) :- AdvertisedField(P,S,'App',_,'notes/member').\n"
    "Linked(P,S) :- AdvertisedField(P,S,'Signed-By',_,V), AdvertisedField(G,S,'Member',_,V), "
    "Linked(G,S).\n"
)
"""What is wanted hangs on what else is offered, in a recursion too."""
GIVING = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,'t1').\n"
    "SelectHave(P) :- Have(P), Field(P,'Tag',_,T), Advertised(Q,S), AdvertisedField(Q,S,'Tag',_,T), "
    "not Same(P,Q).\n"
    "Same(P,P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
"""What is given hangs on what the peer offers."""


@pytest.mark.parametrize("held", [1, 20_000, 1 << 30], ids=["written", "now and then", "held"])
@pytest.mark.parametrize("module", [FOLLOWING, GIVING], ids=["asking", "giving"])
def test_rules_that_compare_advertisements_end_as_in_a_lace(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: PolicyModule,
    held: int,
) -> None:
    """Wherever the advertisements lie, both sides end up as two laces would."""
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    monkeypatch.setattr(adverts_module, "HELD_BYTES", held)
    here, there = RECORDS[10:80], [*RECORDS[:20], *RECORDS[50:130]]
    lake = lake_of(spark, tmp_path / "lake", here)
    sides = [Side(index=n, module=module, parameters=SMALL) for n in (0, 1)]
    answers = lake_answers(LakeStore(lake), sides[0], SELECTED)
    assert isinstance(answers, LakeAnswers)
    side = Connection(sides[0], lambda _side: answers)
    other = embedded(1, there, module, SELECTED)
    interlace(side, other, NOW)
    left, right = (embedded(n, r, module, SELECTED) for n, r in enumerate((here, there)))
    interlace(left, right, NOW)
    assert fixed_point(left).received
    assert hashes(lake) == stored(left)
    assert stored(other) == stored(right)
    assert sorted(fixed_point(side).received) == sorted(fixed_point(left).received)
    assert sorted(fixed_point(other).received) == sorted(fixed_point(right).received)
    assert lake.snapshot().version.rows == len(stored(left))
    answers.close()
    assert list(tmp_path.glob("lake/staged/*")) == []


def test_what_a_peer_advertises_is_not_held(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times as much is no more to hold, but for 33 bytes for each record to ask for."""
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    monkeypatch.setattr(adverts_module, "HELD_BYTES", 20_000)
    small = Parameters(put_at_once=8)
    held: list[int] = []
    for size in (30, 120):
        lake = lake_of(spark, tmp_path / f"lake{size}", RECORDS[:size])
        side = Side(index=0, module=FOLLOWING, parameters=small)
        answers = lake_answers(LakeStore(lake), side, SELECTED)
        assert isinstance(answers, LakeAnswers)
        plan = ExchangePlan(tuple(
            Operand(index=n, module=FOLLOWING, origin=Origin(f"O.{n}")) for n in (0, 1)
        ))  # type: ignore[arg-type]  # fmt: skip
        schema, peer = plan.required_fields, plan.operands[1].source_label
        answers.recall(m.Recall(None, plan, schema))
        more = room_records(size, seed=77, members=4)
        said = tuple(advertise(r.hash, peer, fields(r), schema) for r in more)
        as_here = tuple(r.hash for r in RECORDS[:size])
        asked = m.Evaluate(plan=plan, schema=schema, runtime=(), advertised=said, adopted=as_here)
        wanted = 0
        for part in answers.evaluate(asked):
            wanted += len(part.requestable)
            assert len(part.requestable) <= small.put_at_once
            assert len(part.sendable) <= size
        assert wanted > size // 2
        said_table = answers._said
        assert said_table is not None
        held.append(answers.memory - KEY * wanted - said_table.memory)
        answers.close()
    assert held[1] <= held[0]


def test_what_came_by_another_way_is_asked_for_and_stored_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:20])
    store = LakeStore(lake)
    answers = lake_answers(store, Side(index=0, module=FOLLOWING), SELECTED)
    assert isinstance(answers, LakeAnswers)
    plan = ExchangePlan(tuple(
        Operand(index=n, module=FOLLOWING, origin=Origin(f"O.{n}")) for n in (0, 1)
    ))  # type: ignore[arg-type]  # fmt: skip
    schema, peer = plan.required_fields, plan.operands[1].source_label
    answers.recall(m.Recall(None, plan, schema))
    said = tuple(advertise(r.hash, peer, fields(r), schema) for r in RECORDS[20:60])
    parts = list(
        answers.evaluate(m.Evaluate(plan=plan, schema=schema, runtime=(), advertised=said))
    )
    wanted = sorted(frozenset[str]().union(*(part.requestable for part in parts)))
    by_hash = {str(r.hash): r for r in RECORDS}
    assert {o.status for o in store.save([by_hash[wanted[0]]])} == {"accepted"}
    parts = list(answers.evaluate(m.Evaluate(plan=plan, schema=schema, runtime=())))
    assert frozenset[str]().union(*(part.unrequestable for part in parts)) == {wanted[0]}
    outcomes = answers.save([by_hash[wanted[0]], by_hash[wanted[1]]])
    assert [o.status for o in outcomes] == ["duplicate", "accepted"]
    assert lake.snapshot().version.rows == 22
    answers.close()


def test_what_is_saved_is_committed_once(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:20])
    before = lake.snapshot()
    absent = {record.hash for record in RECORDS[20:]}
    fresh = RECORDS[15:30]
    some = LakeStore(lake).save(fresh, absent, before)
    assert [outcome.status for outcome in some] == ["duplicate"] * 5 + ["accepted"] * 10
    # What was missing when it was last looked has come by another way since.
    for store, given in ((LakeStore(lake), (absent, before)), (LakeStore(lake), ())):
        assert {outcome.status for outcome in store.save(fresh, *given)} == {"duplicate"}
    assert sorted(record.hash for record in lake.snapshot().read_all()) == sorted(
        record.hash for record in RECORDS[:30]
    )


def test_a_lake_that_ends_lets_exchanges_end_in_order(spark: SparkSession, tmp_path: Path) -> None:
    """The peer hears of the end, and has what it was sent until then."""
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:80])
    with SqliteStore(tmp_path / "phone.db") as store, ThreadPoolExecutor(2) as worker:
        host = LakeHost(LakeStore(lake), ROOM, SELECTED, worker=worker)
        guest = client(store, module=ROOM, exposure=SELECTED, worker=worker)
        begun = asyncio.Event()

        def hear(event: m.Event) -> None:
            if isinstance(event, m.RecordSaved):
                begun.set()

        async def meet() -> m.Closed | m.Aborted:
            async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
                exchange = await guest.dial(parse_address(address), stays=False, listen=hear)
                running = asyncio.create_task(exchange.run())
                await begun.wait()
            return await running

        ended = within(meet(), 120)
        assert isinstance(ended, m.Closed), ended
        assert {e.hash for e in store.read(0, 10**6)}  # type: ignore[arg-type]
    assert isinstance(host.last, m.Closed)


@pytest.mark.req("060-TRN-01")
def test_over_tcp_with_a_sqlite_lace(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:80])
    left = embedded(0, RECORDS[:80], ROOM, SELECTED)
    right = embedded(1, RECORDS[60:], ROOM, SELECTED)
    interlace(left, right, NOW)
    with SqliteStore(tmp_path / "phone.db") as store, ThreadPoolExecutor(2) as worker:
        store.save(RECORDS[60:])
        host = LakeHost(LakeStore(lake), ROOM, SELECTED, worker=worker)

        async def meet() -> m.Closed | m.Aborted:
            async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
                guest = client(store, module=ROOM, exposure=SELECTED, worker=worker)
                return await guest.sync(parse_address(address))

        ended = within(meet(), 120)
        assert isinstance(ended, m.Closed), ended
        assert {e.hash for e in store.read(0, 10**6)} == stored(right)  # type: ignore[arg-type]
    assert hashes(lake) == stored(left)
    assert isinstance(host.last, m.Closed)
    text = host.metrics.text()
    received = len(stored(left)) - 80
    assert f"lace_records_saved_total {received}\n" in text
    assert f"lace_store_records {len(stored(left))}\n" in text
    assert 'lace_ended_total{code="",how="closed"} 1\n' in text
    assert "lace_connections_total 1\n" in text


# --- large lakes that meet again ---


def meet(
    lake: Lake, store: MemoryStore, module: PolicyModule, link: bytes | None
) -> tuple[m.InterlaceResult, LakeAnswers]:
    sides = [Side(index=n, module=module, link=link, parameters=SMALL) for n in (0, 1)]
    answers = lake_answers(LakeStore(lake), sides[0], SELECTED)
    assert isinstance(answers, LakeAnswers)
    here = Connection(sides[0], lambda _side: answers)
    interlace(here, Participant(store, sides[1], SELECTED), NOW)
    return fixed_point(here), answers


@pytest.mark.long
@pytest.mark.parametrize("link", [b"link", None], ids=["a link", "strangers"])
@pytest.mark.parametrize(
    "module", [selector(PREFIX), FLAT, ROOM], ids=["apart", "a room", "delegation"]
)
def test_a_large_lake_follows_what_changed(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: PolicyModule,
    link: bytes | None,
) -> None:
    """However it is found out: both sides end up as two laces would, and ask Spark once."""
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:80])
    store, left, right = MemoryStore(), MemoryStore(), MemoryStore()
    store.save(RECORDS[:75] + RECORDS[85:95])
    left.save(RECORDS[:80])
    right.save(RECORDS[:75] + RECORDS[85:95])

    def check(result: m.InterlaceResult) -> None:
        sides = [
            Participant(s, Side(index=n, module=module), SELECTED)
            for n, s in enumerate((left, right))
        ]
        interlace(sides[0], sides[1], NOW)
        assert hashes(lake) == stored(sides[0])
        assert {e.hash for e in store.read(0, 10**6)} == stored(sides[1])  # type: ignore[arg-type]
        assert set(result.received) == set(fixed_point(sides[0]).received)

    check(meet(lake, store, module, link)[0])
    made: list[int] = []

    def counted(frame: DataFrame, folder: str, records: int, *more: Any) -> PackedTable:
        made.append(records)
        return pack(frame, folder, records, *more)

    monkeypatch.setattr(sendable, "pack", counted)
    check(meet(lake, store, module, link)[0])
    made.clear()  # rules that are asked by Spark are asked again if something was received
    check(meet(lake, store, module, link)[0])
    assert made == []
    for one in (store, right):
        one.save(RECORDS[95:100])
    ingest(lake, [str(write_bundle(tmp_path / "more.records", RECORDS[100:110]))])
    left.save(RECORDS[100:110])
    check(meet(lake, store, module, link)[0])
    if module is not ROOM:
        assert made == []  # what came was decided on here
    # Whoever is forgotten does not come back, and files that are merged are the same records.
    forgotten = RECORDS[60].hash
    forget(lake, [forgotten])
    maintain(lake, retain_hours=0)
    result, answers = meet(lake, store, module, link)
    assert result.received == ()
    assert forgotten not in hashes(lake)
    answers.close()
    assert not list(tmp_path.glob("lake/spool/*"))


def test_an_exchange_that_broke_off_is_taken_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored by then is not sent again, on either side."""
    monkeypatch.setattr(peer_module, "MIRRORED", 0)
    lake = lake_of(spark, tmp_path / "lake", RECORDS[:90])
    with SqliteStore(tmp_path / "phone.db") as store, ThreadPoolExecutor(2) as worker:
        store.save(RECORDS[60:])
        host = LakeHost(LakeStore(lake), selector(PREFIX), SELECTED, worker=worker)
        guest = client(store, module=selector(PREFIX), exposure=SELECTED, worker=worker)

        async def twice() -> tuple[m.Closed | m.Aborted, m.Closed | m.Aborted]:
            async with host.at(parse_address("tcp:127.0.0.1:0")) as address:

                def hear(event: m.Event) -> None:
                    if isinstance(event, m.RecordSaved):
                        first.give(m.CloseRequested())

                first = await guest.dial(parse_address(address), listen=hear)
                broken = await first.run()
                return broken, await guest.sync(parse_address(address))

        broken, ended = within(twice(), 120)
        assert isinstance(broken, m.Closed)
        assert broken.ending is m.Ending.ASKED
        assert isinstance(ended, m.Closed), ended
        assert ended.ending is m.Ending.FIXED_POINT
        assert not set(ended.result.received) & set(broken.result.received)
        left = embedded(0, RECORDS[:90], selector(PREFIX), SELECTED)
        right = embedded(1, RECORDS[60:], selector(PREFIX), SELECTED)
        interlace(left, right, NOW)
        assert {e.hash for e in store.read(0, 10**6)} == stored(right)  # type: ignore[arg-type]
    assert hashes(lake) == stored(left)
    assert lake.snapshot().version.rows == len(stored(left))
