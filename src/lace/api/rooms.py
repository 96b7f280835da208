"""Members of a room: admitted, removed and listed by the records that say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lace.api.handles import Lace, as_lace, checked_text, in_worker, store_of
from lace.clock import tai_now
from lace.crypto.keys import SigningKey
from lace.errors import Code, UsageError
from lace.ids import RecordHash, Verifier, is_verifier
from lace.policy.mentions import Mentions
from lace.policy.own import evaluate_own
from lace.record.build import build_plex, seal
from lace.record.model import Seal
from lace.recordstore.base import RecordStore
from lace.rooms import (
    ADMITS,
    ADMITS_FIELD,
    ENDED_FIELD,
    ENDS,
    GRANT,
    MEMBER_FIELD,
    MOVED,
    NEXT_FIELD,
    ROLE_FIELD,
    UNDER_FIELD,
    Room,
)
from lace.rules import LocalFacts
from lace.tai import Tai, add_ns
from lace.text import shown
from lace.urc import Coordinate, VersionSelector, path_fault

__all__ = ["Membership", "admit", "members", "move", "remove"]

_ENDED: Final = "yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Somebody whom the room's rules know, by one grant."""

    verifier: Verifier
    """Who it is."""
    role: str
    """What they may do, as one of the room's roles."""
    since: Tai
    """When the grant was made that counts now."""
    by: Verifier
    """Who granted it."""
    under: str | None = None
    """The names that it gives, if it gives any: all that begin so."""
    may_admit: int = 0
    """How far the right to admit can be handed on from here; 0 for none."""
    ended: Tai | None = None
    """When the membership ended; None as long as it lasts."""
    granted: Verifier
    """Whom the grant names: another verifier if this one took its place."""
    moved: Verifier | None = None
    """Who stands for this one now, if it handed its place on."""


async def admit(
    local: Lace,
    member: str,
    role: str | None = None,
    *,
    room: Room | None = None,
    under: str | None = None,
    may_admit: int = 0,
    key: SigningKey | None = None,
) -> Seal:
    """Store a grant for a verifier, signed with the key of the lace; return it.

    Without ``role`` it is the first of the room. ``under`` gives the names that begin so, for rooms
    whose places are ``own``; by default those that begin with the verifier. ``may_admit`` says how
    far the right to admit can be handed on. Who was removed is a member again. It does not matter
    here whether the rules will hear the signer: others decide that by the same rules.
    """
    rules = room_of(local, room)
    _check_member(member)
    chosen = role or next(iter(rules.roles))
    if chosen not in rules.roles:
        known = ", ".join(rules.roles)
        raise UsageError(
            f"the room has no role {shown(chosen)}; it has {known}", code=Code.POLICY_ROOM
        )
    if not 0 <= may_admit <= rules.delegation:
        raise UsageError(
            f"in this room the right to admit can be handed on {rules.delegation} deep, "
            f"not {may_admit}",
            code=Code.POLICY_ROOM,
        )
    fields = [(ROLE_FIELD, chosen)]
    if may_admit:
        fields.append((ADMITS_FIELD, str(may_admit)))
    if rules.places == "own":
        fields.append((UNDER_FIELD, _begin(under or member)))
    elif under is not None:
        raise UsageError("members of this room write at any place", code=Code.POLICY_ROOM)
    return await _say(local, rules, member, fields, key)


async def remove(
    local: Lace, member: str, *, room: Room | None = None, key: SigningKey | None = None
) -> Seal:
    """Store the end of a membership, signed with the key of the lace; return it.

    The authority ends any membership; another member ends those that it granted itself. What the
    member wrote before stays or goes, as the room says. Raises ``UsageError`` if by what is here
    there is no membership to end.
    """
    rules = room_of(local, room)
    _check_member(member)
    # A key that took another's place has its grant: it is what ends.
    granted = {
        one.verifier: one.granted for one in await members(local, rules) if one.ended is None
    }
    about = granted.get(Verifier(member))
    if about is None:
        raise UsageError(
            f"{member} is no member",
            code=Code.POLICY_ROOM,
            hint="lace room members lists them, and lace.members in Python.",
        )
    return await _say(local, rules, about, [(ENDED_FIELD, _ENDED)], key)


