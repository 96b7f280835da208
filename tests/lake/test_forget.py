"""What a lake has forgotten stays out, whichever way it comes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from meeting import client, within
from rooms import PREFIX, room_records, write_bundle

from lace.cli.root import run
from lace.errors import Code, LakeError, Status
from lace.interlace import messages as m
from lace.lake import forget as forget_module
from lace.lake import peer as peer_module
from lace.lake.delta import DeltaLog
from lace.lake.forget import all_forgotten, forget, remember
from lace.lake.ingest import ingest
from lace.lake.maintain import maintain
from lace.lake.peer import LakeStore, Mirror
from lace.lake.serve import LakeHost
from lace.lake.tables import Lake
from lace.limits import LAKE
from lace.policy.view import Exposure
from lace.record.model import Versioned
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.transport.address import parse_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = [r for r in room_records(60, seed=81) if isinstance(r, Versioned) and r.app != "other"]
GONE = [record.hash for record in RECORDS[5:9]]
LEFT = sorted(record.hash for record in RECORDS if record.hash not in GONE)


def lake_of(spark: SparkSession, root: Path, parts: int = 2) -> Lake:
    lake = Lake.open(spark, str(root), create=True)
    each = -(-len(RECORDS) // parts)
    for number in range(parts):
        some = RECORDS[number * each : (number + 1) * each]
        ingest(lake, [str(write_bundle(root.with_name(f"{number}.records"), some))])
    return lake


def hashes(lake: Lake) -> list[str]:
    return sorted(row.hash for row in lake.snapshot().records.select("hash").collect())


@pytest.mark.parametrize("here", [1 << 30, 0], ids=["here", "workers"])
def test_what_is_forgotten_goes_and_does_not_come_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: int
) -> None:
    monkeypatch.setattr(forget_module, "_HERE_BYTES", here)
    lake = lake_of(spark, tmp_path / "lake")
    before = lake.snapshot().version.number
    done = forget(lake, GONE)
    assert (done.asked, done.noted, done.removed) == (4, 4, 4)
    assert [Path(bundle).name for bundle in done.bundles] == ["0.records"]
    assert hashes(lake) == LEFT
    again = forget(lake, [*GONE, GONE[0]])
    assert (again.asked, again.noted, again.removed) == (4, 0, 0)
    everything = write_bundle(tmp_path / "all.records", RECORDS)
    came = ingest(lake, [str(everything)])
    assert (came.records, came.duplicates, came.forgotten) == (0, len(LEFT), len(GONE))
    outcomes = LakeStore(lake).save(RECORDS[4:7])
    assert [outcome.status for outcome in outcomes] == [
        Status.DUPLICATE, Status.REFUSED, Status.REFUSED,
    ]  # fmt: skip
    assert outcomes[1].code is Code.LAKE_FORGOTTEN
    assert hashes(lake) == LEFT
    # Older versions have them until they are removed.
    assert lake.snapshot(before).records.count() == len(RECORDS)
    maintain(lake, retain_hours=0)
    raws = [path.read_bytes() for path in Path(lake.root).rglob("*.parquet")]
    assert len(list(lake.snapshot().load(GONE))) == 0
    assert len(raws) <= 4
    assert hashes(lake) == LEFT


def test_a_whole_file_can_go_and_what_never_was_there_is_kept_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = lake_of(spark, tmp_path / "lake", 1)
    later = room_records(3, seed=82)[5:]
    done = forget(lake, [record.hash for record in (*RECORDS, *later)])
    assert (done.removed, done.asked) == (len(RECORDS), len(RECORDS) + len(later))
    assert lake.records_log.version().files == ()
    came = ingest(lake, [str(write_bundle(tmp_path / "later.records", later))])
    assert (came.records, came.forgotten) == (0, len(later))


def test_whoever_is_writing_meanwhile_looks_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are forgotten between the look at the lake and the commit."""
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    commit, waiting = DeltaLog.commit, [GONE]

    def late(self: DeltaLog, *given: Any, **named: Any) -> int:
        if waiting and self.name == "records":
            forget(lake, waiting.pop())
        return commit(self, *given, **named)

    monkeypatch.setattr(DeltaLog, "commit", late)
    done = ingest(lake, [str(write_bundle(tmp_path / "a.records", RECORDS))])
    assert (done.records, done.forgotten) == (len(LEFT), len(GONE))
    assert hashes(lake) == LEFT


@pytest.mark.parametrize("mirrored", [100_000, 0], ids=["mirrored", "spark"])
def test_an_exchange_does_not_bring_it_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirrored: int
) -> None:
    monkeypatch.setattr(peer_module, "MIRRORED", mirrored)
    lake = lake_of(spark, tmp_path / "lake")
    module, exposure = selector(PREFIX), Exposure(default="selected")
    with SqliteStore(tmp_path / "phone.db") as store, ThreadPoolExecutor(2) as worker:
        store.save(RECORDS)
        host = LakeHost(LakeStore(lake), module, exposure, worker=worker)

        async def meet() -> m.Closed | m.Aborted:
            async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
                guest = client(store, module=module, exposure=exposure, worker=worker)
                return await guest.sync(parse_address(address))

        assert isinstance(within(meet(), 240), m.Closed)
        forget(lake, GONE)
        ended = within(meet(), 240)
        assert isinstance(ended, m.Closed), ended
        assert hashes(lake) == LEFT
        assert len(store.read(0, 10**6)) == len(RECORDS)  # type: ignore[arg-type]  # the peer keeps its own


