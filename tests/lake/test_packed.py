"""Tables of digests in files are the tables that would be held, and are never taken for others."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lace import b64a
from lace.crypto.native import digest
from lace.errors import Code, StoreError
from lace.interlace.groups import content_of
from lace.interlace.partition import Partitions
from lace.interlace.sketch import NamesHere
from lace.lake import keeping
from lace.lake.keeping import Kept, load_index, save_index, tidy
from lace.lake.packed import (
    PackedTable,
    _packed,
    pack,
    pack_records,
    packed_record,
    peers_table,
    run_number,
    write_changed,
)
from lace.lake.reading import local_frame
from lace.limits import LAKE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = b"k" * 32


def entries(count: int, seed: int) -> dict[str, bytes]:
    chance = random.Random(seed)
    return {
        f"{chance.choice('SPB')}.{b64a.encode(chance.randbytes(32))}.H3": chance.randbytes(64)
        for _ in range(count)
    }


def held(digests: dict[str, bytes]) -> Partitions:
    made = Partitions(2, standard=1)
    made.put(digests)
    return made


def packed(spark: SparkSession, folder: Path, digests: dict[str, bytes]) -> PackedTable:
    columns = {"hash": list(digests), "digest": pa.array(digests.values(), pa.binary())}
    return pack(local_frame(spark, pa.table(columns)), str(folder), len(digests), 1)


def same(one: Partitions, other: Partitions) -> None:
    assert len(one) == len(other)
    assert one.check == other.check
    assert sorted(one.items(0)) == sorted(other.items(0))
    assert list(one.summaries(1)) == list(other.summaries(1))
    assert list(one.summaries(0)) == list(other.summaries(0))
    if one.columns == 2:
        assert sorted(one.items(1)) == sorted(other.items(1))
        same(one.expected(), other.expected())
        for column in (0, 1):
            names, plain = one.names(KEY, column), NamesHere(KEY, other.items(column))
            assert len(names) == len(plain)
            for start, stop in ((0, 8), (5, 200), (4000, 4200)):
                assert names.cells(start, stop) == plain.cells(start, stop)
            every = list(plain.find(range(1 << 3))) + list(plain._names)
            assert names.find([*every, 7]) == plain.find([*every, 7])


def test_a_packed_table_is_the_one_that_would_be_held(spark: SparkSession, tmp_path: Path) -> None:
    digests = entries(300, 1)
    table, expected = packed(spark, tmp_path, digests), held(digests)
    same(table.partitions, expected)
    assert {row.hash: bytes(row.digest) for row in table.frame(spark).collect()} == digests
    # It changes as one that is held, and what changed is all that is written.
    now = table.partitions
    gone, come = list(digests)[:7], entries(9, 2) | {next(reversed(digests)): b"d" * 64}
    for one in (now, expected):
        one.mark()
        one.remove(gone)
        one.put(come)
    same(now, expected)
    assert now.changed() == expected.changed()
    assert now.differing(table.partitions) == expected.differing(held(digests))
    after = write_changed(now, table)
    assert len(after.files) == len(table.files) + 1
    same(after.partitions, expected)
    save_index([after], f"{tmp_path}/x.index", {"lake": 7})
    found = load_index(f"{tmp_path}/x.index", None)
    assert found is not None
    assert found[1] == {"lake": 7}
    same(found[0][0].partitions, expected)
    assert write_changed(after.partitions, after) is after


def test_workers_make_the_same_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lace.lake.packed._HERE", 0)
    digests = entries(200, 3)
    table, plain = packed(spark, tmp_path, digests), NamesHere(KEY, held(digests).items(1))
    names = table.names(KEY, 1)
    assert names.cells(3, 5000) == plain.cells(3, 5000)
    wanted = [*list(plain._names)[:5], 12345]
    assert names.find(wanted) == plain.find(wanted)
    assert names.find([]) == {}
    for file in table.files:
        (tmp_path / file).unlink()
    with pytest.raises(StoreError):
        table.names(KEY, 0).cells(0, 8)


def test_records_are_found_by_partition(spark: SparkSession, tmp_path: Path) -> None:
    raws = {hash: digest * 3 for hash, digest in entries(100, 4).items()}
    raws[next(iter(raws))] = b""
    columns = {"hash": list(raws), "raw": pa.array(raws.values(), pa.binary())}
    spool = pack_records(local_frame(spark, pa.table(columns)), str(tmp_path), 100, 1)
    for hash, raw in raws.items():
        assert packed_record(spool.run(run_number(hash, 1)), hash) == raw
    absent = next(iter(entries(1, 5)))
    assert packed_record(spool.run(run_number(absent, 1)), absent) is None


def test_what_is_kept_of_a_link(spark: SparkSession, tmp_path: Path) -> None:
    """What a peer says as this side would takes no room; the rest is written beside it."""
    digests = entries(120, 6)
    kept = Kept.of(str(tmp_path), b"plan", None)
    own = packed(spark, Path(kept.folder), digests)
    peers = own.partitions.expected()
    assert peers_table(peers, own).files == ()
    peers.remove(list(digests)[:3])
    peers.put({hash: digest[:32] for hash, digest in entries(2, 7).items()})
    kept.keep_link(b"link", [own, peers_table(peers, own)], {"wanted": ["x"]})
    found = kept.link(b"link")
    assert found is not None
    same(found[0].partitions, own.partitions)
    same(found[1].partitions, peers)
    assert found[2] == {"wanted": ["x"]}
    assert kept.link(b"another") is None
    (Path(kept.folder) / own.files[0]).unlink()
    assert kept.link(b"link") is None


def test_what_is_damaged_is_noticed_and_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept.of(str(tmp_path), b"plan", None)
    table = kept.save(packed(spark, Path(kept.folder), entries(50, 8)), b"by", 3)
    assert table.note == {"lake": 3}
    found = kept.newest(b"by")
    assert found is not None
    assert kept.newest(b"by others") is None
    path = Path(kept.folder) / found.files[0]
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        list(found.partitions.records(""))
    assert caught.value.code is Code.STORE_LINK
    assert kept.newest(b"by") is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"no index\n",
        b'{"format": 2}\n',
        b'{"format": 3, "note": {}, "tables": []}\n',
        b'{"format": 4, "note": {}, "tables": []}\n',
        b'{"format": 4, "note": {}, "tables": [{"files": [], "columns": 2, "bytes": 84}]}\nshort',
        b'{"format": 4, "note": {}, "tables": [{"files": 3, "columns": 2, "bytes": 0}]}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_index_counts_as_not_kept(tmp_path: Path, content: bytes) -> None:
    for check in (b"", digest(content)[:16]):
        (tmp_path / "x.index").write_bytes(content + check)
        assert load_index(f"{tmp_path}/x.index", None) is None
    assert load_index(f"{tmp_path}/absent.index", None) is None


def test_an_index_that_is_damaged_counts_as_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    """Where partitions are, and what their digests are, would be believed otherwise."""
    kept = Kept.of(str(tmp_path), b"plan", None)
    table = kept.save(packed(spark, Path(kept.folder), entries(50, 8)), b"by", 3)
    (index,) = Path(kept.folder).glob("*.index")
    data = index.read_bytes()
    assert load_index(str(index), None) == ([replace(table, note={})], {"lake": 3})
    for place in range(0, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        index.write_bytes(changed)
        assert load_index(str(index), None) is None
    index.write_bytes(data[:-1])
    assert load_index(str(index), None) is None


def test_what_nobody_goes_by_is_tidied(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept.of(str(tmp_path), b"plan", None)
    folder = Path(kept.folder)
    digests = entries(60, 9)
    first = kept.save(packed(spark, folder, digests), b"by", 1)
    kept.save(packed(spark, folder, digests), b"by", 2)
    (folder / "x.index.1.draft").write_bytes(b"cut off")
    before = set(folder.iterdir())
    assert tidy(kept.folder, 0) == (0, 0)  # all of it was written just now
    old = {*first.files, "x.index.1.draft", *(p.name for p in before if "000001.index" in p.name)}
    later = 1 << 62
    assert tidy(kept.folder, later, dry_run=True)[0] == len(old)
    assert set(folder.iterdir()) == before
    assert tidy(kept.folder, later)[0] == len(old)
    assert {p.name for p in before - set(folder.iterdir())} == old
    assert kept.newest(b"by") is not None


def test_there_is_room_for_so_many_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever brings ever new rules makes nobody's disk full."""
    monkeypatch.setattr(keeping, "LAKE", replace(LAKE, plans=2))
    for name in (b"one", b"two"):
        Path(Kept.of(str(tmp_path), name, None).folder).mkdir(parents=True)
    third = Kept.of(str(tmp_path), b"three", None)
    assert third.temporary
    Path(third.folder).mkdir(parents=True)
    third.close()
    assert not Path(third.folder).exists()
    assert not Kept.of(str(tmp_path), b"one", None).temporary
    os.utime(Kept.of(str(tmp_path), b"two", None).folder, (1, 1))
    assert not Kept.of(str(tmp_path), b"three", None).temporary
    assert [p.name for p in (tmp_path / "exchange").iterdir()] == [
        Path(Kept.of(str(tmp_path), b"one", None).folder).name
    ]


def test_tasks_that_run_twice_write_one_table(spark: SparkSession, tmp_path: Path) -> None:
    kept = Kept.of(str(tmp_path), b"plan", None)
    digests = entries(200, 10)
    columns = {"hash": list(digests), "digest": pa.array(digests.values(), pa.binary())}

    def run(found: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes, bytes]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and not context.attemptNumber() and found[0][0] > b"\x60":
            raise RuntimeError("this machine is lost")
        data = b"".join(part for entry in sorted(found) for part in entry)
        leaves = [entry[1] for entry in sorted(found)]
        first, last = content_of([d[:32] for d in leaves]), content_of([d[32:] for d in leaves])
        return data, first[1], last[1]

    rows = local_frame(spark, pa.table(columns))
    table = kept.save(_packed(rows, kept.folder, 200, 1, run), b"by", 1)
    same(table.partitions, held(digests))
    there = {path.name for path in Path(kept.folder).glob("*.runs")}
    assert there > set(table.files)  # what was lost is there, and nobody goes by it
    tidy(kept.folder, 1 << 62)
    assert {path.name for path in Path(kept.folder).glob("*.runs")} == set(table.files)
