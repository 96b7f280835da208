"""One way to connect and one way to listen, whatever the address."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lace.errors import Code, UsageError
from lace.transport.address import Address, Scheme
from lace.transport.base import ByteStream, Gate, Handler, Listener
from lace.transport.tls import Certificate

_SECONDS = 10.0


async def connect(
    address: Address, *, trust: Path | None = None, seconds: float = _SECONDS
) -> ByteStream:
    """Return a stream to an address, or raise ``TransportError``.

    ``trust`` is a file with one more certificate that wss believes, such as one for development.
    """
    # Each kind is imported when it is used: none of them is needed to start.
    match address.scheme:
        case Scheme.STDIO:
            from lace.transport.stdio import open_stdio

            return await open_stdio()
        case Scheme.UNIX:
            from lace.transport.unix import connect_unix

            return await connect_unix(address, seconds)
        case Scheme.TCP:
            from lace.transport.tcp import connect_tcp

            return await connect_tcp(address, seconds)
        case Scheme.WS | Scheme.WSS:
            from lace.transport.tls import client_context
            from lace.transport.websocket import connect_websocket

            context = client_context(trust) if address.scheme is Scheme.WSS else None
            return await connect_websocket(address, seconds, context)


async def listen(
    address: Address,
    handler: Handler,
    *,
    certificate: Certificate | None = None,
    origins: Sequence[str] = (),
    gate: Gate | None = None,
) -> Listener:
    """Hand every connection at an address to ``handler``, until the listener is closed.

    ``origins`` are the web pages that may connect by ws and wss, such as ``https://example.org``;
    ``gate`` counts their connections before ``handler`` hears of them.
    """
    match address.scheme:
        case Scheme.STDIO:
            raise UsageError(
                "stdio is one connection, not a place to listen", code=Code.TRANSPORT_LISTEN
            )
        case Scheme.UNIX:
            from lace.transport.unix import listen_unix

            return await listen_unix(address, handler)
        case Scheme.TCP:
            from lace.transport.tcp import listen_tcp

            return await listen_tcp(address, handler)
        case Scheme.WS | Scheme.WSS:
            from lace.transport.tls import certificate_channel, server_context
            from lace.transport.websocket import listen_websocket

            if (address.scheme is Scheme.WSS) != (certificate is not None):
                raise UsageError(
                    f"{address}: wss needs a certificate, and only wss",
                    code=Code.TRANSPORT_TLS,
                )
            context, channel = None, ""
            if certificate is not None:
                context = server_context(certificate)
                channel = certificate_channel(certificate.chain)
            return await listen_websocket(address, handler, context, origins, gate, channel)
