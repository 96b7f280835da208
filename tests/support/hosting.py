"""An accepting side that runs beside a test, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from meeting import Host

from lace.transport.address import parse_address
from lace.transport.base import ByteStream, Handler
from lace.transport.dial import listen


@contextmanager
def hosting(host: Host | Handler, address: str = "tcp:127.0.0.1:0") -> Iterator[str]:
    """Take connections until the block ends; yields the address with its real port."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    found: list[str] = []
    stop = asyncio.Event()
    running: set[asyncio.Task[None]] = set()

    async def accept(stream: ByteStream) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            # Cancelled when the block ends; asyncio would report it as an error of its own.
            with suppress(asyncio.CancelledError):
                await (host.serve(stream) if isinstance(host, Host) else host(stream))
        finally:
            running.discard(task)
            stream.abort()

    async def serve() -> None:
        listener = await listen(parse_address(address), accept)
        if isinstance(host, Host):
            host.addresses = (listener.address,)
        found.append(listener.address)
        ready.set()
        await stop.wait()
        await listener.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0.05)  # lets closed transports be forgotten before the loop is

    def work() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(30)
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
