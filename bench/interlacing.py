"""Exchanges in one process: ingest into SQLite, reconciliation of large sets, one record more.

The records here are unsigned and small where signatures are not what is measured.
"""

from __future__ import annotations

import gc
import random
import sqlite3
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from blake3 import blake3

from lace import b64a, collector
from lace.answering.store import StoreAnswers
from lace.driving.connection import Connection
from lace.driving.pair import Pair
from lace.errors import Outcome
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.interlace.parameters import DEFAULT_PARAMETERS
from lace.interlace.partition import Partitions
from lace.limits import Limits
from lace.policy.view import Exposure
from lace.record import Record, build_plex, facts, validate_record
from lace.record.validate import validate_records
from lace.recordstore import MemoryStore, SqliteStore
from lace.recordstore.base import RecordStore
from lace.recordstore.sqlite_file import MIGRATIONS
from lace.selectors import selector
from lace.stream.packing import pack
from lace.tai import Tai
from measure import Effort, Result, Target, judged
from negentropy import reconcile
from records import make_seals
from seal_validation import Work, floor_work

_NOW = Tai("1700000000:000000000")
_NOTES = selector("//notes-demo//notes//")
_BATCH = DEFAULT_PARAMETERS.save_at_once
_AT_ONCE: Final = 64  # rows in one statement
_LIMITS = Limits(max_advertisement_records_listed=1 << 20, max_loop_iterations=64)


def run(effort: Effort) -> list[Result]:
    return [
        _ingest(effort),
        _alone(effort),
        *_differences(effort),
        _memory(effort),
        *_one_more(effort),
    ]


# --- ingest ---


def _ingest(effort: Effort) -> Result:
    records = make_seals(effort.ingest_records)
    least = [float("inf"), float("inf")]
    for _ in range(effort.ingest_rounds):
        for place, job in enumerate((_through_the_machine, _plain_insert)):
            with tempfile.TemporaryDirectory() as folder:
                least[place] = min(least[place], job(records, Path(folder) / "store"))
    return Result(
        name="interlace: verified ingest into SQLite",
        unit="records/s",
        count=len(records),
        seconds=least[0],
        floor="verify + plain SQLite insert of record and facts",
        floor_seconds=least[1],
        target=Target(sign=">=", ratio=0.5),
        notes=(
            f"{len(records):,} sealed records of about 1000 bytes, each requested, sent, validated",
            "and stored with its facts and indexes; only the receiving side is timed",
        ),
    )


def _through_the_machine(records: Sequence[Record], path: Path) -> float:
    """Return the processor seconds of the side that receives."""
    sender = MemoryStore()
    sender.save(records)
    with SqliteStore(path) as receiver:
        pair = _pair(sender, receiver)
        spent = 0.0
        take = pair.right.receive

        def timed(said: m.Incoming, now: Tai) -> None:
            nonlocal spent
            begin = time.process_time()
            take(said, now)
            spent += time.process_time() - begin

        pair.right.receive = timed  # type: ignore[method-assign]
        pair.start(_NOW)
        pair.run(_NOW)
        assert receiver.count() == len(records)
    return spent


def _plain_insert(records: Sequence[Record], path: Path) -> float:
    raws = [record.raw for record in records]
    begin = time.process_time()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE record (id INTEGER PRIMARY KEY, hash TEXT UNIQUE, raw BLOB);"
        "CREATE TABLE fact (record INTEGER, predicate TEXT, a TEXT, b TEXT, c TEXT, d TEXT);"
        "CREATE INDEX by_value ON fact (predicate, a, c);"
    )
    for start in range(0, len(raws), 512):
        connection.execute("BEGIN")
        for raw in raws[start : start + 512]:
            record = validate_record(raw).unwrap()
            id = connection.execute(
                "INSERT INTO record (hash, raw) VALUES (?, ?)", (record.hash, raw)
            ).lastrowid
            connection.executemany(
                "INSERT INTO fact VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (id, fact[0], *fact[2:], *[None] * (6 - len(fact)))
                    for fact in facts(record)
                    if len(fact) > 2
                ],
            )
        connection.execute("COMMIT")
    connection.close()
    return time.process_time() - begin


