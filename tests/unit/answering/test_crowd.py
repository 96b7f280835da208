"""Exchanges that differ in nothing are evaluated together: what each is told is the same as alone."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from exchanges import NOTES, note
from meeting import within
from servers import policy, served
from small_limits import hold_to

from lace.answering.crowd import Crowd, Crowds
from lace.answering.following import Position
from lace.answering.looking import Looking
from lace.answering.store import StoreAnswers
from lace.driving.client import Client
from lace.errors import Code, StoreError
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.advertise import advertise
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.record.facts import fields
from lace.record.model import Record
from lace.recordstore import MemoryStore
from lace.recordstore.memory import MemorySnapshot

OPEN = Exposure(default="selected")
WISHES = module_from_text(
    # Selects by other records, and asks for what nobody has advertised.
    "SelectHave(P) :- Field(P,'App',_,'notes'), Field(Q,'App',_,'open').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)
#: Cannot be decided on record by record.
TOGETHER = module_from_text(
    "SelectHave(P) :- Have(P), Some().\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Some().\n"
    "Some() :- Have(P), Field(P,'App',_,A), A != 'closed'.\n"
)


def plan_of(module: PolicyModule) -> ExchangePlan:
    return ExchangePlan(
        label_operands(Party(index=0, module=module), Party(index=1, module=module))
    )


@dataclass
class Told:
    """One exchange's answers, and what follows from all that it was told."""

    answers: StoreAnswers
    plan: ExchangePlan
    sendable: dict[str, bytes] = field(default_factory=dict)
    requestable: set[str] = field(default_factory=set)
    forgotten: set[str] = field(default_factory=set)
    waits: bool = True
    """Whether it looks at records even if it need not."""
    at_hand: int = 0
    """How often it did not have to."""
    fresh: set[str] = field(default_factory=set)
    """What it was told of last."""
    served: int = 0
    """How often records were at hand."""

    def __post_init__(self) -> None:
        self.answers.recall(m.Recall(link=None, plan=self.plan, schema=None))

    def ask(self, adverts: Iterable[Record] = ()) -> None:
        source = self.plan.operands[1].source_label
        listed = tuple(advertise(record.hash, source, fields(record), None) for record in adverts)
        asked = m.Evaluate(plan=self.plan, schema=None, runtime=(), advertised=listed)
        known = None if self.waits else self.answers.at_hand(asked)
        self.at_hand += known is not None
        answer = self.answers.evaluate(asked) if known is None else known
        parts = [part for part in answer if isinstance(part, m.Evaluated)]
        assert all(part.more for part in parts[:-1])
        assert not parts[-1].more
        self.fresh = {record for part in parts for record in part.sendable} or self.fresh
        for part in parts:
            for record in part.unsendable:
                self.sendable.pop(record, None)
            self.sendable.update(part.sendable)
            self.requestable -= part.unrequestable
            self.requestable |= part.requestable
            self.forgotten |= part.forgotten

    def describe(self) -> None:
        """Hold what is described without a look to what is described with one."""
        asked = m.Describe(plan=self.plan, records=tuple(sorted(self.sendable)[:3]))
        known = None if self.waits else self.answers.at_hand(asked)
        self.at_hand += known is not None
        assert known in (None, [self.answers.describe(asked)])

    def serve(self, chance: random.Random) -> None:
        """Hold what is served without a look to what is in the store at this moment."""
        among = sorted(chance.choice([self.fresh, set(self.sendable)]))
        some = chance.sample(among, min(len(among), chance.randrange(1, 3)))
        asked = m.Serve(tuple(some), chance.choice([1, 300, 10**6]))
        known = None if self.waits or not some else self.answers.at_hand(asked)
        self.served += known is not None
        assert known in (None, [self.answers.serve(asked)])

    def described(self) -> m.Described:
        """Return what is said of all that may be sent."""
        return self.answers.describe(m.Describe(self.plan, tuple(sorted(self.sendable))))

    @property
    def state(self) -> tuple[dict[str, bytes], set[str], set[str]]:
        return self.sendable, self.requestable, self.forgotten


def alone(store: MemoryStore, plan: ExchangePlan) -> Told:
    return Told(StoreAnswers(store, 0, OPEN), plan)


