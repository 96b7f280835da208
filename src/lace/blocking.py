"""The same operations for scripts and notebooks: each call returns when it is done.

Where an event loop runs already, as in a notebook, the work is done in another thread, and the loop
waits for it. So what the loop itself has to answer cannot be waited for: where a cell serves a lace
with ``async with lace.serve(…)``, meet it there with ``await lace.sync(…)``.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO, TypeVar

from lace.api import (
    backups,
    currents,
    differences,
    exporting,
    importing,
    interlaces,
    operations,
    rooms,
)
from lace.api.handles import Lace, Peer, RecordKind
from lace.api.handles import connect as connect
from lace.api.handles import open as open
from lace.api.interlaces import SteppedInterlace as SteppedInterlace
from lace.api.policies import Exposes, Policy
from lace.api.rows import RowMap
from lace.crypto.keys import SigningKey
from lace.errors import Outcome
from lace.interlace import messages as m
from lace.projection import Newest, Projection
from lace.record.model import Record, Seal
from lace.rooms import Room
from lace.values import Type

T = TypeVar("T")


def get(target: Lace | Peer, address: str) -> Record | None:
    """Return the record at an address, or None."""
    return _run(operations.get(target, address))


def list(target: Lace | Peer, policy: Policy | None = None) -> builtins.list[Record]:
    """Return the records that a selector selects."""
    return _run(operations.list(target, policy))


def store(target: Lace | Peer, records: Iterable[Record | bytes]) -> builtins.list[Outcome[Record]]:
    """Store records; return of each what became of it."""
    return _run(operations.store(target, records))


def history(local: Lace, place: str, limit: int = 100) -> builtins.list[Record]:
    """Return the records at a place, the newest first."""
    return _run(operations.history(local, place, limit))


def count(local: Lace, policy: Policy | None = None) -> int:
    """Return how many records a selector selects."""
    return _run(operations.count(local, policy))


def forget(local: Lace, policy: Policy, *, may_return: bool = False) -> int:
    """Remove what a selector selects from this lace, and from nowhere else; return how many."""
    return _run(operations.forget(local, policy, may_return=may_return))


def forgotten(local: Lace) -> builtins.list[str]:
    """Return the hashes of what this lace has forgotten for good, sorted."""
    return _run(operations.forgotten(local))


def remember(local: Lace, hashes: Iterable[str]) -> int:
    """Let records come back that were forgotten for good; return how many were."""
    return _run(operations.remember(local, hashes))


def import_file(
    local: Lace,
    source: str | Path | BinaryIO,
    *,
    rows: RowMap | None = None,
    form: importing.Form | None = None,
    key: SigningKey | None = None,
    unsigned: bool = False,
    put_aside: Callable[[importing.Refused], None] | None = None,
    listen: Callable[[importing.Imported], None] | None = None,
) -> importing.Imported:
    """Store what a file holds; return how much was new, was here already, and was refused."""
    return _run(
        importing.import_file(
            local,
            source,
            rows=rows,
            form=form,
            key=key,
            unsigned=unsigned,
            put_aside=put_aside,
            listen=listen,
        )
    )


def export_file(
    local: Lace,
    target: str | Path | BinaryIO,
    policy: Policy | None = None,
    *,
    form: importing.Form | None = None,
    overwrite: bool = False,
    listen: Callable[[exporting.Exported], None] | None = None,
) -> exporting.Exported:
    """Write what a selector selects; return how much."""
    return _run(
        exporting.export_file(local, target, policy, form=form, overwrite=overwrite, listen=listen)
    )


def admit(
    local: Lace,
    member: str,
    role: str | None = None,
    *,
    room: Room | None = None,
    under: str | None = None,
    may_admit: int = 0,
    key: SigningKey | None = None,
) -> Seal:
    """Store a grant for a verifier, signed with the key of the lace; return it."""
    return _run(
        rooms.admit(local, member, role, room=room, under=under, may_admit=may_admit, key=key)
    )


def remove(
    local: Lace, member: str, *, room: Room | None = None, key: SigningKey | None = None
) -> Seal:
    """Store the end of a membership, signed with the key of the lace; return it."""
    return _run(rooms.remove(local, member, room=room, key=key))


def move(local: Lace, to: str, *, room: Room | None = None, key: SigningKey | None = None) -> Seal:
    """Store that another verifier stands for the member of this key from now on; return it."""
    return _run(rooms.move(local, to, room=room, key=key))


def members(local: Lace, room: Room | None = None) -> builtins.list[rooms.Membership]:
    """Return who is a member by what is here, then who was."""
    return _run(rooms.members(local, room))


def backup(
    local: Lace,
    target: str | Path,
    *,
    overwrite: bool = False,
    listen: Callable[[int, int], None] | None = None,
) -> int:
    """Write the whole store of a lace into one new file; return how many records it has."""
    return _run(backups.backup(local, target, overwrite=overwrite, listen=listen))


def diff(
    left: Lace | Peer,
    right: Lace | Peer,
    policy: Policy | None = None,
    *,
    their_policy: Policy | None = None,
) -> differences.Difference:
    """Return what only one of two laces has of what a selector selects; nothing is exchanged."""
    return _run(differences.diff(left, right, policy, their_policy=their_policy))


def sync(
    left: Lace,
    right: Lace | Peer | str,
    policy: Policy | None = None,
    *,
    their_policy: Policy | None = None,
    expose: Exposes | None = None,
    their_expose: Exposes | None = None,
    listen: Callable[[m.Event], None] | None = None,
    journal: str | Path | None = None,
) -> m.InterlaceResult:
    """Interlace until the current fixed point."""
    return _run(
        interlaces.sync(
            left,
            right,
            policy,
            their_policy=their_policy,
            expose=expose,
            their_expose=their_expose,
            listen=listen,
            journal=journal,
        )
    )


def current(
    local: Lace,
    place: str,
    policy: Policy | None = None,
    *,
    author: str | None = None,
    role: str | None = None,
    room: Room | None = None,
) -> Record | None:
    """Return the newest record at a place that belongs, or None."""
    return _run(currents.current(local, place, policy, author=author, role=role, room=room))


def table(
    target: Lace | Peer,
    policy: Policy | RecordKind | None = None,
    columns: Sequence[str] | None = None,
    *,
    newest: bool | Newest = False,
    types: Mapping[str, Type] | None = None,
    author: str | None = None,
    role: str | None = None,
    room: Room | None = None,
) -> Projection:
    """Return what a selector selects as a table."""
    return _run(
        currents.table(
            target,
            policy,
            columns,
            newest=newest,
            types=types,
            author=author,
            role=role,
            room=room,
        )
    )


def for_each(local: Lace, policy: Policy | None = None) -> Iterator[Record]:
    """Yield the records that are selected, then each one that comes to be: every one once.

    It waits for the next one until the loop over it is left.
    """
    found = operations.for_each(local, policy)

    async def following() -> Record:
        return await anext(found)

    with _apart() as run:
        while True:
            yield run(following())


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with _apart() as run:
        return run(work)


@contextlib.contextmanager
def _apart() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """Give what runs work in a thread of its own; what is not done at the end is cancelled."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def stay() -> None:
        end = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    thread = Thread(target=lambda: asyncio.run(stay()), name="lace-blocking", daemon=True)
    thread.start()
    loop, end = ready.result()
    try:
        yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result()
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()
