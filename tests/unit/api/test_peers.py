"""The developer surface against peers at addresses: real servers, real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from servers import policy, served

import lace
from lace.errors import Code, TransportError
from lace.recordstore import MemoryStore
from lace.selectors import selector
from lace.serving.grants import symmetric_policy

NOTES = "//notes-demo//notes//"
BOB, SERVER = lace.SigningKey(b"b" * 32), lace.SigningKey(b"s" * 32)


def note(number: int, app: str = "notes/message") -> lace.Record:
    return lace.build_plex(
        group="notes-demo", app=app, name=f"m/{number}", tai=f"{number:010d}:{0:09d}"
    )


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


@pytest.mark.req("110-EVT-01", "110-EVT-02", "110-AUT-03", "110-AUT-06", "050-OPS-01", "050-OPS-03")
def test_get_and_list_at_a_peer_are_interlaces() -> None:
    async def test() -> None:
        store = MemoryStore()
        store.save([note(1), note(2), note(3, app="secrets")])
        async with served(store, symmetric_policy(selector(NOTES))) as server:
            peer = lace.connect(str(server.address))
            assert await lace.list(peer, NOTES) == [note(1), note(2)]
            assert await lace.get(peer, "//notes-demo//notes/message//m/2") == note(2)
            assert await lace.get(peer, "//notes-demo//secrets//m/3") is None
            assert await lace.get(peer, f"////{note(1).hash}") == note(1)
        assert store.count() == 3

    run(test)


@pytest.mark.req("110-EVT-03", "050-EX-02", "000-NOT-07", "050-COR-05")
def test_store_at_a_peer_says_what_it_took(tmp_path: Path) -> None:
    async def test() -> None:
        store = MemoryStore()
        store.save([note(1)])
        async with served(store, symmetric_policy(selector(NOTES))) as server:
            peer = lace.connect(str(server.address))
            broken = note(9).raw.replace(b"m/9", b"m/8")
            outcomes = await lace.store(
                peer, [note(1), note(2), note(2), note(3, app="spam"), broken]
            )
            assert [outcome.status for outcome in outcomes] == [
                lace.Status.DUPLICATE,
                lace.Status.ACCEPTED,
                lace.Status.DUPLICATE,
                lace.Status.REFUSED,
                lace.Status.REJECTED,
            ]
            assert outcomes[3].code is Code.POLICY_REFUSED
        assert store.count() == 2

    del tmp_path
    run(test)


@pytest.mark.req("000-API-03", "000-API-06", "000-API-15", "000-SYN-07")
@pytest.mark.parametrize("at", ["tcp:127.0.0.1:0", "ws:127.0.0.1:0", "unix"])
def test_an_open_interlace_with_a_server_goes_both_ways(at: str, tmp_path: Path) -> None:
    async def test() -> None:
        store = MemoryStore()
        store.save([note(1)])
        where = f"unix:{tmp_path / 's'}" if at == "unix" else at
        rules = policy(f'[[allow]]\nwho = "anyone"\nsync = ["{NOTES}"]\n')
        async with served(store, rules, key=SERVER, at=where) as server:
            peer = lace.connect(str(server.address), expected=SERVER.verifier)
            async with (
                lace.open(tmp_path / "local", key=BOB) as local,
                await lace.open_interlace(local, peer, NOTES) as live,
            ):
                result = await live.fixed_point()
                assert result.received == (note(1).hash,)
                assert result.peer == SERVER.verifier
                await lace.store(local, [note(2)])
                while store.count() < 2:
                    await asyncio.sleep(0.01)
                store.save([note(3)])
                while len(await lace.list(local, NOTES)) < 3:
                    await asyncio.sleep(0.01)

    run(test)


@pytest.mark.req("000-API-10", "000-API-13")
def test_a_loop_of_its_own_drives_a_connection_and_is_never_held_up(tmp_path: Path) -> None:
    async def serve(ready: asyncio.Future[str], done: asyncio.Event, store: MemoryStore) -> None:
        async with served(store, symmetric_policy(selector(NOTES))) as server:
            ready.set_result(str(server.address))
            await done.wait()

    import threading

    store = MemoryStore()
    store.save([note(i) for i in range(50)])
    address: list[str] = []
    stop: list[Callable[[], object]] = []

    def background() -> None:
        async def main() -> None:
            ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            done = asyncio.Event()
            loop = asyncio.get_running_loop()
            stop.append(lambda: loop.call_soon_threadsafe(done.set))
            task = asyncio.create_task(serve(ready, done, store))
            address.append(await ready)
            await task

        asyncio.run(main())

    thread = threading.Thread(target=background)
    thread.start()
    while not address:
        time.sleep(0.01)
    with lace.open(tmp_path / "game") as local:
        stepped = lace.SteppedInterlace(local, lace.connect(address[0]), NOTES)
        events: list[object] = []
        for _ in range(100_000):
            event = stepped.try_next_event()
            if event is None:
                time.sleep(0.001)  # the game goes on
                continue
            events.append(event)
            if isinstance(event, lace.FixedPoint):
                break
        stepped.close()
        assert sum(isinstance(event, lace.RecordSaved) for event in events) == 50
    stop[0]()
    thread.join()


def test_nobody_at_an_address_is_said_and_not_waited_for() -> None:
    async def test() -> None:
        with lace.open() as local:
            with pytest.raises(TransportError) as caught:
                await lace.sync(local, lace.connect("tcp:127.0.0.1:1"), NOTES)
            assert caught.value.code is Code.TRANSPORT_CONNECT
            live = await lace.open_interlace(
                local, lace.connect("tcp:127.0.0.1:1"), NOTES, reconnect=False
            )
            event = await live.next_event()
            assert isinstance(event, lace.Aborted)
            assert await live.next_event() is None

    run(test)


def test_an_address_that_is_none_is_refused() -> None:
    for text in ("http://x", "tcp:", "nonsense"):
        with pytest.raises(lace.LaceError):
            lace.connect(text)
