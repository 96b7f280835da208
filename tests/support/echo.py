"""The other end of a transport under test: does what the first byte asks for."""

from __future__ import annotations

import asyncio

from lace.errors import TransportError
from lace.transport.base import ByteStream

SENT = bytes(range(256)) * 4096


async def behave(stream: ByteStream) -> None:
    try:
        first = await stream.read()
        match first[:1]:
            case b"e":  # echo, reading while it writes
                if first[1:]:
                    await stream.write(first[1:])
                while chunk := await stream.read():
                    await stream.write(chunk)
                await stream.finish()
            case b"s":  # send, then end in order
                await stream.write(SENT)
                await stream.finish()
            case b"a":  # end at once
                stream.abort()
            case b"n":  # neither read nor end, until the other side does
                await asyncio.sleep(60)
            case b"t":  # tell what this side knows of the connection
                await stream.write(f"{stream.address} {stream.encrypted}".encode())
                await stream.finish()
    except TransportError:
        stream.abort()
    except asyncio.CancelledError:
        stream.abort()  # nobody else has this end
        raise


async def main() -> None:
    from lace.transport.stdio import open_stdio

    await behave(await open_stdio())


if __name__ == "__main__":
    asyncio.run(main())
