"""Rules of strangers run in processes that can be stopped (L70).

A few workers are shared by all connections. Each has one question at a time. Who has used least
goes first; who waits holds no thread. A worker that is killed takes with it what it has kept, and
no more: whatever it knew can be told to another one.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from threading import Condition, Event, Thread, Timer
from typing import Any, Final

from lace.clock import seconds_now
from lace.datalog.ast import Predicate
from lace.datalog.change import Change
from lace.datalog.source import MemorySource, Row
from lace.errors import Code, LimitExceeded, PolicyError
from lace.limits import Limits
from lace.policy.foreign import Foreign, ForeignRules, Job, Steps
from lace.policy.module import PolicyModule
from lace.serving.grants import ServePolicy
from lace.serving.worker import FACETS, facts_of, read, unpack, write

_SHARE: Final = 2  # of the memory of a server: what all workers have is one in so many
_ENDING_SECONDS: Final = 1.0  # for what nobody waits for any more
_SECONDS_FOR_EACH: Final = 12  # that may pass for each second of processor time that is allowed
_LEAST_SECONDS: Final = 60.0  # that may pass in any case, so that a busy machine ends nobody
_HALF_SECONDS: Final = 60.0  # after which half of what somebody has used is forgotten
_LITTLE_SECONDS: Final = 0.01  # of use, which is not worth remembering

_PACKAGE: Final = str(Path(__file__).parents[2])  # the folder that the running package is in

_CODES: Final = {str(code): code for code in Code}

User = str
"""On whose account a question is: a host, and a connection from it."""


@dataclass(eq=False)
class Question(Job):
    """One question to a worker, from its arrival to its answer."""

    number: int
    """Of the evaluation that it is about."""
    user: User
    content: Callable[[bool], dict[str, Any]]
    """Makes it up, given whether the worker has not kept the evaluation."""
    arrived: int
    order: Workers
    answer: dict[str, Any] = field(default_factory=dict)
    _done: Event = field(default_factory=Event)
    _calls: list[Callable[[], None]] = field(default_factory=list)

    def wait(self) -> None:
        self._done.wait()

    def when_done(self, call: Callable[[], None]) -> None:
        with self.order.lock:
            if not self._done.is_set():
                self._calls.append(call)
                return
        call()

    def cancel(self) -> None:
        self.order.cancel(self)

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def settle(self, answer: dict[str, Any]) -> None:
        """Give the answer; only the first one counts."""
        with self.order.lock:
            if self._done.is_set():
                return
            self.answer = answer
            self._done.set()
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def result(self) -> dict[str, Any]:
        """Return the answer, or raise what it says."""
        if (exceeded := self.answer.get("exceeded")) is not None:
            raise LimitExceeded(
                exceeded["limit"],
                configured=exceeded["configured"],
                observed=exceeded["observed"],
            )
        if (failed := self.answer.get("failed")) is not None:
            raise PolicyError(failed[1], code=_CODES[failed[0]])
        return self.answer


@dataclass(eq=False)
class _Process:
    """One worker, started when it is first needed, and again after it was killed."""

    seconds: int
    mebibytes: int
    running: subprocess.Popen[bytes] | None = None
    question: Question | None = None
    kept: set[int] = field(default_factory=set)
    """Evaluations that it may have kept."""

    def ask(self, content: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer, or None if the process has ended over it."""
        process = self.running
        if process is None or process.poll() is not None:
            process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            write(process.stdin, marshal.dumps(content))
            said = read(process.stdout)
            answer = None if said is None else unpack(said)
        except OSError:
            answer = None
        except BaseException:
            self.kill()  # nobody knows how far it has read and written
            raise
        if answer is None:
            self.kill()
            return None
        self.kept.difference_update(answer.get("dropped", ()))
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        self.kill()
        # -P: a file in the folder where a server was started must not take part.
        command = [sys.executable, "-P", "-m", "lace.serving.worker"]
        command += [str(self.seconds), str(self.mebibytes)]
        path = os.pathsep.join(filter(None, (_PACKAGE, os.environ.get("PYTHONPATH"))))
        self.running = subprocess.Popen(  # noqa: S603 (this interpreter and this package)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
        )
        return self.running

    def kill(self) -> None:
        """End the process at once; the next question begins another one."""
        process, self.running = self.running, None
        self.kept.clear()
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                with suppress(OSError):
                    assert stream is not None
                    stream.close()
            process.wait()


