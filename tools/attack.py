"""Attack a real server in every known way, while an honest peer asks it for nothing new.

Each attack has a server of its own and some connections. The table says what the honest peer waits
for, what the server takes in memory with its worker processes, and what ends the attackers.

``--lake N`` attacks ``lace lake serve`` instead, over a lake of N records. One of more than 100,000
is not held in memory: then it is Spark that is asked for what strangers want.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Final, Self

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from servers import Process, process
from wires import notes

from lace import b64a
from lace.clock import tai_now
from lace.driving.client import Client, new_nonce
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.recordstore.sqlite import SqliteStore
from lace.selectors import selector
from lace.stream import items as i
from lace.text import fact_line
from lace.transport.address import Address, parse_address

_RECORDS: Final = 1000
_MOST: Final = 10
_MOST_OF_A_LAKE: Final = 7
_PATIENCE: Final = 30.0  # seconds that the honest peer waits at most
_FIRST: Final = 300.0  # and the first time, before any attack: a lake has to make its table
_REST: Final = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"

Attack = Callable[[Address, Event], None]
"""Attacks over one connection until it ends or the time is over."""


# --- what a stranger says ---


@dataclass
class Stranger:
    """One connection of somebody who follows the protocol by hand, and evaluates nothing."""

    address: Address
    _socket: socket.socket = field(init=False)
    _reader: i.ItemReader = field(default_factory=lambda: i.ItemReader(unpacks=True))
    _items: list[i.Item] = field(default_factory=list)

    def __enter__(self) -> Self:
        host, port = self.address.host, self.address.port
        self._socket = socket.create_connection((host, port), timeout=5)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def until(self, kind: type[i.Item]) -> i.Item:
        """Return the next item of a kind; raises when the server has ended the connection."""
        while True:
            while self._items:
                item = self._items.pop(0)
                if isinstance(item, kind):
                    return item
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise ConnectionError("ended")
            self._items += self._reader.feed(chunk)

    def greet(self) -> None:
        self.send(i.preface(new_nonce()))

    def set_up(self, module: PolicyModule) -> str:
        """Bring a module and say hello; return the label of what this side advertises."""
        self.until(i.Preface)
        self.greet()
        theirs = self.until(i.Resource)
        assert isinstance(theirs, i.Resource)
        mine = Party(index=1, module=module)
        operands = label_operands(Party(index=0, module=module_from_text(theirs.content)), mine)
        operand = ("1", module.id, operands[1].origin, module.facet)
        lines = fact_line("ExchangeOperand", operand)
        self.send(i.resource(module.id, module.text.encode()) + f"{lines}\n\n".encode())
        self.until(i.PhaseEnd)
        hello = [
            ("HelloExchangePlan", ExchangePlan(operands).id),
            ("HelloTAI", tai_now()),
            ("HelloTickInterval", "10000000000"),
            ("HelloRecordFormat", "H3"),
            ("HelloAllAdvertisedFields",),
        ]
        said = "".join(f"{fact_line(fact[0], fact[1:])}\n" for fact in hello)
        self.send(f"{said}\n".encode())
        self.until(i.PhaseEnd)
        return operands[1].source_label

    def stay(self, over: Event) -> None:
        """End each phase after the server did, until it ends the connection."""
        self._socket.settimeout(1)
        while not over.is_set():
            with suppress(TimeoutError):
                self.until(i.PhaseEnd)
                self.send(i.PHASE_END)


def rules(text: str, adverts: int = 0, *, leaves: bool = False) -> Attack:
    """Bring a module, advertise so much, and wait for what it costs; or leave at once."""
    module = module_from_text(text + _REST)
    hashes = sorted(
        f"P.{b64a.encode(hashlib.sha256(str(n).encode()).digest())}.H3" for n in range(adverts)
    )

    def attack(address: Address, over: Event) -> None:
        with Stranger(address) as peer:
            label = peer.set_up(module)
            lines = (f"{fact_line('Advertised', (record, label))}\n" for record in hashes)
            peer.send("".join(lines).encode() + i.PHASE_END)
            if not leaves:
                peer.stay(over)

    return attack


def flood(unit: bytes) -> Attack:
    """Send the same bytes for as long as somebody takes them."""

    def attack(address: Address, over: Event) -> None:
        with Stranger(address) as peer:
            peer.greet()
            while not over.is_set():
                peer.send(unit)

    return attack


def once(content: bytes) -> Attack:
    """Send one resource that takes long to read, and leave."""

    def attack(address: Address, over: Event) -> None:
        with Stranger(address) as peer:
            peer.greet()
            peer.send(i.resource(i.resource_id("R", content), content))
            with suppress(ConnectionError):
                peer.stay(over)

    return attack


def silent(address: Address, over: Event) -> None:
    """Hold a connection and say nothing."""
    with Stranger(address) as peer:
        peer.greet()
        over.wait(5)


def _shapes(count: int, joins: int) -> str:
    """Return rules that are dear to compile: each joins in another way."""
    lines = ["D(P,X) :- Field(P,'x',_,X).\n"]
    for number in range(count):
        pairs = ((k, (k * 7 + number) % k) for k in range(1, joins + 1))
        body = ", ".join(f"D(V{k},V{other})" for k, other in pairs)
        lines.append(f"A{number}(V0) :- {body}.\n")
    return "".join(lines)


_MARKS: Final = ("A('a" + "\u0301\u0323" * 15_000 + "') :- Have(P).\n").encode()
_DEAR: Final = module_from_text(_shapes(40, 60) + _REST).text.encode()

ATTACKS: Final[dict[str, Attack | None]] = {
    "nothing": None,
    "rules: all pairs": rules("Big(P,Q) :- Have(P), Have(Q).\n"),
    "rules: all triples": rules("Big(P) :- Have(P), Have(Q), Have(R), P != Q, Q != R, P != R.\n"),
    "rules: pairs of adverts": rules("B(P,Q) :- Advertised(P,S), Advertised(Q,S).\n", 5000),
    "rules: and gone": rules("Big(P,Q) :- Have(P), Have(Q).\n", leaves=True),
    "rules: dear to compile": rules(_shapes(8, 20)),
    "rules: too dear": once(_DEAR),
    "marks out of order": once(_MARKS),
    "comments": flood(b"#\n" * 65_536),
    "long comments": flood((b"#" + b"x" * 16_000 + b"\n") * 8),
    "ends of phases": flood(b"\n" * 131_072),
    "tiny facts": flood(b"A()\n" * 32_768),
    "silence": silent,
}


# --- what it does to others ---


@dataclass
class Outcome:
    """What one attack did."""

    name: str
    connections: int
    waited: list[float] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)
    peak_mib: float = 0
    attempts: int = 0
    ends: Counter[str] = field(default_factory=Counter)

    def row(self, floor: float) -> list[str]:
        median = statistics.median(self.waited) if self.waited else float("nan")
        worst = max(self.waited, default=float("nan"))
        return [
            self.name,
            str(self.connections),
            str(self.attempts),
            f"{median:.2f}",
            f"{worst:.2f}",
            f"{median / floor:.1f}" if floor else "",
            most_common(self.failed),
            f"{self.peak_mib:.0f}",
            most_common(self.ends),
        ]


def most_common(found: Counter[str]) -> str:
    """Return the three codes that came most often, each with how often."""
    return ", ".join(f"{code} {count}" for code, count in found.most_common(3)) or "-"


_COLUMNS: Final = (
    "attack", "connections", "attempts", "median s", "longest s", "ratio", "failed", "peak MiB",
    "ended by",
)  # fmt: skip


@contextmanager
def attackers(attack: Attack | None, outcome: Outcome, address: Address) -> Iterator[None]:
    """Attack from a process of its own, so that only the server's time is looked at."""
    if attack is None:
        yield
        return
    command = [sys.executable, __file__, "--stranger", outcome.name, str(address)]
    command += ["--connections", str(outcome.connections)]
    ran = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        told, _ = ran.communicate("")  # its input ends, and so does it
        outcome.attempts = int(told or 0)


