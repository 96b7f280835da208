"""``lace serve`` as its users run it: real processes, real sockets."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from command import lace
from meeting import client, within
from servers import Process, policy, process, served
from wires import hashes, notes, store_of

import lace as api
from lace import blocking
from lace.crypto import SigningKey
from lace.driving.backoff import Backoff
from lace.driving.exchange import Exchange
from lace.driving.ratelimit import Allowance, RateLimit
from lace.errors import Code
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.record import build_plex
from lace.recordstore import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.rooms import Room
from lace.selectors import selector
from lace.serving.server import _LOG_BYTES
from lace.transport.address import parse_address
from lace.transport.dial import connect
from lace.transport.stdio import spawn

SELECT = ("--select", "//g//notes//", "--accept", "anyone")
READ_ONLY = SELECT[:2]
ANYONE = '[[allow]]\nwho = "anyone"\nsync = ["//g//notes//"]\n'
KEY = SigningKey(b"\x31" * 32)


def key_file(folder: Path) -> Path:
    path = folder / "server.key"
    path.touch(mode=0o600)
    path.write_text(KEY.reveal() + "\n")
    return path


def fill(path: Path, number: int, start: int = 0) -> set[str]:
    records = notes(number, start=start, key=KEY)
    with SqliteStore(path) as store:
        store.save(records)
    return {record.hash for record in records}


@pytest.mark.req("060-TRN-01")
@pytest.mark.parametrize(
    "scheme", ["tcp:127.0.0.1:0", "unix:{}/s", "ws:127.0.0.1:0", "wss:localhost:0"]
)
def test_a_store_is_served_by_a_process(scheme: str, tmp_path: Path) -> None:
    there = fill(tmp_path / "n.lace", 120)
    here = store_of(notes(10, start=1000, key=KEY))
    more = ("--dev-cert", tmp_path / "cert") if scheme.startswith("wss") else ()
    with process(
        tmp_path, "n.lace", scheme.format(tmp_path), *SELECT, "--key", key_file(tmp_path), *more
    ) as server:
        trust = tmp_path / "cert" / "localhost.pem" if more else None
        near = client(here, key=KEY, expected=KEY.verifier, trust=trust)
        ended = within(near.sync(server.address))
        assert isinstance(ended, m.Closed), ended
        assert len(hashes(here)) == 130
        assert server.wait_for("closed")[0]["reason"] == "the peer closed"
        assert server.stop() == 0
        assert server.events("stopped")
    with SqliteStore(tmp_path / "n.lace") as store:
        assert hashes(store) == hashes(here)
        assert there < hashes(store)
    assert KEY.reveal() not in server.log_file.read_text()


def test_a_folder_is_served_as_its_settings_expose_it(tmp_path: Path) -> None:
    member, stranger = SigningKey(b"\x32" * 32), SigningKey(b"\x33" * 32)
    rules = Room(prefix="//g//notes//", authority=KEY.verifier)
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "lace.toml").write_text(
        f'key = "{key_file(tmp_path)}"\nselect = "//g//notes//"\n[room]\nauthority = "{KEY.verifier}"\n'
    )
    api.open(tmp_path / "room" / "records.lace").close()
    with api.open(tmp_path / "room", records=notes(5, key=KEY)) as local:
        blocking.admit(local, KEY.verifier)
        blocking.admit(local, member.verifier, "reader")
    with process(tmp_path, "room", "tcp:127.0.0.1:0") as server:
        for who, seen in ((member, 7), (stranger, 0)):
            here = MemoryStore()
            near = replace(client(here, key=who), module=rules.module)
            assert isinstance(within(near.sync(server.address)), m.Closed)
            assert here.count() == seen


@pytest.mark.req("060-TRN-01")
def test_a_store_is_served_over_standard_input_and_output(tmp_path: Path) -> None:
    fill(tmp_path / "n.lace", 100)
    here = MemoryStore()

    async def work() -> m.Closed | m.Aborted:
        stream = await spawn([
            sys.executable, "-m", "lace", "serve", str(tmp_path / "n.lace"), "stdio", *SELECT,
            "--key", str(key_file(tmp_path)),
        ])  # fmt: skip
        near = client(here, key=KEY, expected=KEY.verifier)
        ended = await near.over(stream, parse_address("stdio")).run()
        await stream._process.wait()
        assert stream._process.returncode == 0
        return ended

    ended = within(work())
    assert isinstance(ended, m.Closed), ended
    assert here.count() == 100


def test_a_stopped_server_lets_open_exchanges_end_in_order(tmp_path: Path) -> None:
    fill(tmp_path / "n.lace", 20)

    async def work(number: int) -> m.Closed | m.Aborted:
        with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *SELECT) as server:
            heard: asyncio.Queue[m.Event] = asyncio.Queue()
            exchange = await client(MemoryStore()).dial(
                server.address, stays=True, listen=heard.put_nowait
            )
            running = asyncio.create_task(exchange.run())
            while not isinstance(await heard.get(), m.FixedPoint):
                pass
            assert await asyncio.to_thread(server.stop, number) == 0
            return await running

    for number in (signal.SIGTERM, signal.SIGINT):
        ended = within(work(number))
        assert isinstance(ended, m.Closed), ended
        assert ended.ending is m.Ending.PEER_CLOSED


def test_what_one_peer_stores_another_gets_and_so_from_another_process(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "n.lace"):
        pass

    async def work() -> None:
        with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *SELECT) as server:
            here, there = MemoryStore(), store_of(notes(3))
            heard: asyncio.Queue[m.Event] = asyncio.Queue()
            following = await client(here).dial(server.address, stays=True, listen=heard.put_nowait)
            running = asyncio.create_task(following.run())
            while not isinstance(await heard.get(), m.FixedPoint):
                pass
            assert isinstance(await client(there).sync(server.address), m.Closed)
            while here.count() < 3:
                await heard.get()
            fill(tmp_path / "n.lace", 2, start=50)  # this process writes to the server's file
            while here.count() < 5:
                await heard.get()
            following.give(m.CloseRequested())
            assert isinstance(await running, m.Closed)

    within(work())


@pytest.mark.req("060-TRN-09", "050-ERR-17")
def test_a_server_killed_in_mid_transfer_and_started_again(tmp_path: Path) -> None:
    number = 3000
    fill(tmp_path / "n.lace", number)
    arguments = ("n.lace", f"unix:{tmp_path}/s", *SELECT)

    async def work() -> None:
        store = MemoryStore()
        saved = asyncio.Event()
        complete = asyncio.Event()
        exchanges: list[Exchange] = []
        again: list[int] = []

        def hear(event: m.Event) -> None:
            if isinstance(event, m.RecordSaved):
                saved.set()
            elif isinstance(event, m.FixedPoint) and store.count() == number:
                again.append(len(event.result.received))
                complete.set()

        with process(tmp_path, *arguments) as first:
            following = asyncio.create_task(
                client(store).follow(
                    first.address, listen=hear, begin=exchanges.append,
                    backoff=Backoff(first=0.05, most=0.2),
                )
            )  # fmt: skip
            await saved.wait()
            first.process.kill()
            first.process.wait()
        with process(tmp_path, *arguments):
            await complete.wait()
            exchanges[-1].give(m.CloseRequested())
            assert isinstance(await following, m.Closed)
            assert len(exchanges) > 1
            assert again[0] < number  # what was stored before was not sent again

    within(work())


def test_metrics_are_told_in_prometheus_form(tmp_path: Path) -> None:
    fill(tmp_path / "n.lace", 5)
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *SELECT, "--metrics", "0") as server:
        here = store_of(notes(2, start=90))
        assert isinstance(within(client(here).sync(server.address)), m.Closed)
        server.wait_for("closed")
        (entry,) = server.events("metrics")
        assert entry["address"].startswith("http://127.0.0.1:")
        with urllib.request.urlopen(entry["address"]) as answer:  # noqa: S310 (ours)
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4"
            lines = answer.read().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert values["lace_connections"] == "0"
        assert values["lace_connections_total"] == "1"
        assert values["lace_records_saved_total"] == "2"
        assert values["lace_store_records"] == "7"
        assert values['lace_ended_total{code="",how="closed"}'] == "1"
        assert int(values["lace_bytes_received_total"]) > 500
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(entry["address"] + "x")  # noqa: S310 (ours)
        refused.value.close()


def test_a_server_without_a_name_says_so(tmp_path: Path) -> None:
    with process(tmp_path, "n.lace", "tcp:0.0.0.0:0", *SELECT) as server:
        assert "--name" in server.events("warning")[0]["detail"]
        port = server.address.port
        address = parse_address(f"tcp:127.0.0.1:{port}")
        ended = within(client(MemoryStore(), key=KEY).sync(address))
        assert isinstance(ended, m.Aborted)
        assert "iltp.proof" in ended.detail
    named = ("--name", "tcp:notes.example")
    with process(tmp_path, "n.lace", "tcp:0.0.0.0:0", *SELECT, *named) as server:
        assert not server.events("warning")
        assert isinstance(
            within(
                client(MemoryStore()).sync(parse_address(f"tcp:127.0.0.1:{server.address.port}"))
            ),
            m.Closed,
        )


def test_wrong_options_are_told_before_anything_is_opened(tmp_path: Path) -> None:
    for arguments, code, says in (
        (("s", "tcp:127.0.0.1:0"), 2, "--select or --policy"),
        (("s", "tcp:x:y", *SELECT), 2, "address.malformed"),
        (("s", "stdio", "tcp:x", *SELECT), 2, "give it alone"),
        (("s", "wss:x", *SELECT), 2, "transport.tls"),
        (("s", "tcp:x", *SELECT, "--dev-cert", "d"), 2, "no address is wss"),
        (("s", "tcp:x", "--policy", "missing"), 2, "serve.policy"),
        (("s", "tcp:127.0.0.1:0", *SELECT, "--key", "missing"), 2, "key.unknown"),
        (("s", "tcp:127.0.0.1:0", *SELECT, "--key", "./missing"), 2, "input.file"),
        ((".", "tcp:127.0.0.1:0", *SELECT), 2, "settings.missing"),
        (("s", "tcp:192.0.2.1:1", *SELECT), 1, "transport.listen"),
    ):
        ran = lace("serve", *arguments, cwd=tmp_path)
        assert (ran.returncode, says in ran.stderr.decode()) == (code, True), ran.stderr


# --- many at once, in this process, where they can be counted ---


@pytest.mark.long
def test_hundreds_of_peers_share_one_server() -> None:
    number = 300
    store = store_of(notes(5))

    async def work() -> None:
        rules = policy(ANYONE + "[limits]\nconnections_per_host = 1000\nworkers = 1")
        async with served(store, rules) as host:
            places = [MemoryStore() for _ in range(number)]
            exchanges = [await client(place).dial(host.address, stays=True) for place in places]
            running = [asyncio.create_task(exchange.run()) for exchange in exchanges]
            await host.until("fixed-point", number)
            # Now all of them stay. One more comes, leaves a record and goes.
            assert isinstance(
                await client(store_of(notes(1, start=50))).sync(host.address), m.Closed
            )
            await host.until("fixed-point", 2 * number + 1)
            assert all(place.count() == 6 for place in places)
            assert host.server.metrics.gauges["lace_connections"]() == number
            for exchange in exchanges:
                exchange.give(m.CloseRequested())
            ended = await asyncio.gather(*running)
            assert all(isinstance(end, m.Closed) for end in ended)
            await host.until("closed", number)
            assert host.server.metrics.gauges["lace_memory_bytes"]() == 0

    within(work(), seconds=240)


def test_more_connections_than_allowed_are_turned_away_and_told_so() -> None:
    for limit in ("connections = 3", "connections_per_host = 3"):

        async def work(limit: str = limit) -> None:
            async with served(MemoryStore(), policy(f"{ANYONE}[limits]\n{limit}")) as host:
                waiting = [await connect(host.address) for _ in range(3)]
                for stream in waiting:
                    await stream.read()
                ended = await client(MemoryStore()).sync(host.address)
                assert isinstance(ended, m.Aborted)
                assert (ended.code, ended.detail) == (
                    Code.INTERLACE_GONE, "the peer gave up: serve.full",
                )  # fmt: skip
                waiting[0].abort()
                await host.until("aborted")
                assert isinstance(await client(MemoryStore()).sync(host.address), m.Closed)
                for stream in waiting:
                    stream.abort()
                assert len(host.events("refused")) == 1

        within(work())


def test_a_connection_that_idles_too_long_is_closed_in_order() -> None:
    async def work() -> None:
        async with served(
            store_of(notes(2)), policy(f"{ANYONE}[limits]\nidle_seconds = 1")
        ) as host:
            exchange = await client(MemoryStore()).dial(host.address, stays=True)
            ended = await exchange.run()
            assert isinstance(ended, m.Closed), ended
            assert ended.ending is m.Ending.PEER_CLOSED
            assert (await host.until("closed"))[0]["reason"] == "asked to close"

    within(work())


def test_the_pace_is_counted_by_the_minute() -> None:
    pace = RateLimit(bytes_per_minute=100, phases_per_minute=3)
    assert pace.wait(0, 50, 1) == 0
    assert pace.wait(10, 150, 1) == 0  # counted from the first look
    assert pace.wait(10, 151, 1) == 50
    assert pace.wait(60, 151, 1) == 0
    assert pace.wait(70, 160, 5) == 50


def test_a_peer_that_begins_round_after_round_is_slowed_down_alone() -> None:
    async def work() -> None:
        rules = policy(f"{ANYONE}[limits]\nphases_per_minute = 30")
        async with served(store_of(notes(2)), rules) as host:
            store = MemoryStore()
            numbers = count(100)

            def hear(event: m.Event) -> None:
                if isinstance(event, m.FixedPoint):
                    store.save(notes(1, start=next(numbers)))
                    busy.give(m.Woken())

            limits = replace(DEFAULT_LIMITS, phase_timeout=2)
            busy = await client(store, limits=limits).dial(host.address, stays=True, listen=hear)
            ended = await busy.run()
            assert isinstance(ended, m.Aborted)
            assert ended.code is Code.INTERLACE_TIMEOUT
            assert len(host.events("fixed-point")) < 10
            assert isinstance(await client(MemoryStore()).sync(host.address), m.Closed)

    within(work())


@pytest.mark.parametrize("prompt", [True, False])
def test_a_host_that_is_sent_much_is_sent_it_more_slowly_and_is_not_ended(
    prompt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its connections share what is sent in a minute, and so do those that come later."""
    waits: list[float] = []
    takes = Allowance.take

    def take(self: Allowance, now: float, size: int) -> float:
        waits.append(takes(self, now, size))
        return waits[-1]

    monkeypatch.setattr(Allowance, "take", take)
    if not prompt:
        monkeypatch.setattr("lace.driving.exchange.Exchange._sends_now", lambda *_: False)

    async def meet(limit: int) -> int:
        """Let two clients of one host have all; return how much was sent."""
        waits.clear()
        rules = policy(
            f"{ANYONE}[limits]\nsent_bytes_per_minute = {limit}\n[engine]\nphase_timeout = 1"
        )
        async with served(store_of(notes(60, size=1000)), rules) as host:
            stores = [MemoryStore() for _ in range(2)]
            ends = await asyncio.gather(*(client(one).sync(host.address) for one in stores))
            assert all(isinstance(ended, m.Closed) for ended in ends), ends
            assert [one.count() for one in stores] == [60, 60]
            assert len(host.server._sends) == 1
            await host.until("closed", 2)
            return host.server.metrics.counts["lace_bytes_sent_total"]

    async def work() -> None:
        whole = await meet(10**9)
        assert sum(waits) == 0
        await meet(whole * 19 // 20)
        assert sum(waits) > 1  # longer than a peer may be silent

    within(work())


#: An application that stores large records, serves them, and says what it holds before and after.
_SERVES_LARGE = """
import asyncio, os, subprocess, sys, lace

PULL = "import sys; from lace import blocking as b; print(len(b.sync(b.open(), *sys.argv[1:]).received))"

def held():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) >> 10 for line in file if line.startswith("Anonymous"))

async def main():
    kind = lace.RecordKind(group="g", app="notes")
    with lace.open(sys.argv[1], key=lace.SigningKey(bytes(32))) as local:
        before = held()
        for number in range(30):
            record = kind.build(f"n/{number}", os.urandom(4 << 20), key=local.key)
            await lace.store(local, [record])
        del record
        async with lace.serve(local, "tcp:127.0.0.1:0", policy="//g//notes//") as server:
            for _ in range(2):
                client = await asyncio.create_subprocess_exec(
                    sys.executable, "-c", PULL, server.addresses[0], "//g//notes//",
                    stdout=asyncio.subprocess.PIPE,
                )
                assert (await client.communicate())[0] == b"30\\n"
            while server.connections:
                await asyncio.sleep(0.01)
            print(held() - before)

asyncio.run(main())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"),
    reason="only glibc keeps what large buffers took",
)
def test_a_server_gives_back_what_large_records_took(tmp_path: Path) -> None:
    """A bound with room: 60 MiB and more stayed, where nothing was done about it."""
    done = subprocess.run(
        [sys.executable, "-c", _SERVES_LARGE, str(tmp_path / "n.lace")],
        check=True, capture_output=True,
    )  # fmt: skip
    assert int(done.stdout) < 50, done.stdout


def test_the_connection_with_most_in_memory_goes_when_there_is_too_much() -> None:
    records = [
        build_plex(
            group="g",
            app="notes",
            name=f"{n}",
            tai="1700000000:000000000",
            data=bytes([n]) * 900_000,
        )
        for n in range(20)
    ]

    async def work() -> None:
        rules = policy(f"{ANYONE}[limits]\nmemory_mib = 4\n[engine]\nphase_timeout = 20")
        async with served(store_of(records), rules) as host:
            one = selector("//g//notes//1")
            small = await client(MemoryStore(), module=one).dial(host.address, stays=True)
            # This one asks for everything and then takes nothing of it.
            greedy = await client(MemoryStore()).dial(host.address)
            read = greedy._stream.read
            seen = 0

            async def stop_reading() -> bytes:
                nonlocal seen
                if seen > 10_000:
                    await asyncio.sleep(3600)
                chunk = await read()
                seen += len(chunk)
                return chunk

            greedy._stream.read = stop_reading  # type: ignore[method-assign]
            task = asyncio.create_task(greedy.run())
            (ended,) = await host.until("aborted")
            assert ended["code"] == "serve.full"
            task.cancel()
            running = asyncio.create_task(small.run())
            await host.until("fixed-point", 1)
            small.give(m.CloseRequested())
            assert isinstance(await running, m.Closed)

    within(work())


def test_the_log_of_the_store_does_not_grow_while_it_is_served(tmp_path: Path) -> None:
    records = [
        build_plex(
            group="g",
            app="notes",
            name=f"{n}",
            tai="1700000000:000000000",
            data=os.urandom(1 << 20),
        )
        for n in range(20)
    ]

    async def work() -> None:
        with SqliteStore(tmp_path / "n.lace") as store:
            async with served(store, policy(ANYONE)) as host:
                staying = await client(MemoryStore()).dial(host.address, stays=True)
                running = asyncio.create_task(staying.run())
                assert isinstance(await client(store_of(records)).sync(host.address), m.Closed)
                assert store.count() == 20
                while store.log_bytes > _LOG_BYTES:
                    await asyncio.sleep(0.05)
                staying.give(m.CloseRequested())
                await running

    within(work())


def strangers(server: Process) -> list[str]:
    return [entry["detail"] for entry in server.wait_for("strangers", 2)]


def test_strangers_read_and_write_only_where_that_was_asked_for(tmp_path: Path) -> None:
    """The least that the flags say, told in two lines at the start."""
    fill(tmp_path / "n.lace", 3)
    key = ("--key", key_file(tmp_path))
    bob, carol = SigningKey(b"\x62" * 32), SigningKey(b"\x63" * 32)

    def offered(server: Process, number: int, key: SigningKey | None = None) -> int:
        """Offer a record; return how many were taken, and see that everything can be read."""
        near = store_of(notes(1, start=number))
        ended = within(client(near, key=key).sync(server.address))
        assert isinstance(ended, m.Closed), ended
        assert near.count() > 3
        return len(ended.result.sent)

    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *READ_ONLY, *key) as server:
        assert strangers(server) == ["anyone may read: //g//notes//", "anyone may write: nothing"]
        assert "against who alters traffic" in server.events("identity")[0]["detail"]
        assert offered(server, 100) == offered(server, 100, bob) == 0
        assert offered(server, 101, KEY) == 1  # it is the server's own
    named = ("--accept", bob.verifier)
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *READ_ONLY, *key, *named) as server:
        assert strangers(server)[1] == "anyone may write: nothing"
        assert offered(server, 102) == offered(server, 102, carol) == 0
        assert offered(server, 102, bob) == 1  # also what was not asked for before
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *SELECT, *key) as server:
        assert strangers(server)[1] == (
            "anyone may write: //g//notes//; 64 MiB and 100,000 records a day"
        )
        assert offered(server, 103) == 1
    rules = f"SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- AdvertisedField(P,S,'Signed-By',_,'{bob.verifier}')."
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", "--select", rules) as server:
        assert strangers(server)[1].startswith("anyone may write: what the rules of SelectHave")
    ran = lace(
        "serve", "n.lace", "tcp:127.0.0.1:0", "--select", rules, "--accept", "anyone", cwd=tmp_path
    )
    assert ran.returncode == 2
    assert b"no --accept" in ran.stderr


@pytest.mark.parametrize("reads_only", [False, True], ids=["quota", "reading"])
def test_who_sends_more_than_is_stored_is_told_and_it_waits(
    tmp_path: Path, reads_only: bool
) -> None:
    """Two refusals that the other side cannot see: a quota, and a server that only gives."""
    assert lace("init", "near", "--select", "//g//notes//", cwd=tmp_path).returncode == 0
    for number in range(3):
        place = f"//g//notes//n/{number}"
        done = lace("add", place, "--text", "x", "--unsigned", "--lace", "near", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    fill(tmp_path / "n.lace", 1, start=10)
    (tmp_path / "serve.toml").write_text(f"{ANYONE}[limits]\npeer_records_per_day = 1\n")
    rules = READ_ONLY if reads_only else ("--policy", "serve.toml")
    with process(tmp_path, "n.lace", "tcp:127.0.0.1:0", *rules) as server:
        done = lace("sync", str(server.address), "--lace", "near", cwd=tmp_path)
        code = b"serve.reading" if reads_only else b"serve.quota"
        assert done.returncode == (0 if reads_only else 3), done.stderr
        assert b"the peer stores nothing more of yours" in done.stderr
        assert b"[" + code + b"]" in done.stderr
        assert b'"not_stored":"' + code + b'"' in done.stdout
        settings = tmp_path / "near" / "lace.toml"
        peer = f'\n[peers.server]\naddress = "{server.address}"\n'
        settings.write_text(settings.read_text() + peer)
        assert lace("sync", cwd=tmp_path / "near").returncode == (0 if reads_only else 3)
        status = json.loads(lace("status", cwd=tmp_path / "near").stdout)
        assert status["peers"][0]["waiting"] > 0
