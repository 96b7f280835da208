"""A server's exchanges, looked at while they happen: only with the token, and never more than that."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from command import lace
from servers import process
from small_limits import hold_to

from lace.crypto.keys import demo_key
from lace.errors import UsageError
from lace.limits import FIXED
from lace.record import build_plex, seal
from lace.recordstore.sqlite import SqliteStore
from lace.serving import answering_port, watching
from lace.serving.watch_proof import proof
from lace.serving.watching import Watching, read_token
from lace.workbench import live as live_module
from lace.workbench.live import Live
from lace.workbench.session import Session
from lace.workbench.shapes import fault_of, shapes

TOKEN = "a-token-of-some-length"
NONCE = "a-nonce-of-some-length"
HERE = "127.0.0.1:9200"
REFUSED = ("403 Forbidden", "a proof of the token is needed: see /proof\n")
PLACE = "//notes-demo//notes//"
TIME = "1700000000:000000000"
KEY = demo_key("somebody")


def get(
    held: Watching, path: str, token: str = TOKEN, method: str = "GET", port: int = 9200
) -> bytes:
    """Return a request with the proof of a reader who has a token."""
    made = proof(token, "reader", NONCE, held.run, f"127.0.0.1:{port}")
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Lace {NONCE} {made}\r\n\r\n"
    ).encode()


def test_without_the_token_nothing_is_told() -> None:
    held = Watching(TOKEN)
    held.journal(1, "host", None).write("line\n")
    for request in (
        get(held, "/exchanges", "another-token-of-it"),
        get(held, "/exchanges/1", TOKEN[:-1]),
        get(held, "/exchanges", TOKEN + "x"),
        get(held, "/exchanges", port=9201),  # passed on by a program at another port
        get(Watching(TOKEN), "/exchanges"),  # of another run
        get(held, "/exchanges").replace(NONCE.encode(), NONCE[::-1].encode()),
        b"GET /exchanges HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /exchanges HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n" % TOKEN.encode(),
        b"GET /exchanges?token=%s HTTP/1.1\r\n\r\n" % TOKEN.encode(),
        get(held, "/exchanges").replace(  # what the server proves is no proof of a reader
            proof(TOKEN, "reader", NONCE, held.run, HERE).encode(),
            proof(TOKEN, "server", NONCE, held.run, HERE).encode(),
        ),
    ):
        assert held.answer(request, HERE) == REFUSED
    assert held.answer(get(held, "/exchanges/1"), HERE) == ("200 OK", "line\n")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/exchanges"), ("GET", "/"), ("GET", "/exchanges/x"), ("GET", "/exchanges/1/../2"),
     ("DELETE", "/exchanges/1"), ("GET", "/exchanges/" + "9" * 40)],
)  # fmt: skip
def test_it_can_be_asked_for_exchanges_and_nothing_else(method: str, path: str) -> None:
    held = Watching(TOKEN)
    held.journal(1, "host", None).write("line\n")
    assert held.answer(get(held, path, method=method), HERE)[0] == "404 Not Found"


def test_it_holds_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, watched_exchanges=2, watched_bytes=10)
    held = Watching(TOKEN)
    journals = {number: held.journal(number, "host", None) for number in (1, 2)}
    held.end(2)
    held.journal(3, "host", None)  # the one that has ended goes first
    assert held.answer(get(held, "/exchanges/2"), HERE)[0] == "404 Not Found"
    for _ in range(3):
        journals[1].write("12345\n")
    assert held.answer(get(held, "/exchanges/1"), HERE) == ("200 OK", "12345\n")
    assert '"cut": true' in held.answer(get(held, "/exchanges"), HERE)[1]
    held.journal(4, "host", None)
    assert held.answer(get(held, "/exchanges/1"), HERE)[0] == "404 Not Found"


def test_what_is_held_is_counted_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, watched_bytes=20)
    held = Watching(TOKEN)
    journal = held.journal(1, "host", None)
    for _ in range(3):
        journal.write("🖧🖧\n")  # nine bytes
    assert held.answer(get(held, "/exchanges/1"), HERE) == ("200 OK", "🖧🖧\n🖧🖧\n")


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    place = tmp_path / "token"
    with pytest.raises(UsageError, match="cannot read the token"):
        read_token(place)
    made = read_token(place, make=True)
    assert read_token(place, make=True) == read_token(place) == made
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    for text in ("x" * FIXED.least_token_characters, "x" * FIXED.token_characters):
        place.write_text(f"{text}\n")
        assert read_token(place) == text
    for text in ("", "x" * 15, "two words that are long", "x" * 201, "x" * 500):
        place.write_text(text)
        with pytest.raises(UsageError, match="holds no token"):
            read_token(place)


def test_a_served_exchange_is_shown_with_its_reasons(tmp_path: Path) -> None:
    notes, here = tmp_path / "notes.lace", tmp_path / "here.lace"
    for path, name in ((notes, "there"), (here, "here")):
        plex = build_plex(group="notes-demo", app="notes/message", name=name, tai=TIME, data=b"Hi")
        with SqliteStore(path) as store:
            store.save([seal(plex, KEY)])
    token = tmp_path / "token"
    arguments = (
        "--select",
        PLACE,
        "--accept",
        "anyone",
        "--watch",
        "0",
        "--watch-token",
        str(token),
    )
    with process(tmp_path, notes, "tcp:127.0.0.1:0", *arguments) as server:
        address = server.wait_for("watch")[0]["address"]
        live = Live(address, read_token(token))
        assert live.listed() == []
        done = lace("sync", server.addresses[0], "--lace", here, "--select", PLACE)
        assert done.returncode == 0, done.stderr
        (listed,) = live.listed()
        assert listed["title"].startswith("Exchange 1 with 127.0.0.1: ")
        session = Session(live=live)
        hello = session.handle({"do": "hello"})[0]
        assert hello["first"] == "exchange-1"
        (answer,) = session.handle({"do": "open", "name": "exchange-1"})
        recording = answer["recording"]
        assert fault_of(recording, ["shape", "Recording"], shapes()) is None
        assert {record["id"] for record in recording["records"].values()} == {"here", "there"}
        assert session.handle({"do": "open", "name": "exchange-9"})[0]["type"] == "problem"
        with pytest.raises(UsageError, match="does not prove that it knows the token"):
            Live(address, "another-token-of-it").listed()
    with pytest.raises(UsageError, match="does not answer"):
        live.listed()


# --- the stream of events ---


@asynccontextmanager
async def watched(held: Watching, port: int = 0) -> AsyncIterator[int]:
    """Answer for what is held; give the port."""
    server = await held.serve(port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def heard(reader: asyncio.StreamReader, until: str = "now") -> list[tuple[str, Any]]:
    """Return the events up to one of a name."""
    found: list[tuple[str, Any]] = []
    while not found or found[-1][0] != until or found[-1][1] is None:
        line = (await reader.readline()).decode()
        assert line.endswith("\n"), "the stream has ended"
        key, _, value = line.rstrip("\r\n").partition(": ")
        if key == "event":
            found.append((value, None))
        elif key == "data":
            found[-1] = (found[-1][0], json.loads(value))
    return found


async def ask(port: int, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    return reader, writer


async def whole(port: int, request: bytes) -> bytes:
    """Return all that is answered, however it ends."""
    reader, writer = await ask(port, request)
    got = b""
    with suppress(ConnectionError):
        while part := await reader.read(65_536):
            got += part
    writer.close()
    return got


async def is_let_go(reader: asyncio.StreamReader) -> bool:
    """Whether a connection ends soon, without a word."""
    try:
        return await asyncio.wait_for(reader.read(), 0.5) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_what_changes_is_told_as_it_happens() -> None:
    async def main() -> None:
        held = Watching(TOKEN)
        first = held.journal(1, "host", None)
        first.write("head\n")
        async with watched(held) as port:
            reader, writer = await ask(port, get(held, "/events", port=port))
            begun = await heard(reader)
            assert begun[0] == ("server", {"run": held.run})
            one = {"number": 1, "host": "host", "steps": 0, "ended": False, "cut": False}
            assert begun[1:] == [("exchange", one), ("now", {"held": 1})]
            for number in range(50):
                first.write(f"step {number}\n")
            held.end(1)
            told = [event for event in await heard(reader) if event[0] == "exchange"]
            assert told == [("exchange", one | {"steps": 50, "ended": True})]  # once, the latest
            held.journal(2, "other", None)
            assert (await heard(reader))[0][1]["number"] == 2
            writer.close()

    asyncio.run(main())


def test_what_is_held_no_more_of_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, watched_bytes=10)
    monkeypatch.setattr(watching, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(watching, "_QUIET_SECONDS", 0.05)

    async def main() -> None:
        held = Watching(TOKEN)
        journal = held.journal(1, "host", None)
        async with aclosing(held.events()) as events:
            journal.write("much too long\n")
            while '"cut": true' not in await anext(events):
                pass
            assert await anext(events) == 'event: now\ndata: {"held": 1}\n\n'
            journal.write("and more\n")
            assert await anext(events) == ": nothing new\n\n"

    asyncio.run(main())


def test_what_is_written_by_another_thread_is_told() -> None:
    async def main() -> None:
        held = Watching(TOKEN)
        journal = held.journal(1, "host", None)
        async with watched(held) as port:
            reader, writer = await ask(port, get(held, "/events", port=port))
            await heard(reader)
            await asyncio.to_thread(lambda: [journal.write("line\n") for _ in range(3)])
            assert (await heard(reader))[0][1]["steps"] == 2
            writer.close()

    asyncio.run(main())


def test_the_stream_needs_the_token_and_its_own_path() -> None:
    async def main() -> None:
        held = Watching(TOKEN)
        held.journal(1, "a-secret-host", None).write("line\n")
        async with watched(held) as port:
            for request in (
                get(held, "/events", "another-token-of-it", port=port),
                get(held, "/events", "", port=port),
                get(held, "/events", port=port + 1),
                b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                b"GET /events?token=%s HTTP/1.1\r\n\r\n" % TOKEN.encode(),
                get(held, "/events", port=port).replace(
                    b"\r\nAuthorization:", b"\r\nX: y Authorization:"
                ),
            ):
                answer = await whole(port, request)
                assert answer.startswith(b"HTTP/1.1 403 ")
                assert b"host" not in answer
            for path in ("/events/", "/events/../exchanges", "//events", "/EVENTS", "/events?x=1"):
                assert (await whole(port, get(held, path, port=port))).startswith(b"HTTP/1.1 404 ")
            for method in ("POST", "OPTIONS", "HEAD"):
                assert (
                    await whole(port, get(held, "/events", method=method, port=port))
                ).startswith(b"HTTP/1.1 404 ")
            long = get(held, "/events", port=port).replace(
                b"Host: 127.0.0.1", b"X: " + b"y" * 100_000
            )
            answer = await whole(port, long)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
            assert not held._watchers

    asyncio.run(main())


def test_those_who_say_nothing_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_to(monkeypatch, unheard_requests=4, watchers=3)

    async def main() -> None:
        held = Watching(TOKEN)
        async with watched(held) as port:
            silent = await asyncio.gather(*(ask(port, b"GET /eve") for _ in range(40)))
            assert (await whole(port, get(held, "/exchanges", port=port))).endswith(b"[]\n")
            ended = await asyncio.gather(*(is_let_go(reader) for reader, _ in silent))
            assert sum(ended) >= 36
            readers = [await ask(port, get(held, "/events", port=port)) for _ in range(20)]
            answers = [await reader.readline() for reader, _ in readers]
            assert sorted(line.split()[1] for line in answers) == [b"200"] * 3 + [b"503"] * 17
            assert len(held._watchers) == 3
            for _, writer in (*silent, *readers):
                writer.close()

    asyncio.run(main())


def test_a_reader_that_does_not_read_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_port, "_READ_SECONDS", 0.2)
    monkeypatch.setattr(watching, "_PAUSE_SECONDS", 0)

    async def main() -> None:
        held = Watching(TOKEN)
        journal = held.journal(1, "h" * 50_000, None)  # so that pipes are full soon
        async with watched(held) as port:
            _, writer = await ask(port, get(held, "/events", port=port))
            while not held._watchers:
                await asyncio.sleep(0.01)
            while held._watchers:
                journal.write("line\n")
                await asyncio.sleep(0)
            writer.close()

    asyncio.run(main())


def test_a_server_that_is_gone_is_looked_for_until_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_module, "_RETRY_SECONDS", (0.01,))

    async def main() -> None:
        held = Watching(TOKEN)
        held.journal(1, "host", None)
        async with watched(held) as port:
            live = Live(f"http://127.0.0.1:{port}", TOKEN)
            following = live.followed()
            first = await anext(following)
            assert [one["name"] for one in first["scenarios"]] == ["exchange-1"]
            assert first["run"] == held.run
            held.journal(2, "host", None)
            assert len((await anext(following))["scenarios"]) == 2
            streams = [task for task in asyncio.all_tasks() if "respond" in repr(task)]
            for task in streams:
                task.cancel()
        lost = await anext(following)
        assert "does not answer any more" in lost["problem"]["message"]
        again = Watching(TOKEN)
        async with watched(again, port):
            back = await anext(following)
            assert (back["problem"], back["scenarios"], back["run"]) == (None, [], again.run)
            for told in (first, lost, back):
                assert fault_of(told, ["shape", "LiveTold"], shapes()) is None
            async with aclosing(Live(live.address, "another-token-of-it").followed()) as refused:
                assert (
                    "does not prove that it knows the token"
                    in (await anext(refused))["problem"]["message"]
                )
            await following.aclose()

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\n",
        b"HTTP/1.1 200 OK\r\n\r\nevent: now\ndata: {\n\n",
        b"HTTP/1.1 200 OK\r\n\r\nevent: exchange\ndata: [1]\n\n",
        b'HTTP/1.1 200 OK\r\n\r\nevent: exchange\ndata: {"number": 1}\n\nevent: now\ndata: {}\n\n',
        b"HTTP/1.1 200 OK\r\n\r\ndata: " + b"[" * 60_000 + b"\n\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 200_000 + b"\n\n",
        b"HTTP/1.1 200 OK\r\n\r\nevent: \xff\n\n",
    ],
)
def test_a_server_that_answers_otherwise_is_no_server(answer: bytes) -> None:
    async def main() -> None:
        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with aclosing(Live(f"http://127.0.0.1:{port}", TOKEN).followed()) as following:
            told = await anext(following)
            assert told["problem"] is not None
            assert told["scenarios"] == []
        server.close()

    asyncio.run(main())


# --- a program that took the port of a server ---


class Impostor:
    """Takes a port, answers once what it is given, and notes all that comes."""

    def __init__(self, answer: bytes) -> None:
        self.got = b""
        self._answer = answer

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.got += await reader.read(65_536)
            writer.write(self._answer)
            writer.write_eof()
            with suppress(ConnectionError):
                self.got += await reader.read()
            writer.close()

        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()


def http(text: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode()


@pytest.mark.parametrize(
    "answer",
    [
        b"", http("[]"), http("{}"), http('{"run": "r", "proof": "x"}'), http('{"run": 1, "proof": 2}'),
        http(json.dumps({"run": "r", "proof": "0" * 64})), http("[" * 4000), b"HTTP/1.1 403 No\r\n\r\n",
        http(json.dumps({"run": "r", "proof": proof(TOKEN, "reader", NONCE, "r", HERE)})),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n{}",
    ],
)  # fmt: skip
def test_a_program_that_took_a_servers_port_gets_no_token_and_no_proof(answer: bytes) -> None:
    async def main() -> None:
        for ask_for in (Live.listed, Live.followed):
            other = Impostor(answer)
            async with other.listening() as address:
                live = Live(address, TOKEN)
                if ask_for is Live.listed:
                    with pytest.raises(UsageError):
                        await asyncio.to_thread(live.listed)
                else:
                    async with aclosing(live.followed()) as following:
                        assert (await anext(following))["problem"] is not None
            assert other.got.startswith(b"GET /proof/")
            assert TOKEN.encode() not in other.got
            assert b"uthorization" not in other.got

    asyncio.run(main())


def test_a_program_that_passes_proofs_on_gets_nothing() -> None:
    """A server that was started anew elsewhere proves itself for its own address alone."""

    async def main() -> None:
        held = Watching(TOKEN)
        held.journal(1, "a-secret-host", None)
        async with watched(held) as port:
            passed: list[bytes] = []

            async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there, back = await asyncio.open_connection("127.0.0.1", port)
                with suppress(ConnectionError):
                    while head := await reader.read(65_536):
                        back.write(head)
                        passed.append(await there.read(65_536))
                        writer.write(passed[-1])
                back.close()
                writer.close()

            server = await asyncio.start_server(respond, "127.0.0.1", 0)
            between = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(UsageError, match="does not prove"):
                await asyncio.to_thread(Live(between, TOKEN).listed)
            assert b"a-secret-host" not in b"".join(passed)
            assert len(await asyncio.to_thread(Live(f"http://127.0.0.1:{port}", TOKEN).listed)) == 1
            server.close()

    asyncio.run(main())
