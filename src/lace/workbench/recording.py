"""A run as one document that a page can step through, forwards and backwards, without an engine.

Everything a page may show is worked out here, once, while the run happens: what each side has and
has heard of after every message, what its policy says and why, what was learned from what. Equal
states are kept once and referred to by number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from lace._version import __version__
from lace.datalog.ast import Predicate
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.interlace.phases import Phase
from lace.policy.audit import audit
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet
from lace.policy.plan import ExchangePlan
from lace.policy.view import evaluate_local, evaluate_peer
from lace.record.facts import fields, links
from lace.record.model import Record
from lace.recordstore.base import StoreRecordId
from lace.scenario.build import Built
from lace.scenario.expect import Kind, Sentence
from lace.scenario.link import Delivery, Link, Message, crossing_bytes
from lace.scenario.run import Checked, Meeting, Run, StepRun, World
from lace.scenario.verdicts import check, check_step
from lace.scenario.write import write_scenario
from lace.workbench.changes import Changes
from lace.workbench.explain import stopped_json, verdicts_json
from lace.workbench.inspector import inspection_json
from lace.workbench.ledger import ledger_json
from lace.workbench.rules import hits, rules_json
from lace.workbench.words import Words, facts_of, lines_of

FORMAT: Final = "lace-recording/1"
MOST_STEPS: Final = 10_000
_ADVERTISED: Final = Predicate("Advertised", 2)
_EXPLAINED: Final = 60
_MOST_LINES: Final = 2000
_READ: Final = 100_000
_STORED_KINDS: Final = frozenset((Kind.HAS, Kind.LACKS, Kind.HAS_ONLY))

Json = dict[str, Any]


@dataclass(slots=True)
class _Once:
    """Values by number, equal ones once."""

    values: list[Any] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, value: Any) -> int:
        key = json.dumps(value, sort_keys=True)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def record_run(built: Built, changes: Changes | None = None) -> Json:
    """Run a scenario with what was changed about it, and return the whole recording."""
    return _Recorder(built, changes or Changes()).record()


@dataclass(slots=True)
class _Recorder:
    built: Built
    changes: Changes
    records: dict[str, Record] = field(default_factory=dict)
    policies: _Once = field(default_factory=_Once)
    tables: _Once = field(default_factory=_Once)

    def record(self) -> Json:
        scenario = self.built.scenario
        run = Run(self.built, [], World.begin(self.built))
        self.records |= {str(record.hash): record for record in self.built.records.values()}
        scenes = [self._scene(run, number) for number in range(len(scenario.steps))]
        return {
            "format": FORMAT,
            "engine": __version__,
            "scenario": self._scenario(),
            "changes": self.changes.to_json(),
            "records": {hash: self._record(record) for hash, record in self.records.items()},
            "policies": self.policies.values,
            "tables": self.tables.values,
            "scenes": scenes,
        }

    # --- what there is ---

    def _scenario(self) -> Json:
        built, scenario = self.built, self.built.scenario
        return {
            "name": scenario.name,
            "title": scenario.title,
            "story": scenario.story,
            "now": scenario.now,
            "columns": list(scenario.columns),
            "keys": {id: str(key.verifier) for id, key in built.keys.items()},
            "toml": write_scenario(scenario),
            "peers": [self._peer(peer.id) for peer in scenario.peers],
            "fields": sorted({n for r in built.records.values() for n, _, _ in fields(r)}),
        }

    def _peer(self, id: str) -> Json:
        peer = self.built.scenario.peer(id)
        text = self.built.scenario.rules_text(peer.rules)
        exposed = [t for t in peer.expose if ":-" in t]
        return {
            "id": id,
            "title": peer.title,
            "verifier": self.built.verifier(id),
            "rules": text,
            "shared": peer.rules if text != peer.rules else None,
            "checked": rules_json(text, self.built.values),
            "expose": list(peer.expose),
            "exposed": [rules_json(t, self.built.values, Facet.EXPOSE) for t in exposed],
        }

    def _record(self, record: Record) -> Json:
        return {
            "id": self.built.ids.get(str(record.hash)),
            "type": record.type,
            "fields": [[name, index, value] for name, index, value in fields(record)],
            "links": [[link.name, link.data, link.target] for link in links(record)],
            "data": record.data[:400].decode("utf-8", "backslashreplace"),
            "inspection": inspection_json(record.raw),
        }

    # --- what happens ---

    def _scene(self, run: Run, number: int) -> Json:
        world, scenario = run.world, self.built.scenario
        step = scenario.steps[number]
        world.prepare(number)
        before = {peer.id: world.held(peer.id) for peer in scenario.peers}
        scene: Json = {
            "number": number, "say": step.say, "pair": step.interlace, "now": world.now,
            "before": {peer: list(held) for peer, held in before.items()},
            "rules": {id: scenario.rules_text(text) for id, text in step.rules},
        }  # fmt: skip
        meeting = None
        held_after: list[dict[str, list[str]]] = []
        if step.interlace is not None:
            meeting = self.changes.meet(world, number)
            tracker = _Tracker(self, meeting, world)
            scene["frames"] = tracker.frames(self.changes.steps(meeting, world, number), held_after)
            scene["messages"] = tracker.messages()
            scene["ledger"] = ledger_json(meeting, tracker.words)
            scene["plan"] = _plan_json(meeting.link)
            scene["stopped"] = stopped_json(meeting)
            scene["audits"] = [_audit_json(meeting.link.whole_policy(side)) for side in (0, 1)]
            scene["cut"] = max(0, len(meeting.deliveries) - MOST_STEPS)
        held = {peer.id: world.held(peer.id) for peer in scenario.peers}
        run.steps.append(StepRun(number=number, say=step.say, meeting=meeting, held=held))
        run.steps[-1].checks = check_step(run)
        scene["after"] = held
        scene["checks"] = self._checks(run, held_after)
        return scene

    def _checks(self, run: Run, held_after: list[dict[str, list[str]]]) -> list[Json]:
        """Return the verdicts on this step's sentences, and since when each one holds."""
        step = run.steps[-1]
        sentences = list(run.built.sentences[step.number])
        results = list(step.checks)
        found: list[Json] = []
        offset = len(results) - len(sentences)  # the way it ends comes first
        for index, result in enumerate(results):
            sentence = sentences[index - offset] if index >= offset else None
            since = None
            if sentence is not None and sentence.kind in _STORED_KINDS:
                since = _since(run, sentence, held_after)
            found.append(_check_json(result) | {"since": since})
        for text, watched in self.changes.watches(self.built):
            since = None
            if isinstance(watched, str):  # the reason why it cannot be read
                result = Checked(text=text, ok=False, detail=watched)
            else:
                ok, detail = check(watched, run)
                result = Checked(text=text, ok=ok, detail=detail)
                if watched.kind in _STORED_KINDS:
                    since = _since(run, watched, held_after)
            found.append(_check_json(result) | {"since": since, "watch": True})
        return found


