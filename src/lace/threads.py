"""Threads that work for event loops.

To wake a thread, and an event loop when the work is done, costs more than most of the work that an
exchange has for them. So a thread that is awake goes on with what waits, and whatever is done
before an event loop has listened is told to it at one go.

Who has had much work done waits for who has had little, up to a second; and there can be threads
that only do the work of the latter. Where nobody else waits, nobody waits at all.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from threading import Lock
from typing import Any, Final, TypeVar

from lace.clock import seconds_now, thread_seconds

T = TypeVar("T")

_TURN_SECONDS: Final = 0.0003
_WAITS_FOR: Final = 10.0  # seconds, for each second of work that was done on the same account
_PUT_OFF_SECONDS: Final = 1.0
_MUCH: Final = 0.03  # seconds of work; who has had more leaves a thread to others

_HAS_NO_THREADS: Final = sys.platform == "emscripten"  # a page, where work is done at once


@dataclass(slots=True, eq=False)
class Account:
    """How long threads have computed for somebody."""

    seconds: float = 0.0


@dataclass(slots=True, eq=False)
class _Task:
    """What is to be done, and who waits for it."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    work: Callable[[], Any]
    account: Account
    due: float
    """Tasks are done in this order."""
    result: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        began = thread_seconds()
        try:
            self.result = self.work()
        except StopIteration as error:  # a future takes any error but this one
            self.error = RuntimeError("StopIteration was raised by work in a thread")
            self.error.__cause__ = error
        except BaseException as error:  # noqa: BLE001 (whoever waits for it meets it)
            self.error = error
        self.account.seconds += thread_seconds() - began

    def tell(self) -> None:
        """Tell whoever waits, in the thread of the event loop."""
        if self.future.done():
            return  # nobody waits any more
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class _Line:
    """Tasks that wait, in the order in which they are due."""

    def __init__(self) -> None:
        self._tasks: list[tuple[float, int, _Task]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, task: _Task) -> None:
        heappush(self._tasks, (task.due, next(self._numbers), task))

    @property
    def due(self) -> float:
        """When the first one is due; never if there is none."""
        return self._tasks[0][0] if self._tasks else inf

    def take(self) -> _Task:
        return heappop(self._tasks)[2]

    def take_out(self, future: asyncio.Future[Any]) -> list[_Task]:
        """Return those that somebody waits for by this future; they do not wait any more."""
        found = [entry for entry in self._tasks if entry[2].future is future]
        if found:
            self._tasks = [entry for entry in self._tasks if entry[2].future is not future]
            heapify(self._tasks)
        return [task for _, _, task in found]

    def clear(self) -> list[_Task]:
        """Return all; none waits any more."""
        left, self._tasks = self._tasks, []
        return [task for _, _, task in left]


class Threads(ThreadPoolExecutor):
    """Threads that take their work in the order in which it was given, and is due."""

    def __init__(self, most: int, name: str, *, spare: int = 0) -> None:
        """``spare`` is how many threads there are besides, for those who have had little."""
        super().__init__(most + spare, name)
        self._most, self._most_with_much = most + spare, most
        self._guard = Lock()
        self._little, self._much = _Line(), _Line()
        self._busy_with_much = 0
        self._awake = 0
        self._told: dict[asyncio.AbstractEventLoop, list[_Task]] = {}

    def do(self, work: Callable[[], T], account: Account | None = None) -> asyncio.Future[T]:
        """Do something in one of the threads; to be called in that of the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        account = account or Account()
        waits = min(_PUT_OFF_SECONDS, account.seconds * _WAITS_FOR)
        task = _Task(loop, future, work, account, seconds_now() + waits)
        if _HAS_NO_THREADS:
            task.run()
            task.tell()
            return future
        with self._guard:
            if self._awake < self._most:
                self.submit(self._work)
                self._awake += 1
            (self._much if account.seconds > _MUCH else self._little).add(task)
        return future

    @property
    def waiting(self) -> int:
        """How much waits that no thread has begun with."""
        with self._guard:
            return len(self._little) + len(self._much)

    def withdraw(self, future: asyncio.Future[None]) -> None:
        """Leave undone what no thread has begun with; whoever waits for it goes on as if it were.

        It does nothing to what a thread has begun with.
        """
        with self._guard:
            waiting = self._little.take_out(future) or self._much.take_out(future)
        for task in waiting:
            task.tell()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End when everything is done, or at once with what is being done."""
        if cancel_futures:
            with self._guard:
                left = self._little.clear() + self._much.clear()
            for task in left:
                with suppress(RuntimeError):  # the loop may be gone already
                    task.loop.call_soon_threadsafe(task.future.cancel)
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _work(self) -> None:
        """Do what waits, until nothing does that may be done now."""
        while (found := self._next()) is not None:
            task, is_much = found
            task.run()
            with self._guard:
                self._busy_with_much -= is_much
                told = self._told.get(task.loop)
                if told is not None:
                    told.append(task)
                    continue
                self._told[task.loop] = [task]
                self._drop_closed()
            try:
                task.loop.call_soon_threadsafe(self._tell, task.loop)
            except RuntimeError:  # the loop is gone, and whoever waited with it
                with self._guard:
                    self._told.pop(task.loop, None)

    def _drop_closed(self) -> None:
        """Keep nothing for event loops that were closed before they listened."""
        for loop in [loop for loop in self._told if loop.is_closed()]:
            del self._told[loop]

    def _next(self) -> tuple[_Task, bool] | None:
        """Return the task that is due first, and whether it is one of those who had much."""
        with self._guard:
            while (line := self._first_line()) is not None:
                task = line.take()
                if not task.future.cancelled():
                    is_much = line is self._much
                    self._busy_with_much += is_much
                    return task, is_much
            self._awake -= 1
            return None

    def _first_line(self) -> _Line | None:
        """Return the line whose turn it is; None if whoever does the rest is awake."""
        may_be_much = self._busy_with_much < self._most_with_much
        if self._much and may_be_much and self._much.due < self._little.due:
            return self._much
        return self._little or None

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._guard:
            done = self._told.pop(loop)
        for task in done:
            task.tell()


def take_short_turns() -> None:
    """Let the threads of this process take shorter turns than Python's five milliseconds.

    An event loop gives its turn away with each call of the system, and has to wait for it again
    while another thread computes. What it does for a peer makes dozens of such calls. It holds for
    the whole process, so it is for programs, not for libraries.
    """
    sys.setswitchinterval(_TURN_SECONDS)


def do(
    executor: Executor, work: Callable[[], T], account: Account | None = None
) -> asyncio.Future[T]:
    """Do something in threads of any kind, on somebody's account."""
    if isinstance(executor, Threads):
        return executor.do(work, account)
    return asyncio.get_running_loop().run_in_executor(executor, work)