async def move(
    local: Lace, to: str, *, room: Room | None = None, key: SigningKey | None = None
) -> Seal:
    """Store that another verifier stands for the member of this key from now on; return it.

    What the old key signed before belongs as it did; what it signs afterwards does not. The grant
    goes over, the right to admit does not. A key that named two heirs has none.
    """
    rules = room_of(local, room)
    signer = key or as_lace(local).key
    if signer is None:
        raise UsageError("there is no key to sign with", code=Code.KEY_UNKNOWN)
    _check_member(to)
    if signer.verifier == rules.authority:
        raise UsageError(
            "the authority of a room is what the room is known by, and cannot be exchanged",
            code=Code.POLICY_ROOM,
        )
    if to == signer.verifier:
        raise UsageError(f"{shown(to)} cannot take the place of this key", code=Code.ID_MALFORMED)
    return await _say(local, rules, signer.verifier, [(NEXT_FIELD, to)], signer)


async def members(local: Lace, room: Room | None = None) -> list[Membership]:
    """Return who is a member by what is here, then who was; each in the order of the grants."""
    rules = room_of(local, room)
    store = store_of(local)
    return await in_worker(local, lambda: _members(store, rules, local))


def room_of(local: Lace, room: Room | None = None) -> Room:
    """Return the room that is meant, else that of the settings; raise if there is none."""
    if room is not None:
        return room
    if as_lace(local).room is None:
        raise UsageError(
            "this lace is no room",
            code=Code.POLICY_ROOM,
            hint="Make one: lace room new PATH //group//app//. In Python, give room=lace.Room(…).",
        )
    found = local.room
    assert found is not None
    return found


def _check_member(member: object) -> None:
    hint = "Give a verifier, V.….H3: key.verifier of a SigningKey."
    if not is_verifier(checked_text(member, "a member", hint)):
        raise UsageError(f"{shown(str(member))} is no verifier", code=Code.ID_MALFORMED, hint=hint)


def _begin(under: str) -> str:
    path = under.removesuffix("/")
    if path_fault(path) is not None:
        raise UsageError(f"{shown(under)} cannot begin a name", code=Code.POLICY_ROOM)
    return f"{path}/"


async def _say(
    local: Lace, room: Room, member: str, fields: list[tuple[str, str]], key: SigningKey | None
) -> Seal:
    signer = key or as_lace(local).key
    if signer is None:
        raise UsageError("there is no key to sign with", code=Code.KEY_UNKNOWN)
    store = store_of(local)
    place = Coordinate(group=room.group, app=room.member_app, name=member)

    def work() -> Seal:
        plex = build_plex(
            group=place.group,
            app=place.app,
            name=place.name,
            tai=_after(store, place, signer.verifier),
            extras=[(MEMBER_FIELD, member), *fields],
        )
        made = seal(plex, signer)
        store.save([made])
        return made

    return await in_worker(local, work)


def _after(store: RecordStore, place: Coordinate, signer: Verifier) -> Tai:
    """Return now, or later: what is said now must be newer than what the signer said before."""
    by_signer = VersionSelector(type="seal", verifier=signer)
    place = Coordinate(group=place.group, app=place.app, name=place.name, selector=by_signer)
    before = [store.load(hash) for hash in store.versions(place, 1)]
    now = tai_now()
    return max([now, *(add_ns(r.time, 1) for r in before if r is not None and r.time is not None)])


def _members(store: RecordStore, room: Room, local: Lace) -> list[Membership]:
    source = LocalFacts(limits=local.limits)
    with store.snapshot() as snapshot:
        Mentions.of([room.module]).load(snapshot, source)
    outputs = (GRANT, ENDS, ADMITS, MOVED)
    made = evaluate_own(room.module.program, source, outputs=outputs, limits=local.limits)
    ended = {grant: Tai(instant) for grant, instant in made.rows(ENDS)}
    moved = {old: Verifier(new) for old, new, _ in sorted(made.rows(MOVED))}
    depth: dict[str, int] = {}
    for verifier, number in made.rows(ADMITS):
        depth[verifier] = max(int(number), depth.get(verifier, 0))
    found: list[Membership] = []
    for verifier, role, hash in made.rows(GRANT):
        grant = store.load(RecordHash(hash))
        if not isinstance(grant, Seal):
            continue  # forgotten since
        end = ended.get(hash)
        found.append(
            Membership(
                verifier=Verifier(verifier),
                role=role,
                since=grant.tai,
                by=grant.author,
                under=grant.fields.get(UNDER_FIELD) if room.places == "own" else None,
                may_admit=0 if end is not None else depth.get(verifier, 0),
                ended=end,
                granted=Verifier(grant.fields[MEMBER_FIELD]),
                moved=moved.get(verifier),
            )
        )
    return sorted(found, key=lambda one: (one.ended is not None, one.since, one.verifier))
