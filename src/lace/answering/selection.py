"""What a selector selects in one store, and what it selects anew when more is stored."""

from __future__ import annotations

from typing import Final

from lace.answering.store import stored_after
from lace.datalog.change import Change
from lace.datalog.maintain import Maintained
from lace.datalog.source import Fact
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
    """The records of a store that belong, kept up to date on demand; nothing else is ever shown."""

    def __init__(
        self, store: RecordStore, module: PolicyModule, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._store = store
        self._mentions = Mentions.of([module])
        source = LocalFacts(limits=limits)
        with store.snapshot() as snapshot:
            self._mentions.load(snapshot, source)
            self._seen = snapshot.high_water
        made = evaluate_own(module.program, source, outputs=[SELECT_HAVE], limits=limits)
        self._maintained = Maintained(made, source)

    def hashes(self) -> set[str]:
        """Return what is selected."""
        return {row[0] for row in self._maintained.evaluation.rows(SELECT_HAVE)}

    def records(self) -> list[Record]:
        """Return what is selected and still here, oldest first."""
        return self.load(self.hashes())

    def update(self) -> set[str]:
        """Follow what was stored since; return what is selected now and was not before."""
        fresh: list[Fact] = []
        for id, record in stored_after(self._store, self._seen, {}):
            if record is not None:
                fresh += self._mentions.facts(record)
            self._seen = id
        if not fresh:
            return set()
        change = self._maintained.apply(fresh).get(SELECT_HAVE, _NOTHING)
        return {row[0] for row in change.added}

    def load(self, hashes: set[str]) -> list[Record]:
        """Return records, oldest first; those that are gone are left out."""
        found = (self._store.load(RecordHash(hash)) for hash in hashes)
        return sorted((record for record in found if record is not None), key=_age)


def _age(record: Record) -> tuple[str, str]:
    return getattr(record, "tai", ""), record.hash
