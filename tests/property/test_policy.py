"""Laws of exchange policy: what a peer cannot learn, and what never changes an answer."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from policies import (
    ALICE,
    RECORDS,
    SOURCE,
    expose_modules,
    record_facts,
    selector_texts,
    selectors,
    selectors_apart,
    stores,
)

from lace.datalog.change import Change
from lace.ids import Verifier
from lace.policy.executable import ExchangePolicy
from lace.policy.module import PolicyModule, module_from_text
from lace.policy.one_by_one import Entry, OneByOne
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Expose, Exposure
from lace.rules import LocalFacts
from lace.vocabulary import ADVERTISEMENT_FACTS, RECORD_FACTS, SELECT_ADVERTISED, SELECT_HAVE

Fact = tuple[str, ...]
exposures = st.builds(
    Exposure,
    st.lists(expose_modules(), max_size=3).map(tuple),
    st.sampled_from(["none", "selected", "everything"]),
)


def plan_of(mine: PolicyModule, theirs: PolicyModule) -> ExchangePlan:
    """Return the plan in which operand 1 is a peer who proved to be Alice."""
    return ExchangePlan(
        label_operands(
            Party(index=0, module=mine),
            Party(index=1, module=theirs, verifier=Verifier(ALICE)),
        )
    )


def policy_of(
    mine: PolicyModule, theirs: PolicyModule, facts: list[Fact], exposure: Exposure
) -> ExchangePolicy:
    return ExchangePolicy(plan_of(mine, theirs), 0, LocalFacts(facts), exposure)


def answers(policy: ExchangePolicy) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    return set(policy.may_send), set(policy.may_request)


def work_of(policy: ExchangePolicy) -> int:
    """Return how many tuples the peer's rules have looked at last."""
    return policy.explainers()[1].evaluation.meter.work