def be_strangers(name: str, address: Address, connections: int) -> int:
    """Attack over and over, until nobody listens any more; return how often."""
    attack, over, attempts = ATTACKS[name], Event(), Counter[str]()
    assert attack is not None

    def again() -> None:
        while not over.is_set():
            attempts["all"] += 1
            with suppress(OSError, AssertionError):
                attack(address, over)

    threads = [Thread(target=again, daemon=True) for _ in range(connections)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join(2)
    return attempts["all"]


def memory_mib(server: Process) -> float:
    """Return what a server has in memory, with the processes that it started."""
    total = server.memory_mib()
    children: list[str] = []
    for thread in Path(f"/proc/{server.process.pid}/task").iterdir():
        with suppress(OSError):  # it may end before it is looked at; so may a process
            children += (thread / "children").read_text("utf-8").split()
    for child in children:
        with suppress(OSError):
            lines = Path(f"/proc/{child}/status").read_text("utf-8").splitlines()
            total += sum(int(x.split()[1]) / 1024 for x in lines if x.startswith("VmRSS:"))
    return total


async def ask(store: MemoryStore, address: Address, patience: float = _PATIENCE) -> str:
    """Meet the server as an honest peer; return why not, if it fails."""
    near = Client(
        store=store,
        module=selector("//g//notes//"),
        exposure=Exposure(default="selected"),
        limits=replace(DEFAULT_LIMITS, phase_timeout=int(patience)),
    )
    try:
        async with asyncio.timeout(patience):
            ended = await near.sync(address)
    except (OSError, TimeoutError) as error:
        return type(error).__name__
    return "" if isinstance(ended, m.Closed) else str(ended.code)


@contextmanager
def lake_process(here: Path, lake: Path) -> Iterator[Process]:
    """Run ``lace lake serve`` until the block ends."""
    log_file, said = here / "log", here / "said"
    command = [sys.executable, "-m", "lace", "lake", "serve", str(lake), "tcp:127.0.0.1:0"]
    command += ["--select", "//g//notes//", "--master", "local[2]", "--memory", "1g"]
    with log_file.open("wb") as errors, said.open("wb") as told:
        ran = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=told, stderr=errors)
    try:
        while not (found := re.search(r"^at (\S+)$", said.read_text("utf-8"), re.MULTILINE)):
            assert ran.poll() is None, log_file.read_text("utf-8")
            time.sleep(0.1)
        yield Process(ran, log_file, [found.group(1)])
    finally:
        if ran.poll() is None:
            ran.kill()
            ran.wait()