def _since(run: Run, sentence: Sentence, held_after: list[dict[str, list[str]]]) -> int | None:
    """Return the first step from which on a sentence about stores stays true."""
    since: int | None = None
    final = run.steps[-1].held
    last: dict[str, list[str]] | None = None
    ok = False
    for number, held in enumerate(held_after):
        if held != last:
            run.steps[-1].held = held
            ok, _ = check(sentence, run)
            last = held
        if ok and since is None:
            since = number
        elif not ok:
            since = None
    run.steps[-1].held = final
    return since


def _check_json(check: Checked) -> Json:
    return {"text": check.text, "ok": check.ok, "detail": check.detail}


def _plan_json(link: Link) -> Json | None:
    policy = link.policy(0) or link.policy(1)
    if policy is None:
        return None
    plan: ExchangePlan = policy.plan
    return {
        "id": plan.id,
        "transcript": plan.transcript,
        "lowering": plan.lowering.name,
        "fields": None if plan.required_fields is None else sorted(plan.required_fields),
        "operands": [
            {"index": o.index, "origin": o.origin, "verifier": o.verifier, "module": o.module.id}
            for o in plan.operands
        ],
    }


def _audit_json(policy: ExchangePolicy | None) -> Json | None:
    if policy is None:
        return None
    report = audit(policy)
    return {
        "holds": report.holds,
        "sentences": report.sentences(),
        "viewer": report.viewer,
        "records": report.records,
        "visible": report.visible,
        "hidden_matter": report.hidden_matter,
        "declassified": [[d.record, list(d.hidden)] for d in report.declassified],
        "baits": [{"field": b.field, "value": b.value, "learned": b.learned} for b in report.baits],
    }


