"""What a peer can learn: a report in plain words, and the bait test on the actual records.

Three ways lead to a peer: the fields that advertisements carry, the records that its rules can see,
and decisions of local rules that rest on records it cannot see. The first two are what policy
exposes; the third is local policy telling something about hidden records, which may be meant, but
should be known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from lace.datalog.ast import Anonymous, Constant, Rule, Variable
from lace.datalog.explain import Proof
from lace.datalog.source import parse_fact
from lace.ids import is_verifier
from lace.limits import FIXED
from lace.policy.executable import ExchangePolicy
from lace.policy.module import PolicyModule, module_from_rules
from lace.policy.origin import Operand
from lace.policy.plan import ExchangePlan
from lace.rules import LocalFacts
from lace.vocabulary import ADVERTISED, FIELD, HAVE, RECORD_FACTS, SELECT_ADVERTISED, SELECT_HAVE

_RECORD_NAMES: Final = frozenset(predicate.name for predicate in RECORD_FACTS)
_HASH: Final = "Hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declassified:
    """A record that may be sent because of records that the peer cannot see."""

    record: str
    """The record that may be sent."""
    hidden: tuple[str, ...]
    """The records that allow it, and that the peer cannot see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bait:
    """A value that only records have which are kept back, and whether a prying rule finds it."""

    field: str
    """The name of the field; ``Hash`` for a record without a Group, App or Name of its own."""
    value: str
    """Its value in a record that is hidden, or that the own rules do not select."""
    exposed: bool
    """Whether the peer's rules may see such a record, though the own rules do not select it."""
    learned: bool
    """Whether a rule of the peer could find out that it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """Everything that this policy lets this peer learn from these records."""

    viewer: str
    """The peer that the report is about."""
    advertised_fields: frozenset[str] | None
    """None for all fields."""
    records: int
    """How many records are here."""
    visible: int
    """How many of them the peer's rules can see."""
    visible_by_app: tuple[tuple[str, int], ...]
    """The same for each App."""
    may_send: int
    """How many records the peer may get."""
    declassified: tuple[Declassified, ...]
    """Records that it may get because of others that it cannot see."""
    examined: int
    """How many sendable records were examined for declassification."""
    baits: tuple[Bait, ...]
    """Values of hidden records, and of records that are not selected, that were tried."""
    hidden_matter: bool
    """Whether the peer's own rules answer differently when hidden records are taken away."""

    @property
    def holds(self) -> bool:
        """Whether the peer's rules learned nothing about hidden records."""
        return not self.hidden_matter and not any(b.learned for b in self.baits if not b.exposed)

    @property
    def keeps(self) -> bool:
        """Whether also rules that pry find nothing of what is kept back."""
        return self.holds and not any(bait.learned for bait in self.baits)

    def sentences(self) -> list[str]:
        """Return the report in plain words."""
        fields = "all fields" if self.advertised_fields is None else _listed(self.advertised_fields)
        # Who proved no key has a label for one exchange only, which means nothing to anybody.
        who = self.viewer if is_verifier(self.viewer) else "a peer that proved no key"
        lines = [
            f"Advertisements to {who} carry {fields or 'no fields, only hashes'}.",
            f"Its rules can see {self.visible} of {self.records} records"
            + (f": {_counted(self.visible_by_app)}." if self.visible else "."),
            f"{self.may_send} records may be sent to it; it learns these whole.",
        ]
        if self.declassified:
            one = self.declassified[0]
            lines.append(
                f"{len(self.declassified)} of {self.examined} of them may be sent because of "
                f"records that it cannot see. {one.record} rests on {_listed(one.hidden)}. If "
                "that is not meant, expose the evidence or leave it out of your rules."
            )
        else:
            lines.append("None of them rests on records that it cannot see.")
        return [*lines, self._bait_sentence()]

    def _bait_sentence(self) -> str:
        found = _listed(f"{bait.field} {bait.value}" for bait in self.baits if bait.learned)
        if not self.holds:
            return f"Bait test FAILED: its rules found out {found or 'something'}."
        if found:
            return (
                f"Bait test: rules that pry find out {found}, of records that the own rules do not "
                "select and that it may see. If that is not meant, expose less."
            )
        if not self.baits:
            return "Bait test: nothing is hidden here, so nothing was tested."
        return (
            f"Bait test: {len(self.baits)} hidden values were asked after and none was found "
            "out; without the hidden records its rules answer the same."
        )