def make_lake(folder: Path, records: int) -> Path:
    """Make a lake of so many notes."""
    bundle, lake = folder / "notes.records", folder / "notes.lake"
    with bundle.open("wb") as file:
        for start in range(0, records, 10_000):
            some = notes(min(10_000, records - start), start=start)
            file.writelines(record.raw for record in some)
    command = [sys.executable, "-m", "lace", "lake", "ingest", str(lake), str(bundle)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return lake


@contextmanager
def served(here: Path, lake: Path | None) -> Iterator[Process]:
    """Serve notes from a lace, or from a lake."""
    if lake is not None:
        with lake_process(here, lake) as server:
            yield server
        return
    with SqliteStore(here / "notes.lace") as store:
        store.save(notes(_RECORDS))
    with process(here, "notes.lace", "tcp:127.0.0.1:0", "--select", "//g//notes//") as server:
        yield server


def ends_of(server: Process, lake: Path | None) -> Iterator[str]:
    """Yield what ended exchanges, by code."""
    if lake is not None:
        yield from re.findall(r"\[([a-z.-]+)\]$", server.log_file.read_text("utf-8"), re.MULTILINE)
        return
    for entry in (*server.events("aborted"), *server.events("failed")):
        yield str(entry.get("code") or entry.get("error"))


def run(
    name: str, connections: int, seconds: float, folder: Path, lake: Path | None = None
) -> Outcome:
    """Run one attack against a new server."""
    outcome = Outcome(name, connections if ATTACKS[name] is not None else 0)
    here = folder / f"{list(ATTACKS).index(name)}"
    here.mkdir()
    with served(here, lake) as server:
        address = parse_address(server.addresses[0])
        mine = MemoryStore()
        problem = asyncio.run(ask(mine, address, _FIRST))
        assert not problem, problem
        with attackers(ATTACKS[name], outcome, address):
            time.sleep(min(1.0, seconds / 4))
            end = time.monotonic() + seconds
            while time.monotonic() < end and server.process.poll() is None:
                began = time.monotonic()
                problem = asyncio.run(ask(mine, address))
                outcome.waited.append(time.monotonic() - began)
                if problem:
                    outcome.failed[problem] += 1
                outcome.peak_mib = max(outcome.peak_mib, memory_mib(server))
                time.sleep(0.1)
        if server.process.poll() is not None:
            outcome.ends["THE SERVER DIED"] += 1
        outcome.ends.update(ends_of(server, lake))
    return outcome


def table(rows: list[list[str]]) -> Iterator[str]:
    """Yield rows with their columns under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for each attack")
    parser.add_argument(
        "--connections", type=int, help="of attackers at a time  [default: 10, or 7]"
    )
    parser.add_argument("--lake", type=int, metavar="N", help="attack a lake of N records")
    parser.add_argument("--only", choices=list(ATTACKS), action="append", help="leave out others")
    parser.add_argument("--stranger", nargs=2, metavar=("NAME", "ADDRESS"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stranger is not None:
        name, address = asked.stranger
        print(be_strangers(name, parse_address(address), asked.connections))
        sys.stdout.flush()
        os._exit(0)  # some may still wait for the server
    chosen = asked.only or list(ATTACKS)
    # A lake turns away more than 8 from one machine, and the honest peer comes from the same one.
    connections = asked.connections or (_MOST if asked.lake is None else _MOST_OF_A_LAKE)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="lace-attack-") as folder:
        lake = None if asked.lake is None else make_lake(Path(folder), asked.lake)
        for name in chosen:
            print(f"{name} …", file=sys.stderr, flush=True)
            outcomes.append(run(name, connections, asked.seconds, Path(folder), lake))
    quiet = [o for o in outcomes if o.name == "nothing" and o.waited]
    floor = statistics.median(quiet[0].waited) if quiet else 0.0
    for line in table([list(_COLUMNS), *(outcome.row(floor) for outcome in outcomes)]):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
