"""What a lake lets those do who connect: as much as a server does, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from meeting import client, within
from servers import policy
from wires import notes

from lace.cli.root import run
from lace.crypto import SigningKey
from lace.errors import Code
from lace.interlace import messages as m
from lace.lake import peer
from lace.lake.answers import LakeAnswers
from lace.lake.peer import LakeStore
from lace.lake.serve import LakeHost
from lace.lake.tables import Lake
from lace.policy.module import module_from_text
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.selectors import selector
from lace.serving.grants import ServePolicy, selector_policy
from lace.serving.quota import Quotas
from lace.transport.address import parse_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SELECTED = Exposure(default="selected")
PLACE = selector("//g//notes//")
ALICE, BOB = SigningKey(b"\x0a" * 32), SigningKey(b"\x0b" * 32)
NARROWER = module_from_text(
    "SelectHave(P) :- Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'App',_,'notes').\n"
)
SOME = """[[allow]]
who = "anyone"
sync = ["//g//notes//"]
[limits]
peer_records_per_day = 4
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.open(None, str(tmp_path / "lake"), create=True)
    LakeStore(made).save(notes(5))
    return made


def met(lake: Lake, rules: ServePolicy, **given: object) -> tuple[m.Closed | m.Aborted, LakeHost]:
    """Let somebody with seven notes of their own meet a lake."""
    host = LakeHost(LakeStore(lake), PLACE, SELECTED, policy=rules, key=ALICE)
    near = MemoryStore()
    near.save(notes(7, start=100))
    parts: dict[str, object] = {"module": PLACE, "exposure": SELECTED}

    async def meet() -> m.Closed | m.Aborted:
        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            return await client(near, **(parts | given)).sync(parse_address(address))

    ended = within(meet())
    assert near.count() == 12, ended
    return ended, host


@pytest.mark.parametrize(
    ("rules", "stored"),
    [
        (lambda: selector_policy(PLACE), 5),
        (lambda: selector_policy(PLACE, accepted=["anyone"]), 12),
        (lambda: selector_policy(PLACE, accepted=[BOB.verifier]), 12),
        (lambda: selector_policy(PLACE, accepted=[SigningKey(b"\x0c" * 32).verifier]), 5),
        (lambda: policy(SOME), 9),
    ],
    ids=["reading", "anyone", "bob", "another", "quota"],
)
def test_strangers_write_what_was_granted(
    lake: Lake, rules: Callable[[], ServePolicy], stored: int
) -> None:
    ended, host = met(lake, rules(), key=BOB)
    assert isinstance(ended, m.Closed), ended
    assert len(lake.snapshot().hashes()) == stored
    assert host.metrics.counts["lace_records_refused_total"] == (3 if stored == 9 else 0)
    assert host.metrics.counts["lace_records_rejected_total"] == 0


def test_of_a_lake_that_is_not_in_memory_too(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link on which nothing may be written says nothing of one on which something may."""
    monkeypatch.setattr(peer, "MIRRORED", 0)
    large = Lake(spark, lake.root)
    for rules, stored in (
        (selector_policy(PLACE), 5),
        (selector_policy(PLACE), 5),
        (policy(SOME), 9),
        (selector_policy(PLACE, accepted=["anyone"]), 12),
    ):
        ended, _ = met(large, rules, key=BOB)
        assert isinstance(ended, m.Closed), ended
        assert ended.result.link is not None
        assert len(large.snapshot().hashes()) == stored


def test_one_host_alone_does_not_keep_others_out(lake: Lake) -> None:
    """Whoever connects and says nothing holds some places and waits for others, never for all."""
    rules = selector_policy(PLACE)
    host = LakeHost(LakeStore(lake), PLACE, SELECTED, policy=rules, most_waiting=4)
    near = MemoryStore()

    async def meet() -> tuple[int, m.Closed | m.Aborted]:
        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            place = parse_address(address)
            silent = [
                await asyncio.open_connection(place.host, place.port, local_addr=("127.0.0.2", 0))
                for _ in range(20)
            ]
            while host.metrics.counts["lace_refused_total"] < 20 - host.most_per_host - 2:
                await asyncio.sleep(0.01)
            held = len(host._running)
            ended = await client(near, module=PLACE, exposure=SELECTED).sync(place)
            for _, writer in silent:
                writer.close()
            return held, ended

    held, ended = within(meet())
    assert held == host.most_per_host
    assert isinstance(ended, m.Closed), ended
    assert near.count() == 5
    assert not host._places.taken


def test_who_finds_no_place_waits_for_one(lake: Lake) -> None:
    """Peers that leave make room at once for honest ones from the same address."""
    host = LakeHost(
        LakeStore(lake), PLACE, SELECTED, policy=selector_policy(PLACE), most=2, most_per_host=2
    )

    async def meet() -> list[m.Closed | m.Aborted]:
        async with host.at(parse_address("tcp:127.0.0.1:0")) as address:
            place = parse_address(address)
            silent = [await asyncio.open_connection(place.host, place.port) for _ in range(6)]
            while host._places.waiting < 4:
                await asyncio.sleep(0.01)
            honest = [
                asyncio.create_task(
                    client(MemoryStore(), module=PLACE, exposure=SELECTED).sync(place)
                )
                for _ in range(5)
            ]
            while host._places.waiting < 9:
                await asyncio.sleep(0.01)
            for _, writer in silent:
                writer.close()
            return await asyncio.gather(*honest)

    ended = within(meet())
    assert [type(one) for one in ended] == [m.Closed] * 5
    assert host.metrics.counts["lace_refused_total"] == 4  # those who left while they waited


def test_rules_of_strangers_run_elsewhere(lake: Lake) -> None:
    _, host = met(lake, selector_policy(PLACE), module=NARROWER)
    assert host._workers is not None
    assert host._workers.started > 0


def test_a_lake_that_is_not_in_memory_counts_too(lake: Lake) -> None:
    meter = Quotas(None, policy(SOME)).meter("host", None)
    answers = LakeAnswers(LakeStore(lake), 0, SELECTED, meter=meter)
    codes = [outcome.code for outcome in answers.save(notes(6, start=100))]
    assert codes == [None] * 4 + [Code.SERVE_QUOTA] * 2
    assert answers._takes
    meter.quotas.policy.accepted = frozenset()
    assert not answers._takes


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "one of them"),
        (["--select", "//g//notes//", "--policy", "p.toml"], "one of them"),
        (["--policy", "p.toml", "--accept", "anyone"], "leave --accept out"),
        (["--policy", "p.toml"], "cannot go by memory_mib"),
        (["--policy", "absent.toml"], "cannot read"),
        (["--select", "//g//notes//", "--accept", "nobody"], "is no verifier"),
    ],
)
def test_what_a_lake_cannot_honour_stops_it(
    options: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.toml").write_text(SOME + "memory_mib = 100\n")
    assert run(["lake", "serve", "x.lake", *options]) != 0
    assert reason in capsys.readouterr().err
    assert not Path("x.lake").exists()
