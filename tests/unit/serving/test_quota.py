"""How much is taken from whom: a day and in all, by peer and together, and while there is room."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event
from time import sleep

import pytest
from effort import examples
from exchanges import AUTHORITY, BOB, NOTES, note
from links import SELECTED
from meeting import within
from servers import Served, policy, served

from lace.crypto import SigningKey
from lace.driving.client import Client
from lace.errors import Code, Outcome, Status, StoreError, UsageError
from lace.interlace import messages as m
from lace.limits import MIB
from lace.record import Record, build_plex
from lace.recordstore import MemoryStore, SqliteStore
from lace.serving.quota import Quotas, _Account, site_of
from lace.tai import Tai

ALL = '[[allow]]\nwho = "anyone"\nsync = ["//notes-demo//notes//"]\n'
FOR_BOB = f'{ALL}[[allow]]\nwho = ["{BOB.verifier}"]\nsync = ["//notes-demo//notes//"]\n'
THREE = "[limits]\npeer_records_per_day = 3\n"
CAROL = SigningKey(b"\x33" * 32)


async def give(host: Served, records: list[Record], key: SigningKey | None = None) -> int:
    """Offer records; return how many more the server has than before."""
    store = MemoryStore()
    store.save(records)
    before = host.server._store.count()
    client = Client(store=store, module=NOTES, exposure=SELECTED, key=key, warm=None)
    ended = await client.sync(host.address)
    assert isinstance(ended, m.Closed), ended
    return host.server._store.count() - before


def batch(number: int, start: int = 0) -> list[Record]:
    return [note(i) for i in range(start, start + number)]


def test_a_stranger_is_stopped_and_a_new_start_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        with SqliteStore(tmp_path / "s") as store:
            async with served(store, policy(ALL + THREE)) as host:
                assert await give(host, batch(2)) == 2
                assert await give(host, batch(2)) == 0  # the same again, which costs nothing
                assert await give(host, batch(4, start=10)) == 1
                assert await give(host, batch(4, start=20)) == 0
                (told, *_) = await host.until("quota", 2)
                assert told["code"] == Code.SERVE_QUOTA
                assert "3 records a day are taken from one peer" in told["detail"]
                assert "lace_records_refused_total 7\n" in host.server.metrics.text()
                # What is here can still be read.
                near = MemoryStore()
                await Client(store=near, module=NOTES, exposure=SELECTED).sync(host.address)
                assert near.count() == 3
            async with served(store, policy(ALL + THREE)) as host:
                assert await give(host, batch(4, start=30)) == 0

    within(work())


@pytest.mark.parametrize(
    ("accepted", "count", "told"),
    [(None, 3, None), (None, 4, "serve.quota"), (frozenset([BOB.verifier]), 4, "serve.reading")],
)
def test_who_gives_is_told_that_it_is_not_stored(
    accepted: frozenset[str] | None, count: int, told: str | None
) -> None:
    rules = replace(policy(ALL + THREE), accepted=accepted)

    async def work() -> None:
        store = MemoryStore()
        store.save(batch(count))
        async with served(MemoryStore(), rules, key=AUTHORITY) as host:
            ended = await Client(store=store, module=NOTES, exposure=SELECTED).sync(host.address)
            assert isinstance(ended, m.Closed)
            assert ended.result.not_stored == told
            assert len(ended.result.sent) == (0 if told == "serve.reading" else count)

    within(work())


def test_keys_cost_nothing_and_names_in_the_policy_count() -> None:
    async def work() -> None:
        rules = policy(f"{FOR_BOB}records_per_day = 5\n{THREE}")
        async with served(MemoryStore(), rules, key=AUTHORITY) as host:
            assert await give(host, batch(4), key=CAROL) == 3
            assert await give(host, batch(4, start=10), key=SigningKey.generate()) == 0
            assert await give(host, batch(6, start=20), key=BOB) == 5  # on an account of his own
            assert await give(host, batch(6, start=30), key=BOB) == 0

    within(work())


@pytest.mark.parametrize(
    ("limits", "taken", "word"),
    [
        ("records_per_day = 2", 2, "2 records a day are taken from all peers"),
        ("records = 1", 1, "1 records in all are taken from all peers"),
        ("peer_records = 4", 4, "4 records in all are taken from one peer"),
        ("free_mib = 1000000000", 0, "less than 1000000000 MiB are free"),
    ],
)
def test_what_is_taken_in_all(tmp_path: Path, limits: str, taken: int, word: str) -> None:
    async def work() -> None:
        with SqliteStore(tmp_path / "s") as store:
            async with served(store, policy(f"{ALL}[limits]\n{limits}\n")) as host:
                assert await give(host, batch(6)) == taken
                assert word in (await host.until("quota"))[0]["detail"]

    within(work())


def test_who_goes_on_sending_is_ended() -> None:
    large = [
        build_plex(
            group="notes-demo", app="notes", name=f"{n}", tai=f"{n:010d}:{0:09d}",
            data=os.urandom(1 << 19),
        )
        for n in range(20)
    ]  # fmt: skip

    async def work() -> None:
        async with served(MemoryStore(), policy(f"{ALL}[limits]\npeer_mib_per_day = 1\n")) as host:
            store = MemoryStore()
            store.save(large)
            ended = await Client(store=store, module=NOTES, exposure=SELECTED).sync(host.address)
            assert isinstance(ended, m.Aborted)
            assert "serve.quota" in ended.detail
            assert host.server._store.count() == 1
            assert (await host.until("aborted"))[0]["code"] == "serve.quota"

    within(work())


def test_another_day_begins_anew_and_all_days_count(tmp_path: Path) -> None:
    day = 0

    def clock() -> Tai:
        return Tai(f"{1700000000 + 86400 * day:010d}:000000000")

    rules = policy(f"{ALL}[limits]\npeer_records_per_day = 3\npeer_records = 5\n")
    with SqliteStore(tmp_path / "s") as store:
        quotas = Quotas(store, rules, clock)
        limits = rules.quota_for(None)
        for day, room in ((0, 3), (1, 2), (2, 0)):
            other = quotas.reserve("y", limits, batch(9))
            assert len(other.records) == 3
            quotas.settle(other, [])
            mine = quotas.reserve("x", limits, batch(9))
            assert len(mine.records) == room
            quotas.settle(mine, batch(room))
            again = Quotas(store, rules, clock)
            assert again._accounts["x"].records == min(5, 3 + 2 * day)
        assert {(who, records) for who, _, _, records in store.taken()} == {("x", 3), ("x", 2)}


def test_a_reservation_that_outlives_its_day_is_given_back_in_all_and_not_for_the_new_day() -> None:
    day = 0

    def clock() -> Tai:
        return Tai(f"{1700000000 + 86400 * day:010d}:000000000")

    rules = policy(f"{ALL}[limits]\npeer_records_per_day = 3\npeer_records = 5\n")
    quotas, quota = Quotas(MemoryStore(), rules, clock), rules.quota_for(None)
    early = quotas.reserve("x", quota, batch(2))
    day = 1
    late = quotas.reserve("x", quota, batch(3))
    quotas.settle(early, batch(1))
    quotas.settle(late, batch(3))
    assert quotas._accounts["x"] == _Account(
        quotas._today(), sum(len(r.raw) for r in batch(3)), 3,
        sum(len(r.raw) for r in [*batch(3), *batch(1)]), 4,
    )  # fmt: skip
    assert len(quotas.reserve("x", quota, batch(3)).records) == 0


@pytest.mark.parametrize(
    "limits", ["peer_records = 40", "records = 40", "peer_mib = 1", "mib_per_day = 1"]
)
@pytest.mark.parametrize("seed", range(examples(6)))
def test_many_threads_take_together_what_a_quota_says_and_no_less(limits: str, seed: int) -> None:
    """Some saves fail, some store a part: what they did not store is there for the others."""
    rules = policy(f"{ALL}[limits]\n{limits}\n")
    size = 60_000 if "mib" in limits else 10
    records = [
        build_plex(
            group="notes-demo", app="notes", name=f"{n}", tai=f"{n:010d}:{0:09d}", data=bytes(size)
        )
        for n in range(60)
    ]  # fmt: skip
    room = 40 if "records" in limits else MIB // len(records[-1].raw)
    quotas = Quotas(MemoryStore(), rules)
    held: set[str] = set()
    waits = Barrier(4)

    def give(number: int) -> None:
        meter, own = quotas.meter("192.0.2.1", None), random.Random(number + 4 * seed)
        fails = 0.3

        def save(some: Sequence[Record]) -> list[Outcome[Record]]:
            sleep(own.choice((0, 0, 0.001)))
            if own.random() < fails:
                raise StoreError("a full disk", code=Code.STORE_FAILED)
            outcomes = []
            for record in some:
                status = Status.DUPLICATE if record.hash in held else Status.ACCEPTED
                held.add(record.hash)
                outcomes.append(Outcome(status, record))
            assert len(held) <= room
            return outcomes

        mine = records[number * 15 : number * 15 + 15]
        waits.wait()
        for _ in range(30):
            with suppress(StoreError):
                meter.save(save, own.sample(mine, own.randint(1, 5)))
        fails = 0.0
        for record in mine:
            with suppress(StoreError):  # much was refused by then
                meter.save(save, [record])

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(give, number) for number in range(4)]:
            done.result()
    assert len(held) == room
    assert not quotas._unsettled
    for account in quotas._accounts.values():
        assert account.records == account.day_records == room


def test_who_finds_no_room_waits_for_what_others_may_give_back() -> None:
    rules = policy(f"{ALL}[limits]\nrecords = 3\n")
    quotas = Quotas(MemoryStore(), rules)
    began, goes_on = Event(), Event()

    def slow(some: Sequence[Record]) -> list[Outcome[Record]]:
        began.set()
        assert goes_on.wait(30)
        return [Outcome(Status.DUPLICATE, record) for record in some]

    def quick(some: Sequence[Record]) -> list[Outcome[Record]]:
        return [Outcome(Status.ACCEPTED, record) for record in some]

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(quotas.meter("a", None).save, slow, batch(3))
        assert began.wait(30)
        other = threads.submit(quotas.meter("b", None).save, quick, batch(3, start=10))
        assert not wait([other], 0.05).done
        goes_on.set()
        assert {outcome.status for outcome in one.result(30)} == {Status.DUPLICATE}
        assert {outcome.status for outcome in other.result(30)} == {Status.ACCEPTED}


@pytest.mark.parametrize(
    ("host", "site"),
    [
        ("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::/64"), ("[2001:db8::2]", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"), ("fe80::1%eth0", "fe80::/64"), ("stdio", "stdio"),
    ],
)  # fmt: skip
def test_a_site_is_an_address_or_a_network(host: str, site: str) -> None:
    assert site_of(host) == site


def test_quotas_of_a_policy_are_whole_numbers() -> None:
    with pytest.raises(UsageError, match="whole number"):
        policy(f'{ALL}records_per_day = "many"\n')
