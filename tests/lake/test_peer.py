"""A lake takes part in an exchange like any other lace, and both end up as two laces would."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from exchanges import NOW
from meeting import client, within
from rooms import AUTHORITY, PREFIX, room_records, write_bundle
from sides import Participant
from small_room import room

from lace.answering.store import StoreAnswers
from lace.driving.connection import Connection
from lace.driving.pair import interlace
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.parameters import Parameters
from lace.lake import loading, sendable
from lace.lake import peer as peer_module
from lace.lake.answers import LakeAnswers
from lace.lake.forget import forget
from lace.lake.ingest import ingest
from lace.lake.maintain import maintain
from lace.lake.packed import PackedTable, pack
from lace.lake.peer import LakeStore, Mirror, lake_answers
from lace.lake.serve import LakeHost
from lace.lake.tables import Lake
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.recordstore.memory import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector, with_support
from lace.transport.address import parse_address

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
