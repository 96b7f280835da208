"""Threads that work for event loops.

To wake a thread, and an event loop when the work is done, costs more than most of the work that an
exchange has for them. So a thread that is awake goes on with what waits, and whatever is done
before an event loop has listened is told to it at one go.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TURN_SECONDS: Final = 0.001

_HAS_NO_THREADS: Final = sys.platform == "emscripten"  # a page, where work is done at once


@dataclass(slots=True, eq=False)
class _Task:
    """What is to be done, and who waits for it."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    work: Callable[[], Any]
    result: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 (whoever waits for it meets it)
            self.error = error

    def tell(self) -> None:
        """Tell whoever waits, in the thread of the event loop."""
        if self.future.done():
            return  # nobody waits any more
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


class Threads(ThreadPoolExecutor):
    """Threads that take their work in the order in which it was given."""

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, name)
        self._most = most
        self._guard = Lock()
        self._tasks: deque[_Task] = deque()
        self._awake = 0
        self._told: dict[asyncio.AbstractEventLoop, list[_Task]] = {}

    def do(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do something in one of the threads; to be called in that of the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        task = _Task(loop, future, work)
        if _HAS_NO_THREADS:
            task.run()
            task.tell()
            return future
        with self._guard:
            if self._awake < self._most:
                self.submit(self._work)
                self._awake += 1
            self._tasks.append(task)
        return future

    def withdraw(self, future: asyncio.Future[None]) -> None:
        """Leave undone what no thread has begun with; whoever waits for it goes on as if it were.

        It does nothing to what a thread has begun with.
        """
        with self._guard:
            waiting = [task for task in self._tasks if task.future is future]
            for task in waiting:
                self._tasks.remove(task)
        for task in waiting:
            task.tell()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End when everything is done, or at once with what is being done."""
        if cancel_futures:
            with self._guard:
                left = list(self._tasks)
                self._tasks.clear()
            for task in left:
                with suppress(RuntimeError):  # the loop may be gone already
                    task.loop.call_soon_threadsafe(task.future.cancel)
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _work(self) -> None:
        """Do what waits, until nothing does."""
        while (task := self._next()) is not None:
            task.run()
            with self._guard:
                told = self._told.get(task.loop)
                if told is not None:
                    told.append(task)
                    continue
                self._told[task.loop] = [task]
            try:
                task.loop.call_soon_threadsafe(self._tell, task.loop)
            except RuntimeError:  # the loop is gone, and whoever waited with it
                with self._guard:
                    del self._told[task.loop]

    def _next(self) -> _Task | None:
        with self._guard:
            while self._tasks:
                task = self._tasks.popleft()
                if not task.future.cancelled():
                    return task
            self._awake -= 1
            return None

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


def do(executor: Executor, work: Callable[[], T]) -> asyncio.Future[T]:
    """Do something in threads of any kind."""
    if isinstance(executor, Threads):
        return executor.do(work)
    return asyncio.get_running_loop().run_in_executor(executor, work)
