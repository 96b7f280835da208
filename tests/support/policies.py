"""Random selectors, exposures and record facts for them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from lace.policy.module import Facet, PolicyModule, module_from_text

RECORDS = tuple(f"P.{c * 42}0.H3" for c in "ABCDEF")
GROUPS = ("u", "v", "w")
ALICE, BOB = "V.alice", "V.bob"
SOURCE = "V.peer"

have_bodies = st.sampled_from([
    "Have(P)",
    "Have(P), Field(P,'Group',_,'u')",
    "Have(P), Field(P,'Group',_,G), Field(P,'App',_,G)",
    "Have(P), not Field(P,'Group',_,'v')",
    "Have(P), Member(P)",
    "Have(P), Cardinality(Have(_),'>','2')",
    "Have(P), Field(Q,'Group',_,'w')",
    "Field(P,'Group',_,'w'), TickTAI(T), LexCompare(T,'>','1')",
    "Have(P), RecordLink(Q,'+Link',_,'evidence',P), Have(Q)",
    "BlobHash(P,_), not Member(P)",
])  # fmt: skip
advert_bodies = st.sampled_from([
    "Advertised(P,S)",
    "Advertised(P,S), AdvertisedField(P,S,'Group',_,'u')",
    "Advertised(P,S), AdvertisedField(P,S,'Group',_,G), Field(Q,'Group',_,G)",
    "Advertised(P,S), AdvertisedField(P,S,N,_,'w')",
    "Advertised(P,S), not Have(P)",
    "Advertised(P,S), Member(Q), Have(Q)",
    "Advertised(P,S), Field(Q,'Group',_,'v')",
    "Advertised(P,S), Cardinality(Field(_,'Group',_,_),'<','3')",
    "Advertised(P,S), RecordLink(_,'+Link',_,'evidence',P)",
])  # fmt: skip
member_bodies = st.sampled_from([
    "Have(P), Field(P,'App',_,'u')",
    "RecordLink(_,_,_,'evidence',P)",
    "Have(P), not Field(P,'App',_,_)",
])  # fmt: skip


@st.composite
def selector_texts(draw: DrawFn, helper: str = "Member") -> str:
    lines = [
        f"SelectHave(P) :- {body}." for body in draw(st.lists(have_bodies, min_size=1, max_size=2))
    ]
    lines += [
        f"SelectAdvertised(P,S) :- {body}."
        for body in draw(st.lists(advert_bodies, min_size=1, max_size=2))
    ]
    lines += [f"Member(P) :- {body}." for body in draw(st.lists(member_bodies, max_size=2))]
    return "".join(f"{line}\n" for line in lines).replace("Member(", f"{helper}(")


selectors = selector_texts().map(module_from_text)


@st.composite
def selectors_apart(draw: DrawFn) -> PolicyModule:
    """Return a selector that decides on each record apart, often with guards."""
    bodies = st.sampled_from([
        "Have(P)", "Have(P), Field(P,'Group',_,'u')", "BlobHash(P,_), not Member(P)",
        "Have(P), Field(P,'Group',_,G), Field(P,'App',_,G)", "Have(P), Member(P)",
        "Have(P), Cardinality(Field(P,'Group',_,_),'>','1')", "Have(P), Told(G), Field(P,_,_,G)",
        "Have(P), Field(P,'Group',_,G), Open(G)", "Have(P), not Closed()",
        "Have(P), Cardinality(Open(_),'>','1')", f"Have('{RECORDS[0]}')", "Have(P), not Field(P,'Group',_,'v'), Now(T), T != '2'",
    ])  # fmt: skip
    offers = st.sampled_from([
        "Advertised(P,S)", "Advertised(P,S), AdvertisedField(P,S,'Group',_,'u')",
        "Advertised(P,S), not Have(P)", "Offer(P,S), not AdvertisedField(P,S,_,_,'w')",
        "Advertised(P,S), AdvertisedField(P,S,'Group',_,G), Open(G)",
    ])  # fmt: skip
    lines = [
        "Told(G) :- Peer(V), Wanted(G).", "Wanted('u') :- true.", "Now(T) :- TickTAI(T).",
        "Member(P) :- Field(P,'App',_,'u').", "Member(P) :- Member(P), not RecordLink(P,_,_,_,P).",
        "Offer(P,S) :- Advertised(P,S), AdvertisedField(P,S,_,_,_).",
        "Open(G) :- Have(Q), Field(Q,'App',_,'w'), Field(Q,'Group',_,G).", "Open('u') :- Closed().",
        "Closed() :- Field(Q,'App',_,'v'), not Field(Q,'Group',_,'u'), not Member(Q).",
    ]  # fmt: skip
    for body in draw(st.lists(bodies, min_size=1, max_size=2)):
        record = f"'{RECORDS[0]}'" if RECORDS[0] in body else "P"
        lines.append(f"SelectHave({record}) :- {body}.")
    chosen = draw(st.lists(offers, min_size=1, max_size=2))
    lines += [f"SelectAdvertised(P,S) :- {body}." for body in chosen]
    return module_from_text("".join(f"{line}\n" for line in lines))


@st.composite
def expose_modules(draw: DrawFn) -> PolicyModule:
    viewer = draw(st.sampled_from([f"'{ALICE}'", f"'{BOB}'", "V"]))
    body = draw(st.sampled_from([
        "Have(P), Field(P,'Group',_,'u')", "Have(P), not Field(P,'Group',_,'v')", "Have(P)",
        "Have(P), Field(P,'App',_,A), Field(Q,'Group',_,A)",
    ]))  # fmt: skip
    peer = ", Peer(V)" if viewer == "V" else ""
    text = f"AllowQueryRecord({viewer},P) :- {body}{peer}.\n"
    return module_from_text(text, Facet.EXPOSE)


@st.composite
def record_facts(draw: DrawFn) -> tuple[str, ...]:
    record = draw(st.sampled_from(RECORDS))
    match draw(st.integers(0, 4)):
        case 0:
            return "Have", record
        case 1:
            return "BlobHash", record, "B.x.H3"
        case 2:
            tag = draw(st.sampled_from(["evidence", "other"]))
            return "RecordLink", record, "+Link", "0", tag, draw(st.sampled_from(RECORDS))
    name = draw(st.sampled_from(["Group", "App"]))
    return "Field", record, name, draw(st.sampled_from("01")), draw(st.sampled_from(GROUPS))


@st.composite
def public_facts(draw: DrawFn) -> tuple[str, ...]:
    record = draw(st.sampled_from(RECORDS))
    match draw(st.integers(0, 3)):
        case 0:
            return "TickTAI", draw(st.sampled_from("123"))
        case 1:
            return "Advertised", record, SOURCE
        case 2:
            return "Peer", draw(st.sampled_from([ALICE, BOB]))
    group = draw(st.sampled_from(GROUPS))
    return "AdvertisedField", record, SOURCE, "Group", "0", group


stores = st.lists(record_facts() | public_facts(), max_size=30)
