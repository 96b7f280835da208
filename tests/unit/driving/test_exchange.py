"""Exchanges over streams: they converge, wait for nobody for ever, and end in one of a few ways."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest
from meeting import Host, client, within
from wires import BusyStore, hashes, notes, store_of

from lace.crypto import SigningKey
from lace.driving import saving
from lace.driving.backoff import Backoff
from lace.driving.exchange import Exchange
from lace.errors import Code, Outcome, StoreError, TransportError
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, Limits
from lace.record import Record, build_blob
from lace.record.validate import validate_records
from lace.recordstore import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.stream import items as i
from lace.transport.address import Address, Scheme, parse_address
from lace.transport.base import CHUNK
from lace.transport.memory import MemoryStream, memory_streams
from lace.transport.tls import development_certificate

KEY = SigningKey(b"\x0d" * 32)
HERE = Address(scheme=Scheme.STDIO)  # what is said to be dialled over a stream in memory
ADDRESSES = [
    "unix:{folder}/s",
    "tcp:127.0.0.1:0",
    "tcp:[::1]:0",
    "ws:127.0.0.1:0",
    "wss:localhost:0",
]


@pytest.mark.req("060-TRN-01", "060-TRN-08")
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_scenario_converges_over_every_transport(address: str, tmp_path: Path) -> None:
    certificate = development_certificate(tmp_path) if address.startswith("wss") else None
    here, there = store_of(notes(150, key=KEY)), store_of(notes(120, start=100, key=KEY))

    async def work() -> m.Closed | m.Aborted:
        host = Host(here, key=KEY)
        async with host.at(address.format(folder=tmp_path), certificate) as place:
            near = client(there, key=KEY, trust=certificate and certificate.chain)
            ended = await near.sync(parse_address(place))
            await host.ended.wait()
        assert isinstance(host.ends[0], m.Closed), host.ends
        assert host.ends[0].result.peer == KEY.verifier
        assert not host.exchanges[0].waiting
        return ended

    ended = within(work())
    assert isinstance(ended, m.Closed), ended
    assert ended.ending is m.Ending.FIXED_POINT
    assert ended.result.peer == KEY.verifier
    assert hashes(here) == hashes(there)
    assert len(hashes(here)) == 220


@pytest.mark.req("060-TRN-05")
def test_both_sides_send_64_mebibytes_through_small_buffers() -> None:
    chance = random.Random(3)

    def blobs() -> list[Record]:
        return [build_blob(chance.randbytes(4 << 20)) for _ in range(16)]

    here, there = store_of(blobs()), store_of(blobs())

    async def work() -> m.Closed | m.Aborted:
        near, far = memory_streams(room=1000)
        host = Host(here, addresses=("stdio",))
        serving = asyncio.create_task(host.serve(far))
        ended = await client(there).over(near, HERE).run()
        await serving
        return ended

    assert isinstance(within(work()), m.Closed)
    assert hashes(here) == hashes(there)
    assert here.count() == 32


def test_a_worker_thread_changes_nothing_but_where_work_is_done(tmp_path: Path) -> None:
    records = notes(300, key=KEY)

    async def work() -> None:
        with SqliteStore(tmp_path / "s.lace") as store, ThreadPoolExecutor(2) as worker:
            host = Host(store_of(records))
            async with host.at("tcp:127.0.0.1:0") as place:
                ended = await client(store, worker=worker).sync(parse_address(place))
            assert isinstance(ended, m.Closed)
            assert store.count() == 300
            assert sorted(ended.result.received) == sorted(r.hash for r in records)

    within(work())


class Gate(MemoryStore):
    """A store that stores only after more records have come than there were when it was asked."""

    exchange: Exchange
    passed = 0

    def save(self, records: Iterable[Record]) -> list[Outcome[Record]]:
        before, deadline = self._came, monotonic() + 20
        while not self.passed and self._came == before:  # nothing comes after the last
            if monotonic() > deadline:
                raise StoreError("nothing came meanwhile", code=Code.STORE_FAILED)
            sleep(0.001)
        self.passed += 1
        return super().save(records)

    @property
    def _came(self) -> int:
        return self.exchange.connection.machine._transfer.tally.bytes_received


def test_more_is_read_while_records_are_stored_and_validated_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: set[str] = set()

    def noting(raws: Iterable[bytes], limits: Limits) -> list[Outcome[Record]]:
        threads.add(threading.current_thread().name)
        return validate_records(raws, limits)

    monkeypatch.setattr(saving, "validate_records", noting)
    records, store = notes(2500, size=400), Gate()

    async def work() -> m.Closed | m.Aborted:
        with ThreadPoolExecutor(2, "worker") as worker:
            near, far = memory_streams()
            serving = asyncio.create_task(Host(store_of(records)).serve(far))
            store.exchange = client(store, worker=worker).over(near, HERE)
            ended = await store.exchange.run()
            await serving
            return ended

    ended = within(work())
    assert isinstance(ended, m.Closed), ended
    assert store.passed == 3
    assert hashes(store) == {record.hash for record in records}
    assert all(name.startswith("lace-validate") for name in threads), threads
    assert threads


def test_an_open_exchange_wakes_and_closes_in_order() -> None:
    here, there = MemoryStore(), MemoryStore()

    async def work() -> None:
        near, far = memory_streams()
        host = Host(here)
        heard: asyncio.Queue[m.Event] = asyncio.Queue()
        following = client(there).over(near, HERE, stays=True, listen=heard.put_nowait)
        running = asyncio.create_task(following.run())
        serving = asyncio.create_task(host.serve(far))
        assert isinstance(await heard.get(), m.FixedPoint)
        records = notes(3)
        here.save(records)
        host.exchanges[0].give(m.Woken())
        for _ in records:
            assert isinstance(await heard.get(), m.RecordSaved)
        assert isinstance(await heard.get(), m.FixedPoint)
        following.give(m.CloseRequested())
        ended = await running
        assert isinstance(ended, m.Closed)
        assert ended.ending is m.Ending.ASKED
        await serving
        assert isinstance(host.ends[0], m.Closed)
        assert host.ends[0].ending is m.Ending.PEER_CLOSED
        assert hashes(here) == hashes(there)

    within(work())


@pytest.mark.req("050-RES-03", "050-CUR-01")
def test_meeting_again_finds_the_cursor_of_the_last_time() -> None:
    here, there = store_of(notes(100)), MemoryStore()

    async def work() -> None:
        host = Host(here, key=KEY)
        async with host.at("tcp:127.0.0.1:0") as place:
            results = []
            for _ in range(2):
                ended = await client(there, key=KEY).sync(parse_address(place))
                assert isinstance(ended, m.Closed)
                results.append(ended.result)
        assert results[0].plan == results[1].plan
        assert results[0].link == results[1].link is not None
        assert [result.cursor_updated for result in results] == [True, False]

    within(work())


# --- peers that break, block or dawdle ---


async def raw_peer(
    limits: dict[str, int] | None = None,
) -> tuple[MemoryStream, asyncio.Task[None], Host]:
    """Return a bare stream to a host, and the host."""
    near, far = memory_streams()
    host = Host(store_of(notes(5)), limits=replace(DEFAULT_LIMITS, **(limits or {})))
    return near, asyncio.create_task(host.serve(far)), host


def code_of(host: Host) -> Code:
    (ended,) = host.ends
    assert isinstance(ended, m.Aborted), ended
    return ended.code


@pytest.mark.req("050-ERR-11", "050-LIM-08")
@pytest.mark.parametrize("first", [b"", i.preface("0" * 43)])
def test_a_silent_peer_is_given_up(first: bytes) -> None:
    async def work() -> None:
        near, serving, host = await raw_peer({"phase_timeout": 1})
        if first:
            await near.write(first)
        await serving
        assert code_of(host) is Code.INTERLACE_TIMEOUT
        said = b""
        while chunk := await near.read():
            said += chunk
        assert said.endswith(b"# closing: interlace.timeout\n")

    within(work())


@pytest.mark.req("050-LIM-07")
def test_a_side_that_stops_at_the_loop_limit_says_so() -> None:
    said = bytearray()

    async def work() -> m.Closed | m.Aborted:
        near, far = memory_streams()
        host = Host(store_of(notes(5)), limits=replace(DEFAULT_LIMITS, max_loop_iterations=1))
        write = far.write

        async def noting(data: bytes) -> None:
            said.extend(data)
            await write(data)

        far.write = noting  # type: ignore[method-assign]
        serving = asyncio.create_task(host.serve(far))
        ended = await client(MemoryStore()).over(near, HERE).run()
        await serving
        assert isinstance(host.ends[0], m.Closed)
        assert host.ends[0].code is Code.LIMIT_EXCEEDED
        return ended

    ended = within(work())
    assert isinstance(ended, m.Closed)  # both count alike, and neither takes it for a fault
    assert ended.ending is m.Ending.LOOPS
    assert said.endswith(b"\n# closing: limit.exceeded\n")


@pytest.mark.req("050-LIM-07", "050-BND-05")
def test_a_side_that_stops_there_because_more_is_stored_ends_in_order() -> None:
    """Neither side blames the other, and the next exchange goes on from there."""
    theirs, mine = BusyStore(), MemoryStore()
    theirs.save(notes(5))

    async def work() -> list[m.Closed | m.Aborted]:
        near, far = memory_streams()
        host = Host(theirs, limits=replace(DEFAULT_LIMITS, max_loop_iterations=3))
        serving = asyncio.create_task(host.serve(far))
        ended = await client(mine).over(near, HERE).run()
        await serving
        return [ended, host.ends[0]]

    for number in (5 + 2, 7 + 3):
        for ended in within(work()):
            assert isinstance(ended, m.Closed)
            assert ended.ending is ended.result.ending is m.Ending.LOOPS
            assert not ended.result.fixed_point
        assert len(hashes(mine)) == number


def test_a_peer_that_drips_is_given_up_too() -> None:
    async def work() -> None:
        near, serving, host = await raw_peer({"phase_timeout": 1})
        await near.write(i.preface("0" * 43))

        async def drip() -> None:
            for number in range(1000):
                await near.write(b"# still here %d\n" % number)
                await asyncio.sleep(0.01)

        with pytest.raises(TransportError):
            await drip()
        await serving
        assert code_of(host) is Code.INTERLACE_TIMEOUT

    within(work())


@pytest.mark.req("060-TRN-09")
def test_an_end_before_anything_began() -> None:
    for said, code in (
        (b"", Code.INTERLACE_GONE),
        (b"GET / HTTP/1.1\r\n\r\n", Code.ILTP_PREFACE),
        (b"\x16\x03\x01", Code.ILTP_ITEM),
        (i.preface("0" * 43)[:20], Code.INTERLACE_GONE),
        (i.preface("0" * 43), Code.INTERLACE_GONE),
    ):

        async def work(said: bytes = said, code: Code = code) -> None:
            near, serving, host = await raw_peer()
            if said:
                await near.write(said)
            await near.finish()
            await serving
            assert code_of(host) is code

        within(work())


@pytest.mark.req("060-TRN-09", "050-ERR-17")
def test_a_cable_that_is_cut_in_mid_transfer_leaves_what_was_stored() -> None:
    records = [build_blob(bytes([n]) * 300_000) for n in range(40)]
    there = MemoryStore()

    async def work() -> m.Closed | m.Aborted:
        near, far = memory_streams(room=1000)
        host = Host(store_of(records))
        serving = asyncio.create_task(host.serve(far))
        running = asyncio.create_task(client(there).over(near, HERE).run())
        while host.exchanges == [] or host.exchanges[0].traffic.bytes_out < 6_000_000:
            await asyncio.sleep(0)
        far.abort()
        ended = await running
        await serving
        return ended

    ended = within(work())
    assert isinstance(ended, m.Aborted)
    assert ended.code is Code.INTERLACE_GONE
    assert 0 < there.count() < 40
    assert len(ended.result.received) == there.count()


def test_a_peer_that_never_reads_cannot_make_memory_grow() -> None:
    """It asks for everything again and again, and takes nothing of what it gets."""
    from wires import End, run  # its bytes are taken from an honest exchange

    from lace.stream.binding import Endpoint

    store = store_of([build_blob(bytes([n]) * 1_000_000) for n in range(5)])

    async def work() -> None:
        near, far = memory_streams(room=10_000)
        host = Host(store, limits=replace(DEFAULT_LIMITS, phase_timeout=2))
        serving = asyncio.create_task(host.serve(far))
        await near.read()  # its preface, and nothing more
        exchange = host.exchanges[0]
        nonce = "0" * 43
        ours = End(Endpoint(accepting=False, nonce=nonce, addresses=("memory",)), MemoryStore())
        theirs = End(replace(exchange.connection._bytes._endpoint), store)
        run(theirs, ours, 10**6)
        most = 0
        flood = bytes(ours.sent) + b"\n" * 1000
        try:
            for at in range(0, len(flood), 50):
                await near.write(flood[at : at + 50])
                most = max(most, exchange.memory)
        except TransportError:
            pass
        await serving
        assert isinstance(host.ends[0], m.Aborted)
        assert most < 6_000_000 + 8 * CHUNK

    within(work())


# --- coming back ---


def test_delays_grow_to_a_bound_and_a_seed_repeats_them() -> None:
    backoff = Backoff(first=1, most=8, chance=random.Random(7))
    delays = [backoff.delay() for _ in range(6)]
    again = Backoff(first=1, most=8, chance=random.Random(7))
    assert delays == [again.delay() for _ in range(6)]
    for delay, full in zip(delays, (1, 2, 4, 8, 8, 8), strict=True):
        assert full / 2 <= delay <= full
    assert len(set(delays)) == 6
    backoff.reset()
    assert backoff.delay() <= 1


def test_a_follower_comes_back_after_the_server_did() -> None:
    here, there = store_of(notes(3)), MemoryStore()

    async def work() -> None:
        host = Host(here)
        waits: list[float] = []
        points: asyncio.Queue[m.Event] = asyncio.Queue()
        server_is_up = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) > 2:
                await server_is_up.wait()

        def hear(event: m.Event) -> None:
            if isinstance(event, m.FixedPoint):
                points.put_nowait(event)

        current: list[Exchange] = []
        async with host.at("tcp:127.0.0.1:0") as place:
            following = asyncio.create_task(
                client(there).follow(
                    parse_address(place), listen=hear, begin=current.append, sleep=sleep,
                    backoff=Backoff(chance=random.Random(1)),
                )
            )  # fmt: skip
            await points.get()
            assert there.count() == 3
        host.exchanges[0]._stream.abort()  # the server dies
        while len(waits) < 3:
            await asyncio.sleep(0.01)
        assert waits[0] < waits[1] < waits[2]
        here.save(notes(2, start=50))
        async with host.at(place):
            server_is_up.set()
            await points.get()
            assert there.count() == 5
            current[-1].give(m.CloseRequested())
            ended = await following
            assert isinstance(ended, m.Closed)
            assert len(current) == 2

    within(work())


def test_a_follower_does_not_knock_where_it_will_never_be_let_in() -> None:
    async def work() -> None:
        host = Host(MemoryStore(), key=KEY)
        async with host.at("tcp:127.0.0.1:0") as place:
            stranger = SigningKey(b"\x0e" * 32).verifier
            ended = await client(MemoryStore(), expected=stranger).follow(parse_address(place))
            assert isinstance(ended, m.Aborted)
            assert ended.code is Code.INTERLACE_SIGNER

    within(work())
