"""Proofs that somebody in between passes on: over TLS they are for the certificate that was seen."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from meeting import client, within
from wires import notes, store_of

from lace.crypto import SigningKey
from lace.errors import Code
from lace.interlace import messages as m
from lace.recordstore import MemoryStore
from lace.serving.grants import parse_policy
from lace.serving.server import Server
from lace.transport.address import parse_address
from lace.transport.dial import connect
from lace.transport.tls import (
    Certificate,
    certificate_channel,
    client_context,
    development_certificate,
    server_context,
)
from lace.transport.websocket import WebSocketStream

ALICE = SigningKey(b"\x0a" * 32)
SERVER = SigningKey(b"\x0b" * 32)


async def relay(between: Certificate, to: int, trust: Path | None) -> asyncio.Server:
    """End TLS with one certificate, and pass every byte on to a server."""
    context = None if trust is None else client_context(trust)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ssl.SSLError):
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
                await writer.drain()
            writer.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", to, ssl=context)
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    return await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=server_context(between))


@pytest.mark.parametrize("named", [False, True], ids=["in between", "the server's own proxy"])
@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_who_ends_tls_in_between_cannot_use_a_proof(
    tmp_path: Path, scheme: str, named: bool
) -> None:
    """Only a proxy that the server was told of may end TLS before it."""
    own = development_certificate(tmp_path / "own") if scheme == "wss" else None
    between = development_certificate(tmp_path / "between")
    rules = parse_policy({"allow": [{"who": [ALICE.verifier], "sync": ["//g//notes//"]}]}, tmp_path)

    async def work() -> None:
        channel = certificate_channel(between.chain) if named else ""
        server = Server(store_of(notes(3)), rules, key=SERVER, proxy_channel=channel)
        await server.start()
        try:
            port = parse_address(
                await server.listen(parse_address(f"{scheme}:127.0.0.1:0"), own)
            ).port
            passing = await relay(between, port, None if own is None else own.chain)
            dialled = f"wss:127.0.0.1:{passing.sockets[0].getsockname()[1]}/interlace"
            server._names.add(dialled)
            near = MemoryStore()
            alice = client(near, key=ALICE, trust=between.chain)
            ended = await alice.sync(parse_address(dialled))
            passing.close()
        finally:
            await server.shut_down()
        if named and scheme == "ws":
            assert isinstance(ended, m.Closed), ended
            assert near.count() == 3
        else:
            assert isinstance(ended, m.Aborted)
            assert Code.ILTP_PROOF in (ended.code, ended.detail.removeprefix("the peer gave up: "))
            assert near.count() == 0

    within(work())


def test_a_page_meets_a_server_that_proves_a_key_over_wss(tmp_path: Path) -> None:
    """A browser shows it no certificate: all but that is proven and checked, in both directions."""
    own = development_certificate(tmp_path)
    rules = parse_policy({"allow": [{"who": [ALICE.verifier], "sync": ["//g//notes//"]}]}, tmp_path)

    async def work() -> None:
        server = Server(store_of(notes(3)), rules, key=SERVER)
        await server.start()
        try:
            address = parse_address(await server.listen(parse_address("wss:127.0.0.1:0"), own))
            for channel, ends in ((None, m.Closed), ("", m.Aborted)):
                near = client(MemoryStore(), key=ALICE, expected=SERVER.verifier)
                stream = await connect(address, trust=own.chain)
                assert isinstance(stream, WebSocketStream)
                stream.channel = channel
                ended = await near.over(stream, address).run()
                assert isinstance(ended, ends), ended
                if channel is None:
                    assert ended.result.peer == SERVER.verifier
                    assert near.store.count() == 3
        finally:
            await server.shut_down()

    within(work())
