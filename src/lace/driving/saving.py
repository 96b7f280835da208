"""Records that came: validated in parts, then stored. Only what was found valid reaches a store.

Each piece of that is a job, which any thread may do: whoever drives a connection decides where.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from lace.answering.answers import Answers
from lace.errors import LaceError, Outcome, Status
from lace.interlace import messages as m
from lace.interlace.machine import Side
from lace.limits import Limits
from lace.record.model import Record
from lace.record.validate import validate_records


@dataclass(slots=True, eq=False)
class Validation:
    """A job that looks at bytes and at nothing else; it may run beside everything."""

    came: tuple[m.PeerRecord | m.PeerValidated, ...]
    limits: Limits
    outcomes: list[Outcome[Record]] = field(default_factory=list)

    def run(self) -> None:
        """Find out which records are valid."""
        raws = (given.raw for given in self.came if isinstance(given, m.PeerRecord))
        found = iter(validate_records(raws, self.limits))
        self.outcomes = [
            Outcome(Status.ACCEPTED, given.record)
            if isinstance(given, m.PeerValidated)
            else next(found)
            for given in self.came
        ]


@dataclass(slots=True, eq=False)
class Storing:
    """A job that stores; it belongs to where this side's store is used."""

    saving: Saving
    answers: Answers

    def run(self) -> None:
        """Store what is valid."""
        self.saving.store(self.answers)


Job = Validation | Storing


@dataclass(slots=True, eq=False)
class Saving:
    """One ``Save`` under way; yields its answer once there is one."""

    asked: m.Save
    validations: tuple[Validation, ...]
    size: int
    """Bytes of records."""
    _is_storing: bool = False
    _answer: m.Saved | m.StoreFailed | None = None
    _is_answered: bool = False

    @classmethod
    def of(cls, asked: m.Save, side: Side) -> Saving:
        """Return what there is to do for a question."""
        most = side.parameters.validate_at_once
        parts = (asked.came[at : at + most] for at in range(0, len(asked.came), most))
        size = sum(
            len(given.record.raw if isinstance(given, m.PeerValidated) else given.raw)
            for given in asked.came
        )
        return cls(asked, tuple(Validation(part, side.limits) for part in parts), size)

    @property
    def is_under_way(self) -> bool:
        """Whether there is no answer yet."""
        return self._answer is None and not self._is_answered

    def begin_storing(self, answers: Answers) -> list[Job]:
        """Return the job that stores, once, as soon as everything is validated."""
        if self._is_storing or not all(part.outcomes for part in self.validations):
            return []
        self._is_storing = True
        return [Storing(self, answers)]

    def store(self, answers: Answers) -> None:
        """Store what was found valid, in the order in which it came; a failure is an answer too."""
        found = [outcome for part in self.validations for outcome in part.outcomes]
        valid = [outcome.value for outcome in found if outcome.value is not None]
        try:
            stored = iter(answers.save(valid) if valid else ())
        except LaceError as error:
            self._answer = m.StoreFailed(error.code, error.message)
            return
        outcomes = (outcome if outcome.value is None else next(stored) for outcome in found)
        self._answer = m.Saved(tuple(zip(self.asked.hashes, outcomes, strict=True)))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> m.Input:
        if self._answer is None:
            raise StopIteration
        answer, self._answer, self._is_answered = self._answer, None, True
        return answer


def saved(asked: m.Save, side: Side, answers: Answers) -> Saving:
    """Validate and store here and now; return the answer."""
    saving = Saving.of(asked, side)
    for part in saving.validations:
        part.run()
    saving.store(answers)
    return saving
