"""Rules of strangers in processes of their own: the same answers, and they can be stopped."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from meeting import within
from servers import Process, Served, policy, process, served
from wires import notes, store_of

from lace.answering.store import StoreAnswers
from lace.datalog.source import MemorySource
from lace.driving.client import Client
from lace.errors import Code, LimitExceeded, PolicyError
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, UNCOUNTED, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.foreign import finish
from lace.policy.module import module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import FACETS, Exposure
from lace.recordstore import MemoryStore
from lace.recordstore.memory import MemorySnapshot
from lace.recordstore.sqlite import SqliteStore
from lace.rules import LocalFacts
from lace.selectors import selector
from lace.serving.grants import ServePolicy, ServerLimits
from lace.serving.worker import Worker, facts_of, pack, source_of, unpack
from lace.serving.workers import Question, Workers
from lace.vocabulary import ADVERTISED

MINE = module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n")
THEIRS = module_from_text(
    "Named(P,N) :- Field(P,'Name',_,N), not Field(P,'Hidden',_,_).\n"
    "SelectHave(P) :- Named(P,_), Cardinality(Named(_,_),'<','30').\n"
    "SelectHave(P) :- Named(P,N), Advertised(N,_).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Name',_,N), Named(_,N).\n"
)
# Far more than any limit of the engine allows; the limits are lifted where it is used.
ENDLESS = module_from_text(
    "Big(P,Q,R,T) :- Have(P), Have(Q), Have(R), Have(T).\n"
    "SelectHave(P) :- Big(P,_,_,_).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
WITHOUT_LIMITS = Limits(peer_work=1 << 60, work=1 << 60, derived_facts=1 << 60)


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(2, seconds=20, mebibytes=512)
    yield made
    made.close()


def policy_of(
    theirs: Any,
    facts: list[tuple[str, ...]],
    workers: Workers | None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExchangePolicy:
    plan = ExchangePlan(label_operands(Party(index=0, module=MINE), Party(index=1, module=theirs)))
    foreign = None if workers is None else workers.for_peer("host", 1)
    source = LocalFacts(facts, limits)
    made = ExchangePolicy(plan, 0, source, Exposure(default="everything"), limits, foreign)
    if foreign is not None:
        finish(made.start())
    return made


def some_facts(chance: random.Random) -> list[tuple[str, ...]]:
    record, name = f"P{chance.randrange(40)}", f"n{chance.randrange(20)}"
    return chance.choice(
        [
            [("Have", record), ("Field", record, "Name", "0", name)],
            [("Field", record, "Hidden", "0", "x")],
            [("Advertised", name, "s")],
            [("Advertised", record, "s"), ("AdvertisedField", record, "s", "Name", "0", name)],
        ]
    )


@pytest.mark.parametrize("forgets", [False, True])
def test_a_worker_selects_what_this_process_selects(workers: Workers, forgets: bool) -> None:
    """Whatever comes and goes, and whatever a worker has forgotten in between."""
    chance = random.Random(7)
    start = [fact for _ in range(60) for fact in some_facts(chance)]
    here, there = policy_of(THEIRS, start, None), policy_of(THEIRS, start, workers)
    for step in range(60):
        added, removed = some_facts(chance), some_facts(chance)
        if forgets and step % 20 == 0:
            for process in workers._processes:
                process.kill()
        assert there.apply(added, removed) == here.apply(added, removed)
        for facet in FACETS:
            assert set(there.peer_selects(facet)) == set(here.peer_selects(facet))
    assert workers.started == 61
    ours, theirs = (p.explainers()[1].evaluation for p in (here, there))
    assert set(ours.facts()) == set(theirs.facts())


@pytest.mark.parametrize(
    ("cores", "memory", "each", "number", "mebibytes"),
    [
        (1, 2048, 512, 2, 512), (64, 2048, 512, 2, 512), (64, 65_536, 512, 64, 512),
        (3, 65_536, 512, 3, 512), (8, 1536, 512, 1, 512), (8, 512, 512, 1, 256),
        (8, 2048, 100, 8, 100), (64, 2047, 100, 10, 100), (8, 1, 512, 1, 1),
    ],
)  # fmt: skip
def test_all_workers_together_take_a_part_of_the_memory_of_a_server(
    cores: int, memory: int, each: int, number: int, mebibytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    limits = ServerLimits(memory_mib=memory, rule_mib=each)
    made = Workers.for_policy(ServePolicy(grants=(), limits=limits))
    assert [process.mebibytes for process in made._processes] == [mebibytes] * number
    assert made.mebibytes == number * mebibytes <= max(1, memory // 2)


def test_limits_hold_in_a_worker_as_they_do_here(workers: Workers) -> None:
    limits = Limits(peer_work=2_000, peer_work_per_fact=0)
    facts: list[tuple[str, ...]] = [("Have", f"P{i}") for i in range(100)]
    reasons = []
    for place in (None, workers):
        with pytest.raises(LimitExceeded) as raised:
            policy_of(ENDLESS, facts, place, limits)
        reasons.append((raised.value.limit, raised.value.configured, raised.value.observed))
    assert reasons[0] == reasons[1]


def test_rules_of_ones_own_stay_here(workers: Workers) -> None:
    policy_of(MINE, [("Have", "P0")], workers)
    assert workers.started == 0


needs_limits = pytest.mark.skipif(sys.platform == "win32", reason="it cannot limit a process")


@needs_limits
def test_the_system_ends_what_takes_too_long() -> None:
    workers = Workers(1, seconds=1, mebibytes=4096)
    try:
        with pytest.raises(PolicyError) as raised:
            policy_of(endless_in_time(), [("Have", f"P{i}") for i in range(3000)], workers,
                      WITHOUT_LIMITS)  # fmt: skip
        assert raised.value.code is Code.POLICY_STOPPED
        assert workers.killed == 1
        assert not policy_of(THEIRS, [], workers).may_send, "the next one begins anew"
    finally:
        workers.close()


def endless_in_time() -> Any:
    return module_from_text(
        "Big('x') :- Have(P), Have(Q), Have(R), P != Q, Q != R, P != R, Field(P,'A',_,_).\n"
        "SelectHave(P) :- Have(P), not Big(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
        "Big('x') :- Have(P), Have(Q), Have(R), P != Q, Q != R, P != R.\n"
    )


@needs_limits
def test_the_system_ends_what_takes_too_much_memory() -> None:
    workers = Workers(1, seconds=60, mebibytes=48)
    try:
        with pytest.raises(PolicyError) as raised:
            policy_of(ENDLESS, [("Have", f"P{i}") for i in range(100)], workers, WITHOUT_LIMITS)
        assert raised.value.code is Code.POLICY_STOPPED
        assert workers.killed == 1
    finally:
        workers.close()


def test_a_job_that_nobody_waits_for_is_ended_at_once(workers: Workers) -> None:
    stopped: list[BaseException] = []

    def work() -> None:
        try:
            policy_of(ENDLESS, [("Have", f"P{i}") for i in range(300)], workers, WITHOUT_LIMITS)
        except PolicyError as error:
            stopped.append(error)

    thread = Thread(target=work)
    thread.start()
    question = at_work(workers)
    question.cancel()
    thread.join()
    assert isinstance(stopped[0], PolicyError)
    assert stopped[0].code is Code.POLICY_STOPPED


def at_work(workers: Workers) -> Question:
    """Return the question that a worker is working on, as soon as there is one."""
    while True:
        with workers.lock:
            for process in workers._processes:
                if process.question is not None and process.running is not None:
                    return process.question


def test_closing_ends_what_works_and_what_waits() -> None:
    workers = Workers(1, seconds=60, mebibytes=512)
    ends: list[BaseException] = []

    def work() -> None:
        try:
            policy_of(ENDLESS, [("Have", f"P{i}") for i in range(300)], workers, WITHOUT_LIMITS)
        except PolicyError as error:
            ends.append(error)

    threads = [Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    at_work(workers)
    while workers.waiting < 2:
        time.sleep(0.01)
    workers.close()
    for thread in threads:
        thread.join()
    assert len(ends) == 3
    with pytest.raises(PolicyError, match="stopped"):
        policy_of(THEIRS, [], workers)


def test_who_has_used_least_goes_first() -> None:
    """Ten questions of one connection do not keep the one of another waiting."""
    workers = Workers(1, seconds=60, mebibytes=512)
    begun: list[str] = []
    go = Event()

    def content(user: str) -> Any:
        def make(_: bool) -> dict[str, Any]:
            begun.append(user)
            if user == "blocks 0":
                go.wait()
            raise RuntimeError("no question after all")

        return make

    first = workers.ask(1, "blocks 0", content("blocks 0"))
    at_once = [workers.ask(9, f"greedy {i % 2}", content(f"greedy {i % 2}")) for i in range(10)]
    with workers.lock:
        workers._account("greedy 0", 5)
        workers._account("greedy 1", 3)
    last = workers.ask(3, "modest 0", content("modest 0"))
    go.set()
    for question in (first, *at_once, last):
        question.wait()
    workers.close()
    assert begun[:3] == ["blocks 0", "modest 0", "greedy 1"]


def test_what_was_used_long_ago_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(1, seconds=60, mebibytes=512)
    workers._account("old 0", 1000)
    later = time.monotonic() + 3600
    monkeypatch.setattr("lace.serving.workers.seconds_now", lambda: later)
    workers._account("new 0", 1)
    assert workers._used == {"new 0": 1, "new": 1}


@needs_limits
def test_a_worker_that_says_nothing_is_ended() -> None:
    """It takes no processor time, so that no limit of the system ends it."""
    workers = Workers(1, seconds=20, mebibytes=512)
    try:
        assert not policy_of(THEIRS, [], workers).may_send
        running = workers._processes[0].running
        assert running is not None
        running.send_signal(signal.SIGSTOP)
        workers.longest = 0.2
        with pytest.raises(PolicyError) as raised:
            policy_of(THEIRS, [], workers)
        assert raised.value.code is Code.POLICY_STOPPED
        workers.longest = 60
        assert not policy_of(THEIRS, [], workers).may_send, "the next one begins anew"
    finally:
        workers.close()


def whole(number: int, facts: int = 0) -> dict[str, Any]:
    shown = MemorySource((("Have", f"P{i}") for i in range(facts)), limits=UNCOUNTED)
    return {
        "number": number,
        "rules": THEIRS.text,
        "limits": asdict(DEFAULT_LIMITS),
        "facts": facts_of(shown),
    }


def test_what_goes_to_a_worker_and_comes_back_is_packed_in_parts() -> None:
    rows = [(f"P{i}", "s\n\u2028é") for i in range(12_001)]
    shown = MemorySource((("Advertised", *row) for row in rows), limits=UNCOUNTED)
    ((name, arity, parts),) = facts_of(shown)
    assert (name, arity, len(parts)) == ("Advertised", 2, 3)
    assert list(source_of([(name, arity, parts)]).iterate(ADVERTISED)) == rows
    answer = {"whole": False, "dropped": [7], "lists": [rows, [], [("x",)], []]}
    said = pack(answer)
    assert said.count(b"\n") == 4
    assert unpack(said) == answer
    assert unpack(pack({"unknown": True})) == {"unknown": True, "lists": []}


def test_a_worker_keeps_a_bounded_number_of_evaluations_and_says_what_went() -> None:
    worker = Worker(seconds=1000)
    dropped: list[int] = []
    for number in range(1, 600):
        dropped += worker.answer(whole(number))["dropped"]
    assert sorted({*dropped, *worker.kept}) == list(range(1, 600))
    assert len(worker.kept) < 400
    assert "lists" in worker.answer(whole(600, 500_000)), "the last one stays, however large"
    assert list(worker.kept) == [600]


def test_what_others_left_in_a_worker_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is short because of them is given back, and the question put again."""
    worker = Worker(seconds=1000)
    worker.answer(whole(1))

    def full(*_: object, **__: object) -> Any:
        raise MemoryError

    with monkeypatch.context() as short:
        short.setattr("lace.serving.worker.evaluate", full)
        assert worker.answer(whole(2))["unknown"]
        with pytest.raises(MemoryError):
            worker.answer(whole(2))
    assert "lists" in worker.answer(whole(2))


