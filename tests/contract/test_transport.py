"""One contract for every byte stream, over real sockets and real processes."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import echo
import pytest

from lace.errors import Code, TransportError
from lace.transport.address import parse_address
from lace.transport.base import CHUNK, ByteStream, PromptStream
from lace.transport.dial import connect, listen
from lace.transport.memory import memory_streams
from lace.transport.stdio import spawn
from lace.transport.tls import Certificate, development_certificate

Open = Callable[[], AbstractAsyncContextManager[ByteStream]]
KINDS = ["memory", "stdio", "unix", "tcp", "tcp6", "ws", "wss"]
ADDRESSES = {
    "unix": "unix:{folder}/s",
    "tcp": "tcp:127.0.0.1:0",
    "tcp6": "tcp:[::1]:0",
    "ws": "ws:127.0.0.1:0",
    "wss": "wss:localhost:0",
}


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return development_certificate(tmp_path_factory.mktemp("certificate"))


@asynccontextmanager
async def opened(kind: str, folder: Path, certificate: Certificate) -> AsyncIterator[ByteStream]:
    """Give a stream whose other end behaves as ``echo`` says."""
    if kind == "memory":
        near, far = memory_streams()
        task = asyncio.create_task(echo.behave(far))
        yield near
        near.abort()
        task.cancel()
        return
    if kind == "stdio":
        stream: ByteStream = await spawn([sys.executable, echo.__file__])
        yield stream
        stream.abort()
        await stream._process.wait()  # type: ignore[attr-defined]
        return
    tls = certificate if kind == "wss" else None
    address = parse_address(ADDRESSES[kind].format(folder=folder))
    listener = await listen(address, echo.behave, certificate=tls)
    stream = await connect(parse_address(listener.address), trust=certificate.chain)
    yield stream
    stream.abort()
    await listener.close()


@pytest.fixture(params=KINDS)
def open_stream(request: pytest.FixtureRequest, tmp_path: Path, certificate: Certificate) -> Open:
    return partial(opened, request.param, tmp_path, certificate)


def within(work: Awaitable[Any]) -> Any:
    """Run to the end; what hangs is a failure, not a hang."""

    async def bounded() -> Any:
        async with asyncio.timeout(60):
            result = await work
        # Lets closed transports be forgotten before the loop is.
        await asyncio.sleep(0.05)
        return result

    return asyncio.run(bounded())


async def read_all(stream: ByteStream) -> bytes:
    chunks = []
    while chunk := await stream.read():
        chunks.append(chunk)
    return b"".join(chunks)


async def flood(stream: ByteStream, size: int) -> None:
    for _ in range(1000):
        await stream.write(b"x" * size)


@pytest.mark.req("060-TRN-01")
def test_bytes_come_as_they_went_however_they_are_cut(open_stream: Open) -> None:
    chance = random.Random(1)
    parts = [chance.randbytes(chance.choice([1, 2, 100, 70_000])) for _ in range(60)]

    async def work() -> bytes:
        async with open_stream() as stream:
            await stream.write(b"e")
            found = bytearray()
            for part in parts:
                await stream.write(part)
                found += await stream.read()
            while len(found) < sum(map(len, parts)):
                found += await stream.read()
            await stream.finish()
            return bytes(found)

    assert within(work()) == b"".join(parts)


@pytest.mark.req("060-TRN-05")
def test_both_sides_send_much_more_than_the_buffers_hold(open_stream: Open) -> None:
    block = random.Random(2).randbytes(1 << 20)
    count = 64

    async def work() -> int:
        async with open_stream() as stream:

            async def write() -> None:
                await stream.write(b"e")
                for _ in range(count):
                    await stream.write(block)

            writing = asyncio.create_task(write())
            read = 0
            while read < count * len(block):
                read += len(await stream.read())
            await writing
            return read

    assert within(work()) == count * len(block)


def test_an_orderly_end_comes_after_the_last_byte(open_stream: Open) -> None:
    async def work() -> bytes:
        async with open_stream() as stream:
            await stream.write(b"s")
            found = await read_all(stream)
            assert await stream.read() == b""
            await stream.finish()
            await stream.finish()
            return found

    assert within(work()) == echo.SENT


def test_a_stream_that_breaks_says_so_or_ends(open_stream: Open) -> None:
    async def work() -> None:
        async with open_stream() as stream:
            await stream.write(b"a")
            with suppress(TransportError):
                assert await read_all(stream) == b""
            with pytest.raises(TransportError) as caught:
                await flood(stream, 100_000)
            assert caught.value.code is Code.TRANSPORT_LOST
            await stream.finish()
            stream.abort()

    within(work())


def test_writing_waits_for_a_peer_that_does_not_read(open_stream: Open) -> None:
    async def work() -> None:
        async with open_stream() as stream:
            await stream.write(b"n")
            flooding = asyncio.create_task(flood(stream, 1_000_000))
            done, _ = await asyncio.wait([flooding], timeout=0.5)
            assert not done
            flooding.cancel()
            stream.abort()

    within(work())


# --- streams that offer few bytes as they come, and send them at once ---

PROMPT = ["stdio", "unix", "tcp", "tcp6"]


@pytest.fixture(params=PROMPT)
def open_prompt(request: pytest.FixtureRequest, tmp_path: Path, certificate: Certificate) -> Open:
    return partial(opened, request.param, tmp_path, certificate)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_taken_as_it_comes_and_what_is_read_are_all_of_it_in_order(
    open_prompt: Open, seed: int
) -> None:
    chance = random.Random(seed)
    parts = [chance.randbytes(chance.choice([1, 2, 100, 70_000])) for _ in range(60)]
    found, read, taken = bytearray(), 0, 0

    def take(chunk: bytes) -> bool:
        nonlocal taken
        if chance.randrange(2):
            return False
        found.extend(chunk)
        taken += 1
        return True

    async def work() -> None:
        nonlocal read
        async with open_prompt() as stream:
            assert isinstance(stream, PromptStream)

            async def reading() -> None:
                nonlocal read
                while chunk := await stream.read():
                    found.extend(chunk)
                    read += 1
                    await asyncio.sleep(chance.choice([0, 0, 0.002]))

            stream.hand_to(take)
            task = asyncio.create_task(reading())
            await stream.write(b"e")
            for part in parts:
                if not (chance.randrange(2) and stream.write_now(part)):
                    await stream.write(part)
                await asyncio.sleep(chance.choice([0, 0, 0.002]))
            while len(found) < sum(map(len, parts)):
                await asyncio.sleep(0.001)
            stream.hand_to(None)
            task.cancel()
            await stream.finish()

    within(work())
    assert bytes(found) == b"".join(parts)
    assert read


def test_only_what_need_not_wait_is_sent_at_once(open_prompt: Open) -> None:
    async def work() -> None:
        async with open_prompt() as stream:
            assert isinstance(stream, PromptStream)
            await stream.write(b"n")
            sent, stuck = 0, 0
            while stuck < 5:  # the other end fills its buffers, too
                while stream.write_now(b"x" * 10_000):
                    sent, stuck = sent + 10_000, 0
                    assert sent < 64 * CHUNK, "nobody takes all that"
                stuck += 1
                await asyncio.sleep(0.02)
            flooding = asyncio.create_task(flood(stream, 1_000_000))
            done, _ = await asyncio.wait([flooding], timeout=0.2)
            assert not done, "what cannot be sent at once has to wait"
            flooding.cancel()
            stream.abort()
            assert not stream.write_now(b"x")

    within(work())


@pytest.mark.req("060-TRN-08")
@pytest.mark.parametrize("kind", KINDS)
def test_only_wss_is_encrypted_and_the_address_is_canonical(
    kind: str, tmp_path: Path, certificate: Certificate
) -> None:
    async def work() -> None:
        async with opened(kind, tmp_path, certificate) as stream:
            await stream.write(b"t")
            there = (await read_all(stream)).decode()
            assert stream.encrypted == (kind == "wss")
            assert there == f"{stream.address} {kind == 'wss'}"
            if kind != "memory":
                assert str(parse_address(stream.address)) == stream.address
            assert stream.peer

    within(work())


# --- what only some kinds can do ---


def test_connecting_where_nobody_listens(tmp_path: Path, certificate: Certificate) -> None:
    async def work() -> None:
        for kind in ("unix", "tcp", "ws", "wss"):
            tls = certificate if kind == "wss" else None
            address = parse_address(ADDRESSES[kind].format(folder=tmp_path))
            listener = await listen(address, echo.behave, certificate=tls)
            await listener.close()
            await asyncio.sleep(0)
            with pytest.raises(TransportError) as caught:
                await connect(parse_address(listener.address), trust=certificate.chain)
            assert caught.value.code is Code.TRANSPORT_CONNECT

    within(work())


def test_a_certificate_that_is_not_trusted_is_refused(certificate: Certificate) -> None:
    async def work() -> None:
        address = parse_address("wss:localhost:0")
        listener = await listen(address, echo.behave, certificate=certificate)
        with pytest.raises(TransportError) as caught:
            await connect(parse_address(listener.address))
        assert caught.value.code is Code.TRANSPORT_TLS
        # The name is checked too: the certificate is for localhost and the loopback addresses.
        other = listener.address.replace("localhost", "ip6-localhost")
        with suppress(OSError), pytest.raises(TransportError):
            await connect(parse_address(other), trust=certificate.chain)
        await listener.close()

    within(work())


@pytest.mark.req("060-TRN-07")
def test_a_text_message_is_an_error_and_boundaries_mean_nothing() -> None:
    from websockets.asyncio.client import connect as connect_raw
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    async def work() -> None:
        found: list[TransportError] = []
        both = asyncio.Event()

        async def handler(stream: ByteStream) -> None:
            try:
                while chunk := await stream.read():
                    await stream.write(chunk)
            except TransportError as error:
                found.append(error)
                if len(found) == 2:
                    both.set()

        listener = await listen(parse_address("ws:127.0.0.1:0"), handler)
        url = parse_address(listener.address).url
        async with connect_raw(url) as socket:
            await socket.send([b"a", b"b", b"", b"c"])  # one message in four frames
            await socket.send(b"")
            await socket.send(b"d")
            assert await socket.recv() == b"abc"
            assert await socket.recv() == b"d"
            await socket.send("text")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        too_large = await connect_raw(url)
        with suppress(ConnectionClosed):
            await too_large.send(b"x" * (5 * 1024 * 1024))
        with pytest.raises(ConnectionClosed):
            await too_large.recv()
        with pytest.raises(InvalidStatus):
            await connect_raw(url.replace("interlace", "other"))
        await listener.close()
        await both.wait()
        assert [error.code for error in found] == [Code.TRANSPORT_MESSAGE, Code.TRANSPORT_LOST]

    within(work())


def test_web_pages_are_let_in_only_by_name() -> None:
    from websockets.asyncio.client import connect as connect_raw
    from websockets.exceptions import InvalidStatus
    from websockets.typing import Origin

    async def work() -> None:
        here = parse_address("ws:127.0.0.1:0")
        listener = await listen(here, echo.behave, origins=["https://notes.example"])
        url = parse_address(listener.address).url
        async with connect_raw(url, origin=Origin("https://notes.example")) as socket:
            await socket.send(b"ex")
            assert await socket.recv() == b"x"
        with pytest.raises(InvalidStatus) as caught:
            await connect_raw(url, origin=Origin("https://evil.example"))
        assert caught.value.response.status_code == 403
        await listener.close()

    within(work())


def test_a_unix_socket_is_the_owners_and_a_stale_one_is_replaced(tmp_path: Path) -> None:
    async def work() -> None:
        address = parse_address(f"unix:{tmp_path}/s")
        import socket

        stale = socket.socket(socket.AF_UNIX)
        stale.bind(str(tmp_path / "s"))
        stale.close()  # its file stays behind
        listener = await listen(address, echo.behave)
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        with pytest.raises(TransportError) as caught:
            await listen(address, echo.behave)
        assert caught.value.code is Code.TRANSPORT_LISTEN
        await listener.close()
        assert not (tmp_path / "s").exists()
        (tmp_path / "s").write_text("mine")
        with pytest.raises(TransportError):
            await listen(address, echo.behave)
        assert (tmp_path / "s").read_text() == "mine"

    within(work())


def test_a_development_certificate_is_made_once_and_its_key_is_private(tmp_path: Path) -> None:
    made = development_certificate(tmp_path / "c")
    assert made.key.stat().st_mode & 0o777 == 0o600
    before = made.chain.read_bytes()
    assert development_certificate(tmp_path / "c") == made
    assert made.chain.read_bytes() == before
