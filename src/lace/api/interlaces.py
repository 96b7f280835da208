"""Interlaces as applications drive them: to a fixed point, for as long as it pays, or by hand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from lace.answering.following import Position
from lace.answering.store import StoreAnswers
from lace.api.events import EventQueue, EventsMissed
from lace.api.handles import (
    Lace,
    Peer,
    as_lace,
    connect,
    has_settings,
    store_of,
    warm_links_of,
    worker_of,
)
from lace.api.policies import Exposes, Policy, as_module, exposure_of, policy_of
from lace.clock import tai_now
from lace.driving.client import Client
from lace.driving.connection import Connection, MakeAnswers, Timer
from lace.driving.exchange import Exchange
from lace.driving.journal import Journal, JournalFile
from lace.driving.pair import Pair
from lace.errors import Code, InterlaceAborted, LaceError, StoreError, UsageError, wrong_type
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.policy.view import Exposure
from lace.recordstore.base import RecordStore
from lace.recordstore.memory import MemoryStore
from lace.tai import NS_PER_SECOND, Tai, add_ns

__all__ = ["OpenInterlace", "Opening", "SteppedInterlace", "open_interlace", "sync"]

_POLL_SECONDS: Final = 1.0  # how soon it is noticed what other processes have stored
_CLOSE_SECONDS: Final = 5.0
_MEMORY: Final = "memory"
_FOREVER: Final = 1 << 40  # seconds


def other_of(left: Lace, right: Lace | Peer | str) -> Lace | Peer:
    """Return the other end that is meant: itself, a peer by name, or one by its address."""
    store_of(left)  # says so now if it was closed
    if isinstance(right, Lace | Peer):
        return right
    if not isinstance(right, str):
        raise wrong_type("a lace or a peer", right, 'Give lace.connect("tcp:…").')
    return left.peers[right] if right in left.peers else connect(right)


class Ends:
    """Hears how an exchange goes, and knows at its end whether it came to a fixed point."""

    def __init__(self, listen: Callable[[m.Event], None] | None = None) -> None:
        self._listen = listen
        self._reached = False
        self._ended: m.Closed | m.Aborted | None = None

    def __call__(self, event: m.Event) -> None:
        if isinstance(event, m.FixedPoint):
            self._reached = True
        elif isinstance(event, m.Closed | m.Aborted):
            self._ended = event
        if self._listen is not None:
            self._listen(event)

    def result(self) -> m.InterlaceResult:
        """Return what was done up to the fixed point, or raise ``InterlaceAborted``.

        An end by the limit of loops is none to raise for if all that was there at the beginning was
        exchanged: the result says so.
        """
        ended = self._ended or m.Closed(m.Ending.ASKED, m.InterlaceResult())
        if isinstance(ended, m.Aborted):
            code, detail, blame = ended.code, ended.detail, ended.blame
        elif self._reached or ended.result.ending is m.Ending.LOOPS:
            return ended.result
        elif ended.ending is m.Ending.LOOPS:
            code, detail, blame = Code.LIMIT_EXCEEDED, ended.reason, m.Blame.LOCAL
        else:
            detail = f"{ended.reason} before a fixed point"
            code = Code.INTERLACE_GONE
            blame = m.Blame.LOCAL if ended.ending is m.Ending.ASKED else m.Blame.REMOTE
        raise InterlaceAborted(detail, code=code, blame=blame, result=ended.result)


async def sync(
    left: Lace,
    right: Lace | Peer | str,
    policy: Policy | None = None,
    *,
    their_policy: Policy | None = None,
    expose: Exposes | None = None,
    their_expose: Exposes | None = None,
    listen: Callable[[m.Event], None] | None = None,
    journal: str | Path | None = None,
) -> m.InterlaceResult:
    """Interlace until the current fixed point; raise ``InterlaceAborted`` if it ends early.

    If either side stores records all the while, it ends without a fixed point after
    ``max_loop_iterations`` loops: ``fixed_point`` of the result is false then. Everything that was
    advertised at the beginning has arrived or was refused, and the next call goes on from there.

    ``right`` is a lace, a peer, the name of a peer in the settings, or an address such as
    ``tcp:host:port``. Without ``policy`` and ``expose`` the settings of the lace hold.
    ``their_policy`` and ``their_expose`` are for a peer in this process, and by default those of
    its settings, else the same as here; any other peer brings its own. ``journal`` is a new file
    for every input and effect of this side, which ``lace plumb journal replay`` runs again; it
    holds the records that came.
    """
    right = other_of(as_lace(left), right)
    with ExitStack() as stack:
        kept = None if journal is None else _new_journal(Path(journal))
        if kept is not None:
            stack.callback(kept.close)
        hear = Ends(listen)
        await _sync(left, right, (policy, their_policy), (expose, their_expose), hear, kept)
    return hear.result()


def _new_journal(path: Path) -> JournalFile:
    if path.exists():
        raise UsageError(
            f"{path} exists already",
            code=Code.INPUT_FILE,
            hint="Choose another name: a journal is never written over.",
        )
    return JournalFile(path)


async def _sync(
    left: Lace,
    right: Lace | Peer,
    policies: tuple[Policy | None, Policy | None],
    exposes: tuple[Exposes | None, Exposes | None],
    hear: Ends,
    journal: Journal | None,
) -> None:
    if isinstance(right, Lace):
        pair = _pair(left, right, policies, exposes, journal=journal)
        now = tai_now()
        pair.start(now)
        while pair.step(now):
            _tell(pair.left, hear)
            await asyncio.sleep(0)
        _tell(pair.left, hear)
        pair.end(now)
        _tell(pair.left, hear)
    else:
        client = client_of(left, right, policies[0], exposes[0])
        client.journal = lambda: journal
        await client.sync(right.address, hear)


class OpenInterlace:
    """An exchange that stays: iterate over its events, or ask for the next one."""

    def __init__(self, view: Exposure | None) -> None:
        self._view = view
        """What the peer may see, unless the application has said it."""
        self._events: EventQueue[m.Event] = EventQueue()
        self._inputs: deque[m.Order] = deque()
        self._wanted = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())

    async def next_event(self) -> m.Event | EventsMissed | None:
        """Wait for the next event; None when the exchange is over and everything was told.

        Who does not read finds the first ten thousand events, then how many were missed.
        """
        return await self._events.get()

    def __aiter__(self) -> AsyncIterator[m.Event | EventsMissed]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[m.Event | EventsMissed]:
        while (event := await self.next_event()) is not None:
            yield event

    async def fixed_point(self) -> m.InterlaceResult:
        """Wait for the next fixed point; raise ``InterlaceAborted`` if it ends before."""
        ends = Ends()
        async for event in self:
            if isinstance(event, EventsMissed):
                continue
            if isinstance(event, m.FixedPoint):
                return event.result
            ends(event)
            if isinstance(event, m.Aborted):
                break
        result = ends.result()
        if result.fixed_point:
            return result
        detail = f"{result.ending} before a fixed point"
        code = Code.LIMIT_EXCEEDED
        raise InterlaceAborted(detail, code=code, blame=m.Blame.LOCAL, result=result)

    def wake(self) -> None:
        """Look for what is new. Storing through this process does it by itself."""
        self._give(m.Woken())

    def change(self, policy: Policy) -> None:
        """Go on with another selector; what the peer may see stays as it was."""
        module = as_module(policy)
        if self._view is not None and any(v not in self._view.modules for v in module.views):
            raise UsageError(
                "what the peer may see was said by another selector", code=Code.POLICY_FACET,
                hint="Open another exchange with this policy, or say expose when you open one.",
            )  # fmt: skip
        self._give(m.OperandChanged(module))

    async def close(self) -> None:
        """End the exchange; what was stored stays stored."""
        self._give(m.CloseRequested())
        with suppress(TimeoutError, asyncio.CancelledError):
            await asyncio.wait_for(asyncio.shield(self._task), _CLOSE_SECONDS)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def waiting_events(self) -> Iterator[m.Event | EventsMissed]:
        """Yield the events that are there, without waiting for more."""
        while (event := self._events.take()) is not None:
            yield event

    # --- driving ---

    def _give(self, given: m.Order) -> None:
        self._inputs.append(given)
        self._wanted.set()

    def _wake_from_any_thread(self, _stored: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: there is nobody to wake
            self._loop.call_soon_threadsafe(self.wake)

    async def _run(self) -> None:
        try:
            await self._drive()
        finally:
            self._events.end()

    def _put(self, event: m.Event) -> None:
        if isinstance(event, m.Closed | m.Aborted):
            self._events.put_last(event)
        else:
            self._events.put(event)

    async def _drive(self) -> None:
        """Run the exchange to its end."""
        raise NotImplementedError


class _PairInterlace(OpenInterlace):
    """Two laces of this process."""

    def __init__(self, pair: Pair, laces: tuple[Lace, Lace], view: Exposure | None) -> None:
        super().__init__(view)
        self._pair = pair
        self._stores = [store_of(lace) for lace in laces]

    async def _drive(self) -> None:
        pair = self._pair
        ends = [store.subscribe(self._wake_from_any_thread) for store in self._stores]
        try:
            pair.start(tai_now())
            while not pair.left.closed:
                self._take_inputs()
                moved = pair.step(tai_now())
                _tell(pair.left, self._put)
                if moved:
                    await asyncio.sleep(0)
                elif pair.right.closed:
                    pair.lose(0, tai_now(), orderly=True)
                elif not pair.left.closed:
                    await self._rest()
            pair.end(tai_now())
            _tell(pair.left, self._put)
        finally:
            for end in ends:
                end()

    def _take_inputs(self) -> None:
        while self._inputs:
            given = self._inputs.popleft()
            self._pair.tell(0, given, tai_now())
            if isinstance(given, m.Woken):
                self._pair.tell(1, given, tai_now())

    async def _rest(self) -> None:
        """Wait for something to do: an input, a tick, or what another process may have stored."""
        self._wanted.clear()
        ticks = [side.timer.seconds for side in self._pair.sides if side.timer is not None]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wanted.wait(), min([_POLL_SECONDS, *ticks]))
            return
        for index, side in enumerate(self._pair.sides):
            if side.idle:
                self._pair.fire(index, tai_now())
                self._pair.tell(index, m.Woken(), tai_now())


class _PeerInterlace(OpenInterlace):
    """A lace of this process, and a peer at an address."""

    def __init__(
        self,
        client: Client,
        peer: Peer,
        view: Exposure | None,
        *,
        reconnect: bool,
        retry: Callable[[float, str], None] | None,
    ) -> None:
        super().__init__(view)
        self._client, self._peer = client, peer
        self._reconnect = reconnect
        self._retry = retry
        self._exchange: Exchange | None = None  # the one that stands, if one does

    async def close(self) -> None:
        """End the exchange; between two connections there is nothing to wait for."""
        if self._exchange is None and not self._task.done():
            self._put(m.Closed(m.Ending.ASKED, m.InterlaceResult()))
            self._task.cancel()
        await super().close()

    async def _drive(self) -> None:
        store = self._client.store
        end = store.subscribe(self._wake_from_any_thread)
        watching = asyncio.create_task(self._watch(store))
        hear = self._hear
        address = self._peer.address
        try:
            if self._reconnect:
                await self._client.follow(
                    address, listen=hear, begin=self._begin, retry=self._retry
                )
            else:
                exchange = await self._client.dial(address, stays=True, listen=hear)
                self._begin(exchange)
                await exchange.run()
        except LaceError as error:
            hear(m.Aborted(error.code, error.message, m.Blame.LINK, m.InterlaceResult()))
        finally:
            watching.cancel()
            end()

    def _hear(self, event: m.Event) -> None:
        if isinstance(event, m.Closed | m.Aborted):
            self._exchange = None
        self._put(event)

    def _begin(self, exchange: Exchange) -> None:
        self._exchange = exchange
        while self._inputs:
            exchange.give(self._inputs.popleft())

    def _give(self, given: m.Order) -> None:
        if self._exchange is not None:
            self._exchange.give(given)
        else:
            super()._give(given)

    async def _watch(self, store: RecordStore) -> None:
        """Wake the exchange when another process has stored, or anyone has forgotten something."""
        seen: Position | None = None
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            with suppress(StoreError):  # another process may hold the file just then
                now = Position.of(store)
                if now != seen:
                    seen = now
                    self.wake()


class Opening:
    """An exchange that is about to begin: ``async with`` it, or await it and close it yourself."""

    def __init__(self, begin: Callable[[], OpenInterlace]) -> None:
        self._begin = begin
        self._opened: OpenInterlace | None = None

    async def __aenter__(self) -> OpenInterlace:
        self._opened = self._begin()
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.close()

    def __await__(self) -> Generator[Any, None, OpenInterlace]:
        return self._open().__await__()

    async def _open(self) -> OpenInterlace:
        return self._begin()


def open_interlace(
    left: Lace,
    right: Lace | Peer | str,
    policy: Policy | None = None,
    *,
    their_policy: Policy | None = None,
    expose: Exposes | None = None,
    their_expose: Exposes | None = None,
    reconnect: bool = True,
    retry: Callable[[float, str], None] | None = None,
) -> Opening:
    """Begin an exchange that stays open; what either side stores reaches the other if it belongs.

    ``async with lace.open_interlace(…) as live`` ends it at the end of the block. With a peer at an
    address, ``reconnect`` takes the exchange up again when the connection breaks; ``retry`` is told
    how many seconds it waits before that, and why.
    """
    other = other_of(as_lace(left), right)
    view = exposure_of(left, None, policy) if expose is None else None
    if isinstance(other, Lace):
        pair = _pair(left, other, (policy, their_policy), (expose, their_expose), stays=True)
        return Opening(lambda: _PairInterlace(pair, (left, other), view))
    client = client_of(left, other, policy, expose)
    return Opening(lambda: _PeerInterlace(client, other, view, reconnect=reconnect, retry=retry))


class SteppedInterlace:
    """An exchange that moves only when it is asked to: for game loops and embedded loops.

    Each ``try_next_event`` does one bounded piece of work and never waits. Between two laces of one
    process the same steps always give the same events.
    """

    def __init__(
        self,
        left: Lace,
        right: Lace | Peer | str,
        policy: Policy | None = None,
        *,
        their_policy: Policy | None = None,
        expose: Exposes | None = None,
        stays: bool = True,
        clock: Callable[[], Tai] = tai_now,
    ) -> None:
        self._events: deque[m.Event | EventsMissed] = deque()
        self._clock = clock
        self._pair: Pair | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened: OpenInterlace | None = None
        self._ends: list[Callable[[], None]] = []
        self._woken = False
        self._alarms: dict[int, tuple[Timer, Tai]] = {}  # by side: when its timer runs out
        right = other_of(as_lace(left), right)
        if isinstance(right, Lace):
            policies = policy, their_policy
            self._pair = _pair(left, right, policies, (expose, None), stays=stays)
            self._pair.start(clock())
            self._ends = [store_of(lace).subscribe(self._wake) for lace in (left, right)]
        else:
            self._loop = asyncio.new_event_loop()
            opening = open_interlace(left, right, policy, expose=expose, reconnect=False)
            self._opened = self._loop.run_until_complete(opening._open())  # noqa: SLF001

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def try_next_event(self) -> m.Event | EventsMissed | None:
        """Do one bounded piece of work; return an event if there is one to tell."""
        if self._pair is not None:
            self._step_pair(self._pair)
        elif self._loop is not None and self._opened is not None:
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
            self._events.extend(self._opened.waiting_events())
        return self._events.popleft() if self._events else None

    def close(self) -> None:
        """End the exchange; what was stored stays stored."""
        if self._pair is not None:
            if not self._pair.left.closed:
                self._pair.tell(0, m.CloseRequested(), self._clock())
                self._pair.end(self._clock())
                _tell(self._pair.left, self._events.append)
            for end in self._ends:
                end()
            self._ends = []
        elif self._loop is not None and self._opened is not None and not self._loop.is_closed():
            self._loop.run_until_complete(self._opened.close())
            self._events.extend(self._opened.waiting_events())
            self._loop.close()

    def _step_pair(self, pair: Pair) -> None:
        now = self._clock()
        if self._woken and pair.quiet:
            self._woken = False
            for index in (0, 1):
                pair.tell(index, m.Woken(), now)
        elif pair.quiet:
            self._fire_timers(pair, now)
        pair.step(now)
        _tell(pair.left, self._events.append)

    def _fire_timers(self, pair: Pair, now: Tai) -> None:
        """Let timers run out by the clock of this exchange: while it idles, they are ticks."""
        for index, side in enumerate(pair.sides):
            timer = side.timer if side.idle else None
            alarm = self._alarms.get(index)
            if timer is None:
                self._alarms.pop(index, None)
            elif alarm is None or alarm[0] != timer:
                self._alarms[index] = timer, add_ns(now, int(timer.seconds * NS_PER_SECOND))
            elif now >= alarm[1]:
                pair.fire(index, now)

    def _wake(self, _stored: object) -> None:
        self._woken = True


# --- small things ---


def _pair(
    left: Lace,
    right: Lace,
    policies: tuple[Policy | None, Policy | None],
    exposes: tuple[Exposes | None, Exposes | None],
    *,
    stays: bool = False,
    journal: Journal | None = None,
) -> Pair:
    """Join two laces of this process. Each holds its own key, so each is proven to the other.

    Where nothing is said of the right one, its own settings hold, else the same as on the left.
    """
    mine, theirs = policies
    modules = [policy_of(left, mine)]
    modules.append(modules[0] if theirs is None and not right.policy else policy_of(right, theirs))
    exposure, their_exposure = exposes
    if their_exposure is None and not has_settings(right):
        their_exposure = exposure
    if theirs is None and not right.policy:
        theirs = mine
    exposures = (exposure_of(left, exposure, mine), exposure_of(right, their_exposure, theirs))
    sides = []
    for index, (lace, other) in enumerate(((left, right), (right, left))):
        side = Side(
            index=index,
            module=modules[index],
            open=stays,
            verifier=lace.verifier,
            peer_verifier=other.verifier,
            transport=_MEMORY,
            encrypted=True,  # nothing leaves this process
            # Whoever steps both sides may take all the time in the world.
            limits=replace(lace.limits, round_seconds=_FOREVER),
        )
        kept = journal if index == 0 else None
        sides.append(Connection(side, _answers_of(lace, exposures[index]), journal=kept))
    in_memory = (isinstance(store_of(left), MemoryStore), isinstance(store_of(right), MemoryStore))
    return Pair(sides[0], sides[1], direct=True, vouched=in_memory)


def _answers_of(lace: Lace, exposure: Exposure) -> MakeAnswers:
    warm = warm_links_of(lace)
    store = store_of(lace)  # one that is closed later fails as a store does
    return lambda side: StoreAnswers.of(store, side, exposure, lace.limits, warm)


def client_of(
    left: Lace, right: Peer, policy: Policy | None, expose: Exposes | None = None
) -> Client:
    """Return what a lace brings to exchanges with a peer at an address."""
    return Client(
        store=store_of(left),
        module=policy_of(left, policy),
        exposure=exposure_of(left, expose, policy),
        key=left.key,
        expected=right.expected,
        trust=right.trust,
        trusts_local=right.trusts_local,
        limits=left.limits,
        warm=warm_links_of(left),
        worker=worker_of(left),
    )


def _tell(side: Connection, hear: Callable[[m.Event], None]) -> None:
    for event in side.events():
        hear(event)
