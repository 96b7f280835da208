"""A server through its life: grants that change, secrets that stay so, and a watch that never ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from exchanges import AUTHORITY, BOB, NOTES, note
from links import EVERYTHING, SELECTED, held
from meeting import within
from servers import Served, policy, served

from lace.answering.store import StoreAnswers
from lace.driving.client import Client, new_nonce
from lace.driving.connection import Connection
from lace.driving.exchange import Exchange
from lace.errors import Code, StoreError
from lace.interlace import messages as m
from lace.policy.module import PolicyModule, module_from_text
from lace.record import build_plex
from lace.record.grammar import MARK
from lace.recordstore import MemoryStore, SqliteStore, StoreRecordId
from lace.recordstore.base import RecordStore
from lace.serving import server as server_module
from lace.serving.server import Server
from lace.stream import items
from lace.tai import Tai

NOTES_FOR_ALL = '[[allow]]\nwho = "anyone"\nsync = ["//notes-demo//notes//"]\n'
TASKS_FOR_BOB = f'[[allow]]\nwho = ["{BOB.verifier}"]\nsync = ["//notes-demo//tasks//"]\n'
NOTE, TASKS = [note(i) for i in range(20)], [note(i, app="tasks") for i in range(3)]


def bob(store: RecordStore, module: PolicyModule = EVERYTHING) -> Client:
    return Client(store=store, module=module, exposure=SELECTED, key=BOB, warm=None, packs=False)


def stored(*records: Any) -> MemoryStore:
    store = MemoryStore()
    store.save(records)
    return store


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def follow(near: Client, host: Served) -> tuple[Exchange, asyncio.Task[Any]]:
    """Return an open exchange at its first fixed point."""
    exchange = await near.dial(host.address, stays=True)
    task = asyncio.create_task(exchange.run())
    await until(lambda: exchange.connection.idle or task.done())
    await host.until("fixed-point")
    return exchange, task


# --- grants ---


@pytest.mark.req("050-EPO-01", "050-EPO-02", "040-MOD-07", "050-COR-08")
@pytest.mark.parametrize("grows", [False, True], ids=["as it was", "with something new"])
def test_a_peer_that_is_granted_more_gets_it_and_goes_on_getting_it(grows: bool) -> None:
    """What was known of the link under the narrower policy is no obstacle, on either side."""
    store, mine = stored(*NOTE, *TASKS), MemoryStore()
    near = bob(mine)

    async def once(rules: str) -> set[str]:
        async with served(store, policy(rules), key=AUTHORITY) as host:
            ended = await near.sync(host.address)
            assert isinstance(ended, m.Closed), ended
            assert ended.ending is m.Ending.FIXED_POINT
            await host.until("closed")
            assert not host.events("aborted")
            assert not host.events("failed")
        return held(mine)

    async def work() -> None:
        notes, tasks = ({record.hash for record in some} for some in (NOTE, TASKS))
        assert await once(NOTES_FOR_ALL) == notes
        assert await once(NOTES_FOR_ALL) == notes
        assert await once(NOTES_FOR_ALL + TASKS_FOR_BOB) == notes | tasks
        more = note(500)
        if grows:
            store.save([more])
        for _ in range(2):
            now = await once(NOTES_FOR_ALL + TASKS_FOR_BOB)
            assert now == notes | tasks | ({more.hash} if grows else set())
        # What is granted no more is not sent any more.
        store.save([note(501), note(501, app="tasks")])
        assert note(501, app="tasks").hash not in await once(NOTES_FOR_ALL)
        assert mine.has(note(501).hash)

    within(work())


# --- rest ---


@pytest.mark.parametrize("seconds", [0.05, 600.0])
def test_who_stays_soon_keeps_nobody_from_emptying_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """By what it reads of the link; it need not be read for somebody who leaves at once."""
    monkeypatch.setattr("lace.driving.exchange._REST_SECONDS", seconds)
    rested: list[StoreAnswers] = []
    rest = StoreAnswers.rest

    def counted(answers: StoreAnswers) -> None:
        rest(answers)
        rested.append(answers)

    monkeypatch.setattr(StoreAnswers, "rest", counted)
    mine = MemoryStore()

    async def work(store: SqliteStore) -> None:
        async with served(store, policy(NOTES_FOR_ALL), key=AUTHORITY) as host:
            for _ in range(2):  # to have something kept of the link, and to find it so
                assert isinstance(await bob(mine, NOTES).sync(host.address), m.Closed)
            assert not rested
            exchange, task = await follow(bob(mine, NOTES), host)
            store.save([note(50, app="diary")])  # and with that, something is in the log
            if seconds > 1:
                assert not store.checkpoint()
            else:
                await until(lambda: rested)
                await until(store.checkpoint)
            store.save([note(99)])
            await until(lambda: mine.has(note(99).hash) and exchange.connection.idle)
            exchange.give(m.CloseRequested())
            assert isinstance(await task, m.Closed)
            await host.until("closed", 3)
            await until(store.checkpoint)

    with SqliteStore(tmp_path / "notes.lace") as store:
        store.save(NOTE)
        within(work(store))


# --- secrets ---


@pytest.mark.req("040-DIS-01", "050-OPN-02")
def test_a_peer_does_not_hear_that_something_was_stored_that_is_not_for_it() -> None:
    """Neither at that moment, nor by how it is told of something else later."""
    secret = note(1, app="diary", group="secret")

    def bytes_heard(*, keeps_a_diary: bool) -> list[int]:
        store, mine = stored(*NOTE), MemoryStore()
        heard: list[int] = []

        async def work() -> None:
            async with served(store, policy(NOTES_FOR_ALL), key=AUTHORITY) as host:
                exchange, task = await follow(bob(mine, NOTES), host)
                (peer,) = host.server._peers.values()
                woken = count_wakes(peer.exchange)
                heard.append(exchange.traffic.bytes_in)
                for wakes in (1, 2):
                    if keeps_a_diary:
                        store.save([secret]) if wakes == 1 else store.forget([secret.hash])
                        await until(lambda wakes=wakes: len(woken) >= wakes)  # type: ignore[misc]
                    heard.append(exchange.traffic.bytes_in)
                store.save([note(99)])
                await host.until("fixed-point", 2)
                await until(lambda: mine.has(note(99).hash) and exchange.connection.idle)
                heard.append(exchange.traffic.bytes_in)
                exchange.give(m.CloseRequested())
                assert isinstance(await task, m.Closed)

        within(work())
        return heard

    without = bytes_heard(keeps_a_diary=False)
    assert without[0] == without[1] == without[2] < without[3]
    assert bytes_heard(keeps_a_diary=True) == without


def count_wakes(exchange: Exchange) -> list[m.Order]:
    """Return a list of the orders that an exchange has carried out."""
    done: list[m.Order] = []
    tell = exchange.connection.tell

    def telling(order: m.Order, now: Tai, *, waits: bool = True) -> None:
        tell(order, now, waits=waits)
        done.append(order)

    exchange.connection.tell = telling  # type: ignore[method-assign]
    return done


@pytest.mark.req("050-SND-01", "050-CUR-03", "050-OPN-02")
def test_a_peer_hears_that_what_it_was_offered_is_gone() -> None:
    store, mine = stored(*NOTE), MemoryStore()

    async def work() -> None:
        async with served(store, policy(NOTES_FOR_ALL), key=AUTHORITY) as host:
            exchange, task = await follow(bob(mine, NOTES), host)
            offers = exchange.connection.machine.peer_advertises
            assert offers(NOTE[3].hash)
            store.forget([NOTE[3].hash])
            await until(lambda: not offers(NOTE[3].hash))
            assert offers(NOTE[4].hash)
            assert mine.has(NOTE[3].hash)
            exchange.give(m.CloseRequested())
            await task

    within(work())


# --- the watch ---


class Troubled(SqliteStore):
    """A store in a file that fails for a while, in several ways."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.troubles: list[Exception] = []

    def standing(self) -> tuple[StoreRecordId, int]:
        if self.troubles:
            raise self.troubles.pop(0)
        return super().standing()


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_WATCH_SECONDS", 0.01)
    monkeypatch.setattr(server_module, "_GUARD_SECONDS", 0.01)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("log_fails", [False, True], ids=["", "and so does the log"])