def test_nothing_is_loaded_for_rules_before_it_is_their_turn(workers: Workers) -> None:
    class Watched(MemoryStore):
        looks = 0

        def snapshot(self) -> MemorySnapshot:
            self.looks += 1
            return super().snapshot()

    store = Watched()
    plan = ExchangePlan(label_operands(Party(index=0, module=MINE), Party(index=1, module=THEIRS)))
    answers = StoreAnswers(store, 0, foreign=workers.for_peer("host", 1))
    answers.recall(m.Recall(link=None, plan=plan, schema=None))
    parts = answers.evaluate(m.Evaluate(plan=plan, schema=None, runtime=()))
    ticket = next(parts)
    assert isinstance(ticket, Question)
    before = store.looks
    ticket.cancel()
    with pytest.raises(PolicyError, match="stopped"):
        next(parts)
    assert store.looks == before


def test_a_worker_knows_neither_store_nor_key_nor_network() -> None:
    """What it imports is the rule engine and the vocabulary."""
    listed = subprocess.run(
        [sys.executable, "-c",
         "import sys, lace.serving.worker; print(*sys.modules)"],
        capture_output=True, text=True, check=True, env=os.environ,
    ).stdout.split()  # fmt: skip
    for name in ("sqlite3", "socket", "ssl", "asyncio", "lace.keyring", "lace.transport"):
        assert name not in listed, name


