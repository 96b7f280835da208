"""Nothing but the view hands facts to rules of a peer: facts of hidden records never reach them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lace.datalog import evaluate, maintain
from lace.datalog.ast import Predicate
from lace.datalog.meter import Meter
from lace.datalog.program import RuleProgram, View
from lace.datalog.relation import Rows
from lace.datalog.source import FactSource, Row
from lace.datalog.views import view_rows
from lace.policy.executable import ExchangePolicy, Layer
from lace.policy.module import Facet, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.rules import LocalFacts
from lace.vocabulary import RECORD_FACTS, SELECT_HAVE

Fact = tuple[str, ...]

MINE = "SelectHave(P) :- Have(P), Field(P,'Group',_,'shown').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
ADVERTS = "SelectAdvertised(P,S) :- Advertised(P,S).\n"
CURIOUS = {
    "positive": (
        "SelectHave(P) :- Have(P).\n"
        "SelectHave(P) :- Field(P,_,_,_).\n"
        "SelectHave(P) :- Field(P,'Group',_,_), Field(P,'Name',_,_).\n"
        "SelectHave(P) :- RecordLink(P,_,_,_,Q), Have(Q).\n"
        "SelectHave(P) :- BlobHash(P,_).\n"
        "SelectHave(P) :- PlexHash(P,_).\n"
    ),
    "negated": (
        "SelectHave('none') :- not Have('h0').\n"
        "SelectHave('no field') :- not Field(_,'Group',_,'hidden').\n"
        "SelectHave('no link') :- not RecordLink(_,_,_,_,'h0').\n"
        "SelectHave('no hash') :- not BlobHash(_,'b h0'), not PlexHash(_,'x h0').\n"
    ),
    "counted": (
        "SelectHave('few') :- Cardinality(Have(_),'<','9').\n"
        "SelectHave('no field') :- Cardinality(Field(_,'Group',_,'hidden'),'<','1').\n"
        "SelectHave('no link') :- Cardinality(RecordLink(_,_,_,_,_),'<','100').\n"
        "Named(P,N) :- Field(P,'Name',_,N).\n"
        "SelectHave('few names') :- Cardinality(Named(_,_),'<','9').\n"
    ),
}
EXPOSURES = {
    "none": Exposure(),
    "selected": Exposure(default="selected"),
    "module": Exposure(
        (
            module_from_text(
                "AllowQueryRecord(V,P) :- Have(P), Field(P,'Group',_,'shown'), Peer(V).\n"
                "AllowQueryRecord(V,P) :- Have(P), Unlocked(P), Peer(V).\n"
                "Unlocked(P) :- RecordLink(Q,_,_,'unlocks',P), Field(Q,'Group',_,'hidden').\n",
                Facet.EXPOSE,
            ),
        )
    ),
}


def record(name: str, group: str, *, unlocks: str = "") -> list[Fact]:
    return [
        ("Have", name),
        ("Field", name, "Group", "0", group),
        ("Field", name, "Name", "0", name),
        ("RecordLink", name, "+Link", "0", "unlocks" if unlocks else "evidence", unlocks or "h0"),
        ("BlobHash", name, f"b {name}"),
        ("PlexHash", name, f"x {name}"),
    ]


HERE = [
    *(fact for number in range(6) for fact in record(f"h{number}", "hidden")),
    *(fact for number in range(20) for fact in record(f"s{number}", "shown")),
]


@dataclass
class Guarded:
    """A fact source that breaks as soon as a fact of a hidden record comes out of it."""

    source: FactSource
    hidden: Callable[[str], bool]

    def predicates(self) -> Iterable[Predicate]:
        return self.source.predicates()

    def iterate(self, predicate: Predicate, /) -> Iterator[Row]:
        return self._guard(predicate, self.source.iterate(predicate))

    def query(self, predicate: Predicate, /, *values: str) -> Iterator[Row]:
        return self._guard(predicate, self.source.query(predicate, *values))

    def count(self, predicate: Predicate, /) -> int:
        return sum(1 for _ in self.iterate(predicate))

    def select(self, predicate: Predicate, bound: Mapping[int, str], /) -> Iterator[Row]:
        return self._guard(predicate, self.source.select(predicate, bound))

    def _guard(self, predicate: Predicate, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            if predicate in RECORD_FACTS:
                assert not self.hidden(row[0]), f"{predicate} of {row[0]} reached a peer's rules"
            yield row


@dataclass
class Watch:
    """Looks at every fact that enters an evaluation of one program, wherever it is evaluated."""

    program: RuleProgram
    shown: set[str] = field(default_factory=set)
    looked_at: int = 0
    """How often rules of the program asked for facts."""

    def __call__(self, view: View, source: FactSource, meter: Meter) -> list[Row] | Rows:
        if any(view is one for one in self.program.views):
            self.looked_at += 1
            source = Guarded(source, lambda name: name not in self.shown)
        return view_rows(view, source, meter)


def shown_of(facts: set[Fact], exposed: str) -> set[str]:
    """Return the records that an exposure of these tests shows, said in another way."""
    here = {fact[1] for fact in facts if fact[0] == "Have"}
    shown = {fact[1] for fact in facts if fact[2:3] + fact[4:] == ("Group", "shown")}
    unlocked = {fact[5] for fact in facts if fact[0] == "RecordLink" and fact[4] == "unlocks"}
    return here & {"none": set(), "selected": shown, "module": shown | unlocked}[exposed]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], tuple[ExchangePolicy, Watch]]:
    """Return a policy over six hidden and twenty shown records, and what watches a peer's rules."""

    def make(curious: str, exposed: str) -> tuple[ExchangePolicy, Watch]:
        theirs = module_from_text(CURIOUS[curious] + ADVERTS)
        plan = ExchangePlan(
            label_operands(
                Party(index=0, module=module_from_text(MINE)), Party(index=1, module=theirs)
            )
        )
        label = plan.operands[1].viewer
        facts = [("Peer", label), ("Advertised", "far", "s"), *HERE]
        watch = Watch(theirs.program, shown_of(set(HERE), exposed))
        for module in (evaluate, maintain):
            monkeypatch.setattr(module, "view_rows", watch)
        return ExchangePolicy(plan, 0, LocalFacts(facts), EXPOSURES[exposed]), watch

    return make


