"""Whether records that nobody was told of showed all the same: a run against one without them.

The other run differs in nothing but these records. All that crossed is compared, both ways: what a
side asks for tells as much as what it sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lace.interlace import messages as m
from lace.scenario.build import Built
from lace.scenario.link import crossing_bytes
from lace.scenario.model import Scenario
from lace.scenario.run import Meeting, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first message that is not the same in both runs."""

    scene: int
    """Counted from 0."""
    step: int
    """Counted from 1 within the scene."""
    sender: str
    own: int
    """Which message of its sender it is, counted from 1."""

    def __str__(self) -> str:
        where = f"scene {self.scene + 1}, step {self.step}"
        return f"message {self.own} of {self.sender} differs ({where})"


def without(run: Run, records: frozenset[str]) -> Run:
    """Return the run as far as it has come, as it goes if nobody ever has the records."""
    return _played(run, run.built.scenario.without_records(records))


def first_difference(ours: Run, twin: Run, peer: str) -> Difference | None:
    """Return the first message of a peer's exchanges that differs, whoever sent it."""
    for mine, theirs in zip(ours.steps, twin.steps, strict=True):
        if mine.meeting is None or theirs.meeting is None or peer not in mine.meeting.pair:
            continue
        found = _difference(mine.number, mine.meeting, theirs.meeting)
        if found is not None:
            return found
    return None


def kept_back(run: Run, meeting: Meeting, side: int) -> tuple[str, ...]:
    """Return the records that a side had before the meeting and that the other never heard of."""
    me, other = meeting.pair[side], meeting.pair[1 - side]
    held = run.steps[-1].held
    received = {e.hash for d in meeting.link.deliveries if d.to == side
                for e in d.events if isinstance(e, m.RecordSaved)}  # fmt: skip
    known = set(held[other])
    heard = b"\n".join(content for exchange in run.heard(other) for _, content in exchange)
    ids = run.built.ids
    return tuple(
        ids[hash]
        for hash in held[me]
        if hash in ids and hash not in known and hash not in received and hash.encode() not in heard
    )


def shown_by(run: Run, meeting: Meeting, side: int, records: tuple[str, ...]) -> Difference | None:
    """Return what is different in a meeting if one side does not have the records."""
    me = meeting.pair[side]
    same_link = [s for s in run.steps if s.meeting is not None and s.meeting.link is meeting.link]
    scenario = _forgetting(run.built.scenario, same_link[0].number, me, frozenset(records))
    twin = _played(run, scenario)
    for step in same_link:
        mine, theirs = step.meeting, twin.steps[step.number].meeting
        assert mine is not None
        assert theirs is not None
        found = _difference(step.number, mine, theirs)
        if found is not None:
            return found
    return None


def _forgetting(scenario: Scenario, first: int, peer: str, records: frozenset[str]) -> Scenario:
    """Return the scenario in which a peer is without some records from one step on."""
    steps = []
    for number, step in enumerate(scenario.steps):
        made = step
        if number >= first:
            store = tuple(
                (id, tuple(n for n in names if id != peer or n not in records))
                for id, names in step.store
            )
            # Again before each step: meanwhile somebody else may have given them to it.
            forget = (*step.forget, (peer, tuple(sorted(records))))
            made = replace(step, store=store, forget=forget)
        steps.append(made)
    return replace(scenario, steps=tuple(steps))


def _played(run: Run, scenario: Scenario) -> Run:
    steps = scenario.steps[: len(run.steps)]
    built: Built = replace(run.built, scenario=replace(scenario, steps=steps))
    *_, twin = run.again(built)
    return twin


def _difference(scene: int, mine: Meeting, theirs: Meeting) -> Difference | None:
    ours, other = _crossed(mine), _crossed(theirs)
    for index, (step, sender, own, content) in enumerate(ours):
        if index >= len(other) or other[index][1:] != (sender, own, content):
            return Difference(scene=scene, step=step, sender=mine.pair[sender], own=own)
    if len(other) > len(ours):
        step, sender, own, _ = other[len(ours)]
        return Difference(scene=scene, step=step, sender=mine.pair[sender], own=own)
    return None


def _crossed(meeting: Meeting) -> list[tuple[int, int, int, tuple[str, bytes]]]:
    """Return everything that arrived: at which step, from whom, its number, and what it was."""
    return [
        (
            delivery.number - meeting.first + 1,
            delivery.message.sender,
            delivery.message.own,
            (type(delivery.message.crossing).__name__, crossing_bytes(delivery.message.crossing)),
        )
        for delivery in meeting.deliveries
        if delivery.message is not None
    ]
