"""One exchange, followed from outside: a frame for each step, and every message that crossed.

Equal states are kept once and referred to by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lace.interlace import messages as m
from lace.interlace.phases import Phase
from lace.limits import WORKBENCH
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.scenario.link import Delivery, Link, Message, crossing_bytes
from lace.scenario.run import Meeting, World
from lace.vocabulary import ADVERTISED, ADVERTISED_FIELD
from lace.workbench.explain import verdicts_json
from lace.workbench.inspector import inspection_json
from lace.workbench.places import Places
from lace.workbench.rules import hits
from lace.workbench.sentences import Words, facts_of, lines_of
from lace.workbench.tables import FieldValue, table_of

_EXPLAINED: Final = 60
_READ: Final = 100_000

Json = dict[str, Any]


@dataclass(slots=True)
class Once:
    """Values by number, equal ones once."""

    values: list[Any] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


@dataclass(slots=True)
class Seen:
    """Everything that frames refer to."""

    records: dict[str, Record] = field(default_factory=dict)
    policies: Once = field(default_factory=Once)
    tables: Once = field(default_factory=Once)


_Told = dict[str, dict[tuple[str, str], str]]
"""Records that a side has heard of; for each, the values it was told by name and index."""


@dataclass(slots=True)
class Tracker:
    """Follows one exchange from outside: what it sees is what crossed, and what policies say."""

    seen: Seen
    meeting: Meeting
    world: World
    words: Words = field(init=False)
    _heard: tuple[_Told, _Told] = field(default_factory=lambda: ({}, {}))
    _asked: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    _places: Places = field(default_factory=Places)
    _rejected: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    _policy: list[int | None] = field(default_factory=lambda: [None, None])
    _table: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        scenario = self.world.built.scenario
        titles = tuple(scenario.peer(id).title for id in self.pair)
        self.words = Words(self.world.built, (titles[0], titles[1]))

    @property
    def link(self) -> Link:
        return self.meeting.link

    @property
    def pair(self) -> tuple[str, str]:
        return self.meeting.pair

    def frames(
        self, deliveries: Iterator[Delivery], held_after: list[dict[str, list[str]]]
    ) -> list[Json]:
        """Run the exchange; return one frame for each input."""
        self._table = [self._rows(0), self._rows(1)]
        if self.meeting.first:
            self._policy = [self._policy_number(0), self._policy_number(1)]
        start = {"tables": list(self._table), "policies": list(self._policy)}
        frames: list[Json] = [{"sentence": "Nothing has been said yet.", "step": -1} | start]
        held_after.append(self._held())
        for delivery in deliveries:
            if len(frames) <= WORKBENCH.steps:
                frames.append(self._frame(delivery))
                held_after.append(held_after[-1] if _only_waits(delivery) else self._held())
        return frames

    def _held(self) -> dict[str, list[str]]:
        peers = self.world.built.scenario.peers
        return {peer.id: self.world.held(peer.id) for peer in peers}

    def _frame(self, delivery: Delivery) -> Json:
        self._follow(delivery)
        if delivery.evaluated:
            self._policy[delivery.to] = self._policy_number(delivery.to)
        if not _only_waits(delivery):
            self._table[delivery.to] = self._rows(delivery.to)
        return {
            "step": delivery.number - self.meeting.first,
            "to": delivery.to,
            "kind": type(delivery.given).__name__,
            "message": delivery.message.number if delivery.message else None,
            "before": str(delivery.before),
            "after": str(delivery.after),
            "loop": delivery.loop,
            "sent": [message.number for message in delivery.sent],
            "lost": [message.number for message in delivery.lost],
            "events": [_event_json(event, self.words) for event in delivery.events],
            "sentence": self.words.delivery(delivery) + self._standing(delivery),
            "tables": list(self._table),
            "policies": list(self._policy),
        }

    def _standing(self, delivery: Delivery) -> str:
        """Return where a stored record stands among the versions that its side has, if any."""
        me = self.words.titles[delivery.to]
        rows: list[Json] = self.seen.tables.values[self._table[delivery.to]]
        saved = {e.hash for e in delivery.events if isinstance(e, m.RecordSaved)}
        said = ""
        for row in rows:
            if row["hash"] in saved and "at" in row:
                held = [r for r in rows if r.get("at") == row["at"] and r["state"] == "have"]
                name = self.world.built.id_of(row["hash"])
                if len(held) > 1 and row.get("tip"):
                    said += f" {name} is now the newest that {me} has at {row['at']}."
                elif len(held) > 1:
                    said += f" {me} already had something newer than {name} at {row['at']}."
        return said

    def _follow(self, delivery: Delivery) -> None:
        me = delivery.to
        if delivery.message is not None:
            self._places.hear(delivery.message)
            for fact in facts_of(delivery.message.crossing):
                if fact[0] == "Advertised":
                    self._heard[me].setdefault(fact[1], {})
                elif fact[0] == "AdvertisedField":
                    told = self._heard[me].setdefault(fact[1], {})
                    told[(fact[3], fact[4])] = fact[5]
                elif fact[0] == "NotAvailable":
                    self._asked[me].discard(fact[1])
        for message in delivery.sent:
            for fact in self._places.facts(message):
                if fact[0] == "MayRequest":
                    self._asked[me].add(fact[1])
        for event in delivery.events:
            match event:
                case m.RecordSaved() | m.RecordDuplicate():
                    self._asked[me].discard(event.hash)
                    self._rejected[me].pop(event.hash, None)
                case m.RecordRejected():
                    self._asked[me].discard(event.hash)
                    self._rejected[me][event.hash] = str(event.code)
        if delivery.after is not delivery.before and delivery.before is Phase.TRANSFER:
            self._asked[me].clear()  # what did not come was put off

    def _advertised(self, index: int) -> _Told:
        """Return what one side has heard of, with the fields it was told."""
        policy = self.link.policy(index)
        known: _Told = {}
        if policy is not None:
            known |= {row[0]: {} for row in policy.source.iterate(ADVERTISED)}
            for hash, _, name, number, value in policy.source.iterate(ADVERTISED_FIELD):
                known.setdefault(hash, {})[(name, number)] = value
        return known | self._heard[index]

    def _policy_number(self, index: int) -> int | None:
        policy = self.link.policy(index)
        if policy is None:
            return None
        held = {str(h) for h in self.world.held(self.pair[index])}
        advertised = set(self._advertised(index))
        self._heard[index].clear()
        explained = sorted(held)[:_EXPLAINED], sorted(advertised - held)[:_EXPLAINED]
        mine, theirs = policy.explainers()
        may_send, may_request = self._allowed(index)
        verdicts = verdicts_json(policy, set(explained[0]), set(explained[1]))
        self._correct(index, verdicts)
        return self.seen.policies.number(
            {
                "may_send": sorted(may_send),
                "may_request": sorted(may_request),
                "visible": sorted(set(policy.visible) & held),
                "viewer": policy.peer.viewer,
                "verdicts": verdicts,
                "hits": hits(mine.evaluation),
                "peer_hits": hits(theirs.evaluation),
                "unexplained": max(0, len(held) + len(advertised - held) - 2 * _EXPLAINED),
            }
        )

    def _correct(self, index: int, verdicts: Json) -> None:
        """Let verdicts be what really was decided; here they are."""

    def _allowed(self, index: int) -> tuple[set[str], set[str]]:
        """Return what one side may send and what it may ask for."""
        policy = self.link.policy(index)
        if policy is None:
            return set(), set()
        return {row[0] for row in policy.may_send}, {row[0] for row in policy.may_request}

    def _rows(self, index: int) -> int:
        """Return the number of the table that one side shows now."""
        store = self.world.stores[self.pair[index]]
        policy = self.link.policy(index)
        sendable, requestable = self._allowed(index)
        visible = set(policy.visible) if policy else None
        held: list[tuple[Record, Json]] = []
        for stored in store.read(StoreRecordId(0), _READ):
            record = store.load(stored.hash)
            assert record is not None
            self.seen.records.setdefault(str(record.hash), record)
            row: Json = {"sendable": record.hash in sendable}
            if visible is not None:
                row["hidden"] = record.hash not in visible
            held.append((record, row))
        here = {str(record.hash) for record, _ in held}
        told = self._advertised(index)
        for hash in self._rejected[index]:
            told.setdefault(hash, {})
        heard = {hash: _field_values(told[hash]) for hash in told.keys() - here}
        states = {hash: self._state(index, hash, requestable) for hash in heard}
        return self.seen.tables.number(table_of(held, heard, states))

    def _state(self, index: int, hash: str, requestable: set[str]) -> Json:
        """Return how far a record has come that one side does not have."""
        if hash in self._rejected[index]:
            state = "rejected"
        elif hash in self._asked[index]:
            state = "in flight"
        elif hash in requestable:
            state = "requestable"
        else:
            state = "advertised"
        return {"state": state, "code": self._rejected[index].get(hash)}

    # --- messages ---

    def messages(self) -> list[Json]:
        """Return every message with its lines and how they differ from the last of its kind."""
        arrived = {
            d.message.number: d.number - self.meeting.first
            for d in reversed(self.meeting.deliveries)
            if d.message is not None
        }
        previous: dict[tuple[int, str], list[str]] = {}
        made = []
        for sent_at, message in self._sent():
            made.append(self._message(message, sent_at, arrived.get(message.number), previous))
        return made

    def _sent(self) -> Iterator[tuple[int, Message]]:
        deliveries = self.meeting.deliveries
        fate = {d.message.number: d.message for d in deliveries if d.message is not None} | {
            message.number: message for d in deliveries for message in d.lost
        }
        for delivery in deliveries:
            for message in delivery.sent:
                yield delivery.number - self.meeting.first, fate.get(message.number, message)

    def _message(
        self, message: Message, sent: int, arrives: int | None,
        previous: dict[tuple[int, str], list[str]],
    ) -> Json:  # fmt: skip
        crossing = message.original or message.crossing
        lines = lines_of(crossing)
        made: Json = {
            "number": message.number, "sender": message.sender, "own": message.own,
            "phase": str(message.phase), "loop": message.loop, "kind": _KINDS[type(crossing)],
            "summary": self.words.message(message), "bytes": len(crossing_bytes(crossing)),
            "sent": sent, "arrives": arrives, "deed": message.deed, "record": message.record,
            "lines": lines[:WORKBENCH.lines], "more": max(0, len(lines) - WORKBENCH.lines),
        }  # fmt: skip
        if isinstance(crossing, m.PeerModule):
            made["module"] = crossing.id
        if isinstance(crossing, m.PeerFacts):
            key = (message.sender, str(message.phase))
            before = set(previous.get(key, ()))
            if key in previous:
                made["added"] = [line for line in lines if line not in before][: WORKBENCH.lines]
                made["removed"] = sorted(before - set(lines))[: WORKBENCH.lines]
            previous[key] = lines
        if message.original is not None:
            made["arrived"] = lines_of(message.crossing)[: WORKBENCH.lines]
            if isinstance(message.crossing, m.PeerRecord):
                made["inspection"] = inspection_json(message.crossing.raw)
        return made


def _only_waits(delivery: Delivery) -> bool:
    """Whether a record came that waits with others for the end of its phase: nothing else moved."""
    return (
        isinstance(delivery.given, m.PeerRecord)
        and not (delivery.events or delivery.sent or delivery.lost or delivery.evaluated)
        and delivery.after is delivery.before
    )


def _field_values(told: dict[tuple[str, str], str]) -> list[FieldValue]:
    """Return names and values in order; an index that is no number does no harm."""
    order = sorted((name, len(index), index) for name, index in told)
    return [(name, told[name, index]) for name, _, index in order]


_KINDS: Final = {
    m.PeerModule: "rules",
    m.PeerFacts: "facts",
    m.PeerRecord: "record",
    m.PeerPhaseEnd: "end",
}


def _event_json(event: m.Event, words: Words) -> Json:
    made: Json = {"kind": type(event).__name__, "text": words.event(event)}
    match event:
        case m.RecordSaved() | m.RecordDuplicate():
            made["hash"] = event.hash
        case m.RecordRejected():
            made |= {"hash": event.hash, "code": str(event.code), "detail": event.detail}
            made["meaning"] = event.code.meaning
        case m.Aborted():
            made |= {"code": str(event.code), "detail": event.detail, "fix": event.code.fix}
    return made
