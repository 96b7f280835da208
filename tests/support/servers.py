"""A server in this process, and a server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lace.crypto import SigningKey
from lace.recordstore.base import RecordStore
from lace.serving.grants import ServePolicy, parse_policy
from lace.serving.server import Server
from lace.transport.address import Address, parse_address


def policy(text: str, folder: Path = Path()) -> ServePolicy:
    import tomllib

    return parse_policy(tomllib.loads(text), folder)


@dataclass
class Served:
    server: Server
    address: Address
    log: list[dict[str, Any]] = field(default_factory=list)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log if entry["event"] == name]

    async def until(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        while len(self.events(name)) < count:
            await asyncio.sleep(0.01)
        return self.events(name)


@asynccontextmanager
async def served(
    store: RecordStore,
    rules: ServePolicy,
    *,
    key: SigningKey | None = None,
    at: str = "tcp:127.0.0.1:0",
) -> AsyncIterator[Served]:
    """Give a server that listens in this process."""
    log: list[dict[str, Any]] = []
    server = Server(store, rules, key=key, log=log.append)
    await server.start()
    try:
        address = await server.listen(parse_address(at))
        yield Served(server, parse_address(address), log)
    finally:
        await server.shut_down()


@dataclass
class Process:
    """``lace serve`` as its users run it."""

    process: subprocess.Popen[bytes]
    log_file: Path
    addresses: list[str] = field(default_factory=list)

    @property
    def address(self) -> Address:
        return parse_address(self.addresses[0])

    def log(self) -> list[dict[str, Any]]:
        lines = self.log_file.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [entry for entry in self.log() if entry["event"] == name]

    def wait_for(self, name: str, count: int = 1) -> list[dict[str, Any]]:
        for _ in range(3000):
            found = self.events(name)
            if len(found) >= count:
                return found
            assert self.process.poll() is None, self.log_file.read_text("utf-8")
            time.sleep(0.01)
        raise AssertionError(f"never said {name}: {self.log_file.read_text('utf-8')}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def memory_mib(self) -> float:
        """Return what the process has in memory now."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("no such process")


@contextmanager
def process(folder: Path, *arguments: str | Path, listeners: int = 1) -> Iterator[Process]:
    """Run ``lace serve`` with these arguments until the block ends."""
    log_file = folder / f"log-{len(list(folder.glob('log-*')))}"
    file: IO[bytes]
    with log_file.open("wb") as file:
        ran = subprocess.Popen(
            [sys.executable, "-m", "lace", "serve", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            cwd=folder,
            env=os.environ | {"PYTHONWARNINGS": "error"},
        )
    try:
        made = Process(ran, log_file)
        found = made.wait_for("listening", listeners)
        made.addresses = [entry["address"] for entry in found]
        yield made
    finally:
        if ran.poll() is None:
            ran.kill()
            ran.wait()
