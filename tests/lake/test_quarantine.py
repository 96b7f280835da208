"""What was put aside can be looked at and judged again, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import forge
import pytest
from command import lace_inside as lace
from rooms import room_records, write_bundle

from lace.lake import salvage
from lace.lake import source as source_module
from lace.lake.bundle import survey
from lace.lake.delta import DATA
from lace.lake.quarantine import places, replay
from lace.lake.rows import batches
from lace.lake.source import outcomes_of
from lace.lake.tables import Lake
from lace.lake.writing import ASIDE, RECORDS, store_found
from lace.record.build import build_blob

SOME = room_records(20, seed=91)
LARGE = build_blob(b"x" * 400_000)


def lake_of(root: Path, *bundles: Path, allowance: int = 1000) -> Lake:
    """Return a lake with what bundles hold, read with little patience for damage."""
    lake = Lake.open(None, str(root), create=True)
    for number, bundle in enumerate(bundles):
        (segment,) = survey(str(bundle)).segments()
        rows = batches(str(bundle), outcomes_of(segment, allowance=allowance))
        for log in (lake.records_log, lake.quarantine_log):
            Path(log.root, DATA).mkdir(parents=True, exist_ok=True)
        target = f"{lake.records_log.root}/{DATA}"
        for entry in store_found(rows, target, f"i{number}"):
            log = {RECORDS: lake.records_log, ASIDE: lake.quarantine_log}[entry.table]
            if entry.table == ASIDE:
                Path(target, entry.name).rename(Path(log.root, DATA, entry.name))
            now = log.version().number
            log.commit([entry.published()], work=f"w{number}", step=1, expected=now, note={})
    return lake


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(source_module, "PIECE", 100_000)
    bad = forge.seal(signature=b"0" * 86)
    raws = [record.raw for record in SOME]
    first = tmp_path / "first.records"
    first.write_bytes(b"".join([*raws[:5], b"garbage", LARGE.raw, *raws[5:10], bad]))
    second = write_bundle(tmp_path / "second.records", SOME[10:12])
    second.write_bytes(second.read_bytes() + b"the end")
    return lake_of(tmp_path / "x.lake", first, second)


def test_places_are_listed_and_shown(lake: Lake, tmp_path: Path) -> None:
    found = places(lake)
    first = (tmp_path / "first.records").read_bytes()
    assert [(Path(p.bundle).name, p.code) for p in found] == [
        ("first.records", "record.markline"), ("first.records", "record.signature"),
        ("second.records", "record.markline"),
    ]  # fmt: skip
    done = lace("lake", "quarantine", "list", "x.lake", "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["offset"], row["length"]) for row in rows] == [(p.offset, p.length) for p in found]
    only = ("x.lake", "--code", "record.signature")
    assert lace("lake", "quarantine", "list", *only, cwd=tmp_path).stdout.count(b"\n") == 1
    shown = lace("lake", "quarantine", "list", *only, "--table", cwd=tmp_path)
    assert shown.stdout.splitlines()[1].startswith(b"record.signature ")
    shown = lace("lake", "quarantine", "list", *only, "--csv", cwd=tmp_path)
    assert shown.stdout.startswith(b"code,offset,length,bundle,detail\nrecord.signature,")
    few = lace("lake", "quarantine", "list", "x.lake", "--limit", "1", cwd=tmp_path)
    assert (len(few.stdout.splitlines()), few.stderr) == (1, b"2 more; --limit shows them\n")
    for place in found[:2]:
        name, offset = "first.records", str(place.offset)
        raw = lace("lake", "quarantine", "show", "x.lake", name, offset, cwd=tmp_path).stdout
        assert raw == first[place.offset : place.offset + place.length]
    missing = lace("lake", "quarantine", "show", "x.lake", "first.records", "3", cwd=tmp_path)
    assert (missing.returncode, b"nothing was put aside at byte 3" in missing.stderr) == (1, True)


def test_how_much_there_is_has_three_forms(lake: Lake, tmp_path: Path) -> None:
    held, aside = lake.records_log.version(), lake.quarantine_log.version()
    told = json.loads(lace("lake", "info", "x.lake", cwd=tmp_path).stdout)
    assert (told["records"], told["files"]) == (held.rows, len(held.files))
    assert told["quarantined"] == aside.rows > 0
    assert told["changes"][0]["version"] == told["version"] == held.number
    table = lace("lake", "info", "x.lake", "--csv", cwd=tmp_path).stdout.decode()
    assert f"\nrecords,{held.rows}\n" in table.replace("\r", "")


def test_what_proves_to_be_records_leaves_the_quarantine(lake: Lake, tmp_path: Path) -> None:
    before = places(lake)
    assert before[0].length > len(LARGE.raw)  # passed over: it is larger than the search allowed
    here = {record.hash for record in lake.snapshot().read_all()}
    assert LARGE.hash not in here
    done = lace("lake", "quarantine", "replay", "x.lake", cwd=tmp_path)
    assert done.returncode == 3
    assert json.loads(done.stdout) == {"left": 3, "places": 3, "records": 1}
    words = lace("lake", "quarantine", "replay", "x.lake", "--table", cwd=tmp_path)
    assert b"3 places judged again, 0 records found" in words.stdout
    (large,) = lake.snapshot().load({LARGE.hash})
    assert large.raw == LARGE.raw
    after = places(lake)
    assert [(p.offset, p.code) for p in after] == [(p.offset, p.code) for p in before]
    assert after[0].length == len(b"garbage")
    again = replay(lake, after)
    assert (again.records, again.left) == (0, 3)
    assert places(lake) == after
    assert len(LARGE.raw) < salvage.ALLOWANCE  # else an ingest would not have found it either


def test_a_place_without_bytes_stays_in_quarantine(tmp_path: Path) -> None:
    """A compressed bundle that does not expand leaves a word, and nothing to judge again."""
    bundle = tmp_path / "junk.records.gz"
    bundle.write_bytes(b"nonsense")
    lake = lake_of(tmp_path / "packed.lake", bundle)
    (place,) = places(lake)
    assert (place.code, place.length) == ("lake.compressed", 0)
    again = replay(lake, [place])
    assert (again.places, again.records, again.left) == (1, 0, 1)
    assert places(lake) == [place]
    shown = lace("lake", "quarantine", "show", "packed.lake", bundle.name, "0", cwd=tmp_path)
    assert (shown.returncode, shown.stdout) == (0, b"")
