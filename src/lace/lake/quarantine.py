"""What was put aside: looked at, and judged again. Needs no Spark.

Rows that follow one another in a bundle belong together: the first says what is wrong, the others
hold the bytes behind it. Judged again, records among them go to the lake, and the rest stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lace.errors import Code, LakeError
from lace.lake.bundle import Segment
from lace.lake.delta import DATA, Conflict
from lace.lake.peer import LakeStore
from lace.lake.places import filesystem
from lace.lake.rows import batches
from lace.lake.source import outcomes_of
from lace.lake.writing import ASIDE, as_aside, new_file
from lace.record.model import Record
from lace.record.validate import reread

if TYPE_CHECKING:
    from lace.lake.tables import Lake

_COLUMNS: Final = ("bundle", "offset", "length", "code", "detail", "ingest")
_UNBOUNDED: Final = 1 << 62
_SAVE: Final = 1000
_TRIES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bytes of a bundle that are no record."""

    bundle: str
    offset: int
    length: int
    code: str
    detail: str
    ingest: str
    files: frozenset[str]
    """Of the table: where its rows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What judging again did."""

    places: int
    records: int
    """That were found, and are in the lake now."""
    left: int
    """Places that are in quarantine after it."""


def places(lake: Lake) -> list[Place]:
    """Return all places, in the order of bundles and offsets."""
    log = lake.quarantine_log
    system, root = filesystem(log.root)
    rows = []
    for file in log.version().files:
        table = pq.read_table(f"{root}/{file.path}", columns=list(_COLUMNS), filesystem=system)
        rows += [(*row.values(), file.path) for row in table.to_pylist()]
    found: list[Place] = []
    for bundle, offset, length, code, detail, ingest, path in sorted(rows, key=lambda r: r[:2]):
        last = found[-1] if found else None
        follows = last is not None and (last.bundle, last.offset + last.length) == (bundle, offset)
        if last is not None and follows and code == Code.LAKE_UNREADABLE:
            found[-1] = replace(last, length=last.length + length, files=last.files | {path})
        else:
            found.append(
                Place(bundle=bundle, offset=offset, length=length, code=code, detail=detail or "",
                      ingest=ingest, files=frozenset({path}))
            )  # fmt: skip
    return found


def find(lake: Lake, bundle: str, offset: int) -> Place:
    """Return the place at an offset of a bundle; the end of the bundle's name is enough."""
    fits = [p for p in places(lake) if p.offset == offset and p.bundle.endswith(bundle)]
    if len(fits) == 1:
        return fits[0]
    what = "nothing was put aside" if not fits else f"{len(fits)} bundles have something"
    raise LakeError(f"{what} at byte {offset} of {bundle}", code=Code.LAKE_INPUT,
                    hint="lace lake quarantine list shows what there is.")  # fmt: skip


def read(lake: Lake, place: Place) -> Iterator[bytes]:
    """Yield the bytes of a place, piece by piece."""
    system, root = filesystem(lake.quarantine_log.root)
    end = place.offset + place.length
    where = (pc.field("bundle") == place.bundle) & (pc.field("offset") >= place.offset)
    where &= pc.field("offset") < end
    found: dict[int, tuple[str, str]] = {}
    for path in place.files:
        table = pq.read_table(
            f"{root}/{path}", columns=["offset", "digest"], filters=where, filesystem=system
        )
        for row in table.to_pylist():
            found[row["offset"]] = (path, row["digest"])
    for offset, (path, digest) in sorted(found.items()):
        one = where & (pc.field("offset") == offset) & (pc.field("digest") == digest)
        table = pq.read_table(f"{root}/{path}", columns=["raw"], filters=one, filesystem=system)
        yield table.column("raw")[0].as_py()


def replay(lake: Lake, chosen: list[Place]) -> Replayed:
    """Judge places again, without a bound on the search; records among them go to the lake."""
    records = left = 0
    for name in [(place.bundle, place.offset) for place in chosen]:
        # Looked up again: what was replaced before lies in other files now.
        place = next(p for p in places(lake) if (p.bundle, p.offset) == name)
        if not place.length:  # of a compressed bundle, which did not expand to its end
            left += 1
            continue
        with TemporaryDirectory(prefix="lace-replay-") as folder:
            copy = Path(folder) / "bytes.records"
            with copy.open("wb") as file:
                file.writelines(read(lake, place))
            found, rest = _judged(copy, place)
        if not found:
            left += 1
            continue
        by_hash = {record.hash: offset for offset, record in found}
        store = LakeStore(lake, label=place.bundle)
        for at in range(0, len(found), _SAVE):
            some = [record for _, record in found[at : at + _SAVE]]
            store.save(some, offsets=by_hash)
        records += len(found)
        left += _replace(lake, place, rest)
    return Replayed(places=len(chosen), records=records, left=left)


def _judged(copy: Path, place: Place) -> tuple[list[tuple[int, Record]], pa.Table]:
    """Return the records in the bytes of a place with their offsets, and the rest as rows."""
    whole = Segment(str(copy), 0, copy.stat().st_size, final=True)
    found: list[tuple[int, Record]] = []
    rest: list[pa.Table] = []
    for batch in batches(place.bundle, outcomes_of(whole, allowance=_UNBOUNDED)):
        table = pa.Table.from_batches([batch])
        offsets = pc.add(table.column("offset"), place.offset)
        table = table.set_column(table.schema.get_field_index("offset"), "offset", offsets)
        is_record = pc.is_null(table.column("code"))
        good = table.filter(is_record)
        raws = good.column("raw").to_pylist()
        found += zip(good.column("offset").to_pylist(), map(reread, raws), strict=True)
        rest.append(as_aside(table.filter(pc.invert(is_record)), place.ingest))
    return found, pa.concat_tables(rest)


def _replace(lake: Lake, place: Place, rest: pa.Table) -> int:
    """Put what is left of a place into the quarantine, instead of the place; return how much."""
    log = lake.quarantine_log
    system, root = filesystem(log.root)
    for _ in range(_TRIES):
        version = log.version()
        old = [file for file in version.files if file.path in place.files]
        if len(old) != len(place.files):
            raise LakeError("the quarantine changed meanwhile", code=Code.LAKE_CONFLICT)
        file = new_file(f"{log.root}/{DATA}", ASIDE)
        for entry in old:
            table = file.fitting(pq.read_table(f"{root}/{entry.path}", filesystem=system))
            offset = table.column("offset")
            inside = pc.and_(
                pc.equal(table.column("bundle"), place.bundle),
                pc.and_(
                    pc.greater_equal(offset, place.offset),
                    pc.less(offset, place.offset + place.length),
                ),
            )
            file.add(table.filter(pc.invert(inside)))
        file.add(rest)
        made = list(file.close())
        try:
            log.replace(
                old, [entry.published() for entry in made], expected=version.number,
                note={"replayed": place.bundle}, changes_data=True,
            )  # fmt: skip
        except Conflict:
            log.drop(f"{DATA}/{entry.name}" for entry in made)
            continue
        return int(
            pc.sum(pc.not_equal(rest.column("code"), str(Code.LAKE_UNREADABLE))).as_py() or 0
        )
    raise LakeError(f"{lake.root}: {_TRIES} tries to commit", code=Code.LAKE_CONFLICT)
