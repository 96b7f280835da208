"""What strangers cost a server, and what they cost others.

A real server, and peers in processes of their own: what an honest peer waits for under each attack,
over what it waits for without; the CPU time of one record with idle peers; first exchanges of many
clients at once; memory with idle connections. Small by default; ``--full`` takes the real sizes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from servers import Process, process
from wires import notes

import attack
import lace
from lace.driving.client import Client
from lace.interlace import messages as m
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.transport.address import Address, parse_address

_PLACE: Final = "//g//notes//"
_HELD: Final = 50  # records of a server whose peers are idle
_POLICY: Final = """[[allow]]
who = "anyone"
sync = ["//g//notes//"]
[limits]
connections = 5000
connections_per_host = 5000
"""
_AT_ONCE: Final = 20  # connections that idle peers make before they wait a little
_REST_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    attacks: tuple[str, ...]
    attack_seconds: float
    attackers: int
    idle: tuple[int, ...]
    clients: int
    records: int


SMALL: Final = Sizes(
    attacks=("nothing", "rules: all pairs", "rules: dear to compile", "comments"),
    attack_seconds=4, attackers=4, idle=(20, 100), clients=10, records=1000,
)  # fmt: skip
FULL: Final = Sizes(
    attacks=tuple(attack.ATTACKS),
    attack_seconds=60, attackers=10, idle=(200, 1000), clients=50, records=10_000,
)  # fmt: skip


def _client(store: MemoryStore) -> Client:
    return Client(store=store, module=selector(_PLACE), exposure=Exposure(default="selected"))


@contextmanager
def _server(folder: Path, records: int) -> Iterator[Process]:
    folder.mkdir()
    with SqliteStore(folder / "notes.lace") as store:
        store.save(notes(records))
    (folder / "serve.toml").write_text(_POLICY)
    arguments = ("notes.lace", "tcp:127.0.0.1:0", "--policy", "serve.toml")
    with process(folder, *arguments, "--log-level", "info") as made:
        yield made


@contextmanager
def _others(role: str, address: Address, number: int) -> Iterator[subprocess.Popen[str]]:
    """Run peers in a process of its own, so that the server's time is the server's alone."""
    command = [sys.executable, __file__, "--be", role, str(address), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ran:  # noqa: S603 (ours)
        try:
            yield ran
        finally:
            ran.kill()


def _told(ran: subprocess.Popen[str]) -> str:
    assert ran.stdout is not None
    line = ran.stdout.readline()
    if not line:
        raise RuntimeError("peers of the bench ended too early")
    return line.strip()


def _cpu_seconds(server: Process) -> float:
    """Return the CPU time of a server, without the processes that it has started."""
    after_name = Path(f"/proc/{server.process.pid}/stat").read_text("utf-8").rpartition(")")[2]
    user, system = after_name.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# --- what is measured ---


def under_attack(sizes: Sizes, folder: Path) -> Iterator[str]:
    """Compare what an honest peer waits for with what it waits for when nobody attacks."""
    floor = 0.0
    for name in sizes.attacks:
        found = attack.run(name, sizes.attackers, sizes.attack_seconds, folder)
        median = statistics.median(found.waited)
        floor = floor or median
        failed = f", FAILED: {attack.most_common(found.failed)}" if found.failed else ""
        yield (
            f"no-op under {name!r}: {median * 1000:.0f} ms, ratio {median / floor:.1f}"
            f" (target <= 5), longest {max(found.waited) * 1000:.0f} ms{failed}"
        )


def idle_peers(number: int, folder: Path) -> Iterator[str]:
    """Measure what idle peers hold, and what one record costs that none or all of them get."""
    with _server(folder, _HELD) as server:
        before = server.memory_mib()
        with _others("idle", server.address, number) as peers:
            _told(peers)
            time.sleep(_REST_SECONDS)
            held = server.memory_mib() - before
            each = held / number * 1024
            yield f"{number:,} idle connections: {held:.0f} MiB, {each:.0f} KiB each"
            for what, group in (("nobody gets", "other"), ("all get", "g")):
                spent = _cpu_seconds(server)
                _store_one(folder, group)
                if group == "g":
                    _told(peers)
                time.sleep(_REST_SECONDS)
                spent = _cpu_seconds(server) - spent
                yield (
                    f"one record that {what}, {number:,} idle peers: {spent:.2f} CPU s,"
                    f" {spent / number * 1000:.2f} ms each"
                )


def _store_one(folder: Path, group: str) -> None:
    """Let another process store a record; the server finds it within a second."""
    code = (
        "import sys\nfrom lace.record import build_plex\n"
        "from lace.recordstore.sqlite import SqliteStore\n"
        "made = build_plex(group=sys.argv[2], app='notes', name='new',\n"
        "                  tai='1700000000:000000000', data=b'x')\n"
        "with SqliteStore(sys.argv[1]) as store:\n    store.save([made])\n"
    )
    command = [sys.executable, "-c", code, str(folder / "notes.lace"), group]
    subprocess.run(command, check=True)  # noqa: S603 (our own code)


def first_syncs(sizes: Sizes, folder: Path) -> Iterator[str]:
    """Let many clients get everything at once; each has to end with all records."""
    with _server(folder, sizes.records) as server:
        began = time.monotonic()
        with _others("first", server.address, sizes.clients) as peers:
            complete = _told(peers).split()
        wall = time.monotonic() - began
        ends = Counter(complete)
        whole = ends.pop(str(sizes.records), 0)
        others = "".join(f", {end} {count}" for end, count in ends.items())
        yield (
            f"first exchanges of {sizes.records:,} records: {whole} of {sizes.clients} complete"
            f" (target: all), {_cpu_seconds(server):.1f} CPU s of the server, {wall:.0f} s{others}"
        )


# --- peers ---


async def be_idle(address: Address, number: int) -> None:
    """Stay connected; say whenever all of them have come to rest once more."""
    rests = 0

    def hear(event: m.Event) -> None:
        nonlocal rests
        if isinstance(event, m.FixedPoint):
            rests += 1
            if rests % number == 0:
                print("all at rest", flush=True)

    tasks = []
    for count in range(number):
        exchange = await _client(MemoryStore()).dial(address, stays=True, listen=hear)
        tasks.append(asyncio.create_task(exchange.run()))
        if count % _AT_ONCE == 0:
            await asyncio.sleep(_REST_SECONDS / 20)
    await asyncio.gather(*tasks)


def be_first(address: Address, number: int) -> None:
    """Get everything, each in a process of its own; say how many records each has."""
    command = [sys.executable, __file__, "--be", "one", str(address), "1"]
    ran = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 (this script)
        for _ in range(number)
    ]
    print(*(one.communicate()[0].strip() or "none" for one in ran), flush=True)


async def be_one(address: Address) -> None:
    """Do what ``lace sync`` does, into a new file; say how many records are there, or why not."""
    with tempfile.TemporaryDirectory() as folder:
        async with lace.open(Path(folder) / "notes.lace") as near:
            try:
                await lace.sync(near, str(address), _PLACE)
                print(await lace.count(near, _PLACE), flush=True)
            except lace.LaceError as error:
                print(error.code, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="real sizes: half an hour, quiet machine"
    )
    parser.add_argument("--only", choices=("attacks", "idle", "first"), action="append")
    parser.add_argument("--be", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.be is not None:
        role, address, number = asked.be[0], parse_address(asked.be[1]), int(asked.be[2])
        match role:
            case "idle":
                asyncio.run(be_idle(address, number))
            case "first":
                be_first(address, number)
            case _:
                asyncio.run(be_one(address))
        return 0
    sizes = FULL if asked.full else SMALL
    chosen = asked.only or ("attacks", "idle", "first")
    with tempfile.TemporaryDirectory(prefix="lace-strangers-") as name:
        folder = Path(name)
        if "attacks" in chosen:
            for line in under_attack(sizes, folder):
                print(line, flush=True)
        for number in sizes.idle if "idle" in chosen else ():
            for line in idle_peers(number, folder / f"idle-{number}"):
                print(line, flush=True)
        if "first" in chosen:
            for line in first_syncs(sizes, folder / "first"):
                print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
