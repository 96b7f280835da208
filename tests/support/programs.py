"""Random safe, stratified programs and facts for them."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

VALUES = ("a", "b", "ab", "1", "2", "10", "-1")
NAMES = ("Group", "App", "Tag")
VARIABLES = ("X", "Y", "Z", "P", "Q")
KEYS = ("a", "b")
BASE = {"E": 2, "N": 1, "Have": 1, "Advertised": 2, "T": 3, "Now": 0}
DERIVED = {"A": 1, "B": 2, "C": 1, "D": 2, "F": 1, "G": 0}
ORDER = tuple(DERIVED)
TOGETHER = 2
"""So many predicates at a time may use each other."""

SHAPES = (
    "A(X) :- N(X).",
    "A(Y) :- A(X), E(X,Y).",
    "A(X) :- B(X,_).",
    "A(Y) :- B(_,Y).",
    "A(K) :- Advertised(K,K), AdvertisedField(K,K,'Tag',_,_).",
    "B(X,Y) :- E(X,Y).",
    "B(X,Z) :- B(X,Y), E(Y,Z).",
    "B(X,Z) :- B(X,Y), B(Y,Z).",
    "B(X,Y) :- A(X), A(Y).",
    "B(X,Y) :- A(X), E(X,Y).",
    "B(X,Z) :- B(X,_), B(_,Z).",
    "B(Z,Z) :- B(X,Y), B(Y,Z).",
    "B(X,'a') :- A(X).",
    "B(X,'b') :- N(X).",
    "B(K,X) :- AdvertisedField(K,K,'App',_,X).",
    "C(X) :- B(X,_), not B(X,X).",
    "C(X) :- A(X), Cardinality(B(L,L),'>','1').",
    "C(X) :- A(X), Cardinality(B(X,_),'<','2').",
    "D(X,Y) :- B(X,Y), LexCompare(X,'<',Y).",
    "D(X,Y) :- Field(X,'Tag',_,Y), not A(Y).",
    "D(X,Y) :- D(Y,X), E(X,_).",
    "F(X) :- N(X), Cardinality(D(X,L),'>=','1').",
    "F(X) :- E(X,Y), Cardinality(D(L,L),'<=','1'), F(Y).",
    "G() :- Cardinality(D(_,M),'>','2').",
)
"""Rules that follow each other well: closures, pairs, keys, open columns, counts of what is derived."""

constants = st.sampled_from(VALUES).map(lambda value: f"'{value}'")


@st.composite
def programs(draw: DrawFn) -> str:
    """Return the text of a program; of two predicates each may use both, and earlier ones."""
    lines = draw(st.lists(st.sampled_from(SHAPES), max_size=8, unique=True))
    for level, (name, arity) in enumerate(DERIVED.items()):
        lines += [draw(rules(level, name, arity)) for _ in range(draw(st.integers(0, 2)))]
    return "".join(f"{line}\n" for line in draw(st.permutations(lines)))


@st.composite
def rules(draw: DrawFn, level: int, name: str, arity: int) -> str:
    first = level - level % TOGETHER
    usable = {**BASE, **{n: DERIVED[n] for n in ORDER[: first + TOGETHER]}}
    complete = {**BASE, **{n: DERIVED[n] for n in ORDER[:first]}}
    variables = st.sampled_from(VARIABLES)
    anything = variables | constants | st.just("_")
    derived = atoms({n: a for n, a in usable.items() if n in DERIVED}, anything, wide=False)
    positive = draw(st.lists(atoms(usable, anything) | derived, min_size=0, max_size=3))
    bound = sorted({v for v in VARIABLES for atom in positive if v in atom_terms(atom)})
    known = (st.sampled_from(bound) | constants) if bound else constants
    body = list(positive)
    body += draw(st.lists(atoms(complete, known | st.just("_")).map("not {}".format), max_size=1))
    body += draw(st.lists(tests(known), max_size=2))
    local = st.sampled_from(["L", "M", "_"])
    body += draw(st.lists(counts(complete, known | local, known), max_size=1))
    body = draw(st.permutations(body)) or ["true"]
    head = ",".join(draw(known) for _ in range(arity))
    return f"{name}({head}) :- {', '.join(body)}."


def atom_terms(atom: str) -> list[str]:
    return atom[atom.index("(") + 1 : -1].split(",")


@st.composite
def atoms(
    draw: DrawFn,
    predicates: dict[str, int],
    terms: st.SearchStrategy[str],
    *,
    wide: bool = True,
) -> str:
    fields = ["Field", "Field", "Field", "AdvertisedField"] if wide else []
    name = draw(st.sampled_from([*predicates, *fields]))
    if name in fields:
        field = draw(st.sampled_from(NAMES).map(lambda n: f"'{n}'") | terms)
        index = draw(st.sampled_from(["_", "_", "_", "'0'"]) | terms)
        key = draw(keys(terms) if name == "AdvertisedField" else terms)
        return f"{name}({key},{field},{index},{draw(terms)})"
    if name == "Advertised":
        return f"{name}({draw(keys(terms))})"
    return f"{name}({','.join(draw(terms) for _ in range(predicates[name]))})"


@st.composite
def keys(draw: DrawFn, terms: st.SearchStrategy[str]) -> str:
    """Return the two terms of a key; often they are the same one."""
    first = draw(terms)
    return f"{first},{draw(st.just(first) | terms)}"


@st.composite
def tests(draw: DrawFn, terms: st.SearchStrategy[str]) -> str:
    operator = draw(st.sampled_from(["<", "<=", ">", ">="]))
    left, right = draw(terms), draw(terms)
    match draw(st.integers(0, 3)):
        case 0:
            return f"{left} != {right}"
        case 1:
            return f"LexCompare({left},'{operator}',{right})"
        case 2:
            sides = (
                side if side[0] != "'" else draw(st.sampled_from(("'1'", "'2'", "'-1'", "'007'")))
                for side in (left, right)
            )
            return f"IntCompare({next(sides)},'{operator}',{next(sides)})"
    start, delimiters = draw(st.sampled_from(("", "a"))), draw(st.sampled_from(("", "b", "01")))
    return f"TextShape({left},'{start}','{delimiters}',{right})"


@st.composite
def counts(
    draw: DrawFn,
    predicates: dict[str, int],
    terms: st.SearchStrategy[str],
    known: st.SearchStrategy[str],
) -> str:
    operator = draw(st.sampled_from(["<", "<=", ">", ">="]))
    bound = draw(known)
    if bound[0] == "'":
        bound = f"'{draw(st.sampled_from(['0', '1', '2', '-1']))}'"
    return f"Cardinality({draw(atoms(predicates, terms))},'{operator}',{bound})"


values = st.sampled_from(VALUES)


def _fact(name: str, arity: int) -> st.SearchStrategy[tuple[str, ...]]:
    return st.tuples(st.just(name), *[values] * arity)


def _field(name: str, *key: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    indexes = st.sampled_from(["0", "1"])
    return st.tuples(st.just(name), *key, st.sampled_from(NAMES), indexes, values)


few = st.sampled_from(KEYS)
some = st.sampled_from(VALUES[:4])
facts = st.one_of(
    [_fact(name, arity) for name, arity in BASE.items() if name != "Advertised"]
    + [st.tuples(st.just("Advertised"), few, few), _field("AdvertisedField", few, few)] * 2
    + [_field("Field", values)] * 3
    + [st.tuples(st.just("E"), some, some), st.tuples(st.just("N"), some)] * 2
)
fact_sets = st.lists(facts, max_size=25)
