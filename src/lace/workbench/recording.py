"""A run as one document that a page can step through, forwards and backwards, without an engine.

Everything a page may show is worked out here, once, while the run happens: what each side has and
has heard of after every message, what its policy says and why, what was learned from what.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from lace._version import __version__
from lace.ids import RecordHash
from lace.limits import WORKBENCH
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet
from lace.policy.plan import ExchangePlan
from lace.record.facts import fields, links
from lace.record.model import Record
from lace.scenario.build import Built
from lace.scenario.expect import Kind, Sentence
from lace.scenario.run import Checked, Meeting, Run, StepRun, World
from lace.scenario.verdicts import audit_in, check, check_step, keeps_to_itself
from lace.scenario.write import write_scenario
from lace.workbench.changes import Changes
from lace.workbench.disclosure import ledger_json
from lace.workbench.explain import stopped_json
from lace.workbench.inspector import inspection_json
from lace.workbench.rules import rules_json
from lace.workbench.tables import table_of
from lace.workbench.tracking import Seen, Tracker

FORMAT: Final = "lace-recording/1"
_STORED_KINDS: Final = frozenset((Kind.HAS, Kind.LACKS, Kind.HAS_ONLY))

Json = dict[str, Any]


def record_run(built: Built, changes: Changes | None = None, text: str | None = None) -> Json:
    """Run a scenario with what was changed about it, and return the whole recording.

    ``text`` is the scenario as its author wrote it; without it the recording has a layout of ours.
    """
    written = write_scenario(built.scenario) if text is None else text
    return _Recorder(built, changes or Changes(), written).record()


def recording_json(
    built: Built, text: str, changes: Changes, seen: Seen, scenes: list[Json]
) -> Json:
    """Return the whole of scenes that were followed, with everything that they refer to."""
    return {
        "format": FORMAT,
        "engine": __version__,
        "scenario": _scenario_json(built, text),
        "changes": changes.to_json(),
        "records": {hash: _record_json(built, record) for hash, record in seen.records.items()},
        "policies": seen.policies.values,
        "tables": seen.tables.values,
        "scenes": scenes,
    }


def _scenario_json(built: Built, text: str) -> Json:
    scenario = built.scenario
    return {
        "name": scenario.name,
        "title": scenario.title,
        "story": scenario.story,
        "now": scenario.now,
        "columns": list(scenario.columns),
        "keys": {id: str(key.verifier) for id, key in built.keys.items()},
        "toml": text,
        "peers": [_peer_json(built, peer.id) for peer in scenario.peers],
        "fields": sorted({n for r in built.records.values() for n, _, _ in fields(r)}),
    }


def _peer_json(built: Built, id: str) -> Json:
    peer = built.scenario.peer(id)
    text = built.scenario.rules_text(peer.rules)
    exposed = [t for t in peer.expose if ":-" in t]
    return {
        "id": id,
        "title": peer.title,
        "verifier": built.verifier(id),
        "rules": text,
        "shared": peer.rules if text != peer.rules else None,
        "checked": rules_json(text, built.values),
        "expose": list(peer.expose),
        "exposed": [rules_json(t, built.values, Facet.EXPOSE) for t in exposed],
    }


def _record_json(built: Built, record: Record) -> Json:
    return {
        "id": built.ids.get(str(record.hash)),
        "type": record.type,
        "fields": [[name, index, value] for name, index, value in fields(record)],
        "links": [[link.name, link.data, link.target] for link in links(record)],
        "data": record.data[:400].decode("utf-8", "backslashreplace"),
        "inspection": inspection_json(record.raw),
    }


@dataclass(slots=True)
class _Recorder:
    built: Built
    changes: Changes
    text: str
    seen: Seen = field(default_factory=Seen)

    def record(self) -> Json:
        scenario = self.built.scenario
        run = Run(self.built, [], World.begin(self.built), self.changes.play)
        self.seen.records |= {str(record.hash): record for record in self.built.records.values()}
        scenes = [self._scene(run, number) for number in range(len(scenario.steps))]
        return recording_json(self.built, self.text, self.changes, self.seen, scenes)

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
            tracker = Tracker(self.seen, meeting, world)
            scene["frames"] = tracker.frames(self.changes.steps(meeting, world, number), held_after)
            scene["messages"] = tracker.messages()
            scene["ledger"] = ledger_json(meeting, tracker.words)
            scene["plan"] = plan_json(meeting.link.policy(0) or meeting.link.policy(1))
            scene["stopped"] = stopped_json(meeting)
            scene["cut"] = max(0, len(meeting.deliveries) - WORKBENCH.steps)
        else:
            scene["tables"] = {peer.id: self._still(world, peer.id) for peer in scenario.peers}
        held = {peer.id: world.held(peer.id) for peer in scenario.peers}
        run.steps.append(StepRun(number=number, say=step.say, meeting=meeting, held=held))
        if meeting is not None:
            scene["audits"] = [_audit_json(run, meeting, side) for side in (0, 1)]
        run.steps[-1].checks = check_step(run)
        scene["after"] = held
        scene["checks"] = self._checks(run, held_after)
        return scene

    def _still(self, world: World, peer: str) -> int:
        """Return the number of the table of a side that meets nobody."""
        found = (world.stores[peer].load(RecordHash(hash)) for hash in world.held(peer))
        return self.seen.tables.number(
            table_of([(record, {}) for record in found if record], {}, {})
        )

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


def plan_json(policy: ExchangePolicy | None) -> Json | None:
    """Return the plan of a policy, once there is one."""
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


def _audit_json(run: Run, meeting: Meeting, side: int) -> Json | None:
    policy = meeting.link.whole_policy(side)
    if policy is None:
        return None
    report = audit_in(run, meeting, side, policy)
    compared = keeps_to_itself(run, meeting, side)
    return {
        "holds": report.keeps and (compared is None or compared[0]),
        "compared": None if compared is None else {"ok": compared[0], "text": compared[1]},
        "sentences": report.sentences(),
        "viewer": report.viewer,
        "records": report.records,
        "visible": report.visible,
        "hidden_matter": report.hidden_matter,
        "declassified": [[d.record, list(d.hidden)] for d in report.declassified],
        "baits": [{"field": b.field, "value": b.value, "learned": b.learned} for b in report.baits],
    }
