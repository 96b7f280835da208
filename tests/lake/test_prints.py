"""Prints say where a hash may be, and never hide one."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rooms import room_records

from lace.errors import Outcome, Status
from lace.lake import prints
from lace.lake.rows import RECORDS_SCHEMA, RowBatch, as_records
from lace.lake.writing import RECORDS, new_file

HASHES = [str(record.hash) for record in room_records(400)]


def table_of(count: int) -> pa.Table:
    batch = RowBatch("b")
    for number, record in enumerate(room_records(400)[:count]):
        batch.add(number, record.raw, Outcome(Status.ACCEPTED, record))
    return as_records(pa.Table.from_batches([batch.take()]), "i").cast(RECORDS_SCHEMA)


def write(root: Path, table: pa.Table) -> str:
    """Write rows as a file of a lake, in row groups of 25."""
    folder = root / "records" / "data"
    folder.mkdir(parents=True, exist_ok=True)
    file = new_file(str(folder), RECORDS)
    for at in range(0, table.num_rows, 25):
        file.add(table.slice(at, 25))
        file._flush()
    (made,) = file.close()
    return str(folder / made.name)


def found(root: Path, uris: list[str], wanted: list[str]) -> list[str]:
    rows = prints.rows_of(str(root), uris, pa.array(wanted, pa.string()), ["hash"])
    return sorted(hash for _, table in rows for hash in table.column("hash").to_pylist())


def test_hashes_are_found_where_they_are(tmp_path: Path) -> None:
    table = table_of(300)
    uris = [write(tmp_path, table.slice(at, 100)) for at in (0, 100, 200)]
    chance = random.Random(3)
    for count in (0, 1, 7, 400):
        wanted = chance.sample(HASHES, count)
        assert found(tmp_path, uris, wanted) == sorted(set(wanted) & set(HASHES[:300]))
    assert found(tmp_path, uris, ["", "S", "S.x", "no hash at all", "é" * 9]) == []


def test_what_is_missing_damaged_or_of_another_file_is_made_again(tmp_path: Path) -> None:
    first, second = (write(tmp_path, table_of(n)) for n in (60, 120))
    folder = tmp_path / "prints"
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(kept) == 2
    mine, other = (Path(uri).stem for uri in (first, second))
    raw = kept[mine]
    for bad in (None, b"", b"x", raw[:-1], raw[8:], bytes([raw[0] ^ 1]) + raw[1:], kept[other]):
        (folder / mine).unlink()
        if bad is not None:
            (folder / mine).write_bytes(bad)
        assert found(tmp_path, [first, second], HASHES[:60]) == sorted(HASHES[:60] * 2)
        assert (folder / mine).read_bytes() == raw


def test_equal_prints_are_no_equal_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = write(tmp_path, table_of(100))
    monkeypatch.setattr(prints, "prints_of", lambda some: pa.array([1] * len(some), pa.int64()))
    monkeypatch.setattr(prints, "read", lambda _root, _uri: pa.array([1] * 100, pa.int64()))
    assert found(tmp_path, [uri], HASHES[90:110]) == sorted(HASHES[90:100])


def test_a_lake_that_cannot_be_written_to_is_read_all_the_same(tmp_path: Path) -> None:
    uri = write(tmp_path, table_of(50))
    for path in (tmp_path / "prints").iterdir():
        path.unlink()
    (tmp_path / "prints").rmdir()
    (tmp_path / "prints").write_text("a file is in the way")
    assert found(tmp_path, [uri], HASHES[:3]) == sorted(HASHES[:3])


def test_prints_of_files_that_are_gone_go(tmp_path: Path) -> None:
    first, second = (write(tmp_path, table_of(n)) for n in (10, 20))
    there = {Path(first).name}
    assert prints.tidy(str(tmp_path), there, 0, dry_run=False) == (0, 0)  # too young
    late = 1 << 60
    assert prints.tidy(str(tmp_path), there, late, dry_run=True)[0] == 1
    assert prints.tidy(str(tmp_path), there, late, dry_run=False)[0] == 1
    assert [path.name for path in (tmp_path / "prints").iterdir()] == [Path(first).stem]
    assert len(prints.read(str(tmp_path), second)) == 20
    assert pq.read_metadata(second).num_rows == 20
