"""Rules that decide on each record apart, and how they are told from others."""

from __future__ import annotations

import pytest
from small_room import room

from lace.crypto import SigningKey
from lace.policy.lowering import Lowering
from lace.policy.module import Facet, PolicyModule, combine, module_from_text
from lace.policy.origin import Party, Viewer, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.selectors import any_of, hashes, selector, with_support

KEY = SigningKey(b"\x01" * 32)
RECORD = f"P.{'A' * 42}0.H3"
OFFERS = "SelectAdvertised(P,S) :- Advertised(P,S).\n"
NOTES = selector("//g//notes//")
ROOM = room("//g//notes//", authority=KEY.verifier)


def module(body: str, *helpers: str, head: str = "P") -> PolicyModule:
    lines = [f"SelectHave({head}) :- {body}.", *helpers]
    return module_from_text("".join(f"{line}\n" for line in lines) + OFFERS)


APART = {
    "a prefix": NOTES,
    "a coordinate with fields": selector("//g//notes//n", {"Colour": "red"}),
    "hashes": hashes([RECORD]),
    "any of": any_of(NOTES, selector("//h//other//x/")),
    "all of": combine((NOTES, hashes([RECORD]))),
    "negation": module("Have(P), not Field(P,'Draft',_,_)"),
    "a helper": module("Have(P), Mine(P)", "Mine(P) :- Field(P,'Signed-By',_,V), Here(V)."),
    "runtime facts": module("Have(P), Field(P,'TAI',_,T), StartTAI(N), LexCompare(T,'<=',N)"),
    "words": module("Have(P), Word(W), Field(P,'Tag',_,W)", "Word('a') :- true."),
    "a count of its own": module("Have(P), Cardinality(Field(P,'Tag',_,_),'>','1')"),
    "a rule for one": module(f"Have('{RECORD}')", head=f"'{RECORD}'"),
}
GUARDED = {
    "a room": ROOM,
    "a room with delegation": room(
        "//g//notes//", authority=KEY.verifier, delegation=True, revocation_app="ended"
    ),
    "a state of some": module("Have(P), Open()", "Open() :- Field(Q,'Tag',_,'open')."),
    "a count of some": module("Have(P), Cardinality(T(_),'>','1')", "T(X) :- Field(X,'A',_,'b')."),
    "a guard that lacks something": module(
        "Have(P), Open()", "Open() :- Field(Q,'Tag',_,'open'), not Field(Q,'Draft',_,_)."
    ),
    "one by way of another": module(
        "Have(P), Standing(V), Field(P,'Signed-By',_,V)",
        "Member(V) :- Field(Q,'App',_,'member'), Field(Q,'Name',_,V).",
        "Standing(V) :- Member(V), not Ended(V).",
        "Ended(V) :- Field(Q,'App',_,'ended'), Field(Q,'Name',_,V).",
    ),
}
TOGETHER = {
    "support": with_support(NOTES),
    "another record": module("Have(P), Have(Q), Field(Q,'Tag',_,'open')"),
    "any record": module("Have(P), Field(_,'Tag',_,'open')"),
    "no other record": module("Have(P), not Field(_,'Tag',_,'closed')"),
    "a count of all": module("Have(P), Cardinality(Have(_),'>','2')"),
    "the other end of a link": module("Have(P), RecordLink(Q,_,_,_,P)"),
    "a state of all": module("Have(P), Open()", "Open() :- Field(Q,'Tag',_,_)."),
    "a state that something is missing": module("Have(P), Open()", "Open() :- not Have('x')."),
    "a count of all in a guard": module(
        "Have(P), Open()", "Open() :- Field(Q,'Tag',_,'a'), Cardinality(Have(_),'>','2')."
    ),
    "a guard that looks at all": module(
        "Have(P), Open()", "Open() :- Field(Q,'Tag',_,'a'), Field(R,'Tag',_,V), V != 'a'."
    ),
    "a guard by offers": module(
        "Have(P), Open()", "Open() :- Field(Q,'Tag',_,'a'), Advertised(Q,_)."
    ),
    "a helper that turns round": module(
        "Have(P), Signed(V,P), Here(V)", "Signed(V,P) :- Field(P,'Signed-By',_,V)."
    ),
    "found nowhere": module("Peer(P)"),
    "found by what it lacks": module("Peer(P), not Have(P)"),
    "a rule for one, by another": module("Have(P)", head=f"'{RECORD}'"),
}


@pytest.mark.parametrize("name", APART)
def test_rules_that_look_at_the_record_of_their_head_decide_apart(name: str) -> None:
    assert APART[name].guards == frozenset()


