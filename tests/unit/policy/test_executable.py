"""What may be sent and requested: views, exposure, verdicts, disclosure."""

from __future__ import annotations

import forge
import pytest
from small_room import room

import lace
from lace.crypto import SigningKey
from lace.datalog.source import parse_facts
from lace.errors import Code, PolicyError
from lace.ids import Verifier
from lace.policy.audit import audit
from lace.policy.executable import ExchangePolicy, Layer
from lace.policy.lowering import ENCRYPTED, STANDARD, Lowering
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure, QueryView
from lace.record import Record, build_plex, facts, seal
from lace.rules import LocalFacts
from lace.selectors import all_of, any_of, hashes, selector, with_support
from lace.vocabulary import HAVE, RECORD_FACTS, SELECT_ADVERTISED, SELECT_HAVE

ALICE = Verifier("V.alice.H3")
EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
X1, X2, Y1 = (f"P.{c * 42}0.H3" for c in "123")
STORE = f"""\
Have('{X1}')
Field('{X1}','Group','0','X')
BlobHash('{X1}','B.x.H3')
RecordLink('{X1}','+Link','0','evidence','{Y1}')
Have('{X2}')
Field('{X2}','Group','0','X')
Have('{Y1}')
Field('{Y1}','Group','0','Y')
PlexHash('{Y1}','P.y.H3')
"""
EXPOSE_X = "AllowQueryRecord('V.alice.H3',P) :- Have(P), Field(P,'Group',_,'X').\n"


def exposing(text: str) -> PolicyModule:
    return module_from_text(text, Facet.EXPOSE)


def policy(
    mine: PolicyModule | str,
    theirs: PolicyModule | str,
    facts: str = STORE,
    exposure: Exposure | None = None,
    lowering: Lowering = STANDARD,
    verifier: Verifier | None = ALICE,
) -> ExchangePolicy:
    modules = [m if isinstance(m, PolicyModule) else module_from_text(m) for m in (mine, theirs)]
    plan = ExchangePlan(
        label_operands(
            Party(index=0, module=modules[0]),
            Party(index=1, module=modules[1], verifier=verifier),
        ),
        lowering,
    )
    return ExchangePolicy(plan, 0, LocalFacts(parse_facts(facts)), exposure or Exposure())


def records(rows: object) -> set[str]:
    return {row[0] for row in rows}  # type: ignore[attr-defined]


# --- views ---

SEE_ALL = "SelectAdvertised(P,S) :- Advertised(P,S).\n"


@pytest.mark.req("040-EXP-07", "040-LOW-05", "020-FAC-02")
def test_without_exposure_a_peer_sees_no_record_but_public_facts() -> None:
    theirs = (
        SEE_ALL + "SelectHave(P) :- Have(P).\nSelectHave('tick') :- TickTAI(_), Advertised(_,_).\n"
    )
    done = policy(EVERYTHING, theirs, STORE + "TickTAI('1')\nAdvertised('p','s')\n")
    assert records(done.peer_selects(SELECT_HAVE)) == {"tick"}
    assert set(done.visible) == set()
    assert records(done.may_send) == set()


@pytest.mark.req("040-LOW-04", "040-EXP-01", "040-FAC-02")
def test_each_record_predicate_is_filtered() -> None:
    theirs = SEE_ALL + (
        "SelectHave(P) :- Have(P).\n"
        "SelectHave(P) :- Field(P,_,_,_).\n"
        "SelectHave(P) :- RecordLink(P,_,_,_,_).\n"
        "SelectHave(P) :- BlobHash(P,_).\n"
        "SelectHave(P) :- PlexHash(P,_).\n"
    )
    done = policy(EVERYTHING, theirs, exposure=Exposure((exposing(EXPOSE_X),)))
    assert records(done.peer_selects(SELECT_HAVE)) == {X1, X2}
    assert {p.name for p in RECORD_FACTS} == {"Have", "Field", "RecordLink", "BlobHash", "PlexHash"}


