"""Records that came: validated in parts, then stored. Only what was found valid reaches a store.

Each piece of that is a job, which any thread may do: whoever drives a connection decides where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from lace.answering.answers import Answers
from lace.errors import Code, LaceError, Outcome, Status
from lace.interlace import messages as m
from lace.interlace.advertise import digests_in_order
from lace.interlace.machine import Side
from lace.limits import Limits
from lace.record.facts import fields
from lace.record.model import Record
from lace.record.validate import validate_records

_FALSELY_ADVERTISED: Final[Outcome[Record]] = Outcome(
    Status.REJECTED, None, Code.INTERLACE_CLAIM, Code.INTERLACE_CLAIM.meaning
)


@dataclass(slots=True, eq=False)
class Validation:
    """A job that looks at bytes and claims and at nothing else; it may run beside everything."""

    asked: m.Save
    part: slice
    """Which of its records are looked at."""
    limits: Limits
    outcomes: list[Outcome[Record]] = field(default_factory=list)

    @property
    def came(self) -> tuple[m.PeerRecord | m.PeerValidated, ...]:
        """What came of the peer."""
        return self.asked.came[self.part]

    def run(self) -> None:
        """Find out which records are valid, and are what they were advertised as (L74)."""
        raws = (given.raw for given in self.came if isinstance(given, m.PeerRecord))
        found = iter(validate_records(raws, self.limits))
        outcomes = [
            Outcome(Status.ACCEPTED, given.record)
            if isinstance(given, m.PeerValidated)
            else next(found)
            for given in self.came
        ]
        truths = iter(self._truths([each.value for each in outcomes if each.value is not None]))
        self.outcomes = [
            outcome if outcome.value is None or next(truths) == claim else _FALSELY_ADVERTISED
            for outcome, claim in zip(outcomes, self.asked.claims[self.part], strict=True)
        ]

    def _truths(self, records: Sequence[Record]) -> list[bytes]:
        """Return the digests that advertisements of records have to have."""
        schema = self.asked.schema
        described = ((record.hash, tuple(sorted(fields(record, schema)))) for record in records)
        return digests_in_order(described, [self.asked.source])


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
        parts = (slice(at, at + most) for at in range(0, len(asked.came), most))
        size = sum(
            len(given.record.raw if isinstance(given, m.PeerValidated) else given.raw)
            for given in asked.came
        )
        return cls(asked, tuple(Validation(asked, part, side.limits) for part in parts), size)

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
