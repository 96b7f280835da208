"""A lake and peers that lie, break off and come again: it ends in order, and holds what is valid."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from effort import examples
from liars import MOST_HELD, NOTES, SELECTED, Liar
from meeting import client, within
from rooms import write_bundle
from wires import End, nonce, notes, run

from lace.crypto import SigningKey
from lace.interlace import messages as m
from lace.interlace.parameters import Parameters
from lace.kit.hostile import Attacker
from lace.kit.misbehaviours import kinds
from lace.lake import peer
from lace.lake.ingest import ingest
from lace.lake.peer import LakeStore, lake_answers
from lace.lake.serve import LakeHost
from lace.lake.tables import Lake
from lace.record.model import Plex, Seal
from lace.record.validate import validate_record
from lace.recordstore import MemoryStore
from lace.serving.grants import selector_policy
from lace.stream.binding import Endpoint
from lace.transport.address import Address, parse_address
from lace.transport.dial import connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

LAKE, PEER = SigningKey(b"\x21" * 32), SigningKey(b"\x22" * 32)
COMMON = notes(300)


@dataclass
class LakeEnd(End):
    """One end of a wire, answered from a lake that is not held in memory."""

    lake: Lake | None = field(default=None)

    @cached_property
    def local(self) -> Any:
        assert self.lake is not None
        side = self.binding.side(self.module)
        return lake_answers(LakeStore(self.lake), side, self.exposure)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("hostile")
    made = Lake.open(spark, str(folder / "lake"), create=True)
    ingest(made, [str(write_bundle(folder / "a.records", COMMON))])
    return made


@pytest.fixture(autouse=True)
def not_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "MIRRORED", 0)


def ends_of(lake: Lake, mine: MemoryStore, chance: random.Random) -> tuple[LakeEnd, End]:
    keys = chance.choice([(None, None), (LAKE, PEER), (LAKE, None)])
    packs = chance.random() < 0.5
    address = ("tcp:here:1",)
    server = Endpoint(accepting=True, nonce=nonce(), addresses=address, key=keys[0], packs=packs)
    other = Endpoint(accepting=False, nonce=nonce(), addresses=address, key=keys[1], packs=packs)
    unused = MemoryStore()
    return (
        LakeEnd(server, unused, NOTES, SELECTED, lake=lake),
        End(other, mine, NOTES, SELECTED),
    )


def carry(server: End, liar: Liar, other: End, most: int) -> None:
    """Carry bytes both ways, changed on the way to the lake, until it has ended or nothing moves."""
    both, read = (server, other), [0, 0]
    for end in both:
        assert end.connection is not None  # its first bytes are there now
    for _ in range(most):
        ready = [n for n, end in enumerate(both) if len(end.sent) > read[n]]
        if server.closed or not ready:
            return
        index = liar.chance.choice(ready)
        size = liar.chance.choice([7, 100, 5000, 10**6])
        chunk = bytes(both[index].sent[read[index] : read[index] + size])
        read[index] += len(chunk)
        if index == 1:
            server.take(liar.tell(chunk))
            assert server.connection.memory < MOST_HELD
        elif not other.closed:
            other.take(chunk)


def check(lake: Lake, before: set[str], *, tidy: bool = True) -> set[str]:
    """Hold a lake to have lost nothing, and to have taken in what is valid and asked for alone."""
    records = list(lake.snapshot().read_all())
    found = {record.hash for record in records}
    assert len(found) == len(records)
    assert before <= found
    for record in records:
        judged = validate_record(record.raw).value
        assert isinstance(judged, Plex | Seal)
        assert (judged.group, judged.app) == ("g", "notes")
    for folder in ("staged", "spool") if tidy else ():
        assert list(Path(lake.root, folder).glob("*")) == []
    return {str(hash) for hash in found}


def honest(lake: Lake, chance: random.Random) -> None:
    """Let an honest peer meet the lake: it gets everything."""
    mine = MemoryStore()
    server, other = ends_of(lake, mine, chance)
    run(server, other, 1 << 16)
    assert isinstance(other.last, m.Closed), other.last
    assert mine.count() == lake.snapshot().version.rows


@pytest.mark.parametrize("part", range(2))
def test_a_peer_that_lies_ends_in_order(lake: Lake, part: int) -> None:
    for seed in range(part * 100, part * 100 + examples(12)):
        chance = random.Random(seed)
        before = {str(hash) for hash in lake.snapshot().hashes()}
        mine = MemoryStore()
        mine.save(COMMON[: chance.choice([0, 150, 290, 300])])
        mine.save(notes(chance.choice([0, 3, 25]), start=10_000 + 100 * seed))
        server, other = ends_of(lake, mine, chance)
        often = chance.choice([0.02, 0.2, 0.7])
        liar = Liar(chance, often, chance.choice([0, 1000, 1800, 2500, 6000]))
        carry(server, liar, other, chance.choice([10, 200, 4000]))
        if not server.closed:
            server.give(m.PeerGone())
        assert server.closed, seed
        assert isinstance(server.last, m.Closed | m.Aborted), seed
        check(lake, before)
    honest(lake, random.Random(part))


@pytest.mark.long
@pytest.mark.parametrize("mirrored", [0, 10**6], ids=["tables", "in memory"])
def test_every_known_way_to_misbehave_is_answered(
    spark: SparkSession, tmp_path: Path, mirrored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kit for other implementations, played against a lake."""
    monkeypatch.setattr(peer, "MIRRORED", mirrored)
    lake = Lake.open(spark, str(tmp_path / "lake"), create=True)
    LakeStore(lake).save(notes(5))
    rules = selector_policy(NOTES, accepted=["anyone"])
    host = LakeHost(LakeStore(lake), NOTES, SELECTED, policy=rules, key=LAKE)
    attacker = Attacker(NOTES, "g", "notes", patience=30)

    async def play() -> list[dict[str, Any]]:
        found = []
        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            place = parse_address(address)
            for kind in [*kinds().values(), None]:
                stream = await connect(place)
                found.append(await attacker.meet(stream, address, kind))
            while host._running:
                await asyncio.sleep(0.01)
        return found

    wrong = [one for one in within(play(), 400) if one["ok"] is False]
    assert wrong == []
    check(lake, {str(record.hash) for record in notes(5)})


