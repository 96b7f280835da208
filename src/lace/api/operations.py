"""get, list, store and for_each: small wrappers that go by selectors, and never around them."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from typing import Final

from lace.answering.selection import Selection
from lace.api.handles import Lace, Peer, checked_text, in_worker, store_of
from lace.api.handles import open as open_lace
from lace.api.policies import Policy, as_module, policy_of
from lace.errors import Code, Outcome, Status, UsageError, wrong_type
from lace.ids import RecordHash, is_record_hash
from lace.policy.module import PolicyModule
from lace.record.model import Record, Versioned
from lace.record.validate import validate_record
from lace.recordstore.base import RecordStore
from lace.selectors import hashes
from lace.urc import Coordinate, HashAddress, parse_urc, raw_tip_key

__all__ = [
    "count", "for_each", "forget", "forgotten", "get", "history", "list", "remember", "store",
]  # fmt: skip

_POLL_SECONDS: Final = 1.0


async def list(target: Lace | Peer, policy: Policy | None = None) -> builtins.list[Record]:
    """Return the records that a selector selects, oldest first; by default that of the settings.

    A peer is interlaced with: what it has and selects too is fetched, validated and returned.
    """
    if isinstance(target, Lace):
        store, chosen, limits = store_of(target), policy_of(target, policy), target.limits
        return await in_worker(target, lambda: Selection(store, chosen, limits).records())
    _check_target(target)
    module = _wanted(policy)
    from lace.api.interlaces import sync  # whoever only reads a lace of their own needs none of it

    with open_lace(key=target.key) as scratch:
        await sync(scratch, target, module)
        return Selection(store_of(scratch), module).records()


def _check_target(target: object) -> None:
    if not isinstance(target, Lace | Peer):
        raise wrong_type("a lace or a peer", target, "Open one: lace.open(path).")


def _wanted(policy: Policy | None) -> PolicyModule:
    """Return what a peer is asked for; it has no settings here."""
    if policy is None:
        raise UsageError("say what to ask the peer for", code=Code.POLICY_SELECTOR)
    return as_module(policy)


async def get(target: Lace | Peer, address: str) -> Record | None:
    """Return the record at a place, or of a hash, or None if nothing is selected there.

    A hash is as ``record.hash`` has it, or an address, ``////S.….H3``.
    Of several versions it is the one with the highest time, then the highest hash (A39, A40).
    """
    _check_target(target)
    checked_text(address, "an address", "Write //group//app//name, or give the hash of a record.")
    if is_record_hash(address):
        address = f"////{address}"
    parsed = parse_urc(address)
    if not isinstance(parsed, HashAddress | Coordinate):
        raise UsageError(
            f"{address} is a prefix and may name many records; list them", code=Code.URC_FORM
        )
    if isinstance(target, Lace):
        store = store_of(target)
        return await in_worker(target, lambda: _look_up(store, parsed))
    found = await list(target, address)
    return max(found, key=_tip, default=None)


def _look_up(store: RecordStore, address: HashAddress | Coordinate) -> Record | None:
    """Return what the selector of an address would, through the store's index (110-AUT-05).

    Such a selector asks for nothing but the hash or the place, and the index knows both; a list
    would look at every record that is here.
    """
    if isinstance(address, HashAddress):
        return store.load(RecordHash(address.hash))
    tip = store.versions(address, 1)
    return store.load(tip[0]) if tip else None


async def history(local: Lace, place: str, limit: int = 100) -> builtins.list[Record]:
    """Return the records at a place, the newest first, at most ``limit``.

    It is the raw order of time, then of hash (A39); whether one belongs is for a selector to say.
    """
    parsed = parse_urc(checked_text(place, "a place", "Write //group//app//name."))
    if not isinstance(parsed, Coordinate):
        raise UsageError(
            f"{place} is not one place", code=Code.URC_FORM, hint="Write //group//app//name."
        )
    if limit < 0:
        raise UsageError(f"limit is {limit}", code=Code.INPUT_TYPE, hint="Say 0 or more.")
    inner = store_of(local)

    def versions() -> builtins.list[Record]:
        found = map(inner.load, inner.versions(parsed, limit))
        return [record for record in found if record is not None]

    return await in_worker(local, versions)


async def count(local: Lace, policy: Policy | None = None) -> int:
    """Return how many records a selector selects; by default that of the settings."""
    inner, chosen, limits = store_of(local), policy_of(local, policy), local.limits
    return await in_worker(local, lambda: len(Selection(inner, chosen, limits).hashes()))


async def forget(local: Lace, policy: Policy, *, may_return: bool = False) -> int:
    """Remove what a selector selects from this lace, and from nowhere else; return how many.

    Their hashes are kept, and nothing else of them: no exchange and no file brings them back until
    ``remember`` lets them. With ``may_return`` nothing is kept, and a peer that still has them may
    send them again if the selector of an exchange asks for them.
    """
    inner, chosen, limits = store_of(local), as_module(policy), local.limits

    def work() -> int:
        hashes = map(RecordHash, Selection(inner, chosen, limits).hashes())
        return inner.forget(hashes, for_good=not may_return)

    return await in_worker(local, work)


async def forgotten(local: Lace) -> builtins.list[str]:
    """Return the hashes of what this lace has forgotten for good, sorted."""
    inner = store_of(local)
    return await in_worker(local, lambda: [*map(str, inner.all_kept_out())])


async def remember(local: Lace, hashes: Iterable[str]) -> int:
    """Let records come back that were forgotten for good; return how many were.

    Nothing is fetched: a peer that has them may send them again.
    """
    if isinstance(hashes, str):
        raise wrong_type("a list of hashes", hashes, "Write [hash] for one.")
    inner, chosen = store_of(local), [RecordHash(hash) for hash in hashes]
    return await in_worker(local, lambda: inner.remember(chosen))


async def store(
    target: Lace | Peer, records: Iterable[Record | bytes]
) -> builtins.list[Outcome[Record]]:
    """Store records; return of each what became of it.

    Bytes are validated. A peer takes what its own policy selects; the rest is refused there.
    """
    _check_target(target)
    if isinstance(records, Record | bytes | str) or not isinstance(records, Iterable):
        raise wrong_type("a list of records", records, "Write [record] for one.")
    given = builtins.list(records)
    for item in given:
        if not isinstance(item, Record | bytes):
            raise wrong_type("a record or bytes", item)

    def validated() -> builtins.list[Outcome[Record]]:
        return [
            Outcome(Status.ACCEPTED, item) if isinstance(item, Record) else validate_record(item)
            for item in given
        ]

    local = target if isinstance(target, Lace) else None
    if local is not None:
        store_of(local)  # says so if it was closed, before anything is done
    outcomes = validated() if local is None else await in_worker(local, validated)
    valid = [outcome.value for outcome in outcomes if outcome.value is not None]
    if not valid:
        return outcomes
    if isinstance(target, Lace):
        inner = store_of(target)
        settled = iter(await in_worker(target, lambda: inner.save(valid)))
    else:
        settled = iter(await _store_at(target, valid))
    return [outcome if outcome.value is None else next(settled) for outcome in outcomes]


async def _store_at(peer: Peer, records: builtins.list[Record]) -> builtins.list[Outcome[Record]]:
    """Offer exactly these records to a peer; what it did not ask for, it had or it refused."""
    from lace.api.interlaces import Ends, client_of  # whoever only keeps records needs none of it

    with open_lace(records=records, key=peer.key) as scratch:
        client = client_of(scratch, peer, hashes(record.hash for record in records))
        ends = Ends()
        exchange = await client.dial(peer.address, listen=ends)
        await exchange.run()
        sent = set(ends.result().sent)
        is_there = exchange.connection.machine.peer_advertises
    outcomes: builtins.list[Outcome[Record]] = []
    for record in records:
        if record.hash in sent:
            sent.discard(record.hash)
            outcomes.append(Outcome(Status.ACCEPTED, record))
        elif is_there(record.hash):
            outcomes.append(Outcome(Status.DUPLICATE, record))
        else:
            code = Code.POLICY_REFUSED
            outcomes.append(Outcome(Status.REFUSED, code=code, detail=code.meaning))
    return outcomes


async def for_each(local: Lace, policy: Policy | None = None) -> AsyncGenerator[Record, None]:
    """Yield the records that are selected, then each one that comes to be: every one once.

    Each is here and selected at the moment it is yielded: what was forgotten is passed over, and so
    is what belonged only because of a forgotten record. It goes on until the iteration is left.
    """
    store = store_of(local)
    module = policy_of(local, policy)

    def begin() -> tuple[Selection, builtins.list[Record]]:
        selection = Selection(store, module, local.limits)
        return selection, selection.records()

    def follow() -> dict[str, Record]:
        return {record.hash: record for record in selection.load(selection.update() - seen)}

    seen: set[str] = set()
    selection, records = await in_worker(local, begin)
    waiting: dict[str, Record] = {record.hash: record for record in records}
    loop = asyncio.get_running_loop()
    stored = asyncio.Event()

    def note(_stored: object) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stored.set)

    end = store.subscribe(note)
    try:
        while True:
            stored.clear()
            store_of(local)  # says so if it was closed meanwhile
            if not selection.is_current():
                waiting |= await in_worker(local, follow)
                store_of(local)
                waiting |= follow()  # what happened during that; now nothing is awaited any more
            if waiting:
                record = waiting.pop(next(iter(waiting)))
                if record.hash in selection:
                    seen.add(record.hash)
                    yield record
            else:
                with suppress(TimeoutError):  # other processes are not heard, only seen
                    await asyncio.wait_for(stored.wait(), _POLL_SECONDS)
    finally:
        end()


def _tip(record: Record) -> tuple[str, str]:
    return raw_tip_key(record.tai, record.hash) if isinstance(record, Versioned) else ("", "")
