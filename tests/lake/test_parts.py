"""A bundle that is read in parts, by workers that search for a beginning, is read as by one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import forge
import pyarrow.parquet as pq
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import room_records

from lace.errors import Code, LakeError
from lace.lake.bundle import Segment
from lace.lake.noted import digests_of
from lace.lake.parts import (
    Input,
    Part,
    Staged,
    Task,
    Told,
    boundary,
    bundle_digest,
    plan_steps,
    put_together,
    read_digest,
    run_of,
    shared_out,
)
from lace.lake.places import Bytes
from lace.lake.source import read_segment

RECORDS = [record.raw for record in room_records(60)]
LONG = RECORDS[4].replace(b"Data-Length: ", b"Data-Length: 9")
SHORT = RECORDS[5].replace(b"Data-Length: ", b"Data-Length: 0")


class Runner:
    """Reads parts one after the other, in this process, and counts what it reads."""

    def __init__(self, parts: Sequence[Part], folder: Path, block: int) -> None:
        self.parts, self.folder, self.block = parts, folder, block
        self.bytes = 0

    def __call__(self, tasks: Sequence[Task], told: Mapping[int, Told]) -> dict[int, Told]:
        begun = {number: one.begin for number, one in told.items()}
        found: dict[int, Told] = {}
        for task in tasks:
            made = run_of(task, self.parts, begun, self.block, str(self.folder), "i")
            for number, one in made:
                found[number] = one
                self.bytes += self.parts[number].size
        return found


def staged_rows(staged: Staged, folder: Path) -> list[tuple[int, bytes, str | None]]:
    rows: list[tuple[int, bytes, str | None]] = []
    for file in staged.files:
        table = pq.read_table(folder / file.name)
        codes = table.column("code").to_pylist() if file.table == "aside" else [None] * len(table)
        columns = (table.column(name).to_pylist() for name in ("offset", "raw"))
        rows += zip(*columns, codes, strict=True)
    return sorted(rows)


def plain_rows(bundle: Path) -> list[tuple[int, bytes, str | None]]:
    segment = Segment(str(bundle), 0, bundle.stat().st_size, final=True)
    rows = [row for batch in read_segment(segment) for row in batch.to_pylist()]
    return [(row["offset"], row["raw"], row["code"]) for row in rows]


def read_in_parts(
    folder: Path, raw: bytes, *, block: int, step_bytes: int, cores: int
) -> tuple[list[Any], int]:
    """Return the rows of all steps, and how many bytes were read for them."""
    bundle = folder / "a.records"
    bundle.write_bytes(raw)
    staging = folder / "staged" / "s"
    staging.mkdir(parents=True, exist_ok=True)
    begins: dict[str, int] = {}
    rows: list[Any] = []
    blocks: dict[str, str] = {}
    spent = 0
    for step in plan_steps([Input.of(str(bundle))], step_bytes, block):
        parts = shared_out(step, cores, block)
        runner = Runner(parts, staging, block)
        if parts[0].start:
            assert begins[str(bundle)] == boundary(str(bundle), parts[0].start)
        staged = put_together(parts, begins if parts[0].start else {}, runner)
        begins = staged.behind
        rows += staged_rows(staged, staging)
        spent += runner.bytes
        for name, text in staged.digests.items():
            blocks[name] = blocks.get(name, "") + text
    whole = bytes.fromhex(blocks.get(str(bundle), ""))
    told = bundle_digest(whole[at : at + 32] for at in range(0, len(whole), 32))
    assert told == read_digest(str(bundle), block) == digests_of(str(bundle), block)[0]
    return rows, spent


PIECES = st.one_of(
    st.sampled_from(RECORDS),
    st.lists(st.sampled_from(RECORDS), max_size=8).map(lambda some: forge.blob(b"".join(some))),
    st.sampled_from([LONG, SHORT, RECORDS[7][:-9], forge.seal(signature=b"0" * 86)]),
    st.sampled_from([b"?", b"\n", b"what is this? " * 60, b"Kind: note\n", bytes(500)]),
    st.sampled_from([b"X" + RECORDS[8][1:], RECORDS[9][:55] + b"Data-Length: 30000000\n\n"]),
)


@settings(max_examples=examples(60), deadline=None)
@given(
    pieces=st.lists(PIECES, min_size=1, max_size=40),
    block=st.integers(50, 4000),
    step_bytes=st.integers(1, 30_000),
    cores=st.integers(1, 4),
)
def test_parts_hold_what_one_reader_finds(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[bytes],
    block: int,
    step_bytes: int,
    cores: int,
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    raw = b"".join(pieces)
    rows, spent = read_in_parts(folder, raw, block=block, step_bytes=step_bytes, cores=cores)
    assert rows == plain_rows(folder / "a.records")
    assert b"".join(row[1] for row in rows) == raw
    assert spent <= 3 * len(raw)


def interwoven(count: int, chance: random.Random) -> bytes:
    """Return two runs of valid records in the same bytes, each within the data of the other."""
    tail = forge.blob(b"the end of both")
    edges = [0, len(tail)]
    for _ in range(count):
        data = chance.randbytes(chance.randrange(1, 400)) + tail[: edges[1]]
        made = forge.blob(data)
        grown = len(made) - edges[1]
        tail = made + tail[edges[1] :]
        edges = [0, grown + edges[0]]
    return tail


@pytest.mark.parametrize("seed", range(4))
def test_a_bundle_that_can_be_read_in_two_ways_is_read_from_its_beginning(
    tmp_path: Path, seed: int
) -> None:
    """A worker that begins in the middle finds one run as good as the other."""
    raw = RECORDS[0] + interwoven(60, random.Random(seed)) + b"".join(RECORDS[1:20])
    rows, spent = read_in_parts(tmp_path, raw, block=700, step_bytes=1 << 40, cores=8)
    assert rows == plain_rows(tmp_path / "a.records")
    assert len(raw) < spent <= 3 * len(raw)


def test_records_larger_than_a_part_belong_to_where_they_begin(tmp_path: Path) -> None:
    raw = RECORDS[0] + forge.blob(RECORDS[1] * 50) + RECORDS[2] + forge.blob(bytes(9000))
    for step_bytes in (1, 3000, 1 << 40):
        rows, _ = read_in_parts(tmp_path, raw, block=300, step_bytes=step_bytes, cores=4)
        assert [len(row[1]) for row in rows] == [len(row[1]) for row in plain_rows(tmp_path / "a.records")]  # fmt: skip
        assert b"".join(row[1] for row in rows) == raw


@pytest.mark.parametrize("block", [1, 7, 64])
def test_bytes_are_those_of_the_file_wherever_they_are_read(tmp_path: Path, block: int) -> None:
    raw = random.Random(block).randbytes(1000)
    path = tmp_path / "file"
    path.write_bytes(raw)
    chance = random.Random(1)
    chosen = range(200 // block, 500 // block)
    with Bytes(str(path), chosen, block) as file:
        for _ in range(300):
            at, length = chance.randrange(1100), chance.randrange(300)
            assert file.read(at, length) == raw[at : at + length]
            end = min(1000, at + length)
            assert b"".join(file.growing(at, end)) == raw[at:end]
            assert b"".join(file.pieces(at, end, 37)) == raw[at:end]
        assert len(file.digests()) == len(chosen)
    path.write_bytes(raw[:10])
    with pytest.raises(LakeError) as caught:
        Input(str(path), 1000, Input.of(str(path)).modified).check()
    assert caught.value.code is Code.LAKE_CHANGED


def test_steps_are_of_the_size_that_was_asked_for() -> None:
    inputs = [Input("a", 950, 0), Input("b.records.gz", 300, 0), Input("c", 20, 0), Input("e", 0, 0)]  # fmt: skip
    for step_bytes in (1, 99, 100, 250, 5000):
        steps = plan_steps(inputs, step_bytes, 100)
        flat = [part for step in steps for part in step]
        for entry in inputs:
            own = [part for part in flat if part.bundle == entry.bundle]
            edges = [0, *(part.end for part in own)]
            assert [part.start for part in own] == edges[:-1]
            assert edges[-1] == entry.size
        for step in steps:
            assert step
            assert sum(part.size for part in step) <= max(step_bytes, 100) or step[0].bundle == "b.records.gz"  # fmt: skip
        for step in steps:
            parts = shared_out(step, 3, 100)
            assert sum(part.size for part in parts) == sum(part.size for part in step)
            assert all(part.start % 100 == 0 for part in parts)
