"""The record sets and rules that are measured: the same ones on every run.

Every engine gets the same Python lists of facts in the long form, one row for each field. The rules
are written once, as a lacegram; what clingo and Nemo read is made from that text. SQL is written by
hand, as someone would who knows the data.
"""

# ruff: noqa: S608  (the SQL is made of fixed words of this file)

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from lace import b64a
from lace.tai import from_ns

Row = tuple[str, ...]
Facts = dict[str, list[Row]]
"""Rows by predicate."""

GROUP: Final = "notes-demo"
AUTHORITY: Final = "V.authority"
START_NS: Final = 1_700_000_000_000_000_000
SECOND_NS: Final = 1_000_000_000

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "Have": ("rec",),
    "Field": ("rec", "name", "idx", "val"),
    "RecordLink": ("rec", "name", "idx", "label", "target"),
    "Root": ("rec",),
    "TickTAI": ("tai",),
}
"""The columns of each predicate in a database; the table has the predicate's name in lower case."""

INDEXES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "Field": (("name", "val", "rec"), ("rec", "name", "val")),
    "RecordLink": (("rec", "name", "label", "target"),),
}
"""For SQLite. The second one of fields holds the value too, because that helps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Facts, rules over them, and the predicate of one value that is asked for."""

    name: str
    facts: Facts
    rules: str
    output: str
    sql: tuple[str, ...]
    """Statements; the last one returns the rows."""
    duckdb: tuple[str, ...] = ()
    """Instead of ``sql``, where DuckDB is quicker with it."""
    clingo: str = ""
    """Instead of the translated rules."""
    nemo: str = ""
    """Instead of the translated rules."""
    skip: Mapping[str, str] = field(default_factory=dict)
    """Engines that are left out, and why."""

    @property
    def size(self) -> int:
        return sum(map(len, self.facts.values()))


# --- records ---


class Maker:
    """Makes the fields of records from seeded chance."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def hash(self) -> str:
        return f"S.{b64a.encode(self.chance.randbytes(32))}.H3"

    def key(self) -> str:
        return f"V.{b64a.encode(self.chance.randbytes(32))}"

    def record(
        self, number: int, *, group: str, app: str, name: str, signer: str, extra: tuple[str, str]
    ) -> list[Row]:
        """Return the fields of a record: about nine, of which rules look at a few."""
        record = self.hash()
        fields = (
            ("Type", "Seal"),
            ("Group", group),
            ("App", app),
            ("Name", name),
            ("TAI", from_ns(START_NS + number * SECOND_NS)),
            ("Signed-By", signer),
            ("Signature", b64a.encode(self.chance.randbytes(64))),
            extra,
            ("Data-Length", str(self.chance.randrange(4000))),
        )
        return [(record, field_name, "0", own(value)) for field_name, value in fields]


def as_facts(records: Iterable[list[Row]]) -> Facts:
    """Return the facts of records."""
    fields: list[Row] = []
    have: list[Row] = []
    for rows in records:
        have.append(rows[0][:1])
        fields += rows
    return {"Have": have, "Field": fields}


def own(text: str) -> str:
    """Return the text as an object of its own, as it is when records are read.

    Otherwise an engine in Python would gain from comparing an object with itself.
    """
    return text.encode().decode()


# --- W1, W3 and W6: a room of notes ---

NOTES: Final = """\
Member(V) :- Have(G), Field(G,'Group',_,'notes-demo'), Field(G,'App',_,'notes/member'), \
Field(G,'Signed-By',_,'V.authority'), Field(G,'Member',_,V).
SelectHave(N) :- Have(N), Field(N,'Group',_,'notes-demo'), Field(N,'App',_,'notes/message'), \
Field(N,'Signed-By',_,V), Member(V).
"""
REVOCATION: Final = (
    """\
Revoked(V) :- Have(G), Field(G,'Group',_,'notes-demo'), Field(G,'App',_,'notes/revoke'), \
Field(G,'Signed-By',_,'V.authority'), Field(G,'Member',_,V).
"""
    + NOTES[:-2]
    + ", not Revoked(V).\n"
)
TICK: Final = (
    NOTES
    + """\