# --- a server ---


def test_a_server_evaluates_strangers_rules_elsewhere_and_its_own_here() -> None:
    rules = '[[allow]]\nwho = "anyone"\nsync = ["//g//notes//"]\n'
    everything = notes(30)

    async def work() -> tuple[int, int]:
        counts = []
        async with served(store_of(everything), policy(rules)) as host:
            for module in (selector("//g//notes//"), THEIRS_OF_NOTES):
                near = Client(store=MemoryStore(), module=module, exposure=Exposure())
                ended = await near.sync(host.address)
                assert isinstance(ended, m.Closed), ended
                assert near.store.count() == 30
                counts.append(host.server._workers.started)
        return counts[0], counts[1]

    own, foreign = within(work())
    assert own == 0, "it is in the server's own policy"
    assert foreign > 0


THEIRS_OF_NOTES = module_from_text(
    "SelectHave(P) :- Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- AdvertisedField(P,S,'App',_,'notes').\n"
)


HARD = """[[allow]]
who = "anyone"
sync = ["//g//notes//"]
[engine]
peer_work = 1000000000000
work = 1000000000000
derived_facts = 1000000000
[limits]
rule_mib = 4096
rule_seconds = 600
grace_seconds = 1
"""


def processes(host: Served) -> list[Any]:
    return list(host.server._workers._processes)


