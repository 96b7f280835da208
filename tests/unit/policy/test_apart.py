"""Rules that decide on each record apart, and how they are told from others."""

from __future__ import annotations

import pytest

from lace.crypto import SigningKey
from lace.policy.lowering import Lowering
from lace.policy.module import Facet, PolicyModule, combine, module_from_text
from lace.policy.origin import Party, Viewer, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.selectors import any_of, hashes, room, selector, with_support

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
TOGETHER = {
    "a room": ROOM,
    "support": with_support(NOTES),
    "another record": module("Have(P), Have(Q), Field(Q,'Tag',_,'open')"),
    "any record": module("Have(P), Field(_,'Tag',_,'open')"),
    "no other record": module("Have(P), not Field(_,'Tag',_,'closed')"),
    "a count of all": module("Have(P), Cardinality(Have(_),'>','2')"),
    "the other end of a link": module("Have(P), RecordLink(Q,_,_,_,P)"),
    "a state of all": module("Have(P), Open()", "Open() :- Field(Q,'Tag',_,'open')."),
    "a helper that turns round": module(
        "Have(P), Signed(V,P), Here(V)", "Signed(V,P) :- Field(P,'Signed-By',_,V)."
    ),
    "found nowhere": module("Peer(P)"),
    "found by what it lacks": module("Peer(P), not Have(P)"),
    "a rule for one, by another": module("Have(P)", head=f"'{RECORD}'"),
}


@pytest.mark.parametrize("name", APART)
def test_rules_that_look_at_the_record_of_their_head_decide_apart(name: str) -> None:
    assert APART[name].decides_apart


@pytest.mark.parametrize("name", TOGETHER)
def test_rules_that_look_at_any_other_record_do_not(name: str) -> None:
    assert not TOGETHER[name].decides_apart


def plan_of(mine: PolicyModule, theirs: PolicyModule, **more: Lowering) -> ExchangePlan:
    return ExchangePlan(
        label_operands(
            Party(index=0, module=mine), Party(index=1, module=theirs, verifier=KEY.verifier)
        ),
        **more,
    )


def test_a_plan_decides_apart_if_both_operands_do() -> None:
    assert plan_of(NOTES, APART["negation"]).decides_apart
    assert not plan_of(NOTES, ROOM).decides_apart
    assert not plan_of(ROOM, NOTES).decides_apart


def test_a_plan_whose_offers_decide_on_what_is_sent_does_not() -> None:
    shy = module("Have(P), Advertised(P,_)")
    assert shy.decides_apart
    assert not plan_of(NOTES, shy).decides_apart


def test_another_lowering_is_not_looked_into() -> None:
    lowering = Lowering(
        "mine",
        "MayRequest(P) :- o0_SelectAdvertised(P,S), o1_SelectAdvertised(P,S).\n"
        "MaySend(P) :- o0_SelectHave(P), o1_SelectHave(P), o0_SelectHave(Q), Q != P.\n",
    )
    assert not plan_of(NOTES, NOTES, lowering=lowering).decides_apart


def expose(body: str, viewer: str = "V") -> PolicyModule:
    return module_from_text(f"AllowQueryRecord({viewer},P) :- {body}.\n", Facet.EXPOSE)


def test_an_exposure_decides_apart_if_the_modules_for_the_viewer_do() -> None:
    viewer = Viewer(KEY.verifier)
    apart = expose("Have(P), Field(P,'Group',_,'g'), Peer(V)")
    together = expose("Have(P), Field(Q,'Group',_,'g'), Peer(V)")
    for_another = expose("Have(P), Have(Q)", "'V.somebody'")
    assert Exposure().decides_apart(viewer)
    assert Exposure((apart, for_another)).decides_apart(viewer)
    assert not Exposure((apart, together)).decides_apart(viewer)
