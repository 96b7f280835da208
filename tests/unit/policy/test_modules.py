"""Modules, origins and plans."""

from __future__ import annotations

import random

import pytest
import small_room

from lace import b64a, selectors
from lace.crypto import SigningKey
from lace.datalog.ast import Predicate
from lace.errors import Code, LacegramError, PolicyError
from lace.ids import Verifier
from lace.policy.lowering import ENCRYPTED, STANDARD, Lowering
from lace.policy.module import (
    Facet,
    PolicyModule,
    combine,
    facet_of,
    feedback,
    module_from_peer,
    module_from_text,
)
from lace.policy.origin import (
    Operand,
    Origin,
    Party,
    bind_verifier,
    check_announced_origin,
    is_opaque_label,
    label_operands,
    opaque_labels,
)
from lace.policy.plan import ExchangePlan
from lace.rooms import Room
from lace.rules import check_lacegram
from lace.urc import parse_urc
from lace.vocabulary import MAY_SEND

HAVE = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
ADVERTISED = "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u').\n"
MODULE = module_from_text(HAVE + ADVERTISED)
ALICE, MALLORY = Verifier("V.alice"), Verifier("V.mallory")


def selector(text: str = HAVE + ADVERTISED) -> PolicyModule:
    return module_from_text(text)


def operands(
    first: PolicyModule = MODULE, second: PolicyModule = MODULE
) -> tuple[Operand, Operand]:
    return (
        Operand(index=0, module=first, origin=Origin("Opq_3")),
        Operand(index=1, module=second, origin=Origin("Opq_x")),
    )


def refused(text: str, facet: Facet = Facet.SELECTOR) -> set[Code]:
    with pytest.raises(LacegramError) as caught:
        module_from_text(text, facet)
    return {d.code for d in caught.value.diagnostics}


# --- modules ---


@pytest.mark.req("040-FAC-01", "040-CMP-04")
def test_a_selector_exports_both_facets() -> None:
    assert refused(HAVE) == {Code.POLICY_EXPORT}
    assert refused(ADVERTISED) == {Code.POLICY_EXPORT}
    assert MODULE.text == ADVERTISED + HAVE


@pytest.mark.req("040-FAC-06", "040-EXP-02", "040-EXP-03", "040-CMP-05", "040-SCO-05")
@pytest.mark.parametrize(
    "rule",
    [
        "MaySend(P) :- Have(P).",
        "MayRequest(P) :- Have(P).",
        "CanQueryRecord(V,P) :- Have(P), Peer(V).",
        "AllowQueryRecord(V,P) :- Have(P), Peer(V).",
        "o0_X(P) :- Have(P).",
        "o1_Member(P) :- Have(P).",
        "X(P) :- Have(P), MaySend(P).",
        "X(P) :- Have(P), not AllowQueryRecord(P,P).",
    ],
)
def test_a_selector_keeps_away_from_enforcement(rule: str) -> None:
    assert refused(f"{HAVE}{ADVERTISED}{rule}\n") == {Code.LACEGRAM_RESERVED}


def test_no_selector_of_the_library_offers_by_what_a_peer_offers() -> None:
    made = selectors.selector("//g//a//")
    authority = SigningKey(b"a" * 32).verifier
    small = small_room.room(
        "//g//a//", authority=authority, delegation=True, revocation_app="ended"
    )
    for module in (
        made, selectors.with_support(made), small, Room(prefix="//g//a//", authority=authority).module,
        selectors.any_of(made, small), selectors.all_of(made, small),
    ):  # fmt: skip
        assert list(feedback(module.lacegram.rules)) == []
    assert list(feedback(module_from_text(HAVE + ADVERTISED).lacegram.rules)) == []


@pytest.mark.req("040-SCO-05", "040-SCO-06")
def test_a_selector_that_names_the_others_helpers_finds_nothing() -> None:
    module = selector(f"{HAVE}{ADVERTISED}SelectHave(P) :- o0_Member(P).\n")
    assert Predicate("o0_Member", 1) in module.program.base


