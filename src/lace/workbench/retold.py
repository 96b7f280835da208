"""An exchange that really happened, from the journal of one side: the same timeline and reasons.

The journal is run through the machine again, so everything that this side heard and said is what it
was. What it said is shown as arrived at once, for what became of it on the way is not in a journal.
Records are those that travelled; with the lace itself also those that decided. Where reasons cannot
be found in what is there, the journal's word stands and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from lace.answering.store import StoreAnswers
from lace.driving.journal import encode, read_side, read_steps, run_step
from lace.driving.pair import as_text
from lace.errors import Code, EncodingError, LaceError, UsageError
from lace.ids import Verifier
from lace.interlace import messages as m
from lace.interlace.facts import block
from lace.interlace.machine import InterlaceMachine, Side
from lace.interlace.phases import Phase
from lace.limits import WORKBENCH
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet, module_from_text
from lace.policy.view import Exposure
from lace.record.model import Record
from lace.record.validate import validate_record
from lace.recordstore.memory import MemoryStore
from lace.scenario.build import Built
from lace.scenario.link import Delivery, Link, Message, in_phases
from lace.scenario.model import PeerSpec, Scenario, Step
from lace.scenario.run import Meeting, World
from lace.tai import Tai
from lace.workbench.changes import Changes
from lace.workbench.disclosure import ledger_json
from lace.workbench.explain import stopped_json
from lace.workbench.real import RealLace, columns_of, named_keys, named_records
from lace.workbench.recording import plan_json, recording_json
from lace.workbench.tracking import Seen, Tracker

NAME: Final = "journal"
_ANSWERS: Final = (
    m.Evaluated, m.EvaluationFailed, m.Recalled, m.Described, m.Served, m.Saved, m.StoreFailed,
)  # fmt: skip
_OUTGOING: Final = (m.SendModule, m.SendFacts, m.SendRecord, m.EndPhase)
# What a machine meets where a file says something of another type than any engine would.
_NONSENSE: Final = (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError)

Json = dict[str, Any]


def retold(
    lines: Iterable[str], title: str, lace: RealLace | None = None,
    people: Mapping[str, str] | None = None,
) -> Json:  # fmt: skip
    """Return the recording of a journal; ``lace`` is the one that kept it, for its reasons."""
    try:
        return _Retelling(_heard(lines), title, lace, dict(people or {})).record()
    except LaceError:
        raise
    except _NONSENSE:
        raise EncodingError(
            "the journal holds something that no engine writes", code=Code.JOURNAL_MALFORMED
        ) from None


# --- what the journal says ---


@dataclass(slots=True)
class _Turn:
    """One input of this side from without, with everything that came of it."""

    given: m.Input
    now: Tai
    before: Phase
    after: Phase
    loop: int
    sent: list[Message] = field(default_factory=list)
    events: list[m.Event] = field(default_factory=list)
    asked: list[m.Evaluate | m.Recall] = field(default_factory=list)
    answers: list[m.Input] = field(default_factory=list)
    came: list[Record] = field(default_factory=list)
    """Records that were stored in it."""

    @property
    def evaluates(self) -> bool:
        return any(isinstance(one, m.Evaluate) for one in self.asked)


@dataclass(slots=True)
class _Heard:
    side: Side
    turns: list[_Turn]
    peer: Verifier | None
    served: list[Record]
    came: list[Record]
    note: str
    """Why the journal was not followed to its end, if it was not."""


def _heard(lines: Iterable[str]) -> _Heard:
    reader = iter(lines)
    side = read_side(reader)
    heard = _Heard(side, [], side.peer_verifier, [], [], "")
    machine = InterlaceMachine(side)
    counts = _Counts(side.index)
    raws: dict[str, bytes] = {}
    try:
        for number, step in enumerate(read_steps(reader), 1):
            if number > WORKBENCH.journal_lines:
                heard.note = f"The journal goes on after {WORKBENCH.journal_lines:,} lines."
                break
            before = machine.phase
            effects = run_step(machine, step, number + 1)
            found = [encode(effect, whole=False) for effect in effects]
            _take(heard, step.given, step.now, before, machine.phase, effects, counts, raws)
            if found != step.effects:
                heard.note = f"From line {number + 1} on this engine does something else."
                break
    except EncodingError as error:
        if not heard.turns:
            raise
        heard.note = f"The journal ends in the middle: {error.message}."  # as when it is being kept
    if not heard.turns:
        raise UsageError(
            "the journal tells nothing: nobody came", code=Code.JOURNAL_MALFORMED,
            hint="Choose one of an exchange that began.",
        )  # fmt: skip
    return heard


@dataclass(slots=True)
class _Counts:
    """Numbers for what this side says, as a link counts them."""

    index: int
    own: int = 0
    loops: int = 0
    spoke: bool = False

    def loop(self, phase: Phase) -> int:
        return self.loops + (phase is Phase.ADVERTISE and not self.spoke)

    def message(self, said: m.Outgoing, phase: Phase) -> Message:
        self.own += 1
        advertising = phase is Phase.ADVERTISE
        made = Message(
            number=0, sender=self.index, own=self.own, phase=phase,
            loop=self.loops + advertising, crossing=as_text(said),
        )  # fmt: skip
        self.spoke = advertising and isinstance(said, m.EndPhase)
        self.loops += self.spoke
        return made


def _take(
    heard: _Heard, given: m.Input, now: Tai, before: Phase, after: Phase,
    effects: list[m.Effect], counts: _Counts, raws: dict[str, bytes],
) -> None:  # fmt: skip
    """Put one step of the machine where it belongs: an answer belongs to what asked for it."""
    if isinstance(given, m.PeerAlive) and not effects:
        return
    if isinstance(given, _ANSWERS) and heard.turns:
        turn = heard.turns[-1]
        turn.after = after
    else:
        turn = _Turn(given, now, before, after, counts.loop(before))
        heard.turns.append(turn)
    turn.answers += [given] if isinstance(given, _ANSWERS) else []
    match given:
        case m.PeerProven():
            heard.peer = given.verifier
        case m.PeerRecord():
            outcome = validate_record(given.raw)
            if outcome.value is not None:
                raws[str(outcome.value.hash)] = given.raw
        case m.Served():
            heard.served += [record for record in given.records if record is not None]
        case m.Saved():
            stored = [hash for hash, outcome in given.outcomes if outcome.code is None]
            turn.came += [validate_record(raws[h]).unwrap() for h in stored if h in raws]
            heard.came += turn.came
    said = [effect for effect in effects if isinstance(effect, _OUTGOING)]
    turn.sent += [counts.message(one, phase) for one, phase in in_phases(said, after)]
    turn.events += [effect.event for effect in effects if isinstance(effect, m.Emit)]
    turn.asked += [effect for effect in effects if isinstance(effect, m.Evaluate | m.Recall)]


# --- as a recording ---


class _Line(Link):
    """A link of which one side was heard."""

    answers: tuple[StoreAnswers | None, StoreAnswers | None] = (None, None)

    @property
    def quiet(self) -> bool:
        return False

    def policy(self, index: int) -> ExchangePolicy | None:
        answers = self.answers[index]
        return None if answers is None else answers.policy


@dataclass(slots=True)
class _Following(Tracker):
    """Follows a journal: what was decided is what it says, and proofs come from what is there."""

    mine: int = 0
    sendable: set[str] = field(default_factory=set)
    requestable: set[str] = field(default_factory=set)
    whole: bool = False
    """Whether the lace itself was there to be asked."""

    def _allowed(self, index: int) -> tuple[set[str], set[str]]:
        return (self.sendable, self.requestable) if index == self.mine else (set(), set())

    def _correct(self, index: int, verdicts: Json) -> None:
        if index != self.mine:
            return
        lacking = (
            "as the lace is by now, its rules say otherwise"
            if self.whole
            else ("what its rules looked at did not travel: open the lace beside the journal")
        )
        for what, allowed in (("send", self.sendable), ("request", self.requestable)):
            for hash, verdict in verdicts[what].items():
                if verdict["allowed"] != (hash in allowed):
                    verdict.clear()
                    verdict.update(
                        allowed=hash in allowed, layer="the journal",
                        detail=f"the journal says so; {lacking}",
                    )  # fmt: skip


@dataclass(slots=True)
class _Retelling:
    heard: _Heard
    title: str
    lace: RealLace | None
    people: dict[str, str]

    def record(self) -> Json:
        side = self.heard.side
        built = self._built()
        stores = {"here": MemoryStore(), "there": MemoryStore()}
        came = {record.hash for record in self.heard.came}
        held = self.heard.served if self.lace is None else self.lace.records
        stores["here"].save([record for record in held if record.hash not in came])
        stores["there"].save(self.heard.came)
        pair = ("here", "there") if side.index == 0 else ("there", "here")
        line = _Line(sides=(), now=self.heard.turns[0].now)  # type: ignore[arg-type]
        exposure = Exposure(default="selected") if self.lace is None else self.lace.exposure
        shadow = StoreAnswers(
            stores["here"], side.index, exposure, side.limits, parameters=side.parameters,
            whole=True,
        )  # fmt: skip
        line.answers = (shadow, None) if side.index == 0 else (None, shadow)
        world = World(built, built.scenario.now, stores, dict(built.modules))
        before = {peer: world.held(peer) for peer in stores}
        meeting = Meeting(pair=pair, link=line)
        seen = Seen()
        seen.records |= {str(record.hash): record for record in built.records.values()}
        tracker = _Following(
            seen, meeting, world, mine=side.index, whole=self.lace is not None
        )  # fmt: skip
        frames = tracker.frames(self._deliveries(line, tracker, shadow, stores), [])
        stopped = stopped_json(meeting)
        events = meeting.events(side.index)
        if any(isinstance(event, m.FixedPoint) for event in events) and not any(
            isinstance(event, m.Aborted) for event in events
        ):
            stopped["outcome"] = str(m.Ending.FIXED_POINT)  # one that stays open is closed later
        elif stopped["outcome"] == "not over":
            note = self.heard.note
            stopped["outcome"] = "not known" if note else "under way"
            stopped["sides"][side.index]["detail"] = note or "the journal goes no further"
        stopped["sides"][1 - side.index] = {
            "word": "not known",
            "detail": "it is not in the journal",
        }
        scene = {
            "number": 0, "say": built.scenario.steps[0].say, "pair": pair,
            "now": built.scenario.now, "before": before, "rules": {}, "frames": frames,
            "messages": tracker.messages(), "ledger": ledger_json(meeting, tracker.words),
            "plan": plan_json(shadow.policy), "stopped": stopped, "audits": [None, None],
            "cut": max(0, len(line.deliveries) - WORKBENCH.steps), "checks": [],
            "after": {peer: world.held(peer) for peer in stores},
        }  # fmt: skip
        return recording_json(built, "", Changes(), seen, [scene])

    def _deliveries(
        self, line: _Line, tracker: _Following, shadow: StoreAnswers, stores: dict[str, MemoryStore]
    ) -> Iterator[Delivery]:
        """Yield what this side heard, and after each what it said, as if it had arrived."""
        mine = self.heard.side.index
        numbers = _numbered(self.heard.turns, mine)
        began = Delivery(
            number=0, to=1 - mine, given=m.Started(), message=None, before=Phase.SETUP,
            after=Phase.SETUP, loop=0, sent=numbers.first, lost=(), events=(), evaluated=False,
            now=line.now,
        )  # fmt: skip
        line.deliveries.append(began)
        yield began
        for turn, message in zip(self.heard.turns, numbers.messages, strict=True):
            stores["here"].save(turn.came)
            self._evaluate(turn, tracker, shadow)
            heard = Delivery(
                number=len(line.deliveries), to=mine, given=turn.given, message=message,
                before=turn.before, after=turn.after, loop=turn.loop, sent=tuple(turn.sent),
                lost=(), events=tuple(turn.events), evaluated=turn.evaluates, now=turn.now,
            )  # fmt: skip
            line.deliveries.append(heard)
            yield heard
            for sent in turn.sent:
                if isinstance(sent.crossing, m.PeerRecord):
                    outcome = validate_record(sent.crossing.raw)
                    stores["there"].save([outcome.value] if outcome.value is not None else [])
                told = Delivery(
                    number=len(line.deliveries), to=1 - mine, given=sent.crossing, message=sent,
                    before=sent.phase, after=sent.phase, loop=sent.loop,
                    sent=numbers.after.get(sent.number, ()), lost=(), events=(), evaluated=False,
                    now=turn.now,
                )  # fmt: skip
                line.deliveries.append(told)
                yield told

    def _evaluate(self, turn: _Turn, tracker: _Following, shadow: StoreAnswers) -> None:
        for asked in turn.asked:
            try:
                if isinstance(asked, m.Recall):
                    shadow.recall(asked)
                    continue
                for _ in shadow.evaluate(asked):
                    pass
            except (LaceError, *_NONSENSE):
                shadow.drop_policy()  # more than may be worked out: no reasons are better than some
        for answer in turn.answers:
            if isinstance(answer, m.Evaluated):
                tracker.sendable |= answer.sendable.keys()
                tracker.sendable -= answer.unsendable | answer.forgotten
                tracker.requestable |= answer.requestable
                tracker.requestable -= answer.unrequestable

    def _built(self) -> Built:
        heard, side = self.heard, self.heard.side
        modules = {"here": side.module, "there": side.module}
        rules = {"here": side.module.text, "there": ""}
        for turn in heard.turns:
            if isinstance(turn.given, m.PeerModule):
                rules["there"] = turn.given.content.decode("utf-8", "replace")
                with suppress(LaceError):  # such rules end an exchange, and are shown as they came
                    modules["there"] = module_from_text(rules["there"], Facet.SELECTOR)
        names = {"here": self._title(side.verifier, "This side"),
                 "there": self._title(heard.peer, "The other side")}  # fmt: skip
        verifiers = {"here": side.verifier, "there": heard.peer}
        keys = named_keys(verifiers, self.people)
        held = () if self.lace is None else self.lace.records
        records = named_records([*heard.served, *heard.came, *held])
        ids = {str(record.hash): id for id, record in records.items()}
        exposure = Exposure() if self.lace is None else self.lace.exposure
        say = (
            f"{names['there']} {'connects to' if side.index == 0 else 'is met by'} {names['here']}."
        )
        story = (
            "What really happened, from the journal of one side. What it said is shown as arrived."
        )
        if self.lace is None:
            story += " Records are those that travelled."
        scenario = Scenario(
            name=NAME, title=self.title, story=f"{story} {heard.note}".strip(),
            now=heard.turns[0].now, keys=(), records=(),
            peers=tuple(
                PeerSpec(
                    id=id, title=names[id], key=id if verifiers[id] is not None else None,
                    rules=rules[id], expose=(),
                )
                for id in ("here", "there")
            ),
            steps=(Step(say=say, interlace=("here", "there")),),
            columns=columns_of(records.values()),
        )  # fmt: skip
        exposures = {"here": exposure, "there": Exposure()}
        return Built(scenario, keys, records, modules, exposures, {}, ((),), ids)

    def _title(self, verifier: Verifier | None, otherwise: str) -> str:
        return otherwise if verifier is None else self.people.get(verifier, otherwise)


@dataclass(slots=True)
class _Numbers:
    messages: list[Message | None]
    """What each turn of this side heard."""
    first: tuple[Message, ...]
    """What the peer said before it can have heard anything."""
    after: dict[int, tuple[Message, ...]]
    """What the peer said after it had heard a message of this side, as far as can be seen."""


def _numbered(turns: list[_Turn], mine: int) -> _Numbers:
    """Give every message its number, and the peer's a place from which they came."""
    numbers = _Numbers([], (), {})
    count, own, last = 0, 0, -1
    for turn in turns:
        message = None
        crossing = _crossing(turn.given)
        if crossing is not None:
            own += 1
            message = Message(
                number=count, sender=1 - mine, own=own, phase=turn.before, loop=turn.loop,
                crossing=crossing,
            )  # fmt: skip
            count += 1
            if last < 0:
                numbers.first += (message,)
            else:
                numbers.after[last] = (*numbers.after.get(last, ()), message)
        numbers.messages.append(message)
        for index, sent in enumerate(turn.sent):
            turn.sent[index] = Message(
                number=count, sender=mine, own=sent.own, phase=sent.phase, loop=sent.loop,
                crossing=sent.crossing,
            )  # fmt: skip
            last, count = count, count + 1
    return numbers


def _crossing(given: m.Input) -> m.Incoming | None:
    match given:
        case m.PeerModule() | m.PeerFacts() | m.PeerRecord() | m.PeerPhaseEnd():
            return given
        case m.PeerTuples():
            return m.PeerFacts(block(given.facts))
        case m.PeerValidated():
            return m.PeerRecord(given.record.raw)
    return None
