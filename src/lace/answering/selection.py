"""What a selector selects in one store, and how that changes with what is stored and forgotten."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

from lace.answering.following import Position, came_since, facts_of, look, lost_since
from lace.datalog.change import Change
from lace.datalog.maintain import Maintained
from lace.datalog.source import Fact, Row
from lace.ids import RecordHash
from lace.limits import DEFAULT_LIMITS, Limits
from lace.policy.mentions import Mentions
from lace.policy.module import PolicyModule
from lace.policy.own import evaluate_own
from lace.record.model import Record
from lace.recordstore.base import RecordStore
from lace.rules import LocalFacts
from lace.vocabulary import SELECT_HAVE

_NOTHING: Final = Change()


class Selection:
    """The records of a store that belong, kept up to date on demand; nothing else is ever shown.

    After ``update`` it is what an evaluation from scratch would select.
    """

    def __init__(
        self, store: RecordStore, module: PolicyModule, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._store = store
        self._mentions = Mentions.of([module])
        self._source = LocalFacts(limits=limits)
        snapshot, self._position = look(store)
        with snapshot:
            self._mentions.load(snapshot, self._source)
        made = evaluate_own(module.program, self._source, outputs=[SELECT_HAVE], limits=limits)
        self._maintained = Maintained(made, self._source)

    def __contains__(self, hash: str) -> bool:
        """Whether a record is here and selected."""
        return self._has((hash,))

    def hashes(self) -> set[str]:
        """Return what is here and selected."""
        return {row[0] for row in self._rows() if self._has(row)}

    def records(self) -> list[Record]:
        """Return what is selected and still here, oldest first."""
        return self.load(self.hashes())

    def is_current(self) -> bool:
        """Whether nothing was stored or forgotten since it was looked at; that costs little."""
        return Position.of(self._store) == self._position

    def update(self) -> set[str]:
        """Follow what was stored and forgotten; return what is selected now and was not before."""
        if self.is_current():
            return set()
        before = self._position
        snapshot, now = look(self._store)
        here: set[Row] = set()
        came: list[Fact] = []
        with snapshot:
            for record in came_since(before, self._store, snapshot, {}):
                if not self._source.has(("Have", record.hash)):
                    here.add((record.hash,))
                    came += self._mentions.facts(record)
            lost = lost_since(before, self._store, snapshot, self._source)
        change = self._maintained.apply(came, facts_of(lost, self._source))
        self._position = now
        # Rules may select a record before it is here.
        added = change.get(SELECT_HAVE, _NOTHING).added
        return {row[0] for row in added | here if self._has(row)}

    def load(self, hashes: set[str]) -> list[Record]:
        """Return records, oldest first; those that are gone are left out."""
        found = (self._store.load(RecordHash(hash)) for hash in hashes)
        return sorted((record for record in found if record is not None), key=_age)

    def _has(self, row: Row) -> bool:
        return row in self._rows() and self._source.has(("Have", *row))

    def _rows(self) -> AbstractSet[Row]:
        return self._maintained.evaluation.rows(SELECT_HAVE)


def _age(record: Record) -> tuple[str, str]:
    return getattr(record, "tai", ""), record.hash
