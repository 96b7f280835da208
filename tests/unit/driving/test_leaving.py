"""Whoever has gone is not answered any more; what it said before counts as ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event

import pytest
from meeting import within
from servers import policy, served
from wires import NOW, End, ends, hashes, notes, run, store_of

from lace.driving.client import Client
from lace.errors import Code
from lace.interlace import messages as m
from lace.policy.view import Exposure
from lace.recordstore import MemoryStore
from lace.recordstore.memory import MemorySnapshot
from lace.selectors import selector
from lace.stream.binding import farewell


def pair() -> tuple[End, End]:
    """Return two ends that have something for each other."""
    left, right = ends(store_of(notes(8)), store_of(notes(9, start=5)))
    for end in (left, right):
        assert end.connection.ended is None  # it has greeted the other one
    return left, right


def carry(left: End, right: End, most: int) -> bytes:
    """Let the left end have almost so many bytes; return the rest of them."""
    to_left = to_right = 0
    while True:
        right.take(bytes(left.sent[to_right:]))
        to_right = len(left.sent)
        chunk = bytes(right.sent[to_left:])
        if to_left + len(chunk) >= most:
            return chunk[: most - to_left]
        to_left += len(chunk)
        left.take(chunk)


def outcome(end: End) -> tuple[object, Code | None, set[str]]:
    assert isinstance(end.last, m.Closed | m.Aborted)
    return type(end.last), end.last.code, hashes(end.store)


def test_when_it_is_known_that_a_peer_has_gone_changes_neither_the_end_nor_what_is_stored() -> None:
    """Wherever its bytes end: within a phase, after one, or among records."""
    left, right = pair()
    run(left, right)
    found = set()
    for most in (*range(1, len(right.sent), 29), len(right.sent)):
        early, peer = pair()
        last = carry(early, peer, most)
        early.connection.is_left = True
        early.connection.receive_data(last, NOW, waits=False)
        early.connection.receive_eof(NOW, waits=False)
        early._pass_on()
        late, peer = pair()
        late.take(carry(late, peer, most))
        if not late.closed:
            late.give(m.PeerGone())
        assert outcome(early) == outcome(late), most
        found.add((len(hashes(early.store)), type(early.last)))
    assert {kind for _, kind in found} == {m.Closed, m.Aborted}
    assert len(found) > 4, "some went after a part of their records"


@pytest.mark.parametrize(
    ("word", "code", "detail"),
    [
        (b"", Code.INTERLACE_GONE, "ended during advertise"),
        (farewell(Code.POLICY_STOPPED), Code.INTERLACE_GONE, "gave up: policy.stopped"),
        (b"Nonsense()\n", Code.INTERLACE_BLOCK, "not part of the protocol"),
        (b"\n\n", Code.INTERLACE_PHASE, "after the end of a phase"),
    ],
)
def test_the_store_is_not_asked_for_who_has_gone(word: bytes, code: Code, detail: str) -> None:
    """What it said last is heard all the same."""
    here, there = pair()
    here_sent = there_sent = 0
    while not here.connection.needs_records:
        there.take(bytes(here.sent[here_sent:]))
        here_sent = len(here.sent)
        here.connection.receive_data(bytes(there.sent[there_sent:]), NOW, waits=False)
        there_sent = len(there.sent)
        here.sent += b"".join(here.connection.data_to_send())
    here.connection.is_left = True
    if word:
        here.connection.receive_data(word, NOW, waits=False)
    here.connection.receive_eof(NOW, waits=False)
    ended = here.connection.ended
    assert isinstance(ended, m.Aborted)
    assert ended.code is code
    assert detail in ended.detail
    assert here.connection._answers is None
    assert not here.connection.has_work


class Slow(MemoryStore):
    """A store at which every look waits for somebody."""

    def __init__(self) -> None:
        super().__init__()
        self.looked, self.over = Event(), Event()

    def snapshot(self) -> MemorySnapshot:
        self.looked.set()
        assert self.over.wait(20), "nobody else could go"
        return super().snapshot()


@pytest.fixture
def slow() -> Iterator[Slow]:
    store = Slow()
    store.save(notes(3))
    yield store
    store.over.set()


def test_who_has_gone_takes_no_place_while_all_threads_look_at_records(slow: Slow) -> None:
    """One thread looks at the store for the first one, and will for long; others come and go."""
    rules = '[[allow]]\nwho = "anyone"\nsync = ["//g//notes//"]\n'

    async def meet(host_address: object) -> asyncio.Task[m.Closed | m.Aborted]:
        near = Client(store=MemoryStore(), module=selector("//g//notes//"), exposure=Exposure())
        exchange = await near.dial(host_address)  # type: ignore[arg-type]
        return asyncio.create_task(exchange.run())

    async def work() -> None:
        async with served(slow, policy(rules)) as host:
            first = await meet(host.address)
            await asyncio.to_thread(slow.looked.wait, 20)
            others = [await meet(host.address) for _ in range(3)]
            waiting = host.server._worker
            assert waiting is not None
            while waiting.waiting < len(others):
                await asyncio.sleep(0.01)
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            assert len(await host.until("aborted", 3)) == 3
            assert host.server.connections == 1
            assert {entry["code"] for entry in host.events("aborted")} == {"interlace.gone"}
            slow.over.set()
            assert isinstance(await first, m.Closed)

    within(work())