Current(P) :- Have(P), Field(P,'App',_,'notes/message'), Field(P,'TAI',_,T), TickTAI(N), \
LexCompare(T,'<=',N).
"""
)


def _has(record: str, name: str, value: str) -> str:
    return (
        f"EXISTS (SELECT 1 FROM field f WHERE f.name = '{name}' AND f.val = '{value}'"
        f" AND f.rec = {record}.rec)"
    )


def _granted(app: str) -> str:
    """Return SQL for the keys that records of the authority name."""
    return (
        "SELECT DISTINCT m.val AS v FROM field a"
        " JOIN field m ON m.rec = a.rec AND m.name = 'Member'"
        f" WHERE a.name = 'App' AND a.val = '{app}'"
        f" AND {_has('a', 'Group', GROUP)} AND {_has('a', 'Signed-By', AUTHORITY)}"
        " AND EXISTS (SELECT 1 FROM have h WHERE h.rec = a.rec)"
    )


def _notes_sql(*, revocation: bool) -> str:
    """Start from the members: all engines do well with that."""
    revoked = f", revoked AS MATERIALIZED ({_granted('notes/revoke')})" if revocation else ""
    unless = " AND v NOT IN (SELECT v FROM revoked)" if revocation else ""
    return (
        f"WITH member AS MATERIALIZED ({_granted('notes/member')}){revoked}"
        " SELECT DISTINCT s.rec FROM member JOIN field s ON s.name = 'Signed-By' AND s.val = v"
        f" WHERE {_has('s', 'App', 'notes/message')} AND {_has('s', 'Group', GROUP)}"
        f" AND EXISTS (SELECT 1 FROM have h WHERE h.rec = s.rec){unless}"
    )


def _semi_joins(*, revocation: bool) -> str:
    """The same with IN instead of EXISTS: DuckDB is quicker with that."""

    def having(name: str, value: str) -> str:
        return f"IN (SELECT rec FROM field WHERE name = '{name}' AND val = '{value}')"

    def granted(app: str) -> str:
        return (
            "SELECT val AS v FROM field WHERE name = 'Member'"
            f" AND rec {having('App', app)} AND rec {having('Group', GROUP)}"
            f" AND rec {having('Signed-By', AUTHORITY)} AND rec IN (SELECT rec FROM have)"
        )

    unless = f" AND val NOT IN ({granted('notes/revoke')})" if revocation else ""
    return (
        "SELECT DISTINCT rec FROM field WHERE name = 'Signed-By'"
        f" AND val IN ({granted('notes/member')}){unless} AND rec {having('App', 'notes/message')}"
        f" AND rec {having('Group', GROUP)} AND rec IN (SELECT rec FROM have)"
    )


@dataclass(frozen=True, slots=True)
class NotesRoom:
    """The records of a room, and who may write in it."""

    maker: Maker
    records: list[list[Row]]
    members: list[str]
    strangers: list[str]

    def note(self, number: int, author: str, group: str = GROUP) -> list[Row]:
        return self.maker.record(
            number, group=group, app="notes/message", name=f"notes/{number:07d}", signer=author,
            extra=("Title", f"Note {number}"),
        )  # fmt: skip

    def grant(self, number: int, member: str, signer: str = AUTHORITY) -> list[Row]:
        return self.maker.record(
            number, group=GROUP, app="notes/member", name=f"members/{number:07d}", signer=signer,
            extra=("Member", member),
        )  # fmt: skip

    def revoke(self, number: int, member: str) -> list[Row]:
        return self.maker.record(
            number, group=GROUP, app="notes/revoke", name=f"revoked/{number:07d}",
            signer=AUTHORITY, extra=("Member", member),
        )  # fmt: skip


def notes_room(count: int) -> NotesRoom:
    """Of each 100 records 2 are grants and 1 a revocation; a fifth is in another group.

    Half of the authors are members. Some grants are signed by strangers and so mean nothing.
    """
    maker = Maker(1)
    members = [maker.key() for _ in range(max(1, count // 50))]
    strangers = [maker.key() for _ in range(len(members))]
    room = NotesRoom(maker, [], members, strangers)
    for number in range(count):
        kind = number % 100
        if kind < 2:
            record = room.grant(number, members[(number // 100 * 2 + kind) % len(members)])
        elif kind == 2:
            record = room.grant(number, maker.chance.choice(strangers), strangers[0])
        elif kind == 3:
            record = room.revoke(number, maker.chance.choice(members))
        else:
            author = maker.chance.choice(maker.chance.choice((members, strangers)))
            record = room.note(number, author, "other" if number % 5 == 4 else GROUP)
        room.records.append(record)
    return room


def notes(count: int) -> Workload:
    return Workload(
        name=f"W1 notes, {_thousands(count)} records",
        facts=as_facts(notes_room(count).records),
        rules=NOTES,
        output="SelectHave",
        sql=(_notes_sql(revocation=False),),
        duckdb=(_semi_joins(revocation=False),),
    )


def revocation(count: int) -> Workload:
    return Workload(
        name=f"W3 revocation, {_thousands(count)} records",
        facts=as_facts(notes_room(count).records),
        rules=REVOCATION,
        output="SelectHave",
        sql=(_notes_sql(revocation=True),),
        duckdb=(_semi_joins(revocation=True),),
    )


# --- W2: grants that pass on ---

DELEGATION: Final = """\
Member('V.root') :- true.
Member(V) :- Have(G), Field(G,'App',_,'delegate'), Field(G,'Signed-By',_,U), \
Field(G,'Member',_,V), Member(U).
"""
_DELEGATION_SQL: Final = (
    (
        "CREATE TEMP TABLE step AS SELECT s.val AS u, m.val AS v FROM field a"
        " JOIN field s ON s.rec = a.rec AND s.name = 'Signed-By'"
        " JOIN field m ON m.rec = a.rec AND m.name = 'Member'"
        " JOIN have h ON h.rec = a.rec WHERE a.name = 'App' AND a.val = 'delegate'"
    ),
    "CREATE INDEX step_u ON step(u)",
    (
        "WITH RECURSIVE member(v) AS (SELECT 'V.root' UNION"
        " SELECT step.v FROM member JOIN step ON step.u = member.v) SELECT v FROM member"
    ),
)


def delegation(grants: int, depth: int) -> Workload:
    """Each level is granted by the one before, down to the last; strangers grant one in ten."""
    maker = Maker(2)
    width = grants * 9 // 10 // depth
    pairs = []
    level = ["V.root"]
    for _ in range(depth):
        below = [maker.key() for _ in range(width)]
        pairs += [(maker.chance.choice(level), member) for member in below]
        level = below
    strangers = [maker.key() for _ in range(grants - len(pairs) + 1)]
    pairs += pairwise(strangers)
    maker.chance.shuffle(pairs)
    records = [
        maker.record(
            number, group=GROUP, app="delegate", name=f"grants/{number}", signer=signer,
            extra=("Member", member),
        )
        for number, (signer, member) in enumerate(pairs)
    ]  # fmt: skip
    return Workload(
        name=f"W2 delegation, depth {depth}",
        facts=as_facts(records),
        rules=DELEGATION,
        output="Member",
        sql=_DELEGATION_SQL,
    )


# --- W4: the newest by counting ---

_CANDIDATE: Final = (
    "Candidate(P,T) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), "
    "Field(P,'Name',_,K), "
)
NEWEST: Final = f"""\
Before(P,Q) :- Candidate(P,T), Candidate(Q,T), LexCompare(Q,'>',P).
Before(P,Q) :- Candidate(P,TP), Candidate(Q,TQ), LexCompare(TQ,'>',TP).
{_CANDIDATE}TextShape(K,'links/','',''), Field(P,'TAI',_,T).
Selected(P) :- Candidate(P,T), Cardinality(Before(P,Q),'<','100').
"""
_NEWEST_SQL: Final = (
    "SELECT a.rec FROM field a"
    " JOIN field g ON g.rec = a.rec AND g.name = 'Group' AND g.val = 'u'"
    " JOIN field k ON k.rec = a.rec AND k.name = 'Name'"
    " JOIN field t ON t.rec = a.rec AND t.name = 'TAI'"
    " JOIN have h ON h.rec = a.rec"
    " WHERE a.name = 'App' AND a.val = 'ding' AND substr(k.val, 1, 6) = 'links/'"
    " ORDER BY t.val DESC, a.rec DESC LIMIT 100"
)
_PAIRS: Final = "it makes every pair of candidates: too many of them"


def newest(count: int) -> Workload:
    """Two candidates share each instant, so that the record hash decides between them."""
    maker = Maker(4)
    numbers = maker.chance.sample(range(count), count)
    records = [
        maker.record(
            number // 2, group="u", app="ding", name=f"links/{number}", signer=AUTHORITY,
            extra=("Title", f"Link {number}"),
        )
        for number in numbers
    ]  # fmt: skip
    clingo = (
        to_clingo(f"{_CANDIDATE}Field(P,'TAI',_,T).").replace("K)", "K), @starts(K) = 1")
        + "before(P,Q) :- candidate(P,T), candidate(Q,T), Q > P.\n"
        "before(P,Q) :- candidate(P,TP), candidate(Q,TQ), TQ > TP.\n"
        "selected(P) :- candidate(P,_), #count{Q : before(P,Q)} < 100.\n"
    )
    nemo = to_nemo(f"{_CANDIDATE}Field(P,'TAI',_,T).").replace(
        "?K)", '?K), STRSTARTS(?K,"links/")=1'
    )
    nemo = (
        to_nemo(f"{_CANDIDATE}Field(P,'TAI',_,T).").replace("?K)", '?K), STRSTARTS(?K,"links/")')
        + "before(?P,?Q) :- candidate(?P,?T), candidate(?Q,?T), COMPARE(?Q,?P) = 1 .\n"
        "before(?P,?Q) :- candidate(?P,?TP), candidate(?Q,?TQ), COMPARE(?TQ,?TP) = 1 .\n"
        "many(?P,#count(?Q)) :- before(?P,?Q) .\n"
        "over(?P) :- many(?P,?N), ?N >= 100 .\n"
        "selected(?P) :- candidate(?P,_), ~over(?P) .\n"
    )
    return Workload(
        name=f"W4 newest 100 of {_thousands(count)}",
        facts=as_facts(records),
        rules=NEWEST,
        output="Selected",
        sql=(_NEWEST_SQL,),
        clingo=clingo,
        nemo=nemo,
        skip={"clingo": _PAIRS, "nemo": _PAIRS} if count > 2000 else {},
    )


# --- W5: everything that something rests on ---

SUPPORT: Final = """\
Support(T) :- Root(P), RecordLink(P,'+Link',_,'evidence',T).
Support(T) :- Support(P), RecordLink(P,'+Link',_,'evidence',T).
"""
_SUPPORT_SQL: Final = (
    "WITH RECURSIVE support(t) AS (SELECT l.target FROM root r JOIN recordlink l ON l.rec = r.rec"
    " AND l.name = '+Link' AND l.label = 'evidence' UNION"
    " SELECT l.target FROM support s JOIN recordlink l ON l.rec = s.t"
    " AND l.name = '+Link' AND l.label = 'evidence') SELECT t FROM support"
)


def support_chains(links: int, chains: int) -> Workload:
    maker = Maker(5)
    steps: list[tuple[str, str, str]] = []
    roots = [maker.hash() for _ in range(chains)]
    for root in roots:
        nodes = [root, *(maker.hash() for _ in range(links // chains))]
        steps += [(source, "0", target) for source, target in pairwise(nodes)]
    return _support(f"W5 support, {chains} chains", maker, steps, roots)


def support_tree(links: int, branches: int = 10) -> Workload:
    maker = Maker(6)
    nodes = [maker.hash() for _ in range(links + 1)]
    steps = [(nodes[n // branches], str(n % branches), nodes[n + 1]) for n in range(links)]
    return _support("W5 support, tree", maker, steps, nodes[:1])


def _support(
    name: str, maker: Maker, steps: list[tuple[str, str, str]], roots: list[str]
) -> Workload:
    maker.chance.shuffle(steps)
    links: list[Row] = [(own(s), "+Link", own(place), "evidence", own(t)) for s, place, t in steps]
    return Workload(
        name=name,
        facts={"Root": [(own(root),) for root in roots], "RecordLink": links},
        rules=SUPPORT,
        output="Support",
        sql=(_SUPPORT_SQL,),
    )


# --- the rules for other engines ---

_TOKEN: Final = re.compile(r"'([^']*)'|(\w+)(\()|([A-Z]\w*)|(true)")


def _translated(
    rules: str, variable: Callable[[str], str], negation: str, arrow: str = " :- "
) -> Iterator[str]:
    for line in rules.splitlines():
        head, _, body = _TOKEN.sub(lambda m: _token(m, variable), line).partition(" :- ")
        body = body.removesuffix(".").replace("not ", negation)
        yield f"{head}." if not body else f"{head}{arrow}{body} ."


def _token(match: re.Match[str], variable: Callable[[str], str]) -> str:
    text, predicate, _, name, _ = match.groups()
    if text is not None:
        return f'"{text}"'
    if predicate is not None:
        return f"{predicate.lower()}("
    return variable(name) if name is not None else ""


def to_clingo(rules: str) -> str:
    """Return joins, negation and recursion of a lacegram as clingo writes them."""
    return "\n".join(_translated(rules, str, "not ")) + "\n"


def to_nemo(rules: str) -> str:
    """Return joins, negation and recursion of a lacegram as Nemo writes them."""
    return "\n".join(_translated(rules, lambda name: f"?{name}", "~")) + "\n"


def _thousands(count: int) -> str:
    return f"{count // 1000}k"