@pytest.mark.req("040-LOW-04", "040-DIS-01")
@pytest.mark.parametrize("exposed", EXPOSURES)
@pytest.mark.parametrize("curious", CURIOUS)
def test_computing_and_following_show_a_peers_rules_nothing_that_is_hidden(
    watched: Any, curious: str, exposed: str
) -> None:
    policy, watch = watched(curious, exposed)
    changes: list[tuple[list[Fact], list[Fact]]] = [
        (record("h6", "hidden"), []),
        (record("s20", "shown"), []),
        ([], record("h1", "hidden")),
        ([], record("s1", "shown")),
        (record("key", "hidden", unlocks="h2"), []),  # an exposed record that did not change itself
        ([], record("key", "hidden", unlocks="h2")),
        ([("Field", "h3", "Group", "1", "shown")], []),
        ([], [("Field", "h3", "Group", "1", "shown")]),
        ([("Advertised", "h0", "s"), ("AdvertisedField", "h0", "s", "Group", "0", "shown")], []),
        ([f for n in range(7, 60) for f in record(f"h{n}", "hidden")], []),
        ([f for n in range(21, 90) for f in record(f"s{n}", "shown")], []),
    ]
    facts = set(HERE)
    for added, removed in changes:
        before = watch.shown
        facts = (facts - set(removed)) | set(added)
        now = shown_of(facts, exposed)
        watch.shown = before | now
        looks = watch.looked_at
        policy.apply(added, removed)
        watch.shown = now
        assert set(policy.visible) == now
        if before != now:
            assert watch.looked_at > looks, "nobody watched"
    assert watch.looked_at > 0
    if curious != "positive":
        selected = {row[0] for row in policy.peer_selects(SELECT_HAVE)}
        assert selected <= {"none", "no field", "no link", "no hash", "few", "few names"}
        assert "no field" in selected, "there are hidden fields, and they do not count"


@pytest.mark.parametrize("curious", CURIOUS)
def test_what_explains_a_peers_rules_sees_what_they_see(watched: Any, curious: str) -> None:
    policy, watch = watched(curious, "selected")
    evaluation = policy.explainers()[1].evaluation
    evaluation.source = Guarded(evaluation.source, lambda name: name not in watch.shown)
    assert policy.explain_send("h0").layer is Layer.MY_RULES
    policy.explain_send("s0")
    for name in ("h0", "s0", "few", "no field"):
        _, theirs = policy.explainers()
        theirs.why(SELECT_HAVE, (name,))
        theirs.why_not(SELECT_HAVE, (name,))


def test_the_watch_sees_what_goes_around_the_gate(watched: Any) -> None:
    """Else the tests above could not fail."""
    policy, watch = watched("positive", "selected")
    with pytest.raises(AssertionError, match="reached a peer's rules"):
        evaluate.evaluate(watch.program, policy.source)


def test_the_import_contract_covers_every_module_of_policy_but_the_gate_and_own_rules() -> None:
    """It names the package whole, and its exceptions one by one."""
    import tomllib

    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (gate,) = [c for c in contracts if "lace.datalog.maintain" in c.get("forbidden_modules", ())]
    assert "lace.policy" in gate["source_modules"]
    assert set(gate["forbidden_modules"]) == {
        f"lace.datalog.{name}" for name in ("evaluate", "maintain", "views", "join")
    }
    excepted = {line.split(" -> ")[0] for line in gate["ignore_imports"]}
    assert excepted == {"lace.policy.own", "lace.policy.view"}