@pytest.mark.parametrize("name", GUARDED)
def test_records_that_others_depend_on_may_be_told_by_their_fields(name: str) -> None:
    assert GUARDED[name].guards


def test_the_guards_of_a_room_are_its_grants() -> None:
    grants = {("Group", "g"), ("App", "notes/member"), ("Signed-By", KEY.verifier)}
    assert ROOM.guards == frozenset([frozenset(grants)])


@pytest.mark.parametrize("name", TOGETHER)
def test_rules_that_look_at_any_other_record_do_not_decide_apart(name: str) -> None:
    assert TOGETHER[name].guards is None


ALIKE = {
    "a prefix": NOTES,
    "a coordinate with fields": selector("//g//notes//n", {"Colour": "red"}),
    "a room": ROOM,
    "negation": module("Have(P), not Field(P,'Draft',_,_)"),
    "a helper that turns round": module(
        "Have(P), Signed(V,P), Here(V)", "Signed(V,P) :- Field(P,'Signed-By',_,V)."
    ),
    "a test of a field": module("Have(P), Field(P,'TAI',_,T), LexCompare(T,'<','2')"),
    "a count of its own": module("Have(P), Cardinality(Field(P,'Tag',_,_),'>','1')"),
}
NAMED = {
    "hashes": hashes([RECORD]),
    "a rule for one": module(f"Have('{RECORD}')", head=f"'{RECORD}'"),
    "a constant by way of a helper": module("Have(P), Mine(P)", f"Mine('{RECORD}') :- true."),
    "a test of the name": module("Have(P), LexCompare(P,'<','P.B')"),
    "a test by way of a helper": module(
        "Have(P), Early(P)", "Early(X) :- Word(X), X != 'P.B'.", "Word(X) :- Have(X)."
    ),
    "a value that may be a name": module("Have(P), Field(P,'Self',_,P)"),
    "a value of others": module("Have(P), Named(P)", "Named(V) :- Field(Q,'Of',_,V)."),
    "a link": module("Have(P), RecordLink(P,_,_,_,P)"),
    "a runtime fact": module("Have(P), Peer(P)"),
    "the number of something": module("Have(P), Cardinality(Field(P,'Tag',_,_),'>',P)"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_rules_that_look_at_no_name_decide_alike_on_records_that_are_alike(name: str) -> None:
    assert not ALIKE[name].names_matter


@pytest.mark.parametrize("name", NAMED)
def test_rules_that_look_at_names_are_told(name: str) -> None:
    assert NAMED[name].names_matter


def plan_of(mine: PolicyModule, theirs: PolicyModule, **more: Lowering) -> ExchangePlan:
    return ExchangePlan(
        label_operands(
            Party(index=0, module=mine), Party(index=1, module=theirs, verifier=KEY.verifier)
        ),
        **more,
    )


def test_a_plan_decides_apart_if_both_operands_do() -> None:
    assert plan_of(NOTES, APART["negation"]).guards == frozenset()
    assert plan_of(NOTES, ROOM).guards == plan_of(ROOM, NOTES).guards == ROOM.guards
    support = TOGETHER["support"]
    assert plan_of(NOTES, support).guards is None
    assert plan_of(support, NOTES).guards is None


def test_a_plan_whose_offers_decide_on_what_is_sent_does_not() -> None:
    shy = module("Have(P), Advertised(P,_)")
    assert shy.guards == frozenset()
    assert plan_of(NOTES, shy).guards is None


def test_another_lowering_is_not_looked_into() -> None:
    lowering = Lowering(
        "mine",
        "MayRequest(P) :- o0_SelectAdvertised(P,S), o1_SelectAdvertised(P,S).\n"
        "MaySend(P) :- o0_SelectHave(P), o1_SelectHave(P), o0_SelectHave(Q), Q != P.\n",
    )
    assert plan_of(NOTES, NOTES, lowering=lowering).guards is None


def expose(body: str, viewer: str = "V") -> PolicyModule:
    return module_from_text(f"AllowQueryRecord({viewer},P) :- {body}.\n", Facet.EXPOSE)


def test_an_exposure_decides_apart_if_the_modules_for_the_viewer_do() -> None:
    viewer = Viewer(KEY.verifier)
    apart = expose("Have(P), Field(P,'Group',_,'g'), Peer(V)")
    together = expose("Have(P), Field(Q,'Group',_,'g'), Peer(V)")
    for_another = expose("Have(P), Have(Q)", "'V.somebody'")
    assert Exposure().guards(viewer) == frozenset()
    assert Exposure((apart, for_another)).guards(viewer) == frozenset()
    assert Exposure((apart, together)).guards(viewer) is None
