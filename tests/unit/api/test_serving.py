"""Serving from an application: who may, what is told, and that it ends with its block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from small_limits import hold_to
from wires import notes

import lace
from lace import blocking
from lace.api.events import EventQueue
from lace.crypto.keys import demo_key
from lace.errors import LaceError, TransportError, UsageError

NOTES = "//g//notes//"
ALICE, BOB, EVE = map(demo_key, ("alice", "bob", "eve"))
HERE = "tcp:127.0.0.1:0"
ROOM = lace.Room(prefix=NOTES, authority=ALICE.verifier).module


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.parametrize("where", ["memory", "file"])
def test_others_interlace_while_the_application_goes_on(where: str, tmp_path: Path) -> None:
    async def test() -> None:
        path = None if where == "memory" else tmp_path / "server.lace"
        async with lace.open(path, records=notes(20), key=ALICE) as local:
            places = (HERE, f"unix:{tmp_path}/s")
            async with lace.serve(local, *places, policy=NOTES, accept=["anyone"]) as server:
                tcp, unix = server.addresses
                async with lace.open(key=BOB) as bob:
                    result = await lace.sync(bob, lace.connect(tcp, expected=ALICE.verifier), NOTES)
                    assert len(result.received) == 20
                    async with lace.open_interlace(bob, unix, NOTES) as live:
                        await live.fixed_point()
                        assert server.connections == 1
                        await lace.store(local, notes(1, start=100))
                        assert len((await live.fixed_point()).received) == 1
                        await lace.store(bob, notes(1, start=200))
                        while await lace.count(local, NOTES) < 22:
                            await asyncio.sleep(0.01)
                names = [await told(server) for _ in range(4)]
                assert names[:2] == ["listening", "listening"]
                assert "connected" in names
            rest = [event.event async for event in server if isinstance(event, lace.ServerEvent)]
            assert rest[-1] == "stopped"
            assert await server.next_event() is None
            assert server.connections == 0
            async with lace.open() as late:
                with pytest.raises(LaceError):
                    await lace.sync(late, tcp, NOTES)

    run(test)


async def told(server: lace.Serving) -> str:
    event = await server.next_event()
    assert isinstance(event, lace.ServerEvent)
    return event.event


def test_a_rooms_module_shows_no_more_than_the_room() -> None:
    """Whoever hands over the selector alone has not said that everybody may read it."""
    room = lace.Room(prefix=NOTES, authority=ALICE.verifier)
    other = lace.selector("//other//notes//")

    async def got(key: lace.SigningKey, policy: lace.Room | lace.PolicyModule, **more: Any) -> int:
        async with lace.open(records=notes(3, key=ALICE), key=ALICE) as local:
            for member in (ALICE, BOB):
                await lace.admit(local, member.verifier, room=room)
            async with (
                lace.serve(local, HERE, policy=policy, **more) as server,
                lace.open(key=key) as peer,
            ):
                return len((await lace.sync(peer, server.addresses[0], room)).received)

    async def test() -> None:
        for policy in (room, room.module, lace.any_of(room.module, other)):
            assert await got(BOB, policy) == 5, policy
            assert await got(EVE, policy) == 0, policy
        assert await got(EVE, lace.all_of(room.module, lace.selector(NOTES))) == 0
        assert await got(EVE, lace.with_support(room.module)) == 0
        # What is said counts, and a room may be open to all.
        assert await got(EVE, room.module, expose="selected") == 5
        assert await got(EVE, lace.selector(NOTES), expose=room) == 0
        everybody = lace.Room(prefix=NOTES, authority=ALICE.verifier, reads="anyone")
        assert await got(EVE, everybody.module) == 5

    run(test)


def test_an_exchange_does_not_go_on_with_a_room_that_shows_less() -> None:
    room = lace.Room(prefix=NOTES, authority=ALICE.verifier)

    async def test() -> None:
        async with lace.open(key=ALICE) as local, lace.open(key=BOB) as other:
            async with lace.open_interlace(local, other, NOTES) as live:
                with pytest.raises(UsageError, match="was said by another selector"):
                    live.change(room)
            for expose in (None, "selected"):
                first = room if expose is None else NOTES
                async with lace.open_interlace(local, other, first, expose=expose) as live:
                    await live.fixed_point()
                    live.change(room.module)

    run(test)


@pytest.mark.parametrize("wrong", ["everyting", lace.selector(NOTES), 5, ["selected"]])
def test_what_does_not_say_what_is_exposed_is_refused(wrong: Any) -> None:
    """A word that nobody knows must not show more than was meant."""
    with lace.open() as local:
        with pytest.raises(UsageError, match="does not say what is exposed") as caught:
            lace.serve(local, HERE, policy=NOTES, expose=wrong)
        with pytest.raises(UsageError, match="does not say what is exposed"):
            lace.explain(local, notes(1)[0].hash, NOTES, their_policy=NOTES, expose=wrong)
    assert "AllowQueryRecord" in str(caught.value.hint)


def test_grants_say_who_may_see_and_store() -> None:
    async def test() -> None:
        module = lace.selector(NOTES)
        grants = [lace.Grant(who=frozenset([BOB.verifier]), see=(module,))]
        async with (
            lace.open(records=notes(5), key=ALICE) as local,
            lace.serve(local, HERE, grants=grants) as server,
        ):
            for key, seen in ((BOB, 5), (EVE, 0)):
                async with lace.open(records=notes(1, start=50), key=key) as other:
                    result = await lace.sync(other, server.addresses[0], NOTES)
                    assert (len(result.received), len(result.sent)) == (seen, 0)

    run(test)


def test_a_grant_takes_what_other_calls_take() -> None:
    module = lace.selector(NOTES)
    rules = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    for given in (NOTES, [NOTES], (module,), module, iter([NOTES])):
        made = lace.Grant(who=[BOB.verifier], see=given)
        assert (made.who, made.see, made.store) == (frozenset([BOB.verifier]), (module,), ())
    assert lace.Grant(who=BOB.verifier, sync=rules).said["sync"] == (rules,)
    assert lace.Grant(who="proven", store=NOTES, signed_by_peer=True).speaks_of(BOB.verifier)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"who": "bob", "see": NOTES}, "'bob' is not a verifier"), ({"who": [], "see": NOTES}, "list of verifiers"),
        ({"who": BOB, "see": NOTES}, "list of verifiers"), ({"who": [BOB], "see": NOTES}, "not a verifier"),
        ({"who": "anyone"}, "allows nothing"), ({"who": "anyone", "see": [3]}, "places, rules or modules"),
        ({"who": "anyone", "see": 3}, "places, rules or modules"), ({"who": "anyone", "see": "notes"}, "notes"),
        ({"who": "anyone", "see": NOTES, "signed_by_peer": True}, "about store"),
        ({"who": "anyone", "see": NOTES, "quota": {"bytes": 1}}, "quota has no 'bytes'"),
    ],
)  # fmt: skip
def test_a_grant_that_cannot_be_says_why(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(LaceError, match=reason):
        lace.Grant(**wrong)


@pytest.mark.parametrize(
    ("accept", "writers"),
    [([], {ALICE}), ([BOB.verifier], {ALICE, BOB}), (["anyone"], {ALICE, BOB, EVE})],
)
def test_a_plain_place_is_served_for_reading_unless_somebody_may_write(
    accept: list[str], writers: set[lace.SigningKey]
) -> None:
    async def test() -> None:
        async with (
            lace.open(records=notes(5), key=ALICE) as local,
            lace.serve(local, HERE, policy=NOTES, accept=accept) as server,
        ):
            for number, key in enumerate((ALICE, BOB, EVE)):
                async with lace.open(records=notes(1, start=50 + number), key=key) as other:
                    result = await lace.sync(other, server.addresses[0], NOTES)
                    assert len(result.received) >= 5
                    assert len(result.sent) == (key in writers)

    run(test)


def test_a_folder_is_served_as_its_settings_say(tmp_path: Path) -> None:
    room = lace.Room(prefix=NOTES, authority=ALICE.verifier)
    (tmp_path / "lace.toml").write_text(
        f'select = "{NOTES}"\n[room]\nauthority = "{ALICE.verifier}"\n'
    )
    lace.open(tmp_path / "records.lace").close()

    async def test() -> None:
        async with lace.open(tmp_path, key=ALICE, records=notes(3, key=BOB)) as local:
            await lace.admit(local, BOB.verifier)
            async with lace.serve(local, HERE) as server:
                for key, seen in ((BOB, 4), (EVE, 0)):
                    async with lace.open(key=key) as other:
                        result = await lace.sync(other, server.addresses[0], room.module)
                        assert len(result.received) == seen

    run(test)


@pytest.mark.parametrize(
    ("addresses", "options", "reason"),
    [
        ((), {"policy": NOTES}, "say where"),
        (("stdio",), {"policy": NOTES}, "stdio"),
        (("nowhere",), {"policy": NOTES}, "nowhere"),
        (("wss:localhost:0",), {"policy": NOTES}, "certificate"),
        ((HERE,), {}, "which records belong"),
        ((HERE,), {"policy": NOTES, "grants": []}, "not both"),
        ((HERE,), {"accept": ["anyone"], "grants": []}, "not both"),
        ((HERE,), {"policy": NOTES, "accept": "anyone"}, "a list"),
        ((HERE,), {"policy": NOTES, "accept": ["bob"]}, "neither a verifier nor anyone"),
        ((HERE,), {"policy": ROOM, "accept": ["anyone"]}, "says itself"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(
    addresses: tuple[str, ...], options: dict[str, object], reason: str
) -> None:
    with lace.open() as local, pytest.raises(LaceError, match=reason):
        lace.serve(local, *addresses, **options)  # type: ignore[arg-type]


def test_a_place_that_is_taken_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with lace.open(key=ALICE) as local, lace.serve(local, HERE, policy=NOTES) as first:
            taken = first.addresses[0]
            with pytest.raises(lace.TransportError):
                async with lace.serve(local, HERE, taken, policy=NOTES):
                    pass
            assert first.connections == 0

    run(test)


def test_events_that_nobody_reads_are_counted_and_the_end_is_kept() -> None:
    async def test() -> None:
        events: EventQueue[str] = EventQueue(most=3)
        for number in range(10):
            events.put(str(number))
        events.put_last("end")
        assert events.take() == "0"
        events.put("late")  # there is room again, but not before what was missed
        events.end()
        found = [await events.get() for _ in range(6)]
        assert found == [
            "1", "2", lace.EventsMissed(7), "end", lace.EventsMissed(1), None,
        ]  # fmt: skip

    run(test)


def test_an_open_interlace_that_nobody_reads_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, waiting_events=5)

    async def test() -> None:
        async with lace.open(records=notes(50)) as left, lace.open() as right:
            async with lace.open_interlace(right, left, NOTES) as live:
                while await lace.count(right, NOTES) < 50:
                    await asyncio.sleep(0)
            events = [event async for event in live]
            assert len(events) <= 8
            assert any(isinstance(event, lace.EventsMissed) for event in events)
            assert isinstance(events[-1], lace.Closed)

    run(test)


def test_an_exchange_by_hand_ends_with_its_block() -> None:
    with lace.open(records=notes(3)) as left, lace.open() as right:
        with lace.SteppedInterlace(right, left, NOTES) as stepped:
            while not isinstance(stepped.try_next_event(), lace.FixedPoint):
                pass
        assert isinstance(stepped.try_next_event(), lace.Closed)
        assert blocking.count(right, NOTES) == 3


def test_a_server_that_is_used_in_another_way_says_how() -> None:
    async def test() -> None:
        with lace.open(key=ALICE) as local:
            grant = lace.Grant(who="anyone", see=NOTES)
            for wrong in (grant, [NOTES], [grant, None], 3):
                with pytest.raises(UsageError, match="list of lace"):
                    lace.serve(local, HERE, grants=wrong)  # type: ignore[arg-type]
            server = lace.serve(local, HERE, grants=[grant])
            assert repr(server) == "<Serving nowhere yet>"
            with pytest.raises(UsageError, match="not awaited"):
                await server
            async with server:
                assert repr(server) == f"<Serving {server.addresses[0]}>"
                with pytest.raises(TransportError, match=r"Address already in use\n"):
                    async with lace.serve(local, server.addresses[0], grants=[grant]):
                        pass

    run(test)