@pytest.mark.req("040-DIS-01", "040-LOW-04", "040-FAC-02", "040-FAC-03")
@settings(max_examples=examples(250), deadline=None)
@given(selectors, selectors, stores, st.lists(record_facts(), max_size=10), exposures)
def test_hidden_records_make_no_difference_to_a_peers_rules(
    mine: PolicyModule,
    theirs: PolicyModule,
    facts: list[Fact],
    extra: list[Fact],
    exposure: Exposure,
) -> None:
    """Two stores that differ only in what is hidden, and on which my own rules agree, answer alike.

    The peer's rules look at the same facts in both, so that no limit on them can tell the two apart.
    """
    both = [*facts[: len(facts) // 2], *extra, *facts[len(facts) // 2 :]]
    one = policy_of(mine, theirs, facts, exposure)
    two = policy_of(mine, theirs, both, exposure)
    records = {(p.name, p.arity) for p in RECORD_FACTS}

    def shown(policy: ExchangePolicy, all_facts: list[Fact]) -> set[Fact]:
        return {f for f in all_facts if (f[0], len(f) - 1) not in records or f[1] in policy.visible}

    same_view = shown(one, facts) == shown(two, both)
    same_mine = all(
        set(one._local.rows(facet)) == set(two._local.rows(facet))
        for facet in (SELECT_HAVE, SELECT_ADVERTISED)
    )
    if same_view:
        for facet in (SELECT_HAVE, SELECT_ADVERTISED):
            assert set(one._peer.rows(facet)) == set(two._peer.rows(facet))
        assert work_of(one) == work_of(two)
        if same_mine:
            assert answers(one) == answers(two)
        for policy in (one, two):
            policy.apply([("Advertised", "more", SOURCE)])
        assert work_of(one) == work_of(two)


@pytest.mark.req("040-EXP-06", "040-EXP-09")
@settings(max_examples=examples(100), deadline=None)
@given(
    selectors,
    selectors,
    stores,
    st.lists(expose_modules(), min_size=1, max_size=3),
    expose_modules(),
)
def test_another_constraint_never_widens_a_view(
    mine: PolicyModule, theirs: PolicyModule, facts: list[Fact],
    modules: list[PolicyModule], more: PolicyModule,
) -> None:  # fmt: skip
    before = policy_of(mine, theirs, facts, Exposure(tuple(modules)))
    after = policy_of(mine, theirs, facts, Exposure((*modules, more)))
    if Exposure(tuple(modules)).modules_for(before.peer.viewer):
        assert set(after.visible) <= set(before.visible)


@pytest.mark.req("040-SCO-01", "040-FAC-05")
@settings(max_examples=examples(80), deadline=None)
@given(selector_texts(), selector_texts(), stores, exposures)
def test_names_of_helpers_do_not_matter(
    mine: str, theirs: str, facts: list[Fact], exposure: Exposure
) -> None:
    same = policy_of(module_from_text(mine), module_from_text(theirs), facts, exposure)
    renamed = module_from_text(theirs.replace("Member(", "Zz("))
    other = policy_of(module_from_text(mine), renamed, facts, exposure)
    assert answers(same) == answers(other)


@pytest.mark.req("040-CMP-06", "040-PLN-01", "040-INT-04")
@settings(max_examples=examples(60), deadline=None)
@given(selectors, selectors, st.text("abc", max_size=3), st.text("abc", max_size=3))
def test_both_sides_compute_one_plan(
    mine: PolicyModule, theirs: PolicyModule, nonce0: str, nonce1: str
) -> None:
    here = Party(index=0, module=mine, nonce=nonce0)
    there = Party(index=1, module=theirs, nonce=nonce1)
    one = ExchangePlan(label_operands(here, there))
    two = ExchangePlan(label_operands(there, here))
    assert one.transcript == two.transcript
    assert one.id == two.id
    assert one.operands[0].origin != one.operands[1].origin


edits = st.lists(
    st.tuples(stores.map(lambda facts: facts[:4]), st.lists(st.integers(0, 1000), max_size=3)),
    min_size=1,
    max_size=5,
)


@pytest.mark.req("040-MOD-07", "040-LOW-06")
@settings(max_examples=examples(250), deadline=None)
@given(
    selectors,
    selectors,
    stores,
    exposures,
    edits,
    st.sampled_from(["none", "selected", "everything"]),
)
def test_following_changes_equals_starting_afresh(
    mine: PolicyModule, theirs: PolicyModule, facts: list[Fact], exposure: Exposure,
    changes: list[tuple[list[Fact], list[int]]], default: Expose,
) -> None:  # fmt: skip
    exposure = Exposure(exposure.modules, default)
    policy = policy_of(mine, theirs, facts, exposure)
    now = dict.fromkeys(facts)
    for added, picks in changes:
        present = list(now)
        removed = [present[pick % len(present)] for pick in picks] if present else []
        before = answers(policy)
        change = policy.apply(added, removed)
        for fact in removed:
            now.pop(fact, None)
        now |= dict.fromkeys(added)
        fresh = policy_of(mine, theirs, list(now), exposure)
        assert set(policy.visible) == set(fresh.visible)
        assert answers(policy) == answers(fresh)
        after = answers(policy)
        assert change.may_send == Change(before[0] - after[0], after[0] - before[0])
        assert change.may_request == Change(before[1] - after[1], after[1] - before[1])


@pytest.mark.req("040-LOW-01", "040-LOW-02", "040-INT-01", "040-INT-02", "040-INT-03")
@settings(max_examples=examples(80), deadline=None)
@given(selectors, selectors, stores, exposures)
def test_what_may_move_is_what_both_select(
    mine: PolicyModule, theirs: PolicyModule, facts: list[Fact], exposure: Exposure
) -> None:
    policy = policy_of(mine, theirs, facts, exposure)
    both = set(policy._local.rows(SELECT_HAVE)) & set(policy._peer.rows(SELECT_HAVE))
    assert set(policy.may_send) == both
    pairs = set(policy._local.rows(SELECT_ADVERTISED)) & set(policy._peer.rows(SELECT_ADVERTISED))
    assert set(policy.may_request) == {(record,) for record, _ in pairs}
    for record, _ in pairs:
        verdict = policy.explain_request(record)
        assert verdict.allowed or verdict.layer == "already here"
    for fact in facts:
        if fact[0] == "Have":
            verdict = policy.explain_send(fact[1])
            assert verdict.allowed is ((fact[1],) in both)
            assert verdict.detail


@settings(max_examples=examples(150), deadline=None)
@given(selectors_apart() | selectors, selectors_apart() | selectors, stores, exposures)
def test_what_is_decided_apart_is_what_is_decided_together(
    mine: PolicyModule, theirs: PolicyModule, facts: list[Fact], exposure: Exposure
) -> None:
    told_by = OneByOne.guards(plan_of(mine, theirs), 0, exposure)
    if told_by is None:
        return
    together = policy_of(mine, theirs, facts, exposure)
    kinds = {(p.name, p.arity) for p in RECORD_FACTS | ADVERTISEMENT_FACTS}
    fields = {r: {(f[2], f[4]) for f in facts if f[:2] == ("Field", r)} for r in RECORDS}
    guards = {r for r in RECORDS if any(values <= fields[r] for values in told_by)}
    send: set[tuple[str, ...]] = set()
    request: set[tuple[str, ...]] = set()
    for record in RECORDS:
        near = {record, *guards}
        own = [fact for fact in facts if (fact[0], len(fact) - 1) not in kinds or fact[1] in near]
        apart = policy_of(mine, theirs, own, exposure)
        assert {row[0] for row in (*apart.may_send, *apart.may_request)} <= near
        send |= {row for row in apart.may_send if row == (record,)}
        request |= {row for row in apart.may_request if row == (record,)}
    assert answers(together) == (send, request)


@settings(max_examples=examples(150), deadline=None)
@given(
    selectors_apart(), selectors_apart(), stores, exposures, st.integers(1, 3), st.integers(1, 3)
)  # fmt: skip
def test_records_can_be_decided_one_by_one(
    mine: PolicyModule,
    theirs: PolicyModule,
    facts: list[Fact],
    exposure: Exposure,
    at_once: int,
    batch: int,
) -> None:
    plan = plan_of(mine, theirs)
    told_by = OneByOne.guards(plan, 0, exposure)
    if told_by is None:
        return
    here = [record for record in RECORDS if ("Have", record) in facts]
    records = {(p.name, p.arity) for p in RECORD_FACTS}
    facts = [fact for fact in facts if (fact[0], len(fact) - 1) not in records or fact[1] in here]
    together = policy_of(mine, theirs, facts, exposure)
    entries = []
    for record in here:
        own = [fact for fact in facts if fact[1] == record]
        fields = tuple(sorted({(f[2], int(f[3]), f[4]) for f in own if f[0] == "Field"}))
        others = tuple(f for f in own if f[0] in {"RecordLink", "BlobHash"})
        entries.append(Entry(record, fields, others))
    guards = [
        entry
        for entry in entries
        if any(values <= {(name, value) for name, _, value in entry.fields} for values in told_by)
    ]
    rules = OneByOne(plan, 0, exposure, at_once=at_once)
    runtime = tuple(fact for fact in facts if fact[0] in {"TickTAI", "Peer"})
    batches = [entries[i : i + batch] for i in range(0, len(entries), batch)]
    parts = list(rules.sendable(batches, runtime, guards))
    assert all(len(part) <= at_once for part in parts)
    sent = {(entry.record,) for part in parts for entry in part}
    assert sent == set(together.may_send)
    offers = [fact for fact in facts if fact[0] in {"Advertised", "AdvertisedField"}]
    wanted = rules.requestable(offers, runtime, guards)
    absent = {row[0] for row in together.may_request}.difference(here)
    assert wanted.difference(here) == absent