SERVE = """
import os, signal, sys
from lace.lake import peer
from lace.cli.root import run
peer.MIRRORED = 0
when, which = sys.argv[1], int(sys.argv[2])
commit, commits = peer.LakeStore._commit, 0

def counted(*given):
    global commits
    commits += 1
    if when == "before" and commits == which:
        os.kill(os.getpid(), signal.SIGKILL)
    commit(*given)
    if when == "after" and commits == which:
        os.kill(os.getpid(), signal.SIGKILL)

peer.LakeStore._commit = counted
sys.exit(run(["lake", "serve", *sys.argv[3:]]))
"""


@contextmanager
def serving(root: str, when: str = "never", which: int = 0) -> Iterator[Address]:
    """Run ``lace lake serve`` over a lake that is not held in memory.

    It is killed at the end, or earlier: before or after it commits for the nth time.
    """
    options = ["tcp:127.0.0.1:0", "--select", "//g//notes//", "--accept", "anyone"]
    options += ["--master", "local[1]", "--memory", "1g"]
    command = [sys.executable, "-c", SERVE, when, str(which), root, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("at "):
                break
        try:
            yield parse_address(line.removeprefix("at ").strip())
        finally:
            process.kill()


@pytest.mark.long
@pytest.mark.parametrize(("when", "has"), [("before", 1), ("after", 2)])
def test_a_server_that_is_killed_in_the_middle_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, when: str, has: int
) -> None:
    """What it had acknowledged is in the lake; the next contact brings the rest."""
    at_once = Parameters().save_at_once
    root = str(tmp_path / "lake")
    lake = Lake.open(spark, root, create=True)
    ingest(lake, [str(write_bundle(tmp_path / "a.records", COMMON))])
    mine = MemoryStore()
    mine.save(notes(3 * at_once, start=50_000))
    before = {str(record.hash) for record in COMMON}

    def meet(place: Address) -> m.Closed | m.Aborted:
        return within(client(mine, module=NOTES, exposure=SELECTED).sync(place), 400)

    with serving(root, when, 2) as place:
        ended = meet(place)
    assert isinstance(ended, m.Aborted), ended
    before = check(lake, before, tidy=False)
    assert len(before) == len(COMMON) + has * at_once
    with serving(root) as place:
        ended = meet(place)
    assert isinstance(ended, m.Closed), ended
    assert len(check(lake, before, tidy=False)) == len(COMMON) + 3 * at_once == mine.count()


def test_a_connection_that_breaks_off_anywhere_costs_nothing_but_itself(lake: Lake) -> None:
    """Cut after any number of bytes; the next peer finds everything."""
    before = {str(hash) for hash in lake.snapshot().hashes()}
    for seed in range(examples(10)):
        chance = random.Random(1000 + seed)
        mine = MemoryStore()
        mine.save(notes(5, start=90_000 + 10 * seed))
        server, other = ends_of(lake, mine, chance)
        carry(server, Liar(chance, 0.0, 0), other, chance.randrange(1, 60))
        if not server.closed:
            server.give(m.PeerGone())
        assert server.closed
        before = check(lake, before)
    honest(lake, random.Random(0))


def test_floods_are_cut_off_and_others_are_served(lake: Lake) -> None:
    host = LakeHost(LakeStore(lake), NOTES, SELECTED, policy=selector_policy(NOTES))
    mine = MemoryStore()
    floods = [b"#\n" * 65_536, b"\n" * 131_072, b"A()\n" * 32_768, b"x" * (1 << 20)]

    async def flood(place: Any, data: bytes) -> None:
        reader, writer = await asyncio.open_connection(place.host, place.port)
        try:
            while not reader.at_eof():
                writer.write(data)
                await asyncio.wait_for(writer.drain(), 20)
                await asyncio.sleep(0)
        except OSError:
            pass
        finally:
            writer.close()

    async def meet() -> m.Closed | m.Aborted:
        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            place = parse_address(address)
            tasks = [asyncio.create_task(flood(place, data)) for data in floods]
            ended = await client(mine, module=NOTES, exposure=SELECTED).sync(place)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return ended

    ended = within(meet(), 120)
    assert isinstance(ended, m.Closed), ended
    assert mine.count() == lake.snapshot().version.rows
