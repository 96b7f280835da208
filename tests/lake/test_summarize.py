"""Summaries of a lake are, byte for byte, those of the embedded engine; and follow its changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rooms import AUTHORITY, PREFIX, room_records, write_bundle
from small_room import room

from lace.datalog.evaluate import evaluate
from lace.errors import LakeError, Outcome, Status
from lace.interlace.advertise import Advertisement, advertise
from lace.interlace.partition import Partitions
from lace.interlace.summary import Summary
from lace.lake.delta import DeltaLog
from lace.lake.ingest import ingest
from lace.lake.rows import RowBatch
from lace.lake.select import select
from lace.lake.summarize import (
    Advertising,
    Summaries,
    SummaryTables,
    advertised_columns,
    advertisements,
    digest_pairs,
    digests,
    summarize,
)
from lace.lake.tables import Lake
from lace.policy.origin import SourceLabel
from lace.record.facts import facts, fields
from lace.record.model import Record
from lace.rules import MemorySource
from lace.vocabulary import SELECT_HAVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = room_records(200, seed=8)
MODULE = room(PREFIX, authority=AUTHORITY.verifier, revocation_app="revoked")
SOURCE = SourceLabel("V.someone 'quoted'")


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("summaries")
    made = Lake.open(spark, str(folder / "lake"), create=True)
    ingest(made, [str(write_bundle(folder / "a.records", RECORDS))])
    return made


def expected(records: list[Record], schema: frozenset[str] | None) -> dict[str, Advertisement]:
    source = MemorySource(fact for record in records for fact in facts(record))
    selected = {row[0] for row in evaluate(MODULE.program, source).rows(SELECT_HAVE)}
    return {
        record.hash: advertise(record.hash, SOURCE, fields(record), schema)
        for record in records
        if record.hash in selected
    }


def partitions(adverts: dict[str, Advertisement], length: int) -> tuple[Summary, ...]:
    made = Partitions.of({hash: advert.digest() for hash, advert in adverts.items()})
    return tuple(made.summaries(length))


def summarized(lake: Lake, advertising: Advertising) -> Summaries:
    snapshot = lake.snapshot()
    tables = SummaryTables(lake, advertising)
    return summarize(snapshot, lambda: select(snapshot, MODULE.program).hashes(), tables)


@pytest.mark.req("050-ARC-05", "050-REC-09", "050-REC-10")
@pytest.mark.parametrize(
    "schema",
    [None, frozenset(("Group", "App", "Signed-By")), frozenset(("Tag", "TAI", "Data-Length")), frozenset()],
    ids=["all", "promoted", "both", "none"],
)  # fmt: skip
def test_advertisements_and_digests_are_the_same_bytes(
    lake: Lake, schema: frozenset[str] | None
) -> None:
    advertising = Advertising(selection=MODULE.id, source=SOURCE, schema=schema)
    records = select(lake.snapshot(), MODULE.program).records()
    adverts = expected(RECORDS, schema)
    found = {row.hash: bytes(row.digest) for row in digests(records, advertising).collect()}
    assert found == {hash: advert.digest() for hash, advert in adverts.items()}
    made = advertisements(records, advertising).collect()
    assert {row.hash: bytes(row.advertisement) for row in made} == {
        hash: advert.canonical() for hash, advert in adverts.items()
    }


@pytest.mark.long
@pytest.mark.req("050-REC-10")
def test_summaries_follow_the_lake_and_compute_only_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake.open(spark, str(tmp_path / "moving"), create=True)
    advertising = Advertising(selection=MODULE.id, source=SOURCE, prefix_length=1)
    # The last record but the messages is a revocation: what was selected before it no longer is.
    stages = [[*RECORDS[:4], *RECORDS[5:150]], RECORDS[150:], RECORDS[4:5]]
    here: list[Record] = []
    known = 0
    for number, stage in enumerate(stages):
        here += stage
        ingest(lake, [str(write_bundle(tmp_path / f"{number}.records", stage))])
        adverts = expected(here, None)
        made = summarized(lake, advertising)
        assert made.partitions == partitions(adverts, 1)
        assert made.count == len(adverts)
        assert made.version == lake.snapshot().version.number
        if number == 1:
            assert made.digested == len(adverts) - known
            assert made.rooted < len(made.partitions)
        if number == 2:
            assert len(adverts) < known
            assert made.digested == 1  # the revocation itself
        known = len(adverts)
    again = summarized(lake, advertising)
    assert (again.digested, again.rooted) == (0, 0)
    assert again.partitions == made.partitions


@pytest.mark.long
def test_a_crash_between_digests_and_roots_is_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    advertising = Advertising(selection=MODULE.id, source=SOURCE, prefix_length=1)
    ingest(lake, [str(write_bundle(tmp_path / "a.records", RECORDS[:100]))])
    summarized(lake, advertising)
    ingest(lake, [str(write_bundle(tmp_path / "b.records", RECORDS[100:]))])
    commit = DeltaLog.commit

    class Crash(BaseException):
        """The process dies here."""

    def dying(self: DeltaLog, *given: Any, **named: Any) -> int:
        if self.root.endswith("partitions"):
            raise Crash
        return commit(self, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", dying)
        with pytest.raises(Crash):
            summarized(lake, advertising)
    assert summarized(lake, advertising).partitions == partitions(expected(RECORDS, None), 1)


def test_a_lake_without_records_has_no_summaries(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    made = summarized(lake, Advertising(selection=MODULE.id, source=SOURCE))
    assert made.partitions == ()
    with pytest.raises(LakeError):
        Advertising(selection=MODULE.id, source=SOURCE, prefix_length=20)


@pytest.mark.parametrize("schema", [None, frozenset(("Tag", "TAI")), frozenset(("Tag", "Nope"))])
def test_pairs_of_digests_are_those_of_both_sides_in_any_part_of_a_batch(
    schema: frozenset[str] | None,
) -> None:
    batch = RowBatch("x")
    for record in RECORDS:
        batch.add(0, record.raw, Outcome(Status.ACCEPTED, record))
    rows = batch.take()
    sides = [Advertising(selection="x", source=source, schema=schema) for source in ("V.a", SOURCE)]
    pairs = digest_pairs(*sides)
    for start, length in ((0, 200), (17, 60), (199, 1), (5, 0)):
        some = rows.slice(start, length).select(advertised_columns(sides[0]))
        expected = [
            b"".join(
                advertise(r.hash, SourceLabel(side.source), fields(r), schema).digest()
                for side in sides
            )
            for r in RECORDS[start : start + length]
        ]
        assert pairs(some).to_pylist() == expected