async def begin_endless(host: Served) -> asyncio.Task[m.Closed | m.Aborted]:
    """Let somebody bring rules that take for ever."""
    near = Client(store=MemoryStore(), module=endless_in_time(), exposure=Exposure())
    return asyncio.create_task((await near.dial(host.address)).run())


async def leave(tasks: list[asyncio.Task[m.Closed | m.Aborted]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_a_peer_that_goes_takes_its_evaluation_with_it() -> None:
    async def work() -> None:
        async with served(store_of(notes(3000)), policy(HARD)) as host:
            task = await begin_endless(host)
            while not any(p.question and p.question.number for p in processes(host)):
                await asyncio.sleep(0.01)
            await leave([task])
            await host.until("aborted")
            while not host.server._workers.killed:
                await asyncio.sleep(0.01)

    within(work())


def test_whoever_goes_while_it_waits_for_a_worker_takes_no_place_of_others() -> None:
    """The host may have as many connections as there are workers, and a few more."""
    most = max(2, os.cpu_count() or 1) + 2

    async def work() -> None:
        rules = HARD + f"connections_per_host = {most}\n"
        async with served(store_of(notes(3000)), policy(rules)) as host:
            workers = host.server._workers
            busy = [await begin_endless(host) for _ in processes(host)]
            while not all(p.question and p.question.number for p in processes(host)):
                await asyncio.sleep(0.01)
            for _ in range(3):
                waiting = [await begin_endless(host) for _ in range(most - len(busy))]
                while workers.waiting < len(waiting):
                    await asyncio.sleep(0.01)
                await leave(waiting)
                while host.server.connections > len(busy):
                    await asyncio.sleep(0.01)
                assert not workers.waiting
            near = Client(store=MemoryStore(), module=selector("//g//notes//"), exposure=Exposure())
            assert isinstance(await near.sync(host.address), m.Closed)
            assert not workers.killed, "those who stay are left alone"
            await leave(busy)

    within(work())


def children(of: int) -> list[int]:
    return [int(pid) for task in Path(f"/proc/{of}/task").glob("*/children")
            for pid in task.read_text().split()]  # fmt: skip


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Process]:
    """Give a server that evaluates rules without end for a stranger."""
    with SqliteStore(tmp_path / "notes.lace") as store:
        store.save(notes(600))
    (tmp_path / "serve.toml").write_text(HARD)
    arguments = ("notes.lace", "tcp:127.0.0.1:0", "--policy", "serve.toml")
    with process(tmp_path, *arguments) as server:
        near = Client(store=MemoryStore(), module=endless_in_time(), exposure=Exposure())

        async def attack() -> m.Closed | m.Aborted:
            return await near.sync(server.address)

        ends: list[Any] = []
        thread = Thread(target=lambda: ends.append(asyncio.run(attack())))
        thread.start()
        while not any(time_of(pid) > 60 for pid in children(server.process.pid)):
            time.sleep(0.05)
        yield server
        thread.join()
        assert isinstance(ends[0], m.Aborted)


def time_of(pid: int) -> int:
    """Return the processor time of a process, in ticks; more than it takes to start is work."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().split()[13])
    return 0


needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks at /proc")


@needs_proc
def test_a_server_that_is_told_to_stop_ends_its_workers(busy: Process) -> None:
    working = children(busy.process.pid)
    assert busy.stop() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in working)


@needs_proc
def test_a_worker_that_somebody_kills_ends_one_exchange(busy: Process) -> None:
    for pid in children(busy.process.pid):
        os.kill(pid, signal.SIGKILL)
    assert busy.wait_for("aborted")[0]["code"] == Code.POLICY_STOPPED
    near = Client(store=MemoryStore(), module=THEIRS_OF_NOTES, exposure=Exposure())
    assert isinstance(within(near.sync(busy.address)), m.Closed)
    assert near.store.count() == 600