@pytest.mark.req("040-EXP-03", "040-CMP-03")
def test_an_expose_module_exports_and_defines_only_exposure() -> None:
    exposing = "AllowQueryRecord(V,P) :- Have(P), Peer(V).\n"
    assert module_from_text(exposing, Facet.EXPOSE).viewers() is None
    assert refused("X(P) :- Have(P).\n", Facet.EXPOSE) == {Code.POLICY_EXPORT}
    assert refused(f"{exposing}CanQueryRecord(V,P) :- Have(P), Peer(V).\n", Facet.EXPOSE) == {
        Code.LACEGRAM_RESERVED
    }
    assert refused("AllowQueryRecord(V,P) :- Have(P).\n", Facet.EXPOSE) == {Code.LACEGRAM_UNSAFE}


@pytest.mark.req("040-MOD-01", "040-CMP-02", "040-CMP-03", "040-PRE-03")
def test_what_a_peer_sends_is_canonical_matches_its_id_and_is_checked() -> None:
    content = MODULE.text.encode()
    assert module_from_peer(content, MODULE.id, Facet.SELECTOR).id == MODULE.id
    with pytest.raises(LacegramError):
        module_from_peer(b"# hello\n" + content, MODULE.id, Facet.SELECTOR)
    with pytest.raises(PolicyError) as caught:
        module_from_peer(content.replace(b"'u'", b"'v'"), MODULE.id, Facet.SELECTOR)
    assert caught.value.code is Code.POLICY_MODULE_ID
    flat = b"MaySend(P) :- Have(P).\n"
    with pytest.raises(LacegramError):
        module_from_peer(flat, check_lacegram(flat).lacegram.id, Facet.SELECTOR)


@pytest.mark.req("040-FAC-07")
def test_an_unknown_facet_is_refused() -> None:
    assert facet_of("selector") is Facet.SELECTOR
    with pytest.raises(PolicyError) as caught:
        facet_of("cache")
    assert caught.value.code is Code.POLICY_FACET


@pytest.mark.req("040-MOD-05", "040-PRV-01")
def test_annotations_never_reach_the_module() -> None:
    noted = module_from_text(f'#:json {{"origin":"V.alice"}}\n{HAVE}{ADVERTISED}')
    assert noted.id == MODULE.id
    assert "origin" not in noted.text


@pytest.mark.req("040-MOD-04")
def test_local_selectors_combine_into_one() -> None:
    helper = selector(f"{ADVERTISED}SelectHave(P) :- Member(P).\nMember(P) :- Have(P).\n")
    other = selector(f"{ADVERTISED}SelectHave(P) :- Member(P).\nMember(P) :- BlobHash(P,_).\n")
    both = combine((helper, other, MODULE))
    assert both.facet is Facet.SELECTOR
    assert {p.name for p in both.program.derived} >= {"m0_Member", "m1_Member", "SelectHave"}
    assert len(ExchangePlan(operands(both)).operands) == 2


@pytest.mark.req("040-FLD-01", "040-FLD-02", "040-FLD-03")
def test_required_fields() -> None:
    assert MODULE.required_fields == frozenset({"Group"})
    helper = "H(P) :- Advertised(P,S), not AdvertisedField(P,S,'Role',_,_).\n"
    count = "C(P) :- Advertised(P,S), Cardinality(AdvertisedField(P,S,'Tag',_,_),'>','0').\n"
    assert selector(HAVE + ADVERTISED + helper + count).required_fields == frozenset(
        {"Group", "Role", "Tag"}
    )
    for name in ("N", "_"):
        rule = f"H(P) :- AdvertisedField(P,S,{name},_,_).\n"
        assert selector(HAVE + ADVERTISED + rule).required_fields is None


# --- origins ---


@pytest.mark.req("040-OPQ-01", "040-OPQ-05", "040-OPQ-07")
def test_labels_are_one_character_and_always_differ() -> None:
    chance = random.Random(5)
    seen = set()
    for _ in range(1000):
        first, second = opaque_labels(chance.randbytes(32), chance.randbytes(32))
        assert is_opaque_label(first)
        assert is_opaque_label(second)
        assert first != second
        seen |= {first, second}
    assert len(seen) > 60  # they carry no identity
    assert not is_opaque_label("Opq_")
    assert not is_opaque_label("Opq_ab")
    assert not is_opaque_label("V.alice")


@pytest.mark.req("040-OPQ-03", "040-OPQ-04")
def test_the_first_difference_decides() -> None:
    first = b64a.decode("ABCDE" + "0" * 38)
    second = b64a.decode("ABCDF" + "0" * 38)
    assert opaque_labels(first, second) == ("Opq_E", "Opq_F")
    with pytest.raises(PolicyError) as caught:
        opaque_labels(first, first)
    assert caught.value.code is Code.POLICY_ORIGIN