def test_what_another_process_stores_is_seen_whatever_failed_before(
    tmp_path: Path, log_fails: bool
) -> None:
    mine = MemoryStore()

    async def work() -> None:
        rules = policy(NOTES_FOR_ALL)
        with Troubled(tmp_path / "s") as store, SqliteStore(tmp_path / "s") as elsewhere:
            async with served(store, rules, key=AUTHORITY) as host:
                if log_fails:
                    host.server._log = failing(host.server._log)
                exchange, task = await follow(bob(mine, NOTES), host)
                store.troubles = [
                    StoreError("locked", code=Code.STORE_LOCKED),
                    OSError("no disk"),
                    RuntimeError("dictionary changed size during iteration"),
                ]
                await until(lambda: not store.troubles)
                elsewhere.save([note(7)])
                await until(lambda: mine.has(note(7).hash))
                if not log_fails:
                    failed = await host.until("watch-failed", 3)
                    told = [(entry["watch"], entry["error"], entry.get("code")) for entry in failed]
                    assert told == [
                        ("store", "StoreError", "store.locked"),
                        ("store", "OSError", None),
                        ("store", "RuntimeError", None),
                    ]
                metrics = host.server.metrics.text()
                assert 'lace_watch_failures_total{watch="store"} 3\n' in metrics
                exchange.give(m.CloseRequested())
                await task

    within(work())


