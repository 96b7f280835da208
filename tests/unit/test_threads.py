"""Threads that work for event loops."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event

import pytest
from meeting import within

from lace.threads import Account, Threads, do, take_short_turns


@pytest.fixture
def threads() -> Iterator[Threads]:
    with Threads(2, "test") as made:
        yield made


def test_everything_is_done_and_told_to_whoever_asked(threads: Threads) -> None:
    async def work() -> None:
        made = [threads.do(lambda number=number: number) for number in range(1000)]  # type: ignore[misc]
        assert await asyncio.gather(*made) == list(range(1000))

    within(work())


def test_one_thread_works_in_the_order_of_asking() -> None:
    done: list[int] = []

    async def work() -> None:
        with Threads(1, "test") as threads:
            made = [threads.do(lambda number=number: done.append(number)) for number in range(100)]  # type: ignore[misc]
            await asyncio.gather(*made)

    within(work())
    assert done == list(range(100))


def test_what_fails_fails_for_whoever_asked_and_nobody_else(threads: Threads) -> None:
    def fail() -> None:
        raise KeyError("wrong")

    async def work() -> None:
        failing, other = threads.do(fail), threads.do(lambda: "right")
        with pytest.raises(KeyError, match="wrong"):
            await failing
        assert await other == "right"
        assert await threads.do(lambda: "again") == "again"

    within(work())


def test_what_nobody_waits_for_any_more_is_not_begun() -> None:
    held, done = threading.Event(), list[str]()

    async def work() -> None:
        with Threads(1, "test") as threads:
            first = threads.do(held.wait)
            second, third = (threads.do(lambda n=n: done.append(n)) for n in ("second", "third"))  # type: ignore[misc]
            second.cancel()
            held.set()
            await asyncio.gather(first, third)

    within(work())
    assert done == ["third"]


def test_who_leaves_while_it_is_done_hears_nothing_and_disturbs_nobody() -> None:
    begun, held = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        held.wait()

    async def work() -> None:
        with Threads(1, "test") as threads:
            first, second = threads.do(hold), threads.do(lambda: "second")
            await asyncio.to_thread(begun.wait)
            first.cancel()
            held.set()
            assert await second == "second"

    within(work())


def test_many_are_told_at_one_go(threads: Threads, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> int:
        loop = asyncio.get_running_loop()
        calls = 0
        call = loop.call_soon_threadsafe

        def counted(*arguments: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            return call(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        ended = threading.Barrier(2)
        made = [threads.do(lambda: None) for _ in range(100)]
        made += [threads.do(lambda: (ended.wait(), None)[1]) for _ in range(2)]
        while ended.n_waiting or not threads._told:  # this loop listens to nothing meanwhile
            pass
        await asyncio.gather(*made)
        return calls

    assert within(work()) < 10


def test_two_event_loops_use_the_same_threads(threads: Threads) -> None:
    async def work() -> list[int]:
        return await asyncio.gather(*(threads.do(threading.get_ident) for _ in range(50)))

    with ThreadPoolExecutor(2) as others:
        idents = [
            ident for made in others.map(lambda _: asyncio.run(work()), range(6)) for ident in made
        ]
    assert len(set(idents)) <= 2


def test_an_event_loop_that_is_gone_keeps_nobody_from_working(threads: Threads) -> None:
    held = threading.Event()

    async def leave() -> None:
        threads.do(held.wait)

    async def stay() -> str:
        return await threads.do(lambda: "here")

    asyncio.run(leave())
    held.set()
    assert asyncio.run(stay()) == "here"
    assert not threads._told


def test_nothing_is_kept_for_an_event_loop_that_was_closed_before_it_listened() -> None:
    threads, held, left = Threads(1, "test"), threading.Event(), asyncio.new_event_loop()

    async def leave() -> None:
        threads.do(held.wait)

    async def stay() -> str:
        return await threads.do(lambda: "here")

    left.run_until_complete(leave())
    held.set()
    while left not in threads._told:  # it will be told, when it runs again
        threading.Event().wait(0.001)
    left.close()
    assert asyncio.run(stay()) == "here"
    assert not threads._told
    threads.shutdown()


def test_any_error_is_told_and_keeps_nobody_else_from_being_told() -> None:
    """A future refuses ``StopIteration``, which any ``next`` without a default may raise."""

    async def work() -> None:
        threads, begun = Threads(1, "test"), threading.Event()
        empty: Iterator[int] = iter(())
        works: list[Callable[[], int]] = [begun.wait, lambda: next(empty), lambda: 1]
        made = [threads.do(each) for each in works]
        begun.set()
        found = await asyncio.gather(*made, return_exceptions=True)
        assert isinstance(found[1], RuntimeError)
        assert found[2] == 1
        threads.shutdown()

    within(work(), 5)


def test_what_waits_at_the_end_is_done_or_cancelled() -> None:
    async def work(cancel: bool) -> list[object]:
        begun, held = threading.Event(), threading.Event()

        def hold() -> bool:
            begun.set()
            return held.wait()

        threads = Threads(1, "test")
        made: list[asyncio.Future[object]]
        made = [threads.do(hold), threads.do(lambda: "late")]
        await asyncio.to_thread(begun.wait)
        threading.Timer(0.05, held.set).start()
        await asyncio.to_thread(threads.shutdown, cancel_futures=cancel)
        with pytest.raises(RuntimeError):
            threads.do(lambda: "too late")
        return await asyncio.gather(*made, return_exceptions=True)

    assert within(work(cancel=False)) == [True, "late"]
    first, second = within(work(cancel=True))
    assert first is True
    assert isinstance(second, asyncio.CancelledError)


def test_threads_of_other_kinds_serve_as_well() -> None:
    async def work(ask: Callable[[], Awaitable[str]]) -> str:
        return await ask()

    with ThreadPoolExecutor(1) as plain, Threads(1, "test") as made:
        for executor in (plain, made):
            assert within(work(lambda executor=executor: do(executor, lambda: "done"))) == "done"  # type: ignore[misc]


def test_where_there_are_no_threads_it_is_done_at_once(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lace.threads._HAS_NO_THREADS", True)

    async def work() -> None:
        made = threads.do(threading.get_ident)
        assert made.done()
        assert await made == threading.get_ident()

    within(work())


def test_a_program_can_have_its_threads_take_shorter_turns() -> None:
    before, usual = sys.getswitchinterval(), 0.005
    try:
        sys.setswitchinterval(usual)
        take_short_turns()
        assert sys.getswitchinterval() < usual
    finally:
        sys.setswitchinterval(before)


def test_what_is_withdrawn_is_not_begun_and_whoever_waits_goes_on() -> None:
    held, begun, done = threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        begun.set()
        held.wait()
        done.append("first")

    async def work() -> None:
        with Threads(1, "test") as threads:
            first, second = threads.do(hold), threads.do(lambda: done.append("second"))
            third = threads.do(lambda: done.append("third"))
            await asyncio.to_thread(begun.wait)
            threads.withdraw(first)  # too late for that
            threads.withdraw(second)
            await second
            assert not first.done()
            held.set()
            await asyncio.gather(first, third)
            threads.withdraw(third)

    within(work())
    assert done == ["first", "third"]


# --- who has had much waits for who has had little ---


def held(threads: Threads, account: Account | None = None) -> tuple[Event, asyncio.Future[None]]:
    """Hold a thread until the event is set; return when it is held."""
    begun, held = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        held.wait()

    waits = threads.do(hold, account)
    begun.wait()
    return held, waits


def test_who_has_had_much_is_served_behind_who_has_had_little() -> None:
    done: list[str] = []

    async def work() -> None:
        with Threads(1, "test") as threads:
            hold, first = held(threads)
            made = [
                threads.do(partial(done.append, name), Account(seconds))
                for name, seconds in (("much", 0.08), ("some", 0.01), ("little", 0.0))
            ]
            hold.set()
            await asyncio.gather(first, *made)

    within(work())
    assert done == ["little", "some", "much"]


def test_nobody_waits_for_ever_for_those_who_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    done, now = list[str](), 0.0
    monkeypatch.setattr("lace.threads.seconds_now", lambda: now)

    async def work() -> None:
        nonlocal now
        with Threads(1, "test") as threads:
            hold, first = held(threads)
            made = [threads.do(partial(done.append, "much"), Account(1000.0))]
            now = 1.5
            made.append(threads.do(partial(done.append, "little"), Account()))
            hold.set()
            await asyncio.gather(first, *made)

    within(work())
    assert done == ["much", "little"]


def test_a_spare_thread_does_nothing_for_who_has_had_much() -> None:
    async def work() -> None:
        with Threads(1, "test", spare=1) as threads:
            hold, first = held(threads, Account(1.0))
            second = threads.do(lambda: "much", Account(1.0))
            assert await threads.do(lambda: "little") == "little"
            await asyncio.sleep(0.01)
            assert not second.done()
            hold.set()
            assert await second == "much"
            await first

    within(work())


def test_work_is_counted_on_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 1.25])
    monkeypatch.setattr("lace.threads.thread_seconds", lambda: next(times))
    account = Account()

    async def work() -> None:
        with Threads(1, "test") as threads:
            await threads.do(lambda: None, account)

    within(work())
    assert account.seconds == 0.25