def together(store: MemoryStore, plan: ExchangePlan, crowds: Crowds, *, waits: bool = True) -> Told:
    return Told(StoreAnswers(store, 0, OPEN, crowds=crowds), plan, waits=waits)


@pytest.mark.parametrize("few", [2, 100])
@pytest.mark.parametrize("module", [NOTES, WISHES], ids=["notes", "wishes"])
@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_a_member_is_told_what_it_would_be_told_alone(
    module: PolicyModule, seed: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lace.answering.member._FEW", few)
    hold_to(monkeypatch, shared_records=few, shared_record_bytes=few * 200)
    chance, plan = random.Random(seed), plan_of(module)
    store, crowds = MemoryStore(), Crowds()
    records = [note(i, app=chance.choice(["notes", "open", "tasks"])) for i in range(60)]
    offers = [note(100 + i) for i in range(20)]
    store.save(records[:10])
    groups: list[tuple[Told, ...]] = []
    for _ in range(120):
        match chance.randrange(10):
            case 0:
                other, quick = (together(store, plan, crowds, waits=way) for way in (True, False))
                groups.append((alone(store, plan), other, quick))
                adverts = chance.sample(offers, chance.choice([0, 0, 1]))
                for told in groups[-1]:
                    told.ask(adverts)
            case 8:
                crowds.advance()
            case 9 if groups:
                for told in chance.choice(groups):
                    told.ask()
                    told.ask()
                    told.describe()
                    told.serve(chance)
            case 5 if groups:  # what is described is as it was when it was told
                group = chance.choice(groups)
                for told in group:
                    told.ask()
                store.forget([record.hash for record in chance.sample(records, 5)])
                store.save(chance.sample(records, 2))
                another = together(store, plan, crowds)
                for step in chance.sample([crowds.advance, crowds.rest, another.ask], 2):
                    step()
                assert [told.described() for told in group] == [group[0].described()] * len(group)
                assert len(group[0].described().adverts) == len(group[0].sendable)
            case 1 | 2:
                store.save(chance.sample(records, 3))
            case 3:
                store.forget([record.hash for record in chance.sample(records, 2)])
            case 6:
                some = [record.hash for record in chance.sample([*records, *offers], 3)]
                store.forget(some, for_good=True)
            case 7:
                store.remember(chance.sample([r.hash for r in (*records, *offers)], 30))
            case 4 if groups:
                adverts = chance.sample(offers, chance.choice([0, 0, 0, 1, 2]))
                for told in chance.choice(groups):
                    told.ask(adverts)
            case _ if groups:
                for told in chance.choice(groups):
                    told.ask()
        assert all(told.state == group[0].state for group in groups for told in group)
        for _, _, quick in groups:
            quick.serve(chance)
    for group in groups:
        for told in group:
            told.ask()
            told.describe()
            assert told.state == group[0].state
    assert any(told.at_hand for group in groups for told in group)


@pytest.mark.parametrize("limit", [100, 0], ids=["told", "too long ago"])
@pytest.mark.parametrize("module", [NOTES, TOGETHER], ids=["apart", "together"])
def test_what_may_come_back_may_be_asked_for_at_once(
    module: PolicyModule, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_to(monkeypatch, forgotten=limit)
    store, offer = MemoryStore(), note(100)
    store.save([note(1)])
    store.forget([offer.hash], for_good=True)
    told = alone(store, plan_of(module))
    told.ask([offer, note(101)])
    assert told.requestable == {note(101).hash}
    store.remember([offer.hash])
    told.ask()
    assert told.requestable == {note(101).hash, offer.hash}


def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[Looking]:
    """Return a list that grows with each look at the records."""
    done: list[Looking] = []
    look = Looking.look

    def counted(looking: Looking) -> Position:
        done.append(looking)
        return look(looking)

    monkeypatch.setattr(Looking, "look", counted)
    return done


def test_a_crowd_evaluates_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    done = evaluations(monkeypatch)
    store, crowds, plan = MemoryStore(), Crowds(), plan_of(NOTES)
    store.save([note(i) for i in range(20)])
    members = [together(store, plan, crowds) for _ in range(50)]
    for member in members:
        member.ask()
    assert len(done) == 1
    store.save([note(50)])
    crowds.advance()
    assert not any(member.answers.is_up_to_date for member in members)
    for member in members:
        member.ask()
        assert note(50).hash in member.sendable
    assert len(done) == 2
    store.save([note(51, app="tasks")])
    crowds.advance()
    assert all(member.answers.is_up_to_date for member in members)
    assert all(member.answers.memory == 0 for member in members)
    assert crowds.memory > 0


@pytest.mark.parametrize("module", [NOTES, TOGETHER], ids=["apart", "together"])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_served_without_a_look_is_what_the_store_has(
    module: PolicyModule, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold_to(monkeypatch, shared_records=3, shared_record_bytes=700)
    chance, plan = random.Random(seed), plan_of(module)
    store, crowds = MemoryStore(), Crowds()
    members = [together(store, plan, crowds, waits=False) for _ in range(2)]
    records = [note(i) for i in range(30)]
    for _ in range(200):
        match chance.randrange(6):
            case 0 | 1:
                store.save(chance.sample(records, chance.randrange(1, 5)))
            case 2:
                store.forget([record.hash for record in chance.sample(records, 5)])
            case 3:
                crowds.advance()
            case _:
                chance.choice(members).ask()
        for member in members:
            member.serve(chance)
    assert all(member.served for member in members)


def test_what_is_new_is_read_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many members speak of it at the same time, and are asked for it."""

    class Counting(MemoryStore):
        loaded = 0

        def load_all(self, hashes: Sequence[RecordHash], most_bytes: int) -> list[Record | None]:
            self.loaded += len(hashes)
            return super().load_all(hashes, most_bytes)

    hold_to(monkeypatch, shared_record_bytes=600)
    store, crowds, plan = Counting(), Crowds(), plan_of(NOTES)
    members = [together(store, plan, crowds, waits=False) for _ in range(3)]
    for member in members:
        member.ask()
    small, large = note(1), note(2, extras=[("Long", "x" * 900)])
    held = crowds.memory
    store.save([small, large])
    crowds.advance()
    assert len(small.raw) <= crowds.memory - held < len(large.raw)
    for member in members:
        member.ask()
        describe = m.Describe(plan, (small.hash, large.hash))
        assert member.answers.at_hand(describe) == [member.answers.describe(describe)]
        assert member.answers.at_hand(m.Serve((small.hash,), 10**6)) == [m.Served((small,))]
        assert member.answers.at_hand(m.Serve((small.hash,), 10)) is None
        assert member.answers.at_hand(m.Serve((large.hash,), 10**6)) is None
    assert store.loaded == 0
    store.forget([small.hash])
    assert members[0].answers.at_hand(m.Serve((small.hash,), 10**6)) is None
    assert members[0].answers.serve(m.Serve((small.hash,), 10**6)) == m.Served((None,))


def test_others_do_not_join() -> None:
    store, crowds = MemoryStore(), Crowds()
    for module in (NOTES, WISHES):
        together(store, plan_of(module), crowds).ask()
    assert len(crowds) == 2
    kept = together(store, plan_of(NOTES), crowds)
    kept.answers.recall(m.Recall(link=b"somebody", plan=kept.plan, schema=None))
    kept.ask()
    assert not kept.answers.is_up_to_date
    assert kept.answers.has_looked


def test_a_leader_that_fails_is_followed_by_another() -> None:
    class Failing(MemoryStore):
        fails = False

        def snapshot(self) -> MemorySnapshot:
            if self.fails:
                raise StoreError("no", code=Code.STORE_FAILED)
            return super().snapshot()

    store, crowds, plan = Failing(), Crowds(), plan_of(NOTES)
    store.save([note(1)])
    store.fails = True
    with pytest.raises(StoreError):
        together(store, plan, crowds).ask()
    store.fails = False
    member = together(store, plan, crowds)
    member.ask()
    assert set(member.sendable) == {note(1).hash}


def test_members_whose_leader_failed_look_for_themselves() -> None:
    class Failing(MemoryStore):
        fails = False

        def snapshot(self) -> MemorySnapshot:
            if self.fails:
                raise RuntimeError("whatever it is")
            return super().snapshot()

    store, crowds = Failing(), Crowds()
    member, other = (together(store, plan_of(module), crowds) for module in (NOTES, WISHES))
    member.ask()
    other.ask()
    store.save([note(1)])
    store.fails = True
    crowds.advance()
    assert not member.answers.is_up_to_date
    assert not other.answers.is_up_to_date
    store.fails = False
    member.ask()
    assert set(member.sendable) == {note(1).hash}


def test_who_waited_for_a_leader_that_failed_looks_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault that passes is told to whom it met, and not to those who asked at the same time."""
    store, crowds, plan = MemoryStore(), Crowds(), plan_of(NOTES)
    member, other = (together(store, plan, crowds) for _ in range(2))
    for told in (member, other):
        told.ask()
    store.save([note(1)])
    with monkeypatch.context() as patches:
        patches.setattr(MemoryStore, "snapshot", _fails)
        patches.setattr(Crowds, "drop", lambda *_: None)  # it comes too late
        with pytest.raises(StoreError):
            member.ask()
    for told in (other, together(store, plan, crowds)):
        told.ask()
        assert set(told.sendable) == {note(1).hash}


def test_a_leader_that_failed_half_way_is_asked_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fault that passes, after rules were applied and before it was told what follows."""
    store, crowds, plan = MemoryStore(), Crowds(), plan_of(TOGETHER)
    store.save([note(1)])
    members, single = [together(store, plan, crowds) for _ in range(2)], alone(store, plan)
    for told in (*members, single):
        told.ask()
    in_parts = Looking.in_parts
    monkeypatch.setattr(Looking, "in_parts", _fails)
    store.save([note(2)])
    crowds.advance()
    monkeypatch.setattr(Looking, "in_parts", in_parts)
    for told in (*members, single):
        told.ask()
        assert set(told.sendable) == {note(1).hash, note(2).hash}
    other = together(store, plan, crowds)
    other.ask()
    assert other.state == single.state


def _fails(*_: object) -> None:
    raise StoreError("only now", code=Code.STORE_FAILED)


def test_a_crowd_is_looked_after_as_long_as_it_has_a_member() -> None:
    """However many others came since, and whatever was let go of to save memory."""
    store, crowds = MemoryStore(), Crowds()
    member = together(store, plan_of(NOTES), crowds)
    member.ask()
    others = [
        together(
            store,
            plan_of(module_from_text(WISHES.text + f"SelectHave(P) :- Field(P,'F{i}',_,_).\n")),
            crowds,
        )
        for i in range(40)
    ]
    for other in others:
        other.ask()
    crowds.clear()
    assert len(crowds) == 41
    store.save([note(1)])
    crowds.advance()
    assert not member.answers.is_up_to_date
    member.ask()
    assert set(member.sendable) == {note(1).hash}
    del others, other
    gc.collect()
    assert len(crowds) == 1


def test_who_leaves_a_crowd_goes_on_record_by_record_where_that_is_possible() -> None:
    store, crowds = MemoryStore(), Crowds()
    store.save([note(i) for i in range(20)])
    member = together(store, plan_of(NOTES), crowds)
    member.ask()
    member.ask([note(99)])
    assert member.answers.crowd is None
    assert member.answers.policy is None, "nothing is loaded for it"
    assert member.requestable == {note(99).hash}


def test_a_server_wakes_only_whom_it_concerns() -> None:
    rules = '[[allow]]\nwho = "anyone"\nsync = ["//notes-demo//notes//"]\n'
    store = MemoryStore()
    store.save([note(i) for i in range(5)])

    async def work() -> None:
        async with served(store, policy(rules)) as host:
            tasks = []
            for _ in range(3):
                near = Client(store=MemoryStore(), module=NOTES, exposure=OPEN)
                exchange = await near.dial(host.address, stays=True)
                tasks.append(asyncio.create_task(exchange.run()))
            await host.until("fixed-point", 3)
            woken = 0

            def counting(give: Callable[[m.Order | m.StreamFailed], None]) -> Any:
                def give_and_count(order: m.Order | m.StreamFailed) -> None:
                    nonlocal woken
                    woken += 1
                    give(order)

                return give_and_count

            for peer in host.server._peers.values():
                peer.exchange.give = counting(peer.exchange.give)  # type: ignore[method-assign]
            store.save([note(7, app="tasks")])
            await host.server._wake_those_concerned()
            assert woken == 0
            store.save([note(8)])
            await host.until("fixed-point", 6)
            assert woken == 3
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    within(work())


def test_nothing_is_looked_at_any_more_once_all_have_come_to_rest() -> None:
    """A moment that somebody looks at keeps the log of a store from being emptied."""
    looked_at: set[int] = set()

    class Counting(MemoryStore):
        def snapshot(self) -> MemorySnapshot:
            made = super().snapshot()
            looked_at.add(id(made))
            close = made.close

            def counted() -> None:
                looked_at.discard(id(made))
                close()

            made.close = counted  # type: ignore[method-assign]
            return made

    store, crowds, plan = Counting(), Crowds(), plan_of(NOTES)
    store.save([note(1)])
    members = [together(store, plan, crowds) for _ in range(3)]
    for number, member in enumerate(members):
        member.ask()
        assert len(looked_at) == 1, "one for all"
        assert len(member.described().adverts) == 1
        if number:
            members[number - 1].answers.remember(m.Remember())
    members[-1].answers.remember(m.Remember())
    assert not looked_at
    store.save([note(2, app="tasks")])
    crowds.advance()
    assert not looked_at, "nobody is told anything"
    store.save([note(3)])
    crowds.advance()
    assert len(looked_at) == 1, "it waits for those who are told of it"
    crowds.rest()
    assert not looked_at, "but not for long"
    members[0].ask()
    assert len(looked_at) == 1
    store.forget([note(1).hash])
    members[1].ask()
    assert len(looked_at) == 2, "each looks at what it was told of"
    for member in members:
        member.answers.close()
    assert not looked_at


class Slow(MemoryStore):
    """A store at which a look takes until somebody says that it is over."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = self.is_over = False
        self.began, self.over = Event(), Event()

    def snapshot(self) -> MemorySnapshot:
        if self.is_slow:
            self.began.set()
            self.is_over = self.over.wait(10)
        return super().snapshot()


def test_a_server_goes_on_while_a_leader_looks_at_records() -> None:
    rules = '[[allow]]\nwho = "anyone"\nsync = ["//notes-demo//notes//"]\n'
    store = Slow()
    store.save([note(1)])

    async def work() -> None:
        async with served(store, policy(rules)) as host:
            near = Client(store=MemoryStore(), module=NOTES, exposure=OPEN)
            assert isinstance(await near.sync(host.address), m.Closed)
            assert len(host.server._crowds) == 1
            store.is_slow = True
            leading = asyncio.create_task(asyncio.to_thread(host.server._crowds.advance))
            store.save([note(2)])
            await asyncio.to_thread(store.began.wait, 20)
            await host.server._look_at_store()
            await host.server._bound_memory()
            store.over.set()
            await leading
            assert store.is_over, "nobody else could run"

    within(work())


def test_nobody_waits_for_a_crowd_that_is_being_made() -> None:
    store, crowds, plan = Slow(), Crowds(), plan_of(NOTES)
    store.save([note(1)])
    made = crowds.of(b"known", lambda: _crowd_of(store, plan))
    began, over = Event(), Event()

    def make() -> Crowd:
        began.set()
        assert over.wait(20), "nobody else could run"
        return _crowd_of(store, plan)

    with ThreadPoolExecutor(1) as threads:
        making = threads.submit(crowds.of, b"new", make)
        assert began.wait(20)
        assert crowds.of(b"known", make) is made
        crowds.rest()
        assert crowds.memory == made.memory
        quicker = crowds.of(b"new", lambda: _crowd_of(store, plan))
        over.set()
        assert making.result() is quicker


def _crowd_of(store: MemoryStore, plan: ExchangePlan) -> Crowd:
    answers = together(store, plan, Crowds()).answers
    return answers._new_crowd(m.Evaluate(plan=plan, schema=None, runtime=()))
