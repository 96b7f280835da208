"""Limits that a peer can measure count only what the peer may see (L62)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from exchanges import NOTES, NOW, note, participant

from lace.answering.selection import Selection
from lace.driving.pair import interlace
from lace.errors import LimitExceeded
from lace.interlace import messages as m
from lace.limits import DEFAULT_LIMITS, UNLIMITED, Limits
from lace.policy.executable import ExchangePolicy
from lace.policy.module import Facet, PolicyModule, module_from_text
from lace.policy.origin import Party, label_operands
from lace.policy.plan import ExchangePlan
from lace.policy.view import Exposure
from lace.rules import LocalFacts
from lace.vocabulary import HAVE, SELECT_HAVE

Fact = tuple[str, ...]

EVERYTHING = module_from_text(
    "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
)
MIXED = module_from_text(
    # Own rules that put hidden records and advertisements together in every way that adds up.
    "SelectHave(P) :- Have(P), Field(P,'App',_,'notes').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), Known(P).\n"
    "Known(P) :- Have(P).\n"
    "Known(P) :- Advertised(P,_).\n"
    "Reached('start') :- true.\n"
    "Reached(P) :- Reached(_), Known(P).\n"
)
CURIOUS = module_from_text(
    # Rules of a peer that count and derive as much as they can.
    "SelectHave(P) :- Have(P).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), All(P).\n"
    "All(P) :- Have(P).\n"
    "All(P) :- Advertised(P,_).\n"
    "Pair(P,Q) :- All(P), All(Q).\n"
    "Lonely(P) :- All(P), not Pair(P,P).\n"
    "Few() :- Cardinality(Field(_,_,_,_),'<','3').\n"
    "Odd() :- Cardinality(Field(_,L,_,L),'>','0').\n"
)
MOST = 20
"""So many advertisements are tried."""


def end(
    hidden: int, offered: int, mine: PolicyModule, theirs: PolicyModule, limits: Limits
) -> m.Event:
    """Return how an exchange ends for a side with hidden records, if it is offered so many."""
    secret = [note(i, app="diary", group="secret") for i in range(hidden)]
    left = participant(0, [note(100 + i) for i in range(offered)], theirs)
    right = participant(1, [*secret, *(note(i) for i in range(5))], mine, limits=limits)
    interlace(left, right, NOW)
    return right.told[-1]


SIDES = {"plain": (NOTES, EVERYTHING), "mean": (MIXED, CURIOUS)}


@pytest.mark.parametrize(
    ("sides", "limit", "value"),
    [
        ("plain", "base_facts", 11),
        ("plain", "advertised_facts", 20),
        ("plain", "derived_facts", 9),
        ("plain", "work", 1900),
        ("mean", "base_facts", 100),
        ("mean", "advertised_facts", 10),
        ("mean", "derived_facts", 64),
        ("mean", "work", 9000),
    ],
)
def test_when_a_side_aborts_says_nothing_of_hidden_records(
    sides: str, limit: str, value: int
) -> None:
    limits = Limits(**{limit: value})

    def ends(hidden: int, offered: int) -> m.Event:
        return end(hidden, offered, *SIDES[sides], limits)

    first = next((n for n in range(MOST) if isinstance(ends(0, n), m.Aborted)), None)
    assert first, "some are accepted, and some are too many"
    for hidden in range(10):
        assert not isinstance(ends(hidden, first - 1), m.Aborted)
        assert ends(hidden, first) == ends(0, first)


def test_rounds_of_own_rules_are_not_counted() -> None:
    """A chain of hidden records may be longer than any that a peer's rules may follow."""
    chain = module_from_text(
        "SelectHave(P) :- Have(P), Reached(P).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "Reached('0') :- true.\n"
        "Reached(Q) :- Reached(P), RecordLink(P,_,_,_,Q).\n"
    )
    facts: list[Fact] = [("RecordLink", str(i), "+Link", "0", "x", str(i + 1)) for i in range(50)]
    limits = Limits(iterations=10)
    policy = policy_of(chain, EVERYTHING, facts, limits=limits)
    policy.apply([("Have", "50"), ("Field", "50", "App", "0", "x")])
    assert {row[0] for row in policy._local.rows(SELECT_HAVE)} == {"50"}
    with pytest.raises(LimitExceeded, match="limit iterations is 10"):
        policy_of(EVERYTHING, chain, facts, Exposure(default="everything"), limits)


