"""What a contact costs after a restart, and what the first look at all records costs.

Where selectors look at one record at a time (here: a prefix), a contact looks at what is new alone;
in a room, also at the grants.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from small_room import room

from lace.answering.store import StoreAnswers
from lace.crypto import SigningKey
from lace.crypto.native import digest
from lace.driving.connection import Connection
from lace.driving.pair import Pair
from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.interlace.machine import Side
from lace.limits import Limits
from lace.policy.module import PolicyModule
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record import Record, build_plex, seal
from lace.recordstore import SqliteStore
from lace.selectors import selector
from lace.tai import Tai
from measure import Effort, Result, Target, race

_NOW = Tai("1700000000:000000000")
_NOTES = selector("//notes-demo//notes//")
_LIMITS = Limits(max_advertisement_records_listed=1 << 20, max_loop_iterations=64)
_KEYS = [SigningKey(bytes([number]) * 32) for number in (1, 2)]
_ROOM = room("//notes-demo//notes//", authority=_KEYS[0].verifier)
_GRANTS = 50
_SELECTED = Exposure(default="selected")
_SCHEMA = frozenset(("Group", "App"))
_ROUNDS = 7
_BATCH = 5000


def run(effort: Effort) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_after_restart(effort, Path(folder)),
            _room_after_restart(effort, Path(folder)),
            _first_look(effort, Path(folder)),
        ]


# --- one record more, after a restart ---


def _after_restart(effort: Effort, folder: Path) -> list[Result]:
    sizes = effort.open_sizes[0], effort.open_sizes[-1]
    seconds = [_one_more(folder, size, _NOTES, _note) for size in sizes]
    return [
        Result(
            name=f"contact: one record more after a restart at {size:,}",
            unit="records/s",
            count=1,
            seconds=spent,
            floor=f"the same at {sizes[0]:,}",
            floor_seconds=seconds[0],
            target=None if size == sizes[0] else Target(sign="<=", ratio=3),
            notes=("CPU time of both sides, on SQLite; nothing is in memory when they meet",),
        )
        for size, spent in zip(sizes, seconds, strict=True)
    ]


def _room_after_restart(effort: Effort, folder: Path) -> Result:
    size = effort.room_records
    grants = [_grant(number) for number in range(_GRANTS)]
    spent = _one_more(folder, size, _ROOM, _signed, grants)
    return Result(
        name=f"contact: one record more after a restart in a room of {size:,}",
        unit="records/s",
        count=1,
        seconds=spent,
        floor="0.2 s",
        floor_seconds=0.2,
        target=Target(sign="<=", ratio=1),
        notes=(f"CPU time of both sides, on SQLite; with {_GRANTS} grants",),
    )


def _one_more(
    folder: Path,
    size: int,
    module: PolicyModule,
    make: Callable[[int], Record],
    more: Sequence[Record] = (),
) -> float:
    paths = folder / f"left-{make.__name__}-{size}", folder / f"right-{make.__name__}-{size}"
    with SqliteStore(paths[0]) as store:
        store.save(more)
        for start in range(0, size, _BATCH):
            store.save([make(number) for number in range(start, min(start + _BATCH, size))])
    shutil.copy(*paths)  # the last to close it has left everything in the one file
    least = float("inf")
    for number in range(1 + _ROUNDS):
        with SqliteStore(paths[0]) as left, SqliteStore(paths[1]) as right:
            if number:
                left.save([make(10**6 + number)])
            pair = Pair(_side(0, left, module), _side(1, right, module))
            begin = time.process_time()
            pair.start(_NOW)
            pair.run(_NOW)
            if number:  # the first time they get to know each other
                least = min(least, time.process_time() - begin)
            assert right.count() == len(more) + size + number
    return least


def _side(index: int, store: SqliteStore, module: PolicyModule) -> Connection:
    side = Side(
        index=index, module=module, limits=_LIMITS, verifier=_KEYS[index].verifier,
        peer_verifier=_KEYS[1 - index].verifier,
    )  # fmt: skip
    return Connection(side, lambda side: StoreAnswers.of(store, side, _SELECTED, _LIMITS))


# --- the first look ---


def _first_look(effort: Effort, folder: Path) -> Result:
    size = effort.open_sizes[-1]
    operands = label_operands(
        *(Party(index=i, module=_NOTES, verifier=_KEYS[i].verifier) for i in (0, 1))
    )
    plan = ExchangePlan(operands)
    asked = m.Evaluate(plan=plan, schema=_SCHEMA, runtime=())
    labels = [operand.source_label for operand in operands]

    with (
        SqliteStore(folder / f"left-{_note.__name__}-{size}") as store,
        store.snapshot() as snapshot,
    ):
        texts = [
            [advertise(record, label, fields, None).canonical() for label in labels]
            for batch in snapshot.fields(_SCHEMA, _BATCH)
            for record, fields in batch
        ]

        def look() -> None:
            answers = StoreAnswers(store, 0, _SELECTED, _LIMITS)
            answers.recall(m.Recall(None, plan, _SCHEMA))
            parts = [part for part in answers.evaluate(asked) if isinstance(part, m.Evaluated)]
            answers.close()
            assert sum(len(part.sendable) for part in parts) == len(texts)

        def floor() -> None:
            rows = snapshot._connection.execute('SELECT hash, "group", app FROM place')  # noqa: SLF001
            assert len(list(rows)) == len(texts)
            for text in texts:
                for one in text:
                    digest(one)

        spent, least = race(look, floor, rounds=3)
    return Result(
        name="contact: first look at all records",
        unit="records/s",
        count=len(texts),
        seconds=spent,
        floor="reading three columns, and two hashes of the texts a record",
        floor_seconds=least,
        notes=(
            f"{len(texts):,} records, selected by both sides: read, decided on, digests of what",
            f"both sides would say; {spent / len(texts) * 1e6:.1f} µs a record",
        ),
    )


# --- small things ---


def _note(number: int) -> Record:
    return build_plex(
        group="notes-demo", app="notes", name=f"n/{number}", tai=f"{number:010d}:{0:09d}"
    )


def _signed(number: int) -> Record:
    plex = build_plex(
        group="notes-demo", app="notes/message", name=f"n/{number}", tai=f"{number:010d}:{0:09d}"
    )
    return seal(plex, _KEYS[1])


def _grant(number: int) -> Record:
    """Return a grant: the first one is for whoever writes, the others for people who do not."""
    member = _KEYS[1] if number == 0 else SigningKey(bytes([7, number]) * 16)
    plex = build_plex(
        group="notes-demo", app="notes/member", name=f"{number}", tai=f"{1:010d}:{0:09d}",
        extras=[("Member", member.verifier)],
    )  # fmt: skip
    return seal(plex, _KEYS[0])