@pytest.mark.req("040-LOW-04", "040-DIS-01")
def test_a_test_that_tries_to_look_around_the_view() -> None:
    """Every call of a source, with every way of binding columns."""
    source = LocalFacts(parse_facts(STORE))
    view = QueryView(source, {X1})
    for predicate in RECORD_FACTS:
        hidden = [row for row in source.iterate(predicate) if row[0] != X1]
        shown = set(view.iterate(predicate))
        assert all(row[0] == X1 for row in shown)
        assert view.count(predicate) == len(shown)
        for row in hidden:
            assert list(view.query(predicate, *row)) == []
            assert list(view.query(predicate, row[0])) == []
            for column, value in enumerate(row):
                assert all(found[0] == X1 for found in view.select(predicate, {column: value}))
            assert list(view.select(predicate, dict(enumerate(row)))) == []
    assert set(view.predicates()) <= set(source.predicates())


@pytest.mark.req("040-LOW-03", "040-EXP-04", "040-DIS-04")
def test_local_rules_see_everything() -> None:
    mine = SEE_ALL + "SelectHave(P) :- Have(P), Field(P,'Group',_,'X'), Field(Q,'Group',_,'Y').\n"
    everything = Exposure((), "everything")
    assert records(policy(mine, EVERYTHING, exposure=everything).may_send) == {X1, X2}
    private = exposing(
        "AllowQueryRecord(V,P) :- Have(P), Field(P,'Group',_,'X'), Field(Q,'Group',_,'Y'), Peer(V).\n"
    )
    done = policy(EVERYTHING, EVERYTHING, STORE + "Peer('V.alice.H3')\n", Exposure((private,)))
    assert set(done.visible) == {X1, X2}


@pytest.mark.req("040-EXP-06", "040-EXP-10", "040-EXP-08")
def test_modules_intersect_and_those_of_others_do_not_count() -> None:
    first = exposing(
        f"AllowQueryRecord(V,'{X1}') :- Peer(V).\nAllowQueryRecord(V,'{X2}') :- Peer(V).\n"
    )
    second = exposing(
        f"AllowQueryRecord(V,'{X2}') :- Peer(V).\nAllowQueryRecord(V,'{Y1}') :- Peer(V).\n"
    )
    for_bob = exposing("AllowQueryRecord('V.bob.H3',P) :- Have(P).\n")
    store = STORE + "Peer('V.alice.H3')\n"

    def seen(exposure: Exposure) -> set[str]:
        return set(policy(EVERYTHING, EVERYTHING, store, exposure).visible)

    assert seen(Exposure((first,))) == {X1, X2}
    assert seen(Exposure((first, second))) == {X2}
    assert seen(Exposure((first, for_bob))) == {X1, X2}
    assert seen(Exposure((for_bob,))) == set()
    assert seen(Exposure((first, second), union=True)) == {X1, X2, Y1}


@pytest.mark.req("040-EXP-11", "040-ORG-09", "040-MOD-07")
def test_defaults_of_the_developer_surface_are_explicit() -> None:
    mine = selector("//g//a//")
    store = STORE + f"Field('{X1}','Group','0','g')\nField('{X1}','App','0','a')\n"
    assert set(policy(mine, EVERYTHING, store, Exposure((), "selected")).visible) == {X1}
    assert set(policy(mine, EVERYTHING, store, Exposure((), "everything")).visible) == {X1, X2, Y1}
    assert set(policy(mine, EVERYTHING, store).visible) == set()
    with pytest.raises(PolicyError) as caught:
        Exposure((EVERYTHING,))
    assert caught.value.code is Code.POLICY_FACET


@pytest.mark.req("040-EXP-01", "040-ORG-04")
def test_adverts_do_not_reach_exposure() -> None:
    curious = exposing("AllowQueryRecord(V,P) :- Have(P), Peer(V), Advertised(_,_).\n")
    done = policy(
        EVERYTHING,
        EVERYTHING,
        STORE + "Peer('V.alice.H3')\nAdvertised('p','s')\n",
        Exposure((curious,)),
    )
    assert set(done.visible) == set()


@pytest.mark.req("040-EXP-01")
def test_adverts_do_not_reach_the_view_of_what_is_selected() -> None:
    """Whatever a peer claims, at once or later, its rules see no more for it."""
    mine = (
        "SelectHave(P) :- Have(P), Field(P,'Group',_,'X').\n"
        "SelectHave(P) :- Have(P), Advertised(P,_).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
    )
    claim = f"Advertised('{Y1}','{ALICE}')\n"
    shown = Exposure(default="selected")
    before = policy(mine, EVERYTHING, STORE + claim, shown)
    assert set(before.visible) == {X1, X2}
    later = policy(mine, EVERYTHING, STORE, shown)
    later.apply(parse_facts(claim))
    assert set(later.visible) == {X1, X2}
    assert (Y1,) not in set(later.may_send)  # my rules would, and theirs cannot see it
    later.apply([("Have", "P.new"), ("Field", "P.new", "Group", "0", "X")])
    assert set(later.visible) == {X1, X2, "P.new"}


