"""Whether rules take records from anyone: what counts as a condition on signers, and what does not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from effort import examples
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from small_room import room

import lace
from lace.crypto.keys import demo_key
from lace.datalog.evaluate import evaluate
from lace.datalog.source import parse_facts
from lace.errors import LaceError
from lace.policy.admission import takes_from_anyone
from lace.policy.module import PolicyModule, module_from_text
from lace.rules import MemorySource
from lace.scenario.build import load_scenario
from lace.selectors import all_of, any_of, hashes, selector, with_support
from lace.vocabulary import SELECT_ADVERTISED

ALICE, EVE = demo_key("alice"), demo_key("eve")
PLACE = "//g//notes//"
HAVE = "SelectHave(P) :- Have(P).\n"
SIGNED = "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Signed-By',_,V)"
COOKBOOK = Path(__file__).parent.parent.parent.parent / "docs" / "cookbook"


def of(*rules: str) -> PolicyModule:
    return module_from_text(HAVE + "\n".join(rules))


def grant(signer: str) -> str:
    return f"Have(G), Field(G,'Signed-By',_,{signer}), Field(G,'Member',_,V)"


NAMED_GRANT = grant("'V.a'")


ANYONE = {
    "a plain prefix": selector(PLACE),
    "a place with a field": selector("//g//notes//n", {"Role": "x"}),
    "a prefix beside a room": any_of(selector(PLACE), room("//g//rooms//", authority=ALICE.verifier)),
    "the evidence for a prefix": with_support(selector(PLACE)),
    "a signer that is not looked at": of("SelectAdvertised(P,S) :- AdvertisedField(P,S,'Signed-By',_,_)."),
    "a signer that nothing is asked of": of(f"{SIGNED}."),
    "any proven peer": of("SelectAdvertised(P,S) :- Advertised(P,S), Peer(V)."),
    "a proven peer that signs": of(f"{SIGNED}, Peer(V)."),
    "this side's own key, which it always has": of("SelectAdvertised(P,S) :- Advertised(P,S), Here('V.x')."),
    "all but a peer": of("SelectAdvertised(P,S) :- Advertised(P,S), not Peer('V.x')."),
    "all but the banned": of(f"{SIGNED}, not Banned(V).", f"Banned(V) :- {NAMED_GRANT}."),
    "all signers that sign": of(
        f"{SIGNED}, Known(V).", "Known(V) :- Have(P), Field(P,'Signed-By',_,V)."
    ),
    "a grant that anyone may sign": of(
        f"{SIGNED}, Member(V).", "Member(V) :- Have(G), Field(G,'Member',_,V)."
    ),
    "a grant of a signer without a name": of(f"{SIGNED}, Member(V).", f"Member(V) :- {grant('W')}."),
    "one of two ways is open": of(
        f"{SIGNED}, Member(V).", "Member('V.a') :- true.", f"Member(V) :- {grant('W')}."
    ),
    "one of two rules is open": of(f"{SIGNED}, Member(V).", "Member('V.a') :- true.", f"{SIGNED}."),
    "admission by members that anyone can be": of(
        f"{SIGNED}, Member(V).", f"Member(V) :- {grant('W')}, Member(W).",
        "Member(V) :- Have(G), Field(G,'First',_,V).",
    ),
    "another argument is the named one": of(
        f"{SIGNED}, Pair(V,_).", f"Pair(W,V) :- {NAMED_GRANT}, Have(H), Field(H,'Signed-By',_,W)."
    ),
    "the signer of another record": of(
        "SelectAdvertised(P,S) :- Advertised(P,S), Advertised(Q,S), AdvertisedField(Q,S,'Signed-By',_,'V.a')."
    ),
    "what another source says of it": of(
        "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,T,'Signed-By',_,'V.a')."
    ),
    "a grant that is only claimed": of(
        f"{SIGNED}, Member(V).",
        "Member(V) :- AdvertisedField(G,S,'Signed-By',_,'V.a'), AdvertisedField(G,S,'Member',_,V).",
    ),
    "a grant that is here, of a signer that is claimed": of(
        f"{SIGNED}, Member(V).",
        "Member(V) :- AdvertisedField(G,S,'Signed-By',_,'V.a'), Field(G,'Member',_,V).",
    ),
    "a comment on a named article": of(
        "SelectAdvertised(P,S) :- AdvertisedField(P,S,'Re',_,A), Field(A,'Signed-By',_,'V.a')."
    ),
    "a comparison": of(f"{SIGNED}, LexCompare(V,'>=','V.a'), LexCompare(V,'<=','V.b')."),
    "a count": of(f"{SIGNED}, Cardinality(Member(_),'>','0').", "Member('V.a') :- true."),
    "friends by anyone's word": of(
        "SelectAdvertised(P,S) :- Advertised(P,S), Peer(V), Friend(V).", "Friend(V) :- Field(_,'Friend',_,V)."
    ),
    "a predicate that no rule derives": of(f"{SIGNED}, Friend(V)."),
}  # fmt: skip

NAMED = {
    "a small room": room(PLACE, authority=ALICE.verifier),
    "members admit members": room(
        PLACE, authority=ALICE.verifier, delegation=True, revocation_app="ended"
    ),
    "a prefix and a room": all_of(selector(PLACE), room(PLACE, authority=ALICE.verifier)),
    "the evidence of a room": with_support(room(PLACE, authority=ALICE.verifier)),
    "a record": hashes(["S.x"]),
    "a signer": of("SelectAdvertised(P,S) :- AdvertisedField(P,S,'Signed-By',_,'V.a')."),
    "a list of signers": of(f"{SIGNED}, May(V).", "May('V.a') :- true.", "May('V.b') :- true."),
    "a list with the signer second": of(f"{SIGNED}, May('notes',V).", "May('notes','V.a') :- true."),
    "a peer": of("SelectAdvertised(P,S) :- Advertised(P,S), Peer('V.a')."),
    "peers of a list": of(
        "SelectAdvertised(P,S) :- Advertised(P,S), Friends().", "Friends() :- Peer(V), May(V).",
        "May('V.a') :- true.",
    ),
    "a peer or a signer": of(
        "SelectAdvertised(P,S) :- Good(P,S).", "Good(P,S) :- Advertised(P,S), Peer('V.a').",
        "Good(P,S) :- AdvertisedField(P,S,'Signed-By',_,'V.b').",
    ),
    "what this side signs": of(f"{SIGNED}, Here(V)."),
    "a peer with this side's key": of("SelectAdvertised(P,S) :- Advertised(P,S), Peer(V), Here(V)."),
    "the signer through a relation": of(
        "SelectAdvertised(P,S) :- By(V,P,S), May(V).",
        "By(V,P,S) :- AdvertisedField(P,S,'Signed-By',_,V).", "May('V.a') :- true.",
    ),
    "grants through a relation without a signer": of(
        f"{SIGNED}, Grant('V.a',V).", f"Grant(W,V) :- {grant('W')}."
    ),
    "a grant of a grant": of(
        f"{SIGNED}, Member(V).", f"Member(V) :- {grant('W')}, Chief(W).", f"Chief(V) :- {NAMED_GRANT}."
    ),
    "admission by members of a named one": of(
        f"{SIGNED}, Member(V).", f"Member(V) :- {grant('W')}, Member(W).", "Member('V.a') :- true."
    ),
    "two relations that rest on each other": of(
        f"{SIGNED}, A(V).", "A(V) :- B(V).", f"B(V) :- {grant('W')}, A(W).", "A('V.a') :- true."
    ),
    "a way that only leads to itself": of(
        "SelectAdvertised(P,S) :- A(P,S).", "A(P,S) :- Advertised(P,S), A(P,S).",
        "A(P,S) :- Advertised(P,S), Peer('V.x').",
    ),
    "what a named record links to": of(
        "SelectAdvertised(P,S) :- Advertised(P,S), Cited(P).",
        "Cited(E) :- Field(R,'Signed-By',_,'V.a'), RecordLink(R,_,_,_,E).",
        "Cited(E) :- Cited(R), RecordLink(R,_,_,_,E).",
    ),
    "all but some of a list": of(
        f"{SIGNED}, May(V), not Banned(V).", "May('V.a') :- true.", "Banned(V) :- Field(_,'Ban',_,V)."
    ),
    "nothing at all": module_from_text("SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S), "
                                       "not Advertised(P,S), Peer('V.a')."),
}  # fmt: skip


@pytest.mark.parametrize("case", ANYONE)
def test_rules_that_take_from_anyone(case: str) -> None:
    assert takes_from_anyone(ANYONE[case])


@pytest.mark.parametrize("case", NAMED)
def test_rules_that_name_from_whom_they_take(case: str) -> None:
    assert not takes_from_anyone(NAMED[case])


@pytest.mark.parametrize("removed", ["goes", "stays"])
@pytest.mark.parametrize("places", ["shared", "own"])
@pytest.mark.parametrize("delegation", [0, 1, 3])
def test_every_room_names_from_whom_it_takes(removed: Any, places: Any, delegation: int) -> None:
    for roles in (None, {"chair": ("*",), "guest": ("question", "answer"), "reader": ()}):
        more: dict[str, Any] = {} if roles is None else {"roles": roles}
        made = lace.Room(
            prefix=PLACE, authority=ALICE.verifier, removed=removed, places=places,
            delegation=delegation, **more,
        )  # fmt: skip
        assert not takes_from_anyone(made.module)
        assert not takes_from_anyone(
            any_of(made.module, room("//g//b//", authority=ALICE.verifier))
        )
        assert not takes_from_anyone(with_support(made.module))


def test_rules_that_take_too_much_work_to_judge_are_open_to_anyone() -> None:
    module = NAMED["members admit members"]
    assert not takes_from_anyone(module, work=10_000)
    assert takes_from_anyone(module, work=100)


def test_rules_of_the_cookbook_are_known_for_what_they_are() -> None:
    """Those named here let anyone write: drafts, mail boxes, comments, orders by their count."""
    from_anyone = {
        "embargo", "manifest", "moderation", "mute", "private-drafts", "quota", "replies",
        "two-person",
    }  # fmt: skip
    found = {
        path.stem
        for path in COOKBOOK.glob("*.toml")
        if any(map(takes_from_anyone, load_scenario(path.read_text("utf-8")).modules.values()))
    }
    assert found == from_anyone


@pytest.mark.parametrize(
    "case", ["a plain prefix", "a signer that nothing is asked of", "any proven peer", "all but the banned"]
)  # fmt: skip
def test_a_server_stores_nothing_from_strangers_unless_it_is_asked_to(case: str) -> None:
    module = ANYONE[case]

    async def stored(**more: Any) -> int:
        async with lace.open(key=ALICE) as local:
            async with (
                lace.serve(local, "tcp:127.0.0.1:0", policy=module, **more) as server,
                lace.open(key=EVE) as theirs,
            ):
                await lace.store(
                    theirs, [lace.RecordKind(group="g", app="notes").build("n", key=EVE)]
                )
                await lace.sync(theirs, server.addresses[0], module)
            return await lace.count(local, PLACE)

    assert asyncio.run(stored()) == 0
    assert asyncio.run(stored(accept=["anyone"])) == 1


# --- random rules in the world of a stranger ---

STRANGER, OURS = "V.eve", "V.a"
TERMS = ("P", "S", "V", "W", "_", f"'{OURS}'")
CONDITIONS = (
    "AdvertisedField(P,S,'Signed-By',_,V)", "AdvertisedField(P,S,'Signed-By',_,W)",
    "AdvertisedField(W,S,'Signed-By',_,V)", "AdvertisedField(P,S,'Member',_,V)",
    "AdvertisedField(P,W,'Signed-By',_,V)", "Advertised(P,S)", "Advertised(V,S)",
    "Have(P)", "Field(P,'Signed-By',_,V)", "Field(W,'Signed-By',_,V)", "Field(P,'Member',_,V)",
    "Field(W,'Member',_,V)", "Field(W,'Member',_,P)", "RecordLink(W,_,_,_,P)", "Peer(V)", "Here(V)",
    f"Peer('{OURS}')", f"Field(W,'Signed-By',_,'{OURS}')",
    f"AdvertisedField(P,S,'Signed-By',_,'{OURS}')",
)  # fmt: skip
BINDS = {
    "P": "Advertised(P,S)", "S": "Advertised(P,S)", "V": "Field(P,'Member',_,V)",
    "W": "AdvertisedField(P,S,'Member',_,W)",
}  # fmt: skip
RECORDS = ("S.eve1", "S.eve2", "S.eve3", "S.ours")


@st.composite
def programs(draw: DrawFn) -> str:
    """Return rules for SelectAdvertised, A/1 and B/2, some of which rest on each other."""
    lines = [HAVE]
    term = st.sampled_from(TERMS)
    derived = st.one_of(
        term.map(lambda one: f"A({one})"), st.tuples(term, term).map(lambda two: f"B({two[0]},{two[1]})")
    )  # fmt: skip
    condition = st.one_of(st.sampled_from(CONDITIONS), derived)
    heads = ["SelectAdvertised(P,S)"]
    heads += draw(
        st.lists(
            st.sampled_from(["A(V)", "A(P)", "B(V,W)", "B(P,S)", "B(P,V)"]), min_size=1, max_size=4
        )
    )
    for head in heads:
        body = draw(st.lists(condition, min_size=1, max_size=3, unique=True))
        for name, binds in BINDS.items():
            if name in head.split("(")[1] and not any(
                re.search(rf"[(,]{name}[,)]", part) for part in body
            ):
                body.append(binds)
        lines.append(f"{head} :- {', '.join(body)}.\n")
    lines += draw(
        st.lists(
            st.sampled_from([f"A('{OURS}') :- true.\n", f"B('x','{OURS}') :- true.\n"]), max_size=2
        )
    )
    return "".join(lines)


@st.composite
def worlds(draw: DrawFn) -> str:
    """Return facts of a stranger's records and lies, and of one record by the key that rules name.

    What the named key signs speaks of no stranger; strangers say whatever they like.
    """
    lines = [f"Peer('{STRANGER}')", "Here('V.here')"]
    for record in RECORDS:
        ours = record == "S.ours"
        signer = OURS if ours else STRANGER
        says = draw(
            st.lists(
                st.sampled_from([OURS, "x"] if ours else [STRANGER, OURS, *RECORDS, "s"]),
                max_size=3,
            )
        )
        lines += [f"Have('{record}')", f"Field('{record}','Signed-By','0','{signer}')"]
        lines += [f"Field('{record}','Member','{i}','{value}')" for i, value in enumerate(says)]
        if not ours:
            links = draw(
                st.lists(st.sampled_from([*RECORDS, "S.new", "S.lie"]), max_size=2, unique=True)
            )
            lines += [
                f"RecordLink('{record}','+Link','{i}','to','{to}')" for i, to in enumerate(links)
            ]
    # What is asked for is what it was advertised as (L74); of the rest, a peer says what it likes.
    for record, source, signer in (
        ("S.new", "s", STRANGER), ("S.lie", "s", OURS), ("S.new", "t", OURS), ("S.eve1", "s", OURS),
    ):  # fmt: skip
        member = draw(st.sampled_from([STRANGER, OURS, "S.new"]))
        lines += [
            f"Advertised('{record}','{source}')",
            f"AdvertisedField('{record}','{source}','Signed-By','0','{signer}')",
            f"AdvertisedField('{record}','{source}','Member','0','{member}')",
        ]
    return "".join(f"{line}\n" for line in lines)


@settings(max_examples=examples(600), deadline=None)
@given(programs(), st.lists(worlds(), min_size=1, max_size=3))
def test_where_signers_are_named_a_stranger_writes_nothing(rules: str, facts: list[str]) -> None:
    try:
        module = module_from_text(rules)
    except LaceError:
        assume(False)
    taken = any(
        ("S.new", "s") in {tuple(row) for row in _selected(module, world)} for world in facts
    )
    open_to_all = takes_from_anyone(module)
    event(f"taken {taken}, from anyone {open_to_all}")
    assert open_to_all or not taken


def _selected(module: PolicyModule, facts: str) -> list[tuple[str, ...]]:
    found = evaluate(module.program, MemorySource(parse_facts(facts)))
    return [tuple(row) for row in found.rows(SELECT_ADVERTISED)]
