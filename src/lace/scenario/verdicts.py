"""Whether a sentence is true of a run, and what was found instead where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lace.datalog.ast import Predicate
from lace.datalog.evaluate import evaluate
from lace.ids import RecordHash
from lace.interlace import messages as m
from lace.policy.audit import AuditReport, audit
from lace.policy.executable import ExchangePolicy, Layer
from lace.record.facts import facts
from lace.rules import MemorySource
from lace.scenario.compare import first_difference, kept_back, shown_by, without
from lace.scenario.expect import Kind, Sentence
from lace.scenario.run import Checked, Meeting, Run

Finding = tuple[bool, str]
"""Whether it holds, and what was found."""


def check_step(run: Run) -> list[Checked]:
    """Return what became of the expectations of the newest step, its way of ending first."""
    step = run.steps[-1]
    spec = run.built.scenario.steps[step.number]
    checks = []
    if step.meeting is not None:
        found = step.meeting.outcome
        wanted = (
            "the exchange reaches the fixed point"
            if spec.ends is m.Ending.FIXED_POINT
            else f"the exchange ends with {spec.ends}"
        )
        checks.append(Checked(text=wanted, ok=found is spec.ends, detail=f"it ended with {found}"))
    for sentence, written in zip(run.built.sentences[step.number], spec.expect, strict=True):
        ok, detail = check(sentence, run)
        checks.append(Checked(text=sentence.text, ok=ok, detail=detail, line=written.line))
    return checks


def check(sentence: Sentence, run: Run) -> Finding:
    """Return whether a sentence is true of a run as far as it has come, and what was found."""
    return _CHECKS[sentence.kind](sentence, run)


# --- what is stored ---


def _names(run: Run, peer: str) -> set[str]:
    return {run.built.id_of(hash) for hash in run.steps[-1].held[peer]}


def _has(sentence: Sentence, run: Run) -> Finding:
    held = _names(run, sentence.peer)
    missing = [id for id in sentence.records if id not in held]
    return not missing, f"missing: {_listed(missing)}" if missing else f"has {_listed(held)}"


def _lacks(sentence: Sentence, run: Run) -> Finding:
    found = [id for id in sentence.records if id in _names(run, sentence.peer)]
    return not found, f"has {_listed(found)}" if found else "none of them is there"


def _has_only(sentence: Sentence, run: Run) -> Finding:
    held = _names(run, sentence.peer)
    return held == set(sentence.records), f"has {_listed(held)}"


def _derives(sentence: Sentence, run: Run) -> Finding:
    derived = _derived(sentence, run)
    name = sentence.fact[0]
    return tuple(sentence.fact[1:]) in derived, f"{len(derived)} facts of {name} are derived"


def _derives_not(sentence: Sentence, run: Run) -> Finding:
    ok, detail = _derives(sentence, run)
    return not ok, detail


def _derived(sentence: Sentence, run: Run) -> set[tuple[str, ...]]:
    source = MemorySource()
    store = run.world.stores[sentence.peer]
    for hash in run.steps[-1].held[sentence.peer]:
        record = store.load(RecordHash(hash))
        assert record is not None
        for fact in facts(record):
            source.add(fact)
    name, *values = sentence.fact
    predicate = Predicate(name, len(values))
    evaluation = evaluate(run.world.modules[sentence.peer].program, source)
    return set(evaluation.rows(predicate))


# --- what was learned ---


def _never_learns(sentence: Sentence, run: Run) -> Finding:
    return _learned(sentence, run, sentence.records)


def _never_learns_field(sentence: Sentence, run: Run) -> Finding:
    found = [
        id
        for id, record in run.built.records.items()
        if ("Field", record.hash, sentence.field, "0", sentence.value) in set(facts(record))
    ]
    if not found:
        return False, f"no record has {sentence.field} {sentence.value}: nothing is tested"
    return _learned(sentence, run, tuple(found))


def _learned(sentence: Sentence, run: Run, records: tuple[str, ...]) -> Finding:
    """Look for the records in all that crossed to a peer, then compare with a run without them."""
    peer = sentence.peer
    heard = run.heard(peer)
    if not heard:
        return False, f"{peer} has met nobody: nothing is tested"
    owners = [id for id in run.steps[-1].held if id != peer]
    hidden = [id for id in records if any(id in _names(run, owner) for owner in owners)]
    if not hidden:
        return False, f"nobody else has {_listed(records)}: nothing is tested"
    for id in records:
        if id in _names(run, peer):
            return False, f"{peer} has {id}"
        name = run.built.hash(id).encode()
        for number, exchange in enumerate(heard, 1):
            for kind, content in exchange:
                if name in content:
                    return False, f"exchange {number}: a {kind} names {id}"
    found = first_difference(run, without(run, frozenset(records)), peer)
    if found is not None:
        return False, f"without {_listed(hidden)}, {found}"
    crossed = sum(len(exchange) for exchange in heard)
    return True, f"all {crossed} messages to {peer} are the same without {_listed(hidden)}"


def _bait(sentence: Sentence, run: Run) -> Finding:
    meeting = _meeting(sentence, run)
    whole = meeting.link.whole_policy(meeting.side(sentence.peer)) if meeting else None
    if whole is None:
        return False, "there was no exchange with rules evaluated"
    assert meeting is not None
    side = meeting.side(sentence.peer)
    compared = keeps_to_itself(run, meeting, side)
    if compared is None:
        return False, "it keeps nothing back: nothing is tested"
    if not compared[0]:
        return compared
    report = audit_in(run, meeting, side, whole)
    return report.keeps and bool(report.baits), report.sentences()[-1]


def audit_in(run: Run, meeting: Meeting, side: int, whole: ExchangePolicy) -> AuditReport:
    """Return what the other side could find out of one side, beyond what it has been told."""
    secret = {run.built.hash(id) for id in kept_back(run, meeting, side)}
    held = run.steps[-1].held[meeting.pair[side]]
    return audit(whole, [hash for hash in held if hash not in secret])


def keeps_to_itself(run: Run, meeting: Meeting, side: int) -> Finding | None:
    """Whether all that crossed is the same without what a side kept back; None if it is nothing."""
    records = kept_back(run, meeting, side)
    if not records:
        return None
    found = shown_by(run, meeting, side, records)
    if found is not None:
        return False, f"without {_listed(records)}, {found}"
    return True, f"everything that crossed is the same without {_listed(records)}"


# --- what happened in the exchange of this step ---


def _meeting(sentence: Sentence, run: Run) -> Meeting | None:
    meeting = run.steps[-1].meeting
    if meeting is None or (sentence.peer and sentence.peer not in meeting.pair):
        return None
    return meeting


def _policy(sentence: Sentence, run: Run) -> ExchangePolicy | None:
    meeting = _meeting(sentence, run)
    return None if meeting is None else meeting.link.policy(meeting.side(sentence.peer))


def _rejects(sentence: Sentence, run: Run) -> Finding:
    meeting = _meeting(sentence, run)
    if meeting is None:
        return False, f"{sentence.peer} was in no exchange"
    hash = run.built.hash(sentence.records[0])
    found = [
        str(event.code)
        for event in meeting.events(meeting.side(sentence.peer))
        if isinstance(event, m.RecordRejected) and event.hash == hash
    ]
    return str(sentence.code) in found, f"rejected with {_listed(found)}" if found else "it was not"


def _receives(sentence: Sentence, run: Run) -> Finding:
    saved = _saved(sentence, run)
    names = [run.built.id_of(hash) for hash, _ in saved]
    return len(saved) == sentence.number, f"received {_listed(names)}"


def _receives_in(sentence: Sentence, run: Run) -> Finding:
    hash = run.built.hash(sentence.records[0])
    loops = [loop for saved, loop in _saved(sentence, run) if saved == hash]
    return loops == [sentence.number], f"in loop {loops[0]}" if loops else "it was not received"


def _saved(sentence: Sentence, run: Run) -> list[tuple[str, int]]:
    """Return the records that a peer stored in this exchange, each with the loop it came in."""
    meeting = _meeting(sentence, run)
    if meeting is None:
        return []
    side = meeting.side(sentence.peer)
    return [
        (event.hash, delivery.loop)
        for delivery in meeting.deliveries
        if delivery.to == side
        for event in delivery.events
        if isinstance(event, m.RecordSaved)
    ]


def _loops(sentence: Sentence, run: Run) -> Finding:
    meeting = _meeting(sentence, run)
    end = meeting.end(0) if meeting is not None else None
    if end is None:
        return False, "there was no exchange"
    return end.result.loops == sentence.number, f"it took {end.result.loops}"


def _withholds(sentence: Sentence, run: Run) -> Finding:
    policy = _policy(sentence, run)
    if policy is None:
        return False, "there was no exchange with rules evaluated"
    return _decided(sentence, policy.explain_send(run.built.hash(sentence.records[0])).layer)


def _declines(sentence: Sentence, run: Run) -> Finding:
    policy = _policy(sentence, run)
    if policy is None:
        return False, "there was no exchange with rules evaluated"
    return _decided(sentence, policy.explain_request(run.built.hash(sentence.records[0])).layer)


def _decided(sentence: Sentence, layer: Layer) -> Finding:
    return layer is sentence.layer, f"what decided was: {layer}"


def _listed(words: set[str] | list[str] | tuple[str, ...]) -> str:
    return ", ".join(sorted(words)) or "nothing"


_CHECKS: Final[dict[Kind, Callable[[Sentence, Run], Finding]]] = {
    Kind.HAS: _has,
    Kind.LACKS: _lacks,
    Kind.HAS_ONLY: _has_only,
    Kind.NEVER_LEARNS: _never_learns,
    Kind.NEVER_LEARNS_FIELD: _never_learns_field,
    Kind.REJECTS: _rejects,
    Kind.RECEIVES: _receives,
    Kind.RECEIVES_IN: _receives_in,
    Kind.DERIVES: _derives,
    Kind.DERIVES_NOT: _derives_not,
    Kind.WITHHOLDS: _withholds,
    Kind.DECLINES: _declines,
    Kind.BAIT: _bait,
    Kind.LOOPS: _loops,
}