# --- disclosure ---


@pytest.mark.req("040-DIS-05", "040-FAC-03")
def test_the_bait_of_the_specification() -> None:
    mine = "SelectHave(P) :- Have(P), Field(P,'Group',_,'X').\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'X').\n"
    bait = "SelectHave(P) :- Have(P), Field(P,'Group',_,'X').\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'X'), Field(Q,'Group',_,'Y').\n"
    store = (
        STORE
        + "Advertised('P.bait.H9','V.alice.H3')\nAdvertisedField('P.bait.H9','V.alice.H3','Group','0','X')\n"
    )
    hidden = policy(mine, bait, store, Exposure((exposing(EXPOSE_X),)))
    assert records(hidden.may_request) == set()
    both = exposing("AllowQueryRecord('V.alice.H3',P) :- Have(P).\n")
    shown = policy(mine, bait, store, Exposure((both,)))
    assert records(shown.may_request) == {"P.bait.H9"}


@pytest.mark.req("040-DIS-02", "040-DIS-03")
def test_a_hash_named_outright_tells_at_most_possession_of_that_hash() -> None:
    theirs = f"SelectHave('{X1}') :- true.\n" + SEE_ALL
    assert records(policy(EVERYTHING, theirs).may_send) == {X1}
    missing = "SelectHave('P.nothing.H9') :- true.\n" + SEE_ALL
    assert records(policy(EVERYTHING, missing).may_send) == set()
    nobody = module_from_text("SelectHave('none') :- Have('none').\n" + SEE_ALL)
    assert records(policy(nobody, theirs).may_send) == set()


@pytest.mark.req("040-DIS-01", "040-PRV-04", "040-PRE-02")
def test_an_audit_says_what_a_peer_can_learn() -> None:
    mine = SEE_ALL + "SelectHave(P) :- Have(P), Field(P,'Group',_,'X'), Field(Q,'Group',_,'Y').\n"
    report = audit(policy(mine, EVERYTHING, exposure=Exposure((exposing(EXPOSE_X),))))
    assert report.holds
    assert (report.records, report.visible, report.may_send) == (3, 2, 2)
    assert report.advertised_fields == frozenset()
    assert [(bait.field, bait.value, bait.learned) for bait in report.baits] == [
        ("Group", "Y", False)
    ]
    assert {d.record for d in report.declassified} == {X1, X2}
    assert report.declassified[0].hidden == (Y1,)
    text = " ".join(report.sentences())
    assert "2 of 3 records" in text
    assert "2 of 2 of them may be sent because of records that it cannot see" in text
    assert "none was found out" in text


def test_an_audit_tries_prying_rules_on_what_is_seen_and_not_selected() -> None:
    mine = SEE_ALL + "SelectHave(P) :- Have(P), Field(P,'Group',_,'X').\n"
    report = audit(policy(mine, mine, exposure=Exposure(default="everything")))
    assert [(b.value, b.exposed, b.learned) for b in report.baits] == [("Y", True, True)]
    assert report.holds  # the rules that this peer brought found nothing out
    assert not report.keeps
    assert "rules that pry find out Group Y" in report.sentences()[-1]
    known = audit(policy(mine, mine, exposure=Exposure(default="everything")), [Y1])
    assert (known.keeps, known.baits) == (True, ())
    assert known.sentences()[-1] == "Bait test: nothing is hidden here, so nothing was tested."


def test_a_hidden_record_without_a_value_of_its_own_is_asked_after_by_its_hash() -> None:
    mine = SEE_ALL + f"SelectHave('{X1}') :- Have('{X1}').\n"
    report = audit(policy(mine, EVERYTHING, exposure=Exposure(default="selected")))
    assert [(b.field, b.value, b.learned) for b in report.baits] == [
        ("Group", "Y", False), ("Hash", X2, False),
    ]  # fmt: skip
    seen = audit(policy(mine, EVERYTHING, exposure=Exposure(default="everything")))
    assert ("Hash", X2, True) in [(b.field, b.value, b.learned) for b in seen.baits]


