"""Where the rules of a peer are evaluated: here, or in a place that can be stopped.

Whoever evaluates elsewhere gives a ``Foreign``. What it does takes steps: each yields a ``Job``.
Whoever drives the evaluation waits for it, in a way of its own, before it goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from collections.abc import Set as AbstractSet
from typing import Protocol, TypeVar

from lace.datalog.ast import Predicate
from lace.datalog.change import Change
from lace.datalog.source import MemorySource, Row
from lace.limits import Limits
from lace.policy.module import PolicyModule


class Job(ABC):
    """Something that is done elsewhere."""

    @abstractmethod
    def wait(self) -> None:
        """Return when it is done, well or not."""

    @abstractmethod
    def when_done(self, call: Callable[[], None]) -> None:
        """Call a function, from any thread, when it is done; at once if it is."""

    @abstractmethod
    def cancel(self) -> None:
        """End it: nobody waits for what would come of it."""


T = TypeVar("T")
Steps = Generator[Job, None, T]
"""Goes on when the job that it yielded is done."""


def finish(steps: Steps[T]) -> T:
    """Wait for everything that steps wait for, and return what comes of them."""
    try:
        while True:
            next(steps).wait()
    except StopIteration as done:
        result: T = done.value
        return result


class ForeignRules(Protocol):
    """The rules of a peer over what they may see, evaluated somewhere."""

    def rows(self, facet: Predicate) -> AbstractSet[Row]:
        """Return what they select."""

    def follow(
        self,
        old: MemorySource,
        new: MemorySource,
        limits: Limits,
        whole: Callable[[], MemorySource],
    ) -> Steps[dict[Predicate, Change]]:
        """Follow a change of what they may see; return how the facets changed.

        ``whole`` returns all that they may see now, for one who has lost it.
        """


class Foreign(Protocol):
    """Evaluates rules of a peer somewhere, within limits."""

    def is_needed(self, module: PolicyModule) -> bool:
        """Whether rules are a stranger's; those that are one's own, too, are evaluated here."""

    def admit(self) -> Steps[None]:
        """Wait until there is time for a stranger's rules, before anything is done for them."""

    def evaluate(
        self, module: PolicyModule, shown: MemorySource, limits: Limits
    ) -> Steps[ForeignRules]:
        """Evaluate rules over facts, all of which they may see."""
