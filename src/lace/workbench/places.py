"""Requests by place, read as requests for records: a listing said before what each place is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from lace.datalog.source import Fact
from lace.errors import ProtocolError
from lace.interlace.phases import Phase
from lace.interlace.places import Listed
from lace.limits import DEFAULT_LIMITS
from lace.scenario.link import Message
from lace.workbench.sentences import facts_of

_BEGINS: Final = frozenset((Phase.ADVERTISE, Phase.IDLE))
"""Where a loop begins: who is idle is woken by what it hears."""


def _nothing() -> Listed:
    return Listed(DEFAULT_LIMITS.max_places_listed)


@dataclass(slots=True)
class Places:
    """Follows what both sides list in each loop."""

    _listed: list[Listed] = field(default_factory=lambda: [_nothing(), _nothing()])
    _begun: list[bool] = field(default_factory=lambda: [False, False])
    """Whether the last message of a side was one of those that begin a loop."""

    def hear(self, message: Message) -> None:
        """Take note of what a message lists, once it has arrived."""
        sender, begins = message.sender, message.phase in _BEGINS
        if begins and not self._begun[sender]:
            self._listed[sender] = _nothing()
        self._begun[sender] = begins
        facts = facts_of(message.crossing)
        self._listed[sender].add(fact[1] for fact in facts if fact[0] == "Advertised")

    def facts(self, message: Message) -> list[Fact]:
        """Return the facts of a message; for each place that it asks for, the record's request."""
        facts = facts_of(message.crossing)
        asks = [fact for fact in facts if fact[0] == "RequestListed"]
        if not asks:
            return facts
        try:
            records = list(self._listed[1 - message.sender].requested(asks))
        except ProtocolError:  # something was changed on the way
            return facts
        return [fact for fact in facts if fact not in asks] + [("MayRequest", r) for r in records]
