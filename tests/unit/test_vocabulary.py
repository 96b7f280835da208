"""The vocabulary is in one place: nobody else spells its predicates, and the engine knows none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from forge import KEY

from lace.datalog.ast import Atom, Constant, Predicate
from lace.datalog.roles import FREE
from lace.datalog.schema import NOTHING_KNOWN
from lace.interlace.facts import PREDICATES
from lace.interlace.phases import FACTS
from lace.policy.executable import ExchangePolicy
from lace.policy.module import module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.record import Record, build_blob, build_plex, facts, seal
from lace.rules import LocalFacts
from lace.vocabulary import (
    ADVERTISEMENT_FACTS,
    HAVE,
    RECORD_FACTS,
    ROLES,
    RUNTIME_FACTS,
    VOCABULARY,
    WIRE_FACTS,
    Kind,
)

ROOT = Path(__file__).parents[2]
HOME = ROOT / "src/lace/vocabulary.py"
KNOWN = {entry.predicate for entry in VOCABULARY}


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        found = sorted((ROOT / folder).rglob("*.py"))
        assert found, folder
        yield from found


def spelled(source: str) -> Iterator[tuple[str, int]]:
    """Yield the predicates that a program spells out: by a call, or as a pair in a pattern."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Name(id="Predicate") | ast.Attribute(attr="Predicate"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=int(arity))],
            ):
                yield name, arity
            case ast.MatchSequence(
                patterns=[
                    ast.MatchValue(value=ast.Constant(value=str(name))),
                    ast.MatchValue(value=ast.Constant(value=int(arity))),
                ]
            ):
                yield name, arity


def named(source: str) -> set[str]:
    """Return the names of base predicates that a text writes as atoms, with arity, or as text."""
    base = RECORD_FACTS | ADVERTISEMENT_FACTS | RUNTIME_FACTS
    names = "|".join(sorted(predicate.name for predicate in base))
    return set(re.findall(rf"\b({names})(?:\(|/\d|['\"`])", source))


@pytest.mark.parametrize("module", list(modules("src/lace/datalog")), ids=lambda path: path.stem)
def test_no_module_of_the_engine_names_a_base_predicate(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert named(text) == set()
    assert list(spelled(text)) == []


def test_the_engine_knows_no_predicate_unless_it_is_told() -> None:
    assert (NOTHING_KNOWN.wide, NOTHING_KNOWN.counted) == ((), ())
    assert FREE.base == frozenset()
    assert all(FREE.may_define(predicate) for predicate in KNOWN)


def test_nobody_else_spells_a_predicate_of_the_vocabulary() -> None:
    elsewhere = {
        f"{path.relative_to(ROOT)} spells {name}/{arity}"
        for path in modules("src", "tests", "bench", "tools", "fuzz", "web")
        if path != HOME
        for name, arity in spelled(path.read_text(encoding="utf-8"))
        if (name, arity) in KNOWN
    }
    assert elsewhere == set()


def test_both_tests_see_what_they_look_for() -> None:
    """Else they would pass over anything."""
    text = 'X = Predicate("Have", 1)\nmatch x:\n    case ("Field", 4): pass\n# TickTAI/1\n'
    assert list(spelled(text)) == [("Have", 1), ("Field", 4)]
    assert named(text) == {"Have", "Field", "TickTAI"}


def test_every_entry_is_unique_and_says_what_it_means() -> None:
    assert len(KNOWN) == len(VOCABULARY)
    for entry in VOCABULARY:
        assert entry.meaning.endswith("."), entry
        assert len(set(entry.arguments)) == entry.arity == entry.predicate.arity
    assert {entry.kind for entry in VOCABULARY} == set(Kind)
    assert str(VOCABULARY[0]) == "Have(record)"


# --- what code makes is what the vocabulary says ---


def predicates(made: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> set[Predicate]:
    return {Predicate(fact[0], len(fact) - 1) for fact in made}


def of(kind: Kind) -> set[Predicate]:
    return {entry.predicate for entry in VOCABULARY if entry.kind is kind}


def test_records_give_rise_to_the_record_facts() -> None:
    plex = build_plex(
        group="g",
        app="a",
        name="n",
        tai="0000000001:000000000",
        extras=[("+Link", f"evidence {build_blob(b'x').hash}")],
    )
    records: list[Record] = [build_blob(b"x"), plex, seal(plex, KEY)]
    assert predicates([fact for record in records for fact in facts(record)]) == RECORD_FACTS


def test_the_wire_carries_the_wire_facts() -> None:
    assert {predicate.name: predicate.arity for predicate in WIRE_FACTS} == PREDICATES
    assert {name for some in FACTS.values() for name in some} == set(PREDICATES)


def test_transcripts_and_provenance_are_in_the_vocabulary() -> None:
    modules = [
        "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n",
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,_).\n",
        "SelectHave(P) :- Have(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,_,_,_).\n",
    ]
    said: set[Predicate] = set()
    for text in modules[1:]:
        parties = (
            Party(index=0, module=module_from_text(modules[0])),
            Party(index=1, module=module_from_text(text)),
        )
        plan = ExchangePlan(label_operands(*parties))
        source = LocalFacts()
        said |= {
            Predicate(line.partition("(")[0], line.count("'") // 2)
            for line in plan.transcript.splitlines()
        }
        assert predicates(ExchangePolicy(plan, 0, source).sidecar()) == of(Kind.PROVENANCE)
    hashed_elsewhere = {entry.predicate for entry in VOCABULARY if entry.name == "OpaqueOrigin"}
    assert said == of(Kind.PLAN) - hashed_elsewhere


def test_roles_reserve_what_is_supplied() -> None:
    assert set(ROLES) == {"plain", "selector", "expose"}
    assert all(role.base >= RECORD_FACTS for role in ROLES.values())


def test_a_predicate_makes_its_own_atoms() -> None:
    assert HAVE(Constant("x")) == Atom("Have", (Constant("x"),))
    with pytest.raises(AssertionError, match="Have/1 has no 2 terms"):
        HAVE(Constant("x"), Constant("y"))