@pytest.mark.req("040-FLD-06")
def test_schema_and_view_are_independent() -> None:
    wide = SEE_ALL + "SelectHave(P) :- Have(P).\nH(P) :- AdvertisedField(P,_,N,_,N).\n"
    narrow = policy(EVERYTHING, wide, exposure=Exposure((exposing(EXPOSE_X),)))
    assert narrow.plan.required_fields is None
    assert set(narrow.visible) == {X1, X2}


# --- selection ---


@pytest.mark.req("040-SCO-01", "040-FAC-05", "040-SCO-02")
def test_helpers_of_one_name_do_not_mix() -> None:
    mine = (
        SEE_ALL + f"Member('{X1}') :- true.\nMember('{X2}') :- true.\nSelectHave(P) :- Member(P).\n"
    )
    theirs = (
        SEE_ALL + f"Member('{X2}') :- true.\nMember('{Y1}') :- true.\nSelectHave(P) :- Member(P).\n"
    )
    assert records(policy(mine, theirs).may_send) == {X2}


@pytest.mark.req("040-INT-02", "040-LOW-02", "040-INT-03")
def test_a_request_needs_one_source_that_both_select() -> None:
    def only(source: str) -> str:
        return f"SelectHave(P) :- Have(P).\nSelectAdvertised(P,'{source}') :- Advertised(P,'{source}').\n"

    store = "Advertised('p','s1')\nAdvertised('p','s2')\n"
    assert records(policy(only("s1"), only("s2"), store).may_request) == set()
    assert records(policy(only("s1"), EVERYTHING, store).may_request) == {"p"}


@pytest.mark.req("040-FAC-04")
def test_an_advert_gives_no_record_facts() -> None:
    store = "Advertised('p','s')\nAdvertisedField('p','s','Group','0','u')\n"
    done = policy(EVERYTHING, EVERYTHING, store, Exposure((), "everything"))
    assert records(done.may_request) == {"p"}
    assert list(done.source.iterate(HAVE)) == []
    assert records(done.may_send) == set()


@pytest.mark.req("040-LOW-07")
def test_a_stricter_lowering() -> None:
    open_line = policy(
        EVERYTHING, EVERYTHING, exposure=Exposure((), "selected"), lowering=ENCRYPTED
    )
    assert records(open_line.may_send) == set()
    assert open_line.explain_send(X1).layer is Layer.LOWERING
    change = open_line.apply([("TransportEncrypted",)])
    assert records(change.may_send.added) == {X1, X2, Y1}
    assert records(open_line.may_send) == {X1, X2, Y1}


@pytest.mark.req("040-LOW-09", "040-MOD-06")
def test_one_plan_different_sides() -> None:
    modules = (EVERYTHING, selector("//g//a//"))
    plan = ExchangePlan(
        label_operands(Party(index=0, module=modules[0]), Party(index=1, module=modules[1]))
    )
    store = (
        f"Have('{X1}')\nField('{X1}','Group','0','g')\nField('{X1}','App','0','a')\nHave('{X2}')\n"
    )
    here = ExchangePolicy(plan, 0, LocalFacts(parse_facts(store)), Exposure((), "selected"))
    there = ExchangePolicy(plan, 1, LocalFacts(parse_facts(store)), Exposure())
    assert records(here.may_send) == {X1}
    assert records(there.may_send) == set()
    assert here.plan.id == there.plan.id


@pytest.mark.req("040-PRE-01")
def test_a_compiled_module_is_kept() -> None:
    assert EVERYTHING.program is EVERYTHING.program


@pytest.mark.req("040-PRV-02", "040-PRV-03", "040-PRV-04")
def test_the_sidecar_tells_where_rules_came_from_and_no_rule_sees_it() -> None:
    theirs = SEE_ALL + "SelectHave(P) :- RuleOrigin(P,_).\n"
    done = policy(EVERYTHING, theirs, exposure=Exposure((), "everything"))
    sidecar = done.sidecar()
    assert {fact[0] for fact in sidecar} == {"RuleSource", "RuleGeneratedBy", "RuleOrigin"}
    assert any(fact[2:] == ("040-lowering", "MaySend/1") for fact in sidecar)
    assert any(fact[2:] == ("040-intersection", "SelectAdvertised/2") for fact in sidecar)
    assert any(fact[2:] == ("040-operand-scope", "O1") for fact in sidecar)
    assert records(done.peer_selects(SELECT_HAVE)) == set()


# --- verdicts ---