@dataclass(slots=True)
class _Tracker:
    """Follows one exchange from outside: what it sees is what crossed, and what policies say."""

    recorder: _Recorder
    meeting: Meeting
    world: World
    words: Words = field(init=False)
    _heard: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    _asked: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))
    _rejected: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    _policy: list[int | None] = field(default_factory=lambda: [None, None])
    _table: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        scenario = self.recorder.built.scenario
        titles = tuple(scenario.peer(id).title for id in self.pair)
        self.words = Words(self.recorder.built, (titles[0], titles[1]))

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
            if len(frames) <= MOST_STEPS:
                frames.append(self._frame(delivery))
                held_after.append(self._held())
        return frames

    def _held(self) -> dict[str, list[str]]:
        peers = self.recorder.built.scenario.peers
        return {peer.id: self.world.held(peer.id) for peer in peers}

    def _frame(self, delivery: Delivery) -> Json:
        self._follow(delivery)
        if delivery.evaluated:
            self._policy[delivery.to] = self._policy_number(delivery.to)
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
            "sentence": self.words.delivery(delivery),
            "tables": list(self._table),
            "policies": list(self._policy),
        }

    def _follow(self, delivery: Delivery) -> None:
        me = delivery.to
        if delivery.message is not None:
            for fact in facts_of(delivery.message.crossing):
                if fact[0] == "Advertised":
                    self._heard[me].add(fact[1])
                elif fact[0] == "NotAvailable":
                    self._asked[me].discard(fact[1])
        for message in delivery.sent:
            for fact in facts_of(message.crossing):
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

    def _advertised(self, index: int) -> set[str]:
        policy = self.link.policy(index)
        known = set() if policy is None else {r[0] for r in policy.source.iterate(_ADVERTISED)}
        return known | self._heard[index]

    def _policy_number(self, index: int) -> int | None:
        policy = self.link.policy(index)
        if policy is None:
            return None
        held = {str(h) for h in self.world.held(self.pair[index])}
        advertised = self._advertised(index)
        self._heard[index].clear()
        explained = sorted(held)[:_EXPLAINED], sorted(advertised - held)[:_EXPLAINED]
        mine = evaluate_local(policy.local.module, policy.source)
        theirs = evaluate_peer(policy.peer.module, policy.source, policy.visible)
        return self.recorder.policies.number(
            {
                "may_send": sorted(row[0] for row in policy.may_send),
                "may_request": sorted(row[0] for row in policy.may_request),
                "visible": sorted(set(policy.visible) & held),
                "viewer": policy.peer.viewer,
                "verdicts": verdicts_json(policy, set(explained[0]), set(explained[1])),
                "hits": hits(mine),
                "peer_hits": hits(theirs),
                "unexplained": max(0, len(held) + len(advertised - held) - 2 * _EXPLAINED),
            }
        )

    def _rows(self, index: int) -> int:
        """Return the number of the table that one side shows now."""
        store = self.world.stores[self.pair[index]]
        held = [str(stored.hash) for stored in store.read(StoreRecordId(0), _READ)]
        policy = self.link.policy(index)
        sendable = {row[0] for row in policy.may_send} if policy else set()
        requestable = {row[0] for row in policy.may_request} if policy else set()
        visible = set(policy.visible) if policy else None
        rows: list[Json] = []
        for hash in held:
            self._know(store.load(RecordHash(hash)))
            row: Json = {"hash": hash, "state": "have", "sendable": hash in sendable}
            if visible is not None:
                row["hidden"] = hash not in visible
            rows.append(row)
        for hash in sorted((self._advertised(index) | set(self._rejected[index])) - set(held)):
            if hash in self._rejected[index]:
                state = "rejected"
            elif hash in self._asked[index]:
                state = "in flight"
            elif hash in requestable:
                state = "requestable"
            else:
                state = "advertised"
            rows.append({"hash": hash, "state": state, "code": self._rejected[index].get(hash)})
        return self.recorder.tables.number(rows)

    def _know(self, record: Record | None) -> None:
        if record is not None:
            self.recorder.records.setdefault(str(record.hash), record)

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
            "lines": lines[:_MOST_LINES], "more": max(0, len(lines) - _MOST_LINES),
        }  # fmt: skip
        if isinstance(crossing, m.PeerModule):
            made["module"] = crossing.id
        if isinstance(crossing, m.PeerFacts):
            key = (message.sender, str(message.phase))
            before = set(previous.get(key, ()))
            if key in previous:
                made["added"] = [line for line in lines if line not in before][:_MOST_LINES]
                made["removed"] = sorted(before - set(lines))[:_MOST_LINES]
            previous[key] = lines
        if message.original is not None:
            made["arrived"] = lines_of(message.crossing)[:_MOST_LINES]
            if isinstance(message.crossing, m.PeerRecord):
                made["inspection"] = inspection_json(message.crossing.raw)
        return made


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
