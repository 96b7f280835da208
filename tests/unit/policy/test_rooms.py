"""Rooms: who is a member, what belongs, and that both sides of an exchange come to the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import forge
import pytest

import lace
from lace import blocking
from lace.api.rooms import Membership
from lace.crypto.keys import demo_key
from lace.errors import Code, LaceError, PolicyError, UsageError
from lace.record import Seal, build_plex, seal

PREFIX = "//club//talk//"
OWNER, BOB, CAROL, DAN, EVE = map(demo_key, ("owner", "bob", "carol", "dan", "eve"))


def at(second: int) -> str:
    return f"{second:010d}:000000000"


def statement(
    about: lace.SigningKey, when: int, by: lace.SigningKey = OWNER, **fields: str
) -> Seal:
    pairs = [("Member", about.verifier), *((n.replace("_", "-"), v) for n, v in fields.items())]
    name = f"{about.verifier}"
    plex = build_plex(group="club", app="talk/member", name=name, tai=at(when), extras=pairs)
    return seal(plex, by, aux=forge.AUX)


def grant(
    about: lace.SigningKey,
    when: int,
    by: lace.SigningKey = OWNER,
    role: str = "writer",
    **more: str,
) -> Seal:
    return statement(about, when, by, Role=role, **more)


def end(about: lace.SigningKey, when: int, by: lace.SigningKey = OWNER) -> Seal:
    return statement(about, when, by, Ended="yes")


def said(by: lace.SigningKey, when: int, name: str = "n", app: str = "talk/note") -> Seal:
    plex = build_plex(
        group="club", app=app, name=name, tai=at(when), data=f"{name} {when}".encode()
    )
    return seal(plex, by, aux=forge.AUX)


def room(**choices: Any) -> lace.Room:
    return lace.Room(prefix=PREFIX, authority=OWNER.verifier, **choices)


def belongs(rules: lace.Room, records: Sequence[Seal]) -> set[str]:
    with lace.open(records=records) as local:
        return {record.hash for record in blocking.list(local, rules.module)}


def notes(rules: lace.Room, records: Sequence[Seal]) -> list[Seal]:
    """Return the records that belong and are no statements about members."""
    chosen = belongs(rules, records)
    return [r for r in records if r.hash in chosen and r.app != "talk/member"]


def test_members_write_and_nobody_else() -> None:
    mine, theirs = said(BOB, 5), said(EVE, 5)
    forged = grant(EVE, 1, by=EVE)
    assert notes(room(), [grant(BOB, 1), forged, mine, theirs]) == [mine]
    assert forged.hash not in belongs(room(), [grant(BOB, 1), forged])
    assert notes(room(), [mine]) == []
    elsewhere = seal(build_plex(group="club", app="talking", name="n", tai=at(1)), BOB)
    assert notes(room(), [grant(BOB, 1), elsewhere]) == []
    assert notes(room(), [grant(BOB, 1), said(BOB, 2, app="talk")])


@pytest.mark.req("000-SYN-04")
def test_a_selector_of_a_room_has_the_rules_of_that_room() -> None:
    """The authority ends a membership in one way and gives roles in one way, for all selectors."""
    short = lace.room(PREFIX, authority=OWNER.verifier)
    assert short == room().module
    writer, removed, reader, restored = said(BOB, 5), said(CAROL, 5), said(DAN, 5), said(EVE, 5)
    story = [
        grant(BOB, 1), grant(CAROL, 1), end(CAROL, 2), grant(DAN, 1, role="reader"),
        grant(EVE, 1), end(EVE, 2), grant(EVE, 3), writer, removed, reader, restored,
    ]  # fmt: skip
    with lace.open(records=story) as local:
        belongs = [r for r in blocking.list(local, short) if r.fields.get("Member") is None]
    assert {record.hash for record in belongs} == {writer.hash, restored.hash}
    choices: dict[str, Any] = {
        "roles": {"chair": ("*",)}, "removed": "stays", "places": "own", "reads": "anyone",
        "delegation": 2,
    }  # fmt: skip
    given = lace.room(PREFIX, authority=OWNER.verifier, **choices)
    assert given == room(**choices).module
    for wrong in ({"delegation": True}, {"reads": "all"}, {"authority": "ann"}):
        with pytest.raises(lace.PolicyError) as caught:
            lace.room(**{"prefix": PREFIX, "authority": OWNER.verifier, **wrong})  # type: ignore[arg-type]
        assert caught.value.code is lace.Code.POLICY_ROOM


def test_of_what_the_authority_said_the_newest_counts() -> None:
    note = said(BOB, 5)
    story = [grant(BOB, 1), end(BOB, 10), grant(BOB, 20), end(BOB, 30)]
    kept = [bool(notes(room(), [*story[:length], note])) for length in range(5)]
    assert kept == [False, True, False, True, False]
    # In whatever order the records come.
    assert notes(room(), [note, story[2], story[0], story[1]]) == [note]


def test_at_one_instant_one_statement_counts_and_all_agree_which() -> None:
    both = [grant(BOB, 1), end(BOB, 1)]
    note = said(BOB, 5)
    kept = notes(room(), [*both, note])
    assert bool(kept) == (max(both, key=lambda r: r.hash) is both[0])


def test_what_a_removed_member_wrote_goes_or_stays() -> None:
    before, after = said(BOB, 5), said(BOB, 15)
    story = [grant(BOB, 1), before, end(BOB, 10), after]
    assert notes(room(removed="goes"), story) == []
    assert notes(room(removed="stays"), story) == [before]
    again = [*story, grant(BOB, 20)]
    assert notes(room(removed="stays"), again) == [before, after]
    assert notes(room(removed="stays"), [end(EVE, 10), said(EVE, 5)]) == []


def test_roles_say_where_one_writes() -> None:
    rules = room(roles={"chair": ("*",), "guest": ("question", "answer/late"), "reader": ()})
    places = [
        "talk",
        "talk/note",
        "talk/question",
        "talk/question/deep",
        "talk/answer/late",
        "talk/answer",
    ]
    for role, allowed in (
        ("chair", places),
        ("guest", [places[i] for i in (2, 3, 4)]),
        ("reader", []),
        ("king", []),
    ):
        written = [said(BOB, 5, app=app) for app in places]
        found = notes(rules, [grant(BOB, 1, role=role), *written])
        assert [record.app for record in found] == allowed
    # The newest grant decides the role.
    story = [grant(BOB, 1, role="chair"), grant(BOB, 2, role="reader"), said(BOB, 5)]
    assert notes(rules, story) == []
    # And nobody writes statements by being a member.
    assert grant(EVE, 3, by=BOB).hash not in belongs(
        rules, [grant(BOB, 1, role="chair"), grant(EVE, 3, by=BOB)]
    )


def test_where_places_are_own_only_their_author_writes_them() -> None:
    rules = room(places="own", removed="stays")
    people = [grant(BOB, 1, Under="bob/"), grant(CAROL, 1, Under="carol/"), grant(DAN, 1)]
    mine, intruding, hers = (
        said(BOB, 5, "bob/1"),
        said(CAROL, 6, "bob/1"),
        said(CAROL, 7, "carol/1"),
    )
    stray, nameless = said(BOB, 8, "bobby"), said(DAN, 9, "dan/1")
    written = [mine, intruding, hers, stray, nameless]
    assert notes(rules, [*people, *written]) == [mine, hers]
    assert notes(rules, [*people, *written, end(BOB, 10), said(BOB, 11, "bob/2")]) == [mine, hers]
    assert notes(room(places="shared"), [*people, *written]) == written


def test_the_right_to_admit_is_handed_on_as_deep_as_it_was_given() -> None:
    chain = [
        grant(BOB, 1, May_Admit="2"),
        grant(CAROL, 2, by=BOB, May_Admit="1"),
        grant(DAN, 3, by=CAROL, May_Admit="1"),  # one deeper than Carol may give
        grant(EVE, 4, by=DAN),
    ]
    people = (BOB, CAROL, DAN, EVE)
    written = [said(who, 10, who.verifier) for who in people]

    def writers(rules: lace.Room, *more: Seal) -> list[str]:
        return [n.author for n in notes(rules, [*chain, *more, *written])]

    first = [who.verifier for who in people]
    assert writers(room(delegation=2)) == first[:3]
    assert writers(room(delegation=1)) == first[:1]  # more was given than the room allows
    assert writers(room()) == first[:1]
    # Who ends a delegate ends all who came through it.
    assert writers(room(delegation=2), end(BOB, 5)) == []
    assert writers(room(delegation=2), end(CAROL, 5, by=BOB)) == first[:1]
    # The authority's word on a member goes first; nobody else ends what they did not grant.
    assert writers(room(delegation=2), end(CAROL, 5)) == first[:1]
    assert writers(room(delegation=2), end(DAN, 5, by=BOB)) == first[:3]
    assert writers(room(delegation=2), end(BOB, 5), grant(DAN, 6)) == [DAN.verifier]


def test_nobody_gives_a_role_that_they_do_not_have() -> None:
    rules = room(delegation=1, roles={"writer": ("*",), "reader": ()})
    story = [grant(BOB, 1, role="reader", May_Admit="1"), grant(EVE, 2, by=BOB), said(EVE, 3)]
    assert notes(rules, story) == []


def test_two_who_admit_each_other_do_not_hold_each_other_up() -> None:
    story = [
        grant(BOB, 1, May_Admit="8"), end(BOB, 2),
        grant(CAROL, 3, by=BOB, May_Admit="7"), grant(BOB, 4, by=CAROL, May_Admit="6"),
        said(BOB, 5), said(CAROL, 5),
    ]  # fmt: skip
    assert notes(room(delegation=8), story) == []


def moved(old: lace.SigningKey, new: lace.SigningKey, when: int) -> Seal:
    return statement(old, when, old, Next=new.verifier)


def test_a_key_hands_its_place_on() -> None:
    story = [grant(BOB, 1, Under="bob/"), moved(BOB, CAROL, 10), moved(CAROL, DAN, 20)]
    early, late = said(BOB, 5, "bob/1"), said(BOB, 15, "bob/2")
    heir, heirs_heir, too_late = (
        said(CAROL, 15, "bob/3"),
        said(DAN, 25, "bob/4"),
        said(CAROL, 25, "bob/5"),
    )
    written = [early, late, heir, heirs_heir, too_late]
    for rules in (room(), room(places="own"), room(delegation=2), room(removed="stays")):
        assert notes(rules, [*story, *written]) == [early, heir, heirs_heir]
        assert {r.hash for r in story} <= belongs(rules, story)
    assert notes(room(), [*story, end(BOB, 30), *written]) == []


def test_a_key_with_two_heirs_has_none() -> None:
    """Whoever stole it may name an heir too: then the authority decides anew."""
    story = [grant(BOB, 1), moved(BOB, CAROL, 10), moved(BOB, EVE, 9)]
    mine, hers = said(CAROL, 15), said(EVE, 15)
    assert notes(room(), [*story, mine, hers]) == []
    assert notes(room(), [*story, mine, hers, grant(CAROL, 20)]) == [mine]


def test_nobody_is_moved_by_another_and_no_stranger_moves_in() -> None:
    story = [grant(BOB, 1), statement(BOB, 10, EVE, Next=EVE.verifier), moved(EVE, DAN, 10)]
    assert notes(room(), [*story, said(BOB, 15), said(EVE, 15), said(DAN, 15)]) == [said(BOB, 15)]
    assert not {story[1].hash, story[2].hash} & belongs(room(), story)


def test_an_old_key_admits_nobody_any_more() -> None:
    rules = room(delegation=1)
    story = [
        grant(BOB, 1, May_Admit="1"),
        grant(CAROL, 5, by=BOB),
        moved(BOB, EVE, 10),
        grant(DAN, 15, by=BOB),
    ]
    written = [said(CAROL, 20, "c"), said(DAN, 20, "d")]
    assert notes(rules, [*story, *written]) == written[:1]


@pytest.mark.parametrize("depth", ["0", "-1", "x", "9999999999", "1.5", " 1"])
def test_a_depth_that_is_none_gives_nothing(depth: str) -> None:
    story = [grant(BOB, 1, May_Admit=depth), grant(EVE, 2, by=BOB), said(EVE, 3)]
    assert notes(room(delegation=2), story) == []


@pytest.mark.parametrize("removed", ["goes", "stays"])
@pytest.mark.parametrize("places", ["shared", "own"])
@pytest.mark.parametrize("reads", ["members", "anyone"])
def test_whoever_meets_comes_to_the_same(removed: Any, places: Any, reads: Any) -> None:
    rules = room(removed=removed, places=places, reads=reads, delegation=2)
    story = [
        grant(OWNER, 1, Under="owner/"),
        grant(BOB, 1, May_Admit="1", Under="bob/"),
        grant(CAROL, 2, by=BOB, Under="carol/"),
        grant(DAN, 1, Under="dan/"), end(DAN, 10),
        said(BOB, 5, "bob/1"), said(CAROL, 6, "carol/1"), said(DAN, 7, "dan/1"), said(DAN, 12, "dan/2"),
        said(CAROL, 8, "bob/1"), said(EVE, 9, "eve/1"), said(OWNER, 9, "owner/1"),
    ]  # fmt: skip

    async def meet(key: lace.SigningKey) -> tuple[set[str], set[str]]:
        everything = story[:6]
        rest = story[6:]
        async with (
            lace.open(records=everything, key=OWNER) as server,
            lace.open(records=rest, key=key) as other,
        ):
            await lace.sync(
                other, server, rules.module, expose=rules.exposure, their_policy=rules.module, their_expose=rules.exposure,
            )  # fmt: skip
            here, there = (
                await lace.list(other, rules.module),
                await lace.list(server, rules.module),
            )
            return {r.hash for r in here}, {r.hash for r in there}

    all_of_it = belongs(rules, story)
    here, there = asyncio.run(meet(CAROL))
    assert here == there == all_of_it
    here, there = asyncio.run(meet(EVE))  # a stranger reads nothing where only members do
    assert (here == all_of_it) == (reads == "anyone")
    if reads == "members":
        assert here == set()


def test_members_are_listed_by_the_same_rules() -> None:
    rules = room(delegation=2, places="own")
    with lace.open(key=OWNER) as local:
        blocking.admit(local, BOB.verifier, room=rules, may_admit=2, under="bob")
        blocking.admit(local, CAROL.verifier, "reader", room=rules, key=BOB)
        blocking.admit(local, DAN.verifier, room=rules)
        blocking.remove(local, DAN.verifier, room=rules)
        blocking.admit(local, EVE.verifier, room=rules, key=EVE)  # nobody hears her
        found = blocking.members(local, rules)
        assert [(one.verifier, one.role, one.by, one.under, one.may_admit) for one in found] == [
            (BOB.verifier, "writer", OWNER.verifier, "bob/", 2),
            (DAN.verifier, "writer", OWNER.verifier, f"{DAN.verifier}/", 0),
        ]
        assert [one.ended is None for one in found] == [True, False]
        # Bob is no reader, so he makes nobody one.
        blocking.admit(local, CAROL.verifier, "writer", room=rules, key=BOB)
        assert blocking.members(local, rules)[1].by == BOB.verifier
        blocking.admit(local, DAN.verifier, room=rules)  # again
        listed: list[Membership] = blocking.members(local, rules)
        assert all(one.ended is None for one in listed)
        assert len(listed) == 3


def test_a_statement_is_newer_than_the_one_before_whatever_the_clock_says() -> None:
    with lace.open(records=[grant(BOB, 9_000_000_000)], key=OWNER) as local:
        blocking.remove(local, BOB.verifier, room=room())
        (one,) = blocking.members(local, room())
        assert one.ended == "9000000000:000000001"


def test_a_room_is_a_policy_and_shows_no_more_than_it_says() -> None:
    """Whoever gives the room gives what it exposes too, wherever a selector is taken."""
    rules = room()
    note = lace.RecordKind(group="club", app="talk/note")

    async def test() -> None:
        async with lace.open(records=[grant(BOB, 1), said(BOB, 2), said(EVE, 3)], key=OWNER) as hub:
            assert await lace.count(hub, rules) == 2
            assert len(await lace.table(hub, note)) == 2
            assert len(await lace.table(hub, note, room=rules)) == 1
            assert len(await lace.table(hub, rules)) == 2
            for found in (
                await lace.current(hub, "//club//talk/note//n", rules),
                await lace.current(hub, "//club//talk/note//n", room=rules),
                await lace.current(hub, "//club//talk/note//n", rules, role="writer"),
            ):
                assert found is not None
                assert found.author == BOB.verifier
            async with lace.serve(hub, "tcp:127.0.0.1:0", policy=rules) as server:
                peer = lace.connect(server.addresses[0])
                for key, seen in ((BOB, 2), (EVE, 0), (None, 0)):
                    with lace.open(key=key) as other:
                        assert (await lace.sync(other, peer, rules)).offered == seen
                    with lace.open(key=key) as other:
                        assert (await lace.sync(other, hub, rules)).offered == seen

    asyncio.run(test())


def test_who_is_no_member_any_more_cannot_be_removed() -> None:
    with lace.open(key=OWNER) as local:
        blocking.admit(local, BOB.verifier, room=room())
        blocking.remove(local, BOB.verifier, room=room())
        with pytest.raises(UsageError, match="is no member") as caught:
            blocking.remove(local, BOB.verifier, room=room())
        assert "lace.members" in str(caught.value.hint)
        assert len(blocking.list(local, room().module)) == 2  # nothing was stored for it


def test_an_exchange_says_how_much_the_peer_offers() -> None:
    rules = room()
    with lace.open(key=OWNER) as local, lace.open(key=BOB) as bob:

        def meet() -> lace.InterlaceResult:
            return blocking.sync(
                bob, local, rules.module, expose=rules.exposure, their_expose=rules.exposure
            )

        stranger = meet()
        assert (stranger.offered, stranger.received) == (0, ())
        blocking.admit(local, BOB.verifier, room=rules)
        assert meet().offered == 1
        assert meet().offered == 1  # it is here already
        blocking.remove(local, BOB.verifier, room=rules)
        assert meet().offered == 0


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"prefix": "//club//talk//x/"}, "whole app"), ({"prefix": "//club//talk//x"}, "whole app"),
        ({"prefix": "club"}, "//"), ({"authority": "alice"}, "not a verifier"),
        ({"removed": "maybe"}, "removed"), ({"places": ""}, "places"), ({"reads": "all"}, "reads"),
        ({"delegation": -1}, "delegation"), ({"delegation": 9}, "delegation"), ({"delegation": True}, "delegation"),
        ({"roles": {}}, "needs a role"), ({"roles": {"a b": ()}}, "cannot be a role"),
        ({"roles": {"a": ("member",)}}, "cannot write"), ({"roles": {"a": ("x//y",)}}, "cannot write"),
    ],
)  # fmt: skip
def test_choices_that_make_no_room(choices: dict[str, Any], reason: str) -> None:
    with pytest.raises(LaceError, match=reason):
        lace.Room(**({"prefix": PREFIX, "authority": OWNER.verifier} | choices))
    with pytest.raises(PolicyError) as caught:
        room(roles={})
    assert caught.value.code is Code.POLICY_ROOM


def test_what_cannot_be_granted_says_why() -> None:
    with lace.open(key=OWNER) as local, lace.open() as keyless:
        for wrong, reason in (
            (lambda: blocking.admit(local, "bob", room=room()), "no verifier"),
            (lambda: blocking.admit(local, BOB.verifier, "king", room=room()), "no role 'king'"),
            (lambda: blocking.admit(local, BOB.verifier, room=room(), may_admit=1), "0 deep"),
            (lambda: blocking.admit(local, BOB.verifier, room=room(), under="b"), "at any place"),
            (
                lambda: blocking.admit(local, BOB.verifier, room=room(places="own"), under="a//b"),
                "begin a name",
            ),
            (lambda: blocking.admit(keyless, BOB.verifier, room=room()), "no key"),
            (lambda: blocking.members(local), "no room"),
            (lambda: blocking.remove(local, BOB.verifier, room=room()), "is no member"),
            (lambda: blocking.move(local, BOB.verifier, room=room()), "cannot be exchanged"),
            (lambda: blocking.move(local, "bob", room=room()), "no verifier"),
            (lambda: blocking.move(local, OWNER.verifier, room=room()), "cannot be exchanged"),
            (
                lambda: blocking.move(local, BOB.verifier, room=room(), key=BOB),
                "cannot take the place",
            ),
            (lambda: blocking.move(keyless, BOB.verifier, room=room()), "no key"),
        ):
            with pytest.raises(UsageError, match=reason):
                wrong()