def failing(log: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def write(entry: dict[str, Any]) -> None:
        if entry["event"] == "watch-failed":
            raise BrokenPipeError("nobody reads the log")
        log(entry)

    return write


@pytest.mark.usefixtures("_quick")
def test_memory_is_bounded_whatever_failed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lace.driving.exchange._LAST_WORD_SECONDS", 30.0)  # the peer may be busy
    monkeypatch.setattr("lace.serving.server._GRACE_SECONDS", 30.0)
    store = stored(*(note(i) for i in range(12_000)))

    async def work() -> None:
        rules = policy(f"{NOTES_FOR_ALL}[limits]\nmemory_mib = 1\n")
        async with served(store, rules, key=AUTHORITY) as host:
            server = host.server
            troubles = [RuntimeError("once"), ValueError("twice")]
            measure = server._memory_at_most

            def fails_at_first() -> int:
                if troubles:
                    raise troubles.pop(0)
                return measure()

            server._memory_at_most = fails_at_first  # type: ignore[method-assign]
            await host.until("watch-failed", 2)
            # One exchange is more than is allowed; the watch ends it.
            ended = await bob(MemoryStore(), NOTES).sync(host.address)
            assert isinstance(ended, m.Aborted)
            assert "serve.full" in ended.detail
            assert (await host.until("aborted"))[0]["code"] == "serve.full"
            assert 'lace_watch_failures_total{watch="memory"} 2\n' in server.metrics.text()

    within(work())


@pytest.mark.usefixtures("_quick")
def test_what_must_never_end_is_begun_again() -> None:
    async def work() -> None:
        async with served(stored(note(1)), policy(NOTES_FOR_ALL), key=AUTHORITY) as host:
            for task in list(host.server._tasks):
                task.cancel()
            found = await host.until("watch-restarted", 2)
            assert {entry["watch"] for entry in found} == {"store", "memory"}
            assert len(host.server._tasks) == 2
            metrics = host.server.metrics.text()
            assert 'lace_watch_restarts_total{watch="memory"} 1\n' in metrics

    within(work())


def test_what_many_hold_together_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Followers of one room have the same tables: nobody is ended for what it shares."""
    monkeypatch.setattr(server_module, "_GUARD_SECONDS", 3600)

    async def work() -> None:
        rules = policy(f"{NOTES_FOR_ALL}[limits]\nmemory_mib = 1024\n")
        async with served(stored(*(note(i) for i in range(2000))), rules, key=AUTHORITY) as host:
            server = host.server
            running = []
            for number in range(6):
                one = Client(store=MemoryStore(), module=NOTES, exposure=SELECTED, warm=None)
                exchange = await one.dial(host.address, stays=True)
                running.append(asyncio.create_task(exchange.run()))
                await host.until("fixed-point", number + 1)
            exchanges = [peer.exchange for peer in server._peers.values()]
            tables = [exchange.connection.machine.tables[0] for exchange in exchanges]
            assert min(table.memory for table in tables) > 100_000
            single = sum(exchange.memory for exchange in exchanges)
            assert server._memory() < single - 4 * tables[0].memory
            rest = server._memory() + server._workers.mebibytes * server_module._MIB
            object.__setattr__(server._policy.limits, "memory_mib", -(-rest // server_module._MIB))
            await server._bound_memory()
            assert not any(peer.is_ending for peer in server._peers.values())
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    within(work())


def test_one_look_at_memory_ends_as_many_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that never come to their end, held for peers who have not even said hello."""
    monkeypatch.setattr(server_module, "_GUARD_SECONDS", 3600)
    part = 1 << 20
    begun = items.preface(new_nonce()) + MARK + b"B." + b"0" * 43 + b".H3\n"
    begun += b"Data-Length: 33554432\n\n"

    async def work() -> None:
        rules = policy(f"{NOTES_FOR_ALL}[limits]\nmemory_mib = 8\n")  # half of it is for workers
        async with served(stored(note(1)), rules, key=AUTHORITY) as host:
            server = host.server
            writers = []
            for number in range(1, 9):
                _, writer = await asyncio.open_connection(host.address.host, host.address.port)
                writer.write(begun + bytes(part * number // 2))
                await writer.drain()
                writers.append(writer)
            await until(lambda: server._memory() > 18 * part)  # (1 + … + 8) / 2 of them
            await server._bound_memory()
            ended = await host.until("aborted", 5)
            assert {entry["code"] for entry in ended} == {"serve.full"}
            assert sorted(entry["connection"] for entry in ended) == [4, 5, 6, 7, 8]
            assert server._memory() <= 4 * part  # the smaller ones stay
            assert len(server._peers) == 3
            for writer in writers:
                writer.close()

    within(work())


@pytest.mark.usefixtures("_quick")
def test_looking_at_memory_disturbs_no_work_that_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables that grow are counted at the end of the call that lets them grow, and at no other time."""
    measured: set[str] = set()
    count: Any = StoreAnswers.__dict__["memory"]

    def counted(answers: StoreAnswers) -> int:
        measured.add(sys._getframe(1).f_code.co_name)
        return int(count.fget(answers))

    monkeypatch.setattr(StoreAnswers, "memory", property(counted))
    fields = module_from_text(
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,N,_,V), N != V.\n"
    )
    rich = [
        build_plex(
            group="notes-demo", app="notes", name=f"n/{i}", tai=f"{i:010d}:{0:09d}",
            extras=sorted((f"H{i}-{k}", "v") for k in range(100)),
        )
        for i in range(30)
    ]  # fmt: skip

    async def work() -> None:
        worker = ThreadPoolExecutor(1, "near")
        with SqliteStore(tmp_path / "s") as store:
            async with served(store, policy(NOTES_FOR_ALL), key=AUTHORITY) as host:
                for _ in range(2):
                    near = bob(stored(*rich), fields)
                    near.worker = worker
                    ended = await near.sync(host.address)
                    assert isinstance(ended, m.Closed), ended
                    assert store.count() == len(rich)
                    await host.until("closed")
                    assert host.server._memory() >= 0
                    store.forget([entry.hash for entry in store.read(StoreRecordId(0), 10**6)])
                assert "lace_watch_failures_total 0\n" in host.server.metrics.text()
        worker.shutdown()

    within(work())
    assert measured == {Connection._close_call.__name__}


@pytest.mark.usefixtures("_quick")
def test_nothing_looks_any_more_once_the_server_is_shut_down() -> None:
    class Counted(MemoryStore):
        looks = 0

        def standing(self) -> tuple[StoreRecordId, int]:
            self.looks += 1
            return super().standing()

    async def work() -> None:
        store = Counted()
        server = Server(store, policy(NOTES_FOR_ALL))
        await server.start()
        await until(lambda: store.looks > 2)
        await server.shut_down()
        looks = store.looks
        assert not server._tasks
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await until(lambda: store.looks > looks)
        assert store.looks == looks

    within(work())


def test_who_never_ends_a_handshake_counts_too() -> None:
    async def work() -> None:
        rules = policy(f"{NOTES_FOR_ALL}[limits]\nconnections_per_host = 2\n")
        async with served(stored(note(1)), rules, key=AUTHORITY, at="ws:127.0.0.1:0") as host:
            server, port = host.server, host.address.port
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(60)]
            await until(lambda: server.metrics.counts["lace_refused_total"] == 8)
            assert server._entered == {"127.0.0.1": 52}
            for _, writer in silent:
                writer.close()
            await until(lambda: not server._entered)
            near = MemoryStore()
            assert isinstance(await bob(near, NOTES).sync(host.address), m.Closed)
            assert near.has(note(1).hash)

    within(work())
