"""Streams over standard input and output: of this process, or of one that it starts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from lace.errors import Code, TransportError
from lace.transport.base import CHUNK, LINGER_SECONDS
from lace.transport.sockets import PromptReader, SystemStream

ADDRESS = "stdio"


async def open_stdio() -> SystemStream:
    """Return the stream over this process's own standard input and output.

    Nothing else may write to standard output from then on: ``print`` goes to standard error.
    """
    loop = asyncio.get_running_loop()
    reader = PromptReader()
    # Copies, so that closing the stream leaves the interpreter's own files alone.
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    target = os.fdopen(os.dup(1), "wb", buffering=0)
    sys.stdout = sys.stderr
    try:
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), target
        )
    except (ValueError, OSError) as error:
        raise TransportError(
            f"standard input and output are no pipes: {error}", code=Code.TRANSPORT_CONNECT
        ) from None
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    return SystemStream(reader, writer, ADDRESS, ADDRESS)


class ProcessStream(SystemStream):
    """A stream over the pipes of a process that was started for it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdout, process.stdin, ADDRESS, f"process {process.pid}")
        self._process = process

    async def finish(self) -> None:
        await super().finish()
        if self._process.returncode is not None:
            return
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self.abort()
            await self._process.wait()

    def abort(self) -> None:
        super().abort()
        with suppress(ProcessLookupError):
            self._process.kill()


async def spawn(command: Sequence[str]) -> ProcessStream:
    """Start a process that speaks ILTP on its standard input and output."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=CHUNK,
        )
    except OSError as error:
        raise TransportError(
            f"cannot start {command[0]}: {error.strerror}", code=Code.TRANSPORT_CONNECT
        ) from None
    return ProcessStream(process)