@pytest.mark.req("040-OPQ-02", "040-OPQ-06")
def test_every_input_counts() -> None:
    base = Party(index=0, module=MODULE, nonce="n", verifier=ALICE)
    others = [
        Party(index=1, module=MODULE, nonce="n", verifier=ALICE),
        Party(index=0, module=MODULE, nonce="m", verifier=ALICE),
        Party(index=0, module=MODULE, nonce="n"),
        Party(index=0, module=selector(HAVE + ADVERTISED.replace("'u'", "'v'")), nonce="n", verifier=ALICE),
    ]  # fmt: skip
    digests = {party.origin_digest() for party in [base, *others]}
    assert len(digests) == 5


@pytest.mark.req("040-ORG-03", "040-OPQ-08", "040-ORG-04", "040-MOD-02")
def test_a_proven_verifier_is_bound_to_a_label() -> None:
    first, second = label_operands(
        Party(index=1, module=MODULE, verifier=ALICE), Party(index=0, module=MODULE)
    )
    assert (first.index, second.index) == (0, 1)
    assert is_opaque_label(first.origin)
    assert is_opaque_label(second.origin)
    assert {second.verifier, str(second.viewer), str(second.source_label)} == {ALICE}
    assert first.verifier is None
    assert str(first.viewer) == first.origin
    plan = ExchangePlan((first, second))
    assert ALICE not in plan.transcript


@pytest.mark.req("040-CMP-01", "040-MOD-03")
@pytest.mark.parametrize("indexes", [(0, 0), (1, 1), (0, 2)])
def test_operands_are_0_and_1(indexes: tuple[int, int]) -> None:
    parties = [Party(index=index, module=MODULE) for index in indexes]
    with pytest.raises(PolicyError) as caught:
        label_operands(parties[0], parties[1])
    assert caught.value.code is Code.POLICY_OPERAND
    first, second = operands()
    with pytest.raises(PolicyError):
        ExchangePlan((second, first))


@pytest.mark.req("040-ORG-02", "040-ORG-05", "040-ORG-06", "040-ORG-01")
def test_a_peers_claim_of_origin_is_compared_and_never_believed() -> None:
    first, second = label_operands(Party(index=0, module=MODULE), Party(index=1, module=MODULE))
    check_announced_origin(second.origin, second)
    for claim in (first.origin, "V.alice", "V.mallory", "", "Opq_"):
        with pytest.raises(PolicyError) as caught:
            check_announced_origin(claim, second)
        assert caught.value.code is Code.POLICY_ORIGIN


@pytest.mark.req("040-ORG-07", "040-ORG-08", "040-ORG-06")
def test_a_claimed_verifier_is_provisional_until_proven() -> None:
    _, peer = operands()
    assert str(bind_verifier(peer, ALICE, ALICE).viewer) == ALICE
    assert str(bind_verifier(peer, None, None).viewer) == peer.origin
    for proven in (None, MALLORY):
        with pytest.raises(PolicyError) as caught:
            bind_verifier(peer, ALICE, proven)
        assert caught.value.code is Code.POLICY_ORIGIN


# --- plans ---


@pytest.mark.req(
    "040-PLN-02", "040-PLN-03", "040-PLN-04", "040-PLN-05", "040-PLN-06", "040-PLN-07", "040-PLN-08",
    "040-PLN-09", "040-PLN-12", "040-MOD-06",
)  # fmt: skip
def test_the_transcript_of_an_independent_program() -> None:
    module = "R.BqSWDnAWiHmpbOdWao2jqEmO_5NoahBacuagTfzPhdS"
    plan = ExchangePlan(operands())
    assert plan.transcript.splitlines() == [
        "ExchangePlanProfile('lace-040-exchange-plan-v1')",
        "ExchangePlanLowering('standard-v1')",
        f"ExchangePlanOperand('0','selector','{module}')",
        f"ExchangePlanOperand('1','selector','{module}')",
        "ExchangePlanOperandOrigin('0','Opq_3')",
        "ExchangePlanOperandOrigin('1','Opq_x')",
        "ExchangePlanRequireAdvertisedField('Group')",
        "ExchangePlanRuntime('ClockSkewSeconds','1')",
        "ExchangePlanRuntime('Here','1')",
        "ExchangePlanRuntime('Peer','1')",
        "ExchangePlanRuntime('StartTAI','1')",
        "ExchangePlanRuntime('TickTAI','1')",
        "ExchangePlanRuntime('Transport','1')",
        "ExchangePlanRuntime('TransportEncrypted','0')",
    ]
    assert plan.transcript.endswith("\n")
    assert plan.id == "E.0wlMCB_xupu_BOUlZnSYTP~LIInPS_8hiw8IwZr8E2_"