class Workers:
    """A few processes, and everybody who waits for one."""

    def __init__(
        self,
        processes: int,
        *,
        seconds: int,
        mebibytes: int,
        own: Iterable[PolicyModule] = (),
    ) -> None:
        self.lock = Condition()
        self.own = frozenset(module.id for module in own)
        """Modules that are not a stranger's, whoever brings them."""
        self.started = 0
        """Questions that a worker has begun with."""
        self.killed = 0
        """Workers that were ended over a question."""
        self.longest = max(_LEAST_SECONDS, float(seconds * _SECONDS_FOR_EACH))
        """Seconds that may pass before a worker that does not answer is ended, idle or not."""
        self._processes = [_Process(seconds, mebibytes) for _ in range(processes)]
        self._waiting: list[Question] = []
        self._used: dict[User, float] = {}
        self._aged = seconds_now()
        self._numbers = count(1)
        self._arrivals = count(1)
        self._closed = False
        self._threads: list[Thread] = []

    @classmethod
    def for_policy(cls, policy: ServePolicy) -> Workers:
        """Return the workers of a server: as many as cores, two at least, if memory allows (L70).

        Together they have half of the server's memory, and connections have the rest.
        """
        room = max(1, policy.limits.memory_mib // _SHARE)
        mebibytes = min(policy.limits.rule_mib, room)
        return cls(
            min(max(2, os.cpu_count() or 1), room // mebibytes),
            seconds=policy.limits.rule_seconds,
            mebibytes=mebibytes,
            own=(module for g in policy.grants for module in (*g.sync, *g.see, *g.store)),
        )

    def for_peer(self, host: str, connection: int) -> PeerRules:
        """Return the place where the rules of one connection are evaluated."""
        return PeerRules(self, f"{host} {connection}")

    @property
    def mebibytes(self) -> int:
        """How much memory all of them may take together."""
        return sum(process.mebibytes for process in self._processes)

    @property
    def waiting(self) -> int:
        """How many questions wait for a worker."""
        return len(self._waiting)

    def ask(self, number: int, user: User, content: Callable[[bool], dict[str, Any]]) -> Question:
        """Put a question; it waits until a worker has time for it."""
        question = Question(number, user, content, next(self._arrivals), self)
        with self.lock:
            if not self._closed:
                self._start_threads()
                self._waiting.append(question)
                self.lock.notify_all()
                return question
        question.settle(_STOPPED)
        return question

    def new_number(self) -> int:
        return next(self._numbers)

    def cancel(self, question: Question) -> None:
        """End a question at once, and the process that works on it if it goes on for long.

        To begin another process costs more than what is left of most questions.
        """
        with self.lock:
            if question in self._waiting:
                self._waiting.remove(question)
            elif not question.is_done and not self._closed:
                ending = Timer(_ENDING_SECONDS, self._kill, (question,))
                ending.daemon = True
                ending.start()
        question.settle(_STOPPED)

    def _kill(self, question: Question) -> None:
        """End the process that works on a question, if one still does."""
        with self.lock:
            for process in self._processes:
                if process.question is question and process.running is not None:
                    process.running.kill()

    def close(self) -> None:
        """End everything at once: whoever waits hears that it was stopped."""
        with self.lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            working = [p.question for p in self._processes if p.question is not None]
            self.lock.notify_all()
        for question in (*waiting, *working):
            question.settle(_STOPPED)
        for thread in self._threads:
            while thread.is_alive():  # a process may just have been about to start
                for question in working:
                    self._kill(question)
                thread.join(_ENDING_SECONDS / 10)

    # --- one thread for each process, which waits and does nothing else ---

    def _start_threads(self) -> None:
        for process in self._processes[len(self._threads) :]:
            thread = Thread(target=self._run, args=(process,), name="lace-rules", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _run(self, process: _Process) -> None:
        while (question := self._take(process)) is not None:
            self._work(process, question)
        process.kill()

    def _take(self, process: _Process) -> Question | None:
        """Wait for the question of whoever has used least, or None at the end."""
        with self.lock:
            while not self._closed:
                mine = [question for question in self._waiting if self._is_for(question, process)]
                if mine:
                    chosen = min(mine, key=lambda question: self._rank(question, process))
                    self._waiting.remove(chosen)
                    process.question = chosen
                    self.started += 1
                    self.lock.notify_all()  # what was left to this process may go to another one
                    return chosen
                self.lock.wait()
        return None

    def _is_for(self, question: Question, process: _Process) -> bool:
        """Whether no other process is free that has kept what the question is about."""
        return question.number in process.kept or not any(
            other.question is None and question.number in other.kept for other in self._processes
        )

    def _rank(self, question: Question, process: _Process) -> tuple[float, float, bool, int]:
        return (
            round(self._used.get(_host(question.user), 0.0)),
            self._used.get(question.user, 0.0),
            question.number not in process.kept,
            question.arrived,
        )

    def _work(self, process: _Process, question: Question) -> None:
        began, wanted = seconds_now(), not question.is_done
        answer = self._ask(process, question) if wanted else None
        with self.lock:
            process.question = None
            self._account(question.user, seconds_now() - began)
            if answer is not None:
                if question.number:
                    process.kept.add(question.number)
            elif wanted:
                self.killed += 1
        question.settle(answer or _STOPPED)

    def _ask(self, process: _Process, question: Question) -> dict[str, Any] | None:
        """Return the answer of a process, or None if it has ended over the question."""
        late = Timer(self.longest, self._kill, (question,))
        late.daemon = True
        late.start()
        try:
            answer = process.ask(question.content(question.number not in process.kept))
            if answer is not None and answer.get("unknown"):
                process.kept.clear()  # it has let go of everything, or of more than it said
                answer = process.ask(question.content(True))
            if answer is not None and answer.get("unknown"):
                process.kill()
                return None
        except Exception as error:  # noqa: BLE001 (this question fails, and the others go on)
            return {"failed": [str(Code.POLICY_STOPPED), f"{type(error).__name__}: {error}"]}
        finally:
            late.cancel()
        return answer

    def _account(self, user: User, seconds: float) -> None:
        """Add up what somebody has used, and forget what was long ago."""
        now = seconds_now()
        if now - self._aged > _HALF_SECONDS / 10:
            left = 0.5 ** ((now - self._aged) / _HALF_SECONDS)
            aged = ((account, used * left) for account, used in self._used.items())
            self._used = {account: used for account, used in aged if used > _LITTLE_SECONDS}
            self._aged = now
        for account in (user, _host(user)):
            self._used[account] = self._used.get(account, 0.0) + seconds


def _host(user: User) -> User:
    return user.partition(" ")[0]


_STOPPED: Final[dict[str, Any]] = {
    "failed": [str(Code.POLICY_STOPPED), "the evaluation of a peer's rules was stopped"]
}


@dataclass(slots=True)
class PeerRules(Foreign):
    """Where the rules of one connection are evaluated."""

    workers: Workers
    user: User

    def is_needed(self, module: PolicyModule) -> bool:
        return module.id not in self.workers.own

    def admit(self) -> Steps[None]:
        question = self.workers.ask(0, self.user, lambda _: {"number": 0})
        yield question
        question.result()

    def evaluate(
        self, module: PolicyModule, shown: MemorySource, limits: Limits
    ) -> Steps[ForeignRules]:
        number = self.workers.new_number()
        whole = _whole(number, module, limits, shown)
        question = self.workers.ask(number, self.user, lambda _: whole)
        yield question
        have, advertised = map(set, question.result()["lists"])
        return _Remote(self, module, number, have, advertised)


def _whole(
    number: int, module: PolicyModule, limits: Limits, shown: MemorySource
) -> dict[str, Any]:
    return {
        "number": number,
        "rules": module.text,
        "limits": asdict(limits),
        "facts": facts_of(shown),
    }


@dataclass(slots=True)
class _Remote(ForeignRules):
    """What a worker has said of the rules of a peer."""

    place: PeerRules
    module: PolicyModule
    number: int
    have: set[Row]
    advertised: set[Row]

    def rows(self, facet: Predicate) -> AbstractSet[Row]:
        return self.have if facet == FACETS[0] else self.advertised

    def follow(
        self,
        old: MemorySource,
        new: MemorySource,
        limits: Limits,
        whole: Callable[[], MemorySource],
    ) -> Steps[dict[Predicate, Change]]:
        change = {
            "number": self.number,
            "limits": asdict(limits),
            "old": facts_of(old),
            "new": facts_of(new),
        }

        def content(forgotten: bool) -> dict[str, Any]:
            # Nothing changes before there is an answer, so that all of it can be had later, too.
            return _whole(self.number, self.module, limits, whole()) if forgotten else change

        question = self.place.workers.ask(self.number, self.place.user, content)
        yield question
        answer = question.result()
        changes: dict[Predicate, Change] = {}
        for index, facet in enumerate(FACETS):
            rows = self.have if facet == FACETS[0] else self.advertised
            if answer["whole"]:
                now = set(answer["lists"][index])
                removed, added = rows - now, now - rows
            else:
                removed, added = map(set, answer["lists"][2 * index : 2 * index + 2])
            rows -= removed
            rows |= added
            if removed or added:
                changes[facet] = Change(removed, added)
        return changes