def test_verdicts_name_the_layer() -> None:
    x_only = "SelectHave(P) :- Have(P), Field(P,'Group',_,'X').\nSelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'X').\n"
    hash_, other = (f"P.{c * 42}0.H3" for c in "45")
    store = (
        STORE
        + f"Advertised('{hash_}','s')\nAdvertisedField('{hash_}','s','Group','0','X')\nAdvertised('{other}','s')\nAdvertised('P.a.H9','s')\n"
    )
    done = policy(
        x_only, x_only, store, Exposure((exposing(f"AllowQueryRecord(V,'{X1}') :- Peer(V).\n"),))
    )
    blind = policy(x_only, x_only, store)
    narrow = policy(EVERYTHING, x_only, store, Exposure((), "everything"))
    assert blind.explain_send(X1).layer is Layer.VIEW
    assert blind.explain_send(Y1).layer is Layer.MY_RULES
    assert blind.explain_send("P.no.H9").layer is Layer.NOT_HERE
    assert narrow.explain_send(Y1).layer is Layer.THEIR_RULES
    assert narrow.explain_send(X1).allowed
    assert narrow.explain_request(other).layer is Layer.THEIR_RULES
    assert blind.explain_request(hash_).allowed
    assert blind.explain_request(other).layer is Layer.MY_RULES
    assert blind.explain_request(X1).layer is Layer.ALREADY_HERE
    assert blind.explain_request("P.a.H9").layer is Layer.FORMAT
    assert blind.explain_request(f"P.{'9' * 42}0.H3").layer is Layer.NOT_ADVERTISED
    assert done.explain_send(X1).layer is Layer.VIEW  # no Peer fact, so nothing is exposed
    assert narrow.explain_send(Y1).refusals[0].failed_atom == "Field(P,'Group',_,'X')"


# --- selectors ---


def facts_of(*made: Record) -> str:
    return "".join(f"{lace_fact}\n" for record in made for lace_fact in _lines(record))


def _lines(record: Record) -> list[str]:
    from lace.text import fact_line

    return [fact_line(fact[0], fact[1:]) for fact in facts(record)]


def place(app: str, name: str = "n", **fields: str) -> Record:
    extras = [(key.replace("_", "-"), value) for key, value in fields.items()]
    return build_plex(
        group="notes-demo", app=app, name=name, tai=f"{1:010d}:{0:09d}", extras=extras
    )


@pytest.mark.req("110-PFX-02", "110-PFX-03", "110-PFX-04", "110-PFX-05", "110-PFX-06", "000-API-05")
def test_selectors_of_places() -> None:
    made = [
        place(app, name) for app in ("notes", "notes/message", "notesx") for name in ("a/b", "a")
    ]
    store = facts_of(*made)

    def selected(text: str) -> set[tuple[str, str]]:
        done = policy(selector(text), EVERYTHING, store, Exposure((), "selected"))
        by_hash = {record.hash: record for record in made}
        return {(by_hash[h].app, by_hash[h].name) for h in records(done.may_send)}  # type: ignore[attr-defined,index]

    assert selected("//notes-demo//notes//") == {
        ("notes", "a/b"),
        ("notes", "a"),
        ("notes/message", "a/b"),
        ("notes/message", "a"),
    }
    assert selected("//notes-demo//notes//a/") == {("notes", "a/b")}
    assert selected("//notes-demo//notesx//a") == {("notesx", "a")}
    assert selected(f"////{made[0].hash}") == {("notes", "a/b")}
    assert selected("//notes-demo//notes//a/|/plex") == {("notes", "a")}
    assert selected("//notes-demo//notes//a/|/seal") == set()
    exact = f"//notes-demo//notes//a/|/plex/{made[1].tai}/{made[1].hash}"  # type: ignore[attr-defined]
    assert selected(exact) == {("notes", "a")}
    for base in selector("//notes-demo//notes//").program.base:
        assert base.name in {"Have", "Field", "Advertised", "AdvertisedField"}


@pytest.mark.req("000-API-05")
def test_field_filters_and_sets_of_selectors() -> None:
    red, blue = place("notes", "r", Colour="red"), place("notes", "b", Colour="blue")
    store = facts_of(red, blue)

    def selected(module: PolicyModule) -> set[str]:
        return records(policy(module, EVERYTHING, store, Exposure((), "selected")).may_send)

    notes = selector("//notes-demo//notes//", {"Colour": "red"})
    assert selected(notes) == {red.hash}
    assert selected(hashes([blue.hash])) == {blue.hash}
    assert selected(any_of(notes, hashes([blue.hash]))) == {red.hash, blue.hash}
    assert selected(all_of(notes, hashes([blue.hash]))) == set()
    injected = selector("//notes-demo//notes//", {"Colour": "x'), Have(Q"})
    assert selected(injected) == set()