@pytest.mark.parametrize("mirrored", [0, 1000], ids=["spark", "mirror"])
def test_what_is_remembered_comes_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mirrored: int
) -> None:
    """By an exchange over a link that was at rest, and by the bundles that had been read."""
    monkeypatch.setattr(peer_module, "MIRRORED", mirrored)
    lake = lake_of(spark, tmp_path / "lake")
    module, exposure = selector(PREFIX), Exposure(default="selected")
    assert remember(lake, GONE) == 0
    with SqliteStore(tmp_path / "phone.db") as store, ThreadPoolExecutor(2) as worker:
        store.save(RECORDS)
        host = LakeHost(LakeStore(lake), module, exposure, worker=worker)

        async def meet() -> m.Closed | m.Aborted:
            async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
                guest = client(store, module=module, exposure=exposure, worker=worker)
                return await guest.sync(parse_address(address))

        forget(lake, GONE)
        for _ in range(2):
            assert isinstance(within(meet(), 240), m.Closed)
            assert hashes(lake) == LEFT
        assert remember(lake, GONE[:1]) == 1
        assert remember(lake, GONE[:1]) == 0
        assert isinstance(within(meet(), 240), m.Closed)
        assert hashes(lake) == sorted([*LEFT, GONE[0]])
    assert sorted(all_forgotten(lake)) == sorted(GONE[1:])
    assert remember(lake, None) == 3
    assert lake.remembered() == 2
    bundles = [str(tmp_path / f"{number}.records") for number in range(2)]
    done = ingest(lake, bundles)
    assert (done.records, done.duplicates) == (3, len(RECORDS) - 3)
    assert hashes(lake) == sorted(record.hash for record in RECORDS)
    assert ingest(lake, bundles).steps == 0


def test_a_mirror_forgets_too(spark: SparkSession, tmp_path: Path) -> None:
    lake = lake_of(spark, tmp_path / "lake")
    mirror = Mirror(LakeStore(lake))
    mirror.refresh(lake.snapshot())
    forget(lake, GONE)
    maintain(lake)
    mirror.refresh(lake.snapshot())
    assert sorted(entry.hash for entry in mirror.read(0, 10**6)) == LEFT  # type: ignore[arg-type]


def test_too_many_at_once_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget_module, "LAKE", replace(LAKE, forgotten=3))
    lake = lake_of(spark, tmp_path / "lake", 1)
    with pytest.raises(LakeError) as caught:
        forget(lake, GONE)
    assert caught.value.code is Code.LIMIT_EXCEEDED
    assert lake.forgotten(GONE) == set()


def test_the_command(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    lake = lake_of(spark, tmp_path / "x.lake", 1)

    def call(*arguments: str) -> tuple[int, str]:
        code = run(["lake", "forget", "x.lake", *arguments])
        out, err = capfd.readouterr()
        return code, out + err

    assert call()[0] == 2
    assert call("nonsense")[0] == 2
    code, said = call(GONE[0], "--table")
    assert (code, "1 records forgotten, 1 hashes kept out" in said) == (0, True)
    assert "older versions hold them" in said
    assert f"untouched: {tmp_path / '0.records'}" in said
    (tmp_path / "hashes").write_text("\n".join(GONE[1:3]))
    rules = f"SelectHave('{GONE[3]}') :- Have('{GONE[3]}')."
    code, said = call("--file", "hashes", "--select", rules, "--purge")
    told = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert (code, told["removed"], told["asked"], told["purged"]) == (0, 3, 3, True)
    assert hashes(lake) == LEFT
    assert len(list((tmp_path / "x.lake/records/data").iterdir())) == 1
    assert run(["lake", "forgotten", "x.lake"]) == 0
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert told == [{"hash": hash} for hash in sorted(GONE)]
    for words, code, said in (
        ((), 2, ""), (("--all", GONE[0]), 2, ""), (("nonsense",), 2, ""),
        ((GONE[0], "--json"), 0, '{"forgotten":3,"remembered":1}'),
        ((GONE[0], "--file", "hashes", "--table"), 6, "2 may come back, 1 are still forgotten"),
        (("--all", "--table"), 0, "1 may come back, 0 are still forgotten"),
        (("--all", "--table"), 0, "0 may come back, 0 are still forgotten"),
    ):  # fmt: skip
        assert run(["lake", "remember", "x.lake", *words]) == code
        assert said in capfd.readouterr().out