def audit(policy: ExchangePolicy, known: Collection[str] = ()) -> AuditReport:
    """Return what the peer of a policy can learn from the records it stands on.

    ``known`` are records that it has or was told of: nobody needs to find those out.
    """
    source = policy.source
    visible = set(policy.visible)
    records = {row[0] for row in source.iterate(HAVE)}
    apps = Counter(
        value
        for record, name, _, value in source.iterate(FIELD)
        if name == "App" and record in visible
    )
    examined = sorted(policy.may_send)[: FIXED.audited_records]
    return AuditReport(
        viewer=policy.peer.viewer,
        advertised_fields=policy.plan.required_fields,
        records=len(records),
        visible=len(visible & records),
        visible_by_app=tuple(sorted(apps.items())),
        may_send=len(policy.may_send),
        declassified=tuple(_declassified(policy, [row[0] for row in examined], visible)),
        examined=len(examined),
        baits=tuple(_baits(policy, visible, set(known))),
        hidden_matter=_hidden_matter(policy, visible),
    )


def _declassified(
    policy: ExchangePolicy, examined: list[str], visible: set[str]
) -> list[Declassified]:
    found = []
    by = policy.explainers()
    for record in examined:
        proof = policy.explain_send(record, by).mine
        hidden = sorted(_records_in(proof) - visible - {record}) if proof is not None else []
        if hidden:
            found.append(Declassified(record=record, hidden=tuple(hidden[:3])))
    return found


def _records_in(proof: Proof) -> set[str]:
    """Return the records that a proof rests on."""
    records: set[str] = set()
    stack, seen = [proof], {id(proof)}
    while stack:
        node = stack.pop()
        fresh = [premise for premise in node.because if id(premise) not in seen]
        seen.update(map(id, fresh))
        stack.extend(fresh)
        if node.rule is None:
            name, *values = parse_fact(node.fact)
            if name in _RECORD_NAMES:
                records.add(values[0])
    return records


def _baits(policy: ExchangePolicy, visible: set[str], known: set[str]) -> list[Bait]:
    """Ask after what only records have that are kept back, as a curious peer would."""
    offered = {row[0] for row in policy.own_selects(SELECT_HAVE)} | known
    shown = visible & offered
    kept = {row[0] for row in policy.source.iterate(HAVE)} - shown - known
    values: dict[str, set[tuple[str, str]]] = {record: set() for record in kept}
    told: set[tuple[str, str]] = set()
    for record, name, _, value in policy.source.iterate(FIELD):
        if name in {"Group", "App", "Name"}:
            if record in shown:
                told.add((name, value))
            elif record in kept:
                values[record].add((name, value))
    asked: dict[tuple[str, str], bool] = {}
    for record, own in values.items():
        for ask in own - told or {(_HASH, record)}:
            asked[ask] = asked.get(ask, False) or record in visible
    # Those that can be seen come first: of these something can be found out.
    order = sorted(asked, key=lambda ask: (not asked[ask], ask))
    return [
        Bait(
            field=name, value=value, exposed=asked[name, value], learned=_find(policy, name, value)
        )
        for name, value in order[: FIXED.audited_baits]
    ]


def _find(policy: ExchangePolicy, field: str, value: str) -> bool:
    prying = _with_peer(policy, _bait_module(field, value))
    return bool(prying.peer_selects(SELECT_HAVE))


def _bait_module(field: str, value: str) -> PolicyModule:
    """Return a selector that selects a made-up record if any visible record has the value."""
    sought = Constant(value)
    asked = (
        HAVE(sought)
        if field == _HASH
        else FIELD(Variable("Q"), Constant(field), Anonymous(), sought)
    )
    bait = Constant("bait")
    return module_from_rules(
        (
            Rule(SELECT_HAVE(bait), (asked,)),
            Rule(
                SELECT_ADVERTISED(Variable("P"), Variable("S")),
                (ADVERTISED(Variable("P"), Variable("S")), asked),
            ),
        )
    )


def _hidden_matter(policy: ExchangePolicy, visible: set[str]) -> bool:
    """Whether the peer's rules answer otherwise when nothing is stored but what they may see."""
    rest = LocalFacts(limits=policy.limits)
    for predicate in policy.source.predicates():
        for row in policy.source.iterate(predicate):
            if predicate not in RECORD_FACTS or row[0] in visible:
                rest.add_valid((predicate.name, *row))
    everything = replace(policy.exposure, modules=(), default="everything")
    alone = ExchangePolicy(policy.plan, policy.index, rest, everything, policy.limits)
    return any(
        set(alone.peer_selects(facet)) != set(policy.peer_selects(facet))
        for facet in (SELECT_HAVE, SELECT_ADVERTISED)
    )


def _with_peer(policy: ExchangePolicy, module: PolicyModule) -> ExchangePolicy:
    """Return the same policy for a peer that brings another selector."""
    peer = policy.peer
    asked = Operand(index=peer.index, module=module, origin=peer.origin, verifier=peer.verifier)
    first, second = sorted((policy.local, asked), key=lambda operand: operand.index)
    plan = ExchangePlan((first, second), policy.plan.lowering)
    return ExchangePolicy(plan, policy.index, policy.source, policy.exposure, policy.limits)


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(words))


def _counted(entries: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{count} of {app}" for app, count in entries[:8])