@pytest.mark.parametrize("text", ["", "notes", "//a", "////x", "//a//b//c//d"])
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        selector(text)
    assert caught.value.code is Code.POLICY_SELECTOR
    with pytest.raises(PolicyError):
        hashes([])


AUTHORITY, BOB, EVE = forge.KEY, SigningKey(b"b" * 32), SigningKey(b"e" * 32)


def sealed(key: SigningKey, app: str, name: str, **fields: str) -> Record:
    plex = place(app, name, **fields)
    assert isinstance(plex, lace.Plex)
    return seal(plex, key, aux=forge.AUX)


@pytest.mark.req("000-NOT-01", "000-NOT-02", "000-NOT-04", "000-NOT-05", "000-SYN-04", "110-PFX-06")
def test_the_rules_of_a_small_room() -> None:
    grant = sealed(AUTHORITY, "notes/member", "member/bob", Member=BOB.verifier)
    forged = sealed(EVE, "notes/member", "member/eve", Member=EVE.verifier)
    note = sealed(BOB, "notes/message", "msg/1")
    spam = sealed(EVE, "notes/message", "msg/2")
    module = room("//notes-demo//notes//", authority=AUTHORITY.verifier)
    done = policy(module, module, facts_of(grant, forged, note, spam), Exposure((), "selected"))
    assert records(done.may_send) == {grant.hash, note.hash}
    assert done.explain_send(spam.hash).layer is Layer.MY_RULES
    # Somebody who starts with nothing can request the grant first, and then the note.
    adverts = "".join(
        f"Advertised('{r.hash}','s')\n"
        + "".join(
            f"AdvertisedField('{r.hash}','s','{n}','{i}','{v}')\n"
            for n, i, v in lace.record.fields(r)
        )
        for r in (grant, note, spam)
    )
    empty = policy(module, module, adverts, Exposure((), "selected"))
    assert records(empty.may_request) == {grant.hash}
    change = empty.apply(list(facts(grant)))
    assert records(change.may_request.added) == {note.hash}


@pytest.mark.req("000-SYN-04")
def test_rooms_with_delegation_and_revocation() -> None:
    carol = SigningKey(b"c" * 32)
    grant = sealed(AUTHORITY, "notes/member", "bob", Member=BOB.verifier)
    second = sealed(BOB, "notes/member", "carol", Member=carol.verifier)
    note = sealed(carol, "notes/message", "1")
    end = sealed(AUTHORITY, "notes/revoked", "bob", Member=BOB.verifier)
    module = room(
        "//notes-demo//notes//",
        authority=AUTHORITY.verifier,
        delegation=True,
        revocation_app="revoked",
    )
    done = policy(module, module, facts_of(grant, second, note), Exposure((), "selected"))
    assert records(done.may_send) == {grant.hash, second.hash, note.hash}
    done.apply(list(facts(end)))
    assert records(done.may_send) == {grant.hash, end.hash}


@pytest.mark.req("000-SYN-04")
def test_support_follows_links() -> None:
    leaf = place("evidence", "leaf")
    middle = build_plex(
        group="e",
        app="e",
        name="m",
        tai=f"{1:010d}:{0:09d}",
        extras=[("+Link", f"evidence {leaf.hash}")],
    )
    top = build_plex(
        group="notes-demo",
        app="notes",
        name="t",
        tai=f"{1:010d}:{0:09d}",
        extras=[("+Link", f"evidence {middle.hash}"), ("+Link", f"other {forge.KEY.verifier}")],
    )
    module = with_support(selector("//notes-demo//notes//"))
    done = policy(module, module, facts_of(top, middle, leaf), Exposure((), "selected"))
    assert records(done.may_send) == {top.hash, middle.hash, leaf.hash}
    early = policy(
        module,
        module,
        facts_of(top) + f"Advertised('{middle.hash}','s')\nAdvertised('{leaf.hash}','s')\n",
        Exposure((), "selected"),
    )
    assert records(early.may_request) == {middle.hash}
    assert SELECT_ADVERTISED in module.program.derived