@pytest.mark.req("040-PLN-09", "040-PLN-10", "040-PLN-11")
def test_fields_in_the_transcript() -> None:
    two = selector(f"{HAVE}{ADVERTISED}H(P) :- AdvertisedField(P,_,'App',_,_).\n")
    assert ExchangePlan(operands(two)).transcript.count("RequireAdvertisedField") == 2
    everything = selector(f"{HAVE}{ADVERTISED}H(P) :- AdvertisedField(P,_,N,_,N).\n")
    transcript = ExchangePlan(operands(MODULE, everything)).transcript
    assert "ExchangePlanRequireAllAdvertisedFields()\n" in transcript
    assert "RequireAdvertisedField(" not in transcript


@pytest.mark.req("040-FLD-04", "040-FLD-05")
def test_a_schema_must_give_what_the_plan_needs() -> None:
    plan = ExchangePlan(operands())
    assert plan.is_met_by(frozenset({"Group", "App"}))
    assert plan.is_met_by(None)
    assert not plan.is_met_by(frozenset({"App"}))
    everything = selector(f"{HAVE}{ADVERTISED}H(P) :- AdvertisedField(P,_,N,_,N).\n")
    all_fields = ExchangePlan(operands(MODULE, everything))
    assert all_fields.is_met_by(None)
    assert not all_fields.is_met_by(frozenset({"Group", "App"}))


@pytest.mark.req("040-PLN-05", "040-LOW-07", "040-PLN-13", "040-PLN-14", "040-PLN-16", "040-EXP-05")
def test_the_lowering_is_part_of_the_plan_and_nothing_local_is() -> None:
    exposing = module_from_text("AllowQueryRecord(V,P) :- Have(P), Peer(V).\n", Facet.EXPOSE)
    assert exposing.id not in ExchangePlan(operands()).transcript
    plain, strict = ExchangePlan(operands()), ExchangePlan(operands(), ENCRYPTED)
    assert plain.id != strict.id
    for word in ("H3", "Limit", "AllowQueryRecord", "Schema", "expose"):
        assert word not in plain.transcript


@pytest.mark.req("040-PLN-15")
def test_a_plan_id_is_no_record_id() -> None:
    plan = ExchangePlan(operands())
    for text in (f"////{plan.id}", f"////{plan.id}.H3"):
        with pytest.raises(Exception, match="not a typed record hash"):
            parse_urc(text)


@pytest.mark.req("040-SCO-03", "040-SCO-04")
def test_no_label_becomes_a_predicate() -> None:
    names = {p.name for p in STANDARD.program.derived | STANDARD.program.base}
    assert not any("Opq" in name for name in names)
    assert "o0_" not in ExchangePlan(operands()).transcript


def test_only_selectors_are_exchanged() -> None:
    exposing = module_from_text("AllowQueryRecord(V,P) :- Have(P), Peer(V).\n", Facet.EXPOSE)
    with pytest.raises(PolicyError) as caught:
        ExchangePlan(operands(exposing))
    assert caught.value.code is Code.POLICY_FACET


@pytest.mark.req("040-LOW-08")
@pytest.mark.parametrize(
    "rule",
    [
        "MaySend(P) :- o0_SelectHave(P).",
        "MaySend(P) :- o0_SelectHave(P), o1_SelectHave(Q).",
        "MaySend(P) :- o0_SelectHave(P), not o1_SelectHave(P).",
        "MayRequest(P) :- o0_SelectAdvertised(P,S), o0_SelectHave(P).",
    ],
)
def test_a_lowering_cannot_permit_what_one_side_did_not_select(rule: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Lowering("loose", f"{rule}\n")
    assert caught.value.code is Code.POLICY_LOWERING


@pytest.mark.req("040-LOW-10")
def test_a_lowering_defines_the_two_enforcement_predicates() -> None:
    assert {str(p) for p in STANDARD.program.derived} == {"MaySend/1", "MayRequest/1"}
    assert MAY_SEND in ENCRYPTED.program.derived
