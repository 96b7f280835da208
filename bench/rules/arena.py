"""Engines in turns, each in a process of its own: so none can take the memory or time of others.

A workload is made in a fresh process, and the engines' processes are forked from that one, so all
see the same lists. Every round lets each engine load and evaluate once, one engine after another.
Of each, the least CPU time of all rounds counts, because noise only ever adds time.
"""

from __future__ import annotations

import gc
import hashlib
import math
import multiprocessing
import resource
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

from rules.engine import engine_module
from rules.workloads import Row, Workload

MOST_SECONDS: Final = 30
MOST_BYTES: Final = 4 << 30
_ENOUGH_SECONDS: Final = 5  # an engine that has used so much gets no further round
_HOUR: Final = 3600

_FORK: Final = multiprocessing.get_context("fork")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one engine did in one round, in seconds of CPU time."""

    load: float
    evaluate: float
    rows: int
    digest: str


@dataclass(slots=True)
class Score:
    """The least of all turns of an engine, or why there is none."""

    engine: str
    load: float = math.inf
    evaluate: float = math.inf
    together: float = math.inf
    rows: int = 0
    digest: str = ""
    reason: str = ""
    used: float = 0.0

    def take(self, turn: Turn) -> None:
        self.load = min(self.load, turn.load)
        self.evaluate = min(self.evaluate, turn.evaluate)
        self.together = min(self.together, turn.load + turn.evaluate)
        self.rows, self.digest = turn.rows, turn.digest
        self.used += turn.load + turn.evaluate


class Worker:
    """A forked process that runs ``job`` whenever it is asked to."""

    def __init__(self, job: Callable[[], Any], most_bytes: int | None = None) -> None:
        self._connection, there = _FORK.Pipe()
        self._process = _FORK.Process(target=_serve, args=(there, job, most_bytes))
        self._process.start()
        there.close()

    def ask(self, seconds: float) -> Any:
        """Return what the job returns, or raise ``RuntimeError`` with what went wrong."""
        self._connection.send(True)
        if not self._connection.poll(seconds):
            self._process.kill()
            raise RuntimeError(f"took more than {seconds} s")
        try:
            fine, answer = self._connection.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"ended with exit code {self._process.exitcode}") from None
        if not fine:
            raise RuntimeError(answer)
        return answer

    def stop(self) -> None:
        if self._process.is_alive():
            try:
                self._connection.send(False)
            except BrokenPipeError:
                self._process.kill()
        self._process.join(MOST_SECONDS)
        self._process.kill()
        self._connection.close()


def _serve(connection: Connection, job: Callable[[], Any], most_bytes: int | None) -> None:
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    while connection.recv():
        try:
            answer = True, job()
        except MemoryError:
            answer = False, "needed more memory than it may have"
        except Exception as error:  # noqa: BLE001  (whatever it is, it is shown)
            answer = False, f"{type(error).__name__}: {error}".splitlines()[0]
        connection.send(answer)


def apart(job: Callable[[], _T]) -> _T:
    """Run a job in a process of its own and return what it returns."""
    worker = Worker(job)
    try:
        answer: _T = worker.ask(_HOUR)
        return answer
    finally:
        worker.stop()


def compete(make: Callable[[], Workload], engines: Sequence[str], rounds: int) -> list[Score]:
    """Return the scores; raise unless all engines give the same answer. Run this ``apart``."""
    workload = make()
    gc.collect()
    gc.freeze()  # The lists are nobody's: no engine's garbage collection goes through them.
    with TemporaryDirectory(prefix="bench-rules-") as folder:
        scores = _scores(workload, engines, rounds, Path(folder))
    answers = {(score.rows, score.digest) for score in scores if score.digest}
    if len(answers) > 1:
        found = ", ".join(f"{s.engine}: {s.rows} {s.digest}" for s in scores if s.digest)
        raise RuntimeError(f"{workload.name}: the answers differ: {found}")
    return scores


def _scores(workload: Workload, engines: Sequence[str], rounds: int, folder: Path) -> list[Score]:
    scores = [Score(engine, reason=workload.skip.get(engine, "")) for engine in engines]
    workers = {
        score.engine: Worker(_turn_of(score.engine, workload, folder), MOST_BYTES)
        for score in scores
        if not score.reason
    }
    try:
        for _ in range(rounds + 1):  # one more, to warm up: it is the slowest
            for score in scores:
                if score.reason or score.used > _ENOUGH_SECONDS:
                    continue
                try:
                    score.take(workers[score.engine].ask(MOST_SECONDS))
                except RuntimeError as error:
                    score.reason = str(error)
    finally:
        for worker in workers.values():
            worker.stop()
    return scores


def _turn_of(name: str, workload: Workload, folder: Path) -> Callable[[], Turn]:
    def turn() -> Turn:
        engine = engine_module(name).make(name, workload, folder)
        gc.collect()
        start = time.process_time()
        engine.load()
        loaded = time.process_time()
        rows = engine.evaluate()
        done = time.process_time()
        moved = engine.load_seconds_in_evaluate
        answer = Turn(loaded - start + moved, done - loaded - moved, len(rows), digest(rows))
        del rows
        engine.close()
        return answer

    return turn


def digest(rows: Collection[Row]) -> str:
    """Return a text that is the same for the same set of rows."""
    if len(set(rows)) != len(rows):
        raise RuntimeError("an answer has a row twice")
    joined = "\n".join(sorted("\t".join(row) for row in rows))
    return hashlib.blake2b(joined.encode(), digest_size=8).hexdigest()