# --- what counts ---


def facts_of(name: str, group: str) -> list[Fact]:
    return [
        ("Have", name),
        ("Field", name, "Group", "0", group),
        ("Field", name, "Size", "0", "1"),
    ]


def policy_of(
    mine: PolicyModule,
    theirs: PolicyModule,
    facts: list[Fact],
    exposure: Exposure | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> ExchangePolicy:
    plan = ExchangePlan(label_operands(Party(index=0, module=mine), Party(index=1, module=theirs)))
    return ExchangePolicy(plan, 0, LocalFacts(facts, limits), exposure or Exposure(), limits)


SHOWN = module_from_text(
    "SelectHave(P) :- Have(P), Field(P,'Group',_,'shown').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S).\n"
)


def hidden_and_shown(hidden: int, shown: int) -> list[Fact]:
    return [
        *(fact for i in range(hidden) for fact in facts_of(f"h{i}", "hidden")),
        *(fact for i in range(shown) for fact in facts_of(f"s{i}", "shown")),
    ]


def test_base_facts_counts_what_a_peers_rules_look_at_of_visible_records() -> None:
    """Two facts of each record: that it is here, and its group; nobody asks for its size."""
    limits = Limits(base_facts=20)
    exposure = Exposure(default="selected")

    def make(shown: int) -> ExchangePolicy:
        return policy_of(SHOWN, SHOWN, hidden_and_shown(30, shown), exposure, limits)

    for policy in (make(10), make(9)):
        assert len(policy.visible) in {9, 10}
        policy.apply(facts_of("h30", "hidden"))
    with pytest.raises(LimitExceeded, match="limit base_facts is 20, observed 22"):
        make(11)
    policy = make(9)
    policy.apply(facts_of("s9", "shown"))
    with pytest.raises(LimitExceeded, match="limit base_facts is 20, observed 22"):
        policy.apply(facts_of("s10", "shown"))
    assert len(policy.visible) == 10, "all of it or nothing"
    policy.apply(removed=facts_of("s0", "shown"))
    policy.apply(facts_of("s10", "shown"))
    assert len(policy.visible) == 10


def test_a_record_that_comes_into_view_counts_and_one_that_leaves_it_does_not() -> None:
    unlocked = module_from_text(
        "AllowQueryRecord(V,P) :- Have(P), Unlocked(), Field(P,'Group',_,_), Peer(V).\n"
        "Unlocked() :- Have('key').\n",
        Facet.EXPOSE,
    )
    label = policy_of(SHOWN, SHOWN, []).peer.viewer
    facts: list[Fact] = [*hidden_and_shown(10, 0), ("Peer", label)]
    limits = Limits(base_facts=19)
    policy = policy_of(SHOWN, SHOWN, facts, Exposure((unlocked,)), limits)
    assert not policy.visible
    with pytest.raises(LimitExceeded, match="limit base_facts is 19, observed 20"):
        policy.apply([("Have", "key")])
    assert not policy.visible
    policy.apply([], facts_of("h0", "hidden"))
    policy.apply([("Have", "key")])
    assert len(policy.visible) == 9


def test_advertised_facts_counts_what_a_peer_advertises_and_nothing_else() -> None:
    limits = Limits(advertised_facts=6)
    policy = policy_of(SHOWN, SHOWN, hidden_and_shown(30, 30), limits=limits)

    def advert(name: str) -> list[Fact]:
        field = ("AdvertisedField", name, "s", "Group", "0", "shown")
        return [("Advertised", name, "s"), field]

    policy.apply([*advert("a"), *advert("b"), *advert("c")])
    with pytest.raises(LimitExceeded, match="limit advertised_facts is 6, observed 7"):
        policy.apply(advert("d"))
    policy.apply(advert("d"), advert("a"))
    assert {row[0] for row in policy.may_request} == {"b", "c", "d"}


def test_own_rules_have_limits_of_their_own() -> None:
    pairs = module_from_text(
        "SelectHave(P) :- Pair(P,_).\n"
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "Pair(P,Q) :- Have(P), Have(Q).\n"
    )
    facts = hidden_and_shown(10, 0)
    policy_of(pairs, EVERYTHING, facts, limits=Limits(derived_facts=20, work=1000, base_facts=0))
    with pytest.raises(LimitExceeded, match="limit own_derived_facts is 99, observed 100"):
        policy_of(pairs, EVERYTHING, facts, limits=Limits(own_derived_facts=99))
    with pytest.raises(LimitExceeded, match="limit own_work is 2000"):
        policy_of(pairs, EVERYTHING, facts, limits=Limits(own_work=2000))
    kept = policy_of(pairs, EVERYTHING, facts, limits=Limits(own_derived_facts=100))
    with pytest.raises(LimitExceeded, match="limit own_derived_facts is 100"):
        kept.apply([("Have", "one more")])


def test_the_limits_of_own_rules_are_far_from_what_advertisements_can_add() -> None:
    """A sum of hidden records and advertisements does not reach them; only a product can."""
    limits = DEFAULT_LIMITS
    assert limits.own_derived_facts >= 8 * limits.advertised_facts
    assert limits.own_derived_facts >= 4 * limits.base_facts
    assert limits.own_work >= 256 * limits.work
    assert limits.advertised_facts >= 80 * limits.max_advertisement_records_listed
    assert limits.own.base_facts == limits.own.iterations == UNLIMITED


def test_ones_own_store_loads_whatever_its_size() -> None:
    limits = Limits(base_facts=3, derived_facts=3, iterations=1, work=3)
    side = participant(0, [note(i) for i in range(20)], NOTES, limits=limits)
    with side.store.snapshot() as snapshot:
        assert snapshot.count(HAVE) == 20
    assert len(Selection(side.store, NOTES, limits).hashes()) == 20


# --- what a peer's rules cost ---


class Story:
    """The same changes of what a peer sees, among more or fewer hidden records."""

    def __init__(self, hidden: int) -> None:
        facts = [*hidden_and_shown(0, 20), ("Field", "s0", "Same", "0", "Same")]
        names = ("Same", "Size", "Group")  # another order than that of shown records
        secret = [("Field", f"h{i}", name, "1", "x") for i in range(hidden) for name in names]
        # Hidden records come first, in between and last.
        self.hidden = [*secret, *hidden_and_shown(hidden, 0)]
        third = len(self.hidden) // 3
        facts = [*self.hidden[:third], *facts, *self.hidden[third : 2 * third]]
        self.policy = policy_of(SHOWN, CURIOUS, facts, Exposure(default="selected"))

    def costs(self) -> Iterator[int]:
        """Yield what the peer's rules have looked at, after each step."""
        third = 2 * (len(self.hidden) // 3)
        steps: list[tuple[list[Fact], list[Fact]]] = [
            (facts_of("s20", "shown"), []),
            ([("Advertised", "a", "s")], []),
            ([*facts_of("s21", "shown"), ("Field", "s21", "A", "0", "y")], []),
            ([], facts_of("s3", "shown")),
            ([("Field", "s5", "Z", "0", "y")], []),
            ([fact for i in range(22, 40) for fact in facts_of(f"s{i}", "shown")], []),
            ([("Advertised", f"a{i}", "s") for i in range(30)], [("Advertised", "a", "s")]),
        ]
        yield self._work()
        self.policy.apply(self.hidden[third:])
        for added, removed in steps:
            self.policy.apply(added, removed)
            yield self._work()

    def _work(self) -> int:
        return self.policy.explainers()[1].evaluation.meter.work


def test_what_a_peers_rules_cost_does_not_depend_on_hidden_records() -> None:
    alone, *others = (list(Story(hidden).costs()) for hidden in (0, 1, 7, 300))
    assert all(cost > 0 for cost in alone)
    assert all(other == alone for other in others)