def _alone(effort: Effort) -> Result:
    """Validate and store with no exchange around it, as a receiving side does it in batches."""
    records = make_seals(effort.ingest_records)
    raws = [record.raw for record in records]
    work = floor_work(records)
    least = [float("inf")] * 4
    for _ in range(effort.ingest_rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            spent = (
                _validate_and_store(raws, folder / "store"),
                _hash_verify_insert(work, folder / "plain"),
                _validate(raws),
                _insert_the_same(folder / "store", folder / "again"),
            )
            least = list(map(min, least, spent))
    whole, _, validating, inserting = (seconds / len(raws) * 1e6 for seconds in least)
    return Result(
        name="interlace: validated and stored alone",
        unit="records/s",
        count=len(raws),
        seconds=least[0],
        floor="3 BLAKE3 + BIP340 verify + insert of hash and bytes",
        floor_seconds=least[1],
        target=Target(sign=">=", ratio=0.75),
        notes=(
            f"{len(raws):,} sealed records of about 1000 bytes, in batches of {_BATCH}",
            f"of {whole:.1f} µs a record, {validating:.1f} validate",
            f"the same rows inserted by hand take {inserting:.1f}",
            f"nothing but these two: {least[1] / (least[2] + least[3]):.2f}",
        ),
    )


def _validate_and_store(raws: Sequence[bytes], path: Path) -> float:
    with SqliteStore(path) as store, collector.paused():
        begin = time.process_time()
        for start in range(0, len(raws), _BATCH):
            found = _outcomes(raws[start : start + _BATCH])
            store.save([outcome.unwrap() for outcome in found])
        return time.process_time() - begin


def _outcomes(raws: Sequence[bytes]) -> Iterator[Outcome[Record]]:
    """Validate some records together, as a receiving side does."""
    most = DEFAULT_PARAMETERS.validate_at_once
    for at in range(0, len(raws), most):
        yield from validate_records(raws[at : at + most])


def _validate(raws: Sequence[bytes]) -> float:
    with collector.paused():
        begin = time.process_time()
        for start in range(0, len(raws), _BATCH):
            for _ in _outcomes(raws[start : start + _BATCH]):
                pass
        return time.process_time() - begin


_ROWS_OF: Final = {  # each behind the id of its record
    "record": "SELECT id, * FROM record",
    "place": "SELECT r.id, p.* FROM place AS p JOIN record AS r ON r.hash = p.hash",
    "field": "SELECT record, * FROM field",
    "link": "SELECT record, * FROM link",
}


def _insert_the_same(made: Path, path: Path) -> float:
    """Insert the rows that a store made into a file of the same schema, with nothing around it."""
    with closing(sqlite3.connect(made)) as store:
        rows = {table: sorted(store.execute(query)) for table, query in _ROWS_OF.items()}
    batches = [
        {
            table: [row[1:] for row in some if at < row[0] <= at + _BATCH]
            for table, some in rows.items()
        }
        for at in range(0, len(rows["record"]), _BATCH)
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        for script in MIGRATIONS:
            connection.executescript(script)
        begin = time.process_time()
        for batch in batches:
            connection.execute("BEGIN")
            for table, some in batch.items():
                marks = f"({', '.join('?' * len(some[0]))})"
                for at in range(0, len(some), _AT_ONCE):
                    part = some[at : at + _AT_ONCE]
                    values = ", ".join([marks] * len(part))
                    connection.execute(
                        f"INSERT OR FAIL INTO {table} VALUES {values}",  # noqa: S608 (ours)
                        tuple(chain.from_iterable(part)),
                    )
            connection.execute("COMMIT")
        return time.process_time() - begin


def _hash_verify_insert(work: Sequence[Work], path: Path) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
        "CREATE TABLE record (id INTEGER PRIMARY KEY, hash TEXT UNIQUE, raw BLOB);"
    )
    begin = time.process_time()
    for start in range(0, len(work), _BATCH):
        connection.execute("BEGIN")
        for whole, plex, blob, key, signature, digest in work[start : start + _BATCH]:
            hash = blake3(whole).digest()
            blake3(plex).digest()
            blake3(blob).digest()
            key.verify(signature, digest)
            connection.execute(
                "INSERT INTO record (hash, raw) VALUES (?, ?)", (b64a.encode(hash), whole)
            )
        connection.execute("COMMIT")
    spent = time.process_time() - begin
    connection.close()
    return spent


# --- differences ---


@dataclass(slots=True)
class _Cost:
    bytes: int = 0
    packed: int = 0
    """The same as it goes over a stream."""
    trips: int = 0
    seconds: float = 0.0


_MOST_PACKED: Final = {10: 4_000, 1000: 75_000}
_MOST_SECONDS: Final = 3.0


def _differences(effort: Effort) -> list[Result]:
    results = []
    for differing in effort.differences:
        chance = random.Random(differing)
        records = [_note(number) for number in range(effort.set_records + differing)]
        missing = {record.hash for record in chance.sample(records, 2 * (differing // 2))}
        lost = sorted(missing)
        left = [r for r in records if r.hash not in set(lost[: len(lost) // 2])]
        right = [r for r in records if r.hash not in set(lost[len(lost) // 2 :])]
        cost = _reconcile(left, right)
        theirs = reconcile(
            [_id(record.hash) for record in left], [_id(record.hash) for record in right]
        )
        equal, most = not differing, _MOST_PACKED.get(len(lost))
        packed = f"{cost.packed:,} bytes" if most is None else judged(cost.packed, most, "bytes")
        results.append(
            Result(
                name=f"interlace: {len(left):,} records, {len(lost):,} differences",
                unit="bytes",
                count=1,
                is_amount=True,
                seconds=cost.packed,
                floor="negentropy, ids alone",
                floor_seconds=theirs.bytes,
                notes=(
                    f"{cost.bytes:,} bytes both ways in {cost.trips} phases that say anything,",
                    f"packed {packed}",
                    judged(round(cost.seconds, 1), _MOST_SECONDS, "s of processor")
                    + " for both sides, policy included",
                    f"negentropy {theirs.bytes:,} bytes in {theirs.trips} round trips: ids alone",
                    *(
                        [f"equal sets: at most 1 KB and one round trip: {cost.bytes <= 1024}"]
                        if equal
                        else []
                    ),
                ),
            )
        )
    return results


def _reconcile(left: list[Record], right: list[Record]) -> _Cost:
    """Run a whole exchange; count what advertise, ask and answer phases cost."""
    cost = _Cost()
    stores = MemoryStore(), MemoryStore()
    stores[0].save(left)
    stores[1].save(right)
    spoken: set[int] = set()  # phases in which either side said something
    ends = [0, 0]
    counted = (b"Advertise", b"ListAdv", b"NarrowAdv", b"MayRequest", b"RequestListed")

    def listen(side: int, crossing: m.Incoming) -> list[m.Incoming]:
        if isinstance(crossing, m.PeerFacts) and crossing.content.startswith(counted):
            cost.bytes += len(crossing.content)
            cost.packed += sum(map(len, pack(crossing.content)))
            spoken.add(ends[side])
        if isinstance(crossing, m.PeerPhaseEnd):
            cost.bytes += 1
            cost.packed += 1
            ends[side] += 1
        return [crossing]

    pair = _pair(*stores)
    pair.tamper = listen
    begin = time.process_time()
    pair.start(_NOW)
    pair.run(_NOW)
    cost.seconds = time.process_time() - begin
    cost.trips = len(spoken)
    assert stores[0].count() == stores[1].count()
    return cost


# --- memory ---


def _memory(effort: Effort) -> Result:
    chance = random.Random(1)
    gc.collect()
    tracemalloc.start()
    tables = []
    for _ in range(2):  # what may be sent, and what the peer advertises
        table = Partitions()
        for _ in range(0, effort.ids, 50_000):
            table.put(
                {
                    f"S.{b64a.encode(chance.randbytes(32))}.H3": chance.randbytes(32)
                    for _ in range(50_000)
                }
            )
        tables.append(table)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    count = len(tables[0])
    return Result(
        name="interlace: reconciliation state",
        unit="bytes",
        count=1,
        is_amount=True,
        seconds=used * 1_000_000 / count,
        floor="150 MB at 1,000,000 ids",
        floor_seconds=150e6,
        target=Target(sign="<=", ratio=1.0),
        notes=(f"{used / count:.0f} bytes an id, own and peer's together, at {count:,} ids",),
    )


# --- one more ---


def _one_more(effort: Effort) -> list[Result]:
    seconds = []
    for size in effort.open_sizes:
        stores = MemoryStore(), MemoryStore()
        records = [_note(number) for number in range(size)]
        for store in stores:
            store.save(records)
        pair = _pair(*stores, is_open=True)
        pair.start(_NOW)
        pair.run(_NOW)
        assert pair.left.idle
        least = float("inf")
        for number in range(30):
            stores[0].save([_note(10**6 + number)])
            begin = time.process_time()
            pair.wake(_NOW)
            least = min(least, time.process_time() - begin)
        assert stores[1].count() == size + 30
        seconds.append(least)
    return [
        Result(
            name=f"interlace: one record more at {size:,}",
            unit="records/s",
            count=1,
            seconds=spent,
            floor=f"the same at {effort.open_sizes[0]:,}",
            floor_seconds=seconds[0],
            target=Target(sign="<=", ratio=2.0) if size == effort.open_sizes[-1] else None,
            notes=(
                "both sides: evaluated, advertised, requested, sent, stored, a fixed point again",
            ),
        )
        for size, spent in zip(effort.open_sizes, seconds, strict=True)
    ]


# --- small things ---


def _note(number: int) -> Record:
    return build_plex(
        group="notes-demo", app="notes", name=f"n/{number}", tai=f"{number:010d}:{0:09d}"
    )


def _id(hash: str) -> bytes:
    return b64a.decode(hash.split(".")[1])


def _pair(left: RecordStore, right: RecordStore, *, is_open: bool = False) -> Pair:
    sides = [
        Connection(
            Side(index=index, module=_NOTES, open=is_open, limits=_LIMITS),
            lambda side, store=store: StoreAnswers.of(  # type: ignore[misc]
                store, side, Exposure(default="selected"), _LIMITS
            ),
        )
        for index, store in enumerate((left, right))
    ]
    return Pair(sides[0], sides[1])
