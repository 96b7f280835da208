"""The current state: of many versions at a place, the one that counts, and tables of such."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence

from lace.answering.selection import Selection
from lace.api import operations
from lace.api.handles import Lace, Peer, RecordKind, as_lace, in_worker, store_of
from lace.api.policies import Policy, policy_of
from lace.api.rooms import members, room_of
from lace.errors import Code, UsageError
from lace.projection import OWN, STANDARD, Newest, Projection
from lace.record.model import Record
from lace.rooms import Room
from lace.selectors import selector
from lace.text import shown
from lace.urc import Coordinate, parse_urc
from lace.values import Type

__all__ = ["current", "table"]


async def current(
    local: Lace,
    place: str,
    policy: Policy | None = None,
    *,
    author: str | None = None,
    role: str | None = None,
    room: Room | None = None,
) -> Record | None:
    """Return the newest record at a place that belongs, or None.

    What belongs is what ``policy`` selects, else the rules of ``room``, else the selector of the
    settings; without any of them everything here does. The newest is by time, then by hash. With
    ``author`` only records of this verifier count; with ``role`` only those of present members of
    the room who have it.
    """
    parsed = parse_urc(place)
    if not isinstance(parsed, Coordinate):
        raise UsageError(f"{place} is not one place", code=Code.URC_FORM)
    store = store_of(as_lace(local))
    policy = room if policy is None else policy
    room = policy if room is None and isinstance(policy, Room) else room
    module = None if policy is None and local.policy is None else policy_of(local, policy)
    authors = await _authors(local, author, role, room)

    def look() -> Record | None:
        belongs = None if module is None else Selection(store, module, local.limits)
        for hash in store.versions(parsed, store.count()):
            record = store.load(hash)
            if (
                record is not None
                and (authors is None or record.author in authors)
                and (belongs is None or hash in belongs)
            ):
                return record
        return None

    return await in_worker(local, look)


async def table(
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
    """Return what a selector selects as a table; of a kind of record, with its columns and types.

    ``newest`` leaves old versions out, as ``Projection.of`` has it. With ``author`` or ``role``
    only the records of that verifier, or of members who have that role, are there. Of a kind, what
    belongs by ``room`` or by the settings is there, and a column that its records cannot have is
    refused.
    """
    kind = policy if isinstance(policy, RecordKind) else None
    if kind is not None and columns is not None and not isinstance(columns, str):
        for name in columns:
            if name not in {*kind.columns, *STANDARD, *OWN}:
                raise UsageError(
                    f"{kind.app} has no column {shown(name)}; it has {', '.join(kind.columns)}",
                    code=Code.RECORD_KIND,
                    hint=f"Every table can have {', '.join(STANDARD)} too.",
                )
    policy = room if policy is None else policy
    room = policy if room is None and isinstance(policy, Room) else room
    chosen = selector(f"//{kind.group}//{kind.app}//") if kind else _policy(policy)
    found: builtins.list[Record] = await operations.list(target, chosen)
    if kind is not None:
        # What stands at its places and does not belong, or is of a sub-app, is none of its kind.
        found = [record for record in found if record.place and record.place.app == kind.app]
        if isinstance(target, Lace) and (room or target.policy) is not None:
            belong = {record.hash for record in await operations.list(target, room)}
            found = [record for record in found if record.hash in belong]
    if isinstance(target, Lace):
        authors = await _authors(target, author, role, room)
    else:
        authors = {author} if author is not None else None
    if authors is not None:
        found = [record for record in found if record.author in authors]
    return Projection.of(
        found,
        columns or (kind.columns if kind else STANDARD),
        newest=newest,
        types=types or (kind.types if kind else None),
    )


def _policy(policy: Policy | RecordKind | None) -> Policy | None:
    assert not isinstance(policy, RecordKind)
    return policy


async def _authors(
    local: Lace, author: str | None, role: str | None, room: Room | None
) -> set[str] | None:
    """Return whose records count; None for everybody's."""
    if author is not None and role is not None:
        raise UsageError("give author or role, not both", code=Code.INPUT_TYPE)
    if role is None:
        return None if author is None else {author}
    rules = room_of(local, room)
    if role not in rules.roles:
        known = ", ".join(rules.roles)
        raise UsageError(f"the room has no role {role}; it has {known}", code=Code.POLICY_ROOM)
    found = await members(local, rules)
    return {one.verifier for one in found if one.ended is None and one.role == role}
